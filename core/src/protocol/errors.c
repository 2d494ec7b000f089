#include "protocol/errors.h"

#include <string.h>

/* Return the text of the command's own error. Before Redis 7, the error of a command in a script
 * follows the script's line; an error that the script does not catch is also within an error of the
 * script. */
static const char *inner_error(const char *text) {
    static const char line[] = "@user_script:";
    const char *at = text, *next;
    if (strncmp(text, "ERR Error running script", 24) != 0 &&
        strncmp(text, line, sizeof line - 1) != 0)
        return text;
    while ((next = strstr(at, line)) != NULL)
        at = next + sizeof line - 1;
    at += strspn(at, " :0123456789");
    return *at == '-' ? at + 1 : at;
}

/* The one table of server errors, by their first word, after the prefix of a script of Redis 6.2.
 * All other errors are refusals, such as NOPERM, OOM, MISCONF and NOREPLICAS. */
hf_after_error hf_error_class(const char *text, hf_status *status) {
    static const struct {
        const char *code;
        hf_status status;
        hf_after_error after;
    } table[] = {
        {"NOSCRIPT", HF_ESERVER, HF_AFTER_LOAD},        /* after SCRIPT FLUSH, or on a new server */
        {"LOADING", HF_ESERVER, HF_AFTER_WAIT},         /* it reads its data after a start */
        {"BUSY", HF_ESERVER, HF_AFTER_WAIT},            /* it runs an endless script */
        {"MOVED", HF_ESERVER, HF_AFTER_MOVED},          /* another node of the Cluster has it */
        {"ASK", HF_ESERVER, HF_AFTER_ASK},              /* another node will have the slot, and has
                                                         * the key */
        {"TRYAGAIN", HF_ESERVER, HF_AFTER_SPLIT},       /* another node has some of the keys */
        {"CLUSTERDOWN", HF_ESERVER, HF_AFTER_WAIT},     /* no majority, for now */
        {"MASTERDOWN", HF_ESERVER, HF_AFTER_RECONNECT}, /* a replica without its master */
        {"READONLY", HF_ESERVER, HF_AFTER_RECONNECT},   /* it became a replica: find the master */
        {"UNBLOCKED", HF_ESERVER, HF_AFTER_RECONNECT},  /* it became a replica during the call */
        {"NOAUTH", HF_EAUTH, HF_AFTER_FAIL},            /* no password was sent */
        {"WRONGPASS", HF_EAUTH, HF_AFTER_FAIL},         /* the password is wrong */
    };
    text = inner_error(text);
    size_t length = strcspn(text, " ");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strlen(table[i].code) == length && memcmp(table[i].code, text, length) == 0) {
            *status = table[i].status;
            return table[i].after;
        }
    }
    *status = HF_ESERVER;
    return HF_AFTER_FAIL;
}

bool hf_error_permission(const char *text) {
    /* Outside a script; in a script of Redis 6 and 7.0; and of later versions. */
    return strstr(text, "NOPERM ") != NULL ||
           strstr(text, "The user executing the script") != NULL ||
           strstr(text, "ACL failure in script") != NULL;
}

bool hf_error_key(const char *text) {
    /* The text is "No permissions to access a key", and before Redis 7.2 "... one of the keys
     * ...". */
    return hf_error_permission(text) && strstr(text, " key") != NULL;
}

bool hf_error_command(const char *text) { return strncmp(text, "ERR unknown command", 19) == 0; }

bool hf_error_full(const char *text) { return strncmp(text, "ERR max number of clients", 25) == 0; }

bool hf_error_single(const char *text) { return strstr(text, "cluster support disabled") != NULL; }

int hf_error_shown(const char *text) {
    const char *arguments = strstr(text, ", with args");
    size_t length = arguments != NULL ? (size_t)(arguments - text) : strlen(text);
    return length < 300 ? (int)length : 300;
}

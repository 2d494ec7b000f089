#include "protocol/protocol.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- Names */

/* ":hf", digits, ":", one letter: how our own companion keys end. */
static bool reserved(const char *name, size_t length) {
    size_t at = length;
    if (at < 6 || !isalpha((unsigned char)name[at - 1]) || name[at - 2] != ':')
        return false;
    at -= 2;
    size_t digits_end = at;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < digits_end && at >= 3 && memcmp(name + at - 3, ":hf", 3) == 0;
}

/* Cluster's slot of a key with that tag: CRC16-XMODEM. */
static unsigned slot(const char *tag, size_t length) {
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)tag[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
    }
    return crc % HF_SLOTS;
}

hf_status hf_names_new(const void *name, size_t length, hf_names **names_out) {
    *names_out = NULL;
    if (name == NULL || length == 0)
        return hf_fail(HF_EINVAL, "the name is empty");
    if (length > HF_NAME_MAX)
        return hf_fail(HF_EINVAL, "the name has %zu bytes: at most %d", length, HF_NAME_MAX);
    if (reserved(name, length))
        return hf_fail(HF_EINVAL, "the name %s ends like one of a lock's own keys: choose another",
                       hf_quote(name, length));
    /* Cluster's rule for the hash tag: between the first { and the next }. */
    const char *tag = name, *open = memchr(name, '{', length);
    size_t tag_length = length;
    if (open != NULL) {
        const char *from = open + 1;
        const char *close = memchr(from, '}', length - (size_t)(from - (const char *)name));
        if (close != NULL && close > from) {
            tag = from;
            tag_length = (size_t)(close - from);
        }
    }
    /* Its companions could be those of a lock with that tag. */
    if (tag == name && memchr(name, '}', length) != NULL)
        return hf_fail(HF_EINVAL,
                       "the name %s has a } but no {tag}: leave it out, or put a tag in front",
                       hf_quote(name, length));
    hf_names *names = malloc(sizeof *names + 2 * length + tag_length + 3);
    if (names == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    names->references = 1;
    names->hash = hf_hash(0, name, length);
    names->slot = slot(tag, tag_length);
    names->length = length;
    names->tagged = tag_length + length + 3;
    memcpy(names->data, name, length);
    char *to = names->data + length;
    *to++ = '{';
    to = (char *)memcpy(to, tag, tag_length) + tag_length;
    *to++ = '}';
    to = (char *)memcpy(to, name, length) + length;
    *to = ':';
    *names_out = names;
    return HF_OK;
}

hf_names *hf_names_keep(hf_names *names) {
    __atomic_add_fetch(&names->references, 1, __ATOMIC_RELAXED);
    return names;
}

void hf_names_drop(hf_names *names) {
    if (names != NULL && __atomic_sub_fetch(&names->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(names);
}

/* -------------------------------------------------------------- Requests */

#define HEADER_MAX 24 /* "$<length>\r\n" or "*<count>\r\n" */

static char *add_header(char *to, char kind, size_t value) {
    *to++ = kind;
    to += hf_digits(to, (int64_t)value);
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

/* One string of two parts. */
static void add_parts(hf_bytes *bytes, const void *data, size_t length, const void *more,
                      size_t more_length) {
    char header[HEADER_MAX];
    size_t header_length = (size_t)(add_header(header, '$', length + more_length) - header);
    char *to = hf_bytes_room(bytes, header_length + length + more_length + 2);
    if (to == NULL)
        return;
    memcpy(to, header, header_length);
    memcpy(to += header_length, data, length);
    memcpy(to += length, more, more_length);
    memcpy(to + more_length, "\r\n", 2);
}

static void add_bulk(hf_bytes *bytes, const void *data, size_t length) {
    add_parts(bytes, data, length, "", 0);
}

void hf_request_begin(hf_request *request, const hf_script *script) {
    request->script = script;
    request->keys = request->arguments = 0;
    request->keys_end = 0;
    request->replicas = 0;
    request->slot = 0;
    hf_bytes_init(&request->encoded);
}

void hf_request_move(hf_request *to, hf_request *from) {
    *to = *from;
    if (from->encoded.data == from->encoded.small)
        to->encoded.data = to->encoded.small;
}

void hf_request_free(hf_request *request) { hf_bytes_free(&request->encoded); }

void hf_request_head(const hf_request *request, bool whole, hf_bytes *head) {
    char digits[HEADER_MAX];
    size_t count = (size_t)(3 + request->keys + request->arguments);
    hf_bytes_add(head, digits, (size_t)(add_header(digits, '*', count) - digits));
    if (whole) {
        add_bulk(head, "EVAL", 4);
        add_bulk(head, request->script->text, request->script->length);
    } else {
        add_bulk(head, "EVALSHA", 7);
        add_bulk(head, request->script->sha1, 40);
    }
    add_bulk(head, digits, hf_digits(digits, request->keys));
}

void hf_request_lock(hf_request *request, const hf_names *names) {
    request->keys++;
    request->slot = names->slot;
    add_bulk(&request->encoded, names->data, names->length);
    request->keys_end = request->encoded.length;
}

static void add_companion(hf_request *request, const hf_names *names, const char *suffix,
                          size_t length) {
    request->keys++;
    add_parts(&request->encoded, names->data + names->length, names->tagged, suffix, length);
    request->keys_end = request->encoded.length;
}

void hf_request_companion(hf_request *request, const hf_names *names, const char *suffix) {
    add_companion(request, names, suffix, strlen(suffix));
}

void hf_request_dead(hf_request *request, const hf_names *names, const char *id) {
    char suffix[HF_ID_LENGTH + 7];
    memcpy(suffix, id, HF_ID_LENGTH);
    memcpy(suffix + HF_ID_LENGTH, ":hf1:d", 6);
    add_companion(request, names, suffix, HF_ID_LENGTH + 6);
}

void hf_request_bytes(hf_request *request, const void *bytes, size_t length) {
    request->arguments++;
    add_bulk(&request->encoded, bytes, length);
}

void hf_request_number(hf_request *request, int64_t number) {
    char digits[24];
    hf_request_bytes(request, digits, hf_digits(digits, number));
}

void hf_request_permissions(hf_request *request, const hf_request *refused) {
    hf_request_begin(request, &hf_script_permissions);
    hf_bytes_add(&request->encoded, refused->encoded.data, refused->keys_end);
    request->arguments = refused->keys;
    request->slot = refused->slot;
}

/* The string at *at in what was encoded; *at moves behind it. */
static const char *next_bulk(const hf_request *request, size_t *at, size_t *length) {
    const char *from = request->encoded.data + *at;
    char *end;
    *length = strtoul(from + 1, &end, 10);
    *at += (size_t)(end + 2 - from) + *length + 2;
    return end + 2;
}

bool hf_request_alone(hf_request *request, const hf_request *split) {
    size_t at = split->keys_end, key_length, id_length, length = 0;
    if (split->script != &hf_script_release || split->keys != 3 || split->encoded.failed)
        return false; /* its dead id is to be written too */
    const char *id = next_bulk(split, &at, &id_length);
    while (at < split->encoded.length)
        next_bulk(split, &at, &length);
    if (split->arguments > 1 && length > 0)
        return false; /* and what waits is to leave the queue */
    at = 0;
    const char *key = next_bulk(split, &at, &key_length);
    hf_request_begin(request, &hf_script_leave);
    add_bulk(&request->encoded, key, key_length);
    request->keys = 1;
    request->keys_end = request->encoded.length;
    request->slot = split->slot;
    hf_request_bytes(request, id, id_length);
    return true;
}

/* --------------------------------------------------------------- Replies */

bool hf_reply_numbers(const redisReply *reply, int64_t *numbers, size_t count) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
        numbers[i] = reply->element[i]->integer;
    }
    return true;
}

bool hf_reply_states(const redisReply *reply, int64_t *numbers, size_t count) {
    if (!hf_reply_numbers(reply, numbers, 2 + 3 * count) || numbers[0] < 1 ||
        numbers[0] > HF_NUMBER_MAX)
        return false;
    for (const int64_t *mine = numbers + 2; count > 0; count--, mine += 3) {
        bool held = mine[0] == HF_REPLY_HELD;
        int64_t most = held ? HF_LEASE_MAX : HF_NUMBER_MAX;
        if (mine[0] < HF_REPLY_BUSY || mine[0] > HF_REPLY_FOREIGN || mine[1] < held ||
            mine[1] > HF_NUMBER_MAX || mine[2] < -1 || mine[2] > most)
            return false;
    }
    return true;
}

bool hf_reply_holds(const redisReply *reply) {
    int64_t numbers[3];
    if (reply->type == REDIS_REPLY_INTEGER)
        return true;
    if (hf_reply_numbers(reply, numbers, 3))
        return numbers[2] == HF_REPLY_HELD;
    return hf_reply_numbers(reply, numbers, 2) && numbers[1] >= -1;
}

/* Before Redis 7 the error of a command in a script stands behind the script's line; one that
 * the script does not catch, in an error of the script's besides. */
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

/* The one table of server errors, by the first word. A script's own error
 * comes wrapped ("ERR ... script: ..."), but these keep their code. */
hf_after_error hf_error_class(const char *text, hf_status *status) {
    static const struct {
        const char *code;
        hf_status status;
        hf_after_error after;
    } table[] = {
        {"NOSCRIPT", HF_ESERVER, HF_AFTER_LOAD},        /* SCRIPT FLUSH, a new server */
        {"LOADING", HF_ESERVER, HF_AFTER_WAIT},         /* reading its data after a start */
        {"BUSY", HF_ESERVER, HF_AFTER_WAIT},            /* in somebody's endless script */
        {"MOVED", HF_ESERVER, HF_AFTER_MOVED},          /* another node of the Cluster has it */
        {"ASK", HF_ESERVER, HF_AFTER_ASK},              /* or will have it, and has it already */
        {"TRYAGAIN", HF_ESERVER, HF_AFTER_SPLIT},       /* or has some of the keys */
        {"CLUSTERDOWN", HF_ESERVER, HF_AFTER_WAIT},     /* no majority, for now */
        {"MASTERDOWN", HF_ESERVER, HF_AFTER_RECONNECT}, /* a replica without its master */
        {"READONLY", HF_ESERVER, HF_AFTER_RECONNECT},   /* became a replica: find the master */
        {"UNBLOCKED", HF_ESERVER, HF_AFTER_RECONNECT},  /* became a replica under the call */
        {"NOAUTH", HF_EAUTH, HF_AFTER_FAIL},            /* it wants a password */
        {"WRONGPASS", HF_EAUTH, HF_AFTER_FAIL},         /* it wants another */
        {"NOPERM", HF_ESERVER, HF_AFTER_FAIL},          /* the user's ACL lacks a permission */
        {"OOM", HF_ESERVER, HF_AFTER_FAIL},             /* out of memory, noeviction */
        {"MISCONF", HF_ESERVER, HF_AFTER_FAIL},         /* cannot save to its disk */
        {"NOREPLICAS", HF_ESERVER, HF_AFTER_FAIL},      /* min-replicas-to-write not met */
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
    /* Alone, and in a script: of Redis 6 and 7.0, and of those after. */
    return strstr(text, "NOPERM ") != NULL ||
           strstr(text, "The user executing the script") != NULL ||
           strstr(text, "ACL failure in script") != NULL;
}

int hf_error_shown(const char *text) {
    const char *arguments = strstr(text, ", with args");
    size_t length = arguments != NULL ? (size_t)(arguments - text) : strlen(text);
    return length < 300 ? (int)length : 300;
}

#include "net/login.h"

#include <stdio.h>
#include <string.h>

#include "base/simulated.h"
#include "net/member.h"
#include "protocol/answers.h"
#include "protocol/errors.h"

/* Return the server's error as a status; HF_ECONNECT: it passes. A server that does not know AUTH
 * quotes the password: the message shows only the text before the first quote. */
static hf_status refused(const hf_address *address, const char *what, const redisReply *reply) {
    hf_status status = HF_EPROTOCOL;
    if (reply->type != REDIS_REPLY_ERROR)
        return hf_fail(status, "%s gave an unexpected reply to %s", address->shown, what);
    hf_after_error after = hf_error_class(reply->str, &status);
    if (after == HF_AFTER_WAIT || after == HF_AFTER_RECONNECT) {
        HF_MARK("H173");
        status = HF_ECONNECT;
    }
    if (strcmp(what, "AUTH") != 0)
        return hf_fail(status, "%s refused %s: %.200s", address->shown, what, reply->str);
    char *secret = NULL;
    hf_address_secret(address, &secret);
    bool told = secret == NULL || (*secret != '\0' && strstr(reply->str, secret) != NULL);
    hf_secret_free(secret);
    int length = told ? 0 : (int)strcspn(reply->str, "'`\"");
    return hf_fail(HF_EAUTH, "%s refused the user or the password: %.*s", address->shown,
                   length < 200 ? length : 200, reply->str);
}

static hf_status too_old(const hf_address *address, const char *version) {
    HF_MARK("M8");
    int length = (int)strcspn(version, "\r\n"); /* in INFO another line follows */
    return hf_fail(HF_EUNSUPPORTED, "%s runs Redis %.*s: 6.2 or newer is needed", address->shown,
                   length < 20 ? length : 20, version);
}

/* Queue the library's name and version for the next write. If the user lacks the permission, the
 * server refuses only these. */
static bool introduce(hf_connection *connection) {
    const char *name[] = {"CLIENT", "SETINFO", "LIB-NAME", "holdfast"};
    const char *version[] = {"CLIENT", "SETINFO", "LIB-VER", hf_version()};
    connection->unheeded += 2;
    return hf_connection_append_words(connection, 4, name, NULL) &&
           hf_connection_append_words(connection, 4, version, NULL);
}

static hf_status check_version(hf_connection *connection, const hf_address *address,
                               const char *version) {
    int major, minor;
    if (version == NULL || sscanf(version, "%d.%d", &major, &minor) != 2)
        return hf_fail(HF_EPROTOCOL, "%s does not tell its version", address->shown);
    if (major < 6 || (major == 6 && minor < 2))
        return too_old(address, version);
    if ((major > 7 || (major == 7 && minor >= 2)) && !introduce(connection))
        return hf_fail(HF_ENOMEM, "no memory");
    return HF_OK;
}

static hf_status check_info(hf_connection *connection, const hf_address *address,
                            int64_t deadline) {
    redisReply *reply;
    const hf_words question = {2, {"INFO", "server"}};
    hf_status status = hf_connection_ask(connection, deadline, 1, &question, &reply);
    if (status != HF_OK)
        return status;
    bool text = reply->type == REDIS_REPLY_STRING; /* NOLINT: with HF_OK there is a reply */
    const char *version = text ? strstr(reply->str, "redis_version:") : NULL;
    status = version != NULL
                 ? check_version(connection, address, version + strlen("redis_version:"))
                 : refused(address, "INFO", reply);
    freeReplyObject(reply);
    return status;
}

/* Check the answer to HELLO, which reports the version to any user, and names the connection.
 * Before Redis 6 only INFO reports it. */
static hf_status check_hello(hf_connection *connection, const hf_address *address,
                             const redisReply *reply, int64_t deadline) {
    if (reply->type == REDIS_REPLY_ERROR && hf_error_permission(reply->str))
        return HF_OK; /* it has ACLs, so it is new enough to try */
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "ERR", 3) == 0)
        return check_info(connection, address, deadline);
    if (reply->type != REDIS_REPLY_ARRAY)
        return refused(address, "HELLO", reply);
    return check_version(connection, address, hf_reply_field(reply, "version"));
}

/* Check the role: a replica, or a master that is being demoted, must not be taken for the
 * master. */
static hf_status check_role(const hf_address *address, const redisReply *reply) {
    if (reply->type == REDIS_REPLY_ERROR)
        return refused(address, "ROLE", reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "master") != 0)
        return hf_fail(HF_ECONNECT, "%s is not a master now", address->shown);
    return HF_OK;
}

/* The commands of the log-in, sent in one write, in the order of their answers. */
enum { AUTH, HELLO, ROLE, SELECT, RUN, LIST, GREETINGS };

static hf_status check_run(const hf_address *address, const redisReply *reply, int64_t sent_at) {
    hf_run run;
    if (reply->type != REDIS_REPLY_STRING)
        return refused(address, "INFO, which the masters of a quorum are asked for", reply);
    if (!hf_run_read(reply->str, &run))
        return hf_fail(HF_EUNSUPPORTED,
                       "%s does not tell since when it runs: it cannot be a master of a quorum",
                       address->shown);
    return hf_member_met(address->members, address->member, &run, sent_at);
}

/* Write this client's list. The client whose list was there first is right: another client that
 * logs in at this moment is refused at its next log-in. */
static hf_status write_list(hf_connection *connection, const hf_address *address,
                            int64_t deadline) {
    redisReply *reply;
    const hf_words set = {4, {"SET", HF_MEMBERS_KEY, address->members->list, "NX"}};
    hf_status status = hf_connection_ask(connection, deadline, 1, &set, &reply);
    const char *error = status == HF_OK && reply->type == REDIS_REPLY_ERROR ? reply->str : "";
    if (strncmp(error, "READONLY", 8) == 0)
        status = hf_fail(HF_ECONNECT, "%s is not a master now", address->shown);
    else if (hf_error_permission(error))
        status = refused(address, "SET " HF_MEMBERS_KEY, reply);
    freeReplyObject(reply);
    return status;
}

/* Check the list there, or write ours. A client that any master refuses writes its list on none, so
 * that a mistyped URL shuts no other client out. */
static hf_status check_list(hf_connection *connection, const hf_address *address,
                            const redisReply *reply, int64_t deadline) {
    bool missing = reply->type == REDIS_REPLY_NIL;
    if (!missing && reply->type != REDIS_REPLY_STRING)
        return refused(address, "GET " HF_MEMBERS_KEY, reply);
    hf_status status = hf_member_lists(address->members, address->member,
                                       missing ? address->members->list : reply->str);
    if (status == HF_OK && missing && hf_members_let_in(address->members))
        status = write_list(connection, address, deadline);
    return status;
}

/* Send the greetings that are needed, and read their answers. needs HF_ASKS_ONLY: only the
 * password. */
static hf_status exchange_greetings(hf_connection *connection, const hf_address *address,
                                    const char *secret, int needs, int64_t deadline,
                                    redisReply **replies) {
    char number[16];
    const bool logs_in = needs != HF_ASKS_ONLY, of_quorum = logs_in && address->members != NULL;
    const int auth = secret == NULL ? 0 : address->user == NULL ? 2 : 3;
    const hf_words greetings[GREETINGS] = {
        [AUTH] = {auth, {"AUTH", auth == 3 ? address->user : secret, secret}},
        [HELLO] = {logs_in ? 4 : 0, {"HELLO", "2", "SETNAME", address->options.client_name}},
        [ROLE] = {needs == HF_NEEDS_MASTER ? 1 : 0, {"ROLE"}},
        [SELECT] = {logs_in && address->database != 0 ? 2 : 0, {"SELECT", number}},
        [RUN] = {of_quorum ? 2 : 0, {"INFO", "server"}},
        [LIST] = {of_quorum ? 2 : 0, {"GET", HF_MEMBERS_KEY}},
    };
    snprintf(number, sizeof number, "%d", address->database);
    return hf_connection_ask(connection, deadline, GREETINGS, greetings, replies);
}

static hf_status check_greeting(hf_connection *connection, const hf_address *address, int which,
                                const redisReply *reply, int64_t sent_at, int64_t deadline) {
    static const char *const names[] = {[AUTH] = "AUTH", [SELECT] = "SELECT"};
    /* In our words: the rest of a hostile server's text may be the password. */
    if (reply->type == REDIS_REPLY_ERROR && hf_error_full(reply->str))
        return hf_fail(HF_ECONNECT, "%s refused the connection: max number of clients reached",
                       address->shown);
    if (which == HELLO)
        return check_hello(connection, address, reply, deadline);
    if (which == ROLE)
        return check_role(address, reply);
    if (which == RUN)
        return check_run(address, reply, sent_at);
    if (which == LIST)
        return check_list(connection, address, reply, deadline);
    bool ok = reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
    return ok ? HF_OK : refused(address, names[which], reply);
}

/* Read all answers first, because a check may send another request. A server that hangs up has
 * usually reported the reason. */
hf_status hf_login_greet(hf_connection *connection, const hf_address *address, int needs,
                         int64_t deadline) {
    redisReply *replies[GREETINGS] = {NULL};
    char *secret = NULL;
    hf_status status = hf_address_secret(address, &secret), checked = HF_OK;
    int64_t sent_at = hf_now(); /* of all, which are sent with the first */
    if (status == HF_OK)
        status = exchange_greetings(connection, address, secret, needs, deadline, replies);
    hf_secret_free(secret);
    /* No password may stay in a buffer that lives on, nor in the buffer that it has outgrown.
     * Before a check queues more. */
    memset(connection->output.data, 0, connection->output.capacity);
    memset(connection->output.small, 0, sizeof connection->output.small);
    for (int i = 0; i < GREETINGS && checked == HF_OK; i++)
        if (replies[i] != NULL)
            checked = check_greeting(connection, address, i, replies[i], sent_at, deadline);
    hf_replies_free(replies, GREETINGS);
    return checked != HF_OK ? checked : status;
}

hf_status hf_login_open(const hf_address *address, const hf_tls *tls, int needs, int64_t deadline,
                        hf_connection **connection_out) {
    hf_connection *connection;
    hf_status status = hf_connection_new(address, tls, deadline, &connection);
    *connection_out = NULL;
    if (status != HF_OK)
        return status;
    if (needs != HF_ASKS_ONLY)
        status = hf_login_greet(connection, address, needs, deadline);
    if (status == HF_OK) {
        *connection_out = connection;
        return HF_OK;
    }
    if (status == HF_ECONNECT || (status == HF_EPROTOCOL && connection->error != 0))
        hf_explain("cannot log in to %s: %s", address->shown, hf_error_message());
    hf_connection_close(connection);
    return status;
}

/* A client's servers: whether they answer, and whether their settings suit locks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/quorum.h"
#include "look/node.h"

/* The largest difference between the server's clock and ours without a finding. */
#define CLOCK_US INT64_C(1000000)
/* The part of a limit that is worth a warning, in percent. */
#define NEARLY 90

/* ------------------------------------------------------------------ Ping */

/* Return an answer of the server, or the status of its error. */
static hf_status ask(hf_client *client, int node, char *shown, const hf_words *words,
                     redisReply **reply) {
    hf_status status = hf_node_ask(client, node, shown, words, reply);
    if (status != HF_OK || (*reply)->type != REDIS_REPLY_ERROR)
        return status;
    hf_transport_error(client->transport, shown, (*reply)->str, &status);
    freeReplyObject(*reply);
    *reply = NULL;
    return status != HF_OK ? status : HF_ESERVER;
}

/* Return whether the user may not use the command, or the service lacks it. */
static bool refused(hf_status status) {
    return status == HF_ESERVER && (hf_error_permission(hf_error_message()) ||
                                    strstr(hf_error_message(), "unknown command") != NULL);
}

hf_status hf_client_ping(hf_client *client, size_t *servers_out) {
    HF_NOT_CANCELLED;
    hf_status status = hf_client_check(client);
    size_t servers = 0;
    if (servers_out != NULL)
        *servers_out = 0;
    if (status == HF_OK && client->quorum != NULL)
        status = hf_quorum_try(client, false, servers_out);
    if (status != HF_OK || client->quorum != NULL)
        return status;
    for (int node = 0; status == HF_OK; node++) {
        char shown[HF_SHOWN_MAX];
        redisReply *reply;
        node = hf_node_next(client->transport, node);
        if (node < 0)
            break;
        status = ask(client, node, shown, &(const hf_words){1, {"PING"}}, &reply);
        freeReplyObject(reply);
        servers += status == HF_OK;
    }
    if (servers_out != NULL)
        *servers_out = servers;
    return status == HF_OK && servers == 0 ? hf_fail(HF_ECONNECT, "no server is known") : status;
}

/* -------------------------------------------------------------- A survey */

typedef struct survey {
    hf_client *client;
    hf_members *members; /* of a quorum; or NULL */
    size_t member;       /* its index in members */
    int node;
    char server[HF_SHOWN_MAX];
    redisReply *info;
    hf_finding *findings;
    size_t count;
    hf_status status; /* of a setting that the server did not answer */
} survey;

__attribute__((format(printf, 4, 5))) static void
find(survey *of, int32_t level, const char *subject, const char *format, ...) {
    hf_finding *one = &of->findings[of->count++];
    va_list arguments;
    one->level = level;
    snprintf(one->subject, sizeof one->subject, "%s", subject);
    snprintf(one->server, sizeof one->server, "%s",
             of->members != NULL ? of->members->of[of->member].shown : of->server);
    va_start(arguments, format);
    vsnprintf(one->text, sizeof one->text, format, arguments);
    va_end(arguments);
    for (char *c = one->text; *c != '\0'; c++)
        if (*c < 0x20 || *c > 0x7e) /* parts of the text come from the server */
            *c = '?';
}

static const char *field(const survey *of, const char *name, char to[64]) {
    return hf_info_field(of->info->str, name, to, 64);
}

static int64_t number_of(const survey *of, const char *name) {
    char value[64];
    return strtoll(field(of, name, value), NULL, 10);
}

/* Return a setting; empty: the user may not ask, or the service has no CONFIG. */
static const char *setting(survey *of, const char *name, char to[64]) {
    redisReply *reply;
    *to = '\0';
    hf_status status = ask(of->client, of->node, of->server,
                           &(const hf_words){3, {"CONFIG", "GET", name}}, &reply);
    if (status != HF_OK) {
        of->status = status != HF_ESERVER ? status : of->status;
        return to;
    }
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[1]->type == REDIS_REPLY_STRING) {
        snprintf(to, 64, "%s", reply->element[1]->str);
        to[strcspn(to, "\r\n")] = '\0';
    }
    freeReplyObject(reply);
    return to;
}

/* ------------------------------------------------------- Findings by INFO */

static void look_at_server(survey *of) {
    char version[64], valkey[64], role[64];
    if (*field(of, "valkey_version", valkey) != '\0')
        find(of, HF_FINDING_GOOD, "version", "Valkey %s", valkey);
    else
        find(of, HF_FINDING_GOOD, "version", "Redis %s", field(of, "redis_version", version));
    if (strcmp(field(of, "role", role), "slave") == 0)
        find(of, HF_FINDING_WARNING, "role",
             "it is a replica, on which no lock can be acquired: name its master, or use "
             "redis+sentinel:// or redis+cluster://");
}

static void look_at_memory(survey *of) {
    char policy[64];
    int64_t used = number_of(of, "used_memory"), most = number_of(of, "maxmemory");
    field(of, "maxmemory_policy", policy);
    if (*policy == '\0')
        find(of, HF_FINDING_NOTE, "eviction", "the server does not tell its maxmemory-policy");
    else if (strcmp(policy, "noeviction") == 0)
        find(of, HF_FINDING_GOOD, "eviction", "maxmemory-policy noeviction");
    else
        find(of, most > 0 ? HF_FINDING_WARNING : HF_FINDING_NOTE, "eviction",
             "maxmemory-policy %s deletes held locks when the memory is full%s: set it to "
             "noeviction",
             policy, most > 0 ? "" : ", if maxmemory is ever set");
    if (most > 0)
        find(of, used > most / 100 * NEARLY ? HF_FINDING_WARNING : HF_FINDING_GOOD, "memory",
             "%lld of %lld MB are used%s", (long long)used >> 20, (long long)most >> 20,
             used > most / 100 * NEARLY ? ": soon no lock can be acquired" : "");
}

/* Check a master that must keep its data only without a quarantine. */
static void look_at_quorums_persistence(survey *of) {
    char sync[64] = "";
    int64_t quarantine_ms = of->members->quarantine_ms;
    bool kept = number_of(of, "aof_enabled") != 0;
    bool always = kept && strcmp(setting(of, "appendfsync", sync), "always") == 0;
    if (quarantine_ms > 0)
        find(of, HF_FINDING_GOOD, "persistence",
             "%s%s%s; after a restart it gives no new hold for %.0f s, the quarantine",
             kept ? "append-only file" : "no append-only file",
             *sync != '\0' ? ", appendfsync " : "", sync, (double)quarantine_ms / 1000);
    else if (!kept)
        find(of, HF_FINDING_WARNING, "persistence",
             "no append-only file, and quarantine=0: a restarted master gives away what is still "
             "held; set appendonly yes and appendfsync always, or give the URL a quarantine");
    else if (!always && *sync != '\0')
        find(of, HF_FINDING_WARNING, "persistence",
             "appendfsync %s, and quarantine=0: a master that crashes gives away what it was "
             "given last; set always, or give the URL a quarantine",
             sync);
    else
        find(of, HF_FINDING_GOOD, "persistence", "append-only file%s",
             always ? ", appendfsync always" : "");
}

static void look_at_persistence(survey *of) {
    char saved[64], written[64], sync[64];
    bool failed = strcmp(field(of, "rdb_last_bgsave_status", saved), "err") == 0 ||
                  strcmp(field(of, "aof_last_write_status", written), "err") == 0;
    if (*saved == '\0')
        find(of, HF_FINDING_NOTE, "persistence", "the server does not tell whether it persists");
    else if (failed)
        find(of, HF_FINDING_WARNING, "persistence",
             "the last write to its disk failed: it may refuse acquires (MISCONF), and a restart "
             "forgets locks");
    else if (of->members != NULL)
        look_at_quorums_persistence(of);
    else if (number_of(of, "aof_enabled") == 0)
        find(of, HF_FINDING_WARNING, "persistence",
             "no append-only file: a restarted server has forgotten its locks, and others can "
             "acquire what is still in use; set appendonly yes");
    else if (strcmp(setting(of, "appendfsync", sync), "no") == 0)
        find(of, HF_FINDING_NOTE, "persistence",
             "append-only file with appendfsync no: a crash of the machine loses what the "
             "system has not written yet; set everysec or always");
    else
        find(of, HF_FINDING_GOOD, "persistence", "append-only file%s%s",
             *sync != '\0' ? ", appendfsync " : "", sync);
}

static void look_at_replicas(survey *of) {
    char least[64];
    int64_t replicas = number_of(of, "connected_slaves");
    if (of->members != NULL) {
        find(of, replicas > 0 ? HF_FINDING_WARNING : HF_FINDING_GOOD, "replicas", "%lld%s",
             (long long)replicas,
             replicas > 0 ? ": one that takes over has lost votes unnoticed; a master of "
                            "a quorum has none"
                          : ", as a quorum wants it");
        return;
    }
    if (replicas == 0) {
        find(of, HF_FINDING_NOTE, "replicas",
             "none: while this server is down no lock can be acquired");
        return;
    }
    setting(of, "min-replicas-to-write", least);
    if (strcmp(least, "0") == 0)
        find(of, HF_FINDING_NOTE, "replicas",
             "%lld, and min-replicas-to-write 0: a master that is cut off from them goes on "
             "granting locks; with two replicas or more, set it to 1",
             (long long)replicas);
    else
        find(of, HF_FINDING_GOOD, "replicas", "%lld%s%s", (long long)replicas,
             *least != '\0' ? ", min-replicas-to-write " : "", least);
}

static void look_at_connections(survey *of) {
    int64_t open = number_of(of, "connected_clients"), most = number_of(of, "maxclients");
    bool nearly = most > 0 && open * 100 > most * NEARLY;
    if (most > 0)
        find(of, nearly ? HF_FINDING_WARNING : HF_FINDING_GOOD, "connections",
             "%lld of %lld are open%s", (long long)open, (long long)most,
             nearly ? ": soon it refuses new ones" : "");
}

static void look_at_run(survey *of) {
    int64_t young_ms = hf_member_young_ms(of->members, of->member, hf_now());
    int64_t up_s = number_of(of, "uptime_in_seconds");
    if (young_ms > 0)
        find(of, HF_FINDING_NOTE, "run",
             "up for %lld s: in quarantine, it gives no new hold for another %.1f s",
             (long long)up_s, (double)young_ms / 1000);
    else
        find(of, HF_FINDING_GOOD, "run", "up for %lld s", (long long)up_s);
}

/* Check the list. The log-in has found a list that does not agree. */
static hf_status look_at_list(survey *of) {
    redisReply *reply;
    const char *own = of->members->list;
    hf_status status = ask(of->client, of->node, of->server,
                           &(const hf_words){2, {"GET", HF_MEMBERS_KEY}}, &reply);
    if (status != HF_OK)
        return status;
    if (reply->type != REDIS_REPLY_STRING)
        find(of, HF_FINDING_NOTE, "members",
             HF_MEMBERS_KEY " is not there yet: a client writes it that all masters let in");
    else if (strcmp(reply->str, own) == 0)
        find(of, HF_FINDING_GOOD, "members", "%s", own);
    else
        find(of, HF_FINDING_NOTE, "members",
             "%s; this client's list differs by one master: once every client has it, "
             "SET " HF_MEMBERS_KEY " \"%s\"",
             reply->str, own);
    freeReplyObject(reply);
    return HF_OK;
}

static hf_status look_at_info(survey *of) {
    hf_status status =
        ask(of->client, of->node, of->server, &(const hf_words){1, {"INFO"}}, &of->info);
    if (refused(status)) {
        find(of, HF_FINDING_NOTE, "version",
             "the user may not use INFO, which tells version, eviction, persistence and replicas");
        return HF_OK;
    }
    if (status != HF_OK)
        return status;
    if (of->info->type == REDIS_REPLY_STRING) {
        look_at_server(of);
        look_at_memory(of);
        look_at_persistence(of);
        look_at_replicas(of);
        look_at_connections(of);
        if (of->members != NULL)
            look_at_run(of);
    }
    freeReplyObject(of->info);
    return of->members != NULL ? look_at_list(of) : HF_OK;
}

/* --------------------------------------------------------- Other findings */

static void look_at_timeouts(survey *of) {
    char idle[64], alive[64];
    setting(of, "timeout", idle);
    setting(of, "tcp-keepalive", alive);
    if (*idle == '\0') {
        find(of, HF_FINDING_NOTE, "timeout",
             "unknown: the user may not use CONFIG GET, or the service does not have it");
        return;
    }
    if (strcmp(idle, "0") == 0)
        find(of, HF_FINDING_GOOD, "timeout", "timeout 0: quiet connections stay");
    else
        find(of, HF_FINDING_NOTE, "timeout",
             "timeout %s: the server closes connections that are quiet for that long, and "
             "the client opens new ones",
             idle);
    int64_t seconds = strtoll(alive, NULL, 10);
    if (seconds > 0 && seconds <= 60)
        find(of, HF_FINDING_GOOD, "keepalive", "tcp-keepalive %s", alive);
    else
        find(of, HF_FINDING_NOTE, "keepalive",
             "tcp-keepalive %s: waiters of a machine that vanished count as alive for %s; set 60",
             alive, seconds > 0 ? "that many seconds" : "ever");
}

static hf_status look_at_clock(survey *of) {
    redisReply *reply;
    int64_t before = hf_wall_us();
    hf_status status =
        ask(of->client, of->node, of->server, &(const hf_words){1, {"TIME"}}, &reply);
    int64_t after = hf_wall_us();
    if (refused(status)) {
        find(of, HF_FINDING_WARNING, "clock", "the user may not use TIME, which every lock needs");
        return HF_OK;
    }
    if (status != HF_OK)
        return status;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->type == REDIS_REPLY_STRING &&
        reply->element[1]->type == REDIS_REPLY_STRING) {
        int64_t ahead = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                        strtoll(reply->element[1]->str, NULL, 10) - (before + after) / 2;
        bool near = ahead < CLOCK_US && ahead > -CLOCK_US;
        find(of, near ? HF_FINDING_GOOD : HF_FINDING_NOTE, "clock",
             "the server's is %lld ms %s this machine's%s", llabs((long long)ahead) / 1000,
             ahead < 0 ? "behind" : "ahead of",
             near ? ""
                  : ": leases follow the server's, so this alone does no harm; but one of the two "
                    "may soon be set, and a server's clock that steps ends leases early or late");
    }
    freeReplyObject(reply);
    return HF_OK;
}

/* Use the script that also explains refusals, for all keys of that lock. */
static hf_status look_at_permissions(survey *of, const hf_names *names) {
    hf_request all, question;
    hf_answer answer;
    hf_ask ask = {.id = of->client->id};
    if (hf_discovery_node(of->client->transport->discovery, names->slot) != of->node)
        return HF_OK;
    hf_request_cancel(&all, names, &ask, false); /* it has all keys; it is not sent */
    hf_request_permissions(&question, &all);
    hf_status status = hf_transport_call(of->client->transport, &question,
                                         hf_client_patience(of->client), &answer);
    if (status == HF_ESERVER)
        find(of, HF_FINDING_WARNING, "permissions", "a script is refused: %s", hf_error_message());
    else if (status == HF_OK && answer.reply->type == REDIS_REPLY_STRING && answer.reply->len > 0)
        find(of, HF_FINDING_WARNING, "permissions",
             "the user lacks %.300s: docs/connecting.md has the whole rule", answer.reply->str);
    else if (status == HF_OK)
        find(of, HF_FINDING_GOOD, "permissions", "the user may run the scripts");
    freeReplyObject(answer.reply);
    hf_request_free(&question);
    hf_request_free(&all);
    if (status == HF_EUNKNOWN) /* the script changes nothing */
        return HF_ECONNECT;
    return status == HF_ESERVER ? HF_OK : status;
}

/* Report a master that does not answer: a quorum works without it, and the survey goes on with the
 * others. */
static hf_status tell_absent(survey *of, hf_status status) {
    of->count = 0;
    find(of, HF_FINDING_WARNING, status == HF_EINVAL ? "members" : "reach", "%s",
         hf_error_message());
    return HF_OK;
}

/* Return the node with that index among those that serve slots; -1: there are fewer. */
static int nth_node(hf_client *client, size_t server) {
    int node = hf_node_next(client->transport, 0);
    for (; node >= 0 && server > 0; server--)
        node = hf_node_next(client->transport, node + 1);
    return node;
}

hf_status hf_client_survey(hf_client *client, size_t server, const void *name, size_t name_len,
                           hf_finding *findings, size_t capacity, size_t *count_out) {
    HF_NOT_CANCELLED;
    hf_names *names = NULL;
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    if (findings == NULL || count_out == NULL || capacity < HF_FINDINGS_MAX)
        return hf_fail(HF_EINVAL,
                       "a survey needs room for %d findings, and a place for their count",
                       HF_FINDINGS_MAX);
    *count_out = 0;
    survey of = {.client = client, .findings = findings};
    if (client->quorum != NULL) { /* each master is one server */
        if (server >= client->quorum->count)
            return HF_OK;
        of.members = client->quorum->members;
        of.member = server;
        of.client = client->quorum->masters[server].client;
        server = 0;
    }
    if (name != NULL)
        status = hf_names_new(name, name_len, 0, &names);
    if (status != HF_OK)
        return status;
    of.node = nth_node(of.client, server);
    if (of.node >= 0) {
        status = look_at_info(&of);
        if (status == HF_OK && names != NULL)
            status = look_at_permissions(&of, names);
        if (status == HF_OK)
            status = look_at_clock(&of);
        if (status == HF_OK)
            look_at_timeouts(&of);
        if (status == HF_OK)
            status = of.status;
        if (status != HF_OK && status != HF_ENOMEM && of.members != NULL &&
            hf_client_check(client) == HF_OK)
            status = tell_absent(&of, status);
        *count_out = status == HF_OK ? of.count : 0;
    }
    hf_names_drop(names);
    return status;
}

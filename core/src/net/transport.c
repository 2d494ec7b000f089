#include "net/transport.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/brake.h"
#include "base/simulated.h"
#include "net/joint.h"
#include "net/member.h"
#include "net/pool.h"
#include "protocol/answers.h"

/* A longer request, with a result, has a connection of its own. */
#define JOINS_MAX 4096

/* ---------------------------------------------------- Opening and closing */

void hf_warn(char *warnings, size_t capacity, const char *format, ...) {
    va_list arguments;
    size_t length = strlen(warnings);
    if (length > 0)
        length += (size_t)snprintf(warnings + length, capacity - length, "; ");
    if (length >= capacity)
        return;
    va_start(arguments, format);
    vsnprintf(warnings + length, capacity - length, format, arguments);
    va_end(arguments);
}

/* Every policy except noeviction may evict keys with a TTL. A lock without a lease has no TTL:
 * volatile-* policies spare it, allkeys-* policies do not. */
void hf_warn_of_eviction(char *warnings, size_t capacity, const char *shown, const char *info) {
    char policy[32], limit[32];
    hf_info_field(info, "maxmemory_policy", policy, sizeof policy);
    if (atoll(hf_info_field(info, "maxmemory", limit, sizeof limit)) <= 0 ||
        strspn(policy, "abcdefghijklmnopqrstuvwxyz-") != strlen(policy) || *policy == '\0' ||
        strcmp(policy, "noeviction") == 0)
        return;
    HF_MARK("C9");
    hf_warn(warnings, capacity,
            "%.100s evicts keys when its memory is full (maxmemory-policy %s), held locks too: "
            "set it to noeviction",
            shown, policy);
}

/* Check the server for dangers, in one write. False: the connection is useless now. */
static bool look_around(hf_transport *transport, hf_connection *connection, int64_t deadline) {
    const hf_words questions[] = {{2, {"INFO", "memory"}}, {2, {"GET", HF_MEMBERS_KEY}}};
    redisReply *replies[2];
    bool good = hf_connection_ask(connection, deadline, 2, questions, replies) == HF_OK;
    const redisReply *memory = replies[0], *members = replies[1];
    if (good && members->type == REDIS_REPLY_STRING)
        hf_warn(transport->warning, sizeof transport->warning,
                "%.100s is a master of a quorum (its key " HF_MEMBERS_KEY
                " has %.200s): a client of it alone and those of redis+quorum:// do not exclude "
                "each other",
                connection->shown, members->str);
    if (good && memory->type == REDIS_REPLY_STRING)
        hf_warn_of_eviction(transport->warning, sizeof transport->warning, connection->shown,
                            memory->str);
    hf_replies_free(replies, 2);
    return good;
}

/* Connect to the node once, and leave the connection to the pool. */
static hf_status try_node(hf_transport *transport, int node, int64_t deadline) {
    hf_connection *connection;
    int64_t now = hf_now();
    hf_status status =
        hf_pool_take(transport->pool, node, HF_POOL_ALONE, deadline, &now, &connection);
    if (status == HF_OK)
        hf_pool_give(transport->pool, connection, look_around(transport, connection, deadline));
    return status;
}

/* Try all nodes. In a cluster one has answered already, and the others may fail. */
static hf_status try_nodes(hf_transport *transport, int64_t deadline) {
    if (!hf_discovery_clustered(transport->discovery))
        return try_node(transport, 0, deadline);
    int count = (int)hf_discovery_nodes(transport->discovery);
    for (int i = 0; i < count; i++)
        if (hf_discovery_serves(transport->discovery, i))
            try_node(transport, i, deadline);
    return HF_OK;
}

hf_status hf_transport_open(hf_address *address, hf_transport **transport_out) {
    hf_client_options options = address->options;
    const char *shown = address->shown; /* belongs to the discovery from now on */
    hf_discovery *discovery;
    int64_t deadline;
    hf_status status = hf_discovery_open(address, &deadline, &discovery);
    *transport_out = NULL;
    if (status != HF_OK)
        return status;
    hf_transport *transport = calloc(1, sizeof *transport);
    hf_pool *pool = hf_pool_new(discovery);
    if (transport == NULL || pool == NULL) {
        hf_pool_free(pool);
        free(transport);
        hf_discovery_drop(discovery);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    *transport = (hf_transport){.discovery = discovery,
                                .pool = pool,
                                .shown = shown,
                                .connect_ms = options.connect_timeout_ms,
                                .command_ms = options.command_timeout_ms};
    status = options.lazy == HF_ON ? HF_OK : try_nodes(transport, deadline);
    if (status == HF_OK)
        *transport_out = transport;
    else
        hf_transport_free(transport);
    return status;
}

void hf_transport_hurry(hf_transport *transport) {
    __atomic_store_n(&transport->hurried, true, __ATOMIC_RELEASE);
}

void hf_transport_shut(hf_transport *transport) {
    hf_discovery_shut(transport->discovery);
    hf_pool_shut(transport->pool);
}

void hf_transport_free(hf_transport *transport) {
    if (transport == NULL)
        return;
    hf_transport_shut(transport);
    hf_pool_free(transport->pool);
    hf_discovery_drop(transport->discovery);
    free(transport);
}

/* -------------------------------------------------------------- The call */

hf_after_error hf_transport_error(hf_transport *transport, const char *shown, const char *text,
                                  hf_status *status) {
    hf_after_error after = hf_error_class(text, status);
    bool redirects = after == HF_AFTER_MOVED || after == HF_AFTER_ASK;
    if (redirects && !hf_discovery_clustered(transport->discovery)) {
        *status = hf_fail(HF_EUNSUPPORTED,
                          "%s is a node of a cluster: connect with redis+cluster:// or "
                          "rediss+cluster://",
                          shown);
        return HF_AFTER_FAIL;
    }
    hf_fail(*status, "%s answered: %.*s", shown, hf_error_shown(text), text);
    return after;
}

/* A request under way. */
typedef struct hf_trip {
    hf_request *request;
    bool explains; /* if it is refused, report which permissions the user lacks */
    bool pulled;   /* the brake was pulled during the wait for the answer: the server may be well */
    hf_course course;
    int64_t deadline;
} hf_trip;

/* Count the replicas that have the request's writes, if it wrote anything. False: the connection is
 * useless now. */
static bool count_replicas(hf_transport *transport, hf_connection *connection, const hf_trip *trip,
                           hf_answer *answer) {
    const hf_request *request = trip->request;
    answer->replicas = 0;
    if (!hf_reply_holds(answer->reply)) {
        HF_MARK("M15");
        return true;
    }
    int64_t by = hf_earlier(hf_after(hf_now(), transport->command_ms), trip->deadline);
    bool alive = hf_joint_count(connection, (int)request->replicas, request->replica_ms,
                                hf_after(by, request->replica_ms), &answer->replicas) == HF_OK;
    if (!alive) {
        answer->counted = hf_transport_unknown(transport);
        answer->replicas = -1;
    } else if (answer->replicas < 0) {
        answer->counted = HF_ESERVER;
    }
    return alive;
}

/* Choose how to send the request. The server writes first to the client that it queued last. A
 * release that hands the lock on queues the waiter, and then its own caller; so a PING before it,
 * in the same write, queues the caller first, and the waiter gets its grant sooner. Correctness
 * does not depend on it. */
static int how_to_send(const hf_trip *trip) {
    return (trip->course.whole ? HF_WHOLE : 0) | (trip->course.asking ? HF_ASKING : 0) |
           (trip->request->hands_on ? HF_NUDGES : 0);
}

/* Choose the connection: a long request or answer would keep others waiting. */
static int how_to_take(const hf_request *request) {
    if (request->replicas > 0)
        return HF_POOL_CONFIRMS;
    return request->fetches || request->encoded.length > JOINS_MAX ? HF_POOL_ALONE : HF_POOL_JOINS;
}

hf_status hf_transport_read_error(hf_transport *transport, const char *shown, int node,
                                  const redisReply *reply, hf_outcome *outcome) {
    hf_status status;
    outcome->after = hf_transport_error(transport, shown, reply->str, &status);
    if (outcome->after == HF_AFTER_MOVED || outcome->after == HF_AFTER_ASK)
        outcome->to = hf_discovery_redirect(transport->discovery, node, reply->str);
    return status;
}

static hf_status attempt_on(hf_transport *transport, hf_trip *trip, hf_connection *connection,
                            int64_t now, hf_answer *answer, hf_outcome *outcome) {
    hf_status status = HF_OK;
    bool joins = connection->joint.on;
    int how = how_to_send(trip);
    if (!joins)
        connection->unheeded += hf_answers_before(how);
    if (!joins && !hf_connection_append(connection, trip->request, how))
        status = hf_fail(HF_ENOMEM, "no memory");
    else if (!hf_brake_watch(connection->socket.fd))
        status = hf_fail(HF_ECONNECT, "the request was given up before it was sent");
    if (status != HF_OK) {
        hf_pool_give(transport->pool, connection, false); /* the request is in its buffer */
        return status;
    }
    answer->sent_at = now;
    answer->node = trip->course.node;
    int64_t by = hf_earlier(hf_after(now, transport->command_ms), trip->deadline);
    status = joins ? hf_joint_exchange(connection, trip->request, how, now, by, &answer->reply)
                   : hf_connection_exchange(connection, now, by, &answer->reply);
    bool alive = hf_brake_watch(-1);
    if (status != HF_OK) {
        hf_pool_give(transport->pool, connection, false);
        outcome->after = HF_AFTER_SILENCE;
        if (!alive)
            HF_MARK("M16");
        trip->pulled = !alive;
        return status;
    }
    if (answer->reply->type == REDIS_REPLY_ERROR) {
        status = hf_transport_read_error(transport, connection->shown, connection->node,
                                         answer->reply, outcome);
    } else if (hf_discovery_replaced(transport->discovery, connection)) {
        HF_MARK("C17");
        status = hf_fail(HF_ECONNECT, "%s is no longer the master", connection->shown);
        outcome->after = HF_AFTER_SILENCE; /* the answer does not count */
    } else if (trip->request->replicas > 0) {
        alive = count_replicas(transport, connection, trip, answer) && alive;
    }
    if (status != HF_OK) {
        freeReplyObject(answer->reply);
        answer->reply = NULL;
    }
    hf_pool_give(transport->pool, connection, alive);
    return status;
}

/* Take a connection. A brake would shut it down: so it must belong to this call alone, and no call
 * may wait for it. */
static hf_status take(hf_transport *transport, const hf_trip *trip, int64_t *now,
                      hf_connection **connection_out) {
    int how = how_to_take(trip->request);
    if (hf_brake_mine() == NULL)
        return hf_pool_take(transport->pool, trip->course.node, how, trip->deadline, now,
                            connection_out);
    if (how == HF_POOL_CONFIRMS)
        return hf_fail(HF_ECONNECT, "no connection was free at once");
    return hf_pool_take_idle(transport->pool, trip->course.node, *now, connection_out);
}

static hf_status attempt(hf_transport *transport, hf_trip *trip, hf_answer *answer,
                         hf_outcome *outcome) {
    hf_connection *connection;
    int64_t now = hf_now();
    if (!trip->course.asking)
        trip->course.node = hf_discovery_node(transport->discovery, trip->request->slot);
    hf_status status = take(transport, trip, &now, &connection);
    if (status == HF_OK && now >= trip->deadline) { /* sent blind, it would be in doubt */
        HF_MARK("H275");
        hf_pool_give(transport->pool, connection, true);
        status = hf_fail(HF_ECONNECT, "%s: the time was over before the request could be sent",
                         transport->shown);
    }
    if (status == HF_OK)
        return attempt_on(transport, trip, connection, now, answer, outcome);
    if (status == HF_ECONNECT && hf_brake_mine() == NULL)
        outcome->after = HF_AFTER_NOBODY;
    return status;
}

void hf_transport_pause(int64_t ms) {
    if (ms > 0)
        poll(NULL, 0, (int)hf_spread(ms));
}

hf_status hf_transport_unknown(const hf_transport *transport) {
    HF_MARK("M3");
    return hf_fail(HF_EUNKNOWN,
                   "the answer of %s was lost, and the request may have been carried out: %s",
                   transport->shown, hf_error_message());
}

hf_status hf_transport_ended(const hf_transport *transport, const hf_step *step, unsigned slot,
                             hf_status status) {
    if (step->circle)
        hf_explain(
            "%s: redirected %d times, because its nodes do not agree on which of them serves "
            "slot %u",
            transport->shown, HF_REDIRECTIONS_MAX, slot);
    if (step->late)
        status = hf_fail(HF_ECONNECT,
                         "%s: the time was over before the request could be sent with its script",
                         transport->shown);
    return status;
}

/* End the call with the last error. */
static hf_status fail_call(hf_transport *transport, const hf_trip *trip, hf_status status,
                           const hf_step *step) {
    status = hf_transport_ended(transport, step, trip->request->slot, status);
    if (trip->explains && hf_error_permission(hf_error_message()))
        hf_transport_explain(transport, trip->request, trip->deadline);
    return trip->course.doubtful ? hf_transport_unknown(transport) : status;
}

static hf_status run(hf_transport *transport, hf_trip *trip, hf_answer *answer) {
    for (;;) {
        hf_outcome outcome = {.after = HF_AFTER_FAIL, /* unless the attempt finds another error */
                              .to = -1,
                              .clustered = hf_discovery_clustered(transport->discovery),
                              .deadline = trip->deadline};
        hf_status status = attempt(transport, trip, answer, &outcome);
        if (status == HF_OK)
            return HF_OK;
        outcome.hurried =
            hf_brake_mine() != NULL || __atomic_load_n(&transport->hurried, __ATOMIC_ACQUIRE);
        outcome.now = hf_now();
        int node = trip->course.node;
        hf_step step = hf_course_next(&trip->course, &outcome);
        if (step.leave && !trip->pulled)
            hf_pool_drop(transport->pool, node);
        if (step.look)
            hf_discovery_look(transport->discovery);
        if (step.what == HF_STEP_FAIL)
            return fail_call(transport, trip, status, &step);
        if (step.what != HF_STEP_ALONE || !hf_request_alone(trip->request))
            hf_transport_pause(step.pause_ms);
    }
}

static hf_status go(hf_transport *transport, hf_trip *trip, hf_answer *answer) {
    HF_NOT_CANCELLED;
    memset(answer, 0, sizeof *answer);
    if (trip->request->encoded.failed)
        return hf_fail(HF_ENOMEM, "no memory");
    hf_status status = run(transport, trip, answer);
    answer->doubtful = trip->course.doubtful;
    return status;
}

hf_status hf_transport_call(hf_transport *transport, hf_request *request, int64_t deadline,
                            hf_answer *answer) {
    hf_trip trip = {.request = request, .deadline = deadline, .explains = true};
    return go(transport, &trip, answer);
}

void hf_transport_refusal(const char *text, const hf_request *question, const redisReply *reply) {
    size_t length;
    const char *key;
    if (reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len > 0)
        hf_explain("%.200s; missing: %.180s", text, reply->str);
    else if (reply == NULL && hf_error_key(hf_error_message()) &&
             (key = hf_request_key(question, &length)) != NULL) /* the question failed on the lock's
                                                                 * own key */
        hf_explain("%.200s; missing: ~%.*s", text, length < 80 ? (int)length : 80, key);
    else
        hf_explain("%.200s", text);
}

void hf_transport_explain(hf_transport *transport, const hf_request *request, int64_t deadline) {
    char text[300];
    hf_request question;
    hf_answer answer;
    snprintf(text, sizeof text, "%s", hf_error_message());
    hf_request_permissions(&question, request);
    hf_trip trip = {.request = &question, .deadline = deadline};
    go(transport, &trip, &answer);
    hf_transport_refusal(text, &question, answer.reply);
    freeReplyObject(answer.reply);
    hf_request_free(&question);
}

#include "net/flush.h"

#include "net/course.h"
#include "net/pool.h"

/* A request is sent at most this often, if its connection dies each time. */
#define FLUSH_TRIES 3

/* The state of one of many requests. */
typedef struct flushed {
    hf_course course;
    enum { TO_SEND, SENT, BY_ITSELF, DONE } state;
    bool tried;       /* in this round */
    int64_t pause_ms; /* before the next */
} flushed;

/* The next step of a request that has no valid answer. True: the server is useless. */
static bool flush_next(hf_transport *transport, flushed *one, hf_outcome *outcome) {
    outcome->clustered = hf_discovery_clustered(transport->discovery);
    outcome->now = hf_now();
    hf_step step = hf_course_next(&one->course, outcome);
    if (step.look)
        hf_discovery_look(transport->discovery);
    one->state = step.what == HF_STEP_FAIL                          ? DONE
                 : step.what == HF_STEP_ALONE || one->course.asking ? BY_ITSELF
                                                                    : TO_SEND;
    one->pause_ms = step.pause_ms;
    return step.leave;
}

/* False: the connection is dead. *leave: the server is useless. */
static bool flush_read(hf_transport *transport, hf_connection *connection, flushed *one,
                       int64_t deadline, bool *leave) {
    redisReply *reply;
    hf_outcome outcome = {.to = -1, .deadline = deadline};
    if (hf_connection_exchange(connection, hf_now(), deadline, &reply) != HF_OK)
        return false;
    one->state = DONE;
    if (reply->type == REDIS_REPLY_ERROR) {
        hf_transport_read_error(transport, connection, reply, &outcome);
        *leave = flush_next(transport, one, &outcome) || *leave;
    } else if (hf_discovery_replaced(transport->discovery, connection)) {
        outcome.met = HF_MET_PREDECESSOR;
        *leave = flush_next(transport, one, &outcome) || *leave;
    }
    freeReplyObject(reply);
    return true;
}

/* Send the first request of a script with the text, so that the server knows the script. Without
 * PINGs: their answers would stand between those that flush_read() reads. False: the connection is
 * useless. */
static bool flush_write(hf_transport *transport, hf_connection *connection,
                        const hf_request *const *requests, size_t count, flushed *all) {
    const hf_script *last = NULL;
    for (size_t i = 0; i < count; i++) {
        if (all[i].state != TO_SEND || all[i].tried ||
            hf_discovery_node(transport->discovery, requests[i]->slot) != connection->node)
            continue;
        all[i].tried = true;
        all[i].course.whole = requests[i]->script != last;
        last = requests[i]->script;
        if (!hf_connection_append(connection, requests[i], all[i].course.whole ? HF_WHOLE : 0))
            return false;
        all[i].state = SENT;
    }
    return true;
}

/* Send the requests of this node, and read the answers. */
static void flush_to(hf_transport *transport, int node, const hf_request *const *requests,
                     size_t count, flushed *all, int64_t deadline) {
    hf_connection *connection;
    int64_t now = hf_now();
    if (hf_pool_take(transport->pool, node, HF_POOL_ALONE, deadline, &now, &connection) != HF_OK) {
        for (size_t i = 0; i < count; i++)
            all[i].tried =
                all[i].tried || hf_discovery_node(transport->discovery, requests[i]->slot) == node;
        if (hf_discovery_clustered(transport->discovery))
            hf_discovery_look(transport->discovery);
        return;
    }
    bool leave = false, ok = flush_write(transport, connection, requests, count, all);
    for (size_t i = 0; i < count; i++)
        if (all[i].state == SENT)
            ok = ok && flush_read(transport, connection, &all[i], deadline, &leave);
    hf_pool_give(transport->pool, connection, ok);
    if (leave || !ok)
        hf_pool_drop(transport->pool, node);
    if (ok)
        return;
    hf_outcome outcome = {.met = HF_MET_SILENCE, .to = -1, .deadline = deadline};
    for (size_t i = 0; i < count; i++)
        if (all[i].state == SENT)
            flush_next(transport, &all[i], &outcome);
}

/* The pause before it, if anything is left to send. */
static int64_t next_round(flushed *all, size_t count, int64_t most_ms) {
    int64_t ms = 0;
    for (size_t i = 0; i < count; i++) {
        all[i].tried = false;
        if (all[i].state == TO_SEND && all[i].pause_ms > ms)
            ms = all[i].pause_ms;
    }
    return ms < most_ms ? ms : most_ms;
}

void hf_flush(hf_transport *transport, const hf_request *const *requests, size_t count,
              int64_t deadline) {
    flushed all[HF_FLUSH_MAX] = {{{0}, TO_SEND, false, 0}};
    for (size_t i = 0; i < count; i++)
        if (requests[i]->encoded.failed)
            all[i].state = DONE;
    /* A connection of the pool may have died unnoticed: try again on a new one. */
    for (int tries = 0; tries < FLUSH_TRIES; tries++) {
        if (tries > 0)
            hf_transport_pause(next_round(all, count, hf_until(deadline, hf_now())));
        for (size_t i = 0; i < count && hf_now() < deadline; i++)
            if (all[i].state == TO_SEND && !all[i].tried)
                flush_to(transport, hf_discovery_node(transport->discovery, requests[i]->slot),
                         requests, count, all, deadline);
    }
    for (size_t i = 0; i < count; i++) {
        hf_answer answer;
        if (all[i].state == BY_ITSELF &&
            hf_transport_call(transport, requests[i], deadline, &answer) == HF_OK)
            freeReplyObject(answer.reply);
    }
}

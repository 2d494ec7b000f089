#include "net/flush.h"

#include <string.h>

#include "base/simulated.h"
#include "net/pool.h"

/* How often a request without an answer is sent again alone. */
#define TRIES 2

/* ------------------------------------------------------------ To one node */

hf_status hf_ask_many(hf_transport *transport, int node, const hf_request *const *requests,
                      size_t count, bool whole, int64_t deadline, redisReply **replies) {
    hf_connection *connection;
    hf_texts texts = {.count = 0};
    int64_t now = hf_now();
    memset(replies, 0, count * sizeof *replies);
    hf_status status =
        hf_pool_take(transport->pool, node, HF_POOL_ALONE, deadline, &now, &connection);
    if (status != HF_OK)
        return status;
    /* Without PINGs: their answers would stand between the others. */
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        int how = whole && hf_texts_miss(&texts, requests[i]->script) ? HF_WHOLE : 0;
        if (!hf_connection_append(connection, requests[i], how))
            status = hf_fail(HF_ENOMEM, "no memory");
    }
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        now = hf_now();
        int64_t by = hf_earlier(hf_after(now, transport->command_ms), deadline);
        status = hf_connection_exchange(connection, now, by, &replies[i]);
    }
    bool good = status == HF_OK;
    if (good && hf_discovery_replaced(transport->discovery, connection)) {
        status = hf_fail(HF_ECONNECT, "%s is no longer the master", connection->shown);
        hf_replies_free(replies, count);
    }
    hf_pool_give(transport->pool, connection, good);
    if (status == HF_ECONNECT)
        hf_pool_drop(transport->pool, node);
    return status;
}

/* ------------------------------------------------------------- At a close */

typedef enum { NEW, TRIED, DONE } progress;

/* Return whether this answer of the node ends the request. */
static bool is_final(hf_transport *transport, int node, const redisReply *reply) {
    hf_status status;
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR)
        return reply != NULL;
    hf_after_error after = hf_error_class(reply->str, &status);
    if (after == HF_AFTER_RECONNECT)
        hf_pool_drop(transport->pool, node);
    return after == HF_AFTER_FAIL;
}

int64_t hf_flush_share(const hf_transport *transport, int64_t deadline) {
    int64_t left = hf_later(deadline - hf_now(), 0);
    return hf_discovery_clustered(transport->discovery) ? deadline - left / 2 : deadline;
}

/* Send all requests that the node serves, beginning with `first`, in one write. */
static void flush_together(hf_transport *transport, hf_request *const *requests, size_t first,
                           size_t count, progress *all, int64_t deadline) {
    int node = hf_discovery_node(transport->discovery, requests[first]->slot);
    const hf_request *together[HF_FLUSH_MAX];
    redisReply *replies[HF_FLUSH_MAX];
    size_t which[HF_FLUSH_MAX], found = 0;
    for (size_t i = first; i < count; i++) {
        if (all[i] != NEW || hf_discovery_node(transport->discovery, requests[i]->slot) != node)
            continue;
        all[i] = TRIED;
        which[found] = i;
        together[found++] = requests[i];
    }
    if (found < count) { /* the others belong to other nodes */
        HF_MARK("H239");
        deadline = hf_flush_share(transport, deadline);
    }
    hf_ask_many(transport, node, together, found, true, deadline, replies);
    for (size_t i = 0; i < found; i++)
        if (is_final(transport, node, replies[i]))
            all[which[i]] = DONE;
    hf_replies_free(replies, found);
}

void hf_flush(hf_transport *transport, hf_request *const *requests, size_t count,
              int64_t deadline) {
    progress all[HF_FLUSH_MAX] = {NEW};
    for (size_t i = 0; i < count; i++)
        if (requests[i]->encoded.failed)
            all[i] = DONE;
    for (size_t i = 0; i < count; i++)
        if (all[i] == NEW)
            flush_together(transport, requests, i, count, all, deadline);
    size_t most = TRIES * count;
    for (size_t i = 0; i < most && hf_now() < deadline; i++) {
        hf_answer answer;
        if (all[i % count] == DONE)
            continue;
        hf_status status = hf_transport_call(transport, requests[i % count], deadline, &answer);
        if (status == HF_ENOMEM) {
            hf_transport_pause(HF_NO_MEMORY_MS);
            most += count; /* this was no try */
        } else if (status != HF_ECONNECT && status != HF_EUNKNOWN) {
            all[i % count] = DONE;
        }
        freeReplyObject(answer.reply);
    }
}

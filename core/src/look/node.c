#include "look/node.h"

#include <stdio.h>
#include <string.h>

#include "net/pool.h"

hf_status hf_node_ask(hf_client *client, int node, char *shown, redisReply **reply_out, int count,
                      const char **words) {
    hf_transport *transport = client->transport;
    int64_t deadline = hf_client_patience(client);
    hf_status status = HF_ECONNECT;
    int64_t now = hf_now();
    *reply_out = NULL;
    for (int tries = 0; tries < 2 && status == HF_ECONNECT && now < deadline; tries++) {
        hf_connection *connection;
        status = hf_pool_take(transport->pool, node, HF_POOL_ALONE, deadline, &now, &connection);
        if (status != HF_OK)
            break;
        int64_t patience = hf_after(now, transport->command_ms);
        status =
            hf_connection_ask(connection, hf_earlier(patience, deadline), reply_out, count, words);
        if (shown != NULL)
            snprintf(shown, HF_SHOWN_MAX, "%s", connection->shown);
        hf_pool_give(transport->pool, connection, status == HF_OK);
        if (status != HF_OK) {
            hf_pool_drop(transport->pool, node);
            now = hf_now();
        }
    }
    return status;
}

int hf_node_next(hf_transport *transport, int node) {
    hf_discovery *discovery = transport->discovery;
    int count = (int)hf_discovery_nodes(discovery), first = node;
    if (!hf_discovery_clustered(transport->discovery))
        return node == 0 ? 0 : -1;
    while (node < count && !hf_discovery_serves(transport->discovery, node))
        node++;
    if (node < count)
        return node;
    return first == 0 ? hf_discovery_node(transport->discovery, 0) : -1; /* no map yet */
}

void hf_node_free(redisReply **replies, size_t count) {
    for (size_t i = 0; i < count; i++) {
        freeReplyObject(replies[i]);
        replies[i] = NULL;
    }
}

/* whole: with the text of a script at its first request, so that the server knows it. */
static bool append_all(hf_connection *connection, const hf_request *requests, size_t count,
                       bool whole) {
    const hf_script *last = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!hf_connection_append(connection, &requests[i],
                                  whole && requests[i].script != last ? HF_WHOLE : 0))
            return false;
        last = requests[i].script;
    }
    return true;
}

/* One attempt. *after: what to do then, if that was none; HF_AFTER_FAIL: nothing. */
static hf_status ask_once(hf_transport *transport, int node, const hf_request *requests,
                          size_t count, bool whole, int64_t deadline, redisReply **replies,
                          hf_after_error *after) {
    hf_connection *connection;
    int64_t now = hf_now();
    hf_status status =
        hf_pool_take(transport->pool, node, HF_POOL_ALONE, deadline, &now, &connection);
    *after = status == HF_ECONNECT ? HF_AFTER_WAIT : HF_AFTER_FAIL;
    if (status != HF_OK)
        return status;
    if (!append_all(connection, requests, count, whole)) {
        hf_pool_give(transport->pool, connection, false);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        now = hf_now();
        int64_t by = hf_after(now, transport->command_ms);
        status =
            hf_connection_exchange(connection, now, by < deadline ? by : deadline, &replies[i]);
    }
    if (status != HF_OK) {
        hf_pool_give(transport->pool, connection, false);
        hf_node_free(replies, count); /* the first ones may have come */
        *after = status == HF_ECONNECT ? HF_AFTER_RECONNECT : HF_AFTER_FAIL;
        return status;
    }
    if (hf_discovery_replaced(transport->discovery, connection)) {
        status = hf_fail(HF_ECONNECT, "%s is no longer the master", connection->shown);
        *after = HF_AFTER_RECONNECT;
    } else if (replies[0]->type == REDIS_REPLY_ERROR) {
        *after = hf_transport_error(transport, connection->shown, replies[0]->str, &status);
    }
    hf_pool_give(transport->pool, connection, true);
    return status;
}

hf_status hf_node_ask_all(hf_client *client, int node, const hf_request *requests, size_t count,
                          redisReply **replies) {
    hf_transport *transport = client->transport;
    int64_t deadline = hf_client_patience(client);
    bool whole = false;
    memset(replies, 0, count * sizeof *replies);
    for (int64_t pause_ms = 5;; pause_ms = hf_backoff(pause_ms, 5, 100)) {
        hf_after_error after;
        hf_status status =
            ask_once(transport, node, requests, count, whole, deadline, replies, &after);
        bool loads = after == HF_AFTER_LOAD && !whole;
        bool again = loads || after == HF_AFTER_WAIT || after == HF_AFTER_RECONNECT;
        if (!again && replies[0] != NULL)
            return HF_OK;
        if (after == HF_AFTER_RECONNECT)
            hf_pool_drop(transport->pool, node);
        hf_node_free(replies, count);
        whole = whole || loads;
        if (!again || hf_until(deadline, hf_now()) <= pause_ms ||
            __atomic_load_n(&transport->hurried, __ATOMIC_ACQUIRE))
            return status;
        if (loads)
            continue;
        hf_discovery_look(transport->discovery);
        hf_transport_pause(pause_ms);
        if (!hf_discovery_serves(transport->discovery, node))
            return hf_fail(HF_ECONNECT, "another node serves its slots by now");
    }
}

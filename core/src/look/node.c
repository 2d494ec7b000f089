#include "look/node.h"

#include <stdio.h>

#include "lock/undo.h"
#include "net/flush.h"
#include "net/pool.h"

hf_status hf_node_ask(hf_client *client, int node, char *shown, const hf_words *words,
                      redisReply **reply_out) {
    hf_transport *transport = client->transport;
    int64_t deadline = hf_client_patience(client);
    int64_t now = hf_now();
    hf_status status = HF_ECONNECT;
    if (now >= deadline)
        hf_fail(status, "no time was left to ask %s", transport->shown);
    *reply_out = NULL;
    for (int tries = 0; tries < 2 && status == HF_ECONNECT && now < deadline; tries++) {
        hf_connection *connection;
        status = hf_pool_take(transport->pool, node, HF_POOL_ALONE, deadline, &now, &connection);
        if (status != HF_OK)
            continue; /* an open connection may be free next time */
        int64_t patience = hf_after(now, transport->command_ms);
        status = hf_connection_ask(connection, hf_earlier(patience, deadline), 1, words, reply_out);
        if (shown != NULL)
            snprintf(shown, HF_SHOWN_MAX, "%s", connection->shown);
        hf_pool_give(transport->pool, connection, status == HF_OK);
        if (status != HF_OK) {
            hf_pool_drop(transport->pool, node);
            now = hf_now();
        }
    }
    if (status == HF_ECONNECT) /* another node may have its slots by now */
        hf_discovery_look(transport->discovery);
    return status;
}

hf_status hf_node_inspect(const hf_client *client, const hf_names *names, int64_t skip,
                          int64_t most, bool whole, redisReply **reply_out) {
    hf_request request;
    hf_answer answer;
    hf_request_inspect(&request, names, skip, most, whole);
    hf_status status = hf_client_call(client, &request, &answer);
    *reply_out = answer.reply;
    return status == HF_EUNKNOWN ? HF_ECONNECT : status; /* an inspect changes nothing */
}

hf_status hf_node_new_id(hf_client *client, char *id) {
    HF_HOLDING_CLIENT(client);
    return hf_client_new_id_locked(client, id);
}

void hf_node_bury(hf_client *client, hf_names *names, const char *id, int64_t deadline) {
    hf_ask ask = {.id = id};
    hf_request request, *requests[] = {&request};
    HF_NOT_CANCELLED;
    hf_client_lock(client);
    bool buried = hf_undo_bury_locked(client, names, &ask, false);
    hf_client_unlock(client);
    if (buried)
        return;
    hf_error error = *hf_error_last();
    hf_request_cancel(&request, names, &ask, true);
    hf_flush(client->transport, requests, 1, deadline);
    hf_request_free(&request);
    hf_error_set(&error);
}

void hf_node_kick(hf_client *client, hf_names *names) {
    HF_HOLDING_CLIENT(client);
    hf_kick_locked(client, names);
}

int hf_node_next(hf_transport *transport, int node) {
    hf_discovery *discovery = transport->discovery;
    if (node == 0 && hf_discovery_change(discovery) == 0) /* a lazy client knows no other node */
        hf_discovery_refresh(discovery, hf_after(hf_now(), transport->connect_ms));
    int count = (int)hf_discovery_nodes(discovery), first = node;
    if (!hf_discovery_clustered(discovery))
        return node == 0 ? 0 : -1;
    while (node < count && !hf_discovery_serves(discovery, node))
        node++;
    if (node < count)
        return node;
    return first == 0 ? hf_discovery_node(discovery, 0) : -1; /* there is no map yet */
}

/* Return the next step after an answer; HF_AFTER_FAIL: none, or the answer is no error. */
static hf_after_error after_reply(hf_transport *transport, int node, const redisReply *reply,
                                  hf_status *status) {
    char shown[HF_SHOWN_MAX];
    if (reply->type != REDIS_REPLY_ERROR)
        return HF_AFTER_FAIL;
    hf_discovery_show(transport->discovery, node, shown, sizeof shown);
    hf_after_error after = hf_transport_error(transport, shown, reply->str, status);
    if (after == HF_AFTER_RECONNECT)
        hf_pool_drop(transport->pool, node);
    return after;
}

hf_status hf_node_ask_all(hf_client *client, int node, const hf_request *requests, size_t count,
                          redisReply **replies) {
    hf_transport *transport = client->transport;
    const hf_request *each[HF_NODE_MOST];
    int64_t deadline = hf_client_patience(client);
    bool whole = false;
    for (size_t i = 0; i < count; i++)
        each[i] = &requests[i];
    for (int64_t pause_ms = 5;; pause_ms = hf_backoff(pause_ms, 5, 100)) {
        hf_after_error after = HF_AFTER_WAIT;
        hf_status status = hf_ask_many(transport, node, each, count, whole, deadline, replies);
        bool answered = status == HF_OK;
        if (status != HF_ECONNECT)
            after = answered ? after_reply(transport, node, replies[0], &status) : HF_AFTER_FAIL;
        bool loads = after == HF_AFTER_LOAD && !whole;
        bool again = loads || after == HF_AFTER_WAIT || after == HF_AFTER_RECONNECT;
        if (answered && !again)
            return HF_OK;
        hf_replies_free(replies, count);
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

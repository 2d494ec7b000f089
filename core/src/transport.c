#include "transport.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A connection that was idle for longer is looked at before it is used. */
#define STALE_AFTER (100 * HF_MS)

struct hf_transport {
    hf_address address;
    int64_t connect_ms, command_ms;
    pthread_mutex_t mutex;
    hf_connection *idle; /* the last one used first */
    unsigned idle_count, idle_max;
    bool shut;
    bool hurried;
};

static hf_connection *take_idle(hf_transport *transport) {
    pthread_mutex_lock(&transport->mutex);
    hf_connection *connection = transport->idle;
    if (connection != NULL) {
        transport->idle = connection->next;
        transport->idle_count--;
    }
    pthread_mutex_unlock(&transport->mutex);
    return connection;
}

static void give_back(hf_transport *transport, hf_connection *connection) {
    connection->idle_since = hf_now();
    pthread_mutex_lock(&transport->mutex);
    if (!transport->shut && transport->idle_count < transport->idle_max) {
        connection->next = transport->idle;
        transport->idle = connection;
        transport->idle_count++;
        connection = NULL;
    }
    pthread_mutex_unlock(&transport->mutex);
    hf_connection_close(connection);
}

static void drop_idle(hf_transport *transport, bool shut) {
    pthread_mutex_lock(&transport->mutex);
    hf_connection *connection = transport->idle;
    transport->idle = NULL;
    transport->idle_count = 0;
    transport->shut = transport->shut || shut;
    pthread_mutex_unlock(&transport->mutex);
    while (connection != NULL) {
        hf_connection *next = connection->next;
        hf_connection_close(connection);
        connection = next;
    }
}

static hf_status get_connection(hf_transport *transport, int64_t deadline,
                                hf_connection **connection_out) {
    int64_t now = hf_now();
    hf_connection *connection;
    while ((connection = take_idle(transport)) != NULL) {
        if (now - connection->idle_since < STALE_AFTER || !hf_connection_stale(connection)) {
            *connection_out = connection;
            return HF_OK;
        }
        hf_connection_close(connection);
    }
    int64_t connected_by = hf_after(now, transport->connect_ms);
    return hf_connection_open(&transport->address,
                              connected_by < deadline ? connected_by : deadline, connection_out);
}

hf_status hf_transport_open(hf_address *address, const hf_client_options *options,
                            hf_transport **transport_out) {
    hf_transport *transport = calloc(1, sizeof *transport);
    hf_connection *connection;
    *transport_out = NULL;
    if (transport == NULL) {
        hf_address_free(address);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    transport->address = *address;
    transport->connect_ms = options->connect_timeout_ms > 0 ? options->connect_timeout_ms : 2000;
    transport->command_ms = options->command_timeout_ms > 0 ? options->command_timeout_ms : 2000;
    transport->idle_max = options->idle_connections > 0 ? options->idle_connections : 16;
    pthread_mutex_init(&transport->mutex, NULL);
    hf_status status = get_connection(transport, HF_NO_DEADLINE, &connection);
    if (status != HF_OK) {
        hf_transport_free(transport);
        return status;
    }
    give_back(transport, connection);
    *transport_out = transport;
    return HF_OK;
}

void hf_transport_hurry(hf_transport *transport) {
    __atomic_store_n(&transport->hurried, true, __ATOMIC_RELEASE);
}

void hf_transport_shut(hf_transport *transport) { drop_idle(transport, true); }

void hf_transport_free(hf_transport *transport) {
    if (transport == NULL)
        return;
    drop_idle(transport, true);
    pthread_mutex_destroy(&transport->mutex);
    hf_address_free(&transport->address);
    free(transport);
}

int64_t hf_transport_patience_ms(const hf_transport *transport) { return transport->connect_ms; }

int64_t hf_transport_command_ms(const hf_transport *transport) { return transport->command_ms; }

const hf_address *hf_transport_address(const hf_transport *transport) {
    return &transport->address;
}

static bool append(hf_connection *connection, const hf_request *request, bool whole) {
    hf_bytes head;
    hf_bytes_init(&head);
    hf_request_head(request, whole, &head);
    bool ok = hf_connection_append(connection, &head) &&
              hf_connection_append(connection, &request->encoded);
    hf_bytes_free(&head);
    return ok;
}

/* One attempt on one connection. *sent: the server may have got the request. */
static hf_status attempt(hf_transport *transport, hf_connection *connection,
                         const hf_request *request, int64_t deadline, hf_answer *answer, bool *sent,
                         hf_after_error *after) {
    hf_status status = HF_OK;
    *after = HF_AFTER_FAIL;
    for (int whole = 0; whole < 2; whole++) {
        if (!append(connection, request, whole)) {
            hf_connection_close(connection);
            return hf_fail(HF_ENOMEM, "no memory");
        }
        answer->sent_at = hf_now();
        *sent = true;
        int64_t by = hf_after(answer->sent_at, transport->command_ms);
        status = hf_connection_exchange(connection, by < deadline ? by : deadline, &answer->reply);
        if (status != HF_OK) {
            hf_connection_close(connection);
            *after = HF_AFTER_RECONNECT;
            return status;
        }
        *sent = false;
        if (answer->reply->type != REDIS_REPLY_ERROR)
            break;
        *after = hf_error_class(answer->reply->str, &status);
        hf_fail(status, "%s answered: %.*s", transport->address.shown,
                hf_error_shown(answer->reply->str), answer->reply->str);
        freeReplyObject(answer->reply);
        answer->reply = NULL;
        if (*after != HF_AFTER_LOAD)
            break;
    }
    give_back(transport, connection);
    return status;
}

hf_status hf_transport_call(hf_transport *transport, const hf_request *request, int64_t deadline,
                            hf_answer *answer) {
    int64_t pause_ms = 0;
    memset(answer, 0, sizeof *answer);
    if (request->encoded.failed)
        return hf_fail(HF_ENOMEM, "no memory");
    for (;;) {
        hf_connection *connection;
        bool sent = false, waited = false;
        hf_after_error after = HF_AFTER_FAIL;
        hf_status status = get_connection(transport, deadline, &connection);
        if (status == HF_OK)
            status = attempt(transport, connection, request, deadline, answer, &sent, &after);
        else if (status == HF_ECONNECT)
            after = HF_AFTER_WAIT, waited = true;
        if (status == HF_OK)
            return HF_OK;
        answer->doubtful = answer->doubtful || sent;
        if (after == HF_AFTER_RECONNECT)
            drop_idle(transport, false); /* they lead to the same trouble */

        /* At once on a new connection; then slower and slower, so that a server
         * in trouble is not also stormed. */
        int64_t pause = 0;
        if (after != HF_AFTER_RECONNECT || pause_ms > 0 || waited) {
            pause_ms = pause_ms < 5 ? 5 : pause_ms < 100 ? 2 * pause_ms : 100;
            pause = hf_jitter(pause_ms / 2, pause_ms + 1);
        } else {
            pause_ms = 5;
        }
        /* What there is no time to cure is what the caller is told. */
        if (after == HF_AFTER_FAIL || __atomic_load_n(&transport->hurried, __ATOMIC_ACQUIRE) ||
            hf_until(deadline, hf_now()) <= pause + 10) {
            if (!answer->doubtful || status == HF_ENOMEM)
                return status;
            char text[300];
            strncpy(text, hf_error_message(), sizeof text - 1);
            text[sizeof text - 1] = '\0';
            return hf_fail(HF_EUNKNOWN,
                           "the answer of %s was lost, and the request may have been "
                           "carried out: %s",
                           transport->address.shown, text);
        }
        if (pause > 0)
            poll(NULL, 0, (int)pause);
    }
}

void hf_transport_flush(hf_transport *transport, const hf_request *const *requests, size_t count,
                        int64_t deadline) {
    hf_connection *connection;
    if (count == 0 || get_connection(transport, deadline, &connection) != HF_OK)
        return;
    /* The first of a kind whole: that leaves its script with the server. */
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++)
        ok = append(connection, requests[i],
                    i == 0 || requests[i]->script != requests[i - 1]->script);
    for (size_t i = 0; i < count && ok; i++) {
        redisReply *reply;
        ok = hf_connection_exchange(connection, deadline, &reply) == HF_OK;
        if (ok)
            freeReplyObject(reply);
    }
    hf_connection_close(connection);
}

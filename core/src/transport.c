#include "transport.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* A connection that was idle for longer is looked at before it is used. */
#define STALE_AFTER (100 * HF_MS)

struct hf_transport {
    hf_address address;
    hf_tls *tls; /* or NULL */
    int64_t connect_ms, command_ms;
    pthread_mutex_t mutex;
    int references;      /* the client's, and the thread's that looks for the server */
    hf_address *target;  /* of the server last reached, by number; NULL: look for it */
    unsigned version;    /* one more whenever the target is another */
    bool looking;        /* that thread runs */
    size_t sentinel;     /* the one that answered last */
    hf_connection *idle; /* the last one used first */
    unsigned idle_count, idle_max;
    unsigned open_count, open_max; /* idle and in use */
    pthread_cond_t freed;          /* an idle one, or room for a new one */
    bool shut;
    bool hurried;
    char warning[256];
};

/* An idle connection, or NULL with room for a new one, which counts as open from
 * now on. False: all are in use until the deadline. */
static bool take_idle(hf_transport *transport, int64_t deadline, hf_connection **connection_out) {
    pthread_mutex_lock(&transport->mutex);
    while (transport->idle == NULL && transport->open_count >= transport->open_max) {
        int64_t ms = hf_until(deadline, hf_now());
        if (ms == 0)
            break;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        ms = until.tv_nsec / HF_MS + (ms < 3600000 ? ms : 3600000);
        until.tv_sec += ms / 1000;
        until.tv_nsec = ms % 1000 * HF_MS;
        pthread_cond_timedwait(&transport->freed, &transport->mutex, &until);
    }
    hf_connection *connection = transport->idle;
    bool room = connection != NULL || transport->open_count < transport->open_max;
    if (connection != NULL) {
        transport->idle = connection->next;
        transport->idle_count--;
    } else if (room) {
        transport->open_count++;
    }
    pthread_mutex_unlock(&transport->mutex);
    *connection_out = connection;
    return room;
}

/* So many that counted as open are not, or never came to be. */
static void count_closed(hf_transport *transport, unsigned count) {
    pthread_mutex_lock(&transport->mutex);
    transport->open_count -= count;
    if (transport->open_max != UINT32_MAX)
        pthread_cond_broadcast(&transport->freed);
    pthread_mutex_unlock(&transport->mutex);
}

static void discard(hf_transport *transport, hf_connection *connection) {
    hf_connection_close(connection);
    count_closed(transport, 1);
}

static void give_back(hf_transport *transport, hf_connection *connection) {
    if (hf_connection_unasked(connection)) {
        discard(transport, connection);
        return;
    }
    connection->idle_since = hf_now();
    pthread_mutex_lock(&transport->mutex);
    if (!transport->shut && transport->idle_count < transport->idle_max) {
        connection->next = transport->idle;
        transport->idle = connection;
        transport->idle_count++;
        connection = NULL;
        if (transport->open_max != UINT32_MAX)
            pthread_cond_signal(&transport->freed);
    }
    pthread_mutex_unlock(&transport->mutex);
    if (connection != NULL)
        discard(transport, connection);
}

static void drop_idle(hf_transport *transport, bool shut) {
    pthread_mutex_lock(&transport->mutex);
    hf_connection *connection = transport->idle;
    unsigned count = transport->idle_count;
    transport->idle = NULL;
    transport->idle_count = 0;
    transport->shut = transport->shut || shut;
    pthread_mutex_unlock(&transport->mutex);
    count_closed(transport, count);
    while (connection != NULL) {
        hf_connection *next = connection->next;
        hf_connection_close(connection);
        connection = next;
    }
}

/* ---------------------------------------------------- Finding the server */

static void forget_target(hf_transport *transport, const hf_address *target) {
    hf_address *old = NULL;
    pthread_mutex_lock(&transport->mutex);
    if (target == NULL || transport->target == target) {
        old = transport->target;
        transport->target = NULL;
    }
    pthread_mutex_unlock(&transport->mutex);
    if (old != NULL) {
        hf_address_unmake(old);
        free(old);
    }
}

/* Where the connection leads, as numbers, so that the keeper need not ask anybody. */
static void remember_target(hf_transport *transport, const hf_address *address,
                            const hf_connection *connection) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    hf_address *target;
    if (address->path != NULL ||
        getpeername(connection->redis->fd, (struct sockaddr *)&peer, &size) != 0 ||
        getnameinfo((struct sockaddr *)&peer, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    const char *name = address->name != NULL ? address->name : address->host;
    pthread_mutex_lock(&transport->mutex);
    bool same = transport->target != NULL && strcmp(transport->target->host, host) == 0 &&
                transport->target->port == atoi(port);
    pthread_mutex_unlock(&transport->mutex);
    if (same || (target = malloc(sizeof *target)) == NULL)
        return;
    if (hf_address_make(&transport->address, host, atoi(port), name, target) != HF_OK) {
        free(target);
        return;
    }
    forget_target(transport, NULL);
    pthread_mutex_lock(&transport->mutex);
    hf_address *other = transport->target;
    transport->target = target;
    transport->version++;
    pthread_mutex_unlock(&transport->mutex);
    if (other != NULL) {
        hf_address_unmake(other);
        free(other);
    }
}

/* Ask one sentinel for the master. */
static hf_status ask_sentinel(hf_transport *transport, const hf_place *place, int64_t deadline,
                              hf_address *master) {
    hf_address sentinel;
    hf_connection *connection;
    redisReply *reply;
    hf_status status =
        hf_address_make(&transport->address, place->host, place->port, NULL, &sentinel);
    if (status != HF_OK)
        return status;
    status = hf_connection_open(&sentinel, transport->tls, HF_ASKS_ONLY, deadline, &connection);
    if (status == HF_OK) {
        const char *words[] = {"SENTINEL", "get-master-addr-by-name", transport->address.service};
        status = hf_connection_ask(connection, deadline, &reply, 3, words);
        if (status == HF_OK && reply->type == REDIS_REPLY_ERROR &&
            strncmp(reply->str, "NOAUTH", 6) == 0) {
            freeReplyObject(reply);
            status = hf_connection_authenticate(connection, &sentinel, deadline);
            if (status == HF_OK)
                status = hf_connection_ask(connection, deadline, &reply, 3, words);
        }
        if (status == HF_OK) {
            if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                reply->element[0]->type == REDIS_REPLY_STRING &&
                reply->element[1]->type == REDIS_REPLY_STRING)
                status = hf_address_make(&transport->address, reply->element[0]->str,
                                         atoi(reply->element[1]->str), NULL, master);
            else
                status = hf_fail(HF_ECONNECT, "the sentinel %s knows no master %.100s",
                                 sentinel.shown, transport->address.service);
            freeReplyObject(reply);
        }
        hf_connection_close(connection);
    }
    hf_address_unmake(&sentinel);
    return status;
}

/* Connect to the server, wherever it is now. */
static hf_status find(hf_transport *transport, int64_t deadline, hf_connection **connection_out) {
    int64_t by = hf_after(hf_now(), transport->connect_ms);
    hf_status status = HF_ECONNECT;
    if (by > deadline)
        by = deadline;
    if (transport->address.kind == HF_SERVER) {
        status = hf_connection_open(&transport->address, transport->tls, HF_NEEDS_SERVER, by,
                                    connection_out);
        if (status == HF_OK)
            remember_target(transport, &transport->address, *connection_out);
        return status;
    }
    size_t count = transport->address.place_count, first = transport->sentinel;
    for (size_t i = 0; i < count && hf_now() < by; i++) {
        /* Each gets its share of the time, so that one that hangs leaves some for the rest. */
        int64_t now = hf_now(), share = now + (by - now) / (int64_t)(count - i);
        size_t which = (first + i) % count;
        hf_address master;
        status = ask_sentinel(transport, &transport->address.places[which], share, &master);
        if (status == HF_ENOMEM)
            return status; /* none of the others is to blame */
        if (status != HF_OK)
            continue;
        transport->sentinel = which;
        status = hf_connection_open(&master, transport->tls, HF_NEEDS_MASTER, by, connection_out);
        if (status == HF_OK)
            remember_target(transport, &master, *connection_out);
        hf_address_unmake(&master);
        if (status == HF_OK || status == HF_ENOMEM)
            return status;
    }
    return status;
}

static hf_status get_connection(hf_transport *transport, int64_t deadline,
                                hf_connection **connection_out) {
    hf_connection *connection;
    for (;;) {
        if (!take_idle(transport, deadline, &connection))
            return hf_fail(HF_ECONNECT,
                           "all %u connections that max_connections allows were in use",
                           transport->open_max);
        if (connection == NULL)
            break;
        if (hf_now() - connection->idle_since < STALE_AFTER || !hf_connection_stale(connection)) {
            *connection_out = connection;
            return HF_OK;
        }
        discard(transport, connection);
    }
    hf_status status = find(transport, deadline, connection_out);
    if (status != HF_OK)
        count_closed(transport, 1);
    return status;
}

bool hf_transport_target(hf_transport *transport, hf_address *address) {
    bool known = transport->address.path != NULL;
    pthread_mutex_lock(&transport->mutex);
    if (known) {
        *address = transport->address;
        address->shown = strdup(transport->address.shown);
        address->host = address->name = NULL;
        known = address->shown != NULL;
    } else if (transport->target != NULL) {
        known = hf_address_make(&transport->address, transport->target->host,
                                transport->target->port, transport->target->name, address) == HF_OK;
    }
    pthread_mutex_unlock(&transport->mutex);
    return known;
}

static void drop(hf_transport *transport) {
    pthread_mutex_lock(&transport->mutex);
    bool last = --transport->references == 0;
    pthread_mutex_unlock(&transport->mutex);
    if (!last)
        return;
    drop_idle(transport, true);
    forget_target(transport, NULL);
    pthread_cond_destroy(&transport->freed);
    pthread_mutex_destroy(&transport->mutex);
    hf_tls_free(transport->tls);
    hf_address_free(&transport->address);
    free(transport);
}

static void *look(void *argument) {
    hf_transport *transport = argument;
    hf_connection *connection;
    if (find(transport, HF_NO_DEADLINE, &connection) == HF_OK) {
        pthread_mutex_lock(&transport->mutex);
        bool room = transport->open_count < transport->open_max;
        transport->open_count += room;
        pthread_mutex_unlock(&transport->mutex);
        if (room)
            give_back(transport, connection);
        else
            hf_connection_close(connection);
    }
    pthread_mutex_lock(&transport->mutex);
    transport->looking = false;
    pthread_mutex_unlock(&transport->mutex);
    drop(transport);
    return NULL;
}

void hf_transport_look(hf_transport *transport) {
    if (transport->address.path != NULL)
        return; /* a path is where it is */
    pthread_mutex_lock(&transport->mutex);
    bool start = !transport->looking && !transport->shut;
    if (start) {
        transport->looking = true;
        transport->references++;
    }
    pthread_mutex_unlock(&transport->mutex);
    if (!start)
        return;
    if (!hf_detach(look, transport)) {
        pthread_mutex_lock(&transport->mutex);
        transport->looking = false;
        pthread_mutex_unlock(&transport->mutex);
        drop(transport);
    }
}

/* Might the server evict a held lock? All of ours have a TTL, so that no policy but
 * one spares them. False: the connection is of no use any more. */
static bool check_eviction(hf_transport *transport, hf_connection *connection) {
    redisReply *reply;
    long long limit = 0;
    char policy[32] = "";
    if (hf_connection_ask(connection, hf_after(hf_now(), transport->connect_ms), &reply, 2,
                          (const char *[]){"INFO", "memory"}) != HF_OK)
        return false;
    if (reply->type == REDIS_REPLY_STRING) {
        const char *memory = strstr(reply->str, "\nmaxmemory:");
        const char *name = strstr(reply->str, "\nmaxmemory_policy:");
        if (memory != NULL && name != NULL) {
            limit = atoll(memory + strlen("\nmaxmemory:"));
            sscanf(name, "\nmaxmemory_policy:%31[a-z-]", policy);
        }
    }
    if (limit > 0 && *policy != '\0' && strcmp(policy, "noeviction") != 0)
        snprintf(
            transport->warning, sizeof transport->warning,
            "%.100s evicts keys when its memory is full (maxmemory-policy %s), held locks too: "
            "set it to noeviction",
            connection->shown, policy);
    freeReplyObject(reply);
    return true;
}

hf_status hf_transport_open(hf_address *address, hf_transport **transport_out) {
    hf_transport *transport = calloc(1, sizeof *transport);
    hf_connection *connection;
    *transport_out = NULL;
    if (transport == NULL) {
        hf_address_free(address);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    transport->references = 1;
    transport->address = *address;
    transport->connect_ms = address->options.connect_timeout_ms;
    transport->command_ms = address->options.command_timeout_ms;
    transport->idle_max = address->options.idle_connections;
    transport->open_max = address->options.max_connections;
    pthread_mutex_init(&transport->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&transport->freed, &attributes);
    pthread_condattr_destroy(&attributes);
    hf_status status = HF_OK;
    if (address->tls)
        status = hf_tls_new(address, &transport->tls);
    if (status == HF_OK)
        status = get_connection(transport, HF_NO_DEADLINE, &connection);
    if (status != HF_OK) {
        drop(transport);
        return status;
    }
    if (check_eviction(transport, connection))
        give_back(transport, connection);
    else
        discard(transport, connection);
    *transport_out = transport;
    return HF_OK;
}

unsigned hf_transport_version(hf_transport *transport) {
    pthread_mutex_lock(&transport->mutex);
    unsigned version = transport->version;
    pthread_mutex_unlock(&transport->mutex);
    return version;
}

void hf_transport_hurry(hf_transport *transport) {
    __atomic_store_n(&transport->hurried, true, __ATOMIC_RELEASE);
}

void hf_transport_shut(hf_transport *transport) { drop_idle(transport, true); }

void hf_transport_free(hf_transport *transport) {
    if (transport != NULL)
        drop(transport);
}

int64_t hf_transport_patience_ms(const hf_transport *transport) { return transport->connect_ms; }

int64_t hf_transport_command_ms(const hf_transport *transport) { return transport->command_ms; }

const hf_tls *hf_transport_tls(const hf_transport *transport) { return transport->tls; }

const char *hf_transport_warning(const hf_transport *transport) { return transport->warning; }

const char *hf_transport_shown(const hf_transport *transport) { return transport->address.shown; }

static bool append(hf_connection *connection, const hf_request *request, bool whole) {
    hf_bytes head;
    hf_bytes_init(&head);
    hf_request_head(request, whole, &head);
    bool ok = hf_connection_append(connection, &head) &&
              hf_connection_append(connection, &request->encoded);
    hf_bytes_free(&head);
    if (ok && request->replicas > 0)
        ok = redisAppendCommand(connection->redis, "WAIT %d %lld", (int)request->replicas,
                                (long long)request->replica_ms) == REDIS_OK;
    return ok;
}

/* How many replicas have what the request wrote: WAIT's answer, which comes after its
 * own. False: the connection is of no use any more. */
static bool count_replicas(hf_transport *transport, hf_connection *connection,
                           const hf_request *request, hf_answer *answer) {
    redisReply *reply;
    /* Where nothing was written there is nothing to wait for. */
    bool waits = answer->reply->type == REDIS_REPLY_ERROR || hf_reply_holds(answer->reply);
    int64_t ms = waits ? request->replica_ms + transport->command_ms : 2;
    answer->replicas = -1;
    if (hf_connection_exchange(connection, hf_after(hf_now(), ms), &reply) != HF_OK)
        return false;
    if (reply->type == REDIS_REPLY_INTEGER)
        answer->replicas = reply->integer;
    else if (reply->type == REDIS_REPLY_ERROR)
        hf_fail(HF_ESERVER, "%s answered: %.200s", connection->shown, reply->str);
    freeReplyObject(reply);
    return true;
}

/* One attempt on one connection. *sent: the server may have got the request. */
static hf_status attempt(hf_transport *transport, hf_connection *connection,
                         const hf_request *request, int64_t deadline, hf_answer *answer, bool *sent,
                         hf_after_error *after) {
    hf_status status = HF_OK;
    bool alive = true;
    *after = HF_AFTER_FAIL;
    for (int whole = 0; whole < 2 && alive; whole++) {
        if (!append(connection, request, whole)) {
            discard(transport, connection);
            return hf_fail(HF_ENOMEM, "no memory");
        }
        answer->sent_at = hf_now();
        *sent = true;
        int64_t by = hf_after(answer->sent_at, transport->command_ms);
        status = hf_connection_exchange(connection, by < deadline ? by : deadline, &answer->reply);
        if (status != HF_OK) {
            discard(transport, connection);
            *after = HF_AFTER_RECONNECT;
            return status;
        }
        *sent = false;
        if (request->replicas > 0)
            alive = count_replicas(transport, connection, request, answer);
        if (answer->reply->type != REDIS_REPLY_ERROR)
            break;
        *after = hf_error_class(answer->reply->str, &status);
        hf_fail(status, "%s answered: %.*s", connection->shown, hf_error_shown(answer->reply->str),
                answer->reply->str);
        freeReplyObject(answer->reply);
        answer->reply = NULL;
        if (*after != HF_AFTER_LOAD)
            break;
    }
    if (alive)
        give_back(transport, connection);
    else
        discard(transport, connection);
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
            if (hf_error_permission(hf_error_message()))
                hf_transport_explain(transport, request, deadline);
            if (!answer->doubtful)
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

void hf_transport_explain(hf_transport *transport, const hf_request *request, int64_t deadline) {
    char text[300];
    hf_request question;
    hf_answer answer;
    if (request->script == &hf_script_permissions)
        return;
    snprintf(text, sizeof text, "%s", hf_error_message());
    hf_request_permissions(&question, request);
    hf_transport_call(transport, &question, deadline, &answer);
    bool string =
        answer.reply != NULL && answer.reply->type == REDIS_REPLY_STRING && answer.reply->len > 0;
    hf_fail(HF_ESERVER, "%s%s%.180s", text, string ? "; missing: " : "",
            string ? answer.reply->str : "");
    freeReplyObject(answer.reply);
    hf_request_free(&question);
}

void hf_transport_flush(hf_transport *transport, const hf_request *const *requests, size_t count,
                        int64_t deadline) {
    size_t answered = 0;
    /* A connection of the pool may have died unnoticed: then on a new one. */
    for (int tries = 0; tries < 3 && answered < count && hf_now() < deadline; tries++) {
        hf_connection *connection;
        if (get_connection(transport, deadline, &connection) != HF_OK)
            continue;
        /* The first of a kind whole: that leaves its script with the server. */
        bool ok = true;
        for (size_t i = answered; i < count && ok; i++)
            ok = append(connection, requests[i],
                        i == answered || requests[i]->script != requests[i - 1]->script);
        while (ok && answered < count) {
            redisReply *reply;
            ok = hf_connection_exchange(connection, deadline, &reply) == HF_OK;
            if (ok) {
                freeReplyObject(reply);
                answered++;
            }
        }
        if (ok) {
            give_back(transport, connection);
        } else {
            discard(transport, connection);
            drop_idle(transport, false);
        }
    }
}

#include "net/transport.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "net/map.h"

/* A connection that was idle for longer is looked at before it is used. */
#define STALE_AFTER (100 * HF_MS)

/* A Cluster is asked at most so often who serves what: less and less often while it
 * answers the same, so that a fleet does not storm those that are left. */
#define LOOK_MIN_MS 20
#define LOOK_MAX_MS 200
/* Redirections of one request, one after the other; the later ones with a pause. */
#define REDIRECTIONS_MAX 16
#define REDIRECTIONS_AT_ONCE 3

/* One server, or what is the server now. */
typedef struct node {
    hf_address *target; /* where it was last reached, by number; NULL: look for it */
    unsigned version;   /* one more whenever it is another server */
    unsigned map_version;
    hf_connection *idle; /* the last one used first */
    unsigned idle_count;
    bool failed; /* since it was last connected to */
} node;

struct hf_transport {
    hf_address address;
    hf_tls *tls; /* or NULL */
    int64_t connect_ms, command_ms;
    pthread_mutex_t mutex;
    int references;                /* the client's, and the thread's that looks for the server */
    hf_map *map;                   /* of a Cluster, or NULL */
    node *nodes;                   /* those of the map, or the one */
    bool looking;                  /* that thread runs */
    int64_t look_at, look_ms;      /* in a Cluster, not before that, and so long after the last */
    size_t asked;                  /* the sentinel that answered last, or the node that was asked */
    unsigned idle_max;             /* of each node */
    unsigned open_count, open_max; /* idle and in use */
    pthread_cond_t freed;          /* an idle one, or room for a new one */
    bool shut;
    bool hurried;
    char warning[256];
};

static size_t node_count(const hf_transport *transport) {
    return transport->map != NULL ? transport->map->count : 1;
}

/* With the mutex held. */
static hf_connection *pop_idle(node *at) {
    hf_connection *connection = at->idle;
    if (connection != NULL) {
        at->idle = connection->next;
        at->idle_count--;
    }
    return connection;
}

/* An idle connection of another node, to make room. With the mutex held. */
static hf_connection *pop_any(hf_transport *transport) {
    hf_connection *connection = NULL;
    for (size_t i = 0; connection == NULL && i < node_count(transport); i++)
        connection = pop_idle(&transport->nodes[i]);
    return connection;
}

/* An idle connection, or NULL with room for a new one, which counts as open from
 * now on. False: all are in use until the deadline. */
static bool take_idle(hf_transport *transport, int which, int64_t deadline,
                      hf_connection **connection_out) {
    node *at = &transport->nodes[which];
    hf_connection *other = NULL;
    pthread_mutex_lock(&transport->mutex);
    while (at->idle == NULL && transport->open_count >= transport->open_max) {
        other = pop_any(transport);
        int64_t ms = hf_until(deadline, hf_now());
        if (other != NULL || ms == 0)
            break;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        ms = until.tv_nsec / HF_MS + (ms < 3600000 ? ms : 3600000);
        until.tv_sec += ms / 1000;
        until.tv_nsec = ms % 1000 * HF_MS;
        pthread_cond_timedwait(&transport->freed, &transport->mutex, &until);
    }
    hf_connection *connection = pop_idle(at);
    bool room = connection != NULL || other != NULL || transport->open_count < transport->open_max;
    if (connection == NULL && other == NULL && room)
        transport->open_count++;
    pthread_mutex_unlock(&transport->mutex);
    hf_connection_close(other);
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
    node *at = &transport->nodes[connection->node];
    if (hf_connection_unasked(connection)) {
        discard(transport, connection);
        return;
    }
    connection->idle_since = hf_now();
    pthread_mutex_lock(&transport->mutex);
    bool current = transport->map == NULL || connection->version == at->map_version;
    if (current && !transport->shut && at->idle_count < transport->idle_max) {
        connection->next = at->idle;
        at->idle = connection;
        at->idle_count++;
        connection = NULL;
        if (transport->open_max != UINT32_MAX)
            pthread_cond_signal(&transport->freed);
    }
    pthread_mutex_unlock(&transport->mutex);
    if (connection != NULL)
        discard(transport, connection);
}

/* With the mutex held: the caller closes them, with close_idle(), when it has let it go. */
static hf_connection *take_all_idle(node *at, hf_connection *others) {
    hf_connection *connection;
    while ((connection = pop_idle(at)) != NULL) {
        connection->next = others;
        others = connection;
    }
    return others;
}

static void close_idle(hf_transport *transport, hf_connection *connection) {
    unsigned count = 0;
    while (connection != NULL) {
        hf_connection *next = connection->next;
        hf_connection_close(connection);
        connection = next;
        count++;
    }
    count_closed(transport, count);
}

static void set_failed(hf_transport *transport, int which, bool failed) {
    pthread_mutex_lock(&transport->mutex);
    transport->nodes[which].failed = failed;
    pthread_mutex_unlock(&transport->mutex);
}

static void drop_idle(hf_transport *transport, int which) {
    pthread_mutex_lock(&transport->mutex);
    hf_connection *idle = take_all_idle(&transport->nodes[which], NULL);
    transport->nodes[which].failed = true;
    pthread_mutex_unlock(&transport->mutex);
    close_idle(transport, idle);
}

/* ---------------------------------------------------- Finding the server */

static void free_target(hf_address *target) {
    if (target != NULL) {
        hf_address_unmake(target);
        free(target);
    }
}

/* Where the connection leads, as numbers, so that the keeper need not ask anybody. */
static void remember_target(hf_transport *transport, int which, const hf_address *address,
                            const hf_connection *connection) {
    node *at = &transport->nodes[which];
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    hf_address *target;
    if (address->path != NULL ||
        getpeername(hf_connection_fd(connection), (struct sockaddr *)&peer, &size) != 0 ||
        getnameinfo((struct sockaddr *)&peer, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    const char *name = address->name != NULL ? address->name : address->host;
    pthread_mutex_lock(&transport->mutex);
    bool same =
        at->target != NULL && strcmp(at->target->host, host) == 0 && at->target->port == atoi(port);
    pthread_mutex_unlock(&transport->mutex);
    if (same || (target = malloc(sizeof *target)) == NULL)
        return;
    if (hf_address_make(&transport->address, host, atoi(port), name, target) != HF_OK) {
        free(target);
        return;
    }
    pthread_mutex_lock(&transport->mutex);
    hf_address *other = at->target;
    if (transport->map != NULL && connection->version != at->map_version)
        other = target; /* it is another node's by now */
    else
        at->target = target;
    at->version += transport->map == NULL;
    pthread_mutex_unlock(&transport->mutex);
    free_target(other);
}

/* ----------------------------------------------------------- The Cluster */

int hf_transport_node(const hf_transport *transport, unsigned slot) {
    return transport->map != NULL ? __atomic_load_n(&transport->map->slots[slot], __ATOMIC_RELAXED)
                                  : 0;
}

unsigned hf_transport_change(const hf_transport *transport) {
    return transport->map != NULL ? __atomic_load_n(&transport->map->change, __ATOMIC_ACQUIRE) : 0;
}

bool hf_transport_clustered(const hf_transport *transport) { return transport->map != NULL; }

bool hf_transport_serves(hf_transport *transport, int which) {
    if (transport->map == NULL)
        return true;
    pthread_mutex_lock(&transport->mutex);
    bool serves = transport->map->owned[which] > 0;
    pthread_mutex_unlock(&transport->mutex);
    return serves;
}

/* The map may have changed: close what leads to nodes that serve nothing now, or are
 * others. With the mutex held, which it lets go. */
static void settle_map(hf_transport *transport, unsigned before) {
    hf_map *map = transport->map;
    hf_connection *idle = NULL;
    for (size_t i = 0; i < map->count; i++) {
        node *at = &transport->nodes[i];
        bool other = at->map_version != map->versions[i];
        if (other || (map->change != before && map->owned[i] == 0 && i >= map->seeds))
            idle = take_all_idle(at, idle);
        if (!other)
            continue;
        free_target(at->target);
        at->target = NULL;
        at->map_version = map->versions[i];
        at->version++;
    }
    pthread_mutex_unlock(&transport->mutex);
    close_idle(transport, idle);
}

int hf_transport_redirect(hf_transport *transport, int from, const char *text) {
    pthread_mutex_lock(&transport->mutex);
    unsigned before = transport->map->change;
    int to = hf_map_redirect(transport->map, from, text);
    bool moved = transport->map->change != before;
    settle_map(transport, before);
    if (moved || to < 0)
        hf_transport_look(transport); /* mostly more than one slot has moved */
    return to;
}

/* The address of a node; hf_address_unmake(). */
static hf_status node_address(hf_transport *transport, int which, hf_address *address) {
    pthread_mutex_lock(&transport->mutex);
    const hf_place *place = &transport->map->nodes[which];
    hf_status status =
        hf_address_make(&transport->address, place->host, place->port, NULL, address);
    pthread_mutex_unlock(&transport->mutex);
    return status;
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

static hf_status find_at(hf_transport *transport, int which, const hf_address *address, int needs,
                         int64_t deadline, hf_connection **connection_out) {
    pthread_mutex_lock(&transport->mutex);
    unsigned version = transport->nodes[which].map_version;
    pthread_mutex_unlock(&transport->mutex);
    hf_status status = hf_connection_open(address, transport->tls, needs, deadline, connection_out);
    if (status != HF_OK)
        return status;
    set_failed(transport, which, false);
    (*connection_out)->node = which;
    (*connection_out)->version = version;
    remember_target(transport, which, address, *connection_out);
    return HF_OK;
}

/* Connect to the server, wherever it is now. */
static hf_status find(hf_transport *transport, int which, int64_t deadline,
                      hf_connection **connection_out) {
    int64_t by = hf_after(hf_now(), transport->connect_ms);
    hf_status status = HF_ECONNECT;
    hf_address address;
    if (by > deadline)
        by = deadline;
    if (transport->address.kind == HF_SERVER)
        return find_at(transport, which, &transport->address, HF_NEEDS_SERVER, by, connection_out);
    if (transport->address.kind == HF_CLUSTER) {
        status = node_address(transport, which, &address);
        if (status != HF_OK)
            return status;
        status = find_at(transport, which, &address, HF_NEEDS_SERVER, by, connection_out);
        hf_address_unmake(&address);
        return status;
    }
    size_t count = transport->address.place_count;
    size_t first = __atomic_load_n(&transport->asked, __ATOMIC_RELAXED);
    for (size_t left = count; left > 0 && hf_now() < by; left--) {
        /* Each gets its share of the time, so that one that hangs leaves some for the rest. */
        int64_t now = hf_now(), share = now + (by - now) / (int64_t)left;
        size_t sentinel = (first + count - left) % count;
        status = ask_sentinel(transport, &transport->address.places[sentinel], share, &address);
        if (status == HF_ENOMEM)
            return status; /* none of the others is to blame */
        if (status != HF_OK)
            continue;
        __atomic_store_n(&transport->asked, sentinel, __ATOMIC_RELAXED);
        status = find_at(transport, which, &address, HF_NEEDS_MASTER, by, connection_out);
        hf_address_unmake(&address);
        if (status == HF_OK || status == HF_ENOMEM)
            return status;
    }
    return status;
}

static hf_status get_connection(hf_transport *transport, int which, int64_t deadline,
                                hf_connection **connection_out) {
    hf_connection *connection;
    for (;;) {
        if (!take_idle(transport, which, deadline, &connection))
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
    hf_status status = find(transport, which, deadline, connection_out);
    if (status != HF_OK) {
        count_closed(transport, 1);
        set_failed(transport, which, true);
    }
    return status;
}

/* Ask a node which nodes serve what. */
static hf_status ask_node(hf_transport *transport, int which, int64_t deadline) {
    hf_connection *connection;
    redisReply *reply;
    hf_status status = get_connection(transport, which, deadline, &connection);
    if (status != HF_OK)
        return status;
    status =
        hf_connection_ask(connection, deadline, &reply, 2, (const char *[]){"CLUSTER", "SLOTS"});
    if (status != HF_OK) {
        discard(transport, connection);
        return status;
    }
    if (reply->type == REDIS_REPLY_ERROR &&
        strstr(reply->str, "cluster support disabled") != NULL) {
        status =
            hf_fail(HF_EUNSUPPORTED, "%s belongs to no Cluster: connect with redis:// or rediss://",
                    connection->shown);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        hf_error_class(reply->str, &status);
        hf_fail(status, "%s refused CLUSTER SLOTS: %.200s", connection->shown, reply->str);
    } else {
        pthread_mutex_lock(&transport->mutex);
        unsigned before = transport->map->change;
        status = hf_map_read(transport->map, which, reply);
        settle_map(transport, before);
    }
    freeReplyObject(reply);
    give_back(transport, connection);
    return status;
}

/* Ask one after the other, another one first each time, since each may be wrong or cut off;
 * those that could not be reached come last. */
static hf_status ask_nodes(hf_transport *transport, int64_t deadline) {
    uint16_t order[HF_NODES_MAX];
    size_t left = 0, next = 0;
    hf_status status = HF_ECONNECT;
    pthread_mutex_lock(&transport->mutex);
    const hf_map *map = transport->map;
    size_t first = transport->asked++;
    for (int failed = 0; failed < 2; failed++)
        for (size_t i = 0; i < map->count; i++) {
            size_t which = (first + i) % map->count;
            if ((which < map->seeds || map->owned[which] > 0) &&
                transport->nodes[which].failed == failed)
                order[left++] = (uint16_t)which;
        }
    pthread_mutex_unlock(&transport->mutex);
    for (; left > 0 && hf_now() < deadline; left--) {
        int64_t now = hf_now();
        status = ask_node(transport, order[next++], now + (deadline - now) / (int64_t)left);
        if (status == HF_OK || status == HF_ENOMEM)
            return status;
    }
    return status;
}

/* The next node from this one on that serves something, or -1. */
static int next_serving(hf_transport *transport, int which) {
    pthread_mutex_lock(&transport->mutex);
    const hf_map *map = transport->map;
    while (map != NULL && which < (int)map->count && map->owned[which] == 0)
        which++;
    bool found = which < (map != NULL ? (int)map->count : 1);
    pthread_mutex_unlock(&transport->mutex);
    return found ? which : -1;
}

/* Connect to all that serve something and that the keeper could not reach by itself. */
static void learn_targets(hf_transport *transport) {
    hf_connection *connection;
    hf_address address;
    for (int i = 0; (i = next_serving(transport, i)) >= 0; i++) {
        if (hf_transport_target(transport, i, &address))
            hf_address_unmake(&address);
        else if (get_connection(transport, i, hf_after(hf_now(), transport->connect_ms),
                                &connection) == HF_OK)
            give_back(transport, connection);
    }
}

static bool is_number(const char *host) {
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

bool hf_transport_target(hf_transport *transport, int which, hf_address *address) {
    const hf_address *target = NULL;
    hf_place place = {0};
    bool known = false;
    pthread_mutex_lock(&transport->mutex);
    if (transport->address.path != NULL) {
        *address = transport->address;
        address->shown = strdup(transport->address.shown);
        address->host = address->name = NULL;
        known = address->shown != NULL;
    } else if ((target = transport->nodes[which].target) != NULL) {
        place = (hf_place){target->host, target->port};
    } else if (transport->map != NULL && is_number(transport->map->nodes[which].host)) {
        place = transport->map->nodes[which];
    }
    if (place.host != NULL)
        known = hf_address_make(&transport->address, place.host, place.port,
                                target != NULL ? target->name : NULL, address) == HF_OK;
    pthread_mutex_unlock(&transport->mutex);
    return known;
}

static void drop(hf_transport *transport) {
    pthread_mutex_lock(&transport->mutex);
    bool last = --transport->references == 0;
    pthread_mutex_unlock(&transport->mutex);
    if (!last)
        return;
    hf_transport_shut(transport);
    for (size_t i = 0; i < node_count(transport); i++)
        free_target(transport->nodes[i].target);
    hf_map_free(transport->map);
    free(transport->nodes);
    pthread_cond_destroy(&transport->freed);
    pthread_mutex_destroy(&transport->mutex);
    hf_tls_free(transport->tls);
    hf_address_free(&transport->address);
    free(transport);
}

/* The one connection that finding the server takes, for the pool. */
static void find_server(hf_transport *transport) {
    hf_connection *connection;
    if (find(transport, 0, HF_NO_DEADLINE, &connection) != HF_OK)
        return;
    pthread_mutex_lock(&transport->mutex);
    bool room = transport->open_count < transport->open_max;
    transport->open_count += room;
    pthread_mutex_unlock(&transport->mutex);
    if (room)
        give_back(transport, connection);
    else
        hf_connection_close(connection);
}

static void *look(void *argument) {
    hf_transport *transport = argument;
    unsigned before = hf_transport_change(transport);
    int64_t since = hf_now();
    if (transport->map == NULL)
        find_server(transport);
    else if (ask_nodes(transport, hf_after(hf_now(), transport->connect_ms)) == HF_OK)
        learn_targets(transport);
    pthread_mutex_lock(&transport->mutex);
    transport->looking = false;
    if (transport->map != NULL) {
        bool quiet = since > hf_after(transport->look_at, LOOK_MAX_MS);
        int64_t ms = 2 * transport->look_ms;
        if (quiet || before != hf_transport_change(transport) || ms < LOOK_MIN_MS)
            ms = LOOK_MIN_MS;
        transport->look_ms = ms < LOOK_MAX_MS ? ms : LOOK_MAX_MS;
        transport->look_at =
            hf_after(hf_now(), hf_jitter(transport->look_ms / 2, transport->look_ms));
    }
    pthread_mutex_unlock(&transport->mutex);
    drop(transport);
    return NULL;
}

void hf_transport_look(hf_transport *transport) {
    if (transport->address.path != NULL)
        return; /* a path is where it is */
    pthread_mutex_lock(&transport->mutex);
    bool start = !transport->looking && !transport->shut && hf_now() >= transport->look_at;
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
        transport->references--; /* the caller has one too */
        pthread_mutex_unlock(&transport->mutex);
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
    bool clustered = address->kind == HF_CLUSTER;
    hf_transport *transport = calloc(1, sizeof *transport);
    node *nodes = calloc(clustered ? HF_NODES_MAX : 1, sizeof *nodes);
    hf_map *map = clustered ? hf_map_new(address->places, address->place_count) : NULL;
    hf_connection *connection;
    *transport_out = NULL;
    if (transport == NULL || nodes == NULL || (clustered && map == NULL)) {
        hf_map_free(map);
        free(nodes);
        free(transport);
        hf_address_free(address);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    transport->map = map;
    transport->nodes = nodes;
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
    if (status == HF_OK && map != NULL)
        status = ask_nodes(transport, hf_after(hf_now(), transport->connect_ms));
    /* Of a Cluster one node has answered, and the others may come later. */
    int64_t deadline = map != NULL ? hf_after(hf_now(), transport->connect_ms) : HF_NO_DEADLINE;
    for (int i = 0; status == HF_OK && (i = next_serving(transport, i)) >= 0; i++) {
        hf_status reached = get_connection(transport, i, deadline, &connection);
        if (reached != HF_OK)
            status = map == NULL ? reached : status;
        else if (check_eviction(transport, connection))
            give_back(transport, connection);
        else
            discard(transport, connection);
    }
    if (status != HF_OK) {
        drop(transport);
        return status;
    }
    *transport_out = transport;
    return HF_OK;
}

unsigned hf_transport_version(hf_transport *transport, int which) {
    pthread_mutex_lock(&transport->mutex);
    unsigned version = transport->nodes[which].version;
    pthread_mutex_unlock(&transport->mutex);
    return version;
}

void hf_transport_hurry(hf_transport *transport) {
    __atomic_store_n(&transport->hurried, true, __ATOMIC_RELEASE);
}

void hf_transport_shut(hf_transport *transport) {
    hf_connection *idle = NULL;
    pthread_mutex_lock(&transport->mutex);
    transport->shut = true;
    for (size_t i = 0; i < node_count(transport); i++)
        idle = take_all_idle(&transport->nodes[i], idle);
    pthread_mutex_unlock(&transport->mutex);
    close_idle(transport, idle);
}

void hf_transport_free(hf_transport *transport) {
    if (transport != NULL)
        drop(transport);
}

int64_t hf_transport_patience_ms(const hf_transport *transport) { return transport->connect_ms; }

int64_t hf_transport_command_ms(const hf_transport *transport) { return transport->command_ms; }

const hf_tls *hf_transport_tls(const hf_transport *transport) { return transport->tls; }

const char *hf_transport_warning(const hf_transport *transport) { return transport->warning; }

const char *hf_transport_shown(const hf_transport *transport) { return transport->address.shown; }

static bool append_wait(hf_connection *connection, const hf_request *request) {
    char count[16], ms[24];
    snprintf(count, sizeof count, "%d", (int)request->replicas);
    snprintf(ms, sizeof ms, "%lld", (long long)request->replica_ms);
    return hf_connection_append_words(connection, 3, (const char *[]){"WAIT", count, ms}, NULL);
}

static bool append(hf_connection *connection, const hf_request *request, bool whole) {
    hf_bytes head;
    hf_bytes_init(&head);
    hf_request_head(request, whole, &head);
    bool ok = hf_connection_append(connection, &head) &&
              hf_connection_append(connection, &request->encoded);
    hf_bytes_free(&head);
    return ok && (request->replicas == 0 || append_wait(connection, request));
}

/* How many replicas have what the request wrote: WAIT's answer, which comes after its
 * own. False: the connection is of no use any more. */
static bool count_replicas(hf_transport *transport, hf_connection *connection,
                           const hf_request *request, hf_answer *answer) {
    redisReply *reply;
    /* Where nothing was written there is nothing to wait for. */
    bool waits = answer->reply->type == REDIS_REPLY_ERROR || hf_reply_holds(answer->reply);
    int64_t ms = waits ? request->replica_ms + transport->command_ms : 2;
    answer->replicas = 0;
    if (hf_connection_exchange(connection, hf_after(hf_now(), ms), &reply) != HF_OK)
        return false;
    answer->replicas = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    if (reply->type == REDIS_REPLY_ERROR)
        hf_fail(HF_ESERVER, "%s answered: %.200s", connection->shown, reply->str);
    freeReplyObject(reply);
    return true;
}

hf_after_error hf_transport_error(hf_transport *transport, const char *shown, const char *text,
                                  hf_status *status) {
    hf_after_error after = hf_error_class(text, status);
    bool redirects = after == HF_AFTER_MOVED || after == HF_AFTER_ASK;
    if (redirects && transport->map == NULL) {
        *status = hf_fail(HF_EUNSUPPORTED,
                          "%s is a node of a Cluster: connect with redis+cluster:// or "
                          "rediss+cluster://",
                          shown);
        return HF_AFTER_FAIL;
    }
    hf_fail(*status, "%s answered: %.*s", shown, hf_error_shown(text), text);
    return after;
}

/* How a call stands. */
typedef struct {
    const hf_request *request;
    hf_request alone; /* the same with one key, if its slot is being moved */
    bool split, asking, sent;
    int node, redirections;
    hf_after_error after;
} course;

/* One attempt on one connection. sent: the server may have got the request. */
static hf_status attempt(hf_transport *transport, course *call, hf_connection *connection,
                         int64_t deadline, hf_answer *answer) {
    hf_status status = HF_OK;
    bool alive = true;
    call->after = HF_AFTER_FAIL;
    for (int whole = 0; whole < 2 && alive; whole++) {
        /* ASKING is good for one command, and spent by one that fails. */
        if ((call->asking && !hf_connection_append_asking(connection)) ||
            !append(connection, call->request, whole)) {
            discard(transport, connection);
            return hf_fail(HF_ENOMEM, "no memory");
        }
        answer->sent_at = hf_now();
        answer->node = call->node;
        call->sent = true;
        int64_t by = hf_after(answer->sent_at, transport->command_ms);
        by = by < deadline ? by : deadline;
        status = hf_connection_exchange(connection, by, &answer->reply);
        if (status == HF_OK && call->asking) {
            freeReplyObject(answer->reply);
            status = hf_connection_exchange(connection, by, &answer->reply);
        }
        if (status != HF_OK) {
            discard(transport, connection);
            call->after = HF_AFTER_RECONNECT;
            return status;
        }
        call->sent = false;
        if (call->request->replicas > 0)
            alive = count_replicas(transport, connection, call->request, answer);
        if (answer->reply->type != REDIS_REPLY_ERROR)
            break;
        call->after = hf_transport_error(transport, connection->shown, answer->reply->str, &status);
        if (call->after == HF_AFTER_MOVED || call->after == HF_AFTER_ASK) {
            int to = hf_transport_redirect(transport, call->node, answer->reply->str);
            call->asking = call->after == HF_AFTER_ASK && to >= 0;
            if (call->asking)
                call->node = to;
            if (to < 0)
                call->after = HF_AFTER_WAIT;
        }
        freeReplyObject(answer->reply);
        answer->reply = NULL;
        if (call->after != HF_AFTER_LOAD)
            break;
    }
    if (alive)
        give_back(transport, connection);
    else
        discard(transport, connection);
    return status;
}

/* See where the next attempt goes, and whether it is to wait a little. */
static bool needs_pause(hf_transport *transport, course *call) {
    switch (call->after) {
    case HF_AFTER_FAIL:
        return false;
    case HF_AFTER_MOVED:
    case HF_AFTER_ASK:
        return ++call->redirections > REDIRECTIONS_AT_ONCE;
    case HF_AFTER_SPLIT:
        call->redirections = 0; /* it is not sent round in circles */
        call->asking = false;
        if (call->split || !hf_request_alone(&call->alone, call->request))
            return true;
        call->split = true;
        call->request = &call->alone;
        return false;
    case HF_AFTER_RECONNECT:
        drop_idle(transport, call->node); /* they lead to the same trouble */
        break;
    default:
        break;
    }
    call->asking = false;
    if (transport->map == NULL)
        return call->after != HF_AFTER_RECONNECT;
    hf_transport_look(transport); /* another node may serve it by now: wait for that */
    return true;
}

static hf_status run(hf_transport *transport, course *call, int64_t deadline, hf_answer *answer) {
    int64_t pause_ms = 0;
    for (;;) {
        hf_connection *connection;
        call->sent = false;
        call->after = HF_AFTER_FAIL;
        if (!call->asking)
            call->node = hf_transport_node(transport, call->request->slot);
        hf_status status = get_connection(transport, call->node, deadline, &connection);
        if (status == HF_OK)
            status = attempt(transport, call, connection, deadline, answer);
        else if (status == HF_ECONNECT)
            call->after = HF_AFTER_WAIT;
        if (status == HF_OK)
            return HF_OK;
        answer->doubtful = answer->doubtful || call->sent;

        /* At once on a new connection; then slower and slower, so that a server
         * in trouble is not also stormed. */
        int64_t pause = 0;
        bool redirected = call->after >= HF_AFTER_MOVED; /* it goes on, also in a hurry */
        bool again = call->after == HF_AFTER_RECONNECT;
        if (needs_pause(transport, call) || (again && pause_ms > 0)) {
            pause_ms = pause_ms < 5 ? 5 : pause_ms < 100 ? 2 * pause_ms : 100;
            pause = hf_jitter(pause_ms / 2, pause_ms + 1);
        } else if (again) {
            pause_ms = 5;
        }
        bool hurried = __atomic_load_n(&transport->hurried, __ATOMIC_ACQUIRE);
        bool round = call->redirections > REDIRECTIONS_MAX;
        if (round)
            hf_fail(status,
                    "%s: redirected %d times, because its nodes do not agree who serves "
                    "slot %u",
                    transport->address.shown, REDIRECTIONS_MAX, call->request->slot);
        /* What there is no time to cure is what the caller is told. */
        if (call->after == HF_AFTER_FAIL || round || (hurried && (!redirected || pause > 0)) ||
            hf_until(deadline, hf_now()) <= pause + 10) {
            if (hf_error_permission(hf_error_message()))
                hf_transport_explain(transport, call->request, deadline);
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

hf_status hf_transport_call(hf_transport *transport, const hf_request *request, int64_t deadline,
                            hf_answer *answer) {
    course call = {.request = request};
    memset(answer, 0, sizeof *answer);
    if (request->encoded.failed)
        return hf_fail(HF_ENOMEM, "no memory");
    hf_status status = run(transport, &call, deadline, answer);
    if (call.split)
        hf_request_free(&call.alone);
    return status;
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

/* Send those of the requests that are the node's, and read the answers. */
static void flush_to(hf_transport *transport, int which, const hf_request *const *requests,
                     size_t count, bool *tried, bool *done, int64_t deadline) {
    hf_connection *connection;
    const hf_script *last = NULL;
    size_t mine[HF_FLUSH_MAX], sent = 0, answered = 0;
    for (size_t i = 0; i < count; i++)
        if (!done[i] && hf_transport_node(transport, requests[i]->slot) == which) {
            mine[sent++] = i;
            tried[i] = true;
        }
    if (get_connection(transport, which, deadline, &connection) != HF_OK) {
        if (transport->map != NULL)
            hf_transport_look(transport);
        return;
    }
    /* The first of a kind whole: that leaves its script with the server. */
    bool ok = true;
    for (size_t i = 0; i < sent && ok; i++) {
        ok = append(connection, requests[mine[i]], requests[mine[i]]->script != last);
        last = requests[mine[i]]->script;
    }
    for (; ok && answered < sent; answered++) {
        redisReply *reply;
        size_t i = mine[answered];
        hf_status status = hf_connection_exchange(connection, deadline, &reply);
        ok = status == HF_OK;
        if (!ok)
            break;
        hf_after_error after = HF_AFTER_FAIL;
        if (reply->type == REDIS_REPLY_ERROR)
            after = hf_transport_error(transport, connection->shown, reply->str, &status);
        done[i] = true;
        if (after == HF_AFTER_MOVED)
            done[i] = hf_transport_redirect(transport, which, reply->str) < 0;
        else if (after == HF_AFTER_ASK || after == HF_AFTER_SPLIT)
            done[i] = tried[i] = false; /* by itself */
        freeReplyObject(reply);
    }
    if (ok) {
        give_back(transport, connection);
    } else {
        discard(transport, connection);
        drop_idle(transport, which);
        if (transport->map != NULL)
            hf_transport_look(transport);
    }
    for (size_t i = 0; i < answered; i++) {
        hf_answer answer;
        if (tried[mine[i]])
            continue;
        tried[mine[i]] = done[mine[i]] = true;
        if (hf_transport_call(transport, requests[mine[i]], deadline, &answer) == HF_OK)
            freeReplyObject(answer.reply);
    }
}

void hf_transport_flush(hf_transport *transport, const hf_request *const *requests, size_t count,
                        int64_t deadline) {
    bool done[HF_FLUSH_MAX] = {false};
    /* A connection of the pool may have died unnoticed: then on a new one. */
    for (int tries = 0; tries < 3; tries++) {
        bool tried[HF_FLUSH_MAX] = {false};
        for (size_t i = 0; i < count && hf_now() < deadline; i++)
            if (!done[i] && !tried[i])
                flush_to(transport, hf_transport_node(transport, requests[i]->slot), requests,
                         count, tried, done, deadline);
    }
}

#include "net/discovery.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/simulated.h"
#include "net/login.h"
#include "net/map.h"
#include "net/sentinel.h"
#include "protocol/errors.h"

/* How often a cluster is asked for its slots: less and less often while the answer stays the same,
 * so that a fleet does not overload the remaining nodes. */
#define LOOK_MIN_MS 20
#define LOOK_MAX_MS 200
/* How often a sentinel is asked for the master, besides its events; how soon at first it is asked
 * again if that server does not report yet that it is the master, or the sentinel did not answer;
 * and how often all sentinels are asked, because the master that this one names cannot be
 * reached. */
#define ASK_MS 1000
#define ASK_AGAIN_MS 100
#define ASK_ALL_MS 5000
/* Sentinels learn of a failover from each other in a few seconds. */
#define FORGET_MS 10000

#define PEER_SIZE (INET6_ADDRSTRLEN + 20) /* an IP address, perhaps with an interface */

struct hf_discovery {
    hf_address address;
    hf_tls *tls; /* or NULL */
    int64_t connect_ms;
    unsigned generation; /* of the process that opened the client */
    pthread_mutex_t mutex;
    int references;           /* of the client, and of threads */
    hf_map *map;              /* of a cluster; NULL: the members below describe the one node */
    char peer[PEER_SIZE];     /* its IP address when last reached; "": not yet */
    int port;                 /* its port when last reached */
    unsigned change;          /* also the version of the one node */
    bool looking;             /* the thread of run_look() runs */
    int64_t look_at, look_ms; /* the earliest time of the next look; the last pause */
    size_t asked;             /* the sentinel that last answered, or the node that was last asked */
    hf_place named;           /* the last master that a sentinel named and that was reached */
    hf_place watched;         /* the master that the watched sentinel names; host NULL: none */
    int64_t ask_all_at;       /* when connections ask all sentinels, because `watched` cannot be
                               * reached */
    int64_t epoch;            /* the highest that a sentinel has reported, but see believes() */
    uint64_t older;           /* a bit for each sentinel that has reported a lower epoch since */
    int64_t older_since;      /* when the first of them did */
    bool watching;            /* the thread of run_watch() runs */
    int watch_fd;             /* the socket on which it waits, or -1 */
    int wake_fd;              /* or -1 */
    bool shut;
    int64_t opened, broken, again; /* counts of connections */
};

/* Wake the client's thread. With the mutex held. */
static void wake(const hf_discovery *discovery) {
    if (discovery->wake_fd >= 0)
        hf_event_set(discovery->wake_fd);
}

static void note_change(hf_discovery *discovery) {
    __atomic_add_fetch(&discovery->change, 1, __ATOMIC_RELEASE);
}

void hf_discovery_wake(hf_discovery *discovery) {
    HF_HOLDING(&discovery->mutex);
    wake(discovery);
}

void hf_discovery_set_wake(hf_discovery *discovery, int fd) {
    HF_HOLDING(&discovery->mutex);
    discovery->wake_fd = fd;
}

/* ------------------------------------------------------------- The nodes */

int hf_discovery_node(const hf_discovery *discovery, unsigned slot) {
    return discovery->map != NULL ? __atomic_load_n(&discovery->map->slots[slot], __ATOMIC_RELAXED)
                                  : 0;
}

bool hf_discovery_clustered(const hf_discovery *discovery) { return discovery->map != NULL; }

bool hf_discovery_follows(const hf_discovery *discovery) {
    return discovery->address.kind != HF_SERVER;
}

unsigned hf_discovery_change(const hf_discovery *discovery) {
    return __atomic_load_n(&discovery->change, __ATOMIC_ACQUIRE);
}

unsigned hf_discovery_place(const hf_discovery *discovery, unsigned slot) {
    return discovery->map != NULL ? (unsigned)hf_discovery_node(discovery, slot)
                                  : hf_discovery_change(discovery);
}

size_t hf_discovery_nodes(hf_discovery *discovery) {
    HF_HOLDING(&discovery->mutex);
    return discovery->map != NULL ? discovery->map->count : 1;
}

bool hf_discovery_serves(hf_discovery *discovery, int node) {
    HF_HOLDING(&discovery->mutex);
    return discovery->map == NULL || discovery->map->owned[node] > 0;
}

unsigned hf_discovery_version(const hf_discovery *discovery, int node) {
    return discovery->map != NULL
               ? __atomic_load_n(&discovery->map->versions[node], __ATOMIC_ACQUIRE)
               : hf_discovery_change(discovery);
}

bool hf_discovery_current(const hf_discovery *discovery, const hf_connection *connection) {
    return connection->version == hf_discovery_version(discovery, connection->node);
}

bool hf_discovery_replaced(const hf_discovery *discovery, const hf_connection *connection) {
    return discovery->address.kind == HF_SENTINEL && !hf_discovery_current(discovery, connection);
}

void hf_discovery_show(hf_discovery *discovery, int node, char *text, size_t capacity) {
    if (discovery->map == NULL) {
        snprintf(text, capacity, "%s", discovery->address.shown);
        return;
    }
    HF_HOLDING(&discovery->mutex);
    const hf_place *place = &discovery->map->nodes[node];
    snprintf(text, capacity, "%s:%d", place->host, place->port);
}

void hf_discovery_serving(hf_discovery *discovery, char *text, size_t capacity) {
    HF_HOLDING(&discovery->mutex);
    bool six = strchr(discovery->peer, ':') != NULL;
    snprintf(text, capacity, "%s%s%s:%d", six ? "[" : "", discovery->peer, six ? "]" : "",
             discovery->port);
}

void hf_discovery_doubt(hf_discovery *discovery, int node) {
    HF_HOLDING(&discovery->mutex);
    if (discovery->map != NULL)
        discovery->map->failed[node] = true;
}

/* Report a change of the map since `before`. False: there is none. With the mutex held. */
static bool tell_map(hf_discovery *discovery, unsigned before) {
    if (discovery->map->change == before)
        return false;
    note_change(discovery);
    wake(discovery);
    return true;
}

int hf_discovery_redirect(hf_discovery *discovery, int node, const char *text) {
    pthread_mutex_lock(&discovery->mutex);
    unsigned before = discovery->map->change;
    int to = hf_map_redirect(discovery->map, node, text);
    bool moved = tell_map(discovery, before) && *text == 'M'; /* an ASK may name a new node, too */
    pthread_mutex_unlock(&discovery->mutex);
    if (moved || to < 0)
        hf_discovery_look(discovery); /* usually more slots have moved */
    return to;
}

/* ------------------------------------------------------------ Connecting */

static bool peer_of(const hf_connection *connection, char host[NI_MAXHOST], int *port) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    char service[NI_MAXSERV];
    if (getpeername(connection->socket.fd, (struct sockaddr *)&peer, &size) != 0 ||
        getnameinfo((struct sockaddr *)&peer, size, host, NI_MAXHOST, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    *port = atoi(service);
    return strlen(host) < PEER_SIZE;
}

/* Return whether the name still leads to that IP address, too: then it has several servers or
 * proxies at once, and no server has replaced another. */
static bool still_named(const char *name, const char *peer) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    char host[NI_MAXHOST];
    bool found = false;
    if (getaddrinfo(name, NULL, &hints, &all) != 0)
        return false;
    for (const struct addrinfo *each = all; each != NULL && !found; each = each->ai_next)
        found = getnameinfo(each->ai_addr, each->ai_addrlen, host, sizeof host, NULL, 0,
                            NI_NUMERICHOST) == 0 &&
                strcmp(host, peer) == 0;
    freeaddrinfo(all);
    return found;
}

/* Return whether the server was reached last. With the mutex held. */
static bool was_reached(const hf_discovery *discovery, const char *host, int port) {
    return strcmp(discovery->peer, host) == 0 && discovery->port == port;
}

/* Return whether the connection has reached another server than the last one. May ask a name
 * server. */
static bool is_other(hf_discovery *discovery, const char *host, int port) {
    char before[PEER_SIZE];
    pthread_mutex_lock(&discovery->mutex);
    memcpy(before, discovery->peer, sizeof before);
    bool same = *before == '\0' || was_reached(discovery, host, port);
    pthread_mutex_unlock(&discovery->mutex);
    return !same && (discovery->address.kind == HF_SENTINEL ||
                     !still_named(discovery->address.place.host, before));
}

/* Set the place to the master; NULL, or no memory: no master. */
static void set_place(hf_place *place, const hf_place *master) {
    free(place->host);
    *place = master != NULL ? (hf_place){strdup(master->host), master->port} : (hf_place){0};
}

static bool is_at(const hf_place *place, const hf_place *master) {
    return place->host != NULL && strcmp(place->host, master->host) == 0 &&
           place->port == master->port;
}

/* Remember where the connection leads. HF_ECONNECT: its node has become another server; or it has
 * ended, and its server is not known. */
static hf_status settle(hf_discovery *discovery, const hf_address *address,
                        hf_connection *connection) {
    char host[NI_MAXHOST];
    int port;
    if (address->path != NULL || discovery->map != NULL) /* the map shows the servers of a
                                                          * cluster */
        return HF_OK;
    if (!peer_of(connection, host, &port))
        return discovery->address.kind == HF_SENTINEL
                   ? hf_fail(HF_ECONNECT, "%s ended the connection at once", address->shown)
                   : HF_OK;
    bool other = is_other(discovery, host, port), follows = discovery->address.kind == HF_SENTINEL;
    HF_HOLDING(&discovery->mutex);
    bool late = connection->version != discovery->change;
    if (late && !was_reached(discovery, host, port))
        return follows ? hf_fail(HF_ECONNECT, "%s is no longer the master", address->shown) : HF_OK;
    if (follows) {
        set_place(&discovery->named, &address->place);
        /* A watched sentinel that names another master has not heard of the failover yet. */
        if (other && !is_at(&discovery->watched, &address->place))
            set_place(&discovery->watched, NULL);
    }
    if (!late) {
        snprintf(discovery->peer, PEER_SIZE, "%.*s", PEER_SIZE - 1, host);
        discovery->port = port;
        if (other)
            note_change(discovery); /* last of all: other threads see the change at once */
    }
    connection->version = discovery->change;
    return HF_OK;
}

/* Connect and settle. version: the node's, read before its address was looked up. */
static hf_status connect_at(hf_discovery *discovery, int node, unsigned version,
                            const hf_address *address, int64_t deadline,
                            hf_connection **connection_out) {
    hf_connection *connection;
    int needs = discovery->address.kind == HF_SENTINEL ? HF_NEEDS_MASTER : HF_NEEDS_SERVER;
    hf_status status = hf_login_open(address, discovery->tls, needs, deadline, &connection);
    if (status != HF_OK)
        return status;
    connection->node = node;
    connection->version = version;
    status = settle(discovery, address, connection);
    if (status != HF_OK) {
        hf_connection_close(connection);
        return status;
    }
    __atomic_store_n(connection_out, connection, __ATOMIC_RELEASE);
    if (connection->version != version)
        hf_discovery_wake(discovery);
    return HF_OK;
}

static hf_status connect_node(hf_discovery *discovery, int node, unsigned version, int64_t deadline,
                              hf_connection **connection_out) {
    hf_address address;
    pthread_mutex_lock(&discovery->mutex);
    hf_status status = hf_address_make(&discovery->address, &discovery->map->nodes[node], &address);
    pthread_mutex_unlock(&discovery->mutex);
    if (status != HF_OK)
        return status;
    status = connect_at(discovery, node, version, &address, deadline, connection_out);
    hf_address_unmake(&address);
    return status;
}

/* ------------------------------------------------------------- Sentinels */

/*
 * Return whether the answer of a sentinel with that epoch counts. A sentinel with a lower epoch
 * than another has not learned of the last failover, because it is cut off, perhaps with the former
 * master. But sentinels that were set up anew begin at 0: when most of them have reported lower
 * epochs, and for a while none has reported the highest, the highest is forgotten. The last
 * sentinel that counted is asked first from then on.
 */
static bool believes(hf_discovery *discovery, size_t which, int64_t epoch) {
    int64_t now = hf_now();
    HF_HOLDING(&discovery->mutex);
    bool older = epoch < discovery->epoch;
    if (older) {
        HF_MARK("C27");
        if (discovery->older == 0)
            discovery->older_since = now;
        discovery->older |= UINT64_C(1) << which % 64;
        size_t count = (size_t)__builtin_popcountll(discovery->older);
        older = 2 * count <= discovery->address.place_count ||
                now < hf_after(discovery->older_since, FORGET_MS);
    }
    if (!older) {
        discovery->epoch = epoch;
        discovery->older = 0;
        __atomic_store_n(&discovery->asked, which, __ATOMIC_RELAXED);
    }
    return !older;
}

static bool is_named(hf_discovery *discovery, const hf_address *master) {
    HF_HOLDING(&discovery->mutex);
    return is_at(&discovery->named, &master->place);
}

/* Set the message that stands if no other follows: this thread may have stood still since its call
 * began. */
static hf_status too_late(const hf_discovery *discovery) {
    return hf_fail(HF_ECONNECT, "cannot reach %s: no answer in time", discovery->address.shown);
}

/* Connect to the master that a sentinel names. left: how many sentinels are still to be asked,
 * including this one. */
static hf_status connect_by_sentinel(hf_discovery *discovery, size_t which, unsigned version,
                                     size_t left, int64_t deadline,
                                     hf_connection **connection_out) {
    int64_t now = hf_now(), share = now + (deadline - now) / (int64_t)left;
    hf_sentinel sentinel;
    hf_address master;
    hf_status status =
        hf_sentinel_open(&discovery->address, discovery->tls, which, share, &sentinel);
    if (status != HF_OK)
        return status;
    int64_t epoch;
    status = hf_sentinel_master(&sentinel, share, &master, &epoch);
    hf_sentinel_close(&sentinel);
    if (status != HF_OK)
        return status;
    now = hf_now();
    int64_t by = left > 1 ? now + (deadline - now) / 2 : deadline;
    if (believes(discovery, which, epoch) || is_named(discovery, &master))
        status = connect_at(discovery, 0, version, &master, by, connection_out);
    else
        status = hf_fail(HF_ECONNECT, "%s: a sentinel has not heard of the last failover",
                         discovery->address.shown);
    hf_address_unmake(&master);
    return status;
}

/* Ask each sentinel within a share of the time, so that one that hangs leaves time for the rest: a
 * connection and one round trip must fit in it, and with a password two more. The master that it
 * names gets half of the time left, because the sentinel may be cut off together with a former
 * master whose host is gone. */
static hf_status connect_by_sentinels(hf_discovery *discovery, unsigned version, int64_t deadline,
                                      hf_connection **connection_out) {
    hf_status status = too_late(discovery);
    size_t count = discovery->address.place_count;
    size_t first = __atomic_load_n(&discovery->asked, __ATOMIC_RELAXED);
    for (size_t left = count; left > 0 && hf_now() < deadline; left--) {
        status = connect_by_sentinel(discovery, (first + count - left) % count, version, left,
                                     deadline, connection_out);
        if (status == HF_OK || status == HF_ENOMEM)
            break; /* without memory no other sentinel helps */
    }
    return status;
}

/* Note the master that the watched sentinel names; NULL: no sentinel is watched. */
static void set_watched(hf_discovery *discovery, const hf_place *master) {
    HF_HOLDING(&discovery->mutex);
    set_place(&discovery->watched, master);
}

/* Return the master that the watched sentinel names. False: the caller must ask all sentinels, and
 * this call notes when that is next due. While that master cannot be reached, they are all asked
 * once in a while, because another sentinel may know better; asking each time would overload them
 * when the master of a whole fleet is away. */
static bool watched_master(hf_discovery *discovery, hf_address *master) {
    int64_t now = hf_now();
    HF_HOLDING(&discovery->mutex);
    const hf_place *place = &discovery->watched;
    bool named = place->host != NULL && now < discovery->ask_all_at &&
                 hf_address_make(&discovery->address, place, master) == HF_OK;
    if (!named)
        discovery->ask_all_at = hf_after(now, ASK_ALL_MS);
    return named;
}

static void note_whether_reached(hf_discovery *discovery, bool reached) {
    HF_HOLDING(&discovery->mutex);
    if (reached)
        discovery->ask_all_at = HF_NO_DEADLINE;
    else if (discovery->ask_all_at == HF_NO_DEADLINE)
        discovery->ask_all_at = hf_after(hf_now(), ASK_ALL_MS);
}

/* --------------------------------------------------------------- Threads */

bool hf_discovery_detach(hf_discovery *discovery, void *(*run)(void *), void *argument) {
    if (hf_generation() != discovery->generation)
        return false; /* a forked child's copy */
    __atomic_add_fetch(&discovery->references, 1, __ATOMIC_RELAXED);
    if (hf_detach(run, argument))
        return true;
    hf_discovery_drop(discovery);
    return false;
}

/* Start the thread that looks, if a look is due, or that watches; unless *runs shows that it runs.
 * With sentinels no look is planned. False: the thread cannot be started. */
static bool start(hf_discovery *discovery, bool *runs, void *(*run)(void *)) {
    pthread_mutex_lock(&discovery->mutex);
    bool starts = !*runs && !discovery->shut && hf_now() >= discovery->look_at;
    *runs = *runs || starts;
    pthread_mutex_unlock(&discovery->mutex);
    if (!starts || hf_discovery_detach(discovery, run, discovery))
        return true;
    HF_HOLDING(&discovery->mutex);
    *runs = false;
    return false;
}

/* -------------------------------------------------------------- Watching */

/* Note the socket on which the watch waits; -1: none. False: the client is closed, and the watch
 * ends. */
static bool keep_watching(hf_discovery *discovery, int fd) {
    HF_HOLDING(&discovery->mutex);
    discovery->watching = !discovery->shut;
    discovery->watch_fd = discovery->shut ? -1 : fd;
    return discovery->watching;
}

/* Meet the master that a sentinel names. False: it is new, and cannot be reached or does not report
 * yet that it is a master. */
static bool meet_master(hf_discovery *discovery, const hf_address *master) {
    hf_connection *connection;
    unsigned version = hf_discovery_version(discovery, 0);
    if (is_named(discovery, master))
        return true;
    int64_t deadline = hf_after(hf_now(), discovery->connect_ms);
    if (connect_at(discovery, 0, version, master, deadline, &connection) != HF_OK)
        return false;
    hf_connection_close(connection);
    return true;
}

/* Follow that sentinel until it fails, is silent, has an older epoch than another, or the client is
 * closed. False: it never gave an answer that counts. */
static bool follow_sentinel(hf_discovery *discovery, size_t which) {
    hf_sentinel sentinel;
    hf_address master;
    int64_t epoch, tried = 0, deadline = hf_after(hf_now(), discovery->connect_ms);
    if (hf_sentinel_open(&discovery->address, discovery->tls, which, deadline, &sentinel) != HF_OK)
        return false;
    bool answered = false;
    int64_t again_ms = 0;
    hf_status status = hf_sentinel_subscribe(&sentinel, deadline);
    while (status == HF_OK && keep_watching(discovery, hf_sentinel_fd(&sentinel))) {
        deadline = hf_after(hf_now(), discovery->connect_ms);
        status = hf_sentinel_master(&sentinel, deadline, &master, &epoch);
        if (status != HF_OK)
            break;
        bool believed = believes(discovery, which, epoch);
        set_watched(discovery, believed ? &master.place : NULL);
        bool met = believed && meet_master(discovery, &master);
        hf_address_unmake(&master);
        if (!believed)
            break;
        answered = true;
        /* A fleet must not overload a server that lets no client in, because it is full, for
         * example. After another failover the new master is tried again soon. */
        again_ms = met ? 0 : hf_backoff(epoch == tried ? again_ms : 0, ASK_AGAIN_MS, ASK_MS);
        tried = epoch;
        status = hf_sentinel_wait(&sentinel, met ? ASK_MS : again_ms);
    }
    set_watched(discovery, NULL);
    keep_watching(discovery, -1);
    hf_sentinel_close(&sentinel);
    return answered;
}

static void *run_watch(void *argument) {
    hf_discovery *discovery = argument;
    size_t which = __atomic_load_n(&discovery->asked, __ATOMIC_RELAXED);
    int64_t pause_ms = 0;
    while (keep_watching(discovery, -1)) {
        bool followed = follow_sentinel(discovery, which);
        pause_ms = hf_backoff(followed ? 0 : pause_ms, ASK_AGAIN_MS, ASK_MS);
        which = (which + 1) % discovery->address.place_count;
        if (!keep_watching(discovery, -1))
            break;
        poll(NULL, 0, (int)hf_spread(pause_ms));
    }
    hf_discovery_drop(discovery);
    return NULL;
}

/* --------------------------------------------------------- Any deployment */

static hf_status connect_and_watch(hf_discovery *discovery, unsigned version, int64_t deadline,
                                   hf_connection **connection_out) {
    hf_address master;
    hf_status status;
    if (watched_master(discovery, &master)) {
        status = connect_at(discovery, 0, version, &master, deadline, connection_out);
        hf_address_unmake(&master);
    } else {
        status = connect_by_sentinels(discovery, version, deadline, connection_out);
    }
    note_whether_reached(discovery, status == HF_OK);
    /* The watch runs from the first connection to the last: a client that asks only now and then
     * must not ask the old master either. If the thread cannot be started, the next connection and
     * the client's thread try again. */
    if (status == HF_OK)
        start(discovery, &discovery->watching, run_watch);
    return status;
}

bool hf_discovery_watch(hf_discovery *discovery) {
    int64_t opened, again;
    if (discovery->address.kind != HF_SENTINEL)
        return true;
    hf_discovery_connections(discovery, &opened, &again);
    return opened == 0 || start(discovery, &discovery->watching, run_watch);
}

void hf_discovery_broke(hf_discovery *discovery) {
    HF_HOLDING(&discovery->mutex);
    discovery->broken++;
}

void hf_discovery_connections(hf_discovery *discovery, int64_t *opened, int64_t *again) {
    HF_HOLDING(&discovery->mutex);
    *opened = discovery->opened;
    *again = discovery->again;
}

hf_status hf_discovery_connect(hf_discovery *discovery, int node, int64_t deadline,
                               hf_connection **connection_out) {
    int64_t by = hf_earlier(hf_after(hf_now(), discovery->connect_ms), deadline);
    unsigned version = hf_discovery_version(discovery, node);
    hf_status status;
    if (hf_now() >= by)
        status = too_late(discovery);
    else if (discovery->address.kind == HF_SENTINEL)
        status = connect_and_watch(discovery, version, by, connection_out);
    else if (discovery->address.kind == HF_CLUSTER)
        status = connect_node(discovery, node, version, by, connection_out);
    else
        status = connect_at(discovery, node, version, &discovery->address, by, connection_out);
    HF_HOLDING(&discovery->mutex);
    if (discovery->map != NULL)
        discovery->map->failed[node] = status != HF_OK;
    discovery->opened += status == HF_OK;
    discovery->again += status == HF_OK && discovery->again < discovery->broken;
    return status;
}

/* -------------------------------------------------------- Slots and nodes */

/* Take a node's answer to CLUSTER SLOTS. */
static hf_status take_slots(hf_discovery *discovery, const hf_connection *connection,
                            const redisReply *reply) {
    hf_status status;
    if (reply->type == REDIS_REPLY_ERROR && hf_error_single(reply->str))
        return hf_fail(HF_EUNSUPPORTED,
                       "%s belongs to no cluster: connect with redis:// or rediss://",
                       connection->shown);
    if (reply->type == REDIS_REPLY_ERROR) {
        hf_error_class(reply->str, &status);
        return hf_fail(status, "%s refused CLUSTER SLOTS: %.200s", connection->shown, reply->str);
    }
    HF_HOLDING(&discovery->mutex);
    unsigned before = discovery->map->change;
    status = hf_map_read(discovery->map, connection->node, reply);
    tell_map(discovery, before);
    return status;
}

static hf_status ask_node(hf_discovery *discovery, int node, int64_t deadline) {
    hf_connection *connection;
    redisReply *reply;
    hf_status status = hf_discovery_connect(discovery, node, deadline, &connection);
    if (status != HF_OK)
        return status;
    status = hf_connection_ask(connection, deadline, 1, &(const hf_words){2, {"CLUSTER", "SLOTS"}},
                               &reply);
    if (status == HF_OK)
        status = take_slots(discovery, connection, reply);
    freeReplyObject(reply);
    hf_connection_close(connection);
    return status;
}

/* Order the nodes to be asked. Each time another node is first, because a node may be wrong or cut
 * off; nodes that could not be reached are last. */
static size_t order_nodes(hf_discovery *discovery, uint16_t order[HF_NODES_MAX]) {
    size_t count = 0;
    HF_HOLDING(&discovery->mutex);
    const hf_map *map = discovery->map;
    size_t first = discovery->asked++;
    for (int failed = 0; failed < 2; failed++)
        for (size_t i = 0; i < map->count; i++) {
            size_t node = (first + i) % map->count;
            if ((node < map->seeds || map->owned[node] > 0) && map->failed[node] == failed)
                order[count++] = (uint16_t)node;
        }
    return count;
}

static hf_status ask_nodes(hf_discovery *discovery, int64_t deadline) {
    uint16_t order[HF_NODES_MAX];
    size_t left = order_nodes(discovery, order), next = 0;
    hf_status status = too_late(discovery);
    for (; left > 0 && hf_now() < deadline; left--) {
        int64_t now = hf_now();
        status = ask_node(discovery, order[next++], now + (deadline - now) / (int64_t)left);
        if (status == HF_OK || status == HF_ENOMEM)
            return status;
    }
    return status;
}

hf_status hf_discovery_refresh(hf_discovery *discovery, int64_t deadline) {
    return discovery->map != NULL ? ask_nodes(discovery, deadline) : HF_OK;
}

/* --------------------------------------------------------------- Looking */

/* Ask the nodes, and plan the next look. */
static void *run_look(void *argument) {
    hf_discovery *discovery = argument;
    unsigned before = hf_discovery_change(discovery);
    int64_t since = hf_now();
    ask_nodes(discovery, hf_after(since, discovery->connect_ms));
    pthread_mutex_lock(&discovery->mutex);
    bool quiet = since > hf_after(discovery->look_at, LOOK_MAX_MS);
    bool begins = quiet || before != discovery->change;
    discovery->looking = false;
    discovery->look_ms = hf_backoff(begins ? 0 : discovery->look_ms, LOOK_MIN_MS, LOOK_MAX_MS);
    discovery->look_at = hf_after(hf_now(), hf_spread(discovery->look_ms));
    pthread_mutex_unlock(&discovery->mutex);
    hf_discovery_drop(discovery);
    return NULL;
}

void hf_discovery_look(hf_discovery *discovery) {
    if (discovery->map != NULL) /* each new connection finds a single server by itself */
        start(discovery, &discovery->looking, run_look);
}

/* ---------------------------------------------------- Opening and closing */

hf_status hf_discovery_open(hf_address *address, int64_t *deadline_out,
                            hf_discovery **discovery_out) {
    hf_discovery *discovery = calloc(1, sizeof *discovery);
    bool clustered = address->kind == HF_CLUSTER;
    hf_status status = HF_OK;
    *discovery_out = NULL;
    if (discovery == NULL) {
        hf_address_free(address);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    discovery->references = 1;
    discovery->address = *address;
    discovery->connect_ms = address->options.connect_timeout_ms;
    discovery->watch_fd = discovery->wake_fd = -1;
    discovery->generation = hf_generation();
    if (address->place_count > 0) /* so that the clients of a fleet spread out */
        discovery->asked = (size_t)hf_jitter(0, (int64_t)address->place_count);
    pthread_mutex_init(&discovery->mutex, NULL);
    if (clustered && (discovery->map = hf_map_new(address->places, address->place_count)) == NULL)
        status = hf_fail(HF_ENOMEM, "no memory");
    if (status == HF_OK && address->tls)
        status = hf_tls_new(address, &discovery->tls);
    *deadline_out = hf_after(hf_now(), discovery->connect_ms);
    if (status == HF_OK && clustered && discovery->address.options.lazy != HF_ON)
        status = ask_nodes(discovery, *deadline_out);
    if (status == HF_OK)
        *discovery_out = discovery;
    else
        hf_discovery_drop(discovery);
    return status;
}

void hf_discovery_drop(hf_discovery *discovery) {
    if (discovery == NULL || __atomic_sub_fetch(&discovery->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    hf_map_free(discovery->map);
    free(discovery->named.host);
    free(discovery->watched.host);
    pthread_mutex_destroy(&discovery->mutex);
    hf_tls_free(discovery->tls);
    hf_address_free(&discovery->address);
    free(discovery);
}

void hf_discovery_shut(hf_discovery *discovery) {
    HF_HOLDING(&discovery->mutex);
    discovery->shut = true;
    if (discovery->watch_fd >= 0)
        shutdown(discovery->watch_fd, SHUT_RDWR); /* the watching thread finds that it must end */
}

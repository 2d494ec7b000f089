#include "net/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/simulated.h"
#include "net/joint.h"
#include "net/map.h"

/* The pool checks a connection that was idle for longer before it gives it out. */
#define STALE_AFTER (100 * HF_MS)

/* A call that waits, on its thread's stack. */
typedef struct waiter {
    hf_item place;
    int node;
    bool joins;
    pthread_cond_t woken;
    bool served;               /* it has this connection, or room for a new one */
    hf_connection *connection; /* or NULL */
} waiter;

/* The connections to a node. */
typedef struct shelf {
    hf_list idle; /* the last one used first */
    unsigned open_count;
    hf_connection *joint; /* calls may join those that use it; or NULL */
} shelf;

struct hf_pool {
    hf_discovery *discovery;
    unsigned idle_max, each_max; /* of each node */
    unsigned open_count, open_max;
    pthread_mutex_t mutex;
    unsigned change; /* the discovery's, at the last sweep */
    size_t shelf_count;
    shelf *shelves;
    hf_list waiting[2]; /* urgent and other calls, in the order of arrival */
    bool shut;
};

/* ------------------------------------------------ All with the mutex held */

/* NULL: there is none. */
static hf_connection *pop_idle(hf_list *idle) {
    hf_item *at = hf_list_take_first(idle);
    return at != NULL ? HF_OF(hf_connection, idle, at) : NULL;
}

static void count_open(hf_pool *pool, int node, int change) {
    pool->open_count += (unsigned)change;
    pool->shelves[node].open_count += (unsigned)change;
}

/* Add it to the list that the caller gives to close_all() after unlocking. */
static void retire(hf_pool *pool, hf_connection *connection, hf_list *closed) {
    count_open(pool, connection->node, -1);
    hf_list_add_last(closed, &connection->idle);
}

static void retire_idle(hf_pool *pool, shelf *at, hf_list *closed) {
    hf_connection *connection;
    while ((connection = pop_idle(&at->idle)) != NULL)
        retire(pool, connection, closed);
}

static void retire_outdated(hf_pool *pool, shelf *from, hf_list *closed) {
    from->joint = NULL; /* perhaps to another server */
    HF_EACH(at, &from->idle) {
        hf_connection *connection = HF_OF(hf_connection, idle, at);
        if (hf_discovery_current(pool->discovery, connection) &&
            hf_discovery_serves(pool->discovery, connection->node))
            continue;
        hf_list_remove(at);
        retire(pool, connection, closed);
    }
}

/* After a change: close idle connections to servers that were replaced, or that serve no slot any
 * more. */
static void sweep(hf_pool *pool, hf_list *closed) {
    unsigned change = hf_discovery_change(pool->discovery);
    if (change == pool->change)
        return;
    pool->change = change;
    for (size_t i = 0; i < pool->shelf_count; i++)
        retire_outdated(pool, &pool->shelves[i], closed);
}

static bool has_room(const hf_pool *pool, int node) {
    /* A call that gives one back has the waiting ones served again. */
    if (pool->shelves[node].open_count > 0 && HF_UNUSUAL("the pool is full"))
        return false;
    return pool->open_count < pool->open_max && pool->shelves[node].open_count < pool->each_max;
}

/* Close an idle connection to another node, to make room. */
static bool retire_other(hf_pool *pool, int node, hf_list *closed) {
    if (pool->shelves[node].open_count >= pool->each_max)
        return false;
    for (size_t i = 0; i < pool->shelf_count; i++) {
        hf_connection *connection = pop_idle(&pool->shelves[i].idle);
        if (connection == NULL)
            continue;
        retire(pool, connection, closed);
        return true;
    }
    return false;
}

/* How many are used by one call each. */
static unsigned alone(const shelf *at) {
    return at->open_count - (unsigned)at->idle.count - (at->joint != NULL ? 1 : 0);
}

/* May a call that joins others, and has this connection, be joined? It must not be stale. */
static bool may_be_joined(const hf_connection *connection, int64_t now) {
    return connection->tls == NULL && now - connection->used_at < STALE_AFTER;
}

/* A connection, or room for a new one, which counts as open from now on. */
static bool get(hf_pool *pool, int node, bool joins, int64_t now, hf_connection **connection_out,
                hf_list *closed) {
    shelf *at = &pool->shelves[node];
    /* While some are together, all come: the more there are, the less each costs. */
    joins = joins && (at->joint != NULL || alone(at) >= HF_POOL_ALONE);
    *connection_out = joins && at->joint != NULL ? at->joint : pop_idle(&at->idle);
    if (*connection_out != NULL) {
        (*connection_out)->users++;
        if (joins && at->joint == NULL && may_be_joined(*connection_out, now)) {
            hf_joint_begin(*connection_out);
            at->joint = *connection_out;
        }
        return true;
    }
    if (!has_room(pool, node) && !retire_other(pool, node, closed))
        return false;
    count_open(pool, node, 1);
    return true;
}

static void serve(waiter *who) {
    who->served = true;
    pthread_cond_signal(&who->woken);
}

/* Give what has become free to the waiting calls that can use it. */
static void serve_waiting(hf_pool *pool, hf_list *closed) {
    for (size_t i = 0; i < 2; i++)
        HF_EACH(at, &pool->waiting[i]) {
            waiter *who = HF_OF(waiter, place, at);
            if (!get(pool, who->node, who->joins, hf_now(), &who->connection, closed))
                continue;
            hf_list_remove(at);
            serve(who);
        }
}

static bool wait_in_place(hf_pool *pool, waiter *who, bool urgent, int64_t deadline) {
    int64_t ms;
    HF_MARK("M13");
    hf_sleep_init(&who->woken);
    hf_list_add_last(&pool->waiting[urgent ? 0 : 1], &who->place);
    while (!who->served && (ms = hf_until(deadline, hf_now())) > 0)
        hf_sleep(&who->woken, &pool->mutex, ms);
    hf_list_remove(&who->place);
    pthread_cond_destroy(&who->woken);
    return who->served;
}

/* --------------------------------------------------------------- Outside */

static void close_all(hf_list *closed) {
    hf_connection *connection;
    while ((connection = pop_idle(closed)) != NULL)
        hf_connection_close(connection);
}

hf_pool *hf_pool_new(hf_discovery *discovery, unsigned idle_max, unsigned open_max) {
    size_t count = hf_discovery_clustered(discovery) ? HF_NODES_MAX : 1;
    hf_pool *pool = calloc(1, sizeof *pool);
    shelf *shelves = calloc(count, sizeof *shelves);
    if (pool == NULL || shelves == NULL) {
        free(pool);
        free(shelves);
        return NULL;
    }
    pool->discovery = discovery;
    pool->shelves = shelves;
    pool->shelf_count = count;
    pool->idle_max = idle_max;
    pool->each_max = open_max > 0 ? UINT32_MAX : HF_POOL_EACH;
    pool->open_max = open_max > 0 ? open_max : UINT32_MAX;
    pthread_mutex_init(&pool->mutex, NULL);
    return pool;
}

void hf_pool_free(hf_pool *pool) {
    if (pool == NULL)
        return;
    hf_pool_shut(pool);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->shelves);
    free(pool);
}

void hf_pool_shut(hf_pool *pool) {
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    pool->shut = true;
    for (size_t i = 0; i < pool->shelf_count; i++) {
        pool->shelves[i].joint = NULL;
        retire_idle(pool, &pool->shelves[i], &closed);
    }
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
}

/* A connection could not be opened: it counts no more. */
static void free_room(hf_pool *pool, int node) {
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    count_open(pool, node, -1);
    serve_waiting(pool, &closed);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
}

void hf_pool_drop(hf_pool *pool, int node) {
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    pool->shelves[node].joint = NULL;
    retire_idle(pool, &pool->shelves[node], &closed);
    serve_waiting(pool, &closed);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    hf_discovery_doubt(pool->discovery, node);
}

/* With the mutex held: no further call gets it, and the last one that has it closes it. */
static void spoil(hf_pool *pool, shelf *at, hf_connection *connection) {
    if (!connection->broken)
        hf_discovery_broke(pool->discovery); /* at once: the next one is opened in its place */
    connection->broken = true;
    if (at->joint == connection)
        at->joint = NULL;
}

/* With the mutex held: its last user has given it back. */
static void put_back(hf_pool *pool, shelf *at, hf_connection *connection, hf_list *closed) {
    if (at->joint == connection)
        at->joint = NULL;
    if (connection->joint.on && hf_joint_end(connection) != HF_OK)
        spoil(pool, at, connection); /* after the last answer: no call has met it */
    if (!connection->broken && !pool->shut && !hf_connection_unasked(connection) &&
        hf_discovery_current(pool->discovery, connection) &&
        !HF_UNUSUAL("the pool closes a good connection"))
        hf_list_add_first(&at->idle, &connection->idle);
    else
        retire(pool, connection, closed);
    sweep(pool, closed);
    serve_waiting(pool, closed);
    if (at->idle.count > pool->idle_max)
        retire(pool, pop_idle(&at->idle), closed);
}

static void give(hf_pool *pool, hf_connection *connection, bool broken) {
    hf_list closed = {0};
    shelf *at = &pool->shelves[connection->node];
    pthread_mutex_lock(&pool->mutex);
    if (broken)
        spoil(pool, at, connection);
    if (--connection->users == 0)
        put_back(pool, at, connection, &closed);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
}

void hf_pool_give(hf_pool *pool, hf_connection *connection) { give(pool, connection, false); }

void hf_pool_discard(hf_pool *pool, hf_connection *connection) { give(pool, connection, true); }

/* False: all were in use until the deadline. True with NULL: there is room for a new one. */
static bool take_idle(hf_pool *pool, int node, int how, int64_t deadline, int64_t *now,
                      hf_connection **connection_out) {
    waiter who = {.node = node, .joins = (how & HF_POOL_JOINS) != 0};
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    sweep(pool, &closed);
    if (closed.first != NULL)
        serve_waiting(pool, &closed); /* they came first */
    bool got = get(pool, node, who.joins, *now, &who.connection, &closed);
    if (!got) {
        got = wait_in_place(pool, &who, (how & HF_POOL_URGENT) != 0, deadline);
        *now = hf_now();
    }
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    *connection_out = who.connection;
    return got;
}

static bool is_stale(const hf_connection *connection, int64_t now) {
    return now - connection->used_at >= STALE_AFTER && hf_connection_stale(connection);
}

hf_status hf_pool_take_idle(hf_pool *pool, int node, int64_t now, hf_connection **connection_out) {
    for (;;) {
        hf_list closed = {0};
        pthread_mutex_lock(&pool->mutex);
        sweep(pool, &closed);
        if (closed.first != NULL)
            serve_waiting(pool, &closed);
        *connection_out = pop_idle(&pool->shelves[node].idle);
        if (*connection_out != NULL)
            (*connection_out)->users++;
        pthread_mutex_unlock(&pool->mutex);
        close_all(&closed);
        if (*connection_out == NULL)
            return hf_fail(HF_ECONNECT, "no connection was free at once");
        if (!is_stale(*connection_out, now))
            return HF_OK;
        hf_pool_discard(pool, *connection_out);
    }
}

hf_status hf_pool_take(hf_pool *pool, int node, int how, int64_t deadline, int64_t *now,
                       hf_connection **connection_out) {
    hf_connection *connection;
    for (;;) {
        *connection_out = NULL;
        if (!take_idle(pool, node, how, deadline, now, &connection))
            return hf_fail(
                HF_ECONNECT,
                "all %u connections that max_connections allows were in use until the time was up",
                pool->open_max < pool->each_max ? pool->open_max : pool->each_max);
        if (connection == NULL)
            break;
        *connection_out = connection;
        if (connection->joint.on || !is_stale(connection, *now))
            return HF_OK;
        hf_pool_discard(pool, connection);
    }
    hf_status status = hf_discovery_connect(pool->discovery, node, deadline, connection_out);
    *now = hf_now();
    if (status == HF_OK)
        (*connection_out)->users = 1;
    else
        free_room(pool, node);
    return status;
}

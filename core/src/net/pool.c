#include "net/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/simulated.h"
#include "net/joint.h"
#include "net/map.h"

/* The pool checks a connection that was idle for longer than this before it gives it out. */
#define STALE_AFTER (100 * HF_MS)
/* The pool closes a connection, except the last, that was idle for this long. */
#define IDLE_MS 60000

/* A call that waits, on its thread's stack. */
typedef struct waiter {
    hf_item place;
    bool joins;
    pthread_cond_t woken;
    bool served;               /* it has `connection`, or room for a new one, or a status */
    hf_connection *connection; /* or NULL */
    hf_status status;          /* of the call that failed to open one */
} waiter;

/* Connections of one kind to a node. */
typedef struct hf_shelf {
    hf_pool *pool;
    hf_list idle;                       /* the last one used first */
    unsigned open_count, opening, most; /* all connections, including those being opened; those; the
                                         * limit */
    hf_connection *joint;               /* calls may join it; or NULL */
    hf_list waiting;                    /* in the order of arrival */
    bool kept;                          /* the next one that becomes idle is for the keeper */
    hf_tries tries;                     /* to open one beside those that are open */
    bool fails;                         /* the last one could not be opened, for the reason in
                                         * `why` */
    hf_error why;                       /* read later by calls that were refused */
} shelf;

struct hf_pool {
    hf_discovery *discovery;
    pthread_mutex_t mutex;
    unsigned change; /* the discovery's, at the last sweep */
    int64_t tidy_at; /* atomic */
    hf_list closed;  /* connections that leave() closes */
    bool shut;
    size_t shelf_count;
    shelf shelves[]; /* two for each node: for calls, and for calls that wait for replicas */
};

/* ------------------------------------------------ All with the mutex held */

static hf_connection *pop_idle(hf_list *idle) {
    hf_item *at = hf_list_take_first(idle);
    return at != NULL ? HF_OF(hf_connection, idle, at) : NULL;
}

static void retire(hf_connection *connection) {
    connection->shelf->open_count--;
    hf_list_remove(&connection->idle);
    hf_list_add_last(&connection->shelf->pool->closed, &connection->idle);
}

/* Close idle connections to servers that were replaced, or serve no slot. all: close all. */
static void retire_idle(shelf *from, bool all) {
    hf_discovery *discovery = from->pool->discovery;
    from->joint = NULL; /* it may lead to another server */
    HF_EACH(at, &from->idle) {
        hf_connection *connection = HF_OF(hf_connection, idle, at);
        if (all || !hf_discovery_current(discovery, connection) ||
            !hf_discovery_serves(discovery, connection->node))
            retire(connection);
    }
}

/* Return an idle connection that the server has not closed; or NULL. */
static hf_connection *pop_good(shelf *at, int64_t now) {
    hf_connection *connection;
    while ((connection = pop_idle(&at->idle)) != NULL) {
        if (now - connection->used_at < STALE_AFTER || !hf_connection_stale(connection))
            break;
        retire(connection);
    }
    if (connection != NULL)
        connection->users = 1;
    return connection;
}

/* Return whether a connection is idle for a call: one may be kept for the keeper. */
static bool has_idle(const shelf *at) { return at->idle.count > (at->kept ? 1 : 0); }

/* Let other calls join the call that has this connection, if no connection is left for them. */
static void share(shelf *at, hf_connection *connection) {
    if (at->joint != NULL ||
        (at->waiting.first == NULL && (at->open_count < at->most || at->idle.first != NULL)))
        return;
    hf_joint_begin(connection);
    at->joint = connection;
}

static void begin_to_open(shelf *at) {
    at->open_count++;
    at->opening++;
    at->tries.began = hf_now();
}

static unsigned open_now(const shelf *at) { return at->open_count - at->opening; }

/* Return whether a connection is open, and no other can be opened for now. */
static bool makes_do(const shelf *at, int64_t now) {
    return open_now(at) > 0 && now < at->tries.at;
}

/* Return whether a call that wants a connection alone has to wait for the joint one. */
static bool is_scarce(const shelf *at, int64_t now) {
    return open_now(at) == 1 || makes_do(at, now);
}

/* Return whether a call waits that joins no other. */
static bool waits_alone(const shelf *at) {
    HF_EACH(place, &at->waiting)
    if (!HF_OF(waiter, place, place)->joins)
        return true;
    return false;
}

/* Give the call a connection, or room for a new one, which counts as open from now on. behind: the
 * keeper, or a call that joins no other, wants the joint connection, which is free when no further
 * call joins. */
static bool get(shelf *at, waiter *who, bool behind, int64_t now) {
    hf_connection *connection = NULL;
    hf_connection *joint = who->joins && !(behind && is_scarce(at, now)) ? at->joint : NULL;
    /* While two calls are joined, all join: the more calls, the less each costs. */
    if (has_idle(at) && (joint == NULL || joint->users < 2))
        connection = pop_good(at, now);
    if (connection != NULL && who->joins)
        share(at, connection);
    if (connection == NULL && joint != NULL) {
        connection = joint;
        joint->users++;
    }
    who->connection = connection;
    if (connection != NULL)
        return true;
    /* When a connection is returned, the waiting calls are served again. */
    if (at->open_count >= at->most || makes_do(at, now) ||
        (at->open_count > 0 && HF_UNUSUAL("the pool is full")))
        return false;
    begin_to_open(at);
    return true;
}

static void serve(waiter *who, hf_status status) {
    hf_list_remove(&who->place);
    who->served = true;
    who->status = status;
    pthread_cond_signal(&who->woken);
}

/* Give the free connections to the waiting calls that can use them. */
static void serve_waiting(shelf *at) {
    bool behind = at->kept;
    HF_EACH(place, &at->waiting) {
        waiter *who = HF_OF(waiter, place, place);
        if (get(at, who, behind, hf_now()))
            serve(who, HF_OK);
        else
            behind = behind || !who->joins;
    }
}

/* After a change, close idle connections to servers that were replaced, or that no longer serve a
 * slot, and try at once to open others. */
static void sweep(hf_pool *pool) {
    unsigned change = hf_discovery_change(pool->discovery);
    if (change == pool->change)
        return;
    pool->change = change;
    for (size_t i = 0; i < pool->shelf_count; i++) {
        retire_idle(&pool->shelves[i], false);
        pool->shelves[i].tries.at = pool->shelves[i].tries.pause_ms = 0; /* another server may let
                                                                          * more in */
        serve_waiting(&pool->shelves[i]);
    }
}

/* End all waiting calls: no connection can be opened, for the reason in this thread's message. */
static void refuse_waiting(shelf *at, hf_status status) {
    at->fails = true;
    at->why = *hf_error_last();
    while (at->waiting.first != NULL)
        serve(HF_OF(waiter, place, at->waiting.first), status);
}

static hf_status wait_in_place(shelf *at, waiter *who, int64_t deadline) {
    HF_MARK("M13");
    hf_sleep_init(&who->woken);
    hf_list_add_last(&at->waiting, &who->place);
    for (int64_t now; !who->served && (now = hf_now()) < deadline;) {
        int64_t by = makes_do(at, now) ? hf_earlier(at->tries.at, deadline) : deadline;
        hf_sleep(&who->woken, &at->pool->mutex, hf_until(by, now));
        if (!who->served && by < deadline)
            serve_waiting(at);
    }
    hf_list_remove(&who->place);
    if (!who->served && !who->joins)
        serve_waiting(at); /* the calls behind it may join now */
    pthread_cond_destroy(&who->woken);
    if (who->served && who->status == HF_OK)
        return HF_OK;
    if (who->served || (at->opening == at->open_count && at->fails))
        hf_error_set(&at->why);
    else
        hf_explain("all connections were in use until the time was up");
    return who->served ? who->status : HF_ECONNECT;
}

/* Give the connection to no further call; its last user closes it. */
static void spoil(hf_connection *connection) {
    shelf *at = connection->shelf;
    if (!connection->broken)
        hf_discovery_broke(at->pool->discovery); /* now, because the next connection replaces it */
    connection->broken = true;
    if (at->joint == connection)
        at->joint = NULL;
}

/* Keep or close a connection that its last user has returned. */
static void put_back(hf_connection *connection) {
    shelf *at = connection->shelf;
    if (at->joint == connection)
        at->joint = NULL;
    if (connection->joint.on && hf_joint_end(connection) != HF_OK)
        spoil(connection); /* after the last answer: no call has noticed */
    connection->driven = false;
    bool surplus = open_now(at) > at->most && !at->kept;
    if (!connection->broken && !at->pool->shut && !surplus && !hf_connection_unasked(connection) &&
        hf_discovery_current(at->pool->discovery, connection) &&
        !HF_UNUSUAL("the pool closes a good connection"))
        hf_list_add_first(&at->idle, &connection->idle);
    else
        retire(connection);
    sweep(at->pool);
    serve_waiting(at);
}

/* ---------------------------------------------------------- Entry points */

/* Lock, and return the shelf of the node. */
static shelf *enter(hf_pool *pool, int node, bool confirms) {
    pthread_mutex_lock(&pool->mutex);
    sweep(pool);
    return &pool->shelves[2 * node + confirms];
}

/* Unlock, and close the retired connections; wakes: then wake the keeper. */
static void leave(hf_pool *pool, bool wakes) {
    hf_list closed = {0};
    hf_connection *connection;
    hf_list_move(&pool->closed, &closed);
    pthread_mutex_unlock(&pool->mutex);
    while ((connection = pop_idle(&closed)) != NULL)
        hf_connection_close(connection);
    if (wakes)
        hf_discovery_wake(pool->discovery);
}

hf_pool *hf_pool_new(hf_discovery *discovery) {
    size_t count = 2 * (hf_discovery_clustered(discovery) ? HF_NODES_MAX : 1);
    hf_pool *pool = calloc(1, sizeof *pool + count * sizeof(shelf));
    if (pool == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        pool->shelves[i].pool = pool;
        pool->shelves[i].most = i % 2 == 0 ? HF_POOL_EACH : 1;
    }
    pool->discovery = discovery;
    pool->shelf_count = count;
    pool->tidy_at = HF_NO_DEADLINE;
    pthread_mutex_init(&pool->mutex, NULL);
    return pool;
}

void hf_pool_free(hf_pool *pool) {
    if (pool == NULL)
        return;
    hf_pool_shut(pool);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

void hf_pool_shut(hf_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->shut = true;
    for (size_t i = 0; i < pool->shelf_count; i++)
        retire_idle(&pool->shelves[i], true);
    leave(pool, false);
}

void hf_pool_drop(hf_pool *pool, int node) {
    shelf *both = enter(pool, node, false);
    for (int i = 0; i < 2; i++) {
        retire_idle(&both[i], true);
        serve_waiting(&both[i]);
    }
    leave(pool, false);
    hf_discovery_doubt(pool->discovery, node);
}

void hf_pool_give(hf_pool *pool, hf_connection *connection, bool good) {
    bool kept = false;
    pthread_mutex_lock(&pool->mutex);
    if (!good)
        spoil(connection);
    if (--connection->users == 0) {
        kept = connection->shelf->kept;
        put_back(connection);
    }
    leave(pool, kept);
}

/* Count a new connection, or a failure to open one, for the reason in this thread's message.
 * Returns whether a connection is open, this one or another. */
static bool end_opening(hf_pool *pool, shelf *at, hf_connection *connection, bool joins,
                        hf_status status) {
    at->opening--;
    at->open_count -= connection == NULL;
    bool open = open_now(at) > 0;
    if (connection != NULL) {
        at->fails = false;
        at->tries = (hf_tries){0};
        connection->users = 1;
        connection->shelf = at;
        if (joins)
            share(at, connection);
    } else if (open && status != HF_OK) {
        HF_MARK("H212");
        hf_try_later(&at->tries, hf_now());
    } else if (status != HF_OK) {
        refuse_waiting(at, status);
    }
    serve_waiting(at);
    if (connection != NULL && pool->tidy_at == HF_NO_DEADLINE)
        __atomic_store_n(&pool->tidy_at, hf_after(hf_now(), IDLE_MS), __ATOMIC_RELAXED);
    return open;
}

hf_status hf_pool_take_idle(hf_pool *pool, int node, int64_t now, hf_connection **connection_out) {
    shelf *at = enter(pool, node, false);
    *connection_out = has_idle(at) ? pop_good(at, now) : NULL;
    serve_waiting(at);
    leave(pool, false);
    return *connection_out != NULL ? HF_OK : hf_fail(HF_ECONNECT, "no connection was free at once");
}

hf_status hf_pool_take(hf_pool *pool, int node, int how, int64_t deadline, int64_t *now,
                       hf_connection **connection_out) {
    shelf *at = enter(pool, node, how == HF_POOL_CONFIRMS);
    for (;;) {
        waiter mine = {.joins = how != HF_POOL_ALONE};
        hf_status status = HF_OK;
        bool got = get(at, &mine, at->kept || waits_alone(at), *now);
        if (pool->closed.first != NULL)
            serve_waiting(at);
        if (!got) {
            status = wait_in_place(at, &mine, deadline);
            *now = hf_now();
        }
        /* If the new connection hangs, half of the time is left for the open one. */
        int64_t by = open_now(at) > 0 ? *now + (deadline - *now) / 2 : deadline;
        leave(pool, false);
        *connection_out = mine.connection;
        if (status != HF_OK || mine.connection != NULL)
            return status;
        status = hf_discovery_connect(pool->discovery, node, by, connection_out);
        *now = hf_now();
        enter(pool, node, false);
        bool open = end_opening(pool, at, *connection_out, mine.joins, status);
        /* Whatever the reason is, an open connection will be free. */
        if (status == HF_OK || !open) {
            leave(pool, status == HF_OK);
            return status;
        }
    }
}

/* ---------------------------------------------------------- For the keeper */

int hf_pool_lend(hf_pool *pool, int node, int opens, int64_t now, hf_connection **connection_out) {
    shelf *at = enter(pool, node, false);
    int outcome = HF_LATER;
    *connection_out = pop_good(at, now);
    if (*connection_out != NULL) {
        hf_connection_set_driven(*connection_out);
        outcome = HF_LENT;
    } else if (opens == HF_OPENS_MORE || (opens == HF_OPENS && at->open_count < at->most)) {
        begin_to_open(at);
        outcome = HF_OPEN;
    }
    at->kept = outcome != HF_LENT;
    serve_waiting(at); /* in place of a retired connection */
    leave(pool, false);
    return outcome;
}

bool hf_pool_waits(hf_pool *pool, int node) {
    shelf *at = enter(pool, node, false);
    bool waits = at->waiting.first != NULL && (is_scarce(at, hf_now()) || waits_alone(at));
    leave(pool, false);
    return waits;
}

void hf_pool_forgo(hf_pool *pool, int node) {
    shelf *at = enter(pool, node, false);
    at->kept = false;
    serve_waiting(at);
    leave(pool, false);
}

bool hf_pool_opened(hf_pool *pool, int node, hf_connection *connection, hf_status status) {
    bool open = end_opening(pool, enter(pool, node, false), connection, false, status);
    leave(pool, connection != NULL);
    return open;
}

/* Close connections that have been idle for too long, and return when the next one will have been.
 * With the mutex held. */
static int64_t tidy(shelf *at, unsigned least, int64_t now) {
    while (open_now(at) > least) {
        if (at->idle.last == NULL)
            return hf_after(now, IDLE_MS);
        hf_connection *oldest = HF_OF(hf_connection, idle, at->idle.last);
        if (now < hf_after(oldest->used_at, IDLE_MS))
            return hf_after(oldest->used_at, IDLE_MS);
        retire(oldest);
    }
    return HF_NO_DEADLINE;
}

int64_t hf_pool_tidy(hf_pool *pool, int64_t now) {
    int64_t due = __atomic_load_n(&pool->tidy_at, __ATOMIC_RELAXED);
    if (now < due)
        return due;
    due = HF_NO_DEADLINE;
    pthread_mutex_lock(&pool->mutex);
    for (size_t i = 0; i < pool->shelf_count; i++)
        due = hf_earlier(due, tidy(&pool->shelves[i], i % 2 == 0 ? 1 : 0, now));
    __atomic_store_n(&pool->tidy_at, due, __ATOMIC_RELAXED);
    leave(pool, false);
    return due;
}

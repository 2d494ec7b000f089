#include "net/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/simulated.h"
#include "net/joint.h"
#include "net/map.h"

/* The pool checks a connection that was idle for longer before it gives it out. */
#define STALE_AFTER (100 * HF_MS)
/* The pool closes a connection, but for one, that was idle for this long. */
#define IDLE_MS 60000

/* A call that waits, on its thread's stack. */
typedef struct waiter {
    hf_item place;
    bool joins;
    pthread_cond_t woken;
    bool served;               /* it has this connection, or room for a new one, or a status */
    hf_connection *connection; /* or NULL */
    hf_status status;          /* that of the call that has tried to open one */
} waiter;

/* Connections of one kind to a node. */
typedef struct hf_shelf {
    hf_list idle;                       /* the last one used first */
    unsigned open_count, opening, most; /* all, and those of them that are not open yet */
    hf_connection *joint;               /* calls may join those that use it; or NULL */
    hf_list waiting;                    /* in the order of arrival */
    bool kept;                          /* the next one to become idle is for the keeper */
    char why[300];                      /* the message of the last that could not be opened */
} shelf;

struct hf_pool {
    hf_discovery *discovery;
    pthread_mutex_t mutex;
    unsigned change; /* the discovery's, at the last sweep */
    int64_t tidy_at; /* atomic */
    size_t shelf_count;
    shelf *shelves; /* of each node two: for calls, and for those that wait for replicas */
    bool shut;
};

static shelf *shelf_of(const hf_pool *pool, int node, bool confirms) {
    return &pool->shelves[2 * node + confirms];
}

/* ------------------------------------------------ All with the mutex held */

/* NULL: there is none. */
static hf_connection *pop_idle(hf_list *idle) {
    hf_item *at = hf_list_take_first(idle);
    return at != NULL ? HF_OF(hf_connection, idle, at) : NULL;
}

/* Add it to the list that the caller gives to close_all() after unlocking. */
static void retire(hf_connection *connection, hf_list *closed) {
    connection->shelf->open_count--;
    hf_list_remove(&connection->idle);
    hf_list_add_last(closed, &connection->idle);
}

static void retire_idle(shelf *at, hf_list *closed) {
    at->joint = NULL;
    HF_EACH(idle, &at->idle)
    retire(HF_OF(hf_connection, idle, idle), closed);
}

static void retire_outdated(hf_pool *pool, shelf *from, hf_list *closed) {
    from->joint = NULL; /* perhaps to another server */
    HF_EACH(at, &from->idle) {
        hf_connection *connection = HF_OF(hf_connection, idle, at);
        if (!hf_discovery_current(pool->discovery, connection) ||
            !hf_discovery_serves(pool->discovery, connection->node))
            retire(connection, closed);
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

/* An idle connection that the server has not closed; or NULL. */
static hf_connection *pop_good(shelf *at, int64_t now, hf_list *closed) {
    hf_connection *connection;
    while ((connection = pop_idle(&at->idle)) != NULL) {
        if (now - connection->used_at < STALE_AFTER || !hf_connection_stale(connection))
            break;
        retire(connection, closed);
    }
    if (connection != NULL)
        connection->users = 1;
    return connection;
}

/* Is there one for a call, besides the one that is kept for the keeper? */
static bool has_idle(const shelf *at) { return at->idle.count > (at->kept ? 1 : 0); }

/* A call that may join others has this one: others join it if there is none left for them. */
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
}

/* A connection, or room for a new one, which counts as open from now on. */
static bool get(shelf *at, bool joins, int64_t now, hf_connection **connection_out,
                hf_list *closed) {
    hf_connection *connection = NULL, *joint = joins ? at->joint : NULL;
    /* While some are together, all come: the more there are, the less each costs. */
    if (has_idle(at) && (joint == NULL || joint->users < 2))
        connection = pop_good(at, now, closed);
    if (connection != NULL && joins)
        share(at, connection);
    if (connection == NULL && joint != NULL) {
        connection = joint;
        joint->users++;
    }
    *connection_out = connection;
    if (connection != NULL)
        return true;
    /* A call that gives one back has the waiting ones served again. */
    if (at->open_count >= at->most || (at->open_count > 0 && HF_UNUSUAL("the pool is full")))
        return false;
    begin_to_open(at);
    return true;
}

/* Give what has become free to the waiting calls that can use it. */
static void serve_waiting(shelf *at, hf_list *closed) {
    HF_EACH(place, &at->waiting) {
        waiter *who = HF_OF(waiter, place, place);
        if (!get(at, who->joins, hf_now(), &who->connection, closed))
            continue;
        hf_list_remove(place);
        who->served = true;
        pthread_cond_signal(&who->woken);
    }
}

/* None can be opened, as this thread's message says: so it is told to those that wait for it. */
static void refuse_waiting(shelf *at, hf_status status) {
    snprintf(at->why, sizeof at->why, "%s", hf_error_message());
    HF_EACH(place, &at->waiting) {
        waiter *who = HF_OF(waiter, place, place);
        hf_list_remove(place);
        who->served = true;
        who->status = status;
        pthread_cond_signal(&who->woken);
    }
}

static bool wait_in_place(hf_pool *pool, shelf *at, waiter *who, int64_t deadline) {
    int64_t ms;
    HF_MARK("M13");
    hf_sleep_init(&who->woken);
    hf_list_add_last(&at->waiting, &who->place);
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

hf_pool *hf_pool_new(hf_discovery *discovery) {
    size_t count = 2 * (hf_discovery_clustered(discovery) ? HF_NODES_MAX : 1);
    hf_pool *pool = calloc(1, sizeof *pool);
    shelf *shelves = calloc(count, sizeof *shelves);
    if (pool == NULL || shelves == NULL) {
        free(pool);
        free(shelves);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        shelves[i].most = i % 2 == 0 ? HF_POOL_EACH : 1;
    pool->discovery = discovery;
    pool->shelves = shelves;
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
    free(pool->shelves);
    free(pool);
}

void hf_pool_shut(hf_pool *pool) {
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    pool->shut = true;
    for (size_t i = 0; i < pool->shelf_count; i++)
        retire_idle(&pool->shelves[i], &closed);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
}

void hf_pool_drop(hf_pool *pool, int node) {
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    for (int i = 0; i < 2; i++) {
        retire_idle(shelf_of(pool, node, i), &closed);
        serve_waiting(shelf_of(pool, node, i), &closed);
    }
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    hf_discovery_doubt(pool->discovery, node);
}

/* With the mutex held: no further call gets it, and the last one that has it closes it. */
static void spoil(hf_pool *pool, hf_connection *connection) {
    if (!connection->broken)
        hf_discovery_broke(pool->discovery); /* at once: the next one is opened in its place */
    connection->broken = true;
    if (connection->shelf->joint == connection)
        connection->shelf->joint = NULL;
}

/* With the mutex held: its last user has given it back. True: the keeper waits for it. */
static bool put_back(hf_pool *pool, hf_connection *connection, hf_list *closed) {
    shelf *at = connection->shelf;
    if (at->joint == connection)
        at->joint = NULL;
    if (connection->joint.on && hf_joint_end(connection) != HF_OK)
        spoil(pool, connection); /* after the last answer: no call has met it */
    connection->driven = false;
    if (!connection->broken && !pool->shut && at->open_count <= at->most &&
        !hf_connection_unasked(connection) && hf_discovery_current(pool->discovery, connection) &&
        !HF_UNUSUAL("the pool closes a good connection"))
        hf_list_add_first(&at->idle, &connection->idle);
    else
        retire(connection, closed);
    sweep(pool, closed);
    serve_waiting(at, closed);
    return at->kept;
}

void hf_pool_give(hf_pool *pool, hf_connection *connection, bool good) {
    hf_list closed = {0};
    bool kept = false;
    pthread_mutex_lock(&pool->mutex);
    if (!good)
        spoil(pool, connection);
    if (--connection->users == 0)
        kept = put_back(pool, connection, &closed);
    pthread_mutex_unlock(&pool->mutex);
    if (kept)
        hf_discovery_wake(pool->discovery);
    close_all(&closed);
}

/* Count a new connection, or that there is none. */
static void add(hf_pool *pool, shelf *at, hf_connection *connection, bool joins, hf_status status) {
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    at->opening--;
    if (connection != NULL) {
        connection->users = 1;
        connection->shelf = at;
        if (joins)
            share(at, connection);
    } else if (--at->open_count == at->opening) {
        refuse_waiting(at, status);
    }
    serve_waiting(at, &closed);
    bool surplus = connection != NULL && pool->tidy_at == HF_NO_DEADLINE;
    if (surplus)
        __atomic_store_n(&pool->tidy_at, hf_after(hf_now(), IDLE_MS), __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    if (surplus)
        hf_discovery_wake(pool->discovery); /* for the keeper to look then */
}

hf_status hf_pool_take_idle(hf_pool *pool, int node, int64_t now, hf_connection **connection_out) {
    shelf *at = shelf_of(pool, node, false);
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    sweep(pool, &closed);
    *connection_out = has_idle(at) ? pop_good(at, now, &closed) : NULL;
    serve_waiting(at, &closed);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    return *connection_out != NULL ? HF_OK : hf_fail(HF_ECONNECT, "no connection was free at once");
}

/* As hf_pool_take(), but with NULL there is room for a new one. */
static hf_status take(hf_pool *pool, shelf *at, waiter *mine, int64_t deadline, int64_t *now) {
    hf_list closed = {0};
    hf_status status = HF_OK;
    pthread_mutex_lock(&pool->mutex);
    sweep(pool, &closed);
    bool got = get(at, mine->joins, *now, &mine->connection, &closed);
    if (closed.first != NULL)
        serve_waiting(at, &closed);
    if (!got) {
        if (!wait_in_place(pool, at, mine, deadline))
            status = hf_fail(HF_ECONNECT, "%s",
                             at->opening == at->open_count && *at->why != '\0'
                                 ? at->why
                                 : "all connections were in use until the time was up");
        else if (mine->status != HF_OK)
            status = hf_fail(mine->status, "%s", at->why);
        *now = hf_now();
    }
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    return status;
}

hf_status hf_pool_take(hf_pool *pool, int node, int how, int64_t deadline, int64_t *now,
                       hf_connection **connection_out) {
    shelf *at = shelf_of(pool, node, how == HF_POOL_CONFIRMS);
    waiter mine = {.joins = how != HF_POOL_ALONE};
    hf_status status = take(pool, at, &mine, deadline, now);
    *connection_out = mine.connection;
    if (status != HF_OK || mine.connection != NULL)
        return status;
    status = hf_discovery_connect(pool->discovery, node, deadline, connection_out);
    *now = hf_now();
    add(pool, at, *connection_out, mine.joins, status);
    return status;
}

/* ------------------------------------------------------------ The keeper's */

int hf_pool_lend(hf_pool *pool, int node, bool urgent, int64_t now,
                 hf_connection **connection_out) {
    shelf *at = shelf_of(pool, node, false);
    hf_list closed = {0};
    int outcome = HF_LATER;
    pthread_mutex_lock(&pool->mutex);
    sweep(pool, &closed);
    *connection_out = pop_good(at, now, &closed);
    if (*connection_out != NULL) {
        hf_connection_set_driven(*connection_out);
        outcome = HF_LENT;
    } else if (at->open_count < at->most || urgent) {
        begin_to_open(at);
        outcome = HF_OPEN;
    }
    at->kept = outcome == HF_LATER;
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    return outcome;
}

void hf_pool_forgo(hf_pool *pool, int node) {
    shelf *at = shelf_of(pool, node, false);
    hf_list closed = {0};
    pthread_mutex_lock(&pool->mutex);
    at->kept = false;
    serve_waiting(at, &closed);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
}

void hf_pool_opened(hf_pool *pool, int node, hf_connection *connection, hf_status status) {
    add(pool, shelf_of(pool, node, false), connection, false, status);
}

/* Returns when the next of them will have been idle for long enough, with the mutex held. */
static int64_t tidy(shelf *at, unsigned least, int64_t now, hf_list *closed) {
    while (at->open_count > least) {
        if (at->idle.last == NULL)
            return hf_after(now, IDLE_MS);
        hf_connection *oldest = HF_OF(hf_connection, idle, at->idle.last);
        if (now < hf_after(oldest->used_at, IDLE_MS))
            return hf_after(oldest->used_at, IDLE_MS);
        retire(oldest, closed);
    }
    return HF_NO_DEADLINE;
}

int64_t hf_pool_tidy(hf_pool *pool, int64_t now) {
    hf_list closed = {0};
    int64_t due = __atomic_load_n(&pool->tidy_at, __ATOMIC_RELAXED);
    if (now < due)
        return due;
    due = HF_NO_DEADLINE;
    pthread_mutex_lock(&pool->mutex);
    for (size_t i = 0; i < pool->shelf_count; i++)
        due = hf_earlier(due, tidy(&pool->shelves[i], i % 2 == 0 ? 1 : 0, now, &closed));
    __atomic_store_n(&pool->tidy_at, due, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool->mutex);
    close_all(&closed);
    return due;
}

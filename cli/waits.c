#include "waits.h"

#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void *got(void *memory) {
    if (memory == NULL) {
        cli_error("out of memory");
        exit(CLI_SYSTEM);
    }
    return memory;
}

/* Return the items with room for one more. */
static void *grown(void *items, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity)
        return items;
    *capacity = 2 * *capacity + 8;
    return got(realloc(items, *capacity * size));
}

static waits_bytes copy(const void *data, size_t length) {
    waits_bytes bytes = {got(malloc(length + 1)), length};
    memcpy(bytes.data, data, length);
    bytes.data[length] = '\0';
    return bytes;
}

/* ----------------------------------------------------------------- Owners */

/* An entry of the index: the name and the number of an owner. */
typedef struct known {
    waits_bytes name;
    size_t number;
} known;

static int compare(const void *one, const void *other) {
    const known *a = one, *b = other;
    size_t length = a->name.length < b->name.length ? a->name.length : b->name.length;
    int order = memcmp(a->name.data, b->name.data, length);
    return order != 0 ? order
                      : (a->name.length > b->name.length) - (a->name.length < b->name.length);
}

static size_t number_of(waits_graph *graph, const void *owner, size_t length) {
    known *one = got(malloc(sizeof *one));
    *one = (known){copy(owner, length), graph->owner_count};
    known *found = *(known **)got(tsearch(one, &graph->index, compare));
    if (found != one) {
        free(one->name.data);
        free(one);
        return found->number;
    }
    graph->owners =
        grown(graph->owners, graph->owner_count, &graph->owner_capacity, sizeof *graph->owners);
    graph->owners[graph->owner_count] = (waits_owner){.name = one->name};
    return graph->owner_count++;
}

static void free_known(void *one) { free(one); }

/* ------------------------------------------------------------------ Build */

void waits_begin(waits_graph *graph) { *graph = (waits_graph){0}; }

void waits_end(waits_graph *graph) {
    for (size_t i = 0; i < graph->lock_count; i++) {
        free(graph->locks[i].name.data);
        free(graph->locks[i].holders);
        free(graph->locks[i].waiters);
    }
    for (size_t i = 0; i < graph->owner_count; i++) {
        free(graph->owners[i].name.data);
        free(graph->owners[i].edges);
    }
    free(graph->locks);
    free(graph->owners);
    tdestroy(graph->index, free_known);
    waits_begin(graph);
}

/* Add a holder, unless an earlier page listed it: nested holds may repeat it. */
static void add_holder(waits_graph *graph, waits_lock *lock, const hf_lock_holder *holder) {
    for (size_t i = 0; i < lock->holder_count; i++)
        if (lock->holders[i].fence == holder->fence)
            return;
    lock->holders[lock->holder_count++] =
        (waits_holder){.owner = number_of(graph, holder->owner, holder->owner_len),
                       .exclusive = holder->mode == HF_EXCLUSIVE,
                       .weight = holder->weight,
                       .fence = holder->fence,
                       .held_ms = holder->held_ms};
}

void waits_add(waits_graph *graph, const hf_view *view, bool more, int64_t seen_ms) {
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    size_t length;
    const void *name = hf_view_name(view, &length);
    if (!more) {
        graph->locks =
            grown(graph->locks, graph->lock_count, &graph->lock_capacity, sizeof *graph->locks);
        graph->locks[graph->lock_count++] = (waits_lock){.name = copy(name, length)};
    }
    waits_lock *lock = &graph->locks[graph->lock_count - 1];
    lock->seen_ms = seen_ms;
    size_t holders = lock->holder_count + hf_view_holders(view);
    size_t waiters = lock->waiter_count + hf_view_waiters(view);
    lock->holders = got(realloc(lock->holders, (holders + 1) * sizeof *lock->holders));
    lock->waiters = got(realloc(lock->waiters, (waiters + 1) * sizeof *lock->waiters));
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++)
        add_holder(graph, lock, &holder);
    for (size_t i = 0; hf_view_waiter(view, i, &waiter) == HF_OK; i++)
        lock->waiters[lock->waiter_count++] =
            (waits_waiter){.owner = number_of(graph, waiter.owner, waiter.owner_len),
                           .exclusive = waiter.mode == HF_EXCLUSIVE,
                           .permits = waiter.permits,
                           .weight = waiter.weight,
                           .waited_ms = waiter.waited_ms,
                           .timeout_ms = waiter.timeout_ms};
}

/* ------------------------------------------------------------------ Solve */

/*
 * Return whether the stuck holders block the waiter. An exclusive acquire waits for all holders; a
 * shared acquire waits for an exclusive holder, and with permits until its weight
 * and theirs are at most the permits.
 */
static bool is_kept_out(const waits_graph *graph, const waits_lock *lock,
                        const waits_waiter *waiter) {
    int64_t stuck = 0, weight = 0;
    bool exclusively = false;
    for (size_t i = 0; i < lock->holder_count; i++)
        if (graph->owners[lock->holders[i].owner].stuck) {
            stuck++;
            weight += lock->holders[i].weight;
            exclusively = exclusively || lock->holders[i].exclusive;
        }
    if (waiter->exclusive || exclusively)
        return stuck > 0;
    return waiter->permits > 0 && weight + waiter->weight > waiter->permits;
}

/*
 * Mark owners that can proceed as not stuck: they will release their holds. An owner with several
 * waits proceeds only if all of them end, because it is unknown on which of them its holds depend.
 * True: fewer owners are stuck now.
 */
static bool relax(waits_graph *graph, bool *waits) {
    bool fewer = false;
    for (size_t i = 0; i < graph->owner_count; i++)
        waits[i] = false;
    for (size_t i = 0; i < graph->lock_count; i++) {
        const waits_lock *lock = &graph->locks[i];
        bool behind = false; /* behind a stuck waiter, a waiter is stuck, too */
        for (size_t j = 0; j < lock->waiter_count; j++) {
            const waits_waiter *waiter = &lock->waiters[j];
            if (behind || is_kept_out(graph, lock, waiter))
                waits[waiter->owner] = true;
            behind = behind || graph->owners[waiter->owner].stuck;
        }
    }
    for (size_t i = 0; i < graph->owner_count; i++) {
        fewer = fewer || (graph->owners[i].stuck && !waits[i]);
        graph->owners[i].stuck = graph->owners[i].stuck && waits[i];
    }
    return fewer;
}

static void add_edge(waits_owner *from, waits_edge edge) {
    from->edges = grown(from->edges, from->edge_count, &from->edge_capacity, sizeof *from->edges);
    from->edges[from->edge_count++] = edge;
}

static void add_edges(waits_graph *graph, size_t at, size_t which) {
    const waits_lock *lock = &graph->locks[at];
    const waits_waiter *waiter = &lock->waiters[which];
    waits_owner *from = &graph->owners[waiter->owner];
    if (!from->stuck)
        return;
    if (is_kept_out(graph, lock, waiter)) {
        for (size_t i = 0; i < lock->holder_count; i++)
            if (graph->owners[lock->holders[i].owner].stuck)
                add_edge(from, (waits_edge){lock->holders[i].owner, at, which, i});
        return; /* waiters ahead wait for the same holders */
    }
    for (size_t i = 0; i < which; i++) {
        const waits_waiter *before = &lock->waiters[i];
        if (!graph->owners[before->owner].stuck || before->owner == waiter->owner)
            continue;
        add_edge(from, (waits_edge){before->owner, at, which, SIZE_MAX});
        if (is_kept_out(graph, lock, before))
            return; /* waiters further ahead wait for the same holders */
    }
}

void waits_solve(waits_graph *graph) {
    bool *waits = got(calloc(graph->owner_count + 1, sizeof *waits));
    for (size_t i = 0; i < graph->owner_count; i++)
        graph->owners[i].stuck = true;
    while (relax(graph, waits))
        continue;
    free(waits);
    for (size_t i = 0; i < graph->lock_count; i++)
        for (size_t j = 0; j < graph->locks[i].waiter_count; j++)
            add_edges(graph, i, j);
}

/* ----------------------------------------------------------------- Cycles */

/* How the search first reached an owner. */
typedef struct reached {
    size_t from;
    const waits_edge *by;
} reached;

/* Find a shortest cycle through an owner. False: none exists. */
static bool find_cycle(const waits_graph *graph, size_t start, reached *how, size_t *queue,
                       waits_cycle *cycle) {
    size_t first = 0, last = 0;
    const waits_edge *closing = NULL;
    memset(how, 0, graph->owner_count * sizeof *how);
    for (queue[last++] = start; first < last && closing == NULL; first++) {
        const waits_owner *owner = &graph->owners[queue[first]];
        for (size_t i = 0; i < owner->edge_count && closing == NULL; i++) {
            const waits_edge *edge = &owner->edges[i];
            if (how[edge->to].by != NULL)
                continue;
            how[edge->to] = (reached){queue[first], edge};
            if (edge->to == start)
                closing = edge;
            else
                queue[last++] = edge->to;
        }
    }
    if (closing == NULL)
        return false;
    size_t count = 0, at = start;
    do {
        count++;
        at = how[at].from;
    } while (at != start);
    *cycle = (waits_cycle){count, got(calloc(count, sizeof *cycle->owners)),
                           got(calloc(count, sizeof *cycle->edges))};
    for (at = start; count-- > 0; at = how[at].from) {
        cycle->owners[count] = how[at].from;
        cycle->edges[count] = *how[at].by;
    }
    return true;
}

static int compare_numbers(const void *one, const void *other) {
    size_t a = *(const size_t *)one, b = *(const size_t *)other;
    return (a > b) - (a < b);
}

/* Return whether two cycles have the same owners. */
static bool is_same(const waits_cycle *one, const waits_cycle *other) {
    if (one->count != other->count)
        return false;
    size_t size = one->count * sizeof *one->owners;
    size_t *a = memcpy(got(malloc(size)), one->owners, size);
    size_t *b = memcpy(got(malloc(size)), other->owners, size);
    qsort(a, one->count, sizeof *a, compare_numbers);
    qsort(b, one->count, sizeof *b, compare_numbers);
    bool same = memcmp(a, b, size) == 0;
    free(a);
    free(b);
    return same;
}

static void free_cycle(waits_cycle *cycle) {
    free(cycle->owners);
    free(cycle->edges);
}

size_t waits_cycles(const waits_graph *graph, waits_cycle **cycles_out) {
    waits_cycle *cycles = NULL, found;
    size_t count = 0, capacity = 0;
    reached *how = got(calloc(graph->owner_count + 1, sizeof *how));
    size_t *queue = got(calloc(graph->owner_count + 1, sizeof *queue));
    bool *told = got(calloc(graph->owner_count + 1, sizeof *told));
    for (size_t i = 0; i < graph->owner_count; i++) {
        if (told[i] || graph->owners[i].edge_count == 0 ||
            !find_cycle(graph, i, how, queue, &found))
            continue;
        bool again = false;
        for (size_t j = 0; j < count && !again; j++)
            again = is_same(&cycles[j], &found);
        if (again) {
            free_cycle(&found);
            continue;
        }
        for (size_t j = 0; j < found.count; j++)
            told[found.owners[j]] = true;
        cycles = grown(cycles, count, &capacity, sizeof *cycles);
        cycles[count++] = found;
    }
    free(how);
    free(queue);
    free(told);
    *cycles_out = cycles;
    return count;
}

void waits_free_cycles(waits_cycle *cycles, size_t count) {
    for (size_t i = 0; i < count; i++)
        free_cycle(&cycles[i]);
    free(cycles);
}

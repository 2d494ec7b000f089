/*
 * The graph of owners that wait for each other, over many locks. From views of the locks it finds
 * the owners that can never proceed without outside help, and the cycles among them.
 */
#ifndef HOLDFAST_WAITS_H
#define HOLDFAST_WAITS_H

#include <holdfast/holdfast.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct waits_bytes {
    char *data;
    size_t length;
} waits_bytes;

typedef struct waits_holder {
    size_t owner;
    bool exclusive;
    int64_t weight; /* of shared holds: the permits that they take */
    int64_t fence, held_ms;
} waits_holder;

typedef struct waits_waiter {
    size_t owner;
    bool exclusive;
    int64_t permits, weight, waited_ms, timeout_ms;
} waits_waiter;

/* A lock with waiters. */
typedef struct waits_lock {
    waits_bytes name;
    int64_t seen_ms; /* when its last page was read, on the caller's clock */
    size_t holder_count, waiter_count;
    waits_holder *holders;
    waits_waiter *waiters; /* in the order of the queue */
} waits_lock;

typedef struct waits_owner {
    waits_bytes name;
    bool stuck;
    size_t edge_count, edge_capacity;
    struct waits_edge *edges;
} waits_owner;

/* An owner waits for another owner, which holds the lock, or is ahead in the queue. */
typedef struct waits_edge {
    size_t to;
    size_t lock, waiter; /* index of the lock, and of the waiter in it */
    size_t holder;       /* index in its holders; SIZE_MAX: the other owner is in the queue */
} waits_edge;

typedef struct waits_graph {
    size_t lock_count, owner_count, lock_capacity, owner_capacity;
    waits_lock *locks;
    waits_owner *owners;
    void *index; /* owners by name */
} waits_graph;

/* A cycle: edges[i] leads from owners[i] to owners[i + 1], the last edge to the first owner. */
typedef struct waits_cycle {
    size_t count;
    size_t *owners;
    waits_edge *edges;
} waits_cycle;

/* All functions exit if out of memory. */
void waits_begin(waits_graph *graph);
void waits_end(waits_graph *graph);
/* Add a lock, or, if `more`, the next page of the lock that was added last. */
void waits_add(waits_graph *graph, const hf_view *view, bool more, int64_t seen_ms);
/* Find the stuck owners and their edges. */
void waits_solve(waits_graph *graph);
/* Find a shortest cycle for each owner in a cycle, each once. Free them by waits_free_cycles(). */
size_t waits_cycles(const waits_graph *graph, waits_cycle **cycles_out);
void waits_free_cycles(waits_cycle *cycles, size_t count);

#endif

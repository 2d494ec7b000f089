/*
 * Which owners wait for which, over many locks. Of what was seen of the locks it finds the owners
 * that can never go on, unless somebody outside helps, and the cycles among these.
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
    int64_t fence, held_ms;
} waits_holder;

typedef struct waits_waiter {
    size_t owner;
    bool exclusive;
    int64_t permits, waited_ms, timeout_ms;
} waits_waiter;

/* A lock that somebody waits for. */
typedef struct waits_lock {
    waits_bytes name;
    int64_t seen_ms; /* when, on the caller's clock: the last of its pages */
    size_t holder_count, waiter_count;
    waits_holder *holders;
    waits_waiter *waiters; /* the next to be served first */
} waits_lock;

typedef struct waits_owner {
    waits_bytes name;
    bool stuck;
    size_t edge_count, edge_capacity;
    struct waits_edge *edges;
} waits_owner;

/* An owner waits for another, as long as that holds the lock, or is before it in the queue. */
typedef struct waits_edge {
    size_t to;
    size_t lock, waiter; /* of `locks`, of its waiters: the one that waits */
    size_t holder;       /* of its holders; SIZE_MAX: the other is in the queue */
} waits_edge;

typedef struct waits_graph {
    size_t lock_count, owner_count, lock_capacity, owner_capacity;
    waits_lock *locks;
    waits_owner *owners;
    void *index; /* of owners, by name */
} waits_graph;

/* A cycle: edges[i] leads from owners[i] to owners[i + 1], and the last one to the first. */
typedef struct waits_cycle {
    size_t count;
    size_t *owners;
    waits_edge *edges;
} waits_cycle;

/* All of these end the program if there is no memory. */
void waits_begin(waits_graph *graph);
void waits_end(waits_graph *graph);
/* A lock, or the next page of the one that was added last, if `more`. */
void waits_add(waits_graph *graph, const hf_view *view, bool more, int64_t seen_ms);
/* Which owners are stuck, and for whom each of them waits. */
void waits_solve(waits_graph *graph);
/* For each owner that is in a cycle a shortest one, each once. Free them by waits_free_cycles(). */
size_t waits_cycles(const waits_graph *graph, waits_cycle **cycles_out);
void waits_free_cycles(waits_cycle *cycles, size_t count);

#endif

/* Random programs over the public header, in simulated processes. */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "kernel.h"

enum { KEYS_MAX = 6, AHEAD_MS = 5000 /* the longest head start */ };

/* What a seed draws: which features its programs use, and how often. Weight 0: never. */
typedef struct workload {
    const char *url;
    int keys, clients, threads; /* threads: at most, of each client */
    int64_t connect_ms, command_ms;
    int64_t shortest_ms, longest_ms; /* leases; and the shortest that a new connection renews: */
    int64_t renewable_ms;
    int think_ms; /* between two calls */
    bool endless, starts, interrupts, cancels, lazy, counts, heals;
    struct {
        int acquire, all, once, release, renew, extend, replace, check, keep, hand, look, owner,
            walk, tell, brake, cancel, split, break_, limit;
    } weights;
    int permits; /* of all shared holds; 0: no limit */
    double shared, owned, nested, tries, forever, renewed, max_hold, closes, abandons, replicated,
        ahead;
    int64_t until; /* programs begin no new work after it */
    bool stop;
} workload;

extern workload work; /* the same for all processes */

/* Run a process of programs; the argument is not used. */
void *workload_process(void *unused);

#endif

/* The needs of a number of locks, hosts and acquisitions, from the measurements of a server. */
#ifndef HOLDFAST_CLI_PLAN_H
#define HOLDFAST_CLI_PLAN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct plan_wish {
    int64_t locks;    /* held at the same time */
    int64_t hosts;    /* processes with a client */
    double rate;      /* acquisitions per second, of all hosts together */
    int64_t waiters;  /* waiting at the same time */
    int64_t names;    /* locked within the life of a fence */
    int64_t lease_ms; /* of each lock */
} plan_wish;

/* Seconds of a busy server for each operation. */
typedef struct plan_costs {
    double pair, handoff, renewal;
} plan_costs;

/* Parse "locks=1000,hosts=20,rate=50", or exit with CLI_USAGE. */
plan_wish plan_read(const char *text);
/* Print the plan, as lines or as one object. */
void plan_print(const plan_wish *wish, const plan_costs *costs, bool json);

#endif

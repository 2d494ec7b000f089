/*
 * The guard: a second process that ends the command when `holdfast` itself cannot any more,
 * because it was killed, or is stopped while the lock runs out. It has no connection, only the
 * last order that it was given.
 */
#ifndef HOLDFAST_GUARD_H
#define HOLDFAST_GUARD_H

#include <stdint.h>
#include <sys/types.h>

typedef struct guard_order {
    /* The command's process group; 0: there is none to end. */
    pid_t group;
    /* It gets this when `holdfast` is gone; 0: nothing. */
    int signal;
    /* It gets KILL then, on cli_now()'s clock, unless another order comes; CLI_NEVER. */
    int64_t kill_at;
} guard_order;

typedef struct cli_guard {
    pid_t pid;
    int socket;
} cli_guard;

/* Start it, before anything is opened that it should not have. -1 with errno. */
int guard_start(cli_guard *guard);
/* Only system calls: a forked child may call it. */
void guard_tell(const cli_guard *guard, const guard_order *order);
/* Let it go. */
void guard_end(cli_guard *guard);

#endif

/*
 * The guard: a second process that ends the command if `holdfast` itself was killed, or is stopped
 * while the lease expires. It has no connection, only the last order that it received.
 */
#ifndef HOLDFAST_GUARD_H
#define HOLDFAST_GUARD_H

#include <stdint.h>
#include <sys/types.h>

typedef struct guard_order {
    /* The command's process group; 0: no group to end. */
    pid_t group;
    /* Sent to the group when `holdfast` has ended; 0: none. */
    int signal;
    /* When to send KILL, on cli_now()'s clock, without a newer order; or CLI_NEVER. */
    int64_t kill_at;
} guard_order;

typedef struct cli_guard {
    pid_t pid;
    int socket;
    _Atomic int64_t *killed_at; /* shared with the guard */
} cli_guard;

/* Start the guard, before opening anything that it must not inherit. Return 0, or -1 with errno. */
int guard_start(cli_guard *guard);
/* Send an order. This uses only system calls: a forked child may call it. */
void guard_tell(const cli_guard *guard, const guard_order *order);
/* Return the time of the order by which the guard killed the group; 0: it did not. */
int64_t guard_killed_at(const cli_guard *guard);
/* Make the guard end nothing more. */
void guard_dismiss(const cli_guard *guard);
/* End the guard. */
void guard_end(cli_guard *guard);

#endif

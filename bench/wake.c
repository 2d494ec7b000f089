/*
 * The price of waking a thread on this machine, on the processor of the thread that wakes it and on
 * another one. Each caller that shares a connection, and each client of a server, is woken once for
 * an answer, so this shows how far a figure of several threads is the machine's.
 *
 *     wake
 */
#include "bench.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAKES 2000
#define PAUSE_US 300 /* after this time the thread sleeps, or has woken */

static _Atomic int word;
static _Atomic bool over;
static _Atomic double awake_at;

static void stay_on(int processor) {
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    if (sched_setaffinity(0, sizeof only, &only) != 0)
        err(1, "processor %d", processor);
}

static void *sleep_and_tell(void *processor) {
    stay_on(*(int *)processor);
    int seen = atomic_load(&word);
    while (!over) {
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_store(&awake_at, now());
        seen = atomic_load(&word);
    }
    return NULL;
}

static void wake(void) {
    atomic_fetch_add(&word, 1);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void measure(const char *where, int processor) {
    static double cost[WAKES], delay[WAKES];
    pthread_t thread;

    over = false;
    if (pthread_create(&thread, NULL, sleep_and_tell, &processor) != 0)
        errx(1, "no thread");
    for (int i = 0; i < WAKES; i++) {
        usleep(PAUSE_US);
        double before = now();
        wake();
        cost[i] = now() - before;
        usleep(PAUSE_US);
        delay[i] = atomic_load(&awake_at) - before;
    }
    over = true;
    wake();
    pthread_join(thread, NULL);
    qsort(cost, WAKES, sizeof *cost, by_value);
    qsort(delay, WAKES, sizeof *delay, by_value);
    printf("on %s: the call takes %.1f us, and the thread runs after %.1f us\n", where,
           1e6 * cost[WAKES / 2], 1e6 * delay[WAKES / 2]);
}

int main(void) {
    cpu_set_t allowed;
    int processors[2], count = 0;

    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
        if (CPU_ISSET(i, &allowed))
            processors[count++] = i;
    stay_on(processors[0]);
    measure("the same processor", processors[0]);
    if (count > 1)
        measure("another processor", processors[1]);
    return 0;
}

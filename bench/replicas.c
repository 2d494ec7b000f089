/*
 * What a confirmation by replicas costs each acquire: a pair of one thread, pairs of 16 threads
 * with a lock each, and a turn of 4 threads that share a lock. Each with 0 replicas and with
 * REPLICAS, in rounds in turn, so that noise hits both alike.
 *
 *     replicas URL REPLICAS [ROUNDS MILLISECONDS]
 *
 * Prints the medians, and the median of the ratios of neighbouring rounds. bench/replicas starts
 * the servers.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 60000
#define THREADS_MAX 16
#define ROUNDS_MAX 200
#define TIMES_MAX 2000000

static hf_client *client;
static atomic_bool over;
static double *times; /* ns of a lone thread's pairs in all rounds */
static int timed;

typedef struct worker {
    pthread_t thread;
    hf_lock *lock;
    bool timed;
    long pairs;
} worker;

static hf_lock *open_lock(const char *name, int32_t replicas) {
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = LEASE_MS, .renew = HF_OFF, .replicas = replicas};
    hf_lock *lock;

    check(hf_lock_open(client, name, strlen(name), NULL, 0, &options, &lock));
    return lock;
}

static void *work(void *argument) {
    worker *mine = argument;
    hf_hold *hold;

    for (; !over; mine->pairs++) {
        double start = now();
        check(hf_lock_acquire(mine->lock, HF_FOREVER, &hold));
        check(hf_hold_release(hold));
        hf_hold_close(hold);
        if (mine->timed && timed < TIMES_MAX)
            times[timed++] = 1e9 * (now() - start);
    }
    return NULL;
}

/* Return the threads' pairs a second. */
static double measure(int threads, bool same, int32_t replicas, double ms) {
    worker workers[THREADS_MAX] = {0};
    char name[40];
    long pairs = 0;

    for (int i = 0; i < threads; i++) {
        snprintf(name, sizeof name, "bench:replicas:%d", same ? 0 : i);
        workers[i].lock = open_lock(name, replicas);
        workers[i].timed = threads == 1;
    }
    over = false;
    double start = now();
    for (int i = 0; i < threads; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            errx(1, "no thread");
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)ms % 1000 * 1000000},
        NULL);
    over = true;
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        pairs += workers[i].pairs;
        hf_lock_close(workers[i].lock);
    }
    return (double)pairs / (now() - start);
}

static double part_of(double *values, int count, double part) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[(int)(part * (count - 1))];
}

static void compare(const char *what, int threads, bool same, int32_t replicas, int rounds,
                    double ms) {
    double rates[2][ROUNDS_MAX], ratios[ROUNDS_MAX];
    double *both[2] = {calloc(TIMES_MAX, sizeof *times), calloc(TIMES_MAX, sizeof *times)};
    int counts[2] = {0};

    if (both[0] == NULL || both[1] == NULL)
        errx(1, "no memory");
    for (int i = -1; i < rounds; i++) {
        for (int with = 0; with < 2; with++) {
            times = both[with];
            timed = counts[with];
            double rate = measure(threads, same, with ? replicas : 0, ms);
            if (i >= 0) { /* the first warms up */
                rates[with][i] = rate;
                counts[with] = timed;
            }
        }
        if (i >= 0)
            ratios[i] = rates[1][i] / rates[0][i];
    }
    printf("%-28s %8.0f a second, with %d: %8.0f; ratio %.2f (%.2f to %.2f)\n", what,
           part_of(rates[0], rounds, 0.5), (int)replicas, part_of(rates[1], rounds, 0.5),
           part_of(ratios, rounds, 0.5), part_of(ratios, rounds, 0.1),
           part_of(ratios, rounds, 0.9));
    for (int with = 0; with < 2 && threads == 1; with++)
        printf("  %d: p50 %.0f us, p99 %.0f us\n", with ? (int)replicas : 0,
               part_of(both[with], counts[with], 0.5) / 1e3,
               part_of(both[with], counts[with], 0.99) / 1e3);
    free(both[0]);
    free(both[1]);
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 5)
        errx(2, "usage: replicas URL REPLICAS [ROUNDS MILLISECONDS]");
    int32_t replicas = atoi(argv[2]);
    int rounds = argc == 5 && atoi(argv[3]) < ROUNDS_MAX ? atoi(argv[3]) : 21;
    double ms = argc == 5 ? atof(argv[4]) : 300;

    check(hf_client_open(argv[1], NULL, &client));
    compare("a pair, 1 thread:", 1, false, replicas, rounds, ms);
    compare("16 threads, a lock each:", 16, false, replicas, rounds, ms);
    compare("4 threads, the same lock:", 4, true, replicas, rounds, ms);
    hf_client_close(client);
    return 0;
}

/*
 * The cost of shared holds and of calls made once, when many ask for them: readers beside each
 * other, a semaphore, and work that is done once for all. Threads of one client.
 *
 *     family HOST PORT [MILLISECONDS]
 *
 * prints
 *   how many shared holds 1, 16 and 256 readers of one lock acquire and release in a second,
 *   beside as many threads with a lock each;
 *   how many turns a second a semaphore of 3 gives to 64 waiters;
 *   the same for pools of 5 to 20, beside one in which every fifth waiter takes 3 permits;
 *   the time until 100 callers of hf_once_begin() have the result that the first of them makes at
 *   once, and then the time of callers that begin when it is there.
 *
 * Each takes MILLISECONDS, 2000 by default; for the last figures the median of the tries counts.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 256
#define TRIES_MAX 1000
#define LEASE_MS 60000
#define TTL_MS 60000

static hf_client *client;
static pthread_barrier_t barrier;
static atomic_bool over;
static atomic_long turns;

static hf_lock *open_lock(const char *name, int32_t mode, int64_t permits, int64_t weight) {
    hf_lock_options options = {.size = sizeof options,
                               .lease_ms = LEASE_MS,
                               .renew = HF_OFF,
                               .mode = mode,
                               .permits = permits,
                               .weight = weight};
    hf_lock *lock;

    check(hf_lock_open(client, name, strlen(name), NULL, 0, &options, &lock));
    return lock;
}

/* Let each thread call `run` with its lock; return the time from the first start to the last end.
 */
static double run_threads(int count, void *(*run)(void *), hf_lock *const *locks, double seconds) {
    pthread_t threads[THREADS_MAX];

    over = false;
    turns = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, locks[i]) != 0)
            errx(1, "no thread");
    pthread_barrier_wait(&barrier);
    double start = now();
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)},
              NULL);
    over = true;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    return now() - start;
}

static void *take_turns(void *lock) {
    hf_hold *hold;
    long count = 0;

    pthread_barrier_wait(&barrier);
    while (!over) {
        check(hf_lock_acquire(lock, HF_FOREVER, &hold));
        hf_status status = hf_hold_release(hold);
        if (status == HF_OK)
            count++;
        else if (status != HF_ELOST) /* a grant that a busy machine let end is no turn */
            check(status);
        hf_hold_close(hold);
    }
    turns += count;
    return NULL;
}

/* Return the turns a second of `threads`, on one lock or on one each. Every fifth thread takes
 * `heavy` permits. */
static double rate(int threads, const char *name, int32_t mode, int64_t permits, int64_t heavy,
                   bool own, double seconds) {
    hf_lock *locks[THREADS_MAX] = {NULL};
    char each[64];

    for (int i = 0; i < threads; i++) {
        snprintf(each, sizeof each, own ? "%s:%d" : "%s", name, i);
        locks[i] = open_lock(each, mode, permits, i % 5 == 4 ? heavy : 0);
    }
    run_threads(threads, take_turns, locks, seconds / 10); /* connections, and the scripts */
    double took = run_threads(threads, take_turns, locks, seconds);
    for (int i = 0; i < threads; i++)
        hf_lock_close(locks[i]);
    return (double)turns / took;
}

/* ------------------------------------------------------------------ Once */

static atomic_long made;

static void *ask_once(void *lock) {
    hf_hold *hold;

    pthread_barrier_wait(&barrier);
    hf_status status = hf_once_begin(lock, HF_FOREVER, NULL, NULL, 0, &hold);
    if (status == HF_OK) {
        made++;
        check(hf_once_finish(hold, HF_ONCE_DONE, "done", 4, TTL_MS));
    } else if (status != HF_EDONE) {
        check(status);
    }
    hf_hold_close(hold);
    return NULL;
}

static void measure_once(int callers, double seconds) {
    static double first[TRIES_MAX], later[TRIES_MAX];
    hf_lock *locks[THREADS_MAX] = {NULL};
    char name[64];
    int tries = 0;

    for (double start = now(); tries < TRIES_MAX && (tries == 0 || now() - start < seconds);
         tries++) {
        snprintf(name, sizeof name, "family:once:%d:%.6f", tries, start);
        for (int i = 0; i < callers; i++)
            locks[i] = open_lock(name, HF_EXCLUSIVE, 0, 0);
        first[tries] = run_threads(callers, ask_once, locks, 0);
        later[tries] = run_threads(callers, ask_once, locks, 0);
        for (int i = 0; i < callers; i++)
            hf_lock_close(locks[i]);
    }
    if (made != tries)
        errx(1, "%ld times, and not once in each of %d tries", (long)made, tries);
    qsort(first, (size_t)tries, sizeof *first, by_value);
    qsort(later, (size_t)tries, sizeof *later, by_value);
    printf("once, %d callers: %.1f ms until all have the result; when it is there %.1f ms "
           "(median of %d)\n",
           callers, first[tries / 2] * 1000, later[tries / 2] * 1000, tries);
}

int main(int count, char **words) {
    static const int crowds[] = {1, 16, 256};
    char url[128];

    if (count < 3)
        errx(2, "usage: family HOST PORT [MILLISECONDS]");
    double seconds = (count > 3 ? atoi(words[3]) : 2000) / 1000.0;
    snprintf(url, sizeof url, "redis://%s:%s", words[1], words[2]);
    check(hf_client_open(url, NULL, &client));
    for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++) {
        double shared = rate(crowds[i], "family:readers", HF_SHARED, 0, 0, false, seconds);
        double own = rate(crowds[i], "family:own", HF_EXCLUSIVE, 0, 0, true, seconds);
        printf("%d readers: %.0f turns a second (with a lock each: %.0f)\n", crowds[i], shared,
               own);
        fflush(stdout);
    }
    printf("a semaphore of 3, 64 waiters: %.0f turns a second\n",
           rate(64, "family:semaphore", HF_SHARED, 3, 0, false, seconds));
    fflush(stdout);
    double light = rate(20, "family:light", HF_SHARED, 5, 0, false, seconds);
    double mixed = rate(20, "family:mixed", HF_SHARED, 5, 3, false, seconds);
    printf("a pool of 5, 20 threads: %.0f turns a second (if every fifth takes 3: %.0f)\n", light,
           mixed);
    fflush(stdout);
    measure_once(100, seconds);
    hf_client_close(client);
    return 0;
}

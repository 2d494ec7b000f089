/*
 * One pair, acquire and release, on one uncontended key: Holdfast beside the least that a lock over
 * hiredis can do, which is SET NX PX and an EVALSHA that compares and deletes. Same server, same
 * kind of socket, rounds in turn, so that noise hits both alike. Then the same on 8 threads at
 * once, each with a key of its own, and for the raw lock with a connection of its own.
 *
 *     pair_c HOST PORT ROUNDS PAIRS   print the ratios
 *     pair_c HOST PORT                for run.py: N on standard input measures
 *                                     N pairs of Holdfast's, and prints the ns per pair;
 *                                     "N T shared" N on each of T threads at
 *                                     once, which share one lock object, and
 *                                     "N T own" gives each thread its own; they
 *                                     give up after 0.5 s and try again
 */
#include "bench.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 10000
#define WARM_UP 2000
#define PATIENCE_MS 500
#define THREADS_MAX 64
#define THREADS 8

static const char compare_and_delete[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

static redisContext *raw;
static char raw_script[41];
static hf_client *client;
static hf_lock *lock;

static redisReply *expect(redisReply *reply, int type) {
    if (!reply || reply->type != type)
        errx(1, "raw: %s", reply && reply->str ? reply->str : raw->errstr);
    return reply;
}

static void raw_pair_of(redisContext *context, int key) {
    freeReplyObject(
        expect(redisCommand(context, "SET bench:raw:%d 0123456789abcdef0123456789abcdef NX PX %d",
                            key, LEASE_MS),
               REDIS_REPLY_STATUS));
    freeReplyObject(
        expect(redisCommand(context, "EVALSHA %s 1 bench:raw:%d 0123456789abcdef0123456789abcdef",
                            raw_script, key),
               REDIS_REPLY_INTEGER));
}

static void raw_pair(void) { raw_pair_of(raw, 0); }

static void lock_pair_of(hf_lock *mine) {
    hf_hold *hold;

    check(hf_lock_acquire(mine, HF_FOREVER, &hold));
    check(hf_hold_release(hold));
    hf_hold_close(hold);
}

static void lock_pair(void) { lock_pair_of(lock); }

/** Return the nanoseconds since `start`. */
static double since(const struct timespec *start) {
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - start->tv_sec) * 1e9 + (double)(end.tv_nsec - start->tv_nsec);
}

/** Return the nanoseconds per pair. */
static double measure(void (*pair)(void), int count) {
    struct timespec start;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < count; i++)
        pair();
    return since(&start) / count;
}

/** Return how many requests of a pair the server has served so far. */
static long long requests_served(void) {
    redisReply *reply = expect(redisCommand(raw, "INFO commandstats"), REDIS_REPLY_STRING);
    long long total = 0;

    static const char *const kinds[] = {"cmdstat_eval", "cmdstat_hdel"};
    for (int i = 0; i < 2; i++)
        for (char *line = reply->str; (line = strstr(line, kinds[i])); line++)
            total += strtoll(strstr(line, "calls=") + 6, NULL, 10);
    freeReplyObject(reply);
    return total;
}

/* One of several threads, each with a key of its own. */
typedef struct worker {
    pthread_t thread;
    redisContext *raw; /* or NULL: uses the lock */
    hf_lock *lock;
    int key, count;
} worker;

static void *work(void *argument) {
    const worker *mine = argument;

    for (int i = 0; i < mine->count; i++)
        if (mine->raw)
            raw_pair_of(mine->raw, mine->key);
        else
            lock_pair_of(mine->lock);
    return NULL;
}

/** Return the nanoseconds per pair of all threads together. */
static double measure_threads(worker *workers, int count) {
    struct timespec start;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < THREADS; i++) {
        workers[i].count = count;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            errx(1, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    return since(&start) / count / THREADS;
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void compare(int rounds, int pairs) {
    double *raw_ns = calloc((size_t)rounds, sizeof *raw_ns);
    double *lock_ns = calloc((size_t)rounds, sizeof *lock_ns);
    double *ratio = calloc((size_t)rounds, sizeof *ratio); /* of neighbouring rounds, see run.py */
    long long requests;

    if (!raw_ns || !lock_ns || !ratio)
        errx(1, "out of memory");
    measure(raw_pair, WARM_UP);
    measure(lock_pair, WARM_UP); /* also sends the scripts to the server */
    requests = requests_served();
    measure(lock_pair, pairs);
    requests = requests_served() - requests;

    for (int i = 0; i < rounds; i++) {
        raw_ns[i] = measure(raw_pair, pairs);
        lock_ns[i] = measure(lock_pair, pairs);
        ratio[i] = raw_ns[i] / lock_ns[i];
    }
    printf("raw hiredis %.1f us, Holdfast %.1f us a pair: %.2f of raw (wanted: 0.95)\n",
           median(raw_ns, rounds) / 1000, median(lock_ns, rounds) / 1000, median(ratio, rounds));
    printf("%.3f requests a pair (wanted: 2)\n", (double)requests / pairs);
    free(raw_ns);
    free(lock_ns);
    free(ratio);
}

static hf_lock *open_lock(const char *name) {
    hf_lock *opened;

    check(hf_lock_open(
        client, name, strlen(name), NULL, 0,
        &(hf_lock_options){.size = sizeof(hf_lock_options), .lease_ms = LEASE_MS, .renew = HF_OFF},
        &opened));
    return opened;
}

static redisContext *connect_raw(char **argv) {
    redisContext *context = redisConnect(argv[1], atoi(argv[2]));

    if (!context || context->err)
        errx(1, "raw: %s", context ? context->errstr : "out of memory");
    return context;
}

static void compare_threads(char **argv, int rounds, int pairs) {
    worker raws[THREADS], locks[THREADS];
    double ratio[100], raw_ns[100], lock_ns[100];
    char name[20];

    rounds = rounds < 100 ? rounds : 100;
    for (int i = 0; i < THREADS; i++) {
        snprintf(name, sizeof name, "bench:c:%d", i);
        raws[i] = (worker){.raw = connect_raw(argv), .key = i + 1};
        locks[i] = (worker){.lock = open_lock(name)};
    }
    measure_threads(raws, pairs);
    measure_threads(locks, pairs);
    for (int i = 0; i < rounds; i++) {
        raw_ns[i] = measure_threads(raws, pairs);
        lock_ns[i] = measure_threads(locks, pairs);
        ratio[i] = raw_ns[i] / lock_ns[i];
    }
    printf("%d threads: raw %.1f us, Holdfast %.1f us a pair: %.2f of raw (wanted: 1.00)\n",
           THREADS, median(raw_ns, rounds) / 1000, median(lock_ns, rounds) / 1000,
           median(ratio, rounds));
    for (int i = 0; i < THREADS; i++) {
        redisFree(raws[i].raw);
        hf_lock_close(locks[i].lock);
    }
}

typedef struct contender {
    pthread_t thread;
    hf_lock *lock;
    int count;
} contender;

static void *contend(void *argument) {
    contender *mine = argument;
    hf_status status;
    hf_hold *hold;

    for (int i = 0; i < mine->count;) {
        status = hf_lock_acquire(mine->lock, PATIENCE_MS, &hold);
        if (status == HF_ETIMEOUT)
            continue;
        check(status);
        check(hf_hold_release(hold));
        hf_hold_close(hold);
        i++;
    }
    return NULL;
}

static void crowd(int count, int threads, bool shared) {
    contender all[THREADS_MAX];

    if (threads > THREADS_MAX)
        errx(2, "at most %d threads", THREADS_MAX);
    for (int i = 0; i < threads; i++) {
        all[i] = (contender){.lock = shared ? lock : open_lock("bench:c"), .count = count};
        if (pthread_create(&all[i].thread, NULL, contend, &all[i]) != 0)
            errx(1, "no thread");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i].thread, NULL);
        if (!shared)
            hf_lock_close(all[i].lock);
    }
}

static void serve(void) {
    char line[100], kind[10];
    int count, threads;

    while (fgets(line, sizeof line, stdin)) {
        struct timespec start;
        int words = sscanf(line, "%d %d %9s", &count, &threads, kind);

        if (words == 1) {
            printf("%.1f\n", measure(lock_pair, count));
        } else if (words == 3) {
            clock_gettime(CLOCK_MONOTONIC, &start);
            crowd(count, threads, strcmp(kind, "shared") == 0);
            printf("%.1f\n", since(&start) / count / threads);
        }
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    char url[300];
    redisReply *script;

    if (argc != 3 && argc != 5)
        errx(2, "usage: pair_c HOST PORT [ROUNDS PAIRS]");
    raw = connect_raw(argv);
    script = expect(redisCommand(raw, "SCRIPT LOAD %s", compare_and_delete), REDIS_REPLY_STRING);
    snprintf(raw_script, sizeof raw_script, "%s", script->str);
    freeReplyObject(script);

    snprintf(url, sizeof url, "redis://%s:%s", argv[1], argv[2]);
    check(hf_client_open(url, NULL, &client));
    lock = open_lock("bench:c");

    if (argc == 5) {
        compare(atoi(argv[3]), atoi(argv[4]));
        compare_threads(argv, atoi(argv[3]), atoi(argv[4]) / THREADS + 1);
    } else {
        serve();
    }

    hf_lock_close(lock);
    hf_client_close(client);
    redisFree(raw);
    return 0;
}

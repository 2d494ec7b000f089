/*
 * One pair, acquire and release, on one key that nobody else wants: Holdfast
 * beside the least that a lock over hiredis can do, which is SET NX PX and an
 * EVALSHA that compares and deletes. Same server, same kind of socket, rounds
 * in turn, so that noise hits both alike.
 *
 *     pair_c HOST PORT ROUNDS PAIRS   print the ratio
 *     pair_c HOST PORT                for run.py: N on standard input measures
 *                                     N pairs of Holdfast's, ns per pair back;
 *                                     "N T shared" N on each of T threads at
 *                                     once, which share one lock object, and
 *                                     "N T own" gives each thread its own; they
 *                                     give up after 0.5 s and try again
 */
#include <err.h>
#include <hiredis/hiredis.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LEASE_MS 10000
#define WARM_UP 2000
#define PATIENCE_MS 500
#define THREADS_MAX 64

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

static void check(hf_status status) {
    if (status != HF_OK)
        errx(1, "%s: %s", hf_status_name(status), hf_error_message());
}

static void raw_pair(void) {
    freeReplyObject(expect(
        redisCommand(raw, "SET bench:raw 0123456789abcdef0123456789abcdef NX PX %d", LEASE_MS),
        REDIS_REPLY_STATUS));
    freeReplyObject(expect(
        redisCommand(raw, "EVALSHA %s 1 bench:raw 0123456789abcdef0123456789abcdef", raw_script),
        REDIS_REPLY_INTEGER));
}

static void lock_pair(void) {
    hf_hold *hold;

    check(hf_lock_acquire(lock, HF_FOREVER, &hold));
    check(hf_hold_release(hold));
    hf_hold_close(hold);
}

/** Nanoseconds. */
static double since(const struct timespec *start) {
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - start->tv_sec) * 1e9 + (double)(end.tv_nsec - start->tv_nsec);
}

/** Nanoseconds per pair. */
static double measure(void (*pair)(void), int count) {
    struct timespec start;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < count; i++)
        pair();
    return since(&start) / count;
}

/** How many requests of a pair the server has served so far. */
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

static int by_value(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void compare(int rounds, int pairs) {
    double *raw_ns = calloc((size_t)rounds, sizeof *raw_ns);
    double *lock_ns = calloc((size_t)rounds, sizeof *lock_ns);
    double *ratio = calloc((size_t)rounds, sizeof *ratio); /* of neighbours, see run.py */
    long long requests;

    if (!raw_ns || !lock_ns || !ratio)
        errx(1, "out of memory");
    measure(raw_pair, WARM_UP);
    measure(lock_pair, WARM_UP); /* which also teaches the server the scripts */
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

static hf_lock *open_lock(void) {
    hf_lock *opened;

    check(hf_lock_open(client, "bench:c", 7, NULL, 0,
                       &(hf_lock_options){.size = sizeof(hf_lock_options), .lease_ms = LEASE_MS},
                       &opened));
    return opened;
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
        all[i] = (contender){.lock = shared ? lock : open_lock(), .count = count};
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
    raw = redisConnect(argv[1], atoi(argv[2]));
    if (!raw || raw->err)
        errx(1, "raw: %s", raw ? raw->errstr : "out of memory");
    script = expect(redisCommand(raw, "SCRIPT LOAD %s", compare_and_delete), REDIS_REPLY_STRING);
    snprintf(raw_script, sizeof raw_script, "%s", script->str);
    freeReplyObject(script);

    snprintf(url, sizeof url, "redis://%s:%s", argv[1], argv[2]);
    check(hf_client_open(url, NULL, &client));
    lock = open_lock();

    if (argc == 5)
        compare(atoi(argv[3]), atoi(argv[4]));
    else
        serve();

    hf_lock_close(lock);
    hf_client_close(client);
    redisFree(raw);
    return 0;
}

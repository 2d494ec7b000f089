/* The C worker of run.py; worker.py describes how it is called. */
#include <err.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define PERMITS 2
#define DAY_MS INT64_C(86400000)  /* a paid result outlasts every step of a clock */
#define ROUND INT64_C(2000000000) /* ns during which the workers ask for the same call */

static const char take[] =
    "if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return 0 end "
    "redis.call('SET', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], ARGV[1]) return 1";

static hf_client *client;
static int history, resource_port, locks;
static bool plain; /* several masters: no results, and no shared holds */
static atomic_bool stop;
static atomic_int numbers;

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void nap(int64_t ns) {
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

static void tell(const char *event, int op, const char *format, ...) {
    char line[300];
    va_list arguments;
    int length = snprintf(line, sizeof line, "{\"e\": \"%s\", \"op\": %d", event, op);

    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length, format, arguments);
    va_end(arguments);
    length += snprintf(line + length, sizeof line - (size_t)length, "}\n");
    if (write(history, line, (size_t)length) != length)
        err(1, "the history");
}

static long write_to(redisContext *resource, const char *key, int64_t fence) {
    redisReply *reply =
        redisCommand(resource, "EVAL %s 2 %s log:%s %" PRId64, take, key, key, fence);
    long taken;

    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        errx(1, "the resource: %s", reply ? reply->str : resource->errstr);
    taken = (long)reply->integer;
    freeReplyObject(reply);
    return taken;
}

/* Make the call: it is this caller's turn. */
static void make(hf_hold *hold, int op, bool paid, const char *result, unsigned *seed) {
    hf_status status = paid ? hf_once_mark(hold, HF_NEVER, NULL, 0) : HF_OK;

    if (status != HF_OK) {
        tell("not", op, ", \"at\": %" PRId64 ", \"why\": \"%s\"", now_ns(), hf_status_name(status));
        return;
    }
    tell("call", op, ", \"at\": %" PRId64, now_ns());
    nap(rand_r(seed) % 200000000);
    if (rand_r(seed) % 5 == 0) { /* the next caller makes it, or the outcome is unknown */
        hf_hold_release(hold);
        return;
    }
    tell("made", op, ", \"at\": %" PRId64 ", \"result\": %s", now_ns(), result);
    if (hf_once_finish(hold, HF_ONCE_DONE, result, strlen(result), paid ? DAY_MS : 60000) ==
            HF_OK &&
        paid)
        tell("result", op, ", \"at\": %" PRId64 ", \"result\": %s", now_ns(), result);
}

/* Settle a call whose outcome is unknown, or leave it. */
static void settle(hf_lock *lock, hf_hold *hold, int op, const char *result, unsigned *seed) {
    hf_once_info info = {.size = sizeof info};

    if (hf_once_outcome(hold, &info) != HF_OK)
        errx(1, "%s", hf_error_message());
    switch (rand_r(seed) % 3) {
    case 0:
        tell("resolve", op, ", \"at\": %" PRId64 ", \"result\": %s", now_ns(), result);
        hf_once_settle(lock, HF_ONCE_DONE, info.fence, 0, result, strlen(result), DAY_MS, NULL, 0);
        break;
    case 1:
        tell("retry", op, ", \"at\": %" PRId64, now_ns());
        hf_once_settle(lock, HF_ONCE_RETRY, info.fence, 0, NULL, 0, 0, NULL, 0);
        break;
    default:
        break;
    }
}

/* Ask for a call that many workers want made at about the same time. */
static void ask_once(unsigned *seed) {
    static const hf_acquire_options most = {.size = sizeof most, .flags = HF_ACQUIRE_AT_MOST_ONCE};
    char key[32], result[64];
    int op = ++numbers;
    bool paid = rand_r(seed) % 2;
    hf_lock *lock;
    hf_hold *hold;

    snprintf(key, sizeof key, "%s:%" PRId64, paid ? "paid" : "once", now_ns() / ROUND);
    snprintf(result, sizeof result, "\"c-%d-%d\"", (int)getpid(), op); /* JSON */
    if (hf_lock_open(client, key, strlen(key), NULL, 0, NULL, &lock) != HF_OK)
        errx(1, "%s", hf_error_message());
    tell("try", op, ", \"k\": \"%s\", \"at\": %" PRId64 ", \"wait\": 5", key, now_ns());
    hf_status status = hf_once_begin(lock, 5000, paid ? &most : NULL, NULL, 0, &hold);
    if (status == HF_OK)
        make(hold, op, paid, result, seed);
    else if (status == HF_EDONE)
        tell("result", op, ", \"at\": %" PRId64 ", \"result\": %s", now_ns(),
             (const char *)hf_hold_result(hold, NULL));
    else
        tell("not", op, ", \"at\": %" PRId64 ", \"why\": \"%s\"", now_ns(), hf_status_name(status));
    if (status == HF_EOUTCOME)
        settle(lock, hold, op, result, seed);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* Choose a lock; a quarter is shared, without or with a number of permits. */
static const char *choose(unsigned *seed, char *key, size_t size, hf_lock_options *options) {
    int kind = (int)(rand_r(seed) % 8);

    snprintf(key, size, "job:%d", (int)(rand_r(seed) % (unsigned)locks));
    if (plain || kind > 1)
        return "";
    options->mode = HF_SHARED;
    if (kind == 0)
        return ", \"shared\": true";
    snprintf(key, size, "pool");
    options->permits = PERMITS;
    return ", \"shared\": true, \"permits\": 2";
}

static void *work(void *argument) {
    static const int waits[] = {0, 200, 5000, 5000}, longs[] = {0, 5, 20, 50, 300, 700};
    unsigned seed = (unsigned)now_ns() ^ (unsigned)(uintptr_t)&argument;
    redisContext *resource = redisConnect("127.0.0.1", resource_port);

    if (!resource || resource->err)
        errx(1, "the resource cannot be reached");
    while (!stop) {
        char key[32];
        if (!plain && rand_r(&seed) % 10 == 0) {
            ask_once(&seed);
            continue;
        }
        int op = ++numbers, wait = waits[rand_r(&seed) % 4];
        hf_lock_options options = {.size = sizeof options, .lease_ms = 400, .renew = HF_OFF};
        hf_lock *lock;
        hf_hold *hold;

        if (rand_r(&seed) % 2) {
            options.lease_ms = 1000;
            options.renew = HF_ON;
        }
        const char *mode = choose(&seed, key, sizeof key, &options);
        if (hf_lock_open(client, key, strlen(key), NULL, 0, &options, &lock) != HF_OK)
            errx(1, "%s", hf_error_message());
        tell("try", op, ", \"k\": \"%s\", \"at\": %" PRId64 ", \"wait\": %g%s", key, now_ns(),
             wait / 1000.0, mode);
        hf_status status = hf_lock_acquire(lock, wait, &hold);
        hf_lock_close(lock);
        if (status != HF_OK) {
            tell("not", op, ", \"at\": %" PRId64 ", \"why\": \"%s\"", now_ns(),
                 hf_status_name(status));
            continue;
        }
        int64_t fence = hf_hold_fence(hold);
        tell("got", op, ", \"at\": %" PRId64 ", \"fence\": %" PRId64, now_ns(), fence);
        int64_t until = now_ns() + longs[rand_r(&seed) % 6] * INT64_C(1000000);
        do {
            int64_t before = now_ns(); /* first: a stopped process is certain of less */
            int64_t left = hf_hold_remaining_ms(hold);
            if (left > 0)
                tell("sure", op, ", \"at\": %" PRId64 ", \"until\": %" PRId64, before,
                     before + left * 1000000);
            else if (rand_r(&seed) % 2)
                break; /* others are careless, and the resource must notice */
            if (options.mode == HF_EXCLUSIVE) /* shared holders write nothing */
                tell("write", op, ", \"taken\": %ld, \"at\": %" PRId64,
                     write_to(resource, key, fence), now_ns());
            nap(rand_r(&seed) % 20000000);
        } while (now_ns() < until);
        tell("end", op, ", \"at\": %" PRId64, now_ns());
        status = hf_hold_release(hold);
        tell("gone", op, ", \"at\": %" PRId64 ", \"how\": \"%s\"", now_ns(),
             hf_status_name(status));
        hf_hold_close(hold);
    }
    redisFree(resource);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    char byte;

    if (argc != 5)
        errx(2, "usage: worker URL RESOURCE-PORT HISTORY LOCKS");
    resource_port = atoi(argv[2]);
    locks = atoi(argv[4]);
    plain = strstr(argv[1], "+quorum:") != NULL;
    history = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (history < 0)
        err(1, "%s", argv[3]);
    while (hf_client_open(argv[1], NULL, &client) != HF_OK)
        nap(50000000); /* not now */
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            errx(1, "no thread");
    while (read(0, &byte, 1) > 0)
        ;
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hf_client_close(client);
    return 0;
}

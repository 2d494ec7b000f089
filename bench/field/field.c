/*
 * The contenders in C, for run.py, which describes the protocol of these programs: Holdfast; a lock
 * by hand over hiredis (SET NX PX, compare and delete, a poll every 10 ms); and a token by LPUSH
 * and BLPOP, which is no lock, but the least that a handoff costs.
 *
 *     field NAME HOST PORT[,PORT…] PAGE
 *
 * Several ports are independent masters, for Holdfast.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WAITERS_MAX 1024
#define LEASE_MS 10000
#define POLL_US 10000

static const char *host, *ports;
static int port; /* the first */

typedef struct {
    const char *name;
    void *(*open)(const char *lock, int64_t lease_ms, bool renew); /* NULL: it cannot renew */
    void (*acquire)(void *lock);
    void (*release)(void *lock);
} contender;

static void *allocate(size_t size) {
    void *memory = calloc(1, size);

    if (!memory)
        errx(1, "out of memory");
    return memory;
}

/* -------------------------------------------------------------- Holdfast */

typedef struct {
    hf_lock *lock;
    hf_hold *hold;
} our_lock;

static void check(hf_status status) {
    if (status != HF_OK)
        errx(1, "%s: %s", hf_status_name(status), hf_error_message());
}

static const char *url_of_masters(void) {
    static char url[600];
    size_t length;

    if (!strchr(ports, ',')) {
        snprintf(url, sizeof url, "redis://%s:%s", host, ports);
        return url;
    }
    length = (size_t)snprintf(url, sizeof url, "redis+quorum://");
    for (const char *at = ports; *at; at += strcspn(at, ","), at += *at == ',')
        length += (size_t)snprintf(url + length, sizeof url - length, "%s%s:%.*s",
                                   at > ports ? "," : "", host, (int)strcspn(at, ","), at);
    snprintf(url + length, sizeof url - length, "?quarantine=0");
    return url;
}

static void *open_ours(const char *name, int64_t lease_ms, bool renew) {
    static hf_client *client;
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = lease_ms, .renew = renew ? HF_ON : HF_OFF};
    our_lock *self = allocate(sizeof *self);

    if (!client)
        check(hf_client_open(url_of_masters(), NULL, &client));
    check(hf_lock_open(client, name, strlen(name), NULL, 0, &options, &self->lock));
    return self;
}

static void acquire_ours(void *lock) {
    our_lock *self = lock;

    check(hf_lock_acquire(self->lock, HF_FOREVER, &self->hold));
}

static void release_ours(void *lock) {
    our_lock *self = lock;

    check(hf_hold_release(self->hold));
    hf_hold_close(self->hold);
}

/* --------------------------------------------------------------- hiredis */

typedef struct {
    redisContext *context; /* one for each lock */
    char name[64], owner[32], lease[24];
} raw_lock;

static const char compare_and_delete[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
static char script[41];

static redisReply *expect(const raw_lock *self, void *reply) {
    redisReply *answer = reply;

    if (!answer || answer->type == REDIS_REPLY_ERROR)
        errx(1, "hiredis: %s", answer ? answer->str : self->context->errstr);
    return answer;
}

static void *open_raw(const char *name, int64_t lease_ms, bool renew) {
    static int opened;
    raw_lock *self = allocate(sizeof *self);
    redisReply *reply;

    if (renew)
        return NULL;
    self->context = redisConnect(host, port);
    if (!self->context || self->context->err)
        errx(1, "hiredis: cannot connect");
    snprintf(self->name, sizeof self->name, "%s", name);
    snprintf(self->owner, sizeof self->owner, "%d:%d", getpid(), opened++);
    snprintf(self->lease, sizeof self->lease, "%" PRId64, lease_ms);
    reply = expect(self, redisCommand(self->context, "SCRIPT LOAD %s", compare_and_delete));
    snprintf(script, sizeof script, "%s", reply->str);
    freeReplyObject(reply);
    return self;
}

static void acquire_raw(void *lock) {
    raw_lock *self = lock;

    for (;;) {
        redisReply *reply = expect(self, redisCommand(self->context, "SET %s %s NX PX %s",
                                                      self->name, self->owner, self->lease));
        bool mine = reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (mine)
            return;
        usleep(POLL_US);
    }
}

static void release_raw(void *lock) {
    raw_lock *self = lock;

    freeReplyObject(expect(
        self, redisCommand(self->context, "EVALSHA %s 1 %s %s", script, self->name, self->owner)));
}

/* ----------------------------------------------------------------- Token */

static void *open_token(const char *name, int64_t lease_ms, bool renew) {
    raw_lock *self = open_raw(name, lease_ms, renew);

    if (!self)
        return NULL;
    redisReply *reply = expect(self, redisCommand(self->context, "SETNX %s:made 1", name));
    if (reply->integer == 1)
        freeReplyObject(expect(self, redisCommand(self->context, "LPUSH %s x", name)));
    freeReplyObject(reply);
    return self;
}

static void acquire_token(void *lock) {
    raw_lock *self = lock;

    freeReplyObject(expect(self, redisCommand(self->context, "BLPOP %s 0", self->name)));
}

static void release_token(void *lock) {
    raw_lock *self = lock;

    freeReplyObject(expect(self, redisCommand(self->context, "LPUSH %s x", self->name)));
}

static const contender contenders[] = {
    {"holdfast", open_ours, acquire_ours, release_ours},
    {"hiredis", open_raw, acquire_raw, release_raw},
    {"token", open_token, acquire_token, release_token},
};
static const contender *it;

/* Open a lock; each contender has keys of its own. */
static void *open_lock(const char *what, int number, int64_t lease_ms, bool renew) {
    char name[64];

    snprintf(name, sizeof name, "%s:%s:%d", it->name, what, number);
    return it->open(name, lease_ms, renew);
}

/* ----------------------------------------------------------------- Tasks */

enum { INSIDE, TURNS, LAST, CHANGES, VIOLATIONS, PAGE }; /* the layout of run.py */
static volatile int64_t *page;

typedef struct {
    int64_t me, begin, end, turns, longest;
    void *lock;
    pthread_t thread;
} waiter;

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Do the work of a holder: nothing, but it notices company. No atomic operations, on purpose. */
static void take_turn(int64_t me) {
    if (page[INSIDE] != 0)
        page[VIOLATIONS]++;
    page[INSIDE] = me;
    int64_t turns = page[TURNS];
    if (page[LAST] != me) {
        page[LAST] = me;
        page[CHANGES]++;
    }
    page[TURNS] = turns + 1;
    if (page[INSIDE] != me)
        page[VIOLATIONS]++;
    page[INSIDE] = 0;
}

static void *wait_in_crowd(void *argument) {
    waiter *self = argument;
    struct timespec begin = {self->begin / 1000000000, self->begin % 1000000000};
    int64_t now;

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL) == EINTR)
        ;
    do {
        int64_t since = now_ns();
        it->acquire(self->lock);
        now = now_ns();
        int64_t waited = (now < self->end ? now : self->end) - since;
        if (waited > self->longest)
            self->longest = waited;
        if (now < self->end) {
            take_turn(self->me);
            self->turns++;
        }
        it->release(self->lock);
    } while (now < self->end);
    return NULL;
}

static void run_crowd(int count, int first, int64_t begin, int64_t end) {
    static void *locks[WAITERS_MAX]; /* connected, and kept for all crowds */
    static waiter crowd[WAITERS_MAX];

    if (count > WAITERS_MAX)
        errx(2, "too many waiters");
    for (int i = 0; i < count; i++) {
        if (!locks[i])
            locks[i] = open_lock("crowd", 0, LEASE_MS, false);
        crowd[i] = (waiter){.me = first + i + 1, .begin = begin, .end = end, .lock = locks[i]};
        errno = pthread_create(&crowd[i].thread, NULL, wait_in_crowd, &crowd[i]);
        if (errno)
            err(1, "thread");
    }
    for (int i = 0; i < count; i++)
        pthread_join(crowd[i].thread, NULL);
    printf("{\"turns\": [");
    for (int i = 0; i < count; i++)
        printf("%s%" PRId64, i ? ", " : "", crowd[i].turns);
    printf("], \"longest\": [");
    for (int i = 0; i < count; i++)
        printf("%s%" PRId64, i ? ", " : "", crowd[i].longest);
    printf("]}\n");
}

static void run_pairs(int count) {
    static void *lock;

    if (!lock)
        lock = open_lock("pairs", getpid(), LEASE_MS, false);
    int64_t since = now_ns();

    for (int i = 0; i < count; i++) {
        it->acquire(lock);
        it->release(lock);
    }
    printf("{\"ns\": %" PRId64 "}\n", (now_ns() - since) / count);
}

static void hold_many(int count, int64_t lease_ms) {
    for (int i = 0; i < count; i++) {
        void *lock = open_lock("held", i, lease_ms, true);
        if (!lock)
            errx(2, "%s renews nothing", it->name);
        it->acquire(lock);
    }
    printf("{\"held\": %d}\n", count);
}

int main(int argc, char **argv) {
    char line[200];
    void *lock = NULL;

    if (argc != 5)
        errx(2, "usage: field NAME HOST PORT[,PORT...] PAGE");
    for (size_t i = 0; i < sizeof contenders / sizeof *contenders; i++)
        if (strcmp(contenders[i].name, argv[1]) == 0)
            it = &contenders[i];
    if (!it)
        errx(2, "no contender is called %s", argv[1]);
    host = argv[2];
    ports = argv[3];
    port = atoi(ports);
    int file = open(argv[4], O_RDWR | O_CLOEXEC);
    void *memory = mmap(NULL, PAGE * sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || memory == MAP_FAILED)
        err(1, "%s", argv[4]);
    page = memory;

    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        int64_t number[4] = {0};
        char what[16] = "";
        sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, what, &number[0],
               &number[1], &number[2], &number[3]);
        if (strcmp(what, "pairs") == 0) {
            run_pairs((int)number[0]);
        } else if (strcmp(what, "take") == 0) {
            if (!lock)
                lock = open_lock("handoff", 0, LEASE_MS, false);
            it->acquire(lock);
            printf("{\"at\": %" PRId64 "}\n", now_ns());
        } else if (strcmp(what, "give") == 0) {
            int64_t at = now_ns();
            it->release(lock);
            printf("{\"at\": %" PRId64 "}\n", at);
        } else if (strcmp(what, "crowd") == 0) {
            run_crowd((int)number[0], (int)number[1], number[2], number[3]);
        } else if (strcmp(what, "hold") == 0) {
            hold_many((int)number[0], number[1]);
        } else {
            errx(2, "what is %s?", line);
        }
    }
    return 0;
}

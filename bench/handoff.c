/*
 * A lock that many wait for, handed from one to the next: Holdfast beside the floor of a handoff
 * through Redis, which is one token that LPUSH passes to a waiter in BLPOP: no lease, no owner, no
 * fence. Same server, same kind of socket, rounds in turn, so that noise hits both alike.
 *
 *     handoff HOST PORT ROUNDS MILLISECONDS
 *
 * measures
 *   one handoff: from the call of the release in one process to the return of the acquire in
 *   another that was waiting;
 *   owner changes a second on one key: of 64 waiters in 4 processes, and of 16, 64 and 256 in one,
 *   each a thread that takes it and passes it on at once. With Holdfast the threads of a process
 *   share a client; with the token each has its own connection.
 *
 * Every round takes MILLISECONDS, and a last one five times as long, which shows how often each
 * waiter had its turn. A ratio is that of neighbouring rounds, and the median of all ratios is
 * printed.
 */
#include "bench.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "bench:handoff"
#define QUEUE "{" NAME "}" NAME ":hf1:q"
#define TOKEN "bench:token"

#define PROCESSES 4
#define THREADS 256      /* in the first process; a quarter of 64 in the others */
#define OTHER_THREADS 16 /* in each of them */
#define SAMPLES 100000
#define ROUNDS_MAX 1000 /* and one more */

enum { TOKENS, LOCKS }; /* what is handed on */

/* The participants of a round: `threads` in each of `processes`. */
static const struct {
    const char *what;
    int processes, threads;
} crowds[] = {{"one handoff", 2, 1},
              {"16 waiters in one process", 1, 16},
              {"64 waiters in one process", 1, 64},
              {"256 waiters in one process", 1, 256},
              {"64 waiters in 4 processes", 4, 16}};
enum { ONE, SIXTEEN, SIXTY_FOUR, ALL, SPREAD, CROWDS };

/* Shared by all processes. */
static struct shared {
    pthread_mutex_t mutex; /* for round, crowd and kind */
    pthread_cond_t changed;
    int round, crowd, kind;
    atomic_bool stop;
    atomic_bool over; /* to and fro: not begun, or the last time */
    atomic_int working;
    atomic_llong taken[PROCESSES][THREADS];
    atomic_llong given_at;
    atomic_int samples;
    double sample[SAMPLES];
} * shared;

static const char *host;
static int port;
static int process; /* the number of this process */
static hf_lock *lock;

typedef struct {
    int number;
    pthread_t thread;
    redisContext *raw; /* each thread's own */
    hf_hold *hold;
} worker;

static redisReply *expect(const redisContext *raw, redisReply *reply, int type) {
    if (!reply || reply->type != type)
        errx(1, "raw: %s", reply && reply->str ? reply->str : raw->errstr);
    return reply;
}

static redisContext *reach(void) {
    redisContext *raw = redisConnect(host, port);

    if (!raw || raw->err)
        errx(1, "raw: %s", raw ? raw->errstr : "out of memory");
    return raw;
}

static long long now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void nap(long long ns) {
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

/* ------------------------------------------------------------ Processes */

static void take(worker *self, int kind) {
    if (kind == LOCKS)
        check(hf_lock_acquire(lock, HF_FOREVER, &self->hold));
    else
        freeReplyObject(
            expect(self->raw, redisCommand(self->raw, "BLPOP " TOKEN " 0"), REDIS_REPLY_ARRAY));
}

static void give(worker *self, int kind) {
    if (kind == LOCKS) {
        check(hf_hold_release(self->hold));
        hf_hold_close(self->hold);
    } else {
        freeReplyObject(
            expect(self->raw, redisCommand(self->raw, "LPUSH " TOKEN " x"), REDIS_REPLY_INTEGER));
    }
}

/* Return whether the other process waits. */
static bool awaited(worker *self, int kind) {
    redisReply *reply;
    bool answer;

    if (kind == LOCKS) {
        reply = expect(self->raw, redisCommand(self->raw, "ZCARD " QUEUE), REDIS_REPLY_INTEGER);
        answer = reply->integer > 0;
    } else {
        reply = expect(self->raw, redisCommand(self->raw, "INFO clients"), REDIS_REPLY_STRING);
        answer = strstr(reply->str, "blocked_clients:1") != NULL;
    }
    freeReplyObject(reply);
    return answer;
}

/* Hand the lock to and fro between two processes, and only when the other one waits. */
static void hand_to_and_fro(worker *self, int kind) {
    bool over = false;

    if (process == 0) {
        take(self, kind);
        atomic_store(&shared->over, false);
    }
    while (atomic_load(&shared->over))
        nap(50000);
    for (bool mine = process == 0; !over; mine = !mine) {
        if (mine) {
            while (!awaited(self, kind))
                nap(50000);
            nap(100000); /* until it sleeps */
            over = process == 0 && atomic_load(&shared->stop);
            atomic_store(&shared->over, over);
            atomic_store(&shared->given_at, now_ns());
            give(self, kind);
        } else {
            take(self, kind);
            long long ns = now_ns() - atomic_load(&shared->given_at);
            int at = atomic_fetch_add(&shared->samples, 1);
            if (at < SAMPLES)
                shared->sample[at] = (double)ns;
            over = process == 1 && atomic_load(&shared->over);
        }
    }
    if (process == 1)
        give(self, kind);
}

static void work(worker *self, int crowd, int kind) {
    if (crowd == ONE) {
        hand_to_and_fro(self, kind);
        return;
    }
    while (!atomic_load(&shared->stop)) {
        take(self, kind);
        atomic_fetch_add(&shared->taken[process][self->number], 1);
        give(self, kind);
    }
}

static void *run_worker(void *argument) {
    worker *self = argument;
    int round = 0;

    self->raw = reach();
    for (;;) {
        pthread_mutex_lock(&shared->mutex);
        while (shared->round == round)
            pthread_cond_wait(&shared->changed, &shared->mutex);
        round = shared->round;
        int crowd = shared->crowd, kind = shared->kind;
        pthread_mutex_unlock(&shared->mutex);
        if (process < crowds[crowd].processes && self->number < crowds[crowd].threads)
            work(self, crowd, kind);
        atomic_fetch_sub(&shared->working, 1);
    }
    return NULL;
}

static void run_process(void) {
    static worker workers[THREADS];
    char url[300];
    hf_client *client;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(url, sizeof url, "redis://%s:%d", host, port);
    check(hf_client_open(url, NULL, &client));
    check(hf_lock_open(client, NAME, strlen(NAME), NULL, 0, NULL, &lock));
    for (int i = 0; i < (process == 0 ? THREADS : OTHER_THREADS); i++) {
        workers[i].number = i;
        errno = pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
        if (errno)
            err(1, "thread");
    }
    for (;;)
        pause();
}

/* ---------------------------------------------------------------- Rounds */

typedef struct {
    double rate[ROUNDS_MAX + 1]; /* owner changes a second */
    double p50[ROUNDS_MAX + 1];  /* ns */
    double p99[ROUNDS_MAX + 1];  /* ns */
    double scripts;              /* run in the last round */
    double changes;              /* in the last round */
    long long each[PROCESSES][THREADS];
} result;

static result results[CROWDS][2];

/** Return the value below which that share of the values is. */
static double quantile(const double *values, int count, double share) {
    double *sorted = malloc((size_t)count * sizeof *sorted);
    double value;

    if (!sorted)
        errx(1, "out of memory");
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    value = sorted[(int)(share * (count - 1) + 0.5)];
    free(sorted);
    return value;
}

static void watch_children(void) {
    int status;

    if (waitpid(-1, &status, WNOHANG) > 0)
        errx(1, "a worker process ended");
}

/* Snapshot each thread's turns; return the sum, and the least in *least. */
static long long count(int crowd, long long each[PROCESSES][THREADS], long long *least) {
    long long sum = 0;

    *least = -1;
    for (int i = 0; i < crowds[crowd].processes; i++)
        for (int j = 0; j < crowds[crowd].threads; j++) {
            each[i][j] = atomic_load(&shared->taken[i][j]);
            sum += each[i][j];
            if (*least < 0 || each[i][j] < *least)
                *least = each[i][j];
        }
    return sum;
}

/** Return how many scripts the clients have run so far. */
static long long scripts_run(redisContext *raw) {
    redisReply *reply = expect(raw, redisCommand(raw, "INFO commandstats"), REDIS_REPLY_STRING);
    long long total = 0;

    for (char *line = reply->str; (line = strstr(line, "cmdstat_eval")); line++)
        total += strtoll(strstr(line, "calls=") + 6, NULL, 10);
    freeReplyObject(reply);
    return total;
}

/* Play a round; at < 0: it does not count. */
static void play(redisContext *raw, int crowd, int kind, int ms, int at) {
    static long long before[PROCESSES][THREADS];
    static long long after[PROCESSES][THREADS];
    result *to = &results[crowd][kind];
    long long least;

    alarm(60 + (unsigned)ms / 1000); /* ends the program if a round hangs */
    freeReplyObject(expect(raw, redisCommand(raw, "DEL " TOKEN), REDIS_REPLY_INTEGER));
    freeReplyObject(expect(raw, redisCommand(raw, "LPUSH " TOKEN " x"), REDIS_REPLY_INTEGER));
    memset(shared->taken, 0, sizeof shared->taken);
    atomic_store(&shared->samples, 0);
    atomic_store(&shared->stop, false);
    atomic_store(&shared->over, true);
    atomic_store(&shared->working, THREADS + (PROCESSES - 1) * OTHER_THREADS);
    pthread_mutex_lock(&shared->mutex);
    shared->round++;
    shared->crowd = crowd;
    shared->kind = kind;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);

    /* The round counts from when all have had the lock twice. */
    if (crowd != ONE)
        do {
            nap(2000000);
            watch_children();
            count(crowd, before, &least);
        } while (least < 2);
    long long scripts = scripts_run(raw), start = now_ns();
    long long sum = count(crowd, before, &least);
    nap(ms * 1000000LL);
    sum = count(crowd, after, &least) - sum;
    long long took = now_ns() - start;
    scripts = scripts_run(raw) - scripts;
    atomic_store(&shared->stop, true);
    while (atomic_load(&shared->working) > 0) {
        nap(1000000);
        watch_children();
    }
    if (at < 0)
        return;
    to->rate[at] = (double)sum * 1e9 / (double)took;
    to->scripts = (double)scripts;
    to->changes = (double)sum;
    for (int i = 0; i < crowds[crowd].processes; i++)
        for (int j = 0; j < crowds[crowd].threads; j++)
            to->each[i][j] = after[i][j] - before[i][j];
    if (crowd == ONE) {
        int samples = atomic_load(&shared->samples);
        if (samples < 1)
            errx(1, "a round of no handoff: give it more time");
        to->p50[at] = quantile(shared->sample, samples < SAMPLES ? samples : SAMPLES, 0.5);
        to->p99[at] = quantile(shared->sample, samples < SAMPLES ? samples : SAMPLES, 0.99);
    }
}

/* Return the median of the ratios of neighbouring rounds. */
static double ratio(const double *a, const double *b, int rounds) {
    double each[ROUNDS_MAX + 1];

    for (int i = 0; i < rounds; i++)
        each[i] = a[i] / b[i];
    return quantile(each, rounds, 0.5);
}

/* Return the ratio of the most to the least acquisitions of a waiter. */
static double spread(int crowd, const result *of) {
    long long most = 0, least = -1;

    for (int i = 0; i < crowds[crowd].processes; i++)
        for (int j = 0; j < crowds[crowd].threads; j++) {
            if (of->each[i][j] > most)
                most = of->each[i][j];
            if (least < 0 || of->each[i][j] < least)
                least = of->each[i][j];
        }
    return least > 0 ? (double)most / (double)least : 0;
}

static void print(int rounds) {
    const result *token = &results[ONE][TOKENS], *mine = &results[ONE][LOCKS];

    printf("%-28s %9s %9s %7s\n", "", "token", "Holdfast", "ratio");
    printf("%-28s %6.0f us %6.0f us %7.2f (wanted: at most 1.5)\n", "one handoff, p50",
           quantile(token->p50, rounds, 0.5) / 1000, quantile(mine->p50, rounds, 0.5) / 1000,
           ratio(mine->p50, token->p50, rounds));
    printf("%-28s %6.0f us %6.0f us %7.2f\n", "one handoff, p99",
           quantile(token->p99, rounds, 0.5) / 1000, quantile(mine->p99, rounds, 0.5) / 1000,
           ratio(mine->p99, token->p99, rounds));
    for (int i = SIXTEEN; i < CROWDS; i++) {
        token = &results[i][TOKENS];
        mine = &results[i][LOCKS];
        printf("%-28s %7.0f/s %7.0f/s %7.2f%s\n", crowds[i].what,
               quantile(token->rate, rounds, 0.5), quantile(mine->rate, rounds, 0.5),
               ratio(mine->rate, token->rate, rounds), i >= ALL ? " (wanted: at least 0.7)" : "");
        printf("%-28s %9.2f %9.2f %7s%s\n", "  most to least of a waiter", spread(i, token),
               spread(i, mine), "", i >= ALL ? " (wanted: at most 1.1)" : "");
        printf("%-28s %9s %9.3f\n", "  scripts a change", "", mine->scripts / mine->changes);
    }
    mine = results[ALL] + LOCKS;
    printf("%-28s %9s %9s %7.2f (wanted: at least 0.8)\n", "256 waiters beside 16", "", "",
           ratio(mine->rate, results[SIXTEEN][LOCKS].rate, rounds));
}

int main(int argc, char **argv) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    struct rlimit files;
    int rounds, ms;

    if (argc != 5)
        errx(2, "usage: handoff HOST PORT ROUNDS MILLISECONDS");
    host = argv[1];
    port = atoi(argv[2]);
    rounds = atoi(argv[3]);
    ms = atoi(argv[4]);
    if (rounds < 1 || rounds > ROUNDS_MAX || ms < 1)
        errx(2, "1 to %d rounds of at least a millisecond", ROUNDS_MAX);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        err(1, "shared memory");
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &mutex);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->changed, &condition);
    for (; process < PROCESSES; process++) {
        pid_t child = fork();
        if (child < 0)
            err(1, "fork");
        if (child == 0)
            run_process();
    }

    redisContext *raw = reach();
    for (int i = -1; i < rounds; i++)
        for (int crowd = 0; crowd < CROWDS; crowd++)
            for (int kind = TOKENS; kind <= LOCKS; kind++)
                play(raw, crowd, kind, ms, i);
    /* One of the waiters is always a turn ahead: in a longer round that matters less. */
    for (int crowd = ONE + 1; crowd < CROWDS; crowd++)
        for (int kind = TOKENS; kind <= LOCKS; kind++)
            play(raw, crowd, kind, 5 * ms, rounds);
    print(rounds);
    redisFree(raw);
    return 0; /* ends the other processes, too */
}

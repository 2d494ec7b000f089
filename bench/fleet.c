/*
 * A fleet: many clients in one process, over real connections, each with locks that it holds and
 * locks that it waits for. Orders arrive in lines, and each is answered with a line of numbers, so
 * that the measuring program (bench/scale) can look at the server meanwhile.
 *
 *     fleet URL
 *
 *     open N              open N more clients
 *     hold COUNT LEASE FROM   each client acquires COUNT uncontended locks
 *     wait COUNT LOCKS FROM   each client waits for COUNT of LOCKS locks, and keeps what it gets,
 *                         with the lease of the last `hold`; at first: 10 s
 *     turns 1 or 0        locks that were or are granted are released at once, and waited for again
 *     name PREFIX         the prefix of the locks' names; at first: fleet:
 *     cancel              end all waits
 *     release             release all holds
 *     tell                only print the numbers
 *     close               close all clients
 */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

/* A lock that a client holds or waits for. */
typedef struct want {
    hf_lock *lock;
    hf_hold *hold;
    bool turns; /* released when granted, and waited for again */
} want;

typedef struct member {
    hf_client *client;
    want *wants;
    int64_t count, capacity;
    int64_t begun; /* of these */
    bool troubled;
} member;

static const char *url;
static member *members;
static int64_t member_count;
static bool turning;
static char prefix[32] = "fleet:";
static int64_t lease = 10000; /* ms */
static int queue;             /* epoll */

/* The numbers that are printed. */
static int64_t held, waiting, turns, lost, troubled, failed, ended;
static char failure[HF_MESSAGE_MAX];

static void fails(const hf_completion *what) {
    failed++;
    snprintf(failure, sizeof failure, "%s", what->error.message);
}

/* ---------------------------------------------------------------- Commands */

static void open_more(int64_t count) {
    hf_client_options options = {.size = sizeof options, .client_name = "fleet", .trouble = HF_ON};
    members = realloc(members, (size_t)(member_count + count) * sizeof *members);
    if (members == NULL)
        err(1, "memory");
    for (int64_t i = 0; i < count; i++) {
        member *one = &members[member_count];
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)member_count};
        *one = (member){0};
        check(hf_client_open(url, &options, &one->client));
        if (epoll_ctl(queue, EPOLL_CTL_ADD, hf_client_fd(one->client), &event) != 0)
            err(1, "epoll_ctl");
        member_count++;
    }
}

static void begin(member *one, int64_t op) {
    waiting++;
    check(hf_lock_acquire_start(one->wants[op].lock, NULL, 0, HF_FOREVER, NULL, op + 1));
}

static void want_one(member *one, const char *name, bool in_turn) {
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = lease, .renew = HF_ON, .reentrant = HF_OFF};
    if (one->count == one->capacity) {
        one->capacity = one->capacity > 0 ? 2 * one->capacity : 1;
        one->wants = realloc(one->wants, (size_t)one->capacity * sizeof *one->wants);
        if (one->wants == NULL)
            err(1, "memory");
    }
    want *mine = &one->wants[one->count];
    *mine = (want){.turns = in_turn};
    check(hf_lock_open(one->client, name, strlen(name), NULL, 0, &options, &mine->lock));
    one->count++;
}

static void begin_more(member *one) {
    while (one->begun < one->count)
        begin(one, one->begun++);
}

static void hold_more(int64_t count, int64_t lease_ms, int64_t from) {
    char name[64];
    lease = lease_ms;
    for (int64_t i = 0; i < member_count; i++)
        for (int64_t j = 0; j < count; j++) {
            snprintf(name, sizeof name, "%sh%" PRId64, prefix, from + i * count + j);
            want_one(&members[i], name, false);
        }
    for (int64_t i = 0; i < member_count; i++)
        begin_more(&members[i]);
}

static void wait_more(int64_t count, int64_t locks, int64_t from) {
    char name[64];
    for (int64_t i = 0; i < member_count; i++)
        for (int64_t j = 0; j < count; j++) {
            snprintf(name, sizeof name, "%sw%" PRId64, prefix, (from + i * count + j) % locks);
            want_one(&members[i], name, true);
        }
    for (int64_t i = 0; i < member_count; i++)
        begin_more(&members[i]);
}

static void cancel_all(void) {
    for (int64_t i = 0; i < member_count; i++)
        for (int64_t j = 0; j < members[i].count; j++)
            if (members[i].wants[j].hold == NULL)
                hf_op_cancel(members[i].client, j + 1);
}

static void give_back(member *one, int64_t op) {
    hf_hold *hold = one->wants[op].hold;
    one->wants[op].hold = NULL;
    check(hf_hold_release_start(hold, op + 1));
    hf_hold_close(hold);
}

static void release_all(bool only_turns) {
    for (int64_t i = 0; i < member_count; i++)
        for (int64_t j = 0; j < members[i].count; j++)
            if (members[i].wants[j].hold != NULL && (members[i].wants[j].turns || !only_turns))
                give_back(&members[i], j);
}

static void take_turns(bool on) {
    turning = on;
    if (on)
        release_all(true);
}

static void close_all(void) {
    for (int64_t i = 0; i < member_count; i++) {
        for (int64_t j = 0; j < members[i].count; j++) {
            hf_hold_close(members[i].wants[j].hold);
            hf_lock_close(members[i].wants[j].lock);
        }
        hf_client_close(members[i].client);
        free(members[i].wants);
    }
    member_count = 0;
}

/* ------------------------------------------------------------- Completions */

static void acquired(member *one, const hf_completion *what) {
    waiting--;
    if (what->status != HF_OK) {
        ended++;
        if (what->status != HF_ECANCELED)
            fails(what);
        return;
    }
    held++;
    want *mine = &one->wants[what->op - 1];
    mine->hold = what->hold;
    if (turning && mine->turns)
        give_back(one, what->op - 1);
}

static void released(member *one, const hf_completion *what) {
    held--;
    if (what->status != HF_OK)
        fails(what);
    if (turning && one->wants[what->op - 1].turns) {
        turns++;
        begin(one, what->op - 1);
    }
}

static void hear(member *one) {
    for (;;) {
        hf_completion what = {.size = sizeof what};
        check(hf_client_next(one->client, &what));
        if (what.kind == HF_KIND_NONE)
            return;
        if (what.kind == HF_KIND_ACQUIRE)
            acquired(one, &what);
        else if (what.kind == HF_KIND_RELEASE)
            released(one, &what);
        else if (what.kind == HF_KIND_LOSS)
            lost++;
        else if (what.kind == HF_KIND_TROUBLE) {
            troubled += (what.status != HF_OK) - one->troubled;
            one->troubled = what.status != HF_OK;
        }
    }
}

/* -------------------------------------------------------------------- Loop */

static void tell(void) {
    printf("{\"clients\": %" PRId64 ", \"held\": %" PRId64 ", \"waiting\": %" PRId64
           ", \"turns\": %" PRId64 ", \"lost\": %" PRId64 ", \"troubled\": %" PRId64
           ", \"failed\": %" PRId64 ", \"ended\": %" PRId64 "}\n",
           member_count, held, waiting, turns, lost, troubled, failed, ended);
    fflush(stdout);
    if (*failure != '\0')
        warnx("%s", failure);
    *failure = '\0';
}

static void obey(const char *line) {
    char word[16];
    int64_t a = 0, b = 0, c = 0;
    if (sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64, word, &a, &b, &c) < 1)
        errx(2, "what is '%s'?", line);
    if (strcmp(word, "open") == 0)
        open_more(a);
    else if (strcmp(word, "hold") == 0)
        hold_more(a, b, c);
    else if (strcmp(word, "wait") == 0 && b > 0)
        wait_more(a, b, c);
    else if (strcmp(word, "turns") == 0)
        take_turns(a != 0);
    else if (strcmp(word, "name") == 0)
        sscanf(line, "name %31s", prefix);
    else if (strcmp(word, "cancel") == 0)
        cancel_all();
    else if (strcmp(word, "release") == 0)
        release_all(false);
    else if (strcmp(word, "close") == 0)
        close_all();
    else if (strcmp(word, "tell") != 0)
        errx(2, "what is '%s'?", line);
    tell();
}

/* Read the orders. False: the input has ended. */
static bool listen_to_orders(void) {
    static char text[4096];
    static size_t length;
    ssize_t more = read(STDIN_FILENO, text + length, sizeof text - 1 - length);
    if (more <= 0)
        return false;
    length += (size_t)more;
    text[length] = '\0';
    for (char *end; (end = strchr(text, '\n')) != NULL;) {
        *end = '\0';
        obey(text);
        length -= (size_t)(end + 1 - text);
        memmove(text, end + 1, length + 1);
    }
    return true;
}

int main(int argc, char **argv) {
    struct epoll_event orders = {.events = EPOLLIN, .data.u64 = UINT64_MAX}, events[64];
    struct rlimit limit;
    if (argc != 2)
        errx(2, "usage: fleet URL");
    url = argv[1];
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    queue = epoll_create1(EPOLL_CLOEXEC);
    if (queue < 0 || epoll_ctl(queue, EPOLL_CTL_ADD, STDIN_FILENO, &orders) != 0)
        err(1, "epoll");
    for (bool goes_on = true; goes_on;) {
        int count = epoll_wait(queue, events, sizeof events / sizeof *events, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == UINT64_MAX)
                goes_on = listen_to_orders();
            else if (events[i].data.u64 < (uint64_t)member_count)
                hear(&members[events[i].data.u64]);
        }
    }
    return 0;
}

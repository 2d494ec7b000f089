/* Several masters: real servers, of which a minority hangs, is dead, refuses or restarts empty at
 * each step. There is one hold at a time, fences grow, and no client waits for a master that does
 * not answer. */
#include "servers.h"

#include <pthread.h>
#include <stdatomic.h>

#define MOST 5
/* A call that waited for a hung master would take this long; no call takes half of it. */
#define PATIENCE_MS 40000

static int ports[MOST];
static pid_t pids[MOST];
static int64_t last_fence;

static void start(int at) { pids[at] = START("--port", number(ports[at]), "--save", ""); }

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(100);
    for (int i = 0; i < MOST; i++) {
        ports[i] = free_port();
        pids[i] = START("--port", number(ports[i]), "--save", "");
    }
    for (int i = 0; i < MOST; i++)
        assert_soon(answers(ports[i]));
    return 0;
}

static int stop_all(void **state) {
    for (int i = 0; i < MOST; i++)
        stop_server(&pids[i]);
    return remove_folder(state);
}

/* Return whether the server is without other clients: one that was stopped may still have to read
 * what they wrote before they closed. */
static bool is_left_alone(int port) {
    return strstr(tell(port, "INFO clients")->str, "connected_clients:1\r") != NULL;
}

static int set_up(void **state) {
    (void)state;
    alarm(100);
    for (int i = 0; i < MOST; i++) {
        assert_soon(is_left_alone(ports[i]));
        tell(ports[i], "FLUSHALL");
    }
    last_fence = 0;
    return 0;
}

/* Return the URL of the first masters. */
static const char *url_of(int masters, const char *more) {
    char *list = text("redis+quorum://");
    for (int i = 0; i < masters; i++)
        list = text("%s%s127.0.0.1:%d", list, i > 0 ? "," : "", ports[i]);
    return text("%s?%s", list, more);
}

/* Open a client with a long time: a short one may end before the masters answer, if the machine
 * pauses. */
static hf_client *open_patient(int masters, const char *more, int64_t ms) {
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = ms, .command_timeout_ms = ms};
    hf_client *client;
    assert_soon(hf_client_open(url_of(masters, more), &options, &client) == HF_OK);
    return client;
}

static hf_client *open_quorum(int masters, const char *more) {
    return open_patient(masters, more, PATIENCE_MS);
}

static hf_client *open_trusted(int masters) { return open_quorum(masters, "quarantine=0"); }

static hf_lock *lock_of(hf_client *client) { return exclusive_lock(client, "stock", 60000); }

/* Acquire the lock in time, with a greater fence than all before. */
static hf_hold *acquire(hf_lock *lock) {
    hf_hold *hold;
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(lock, PATIENCE_MS, &hold), HF_OK);
    assert_true(now_ms() - since < PATIENCE_MS / 2);
    assert_true(hf_hold_fence(hold) > last_fence);
    last_fence = hf_hold_fence(hold);
    return hold;
}

static void release(hf_hold *hold) {
    int64_t since = now_ms();
    assert_status(hf_hold_release(hold), HF_OK);
    assert_true(now_ms() - since < PATIENCE_MS / 2);
    hf_hold_close(hold);
}

static void is_refused(hf_lock *lock) {
    hf_hold *hold;
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_EBUSY);
    assert_true(now_ms() - since < PATIENCE_MS / 2);
}

static bool is_held_at(int at) {
    redisReply *reply = tell(ports[at], "EXISTS stock");
    return reply != NULL && reply->integer == 1;
}

static bool is_held_at_all(int masters) {
    for (int i = 0; i < masters; i++)
        if (!is_held_at(i))
            return false;
    return true;
}

static bool is_free_at_all(int masters) {
    for (int i = 0; i < masters; i++)
        if (is_held_at(i))
            return false;
    return true;
}

static bool has_votes(hf_hold *hold, size_t votes) {
    size_t of;
    return hf_hold_votes(hold, &of) == votes;
}

/* ------------------------------------------------------------------ Faults */

typedef enum { HUNG, DEAD, REFUSES, KINDS } fault;

static void fail_at(int at, fault kind) {
    switch (kind) {
    case HUNG:
        kill(pids[at], SIGSTOP);
        break;
    case DEAD:
        stop_server(&pids[at]);
        break;
    default:
        tell(ports[at], "CONFIG SET min-replicas-to-write 1");
    }
}

static void mend(int at, fault kind) {
    switch (kind) {
    case HUNG:
        kill(pids[at], SIGCONT);
        break;
    case DEAD: /* it restarts empty */
        start(at);
        assert_soon(answers(ports[at]));
        break;
    default:
        tell(ports[at], "CONFIG SET min-replicas-to-write 0");
    }
}

static void fail_all(unsigned mask, fault kind) {
    for (int i = 0; i < MOST; i++)
        if (mask >> i & 1)
            fail_at(i, kind);
}

static void mend_all(unsigned mask, fault kind) {
    for (int i = 0; i < MOST; i++)
        if (mask >> i & 1)
            mend(i, kind);
}

static int bits(unsigned mask) {
    int count = 0;
    for (; mask != 0; mask &= mask - 1)
        count++;
    return count;
}

/* Let these masters fail at a step: before the acquire, while the lock is held, before the release;
 * restore them at the next step. */
static void with_mask(int masters, unsigned mask, fault kind) {
    hf_client *ann = open_trusted(masters), *ben = open_trusted(masters);
    hf_lock *anns = lock_of(ann), *bens = lock_of(ben);
    print_message("mask %x of %d, %s\n", mask, masters,
                  kind == HUNG   ? "hung"
                  : kind == DEAD ? "dead"
                                 : "refuse");
    fail_all(mask, kind);
    hf_hold *hold = acquire(anns);
    is_refused(bens);
    assert_status(hf_hold_renew(hold), HF_OK);
    release(hold);
    hold = acquire(bens);
    mend_all(mask, kind);
    is_refused(anns);
    assert_status(hf_hold_check(hold), HF_OK);
    release(hold);

    assert_soon(is_free_at_all(masters));
    hold = acquire(anns);
    assert_soon(has_votes(hold, (size_t)masters));
    fail_all(mask, kind);
    assert_status(hf_hold_renew(hold), HF_OK);
    is_refused(bens);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    release(hold);
    hold = acquire(bens);
    is_refused(anns);
    release(hold);
    mend_all(mask, kind);
    assert_soon(is_free_at_all(masters));
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_client_close(ann);
    hf_client_close(ben);
}

static void over_masks(int masters, fault kind) {
    for (unsigned mask = 0; mask < 1U << masters; mask++)
        if (bits(mask) <= (masters - 1) / 2)
            with_mask(masters, mask, kind);
}

static void test_any_minority_of_3_may_hang(void **state) {
    (void)state;
    over_masks(3, HUNG);
}

static void test_any_minority_of_3_may_die_and_come_back_empty(void **state) {
    (void)state;
    over_masks(3, DEAD);
}

static void test_any_minority_of_3_may_refuse_writes(void **state) {
    (void)state;
    over_masks(3, REFUSES);
}

static void test_any_minority_of_5_may_hang(void **state) {
    (void)state;
    over_masks(5, HUNG);
}

static void test_any_minority_of_5_may_die_and_come_back_empty(void **state) {
    (void)state;
    over_masks(5, DEAD);
}

/* --------------------------------------------------------------- One by one */

static void test_a_pair_leaves_one_fence_at_all_masters(void **state) {
    hf_client *client = open_trusted(3);
    hf_lock *lock = lock_of(client);
    (void)state;
    for (int n = 0; n < 20; n++) {
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, 3));
        for (int i = 0; i < 3; i++) {
            redisReply *fence = tell(ports[i], "GET {stock}stock:hf1:f");
            assert_true(fence != NULL && fence->type == REDIS_REPLY_STRING);
            assert_true(strtoll(fence->str, NULL, 10) >= hf_hold_fence(hold));
        }
        release(hold);
    }
    assert_soon(is_free_at_all(3));
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_without_a_majority_nobody_holds(void **state) {
    hf_client_options brief = {.size = sizeof brief, .connect_timeout_ms = 300};
    hf_client *client = open_patient(3, "quarantine=0", 300);
    hf_hold *hold;
    (void)state;
    hf_lock *lock = lock_of(client);
    fail_all(6, DEAD);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_ECONNECT);
    assert_message("fewer than a majority of the 3 masters");
    assert_message(text("%d", ports[1]));
    assert_message(text("%d", ports[2]));
    assert_status(hf_lock_acquire(lock, 200, &hold), HF_ECONNECT);
    assert_status(hf_client_open(url_of(3, "quarantine=0"), &brief, &(hf_client *){NULL}),
                  HF_ECONNECT);
    assert_message(" of 3 masters answer");
    mend_all(6, DEAD);
    assert_soon(hf_lock_acquire(lock, 0, &hold) == HF_OK);
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* All masters have just started: with a quarantine none of them is asked. */
static void test_a_master_that_begins_anew_gives_no_vote(void **state) {
    hf_client *client = open_quorum(3, "quarantine=3600");
    hf_lock *lock = lock_of(client);
    hf_hold *hold;
    (void)state;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_ECONNECT);
    assert_message("is in quarantine for another");
    assert_status(hf_lock_acquire(lock, 100, &hold), HF_ECONNECT);
    assert_true(is_free_at_all(3));
    hf_lock_close(lock);
    hf_client_close(client);
}

static bool is_old(int at, int64_t seconds) {
    redisReply *reply = tell(ports[at], "INFO server");
    const char *up = reply != NULL && reply->type == REDIS_REPLY_STRING
                         ? strstr(reply->str, "uptime_in_seconds:")
                         : NULL;
    return up != NULL && atoll(up + strlen("uptime_in_seconds:")) >= seconds;
}

/* Two of three masters restart empty while the lock is held: other clients ask at once, and get
 * nothing until the holder has votes there again. */
static void test_masters_that_come_back_empty_let_nobody_in(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_soon(is_old(i, 8));
    hf_client *ann = open_quorum(3, "quarantine=6"), *ben = open_quorum(3, "quarantine=6");
    hf_lock *anns = exclusive_lock(ann, "stock", 6000), *bens = exclusive_lock(ben, "stock", 6000);
    hf_hold *hold = acquire(anns), *other;
    assert_soon(has_votes(hold, 3));
    for (int at = 1; at < 3; at++) {
        fail_at(at, DEAD);
        mend(at, DEAD);
        for (int n = 0; n < 20; n++) {
            hf_status status = hf_lock_acquire(bens, 0, &other);
            if (hf_hold_state(hold) == HF_STATE_HELD)
                assert_true(status == HF_EBUSY || status == HF_ECONNECT);
        }
        assert_soon(is_held_at(at));
    }
    release(hold);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_client_close(ann);
    hf_client_close(ben);
}

/* Each master is up again, and has the hold, before the next one stops. HOLDFAST_RESTARTS=100 sets
 * the number. */
static void test_planned_restarts_one_at_a_time_lose_nothing(void **state) {
    const char *given = getenv("HOLDFAST_RESTARTS");
    int restarts = given != NULL ? atoi(given) : 9;
    hf_client *client = open_trusted(3), *other = open_trusted(3);
    hf_lock *lock = exclusive_lock(client, "stock", 5000);
    hf_lock *others = exclusive_lock(other, "stock", 5000);
    (void)state;
    hf_hold *hold = acquire(lock), *taken;
    assert_soon(has_votes(hold, 3));
    for (int n = 0; n < restarts; n++) {
        alarm(100);
        tell(ports[n % 3], "SHUTDOWN NOSAVE");
        fail_at(n % 3, DEAD);
        mend(n % 3, DEAD);
        /* If it asked earlier, the other client would leave a vote there for a moment. */
        assert_soon(has_votes(hold, 3) && is_held_at_all(3));
        assert_true(hf_lock_acquire(others, 0, &taken) != HF_OK);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    }
    release(hold);
    hf_lock_close(others);
    hf_client_close(other);
    hf_lock_close(lock);
    hf_client_close(client);
}

typedef struct waiter {
    hf_client *client;
    pthread_t thread;
    int order;
} waiter;

static atomic_int order;

static void *wait_for_it(void *argument) {
    waiter *mine = argument;
    hf_lock *lock = lock_of(mine->client);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, PATIENCE_MS, &hold), HF_OK);
    mine->order = atomic_fetch_add(&order, 1);
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    return NULL;
}

static long long waiters_at(int at) {
    redisReply *reply = tell(ports[at], "ZCARD {stock}stock:hf1:q");
    return reply != NULL && reply->type == REDIS_REPLY_INTEGER ? reply->integer - 1 : -1;
}

static void test_waiters_come_in_order(void **state) {
    hf_client *client = open_trusted(5);
    hf_lock *lock = lock_of(client);
    hf_hold *hold = acquire(lock);
    waiter waiters[4];
    (void)state;
    atomic_store(&order, 0);
    for (int i = 0; i < 4; i++) {
        waiters[i].client = open_trusted(5);
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]), 0);
        assert_soon(waiters_at(0) == i + 1);
    }
    release(hold);
    for (int i = 0; i < 4; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].order, i);
        hf_client_close(waiters[i].client);
    }
    hf_lock_close(lock);
    hf_client_close(client);
}

static int end_at_the_fourth(void *looks) { return ++*(int *)looks == 4; }

static void test_a_wait_for_masters_looks_for_signals(void **state) {
    hf_client *client = open_trusted(3), *other = open_trusted(3);
    hf_lock *lock = lock_of(client), *theirs = lock_of(other);
    hf_hold *hold = acquire(theirs), *none;
    int looks = 0;
    (void)state;
    assert_status(hf_client_set_interrupt(client, end_at_the_fourth, &looks), HF_OK);
    assert_status(hf_lock_acquire(lock, 10000, &none), HF_EINTR);
    assert_int_equal(looks, 4);
    release(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
}

/* The master at which they wait goes away: all line up at the next, and get the lock one after the
 * other. */
static void test_waiters_move_when_their_master_dies(void **state) {
    hf_client *client = open_trusted(3);
    hf_lock *lock = lock_of(client);
    hf_hold *hold = acquire(lock);
    waiter waiters[3];
    (void)state;
    assert_soon(has_votes(hold, 3));
    atomic_store(&order, 0);
    for (int i = 0; i < 3; i++) {
        waiters[i].client = open_trusted(3);
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]), 0);
        assert_soon(waiters_at(0) == i + 1);
    }
    fail_at(0, HUNG);
    assert_soon(waiters_at(1) == 3);
    release(hold);
    for (int i = 0; i < 3; i++)
        pthread_join(waiters[i].thread, NULL);
    mend(0, HUNG);
    for (int i = 0; i < 3; i++)
        hf_client_close(waiters[i].client);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_wait_that_times_out_says_who_has_it(void **state) {
    hf_client *ann = open_trusted(3), *ben = open_trusted(3);
    hf_lock *anns = open_lock(ann, "stock", "the holder", NULL), *bens = lock_of(ben);
    hf_hold *hold = held(anns), *other;
    (void)state;
    /* A waiter that gives up learns the holder, if the master answers in time. */
    assert_soon(hf_lock_acquire(bens, 50, &other) == HF_ETIMEOUT &&
                strstr(hf_error_message(), "at last by 'the holder'") != NULL);
    assert_soon(waiters_at(0) <= 0);
    release(hold);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_client_close(ann);
    hf_client_close(ben);
}

/* --------------------------------------------------------------- Operations */

static hf_completion next(hf_client *client) {
    hf_completion c = {.size = sizeof c};
    assert_soon(hf_client_next(client, &c) == HF_OK && c.kind != HF_KIND_NONE);
    return c;
}

static void test_started_operations_are_told(void **state) {
    hf_client *client = open_trusted(3), *other = open_trusted(3);
    hf_lock *lock = lock_of(client), *others = lock_of(other);
    (void)state;
    assert_true(hf_client_fd(client) >= 0);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    hf_completion c = next(client);
    assert_int_equal(c.kind, HF_KIND_ACQUIRE);
    assert_status(c.status, HF_OK);
    hf_hold *hold = c.hold;
    assert_soon(has_votes(hold, 3)); /* or a waiter may have the missing vote, and no place */
    is_refused(others);
    assert_status(hf_hold_renew_start(hold, 2), HF_OK);
    c = next(client);
    assert_status(c.status, HF_OK);
    assert_int_equal(c.op, 2);
    assert_status(hf_lock_acquire_start(others, NULL, 0, PATIENCE_MS, NULL, 3), HF_OK);
    assert_soon(waiters_at(0) == 1);
    assert_status(hf_op_cancel(other, 3), HF_OK);
    assert_true(hf_client_fd(other) >= 0);
    c = next(other);
    assert_status(c.status, HF_ECANCELED);
    assert_soon(waiters_at(0) <= 0);
    assert_status(hf_hold_release_start(hold, 4), HF_OK);
    c = next(client);
    assert_int_equal(c.kind, HF_KIND_RELEASE);
    assert_status(c.status, HF_OK);
    hf_hold_close(hold);
    hold = acquire(others);
    release(hold);
    hf_lock_close(lock);
    hf_lock_close(others);
    hf_client_close(client);
    hf_client_close(other);
}

static void test_a_hold_nests_extends_and_is_kept(void **state) {
    hf_client *client = open_trusted(3), *other = open_trusted(3);
    hf_lock *lock = open_lock(client, "stock", NULL, OPTIONS(.lease_ms = 60000)),
            *others = lock_of(other);
    hf_hold *hold = acquire(lock), *inner;
    (void)state;
    assert_status(hf_lock_acquire(lock, 0, &inner), HF_OK);
    assert_int_equal(hf_hold_fence(inner), hf_hold_fence(hold));
    release(inner);
    is_refused(others);
    assert_status(hf_hold_extend(hold, 100000, HF_EXTEND_REPLACE), HF_OK);
    assert_true(hf_hold_remaining_ms(hold) > 60000);
    assert_status(hf_hold_extend(hold, 20000, HF_EXTEND_REPLACE), HF_OK);
    assert_true(hf_hold_remaining_ms(hold) <= 20000);
    assert_soon(has_votes(hold, 3));
    assert_status(hf_hold_keep(hold, 60000), HF_OK);
    hf_hold_close(hold);
    is_refused(others);
    assert_soon(is_held_at_all(3));
    hf_lock_close(lock);
    hf_lock_close(others);
    hf_client_close(client);
    hf_client_close(other);
}

static void test_several_locks_are_held_together(void **state) {
    hf_client *client = open_trusted(3);
    hf_lock *locks[] = {exclusive_lock(client, "stock", 60000),
                        exclusive_lock(client, "shelf", 60000)};
    hf_hold *holds[2];
    (void)state;
    assert_status(hf_lock_acquire_all(locks, 2, NULL, 0, PATIENCE_MS, NULL, holds), HF_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hf_hold_state(holds[i]), HF_STATE_HELD);
        release(holds[i]);
        hf_lock_close(locks[i]);
    }
    hf_client_close(client);
}

static void test_a_broken_hold_is_lost_and_joins_nowhere(void **state) {
    hf_client *ann = open_trusted(3), *ben = open_trusted(3);
    hf_lock *anns = exclusive_lock(ann, "stock", 3000), *bens = lock_of(ben);
    hf_lock_info info = {.size = sizeof info};
    (void)state;
    assert_true(hf_client_fd(ann) >= 0);
    hf_hold *hold = acquire(anns);
    assert_soon(has_votes(hold, 3));
    assert_status(hf_lock_inspect(bens, 0, &info, NULL), HF_OK);
    assert_true(info.held);
    assert_status(hf_lock_break(bens, info.fence / 2, 0), HF_ENOTHELD); /* nor is it a vote's */
    assert_status(hf_lock_break(bens, info.fence, 0), HF_OK);
    hf_hold *next_hold = acquire(bens);
    hf_completion c = next(ann);
    assert_int_equal(c.kind, HF_KIND_LOSS);
    assert_int_equal(c.cause, HF_CAUSE_GONE);
    assert_status(hf_hold_release(hold), HF_ELOST);
    hf_hold_close(hold);
    assert_int_equal(hf_hold_state(next_hold), HF_STATE_HELD);
    assert_soon(has_votes(next_hold, 3));
    release(next_hold);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_client_close(ann);
    hf_client_close(ben);
}

static bool is_listed(hf_client *client) {
    hf_lock_info info = {.size = sizeof info};
    hf_locks *locks;
    hf_view *view;
    size_t length, found = 0;
    assert_status(hf_locks_open(client, NULL, 0, NULL, &locks), HF_OK);
    for (;; hf_view_close(view)) {
        assert_status(hf_locks_next(locks, &info, &view), HF_OK);
        if (view == NULL)
            break;
        const char *name = hf_view_name(view, &length);
        found += length == 5 && memcmp(name, "stock", 5) == 0;
    }
    hf_locks_close(locks);
    return found == 1;
}

/* The first master hangs, at which waiters stand and from which locks are listed. */
static void test_looks_and_breaks_wait_for_no_master_that_hangs(void **state) {
    hf_client *ann = open_trusted(3);
    hf_lock *anns = lock_of(ann);
    hf_hold *hold = acquire(anns);
    hf_lock_info info = {.size = sizeof info};
    (void)state;
    assert_soon(has_votes(hold, 3));
    fail_at(0, HUNG);
    int64_t since = now_ms();
    hf_client *ben = open_trusted(3);
    hf_lock *bens = lock_of(ben);
    assert_status(hf_client_ping(ben, NULL), HF_OK);
    assert_status(hf_lock_inspect(bens, 0, &info, NULL), HF_OK);
    assert_true(info.held);
    assert_true(is_listed(ben));
    assert_status(hf_lock_break(bens, info.fence, 0), HF_OK);
    assert_status(hf_lock_inspect(bens, 0, &info, NULL), HF_OK);
    assert_false(info.held);
    assert_status(hf_hold_renew(hold), HF_ELOST);
    assert_true(now_ms() - since < PATIENCE_MS / 2);
    mend(0, HUNG);
    hf_hold_close(hold);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_client_close(ann);
    hf_client_close(ben);
}

static void test_a_hold_without_a_majority_is_lost_in_time(void **state) {
    hf_client *client = open_patient(3, "quarantine=0", 300);
    (void)state;
    assert_true(hf_client_fd(client) >= 0);
    hf_lock *lock = exclusive_lock(client, "stock", 1000);
    hf_hold *hold = acquire(lock);
    fail_all(3, HUNG);
    hf_completion c = next(client);
    assert_int_equal(c.kind, HF_KIND_LOSS);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    mend_all(3, HUNG);
    hf_hold_release(hold);
    hf_hold_close(hold);
    assert_soon(is_free_at_all(3));
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_close_releases_what_is_held(void **state) {
    hf_client *client = open_trusted(3);
    hf_lock *lock = lock_of(client);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, 3));
    hf_client_close(client);
    assert_true(is_free_at_all(3));
    assert_status(hf_hold_release(hold), HF_ECLOSED);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* ----------------------------------------------------------------- Refusals */

static hf_status opened(const char *url) {
    hf_client_options patient = {.size = sizeof patient, .connect_timeout_ms = PATIENCE_MS};
    hf_client *client = NULL;
    hf_status status = hf_client_open(url, &patient, &client);
    if (status == HF_OK)
        hf_client_close(client);
    return status;
}

static bool have_list(int masters, const char *names_before) {
    for (int i = 0; i < MOST; i++) {
        redisReply *reply = tell(ports[i], "GET hf1:members");
        bool found = reply != NULL && reply->type == REDIS_REPLY_STRING;
        if (found != (i < masters) ||
            (found && strncmp(reply->str, names_before, strlen(names_before)) != 0))
            return false;
    }
    return true;
}

/* Such a client would shut the right ones out if it wrote its list on the masters that it reaches
 * before it is refused. */
static void test_a_refused_client_leaves_no_list(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_status(opened(text("redis+quorum://127.0.0.1:%d,127.0.0.2:%d,127.0.0.1:%d", ports[0],
                                  ports[0], ports[1])),
                      HF_EINVAL);
        assert_message("are one server");
    }
    hf_client *client = open_trusted(3);
    hf_lock *lock = lock_of(client);
    release(acquire(lock));
    assert_soon(have_list(3, "1 0 "));
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_wrong_masters_are_refused(void **state) {
    hf_client *client = open_trusted(3);
    hf_lock *lock = lock_of(client);
    (void)state;
    release(acquire(lock));
    assert_soon(have_list(3, "1 0 "));
    hf_lock_close(lock);
    hf_client_close(client);
    assert_status(opened(url_of(5, "quarantine=0")), HF_EINVAL);
    assert_message("belongs to another quorum");
    assert_status(opened(url_of(3, "quarantine=60")), HF_EINVAL);
    assert_true(have_list(3, "1 0 "));
    /* One more master is allowed: that is how a master is replaced. */
    assert_status(opened(url_of(4, "quarantine=0")), HF_OK);
}

/* Waiting does not help: even a wait without a limit ends. */
static void test_a_wait_ends_where_the_masters_refuse_its_client(void **state) {
    hf_client *client = open_patient(3, "quarantine=0", 2000);
    hf_lock *lock = lock_of(client);
    (void)state;
    release(acquire(lock));
    for (int i = 0; i < 3; i++) {
        tell(ports[i], "EVAL "
                       "return(redis.call('set','hf1:members',table.concat({'1','0','a:1,b:2,c:3'},"
                       "string.char(32)))) 0");
        tell(ports[i], "CLIENT KILL TYPE normal");
    }
    assert_status(hf_lock_acquire(lock, HF_FOREVER, NULL), HF_EINVAL);
    assert_message("belongs to another quorum");
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_an_even_number_is_warned_of(void **state) {
    hf_client *client = open_trusted(4);
    (void)state;
    assert_non_null(strstr(hf_client_warning(client), "use an odd number"));
    hf_client_close(client);
}

static void test_what_does_not_work_is_refused(void **state) {
    static const struct {
        hf_lock_options options;
        hf_status status;
        const char *part;
    } rows[] = {
        {{.mode = HF_SHARED}, HF_EUNSUPPORTED, "shared holds and permits"},
        {{.replicas = 1}, HF_EUNSUPPORTED, "replicas"},
        {{.heal = HF_ON}, HF_EUNSUPPORTED, "heal"},
        {{.lease_ms = HF_NEVER}, HF_EUNSUPPORTED, "without an end"},
        {{.lease_ms = 3600001}, HF_EINVAL, "longer than the quarantine"},
    };
    hf_client *client = open_quorum(3, "quarantine=3600&lazy=on");
    hf_lock *lock;
    char token[200];
    size_t length;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        hf_lock_options options = rows[i].options;
        options.size = sizeof options;
        assert_status(hf_lock_open(client, "stock", 5, NULL, 0, &options, &lock), rows[i].status);
        assert_message(rows[i].part);
    }
    hf_client_close(client);
    client = open_trusted(3);
    lock = lock_of(client);
    hf_hold *hold = acquire(lock);
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_EUNSUPPORTED);
    assert_status(hf_lock_adopt(lock, "x", 1, &(hf_hold *){NULL}), HF_EUNSUPPORTED);
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, &(hf_hold *){NULL}), HF_EUNSUPPORTED);
    assert_status(hf_hold_extend(hold, HF_NEVER, HF_EXTEND_REPLACE), HF_EUNSUPPORTED);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    release(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* Return the next notice, skipping losses. */
static hf_completion next_notice(hf_client *client) {
    for (;;) {
        hf_completion c = next(client);
        if (c.kind != HF_KIND_LOSS)
            return c;
    }
}

static void test_trouble_is_told_once_for_each_change(void **state) {
    hf_client_options options = {.size = sizeof options,
                                 .connect_timeout_ms = PATIENCE_MS,
                                 .command_timeout_ms = PATIENCE_MS,
                                 .trouble = HF_ON};
    hf_client *client;
    (void)state;
    assert_status(hf_client_open(url_of(5, "quarantine=0"), &options, &client), HF_OK);
    assert_true(hf_client_fd(client) >= 0);
    hf_lock *lock = exclusive_lock(client, "stock", 6000);
    hf_hold *hold = acquire(lock);
    assert_soon(has_votes(hold, 5));
    fail_at(1, DEAD);
    hf_completion c = next_notice(client);
    assert_int_equal(c.kind, HF_KIND_FAILOVER);
    assert_non_null(strstr(c.error.message, text("%d does not renew", ports[1])));
    assert_int_equal(c.holds, 1);
    fail_at(2, DEAD); /* a further one of the minority: nothing new */
    fail_at(3, DEAD);
    c = next_notice(client);
    assert_int_equal(c.kind, HF_KIND_TROUBLE);
    assert_int_equal(c.status, HF_ECONNECT);
    assert_non_null(strstr(c.error.message, "fewer than a majority"));
    mend_all(14, DEAD);
    hf_hold_release(hold);
    hf_hold_close(hold);
    assert_soon(hf_lock_acquire(lock, 0, &hold) == HF_OK);
    c = next_notice(client);
    assert_int_equal(c.kind, HF_KIND_TROUBLE);
    assert_int_equal(c.status, HF_OK);
    c = next_notice(client);
    assert_int_equal(c.kind, HF_KIND_FAILOVER);
    assert_non_null(strstr(c.error.message, "all 5 masters renew again"));
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

static const hf_finding *about(const hf_finding *found, size_t count, const char *subject) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(found[i].subject, subject) == 0)
            return &found[i];
    fail_msg("nothing about %s", subject);
    return NULL;
}

static void assert_found(hf_client *client, size_t at, const char *subject, int level,
                         const char *part) {
    hf_finding found[HF_FINDINGS_MAX];
    size_t count;
    assert_status(hf_client_survey(client, at, NULL, 0, found, COUNT(found), &count), HF_OK);
    const hf_finding *one = about(found, count, subject);
    if (one->level != level || strstr(one->text, part) == NULL)
        fail_msg("%s: %s", subject, one->text);
    assert_string_equal(one->server, text("127.0.0.1:%d", ports[at]));
}

static void test_a_survey_tells_of_each_master(void **state) {
    hf_client *client = open_trusted(3), *other;
    hf_finding found[HF_FINDINGS_MAX];
    size_t count;
    (void)state;
    assert_found(client, 0, "run", HF_FINDING_GOOD, "up for ");
    assert_found(client, 1, "persistence", HF_FINDING_WARNING, "quarantine=0");
    assert_found(client, 2, "replicas", HF_FINDING_GOOD, "0");
    tell(ports[1], "CONFIG SET appendonly yes");
    assert_found(client, 1, "persistence", HF_FINDING_WARNING, "appendfsync everysec");
    tell(ports[1], "CONFIG SET appendfsync always");
    assert_found(client, 1, "persistence", HF_FINDING_GOOD, "appendfsync always");
    tell(ports[1], "CONFIG SET appendfsync everysec");
    tell(ports[1], "CONFIG SET appendonly no");
    tell(ports[0], "DEL hf1:members");
    assert_found(client, 0, "members", HF_FINDING_NOTE, "not there yet");
    assert_status(hf_client_survey(client, 3, NULL, 0, found, COUNT(found), &count), HF_OK);
    assert_int_equal(count, 0);

    other = open_quorum(3, "quarantine=3600&lazy=on");
    assert_found(other, 0, "run", HF_FINDING_NOTE, "in quarantine");
    assert_found(other, 0, "persistence", HF_FINDING_GOOD, "the quarantine");
    hf_client_close(other);
    other = open_patient(3, "quarantine=3600&lazy=on", 500);
    fail_at(2, HUNG);
    assert_found(other, 2, "reach", HF_FINDING_WARNING, "no answer in time");
    mend(2, HUNG);
    hf_client_close(other);
    tell(ports[2], "SET hf1:members other");
    other = open_quorum(3, "quarantine=0&lazy=on");
    assert_found(other, 2, "members", HF_FINDING_WARNING, "belongs to another quorum");
    hf_client_close(other);
    hf_client_close(client);
}

/* Warnings for clients that rely on forgetful masters, or use one of the masters alone. */
static void test_what_is_dangerous_is_warned_of(void **state) {
    hf_client *client = open_trusted(3), *alone;
    (void)state;
    assert_non_null(strstr(hf_client_warning(client), "no append-only file: 127.0.0.1:"));
    hf_client_close(client);
    for (int i = 0; i < 3; i++)
        tell(ports[i], "CONFIG SET appendonly yes");
    tell(ports[2], "CONFIG SET maxmemory-policy allkeys-lru");
    tell(ports[2], "CONFIG SET maxmemory 1gb");
    client = open_trusted(3);
    assert_null(strstr(hf_client_warning(client), "append-only"));
    assert_non_null(strstr(hf_client_warning(client), text("127.0.0.1:%d evicts", ports[2])));
    hf_client_close(client);
    tell(ports[2], "CONFIG SET maxmemory 0");
    client = open_trusted(3);
    assert_string_equal(hf_client_warning(client), "");
    for (int i = 0; i < 3; i++)
        tell(ports[i], "CONFIG SET appendonly no");
    tell(ports[0], "SET hf1:members other");
    alone = open_at(text("redis://127.0.0.1:%d", ports[0]));
    assert_non_null(strstr(hf_client_warning(alone), "is a master of a quorum"));
    hf_client_close(alone);
    hf_client_close(client);
}

static int64_t left_at(int at) {
    redisReply *left = tell(ports[at], "PTTL stock");
    return left != NULL && left->type == REDIS_REPLY_INTEGER ? left->integer : 0;
}

/* A master that restarts without its data grants the lock to others after the quarantine: by that
 * time each hold that it has forgotten must have ended. */
static void test_no_lease_is_longer_than_the_quarantine(void **state) {
    hf_acquire_options longer = {.size = sizeof longer, .lease_ms = 5001};
    hf_lock *lock;
    hf_hold *hold;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_soon(is_old(i, 7));
    hf_client *client = open_quorum(3, "quarantine=5");
    hf_lock_options given = {.size = sizeof given, .lease_ms = 10000};
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, &given, &lock), HF_EINVAL);
    assert_message("a lease of 10000 ms: it must not be longer than the quarantine");
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    hold = acquire(lock);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 5000);
    release(hold);
    hf_lock_close(lock);
    lock = exclusive_lock(client, "stock", 4000);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &longer, &hold), HF_EINVAL);
    assert_message("a lease of 5001 ms");
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, &longer, 1), HF_EINVAL);
    hold = acquire(lock);
    assert_soon(has_votes(hold, 3));
    assert_status(hf_hold_extend(hold, 4900, 0), HF_EINVAL);
    assert_message("an extension to a lease of");
    assert_status(hf_hold_extend(hold, 5001, HF_EXTEND_REPLACE), HF_EINVAL);
    assert_message("an extension of 5001 ms");
    assert_status(hf_hold_keep(hold, 5001), HF_EINVAL);
    assert_status(hf_hold_keep_at_least(hold, 5001), HF_EINVAL);
    assert_message("a keep of 5001 ms");
    assert_status(hf_hold_extend(hold, 100, 0), HF_OK);
    assert_status(hf_hold_extend(hold, 5000, HF_EXTEND_REPLACE), HF_OK);
    assert_status(hf_hold_renew(hold), HF_OK);
    for (int i = 0; i < 3; i++)
        assert_in_range(left_at(i), 1, 5000);
    release(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    assert_status(opened(url_of(3, "quarantine=5&fence_life=4")), HF_EINVAL);
    assert_message("fence_life of 4000 ms: it must not be shorter than the quarantine");
}

/* One vote has just been renewed, and the others long ago: an extension gives all one end. */
static void test_an_extension_makes_no_vote_outlast_the_hold(void **state) {
    hf_client *client = open_trusted(3);
    hf_lock *lock = lock_of(client);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, 3));
    assert_status(hf_hold_extend(hold, 100000, HF_EXTEND_REPLACE), HF_OK);
    fail_at(1, REFUSES);
    fail_at(2, REFUSES);
    assert_status(hf_hold_extend(hold, 50000, 0), HF_ESERVER);
    mend(1, REFUSES);
    mend(2, REFUSES);
    assert_true(left_at(0) > 140000);
    assert_true(hf_hold_remaining_ms(hold) < 101000);
    assert_status(hf_hold_extend(hold, 20000, 0), HF_OK);
    for (int i = 0; i < 3; i++) {
        assert_soon(left_at(i) > 110000); /* two answers are enough */
        assert_true(left_at(i) <= 150000);
    }
    release(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        TEST(test_a_pair_leaves_one_fence_at_all_masters),
        TEST(test_any_minority_of_3_may_hang),
        TEST(test_any_minority_of_3_may_die_and_come_back_empty),
        TEST(test_any_minority_of_3_may_refuse_writes),
        TEST(test_any_minority_of_5_may_hang),
        TEST(test_any_minority_of_5_may_die_and_come_back_empty),
        TEST(test_without_a_majority_nobody_holds),
        TEST(test_a_master_that_begins_anew_gives_no_vote),
        TEST(test_masters_that_come_back_empty_let_nobody_in),
        TEST(test_planned_restarts_one_at_a_time_lose_nothing),
        TEST(test_waiters_come_in_order),
        TEST(test_waiters_move_when_their_master_dies),
        TEST(test_a_wait_that_times_out_says_who_has_it),
        TEST(test_a_wait_for_masters_looks_for_signals),
        TEST(test_started_operations_are_told),
        TEST(test_a_hold_nests_extends_and_is_kept),
        TEST(test_several_locks_are_held_together),
        TEST(test_a_broken_hold_is_lost_and_joins_nowhere),
        TEST(test_looks_and_breaks_wait_for_no_master_that_hangs),
        TEST(test_a_hold_without_a_majority_is_lost_in_time),
        TEST(test_a_close_releases_what_is_held),
        TEST(test_a_refused_client_leaves_no_list),
        TEST(test_wrong_masters_are_refused),
        TEST(test_a_wait_ends_where_the_masters_refuse_its_client),
        TEST(test_an_even_number_is_warned_of),
        TEST(test_what_does_not_work_is_refused),
        TEST(test_trouble_is_told_once_for_each_change),
        TEST(test_a_survey_tells_of_each_master),
        TEST(test_what_is_dangerous_is_warned_of),
        TEST(test_no_lease_is_longer_than_the_quarantine),
        TEST(test_an_extension_makes_no_vote_outlast_the_hold),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

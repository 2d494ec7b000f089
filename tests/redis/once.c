/* A call that is made once: one caller makes it, and all get its result. Through the public header.
 */
#include "two.h"

#include <pthread.h>
#include <stdatomic.h>

#define STAYS 60000

static hf_lock *lock_of(hf_client *client) { return lend(open_lock(client, "k", NULL, NULL)); }

static hf_hold *begun(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_once_begin(lock, 5000, NULL, NULL, 0, &hold), HF_OK);
    assert_null(hf_hold_result(hold, NULL));
    return hold;
}

static void finish(hf_hold *hold, const char *result) {
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, result, strlen(result), STAYS), HF_OK);
    hf_hold_close(hold);
}

static void assert_result(hf_hold *hold, const char *result) {
    size_t length;
    const char *bytes = hf_hold_result(hold, &length);
    assert_non_null(bytes);
    assert_int_equal(length, strlen(result));
    assert_string_equal(bytes, result);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    hf_hold_close(hold);
}

static void assert_done(hf_lock *lock, const char *result) {
    hf_hold *hold;
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, &hold), HF_EDONE);
    assert_result(hold, result);
}

static int64_t waiting(void) { return NUMBER("ZCOUNT {k}k:hf1:q 0 9007199254740992"); }

/* ------------------------------------------------------------- One by one */

static void test_the_first_does_it_and_later_ones_get_its_result(void **state) {
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    hf_hold *hold = begun(hers), *none = (hf_hold *)&none;
    assert_status(hf_once_begin(his, 0, NULL, NULL, 0, &none), HF_EBUSY);
    assert_null(none);
    assert_status(hf_once_begin(hers, 0, NULL, NULL, 0, &none), HF_EBUSY); /* it does not nest */
    finish(hold, "42");
    assert_done(his, "42");
    assert_done(hers, "42");
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_in_range(NUMBER("PTTL {k}k:hf1:r"), STAYS - 5000, STAYS);
    /* The lock itself is free for its other uses. */
    hf_hold *plain = held(his);
    assert_done(hers, "42");
    give_back(plain, HF_OK);
    TELL("DEL {k}k:hf1:r"); /* as after the end of its time */
    hf_hold *again = begun(his);
    assert_true(hf_hold_fence(again) > 0);
    finish(again, "");
    assert_done(hers, "");
}

static void test_a_call_nests_in_nothing_and_only_its_explicit_owner_nests_in_it(void **state) {
    (void)state;
    hf_lock *hers = lend(open_lock(ann, "k", "ann", NULL)),
            *also_hers = lend(open_lock(ben, "k", "ann", NULL)), *his = lock_of(ben);
    hf_hold *none, *outer = held(hers);
    assert_status(hf_once_begin(hers, 0, NULL, NULL, 0, &none), HF_EBUSY);
    assert_status(hf_once_begin(also_hers, 0, NULL, NULL, 0, &none), HF_EBUSY);
    give_back(outer, HF_OK);
    hf_hold *hold = begun(hers);
    assert_status(hf_once_begin(also_hers, 0, NULL, NULL, 0, &none), HF_EBUSY);
    assert_status(hf_lock_acquire(his, 0, &none), HF_EBUSY);
    hf_hold *inner = held(also_hers);
    assert_int_equal(hf_hold_fence(inner), hf_hold_fence(hold));
    give_back(inner, HF_OK);
    finish(hold, "42");
    assert_done(his, "42");
}

static void test_a_result_may_be_any_bytes_up_to_16_mebibytes(void **state) {
    (void)state;
    hf_lock *lock = lock_of(ann);
    char *bytes = malloc(HF_RESULT_MAX);
    size_t length;
    for (size_t i = 0; i < HF_RESULT_MAX; i++)
        bytes[i] = (char)(i * 7);
    hf_hold *hold = begun(lock), *done;
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, bytes, HF_RESULT_MAX, STAYS), HF_OK);
    hf_hold_close(hold);
    assert_status(hf_once_begin(lock_of(ben), 0, NULL, NULL, 0, &done), HF_EDONE);
    assert_memory_equal(hf_hold_result(done, &length), bytes, HF_RESULT_MAX);
    assert_int_equal(length, HF_RESULT_MAX);
    hf_hold_close(done);
    free(bytes);
}

static void test_what_is_out_of_bounds_is_refused_and_the_hold_stays(void **state) {
    (void)state;
    hf_lock *lock = lock_of(ann);
    hf_hold *hold = begun(lock), *none;
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, NULL, 1, STAYS), HF_EINVAL);
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "x", HF_RESULT_MAX + (size_t)1, STAYS),
                  HF_EINVAL);
    assert_message("at most 16777216");
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "x", 1, 9999), HF_EINVAL);
    assert_message("10 s to 10 years");
    assert_status(hf_once_finish(NULL, HF_ONCE_DONE, "x", 1, STAYS), HF_EINVAL);
    assert_status(hf_once_begin(NULL, 0, NULL, NULL, 0, &none), HF_EINVAL);
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, NULL), HF_EINVAL);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    hf_hold *shared, *mine;
    hf_lock *reader = lend(open_lock(ann, "r", NULL, OPTIONS(.mode = HF_SHARED)));
    assert_status(hf_lock_acquire(reader, 0, &shared), HF_OK);
    assert_status(hf_once_finish(shared, HF_ONCE_DONE, "x", 1, STAYS), HF_EINVAL);
    give_back(shared, HF_OK);
    /* A plain hold may leave a result, too. */
    mine = held(lend(open_lock(ben, "m", NULL, NULL)));
    finish(mine, "left");
    hf_hold *done;
    assert_status(hf_once_begin(lend(open_lock(ann, "m", NULL, NULL)), 0, NULL, NULL, 0, &done),
                  HF_EDONE);
    assert_result(done, "left");
    hf_hold_close(hold);
}

/* --------------------------------------------------------------- Together */

typedef struct caller {
    pthread_t thread;
    hf_lock *lock;
    int64_t took;
    bool did;
} caller;

static atomic_int charges, failures;

static void *call(void *argument) {
    caller *mine = argument;
    hf_hold *hold;
    size_t length;
    int64_t start = now_ms();
    hf_status status = hf_once_begin(mine->lock, 20000, NULL, NULL, 0, &hold);
    mine->took = now_ms() - start;
    if (status == HF_OK) {
        atomic_fetch_add(&charges, 1);
        sleep_ms(100); /* the vendor's time */
        mine->did = true;
        failures += hf_once_finish(hold, HF_ONCE_DONE, "ok", 2, STAYS) != HF_OK;
    } else if (status == HF_EDONE) {
        const char *bytes = hf_hold_result(hold, &length);
        failures += length != 2 || memcmp(bytes, "ok", 2) != 0;
    } else {
        failures++;
    }
    hf_hold_close(hold);
    return NULL;
}

static void test_of_a_hundred_one_does_it_and_nobody_has_a_turn_of_the_lock(void **state) {
    static caller all[100];
    (void)state;
    charges = failures = 0;
    hf_lock *locks[] = {lock_of(ann), lock_of(ben)};
    for (size_t i = 0; i < COUNT(all); i++) {
        all[i] = (caller){.lock = locks[i % 2]};
        assert_int_equal(pthread_create(&all[i].thread, NULL, call, &all[i]), 0);
    }
    int64_t longest = 0;
    for (size_t i = 0; i < COUNT(all); i++) {
        pthread_join(all[i].thread, NULL);
        longest = all[i].took > longest ? all[i].took : longest;
    }
    print_message("the last had it after %lld ms\n", (long long)longest);
    assert_int_equal(failures, 0);
    assert_int_equal(charges, 1);
    assert_int_equal(waiting(), 0);
    assert_true(longest < 2500); /* by a message, not by the re-check */
    hf_stats stats = {.size = sizeof stats}, others = {.size = sizeof others};
    assert_status(hf_client_stats(ann, &stats), HF_OK);
    assert_status(hf_client_stats(ben, &others), HF_OK);
    assert_int_equal(stats.acquired + others.acquired, 1);
    assert_int_equal(stats.answered_done + others.answered_done, 99);
}

static void start(hf_lock *lock, int64_t number) {
    assert_status(hf_once_begin_start(lock, 20000, NULL, NULL, 0, number), HF_OK);
}

static hf_completion next_end(hf_client *client, int64_t number) {
    hf_completion next = next_of(client);
    assert_int_equal(next.kind, HF_KIND_ACQUIRE);
    assert_int_equal(next.op, number);
    return next;
}

static void test_started_ones_get_it_by_their_completions(void **state) {
    (void)state;
    enum { MANY = 250 }; /* more than a request carries */
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    start(hers, 1);
    hf_completion first = next_end(ann, 1);
    assert_status(first.status, HF_OK);
    for (int64_t i = 2; i < MANY; i++)
        start(i % 2 ? hers : his, i);
    assert_soon(waiting() == MANY - 2);
    assert_status(hf_once_finish_start(first.hold, HF_ONCE_DONE, "all", 3, STAYS, 1), HF_OK);
    int told = 0;
    for (int64_t i = 1; i < MANY; i++) {
        hf_completion next = next_of(i % 2 ? ann : ben);
        if (next.kind == HF_KIND_RELEASE) {
            assert_status(next.status, HF_OK);
            continue;
        }
        assert_int_equal(next.kind, HF_KIND_ACQUIRE);
        assert_status(next.status, HF_EDONE);
        assert_result(next.hold, "all");
        told++;
    }
    assert_int_equal(told, MANY - 2);
    hf_hold_close(first.hold);
    assert_int_equal(waiting(), 0);
    start(his, 7); /* at once, without waiting */
    hf_completion late = next_end(ben, 7);
    assert_status(late.status, HF_EDONE);
    assert_result(late.hold, "all");
}

static void test_who_fails_passes_the_turn_on(void **state) {
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    start(hers, 1);
    hf_completion first = next_end(ann, 1);
    start(his, 2);
    assert_soon(waiting() == 1);
    start(hers, 3);
    assert_soon(waiting() == 2);
    give_back(first.hold, HF_OK);
    hf_completion second = next_end(ben, 2);
    assert_status(second.status, HF_OK);
    finish(second.hold, "done");
    hf_completion third = next_end(ann, 3);
    assert_status(third.status, HF_EDONE);
    assert_result(third.hold, "done");
}

/* The lease ends; the result arrives too late, and is not kept. */
static void test_who_is_gone_passes_the_turn_on(void **state) {
    (void)state;
    hf_lock *hers = lend(open_lock(ann, "k", NULL, OPTIONS(.lease_ms = 300, .renew = HF_OFF)));
    hf_lock *his = lock_of(ben);
    hf_hold *lost = begun(hers);
    hf_hold *mine = begun(his);
    assert_true(hf_hold_fence(mine) > hf_hold_fence(lost));
    assert_status(hf_once_finish(lost, HF_ONCE_DONE, "late", 4, STAYS), HF_ELOST);
    hf_hold_close(lost);
    assert_int_equal(NUMBER("EXISTS {k}k:hf1:r"), 0);
    finish(mine, "mine");
    assert_done(hers, "mine");
}

/* A waiter for the lock itself does not ask for a result. */
static void test_those_that_want_the_lock_are_served_in_their_turn(void **state) {
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    hf_hold *hold = begun(hers);
    start(his, 1);
    assert_soon(waiting() == 1);
    assert_status(hf_lock_acquire_start(his, NULL, 0, 20000, NULL, 2), HF_OK);
    assert_soon(waiting() == 2);
    start(his, 3);
    assert_soon(waiting() == 3);
    finish(hold, "r");
    bool seen[4] = {false};
    for (int i = 0; i < 3; i++) {
        hf_completion next = next_of(ben);
        assert_int_equal(next.kind, HF_KIND_ACQUIRE);
        assert_in_range(next.op, 1, 3);
        seen[next.op] = true;
        assert_status(next.status, next.op == 2 ? HF_OK : HF_EDONE);
        if (next.op == 2)
            give_back(next.hold, HF_OK);
        else
            assert_result(next.hold, "r");
    }
    assert_true(seen[1] && seen[2] && seen[3]);
}

static void test_a_cancelled_or_timed_out_asker_leaves_nothing_behind(void **state) {
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    hf_hold *hold = begun(hers), *none;
    assert_status(hf_once_begin(his, 50, NULL, NULL, 0, &none), HF_ETIMEOUT);
    assert_null(none);
    start(his, 1);
    assert_soon(waiting() == 1);
    assert_status(hf_op_cancel(ben, 1), HF_OK);
    assert_status(next_end(ben, 1).status, HF_ECANCELED);
    assert_int_equal(waiting(), 0);
    finish(hold, "r");
    assert_done(his, "r");
}

/* The message is for one id of a client; that acquire may no longer wait. */
static void test_the_other_askers_of_a_client_hear_of_it_too(void **state) {
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    hf_hold *hold = begun(hers);
    for (int64_t i = 1; i <= 20; i++)
        start(his, i);
    assert_soon(waiting() == 20);
    int64_t since = now_ms();
    /* The first of them leaves while the result is on its way. */
    assert_status(hf_op_cancel(ben, 1), HF_OK);
    finish(hold, "r");
    for (int i = 1; i <= 20; i++) {
        hf_completion next = next_of(ben);
        if (next.status == HF_EDONE)
            assert_result(next.hold, "r");
        else
            assert_status(next.status, HF_ECANCELED);
    }
    assert_in_range(now_ms() - since, 0, 2500);
    assert_int_equal(NUMBER("EXISTS k"), 0);
}

static void test_a_full_server_is_told_and_the_next_does_it(void **state) {
    (void)state;
    hf_lock *lock = lock_of(ann);
    hf_hold *hold = begun(lock);
    TELL("ACL SETUSER default -hset");
    hf_status status = hf_once_finish(hold, HF_ONCE_DONE, "r", 1, STAYS);
    TELL("ACL SETUSER default +hset");
    hf_hold_close(hold);
    assert_status(status, HF_ESERVER);
    assert_soon(NUMBER("EXISTS k") == 0);
    assert_int_equal(NUMBER("EXISTS {k}k:hf1:r"), 0);
    finish(begun(lock), "again");
    assert_done(lock, "again");
}

static void test_a_closed_client_ends_its_askers(void **state) {
    (void)state;
    hf_client *brief = open_client();
    hf_lock *lock = open_lock(brief, "k", NULL, NULL);
    hf_hold *hold = begun(lock_of(ann));
    start(lock, 1);
    assert_soon(waiting() == 1);
    hf_client_close(brief);
    assert_soon(waiting() == 0);
    finish(hold, "r");
    hf_hold *none;
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, &none), HF_ECLOSED);
    hf_lock_close(lock);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ------------------------------------------------------------ At most once */

static const hf_acquire_options MOST = {.size = sizeof MOST, .flags = HF_ACQUIRE_AT_MOST_ONCE};

static hf_status most(hf_lock *lock, int64_t timeout_ms, const char *print, hf_hold **hold) {
    return hf_once_begin(lock, timeout_ms, &MOST, print, print != NULL ? HF_PRINT_LENGTH : 0, hold);
}

/* Begin a call. */
static hf_hold *called(hf_lock *lock, const char *note) {
    hf_hold *hold;
    assert_status(most(lock, 5000, NULL, &hold), HF_OK);
    assert_status(hf_once_mark(hold, HF_NEVER, note, strlen(note)), HF_OK);
    return hold;
}

static hf_once_info info_of(hf_hold *hold) {
    hf_once_info info = {.size = sizeof info};
    assert_status(hf_once_outcome(hold, &info), HF_OK);
    return info;
}

/* Return the record that a caller that does not wait gets. */
static hf_once_info told(hf_lock *lock, hf_status status) {
    hf_hold *hold;
    assert_status(most(lock, 0, NULL, &hold), status);
    hf_once_info info = info_of(hold);
    info.owner = info.note = NULL; /* they belong to the handle */
    hf_hold_close(hold);
    return info;
}

static hf_once_info looked(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_once_look(lock, &hold), HF_OK);
    hf_once_info info = info_of(hold);
    info.owner = info.note = NULL;
    hf_hold_close(hold);
    return info;
}

static void test_at_most_once_nobody_calls_again_after_a_caller_that_is_lost(void **state) {
    (void)state;
    hf_lock *hers = lend(open_lock(ann, "k", "ann", OPTIONS(.lease_ms = 60000))),
            *his = lock_of(ben);
    assert_int_equal(looked(his).state, HF_ONCE_NONE);
    hf_hold *hold = called(hers, "order 7"), *none;
    int64_t fence = hf_hold_fence(hold);
    assert_int_equal(looked(his).state, HF_ONCE_RUNNING);
    assert_status(most(his, 0, NULL, &none), HF_EBUSY);
    assert_int_equal(NUMBER("PTTL {k}k:hf1:r"), -1);
    hf_hold_renew(hold);
    assert_int_equal(looked(his).state, HF_ONCE_RUNNING); /* the mark outlives a renewal */
    TELL("DEL k");                                        /* as when its lease ends */
    assert_status(most(his, 20000, NULL, &none), HF_EOUTCOME);
    assert_message("settle it");
    hf_once_info info = info_of(none);
    assert_int_equal(info.state, HF_ONCE_UNKNOWN);
    assert_true(info.fence == fence && info.at_most_once && !info.printed);
    assert_int_equal(info.ttl_ms, HF_NEVER);
    assert_in_range(info.since_ms, 1700000000000, 4000000000000);
    assert_int_equal(info.owner_len, 3);
    assert_memory_equal(info.owner, "ann", 3);
    assert_int_equal(info.note_len, 7);
    assert_memory_equal(info.note, "order 7", 7);
    assert_null(hf_hold_result(none, NULL));
    hf_hold_close(none);
    /* A result that was paid for is kept nevertheless. */
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "paid", 4, STAYS), HF_OK);
    hf_hold_close(hold);
    hf_hold *done;
    assert_status(most(his, 0, NULL, &done), HF_EDONE);
    assert_result(done, "paid");
}

static void test_an_outcome_is_settled_by_hand(void **state) {
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lend(open_lock(ben, "k", "ben", NULL));
    hf_hold *hold = called(hers, ""), *done;
    int64_t fence = hf_hold_fence(hold);
    assert_status(hf_once_settle(his, HF_ONCE_RETRY, fence, 0, NULL, 0, 0, NULL, 0), HF_EBUSY);
    assert_message("takes force");
    assert_status(hf_once_finish(hold, HF_ONCE_UNKNOWN, "ReadTimeout", 11, 0), HF_OK);
    assert_int_equal(told(his, HF_EOUTCOME).state, HF_ONCE_UNKNOWN);
    assert_status(hf_once_settle(his, HF_ONCE_DONE, fence + 1, 0, "x", 1, STAYS, NULL, 0),
                  HF_ENOTHELD);
    assert_status(hf_once_settle(his, HF_ONCE_DONE, fence, 0, "by hand", 7, STAYS, "seen", 4),
                  HF_OK);
    assert_status(hf_once_settle(his, HF_ONCE_DONE, fence, 0, "other", 5, STAYS, NULL, 0),
                  HF_ESETTLED);
    assert_status(hf_once_settle(his, HF_ONCE_RETRY, fence, 0, NULL, 0, 0, NULL, 0), HF_ESETTLED);
    assert_status(most(hers, 0, NULL, &done), HF_EDONE);
    hf_once_info info = info_of(done);
    assert_memory_equal(info.owner, "ben", 3);
    assert_memory_equal(info.note, "seen", 4);
    assert_int_equal(info.result_len, 7);
    assert_result(done, "by hand");
    assert_status(
        hf_once_settle(his, HF_ONCE_FAILED, fence, HF_SETTLE_FORCE, "no", 2, STAYS, NULL, 0),
        HF_OK);
    assert_status(most(hers, 0, NULL, &done), HF_EFAILED);
    assert_result(done, "no");
    assert_status(hf_once_settle(his, HF_ONCE_NONE, fence, 0, NULL, 0, 0, NULL, 0), HF_OK);
    assert_int_equal(looked(hers).state, HF_ONCE_NONE);
    hf_hold_close(hold);
    /* A late result after each kind of settlement. */
    static const struct {
        int32_t state;
        hf_status late;
    } cases[] = {{HF_ONCE_DONE, HF_ESETTLED}, {HF_ONCE_NONE, HF_ESETTLED}, {HF_ONCE_RETRY, HF_OK}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        hold = called(hers, "");
        fence = hf_hold_fence(hold);
        TELL("DEL k");
        int64_t ttl_ms = cases[i].state == HF_ONCE_DONE ? STAYS : 0;
        assert_status(hf_once_settle(his, cases[i].state, fence, 0, NULL, 0, ttl_ms, NULL, 0),
                      HF_OK);
        assert_status(hf_once_finish(hold, HF_ONCE_DONE, "late", 4, STAYS), cases[i].late);
        assert_status(hf_once_settle(his, HF_ONCE_NONE, fence, 0, NULL, 0, 0, NULL, 0),
                      cases[i].state == HF_ONCE_NONE ? HF_ENOTHELD : HF_OK);
        hf_hold_close(hold);
    }
    /* After a retry, when the next caller has begun. */
    hold = called(hers, "");
    fence = hf_hold_fence(hold);
    TELL("DEL k");
    assert_status(hf_once_settle(his, HF_ONCE_RETRY, fence, 0, NULL, 0, 0, NULL, 0), HF_OK);
    hf_hold *next = called(his, "");
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "late", 4, STAYS), HF_ESETTLED);
    assert_status(hf_once_finish(next, HF_ONCE_DONE, "next", 4, STAYS), HF_OK);
    assert_status(most(hers, 0, NULL, &done), HF_EDONE);
    assert_result(done, "next");
    hf_hold_close(hold);
    hf_hold_close(next);
}

static void test_those_that_wait_are_told_of_every_end(void **state) {
    static const struct {
        int32_t state;
        hf_status told;
    } cases[] = {{HF_ONCE_DONE, HF_EDONE},
                 {HF_ONCE_FAILED, HF_EFAILED},
                 {HF_ONCE_UNKNOWN, HF_EOUTCOME},
                 {HF_ONCE_RETRY, HF_OK}};
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    for (size_t i = 0; i < COUNT(cases); i++) {
        TELL("FLUSHALL");
        hf_hold *hold = called(hers, "");
        for (int64_t op = 1; op <= 3; op++)
            assert_status(hf_once_begin_start(his, 20000, &MOST, NULL, 0, op), HF_OK);
        assert_soon(waiting() == 3);
        int64_t ttl_ms =
            cases[i].state == HF_ONCE_DONE || cases[i].state == HF_ONCE_FAILED ? STAYS : 0;
        assert_status(hf_once_finish(hold, cases[i].state, "x", 1, ttl_ms), HF_OK);
        hf_hold_close(hold);
        for (int j = 0; j < 3; j++) {
            hf_completion next = next_of(ben);
            assert_status(next.status, cases[i].told);
            if (next.status == HF_OK) { /* the turn for which the others wait */
                assert_status(hf_once_mark(next.hold, HF_NEVER, NULL, 0), HF_OK);
                assert_status(hf_once_finish(next.hold, HF_ONCE_RETRY, NULL, 0, 0), HF_OK);
            }
            hf_hold_close(next.hold);
        }
    }
}

static void test_other_arguments_and_the_other_mode_are_refused(void **state) {
    static const char one[HF_PRINT_LENGTH] = "one", two[HF_PRINT_LENGTH] = "two";
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    hf_hold *hold, *none;
    assert_status(hf_once_begin(hers, 0, &MOST, one, 5, &hold), HF_EINVAL);
    assert_message("32 bytes");
    assert_status(most(hers, 0, one, &hold), HF_OK);
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "1", 1, STAYS), HF_EINVAL);
    assert_message("hf_once_mark");
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 0), HF_OK);
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 0), HF_EINVAL);
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "1", 1, STAYS), HF_OK);
    hf_hold_close(hold);
    assert_status(most(his, 0, two, &none), HF_EMISMATCH);
    assert_message("other arguments");
    assert_int_equal(info_of(none).state, HF_ONCE_DONE);
    hf_hold_close(none);
    assert_status(most(his, 0, one, &none), HF_EDONE);
    hf_hold_close(none);
    assert_status(most(his, 0, NULL, &none), HF_EDONE);
    hf_hold_close(none);
    assert_status(hf_once_begin(his, 0, NULL, NULL, 0, &none), HF_EMISMATCH);
    assert_message("all callers of a name must agree");
    hf_hold_close(none);
    hf_hold *plain = begun(lend(open_lock(ann, "p", NULL, NULL)));
    assert_status(hf_once_mark(plain, HF_NEVER, NULL, 0), HF_EINVAL);
    assert_message("HF_ACQUIRE_AT_MOST_ONCE");
    give_back(plain, HF_OK);
}

static void test_no_call_begins_without_its_hold_or_its_answer(void **state) {
    (void)state;
    hf_lock *hers = lock_of(ann), *his = lock_of(ben);
    hf_hold *hold, *none;
    assert_status(most(hers, 0, NULL, &hold), HF_OK);
    TELL("DEL k");
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 0), HF_ELOST);
    assert_int_equal(NUMBER("EXISTS {k}k:hf1:r"), 0);
    hf_hold_close(hold);
    /* Another caller was faster. */
    assert_status(most(hers, 0, NULL, &hold), HF_OK);
    TELL("DEL k");
    hf_hold *other = called(his, "");
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 0), HF_ELOST);
    assert_status(hf_once_finish(other, HF_ONCE_DONE, "his", 3, STAYS), HF_OK);
    hf_hold_close(hold);
    hf_hold_close(other);
    TELL("FLUSHALL");
    /* The server cannot write the mark: the call is not made, and nothing is left. */
    assert_status(most(hers, 0, NULL, &hold), HF_OK);
    TELL("CONFIG SET maxmemory 1000");
    hf_status status = hf_once_mark(hold, HF_NEVER, NULL, 0);
    TELL("CONFIG SET maxmemory 0");
    assert_status(status, HF_ESERVER);
    assert_int_equal(NUMBER("EXISTS {k}k:hf1:r k"), 0);
    hf_hold_close(hold);
    assert_status(most(hers, 0, NULL, &hold), HF_OK);
    assert_status(hf_once_mark(hold, 9999, NULL, 0), HF_EINVAL);
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 1), HF_EINVAL);
    assert_status(hf_once_mark(hold, HF_NEVER, "x", HF_NOTE_MAX + 1), HF_EINVAL);
    assert_status(hf_once_mark(hold, 20000, "x", 1), HF_OK);
    assert_int_equal(NUMBER("PTTL {k}k:hf1:r"), -1);
    hf_hold_release(hold);
    assert_int_equal(told(his, HF_EOUTCOME).state, HF_ONCE_UNKNOWN);
    assert_in_range(NUMBER("PTTL {k}k:hf1:r"), 15000, 20000);
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 0), HF_EINVAL);
    hf_hold_close(hold);
    assert_status(hf_lock_acquire_as(hers, NULL, 0, 0, &MOST, &none), HF_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_does_it_and_later_ones_get_its_result),
        TEST(test_a_call_nests_in_nothing_and_only_its_explicit_owner_nests_in_it),
        TEST(test_a_result_may_be_any_bytes_up_to_16_mebibytes),
        TEST(test_what_is_out_of_bounds_is_refused_and_the_hold_stays),
        TEST(test_of_a_hundred_one_does_it_and_nobody_has_a_turn_of_the_lock),
        TEST(test_started_ones_get_it_by_their_completions),
        TEST(test_who_fails_passes_the_turn_on),
        TEST(test_who_is_gone_passes_the_turn_on),
        TEST(test_those_that_want_the_lock_are_served_in_their_turn),
        TEST(test_a_cancelled_or_timed_out_asker_leaves_nothing_behind),
        TEST(test_the_other_askers_of_a_client_hear_of_it_too),
        TEST(test_a_full_server_is_told_and_the_next_does_it),
        TEST(test_a_closed_client_ends_its_askers),
        TEST(test_at_most_once_nobody_calls_again_after_a_caller_that_is_lost),
        TEST(test_an_outcome_is_settled_by_hand),
        TEST(test_those_that_wait_are_told_of_every_end),
        TEST(test_other_arguments_and_the_other_mode_are_refused),
        TEST(test_no_call_begins_without_its_hold_or_its_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

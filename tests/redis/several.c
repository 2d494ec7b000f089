/* Several locks at once: all or nothing, in one order, and losing one is losing all. */
#include "../server.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NAMES = 3 };
static const char *const names[NAMES] = {"a", "b", "c"};

static hf_client *ann, *ben;
static hf_lock *hers[NAMES], *his[NAMES]; /* not renewed, with a lease of a minute */
static hf_hold *holds[NAMES];

static int set_up(void **state) {
    (void)state;
    start_afresh();
    ann = open_client();
    ben = open_client();
    for (int i = 0; i < NAMES; i++) {
        hers[i] = lease_lock(ann, names[i], 60000, HF_OFF);
        his[i] = lease_lock(ben, names[i], 60000, HF_OFF);
    }
    return 0;
}

static void close_holds(void) {
    for (int i = 0; i < NAMES; i++) {
        hf_hold_close(holds[i]);
        holds[i] = NULL;
    }
}

static int tear_down(void **state) {
    (void)state;
    close_holds();
    for (int i = 0; i < NAMES; i++) {
        hf_lock_close(hers[i]);
        hf_lock_close(his[i]);
    }
    hf_client_close(ann);
    hf_client_close(ben);
    return 0;
}

static void acquire_all(hf_lock *const *locks) {
    assert_status(hf_lock_acquire_all(locks, NAMES, NULL, 0, 10000, NULL, holds), HF_OK);
}

static bool is_free(const char *name) { return NUMBER("EXISTS %s", name) == 0; }

static void assert_all_free(void) {
    for (int i = 0; i < NAMES; i++)
        assert_true(is_free(names[i]));
}

static void assert_all_lost(int cause) {
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(hf_hold_state(holds[i]), HF_STATE_LOST);
        assert_int_equal(hf_hold_cause(holds[i]), cause);
        assert_int_equal(hf_hold_remaining_ms(holds[i]), 0);
    }
}

static void break_one(int which) {
    assert_status(hf_lock_break(his[which], hf_hold_fence(holds[which]), 0), HF_OK);
}

/* ------------------------------------------------------------- The tests */

static void test_all_are_held_each_with_its_own_fence(void **state) {
    (void)state;
    hf_lock *mixed[NAMES] = {hers[2], hers[0], hers[1]};
    assert_status(hf_lock_acquire_all(mixed, NAMES, NULL, 0, 0, NULL, holds), HF_OK);
    const char *const order[NAMES] = {"c", "a", "b"};
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(STORED(order[i]).fence, hf_hold_fence(holds[i]));
        assert_int_equal(hf_hold_state(holds[i]), HF_STATE_HELD);
    }
    assert_true(hf_hold_fence(holds[1]) < hf_hold_fence(holds[2])); /* a, b, c */
    assert_true(hf_hold_fence(holds[2]) < hf_hold_fence(holds[0]));
    for (int i = 0; i < NAMES; i++)
        assert_status(hf_hold_release(holds[i]), HF_OK);
    assert_all_free();
}

static void test_one_that_is_busy_leaves_nothing(void **state) {
    (void)state;
    hf_hold *busy = held(his[1]);
    assert_status(hf_lock_acquire_all(hers, NAMES, NULL, 0, 0, NULL, holds), HF_EBUSY);
    assert_message("'b'");
    assert_int_equal(hf_error_last()->lock, 1);
    assert_status(hf_lock_acquire_all(hers, NAMES, NULL, 0, 50, NULL, holds), HF_ETIMEOUT);
    assert_message("'b'");
    for (int i = 0; i < NAMES; i++)
        assert_null(holds[i]);
    assert_true(is_free("a") && is_free("c"));
    give_back(busy, HF_OK);
    acquire_all(hers);
}

static void test_bad_input_is_refused_and_nothing_taken(void **state) {
    (void)state;
    hf_lock *twice[] = {hers[0], hers[1], hers[0]}, *strangers[] = {hers[0], his[1]};
    hf_lock *none[] = {hers[0], NULL};
    memset(holds, 0xa5, sizeof holds);
    assert_status(hf_lock_acquire_all(twice, 3, NULL, 0, 0, NULL, holds), HF_EINVAL);
    assert_message("'a' is given twice");
    for (int i = 0; i < NAMES; i++)
        assert_null(holds[i]);
    assert_status(hf_lock_acquire_all(strangers, 2, NULL, 0, 0, NULL, holds), HF_EINVAL);
    assert_status(hf_lock_acquire_all(none, 2, NULL, 0, 0, NULL, holds), HF_EINVAL);
    assert_status(hf_lock_acquire_all(hers, 0, NULL, 0, 0, NULL, holds), HF_EINVAL);
    assert_status(hf_lock_acquire_all(hers, HF_JOIN_MAX + 1, NULL, 0, 0, NULL, holds), HF_EINVAL);
    assert_status(hf_lock_acquire_all(NULL, 2, NULL, 0, 0, NULL, holds), HF_EINVAL);
    assert_status(hf_lock_acquire_all(hers, 2, NULL, 0, 0, NULL, NULL), HF_EINVAL);
    assert_status(hf_lock_acquire_all(hers, 2, NULL, 0, -2, NULL, holds), HF_EINVAL);
    assert_all_free();
}

static void test_losing_one_is_losing_all(void **state) {
    (void)state;
    assert_true(hf_client_fd(ann) >= 0);
    acquire_all(hers);
    break_one(1);
    assert_status(hf_hold_check(holds[0]), HF_OK); /* no client knows of the loss yet */
    assert_status(hf_hold_check(holds[1]), HF_ELOST);
    assert_all_lost(HF_CAUSE_GONE);
    bool told[NAMES] = {false};
    for (int i = 0; i < NAMES; i++) {
        hf_completion next = next_of(ann);
        assert_int_equal(next.kind, HF_KIND_LOSS);
        assert_int_equal(next.cause, HF_CAUSE_GONE);
        for (int at = 0; at < NAMES; at++)
            told[at] = told[at] || hf_hold_number(holds[at]) == next.hold_number;
    }
    assert_true(told[0] && told[1] && told[2]);
    assert_soon(is_free("a") && is_free("c")); /* released without a call */
    assert_status(hf_hold_renew(holds[0]), HF_ELOST);
    assert_status(hf_hold_release(holds[2]), HF_ELOST);
}

static void test_one_whose_lease_ends_ends_all_without_a_call(void **state) {
    (void)state;
    hf_lock *mixed[NAMES] = {hers[0], lease_lock(ann, "b", 200, HF_OFF), hers[2]};
    acquire_all(mixed);
    assert_true(hf_hold_remaining_ms(holds[0]) <= 200);
    assert_soon(hf_hold_state(holds[2]) == HF_STATE_LOST);
    assert_all_lost(HF_CAUSE_EXPIRED);
    assert_soon(is_free("a") && is_free("c")); /* the program does not read completions */
    hf_lock_close(mixed[1]);
}

static void test_a_release_that_finds_a_lease_over_loses_the_others(void **state) {
    (void)state;
    hf_lock *mixed[NAMES] = {lease_lock(ann, "a", 100, HF_OFF), hers[1], hers[2]};
    acquire_all(mixed);
    assert_soon(hf_hold_state(holds[0]) == HF_STATE_LOST);
    assert_status(hf_hold_release(holds[0]), HF_ELOST);
    assert_int_equal(hf_hold_state(holds[1]), HF_STATE_LOST);
    assert_status(hf_hold_release(holds[2]), HF_ELOST);
    assert_soon(is_free("b") && is_free("c"));
    hf_lock_close(mixed[0]);
}

static void test_a_release_that_finds_it_gone_loses_the_others(void **state) {
    (void)state;
    for (int started = 0; started < 2; started++) {
        assert_true(hf_client_fd(ann) >= 0);
        acquire_all(hers);
        break_one(1);
        if (started) {
            assert_status(hf_hold_release_start(holds[1], 7), HF_OK);
            assert_int_equal(next_of(ann).kind, HF_KIND_LOSS); /* the two losses, then its own */
            assert_int_equal(next_of(ann).kind, HF_KIND_LOSS);
            assert_status(next_of(ann).status, HF_ELOST);
        } else {
            assert_status(hf_hold_release(holds[1]), HF_ELOST);
            assert_int_equal(next_of(ann).cause, HF_CAUSE_GONE);
            assert_int_equal(next_of(ann).cause, HF_CAUSE_GONE);
        }
        assert_int_equal(hf_hold_state(holds[0]), HF_STATE_LOST);
        assert_int_equal(hf_hold_state(holds[2]), HF_STATE_LOST);
        assert_soon(is_free("a") && is_free("c"));
        close_holds();
    }
}

static void test_the_cause_is_that_of_the_one_that_ends_all(void **state) {
    (void)state;
    hf_lock *mixed[NAMES] = {lease_lock(ann, "a", 60000, HF_ON), lease_lock(ann, "b", 100, HF_OFF),
                             hers[2]};
    acquire_all(mixed);
    assert_soon(hf_hold_state(holds[0]) == HF_STATE_LOST);
    assert_int_equal(hf_hold_cause(holds[0]), HF_CAUSE_EXPIRED); /* the server was never away */
    assert_soon(is_free("a"));
    assert_all_lost(HF_CAUSE_EXPIRED);
    hf_lock_close(mixed[0]);
    hf_lock_close(mixed[1]);
}

static void test_one_released_before_leaves_the_others_together(void **state) {
    (void)state;
    acquire_all(hers);
    assert_status(hf_hold_release(holds[0]), HF_OK);
    assert_status(hf_hold_check(holds[1]), HF_OK);
    assert_status(hf_hold_check(holds[2]), HF_OK);
    break_one(2);
    assert_status(hf_hold_check(holds[2]), HF_ELOST);
    assert_int_equal(hf_hold_state(holds[0]), HF_STATE_RELEASED);
    assert_int_equal(hf_hold_state(holds[1]), HF_STATE_LOST);
}

static void test_one_closed_or_kept_leaves_the_others_to_go_on(void **state) {
    (void)state;
    acquire_all(hers);
    assert_status(hf_hold_keep(holds[0], 50), HF_OK);
    hf_hold_close(holds[1]);
    holds[1] = NULL;
    assert_soon(is_free("a"));
    assert_int_equal(hf_hold_state(holds[2]), HF_STATE_HELD);
    assert_status(hf_hold_release(holds[2]), HF_OK);
    assert_false(is_free("b")); /* until the lease ends */
}

static void test_max_hold_of_one_ends_all(void **state) {
    (void)state;
    hf_lock *mixed[NAMES] = {
        hers[0], hers[1],
        open_lock(ann, "c", NULL, OPTIONS(.lease_ms = 1000, .renew = HF_ON, .max_hold_ms = 1200))};
    acquire_all(mixed);
    assert_soon(hf_hold_state(holds[0]) == HF_STATE_LOST);
    assert_all_lost(HF_CAUSE_EXPIRED);
    assert_soon(is_free("a") && is_free("b"));
    hf_lock_close(mixed[2]);
}

typedef struct call {
    pthread_t thread;
    hf_lock *const *locks;
    hf_hold *got[NAMES];
    hf_status status;
} call;

static void *run_call(void *argument) {
    call *mine = argument;
    mine->status = hf_lock_acquire_all(mine->locks, NAMES, NULL, 0, 20000, NULL, mine->got);
    return NULL;
}

static void test_leases_that_end_while_the_last_is_awaited_are_taken_again(void **state) {
    (void)state;
    hf_lock *brief[NAMES] = {lease_lock(ann, "a", 100, HF_OFF), lease_lock(ann, "b", 100, HF_OFF),
                             hers[2]};
    hf_hold *busy = held(his[2]);
    call first = {.locks = brief};
    pthread_create(&first.thread, NULL, run_call, &first);
    assert_soon(!is_free("b"));
    assert_soon(is_free("a") && is_free("b")); /* the leases have ended, and c is still awaited */
    assert_status(hf_hold_release(busy), HF_OK);
    pthread_join(first.thread, NULL);
    assert_status(first.status, HF_OK);
    assert_true(first.got[0] != NULL && hf_hold_fence(first.got[0]) > hf_hold_fence(busy));
    for (int i = 0; i < NAMES; i++)
        hf_hold_close(first.got[i]);
    hf_hold_close(busy);
    hf_lock_close(brief[0]);
    hf_lock_close(brief[1]);
}

static void test_leases_that_always_end_too_soon_time_out_and_leave_nothing(void **state) {
    (void)state;
    hf_lock *brief[NAMES] = {lease_lock(ann, "a", 50, HF_OFF), hers[1], hers[2]};
    hf_hold *busy = held(his[2]);
    assert_status(hf_lock_acquire_all(brief, NAMES, NULL, 0, 300, NULL, holds), HF_ETIMEOUT);
    give_back(busy, HF_OK);
    assert_true(is_free("b") && is_free("c"));
    hf_lock_close(brief[0]);
}

static void test_holds_left_with_the_client_are_released_there(void **state) {
    (void)state;
    hf_acquire_options kept_there = {.size = sizeof kept_there, .flags = HF_ACQUIRE_KEEP};
    const hf_acquire_options *each[NAMES] = {&kept_there, &kept_there, &kept_there};
    hf_hold *busy = held(his[2]);
    assert_status(hf_lock_acquire_all(hers, NAMES, NULL, 0, 0, each, holds), HF_EBUSY);
    assert_status(hf_lock_release(hers[0]), HF_ENOTHELD);
    give_back(busy, HF_OK);
    assert_status(hf_lock_acquire_all(hers, NAMES, NULL, 0, 0, each, holds), HF_OK);
    for (int i = 0; i < NAMES; i++)
        assert_status(hf_lock_release(hers[i]), HF_OK);
    assert_all_free();
}

static void test_a_closed_client_releases_all(void **state) {
    (void)state;
    hf_hold *none[NAMES];
    acquire_all(hers);
    hf_client_close(ann);
    ann = NULL;
    assert_all_free();
    assert_int_equal(hf_hold_state(holds[0]), HF_STATE_RELEASED);
    assert_status(hf_lock_acquire_all(hers, NAMES, NULL, 0, 0, NULL, none), HF_ECLOSED);
}

/* -------------------------------------------------------- Opposite orders */

enum { THREADS = 12, TURNS = 25 };
static atomic_int inside[NAMES], wrong;

static void *take_turns(void *argument) {
    int which = *(int *)argument;
    hf_lock *const *from = which % 2 == 0 ? hers : his;
    hf_lock *mine[NAMES];
    hf_hold *got[NAMES];
    for (int i = 0; i < NAMES; i++) /* each possible order */
        mine[i] = from[which % 4 < 2 ? (which + i) % NAMES : (which + NAMES - i) % NAMES];
    for (int turn = 0; turn < TURNS; turn++) {
        size_t count = 2 + (size_t)(turn % 2);
        if (hf_lock_acquire_all(mine, count, NULL, 0, 20000, NULL, got) != HF_OK) {
            atomic_fetch_add(&wrong, 1);
            return NULL;
        }
        for (size_t i = 0; i < count; i++)
            for (int at = 0; at < NAMES; at++)
                if (mine[i] == hers[at] || mine[i] == his[at])
                    atomic_fetch_add(&wrong, atomic_fetch_add(&inside[at], 1) != 0);
        for (size_t i = 0; i < count; i++)
            for (int at = 0; at < NAMES; at++)
                if (mine[i] == hers[at] || mine[i] == his[at])
                    atomic_fetch_sub(&inside[at], 1);
        for (size_t i = 0; i < count; i++) {
            atomic_fetch_add(&wrong, hf_hold_release(got[i]) != HF_OK);
            hf_hold_close(got[i]);
        }
    }
    return NULL;
}

static void test_threads_with_opposite_orders_do_not_deadlock(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, take_turns, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_all_free();
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_all_are_held_each_with_its_own_fence),
        TEST(test_one_that_is_busy_leaves_nothing),
        TEST(test_bad_input_is_refused_and_nothing_taken),
        TEST(test_losing_one_is_losing_all),
        TEST(test_one_whose_lease_ends_ends_all_without_a_call),
        TEST(test_a_release_that_finds_a_lease_over_loses_the_others),
        TEST(test_a_release_that_finds_it_gone_loses_the_others),
        TEST(test_the_cause_is_that_of_the_one_that_ends_all),
        TEST(test_one_released_before_leaves_the_others_together),
        TEST(test_one_closed_or_kept_leaves_the_others_to_go_on),
        TEST(test_max_hold_of_one_ends_all),
        TEST(test_leases_that_end_while_the_last_is_awaited_are_taken_again),
        TEST(test_leases_that_always_end_too_soon_time_out_and_leave_nothing),
        TEST(test_holds_left_with_the_client_are_released_there),
        TEST(test_a_closed_client_releases_all),
        TEST(test_threads_with_opposite_orders_do_not_deadlock),
    };
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

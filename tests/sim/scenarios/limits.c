/* A limit that is stored with a lock counts from the instant at which it is stored, for all
 * acquires and waiters, and ends no hold. */
#include "both.h"

static int set_up(void **state) { return begin_both(state, 2000); }
static int tear_down(void **state) { return end_both(state); }

/* Open the shared lock; permits 0: without a number. */
static hf_lock *pool(hf_client *of, int64_t permits, int64_t weight) {
    return open_lock(of, "k", NULL,
                     OPTIONS(.lease_ms = 60000, .renew = HF_OFF, .mode = HF_SHARED,
                             .reentrant = HF_OFF, .permits = permits, .weight = weight));
}

/* Store a limit; return the one before. */
static int64_t store(hf_client *by, int64_t permits) {
    int64_t was;
    hf_lock *lock = pool(by, 0, 0);
    assert_status(hf_lock_limit(lock, permits, 0, &was, NULL), HF_OK);
    hf_lock_close(lock);
    return was;
}

static void assert_busy(hf_lock *lock) {
    hf_hold *none;
    assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
}

static void assert_told(hf_status status, const char *message, const char *first,
                        const char *second) {
    assert_status(status, HF_ELIMIT);
    assert_non_null(strstr(message, first));
    assert_non_null(strstr(message, second));
}

static void assert_refused(hf_lock *lock, int64_t timeout_ms, const char *first,
                           const char *second) {
    hf_hold *none;
    hf_status status = hf_lock_acquire(lock, timeout_ms, &none);
    assert_told(status, hf_error_message(), first, second);
}

/* ------------------------------------------------ While the lock is held */

static void test_a_limit_below_what_is_held_ends_no_hold(void **state) {
    (void)state;
    store(other, 3);
    hf_lock *mine = pool(client, 0, 2), *theirs = pool(other, 3, 0), *next = pool(other, 0, 0);
    hf_hold *two = held(mine), *one = held(theirs);
    assert_int_equal(store(other, 1), 3);
    assert_status(hf_hold_renew(two), HF_OK);
    assert_status(hf_hold_check(one), HF_OK);
    assert_busy(next);
    assert_refused(theirs, 0, "has 1 permits", "gives 3");
    give_back(two, HF_OK);
    assert_busy(next); /* the remaining hold takes all permits */
    give_back(one, HF_OK);
    give_back(held(next), HF_OK);
    assert_refused(mine, 0, "has 1 permits", "takes 2");
    hf_lock_close(mine);
    hf_lock_close(theirs);
    hf_lock_close(next);
}

/* ------------------------------------------------ While others wait */

typedef struct crowd {
    hf_lock *holder, *heavy, *light;
    hf_hold *hold; /* takes 3 of 4 permits */
} crowd;

/* Begin a heavy waiter without a number, and behind it a light one, which would fit. */
static crowd line_up(void) {
    store(other, 4);
    crowd c = {pool(other, 4, 3), pool(client, 0, 3), pool(client, 0, 0), NULL};
    c.hold = held(c.holder);
    assert_status(hf_lock_acquire_start(c.heavy, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    assert_status(hf_lock_acquire_start(c.light, NULL, 0, 60000, NULL, 2), HF_OK);
    assert_soon(queued("k") == 2);
    return c;
}

static void disperse(crowd *c) {
    assert_soon(queued("k") == 0);
    assert_stays_free("k", 0);
    hf_lock_close(c->holder);
    hf_lock_close(c->heavy);
    hf_lock_close(c->light);
}

static void test_a_limit_that_rises_lets_the_heavy_first_in(void **state) {
    (void)state;
    crowd c = line_up();
    store(other, 6);
    hf_completion heavy = completion_within(client, 1000);
    assert_int_equal(heavy.op, 1);
    assert_status(heavy.status, HF_OK);
    assert_int_equal(queued("k"), 1);
    give_back(heavy.hold, HF_OK);
    hf_completion light = completion_within(client, 1000);
    assert_status(light.status, HF_OK);
    give_back(light.hold, HF_OK);
    give_back(c.hold, HF_OK);
    disperse(&c);
}

static void test_a_limit_below_a_waiters_weight_is_told_to_it_alone(void **state) {
    (void)state;
    crowd c = line_up();
    store(other, 2);
    hf_completion heavy = completion_within(client, 1000);
    assert_int_equal(heavy.op, 1);
    assert_told(heavy.status, heavy.error.message, "has 2 permits", "takes 3");
    assert_soon(queued("k") == 1);
    give_back(c.hold, HF_OK);
    hf_completion light = completion_within(client, 1000);
    assert_int_equal(light.op, 2);
    assert_status(light.status, HF_OK);
    give_back(light.hold, HF_OK);
    disperse(&c);
}

/* They wait behind an exclusive hold, by a number that is no longer valid when the hold is
 * released. */
static void test_a_limit_that_changes_while_all_wait_lets_none_in_by_the_old_one(void **state) {
    (void)state;
    hf_lock *writer = lease_lock(other, "k", 60000, HF_OFF), *two = pool(client, 2, 0),
            *three = pool(client, 3, 0);
    store(other, 2);
    hf_hold *hold = held(writer);
    assert_status(hf_lock_acquire_start(two, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    /* The message that the number has changed is lost. */
    sim_way(SERVER, HERE, false);
    TELL("HSET {k}k:hf1:f l %s", "0000000003000000000000");
    sim_way(SERVER, HERE, true);
    give_back(hold, HF_OK);
    hf_completion done = completion_within(client, 4000);
    assert_told(done.status, done.error.message, "has 3 permits", "gives 2");
    give_back(held(three), HF_OK);
    assert_stays_free("k", 0);
    hf_lock_close(writer);
    hf_lock_close(two);
    hf_lock_close(three);
}

/* The hold has the form of a single hold, whose release does not read F. */
static void test_a_limit_outlasts_a_release_that_hands_the_lock_on(void **state) {
    (void)state;
    hf_lock *writer = lease_lock(other, "k", 60000, HF_OFF),
            *next = lease_lock(client, "k", 60000, HF_OFF), *wrong = pool(other, 9, 0);
    hf_hold *hold = held(writer);
    assert_status(hf_lock_acquire_start(next, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    store(client, 2);
    give_back(hold, HF_OK);
    hf_completion done = completion_within(client, 1000);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    assert_refused(wrong, 0, "has 2 permits", "gives 9");
    assert_int_equal(store(other, 0), 2);
    hf_lock_close(writer);
    hf_lock_close(next);
    hf_lock_close(wrong);
}

/* No message arrives: the holder's permit is free, and the first waiter asks by an old number. */
static void test_a_limit_that_changes_unheard_is_followed_by_a_recheck(void **state) {
    (void)state;
    crowd c = line_up();
    TELL("CLIENT KILL TYPE pubsub");
    store(other, 5);
    give_back(c.hold, HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_completion done = completion_within(client, 4000);
        assert_status(done.status, HF_OK);
        give_back(done.hold, HF_OK);
    }
    disperse(&c);
}

/* ----------------------------------------------------------- Lost answers */

static void test_a_limit_whose_answer_is_lost_is_in_force(void **state) {
    (void)state;
    hf_lock *wrong = pool(other, 9, 0), *right = pool(client, 2, 0);
    store(client, 0); /* the server knows the script */
    proxy_next(way, LOSE_REPLY, hf_script_limit.sha1);
    assert_int_equal(store(client, 2), 0); /* the limit that the first copy found */
    assert_int_equal(atomic_load(&way->mishaps), 1);
    assert_refused(wrong, 1000, "has 2 permits", "gives 9");
    assert_int_equal(queued("k"), 0);
    assert_stays_free("k", 0);
    give_back(held(right), HF_OK);
    hf_lock_close(wrong);
    hf_lock_close(right);
}

static void test_a_copy_of_a_limit_stores_nothing_over_a_later_one(void **state) {
    (void)state;
    store(client, 0);
    proxy_next(way, LATE_REQUEST, hf_script_limit.sha1);
    assert_int_equal(store(client, 5), 0);
    assert_int_equal(store(other, 7), 5);
    proxy_deliver(way);
    sleep_ms(100);
    assert_int_equal(store(other, 0), 7);
}

/* The server refuses all requests while the client buries the id; then the copy is delivered. */
static void test_a_limit_that_was_given_up_is_not_stored_minutes_later(void **state) {
    (void)state;
    hf_lock *lock = pool(client, 0, 0);
    store(client, 0);
    proxy_next(way, LATE_REQUEST, hf_script_limit.sha1);
    servers_refuse(0, SIM_SCRIPTS, "ERR something is wrong", -1);
    assert_status(hf_lock_limit(lock, 5, 0, NULL, NULL), HF_EUNKNOWN);
    sleep_ms(40000);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    sleep_ms(1000);
    store(other, 7);
    proxy_deliver(way);
    sleep_ms(100);
    assert_int_equal(store(other, 0), 7);
    hf_lock_close(lock);
}

static void test_a_refused_acquire_whose_answer_was_lost_leaves_nothing(void **state) {
    (void)state;
    hf_lock *wrong = pool(client, 9, 0);
    store(other, 2);
    give_back(held(pool(client, 2, 0)), HF_OK);
    proxy_next(way, LOSE_REPLY, hf_script_acquire.sha1);
    assert_refused(wrong, 1000, "has 2 permits", "gives 9");
    assert_int_equal(queued("k"), 0);
    store(other, 9);
    assert_stays_free("k", 0);
    hf_lock_close(wrong);
}

static void test_of_several_none_stays_if_one_says_another_number(void **state) {
    (void)state;
    hf_lock *locks[] = {lease_lock(client, "j", 60000, HF_OFF), pool(client, 9, 0)};
    hf_hold *holds[2];
    store(other, 2);
    hf_status status = hf_lock_acquire_all(locks, 2, NULL, 0, 1000, NULL, holds);
    assert_told(status, hf_error_message(), "has 2 permits", "gives 9");
    assert_stays_free("j", 0);
    assert_int_equal(queued("k"), 0);
    assert_stays_free("k", 0);
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
}

/* ------------------------------------------------------------------ Gates */

static hf_lock *gate(int64_t permits, int64_t ms) {
    return open_lock(client, "k", NULL,
                     OPTIONS(.lease_ms = ms, .renew = HF_OFF, .mode = HF_SHARED,
                             .reentrant = HF_OFF, .permits = permits));
}

static void test_a_gate_lets_none_pass_by_another_rate(void **state) {
    (void)state;
    hf_lock *right = gate(1, 5000), *brief = gate(1, 1000), *none = gate(0, 1000);
    assert_status(hf_lock_limit(right, 1, 5000, NULL, NULL), HF_OK);
    assert_refused(brief, 0, "lets pass 1 in 5000 ms", "gives 1 in 1000 ms");
    assert_refused(none, 0, "lets pass 1 in 5000 ms", "in 1000 ms");
    hf_hold *pass = held(right);
    assert_busy(right);
    sleep_ms(5001);
    hf_hold_close(pass);
    give_back(held(right), HF_OK);
    hf_lock_close(right);
    hf_lock_close(brief);
    hf_lock_close(none);
}

/* --------------------------------------------------------------- Restarts */

static void test_a_limit_outlives_a_restart_and_no_empty_one(void **state) {
    (void)state;
    hf_lock *wrong = pool(client, 9, 0), *learns = pool(client, 0, 0), *right = pool(client, 2, 0);
    store(client, 2);
    servers_restart(0, true, 300 * SIM_MS);
    assert_refused(wrong, 1000, "has 2 permits", "gives 9");
    give_back(held(learns), HF_OK);
    servers_restart(0, false, 300 * SIM_MS);
    hf_hold *one, *two;
    assert_status(hf_lock_acquire(right, 1000, &one), HF_OK);
    assert_status(hf_lock_acquire(learns, 1000, &two), HF_OK);
    assert_busy(learns); /* the client has learnt the number */
    give_back(one, HF_OK);
    give_back(two, HF_OK);
    give_back(held(wrong), HF_OK); /* its acquire is no longer refused */
    assert_int_equal(store(client, 9), 0);
    assert_refused(right, 1000, "has 9 permits", "gives 2");
    hf_lock_close(wrong);
    hf_lock_close(learns);
    hf_lock_close(right);
}

static void *limit_to_five(void *lock) {
    return (void *)(intptr_t)hf_lock_limit(lock, 5, 0, NULL, NULL);
}

/* H265: the second copy is lost after the close. */
static void test_a_limit_whose_client_is_closed_is_not_stored_minutes_later(void **state) {
    pthread_t thread;
    void *status;
    (void)state;
    hf_client *leaving = open_with(url_of(way), 5000, 5000);
    hf_lock *lock = pool(leaving, 0, 0);
    store(client, 0); /* the server knows the script */
    proxy_next(way, LATE_REQUEST, hf_script_limit.sha1);
    atomic_store(&way->delay_ms, 300);
    assert_int_equal(pthread_create(&thread, NULL, limit_to_five, lock), 0);
    sleep_ms(100);
    proxy_next(way, LOSE_REQUEST, hf_script_limit.sha1);
    hf_client_close(leaving);
    pthread_join(thread, &status);
    assert_int_equal(atomic_load(&way->mishaps), 2);
    atomic_store(&way->delay_ms, 0);
    assert_int_equal((intptr_t)status, HF_EUNKNOWN);
    store(other, 7);
    proxy_deliver(way);
    sleep_ms(100);
    assert_int_equal(store(other, 0), 7);
    hf_lock_close(lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_limit_below_what_is_held_ends_no_hold),
        TEST(test_a_limit_that_rises_lets_the_heavy_first_in),
        TEST(test_a_limit_below_a_waiters_weight_is_told_to_it_alone),
        TEST(test_a_limit_that_changes_while_all_wait_lets_none_in_by_the_old_one),
        TEST(test_a_limit_outlasts_a_release_that_hands_the_lock_on),
        TEST(test_a_limit_that_changes_unheard_is_followed_by_a_recheck),
        TEST(test_a_limit_whose_answer_is_lost_is_in_force),
        TEST(test_a_copy_of_a_limit_stores_nothing_over_a_later_one),
        TEST(test_a_limit_that_was_given_up_is_not_stored_minutes_later),
        TEST(test_a_limit_whose_client_is_closed_is_not_stored_minutes_later),
        TEST(test_a_refused_acquire_whose_answer_was_lost_leaves_nothing),
        TEST(test_of_several_none_stays_if_one_says_another_number),
        TEST(test_a_gate_lets_none_pass_by_another_rate),
        TEST(test_a_limit_outlives_a_restart_and_no_empty_one),
    };
    return RUN_TESTS(tests, count, words);
}

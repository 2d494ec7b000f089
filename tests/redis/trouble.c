/* Connections that break and servers that refuse: every operation is carried out once. */
#include "../network.h"

static proxy *way;       /* with mishaps */
static hf_client *alice; /* through it */
static hf_client *bob;   /* past it */
static hf_lock *mine, *theirs;

static int set_up(void **state) {
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = 1000};
    (void)state;
    start_afresh();
    way = proxy_start();
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), &options, &alice), HF_OK);
    bob = open_client();
    mine = open_lock(alice, "stock", "ann", OPTIONS(.lease_ms = 60000));
    theirs = open_lock(bob, "stock", "ben", OPTIONS(.lease_ms = 60000));
    /* So that each call below is one request. */
    hf_hold *hold;
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_status(hf_hold_release(hold), HF_OK);
    assert_status(hf_lock_inspect(theirs, 0, &info, NULL), HF_OK);
    assert_status(hf_lock_break(theirs, 1, 0), HF_OK);
    hf_hold_close(hold);
    TELL("FLUSHALL");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_lock_close(mine);
    hf_lock_close(theirs);
    hf_client_close(alice);
    hf_client_close(bob);
    proxy_stop(way);
    return 0;
}

static void suffer(mishap next) { atomic_store(&way->next, next); }
static int suffered(void) { return atomic_exchange(&way->mishaps, 0); }

static hf_hold *acquired(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    return hold;
}

static void release(hf_hold *hold) {
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
}

static int64_t holds(void) { return STORED("stock").holds; }

static size_t dead_ids(void) { return TELL("KEYS {stock}stock:*:hf1:d")->elements; }

/* --------------------------------------------------------- Lost, then retried */

static void test_an_acquire_whose_answer_is_lost_is_one_hold(void **state) {
    (void)state;
    suffer(LOSE_REPLY);
    hf_hold *hold = acquired(mine);
    assert_int_equal(suffered(), 1);
    assert_int_equal(holds(), 1);
    assert_in_range(hf_hold_remaining_ms(hold), 55000, 60000);
    assert_status(hf_hold_check(hold), HF_OK);
    /* A copy of the acquire may still be on its way: the id is buried. */
    assert_int_equal(dead_ids(), 0);
    release(hold);
    assert_int_equal(dead_ids(), 1);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
}

static void test_an_acquire_that_was_answered_at_once_is_not_buried(void **state) {
    (void)state;
    release(acquired(mine));
    assert_int_equal(dead_ids(), 0);
}

static void test_an_acquire_that_never_arrived_is_one_hold(void **state) {
    (void)state;
    suffer(LOSE_REQUEST);
    hf_hold *hold = acquired(mine);
    assert_int_equal(suffered(), 1);
    assert_int_equal(holds(), 1);
    release(hold);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
}

static void test_a_nested_acquire_whose_answer_is_lost_is_one_hold_more(void **state) {
    (void)state;
    hf_hold *outer = acquired(mine);
    suffer(LOSE_REPLY);
    hf_hold *inner = acquired(mine);
    assert_int_equal(suffered(), 1);
    assert_int_equal(holds(), 2);
    assert_true(hf_hold_fence(outer) == hf_hold_fence(inner));
    release(inner);
    assert_int_equal(holds(), 1);
    release(outer);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
}

static void test_a_busy_answer_that_is_lost_is_busy(void **state) {
    (void)state;
    hf_hold *hold = acquired(theirs), *none;
    suffer(LOSE_REPLY);
    assert_status(hf_lock_acquire(mine, 0, &none), HF_EBUSY);
    assert_int_equal(suffered(), 1);
    assert_int_equal(holds(), 1);
    release(hold);
}

static void test_a_release_whose_answer_is_lost_is_released(void **state) {
    (void)state;
    hf_hold *hold = acquired(mine);
    suffer(LOSE_REPLY);
    release(hold);
    assert_int_equal(suffered(), 1);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
}

static void test_a_release_that_is_retried_does_not_touch_the_next_holder(void **state) {
    (void)state;
    hf_completion granted = {.size = sizeof granted};
    hf_hold *hold = acquired(mine);
    /* The first copy grants him the lock, the second finds the hold. */
    assert_status(hf_lock_acquire_start(theirs, NULL, 0, 5000, NULL, 1), HF_OK);
    assert_soon(NUMBER("ZCARD {stock}stock:hf1:q") > 0);
    suffer(LOSE_REPLY);
    release(hold);
    assert_int_equal(suffered(), 1);
    granted = next_of(bob);
    assert_status(granted.status, HF_OK);
    assert_int_equal(STORED("stock").fence, hf_hold_fence(granted.hold));
    assert_int_equal(holds(), 1);
    give_back(granted.hold, HF_OK);
}

static void test_a_renewal_whose_answer_is_lost_is_renewed(void **state) {
    (void)state;
    hf_hold *hold = acquired(mine);
    assert_soon(hf_hold_remaining_ms(hold) < 59900);
    suffer(LOSE_REPLY);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_int_equal(suffered(), 1);
    assert_in_range(NUMBER("PTTL stock"), 59000, 60000);
    release(hold);
}

static void test_an_extension_whose_answer_is_lost_adds_nothing_twice(void **state) { /* C2 */
    (void)state;
    hf_hold *hold = acquired(mine);
    suffer(LOSE_REPLY);
    assert_status(hf_hold_extend(hold, 100000, 0), HF_OK);
    assert_int_equal(suffered(), 1);
    assert_in_range(NUMBER("PTTL stock"), 155000, 160000);
    assert_in_range(hf_hold_remaining_ms(hold), 155000, 160000);
    release(hold);
}

static void test_a_break_whose_answer_is_lost_is_broken_once(void **state) {
    (void)state;
    hf_hold *hold = acquired(theirs);
    suffer(LOSE_REPLY);
    assert_status(hf_lock_break(mine, hf_hold_fence(hold), 0), HF_OK);
    assert_int_equal(suffered(), 1);
    assert_status(hf_hold_release(hold), HF_ELOST);
    hf_hold_close(hold);
}

/* ------------------------------------------------------------ Late duplicates */

static void test_a_late_copy_of_an_acquire_takes_nothing(void **state) { /* C3 */
    (void)state;
    suffer(LATE_REQUEST);
    hf_hold *hold = acquired(mine);
    assert_int_equal(suffered(), 1);
    assert_int_equal(holds(), 1);
    release(hold);
    proxy_deliver(way);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
    hold = acquired(theirs);
    release(hold);
}

static void test_a_late_copy_of_an_acquire_does_not_join_the_same_owner(void **state) { /* C3 */
    (void)state;
    suffer(LATE_REQUEST);
    release(acquired(mine));
    assert_int_equal(suffered(), 1);
    hf_hold *hold = acquired(mine);
    proxy_deliver(way);
    assert_int_equal(holds(), 1);
    release(hold);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
}

static void test_a_late_copy_of_a_release_does_not_end_the_next_hold(void **state) { /* C2a */
    (void)state;
    hf_hold *hold = acquired(mine);
    suffer(LATE_REQUEST);
    release(hold);
    assert_int_equal(suffered(), 1);
    hold = acquired(mine); /* the same owner again */
    assert_string_equal(proxy_deliver(way), ":0\r\n");
    assert_status(hf_hold_check(hold), HF_OK);
    release(hold);
}

static void test_a_late_copy_of_a_renewal_does_not_bring_a_hold_back(void **state) {
    (void)state;
    hf_hold *hold = acquired(mine);
    suffer(LATE_REQUEST);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_int_equal(suffered(), 1);
    release(hold);
    proxy_deliver(way);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
}

/* --------------------------------------------- Unknown outcomes, and refusals */

static void assert_unknown(hf_status status, int64_t before) {
    assert_status(status, HF_EUNKNOWN);
    assert_message("may have been carried out");
    assert_in_range(now_ms() - before, 0, 3000);
    assert_true(suffered() > 1);
}

static void test_what_cannot_be_known_is_unknown_within_the_time_promised(void **state) {
    hf_lock_info info = {.size = sizeof info};
    hf_hold *none = (hf_hold *)&none;
    (void)state;
    hf_hold *kept = acquired(mine), *hold = acquired(mine);
    suffer(LOSE_ALL);
    int64_t before = now_ms();
    assert_unknown(hf_lock_acquire(mine, 0, &none), before);
    assert_null(none);
    before = now_ms();
    assert_unknown(hf_hold_renew(kept), before);
    assert_int_equal(hf_hold_state(kept), HF_STATE_HELD); /* it lasts at least as long as before */
    before = now_ms();
    assert_unknown(hf_hold_release(hold), before);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    before = now_ms();
    assert_unknown(hf_lock_break(mine, 1, 0), before);
    assert_status(hf_lock_inspect(mine, 0, &info, NULL), HF_ECONNECT);
    suffer(PASS);
    assert_status(hf_hold_check(kept), HF_OK);
    assert_soon(holds() == 1); /* the undo runs in the background */
    release(kept);
    hf_hold_close(hold);
}

static void test_a_shortening_counts_here_before_the_server_knows(void **state) { /* C7 */
    (void)state;
    hf_hold *hold = acquired(mine);
    suffer(LOSE_ALL);
    assert_status(hf_hold_extend(hold, 5000, 1), HF_EUNKNOWN);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 5000);
    suffer(PASS);
    release(hold);
}

static void test_a_connection_that_died_idle_is_replaced(void **state) {
    static const int idle_ms[] = {0, 200};
    (void)state;
    for (size_t i = 0; i < COUNT(idle_ms); i++) {
        hf_hold *hold = acquired(mine);
        TELL("CLIENT KILL TYPE normal SKIPME yes");
        sleep_ms(idle_ms[i]);
        int64_t before = now_ms();
        assert_status(hf_hold_check(hold), HF_OK);
        TELL("CLIENT KILL TYPE normal SKIPME yes");
        sleep_ms(idle_ms[i]);
        release(hold);
        assert_in_range(now_ms() - before, 0, 400 + 2 * idle_ms[i]);
    }
}

static void test_a_server_that_is_gone_is_out_of_reach_and_nothing_was_done(void **state) {
    hf_hold *none;
    (void)state;
    hf_hold *hold = acquired(mine);
    shutdown(way->door.fd, SHUT_RDWR); /* no new connections */
    TELL("CLIENT KILL TYPE normal SKIPME yes");
    sleep_ms(150); /* idle long enough to be checked */
    int64_t before = now_ms();
    assert_status(hf_lock_acquire(mine, 0, &none), HF_ECONNECT);
    assert_message("cannot reach redis://127.0.0.1:");
    assert_in_range(now_ms() - before, 0, 3000);
    assert_status(hf_hold_renew(hold), HF_ECONNECT);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_status(hf_hold_release(hold), HF_ECONNECT);
    assert_int_equal(holds(), 1);
    hf_hold_close(hold);
}

/* --------------------------------------------------- Servers that refuse, or wait */

static void test_a_server_that_cannot_write_refuses_and_nothing_is_changed(void **state) {
    static const char *const ways[][3] = {
        {"CONFIG SET min-replicas-to-write 1", "NOREPLICAS", "CONFIG SET min-replicas-to-write 0"},
        {"CONFIG SET maxmemory 1", "OOM", "CONFIG SET maxmemory 0"},
    };
    hf_hold *none;
    (void)state;
    for (size_t i = 0; i < COUNT(ways); i++) {
        TELL(ways[i][0]);
        assert_status(hf_lock_acquire(theirs, 0, &none), HF_ESERVER);
        assert_message(ways[i][1]);
        TELL(ways[i][2]);
        assert_int_equal(NUMBER("DBSIZE"), 0);
    }
}

static void test_a_replica_is_tried_again_and_then_told_of(void **state) {
    hf_hold *none;
    (void)state;
    TELL("REPLICAOF 127.0.0.1 1");
    int64_t before = now_ms();
    assert_status(hf_lock_acquire(mine, 0, &none), HF_ESERVER);
    assert_message("READONLY");
    assert_in_range(now_ms() - before, 400, 4000);
    TELL("REPLICAOF NO ONE");
    assert_int_equal(NUMBER("DBSIZE"), 0);
}

static void *promote(void *argument) {
    redisContext *context = argument;
    sleep_ms(200);
    freeReplyObject(redisCommand(context, "REPLICAOF NO ONE"));
    return NULL;
}

static void test_a_replica_that_becomes_the_master_in_time_serves(void **state) {
    pthread_t thread;
    redisContext *context = connect_raw();
    (void)state;
    TELL("REPLICAOF 127.0.0.1 1");
    assert_int_equal(pthread_create(&thread, NULL, promote, context), 0);
    hf_hold *hold = acquired(theirs);
    pthread_join(thread, NULL);
    release(hold);
    redisFree(context);
}

static void test_without_memory_what_is_held_can_be_released(void **state) { /* H6 */
    (void)state;
    suffer(LOSE_REPLY); /* so that the release also buries the id */
    hf_hold *hold = acquired(mine), *nested = acquired(mine);
    assert_int_equal(suffered(), 1);
    TELL("CONFIG SET maxmemory 1");
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_status(hf_hold_extend(hold, 90000, 1), HF_OK);
    release(nested);
    release(hold);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
    TELL("CONFIG SET maxmemory 0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_an_acquire_whose_answer_is_lost_is_one_hold),
        TEST(test_an_acquire_that_was_answered_at_once_is_not_buried),
        TEST(test_an_acquire_that_never_arrived_is_one_hold),
        TEST(test_a_nested_acquire_whose_answer_is_lost_is_one_hold_more),
        TEST(test_a_busy_answer_that_is_lost_is_busy),
        TEST(test_a_release_whose_answer_is_lost_is_released),
        TEST(test_a_release_that_is_retried_does_not_touch_the_next_holder),
        TEST(test_a_renewal_whose_answer_is_lost_is_renewed),
        TEST(test_an_extension_whose_answer_is_lost_adds_nothing_twice),
        TEST(test_a_break_whose_answer_is_lost_is_broken_once),
        TEST(test_a_late_copy_of_an_acquire_takes_nothing),
        TEST(test_a_late_copy_of_an_acquire_does_not_join_the_same_owner),
        TEST(test_a_late_copy_of_a_release_does_not_end_the_next_hold),
        TEST(test_a_late_copy_of_a_renewal_does_not_bring_a_hold_back),
        TEST(test_what_cannot_be_known_is_unknown_within_the_time_promised),
        TEST(test_a_shortening_counts_here_before_the_server_knows),
        TEST(test_a_connection_that_died_idle_is_replaced),
        TEST(test_a_server_that_is_gone_is_out_of_reach_and_nothing_was_done),
        TEST(test_a_server_that_cannot_write_refuses_and_nothing_is_changed),
        TEST(test_a_replica_is_tried_again_and_then_told_of),
        TEST(test_a_replica_that_becomes_the_master_in_time_serves),
        TEST(test_without_memory_what_is_held_can_be_released),
    };
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

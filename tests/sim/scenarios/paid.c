/* A call that is paid for is made at most once, and its outcome is not thrown away. */
#include "both.h"

static const hf_acquire_options MOST = {.size = sizeof MOST, .flags = HF_ACQUIRE_AT_MOST_ONCE};

static hf_lock *mine, *theirs;

static int set_up(void **state) {
    int result = begin_both(state, 500);
    mine = lease_lock(client, "k", 1000, HF_OFF);
    theirs = lease_lock(other, "k", 60000, HF_ON);
    return result;
}

static int tear_down(void **state) {
    hf_lock_close(mine);
    hf_lock_close(theirs);
    return end_both(state);
}

static hf_hold *turn_of(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_once_begin(lock, 0, &MOST, NULL, 0, &hold), HF_OK);
    return hold;
}

/* Begin a call whose hold ends. */
static hf_hold *lost_call(void) {
    hf_hold *hold = turn_of(mine);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    sleep_ms(1500);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    return hold;
}

/* Check what another caller is told, and the result. */
static void assert_told(hf_lock *lock, hf_status status, const char *result) {
    hf_hold *hold;
    assert_status(hf_once_begin(lock, 0, &MOST, NULL, 0, &hold), status);
    if (result != NULL)
        assert_string_equal(hf_hold_result(hold, NULL), result);
    hf_hold_close(hold);
}

static hf_status settle(int32_t state, int64_t fence, const char *result) {
    return hf_once_settle(theirs, state, fence, 0, result, result != NULL ? strlen(result) : 0,
                          result != NULL ? 60000 : 0, NULL, 0);
}

static void finish(hf_hold *hold, const char *result, hf_status status) {
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, result, strlen(result), 60000), status);
    hf_hold_close(hold);
}

static void test_a_mark_outlives_its_hold_and_its_renewals(void **state) {
    (void)state;
    hf_hold *hold = turn_of(mine);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    sleep_ms(500);
    assert_status(hf_hold_renew(hold), HF_OK);
    sleep_ms(700);
    assert_told(theirs, HF_EBUSY, NULL);
    sleep_ms(20000);
    assert_told(theirs, HF_EOUTCOME, NULL);
    finish(hold, "paid", HF_OK);
    assert_told(theirs, HF_EDONE, "paid");
}

/* A waiter learns the unknown outcome when the call's hold ends, and so does a later caller. */
static void test_no_call_begins_over_one_whose_outcome_is_unknown(void **state) {
    (void)state;
    hf_hold *hold = turn_of(mine);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    assert_status(hf_once_begin_start(theirs, 60000, &MOST, NULL, 0, 1), HF_OK);
    assert_soon(queued("k") == 1);
    hf_completion done = completion_within(other, 5000);
    assert_status(done.status, HF_EOUTCOME);
    hf_hold_close(done.hold);
    assert_told(theirs, HF_EOUTCOME, NULL);
    finish(hold, "paid", HF_OK);
    assert_told(theirs, HF_EDONE, "paid");
}

/* Begin a call whose outcome stays unknown for 10 s, and which runs for longer. */
static hf_hold *long_call(hf_lock *lock) {
    hf_hold *hold = turn_of(lock);
    assert_status(hf_once_mark(hold, 10000, "n", 1), HF_OK);
    sleep_ms(15000);
    return hold;
}

static void assert_unknown_for_10_s(hf_lock *lock) {
    sleep_ms(9000);
    assert_told(lock, HF_EOUTCOME, NULL);
    sleep_ms(1500);
    hf_hold *next = turn_of(lock);
    assert_status(hf_once_finish(next, HF_ONCE_RETRY, "", 0, 0), HF_OK);
    hf_hold_close(next);
}

static void test_an_unknown_outcome_is_kept_from_when_it_is_told(void **state) {
    (void)state;
    hf_hold *hold = long_call(theirs);
    assert_told(mine, HF_EBUSY, NULL);
    assert_status(hf_once_finish(hold, HF_ONCE_UNKNOWN, "why", 3, 0), HF_OK);
    hf_hold_close(hold);
    assert_unknown_for_10_s(mine);
    hold = long_call(mine);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    assert_told(theirs, HF_EOUTCOME, NULL);
    assert_unknown_for_10_s(theirs);
    assert_status(hf_once_finish(hold, HF_ONCE_UNKNOWN, "why", 3, 0), HF_ESETTLED);
    hf_hold_close(hold);
}

static void test_a_late_result_takes_no_place_of_one_that_was_settled(void **state) {
    (void)state;
    hf_hold *hold = lost_call();
    assert_status(settle(HF_ONCE_DONE, hf_hold_fence(hold), "by hand"), HF_OK);
    finish(hold, "late", HF_ESETTLED);
    assert_told(theirs, HF_EDONE, "by hand");
}

static hf_status settle_by(hf_client *by, int64_t fence, int32_t state, const char *result) {
    hf_lock *lock = lease_lock(by, "k", 60000, HF_ON);
    size_t length = result != NULL ? strlen(result) : 0;
    hf_status status = hf_once_settle(lock, state, fence, HF_SETTLE_FORCE, result, length,
                                      result != NULL ? 60000 : 0, NULL, 0);
    hf_lock_close(lock);
    return status;
}

static void test_a_copy_of_a_settlement_settles_nothing_over_a_later_one(void **state) {
    (void)state;
    hf_hold *hold = lost_call();
    int64_t fence = hf_hold_fence(hold);
    hf_hold_close(hold);
    proxy_next(way, LATE_REQUEST, hf_script_settle.sha1);
    assert_status(settle_by(client, fence, HF_ONCE_DONE, "first"), HF_OK);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    assert_status(settle_by(other, fence, HF_ONCE_DONE, "later"), HF_OK);
    proxy_deliver(way);
    sleep_ms(100);
    assert_told(theirs, HF_EDONE, "later");
}

/* The server refuses all requests while the client buries the id; then the copy is delivered. */
static void test_a_settlement_that_was_given_up_settles_nothing_minutes_later(void **state) {
    (void)state;
    hf_hold *hold = lost_call();
    int64_t fence = hf_hold_fence(hold);
    hf_hold_close(hold);
    proxy_next(way, LATE_REQUEST, hf_script_settle.sha1);
    servers_refuse(0, SIM_SCRIPTS, "ERR something is wrong", -1);
    assert_status(settle_by(client, fence, HF_ONCE_DONE, "first"), HF_EUNKNOWN);
    sleep_ms(40000);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    sleep_ms(1000);
    assert_status(settle_by(other, fence, HF_ONCE_RETRY, NULL), HF_OK);
    proxy_deliver(way);
    sleep_ms(100);
    hf_hold_close(turn_of(theirs));
}

/* The call is in progress when it is to be settled; its hold has ended when the copy is delivered.
 */
static void test_a_copy_of_a_refused_settlement_settles_nothing(void **state) {
    (void)state;
    hf_hold *hold = turn_of(mine);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    int64_t fence = hf_hold_fence(hold);
    proxy_next(way, LATE_REQUEST, hf_script_settle.sha1);
    assert_status(hf_once_settle(mine, HF_ONCE_DONE, fence, 0, "first", 5, 60000, NULL, 0),
                  HF_EBUSY);
    servers_refuse(0, SIM_SCRIPTS, "ERR something is wrong", -1);
    sleep_ms(1500);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    proxy_deliver(way);
    sleep_ms(100);
    assert_told(theirs, HF_EOUTCOME, NULL);
    hf_hold_close(hold);
}

static void test_a_paid_result_is_kept_though_the_hold_was_lost(void **state) {
    (void)state;
    hf_hold *hold = lost_call();
    assert_told(theirs, HF_EOUTCOME, NULL);
    finish(hold, "paid", HF_OK);
    assert_told(theirs, HF_EDONE, "paid");
}

/* A call of the other mode, in which the next caller makes the call again. */
static void test_a_result_without_a_mark_needs_its_hold(void **state) {
    (void)state;
    hf_hold *hold, *next, *done;
    assert_status(hf_once_begin(mine, 0, NULL, NULL, 0, &hold), HF_OK);
    sleep_ms(1500);
    assert_status(hf_once_begin(theirs, 0, NULL, NULL, 0, &next), HF_OK);
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "late", 4, 60000), HF_ELOST);
    assert_status(hf_once_begin(theirs, 0, NULL, NULL, 0, &done), HF_EBUSY);
    finish(next, "next", HF_OK);
    assert_status(hf_once_begin(theirs, 0, NULL, NULL, 0, &done), HF_EDONE);
    assert_string_equal(hf_hold_result(done, NULL), "next");
    hf_hold_close(done);
    hf_hold_close(hold);
}

static void test_a_late_retry_is_no_retry_of_the_next_call(void **state) {
    (void)state;
    hf_hold *hold = lost_call();
    int64_t fence = hf_hold_fence(hold);
    assert_status(settle(HF_ONCE_NONE, fence, NULL), HF_OK);
    hf_hold_close(hold);
    hold = lost_call();
    assert_status(settle(HF_ONCE_RETRY, fence, NULL), HF_ENOTHELD);
    assert_told(theirs, HF_EOUTCOME, NULL);
    hf_hold_close(hold);
}

static void test_a_call_whose_mark_has_no_answer_is_not_made(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        hf_hold *hold = turn_of(mine);
        proxy_next(way, late ? HOLD_REQUEST : HOLD_REPLY, hf_script_begin.sha1);
        assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_EUNKNOWN);
        assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
        atomic_store(&way->holds_request, false);
        atomic_store(&way->holds_reply, false);
        /* The mark is withdrawn, and so is a late copy: the next caller gets the turn. */
        hf_hold *next;
        for (int64_t until = now_ms() + 5000; now_ms() < until; sleep_ms(50)) {
            hf_status status = hf_once_begin(theirs, 0, &MOST, NULL, 0, &next);
            if (status == HF_OK)
                break;
            assert_true(status == HF_EBUSY || status == HF_EOUTCOME);
            hf_hold_close(next);
        }
        assert_status(hf_once_mark(next, HF_NEVER, "n", 1), HF_OK);
        assert_status(hf_once_finish(next, HF_ONCE_DONE, "x", 1, 60000), HF_OK);
        assert_status(settle(HF_ONCE_NONE, hf_hold_fence(next), NULL), HF_OK);
        hf_hold_close(next);
        hf_hold_close(hold);
    }
}

static void test_a_mark_waits_once_for_a_silent_server(void **state) {
    (void)state;
    proxy *lane = proxy_start();
    hf_client *patient = open_with(url_of(lane), 2000, 2000);
    warm_up(patient);
    hf_lock *lock = lease_lock(patient, "k", 60000, HF_OFF);
    hf_hold *hold = turn_of(lock);
    int64_t began = now_ms();
    sim_server_pause(servers_at(0), true);
    hf_status status = hf_once_mark(hold, HF_NEVER, "n", 1);
    int64_t took_ms = now_ms() - began;
    sim_server_pause(servers_at(0), false);
    assert_true(status == HF_EUNKNOWN || status == HF_ECONNECT);
    assert_in_range(took_ms, 1900, 2500);
    /* The mark is withdrawn in the background. */
    assert_soon(NUMBER("EXISTS k") == 0 && NUMBER("EXISTS {k}k:hf1:r") == 0);
    give_back(turn_of(theirs), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(patient);
    proxy_stop(lane);
}

static void test_a_result_whose_release_has_no_answer_is_sent_until_it_is_kept(void **state) {
    (void)state;
    hf_hold *hold = turn_of(mine), *done;
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    proxy_next(way, GO_DEAD, hf_script_release.sha1);
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "paid", 4, 60000), HF_EUNKNOWN);
    for (int64_t until = now_ms() + 10000; now_ms() < until; sleep_ms(50)) {
        hf_status status = hf_once_begin(theirs, 0, &MOST, NULL, 0, &done);
        hf_hold_close(done);
        if (status == HF_EDONE)
            break;
        assert_true(status == HF_EBUSY || status == HF_EOUTCOME);
    }
    assert_told(theirs, HF_EDONE, "paid");
    hf_hold_close(hold);
}

static void finish_by(hf_hold *hold, bool started, hf_status status) {
    if (started) {
        assert_status(hf_once_finish_start(hold, HF_ONCE_DONE, "paid", 4, 60000, 1), HF_OK);
        assert_status(completion_within(client, 5000).status, status);
    } else {
        assert_status(hf_once_finish(hold, HF_ONCE_DONE, "paid", 4, 60000), status);
    }
}

/* For a while the user may do nothing, or only lacks the permission to keep the result. */
static void test_a_result_that_a_permission_refuses_is_kept_when_that_is_back(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        hf_hold *hold = turn_of(mine);
        assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
        if (how < 2)
            TELL("ACL SETUSER default -evalsha -eval");
        else
            TELL("ACL SETUSER default -hset");
        finish_by(hold, how % 2 == 1, HF_ESERVER);
        sleep_ms(10000);
        TELL("ACL SETUSER default +@all");
        sleep_ms(1000);
        assert_told(theirs, HF_EDONE, "paid");
        TELL("DEL {k}k:hf1:r");
        hf_hold_close(hold);
    }
}

static void test_a_call_that_was_not_made_is_told_when_a_permission_is_back(void **state) {
    (void)state;
    hf_hold *hold = turn_of(mine);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    TELL("ACL SETUSER default -hset");
    assert_status(hf_once_finish(hold, HF_ONCE_RETRY, NULL, 0, 0), HF_ESERVER);
    sleep_ms(10000);
    TELL("ACL SETUSER default +@all");
    sleep_ms(1000);
    hf_hold_close(hold);
    hf_hold_close(turn_of(theirs));
}

/* The client is closed while it asks which permission is missing. */
static void test_a_result_that_was_refused_is_sent_by_a_close(void **state) {
    (void)state;
    proxy *lane = proxy_start();
    hf_client *closing = open_with(url_of(lane), 2000, 500);
    warm_up(closing);
    hf_lock *lock = lease_lock(closing, "k", 60000, HF_OFF);
    hf_hold *hold = turn_of(lock);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    proxy_next(lane, HOLD_REPLY, hf_script_permissions.sha1);
    TELL("ACL SETUSER default resetkeys ~warm*");
    assert_status(hf_once_finish_start(hold, HF_ONCE_DONE, "paid", 4, 60000, 1), HF_OK);
    assert_soon(atomic_load(&lane->mishaps) == 1);
    TELL("ACL SETUSER default ~*");
    hf_client_close(closing);
    assert_told(theirs, HF_EDONE, "paid");
    hf_hold_close(hold);
    hf_lock_close(lock);
    proxy_stop(lane);
}

static void *finish_meanwhile(void *hold) {
    hf_once_finish(hold, HF_ONCE_DONE, "paid", 4, 60000);
    return NULL;
}

/* The request is lost on the way; meanwhile the client is closed, and perhaps its thread is
 * cancelled. */
static void test_a_result_whose_release_a_close_meets_is_kept(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        bool started = how == 1, cancelled = how == 2;
        proxy *lane = proxy_start();
        hf_client *closing = open_with(url_of(lane), 2000, 500);
        pthread_t thread;
        warm_up(closing);
        hf_lock *lock = lease_lock(closing, "k", 60000, HF_OFF);
        hf_hold *hold = turn_of(lock);
        assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
        proxy_next(lane, GO_DEAD, NULL);
        if (started)
            assert_status(hf_once_finish_start(hold, HF_ONCE_DONE, "paid", 4, 60000, 1), HF_OK);
        else
            assert_int_equal(pthread_create(&thread, NULL, finish_meanwhile, hold), 0);
        assert_soon(atomic_load(&lane->mishaps) == 1);
        if (cancelled)
            pthread_cancel(thread);
        hf_client_close(closing);
        if (!started)
            pthread_join(thread, NULL);
        assert_told(theirs, HF_EDONE, "paid");
        TELL("DEL {k}k:hf1:r");
        hf_hold_close(hold);
        hf_lock_close(lock);
        proxy_stop(lane);
    }
}

/* H242: the client has no thread, and the answer is given up in the middle of the close. */
static void test_a_result_of_a_client_without_a_thread_outlives_its_close(void **state) {
    sim_settings before = sim_set;
    (void)state;
    for (int n = 0; n < 100; n++) {
        proxy *lane = proxy_start();
        hf_client *closing = open_with(url_of(lane), 2000, 500);
        pthread_t thread;
        hf_lock *lock = lease_lock(closing, "k", 60000, HF_OFF);
        hf_hold *hold = turn_of(lock);
        assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
        proxy_next(lane, GO_DEAD, NULL);
        assert_int_equal(pthread_create(&thread, NULL, finish_meanwhile, hold), 0);
        assert_soon(atomic_load(&lane->mishaps) == 1);
        sleep_ms(498 - n % 20);
        sim_set.overtaken = 0.1;
        sim_set.overtaken_ns = 50 * SIM_MS;
        hf_client_close(closing);
        sim_set = before;
        pthread_join(thread, NULL);
        assert_told(theirs, HF_EDONE, "paid");
        TELL("DEL {k}k:hf1:r");
        hf_hold_close(hold);
        hf_lock_close(lock);
        proxy_stop(lane);
    }
}

/* One of two threads of a client has the turn. */
static void test_the_next_turn_ends_the_one_that_was_lost(void **state) {
    (void)state;
    hf_lock *long_lease = lease_lock(client, "k", 60000, HF_ON);
    hf_hold *lost = turn_of(long_lease);
    TELL("DEL k");
    hf_hold *next = turn_of(mine);
    assert_int_equal(hf_hold_state(lost), HF_STATE_LOST);
    give_back(next, HF_OK);
    hf_hold_close(lost);
    hf_lock_close(long_lease);
}

static void *mark_meanwhile(void *hold) {
    return (void *)(intptr_t)hf_once_mark(hold, HF_NEVER, "n", 1);
}

/* The server has the mark, and its answer is on the way: the call is not made. */
static void test_a_mark_that_a_close_meets_is_withdrawn(void **state) {
    (void)state;
    proxy *lane = proxy_start();
    hf_client *closing = open_with(url_of(lane), 2000, 500);
    pthread_t thread;
    void *status;
    warm_up(closing);
    hf_lock *lock = lease_lock(closing, "k", 60000, HF_OFF);
    hf_hold *hold = turn_of(theirs);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK); /* the server knows this script */
    assert_status(hf_once_finish(hold, HF_ONCE_RETRY, "", 0, 0), HF_OK);
    hf_hold_close(hold);
    hold = turn_of(lock);
    proxy_next(lane, HOLD_REPLY, hf_script_begin.sha1);
    assert_int_equal(pthread_create(&thread, NULL, mark_meanwhile, hold), 0);
    assert_soon(STRING("HGET {k}k:hf1:r hf1")[32] == 'b');
    hf_client_close(closing);
    atomic_store(&lane->holds_reply, false);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, HF_ECLOSED);
    give_back(turn_of(theirs), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    proxy_stop(lane);
}

static void *release_meanwhile(void *hold) { return (void *)(intptr_t)hf_hold_release(hold); }

/* H223: as above, while another thread releases the hold, or its release is refused at first. */
static void test_a_mark_that_a_release_meets_is_withdrawn(void **state) {
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        proxy *lane = proxy_start();
        hf_client *two = open_with(url_of(lane), 2000, 5000);
        pthread_t marks, releases;
        void *marked, *released;
        warm_up(two);
        hf_lock *lock = lease_lock(two, "k", 60000, HF_OFF);
        hf_hold *hold = turn_of(theirs);
        assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
        assert_status(hf_once_finish(hold, HF_ONCE_RETRY, "", 0, 0), HF_OK);
        hf_hold_close(hold);
        hold = turn_of(lock);
        proxy_next(lane, HOLD_REPLY, hf_script_begin.sha1);
        assert_int_equal(pthread_create(&marks, NULL, mark_meanwhile, hold), 0);
        assert_soon(STRING("HGET {k}k:hf1:r hf1")[32] == 'b');
        if (refused)
            servers_refuse(0, SIM_WRITES, "ERR something is wrong", -1);
        assert_int_equal(pthread_create(&releases, NULL, release_meanwhile, hold), 0);
        pthread_join(releases, &released);
        assert_int_equal((intptr_t)released, refused ? HF_ESERVER : HF_OK);
        servers_refuse(0, SIM_WRITES, NULL, 0);
        atomic_store(&lane->holds_reply, false);
        pthread_join(marks, &marked);
        assert_int_equal((intptr_t)marked, HF_ENOTHELD);
        assert_soon(NUMBER("EXISTS k") == 0);
        give_back(turn_of(theirs), HF_OK);
        hf_hold_close(hold);
        hf_lock_close(lock);
        hf_client_close(two);
        proxy_stop(lane);
    }
}

/* A hold that was never marked is lost as any other hold. */
static void test_a_release_of_what_was_not_marked_says_that_it_is_lost(void **state) {
    (void)state;
    hf_hold *hold = turn_of(mine);
    TELL("DEL k");
    give_back(hold, HF_ELOST);
    hold = turn_of(mine);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS {k}k:hf1:r"), 0);
}

/* An acquire that waits for the outcome learns why it cannot get it, and does not affect the
 * client's other acquires. */
static void test_a_record_of_another_type_ends_the_wait_for_an_outcome(void **state) {
    (void)state;
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(theirs);
    assert_status(hf_once_begin_start(mine, HF_FOREVER, NULL, NULL, 0, 1), HF_OK);
    assert_soon(queued("k") == 1);
    assert_status(hf_lock_acquire_start(mine, NULL, 0, HF_FOREVER, NULL, 2), HF_OK);
    assert_soon(queued("k") == 2);
    TELL("SET {k}k:hf1:r x");
    give_back(hold, HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_completion done = next_of(client);
        assert_status(done.status, done.op == 1 ? HF_ESERVER : HF_OK);
        if (done.status == HF_OK)
            give_back(done.hold, HF_OK);
    }
    TELL("DEL {k}k:hf1:r");
}

/* H261: an allocation of more than 32 MiB fails, and a buffer that has room for the first result
 * would grow beyond that for the second. */
static void test_a_result_without_room_stops_no_other_request(void **state) {
    static char result[15 << 20];
    (void)state;
    hf_client *large = open_with(tcp_url(), 2000, 60000);
    warm_up(large);
    hf_lock *lock = lease_lock(large, "a", 3000, HF_ON),
            *first = lease_lock(large, "b", 60000, HF_OFF),
            *second = lease_lock(large, "c", 60000, HF_OFF);
    hf_hold *hold = held(lock), *one = turn_of(first), *two = turn_of(second);
    assert_status(hf_once_mark(one, HF_NEVER, "n", 1), HF_OK);
    assert_status(hf_once_mark(two, HF_NEVER, "n", 1), HF_OK);
    assert_status(hf_once_finish_start(one, HF_ONCE_DONE, result, 9 << 20, 60000, 1), HF_OK);
    assert_status(hf_once_finish_start(two, HF_ONCE_DONE, result, sizeof result, 60000, 2), HF_OK);
    sleep_ms(5000);
    assert_status(hf_hold_check(hold), HF_OK);
    for (int i = 0; i < 2; i++)
        assert_status(next_of(large).status, HF_OK);
    give_back(hold, HF_OK);
    hf_hold_close(one);
    hf_hold_close(two);
    hf_lock_close(lock);
    hf_lock_close(first);
    hf_lock_close(second);
    hf_client_close(large);
}

/* H263 */
static void test_a_result_without_memory_can_be_given_again(void **state) {
    static const char result[4096];
    (void)state;
    hf_hold *hold = turn_of(mine);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    sim_may_lack_memory(sim_self(), true);
    sim_set.no_memory = 1;
    hf_status status = hf_once_finish(hold, HF_ONCE_DONE, result, sizeof result, 60000);
    sim_set.no_memory = 0;
    sim_may_lack_memory(sim_self(), false);
    assert_status(status, HF_ENOMEM);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    finish(hold, "paid", HF_OK);
    assert_told(theirs, HF_EDONE, "paid");
}

static void lack_memory(void *process) { sim_may_lack_memory(process, true); }

/* H263: the server is away, and there is no memory to go on in the background. */
static void test_a_result_is_kept_though_there_is_no_memory_to_insist(void **state) {
    (void)state;
    hf_client *far = open_with(tcp_url(), 500, 500);
    hf_lock *lock = lease_lock(far, "k", 60000, HF_OFF);
    hf_hold *hold = turn_of(lock);
    assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
    sim_server_pause(servers_at(0), true);
    sim_set.no_memory = 1;
    sim_at(sim_now() + 100 * SIM_MS, lack_memory, sim_self());
    hf_status status = hf_once_finish(hold, HF_ONCE_DONE, "paid", 4, 60000);
    sim_set.no_memory = 0;
    sim_may_lack_memory(sim_self(), false);
    assert_true(status == HF_ECONNECT || status == HF_EUNKNOWN);
    servers_restart(0, true, SIM_MS); /* no copy arrives */
    sim_server_pause(servers_at(0), false);
    sleep_ms(10);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(far);
    assert_told(theirs, HF_EDONE, "paid");
}

static void test_a_result_that_lacks_memory_is_refused_or_kept(void **state) {
    static const char result[4096];
    (void)state;
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 100; n++) {
        alarm(200);
        hf_client *far = open_with(tcp_url(), 500, 500);
        hf_lock *lock = lease_lock(far, text("k%d", n), 60000, HF_OFF);
        hf_hold *hold = turn_of(lock);
        assert_status(hf_once_mark(hold, HF_NEVER, "n", 1), HF_OK);
        sim_set.no_memory = 0.2;
        hf_status status = hf_once_finish(hold, HF_ONCE_DONE, result, sizeof result, 60000);
        sim_set.no_memory = 0;
        if (status == HF_ENOMEM)
            assert_status(hf_once_finish(hold, HF_ONCE_DONE, result, sizeof result, 60000), HF_OK);
        hf_hold_close(hold);
        hf_client_close(far);
        hf_lock *next = lease_lock(other, text("k%d", n), 60000, HF_OFF);
        assert_told(next, HF_EDONE, NULL);
        hf_lock_close(next);
        hf_lock_close(lock);
    }
    sim_may_lack_memory(sim_self(), false);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_mark_outlives_its_hold_and_its_renewals),
        TEST(test_no_call_begins_over_one_whose_outcome_is_unknown),
        TEST(test_an_unknown_outcome_is_kept_from_when_it_is_told),
        TEST(test_a_late_result_takes_no_place_of_one_that_was_settled),
        TEST(test_a_copy_of_a_settlement_settles_nothing_over_a_later_one),
        TEST(test_a_settlement_that_was_given_up_settles_nothing_minutes_later),
        TEST(test_a_copy_of_a_refused_settlement_settles_nothing),
        TEST(test_a_paid_result_is_kept_though_the_hold_was_lost),
        TEST(test_a_result_without_a_mark_needs_its_hold),
        TEST(test_a_late_retry_is_no_retry_of_the_next_call),
        TEST(test_a_call_whose_mark_has_no_answer_is_not_made),
        TEST(test_a_mark_waits_once_for_a_silent_server),
        TEST(test_a_result_whose_release_has_no_answer_is_sent_until_it_is_kept),
        TEST(test_a_result_that_a_permission_refuses_is_kept_when_that_is_back),
        TEST(test_a_call_that_was_not_made_is_told_when_a_permission_is_back),
        TEST(test_a_result_that_was_refused_is_sent_by_a_close),
        TEST(test_a_result_whose_release_a_close_meets_is_kept),
        TEST(test_a_result_of_a_client_without_a_thread_outlives_its_close),
        TEST(test_a_mark_that_a_close_meets_is_withdrawn),
        TEST(test_a_mark_that_a_release_meets_is_withdrawn),
        TEST(test_a_release_of_what_was_not_marked_says_that_it_is_lost),
        TEST(test_the_next_turn_ends_the_one_that_was_lost),
        TEST(test_a_record_of_another_type_ends_the_wait_for_an_outcome),
        TEST(test_a_result_without_room_stops_no_other_request),
        TEST(test_a_result_without_memory_can_be_given_again),
        TEST(test_a_result_that_lacks_memory_is_refused_or_kept),
        TEST(test_a_result_is_kept_though_there_is_no_memory_to_insist),
    };
    return RUN_TESTS(tests, count, words);
}

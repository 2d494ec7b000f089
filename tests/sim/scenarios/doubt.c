/* A request without an answer may be carried out late: all that it does then is undone, and nothing
 * relies on its absence. */
#include "both.h"

static int set_up(void **state) { return begin_both(state, 500); }
static int tear_down(void **state) { return end_both(state); }

/* ------------------------------------------- Requests that are given up */

/* F1: the replacement is given up after the time to connect, its connection after the time for an
 * answer. */
static void test_a_replacement_that_was_given_up_may_still_shorten_the_hold(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF);
    hf_hold *hold = held(lock);
    proxy_next(way, HOLD_REQUEST, hf_script_renew.sha1);
    assert_status(hf_hold_extend_start(hold, 3000, HF_EXTEND_REPLACE, 1), HF_OK);
    assert_status(next_of(client).status, HF_EUNKNOWN);
    assert_status(hf_hold_extend(hold, 20000, 0), HF_OK);
    assert_in_range(NUMBER("PTTL k"), 15000, 30000);
    atomic_store(&way->holds_request, false);
    assert_soon(NUMBER("PTTL k") <= 3000);
    assert_in_range(hf_hold_remaining_ms(hold), 0, NUMBER("PTTL k"));
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

static void test_what_a_replacement_that_was_given_up_may_shorten_is_not_kept(void **state) {
    (void)state;
    char token[HF_TOKEN_MAX];
    size_t length;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF);
    hf_hold *hold = held(lock);
    proxy_next(way, HOLD_REQUEST, hf_script_renew.sha1);
    assert_status(hf_hold_extend_start(hold, 3000, HF_EXTEND_REPLACE, 1), HF_OK);
    assert_status(next_of(client).status, HF_EUNKNOWN);
    assert_status(hf_hold_keep(hold, 20000), HF_EUNKNOWN);
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_EUNKNOWN);
    atomic_store(&way->holds_request, false);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* Start an acquire past the proxy while the way is shut; the request arrives when the way opens. */
static void start_in_vain(const char *key, int64_t lease_ms, int64_t timeout_ms,
                          hf_status expected) {
    hf_client *far = open_with(tcp_url(), 500, 2000);
    warm_up(far);
    hf_lock *lock = lease_lock(far, key, lease_ms, HF_OFF);
    sim_way(HERE, SERVER, false);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, timeout_ms, NULL, 1), HF_OK);
    hf_completion done = next_of(far);
    assert_status(done.status, expected);
    assert_null(done.hold);
    hf_lock_close(lock);
    sim_way(HERE, SERVER, true);
    assert_stays_free(key, 2500);
    hf_client_close(far);
}

static void test_a_started_try_that_was_given_up_is_undone(void **state) {
    (void)state;
    start_in_vain("k", 60000, 0, HF_EUNKNOWN);
}

static void test_a_started_try_without_an_end_that_was_given_up_is_undone(void **state) {
    (void)state;
    start_in_vain("k", HF_NEVER, 0, HF_EUNKNOWN);
}

static void test_a_started_acquire_that_was_given_up_is_undone(void **state) {
    (void)state;
    start_in_vain("k", 60000, HF_FOREVER, HF_EUNKNOWN);
}

/* Seed 5000160: the grant arrives while the acquire is being released, and the release is refused.
 */
static void test_a_cancelled_acquire_that_was_granted_is_undone(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    warm_up(client);
    give_back(held(lock), HF_OK); /* the server knows this script now */
    proxy_next(way, HOLD_REPLY, hf_script_acquire.sha1);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, 1), HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 1);
    proxy_next(way, REFUSE, hf_script_release.sha1);
    assert_status(hf_op_cancel(client, 1), HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 2);
    atomic_store(&way->holds_reply, false);
    assert_status(next_of(client).status, HF_ECANCELED);
    assert_stays_free("k", 500);
    hf_lock_close(lock);
}

static void test_a_started_acquire_that_was_given_up_leaves_no_place(void **state) {
    (void)state;
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF), *lock;
    hf_hold *hold = held(theirs);
    hf_client *far = open_with(tcp_url(), 500, 2000);
    warm_up(far);
    lock = lease_lock(far, "k", 60000, HF_OFF);
    sim_way(HERE, SERVER, false);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_status(next_of(far).status, HF_EUNKNOWN);
    sim_way(HERE, SERVER, true);
    sleep_ms(2500);
    assert_int_equal(queued("k"), 0);
    give_back(hold, HF_OK);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(far);
}

/* The first answer was lost; the try is sent again with the stored number, under another id. */
static void test_a_try_in_doubt_that_learns_of_a_limit_is_answered(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .mode = HF_SHARED, .lease_ms = 60000};
    hf_lock *lock;
    assert_status(hf_lock_open(client, "k", 1, NULL, 0, &options, &lock), HF_OK);
    assert_status(hf_lock_limit(lock, 2, 0, NULL, NULL), HF_OK);
    proxy_next(way, LOSE_REPLY, NULL);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    hf_completion done = next_of(client);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    hf_lock_close(lock);
}

/* The lock is still held, and no other caller could release it. */
static void test_a_release_in_doubt_that_keeps_the_lock_can_be_made_again(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_ON);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_status(hf_lock_current_as(lock, NULL, 0, &hold), HF_OK);
    assert_status(hf_hold_keep_at_least(hold, 60000), HF_OK);
    hf_hold_close(hold);
    servers_refuse(0, SIM_SCRIPTS, "ERR something is wrong", 1);
    assert_status(hf_lock_release(lock), HF_ESERVER);
    assert_int_equal(hf_lock_count_as(lock, NULL, 0), 1);
    assert_status(hf_lock_release(lock), HF_OK);
    assert_in_range(NUMBER("PTTL k"), 55000, 60000);
    hf_lock_close(lock);
    TELL("DEL k");
}

/* F14: for longer than the lease the server refuses the undo, and the kernel resends for minutes.
 */
static void test_a_copy_that_comes_minutes_later_is_undone(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 30000, HF_OFF);
    hf_hold *none;
    proxy_next(way, LATE_REQUEST, NULL);
    servers_refuse(0, SIM_SCRIPTS, "ERR something is wrong", -1);
    assert_status(hf_lock_acquire(lock, 0, &none), HF_EUNKNOWN);
    sleep_ms(40000);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    sleep_ms(1000);
    proxy_deliver(way);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
}

static void test_what_cannot_be_undone_without_memory_is_undone_later(void **state) {
    (void)state;
    hf_client *far = open_with(tcp_url(), 500, 2000);
    warm_up(far);
    hf_lock *lock = lease_lock(far, "k", 60000, HF_OFF);
    sim_way(HERE, SERVER, false);
    waiter *w = waiter_start(lock, 0);
    sleep_ms(200);
    sim_may_lack_memory(sim_self(), true);
    sim_set.no_memory = 1;
    while (!atomic_load(&w->done))
        sleep_ms(1);
    sleep_ms(100);
    sim_set.no_memory = 0;
    sim_may_lack_memory(sim_self(), false);
    assert_int_not_equal(w->status, HF_OK);
    waiter_join(w, w->status);
    sim_way(HERE, SERVER, true);
    assert_stays_free("k", 2500);
    hf_lock_close(lock);
    hf_client_close(far);
}

/* ------------------------------------------------- Lock held by others */

/* F4: the first copy of the request is late, the second is answered. */
static hf_hold *hold_by_other(hf_lock **theirs) {
    *theirs = lease_lock(other, "k", 60000, HF_OFF);
    return held(*theirs);
}

static void assert_undone(hf_lock *theirs, hf_hold *hold) {
    assert_int_equal(atomic_load(&way->mishaps), 1);
    sleep_ms(500);
    give_back(hold, HF_OK);
    hf_lock_close(theirs);
    proxy_deliver(way);
    assert_stays_free("k", 0);
}

static void test_a_busy_try_is_undone_if_a_copy_of_it_may_come(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_by_other(&theirs), *none;
    proxy_next(way, LATE_REQUEST, NULL);
    assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
    assert_undone(theirs, hold);
    hf_lock_close(lock);
}

static void test_a_busy_started_try_is_undone_if_a_copy_of_it_may_come(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_by_other(&theirs);
    proxy_next(way, LATE_REQUEST, NULL);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    assert_status(next_of(client).status, HF_EBUSY);
    assert_undone(theirs, hold);
    hf_lock_close(lock);
}

static void test_a_timeout_of_one_that_polls_is_undone_if_a_copy_may_come(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_by_other(&theirs);
    TELL("ACL SETUSER default resetchannels");
    waiter *w = waiter_start(lock, 2000);
    sleep_ms(1000);
    proxy_next(way, LATE_REQUEST, NULL);
    waiter_join(w, HF_ETIMEOUT);
    assert_undone(theirs, hold);
    hf_lock_close(lock);
}

/* The first try has no answer, the second finds the lock held, and the time ends before the client
 * can subscribe. */
static void test_a_timeout_without_a_place_is_undone_if_a_copy_may_come(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_by_other(&theirs), *none;
    proxy_next(way, LATE_REQUEST, NULL);
    servers_limit(0, (int)sim_redis_peers(servers_redis(0)) + 1);
    assert_status(hf_lock_acquire(lock, 1000, &none), HF_ETIMEOUT);
    assert_int_equal(queued("k"), 0);
    servers_limit(0, 0);
    assert_undone(theirs, hold);
    hf_lock_close(lock);
}

/* The hold ends by itself only if the server carried out the shorter lease. */
static void test_a_release_outlasts_a_replacement_that_was_not_carried_out(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = held(lock);
    servers_refuse(0, SIM_EVERYTHING, "ERR something is wrong", -1);
    assert_status(hf_hold_extend(hold, 1000, HF_EXTEND_REPLACE), HF_ESERVER);
    assert_status(hf_hold_release(hold), HF_ESERVER);
    hf_hold_close(hold);
    sleep_ms(10000);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    assert_soon(NUMBER("EXISTS k") == 0);
    hf_lock_close(lock);
}

/* Seed 7809406: the same for a hold that has ended here, and that its caller closes. */
static void test_a_closed_hold_ends_although_its_replacement_was_not_carried_out(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(other, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = held(lock);
    servers_refuse(0, SIM_EVERYTHING, "ERR something is wrong", -1);
    assert_status(hf_hold_extend(hold, 1000, HF_EXTEND_REPLACE), HF_ESERVER);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    sleep_ms(2000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    hf_hold_close(hold);
    assert_soon(NUMBER("EXISTS k") == 0);
    hf_lock_close(lock);
}

/* Wait for a lock without an end, ask again after a new subscription (that copy is late), and get
 * the lock. */
static hf_hold *hold_with_a_late_copy(hf_lock **theirs, hf_lock *lock) {
    hf_hold *hold = hold_by_other(theirs);
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    proxy_next(way, LATE_REQUEST, hf_script_acquire.sha1);
    atomic_store(&way->unsubscribes, true);
    assert_soon(atomic_load(&way->mishaps) == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    return w->hold;
}

static void test_what_is_kept_is_not_begun_again_by_a_copy_of_its_acquire(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    assert_status(hf_hold_keep(hold, 50), HF_OK);
    hf_hold_close(hold);
    sleep_ms(500);
    proxy_deliver(way);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* Seed 7807213: the copy arrives before the kept hold ends, and finds room beside it. */
static void test_what_a_copy_begins_beside_what_is_kept_is_undone(void **state) {
    (void)state;
    hf_lock *theirs, *lock = open_lock(client, "k", NULL,
                                       OPTIONS(.lease_ms = HF_NEVER, .renew = HF_OFF,
                                               .mode = HF_SHARED, .permits = 2));
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    proxy_next(way, HOLD_REQUEST, ":hf1:d");
    assert_status(hf_hold_keep(hold, 500), HF_OK);
    hf_hold_close(hold);
    assert_soon(atomic_load(&way->mishaps) == 2);
    proxy_deliver(way);
    assert_soon(NUMBER("ZCARD {k}k:hf1:s") == 2);
    atomic_store(&way->holds_request, false);
    assert_stays_free("k", 600);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* The caller is told that the hold is lost. */
static void test_what_is_kept_when_its_lease_is_over_is_undone_by_its_fence(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    assert_status(hf_hold_extend(hold, 200, HF_EXTEND_REPLACE), HF_OK);
    proxy_next(way, LATE_REPLY, hf_script_renew.sha1);
    assert_status(hf_hold_keep(hold, 60000), HF_ELOST);
    assert_stays_free("k", 600);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* A finalizer closes the handle: the lease ends the hold, and the copy would begin a hold without
 * an end. */
static void test_what_no_handle_releases_is_not_begun_again_by_a_copy_of_its_acquire(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    assert_status(hf_hold_extend(hold, 1000, HF_EXTEND_REPLACE), HF_OK);
    hf_hold_close(hold);
    sleep_ms(1500);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    proxy_deliver(way);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* H268: there is no memory to bury the copy just then. */
static void test_what_no_handle_releases_is_buried_when_there_is_memory(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    assert_status(hf_hold_extend(hold, 1000, HF_EXTEND_REPLACE), HF_OK);
    sim_may_lack_memory(sim_self(), true);
    sim_set.no_memory = 1;
    hf_hold_close(hold);
    sim_set.no_memory = 0;
    sim_may_lack_memory(sim_self(), false);
    sleep_ms(500);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    sleep_ms(1000);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    proxy_deliver(way);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* The burial of the copy is on a connection that has died, unknown to its client when it closes. */
static void test_a_close_sends_again_what_buries_a_copy(void **state) {
    (void)state;
    hf_client *leaving = open_with(url_of(way), 500, 2000);
    warm_up(leaving);
    hf_lock *theirs, *lock = lease_lock(leaving, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    assert_status(hf_hold_extend(hold, 1000, HF_EXTEND_REPLACE), HF_OK);
    proxy_next(way, GO_DEAD, hf_script_cancel.sha1);
    hf_hold_close(hold);
    assert_soon(atomic_load(&way->mishaps) == 2);
    hf_lock_close(lock);
    hf_client_close(leaving);
    sleep_ms(1500);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    proxy_deliver(way);
    assert_stays_free("k", 0);
    hf_lock_close(theirs);
}

/* H241: there was no memory to undo the acquire before the close. */
static void test_a_close_buries_the_copy_of_what_is_to_be_undone(void **state) {
    (void)state;
    hf_client *leaving = open_with(url_of(way), 500, 2000);
    warm_up(leaving);
    hf_lock *lock = lease_lock(leaving, "k", HF_NEVER, HF_OFF);
    give_back(held(lock), HF_OK); /* the server knows the acquire's script */
    proxy_next(way, LATE_REQUEST, NULL);
    sim_server_pause(servers_at(0), true); /* the server answers no further copy */
    waiter *w = waiter_start(lock, 0);
    sleep_ms(200);
    sim_may_lack_memory(sim_self(), true);
    sim_set.no_memory = 1;
    while (!atomic_load(&w->done))
        sleep_ms(1);
    sim_set.no_memory = 0;
    sim_may_lack_memory(sim_self(), false);
    sim_server_pause(servers_at(0), false);
    hf_client_close(leaving);
    assert_int_not_equal(w->status, HF_OK);
    waiter_join(w, w->status);
    proxy_deliver(way);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
}

/* The close sends the keep again, and the burial, which had not been sent. */
static void test_a_close_buries_the_copy_of_what_it_keeps(void **state) {
    (void)state;
    hf_client *leaving = open_with(url_of(way), 500, 2000);
    warm_up(leaving);
    hf_lock *theirs, *lock = lease_lock(leaving, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    proxy_next(way, GO_DEAD, "k");
    assert_status(hf_hold_keep_start(hold, 3000, 1), HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 2);
    hf_client_close(leaving);
    assert_in_range(NUMBER("PTTL k"), 2000, 3000);
    hf_hold_close(hold);
    hf_lock_close(lock);
    sleep_ms(3500);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    proxy_deliver(way);
    assert_stays_free("k", 0);
    hf_lock_close(theirs);
}

/* Seed 3006439: the keeper had begun to claim the grant, for a lease without an end. */
static void test_what_is_kept_is_not_extended_by_a_claim_that_comes_late(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_by_other(&theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    proxy_next(way, HOLD_REQUEST, hf_script_claim.sha1);
    give_back(hold, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 1);
    assert_status(hf_hold_keep(done.hold, 500), HF_OK);
    hf_hold_close(done.hold);
    atomic_store(&way->holds_request, false);
    assert_stays_free("k", 600);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static void test_what_may_be_kept_is_held_and_released_but_not_extended(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    proxy_next(way, HOLD_REQUEST, hf_script_renew.sha1);
    assert_status(hf_hold_keep_start(hold, 30000, 1), HF_OK);
    assert_status(next_of(client).status, HF_EUNKNOWN);
    atomic_store(&way->holds_request, false);
    assert_soon(NUMBER("PTTL k") <= 30000);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_status(hf_hold_extend(hold, 50000, HF_EXTEND_REPLACE), HF_OK);
    assert_in_range(NUMBER("PTTL k"), 1, 30000);
    assert_in_range(hf_hold_remaining_ms(hold), 1, NUMBER("PTTL k"));
    give_back(hold, HF_OK);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
}

/* Seed 132399: the copy began the hold again with a greater fence. */
static void test_what_a_copy_of_its_acquire_began_again_is_released_with_it(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    TELL("DEL k");
    proxy_deliver(way);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    give_back(hold, HF_ELOST);
    assert_stays_free("k", 500);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static void test_what_a_copy_began_again_is_undone_when_its_hold_is_found_lost(void **state) {
    (void)state;
    hf_lock *theirs, *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_with_a_late_copy(&theirs, lock);
    TELL("DEL k");
    proxy_deliver(way);
    assert_status(hf_hold_check(hold), HF_ELOST);
    assert_stays_free("k", 500);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* ---------------------------------------------- What the server has forgotten */

/* Check that the claim of the hold whose answer was late finds that the server has forgotten it,
 * and that the other hold stands. */
static void assert_forgotten(hf_hold *late, hf_hold *hold) {
    assert_true(hf_hold_fence(late) > hf_hold_fence(hold));
    assert_soon(hf_hold_state(late) == HF_STATE_LOST);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_hold_close(late);
}

/* The answer to the first acquire was on its way when the server lost its data; its fence was ahead
 * of the server's clock. */
static void test_an_answer_that_is_older_than_another_hold_does_not_end_that(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = open_lock(client, "k", "theirs", OPTIONS(.lease_ms = 60000, .renew = HF_OFF)),
            *others = lease_lock(other, "k", 60000, HF_OFF);
    TELL("SET {k}k:hf1:f %lld000000", atoll(TELL("TIME")->element[0]->str) + 100);
    give_back(held(others), HF_OK); /* the server knows the script now */
    proxy_next(way, HOLD_REPLY, hf_script_acquire.sha1);
    assert_status(hf_lock_acquire_start(theirs, NULL, 0, 0, NULL, 1), HF_OK);
    assert_soon(NUMBER("EXISTS k") == 1);
    TELL("FLUSHALL");
    hf_hold *hold = held(lock);
    atomic_store(&way->holds_reply, false);
    hf_completion late = next_of(client);
    assert_status(late.status, HF_OK);
    assert_forgotten(late.hold, hold);
    hf_lock_close(others);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

typedef struct adopting {
    hf_lock *lock;
    char token[HF_TOKEN_MAX];
    size_t length;
    hf_status status;
    hf_hold *hold;
    pthread_t thread;
} adopting;

static void *adopt(void *argument) {
    adopting *mine = argument;
    mine->status = hf_lock_adopt(mine->lock, mine->token, mine->length, &mine->hold);
    return NULL;
}

/* Hand over a hold of the other client. */
static void hand_over(adopting *mine, hf_lock *others) {
    hf_hold *handed = held(others);
    assert_status(hf_hold_renew(handed), HF_OK); /* the server knows the script now */
    assert_status(hf_hold_hand_over(handed, mine->token, sizeof mine->token, &mine->length), HF_OK);
    hf_hold_close(handed);
}

/* Adopt the hold, and keep the answer on its way. */
static void begin_adopting(adopting *mine, hf_lock *others) {
    hand_over(mine, others);
    proxy_next(way, HOLD_REPLY, hf_script_renew.sha1);
    assert_int_equal(pthread_create(&mine->thread, NULL, adopt, mine), 0);
    assert_soon(NUMBER("PTTL k") > 5000);
}

/* Let the answer arrive: it ends no other hold. */
static void end_adopting(adopting *mine, hf_hold *hold) {
    atomic_store(&way->holds_reply, false);
    pthread_join(mine->thread, NULL);
    assert_status(mine->status, HF_OK);
    assert_forgotten(mine->hold, hold);
}

static void test_what_an_older_answer_lets_adopt_does_not_end_another_hold(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *others = lease_lock(other, "k", 5000, HF_OFF);
    adopting mine = {.lock = lock};
    TELL("SET {k}k:hf1:f %lld000000", atoll(TELL("TIME")->element[0]->str) + 100);
    begin_adopting(&mine, others);
    TELL("FLUSHALL");
    hf_hold *hold = held(lock);
    end_adopting(&mine, hold);
    hf_lock_close(others);
    hf_lock_close(lock);
}

/* What the server stores for the hold of k, to restore it later. */
typedef struct kept_hold {
    char field[60], owner[100];
} kept_hold;

static kept_hold lose_hold(void) {
    kept_hold kept;
    snprintf(kept.field, sizeof kept.field, "%s", TELL("HGETALL k")->element[0]->str);
    snprintf(kept.owner, sizeof kept.owner, "%s", TELL("HGETALL k")->element[1]->str);
    TELL("DEL k");
    return kept;
}

static void bring_back(const kept_hold *kept) {
    TELL("DEL k");
    TELL("HSET k %s %s", kept->field, kept->owner);
    TELL("PEXPIRE k 30000");
}

/* The server has lost the hold, granted the lock to this client, and forgotten that grant. */
static void test_a_hold_with_a_fence_below_one_that_was_seen_is_not_adopted(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *others = lease_lock(other, "k", 60000, HF_OFF);
    adopting mine = {.lock = lock};
    hand_over(&mine, others);
    kept_hold kept = lose_hold();
    hf_hold *hold = held(lock);
    bring_back(&kept);
    adopt(&mine);
    assert_status(mine.status, HF_ELOST);
    assert_null(mine.hold);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_stays_free("k", 1000);
    give_back(hold, HF_ELOST);
    hf_lock_close(others);
    hf_lock_close(lock);
}

static void answer_late_beside_a_hold_of(int64_t lease_ms, hf_status (*shown)(hf_hold *hold)) {
    hf_lock *lock = lease_lock(client, "k", lease_ms, HF_OFF),
            *others = lease_lock(other, "k", 5000, HF_OFF);
    adopting mine = {.lock = lease_lock(client, "k", 60000, HF_OFF)};
    hf_hold *hold = held(lock);
    kept_hold kept = lose_hold();
    TELL("SET {k}k:hf1:f %lld", (long long)hf_hold_fence(hold) + 100000000);
    begin_adopting(&mine, others);
    bring_back(&kept);
    assert_status(shown(hold), HF_OK);
    end_adopting(&mine, hold);
    hf_lock_close(mine.lock);
    hf_lock_close(others);
    hf_lock_close(lock);
}

/* The server lost a hold and granted later ones, and then has the first hold again: a renewal
 * extends it, or a renewal or a check only finds it. */
static void test_an_older_answer_ends_no_hold_that_was_renewed_since(void **state) {
    (void)state;
    answer_late_beside_a_hold_of(60000, hf_hold_renew);
    answer_late_beside_a_hold_of(HF_NEVER, hf_hold_renew);
    answer_late_beside_a_hold_of(HF_NEVER, hf_hold_check);
}

/* The threads of the new hold and of the lost hold both count on the lock for a round trip only,
 * not until the claim is due. */
static void test_a_grant_by_message_asks_at_once_if_another_hold_is_lost_by_it(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = open_lock(client, "k", "theirs", OPTIONS(.lease_ms = 60000, .renew = HF_OFF)),
            *others = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    assert_status(hf_lock_acquire_start(theirs, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    TELL("DEL k");
    assert_status(hf_lock_acquire(others, 0, NULL), HF_EBUSY); /* it hands the lock on */
    hf_completion granted = next_of(client);
    assert_status(granted.status, HF_OK);
    sleep_ms(100);
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_GONE);
    give_back(granted.hold, HF_OK);
    hf_hold_close(hold);
    hf_lock_close(others);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

/* Let a waiter without an end ask again after a new subscription; its request is held up, and its
 * time ends. Then the server forgets the hold, and that this id is dead. */
static void wait_until_forgotten(hf_lock **theirs, hf_lock **lock) {
    *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = hold_by_other(theirs);
    waiter *w = waiter_start(*lock, 1500);
    assert_soon(queued("k") == 1);
    proxy_next(way, HOLD_REQUEST, hf_script_acquire.sha1);
    atomic_store(&way->unsubscribes, true);
    waiter_join(w, HF_ETIMEOUT);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    TELL("FLUSHALL");
    give_back(hold, HF_ELOST);
}

static void test_a_late_answer_that_grants_is_undone_though_the_server_forgot(void **state) {
    (void)state;
    hf_lock *theirs, *lock;
    wait_until_forgotten(&theirs, &lock);
    atomic_store(&way->holds_request, false);
    assert_stays_free("k", 1000);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static void test_a_question_whose_waiter_is_gone_is_not_sent_again(void **state) {
    (void)state;
    hf_lock *theirs, *lock;
    wait_until_forgotten(&theirs, &lock);
    proxy_next(way, LOSE_REPLY, hf_script_acquire.sha1);
    sleep_ms(5000);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* ACL: the client asks which permission is missing, and the refusal counts once. */
static void test_a_replacement_that_is_refused_is_answered_once(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF);
    hf_hold *hold = held(lock);
    TELL("ACL SETUSER default -pexpireat");
    assert_status(hf_hold_extend_start(hold, 9000, HF_EXTEND_REPLACE, 1), HF_OK);
    assert_status(next_of(client).status, HF_ESERVER);
    TELL("ACL SETUSER default +@all");
    proxy_next(way, HOLD_REQUEST, hf_script_renew.sha1);
    assert_status(hf_hold_extend_start(hold, 3000, HF_EXTEND_REPLACE, 1), HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 1);
    assert_status(hf_hold_extend(hold, 20000, 0), HF_OK); /* which the other may cut short */
    assert_true(hf_hold_remaining_ms(hold) <= 3000);
    assert_status(next_of(client).status, HF_EUNKNOWN);
    atomic_store(&way->holds_request, false);
    assert_soon(NUMBER("PTTL k") <= 3000);
    sleep_ms(4000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* The first lock is granted, and its claim is under way: it no longer has a place in the queue. */
static void test_of_several_a_cancel_counts_while_one_is_confirmed(void **state) {
    (void)state;
    hf_lock *locks[] = {lease_lock(client, "a", 60000, HF_OFF),
                        lease_lock(client, "b", 60000, HF_OFF)};
    hf_lock *theirs[] = {lease_lock(other, "a", 60000, HF_OFF),
                         lease_lock(other, "b", 60000, HF_OFF)};
    hf_hold *holds[] = {held(theirs[0]), held(theirs[1])};
    hf_acquire_options whole = {.size = sizeof whole, .flags = HF_ACQUIRE_WHOLE};
    const hf_acquire_options *options[] = {&whole, &whole};
    assert_status(hf_lock_acquire_all_start(locks, 2, NULL, 0, HF_FOREVER, options, 1), HF_OK);
    assert_soon(queued("a") == 1);
    proxy_next(way, HOLD_REQUEST, hf_script_claim.sha1);
    give_back(holds[0], HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 1);
    assert_status(hf_op_cancel(client, 1), HF_OK);
    proxy_next(way, HOLD_REQUEST, hf_script_release.sha1);
    atomic_store(&way->holds_request, false);
    assert_soon(atomic_load(&way->mishaps) == 2);
    assert_status(hf_op_cancel(client, 2), HF_OK); /* the hold is given back first */
    atomic_store(&way->holds_request, false);
    for (int i = 0; i < 2; i++)
        assert_status(next_of(client).status, HF_ECANCELED);
    assert_status(hf_op_cancel(client, 1), HF_ENOTHELD);
    assert_soon(NUMBER("EXISTS a") == 0 && queued("b") == 0);
    give_back(holds[1], HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_lock_close(locks[i]);
        hf_lock_close(theirs[i]);
    }
}

static void test_a_release_that_loses_joined_holds_tells_of_its_own(void **state) {
    (void)state;
    hf_lock *locks[] = {lease_lock(client, "a", 60000, HF_OFF),
                        lease_lock(client, "b", 60000, HF_OFF)};
    hf_hold *holds[2];
    assert_status(hf_lock_acquire_all(locks, 2, NULL, 0, 0, NULL, holds), HF_OK);
    TELL("DEL a");
    assert_status(hf_hold_release(holds[0]), HF_ELOST);
    assert_non_null(strstr(hf_error_message(), "lock 'a'"));
    for (int i = 0; i < 2; i++) {
        hf_hold_close(holds[i]);
        hf_lock_close(locks[i]);
    }
}

static void test_a_lease_that_ends_on_the_way_of_its_release_loses_no_joined_hold(void **state) {
    (void)state;
    hf_lock *locks[] = {lease_lock(client, "a", 300, HF_OFF),
                        lease_lock(client, "b", 60000, HF_OFF)};
    hf_hold *holds[2];
    assert_status(hf_lock_acquire_all(locks, 2, NULL, 0, 0, NULL, holds), HF_OK);
    proxy_next(way, HOLD_REQUEST, hf_script_release.sha1);
    assert_status(hf_hold_release_start(holds[0], 1), HF_OK);
    assert_soon(NUMBER("EXISTS a") == 0);
    atomic_store(&way->holds_request, false);
    assert_status(next_of(client).status, HF_ELOST);
    assert_int_equal(hf_hold_state(holds[1]), HF_STATE_HELD);
    give_back(holds[1], HF_OK);
    hf_hold_close(holds[0]);
    for (int i = 0; i < 2; i++)
        hf_lock_close(locks[i]);
}

/* H54: each replacement can only shorten the lease, so the lease that they replace counts. */
static void test_leases_whose_replacements_cross_are_renewed_in_time(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "cross", 1000, HF_ON);
    hf_hold *hold = held(lock);
    assert_status(hf_hold_extend_start(hold, 60000, HF_EXTEND_REPLACE, 1), HF_OK);
    assert_status(hf_hold_extend_start(hold, 50000, HF_EXTEND_REPLACE, 2), HF_OK);
    for (int i = 0; i < 2; i++)
        assert_status(next_of(client).status, HF_OK);
    sleep_ms(3000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* After a replacement that fails, the hold has the new lease, and is renewed for that one in time.
 */
static void test_a_lease_whose_replacement_is_refused_is_renewed_in_time(void **state) {
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        hf_lock *lock = lease_lock(other, "refused", 3000, HF_ON);
        hf_hold *hold = held(lock);
        servers_refuse(0, SIM_EVERYTHING, "ERR something is wrong", -1);
        assert_status(keeps ? hf_hold_keep(hold, 60000)
                            : hf_hold_extend(hold, 60000, HF_EXTEND_REPLACE),
                      HF_ESERVER);
        servers_refuse(0, SIM_EVERYTHING, NULL, 0);
        sleep_ms(10000);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        assert_true(hf_hold_remaining_ms(hold) > 20000);
        give_back(hold, HF_OK);
        hf_lock_close(lock);
    }
}

/* H254: the answers to a try and to its cancel are lost, and both are sent again. */
static void test_a_cancelled_try_that_meets_its_own_release_is_cancelled(void **state) {
    (void)state;
    hf_client *far = open_with(tcp_url(), 2000, 500);
    hf_lock *lock = lease_lock(far, "k", HF_NEVER, HF_OFF); /* so that its requests are general */
    warm_up(far);
    give_back(held(lock), HF_OK); /* the server knows the scripts */
    sim_way(SERVER, HERE, false);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    sleep_ms(10);
    assert_status(hf_op_cancel(far, 1), HF_OK);
    sleep_ms(600);
    sim_way(SERVER, HERE, true);
    assert_status(next_of(far).status, HF_ECANCELED);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
    hf_client_close(far);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_replacement_that_was_given_up_may_still_shorten_the_hold),
        TEST(test_what_a_replacement_that_was_given_up_may_shorten_is_not_kept),
        TEST(test_a_started_try_that_was_given_up_is_undone),
        TEST(test_a_started_try_without_an_end_that_was_given_up_is_undone),
        TEST(test_a_started_acquire_that_was_given_up_is_undone),
        TEST(test_a_cancelled_acquire_that_was_granted_is_undone),
        TEST(test_a_started_acquire_that_was_given_up_leaves_no_place),
        TEST(test_a_try_in_doubt_that_learns_of_a_limit_is_answered),
        TEST(test_a_release_in_doubt_that_keeps_the_lock_can_be_made_again),
        TEST(test_a_copy_that_comes_minutes_later_is_undone),
        TEST(test_what_cannot_be_undone_without_memory_is_undone_later),
        TEST(test_a_busy_try_is_undone_if_a_copy_of_it_may_come),
        TEST(test_a_busy_started_try_is_undone_if_a_copy_of_it_may_come),
        TEST(test_a_timeout_of_one_that_polls_is_undone_if_a_copy_may_come),
        TEST(test_a_timeout_without_a_place_is_undone_if_a_copy_may_come),
        TEST(test_a_release_outlasts_a_replacement_that_was_not_carried_out),
        TEST(test_a_closed_hold_ends_although_its_replacement_was_not_carried_out),
        TEST(test_what_is_kept_is_not_begun_again_by_a_copy_of_its_acquire),
        TEST(test_what_a_copy_begins_beside_what_is_kept_is_undone),
        TEST(test_what_is_kept_when_its_lease_is_over_is_undone_by_its_fence),
        TEST(test_what_no_handle_releases_is_not_begun_again_by_a_copy_of_its_acquire),
        TEST(test_what_no_handle_releases_is_buried_when_there_is_memory),
        TEST(test_a_close_sends_again_what_buries_a_copy),
        TEST(test_a_close_buries_the_copy_of_what_is_to_be_undone),
        TEST(test_a_close_buries_the_copy_of_what_it_keeps),
        TEST(test_what_is_kept_is_not_extended_by_a_claim_that_comes_late),
        TEST(test_what_may_be_kept_is_held_and_released_but_not_extended),
        TEST(test_what_a_copy_of_its_acquire_began_again_is_released_with_it),
        TEST(test_what_a_copy_began_again_is_undone_when_its_hold_is_found_lost),
        TEST(test_an_answer_that_is_older_than_another_hold_does_not_end_that),
        TEST(test_a_hold_with_a_fence_below_one_that_was_seen_is_not_adopted),
        TEST(test_what_an_older_answer_lets_adopt_does_not_end_another_hold),
        TEST(test_an_older_answer_ends_no_hold_that_was_renewed_since),
        TEST(test_a_grant_by_message_asks_at_once_if_another_hold_is_lost_by_it),
        TEST(test_a_late_answer_that_grants_is_undone_though_the_server_forgot),
        TEST(test_a_question_whose_waiter_is_gone_is_not_sent_again),
        TEST(test_a_replacement_that_is_refused_is_answered_once),
        TEST(test_of_several_a_cancel_counts_while_one_is_confirmed),
        TEST(test_a_release_that_loses_joined_holds_tells_of_its_own),
        TEST(test_a_lease_that_ends_on_the_way_of_its_release_loses_no_joined_hold),
        TEST(test_leases_whose_replacements_cross_are_renewed_in_time),
        TEST(test_a_lease_whose_replacement_is_refused_is_renewed_in_time),
        TEST(test_a_cancelled_try_that_meets_its_own_release_is_cancelled),
    };
    return RUN_TESTS(tests, count, words);
}

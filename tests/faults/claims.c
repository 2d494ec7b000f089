/* A lock that was won by waiting: its grant is claimed before it ends, whatever happens to the
 * claim, and its lease is as long as that of any other hold. */
#include "faults.h"

#include "protocol/scripts.h"

static proxy *way;
static hf_client *client, *other; /* client: through the proxy; other: past it */

static int set_up(void **state) {
    int result = begin_fault(state);
    way = open_both(&client, &other);
    return result;
}

static int tear_down(void **state) {
    (void)state;
    close_both(way, client, other);
    return 0;
}

/* Wait while the other client holds the lock and releases it after_ms later; return the hold. */
static hf_hold *won_by_waiting(hf_lock *lock, int after_ms) {
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold;
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    sleep_ms(after_ms);
    give_back(hold, HF_OK);
    hf_lock_close(theirs);
    if (atomic_load(&way->holds_grants)) {
        sleep_ms(2300);
        atomic_store(&way->holds_grants, false);
    }
    waiter_join(w, HF_OK);
    return w->hold;
}

/* Check that the hold lasts longer than its grant would without a claim. */
static void assert_claimed(hf_hold *hold) {
    for (int64_t until = now_ms() + 3500; now_ms() < until; sleep_ms(5))
        if (hf_hold_state(hold) != HF_STATE_HELD)
            fail_msg("lost %lld ms after it was won", (long long)(now_ms() - until + 3500));
    assert_in_range(hf_hold_remaining_ms(hold), 4000, NUMBER("PTTL k"));
}

/* ---------------------------------------------------------------- Claims */

static void test_a_claim_that_is_not_answered_is_made_again(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF);
    proxy_next(way, GO_DEAD, hf_script_claim.sha1);
    hf_hold *hold = won_by_waiting(lock, 0);
    assert_claimed(hold);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

static void test_a_claim_that_is_refused_once_is_made_again(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    proxy_next(way, REFUSE, hf_script_claim.sha1);
    hf_hold *hold = won_by_waiting(lock, 0);
    assert_claimed(hold);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

static void test_a_grant_that_comes_late_is_claimed_at_once(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF);
    atomic_store(&way->holds_grants, true);
    hf_hold *hold = won_by_waiting(lock, 0);
    assert_claimed(hold);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* The message is lost, and the re-check is sent when little of the grant is left. */
static void test_a_grant_that_a_recheck_finds_late_is_claimed_at_once(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold;
    atomic_store(&way->holds_grants, true);
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    sleep_ms(400); /* the next re-check is within 3 s, as long as the grant lasts */
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    assert_claimed(w->hold);
    give_back(w->hold, HF_OK);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

/* The acquire must return its hold with the whole lease, and cannot: then no caller has the lock.
 */
static void test_an_acquire_whose_lease_cannot_be_made_whole_gives_the_lock_back(void **state) {
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_WHOLE};
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    assert_true(hf_client_fd(client) >= 0);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, &options, 1), HF_OK);
    assert_soon(queued("k") == 1);
    proxy_next(way, REFUSE, hf_script_claim.sha1);
    give_back(hold, HF_OK);
    hf_completion ended = next_of(client);
    assert_int_equal(ended.kind, HF_KIND_ACQUIRE);
    assert_status(ended.status, HF_ESERVER);
    assert_null(ended.hold);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    /* Long before its grant would have ended. */
    assert_status(hf_lock_acquire(theirs, 1000, &hold), HF_OK);
    give_back(hold, HF_OK);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

/* ---------------------------------------------------------------- Leases */

/* Return how long the hold lasts from its grant; a fence is the time of the grant by the server's
 * clock. */
static int64_t lasts_ms(const hf_hold *hold) {
    return expires_at("k") - hf_hold_fence(hold) / 1000;
}

static void test_a_short_lease_won_by_waiting_ends_when_it_should(void **state) {
    static const int64_t leases[] = {300, 900, 3000};
    (void)state;
    for (size_t i = 0; i < COUNT(leases); i++) {
        hf_lock *lock = lease_lock(client, "k", leases[i], HF_OFF);
        hf_hold *hold = won_by_waiting(lock, 0);
        sleep_ms((int)(leases[i] * 2 / 3)); /* if it is ever claimed, it is now */
        /* The lease may end later by as long as the grant and the claim were on their way. */
        assert_in_range(lasts_ms(hold), leases[i] - EXPIRY_SLACK, leases[i] * 6 / 5);
        int64_t there = NUMBER("PTTL k"), here = hf_hold_remaining_ms(hold);
        assert_in_range(here, 1, there);
        assert_in_range(here, there - leases[i] / 5, there);
        assert_soon(hf_hold_state(hold) == HF_STATE_LOST);
        assert_int_equal(hf_hold_cause(hold), HF_CAUSE_EXPIRED);
        hf_hold_close(hold);
        hf_lock_close(lock);
        assert_soon(NUMBER("EXISTS k") == 0);
    }
}

static void test_a_short_lease_won_by_waiting_is_renewed_if_that_is_wanted(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 900, HF_ON);
    hf_hold *hold = won_by_waiting(lock, 0);
    for (int64_t until = now_ms() + 3000; now_ms() < until; sleep_ms(5))
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_claim_that_is_not_answered_is_made_again),
        TEST(test_a_claim_that_is_refused_once_is_made_again),
        TEST(test_a_grant_that_comes_late_is_claimed_at_once),
        TEST(test_a_grant_that_a_recheck_finds_late_is_claimed_at_once),
        TEST(test_an_acquire_whose_lease_cannot_be_made_whole_gives_the_lock_back),
        TEST(test_a_short_lease_won_by_waiting_ends_when_it_should),
        TEST(test_a_short_lease_won_by_waiting_is_renewed_if_that_is_wanted),
    };
    return RUN_TESTS(tests, count, words);
}

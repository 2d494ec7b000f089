/* Another program runs EXPIRE or PERSIST on the lock's key, whose end is the hold's: a renewal
 * restores an earlier end, a replacement any end, and a check reports what is certain. */
#include "../server.h"

#include <poll.h>

/* A key whose end another program has set ends after at most CUT_MS: longer than any pause of the
 * machine, and shorter than any lease that is set again. */
enum { LEASE_MS = 60000, CUT_MS = 20000 };

static hf_client *client;

static int set_up(void **state) {
    (void)state;
    start_afresh();
    client = open_client();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(client);
    return 0;
}

/* They give the key another end than the hold's: an earlier one, or none. */
static const char *const changes[] = {"EXPIRE k 20", "PEXPIRE k 15000", "PERSIST k"};

static hf_lock *lock_of(int64_t lease_ms, int32_t renew) {
    return lease_lock(client, "k", lease_ms, renew);
}

/* ----------------------------------------------------------------- Renewals */

static hf_status replace(hf_hold *hold, int64_t lease_ms) {
    return hf_hold_extend(hold, lease_ms, HF_EXTEND_REPLACE);
}

static hf_status renew(hf_hold *hold, int64_t lease_ms) {
    (void)lease_ms;
    return hf_hold_renew(hold);
}

/* Renew by a started operation. */
static hf_status renew_started(hf_hold *hold, int64_t lease_ms) {
    hf_completion c = {.size = sizeof c};
    (void)lease_ms;
    assert_status(hf_hold_renew_start(hold, 1), HF_OK);
    struct pollfd readable = {.fd = hf_client_fd(client), .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 20000), 1);
    assert_status(hf_client_next(client, &c), HF_OK);
    assert_int_equal(c.kind, HF_KIND_RENEWAL);
    return c.status;
}

static void assert_ends_after(int64_t lease_ms) {
    int64_t left = NUMBER("PTTL k");
    if (lease_ms == HF_NEVER)
        assert_int_equal(left, -1);
    else
        assert_in_range(left, CUT_MS + 1, lease_ms);
}

static void test_a_renewal_sets_the_end_of_the_key_again(void **state) {
    static hf_status (*const calls[])(hf_hold *, int64_t) = {renew, replace, renew_started};
    static const int64_t leases[] = {LEASE_MS, HF_NEVER};
    (void)state;
    for (size_t i = 0; i < COUNT(leases); i++)
        for (size_t j = 0; j < COUNT(calls); j++)
            for (size_t k = 0; k < COUNT(changes); k++) {
                hf_lock *lock = lock_of(leases[i], HF_OFF);
                hf_hold *hold = held(lock);
                TELL(changes[k]);
                assert_status(calls[j](hold, leases[i]), HF_OK);
                /* A renewal never shortens. */
                bool stays = strcmp(changes[k], "PERSIST k") == 0 && calls[j] != replace;
                assert_ends_after(stays ? HF_NEVER : leases[i]);
                if (leases[i] == HF_NEVER)
                    assert_int_equal(hf_hold_remaining_ms(hold), HF_NEVER);
                give_back(hold, HF_OK);
                hf_lock_close(lock);
            }
}

/* The hold's own end does not change, but the key's must. */
static void test_a_renewal_in_the_same_millisecond_sets_the_end_of_the_key(void **state) {
    (void)state;
    hf_lock *lock = lock_of(LEASE_MS, HF_OFF);
    for (int i = 0; i < 300; i++) {
        hf_hold *hold = held(lock);
        TELL(changes[i % 2]);
        assert_status(i % 4 < 2 ? renew(hold, LEASE_MS) : replace(hold, LEASE_MS), HF_OK);
        assert_ends_after(LEASE_MS);
        assert_status(hf_hold_check(hold), HF_OK);
        assert_in_range(hf_hold_remaining_ms(hold), CUT_MS + 1, LEASE_MS);
        give_back(hold, HF_OK);
    }
    hf_lock_close(lock);
}

/* ------------------------------------------------------------------- Checks */

static void test_a_check_says_what_the_key_has_left(void **state) {
    static const int64_t leases[] = {LEASE_MS, HF_NEVER};
    (void)state;
    for (size_t i = 0; i < COUNT(leases); i++)
        for (size_t k = 0; k < COUNT(changes); k++) {
            hf_lock *lock = lock_of(leases[i], HF_OFF);
            hf_hold *hold = held(lock);
            TELL(changes[k]);
            assert_status(hf_hold_check(hold), HF_OK);
            int64_t remaining = hf_hold_remaining_ms(hold), left = NUMBER("PTTL k");
            if (leases[i] != HF_NEVER && left == -1)
                assert_in_range(remaining, CUT_MS + 1, LEASE_MS);
            else if (leases[i] != HF_NEVER)
                assert_in_range(remaining, 1, CUT_MS);
            else if (remaining != HF_NEVER) /* or it is already renewed */
                assert_in_range(remaining, 1, CUT_MS);
            give_back(hold, HF_OK);
            hf_lock_close(lock);
        }
}

static void test_a_hold_that_was_found_cut_short_ends_with_its_key(void **state) {
    (void)state;
    hf_lock *lock = lock_of(LEASE_MS, HF_OFF);
    hf_hold *hold = held(lock);
    TELL("PEXPIRE k 1000");
    assert_status(hf_hold_check(hold), HF_OK);
    for (;;) {
        bool exists = NUMBER("EXISTS k") == 1;
        if (hf_hold_state(hold) != HF_STATE_HELD)
            break;
        assert_true(exists);
    }
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_EXPIRED);
    give_back(hold, HF_ELOST);
    hf_lock_close(lock);
}

/* The renewal is immediate, not after a third of the lease; also for an endless hold. */
static void test_a_hold_that_was_found_cut_short_is_renewed_at_once(void **state) {
    static const int64_t leases[] = {60000, HF_NEVER};
    (void)state;
    for (size_t i = 0; i < COUNT(leases); i++) {
        hf_lock *lock = lock_of(leases[i], HF_DEFAULT);
        hf_hold *hold = held(lock);
        TELL("PEXPIRE k 15000");
        assert_status(hf_hold_check(hold), HF_OK);
        if (leases[i] == HF_NEVER) {
            assert_soon(NUMBER("PTTL k") == -1);
            assert_soon(hf_hold_remaining_ms(hold) == HF_NEVER);
        } else {
            assert_soon(NUMBER("PTTL k") > 50000);
            assert_soon(hf_hold_remaining_ms(hold) > 50000);
        }
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        give_back(hold, HF_OK);
        hf_lock_close(lock);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_renewal_sets_the_end_of_the_key_again),
        TEST(test_a_renewal_in_the_same_millisecond_sets_the_end_of_the_key),
        TEST(test_a_check_says_what_the_key_has_left),
        TEST(test_a_hold_that_was_found_cut_short_ends_with_its_key),
        TEST(test_a_hold_that_was_found_cut_short_is_renewed_at_once),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

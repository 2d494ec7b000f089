/* Whatever a client takes as certain of a hold is true, stays true, and is reported. */
#include "both.h"

#include "lock/renewal.h"

static int set_up(void **state) { return begin_both(state, 2000); }
static int tear_down(void **state) { return end_both(state); }

/* F7: the companion key of one lock has another type, and the server refuses the whole call. */
static void test_a_bad_companion_key_costs_its_own_lock_alone(void **state) {
    (void)state;
    hf_lock *well = lease_lock(client, "a", 2000, HF_ON), *bad;
    bad =
        open_lock(client, "b", NULL, OPTIONS(.lease_ms = 2000, .renew = HF_ON, .mode = HF_SHARED));
    hf_hold *kept = held(well), *lost = held(bad), *beside = held(bad);
    TELL("DEL {b}b:hf1:s");
    TELL("SET {b}b:hf1:s text");
    for (int64_t until = now_ms() + 8000; now_ms() < until; sleep_ms(5)) {
        assert_int_equal(hf_hold_state(kept), HF_STATE_HELD);
        assert_in_range(hf_hold_remaining_ms(kept), 1, NUMBER("PTTL a"));
    }
    assert_int_equal(hf_hold_state(lost), HF_STATE_LOST);
    give_back(kept, HF_OK);
    hf_hold_close(lost);
    hf_hold_close(beside);
    hf_lock_close(well);
    hf_lock_close(bad);
}

/* F11 */
static void test_a_token_is_adopted_in_its_own_mode_alone(void **state) {
    char token[HF_TOKEN_MAX];
    size_t length;
    (void)state;
    hf_lock *shared = open_lock(client, "k", NULL,
                                OPTIONS(.lease_ms = 5000, .renew = HF_OFF, .mode = HF_SHARED)),
            *theirs = open_lock(other, "k", NULL,
                                OPTIONS(.lease_ms = 5000, .renew = HF_OFF, .mode = HF_SHARED)),
            *exclusive = lease_lock(other, "k", 5000, HF_OFF);
    hf_hold *beside = held(theirs), *handed = held(shared), *adopted;
    assert_status(hf_hold_hand_over(handed, token, sizeof token, &length), HF_OK);
    hf_hold_close(handed);
    assert_status(hf_lock_adopt(exclusive, token, length, &adopted), HF_EINVAL);
    assert_status(hf_lock_adopt(theirs, token, length, &adopted), HF_OK);
    give_back(adopted, HF_OK);
    give_back(beside, HF_OK);
    hf_lock_close(shared);
    hf_lock_close(theirs);
    hf_lock_close(exclusive);
}

/* The adopting client has done nothing before, and its process lacks memory and threads. */
static void test_a_hold_that_is_adopted_is_renewed(void **state) {
    char token[HF_TOKEN_MAX];
    size_t length;
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 60; n++) {
        hf_client *cat = open_client();
        hf_lock *theirs = lease_lock(cat, "k", 3000, HF_ON);
        hf_hold *handed = held(lock), *adopted;
        hf_status status;
        assert_status(hf_hold_hand_over(handed, token, sizeof token, &length), HF_OK);
        hf_hold_close(handed);
        alarm(200);
        sim_set.no_memory = 0.1;
        do
            status = hf_lock_adopt(theirs, token, length, &adopted);
        while (status != HF_OK);
        sim_set.no_memory = 0;
        sleep_ms(70000);
        give_back(adopted, HF_OK);
        hf_lock_close(theirs);
        hf_client_close(cat);
    }
    sim_may_lack_memory(sim_self(), false);
    hf_lock_close(lock);
}

/* G7: a slow check answers; what was certain before it stays certain. */
static void test_a_check_with_a_slow_way_takes_nothing_back(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 3000, HF_OFF);
    hf_hold *hold = held(lock);
    int64_t until = now_ms() + hf_hold_remaining_ms(hold);
    atomic_store(&way->delay_ms, 300);
    assert_status(hf_hold_check(hold), HF_OK);
    atomic_store(&way->delay_ms, 0);
    assert_in_range(now_ms() + hf_hold_remaining_ms(hold), until - 5, until + 5);
    for (; now_ms() < until - 5; sleep_ms(1))
        assert_int_equal(NUMBER("EXISTS k"), 1);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* A slow check: the lease that is left when it arrives is shorter than the way back. */
static void test_a_check_whose_way_is_longer_than_what_is_left_loses_no_hold(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 1000, HF_OFF);
    hf_hold *hold = held(lock);
    sleep_ms(600);
    atomic_store(&way->delay_ms, 150);
    assert_status(hf_hold_check(hold), HF_OK);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    atomic_store(&way->delay_ms, 0);
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* Check a grant that arrives late_ms late, after a step of the server's clock, and whose claim is
 * under way for long. */
static void assert_grant_is_short(int late_ms, int step_ms) {
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    sleep_ms(500);
    int mishaps = atomic_load(&way->mishaps);
    servers_set_clock(0, step_ms * SIM_MS);
    atomic_store(&way->holds_grants, true);
    proxy_next(way, HOLD_REQUEST, hf_script_claim.sha1);
    give_back(hold, HF_OK);
    sleep_ms(late_ms);
    atomic_store(&way->holds_grants, false);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    assert_soon(atomic_load(&way->mishaps) == mishaps + 1);
    int64_t until = now_ms() + 500;
    for (; now_ms() < until; sleep_ms(5))
        assert_in_range(hf_hold_remaining_ms(done.hold), 1, NUMBER("PTTL k"));
    atomic_store(&way->holds_request, false);
    assert_soon(hf_hold_remaining_ms(done.hold) > 50000);
    give_back(done.hold, HF_OK);
    servers_set_clock(0, 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static void test_a_grant_is_short_until_it_is_claimed(void **state) {
    (void)state;
    assert_grant_is_short(0, 0);
}

static void test_a_grant_that_comes_late_is_shorter(void **state) {
    (void)state;
    assert_grant_is_short(1000, 0);
}

/* H272: the server's clock steps back, so that the grant seems to be old. */
static void test_a_grant_after_a_step_back_keeps_its_turn(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    waiter *behind = waiter_start(theirs, 20000);
    assert_soon(queued("k") == 2);
    servers_set_clock(0, -5 * SIM_S);
    give_back(hold, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    assert_false(atomic_load(&behind->done));
    give_back(done.hold, HF_OK);
    waiter_join(behind, HF_OK);
    give_back(behind->hold, HF_OK);
    servers_set_clock(0, 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* H271: a thread stands still while it has the client's mutex. */
static void test_the_end_of_a_hold_is_told_whoever_has_the_mutex(void **state) {
    char name[HF_NAME_MAX];
    size_t length;
    (void)state;
    for (int how = 0; how < 4; how++) {
        hf_lock *lock = lease_lock(client, "k", 200, HF_OFF);
        assert_status(hf_lock_acquire_as(lock, "me", 2, 0, NULL, NULL), HF_OK);
        hf_hold *hold;
        assert_status(hf_lock_current_as(lock, "me", 2, &hold), HF_OK);
        sleep_ms(100);
        pthread_t thread = mutex_thread(client);
        if (how == 0)
            assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
        else if (how == 1)
            assert_int_equal(hf_hold_remaining_ms(hold), 0);
        else if (how == 2)
            assert_int_equal(hf_lock_count_as(lock, "me", 2), 0);
        else
            assert_status(hf_client_kept(client, "me", 2, name, sizeof name, &length), HF_ENOTHELD);
        pthread_join(thread, NULL);
        hf_hold_release(hold);
        hf_hold_close(hold);
        hf_lock_close(lock);
    }
}

/* H255 */
static void test_a_grant_that_comes_late_after_a_step_is_shorter(void **state) {
    (void)state;
    assert_grant_is_short(1000, 5000);
    assert_grant_is_short(1000, -5000);
}

/* Seed 16060: the key is deleted, another client has the lock, and then a late copy of the acquire
 * arrives. */
static void test_a_claim_finds_that_only_a_late_copy_has_the_lock(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    proxy_next(way, LATE_REQUEST, hf_script_acquire.sha1);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    proxy_next(way, HOLD_REQUEST, hf_script_claim.sha1);
    give_back(hold, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 2);
    TELL("DEL k");
    give_back(held(theirs), HF_OK);
    proxy_deliver(way);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    atomic_store(&way->holds_request, false);
    assert_soon(hf_hold_state(done.hold) == HF_STATE_LOST);
    hf_hold_close(done.hold);
    assert_stays_free("k", 500);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* Acquire for "me", and return the hold that the message of a release grants. */
static hf_hold *granted_to_me(hf_lock *lock, hf_lock *theirs) {
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, "me", 2, 20000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    return done.hold;
}

static void test_a_claim_learns_that_another_hold_nests_in_its_own(void **state) {
    (void)state;
    hf_lock *lock = open_lock(client, "k", "me", OPTIONS(.lease_ms = 60000, .renew = HF_ON)),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *mine = granted_to_me(lock, theirs);
    hf_hold *hold = held(lock);
    assert_int_equal(hf_hold_fence(hold), hf_hold_fence(mine));
    assert_in_range(hf_hold_remaining_ms(mine), 0, 3000);
    sleep_ms(2000);
    assert_in_range(hf_hold_remaining_ms(mine), 50000, 60000);
    give_back(hold, HF_OK);
    give_back(mine, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static void test_a_grant_whose_handle_is_closed_has_its_lease_though_another_nests(void **state) {
    (void)state;
    hf_lock *lock = open_lock(client, "k", "me", OPTIONS(.lease_ms = 60000, .renew = HF_ON)),
            *inner = open_lock(other, "k", "me", OPTIONS(.lease_ms = 60000, .renew = HF_ON)),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *mine = granted_to_me(lock, theirs);
    hf_hold *hold = held(inner);
    assert_int_equal(hf_hold_fence(hold), hf_hold_fence(mine));
    hf_hold_close(mine);
    give_back(hold, HF_OK);
    sleep_ms(1000);
    assert_in_range(NUMBER("PTTL k"), 50000, 60000);
    TELL("DEL k");
    hf_lock_close(lock);
    hf_lock_close(inner);
    hf_lock_close(theirs);
}

/* For leaders: a lock that was waited for has its whole lease when the acquire returns. */
static void test_an_acquire_that_asks_for_its_whole_lease_has_it(void **state) {
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_WHOLE};
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 10000, HF_ON),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, &options, 1), HF_OK);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    assert_in_range(hf_hold_remaining_ms(done.hold), 6600, 10000);
    for (int64_t until = now_ms() + 20000; now_ms() < until; sleep_ms(10))
        assert_in_range(hf_hold_remaining_ms(done.hold), 2501, 10000);
    give_back(done.hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* The confirming thread or the keeper stands still until the lease has ended. */
static void test_a_hold_that_is_lost_when_it_is_confirmed_is_not_told_as_held(void **state) {
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_WHOLE};
    sim_settings before = sim_set;
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 4600, HF_OFF),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    for (int n = 0; n < 200; n++) {
        alarm(600);
        hf_hold *hold = held(theirs);
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, &options, 1), HF_OK);
        assert_soon(queued("k") == 1);
        give_back(hold, HF_OK);
        sim_set.stunned = 0.2;
        sim_set.stunned_ns = 30 * SIM_S;
        hf_completion done = completion_within(client, 200000), lost;
        sim_set = before;
        if (done.status == HF_OK) {
            lost = completion_within(client, 60000);
            assert_int_equal(lost.kind, HF_KIND_LOSS);
            hf_hold_close(done.hold);
        }
        sleep_ms(30000); /* until all threads run again */
        assert_int_equal(NUMBER("EXISTS k"), 0);
    }
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

typedef struct confirmed {
    pthread_t thread;
    hf_lock *lock;
    hf_hold *hold;
    hf_status status;
    char why[200];
} confirmed;

static void *acquire_whole(void *argument) {
    confirmed *mine = argument;
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_WHOLE};
    mine->status = hf_lock_acquire_as(mine->lock, NULL, 0, 20000, &options, &mine->hold);
    snprintf(mine->why, sizeof mine->why, "%s", hf_error_message());
    return NULL;
}

/* H221: the acquiring thread stands still while its hold is confirmed, and another thread closes
 * the client. */
static void
test_a_hold_that_a_close_released_when_it_is_confirmed_is_not_told_as_lost(void **state) {
    sim_settings before = sim_set;
    (void)state;
    hf_lock *theirs = lease_lock(other, "k", 600000, HF_OFF);
    for (int n = 0; n < 200; n++) {
        alarm(600);
        hf_client *leaving = open_client();
        confirmed mine = {.lock = lease_lock(leaving, "k", 600000, HF_OFF)};
        hf_hold *hold = held(theirs);
        assert_int_equal(pthread_create(&mine.thread, NULL, acquire_whole, &mine), 0);
        assert_soon(queued("k") == 1);
        give_back(hold, HF_OK);
        sim_set.stunned = 0.2;
        sim_set.stunned_ns = SIM_S / 3; /* shorter than a grant */
        sleep_ms(10);
        sim_set = before;
        hf_client_close(leaving);
        pthread_join(mine.thread, NULL);
        if (mine.status == HF_ELOST)
            fail_msg("what a close released is told as lost: %s", mine.why);
        hf_hold_close(mine.hold);
        hf_lock_close(mine.lock);
        TELL("DEL k");
    }
    hf_lock_close(theirs);
}

/* A step back of the server's clock gives the key a longer life, which a correction may cut short.
 */
static void test_a_clock_that_steps_back_makes_no_hold_last_longer(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 3000, HF_OFF);
    hf_hold *hold = held(lock);
    int64_t until = now_ms() + 3000;
    sim_server_step(servers_at(0), -10 * SIM_S);
    assert_status(hf_hold_check(hold), HF_OK);
    assert_in_range(NUMBER("PTTL k"), 12000, 13000);
    assert_in_range(now_ms() + hf_hold_remaining_ms(hold), 0, until);
    sim_server_step(servers_at(0), 10 * SIM_S);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* Check that the hold counts until `until` at the latest, while the server reports a longer time
 * than it will keep. */
static void assert_counts_until(hf_hold *hold, int64_t until) {
    sim_server_step(servers_at(0), -30 * SIM_S);
    assert_status(hf_hold_check(hold), HF_OK);
    assert_in_range(NUMBER("PTTL k"), 30000, 40000);
    assert_in_range(now_ms() + hf_hold_remaining_ms(hold), 0, until);
    sim_server_step(servers_at(0), 30 * SIM_S);
    give_back(hold, HF_OK);
}

static void test_nor_one_that_is_adopted(void **state) {
    char token[HF_TOKEN_MAX];
    size_t length;
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 3000, HF_OFF);
    hf_hold *handed = held(lock), *adopted;
    assert_status(hf_hold_hand_over(handed, token, sizeof token, &length), HF_OK);
    assert_status(hf_lock_adopt(lock, token, length, &adopted), HF_OK);
    assert_counts_until(adopted, now_ms() + 3000);
    hf_hold_close(handed);
    hf_lock_close(lock);
}

/* The extension has ended, or the lease has been replaced since. */
static void test_nor_one_that_was_once_extended(void **state) {
    (void)state;
    for (int replaced = 0; replaced < 2; replaced++) {
        hf_lock *lock = lease_lock(client, "k", 3000, HF_ON);
        hf_hold *hold = held(lock);
        int64_t until = now_ms() + 12000;
        assert_status(hf_hold_extend(hold, 9000, 0), HF_OK);
        assert_in_range(now_ms() + hf_hold_remaining_ms(hold), until - 50, until);
        if (replaced)
            assert_status(hf_hold_extend(hold, 3000, HF_EXTEND_REPLACE), HF_OK);
        else
            sleep_ms(20000);
        assert_counts_until(hold, now_ms() + 3000);
        hf_lock_close(lock);
    }
}

/* The refused lease is longer than the time left until max_hold. */
static void test_a_replacement_that_is_refused_ends_no_hold_before_its_max_hold(void **state) {
    (void)state;
    for (int at_ms = 0; at_ms < 60000; at_ms += 30000) {
        hf_lock *lock = open_lock(client, "k", NULL,
                                  OPTIONS(.lease_ms = 9000, .renew = HF_ON, .max_hold_ms = 60000));
        int64_t until = now_ms() + 60000;
        alarm(200);
        hf_hold *hold = held(lock);
        sleep_ms(at_ms);
        servers_refuse(0, SIM_WRITES, "MISCONF it cannot write", -1);
        assert_status(hf_hold_extend(hold, 86400000, HF_EXTEND_REPLACE), HF_ESERVER);
        servers_refuse(0, SIM_WRITES, NULL, 0);
        while (hf_hold_state(hold) == HF_STATE_HELD)
            sleep_ms(10);
        assert_in_range(now_ms(), until - 200, until + 10);
        assert_int_equal(hf_hold_cause(hold), HF_CAUSE_EXPIRED);
        give_back(hold, HF_ELOST);
        hf_lock_close(lock);
    }
}

static void test_a_clock_that_runs_fast_ends_no_hold_before_its_client_knows(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(other, "k", 20000, HF_OFF);
    sim_server_drift(servers_at(0), 900);
    hf_hold *hold = held(lock);
    sleep_ms(19900);
    for (; hf_hold_remaining_ms(hold) > 0; sleep_ms(1))
        assert_int_equal(NUMBER("EXISTS k"), 1);
    sim_server_drift(servers_at(0), 0);
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* The server forgets one of two holds, and the renewal of that hold finds out. */
static void test_of_joined_holds_losing_one_is_losing_all(void **state) {
    (void)state;
    hf_lock *locks[] = {lease_lock(client, "a", 2000, HF_ON), lease_lock(client, "b", 2000, HF_ON)};
    hf_hold *holds[2];
    assert_status(hf_lock_acquire_all(locks, 2, NULL, 0, 0, NULL, holds), HF_OK);
    TELL("DEL a");
    assert_soon(hf_hold_state(holds[0]) == HF_STATE_LOST);
    assert_int_equal(hf_hold_state(holds[1]), HF_STATE_LOST);
    assert_soon(NUMBER("EXISTS b") == 0);
    for (int i = 0; i < 2; i++) {
        hf_hold_close(holds[i]);
        hf_lock_close(locks[i]);
    }
}

static int64_t releases(void) {
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(client, &stats), HF_OK);
    return stats.released;
}

static void test_a_release_that_finds_what_it_is_to_keep_lost_ends_it(void **state) {
    hf_stats stats = {.size = sizeof stats};
    hf_hold *hold;
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    for (int how = 1; how <= 3; how++) {
        assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
        assert_status(hf_lock_current_as(lock, NULL, 0, &hold), HF_OK);
        assert_status(hf_hold_keep_at_least(hold, 60000), HF_OK);
        TELL("DEL k");
        if (how == 1)
            assert_status(hf_lock_release(lock), HF_ELOST);
        else if (how == 2)
            assert_status(hf_hold_release(hold), HF_ELOST);
        else
            assert_status(hf_hold_release_start(hold, 1), HF_OK);
        while (how == 3 && next_of(client).kind != HF_KIND_RELEASE)
            continue;
        assert_int_equal(hf_hold_cause(hold), HF_CAUSE_GONE);
        assert_status(hf_lock_release(lock), HF_ENOTHELD);
        assert_status(hf_client_stats(client, &stats), HF_OK);
        assert_int_equal(stats.held, 0);
        assert_int_equal(stats.lost_gone, how);
        hf_hold_close(hold);
    }
    hf_lock_close(lock);
}

static hf_status extend(hf_hold *hold) { return hf_hold_extend(hold, 60000, 0); }
static hf_status replace(hf_hold *hold) { return hf_hold_extend(hold, 60000, HF_EXTEND_REPLACE); }
static hf_status keep(hf_hold *hold) { return hf_hold_keep(hold, 60000); }
static void server_goes_on(void *unused) {
    (void)unused;
    sim_server_pause(servers_at(0), false);
}

/* H284: the server stands still until the lease has ended, and then does not have the hold. */
static void test_what_ends_on_the_way_of_a_call_is_told_as_that(void **state) {
    static hf_status (*const calls[])(hf_hold * hold) = {
        hf_hold_release, hf_hold_renew, hf_hold_check, extend, replace, keep};
    (void)state;
    for (int timed = 0; timed < 2; timed++) /* a timer sees the end, or no thread but this */
        for (int renew = 0; renew <= timed; renew++) {
            hf_client *ann = open_client();
            hf_lock *lock = lease_lock(ann, "k", 600, renew ? HF_ON : HF_OFF);
            int32_t cause = renew ? HF_CAUSE_UNREACHABLE : HF_CAUSE_EXPIRED;
            hf_stats stats = {.size = sizeof stats};
            assert_true(!timed || hf_client_fd(ann) >= 0);
            for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                hf_hold *hold = held(lock);
                sleep_ms(100);
                sim_server_pause(servers_at(0), true);
                sim_at(sim_now() + 700 * SIM_MS, server_goes_on, NULL);
                sleep_ms(300);
                assert_status(calls[i](hold), HF_ELOST);
                assert_int_equal(hf_error_last()->cause, cause);
                assert_int_equal(hf_hold_cause(hold), cause);
                assert_null(strstr(hf_error_message(), "no longer knows it"));
                assert_status(hf_client_stats(ann, &stats), HF_OK);
                assert_int_equal(renew ? stats.lost_unreachable : stats.lost_expired, i + 1);
                assert_int_equal(stats.lost_gone, 0);
                hf_hold_close(hold);
            }
            hf_lock_close(lock);
            hf_client_close(ann);
        }
}

/* H284: a hold is deleted, and the shorter lease of a hold that it is joined with ends before any
 * thread sees that. */
static void
test_what_is_gone_is_told_as_that_though_what_it_is_joined_with_has_ended(void **state) {
    hf_client *ann = open_client();
    hf_lock *locks[] = {lease_lock(ann, "a", 10000, HF_ON), lease_lock(ann, "b", 600, HF_OFF)};
    hf_hold *holds[2];
    (void)state;
    assert_status(hf_lock_acquire_all(locks, 2, NULL, 0, 0, NULL, holds), HF_OK);
    sim_server_pause(servers_at(0), true);
    sim_at(sim_now() + 700 * SIM_MS, server_goes_on, NULL);
    servers_command(0, "DEL a");
    for (size_t i = 0, main = sim_threads(sim_self()) - 1; i < main; i++)
        sim_stun(sim_self(), i, 2 * SIM_S);
    assert_status(hf_hold_check(holds[0]), HF_ELOST);
    assert_int_equal(hf_error_last()->cause, HF_CAUSE_GONE);
    assert_int_equal(hf_hold_cause(holds[0]), HF_CAUSE_GONE);
    for (int i = 0; i < 2; i++) {
        hf_hold_close(holds[i]);
        hf_lock_close(locks[i]);
    }
    hf_client_close(ann);
}

static void test_a_started_release_is_counted_as_any_other(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 3000, HF_OFF);
    int64_t before = releases();
    give_back(held(lock), HF_OK);
    assert_int_equal(releases(), before + 1);
    hf_hold *hold = held(lock);
    assert_status(hf_hold_release_start(hold, 1), HF_OK);
    assert_status(next_of(client).status, HF_OK);
    assert_int_equal(releases(), before + 2);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* Calls share one connection while the server stands still: all but the last give up and send
 * again, and the last call asks for a lock that another client holds. */
static void test_an_answer_whose_call_has_given_up_is_nobody_elses(void **state) {
    enum { CROWD = 4, LAST = CROWD - 1 };
    hf_lock *locks[CROWD];
    waiter *crowd[CROWD];
    (void)state;
    hf_client *far = open_with(tcp_url(), 2000, 1000);
    hf_lock *theirs = lease_lock(other, "k3", 60000, HF_OFF);
    for (int i = 0; i < CROWD; i++)
        locks[i] = lease_lock(far, text("k%d", i), 30000, HF_OFF);
    for (int round = 0; round < 2; round++) { /* the first round opens connections */
        hf_hold *hold = round > 0 ? held(theirs) : NULL;
        sim_server_pause(servers_at(0), true);
        for (int i = 0; i < CROWD; i++) {
            if (i == LAST && round > 0)
                sleep_ms(500);
            crowd[i] = waiter_start(locks[i], 0);
            sleep_ms(1);
        }
        sleep_ms(round > 0 ? 700 : 50);
        sim_server_pause(servers_at(0), false);
        for (int i = 0; i < CROWD; i++) {
            waiter_join(crowd[i], round > 0 && i == LAST ? HF_EBUSY : HF_OK);
            if (crowd[i]->hold != NULL)
                give_back(crowd[i]->hold, HF_OK);
        }
        if (hold != NULL)
            give_back(hold, HF_OK);
    }
    assert_stays_free("k3", 0);
    for (int i = 0; i < CROWD; i++)
        hf_lock_close(locks[i]);
    hf_lock_close(theirs);
    hf_client_close(far);
}

/* The age of the hold, subtracted from a shorter lease that replaced the first, gives -1 in some
 * millisecond, which also means "never". */
static void test_a_claim_never_makes_a_hold_endless(void **state) {
    hf_lock *lock = lease_lock(client, "k", 60, HF_OFF);
    hf_hold *hold = held(lock);
    (void)state;
    assert_status(hf_hold_extend(hold, 10, HF_EXTEND_REPLACE), HF_OK);
    for (int i = 0; i < 40; i++) {
        assert_in_range(hf_hold_claim_ms(hold), 10, 60);
        sleep_ms(1);
    }
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* The server restarts without its data and with a clock that is behind. */
static void test_fences_grow_although_the_server_has_lost_them(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 5000, HF_OFF);
    hf_hold *hold = held(lock);
    int64_t fence = hf_hold_fence(hold);
    give_back(hold, HF_OK);
    TELL("FLUSHALL");
    sim_server_step(servers_at(0), -3600 * SIM_S);
    hold = held(lock);
    assert_true(hf_hold_fence(hold) > fence);
    give_back(hold, HF_OK);
    sim_server_step(servers_at(0), 3600 * SIM_S);
    hf_lock_close(lock);
}

typedef struct {
    hf_lock *lock;
    hf_hold *hold;
} keeping;

static void *keep_there(void *argument) {
    keeping *k = argument;
    hf_acquire_options keep = {.size = sizeof keep, .flags = HF_ACQUIRE_KEEP};
    must(hf_lock_acquire_as(k->lock, NULL, 0, 0, &keep, &k->hold) == HF_OK);
    return NULL;
}

/* Two threads use one handle, and the first loses its hold before it releases the lock. */
static void test_a_release_by_the_lock_takes_no_hold_of_another_thread(void **state) {
    const char *owners[] = {NULL, "me"};
    hf_hold *mine;
    (void)state;
    for (size_t i = 0; i < COUNT(owners); i++) {
        keeping there = {.lock = open_lock(client, "k", owners[i],
                                           OPTIONS(.lease_ms = 2000, .reentrant = HF_OFF))};
        assert_status(hf_lock_acquire(there.lock, 0, NULL), HF_OK);
        assert_status(hf_lock_current_as(there.lock, NULL, 0, &mine), HF_OK);
        TELL("DEL k");
        assert_soon(hf_hold_state(mine) == HF_STATE_LOST);
        run_together(1, keep_there, &there, 0);
        assert_status(hf_lock_release(there.lock), HF_ELOST);
        assert_int_equal(hf_hold_state(there.hold), HF_STATE_HELD);
        assert_int_equal(NUMBER("EXISTS k"), 1);
        assert_status(hf_lock_release(there.lock), HF_OK); /* this thread holds nothing any more */
        assert_int_equal(hf_hold_state(there.hold), HF_STATE_RELEASED);
        hf_hold_close(there.hold);
        hf_hold_close(mine);
        hf_lock_close(there.lock);
    }
}

static void test_a_thread_gives_back_its_own_permit(void **state) {
    hf_hold *mine;
    (void)state;
    keeping there = {.lock = open_lock(client, "k", NULL,
                                       OPTIONS(.lease_ms = 2000, .reentrant = HF_OFF,
                                               .mode = HF_SHARED, .permits = 2))};
    assert_status(hf_lock_acquire(there.lock, 0, NULL), HF_OK);
    assert_status(hf_lock_current_as(there.lock, NULL, 0, &mine), HF_OK);
    run_together(1, keep_there, &there, 0);
    assert_status(hf_lock_release(there.lock), HF_OK);
    assert_int_equal(hf_hold_state(mine), HF_STATE_RELEASED);
    assert_int_equal(hf_hold_state(there.hold), HF_STATE_HELD);
    give_back(there.hold, HF_OK);
    hf_hold_close(mine);
    hf_lock_close(there.lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_bad_companion_key_costs_its_own_lock_alone),
        TEST(test_a_token_is_adopted_in_its_own_mode_alone),
        TEST(test_a_hold_that_is_adopted_is_renewed),
        TEST(test_a_check_with_a_slow_way_takes_nothing_back),
        TEST(test_a_check_whose_way_is_longer_than_what_is_left_loses_no_hold),
        TEST(test_a_clock_that_steps_back_makes_no_hold_last_longer),
        TEST(test_nor_one_that_is_adopted),
        TEST(test_nor_one_that_was_once_extended),
        TEST(test_a_replacement_that_is_refused_ends_no_hold_before_its_max_hold),
        TEST(test_a_clock_that_runs_fast_ends_no_hold_before_its_client_knows),
        TEST(test_of_joined_holds_losing_one_is_losing_all),
        TEST(test_a_grant_is_short_until_it_is_claimed),
        TEST(test_a_grant_that_comes_late_is_shorter),
        TEST(test_a_grant_that_comes_late_after_a_step_is_shorter),
        TEST(test_a_grant_after_a_step_back_keeps_its_turn),
        TEST(test_the_end_of_a_hold_is_told_whoever_has_the_mutex),
        TEST(test_a_claim_never_makes_a_hold_endless),
        TEST(test_a_claim_finds_that_only_a_late_copy_has_the_lock),
        TEST(test_a_claim_learns_that_another_hold_nests_in_its_own),
        TEST(test_a_grant_whose_handle_is_closed_has_its_lease_though_another_nests),
        TEST(test_an_acquire_that_asks_for_its_whole_lease_has_it),
        TEST(test_a_hold_that_is_lost_when_it_is_confirmed_is_not_told_as_held),
        TEST(test_a_hold_that_a_close_released_when_it_is_confirmed_is_not_told_as_lost),
        TEST(test_a_release_that_finds_what_it_is_to_keep_lost_ends_it),
        TEST(test_what_ends_on_the_way_of_a_call_is_told_as_that),
        TEST(test_what_is_gone_is_told_as_that_though_what_it_is_joined_with_has_ended),
        TEST(test_a_started_release_is_counted_as_any_other),
        TEST(test_a_release_by_the_lock_takes_no_hold_of_another_thread),
        TEST(test_a_thread_gives_back_its_own_permit),
        TEST(test_an_answer_whose_call_has_given_up_is_nobody_elses),
        TEST(test_fences_grow_although_the_server_has_lost_them),
    };
    return RUN_TESTS(tests, count, words);
}

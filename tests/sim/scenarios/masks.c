/* Three and five independent masters: each subset fails in each way, at many moments of each step
 * of an operation. If a minority fails: one holder at a time, growing fences, and each call ends in
 * time. If a majority fails: no holder, and the message says so, never that others hold the lock.
 */
#include "scenario.h"

deployment sim_deployment = FIVE_MASTERS;

enum { MOST = 5, LEASE_MS = 3000, PATIENCE_MS = 2000, IN_TIME_MS = 2500 };

static const char *const urls[] = {
    [3] = "redis+quorum://10.0.0.1:6379,10.0.0.8:6379,10.0.0.9:6379",
    [5] = "redis+quorum://10.0.0.1:6379,10.0.0.8:6379,10.0.0.9:6379,10.0.0.10:6379,10.0.0.11:6379",
};

/* ------------------------------------------------------------------ Faults */

typedef enum { DEAD, EMPTY, HUNG, APART, DEAF, MUTE, STALLS, KINDS } fault;
static const char *const names[KINDS] = {"dead", "empty", "hung",  "apart",
                                         "deaf", "mute",  "stalls"};

static void answer_again(void *server) { sim_server_pause(server, false); }
static void be_silent(void *server) {
    sim_server_pause(server, true);
    sim_at(sim_now() + 200 * SIM_MS, answer_again, server);
}

static void set_fault(int which, fault kind, bool on) {
    int host = servers_host(which);
    switch (kind) {
    case DEAD:
        if (on)
            sim_server_stop(servers_at(which));
        else
            servers_restart(which, true, SIM_US);
        break;
    case EMPTY:
        if (on)
            servers_restart(which, false, SIM_MS);
        break;
    case HUNG:
        sim_server_pause(servers_at(which), on);
        break;
    case STALLS: /* it answers in a tenth of the next seconds */
        for (int n = 0; on && n < 50; n++)
            sim_at(sim_now() + n * 220 * SIM_MS, be_silent, servers_at(which));
        break;
    default:
        if (kind != MUTE)
            sim_way(HERE, host, !on);
        if (kind != DEAF)
            sim_way(host, HERE, !on);
    }
}

static void set_all(unsigned mask, fault kind, bool on) {
    for (int i = 0; i < MOST; i++)
        if (mask >> i & 1)
            set_fault(i, kind, on);
}

/* Fail or restore masters, as an event of the world: a process's data are not available here. */
static void strike(void *what) {
    uintptr_t number = (uintptr_t)what;
    set_all((unsigned)(number / KINDS), (fault)(number % KINDS), true);
}

/* ------------------------------------------------------------------- Steps */

typedef struct row {
    int masters;
    unsigned mask;
    fault kind;
    int64_t after_us; /* the step began */
    bool minority;
    int64_t last; /* fence */
    hf_lock *anns, *bens;
} row;

static void let_strike(const row *r) {
    sim_at(sim_now() + r->after_us * SIM_US, strike,
           (void *)((uintptr_t)r->mask * KINDS + (uintptr_t)r->kind));
}

/* Check that another client is refused while a client holds the lock, or while no majority can be
 * asked. */
static void is_refused(const row *r, hf_lock *lock) {
    hf_hold *hold;
    int64_t since = now_ms();
    hf_status status = hf_lock_acquire(lock, 0, &hold);
    if (r->minority)
        assert_status(status, HF_EBUSY);
    else
        assert_true(status != HF_OK);
    assert_in_range(now_ms() - since, 0, r->minority ? IN_TIME_MS : 2 * PATIENCE_MS);
}

static void is_next(row *r, const hf_hold *hold) {
    assert_true(hf_hold_fence(hold) > r->last);
    r->last = hf_hold_fence(hold);
}

static hf_hold *acquire(row *r, hf_lock *lock) {
    hf_hold *hold;
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(lock, 10000, &hold), HF_OK);
    assert_in_range(now_ms() - since, 0, IN_TIME_MS);
    is_next(r, hold);
    return hold;
}

/* Check the hold: without a majority it ends with its lease at the latest. */
static void is_held_or_lost(const row *r, hf_hold *hold) {
    if (r->minority) {
        /* A master of its majority may have failed before the other masters joined. */
        assert_soon(hf_hold_renew(hold) == HF_OK);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    } else if (r->kind != EMPTY) { /* an emptied master may give its vote again */
        sleep_ms(LEASE_MS);
        assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    }
}

static void end(hf_hold *hold, const row *r) {
    int64_t since = now_ms();
    hf_status status = hf_hold_release(hold);
    if (r->minority)
        assert_status(status, HF_OK);
    assert_in_range(now_ms() - since, 0, r->minority ? IN_TIME_MS : 2 * PATIENCE_MS);
    hf_hold_close(hold);
}

static void acquires(row *r) {
    hf_hold *hold;
    int64_t since = now_ms();
    let_strike(r);
    hf_status status = hf_lock_acquire(r->anns, 4000, &hold);
    int64_t took = now_ms() - since;
    if (r->minority)
        assert_status(status, HF_OK);
    else if (r->after_us == 0)
        assert_status(status, HF_ECONNECT);
    else
        assert_true(status == HF_OK || status == HF_ECONNECT);
    assert_in_range(took, 0, r->minority ? IN_TIME_MS : 4000 + 2 * PATIENCE_MS);
    if (status != HF_OK) {
        assert_message("fewer than a majority");
        is_refused(r, r->bens);
        return;
    }
    is_next(r, hold);
    is_refused(r, r->bens);
    is_held_or_lost(r, hold);
    end(hold, r);
    if (r->minority)
        end(acquire(r, r->bens), r);
}

static void renews(row *r) {
    hf_hold *hold = acquire(r, r->anns);
    assert_soon(hf_hold_votes(hold, NULL) == (size_t)r->masters);
    int64_t since = now_ms();
    let_strike(r);
    hf_status status = hf_hold_renew(hold);
    assert_in_range(now_ms() - since, 0, r->minority ? IN_TIME_MS : 2 * PATIENCE_MS);
    assert_true(status == HF_OK || !r->minority);
    is_refused(r, r->bens);
    is_held_or_lost(r, hold);
    end(hold, r);
    if (r->minority)
        end(acquire(r, r->bens), r);
}

static void releases(row *r) {
    hf_hold *hold = acquire(r, r->anns);
    assert_soon(hf_hold_votes(hold, NULL) == (size_t)r->masters);
    let_strike(r);
    end(hold, r);
    if (r->minority)
        end(acquire(r, r->bens), r);
    else if (r->after_us == 0)
        is_refused(r, r->bens);
}

static void hands_on(row *r) {
    hf_hold *hold = acquire(r, r->anns);
    assert_soon(hf_hold_votes(hold, NULL) == (size_t)r->masters);
    waiter *w = waiter_start(r->bens, r->minority ? 20000 : 4000);
    sleep_ms(50);
    let_strike(r);
    int64_t since = now_ms();
    end(hold, r);
    pthread_join(w->thread, NULL);
    if (r->minority)
        assert_status(w->status, HF_OK);
    else if (r->after_us == 0)
        assert_status(w->status, HF_ECONNECT);
    if (w->status != HF_OK) {
        assert_in_range(w->done_at - since, 0, 4000 + 2 * PATIENCE_MS);
        return;
    }
    assert_in_range(w->done_at - since, 0, 2 * IN_TIME_MS);
    is_next(r, w->hold);
    is_refused(r, r->anns);
    end(w->hold, r);
}

/* Check that a waiter takes nothing from the hold for longer than a lease. */
static void is_waited_for(row *r) {
    hf_hold *hold = acquire(r, r->anns);
    assert_soon(hf_hold_votes(hold, NULL) == (size_t)r->masters);
    waiter *w = waiter_start(r->bens, r->minority ? 30000 : 4000);
    sleep_ms(50);
    let_strike(r);
    sleep_ms(2 * LEASE_MS);
    is_held_or_lost(r, hold);
    assert_false(r->minority && atomic_load(&w->done));
    end(hold, r);
    pthread_join(w->thread, NULL);
    if (!r->minority) {
        assert_true(w->status != HF_OK);
        return;
    }
    assert_status(w->status, HF_OK);
    is_next(r, w->hold);
    is_refused(r, r->anns);
    end(w->hold, r);
}

/* ------------------------------------------------------------------- Rows */

static int set_up(void **state) {
    (void)state;
    alarm(0);
    for (int i = 0; i < MOST; i++)
        servers_command(i, "FLUSHALL");
    return 0;
}

static int tear_down(void **state) { return end_scenario(state); }

static bool is_majority(unsigned mask, int masters) {
    return __builtin_popcount(mask) > masters / 2;
}

static bool is_free(void) {
    sim_seen seen;
    for (int i = 0; i < MOST; i++)
        if (sim_redis_see(servers_redis(i), 0, (sim_bytes){"k", 1}, &seen))
            return false;
    return true;
}

/* The masters' clocks differ, so that votes have different fences, which must be confirmed. */
static void over_all(void (*step)(row *r), int masters) {
    static const int64_t moments_us[] = {0, 130, 260, 390, 520, 800, 1200};
    size_t moments = step == is_waited_for ? 1 : COUNT(moments_us);
    for (int i = 0; i < MOST; i++)
        servers_set_clock(i, i * 40 * SIM_MS);
    hf_client *ann = open_with(urls[masters], PATIENCE_MS, PATIENCE_MS);
    hf_client *ben = open_with(urls[masters], PATIENCE_MS, PATIENCE_MS);
    row r = {.masters = masters,
             .anns = lease_lock(ann, "k", LEASE_MS, HF_ON),
             .bens = lease_lock(ben, "k", LEASE_MS, HF_ON)};
    for (r.mask = 1; r.mask < 1U << masters; r.mask++)
        for (r.kind = 0; r.kind < KINDS; r.kind++)
            for (size_t i = 0; i < moments; i++) {
                r.after_us = moments_us[i];
                r.minority = !is_majority(r.mask, masters);
                if (r.kind == STALLS && !r.minority) /* this is no failure */
                    continue;
                sim_trace("mask %x of %d is %s after %d us", r.mask, masters, names[r.kind],
                          (int)r.after_us);
                step(&r);
                sleep_ms(10);
                set_all(r.mask, r.kind, false);
                sleep_ms(r.kind == DEAD || r.kind == EMPTY ? 45000 : 15000);
                assert_true(is_free());
            }
    hf_lock_close(r.anns);
    hf_lock_close(r.bens);
    hf_client_close(ann);
    hf_client_close(ben);
}

static void test_acquires_with_any_of_3(void **state) {
    (void)state;
    over_all(acquires, 3);
}

static void test_renewals_with_any_of_3(void **state) {
    (void)state;
    over_all(renews, 3);
}

static void test_releases_with_any_of_3(void **state) {
    (void)state;
    over_all(releases, 3);
}

static void test_handoffs_with_any_of_3(void **state) {
    (void)state;
    over_all(hands_on, 3);
}

static void test_waits_with_any_of_3(void **state) {
    (void)state;
    over_all(is_waited_for, 3);
}

static void test_acquires_with_any_of_5(void **state) {
    (void)state;
    over_all(acquires, 5);
}

static void test_renewals_with_any_of_5(void **state) {
    (void)state;
    over_all(renews, 5);
}

static void test_releases_with_any_of_5(void **state) {
    (void)state;
    over_all(releases, 5);
}

static void test_handoffs_with_any_of_5(void **state) {
    (void)state;
    over_all(hands_on, 5);
}

static void test_waits_with_any_of_5(void **state) {
    (void)state;
    over_all(is_waited_for, 5);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_acquires_with_any_of_3), TEST(test_renewals_with_any_of_3),
        TEST(test_releases_with_any_of_3), TEST(test_handoffs_with_any_of_3),
        TEST(test_waits_with_any_of_3),    TEST(test_acquires_with_any_of_5),
        TEST(test_renewals_with_any_of_5), TEST(test_releases_with_any_of_5),
        TEST(test_handoffs_with_any_of_5), TEST(test_waits_with_any_of_5),
    };
    return RUN_TESTS(tests, count, words);
}

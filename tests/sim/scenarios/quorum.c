/* Three independent masters: a majority holds, whatever happens to one master at each step; clocks
 * that jump, partitions, masters that restart empty, and a line that moves. */
#include "scenario.h"

#include "lock/quorum.h"

deployment sim_deployment = MASTERS;

enum { COUNT_OF_MASTERS = 3, QUARANTINE_MS = 30000 };

static hf_client *ann, *ben;
static int64_t last_fence;

static void set_way(int which, bool open) {
    sim_way(HERE, servers_host(which), open);
    sim_way(servers_host(which), HERE, open);
}

static int set_up(void **state) {
    (void)state;
    alarm(200);
    for (int i = 0; i < COUNT_OF_MASTERS; i++) {
        set_way(i, true);
        servers_command(i, "FLUSHALL");
    }
    servers_heal();
    sleep_ms(2 * QUARANTINE_MS);
    ann = open_with(servers_url(MASTERS), 2000, 2000);
    ben = open_with(servers_url(MASTERS), 2000, 2000);
    last_fence = 0;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sim_set.stunned = 0;
    servers_watch = NULL;
    hf_client_close(ann);
    hf_client_close(ben);
    return 0;
}

static bool is_at(int which, const char *key) {
    sim_seen seen;
    return sim_redis_see(servers_redis(which), 0, (sim_bytes){key, strlen(key)}, &seen);
}

static bool is_free_everywhere(void) {
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        if (is_at(i, "k"))
            return false;
    return true;
}

/* Check that the votes are released, and do not end with a lease, which is longer. */
static void assert_given_back(void) {
    for (int64_t until = now_ms() + 10000; !is_free_everywhere(); sleep_ms(10))
        assert_true(now_ms() < until);
}

static hf_hold *acquire(hf_lock *lock) {
    hf_hold *hold;
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(lock, 10000, &hold), HF_OK);
    assert_in_range(now_ms() - since, 0, 3000);
    assert_true(hf_hold_fence(hold) > last_fence);
    last_fence = hf_hold_fence(hold);
    return hold;
}

/* Check that the waiter gets the lock with a greater fence than all before, and release it. */
static void assert_is_next(waiter *w) {
    waiter_join(w, HF_OK);
    assert_true(hf_hold_fence(w->hold) > last_fence);
    last_fence = hf_hold_fence(w->hold);
    give_back(w->hold, HF_OK);
}

static void is_refused(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_EBUSY);
}

static bool has_votes(const hf_hold *hold, size_t votes) {
    return hf_hold_votes(hold, NULL) == votes;
}

typedef enum { CUT, DEAF, MUTE, PAUSED, FULL, REFUSES, FAULTS } fault;

/* Let a master fail in this way, or restore it. */
static void set_fault(int which, fault kind, bool on) {
    switch (kind) {
    case CUT:
        set_way(which, !on);
        break;
    case DEAF:
        sim_way(HERE, servers_host(which), !on);
        break;
    case MUTE:
        sim_way(servers_host(which), HERE, !on);
        break;
    case PAUSED:
        sim_server_pause(servers_at(which), on);
        break;
    case FULL:
        servers_command(which, on ? "CONFIG SET maxmemory 1" : "CONFIG SET maxmemory 0");
        break;
    default:
        servers_refuse(which, SIM_WRITES, on ? "MISCONF it cannot write" : NULL, on ? -1 : 0);
    }
}

static void set_faults(fault kind, bool on) {
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        set_fault(i, kind, on);
}

/* A master fails before an acquire, between acquire and release, or while another client waits. */
static void test_one_master_may_fail_in_each_way_at_each_step(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    for (int which = 0; which < COUNT_OF_MASTERS; which++)
        for (fault kind = CUT; kind < FAULTS; kind++) {
            print_message("master %d, fault %d\n", which, (int)kind);
            set_fault(which, kind, true);
            hf_hold *hold = acquire(anns);
            is_refused(bens);
            assert_status(hf_hold_renew(hold), HF_OK);
            give_back(hold, HF_OK);
            set_fault(which, kind, false);
            assert_soon(is_free_everywhere());

            hold = acquire(bens);
            assert_soon(has_votes(hold, COUNT_OF_MASTERS));
            set_fault(which, kind, true);
            is_refused(anns);
            waiter *w = waiter_start(anns, 60000);
            sleep_ms(100);
            give_back(hold, HF_OK);
            assert_is_next(w);
            set_fault(which, kind, false);
            assert_soon(is_free_everywhere());
        }
    hf_lock_close(anns);
    hf_lock_close(bens);
}

static void *run_break(void *fence) {
    hf_lock *lock = lease_lock(ben, "k", 20000, HF_OFF);
    hf_status status = hf_lock_break(lock, *(int64_t *)fence, 0);
    hf_lock_close(lock);
    return (void *)(intptr_t)status;
}

/* H230: the hold was lost although a master still has its vote; the release ends that vote. */
static void test_a_release_tells_that_a_majority_had_lost_the_hold(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int which = 0; which < COUNT_OF_MASTERS; which++) {
        hf_hold *hold = acquire(anns);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        for (int i = 0; i < COUNT_OF_MASTERS; i++)
            if (i != which)
                servers_command(i, "DEL k");
        give_back(hold, HF_ELOST);
        assert_soon(is_free_everywhere());
    }
    hf_lock_close(anns);
}

/* H234: an ordinary hold cannot end as a call. */
static void test_a_hold_that_is_not_finished_keeps_its_votes(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_hold *hold = acquire(anns);
    (void)state;
    assert_status(hf_once_finish(hold, HF_ONCE_RETRY, NULL, 0, 0), HF_EUNSUPPORTED);
    assert_status(hf_once_finish_start(hold, HF_ONCE_DONE, "done", 4, 60000, 1), HF_EUNSUPPORTED);
    assert_status(hf_lock_acquire(bens, 1000, NULL), HF_ETIMEOUT);
    assert_status(hf_hold_check(hold), HF_OK);
    sleep_ms(30000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* H142: the break ends the votes at all masters, and waits for a late one. */
static void test_a_break_waits_for_each_master_that_has_the_hold(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (useconds_t after_us = 0; after_us < 3000; after_us += 100) {
        pthread_t thread;
        void *status;
        hf_hold *hold = acquire(anns);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        pthread_create(&thread, NULL, run_break, &last_fence);
        usleep(after_us);
        set_fault(2, PAUSED, true);
        sleep_ms(500);
        set_fault(2, PAUSED, false);
        pthread_join(thread, &status);
        assert_status((hf_status)(intptr_t)status, HF_OK);
        give_back(hold, HF_ELOST);
        assert_soon(is_free_everywhere());
    }
    hf_lock_close(anns);
}

/* The first master loses the hold's vote, and grants the lock to the first waiter there: the vote
 * returns to the hold, which then survives the loss of another vote, and the waiters keep their
 * order. */
static void test_who_waits_leaves_the_first_master_to_the_hold(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    for (int which = 1; which < COUNT_OF_MASTERS; which++) {
        hf_hold *hold = acquire(anns);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        waiter *waiters[2];
        assert_status(hf_hold_renew(hold), HF_OK); /* the next one is when the others have asked */
        for (int i = 0; i < 2; i++) {
            waiters[i] = waiter_start_as(bens, text("owner %d", i), 120000);
            sleep_ms(100);
        }
        servers_command(0, "DEL k");
        assert_soon(!has_votes(hold, COUNT_OF_MASTERS));
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        set_fault(which, CUT, true);
        for (int64_t until = now_ms() + 30000; now_ms() < until; sleep_ms(500))
            assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        give_back(hold, HF_OK);
        for (int i = 0; i < 2; i++)
            assert_is_next(waiters[i]);
        set_fault(which, CUT, false);
        assert_soon(is_free_everywhere());
    }
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* One master's clock jumps ahead, another's back: the vote ends there, and is asked for again. */
static void test_clocks_that_jump_by_minutes_take_no_hold_away(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    for (int which = 0; which < COUNT_OF_MASTERS; which++) {
        hf_hold *hold = acquire(anns);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        sim_server_step(servers_at(which), 180 * SIM_S);
        for (int64_t until = now_ms() + 30000; now_ms() < until; sleep_ms(500)) {
            assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
            is_refused(bens);
        }
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        sim_server_step(servers_at(which), -170 * SIM_S);
        is_refused(bens);
        give_back(hold, HF_OK);
        give_back(acquire(bens), HF_OK);
    }
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* All masters restart, first one after the other and then all at once. */
static void test_masters_that_come_back_empty_let_nobody_in(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_hold *hold = acquire(anns), *other;
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    for (int n = 0; n < 2 * COUNT_OF_MASTERS; n++) {
        servers_restart(n % COUNT_OF_MASTERS, false, 50 * SIM_MS);
        for (int64_t until = now_ms() + 10000; now_ms() < until; sleep_ms(20)) {
            hf_status status = hf_lock_acquire(bens, 0, &other);
            assert_true(status == HF_EBUSY || status == HF_ECONNECT);
            assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        }
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    }
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        servers_restart(i, false, 50 * SIM_MS);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(bens, 60000, &other), HF_OK);
    assert_true(now_ms() - since >= QUARANTINE_MS - 2000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    assert_true(hf_hold_fence(other) > hf_hold_fence(hold));
    give_back(other, HF_OK);
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* A holder that is cut off with a minority counts on its hold no longer than the majority keeps it.
 */
static void test_a_holder_that_is_cut_off_ends_before_another_begins(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 5000, HF_ON), *bens = lease_lock(ben, "k", 5000, HF_ON);
    hf_hold *hold = acquire(anns);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    set_way(1, false);
    set_way(2, false);
    assert_soon(hf_hold_state(hold) == HF_STATE_LOST);
    set_way(1, true);
    set_way(2, true);
    hf_hold_release(hold);
    hf_hold_close(hold);
    give_back(acquire(bens), HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

static int find_done(waiter *const *waiters, int count) {
    for (int i = 0; i < count; i++)
        if (waiters[i] != NULL && atomic_load(&waiters[i]->done))
            return i;
    return -1;
}

/* Two clients that split the masters' votes do not wait for each other for ever. */
static void test_many_that_ask_at_once_come_one_after_the_other(void **state) {
    enum { WAITERS = 8 };
    waiter *waiters[WAITERS];
    hf_lock *locks[] = {lease_lock(ann, "k", 20000, HF_ON), lease_lock(ben, "k", 20000, HF_ON)};
    (void)state;
    int64_t since = now_ms(), fences[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = waiter_start_as(locks[i % 2], text("owner %d", i), 60000);
    for (int n = 0; n < WAITERS; n++) {
        assert_soon(find_done(waiters, WAITERS) >= 0);
        int at = find_done(waiters, WAITERS);
        waiter *w = waiters[at];
        waiters[at] = NULL;
        waiter_join(w, HF_OK);
        fences[n] = hf_hold_fence(w->hold);
        assert_true(n == 0 || fences[n] > fences[n - 1]);
        give_back(w->hold, HF_OK);
    }
    assert_in_range(now_ms() - since, 0, 5000);
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
}

/* The line is the queue of one master, which supports head starts. */
static void test_a_head_start_counts_in_the_line(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock *urgent = open_lock(ann, "k", NULL, OPTIONS(.lease_ms = 20000, .ahead_ms = 5000));
    (void)state;
    hf_hold *hold = acquire(anns);
    waiter *first = waiter_start(bens, 60000);
    sleep_ms(7000);
    waiter *late = waiter_start(bens, 60000);
    sleep_ms(2000);
    waiter *second = waiter_start(urgent, 60000);
    sleep_ms(2000);
    give_back(hold, HF_OK);
    for (int i = 0; i < 3; i++) {
        waiter *w = i == 0 ? first : i == 1 ? second : late;
        assert_is_next(w);
    }
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_lock_close(urgent);
}

static bool have_lists(bool first, bool second, bool third) {
    return is_at(0, "hf1:members") == first && is_at(1, "hf1:members") == second &&
           is_at(2, "hf1:members") == third;
}

/* The client's URL may be mistyped: a list that it wrote would shut the right clients out. */
static void test_a_refused_client_leaves_no_list(void **state) {
    hf_client *cat;
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    sleep_ms(5000); /* until the last log-ins of set_up() have ended */
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "DEL hf1:members");
    servers_command(1, "SET hf1:members another");
    for (int i = 0; i < 50; i++) {
        assert_status(hf_client_open(servers_url(MASTERS), NULL, &cat), HF_EINVAL);
        assert_message("belongs to another quorum");
        sleep_ms(100);
        assert_true(have_lists(false, true, false));
    }
    servers_command(1, "DEL hf1:members");
    give_back(acquire(lock), HF_OK);
    assert_soon(have_lists(true, true, true));
    hf_lock_close(lock);
}

static void test_a_closed_client_leaves_nothing(void **state) {
    size_t before = sim_descriptors(sim_self());
    hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
    hf_lock *lock = lease_lock(cat, "k", 20000, HF_ON);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    hf_client_close(cat);
    assert_soon(is_free_everywhere());
    assert_status(hf_hold_release(hold), HF_ECLOSED);
    hf_hold_close(hold);
    hf_lock_close(lock);
    assert_soon(sim_descriptors(sim_self()) == before);
}

static hf_lock *nesting_lock(int64_t lease_ms, int32_t renew) {
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = lease_ms, .renew = renew, .reentrant = HF_ON};
    hf_lock *lock;
    assert_status(hf_lock_open(ann, "k", 1, "owner", 5, &options, &lock), HF_OK);
    return lock;
}

static hf_hold *nest(hf_lock *lock, const hf_hold *outer) {
    hf_hold *inner;
    assert_status(hf_lock_acquire(lock, 0, &inner), HF_OK);
    assert_true(hf_hold_fence(inner) == hf_hold_fence(outer));
    return inner;
}

/* The nested hold has the same votes, and each hold its own end. */
static void test_what_nests_takes_nothing_from_the_hold_around_it(void **state) {
    hf_lock *lock = nesting_lock(10000, HF_OFF);
    hf_hold *outer = acquire(lock), *inner = nest(lock, outer);
    (void)state;
    assert_soon(has_votes(outer, COUNT_OF_MASTERS));
    assert_status(hf_hold_extend(inner, 500, HF_EXTEND_REPLACE), HF_OK);
    assert_true(hf_hold_remaining_ms(outer) > 8000);
    assert_status(hf_hold_keep(inner, 500), HF_OK);
    hf_hold_close(inner);
    assert_true(hf_hold_remaining_ms(outer) > 8000);
    sleep_ms(2000);
    assert_int_equal(hf_hold_state(outer), HF_STATE_HELD);
    assert_true(has_votes(outer, COUNT_OF_MASTERS));

    inner = nest(lock, outer);
    assert_status(hf_hold_keep(inner, 5000), HF_OK); /* the outer hold does the keeping */
    hf_hold_close(inner);
    give_back(outer, HF_OK);
    assert_false(is_free_everywhere());
    sleep_ms(6000);
    assert_true(is_free_everywhere());
    hf_lock_close(lock);
}

static void test_what_nests_is_kept_though_the_hold_around_it_is_kept_for_less(void **state) {
    hf_lock *lock = nesting_lock(10000, HF_OFF);
    hf_hold *outer = acquire(lock), *inner = nest(lock, outer);
    (void)state;
    assert_soon(has_votes(outer, COUNT_OF_MASTERS));
    assert_status(hf_hold_keep(inner, 5000), HF_OK);
    assert_status(hf_hold_keep(outer, 500), HF_OK);
    hf_hold_close(inner);
    hf_hold_close(outer);
    sleep_ms(4000);
    assert_false(is_free_everywhere());
    sleep_ms(2000);
    assert_true(is_free_everywhere());
    hf_lock_close(lock);
}

/* A call on the outer hold does not reduce what it does for the nested hold. */
static void test_what_nests_is_kept_whatever_the_hold_around_it_is_told(void **state) {
    hf_lock *lock = nesting_lock(10000, HF_OFF);
    (void)state;
    for (int told = 0; told < 5; told++) {
        hf_hold *outer = acquire(lock), *inner = nest(lock, outer), *last = nest(lock, outer);
        assert_soon(has_votes(outer, COUNT_OF_MASTERS));
        assert_status(hf_hold_keep(inner, 5000), HF_OK);
        if (told < 2)
            assert_status(hf_hold_keep_at_least(told == 0 ? outer : last, 100), HF_OK);
        if (told == 2)
            hf_hold_close(outer); /* the hold stays */
        else
            give_back(told == 3 ? last : outer, HF_OK);
        if (told == 4)
            assert_status(hf_hold_extend(last, 100, HF_EXTEND_REPLACE), HF_OK);
        sleep_ms(500);
        give_back(told == 3 ? outer : last, HF_OK);
        hf_hold_close(inner);
        sleep_ms(4000);
        assert_false(is_free_everywhere());
        sleep_ms(1000);
        assert_true(is_free_everywhere());
    }
    hf_lock_close(lock);
}

/* The outer hold ends by its max_hold, or because its handle is closed. */
static void test_what_nests_is_kept_though_the_hold_around_it_ends(void **state) {
    hf_lock *lock = open_lock(
        ann, "k", "owner",
        OPTIONS(.lease_ms = 1000, .renew = HF_ON, .max_hold_ms = 3000, .reentrant = HF_ON));
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        hf_hold *outer = acquire(lock), *inner = nest(lock, outer);
        assert_soon(has_votes(outer, COUNT_OF_MASTERS));
        assert_status(hf_hold_keep(inner, 6000), HF_OK);
        hf_hold_close(inner);
        if (closed)
            hf_hold_close(outer);
        sleep_ms(2500);
        for (int i = 0; i < COUNT_OF_MASTERS; i++)
            set_fault(i, PAUSED, true); /* until the max_hold has ended */
        sleep_ms(600);
        for (int i = 0; i < COUNT_OF_MASTERS; i++)
            set_fault(i, PAUSED, false);
        sleep_ms(1900);
        assert_false(is_free_everywhere());
        sleep_ms(1500);
        assert_true(is_free_everywhere());
        if (!closed)
            give_back(outer, HF_ELOST);
    }
    hf_lock_close(lock);
}

static void *take_all(void *of) {
    hf_lock **locks = of;
    hf_hold *holds[2];
    assert_status(hf_lock_acquire_all(locks, 2, "owner", 5, 3000, NULL, holds), HF_ETIMEOUT);
    return NULL;
}

/* The outer hold was never returned to a caller: it was acquired together with another lock, which
 * was not granted. */
static void test_what_nests_is_kept_though_the_hold_around_it_is_given_up(void **state) {
    hf_lock *lock = nesting_lock(10000, HF_OFF), *second = lease_lock(ann, "l", 10000, HF_OFF);
    hf_lock *bens = lease_lock(ben, "l", 10000, HF_ON), *both[] = {lock, second};
    hf_hold *other = acquire(bens), *inner;
    pthread_t thread;
    (void)state;
    pthread_create(&thread, NULL, take_all, both);
    sleep_ms(1000);
    assert_status(hf_lock_acquire(lock, 0, &inner), HF_OK);
    assert_status(hf_hold_keep(inner, 6000), HF_OK);
    hf_hold_close(inner);
    pthread_join(thread, NULL);
    sleep_ms(3500);
    assert_false(is_free_everywhere());
    sleep_ms(1500);
    assert_true(is_free_everywhere());
    give_back(other, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(second);
    hf_lock_close(bens);
}

/* The outer hold is released before its client has seen the end of its max_hold. */
static void test_what_nests_is_kept_though_the_hold_around_it_is_released_late(void **state) {
    hf_lock *lock = open_lock(
        ann, "k", "owner",
        OPTIONS(.lease_ms = 1000, .renew = HF_ON, .max_hold_ms = 3000, .reentrant = HF_ON));
    hf_hold *outer = acquire(lock), *inner = nest(lock, outer);
    (void)state;
    assert_soon(has_votes(outer, COUNT_OF_MASTERS));
    assert_status(hf_hold_keep(inner, 6000), HF_OK);
    hf_hold_close(inner);
    for (int64_t until = now_ms() + 2900; now_ms() < until;)
        sleep_ms(1);
    for (size_t n = 0, main = sim_threads(sim_self()) - 1; n < main; n++)
        sim_stun(sim_self(), n, 300 * SIM_MS);
    while (hf_hold_state(outer) == HF_STATE_HELD)
        usleep(100);
    give_back(outer, HF_ELOST);
    sleep_ms(2500);
    assert_false(is_free_everywhere());
    sleep_ms(1500);
    assert_true(is_free_everywhere());
    hf_lock_close(lock);
}

/* The caller of the keep has its answer. */
static void test_what_nests_is_kept_though_its_client_is_closed(void **state) {
    hf_lock *lock = nesting_lock(10000, HF_OFF);
    hf_hold *outer = acquire(lock), *inner = nest(lock, outer);
    (void)state;
    assert_soon(has_votes(outer, COUNT_OF_MASTERS));
    assert_status(hf_hold_keep(inner, 5000), HF_OK);
    hf_client_close(ann);
    ann = open_with(servers_url(MASTERS), 2000, 2000);
    hf_hold_close(inner);
    hf_hold_close(outer);
    hf_lock_close(lock);
    sleep_ms(4000);
    assert_false(is_free_everywhere());
    sleep_ms(2000);
    assert_true(is_free_everywhere());
}

/* A nested hold would stand on votes that the client gives up when the keep is answered. */
static void test_nothing_nests_in_what_is_being_kept(void **state) {
    hf_lock *lock = nesting_lock(10000, HF_OFF);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_true(hf_client_fd(ann) >= 0);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    set_faults(PAUSED, true);
    assert_status(hf_hold_keep_start(hold, 5000, 1), HF_OK);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 2), HF_OK);
    sleep_ms(20);
    set_faults(PAUSED, false);
    for (int i = 0; i < 2; i++) {
        hf_completion done = completion_within(ann, 3000);
        assert_status(done.status, done.op == 1 ? HF_OK : HF_EBUSY);
    }
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* The check is answered while the keep is on its way; an acquire does not nest in the hold then. */
static void test_a_look_under_way_takes_no_keep_away(void **state) {
    hf_lock *lock = nesting_lock(10000, HF_OFF);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_true(hf_client_fd(ann) >= 0);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    assert_status(hf_hold_check(hold), HF_OK); /* so that the masters know the script */
    set_faults(MUTE, true);
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    sleep_ms(100);
    set_faults(DEAF, true);
    assert_status(hf_hold_keep_start(hold, 5000, 2), HF_OK);
    set_faults(MUTE, false);
    hf_completion done = completion_within(ann, 3000);
    assert_int_equal(done.op, 1);
    assert_status(done.status, HF_OK);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 3), HF_OK);
    sleep_ms(20);
    set_faults(DEAF, false);
    for (int i = 0; i < 2; i++) {
        done = completion_within(ann, 3000);
        assert_status(done.status, done.op == 2 ? HF_OK : HF_EBUSY);
    }
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* One master of a bare majority has already kept the hold. */
static void test_a_look_begun_during_a_keep_takes_it_not_away(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 10000, HF_OFF);
    (void)state;
    assert_true(hf_client_fd(ann) >= 0);
    for (int ms = 0; ms < 5; ms++) {
        alarm(200);
        set_fault(2, CUT, true);
        hf_hold *hold = acquire(lock);
        set_fault(1, PAUSED, true);
        assert_status(hf_hold_keep_start(hold, 3000, 1), HF_OK);
        sleep_ms(ms);
        assert_status(hf_hold_check_start(hold, 2), HF_OK);
        sleep_ms(10);
        set_fault(1, PAUSED, false);
        for (int i = 0; i < 2; i++) {
            hf_completion done = completion_within(ann, 3000);
            assert_true(done.op == 2 || done.status == HF_OK);
        }
        hf_hold_close(hold);
        set_fault(2, CUT, false);
        sleep_ms(1500);
        is_refused(lock);
        sleep_ms(3000);
        assert_true(is_free_everywhere());
    }
    hf_lock_close(lock);
}

/* One master reports that it has lost its vote while another has kept its own, which must not be
 * extended then, and the third has not answered. */
static void test_a_master_that_has_forgotten_it_takes_no_keep_away(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int which = 0; which < COUNT_OF_MASTERS; which++) {
        int slow = (which + 1) % COUNT_OF_MASTERS, quick = (which + 2) % COUNT_OF_MASTERS;
        alarm(200);
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        servers_command(which, "DEL k");
        set_fault(which, PAUSED, true);
        set_fault(slow, PAUSED, true);
        assert_status(hf_hold_keep_start(hold, 3000, 1), HF_OK);
        sleep_ms(1000);
        set_fault(which, PAUSED, false);
        sleep_ms(200);
        set_fault(slow, PAUSED, false);
        assert_status(completion_within(ann, 3000).status, HF_OK);
        hf_hold_close(hold);
        is_refused(lock);
        sleep_ms(2300);
        assert_false(is_at(quick, "k"));
        sleep_ms(1500);
        assert_true(is_free_everywhere());
    }
    hf_lock_close(lock);
}

/* The hold is renewed at a master that has it and at one that has lost it; the third gives its vote
 * before that one answers. */
static void test_a_vote_that_is_given_during_a_renewal_counts(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int looks = 0; looks < 2; looks++) {
        set_fault(2, CUT, true);
        hf_hold *hold = acquire(lock);
        set_fault(2, CUT, false);
        servers_command(1, "DEL k");
        set_fault(1, PAUSED, true);
        assert_status(looks ? hf_hold_check_start(hold, 1) : hf_hold_renew_start(hold, 1), HF_OK);
        assert_soon(has_votes(hold, 3));
        set_fault(1, PAUSED, false);
        assert_status(completion_within(ann, 3000).status, HF_OK);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        assert_soon(has_votes(hold, 3));
        give_back(hold, HF_OK);
        assert_given_back();
    }
    hf_lock_close(lock);
}

/* One master of a bare majority has kept the hold, and the other has it: that is a majority. */
static void test_a_keep_without_an_answer_leaves_the_hold(void **state) {
    enum { KEEPS, RELEASES, RENEWS, LOOKS, NEXTS };
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int next = 0; next < NEXTS; next++) {
        set_fault(2, CUT, true);
        hf_hold *hold = acquire(lock);
        set_fault(1, CUT, true);
        assert_status(hf_hold_keep(hold, 15000), HF_EUNKNOWN);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        assert_true(has_votes(hold, 2));
        set_fault(1, CUT, false);
        if (next == RELEASES) {
            give_back(hold, HF_OK);
            set_fault(2, CUT, false);
            assert_given_back();
            continue;
        }
        if (next == RENEWS)
            assert_status(hf_hold_renew(hold), HF_OK);
        if (next == LOOKS)
            assert_status(hf_hold_check(hold), HF_OK);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        assert_status(hf_hold_keep(hold, 5000), HF_OK);
        set_fault(2, CUT, false);
        hf_hold_close(hold);
        sleep_ms(3500);
        is_refused(lock);
        sleep_ms(15000); /* a copy of the first keep may arrive after the second */
    }
    hf_lock_close(lock);
}

/* Two of the masters keep the hold at once, and one when it is asked again. */
static void test_what_most_masters_keep_one_by_one_is_kept(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    set_fault(1, CUT, true);
    set_fault(2, CUT, true);
    assert_status(hf_hold_keep(hold, 15000), HF_EUNKNOWN);
    set_fault(1, CUT, false);
    assert_status(hf_hold_keep(hold, 15000), HF_OK);
    set_fault(2, CUT, false);
    hf_hold_close(hold);
    sleep_ms(5000);
    is_refused(lock);
    hf_lock_close(lock);
}

/* The master that kept the hold first does not count towards the majority at the end, unless it
 * keeps the hold for as long. */
static void test_what_is_kept_again_is_kept_for_that_time(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 3000, HF_ON);
    (void)state;
    for (int first_ms = 15000; first_ms <= 25000; first_ms += 10000) {
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        set_fault(1, CUT, true);
        set_fault(2, CUT, true);
        assert_status(hf_hold_keep(hold, first_ms), HF_EUNKNOWN);
        set_fault(1, CUT, false);
        assert_status(hf_hold_keep(hold, 15000), HF_OK);
        int64_t until = now_ms() + 14900;
        hf_hold_close(hold);
        servers_command(2, "DEL k");
        set_fault(2, CUT, false);
        while (now_ms() < until) {
            is_refused(bens);
            sleep_ms(20);
        }
        assert_soon(is_free_everywhere());
        sleep_ms(3000);
    }
    hf_lock_close(lock);
    hf_lock_close(bens);
}

/* One of the masters keeps the hold; then the hold is released or lost. */
static void test_what_a_minority_keeps_goes_with_its_hold(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 3000, HF_ON);
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        set_fault(1, CUT, true);
        set_fault(2, CUT, true);
        assert_status(hf_hold_keep(hold, 25000), HF_EUNKNOWN);
        if (lost)
            assert_soon(hf_hold_state(hold) == HF_STATE_LOST);
        set_fault(1, CUT, false);
        set_fault(2, CUT, false);
        give_back(hold, lost ? HF_ELOST : HF_OK);
        assert_given_back();
    }
    hf_lock_close(lock);
}

/* No majority can have kept the hold: the other masters refused. */
static void test_what_a_minority_keeps_goes_with_its_client(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
        hf_lock *lock = lease_lock(cat, "k", 3000, HF_ON);
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        set_fault(1, REFUSES, true);
        set_fault(2, REFUSES, true);
        assert_status(hf_hold_keep(hold, 25000), HF_ESERVER);
        set_fault(1, REFUSES, false);
        set_fault(2, REFUSES, false);
        sleep_ms(later ? 10000 : 0);
        hf_client_close(cat);
        hf_hold_close(hold);
        hf_lock_close(lock);
        assert_given_back();
    }
}

/* One master has kept the hold, and one has not answered: the close asks both. */
static void test_what_most_masters_may_have_kept_outlasts_its_client(void **state) {
    (void)state;
    set_fault(2, CUT, true);
    hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
    hf_lock *cats = lease_lock(cat, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_hold *hold = acquire(cats);
    set_fault(1, CUT, true);
    assert_status(hf_hold_keep(hold, 15000), HF_EUNKNOWN);
    set_fault(1, CUT, false);
    hf_client_close(cat);
    hf_hold_close(hold);
    hf_lock_close(cats);
    set_fault(2, CUT, false);
    sleep_ms(5000);
    is_refused(bens);
    hf_lock_close(bens);
    assert_soon(is_free_everywhere());
}

/* A nested hold was to be kept; that ends when most masters lose their votes. */
static void test_what_a_minority_is_to_keep_goes_with_its_hold(void **state) {
    hf_lock *lock = nesting_lock(3000, HF_ON);
    hf_hold *outer = acquire(lock), *inner = nest(lock, outer);
    (void)state;
    assert_soon(has_votes(outer, COUNT_OF_MASTERS));
    assert_status(hf_hold_keep(inner, 25000), HF_OK);
    hf_hold_close(inner);
    servers_command(0, "DEL k");
    servers_command(1, "DEL k");
    assert_soon(hf_hold_state(outer) == HF_STATE_LOST);
    give_back(outer, HF_ELOST);
    assert_given_back();
    hf_lock_close(lock);
}

static void test_a_keep_without_memory_loses_no_hold(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 1000, HF_ON);
    int failures = 0;
    (void)state;
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 60; n++) {
        alarm(200);
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        sim_set.no_memory = 0.2;
        bool failed = hf_hold_keep(hold, 500) == HF_ENOMEM;
        sim_set.no_memory = 0;
        failures += failed;
        sleep_ms(3000);
        if (failed)
            give_back(hold, HF_OK);
        else
            hf_hold_close(hold);
        assert_soon(is_free_everywhere());
    }
    assert_true(failures > 0);
    sim_may_lack_memory(sim_self(), false);
    hf_lock_close(lock);
}

/* The nested acquire begins on the client's own thread, when that thread must already end. */
static void test_a_close_meets_a_started_acquire_that_nests(void **state) {
    (void)state;
    for (int n = 0; n < 20; n++) {
        hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
        hf_lock *lock = lease_lock(cat, "k", 20000, HF_ON);
        hf_hold *outer;
        assert_true(hf_client_fd(cat) >= 0);
        assert_status(hf_lock_acquire_as(lock, "owner", 5, 10000, NULL, &outer), HF_OK);
        assert_status(hf_lock_acquire_start(lock, "owner", 5, 0, NULL, 1), HF_OK);
        hf_client_stop(cat);
        sleep_ms(n);
        hf_client_close(cat);
        hf_hold_close(outer);
        hf_lock_close(lock);
        assert_soon(is_free_everywhere());
    }
}

/* The other masters are asked, on behalf of the outer hold, whether they still have their votes. */
static void test_what_nests_gets_a_vote_again_when_the_hold_around_it_ends(void **state) {
    hf_lock *lock = nesting_lock(6000, HF_ON);
    hf_hold *outer = acquire(lock), *inner = nest(lock, outer);
    (void)state;
    assert_soon(has_votes(inner, COUNT_OF_MASTERS));
    servers_command(0, "DEL k");
    set_fault(1, PAUSED, true);
    set_fault(2, PAUSED, true);
    assert_soon(has_votes(inner, COUNT_OF_MASTERS - 1));
    give_back(outer, HF_OK);
    set_fault(1, PAUSED, false);
    set_fault(2, PAUSED, false);
    assert_soon(has_votes(inner, COUNT_OF_MASTERS));
    give_back(inner, HF_OK);
    hf_lock_close(lock);
}

/* The nested lease is longer, or is renewed, and the outer one is short and is not renewed. */
static void test_what_nests_is_held_for_its_own_lease(void **state) {
    hf_lock *brief = nesting_lock(1000, HF_OFF), *longer = nesting_lock(5000, HF_OFF);
    hf_lock *renewed = nesting_lock(1000, HF_ON);
    hf_hold *outer = acquire(brief), *inner = nest(longer, outer);
    (void)state;
    assert_soon(hf_hold_remaining_ms(inner) > 4000);
    give_back(inner, HF_OK);
    give_back(outer, HF_OK);
    outer = acquire(longer);
    sleep_ms(3000);
    inner = nest(longer, outer); /* nothing renews it */
    assert_soon(hf_hold_remaining_ms(inner) > 4000);
    give_back(inner, HF_OK);
    give_back(outer, HF_OK);
    for (int i = 0; i < 2; i++) { /* the nested lease is longer than the time left, or shorter */
        outer = acquire(i == 0 ? brief : longer);
        inner = nest(renewed, outer);
        sleep_ms(8000);
        assert_int_equal(hf_hold_state(inner), HF_STATE_HELD);
        give_back(inner, HF_OK);
        assert_soon(hf_hold_state(outer) == HF_STATE_LOST); /* nothing renews it any longer */
        hf_hold_close(outer);
    }
    hf_lock_close(brief);
    hf_lock_close(longer);
    hf_lock_close(renewed);
}

/* The masters forget the hold one after the other: a vote that joins has the lease of the other
 * votes, not that of the outer hold, which may have been kept for the nested one. */
static void test_a_vote_that_joins_has_the_lease_of_the_others(void **state) {
    hf_lock *brief = nesting_lock(1000, HF_ON), *longer = nesting_lock(10000, HF_ON);
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        hf_hold *outer = acquire(keeps ? longer : brief), *inner = nest(longer, outer);
        assert_soon(hf_hold_remaining_ms(inner) > 8000 && has_votes(inner, COUNT_OF_MASTERS));
        if (keeps)
            assert_status(hf_hold_keep(outer, 10), HF_OK);
        for (int i = 0; i < COUNT_OF_MASTERS; i++) {
            servers_command(i, "DEL k");
            assert_status(hf_hold_check(inner), HF_OK);
            assert_soon(is_at(i, "k") && has_votes(inner, COUNT_OF_MASTERS));
        }
        sleep_ms(12000);
        assert_true(hf_hold_remaining_ms(inner) > 5000);
        give_back(inner, HF_OK);
        if (keeps)
            hf_hold_close(outer);
        else
            give_back(outer, HF_OK);
        assert_given_back();
    }
    hf_lock_close(brief);
    hf_lock_close(longer);
}

/* No answer was lost that would leave the end of the hold in doubt. */
static void test_what_nests_with_the_same_lease_leaves_no_doubt(void **state) {
    (void)state;
    for (int renew = 0; renew < 2; renew++) {
        hf_lock *lock = nesting_lock(10000, renew ? HF_ON : HF_OFF);
        hf_hold *outer = acquire(lock);
        assert_soon(has_votes(outer, COUNT_OF_MASTERS));
        for (int i = 0; i < COUNT_OF_MASTERS; i++)
            set_fault(i, PAUSED, true);
        hf_hold *inner = nest(lock, outer);
        sleep_ms(10);
        sim_cut(HERE, -1, 1);
        for (int i = 0; i < COUNT_OF_MASTERS; i++)
            set_fault(i, PAUSED, false);
        sleep_ms(3000);
        give_back(inner, HF_OK);
        assert_status(hf_hold_keep(outer, 20000), HF_OK);
        hf_hold_close(outer);
        hf_lock_close(lock);
        sleep_ms(21000);
    }
}

/* H253, seed 37150230: the hold that is left ends soon, by its max_hold, and another nests in it.
 */
static void test_what_nests_in_a_hold_that_ends_soon_is_renewed_in_time(void **state) {
    hf_lock *brief = open_lock(
                ann, "k", "owner",
                OPTIONS(.lease_ms = 3000, .renew = HF_ON, .max_hold_ms = 1500, .reentrant = HF_ON)),
            *renewed = nesting_lock(3000, HF_ON);
    (void)state;
    for (int left_ms = 600; left_ms > 100; left_ms -= 50) {
        hf_hold *outer = acquire(renewed), *ends = nest(brief, outer);
        sleep_ms(1500 - left_ms); /* the votes have been renewed */
        give_back(outer, HF_OK);
        hf_hold *last = nest(renewed, ends);
        sleep_ms(3000);
        assert_int_equal(hf_hold_state(last), HF_STATE_HELD);
        give_back(last, HF_OK);
        hf_hold_close(ends);
    }
    hf_lock_close(brief);
    hf_lock_close(renewed);
}

/* The nested hold has a max_hold of its own. */
static void test_what_nests_outlasts_the_max_hold_around_it(void **state) {
    hf_lock *brief = open_lock(
                ann, "k", "owner",
                OPTIONS(.lease_ms = 1000, .renew = HF_ON, .max_hold_ms = 3000, .reentrant = HF_ON)),
            *renewed = nesting_lock(1000, HF_ON);
    hf_hold *outer = acquire(brief), *inner = nest(renewed, outer);
    (void)state;
    sleep_ms(5000);
    assert_int_equal(hf_hold_state(outer), HF_STATE_LOST);
    assert_int_equal(hf_hold_state(inner), HF_STATE_HELD);
    assert_soon(has_votes(inner, COUNT_OF_MASTERS));
    give_back(inner, HF_OK);
    hf_hold_close(outer);
    /* The reverse: the votes end with the outer hold, the last one left. */
    outer = acquire(brief);
    inner = nest(renewed, outer);
    give_back(inner, HF_OK);
    sleep_ms(5000);
    assert_int_equal(hf_hold_state(outer), HF_STATE_LOST);
    assert_soon(is_free_everywhere());
    hf_hold_close(outer);
    hf_lock_close(brief);
    hf_lock_close(renewed);
}

/* A master gives its vote, the hold is lost, and then the answer arrives. */
static void test_a_vote_that_comes_to_a_lost_hold_goes_back(void **state) {
    hf_lock *lock = lease_lock(ann, "k", QUARANTINE_MS, HF_ON);
    (void)state;
    set_fault(2, REFUSES, true);
    hf_hold *hold = acquire(lock);
    while (!is_at(2, "k")) { /* the client may have to connect again first */
        set_fault(2, MUTE, false);
        set_fault(2, REFUSES, true);
        sleep_ms(1500);
        set_fault(2, MUTE, true);
        set_fault(2, REFUSES, false);
        sleep_ms(1500);
    }
    for (int i = 0; i < 2; i++)
        servers_command(i, "DEL k");
    assert_status(hf_hold_check(hold), HF_ELOST);
    set_fault(2, MUTE, false);
    assert_given_back();
    sleep_ms(3000);
    assert_true(is_free_everywhere() && has_votes(hold, 0));
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* The master that was away gives a smaller fence, and stores the hold's fence before its vote
 * counts. */
static void test_a_vote_that_joins_with_a_lower_fence_learns_the_hold_s(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    sim_seen seen;
    (void)state;
    sim_server_step(servers_at(2), -60 * SIM_S);
    set_fault(2, REFUSES, true);
    hf_hold *hold = acquire(lock);
    set_fault(2, REFUSES, false);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    assert_true(sim_redis_see(servers_redis(2), 0, (sim_bytes){"{k}k:hf1:f", 10}, &seen));
    assert_true(strtoll(seen.string.bytes, NULL, 10) >= hf_hold_fence(hold));
    give_back(hold, HF_OK);
    sim_server_step(servers_at(2), 60 * SIM_S);
    hf_lock_close(lock);
}

/* A master gives its vote late, and does not answer when it is asked to confirm the greater fence.
 */
static void test_a_master_that_does_not_confirm_is_asked_again(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    sim_seen seen;
    (void)state;
    give_back(acquire(lock), HF_OK);
    servers_command(0, text("SET {k}k:hf1:f %lld", (long long)last_fence + 3600000000));
    set_fault(2, PAUSED, true);
    hf_hold *hold = acquire(lock);
    set_fault(2, DEAF, true);
    set_fault(2, PAUSED, false);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    sim_cut(HERE, servers_host(2), 1); /* so that no copy arrives */
    sleep_ms(3000);
    set_fault(2, DEAF, false);
    sleep_ms(5000);
    assert_true(has_votes(hold, COUNT_OF_MASTERS));
    assert_true(sim_redis_see(servers_redis(2), 0, (sim_bytes){"{k}k:hf1:f", 10}, &seen));
    assert_true(strtoll(seen.string.bytes, NULL, 10) >= hf_hold_fence(hold));
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* A waiter in line behind another client, which has no majority either, is told of the outage, not
 * that others hold the lock. */
static void test_who_stands_in_line_hears_of_an_outage(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_hold *hold;
    (void)state;
    give_back(acquire(anns), HF_OK);
    give_back(acquire(bens), HF_OK);
    set_fault(1, CUT, true);
    set_fault(2, CUT, true);
    waiter *w = waiter_start(bens, 9000);
    sleep_ms(500);
    assert_status(hf_lock_acquire(anns, 5000, &hold), HF_ECONNECT);
    assert_non_null(strstr(hf_error_message(), "fewer than a majority"));
    waiter_join(w, HF_ECONNECT);
    set_fault(1, CUT, false);
    set_fault(2, CUT, false);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* All masters answer, so waiting would not help. */
static void test_what_all_masters_refuse_is_told_as_refused(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        set_fault(i, REFUSES, true);
    assert_status(hf_hold_renew(hold), HF_ESERVER);
    assert_status(hf_hold_keep(hold, 15000), HF_ESERVER);
    assert_non_null(strstr(hf_error_message(), "refused"));
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        set_fault(i, REFUSES, false);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* The slow master is one of a bare majority, because another has forgotten the hold. */
static void test_a_slow_master_that_decides_is_waited_for(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    hf_hold *hold = acquire(lock);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    assert_true(hf_client_fd(ann) >= 0);
    servers_command(1, "DEL k");
    set_fault(2, PAUSED, true);
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    sleep_ms(200);
    set_fault(2, PAUSED, false);
    assert_status(completion_within(ann, 3000).status, HF_OK);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* One master keeps the hold for a shorter time, and the others refuse. */
static void test_a_master_that_has_kept_it_gives_its_vote_again(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        for (int i = 1; i < COUNT_OF_MASTERS; i++)
            set_fault(i, REFUSES, true);
        assert_status(hf_hold_keep(hold, gone ? 25000 : 3000), HF_ESERVER);
        for (int i = 1; i < COUNT_OF_MASTERS; i++)
            set_fault(i, REFUSES, false);
        if (gone)
            servers_command(0, "DEL k");
        sleep_ms(gone ? 15000 : 6000);
        assert_true(is_at(0, "k") && has_votes(hold, COUNT_OF_MASTERS));
        give_back(hold, HF_OK);
        assert_given_back();
    }
    hf_lock_close(lock);
}

/* One master had forgotten the hold long before, and has it again. */
static void test_a_loss_is_told_with_its_own_cause(void **state) {
    (void)state;
    for (int32_t cause = HF_CAUSE_EXPIRED; cause <= HF_CAUSE_GONE; cause++)
        for (int renew = 0; renew < 2; renew++) {
            bool ends = cause == HF_CAUSE_EXPIRED && renew;
            hf_lock *lock = open_lock(
                ann, "k", NULL,
                OPTIONS(.lease_ms = 5000, .max_hold_ms = ends ? 7000 : 0,
                        .renew = renew || cause == HF_CAUSE_UNREACHABLE ? HF_ON : HF_OFF));
            hf_hold *hold = acquire(lock);
            assert_soon(has_votes(hold, COUNT_OF_MASTERS));
            servers_command(0, "DEL k");
            assert_status(hf_hold_check(hold), HF_OK);
            assert_soon(is_at(0, "k") && has_votes(hold, COUNT_OF_MASTERS));
            for (int i = 0; i < COUNT_OF_MASTERS && cause == HF_CAUSE_UNREACHABLE; i++)
                set_fault(i, CUT, true);
            for (int i = 0; i < 2 && cause == HF_CAUSE_GONE; i++)
                servers_command(i, "DEL k");
            if (cause == HF_CAUSE_GONE)
                assert_status(hf_hold_check(hold), HF_ELOST);
            for (int64_t until = now_ms() + 8000; hf_hold_state(hold) == HF_STATE_HELD;
                 sleep_ms(10))
                assert_true(now_ms() < until);
            sleep_ms(500);
            assert_int_equal(hf_hold_cause(hold), cause);
            for (int i = 0; i < COUNT_OF_MASTERS; i++)
                set_fault(i, CUT, false);
            give_back(hold, HF_ELOST);
            assert_given_back();
            hf_lock_close(lock);
        }
}

/* Whichever thread of the client stands still: the thread that counts the votes may run later than
 * those of the masters. */
static void test_a_hold_that_ends_by_its_max_hold_is_told_so(void **state) {
    hf_lock *lock =
        open_lock(ann, "k", NULL, OPTIONS(.lease_ms = 1000, .renew = HF_ON, .max_hold_ms = 3000));
    (void)state;
    for (size_t n = 0, main = sim_threads(sim_self()) - 1; n < main; n++) {
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        for (int64_t until = now_ms() + 2800; now_ms() < until;)
            sleep_ms(1);
        sim_stun(sim_self(), n, 500 * SIM_MS);
        sleep_ms(300);
        assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
        assert_int_equal(hf_hold_cause(hold), HF_CAUSE_EXPIRED);
        give_back(hold, HF_ELOST);
        assert_soon(is_free_everywhere());
    }
    hf_lock_close(lock);
}

/* Two masters forget the hold one after the other just before it ends, by its max_hold or by its
 * lease: neither their new votes nor the third outlast the hold. */
static void test_a_vote_that_joins_ends_with_its_hold(void **state) {
    hf_lock *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    for (int renew = 0; renew < 2; renew++) {
        hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
        hf_lock *cats = open_lock(cat, "k", NULL,
                                  OPTIONS(.lease_ms = 20000, .renew = renew ? HF_ON : HF_OFF,
                                          .max_hold_ms = renew ? 22000 : 0));
        hf_hold *hold = acquire(cats), *other;
        int64_t until = now_ms() + (renew ? 22000 : 20000);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        sleep_ms(12000);
        for (int which = 1; which < COUNT_OF_MASTERS; which++) {
            servers_command(which, "DEL k");
            assert_status(hf_hold_check(hold), HF_OK);
            assert_soon(is_at(which, "k") && has_votes(hold, COUNT_OF_MASTERS));
        }
        hf_client_abandon(cat);
        assert_status(hf_lock_acquire(bens, 30000, &other), HF_OK);
        assert_in_range(now_ms(), until - 1000, until + 3000);
        last_fence = hf_hold_fence(other);
        give_back(other, HF_OK);
        hf_hold_close(hold);
        hf_lock_close(cats);
    }
    hf_lock_close(bens);
}

/* The message must not be that of an earlier failure of this thread. */
static void test_a_renewal_without_memory_says_so(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    int lacking = 0;
    (void)state;
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 100; n++) {
        alarm(200);
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        assert_status(hf_hold_release(NULL), HF_EINVAL);
        sim_set.no_memory = 0.3;
        hf_status status = hf_hold_renew(hold);
        sim_set.no_memory = 0;
        lacking += status == HF_ENOMEM;
        if (status == HF_ENOMEM)
            assert_non_null(strstr(hf_error_message(), "no memory"));
        give_back(hold, HF_OK);
        assert_given_back();
    }
    sim_may_lack_memory(sim_self(), false);
    assert_true(lacking > 0);
    hf_lock_close(lock);
}

/* ------------------------------------------------- Rows of docs/quorum.md */

static bool is_free_at(int which) { return !is_at(which, "k"); }

static void test_a_lost_answer_is_asked_for_again(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    give_back(acquire(lock), HF_OK);
    set_fault(1, MUTE, true);
    hf_hold *hold = acquire(lock);
    assert_false(is_free_at(1));
    sim_cut(servers_host(1), HERE, 1);
    set_fault(1, MUTE, false);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    give_back(hold, HF_OK);
    assert_soon(is_free_everywhere());
    hf_lock_close(lock);
}

static void test_a_request_that_comes_after_the_release_holds_nothing(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    give_back(acquire(lock), HF_OK);
    set_fault(2, DEAF, true);
    give_back(acquire(lock), HF_OK);
    set_fault(2, DEAF, false);
    sleep_ms(3000); /* its acquire may arrive before its release, which frees it */
    for (int64_t until = now_ms() + 3000; now_ms() < until; sleep_ms(10))
        assert_true(is_free_everywhere());
    hf_lock_close(lock);
}

/* Each vote has its own latency: the last votes arrive while the others are being kept. */
static void test_a_vote_that_comes_during_a_keep_does_not_outlast_it(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int n = 0; n < 40; n++) {
        hf_hold *hold = acquire(lock);
        assert_status(hf_hold_keep(hold, 300), HF_OK);
        hf_hold_close(hold);
        sleep_ms(500);
        assert_true(is_free_everywhere());
    }
    hf_lock_close(lock);
}

/* The votes are released nevertheless, and do not last until their leases end. */
static void test_a_release_without_memory_leaves_no_vote(void **state) {
    hf_lock *lock = lease_lock(ann, "k", QUARANTINE_MS, HF_OFF);
    (void)state;
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 60; n++) {
        alarm(200);
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        sim_set.no_memory = 0.5;
        hf_hold_release(hold);
        hf_hold_close(hold);
        sim_set.no_memory = 0;
        assert_given_back();
    }
    sim_may_lack_memory(sim_self(), false);
    hf_lock_close(lock);
}

static void assert_ours(hf_status status, int *lacking) {
    if (status != HF_OK)
        assert_status(status, HF_ENOMEM);
    *lacking += status == HF_ENOMEM;
}

/* No thread can be started to ask the masters: that is reported, not that the masters are away. */
static void test_a_process_without_threads_takes_no_master_for_down(void **state) {
    hf_lock_info info = {.size = sizeof info};
    int looks = 0, opens = 0;
    hf_client *cat;
    hf_lock *lock = lease_lock(ann, "k", 3000, HF_OFF);
    (void)state;
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 100; n++) {
        alarm(200);
        sim_set.no_memory = 0.2;
        assert_ours(hf_lock_inspect(lock, 0, &info, NULL), &looks);
        hf_status status = hf_client_open(servers_url(MASTERS), NULL, &cat);
        sim_set.no_memory = 0;
        assert_ours(status, &opens);
        if (status == HF_OK)
            hf_client_close(cat);
    }
    for (int n = 0; n < 8; n++) {
        sim_set.no_memory = 0.2;
        while (hf_lock_inspect(lock, 0, &info, NULL) == HF_OK)
            continue;
        sim_set.no_memory = 0;
        set_fault(1, CUT, true);
        set_fault(2, CUT, true);
        assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_ECONNECT);
        assert_true(strstr(hf_error_message(), "no memory") == NULL ||
                    strstr(hf_error_message(), "was lost") != NULL);
        assert_null(strstr(hf_error_message(), "no thread"));
        set_fault(1, CUT, false);
        set_fault(2, CUT, false);
        assert_soon(hf_lock_inspect(lock, 0, &info, NULL) == HF_OK);
    }
    sim_may_lack_memory(sim_self(), false);
    assert_true(looks > 0 && opens > 0);
    hf_lock_close(lock);
}

/* Masters do not count as away when a try has no memory to ask them. */
static void test_an_acquire_without_memory_says_so(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 1000, HF_OFF);
    int lacking = 0;
    (void)state;
    give_back(acquire(lock), HF_OK);
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 200; n++) {
        hf_hold *hold;
        alarm(200);
        sim_set.no_memory = 0.2;
        hf_status status = hf_lock_acquire(lock, 0, &hold);
        sim_set.no_memory = 0;
        if (status == HF_ECONNECT) /* a connection ended for lack of memory */
            assert_non_null(strstr(hf_error_message(), "emory"));
        else
            assert_ours(status, &lacking);
        if (status == HF_OK)
            hf_hold_close(hold);
        sleep_ms(2000);
    }
    sim_may_lack_memory(sim_self(), false);
    assert_true(lacking > 0);
    hf_lock_close(lock);
}

/* Read the progress of the walk, as the signal's handler. */
static int have_signal(void *walk) {
    hf_progress progress = {.size = sizeof progress};
    assert_status(hf_locks_progress(*(hf_locks **)walk, &progress), HF_OK);
    assert_int_equal(progress.keys, -1);
    return 1;
}

/* The walk runs in the client of one master; the check is in the client of all masters. */
static void test_a_signal_ends_a_walk_over_one_of_the_masters(void **state) {
    hf_locks_options slow = {.size = sizeof slow, .rate = 1};
    hf_locks *locks;
    hf_view *view;
    (void)state;
    assert_status(hf_locks_open(ann, NULL, 0, &slow, &locks), HF_OK);
    assert_status(hf_client_set_interrupt(ann, have_signal, &locks), HF_OK);
    assert_status(hf_locks_next(locks, NULL, &view), HF_EINTR);
    hf_locks_close(locks);
    assert_status(hf_client_set_interrupt(ann, NULL, NULL), HF_OK);
}

/* By its clock the master has not started yet: it counts as started just now. */
static void test_a_clock_set_back_behind_its_start_shuts_no_client_out(void **state) {
    (void)state;
    sim_server_step(servers_at(2), -1000000 * SIM_S);
    hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
    hf_lock *lock = lease_lock(cat, "k", 1000, HF_ON);
    hf_hold *hold = acquire(lock);
    assert_false(has_votes(hold, COUNT_OF_MASTERS));
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(cat);
    sim_server_step(servers_at(2), 1000000 * SIM_S);
}

static void stepping(bool on) { sim_server_step(servers_at(2), on ? 180 * SIM_S : -180 * SIM_S); }
static void forgetting(bool on) {
    if (on)
        servers_command(2, "FLUSHALL");
}
static void deleting(bool on) {
    for (int i = 1; i < COUNT_OF_MASTERS && on; i++)
        servers_command(i, "DEL k");
}

/* A master loses its vote, which the hold needs. Then another client may get the lock, with a
 * greater fence; or the holder asks first and keeps it. */
static void over_holds_with_few_votes(void (*strike)(bool on)) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    int taken = 0;
    for (int n = 0; n < 8; n++) {
        alarm(200);
        set_fault(0, REFUSES, true);
        hf_hold *hold = acquire(anns), *other;
        assert_true(has_votes(hold, 2));
        set_fault(0, REFUSES, false);
        strike(true);
        if (hf_lock_acquire(bens, 0, &other) == HF_OK) {
            taken++;
            assert_true(hf_hold_fence(other) > last_fence);
            last_fence = hf_hold_fence(other);
            for (int64_t until = now_ms() + 8000; hf_hold_state(hold) != HF_STATE_LOST;
                 sleep_ms(10))
                assert_true(now_ms() < until); /* at its next renewal, not when its lease ends */
            hf_hold_close(hold);
            give_back(other, HF_OK);
        } else {
            assert_soon(has_votes(hold, COUNT_OF_MASTERS));
            give_back(hold, HF_OK);
        }
        strike(false);
        assert_soon(is_free_everywhere());
    }
    assert_true(taken > 0);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

static void test_a_clock_that_steps_takes_a_hold_with_few_votes(void **state) {
    (void)state;
    over_holds_with_few_votes(stepping);
}

static void test_a_master_that_forgets_unseen_takes_a_hold_with_few_votes(void **state) {
    (void)state;
    over_holds_with_few_votes(forgetting);
}

static void test_a_key_that_most_masters_lose_is_a_lost_hold(void **state) {
    (void)state;
    over_holds_with_few_votes(deleting);
}

/* A master loses the key: it is deleted, or the master loses all its data unnoticed. The others
 * still refuse. */
static void test_a_key_that_one_master_loses_is_asked_for_again(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_hold *hold = acquire(anns);
    (void)state;
    for (int which = 0; which < COUNT_OF_MASTERS; which++)
        for (int flushes = 0; flushes < 2; flushes++) {
            assert_soon(has_votes(hold, COUNT_OF_MASTERS));
            servers_command(which, flushes ? "FLUSHALL" : "DEL k");
            for (int64_t until = now_ms() + 10000; now_ms() < until; sleep_ms(100)) {
                is_refused(bens);
                assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
            }
        }
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

static void test_a_dead_holder_s_votes_end(void **state) {
    hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
    hf_lock *cats = lease_lock(cat, "k", 3000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_hold *hold = acquire(cats), *other;
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    hf_client_abandon(cat);
    is_refused(bens);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(bens, 20000, &other), HF_OK);
    assert_in_range(now_ms() - since, 1000, 5000);
    assert_true(hf_hold_fence(other) > hf_hold_fence(hold));
    give_back(other, HF_OK);
    hf_hold_close(hold);
    hf_lock_close(cats);
    hf_lock_close(bens);
}

/* The copy of the data is older than the hold. */
static void test_a_master_with_old_data_lets_nobody_in(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    for (int which = 0; which < COUNT_OF_MASTERS; which++)
        servers_restore(which, (2 + 10 * which) * SIM_S, 50 * SIM_MS);
    hf_hold *hold = acquire(anns), *other;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    for (int64_t until = now_ms() + 35000; now_ms() < until; sleep_ms(20)) {
        hf_status status = hf_lock_acquire(bens, 0, &other);
        assert_true(status == HF_EBUSY || status == HF_ECONNECT);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    }
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    give_back(hold, HF_OK);
    sleep_ms(QUARANTINE_MS);
    give_back(acquire(bens), HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* All masters restart at once, and the holder does not ask for votes again. */
static void test_masters_with_old_data_let_nobody_in_before_the_lease_ends(void **state) {
    hf_client *cat = open_with(servers_url(MASTERS), 2000, 2000);
    hf_lock *cats = lease_lock(cat, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    for (int which = 0; which < COUNT_OF_MASTERS; which++)
        servers_restore(which, 2 * SIM_S, 50 * SIM_MS);
    hf_hold *hold = acquire(cats), *other;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    hf_client_abandon(cat);
    for (int64_t until = now_ms() + 19000; now_ms() < until; sleep_ms(20)) {
        hf_status status = hf_lock_acquire(bens, 0, &other);
        assert_true(status == HF_EBUSY || status == HF_ECONNECT);
    }
    sleep_ms(QUARANTINE_MS);
    give_back(acquire(bens), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(cats);
    hf_lock_close(bens);
}

static void stop_first_thread(void *process) { sim_stun(process, 0, 3 * SIM_S); }

/* The thread stands still somewhere for longer than a lease: the hold that it returns is valid,
 * unless it stands still on its way out. */
static void test_who_stands_still_before_it_returns_asks_again(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 1000, HF_OFF);
    int ended = 0;
    (void)state;
    for (int64_t after_us = 0; after_us < 2000; after_us += 25) {
        alarm(200);
        bool brief = after_us % 50 != 0;
        waiter *w = waiter_start(lock, brief ? 1000 : 10000);
        sim_at(sim_now() + after_us * SIM_US, stop_first_thread, sim_self());
        assert_soon(atomic_load(&w->done));
        if (brief && w->status == HF_ECONNECT) { /* it stood still while it sent its requests */
            assert_null(strstr(w->why, "ended before the answers came"));
            waiter_join(w, HF_ECONNECT);
            continue;
        }
        waiter_join(w, HF_OK);
        ended += hf_hold_remaining_ms(w->hold) == 0;
        assert_true(hf_hold_fence(w->hold) > last_fence);
        last_fence = hf_hold_fence(w->hold);
        sleep_ms(4000);
        hf_hold_close(w->hold);
        assert_soon(is_free_everywhere());
    }
    assert_in_range(ended, 0, 4);
    hf_lock_close(lock);
}

/* The thread stands still until its lease has ended, and has no memory to ask again. Only a try may
 * report that others hold the lock. */
static void test_who_has_no_memory_to_ask_again_says_so(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 1000, HF_OFF);
    (void)state;
    give_back(acquire(lock), HF_OK);
    sim_may_lack_memory(sim_self(), true);
    set_faults(PAUSED, true);
    waiter *w = waiter_start(lock, HF_FOREVER);
    sleep_ms(20); /* until it sleeps, waiting for the votes */
    stop_first_thread(sim_self());
    set_faults(PAUSED, false);
    sleep_ms(2000);
    sim_set.no_memory = 1;
    sleep_ms(2000);
    sim_set.no_memory = 0;
    sim_may_lack_memory(sim_self(), false);
    waiter_join(w, HF_ENOMEM);
    assert_given_back();
    hf_lock_close(lock);
}

/* Open the lock in a program on another host. */
static hf_lock *lock_elsewhere(int64_t lease_ms, hf_client **client_out) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = lease_ms};
    hf_lock *lock = NULL;
    if (hf_client_open(servers_url(MASTERS), NULL, client_out) != HF_OK ||
        hf_lock_open(*client_out, "k", 1, NULL, 0, &options, &lock) != HF_OK)
        sim_wrong("no client elsewhere: %s", hf_error_message());
    return lock;
}

/* Die during an acquire: the votes end with their leases, the place in the line at once. */
static void *die_while_it_acquires(void *unused) {
    hf_client *cat;
    hf_hold *hold;
    hf_lock *lock = lock_elsewhere(3000, &cat);
    (void)unused;
    servers_command(1, "SET begins 1");
    hf_lock_acquire(lock, 20000, &hold);
    sleep_ms(60000);
    return NULL;
}

static void test_who_dies_while_it_acquires_delays_others_for_a_lease(void **state) {
    enum { ELSEWHERE = 3 };
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int64_t after_us = 0; after_us < 2000; after_us += 200) {
        alarm(200);
        servers_command(1, "DEL begins");
        sim_process *elsewhere = sim_spawn("elsewhere", ELSEWHERE, die_while_it_acquires, NULL);
        while (!is_at(1, "begins"))
            usleep(10);
        usleep((useconds_t)after_us);
        sim_kill(elsewhere, false);
        int64_t since = now_ms();
        hf_hold *hold;
        assert_status(hf_lock_acquire(lock, 10000, &hold), HF_OK);
        assert_in_range(now_ms() - since, 0, 5000);
        assert_true(hf_hold_fence(hold) > last_fence);
        last_fence = hf_hold_fence(hold);
        give_back(hold, HF_OK);
    }
    hf_lock_close(lock);
}

static void test_another_library_s_key_on_most_masters_is_a_lock_that_is_held(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON);
    hf_hold *hold;
    (void)state;
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "SET k other");
    is_refused(anns);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(anns, 3000, &hold), HF_ETIMEOUT);
    assert_in_range(now_ms() - since, 3000, 3500);
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "DEL k");
    give_back(acquire(anns), HF_OK);
    hf_lock_close(anns);
}

static void test_another_library_s_key_on_one_master_stops_nobody(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    servers_command(0, "SET k other");
    hf_hold *hold = acquire(anns);
    assert_true(has_votes(hold, 2));
    waiter *w = waiter_start(bens, 20000);
    sleep_ms(500);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
    servers_command(0, "DEL k");
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* Acquire in a program on another host, which does not reach the first master, while this host does
 * not reach the last: the master between them decides. */
static void *run_elsewhere(void *unused) {
    hf_client *cat;
    hf_hold *hold;
    hf_lock *lock = lock_elsewhere(20000, &cat);
    (void)unused;
    for (int n = 0; n < 20; n++) {
        if (hf_lock_acquire(lock, 20000, &hold) != HF_OK)
            sim_wrong("no hold elsewhere: %s", hf_error_message());
        servers_command(1, "SET inside 1");
        usleep(20000);
        if (!is_at(1, "inside"))
            sim_wrong("another has come in");
        servers_command(1, "DEL inside");
        hf_hold_release(hold);
        hf_hold_close(hold);
    }
    hf_lock_close(lock);
    hf_client_close(cat);
    servers_command(1, "SET over 1");
    return NULL;
}

static void test_who_reaches_other_masters_shares_one_that_decides(void **state) {
    enum { ELSEWHERE = 3 };
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    set_way(2, false);
    sim_way(ELSEWHERE, servers_host(0), false);
    sim_way(servers_host(0), ELSEWHERE, false);
    sim_spawn("elsewhere", ELSEWHERE, run_elsewhere, NULL);
    for (int n = 0; !is_at(1, "over"); n++) {
        alarm(200);
        hf_hold *hold;
        assert_status(hf_lock_acquire(lock, 20000, &hold), HF_OK);
        assert_true(hf_hold_fence(hold) > last_fence);
        last_fence = hf_hold_fence(hold);
        assert_false(is_at(1, "inside"));
        sleep_ms(20);
        assert_false(is_at(1, "inside"));
        give_back(hold, HF_OK);
        sleep_ms(5);
    }
    sim_way(ELSEWHERE, servers_host(0), true);
    sim_way(servers_host(0), ELSEWHERE, true);
    hf_lock_close(lock);
}

static void *wait_far_away(void *unused) {
    hf_client *cat;
    hf_hold *hold;
    hf_lock *lock = lock_elsewhere(20000, &cat);
    (void)unused;
    servers_command(1, "SET waits 1");
    if (hf_lock_acquire(lock, 60000, &hold) != HF_OK)
        sim_wrong("no hold far away: %s", hf_error_message());
    servers_command(1, "SET over 1");
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(cat);
    return NULL;
}

/* The next try follows each release, from nearer to the masters than the waiter that is granted the
 * lock. */
static void test_tries_do_not_pass_who_waits_far_away(void **state) {
    enum { FAR = 4 };
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    for (int i = 0; i < COUNT_OF_MASTERS; i++) {
        sim_distance(HERE, servers_host(i), (i == 0 ? 100 : 200) * SIM_US);
        sim_distance(FAR, servers_host(i), 3 * SIM_MS);
    }
    hf_hold *hold = acquire(lock);
    sim_spawn("far", FAR, wait_far_away, NULL);
    assert_soon(is_at(1, "waits"));
    sleep_ms(500);
    for (int64_t until = now_ms() + 3000; !is_at(1, "over");) {
        assert_true(now_ms() < until);
        if (hold != NULL)
            give_back(hold, HF_OK);
        if (hf_lock_acquire(lock, 0, &hold) == HF_OK)
            sleep_ms(200);
        else
            usleep(1000);
    }
    if (hold != NULL)
        give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* Each thread of the client stands still in turn for longer than a lease. A thread that renews
 * votes costs only one master's vote, and votes stand without the thread that counts them. */
static void test_no_thread_that_stands_still_loses_a_hold(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 3000, HF_ON), *bens = lease_lock(ben, "k", 3000, HF_ON);
    hf_hold *hold = acquire(anns);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    for (size_t n = 0; sim_stun(sim_self(), n, 8 * SIM_S); n++) {
        sleep_ms(7000);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        sleep_ms(3000);
        is_refused(bens);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    }
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* The thread stands still after it has read how long the hold lasts, and the hold is renewed
 * meanwhile. */
static void test_no_extension_outlasts_the_quarantine(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 10000, HF_ON);
    int extended = 0;
    (void)state;
    for (int n = 0; n < 40; n++) {
        alarm(200);
        hf_hold *hold = acquire(lock);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        while (hf_hold_remaining_ms(hold) > 7800)
            usleep(1000);
        sim_set.stunned = 0.05;
        sim_set.stunned_ns = SIM_S;
        extended += hf_hold_extend(hold, 22000, 0) == HF_OK;
        sim_set.stunned = 0;
        assert_in_range(hf_hold_remaining_ms(hold), 0, QUARANTINE_MS);
        give_back(hold, HF_OK);
        assert_soon(is_free_everywhere());
    }
    assert_in_range(extended, 5, 40);
    hf_lock_close(lock);
}

static bool lacks_an_end;

static void look_for_an_end(int which, const sim_bytes *words, size_t count) {
    sim_seen seen;
    (void)words, (void)count;
    if (sim_redis_see(servers_redis(which), 0, (sim_bytes){"k", 1}, &seen))
        lacks_an_end = lacks_an_end || seen.expires_ms == INT64_MAX;
}

/* The votes of most masters end just before the last one is asked. */
static void test_an_extension_that_is_late_asks_for_an_end(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 3000, HF_ON);
    hf_hold *hold;
    int late = 0;
    (void)state;
    lacks_an_end = false;
    servers_watch = look_for_an_end;
    for (int n = 0; n < 60; n++) {
        alarm(200);
        assert_status(hf_lock_acquire(lock, 20000, &hold), HF_OK);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        for (int i = 0; i < 2; i++)
            set_fault(i, PAUSED, true);
        while (hf_hold_remaining_ms(hold) > 20)
            usleep(1000);
        for (size_t i = 0, main = sim_threads(sim_self()) - 1; i < main; i++)
            sim_stun(sim_self(), i, SIM_S);
        sim_set.stunned = 0.2;
        sim_set.stunned_ns = 300 * SIM_MS;
        late += hf_hold_extend(hold, 10, 0) == HF_ELOST;
        sim_set.stunned = 0;
        for (int i = 0; i < 2; i++)
            set_fault(i, PAUSED, false);
        hf_hold_release(hold);
        hf_hold_close(hold);
        assert_given_back();
    }
    assert_false(lacks_an_end);
    assert_true(late > 0);
    hf_lock_close(lock);
}

/* The masters forget the hold one after the other: the votes that join last as long as the hold. */
static void test_an_extended_hold_keeps_its_end(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 1000, HF_OFF);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    assert_status(hf_hold_extend(hold, 15000, 0), HF_OK);
    for (int which = 0; which < COUNT_OF_MASTERS; which++) {
        servers_command(which, "DEL k");
        assert_status(hf_hold_check(hold), HF_OK);
        assert_soon(is_at(which, "k") && has_votes(hold, COUNT_OF_MASTERS));
    }
    sleep_ms(10000);
    assert_in_range(hf_hold_remaining_ms(hold), 1000, 6000);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* Each master is up again and has the hold before the next one stops. The clients' threads stand
 * still now and then, as on a busy machine. */
static void test_planned_restarts_one_at_a_time_lose_nothing(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 5000, HF_ON), *bens = lease_lock(ben, "k", 5000, HF_ON);
    hf_hold *hold = acquire(anns), *other;
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    sim_set.stunned = 0.05;
    sim_set.stunned_ns = SIM_S;
    for (int n = 0; n < 60; n++) {
        int which = n % COUNT_OF_MASTERS;
        alarm(200);
        servers_restart(which, false, 20 * SIM_MS);
        /* In this order: the client may not have noticed the loss of a vote yet. */
        assert_soon(is_at(0, "k") && is_at(1, "k") && is_at(2, "k") &&
                    has_votes(hold, COUNT_OF_MASTERS));
        assert_true(hf_lock_acquire(bens, 0, &other) != HF_OK);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    }
    sim_set.stunned = 0;
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* A master's renewals fail while the client has only that master's vote, and waits for a majority.
 */
static void test_trouble_that_meets_no_hold_says_so(void **state) {
    hf_client_options options = {.size = sizeof options, .trouble = HF_ON};
    hf_client *client;
    (void)state;
    assert_status(hf_client_open(servers_url(MASTERS), &options, &client), HF_OK);
    hf_lock *lock = lease_lock(client, "k", 3000, HF_ON);
    assert_true(hf_client_fd(client) >= 0);
    set_fault(1, PAUSED, true);
    set_fault(2, PAUSED, true);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 10000, NULL, 1), HF_OK);
    assert_soon(is_at(0, "k"));
    set_fault(0, PAUSED, true);
    hf_completion told = next_of(client);
    assert_int_equal(told.kind, HF_KIND_FAILOVER);
    assert_int_equal(told.holds, 0);
    assert_non_null(strstr(told.error.message, " does not renew, and the client has no hold"));
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        set_fault(i, PAUSED, false);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* The hold that the master failed to renew has been released since. */
static void test_a_master_that_failed_for_an_earlier_hold_fails_no_later_one(void **state) {
    hf_client_options options = {.size = sizeof options, .trouble = HF_ON};
    (void)state;
    for (int n = 0; n < 20; n++) {
        hf_client *cat;
        alarm(200);
        assert_status(hf_client_open(servers_url(MASTERS), &options, &cat), HF_OK);
        hf_lock *lock = lease_lock(cat, "k", 9000, HF_ON);
        assert_true(hf_client_fd(cat) >= 0);
        for (int which = 2; which > 0; which--) {
            hf_hold *hold = acquire(lock);
            assert_soon(has_votes(hold, COUNT_OF_MASTERS));
            servers_refuse(which, SIM_EVERYTHING, "ERR something is wrong", -1);
            for (int64_t until = now_ms() + 8000; now_ms() < until;)
                assert_int_not_equal(completion_within(cat, 100).kind, HF_KIND_TROUBLE);
            give_back(hold, HF_OK);
            servers_refuse(which, SIM_EVERYTHING, NULL, 0);
            assert_soon(is_free_everywhere());
        }
        hf_lock_close(lock);
        hf_client_close(cat);
    }
}

/* The master answers each renewal, and renews nothing. */
static void test_a_master_that_cannot_write_is_told_of(void **state) {
    hf_client_options options = {.size = sizeof options, .trouble = HF_ON};
    hf_client *cat;
    (void)state;
    assert_status(hf_client_open(servers_url(MASTERS), &options, &cat), HF_OK);
    hf_lock *lock = lease_lock(cat, "k", 9000, HF_ON);
    assert_true(hf_client_fd(cat) >= 0);
    hf_hold *hold = acquire(lock);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    set_fault(1, REFUSES, true);
    assert_int_equal(next_of(cat).kind, HF_KIND_FAILOVER);
    assert_in_range(hf_hold_votes(hold, NULL), COUNT_OF_MASTERS, COUNT_OF_MASTERS);
    set_fault(1, REFUSES, false);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(cat);
}

/* A vote for another lock does not show that the master renews the hold again. */
static void test_a_vote_for_another_lock_ends_no_trouble(void **state) {
    hf_client_options options = {.size = sizeof options, .trouble = HF_ON};
    hf_client *cat;
    hf_hold *fails, *other;
    (void)state;
    assert_status(hf_client_open(servers_url(MASTERS), &options, &cat), HF_OK);
    hf_lock *a = lease_lock(cat, "a", 9000, HF_ON), *b = lease_lock(cat, "b", 9000, HF_ON);
    assert_true(hf_client_fd(cat) >= 0);
    assert_status(hf_lock_acquire(a, 10000, &fails), HF_OK);
    assert_soon(has_votes(fails, COUNT_OF_MASTERS));
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "ACL SETUSER default resetkeys ~b ~{b}*");
    hf_completion told = next_of(cat);
    if (told.kind == HF_KIND_FAILOVER) /* that of the first hold */
        told = next_of(cat);
    assert_int_equal(told.kind, HF_KIND_TROUBLE);
    assert_status(told.status, HF_ESERVER);
    assert_non_null(strstr(told.error.message, "NOPERM"));
    assert_status(hf_lock_acquire(b, 10000, &other), HF_OK);
    assert_int_equal(next_of(cat).kind, HF_KIND_LOSS);
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "ACL SETUSER default ~*");
    hf_hold_close(fails);
    give_back(other, HF_OK);
    hf_lock_close(a);
    hf_lock_close(b);
    hf_client_close(cat);
}

/* H270: a user without the permission for a lock asks for it again and again, and waits for a lock
 * for whose keys it has the permission. */
static void test_a_lock_that_masters_refuse_says_nothing_of_others(void **state) {
    hf_lock *a = lease_lock(ben, "a", 9000, HF_ON), *b = lease_lock(ben, "b", 9000, HF_ON),
            *theirs = lease_lock(ann, "b", 20000, HF_ON);
    hf_lock_info info = {.size = sizeof info};
    hf_hold *hold = acquire(theirs), *none;
    (void)state;
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "ACL SETUSER default resetkeys ~b ~{b}* ~hf1:members");
    waiter *w = waiter_start(b, 3000);
    while (!atomic_load(&w->done)) {
        assert_status(hf_lock_acquire(a, 0, &none), HF_ESERVER);
        assert_non_null(strstr(hf_error_message(), "NOPERM"));
        assert_status(hf_lock_inspect(a, 0, &info, NULL), HF_ESERVER);
        sleep_ms(50);
    }
    waiter_join(w, HF_ETIMEOUT);
    int64_t began = now_ms();
    assert_status(hf_lock_acquire(a, 20000, &none), HF_ESERVER);
    assert_in_range(now_ms() - began, 0, 500);
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "ACL SETUSER default ~*");
    give_back(hold, HF_OK);
    hf_lock_close(a);
    hf_lock_close(b);
    hf_lock_close(theirs);
}

static int asks;

static void count_asks(int which, const sim_bytes *words, size_t count) {
    asks += which == 1 && count > 1 && words[1].length == 40 &&
            memcmp(words[1].bytes, hf_script_acquire.sha1, 40) == 0;
}

/* The first master refuses the waiters' line: they stand in line at the next one, and do not ask
 * all again and again. */
static void test_a_line_that_the_first_master_refuses_is_at_the_next(void **state) {
    hf_lock *anns = lease_lock(ann, "a", 20000, HF_ON), *bens = lease_lock(ben, "a", 20000, HF_ON);
    hf_hold *hold = acquire(anns);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    servers_command(0, "ACL SETUSER default resetkeys ~b ~{b}* ~hf1:members");
    waiter *w = waiter_start(bens, 20000);
    sleep_ms(2000);
    asks = 0;
    servers_watch = count_asks;
    sleep_ms(5000);
    servers_watch = NULL;
    assert_in_range(asks, 0, 15);
    servers_command(0, "ACL SETUSER default ~*");
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* The servers' memory is full. */
static void test_an_error_of_most_masters_is_told_as_an_error(void **state) {
    hf_lock *lock = lease_lock(ben, "k", 9000, HF_ON);
    hf_hold *none;
    (void)state;
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        servers_refuse(i, SIM_WRITES, "OOM command not allowed", -1);
    assert_status(hf_lock_acquire(lock, 0, &none), HF_ESERVER);
    assert_non_null(strstr(hf_error_message(), "OOM"));
    assert_status(hf_lock_acquire(lock, 1000, &none), HF_ESERVER);
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        servers_refuse(i, SIM_WRITES, NULL, 0);
    hf_lock_close(lock);
}

/* The nested hold must be confirmed, because the outer hold ends too soon, and no master answers. A
 * cancel at that time is too late. */
static void test_a_cancel_meets_a_started_acquire_that_nests(void **state) {
    hf_lock *brief = nesting_lock(1000, HF_OFF), *longer = nesting_lock(10000, HF_OFF);
    hf_acquire_options whole = {.size = sizeof whole, .flags = HF_ACQUIRE_WHOLE};
    int late = 0;
    (void)state;
    assert_true(hf_client_fd(ann) >= 0);
    for (int n = 0; n < 20; n++) {
        hf_hold *outer = acquire(brief);
        set_faults(PAUSED, true);
        assert_status(hf_lock_acquire_start(longer, "owner", 5, 0, &whole, 1), HF_OK);
        sleep_ms(n);
        assert_status(hf_op_cancel(ann, 1), HF_OK);
        set_faults(PAUSED, false);
        hf_completion done = next_of(ann);
        if (done.status == HF_OK)
            give_back(done.hold, HF_OK);
        else
            assert_status(done.status, HF_ECANCELED);
        late += done.status == HF_OK;
        give_back(outer, HF_OK);
        assert_soon(is_free_everywhere());
    }
    assert_true(late > 0);
    hf_lock_close(brief);
    hf_lock_close(longer);
}

/* The first master grants the lock by a message, which counts for 3 s; its vote is needed for a
 * majority. */
static void test_a_hold_that_was_waited_for_has_its_whole_lease(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 10000, HF_OFF), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    set_fault(2, CUT, true);
    hf_hold *hold = acquire(bens);
    waiter *w = waiter_start(anns, 20000);
    sleep_ms(500);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    sleep_ms(2000);
    assert_in_range(hf_hold_remaining_ms(w->hold), 6000, 8500);
    sleep_ms(4000);
    assert_int_equal(hf_hold_state(w->hold), HF_STATE_HELD);
    sleep_ms(4000);
    assert_int_equal(hf_hold_state(w->hold), HF_STATE_LOST);
    hf_hold_close(w->hold);
    set_fault(2, CUT, false);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* The other masters are free, and are a majority; the time is too short for another request by
 * chance. */
static void test_another_library_s_key_on_the_first_master_ends_no_wait(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    hf_hold *hold;
    (void)state;
    servers_command(0, "SET k other");
    for (int n = 0; n < 30; n++) {
        assert_status(hf_lock_acquire(lock, n % 3 == 0 ? 1 : n % 3 == 1 ? 30 : 500, &hold), HF_OK);
        give_back(hold, HF_OK);
    }
    servers_command(0, "DEL k");
    hf_lock_close(lock);
}

/* All masters have refused once; then the holder releases the lock, and the first master sends no
 * message. */
static void test_what_most_masters_have_again_is_not_told_as_held(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    servers_command(0, "SET k other");
    for (int n = 0; n < 5; n++) {
        sleep_ms(2000); /* until the earlier wait is forgotten */
        hf_hold *hold = acquire(bens);
        waiter *w = waiter_start(anns, 400);
        sleep_ms(100);
        give_back(hold, HF_OK);
        waiter_join(w, HF_OK);
        give_back(w->hold, HF_OK);
    }
    servers_command(0, "DEL k");
    hf_hold *hold = acquire(bens), *other;
    assert_status(hf_lock_acquire(anns, 100, &other), HF_ETIMEOUT);
    assert_non_null(strstr(hf_error_message(), "at last by "));
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* The holder is first in the line at the master that lacks its vote, and has the lock. */
static void test_who_holds_it_is_not_shown_as_waiting(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock_info info = {.size = sizeof info};
    hf_view *view;
    hf_lock_waiter one = {.size = sizeof one};
    (void)state;
    hf_hold *hold = acquire(anns);
    waiter *w = waiter_start(bens, 20000);
    sleep_ms(1000);
    servers_command(0, "DEL k");
    servers_command(0, "SET k other");
    assert_status(hf_hold_check(hold), HF_OK);
    sleep_ms(2000); /* until both stand there */
    assert_status(hf_lock_inspect(anns, 0, &info, &view), HF_OK);
    assert_int_equal(info.waiters, 0);
    hf_view_close(view);
    hf_locks *locks;
    assert_status(hf_locks_open(ann, NULL, 0, NULL, &locks), HF_OK);
    assert_status(hf_locks_next(locks, &info, &view), HF_OK);
    assert_int_equal(info.waiters, 1);
    assert_int_equal(hf_view_waiters(view), 1);
    assert_status(hf_view_waiter(view, 0, &one), HF_OK);
    assert_in_range(one.waited_ms, 2000, 10000);
    hf_view_close(view);
    hf_locks_close(locks);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
    servers_command(0, "DEL k");
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* The first master grants the lock to the first waiter before its client has seen its place there.
 */
static void test_who_is_let_in_at_once_keeps_its_place(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    (void)state;
    for (int n = 0; n < 5; n++) {
        waiter *waiters[2];
        hf_hold *hold = acquire(anns);
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        for (int i = 0; i < 2; i++) {
            waiters[i] = waiter_start_as(bens, text("owner %d", i), 120000);
            sleep_ms(40);
        }
        servers_command(0, "DEL k");
        assert_status(hf_hold_check(hold), HF_OK);
        assert_soon(!has_votes(hold, COUNT_OF_MASTERS));
        assert_soon(has_votes(hold, COUNT_OF_MASTERS));
        give_back(hold, HF_OK);
        for (int i = 0; i < 2; i++)
            assert_is_next(waiters[i]);
        assert_soon(is_free_everywhere());
    }
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* One master has forgotten the hold, and another does not answer whether it has it. No timer renews
 * the hold. */
static void test_a_vote_is_asked_for_again_though_others_do_not_answer(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 25000, HF_OFF);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    servers_command(0, "DEL k");
    set_fault(1, PAUSED, true);
    hf_hold_check(hold);
    sleep_ms(5000);
    set_fault(1, PAUSED, false);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS) && is_at(0, "k"));
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* A master that answers wrongly does not make the others count as away. */
static void test_a_ping_is_answered_by_a_majority(void **state) {
    hf_client *cat;
    size_t answer = 0;
    (void)state;
    servers_command(2, "SET hf1:members another");
    assert_status(hf_client_ping(ann, &answer), HF_OK);
    assert_int_equal(answer, COUNT_OF_MASTERS - 1);
    assert_status(hf_client_open(servers_url(MASTERS), NULL, &cat), HF_EINVAL);
    servers_command(1, "SET hf1:members another");
    assert_status(hf_client_ping(ann, &answer), HF_EINVAL);
    assert_int_equal(answer, COUNT_OF_MASTERS - 2);
    servers_command(1, "DEL hf1:members");
    servers_command(2, "DEL hf1:members");
}

static void test_a_free_lock_is_broken_without_an_error(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    hf_hold *hold = acquire(lock);
    int64_t fence = hf_hold_fence(hold);
    (void)state;
    assert_status(hf_lock_break(lock, fence - 1, 0), HF_ENOTHELD);
    give_back(hold, HF_OK);
    assert_status(hf_lock_break(lock, fence, 0), HF_OK);
    hf_lock_close(lock);
}

/* H287: the first master has lost its vote, and the last one does not answer. */
static void test_only_a_majority_shows_that_a_lock_is_free(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock_info info = {.size = sizeof info};
    hf_hold *hold = acquire(anns);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    set_fault(2, PAUSED, true);
    servers_command(0, "DEL k");
    assert_status(hf_lock_inspect(bens, 0, &info, NULL), HF_OK);
    assert_int_equal(info.fence, last_fence);
    assert_status(hf_lock_break(bens, last_fence - 1, 0), HF_ENOTHELD);
    set_fault(2, PAUSED, false);
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* The answers were there all the time, and do not measure the way. */
static void test_who_stood_still_proposes_no_fence_far_ahead(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    int64_t since = now_ms();
    hf_hold *hold = acquire(lock);
    int64_t fence = hf_hold_fence(hold);
    (void)state;
    alarm(900);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    assert_true(hf_client_fd(ann) >= 0);
    assert_status(hf_hold_release_start(hold, 1), HF_OK);
    usleep(200); /* until the request is sent */
    for (size_t i = 0, main = sim_threads(sim_self()) - 1; i < main; i++)
        sim_stun(sim_self(), i, 60 * SIM_S);
    sleep_ms(60000);
    next_of(ann);
    hf_hold_close(hold);
    assert_status(hf_lock_acquire(lock, 200000, &hold), HF_OK); /* threads may still stand still */
    assert_true(hf_hold_fence(hold) - fence < (now_ms() - since + 2000) * 1000);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* H276: threads stand still between their look at the clock and the send. */
static void test_who_stands_still_before_it_asks_proposes_no_fence_far_ahead(void **state) {
    hf_lock *lock = lease_lock(ann, "ahead", 20000, HF_ON);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 10000, &hold), HF_OK);
    int64_t clock_us = hf_hold_fence(hold) - sim_now() / 1000; /* that of the masters */
    (void)state;
    give_back(hold, HF_OK);
    for (int n = 0; n < 80; n++) {
        alarm(900);
        sim_set.stunned = n % 2 == 0 ? 0.05 : 0;
        sim_set.stunned_ns = 60 * SIM_S;
        hf_status status = hf_lock_acquire(lock, 200000, &hold);
        sim_set.stunned = 0;
        if (status == HF_OK) {
            int64_t fence = hf_hold_fence(hold);
            assert_true(n % 2 == 0 || fence < clock_us + sim_now() / 1000 + 2000000);
            hf_hold_release(hold);
            hf_hold_close(hold);
        }
        sleep_ms(1);
    }
    hf_lock_close(lock);
}

static sim_process *pinging;

static int answers;

/* Stop the process until the answers of all masters to a ping are there. */
static void stop_at_info(int which, const sim_bytes *words, size_t count) {
    (void)which;
    if (count != 1 || words[0].length != 4 || memcmp(words[0].bytes, "INFO", 4) != 0 ||
        ++answers < COUNT_OF_MASTERS)
        return;
    servers_watch = NULL;
    stands_still(pinging, 0, 2500);
}

/* H277: the process stands still while the masters answer. */
static void test_who_stands_still_during_a_ping_hears_the_masters(void **state) {
    size_t answered;
    (void)state;
    pinging = sim_self();
    for (int n = 0; n < 20; n++) {
        alarm(200);
        answers = 0;
        servers_watch = stop_at_info;
        assert_status(hf_client_ping(ann, &answered), HF_OK);
        servers_watch = NULL;
    }
}

/* H273: what is started and not sent yet when the process stands still is sent when it goes on. */
static void test_what_is_started_as_the_process_stops_is_no_outage(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_OFF);
    (void)state;
    alarm(900);
    assert_true(hf_client_fd(ann) >= 0);
    for (int n = 0; n < 20; n++) {
        give_back(acquire(lock), HF_OK); /* the masters know the scripts */
        hf_hold *hold = acquire(lock);
        assert_status(hf_hold_release_start(hold, 1), HF_OK);
        sim_at(sim_now() + 2500 * SIM_MS, go_on, sim_self());
        sim_pause(sim_self());
        sleep_ms(2500);
        assert_status(next_of(ann).status, HF_OK);
        hf_hold_close(hold);
        assert_soon(is_free_everywhere());
    }
    hf_lock_close(lock);
}

static int voter;

/* Stop a master once it has given its vote. */
static void pause_voter(int which, const sim_bytes *words, size_t count) {
    if (which != voter || count < 2 || words[1].length != 40 ||
        memcmp(words[1].bytes, hf_script_acquire.sha1, 40) != 0)
        return;
    servers_watch = NULL;
    set_fault(voter, PAUSED, true);
}

/* The first master has a greater fence than the others, which must confirm it. */
static void test_a_master_that_hangs_before_it_confirms_is_not_waited_for(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    hf_hold *hold = acquire(lock);
    give_back(hold, HF_OK);
    assert_soon(is_free_everywhere());
    servers_command(0, text("SET {k}k:hf1:f %lld", (long long)(last_fence + 3600000000)));
    voter = 1;
    servers_watch = pause_voter;
    set_fault(2, PAUSED, true);
    int64_t since = now_ms();
    waiter *w = waiter_start(lock, 10000);
    sleep_ms(20);
    set_fault(2, PAUSED, false);
    waiter_join(w, HF_OK);
    assert_null(servers_watch);
    assert_true(hf_hold_fence(w->hold) > last_fence + 3600000000);
    assert_in_range(w->done_at - since, 0, 1000);
    set_fault(1, PAUSED, false);
    give_back(w->hold, HF_OK);
    hf_lock_close(lock);
}

/* Acquire while the first master takes 1.6 s for its vote: it may then take the whole time for the
 * next one. */
static hf_hold *acquire_slowly(hf_lock *lock) {
    set_fault(0, PAUSED, true);
    hf_hold *hold = acquire(lock);
    sleep_ms(1600);
    set_fault(0, PAUSED, false);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    return hold;
}

/* H235: the acquire stands in line at a master that was slow and hangs; then another one hangs. */
static void test_the_last_round_of_an_acquire_takes_the_time_to_connect_once(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock *slow = lease_lock(ben, "slow", 20000, HF_OFF);
    (void)state;
    hf_hold *hold = acquire(anns);
    for (int starts = 0; starts < 2; starts++) {
        hf_hold *other = acquire_slowly(slow);
        set_fault(0, PAUSED, true);
        int64_t since = now_ms();
        waiter *w = starts ? NULL : waiter_start(bens, 100);
        if (starts)
            assert_status(hf_lock_acquire_start(bens, NULL, 0, 100, NULL, 1), HF_OK);
        sleep_ms(50);
        set_fault(1, PAUSED, true);
        if (starts)
            assert_status(completion_within(ben, 10000).status, HF_ECONNECT);
        else
            waiter_join(w, HF_ECONNECT);
        assert_in_range(now_ms() - since, 0, 2300);
        set_fault(0, PAUSED, false);
        set_fault(1, PAUSED, false);
        give_back(other, HF_OK);
    }
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_lock_close(slow);
}

/* The masters are far away: the last round has time for their answers, though the wait in line
 * ended late. */
static void test_the_last_round_of_an_acquire_has_half_of_the_time(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock *slow = lease_lock(ben, "slow", 20000, HF_OFF);
    hf_lock *slower = lease_lock(ben, "slower", 20000, HF_OFF);
    (void)state;
    hf_hold *hold = acquire(anns);
    hf_hold *other = acquire_slowly(slow), *another = acquire_slowly(slower);
    set_fault(0, PAUSED, true);
    waiter *w = waiter_start(bens, 100);
    sleep_ms(50);
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        sim_distance(HERE, servers_host(i), 50 * SIM_MS);
    waiter_join(w, HF_ETIMEOUT);
    for (int i = 1; i < COUNT_OF_MASTERS; i++)
        sim_distance(HERE, servers_host(i), 0);
    set_fault(0, PAUSED, false);
    sleep_ms(1000);
    give_back(other, HF_OK);
    give_back(another, HF_OK);
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_lock_close(slow);
    hf_lock_close(slower);
}

/* A majority reports in time that others hold the lock; a third master does not answer. */
static void
test_what_others_have_is_no_outage_though_a_vote_and_a_silent_master_are_left(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_OFF), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock *slow = lease_lock(ben, "slow", 20000, HF_OFF);
    (void)state;
    hf_hold *hold = acquire(anns), *other = acquire_slowly(slow);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    set_fault(0, PAUSED, true);
    waiter *w = waiter_start(bens, 100);
    sleep_ms(500);
    servers_command(2, "DEL k");
    waiter_join(w, HF_ETIMEOUT);
    set_fault(0, PAUSED, false);
    give_back(other, HF_OK);
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_lock_close(slow);
}

/* The process stands still before or in the last round. */
static void test_who_stands_still_after_its_time_asks_all_the_same(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock *slow = lease_lock(ben, "slow", 20000, HF_OFF);
    hf_hold *hold = acquire(anns);
    (void)state;
    alarm(900);
    for (int n = 0; n < 16; n++) {
        hf_hold *other = acquire_slowly(slow);
        set_fault(0, PAUSED, true);
        waiter *w = waiter_start(bens, 100);
        sleep_ms(150); /* until it waits only for that master */
        set_fault(0, PAUSED, false);
        stands_still(sim_self(), 0, 2500);
        sleep_ms(2500);
        waiter_join(w, HF_ETIMEOUT);
        give_back(other, HF_OK);
    }
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_lock_close(slow);
}

/* H236: masters that owe another call an answer are not silent when the process stood still. */
static void test_who_stands_still_until_its_time_is_up_hears_the_masters(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock *others = lease_lock(ben, "other", 20000, HF_OFF);
    hf_hold *hold = acquire(anns);
    (void)state;
    alarm(3600);
    assert_true(hf_client_fd(ben) >= 0);
    for (int n = 0; n < 600; n++) {
        waiter *w = waiter_start(bens, 100);
        bool long_ago = n % 8 == 0;
        sleep_ms(long_ago ? 50 : 90);
        assert_status(hf_lock_acquire_start(others, NULL, 0, 0, NULL, 1), HF_OK);
        usleep((useconds_t)(38 + n % 37)); /* sent, or just being sent, and not answered yet */
        stands_still(sim_self(), 0, long_ago ? 80 : 5000);
        sleep_ms(long_ago ? 80 : 5000);
        waiter_join(w, HF_ETIMEOUT);
        hf_completion done = completion_within(ben, 10000);
        assert_status(done.status, HF_OK);
        give_back(done.hold, HF_OK);
    }
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_lock_close(others);
}

/* A master is down, and the process stands still while another one owes a call an answer: the try
 * that follows needs that master. */
static void test_a_try_after_a_stall_asks_each_master_that_it_needs(void **state) {
    hf_lock *lock = lease_lock(ben, "k", 20000, HF_ON);
    hf_lock *others = lease_lock(ben, "other", 20000, HF_OFF);
    (void)state;
    alarm(900);
    assert_true(hf_client_fd(ben) >= 0);
    set_fault(1, REFUSES, true);
    for (int n = 0; n < 300; n++) {
        hf_hold *hold;
        assert_status(hf_lock_acquire_start(others, NULL, 0, 0, NULL, 1), HF_OK);
        usleep((useconds_t)(n % 150));
        stands_still(sim_self(), 0, 80);
        assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
        give_back(hold, HF_OK);
        hf_completion done = completion_within(ben, 10000);
        assert_status(done.status, HF_OK);
        give_back(done.hold, HF_OK);
    }
    set_fault(1, REFUSES, false);
    hf_lock_close(lock);
    hf_lock_close(others);
}

/* H237: a slow master decides, with a greater fence; then the first master hangs, which must
 * confirm that fence. */
static void test_a_try_takes_the_time_to_connect_once(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    (void)state;
    give_back(acquire(lock), HF_OK);
    assert_soon(is_free_everywhere());
    servers_command(1, text("SET {k}k:hf1:f %lld", (long long)(last_fence + 3600000000)));
    set_fault(1, PAUSED, true);
    set_fault(2, CUT, true);
    voter = 0;
    servers_watch = pause_voter;
    int64_t since = now_ms();
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    sleep_ms(1200);
    set_fault(1, PAUSED, false);
    assert_status(completion_within(ann, 10000).status, HF_ECONNECT);
    assert_null(servers_watch);
    assert_in_range(now_ms() - since, 1900, 2300);
    set_fault(0, PAUSED, false);
    set_fault(2, CUT, false);
    assert_given_back();
    hf_lock_close(lock);
}

/* H289: a master that was stopped carries out the first acquire when it is taken back already, and
 * does not know the script of the release. */
static void test_a_vote_that_is_taken_back_is_no_other_owner_s(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    hf_lock *other = lease_lock(ann, "other", 20000, HF_ON);
    (void)state;
    for (int i = 0; i < COUNT_OF_MASTERS; i++)
        servers_command(i, "SCRIPT FLUSH");
    hf_hold *hold = acquire(other);
    assert_soon(
        has_votes(hold, COUNT_OF_MASTERS)); /* so that they know the script of the acquire */
    last_fence += 3600000000;
    servers_command(1, text("SET {k}k:hf1:f %lld", (long long)last_fence)); /* no votes agree */
    set_fault(1, PAUSED, true);
    hf_hold *first;
    assert_status(hf_lock_acquire(lock, 10000, &first), HF_OK);
    give_back(first, HF_OK);
    set_fault(2, CUT, true);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    sleep_ms(1200);
    set_fault(0, PAUSED, true);
    set_fault(1, PAUSED, false);
    assert_status(completion_within(ann, 10000).status, HF_ECONNECT);
    set_fault(0, PAUSED, false);
    set_fault(2, CUT, false);
    assert_given_back();
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(other);
}

/* H290: one master is away, and another votes after the lease. */
static void test_a_vote_that_has_ended_is_no_other_owner_s(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 500, HF_ON);
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        hf_hold *hold = acquire(lock);
        assert_soon(
            has_votes(hold, COUNT_OF_MASTERS)); /* they are connected, and know the scripts */
        give_back(hold, HF_OK);
        assert_soon(is_free_everywhere());
        set_fault(1, PAUSED, true);
        set_fault(2, CUT, true);
        waiter *w = waiter_start(lock, waits * 100);
        sleep_ms(900);
        set_fault(1, PAUSED, false);
        waiter_join(w, HF_ECONNECT);
        set_fault(2, CUT, false);
        assert_given_back();
    }
    hf_lock_close(lock);
}

/* A round is under way when the time ends, and one master hangs: the answers of the others count.
 */
static void test_a_round_that_is_under_way_when_the_time_is_up_is_the_last(void **state) {
    hf_client *cat = open_with(servers_url(MASTERS), 200, 2000);
    hf_lock *anns = lease_lock(ann, "k", 20000, HF_ON), *cats = lease_lock(cat, "k", 20000, HF_ON);
    hf_hold *hold = acquire(anns);
    (void)state;
    for (int ms = 760; ms < 1000; ms += 10) {
        waiter *w = waiter_start(cats, ms);
        sleep_ms(ms - 40);
        set_faults(PAUSED, true);
        sleep_ms(41);
        set_fault(1, PAUSED, false);
        set_fault(2, PAUSED, false);
        waiter_join(w, HF_ETIMEOUT);
        set_fault(0, PAUSED, false);
    }
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(cats);
    hf_client_close(cat);
}

/* Votes join one after the other, from a place in line, and last longer than the hold. */
static void test_a_hold_that_is_not_renewed_ends_with_its_lease(void **state) {
    hf_client *first = open_at(text("redis://10.0.0.%d:6379", servers_host(0)));
    hf_client *last = open_at(text("redis://10.0.0.%d:6379", servers_host(2)));
    hf_lock *firsts = lease_lock(first, "k", 60000, HF_OFF);
    hf_lock *lasts = lease_lock(last, "k", 60000, HF_OFF);
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_OFF);
    hf_hold *other;
    (void)state;
    assert_status(hf_lock_acquire(lasts, 0, &other), HF_OK);
    hf_hold *hold = acquire(lock);
    int64_t ends_at = now_ms() + 20000;
    sleep_ms(12000);
    give_back(other, HF_OK);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    servers_command(0, "DEL k");
    assert_status(hf_lock_acquire(firsts, 0, &other), HF_OK);
    assert_status(hf_hold_check(hold), HF_OK);
    sleep_ms(1000);
    give_back(other, HF_OK);
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    sleep_ms((int)(ends_at - now_ms()) - 100);
    for (size_t i = 0, main = sim_threads(sim_self()) - 1; i < main; i++)
        sim_stun(sim_self(), i, SIM_S);
    sleep_ms(100);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    hf_hold_close(hold); /* H238: no thread has seen its end */
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(ann, &stats), HF_OK);
    assert_int_equal(stats.lost_expired, 1);
    hf_lock_close(firsts);
    hf_lock_close(lasts);
    hf_lock_close(lock);
    hf_client_close(first);
    hf_client_close(last);
}

/* H288: a thread stands still while it has the mutex of a master's client. */
static void test_the_end_of_a_hold_is_told_whoever_has_a_master_s_mutex(void **state) {
    char name[HF_NAME_MAX];
    size_t length;
    (void)state;
    for (int how = 0; how < 4; how++) {
        hf_lock *lock = lease_lock(ann, "k", 300, HF_OFF);
        assert_status(hf_lock_acquire_as(lock, "me", 2, 0, NULL, NULL), HF_OK);
        hf_hold *hold;
        assert_status(hf_lock_current_as(lock, "me", 2, &hold), HF_OK);
        sleep_ms(100);
        assert_true(has_votes(hold, COUNT_OF_MASTERS));
        pthread_t thread = mutex_thread(ann->quorum->masters[1].client);
        if (how == 0)
            assert_int_equal(hf_lock_count_as(lock, "me", 2), 0);
        else if (how == 1)
            assert_status(hf_client_kept(ann, "me", 2, name, sizeof name, &length), HF_ENOTHELD);
        else if (how == 2)
            assert_true(has_votes(hold, 0));
        else
            assert_int_equal(hf_hold_cause(hold), HF_CAUSE_EXPIRED);
        pthread_join(thread, NULL);
        hf_hold_release(hold);
        hf_hold_close(hold);
        hf_lock_close(lock);
        assert_given_back();
    }
}

/* The other masters' clients have renewed their votes meanwhile. */
static void test_a_renewed_hold_stands_whoever_has_a_master_s_mutex(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 500, HF_ON);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    pthread_t thread = mutex_thread(ann->quorum->masters[1].client);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    pthread_join(thread, NULL);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* H286: what the masters' clients do not send again is left to the caller. */
static void test_only_a_release_is_told_to_go_on(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 20000, HF_ON);
    hf_hold *hold = acquire(lock);
    (void)state;
    assert_soon(has_votes(hold, COUNT_OF_MASTERS));
    set_fault(1, PAUSED, true);
    set_fault(2, PAUSED, true);
    assert_status(hf_hold_extend(hold, 5000, 0), HF_EUNKNOWN);
    assert_null(strstr(hf_error_message(), "background"));
    assert_status(hf_hold_release(hold), HF_EUNKNOWN);
    assert_non_null(strstr(hf_error_message(), "background"));
    set_fault(1, PAUSED, false);
    set_fault(2, PAUSED, false);
    assert_given_back();
    hf_hold_close(hold);
    hf_lock_close(lock);
}

static hf_stats stats_of(hf_client *client) {
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(client, &stats), HF_OK);
    return stats;
}

/* The masters' clients do these, each for its vote; the caller's client counts its own. */
static void test_what_waits_renews_and_connects_is_counted(void **state) {
    hf_lock *anns = lease_lock(ann, "k", 2000, HF_ON), *bens = lease_lock(ben, "k", 20000, HF_ON);
    hf_hold *hold = acquire(anns);
    waiter *waiters[3];
    (void)state;
    for (size_t i = 0; i < COUNT(waiters); i++)
        waiters[i] = waiter_start_as(bens, text("owner %zu", i), i == 0 ? 3000 : 60000);
    assert_soon(stats_of(ben).waiting == 3);
    assert_soon(stats_of(ben).waiting == 2);
    waiter_join(waiters[0], HF_ETIMEOUT);
    assert_true(stats_of(ann).connections >= COUNT_OF_MASTERS);
    int64_t renewed = stats_of(ann).renewed;
    sleep_ms(20000); /* every two thirds of a second, or an eighth sooner */
    assert_in_range(stats_of(ann).renewed - renewed, 25, 36);
    assert_int_equal(stats_of(ben).renewed, 0);
    give_back(hold, HF_OK);
    assert_soon(atomic_load(&waiters[1]->done) || atomic_load(&waiters[2]->done));
    size_t first = atomic_load(&waiters[1]->done) ? 1 : 2;
    waiter_join(waiters[first], HF_OK);
    assert_int_equal(stats_of(ben).waiting, 1);
    give_back(waiters[first]->hold, HF_OK);
    waiter_join(waiters[3 - first], HF_OK);
    assert_int_equal(stats_of(ben).waiting, 0);
    give_back(waiters[3 - first]->hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

/* H267: the first master has a greater fence than the others, which must confirm it. */
static void test_who_has_no_memory_to_ask_for_a_confirmation_says_so(void **state) {
    hf_lock *lock = lease_lock(ann, "k", 1000, HF_OFF);
    int lacking = 0, blind = 0;
    (void)state;
    give_back(acquire(lock), HF_OK);
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 600; n++) {
        hf_hold *hold;
        alarm(200);
        servers_command(0, text("SET {k}k:hf1:f %lld", (long long)(last_fence + 3600000000)));
        sim_set.no_memory = 0.02;
        hf_status status = hf_lock_acquire(lock, 0, &hold);
        sim_set.no_memory = 0;
        if (status != HF_ECONNECT)
            assert_ours(status, &lacking);
        else /* a connection that ends for lack of memory has a reason */
            blind += strstr(hf_error_message(), "too few of their answers") != NULL;
        if (status == HF_OK) {
            last_fence = hf_hold_fence(hold);
            hf_hold_close(hold);
        }
        sleep_ms(2000);
    }
    sim_may_lack_memory(sim_self(), false);
    assert_true(lacking > 0);
    assert_in_range(blind, 0, 1); /* an answer may be lost for lack of memory, too */
    hf_lock_close(lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_one_master_may_fail_in_each_way_at_each_step),
        TEST(test_who_waits_leaves_the_first_master_to_the_hold),
        TEST(test_clocks_that_jump_by_minutes_take_no_hold_away),
        TEST(test_masters_that_come_back_empty_let_nobody_in),
        TEST(test_a_holder_that_is_cut_off_ends_before_another_begins),
        TEST(test_many_that_ask_at_once_come_one_after_the_other),
        TEST(test_a_head_start_counts_in_the_line),
        TEST(test_a_refused_client_leaves_no_list),
        TEST(test_a_closed_client_leaves_nothing),
        TEST(test_what_nests_takes_nothing_from_the_hold_around_it),
        TEST(test_what_nests_is_kept_though_the_hold_around_it_is_kept_for_less),
        TEST(test_what_nests_is_kept_whatever_the_hold_around_it_is_told),
        TEST(test_what_nests_is_kept_though_the_hold_around_it_ends),
        TEST(test_what_nests_is_kept_though_the_hold_around_it_is_given_up),
        TEST(test_what_nests_is_kept_though_the_hold_around_it_is_released_late),
        TEST(test_what_nests_is_kept_though_its_client_is_closed),
        TEST(test_nothing_nests_in_what_is_being_kept),
        TEST(test_a_look_under_way_takes_no_keep_away),
        TEST(test_a_look_begun_during_a_keep_takes_it_not_away),
        TEST(test_a_master_that_has_forgotten_it_takes_no_keep_away),
        TEST(test_a_vote_that_is_given_during_a_renewal_counts),
        TEST(test_a_keep_without_an_answer_leaves_the_hold),
        TEST(test_what_most_masters_keep_one_by_one_is_kept),
        TEST(test_what_is_kept_again_is_kept_for_that_time),
        TEST(test_what_a_minority_keeps_goes_with_its_hold),
        TEST(test_what_a_minority_keeps_goes_with_its_client),
        TEST(test_what_most_masters_may_have_kept_outlasts_its_client),
        TEST(test_what_a_minority_is_to_keep_goes_with_its_hold),
        TEST(test_a_keep_without_memory_loses_no_hold),
        TEST(test_what_nests_gets_a_vote_again_when_the_hold_around_it_ends),
        TEST(test_a_close_meets_a_started_acquire_that_nests),
        TEST(test_what_nests_is_held_for_its_own_lease),
        TEST(test_a_vote_that_joins_has_the_lease_of_the_others),
        TEST(test_what_nests_with_the_same_lease_leaves_no_doubt),
        TEST(test_what_nests_outlasts_the_max_hold_around_it),
        TEST(test_what_nests_in_a_hold_that_ends_soon_is_renewed_in_time),
        TEST(test_a_vote_that_comes_to_a_lost_hold_goes_back),
        TEST(test_a_vote_that_joins_with_a_lower_fence_learns_the_hold_s),
        TEST(test_a_master_that_does_not_confirm_is_asked_again),
        TEST(test_who_stands_in_line_hears_of_an_outage),
        TEST(test_what_all_masters_refuse_is_told_as_refused),
        TEST(test_a_slow_master_that_decides_is_waited_for),
        TEST(test_a_master_that_has_kept_it_gives_its_vote_again),
        TEST(test_a_loss_is_told_with_its_own_cause),
        TEST(test_a_hold_that_ends_by_its_max_hold_is_told_so),
        TEST(test_a_vote_that_joins_ends_with_its_hold),
        TEST(test_a_renewal_without_memory_says_so),
        TEST(test_a_lost_answer_is_asked_for_again),
        TEST(test_a_request_that_comes_after_the_release_holds_nothing),
        TEST(test_a_vote_that_comes_during_a_keep_does_not_outlast_it),
        TEST(test_a_process_without_threads_takes_no_master_for_down),
        TEST(test_an_acquire_without_memory_says_so),
        TEST(test_a_signal_ends_a_walk_over_one_of_the_masters),
        TEST(test_a_release_without_memory_leaves_no_vote),
        TEST(test_a_clock_set_back_behind_its_start_shuts_no_client_out),
        TEST(test_a_clock_that_steps_takes_a_hold_with_few_votes),
        TEST(test_a_master_that_forgets_unseen_takes_a_hold_with_few_votes),
        TEST(test_a_key_that_most_masters_lose_is_a_lost_hold),
        TEST(test_a_key_that_one_master_loses_is_asked_for_again),
        TEST(test_a_dead_holder_s_votes_end),
        TEST(test_a_master_with_old_data_lets_nobody_in),
        TEST(test_masters_with_old_data_let_nobody_in_before_the_lease_ends),
        TEST(test_who_stands_still_before_it_returns_asks_again),
        TEST(test_who_has_no_memory_to_ask_again_says_so),
        TEST(test_who_dies_while_it_acquires_delays_others_for_a_lease),
        TEST(test_another_library_s_key_on_most_masters_is_a_lock_that_is_held),
        TEST(test_another_library_s_key_on_one_master_stops_nobody),
        TEST(test_who_reaches_other_masters_shares_one_that_decides),
        TEST(test_tries_do_not_pass_who_waits_far_away),
        TEST(test_no_thread_that_stands_still_loses_a_hold),
        TEST(test_no_extension_outlasts_the_quarantine),
        TEST(test_an_extension_that_is_late_asks_for_an_end),
        TEST(test_an_extended_hold_keeps_its_end),
        TEST(test_planned_restarts_one_at_a_time_lose_nothing),
        TEST(test_a_release_tells_that_a_majority_had_lost_the_hold),
        TEST(test_a_hold_that_is_not_finished_keeps_its_votes),
        TEST(test_a_break_waits_for_each_master_that_has_the_hold),
        TEST(test_trouble_that_meets_no_hold_says_so),
        TEST(test_a_master_that_failed_for_an_earlier_hold_fails_no_later_one),
        TEST(test_a_master_that_cannot_write_is_told_of),
        TEST(test_a_vote_for_another_lock_ends_no_trouble),
        TEST(test_a_lock_that_masters_refuse_says_nothing_of_others),
        TEST(test_an_error_of_most_masters_is_told_as_an_error),
        TEST(test_a_line_that_the_first_master_refuses_is_at_the_next),
        TEST(test_what_waits_renews_and_connects_is_counted),
        TEST(test_a_cancel_meets_a_started_acquire_that_nests),
        TEST(test_a_hold_that_was_waited_for_has_its_whole_lease),
        TEST(test_a_ping_is_answered_by_a_majority),
        TEST(test_a_free_lock_is_broken_without_an_error),
        TEST(test_who_stood_still_proposes_no_fence_far_ahead),
        TEST(test_who_stands_still_before_it_asks_proposes_no_fence_far_ahead),
        TEST(test_who_stands_still_during_a_ping_hears_the_masters),
        TEST(test_what_is_started_as_the_process_stops_is_no_outage),
        TEST(test_another_library_s_key_on_the_first_master_ends_no_wait),
        TEST(test_what_most_masters_have_again_is_not_told_as_held),
        TEST(test_who_holds_it_is_not_shown_as_waiting),
        TEST(test_who_is_let_in_at_once_keeps_its_place),
        TEST(test_a_vote_is_asked_for_again_though_others_do_not_answer),
        TEST(test_a_master_that_hangs_before_it_confirms_is_not_waited_for),
        TEST(test_the_last_round_of_an_acquire_takes_the_time_to_connect_once),
        TEST(test_the_last_round_of_an_acquire_has_half_of_the_time),
        TEST(test_what_others_have_is_no_outage_though_a_vote_and_a_silent_master_are_left),
        TEST(test_who_stands_still_after_its_time_asks_all_the_same),
        TEST(test_who_stands_still_until_its_time_is_up_hears_the_masters),
        TEST(test_a_try_after_a_stall_asks_each_master_that_it_needs),
        TEST(test_a_try_takes_the_time_to_connect_once),
        TEST(test_a_vote_that_is_taken_back_is_no_other_owner_s),
        TEST(test_a_vote_that_has_ended_is_no_other_owner_s),
        TEST(test_a_round_that_is_under_way_when_the_time_is_up_is_the_last),
        TEST(test_a_hold_that_is_not_renewed_ends_with_its_lease),
        TEST(test_who_has_no_memory_to_ask_for_a_confirmation_says_so),
        TEST(test_only_a_majority_shows_that_a_lock_is_free),
        TEST(test_only_a_release_is_told_to_go_on),
        TEST(test_the_end_of_a_hold_is_told_whoever_has_a_master_s_mutex),
        TEST(test_a_renewed_hold_stands_whoever_has_a_master_s_mutex),
    };
    return RUN_TESTS(tests, count, words);
}

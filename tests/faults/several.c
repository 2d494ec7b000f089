/* Several locks at once, while processes die and connections are cut. */
#include "faults.h"

#include "protocol/scripts.h"

static const char *const names[] = {"a", "b"};

/* ------------------------------------------------------------- Processes */

enum { WORKERS = 6, TURNS = 20 };

typedef struct common {
    section sections[2];
    _Atomic int started, left;
    char *url;
} common;

static common *new_common(void) {
    common *all = shared_memory(sizeof *all);
    all->url = shared_text(unix_url());
    return all;
}

static void work(void *argument) {
    common *all = argument;
    bool backwards = atomic_fetch_add(&all->started, 1) % 2 == 1;
    hf_client *client = must_open(all->url);
    hf_lock *locks[2];
    hf_hold *holds[2];
    for (int i = 0; i < 2; i++)
        locks[i] = must_lock(client, names[backwards ? 1 - i : i], NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        must_be(hf_lock_acquire_all(locks, 2, NULL, 0, 60000, NULL, holds), HF_OK);
        for (int i = 0; i < 2; i++)
            section_enter(&all->sections[backwards ? 1 - i : i], holds[i]);
        for (int i = 0; i < 2; i++)
            section_leave(&all->sections[i]);
        for (int i = 0; i < 2; i++) {
            must_be(hf_hold_release(holds[i]), HF_OK);
            hf_hold_close(holds[i]);
        }
    }
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
    hf_client_close(client);
}

static void test_processes_with_opposite_orders_do_not_deadlock(void **state) {
    (void)state;
    pid_t workers_of_this[WORKERS];
    common *all = new_common();
    for (int i = 0; i < WORKERS; i++)
        workers_of_this[i] = worker_start(work, all);
    for (int i = 0; i < WORKERS; i++)
        worker_join(workers_of_this[i]);
    assert_int_equal(atomic_load(&all->sections[0].counter), WORKERS * TURNS);
    assert_nothing_left();
}

/* ------------------------------------------------------------ Connections */

static proxy *way;
static hf_client *client, *other;
static hf_lock *locks[2], *theirs[2];
static hf_hold *holds[2];

static void open_all(void) {
    static const hf_lock_options minute = {.size = sizeof minute, .lease_ms = 60000};
    way = open_both(&client, &other);
    for (int i = 0; i < 2; i++) {
        locks[i] = must_lock(client, names[i], &minute);
        theirs[i] = must_lock(other, names[i], &minute);
    }
    give_back(held(locks[0]), HF_OK); /* the server knows the scripts */
}

static void close_all(void) {
    for (int i = 0; i < 2; i++) {
        hf_lock_close(locks[i]);
        hf_lock_close(theirs[i]);
    }
    close_both(way, client, other);
}

static bool is_free(hf_lock *lock) {
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    return !info.held;
}

typedef struct call {
    pthread_t thread;
    hf_lock *locks[2];
    hf_hold *got[2];
    hf_status status;
    hf_error error;
} call;

static void *run_call(void *argument) {
    call *mine = argument;
    mine->status = hf_lock_acquire_all(mine->locks, 2, NULL, 0, 0, NULL, mine->got);
    mine->error = *hf_error_last();
    return NULL;
}

static void test_a_cut_connection_leaves_all_or_nothing(void **state) {
    (void)state;
    open_all();
    for (int round = 0; round < 2; round++) { /* the answer is lost; the request is late */
        proxy_next(way, round == 0 ? LOSE_REPLY : LATE_REQUEST, hf_script_take.sha1);
        hf_status status = hf_lock_acquire_all(locks, 2, NULL, 0, 5000, NULL, holds);
        assert_status(status, HF_OK); /* it is sent again, and counts once */
        assert_int_equal(atomic_load(&way->mishaps), 1 + round);
        if (round == 1)
            proxy_deliver(way);
        for (int i = 0; i < 2; i++)
            give_back(holds[i], HF_OK);
        assert_true(is_free(theirs[0]) && is_free(theirs[1]));
    }
    close_all();
}

/* The first lock is acquired; for the second there is no answer, nor for any later request. */
static void test_a_lost_answer_in_between_leaves_nothing(void **state) {
    (void)state;
    open_all();
    proxy_next(way, LOSE_ALL, "\r\nb\r\n");
    assert_status(hf_lock_acquire_all(locks, 2, NULL, 0, 0, NULL, holds), HF_EUNKNOWN);
    assert_null(holds[0]);
    assert_null(holds[1]);
    proxy_next(way, PASS, NULL);
    assert_soon(is_free(theirs[0]) &&
                is_free(theirs[1])); /* in the background, long before a lease ends */
    close_all();
}

/* The answer for the second lock is late, and meanwhile the first cannot be renewed: no other
 * client holds either lock, and the caller must not be told so. */
static void test_a_lease_that_ends_in_an_outage_is_told_as_that(void **state) {
    (void)state;
    open_all();
    hf_lock *brief = must_lock(
        client, "a",
        &(hf_lock_options){.size = sizeof(hf_lock_options), .lease_ms = 300, .renew = HF_ON});
    call first = {.locks = {locks[1], brief}};
    proxy_next(way, HOLD_REPLY, "\r\nb\r\n");
    pthread_create(&first.thread, NULL, run_call, &first);
    assert_soon(atomic_load(&way->mishaps) == 1);
    proxy_next(way, LOSE_ALL, hf_script_renew.sha1);
    assert_soon(atomic_load(&way->mishaps) >= 3); /* two renewals without an answer */
    sleep_ms(300);
    proxy_next(way, PASS, NULL);
    atomic_store(&way->holds_reply, false);
    pthread_join(first.thread, NULL);
    assert_status(first.status, HF_ECONNECT);
    assert_int_equal(first.error.lock, 1);
    assert_soon(is_free(theirs[0]) && is_free(theirs[1]));
    hf_lock_close(brief);
    close_all();
}

/* Lose the hold of "a", which ends by its lease or is deleted, on the way to the next lock; check
 * the reason in the message. */
static void lose_on_the_way(int64_t lease_ms, int32_t renew, bool deleted, const char *reason) {
    open_all();
    hf_lock *brief = lease_lock(client, "a", lease_ms, renew);
    call first = {.locks = {locks[1], brief}};
    proxy_next(way, HOLD_REPLY, "\r\nb\r\n");
    pthread_create(&first.thread, NULL, run_call, &first);
    assert_soon(atomic_load(&way->mishaps) == 1);
    if (deleted)
        TELL("DEL a");
    sleep_ms(deleted ? 600 : 150); /* a renewal finds out, or the lease ends */
    atomic_store(&way->holds_reply, false);
    pthread_join(first.thread, NULL);
    assert_status(first.status, HF_EBUSY);
    assert_int_equal(first.error.lock, 1);
    assert_non_null(strstr(first.error.message, reason));
    assert_soon(is_free(theirs[0]) && is_free(theirs[1]));
    hf_lock_close(brief);
    close_all();
}

static void test_a_lease_that_ends_on_the_way_to_the_next_is_named(void **state) {
    (void)state;
    lose_on_the_way(100, HF_OFF, false, "lock 'a' is lost: its lease");
}

/* H285 */
static void test_a_hold_that_is_deleted_on_the_way_to_the_next_is_told_as_that(void **state) {
    (void)state;
    lose_on_the_way(600, HF_ON, true, "lock 'a' is lost: the server no longer knows it");
}

static void hold_all(void *argument) {
    common *all = argument;
    hf_client *mine = must_open(all->url);
    hf_lock *taken[2];
    for (int i = 0; i < 2; i++)
        taken[i] = must_lock(
            mine, names[i],
            &(hf_lock_options){.size = sizeof(hf_lock_options), .lease_ms = 1000, .renew = HF_ON});
    must_be(hf_lock_acquire_all(taken, 2, NULL, 0, 0, NULL, holds), HF_OK);
    atomic_store(&all->started, 1);
    pause();
}

static void test_a_holder_that_is_killed_leaves_both_to_their_leases(void **state) {
    (void)state;
    common *all = new_common();
    open_all();
    pid_t holder = worker_start(hold_all, all);
    wait_until(atomic_load(&all->started) == 1);
    assert_status(hf_lock_acquire_all(theirs, 2, NULL, 0, 0, NULL, holds), HF_EBUSY);
    worker_kill(holder);
    assert_status(hf_lock_acquire_all(theirs, 2, NULL, 0, 20000, NULL, holds), HF_OK);
    give_back(holds[0], HF_OK);
    give_back(holds[1], HF_OK);
    close_all();
}

/* Let both leases end while this process stands still; afterwards it must count on neither hold. */
static void hold_and_look(void *argument) {
    common *all = argument;
    hf_client *mine = must_open(all->url);
    hf_lock *taken[2];
    for (int i = 0; i < 2; i++) /* the second lease would last a minute */
        taken[i] = must_lock(mine, names[i],
                             &(hf_lock_options){.size = sizeof(hf_lock_options),
                                                .lease_ms = i == 0 ? 500 : 60000,
                                                .renew = HF_ON});
    must_be(hf_lock_acquire_all(taken, 2, NULL, 0, 0, NULL, holds), HF_OK);
    atomic_store(&all->started, 1);
    wait_until(atomic_load(&all->left) == 1);
    must(hf_hold_state(holds[1]) == HF_STATE_LOST);
    must_be(hf_hold_release(holds[1]), HF_ELOST);
    must_be(hf_hold_release(holds[0]), HF_ELOST);
}

static void test_a_paused_holder_knows_that_it_has_lost_both(void **state) {
    (void)state;
    hf_hold *next;
    common *all = new_common();
    open_all();
    pid_t holder = worker_start(hold_and_look, all);
    wait_until(atomic_load(&all->started) == 1);
    worker_stop(holder);
    assert_status(hf_lock_acquire(theirs[0], 20000, &next), HF_OK);
    atomic_store(&all->left, 1);
    worker_go_on(holder);
    worker_join(holder);
    assert_soon(is_free(theirs[1]));
    give_back(next, HF_OK);
    close_all();
}

static int set_up(void **state) { return begin_fault(state); }

static int tear_down(void **state) {
    (void)state;
    return 0;
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_processes_with_opposite_orders_do_not_deadlock),
        TEST(test_a_cut_connection_leaves_all_or_nothing),
        TEST(test_a_lost_answer_in_between_leaves_nothing),
        TEST(test_a_lease_that_ends_in_an_outage_is_told_as_that),
        TEST(test_a_lease_that_ends_on_the_way_to_the_next_is_named),
        TEST(test_a_hold_that_is_deleted_on_the_way_to_the_next_is_told_as_that),
        TEST(test_a_holder_that_is_killed_leaves_both_to_their_leases),
        TEST(test_a_paused_holder_knows_that_it_has_lost_both),
    };
    return RUN_TESTS(tests, count, words);
}

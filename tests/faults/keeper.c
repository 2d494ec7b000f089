/* The keeper: a hold is renewed, and its holder learns of a loss. */
#include "faults.h"

static hf_client *client;

static int set_up(void **state) {
    int result = begin_fault(state);
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = 400, .command_timeout_ms = 200};
    assert_status(hf_client_open(unix_url(), &options, &client), HF_OK);
    return result;
}

/* Begin a test without a client, so that it can fork first. */
static int set_up_bare(void **state) {
    client = NULL;
    return begin_fault(state);
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(client);
    return 0;
}

static int64_t realtime_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---------------------------------------------------------------- Losses */

static void assert_told_of(const hf_hold *hold, int cause, int64_t within_ms) {
    hf_completion loss = completion_within(client, within_ms);
    assert_int_equal(loss.kind, HF_KIND_LOSS);
    assert_int_equal(loss.status, HF_ELOST);
    assert_int_equal(loss.hold_number, hf_hold_number(hold));
    assert_int_equal(loss.cause, cause);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    assert_int_equal(hf_hold_cause(hold), cause);
    assert_int_equal(hf_hold_remaining_ms(hold), 0);
}

/* Check that the hold is lost, and that each call on it reports the loss. */
static void give_up(hf_hold *hold) {
    assert_status(hf_hold_check(hold), HF_ELOST);
    assert_status(hf_hold_renew(hold), HF_ELOST);
    assert_status(hf_hold_extend(hold, 1000, 0), HF_ELOST);
    assert_status(hf_hold_release(hold), HF_ELOST);
    assert_status(hf_hold_release(hold), HF_ENOTHELD);
    assert_int_equal(completion_within(client, 0).kind, HF_KIND_NONE);
    hf_hold_close(hold);
}

/* -------------------------------------------------------------- Renewals */

static void test_a_renewed_hold_lasts_for_many_leases(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 300, HF_ON);
    hf_client *other = open_client();
    hf_lock *theirs = must_lock(other, "k", NULL);
    hf_hold *hold = held(lock), *none;
    for (int64_t until = now_ms() + 1500; now_ms() < until; sleep_ms(20)) {
        int64_t ends = realtime_ms() + hf_hold_remaining_ms(hold);
        assert_in_range(ends, realtime_ms(), expires_at("k"));
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        assert_status(hf_lock_acquire(theirs, 0, &none), HF_EBUSY);
    }
    assert_status(hf_hold_check(hold), HF_OK);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
}

/* Another library would leave a timer behind for every lock that was ever held. */
static void test_only_what_is_held_for_long_is_renewed(void **state) {
    (void)state;
    hf_lock *lock = must_lock(client, "k", NULL);
    TELL("CONFIG RESETSTAT");
    for (int i = 0; i < 5000; i++)
        give_back(held(lock), HF_OK);
    /* The first request of each kind may have had to send its script. */
    /* The script of a late release also runs the command. */
    assert_in_range(scripts_run() + stat_calls("hdel"), 2 * 5000, 2 * 5000 + 500);
    hf_hold *hold = held(lock);
    int64_t before = stat_calls("evalsha");
    sleep_ms(25000);
    /* Every third of 10 s or up to an eighth of that earlier; the first one up to half of it
     * earlier. */
    assert_in_range(stat_calls("evalsha") - before, 7, 9);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* A request renews up to a hundred holds. */
static void test_10000_held_locks_are_renewed_with_100_commands_a_second(void **state) {
    enum { LOCKS = 10000 / SLOW, SECONDS = 5 };
    (void)state;
    static hf_hold *holds[LOCKS];
    assert_true(hf_client_fd(client) >= 0);
    for (int i = 0; i < LOCKS; i++) {
        hf_lock *lock = lease_lock(client, text("k%d", i), 6000, HF_ON);
        holds[i] = held(lock);
        hf_lock_close(lock);
    }
    TELL("CONFIG RESETSTAT");
    sleep_ms(SECONDS * 1000);
    assert_in_range(scripts_run(), 1, 100 * SECONDS / SLOW);
    assert_int_equal(completion_within(client, 0).kind, HF_KIND_NONE); /* no hold was lost */
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(hf_hold_state(holds[i]), HF_STATE_HELD);
        hf_hold_close(holds[i]);
    }
    TELL("FLUSHALL");
}

static void test_a_lease_with_renew_off_is_not_renewed(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 400, HF_OFF);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(lock);
    int64_t before = scripts_run();
    assert_int_equal(completion_within(client, 350).kind, HF_KIND_NONE);
    assert_int_equal(scripts_run(), before);
    assert_told_of(hold, HF_CAUSE_EXPIRED, 100);
    give_up(hold);
    assert_soon(NUMBER("EXISTS k") == 0);
    hf_lock_close(lock);
}

/* H9: the keeper repeats a failed renewal in time. */
static void test_a_hold_outlives_connections_that_die_and_a_server_that_pauses(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 1200, HF_ON);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(lock);
    for (int64_t until = now_ms() + 2000; now_ms() < until; sleep_ms(10))
        TELL("CLIENT KILL TYPE normal");
    TELL("CLIENT PAUSE 500 ALL"); /* longer than the client waits for an answer */
    sleep_ms(1500);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_int_equal(completion_within(client, 0).kind, HF_KIND_NONE);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* -------------------------------------------------------------- max_hold */

static void test_max_hold_ends_the_renewal(void **state) {
    (void)state;
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = 300, .renew = HF_ON, .max_hold_ms = 700};
    hf_lock *lock = must_lock(client, "k", &options);
    assert_true(hf_client_fd(client) >= 0);
    int64_t since = now_ms();
    hf_hold *hold = held(lock);
    assert_told_of(hold, HF_CAUSE_EXPIRED, 2000);
    assert_in_range(now_ms() - since, 700 - 50, 700 + 50);
    assert_soon(NUMBER("EXISTS k") == 0);
    assert_status(hf_hold_renew(hold), HF_ELOST);
    assert_message("its max_hold of 700 ms has passed");
    assert_int_equal(hf_error_last()->cause, HF_CAUSE_EXPIRED);
    give_up(hold);
    hf_lock_close(lock);
}

/* max_hold limits the lease on the server, too: no waiter waits longer for a holder that died. */
static void test_no_lease_outlasts_max_hold(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .max_hold_ms = 900};
    hf_lock *lock = must_lock(client, "k", &options);
    int64_t since = now_ms();
    hf_hold *hold = held(lock);
    assert_in_range(NUMBER("PTTL k"), 700, 900);
    sleep_ms(500);
    assert_status(hf_hold_renew(hold), HF_OK);
    for (uint32_t flags = 0; flags <= HF_EXTEND_REPLACE; flags++) {
        assert_status(hf_hold_extend(hold, 60000, flags), HF_OK);
        assert_in_range(NUMBER("PTTL k"), 1, since + 900 - now_ms() + 10);
        assert_in_range(hf_hold_remaining_ms(hold), 1, since + 900 - now_ms());
    }
    while (hf_hold_state(hold) == HF_STATE_HELD)
        sleep_ms(1);
    assert_in_range(now_ms() - since, 900 - 50, 900 + 50);
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_EXPIRED);
    give_up(hold);
    hf_lock_close(lock);
}

/* The same for a claim, which is a renewal. */
static void test_no_lease_of_a_grant_outlasts_max_hold(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .lease_ms = 60000, .max_hold_ms = 20000};
    hf_lock *lock = must_lock(client, "k", &options);
    hf_hold *before = held(lock);
    waiter *next = waiter_start(lock, 10000);
    assert_soon(queued("k") == 1);
    give_back(before, HF_OK);
    waiter_join(next, HF_OK);
    sleep_ms(500);
    assert_status(hf_hold_renew(next->hold), HF_OK);
    assert_in_range(NUMBER("PTTL k"), 1, 20000 - 490);
    give_back(next->hold, HF_OK);
    hf_lock_close(lock);
}

static void test_the_last_renewal_asks_for_what_is_left_of_max_hold(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .lease_ms = 700, .max_hold_ms = 1000};
    hf_lock *lock = must_lock(client, "k", &options);
    int64_t since = now_ms();
    hf_hold *hold = held(lock);
    while (hf_hold_state(hold) == HF_STATE_HELD) {
        int64_t before = now_ms();
        assert_in_range(NUMBER("PTTL k"), 0, since + 1000 - before + 10);
        sleep_ms(10);
    }
    assert_in_range(now_ms() - since, 1000 - 50, 1000 + 50);
    give_up(hold);
    hf_lock_close(lock);
}

static void test_a_lease_is_renewed_unless_that_is_turned_off(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 300, HF_DEFAULT);
    hf_acquire_options brief = {.size = sizeof brief, .lease_ms = 150};
    hf_hold *hold = NULL;
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &brief, &hold), HF_OK);
    sleep_ms(1500);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    brief.renew = HF_OFF;
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &brief, &hold), HF_OK);
    sleep_ms(200);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    assert_status(hf_hold_release(hold), HF_ELOST);
    assert_message("its lease of 150 ms ended, and renew is off");
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* M5: otherwise two holds that nest in turn would keep the lock for ever. */
static void test_max_hold_of_nested_holds_counts_from_the_outermost(void **state) {
    (void)state;
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = 300, .renew = HF_ON, .max_hold_ms = 700};
    hf_lock *lock = must_lock(client, "k", &options);
    assert_true(hf_client_fd(client) >= 0);
    int64_t since = now_ms();
    hf_hold *hold = held(lock);
    int64_t fence = hf_hold_fence(hold);
    for (int i = 1; i <= 2; i++) { /* a hold begins before the other ends */
        while (now_ms() < since + i * 300)
            sleep_ms(1);
        hf_hold *next = held(lock);
        assert_int_equal(hf_hold_fence(next), fence);
        give_back(hold, HF_OK);
        hold = next;
    }
    assert_told_of(hold, HF_CAUSE_EXPIRED, 2000);
    assert_in_range(now_ms() - since, 700 - 50, 700 + 50);
    give_up(hold);
    hf_lock_close(lock);
}

/* --------------------------------------------------------------- Losing */

static void test_a_hold_whose_key_is_deleted_is_lost_by_its_next_renewal(void **state) {
    (void)state;
    static const char *const ways[] = {"DEL k", "FLUSHALL", "SET k theirs"};
    hf_lock *lock = lease_lock(client, "k", 900, HF_ON);
    assert_true(hf_client_fd(client) >= 0);
    for (size_t i = 0; i < COUNT(ways); i++) {
        hf_hold *hold = held(lock);
        TELL(ways[i]);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD); /* no answer has reported it yet */
        assert_told_of(hold, HF_CAUSE_GONE, 900 / 3 + 150);
        give_up(hold);
        assert_int_equal(NUMBER("EXISTS k"), i == 2);
        TELL("DEL k");
    }
    hf_lock_close(lock);
}

static void test_a_check_tells_at_once_that_the_key_is_gone(void **state) {
    (void)state;
    hf_lock *lock = must_lock(client, "k", NULL);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(lock);
    TELL("DEL k");
    assert_status(hf_hold_check(hold), HF_ELOST);
    assert_told_of(hold, HF_CAUSE_GONE, 100);
    give_up(hold);
    hf_lock_close(lock);
}

/* C2: a late request of the old hold changes nothing. */
static void test_a_hold_that_was_broken_is_lost_and_leaves_the_next_alone(void **state) {
    (void)state;
    hf_client *other = open_client();
    hf_lock *lock = lease_lock(client, "k", 900, HF_ON);
    hf_lock *theirs = must_lock(other, "k", NULL);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(lock);
    waiter *next = waiter_start(theirs, 5000);
    assert_soon(queued("k") == 1);
    assert_status(hf_lock_break(theirs, hf_hold_fence(hold), 0), HF_OK);
    waiter_join(next, HF_OK);
    assert_told_of(hold, HF_CAUSE_GONE, 900 / 3 + 150);
    give_up(hold);
    assert_status(hf_hold_check(next->hold), HF_OK);
    give_back(next->hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
}

/* H13: the loss is reported before the server can grant the lock to another client. */
static void test_a_hold_that_cannot_be_renewed_is_lost_before_its_key_expires(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 3000, HF_ON);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(lock);
    sleep_ms(50);
    assert_status(hf_hold_renew(hold), HF_OK);
    int64_t expires = expires_at("k");
    kill(the_server, SIGSTOP);
    while (realtime_ms() < expires - 100)
        sleep_ms(1);
    int before = hf_hold_state(hold);
    if (realtime_ms() < expires) /* or the machine has paused */
        assert_int_equal(before, HF_STATE_HELD);
    while (realtime_ms() < expires)
        ;
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    assert_told_of(hold, HF_CAUSE_UNREACHABLE, IN_TIME(50 * SLOW));
    give_up(hold);
    kill(the_server, SIGCONT);
    /* A renewal was in the server's socket: its effect is undone. */
    assert_soon(NUMBER("EXISTS k") == 0);
    sleep_ms(100);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    hf_lock_close(lock);
}

/* M10 */
static void test_one_bad_key_does_not_fail_the_renewal_of_the_others(void **state) {
    enum { LOCKS = 50 };
    (void)state;
    hf_hold *holds[LOCKS];
    hf_lock *shared = open_lock(client, "shared", NULL,
                                OPTIONS(.lease_ms = 900, .renew = HF_ON, .mode = HF_SHARED));
    hf_hold *reader = held(shared), *beside = held(shared);
    TELL("SET {shared}shared:hf1:s theirs"); /* the server refuses the whole request for it */
    for (int i = 0; i < LOCKS; i++) {
        hf_lock *lock = lease_lock(client, text("k%d", i), 900, HF_ON);
        holds[i] = held(lock);
        hf_lock_close(lock);
    }
    TELL("SET k7 theirs");
    TELL("DEL k17");
    TELL("DEL k27");
    TELL("RPUSH k27 theirs");
    TELL("HDEL k37 %s", TELL("HKEYS k37")->element[0]->str);
    sleep_ms(2000);
    for (int i = 0; i < LOCKS; i++) {
        bool bad = i % 10 == 7 && i < 40;
        assert_int_equal(hf_hold_state(holds[i]), bad ? HF_STATE_LOST : HF_STATE_HELD);
        assert_int_equal(hf_hold_cause(holds[i]), bad ? HF_CAUSE_GONE : HF_CAUSE_NONE);
        give_back(holds[i], bad ? HF_ELOST : HF_OK);
    }
    assert_int_equal(hf_hold_cause(reader), HF_CAUSE_UNREACHABLE);
    give_back(reader, HF_ELOST);
    hf_hold_close(beside);
    hf_lock_close(shared);
}

/* --------------------------------------------------------- Stop and go on */

static void sleep_and_look(void *argument) {
    int renew = *(int *)argument;
    client = must_open(unix_url());
    must(hf_client_fd(client) >= 0);
    hf_hold *hold;
    hf_lock *lock = lease_lock(client, "k", 400, renew);
    must_be(hf_lock_acquire(lock, 0, &hold), HF_OK);
    raise(SIGSTOP);
    must(hf_hold_state(hold) == HF_STATE_LOST);
    must(hf_hold_remaining_ms(hold) == 0);
    must_be(hf_hold_check(hold), HF_ELOST);
    sleep_ms(300); /* nothing brings it back */
    must(hf_hold_state(hold) == HF_STATE_LOST);
    must_be(hf_hold_release(hold), HF_ELOST);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* C4: the deadline counts by a clock that does not stop. */
static void test_a_holder_stopped_past_its_lease_knows_at_once(void **state) {
    (void)state;
    static int renew[] = {HF_OFF, HF_ON};
    for (size_t i = 0; i < COUNT(renew); i++) {
        int how;
        pid_t pid = worker_start(sleep_and_look, &renew[i]);
        assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
        assert_true(WIFSTOPPED(how));
        assert_int_equal(NUMBER("EXISTS k"), 1);
        sleep_ms(600);
        assert_int_equal(NUMBER("EXISTS k"), 0);
        TELL("SET k theirs"); /* another program has it now */
        worker_go_on(pid);
        worker_join(pid);
        assert_string_equal(STRING("GET k"), "theirs");
        TELL("DEL k");
    }
}

/* ------------------------------------------------------------------ Fork */

/* C12 */
static void test_a_forked_child_touches_nothing_and_the_parent_goes_on(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 600, HF_ON),
            *second = lease_lock(client, "l", 600, HF_ON);
    hf_hold *hold = held(lock), *none;
    assert_status(hf_lock_acquire(second, 0, NULL), HF_OK);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        hf_completion completion = {.size = sizeof completion};
        hf_lock *fresh;
        must_be(hf_lock_acquire(lock, 0, &none), HF_EFORKED);
        must_be(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_EFORKED);
        must_be(hf_lock_release(second), HF_EFORKED);
        must_be(hf_hold_check(hold), HF_EFORKED);
        must_be(hf_hold_renew(hold), HF_EFORKED);
        must_be(hf_hold_release(hold), HF_EFORKED);
        must_be(hf_hold_release_start(hold, 1), HF_EFORKED);
        must_be(hf_op_cancel(client, 1), HF_EFORKED);
        must_be(hf_client_next(client, &completion), HF_EFORKED);
        must(hf_client_fd(client) == -1);
        must_be(hf_lock_open(client, "k", 1, NULL, 0, NULL, &fresh), HF_EFORKED);
        must(hf_hold_state(hold) == HF_STATE_LOST);
        must(hf_hold_remaining_ms(hold) == 0);
        hf_hold_close(hold);
        hf_lock_close(lock);
        hf_lock_close(second);
        hf_client_close(client);
#ifndef __SANITIZE_THREAD__ /* it does not allow threads in such a child */
        hf_client *own = must_open(unix_url());
        lock = must_lock(own, "k", NULL);
        must_be(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
        must_be(hf_lock_acquire(lock, 50, &none), HF_ETIMEOUT);
        hf_lock_close(lock);
        hf_client_close(own);
#endif
        fflush(NULL);
        exit(0);
    }
    worker_join(pid);
    sleep_ms(1500);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_status(hf_hold_check(hold), HF_OK);
    assert_status(hf_lock_release(second), HF_OK);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(second);
}

/* ------------------------------------------------------ Threads and close */

static void *acquire_and_end(void *lock) {
    must_be(hf_lock_acquire(lock, 0, NULL), HF_OK);
    return NULL;
}

static void *try_and_end(void *lock) {
    hf_hold *hold;
    must_be(hf_lock_acquire(lock, 0, &hold), HF_EBUSY);
    return NULL;
}

/* C11: a new thread does not count as one that has ended. */
static void test_the_lock_of_a_thread_that_ended_is_renewed_on(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 400, HF_ON);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, acquire_and_end, lock), 0);
    pthread_join(thread, NULL);
    for (int64_t until = now_ms() + 1300; now_ms() < until;) {
        assert_int_equal(pthread_create(&thread, NULL, try_and_end, lock), 0);
        pthread_join(thread, NULL);
        sleep_ms(50);
    }
    hf_client_close(client);
    client = NULL;
    assert_int_equal(NUMBER("EXISTS k"), 0);
    hf_lock_close(lock);
}

static void test_close_releases_what_is_held_and_ends_who_waits(void **state) {
    (void)state;
    hf_client *other = open_client();
    hf_lock *locks[3], *theirs = must_lock(other, "theirs", NULL);
    hf_hold *holds[3], *hold = held(theirs);
    waiter *waiters[3];
    hf_lock *wanted = must_lock(client, "theirs", NULL);
    for (int i = 0; i < 3; i++) {
        locks[i] = lease_lock(client, text("k%d", i), i == 2 ? HF_NEVER : 60000, HF_DEFAULT);
        holds[i] = held(locks[i]);
        waiters[i] = waiter_start(wanted, HF_FOREVER);
    }
    assert_soon(queued("theirs") == 3);
    int64_t since = now_ms();
    hf_client_close(client);
    client = NULL;
    assert_in_range(now_ms() - since, 0, 500);
    assert_int_equal(queued("theirs"), 0);
    for (int i = 0; i < 3; i++) {
        waiter_join(waiters[i], HF_ECANCELED);
        assert_int_equal(NUMBER("EXISTS %s", text("k%d", i)), 0);
        assert_int_equal(hf_hold_state(holds[i]), HF_STATE_RELEASED);
        assert_status(hf_hold_release(holds[i]), HF_ECLOSED);
        assert_status(hf_hold_check(holds[i]), HF_ECLOSED);
        hf_hold_close(holds[i]);
        hf_lock_close(locks[i]);
    }
    hf_lock_close(wanted);
    give_back(hold, HF_OK);
    hf_lock_close(theirs);
    hf_client_close(other);
    assert_nothing_left();
}

/* If no server answers, the close does not last for ever. */
static void test_close_does_not_wait_for_a_server_that_is_stopped(void **state) {
    (void)state;
    hf_lock *lock = must_lock(client, "k", NULL);
    hf_hold *hold = held(lock);
    kill(the_server, SIGSTOP);
    int64_t since = now_ms();
    hf_client_close(client);
    client = NULL;
    int64_t took = now_ms() - since;
    kill(the_server, SIGCONT);
    assert_in_range(took, 0, 200 + 400 + 100);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_renewed_hold_lasts_for_many_leases),
        TEST(test_only_what_is_held_for_long_is_renewed),
        TEST(test_10000_held_locks_are_renewed_with_100_commands_a_second),
        TEST(test_a_lease_with_renew_off_is_not_renewed),
        TEST(test_a_hold_outlives_connections_that_die_and_a_server_that_pauses),
        TEST(test_a_lease_is_renewed_unless_that_is_turned_off),
        TEST(test_max_hold_ends_the_renewal),
        TEST(test_no_lease_outlasts_max_hold),
        TEST(test_no_lease_of_a_grant_outlasts_max_hold),
        TEST(test_the_last_renewal_asks_for_what_is_left_of_max_hold),
        TEST(test_max_hold_of_nested_holds_counts_from_the_outermost),
        TEST(test_a_hold_whose_key_is_deleted_is_lost_by_its_next_renewal),
        TEST(test_a_check_tells_at_once_that_the_key_is_gone),
        TEST(test_a_hold_that_was_broken_is_lost_and_leaves_the_next_alone),
        TEST(test_a_hold_that_cannot_be_renewed_is_lost_before_its_key_expires),
        TEST(test_one_bad_key_does_not_fail_the_renewal_of_the_others),
        cmocka_unit_test_setup_teardown(test_a_holder_stopped_past_its_lease_knows_at_once,
                                        set_up_bare, tear_down),
        TEST(test_a_forked_child_touches_nothing_and_the_parent_goes_on),
        TEST(test_the_lock_of_a_thread_that_ended_is_renewed_on),
        TEST(test_close_releases_what_is_held_and_ends_who_waits),
        TEST(test_close_does_not_wait_for_a_server_that_is_stopped),
    };
    return RUN_TESTS(tests, count, words);
}

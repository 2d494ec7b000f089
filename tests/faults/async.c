/* Calls that do not block: every started operation ends with one completion, and leaves nothing
 * behind that its completion does not report. */
#include "faults.h"

static hf_client *client, *other;
static hf_lock *lock, *theirs; /* both k: of client, of other */

static int set_up(void **state) {
    int result = begin_fault(state);
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = 1000, .command_timeout_ms = 500};
    assert_status(hf_client_open(unix_url(), &options, &client), HF_OK);
    other = open_client();
    lock = must_lock(client, "k", NULL);
    theirs = must_lock(other, "k", NULL);
    return result;
}

static int tear_down(void **state) {
    (void)state;
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
    return 0;
}

/* ----------------------------------------------------------- Completions */

/* Check that the next completion is of this operation, and has this status. */
static hf_completion told_of(int32_t kind, int64_t op, hf_status status, int64_t within_ms) {
    hf_completion completion = completion_within(client, within_ms);
    assert_int_equal(completion.kind, kind);
    assert_int_equal(completion.op, op);
    if (completion.status != status)
        fail_msg("operation %lld came to %s, not %s", (long long)op,
                 hf_status_name(completion.status), hf_status_name(status));
    return completion;
}

static hf_hold *told_acquired(int64_t op, hf_status status, int64_t within_ms) {
    hf_completion completion = told_of(HF_KIND_ACQUIRE, op, status, within_ms);
    assert_int_equal(completion.hold != NULL, status == HF_OK);
    assert_int_equal(completion.hold_number, hf_hold_number(completion.hold));
    return completion.hold;
}

static void told_released(int64_t op, hf_status status, int64_t within_ms) {
    hf_completion completion = completion_within(client, within_ms);
    assert_int_equal(completion.kind, HF_KIND_RELEASE);
    assert_int_equal(completion.op, op);
    assert_int_equal(completion.status, status);
    assert_null(completion.hold);
}

static void told_nothing(void) {
    assert_int_equal(completion_within(client, 0).kind, HF_KIND_NONE);
}

static void start(int64_t timeout_ms, int64_t op) {
    assert_status(hf_lock_acquire_start(lock, NULL, 0, timeout_ms, NULL, op), HF_OK);
}

static int threads_of_this_process(void) {
    char line[128];
    int count = 0;
    FILE *status = fopen("/proc/self/status", "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status) != NULL)
        sscanf(line, "Threads: %d", &count);
    fclose(status);
    return count;
}

/* ----------------------------------------------------------- In order */

static void test_500_started_acquires_are_served_in_order_on_one_thread(void **state) {
    enum { OPS = 500 };
    (void)state;
    hf_hold *hold = held(theirs);
    int threads = threads_of_this_process();
    for (int i = 1; i <= OPS; i++)
        start(60000, i);
    assert_soon(queued("k") == OPS);
    assert_int_equal(threads_of_this_process(), threads + 1);
    TELL("CONFIG RESETSTAT");
    give_back(hold, HF_OK);
    int64_t fence = 0;
    int acquired = 0, released = 0;
    while (released < OPS) {
        hf_completion completion = completion_within(client, 5000);
        assert_int_equal(completion.status, HF_OK);
        if (completion.kind == HF_KIND_ACQUIRE) {
            assert_int_equal(completion.op, ++acquired);
            assert_true(hf_hold_fence(completion.hold) > fence);
            fence = hf_hold_fence(completion.hold);
            assert_status(hf_hold_release_start(completion.hold, OPS + acquired), HF_OK);
            hf_hold_close(completion.hold);
        } else {
            assert_int_equal(completion.kind, HF_KIND_RELEASE);
            assert_int_equal(completion.op, OPS + ++released);
        }
    }
    /* One release each, and the checks on the lock. */
    assert_in_range(scripts_run(), OPS + 1, OPS + 1 + 10);
    told_nothing();
    assert_nothing_left();
    assert_int_equal(NUMBER("EXISTS k"), 0);
}

/* C11 */
static void test_two_acquires_that_one_thread_started_exclude_each_other(void **state) {
    (void)state;
    start(5000, 1);
    hf_hold *first = told_acquired(1, HF_OK, 2000), *nested;
    start(0, 2);
    told_acquired(2, HF_EBUSY, 2000);
    start(50, 3);
    hf_completion late = told_of(HF_KIND_ACQUIRE, 3, HF_ETIMEOUT, 2000);
    assert_non_null(strstr(late.error.message, "at last by 'holdfast@"));
    assert_status(hf_lock_acquire(lock, 0, &nested), HF_EBUSY); /* nor does the thread own it */
    start(5000, 4);
    assert_soon(queued("k") == 1);
    told_nothing();
    give_back(first, HF_OK);
    give_back(told_acquired(4, HF_OK, 2000), HF_OK);
}

static void test_started_acquires_of_one_owner_nest(void **state) {
    (void)state;
    assert_status(hf_lock_acquire_start(lock, "ann", 3, 0, NULL, 1), HF_OK);
    hf_hold *first = told_acquired(1, HF_OK, 2000);
    assert_status(hf_lock_acquire_start(lock, "ann", 3, 1000, NULL, 2), HF_OK);
    hf_hold *second = told_acquired(2, HF_OK, 2000);
    assert_int_equal(hf_hold_fence(first), hf_hold_fence(second));
    give_back(first, HF_OK);
    give_back(second, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
}

static void test_an_acquire_of_one_lock_does_not_wait_for_another_lock(void **state) {
    (void)state;
    hf_lock *free_lock = must_lock(client, "free", NULL);
    hf_hold *hold = held(theirs);
    start(5000, 1);
    assert_soon(queued("k") == 1);
    assert_status(hf_lock_acquire_start(free_lock, NULL, 0, 5000, NULL, 2), HF_OK);
    give_back(told_acquired(2, HF_OK, 1000), HF_OK);
    give_back(hold, HF_OK);
    give_back(told_acquired(1, HF_OK, 1000), HF_OK);
    hf_lock_close(free_lock);
}

/* -------------------------------------------------------------- Timeouts */

static void test_a_started_try_takes_what_is_free_and_is_busy_else(void **state) {
    (void)state;
    start(0, 1);
    hf_hold *mine = told_acquired(1, HF_OK, 2000);
    give_back(mine, HF_OK);
    hf_hold *hold = held(theirs);
    for (int i = 2; i < 20; i++)
        start(0, i);
    for (int i = 2; i < 20; i++)
        told_acquired(i, HF_EBUSY, 2000);
    assert_int_equal(queued("k"), 0);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_nothing_left();
}

static void test_a_started_acquire_that_times_out_leaves_nothing_behind(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    for (int i = 1; i <= 40; i++)
        start(i, i); /* some end before they have a place */
    for (int i = 1; i <= 40; i++) {
        hf_completion completion = completion_within(client, 2000);
        assert_int_equal(completion.kind, HF_KIND_ACQUIRE);
        assert_int_equal(completion.status, HF_ETIMEOUT);
    }
    assert_int_equal(queued("k"), 0);
    told_nothing();
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_nothing_left();
}

static void test_a_started_timeout_that_races_the_release_leaves_nothing_behind(void **state) {
    (void)state;
    int won = 0;
    for (int i = 1; i <= 200 / SLOW; i++) {
        hf_hold *hold = held(theirs);
        int64_t since = now_ms();
        start(8, i);
        while (now_ms() < since + 8)
            ;
        nanosleep(&(struct timespec){.tv_nsec = i % 10 * 50000}, NULL);
        give_back(hold, HF_OK);
        hf_completion completion = completion_within(client, 2000);
        assert_int_equal(completion.op, i);
        if (completion.status == HF_OK) {
            won++;
            give_back(completion.hold, HF_OK);
        } else {
            assert_int_equal(completion.status, HF_ETIMEOUT);
        }
        assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    }
    print_message("%d times the lock was faster\n", won);
}

/* H5: they send requests often instead. */
static void test_without_the_right_to_subscribe_started_acquires_work_too(void **state) {
    (void)state;
    TELL("ACL SETUSER poller on >secret ~* resetchannels +@all");
    hf_lock_close(lock);
    hf_client_close(client);
    client = must_open(text("unix://poller:secret@%s", unix_url() + strlen("unix://")));
    lock = must_lock(client, "k", NULL);
    hf_hold *hold = held(theirs);
    start(0, 1);
    told_acquired(1, HF_EBUSY, 2000);
    start(100, 2);
    told_acquired(2, HF_ETIMEOUT, 2000);
    start(HF_FOREVER, 3);
    for (int i = 4; i <= 8; i++)
        start(20000, i);
    sleep_ms(50);
    assert_status(hf_op_cancel(client, 3), HF_OK);
    told_acquired(3, HF_ECANCELED, 2000);
    assert_int_equal(queued("k"), 0);
    told_nothing();
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    bool seen[9] = {false};
    for (int i = 4; i <= 8; i++) {
        hf_completion completion = completion_within(client, 3000);
        assert_int_equal(completion.status, HF_OK);
        assert_in_range(completion.op, 4, 8);
        assert_false(seen[completion.op]);
        seen[completion.op] = true;
        told_nothing();
        give_back(completion.hold, HF_OK);
    }
    assert_in_range(now_ms() - since, 0, 1000);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    TELL("ACL DELUSER poller");
}

/* H244: an acquire that nests would wait for itself behind another waiter of its client. */
static void test_what_nests_is_asked_for_where_no_messages_come(void **state) {
    (void)state;
    TELL("ACL SETUSER poller on >secret ~* resetchannels +@all");
    hf_client *poller = must_open(text("unix://poller:secret@%s", unix_url() + strlen("unix://")));
    hf_lock *its = must_lock(poller, "k", NULL);
    assert_true(hf_client_fd(poller) >= 0);
    assert_status(hf_lock_acquire_start(its, "one", 3, 0, NULL, 1), HF_OK);
    hf_hold *outer = completion_within(poller, 2000).hold;
    assert_non_null(outer);
    assert_status(hf_lock_acquire_start(its, "two", 3, HF_FOREVER, NULL, 2), HF_OK);
    hf_stats stats = {.size = sizeof stats};
    assert_soon(hf_client_stats(poller, &stats) == HF_OK && stats.waiting == 1);
    assert_status(hf_lock_acquire_start(its, "one", 3, 20000, NULL, 3), HF_OK);
    hf_completion done = completion_within(poller, 5000);
    assert_int_equal(done.op, 3);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    give_back(outer, HF_OK);
    done = completion_within(poller, 5000);
    assert_int_equal(done.op, 2);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    hf_lock_close(its);
    hf_client_close(poller);
    TELL("ACL DELUSER poller");
}

/* ---------------------------------------------------------------- Cancel */

static void test_a_cancelled_acquire_leaves_nothing_behind(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    for (int i = 1; i <= 30; i++)
        start(HF_FOREVER, i);
    assert_soon(queued("k") == 30);
    for (int i = 1; i <= 30; i += 2)
        assert_status(hf_op_cancel(client, i), HF_OK);
    for (int i = 1; i <= 30; i += 2)
        told_acquired(i, HF_ECANCELED, 2000);
    assert_int_equal(queued("k"), 15);
    assert_status(hf_op_cancel(client, 1), HF_ENOTHELD);
    give_back(hold, HF_OK);
    for (int i = 2; i <= 30; i += 2)
        give_back(told_acquired(i, HF_OK, 2000), HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_nothing_left();
}

static void test_a_cancel_that_races_the_grant_leaves_nothing_behind(void **state) {
    (void)state;
    int won = 0, rounds = 400 / SLOW;
    for (int i = 1; i <= rounds; i++) {
        hf_hold *hold = held(theirs);
        start(i % 2 ? HF_FOREVER : 60000, i);
        if (i % 4 > 0) /* the others while they ask for their places */
            assert_soon(queued("k") == 1);
        assert_status(hf_hold_release(hold), HF_OK);
        if (i % 3 > 0)
            nanosleep(&(struct timespec){.tv_nsec = i % 16 * 10000}, NULL);
        hf_status status = hf_op_cancel(client, i);
        assert_true(status == HF_OK || status == HF_ENOTHELD);
        hf_completion completion = completion_within(client, 2000);
        assert_int_equal(completion.op, i);
        if (completion.status == HF_OK) {
            won++;
            assert_int_equal(hf_hold_state(completion.hold), HF_STATE_HELD);
            give_back(completion.hold, HF_OK);
        } else {
            assert_int_equal(completion.status, HF_ECANCELED);
            assert_int_equal(status, HF_OK);
        }
        told_nothing();
        assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
        hf_hold_close(hold);
    }
    print_message("%d of %d times the grant was faster\n", won, rounds);
}

static void test_what_is_cancelled_at_once_was_never_there(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    for (int i = 1; i <= 100; i++) {
        start(60000, i);
        assert_status(hf_op_cancel(client, i), HF_OK);
    }
    for (int i = 1; i <= 100; i++) {
        hf_completion completion = completion_within(client, 2000);
        assert_int_equal(completion.status, HF_ECANCELED);
    }
    assert_soon(queued("k") == 0);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    told_nothing();
}

/* --------------------------------------------------------------- Release */

static void test_a_started_release_ends_the_hold_at_once_and_once(void **state) {
    (void)state;
    hf_hold *hold = held(lock);
    assert_status(hf_hold_release_start(hold, 7), HF_OK);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    assert_int_equal(hf_hold_remaining_ms(hold), 0);
    assert_status(hf_hold_release_start(hold, 8), HF_ENOTHELD);
    assert_status(hf_hold_release(hold), HF_ENOTHELD);
    told_released(7, HF_OK, 2000);
    told_nothing();
    assert_int_equal(NUMBER("EXISTS k"), 0);
    hf_hold_close(hold);

    hold = held(lock); /* this hold is broken by an operator */
    TELL("DEL k");
    assert_status(hf_hold_release_start(hold, 9), HF_OK);
    told_released(9, HF_ELOST, 2000);
    hf_hold_close(hold);
}

static void test_a_started_keep_ends_the_hold_when_the_server_has_it(void **state) {
    (void)state;
    hf_hold *hold = held(lock), *none;
    assert_status(hf_hold_keep_start(hold, -1, 7), HF_EINVAL);
    assert_status(hf_hold_keep_start(hold, 60000, 0), HF_EINVAL);
    TELL("CLIENT PAUSE 200 ALL");
    assert_status(hf_hold_keep_start(hold, 60000, 7), HF_OK);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    told_released(7, HF_OK, 2000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    assert_status(hf_hold_keep_start(hold, 60000, 8), HF_ENOTHELD);
    assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
    assert_in_range(NUMBER("PTTL k"), 50000, 60000);
    hf_hold_close(hold);
    TELL("DEL k");

    hold = held(lock); /* 0 is a release */
    assert_status(hf_hold_keep_start(hold, 0, 9), HF_OK);
    told_released(9, HF_OK, 2000);
    hf_hold_close(hold);
    hold = held(lock); /* this hold is broken by an operator */
    TELL("DEL k");
    assert_status(hf_hold_keep_start(hold, 60000, 10), HF_OK);
    assert_int_equal(completion_within(client, 2000).kind, HF_KIND_LOSS);
    told_released(10, HF_ELOST, 2000);
    hf_hold_close(hold);
    assert_int_equal(NUMBER("EXISTS k"), 0);
}

/* ----------------------------------------------------------------- Renew */

static void told_renewed(int64_t op, hf_status status, int64_t within_ms) {
    assert_null(told_of(HF_KIND_RENEWAL, op, status, within_ms).hold);
}

static void test_a_started_renewal_does_what_one_that_is_waited_for_does(void **state) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 1000, .renew = HF_OFF};
    hf_lock *brief = must_lock(client, "k", &options);
    hf_hold *hold = held(brief);
    (void)state;
    sleep_ms(300);
    assert_status(hf_hold_renew_start(hold, 1), HF_OK);
    told_renewed(1, HF_OK, 2000);
    assert_in_range(hf_hold_remaining_ms(hold), 900, 1000);
    assert_status(hf_hold_extend_start(hold, 5000, 0, 2), HF_OK);
    told_renewed(2, HF_OK, 2000);
    assert_in_range(hf_hold_remaining_ms(hold), 5800, 6000);
    assert_in_range(NUMBER("PTTL k"), 5800, 6000);
    /* A shorter lease counts before the server has answered. */
    assert_status(hf_hold_extend_start(hold, 2000, 1, 3), HF_OK);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 2000);
    told_renewed(3, HF_OK, 2000);
    assert_in_range(NUMBER("PTTL k"), 1800, 2000);
    assert_status(hf_hold_extend_start(hold, HF_NEVER, 1, 4), HF_OK);
    told_renewed(4, HF_OK, 2000);
    assert_int_equal(hf_hold_remaining_ms(hold), HF_NEVER);
    assert_int_equal(NUMBER("PTTL k"), -1);
    assert_status(hf_hold_check_start(hold, 5), HF_OK);
    told_renewed(5, HF_OK, 2000);
    give_back(hold, HF_OK);
    told_nothing();
    hf_lock_close(brief);
}

static void test_a_started_renewal_finds_a_loss_and_a_release(void **state) {
    hf_hold *hold = held(lock);
    (void)state;
    TELL("DEL k");
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    hf_completion loss = completion_within(client, 2000);
    assert_int_equal(loss.kind, HF_KIND_LOSS);
    assert_int_equal(loss.cause, HF_CAUSE_GONE);
    told_renewed(1, HF_ELOST, 2000);
    assert_status(hf_hold_renew_start(hold, 2), HF_ELOST);
    give_back(hold, HF_ELOST);

    hold = held(lock);
    kill(the_server, SIGSTOP);
    assert_status(hf_hold_extend_start(hold, 5000, 1, 3), HF_OK);
    assert_status(hf_hold_release_start(hold, 4), HF_OK);
    kill(the_server, SIGCONT);
    told_renewed(3, HF_ENOTHELD, 2000);
    told_released(4, HF_OK, 2000);
    assert_status(hf_hold_renew_start(hold, 5), HF_ENOTHELD);
    hf_hold_close(hold);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    told_nothing();
}

/* Also with a closed handle and a closed client. */
static void test_a_started_renewal_ends_whatever_becomes_of_its_hold(void **state) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 60000};
    hf_lock *lasting = must_lock(client, "k", &options);
    hf_hold *hold = held(lasting);
    (void)state;
    assert_status(hf_hold_renew_start(hold, 1), HF_OK); /* so that all is connected */
    told_renewed(1, HF_OK, 2000);
    kill(the_server, SIGSTOP);
    assert_status(hf_hold_extend_start(hold, 5000, 1, 2), HF_OK);
    told_renewed(2, HF_EUNKNOWN, 3000);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 5000);
    assert_status(hf_hold_renew_start(hold, 3), HF_OK);
    hf_hold_close(hold);
    hf_client *closed = client;
    hf_client_close(client);
    kill(the_server, SIGCONT);
    hf_completion completion = {.size = sizeof completion};
    assert_status(hf_client_next(closed, &completion), HF_OK);
    assert_int_equal(completion.kind, HF_KIND_RENEWAL);
    assert_int_equal(completion.op, 3);
    assert_int_equal(completion.status, HF_ECLOSED);
    assert_status(hf_client_next(closed, &completion), HF_ECLOSED);
    hf_lock_close(lasting);
    hf_lock_close(lock);
    TELL("DEL k");
    client = open_client();
    lock = must_lock(client, "k", NULL);
}

/* ------------------------------------------------------- Arguments, HF_ACQUIRE_KEEP */

static void test_a_wrong_number_or_argument_starts_nothing(void **state) {
    (void)state;
    hf_completion small = {.size = 0};
    hf_hold *hold = held(lock);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 0), HF_EINVAL);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, -1), HF_EINVAL);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, -2, NULL, 1), HF_EINVAL);
    assert_status(hf_lock_acquire_start(lock, "a", 0, 0, NULL, 1), HF_EINVAL);
    assert_status(hf_lock_acquire_start(NULL, NULL, 0, 0, NULL, 1), HF_EINVAL);
    assert_status(hf_hold_release_start(hold, 0), HF_EINVAL);
    assert_status(hf_hold_release_start(hold, -1), HF_EINVAL);
    assert_status(hf_hold_release_start(NULL, 1), HF_EINVAL);
    assert_status(hf_hold_renew_start(hold, 0), HF_EINVAL);
    assert_status(hf_hold_renew_start(NULL, 1), HF_EINVAL);
    assert_status(hf_hold_check_start(NULL, 1), HF_EINVAL);
    assert_status(hf_hold_extend_start(NULL, 1000, 0, 1), HF_EINVAL);
    assert_status(hf_hold_extend_start(hold, 9, 0, 1), HF_EINVAL);
    assert_status(hf_hold_extend_start(hold, HF_NEVER, 0, 1), HF_EINVAL);
    assert_status(hf_hold_extend_start(hold, 1000, 1, 0), HF_EINVAL);
    assert_true(hf_hold_remaining_ms(hold) > 5000); /* and it was not made shorter */
    assert_status(hf_op_cancel(client, 0), HF_ENOTHELD);
    assert_status(hf_op_cancel(client, 99), HF_ENOTHELD);
    assert_status(hf_op_cancel(NULL, 1), HF_EINVAL);
    assert_status(hf_client_next(client, NULL), HF_EINVAL);
    assert_status(hf_client_next(client, &small), HF_EINVAL);
    assert_int_equal(hf_client_fd(NULL), -1);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    told_nothing();
    give_back(hold, HF_OK);
}

/* A number is refused while its operation, of any kind, is under way; it is free once the
 * completion is read. */
static void test_a_number_in_use_is_refused(void **state) {
    (void)state;
    hf_hold *hold = held(theirs), *mine;
    hf_lock *another = must_lock(client, "another", NULL);
    mine = held(another);
    assert_status(hf_hold_check(mine), HF_OK); /* the server knows the script */
    start(HF_FOREVER, 7);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 7), HF_EINVAL);
    assert_message("has the number 7");
    assert_status(hf_hold_renew_start(mine, 7), HF_EINVAL);
    assert_status(hf_hold_check_start(mine, 7), HF_EINVAL);
    assert_status(hf_hold_extend_start(mine, 1000, HF_EXTEND_REPLACE, 7), HF_EINVAL);
    assert_true(hf_hold_remaining_ms(mine) > 5000); /* and it was not made shorter */
    assert_status(hf_hold_release_start(mine, 7), HF_EINVAL);
    assert_int_equal(hf_hold_state(mine), HF_STATE_HELD);
    assert_status(hf_op_cancel(client, 7), HF_OK);
    told_acquired(7, HF_ECANCELED, 2000);
    assert_status(hf_op_cancel(client, 7), HF_ENOTHELD);

    kill(the_server, SIGSTOP); /* renewals and releases have numbers, too */
    assert_status(hf_hold_renew_start(mine, 7), HF_OK);
    assert_status(hf_hold_check_start(mine, 7), HF_EINVAL);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 7), HF_EINVAL);
    assert_status(hf_op_cancel(client, 7), HF_ENOTHELD); /* it is no acquire */
    assert_status(hf_hold_release_start(mine, 8), HF_OK);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 8), HF_EINVAL);
    kill(the_server, SIGCONT);
    told_of(HF_KIND_RENEWAL, 7, HF_ENOTHELD, 2000);
    told_released(8, HF_OK, 2000);
    start(0, 7);
    start(0, 8);
    start(0, 7 + 1024); /* in one bucket */
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 7 + 1024), HF_EINVAL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(completion_within(client, 2000).status, HF_EBUSY);
    told_nothing();
    hf_hold_close(mine);
    hf_lock_close(another);
    give_back(hold, HF_OK);
}

/* The operations are cancelled in any order, among thousands. */
static void test_each_of_many_numbers_finds_its_operation(void **state) {
    enum { OPS = 3000 };
    (void)state;
    hf_hold *hold = held(theirs);
    for (int i = 1; i <= OPS; i++)
        start(HF_FOREVER, i);
    for (int i = 0; i < OPS; i++) {
        int64_t number = 1 + i * 7 % OPS;
        assert_status(hf_op_cancel(client, number), HF_OK);
    }
    static bool seen[OPS + 1];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < OPS; i++) {
        hf_completion completion = completion_within(client, 10000);
        assert_int_equal(completion.status, HF_ECANCELED);
        assert_in_range(completion.op, 1, OPS);
        assert_false(seen[completion.op]);
        seen[completion.op] = true;
    }
    give_back(hold, HF_OK);
    assert_soon(queued("k") == 0);
}

static void test_keep_leaves_a_started_hold_with_the_client_too(void **state) {
    (void)state;
    hf_acquire_options keep = {.size = sizeof keep, .flags = HF_ACQUIRE_KEEP};
    for (int released = 0; released < 2; released++) {
        assert_status(hf_lock_acquire_start(lock, "ann", 3, 1000, &keep, 1), HF_OK);
        hf_hold *hold = told_acquired(1, HF_OK, 2000);
        assert_int_equal(hf_lock_count_as(lock, "ann", 3), 1);
        if (released == 0) {
            assert_status(hf_hold_release(hold), HF_OK);
            assert_status(hf_lock_release_as(lock, "ann", 3), HF_ENOTHELD);
        } else {
            assert_status(hf_lock_release_as(lock, "ann", 3), HF_OK);
            assert_status(hf_hold_release(hold), HF_ENOTHELD);
        }
        hf_hold_close(hold);
        assert_int_equal(NUMBER("EXISTS k"), 0);
    }
    /* The hold of an acquire that waited stays with the client as well. */
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, "ann", 3, 5000, &keep, 2), HF_OK);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    hf_hold_close(told_acquired(2, HF_OK, 2000));
    assert_int_equal(hf_lock_count_as(lock, "ann", 3), 1); /* the hold outlives its handle */
    assert_status(hf_lock_release_as(lock, "ann", 3), HF_OK);
}

static void test_a_started_acquire_renews_loses_and_heals_like_any(void **state) {
    (void)state;
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = 400, .renew = HF_OFF, .heal = HF_ON};
    hf_lock *brief = must_lock(client, "k", &options);
    hf_acquire_options renewed = {.size = sizeof renewed, .renew = HF_ON};
    TELL("SET k theirs");
    assert_status(hf_lock_acquire_start(brief, NULL, 0, 5000, &renewed, 1), HF_OK);
    hf_hold *hold = told_acquired(1, HF_OK, 400 + 300);
    sleep_ms(1000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    TELL("DEL k");
    hf_completion loss = completion_within(client, 300);
    assert_int_equal(loss.kind, HF_KIND_LOSS);
    assert_int_equal(loss.hold_number, hf_hold_number(hold));
    assert_int_equal(loss.cause, HF_CAUSE_GONE);
    give_back(hold, HF_ELOST);
    hf_lock_close(brief);
}

/* ------------------------------------------------------ Close and trouble */

/* The lock's handle keeps the client's memory valid, so that its reader can end. */
static void test_closing_ends_every_operation_with_its_completion(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    for (int i = 1; i <= 20; i++)
        start(HF_FOREVER, i);
    assert_soon(queued("k") == 20);
    hf_client *closed = client;
    hf_client_close(client);
    hf_completion completion = {.size = sizeof completion};
    bool seen[21] = {false};
    for (int i = 1; i <= 20; i++) {
        assert_status(hf_client_next(closed, &completion), HF_OK);
        assert_int_equal(completion.kind, HF_KIND_ACQUIRE);
        assert_int_equal(completion.status, HF_ECANCELED);
        assert_in_range(completion.op, 1, 20);
        assert_false(seen[completion.op]);
        seen[completion.op] = true;
    }
    completion.size = sizeof completion;
    assert_status(hf_client_next(closed, &completion), HF_ECLOSED);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_ECLOSED);
    assert_int_equal(queued("k"), 0);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    hf_lock_close(lock);
    client = open_client();
    lock = must_lock(client, "k", NULL);
    assert_nothing_left();
}

/* The client closes in the middle of started operations of every kind. */
static void test_a_close_that_races_what_was_started_leaves_nothing_behind(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        hf_hold *hold = i % 3 > 0 ? held(theirs) : NULL;
        for (int j = 1; j <= 5; j++)
            start(i % 2 ? HF_FOREVER : 5, j);
        nanosleep(&(struct timespec){.tv_nsec = i * 20000}, NULL);
        if (i % 3 == 1)
            assert_status(hf_hold_release(hold), HF_OK);
        hf_client *closed = client;
        hf_client_close(client);
        if (i % 3 == 2)
            assert_status(hf_hold_release(hold), HF_OK);
        hf_hold_close(hold);
        for (int j = 0; j < 5; j++) {
            hf_completion completion = {.size = sizeof completion};
            assert_status(hf_client_next(closed, &completion), HF_OK);
            assert_int_equal(completion.kind, HF_KIND_ACQUIRE);
            hf_hold_close(completion.hold);
        }
        hf_lock_close(lock);
        client = open_client();
        lock = must_lock(client, "k", NULL);
        assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    }
}

static atomic_long begun;

static void *begin_checks(void *hold) {
    hf_status status;
    while ((status = hf_hold_check_start(hold, begun + 1)) == HF_OK)
        begun++;
    return (void *)(intptr_t)status;
}

/* A started operation ends even if another thread closes the client at that moment. */
static void test_what_is_started_while_the_client_is_closed_ends_too(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        hf_hold *hold = held(lock);
        hf_completion completion = {.size = sizeof completion};
        hf_client *closed = client;
        pthread_t thread;
        void *status;
        begun = 0;
        assert_int_equal(pthread_create(&thread, NULL, begin_checks, hold), 0);
        assert_soon(begun > i % 8);
        hf_client_close(client);
        pthread_join(thread, &status);
        assert_true((intptr_t)status == HF_ECLOSED || (intptr_t)status == HF_ENOTHELD);
        for (long left = begun; left > 0; left--) {
            assert_status(hf_client_next(closed, &completion), HF_OK);
            assert_int_equal(completion.kind, HF_KIND_RENEWAL);
        }
        assert_status(hf_client_next(closed, &completion), HF_ECLOSED);
        hf_hold_close(hold);
        hf_lock_close(lock);
        client = open_client();
        lock = must_lock(client, "k", NULL);
    }
}

static void test_every_operation_ends_when_the_server_does_not_answer(void **state) {
    (void)state;
    hf_hold *hold = held(lock);
    start(0, 1); /* so that all is connected */
    told_acquired(1, HF_EBUSY, 2000);
    kill(the_server, SIGSTOP);
    int64_t since = now_ms();
    bool seen[7] = {false};
    assert_status(hf_hold_release_start(hold, 6), HF_OK);
    start(0, 2);
    start(300, 3);
    start(60000, 4);
    start(60000, 5);
    assert_status(hf_op_cancel(client, 5), HF_OK);
    for (int i = 0; i < 4; i++) {
        hf_completion completion = completion_within(client, 5000);
        assert_true(completion.op >= 2 && completion.op <= 6 && completion.op != 4);
        assert_false(seen[completion.op]);
        seen[completion.op] = true;
        assert_true(completion.status != HF_OK && completion.status != HF_EBUSY);
        assert_null(completion.hold);
    }
    print_message("the last after %lld ms\n", (long long)(now_ms() - since));
    assert_in_range(now_ms() - since, 0, 3000);
    kill(the_server, SIGCONT);
    hf_hold_close(hold);
    /* The waiter with patience gets the lock after all others have left. */
    give_back(told_acquired(4, HF_OK, 10000), HF_OK);
    assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    told_nothing();
}

/* --------------------------------------------------------- Several at once */

/* Start an acquire of a and of k (`lock`), in another order than that of their names. */
static void start_both(int64_t timeout_ms, int64_t op) {
    hf_lock *a = must_lock(client, "a", NULL), *locks[] = {lock, a};
    assert_status(hf_lock_acquire_all_start(locks, 2, NULL, 0, timeout_ms, NULL, op), HF_OK);
    hf_lock_close(a); /* the operation no longer needs it */
}

static void told_both(int64_t op, hf_status status) {
    told_acquired(op, status, 4000);
    told_acquired(op + 1, status, 4000);
    told_nothing();
}

static void test_several_started_at_once_are_told_together_in_the_callers_order(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    start_both(20000, 5);
    assert_soon(queued("k") == 1);
    assert_int_equal(NUMBER("EXISTS a"), 1); /* already held, and not yet reported */
    told_nothing();
    give_back(hold, HF_OK);
    hf_hold *k = told_acquired(5, HF_OK, 4000), *a = told_acquired(6, HF_OK, 4000);
    hf_hold *again;
    assert_status(hf_lock_acquire(theirs, 0, &again), HF_EBUSY);
    assert_status(hf_hold_release(k), HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_int_equal(NUMBER("EXISTS a"), 1);
    assert_status(hf_hold_release(a), HF_OK);
    hf_hold_close(k);
    hf_hold_close(a);
    assert_nothing_left();
}

static void test_of_several_started_all_are_refused_or_none(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    start_both(0, 1);
    told_both(1, HF_EBUSY);
    start_both(100, 1);
    told_both(1, HF_ETIMEOUT);
    assert_soon(NUMBER("EXISTS a") == 0 && queued("k") == 0);
    give_back(hold, HF_OK);
    assert_nothing_left();
}

static void test_several_started_are_cancelled_by_any_of_their_numbers(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    start_both(HF_FOREVER, 8);
    assert_soon(queued("k") == 1);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 9), HF_EINVAL);
    assert_status(hf_op_cancel(client, 9), HF_OK);
    told_both(8, HF_ECANCELED);
    assert_soon(NUMBER("EXISTS a") == 0 && queued("k") == 0);
    give_back(hold, HF_OK);
    assert_nothing_left();
}

static void test_of_several_started_none_is_held_when_the_refusal_is_told(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    for (int i = 0; i < 20; i++) {
        start_both(0, 1);
        hf_completion refusal = completion_within(client, 4000);
        assert_int_equal(NUMBER("EXISTS a"), 0);
        assert_int_equal(refusal.error.lock, 0); /* k */
        told_acquired(2, HF_EBUSY, 4000);
    }
    give_back(hold, HF_OK);
    assert_nothing_left();
}

/* Waiting for k, the caller would wait for itself; for a it would not wait. */
static void test_each_of_several_started_has_its_options(void **state) {
    (void)state;
    hf_acquire_options holds = {.size = sizeof holds, .flags = HF_ACQUIRE_HOLDS};
    const hf_acquire_options *options[] = {NULL, &holds};
    hf_lock *a = must_lock(client, "a", NULL), *locks[] = {a, lock};
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_all_start(locks, 2, NULL, 0, HF_FOREVER, options, 1), HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_completion refusal = completion_within(client, 4000);
        assert_status(refusal.status, HF_EDEADLOCK);
        assert_int_equal(refusal.error.lock, 1);
    }
    give_back(hold, HF_OK);
    hf_lock_close(a);
    assert_nothing_left();
}

static void test_several_started_are_told_of_the_close_and_leave_nothing(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    start_both(HF_FOREVER, 8);
    assert_soon(queued("k") == 1);
    hf_lock *kept = lock;
    lock = must_lock(other, "k", NULL); /* the handle of the closed client is closed last */
    hf_client_close(client);
    hf_completion completion = {.size = sizeof completion};
    for (int i = 0; i < 2; i++) {
        assert_status(hf_client_next(client, &completion), HF_OK);
        assert_int_equal(completion.op, 8 + i);
        assert_int_equal(completion.status, HF_ECANCELED);
    }
    hf_lock_close(kept);
    client = open_client();
    give_back(hold, HF_OK);
    assert_nothing_left();
}

/* The lease of the first lock ends while the second is waited for: the acquire begins again. */
static void test_several_started_begin_again_when_a_lease_has_ended(void **state) {
    (void)state;
    hf_lock *locks[] = {lease_lock(client, "a", 100, HF_OFF), lease_lock(client, "k", 100, HF_OFF)};
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_all_start(locks, 2, NULL, 0, 20000, NULL, 3), HF_OK);
    assert_soon(queued("k") == 1);
    sleep_ms(300);
    give_back(hold, HF_OK);
    hf_hold *a = told_acquired(3, HF_OK, 4000), *k = told_acquired(4, HF_OK, 4000);
    assert_true(hf_hold_remaining_ms(a) > 0 && hf_hold_remaining_ms(k) > 0);
    hf_hold_release(a);
    hf_hold_release(k);
    hf_hold_close(a);
    hf_hold_close(k);
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_500_started_acquires_are_served_in_order_on_one_thread),
        TEST(test_two_acquires_that_one_thread_started_exclude_each_other),
        TEST(test_started_acquires_of_one_owner_nest),
        TEST(test_an_acquire_of_one_lock_does_not_wait_for_another_lock),
        TEST(test_a_started_try_takes_what_is_free_and_is_busy_else),
        TEST(test_a_started_acquire_that_times_out_leaves_nothing_behind),
        TEST(test_a_started_timeout_that_races_the_release_leaves_nothing_behind),
        TEST(test_without_the_right_to_subscribe_started_acquires_work_too),
        TEST(test_what_nests_is_asked_for_where_no_messages_come),
        TEST(test_a_cancelled_acquire_leaves_nothing_behind),
        TEST(test_a_cancel_that_races_the_grant_leaves_nothing_behind),
        TEST(test_what_is_cancelled_at_once_was_never_there),
        TEST(test_a_started_release_ends_the_hold_at_once_and_once),
        TEST(test_a_started_keep_ends_the_hold_when_the_server_has_it),
        TEST(test_a_started_renewal_does_what_one_that_is_waited_for_does),
        TEST(test_a_started_renewal_finds_a_loss_and_a_release),
        TEST(test_a_started_renewal_ends_whatever_becomes_of_its_hold),
        TEST(test_a_wrong_number_or_argument_starts_nothing),
        TEST(test_a_number_in_use_is_refused),
        TEST(test_each_of_many_numbers_finds_its_operation),
        TEST(test_keep_leaves_a_started_hold_with_the_client_too),
        TEST(test_a_started_acquire_renews_loses_and_heals_like_any),
        TEST(test_several_started_at_once_are_told_together_in_the_callers_order),
        TEST(test_of_several_started_all_are_refused_or_none),
        TEST(test_several_started_are_cancelled_by_any_of_their_numbers),
        TEST(test_of_several_started_none_is_held_when_the_refusal_is_told),
        TEST(test_each_of_several_started_has_its_options),
        TEST(test_several_started_are_told_of_the_close_and_leave_nothing),
        TEST(test_several_started_begin_again_when_a_lease_has_ended),
        TEST(test_closing_ends_every_operation_with_its_completion),
        TEST(test_a_close_that_races_what_was_started_leaves_nothing_behind),
        TEST(test_what_is_started_while_the_client_is_closed_ends_too),
        TEST(test_every_operation_ends_when_the_server_does_not_answer),
    };
    return RUN_TESTS(tests, count, words);
}

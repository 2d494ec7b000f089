/* A server that is far away or does not answer: holds are renewed nevertheless, and a call ends
 * within its time. */
#include "faults.h"

static proxy *way;
static hf_client *client, *other; /* client: through the proxy; other: past it */
static hf_lock *lock, *theirs;    /* both k: of client, of other */
static hf_hold *hold;

static int set_up(void **state) {
    int result = begin_fault(state);
    way = open_both(&client, &other);
    return result;
}

static int tear_down(void **state) {
    (void)state;
    atomic_store(&way->delay_ms, 0);
    close_both(way, client, other);
    return 0;
}

/* Let the keeper have its connection before it is in a hurry. */
static void wake_keeper(void) {
    hf_lock *another = must_lock(client, "another", NULL);
    hf_hold *mine;
    assert_status(hf_lock_acquire(another, 0, &mine), HF_OK);
    assert_status(hf_hold_check_start(mine, 1), HF_OK);
    assert_int_equal(next_of(client).op, 1);
    give_back(mine, HF_OK);
    hf_lock_close(another);
}

/* --------------------------------------------------------------- Renewal */

static void test_a_lease_of_five_round_trips_is_renewed(void **state) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 1000 * SLOW, .renew = HF_ON};
    (void)state;
    lock = must_lock(client, "k", &options);
    wake_keeper();
    atomic_store(&way->delay_ms, 100 * SLOW);
    assert_status(hf_lock_acquire(lock, 5000, &hold), HF_OK);
    int accepted = atomic_load(&way->door.accepted);
    int64_t since = now_ms();
    while (hf_hold_state(hold) == HF_STATE_HELD && now_ms() < since + 5000)
        sleep_ms(1);
    int64_t held_ms = now_ms() - since;
    int more = atomic_load(&way->door.accepted) - accepted;
    if (hf_hold_state(hold) != HF_STATE_HELD || more > 3)
        fail_msg("held for %lld ms, with %d new connections", (long long)held_ms, more);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* -------------------------------------------------------------- Timeouts */

/* The header's bound: the timeout and one connect_timeout_ms. */
enum { TIMEOUT_MS = 100, PROMISED_MS = TIMEOUT_MS + 2000, SLACK_MS = 250 * SLOW };

/* Let the other client hold the lock; after a wait, the client gets messages about grants. */
static void begin(bool has_waited) {
    theirs = must_lock(other, "k", NULL);
    lock = must_lock(client, "k", NULL);
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    wake_keeper();
    if (has_waited)
        assert_status(hf_lock_acquire(lock, 50, NULL), HF_ETIMEOUT);
}

/* Check that the wait ended in time without the lock, and leaves nothing behind where that is
 * possible. */
static void assert_ended(hf_status status, int64_t took_ms) {
    atomic_store(&way->delay_ms, 0);
    kill(the_server, SIGCONT);
    if (took_ms > PROMISED_MS + SLACK_MS)
        fail_msg("a timeout of %d ms took %lld ms", TIMEOUT_MS, (long long)took_ms);
    assert_true(status == HF_ETIMEOUT || status == HF_EUNKNOWN || status == HF_ECONNECT);
    assert_soon(queued("k") == 0);
    give_back(hold, HF_OK);
    assert_soon(NUMBER("EXISTS k") == 0);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

static void acquire_in_time(void) {
    int64_t since = now_ms();
    hf_status status = hf_lock_acquire(lock, TIMEOUT_MS, NULL);
    assert_ended(status, now_ms() - since);
}

static void started_in_time(void) {
    int64_t since = now_ms();
    assert_status(hf_lock_acquire_start(lock, NULL, 0, TIMEOUT_MS, NULL, 9), HF_OK);
    hf_completion completion = completion_within(client, 20000);
    int64_t took_ms = now_ms() - since;
    assert_int_equal(completion.op, 9);
    assert_ended(completion.status, took_ms);
}

static void far_away(void) { atomic_store(&way->delay_ms, 950); }

static void silent(void) { kill(the_server, SIGSTOP); }

static void test_a_timeout_is_kept_far_away(void **state) {
    (void)state;
    for (int has_waited = 0; has_waited < 2; has_waited++) {
        begin(has_waited);
        far_away();
        acquire_in_time();
    }
}

static void test_a_started_timeout_is_kept_far_away(void **state) {
    (void)state;
    for (int has_waited = 0; has_waited < 2; has_waited++) {
        begin(has_waited);
        far_away();
        started_in_time();
    }
}

static void test_a_timeout_is_kept_when_the_server_is_silent(void **state) {
    (void)state;
    for (int has_waited = 0; has_waited < 2; has_waited++) {
        begin(has_waited);
        silent();
        acquire_in_time();
    }
}

static void test_a_started_timeout_is_kept_when_the_server_is_silent(void **state) {
    (void)state;
    for (int has_waited = 0; has_waited < 2; has_waited++) {
        begin(has_waited);
        silent();
        started_in_time();
    }
}

static int64_t interrupted_at;

/* Give up once the wait is in the queue, and let the server fall silent. */
static int give_up(void *context) {
    (void)context;
    if (interrupted_at != 0 || queued("k") == 0)
        return 0;
    silent();
    interrupted_at = now_ms();
    return 1;
}

static void test_a_long_wait_that_is_given_up_ends_when_the_server_is_silent(void **state) {
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_INTERRUPTIBLE};
    (void)state;
    begin(false);
    interrupted_at = 0;
    assert_status(hf_client_set_interrupt(client, give_up, NULL), HF_OK);
    hf_status status = hf_lock_acquire_as(lock, NULL, 0, 10000, &options, NULL);
    assert_int_equal(status, HF_EUNKNOWN);
    assert_ended(status, now_ms() - interrupted_at);
}

/* In so short a time nothing could be sent, which is no sign that the server is away. */
static void test_a_started_timeout_while_the_client_connects_is_a_timeout(void **state) {
    (void)state;
    theirs = must_lock(other, "k", NULL);
    lock = must_lock(client, "k", NULL);
    hold = held(theirs);
    atomic_store(&way->delay_ms, 200);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 8), HF_OK);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 5, NULL, 9), HF_OK);
    hf_completion completion = next_of(client);
    assert_int_equal(completion.op, 9);
    assert_status(completion.status, HF_ETIMEOUT);
    atomic_store(&way->delay_ms, 0);
    assert_status(hf_op_cancel(client, 8), HF_OK);
    assert_int_equal(next_of(client).status, HF_ECANCELED);
    give_back(hold, HF_OK);
    assert_soon(NUMBER("EXISTS k") == 0);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

/* The time ends before the client can queue, and the client asks the server for the holder. */
static void test_a_timeout_before_the_queue_names_the_holder(void **state) {
    (void)state;
    begin(false);
    atomic_store(&way->delay_ms, 50);
    assert_status(hf_lock_acquire(lock, 10, NULL), HF_ETIMEOUT);
    assert_message("at last by 'holdfast@");
    assert_ended(HF_ETIMEOUT, 0);
}

/* Acquires are started while the client finds out whether grants arrive: the first of them tries
 * outside the queue, and nevertheless has its place in it. */
static void test_the_first_that_starts_keeps_its_place(void **state) {
    hf_lock *another = must_lock(client, "another", NULL);
    (void)state;
    theirs = must_lock(other, "k", NULL);
    lock = must_lock(client, "k", NULL);
    hold = held(theirs);
    give_back(held(another), HF_OK); /* its connection is open */
    atomic_store(&way->delay_ms, 50);
    assert_status(hf_lock_acquire_start(another, NULL, 0, 10000, NULL, 9), HF_OK);
    assert_soon(TELL("PUBSUB CHANNELS hf:*")->elements == 1);
    sleep_ms(75); /* subscribed, but the self-test's answer takes 100 ms more */
    for (int number = 1; number <= 3; number++)
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, number), HF_OK);
    assert_soon(queued("k") == 3);
    atomic_store(&way->delay_ms, 0);
    hf_completion completion = next_of(client);
    assert_int_equal(completion.op, 9);
    give_back(completion.hold, HF_OK);
    give_back(hold, HF_OK);
    for (int number = 1; number <= 3; number++) {
        completion = next_of(client);
        assert_int_equal(completion.op, number);
        give_back(completion.hold, HF_OK);
    }
    hf_lock_close(another);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_of_five_round_trips_is_renewed),
        TEST(test_a_timeout_is_kept_far_away),
        TEST(test_a_started_timeout_is_kept_far_away),
        TEST(test_a_timeout_is_kept_when_the_server_is_silent),
        TEST(test_a_started_timeout_is_kept_when_the_server_is_silent),
        TEST(test_a_started_timeout_while_the_client_connects_is_a_timeout),
        TEST(test_a_timeout_before_the_queue_names_the_holder),
        TEST(test_the_first_that_starts_keeps_its_place),
        TEST(test_a_long_wait_that_is_given_up_ends_when_the_server_is_silent),
    };
    return RUN_TESTS(tests, count, words);
}

/* How many connections a client has, and that nothing waits for one for long. */
#include "scenario.h"

enum { THREADS = 50, NAMES = 20 };

static int set_up(void **state) { return begin_scenario(state); }
static int tear_down(void **state) {
    (void)state;
    return 0;
}

/* The server's, without this program's own. */
static int64_t connections(void) {
    return atoll(strstr(STRING("INFO clients"), "connected_clients:") + 18) - 1;
}

/* Three while threads and started acquires come at once, wait and renew; and after a minute without
 * any, one. */
static void test_a_burst_has_three_connections_and_leaves_one(void **state) {
    hf_lock *locks[NAMES];
    waiter *waiters[THREADS];
    int64_t most = 0;
    (void)state;
    hf_client *client = open_client();
    assert_true(hf_client_fd(client) >= 0);
    for (int i = 0; i < NAMES; i++)
        locks[i] = lease_lock(client, text("k%d", i), 3000, HF_ON);
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = waiter_start(locks[i % NAMES], 60000);
        assert_status(hf_lock_acquire_start(locks[i % NAMES], NULL, 0, 60000, NULL, i + 1), HF_OK);
    }
    for (int left = 2 * THREADS; left > 0;) {
        for (int i = 0; i < THREADS; i++)
            if (waiters[i] != NULL && atomic_load(&waiters[i]->done)) {
                waiter_join(waiters[i], HF_OK);
                give_back(waiters[i]->hold, HF_OK);
                waiters[i] = NULL;
                left--;
            }
        for (hf_completion done; (done = completion_within(client, 0)).kind != HF_KIND_NONE;) {
            assert_status(done.status, HF_OK);
            give_back(done.hold, HF_OK);
            left--;
        }
        if (connections() > most)
            most = connections();
        sleep_ms(1);
    }
    assert_int_equal(most, 3);
    sleep_ms(50000);
    assert_int_equal(connections(), 3);
    sleep_ms(14000); /* the subscription is looked at every three seconds */
    assert_int_equal(connections(), 1);
    for (int i = 0; i < NAMES; i++) {
        give_back(held(locks[i]), HF_OK);
        hf_lock_close(locks[i]);
    }
    assert_int_equal(connections(), 1);
    hf_client_close(client);
}

/* One more while acquires ask for replicas, which block it. */
static void test_acquires_that_wait_for_replicas_have_one_more(void **state) {
    enum { EACH = 20, WAIT_MS = 500 };
    hf_lock *plain[EACH], *careful[EACH], *late_lock;
    waiter *waiters[2 * EACH];
    hf_lock_options options = {
        .size = sizeof options, .replicas = 1, .replica_timeout_ms = WAIT_MS};
    (void)state;
    hf_client *client = open_client();
    for (int i = 0; i < EACH; i++) {
        plain[i] = lease_lock(client, text("p%d", i), 60000, HF_OFF);
        careful[i] = open_lock(client, text("c%d", i), NULL, &options);
    }
    int64_t since = now_ms();
    for (int i = 0; i < EACH; i++) {
        waiters[i] = waiter_start(careful[i], 0);
        waiters[EACH + i] = waiter_start(plain[i], 0);
    }
    sleep_ms(100);
    late_lock = open_lock(client, "late", NULL, &options);
    waiter *late = waiter_start(late_lock, 0);
    for (int i = 0; i < EACH; i++) {
        waiter_join(waiters[EACH + i], HF_OK);
        assert_in_range(waiters[EACH + i]->done_at - since, 0, 100);
        give_back(waiters[EACH + i]->hold, HF_OK);
    }
    assert_in_range(connections(), 3, 4);
    for (int i = 0; i < EACH; i++) { /* there is none; all know it when the time is over */
        waiter_join(waiters[i], HF_EREPLICAS);
        assert_in_range(waiters[i]->done_at - since, WAIT_MS, WAIT_MS + 300);
        hf_lock_close(plain[i]);
        hf_lock_close(careful[i]);
    }
    waiter_join(late, HF_EREPLICAS);
    assert_in_range(late->done_at - since, 100 + WAIT_MS, 100 + WAIT_MS + 300);
    hf_lock_close(late_lock);
    hf_client_close(client);
}

static void hang_up(int fd) {
    (void)fd;
    sleep_ms(200);
}

/* Those that wait for a connection that another call opens hear why there is none. */
static void test_all_are_told_why_no_connection_was_opened(void **state) {
    hf_lock *locks[NAMES];
    waiter *waiters[NAMES];
    (void)state;
    hf_client_options lazy = {.size = sizeof lazy, .lazy = HF_ON, .connect_timeout_ms = 1000};
    hf_client *client;
    fake server;
    fake_start(&server, hang_up);
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", server.port), &lazy, &client), HF_OK);
    for (int i = 0; i < NAMES; i++)
        locks[i] = lease_lock(client, text("k%d", i), 3000, HF_OFF);
    for (int i = 0; i < NAMES; i++)
        waiters[i] = waiter_start(locks[i], 0);
    for (int i = 0; i < NAMES; i++) {
        waiter_join(waiters[i], HF_ECONNECT);
        if (strstr(waiters[i]->why, "cannot log in") == NULL)
            fail_msg("a call is told: %s", waiters[i]->why);
        hf_lock_close(locks[i]);
    }
    hf_client_close(client);
    fake_stop(&server);
}

/* The calls wait for two dead connections; the keeper has one of its own then. */
static void test_a_renewal_does_not_wait_for_calls(void **state) {
    hf_lock *locks[2];
    waiter *waiters[2];
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 2000, 2000);
    hf_lock *lock = lease_lock(client, "k", 900, HF_ON);
    hf_hold *hold = held(lock);
    atomic_store(&way->again, 1);
    proxy_next(way, GO_DEAD, "lost");
    for (int i = 0; i < 2; i++) {
        locks[i] = lease_lock(client, text("lost%d", i), 60000, HF_OFF);
        waiters[i] = waiter_start(locks[i], 20000);
    }
    assert_soon(atomic_load(&way->mishaps) == 2);
    sleep_ms(1800);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    for (int i = 0; i < 2; i++) {
        waiter_join(waiters[i], HF_OK);
        give_back(waiters[i]->hold, HF_OK);
        hf_lock_close(locks[i]);
    }
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
    proxy_stop(way);
}

/* A way that has died has mostly killed all connections: the next try is on a new one. */
static void test_one_silent_connection_is_enough_to_try_a_new_one(void **state) {
    hf_lock *locks[2];
    waiter *waiters[2];
    (void)state;
    hf_client *client = open_with(text("redis://%s:6379", sim_address(SERVER)), 2000, 2000);
    warm_up(client);
    for (int i = 0; i < 2; i++) { /* at once, so that two connections are there */
        locks[i] = lease_lock(client, text("k%d", i), 60000, HF_OFF);
        waiters[i] = waiter_start(locks[i], 20000);
    }
    for (int i = 0; i < 2; i++) {
        waiter_join(waiters[i], HF_OK);
        give_back(waiters[i]->hold, HF_OK);
    }
    assert_true(connections() >= 2);
    sim_deaden(HERE, SERVER, 1);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire_start(locks[0], NULL, 0, 20000, NULL, 1), HF_OK);
    hf_completion done = completion_within(client, 20000);
    assert_status(done.status, HF_OK);
    assert_in_range(now_ms() - since, 2000, 3000);
    give_back(done.hold, HF_OK);
    for (int i = 0; i < 2; i++)
        hf_lock_close(locks[i]);
    hf_client_close(client);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_burst_has_three_connections_and_leaves_one),
        TEST(test_acquires_that_wait_for_replicas_have_one_more),
        TEST(test_all_are_told_why_no_connection_was_opened),
        TEST(test_a_renewal_does_not_wait_for_calls),
        TEST(test_one_silent_connection_is_enough_to_try_a_new_one),
    };
    return RUN_TESTS(tests, count, words);
}

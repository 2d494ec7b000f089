/* Trouble is reported early: once when renewals begin to fail, before a hold is lost, and once when
 * they work again. */
#include "scenario.h"

enum { LEASE = 9000, HOLDS = 3 };

static hf_client *client;
static hf_lock *locks[HOLDS];
static hf_hold *holds[HOLDS];

static hf_client *open_telling(const char *url) {
    hf_client_options options = {.size = sizeof options,
                                 .trouble = HF_ON,
                                 .connect_timeout_ms = 1000,
                                 .command_timeout_ms = 1000};
    hf_client *opened;
    assert_status(hf_client_open(url, &options, &opened), HF_OK);
    assert_true(hf_client_fd(opened) >= 0);
    return opened;
}

static int set_up(void **state) {
    int result = begin_scenario(state);
    client = open_telling(text("redis://10.0.0.%d:6379", SERVER));
    for (int i = 0; i < HOLDS; i++) {
        locks[i] = lease_lock(client, text("k%d", i), LEASE, HF_ON);
        holds[i] = held(locks[i]);
    }
    return result;
}

static int tear_down(void **state) {
    (void)state;
    servers_refuse(0, 0, NULL, 0);
    for (int i = 0; i < HOLDS; i++) {
        hf_hold_close(holds[i]);
        hf_lock_close(locks[i]);
    }
    hf_client_close(client);
    return 0;
}

static void assert_begins(hf_status status, int64_t count) {
    hf_completion told = next_of(client);
    assert_int_equal(told.kind, HF_KIND_TROUBLE);
    assert_status(told.status, status);
    assert_int_equal(told.holds, count);
    /* a renewal is sent after a sixth to a third of the lease, and its answer may take a second */
    assert_in_range(told.left_ms, LEASE / 3, LEASE * 5 / 6);
    assert_non_null(strstr(told.error.message,
                           text("cannot renew %d holds, the first of which ends in %.1f s: ",
                                (int)count, (double)told.left_ms / 1000)));
    for (int i = 0; i < HOLDS; i++)
        assert_int_equal(hf_hold_state(holds[i]), HF_STATE_HELD);
}

static void assert_ends(void) {
    hf_completion told = next_of(client);
    assert_int_equal(told.kind, HF_KIND_TROUBLE);
    assert_status(told.status, HF_OK);
    assert_non_null(strstr(told.error.message, "holds are renewed again, after "));
}

static void assert_quiet(int64_t ms) {
    assert_int_equal(completion_within(client, ms).kind, HF_KIND_NONE);
}

/* The server hangs up, and accepts no client. */
static void test_a_server_that_is_gone_for_a_while(void **state) {
    (void)state;
    assert_quiet(LEASE);
    sim_way(HERE, SERVER, false);
    sim_cut(HERE, SERVER, 1);
    assert_begins(HF_ECONNECT, HOLDS);
    assert_quiet(1000); /* however many tries fail */
    sim_way(HERE, SERVER, true);
    assert_ends();
    assert_quiet(3 * LEASE);
    for (int i = 0; i < HOLDS; i++)
        assert_status(hf_hold_check(holds[i]), HF_OK);
}

/* The server does not answer. */
static void test_a_server_that_is_silent(void **state) {
    (void)state;
    sim_server_pause(servers_at(0), true);
    assert_begins(HF_ECONNECT, HOLDS);
    sim_server_pause(servers_at(0), false);
    assert_ends();
    assert_quiet(2 * LEASE);
}

/* H262: the connection breaks, and the process has no thread to open another. */
static void test_a_process_without_a_thread_to_connect(void **state) {
    (void)state;
    sim_may_grow(sim_self(), false);
    sim_cut(HERE, SERVER, 1);
    assert_begins(HF_ENOMEM, HOLDS);
    assert_quiet(1000);
    sim_may_grow(sim_self(), true);
    assert_ends();
    assert_quiet(2 * LEASE);
}

/* All holds are lost: the next trouble is reported again. */
static void test_what_is_lost_is_at_risk_no_more(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        sim_way(HERE, SERVER, false);
        sim_cut(HERE, SERVER, 1);
        assert_begins(HF_ECONNECT, HOLDS);
        for (int i = 0; i < HOLDS; i++)
            assert_int_equal(next_of(client).kind, HF_KIND_LOSS);
        sim_way(HERE, SERVER, true);
        for (int i = 0; i < HOLDS; i++) {
            hf_hold_close(holds[i]);
            assert_status(hf_lock_acquire(locks[i], 60000, &holds[i]), HF_OK);
        }
    }
    assert_ends(); /* at the first renewal of a hold acquired since */
    assert_quiet(2 * LEASE);
}

/* A release of the holds at risk ends the trouble for the client; the end is reported when the
 * server answers. */
static void test_what_is_released_is_at_risk_no_more(void **state) {
    int ends = 0;
    (void)state;
    sim_way(HERE, SERVER, false);
    sim_cut(HERE, SERVER, 1);
    assert_begins(HF_ECONNECT, HOLDS);
    for (int i = 0; i < HOLDS; i++)
        assert_status(hf_hold_release_start(holds[i], i + 1), HF_OK);
    sim_way(HERE, SERVER, true);
    for (int i = 0; i < HOLDS; i++) {
        hf_hold_close(holds[i]);
        assert_status(hf_lock_acquire(locks[i], 60000, &holds[i]), HF_OK);
    }
    for (hf_completion told; (told = completion_within(client, 3 * LEASE)).kind != HF_KIND_NONE;)
        if (told.kind != HF_KIND_RELEASE) {
            assert_int_equal(told.kind, HF_KIND_TROUBLE);
            assert_status(told.status, HF_OK);
            ends++;
        }
    assert_int_equal(ends, 1);
}

/* Only the hold that may not be renewed is at risk. */
static void test_a_renewal_that_is_refused(void **state) {
    (void)state;
    TELL("DEL k1");
    TELL("ACL SETUSER default resetkeys ~k0* ~k2*");
    hf_completion told = next_of(client);
    assert_int_equal(told.kind, HF_KIND_TROUBLE);
    assert_status(told.status, HF_ESERVER);
    assert_int_equal(told.holds, 1);
    TELL("ACL SETUSER default ~*");
    assert_int_equal(next_of(client).kind, HF_KIND_LOSS);
}

/* The server answers each renewal, and renews nothing. */
static void test_a_server_that_cannot_write(void **state) {
    (void)state;
    servers_refuse(0, SIM_WRITES, "MISCONF it cannot write", -1);
    assert_begins(HF_ESERVER, HOLDS);
    assert_quiet(1000);
    servers_refuse(0, SIM_WRITES, NULL, 0);
    assert_ends();
    assert_quiet(2 * LEASE);
}

/* A client that did not ask for trouble gets no report. */
static void test_who_has_not_asked_hears_nothing(void **state) {
    (void)state;
    hf_client *other = open_with(text("redis://10.0.0.%d:6379", SERVER), 1000, 1000);
    assert_true(hf_client_fd(other) >= 0);
    hf_lock *lock = lease_lock(other, "other", LEASE, HF_ON);
    hf_hold *hold = held(lock);
    sim_way(HERE, SERVER, false);
    sim_cut(HERE, SERVER, 1);
    assert_begins(HF_ECONNECT, HOLDS);
    assert_int_equal(completion_within(other, 20000).kind, HF_KIND_LOSS);
    sim_way(HERE, SERVER, true);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(other);
}

/* While a renewal has no answer, the lease is replaced by one without an end. */
static void test_what_has_no_end_any_more_is_not_at_risk(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *own = open_telling(url_of(way));
    hf_lock *lock = lease_lock(own, "k", LEASE, HF_ON);
    hf_hold *hold = held(lock);
    assert_status(hf_hold_renew(hold), HF_OK); /* the server knows the script now */
    proxy_next(way, HOLD_REPLY, hf_script_renew.sha1);
    assert_soon(atomic_load(&way->mishaps) == 1);
    assert_status(hf_hold_extend(hold, HF_NEVER, HF_EXTEND_REPLACE), HF_OK);
    assert_int_equal(completion_within(own, 3 * LEASE).kind, HF_KIND_NONE);
    atomic_store(&way->holds_reply, false);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(own);
    proxy_stop(way);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_server_that_is_gone_for_a_while),
        TEST(test_a_server_that_is_silent),
        TEST(test_a_process_without_a_thread_to_connect),
        TEST(test_what_is_lost_is_at_risk_no_more),
        TEST(test_what_is_released_is_at_risk_no_more),
        TEST(test_a_renewal_that_is_refused),
        TEST(test_a_server_that_cannot_write),
        TEST(test_who_has_not_asked_hears_nothing),
        TEST(test_what_has_no_end_any_more_is_not_at_risk),
    };
    return RUN_TESTS(tests, count, words);
}

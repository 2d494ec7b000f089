/* A server whose memory is full: one that evicts, and one that refuses. */
#include "../server.h"

#include <pthread.h>
#include <stdatomic.h>

static int afresh(void **state) {
    (void)state;
    start_afresh();
    TELL("CONFIG SET maxmemory-policy noeviction");
    return 0;
}

static int restore(void **state) {
    (void)state;
    TELL("CONFIG SET maxmemory 0");
    TELL("CONFIG SET maxmemory-policy noeviction");
    return 0;
}

/* ---------------------------------------------------------------- Evicting */

static void test_a_policy_that_evicts_is_warned_of(void **state) { /* C9 */
    static const char *const policies[] = {"allkeys-lru",  "allkeys-random", "volatile-lru",
                                           "volatile-ttl", "volatile-lfu",   "volatile-random"};
    (void)state;
    TELL("CONFIG SET maxmemory 1gb");
    for (size_t i = 0; i < COUNT(policies); i++) {
        TELL("CONFIG SET maxmemory-policy %s", policies[i]);
        hf_client *client = open_client();
        const char *warning = hf_client_warning(client);
        assert_non_null(strstr(warning, text("maxmemory-policy %s", policies[i])));
        assert_non_null(strstr(warning, "noeviction"));
        assert_non_null(strstr(warning, unix_url()));
        hf_client_close(client);
    }
}

static void test_where_nothing_is_evicted_nothing_is_warned_of(void **state) {
    (void)state;
    hf_client *client = open_client();
    assert_string_equal(hf_client_warning(client), "");
    hf_client_close(client);
    TELL("CONFIG SET maxmemory-policy allkeys-lru"); /* without a limit it evicts nothing */
    client = open_client();
    assert_string_equal(hf_client_warning(client), "");
    hf_client_close(client);
    TELL("CONFIG SET maxmemory-policy noeviction");
    TELL("CONFIG SET maxmemory 1gb");
    client = open_client();
    assert_string_equal(hf_client_warning(client), "");
    hf_client_close(client);
    assert_string_equal(hf_client_warning(NULL), "");
}

static void test_who_may_not_ask_for_the_policy_is_served(void **state) {
    (void)state;
    TELL("CONFIG SET maxmemory 1gb");
    TELL("CONFIG SET maxmemory-policy allkeys-lru");
    TELL("ACL SETUSER ann reset on nopass ~* &* +@all -info");
    hf_client *client;
    const char *path = unix_url() + strlen("unix://");
    assert_status(hf_client_open(text("unix://ann:x@%s", path), NULL, &client), HF_OK);
    assert_string_equal(hf_client_warning(client), "");
    hf_lock *lock = exclusive_lock(client, "stock", 10000);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_status(hf_lock_release(lock), HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER ann");
}

static void test_who_holds_what_was_evicted_is_told_and_the_next_fence_is_greater(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_lock *lock = exclusive_lock(client, "stock", 60000);
    hf_hold *hold, *next;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    int64_t fence = hf_hold_fence(hold);
    TELL("CONFIG SET maxmemory-policy volatile-ttl");
    TELL("CONFIG SET maxmemory 1");
    ask("SET more x"); /* makes the server evict, and is refused nevertheless */
    assert_int_equal(NUMBER("EXISTS stock"), 0);
    TELL("CONFIG SET maxmemory 0");
    assert_status(hf_hold_check(hold), HF_ELOST); /* not by a renewal: the machine may pause */
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_GONE);
    assert_status(hf_lock_acquire(lock, 0, &next), HF_OK);
    assert_true(hf_hold_fence(next) > fence);
    assert_status(hf_hold_release(next), HF_OK);
    hf_hold_close(hold);
    hf_hold_close(next);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* ---------------------------------------------------------------- Refusing */

static atomic_int turns, full, failures;
static atomic_bool done;

/* The machine may pause for longer than any answer takes: no request is given up. */
static hf_client *open_patient_client(void) {
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = 60000, .command_timeout_ms = 60000};
    hf_client *client;
    assert_status(hf_client_open(unix_url(), &options, &client), HF_OK);
    return client;
}

/* Take turns; a thread that is told that the memory is full tries again. */
static void *take_turns(void *argument) {
    hf_lock *lock = argument;
    while (!done) {
        hf_hold *hold;
        int64_t asked = now_ms();
        hf_status status = hf_lock_acquire(lock, 60000, &hold);
        if (status == HF_OK) {
            sleep_ms(1);
            status = hf_hold_release(hold);
            hf_hold_close(hold);
            turns++;
            if (status == HF_ELOST && now_ms() - asked >= 2900)
                continue; /* this thread stood still for as long as a grant lasts */
        } else if (status == HF_ESERVER && strstr(hf_error_message(), "OOM ") != NULL) {
            full++;
            sleep_ms(5);
            continue;
        }
        if (status != HF_OK) {
            print_error("%s: %s\n", hf_status_name(status), hf_error_message());
            failures++;
        }
    }
    return NULL;
}

/* Wait until the server extends a lease: the time that is left grows. */
static void see_renewal(int i) {
    long long left, before = NUMBER("PTTL held_%d", i);
    while ((left = NUMBER("PTTL held_%d", i)) <= before) {
        assert_true(left > 0);
        before = left;
        sleep_ms(5);
    }
}

static void test_without_memory_holders_release_and_waiters_recover(void **state) { /* H6 */
    (void)state;
    hf_client *clients[2] = {open_patient_client(), open_patient_client()};
    hf_lock *locks[8];
    pthread_t threads[8];
    hf_hold *held[4];
    hf_lock *mine[4];
    turns = full = failures = 0;
    done = false;
    for (int i = 0; i < 4; i++) {
        mine[i] = exclusive_lock(clients[0], text("held_%d", i), 30000);
        assert_status(hf_lock_acquire(mine[i], 0, &held[i]), HF_OK);
    }
    for (int i = 0; i < 8; i++) {
        locks[i] = exclusive_lock(clients[i % 2], "stock", 60000);
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, locks[i]), 0);
    }
    assert_soon(turns > 50);
    TELL("CONFIG SET maxmemory 1");
    assert_soon(full > 50);
    /* The waiter has had its turn: a release hands the lock on. */
    assert_int_equal(NUMBER("ZCOUNT {stock}stock:hf1:q 0 9007199254740992"), 0);
    int before = turns;
    for (int i = 0; i < 4; i++)
        see_renewal(i);
    assert_int_equal(turns, before);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hf_hold_state(held[i]), HF_STATE_HELD);
        assert_status(hf_hold_release(held[i]), HF_OK);
        assert_int_equal(NUMBER("EXISTS %s", text("held_%d", i)), 0);
    }
    TELL("CONFIG SET maxmemory 0");
    assert_soon(turns > before + 50);
    done = true;
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        hf_lock_close(locks[i]);
    }
    for (int i = 0; i < 4; i++) {
        if (i >= 2)
            assert_status(hf_hold_release(held[i]), HF_OK);
        hf_hold_close(held[i]);
        hf_lock_close(mine[i]);
    }
    assert_int_equal(failures, 0);
    for (int i = 0; i < 2; i++)
        hf_client_close(clients[i]);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, afresh, restore)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_policy_that_evicts_is_warned_of),
        TEST(test_where_nothing_is_evicted_nothing_is_warned_of),
        TEST(test_who_may_not_ask_for_the_policy_is_served),
        TEST(test_who_holds_what_was_evicted_is_told_and_the_next_fence_is_greater),
        TEST(test_without_memory_holders_release_and_waiters_recover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

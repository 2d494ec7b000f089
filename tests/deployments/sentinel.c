/* Three sentinels, a master and two replicas: the master may change. */
#include "sentinels.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---------------------------------------------------------------- Tests */

static hf_client *client;
static atomic_long turns[4], failures;
static atomic_bool done;

static void *take_turns(void *number_of) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 2000, .renew = HF_ON};
    hf_lock *lock;
    hf_hold *hold;
    hf_lock_open(client, "stock", 5, NULL, 0, &options, &lock);
    while (!done) {
        hf_status status = hf_lock_acquire(lock, 20000, &hold);
        if (status == HF_OK) {
            turns[(intptr_t)number_of]++;
            sleep_ms(2);
            status = hf_hold_release(hold);
            hf_hold_close(hold);
        }
        /* A hold under way at the failover may be lost or unknown; nothing else may fail. */
        if (status != HF_OK && status != HF_ELOST && status != HF_EUNKNOWN) {
            print_error("%s: %s\n", hf_status_name(status), hf_error_message());
            failures++;
        }
    }
    hf_lock_close(lock);
    return NULL;
}

static long all_turns(void) { return turns[0] + turns[1] + turns[2] + turns[3]; }

static void test_waits_go_on_over_a_failover(void **state) {
    (void)state;
    pthread_t threads[4];
    long long old = master_port(), new = old;
    assert_status(hf_client_open(url, NULL, &client), HF_OK);
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, (void *)i), 0);
    assert_soon(all_turns() > 100);
    for (int i = 0; i < NODES; i++)
        if (nodes[i] == old)
            stop_server(&node_pids[i]);
    int64_t until = now_ms() + 20000;
    while ((new = master_port()) == old || !role_is((int)new, "master")) {
        assert_true(now_ms() < until);
        sleep_ms(5);
    }
    /* The new master is named: all go on within two seconds. */
    int64_t named = now_ms();
    long before[4];
    for (int i = 0; i < 4; i++)
        before[i] = turns[i];
    for (int i = 0; i < 4; i++)
        assert_soon(turns[i] > before[i]);
    int64_t took = now_ms() - named;
    done = true;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(took, 0, 2000);
    assert_int_equal(failures, 0);
    hf_client_close(client);
}

static void test_a_demoted_master_is_left(void **state) {
    (void)state;
    hf_lock *lock;
    hf_hold *hold;
    long long old = master_port();
    /* Bring back the one that the test before ended, as a replica. */
    for (int i = 0; i < NODES; i++)
        if (node_pids[i] == 0)
            start_node(i, (int)old);
    assert_status(hf_client_open(url, NULL, &client), HF_OK);
    assert_status(hf_lock_open(client, "demoted", 7, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_release(hold), HF_OK);
    int64_t fence = hf_hold_fence(hold);
    hf_hold_close(hold);
    assert_soon(field(sentinels[0], "num-slaves") == NODES - 1);
    fail_over(0);
    assert_soon(master_port() != old);
    /* READONLY, or a connection that was closed: the new master is found. */
    assert_status(hf_lock_acquire(lock, 10000, &hold), HF_OK);
    assert_true(hf_hold_fence(hold) > fence);
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_one_sentinel_that_answers_is_enough(void **state) {
    (void)state;
    int64_t before = now_ms();
    kill(sentinel_pids[0], SIGSTOP);
    hf_status status = hf_client_open(url, NULL, &client);
    kill(sentinel_pids[0], SIGCONT);
    assert_status(status, HF_OK);
    assert_in_range(now_ms() - before, 0, 2000);
    hf_client_close(client);
}

/* As for a while after a failover: the server that a sentinel names is a replica. */
static void test_a_replica_that_is_named_is_not_taken_for_the_master(void **state) {
    (void)state;
    int port = free_port();
    const char *file = text("%s/stale.conf", folder);
    FILE *conf = fopen(file, "w");
    fprintf(conf, "port %d\nsentinel monitor stale 127.0.0.1 %d 1\n", port,
            nodes[0] == master_port() ? nodes[1] : nodes[0]);
    fclose(conf);
    pid_t stale = START(file, "--sentinel");
    assert_soon(answers(port));
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = 500, .command_timeout_ms = 500};
    hf_status status =
        hf_client_open(text("redis+sentinel://127.0.0.1:%d/stale", port), &options, &client);
    stop_server(&stale);
    assert_status(status, HF_ECONNECT);
    assert_message("is not a master now");
}

static void test_what_the_sentinels_do_not_know_is_said(void **state) {
    (void)state;
    assert_status(
        hf_client_open(text("redis+sentinel://127.0.0.1:%d/yours", sentinels[0]), NULL, &client),
        HF_ECONNECT);
    assert_message("knows no master yours");
    assert_status(
        hf_client_open(text("redis+sentinel://127.0.0.1:%d/mine", free_port()), NULL, &client),
        HF_ECONNECT);
    assert_message("refused");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_the_sentinels_do_not_know_is_said, afresh),
        cmocka_unit_test_setup(test_a_replica_that_is_named_is_not_taken_for_the_master, afresh),
        cmocka_unit_test_setup(test_one_sentinel_that_answers_is_enough, afresh),
        cmocka_unit_test_setup(test_waits_go_on_over_a_failover, afresh),
        cmocka_unit_test_setup(test_a_demoted_master_is_left, afresh),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

/* A master that becomes a replica at once, while its connections stay: it answers, but no longer
 * writes. The sentinel names the new master. */
#include "servers.h"

#include <pthread.h>

enum { NODES = 2, GRANT_MS = 3000 };
static int nodes[NODES], master, sentinel; /* ports; master: an index of nodes */
static pid_t node_pids[NODES], sentinel_pid;
static hf_client *client, *other;

static bool in_step(void) {
    redisReply *reply = tell(nodes[master], "INFO replication");
    return reply != NULL && strstr(reply->str, "state=online") != NULL;
}

static void name_master(void) {
    tell(sentinel, "SENTINEL REMOVE mine");
    redisReply *reply = tell(sentinel, text("SENTINEL MONITOR mine 127.0.0.1 %d 1", nodes[master]));
    assert_string_equal(good(reply)->str, "OK");
}

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(60);
    for (int i = 0; i < NODES; i++) {
        nodes[i] = free_port();
        node_pids[i] = START("--port", number(nodes[i]), "--save", "", "--dir", folder,
                             "--repl-diskless-sync-delay", "0");
        assert_soon(answers(nodes[i]));
    }
    tell(nodes[1], text("REPLICAOF 127.0.0.1 %d", nodes[0]));
    sentinel = free_port();
    const char *file = text("%s/sentinel.conf", folder);
    FILE *conf = fopen(file, "w");
    fprintf(conf, "port %d\n", sentinel);
    fclose(conf);
    sentinel_pid = START(file, "--sentinel");
    assert_soon(answers(sentinel));
    name_master();
    return 0;
}

static int stop_all(void **state) {
    stop_server(&sentinel_pid);
    for (int i = 0; i < NODES; i++)
        stop_server(&node_pids[i]);
    return remove_folder(state);
}

static int set_up(void **state) {
    const char *url = text("redis+sentinel://127.0.0.1:%d/mine", sentinel);
    (void)state;
    alarm(60);
    assert_soon(in_step());
    tell(nodes[master], "FLUSHALL");
    client = open_at(url);
    other = open_at(url);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(client);
    hf_client_close(other);
    return 0;
}

static bool replicated(const hf_hold *hold) {
    return read_stored(tell(nodes[1 - master], "HGETALL stock")).fence == hf_hold_fence(hold);
}

/* Let the replica, which has the hold, take over. */
static void demote(const hf_hold *hold) {
    assert_soon(replicated(hold));
    master = 1 - master;
    tell(nodes[master], "REPLICAOF NO ONE");
    name_master();
    tell(nodes[1 - master], text("REPLICAOF 127.0.0.1 %d", nodes[master]));
}

static int64_t left_there(void) { return tell(nodes[master], "PTTL stock")->integer; }

/* Wait until the hold has been renewed at the new master, to more than `more_than` ms. */
static void assert_renewed_there(const hf_hold *hold, int64_t more_than) {
    int64_t last, left = left_there();
    do {
        if (hf_hold_state(hold) != HF_STATE_HELD)
            fail_msg("lost, with %lld ms left at the new master", (long long)left);
        last = left;
        sleep_ms(5);
        left = left_there(); /* alarm() ends the wait */
    } while (left < last || left <= more_than);
    int64_t remaining = hf_hold_remaining_ms(hold), later = left_there();
    assert_in_range(remaining, 1, (left > later ? left : later) + 10);
}

static void release(hf_hold *hold) {
    give_back(hold, HF_OK);
    assert_true(left_there() == -2);
}

/* ------------------------------------------------------------------- Tests */

static void renew_over_a_demotion(bool cut) {
    hf_hold *hold;
    hf_lock *lock = lease_lock(client, "stock", 6000, HF_ON);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_soon(renewals(client) > 0);
    demote(hold);
    if (cut)
        tell(nodes[1 - master], "CLIENT KILL TYPE normal");
    assert_renewed_there(hold, 0);
    assert_renewed_there(hold, 0);
    release(hold);
    hf_lock_close(lock);
}

static void test_a_renewal_leaves_a_demoted_master(void **state) {
    (void)state;
    renew_over_a_demotion(false);
}

static void test_a_renewal_that_finds_its_connection_cut_leaves_it_too(void **state) {
    (void)state;
    renew_over_a_demotion(true);
}

static void *wait_for_it(void *lock) {
    hf_hold *hold = NULL;
    if (hf_lock_acquire(lock, 30000, &hold) != HF_OK)
        return NULL;
    return hold;
}

static void test_a_claim_leaves_a_demoted_master(void **state) {
    hf_hold *theirs;
    void *hold;
    pthread_t thread;
    (void)state;
    hf_lock *lock = lease_lock(client, "stock", 60000, HF_OFF),
            *taken = lease_lock(other, "stock", 60000, HF_OFF);
    assert_status(hf_lock_acquire(taken, 0, &theirs), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, lock), 0);
    assert_soon(tell(nodes[master], "ZCOUNT {stock}stock:hf1:q 0 9007199254740992")->integer == 1);
    assert_status(hf_hold_release(theirs), HF_OK);
    hf_hold_close(theirs);
    pthread_join(thread, &hold);
    assert_non_null(hold);
    demote(hold);
    assert_renewed_there(hold, GRANT_MS);
    release(hold);
    hf_lock_close(lock);
    hf_lock_close(taken);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_renewal_leaves_a_demoted_master, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_renewal_that_finds_its_connection_cut_leaves_it_too,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_claim_leaves_a_demoted_master, set_up, tear_down),
    };
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

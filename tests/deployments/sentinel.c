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
    client = open_at(url);
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, (void *)i), 0);
    assert_soon(all_turns() > 100);
    for (int i = 0; i < NODES; i++)
        if (nodes[i] == old)
            stop_server(&node_pids[i]);
    set_down_after(500);
    int64_t until = now_ms() + 30000;
    while ((new = master_port()) == old || !role_is((int)new, "master")) {
        assert_true(now_ms() < until);
        sleep_ms(5);
    }
    set_down_after(15000);
    /* All takers go on after the new master is named. */
    long before[4];
    for (int i = 0; i < 4; i++)
        before[i] = turns[i];
    for (int i = 0; i < 4; i++)
        assert_soon(turns[i] > before[i]);
    done = true;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    hf_client_close(client);
}

static void test_a_demoted_master_is_left(void **state) {
    (void)state;
    hf_lock *lock;
    hf_hold *hold;
    long long old = master_port();
    /* Restart the server that the previous test ended, as a replica. */
    for (int i = 0; i < NODES; i++)
        if (node_pids[i] == 0)
            start_node(i, (int)old);
    client = open_at(url);
    assert_status(hf_lock_open(client, "demoted", 7, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_release(hold), HF_OK);
    int64_t fence = hf_hold_fence(hold);
    hf_hold_close(hold);
    assert_soon(field(sentinels[0], "num-slaves") == NODES - 1);
    fail_over(0);
    assert_soon(master_port() != old);
    /* The client gets READONLY or a closed connection, and finds the new master. The old one may
     * answer once more before the client learns of it; the new one does not know that hold. */
    hf_status released = HF_ELOST;
    for (int i = 0; i < 3 && released == HF_ELOST; i++) {
        assert_status(hf_lock_acquire(lock, 30000, &hold), HF_OK);
        assert_true(hf_hold_fence(hold) > fence);
        released = hf_hold_release(hold);
        hf_hold_close(hold);
    }
    assert_status(released, HF_OK);
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
    assert_in_range(now_ms() - before, 0, 8000);
    hf_client_close(client);
}

/* As for a while after a failover: a sentinel names a replica. */
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
        .size = sizeof options, .connect_timeout_ms = 1000, .command_timeout_ms = 1000};
    hf_status status =
        hf_client_open(text("redis+sentinel://127.0.0.1:%d/stale", port), &options, &client);
    stop_server(&stale);
    assert_status(status, HF_ECONNECT);
    assert_message("is not a master now");
}

/* ------------------------------------------------------ A planned failover */

/* Begin a failover. The old master goes on for about ten seconds, until a sentinel makes it a
 * replica; a client that does not know of the new master is served there until then. */
static void fail_over_from(int64_t old) {
    int64_t until = now_ms() + 30000;
    fail_over(0);
    while (master_port() == old) {
        assert_true(now_ms() < until);
        sleep_ms(5);
    }
}

static void await_replica(int port) {
    int64_t until = now_ms() + 30000;
    while (!role_is(port, "slave")) {
        assert_true(now_ms() < until);
        sleep_ms(20);
    }
}

static bool everywhere(const char *key) {
    for (int i = 0; i < NODES; i++) {
        redisReply *reply = tell(nodes[i], text("EXISTS %s", key));
        if (reply == NULL || reply->integer != 1)
            return false;
    }
    return true;
}

typedef struct rival {
    hf_lock *lock;
    const hf_hold *theirs;
    int64_t overlap_ms; /* how long the other hold was still certain when this one began */
    bool got;
    atomic_bool done;
} rival;

static void *try_often(void *argument) {
    rival *r = argument;
    hf_hold *hold;
    for (; !r->done; sleep_ms(10)) {
        if (hf_lock_acquire(r->lock, 0, &hold) != HF_OK)
            continue;
        int64_t theirs_ms = hf_hold_remaining_ms(r->theirs);
        r->got = true;
        if (theirs_ms > r->overlap_ms)
            r->overlap_ms = theirs_ms;
        hf_hold_release(hold);
        hf_hold_close(hold);
    }
    return NULL;
}

/* Wait until the key there has a later end than before. */
static int64_t await_renewal(int port, const char *key) {
    int64_t since = now_ms(), last = INT64_MAX, ttl;
    while ((ttl = tell(port, text("PTTL %s", key))->integer) <= last && now_ms() < since + 25000) {
        last = ttl;
        sleep_ms(10);
    }
    return now_ms() - since;
}

static void test_a_planned_failover_loses_no_hold_and_lets_no_second_one_in(void **state) {
    (void)state;
    hf_client *other;
    hf_hold *hold;
    pthread_t thread;
    int64_t old = master_port();
    client = open_at(url);
    other = open_at(url);
    hf_lock *lock = lease_lock(client, "planned", 6000, HF_ON);
    rival r = {.lock = lease_lock(other, "planned", 6000, HF_ON)};
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    r.theirs = hold;
    assert_soon(everywhere("planned"));
    assert_int_equal(pthread_create(&thread, NULL, try_often, &r), 0);
    fail_over_from(old);
    int64_t took_ms = await_renewal((int)master_port(), "planned");
    await_replica((int)old);
    sleep_ms(2200); /* longer than from one renewal to the next */
    int state_now = hf_hold_state(hold);
    r.done = true;
    pthread_join(thread, NULL);
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(r.lock);
    hf_client_close(client);
    hf_client_close(other);
    if (r.overlap_ms > 0)
        fail_msg("another held it while this one was certain of %lld ms", (long long)r.overlap_ms);
    assert_false(r.got);
    assert_int_equal(state_now, HF_STATE_HELD);
    assert_in_range(took_ms, 0, 20000); /* within this time it is renewed at the new master */
}

/* The replicas lack the one hold; neither hold is renewed. */
static void test_a_new_master_is_asked_for_holds_that_are_not_renewed(void **state) {
    (void)state;
    int64_t old = master_port();
    client = open_at(url);
    hf_lock *lock = lease_lock(client, "known", 60000, HF_OFF);
    hf_lock *other = lease_lock(client, "unknown", 60000, HF_OFF);
    hf_hold *known = held(lock), *unknown = held(other);
    assert_soon(everywhere("known") && everywhere("unknown"));
    for (int i = 0; i < NODES; i++) {
        tell(nodes[i], "CONFIG SET replica-read-only no");
        if (nodes[i] != old)
            assert_int_equal(tell(nodes[i], "DEL unknown")->integer, 1);
    }
    fail_over_from(old);
    assert_soon(hf_hold_state(unknown) == HF_STATE_LOST);
    assert_int_equal(hf_hold_cause(unknown), HF_CAUSE_GONE);
    for (int i = 0; i < NODES; i++)
        tell(nodes[i], "CONFIG SET replica-read-only yes");
    give_back(known, HF_OK);
    give_back(unknown, HF_ELOST);
    hf_lock_close(lock);
    hf_lock_close(other);
    hf_client_close(client);
    await_replica((int)old);
}

/* A cursor is valid on the server that gave it: the walk begins again at the new master. */
static void test_a_walk_over_all_locks_goes_on_at_the_new_master(void **state) {
    enum { MANY = 300 };
    hf_locks_options fast = {.size = sizeof fast, .rate = HF_NEVER};
    bool told[MANY] = {false};
    hf_locks *locks;
    hf_view *view;
    size_t length;
    (void)state;
    int64_t old = master_port();
    client = open_at(url);
    for (int i = 0; i < MANY; i++) {
        hf_lock *lock = lease_lock(client, text("walked:%d", i), 60000, HF_ON);
        hf_hold_close(held(lock));
        hf_lock_close(lock);
    }
    assert_soon(everywhere(text("walked:%d", MANY - 1)));
    assert_status(hf_locks_open(client, "walked:*", 8, &fast, &locks), HF_OK);
    for (int count = 0;; count++) {
        assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
        if (view == NULL)
            break;
        const char *name = hf_view_name(view, &length);
        int which = atoi(text("%.*s", (int)length, name) + strlen("walked:"));
        assert_false(told[which]);
        told[which] = true;
        hf_view_close(view);
        if (count == 20)
            fail_over_from(old);
    }
    hf_locks_close(locks);
    for (int i = 0; i < MANY; i++)
        assert_true(told[i]);
    hf_client_close(client);
    await_replica((int)old);
}

/* The newest hold inside the section, while it stands. */
static struct {
    pthread_mutex_t mutex;
    const hf_hold *inside;
    int64_t fence;
    atomic_long entries;
    long overlaps, fences_back;
    atomic_bool done;
} section = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void enter(const hf_hold *hold) {
    pthread_mutex_lock(&section.mutex);
    section.entries++;
    section.overlaps += section.inside != NULL && hf_hold_remaining_ms(section.inside) > 0;
    section.fences_back += hf_hold_fence(hold) <= section.fence;
    if (hf_hold_fence(hold) > section.fence)
        section.fence = hf_hold_fence(hold);
    section.inside = hold;
    pthread_mutex_unlock(&section.mutex);
}

static void leave(const hf_hold *hold) {
    pthread_mutex_lock(&section.mutex);
    if (section.inside == hold)
        section.inside = NULL;
    pthread_mutex_unlock(&section.mutex);
}

static void *come_and_go(void *lock) {
    hf_hold *hold;
    while (!section.done) {
        hf_status status = hf_lock_acquire(lock, 0, &hold);
        if (status == HF_OK) {
            enter(hold);
            sleep_ms(2);
            leave(hold);
            status = hf_hold_release(hold);
            hf_hold_close(hold);
        }
        if (status == HF_EBUSY)
            sleep_ms(1);
        bool may_be =
            status == HF_OK || status == HF_EBUSY || status == HF_ELOST || status == HF_EUNKNOWN;
        if (!may_be) {
            print_error("%s: %s\n", hf_status_name(status), hf_error_message());
            failures++;
        }
    }
    return NULL;
}

static void test_the_threads_of_one_client_never_overlap_in_a_planned_failover(void **state) {
    (void)state;
    pthread_t threads[8];
    int64_t old = master_port();
    failures = 0;
    client = open_at(url);
    hf_lock *lock = lease_lock(client, "busy", 3000, HF_ON);
    for (size_t i = 0; i < COUNT(threads); i++) {
        if (i == 2) /* the others need new connections */
            fail_over_from(old);
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, lock), 0);
    }
    await_replica((int)old);
    long before = section.entries;
    assert_soon(section.entries > before);
    section.done = true;
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    hf_lock_close(lock);
    hf_client_close(client);
    if (section.overlaps > 0 || section.fences_back > 0)
        fail_msg("%ld of %ld overlapped, %ld had an old fence", section.overlaps,
                 (long)section.entries, section.fences_back);
    assert_int_equal(failures, 0);
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

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_the_sentinels_do_not_know_is_said, afresh),
        cmocka_unit_test_setup(test_a_replica_that_is_named_is_not_taken_for_the_master, afresh),
        cmocka_unit_test_setup(test_one_sentinel_that_answers_is_enough, afresh),
        cmocka_unit_test_setup(test_a_planned_failover_loses_no_hold_and_lets_no_second_one_in,
                               afresh),
        cmocka_unit_test_setup(test_a_new_master_is_asked_for_holds_that_are_not_renewed, afresh),
        cmocka_unit_test_setup(test_a_walk_over_all_locks_goes_on_at_the_new_master, afresh),
        cmocka_unit_test_setup(test_the_threads_of_one_client_never_overlap_in_a_planned_failover,
                               afresh),
        cmocka_unit_test_setup(test_waits_go_on_over_a_failover, afresh),
        cmocka_unit_test_setup(test_a_demoted_master_is_left, afresh),
    };
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

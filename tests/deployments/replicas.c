/* A master and two replicas: acquires that wait until replicas have the hold, and acquires that do
 * not. */
#include "../clients.h"
#include "servers.h"

#include <pthread.h>
#include <stdatomic.h>

/* How long a call waits for replicas that answer, and what a pause of the machine may add. */
enum { REPLICAS = 2, PATIENT_MS = 20000, SLACK_MS = 8000 };
static int ports[1 + REPLICAS]; /* the master's is first */
static pid_t pids[1 + REPLICAS];

static bool in_step(void) {
    redisReply *reply = tell(ports[0], "INFO replication");
    int online = 0;
    for (const char *at = reply != NULL ? reply->str : "";
         (at = strstr(at, "state=online")) != NULL; at++)
        online++;
    return online == REPLICAS;
}

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(60);
    for (int i = 0; i <= REPLICAS; i++) {
        ports[i] = free_port();
        pids[i] = i == 0 ? START("--port", number(ports[i]), "--save", "", "--dbfilename", "0")
                         : START("--port", number(ports[i]), "--save", "", "--dbfilename",
                                 number(i), "--replicaof", "127.0.0.1", number(ports[0]),
                                 "--repl-diskless-sync-delay", "0");
        assert_soon(answers(ports[i]));
    }
    assert_soon(in_step());
    return 0;
}

static int stop_all(void **state) {
    for (int i = 0; i <= REPLICAS; i++)
        stop_server(&pids[i]);
    return remove_folder(state);
}

static hf_client *opened(void) { return open_at(text("redis://127.0.0.1:%d", ports[0])); }

static int set_up(void **state) {
    (void)state;
    alarm(60);
    for (int i = 1; i <= REPLICAS; i++)
        kill(pids[i], SIGCONT);
    assert_soon(in_step());
    tell(ports[0], "FLUSHALL");
    ann = opened();
    ben = opened();
    return 0;
}

/* Stop the replica before returning: it no longer reads or answers. */
static void freeze(int replica) {
    int how;
    kill(pids[replica], SIGSTOP);
    assert_int_equal(waitpid(pids[replica], &how, WUNTRACED), pids[replica]);
}

static hf_lock *stock(hf_client *client, int replicas, int64_t timeout_ms) {
    return open_lock(client, "stock", NULL,
                     OPTIONS(.replicas = replicas,
                             .replica_timeout_ms = replicas > 0 ? timeout_ms : 0, .lease_ms = 60000,
                             .renew = HF_OFF, .reentrant = HF_OFF));
}

static long long exists(int port) { return tell(port, "EXISTS stock")->integer; }

static void release(hf_hold *hold) {
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
}

static void assert_free_at_once(void) {
    hf_lock *lock = stock(ben, 0, 0);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    release(hold);
    hf_lock_close(lock);
}

/* ----------------------------------------------------------------- At once */

static void test_who_asks_for_replicas_holds_when_they_have_it(void **state) {
    (void)state;
    for (int replicas = 0; replicas <= REPLICAS; replicas++) {
        hf_lock *lock = stock(ann, replicas, PATIENT_MS);
        hf_hold *hold;
        for (int i = 0; i < 50; i++) {
            assert_status(hf_lock_acquire(lock, 20000, &hold), HF_OK);
            assert_in_range(hf_hold_remaining_ms(hold), 50000, 60000);
            int have = 0;
            if (replicas > 0 && i % 10 == 0) {
                for (int j = 1; j <= REPLICAS; j++)
                    have += (int)exists(ports[j]);
                assert_in_range(have, replicas, REPLICAS);
            }
            release(hold);
        }
        hf_lock_close(lock);
    }
}

static void test_too_few_replicas_are_told_of_and_nothing_is_held(void **state) {
    (void)state;
    hf_stats stats = {.size = sizeof stats};
    hf_lock *lock = stock(ann, REPLICAS + 1, 300);
    hf_hold *hold;
    for (int timeout_ms = 0; timeout_ms <= 1000; timeout_ms += 1000) {
        int64_t before = now_ms();
        assert_status(hf_lock_acquire(lock, timeout_ms, &hold), HF_EREPLICAS);
        assert_null(hold);
        assert_int_equal(hf_error_last()->replicas, REPLICAS);
        assert_message("2 of the 3 replicas");
        assert_in_range(now_ms() - before, 290, SLACK_MS);
        assert_int_equal(exists(ports[0]), 0);
    }
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_EREPLICAS); /* nor left with the client */
    assert_status(hf_lock_release(lock), HF_ENOTHELD);
    assert_free_at_once();
    assert_status(hf_client_stats(ann, &stats), HF_OK);
    assert_int_equal(stats.unreplicated, 3);
    assert_int_equal(stats.acquired + stats.released + stats.held, 0);
    hf_lock_close(lock);
}

static void test_a_busy_lock_is_answered_at_once(void **state) {
    (void)state;
    hf_lock *lock = stock(ann, REPLICAS + 1, PATIENT_MS), *theirs = stock(ben, 0, 0);
    hf_hold *hold, *none;
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    for (int i = 0; i < 10; i++) {
        int64_t before = now_ms();
        assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
        assert_in_range(now_ms() - before, 0, SLACK_MS);
    }
    release(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static long long connections_received(void) {
    const char *at = strstr(tell(ports[0], "INFO stats")->str, "total_connections_received:");
    return atoll(at + strlen("total_connections_received:"));
}

static void test_a_busy_lock_costs_no_connection(void **state) {
    (void)state;
    enum { TRIES = 20 };
    hf_lock *lock = stock(ann, REPLICAS, PATIENT_MS), *theirs = stock(ben, 0, 0);
    hf_hold *hold, *none;
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    long long before = connections_received();
    for (int i = 0; i < TRIES; i++)
        assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
    /* This one, and that of acquires that wait for replicas. */
    assert_in_range(connections_received() - before, 1, 2);
    release(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static void test_a_nested_hold_without_its_replicas_leaves_the_outer_alone(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .replicas = 3, .replica_timeout_ms = 50};
    hf_lock *plain, *picky;
    hf_hold *outer, *inner;
    assert_status(hf_lock_open(ann, "stock", 5, "ann", 3, NULL, &plain), HF_OK);
    assert_status(hf_lock_open(ann, "stock", 5, "ann", 3, &options, &picky), HF_OK);
    assert_status(hf_lock_acquire(plain, 0, &outer), HF_OK);
    assert_status(hf_lock_acquire(picky, 0, &inner), HF_EREPLICAS);
    assert_status(hf_hold_check(outer), HF_OK);
    assert_int_equal(read_stored(tell(ports[0], "HGETALL stock")).holds, 1);
    release(outer);
    hf_lock_close(plain);
    hf_lock_close(picky);
}

/* --------------------------------------------------------------- One frozen */

static void test_with_one_replica_frozen_the_other_is_enough(void **state) {
    (void)state;
    hf_lock *one = stock(ann, 1, PATIENT_MS), *two = stock(ann, 2, 500);
    hf_hold *hold;
    freeze(1);
    int64_t before = now_ms();
    for (int i = 0; i < 20; i++) {
        assert_status(hf_lock_acquire(one, 0, &hold), HF_OK);
        release(hold);
    }
    assert_in_range(now_ms() - before, 0, PATIENT_MS); /* otherwise each takes that long */
    assert_status(hf_lock_acquire(two, 0, &hold), HF_EREPLICAS);
    assert_int_equal(hf_error_last()->replicas, 1);
    assert_free_at_once();
    hf_lock_close(one);
    hf_lock_close(two);
}

static atomic_bool done;

/* Ask for more replicas than there are, on the same client, for another lock. */
static void *ask_in_vain(void *client) {
    hf_lock_options options = {.size = sizeof options, .replicas = 2, .replica_timeout_ms = 300};
    hf_lock *lock;
    hf_lock_open(client, "pens", 4, NULL, 0, &options, &lock);
    while (!done)
        hf_lock_acquire(lock, 0, NULL);
    hf_lock_close(lock);
    return NULL;
}

static void *take_turns(void *lock) {
    for (int i = 0; i < 100; i++) {
        hf_hold *hold;
        if (hf_lock_acquire(lock, 30000, &hold) != HF_OK)
            return NULL;
        hf_hold_release(hold);
        hf_hold_close(hold);
    }
    return lock;
}

static void test_a_frozen_replica_does_not_slow_who_did_not_ask(void **state) {
    (void)state;
    pthread_t vain[2], turns[4];
    hf_lock *mine[] = {stock(ann, 0, 0), stock(ben, 0, 0)};
    hf_lock *other;
    freeze(2);
    done = false;
    assert_status(hf_lock_open(ann, "pens", 4, NULL, 0,
                               &(hf_lock_options){.size = sizeof(hf_lock_options),
                                                  .replicas = 2,
                                                  .replica_timeout_ms = 300},
                               &other),
                  HF_OK);
    for (int i = 0; i < 2; i++)
        pthread_create(&vain[i], NULL, ask_in_vain, i == 0 ? ann : ben);
    assert_status(hf_lock_acquire_start(other, NULL, 0, 0, NULL, 1), HF_OK); /* the keeper's, too */
    assert_status(hf_lock_acquire_start(other, NULL, 0, 2000, NULL, 2), HF_OK);
    int64_t before = now_ms();
    for (int i = 0; i < 4; i++)
        pthread_create(&turns[i], NULL, take_turns, mine[i % 2]);
    for (int i = 0; i < 4; i++) {
        void *all;
        pthread_join(turns[i], &all);
        assert_non_null(all);
    }
    assert_in_range(now_ms() - before, 0, PATIENT_MS); /* 400 rounds; it would be 120 s */
    done = true;
    for (int i = 0; i < 2; i++)
        pthread_join(vain[i], NULL);
    hf_lock_close(other);
    for (int i = 0; i < 2; i++)
        hf_lock_close(mine[i]);
}

/* ------------------------------------------------------------ In the queue */

typedef struct waiting {
    hf_lock *lock;
    hf_hold *hold;
    hf_status status;
    int64_t reached;
    pthread_t thread;
} waiting;

static void *wait_for_it(void *argument) {
    waiting *w = argument;
    w->status = hf_lock_acquire(w->lock, 30000, &w->hold);
    w->reached = hf_error_last()->replicas;
    return NULL;
}

static void start_waiting(waiting *w, hf_lock *lock, long long queued) {
    w->lock = lock;
    pthread_create(&w->thread, NULL, wait_for_it, w);
    assert_soon(tell(ports[0], "ZCOUNT {stock}stock:hf1:q 0 9007199254740992")->integer == queued);
}

static void test_who_was_granted_it_holds_when_the_replicas_have_it(void **state) {
    (void)state;
    hf_lock *theirs = stock(ben, 0, 0), *mine = stock(ann, 2, PATIENT_MS);
    hf_hold *hold;
    waiting w;
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    start_waiting(&w, mine, 1);
    release(hold);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, HF_OK);
    for (int i = 1; i <= REPLICAS; i++) {
        /* The replica has the claim, and with it the grant before it. */
        assert_int_equal(exists(ports[i]), 1);
        assert_false(has_mark(tell(ports[i], "GET {stock}stock:hf1:f")->str));
    }
    assert_in_range(hf_hold_remaining_ms(w.hold), 50000, 60000); /* already claimed */
    release(w.hold);
    hf_lock_close(theirs);
    hf_lock_close(mine);
}

static void test_who_was_granted_it_without_the_replicas_hands_it_on(void **state) {
    (void)state;
    hf_lock *theirs = stock(ben, 0, 0), *mine = stock(ann, 2, 300);
    hf_hold *hold;
    waiting first, second;
    freeze(1);
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    start_waiting(&first, mine, 1);
    start_waiting(&second, theirs, 2);
    int64_t before = now_ms();
    release(hold);
    pthread_join(first.thread, NULL);
    assert_int_equal(first.status, HF_EREPLICAS);
    assert_int_equal(first.reached, 1);
    pthread_join(second.thread, NULL);
    assert_int_equal(second.status, HF_OK);
    assert_in_range(now_ms() - before, 290, 2500); /* earlier than at a re-check */
    release(second.hold);
    hf_lock_close(theirs);
    hf_lock_close(mine);
}

/* ---------------------------------------------------------------- Started */

static hf_completion next(void) {
    hf_completion c = {.size = sizeof c};
    assert_soon(hf_client_next(ann, &c) == HF_OK && c.kind != HF_KIND_NONE);
    return c;
}

static void test_a_started_acquire_ends_when_the_replicas_have_it(void **state) {
    (void)state;
    hf_lock *mine = stock(ann, 2, PATIENT_MS), *theirs = stock(ben, 0, 0);
    hf_hold *hold;
    for (int timeout_ms = 0; timeout_ms <= 5000; timeout_ms += 5000) {
        assert_status(hf_lock_acquire_start(mine, NULL, 0, timeout_ms, NULL, 7), HF_OK);
        hf_completion c = next();
        assert_int_equal(c.kind, HF_KIND_ACQUIRE);
        assert_status(c.status, HF_OK);
        assert_int_equal(exists(ports[1]) + exists(ports[2]), 2);
        release(c.hold);
    }
    /* Also for an acquire that was queued. */
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    assert_status(hf_lock_acquire_start(mine, NULL, 0, 5000, NULL, 8), HF_OK);
    assert_soon(tell(ports[0], "ZCOUNT {stock}stock:hf1:q 0 9007199254740992")->integer == 1);
    release(hold);
    hf_completion c = next();
    assert_status(c.status, HF_OK);
    assert_int_equal(c.op, 8);
    assert_int_equal(exists(ports[1]) + exists(ports[2]), 2);
    assert_in_range(hf_hold_remaining_ms(c.hold), 50000, 60000);
    release(c.hold);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_started_acquire_without_the_replicas_is_told_how_many(void **state) {
    (void)state;
    hf_lock *mine = stock(ann, 2, 200);
    hf_stats stats = {.size = sizeof stats};
    freeze(1);
    /* More acquires at once than there are confirmers, each for its own lock. */
    hf_lock *many[40];
    for (int i = 0; i < 40; i++) {
        hf_lock_options options = {
            .size = sizeof options, .replicas = 2, .replica_timeout_ms = 300};
        const char *name = number(i);
        assert_status(hf_lock_open(ann, name, strlen(name), NULL, 0, &options, &many[i]), HF_OK);
        assert_status(hf_lock_acquire_start(many[i], NULL, 0, 0, NULL, 100 + i), HF_OK);
    }
    for (int i = 0; i < 40; i++) {
        hf_completion c = next();
        assert_int_equal(c.kind, HF_KIND_ACQUIRE);
        assert_status(c.status, HF_EREPLICAS);
        assert_int_equal(c.error.replicas, 1);
        assert_null(c.hold);
        assert_int_equal(c.hold_number, 0);
    }
    for (int i = 0; i < 40; i++)
        hf_lock_close(many[i]);
    assert_status(hf_client_stats(ann, &stats), HF_OK);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.unreplicated, 40);
    assert_null(strstr(tell(ports[0], "INFO keyspace")->str, "expires=0"));
    hf_lock_close(mine);
}

static void test_closing_during_the_wait_for_replicas_releases(void **state) {
    (void)state;
    hf_client *client = opened();
    hf_lock *mine = stock(client, 2, PATIENT_MS), *pens;
    hf_lock_options options = {
        .size = sizeof options, .replicas = 2, .replica_timeout_ms = 3000, .lease_ms = 60000};
    freeze(1);
    assert_status(hf_lock_open(client, "pens", 4, NULL, 0, &options, &pens), HF_OK);
    assert_status(hf_lock_acquire_start(mine, NULL, 0, 0, NULL, 7), HF_OK);
    assert_soon(exists(ports[0]) == 1);
    waiting w = {.lock = pens};
    pthread_create(&w.thread, NULL, wait_for_it, &w);
    assert_soon(tell(ports[0], "EXISTS pens")->integer == 1);
    int64_t before = now_ms();
    hf_client_close(client);
    assert_in_range(now_ms() - before, 0, PATIENT_MS / 2);
    assert_int_equal(exists(ports[0]), 0);
    hf_completion c = {.size = sizeof c};
    hf_client *closed = client; /* its locks keep it valid for its last completions */
    assert_status(hf_client_next(closed, &c), HF_OK);
    assert_int_equal(c.op, 7);
    assert_status(c.status, HF_ECANCELED);
    pthread_join(w.thread, NULL);
    assert_true(w.status == HF_ECANCELED || w.status == HF_EREPLICAS);
    assert_soon(tell(ports[0], "EXISTS pens")->integer == 0);
    hf_lock_close(mine);
    hf_lock_close(pens);
}

/* ---------------------------------------------------------------- Refusals */

static void test_who_may_not_wait_holds_nothing_and_is_told(void **state) {
    (void)state;
    hf_hold *hold;
    tell(ports[0], "ACL SETUSER ann reset on nopass ~* &* +@all -wait");
    hf_client *client = open_at(text("redis://ann:x@127.0.0.1:%d", ports[0]));
    hf_lock *lock = stock(client, 1, 500);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_ESERVER);
    assert_message("'wait'");
    assert_int_equal(exists(ports[0]), 0);
    assert_status(hf_lock_limit(lock, 5, 0, NULL, NULL), HF_EREPLICAS);
    assert_message("is stored");
    assert_message("'wait'");
    hf_acquire_options most = {.size = sizeof most, .flags = HF_ACQUIRE_AT_MOST_ONCE};
    tell(ports[0], "ACL SETUSER ann +wait");
    assert_status(hf_once_begin(lock, 0, &most, NULL, 0, &hold), HF_OK);
    tell(ports[0], "ACL SETUSER ann -wait");
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 0), HF_ESERVER);
    assert_message("'wait'");
    assert_int_equal(exists(ports[0]), 0);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_limit_that_too_few_replicas_have_is_told_as_that(void **state) {
    (void)state;
    int64_t was;
    hf_lock *lock = stock(ann, REPLICAS + 1, 400), *all = stock(ann, REPLICAS, PATIENT_MS);
    assert_status(hf_lock_limit(lock, 5, 0, NULL, NULL), HF_EREPLICAS);
    assert_message("2 of the 3 replicas");
    assert_int_equal(hf_error_last()->replicas, REPLICAS);
    assert_status(hf_lock_limit(all, 0, 0, &was, NULL), HF_OK);
    assert_int_equal(was, 5);
    hf_lock_close(lock);
    hf_lock_close(all);
}

static void test_the_url_has_the_number_of_locks_that_name_none(void **state) {
    (void)state;
    hf_client *picky;
    hf_hold *hold;
    char *url = text("redis://127.0.0.1:%d?replicas=%d", ports[0], REPLICAS);
    picky = open_at(url);
    hf_lock *all = stock(picky, 0, 0), *one = stock(picky, 1, PATIENT_MS);
    assert_status(hf_lock_acquire(all, 0, &hold), HF_OK);
    release(hold);
    freeze(1);
    assert_status(hf_lock_acquire(all, 0, &hold), HF_EREPLICAS);
    assert_message("1 of the 2 replicas");
    assert_status(hf_lock_acquire(one, 0, &hold), HF_OK);
    release(hold);
    hf_lock *plain = stock(ann, 0, 0);
    assert_status(hf_lock_limit(plain, 5, 60000, NULL, NULL), HF_OK);
    hf_lock *gate = open_lock(
        picky, "stock", NULL,
        OPTIONS(.mode = HF_SHARED, .lease_ms = HF_STORED, .renew = HF_OFF, .reentrant = HF_OFF));
    assert_status(hf_lock_acquire(gate, 0, &hold), HF_OK); /* a pass waits for no replicas */
    release(hold);
    hf_lock_close(gate);
    hf_lock_close(plain);
    hf_lock_close(all);
    hf_lock_close(one);
    hf_client_close(picky);
}

static void test_wrong_options_are_refused(void **state) {
    (void)state;
    static const hf_lock_options wrong[] = {
        {.size = sizeof(hf_lock_options), .replicas = -1},
        {.size = sizeof(hf_lock_options), .replicas = 1, .replica_timeout_ms = -1},
        {.size = sizeof(hf_lock_options), .replicas = 1, .replica_timeout_ms = 10000},
        {.size = sizeof(hf_lock_options),
         .replicas = 1,
         .lease_ms = 100,
         .renew = HF_OFF,
         .replica_timeout_ms = 100},
    };
    hf_lock *lock;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_status(hf_lock_open(ann, "stock", 5, NULL, 0, &wrong[i], &lock), HF_EINVAL);
        assert_message("replica_timeout");
    }
    lock = stock(ann, 1, 5000);
    hf_acquire_options brief = {.size = sizeof brief, .lease_ms = 100, .renew = HF_OFF};
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &brief, NULL), HF_EINVAL);
    assert_message("shorter than the lease of 100 ms");
    hf_lock_close(lock);
    hf_hold *hold;
    assert_status(hf_lock_open(ann, "stock", 5, NULL, 0, OPTIONS(.replicas = 1), &lock), HF_OK);
    brief.lease_ms = 900;
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &brief, &hold), HF_OK);
    release(hold);
    hf_lock_close(lock);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        TEST(test_who_asks_for_replicas_holds_when_they_have_it),
        TEST(test_too_few_replicas_are_told_of_and_nothing_is_held),
        TEST(test_a_busy_lock_is_answered_at_once),
        TEST(test_a_busy_lock_costs_no_connection),
        TEST(test_a_nested_hold_without_its_replicas_leaves_the_outer_alone),
        TEST(test_with_one_replica_frozen_the_other_is_enough),
        TEST(test_a_frozen_replica_does_not_slow_who_did_not_ask),
        TEST(test_who_was_granted_it_holds_when_the_replicas_have_it),
        TEST(test_who_was_granted_it_without_the_replicas_hands_it_on),
        TEST(test_a_started_acquire_ends_when_the_replicas_have_it),
        TEST(test_a_started_acquire_without_the_replicas_is_told_how_many),
        TEST(test_closing_during_the_wait_for_replicas_releases),
        TEST(test_who_may_not_wait_holds_nothing_and_is_told),
        TEST(test_a_limit_that_too_few_replicas_have_is_told_as_that),
        TEST(test_the_url_has_the_number_of_locks_that_name_none),
        TEST(test_wrong_options_are_refused),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

/* Calls of many threads that share a connection: each gets its own answer, whatever happens to the
 * others and to the connection. */
#include "faults.h"

enum { CALLS = 40, ROUNDS = 100, COMMAND_MS = 500 * SLOW };

static proxy *way;
static hf_client *client, *other; /* client: through the proxy; other: past it */
static hf_lock *locks[CALLS];

static int set_up(void **state) {
    int result = begin_fault(state);
    way = proxy_start();
    hf_client_options options = {.size = sizeof options, .command_timeout_ms = COMMAND_MS};
    must_be(hf_client_open(text("redis://127.0.0.1:%d", way->port), &options, &client), HF_OK);
    other = open_client();
    for (int i = 0; i < CALLS; i++)
        locks[i] = must_lock(client, text("k%d", i), NULL);
    return result;
}

static int tear_down(void **state) {
    (void)state;
    kill(the_server, SIGCONT);
    for (int i = 0; i < CALLS; i++)
        hf_lock_close(locks[i]);
    close_both(way, client, other);
    return 0;
}

/* Return how often the server has read from its clients. */
static int64_t reads(void) {
    static const char field[] = "total_reads_processed:";
    return atoll(strstr(STRING("INFO stats"), field) + strlen(field));
}

/* Check that on the server this hold alone has the lock. */
static void assert_its_own(hf_hold *hold, hf_lock *lock) {
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_hold_check(hold), HF_OK);
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    assert_int_equal(info.fence, hf_hold_fence(hold));
    assert_int_equal(info.count, 1);
}

static void release_all(waiter *const *crowd) {
    for (int i = 0; i < CALLS; i++)
        if (crowd[i]->hold != NULL)
            give_back(crowd[i]->hold, HF_OK);
}

/* Return how many answers the client missed. */
static int64_t reconnects(hf_client *of) {
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(of, &stats), HF_OK);
    return stats.reconnects;
}

/* Let that number of connections be idle and recently used. */
static void warm_up(void) {
    waiter *crowd[CALLS];
    for (int i = 0; i < CALLS; i++)
        crowd[i] = waiter_start(locks[i], 10000 * SLOW);
    for (int i = 0; i < CALLS; i++)
        waiter_join(crowd[i], HF_OK);
    release_all(crowd);
}

/* Let all waiters ask while the server stands still: the even ones first, the others ms later; the
 * server goes on another ms later. Return whether it read several calls at once. */
static bool ask_at_once(waiter **crowd, int ms) {
    warm_up();
    int64_t read = reads(), run = scripts_run();
    kill(the_server, SIGSTOP);
    for (int i = 0; i < CALLS; i += 2)
        crowd[i] = waiter_start(locks[i], 10000 * SLOW);
    sleep_ms(ms);
    for (int i = 1; i < CALLS; i += 2)
        crowd[i] = waiter_start(locks[i], 10000 * SLOW);
    sleep_ms(ms);
    kill(the_server, SIGCONT);
    for (int i = 0; i < CALLS; i++)
        waiter_join(crowd[i], HF_OK);
    return reads() - read - 2 < scripts_run() - run;
}

static void assert_each_its_own(waiter *const *crowd) {
    for (int i = 0; i < CALLS; i++)
        assert_its_own(crowd[i]->hold, locks[i]);
    release_all(crowd);
    assert_nothing_left();
}

static void test_calls_have_a_connection_together_and_each_its_own_answer(void **state) {
    waiter *crowd[CALLS];
    int together = 0;
    (void)state;
    for (int round = 0; round < ROUNDS && together < 3; round++) {
        int64_t before = reconnects(client);
        together += ask_at_once(crowd, 15 * SLOW) && reconnects(client) == before;
        assert_each_its_own(crowd);
    }
    assert_int_equal(together, 3);
}

/* The even ones give up and ask again; the answers to their first requests arrive between the
 * answers of the others, which still wait. */
static void test_a_call_that_gives_up_leaves_its_answer_to_nobody(void **state) {
    waiter *crowd[CALLS];
    int together = 0;
    (void)state;
    for (int round = 0; round < ROUNDS && together < 2; round++) {
        int64_t before = reconnects(client);
        together += ask_at_once(crowd, COMMAND_MS * 3 / 5);
        assert_true(reconnects(client) > before);
        assert_each_its_own(crowd);
    }
    assert_int_equal(together, 2);
}

/* No thread waits longer than its time, and no thread is told that others hold the locks. */
static void test_a_server_that_hangs_is_told_to_each_in_time(void **state) {
    waiter *crowd[CALLS];
    (void)state;
    warm_up();
    kill(the_server, SIGSTOP);
    int64_t since = now_ms();
    for (int i = 0; i < CALLS; i++)
        crowd[i] = waiter_start(locks[i], i % 2 == 0 ? 300 : 600);
    for (int i = 0; i < CALLS; i++) {
        pthread_join(crowd[i]->thread, NULL);
        assert_true(crowd[i]->status == HF_EUNKNOWN || crowd[i]->status == HF_ECONNECT);
        assert_true(crowd[i]->done_at - since >= (i % 2 == 0 ? 300 : 600) - 50);
    }
    kill(the_server, SIGCONT);
    for (int i = 0; i < CALLS; i++) {
        hf_hold *hold;
        assert_status(hf_lock_acquire(locks[i], 10000 * SLOW, &hold), HF_OK);
        assert_its_own(hold, locks[i]);
        give_back(hold, HF_OK);
    }
}

/* A thread that acquires and releases a lock of its own, and checks that the server agrees. */
typedef struct worker {
    pthread_t thread;
    hf_lock *lock;
    unsigned seed;
    int pairs, unknown;
} worker;

static _Atomic bool works;

static void *work(void *argument) {
    worker *mine = argument;
    while (atomic_load(&works)) {
        hf_hold *hold = NULL;
        bool hurries = rand_r(&mine->seed) % 8 == 0;
        hf_status status = hf_lock_acquire(mine->lock, hurries ? 1 : 10000 * SLOW, &hold);
        if (status != HF_OK) {
            must(status == HF_EUNKNOWN || (hurries && status == HF_ECONNECT) ||
                 status == HF_EBUSY || status == HF_ETIMEOUT); /* because of its own late request */
            mine->unknown++;
            continue;
        }
        if (mine->pairs % 4 == 0)
            must_be(hf_hold_check(hold), HF_OK);
        status = hf_hold_release(hold);
        must(status == HF_OK || status == HF_EUNKNOWN);
        hf_hold_close(hold);
        mine->pairs++;
    }
    return NULL;
}

static void run_workers(bool (*harm)(int round), int rounds) {
    worker workers_[CALLS];
    atomic_store(&works, true);
    for (int i = 0; i < CALLS; i++) {
        workers_[i] = (worker){.lock = locks[i], .seed = some_seed()};
        assert_int_equal(pthread_create(&workers_[i].thread, NULL, work, &workers_[i]), 0);
    }
    for (int round = 0; round < rounds && harm(round); round++)
        sleep_ms(20);
    atomic_store(&works, false);
    for (int i = 0; i < CALLS; i++) {
        pthread_join(workers_[i].thread, NULL);
        assert_true(workers_[i].pairs > 0);
    }
    for (int i = 0; i < CALLS; i++)
        assert_soon(NUMBER("EXISTS {k%d}k%d:hf1", i, i) == 0);
}

/* Break the next request; return false after enough of them. */
static bool cut_one(int round) {
    static const mishap kinds[] = {LOSE_REPLY, LOSE_REQUEST, LATE_REPLY, LOSE_REPLY};
    atomic_store(&way->next, kinds[round % (int)COUNT(kinds)]);
    return atomic_load(&way->mishaps) < 30;
}

static void test_a_connection_that_breaks_is_survived_by_all_of_its_calls(void **state) {
    (void)state;
    run_workers(cut_one, 1000);
    assert_true(atomic_load(&way->mishaps) >= 30);
}

static bool kill_all(int round) {
    (void)round;
    TELL("CLIENT KILL TYPE normal SKIPME yes");
    return true;
}

static void
test_connections_that_the_server_closes_are_survived_by_all_of_their_calls(void **state) {
    (void)state;
    run_workers(kill_all, 8);
}

/* A cancelled thread goes on until its answer arrives, and reads for the others. */
static void test_a_thread_that_is_cancelled_leaves_the_others_their_answers(void **state) {
    hf_lock *theirs[CALLS];
    waiter *crowd[CALLS];
    int answered = 0;
    (void)state;
    for (int i = 0; i < CALLS; i++)
        theirs[i] = must_lock(other, text("k%d", i), NULL);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < CALLS; i++)
            crowd[i] = waiter_start(theirs[i], 10000 * SLOW);
        for (int i = 0; i < CALLS; i++)
            waiter_join(crowd[i], HF_OK);
        release_all(crowd);
        int64_t before = reconnects(other);
        kill(the_server, SIGSTOP);
        for (int i = 0; i < CALLS; i++)
            crowd[i] = waiter_start(theirs[i], 10000 * SLOW);
        sleep_ms(10 * SLOW);
        for (int i = 2; i < CALLS; i += 3)
            pthread_cancel(crowd[i]->thread);
        sleep_ms(5);
        kill(the_server, SIGCONT);
        for (int i = 0; i < CALLS; i++)
            waiter_join(crowd[i], HF_OK);
        answered += reconnects(other) == before; /* in time */
        release_all(crowd);
    }
    assert_true(answered >= 10);
    for (int i = 0; i < CALLS; i++)
        hf_lock_close(theirs[i]);
}

static _Atomic bool stops;

static void stop_here(int number) {
    (void)number;
    while (atomic_load(&stops))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A signal handler that takes its time, perhaps on the reading thread. */
static void test_threads_that_are_stopped_leave_the_others_their_answers(void **state) {
    waiter *crowd[CALLS];
    int answered = 0;
    (void)state;
    struct sigaction old, action = {.sa_handler = stop_here};
    sigaction(SIGUSR1, &action, &old);
    for (int round = 0; round < 20; round++) {
        warm_up();
        int64_t before = reconnects(client);
        kill(the_server, SIGSTOP);
        for (int i = 0; i < CALLS; i++)
            crowd[i] = waiter_start(locks[i], 10000 * SLOW);
        sleep_ms(10 * SLOW);
        atomic_store(&stops, true);
        for (int i = 2; i < CALLS; i += 3)
            pthread_kill(crowd[i]->thread, SIGUSR1);
        sleep_ms(5);
        kill(the_server, SIGCONT);
        for (int i = 0; i < CALLS; i++)
            if (i % 3 != 2)
                waiter_join(crowd[i], HF_OK);
        answered += reconnects(client) == before; /* in time */
        atomic_store(&stops, false);
        for (int i = 2; i < CALLS; i += 3)
            waiter_join(crowd[i], HF_OK);
        assert_each_its_own(crowd);
    }
    sigaction(SIGUSR1, &old, NULL);
    assert_true(answered >= 15);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_calls_have_a_connection_together_and_each_its_own_answer),
        TEST(test_a_call_that_gives_up_leaves_its_answer_to_nobody),
        TEST(test_a_server_that_hangs_is_told_to_each_in_time),
        TEST(test_a_connection_that_breaks_is_survived_by_all_of_its_calls),
        TEST(test_connections_that_the_server_closes_are_survived_by_all_of_their_calls),
        TEST(test_threads_that_are_stopped_leave_the_others_their_answers),
        TEST(test_a_thread_that_is_cancelled_leaves_the_others_their_answers),
    };
    return RUN_TESTS(tests, count, words);
}

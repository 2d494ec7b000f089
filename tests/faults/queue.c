/* The queue: who waits is served in turn, once, and soon, whoever dies. */
#include "faults.h"

static hf_client *client; /* this process's own, in tests that have one */
static section *inside;

static int set_up(void **state) {
    inside = shared_memory(sizeof *inside);
    return begin_fault(state);
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(client);
    client = NULL;
    munmap(inside, sizeof *inside);
    return 0;
}

static hf_lock *lease_lock(hf_client *of, const char *name, int64_t lease_ms, int renew) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = lease_ms, .renew = renew};
    return must_lock(of, name, &options);
}

static hf_hold *held(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    return hold;
}

/* A process that acquires, says so, and then does nothing. */
typedef struct idler {
    const char *name;
    int64_t lease_ms;
    int renew;
    _Atomic int64_t held_at;
    pid_t pid;
} idler;

static void idle(void *argument) {
    idler *who = argument;
    hf_hold *hold;
    hf_lock *lock = lease_lock(must_open(unix_url()), who->name, who->lease_ms, who->renew);
    must_be(hf_lock_acquire(lock, HF_FOREVER, &hold), HF_OK);
    atomic_store(&who->held_at, now_ms());
    for (;;)
        pause();
}

static idler *idler_start(const char *name, int64_t lease_ms, int renew) {
    idler *who = shared_memory(sizeof *who);
    who->name = name;
    who->lease_ms = lease_ms;
    who->renew = renew;
    who->pid = worker_start(idle, who);
    return who;
}

/* ---------------------------------------------------------- Many waiters */

enum { PROCESSES = 4, THREADS = 16, WAITERS = PROCESSES * THREADS };

typedef struct crowd {
    int threads, rounds; /* of each process; of each thread */
    bool in_turn;        /* the first time, one after the other */
    _Atomic int processes, turn, ready, go, finished, end;
    _Atomic int served_count, served[WAITERS];
    _Atomic int64_t longest_ms;
} crowd;

typedef struct member {
    crowd *of;
    int number;
    hf_client *client;
} member;

static void *crowd_member(void *argument) {
    member *m = argument;
    crowd *all = m->of;
    hf_lock *lock = must_lock(m->client, "k", NULL);
    for (int i = 0; i <= all->rounds; i++) {
        hf_hold *hold;
        if (i == 0)
            wait_until(atomic_load(&all->turn) >= (all->in_turn ? m->number + 1 : 1));
        int64_t since = now_ms();
        must_be(hf_lock_acquire(lock, 60000, &hold), HF_OK);
        int64_t took = now_ms() - since;
        section_enter(inside, hold);
        if (i == 0)
            atomic_store(&all->served[atomic_fetch_add(&all->served_count, 1)], m->number);
        else if (took > atomic_load(&all->longest_ms))
            atomic_store(&all->longest_ms, took);
        section_leave(inside);
        must_be(hf_hold_release(hold), HF_OK);
        hf_hold_close(hold);
        if (i == 0) {
            atomic_fetch_add(&all->ready, 1);
            wait_until(atomic_load(&all->go) == 1);
        }
    }
    hf_lock_close(lock);
    return NULL;
}

static void crowd_work(void *argument) {
    crowd *all = argument;
    int process = atomic_fetch_add(&all->processes, 1);
    pthread_t threads[THREADS];
    member members[THREADS];
    hf_client *own = must_open(unix_url());
    for (int i = 0; i < all->threads; i++) {
        members[i] = (member){all, i * PROCESSES + process, own};
        must(pthread_create(&threads[i], NULL, crowd_member, &members[i]) == 0);
    }
    for (int i = 0; i < all->threads; i++)
        pthread_join(threads[i], NULL);
    atomic_fetch_add(&all->finished, 1);
    wait_until(atomic_load(&all->end) == 1);
    hf_client_close(own);
}

/* All waiters once, behind a holder that then lets go; and then so many rounds.
 * Answers how many scripts were run in those rounds. */
static int64_t run_crowd(crowd *all) {
    pid_t pids[PROCESSES];
    int waiters = PROCESSES * all->threads;
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = worker_start(crowd_work, all);
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    hf_hold *hold = held(lock);
    if (all->in_turn) {
        for (int i = 0; i < waiters; i++) {
            atomic_store(&all->turn, i + 1);
            assert_soon(queued("k") == i + 1);
        }
        TELL("CONFIG RESETSTAT");
    } else {
        atomic_store(&all->turn, 1);
        assert_soon(queued("k") == waiters);
    }
    give_back(hold, HF_OK);
    assert_soon(atomic_load(&all->ready) == waiters);
    int64_t first = scripts_run();
    if (all->in_turn)
        assert_in_range(first, waiters + 1, waiters + 1 + PROCESSES);
    TELL("CONFIG RESETSTAT");
    atomic_store(&all->go, 1);
    int64_t until = now_ms() + 60000;
    while (atomic_load(&all->finished) < PROCESSES && now_ms() < until)
        sleep_ms(2);
    int64_t scripts = scripts_run();
    atomic_store(&all->end, 1);
    for (int i = 0; i < PROCESSES; i++)
        worker_join(pids[i]);
    hf_lock_close(lock);
    assert_int_equal(atomic_load(&inside->counter), waiters * (all->rounds + 1));
    assert_nothing_left();
    assert_int_equal(NUMBER("EXISTS k"), 0);
    return scripts;
}

/* C8, and the queue's promise. Each was asked to wait with one command; each
 * handoff is then one release. */
static void test_64_waiters_of_4_processes_are_served_in_the_order_they_came(void **state) {
    (void)state;
    crowd *all = shared_memory(sizeof *all);
    all->threads = THREADS;
    all->in_turn = true;
    run_crowd(all);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(all->served[i], i);
    munmap(all, sizeof *all);
}

static void cost_of(int threads, int rounds) {
    crowd *all = shared_memory(sizeof *all);
    memset(inside, 0, sizeof *inside);
    all->threads = threads;
    all->rounds = rounds;
    int64_t since = now_ms(), scripts = run_crowd(all);
    int64_t handoffs = PROCESSES * threads * rounds;
    /* Each process looks after the lock every few seconds. */
    int64_t rechecks = PROCESSES * (2 + (now_ms() - since) / 1000);
    print_message("%d waiters: %lld handoffs, %lld scripts, the longest wait %lld ms\n",
                  PROCESSES * threads, (long long)handoffs, (long long)scripts,
                  (long long)all->longest_ms);
    assert_in_range(scripts, 2 * handoffs, 2 * handoffs + rechecks);
    munmap(all, sizeof *all);
}

/* The number of waiters plays no part. */
static void test_a_handoff_costs_two_commands_however_many_wait(void **state) {
    (void)state;
    cost_of(1, 1000 / SLOW);
    TELL("FLUSHALL");
    cost_of(4, 250 / SLOW);
    TELL("FLUSHALL");
    cost_of(16, 63 / SLOW);
}

/* H3, H4: none is forgotten; and none had to be found by a re-check, which comes
 * after seconds. */
static void test_no_waiter_is_lost_over_20000_handoffs(void **state) {
    (void)state;
    crowd *all = shared_memory(sizeof *all);
    all->threads = THREADS;
    all->rounds = 20000 / WAITERS / SLOW + 1;
    run_crowd(all);
    print_message("the longest wait %lld ms\n", (long long)all->longest_ms);
    assert_true(all->longest_ms < 1500 * (SLOW > 1 ? 4 : 1));
    munmap(all, sizeof *all);
}

/* ----------------------------------------------------- The dead, the stopped */

/* The next waiter after a kill -9 of who holds `name`: within what is left of the
 * lease and 200 ms. */
static void kill_holder(idler *who, waiter *next) {
    int64_t left = NUMBER("PTTL %s", who->name), since = now_ms();
    assert_true(left > 0);
    worker_kill(who->pid);
    waiter_join(next, HF_OK);
    int64_t took = next->done_at - since;
    print_message("killed with %lld ms left: the next after %lld ms\n", (long long)left,
                  (long long)took);
    assert_in_range(took, left - 5, left + 200);
    give_back(next->hold, HF_OK);
}

/* H1 */
static void test_after_a_killed_holder_the_next_holds_when_its_lease_ends(void **state) {
    (void)state;
    idler *brief = idler_start("brief", 700, HF_OFF);
    idler *renewed = idler_start("renewed", 900, HF_ON);
    idler *longer = idler_start("longer", 3500, HF_ON);
    client = open_client();
    waiter *next[3];
    hf_lock *locks[3];
    idler *who[3] = {brief, renewed, longer};
    for (int i = 0; i < 3; i++) {
        assert_soon(atomic_load(&who[i]->held_at) > 0);
        locks[i] = must_lock(client, who[i]->name, NULL);
        next[i] = waiter_start(locks[i], 20000);
        assert_soon(queued(who[i]->name) == 1);
    }
    kill_holder(brief, next[0]);
    kill_holder(renewed, next[1]);
    kill_holder(longer, next[2]);
    for (int i = 0; i < 3; i++)
        hf_lock_close(locks[i]);
}

/* H1: who waits has been told of the holder before last, which had an hour. */
static void test_after_a_killed_holder_that_was_waited_for_too(void **state) {
    (void)state;
    static const int64_t leases[] = {1000, 4000};
    idler *victims[COUNT(leases)];
    waiter *next[COUNT(leases)];
    hf_lock *locks[COUNT(leases)];
    for (size_t i = 0; i < COUNT(leases); i++) {
        TELL("SET %s foreign PX 3600000", text("pushed%zu", i));
        victims[i] = idler_start(text("pushed%zu", i), leases[i], HF_ON);
    }
    client = open_client();
    for (size_t i = 0; i < COUNT(leases); i++) {
        assert_soon(queued(victims[i]->name) == 1);
        locks[i] = lease_lock(client, victims[i]->name, leases[i], HF_ON);
        next[i] = waiter_start(locks[i], 20000);
        assert_soon(queued(victims[i]->name) == 2);
        assert_status(hf_lock_break(locks[i], 0, HF_BREAK_FOREIGN), HF_OK);
        assert_soon(atomic_load(&victims[i]->held_at) > 0);
    }
    for (size_t i = 0; i < COUNT(leases); i++) {
        kill_holder(victims[i], next[i]);
        hf_lock_close(locks[i]);
    }
}

/* C1: somebody who listens to everything makes nobody alive. */
static void test_after_a_killed_head_waiter_the_one_behind_gets_the_next_release(void **state) {
    (void)state;
    redisContext *nosy = connect_raw();
    freeReplyObject(redisCommand(nosy, "PSUBSCRIBE *"));
    TELL("SET k foreign PX 3600000");
    idler *head = idler_start("k", 0, HF_DEFAULT);
    assert_soon(queued("k") == 1);
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    waiter *behind = waiter_start(lock, 20000);
    assert_soon(queued("k") == 2);
    worker_kill(head->pid);
    assert_soon(TELL("PUBSUB CHANNELS hf:*")->elements == 1);
    int64_t since = now_ms();
    assert_status(hf_lock_break(lock, 0, HF_BREAK_FOREIGN), HF_OK);
    waiter_join(behind, HF_OK);
    assert_in_range(behind->done_at - since, 0, 200);
    give_back(behind->hold, HF_OK);
    hf_lock_close(lock);
    redisFree(nosy);
}

/* ------------------------------------------------------------------- */

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_64_waiters_of_4_processes_are_served_in_the_order_they_came),
        TEST(test_a_handoff_costs_two_commands_however_many_wait),
        TEST(test_no_waiter_is_lost_over_20000_handoffs),
        TEST(test_after_a_killed_holder_the_next_holds_when_its_lease_ends),
        TEST(test_after_a_killed_holder_that_was_waited_for_too),
        TEST(test_after_a_killed_head_waiter_the_one_behind_gets_the_next_release),
    };
    return RUN_TESTS(tests, count, words);
}

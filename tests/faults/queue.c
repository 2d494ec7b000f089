/* The queue: every waiter gets the lock in turn, once, and soon, whichever process dies. */
#include "faults.h"

#include "protocol/scripts.h"

static hf_client *client; /* of this process, in tests that need one */
/* The first object in the shared memory, so that workers find it. */
#define inside ((section *)(void *)shared_from)

static int set_up(void **state) {
    int result = begin_fault(state);
    assert_ptr_equal(shared_memory(sizeof *inside), inside);
    return result;
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(client);
    client = NULL;
    return 0;
}

/* A process that acquires, reports it, and then does nothing. */
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
    who->name = shared_text(name);
    who->lease_ms = lease_ms;
    who->renew = renew;
    who->pid = worker_start(idle, who);
    return who;
}

/* ---------------------------------------------------------- Many waiters */

enum { PROCESSES = 4, THREADS = 16, WAITERS = PROCESSES * THREADS };

typedef struct crowd {
    int threads, rounds; /* of each process; of each thread */
    bool in_turn;        /* the first time one after the other */
    _Atomic int processes, turn, ready, go, finished, end;
    _Atomic int served_count, served[WAITERS];
    _Atomic int64_t longest_ms;
} crowd;

/* Look rarely: 64 threads that look all the time leave no processor for the next in line. */
static void wait_for(_Atomic int *sign, int least) {
    int64_t until = now_ms() + 60000;
    while (atomic_load(sign) < least) {
        must(now_ms() < until);
        sleep_ms(10);
    }
}

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
            wait_for(&all->turn, all->in_turn ? m->number + 1 : 1);
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
            wait_for(&all->go, 1);
        }
    }
    hf_lock_close(lock);
    return NULL;
}

/* Open a client that tolerates a machine that is busy with these threads. */
static hf_client *patient_client(void) {
    return must_open(text("%s?connect_timeout=20&command_timeout=20", unix_url()));
}

static void crowd_work(void *argument) {
    crowd *all = argument;
    int process = atomic_fetch_add(&all->processes, 1);
    pthread_t threads[THREADS];
    member members[THREADS];
    hf_client *own = patient_client();
    for (int i = 0; i < all->threads; i++) {
        members[i] = (member){all, i * PROCESSES + process, own};
        must(pthread_create(&threads[i], NULL, crowd_member, &members[i]) == 0);
    }
    for (int i = 0; i < all->threads; i++)
        pthread_join(threads[i], NULL);
    atomic_fetch_add(&all->finished, 1);
    wait_for(&all->end, 1);
    hf_client_close(own);
}

/* Let all waiters in once, behind a holder that releases the lock, and then for that number of
 * rounds. Return how many scripts were run in those rounds. */
static int64_t run_crowd(crowd *all) {
    pid_t pids[PROCESSES];
    int waiters = PROCESSES * all->threads;
    int64_t since = 0;
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = worker_start(crowd_work, all);
    client = patient_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    hf_hold *hold = held(lock);
    if (all->in_turn) {
        for (int i = 0; i < waiters; i++) {
            atomic_store(&all->turn, i + 1);
            assert_soon(queued("k") == i + 1);
        }
        TELL("CONFIG RESETSTAT");
        since = now_ms();
    } else {
        atomic_store(&all->turn, 1);
        assert_soon(queued("k") == waiters);
    }
    give_back(hold, HF_OK);
    assert_soon(atomic_load(&all->ready) == waiters);
    int64_t first = scripts_run();
    /* Each process checks on the lock every few seconds, and a busy machine takes seconds. */
    if (all->in_turn)
        assert_in_range(first, waiters + 1,
                        waiters + 1 + PROCESSES * (1 + (now_ms() - since) / 1000));
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

/* C8, and the queue's promise. Each waiter is queued by one command; each handoff is then one
 * release. */
static void test_64_waiters_of_4_processes_are_served_in_the_order_they_came(void **state) {
    (void)state;
    crowd *all = shared_memory(sizeof *all);
    all->threads = THREADS;
    all->in_turn = true;
    run_crowd(all);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(all->served[i], i);
}

/* C8: the first waiter arrived a minute later by a clock that was set back since. */
static void test_a_clock_that_steps_back_lets_nobody_in_front(void **state) {
    (void)state;
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    hf_hold *hold = held(lock);
    waiter *waiters[4];
    for (int i = 0; i < 4; i++) {
        waiters[i] = waiter_start(lock, 20000);
        assert_soon(queued("k") == i + 1);
        if (i == 0) {
            redisReply *first = TELL("ZRANGE {k}k:hf1:q 0 0 WITHSCORES");
            TELL("ZADD {k}k:hf1:q %f %s", atof(first->element[1]->str) + 60000000,
                 first->element[0]->str);
        }
    }
    give_back(hold, HF_OK);
    for (int i = 0; i < 4; i++) {
        waiter_join(waiters[i], HF_OK);
        for (int j = i + 1; j < 4; j++)
            assert_false(atomic_load(&waiters[j]->done));
        give_back(waiters[i]->hold, HF_OK);
    }
    hf_lock_close(lock);
}

static void cost_of(int threads, int rounds) {
    crowd *all = shared_memory(sizeof *all);
    memset(inside, 0, sizeof *inside);
    all->threads = threads;
    all->rounds = rounds;
    int64_t since = now_ms(), scripts = run_crowd(all);
    int64_t handoffs = PROCESSES * threads * rounds;
    /* Each process checks on the lock every few seconds, and at first no client knows that it is
     * crowded. Now and then the lock is free when an acquire begins to wait, and `acquire` follows
     * `wait`. */
    int64_t others = PROCESSES * (2 * threads + (now_ms() - since) / 1000) + handoffs / 20;
    print_message("%d waiters: %lld handoffs, %lld scripts, the longest wait %lld ms\n",
                  PROCESSES * threads, (long long)handoffs, (long long)scripts,
                  (long long)all->longest_ms);
    /* A hold without waiters is released without a script. */
    assert_in_range(scripts, 2 * handoffs - handoffs / 20, 2 * handoffs + others);
    /* A message that overtakes the answer to an enqueue leaves no dead id, which would more than
     * double the cost of each handoff for ten minutes. */
    assert_int_equal(NUMBER("EVAL %s 0", "return #redis.call('KEYS', '*:hf1:d')"), 0);
}

/* The number of waiters does not matter. */
static void test_a_handoff_costs_two_commands_however_many_wait(void **state) {
    (void)state;
    cost_of(1, 250);
    TELL("FLUSHALL");
    cost_of(4, 64);
    TELL("FLUSHALL");
    cost_of(16, 16);
}

/* H3, H4: no waiter is forgotten, and none waits until a re-check, which is seconds later. */
static void test_no_waiter_is_lost_over_20000_handoffs(void **state) {
    (void)state;
    crowd *all = shared_memory(sizeof *all);
    all->threads = THREADS;
    all->rounds = 20000 / WAITERS / SLOW + 1;
    run_crowd(all);
    print_message("the longest wait %lld ms\n", (long long)all->longest_ms);
    assert_true(all->longest_ms < 1500 * (SLOW > 1 ? 4 : 1));
}

/* ----------------------------------------------------- The dead, the stopped */

/* Check that after a kill -9 of the holder the next waiter gets the lock within the rest of the
 * lease and 200 ms. */
static void kill_holder(idler *who, waiter *next) {
    worker_stop(who->pid); /* otherwise it might renew between the look and the kill */
    sleep_ms(5);
    int64_t before = now_ms(), left = NUMBER("PTTL %s", who->name), after = now_ms();
    worker_kill(who->pid);
    waiter_join(next, HF_OK);
    print_message("killed with %lld ms left: the next after %lld ms\n", (long long)left,
                  (long long)(next->done_at - after));
    if (left > 0) /* or the machine has paused until the lease had ended */
        assert_in_range(next->done_at, before + left - 1, after + left + IN_TIME(200));
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

/* H1: the waiter knows the time of the holder before last, which had an hour. */
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

/* C1: a listener on every channel does not make a dead waiter look alive. */
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

/* A process that waits, and checks its hold before it reports it. */
typedef struct late {
    int64_t lease_ms;
    int threads;
    hf_client *client; /* this process's own */
    _Atomic int held;
    _Atomic int64_t held_at, remaining_ms, ttl_ms;
    pid_t pid;
} late;

static void *wait_late(void *argument) {
    late *who = argument;
    hf_hold *hold;
    hf_lock *lock = lease_lock(who->client, "k", who->lease_ms, HF_OFF);
    must_be(hf_lock_acquire(lock, HF_FOREVER, &hold), HF_OK);
    int64_t remaining = hf_hold_remaining_ms(hold);
    must(hf_hold_state(hold) == HF_STATE_HELD && remaining != 0);
    section_enter(inside, hold);
    must_be(hf_hold_check(hold), HF_OK);
    redisContext *redis = redisConnectUnix(unix_url() + strlen("unix://"));
    redisReply *ttl = redisCommand(redis, "PTTL k");
    must(ttl != NULL);
    atomic_store(&who->ttl_ms, ttl->integer);
    freeReplyObject(ttl);
    redisFree(redis);
    atomic_store(&who->remaining_ms, remaining);
    atomic_store(&who->held_at, now_ms());
    section_leave(inside);
    must_be(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    atomic_fetch_add(&who->held, 1);
    return NULL;
}

static void work_late(void *argument) {
    late *who = argument;
    who->client = must_open(unix_url());
    run_together((size_t)who->threads, wait_late, who, 0);
    hf_client_close(who->client);
}

/* Let a process queue for k, behind a lock that its holder does not release. */
static late *late_start(int64_t lease_ms, int threads) {
    late *who = shared_memory(sizeof *who);
    who->lease_ms = lease_ms;
    who->threads = threads;
    TELL("SET k foreign PX 3600000");
    who->pid = worker_start(work_late, who);
    assert_soon(queued("k") == threads);
    return who;
}

/* C4: a grant that arrived while the process was stopped has ended, and the process notices. */
static void test_a_waiter_stopped_past_its_lease_returns_with_a_hold_that_is_valid(void **state) {
    (void)state;
    late *sleeper = late_start(500, 1);
    client = open_client();
    hf_lock *lock = lease_lock(client, "k", 600, HF_OFF);
    waiter *behind = waiter_start(lock, 20000);
    assert_soon(queued("k") == 2);
    worker_stop(sleeper->pid);
    int64_t since = now_ms();
    assert_status(hf_lock_break(lock, 0, HF_BREAK_FOREIGN), HF_OK);
    int64_t fence = STORED("k").fence;
    waiter_join(behind, HF_OK);
    assert_in_range(behind->done_at - since, 450, 500 + 200);
    assert_true(hf_hold_fence(behind->hold) > fence);
    section_enter(inside, behind->hold);
    worker_go_on(sleeper->pid);
    sleep_ms(300); /* it runs again, and must not enter */
    assert_int_equal(atomic_load(&sleeper->held), 0);
    section_leave(inside);
    give_back(behind->hold, HF_OK);
    worker_join(sleeper->pid);
    assert_int_equal(atomic_load(&sleeper->held), 1);
    hf_lock_close(lock);
    assert_nothing_left();
}

/* C4: a grant whose message was in a buffer does not count from its receipt. */
static void test_a_grant_read_late_lasts_no_longer_than_on_the_server(void **state) {
    (void)state;
    late *sleeper = late_start(3000, 1); /* its claim, which is sent at once, extends nothing */
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    worker_stop(sleeper->pid);
    assert_status(hf_lock_break(lock, 0, HF_BREAK_FOREIGN), HF_OK);
    sleep_ms(1000);
    int64_t ttl = NUMBER("PTTL k");
    assert_in_range(ttl, 1500, 2010);
    worker_go_on(sleeper->pid);
    worker_join(sleeper->pid);
    assert_int_equal(atomic_load(&sleeper->held), 1);
    assert_in_range(atomic_load(&sleeper->remaining_ms), 1, ttl);
    hf_lock_close(lock);
}

/* H2: all waiters of a stopped client together cost one unclaimed grant.
 * H12: a client that was only stopped keeps its place before later waiters. */
static void test_a_stopped_client_with_many_waiters_costs_one_claim_lease(void **state) {
    (void)state;
    late *ghost = late_start(0, 20);
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    waiter *behind = waiter_start(lock, 60000);
    assert_soon(queued("k") == 21);
    waiter *last = waiter_start(lock, 60000);
    assert_soon(queued("k") == 22);
    worker_stop(ghost->pid);
    int64_t since = now_ms();
    assert_status(hf_lock_break(lock, 0, HF_BREAK_FOREIGN), HF_OK);
    waiter_join(behind, HF_OK);
    print_message("behind a ghost of 20: %lld ms\n", (long long)(behind->done_at - since));
    assert_in_range(behind->done_at - since, 2900, 3000 + 300);
    section_enter(inside, behind->hold);
    worker_go_on(ghost->pid);
    /* They are alive, and return to their places. */
    assert_soon(queued("k") == 21);
    section_leave(inside);
    give_back(behind->hold, HF_OK);
    waiter_join(last, HF_OK);
    assert_int_equal(atomic_load(&inside->counter), 1 + 20);
    give_back(last->hold, HF_OK);
    worker_join(ghost->pid);
    assert_int_equal(atomic_load(&ghost->held), 20);
    hf_lock_close(lock);
    assert_nothing_left();
}

/* H2: a ghost does not hold a lock without an end for ever. */
static void
test_a_stopped_waiter_for_a_lock_that_never_expires_costs_one_claim_lease(void **state) {
    (void)state;
    late *ghost = late_start(HF_NEVER, 1);
    client = open_client();
    hf_lock *lock = lease_lock(client, "k", HF_NEVER, HF_DEFAULT);
    waiter *behind = waiter_start(lock, 60000);
    assert_soon(queued("k") == 2);
    worker_stop(ghost->pid);
    int64_t since = now_ms();
    assert_status(hf_lock_break(lock, 0, HF_BREAK_FOREIGN), HF_OK);
    waiter_join(behind, HF_OK);
    assert_in_range(behind->done_at - since, 2900, 3000 + 300);
    assert_soon(NUMBER("PTTL k") == -1); /* claimed, if it was pushed */
    give_back(behind->hold, HF_OK);
    worker_go_on(ghost->pid);
    worker_join(ghost->pid);
    hf_lock_close(lock);
}

/* H2: a pushed grant lasts 3 s until its claim, which gives it the whole lease, also without
 * renewal. Until then it has the mark by which a ghost is found. */
static void test_a_pushed_grant_is_claimed(void **state) {
    (void)state;
    client = open_client();
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    waiter *next = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(next, HF_OK);
    redisReply *both = TELL("EVAL %s 2 k {k}k:hf1:f", "return {redis.call('PTTL', KEYS[1]), "
                                                      "redis.call('GET', KEYS[2])}");
    assert_int_equal(has_mark(both->element[1]->str), both->element[0]->integer <= 3000);
    assert_soon(NUMBER("PTTL k") > 50000);
    assert_false(has_mark(STRING("GET {k}k:hf1:f")));
    assert_in_range(now_ms() - next->done_at, 0, IN_TIME(3000));
    assert_soon(hf_hold_remaining_ms(next->hold) > 50000);
    give_back(next->hold, HF_OK);
    hf_lock_close(lock);
}

/* --------------------------------------------------------------- Nesting */

/* A grant admits one acquire; the owner's other acquires then enter as well. */
static void test_another_acquire_of_the_owner_that_queues_nests_in_its_first(void **state) {
    (void)state;
    client = open_client();
    hf_client *other = open_client();
    hf_lock *lock = must_lock(client, "k", NULL), *elsewhere = must_lock(other, "k", NULL);
    hf_hold *hold = held(lock);
    waiter *first = waiter_start_as(lock, "ann", 20000);
    assert_soon(queued("k") == 1);
    waiter *stranger = waiter_start_as(lock, "ben", 20000);
    assert_soon(queued("k") == 2);
    waiter *second = waiter_start_as(lock, "ann", 20000);
    assert_soon(queued("k") == 3);
    waiter *third = waiter_start_as(elsewhere, "ann", 20000);
    assert_soon(queued("k") == 4);
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    waiter_join(first, HF_OK);
    waiter_join(second, HF_OK); /* though the stranger arrived before it */
    assert_in_range(second->done_at - since, 0, 500);
    waiter_join(third, HF_OK); /* of another client: at its re-check */
    assert_in_range(third->done_at - since, 0, 3500);
    assert_int_equal(hf_hold_fence(first->hold), hf_hold_fence(second->hold));
    assert_int_equal(hf_hold_fence(first->hold), hf_hold_fence(third->hold));
    assert_int_equal(queued("k"), 1);

    /* Also an acquire of the holder, while others queue. */
    hf_hold *nested;
    assert_status(hf_lock_acquire_as(lock, "ann", 3, 1000, NULL, &nested), HF_OK);
    give_back(nested, HF_OK);
    give_back(first->hold, HF_OK);
    give_back(second->hold, HF_OK);
    assert_false(atomic_load(&stranger->done));
    give_back(third->hold, HF_OK);
    waiter_join(stranger, HF_OK);
    give_back(stranger->hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(elsewhere);
    hf_client_close(other);
    assert_nothing_left();
}

/* ------------------------------------------------------------ Giving up */

static void test_a_wait_that_times_out_leaves_nothing_behind(void **state) {
    (void)state;
    waiter *waiters[40];
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    hf_hold *hold = held(lock);
    for (int i = 0; i < 40; i++)
        waiters[i] = waiter_start(lock, 20 + i * 2);
    for (int i = 0; i < 40; i++)
        waiter_join(waiters[i], HF_ETIMEOUT);
    assert_int_equal(queued("k"), 0);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    /* The last fence; and the dead id of each acquire whose time ended before its first answer,
     * which happens only if the machine pauses. */
    assert_in_range(NUMBER("DBSIZE"), 1, IN_TIME(0) == 0 ? 1 : 41);
    hf_lock_close(lock);
}

/* The time ends when the lock is granted: the acquire holds it, or no client does. */
static void test_a_timeout_that_races_the_release_leaves_nothing_behind(void **state) {
    (void)state;
    int won = 0;
    client = open_client();
    hf_client *other = open_client();
    hf_lock *lock = must_lock(client, "k", NULL), *theirs = must_lock(other, "k", NULL);
    for (int i = 0; i < 300 / SLOW; i++) {
        hf_hold *hold = held(lock);
        int64_t since = now_ms();
        waiter *w = waiter_start(theirs, 8);
        while (now_ms() < since + 8)
            ;
        nanosleep(&(struct timespec){.tv_nsec = i % 40 * 50000}, NULL);
        give_back(hold, HF_OK);
        pthread_join(w->thread, NULL);
        if (w->status == HF_OK) {
            won++;
            give_back(w->hold, HF_OK);
        } else {
            assert_int_equal(w->status, HF_ETIMEOUT);
        }
        assert_int_equal(NUMBER("EXISTS k"), 0);
        assert_int_equal(queued("k"), 0);
    }
    print_message("%d times the lock was faster\n", won);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
}

static void on_signal(int number) { (void)number; }

static void *wait_interruptibly(void *argument) {
    waiter *w = argument;
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_INTERRUPTIBLE};
    w->status = hf_lock_acquire_as(w->lock, NULL, 0, 5000, &options, &w->hold);
    atomic_store(&w->done, true);
    return NULL;
}

/* M9: a signal arrives when the lock is granted. */
static void test_a_signal_that_races_the_release_leaves_nothing_behind(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = on_signal};
    int won = 0;
    sigaction(SIGUSR1, &action, NULL);
    client = open_client();
    hf_client *other = open_client();
    hf_lock *lock = must_lock(client, "k", NULL), *theirs = must_lock(other, "k", NULL);
    for (int i = 0; i < 200 / SLOW; i++) {
        hf_hold *hold = held(lock);
        waiter w = {.lock = theirs};
        must(pthread_create(&w.thread, NULL, wait_interruptibly, &w) == 0);
        assert_soon(queued("k") == 1);
        if (i % 2 == 0) /* sent by the client's thread, so that the signal may be first */
            assert_status(hf_hold_release_start(hold, 1), HF_OK);
        nanosleep(&(struct timespec){.tv_nsec = i % 10 * 20000}, NULL);
        while (!atomic_load(&w.done) && (i % 2 == 0 || queued("k") == 1)) {
            pthread_kill(w.thread, SIGUSR1);
            sleep_ms(1);
        }
        if (i % 2 == 1)
            give_back(hold, HF_OK);
        else
            assert_status(next_of(client).status, HF_OK), hf_hold_close(hold);
        pthread_join(w.thread, NULL);
        if (w.status == HF_OK) {
            won++;
            give_back(w.hold, HF_OK);
        } else {
            assert_int_equal(w.status, HF_EINTR);
        }
        assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    }
    print_message("%d times the lock was faster\n", won);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
}

static struct {
    hf_client *waiting;
    hf_hold *hold;
} granted;

/* The language's handlers take their time: the lock is granted meanwhile, and then they end the
 * wait nevertheless. */
static int end_after_the_grant(void *context) {
    (void)context;
    hf_stats stats = {.size = sizeof stats};
    if (granted.hold == NULL)
        return 0;
    wait_until(queued("k") == 1);
    must_be(hf_hold_release(granted.hold), HF_OK);
    do
        must_be(hf_client_stats(granted.waiting, &stats), HF_OK);
    while (stats.waiting > 0);
    hf_hold_close(granted.hold);
    granted.hold = NULL;
    return 1;
}

static void test_a_signal_after_the_grant_leaves_nothing_behind(void **state) {
    (void)state;
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_INTERRUPTIBLE};
    client = open_client();
    granted.waiting = open_client();
    hf_lock *lock = must_lock(client, "k", NULL), *theirs = must_lock(granted.waiting, "k", NULL);
    assert_status(hf_client_set_interrupt(granted.waiting, end_after_the_grant, NULL), HF_OK);
    granted.hold = held(lock);
    hf_hold *hold;
    assert_status(hf_lock_acquire_as(theirs, NULL, 0, 20000, &options, &hold), HF_EINTR);
    assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(granted.waiting);
}

static void test_a_waiter_cancelled_by_close_leaves_nothing_behind(void **state) {
    (void)state;
    waiter *waiters[20];
    client = open_client();
    hf_client *closing = open_client();
    hf_lock *lock = must_lock(client, "k", NULL), *theirs = must_lock(closing, "k", NULL);
    hf_hold *hold = held(lock);
    for (int i = 0; i < 20; i++)
        waiters[i] = waiter_start(theirs, HF_FOREVER);
    assert_soon(queued("k") == 20);
    int64_t since = now_ms();
    hf_client_close(closing);
    for (int i = 0; i < 20; i++)
        waiter_join(waiters[i], HF_ECANCELED);
    assert_in_range(now_ms() - since, 0, IN_TIME(2000));
    assert_int_equal(queued("k"), 0);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_ECLOSED);
    hf_lock_close(theirs);
    hf_lock_close(lock);
    assert_nothing_left();
}

static void test_a_close_that_races_the_grant_leaves_nothing_behind(void **state) {
    (void)state;
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    for (int i = 0; i < 60; i++) {
        hf_client *closing = open_client();
        hf_lock *theirs = must_lock(closing, "k", NULL);
        hf_hold *hold = held(lock);
        waiter *first = waiter_start(theirs, 10000), *second = waiter_start(theirs, 10000);
        if (i % 3 > 0)
            assert_soon(queued("k") > i % 3 - 1);
        if (i % 2 == 0)
            give_back(hold, HF_OK);
        hf_client_close(closing);
        if (i % 2 == 1)
            give_back(hold, HF_OK);
        pthread_join(first->thread, NULL);
        pthread_join(second->thread, NULL);
        waiter *all[] = {first, second};
        for (int j = 0; j < 2; j++) {
            /* It held, and the close ended that; or it never held. */
            if (all[j]->status == HF_OK)
                give_back(all[j]->hold, HF_ECLOSED);
            else
                assert_true(all[j]->status == HF_ECANCELED || all[j]->status == HF_ECLOSED);
        }
        hf_lock_close(theirs);
        assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    }
    hf_lock_close(lock);
}

/* --------------------------------------------------------- Foreign locks */

/* C14, H11: a foreign lock excludes our clients, sends no grants, and is followed soon. */
static void test_a_foreign_lock_is_followed_soon_after_its_end_and_in_order(void **state) {
    (void)state;
    client = open_client();
    hf_lock *lock = must_lock(client, "k", NULL);
    waiter *waiters[5];
    TELL("SET k theirs PX 600");
    int64_t since = now_ms();
    for (int i = 0; i < 5; i++) {
        waiters[i] = waiter_start(lock, 20000);
        assert_soon(queued("k") == i + 1);
    }
    for (int i = 0; i < 5; i++) {
        waiter_join(waiters[i], HF_OK);
        assert_in_range(waiters[i]->done_at - since, 600, 600 + 150);
        give_back(waiters[i]->hold, HF_OK);
    }
    /* Its owner deletes it, which no message reports. */
    TELL("SET k theirs PX 60000");
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    since = now_ms();
    TELL("DEL k");
    waiter_join(w, HF_OK);
    assert_in_range(w->done_at - since, 0, 150);
    give_back(w->hold, HF_OK);
    hf_lock_close(lock);
}

static void test_a_foreign_lock_without_an_end_is_given_one_if_that_is_wanted(void **state) {
    (void)state;
    hf_lock_options heals = {.size = sizeof heals, .lease_ms = 500, .renew = HF_OFF, .heal = HF_ON};
    client = open_client();
    hf_lock *plain = must_lock(client, "k", NULL), *healer = must_lock(client, "k", &heals);
    hf_hold *hold;
    TELL("SET k theirs");
    assert_status(hf_lock_acquire(plain, 0, &hold), HF_EBUSY);
    assert_status(hf_lock_acquire(plain, 200, &hold), HF_ETIMEOUT);
    assert_int_equal(NUMBER("PTTL k"), -1);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(healer, 10000, &hold), HF_OK);
    assert_in_range(now_ms() - since, 490, 500 + 200);
    give_back(hold, HF_OK);

    /* Also a foreign lock that is set while the waiter waits for one of Holdfast. */
    hold = held(plain);
    waiter *w = waiter_start(healer, 10000);
    assert_soon(queued("k") == 1);
    TELL("SET k theirs"); /* by force */
    since = now_ms();
    waiter_join(w, HF_OK);
    assert_in_range(w->done_at - since, 490, 3000 + 500 + 300);
    assert_status(hf_hold_release(hold), HF_ELOST);
    hf_hold_close(hold);
    give_back(w->hold, HF_OK);
    hf_lock_close(plain);
    hf_lock_close(healer);
}

/* Its holds' ends were in a key that the server has lost: no request can end the lock. */
static void test_a_lock_of_ours_that_has_lost_its_ends_is_given_one_too(void **state) {
    (void)state;
    hf_lock_options heals = {.size = sizeof heals, .lease_ms = 500, .renew = HF_OFF, .heal = HF_ON};
    client = open_client();
    hf_client *ben = open_client();
    hf_lock *endless = lease_lock(ben, "k", HF_NEVER, HF_DEFAULT);
    hf_lock *healer = must_lock(client, "k", &heals);
    hf_hold *outer = held(endless), *inner = held(endless), *hold;
    TELL("DEL {k}k:hf1:s");
    assert_status(hf_lock_acquire(healer, 20000, &hold), HF_OK);
    give_back(hold, HF_OK);
    give_back(inner, HF_ELOST);
    give_back(outer, HF_ELOST);
    hf_lock_close(endless);
    hf_lock_close(healer);
    hf_client_close(ben);
}

/* ------------------------------------------------- Without permissions */

static char *poller_url(void) {
    TELL("ACL SETUSER poller on >secret ~* resetchannels +@all");
    return shared_text(text("unix://poller:secret@%s", unix_url() + strlen("unix://")));
}

static void *poll_for_turns(void *argument) {
    hf_lock *lock = must_lock(argument, "k", NULL);
    for (int i = 0; i < 25; i++) {
        hf_hold *hold;
        must_be(hf_lock_acquire(lock, 60000, &hold), HF_OK);
        section_enter(inside, hold);
        section_leave(inside);
        must_be(hf_hold_release(hold), HF_OK);
        hf_hold_close(hold);
    }
    hf_lock_close(lock);
    return NULL;
}

static void poll_in_process(void *argument) {
    hf_client *own = must_open(argument);
    run_together(4, poll_for_turns, own, 0);
    hf_client_close(own);
}

/* H5 */
static void test_without_the_right_to_subscribe_it_works_by_asking(void **state) {
    (void)state;
    pid_t pids[2];
    char *url = poller_url();
    for (int i = 0; i < 2; i++)
        pids[i] = worker_start(poll_in_process, url);
    for (int i = 0; i < 2; i++)
        worker_join(pids[i]);
    assert_int_equal(atomic_load(&inside->counter), 2 * 4 * 25);
    assert_nothing_left();
    TELL("ACL DELUSER poller");
}

static _Atomic bool enough;

static void *wait_again_and_again(void *lock) {
    while (!atomic_load(&enough)) {
        hf_hold *hold;
        if (hf_lock_acquire(lock, 1000, &hold) == HF_OK)
            give_back(hold, HF_OK);
    }
    return NULL;
}

/* One client may not listen for a while, and the other's self-test fails twice. Within a minute
 * both get grants again, and so queue. */
static void test_a_client_that_polls_hears_of_grants_again_within_a_minute(void **state) {
    enum { MINUTE_MS = 60000, SLACK_MS = 3000 };
    static const char *const names[] = {"refused", "unlucky"};
    hf_client *clients[2];
    hf_lock *held_by_others[2], *wanted[2];
    hf_hold *holds[2];
    pthread_t threads[2];
    bool queues[2] = {false, false};
    (void)state;
    proxy *way = proxy_start();
    atomic_store(&way->again, 1);
    proxy_next(way, REFUSE, hf_script_selftest.sha1);
    client = open_client();
    clients[0] = must_open(poller_url());
    clients[1] = must_open(text("redis://127.0.0.1:%d", way->port));
    atomic_store(&enough, false);
    for (int i = 0; i < 2; i++) {
        held_by_others[i] = must_lock(client, names[i], NULL);
        wanted[i] = must_lock(clients[i], names[i], NULL);
        holds[i] = held(held_by_others[i]);
        assert_status(hf_lock_acquire(wanted[i], 500, NULL), HF_ETIMEOUT); /* the acquire polls */
        must(pthread_create(&threads[i], NULL, wait_again_and_again, wanted[i]) == 0);
    }
    assert_soon(atomic_load(&way->mishaps) == 2);
    TELL("ACL SETUSER poller allchannels");
    for (int64_t since = now_ms(); !(queues[0] && queues[1]); sleep_ms(10)) {
        for (int i = 0; i < 2; i++)
            queues[i] = queues[i] || queued(names[i]) > 0;
        if (now_ms() > since + MINUTE_MS + SLACK_MS)
            break;
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++) {
        give_back(holds[i], HF_OK);
        pthread_join(threads[i], NULL);
        hf_lock_close(held_by_others[i]);
        hf_lock_close(wanted[i]);
        hf_client_close(clients[i]);
    }
    proxy_stop(way);
    TELL("ACL DELUSER poller");
    for (int i = 0; i < 2; i++)
        if (!queues[i])
            fail_msg("after a minute the %s one still asks", names[i]);
}

/* H5: the releaser's user needs the waiter's channel. */
static void test_a_releaser_without_the_right_to_publish_releases_and_is_followed(void **state) {
    (void)state;
    hf_client *releaser = must_open(poller_url());
    client = open_client();
    hf_lock *theirs = must_lock(releaser, "k", NULL), *lock = must_lock(client, "k", NULL);
    hf_hold *hold;
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    waiter *first = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    waiter *second = waiter_start(lock, 20000);
    assert_soon(queued("k") == 2);
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    waiter_join(first, HF_OK);
    assert_in_range(first->done_at - since, 0, 3000 + 300);
    give_back(first->hold, HF_OK); /* this client may publish */
    waiter_join(second, HF_OK);
    give_back(second->hold, HF_OK);
    hf_lock_close(theirs);
    hf_lock_close(lock);
    hf_client_close(releaser);
    TELL("ACL DELUSER poller");
    assert_nothing_left();
}

/* pthread_cancel(): the cancelled thread reads the grants for all. */
static void test_a_thread_that_is_cancelled_goes_on_to_the_end_of_its_call(void **state) {
    (void)state;
    client = open_client();
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF);
    hf_hold *first = held(lock);
    waiter *behind[3];
    for (int i = 0; i < 3; i++) {
        behind[i] = waiter_start(lock, i == 0 ? 300 * SLOW : 20000);
        assert_soon(queued("k") == i + 1);
    }
    pthread_cancel(behind[0]->thread);
    waiter_join(behind[0], HF_ETIMEOUT);
    assert_int_equal(queued("k"), 2);
    for (int i = 1; i < 3; i++) {
        int64_t since = now_ms();
        give_back(i == 1 ? first : behind[i - 1]->hold, HF_OK);
        waiter_join(behind[i], HF_OK);
        assert_in_range(behind[i]->done_at - since, 0, 500 * SLOW);
    }
    give_back(behind[2]->hold, HF_OK);

    kill(the_server, SIGSTOP); /* in the middle of a request on a connection of its own */
    waiter *alone = waiter_start(lock, 20000);
    sleep_ms(20 * SLOW);
    pthread_cancel(alone->thread);
    sleep_ms(20 * SLOW);
    kill(the_server, SIGCONT);
    waiter_join(alone, HF_OK);
    give_back(alone->hold, HF_OK);
    hf_lock_close(lock);
    assert_nothing_left();
}

/* A release that other acquires may wait for is preceded by a command in the same write, so that
 * the server writes to the waiter first. A release without a waiter has no such command. */
static void test_only_a_release_after_a_wait_has_a_command_before_it(void **state) {
    (void)state;
    client = open_client();
    hf_lock *lock = lease_lock(client, "k", 10000, HF_OFF);
    hf_hold *first = held(lock);
    int64_t before = stat_calls("ping");
    waiter *behind = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    give_back(first, HF_OK);
    waiter_join(behind, HF_OK);
    assert_int_equal(stat_calls("ping"), before);
    give_back(behind->hold, HF_OK);
    assert_int_equal(stat_calls("ping"), before + 1);
    hf_lock_close(lock);
    assert_nothing_left();
}

/* ------------------------------------------------------------------- */

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_64_waiters_of_4_processes_are_served_in_the_order_they_came),
        TEST(test_a_clock_that_steps_back_lets_nobody_in_front),
        TEST(test_a_handoff_costs_two_commands_however_many_wait),
        TEST(test_only_a_release_after_a_wait_has_a_command_before_it),
        TEST(test_no_waiter_is_lost_over_20000_handoffs),
        TEST(test_after_a_killed_holder_the_next_holds_when_its_lease_ends),
        TEST(test_after_a_killed_holder_that_was_waited_for_too),
        TEST(test_after_a_killed_head_waiter_the_one_behind_gets_the_next_release),
        TEST(test_a_waiter_stopped_past_its_lease_returns_with_a_hold_that_is_valid),
        TEST(test_a_grant_read_late_lasts_no_longer_than_on_the_server),
        TEST(test_a_stopped_client_with_many_waiters_costs_one_claim_lease),
        TEST(test_a_stopped_waiter_for_a_lock_that_never_expires_costs_one_claim_lease),
        TEST(test_a_pushed_grant_is_claimed),
        TEST(test_another_acquire_of_the_owner_that_queues_nests_in_its_first),
        TEST(test_a_wait_that_times_out_leaves_nothing_behind),
        TEST(test_a_timeout_that_races_the_release_leaves_nothing_behind),
        TEST(test_a_signal_that_races_the_release_leaves_nothing_behind),
        TEST(test_a_signal_after_the_grant_leaves_nothing_behind),
        TEST(test_a_thread_that_is_cancelled_goes_on_to_the_end_of_its_call),
        TEST(test_a_waiter_cancelled_by_close_leaves_nothing_behind),
        TEST(test_a_close_that_races_the_grant_leaves_nothing_behind),
        TEST(test_a_foreign_lock_is_followed_soon_after_its_end_and_in_order),
        TEST(test_a_foreign_lock_without_an_end_is_given_one_if_that_is_wanted),
        TEST(test_a_lock_of_ours_that_has_lost_its_ends_is_given_one_too),
        TEST(test_without_the_right_to_subscribe_it_works_by_asking),
        TEST(test_a_client_that_polls_hears_of_grants_again_within_a_minute),
        TEST(test_a_releaser_without_the_right_to_publish_releases_and_is_followed),
    };
    return RUN_TESTS(tests, count, words);
}

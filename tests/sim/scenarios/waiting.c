/* A waiter gets the lock soon after it is free, whatever happens to messages, connections and the
 * server's clock. */
#include "both.h"

static hf_lock *lock, *theirs;
static hf_hold *hold; /* the other client's */

static int set_up(void **state) {
    int result = begin_both(state, 2000);
    lock = lease_lock(client, "k", 60000, HF_OFF);
    theirs = lease_lock(other, "k", 60000, HF_OFF);
    hold = held(theirs);
    return result;
}

static int tear_down(void **state) {
    hf_lock_close(lock);
    hf_lock_close(theirs);
    return end_both(state);
}

static void assert_had_within(waiter *w, int64_t since, int64_t ms) {
    waiter_join(w, HF_OK);
    if (w->done_at - since > ms)
        fail_msg("it waited for %lld ms for a free lock", (long long)(w->done_at - since));
    give_back(w->hold, HF_OK);
}

static int requests;

static void count_requests(int which, const sim_bytes *words, size_t count) {
    (void)which;
    requests += count > 1 && words[1].length == 40;
}

/* H293: the server has begun anew with older data, in which another hold of the owner stands. The
 * client has seen a later fence, and does not nest in that hold. */
static void test_an_older_hold_of_its_owner_keeps_no_acquire_asking(void **state) {
    hf_lock *mine = open_lock(client, "old", "me", OPTIONS(.lease_ms = 60000, .renew = HF_OFF)),
            *others = open_lock(other, "old", "me", OPTIONS(.lease_ms = 60000, .renew = HF_OFF));
    hf_hold *before = held(others), *none;
    (void)state;
    servers_restore(0, 500 * SIM_MS, 10 * SIM_MS);
    give_back(before, HF_OK);
    give_back(held(mine), HF_OK);
    sleep_ms(1000);
    servers_watch = count_requests;
    for (int started = 0; started < 2; started++) {
        int64_t since = now_ms();
        requests = 0;
        if (started) {
            assert_true(hf_client_fd(client) >= 0);
            assert_status(hf_lock_acquire_start(mine, "me", 2, 1000, NULL, 1), HF_OK);
            assert_status(next_of(client).status, HF_ETIMEOUT);
        } else {
            assert_status(hf_lock_acquire(mine, 1000, &none), HF_ETIMEOUT);
        }
        assert_in_range(now_ms() - since, 900, 3100);
        assert_in_range(requests, 1, 400);
    }
    assert_status(hf_lock_acquire(mine, 0, &none), HF_EBUSY);
    servers_watch = NULL;
    hf_lock_close(mine);
    hf_lock_close(others);
}

/* ----------------------------------------------- Where no messages arrive */

/* F6 */
static void test_threads_that_wait_poll_when_their_client_has_to(void **state) {
    enum { THREADS = 3 };
    waiter *waiters[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = waiter_start(lock, 25000);
        assert_soon(queued("k") == i + 1);
    }
    TELL("ACL SETUSER default resetchannels");
    sleep_ms(1000);
    give_back(hold, HF_OK);
    int64_t since = now_ms();
    for (int i = 0; i < THREADS; i++)
        assert_soon(atomic_load(&waiters[0]->done) || atomic_load(&waiters[1]->done) ||
                    atomic_load(&waiters[2]->done));
    assert_in_range(now_ms() - since, 0, 1000);
    sleep_ms(2000);
    TELL("ACL SETUSER default allchannels");
    /* Each thread releases the lock once. */
    for (int left = THREADS; left > 0;)
        for (int i = 0; i < THREADS; i++) {
            sleep_ms(1);
            if (waiters[i] == NULL || !atomic_load(&waiters[i]->done))
                continue;
            assert_in_range(now_ms() - since, 0, 10000);
            waiter_join(waiters[i], HF_OK);
            give_back(waiters[i]->hold, HF_OK);
            waiters[i] = NULL;
            left--;
        }
}

static void end_subscription(void) {
    TELL("CLIENT KILL TYPE pubsub");
    servers_limit(0, (int)sim_redis_peers(servers_redis(0)));
}

/* F8: the server is full, and requests still work. */
static void test_a_thread_asks_while_its_subscription_cannot_be_made_again(void **state) {
    (void)state;
    waiter *w = waiter_start(lock, 25000);
    assert_soon(queued("k") == 1);
    end_subscription();
    sleep_ms(1000);
    give_back(hold, HF_OK);
    assert_had_within(w, now_ms(), 5000);
}

static void test_what_is_started_asks_while_its_subscription_cannot_be_made_again(void **state) {
    (void)state;
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 25000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    end_subscription();
    sleep_ms(1000);
    give_back(hold, HF_OK);
    hf_completion done = completion_within(client, 5000);
    assert_int_equal(done.kind, HF_KIND_ACQUIRE);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
}

/* H262: the second op waits behind the first, and has not asked yet. */
static void test_what_waits_outlasts_a_subscription_without_a_thread(void **state) {
    (void)state;
    sim_may_grow(sim_self(), false);
    for (int i = 1; i <= 2; i++)
        assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, i), HF_OK);
    hf_completion done = completion_within(client, 4000);
    sim_may_grow(sim_self(), true);
    if (done.kind != HF_KIND_NONE)
        fail_msg("a wait without a limit ended: %s", done.error.message);
    give_back(hold, HF_OK);
    for (int i = 1; i <= 2; i++) {
        done = next_of(client);
        assert_status(done.status, HF_OK);
        give_back(done.hold, HF_OK);
    }
}

/* ------------------------------------------------- Without a subscription */

/* H195: the server answers the first request, and is gone before the acquire has a place. */
static void assert_not_held(hf_status status, const char *why) {
    if (status != HF_ECONNECT)
        fail_msg("an outage is told as %s: %s", hf_status_name(status), why);
}

static void test_an_outage_before_a_place_is_not_told_as_held(void **state) {
    (void)state;
    end_subscription();
    waiter *w = waiter_start(lock, 1000);
    sleep_ms(100);
    sim_server_pause(servers_at(0), true);
    pthread_join(w->thread, NULL);
    sim_server_pause(servers_at(0), false);
    assert_not_held(w->status, w->why);
    give_back(hold, HF_OK);
}

static void test_an_outage_before_what_was_started_has_a_place_is_not_told_as_held(void **state) {
    (void)state;
    end_subscription();
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 1000, NULL, 1), HF_OK);
    sleep_ms(100);
    sim_server_pause(servers_at(0), true);
    hf_completion done = next_of(client);
    sim_server_pause(servers_at(0), false);
    assert_not_held(done.status, done.error.message);
    give_back(hold, HF_OK);
}

/* H245: the server answers requests, and accepts no subscription. */
static void test_a_wait_without_a_limit_outlasts_a_subscription_that_fails(void **state) {
    (void)state;
    for (int starts = 0; starts < 2; starts++) {
        end_subscription();
        waiter *w = starts ? NULL : waiter_start(lock, HF_FOREVER);
        if (starts)
            assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
        sleep_ms(6000);
        give_back(hold, HF_OK);
        if (starts) {
            hf_completion done = completion_within(client, 1000);
            assert_status(done.status, HF_OK);
            give_back(done.hold, HF_OK);
        } else {
            assert_had_within(w, now_ms(), 1000);
        }
        servers_limit(0, 0);
        hold = held(theirs);
    }
    give_back(hold, HF_OK);
}

static void test_a_wait_that_was_answered_outlasts_a_changed_password(void **state) {
    (void)state;
    TELL("ACL SETUSER brief on >one ~* &* +@all");
    hf_client *brief = open_at(text("unix://brief:one@%s", unix_url() + strlen("unix://")));
    hf_lock *its = lease_lock(brief, "k", 60000, HF_OFF);
    assert_status(hf_lock_acquire(its, 0, NULL), HF_EBUSY); /* its connection is open */
    TELL("ACL SETUSER brief resetpass >two");
    waiter *w = waiter_start(its, 10000);
    sleep_ms(2000);
    give_back(hold, HF_OK);
    assert_had_within(w, now_ms(), 4000);
    hf_lock_close(its);
    hf_client_close(brief);
    TELL("ACL DELUSER brief");
}

/* H246: no copy of the waiter's request is under way. */
static void test_a_close_buries_no_waiter_that_was_answered(void **state) {
    (void)state;
    hf_client *brief = open_client();
    hf_lock *briefs = lease_lock(brief, "k", 60000, HF_OFF);
    assert_true(hf_client_fd(brief) >= 0);
    assert_status(hf_lock_acquire_start(briefs, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    hf_lock_close(briefs);
    hf_client_close(brief);
    assert_int_equal(queued("k"), 0);
    assert_int_equal(NUMBER("EVAL %s 0", "return #redis.call('KEYS', '*:hf1:d')"), 0);
    give_back(hold, HF_OK);
}

/* H247: the replicas were never asked. */
static void test_a_claim_that_is_refused_is_not_told_as_too_few_replicas(void **state) {
    (void)state;
    TELL("ACL SETUSER poor on >secret ~* &* +@all -pexpireat");
    hf_client *poor = open_at(text("unix://poor:secret@%s", unix_url() + strlen("unix://")));
    hf_lock *its = open_lock(poor, "k", NULL, OPTIONS(.lease_ms = 60000, .replicas = 1));
    waiter *w = waiter_start(its, 20000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_ESERVER);
    if (strstr(w->why, "permission") == NULL)
        fail_msg("it is told: %s", w->why);
    hf_lock_close(its);
    hf_client_close(poor);
    TELL("ACL DELUSER poor");
}

/* H196: the lock becomes free soon after the first request, and no message can report it. */
static void test_what_is_free_when_the_time_is_up_is_not_told_as_held(void **state) {
    (void)state;
    end_subscription();
    waiter *w = waiter_start(lock, 1000);
    sleep_ms(100);
    give_back(hold, HF_OK);
    assert_had_within(w, now_ms(), 1000);
    hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 1000, NULL, 1), HF_OK);
    sleep_ms(100);
    give_back(hold, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
}

/* H283: the end of a writer's wait lets in a reader that came after the writer. */
static void test_who_waited_too_is_not_told_as_the_holder(void **state) {
    (void)state;
    hf_lock *reads = open_lock(other, "m", "ann", OPTIONS(.lease_ms = 10000, .mode = HF_SHARED)),
            *waits = open_lock(other, "m", "cat", OPTIONS(.lease_ms = 10000, .mode = HF_SHARED)),
            *writes = lease_lock(client, "m", 10000, HF_ON);
    hf_hold *read = held(reads);
    assert_status(hf_lock_acquire_start(writes, NULL, 0, 1000, NULL, 1), HF_OK);
    assert_soon(queued("m") == 1);
    assert_status(hf_lock_acquire_start(waits, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_soon(queued("m") == 2);
    hf_completion late = next_of(client), let_in = next_of(other);
    assert_status(late.status, HF_ETIMEOUT);
    assert_non_null(strstr(late.error.message, "at last by 'ann'"));
    assert_status(let_in.status, HF_OK);
    give_back(let_in.hold, HF_OK);
    give_back(read, HF_OK);
    hf_lock_close(reads);
    hf_lock_close(waits);
    hf_lock_close(writes);
}

/* H220: the last request of the call, and the requests after it, are answered late. */
static void test_what_is_asked_in_the_end_takes_no_longer_than_the_call_may(void **state) {
    (void)state;
    end_subscription();
    assert_status(hf_lock_acquire(lock, 50, NULL), HF_ETIMEOUT); /* the server knows the scripts */
    int64_t since = now_ms();
    waiter *w = waiter_start(lock, 1000);
    sleep_ms(100);
    give_back(hold, HF_OK);
    sleep_ms(800);
    atomic_store(&way->delay_ms, 950);
    pthread_join(w->thread, NULL);
    atomic_store(&way->delay_ms, 0);
    if (w->done_at - since > 3050)
        fail_msg("an acquire with 1 s took %lld ms", (long long)(w->done_at - since));
    assert_int_not_equal(w->status, HF_ETIMEOUT);
    assert_stays_free("k", 5000);
}

static void signal_all(void *process) { sim_interrupt(process); }

static void *acquire_until_a_signal(void *argument) {
    waiter *w = argument;
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_INTERRUPTIBLE};
    w->status = hf_lock_acquire_as(lock, NULL, 0, 1000, &options, &w->hold);
    w->done_at = now_ms();
    return NULL;
}

/* Seed 36000179: the same, and signals arrive meanwhile. */
static void test_signals_give_the_end_of_a_wait_no_time_of_its_own(void **state) {
    (void)state;
    waiter w = {.lock = lock};
    end_subscription();
    assert_status(hf_lock_acquire(lock, 50, NULL), HF_ETIMEOUT); /* the server knows the scripts */
    int64_t since = now_ms();
    assert_int_equal(pthread_create(&w.thread, NULL, acquire_until_a_signal, &w), 0);
    sleep_ms(100);
    give_back(hold, HF_OK);
    sleep_ms(800);
    atomic_store(&way->delay_ms, 950);
    for (int ms = 1100; ms < 2100; ms += 50) /* at one of them it asks once more */
        sim_at(sim_now() + ms * SIM_MS, signal_all, sim_self());
    pthread_join(w.thread, NULL);
    atomic_store(&way->delay_ms, 0);
    if (w.done_at - since > 3050)
        fail_msg("an acquire with 1 s took %lld ms", (long long)(w.done_at - since));
    assert_int_not_equal(w.status, HF_ETIMEOUT);
    assert_stays_free("k", 5000);
}

/* H222: each acquire has a client of its own, which asks less and less often where no messages
 * arrive. */
static void test_no_memory_to_ask_in_the_end_is_not_told_as_held(void **state) {
    (void)state;
    for (int n = 0; n < 60; n++) {
        alarm(200);
        hf_client *far = open_with(tcp_url(), 2000, 2000);
        warm_up(far);
        hf_lock *mine = lease_lock(far, "k", 60000, HF_OFF);
        end_subscription();
        assert_status(hf_lock_acquire_start(mine, NULL, 0, 1000, NULL, 1), HF_OK);
        sleep_ms(100);
        give_back(hold, HF_OK);
        sleep_ms(890);
        sim_may_lack_memory(sim_self(), true);
        sim_set.no_memory = 0.2;
        sleep_ms(200);
        sim_set.no_memory = 0;
        sim_may_lack_memory(sim_self(), false);
        hf_completion done = next_of(far);
        if (done.status == HF_ETIMEOUT)
            fail_msg("without memory a free lock is told so: %s", done.error.message);
        if (done.status == HF_OK)
            give_back(done.hold, HF_OK);
        hf_lock_close(mine);
        hf_client_close(far);
        servers_limit(0, 0);
        assert_soon(NUMBER("EXISTS k") == 0);
        hold = held(theirs);
    }
    give_back(hold, HF_OK);
}

/* --------------------------------------------------------- The stored rate */

/* A pass waits for the one before it, and follows a rate that changes meanwhile. */
static void test_a_pass_that_waits_follows_the_stored_rate(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options,
                               .mode = HF_SHARED,
                               .lease_ms = HF_STORED,
                               .renew = HF_OFF,
                               .reentrant = HF_OFF};
    hf_lock *gate;
    char token[HF_TOKEN_MAX];
    size_t length;
    give_back(hold, HF_OK);
    assert_status(hf_lock_open(client, "g", 1, NULL, 0, &options, &gate), HF_OK);
    assert_status(hf_lock_acquire(gate, 0, NULL), HF_ELIMIT);
    assert_status(hf_lock_limit(gate, 1, 60000, NULL, NULL), HF_OK);
    int64_t since = now_ms();
    hf_hold *first = held(gate);
    assert_in_range(hf_hold_remaining_ms(first), 55000, 60000);
    assert_status(hf_hold_hand_over(first, token, sizeof token, &length), HF_OK);
    assert_status(hf_lock_acquire_start(gate, NULL, 0, 100000, NULL, 1), HF_OK);
    assert_soon(queued("g") == 1);
    assert_status(hf_lock_limit(gate, 1, 20000, NULL, NULL), HF_OK);
    hf_completion done = completion_within(client, 90000);
    assert_status(done.status, HF_OK);
    assert_in_range(now_ms() - since, 59000, 65000);
    assert_status(hf_hold_renew(done.hold), HF_OK);
    assert_in_range(hf_hold_remaining_ms(done.hold), 18000, 20000);
    hf_hold_close(first);
    give_back(done.hold, HF_OK);
    hf_lock_close(gate);
}

/* ---------------------------------------------------------- Lost messages */

static void *begin_once(void *argument) {
    waiter *w = argument;
    w->status = hf_once_begin(w->lock, 20000, NULL, NULL, 0, &w->hold);
    w->done_at = now_ms();
    return NULL;
}

/* F9: one waiter asks within 3 s, and the result that it gets is for all. */
static void test_a_lost_message_of_a_result_delays_none_by_more_than_a_recheck(void **state) {
    enum { THREADS = 5 };
    waiter waiters[THREADS];
    hf_hold *once;
    (void)state;
    give_back(hold, HF_OK);
    assert_status(hf_once_begin(theirs, 0, NULL, NULL, 0, &once), HF_OK);
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = (waiter){.lock = lock};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, begin_once, &waiters[i]), 0);
        assert_soon(queued("k") == i + 1);
    }
    atomic_store(&way->loses_grants, true);
    assert_status(hf_once_finish(once, HF_ONCE_DONE, "done", 4, 60000), HF_OK);
    hf_hold_close(once);
    int64_t since = now_ms();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].status, HF_EDONE);
        assert_in_range(waiters[i].done_at - since, 0, 3500);
        hf_hold_close(waiters[i].hold);
    }
}

/* H197: the grant that a re-check returns is older than one that the client has had since. */
static void test_a_permit_whose_message_is_lost_is_not_given_to_another(void **state) {
    (void)state;
    give_back(hold, HF_OK);
    hf_lock *pools[2];
    hf_hold *holds[3];
    for (int i = 0; i < 2; i++)
        pools[i] = open_lock(i == 0 ? client : other, "p", NULL,
                             OPTIONS(.mode = HF_SHARED, .permits = 3, .lease_ms = 60000,
                                     .renew = HF_OFF, .reentrant = HF_OFF));
    for (int i = 0; i < 3; i++)
        holds[i] = held(pools[1]);
    waiter *w = waiter_start(pools[0], 20000);
    assert_soon(queued("p") == 1);
    sleep_ms(1000);
    atomic_store(&way->loses_grants, true);
    give_back(holds[0], HF_OK);
    assert_soon(atomic_load(&way->grants_lost) == 1);
    atomic_store(&way->loses_grants, false);
    give_back(holds[1], HF_OK);
    hf_hold *later = held(pools[0]);
    int64_t since = now_ms();
    waiter *next = waiter_start(pools[1], 20000);
    waiter_join(w, HF_OK);
    assert_in_range(w->done_at - since, 0, 3500);
    assert_false(atomic_load(&next->done));
    give_back(w->hold, HF_OK);
    give_back(later, HF_OK);
    assert_had_within(next, now_ms(), 1000);
    give_back(holds[2], HF_OK);
    for (int i = 0; i < 2; i++)
        hf_lock_close(pools[i]);
}

/* F12: a hold that a message has delivered belongs to its thread, whatever the answer to a late
 * copy of the request is; here it reports a result that another caller has left since. */
static void test_an_answer_that_comes_after_the_grant_changes_nothing(void **state) {
    hf_lock_info info = {.size = sizeof info};
    hf_hold *once;
    (void)state;
    /* A started acquire waits as well, for which the keeper reads while the thread's request is
     * under way. */
    hf_lock *kept = open_lock(other, "l", NULL, NULL), *wanted = open_lock(client, "l", NULL, NULL);
    hf_hold *of_others = held(kept);
    assert_status(hf_lock_acquire_start(wanted, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(queued("l") == 1);
    atomic_store(&way->stall_ms, 200);
    proxy_next(way, LOSE_REPLY, hf_script_acquire.sha1);
    waiter w = {.lock = lock};
    assert_int_equal(pthread_create(&w.thread, NULL, begin_once, &w), 0);
    assert_soon(atomic_load(&way->mishaps) == 1);
    proxy_next(way, HOLD_REQUEST, hf_script_acquire.sha1);
    assert_soon(atomic_load(&way->mishaps) == 2);
    give_back(hold, HF_OK);
    assert_status(hf_lock_inspect(theirs, 0, &info, NULL), HF_OK);
    assert_status(hf_lock_break(theirs, info.fence, 0), HF_OK);
    assert_status(hf_once_begin(theirs, 0, NULL, NULL, 0, &once), HF_OK);
    assert_status(hf_once_finish(once, HF_ONCE_DONE, "done", 4, 60000), HF_OK);
    hf_hold_close(once);
    atomic_store(&way->holds_request, false);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, HF_OK);
    assert_null(hf_hold_result(w.hold, NULL));
    assert_int_not_equal(hf_hold_state(w.hold), HF_STATE_RELEASED);
    hf_hold_close(w.hold);
    give_back(of_others, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    hf_lock_close(kept);
    hf_lock_close(wanted);
}

/* One waiting thread reads for all, and passes the role on when it gets the lock. */
static void test_each_handoff_to_the_next_thread_is_prompt(void **state) {
    enum { THREADS = 5 };
    waiter *waiters[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = waiter_start(lock, 20000);
        assert_soon(queued("k") == i + 1);
    }
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_had_within(waiters[i], since, 100);
        since = now_ms();
    }
}

/* Their client has just waited for the lock, so that each joins the queue by the short way. */
static void test_who_waits_is_served_in_the_order_of_arrival(void **state) {
    enum { THREADS = 8 };
    waiter *waiters[THREADS];
    (void)state;
    waiter *first = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(first, HF_OK);
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = waiter_start(lock, 20000);
        assert_soon(queued("k") == i + 1);
    }
    give_back(first->hold, HF_OK);
    for (int i = 0; i < THREADS; i++) {
        sleep_ms(100);
        for (int j = i + 1; j < THREADS; j++)
            assert_false(atomic_load(&waiters[j]->done));
        assert_had_within(waiters[i], now_ms(), 0);
    }
}

/* The key is deleted by hand. */
static void test_a_try_passes_nobody_who_waits(void **state) {
    hf_hold *none;
    (void)state;
    hf_client *third = open_client();
    hf_lock *tried = lease_lock(third, "k", 60000, HF_OFF);
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    TELL("DEL k");
    assert_status(hf_lock_acquire(tried, 0, &none), HF_EBUSY);
    assert_had_within(w, now_ms(), 3500);
    hf_lock_close(tried);
    hf_client_close(third);
    hf_hold_release(hold);
    hf_hold_close(hold);
}

static hf_lock *reader_of(hf_client *of, const char *owner) {
    return open_lock(of, "k", owner,
                     OPTIONS(.lease_ms = 60000, .renew = HF_OFF, .mode = HF_SHARED));
}

/* One reader has another form than two, and a release of either must not look at a queue that is
 * absent. */
static void test_a_writer_behind_readers_is_not_passed_and_is_next(void **state) {
    (void)state;
    hf_lock *reads = reader_of(other, "one"), *also = reader_of(other, "two"),
            *late = reader_of(client, "late");
    give_back(hold, HF_OK);
    for (int readers = 1; readers <= 2; readers++) {
        hf_hold *first = held(reads), *second = readers == 2 ? held(also) : NULL, *none;
        waiter *w = waiter_start(lock, 20000);
        assert_soon(queued("k") == 1);
        assert_status(hf_lock_acquire(late, 0, &none), HF_EBUSY);
        give_back(first, HF_OK);
        if (second != NULL)
            give_back(second, HF_OK);
        assert_had_within(w, now_ms(), 1000);
    }
    hf_lock_close(reads);
    hf_lock_close(also);
    hf_lock_close(late);
}

/* The lock stays until its last reader has ended, not only the first. */
static void test_a_reader_that_joins_outlasts_the_first(void **state) {
    (void)state;
    hf_lock *first = open_lock(other, "k", "first",
                               OPTIONS(.lease_ms = 1000, .renew = HF_OFF, .mode = HF_SHARED));
    hf_lock *second = reader_of(client, "second");
    give_back(hold, HF_OK);
    hf_hold *ended = held(first), *lasts = held(second), *none;
    sleep_ms(2000);
    assert_status(hf_hold_check(lasts), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
    give_back(lasts, HF_OK);
    give_back(ended, HF_ELOST);
    hf_lock_close(first);
    hf_lock_close(second);
}

/* ------------------------------------------------------------ Head starts */

static hf_lock *ahead_of(hf_client *of, int64_t ahead_ms) {
    return open_lock(of, "k", NULL,
                     OPTIONS(.lease_ms = 60000, .renew = HF_OFF, .ahead_ms = ahead_ms));
}

/* At the bound: a head start of 5 s passes the thread that arrived 3 s before, not the one that
 * arrived 6 s before. */
static void test_a_head_start_passes_those_alone_who_came_within_it(void **state) {
    (void)state;
    hf_lock *urgent = ahead_of(client, 5000);
    waiter *early = waiter_start(lock, 25000);
    assert_soon(queued("k") == 1);
    sleep_ms(3000);
    waiter *late = waiter_start(lock, 25000);
    assert_soon(queued("k") == 2);
    sleep_ms(3000);
    waiter *third = waiter_start(urgent, 25000);
    assert_soon(queued("k") == 3);
    give_back(hold, HF_OK);
    assert_had_within(early, now_ms(), 100);
    assert_had_within(third, now_ms(), 100);
    assert_had_within(late, now_ms(), 100);
    hf_lock_close(urgent);
}

/* A waiter that loses its place, however it does, gets the same place back without another head
 * start. */
static void test_a_head_start_counts_once(void **state) {
    (void)state;
    hf_lock *urgent = ahead_of(client, 5000);
    waiter *first = waiter_start(lock, 25000);
    assert_soon(queued("k") == 1);
    sleep_ms(7000);
    waiter *second = waiter_start(urgent, 25000);
    assert_soon(queued("k") == 2);
    TELL("DEL {k}k:hf1:q");
    assert_soon(queued("k") == 2); /* by their re-checks */
    give_back(hold, HF_OK);
    assert_had_within(first, now_ms(), 100);
    assert_had_within(second, now_ms(), 100);
    hf_lock_close(urgent);
}

/* The timeout counts from the arrival: the server does not skip the waiter before. */
static void test_a_head_start_takes_nothing_from_the_timeout(void **state) {
    (void)state;
    hf_lock *urgent = ahead_of(client, 20000);
    waiter *w = waiter_start(urgent, 15000);
    assert_soon(queued("k") == 1);
    sleep_ms(10000);
    give_back(hold, HF_OK);
    assert_had_within(w, now_ms(), 100);
    hf_lock_close(urgent);
}

/* The head start would pass all waiters that arrived before the clock was set back. */
static void test_a_head_start_does_not_count_behind_a_clock_that_was_set_back(void **state) {
    (void)state;
    hf_lock *urgent = ahead_of(client, 5000);
    waiter *first = waiter_start(lock, 25000);
    assert_soon(queued("k") == 1);
    sim_server_step(servers_at(0), -3600 * SIM_S);
    sleep_ms(1000);
    waiter *second = waiter_start(urgent, 25000);
    assert_soon(queued("k") == 2);
    assert_status(hf_lock_break(theirs, hf_hold_fence(hold), 0), HF_OK);
    assert_had_within(first, now_ms(), 100);
    assert_had_within(second, now_ms(), 100);
    hf_hold_release(hold);
    hf_hold_close(hold);
    sim_server_step(servers_at(0), 3600 * SIM_S);
    hf_lock_close(urgent);
}

/* A reader with a head start is granted the lock beside the readers, and the writer is passed once.
 */
static void test_a_reader_with_a_head_start_passes_a_writer(void **state) {
    (void)state;
    hf_lock *urgent =
        open_lock(client, "k", "urgent",
                  OPTIONS(.lease_ms = 60000, .renew = HF_OFF, .mode = HF_SHARED, .ahead_ms = 5000));
    hf_lock *reads = reader_of(other, "one");
    give_back(hold, HF_OK);
    hf_hold *reading = held(reads);
    waiter *writer = waiter_start(lock, 25000);
    assert_soon(queued("k") == 1);
    sleep_ms(1000);
    int64_t since = now_ms();
    waiter *second = waiter_start(urgent, 25000);
    assert_had_within(second, since, 100);
    assert_int_equal(queued("k"), 1);
    sleep_ms(5000);
    second = waiter_start(urgent, 25000);
    assert_soon(queued("k") == 2);
    give_back(reading, HF_OK);
    assert_had_within(writer, now_ms(), 100);
    assert_had_within(second, now_ms(), 100);
    hf_lock_close(urgent);
    hf_lock_close(reads);
}

/* ------------------------------------------------------ Dead connections */

/* F10: a request without an answer is ahead of the renewal. */
static void test_a_renewal_does_not_wait_for_an_older_request_without_an_answer(void **state) {
    (void)state;
    hf_client *far = open_with(tcp_url(), 2000, 2000);
    warm_up(far);
    hf_lock *renewed = lease_lock(far, "r", 2000, HF_ON),
            *another = lease_lock(far, "x", 2000, HF_OFF);
    hf_hold *mine = held(renewed);
    sleep_ms(700); /* its first renewal has been sent */
    sim_deaden(HERE, SERVER, 1);
    assert_status(hf_lock_acquire_start(another, NULL, 0, 0, NULL, 7), HF_OK);
    for (int64_t until = now_ms() + 5000; now_ms() < until; sleep_ms(5))
        assert_int_equal(hf_hold_state(mine), HF_STATE_HELD);
    hf_hold_release(mine);
    hf_hold_close(mine);
    hf_lock_close(renewed);
    hf_lock_close(another);
    hf_client_close(far);
}

/* F10: the grant has arrived, and the answer that it overtook never does. */
static void test_a_grant_does_not_wait_for_an_answer_that_does_not_come(void **state) {
    (void)state;
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 25000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    proxy_next(way, GO_DEAD, hf_script_acquire.sha1);
    assert_soon(atomic_load(&way->mishaps) == 1);
    give_back(hold, HF_OK);
    hf_completion done = completion_within(client, 500);
    assert_int_equal(done.kind, HF_KIND_ACQUIRE);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
}

/* H36: if the thread took the grant at once, a copy of its request would be under way, and the
 * release would bury the id. */
static void test_a_grant_that_overtakes_the_answer_to_its_request_leaves_no_dead_id(void **state) {
    hf_client *clients[2] = {open_client(), open_client()};
    hf_lock *locks[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(hf_client_fd(clients[i]) >= 0);
        locks[i] = lease_lock(clients[i], "k", 60000, HF_OFF);
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, 25000, NULL, 1), HF_OK);
        assert_soon(queued("k") == i + 1);
    }
    give_back(hold, HF_OK);
    for (int i = 0, turn = 0; i < 600; i++) { /* the turn goes back and forth */
        hf_completion done = {.kind = HF_KIND_NONE};
        for (; done.kind == HF_KIND_NONE; turn = 1 - turn)
            done = completion_within(clients[turn], 1);
        assert_status(done.status, HF_OK);
        int its = 1 - turn;
        assert_status(hf_hold_release_start(done.hold, 2), HF_OK);
        assert_status(next_of(clients[its]).status, HF_OK);
        hf_hold_close(done.hold);
        assert_status(hf_lock_acquire_start(locks[its], NULL, 0, 25000, NULL, 1), HF_OK);
    }
    assert_int_equal(NUMBER("EVAL %s 0", "return #redis.call('KEYS', '*:hf1:d')"), 0);
    for (int i = 0; i < 2; i++) {
        hf_lock_close(locks[i]);
        hf_client_close(clients[i]);
    }
    hold = held(theirs);
}

/* ---------------------------------------------------------- When to ask */

/* F17: only by the server's clock has the waiter's place ended. */
static void test_a_waiter_whom_a_step_of_the_clock_has_ended_queues_anew(void **state) {
    (void)state;
    waiter *w = waiter_start(lock, 20000);
    assert_status(hf_hold_extend(hold, HF_NEVER, HF_EXTEND_REPLACE), HF_OK);
    assert_soon(queued("k") == 1);
    sim_server_step(servers_at(0), 30 * SIM_S);
    sleep_ms(4000);
    give_back(hold, HF_OK);
    assert_had_within(w, now_ms(), 500);
}

/* A slow script makes the subscription's PING fail; that passes. */
static void test_a_server_that_was_busy_for_a_while_still_sends_grants(void **state) {
    (void)state;
    waiter *w = waiter_start(lock, HF_FOREVER);
    assert_soon(queued("k") == 1);
    servers_refuse(0, SIM_BUSY, NULL, -1);
    sleep_ms(4000);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    sleep_ms(1000); /* until it has subscribed anew */
    int64_t before = scripts_run();
    sleep_ms(2000);
    assert_in_range(scripts_run() - before, 0, 5); /* it would be 200 if it polled */
    give_back(hold, HF_OK);
    assert_had_within(w, now_ms(), 500);
}

/* G6: the second waiter learns how soon the lock ends, and the first has the next turn. */
static void test_a_queue_asks_when_any_of_its_waiters_knows_that_the_lock_ends(void **state) {
    (void)state;
    waiter *first = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    assert_status(hf_hold_keep(hold, 400), HF_OK);
    int64_t since = now_ms() + 400;
    hf_hold_close(hold);
    waiter *second = waiter_start(lock, 20000);
    assert_had_within(first, since, 300);
    assert_had_within(second, since, 600);
}

/* -------------------------------------------------------------- A brake */

typedef struct braked {
    pthread_t thread;
    hf_brake *brake;
    hf_status status;
    hf_hold *hold;
    int64_t done_at;
} braked;

static void *wait_braked(void *argument) {
    braked *mine = argument;
    hf_brake_set(mine->brake);
    mine->status = hf_lock_acquire(lock, HF_FOREVER, &mine->hold);
    mine->done_at = now_ms();
    hf_brake_set(NULL);
    return NULL;
}

static braked braked_start(void) {
    braked it = {.hold = NULL};
    assert_status(hf_brake_open(&it.brake), HF_OK);
    return it;
}

/* Return whether the pull was first. */
static bool braked_end(braked *mine) {
    pthread_join(mine->thread, NULL);
    hf_brake_close(mine->brake);
    if (mine->status == HF_OK)
        give_back(mine->hold, HF_OK);
    else
        assert_status(mine->status, HF_ECANCELED);
    return mine->status != HF_OK;
}

/* H220: the process stands still until after the time of the call; a thread waits, without a brake
 * or with one, or the keeper waits for a started acquire. */
static void test_who_stands_still_until_its_time_is_up_hears_who_has_the_lock(void **state) {
    hf_brake *brake;
    (void)state;
    alarm(400);
    assert_status(hf_lock_acquire(lock, 50, NULL), HF_ETIMEOUT); /* the server knows the scripts */
    assert_status(hf_brake_open(&brake), HF_OK);
    atomic_store(&way->delay_ms, 100);
    for (int ms = 600; ms < 7000; ms += ms < 2300 ? 50 : 2300)
        for (int how = 0; how < 3; how++) {
            assert_status(hf_hold_renew(hold), HF_OK);
            stands_still(sim_self(), 900, ms);
            hf_brake_set(how == 1 ? brake : NULL);
            if (how < 2)
                assert_status(hf_lock_acquire(lock, 1000, NULL), HF_ETIMEOUT);
            else
                assert_status(hf_lock_acquire_start(lock, NULL, 0, 1000, NULL, 1), HF_OK);
            hf_brake_set(NULL);
            if (how == 2)
                assert_status(next_of(client).status, HF_ETIMEOUT);
        }
    atomic_store(&way->delay_ms, 0);
    hf_brake_close(brake);
    give_back(hold, HF_OK);
}

/* Let a waiting thread stand still until its grant, and its time, are over; silent: and then the
 * server does not answer. */
static void stand_still_with_a_grant(bool silent) {
    hf_lock *read = lease_lock(client, "l", 60000, HF_OFF),
            *others = lease_lock(other, "l", 60000, HF_OFF);
    hf_hold *busy = held(others);
    waiter *reader = waiter_start(read, HF_FOREVER); /* it reads the messages for both */
    assert_soon(queued("l") == 1);
    waiter *w = waiter_start(lock, 1000);
    assert_soon(queued("k") == 1);
    sleep_ms(900);
    sim_stun(sim_self(), 0, 5 * SIM_S); /* the newest thread: that of the waiter */
    give_back(hold, HF_OK);
    if (silent) {
        sleep_ms(4000);
        sim_server_pause(servers_at(0), true);
        assert_soon(atomic_load(&w->done));
        assert_true(w->status == HF_ECONNECT || w->status == HF_EUNKNOWN);
        waiter_join(w, w->status);
        sim_server_pause(servers_at(0), false);
        assert_stays_free("k", 3000);
    } else {
        waiter_join(w, HF_OK);
        give_back(w->hold, HF_OK);
    }
    give_back(busy, HF_OK);
    waiter_join(reader, HF_OK);
    give_back(reader->hold, HF_OK);
    hf_lock_close(read);
    hf_lock_close(others);
}

/* H220 */
static void test_who_stands_still_with_a_grant_asks_once_more(void **state) {
    (void)state;
    stand_still_with_a_grant(false);
}

/* Seed 65000066 */
static void test_who_stands_still_with_a_grant_asks_no_silent_server_for_ever(void **state) {
    (void)state;
    stand_still_with_a_grant(true);
}

static sim_process *asking;

/* Stop the process once its request is at the server. */
static void stop_who_asks(int which, const sim_bytes *words, size_t count) {
    (void)which;
    if (count < 2 || words[0].length != 7 || memcmp(words[0].bytes, "EVALSHA", 7) != 0)
        return;
    servers_watch = NULL;
    stands_still(asking, 0, 5000);
}

/* H220: the process stands still during the first request. */
static void test_who_stands_still_as_it_asks_hears_who_has_the_lock(void **state) {
    hf_brake *brake;
    (void)state;
    hf_client *cat = open_with(unix_url(), 2000, 2000); /* past the proxy, which stands still */
    hf_lock *cats = lease_lock(cat, "k", 60000, HF_OFF);
    asking = sim_self();
    assert_status(hf_lock_acquire(cats, 50, NULL), HF_ETIMEOUT); /* the server knows the scripts */
    assert_status(hf_brake_open(&brake), HF_OK);
    for (int how = 0; how < 2; how++) {
        assert_status(hf_hold_renew(hold), HF_OK);
        hf_brake_set(how == 1 ? brake : NULL);
        servers_watch = stop_who_asks;
        assert_status(hf_lock_acquire(cats, 1000, NULL), HF_ETIMEOUT);
        hf_brake_set(NULL);
    }
    hf_brake_close(brake);
    give_back(hold, HF_OK);
    hf_lock_close(cats);
    hf_client_close(cat);
}

/* H274: the thread that reads for all waiters of its client stands still. */
static void test_a_waiting_thread_that_stands_still_costs_others_no_place(void **state) {
    (void)state;
    alarm(900);
    waiter *first = waiter_start(lock, HF_FOREVER);
    size_t threads = sim_threads(sim_self()); /* the newest comes first */
    assert_soon(queued("k") == 1);
    waiter *second = waiter_start(lock, HF_FOREVER);
    assert_soon(queued("k") == 2);
    hf_client *cat = open_client();
    hf_lock *cats = lease_lock(cat, "k", 60000, HF_OFF);
    waiter *last = waiter_start(cats, HF_FOREVER);
    assert_soon(queued("k") == 3);
    sim_stun(sim_self(), sim_threads(sim_self()) - threads, 12 * SIM_S);
    for (int64_t until = now_ms() + 15000; now_ms() < until; sleep_ms(100))
        assert_int_equal(queued("k"), 3);
    give_back(hold, HF_OK);
    waiter_join(first, HF_OK);
    give_back(first->hold, HF_OK);
    waiter_join(second, HF_OK);
    give_back(second->hold, HF_OK);
    waiter_join(last, HF_OK);
    give_back(last->hold, HF_OK);
    hf_lock_close(cats);
    hf_client_close(cat);
    hold = held(theirs);
    give_back(hold, HF_OK);
}

/* M16: the brake is pulled at each instant around the grant, which the server may have sent and the
 * client not seen. An unclaimed grant would stand for 3 s. */
static void test_a_brake_that_ends_a_wait_as_the_grant_comes_loses_no_lock(void **state) {
    int pulled = 0, granted = 0;
    (void)state;
    for (int us = 0; us < 3000; us += us < 300 ? 10 : 100) { /* each seed has its own latency */
        braked mine = braked_start();
        assert_int_equal(pthread_create(&mine.thread, NULL, wait_braked, &mine), 0);
        assert_soon(queued("k") == 1);
        assert_status(hf_hold_release_start(hold, 1), HF_OK);
        if (us > 0)
            usleep((unsigned)us);
        hf_brake_pull(mine.brake);
        assert_status(next_of(other).status, HF_OK);
        hf_hold_close(hold);
        bool first = braked_end(&mine);
        pulled += first;
        granted += !first;
        waiter *w = waiter_start(theirs, 1000); /* the lock is free soon */
        waiter_join(w, HF_OK);
        hold = w->hold;
        assert_int_equal(queued("k"), 0);
    }
    give_back(hold, HF_OK);
    assert_true(pulled > 0 && granted > 0);
    assert_stays_free("k", 100);
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(client, &stats), HF_OK);
    assert_int_equal(stats.canceled, pulled);
    assert_int_equal(stats.acquired, 2 + granted); /* two were to warm up */
}

/* A pull ends each kind of wait, also for a lock that is not released. */
static void test_a_pull_ends_a_wait_at_once(void **state) {
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        braked mine = braked_start();
        if (silent)
            sim_server_pause(servers_at(0), true);
        assert_int_equal(pthread_create(&mine.thread, NULL, wait_braked, &mine), 0);
        if (silent)
            sleep_ms(300);
        else
            assert_soon(queued("k") == 1);
        int64_t since = now_ms();
        hf_brake_pull(mine.brake);
        assert_true(braked_end(&mine));
        assert_in_range(mine.done_at - since, 0, 5);
        sim_server_pause(servers_at(0), false);
        assert_soon(queued("k") == 0);
    }
    give_back(hold, HF_OK);
    assert_stays_free("k", 3000);
}

/* H267: the time of a wait that has not asked yet is up. */
static void test_no_memory_to_ask_once_is_not_told_as_an_outage(void **state) {
    (void)state;
    end_subscription();
    for (int i = 1; i <= 2; i++)
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 500, NULL, i), HF_OK);
    sleep_ms(400);
    sim_set.no_memory = 1;
    sim_may_lack_memory(sim_self(), true);
    sleep_ms(300);
    sim_may_lack_memory(sim_self(), false);
    sim_set.no_memory = 0;
    for (int i = 0; i < 2; i++)
        assert_status(next_of(client).status, HF_ENOMEM);
    give_back(hold, HF_OK);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_threads_that_wait_poll_when_their_client_has_to),
        TEST(test_a_thread_asks_while_its_subscription_cannot_be_made_again),
        TEST(test_what_is_started_asks_while_its_subscription_cannot_be_made_again),
        TEST(test_what_waits_outlasts_a_subscription_without_a_thread),
        TEST(test_an_outage_before_a_place_is_not_told_as_held),
        TEST(test_an_outage_before_what_was_started_has_a_place_is_not_told_as_held),
        TEST(test_a_wait_without_a_limit_outlasts_a_subscription_that_fails),
        TEST(test_a_wait_that_was_answered_outlasts_a_changed_password),
        TEST(test_a_close_buries_no_waiter_that_was_answered),
        TEST(test_a_claim_that_is_refused_is_not_told_as_too_few_replicas),
        TEST(test_what_is_free_when_the_time_is_up_is_not_told_as_held),
        TEST(test_who_waited_too_is_not_told_as_the_holder),
        TEST(test_what_is_asked_in_the_end_takes_no_longer_than_the_call_may),
        TEST(test_no_memory_to_ask_in_the_end_is_not_told_as_held),
        TEST(test_a_pass_that_waits_follows_the_stored_rate),
        TEST(test_a_lost_message_of_a_result_delays_none_by_more_than_a_recheck),
        TEST(test_each_handoff_to_the_next_thread_is_prompt),
        TEST(test_a_permit_whose_message_is_lost_is_not_given_to_another),
        TEST(test_an_answer_that_comes_after_the_grant_changes_nothing),
        TEST(test_who_waits_is_served_in_the_order_of_arrival),
        TEST(test_a_try_passes_nobody_who_waits),
        TEST(test_a_writer_behind_readers_is_not_passed_and_is_next),
        TEST(test_a_reader_that_joins_outlasts_the_first),
        TEST(test_a_head_start_passes_those_alone_who_came_within_it),
        TEST(test_a_head_start_counts_once),
        TEST(test_a_head_start_takes_nothing_from_the_timeout),
        TEST(test_a_head_start_does_not_count_behind_a_clock_that_was_set_back),
        TEST(test_a_reader_with_a_head_start_passes_a_writer),
        TEST(test_a_renewal_does_not_wait_for_an_older_request_without_an_answer),
        TEST(test_a_grant_does_not_wait_for_an_answer_that_does_not_come),
        TEST(test_a_grant_that_overtakes_the_answer_to_its_request_leaves_no_dead_id),
        TEST(test_a_waiter_whom_a_step_of_the_clock_has_ended_queues_anew),
        TEST(test_a_server_that_was_busy_for_a_while_still_sends_grants),
        TEST(test_a_queue_asks_when_any_of_its_waiters_knows_that_the_lock_ends),
        TEST(test_signals_give_the_end_of_a_wait_no_time_of_its_own),
        TEST(test_who_stands_still_until_its_time_is_up_hears_who_has_the_lock),
        TEST(test_who_stands_still_as_it_asks_hears_who_has_the_lock),
        TEST(test_who_stands_still_with_a_grant_asks_once_more),
        TEST(test_who_stands_still_with_a_grant_asks_no_silent_server_for_ever),
        TEST(test_a_waiting_thread_that_stands_still_costs_others_no_place),
        TEST(test_a_brake_that_ends_a_wait_as_the_grant_comes_loses_no_lock),
        TEST(test_a_pull_ends_a_wait_at_once),
        TEST(test_no_memory_to_ask_once_is_not_told_as_an_outage),
        TEST(test_an_older_hold_of_its_owner_keeps_no_acquire_asking),
    };
    return RUN_TESTS(tests, count, words);
}

/* The counts of a client, each outcome made to happen; names that are counted apart; and the alarm.
 */
#include "../network.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static proxy *way;      /* to the server, with mishaps */
static hf_client *ann;  /* through the proxy: the client whose counts are checked */
static hf_client *ben;  /* past the proxy */
static hf_lock *theirs; /* ben's "stock" */

static hf_client *open_with(hf_client_options options) {
    hf_client *client;
    options.size = sizeof options;
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), &options, &client),
                  HF_OK);
    return client;
}

static int set_up(void **state) {
    (void)state;
    start_afresh();
    way = proxy_start();
    ann = open_with((hf_client_options){.connect_timeout_ms = 1000});
    ben = open_client();
    theirs = open_lock(ben, "stock", NULL, NULL);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_lock_close(theirs);
    hf_client_close(ann);
    hf_client_close(ben);
    proxy_stop(way);
    return 0;
}

/* ----------------------------------------------------------------- Counts */

static hf_stats stats_of(hf_client *client) {
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(client, &stats), HF_OK);
    return stats;
}

static int64_t count_of(const hf_histogram *histogram) {
    int64_t sum = 0;
    for (int i = 0; i < HF_BUCKETS; i++)
        sum += histogram->counts[i];
    return sum;
}

static const struct {
    const char *name;
    size_t at;
} members[] = {
#define MEMBER(name)                                                                               \
    { #name, offsetof(hf_stats, name) }
    MEMBER(held),
    MEMBER(waiting),
    MEMBER(acquired),
    MEMBER(queued),
    MEMBER(busy),
    MEMBER(timed_out),
    MEMBER(canceled),
    MEMBER(interrupted),
    MEMBER(deadlocks),
    MEMBER(unreplicated),
    MEMBER(unknown),
    MEMBER(unreachable),
    MEMBER(failed),
    MEMBER(released),
    MEMBER(kept),
    MEMBER(renewed),
    MEMBER(alarms),
    MEMBER(lost_expired),
    MEMBER(lost_unreachable),
    MEMBER(lost_gone),
    MEMBER(names),
    MEMBER(answered_done),
    MEMBER(answered_failed),
    MEMBER(answered_unknown),
    MEMBER(answered_mismatch),
    MEMBER(begun),
    MEMBER(finished_done),
    MEMBER(finished_failed),
    MEMBER(finished_unknown),
    MEMBER(finished_retry),
    MEMBER(finished_unkept)};

static int64_t member(const hf_stats *stats, size_t i) {
    int64_t value;
    memcpy(&value, (const char *)stats + members[i].at, sizeof value);
    return value;
}

/* Check all members: those that are not named are 0. Check how many holds have ended. */
static void check_counts(hf_stats found, hf_stats expected, int64_t ended, int line) {
    bool good = count_of(&found.wait) == found.acquired && count_of(&found.hold) == ended;
    for (size_t i = 0; i < COUNT(members); i++)
        if (member(&found, i) != member(&expected, i)) {
            print_error("%s: %lld, not %lld\n", members[i].name, (long long)member(&found, i),
                        (long long)member(&expected, i));
            good = false;
        }
    if (!good) {
        print_error("%lld waits and %lld holds were measured\n", (long long)count_of(&found.wait),
                    (long long)count_of(&found.hold));
        _fail(__FILE__, line);
    }
}
#define assert_counts(client, ended, ...)                                                          \
    check_counts(stats_of(client), (hf_stats){__VA_ARGS__}, ended, __LINE__)

static hf_lock *stock(void) { return open_lock(ann, "stock", NULL, NULL); }

/* Try to acquire, and release what was acquired. */
static hf_status tried(hf_lock *lock) {
    hf_hold *hold;
    hf_status status = hf_lock_acquire(lock, 0, &hold);
    if (status == HF_OK)
        give_back(hold, HF_OK);
    return status;
}

static void test_a_new_client_has_counted_nothing(void **state) {
    (void)state;
    assert_counts(ann, 0, .held = 0);
    assert_int_equal(stats_of(ann).connections, 1);
    assert_int_equal(stats_of(ann).reconnects, 0);
}

static void test_an_acquire_and_its_release_are_counted(void **state) {
    (void)state;
    hf_lock *lock = stock();
    hf_hold *outer = held(lock), *inner = held(lock);
    assert_counts(ann, 0, .held = 2, .acquired = 2);
    give_back(inner, HF_OK);
    assert_counts(ann, 1, .held = 1, .acquired = 2, .released = 1);
    give_back(outer, HF_OK);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK); /* left with the client */
    assert_status(hf_lock_release(lock), HF_OK);
    assert_counts(ann, 3, .acquired = 3, .released = 3);
    assert_status(hf_lock_release(lock), HF_ENOTHELD); /* counts nothing */
    assert_status(hf_lock_acquire(lock, -5, NULL), HF_EINVAL);
    assert_counts(ann, 3, .acquired = 3, .released = 3);
    hf_lock_close(lock);
}

static void test_a_started_acquire_is_counted_in_the_same_way(void **state) {
    (void)state;
    hf_lock *lock = stock();
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 1000, NULL, 1), HF_OK);
    hf_completion won = next_of(ann);
    assert_status(won.status, HF_OK);
    assert_counts(ann, 0, .held = 1, .acquired = 1);
    assert_status(hf_hold_release_start(won.hold, 2), HF_OK);
    hf_hold_close(won.hold);
    assert_status(next_of(ann).status, HF_OK);
    assert_counts(ann, 1, .acquired = 1, .released = 1);
    hf_lock_close(lock);
}

static void *release_later(void *hold) {
    assert_soon(NUMBER("ZCOUNT {stock}stock:hf1:q 0 9007199254740992") == 1);
    sleep_ms(50);
    give_back(hold, HF_OK);
    return NULL;
}

static void test_a_wait_in_the_queue_is_counted_and_measured(void **state) {
    (void)state;
    hf_lock *lock = stock();
    pthread_t other;
    hf_hold *hold, *before = held(theirs);
    assert_int_equal(pthread_create(&other, NULL, release_later, before), 0);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire(lock, 10000, &hold), HF_OK);
    int64_t most_us = (now_ms() - since + 1) * 1000;
    pthread_join(other, NULL);
    hf_stats stats = stats_of(ann);
    assert_in_range(stats.wait.sum_us, 50000, most_us);
    for (int i = 0; i < HF_BUCKETS; i++)
        if (stats.wait.counts[i] > 0) /* the bucket to which its time belongs */
            assert_true(stats.wait.sum_us > (INT64_C(32) << i) &&
                        stats.wait.sum_us <= (INT64_C(64) << i));
    sleep_ms(30);
    give_back(hold, HF_OK);
    most_us = (now_ms() - since + 1) * 1000;
    stats = stats_of(ann);
    assert_in_range(stats.hold.sum_us, 30000, most_us);
    assert_counts(ann, 1, .acquired = 1, .queued = 1, .released = 1, .renewed = stats.renewed);
    hf_lock_close(lock);
}

/* ----------------------------------------------------------------- Refused */

static void test_busy_and_timed_out_are_counted_apart(void **state) {
    (void)state;
    hf_lock *lock = stock();
    hf_hold *hold, *before = held(theirs);
    assert_status(tried(lock), HF_EBUSY);
    assert_status(tried(lock), HF_EBUSY);
    assert_status(hf_lock_acquire(lock, 30, &hold), HF_ETIMEOUT);
    assert_counts(ann, 0, .busy = 2, .timed_out = 1);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    assert_status(next_of(ann).status, HF_EBUSY);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 30, NULL, 2), HF_OK);
    assert_status(next_of(ann).status, HF_ETIMEOUT);
    assert_counts(ann, 0, .busy = 3, .timed_out = 2);
    give_back(before, HF_OK);
    hf_lock_close(lock);
}

static void test_a_cancelled_wait_is_counted_and_one_that_waits_is_seen(void **state) {
    (void)state;
    hf_lock *lock = stock();
    hf_hold *before = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_soon(NUMBER("ZCOUNT {stock}stock:hf1:q 0 9007199254740992") == 1);
    assert_counts(ann, 0, .waiting = 1);
    assert_status(hf_op_cancel(ann, 1), HF_OK);
    assert_status(next_of(ann).status, HF_ECANCELED);
    assert_counts(ann, 0, .canceled = 1);
    give_back(before, HF_OK);
    hf_lock_close(lock);
}

static int interrupt(void *asked) {
    *(bool *)asked = true;
    return 1;
}

static void test_a_signal_that_ends_a_wait_is_counted(void **state) {
    (void)state;
    bool asked = false;
    hf_lock *lock = stock();
    hf_hold *hold, *before = held(theirs);
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_INTERRUPTIBLE};
    assert_status(hf_client_set_interrupt(ann, interrupt, &asked), HF_OK);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 20000, &options, &hold), HF_EINTR);
    assert_true(asked);
    assert_counts(ann, 0, .interrupted = 1);
    give_back(before, HF_OK);
    hf_lock_close(lock);
}

static void test_an_upgrade_is_counted_as_a_deadlock(void **state) {
    (void)state;
    hf_lock *writer = stock(), *reader = open_lock(ann, "stock", NULL, OPTIONS(.mode = HF_SHARED));
    hf_hold *hold = held(reader);
    assert_status(tried(writer), HF_EDEADLOCK);
    assert_counts(ann, 0, .held = 1, .acquired = 1, .deadlocks = 1);
    give_back(hold, HF_OK);
    hf_lock_close(writer);
    hf_lock_close(reader);
}

/* ------------------------------------------------------------------ Failed */

static void test_an_outage_is_not_counted_as_a_lock_that_others_hold(void **state) {
    (void)state;
    hf_lock *lock = stock();
    assert_status(tried(lock), HF_OK); /* the server knows the script */
    atomic_store(&way->next, LOSE_ALL);
    assert_status(tried(lock), HF_EUNKNOWN);
    atomic_store(&way->next, PASS);
    hf_stats stats = stats_of(ann);
    check_counts(stats, (hf_stats){.acquired = 1, .released = 1, .unknown = 1}, 1, __LINE__);
    hf_lock_close(lock);
}

static void test_a_server_that_is_not_there_is_counted_as_unreachable(void **state) {
    int port;
    hf_client *client;
    hf_client_options options = {.size = sizeof options, .lazy = HF_ON, .connect_timeout_ms = 100};
    (void)state;
    close(listen_somewhere(1, &port));
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", port), &options, &client), HF_OK);
    hf_lock *lock = open_lock(client, "stock", NULL, NULL);
    assert_status(tried(lock), HF_ECONNECT);
    assert_counts(client, 0, .unreachable = 1);
    assert_int_equal(stats_of(client).connections, 0);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_server_that_refuses_is_counted_as_failed(void **state) {
    (void)state;
    hf_lock *lock = stock();
    TELL("CONFIG SET min-replicas-to-write 1");
    assert_status(tried(lock), HF_ESERVER);
    assert_counts(ann, 0, .failed = 1);
    TELL("CONFIG SET min-replicas-to-write 0");
    hf_lock_close(lock);
}

static void test_a_connection_in_place_of_a_broken_one_is_a_reconnect(void **state) {
    (void)state;
    hf_lock *lock = stock();
    assert_status(tried(lock), HF_OK);
    hf_stats before = stats_of(ann);
    assert_int_equal(before.reconnects, 0);
    TELL("CLIENT KILL TYPE normal SKIPME yes");
    assert_soon(tried(lock) == HF_OK);
    hf_stats after = stats_of(ann);
    assert_true(after.reconnects >= 1);
    assert_int_equal(after.connections - before.connections, after.reconnects);
    hf_lock_close(lock);
}

/* -------------------------------------------------------------------- Lost */

static void test_a_loss_is_counted_once_by_its_cause(void **state) {
    (void)state;
    hf_lock *lock = stock(),
            *brief = open_lock(ann, "brief", NULL, OPTIONS(.lease_ms = 20, .renew = HF_OFF));
    hf_hold *hold = held(lock); /* its release finds the loss */
    TELL("DEL stock");
    give_back(hold, HF_ELOST);
    assert_counts(ann, 1, .acquired = 1, .lost_gone = 1);
    hold = held(lock); /* a check finds the loss, then a release */
    TELL("DEL stock");
    assert_status(hf_hold_check(hold), HF_ELOST);
    give_back(hold, HF_ELOST);
    assert_counts(ann, 2, .acquired = 2, .lost_gone = 2);
    hold = held(brief); /* its lease has ended, and its release finds it */
    assert_soon(NUMBER("EXISTS brief") == 0);
    give_back(hold, HF_ELOST);
    assert_counts(ann, 3, .acquired = 3, .lost_gone = 2, .lost_expired = 1);
    assert_true(hf_client_fd(ann) >= 0); /* here the client's own thread finds it */
    hold = held(brief);
    assert_int_equal(next_of(ann).kind, HF_KIND_LOSS);
    give_back(hold, HF_ELOST);
    assert_counts(ann, 4, .acquired = 4, .lost_gone = 2, .lost_expired = 2);
    hf_lock_close(lock);
    hf_lock_close(brief);
}

static void test_a_hold_that_cannot_be_renewed_is_lost_as_unreachable(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(ann, "stock", 300, HF_ON);
    assert_true(hf_client_fd(ann) >= 0);
    hf_hold *hold = held(lock);
    assert_soon(stats_of(ann).renewed >= 2);
    atomic_store(&way->next, LOSE_ALL);
    assert_int_equal(next_of(ann).cause, HF_CAUSE_UNREACHABLE);
    assert_counts(ann, 1, .held = 1, .acquired = 1, .renewed = stats_of(ann).renewed,
                  .lost_unreachable = 1);
    atomic_store(&way->next, PASS);
    hf_hold_release(hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

static void test_a_hold_that_keeps_the_lock_is_counted_as_kept(void **state) {
    (void)state;
    hf_lock *lock = stock();
    hf_hold *hold = held(lock);
    assert_status(hf_hold_keep(hold, 60000), HF_OK);
    hf_hold_close(hold);
    assert_counts(ann, 1, .acquired = 1, .kept = 1);
    TELL("DEL stock");
    hold = held(lock);
    assert_status(hf_hold_keep_at_least(hold, 60000), HF_OK);
    give_back(hold, HF_OK);
    assert_counts(ann, 2, .acquired = 2, .kept = 2);
    hf_lock_close(lock);
}

static void test_a_hold_that_is_handed_over_is_measured_on_both_sides(void **state) {
    (void)state;
    char token[HF_TOKEN_MAX];
    size_t length;
    hf_lock *lock = stock();
    hf_hold *hold = held(lock), *adopted;
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_OK);
    hf_hold_close(hold);
    assert_counts(ann, 1, .acquired = 1);
    assert_status(hf_lock_adopt(theirs, token, length, &adopted), HF_OK);
    assert_counts(ben, 0, .held = 1);
    give_back(adopted, HF_OK);
    assert_counts(ben, 1, .released = 1);
    hf_lock_close(lock);
}

/* ----------------------------------------------------------------- Bindings */

#define OF(way) (&(hf_acquire_options){.size = sizeof(hf_acquire_options), .flags = (way)})

static hf_hold *call(hf_lock *lock, const void *print) {
    hf_hold *hold;
    assert_status(
        hf_once_begin(lock, 0, OF(HF_ACQUIRE_AT_MOST_ONCE), print, print != NULL ? 32 : 0, &hold),
        HF_OK);
    assert_status(hf_once_mark(hold, HF_NEVER, NULL, 0), HF_OK);
    return hold;
}

static void end_call(hf_hold *hold, int32_t state, hf_status status) {
    bool keeps = state == HF_ONCE_DONE || state == HF_ONCE_FAILED;
    assert_status(hf_once_finish(hold, state, "r", 1, keeps ? 60000 : 0), status);
    hf_hold_close(hold);
}

static void answered(hf_lock *lock, uint32_t flags, const void *print, hf_status status) {
    hf_hold *hold;
    assert_status(hf_once_begin(lock, 0, OF(flags), print, print != NULL ? 32 : 0, &hold), status);
    hf_hold_close(hold);
    assert_status(hf_once_begin_start(lock, 20000, OF(flags), print, print != NULL ? 32 : 0, 1),
                  HF_OK);
    hf_completion c = next_of(ann);
    assert_status(c.status, status);
    hf_hold_close(c.hold);
}

/* Both by calls on a thread and by started ones. */
static void test_calls_are_counted_by_their_outcome(void **state) {
    (void)state;
    static const char one[32] = "1", two[32] = "2";
    uint32_t most = HF_ACQUIRE_AT_MOST_ONCE;
    hf_lock *lock = stock();
    end_call(call(lock, one), HF_ONCE_RETRY, HF_OK);
    end_call(call(lock, one), HF_ONCE_UNKNOWN, HF_OK);
    answered(lock, most, one, HF_EOUTCOME);
    TELL("DEL {stock}stock:hf1:r");
    end_call(call(lock, one), HF_ONCE_FAILED, HF_OK);
    answered(lock, most, one, HF_EFAILED);
    TELL("DEL {stock}stock:hf1:r");
    end_call(call(lock, one), HF_ONCE_DONE, HF_OK);
    answered(lock, most, one, HF_EDONE);
    answered(lock, most, two, HF_EMISMATCH);
    answered(lock, 0, one, HF_EMISMATCH);
    TELL("DEL {stock}stock:hf1:r");
    hf_hold *settled = call(lock, NULL);
    assert_status(hf_once_settle(theirs, HF_ONCE_NONE, hf_hold_fence(settled), HF_SETTLE_FORCE,
                                 NULL, 0, 0, NULL, 0),
                  HF_OK);
    end_call(settled, HF_ONCE_DONE, HF_ESETTLED);
    hf_hold *late = call(lock, one);
    TELL("DEL stock");
    assert_status(hf_hold_check(late), HF_ELOST);
    end_call(late, HF_ONCE_DONE, HF_OK); /* kept but not released: it was lost */
    hf_lock_close(lock);
    assert_counts(ann, 6, .acquired = 6, .released = 4, .lost_gone = 1, .begun = 6,
                  .answered_done = 2, .answered_failed = 2, .answered_unknown = 2,
                  .answered_mismatch = 4, .finished_done = 2, .finished_failed = 1,
                  .finished_unknown = 1, .finished_retry = 1, .finished_unkept = 1);
}

/* It is released, though its result is refused. */
static void test_a_release_without_its_result_is_counted(void **state) {
    (void)state;
    hf_hold *hold;
    hf_lock *lock = stock();
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, &hold), HF_OK);
    TELL("ACL SETUSER default -hset");
    end_call(hold, HF_ONCE_DONE, HF_ESERVER);
    TELL("ACL SETUSER default +hset");
    hf_lock_close(lock);
    assert_counts(ann, 1, .acquired = 1, .released = 1, .finished_unkept = 1);
}

static void test_who_would_wait_for_itself_is_counted_as_that(void **state) {
    (void)state;
    hf_lock *lock = stock();
    hf_hold *hold, *before = held(theirs);
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_HOLDS};
    assert_status(hf_lock_acquire_as(lock, NULL, 0, HF_FOREVER, &options, &hold), HF_EDEADLOCK);
    assert_non_null(strstr(hf_error_message(), "would wait for itself"));
    assert_counts(ann, 0, .deadlocks = 1);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &options, &hold), HF_EBUSY);
    assert_counts(ann, 0, .deadlocks = 1, .busy = 1);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 5000, &options, 1), HF_OK);
    assert_status(next_of(ann).status, HF_EDEADLOCK);
    assert_counts(ann, 0, .deadlocks = 2, .busy = 1);
    give_back(before, HF_OK);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, HF_FOREVER, &options, &hold), HF_OK);
    assert_counts(ann, 0, .held = 1, .acquired = 1, .deadlocks = 2, .busy = 1);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* -------------------------------------------------------------------- Crowd */

enum { THREADS = 100, ROUNDS = 40 };

typedef struct worker {
    pthread_t thread;
    int number;
    int64_t acquired, busy, timed_out;
} worker;

/* Use each lock by three or four threads; some are counted apart. */
static void *work(void *argument) {
    worker *mine = argument;
    hf_lock *lock = open_lock(ann, text("lock %d", mine->number % 30), NULL,
                              OPTIONS(.count_name = mine->number % 3 == 0 ? HF_ON : HF_DEFAULT));
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold;
        hf_status status = hf_lock_acquire(lock, i % 2 == 0 ? 0 : i % 4 == 1 ? 1 : 10000, &hold);
        mine->acquired += status == HF_OK;
        mine->busy += status == HF_EBUSY;
        mine->timed_out += status == HF_ETIMEOUT;
        if (status == HF_OK)
            give_back(hold, HF_OK);
    }
    hf_lock_close(lock);
    return NULL;
}

static void test_a_hundred_threads_counts_add_up(void **state) {
    (void)state;
    static worker workers[THREADS];
    worker sum = {0};
    hf_client *client = ann;
    ann = open_client(); /* not through the proxy, which is slow */
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        sum.acquired += workers[i].acquired;
        sum.busy += workers[i].busy;
        sum.timed_out += workers[i].timed_out;
    }
    assert_int_equal(sum.acquired + sum.busy + sum.timed_out, THREADS * ROUNDS);
    hf_stats total = stats_of(ann), parts = {0};
    check_counts(total,
                 (hf_stats){.acquired = sum.acquired,
                            .queued = total.queued,
                            .busy = sum.busy,
                            .timed_out = sum.timed_out,
                            .released = sum.acquired,
                            .renewed = total.renewed,
                            .names = 10},
                 sum.acquired, __LINE__);
    for (int64_t i = 0; i <= total.names; i++) {
        char name[HF_NAME_MAX];
        size_t length;
        hf_stats one = {.size = sizeof one};
        assert_status(hf_client_name_stats(ann, i, &one, name, sizeof name, &length), HF_OK);
        assert_int_equal(count_of(&one.wait), one.acquired);
        parts.acquired += one.acquired;
        parts.hold.sum_us += one.hold.sum_us;
    }
    assert_int_equal(parts.acquired, total.acquired);
    assert_int_equal(parts.hold.sum_us, total.hold.sum_us);
    hf_client_close(ann);
    ann = client;
}

/* -------------------------------------------------------------------- Names */

static hf_stats named(hf_client *client, int64_t index, const char *expected) {
    char name[HF_NAME_MAX];
    size_t length;
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_name_stats(client, index, &stats, name, sizeof name, &length), HF_OK);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(name, expected, length);
    return stats;
}

static void use(hf_client *client, const char *name, int32_t count_name) {
    hf_lock *lock = open_lock(client, name, NULL, OPTIONS(.count_name = count_name));
    assert_status(tried(lock), HF_OK);
    hf_lock_close(lock);
}

static void test_a_name_is_counted_apart_only_if_asked_for(void **state) {
    (void)state;
    use(ann, "one", HF_DEFAULT);
    assert_int_equal(stats_of(ann).names, 0);
    use(ann, "two", HF_ON);
    use(ann, "two", HF_ON);
    use(ann, "two", HF_DEFAULT); /* this handle did not ask for it */
    assert_counts(ann, 4, .acquired = 4, .released = 4, .names = 1);
    assert_int_equal(named(ann, 0, "").acquired, 2);
    assert_int_equal(named(ann, 1, "two").acquired, 2);
    assert_int_equal(count_of(&(hf_histogram){.counts = {1, 2}}), 3);
    hf_stats two = named(ann, 1, "two");
    assert_int_equal(count_of(&two.hold), 2);
    assert_int_equal(two.connections + two.names, 0);

    hf_client *all = open_with((hf_client_options){.count_names = HF_ON});
    use(all, "one", HF_DEFAULT);
    use(all, "two", HF_OFF);
    assert_int_equal(stats_of(all).names, 1);
    assert_int_equal(named(all, 1, "one").acquired, 1);
    hf_client_close(all);
}

static void test_a_million_names_do_not_become_a_million_counts(void **state) {
    (void)state;
    hf_client *client = open_with((hf_client_options){.count_names = HF_ON, .names_max = 3});
    for (int i = 0; i < 1000; i++) {
        hf_lock *lock = open_lock(client, text("order %d", i), NULL, NULL);
        if (i % 100 == 0)
            assert_status(tried(lock), HF_OK);
        hf_lock_close(lock);
    }
    use(client, "order 1", HF_DEFAULT);
    assert_counts(client, 11, .acquired = 11, .released = 11, .names = 3);
    assert_int_equal(named(client, 0, "").acquired, 9);
    assert_int_equal(named(client, 1, "order 0").acquired, 1);
    assert_int_equal(named(client, 2, "order 1").acquired, 1);
    assert_int_equal(named(client, 3, "order 2").acquired, 0);
    hf_client_close(client);
}

static void test_bad_arguments_are_refused(void **state) {
    char name[4];
    size_t length;
    hf_client *client;
    hf_lock *lock;
    hf_stats stats = {0};
    (void)state;
    assert_status(hf_client_stats(ann, &stats), HF_EINVAL);
    assert_status(hf_client_stats(ann, NULL), HF_EINVAL);
    stats.size = sizeof stats;
    assert_status(hf_client_name_stats(ann, 1, &stats, name, sizeof name, &length), HF_EINVAL);
    assert_message("there is no name 1");
    assert_status(hf_client_name_stats(ann, -1, &stats, name, sizeof name, &length), HF_EINVAL);
    assert_status(hf_client_name_stats(ann, 0, &stats, NULL, 0, &length), HF_EINVAL);
    use(ann, "a long name", HF_ON);
    assert_status(hf_client_name_stats(ann, 1, &stats, name, sizeof name, &length), HF_EINVAL);
    assert_message("too small");
    static const hf_client_options wrong[] = {
        {.count_names = 3},
        {.names_max = 10001},
        {.alarm_timeouts = 3},
        {.alarm_window_ms = 3},
        {.alarm_timeouts = -1, .alarm_window_ms = 3},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        hf_client_options options = wrong[i];
        options.size = sizeof options;
        assert_status(hf_client_open(tcp_url(), &options, &client), HF_EINVAL);
        assert_null(client);
    }
    assert_status(hf_lock_open(ann, "x", 1, NULL, 0, OPTIONS(.alarm_timeouts = 1), &lock),
                  HF_EINVAL);
    assert_message("an alarm after 1 timeouts in 0 ms");
    assert_status(hf_lock_open(ann, "x", 1, NULL, 0, OPTIONS(.count_name = 7), &lock), HF_EINVAL);
}

/* -------------------------------------------------------------------- Alarm */

enum { HOUR_MS = 3600 * 1000 };

static void time_out(hf_lock *lock, int times) {
    hf_hold *hold;
    for (int i = 0; i < times; i++)
        assert_status(hf_lock_acquire(lock, 1, &hold), HF_ETIMEOUT);
}

/* Return the next completion, which must be an alarm, and its name. */
static hf_completion alarmed(hf_client *client, char *name, size_t capacity) {
    hf_completion c = {.size = sizeof c, .name = name, .name_capacity = capacity};
    assert_true(hf_client_fd(client) >= 0);
    assert_status(hf_client_next(client, &c), HF_OK);
    return c;
}

static void assert_no_alarm(hf_client *client) {
    assert_int_equal(alarmed(client, NULL, 0).kind, HF_KIND_NONE);
}

static void test_the_alarm_names_the_lock_and_is_told_once(void **state) {
    (void)state;
    char name[HF_NAME_MAX] = "";
    hf_client *client =
        open_with((hf_client_options){.alarm_timeouts = 3, .alarm_window_ms = HOUR_MS});
    hf_lock *other = open_lock(ben, "other", "them", NULL);
    hf_lock *mine = open_lock(client, "stock", NULL, NULL);
    hf_lock *unlike = open_lock(client, "other", NULL, NULL);
    hf_hold *one = held(theirs), *two = held(other);
    assert_no_alarm(client); /* from now on the program reads completions */
    time_out(mine, 2);
    time_out(unlike, 2); /* each lock counts by itself */
    assert_no_alarm(client);
    hf_hold *hold; /* long enough to queue: then the server reports the holder */
    assert_status(hf_lock_acquire(unlike, 500, &hold), HF_ETIMEOUT);
    hf_completion c = alarmed(client, name, sizeof name);
    assert_int_equal(c.kind, HF_KIND_ALARM);
    assert_int_equal(c.status, HF_ETIMEOUT);
    assert_int_equal(c.timeouts, 3);
    assert_int_equal(c.op + c.hold_number + c.cause, 0);
    assert_null(c.hold);
    assert_int_equal(c.name_len, 5);
    assert_string_equal(name, "other");
    assert_non_null(strstr(c.error.message, "3 acquires timed out within 3600 s"));
    assert_non_null(strstr(c.error.message, "at last by 'them'"));
    time_out(unlike, 5); /* not again within the hour */
    assert_no_alarm(client);
    time_out(mine, 1);
    c = alarmed(client, name, 3);
    assert_int_equal(c.name_len, 5); /* a longer name is cut short */
    assert_string_equal(name, "stoer");
    assert_counts(client, 0, .timed_out = 11, .alarms = 2);
    assert_status(hf_lock_acquire_start(mine, NULL, 0, 1, NULL, 1), HF_OK); /* only the NUL */
    c = next_of(client);
    assert_int_equal(c.kind, HF_KIND_ACQUIRE);
    assert_int_equal(c.name_len, 0);
    give_back(one, HF_OK);
    give_back(two, HF_OK);
    hf_lock_close(other);
    hf_lock_close(mine);
    hf_lock_close(unlike);
    hf_client_close(client);
}

static void test_a_started_acquire_raises_the_alarm_too(void **state) {
    (void)state;
    hf_lock *mine =
        open_lock(ann, "stock", NULL, OPTIONS(.alarm_timeouts = 2, .alarm_window_ms = HOUR_MS));
    hf_hold *one = held(theirs);
    for (int i = 1; i <= 2; i++)
        assert_status(hf_lock_acquire_start(mine, NULL, 0, 1, NULL, i), HF_OK);
    int kinds[6] = {0};
    for (int i = 0; i < 3; i++)
        kinds[next_of(ann).kind]++;
    assert_int_equal(kinds[HF_KIND_ACQUIRE], 2);
    assert_int_equal(kinds[HF_KIND_ALARM], 1);
    give_back(one, HF_OK);
    hf_lock_close(mine);
}

static void test_timeouts_that_lie_far_apart_raise_no_alarm(void **state) {
    (void)state;
    hf_lock *mine =
        open_lock(ann, "stock", NULL, OPTIONS(.alarm_timeouts = 2, .alarm_window_ms = 8));
    hf_hold *one = held(theirs);
    assert_no_alarm(ann);
    for (int i = 0; i < 10; i++) {
        time_out(mine, 1);
        sleep_ms(15);
    }
    assert_no_alarm(ann);
    give_back(one, HF_OK);
    hf_lock_close(mine);
}

static void test_the_alarm_is_told_again_after_its_window(void **state) {
    (void)state;
    hf_lock *mine =
        open_lock(ann, "stock", NULL, OPTIONS(.alarm_timeouts = 1, .alarm_window_ms = 100));
    hf_hold *one = held(theirs);
    assert_no_alarm(ann);
    for (int i = 0; i < 3; i++) {
        time_out(mine, 1);
        assert_int_equal(alarmed(ann, NULL, 0).kind, HF_KIND_ALARM);
        sleep_ms(120);
    }
    give_back(one, HF_OK);
    hf_lock_close(mine);
}

static void test_a_lock_may_turn_the_clients_alarm_off(void **state) {
    (void)state;
    hf_client *client =
        open_with((hf_client_options){.alarm_timeouts = 1, .alarm_window_ms = HOUR_MS});
    hf_lock *mine = open_lock(client, "stock", NULL, OPTIONS(.alarm_timeouts = -1));
    hf_hold *one = held(theirs);
    assert_no_alarm(client);
    time_out(mine, 3);
    assert_no_alarm(client);
    give_back(one, HF_OK);
    hf_lock_close(mine);
    hf_client_close(client);
    client = open_with((hf_client_options){.alarm_timeouts = -1}); /* this means the same as 0 */
    hf_lock_close(open_lock(client, "stock", NULL, NULL));
    hf_client_close(client);
}

/* Hold a lock until that client is closed; return the name. */
static const char *hold_for_them(const char *name) {
    hf_lock *lock = open_lock(ben, name, "them", NULL);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    hf_lock_close(lock);
    return name;
}

/* One lock is stuck, among many that time out once. */
static void test_many_locks_that_time_out_once_hide_no_stuck_one(void **state) {
    (void)state;
    char name[HF_NAME_MAX] = "";
    hf_client *client =
        open_with((hf_client_options){.alarm_timeouts = 5, .alarm_window_ms = HOUR_MS});
    hf_lock *stuck = open_lock(client, "vendor", NULL, NULL);
    hold_for_them("vendor");
    assert_no_alarm(client);
    for (int i = 0; i < 5; i++) {
        assert_no_alarm(client);
        time_out(stuck, 1);
        for (int j = 0; i > 0 && j < 1000; j++) {
            hf_lock *slow = open_lock(client, hold_for_them(text("order %d.%d", i, j)), NULL, NULL);
            time_out(slow, 1);
            hf_lock_close(slow);
        }
    }
    assert_int_equal(alarmed(client, name, sizeof name).kind, HF_KIND_ALARM);
    assert_string_equal(name, "vendor");
    hf_lock_close(stuck);
    hf_client_close(client);
}

static void test_an_alarm_that_nobody_hears_is_counted_and_leaves_nothing(void **state) {
    (void)state;
    hf_client *client =
        open_with((hf_client_options){.alarm_timeouts = 1, .alarm_window_ms = HOUR_MS});
    hf_lock *one = open_lock(client, "one", NULL, NULL),
            *two = open_lock(client, "two", NULL, NULL);
    hold_for_them("one");
    hold_for_them("two");
    time_out(one, 1); /* the queue of completions does not exist yet */
    assert_counts(client, 0, .timed_out = 1, .alarms = 1);
    assert_no_alarm(client);
    time_out(two, 1); /* this completion is never read */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        hf_completion c = {.size = sizeof c};
        _exit(hf_client_next(client, &c) == HF_EFORKED ? 0 : 1);
    }
    int outcome;
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_int_equal(outcome, 0);
    hf_lock_close(one);
    hf_client_close(client);
    hf_completion c = {.size = sizeof c}; /* the remaining completions can still be read */
    assert_status(hf_client_next(client, &c), HF_OK);
    assert_int_equal(c.kind, HF_KIND_ALARM);
    assert_status(hf_client_next(client, &c), HF_ECLOSED);
    hf_lock_close(two);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_client_has_counted_nothing),
        TEST(test_an_acquire_and_its_release_are_counted),
        TEST(test_a_started_acquire_is_counted_in_the_same_way),
        TEST(test_a_wait_in_the_queue_is_counted_and_measured),
        TEST(test_busy_and_timed_out_are_counted_apart),
        TEST(test_a_cancelled_wait_is_counted_and_one_that_waits_is_seen),
        TEST(test_a_signal_that_ends_a_wait_is_counted),
        TEST(test_an_upgrade_is_counted_as_a_deadlock),
        TEST(test_an_outage_is_not_counted_as_a_lock_that_others_hold),
        TEST(test_a_server_that_is_not_there_is_counted_as_unreachable),
        TEST(test_a_server_that_refuses_is_counted_as_failed),
        TEST(test_a_connection_in_place_of_a_broken_one_is_a_reconnect),
        TEST(test_a_loss_is_counted_once_by_its_cause),
        TEST(test_a_hold_that_cannot_be_renewed_is_lost_as_unreachable),
        TEST(test_a_hold_that_keeps_the_lock_is_counted_as_kept),
        TEST(test_a_hold_that_is_handed_over_is_measured_on_both_sides),
        TEST(test_calls_are_counted_by_their_outcome),
        TEST(test_a_release_without_its_result_is_counted),
        TEST(test_who_would_wait_for_itself_is_counted_as_that),
        TEST(test_a_hundred_threads_counts_add_up),
        TEST(test_a_name_is_counted_apart_only_if_asked_for),
        TEST(test_a_million_names_do_not_become_a_million_counts),
        TEST(test_bad_arguments_are_refused),
        TEST(test_the_alarm_names_the_lock_and_is_told_once),
        TEST(test_a_started_acquire_raises_the_alarm_too),
        TEST(test_timeouts_that_lie_far_apart_raise_no_alarm),
        TEST(test_the_alarm_is_told_again_after_its_window),
        TEST(test_a_lock_may_turn_the_clients_alarm_off),
        TEST(test_many_locks_that_time_out_once_hide_no_stuck_one),
        TEST(test_an_alarm_that_nobody_hears_is_counted_and_leaves_nothing),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

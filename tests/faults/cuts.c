/* Cut connections, lost answers, late copies, stopped servers: every operation is carried out once,
 * and no caller waits for ever or holds without knowing it. */
#include "faults.h"

#include "protocol/scripts.h"

/* ------------------------------------------------------------- The tests */

static proxy *way;                /* to the server */
static hf_client *client, *other; /* client: through the proxy; other: past it */
static hf_lock *lock, *theirs;    /* both k, of the same two clients */
static const hf_lock_options by_the_minute = {.size = sizeof by_the_minute, .lease_ms = 60000};

static void open_all(const char *url, int64_t connect_ms, int64_t command_ms) {
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = connect_ms, .command_timeout_ms = command_ms};
    assert_status(hf_client_open(url, &options, &client), HF_OK);
    assert_status(hf_client_open(unix_url(), &options, &other), HF_OK);
    lock = must_lock(client, "k", &by_the_minute);
    theirs = must_lock(other, "k", &by_the_minute);
}

/* Let the client subscribe, and the server learn the scripts. */
static void warm_up(void) {
    hf_hold *hold;
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    assert_status(hf_hold_renew(hold), HF_OK);
    waiter *w = waiter_start(lock, 5000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    assert_status(hf_lock_acquire(theirs, 20, &hold), HF_ETIMEOUT);
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    give_back(w->hold, HF_OK);
}

static int set_up(void **state) {
    int result = begin_fault(state);
    way = proxy_start();
    open_all(text("redis://127.0.0.1:%d", way->port), 2000, 1000);
    warm_up();
    return result;
}

static int set_up_impatient(void **state) {
    int result = begin_fault(state);
    open_all(unix_url(), 300, 150);
    warm_up();
    return result;
}

static int set_up_bare(void **state) { return begin_fault(state); }

static int tear_down(void **state) {
    (void)state;
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
    lock = theirs = NULL;
    client = other = NULL;
    if (way != NULL)
        proxy_stop(way);
    way = NULL;
    return 0;
}

/* The scripts by which the proxy recognizes a request. */
#define TAKE hf_script_take.sha1
#define ENQUEUE hf_script_acquire.sha1
#define CROWD hf_script_wait.sha1
#define DROP "HDEL"
#define RELEASE hf_script_release.sha1
#define RENEW hf_script_renew.sha1
#define CANCEL hf_script_cancel.sha1

/* Let only `at` bytes of the next answer to such a request arrive, then end the connection. */
static void cut(const char *request, int at) {
    atomic_store(&way->cut_at, at);
    atomic_store(&way->answered, INT32_MAX);
    atomic_store(&way->mishaps, 0);
    proxy_next(way, LOSE_REPLY, request);
}

/* End the connection at the next such request, which arrives with proxy_deliver(). */
static void keep(const char *request) { proxy_next(way, LATE_REQUEST, request); }

static int64_t holds_of_k(void) {
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_inspect(theirs, 0, &info, NULL), HF_OK);
    return info.count;
}

static int64_t realtime_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* C4: check that the hold ends for the client before it ends on the server. */
static void assert_no_longer_than_there(const hf_hold *hold) {
    int64_t now = realtime_ms(); /* before the request, not perhaps after it */
    assert_true(now + hf_hold_remaining_ms(hold) <= expires_at("k"));
}

/* Check that the lock is free long before the lease ends, and stays free. */
static void assert_free_soon_and_for_good(void) {
    assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    sleep_ms(300);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_int_equal(queued("k"), 0);
    assert_nothing_left();
}

static hf_completion told(int64_t within_ms) {
    hf_completion completion = {.size = sizeof completion};
    struct pollfd fd = {.fd = hf_client_fd(client), .events = POLLIN};
    poll(&fd, 1, (int)within_ms);
    assert_status(hf_client_next(client, &completion), HF_OK);
    return completion;
}

/* ---------------------------------------------- Answers cut at every byte */

/* For every position in the answer, from its start to its end. */
#define FOR_EVERY_CUT(request, at)                                                                 \
    for (int at = 0, more = 1; more; assert_int_equal(atomic_load(&way->mishaps), 1),              \
             more = at++ < atomic_load(&way->answered))                                            \
        if (cut(request, at), 1)

/* C2, C3, C4 */
static void test_an_acquire_whose_answer_is_cut_anywhere_is_one_hold(void **state) {
    (void)state;
    hf_lock_options once = {.size = sizeof once, .lease_ms = 60000, .reentrant = HF_OFF};
    hf_lock *locks[] = {lock, must_lock(client, "k", &once)};
    for (size_t i = 0; i < COUNT(locks); i++) {
        FOR_EVERY_CUT(TAKE, at) {
            hf_hold *hold = held(locks[i]);
            assert_int_equal(holds_of_k(), 1);
            assert_no_longer_than_there(hold);
            assert_int_equal(STORED("k").fence, hf_hold_fence(hold));
            give_back(hold, HF_OK);
            assert_int_equal(NUMBER("EXISTS k"), 0);
        }
    }
    hf_lock_close(locks[1]);
}

/* C4: the retry learns the time that is left, and counts it from the time of its own sending. */
static void test_a_retry_long_after_does_not_count_a_whole_lease(void **state) {
    (void)state;
    atomic_store(&way->stall_ms, 300);
    cut(TAKE, 0);
    hf_hold *hold = held(lock);
    assert_in_range(hf_hold_remaining_ms(hold), 59000, 59700);
    assert_no_longer_than_there(hold);
    cut(RENEW, 0);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_no_longer_than_there(hold);
    give_back(hold, HF_OK);

    /* The lock is granted while the answer to the first request is lost. */
    hold = held(theirs);
    cut(ENQUEUE, 0);
    waiter *w = waiter_start(lock, 5000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    assert_no_longer_than_there(w->hold);
    give_back(w->hold, HF_OK);
}

/* Restore the state of ten minutes later: no id is dead, and a crowd queues by `wait` again. */
static void forget_the_dead(void) {
    char *one = text("%s", STRING("HGET k hf1"));
    one[32] = '1';
    TELL("HSET k hf1 %s", one);
    TELL("SETRANGE {k}k:hf1:f 48 0000000000000");
    sleep_ms(220); /* after a failed request the next is 200 ms later */
}

/* Check that the waiter has one place, is granted the released lock, and holds it once. */
static void assert_one_place(hf_hold *hold, waiter *w) {
    assert_soon(atomic_load(&way->mishaps) == 1 && queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    assert_int_equal(holds_of_k(), 1);
    assert_int_equal(queued("k"), 0);
    assert_no_longer_than_there(w->hold);
}

/* C8 */
static void test_a_place_in_the_queue_whose_answer_is_cut_anywhere_is_one_place(void **state) {
    (void)state;
    FOR_EVERY_CUT(ENQUEUE, at) {
        hf_hold *hold = held(theirs);
        waiter *w = waiter_start(lock, 5000);
        assert_one_place(hold, w);
        give_back(w->hold, HF_OK);
        assert_int_equal(NUMBER("EXISTS k"), 0);
    }
}

/* The same for a lock that was waited for a moment ago. */
static void test_a_place_in_a_crowd_whose_answer_is_cut_anywhere_is_one_place(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 5000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    FOR_EVERY_CUT(CROWD, at) {
        hold = w->hold; /* stored in the form of a lock with a queue */
        forget_the_dead();
        w = waiter_start(lock, 5000);
        assert_one_place(hold, w);
    }
    give_back(w->hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
}

static void assert_result(hf_lock *asks, const char *result) {
    hf_hold *done;
    assert_status(hf_once_begin(asks, 5000, NULL, NULL, 0, &done), HF_EDONE);
    assert_string_equal(hf_hold_result(done, NULL), result);
    hf_hold_close(done);
}

/* The result is left once: the retry finds it. */
static void test_a_result_whose_answer_is_cut_anywhere_is_left(void **state) {
    (void)state;
    FOR_EVERY_CUT(RELEASE, at) {
        hf_hold *hold;
        assert_status(hf_once_begin(lock, 5000, NULL, NULL, 0, &hold), HF_OK);
        assert_status(hf_once_finish(hold, HF_ONCE_DONE, "done", 4, 60000), HF_OK);
        hf_hold_close(hold);
        assert_int_equal(NUMBER("EXISTS k"), 0);
        assert_result(theirs, "done");
        TELL("DEL {k}k:hf1:r");
    }
}

/* A request whose answer has a result is sent again, and leaves no waiter in the queue. */
static void test_an_answer_with_a_result_may_be_cut_anywhere(void **state) {
    (void)state;
    hf_hold *hold;
    assert_status(hf_once_begin(theirs, 5000, NULL, NULL, 0, &hold), HF_OK);
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "done", 4, 60000), HF_OK);
    hf_hold_close(hold);
    FOR_EVERY_CUT(ENQUEUE, at) assert_result(lock, "done");
    TELL("DEL {k}k:hf1:r");
    assert_free_soon_and_for_good();
}

/* The message about a result may be lost: the re-check finds the result. */
static void test_a_lost_message_of_a_result_is_found_by_the_recheck(void **state) {
    (void)state;
    hf_hold *hold;
    assert_status(hf_once_begin(theirs, 5000, NULL, NULL, 0, &hold), HF_OK);
    assert_status(hf_once_begin_start(lock, 20000, NULL, NULL, 0, 1), HF_OK);
    assert_soon(queued("k") == 1);
    atomic_store(&way->loses_grants, true);
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, "done", 4, 60000), HF_OK);
    hf_hold_close(hold);
    hf_completion next = next_of(client);
    atomic_store(&way->loses_grants, false);
    assert_status(next.status, HF_EDONE);
    assert_int_equal(atomic_load(&way->grants_lost), 1);
    assert_string_equal(hf_hold_result(next.hold, NULL), "done");
    hf_hold_close(next.hold);
    TELL("DEL {k}k:hf1:r");
    assert_free_soon_and_for_good();
}

/* C2 */
static void test_a_release_whose_answer_is_cut_anywhere_releases_once(void **state) {
    (void)state;
    FOR_EVERY_CUT(RELEASE, at) {
        hf_hold *hold = held(lock);
        waiter *next = at % 2 ? waiter_start(theirs, 5000) : NULL;
        if (next != NULL)
            assert_soon(queued("k") == 1);
        sleep_ms(2); /* old enough for the general form */
        give_back(hold, HF_OK);
        if (next != NULL) {
            waiter_join(next, HF_OK);
            assert_int_equal(holds_of_k(), 1);
            assert_status(hf_hold_check(next->hold), HF_OK);
            give_back(next->hold, HF_OK);
        }
        assert_int_equal(NUMBER("EXISTS k"), 0);
    }
    if (SLOW > 1)
        return;     /* the hold would be too old for the short form */
    sleep_ms(1100); /* and no acquire has waited for the lock lately */
    FOR_EVERY_CUT(DROP, at) {
        do /* on a busy machine some holds are too old */
            give_back(held(lock), HF_OK);
        while (atomic_load(&way->mishaps) == 0);
        assert_int_equal(NUMBER("EXISTS k"), 0);
    }
}

static void test_a_renewal_whose_answer_is_cut_anywhere_renews(void **state) {
    (void)state;
    hf_hold *hold = held(lock);
    FOR_EVERY_CUT(RENEW, at) {
        sleep_ms(2 + EXPIRY_SLACK);
        int64_t before = expires_at("k");
        assert_status(hf_hold_renew(hold), HF_OK);
        assert_true(expires_at("k") > before);
        assert_no_longer_than_there(hold);
    }
    give_back(hold, HF_OK);
}

/* The connection of the keeper, for renewals. */
static void test_a_renewal_in_the_background_outlives_its_cut_answer(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .lease_ms = 600, .renew = HF_ON};
    hf_lock *brief = must_lock(client, "k", &options);
    hf_hold *hold = held(brief);
    FOR_EVERY_CUT(RENEW, at) {
        assert_soon(atomic_load(&way->mishaps) == 1 && atomic_load(&way->answered) != INT32_MAX);
        int64_t before = expires_at("k");
        assert_soon(expires_at("k") > before || hf_hold_state(hold) != HF_STATE_HELD);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    }
    sleep_ms(700);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_no_longer_than_there(hold);
    give_back(hold, HF_OK);
    hf_lock_close(brief);
}

static void test_a_timeout_whose_cancel_is_cut_anywhere_leaves_nothing_behind(void **state) {
    (void)state;
    hf_hold *hold = held(theirs), *none;
    FOR_EVERY_CUT(CANCEL, at) {
        assert_status(hf_lock_acquire(lock, 10, &none), HF_ETIMEOUT);
        assert_int_equal(queued("k"), 0);
    }
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
}

static void test_a_started_acquire_whose_answer_is_cut_anywhere_is_one_place(void **state) {
    (void)state;
    int64_t op = 0;
    FOR_EVERY_CUT(ENQUEUE, at) {
        hf_hold *hold = held(theirs);
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 5000, NULL, ++op), HF_OK);
        assert_soon(atomic_load(&way->mishaps) == 1 && queued("k") == 1);
        give_back(hold, HF_OK);
        hf_completion completion = told(5000);
        assert_int_equal(completion.kind, HF_KIND_ACQUIRE);
        assert_int_equal(completion.status, HF_OK);
        assert_int_equal(holds_of_k(), 1);
        assert_int_equal(queued("k"), 0);
        give_back(completion.hold, HF_OK);
        assert_int_equal(NUMBER("EXISTS k"), 0);
    }
}

/* ----------------------------------------------------------- Late copies */

/* C3 */
static void test_a_late_copy_of_an_acquire_neither_takes_nor_counts(void **state) {
    (void)state;
    keep(TAKE);
    hf_hold *hold = held(lock);
    proxy_deliver(way); /* while the lock is held */
    assert_int_equal(holds_of_k(), 1);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);

    keep(TAKE);
    give_back(held(lock), HF_OK);
    proxy_deliver(way); /* after it was released */
    assert_free_soon_and_for_good();

    keep(TAKE);
    give_back(held(lock), HF_OK);
    hold = held(theirs);
    char *before = snapshot("k");
    proxy_deliver(way); /* while another client holds it */
    assert_string_equal(snapshot("k"), before);
    give_back(hold, HF_OK);
    assert_free_soon_and_for_good();
}

/* C3 */
static void test_a_late_copy_of_an_enqueue_does_not_stand_in_the_queue(void **state) {
    (void)state;
    hf_hold *hold = held(theirs), *none;
    sleep_ms(1100); /* after the last wait for it */
    keep(ENQUEUE);
    assert_status(hf_lock_acquire(lock, 100, &none), HF_ETIMEOUT);
    proxy_deliver(way);
    assert_int_equal(queued("k"), 0);

    keep(ENQUEUE);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    sleep_ms(50); /* and the client knows */
    assert_status(hf_op_cancel(client, 1), HF_OK);
    assert_int_equal(told(2000).status, HF_ECANCELED);
    proxy_deliver(way);
    assert_int_equal(queued("k"), 0);
    give_back(hold, HF_OK);
    assert_free_soon_and_for_good();
}

/* C2 a, c */
static void test_a_late_copy_of_a_release_or_renewal_touches_nobody(void **state) {
    (void)state;
    hf_hold *hold = held(lock);
    sleep_ms(1100); /* after the last wait for it */
    give_back(hold, HF_OK);
    hold = held(lock);
    keep(DROP);
    give_back(hold, HF_OK);
    hold = held(lock); /* the same owner again */
    char *other_hold = snapshot("k");
    proxy_deliver(way);
    assert_string_equal(snapshot("k"), other_hold);

    keep(RELEASE);
    sleep_ms(2);
    give_back(hold, HF_OK);
    hold = held(lock); /* the same owner again */
    char *before = snapshot("k");
    proxy_deliver(way);
    assert_string_equal(snapshot("k"), before);

    keep(RENEW);
    assert_status(hf_hold_renew(hold), HF_OK);
    give_back(hold, HF_OK);
    proxy_deliver(way);
    assert_free_soon_and_for_good();
}

/* ---------------------------------------------------- Places that are lost */

/* The re-check of the oldest waiter finds that its place is gone, and then all waiters ask again.
 */
static void test_a_crowd_that_lost_its_places_comes_back_together(void **state) {
    (void)state;
    enum { OPS = 8 };
    hf_hold *hold = held(theirs);
    for (int i = 1; i <= OPS; i++)
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 60000, NULL, i), HF_OK);
    assert_soon(queued("k") == OPS);
    sleep_ms(50); /* until the client knows its places */
    TELL("DEL {k}k:hf1:q");
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    for (int i = 1; i <= OPS; i++) {
        hf_completion completion = completion_within(client, 10000);
        assert_int_equal(completion.op, i); /* in their order */
        assert_status(completion.status, HF_OK);
        give_back(completion.hold, HF_OK);
    }
    assert_in_range(now_ms() - since, 0, 3500 + 500 * SLOW);
    assert_free_soon_and_for_good();
}

/* The place stays for as long as the client listens, so the client goes on until it has left. */
static void test_a_place_that_was_given_up_in_a_long_cut_is_left_after_it(void **state) {
    (void)state;
    hf_lock *brief = must_lock(
        client, "k",
        &(hf_lock_options){.size = sizeof(hf_lock_options), .lease_ms = 500, .renew = HF_OFF});
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(brief, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    sleep_ms(50);
    atomic_store(&way->again, 1000000);
    proxy_next(way, LOSE_REQUEST, NULL);
    assert_status(hf_op_cancel(client, 1), HF_OK);
    sleep_ms(500 + 3000 + 2000); /* longer than its lease, and some time for the server */
    assert_int_equal(queued("k"), 1);
    atomic_store(&way->again, 0);
    proxy_next(way, PASS, NULL);
    assert_soon(queued("k") == 0);
    give_back(hold, HF_OK);
    assert_free_soon_and_for_good();
    hf_lock_close(brief);
}

/* Leave an enqueue of a crowd under way whose acquire has timed out. */
static hf_hold *leave_a_late_enqueue(void) {
    hf_hold *hold = held(theirs), *none;
    waiter *w = waiter_start(lock, 5000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    forget_the_dead();
    keep(CROWD);
    assert_status(hf_lock_acquire(lock, 100, &none), HF_ETIMEOUT);
    return w->hold;
}

static void test_a_late_copy_of_an_enqueue_in_a_crowd_queues_nobody(void **state) {
    (void)state;
    hf_hold *hold = leave_a_late_enqueue();
    proxy_deliver(way);
    assert_int_equal(queued("k"), 0);
    give_back(hold, HF_OK);
    assert_free_soon_and_for_good();
}

/* If the dead ids and the fence are lost, the late copy is queued, but its grant is given back. */
static void test_a_late_copy_of_an_enqueue_in_a_crowd_gives_its_grant_back(void **state) {
    (void)state;
    hf_hold *hold = leave_a_late_enqueue();
    char *one = text("%s", STRING("HGET k hf1"));
    assert_int_equal(one[32], '2');
    one[32] = '1';
    TELL("HSET k hf1 %s", one);
    TELL("DEL {k}k:hf1:f");
    proxy_deliver(way);
    assert_int_equal(queued("k"), 1);
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    assert_soon(NUMBER("EXISTS k") == 0 && queued("k") == 0);
    assert_in_range(now_ms() - since, 0, 1000 * SLOW); /* earlier than the end of the grant */
    assert_free_soon_and_for_good();
}

/* ---------------------------------------------------------- Lost messages */

/* H1: a re-check is at most 3 s away. */
static void test_a_grant_whose_message_is_lost_is_found_by_the_recheck(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    atomic_store(&way->loses_grants, true);
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    print_message("found after %lld ms\n", (long long)(w->done_at - since));
    assert_int_equal(atomic_load(&way->grants_lost), 1);
    assert_in_range(w->done_at - since, 100, 3000 + 300);
    assert_no_longer_than_there(w->hold);
    atomic_store(&way->loses_grants, false);
    give_back(w->hold, HF_OK);
    assert_free_soon_and_for_good();
}

/* H3, H4: the subscription ends just before or just after the grant. */
static void test_a_subscription_that_ends_around_the_release_delays_nobody(void **state) {
    (void)state;
    int64_t longest = 0;
    for (int i = 0; i < 100 / SLOW; i++) {
        hf_hold *hold = held(theirs);
        waiter *w = waiter_start(lock, 20000);
        assert_soon(queued("k") == 1);
        int64_t since = now_ms();
        if (i % 2 == 0)
            TELL("CLIENT KILL TYPE pubsub");
        if (i % 4 == 2)
            nanosleep(&(struct timespec){.tv_nsec = i * 100000}, NULL);
        give_back(hold, HF_OK);
        if (i % 2 == 1)
            TELL("CLIENT KILL TYPE pubsub");
        waiter_join(w, HF_OK);
        if (w->done_at - since > longest)
            longest = w->done_at - since;
        assert_no_longer_than_there(w->hold);
        give_back(w->hold, HF_OK);
    }
    print_message("the longest wait %lld ms\n", (long long)longest);
    assert_in_range(longest, 0, 1000);
    assert_free_soon_and_for_good();
}

/* H3: all waiters ask again, not only the oldest, and in their old order. */
static void test_after_a_new_subscription_all_waiters_ask_again(void **state) {
    enum { OPS = 150 };
    (void)state;
    hf_hold *hold = held(theirs);
    for (int i = 1; i <= OPS; i++)
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 60000, NULL, i), HF_OK);
    assert_soon(queued("k") == OPS);
    int64_t since = now_ms();
    TELL("CLIENT KILL TYPE pubsub");
    TELL("DEL {k}k:hf1:q"); /* as when another client skips them all meanwhile */
    give_back(hold, HF_OK);
    for (int i = 1; i <= OPS; i++) {
        hf_completion completion = told(3000);
        assert_int_equal(completion.kind, HF_KIND_ACQUIRE);
        assert_int_equal(completion.status, HF_OK);
        assert_int_equal(completion.op, i);
        give_back(completion.hold, HF_OK);
    }
    assert_in_range(now_ms() - since, 0, 2000 * SLOW);
    assert_free_soon_and_for_good();
}

/* H3: the server ends the subscription, and leaves the connection open. */
static void test_an_unsubscription_that_nobody_asked_for_is_noticed(void **state) {
    (void)state;
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    int64_t since = now_ms();
    TELL("DEL {k}k:hf1:q"); /* it was skipped meanwhile */
    atomic_store(&way->unsubscribes, true);
    assert_soon(queued("k") == 1);
    assert_in_range(now_ms() - since, 0, 1000);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
}

/* H13: the server renewed the hold again and again, and the client got no answer. */
static void test_a_hold_lost_here_does_not_stand_there_for_another_lease(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .lease_ms = 1500, .renew = HF_ON};
    hf_lock *renewed = must_lock(client, "k", &options);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(renewed);
    proxy_next(way, LOSE_ALL, "EVALSHA");
    hf_completion loss = told(2000);
    assert_int_equal(loss.kind, HF_KIND_LOSS);
    assert_int_equal(loss.cause, HF_CAUSE_UNREACHABLE);
    int64_t left = NUMBER("PTTL k");
    proxy_next(way, PASS, NULL);
    int64_t since = now_ms();
    assert_soon(NUMBER("EXISTS k") == 0);
    int64_t took = now_ms() - since;
    print_message("%lld ms were left there, and it took %lld\n", (long long)left, (long long)took);
    assert_true(left < 0 || left > 700);
    assert_in_range(took, 0, 400);
    give_back(hold, HF_ELOST);
    hf_lock_close(renewed);
    assert_free_soon_and_for_good();
}

/* ------------------------------------------------------------------ A brake */

typedef struct braked {
    hf_brake *brake;
    hf_status status;
    pthread_t thread;
} braked;

static void *braked_main(void *argument) {
    braked *mine = argument;
    hf_hold *hold = NULL;
    hf_brake_set(mine->brake);
    mine->status = hf_lock_acquire(lock, 0, &hold);
    hf_brake_set(NULL);
    if (hold != NULL) {
        must_be(hf_hold_release(hold), HF_OK);
        hf_hold_close(hold);
    }
    return NULL;
}

static void braked_start(braked *mine) {
    mine->status = HF_OK;
    must(pthread_create(&mine->thread, NULL, braked_main, mine) == 0);
}

static void braked_join(braked *mine, hf_status expected) {
    pthread_join(mine->thread, NULL);
    assert_status(mine->status, expected);
}

/* M16: the request may be carried out before the pull or after it. */
static void test_a_pulled_brake_ends_the_try_at_once_and_leaves_nothing_behind(void **state) {
    (void)state;
    static const mishap kinds[] = {HOLD_REQUEST, HOLD_REPLY};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        braked mine;
        int mishaps = atomic_load(&way->mishaps);
        assert_status(hf_brake_open(&mine.brake), HF_OK);
        give_back(held(lock), HF_OK); /* a connection is open and idle */
        braked_start(&mine);
        braked_join(&mine, HF_OK); /* one brake serves many calls */
        proxy_next(way, kinds[i], TAKE);
        braked_start(&mine);
        assert_soon(atomic_load(&way->mishaps) > mishaps);
        int64_t since = now_ms();
        hf_brake_pull(mine.brake);
        braked_join(&mine, HF_ECANCELED);
        assert_in_range(now_ms() - since, 0, 50 * SLOW);
        atomic_store(&way->holds_request, false);
        atomic_store(&way->holds_reply, false);
        assert_free_soon_and_for_good();
        /* The brake stays pulled, and the acquire sends nothing. */
        give_back(held(lock), HF_OK);
        mishaps = atomic_load(&way->mishaps);
        proxy_next(way, LOSE_REQUEST, TAKE);
        braked_start(&mine);
        braked_join(&mine, HF_ECANCELED);
        assert_int_equal(atomic_load(&way->mishaps), mishaps);
        proxy_next(way, PASS, NULL);
        hf_brake_close(mine.brake);
    }
}

/* An acquire does without a connection, because the client's thread asks for it. */
static void test_with_a_brake_no_thread_waits_for_a_connection(void **state) {
    (void)state;
    hf_client_options options = {.size = sizeof options, .lazy = HF_ON};
    hf_client *lazy;
    hf_brake *brake;
    hf_hold *hold;
    hf_view *view;
    assert_status(hf_brake_open(NULL), HF_EINVAL);
    assert_status(hf_brake_open(&brake), HF_OK);
    assert_status(hf_client_open(unix_url(), &options, &lazy), HF_OK);
    hf_lock *there = must_lock(lazy, "k", &by_the_minute);
    hf_brake_set(brake);
    assert_status(hf_lock_inspect(there, 0, NULL, &view), HF_ECONNECT);
    hold = held(there);
    hf_brake_set(NULL);
    give_back(hold, HF_OK);
    hf_brake_set(brake); /* a connection is open and idle */
    give_back(held(there), HF_OK);
    hf_brake_set(NULL);
    hf_brake_pull(NULL);
    hf_brake_close(NULL);
    hf_brake_close(brake);
    hf_lock_close(there);
    hf_client_close(lazy);
}

/* --------------------------------------------- A server that does not answer */

enum { TRIES = 6 };

static void try_while_it_is_silent(void) {
    waiter *waiters[TRIES];
    hf_lock_options options = {.size = sizeof options, .lease_ms = HF_NEVER};
    hf_lock *for_ever = must_lock(client, "k", &options);
    for (int i = 0; i < TRIES; i++)
        waiters[i] = waiter_start(i % 3 ? lock : for_ever, i % 2 ? 200 : 0);
    for (int i = 0; i < TRIES; i++) {
        pthread_join(waiters[i]->thread, NULL);
        assert_true(waiters[i]->status == HF_EUNKNOWN || waiters[i]->status == HF_ECONNECT);
        assert_null(waiters[i]->hold);
    }
    hf_lock_close(for_ever);
}

/* C3, M3: the request is in the server's socket, and is carried out later. */
static void test_what_a_stopped_server_does_later_is_undone(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_hold *hold = i == 1 ? held(theirs) : NULL;
        kill(the_server, SIGSTOP);
        int64_t since = now_ms();
        try_while_it_is_silent();
        assert_in_range(now_ms() - since, 0, 200 + 300 + 300 + 200 * SLOW);
        kill(the_server, SIGCONT);
        if (hold != NULL)
            give_back(hold, HF_OK);
        since = now_ms();
        assert_free_soon_and_for_good();
        print_message("undone after %lld ms\n", (long long)(now_ms() - since - 300));
    }
}

static void test_what_a_paused_server_does_later_is_undone(void **state) {
    (void)state;
    redisContext *redis = connect_raw();
    freeReplyObject(redisCommand(redis, "CLIENT PAUSE 1000 ALL"));
    int64_t since = now_ms();
    try_while_it_is_silent();
    assert_in_range(now_ms() - since, 0, 200 + 300 + 300 + 200 * SLOW);
    sleep_ms(700);
    assert_free_soon_and_for_good();
    redisFree(redis);
}

/* A release without an answer is carried out when the server is back, not only at the end of the
 * lease. */
static void test_a_release_that_was_not_answered_is_made_later(void **state) {
    (void)state;
    hf_hold *hold = held(lock);
    kill(the_server, SIGSTOP);
    hf_status status = hf_hold_release(hold);
    assert_true(status == HF_EUNKNOWN || status == HF_ECONNECT);
    hf_hold_close(hold);
    kill(the_server, SIGCONT);
    assert_free_soon_and_for_good();
}

/* ------------------------------------------------- Connections killed at random */

enum { KILL_PROCESSES = 3, KILL_THREADS = 4, KILL_ROUNDS = 200 / SLOW };

typedef struct fire {
    _Atomic int ready, go, finished;
} fire;

static redisContext *must_connect(void) {
    redisContext *redis = redisConnectUnix(unix_url() + strlen("unix://"));
    must(redis != NULL && redis->err == 0);
    redisReply *reply = redisCommand(redis, "CLIENT SETNAME test");
    must(reply != NULL);
    freeReplyObject(reply);
    return redis;
}

static fire *at_war;
static hf_client *own;

static void *work_under_fire(void *argument) {
    (void)argument;
    hf_lock *mine = must_lock(own, "k", NULL);
    redisContext *redis = must_connect();
    atomic_fetch_add(&at_war->ready, 1);
    wait_until(atomic_load(&at_war->go) == 1);
    for (int i = 0; i < KILL_ROUNDS; i++) {
        hf_hold *hold;
        int64_t since = now_ms();
        must_be(hf_lock_acquire(mine, 30000, &hold), HF_OK);
        must(now_ms() - since < 8000 * SLOW);
        redisReply *reply = redisCommand(redis, "GET counter");
        must(reply != NULL);
        int64_t counter = reply->str != NULL ? atoll(reply->str) : 0;
        freeReplyObject(reply);
        reply = redisCommand(redis, "HSET log %lld %lld", (long long)counter,
                             (long long)hf_hold_fence(hold));
        must(reply != NULL);
        freeReplyObject(reply);
        reply = redisCommand(redis, "SET counter %lld", (long long)counter + 1);
        must(reply != NULL);
        freeReplyObject(reply);
        must_be(hf_hold_release(hold), HF_OK);
        hf_hold_close(hold);
    }
    redisFree(redis);
    hf_lock_close(mine);
    return NULL;
}

static void process_under_fire(void *argument) {
    at_war = argument;
    own = must_open(unix_url());
    run_together(KILL_THREADS, work_under_fire, NULL, 0);
    hf_client_close(own);
    atomic_fetch_add(&at_war->finished, 1);
}

/* Kill a connection of the workers, of any kind. */
static bool kill_one(unsigned *seed) {
    char *list = text("%s", STRING("CLIENT LIST")), *ids[256];
    unsigned count = 0;
    for (char *line = strtok(list, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strstr(line, " name=test ") == NULL && count < COUNT(ids))
            ids[count++] = line + strlen("id=");
    if (count == 0)
        return false;
    ask("CLIENT KILL ID %s", text("%lld", atoll(ids[(unsigned)rand_r(seed) % count])));
    return true;
}

/* C2, C3, H3, H4 */
static void test_connections_killed_at_random_cost_no_exclusion_and_no_waiter(void **state) {
    (void)state;
    pid_t pids[KILL_PROCESSES];
    int kills = 0;
    unsigned seed = some_seed();
    at_war = shared_memory(sizeof *at_war);
    for (int i = 0; i < KILL_PROCESSES; i++)
        pids[i] = worker_start(process_under_fire, at_war);
    TELL("CLIENT SETNAME test");
    assert_soon(atomic_load(&at_war->ready) == KILL_PROCESSES * KILL_THREADS);
    atomic_store(&at_war->go, 1);
    int64_t until = now_ms() + 80000;
    while (atomic_load(&at_war->finished) < KILL_PROCESSES && now_ms() < until) {
        kills += kill_one(&seed);
        sleep_ms(rand_r(&seed) % 8);
        for (int i = 0; i < KILL_PROCESSES; i++)
            assert_false(worker_failed(pids[i]));
    }
    for (int i = 0; i < KILL_PROCESSES; i++)
        worker_join(pids[i]);
    int64_t handoffs = KILL_PROCESSES * KILL_THREADS * KILL_ROUNDS, last = 0;
    print_message("%d connections killed in %lld handoffs\n", kills, (long long)handoffs);
    assert_int_equal(NUMBER("HLEN log"), handoffs);
    assert_int_equal(atoll(STRING("GET counter")), handoffs);
    for (int64_t i = 0; i < handoffs; i++) {
        int64_t fence = atoll(STRING("HGET log %lld", (long long)i));
        assert_true(fence > last);
        last = fence;
    }
    assert_true(kills > 40);
    TELL("DEL log counter");
    assert_free_soon_and_for_good();
}

/* ------------------------------------------------------- Everything at once */

typedef struct turmoil {
    section at;
    _Atomic int ready, stop;
    _Atomic int64_t entered, gave_up;
    _Atomic int64_t last_ms, pause_ms; /* the longest time between two entries */
} turmoil;

static turmoil *all;

static void enter_and_leave(hf_hold *hold, unsigned *seed) {
    section_enter(&all->at, hold);
    int64_t now = now_ms(), pause = now - atomic_exchange(&all->last_ms, now);
    if (pause < now && pause > atomic_load(&all->pause_ms))
        atomic_store(&all->pause_ms, pause);
    if (rand_r(seed) % 4 == 0)
        nanosleep(&(struct timespec){.tv_nsec = rand_r(seed) % 500000}, NULL);
    section_leave(&all->at);
    atomic_fetch_add(&all->entered, 1);
}

static int64_t any_timeout(unsigned *seed) {
    int kind = rand_r(seed) % 4;
    return kind == 0 ? 0 : kind == 1 ? 20000 : rand_r(seed) % 30;
}

/* Let threads wait, with patience or without. */
static void *take_turns(void *argument) {
    unsigned seed = some_seed();
    hf_lock *mine = must_lock(own, "k", &by_the_minute);
    atomic_fetch_add(&all->ready, 1);
    while (atomic_load(&all->stop) == 0) {
        hf_hold *hold;
        hf_status status = hf_lock_acquire(mine, any_timeout(&seed), &hold);
        if (status == HF_OK) {
            enter_and_leave(hold, &seed);
            must_be(hf_hold_release(hold), HF_OK);
            hf_hold_close(hold);
        } else {
            must(status == HF_EBUSY || status == HF_ETIMEOUT || status == HF_EUNKNOWN);
            atomic_fetch_add(&all->gave_up, 1);
        }
    }
    hf_lock_close(mine);
    return argument;
}

/* Start many operations on one thread, and cancel some. */
static void *start_many(void *argument) {
    enum { AT_ONCE = 8 };
    unsigned seed = some_seed();
    int64_t op = 0, under_way = 0, until = 0;
    hf_lock *mine = must_lock(own, "k", &by_the_minute);
    int fd = hf_client_fd(own);
    must(fd >= 0);
    atomic_fetch_add(&all->ready, 1);
    for (;;) {
        bool stop = atomic_load(&all->stop) != 0;
        while (!stop && under_way < AT_ONCE) {
            must_be(hf_lock_acquire_start(mine, NULL, 0, any_timeout(&seed), NULL, ++op), HF_OK);
            under_way++;
        }
        if (stop && until == 0) {
            until = now_ms() + 20000;
            for (int64_t i = op > 1000 ? op - 1000 : 1; i <= op; i++)
                hf_op_cancel(own, i);
        }
        if (under_way == 0)
            break;
        must(until == 0 || now_ms() < until);
        if (rand_r(&seed) % 4 == 0)
            hf_op_cancel(own, op - rand_r(&seed) % AT_ONCE);
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 20);
        for (;;) {
            hf_completion completion = {.size = sizeof completion};
            must_be(hf_client_next(own, &completion), HF_OK);
            if (completion.kind == HF_KIND_NONE)
                break;
            if (completion.kind == HF_KIND_ACQUIRE && completion.status == HF_OK) {
                enter_and_leave(completion.hold, &seed);
                must_be(hf_hold_release_start(completion.hold, completion.op), HF_OK);
                hf_hold_close(completion.hold);
            } else if (completion.kind == HF_KIND_ACQUIRE) {
                must(completion.status == HF_EBUSY || completion.status == HF_ETIMEOUT ||
                     completion.status == HF_ECANCELED || completion.status == HF_EUNKNOWN ||
                     completion.status == HF_ECONNECT);
                atomic_fetch_add(&all->gave_up, 1);
                under_way--;
            } else {
                must(completion.kind == HF_KIND_RELEASE && completion.status == HF_OK);
                under_way--; /* it was one until now */
            }
        }
    }
    hf_lock_close(mine);
    return argument;
}

static void live_in_turmoil(void *argument) {
    pthread_t threads[4];
    all = argument;
    own = must_open(unix_url());
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, i < 3 ? take_turns : start_many, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    hf_client_close(own);
}

static void *wait_until_closed(void *argument) {
    hf_status status = hf_lock_acquire(argument, HF_FOREVER, NULL); /* owned by the client */
    must(status == HF_OK || status == HF_ECANCELED || status == HF_ECLOSED ||
         status == HF_EUNKNOWN || status == HF_ECONNECT);
    return NULL;
}

/* Open clients that wait, perhaps hold for a moment, and close. */
static void come_and_go(void *argument) {
    all = argument;
    unsigned seed = some_seed();
    atomic_fetch_add(&all->ready, 1);
    while (atomic_load(&all->stop) == 0) {
        pthread_t threads[2];
        if (hf_client_open(unix_url(), NULL, &own) != HF_OK)
            continue; /* it was killed while it logged in */
        hf_lock *mine = must_lock(own, "k", &by_the_minute);
        for (int i = 0; i < 2; i++)
            must(pthread_create(&threads[i], NULL, wait_until_closed, mine) == 0);
        nanosleep(&(struct timespec){.tv_nsec = rand_r(&seed) % 20000000}, NULL);
        hf_client_close(own);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        hf_lock_close(mine);
    }
}

/* All of the above at once, for a while. */
static void test_in_a_turmoil_nobody_is_let_in_twice_and_nothing_stays_behind(void **state) {
    (void)state;
    pid_t pids[4];
    int kills = 0;
    unsigned seed = some_seed();
    all = shared_memory(sizeof *all);
    for (int i = 0; i < 4; i++)
        pids[i] = worker_start(i < 3 ? live_in_turmoil : come_and_go, all);
    TELL("CLIENT SETNAME test");
    assert_soon(atomic_load(&all->ready) == 3 * 4 + 1);
    for (int64_t until = now_ms() + 1500; now_ms() < until;) {
        kills += kill_one(&seed);
        if (rand_r(&seed) % 16 == 0)
            TELL("SCRIPT FLUSH");
        sleep_ms(rand_r(&seed) % 20);
        for (int i = 0; i < 4; i++)
            assert_false(worker_failed(pids[i]));
    }
    atomic_store(&all->stop, 1);
    for (int i = 0; i < 4; i++)
        worker_join(pids[i]);
    print_message("%lld times entered, %lld given up, the longest pause %lld ms, %d kills\n",
                  (long long)atomic_load(&all->entered), (long long)atomic_load(&all->gave_up),
                  (long long)atomic_load(&all->pause_ms), kills);
    assert_int_equal(atomic_load(&all->at.counter), atomic_load(&all->entered));
    assert_true(atomic_load(&all->entered) > 100);
    assert_in_range(atomic_load(&all->pause_ms), 0, 1500); /* less than a grant lasts */
    assert_free_soon_and_for_good();
}

#define IMPATIENT(name) cmocka_unit_test_setup_teardown(name, set_up_impatient, tear_down)
#define BARE(name) cmocka_unit_test_setup_teardown(name, set_up_bare, tear_down)

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_an_acquire_whose_answer_is_cut_anywhere_is_one_hold),
        TEST(test_a_retry_long_after_does_not_count_a_whole_lease),
        TEST(test_a_place_in_the_queue_whose_answer_is_cut_anywhere_is_one_place),
        TEST(test_a_place_in_a_crowd_whose_answer_is_cut_anywhere_is_one_place),
        TEST(test_a_result_whose_answer_is_cut_anywhere_is_left),
        TEST(test_an_answer_with_a_result_may_be_cut_anywhere),
        TEST(test_a_lost_message_of_a_result_is_found_by_the_recheck),
        TEST(test_a_release_whose_answer_is_cut_anywhere_releases_once),
        TEST(test_a_renewal_whose_answer_is_cut_anywhere_renews),
        TEST(test_a_renewal_in_the_background_outlives_its_cut_answer),
        TEST(test_a_timeout_whose_cancel_is_cut_anywhere_leaves_nothing_behind),
        TEST(test_a_started_acquire_whose_answer_is_cut_anywhere_is_one_place),
        TEST(test_a_late_copy_of_an_acquire_neither_takes_nor_counts),
        TEST(test_a_late_copy_of_an_enqueue_does_not_stand_in_the_queue),
        TEST(test_a_late_copy_of_a_release_or_renewal_touches_nobody),
        TEST(test_a_crowd_that_lost_its_places_comes_back_together),
        TEST(test_a_place_that_was_given_up_in_a_long_cut_is_left_after_it),
        TEST(test_a_late_copy_of_an_enqueue_in_a_crowd_queues_nobody),
        TEST(test_a_late_copy_of_an_enqueue_in_a_crowd_gives_its_grant_back),
        TEST(test_a_grant_whose_message_is_lost_is_found_by_the_recheck),
        TEST(test_a_subscription_that_ends_around_the_release_delays_nobody),
        TEST(test_after_a_new_subscription_all_waiters_ask_again),
        TEST(test_an_unsubscription_that_nobody_asked_for_is_noticed),
        TEST(test_a_hold_lost_here_does_not_stand_there_for_another_lease),
        TEST(test_a_pulled_brake_ends_the_try_at_once_and_leaves_nothing_behind),
        TEST(test_with_a_brake_no_thread_waits_for_a_connection),
        IMPATIENT(test_what_a_stopped_server_does_later_is_undone),
        IMPATIENT(test_what_a_paused_server_does_later_is_undone),
        IMPATIENT(test_a_release_that_was_not_answered_is_made_later),
        BARE(test_connections_killed_at_random_cost_no_exclusion_and_no_waiter),
        BARE(test_in_a_turmoil_nobody_is_let_in_twice_and_nothing_stays_behind),
    };
    return RUN_TESTS(tests, count, words);
}

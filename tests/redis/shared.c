/* Shared holds through the public header: readers and writers, semaphores, nesting of one owner,
 * its downgrade to shared, and losses. */
#include "two.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHARED(...) OPTIONS(.mode = HF_SHARED, __VA_ARGS__)

static hf_lock *reader_of(hf_client *client, const char *owner, int64_t lease_ms) {
    return open_lock(client, "k", owner, SHARED(.lease_ms = lease_ms, .renew = HF_OFF));
}

static hf_lock *permit_of(hf_client *client, const char *owner, int64_t permits) {
    return open_lock(client, "k", owner, SHARED(.permits = permits));
}

static hf_lock *writer_of(hf_client *client, const char *owner) {
    return open_lock(client, "k", owner, NULL);
}

static void assert_busy(hf_lock *lock) {
    hf_hold *none;
    assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
}

static hf_lock_info look(hf_lock *lock) {
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    return info;
}

static void start(hf_lock *lock, int64_t number) {
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, number), HF_OK);
}

static int64_t waiting(void) { return NUMBER("ZCOUNT {k}k:hf1:q 0 9007199254740992"); }

/* Return the next hold, which must be granted to this operation. */
static hf_hold *granted(hf_client *client, int64_t number) {
    hf_completion next = next_of(client);
    assert_int_equal(next.kind, HF_KIND_ACQUIRE);
    assert_int_equal(next.op, number);
    assert_status(next.status, HF_OK);
    return next.hold;
}

static void assert_free(void) {
    assert_soon(NUMBER("EXISTS k") == 0 && NUMBER("EXISTS {k}k:hf1:s") == 0 && waiting() == 0);
}

/* ------------------------------------------------------- Readers and writers */

static void test_readers_enter_together_and_a_writer_alone(void **state) {
    (void)state;
    hf_lock *one = reader_of(ann, "one", 0), *two = reader_of(ben, "two", 0),
            *writer = writer_of(ben, "writer");
    hf_hold *first = held(one), *second = held(two);
    assert_true(hf_hold_fence(second) > hf_hold_fence(first));
    assert_busy(writer);
    hf_lock_info info = look(writer);
    assert_true(info.held && info.shared && !info.foreign);
    assert_int_equal(info.count, 2);
    hf_hold *nested = held(two);
    hf_lock *permit = permit_of(ann, "permit", 2);
    assert_status(hf_lock_acquire_start(permit, NULL, 0, HF_FOREVER, NULL, 7), HF_OK);
    assert_soon(waiting() == 1);
    hf_view *view;
    hf_lock_holder holders[2] = {{.size = sizeof *holders}, {.size = sizeof *holders}};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    assert_status(hf_lock_inspect(writer, 0, &info, &view), HF_OK);
    assert_int_equal(info.count, 3);
    assert_int_equal(hf_view_holders(view), 2);
    for (size_t i = 0; i < 2; i++)
        assert_status(hf_view_holder(view, i, &holders[i]), HF_OK);
    size_t of_two = holders[0].count == 2 ? 0 : 1; /* in the order of their ends */
    assert_true(holders[of_two].fence == hf_hold_fence(second));
    assert_int_equal(holders[of_two].mode, HF_SHARED);
    assert_int_equal(holders[of_two].owner_len, 3);
    assert_memory_equal(holders[of_two].owner, "two", 3);
    assert_int_equal(holders[1 - of_two].count, 1);
    assert_true(holders[1 - of_two].fence == hf_hold_fence(first));
    assert_int_equal(hf_view_waiters(view), 1);
    assert_status(hf_view_waiter(view, 0, &waiter), HF_OK);
    assert_int_equal(waiter.mode, HF_SHARED);
    assert_int_equal(waiter.permits, 2);
    hf_view_close(view);
    assert_status(hf_op_cancel(ann, 7), HF_OK);
    assert_status(next_of(ann).status, HF_ECANCELED);
    hf_lock_close(permit);
    give_back(nested, HF_OK);
    give_back(first, HF_OK);
    assert_busy(writer);
    int64_t fence = hf_hold_fence(second);
    give_back(second, HF_OK);
    hf_hold *alone = held(writer);
    assert_true(hf_hold_fence(alone) > fence);
    assert_busy(one);
    assert_false(look(one).shared);
    give_back(alone, HF_OK);
    assert_free();
    hf_lock_close(one);
    hf_lock_close(two);
    hf_lock_close(writer);
}

static void test_a_break_takes_one_reader_by_its_fence_and_all_that_nests_in_it(void **state) {
    (void)state;
    hf_lock *one = reader_of(ann, "one", 0), *two = reader_of(ben, "two", 0),
            *writer = writer_of(ben, "writer");
    hf_hold *first = held(one), *nested = held(one), *second = held(two);
    int64_t fence = hf_hold_fence(first);
    assert_int_equal(hf_hold_fence(nested), fence);
    assert_status(hf_lock_break(writer, fence - 1, 0), HF_ENOTHELD);
    assert_status(hf_lock_break(writer, 0, HF_BREAK_FOREIGN), HF_ENOTHELD);
    assert_int_equal(look(writer).count, 3);
    assert_status(hf_lock_break(writer, fence, 0), HF_OK);
    assert_int_equal(look(writer).count, 1);
    assert_int_equal(look(writer).fence, hf_hold_fence(second));
    assert_status(hf_lock_break(writer, fence, 0), HF_ENOTHELD); /* it is another hold's now */
    assert_status(hf_hold_check(first), HF_ELOST);
    assert_status(hf_hold_check(nested), HF_ELOST);
    assert_status(hf_hold_check(second), HF_OK);
    /* The last reader makes way for the writer. */
    start(writer, 1);
    assert_soon(waiting() == 1);
    assert_status(hf_lock_break(one, hf_hold_fence(second), 0), HF_OK);
    give_back(granted(ben, 1), HF_OK);
    assert_free();
    hf_hold_close(first);
    hf_hold_close(nested);
    hf_hold_close(second);
    hf_lock_close(one);
    hf_lock_close(two);
    hf_lock_close(writer);
}

/* Neither kind starves: a reader does not pass a writer that waits, and the readers behind it enter
 * together. */
static void test_who_came_first_enters_first_of_either_kind(void **state) {
    (void)state;
    hf_lock *first = reader_of(ann, "first", 0), *writer = writer_of(ben, "writer"),
            *second = reader_of(ben, "second", 0), *third = reader_of(ben, "third", 0);
    hf_hold *hold = held(first);
    start(writer, 1);
    assert_soon(waiting() == 1);
    start(second, 2);
    assert_soon(waiting() == 2);
    start(third, 3);
    assert_soon(waiting() == 3);
    assert_busy(third); /* though readers hold it */
    give_back(hold, HF_OK);
    hold = granted(ben, 1);
    sleep_ms(50);
    assert_int_equal(waiting(), 2);
    give_back(hold, HF_OK);
    hf_hold *holds[] = {granted(ben, 2), granted(ben, 3)};
    assert_int_equal(look(first).count, 2);
    give_back(holds[0], HF_OK);
    give_back(holds[1], HF_OK);
    assert_free();
    hf_lock_close(first);
    hf_lock_close(second);
    hf_lock_close(third);
    hf_lock_close(writer);
}

/* -------------------------------------------------------------- Semaphores */

static _Atomic int inside, most;

static void *enter_often(void *lock) {
    for (int i = 0; i < 30; i++) {
        hf_hold *hold;
        if (hf_lock_acquire(lock, 20000, &hold) != HF_OK)
            return lock;
        int now = atomic_fetch_add(&inside, 1) + 1;
        for (int seen = atomic_load(&most); now > seen;)
            if (atomic_compare_exchange_weak(&most, &seen, now))
                break;
        sleep_ms(1);
        atomic_fetch_sub(&inside, 1);
        hf_status status = hf_hold_release(hold);
        hf_hold_close(hold);
        if (status != HF_OK)
            return lock;
    }
    return NULL;
}

static void test_no_more_than_the_permits_are_inside(void **state) {
    (void)state;
    pthread_t threads[8];
    hf_lock *locks[] = {permit_of(ann, NULL, 3), permit_of(ben, NULL, 3)};
    atomic_store(&most, 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_often, locks[i % 2]), 0);
    for (int i = 0; i < 8; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&most), 3);
    assert_free();
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
}

/* Maintenance: an exclusive acquire waits until all permits are returned, and keeps other acquires
 * out. */
static void test_an_exclusive_acquire_waits_for_all_permits(void **state) {
    (void)state;
    hf_lock *one = permit_of(ann, "one", 2), *two = permit_of(ann, "two", 2),
            *three = permit_of(ann, "three", 2), *all = writer_of(ben, "all");
    hf_hold *first = held(one), *second = held(two);
    assert_busy(three);
    start(all, 1);
    assert_soon(waiting() == 1);
    give_back(first, HF_OK);
    assert_busy(three); /* it does not pass the waiter */
    give_back(second, HF_OK);
    hf_hold *hold = granted(ben, 1);
    assert_busy(three);
    give_back(hold, HF_OK);
    give_back(held(three), HF_OK);
    assert_free();
    hf_lock_close(one);
    hf_lock_close(two);
    hf_lock_close(three);
    hf_lock_close(all);
}

/* ------------------------------------------------------------------ Leases */

static void test_a_holder_that_died_frees_only_its_permit(void **state) {
    (void)state;
    hf_lock *brief = open_lock(ann, "k", "brief",
                               SHARED(.permits = 2, .lease_ms = 300, .renew = HF_OFF)),
            *lasting = permit_of(ann, "lasting", 2), *next = permit_of(ben, "next", 2),
            *writer = writer_of(ben, "writer");
    int64_t since = now_ms();
    hf_hold *dead = held(brief), *alive = held(lasting);
    start(next, 1);
    hf_hold *hold = granted(ben, 1);
    assert_in_range(now_ms() - since, 200, 2500); /* earlier than at a re-check */
    assert_int_equal(hf_hold_state(dead), HF_STATE_LOST);
    assert_status(hf_hold_check(alive), HF_OK);
    assert_busy(writer);
    give_back(dead, HF_ELOST);
    give_back(alive, HF_OK);
    give_back(hold, HF_OK);
    assert_free();
    hf_lock_close(brief);
    hf_lock_close(lasting);
    hf_lock_close(next);
    hf_lock_close(writer);
}

/* Each hold has a lease of its own, which is renewed, extended and lost alone. */
static void test_each_hold_has_its_own_lease(void **state) {
    (void)state;
    hf_lock *kept = open_lock(ann, "k", "kept", SHARED(.lease_ms = 60000, .renew = HF_ON)),
            *brief = reader_of(ben, "brief", 300), *lasting = reader_of(ben, "lasting", 30000);
    hf_hold *first = held(kept), *second = held(brief), *third = held(lasting);
    assert_in_range(NUMBER("PTTL k"), 30000, 68000); /* an eighth more than the lease */
    assert_status(hf_hold_extend(third, 90000, HF_EXTEND_REPLACE), HF_OK);
    assert_in_range(hf_hold_remaining_ms(third), 60000, 90000);
    assert_in_range(NUMBER("PTTL k"), 60000, 90000);
    assert_status(hf_hold_extend(third, 40000, HF_EXTEND_REPLACE), HF_OK);
    assert_in_range(hf_hold_remaining_ms(third), 10000, 40000);
    assert_in_range(NUMBER("PTTL k"), 30000, 68000);
    assert_soon(hf_hold_state(second) == HF_STATE_LOST);
    assert_int_equal(hf_hold_state(first), HF_STATE_HELD);
    assert_int_equal(hf_hold_state(third), HF_STATE_HELD);
    assert_status(hf_hold_renew(third), HF_OK);
    assert_soon(look(kept).count == 2);
    give_back(second, HF_ELOST);
    give_back(third, HF_OK);
    give_back(first, HF_OK);
    assert_free();
    hf_lock_close(kept);
    hf_lock_close(brief);
    hf_lock_close(lasting);
}

/* ----------------------------------------------------------------- One owner */

static void test_a_nested_shared_acquire_passes_a_writer_that_waits(void **state) {
    (void)state;
    hf_lock *lock = reader_of(ann, "reader", 0), *writer = writer_of(ben, "writer");
    hf_hold *outer = held(lock);
    start(writer, 1);
    assert_soon(waiting() == 1);
    hf_hold *inner = held(lock); /* or each would wait for the other */
    assert_true(hf_hold_fence(inner) == hf_hold_fence(outer));
    give_back(outer, HF_OK);
    assert_int_equal(waiting(), 1);
    give_back(inner, HF_OK);
    give_back(granted(ben, 1), HF_OK);
    assert_free();
    hf_lock_close(lock);
    hf_lock_close(writer);
}

/* Its fence is lower than that of a later hold of the same client. */
static void test_the_earlier_of_two_owners_of_a_client_nests(void **state) {
    (void)state;
    hf_lock *one = reader_of(ann, "one", 0), *two = reader_of(ann, "two", 0);
    hf_hold *first = held(one), *second = held(two);
    assert_true(hf_hold_fence(second) > hf_hold_fence(first));
    hf_hold *inner = held(one);
    assert_true(hf_hold_fence(inner) == hf_hold_fence(first));
    start(one, 1);
    hf_hold *started = granted(ann, 1);
    assert_true(hf_hold_fence(started) == hf_hold_fence(first));
    assert_int_equal(look(one).count, 4);
    give_back(started, HF_OK);
    give_back(inner, HF_OK);
    give_back(first, HF_OK);
    give_back(second, HF_OK);
    assert_free();
    hf_lock_close(one);
    hf_lock_close(two);
}

static void test_from_exclusive_to_shared_there_is_no_gap(void **state) {
    (void)state;
    hf_lock *writer = writer_of(ann, "me"), *reader = reader_of(ann, "me", 0),
            *other = reader_of(ben, "other", 0), *next = writer_of(ben, "next");
    hf_hold *exclusive = held(writer);
    start(next, 1);
    assert_soon(waiting() == 1);
    hf_hold *shared = held(reader);
    assert_false(look(reader).shared);
    assert_busy(other);
    give_back(exclusive, HF_OK);
    assert_true(look(reader).shared);
    assert_int_equal(waiting(), 1); /* it has not entered */
    assert_status(hf_hold_check(shared), HF_OK);
    give_back(shared, HF_OK);
    give_back(granted(ben, 1), HF_OK);
    assert_free();
    hf_lock_close(writer);
    hf_lock_close(reader);
    hf_lock_close(other);
    hf_lock_close(next);
}

static void test_from_shared_to_exclusive_is_refused(void **state) {
    (void)state;
    hf_lock *writer = writer_of(ann, "me"), *reader = reader_of(ann, "me", 0);
    hf_hold *hold = held(reader), *none;
    static const int64_t timeouts[] = {0, 5000};
    for (size_t i = 0; i < COUNT(timeouts); i++) {
        assert_status(hf_lock_acquire(writer, timeouts[i], &none), HF_EDEADLOCK);
        assert_non_null(strstr(hf_error_message(), "release the shared hold first"));
        start(writer, 1);
        hf_completion refused = next_of(ann);
        assert_status(refused.status, HF_EDEADLOCK);
        assert_non_null(strstr(refused.error.message, "release the shared hold first"));
    }
    assert_int_equal(waiting(), 0);
    give_back(hold, HF_OK);
    give_back(held(writer), HF_OK);
    assert_free();
    hf_lock_close(writer);
    hf_lock_close(reader);
}

/* The server keeps the keys of readers for longer than their last hold. */
static void test_the_time_left_is_that_of_the_last_reader(void **state) {
    (void)state;
    hf_lock *one = reader_of(ann, "one", 80000), *two = reader_of(ben, "two", 80000);
    hf_hold *first = held(one), *second = held(two);
    assert_in_range(look(one).remaining_ms, 40000, 80000);
    give_back(first, HF_OK);
    give_back(second, HF_OK);
    hf_lock_close(one);
    hf_lock_close(two);
    one = reader_of(ann, "one", 800);
    two = reader_of(ben, "two", 800);
    first = held(one);
    second = held(two);
    hf_lock_info info;
    assert_soon((info = look(one)).held == 0);
    assert_int_equal(info.remaining_ms, 0);
    hf_hold_close(first);
    hf_hold_close(second);
    hf_lock_close(one);
    hf_lock_close(two);
}

static void test_a_lock_is_shared_once_its_exclusive_hold_has_ended(void **state) {
    (void)state;
    hf_lock *writer = open_lock(ann, "k", "me", OPTIONS(.lease_ms = 300, .renew = HF_OFF)),
            *reader = reader_of(ann, "me", 60000);
    hf_hold *exclusive = held(writer), *shared = held(reader);
    assert_false(look(reader).shared);
    assert_soon(look(reader).count == 1);
    assert_true(look(reader).shared);
    give_back(shared, HF_OK);
    hf_hold_close(exclusive);
    hf_lock_close(writer);
    hf_lock_close(reader);
}

/* Both holds are left with the client, as by a language's read-write lock. */
static void test_each_mode_releases_its_own_hold(void **state) {
    (void)state;
    hf_lock *writer = writer_of(ann, NULL),
            *reader = open_lock(ann, "k", NULL, SHARED(.permits = 0)),
            *other = reader_of(ben, "other", 0);
    assert_status(hf_lock_acquire(writer, 0, NULL), HF_OK);
    assert_status(hf_lock_release(reader), HF_ENOTHELD);
    assert_status(hf_lock_acquire(reader, 0, NULL), HF_OK);
    assert_int_equal(hf_lock_count_as(writer, NULL, 0), 1);
    assert_int_equal(hf_lock_count_as(reader, NULL, 0), 1);
    assert_busy(other);
    assert_status(hf_lock_release(writer), HF_OK); /* the older of the two */
    assert_int_equal(hf_lock_count_as(writer, NULL, 0), 0);
    assert_int_equal(hf_lock_count_as(reader, NULL, 0), 1);
    hf_hold *beside = held(other);
    assert_status(hf_lock_release(writer), HF_ENOTHELD);
    assert_status(hf_lock_release(reader), HF_OK);
    give_back(beside, HF_OK);
    assert_free();
    hf_lock_close(writer);
    hf_lock_close(reader);
    hf_lock_close(other);
}

/* An owner that holds the lock in both modes may acquire it in either mode again. */
static void test_who_holds_it_both_ways_nests_both_ways(void **state) {
    (void)state;
    hf_lock *writer = writer_of(ann, "me"), *reader = reader_of(ann, "me", 0);
    hf_hold *outer = held(writer), *shared = held(reader), *inner = held(writer);
    assert_true(hf_hold_fence(inner) == hf_hold_fence(outer));
    give_back(outer, HF_OK);
    give_back(inner, HF_OK);
    assert_true(look(reader).shared);
    give_back(shared, HF_OK);
    assert_free();
    hf_lock_close(writer);
    hf_lock_close(reader);
}

/* --------------------------------------------------------------- The rest */

static void test_a_shared_hold_is_handed_over(void **state) {
    (void)state;
    char token[200];
    size_t length;
    hf_lock *one = reader_of(ann, "one", 0), *same = reader_of(ben, NULL, 0),
            *writer = writer_of(ben, "writer");
    hf_hold *hold = held(one), *other = held(same), *taken;
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_OK);
    hf_hold_close(hold);
    assert_status(hf_lock_adopt(writer, token, length, &taken), HF_EINVAL);
    assert_message("the token of a shared hold");
    assert_status(hf_lock_adopt(same, token, length, &taken), HF_OK);
    assert_status(hf_hold_check(taken), HF_OK);
    assert_int_equal(look(one).count, 2);
    give_back(taken, HF_OK);
    assert_int_equal(look(one).count, 1);
    assert_busy(writer);
    give_back(other, HF_OK);
    assert_free();
    hold = held(writer);
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_OK);
    hf_hold_close(hold);
    assert_status(hf_lock_adopt(same, token, length, &taken), HF_EINVAL);
    assert_status(hf_lock_adopt(writer, token, length, &taken), HF_OK);
    give_back(taken, HF_OK);
    hf_lock_close(one);
    hf_lock_close(same);
    hf_lock_close(writer);
}

static void test_what_a_shared_wait_leaves_behind_is_nothing(void **state) {
    (void)state;
    hf_lock *writer = writer_of(ann, "writer"), *reader = reader_of(ben, "reader", 0);
    hf_hold *hold = held(writer), *none;
    assert_status(hf_lock_acquire(reader, 30, &none), HF_ETIMEOUT);
    start(reader, 1);
    assert_soon(waiting() == 1);
    assert_status(hf_op_cancel(ben, 1), HF_OK);
    assert_status(next_of(ben).status, HF_ECANCELED);
    assert_int_equal(waiting(), 0);
    give_back(hold, HF_OK);
    assert_free();
    hf_lock_close(writer);
    hf_lock_close(reader);
}

/* ------------------------------------------------------------- Head starts */

static void test_a_look_shows_the_queue_in_the_order_of_its_head_starts(void **state) {
    static const char *const owners[] = {"urgent", "later", "first"};
    (void)state;
    hf_hold *hold = held(lend(writer_of(ann, "ann")));
    start(lend(permit_of(ben, "first", 5)), 1);
    assert_soon(waiting() == 1);
    start(lend(open_lock(ben, "k", "urgent", OPTIONS(.ahead_ms = 60000))), 2);
    assert_soon(waiting() == 2);
    start(lend(open_lock(ben, "k", "later", SHARED(.permits = 5, .weight = 2, .ahead_ms = 30000))),
          3);
    assert_soon(waiting() == 3);
    hf_view *view;
    hf_lock_info info = {.size = sizeof info};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    assert_status(hf_lock_inspect(lend(writer_of(ann, "ann")), 0, &info, &view), HF_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_status(hf_view_waiter(view, i, &waiter), HF_OK);
        assert_int_equal(waiter.owner_len, strlen(owners[i]));
        assert_memory_equal(waiter.owner, owners[i], waiter.owner_len);
        assert_in_range(waiter.waited_ms, 60000 - 30000 * i, 75000 - 30000 * i);
        assert_int_equal(waiter.timeout_ms, 80000 - 30000 * i); /* counts from then, too */
    }
    hf_view_close(view);
    give_back(hold, HF_OK);
    give_back(granted(ben, 2), HF_OK);
    hf_hold *later = granted(ben, 3), *first = granted(ben, 1);
    assert_true(hf_hold_fence(later) < hf_hold_fence(first));
    give_back(later, HF_OK);
    give_back(first, HF_OK);
    assert_free();
}

static void test_a_head_start_out_of_bounds_is_refused(void **state) {
    hf_lock *lock;
    (void)state;
    assert_status(hf_lock_open(ann, "k", 1, NULL, 0, OPTIONS(.ahead_ms = -1), &lock), HF_EINVAL);
    assert_status(hf_lock_open(ann, "k", 1, NULL, 0, OPTIONS(.ahead_ms = HF_AHEAD_MAX + 1), &lock),
                  HF_EINVAL);
    hf_hold *hold = held(lend(open_lock(ann, "k", NULL, OPTIONS(.ahead_ms = HF_AHEAD_MAX))));
    assert_int_equal(waiting(), 0);
    give_back(hold, HF_OK);
}

/* ----------------------------------------------------------------- Weights */

static hf_lock *weight_of(hf_client *client, const char *owner, int64_t weight) {
    return open_lock(client, "k", owner, SHARED(.permits = 5, .weight = weight));
}

static void test_weights_share_the_permits(void **state) {
    (void)state;
    hf_lock *three = lend(weight_of(ann, "three", 3)), *two = lend(weight_of(ben, "two", 2)),
            *one = lend(permit_of(ben, "one", 5));
    hf_hold *first = held(three), *second = held(two);
    assert_busy(one);
    hf_view *view;
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_inspect(one, 0, &info, &view), HF_OK);
    assert_int_equal(info.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_status(hf_view_holder(view, i, &holder), HF_OK);
        assert_int_equal(holder.weight, holder.fence == hf_hold_fence(first) ? 3 : 2);
    }
    hf_view_close(view);
    assert_status(hf_hold_renew(first), HF_OK);
    give_back(second, HF_OK);
    hf_hold *third = held(one), *fourth = held(one);
    assert_int_equal(NUMBER("HLEN k"), 4); /* three holds, and their owners */
    assert_busy(lend(open_lock(ben, "k", "other", SHARED(.permits = 5))));
    assert_status(hf_hold_release(first), HF_OK);
    second = held(two);
    assert_status(hf_hold_release(third), HF_OK);
    assert_status(hf_hold_release(fourth), HF_OK);
    hf_hold *again = held(three);
    assert_status(hf_hold_release(again), HF_OK);
    assert_status(hf_hold_release(second), HF_OK);
    assert_free();
    hf_hold_close(first), hf_hold_close(second), hf_hold_close(third), hf_hold_close(fourth);
    hf_hold_close(again);
}

static void test_nobody_passes_a_heavy_waiter(void **state) {
    (void)state;
    hf_hold *small = held(lend(permit_of(ann, "small", 5))),
            *big = held(lend(weight_of(ann, "big", 3)));
    hf_lock *heavy = lend(weight_of(ben, "heavy", 3)), *light = lend(permit_of(ben, "light", 5));
    start(heavy, 1);
    assert_soon(waiting() == 1);
    assert_busy(light); /* a place is free */
    start(light, 2);
    assert_soon(waiting() == 2);
    assert_status(hf_hold_release(small), HF_OK); /* two permits are free, and three are needed */
    assert_busy(lend(permit_of(ann, "another", 5)));
    assert_int_equal(waiting(), 2);
    assert_status(hf_hold_release(big), HF_OK);
    hf_hold *first = granted(ben, 1), *second = granted(ben, 2);
    assert_true(hf_hold_fence(first) < hf_hold_fence(second));
    assert_status(hf_hold_release(first), HF_OK);
    assert_status(hf_hold_release(second), HF_OK);
    assert_free();
    hf_hold_close(small), hf_hold_close(big), hf_hold_close(first), hf_hold_close(second);
}

static void test_what_nests_is_no_heavier(void **state) {
    hf_hold *none;
    (void)state;
    hf_hold *outer = held(lend(weight_of(ann, "ann", 2)));
    assert_status(hf_lock_acquire(lend(weight_of(ann, "ann", 3)), 1000, &none), HF_EDEADLOCK);
    assert_non_null(strstr(hf_error_message(), "heavier"));
    hf_hold *inner = held(lend(weight_of(ann, "ann", 2)));
    assert_int_equal(hf_hold_fence(inner), hf_hold_fence(outer));
    assert_busy(lend(weight_of(ben, "ben", 2))); /* a nested hold counts, too */
    give_back(outer, HF_OK);
    give_back(inner, HF_OK);
    /* In an exclusive hold of the owner any weight is allowed, and a downgrade keeps it. */
    outer = held(lend(writer_of(ann, "ann")));
    inner = held(lend(weight_of(ann, "ann", 4)));
    give_back(outer, HF_OK);
    assert_busy(lend(weight_of(ben, "ben", 2)));
    hf_hold *other = held(lend(permit_of(ben, "ben", 5)));
    give_back(other, HF_OK);
    give_back(inner, HF_OK);
    assert_free();
}

static void test_modes_and_permits_out_of_bounds_are_refused(void **state) {
    (void)state;
    hf_lock *lock;
    static const int64_t permits[] = {-1, HF_PERMITS_MAX + 1};
    for (size_t i = 0; i < COUNT(permits); i++) {
        assert_status(hf_lock_open(ann, "k", 1, NULL, 0, SHARED(.permits = permits[i]), &lock),
                      HF_EINVAL);
        assert_non_null(strstr(hf_error_message(), "permits"));
    }
    assert_status(hf_lock_open(ann, "k", 1, NULL, 0, OPTIONS(.mode = 2), &lock), HF_EINVAL);
    assert_non_null(strstr(hf_error_message(), "mode"));
    assert_status(hf_lock_open(ann, "k", 1, NULL, 0, OPTIONS(.permits = 2), &lock), HF_EINVAL);
    assert_non_null(strstr(hf_error_message(), "HF_SHARED"));
}

/* Set the limit of k, which was `was` before. */
static void set_limit(hf_client *client, int64_t permits, int64_t per_ms, int64_t was) {
    hf_lock *lock = open_lock(client, "k", NULL, SHARED(.permits = 0));
    int64_t before = -1, per_before = -1;
    assert_status(hf_lock_limit(lock, permits, per_ms, &before, &per_before), HF_OK);
    assert_int_equal(before, was);
    assert_int_equal(look(lock).permits, permits);
    assert_int_equal(look(lock).per_ms, per_ms);
    hf_lock_close(lock);
}

static void test_a_stored_limit_refuses_another_number_and_tells_both(void **state) {
    (void)state;
    hf_lock *right = permit_of(ann, "right", 2), *wrong = permit_of(ben, "wrong", 9),
            *none = permit_of(ben, "none", 0), *writer = writer_of(ann, "writer");
    set_limit(ann, 2, 0, 0);
    assert_status(hf_lock_acquire(wrong, 1000, NULL), HF_ELIMIT);
    assert_non_null(strstr(hf_error_message(), "2 permits"));
    assert_non_null(strstr(hf_error_message(), "gives 9"));
    hf_hold *first = held(right), *second = held(none);
    hf_lock *third = permit_of(ann, "third", 0);
    assert_busy(third);
    hf_lock_close(third);
    start(wrong, 1);
    assert_status(next_of(ben).status, HF_ELIMIT);
    give_back(first, HF_OK);
    give_back(second, HF_OK);
    give_back(held(writer), HF_OK);
    assert_free();
    set_limit(ben, 0, 0, 2);
    give_back(held(wrong), HF_OK);
    hf_lock_close(right);
    hf_lock_close(wrong);
    hf_lock_close(none);
    hf_lock_close(writer);
}

static void test_a_limit_that_changes_is_followed_by_who_waits(void **state) {
    (void)state;
    hf_lock *one = permit_of(ann, "one", 0), *two = permit_of(ben, "two", 0),
            *said = permit_of(ben, "said", 1);
    set_limit(ann, 1, 0, 0);
    hf_hold *first = held(one);
    start(two, 1);
    assert_soon(waiting() == 1);
    start(said, 2);
    assert_soon(waiting() == 2);
    set_limit(ann, 2, 0, 1);
    hf_completion told[2] = {next_of(ben), next_of(ben)};
    int at = told[0].op == 1 ? 0 : 1; /* the other one asked with the old number */
    assert_status(told[at].status, HF_OK);
    assert_status(told[1 - at].status, HF_ELIMIT);
    set_limit(ann, 1, 0, 2);
    give_back(first, HF_OK);
    hf_lock *next = permit_of(ann, "next", 0);
    assert_busy(next); /* no hold is ended, and no other acquire enters */
    hf_lock_close(next);
    give_back(told[at].hold, HF_OK);
    give_back(held(one), HF_OK);
    assert_free();
    hf_lock_close(one);
    hf_lock_close(two);
    hf_lock_close(said);
}

static void test_a_weight_without_a_number_needs_a_stored_limit(void **state) {
    (void)state;
    hf_lock *heavy = open_lock(ann, "k", "heavy", SHARED(.weight = 3));
    assert_status(hf_lock_acquire(heavy, 0, NULL), HF_ELIMIT);
    set_limit(ben, 2, 0, 0);
    assert_status(hf_lock_acquire(heavy, 0, NULL), HF_ELIMIT);
    assert_non_null(strstr(hf_error_message(), "takes 3"));
    set_limit(ben, 4, 0, 2);
    hf_lock *two = open_lock(ben, "k", "two", SHARED(.weight = 2));
    hf_hold *three = held(heavy);
    assert_busy(two);
    give_back(three, HF_OK);
    give_back(held(two), HF_OK);
    hf_lock_close(two);
    assert_free();
    hf_lock_close(heavy);
}

static void test_a_gate_has_the_stored_rate(void **state) {
    (void)state;
    hf_lock *right = open_lock(
                ann, "k", NULL,
                SHARED(.permits = 1, .lease_ms = 60000, .reentrant = HF_OFF, .renew = HF_OFF)),
            *other = permit_of(ben, "other", 1);
    set_limit(ann, 1, 60000, 0);
    hf_hold *pass = held(right);
    assert_status(hf_lock_acquire(other, 0, NULL), HF_ELIMIT);
    assert_non_null(strstr(hf_error_message(), "60000 ms"));
    give_back(pass, HF_OK);
    assert_int_equal(hf_lock_limit(right, -1, 0, NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_lock_limit(right, 0, 100, NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_lock_limit(right, 1, 9, NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_lock_limit(NULL, 1, 0, NULL, NULL), HF_EINVAL);
    hf_lock_close(right);
    hf_lock_close(other);
}

static hf_lock *pass_of(hf_client *client, int64_t weight) {
    return open_lock(
        client, "k", NULL,
        SHARED(.lease_ms = HF_STORED, .weight = weight, .reentrant = HF_OFF, .renew = HF_OFF));
}

static void test_a_gate_without_numbers_follows_the_stored_rate(void **state) {
    (void)state;
    hf_lock *gate = pass_of(ann, 0), *heavy = pass_of(ben, 3), *wrong;
    for (int64_t permits = 0; permits <= 5; permits += 5) {
        if (permits > 0)
            set_limit(ann, permits, 0, 0);
        assert_status(hf_lock_acquire(gate, 0, NULL), HF_ELIMIT);
        assert_non_null(strstr(hf_error_message(), "no rate is stored"));
    }
    set_limit(ann, 3, 60000, 5);
    hf_hold *pass = held(gate);
    assert_in_range(hf_hold_remaining_ms(pass), 30000, 60000);
    assert_busy(heavy);
    start(heavy, 1);
    assert_soon(waiting() == 1);
    set_limit(ann, 4, 25000, 3);
    hf_completion told = next_of(ben);
    assert_status(told.status, HF_OK);
    assert_status(hf_hold_renew(told.hold), HF_OK);
    assert_in_range(hf_hold_remaining_ms(told.hold), 10000, 25000);
    assert_busy(gate);
    give_back(pass, HF_OK);
    give_back(told.hold, HF_OK);
    set_limit(ben, 0, 0, 4);
    pass = held(gate); /* the client has learnt the rate */
    assert_in_range(hf_hold_remaining_ms(pass), 10000, 25000);
    give_back(pass, HF_OK);
    assert_free();
    const hf_lock_options *wrongs[] = {
        OPTIONS(.lease_ms = HF_STORED, .reentrant = HF_OFF, .renew = HF_OFF),
        SHARED(.lease_ms = HF_STORED, .reentrant = HF_OFF, .renew = HF_OFF, .permits = 2),
        SHARED(.lease_ms = HF_STORED, .reentrant = HF_OFF, .renew = HF_OFF, .replicas = 1),
        SHARED(.lease_ms = HF_STORED, .reentrant = HF_OFF),
        SHARED(.lease_ms = HF_STORED, .renew = HF_OFF),
    };
    for (size_t i = 0; i < COUNT(wrongs); i++) {
        assert_status(hf_lock_open(ann, "k", 1, NULL, 0, wrongs[i], &wrong), HF_EINVAL);
        assert_non_null(strstr(hf_error_message(), "HF_STORED"));
    }
    hf_hold *none;
    hf_acquire_options renewed = {.size = sizeof renewed, .renew = HF_ON}, brief = renewed;
    brief = (hf_acquire_options){.size = sizeof brief, .lease_ms = 5000};
    assert_status(hf_lock_acquire_as(gate, NULL, 0, 0, &renewed, &none), HF_EINVAL);
    assert_status(hf_lock_acquire_as(gate, NULL, 0, 0, &brief, &none), HF_EINVAL);
    assert_status(hf_lock_adopt(gate, "token", 5, &none), HF_EINVAL);
    assert_non_null(strstr(hf_error_message(), "a pass of a gate"));
    hf_lock_close(gate);
    hf_lock_close(heavy);
}

/* While the servers still know the limit, and later. */
static void test_who_has_learnt_a_limit_keeps_it(void **state) {
    (void)state;
    hf_lock *one = permit_of(ann, "one", 0), *two = permit_of(ann, "two", 0);
    set_limit(ben, 1, 0, 0);
    give_back(held(one), HF_OK);
    set_limit(ben, 0, 0, 1);
    hf_hold *hold = held(two);
    assert_busy(one); /* it asks with the number that its client has learnt */
    give_back(hold, HF_OK);
    hf_lock_close(one);
    hf_lock_close(two);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_readers_enter_together_and_a_writer_alone),
        TEST(test_a_break_takes_one_reader_by_its_fence_and_all_that_nests_in_it),
        TEST(test_who_came_first_enters_first_of_either_kind),
        TEST(test_no_more_than_the_permits_are_inside),
        TEST(test_an_exclusive_acquire_waits_for_all_permits),
        TEST(test_a_holder_that_died_frees_only_its_permit),
        TEST(test_each_hold_has_its_own_lease),
        TEST(test_a_nested_shared_acquire_passes_a_writer_that_waits),
        TEST(test_the_earlier_of_two_owners_of_a_client_nests),
        TEST(test_from_exclusive_to_shared_there_is_no_gap),
        TEST(test_from_shared_to_exclusive_is_refused),
        TEST(test_the_time_left_is_that_of_the_last_reader),
        TEST(test_a_lock_is_shared_once_its_exclusive_hold_has_ended),
        TEST(test_each_mode_releases_its_own_hold),
        TEST(test_who_holds_it_both_ways_nests_both_ways),
        TEST(test_a_shared_hold_is_handed_over),
        TEST(test_what_a_shared_wait_leaves_behind_is_nothing),
        TEST(test_a_look_shows_the_queue_in_the_order_of_its_head_starts),
        TEST(test_a_head_start_out_of_bounds_is_refused),
        TEST(test_weights_share_the_permits),
        TEST(test_nobody_passes_a_heavy_waiter),
        TEST(test_what_nests_is_no_heavier),
        TEST(test_modes_and_permits_out_of_bounds_are_refused),
        TEST(test_a_stored_limit_refuses_another_number_and_tells_both),
        TEST(test_a_limit_that_changes_is_followed_by_who_waits),
        TEST(test_a_weight_without_a_number_needs_a_stored_limit),
        TEST(test_a_gate_has_the_stored_rate),
        TEST(test_a_gate_without_numbers_follows_the_stored_rate),
        TEST(test_who_has_learnt_a_limit_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* All locks of a server, through the public header: which locks are listed, with what, and which
 * keys are not; the pace; and the error for a user without the permission. */
#include "two.h"

#include <pthread.h>

static hf_locks *walk(hf_client *client, const char *pattern) {
    hf_locks_options fast = {.size = sizeof fast, .rate = HF_NEVER};
    hf_locks *locks;
    assert_status(
        hf_locks_open(client, pattern, pattern != NULL ? strlen(pattern) : 0, &fast, &locks),
        HF_OK);
    return locks;
}

static int compare(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* Return the names that a walk finds, sorted, with a space after each. */
static char *listed(const char *pattern) {
    hf_locks *locks = walk(ann, pattern);
    const char *names[5000];
    size_t count = 0, length;
    for (hf_view *view;; hf_view_close(view)) {
        assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
        if (view == NULL)
            break;
        const char *name = hf_view_name(view, &length);
        names[count++] = text("%.*s", (int)length, name);
    }
    hf_locks_close(locks);
    qsort(names, count, sizeof *names, compare);
    char *all = text("%s", "");
    for (size_t i = 0; i < count; i++)
        all = text("%s%s ", all, names[i]);
    return all;
}

static hf_hold *hold_of(const char *name) {
    hf_lock *lock = open_lock(ann, name, NULL, NULL);
    hf_hold *hold = held(lock);
    hf_lock_close(lock);
    return hold;
}

static void test_every_lock_is_told_once_with_its_holders_and_waiters(void **state) {
    enum { MANY = 1000 };
    hf_hold *holds[MANY];
    hf_lock_info info = {.size = sizeof info};
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    hf_progress progress = {.size = sizeof progress};
    bool seen[MANY] = {false};
    hf_view *view;
    size_t length;
    int at;
    (void)state;
    for (int i = 0; i < MANY; i++)
        holds[i] = hold_of(text("lock:%d", i));
    hf_lock *wanted = open_lock(ben, "lock:7", "ben", NULL);
    assert_status(hf_lock_acquire_start(wanted, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(NUMBER("EXISTS {lock:7}lock:7:hf1:q") == 1);
    hf_locks *locks = walk(ann, NULL);
    assert_status(hf_locks_progress(locks, &progress), HF_OK);
    assert_int_equal(progress.keys, -1);
    for (int i = 0; i < MANY; i++) {
        assert_status(hf_locks_next(locks, &info, &view), HF_OK);
        assert_non_null(view);
        const char *name = hf_view_name(view, &length);
        assert_int_equal(sscanf(text("%.*s", (int)length, name), "lock:%d", &at), 1);
        assert_false(seen[at]);
        seen[at] = true;
        assert_true(info.held && !info.foreign && info.count == 1);
        assert_int_equal(info.waiters, at == 7);
        assert_status(hf_view_holder(view, 0, &holder), HF_OK);
        assert_true(holder.fence == hf_hold_fence(holds[at]));
        assert_in_range(holder.remaining_ms, 1, 10000);
        if (at == 7) {
            assert_status(hf_view_waiter(view, 0, &waiter), HF_OK);
            assert_memory_equal(waiter.owner, "ben", waiter.owner_len);
        }
        hf_view_close(view);
        assert_status(hf_locks_progress(locks, &progress), HF_OK);
        assert_int_equal(progress.locks, i + 1);
        assert_in_range(progress.keys, 2 * MANY, 2 * MANY + 10);
        assert_in_range(progress.keys_seen, 0, progress.keys);
    }
    for (int i = 0; i < 3; i++) { /* the end of the walk stays */
        assert_status(hf_locks_next(locks, &info, &view), HF_OK);
        assert_null(view);
    }
    assert_status(hf_locks_progress(locks, &progress), HF_OK);
    assert_true(progress.keys_seen == progress.keys && progress.refused == 0);
    /* One look at each, 25 in a write, and some searches. */
    assert_in_range(progress.commands, MANY + 2, 2 * MANY);
    assert_in_range(progress.round_trips, MANY / 25, progress.commands - 1);
    assert_true(progress.answer_us > 0);
    hf_locks_close(locks);
    assert_status(hf_op_cancel(ben, 1), HF_OK);
    assert_status(next_of(ben).status, HF_ECANCELED);
    hf_lock_close(wanted);
    for (int i = 0; i < MANY; i++)
        hf_hold_close(holds[i]);
}

static void test_what_is_no_lock_is_not_listed(void **state) {
    (void)state;
    give_back(hold_of("free"), HF_OK);
    hf_hold *hold = hold_of("held"), *shared;
    hf_lock *reader = open_lock(ann, "shared", NULL, OPTIONS(.mode = HF_SHARED));
    shared = held(reader);
    static const char *const others[] = {
        "SET a-string x",    "HSET a-hash f v g w", "HSET a-mode mode read other x",
        "HSET a-single f v", "HSET {a}b:hf1:q f v", /* not the name of a lock */
        "ZADD a-zset 1 m",   "ZADD {x}y:hf1:q 1 m", /* the tag is not the name's */
        "ZADD {}:hf1:q 1 m", "ZADD :hf1:q 1 m",     "RPUSH a-list m",
        "SADD a-set m",      "XADD a-stream * f v",
    };
    for (size_t i = 0; i < COUNT(others); i++)
        TELL(others[i]);
    assert_string_equal(listed(NULL), "held shared ");
    /* A key that looks like another library's lock, or like a damaged one of Holdfast, is listed.
     */
    TELL("HSET redisson 8743c9c0-0795-4907-87fd-6c719a6b4586:77 2");
    TELL("HSET readwrite mode write 8743c9c0-0795-4907-87fd-6c719a6b4586:77:write 1");
    TELL("HSET later hf1 x");
    assert_string_equal(listed("*"), "held later readwrite redisson shared ");
    /* So is a key for which an acquire of Holdfast waits, whatever it is. */
    hf_lock *waits = open_lock(ann, "a-string", NULL, NULL),
            *free = open_lock(ben, "alone", NULL, NULL);
    assert_status(hf_lock_acquire_start(waits, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(NUMBER("EXISTS {a-string}a-string:hf1:q") == 1);
    TELL("ZADD {alone}alone:hf1:q 2 m"); /* of a free lock */
    assert_string_equal(listed("a*"), "a-string alone ");
    hf_locks *locks = walk(ben, "a-string");
    hf_lock_info info = {.size = sizeof info};
    hf_view *view;
    assert_status(hf_locks_next(locks, &info, &view), HF_OK);
    assert_true(info.held && info.foreign && info.waiters == 1);
    hf_view_close(view);
    hf_locks_close(locks);
    assert_status(hf_op_cancel(ann, 1), HF_OK);
    assert_status(next_of(ann).status, HF_ECANCELED);
    hf_hold_close(hold);
    hf_hold_close(shared);
    hf_lock_close(reader);
    hf_lock_close(waits);
    hf_lock_close(free);
}

static void test_records_of_calls_are_listed_if_asked_for(void **state) {
    hf_locks_options options = {.size = sizeof options, .flags = HF_LOCKS_RECORDS};
    hf_once_info call = {.size = sizeof call};
    hf_lock_info info = {.size = sizeof info};
    hf_locks *locks;
    hf_view *view;
    hf_hold *hold;
    int64_t fences[2];
    size_t found = 0;
    (void)state;
    for (int i = 0; i < 2; i++) { /* a call that has ended, and one in progress */
        hf_lock *lock = open_lock(ann, i == 0 ? "done" : "runs", NULL, NULL);
        hf_acquire_options most = {.size = sizeof most, .flags = HF_ACQUIRE_AT_MOST_ONCE};
        assert_status(hf_once_begin(lock, 0, &most, NULL, 0, &hold), HF_OK);
        assert_status(hf_once_mark(hold, HF_NEVER, "a note", 6), HF_OK);
        fences[i] = hf_hold_fence(hold);
        hf_lock_close(lock);
        if (i == 1)
            break;
        assert_status(hf_once_finish(hold, HF_ONCE_DONE, "secret", 6, 60000), HF_OK);
        hf_hold_close(hold);
    }
    TELL("HSET {other}other:hf1:r hf1 x");
    assert_string_equal(listed(NULL), "runs ");
    options.flags = 2;
    assert_status(hf_locks_open(ann, NULL, 0, &options, &locks), HF_EINVAL);
    options.flags = HF_LOCKS_RECORDS;
    assert_status(hf_locks_open(ann, NULL, 0, &options, &locks), HF_OK);
    for (;; hf_view_close(view)) {
        assert_status(hf_locks_next(locks, &info, &view), HF_OK);
        if (view == NULL)
            break;
        assert_status(hf_view_once(view, &call), HF_OK);
        int which = info.held;
        found++;
        assert_memory_equal(hf_view_name(view, NULL), which == 0 ? "done" : "runs", 4);
        assert_int_equal(call.state, which == 0 ? HF_ONCE_DONE : HF_ONCE_RUNNING);
        assert_true(call.fence == fences[which] && call.at_most_once == 1);
        assert_int_equal(call.result_len, which == 0 ? 6 : 0);
        if (which == 1)
            assert_memory_equal(call.note, "a note", 6);
    }
    assert_int_equal(found, 2);
    hf_locks_close(locks);
    hf_hold_close(hold);
    assert_status(hf_view_once(NULL, &call), HF_EINVAL);
}

static void test_names_of_any_bytes_are_listed_and_matched(void **state) {
    static const char name[] = {'a', '\0', '\xff', ' ', '\n', '{', 't', '}'};
    hf_lock *lock;
    hf_view *view;
    size_t length;
    (void)state;
    assert_status(hf_lock_open(ann, name, sizeof name, NULL, 0, NULL, &lock), HF_OK);
    hf_hold *hold = held(lock), *other = hold_of("b{t}");
    hf_lock *waits;
    assert_status(hf_lock_open(ben, name, sizeof name, "ben", 3, NULL, &waits), HF_OK);
    assert_status(hf_lock_acquire_start(waits, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(NUMBER("EXISTS {t}%b:hf1:q", name, sizeof name) == 1);
    hf_locks *locks;
    assert_status(hf_locks_open(ann, "a\0*", 3, NULL, &locks), HF_OK);
    assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
    assert_non_null(view);
    assert_memory_equal(hf_view_name(view, &length), name, sizeof name);
    assert_int_equal(length, sizeof name);
    hf_view_close(view);
    assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
    assert_null(view);
    hf_locks_close(locks);
    assert_string_equal(listed("[b-c]*"), "b{t} ");
    assert_string_equal(listed("\\b{t}"), "b{t} ");
    assert_string_equal(listed("{t}*"), "");
    assert_status(hf_op_cancel(ben, 1), HF_OK);
    assert_status(next_of(ben).status, HF_ECANCELED);
    hf_hold_close(hold);
    hf_hold_close(other);
    hf_lock_close(lock);
    hf_lock_close(waits);
}

/* The server's own matching, which the core's must follow. */
static void test_a_pattern_matches_a_name_and_its_queue_alike(void **state) {
    static const char *const patterns[] = {"q*",  "q[0-4]", "q[^0-4]", "*7", "q?", "q\\7",
                                           "q[",  "q[5",    "q[5-",    "\\", "*[", "q[\\5]",
                                           "q[]", "[p-r]*", "q[9-5]",  "?",  "*\\"};
    hf_hold *holds[10];
    (void)state;
    for (int i = 0; i < 10; i++)
        holds[i] = hold_of(text("q%d", i));
    char *found[COUNT(patterns)];
    for (size_t i = 0; i < COUNT(patterns); i++)
        found[i] = listed(patterns[i]); /* matched by the server */
    for (int i = 0; i < 10; i++) {
        give_back(holds[i], HF_OK);
        TELL("ZADD {q%d}q%d:hf1:q 2 m", i, i);
    }
    for (size_t i = 0; i < COUNT(patterns); i++) {
        print_message("%s: %s\n", patterns[i], found[i]);
        assert_string_equal(listed(patterns[i]), found[i]);
    }
}

static void test_a_walk_keeps_to_its_rate(void **state) {
    enum { MANY = 50 };
    hf_locks_options slow = {.size = sizeof slow, .rate = 100};
    hf_hold *holds[MANY];
    hf_view *view;
    hf_locks *locks;
    int count = 0;
    (void)state;
    for (int i = 0; i < MANY; i++)
        holds[i] = hold_of(text("lock:%d", i));
    int64_t before = now_ms();
    assert_status(hf_locks_open(ann, NULL, 0, &slow, &locks), HF_OK);
    for (;; count++) {
        assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
        if (view == NULL)
            break;
        hf_view_close(view);
    }
    hf_locks_close(locks);
    assert_int_equal(count, MANY);
    assert_true(now_ms() - before >= 300); /* 50 looks and 2 pages; the first look is free */
    for (int i = 0; i < MANY; i++)
        hf_hold_close(holds[i]);
}

static int no_signal, signals; /* calls of the check */

static int have_signal(void *context) {
    (void)context;
    return no_signal-- > 0 ? 0 : ++signals;
}

static void test_a_signal_ends_a_call_and_the_next_goes_on(void **state) {
    enum { MANY = 300 };
    hf_hold *holds[MANY];
    hf_view *view;
    int count = 0;
    (void)state;
    for (int i = 0; i < MANY; i++)
        holds[i] = hold_of(text("lock:%d", i));
    no_signal = 2;
    signals = 0;
    assert_status(hf_client_set_interrupt(ann, have_signal, NULL), HF_OK);
    hf_locks *locks = walk(ann, NULL);
    for (;; count += view != NULL) {
        hf_status status = hf_locks_next(locks, NULL, &view);
        if (status == HF_EINTR)
            no_signal = 2;
        else if (view == NULL)
            break;
        assert_true(status == HF_OK || status == HF_EINTR);
        hf_view_close(view);
    }
    hf_locks_close(locks);
    assert_status(hf_client_set_interrupt(ann, NULL, NULL), HF_OK);
    assert_int_equal(count, MANY);
    assert_true(signals > 0);
    for (int i = 0; i < MANY; i++)
        hf_hold_close(holds[i]);
}

static void *close_soon(void *client) {
    sleep_ms(50);
    hf_client_close(client);
    return NULL;
}

static void test_a_client_that_closes_ends_the_walk(void **state) {
    hf_locks_options slow = {.size = sizeof slow, .rate = 1};
    pthread_t thread;
    hf_view *view;
    hf_locks *locks;
    (void)state;
    hf_hold *holds[] = {hold_of("one"), hold_of("two")};
    hf_client *client = open_client();
    assert_status(hf_locks_open(client, NULL, 0, &slow, &locks), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, close_soon, client), 0);
    hf_status status;
    while ((status = hf_locks_next(locks, NULL, &view)) == HF_OK) {
        assert_non_null(view);
        hf_view_close(view);
    }
    assert_true(status == HF_ECANCELED || status == HF_ECLOSED);
    pthread_join(thread, NULL);
    assert_status(hf_locks_next(locks, NULL, &view), HF_ECLOSED);
    assert_null(view);
    hf_locks_close(locks);
    hf_hold_close(holds[0]);
    hf_hold_close(holds[1]);
}

static void test_a_user_lacks_scan_or_may_not_use_all_keys(void **state) {
    hf_progress progress = {.size = sizeof progress};
    hf_hold *holds[] = {hold_of("app:1"), hold_of("app:2"), hold_of("other")};
    hf_client *client;
    hf_locks *locks;
    hf_view *view;
    (void)state;
    TELL("ACL SETUSER op reset on >secret ~app:* ~{app:* resetchannels +@all -scan -dbsize");
    client = open_at(text("unix://op:secret@%s", unix_url() + strlen("unix://")));
    locks = walk(client, NULL);
    assert_status(hf_locks_next(locks, NULL, &view), HF_ESERVER);
    assert_null(view);
    assert_non_null(strstr(hf_error_message(), "scan"));
    assert_non_null(strstr(hf_error_message(), "not all locks of "));
    assert_status(hf_locks_next(locks, NULL, &view), HF_OK); /* there is no other node */
    assert_null(view);
    hf_locks_close(locks);
    TELL("ACL SETUSER op +scan");
    locks = walk(client, NULL);
    for (int i = 0; i < 2; i++) {
        assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
        assert_memory_equal(hf_view_name(view, NULL), "app:", 4);
        hf_view_close(view);
    }
    assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
    assert_null(view);
    assert_status(hf_locks_progress(locks, &progress), HF_OK);
    assert_int_equal(progress.refused, 1);
    assert_int_equal(progress.keys, -1); /* without DBSIZE */
    hf_locks_close(locks);
    TELL("ACL SETUSER op -hget");
    locks = walk(client, NULL);
    assert_status(hf_locks_next(locks, NULL, &view), HF_ESERVER);
    assert_non_null(strstr(hf_error_message(), "hget"));
    hf_locks_close(locks);
    TELL("ACL DELUSER op");
    hf_client_close(client);
    for (size_t i = 0; i < COUNT(holds); i++)
        hf_hold_close(holds[i]);
}

static void test_wrong_arguments_are_refused(void **state) {
    static char pattern[HF_NAME_MAX + 1];
    hf_locks_options options = {.size = sizeof options, .rate = -2};
    hf_progress progress = {0};
    hf_locks *locks;
    hf_view *view;
    (void)state;
    assert_status(hf_locks_open(ann, NULL, 0, &options, &locks), HF_EINVAL);
    assert_null(locks);
    options.rate = 1000001;
    assert_status(hf_locks_open(ann, NULL, 0, &options, &locks), HF_EINVAL);
    assert_status(hf_locks_open(ann, NULL, 1, NULL, &locks), HF_EINVAL);
    assert_status(hf_locks_open(ann, "", 0, NULL, &locks), HF_EINVAL);
    assert_status(hf_locks_open(ann, pattern, sizeof pattern, NULL, &locks), HF_EINVAL);
    assert_status(hf_locks_open(NULL, NULL, 0, NULL, &locks), HF_EINVAL);
    assert_status(hf_locks_open(ann, NULL, 0, NULL, NULL), HF_EINVAL);
    assert_status(hf_locks_next(NULL, NULL, &view), HF_EINVAL);
    locks = walk(ann, NULL);
    assert_status(hf_locks_next(locks, NULL, NULL), HF_EINVAL);
    assert_status(hf_locks_next(locks, &(hf_lock_info){0}, &view), HF_EINVAL);
    assert_status(hf_locks_progress(locks, &progress), HF_EINVAL);
    assert_status(hf_locks_progress(NULL, &progress), HF_EINVAL);
    hf_locks_close(locks);
    hf_locks_close(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_every_lock_is_told_once_with_its_holders_and_waiters),
        TEST(test_what_is_no_lock_is_not_listed),
        TEST(test_records_of_calls_are_listed_if_asked_for),
        TEST(test_names_of_any_bytes_are_listed_and_matched),
        TEST(test_a_pattern_matches_a_name_and_its_queue_alike),
        TEST(test_a_walk_keeps_to_its_rate),
        TEST(test_a_signal_ends_a_call_and_the_next_goes_on),
        TEST(test_a_client_that_closes_ends_the_walk),
        TEST(test_a_user_lacks_scan_or_may_not_use_all_keys),
        TEST(test_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The behaviours that users of the C library rely on, and that every language shows. */
#include "../server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* They stand for two programs. */
static hf_client *alice, *bob;

static int set_up(void **state) {
    (void)state;
    start_afresh();
    alice = open_client();
    bob = open_client();
    return 0;
}

static void close_client(hf_client **client) {
    hf_client_close(*client);
    *client = NULL;
}

static int tear_down(void **state) {
    (void)state;
    close_client(&alice);
    close_client(&bob);
    return 0;
}

/* Open a lock with options; 0: the default. close_locks() closes it. */
static hf_lock *lock_with(hf_client *client, const char *name, const char *owner, int64_t lease_ms,
                          int32_t reentrant) {
    return open_lock(client, name, owner,
                     OPTIONS(.lease_ms = lease_ms, .renew = lease_ms != 0 ? HF_OFF : HF_DEFAULT,
                             .reentrant = reentrant));
}

static hf_lock *stock(hf_client *client) { return lock_with(client, "stock", NULL, 0, 0); }
static hf_lock *stock_for(hf_client *client, int64_t lease_ms) {
    return lock_with(client, "stock", NULL, lease_ms, 0);
}

static hf_hold *acquired(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 5000, &hold), HF_OK);
    assert_non_null(hold);
    return hold;
}

static void release(hf_hold *hold) {
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
}

static void assert_busy(hf_lock *lock) {
    hf_hold *hold = (hf_hold *)&hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_EBUSY);
    assert_null(hold);
}

static void assert_free(hf_lock *lock) { release(acquired(lock)); }

/* Check the owner of the first holder that a look at the lock finds. */
static void assert_first_owner(hf_lock *lock, const void *owner, size_t length) {
    hf_lock_holder holder = {.size = sizeof holder};
    hf_view *view;
    assert_status(hf_lock_inspect(lock, 0, NULL, &view), HF_OK);
    assert_status(hf_view_holder(view, 0, &holder), HF_OK);
    assert_int_equal(holder.owner_len, length);
    assert_memory_equal(holder.owner, owner, length);
    hf_view_close(view);
}

static hf_lock_info inspected(hf_lock *lock) {
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    return info;
}

static bool exists(const char *key) { return NUMBER("EXISTS %s", key) == 1; }

/* ---------------------------------------------------------------- Acquire */

static void *wait_and_release(void *lock) {
    release(acquired(lock));
    return NULL;
}

/* A name for each order is a key for each order, so the user chooses how long it stays. */
static void test_the_last_fence_lives_as_long_as_the_client_wants(void **state) {
    const char *key = "PTTL {stock}stock:hf1:f";
    hf_client_options options = {
        .size = sizeof options, .fence_life_ms = 60000, .connect_timeout_ms = 20000};
    hf_client *client;
    (void)state;
    assert_status(hf_client_open(tcp_url(), &options, &client), HF_OK);
    hf_lock *brief = stock(client), *shared;
    shared = open_lock(client, "stock", NULL, OPTIONS(.mode = HF_SHARED));
    for (int way = 0; way < 5; way++) {
        print_message("way %d\n", way);
        TELL("FLUSHALL");
        hf_hold *hold = acquired(way == 3 ? shared : brief), *inner;
        assert_in_range(NUMBER(key), 50000, 60000);
        if (way == 1)
            sleep_ms(5); /* no longer young */
        if (way == 2)
            release(acquired(brief)); /* nested */
        if (way == 4) {
            pthread_t thread;
            hf_lock *other = stock(client);
            assert_int_equal(pthread_create(&thread, NULL, wait_and_release, other), 0);
            assert_soon(inspected(brief).waiters == 1);
            assert_in_range(NUMBER(key), 86000000, 86400000); /* there is a waiter to look after */
            release(hold);
            assert_int_equal(pthread_join(thread, NULL), 0);
            hf_lock_close(other);
            hold = NULL;
        }
        if (hold != NULL)
            release(hold);
        assert_in_range(NUMBER(key), 50000, 60000);
        inner = acquired(brief); /* fences still grow */
        release(inner);
    }
    hf_hold *broken = acquired(brief);
    assert_status(hf_lock_break(brief, hf_hold_fence(broken), 0), HF_OK);
    assert_in_range(NUMBER(key), 50000, 60000);
    hf_hold_close(broken);
    hf_lock_close(brief);
    hf_lock_close(shared);
    hf_client_close(client);
    TELL("FLUSHALL");
    brief = stock(alice);
    release(acquired(brief));
    assert_in_range(NUMBER(key), 86000000, 86400000);
    hf_lock_close(brief);
}

static void test_acquire_gives_a_hold_that_lasts_its_lease(void **state) {
    (void)state;
    hf_lock *lock = stock_for(alice, 5000);
    hf_hold *hold = acquired(lock);
    assert_true(hf_hold_fence(hold) > 0);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_string_equal(STRING("TYPE stock"), "hash");
    /* The server's lease never ends before the holder's deadline. */
    long long there = NUMBER("PTTL stock");
    assert_in_range(there, 1, 5000);
    assert_in_range(hf_hold_remaining_ms(hold), 1, there + 1);
    assert_status(hf_hold_check(hold), HF_OK);
    release(hold);
    assert_false(exists("stock"));
    hf_lock_close(lock);
}

static void test_lease_is_ten_seconds_if_none_is_given(void **state) {
    (void)state;
    hf_lock *lock = stock(alice);
    hf_hold *hold = acquired(lock);
    assert_in_range(NUMBER("PTTL stock"), 5000, 10000);
    release(hold);
    hf_lock_close(lock);
}

static void test_one_acquire_may_have_a_lease_of_its_own(void **state) {
    hf_acquire_options options = {.size = sizeof options, .lease_ms = 60000};
    hf_hold *hold;
    (void)state;
    hf_lock *lock = stock(alice);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &options, &hold), HF_OK);
    assert_in_range(NUMBER("PTTL stock"), 59000, 60000);
    release(hold);
    hf_lock_close(lock);
}

static void test_what_another_holds_is_busy(void **state) {
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    assert_busy(theirs);
    assert_message("'stock'");
    release(hold);
    assert_free(theirs);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_what_another_keeps_is_timed_out_and_leaves_nothing_behind(void **state) {
    hf_hold *none = (hf_hold *)&none;
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    int64_t before = now_ms();
    assert_status(hf_lock_acquire(theirs, 1000, &none), HF_ETIMEOUT);
    assert_in_range(now_ms() - before, 999, IN_TIME(2000));
    assert_null(none);
    assert_message("'stock'");
    assert_message("at last by 'holdfast@");
    assert_message(text("/%d thread ", (int)getpid()));
    assert_int_equal(inspected(mine).waiters, 0);
    release(hold);
    /* The last fence; and a dead id if the time ended before an answer, as a pause of the machine
     * may cause. */
    assert_in_range(NUMBER("DBSIZE"), 1, 2);
    assert_true(exists("{stock}stock:hf1:f"));
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

typedef struct {
    hf_lock *lock;
    int64_t timeout_ms;
    uint32_t flags;
    hf_status status;
    hf_hold *hold;
    bool done;
} attempt;

static void *acquire_there(void *argument) {
    attempt *a = argument;
    hf_acquire_options options = {.size = sizeof options, .flags = a->flags};
    a->status = hf_lock_acquire_as(a->lock, NULL, 0, a->timeout_ms, &options, &a->hold);
    __atomic_store_n(&a->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static pthread_t start(void *(*run)(void *), void *argument) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
    return thread;
}

static bool is_queued(void) { return NUMBER("ZCOUNT {stock}stock:hf1:q 0 9007199254740992") == 1; }

static void test_a_waiter_gets_the_lock_when_it_is_released(void **state) {
    static const int64_t timeouts[] = {HF_FOREVER, 20000};
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    for (size_t i = 0; i < COUNT(timeouts); i++) {
        attempt waiter = {.lock = theirs, .timeout_ms = timeouts[i]};
        hf_hold *hold = acquired(mine);
        pthread_t thread = start(acquire_there, &waiter);
        assert_soon(is_queued());
        assert_false(__atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE));
        int64_t fence = hf_hold_fence(hold);
        release(hold);
        pthread_join(thread, NULL);
        assert_int_equal(waiter.status, HF_OK);
        assert_true(hf_hold_fence(waiter.hold) > fence);
        release(waiter.hold);
    }
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_two_threads_exclude_each_other(void **state) {
    (void)state;
    hf_lock *lock = stock(alice);
    attempt other = {.lock = lock};
    hf_hold *hold = acquired(lock);
    pthread_join(start(acquire_there, &other), NULL);
    assert_int_equal(other.status, HF_EBUSY);
    release(hold);
    hf_lock_close(lock);
}

static void ignore(int number) { (void)number; }

static void test_a_signal_ends_a_wait_only_if_asked_to(void **state) {
    static const struct {
        uint32_t flags;
        int64_t timeout_ms;
        hf_status status;
    } cases[] = {{HF_ACQUIRE_INTERRUPTIBLE, 20000, HF_EINTR}, {0, 300, HF_ETIMEOUT}};
    struct sigaction action = {.sa_handler = ignore}, old;
    (void)state;
    sigaction(SIGUSR1, &action, &old);
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    for (size_t i = 0; i < COUNT(cases); i++) {
        attempt waiter = {
            .lock = theirs, .timeout_ms = cases[i].timeout_ms, .flags = cases[i].flags};
        int64_t before = now_ms();
        pthread_t thread = start(acquire_there, &waiter);
        assert_soon(is_queued() || __atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE));
        while (!__atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE)) {
            pthread_kill(thread, SIGUSR1);
            sleep_ms(5);
        }
        pthread_join(thread, NULL);
        assert_int_equal(waiter.status, cases[i].status);
        if (cases[i].status == HF_ETIMEOUT)
            assert_in_range(now_ms() - before, 299, IN_TIME(2000));
        assert_null(waiter.hold);
    }
    release(hold);
    assert_free(mine);
    sigaction(SIGUSR1, &old, NULL);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

/* The state of a language, as its binding passes it to the client. */
typedef struct language {
    int calls, answer; /* atomic */
    pthread_t called_on;
} language;

static int look_for_signals(void *context) {
    language *mine = context;
    mine->called_on = pthread_self();
    __atomic_add_fetch(&mine->calls, 1, __ATOMIC_RELEASE);
    return __atomic_load_n(&mine->answer, __ATOMIC_ACQUIRE);
}

static int calls_of(language *which) { return __atomic_load_n(&which->calls, __ATOMIC_ACQUIRE); }

/* One client is interrupted, the other goes on waiting. */
static void test_two_clients_tell_their_interrupts_apart(void **state) {
    language alices = {0}, bobs = {0};
    (void)state;
    hf_client *third = open_client();
    hf_lock *theirs = stock(third), *mine = stock(alice), *bens = stock(bob);
    hf_hold *hold = acquired(theirs);
    assert_status(hf_client_set_interrupt(alice, look_for_signals, &alices), HF_OK);
    assert_status(hf_client_set_interrupt(bob, look_for_signals, &bobs), HF_OK);
    attempt one = {.lock = mine, .timeout_ms = 20000}, two = {.lock = bens, .timeout_ms = 20000};
    pthread_t first = start(acquire_there, &one), second = start(acquire_there, &two);
    assert_soon(calls_of(&alices) > 1 && calls_of(&bobs) > 1);
    assert_true(pthread_equal(alices.called_on, first));
    assert_true(pthread_equal(bobs.called_on, second));

    __atomic_store_n(&alices.answer, 1, __ATOMIC_RELEASE);
    pthread_join(first, NULL);
    assert_int_equal(one.status, HF_EINTR);
    int calls = calls_of(&bobs), last = calls_of(&alices);
    assert_soon(calls_of(&bobs) > calls + 1);
    assert_false(__atomic_load_n(&two.done, __ATOMIC_ACQUIRE));
    assert_int_equal(calls_of(&alices), last); /* it has no waiter */
    release(hold);
    pthread_join(second, NULL);
    assert_int_equal(two.status, HF_OK);
    release(two.hold);

    hold = acquired(theirs); /* without a check */
    assert_status(hf_client_set_interrupt(alice, NULL, NULL), HF_OK);
    assert_status(hf_lock_acquire(mine, 150, NULL), HF_ETIMEOUT);
    assert_int_equal(calls_of(&alices), last);
    release(hold);
    assert_status(hf_client_set_interrupt(bob, NULL, NULL), HF_OK);
    hf_lock_close(theirs);
    hf_lock_close(mine);
    hf_lock_close(bens);
    hf_client_close(third);
}

/* ---------------------------------------------------------- Nesting, owners */

static void test_nested_holds_have_one_fence_and_are_released_as_often(void **state) {
    hf_hold *holds[3];
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    for (int i = 0; i < 3; i++)
        holds[i] = acquired(mine);
    assert_true(hf_hold_fence(holds[0]) == hf_hold_fence(holds[1]));
    assert_true(hf_hold_fence(holds[0]) == hf_hold_fence(holds[2]));
    assert_int_equal(inspected(theirs).count, 3);
    for (int i = 0; i < 3; i++) {
        assert_busy(theirs);
        assert_int_equal(inspected(theirs).count, 3 - i);
        release(holds[(i + 1) % 3]); /* in any order */
    }
    assert_free(theirs);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_release_too_often_is_not_held_and_changes_nothing(void **state) {
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    assert_status(hf_hold_release(hold), HF_OK);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    assert_int_equal(hf_hold_remaining_ms(hold), 0);
    hf_hold *next = acquired(theirs);
    char *before = snapshot("stock");
    assert_status(hf_hold_release(hold), HF_ENOTHELD);
    assert_message("released before");
    assert_status(hf_hold_renew(hold), HF_ENOTHELD);
    assert_status(hf_hold_check(hold), HF_ENOTHELD);
    assert_status(hf_hold_extend(hold, 1000, 0), HF_ENOTHELD);
    assert_status(hf_lock_release(mine), HF_ENOTHELD);
    assert_message("'stock' is not held by this owner");
    assert_string_equal(snapshot("stock"), before);
    release(next);
    hf_hold_close(hold);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_release_by_another_owner_changes_nothing(void **state) {
    (void)state;
    hf_lock *mine = lock_with(alice, "stock", "ann", 0, 0);
    hf_lock *theirs = lock_with(bob, "stock", "ben", 0, 0);
    assert_status(hf_lock_acquire(mine, 0, NULL), HF_OK);
    char *before = snapshot("stock");
    assert_status(hf_lock_release(theirs), HF_ENOTHELD);
    assert_status(hf_lock_release_as(mine, "ben", 3), HF_ENOTHELD);
    /* The owner's name permits nesting; a release needs the hold, which is another client's. */
    assert_status(hf_lock_release_as(theirs, "ann", 3), HF_ENOTHELD);
    assert_string_equal(snapshot("stock"), before);
    assert_int_equal(hf_lock_count_as(mine, NULL, 0), 1);
    assert_status(hf_lock_release(mine), HF_OK);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_equal_owners_are_one_owner_in_all_clients(void **state) {
    (void)state;
    hf_lock *mine = lock_with(alice, "stock", "worker", 0, 0);
    hf_lock *theirs = lock_with(bob, "stock", "worker", 0, 0);
    hf_hold *outer = acquired(mine), *inner = acquired(theirs);
    assert_true(hf_hold_fence(outer) == hf_hold_fence(inner));
    assert_int_equal(inspected(mine).count, 2);
    release(outer);
    assert_status(hf_hold_check(inner), HF_OK); /* the release of the other did not end it */
    release(inner);
    assert_false(exists("stock"));
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_an_owner_may_be_given_to_one_acquire(void **state) {
    hf_hold *outer, *inner, *other;
    (void)state;
    hf_lock *lock = stock(alice);
    assert_status(hf_lock_acquire_as(lock, "ann", 3, 0, NULL, &outer), HF_OK);
    assert_status(hf_lock_acquire_as(lock, "ben", 3, 0, NULL, &other), HF_EBUSY);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, NULL, &other), HF_EBUSY);
    assert_status(hf_lock_acquire_as(lock, "ann", 3, 0, NULL, &inner), HF_OK);
    release(outer);
    release(inner);
    hf_lock_close(lock);
}

static void test_the_default_owner_tells_host_process_client_and_thread(void **state) {
    char owner[HF_OWNER_MAX] = "", own[HF_DEFAULT_OWNER_MAX], host[256];
    hf_lock_holder holder = {.size = sizeof holder};
    (void)state;
    hf_lock *lock = stock(alice);
    hf_hold *hold = acquired(lock);
    hf_view *view;
    assert_status(hf_lock_inspect(lock, 0, NULL, &view), HF_OK);
    assert_status(hf_view_holder(view, 0, &holder), HF_OK);
    memcpy(owner, holder.owner, holder.owner_len);
    hf_view_close(view);
    assert_int_equal(gethostname(host, sizeof host), 0);
    char *prefix = text("holdfast@%s/%ld:", host, (long)getpid());
    assert_memory_equal(owner, prefix, strlen(prefix));
    assert_int_equal(strspn(owner + strlen(prefix), "0123456789abcdef"), 32);
    assert_memory_equal(owner + strlen(prefix) + 32, ":t", 2);
    assert_status(hf_client_owner(alice, 't', 1, own, sizeof own), HF_OK);
    assert_memory_equal(own, owner, strlen(prefix) + 32 + 2);
    release(hold);
    hf_lock_close(lock);
}

static bool is_parsed(const char *owner) {
    hf_owner_parts parts = {.size = sizeof parts, .pid = 77};
    bool parsed = hf_owner_parse(owner, strlen(owner), &parts) == 1;
    assert_true(parsed || parts.pid == 77);
    return parsed;
}

static void test_a_default_owner_is_read_and_no_other(void **state) {
    static const char good[] = "a@b/c:9:@host.example/42:0123456789abcdef0123456789abcdef:a7";
    hf_client_options options = {.size = sizeof options, .client_name = "w@1/2:3"};
    hf_owner_parts parts = {.size = sizeof parts};
    char owner[HF_DEFAULT_OWNER_MAX], host[256];
    hf_client *client;
    (void)state;
    assert_int_equal(hf_owner_parse(good, strlen(good), &parts), 1);
    assert_int_equal(parts.size, sizeof parts);
    assert_string_equal(parts.client_name, "a@b/c:9:");
    assert_string_equal(parts.host, "host.example");
    assert_string_equal(parts.client_id, "0123456789abcdef0123456789abcdef");
    assert_int_equal(parts.pid, 42);
    assert_int_equal(parts.kind, 'a');
    assert_int_equal(parts.serial, 7);
    /* hf_owner_parse() also reads the owners that a client makes. */
    assert_status(hf_client_open(unix_url(), &options, &client), HF_OK);
    assert_status(hf_client_owner(client, 'o', INT64_C(123456789012), owner, sizeof owner), HF_OK);
    assert_int_equal(hf_owner_parse(owner, strlen(owner), &parts), 1);
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_string_equal(parts.client_name, "w@1/2:3");
    assert_string_equal(parts.host, host);
    assert_int_equal(parts.pid, getpid());
    assert_int_equal(parts.kind, 'o');
    assert_true(parts.serial == INT64_C(123456789012));
    hf_client_close(client);
#define HEX "0123456789abcdef0123456789abcdef"
    assert_true(is_parsed("n@h/1:" HEX ":t1"));
    static const char *const others[] = {
        "",
        "worker",
        "t1",
        ":t1",
        HEX ":t1",
        ":" HEX ":t1",
        "1:" HEX ":t1",
        "/1:" HEX ":t1",
        "h/1:" HEX ":t1",
        "@h/1:" HEX ":t1",
        "n@/1:" HEX ":t1",
        "n@h/:" HEX ":t1",
        "n@h/0:" HEX ":t1",
        "n@h/1:" HEX ":t0",
        "n@h/1:" HEX ":t",
        "n@h/1:" HEX ":x1",
        "n@h/1:" HEX ":1",
        "n@h/1:" HEX "t1",
        "n@h/1:" HEX "0:t1",
        "n@h/1:0" HEX ":t",
        "n@h/1:0123456789ABCDEF0123456789abcdef:t1",
        "n@h/-1:" HEX ":t1",
        "n@h/1:" HEX ":t1 ",
        "n@h/1:" HEX ":t99999999999999999999",
        "a-name-that-is-longer-than-sixty-three-bytes-as-no-client-can-have-one@h/1:" HEX ":t1",
    };
    for (size_t i = 0; i < COUNT(others); i++) {
        print_message("%s\n", others[i]);
        assert_false(is_parsed(others[i]));
    }
    assert_int_equal(hf_owner_parse("n\0@h/1:" HEX ":t1", 8 + 32 + 3, &parts), 0);
    assert_int_equal(hf_owner_parse(NULL, 0, &parts), 0);
    assert_int_equal(hf_owner_parse(good, strlen(good), NULL), 0);
    parts.size = 0;
    assert_int_equal(hf_owner_parse(good, strlen(good), &parts), 0);
#undef HEX
}

static void test_names_and_owners_are_kept_byte_for_byte(void **state) {
    static const char name[] = {'a', '\0', ' ', '\xff', '\xfe', '\n', '{', 'b', '}'};
    static const char owner[] = {'\0', ' ', '\x80', '\r', '\n', ','};
    hf_lock *lock, *other;
    (void)state;
    assert_status(hf_lock_open(alice, name, sizeof name, owner, sizeof owner, NULL, &lock), HF_OK);
    assert_status(hf_lock_open(bob, name, 1, NULL, 0, NULL, &other), HF_OK);
    hf_hold *hold = acquired(lock);
    assert_free(other); /* 'a' is a different name from 'a\0...' */
    stored found_there = read_stored(TELL("HGETALL %b", name, sizeof name));
    assert_int_equal(found_there.owner_length, sizeof owner);
    assert_memory_equal(found_there.owner, owner, sizeof owner);
    assert_first_owner(lock, owner, sizeof owner);
    release(hold);
    assert_int_equal(NUMBER("EXISTS {b}%b:hf1:f", name, sizeof name), 1);
    hf_lock_close(lock);
    hf_lock_close(other);
}

static void test_locks_of_one_hash_tag_have_nothing_else_in_common(void **state) { /* C15 */
    (void)state;
    hf_lock *x = lock_with(alice, "x{b}", NULL, 0, 0), *y = lock_with(bob, "y{b}", NULL, 0, 0);
    hf_lock *tag = lock_with(bob, "b", NULL, 0, 0), *a = lock_with(bob, "{a}:queue", NULL, 0, 0);
    hf_hold *holds[] = {acquired(x), acquired(y), acquired(tag), acquired(a)};
    assert_int_equal(NUMBER("DBSIZE"), 8);
    assert_true(exists("{b}x{b}:hf1:f") && exists("{b}y{b}:hf1:f"));
    assert_true(exists("{b}b:hf1:f") && exists("{a}{a}:queue:hf1:f"));
    for (size_t i = 0; i < COUNT(holds); i++)
        release(holds[i]);
    hf_lock_close(x);
    hf_lock_close(y);
    hf_lock_close(tag);
    hf_lock_close(a);
}

/* ----------------------------------------------------------- Not reentrant */

typedef struct {
    hf_lock *lock;
    hf_status status;
} ending;

static void *release_there(void *argument) {
    ending *e = argument;
    e->status = hf_lock_release(e->lock);
    return NULL;
}

static void test_a_lock_that_is_not_reentrant_is_busy_for_its_own_thread(void **state) {
    (void)state;
    hf_lock *lock = lock_with(alice, "stock", NULL, 0, HF_OFF);
    hf_lock *same = lock_with(alice, "stock", NULL, 0, HF_OFF);
    hf_hold *hold = acquired(lock);
    assert_busy(lock);
    assert_busy(same);
    release(hold);
    assert_free(same);
    hf_lock_close(lock);
    hf_lock_close(same);
}

static void
test_a_lock_that_is_not_reentrant_is_released_by_its_handle_in_any_thread(void **state) {
    (void)state;
    hf_lock *lock = lock_with(alice, "stock", NULL, 0, HF_OFF);
    hf_lock *same = lock_with(alice, "stock", NULL, 0, HF_OFF);
    ending there = {.lock = lock};
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_status(hf_lock_release(same), HF_ENOTHELD); /* it was acquired by another handle */
    assert_int_equal(hf_lock_count_as(lock, NULL, 0), 1);
    pthread_join(start(release_there, &there), NULL);
    assert_int_equal(there.status, HF_OK);
    assert_int_equal(hf_lock_count_as(lock, NULL, 0), 0);
    assert_free(same);
    hf_lock_close(lock);
    hf_lock_close(same);
}

static void test_an_owner_that_holds_a_lock_that_is_not_reentrant_is_busy(void **state) {
    (void)state;
    hf_lock *lock = lock_with(alice, "stock", "ann", 0, HF_OFF);
    hf_lock *elsewhere = lock_with(bob, "stock", "ann", 0, HF_OFF);
    hf_hold *hold = acquired(lock);
    assert_busy(lock);
    assert_busy(elsewhere);
    release(hold);
    assert_free(lock);
    hf_lock_close(lock);
    hf_lock_close(elsewhere);
}

/* ------------------------------------------------- Holds left with the client */

static void test_the_clients_stack_is_shared_by_all_handles_of_a_name(void **state) {
    hf_acquire_options keep = {.size = sizeof keep, .flags = HF_ACQUIRE_KEEP};
    hf_hold *second;
    (void)state;
    hf_lock *lock = stock(alice), *same = stock(alice);
    hf_lock *other = lock_with(alice, "other", NULL, 0, 0);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_status(hf_lock_acquire_as(same, NULL, 0, 0, &keep, &second), HF_OK);
    hf_hold *own = acquired(lock); /* returned to the caller, so not left with the client */
    assert_int_equal(hf_lock_count_as(lock, NULL, 0), 2);
    assert_int_equal(hf_lock_count_as(same, NULL, 0), 2);
    assert_int_equal(hf_lock_count_as(other, NULL, 0), 0);
    assert_status(hf_lock_release(other), HF_ENOTHELD);
    assert_status(hf_lock_release(lock), HF_OK); /* the newest first */
    assert_int_equal(hf_hold_state(second), HF_STATE_RELEASED);
    assert_status(hf_lock_release(same), HF_OK);
    assert_status(hf_lock_release(same), HF_ENOTHELD);
    assert_int_equal(inspected(lock).count, 1);
    release(own);
    hf_hold_close(second);
    hf_lock_close(lock);
    hf_lock_close(same);
    hf_lock_close(other);
}

static void test_a_kept_hold_that_was_released_by_hand_is_off_the_stack(void **state) {
    hf_acquire_options keep = {.size = sizeof keep, .flags = HF_ACQUIRE_KEEP};
    hf_hold *hold;
    (void)state;
    hf_lock *lock = stock(alice);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &keep, &hold), HF_OK);
    release(hold);
    assert_int_equal(hf_lock_count_as(lock, NULL, 0), 0);
    assert_status(hf_lock_release(lock), HF_ENOTHELD);
    hf_lock_close(lock);
}

static void test_an_owner_is_found_on_the_stack_by_all_its_bytes(void **state) {
    (void)state;
    hf_lock *lock = stock(alice);
    assert_status(hf_lock_acquire_as(lock, "ann\0x", 5, 0, NULL, NULL), HF_OK);
    assert_int_equal(hf_lock_count_as(lock, "ann\0x", 5), 1);
    assert_int_equal(hf_lock_count_as(lock, "ann\0y", 5), 0);
    assert_int_equal(hf_lock_count_as(lock, "ann", 3), 0);
    assert_status(hf_lock_release_as(lock, "ann\0y", 5), HF_ENOTHELD);
    assert_status(hf_lock_release_as(lock, "ann\0x", 5), HF_OK);
    hf_lock_close(lock);
}

static void test_what_an_owner_still_keeps_is_named(void **state) {
    char name[HF_NAME_MAX];
    size_t length;
    (void)state;
    hf_lock *lock = stock(alice);
    hf_lock *brief = lock_with(alice, "brief", NULL, 30, 0);
    assert_status(hf_lock_acquire_as(lock, "ann", 3, 0, NULL, NULL), HF_OK);
    assert_status(hf_client_kept(alice, "ann", 3, name, sizeof name, &length), HF_OK);
    assert_int_equal(length, 5);
    assert_memory_equal(name, "stock", 5);
    assert_status(hf_client_kept(alice, "ann", 3, name, 4, &length), HF_EINVAL);
    assert_status(hf_client_kept(alice, "anna", 4, name, sizeof name, &length), HF_ENOTHELD);
    assert_status(hf_client_kept(bob, "ann", 3, name, sizeof name, &length), HF_ENOTHELD);
    assert_status(hf_client_kept(alice, NULL, 0, name, sizeof name, &length), HF_EINVAL);
    assert_status(hf_lock_release_as(lock, "ann", 3), HF_OK);
    assert_status(hf_client_kept(alice, "ann", 3, name, sizeof name, &length), HF_ENOTHELD);

    hf_hold *given_out;
    assert_status(hf_lock_acquire_as(lock, "ann", 3, 0, NULL, &given_out), HF_OK);
    assert_status(hf_client_kept(alice, "ann", 3, name, sizeof name, &length), HF_ENOTHELD);
    release(given_out);
    assert_status(hf_lock_acquire_as(brief, "ann", 3, 0, NULL, NULL), HF_OK);
    assert_soon(hf_client_kept(alice, "ann", 3, name, sizeof name, &length) == HF_ENOTHELD);
    hf_lock_close(lock);
    hf_lock_close(brief);
}

/* ------------------------------------------------------------ Renew, extend */

static void test_renew_gives_the_whole_lease_again(void **state) {
    (void)state;
    hf_lock *lock = stock_for(alice, 60000);
    hf_hold *hold = acquired(lock);
    TELL("PEXPIRE stock 10000");
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_in_range(hf_hold_remaining_ms(hold), 50000, 60000);
    assert_in_range(NUMBER("PTTL stock"), 50000, 60000);
    release(hold);
    hf_lock_close(lock);
}

static void test_extend_adds_to_what_is_left(void **state) {
    (void)state;
    hf_lock *lock = stock_for(alice, 5000);
    hf_hold *hold = acquired(lock);
    assert_status(hf_hold_extend(hold, 60000, 0), HF_OK);
    assert_in_range(hf_hold_remaining_ms(hold), 55000, 65000);
    assert_in_range(NUMBER("PTTL stock"), 55000, 65000);
    assert_status(hf_hold_renew(hold), HF_OK); /* never shortens */
    assert_in_range(NUMBER("PTTL stock"), 50000, 65000);
    release(hold);
    hf_lock_close(lock);
}

static void test_replace_is_exact_and_shortens_at_once(void **state) {
    (void)state;
    hf_lock *lock = stock_for(alice, 60000);
    hf_hold *hold = acquired(lock);
    assert_status(hf_hold_extend(hold, 5000, 1), HF_OK);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 5000);
    assert_in_range(NUMBER("PTTL stock"), 1, 5000);
    assert_status(hf_hold_renew(hold), HF_OK); /* later renewals keep it */
    assert_in_range(NUMBER("PTTL stock"), 1, 5000);
    assert_status(hf_hold_extend(hold, HF_NEVER, 1), HF_OK);
    assert_int_equal(hf_hold_remaining_ms(hold), HF_NEVER);
    assert_int_equal(NUMBER("PTTL stock"), -1);
    assert_status(hf_hold_extend(hold, 1000, 0), HF_OK); /* adds nothing to an endless hold */
    assert_int_equal(NUMBER("PTTL stock"), -1);
    release(hold);
    hf_lock_close(lock);
}

static void test_extend_takes_ten_ms_to_ten_years(void **state) {
    static const int64_t bad[] = {0, 9, HF_NEVER, -2, HF_LEASE_MAX + 1, INT64_MAX, INT64_MIN};
    (void)state;
    hf_lock *lock = stock(alice);
    hf_hold *hold = acquired(lock);
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_status(hf_hold_extend(hold, bad[i], 0), HF_EINVAL);
        if (bad[i] != HF_NEVER)
            assert_status(hf_hold_extend(hold, bad[i], 1), HF_EINVAL);
    }
    assert_in_range(NUMBER("PTTL stock"), 5000, 10000);
    assert_status(hf_hold_extend(hold, HF_LEASE_MAX, 0), HF_OK);
    release(hold);
    hf_lock_close(lock);
}

static void test_a_lease_may_never_end(void **state) {
    (void)state;
    hf_lock *lock = stock_for(alice, HF_NEVER), *theirs = stock(bob);
    hf_hold *hold = acquired(lock);
    assert_int_equal(NUMBER("PTTL stock"), -1);
    assert_int_equal(hf_hold_remaining_ms(hold), HF_NEVER);
    assert_int_equal(inspected(theirs).remaining_ms, HF_NEVER);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_status(hf_hold_check(hold), HF_OK);
    assert_int_equal(NUMBER("PTTL stock"), -1);
    assert_busy(theirs);
    release(hold);
    assert_free(theirs);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

static void test_leases_may_have_ten_ms_and_ten_years(void **state) {
    (void)state;
    hf_lock *shortest = stock_for(alice, HF_LEASE_MIN);
    hf_lock *longest = lock_with(alice, "other", NULL, HF_LEASE_MAX, 0);
    attempt shortly = {.lock = shortest, .timeout_ms = 5000};
    acquire_there(&shortly);
    assert_int_equal(shortly.status, HF_OK);
    hf_hold_close(shortly.hold);
    hf_hold *hold = acquired(longest);
    assert_in_range(NUMBER("PTTL other"), HF_LEASE_MAX - 10000, HF_LEASE_MAX);
    assert_true(hf_hold_remaining_ms(hold) > HF_LEASE_MAX - HF_LEASE_MAX / 1000 - 10000);
    release(hold);
    hf_lock_close(shortest);
    hf_lock_close(longest);
}

/* ---------------------------------------------------------- Losing the lock */

static void test_when_a_lease_ends_another_takes_over(void **state) {
    (void)state;
    hf_lock *mine = stock_for(alice, 100), *theirs = stock(bob);
    int64_t before = now_ms();
    hf_hold *stale = acquired(mine), *next = acquired(theirs);
    assert_in_range(now_ms() - before, 50, 2500); /* earlier than at a re-check */
    assert_true(hf_hold_fence(next) > hf_hold_fence(stale));
    /* The loser knew before the server could grant the lock to another client. */
    assert_int_equal(hf_hold_state(stale), HF_STATE_LOST);
    assert_int_equal(hf_hold_remaining_ms(stale), 0);
    assert_int_equal(hf_lock_count_as(mine, NULL, 0), 0);
    hf_hold_close(stale);
    release(next);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_stale_holder_changes_nothing_and_is_told(void **state) {
    (void)state;
    hf_lock *mine = stock_for(alice, 50), *theirs = stock(bob);
    hf_hold *stale = acquired(mine), *next = acquired(theirs);
    char *before = snapshot("stock");
    assert_status(hf_hold_renew(stale), HF_ELOST);
    assert_status(hf_hold_extend(stale, 1000, 0), HF_ELOST);
    assert_status(hf_hold_extend(stale, 1000, 1), HF_ELOST);
    assert_status(hf_hold_check(stale), HF_ELOST);
    assert_status(hf_hold_release(stale), HF_ELOST);
    assert_message("lost");
    assert_string_equal(snapshot("stock"), before);
    assert_status(hf_hold_check(next), HF_OK);
    assert_status(hf_hold_release(stale), HF_ENOTHELD);
    hf_hold_close(stale);
    release(next);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_holder_whose_key_was_taken_away_is_told_by_the_next_call(void **state) {
    hf_status (*const calls[])(hf_hold *) = {hf_hold_renew, hf_hold_check, hf_hold_release};
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    for (size_t i = 0; i < COUNT(calls); i++) {
        hf_hold *stale = acquired(mine);
        TELL("DEL stock");
        assert_int_equal(hf_hold_state(stale), HF_STATE_HELD); /* only the fence protects here */
        hf_hold *next = acquired(theirs);
        assert_true(hf_hold_fence(next) > hf_hold_fence(stale));
        char *before = snapshot("stock");
        assert_status(calls[i](stale), HF_ELOST);
        assert_string_equal(snapshot("stock"), before);
        assert_true(hf_hold_state(stale) != HF_STATE_HELD);
        hf_hold_close(stale);
        release(next);
    }
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

/* The same lock is granted to the same client, at once or to a waiter. */
static void test_a_grant_tells_that_an_earlier_hold_is_lost(void **state) {
    hf_lock *ann = lock_with(alice, "stock", "ann", 60000, 0);
    hf_lock *ben = lock_with(alice, "stock", "ben", 60000, 0);
    hf_completion won = {.size = sizeof won};
    (void)state;
    hf_hold *first = acquired(ann);
    TELL("DEL stock");
    hf_hold *second = acquired(ben);
    assert_int_equal(hf_hold_state(first), HF_STATE_LOST);
    assert_int_equal(hf_hold_cause(first), HF_CAUSE_GONE);
    assert_int_equal(hf_hold_state(second), HF_STATE_HELD);
    assert_status(hf_hold_release(first), HF_ELOST);

    TELL("DEL stock");
    assert_status(hf_lock_acquire_start(ann, "ann", 3, 5000, NULL, 1), HF_OK);
    do
        assert_status(hf_client_next(alice, &won), HF_OK);
    while (won.kind != HF_KIND_ACQUIRE);
    assert_status(won.status, HF_OK);
    assert_int_equal(hf_hold_state(second), HF_STATE_LOST);
    assert_int_equal(hf_hold_state(won.hold), HF_STATE_HELD);
    hf_hold_close(first);
    hf_hold_close(second);
    release(won.hold);
    hf_lock_close(ann);
    hf_lock_close(ben);
}

static void test_a_lost_hold_that_still_stands_on_the_server_is_released(void **state) {
    (void)state;
    hf_lock *mine = lock_with(alice, "stock", "ann", 100, 0), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    /* As if the last renewal had arrived after the holder gave up. */
    assert_int_equal(NUMBER("PEXPIRE stock 60000"), 1);
    redisReply *fields = TELL("HKEYS stock");
    for (size_t i = 0; i < fields->elements; i++)
        if (strlen(fields->element[i]->str) == 33)
            TELL("HSET stock %s 0", fields->element[i]->str);
    assert_soon(hf_hold_state(hold) == HF_STATE_LOST);
    assert_busy(theirs);
    assert_status(hf_hold_release(hold), HF_ELOST);
    assert_free(theirs);
    hf_hold_close(hold);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_hold_that_was_closed_without_release_ends_with_its_lease(void **state) {
    (void)state;
    hf_lock *mine = stock_for(alice, 300), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    hf_hold_close(hold);
    assert_busy(theirs);
    assert_free(theirs);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

/* ------------------------------------------------------------------ Fences */

static void test_fences_grow_over_releases(void **state) {
    int64_t last = 0;
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    for (int i = 0; i < 200; i++) {
        hf_hold *hold = acquired(i % 3 == 0 ? mine : theirs);
        assert_true(hf_hold_fence(hold) > last);
        last = hf_hold_fence(hold);
        release(hold);
    }
    assert_true(last < INT64_C(1) << 53);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void assert_fence_grows_over(hf_lock *mine, hf_lock *theirs, const char *event) {
    int64_t fences[3];
    for (int i = 0; i < 3; i++) {
        hf_hold *hold = acquired(i == 1 ? theirs : mine);
        fences[i] = hf_hold_fence(hold);
        release(hold);
        TELL(event);
    }
    assert_true(fences[0] < fences[1]);
    assert_true(fences[1] < fences[2]);
}

static void test_fences_grow_over_flushall_and_script_flush(void **state) {
    static const char *const events[] = {"FLUSHALL", "SCRIPT FLUSH", "DEL {stock}stock:hf1:f"};
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    for (size_t i = 0; i < COUNT(events); i++)
        assert_fence_grows_over(mine, theirs, events[i]);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_fences_grow_although_the_last_one_is_ahead_of_the_clock_and_lost(void **state) {
    (void)state;
    hf_lock *lock = stock(alice);
    int64_t seconds = strtoll(TELL("TIME")->element[0]->str, NULL, 10);
    int64_t ahead = (seconds + 86400) * 1000000; /* the server's clock was a day ahead */
    TELL("SET {stock}stock:hf1:f %lld", (long long)ahead);
    hf_hold *hold = acquired(lock);
    assert_int_equal(hf_hold_fence(hold), ahead + 1);
    release(hold);
    TELL("FLUSHALL"); /* now only the client knows */
    hold = acquired(lock);
    assert_true(hf_hold_fence(hold) > ahead + 1);
    release(hold);
    hf_lock_close(lock);
}

static void test_a_flushed_lock_is_free_and_a_flushed_script_is_no_matter(void **state) {
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    TELL("SCRIPT FLUSH");
    assert_busy(theirs);
    TELL("SCRIPT FLUSH");
    assert_status(hf_hold_renew(hold), HF_OK);
    TELL("SCRIPT FLUSH");
    release(hold);
    hold = acquired(mine);
    TELL("FLUSHALL");
    hf_hold *next = acquired(theirs);
    assert_status(hf_hold_release(hold), HF_ELOST);
    assert_status(hf_hold_check(next), HF_OK);
    hf_hold_close(hold);
    release(next);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

/* --------------------------------------------------------- Inspect, break */

static void test_inspect_tells_who_holds_the_lock_and_no_hold_id(void **state) {
    hf_lock_info info = {.size = sizeof info, .count = 99};
    hf_lock_holder holder = {.size = sizeof holder};
    hf_view *view;
    size_t length = 99;
    (void)state;
    hf_lock *mine = lock_with(alice, "stock", "ann", 60000, 0), *theirs = stock(bob);
    assert_status(hf_lock_inspect(theirs, 0, &info, &view), HF_OK);
    assert_int_equal(info.size, sizeof info);
    assert_false(info.held || info.foreign || info.count || info.fence || info.waiters);
    assert_int_equal(info.remaining_ms, 0);
    assert_int_equal(info.result_ms, 0);
    assert_int_equal(hf_view_holders(view) + hf_view_waiters(view), 0);
    hf_view_close(view);
    hf_hold *hold = acquired(mine), *nested = acquired(mine);
    TELL("HSET {stock}stock:hf1:r hf1 %032d%s%016d%016d%08d-%064dann n %s b x", 0, "d", 1, 1, 1, 0,
         "why");
    TELL("PEXPIRE {stock}stock:hf1:r 60000");
    char *before = snapshot("stock");
    assert_status(hf_lock_inspect(theirs, 0, &info, &view), HF_OK);
    assert_true(info.held && !info.foreign);
    assert_int_equal(info.count, 2);
    assert_true(info.fence == hf_hold_fence(hold));
    assert_in_range(info.remaining_ms, 58000, 60000);
    assert_in_range(info.result_ms, 50000, 60000);
    assert_string_equal(snapshot("stock"), before);
    assert_memory_equal(hf_view_name(view, &length), "stock", 5);
    assert_int_equal(length, 5);
    assert_int_equal(hf_view_holders(view), 1); /* the nested hold is counted */
    assert_status(hf_view_holder(view, 0, &holder), HF_OK);
    assert_int_equal(holder.size, sizeof holder);
    assert_int_equal(holder.mode, HF_EXCLUSIVE);
    assert_int_equal(holder.count, 2);
    assert_true(holder.fence == info.fence && holder.held_ms == info.held_ms);
    assert_in_range(holder.remaining_ms, 58000, 60000);
    assert_int_equal(holder.owner_len, 3);
    assert_memory_equal(holder.owner, "ann", 3);
    assert_status(hf_view_holder(view, 1, &holder), HF_EINVAL);
    assert_status(hf_view_holder(view, 0, NULL), HF_EINVAL);
    assert_status(hf_view_holder(NULL, 0, &holder), HF_EINVAL);
    holder.size = 0;
    assert_status(hf_view_holder(view, 0, &holder), HF_EINVAL);
    release(nested);
    release(hold);
    hf_lock_close(mine);
    hf_lock_close(theirs);
    assert_memory_equal(hf_view_name(view, NULL), "stock", 5); /* the name needs no other call */
    hf_view_close(view);
    hf_view_close(NULL);
    assert_int_equal(hf_view_holders(NULL) + hf_view_waiters(NULL), 0);
    assert_non_null(hf_view_name(NULL, NULL));
}

static void test_inspect_fills_in_what_an_older_program_knows(void **state) {
    struct {
        hf_lock_info info;
        char after[8];
    } room;
    (void)state;
    hf_lock *lock = stock(alice);
    hf_hold *hold = acquired(lock);
    memset(&room, 'x', sizeof room);
    room.info.size = offsetof(hf_lock_info, count);
    assert_status(hf_lock_inspect(lock, 0, &room.info, NULL), HF_OK);
    assert_int_equal(room.info.held, 1);
    assert_memory_equal(&room.info.count, "xxxxxxxx", 8);
    room.info.size = sizeof room; /* and it clears the members that only a newer library knows */
    assert_status(hf_lock_inspect(lock, 0, &room.info, NULL), HF_OK);
    assert_int_equal(room.info.count, 1);
    assert_memory_equal(room.after, "\0\0\0\0\0\0\0\0", 8);
    room.info.size = 0;
    assert_status(hf_lock_inspect(lock, 0, &room.info, NULL), HF_EINVAL);
    release(hold);
    hf_lock_close(lock);
}

static void test_no_started_operation_has_a_number_below_1(void **state) {
    (void)state;
    hf_lock *lock = stock(alice);
    hf_hold *hold = acquired(lock);
    static const int64_t wrong[] = {0, -1, INT64_MIN};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        int64_t op = wrong[i];
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, op), HF_EINVAL);
        assert_status(hf_hold_renew_start(hold, op), HF_EINVAL);
        assert_status(hf_hold_extend_start(hold, 1000, 0, op), HF_EINVAL);
        assert_status(hf_hold_check_start(hold, op), HF_EINVAL);
        assert_status(hf_hold_keep_start(hold, 1000, op), HF_EINVAL);
        assert_status(hf_hold_keep_start(hold, 0, op), HF_EINVAL);
        assert_status(hf_once_finish_start(hold, HF_ONCE_DONE, "r", 1, 10000, op), HF_EINVAL);
        assert_status(hf_hold_release_start(hold, op), HF_EINVAL);
    }
    release(hold);
    hf_lock_close(lock);
}

/* The close has released the hold. */
static void test_a_completion_that_a_close_cancels_has_no_hold(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_lock *lock = stock(client);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    assert_soon(NUMBER("EXISTS stock") == 1);
    sleep_ms(100);
    hf_client_close(client);
    hf_completion done = {.size = sizeof done};
    assert_status(hf_client_next(client, &done), HF_OK);
    assert_status(done.status, HF_ECANCELED);
    assert_null(done.hold);
    assert_int_equal(done.hold_number, 0);
    hf_lock_close(lock);
}

static void test_break_takes_the_lock_from_the_named_fence_only(void **state) {
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    char *before = snapshot("stock");
    assert_status(hf_lock_break(theirs, hf_hold_fence(hold) - 1, 0), HF_ENOTHELD);
    assert_status(hf_lock_break(theirs, hf_hold_fence(hold) - 1, HF_BREAK_FOREIGN), HF_ENOTHELD);
    assert_status(hf_lock_break(theirs, 0, HF_BREAK_FOREIGN), HF_ENOTHELD);
    assert_string_equal(snapshot("stock"), before);
    assert_status(hf_lock_break(theirs, -1, 0), HF_EINVAL);
    assert_status(hf_lock_break(theirs, 1, 2), HF_EINVAL);
    assert_status(hf_lock_break(theirs, hf_hold_fence(hold), 0), HF_OK);
    assert_false(exists("stock"));
    assert_status(hf_lock_break(theirs, hf_hold_fence(hold), 0), HF_OK); /* it is already free */
    assert_status(hf_hold_check(hold), HF_ELOST);
    hf_hold *next = acquired(theirs);
    assert_true(hf_hold_fence(next) > hf_hold_fence(hold));
    hf_hold_close(hold);
    release(next);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

/* ------------------------------------------------------------ Foreign locks */

static void test_a_foreign_lock_excludes_us_and_is_never_changed(void **state) {
    static const char *const foreign[] = {
        "SET stock token PX 60000",
        "HSET stock 8743c9c0-0795-4907-87fd-6c719a6b4586:1 1",
        "RPUSH stock a b",
        "ZADD stock 1 a",
        "SADD stock a",
        "XADD stock * a b",
    };
    (void)state;
    hf_lock *lock = stock(alice);
    for (size_t i = 0; i < COUNT(foreign); i++) {
        print_message("%s\n", foreign[i]);
        TELL(foreign[i]);
        char *before = snapshot("stock");
        assert_busy(lock);
        hf_hold *none;
        assert_status(hf_lock_acquire(lock, 30, &none), HF_ETIMEOUT);
        hf_lock_info info = inspected(lock);
        assert_true(info.held && info.foreign);
        assert_false(info.count || info.fence);
        assert_true(info.remaining_ms == (i == 0 ? info.remaining_ms : HF_NEVER));
        assert_in_range(i == 0 ? info.remaining_ms : 60000, 50000, 60000);
        assert_status(hf_lock_release(lock), HF_ENOTHELD);
        assert_status(hf_lock_break(lock, 0, 0), HF_ENOTHELD);
        assert_status(hf_lock_break(lock, 1, 0), HF_ENOTHELD);
        assert_status(hf_lock_break(lock, 1, HF_BREAK_FOREIGN), HF_ENOTHELD);
        assert_string_equal(snapshot("stock"), before);
        assert_status(hf_lock_break(lock, 0, HF_BREAK_FOREIGN), HF_OK);
        assert_free(lock);
    }
    hf_lock_close(lock);
}

static void test_a_hold_that_a_foreign_lock_replaced_is_lost_and_does_not_harm_it(void **state) {
    static const char *const foreign[] = {"SET stock token", "HSET stock uuid:1 1"};
    hf_status (*const calls[])(hf_hold *) = {hf_hold_renew, hf_hold_check, hf_hold_release};
    (void)state;
    hf_lock *lock = stock(alice);
    for (size_t i = 0; i < COUNT(foreign); i++) {
        for (size_t j = 0; j < COUNT(calls); j++) {
            hf_hold *hold = acquired(lock);
            TELL("DEL stock");
            TELL(foreign[i]);
            char *before = snapshot("stock");
            assert_status(calls[j](hold), HF_ELOST);
            assert_string_equal(snapshot("stock"), before);
            hf_hold_close(hold);
            TELL("DEL stock");
        }
    }
    hf_lock_close(lock);
}

static void test_a_waiter_gets_the_lock_after_a_foreign_one(void **state) {
    (void)state;
    hf_lock *lock = stock(alice);
    attempt waiter = {.lock = lock, .timeout_ms = 20000};
    TELL("SET stock token");
    pthread_t thread = start(acquire_there, &waiter);
    assert_soon(is_queued());
    assert_false(__atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE));
    TELL("DEL stock");
    pthread_join(thread, NULL);
    assert_int_equal(waiter.status, HF_OK);
    release(waiter.hold);
    hf_lock_close(lock);
}

/* ------------------------------------------------------------ Close, fork */

static void test_a_client_that_closes_releases_its_holds(void **state) {
    (void)state;
    hf_lock *mine = stock(alice), *other = lock_with(alice, "other", NULL, 0, 0);
    hf_hold *given = acquired(mine), *nested = acquired(mine);
    assert_status(hf_lock_acquire(other, 0, NULL), HF_OK);
    assert_true(exists("stock") && exists("other"));
    close_client(&alice);
    assert_false(exists("stock"));
    assert_false(exists("other"));
    hf_hold_close(given);
    hf_hold_close(nested);
    hf_lock_close(mine);
    hf_lock_close(other);
}

static void *close_last_handle(void *lock) {
    pthread_cancel(pthread_self());
    hf_lock_close(lock);
    return NULL;
}

/* The close frees descriptors, where a thread could be cancelled, and the rest would leak. */
static void test_a_thread_that_is_cancelled_frees_the_client_with_its_last_handle(void **state) {
    hf_lock *lock = stock(alice);
    pthread_t thread;
    void *result = lock;
    (void)state;
    close_client(&alice);
    assert_int_equal(pthread_create(&thread, NULL, close_last_handle, lock), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
}

static void test_after_close_every_call_answers_closed(void **state) {
    hf_hold *none;
    hf_lock *new_lock;
    hf_lock_info info = {.size = sizeof info};
    (void)state;
    hf_lock *lock = stock(alice);
    hf_hold *hold = acquired(lock);
    int64_t fence = hf_hold_fence(hold);
    /* The close frees the handle itself: a lock and a hold still refer to it. */
    close_client(&alice);
    assert_status(hf_lock_acquire(lock, 0, &none), HF_ECLOSED);
    assert_message("closed");
    assert_null(none);
    assert_status(hf_lock_acquire(lock, HF_FOREVER, NULL), HF_ECLOSED);
    assert_status(hf_lock_release(lock), HF_ECLOSED);
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_ECLOSED);
    assert_status(hf_lock_break(lock, 1, 0), HF_ECLOSED);
    assert_int_equal(hf_lock_count_as(lock, NULL, 0), 0);
    assert_status(hf_hold_release(hold), HF_ECLOSED);
    assert_status(hf_hold_renew(hold), HF_ECLOSED);
    assert_status(hf_hold_check(hold), HF_ECLOSED);
    assert_status(hf_hold_extend(hold, 1000, 0), HF_ECLOSED);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    assert_int_equal(hf_hold_remaining_ms(hold), 0);
    assert_true(hf_hold_fence(hold) == fence);
    assert_status(hf_lock_open(bob, "stock", 5, NULL, 0, NULL, &new_lock), HF_OK);
    hf_lock_close(new_lock);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

static void test_a_client_that_closes_cancels_its_waits(void **state) {
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_hold *hold = acquired(mine);
    attempt waiter = {.lock = theirs, .timeout_ms = HF_FOREVER};
    pthread_t thread = start(acquire_there, &waiter);
    assert_soon(is_queued());
    int64_t before = now_ms();
    close_client(&bob);
    pthread_join(thread, NULL);
    assert_in_range(now_ms() - before, 0, IN_TIME(1000));
    /* The client was closed while the waiter slept, or just before it asked again. */
    assert_true(waiter.status == HF_ECANCELED || waiter.status == HF_ECLOSED);
    assert_null(waiter.hold);
    release(hold);
    assert_free(mine);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_client_that_is_stopped_gets_no_lock_and_keeps_its_holds(void **state) {
    (void)state;
    hf_lock *mine = stock(alice), *theirs = stock(bob);
    hf_lock *other = open_lock(bob, "other", NULL, NULL),
            *look = open_lock(alice, "other", NULL, NULL);
    hf_hold *hold = acquired(mine), *kept = acquired(other), *none;
    attempt waiter = {.lock = theirs, .timeout_ms = HF_FOREVER};
    pthread_t thread = start(acquire_there, &waiter);
    hf_lock_info info = {.size = sizeof info};
    do
        assert_status(hf_lock_inspect(mine, 0, &info, NULL), HF_OK);
    while (info.waiters == 0);
    hf_client_stop(bob);
    hf_client_stop(NULL);
    assert_status(hf_lock_acquire(theirs, 0, &none), HF_ECLOSED);
    assert_status(hf_hold_release(kept), HF_ECLOSED);
    assert_int_equal(hf_hold_state(kept), HF_STATE_HELD);
    assert_status(hf_lock_inspect(look, 0, &info, NULL), HF_OK);
    assert_true(info.held);
    release(hold); /* which grants the lock to the waiter */
    pthread_join(thread, NULL);
    assert_true(waiter.status == HF_ECANCELED || waiter.status == HF_ECLOSED);
    assert_null(waiter.hold);
    assert_free(mine);
    close_client(&bob);
    assert_free(look);
    hf_hold_close(kept);
    hf_lock_close(mine);
    hf_lock_close(theirs);
    hf_lock_close(other);
    hf_lock_close(look);
}

/* Run checks in a forked child; return 0 or the number of the failed check. */
static int in_the_child(hf_lock *lock, hf_hold *hold) {
    hf_lock *new_lock;
    hf_hold *none;
    hf_lock_info info = {.size = sizeof info};
    if (hf_lock_acquire(lock, 0, &none) != HF_EFORKED ||
        strstr(hf_error_message(), "parent") == NULL)
        return 1;
    if (hf_lock_open(alice, "x", 1, NULL, 0, NULL, &new_lock) != HF_EFORKED)
        return 2;
    if (hf_hold_release(hold) != HF_EFORKED || hf_lock_release(lock) != HF_EFORKED)
        return 3;
    if (hf_hold_renew(hold) != HF_EFORKED || hf_hold_check(hold) != HF_EFORKED ||
        hf_hold_extend(hold, 1000, 1) != HF_EFORKED ||
        hf_hold_keep_at_least(hold, 1000) != HF_EFORKED)
        return 4;
    if (hf_lock_inspect(lock, 0, &info, NULL) != HF_EFORKED ||
        hf_lock_break(lock, hf_hold_fence(hold), 0) != HF_EFORKED)
        return 5;
    if (hf_hold_state(hold) == HF_STATE_HELD || hf_hold_remaining_ms(hold) != 0 ||
        hf_lock_count_as(lock, NULL, 0) != 0)
        return 6;
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(alice);
#ifndef __SANITIZE_THREAD__ /* it does not follow the threads of a forked child */
    /* The child's new client works, and is another owner: same thread, other process. */
    hf_client *own;
    if (hf_client_open(unix_url(), NULL, &own) != HF_OK ||
        hf_lock_open(own, "stock", 5, NULL, 0, NULL, &new_lock) != HF_OK)
        return 7;
    if (hf_lock_acquire(new_lock, 0, &none) != HF_EBUSY)
        return 8;
    hf_lock_close(new_lock);
    hf_client_close(own);
#endif
    return 0;
}

static void test_a_forked_child_is_refused_and_the_parents_hold_stays(void **state) {
    int status;
    (void)state;
    hf_lock *lock = stock(alice);
    hf_hold *hold = acquired(lock);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    char *before = snapshot("stock");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(in_the_child(lock, hold));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(snapshot("stock"), before);
    assert_status(hf_hold_check(hold), HF_OK); /* over the connection that the child also had */
    assert_status(hf_lock_release(lock), HF_OK);
    release(hold);
    hf_lock_close(lock);
}

/* ----------------------------------------------------------------- Counting */

enum { THREADS = 8, ROUNDS = 200 };

typedef struct {
    hf_lock *lock;
    int failures;
    int64_t last_fence; /* the highest this thread has seen */
} counter;

/* Read and write in two steps: only the lock keeps other threads out in between. */
static void *count_up(void *argument) {
    counter *c = argument;
    redisContext *redis = redisConnectUnix(unix_url() + strlen("unix://"));
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold;
        if (hf_lock_acquire(c->lock, HF_FOREVER, &hold) != HF_OK) {
            c->failures++;
            continue;
        }
        redisReply *reply = redisCommand(redis, "GET count");
        long long value = reply != NULL && reply->str != NULL ? atoll(reply->str) : 0;
        freeReplyObject(reply);
        freeReplyObject(redisCommand(redis, "SET count %lld", value + 1));
        if (hf_hold_fence(hold) <= c->last_fence)
            c->failures++;
        c->last_fence = hf_hold_fence(hold);
        if (hf_hold_release(hold) != HF_OK)
            c->failures++;
        hf_hold_close(hold);
    }
    redisFree(redis);
    return NULL;
}

static void test_eight_threads_of_two_clients_lose_no_increment(void **state) {
    counter counters[THREADS] = {{NULL, 0, 0}};
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        counters[i].lock = stock(i % 2 == 0 ? alice : bob);
        threads[i] = start(count_up, &counters[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(counters[i].failures, 0);
        hf_lock_close(counters[i].lock);
    }
    assert_string_equal(STRING("GET count"), text("%d", THREADS * ROUNDS));
    assert_false(exists("stock"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void test_a_hold_is_handed_over_by_a_token(void **state) { /* M4 */
    hf_lock *mine = stock_for(alice, 5000), *theirs = stock_for(bob, 60000);
    hf_hold *hold = acquired(mine), *adopted, *none;
    char token[HF_TOKEN_MAX];
    size_t length;
    (void)state;
    assert_status(hf_hold_hand_over(hold, token, 10, &length), HF_EINVAL);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_OK);
    assert_status(hf_hold_release(hold), HF_ENOTHELD); /* it no longer belongs to this client */
    assert_status(hf_lock_adopt(theirs, token, length, &adopted), HF_OK);
    assert_int_equal(hf_hold_fence(adopted), hf_hold_fence(hold));
    assert_in_range(hf_hold_remaining_ms(adopted), 50000, 60000); /* adopting renews it first */
    assert_status(hf_lock_acquire_as(mine, "cid", 3, 0, NULL, &none), HF_EBUSY);
    assert_status(hf_hold_release(adopted), HF_OK);
    assert_status(hf_lock_adopt(theirs, token, length, &none), HF_ELOST);
    assert_null(none);
    static const char *const bad[] = {"",
                                      "hf1",
                                      "hf1 0123 1 ann",
                                      "hf2 0123456789abcdef",
                                      "hf1  1 x",
                                      "hf1 0123456789abcdef0123456789abcdef x5 5 stock",
                                      "hf1 0123456789abcdef0123456789abcdef x5 0 stock",
                                      "hf1 0123456789abcdef0123456789abcdef x5 9999 stock",
                                      "hf1 0123456789abcdef0123456789abcdef x5 ann"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_status(hf_lock_adopt(theirs, bad[i], strlen(bad[i]), &none), HF_EINVAL);
    assert_status(hf_lock_adopt(theirs, token, 53, &none), HF_EINVAL); /* cut short */
    hf_lock *other = open_lock(bob, "prices", NULL, NULL);
    assert_status(hf_lock_adopt(other, token, length, &none), HF_EINVAL);
    assert_string_equal(hf_error_message(),
                        "that is a token of lock 'stock', and this lock is 'prices'");
    hf_lock_close(other);
    hf_hold_close(hold);
    hf_hold_close(adopted);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_release_keeps_the_lock_for_as_long_as_was_asked_for(void **state) {
    hf_hold *hold;
    (void)state;
    hf_lock *mine = stock_for(alice, 60000);
    assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
    assert_status(hf_hold_keep_at_least(hold, -1), HF_EINVAL);
    assert_status(hf_hold_keep_at_least(hold, HF_LEASE_MAX + 1), HF_EINVAL);
    assert_status(hf_hold_keep_at_least(NULL, 1000), HF_EINVAL);
    assert_status(hf_hold_keep_at_least(hold, 20000), HF_OK);
    assert_status(hf_hold_release(hold), HF_OK);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    assert_in_range(NUMBER("PTTL stock"), 10000, 20000);
    hf_hold_close(hold);
    TELL("DEL stock");
    for (int64_t ms = 20000; ms >= 0; ms -= 20000) { /* 0 cancels it */
        assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
        assert_status(hf_hold_keep_at_least(hold, 20000), HF_OK);
        assert_status(hf_hold_keep_at_least(hold, ms), HF_OK);
        assert_true(hf_client_fd(alice) >= 0);
        assert_status(hf_hold_release_start(hold, 1), HF_OK);
        hf_completion done = next_of(alice);
        assert_int_equal(done.kind, HF_KIND_RELEASE);
        assert_status(done.status, HF_OK);
        assert_int_equal(NUMBER("EXISTS stock"), ms > 0);
        hf_hold_close(hold);
        TELL("DEL stock");
    }
    assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
    assert_status(hf_hold_keep_at_least(hold, 20000), HF_OK);
    assert_status(hf_hold_keep(hold, 0), HF_OK); /* it cancels that */
    assert_int_equal(NUMBER("EXISTS stock"), 0);
    hf_hold_close(hold);
    hf_lock_close(mine);
}

static void test_a_kept_hold_refuses_everybody_whatever_becomes_of_its_client(void **state) {
    hf_client *cid = open_client();
    hf_hold *hold, *none;
    (void)state;
    hf_lock *mine = stock_for(cid, 5000), *theirs = stock_for(bob, 5000);
    assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
    assert_status(hf_hold_keep(hold, -1), HF_EINVAL);
    assert_status(hf_hold_keep(hold, HF_LEASE_MAX + 1), HF_EINVAL);
    assert_status(hf_hold_keep(NULL, 1000), HF_EINVAL);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_status(hf_hold_keep(hold, 60000), HF_OK);
    assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_NONE);
    assert_int_equal(hf_hold_remaining_ms(hold), 0);
    assert_status(hf_hold_keep(hold, 60000), HF_ENOTHELD);
    assert_status(hf_hold_release(hold), HF_ENOTHELD);
    assert_status(hf_lock_acquire(mine, 0, &none), HF_EBUSY);
    assert_status(hf_lock_acquire(theirs, 0, &none), HF_EBUSY);
    hf_hold_close(hold);
    hf_lock_close(mine);
    hf_client_close(cid);
    assert_status(hf_lock_acquire(theirs, 0, &none), HF_EBUSY);
    assert_in_range(NUMBER("PTTL stock"), 50000, 60000);
    TELL("DEL stock");
    hf_lock_close(theirs);
}

static int64_t first_waited_ms(hf_lock *lock);

static void assert_kept(hf_lock *lock, const char *owner, size_t which, int kept) {
    hf_lock_info info = {.size = sizeof info};
    hf_lock_holder holder = {.size = sizeof holder};
    hf_view *view;
    assert_status(hf_lock_inspect(lock, 0, &info, &view), HF_OK);
    assert_status(hf_view_holder(view, which, &holder), HF_OK);
    assert_memory_equal(holder.owner, owner, strlen(owner));
    assert_int_equal(holder.kept, kept);
    if (which == 0)
        assert_int_equal(info.kept, kept);
    hf_view_close(view);
}

static void test_a_kept_hold_is_shown_as_kept(void **state) {
    (void)state;
    hf_lock *lock = stock(alice), *other = stock(bob);
    for (int queued = 0; queued < 2; queued++) { /* without a queue, and with it */
        hf_hold *none, *hold;
        assert_status(hf_lock_acquire_as(lock, "ann", 3, 0, NULL, &hold), HF_OK);
        int64_t fence = hf_hold_fence(hold);
        if (queued) {
            assert_status(hf_lock_acquire_start(other, "cid", 3, 60000, NULL, 1), HF_OK);
            assert_soon(first_waited_ms(lock) >= 0);
        }
        assert_kept(other, "ann", 0, 0);
        assert_status(hf_lock_acquire_as(other, "ben", 3, 1000, NULL, &none), HF_ETIMEOUT);
        assert_non_null(strstr(hf_error_message(), "at last by 'ann'"));
        assert_status(hf_hold_keep(hold, 90000), HF_OK);
        assert_kept(other, "ann", 0, 1);
        assert_status(hf_lock_acquire_as(other, "ben", 3, 1000, NULL, &none), HF_ETIMEOUT);
        assert_non_null(
            strstr(hf_error_message(), ", and 'ann', whose work has ended, keeps it for another "));
        hf_hold_close(hold);
        if (queued) {
            assert_status(hf_op_cancel(bob, 1), HF_OK);
            assert_soon(first_waited_ms(lock) < 0); /* or the break would grant it the lock */
        }
        assert_status(hf_lock_break(lock, fence, 0), HF_OK);
    }
    /* Also for a shared hold beside another one. */
    hf_lock *readers = open_lock(alice, "stock", NULL, OPTIONS(.mode = HF_SHARED));
    hf_hold *ann, *ben;
    assert_status(hf_lock_acquire_as(readers, "ann", 3, 0, NULL, &ann), HF_OK);
    assert_status(hf_lock_acquire_as(readers, "ben", 3, 0, NULL, &ben), HF_OK);
    assert_status(hf_hold_keep(ann, 20000), HF_OK);
    assert_kept(other, "ben", 0, 0);
    assert_kept(other, "ann", 1, 1);
    hf_hold_close(ann);
    release(ben);
    hf_lock_close(readers);
    hf_lock_close(lock);
    hf_lock_close(other);
}

static void test_a_kept_hold_ends_by_itself(void **state) {
    hf_hold *hold, *next;
    (void)state;
    hf_lock *mine = stock_for(alice, 60000), *theirs = stock_for(bob, 60000);
    hold = acquired(mine);
    assert_status(hf_hold_keep(hold, 2000), HF_OK); /* shorter than its lease */
    assert_status(hf_lock_acquire(theirs, 10000, &next), HF_OK);
    assert_true(hf_hold_fence(next) > hf_hold_fence(hold));
    hf_hold_close(hold);
    assert_status(hf_hold_keep(next, 0), HF_OK); /* a release */
    hf_hold_close(next);
    hold = acquired(mine);
    TELL("DEL stock");
    assert_status(hf_hold_keep(hold, 60000), HF_ELOST);
    assert_false(exists("stock"));
    hf_hold_close(hold);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

/* Acquire theirs while mine is held and then released. */
static hf_hold *won_by_waiting(hf_lock *mine, hf_lock *theirs, uint32_t flags, bool started) {
    hf_acquire_options options = {.size = sizeof options, .flags = flags};
    attempt waiter = {.lock = theirs, .timeout_ms = 20000, .flags = flags};
    pthread_t thread = 0;
    hf_hold *hold = acquired(mine);
    if (started)
        assert_status(hf_lock_acquire_start(theirs, NULL, 0, 20000, &options, 1), HF_OK);
    else
        thread = start(acquire_there, &waiter);
    assert_soon(NUMBER("ZCARD {stock}stock:hf1:q") > 0);
    release(hold);
    if (started) {
        hf_completion granted = next_of(bob);
        assert_int_equal(granted.kind, HF_KIND_ACQUIRE);
        assert_status(granted.status, HF_OK);
        return granted.hold;
    }
    pthread_join(thread, NULL);
    assert_status(waiter.status, HF_OK);
    return waiter.hold;
}

static void test_an_acquire_that_waited_has_its_whole_lease_if_that_is_wanted(void **state) {
    static const char unmarked[] = "--------------------------------";
    static const int64_t leases[] = {0, 60000, HF_NEVER}; /* 0: the default */
    (void)state;
    for (size_t i = 0; i < COUNT(leases) * 2; i++) {
        bool started = i % 2 > 0;
        int64_t lease_ms = leases[i / 2];
        hf_lock *mine = stock_for(alice, 60000), *theirs = stock_for(bob, lease_ms);
        hf_hold *hold = won_by_waiting(mine, theirs, HF_ACQUIRE_WHOLE, started);
        int64_t here = hf_hold_remaining_ms(hold), there = NUMBER("PTTL stock");
        if (lease_ms == HF_NEVER) {
            assert_int_equal(here, HF_NEVER);
            assert_int_equal(there, -1);
        } else {
            int64_t whole = lease_ms == 0 ? HF_LEASE_DEFAULT : lease_ms;
            assert_in_range(here, whole * 2 / 3, whole);
            assert_in_range(there, whole * 2 / 3, whole);
        }
        assert_non_null(strstr(STRING("GET {stock}stock:hf1:f"), unmarked));
        release(hold);
        hold = won_by_waiting(mine, theirs, 0, started);
        assert_in_range(hf_hold_remaining_ms(hold), 1, 3000);
        release(hold);
        hf_lock_close(mine);
        hf_lock_close(theirs);
    }
}

static void test_a_whole_lease_may_be_left_with_the_client(void **state) {
    (void)state;
    for (int started = 0; started < 2; started++) {
        hf_lock *mine = stock_for(alice, 60000), *theirs = lock_with(bob, "stock", "ben", 0, 0);
        hf_hold *hold =
            won_by_waiting(mine, theirs, HF_ACQUIRE_WHOLE | HF_ACQUIRE_KEEP, started > 0);
        assert_int_equal(hf_lock_count_as(theirs, NULL, 0), 1);
        assert_status(hf_lock_release(theirs), HF_OK);
        hf_hold_close(hold);
        assert_free(mine);
        hf_lock_close(mine);
        hf_lock_close(theirs);
    }
}

/* A mark that stayed would count against the client. */
static void test_a_grant_is_claimed_before_it_is_kept(void **state) {
    static const char unmarked[] = "--------------------------------";
    (void)state;
    for (int started = 0; started < 2; started++) {
        hf_lock *mine = stock_for(alice, 60000), *theirs = stock_for(bob, 60000);
        hf_hold *hold = acquired(mine), *none;
        assert_true(hf_client_fd(bob) >= 0);
        assert_status(hf_lock_acquire_start(theirs, NULL, 0, 20000, NULL, 1), HF_OK);
        assert_soon(NUMBER("ZCARD {stock}stock:hf1:q") > 0);
        release(hold);
        hf_completion granted = next_of(bob);
        assert_status(granted.status, HF_OK);
        assert_null(strstr(STRING("GET {stock}stock:hf1:f"), unmarked));
        if (started) {
            assert_status(hf_hold_keep_start(granted.hold, 50000, 2), HF_OK);
            assert_status(next_of(bob).status, HF_OK);
        } else {
            assert_status(hf_hold_keep(granted.hold, 50000), HF_OK);
        }
        assert_in_range(NUMBER("PTTL stock"), 40000, 50000);
        assert_non_null(strstr(STRING("GET {stock}stock:hf1:f"), unmarked));
        assert_status(hf_lock_acquire(mine, 0, &none), HF_EBUSY);
        hf_hold_close(granted.hold);
        TELL("DEL stock");
        hf_lock_close(mine);
        hf_lock_close(theirs);
    }
}

/* As after a failover that lost the release: the server still has the hold. Others may have held
 * the lock since, so its fence must not be used again. */
static void test_an_owner_does_not_nest_in_what_it_has_released(void **state) {
    (void)state;
    hf_hold *hold, *nested, *next;
    hf_lock *lock = lease_lock(alice, "stock", 300, HF_OFF);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &nested), HF_OK);
    assert_int_equal(hf_hold_fence(nested), hf_hold_fence(hold));
    int64_t fence = hf_hold_fence(hold);
    release(nested);
    TELL("COPY stock orphan");
    release(hold);
    TELL("RENAME orphan stock");
    assert_status(hf_lock_acquire(lock, 0, &next), HF_EBUSY);
    assert_status(hf_lock_acquire(lock, 5000, &next), HF_OK);
    assert_true(hf_hold_fence(next) > fence);
    release(next);
    hf_lock_close(lock);
}

/* ------------------------------------------------- What an operator asks */

static void *wait_as_ben(void *argument) {
    hf_hold *hold;
    hf_status status = hf_lock_acquire_as(argument, "ben", 3, 5000, NULL, &hold);
    if (status == HF_OK)
        status = hf_hold_release(hold);
    hf_hold_close(hold);
    return (void *)(intptr_t)status;
}

/* Return -1 if there is no waiter. */
static int64_t first_waited_ms(hf_lock *lock) {
    hf_lock_waiter waiter = {.size = sizeof waiter, .waited_ms = -1};
    hf_view *view;
    assert_status(hf_lock_inspect(lock, 0, NULL, &view), HF_OK);
    hf_view_waiter(view, 0, &waiter);
    hf_view_close(view);
    return waiter.waited_ms;
}

static void test_an_operator_sees_since_when_and_who_waits(void **state) {
    hf_lock_info info = {.size = sizeof info};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    hf_view *view;
    pthread_t thread;
    (void)state;
    hf_lock *lock = stock(alice), *other = stock(bob);
    hf_hold *hold = acquired(lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_as_ben, other), 0);
    assert_soon(first_waited_ms(lock) >= 20);
    assert_status(hf_lock_inspect(lock, 0, &info, &view), HF_OK);
    assert_int_equal(info.waiters, 1);
    assert_int_equal(hf_view_waiters(view), 1);
    assert_status(hf_view_waiter(view, 0, &waiter), HF_OK);
    assert_in_range(info.held_ms, 20, 3000);
    assert_in_range(waiter.waited_ms, 20, info.held_ms);
    assert_int_equal(waiter.timeout_ms, 5000);
    assert_int_equal(waiter.mode, HF_EXCLUSIVE);
    assert_int_equal(waiter.permits, 0);
    assert_int_equal(waiter.owner_len, 3);
    assert_memory_equal(waiter.owner, "ben", 3);
    assert_status(hf_view_waiter(view, 1, &waiter), HF_EINVAL);
    hf_view_close(view);
    assert_status(hf_lock_inspect(lock, 1, &info, &view), HF_OK);
    assert_int_equal(info.waiters, 1);
    assert_int_equal(hf_view_holders(view) + hf_view_waiters(view), 0);
    hf_view_close(view);
    release(hold);
    void *status;
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, HF_OK);
    assert_status(hf_lock_inspect(lock, -1, &info, &view), HF_EINVAL);
    assert_null(view);
    assert_status(hf_lock_inspect(lock, 0, NULL, NULL), HF_EINVAL);
    hf_lock_close(lock);
    hf_lock_close(other);
}

/* Check the note of the holder, or of the first waiter. */
static void assert_note(hf_lock *lock, bool waits, const char *owner, const char *note) {
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    hf_view *view;
    assert_status(hf_lock_inspect(lock, 0, NULL, &view), HF_OK);
    if (waits) {
        assert_status(hf_view_waiter(view, 0, &waiter), HF_OK);
        holder.owner = waiter.owner, holder.owner_len = waiter.owner_len;
        holder.note = waiter.note, holder.note_len = waiter.note_len;
    } else {
        assert_status(hf_view_holder(view, 0, &holder), HF_OK);
        assert_int_equal(hf_view_holders(view), 1);
    }
    assert_int_equal(holder.owner_len, strlen(owner));
    assert_memory_equal(holder.owner, owner, strlen(owner));
    assert_int_equal(holder.note_len, strlen(note));
    assert_memory_equal(holder.note, note, strlen(note));
    hf_view_close(view);
}

#define NOTED(text) .note = (text), .note_len = strlen(text)
#define ACQUIRE(...) (&(hf_acquire_options){.size = sizeof(hf_acquire_options), __VA_ARGS__})

static void test_a_note_is_shown_beside_the_owner(void **state) {
    (void)state;
    hf_lock *lock = open_lock(alice, "stock", "ann", OPTIONS(NOTED("refund 17")));
    hf_lock *other = open_lock(bob, "stock", "ben", OPTIONS(NOTED("refund 18")));
    hf_hold *hold = acquired(lock), *nested, *none;
    assert_note(other, false, "ann", "refund 17");

    /* The note is in the message of a timeout, and with a waiter in the queue. */
    assert_status(hf_lock_acquire_start(other, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_soon(first_waited_ms(lock) >= 0);
    assert_note(lock, true, "ben", "refund 18");
    assert_status(hf_op_cancel(bob, 1), HF_OK);
    assert_soon(first_waited_ms(lock) < 0);
    assert_status(hf_lock_acquire_as(other, "cid", 3, 1000, NULL, &none), HF_ETIMEOUT);
    assert_non_null(strstr(hf_error_message(), "at last by 'ann', noted 'refund 17'"));

    /* A nested hold has the note of the outer one, whatever it asked for. */
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, ACQUIRE(NOTED("other")), &nested), HF_OK);
    assert_int_equal(hf_hold_fence(nested), hf_hold_fence(hold));
    assert_note(other, false, "ann", "refund 17");
    release(hold);
    assert_status(hf_lock_acquire_as(lock, "ann", 3, 0, NULL, &hold), HF_OK); /* in the inner one */
    release(nested);
    release(hold);

    /* A call's note replaces the lock's; without it the hold is found again. */
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0,
                                     ACQUIRE(NOTED("refund 19"), .flags = HF_ACQUIRE_KEEP), NULL),
                  HF_OK);
    assert_note(other, false, "ann", "refund 19");
    assert_int_equal(hf_lock_count_as(lock, "ann", 3), 1);
    assert_status(hf_lock_release_as(lock, "ann", 3), HF_OK);
    hf_lock_close(lock);
    hf_lock_close(other);
}

static void test_a_note_goes_with_a_hold_that_is_handed_over(void **state) {
    (void)state;
    char token[HF_TOKEN_MAX], text[] = "ann" HF_NOTE_MARK "refund 17";
    size_t length;
    hf_lock *lock = open_lock(alice, "stock", "ann", OPTIONS(NOTED("refund 17")));
    hf_lock *other = open_lock(bob, "stock", "ann", NULL);
    hf_hold *hold = acquired(lock), *nested, *adopted;
    /* Without its note the acquire is another owner to another client; with the note it nests. */
    assert_status(hf_lock_acquire(other, 0, &nested), HF_EBUSY);
    assert_status(hf_lock_acquire_as(other, text, strlen(text), 0, NULL, &nested), HF_OK);
    assert_int_equal(hf_hold_fence(nested), hf_hold_fence(hold));
    release(nested);
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_OK);
    assert_status(hf_lock_adopt(other, token, length, &adopted), HF_OK);
    assert_note(lock, false, "ann", "refund 17");
    assert_status(hf_lock_acquire(other, 0, &nested), HF_OK);
    release(nested);
    release(adopted);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(other);
}

static void test_a_note_that_does_not_fit_is_refused(void **state) {
    (void)state;
    static char owner[HF_OWNER_MAX], note[HF_NOTE_MAX + 1];
    memset(owner, 'o', sizeof owner);
    memset(note, 'n', sizeof note);
    hf_lock *lock;
    hf_hold *none;
    assert_status(hf_lock_open(alice, "stock", 5, NULL, 0,
                               OPTIONS(.note = note, .note_len = sizeof note), &lock),
                  HF_EINVAL);
    assert_string_equal(hf_error_message(), "the note has 1025 bytes: it takes up to 1024");
    assert_status(hf_lock_open(alice, "stock", 5, NULL, 0, OPTIONS(.note_len = 4), &lock),
                  HF_EINVAL);
    lock = open_lock(alice, "stock", NULL, NULL);
    assert_status(hf_lock_acquire_as(lock, owner, sizeof owner, 0, ACQUIRE(NOTED("x")), &none),
                  HF_EINVAL);
    assert_string_equal(hf_error_message(),
                        "the owner and the note have 4097 bytes together: up to 4090");
    assert_status(
        hf_lock_acquire_as(lock, owner, 3, 0, ACQUIRE(.note_len = 2000, .note = note), &none),
        HF_EINVAL);
    assert_null(none);
    hf_lock_close(lock);
}

#define ID "0123456789abcdef0123456789abcdef"

static void test_what_no_client_of_ours_queued_is_no_waiter(void **state) {
    static const char *const members[] = {
        "x",
        "0123456789abcdef0123456789abcdef",
        ID ID,
        ID ID "p0000000000x00000001000", /* a column is short, and there is no owner */
        ID ID "p0000000000z000000010000me",
        ID ID "p00000-0000x000000010000me",
    };
    (void)state;
    hf_lock *lock = stock(alice);
    for (size_t i = 0; i < COUNT(members); i++)
        TELL("ZADD {stock}stock:hf1:q %d %s", (int)i, members[i]);
    assert_int_equal(first_waited_ms(lock), -1);
    hf_lock_close(lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_acquire_gives_a_hold_that_lasts_its_lease),
        TEST(test_the_last_fence_lives_as_long_as_the_client_wants),
        TEST(test_lease_is_ten_seconds_if_none_is_given),
        TEST(test_one_acquire_may_have_a_lease_of_its_own),
        TEST(test_what_another_holds_is_busy),
        TEST(test_what_another_keeps_is_timed_out_and_leaves_nothing_behind),
        TEST(test_a_waiter_gets_the_lock_when_it_is_released),
        TEST(test_two_threads_exclude_each_other),
        TEST(test_a_signal_ends_a_wait_only_if_asked_to),
        TEST(test_two_clients_tell_their_interrupts_apart),
        TEST(test_nested_holds_have_one_fence_and_are_released_as_often),
        TEST(test_release_too_often_is_not_held_and_changes_nothing),
        TEST(test_release_by_another_owner_changes_nothing),
        TEST(test_equal_owners_are_one_owner_in_all_clients),
        TEST(test_an_owner_may_be_given_to_one_acquire),
        TEST(test_the_default_owner_tells_host_process_client_and_thread),
        TEST(test_a_default_owner_is_read_and_no_other),
        TEST(test_names_and_owners_are_kept_byte_for_byte),
        TEST(test_locks_of_one_hash_tag_have_nothing_else_in_common),
        TEST(test_a_lock_that_is_not_reentrant_is_busy_for_its_own_thread),
        TEST(test_a_lock_that_is_not_reentrant_is_released_by_its_handle_in_any_thread),
        TEST(test_an_owner_that_holds_a_lock_that_is_not_reentrant_is_busy),
        TEST(test_the_clients_stack_is_shared_by_all_handles_of_a_name),
        TEST(test_a_kept_hold_that_was_released_by_hand_is_off_the_stack),
        TEST(test_an_owner_is_found_on_the_stack_by_all_its_bytes),
        TEST(test_what_an_owner_still_keeps_is_named),
        TEST(test_renew_gives_the_whole_lease_again),
        TEST(test_extend_adds_to_what_is_left),
        TEST(test_replace_is_exact_and_shortens_at_once),
        TEST(test_extend_takes_ten_ms_to_ten_years),
        TEST(test_a_lease_may_never_end),
        TEST(test_leases_may_have_ten_ms_and_ten_years),
        TEST(test_when_a_lease_ends_another_takes_over),
        TEST(test_a_stale_holder_changes_nothing_and_is_told),
        TEST(test_a_holder_whose_key_was_taken_away_is_told_by_the_next_call),
        TEST(test_a_grant_tells_that_an_earlier_hold_is_lost),
        TEST(test_a_lost_hold_that_still_stands_on_the_server_is_released),
        TEST(test_a_hold_that_was_closed_without_release_ends_with_its_lease),
        TEST(test_fences_grow_over_releases),
        TEST(test_fences_grow_over_flushall_and_script_flush),
        TEST(test_fences_grow_although_the_last_one_is_ahead_of_the_clock_and_lost),
        TEST(test_a_flushed_lock_is_free_and_a_flushed_script_is_no_matter),
        TEST(test_inspect_tells_who_holds_the_lock_and_no_hold_id),
        TEST(test_inspect_fills_in_what_an_older_program_knows),
        TEST(test_break_takes_the_lock_from_the_named_fence_only),
        TEST(test_a_foreign_lock_excludes_us_and_is_never_changed),
        TEST(test_a_hold_that_a_foreign_lock_replaced_is_lost_and_does_not_harm_it),
        TEST(test_a_waiter_gets_the_lock_after_a_foreign_one),
        TEST(test_a_client_that_closes_releases_its_holds),
        TEST(test_a_thread_that_is_cancelled_frees_the_client_with_its_last_handle),
        TEST(test_after_close_every_call_answers_closed),
        TEST(test_a_client_that_is_stopped_gets_no_lock_and_keeps_its_holds),
        TEST(test_a_client_that_closes_cancels_its_waits),
        TEST(test_a_client_that_is_stopped_gets_no_lock_and_keeps_its_holds),
        TEST(test_a_forked_child_is_refused_and_the_parents_hold_stays),
        TEST(test_eight_threads_of_two_clients_lose_no_increment),
        TEST(test_a_hold_is_handed_over_by_a_token),
        TEST(test_a_release_keeps_the_lock_for_as_long_as_was_asked_for),
        TEST(test_a_kept_hold_refuses_everybody_whatever_becomes_of_its_client),
        TEST(test_a_kept_hold_is_shown_as_kept),
        TEST(test_a_kept_hold_ends_by_itself),
        TEST(test_an_acquire_that_waited_has_its_whole_lease_if_that_is_wanted),
        TEST(test_a_whole_lease_may_be_left_with_the_client),
        TEST(test_a_grant_is_claimed_before_it_is_kept),
        TEST(test_an_owner_does_not_nest_in_what_it_has_released),
        TEST(test_an_operator_sees_since_when_and_who_waits),
        TEST(test_a_note_is_shown_beside_the_owner),
        TEST(test_a_note_goes_with_a_hold_that_is_handed_over),
        TEST(test_a_note_that_does_not_fit_is_refused),
        TEST(test_what_no_client_of_ours_queued_is_no_waiter),
        TEST(test_no_started_operation_has_a_number_below_1),
        TEST(test_a_completion_that_a_close_cancels_has_no_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

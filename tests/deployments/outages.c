/* An outage, a changed password, a missing permission: a started operation reports the same as the
 * blocking one, and neither reports another holder. */
#include "servers.h"

#include <poll.h>
#include <pthread.h>

/* How long a client waits for a server that is gone, and for one that answers; and what a pause of
 * the machine may add. */
enum { CONNECT_MS = 400, PATIENT_MS = 20000, SLACK_MS = 8000 };

static int port;
static pid_t pid;

/* The result of a call, or of a completion. */
typedef struct answer {
    hf_status status;
    int64_t took_ms;
    hf_error error;
} answer;

static int start_all(void **state) { return open_folder(state); }
static int stop_all(void **state) { return remove_folder(state); }

static void start_with(const char *password) {
    pid = START("--port", number(port), "--save", "", "--unixsocket", text("%s/socket", folder));
    assert_soon(answers(port));
    tell(port, text("ACL SETUSER app on >%s ~* &* +@all", password));
}
static void start(void) { start_with("secret"); }

static int set_up(void **state) {
    (void)state;
    alarm(100);
    port = free_port();
    start();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    stop_server(&pid);
    return 0;
}

static hf_client *opened(int64_t patience_ms) {
    hf_client_options options = {.size = sizeof options,
                                 .connect_timeout_ms = patience_ms,
                                 .command_timeout_ms = patience_ms};
    hf_client *client;
    const char *url = text("redis://app:secret@127.0.0.1:%d", port);
    assert_soon(hf_client_open(url, &options, &client) == HF_OK);
    return client;
}

static hf_completion told_of(hf_client *client, int32_t kind, int64_t op) {
    hf_completion c;
    do
        c = completion_within(client, 20000);
    while (c.kind == HF_KIND_LOSS && kind != HF_KIND_LOSS);
    assert_int_equal(c.kind, kind);
    assert_int_equal(c.op, op);
    return c;
}

/* Return whether the server reports which permission a script lacks: Redis 7.0 and newer do. */
static bool names_permissions(void) {
    return strstr(tell(port, "INFO server")->str, "redis_version:6.") == NULL;
}

/* A blocking acquire on a thread of its own. */
typedef struct waiting {
    hf_lock *lock;
    int64_t timeout_ms;
    answer answer;
    pthread_t thread;
} waiting;

static void *wait_for_it(void *argument) {
    waiting *w = argument;
    int64_t since = now_ms();
    w->answer.status = hf_lock_acquire(w->lock, w->timeout_ms, NULL);
    w->answer.took_ms = now_ms() - since;
    if (w->answer.status != HF_OK)
        w->answer.error = *hf_error_last();
    return NULL;
}

/* ------------------------------------------------------------------ A table */

/* What a client has done before. */
typedef struct past {
    bool subscribed; /* waited in a queue */
    bool started;    /* started an acquire */
} past;

static const past pasts[] = {{false, false}, {true, false}, {false, true}, {true, true}};
static const int64_t timeouts[] = {0, 500, HF_FOREVER};

/* Use the client in this way. False: the machine has paused for longer than the client waits. */
static bool is_used(hf_client *client, past before) {
    hf_client *other = opened(PATIENT_MS);
    hf_lock *mine = lease_lock(client, "warm", 5000, HF_ON),
            *theirs = exclusive_lock(other, "warm", 60000);
    hf_hold *hold;
    assert_status(hf_lock_acquire(theirs, PATIENT_MS, &hold), HF_OK);
    bool is = !before.subscribed || hf_lock_acquire(mine, 50, NULL) == HF_ETIMEOUT;
    give_back(hold, HF_OK);
    if (is && before.started) {
        assert_status(hf_lock_acquire_start(mine, NULL, 0, 1000, NULL, 1), HF_OK);
        hf_completion c = told_of(client, HF_KIND_ACQUIRE, 1);
        is = c.status == HF_OK && hf_hold_release(c.hold) == HF_OK;
        hf_hold_close(c.hold);
    }
    hf_lock_close(mine);
    hf_lock_close(theirs);
    hf_client_close(other);
    return is;
}

static hf_client *used(past before, int64_t patience_ms) {
    hf_client *client;
    while (!is_used(client = opened(patience_ms), before)) /* alarm() ends the loop */
        hf_client_close(client);
    return client;
}

static void print_answer(const char *how, past before, int64_t timeout_ms, const answer *a) {
    print_message("%-9s %-10s %-8s %5lld ms: %-12s in %4lld ms: %.150s\n", how,
                  before.subscribed ? "subscribed" : "", before.started ? "started" : "",
                  (long long)timeout_ms, hf_status_name(a->status), (long long)a->took_ms,
                  a->error.message);
}

/* Acquire a free lock after `trouble`, on this thread and by a started operation, on two clients.
 */
static void acquire_both(past before, int64_t patience_ms, int64_t timeout_ms,
                         void (*trouble)(void), answer *blocking, answer *started) {
    hf_client *one = used(before, patience_ms), *two = used(before, patience_ms);
    hf_lock *lock = lease_lock(one, "free", 5000, HF_ON),
            *same = lease_lock(two, "also free", 5000, HF_ON);
    memset(blocking, 0, sizeof *blocking);
    trouble();
    int64_t since = now_ms();
    assert_status(hf_lock_acquire_start(same, NULL, 0, timeout_ms, NULL, 7), HF_OK);
    hf_completion c = told_of(two, HF_KIND_ACQUIRE, 7);
    *started = (answer){.status = c.status, .took_ms = now_ms() - since, .error = c.error};
    since = now_ms();
    blocking->status = hf_lock_acquire(lock, timeout_ms, NULL);
    blocking->took_ms = now_ms() - since;
    if (blocking->status != HF_OK)
        blocking->error = *hf_error_last();
    hf_hold_close(c.hold);
    hf_lock_close(lock);
    hf_lock_close(same);
    hf_client_close(one);
    hf_client_close(two);
    print_answer("blocking", before, timeout_ms, blocking);
    print_answer("started", before, timeout_ms, started);
}

/* Answers must be immediate, whatever the timeout, not after the time to connect. A busy machine
 * may pause in a few of the cells. */
static int cells, late;

static void count_late(const answer *a) {
    cells++;
    late += a->took_ms >= CONNECT_MS;
}

static void assert_few_late(void) {
    assert_in_range(late, 0, cells / 4);
    cells = late = 0;
}

/* Run each cell of the table: both results pass the check. */
static void for_all(int64_t patience_ms, void (*trouble)(void), void (*repair)(void),
                    void (*check)(int64_t timeout_ms, const answer *a)) {
    for (size_t i = 0; i < COUNT(pasts); i++)
        for (size_t j = 0; j < COUNT(timeouts); j++) {
            answer blocking, started;
            acquire_both(pasts[i], patience_ms, timeouts[j], trouble, &blocking, &started);
            check(timeouts[j], &blocking);
            check(timeouts[j], &started);
            repair();
        }
    assert_few_late();
}

/* ------------------------------------------------------------------- Outages */

static void stop(void) { stop_server(&pid); }

static void assert_outage(int64_t timeout_ms, const answer *a) {
    assert_true(a->status == HF_ECONNECT || a->status == HF_EUNKNOWN);
    assert_non_null(strstr(a->error.message, "127.0.0.1"));
    assert_in_range(a->took_ms, 0,
                    (timeout_ms == HF_FOREVER ? 0 : timeout_ms) + CONNECT_MS + SLACK_MS);
}

static void test_an_acquire_from_a_server_that_is_gone_blames_nobody(void **state) {
    (void)state;
    for_all(CONNECT_MS, stop, start, assert_outage);
}

/* The server accepts a limited number of connections, and this one is the last. */
static redisContext *the_one;

static void tell_the_one(const char *command) { freeReplyObject(redisCommand(the_one, command)); }

static void fill(void) {
    the_one = redisConnect("127.0.0.1", port);
    tell_the_one("CONFIG SET maxclients 1");
    tell_the_one("CLIENT KILL TYPE normal SKIPME yes");
    tell_the_one("CLIENT KILL TYPE pubsub");
    sleep_ms(150); /* a connection that was idle for this time is checked before it is used */
}

static void make_room(void) {
    tell_the_one("CONFIG SET maxclients 1000");
    redisFree(the_one);
}

static int told_full, told_late;

static void assert_full(int64_t timeout_ms, const answer *a) {
    assert_outage(timeout_ms, a);
    if (strstr(a->error.message, "max number of clients reached") != NULL)
        told_full++;
    else /* the machine has paused, and the last attempt got no answer */
        told_late += strstr(a->error.message, "no answer in time") != NULL;
    assert_null(strstr(a->error.message, "password"));
}

static void test_a_full_server_blames_no_password(void **state) {
    const char *const urls[] = {
        text("redis://127.0.0.1:%d", port), text("redis://app:secret@127.0.0.1:%d/1", port),
        text("unix://%s/socket", folder), text("unix://app:secret@%s/socket?db=1", folder)};
    hf_client *client;
    (void)state;
    for_all(CONNECT_MS, fill, make_room, assert_full);
    assert_true(told_full > told_late);
    fill();
    for (size_t i = 0; i < 40; i++) { /* until the server has hung up */
        assert_status(hf_client_open(urls[i % COUNT(urls)], NULL, &client), HF_ECONNECT);
        if (strstr(hf_error_message(), "max number of clients reached") == NULL)
            fail_msg("%s", hf_error_message());
    }
    make_room();
}

/* Set another password by a restart. */
static void change_password(void) {
    stop_server(&pid);
    start_with("another"); /* and no other one in between */
    sleep_ms(150);         /* idle for this time, it is checked before it is used */
}

static void restore(void) {
    tell(port, "ACL SETUSER app reset on >secret ~* &* +@all");
    tell(port, "FLUSHALL");
}

static void assert_refused(int64_t timeout_ms, const answer *a) {
    (void)timeout_ms;
    assert_int_equal(a->status, HF_EAUTH);
    assert_non_null(strstr(a->error.message, "refused the user or the password"));
    count_late(a);
}

static void test_an_acquire_with_a_changed_password_fails_at_once(void **state) {
    (void)state;
    for_all(PATIENT_MS, change_password, restore, assert_refused);
}

/* Wait until it is known that others hold the lock, and get no answer from then on. */
static void wait_both(const char *rights) {
    answer blocking, started;
    tell(port, text("ACL SETUSER app %s", rights));
    bool queues = strcmp(rights, "+@all") == 0;
    hf_client *other = opened(PATIENT_MS), *one = opened(CONNECT_MS), *two = opened(CONNECT_MS);
    hf_lock *theirs = exclusive_lock(other, "stock", 60000),
            *lock = lease_lock(one, "stock", 5000, HF_ON),
            *same = lease_lock(two, "stock", 5000, HF_ON);
    hf_hold *hold = held(theirs);
    waiting w = {.lock = lock, .timeout_ms = 1500};
    int64_t since = now_ms();
    assert_status(hf_lock_acquire_start(same, NULL, 0, 1500, NULL, 7), HF_OK);
    pthread_create(&w.thread, NULL, wait_for_it, &w);
    if (queues)
        assert_soon(tell(port, "ZCOUNT {stock}stock:hf1:q 0 9007199254740992")->integer == 2);
    else
        sleep_ms(500); /* both ask often */
    stop();
    pthread_join(w.thread, NULL);
    blocking = w.answer;
    hf_completion c = told_of(two, HF_KIND_ACQUIRE, 7);
    started = (answer){.status = c.status, .took_ms = now_ms() - since, .error = c.error};
    print_answer("blocking", (past){queues, false}, 1500, &blocking);
    print_answer("started", (past){queues, false}, 1500, &started);
    assert_outage(1500, &blocking);
    assert_outage(1500, &started);
    if (queues) {
        assert_int_equal(started.status, HF_EUNKNOWN);
        assert_int_equal(blocking.status, HF_EUNKNOWN);
        const answer *answers[] = {&blocking, &started};
        for (int i = 0; i < 2; i++) /* or it had not yet read that it has a place */
            assert_true(strstr(answers[i]->error.message, "given up") != NULL ||
                        strstr(answers[i]->error.message, "may have been carried out") != NULL);
    }
    hf_client_close(one);
    hf_client_close(two);
    hf_client_close(other);
    hf_hold_close(hold);
    hf_lock_close(theirs);
    hf_lock_close(lock);
    hf_lock_close(same);
    start();
}

static void test_a_wait_that_loses_the_server_says_so(void **state) {
    (void)state;
    wait_both("+@all");
    wait_both("+@all -subscribe");
}

/* -------------------------------------------------------------- Permissions */

static const char *missing;

static void forbid(void) { tell(port, text("ACL SETUSER app -%s", missing)); }

static void assert_named(int64_t timeout_ms, const answer *a) {
    (void)timeout_ms;
    assert_int_equal(a->status, HF_ESERVER);
    count_late(a);
    const char *name = strcmp(missing, "evalsha") == 0 ? "'evalsha'" : text("+%s", missing);
    if (strstr(a->error.message, name) == NULL)
        fail_msg("it does not name %s: %s", missing, a->error.message);
}

static void assert_fine(int64_t timeout_ms, const answer *a) {
    (void)timeout_ms;
    assert_int_equal(a->status, HF_OK);
}

static void test_an_acquire_without_a_permission_names_it_at_once(void **state) {
    static const char *const commands[] = {"hset", "set", "pexpire", "evalsha"};
    (void)state;
    if (!names_permissions())
        return;
    for (size_t i = 0; i < COUNT(commands); i++) {
        missing = commands[i];
        print_message("-%s\n", missing);
        for_all(PATIENT_MS, forbid, restore, assert_named);
    }
    missing = "pexpireat"; /* only a renewal and a grant need it */
    for_all(PATIENT_MS, forbid, restore, assert_fine);
}

/* ------------------------------------------------------------- With a hold */

typedef hf_status blocking_call(hf_hold *hold);
typedef hf_status starting_call(hf_hold *hold, int64_t op);

static hf_status replace(hf_hold *hold) { return hf_hold_extend(hold, 4000, HF_EXTEND_REPLACE); }
static hf_status replace_start(hf_hold *hold, int64_t op) {
    return hf_hold_extend_start(hold, 4000, HF_EXTEND_REPLACE, op);
}

static const struct {
    const char *name;
    int32_t kind;
    blocking_call *call;
    starting_call *start;
    const char *needs; /* a permission */
} calls[] = {
    {"renew", HF_KIND_RENEWAL, hf_hold_renew, hf_hold_renew_start, "pexpireat"},
    {"replace", HF_KIND_RENEWAL, replace, replace_start, "pexpireat"},
    {"check", HF_KIND_RENEWAL, hf_hold_check, hf_hold_check_start, "hget"},
    {"release", HF_KIND_RELEASE, hf_hold_release, hf_hold_release_start, "hdel"},
};

/* Make one call after `trouble`, on this thread and by a started operation. */
static void hold_both(size_t which, bool started_before, int64_t patience_ms, void (*trouble)(void),
                      answer *blocking, answer *started) {
    past before = {false, started_before};
    hf_client *one = used(before, patience_ms), *two = used(before, patience_ms);
    hf_lock *lock = lease_lock(one, "one", 60000, HF_OFF),
            *same = lease_lock(two, "two", 60000, HF_OFF);
    hf_hold *hold, *other;
    assert_soon(hf_lock_acquire(lock, 0, &hold) == HF_OK);
    assert_soon(hf_lock_acquire(same, 0, &other) == HF_OK);
    assert_soon(hf_hold_check(hold) == HF_OK);
    assert_true(hf_client_fd(two) >= 0);
    memset(blocking, 0, sizeof *blocking);
    trouble();
    sleep_ms(3); /* otherwise a renewal may have nothing to change */
    int64_t since = now_ms();
    assert_status(calls[which].start(other, 7), HF_OK);
    hf_completion c = told_of(two, calls[which].kind, 7);
    *started = (answer){.status = c.status, .took_ms = now_ms() - since, .error = c.error};
    since = now_ms();
    blocking->status = calls[which].call(hold);
    blocking->took_ms = now_ms() - since;
    if (blocking->status != HF_OK)
        blocking->error = *hf_error_last();
    hf_hold_close(hold);
    hf_hold_close(other);
    hf_lock_close(lock);
    hf_lock_close(same);
    hf_client_close(one);
    hf_client_close(two);
    print_message("%s\n", calls[which].name);
    print_answer("blocking", before, 0, blocking);
    print_answer("started", before, 0, started);
}

static void for_all_calls(int64_t patience_ms, void (*trouble)(void), void (*repair)(void),
                          void (*check)(int64_t timeout_ms, const answer *a), bool all) {
    for (size_t i = 0; i < 2 * COUNT(calls); i++) {
        answer blocking, started;
        missing = all ? "evalsha" : calls[i / 2].needs;
        hold_both(i / 2, i % 2 == 1, patience_ms, trouble, &blocking, &started);
        check(0, &blocking);
        check(0, &started);
        repair();
    }
    assert_few_late();
}

static void test_a_hold_of_a_server_that_is_gone_says_so(void **state) {
    (void)state;
    for_all_calls(CONNECT_MS, stop, start, assert_outage, false);
}

static void test_a_hold_behind_a_changed_password_says_so_at_once(void **state) {
    (void)state;
    for_all_calls(PATIENT_MS, change_password, restore, assert_refused, false);
}

static void test_a_hold_without_a_permission_names_it_at_once(void **state) {
    (void)state;
    if (!names_permissions())
        return;
    for_all_calls(PATIENT_MS, forbid, restore, assert_named, false);
    for_all_calls(PATIENT_MS, forbid, restore, assert_named, true);
}

/* ------------------------------------------------------------- The same words */

/* Acquire the lock without success, on this thread and by a started operation: the messages must be
 * equal. */
static void assert_same_words(hf_client *client, const hf_lock_options *options, int64_t timeout_ms,
                              hf_status status, const char *words) {
    hf_lock *lock = open_lock(client, "stock", NULL, options);
    assert_status(hf_lock_acquire(lock, timeout_ms, NULL), status);
    hf_error blocking = *hf_error_last();
    assert_status(hf_lock_acquire_start(lock, NULL, 0, timeout_ms, NULL, 5), HF_OK);
    hf_completion c = told_of(client, HF_KIND_ACQUIRE, 5);
    assert_status(c.status, status);
    assert_string_equal(c.error.message, blocking.message);
    assert_int_equal(c.error.replicas, blocking.replicas);
    assert_non_null(strstr(blocking.message, words));
    hf_lock_close(lock);
}

static void test_a_completion_of_an_acquire_has_the_words_of_the_call(void **state) {
    (void)state;
    hf_client *client = opened(PATIENT_MS), *other = opened(PATIENT_MS);
    hf_lock *theirs = exclusive_lock(other, "stock", 60000);
    hf_lock_options plain = {.size = sizeof plain}, safe = plain;
    safe.replicas = 1;
    safe.replica_timeout_ms = 50;
    hf_hold *hold = held(theirs);
    assert_same_words(client, &plain, 0, HF_EBUSY, "lock 'stock' is held by another owner");
    assert_same_words(client, &plain, 70, HF_ETIMEOUT, "was held by others for 70 ms");
    give_back(hold, HF_OK);
    assert_same_words(client, &safe, 0, HF_EREPLICAS, "reached 0 of the 1 replicas");
    tell(port, "CONFIG SET maxmemory 1");
    assert_same_words(client, &plain, 0, HF_ESERVER, "OOM");
    assert_same_words(client, &plain, 70, HF_ESERVER, "OOM");
    hf_client_close(client);
    hf_client_close(other);
    hf_lock_close(theirs);
}

/* Check the kind, the status and the message of the next completion. */
static void assert_told(hf_client *client, int32_t kind, hf_status status, const char *words) {
    hf_completion c = completion_within(client, 20000);
    assert_int_equal(c.kind, kind);
    assert_status(c.status, status);
    assert_string_equal(c.error.message, words);
    assert_int_equal(c.error.replicas, 0);
}

static void test_a_completion_of_a_hold_has_the_words_of_the_call(void **state) {
    static const char lost[] = "the hold of lock 'stock' is lost: "
                               "the server no longer knows it";
    (void)state;
    hf_client *client = opened(PATIENT_MS);
    hf_lock *lock = lease_lock(client, "stock", 60000, HF_OFF),
            *brief = lease_lock(client, "brief", 500, HF_OFF);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(lock);
    tell(port, "DEL stock");
    assert_status(hf_hold_release_start(hold, 1), HF_OK);
    assert_told(client, HF_KIND_RELEASE, HF_ELOST, lost);
    hf_hold_close(hold);
    hold = held(lock);
    tell(port, "DEL stock");
    assert_status(hf_hold_release(hold), HF_ELOST);
    assert_string_equal(hf_error_message(), lost);
    hf_hold_close(hold);

    hold = held(lock);
    tell(port, "DEL stock");
    assert_status(hf_hold_renew_start(hold, 2), HF_OK);
    assert_told(client, HF_KIND_LOSS, HF_ELOST, lost);
    assert_told(client, HF_KIND_RENEWAL, HF_ELOST, lost);
    hf_hold_close(hold);

    hold = held(brief);
    assert_told(
        client, HF_KIND_LOSS, HF_ELOST,
        "the hold of lock 'brief' is lost: its lease of 500 ms ended, and renew is off: turn it "
        "on, or give a longer lease");
    hf_hold_close(hold);
    hf_client_close(client);
    hf_lock_close(lock);
    hf_lock_close(brief);
}

static void test_a_completion_of_a_wait_that_is_ended_says_by_what(void **state) {
    (void)state;
    hf_client *client = opened(PATIENT_MS), *other = opened(PATIENT_MS);
    hf_lock *theirs = exclusive_lock(other, "stock", 60000),
            *lock = lease_lock(client, "stock", 60000, HF_OFF),
            *unread = lease_lock(client, "unread", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_status(hf_op_cancel(client, 1), HF_OK);
    assert_told(client, HF_KIND_ACQUIRE, HF_ECANCELED, "the wait for lock 'stock' was cancelled");

    assert_status(hf_lock_acquire_start(unread, NULL, 0, 0, NULL, 2), HF_OK);
    struct pollfd readable = {.fd = hf_client_fd(client), .events = POLLIN};
    assert_int_equal(poll(&readable, 1, PATIENT_MS), 1); /* granted, and no thread knows it */
    waiting w = {.lock = lock, .timeout_ms = HF_FOREVER};
    pthread_create(&w.thread, NULL, wait_for_it, &w);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 3), HF_OK);
    assert_soon(tell(port, "ZCOUNT {stock}stock:hf1:q 0 9007199254740992")->integer == 2);
    hf_client_close(client);
    pthread_join(w.thread, NULL);
    assert_status(w.answer.status, HF_ECANCELED);
    for (int i = 0; i < 2; i++)
        assert_told(client, HF_KIND_ACQUIRE, HF_ECANCELED, w.answer.error.message);
    assert_string_equal(w.answer.error.message, "the client was closed during the wait");
    give_back(hold, HF_OK);
    hf_client_close(other);
    hf_lock_close(theirs);
    hf_lock_close(lock);
    hf_lock_close(unread);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        TEST(test_an_acquire_from_a_server_that_is_gone_blames_nobody),
        TEST(test_a_full_server_blames_no_password),
        TEST(test_an_acquire_with_a_changed_password_fails_at_once),
        TEST(test_a_wait_that_loses_the_server_says_so),
        TEST(test_an_acquire_without_a_permission_names_it_at_once),
        TEST(test_a_hold_of_a_server_that_is_gone_says_so),
        TEST(test_a_hold_behind_a_changed_password_says_so_at_once),
        TEST(test_a_hold_without_a_permission_names_it_at_once),
        TEST(test_a_completion_of_an_acquire_has_the_words_of_the_call),
        TEST(test_a_completion_of_a_hold_has_the_words_of_the_call),
        TEST(test_a_completion_of_a_wait_that_is_ended_says_by_what),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

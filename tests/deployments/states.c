/* Servers that cannot serve for a while: calls and the keeper send requests again, with the same
 * hold ids; and a refusal is recognized as a refusal. */
#include "../clients.h"
#include "servers.h"

#include <pthread.h>
#include <stdatomic.h>

static int port;
static pid_t pid;

/* Start a server that saves its data to `dump`; tests put a folder of that name in its way. */
static void start(void) {
    pid = START("--port", number(port), "--save", "36000", "1000000000", "--dbfilename", "dump",
                "--rdbcompression", "no", "--key-load-delay", "30");
}

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(60);
    port = free_port();
    start();
    assert_soon(answers(port));
    return 0;
}

static int stop_all(void **state) {
    stop_server(&pid);
    return remove_folder(state);
}

static int set_up(void **state) {
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = 20000};
    (void)state;
    alarm(60);
    tell(port, "REPLICAOF NO ONE");
    tell(port, "FLUSHALL");
    const char *url = text("redis://127.0.0.1:%d", port);
    assert_status(hf_client_open(url, &options, &ann), HF_OK);
    assert_status(hf_client_open(url, &options, &ben), HF_OK);
    return 0;
}

static bool says(const char *command, const char *part) {
    redisReply *reply = tell(port, command);
    return reply != NULL && reply->str != NULL && strstr(reply->str, part) != NULL;
}

static hf_completion next(hf_client *client) {
    hf_completion c = {.size = sizeof c};
    assert_soon(hf_client_next(client, &c) == HF_OK && c.kind != HF_KIND_NONE);
    return c;
}

/* ----------------------------------------------------------------- Waiting */

/* While the server refuses in this way, look at a hold, acquire a lock and start an acquire; all
 * succeed when it serves again. */
static void outlast(const char *refusal, void *(*end)(void *), hf_hold *held) {
    hf_lock *mine = exclusive_lock(ben, "pens", 20000),
            *started = exclusive_lock(ben, "ink", 20000);
    hf_hold *hold;
    pthread_t thread = 0;
    int64_t asked_at;
    do /* alarm() ends the loop */
        asked_at = now_ms();
    while (!says("EVAL return(1) 0", refusal));
    assert_status(hf_lock_acquire_start(started, NULL, 0, 0, NULL, 1), HF_OK);
    if (end != NULL)
        assert_int_equal(pthread_create(&thread, NULL, end, NULL), 0);
    int64_t before = now_ms();
    assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
    if (before < asked_at + 100) /* or the machine has paused until the server serves again */
        assert_in_range(now_ms() - before, 100, 30000); /* the call did wait */
    hf_completion c = next(ben);
    assert_status(c.status, HF_OK);
    /* One hold, however often the request was sent. */
    assert_int_equal(read_stored(tell(port, "HGETALL pens")).holds, 1);
    assert_int_equal(read_stored(tell(port, "HGETALL ink")).holds, 1);
    assert_status(hf_hold_check(held), HF_OK);
    give_back(hold, HF_OK);
    give_back(c.hold, HF_OK);
    if (thread != 0)
        pthread_join(thread, NULL);
    hf_lock_close(mine);
    hf_lock_close(started);
}

static void test_a_server_that_loads_its_data_is_waited_for(void **state) { /* LOADING, NOSCRIPT */
    (void)state;
    hf_lock *lock = exclusive_lock(ann, "stock", 20000);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    redisContext *context = redisConnect("127.0.0.1", port);
    freeReplyObject(redisCommand(
        context, "EVAL %s 0",
        "for i = 1, 15000 do redis.call('SET', 'more' .. i, string.rep('x', 300)) end"));
    redisReply *saved = redisCommand(context, "SAVE");
    assert_string_equal(saved->str, "OK");
    freeReplyObject(saved);
    redisFree(context);
    stop_server(&pid);
    start();
    outlast("LOADING", NULL, hold);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    unlink(text("%s/dump", folder));
}

/* Promote the replica, on a thread that keeps no replies: they would be lost with it. */
static void *promote(void *argument) {
    (void)argument;
    redisContext *context = redisConnect("127.0.0.1", port);
    sleep_ms(400);
    freeReplyObject(redisCommand(context, "REPLICAOF NO ONE"));
    redisFree(context);
    return NULL;
}

static void test_a_replica_without_its_master_is_waited_for(void **state) { /* MASTERDOWN */
    (void)state;
    hf_lock *lock = exclusive_lock(ann, "stock", 20000);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    tell(port, "CONFIG SET replica-serve-stale-data no");
    tell(port, "REPLICAOF 127.0.0.1 1");
    outlast("MASTERDOWN", promote, hold);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

static void *be_busy(void *argument) {
    (void)argument;
    redisContext *context = redisConnect("127.0.0.1", port);
    freeReplyObject(redisCommand(context, "CONFIG SET lua-time-limit 20"));
    freeReplyObject(
        redisCommand(context, "EVAL %s 0",
                     "local t = redis.call('TIME') local till = t[1] * 1000000 + t[2] + 500000 "
                     "repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > till"));
    redisFree(context);
    return NULL;
}

static void test_a_server_in_a_long_script_is_waited_for(void **state) { /* BUSY */
    (void)state;
    hf_lock *lock = exclusive_lock(ann, "stock", 20000);
    hf_hold *hold;
    pthread_t thread;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, be_busy, NULL), 0);
    outlast("BUSY", NULL, hold);
    pthread_join(thread, NULL);
    tell(port, "CONFIG SET lua-time-limit 5000");
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* ---------------------------------------------------------------- Under load */

static atomic_int turns, refused, inside, failures;
static atomic_bool done;
static const char *expected; /* the refusals must contain this */

static void *take_turns(void *argument) {
    hf_lock *lock = argument;
    while (!done) {
        hf_hold *hold = NULL;
        hf_status status = hf_lock_acquire(lock, 20000, &hold);
        if (status == HF_OK) {
            if (atomic_fetch_add(&inside, 1) != 0)
                failures++;
            sleep_ms(1);
            atomic_fetch_sub(&inside, 1);
            status = hf_hold_release(hold);
            hf_hold_close(hold);
            turns++;
        }
        if (status == HF_ESERVER && expected != NULL &&
            strstr(hf_error_message(), expected) != NULL) {
            refused++;
            sleep_ms(5);
        } else if (status != HF_OK) {
            print_error("%s: %s\n", hf_status_name(status), hf_error_message());
            failures++;
            return NULL;
        }
    }
    return NULL;
}

/* Let two clients take turns while the server refuses for a while; meanwhile a hold with a lease of
 * some seconds is renewed, and a refused release is repeated. */
static void refuse_for_a_while(const char *refusal, void (*begin)(void), void (*end)(void)) {
    hf_lock *locks[6], *mine = exclusive_lock(ann, "held", 4500),
                       *other = exclusive_lock(ben, "other", 60000);
    pthread_t threads[COUNT(locks)];
    hf_hold *hold, *lasting;
    turns = refused = inside = failures = 0;
    done = false;
    expected = refusal;
    assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
    assert_status(hf_lock_acquire(other, 0, &lasting), HF_OK);
    for (size_t i = 0; i < COUNT(locks); i++) {
        locks[i] = exclusive_lock(i % 2 ? ann : ben, "stock", 60000);
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, locks[i]), 0);
    }
    assert_soon(turns > 50);
    begin();
    if (refusal != NULL) {
        assert_status(hf_hold_release(lasting), HF_ESERVER);
        assert_message(refusal);
        assert_soon(refused > 0);
    }
    sleep_ms(refusal != NULL ? 1200 : 200);
    end();
    int before = turns;
    int64_t ended_at = now_ms();
    assert_soon(turns > before + 50); /* also if a lock of 60 s could not be released */
    if (refusal != NULL)
        assert_soon(tell(port, "EXISTS other")->integer == 0);
    else
        give_back(lasting, HF_OK);
    assert_in_range(now_ms() - ended_at, 0, 25000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_status(hf_hold_check(hold), HF_OK);
    give_back(hold, HF_OK);
    done = true;
    for (size_t i = 0; i < COUNT(locks); i++) {
        pthread_join(threads[i], NULL);
        hf_lock_close(locks[i]);
    }
    assert_int_equal(failures, 0);
    if (refusal != NULL)
        hf_hold_close(lasting);
    hf_lock_close(mine);
    hf_lock_close(other);
}

static void fill_disk(void) {
    unlink(text("%s/dump", folder)); /* FLUSHALL saves one */
    assert_int_equal(mkdir(text("%s/dump", folder), 0700), 0);
    tell(port, "BGSAVE");
    assert_soon(says("INFO persistence", "rdb_last_bgsave_status:err"));
}

static void clear_disk(void) {
    assert_int_equal(rmdir(text("%s/dump", folder)), 0);
    tell(port, "BGSAVE");
    assert_soon(says("INFO persistence", "rdb_last_bgsave_status:ok"));
    unlink(text("%s/dump", folder));
}

static void test_a_full_disk_loses_no_lock(void **state) { /* MISCONF, H9 */
    (void)state;
    refuse_for_a_while("MISCONF", fill_disk, clear_disk);
}

static void lack_replicas(void) { tell(port, "CONFIG SET min-replicas-to-write 1"); }
static void have_replicas(void) { tell(port, "CONFIG SET min-replicas-to-write 0"); }

static void test_a_lack_of_replicas_loses_no_lock(void **state) { /* NOREPLICAS */
    (void)state;
    refuse_for_a_while("NOREPLICAS", lack_replicas, have_replicas);
}

static void forget_scripts(void) {
    for (int i = 0; i < 100; i++) {
        tell(port, "SCRIPT FLUSH");
        sleep_ms(2);
    }
}

static void nothing(void) {}

static void test_scripts_that_are_forgotten_are_sent_again(void **state) { /* NOSCRIPT */
    (void)state;
    refuse_for_a_while(NULL, forget_scripts, nothing);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_server_that_loads_its_data_is_waited_for),
        TEST(test_a_replica_without_its_master_is_waited_for),
        TEST(test_a_server_in_a_long_script_is_waited_for),
        TEST(test_a_full_disk_loses_no_lock),
        TEST(test_a_lack_of_replicas_loses_no_lock),
        TEST(test_scripts_that_are_forgotten_are_sent_again),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

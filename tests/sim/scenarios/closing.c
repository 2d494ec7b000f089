/* A client that is closed, or whose process forks, leaves nothing behind, ends in its time, and
 * harms no other thread. */
#include "scenario.h"

static int set_up(void **state) { return begin_scenario(state); }
static int tear_down(void **state) { return end_scenario(state); }

/* F5: the release of each hold that was waited for is refused once. */
static void test_a_close_sends_again_what_a_server_that_loads_refuses(void **state) {
    enum { LOCKS = 8 };
    static const char *const names[LOCKS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    (void)state;
    hf_client *client = open_with(tcp_url(), 2000, 2000), *other = open_client();
    hf_lock *locks[LOCKS], *theirs[LOCKS];
    hf_hold *holds[LOCKS];
    hf_completion done[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        locks[i] = lease_lock(client, names[i], HF_NEVER, HF_OFF);
        theirs[i] = lease_lock(other, names[i], 60000, HF_OFF);
        holds[i] = held(theirs[i]);
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, 20000, NULL, i + 1), HF_OK);
        assert_soon(queued(names[i]) == 1);
    }
    for (int i = 0; i < LOCKS; i++) {
        give_back(holds[i], HF_OK);
        done[i] = next_of(client);
        assert_status(done[i].status, HF_OK);
    }
    sleep_ms(2000); /* until they are claimed */
    servers_refuse(0, SIM_SCRIPTS, "LOADING Redis is loading the dataset in memory", LOCKS);
    hf_client_close(client);
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(NUMBER("EXISTS %s", names[i]), 0);
    for (int i = 0; i < LOCKS; i++) {
        hf_hold_close(done[i].hold);
        hf_lock_close(locks[i]);
        hf_lock_close(theirs[i]);
    }
    hf_client_close(other);
}

/* ---------------------------------------------- Calls that meet a close */

typedef struct several {
    hf_lock *locks[2];
    hf_hold *holds[2];
    hf_status status;
} several;

static void *acquire_several(void *argument) {
    several *all = argument;
    all->status = hf_lock_acquire_all(all->locks, 2, NULL, 0, 20000, NULL, all->holds);
    return NULL;
}

static void *renew_meanwhile(void *hold) {
    hf_hold_renew(hold);
    return NULL;
}

/* One answer arrives before the close has its own answers, the other when its hold is freed. */
static void test_a_close_and_two_answers_that_cross_it_touch_no_hold_that_is_gone(void **state) {
    pthread_t soon, late;
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 5000, 5000);
    warm_up(client);
    hf_lock *lock = open_lock(client, "k", "o", OPTIONS(.lease_ms = 60000, .renew = HF_OFF));
    hf_hold *outer = held(lock), *inner = held(lock);
    proxy_next(way, HOLD_REPLY, hf_script_renew.sha1);
    assert_int_equal(pthread_create(&late, NULL, renew_meanwhile, outer), 0);
    assert_soon(atomic_load(&way->mishaps) == 1);
    atomic_store(&way->delay_ms, 200);
    assert_int_equal(pthread_create(&soon, NULL, renew_meanwhile, inner), 0);
    sleep_ms(50);
    hf_client_close(client);
    pthread_join(soon, NULL);
    hf_hold_close(inner);
    atomic_store(&way->holds_reply, false);
    pthread_join(late, NULL);
    hf_hold_close(outer);
    hf_lock_close(lock);
    proxy_stop(way);
}

/* G1: the hold is on the close's own list when the thread gives it back. */
static void test_a_close_and_a_thread_that_gives_back_end_a_hold_once(void **state) {
    several all = {.status = -1};
    pthread_t thread;
    (void)state;
    hf_client *client = open_with(tcp_url(), 500, 5000), *other = open_client();
    hf_lock *theirs = lease_lock(other, "b", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    all.locks[0] = lease_lock(client, "a", 60000, HF_OFF);
    all.locks[1] = lease_lock(client, "b", 60000, HF_OFF);
    assert_int_equal(pthread_create(&thread, NULL, acquire_several, &all), 0);
    assert_soon(queued("b") == 1);
    sim_server_pause(servers_at(0), true); /* the close waits for its answers */
    hf_client_close(client);
    sim_server_pause(servers_at(0), false);
    pthread_join(thread, NULL);
    assert_int_equal(all.status, HF_ECANCELED);
    assert_soon(NUMBER("EXISTS a") == 0);
    give_back(hold, HF_OK);
    assert_stays_free("b", 0);
    hf_lock_close(all.locks[0]);
    hf_lock_close(all.locks[1]);
    hf_lock_close(theirs);
    hf_client_close(other);
}

typedef struct trying {
    hf_lock *lock;
    hf_status status;
    int64_t took_ms;
    char message[HF_MESSAGE_MAX];
} trying;

static void *try_once(void *argument) {
    trying *mine = argument;
    hf_hold *none;
    int64_t began = now_ms();
    mine->status = hf_lock_acquire(mine->lock, 0, &none);
    mine->took_ms = now_ms() - began;
    snprintf(mine->message, sizeof mine->message, "%s", hf_error_message());
    return NULL;
}

static void *look_once(void *argument) {
    trying *mine = argument;
    hf_lock_info info = {.size = sizeof info};
    mine->status = hf_lock_inspect(mine->lock, 0, &info, NULL);
    return NULL;
}

/* The keeper opens one connection and a call another; the close gives up the keeper's. */
static void test_a_call_that_waits_for_a_connection_of_the_keeper_fails_by_no_close(void **state) {
    hf_client_options lazy = {.size = sizeof lazy, .lazy = HF_ON, .connect_timeout_ms = 60000};
    hf_client *client;
    pthread_t threads[2];
    (void)state;
    assert_status(hf_client_open(tcp_url(), &lazy, &client), HF_OK);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    trying looks[2] = {{.lock = lock}, {.lock = lock}};
    sim_way(HERE, SERVER, false);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    for (int i = 0; i < 2; i++) {
        sleep_ms(100);
        assert_int_equal(pthread_create(&threads[i], NULL, look_once, &looks[i]), 0);
    }
    sleep_ms(100);
    hf_client_abandon(client);
    sim_way(HERE, SERVER, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_status(looks[i].status, HF_OK);
    }
    hf_lock_close(lock);
}

/* G3: the call undoes its request within the time that is left to it. */
static void test_a_call_that_a_close_meets_keeps_its_time_and_its_message(void **state) {
    pthread_t thread;
    (void)state;
    hf_client *client = open_with(tcp_url(), 2000, 2000);
    warm_up(client);
    trying mine = {.lock = lease_lock(client, "k", 60000, HF_OFF)};
    sim_way(HERE, SERVER, false);
    assert_int_equal(pthread_create(&thread, NULL, try_once, &mine), 0);
    sleep_ms(1000);
    hf_client_close(client);
    pthread_join(thread, NULL);
    assert_int_equal(mine.status, HF_EUNKNOWN);
    assert_in_range(mine.took_ms, 1900, 2200);
    assert_non_null(strstr(mine.message, "was lost"));
    hf_lock_close(mine.lock);
    sim_way(HERE, SERVER, true);
    sleep_ms(100); /* its request arrives now, and not in the next test */
}

/* F15: the caller has not counted on the replaced lease for a while. */
static void test_a_close_does_not_send_again_what_was_given_up(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 500, 2000);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    proxy_next(way, HOLD_REQUEST, hf_script_renew.sha1);
    assert_status(hf_hold_extend_start(hold, 3000, HF_EXTEND_REPLACE, 1), HF_OK);
    assert_status(next_of(client).status, HF_EUNKNOWN);
    TELL("CONFIG RESETSTAT");
    hf_client_close(client);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    assert_int_equal(scripts_run(), 1);
    hf_hold_close(hold);
    hf_lock_close(lock);
    proxy_stop(way);
}

/* The acquire is to be sent again later, its caller gives it up, and the server forgets the dead
 * id. */
static void test_a_close_sends_no_acquire_that_was_given_up(void **state) {
    (void)state;
    for (int ms = 0; ms < 40; ms++) {
        hf_client *client = open_with(tcp_url(), 500, 2000);
        warm_up(client);
        hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
        servers_refuse(0, SIM_EVERYTHING, "LOADING it reads its data", 1);
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 5000, NULL, 1), HF_OK);
        sleep_ms(ms);
        hf_op_cancel(client, 1);
        sleep_ms(2);
        servers_refuse(0, SIM_EVERYTHING, NULL, 0);
        TELL("FLUSHALL");
        hf_client_close(client);
        assert_int_equal(NUMBER("EXISTS k"), 0);
        hf_lock_close(lock);
    }
}

/* There are more acquires than threads that ask for replicas: the others have not begun. */
static void test_a_close_ends_each_acquire_that_waits_for_replicas_once(void **state) {
    enum { LOCKS = 20 };
    hf_lock *locks[LOCKS];
    hf_completion done = {.size = sizeof done};
    (void)state;
    hf_client *client = open_with(tcp_url(), 2000, 2000);
    warm_up(client);
    for (int i = 0; i < LOCKS; i++) {
        locks[i] =
            open_lock(client, text("r%d", i), NULL,
                      OPTIONS(.lease_ms = 60000, .replicas = 1, .replica_timeout_ms = 10000));
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, 0, NULL, i + 1), HF_OK);
    }
    for (int i = 0; i < LOCKS; i++)
        assert_soon(NUMBER("EXISTS r%d", i) == 1);
    hf_client_close(client);
    int ended = 0;
    while (hf_client_next(client, &done) == HF_OK && done.kind != HF_KIND_NONE) {
        assert_int_equal(done.kind, HF_KIND_ACQUIRE);
        assert_status(done.status, HF_ECANCELED);
        ended++;
    }
    assert_int_equal(ended, LOCKS);
    for (int i = 0; i < LOCKS; i++) {
        assert_soon(NUMBER("EXISTS r%d", i) == 0);
        hf_lock_close(locks[i]);
    }
}

/* ------------------------------------------------------------------ Forks */

static void *open_far(void *argument) {
    *(hf_client **)argument = open_with(tcp_url(), 5000, 2000);
    return NULL;
}

/* F13: the child would keep the connection open for its whole life. */
static void test_a_child_that_is_forked_during_a_connect_has_no_copy_of_it(void **state) {
    hf_client *client;
    pthread_t thread;
    (void)state;
    sleep_ms(3000); /* until other connections are closed */
    size_t before = sim_redis_peers(servers_redis(0));
    sim_way(HERE, SERVER, false);
    assert_int_equal(pthread_create(&thread, NULL, open_far, &client), 0);
    sleep_ms(100);
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    sim_way(HERE, SERVER, true);
    pthread_join(thread, NULL);
    assert_true(sim_redis_peers(servers_redis(0)) > before);
    hf_client_close(client);
    assert_soon(sim_redis_peers(servers_redis(0)) == before);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

typedef struct leaving {
    hf_hold *hold; /* another client's */
    int calls, pause_ms;
    pid_t child;
} leaving;

static void *leave_soon(void *argument) {
    leaving *mine = argument;
    sleep_ms(300);
    give_back(mine->hold, HF_OK);
    return NULL;
}

/* Fork in a signal's handler, which the wait runs; in the child, raise the signal again. */
static int fork_once(void *context) {
    leaving *mine = context;
    if (++mine->calls != 2)
        return 0;
    sleep_ms(mine->pause_ms);
    mine->child = fork();
    if (mine->child == 0)
        sleep_ms(600);
    return mine->child == 0;
}

/* H240: locks that the parent holds, or is granted during the handler or afterwards, stay the
 * parent's. */
static void test_a_child_that_a_handler_forks_takes_no_lock_from_its_parent(void **state) {
    (void)state;
    hf_client *client = open_with(tcp_url(), 2000, 2000), *other = open_client();
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF),
            *locks[2] = {lease_lock(client, "a", 60000, HF_OFF),
                         lease_lock(client, "k", 60000, HF_OFF)},
            *busy = lease_lock(other, "b", 60000, HF_OFF),
            *waited_for = lease_lock(client, "b", 60000, HF_OFF);
    hf_hold *held_by_other = held(busy);
    /* The client's thread then reads what arrives during a handler. */
    assert_true(hf_client_fd(client) >= 0);
    assert_status(hf_lock_acquire_start(waited_for, NULL, 0, 60000, NULL, 1), HF_OK);
    for (int how = 0; how < 3; how++) {
        size_t first = how > 0; /* index of the first lock */
        leaving mine = {.hold = held(theirs), .pause_ms = how == 2 ? 500 : 0};
        hf_hold *holds[2];
        pthread_t thread;
        int answer;
        assert_status(hf_client_set_interrupt(client, fork_once, &mine), HF_OK);
        assert_int_equal(pthread_create(&thread, NULL, leave_soon, &mine), 0);
        hf_status status = first == 0 ? hf_lock_acquire_all(locks, 2, NULL, 0, 20000, NULL, holds)
                                      : hf_lock_acquire(locks[1], 20000, &holds[1]);
        if (mine.child == 0)
            _exit(status == HF_EFORKED && strstr(hf_error_message(), "belongs to the parent") ? 0
                                                                                              : 1);
        assert_status(status, HF_OK);
        pthread_join(thread, NULL);
        waitpid(mine.child, &answer, 0);
        assert_int_equal(answer, 0);
        for (size_t i = first; i < 2; i++) {
            assert_status(hf_hold_check(holds[i]), HF_OK);
            give_back(holds[i], HF_OK);
        }
    }
    hf_client_close(client);
    give_back(held_by_other, HF_OK);
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
    hf_lock_close(theirs);
    hf_lock_close(busy);
    hf_lock_close(waited_for);
    hf_client_close(other);
}

/* The release was sent when no client waited: the close sends it again unchanged, and nothing after
 * it. */
static void test_a_started_release_that_a_close_sends_hands_the_lock_on(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 500, 2000), *other = open_client();
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    proxy_next(way, HOLD_REQUEST, "k");
    assert_status(hf_hold_release_start(hold, 1), HF_OK);
    assert_soon(atomic_load(&way->mishaps) == 1);
    waiter *w = waiter_start(theirs, 10000);
    assert_soon(queued("k") == 1);
    hf_client_close(client);
    atomic_store(&way->holds_request, false);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
    proxy_stop(way);
}

static void close_and_see_kept(hf_client *client, hf_lock *lock, hf_hold *hold) {
    sim_way(HERE, SERVER, true);
    hf_client_close(client);
    assert_in_range(NUMBER("PTTL k"), 55000, 60000);
    hf_hold_close(hold);
    hf_lock_close(lock);
    TELL("DEL k");
}

/* Close a client while its keep is under way: no request arrives before the close. least_ms > 0:
 * keep by a release. */
static void keep_and_close(int64_t least_ms) {
    hf_client *client = open_with(tcp_url(), 2000, 2000);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 10000, HF_ON);
    hf_hold *hold = held(lock);
    sim_way(HERE, SERVER, false);
    if (least_ms > 0) {
        assert_status(hf_hold_keep_at_least(hold, least_ms), HF_OK);
        assert_status(hf_hold_release_start(hold, 1), HF_OK);
    } else {
        assert_status(hf_hold_keep_start(hold, 60000, 1), HF_OK);
    }
    sleep_ms(100);
    close_and_see_kept(client, lock, hold);
}

/* The answers are lost until the close, which sends the keep again. */
static void test_a_close_asks_again_for_a_keep_that_had_no_answer(void **state) {
    (void)state;
    hf_client *client = open_with(tcp_url(), 500, 500);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON);
    hf_hold *hold = held(lock);
    assert_status(hf_hold_keep_at_least(hold, 60000), HF_OK);
    sim_way(HERE, SERVER, false);
    assert_status(hf_hold_release(hold), HF_ECONNECT);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    close_and_see_kept(client, lock, hold);
}

/* The server loads its data, or cannot write, when the hold is released; at the close it works. */
static void test_a_close_asks_again_for_a_keep_that_was_refused(void **state) {
    static const struct {
        sim_refusal what;
        const char *error;
    } refusals[] = {{SIM_LOADING, "LOADING it reads its data"},
                    {SIM_WRITES, "MISCONF it cannot write"}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        hf_client *client = open_with(tcp_url(), 500, 500);
        warm_up(client);
        hf_lock *lock = lease_lock(client, "k", 60000, HF_ON);
        hf_hold *hold = held(lock);
        assert_status(hf_hold_keep_at_least(hold, 60000), HF_OK);
        servers_refuse(0, refusals[i].what, refusals[i].error, -1);
        assert_status(hf_hold_release(hold), HF_ESERVER);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        servers_refuse(0, refusals[i].what, NULL, 0);
        close_and_see_kept(client, lock, hold);
    }
}

/* The server has kept the hold, and a replacement without an answer leaves that in doubt. */
static void test_a_close_asks_again_for_a_keep_that_is_in_doubt(void **state) {
    (void)state;
    hf_client *client = open_with(tcp_url(), 500, 500);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON);
    hf_hold *hold = held(lock);
    sim_way(SERVER, HERE, false);
    assert_status(hf_hold_extend(hold, 30000, HF_EXTEND_REPLACE), HF_EUNKNOWN);
    sim_way(SERVER, HERE, true);
    assert_status(hf_hold_keep_at_least(hold, 60000), HF_OK);
    assert_status(hf_hold_release(hold), HF_EUNKNOWN);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    close_and_see_kept(client, lock, hold);
}

static void test_a_close_keeps_what_is_being_kept(void **state) {
    (void)state;
    keep_and_close(0);
    keep_and_close(60000);
}

typedef struct handing {
    hf_hold *hold;
    hf_status status;
} handing;

static void *hand_over(void *argument) {
    handing *mine = argument;
    char token[HF_TOKEN_MAX];
    size_t length;
    mine->status = hf_hold_hand_over(mine->hold, token, sizeof token, &length);
    return NULL;
}

/* A copy of the adopted hold's acquire may still arrive, and no thread is left to bury it. */
static void test_a_close_does_not_take_the_memory_to_hand_a_hold_over(void **state) {
    sim_settings before = sim_set;
    int met = 0;
    (void)state;
    hf_client *other = open_client();
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF);
    for (int n = 0; n < 300; n++) {
        hf_client *client = open_with(tcp_url(), 2000, 2000);
        hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
        handing first = {.hold = held(theirs)}, mine = {.status = HF_EINVAL};
        char token[HF_TOKEN_MAX];
        size_t length;
        pthread_t thread;
        assert_status(hf_hold_hand_over(first.hold, token, sizeof token, &length), HF_OK);
        assert_status(hf_lock_adopt(lock, token, length, &mine.hold), HF_OK);
        sim_set.overtaken = 0.5;
        sim_set.overtaken_ns = SIM_MS;
        assert_int_equal(pthread_create(&thread, NULL, hand_over, &mine), 0);
        hf_client_close(client);
        pthread_join(thread, NULL);
        sim_set = before;
        if (mine.status != HF_OK)
            assert_status(mine.status, HF_ECLOSED);
        met += mine.status == HF_ECLOSED;
        TELL("DEL k");
        hf_hold_close(first.hold);
        hf_hold_close(mine.hold);
        hf_lock_close(lock);
    }
    assert_in_range(met, 1, 299);
    hf_lock_close(theirs);
    hf_client_close(other);
}

static void have_memory(void *process) { sim_may_lack_memory(process, false); }

/* Close the client, which has no memory for the first 10 ms. */
static void close_without_memory(hf_client *client) {
    sim_set.no_memory = 1;
    sim_may_lack_memory(sim_self(), true);
    sim_at(sim_now() + 10 * SIM_MS, have_memory, sim_self());
    hf_client_close(client);
    sim_may_lack_memory(sim_self(), false);
    sim_set.no_memory = 0;
}

/* H264: the request that releases a lock of a long name needs an allocation. */
static void test_a_close_without_memory_releases_its_holds_all_the_same(void **state) {
    static const char name[] = "a-name-of-sixty-bytes-whose-release-does-not-fit-in-a-buffer";
    (void)state;
    hf_client *client = open_with(tcp_url(), 2000, 2000);
    hf_lock *lock = lease_lock(client, name, HF_NEVER, HF_OFF),
            *brief = lease_lock(client, "b", HF_NEVER, HF_OFF);
    hf_hold *hold = held(lock), *another = held(brief);
    close_without_memory(client);
    assert_int_equal(NUMBER("EXISTS %s", name), 0);
    assert_int_equal(NUMBER("EXISTS b"), 0);
    hf_hold_close(hold);
    hf_hold_close(another);
    hf_lock_close(lock);
    hf_lock_close(brief);
}

static void open_way(void *unused) {
    (void)unused;
    sim_way(SERVER, HERE, true);
}

/* H264: the server has carried out an acquire that was started, and its answer is under way. */
static void test_a_close_without_memory_undoes_what_is_started(void **state) {
    (void)state;
    hf_client *client = open_with(tcp_url(), 2000, 2000);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    give_back(next_of(client).hold, HF_OK); /* the server knows the script */
    sim_way(SERVER, HERE, false);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 2), HF_OK);
    sleep_ms(100);
    sim_at(sim_now() + 50 * SIM_MS, open_way, NULL);
    close_without_memory(client);
    assert_stays_free("k", 0);
    hf_lock_close(lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_close_sends_again_what_a_server_that_loads_refuses),
        TEST(test_a_close_and_a_thread_that_gives_back_end_a_hold_once),
        TEST(test_a_close_and_two_answers_that_cross_it_touch_no_hold_that_is_gone),
        TEST(test_a_call_that_waits_for_a_connection_of_the_keeper_fails_by_no_close),
        TEST(test_a_call_that_a_close_meets_keeps_its_time_and_its_message),
        TEST(test_a_close_does_not_send_again_what_was_given_up),
        TEST(test_a_close_sends_no_acquire_that_was_given_up),
        TEST(test_a_close_ends_each_acquire_that_waits_for_replicas_once),
        TEST(test_a_child_that_is_forked_during_a_connect_has_no_copy_of_it),
        TEST(test_a_child_that_a_handler_forks_takes_no_lock_from_its_parent),
        TEST(test_a_started_release_that_a_close_sends_hands_the_lock_on),
        TEST(test_a_close_keeps_what_is_being_kept),
        TEST(test_a_close_asks_again_for_a_keep_that_had_no_answer),
        TEST(test_a_close_asks_again_for_a_keep_that_was_refused),
        TEST(test_a_close_asks_again_for_a_keep_that_is_in_doubt),
        TEST(test_a_close_does_not_take_the_memory_to_hand_a_hold_over),
        TEST(test_a_close_without_memory_releases_its_holds_all_the_same),
        TEST(test_a_close_without_memory_undoes_what_is_started),
    };
    return RUN_TESTS(tests, count, words);
}

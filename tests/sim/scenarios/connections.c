/* The number of a client's connections, and the time for which a call waits for a connection. */
#include "scenario.h"

enum { THREADS = 50, NAMES = 20 };

static int set_up(void **state) { return begin_scenario(state); }
static int tear_down(void **state) { return end_scenario(state); }

/* Return the server's connections without this program's own. */
static int64_t connections(void) {
    return atoll(strstr(STRING("INFO clients"), "connected_clients:") + 18) - 1;
}

/* A client has three connections while threads and started acquires begin, wait and renew all at
 * once; after an idle minute it has one. */
static void test_a_burst_has_three_connections_and_leaves_one(void **state) {
    hf_lock *locks[NAMES];
    waiter *waiters[THREADS];
    int64_t most = 0;
    (void)state;
    hf_client *client = open_client();
    assert_true(hf_client_fd(client) >= 0);
    for (int i = 0; i < NAMES; i++)
        locks[i] = lease_lock(client, text("k%d", i), 3000, HF_ON);
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = waiter_start(locks[i % NAMES], 60000);
        assert_status(hf_lock_acquire_start(locks[i % NAMES], NULL, 0, 60000, NULL, i + 1), HF_OK);
    }
    for (int left = 2 * THREADS; left > 0;) {
        for (int i = 0; i < THREADS; i++)
            if (waiters[i] != NULL && atomic_load(&waiters[i]->done)) {
                waiter_join(waiters[i], HF_OK);
                give_back(waiters[i]->hold, HF_OK);
                waiters[i] = NULL;
                left--;
            }
        for (hf_completion done; (done = completion_within(client, 0)).kind != HF_KIND_NONE;) {
            assert_status(done.status, HF_OK);
            give_back(done.hold, HF_OK);
            left--;
        }
        if (connections() > most)
            most = connections();
        sleep_ms(1);
    }
    assert_int_equal(most, 3);
    sleep_ms(50000);
    assert_int_equal(connections(), 3);
    sleep_ms(14000); /* the keeper looks at the subscription every 3 s */
    assert_int_equal(connections(), 1);
    for (int i = 0; i < NAMES; i++) {
        give_back(held(locks[i]), HF_OK);
        hf_lock_close(locks[i]);
    }
    assert_int_equal(connections(), 1);
    hf_client_close(client);
}

/* One more connection while acquires ask for replicas, which block it. */
static void test_acquires_that_wait_for_replicas_have_one_more(void **state) {
    enum { EACH = 20, WAIT_MS = 500 };
    hf_lock *plain[EACH], *careful[EACH], *late_lock;
    waiter *waiters[2 * EACH];
    hf_lock_options options = {
        .size = sizeof options, .replicas = 1, .replica_timeout_ms = WAIT_MS};
    (void)state;
    hf_client *client = open_client();
    for (int i = 0; i < EACH; i++) {
        plain[i] = lease_lock(client, text("p%d", i), 60000, HF_OFF);
        careful[i] = open_lock(client, text("c%d", i), NULL, &options);
    }
    int64_t since = now_ms();
    for (int i = 0; i < EACH; i++) {
        waiters[i] = waiter_start(careful[i], 0);
        waiters[EACH + i] = waiter_start(plain[i], 0);
    }
    sleep_ms(100);
    late_lock = open_lock(client, "late", NULL, &options);
    waiter *late = waiter_start(late_lock, 0);
    for (int i = 0; i < EACH; i++) {
        waiter_join(waiters[EACH + i], HF_OK);
        assert_in_range(waiters[EACH + i]->done_at - since, 0, 100);
        give_back(waiters[EACH + i]->hold, HF_OK);
    }
    assert_in_range(connections(), 3, 4);
    for (int i = 0; i < EACH; i++) { /* there is no replica: all learn it when the time ends */
        waiter_join(waiters[i], HF_EREPLICAS);
        assert_in_range(waiters[i]->done_at - since, WAIT_MS, WAIT_MS + 300);
        hf_lock_close(plain[i]);
        hf_lock_close(careful[i]);
    }
    waiter_join(late, HF_EREPLICAS);
    assert_in_range(late->done_at - since, 100 + WAIT_MS, 100 + WAIT_MS + 300);
    hf_lock_close(late_lock);
    hf_client_close(client);
}

static void hang_up(int fd) {
    (void)fd;
    sleep_ms(200);
}

/* Calls that wait for a connection that another call opens learn why it was not opened. */
static void test_all_are_told_why_no_connection_was_opened(void **state) {
    hf_lock *locks[NAMES];
    waiter *waiters[NAMES];
    (void)state;
    hf_client_options lazy = {.size = sizeof lazy, .lazy = HF_ON, .connect_timeout_ms = 1000};
    hf_client *client;
    fake server;
    fake_start(&server, hang_up);
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", server.port), &lazy, &client), HF_OK);
    for (int i = 0; i < NAMES; i++)
        locks[i] = lease_lock(client, text("k%d", i), 3000, HF_OFF);
    for (int i = 0; i < NAMES; i++)
        waiters[i] = waiter_start(locks[i], 0);
    for (int i = 0; i < NAMES; i++) {
        waiter_join(waiters[i], HF_ECONNECT);
        if (strstr(waiters[i]->why, "cannot log in") == NULL)
            fail_msg("a call is told: %s", waiters[i]->why);
        hf_lock_close(locks[i]);
    }
    hf_client_close(client);
    fake_stop(&server);
}

/* The calls wait for two dead connections; the keeper then has a connection of its own. */
static void test_a_renewal_does_not_wait_for_calls(void **state) {
    hf_lock *locks[2];
    waiter *waiters[2];
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 2000, 2000);
    hf_lock *lock = lease_lock(client, "k", 900, HF_ON);
    hf_hold *hold = held(lock);
    atomic_store(&way->again, 1);
    proxy_next(way, GO_DEAD, "lost");
    for (int i = 0; i < 2; i++) {
        locks[i] = lease_lock(client, text("lost%d", i), 60000, HF_OFF);
        waiters[i] = waiter_start(locks[i], 20000);
    }
    assert_soon(atomic_load(&way->mishaps) == 2);
    sleep_ms(1800);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    for (int i = 0; i < 2; i++) {
        waiter_join(waiters[i], HF_OK);
        give_back(waiters[i]->hold, HF_OK);
        hf_lock_close(locks[i]);
    }
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
    proxy_stop(way);
}

/* A network that fails mostly kills all connections: the next try uses a new one. */
static void test_one_silent_connection_is_enough_to_try_a_new_one(void **state) {
    hf_lock *locks[2];
    waiter *waiters[2];
    (void)state;
    hf_client *client = open_with(text("redis://%s:6379", sim_address(SERVER)), 2000, 2000);
    warm_up(client);
    for (int i = 0; i < 2; i++) { /* both at once, so that two connections open */
        locks[i] = lease_lock(client, text("k%d", i), 60000, HF_OFF);
        waiters[i] = waiter_start(locks[i], 20000);
    }
    for (int i = 0; i < 2; i++) {
        waiter_join(waiters[i], HF_OK);
        give_back(waiters[i]->hold, HF_OK);
    }
    assert_true(connections() >= 2);
    sim_deaden(HERE, SERVER, 1);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire_start(locks[0], NULL, 0, 20000, NULL, 1), HF_OK);
    hf_completion done = completion_within(client, 20000);
    assert_status(done.status, HF_OK);
    assert_in_range(now_ms() - since, 2000, 3000);
    give_back(done.hold, HF_OK);
    for (int i = 0; i < 2; i++)
        hf_lock_close(locks[i]);
    hf_client_close(client);
}

/* A flood takes the server longer than a command may take. The time of each request counts from
 * when the server can begin it, and a renewal does not wait behind all of them. */
static void test_a_flood_of_started_acquires_is_answered_over_one_connection(void **state) {
    enum { FLOOD = 3000 };
    hf_lock *locks[FLOOD];
    hf_hold *holds[FLOOD];
    (void)state;
    relay *way = relay_start(SERVER);
    hf_client *client = open_with(text("redis://127.0.0.1:%d", way->port), 2000, 2000);
    warm_up(client);
    hf_lock *renewed = lease_lock(client, "renewed", 3000, HF_ON);
    hf_hold *hold = held(renewed);
    int64_t before = connects();
    atomic_store(&way->bytes, 16384);
    for (int i = 0; i < FLOOD; i++) {
        locks[i] = lease_lock(client, text("f%d", i), 60000, HF_OFF);
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, HF_FOREVER, NULL, i + 1), HF_OK);
    }
    int64_t since = now_ms();
    for (int i = 0; i < FLOOD; i++) {
        hf_completion done = completion_within(client, 30000);
        assert_int_equal(done.kind, HF_KIND_ACQUIRE);
        assert_status(done.status, HF_OK);
        holds[i] = done.hold;
    }
    assert_in_range(now_ms() - since, 4000, 30000); /* twice the time of a command */
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_int_equal(connects(), before + 1); /* for grants */
    atomic_store(&way->bytes, 0);
    for (int i = 0; i < FLOOD; i++) {
        give_back(holds[i], HF_OK);
        hf_lock_close(locks[i]);
    }
    give_back(hold, HF_OK);
    hf_lock_close(renewed);
    hf_client_close(client);
    relay_stop(way);
}

/* The text of a script is some 20 KB, and the network carries 160 KB/s. */
static void test_a_flood_sends_the_text_of_a_script_once(void **state) {
    enum { FLOOD = 200 };
    hf_lock *locks[FLOOD];
    (void)state;
    relay *way = relay_start(SERVER);
    hf_client *client = open_with(text("redis://127.0.0.1:%d", way->port), 20000, 20000);
    warm_up(client);
    hf_lock *taken = lease_lock(client, "taken", 60000, HF_OFF);
    hf_hold *hold = held(taken);
    TELL("SCRIPT FLUSH");
    atomic_store(&way->bytes, 16384);
    int64_t since = now_ms();
    for (int i = 0; i < FLOOD; i++) {
        locks[i] = lease_lock(client, "taken", 60000, HF_OFF);
        assert_status(hf_once_begin_start(locks[i], 0, NULL, NULL, 0, i + 1), HF_OK);
    }
    for (int i = 0; i < FLOOD; i++)
        assert_status(completion_within(client, 60000).status, HF_EBUSY);
    assert_in_range(now_ms() - since, 0, 5000);
    atomic_store(&way->bytes, 0);
    for (int i = 0; i < FLOOD; i++)
        hf_lock_close(locks[i]);
    give_back(hold, HF_OK);
    hf_lock_close(taken);
    hf_client_close(client);
    relay_stop(way);
}

/* A way to the server. While it is shut it counts connections and hangs up. */
typedef struct door {
    relay way;
    _Atomic bool shut, mute; /* mute: shut, and it reads before it hangs up */
    _Atomic int knocks;
} door;

static void open_the_door(void *of, int fd) {
    door *mine = of;
    char some[256];
    if (!atomic_load(&mine->shut)) {
        relay_talk(&mine->way, fd);
        return;
    }
    atomic_fetch_add(&mine->knocks, 1);
    while (atomic_load(&mine->mute) && recv(fd, some, sizeof some, 0) > 0)
        ;
}

static hf_client *open_through(door *mine) {
    mine->way.host = SERVER;
    fake_start_many(&mine->way.door, open_the_door, mine);
    return open_with(text("redis://127.0.0.1:%d", mine->way.door.port), 2000, 2000);
}

static int knocks_within(door *mine, int64_t ms) {
    atomic_store(&mine->knocks, 0);
    sleep_ms((int)ms);
    return atomic_load(&mine->knocks);
}

static int64_t commands_run(void) {
    return atoll(strstr(STRING("INFO stats"), "total_commands_processed:") + 25);
}

/* The server loads its data, which delays each connection and each request; it does not count as a
 * server whose grants do not arrive. */
static void test_a_server_that_loads_is_asked_seldom_over_the_same_connections(void **state) {
    (void)state;
    hf_client *client = must_open(unix_url()), *other = must_open(unix_url());
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON);
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_ON);
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    sleep_ms(100);
    TELL("CLIENT KILL TYPE pubsub");
    int64_t before = connects(), commands = commands_run();
    servers_refuse(0, SIM_LOADING, NULL, -1);
    sleep_ms(20000);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    assert_in_range(connects() - before, 1, 2);
    assert_in_range(commands_run() - commands, 1, 80);
    sleep_ms(3500);
    TELL("CONFIG RESETSTAT");
    sleep_ms(10000);
    assert_in_range(scripts_run(), 1, 10); /* it waits in the queue, and does not poll */
    give_back(hold, HF_OK);
    hf_completion done = completion_within(client, 100);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
}

/* A server that answers a log-in slowly still works for clients that have given up. */
static void test_a_slow_server_gets_a_rest(void **state) {
    static door way;
    (void)state;
    hf_client *client = open_through(&way);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON);
    hf_hold *hold = held(lock);
    atomic_store(&way.mute, true);
    atomic_store(&way.shut, true);
    sim_cut(HERE, SERVER, 1);
    sleep_ms(20000);
    assert_in_range(knocks_within(&way, 20000), 4, 7); /* 2 s, and a rest of 1 to 2 s */
    atomic_store(&way.shut, false);
    sleep_ms(5000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
    fake_stop(&way.way.door);
}

/* The client's only connection is in use when the renewal is due, and no new one can be opened: the
 * renewal is sent on the old one as soon as it is free, and nothing closes that connection. */
static void test_a_dial_that_hangs_costs_no_connection_that_works(void **state) {
    static door way;
    hf_lock_info info = {.size = sizeof info};
    (void)state;
    hf_client *client = open_through(&way);
    hf_lock *lock = lease_lock(client, "k", 3000, HF_ON);
    hf_hold *hold = held(lock);
    int64_t before = connects();
    atomic_store(&way.mute, true);
    atomic_store(&way.shut, true);
    atomic_store(&way.way.bytes, 16384); /* each look takes 100 ms */
    while (atomic_load(&way.knocks) == 0)
        assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    atomic_store(&way.way.bytes, 0);
    sleep_ms(10000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    assert_int_equal(connects(), before);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
    fake_stop(&way.way.door);
}

static void *finish_it(void *hold) {
    static char result[300000]; /* two seconds at this rate */
    memset(result, 'r', sizeof result);
    must_be(hf_once_finish(hold, HF_ONCE_DONE, result, sizeof result, 60000), HF_OK);
    hf_hold_close(hold);
    return NULL;
}

/* H211: the only connection is in use for a while, and works; no other can be opened. */
static void test_a_password_that_changes_ends_nothing_while_a_connection_works(void **state) {
    static door way;
    pthread_t thread;
    hf_hold *hold;
    (void)state;
    TELL("ACL SETUSER ann reset on >one ~* &* +@all");
    way.way.host = SERVER;
    fake_start_many(&way.way.door, open_the_door, &way);
    hf_client *client =
        open_with(text("redis://ann:one@127.0.0.1:%d", way.way.door.port), 20000, 20000);
    assert_true(hf_client_fd(client) >= 0);
    hf_lock *once = lease_lock(client, "once", 60000, HF_OFF),
            *lock = lease_lock(client, "k", 60000, HF_OFF),
            *another = lease_lock(client, "l", 60000, HF_OFF);
    give_back(held(lock), HF_OK);
    assert_status(hf_once_begin(once, 0, NULL, NULL, 0, &hold), HF_OK);
    int64_t before = connects();
    TELL("ACL SETUSER ann resetpass >two");
    atomic_store(&way.way.bytes, 16384);
    assert_int_equal(pthread_create(&thread, NULL, finish_it, hold), 0);
    sleep_ms(100);
    assert_status(hf_lock_acquire_start(another, NULL, 0, 0, NULL, 1), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    give_back(hold, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    pthread_join(thread, NULL);
    assert_in_range(connects() - before, 2, 50); /* tries, less and less often */
    hf_lock_close(once);
    hf_lock_close(lock);
    hf_lock_close(another);
    hf_client_close(client);
    fake_stop(&way.way.door);
    TELL("ACL DELUSER ann");
}

static _Atomic bool looks;

static void *look_on(void *lock) {
    hf_lock_info info = {.size = sizeof info};
    while (atomic_load(&looks))
        must_be(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    return NULL;
}

static void *nothing(void *of) { return of; }

enum { LOOKERS = 5 };

/* Threads that use the only connection that the server accepts. */
typedef struct only {
    door *way;
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold;
    pthread_t threads[LOOKERS];
} only;

static void use_the_only_connection(only *o, door *way, bool hangs, int64_t lease_ms) {
    alarm(1000);
    atomic_store(&way->mute, false);
    atomic_store(&way->shut, false);
    o->way = way;
    o->client = open_through(way);
    assert_true(hf_client_fd(o->client) >= 0);
    o->lock = lease_lock(o->client, "k", lease_ms, HF_ON);
    o->hold = held(o->lock);
    atomic_store(&way->mute, hangs);
    atomic_store(&way->shut, true);
    atomic_store(&way->way.bytes, 16384); /* each look takes 100 ms */
    atomic_store(&looks, true);
    for (int i = 0; i < LOOKERS; i++)
        assert_int_equal(pthread_create(&o->threads[i], NULL, look_on, o->lock), 0);
}

static void end_the_only_connection(only *o) {
    assert_int_equal(hf_hold_state(o->hold), HF_STATE_HELD);
    atomic_store(&looks, false);
    for (int i = 0; i < LOOKERS; i++)
        pthread_join(o->threads[i], NULL);
    atomic_store(&o->way->way.bytes, 0);
    give_back(o->hold, HF_OK);
    hf_lock_close(o->lock);
    hf_client_close(o->client);
    fake_stop(&o->way->way.door);
}

/* H212 */
static void test_a_full_server_is_tried_ever_less_often_and_renews_all_the_same(void **state) {
    static door way;
    only o;
    (void)state;
    use_the_only_connection(&o, &way, false, 3000);
    assert_in_range(knocks_within(&way, 10000), 10, 80);
    sleep_ms(50000);
    assert_int_equal(hf_hold_state(o.hold), HF_STATE_HELD);
    assert_in_range(knocks_within(&way, 60000), 15, 50);
    end_the_only_connection(&o);
}

/* H231 */
static void test_a_dial_that_hangs_costs_no_call_all_its_time(void **state) {
    static door way;
    only o;
    (void)state;
    for (int i = 0; i < 10; i++) {
        use_the_only_connection(&o, &way, true, 3000);
        assert_in_range(knocks_within(&way, 15000), 1, 50);
        end_the_only_connection(&o);
    }
}

/* H232: a call that is made once begins and ends without other calls on its connection, also while
 * new connections hang. */
static void test_a_call_that_needs_the_only_connection_alone_has_its_turn(void **state) {
    static door way;
    hf_hold *turn;
    only o;
    (void)state;
    for (int hangs = 0; hangs < 2; hangs++) {
        use_the_only_connection(&o, &way, hangs, 600000);
        hf_lock *once = lease_lock(o.client, "once", 60000, HF_OFF);
        for (int i = 0; i < 40; i++) {
            assert_status(hf_once_begin(once, 0, NULL, NULL, 0, &turn), HF_OK);
            assert_status(hf_once_finish(turn, HF_ONCE_RETRY, NULL, 0, 0), HF_OK);
            hf_hold_close(turn);
        }
        hf_lock_close(once);
        end_the_only_connection(&o);
    }
}

/* H233: the keeper leaves the only connection to a call, and gets it back afterwards. */
static void test_what_is_left_to_calls_follows_them(void **state) {
    static door way;
    only o;
    (void)state;
    use_the_only_connection(&o, &way, false, 3000);
    sleep_ms(60000); /* new connections are now tried every 3 s */
    atomic_store(&looks, false);
    for (int i = 0; i < LOOKERS; i++)
        pthread_join(o.threads[i], NULL);
    atomic_store(&looks, true);
    for (int i = 0; i < LOOKERS; i++)
        assert_int_equal(pthread_create(&o.threads[i], NULL, i == 0 ? look_on : nothing, o.lock),
                         0);
    for (int i = 0; i < 20; i++) {
        assert_status(hf_hold_check_start(o.hold, 1), HF_OK);
        sleep_ms(50);
        assert_status(hf_hold_check_start(o.hold, 2), HF_OK);
        int64_t since = now_ms();
        for (int left = 2; left > 0; left--)
            assert_status(next_of(o.client).status, HF_OK);
        assert_in_range(now_ms() - since, 0, 500);
        sleep_ms(77);
    }
    end_the_only_connection(&o);
}

/* Started operations follow one another on the only connection, and a thread makes calls. */
static void look_beside_what_is_started(door *way, int late_ms) {
    enum { BOTH = 2 };
    pthread_t thread;
    hf_lock *locks[BOTH];
    hf_hold *holds[BOTH];
    hf_lock_info info = {.size = sizeof info};
    hf_client *client = open_through(way);
    assert_true(hf_client_fd(client) >= 0);
    for (int i = 0; i < BOTH; i++) {
        locks[i] = lease_lock(client, text("k%d", i), 60000, HF_OFF);
        holds[i] = held(locks[i]);
    }
    assert_status(hf_lock_inspect(locks[0], 0, &info, NULL), HF_OK); /* the server has the script */
    atomic_store(&way->shut, true);
    atomic_store(&way->way.bytes, 16384); /* each request takes 100 ms */
    atomic_store(&looks, true);
    for (int i = 0; i < BOTH; i++) {
        assert_status(hf_hold_check_start(holds[i], i + 1), HF_OK);
        sleep_ms(50);
    }
    sleep_ms(late_ms);
    assert_int_equal(pthread_create(&thread, NULL, look_on, locks[0]), 0);
    for (int64_t until = now_ms() + 5000; now_ms() < until;) {
        hf_completion done = next_of(client);
        assert_status(done.status, HF_OK);
        assert_status(hf_hold_check_start(holds[done.op - 1], done.op), HF_OK);
    }
    atomic_store(&looks, false);
    pthread_join(thread, NULL);
    atomic_store(&way->way.bytes, 0);
    for (int i = 0; i < BOTH; i++)
        assert_status(next_of(client).status, HF_OK);
    for (int i = 0; i < BOTH; i++) {
        give_back(holds[i], HF_OK);
        hf_lock_close(locks[i]);
    }
    hf_client_close(client);
    fake_stop(&way->way.door);
    atomic_store(&way->shut, false);
}

/* H215; H256: the keeper goes on unless the call waits for a connection, also after it could open
 * none. */
static void test_what_is_started_leaves_the_only_connection_to_calls(void **state) {
    static door way;
    (void)state;
    alarm(900);
    for (int n = 0; n < 40; n++)
        look_beside_what_is_started(&way, n);
}

static int64_t looked_for;

/* Refuse a request: both have met a server that does not know their script, and the first of the
 * two to be sent again is refused. */
static void refuse_the_next(int which, const sim_bytes *words, size_t count) {
    (void)count;
    if (words[0].length != 7 || strncasecmp(words[0].bytes, "evalsha", 7) != 0 || --looked_for > 0)
        return;
    servers_refuse(which, SIM_SCRIPTS, "BUSY for a moment", 1);
    servers_watch = NULL;
}

/* H214: the second request relies on the script's text in the first, which the server has not read.
 */
static void test_a_request_whose_script_went_with_another_that_was_refused(void **state) {
    hf_lock *locks[2];
    (void)state;
    hf_client *client = must_open(unix_url());
    warm_up(client);
    for (int i = 0; i < 2; i++)
        locks[i] = lease_lock(client, text("k%d", i), 60000, HF_OFF);
    TELL("SCRIPT FLUSH");
    looked_for = 2;
    servers_watch = refuse_the_next;
    sim_server_pause(servers_at(0), true);
    for (int i = 0; i < 2; i++)
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, 0, NULL, i + 1), HF_OK);
    sleep_ms(10);
    sim_server_pause(servers_at(0), false);
    int64_t since = now_ms();
    for (int i = 0; i < 2; i++) {
        hf_completion done = next_of(client);
        assert_status(done.status, HF_OK);
        if (i == 0) /* the refused request is sent again after a pause */
            assert_in_range(now_ms() - since, 0, 1);
        give_back(done.hold, HF_OK);
    }
    assert_null(servers_watch);
    for (int i = 0; i < 2; i++)
        hf_lock_close(locks[i]);
    hf_client_close(client);
}

/* H145: the subscription cannot be made again, while the connection for requests works. */
static void test_a_subscription_that_is_not_opened_is_no_trouble(void **state) {
    enum { HOLDS = 10 };
    static door way;
    hf_client_options options = {
        .size = sizeof options, .trouble = HF_ON, .connect_timeout_ms = 2000};
    hf_client *client;
    hf_lock *locks[HOLDS];
    hf_hold *holds[HOLDS];
    (void)state;
    alarm(1000);
    way.way.host = SERVER;
    fake_start_many(&way.way.door, open_the_door, &way);
    const char *url = text("redis://127.0.0.1:%d", way.way.door.port);
    assert_status(hf_client_open(url, &options, &client), HF_OK);
    assert_true(hf_client_fd(client) >= 0);
    hf_client *other = must_open(unix_url());
    for (int i = 0; i < HOLDS; i++) {
        locks[i] = lease_lock(client, text("k%d", i), 6000 + 500 * i, HF_ON);
        holds[i] = held(locks[i]);
    }
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON),
            *theirs = lease_lock(other, "k", 60000, HF_ON);
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    sleep_ms(100);
    atomic_store(&way.mute, true);
    atomic_store(&way.shut, true);
    TELL("CLIENT KILL TYPE pubsub");
    assert_int_equal(completion_within(client, 300000).kind, HF_KIND_NONE);
    assert_in_range(atomic_load(&way.knocks), 60, 120);
    give_back(hold, HF_OK);
    hf_completion done = completion_within(client, 5000);
    assert_status(done.status, HF_OK);
    give_back(done.hold, HF_OK);
    for (int i = 0; i < HOLDS; i++) {
        give_back(holds[i], HF_OK);
        hf_lock_close(locks[i]);
    }
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
    fake_stop(&way.way.door);
}

/* A fleet that waits for its server does not flood it, and is soon back when the server is. */
static void test_an_outage_is_met_with_ever_fewer_tries(void **state) {
    static door way;
    (void)state;
    alarm(1000);
    hf_client *client = open_through(&way);
    hf_client *other = must_open(unix_url());
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON),
            *theirs = lease_lock(other, "k", 10000, HF_ON);
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    sleep_ms(100); /* until the client knows, or it would report an unknown outcome */
    atomic_store(&way.shut, true);
    sim_cut(HERE, SERVER, 1);
    assert_in_range(knocks_within(&way, 3000), 20, 80); /* leases are still being renewed */
    sleep_ms(57000);
    assert_in_range(knocks_within(&way, 600000), 200, 430); /* a try each 1.5 to 3 s */
    atomic_store(&way.shut, false);
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    hf_completion done = completion_within(client, 10000);
    assert_status(done.status, HF_OK);
    assert_in_range(now_ms() - since, 0, 3500);
    give_back(done.hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
    fake_stop(&way.way.door);
}

static void *try_it(void *lock) {
    hf_hold *hold;
    must_be(hf_lock_acquire(lock, 0, &hold), HF_OK);
    return hold;
}

static void stop_while_it_is_asked(void *argument) {
    (void)argument;
    hf_stats stats = {.size = sizeof stats};
    hf_client *client = must_open(unix_url());
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    raise(SIGSTOP);
    must_be(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    sleep_ms(50); /* until the request is sent */
    raise(SIGSTOP);
    hf_completion done = completion_within(client, 1000);
    must_be(done.status, HF_OK);
    must_be(hf_client_stats(client, &stats), HF_OK);
    must(stats.reconnects == 0);
    must_be(hf_hold_release(done.hold), HF_OK);
    hf_hold_close(done.hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

enum { TRIES = 8 };

static void start_tries(hf_lock **locks, pthread_t *threads) {
    for (int i = 0; i < TRIES; i++)
        must(pthread_create(&threads[i], NULL, try_it, locks[i]) == 0);
}

static void end_tries(pthread_t *threads) {
    for (int i = 0; i < TRIES; i++) {
        void *hold;
        pthread_join(threads[i], &hold);
        must_be(hf_hold_release(hold), HF_OK);
        hf_hold_close(hold);
    }
}

/* Stop the process; some threads share a connection. */
static void stop_while_threads_ask(void *argument) {
    hf_lock *locks[TRIES];
    pthread_t threads[TRIES];
    hf_stats stats = {.size = sizeof stats};
    (void)argument;
    hf_client *client = must_open(unix_url());
    for (int i = 0; i < TRIES; i++)
        locks[i] = lease_lock(client, text("k%d", i), 60000, HF_OFF);
    start_tries(locks, threads);
    end_tries(threads); /* all connections are open */
    raise(SIGSTOP);
    start_tries(locks, threads);
    sleep_ms(50); /* until the requests are sent */
    raise(SIGSTOP);
    end_tries(threads);
    must_be(hf_client_stats(client, &stats), HF_OK);
    must(stats.reconnects == 0);
    for (int i = 0; i < TRIES; i++)
        hf_lock_close(locks[i]);
    hf_client_close(client);
}

static void on_signal(int number) { (void)number; }

static void *stop_soon(void *unused) {
    sleep_ms(50);
    raise(SIGSTOP);
    return unused;
}

static hf_status just_acquire(hf_lock *lock, hf_hold **hold_out) {
    return hf_lock_acquire(lock, 0, hold_out);
}

static hf_status begin_once(hf_lock *lock, hf_hold **hold_out) {
    return hf_once_begin(lock, 0, NULL, NULL, 0, hold_out);
}

/* Stop the process during a call. A wait on a socket with a timeout ends with EINTR, even without a
 * handler. */
static hf_hold *stop_during(hf_status (*question)(hf_lock *lock, hf_hold **hold_out), hf_lock *lock,
                            hf_status expected) {
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t thread;
    hf_hold *hold;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGSTOP);
    must(pthread_create(&thread, NULL, stop_soon, NULL) == 0);
    must_be(question(lock, &hold), expected);
    pthread_join(thread, NULL);
    return hold;
}

static void stop_while_a_thread_asks(void *argument) {
    (void)argument;
    hf_client *client = must_open(unix_url());
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_hold *hold = stop_during(just_acquire, lock, HF_OK);
    must_be(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

enum { LONG = 100000 };

/* Leave a result that is longer than a single read. */
static void leave_a_long_result(hf_lock *lock) {
    static char result[LONG];
    hf_hold *hold;
    memset(result, 'r', sizeof result);
    must_be(begin_once(lock, &hold), HF_OK);
    must_be(hf_once_finish(hold, HF_ONCE_DONE, result, sizeof result, 60000), HF_OK);
    hf_hold_close(hold);
    must_be(begin_once(lock, &hold), HF_EDONE); /* the server knows the script */
    hf_hold_close(hold);
}

static void must_have_it(hf_hold *hold) {
    size_t length;
    must(hf_hold_result(hold, &length) != NULL && length == LONG);
    hf_hold_close(hold);
}

static void stop_while_a_thread_fetches(void *argument) {
    (void)argument;
    hf_client *client = must_open(unix_url());
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    leave_a_long_result(lock);
    must_have_it(stop_during(begin_once, lock, HF_EDONE));
    hf_lock_close(lock);
    hf_client_close(client);
}

static void stop_while_it_fetches(void *argument) {
    hf_stats stats = {.size = sizeof stats};
    (void)argument;
    hf_client *client = must_open(unix_url());
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    leave_a_long_result(lock);
    raise(SIGSTOP);
    must_be(hf_once_begin_start(lock, 0, NULL, NULL, 0, 1), HF_OK);
    sleep_ms(50); /* until the request is sent */
    raise(SIGSTOP);
    hf_completion done = completion_within(client, 1000);
    must_be(done.status, HF_EDONE);
    must_have_it(done.hold);
    must_be(hf_client_stats(client, &stats), HF_OK);
    must(stats.reconnects == 0);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* Stop a process during a request until the time of the command has ended; number: a signal for it,
 * or 0. */
static void be_late(void (*program)(void *), int number) {
    int how;
    pid_t pid = worker_start(program, NULL);
    assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
    sim_server_pause(servers_at(0), true);
    worker_go_on(pid);
    assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
    kill(pid, number);
    sim_server_pause(servers_at(0), false);
    sleep_ms(2500);
    worker_go_on(pid);
    worker_join(pid);
}

/* The answer arrived in time, and only this process was late. */
static void test_a_process_that_stood_still_reads_the_answer_that_is_there(void **state) {
    (void)state;
    be_late(stop_while_it_is_asked, 0);
}

/* H179 */
static void test_a_thread_that_stood_still_reads_the_answer_that_is_there(void **state) {
    (void)state;
    be_late(stop_while_a_thread_asks, SIGUSR1);
}

/* H210: the data that have arrived must be read in parts. */
static void test_a_thread_that_stood_still_reads_all_of_a_long_answer(void **state) {
    (void)state;
    be_late(stop_while_a_thread_fetches, SIGUSR1);
}

static void test_a_process_that_stood_still_reads_all_of_a_long_answer(void **state) {
    (void)state;
    be_late(stop_while_it_fetches, 0);
}

static void test_threads_that_stood_still_read_the_answers_that_are_there(void **state) {
    (void)state;
    be_late(stop_while_threads_ask, 0);
}

static void stop_while_it_dials(void *argument) {
    (void)argument;
    hf_client *client = must_open(text("redis://%s:6379", sim_address(SERVER)));
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    raise(SIGSTOP);
    sleep_ms(1000); /* a connection that was idle for this time is checked before it is used */
    must_be(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    sleep_ms(1000); /* until the next connection is being opened */
    raise(SIGSTOP);
    must_be(next_of(client).status, HF_ECONNECT);
    sleep_ms(3500);
    must_be(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    hf_completion done = next_of(client);
    must_be(done.status, HF_OK);
    must_be(hf_hold_release(done.hold), HF_OK);
    hf_hold_close(done.hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* H144: the time for which the process stood still is not the server's. */
static void test_a_process_that_stood_still_in_a_try_does_not_rest_as_long(void **state) {
    int how;
    (void)state;
    pid_t pid = worker_start(stop_while_it_dials, NULL);
    assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
    sim_way(HERE, SERVER, false);
    sim_cut(HERE, SERVER, 1);
    worker_go_on(pid);
    assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
    sim_way(HERE, SERVER, true);
    sleep_ms(60000);
    worker_go_on(pid);
    worker_join(pid);
}

static void stop_while_it_listens(void *argument) {
    (void)argument;
    hf_stats stats = {.size = sizeof stats};
    hf_client *client = must_open(text("redis://%s:6379", sim_address(SERVER)));
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    must_be(hf_lock_acquire_start(lock, NULL, 0, 60000, NULL, 1), HF_OK);
    sleep_ms(4000);
    raise(SIGSTOP);
    sleep_ms(1000);
    must_be(hf_client_stats(client, &stats), HF_OK);
    must(stats.reconnects == 0);
    must_be(hf_op_cancel(client, 1), HF_OK);
    must_be(next_of(client).status, HF_ECANCELED);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* The client has not asked the server meanwhile whether it works. */
static void test_a_process_that_stood_still_keeps_its_subscription(void **state) {
    int how;
    (void)state;
    hf_client *other = must_open(unix_url());
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_ON);
    hf_hold *hold = held(theirs);
    pid_t pid = worker_start(stop_while_it_listens, NULL);
    assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
    sleep_ms(20000);
    worker_go_on(pid);
    worker_join(pid);
    give_back(hold, HF_OK);
    hf_lock_close(theirs);
    hf_client_close(other);
}

/* The password is another one for a while: requests fail at once with that reason, and work again
 * later. */
static void test_a_password_that_changes_ends_what_is_asked_with_the_old_one(void **state) {
    (void)state;
    hf_client *client;
    TELL("ACL SETUSER ann reset on >one ~* &* +@all");
    const char *url = text("redis://ann:one@%s:6379", sim_address(SERVER));
    assert_status(hf_client_open(url, NULL, &client), HF_OK);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    TELL("ACL SETUSER ann resetpass >two");
    TELL("CLIENT KILL TYPE normal");
    sleep_ms(1000); /* a connection that was idle for this time is checked before it is used */
    int64_t began = now_ms();
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 60000, NULL, 1), HF_OK);
    hf_completion done = completion_within(client, 5000);
    assert_status(done.status, HF_EAUTH);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 60000, &hold), HF_EAUTH);
    assert_in_range(now_ms() - began, 0, 1000);
    TELL("ACL SETUSER ann resetpass >one");
    assert_soon(hf_lock_acquire(lock, 0, &hold) == HF_OK);
    give_back(hold, HF_OK);
    assert_int_equal(NUMBER("EXISTS k"), 0);
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER ann");
}

/* A call has opened a connection since, and lends it to the keeper. */
static void test_a_password_that_was_wrong_explains_no_later_outage(void **state) {
    hf_hold *hold;
    (void)state;
    TELL("ACL SETUSER ann reset on >one ~* &* +@all");
    hf_client *client = open_with(text("redis://ann:one@%s:6379", sim_address(SERVER)), 2000, 500);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    TELL("ACL SETUSER ann resetpass >two");
    TELL("CLIENT KILL TYPE normal");
    sleep_ms(1000); /* a connection that was idle for this time is checked before it is used */
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 60000, NULL, 1), HF_OK);
    assert_status(next_of(client).status, HF_EAUTH);
    TELL("ACL SETUSER ann resetpass >one");
    assert_soon(hf_lock_acquire(lock, 0, &hold) == HF_OK);
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    assert_status(next_of(client).status, HF_OK);
    sim_way(SERVER, HERE, false);
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_EUNKNOWN);
    assert_non_null(strstr(done.error.message, "cannot be reached"));
    sim_way(SERVER, HERE, true);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER ann");
}

static void start_all(waiter *waiters[], hf_lock *locks[], int count, int64_t ms) {
    for (int i = 0; i < count; i++)
        waiters[i] = waiter_start(locks[i], ms);
}

static void all_had(waiter *waiters[], int count) {
    for (int i = 0; i < count; i++) {
        waiter_join(waiters[i], HF_OK);
        give_back(waiters[i]->hold, HF_OK);
    }
}

/* H175: the call's time ends while other calls, which have more time, open both connections. */
static void test_a_call_in_a_later_outage_is_not_told_of_an_old_password(void **state) {
    enum { BOTH = 2 };
    hf_lock *locks[BOTH];
    waiter *waiters[BOTH];
    hf_hold *hold;
    (void)state;
    TELL("ACL SETUSER ann reset on >one ~* &* +@all");
    hf_client *client = open_with(text("redis://ann:one@%s:6379", sim_address(SERVER)), 9000, 5000);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    for (int i = 0; i < BOTH; i++)
        locks[i] = lease_lock(client, text("k%d", i), 60000, HF_OFF);
    TELL("ACL SETUSER ann resetpass >two");
    TELL("CLIENT KILL TYPE normal");
    sleep_ms(1000); /* a connection that was idle for this time is checked before it is used */
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_EAUTH);
    TELL("ACL SETUSER ann resetpass >one");
    start_all(waiters, locks, BOTH, 0);
    all_had(waiters, BOTH);
    sim_way(SERVER, HERE, false);
    start_all(waiters, locks, BOTH, 60000);
    sleep_ms(1000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_EUNKNOWN);
    assert_null(strstr(hf_error_message(), "password"));
    sim_way(SERVER, HERE, true);
    all_had(waiters, BOTH);
    for (int i = 0; i < BOTH; i++)
        hf_lock_close(locks[i]);
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER ann");
}

/* H227: the calling thread runs late, when another call has opened a connection. */
static void test_a_call_that_is_refused_a_connection_is_told_why(void **state) {
    hf_lock *locks[NAMES];
    waiter *waiters[NAMES];
    hf_client_options lazy = {.size = sizeof lazy, .lazy = HF_ON, .connect_timeout_ms = 9000};
    int over = 0, refused = 0;
    hf_client *client;
    (void)state;
    TELL("ACL SETUSER ann reset on >two ~* &* +@all");
    const char *url = text("redis://ann:one@%s:6379", sim_address(SERVER));
    assert_status(hf_client_open(url, &lazy, &client), HF_OK);
    for (int i = 0; i < NAMES; i++)
        locks[i] = lease_lock(client, text("k%d", i), 60000, HF_OFF);
    sim_way(SERVER, HERE, false);
    start_all(waiters, locks, NAMES, 0);
    sleep_ms(100); /* until two connections are open, and the others wait for them */
    sim_set.wake_ns = 200 * SIM_MS;
    sim_way(SERVER, HERE, true);
    for (; over == 0; usleep(10))
        for (int i = 0; i < NAMES; i++)
            over += atomic_load(&waiters[i]->done);
    sim_set.wake_ns = 30 * SIM_US;
    servers_command(0, "ACL SETUSER ann resetpass >one");
    hf_lock *lock = lease_lock(client, "last", 60000, HF_OFF);
    give_back(held(lock), HF_OK);
    for (int i = 0; i < NAMES; i++) {
        pthread_join(waiters[i]->thread, NULL);
        if (waiters[i]->status == HF_OK) /* it tried again */
            give_back(waiters[i]->hold, HF_OK);
        else if (strstr(waiters[i]->why, "password") == NULL)
            fail_msg("a call is told: %s", waiters[i]->why);
        refused += waiters[i]->status == HF_EAUTH;
        hf_lock_close(locks[i]);
    }
    assert_in_range(refused, NAMES - 1, NAMES);
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER ann");
}

/* H173: the server answers HELLO, and refuses SELECT. */
static void test_who_logs_in_during_a_long_script_waits_for_its_end(void **state) {
    hf_hold *hold;
    (void)state;
    hf_client *client = open_with(text("redis://%s:6379/1", sim_address(SERVER)), 2000, 2000);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *another = lease_lock(client, "l", 60000, HF_OFF);
    TELL("CLIENT KILL TYPE normal");
    sleep_ms(1000); /* a connection that was idle for this time is checked before it is used */
    servers_refuse(0, SIM_BUSY, NULL, -1);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_ECONNECT);
    assert_non_null(strstr(hf_error_message(), "refused SELECT: BUSY"));
    assert_status(hf_lock_acquire_start(another, NULL, 0, 20000, NULL, 1), HF_OK);
    waiter *w = waiter_start(lock, 20000);
    sleep_ms(5000);
    servers_refuse(0, SIM_BUSY, NULL, 0);
    waiter_join(w, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    give_back(w->hold, HF_OK);
    give_back(done.hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(another);
    hf_client_close(client);
}

/* H174: an idle client does not ask a server that is away. */
static void test_a_subscription_that_nothing_waits_for_is_not_tried_for_ever(void **state) {
    static door way;
    (void)state;
    alarm(1000);
    hf_client *client = open_through(&way);
    hf_client *other = must_open(unix_url());
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON),
            *theirs = lease_lock(other, "k", 60000, HF_ON);
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 1000);
    waiter_join(w, HF_ETIMEOUT);
    atomic_store(&way.shut, true);
    sim_cut(HERE, SERVER, 1);
    assert_in_range(knocks_within(&way, 50000), 15, 100); /* an acquire may wait again soon */
    sleep_ms(20000);
    assert_int_equal(knocks_within(&way, 300000), 0);
    atomic_store(&way.shut, false);
    w = waiter_start(lock, 60000);
    assert_soon(queued("k") == 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
    fake_stop(&way.way.door);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_burst_has_three_connections_and_leaves_one),
        TEST(test_acquires_that_wait_for_replicas_have_one_more),
        TEST(test_all_are_told_why_no_connection_was_opened),
        TEST(test_a_renewal_does_not_wait_for_calls),
        TEST(test_one_silent_connection_is_enough_to_try_a_new_one),
        TEST(test_a_flood_of_started_acquires_is_answered_over_one_connection),
        TEST(test_a_flood_sends_the_text_of_a_script_once),
        TEST(test_a_dial_that_hangs_costs_no_connection_that_works),
        TEST(test_a_password_that_changes_ends_nothing_while_a_connection_works),
        TEST(test_a_full_server_is_tried_ever_less_often_and_renews_all_the_same),
        TEST(test_a_dial_that_hangs_costs_no_call_all_its_time),
        TEST(test_a_call_that_needs_the_only_connection_alone_has_its_turn),
        TEST(test_what_is_left_to_calls_follows_them),
        TEST(test_what_is_started_leaves_the_only_connection_to_calls),
        TEST(test_a_request_whose_script_went_with_another_that_was_refused),
        TEST(test_a_subscription_that_is_not_opened_is_no_trouble),
        TEST(test_an_outage_is_met_with_ever_fewer_tries),
        TEST(test_a_server_that_loads_is_asked_seldom_over_the_same_connections),
        TEST(test_a_slow_server_gets_a_rest),
        TEST(test_a_process_that_stood_still_reads_the_answer_that_is_there),
        TEST(test_a_thread_that_stood_still_reads_the_answer_that_is_there),
        TEST(test_a_thread_that_stood_still_reads_all_of_a_long_answer),
        TEST(test_a_process_that_stood_still_reads_all_of_a_long_answer),
        TEST(test_threads_that_stood_still_read_the_answers_that_are_there),
        TEST(test_a_process_that_stood_still_keeps_its_subscription),
        TEST(test_a_process_that_stood_still_in_a_try_does_not_rest_as_long),
        TEST(test_a_password_that_changes_ends_what_is_asked_with_the_old_one),
        TEST(test_a_password_that_was_wrong_explains_no_later_outage),
        TEST(test_a_call_in_a_later_outage_is_not_told_of_an_old_password),
        TEST(test_a_call_that_is_refused_a_connection_is_told_why),
        TEST(test_who_logs_in_during_a_long_script_waits_for_its_end),
        TEST(test_a_subscription_that_nothing_waits_for_is_not_tried_for_ever),
    };
    return RUN_TESTS(tests, count, words);
}

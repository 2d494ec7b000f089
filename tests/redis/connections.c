/* The connections of a client: their names, their number, and how long a call waits for a
 * connection. */
#include "../network.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/stat.h>

static int afresh(void **state) {
    (void)state;
    start_afresh();
    return 0;
}

/* Open a client that tolerates pauses of the machine; otherwise it opens more connections. */
static hf_client *opened(const char *url, const hf_client_options *options) {
    hf_client_options patient = {.size = sizeof patient};
    hf_client *client;
    if (options != NULL)
        patient = *options;
    patient.connect_timeout_ms = patient.command_timeout_ms = 20000;
    assert_status(hf_client_open(url, &patient, &client), HF_OK);
    return client;
}

/* Count the server's clients whose line has this part. */
static int listed(const char *part) {
    const char *at = STRING("CLIENT LIST");
    int count = 0;
    while ((at = strstr(at, part)) != NULL) {
        count++;
        at += strlen(part);
    }
    return count;
}

/* ---------------------------------------------------------------- Names */

static bool server_knows_setinfo(void) {
    int major = 0, minor = 0;
    sscanf(strstr(STRING("INFO server"), "redis_version:"), "redis_version:%d.%d", &major, &minor);
    return major > 7 || (major == 7 && minor >= 2);
}

static void *wait_for_it(void *lock) {
    hf_hold *hold = NULL;
    if (hf_lock_acquire(lock, 30000, &hold) == HF_OK)
        hf_hold_release(hold);
    hf_hold_close(hold);
    return NULL;
}

static void test_all_connections_have_the_clients_name(void **state) {
    (void)state;
    hf_client *other = open_client(), *client = opened(tcp_url(), NULL);
    hf_hold *theirs;
    pthread_t thread;
    hf_lock *taken = open_lock(other, "stock", NULL, NULL),
            *wanted = open_lock(client, "stock", NULL, NULL);
    assert_int_equal(listed(" name=holdfast "), 2);
    assert_status(hf_lock_acquire(taken, 0, &theirs), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, wanted), 0);
    assert_soon(NUMBER("ZCOUNT {stock}stock:hf1:q 0 9007199254740992") == 1);
    /* One or two for requests, and the subscription. */
    assert_soon(listed(" name=holdfast ") >= 1 + 2);
    assert_int_equal(NUMBER("PUBSUB NUMPAT"), 0);
    if (server_knows_setinfo()) {
        assert_true(listed(" lib-name=holdfast ") >= 3);
        assert_true(listed(text(" lib-ver=%s", hf_version())) >= 3);
    }
    assert_status(hf_hold_release(theirs), HF_OK);
    pthread_join(thread, NULL);
    hf_hold_close(theirs);
    hf_lock_close(taken);
    hf_lock_close(wanted);
    hf_client_close(client);
    hf_client_close(other);
}

static void test_a_client_may_be_given_a_name(void **state) {
    (void)state;
    hf_client_options options = {.size = sizeof options, .client_name = "till-7"};
    hf_client *client = opened(tcp_url(), &options);
    assert_int_equal(listed(" name=till-7 "), 1);
    hf_client_close(client);
    client = opened(text("%s?client_name=%%5Btill%%5D", unix_url()), NULL);
    assert_int_equal(listed(" name=[till] "), 1);
    hf_client_close(client);
}

static void test_a_user_who_may_not_say_its_name_is_served_all_the_same(void **state) {
    (void)state;
    TELL("ACL SETUSER ann reset on nopass ~* &* +@all -client");
    hf_client *client = opened(text("unix://ann:any@%s", unix_url() + strlen("unix://")), NULL);
    hf_lock *lock = open_lock(client, "stock", NULL, NULL);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 1000, &hold), HF_OK);
    assert_status(hf_hold_release(hold), HF_OK);
    assert_int_equal(listed(" name=holdfast "), 1); /* every user may run HELLO */
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER ann");
}

/* ----------------------------------------------------------- Keep-alive */

/* Return the keep-alive, in seconds, of all of this program's connections to the server; 0: off. */
static int keep_alive(int *count) {
    int found = -1, port = atoi(strrchr(tcp_url(), ':') + 1);
    *count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer, length = sizeof(int);
        int on = 0, seconds = 0;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0 || peer.sin_family != AF_INET ||
            ntohs(peer.sin_port) != port)
            continue;
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &length), 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, &length), 0);
        seconds = on ? seconds : 0;
        if (++*count > 1 && found != seconds)
            return -1; /* one is being opened */
        found = seconds;
    }
    return found;
}

static void test_the_keep_alive_is_as_asked_for_on_all_connections(void **state) {
    static const struct {
        int64_t ms;
        const char *query;
        int seconds;
    } cases[] = {{0, "", 15}, {1500, "", 2}, {0, "?keepalive=7", 7}, {HF_NEVER, "", 0}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        hf_client_options options = {.size = sizeof options, .keepalive_ms = cases[i].ms};
        hf_client *client = opened(text("%s%s", tcp_url(), cases[i].query), &options);
        hf_lock *lock = open_lock(client, "stock", NULL, NULL);
        int count;
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 1000, NULL, 1), HF_OK);
        assert_soon(keep_alive(&count) == cases[i].seconds && count >= 2);
        hf_lock_close(lock);
        hf_client_close(client);
    }
}

/* ----------------------------------------------------------------- Limit */

static atomic_int most, done;

static void *take_turns(void *lock) {
    for (int i = 0; i < 50; i++) {
        hf_hold *hold;
        hf_status status = hf_lock_acquire(lock, 30000, &hold);
        if (status == HF_OK)
            status = hf_hold_release(hold);
        hf_hold_close(hold);
        if (status != HF_OK)
            return NULL;
    }
    done++;
    return NULL;
}

/* Two connections carry the calls and the keeper's requests, and on one grants arrive. The keeper
 * opens one more if the machine lets it wait for 50 ms; the simulation, which has its own clock,
 * holds a client to three (test_a_burst_has_three_connections_and_leaves_one). */
enum { FOR_A_SLOW_MACHINE = 1 };

static void test_threads_of_a_client_have_few_connections(void **state) {
    (void)state;
    enum { THREADS = 50, NAMES = 20 };
    hf_client_options options = {.size = sizeof options, .client_name = "few"};
    hf_client *client = opened(tcp_url(), &options);
    hf_lock *kept = open_lock(client, "kept", NULL, NULL);
    assert_true(hf_client_fd(client) >= 0);
    hf_hold *hold = held(kept);
    pthread_t threads[THREADS];
    hf_lock *locks[THREADS];
    most = done = 0;
    for (int i = 0; i < THREADS; i++) {
        const char *name = text("few %d", i % NAMES);
        assert_status(hf_lock_open(client, name, strlen(name), NULL, 0, NULL, &locks[i]), HF_OK);
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, locks[i]), 0);
    }
    for (int64_t until = now_ms() + 20000; done < THREADS && now_ms() < until;) {
        assert_status(hf_hold_check_start(hold, 1), HF_OK); /* by the keeper */
        int count = listed(" name=few ");
        if (count > most)
            most = count;
        assert_status(next_of(client).status, HF_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        hf_lock_close(locks[i]);
    }
    assert_int_equal(done, THREADS);
    assert_in_range(most, 2, 3 + FOR_A_SLOW_MACHINE);
    give_back(hold, HF_OK);
    hf_lock_close(kept);
    hf_client_close(client);
}

typedef struct looker {
    hf_lock *lock;
    hf_status status;
    atomic_bool done;
    pthread_t thread;
} looker;

static void *look(void *argument) {
    looker *l = argument;
    hf_lock_info info = {.size = sizeof info};
    l->status = hf_lock_inspect(l->lock, 0, &info, NULL);
    l->done = true;
    return NULL;
}

/* The server hangs: connections are in use, or not open, until it answers again. */
static void test_a_call_waits_for_a_connection_within_its_time(void **state) {
    (void)state;
    pid_t server = (pid_t)atoi(getenv("HOLDFAST_TEST_REDIS_PID"));
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = 150};
    hf_client *clients[] = {opened(unix_url(), NULL), NULL};
    assert_soon(hf_client_open(unix_url(), &options, &clients[1]) == HF_OK);
    for (int i = 0; i < 2; i++) {
        bool hasty = i == 1;
        hf_lock *lock = open_lock(clients[i], "stock", NULL, NULL);
        looker all[] = {{.lock = lock}, {.lock = lock}, {.lock = lock}};
        do /* the server knows the script */
            look(&all[0]);
        while (hasty && all[0].status != HF_OK);
        assert_status(all[0].status, HF_OK);
        kill(server, SIGSTOP);
        for (size_t at = 0; at < COUNT(all); at++) {
            all[at].done = false;
            assert_int_equal(pthread_create(&all[at].thread, NULL, look, &all[at]), 0);
        }
        if (hasty)
            assert_soon(all[0].done && all[1].done && all[2].done);
        else
            sleep_ms(300);
        bool ended = all[0].done || all[1].done || all[2].done;
        kill(server, SIGCONT);
        assert_int_equal(ended, hasty);
        for (size_t at = 0; at < COUNT(all); at++) {
            pthread_join(all[at].thread, NULL);
            assert_status(all[at].status, hasty ? HF_ECONNECT : HF_OK);
        }
        hf_lock_close(lock);
        TELL("PING");
        hf_client_close(clients[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, afresh)

/* ------------------------------------------------------------------ Turns */

static atomic_int asked_so_far;
static atomic_bool asks;

static void *acquire_often(void *client) {
    hf_lock *lock;
    hf_hold *hold;
    hf_lock_open(client, "busy", 4, "one for all", 11, NULL, &lock);
    while (asks) {
        if (hf_lock_acquire(lock, 0, &hold) != HF_OK)
            break;
        asked_so_far++;
        hf_hold_close(hold);
    }
    done++;
    hf_lock_close(lock);
    return NULL;
}

/* Forty acquires are under way all the time. A request that ends or renews a hold does not wait for
 * them: the test counts the acquires that end meanwhile. */
static void test_who_holds_does_not_wait_behind_who_acquires(void **state) {
    enum { CROWDED = 40, ROUND_TRIP_MS = 150 };
    (void)state;
    proxy *way = proxy_start();
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = 20000};
    hf_client *client = opened(text("redis://127.0.0.1:%d", way->port), &options);
    pthread_t threads[CROWDED];
    hf_hold *hold;
    hf_lock *lock = open_lock(client, "stock", NULL, NULL);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    way->delay_ms = ROUND_TRIP_MS / 2;
    asked_so_far = done = 0;
    asks = true;
    for (int i = 0; i < CROWDED; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, acquire_often, client), 0);
    assert_soon(asked_so_far > 2);
    int before = asked_so_far;
    hf_status renewal = hf_hold_renew(hold);
    int renewed = asked_so_far;
    hf_status release = hf_hold_release(hold);
    int released = asked_so_far;
    asks = false;
    for (int i = 0; i < CROWDED; i++)
        pthread_join(threads[i], NULL);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    proxy_stop(way);
    assert_int_equal(done, CROWDED);
    assert_int_equal(renewal, HF_OK);
    assert_int_equal(release, HF_OK);
    print_message("in front of %d and %d\n", renewed - before, released - renewed);
    assert_in_range(renewed - before, 0, 3 * CROWDED);
    assert_in_range(released - renewed, 0, 3 * CROWDED);
}

/* -------------------------------------------------------------- Passwords */

/* A user who looks at holds while the file with the password blocks. */
typedef struct watcher {
    hf_hold *hold;
    atomic_bool done;
} watcher;

static void *look_often(void *argument) {
    watcher *l = argument;
    for (int64_t since = now_ms(); now_ms() < since + 1500; sleep_ms(1))
        hf_hold_remaining_ms(l->hold);
    l->done = true;
    return NULL;
}

static void write_file(const char *path, const char *words) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(words, file);
    fclose(file);
}

/* Return the number of the newest connection with this name. */
static long long last_connection(const char *name) {
    long long id = 0, last = 0;
    for (char *line = strtok(text("%s", STRING("CLIENT LIST")), "\n"); line != NULL;
         line = strtok(NULL, "\n"))
        if (strstr(line, name) != NULL && sscanf(line, "id=%lld", &id) == 1 && id > last)
            last = id;
    return last;
}

static void test_a_password_file_that_blocks_delays_nobody_who_holds(void **state) {
    char folder[] = "/tmp/holdfast-XXXXXX";
    hf_client_options options = {.size = sizeof options, .client_name = "app"};
    watcher l = {.hold = NULL};
    pthread_t thread;
    (void)state;
    assert_non_null(mkdtemp(folder));
    const char *path = text("%s/password", folder), *pipe = text("%s/pipe", folder);
    write_file(path, "secret\n");
    TELL("ACL SETUSER app on >secret ~* &* +@all");
    hf_client *client = opened(
        text("redis://app:@%s?password_file=%s", tcp_url() + strlen("redis://"), path), &options);
    hf_lock *lock = open_lock(client, "stock", NULL, NULL);
    assert_status(hf_lock_acquire(lock, 0, &l.hold), HF_OK);
    assert_int_equal(listed(" name=app "), 1);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(pipe, path), 0);
    TELL("CLIENT KILL ID %lld", last_connection(" name=app "));
    assert_status(hf_hold_check_start(l.hold, 1), HF_OK); /* its connection is gone */
    assert_int_equal(pthread_create(&thread, NULL, look_often, &l), 0);
    for (int64_t until = now_ms() + 15000; !l.done && now_ms() < until;)
        sleep_ms(1);
    bool stuck = !l.done;
    assert_int_equal(unlink(path), 0);
    write_file(path, "secret\n");
    do { /* all that wait for it go on */
        int fd = open(pipe, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        close(fd);
        sleep_ms(1);
    } while (!l.done);
    pthread_join(thread, NULL);
    assert_int_equal(next_of(client).op, 1);
    give_back(l.hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
    assert_int_equal(system(text("rm -r %s", folder)), 0);
    TELL("ACL DELUSER app");
    if (stuck)
        fail_msg("a look at what is held takes until the file can be read");
}

/* ----------------------------------------------------------------- Crowds */

enum { CROWD = 100 };
static pthread_barrier_t together;

static void *come_and_go(void *lock) {
    hf_hold *hold = NULL;
    pthread_barrier_wait(&together);
    hf_status status = hf_lock_acquire(lock, 20000, &hold);
    if (status == HF_OK)
        status = hf_hold_release(hold);
    if (status == HF_OK)
        done++;
    hf_hold_close(hold);
    return NULL;
}

/* Return how many connections the server has accepted since it began. */
static long connections_ever(void) {
    const char *info = STRING("INFO stats");
    return atol(strstr(info, "total_connections_received:") +
                strlen("total_connections_received:"));
}

/* All threads ask for one lock; or each for its own. */
static void test_a_crowd_that_comes_at_once_takes_few_connections(void **state) {
    (void)state;
    for (int locks = 1; locks <= CROWD; locks += CROWD - 1) {
        hf_client *client = opened(tcp_url(), NULL);
        hf_lock *lock[CROWD];
        pthread_t threads[CROWD];
        long before = connections_ever();
        done = 0;
        pthread_barrier_init(&together, NULL, CROWD);
        for (int i = 0; i < CROWD; i++) {
            const char *name = text("stock %d", i % locks);
            assert_status(hf_lock_open(client, name, strlen(name), NULL, 0, NULL, &lock[i]), HF_OK);
            assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, lock[i]), 0);
        }
        for (int i = 0; i < CROWD; i++) {
            pthread_join(threads[i], NULL);
            hf_lock_close(lock[i]);
        }
        pthread_barrier_destroy(&together);
        hf_client_close(client);
        assert_int_equal(done, CROWD);
        /* Besides the client's first connection. */
        assert_in_range(connections_ever() - before, 0, 2 + FOR_A_SLOW_MACHINE);
    }
}

/* ------------------------------------------------------------------- Lazy */

static void test_a_lazy_client_connects_at_its_first_call(void **state) {
    hf_client_options lazy = {.size = sizeof lazy, .lazy = HF_ON, .connect_timeout_ms = 20000};
    hf_client *idle;
    hf_lock *lock;
    (void)state;
    int64_t before = connections_ever();
    assert_status(hf_client_open(getenv("HOLDFAST_TEST_URL"), &lazy, &idle), HF_OK);
    assert_int_equal(connections_ever(), before);
    lock = lease_lock(idle, "lazy", 60000, HF_OFF);
    give_back(held(lock), HF_OK);
    assert_int_equal(connections_ever(), before + 1);
    hf_lock_close(lock);
    hf_client_close(idle);
    /* No server is there, which the first call reports; a bad address is reported at once. */
    lazy.connect_timeout_ms = 300;
    assert_status(hf_client_open("redis://127.0.0.1:1?lazy=on", &lazy, &idle), HF_OK);
    lock = lease_lock(idle, "lazy", 1000, HF_OFF);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_ECONNECT);
    assert_status(hf_lock_acquire(lock, 100, NULL), HF_ECONNECT);
    hf_lock_close(lock);
    hf_client_close(idle);
    assert_status(hf_client_open("redis://127.0.0.1:x?lazy=on", NULL, &idle), HF_EINVAL);
    assert_status(hf_client_open("redis://127.0.0.1:1?lazy=perhaps", NULL, &idle), HF_EINVAL);
    lazy.lazy = 3;
    assert_status(hf_client_open("redis://127.0.0.1:1", &lazy, &idle), HF_EINVAL);
    assert_status(
        hf_client_open("redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", &lazy, &idle),
        HF_EINVAL);
}

/* ------------------------------------------------------------ A busy server */

static atomic_bool over;

static void *keep_busy(void *argument) {
    /* A script of some 300 ms that does nothing else. */
    freeReplyObject(
        redisCommand(argument, "EVAL %s 0",
                     "local t = redis.call('TIME') local till = t[1] * 1000000 + t[2] + 300000 "
                     "repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > till"));
    over = true;
    return NULL;
}

static bool is_busy(void) {
    redisReply *reply = ask("PING");
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY", 4) == 0;
}

static void test_a_server_that_is_busy_is_waited_for(void **state) {
    pthread_t thread;
    redisContext *context = connect_raw();
    hf_client *client = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, NULL);
    (void)state;
    TELL("CONFIG SET lua-time-limit 20");
    over = false;
    assert_int_equal(pthread_create(&thread, NULL, keep_busy, context), 0);
    assert_soon(is_busy() || over);
    hf_hold *hold = held(lock);
    pthread_join(thread, NULL);
    give_back(hold, HF_OK);
    TELL("CONFIG SET lua-time-limit 5000");
    hf_lock_close(lock);
    hf_client_close(client);
    redisFree(context);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_all_connections_have_the_clients_name),
        TEST(test_a_client_may_be_given_a_name),
        TEST(test_a_user_who_may_not_say_its_name_is_served_all_the_same),
        TEST(test_the_keep_alive_is_as_asked_for_on_all_connections),
        TEST(test_threads_of_a_client_have_few_connections),
        TEST(test_a_call_waits_for_a_connection_within_its_time),
        TEST(test_who_holds_does_not_wait_behind_who_acquires),
        TEST(test_a_password_file_that_blocks_delays_nobody_who_holds),
        TEST(test_a_crowd_that_comes_at_once_takes_few_connections),
        TEST(test_a_lazy_client_connects_at_its_first_call),
        TEST(test_a_server_that_is_busy_is_waited_for),
    };
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

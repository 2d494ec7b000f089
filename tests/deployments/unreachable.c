/* Servers that cannot be reached, in each way: every call and every started operation ends in its
 * time, and no thread spins. */
#include "servers.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { CONNECT_MS = 250, SLACK_MS = 8000 }; /* the machine may pause */
static int port;
static pid_t pid;

static int start_all(void **state) { return open_folder(state); }
static int stop_all(void **state) { return remove_folder(state); }

static int set_up(void **state) {
    (void)state;
    alarm(60);
    port = free_port();
    pid = START("--port", number(port), "--save", "");
    assert_soon(answers(port));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    stop_server(&pid);
    return 0;
}

static hf_client *opened(int at) {
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = CONNECT_MS, .command_timeout_ms = CONNECT_MS};
    hf_client *client;
    assert_soon(hf_client_open(text("redis://127.0.0.1:%d", at), &options, &client) == HF_OK);
    return client;
}

static hf_client *opened_with_patience(void) { return open_at(text("redis://127.0.0.1:%d", port)); }

static hf_hold *soon_held(hf_lock *lock) {
    hf_hold *hold;
    assert_soon(hf_lock_acquire(lock, 0, &hold) == HF_OK);
    return hold;
}

/* Let a socket listen in the server's place. */
static int listen_instead(int backlog) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    stop_server(&pid);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

/* Its backlog is full: a new connection gets no answer. */
static int crowd[8];
static int black_hole(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = listen_instead(0);
    for (size_t i = 0; i < COUNT(crowd); i++) {
        crowd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(crowd[i], (struct sockaddr *)&address, sizeof address);
    }
    return fd;
}

static void end_crowd(int fd) {
    for (size_t i = 0; i < COUNT(crowd); i++)
        close(crowd[i]);
    close(fd);
}

/* ------------------------------------------------------------------ In time */

/* Check that the call ends within its timeout and one connect timeout, in any way except held. */
#define assert_in_time(timeout_ms, call)                                                           \
    do {                                                                                           \
        int64_t before_ = now_ms();                                                                \
        hf_status status_ = (call);                                                                \
        if (status_ != HF_ECONNECT && status_ != HF_EUNKNOWN && status_ != HF_ETIMEOUT)            \
            fail_msg("%s answered %s", #call, hf_status_name(status_));                            \
        assert_in_range(now_ms() - before_, 0, (timeout_ms) + CONNECT_MS + SLACK_MS);              \
    } while (0)

typedef struct waiting {
    hf_lock *lock;
    int64_t timeout_ms, took_ms;
    hf_status status;
    pthread_t thread;
} waiting;

static void *wait_for_it(void *argument) {
    waiting *w = argument;
    int64_t before = now_ms();
    w->status = hf_lock_acquire(w->lock, w->timeout_ms, NULL);
    w->took_ms = now_ms() - before;
    return NULL;
}

static void everything_ends_in_time(int (*vanish)(void)) {
    hf_client *client = opened(port), *other = opened_with_patience();
    hf_lock *mine = lease_lock(client, "mine", 20000, HF_ON),
            *theirs = lease_lock(other, "theirs", 20000, HF_ON),
            *wanted = lease_lock(client, "theirs", 20000, HF_ON),
            *third = lease_lock(client, "third", 20000, HF_ON);
    hf_lock_info info = {.size = sizeof info};
    hf_hold *first = soon_held(mine), *second = soon_held(mine), *third_hold = soon_held(mine),
            *hold = held(theirs);
    waiting w = {.lock = wanted, .timeout_ms = 1500}; /* in the queue when it happens */
    pthread_create(&w.thread, NULL, wait_for_it, &w);
    assert_soon(tell(port, "ZCOUNT {theirs}theirs:hf1:q 0 9007199254740992")->integer == 1);
    assert_status(hf_lock_acquire_start(wanted, "me", 2, 1500, NULL, 1), HF_OK); /* and this one */
    assert_soon(tell(port, "ZCOUNT {theirs}theirs:hf1:q 0 9007199254740992")->integer == 2);

    int fd = vanish();
    int64_t began = now_ms();
    assert_status(hf_lock_acquire_start(third, "me", 2, 0, NULL, 2), HF_OK);
    assert_status(hf_lock_acquire_start(third, "me", 2, 500, NULL, 3), HF_OK);
    assert_status(hf_hold_release_start(third_hold, 4), HF_OK);
    assert_in_time(0, hf_lock_acquire(third, 0, NULL));
    assert_in_time(300, hf_lock_acquire(third, 300, NULL));
    assert_in_time(0, hf_hold_renew(first));
    assert_in_time(0, hf_hold_check(first));
    assert_in_time(0, hf_hold_extend(first, 1000, 0));
    assert_in_time(0, hf_lock_inspect(third, 0, &info, NULL));
    assert_in_time(0, hf_lock_break(third, 1, 0));
    assert_in_time(0, hf_hold_release(first));
    pthread_join(w.thread, NULL);
    assert_true(w.status == HF_ETIMEOUT || w.status == HF_EUNKNOWN || w.status == HF_ECONNECT);
    assert_in_range(w.took_ms, 0, 1500 + CONNECT_MS + SLACK_MS);

    for (int left = 4; left > 0;) {
        hf_completion c = {.size = sizeof c};
        struct pollfd readable = {.fd = hf_client_fd(client), .events = POLLIN};
        assert_int_equal(poll(&readable, 1, 5000), 1);
        assert_status(hf_client_next(client, &c), HF_OK);
        if (c.kind == HF_KIND_NONE)
            continue;
        assert_true(c.kind == HF_KIND_ACQUIRE || c.kind == HF_KIND_RELEASE);
        assert_int_not_equal(c.status, HF_OK);
        left--;
    }
    assert_in_range(now_ms() - began, 0, 8 * (CONNECT_MS + SLACK_MS) + 300);
    end_crowd(fd);
    int64_t before = now_ms();
    hf_client_close(client);
    hf_client_close(other);
    assert_in_range(now_ms() - before, 0, 2 * (CONNECT_MS + SLACK_MS));
    hf_hold *holds[] = {first, second, third_hold, hold};
    for (size_t i = 0; i < COUNT(holds); i++)
        hf_hold_close(holds[i]);
    hf_lock *locks[] = {mine, theirs, wanted, third};
    for (size_t i = 0; i < COUNT(locks); i++)
        hf_lock_close(locks[i]);
}

static int go_away(void) {
    stop_server(&pid);
    for (size_t i = 0; i < COUNT(crowd); i++)
        crowd[i] = -1;
    return -1;
}

/* Let the server accept connections, and send nothing. */
static int fall_silent(void) {
    go_away();
    return listen_instead(128);
}

static void test_calls_to_a_black_hole_end_in_time(void **state) {
    (void)state;
    everything_ends_in_time(black_hole);
}

static void test_calls_to_nobody_end_in_time(void **state) {
    (void)state;
    everything_ends_in_time(go_away);
}

static void test_calls_to_a_silent_server_end_in_time(void **state) {
    (void)state;
    everything_ends_in_time(fall_silent);
}

static void test_to_open_a_client_on_a_black_hole_takes_one_connect_timeout(void **state) {
    (void)state;
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = CONNECT_MS};
    hf_client *client;
    int fd = black_hole();
    int64_t before = now_ms();
    assert_in_time(0, hf_client_open(text("redis://127.0.0.1:%d", port), &options, &client));
    assert_true(now_ms() - before >= CONNECT_MS - 20); /* one connect timeout */
    assert_message("cannot reach redis://127.0.0.1:");
    end_crowd(fd);
}

/* ------------------------------------------------------------ Without haste */

static int64_t cpu_ms(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static atomic_int attempts;

/* Accept each connection, count it, and close it. */
static void *slam(void *argument) {
    int fd, listener = *(int *)argument;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        attempts++;
        close(fd);
    }
    return NULL;
}

static void test_a_connection_that_stays_broken_is_tried_now_and_then(void **state) {
    (void)state;
    hf_client *client = opened(port), *other = opened_with_patience();
    hf_lock *mine = lease_lock(client, "mine", 6000, HF_ON),
            *theirs = lease_lock(other, "theirs", 60000, HF_ON),
            *wanted = lease_lock(client, "theirs", 60000, HF_ON);
    hf_hold *first = soon_held(mine), /* is renewed */
        *hold = held(theirs);
    pthread_t slammer;
    waiting w = {.lock = wanted, .timeout_ms = 2500}; /* needs its subscription */
    pthread_create(&w.thread, NULL, wait_for_it, &w);
    assert_soon(tell(port, "ZCOUNT {theirs}theirs:hf1:q 0 9007199254740992")->integer == 1);
    int listener = listen_instead(128);
    attempts = 0;
    pthread_create(&slammer, NULL, slam, &listener);
    int64_t cpu = cpu_ms();
    assert_in_time(1500, hf_lock_acquire(wanted, 1500, NULL)); /* a call that tries all the time */
    pthread_join(w.thread, NULL);
    sleep_ms(500);
    print_message("%d attempts, %d ms of a CPU in 3 s\n", attempts, (int)(cpu_ms() - cpu));
    assert_in_range(attempts, 1, 200); /* without a pause there would be thousands */
    assert_in_range(cpu_ms() - cpu, 0, 300);
    shutdown(listener, SHUT_RDWR);
    pthread_join(slammer, NULL);
    close(listener);
    hf_client_close(client);
    hf_client_close(other);
    hf_hold_close(first);
    hf_hold_close(hold);
    hf_lock_close(mine);
    hf_lock_close(theirs);
    hf_lock_close(wanted);
}

/* --------------------------------------------------- Two servers behind one address */

static int second_port;

typedef struct relay {
    int from, to;
} relay;

static int connect_to(int there) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)there),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Pass commands to one server, and a connection that subscribes to the other. */
static void *converse(void *argument) {
    relay r = *(relay *)argument;
    char bytes[16384];
    free(argument);
    r.to = connect_to(port);
    for (bool good = r.to >= 0; good;) {
        struct pollfd fds[] = {{.fd = r.from, .events = POLLIN}, {.fd = r.to, .events = POLLIN}};
        poll(fds, 2, -1);
        int end = fds[0].revents != 0 ? 0 : 1;
        ssize_t length = recv(fds[end].fd, bytes, sizeof bytes, 0);
        if (end == 0 && length > 0 && memmem(bytes, (size_t)length, "\nSUBSCRIBE", 10)) {
            close(r.to);
            fds[1].fd = r.to = connect_to(second_port);
        }
        good = length > 0 && send(fds[1 - end].fd, bytes, (size_t)length, MSG_NOSIGNAL) == length;
    }
    close(r.from);
    close(r.to);
    return NULL;
}

static void *relay_all(void *argument) {
    int fd, listener = *(int *)argument;
    pthread_t thread;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        relay *r = malloc(sizeof *r);
        r->from = fd;
        if (pthread_create(&thread, NULL, converse, r) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

static void test_a_subscription_to_another_server_is_not_relied_on(void **state) { /* M7 */
    (void)state;
    second_port = free_port();
    pid_t second = START("--port", number(second_port), "--save", "");
    assert_soon(answers(second_port));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    pthread_t relayer;
    pthread_create(&relayer, NULL, relay_all, &listener);

    hf_client *client = opened(ntohs(address.sin_port)), *other = opened_with_patience();
    hf_lock *theirs = lease_lock(other, "stock", 20000, HF_ON),
            *mine = lease_lock(client, "stock", 20000, HF_ON);
    for (int i = 0; i < 2; i++) {
        hf_hold *hold = held(theirs);
        waiting w = {.lock = mine, .timeout_ms = 20000};
        pthread_create(&w.thread, NULL, wait_for_it, &w);
        sleep_ms(i == 0 ? 2500 : 200); /* the client has found out, and polls */
        assert_soon(tell(port, "ZCOUNT {stock}stock:hf1:q 0 9007199254740992")->integer == 0);
        assert_status(hf_hold_release(hold), HF_OK);
        pthread_join(w.thread, NULL);
        assert_int_equal(w.status, HF_OK);
        assert_status(hf_lock_release_as(mine, NULL, 0), HF_ENOTHELD); /* held by another thread */
        assert_status(hf_lock_break(theirs, read_stored(tell(port, "HGETALL stock")).fence, 0),
                      HF_OK);
        hf_hold_close(hold);
    }
    hf_lock_close(theirs);
    hf_lock_close(mine);
    hf_client_close(client);
    hf_client_close(other);
    shutdown(listener, SHUT_RDWR);
    pthread_join(relayer, NULL);
    close(listener);
    stop_server(&second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        TEST(test_calls_to_a_black_hole_end_in_time),
        TEST(test_calls_to_nobody_end_in_time),
        TEST(test_calls_to_a_silent_server_end_in_time),
        TEST(test_to_open_a_client_on_a_black_hole_takes_one_connect_timeout),
        TEST(test_a_connection_that_stays_broken_is_tried_now_and_then),
        TEST(test_a_subscription_to_another_server_is_not_relied_on),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, start_all, stop_all);
}

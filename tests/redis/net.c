/* The pool's order and limit, and dials, from within. */
#include "../network.h"
#include "../transport.h"

#include "net/dial.h"
#include "net/pool.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int afresh(void **state) {
    (void)state;
    start_afresh();
    return 0;
}

static hf_discovery *discovered(void) {
    hf_address address;
    hf_discovery *discovery;
    int64_t deadline;
    read_address(tcp_url(), &address);
    assert_status(hf_discovery_open(&address, &deadline, &discovery), HF_OK);
    return discovery;
}

static void *connect_in_vain(void *discovery) {
    hf_connection *connection;
    return (void *)(intptr_t)hf_discovery_connect(discovery, 0, HF_NO_DEADLINE, &connection);
}

/* C12: also while the socket is being connected. */
static void test_a_child_has_no_copy_of_a_socket(void **state) {
    int port, fillers[FILLERS], listener = listen_in_vain(&port, fillers), status = -1, type;
    socklen_t size = sizeof type;
    hf_address address;
    hf_discovery *discovery;
    int64_t deadline;
    pthread_t thread;
    void *outcome;
    (void)state;
    read_address(text("redis://127.0.0.1:%d?connect_timeout=2", port), &address);
    assert_status(hf_discovery_open(&address, &deadline, &discovery), HF_OK);
    int next = dup(listener);
    close(next); /* the socket will have this number */
    assert_int_equal(pthread_create(&thread, NULL, connect_in_vain, discovery), 0);
    assert_soon(getsockopt(next, SOL_SOCKET, SO_TYPE, &type, &size) == 0);
    assert_int_equal(fcntl(next, F_GETFD), FD_CLOEXEC);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(fcntl(next, F_GETFD) == -1 ? 0 : 1);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    pthread_join(thread, &outcome);
    assert_ptr_equal(outcome, HF_ECONNECT);
    for (size_t i = 0; i < FILLERS; i++)
        close(fillers[i]);
    close(listener);
    hf_discovery_drop(discovery);
}

typedef struct guest {
    hf_address address;
    hf_socket socket;
    pthread_t thread;
    _Atomic bool over;
} guest;

static void *visit_it(void *argument) {
    guest *one = argument;
    hf_status status = hf_socket_connect(&one->socket, &one->address, hf_after(hf_now(), 20000));
    one->over = true;
    return (void *)(intptr_t)status;
}

/* Linux reports at once that the backlog of a unix socket is full. */
static void test_a_full_unix_socket_is_waited_for(void **state) {
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fillers[FILLERS], count = 0;
    guest one = {.over = false};
    void *outcome;
    (void)state;
    snprintf(place.sun_path, sizeof place.sun_path, "/tmp/holdfast-full-%ld", (long)getpid());
    assert_int_equal(bind(door, (struct sockaddr *)&place, sizeof place), 0);
    assert_int_equal(listen(door, 0), 0);
    for (; count < FILLERS; count++) {
        fillers[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(fillers[count], (struct sockaddr *)&place, sizeof place) != 0)
            break;
    }
    assert_in_range(count, 1, FILLERS - 1);
    read_address(text("unix://%s", place.sun_path), &one.address);
    assert_status(hf_socket_connect(&one.socket, &one.address, hf_after(hf_now(), 30)),
                  HF_ECONNECT);
    assert_message("timed out");
    assert_int_equal(pthread_create(&one.thread, NULL, visit_it, &one), 0);
    sleep_ms(100);
    assert_false(one.over);
    while (!one.over) { /* until there is room again */
        struct pollfd comes = {.fd = door, .events = POLLIN};
        if (poll(&comes, 1, 10) == 1)
            close(accept(door, NULL, NULL));
    }
    pthread_join(one.thread, &outcome);
    assert_ptr_equal(outcome, HF_OK);
    hf_socket_close(&one.socket);
    hf_address_free(&one.address);
    for (; count >= 0; count--)
        close(fillers[count]);
    close(door);
    unlink(place.sun_path);
}

/* Resolve a name to an address of either family, in place of a name server. */
int __real_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **places);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **places);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **places) {
    if (strcmp(name, "both.test") == 0)
        name = hints->ai_family == AF_INET ? "127.0.0.1" : "::1";
    return __real_getaddrinfo(name, service, hints, places);
}

static void test_ipv6_is_tried_where_ipv4_never_answers(void **state) {
    int port, fillers[FILLERS], listener = listen_in_vain(&port, fillers);
    int six = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 place = {.sin6_family = AF_INET6,
                                 .sin6_port = htons((uint16_t)port),
                                 .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    hf_address address;
    hf_socket found = {.fd = -1};
    (void)state;
    bool six_works = bind(six, (struct sockaddr *)&place, sizeof place) == 0 && listen(six, 8) == 0;
    if (six_works) {
        read_address(text("redis://both.test:%d", port), &address);
        assert_status(hf_socket_connect(&found, &address, hf_after(hf_now(), 3000)), HF_OK);
        hf_socket_close(&found);
        hf_address_free(&address);
    }
    for (size_t i = 0; i < FILLERS; i++)
        close(fillers[i]);
    close(listener);
    close(six);
    if (!six_works)
        skip(); /* this machine has no IPv6 */
}

static void test_a_look_that_begins_too_late_says_so(void **state) {
    hf_address address;
    hf_discovery *discovery;
    int64_t deadline;
    (void)state;
    read_address("redis+cluster://127.0.0.1:1", &address);
    address.options.lazy = HF_ON;
    assert_status(hf_discovery_open(&address, &deadline, &discovery), HF_OK);
    hf_explain("an older message");
    assert_status(hf_discovery_refresh(discovery, hf_now()), HF_ECONNECT);
    assert_message("no answer in time");
    hf_discovery_drop(discovery);
}

static int64_t soon(void) { return hf_after(hf_now(), 10000); }

/* ------------------------------------------------------------------ Pool */

static hf_pool *pool;
static atomic_int served;

typedef struct caller {
    pthread_t thread;
    _Atomic pid_t id;
    int turn; /* the order in which it was served */
} caller;

static hf_status take(int how, int64_t deadline, hf_connection **connection) {
    int64_t now = hf_now();
    return hf_pool_take(pool, 0, how, deadline, &now, connection);
}

static void *take_one(void *argument) {
    caller *who = argument;
    hf_connection *connection;
    who->id = (pid_t)syscall(SYS_gettid);
    if (take(HF_POOL_ALONE, soon(), &connection) != HF_OK)
        abort();
    who->turn = atomic_fetch_add(&served, 1); /* before the next caller can be served */
    hf_pool_give(pool, connection, true);
    return NULL;
}

/* Return whether the thread waits in the queue: the system reports it asleep. */
static bool sleeps(const caller *who) {
    char state = 0;
    if (who->id == 0)
        return false;
    FILE *file = fopen(text("/proc/self/task/%d/stat", (int)who->id), "r");
    if (file != NULL) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = 0;
        fclose(file);
    }
    return state == 'S';
}

static void test_calls_are_served_in_their_order(void **state) {
    (void)state;
    enum { CALLERS = 12 };
    caller callers[CALLERS];
    hf_connection *all[HF_POOL_EACH];
    hf_discovery *discovery = discovered();
    pool = hf_pool_new(discovery);
    served = 0;
    for (int i = 0; i < HF_POOL_EACH; i++)
        assert_status(take(HF_POOL_ALONE, soon(), &all[i]), HF_OK);
    for (int i = 0; i < CALLERS; i++) {
        callers[i].id = 0;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, take_one, &callers[i]), 0);
        assert_soon(sleeps(&callers[i]));
    }
    hf_pool_give(pool, all[0], true);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(callers[i].turn, i);
    hf_pool_give(pool, all[1], true);
    hf_pool_free(pool);
    hf_discovery_drop(discovery);
}

static int connections(void) {
    const char *at = STRING("CLIENT LIST TYPE normal");
    int count = 0;
    while ((at = strstr(at, " name=holdfast ")) != NULL) {
        count++;
        at++;
    }
    return count;
}

static void *take_many(void *argument) {
    for (int i = 0; i < 200; i++) {
        hf_connection *connection;
        redisReply *reply;
        if (take(HF_POOL_ALONE, soon(), &connection) != HF_OK ||
            hf_connection_ask(connection, soon(), 1, &(const hf_words){1, {"PING"}}, &reply) !=
                HF_OK)
            abort();
        freeReplyObject(reply);
        hf_pool_give(pool, connection, i % 50 != 49);
    }
    return argument;
}

static void test_there_are_as_many_connections_as_there_may_be(void **state) {
    (void)state;
    enum { THREADS = 24 };
    hf_connection *all[HF_POOL_EACH], *more;
    hf_discovery *discovery = discovered();
    pool = hf_pool_new(discovery);
    run_together(THREADS, take_many, NULL, 0);
    assert_soon(connections() <= HF_POOL_EACH); /* the server has noticed the closed ones */
    for (int i = 0; i < HF_POOL_EACH; i++)
        assert_status(take(HF_POOL_ALONE, soon(), &all[i]), HF_OK);
    assert_status(take(HF_POOL_ALONE, hf_after(hf_now(), 20), &more), HF_ECONNECT);
    assert_message("all connections were in use");
    assert_int_equal(connections(), HF_POOL_EACH);
    for (int i = 0; i < HF_POOL_EACH; i++)
        hf_pool_give(pool, all[i], true);
    hf_pool_free(pool);
    assert_soon(connections() == 0);
    hf_discovery_drop(discovery);
}

/* All calls that may join use the last connection, so none of them waits. */
static void test_calls_that_may_join_need_not_wait(void **state) {
    (void)state;
    hf_connection *one, *others[20];
    hf_discovery *discovery = discovered();
    pool = hf_pool_new(discovery);
    assert_status(take(HF_POOL_JOINS, soon(), &one), HF_OK);
    assert_false(one->joint.on);
    for (int i = 0; i < 20; i++) {
        assert_status(take(HF_POOL_JOINS, soon(), &others[i]), HF_OK);
        assert_ptr_equal(others[i], others[0]);
        assert_true(others[i]->joint.on);
    }
    assert_int_equal(connections(), HF_POOL_EACH);
    hf_pool_give(pool, one, true);
    for (int i = 0; i < 20; i++)
        hf_pool_give(pool, others[i], true);
    hf_pool_free(pool);
    hf_discovery_drop(discovery);
}

/* The keeper gets the next connection that is returned, before all waiting calls; or a further one,
 * if it cannot wait. */
static void test_the_keeper_has_a_connection_of_the_pool(void **state) {
    (void)state;
    hf_connection *all[HF_POOL_EACH], *lent, *more;
    hf_discovery *discovery = discovered();
    caller other = {.id = 0};
    pool = hf_pool_new(discovery);
    for (int i = 0; i < HF_POOL_EACH; i++)
        assert_status(take(HF_POOL_ALONE, soon(), &all[i]), HF_OK);
    assert_int_equal(hf_pool_lend(pool, 0, HF_OPENS, hf_now(), &lent), HF_LATER);
    assert_int_equal(pthread_create(&other.thread, NULL, take_one, &other), 0);
    assert_soon(sleeps(&other));
    hf_pool_give(pool, all[0], true);
    assert_status(take(HF_POOL_ALONE, hf_after(hf_now(), 20), &more), HF_ECONNECT);
    assert_int_equal(hf_pool_lend(pool, 0, HF_OPENS, hf_now(), &lent), HF_LENT);
    assert_ptr_equal(lent, all[0]);
    assert_int_equal(hf_pool_lend(pool, 0, HF_OPENS_MORE, hf_now(), &more), HF_OPEN);
    hf_pool_give(pool, lent, true); /* before the new connection is open */
    assert_int_equal(hf_pool_lend(pool, 0, HF_OPENS_NONE, hf_now(), &more), HF_LENT);
    assert_ptr_equal(more, lent);
    hf_pool_opened(pool, 0, NULL, HF_ECONNECT);
    hf_pool_give(pool, lent, true);
    pthread_join(other.thread, NULL);
    hf_pool_give(pool, all[1], true);
    hf_pool_free(pool);
    hf_discovery_drop(discovery);
}

/* ----------------------------------------------------------------- Dials */

/* Wait for the descriptor as the keeper does. */
static hf_status end_of(hf_dial *dial, hf_connection **connection) {
    hf_status status = HF_EINVAL;
    eventfd_t times;
    while (!hf_dial_take(dial, connection, &status))
        assert_int_equal(eventfd_read(wake, &times), 0);
    return status;
}

static redisReply *driven(hf_connection *connection) {
    redisReply *reply = NULL;
    while (reply == NULL) {
        struct pollfd fd = {.fd = connection->socket.fd,
                            .events = hf_connection_events(connection)};
        assert_int_equal(poll(&fd, 1, 10000), 1);
        assert_status(hf_connection_drive(connection), HF_OK);
        assert_status(hf_connection_next(connection, &reply), HF_OK);
    }
    return kept(reply);
}

static void test_a_dial_brings_a_connection_that_does_not_block(void **state) {
    (void)state;
    hf_connection *connection;
    redisReply *none;
    open_transport(text("%s/3", tcp_url()));
    hf_dial *dial = hf_dial_start(transport, 0);
    assert_non_null(dial);
    assert_status(end_of(dial, &connection), HF_OK);
    assert_status(hf_connection_drive(connection), HF_OK); /* it reports that nothing is there */
    assert_status(hf_connection_next(connection, &none), HF_OK);
    assert_null(none);
    const char *words[] = {"CLIENT", "INFO"};
    assert_true(hf_connection_append_words(connection, 2, words, NULL));
    const char *info = driven(connection)->str;
    assert_non_null(strstr(info, " name=holdfast "));
    assert_non_null(strstr(info, " db=3 "));
    hf_connection_close(connection);
    close_transport();
}

static void test_a_dial_that_fails_says_why(void **state) {
    (void)state;
    hf_connection *connection;
    TELL("ACL SETUSER ann reset on >right ~* &* +@all");
    open_transport(text("redis://ann:right@%s", tcp_url() + strlen("redis://")));
    TELL("ACL SETUSER ann resetpass >other");
    hf_dial *dial = hf_dial_start(transport, 0);
    hf_explain("nothing yet");
    assert_status(end_of(dial, &connection), HF_EAUTH);
    assert_null(connection);
    assert_message("refused the user or the password");
    close_transport();
    TELL("ACL DELUSER ann");
}

/* AUTH fits into the small buffer, and the rest does not. */
static void test_no_password_stays_with_a_connection(void **state) {
    (void)state;
    char secret[441] = "";
    hf_connection *connection;
    memset(secret, 's', sizeof secret - 1);
    TELL("ACL SETUSER ann reset on >%s ~* &* +@all", secret);
    open_transport(text("redis://ann:%s@%s", secret, tcp_url() + strlen("redis://")));
    assert_status(hf_discovery_connect(transport->discovery, 0, soon(), &connection), HF_OK);
    const hf_bytes *output = &connection->output;
    assert_ptr_not_equal(output->data, output->small);
    assert_null(memmem(output->data, output->capacity, "sss", 3));
    assert_null(memmem(output->small, sizeof output->small, "sss", 3));
    hf_connection_close(connection);
    close_transport();
    TELL("ACL DELUSER ann");
}

/* The dial hangs in its connect when its transport is freed; the leak checkers look at the rest. */
static void test_a_dial_outlives_its_transport(void **state) {
    (void)state;
    proxy *p = proxy_start();
    open_transport(text("redis://127.0.0.1:%d?connect_timeout=0.3", p->port));
    hf_dial *dropped = hf_dial_start(transport, 0);
    hf_dial *kept_one = hf_dial_start(transport, 0);
    hf_dial_drop(dropped);
    hf_dial_drop(NULL);
    close_transport();
    hf_connection *connection;
    hf_status status;
    assert_soon(hf_dial_take(kept_one, &connection, &status));
    hf_connection_close(connection);
    proxy_stop(p); /* when the dropped connection is closed, too */
}

static void test_a_forked_child_does_not_dial(void **state) {
    (void)state;
    hf_generation_watch();
    open_transport(tcp_url());
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(hf_dial_start(transport, 0) == NULL ? 0 : 1);
    int status = -1;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    close_transport();
}

#define TEST(name) cmocka_unit_test_setup(name, afresh)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_child_has_no_copy_of_a_socket),
        TEST(test_a_full_unix_socket_is_waited_for),
        TEST(test_ipv6_is_tried_where_ipv4_never_answers),
        TEST(test_a_look_that_begins_too_late_says_so),
        TEST(test_calls_are_served_in_their_order),
        TEST(test_there_are_as_many_connections_as_there_may_be),
        TEST(test_calls_that_may_join_need_not_wait),
        TEST(test_the_keeper_has_a_connection_of_the_pool),
        TEST(test_a_dial_brings_a_connection_that_does_not_block),
        TEST(test_a_dial_that_fails_says_why),
        TEST(test_no_password_stays_with_a_connection),
        TEST(test_a_dial_outlives_its_transport),
        TEST(test_a_forked_child_does_not_dial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Shared by the scenarios. A scenario is a fault that was found, as the order of events that showed
 * it, in virtual time. The programs are on host 2, the server is on host 1; raw() and unix_url() go
 * past the network. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "../../faults/faults.h"

#include "lock/client.h"
#include "protocol/scripts.h"
#include "servers.h"

enum { SERVER = 1, HERE = 2 }; /* hosts */

/* Begin a scenario in a kind world. */
static inline int begin_scenario(void **state) {
    int result = begin_fault(state);
    sim_way(HERE, SERVER, true);
    sim_way(SERVER, HERE, true);
    sim_server_pause(servers_at(0), false);
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    servers_limit(0, 0);
    TELL("ACL SETUSER default on nopass ~* &* +@all");
    TELL("SCRIPT FLUSH");
    return result;
}

static inline int end_scenario(void **state) {
    (void)state;
    return 0;
}

/* Open a client with a time to connect and a time for an answer. */
static inline hf_client *open_with(const char *url, int64_t connect_ms, int64_t command_ms) {
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = connect_ms, .command_timeout_ms = command_ms};
    hf_client *client;
    assert_status(hf_client_open(url, &options, &client), HF_OK);
    return client;
}

static inline const char *url_of(const proxy *way) {
    return text("redis://127.0.0.1:%d", way->port);
}

/* Acquire and release a lock by started operations, so that the client's own thread is connected
 * and the server knows the scripts. */
static inline void warm_up(hf_client *client) {
    hf_lock *lock = lease_lock(client, "warm", 1000, HF_OFF);
    assert_true(hf_client_fd(client) >= 0);
    for (int i = 0; i < 2; i++) {
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
        hf_completion done = next_of(client);
        assert_status(done.status, HF_OK);
        assert_status(hf_hold_renew(done.hold), HF_OK);
        assert_status(hf_hold_release_start(done.hold, 1), HF_OK);
        assert_status(next_of(client).status, HF_OK);
        hf_hold_close(done.hold);
    }
    hf_lock_close(lock);
}

/* Return how many connections the server has accepted so far. */
static inline int64_t connects(void) {
    return atoll(strstr(STRING("INFO stats"), "total_connections_received:") + 27);
}

static inline void stand_still(void *process) { sim_pause(process); }
static inline void go_on(void *process) { sim_resume(process); }

/* Let the process stand still for a time; its threads then go on in any order. */
static inline void stands_still(sim_process *process, int after_ms, int for_ms) {
    sim_at(sim_now() + after_ms * SIM_MS, stand_still, process);
    sim_at(sim_now() + (after_ms + for_ms) * SIM_MS, go_on, process);
}

static inline void *have_the_mutex(void *of) {
    hf_client_lock(of);
    sleep_ms(700);
    hf_client_unlock(of);
    return NULL;
}

/* Start a thread that stands still for 700 ms while it has the client's mutex. */
static inline pthread_t mutex_thread(hf_client *client) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, have_the_mutex, client), 0);
    sleep_ms(1);
    return thread;
}

/* ------------------------------------------------------------------ Relays */

/* A way to a server, which may change, and which may be slow for requests. */
typedef struct relay {
    fake door;
    int port;
    int server_port;   /* the server's; 0: 6379 */
    _Atomic int host;  /* connections lead to this host's server */
    _Atomic int once;  /* the next connection leads there; or 0 */
    _Atomic int bytes; /* the most bytes at once, every 100 ms; 0: no limit */
} relay;

static inline bool relay_some(const relay *way, int from, int to) {
    char some[16384];
    int most = atomic_load(&way->bytes);
    ssize_t length = recv(from, some, most > 0 ? (size_t)most : sizeof some, 0);
    return length > 0 && say(to, some, (size_t)length);
}

static inline void relay_talk(void *of, int fd) {
    relay *way = of;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    int host = atomic_exchange(&way->once, 0);
    int port = way->server_port != 0 ? way->server_port : 6379;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr =
        htonl(0x0a000000u + (uint32_t)(host != 0 ? host : atomic_load(&way->host)));
    if (connect(server, (struct sockaddr *)&address, sizeof address) != 0)
        abort();
    for (bool goes_on = true; goes_on;) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        poll(fds, 2, -1);
        if (fds[1].revents != 0)
            goes_on = relay_some(way, server, fd);
        if (goes_on && fds[0].revents != 0) {
            goes_on = relay_some(way, fd, server);
            if (atomic_load(&way->bytes) > 0)
                sleep_ms(100);
        }
    }
    close(server);
}

static inline relay *relay_start(int host) {
    relay *way = calloc(1, sizeof *way);
    atomic_store(&way->host, host);
    fake_start_many(&way->door, relay_talk, way);
    way->port = way->door.port;
    return way;
}

/* Stop the relay after the clients have closed their connections. */
static inline void relay_stop(relay *way) {
    atomic_store(&way->bytes, 0);
    fake_stop(&way->door);
    free(way);
}

/* ------------------------------------------------------------------- Locks */

/* Check that the lock is free within within_ms, and stays free. */
static inline void assert_stays_free(const char *key, int64_t within_ms) {
    sleep_ms((int)within_ms);
    for (int64_t until = now_ms() + 3000; now_ms() < until; sleep_ms(10))
        if (NUMBER("EXISTS %s", key) != 0)
            fail_msg("%s is held, for no client", key);
}

#endif

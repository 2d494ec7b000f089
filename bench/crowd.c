/*
 * Many threads share one client, and so its connections. Each thread has a lock of its own. Prints
 * the time until all have acquired and released once, when they begin together on a new client, and
 * how many acquire and release in a second.
 *
 *     crowd HOST PORT [RTT_MS...]
 *
 * RTT_MS is added by a proxy on loopback; by default 0, 1 and 20.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMES 7 /* the median of the first figure counts */
#define SECONDS 1.0
#define THREADS_MAX 100

/* ----------------------------------------------------------------- Proxy */

static struct sockaddr_in server;
static atomic_int rtt_ms;

typedef struct relay {
    int from, to;
    bool late;
    atomic_int *open;
} relay;

/* Bytes that are on their way: a connection may carry several requests. */
typedef struct parcel {
    struct parcel *next;
    double due;
    size_t length;
    char bytes[];
} parcel;

/* Return the time until the first parcel is due, for poll(2), rounded up; -1: there is none. */
static int wait_of(const parcel *first) {
    double left = first ? first->due - now() : 0;
    return !first ? -1 : left > 0 ? (int)(left * 1000) + 1 : 0;
}

static bool deliver(parcel **first, int to) {
    while (*first && (*first)->due <= now()) {
        parcel *at = *first;
        bool sent = send(to, at->bytes, at->length, MSG_NOSIGNAL) == (ssize_t)at->length;
        *first = at->next;
        free(at);
        if (!sent)
            return false;
    }
    return true;
}

/* Collect what arrives. False: the connection has ended. */
static bool collect(const relay *mine, parcel **first) {
    char bytes[65536];
    ssize_t count = recv(mine->from, bytes, sizeof bytes, 0);
    parcel *new;

    if (count <= 0)
        return false;
    new = malloc(sizeof *new + (size_t)count);
    if (!new)
        err(1, "malloc");
    *new = (parcel){.due = now() + (mine->late ? rtt_ms / 1000.0 : 0), .length = (size_t)count};
    memcpy(new->bytes, bytes, (size_t)count);
    while (*first)
        first = &(*first)->next;
    *first = new;
    return true;
}

static void *run_relay(void *argument) {
    relay mine = *(relay *)argument;
    struct pollfd from = {.fd = mine.from, .events = POLLIN};
    parcel *first = NULL;
    bool lives = true;

    free(argument);
    while (lives) {
        int ready = poll(&from, 1, wait_of(first));
        lives = (ready <= 0 || collect(&mine, &first)) && deliver(&first, mine.to);
    }
    for (parcel *next; first; first = next) {
        next = first->next;
        free(first);
    }
    shutdown(mine.to, SHUT_RDWR);
    shutdown(mine.from, SHUT_RDWR);
    if (atomic_fetch_sub(mine.open, 1) == 1) {
        close(mine.from);
        close(mine.to);
        free(mine.open);
    }
    return NULL;
}

static void start_relay(int from, int to, bool late, atomic_int *open) {
    relay *mine = malloc(sizeof *mine);
    pthread_t thread;

    if (mine == NULL)
        err(1, "malloc");
    *mine = (relay){from, to, late, open};
    if (pthread_create(&thread, NULL, run_relay, mine) != 0)
        err(1, "pthread_create");
    pthread_detach(thread);
}

static void *run_proxy(void *argument) {
    int listener = *(int *)argument, on = 1;

    for (;;) {
        int fd = accept(listener, NULL, NULL), to = socket(AF_INET, SOCK_STREAM, 0);
        atomic_int *open = malloc(sizeof *open);
        if (fd < 0 || to < 0 || open == NULL ||
            connect(to, (struct sockaddr *)&server, sizeof server) != 0)
            err(1, "proxy");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        *open = 2;
        start_relay(fd, to, true, open);
        start_relay(to, fd, false, open);
    }
    return NULL;
}

static int start_proxy(void) {
    static int listener;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    pthread_t thread;

    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, 512) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, run_proxy, &listener) != 0)
        err(1, "proxy");
    pthread_detach(thread);
    return ntohs(address.sin_port);
}

/* --------------------------------------------------------------- Threads */

static pthread_barrier_t barrier;
static atomic_bool over;
static atomic_long pairs;

static void take_turn(hf_lock *lock) {
    hf_hold *hold;

    check(hf_lock_acquire(lock, 0, &hold));
    check(hf_hold_release(hold));
    hf_hold_close(hold);
}

static void *come_at_once(void *lock) {
    pthread_barrier_wait(&barrier);
    take_turn(lock);
    return NULL;
}

static void *go_on(void *lock) {
    long count = 0;

    pthread_barrier_wait(&barrier);
    for (; !over; count++)
        take_turn(lock);
    atomic_fetch_add(&pairs, count);
    return NULL;
}

/* Return the time from the first thread's start to the last one's end. */
static double run_threads(hf_client *client, int count, void *(*run)(void *), double seconds) {
    pthread_t threads[THREADS_MAX];
    hf_lock *locks[THREADS_MAX];
    char name[32];
    hf_lock_options options = {.size = sizeof options, .lease_ms = 60000, .renew = HF_OFF};

    over = false;
    pairs = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        int length = snprintf(name, sizeof name, "crowd-%d", i);
        check(hf_lock_open(client, name, (size_t)length, NULL, 0, &options, &locks[i]));
        if (pthread_create(&threads[i], NULL, run, locks[i]) != 0)
            err(1, "pthread_create");
    }
    pthread_barrier_wait(&barrier);
    double start = now();
    if (seconds > 0)
        usleep((useconds_t)(seconds * 1e6));
    over = true;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    double took = now() - start;
    for (int i = 0; i < count; i++)
        hf_lock_close(locks[i]);
    pthread_barrier_destroy(&barrier);
    return took;
}

static hf_client *open_client(int port) {
    char url[64];
    hf_client *client;
    hf_client_options options = {.size = sizeof options, .command_timeout_ms = 60000};

    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    check(hf_client_open(url, &options, &client));
    return client;
}

static void measure(int port, int threads) {
    double took[TIMES];

    for (int i = 0; i < TIMES; i++) {
        hf_client *client = open_client(port);
        took[i] = run_threads(client, threads, come_at_once, 0);
        hf_client_close(client);
    }
    qsort(took, TIMES, sizeof *took, by_value);
    hf_client *client = open_client(port);
    run_threads(client, threads, come_at_once, 0);
    double seconds = run_threads(client, threads, go_on, SECONDS);
    hf_client_close(client);
    printf("%6d %8d %12.1f %10.0f\n", rtt_ms, threads, took[TIMES / 2] * 1000,
           (double)pairs / seconds);
    fflush(stdout);
}

int main(int count, char **words) {
    static const int crowds[] = {2, 8, 100};
    const char *const usual[] = {"0", "1", "20"};
    int delay_count = count > 3 ? count - 3 : 3;

    if (count < 3)
        errx(2, "usage: crowd HOST PORT [RTT_MS...]");
    signal(SIGPIPE, SIG_IGN);
    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t)atoi(words[2]));
    if (inet_pton(AF_INET, words[1], &server.sin_addr) != 1)
        errx(2, "HOST must be an IPv4 address");
    int proxy = start_proxy();
    printf("%6s %8s %12s %10s\n", "RTT ms", "threads", "all once ms", "pairs/s");
    for (int i = 0; i < delay_count; i++) {
        rtt_ms = atoi(count > 3 ? words[3 + i] : usual[i]);
        for (size_t j = 0; j < sizeof crowds / sizeof *crowds; j++)
            measure(rtt_ms > 0 ? proxy : atoi(words[2]), crowds[j]);
    }
    return 0;
}

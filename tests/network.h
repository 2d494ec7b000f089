/* Listeners that misbehave: fake servers, and a proxy in front of the real server. */
#ifndef NETWORK_H
#define NETWORK_H

#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Return a socket that listens on a free port. */
static inline int listen_somewhere(int backlog, int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* A socket on which a connect takes for ever: if the backlog is full the system drops further
 * connections, as if the host were dead. */
enum { FILLERS = 8 };
static inline int listen_in_vain(int *port, int fillers[FILLERS]) {
    int fd = listen_somewhere(0, port);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)*port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (size_t i = 0; i < FILLERS; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    return fd;
}

static inline bool say(int fd, const void *bytes, size_t length) {
    return send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* ------------------------------------------------------------ Fake servers */

typedef struct fake {
    int fd, port;
    pthread_t thread;
    void (*talk)(int fd);              /* one conversation after another; */
    void (*talk_to)(void *of, int fd); /* or each on a thread of its own, with `of`: */
    void *of;
    _Atomic int talks;    /* running */
    _Atomic int accepted; /* in total */
} fake;

typedef struct visit {
    fake *at;
    int fd;
} visit;

static inline void *fake_visit(void *argument) {
    visit one = *(visit *)argument;
    free(argument);
    one.at->talk_to(one.at->of, one.fd);
    close(one.fd);
    atomic_fetch_sub(&one.at->talks, 1);
    return NULL;
}

static inline void *fake_main(void *argument) {
    fake *server = argument;
    pthread_t thread;
    int fd;
    while ((fd = accept(server->fd, NULL, NULL)) >= 0) {
        atomic_fetch_add(&server->accepted, 1);
        if (server->talk != NULL) {
            server->talk(fd);
            close(fd);
            continue;
        }
        visit *one = malloc(sizeof *one);
        *one = (visit){server, fd};
        atomic_fetch_add(&server->talks, 1);
        if (pthread_create(&thread, NULL, fake_visit, one) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

static inline void fake_begin(fake *server) {
    server->fd = listen_somewhere(64, &server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, fake_main, server), 0);
}

static inline void fake_start(fake *server, void (*talk)(int fd)) {
    *server = (fake){.talk = talk};
    fake_begin(server);
}

static inline void fake_start_many(fake *server, void (*talk_to)(void *of, int fd), void *of) {
    *server = (fake){.talk_to = talk_to, .of = of};
    fake_begin(server);
}

/* Stop the server after the clients have closed their connections. */
static inline void fake_stop(fake *server) {
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    assert_soon(atomic_load(&server->talks) == 0);
    close(server->fd);
}

/* ------------------------------------------------------------------- Proxy */

/* What happens to the next script call; all others pass. */
typedef enum {
    PASS,
    LOSE_REPLY,   /* the server runs it, and the connection ends after cut_at bytes of the answer */
    LOSE_REQUEST, /* the connection ends before the server gets it */
    LATE_REQUEST, /* the connection ends, and the server gets it later */
    LATE_REPLY,   /* the server's answer is delayed */
    HOLD_REQUEST, /* it waits until it is released */
    HOLD_REPLY,   /* the server's answer waits until it is released */
    REFUSE,       /* the proxy answers an error, and the server gets nothing */
    GO_DEAD,      /* it and later requests on its connection are lost; it stays open */
    LOSE_ALL,     /* LOSE_REPLY, also for all later ones */
} mishap;

typedef struct proxy {
    fake door;
    int port;
    _Atomic mishap next;
    const char *_Atomic only; /* a request that has these bytes is meant; NULL: any script call */
    _Atomic int again;        /* number of repetitions */
    _Atomic int mishaps;      /* how many have happened */
    _Atomic int cut_at;       /* bytes of the lost reply that arrive; then after a stall the end */
    _Atomic int stall_ms, answered; /* and how long the whole reply was */
    _Atomic int delay_ms;           /* in each direction */
    _Atomic bool holds_request, holds_reply, holds_grants;
    _Atomic bool loses_grants;
    _Atomic int grants_lost;
    _Atomic bool unsubscribes; /* tell the next listener that its subscription has ended */
    _Atomic int late_fd;       /* the late request is sent there */
    char late[65536];
    ssize_t late_length;
} proxy;

/* Bytes that are on their way. */
typedef struct parcel {
    struct parcel *next;
    int64_t due;
    const _Atomic bool *held;
    size_t length;
    char bytes[];
} parcel;

typedef struct talk {
    proxy *of;
    int fd, server;
    bool replies_held, dead, subscribes;
    parcel *requests, *answers; /* oldest first */
} talk;

static inline int connect_to_server(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, unix_url() + strlen("unix://"), sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline void post(const talk *t, parcel **last, const char *bytes, ssize_t length,
                        const _Atomic bool *held) {
    parcel *new = malloc(sizeof *new + (size_t)length);
    new->next = NULL;
    new->due = now_ms() + atomic_load(&t->of->delay_ms);
    new->held = held;
    new->length = (size_t)length;
    memcpy(new->bytes, bytes, (size_t)length);
    while (*last != NULL)
        last = &(*last)->next;
    *last = new;
}

static inline void post_answer(talk *t, const char *bytes, ssize_t length) {
    bool grant = memmem(bytes, (size_t)length, "$65\r\ng", 6) != NULL ||
                 memmem(bytes, (size_t)length, "$49\r\nr", 6) != NULL; /* or a result */
    if (grant && atomic_load(&t->of->loses_grants)) {
        atomic_fetch_add(&t->of->grants_lost, 1);
        return;
    }
    post(t, &t->answers, bytes, length,
         t->replies_held ? &t->of->holds_reply
         : grant         ? &t->of->holds_grants
                         : NULL);
}

static inline bool waits(const parcel *first) {
    return first->due > now_ms() || (first->held != NULL && atomic_load(first->held));
}

/* Deliver what is due. False: the conversation has ended. */
static inline bool deliver(parcel **first, int to) {
    while (*first != NULL && !waits(*first)) {
        parcel *next = (*first)->next;
        bool said = say(to, (*first)->bytes, (*first)->length);
        free(*first);
        *first = next;
        if (!said)
            return false;
    }
    return true;
}

/* Return the time until something may be due, or until a held parcel is looked at again. */
static inline int pause_of(const talk *t) {
    int64_t now = now_ms(), ms = t->subscribes ? 5 : -1;
    const parcel *firsts[] = {t->requests, t->answers};
    for (size_t i = 0; i < COUNT(firsts); i++) {
        if (firsts[i] == NULL)
            continue;
        int64_t left = firsts[i]->due > now ? firsts[i]->due - now : 1;
        ms = ms < 0 || left < ms ? left : ms;
    }
    return (int)ms;
}

static inline mishap take_mishap(proxy *p, const char *bytes, ssize_t length) {
    const char *only = atomic_load(&p->only);
    bool ours = only != NULL ? memmem(bytes, (size_t)length, only, strlen(only)) != NULL
                             : memmem(bytes, (size_t)length, "\r\nEVAL", 6) != NULL ||
                                   memmem(bytes, (size_t)length, "\r\nHDEL", 6) != NULL;
    if (!ours)
        return PASS;
    mishap next = atomic_load(&p->next);
    if (next != LOSE_ALL && next != PASS && atomic_fetch_sub(&p->again, 1) <= 0) {
        atomic_store(&p->next, PASS);
        atomic_store(&p->again, 0);
    }
    return next;
}

/* End the connection after a part of the answer. */
static inline void cut_reply(talk *t, const char *bytes, ssize_t length) {
    proxy *p = t->of;
    char reply[65536];
    if (!say(t->server, bytes, (size_t)length))
        return;
    ssize_t answered = recv(t->server, reply, sizeof reply, 0);
    if (answered <= 0)
        return;
    int cut_at = atomic_load(&p->cut_at);
    atomic_store(&p->answered, (int)answered);
    atomic_fetch_add(&p->mishaps, 1);
    say(t->fd, reply, (size_t)(cut_at < answered ? cut_at : answered));
    sleep_ms(atomic_load(&p->stall_ms));
}

/* Pass a request on to the server. False: the conversation ends. */
static inline bool pass_request(talk *t, const char *bytes, ssize_t length) {
    static const char refusal[] = "-ERR refused on the way\r\n";
    proxy *p = t->of;
    mishap next = take_mishap(p, bytes, length);
    bool goes_on = next != LOSE_REQUEST && next != LATE_REQUEST;
    switch (next) {
    case LOSE_REPLY:
    case LOSE_ALL:
        cut_reply(t, bytes, length);
        return false;
    case LOSE_REQUEST:
        break;
    case LATE_REQUEST:
        memcpy(p->late, bytes, (size_t)length);
        p->late_length = length;
        atomic_store(&p->late_fd, t->server);
        t->server = -1;
        break;
    case REFUSE:
        post_answer(t, refusal, sizeof refusal - 1);
        break;
    case GO_DEAD:
        t->dead = true;
        break;
    case HOLD_REQUEST:
        atomic_store(&p->holds_request, true);
        post(t, &t->requests, bytes, length, &p->holds_request);
        break;
    case HOLD_REPLY:
        atomic_store(&p->holds_reply, true);
        t->replies_held = true;
        post(t, &t->requests, bytes, length, NULL);
        break;
    case LATE_REPLY:
    case PASS:
        post(t, &t->requests, bytes, length, NULL);
    }
    goes_on = goes_on && deliver(&t->requests, t->server);
    if (next == LATE_REPLY)
        sleep_ms(300);
    if (next != PASS)
        atomic_fetch_add(&p->mishaps, 1);
    return goes_on;
}

static inline bool pass_some(talk *t, int from) {
    char bytes[65536];
    ssize_t length = recv(from, bytes, sizeof bytes, 0);
    if (length <= 0)
        return false;
    if (t->dead)
        return true;
    if (from == t->fd && memmem(bytes, (size_t)length, "SUBSCRIBE", 9) != NULL)
        t->subscribes = true;
    if (from == t->fd)
        return pass_request(t, bytes, length);
    post_answer(t, bytes, length);
    return true;
}

static inline void proxy_talk(void *of, int fd) {
    static const char ended[] = "*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n";
    talk t = {.of = of, .fd = fd, .server = connect_to_server()};
    for (bool goes_on = t.server >= 0; goes_on;) {
        struct pollfd fds[] = {{.fd = t.fd, .events = POLLIN}, {.fd = t.server, .events = POLLIN}};
        int ready = poll(fds, 2, pause_of(&t));
        if (ready > 0)
            goes_on = pass_some(&t, fds[0].revents != 0 ? t.fd : t.server);
        if (t.subscribes && atomic_exchange(&t.of->unsubscribes, false))
            post_answer(&t, ended, sizeof ended - 1);
        goes_on = goes_on && deliver(&t.requests, t.server) && deliver(&t.answers, t.fd);
    }
    for (parcel *left; (left = t.requests != NULL ? t.requests : t.answers) != NULL; free(left))
        *(t.requests != NULL ? &t.requests : &t.answers) = left->next;
    if (t.server >= 0)
        close(t.server);
}

static inline proxy *proxy_start(void) {
    proxy *p = calloc(1, sizeof *p);
    p->late_fd = -1;
    fake_start_many(&p->door, proxy_talk, p);
    p->port = p->door.port;
    return p;
}

/* Let this happen to the next script call, or with `only` to the next request that has its bytes.
 */
static inline void proxy_next(proxy *p, mishap next, const char *only) {
    atomic_store(&p->only, only);
    atomic_store(&p->next, next);
}

/* Stop the proxy after the clients have closed their connections. */
static inline void proxy_stop(proxy *p) {
    atomic_store(&p->holds_request, false);
    atomic_store(&p->holds_reply, false);
    atomic_store(&p->holds_grants, false);
    fake_stop(&p->door);
    if (p->late_fd >= 0)
        close(p->late_fd);
    free(p);
}

/* Let the late request arrive; return the server's answer to it. */
static inline const char *proxy_deliver(proxy *p) {
    char reply[4096];
    assert_soon(atomic_load(&p->late_fd) >= 0);
    assert_true(say(p->late_fd, p->late, (size_t)p->late_length));
    ssize_t length = recv(p->late_fd, reply, sizeof reply, 0);
    assert_true(length > 0);
    close(p->late_fd);
    atomic_store(&p->late_fd, -1);
    return text("%.*s", (int)length, reply);
}

#endif

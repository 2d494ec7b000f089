/* Listeners that misbehave: fake servers, and a proxy before the real one. */
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

/* A socket that listens on a free port. */
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

static inline bool say(int fd, const void *bytes, size_t length) {
    return send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* ------------------------------------------------------------ Fake servers */

typedef struct fake {
    int fd, port;
    pthread_t thread;
    void (*talk)(int fd); /* one conversation after the other */
} fake;

static inline void *fake_main(void *argument) {
    fake *server = argument;
    int fd;
    while ((fd = accept(server->fd, NULL, NULL)) >= 0) {
        server->talk(fd);
        close(fd);
    }
    return NULL;
}

static inline void fake_start(fake *server, void (*talk)(int fd)) {
    server->fd = listen_somewhere(16, &server->port);
    server->talk = talk;
    assert_int_equal(pthread_create(&server->thread, NULL, fake_main, server), 0);
}

/* After the clients have closed their connections. */
static inline void fake_stop(fake *server) {
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->fd);
}

/* ------------------------------------------------------------------- Proxy */

/* The fate of the next script call; all others pass. */
typedef enum {
    PASS,
    LOSE_REPLY,   /* the server carries it out, and the connection ends */
    LOSE_REQUEST, /* the connection ends, and the server has seen nothing */
    LATE_REQUEST, /* the connection ends, and the server sees it later */
    LATE_REPLY,   /* what the server answers is on its way for a while */
    LOSE_ALL,     /* LOSE_REPLY for all that follow, too */
} mishap;

typedef struct proxy {
    int fd, port;
    pthread_t thread;
    _Atomic mishap next;
    _Atomic int mishaps; /* so many have happened */
    _Atomic int talks;   /* so many connections go through it */
    int late_fd;         /* the request that is late, and where it goes */
    char late[65536];
    ssize_t late_length;
} proxy;

typedef struct talk {
    proxy *of;
    int fd;
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

/* One request on its way to the server: false if that ended the conversation. */
static inline bool pass_request(proxy *p, int *server, const char *bytes, ssize_t length) {
    char reply[65536];
    mishap next = PASS;
    if (memmem(bytes, (size_t)length, "\r\nEVAL", 6) != NULL) {
        next = atomic_load(&p->next);
        if (next != LOSE_ALL)
            atomic_store(&p->next, PASS);
    }
    if (next == LATE_REQUEST) {
        memcpy(p->late, bytes, (size_t)length);
        p->late_length = length;
        p->late_fd = *server;
        *server = -1;
    } else if (next != LOSE_REQUEST) {
        if (!say(*server, bytes, (size_t)length))
            return false;
        if (next == LATE_REPLY)
            sleep_ms(300);
        else if (next != PASS && recv(*server, reply, sizeof reply, 0) <= 0)
            return false;
    }
    if (next != PASS)
        atomic_fetch_add(&p->mishaps, 1);
    return next == PASS || next == LATE_REPLY;
}

static inline void *proxy_talk(void *argument) {
    talk t = *(talk *)argument;
    char bytes[65536];
    int server = connect_to_server();
    free(argument);
    while (server >= 0) {
        struct pollfd fds[] = {{.fd = t.fd, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0)
            continue;
        int from = fds[0].revents != 0 ? t.fd : server;
        ssize_t length = recv(from, bytes, sizeof bytes, 0);
        if (length <= 0)
            break;
        if (from == t.fd ? !pass_request(t.of, &server, bytes, length)
                         : !say(t.fd, bytes, (size_t)length))
            break;
    }
    if (server >= 0)
        close(server);
    close(t.fd);
    atomic_fetch_sub(&t.of->talks, 1);
    return NULL;
}

static inline void *proxy_main(void *argument) {
    proxy *p = argument;
    pthread_t thread;
    int fd;
    while ((fd = accept(p->fd, NULL, NULL)) >= 0) {
        talk *t = malloc(sizeof *t);
        *t = (talk){p, fd};
        atomic_fetch_add(&p->talks, 1);
        if (pthread_create(&thread, NULL, proxy_talk, t) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

static inline proxy *proxy_start(void) {
    proxy *p = calloc(1, sizeof *p);
    p->fd = listen_somewhere(16, &p->port);
    p->late_fd = -1;
    assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
    return p;
}

/* After the clients have closed their connections. */
static inline void proxy_stop(proxy *p) {
    shutdown(p->fd, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    assert_soon(atomic_load(&p->talks) == 0);
    close(p->fd);
    if (p->late_fd >= 0)
        close(p->late_fd);
    free(p);
}

/* Lets the late request arrive; gives the server's answer to it. */
static inline const char *proxy_deliver(proxy *p) {
    char reply[4096];
    assert_true(p->late_fd >= 0);
    assert_true(say(p->late_fd, p->late, (size_t)p->late_length));
    ssize_t length = recv(p->late_fd, reply, sizeof reply, 0);
    assert_true(length > 0);
    return text("%.*s", (int)length, reply);
}

#endif

#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define AGAIN_MS 10

/* All sockets of the process. The mutex is held while a socket is made or closed, so that the list
 * has all copies of a forked child. */
static struct {
    pthread_mutex_t mutex;
    hf_list open;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void) { pthread_mutex_lock(&all.mutex); }
static void in_parent(void) { pthread_mutex_unlock(&all.mutex); }

static void in_child(void) {
    HF_EACH(at, &all.open)
    close(HF_OF(hf_socket, open, at)->fd);
    all.open = (hf_list){0};
    pthread_mutex_unlock(&all.mutex);
}

static void watch_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

/* Open a socket. Return 0, or an errno. */
static int open_socket(hf_socket *socket, int family) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    HF_HOLDING(&all.mutex);
    socket->fd = hf_socket_new(family);
    if (socket->fd < 0)
        return errno;
    hf_list_add_first(&all.open, &socket->open);
    return 0;
}

void hf_socket_close(hf_socket *socket) {
    HF_HOLDING(&all.mutex);
    if (socket->open.list != NULL)
        close(socket->fd);
    hf_list_remove(&socket->open);
}

/* Wait until the socket is connected. Return 0, or an errno. */
static int await(int fd, int64_t deadline) {
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    int error = 0, ready = 0;
    socklen_t size = sizeof error;
    while (ready == 0) {
        int64_t ms = hf_until(deadline, hf_now());
        ready = poll(&writable, 1, (int)(ms < INT32_MAX ? ms : INT32_MAX));
        if (ready < 0 && errno == EINTR)
            ready = 0;
        else if (ready == 0 && ms == 0)
            return ETIMEDOUT;
    }
    return ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ? errno : error;
}

/* Begin to connect. Return 0, or an errno. A unix socket whose server has a full backlog fails at
 * once. */
static int begin(int fd, const struct sockaddr *place, socklen_t size, int64_t deadline) {
    while (connect(fd, place, size) != 0) {
        if (errno != EAGAIN)
            return errno;
        int64_t ms = hf_until(deadline, hf_now());
        if (ms == 0)
            return ETIMEDOUT;
        poll(NULL, 0, ms < AGAIN_MS ? (int)ms : AGAIN_MS);
    }
    return 0;
}

static int connect_to(hf_socket *socket, const struct sockaddr *place, socklen_t size,
                      int64_t deadline) {
    int error = open_socket(socket, place->sa_family);
    if (error == 0)
        error = begin(socket->fd, place, size, deadline);
    if (error == EINPROGRESS || error == EINTR)
        error = await(socket->fd, deadline);
    if (error == 0 && !hf_set_blocking(socket->fd, true))
        error = errno;
    if (error != 0)
        hf_socket_close(socket);
    return error;
}

static const char *connect_to_path(hf_socket *socket, const char *path, int64_t deadline) {
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    strcpy(place.sun_path, path); /* hf_address_parse() has checked its length */
    int error = connect_to(socket, (struct sockaddr *)&place, sizeof place, deadline);
    return error != 0 ? strerror(error) : NULL;
}

/* Connect to one of the places: each gets a share of the time left. */
static int connect_to_any(hf_socket *socket, const struct addrinfo *places, int64_t deadline) {
    int64_t left = 0;
    int error = 0;
    for (const struct addrinfo *at = places; at != NULL; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = places; at != NULL; at = at->ai_next, left--) {
        int64_t now = hf_now(), share = now + (deadline - now) / left;
        error = connect_to(socket, at->ai_addr, at->ai_addrlen, share);
        if (error == 0)
            break;
    }
    return error;
}

/* Try IPv4 addresses first, because many servers listen on no other; an address that never answers
 * leaves some time for IPv6. */
static const char *connect_to_host(hf_socket *socket, const hf_place *place, int64_t deadline) {
    static const int families[] = {AF_INET, AF_INET6};
    char service[16];
    int error = 0, unknown = 0;
    struct in_addr number;
    bool alone = inet_pton(AF_INET, place->host, &number) == 1;
    snprintf(service, sizeof service, "%d", place->port);
    for (size_t i = 0; i < sizeof families / sizeof *families && hf_now() < deadline; i++) {
        struct addrinfo hints = {.ai_family = families[i], .ai_socktype = SOCK_STREAM}, *places;
        int status = getaddrinfo(place->host, service, &hints, &places);
        if (status != 0) {
            unknown = status;
            continue;
        }
        bool more = families[i] == AF_INET && !alone;
        int64_t rest = more ? hf_until(deadline, hf_now()) * HF_MS / 4 : 0;
        error = connect_to_any(socket, places, deadline - rest);
        freeaddrinfo(places);
        if (error == 0)
            return NULL;
    }
    return error != 0     ? strerror(error)
           : unknown != 0 ? gai_strerror(unknown)
                          : "no answer in time"; /* the time ended before the first look-up */
}

hf_status hf_socket_connect(hf_socket *socket, const hf_address *address, int64_t deadline) {
    const char *why = "no answer in time";
    int on = 1;
    *socket = (hf_socket){.fd = -1};
    if (hf_now() < deadline)
        why = address->path != NULL ? connect_to_path(socket, address->path, deadline)
                                    : connect_to_host(socket, &address->place, deadline);
    if (why != NULL)
        return hf_fail(HF_ECONNECT, "cannot reach %s: %s", address->shown, why);
    if (address->path != NULL)
        return HF_OK;
    setsockopt(socket->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (address->options.keepalive_ms != HF_NEVER)
        hf_socket_keep_alive(socket->fd, address->options.keepalive_ms);
    return HF_OK;
}

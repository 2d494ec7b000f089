/*
 * sim_server PORT [--NAME VALUE...]...: the simulated Redis over real sockets and by the real
 * clock, so that tests of redis-server can run on it. It prints its port; PORT 0 is any free port.
 * It also accepts the options of redis-server, and follows port (0: none), unixsocket, requirepass,
 * maxclients and cluster-enabled.
 */
#include "redis.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A socket, and the output that waits for room in it. */
typedef struct connection {
    struct connection *next;
    int fd;
    sim_peer *peer; /* NULL: the connection was refused */
    char *output;
    size_t length;
    bool ends; /* it ends when all output is sent */
} connection;

static connection *connections;
static int listeners[2] = {-1, -1};
static sim_redis *server;

static int64_t now_us(void *world) {
    struct timespec now;
    (void)world;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static uint64_t draw(void *world) {
    uint64_t number = 0;
    (void)world;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        err(1, "getrandom");
    return number;
}

static void flush(connection *to) {
    ssize_t sent;
    while (to->length > 0 && (sent = send(to->fd, to->output, to->length, MSG_NOSIGNAL)) != 0) {
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        size_t gone = sent < 0 ? to->length : (size_t)sent; /* a dead socket takes all bytes */
        memmove(to->output, to->output + gone, to->length - gone);
        to->length -= gone;
    }
}

static void queue(void *world, void *of, const void *bytes, size_t length) {
    connection *to = of;
    (void)world;
    to->output = realloc(to->output, to->length + length);
    if (to->output == NULL)
        err(1, "realloc");
    memcpy(to->output + to->length, bytes, length);
    to->length += length;
    flush(to);
}

static void hang_up(void *world, void *of) {
    (void)world;
    ((connection *)of)->ends = true;
}

static void drop(connection *gone) {
    connection **at = &connections;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    if (gone->peer != NULL)
        sim_redis_gone(gone->peer);
    close(gone->fd);
    free(gone->output);
    free(gone);
}

static void welcome(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection *made = calloc(1, sizeof *made);
    if (made == NULL)
        err(1, "calloc");
    made->fd = fd;
    made->next = connections;
    connections = made;
    made->peer = sim_redis_accept(server, made);
}

/* Read the input. False: it has ended. */
static bool hear(connection *from) {
    static char bytes[65536];
    ssize_t count = recv(from->fd, bytes, sizeof bytes, 0);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    if (count > 0 && from->peer != NULL)
        sim_redis_feed(from->peer, bytes, (size_t)count);
    return count > 0;
}

static int timeout_ms(void) {
    int64_t due = sim_redis_due(server);
    if (due == INT64_MAX)
        return -1;
    int64_t left = due - now_us(NULL);
    return left <= 0 ? 0 : left > 100000 ? 100 : (int)(left + 999) / 1000;
}

static void serve_once(void) {
    static struct pollfd *fds;
    static connection **whose;
    size_t count = 0;
    for (connection *each = connections; each != NULL; each = each->next)
        count++;
    fds = realloc(fds, (count + 2) * sizeof *fds);
    whose = realloc(whose, (count + 1) * sizeof(connection *));
    if (fds == NULL || whose == NULL)
        err(1, "realloc");
    for (size_t i = 0; i < 2; i++)
        fds[i] = (struct pollfd){.fd = listeners[i], .events = POLLIN};
    count = 0;
    for (connection *each = connections; each != NULL; each = each->next) {
        short events = each->length > 0 ? POLLIN | POLLOUT : POLLIN;
        whose[count] = each;
        fds[2 + count++] = (struct pollfd){.fd = each->fd, .events = events};
    }
    poll(fds, count + 2, timeout_ms());
    for (size_t i = 0; i < count; i++) {
        if ((fds[2 + i].revents & POLLOUT) != 0)
            flush(whose[i]);
        bool alive = (fds[2 + i].revents & ~POLLOUT) == 0 || hear(whose[i]);
        if (!alive || (whose[i]->ends && whose[i]->length == 0))
            drop(whose[i]);
    }
    for (size_t i = 0; i < 2; i++)
        if (fds[i].revents != 0)
            welcome(listeners[i]);
    if (sim_redis_due(server) <= now_us(NULL))
        sim_redis_tick(server);
    for (connection *each = connections, *next; each != NULL; each = next) {
        next = each->next;
        if (each->ends && each->length == 0)
            drop(each);
    }
}

static int listen_at(int family, const struct sockaddr *address, socklen_t size) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, address, size) != 0 || listen(fd, 512) != 0)
        err(1, "listen");
    return fd;
}

/* Listen, and return the port. */
static int listen_tcp(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listeners[0] = listen_at(AF_INET, (struct sockaddr *)&address, size);
    getsockname(listeners[0], (struct sockaddr *)&address, &size);
    return ntohs(address.sin_port);
}

static void listen_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        errx(1, "%s is too long", path);
    strcpy(address.sun_path, path);
    unlink(path);
    listeners[1] = listen_at(AF_UNIX, (struct sockaddr *)&address, sizeof address);
}

static void stop(int signal) {
    (void)signal;
    _exit(0);
}

int main(int argc, char **argv) {
    sim_redis_host host = {.now_us = now_us, .random = draw, .send = queue, .hang_up = hang_up};
    sim_redis_options options = {.debug = true};
    const char *path = NULL, *port = NULL;
    bool cluster = false;
    signal(SIGTERM, stop);
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (i == 1 && strncmp(name, "--", 2) != 0)
            port = name;
        else if (strcmp(name, "--port") == 0)
            port = atoi(value) != 0 ? value : NULL;
        else if (strcmp(name, "--unixsocket") == 0)
            path = value;
        else if (strcmp(name, "--requirepass") == 0 || strcmp(name, "--password") == 0)
            options.password = value;
        else if (strcmp(name, "--cluster-enabled") == 0)
            cluster = strcmp(value, "yes") == 0;
        else if (strcmp(name, "--maxclients") == 0)
            options.max_clients = atoll(value);
    }
    if (port != NULL)
        options.port = listen_tcp(atoi(port));
    if (path != NULL)
        listen_unix(path);
    if (port == NULL && path == NULL)
        errx(2, "usage: sim_server PORT [--NAME VALUE]...");
    server = sim_redis_new(&host, NULL, &options);
    if (cluster)
        sim_cluster_begin(server, 0);
    printf("%d\n", options.port);
    fflush(stdout);
    for (;;)
        serve_once();
}

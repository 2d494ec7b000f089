/* Servers that the tests start: real processes, ended by pid with the program. */
#ifndef SERVERS_H
#define SERVERS_H

#include "../server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <netinet/in.h>

/* A folder of this program, removed at its end. */
static char folder[64];

/* Reserve the port until this program ends, with a socket that does not listen: other programs
 * choose ports, too, and a stopped server needs its port again. A server may use the port as well,
 * because both set SO_REUSEADDR; a program that tries it without may not. */
static inline int reserve_port(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Return a port whose partner, for the bus of a cluster's nodes, is also free; the system does not
 * give either to connections, and with-redis and the tests of other languages do not choose them.
 */
static inline int free_port(void) {
    static unsigned seed;
    if (seed == 0)
        seed = (unsigned)getpid() * 2654435761U ^ (unsigned)now_ms();
    for (;;) {
        int port = 10000 + rand_r(&seed) % 6000, fd = reserve_port(port);
        if (fd >= 0 && reserve_port(port + 10000) >= 0)
            return port;
        if (fd >= 0)
            close(fd);
    }
}

/* More variables for the servers: "NAME=value", ended by a NULL. */
static char *server_environment[4];

/* Start redis-server with these arguments, in the folder and on loopback; it dies with this
 * program. */
static inline pid_t start_server(const char *const *arguments) {
    const char *words[64] = {"redis-server"};
    size_t count = 1;
    while (arguments[count - 1] != NULL) {
        words[count] = arguments[count - 1];
        count++;
    }
    words[count++] = "--bind";
    words[count++] = "127.0.0.1";
    words[count++] = "127.0.0.2"; /* in no certificate */
    words[count++] = "-::1";
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        unsetenv("LD_PRELOAD");
        for (char **each = server_environment; *each != NULL; each++)
            putenv(*each);
        if (chdir(folder) != 0 || freopen("server.log", "a", stdout) == NULL)
            _exit(1);
        execvp(words[0], (char *const *)words);
        _exit(1);
    }
    return pid;
}

#define START(...) start_server((const char *const[]){__VA_ARGS__, NULL})

static inline void stop_server(pid_t *pid) {
    if (*pid > 0) {
        kill(*pid, SIGCONT);
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

/* Send one command to the server on that port, without the library; return any answer, or NULL: at
 * once if no server listens, otherwise after a time that no pause of the machine takes. */
static inline redisReply *tell(int port, const char *command) {
    static const struct timeval patience = {.tv_sec = 20};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", port, patience);
    redisReply *reply = NULL;
    if (context != NULL && context->err == 0) {
        redisSetTimeout(context, patience);
        reply = redisCommand(context, command);
    }
    redisFree(context);
    return reply != NULL ? kept(reply) : NULL;
}

static inline bool answers(int port) {
    redisReply *reply = tell(port, "PING");
    return reply != NULL && reply->type == REDIS_REPLY_STATUS;
}

static inline char *number(long long value) { return text("%lld", value); }

static inline int open_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/holdfast-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static inline int remove_folder(void **state) {
    (void)state;
    return system(text("rm -rf %s", folder)) != 0;
}

#endif

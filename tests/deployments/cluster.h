/* Redis Cluster: three masters, each with a replica, on loopback. */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "servers.h"

enum { MASTERS = 3, NODES = 2 * MASTERS, SLOTS = 16384 };
static int nodes[NODES];
static pid_t node_pids[NODES];

/* Return whether the node is up. False: it has ended, because another program took its port. */
static inline bool came_up(pid_t *pid, int port) {
    for (int64_t until = now_ms() + 10000; now_ms() < until; sleep_ms(5)) {
        if (waitpid(*pid, NULL, WNOHANG) == *pid) {
            *pid = 0;
            return false;
        }
        if (answers(port))
            return true;
    }
    return false;
}

static inline void start_node(int which) {
    const char *port = number(nodes[which]);
    node_pids[which] =
        START("--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder,
              "--cluster-enabled", "yes", "--cluster-config-file", text("nodes-%s.conf", port),
              "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0");
}

/* Return the line with what a node knows of another node or of itself. */
static inline const char *node_line(int at, int of) {
    redisReply *reply = tell(nodes[at], "CLUSTER NODES");
    const char *address = text(":%d@", nodes[of]);
    char *rest, *list = reply != NULL && reply->type == REDIS_REPLY_STRING ? reply->str : NULL;
    for (char *line = list != NULL ? strtok_r(list, "\n", &rest) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, address) != NULL)
            return text("%s", line);
    return "";
}

static inline const char *node_id(int which) {
    redisReply *reply = tell(nodes[which], "CLUSTER MYID");
    return text("%s", reply != NULL && reply->type == REDIS_REPLY_STRING ? reply->str : "");
}

static inline bool node_says(int which, const char *what) {
    redisReply *reply = tell(nodes[which], "CLUSTER INFO");
    return reply != NULL && reply->type == REDIS_REPLY_STRING && strstr(reply->str, what) != NULL;
}

/* Return whether this is a replica with all data of its master. */
static inline bool node_follows(int which) {
    redisReply *reply = tell(nodes[which], "ROLE");
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements >= 4 &&
           strcmp(reply->element[0]->str, "slave") == 0 &&
           strcmp(reply->element[3]->str, "connected") == 0;
}

static inline bool node_is_master(int which) {
    redisReply *reply = tell(nodes[which], "ROLE");
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY &&
           strcmp(reply->element[0]->str, "master") == 0;
}

#define assert_ok(port, ...)                                                                       \
    do {                                                                                           \
        redisReply *ok_ = tell(port, __VA_ARGS__);                                                 \
        if (ok_ == NULL || ok_->type == REDIS_REPLY_ERROR)                                         \
            fail_msg("%s: %s", #__VA_ARGS__, ok_ != NULL ? ok_->str : "no answer");                \
    } while (0)

static inline void serve(int port, int first, int last) {
    char *command = malloc(32 + 6 * (size_t)(last - first + 1)), *to = command;
    to += sprintf(to, "CLUSTER ADDSLOTS");
    for (int slot = first; slot <= last; slot++)
        to += sprintf(to, " %d", slot);
    assert_ok(port, command);
    free(command);
}

static inline void await_cluster(void) {
    for (int i = 0; i < NODES; i++)
        assert_soon(node_says(i, "cluster_state:ok"));
}

/* Set the timeout; it is short only while a master must fail: otherwise a pause of the machine
 * would be a failover. */
static inline void set_node_timeout(int ms) {
    for (int i = 0; i < NODES; i++)
        assert_ok(nodes[i], text("CONFIG SET cluster-node-timeout %d", ms));
}

static inline void start_cluster(void) {
    for (int i = 0; i < NODES; i++) {
        do {
            nodes[i] = free_port();
            start_node(i);
        } while (!came_up(&node_pids[i], nodes[i]));
    }
    for (int i = 0; i < NODES; i++) {
        assert_ok(nodes[i], text("CLUSTER SET-CONFIG-EPOCH %d", i + 1));
        if (i < MASTERS)
            serve(nodes[i], i * SLOTS / MASTERS, (i + 1) * SLOTS / MASTERS - 1);
        if (i > 0)
            assert_ok(nodes[0], text("CLUSTER MEET 127.0.0.1 %d", nodes[i]));
    }
    for (int i = MASTERS; i < NODES; i++) {
        char *master = strdup(node_id(i - MASTERS));
        assert_soon(strncmp(node_line(i, i - MASTERS), master, 40) == 0);
        assert_ok(nodes[i], text("CLUSTER REPLICATE %s", master));
        free(master);
    }
    await_cluster();
    for (int i = MASTERS; i < NODES; i++)
        assert_soon(node_follows(i));
    for (int i = 0; i < NODES; i++)
        assert_soon(node_says(i, text("cluster_known_nodes:%d", NODES)));
    set_node_timeout(15000);
}

static inline void stop_cluster(void) {
    for (int i = 0; i < NODES; i++)
        stop_server(&node_pids[i]);
}

static inline void all_masters(const char *command) {
    for (int i = 0; i < NODES; i++)
        if (node_pids[i] > 0 && node_is_master(i))
            assert_ok(nodes[i], command);
}

static inline void begin_moving(int slot, int from, int to) {
    assert_ok(nodes[to], text("CLUSTER SETSLOT %d IMPORTING %s", slot, node_id(from)));
    assert_ok(nodes[from], text("CLUSTER SETSLOT %d MIGRATING %s", slot, node_id(to)));
}

/* Move keys whose names end this way to the other node; return their number. */
static inline int move_keys(int slot, int from, int to, const char *ending) {
    int moved = 0;
    redisReply *keys = tell(nodes[from], text("CLUSTER GETKEYSINSLOT %d 1000", slot));
    for (size_t i = 0; keys != NULL && i < keys->elements; i++) {
        const char *key = keys->element[i]->str;
        size_t length = strlen(key), end = strlen(ending);
        if (length < end || strcmp(key + length - end, ending) != 0)
            continue;
        assert_ok(nodes[from], text("MIGRATE 127.0.0.1 %d %s 0 1000", nodes[to], key));
        moved++;
    }
    return moved;
}

static inline void end_moving(int slot, int from, int to) {
    while (move_keys(slot, from, to, "") > 0)
        continue;
    const char *id = node_id(to);
    assert_ok(nodes[to], text("CLUSTER SETSLOT %d NODE %s", slot, id));
    assert_ok(nodes[from], text("CLUSTER SETSLOT %d NODE %s", slot, id));
    all_masters(text("CLUSTER SETSLOT %d NODE %s", slot, id));
}

#endif

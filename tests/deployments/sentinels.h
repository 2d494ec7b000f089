/* Three sentinels, a master and two replicas, started by the including test. */
#ifndef SENTINELS_H
#define SENTINELS_H

#include "servers.h"

enum { NODES = 3 };
static int nodes[NODES], sentinels[NODES];
static pid_t node_pids[NODES], sentinel_pids[NODES];
static char *url;

static inline long long master_port(void) {
    for (int i = 0; i < NODES; i++) {
        redisReply *reply = tell(sentinels[i], "SENTINEL get-master-addr-by-name mine");
        if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
            return atoll(reply->element[1]->str);
    }
    return 0;
}

static inline bool role_is(int port, const char *role) {
    redisReply *reply = tell(port, "ROLE");
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
           strcmp(reply->element[0]->str, role) == 0;
}

static inline long long field(int sentinel, const char *name) {
    redisReply *reply = tell(sentinel, "SENTINEL master mine");
    for (size_t i = 0; reply != NULL && i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, name) == 0)
            return atoll(reply->element[i + 1]->str);
    return -1;
}

static inline void start_node(int which, int master) {
    node_pids[which] =
        master == 0
            ? START("--port", number(nodes[which]), "--save", "", "--dir", folder)
            : START("--port", number(nodes[which]), "--save", "", "--dir", folder, "--replicaof",
                    "127.0.0.1", number(master), "--repl-diskless-sync-delay", "0");
}

static inline int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(90);
    for (int i = 0; i < NODES; i++) {
        nodes[i] = free_port();
        start_node(i, i == 0 ? 0 : nodes[0]);
        assert_soon(answers(nodes[i]));
    }
    for (int i = 0; i < NODES; i++) {
        sentinels[i] = free_port();
        const char *file = text("%s/%d.conf", folder, i);
        FILE *conf = fopen(file, "w");
        fprintf(
            conf,
            "port %d\nsentinel monitor mine 127.0.0.1 %d 2\n"
            "sentinel down-after-milliseconds mine 15000\nsentinel failover-timeout mine 2000\n",
            sentinels[i], nodes[0]);
        fclose(conf);
        sentinel_pids[i] = START(file, "--sentinel");
        assert_soon(answers(sentinels[i]));
        assert_int_equal(waitpid(sentinel_pids[i], NULL, WNOHANG), 0); /* it is ours */
    }
    for (int i = 0; i < NODES; i++) {
        assert_soon(field(sentinels[i], "num-slaves") == NODES - 1);
        assert_soon(field(sentinels[i], "num-other-sentinels") == NODES - 1);
    }
    url = strdup(text("redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/mine", sentinels[0],
                      sentinels[1], sentinels[2]));
    return 0;
}

/* Set the time; it is short only while a master must fail: otherwise a pause of the machine would
 * be a failover. */
static inline void set_down_after(int ms) {
    for (int i = 0; i < NODES; i++)
        good(tell(sentinels[i], text("SENTINEL SET mine down-after-milliseconds %d", ms)));
}

static inline int stop_all(void **state) {
    for (int i = 0; i < NODES; i++) {
        stop_server(&sentinel_pids[i]);
        stop_server(&node_pids[i]);
    }
    free(url);
    return remove_folder(state);
}

static inline int afresh(void **state) {
    (void)state;
    alarm(90);
    return 0;
}

/* Let the sentinel make another node the master, without a message to the old one. It is refused
 * while the last failover is not complete. */
static inline void fail_over(int sentinel) {
    int64_t until = now_ms() + 30000;
    for (;;) {
        const redisReply *reply = tell(sentinels[sentinel], "SENTINEL FAILOVER mine");
        if (reply != NULL && reply->type == REDIS_REPLY_STATUS)
            return;
        assert_true(now_ms() < until);
        sleep_ms(20);
    }
}

#endif

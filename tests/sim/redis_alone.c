/*
 * The simulated Redis without sockets or time: several servers, late replicas, slots that move,
 * sentinels that disagree, faults. twin.py checks the answers of a single server.
 */
#include "../check.h"

#include "redis.h"

enum { MASTER, REPLICA, PEERS = 8 };

/* The bytes that a connection has received. */
typedef struct heard {
    char text[4096];
    size_t length;
    bool ended;
    sim_peer *peer;
} heard;

static int64_t clock_us;
static heard peers[PEERS];
static sim_redis *servers[2];

static int64_t now_us(void *world) {
    (void)world;
    return clock_us;
}

static uint64_t drawn;

static uint64_t draw(void *world) {
    (void)world;
    return drawn;
}

static void hear(void *world, void *of, const void *bytes, size_t length) {
    heard *to = of;
    (void)world;
    assert_true(to->length + length < sizeof to->text);
    memcpy(to->text + to->length, bytes, length);
    to->length += length;
    to->text[to->length] = '\0';
}

static void end(void *world, void *of) {
    (void)world;
    ((heard *)of)->ended = true;
}

static sim_redis *new_server(int port) {
    static const sim_redis_host host = {now_us, draw, hear, end, NULL, NULL};
    return sim_redis_new(&host, NULL, &(sim_redis_options){.port = port, .debug = true});
}

static int set_up(void **state) {
    (void)state;
    clock_us = INT64_C(1700000000000000);
    memset(peers, 0, sizeof peers);
    for (int i = 0; i < 2; i++)
        servers[i] = new_server(1000 + i);
    for (int i = 0; i < PEERS; i++) /* even peers are at the first server */
        peers[i].peer = sim_redis_accept(servers[i % 2], &peers[i]);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sim_redis_free(servers[0]);
    sim_redis_free(servers[1]);
    return 0;
}

/* Send words separated by spaces; return the bytes that arrive at once. */
static const char *say(int peer, const char *line) {
    peers[peer].length = 0;
    *peers[peer].text = '\0';
    const char *whole = text("%s\r\n", line);
    sim_redis_feed(peers[peer].peer, whole, strlen(whole));
    return peers[peer].text;
}

#define assert_says(peer, line, answer) assert_string_equal(say(peer, line), answer)

static const char *news(int peer) {
    const char *copy = text("%s", peers[peer].text);
    peers[peer].length = 0;
    *peers[peer].text = '\0';
    return copy;
}

static sim_bytes word(const char *from) { return (sim_bytes){from, strlen(from)}; }

/* Let time pass, as a world does. */
static void pass(int64_t ms) {
    int64_t until = clock_us + ms * 1000;
    for (int i = 0; i < 2; i++) {
        clock_us = until - ms * 1000;
        for (int64_t due; (due = sim_redis_due(servers[i])) <= until;) {
            clock_us = due > clock_us ? due : clock_us;
            sim_redis_tick(servers[i]);
        }
    }
    clock_us = until;
}

/* -------------------------------------------------------------- One server */

static void test_keys_expire_by_themselves(void **state) {
    sim_seen seen;
    (void)state;
    say(0, "SET a x PX 100");
    say(0, "SET b x PX 100000");
    assert_true(sim_redis_see(servers[0], 0, word("a"), &seen));
    assert_int_equal(seen.expires_ms, clock_us / 1000 + 100);
    clock_us += 100000;
    assert_true(sim_redis_see(servers[0], 0, word("a"), &seen));
    assert_says(0, "DBSIZE", ":2\r\n");
    clock_us += 1000;
    assert_false(sim_redis_see(servers[0], 0, word("a"), &seen));
    pass(200);
    assert_says(0, "DBSIZE", ":1\r\n");
    assert_int_equal(sim_redis_due(servers[0]), (seen.expires_ms - 100 + 100001) * 1000);
}

static void test_a_judge_sees_fields_and_keys(void **state) {
    sim_seen seen;
    sim_entry entry;
    uint64_t cursor = 0;
    (void)state;
    say(0, "HSET h f 1 g 2");
    say(0, "ZADD z 2 b 1 a");
    assert_true(sim_redis_see(servers[0], 0, word("h"), &seen));
    assert_true(sim_redis_find(&seen, word("g"), &entry));
    assert_memory_equal(entry.value.bytes, "2", 2);
    assert_false(sim_redis_find(&seen, word("x"), &entry));
    assert_true(sim_redis_next(servers[0], 0, &cursor, &seen));
    assert_int_equal(seen.type, 'h');
    assert_true(sim_redis_next(servers[0], 0, &cursor, &seen));
    assert_int_equal(seen.count, 2);
    assert_int_equal(sim_redis_entry(&seen, 0).score, 1);
    assert_false(sim_redis_next(servers[0], 0, &cursor, &seen));
}

static void test_a_large_hash_has_no_order(void **state) {
    (void)state;
    say(0, text("HSET h a 1 b %065d", 2));
    drawn = 0;
    assert_says(0, "HKEYS h", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    drawn = 2;
    assert_says(0, "HKEYS h", "*2\r\n$1\r\nb\r\n$1\r\na\r\n");
}

static void test_a_command_may_come_in_pieces(void **state) {
    static const char command[] = "*2\r\n$4\r\nECHO\r\n$5\r\na\r\nb!\r\n";
    (void)state;
    for (size_t cut = 0; cut < sizeof command; cut++) {
        sim_redis_feed(peers[0].peer, command, cut);
        sim_redis_feed(peers[0].peer, command + cut, sizeof command - 1 - cut);
        assert_string_equal(news(0), "$5\r\na\r\nb!\r\n");
    }
    for (size_t i = 0; i < sizeof command - 1; i++)
        sim_redis_feed(peers[0].peer, command + i, 1);
    assert_string_equal(news(0), "$5\r\na\r\nb!\r\n");
}

static void test_refusals_come_as_often_as_told(void **state) {
    (void)state;
    sim_redis_refuse(servers[0], SIM_SCRIPTS, "NOSCRIPT x", 1);
    assert_says(0, "EVALSHA x 0", "-NOSCRIPT x\r\n");
    assert_says(0, "EVAL return#KEYS 0", ":0\r\n");
    sim_redis_refuse(servers[0], SIM_LOADING, NULL, -1);
    assert_says(0, "GET a", "-LOADING Redis is loading the dataset in memory\r\n");
    assert_says(0, "ECHO a", "$1\r\na\r\n");
    sim_redis_refuse(servers[0], SIM_LOADING, NULL, 0);
    sim_redis_refuse(servers[0], SIM_GROWTH, NULL, -1);
    assert_says(0, "SET a b", "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    assert_says(0, "EVAL redis.call('DEL','a')return(redis.call('SET','a',1)) 0", "+OK\r\n");
    sim_redis_refuse(servers[0], SIM_GROWTH, NULL, 0);
    sim_redis_refuse(servers[0], SIM_WRITES, "MISCONF x", 2);
    assert_says(0, "PING", "-MISCONF x\r\n");
    assert_says(0, "EVAL return(redis.pcall('DEL','a')) 0", "-MISCONF x\r\n");
    assert_says(0, "DEL a", ":1\r\n");
}

static void test_a_full_server_and_a_restarted_one_hang_up(void **state) {
    heard late = {.ended = false};
    (void)state;
    sim_redis_set_max_clients(servers[0], PEERS / 2);
    assert_null(sim_redis_accept(servers[0], &late));
    assert_true(late.ended);
    assert_string_equal(late.text, "-ERR max number of clients reached\r\n");
    say(0, "SET a b");
    say(2, "SUBSCRIBE c");
    assert_int_equal(sim_redis_subscribers(servers[0], word("c")), 1);
    sim_redis_restart(servers[0], true);
    assert_int_equal(sim_redis_subscribers(servers[0], word("c")), 0);
    assert_true(peers[0].ended);
    assert_true(peers[2].ended);
    sim_redis_gone(peers[2].peer);
    peers[2].peer = sim_redis_accept(servers[0], &peers[2]);
    assert_says(2, "GET a", "$1\r\nb\r\n");
    sim_redis_restart(servers[0], false);
    sim_redis_gone(peers[2].peer);
    peers[2].peer = sim_redis_accept(servers[0], &peers[2]);
    assert_says(2, "GET a", "$-1\r\n");
}

static void test_who_is_paused_or_sleeps_answers_later(void **state) {
    (void)state;
    say(0, "CLIENT PAUSE 100 WRITE");
    assert_says(2, "SET a b", "");
    assert_says(2, "GET a", "");
    assert_says(0, "GET a", "$-1\r\n");
    assert_int_equal(sim_redis_held(servers[0]), 1);
    pass(100);
    assert_string_equal(news(2), "+OK\r\n$1\r\nb\r\n");
    assert_says(0, "DEBUG SLEEP 0.1", "");
    assert_says(2, "GET a", "");
    sim_redis_gone(peers[4].peer);
    pass(99);
    assert_string_equal(news(2), "");
    pass(1);
    assert_string_equal(news(0), "+OK\r\n");
    assert_string_equal(news(2), "$1\r\nb\r\n");
    assert_int_equal(sim_redis_held(servers[0]), 0);
}

static void test_the_same_calls_get_the_same_answers(void **state) {
    static const char *const forms[][3] = {
        {"SET k", " x PX ", "0"},   {"DEL k", " k", ""},      {"HSET h", " f", " 1"},
        {"ZADD z", " ", " m"},      {"KEYS *", "*", "*"},     {"SUBSCRIBE c", " c", ""},
        {"PUBLISH c", " text", ""}, {"SCAN ", " COUNT ", ""},
    };
    uint32_t random = 1;
    (void)state;
    for (int i = 0; i < 3000; i++) {
        random = random * 1664525 + 1013904223;
        const char *const *form = forms[random >> 16 & 7];
        int first = random >> 8 & 15, second = (random >> 20 & 15) + 1;
        const char *line = text("%s%d%s%d%s", form[0], first, form[1], second, form[2]);
        int peer = *line == 'S' && line[1] == 'U' ? 2 : 0;
        const char *one = text("%s", say(peer, line));
        assert_string_equal(say(peer + 1, line), one);
        assert_string_equal(peers[3].text, peers[2].text);
        news(2), news(3);
        pass(random >> 12 & 7);
    }
}

/* ---------------------------------------------------------------- Replicas */

static int number; /* the replica's number at its master */

static void follow(void) {
    size_t length;
    number = sim_redis_attach(servers[MASTER], "replica", 1001);
    sim_redis_follow(servers[REPLICA], "master", 1000);
    char *all = sim_redis_snapshot(servers[MASTER], &length);
    sim_redis_load(servers[REPLICA], all, length, sim_redis_offset(servers[MASTER]));
    free(all);
}

/* Bring the replica at most that number of bytes, and the master its offset. */
static void deliver(size_t most) {
    sim_bytes rest = sim_redis_stream(servers[MASTER], sim_redis_offset(servers[REPLICA]));
    assert_non_null(rest.bytes);
    sim_redis_replay(servers[REPLICA], rest.bytes, rest.length < most ? rest.length : most);
    sim_redis_acknowledge(servers[MASTER], number, sim_redis_offset(servers[REPLICA]));
}

static void test_a_replica_gets_all_and_refuses_writes(void **state) {
    sim_seen one, other;
    (void)state;
    say(0, "HSET h f 1");
    say(0, "PEXPIRE h 5000");
    follow();
    say(0, "SET s x PX 5000");
    say(0, "ZADD z 1 m");
    say(0, "SELECT 3");
    say(0, "SET s three");
    deliver(SIZE_MAX);
    assert_says(1, "GET s", "$1\r\nx\r\n");
    assert_says(1, "HGET h f", "$1\r\n1\r\n");
    assert_says(1, "SET s y", "-READONLY You can't write against a read only replica.\r\n");
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "s" : "h";
        assert_true(sim_redis_see(servers[MASTER], 0, word(name), &one));
        assert_true(sim_redis_see(servers[REPLICA], 0, word(name), &other));
        assert_int_equal(one.expires_ms, other.expires_ms);
    }
    assert_true(sim_redis_see(servers[REPLICA], 3, word("s"), &other));
    assert_says(1, "ROLE",
                text("*5\r\n$5\r\nslave\r\n$6\r\nmaster\r\n:1000\r\n$9\r\nconnected\r\n:%lld\r\n",
                     (long long)sim_redis_offset(servers[MASTER])));
}

static void test_a_replica_waits_for_its_master_to_expire(void **state) {
    (void)state;
    follow();
    say(0, "SET a x PX 100");
    deliver(SIZE_MAX);
    clock_us += 200000;
    assert_says(1, "GET a", "$-1\r\n");
    assert_says(1, "DBSIZE", ":1\r\n");
    pass(1);
    deliver(SIZE_MAX);
    assert_says(1, "DBSIZE", ":0\r\n");
}

static void test_what_a_script_changes_comes_whole_or_not_at_all(void **state) {
    (void)state;
    follow();
    say(0, "EVAL redis.call('SET','a',1)redis.call('SET','b',1)redis.call('DEL','a') 0");
    while (sim_redis_offset(servers[REPLICA]) + 1 < sim_redis_offset(servers[MASTER])) {
        deliver(1);
        assert_says(1, "DBSIZE", ":0\r\n");
    }
    deliver(1);
    assert_says(1, "GET b", "$1\r\n1\r\n");
    say(0, "EVAL redis.call('SET','c',1)redis.call('SET','d',1) 0");
    deliver(60);
    sim_redis_promote(servers[REPLICA]);
    assert_says(1, "SET e 1", "+OK\r\n");
    assert_says(1, "DBSIZE", ":2\r\n");
}

static void test_wait_counts_replicas(void **state) {
    (void)state;
    assert_says(0, "WAIT 1 50", "");
    pass(50);
    assert_string_equal(news(0), ":0\r\n");
    follow();
    say(0, "SET a b");
    assert_says(0, "WAIT 1 1000", "");
    assert_int_equal(sim_redis_held(servers[MASTER]), 1);
    deliver(10);
    assert_string_equal(news(0), "");
    deliver(SIZE_MAX);
    assert_string_equal(news(0), ":1\r\n");
    assert_says(0, "WAIT 1 1000", ":1\r\n"); /* no new writes */
    assert_says(2, "WAIT 1 1000", ":1\r\n");
    say(0, "SET a c");
    assert_says(0, "WAIT 1 1000", "");
    sim_redis_follow(servers[MASTER], "replica", 1001);
    assert_true(strncmp(news(0), "-UNBLOCKED ", 11) == 0);
    assert_true(peers[0].ended);
    assert_false(peers[2].ended);
    assert_says(2, "SET a d", "-READONLY You can't write against a read only replica.\r\n");
}

static void test_min_replicas_count_those_that_were_heard_of(void **state) {
    static const char few[] = "-NOREPLICAS Not enough good replicas to write.\r\n";
    (void)state;
    say(0, "CONFIG SET min-replicas-to-write 1");
    assert_says(0, "SET a b", few);
    follow();
    sim_redis_acknowledge(servers[MASTER], number, sim_redis_offset(servers[REPLICA]));
    assert_says(0, "SET a b", "+OK\r\n");
    clock_us += INT64_C(12000000);
    assert_says(0, "SET a b", few);
}

static void test_a_replica_that_starts_again_needs_a_snapshot(void **state) {
    (void)state;
    say(0, "SET a b");
    follow();
    sim_redis_restart(servers[REPLICA], true);
    sim_redis_gone(peers[1].peer);
    peers[1].peer = sim_redis_accept(servers[REPLICA], &peers[1]);
    assert_non_null(strstr(say(1, "ROLE"), "$7\r\nconnect\r\n:-1\r\n"));
    assert_says(1, "GET a", "$1\r\nb\r\n");
    sim_redis_detach(servers[MASTER], number);
    say(0, "SET a c");
    follow();
    assert_says(1, "GET a", "$1\r\nc\r\n");
    say(0, "SET a d");
    deliver(SIZE_MAX);
    assert_says(1, "GET a", "$1\r\nd\r\n");
}

static void test_messages_reach_those_who_listen_at_a_replica(void **state) {
    (void)state;
    follow();
    say(1, "SUBSCRIBE c");
    news(1);
    assert_says(0, "PUBLISH c text", ":0\r\n");
    deliver(SIZE_MAX);
    assert_string_equal(news(1), "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\ntext\r\n");
}

static void test_a_trimmed_stream_needs_a_snapshot(void **state) {
    (void)state;
    follow();
    int64_t from = sim_redis_offset(servers[MASTER]);
    say(0, "SET a b");
    int64_t to = sim_redis_offset(servers[MASTER]);
    sim_redis_trim(servers[MASTER], to);
    assert_null(sim_redis_stream(servers[MASTER], from).bytes);
    assert_int_equal(sim_redis_offset(servers[MASTER]), to);
    say(0, "SET a c");
    assert_true(sim_redis_stream(servers[MASTER], to).length > 0);
}

/* --------------------------------------------------------------- Sentinels */

static void test_each_sentinel_has_its_own_view(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        sim_sentinel_begin(servers[i], "service", "10.0.0.1", 6379, 1);
    assert_says(0, "SET a b", "-ERR unknown command 'SET', with args beginning with: 'a' 'b' \r\n");
    assert_says(0, "SENTINEL get-master-addr-by-name other", "*-1\r\n");
    say(2, "SUBSCRIBE +switch-master +promoted-slave");
    news(2);
    sim_sentinel_switch(servers[0], "10.0.0.2", 6380, 2);
    assert_string_equal(news(2), "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n"
                                 "$35\r\nservice 10.0.0.1 6379 10.0.0.2 6380\r\n");
    assert_says(0, "SENTINEL get-master-addr-by-name service",
                "*2\r\n$8\r\n10.0.0.2\r\n$4\r\n6380\r\n");
    assert_says(1, "SENTINEL get-master-addr-by-name service",
                "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n");
    assert_non_null(strstr(say(0, "SENTINEL MASTER service"), "config-epoch\r\n$1\r\n2\r\n"));
    assert_non_null(strstr(say(1, "SENTINEL MASTERS"), "config-epoch\r\n$1\r\n1\r\n"));
    sim_sentinel_know(servers[0], "sentinel", "10.0.0.9", 26379);
    assert_says(0, "SENTINEL REPLICAS service", "*0\r\n");
    assert_non_null(strstr(say(0, "SENTINEL SENTINELS service"), "10.0.0.9\r\n$4\r\nport"));
    assert_says(0, "ROLE", "*2\r\n$8\r\nsentinel\r\n*1\r\n$7\r\nservice\r\n");
}

/* ----------------------------------------------------------------- Cluster */

enum { SLOT = 15495 /* the slot of the key a */ };

static void make_cluster(void) {
    for (int i = 0; i < 2; i++) {
        sim_cluster_begin(servers[i], i);
        sim_cluster_meet(servers[i], 1 - i, "127.0.0.1", 1001 - i, -1);
        sim_cluster_give(servers[i], 0, 8191, 1);
        sim_cluster_give(servers[i], 8192, 16383, 0);
    }
}

static void begin_moving(void) {
    for (int i = 0; i < 2; i++)
        sim_cluster_moving(servers[i], SLOT, 0, 1);
}

static void test_nodes_tell_whose_a_slot_is(void **state) {
    (void)state;
    sim_cluster_begin(servers[0], 0);
    assert_says(0, "GET a", "-CLUSTERDOWN Hash slot not served\r\n");
    sim_cluster_give(servers[0], SLOT, SLOT, 0);
    assert_says(0, "GET a", "-CLUSTERDOWN The cluster is down\r\n");
    make_cluster();
    assert_says(0, "GET a", "$-1\r\n");
    assert_says(0, "GET b", "-MOVED 3300 127.0.0.1:1001\r\n");
    assert_says(0, "EXISTS a b", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
    assert_says(0, "SSUBSCRIBE b", "-MOVED 3300 127.0.0.1:1001\r\n");
    assert_non_null(strstr(say(0, "EVAL redis.call('GET','b') 1 a"),
                           "Script attempted to access a non local key in a cluster node"));
    assert_non_null(strstr(say(0, "CLUSTER SLOTS"),
                           "*2\r\n*3\r\n:0\r\n:8191\r\n*4\r\n$9\r\n127.0.0.1\r\n:1001\r\n"));
    assert_non_null(
        strstr(say(0, "CLUSTER NODES"), "myself,master - 0 0 0 connected 8192-16383\n"));
    sim_cluster_set_down(servers[0], true);
    assert_says(0, "GET a", "-CLUSTERDOWN The cluster is down\r\n");
}

static void test_a_slot_moves_key_by_key(void **state) {
    static const char again[] = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    (void)state;
    make_cluster();
    say(0, "SET {a}x 1");
    say(0, "HSET {a}y f 1");
    say(0, "PEXPIRE {a}y 5000");
    begin_moving();
    assert_says(0, "GET a", "-ASK 15495 127.0.0.1:1001\r\n");
    assert_says(0, "GET {a}x", "$1\r\n1\r\n");
    assert_says(0, "EXISTS {a}x {a}z", again);
    assert_says(0, "EVAL return#KEYS 2 {a}x {a}y", ":2\r\n");
    assert_true(sim_cluster_move_key(servers[0], servers[1], word("{a}y")));
    assert_false(sim_cluster_move_key(servers[0], servers[1], word("{a}y")));
    assert_says(0, "EVAL return#KEYS 2 {a}x {a}y", again);
    assert_says(1, "HGET {a}y f", "-MOVED 15495 127.0.0.1:1000\r\n");
    assert_says(1, "ASKING", "+OK\r\n");
    assert_says(1, "HGET {a}y f", "$1\r\n1\r\n");
    assert_says(1, "HGET {a}y f", "-MOVED 15495 127.0.0.1:1000\r\n");
    assert_says(1, "ASKING", "+OK\r\n");
    assert_says(1, "EXISTS {a}x {a}y", again);
    assert_says(1, "ASKING", "+OK\r\n");
    assert_says(1, "EVAL return(redis.call('PTTL',KEYS[1])) 1 {a}y", ":5000\r\n");
    assert_says(1, "ASKING", "+OK\r\n");
    assert_says(1, "SET a new", "+OK\r\n");
    assert_non_null(strstr(say(0, "CLUSTER NODES"), "[15495->-"));
    assert_non_null(
        strstr(say(0, "EVAL redis.call('DEL',KEYS[1])redis.call('SET',KEYS[1],1) 1 {a}x"),
               "non local key"));
    for (int i = 0; i < 2; i++)
        sim_cluster_give(servers[i], SLOT, SLOT, 1);
    assert_says(0, "GET a", "-MOVED 15495 127.0.0.1:1001\r\n");
    assert_says(1, "EXISTS a {a}x {a}y", ":2\r\n");
}

static void test_a_sharded_subscription_ends_with_its_slot(void **state) {
    (void)state;
    make_cluster();
    assert_says(0, "SSUBSCRIBE {a}1 {a}2",
                "*3\r\n$10\r\nssubscribe\r\n$4\r\n{a}1\r\n:1\r\n"
                "*3\r\n$10\r\nssubscribe\r\n$4\r\n{a}2\r\n:2\r\n");
    assert_says(2, "SPUBLISH {a}1 x", ":1\r\n");
    news(0);
    begin_moving();
    assert_says(2, "SPUBLISH {a}1 x", ":1\r\n");
    news(0);
    sim_cluster_give(servers[0], SLOT, SLOT, 1);
    assert_int_equal(strlen(news(0)),
                     2 * strlen("*3\r\n$12\r\nsunsubscribe\r\n$4\r\n{a}1\r\n:1\r\n"));
    assert_says(2, "SPUBLISH {a}1 x", "-MOVED 15495 127.0.0.1:1001\r\n");
    assert_says(0, "SSUBSCRIBE {a}1", "-MOVED 15495 127.0.0.1:1001\r\n");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_keys_expire_by_themselves),
        TEST(test_a_judge_sees_fields_and_keys),
        TEST(test_a_large_hash_has_no_order),
        TEST(test_a_command_may_come_in_pieces),
        TEST(test_refusals_come_as_often_as_told),
        TEST(test_a_full_server_and_a_restarted_one_hang_up),
        TEST(test_who_is_paused_or_sleeps_answers_later),
        TEST(test_the_same_calls_get_the_same_answers),
        TEST(test_a_replica_gets_all_and_refuses_writes),
        TEST(test_a_replica_waits_for_its_master_to_expire),
        TEST(test_what_a_script_changes_comes_whole_or_not_at_all),
        TEST(test_wait_counts_replicas),
        TEST(test_min_replicas_count_those_that_were_heard_of),
        TEST(test_a_replica_that_starts_again_needs_a_snapshot),
        TEST(test_messages_reach_those_who_listen_at_a_replica),
        TEST(test_a_trimmed_stream_needs_a_snapshot),
        TEST(test_each_sentinel_has_its_own_view),
        TEST(test_nodes_tell_whose_a_slot_is),
        TEST(test_a_slot_moves_key_by_key),
        TEST(test_a_sharded_subscription_ends_with_its_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

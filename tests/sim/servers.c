#include "servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVERS = 8, SENTINEL_COUNT = 3, PORT = 6379, SENTINEL_PORT = 26379, SLOTS = 16384 };

/* Leads from all hosts to the first server, past the network. */
#define UNIX_PATH "/sim/redis.sock"

typedef struct server {
    sim_server *at;
    sim_redis *redis;
    int host;
    int64_t ticks_at; /* the time of its planned event */
    int follows;      /* the server of which it is a replica; -1: none */
    int number;       /* its number at its master */
    bool forgot;      /* it or its master lost data: it needs a full copy */
    int64_t young_until;
    int64_t clock_ns; /* how far its clock is ahead */
} server;

static server servers[SERVERS], sentinels[SENTINEL_COUNT];
static int count, sentinel_count, master;
static int64_t epoch;
static deployment kind;
static int64_t lag_ns, ahead_ns, behind_ns;
int servers_quarantine_s = 30;
static int heals; /* restarts planned before the last heal are dropped */
void (*servers_watch)(int which, const sim_bytes *words, size_t count);

int servers_count(void) { return count; }
sim_server *servers_at(int which) { return servers[which].at; }
sim_redis *servers_redis(int which) { return servers[which].redis; }
sim_redis *servers_sentinel(int which) { return sentinels[which].redis; }
int servers_host(int which) { return servers[which].host; }
int servers_any(void) { return (int)sim_random((uint64_t)count); }
bool servers_independent(void) { return kind >= MASTERS; }
bool servers_is_master(int which) { return kind >= CLUSTER || which == master; }

const char *servers_url(deployment what) {
    static char with_quarantine[200];
    static const char *const urls[] = {
        "redis://10.0.0.1:6379",
        "redis+sentinel://10.0.0.12:26379,10.0.0.13:26379,10.0.0.14:26379/mymaster",
        "redis+cluster://10.0.0.1:6379,10.0.0.8:6379",
        "redis+quorum://10.0.0.1:6379,10.0.0.8:6379,10.0.0.9:6379",
        "redis+quorum://10.0.0.1:6379,10.0.0.8:6379,10.0.0.9:6379,10.0.0.10:6379,10.0.0.11:6379",
    };
    if (what < MASTERS)
        return urls[what];
    snprintf(with_quarantine, sizeof with_quarantine, "%s?quarantine=%d", urls[what],
             servers_quarantine_s);
    return with_quarantine;
}

/* ---------------------------------------------------- What a server takes */

static int64_t now_us(void *world) { return sim_server_time(((server *)world)->at); }
static uint64_t any(void *world) { return (void)world, sim_random(UINT64_MAX); }

/* Trace what a server receives and sends, for people: without RESP's lengths. */
static void tell(const server *of, const char *what, const char *bytes, size_t length) {
    char text[1000];
    size_t at = 0;
    if (!sim_set.traces)
        return;
    for (size_t i = 0; i < length && at < sizeof text - 2; i++) {
        if ((bytes[i] == '$' || bytes[i] == '*') && (i == 0 || bytes[i - 1] == '\n')) {
            while (i < length && bytes[i] != '\n')
                i++;
            continue;
        }
        if (bytes[i] != '\r')
            text[at++] = (char)(bytes[i] >= ' ' && bytes[i] < 127 ? bytes[i] : ' ');
    }
    text[at] = '\0';
    sim_trace("server %d %s %s", of->host, what, text);
}

static void answer(void *world, void *connection, const void *bytes, size_t length) {
    tell(world, "says", bytes, length);
    if (connection != NULL)
        sim_send(connection, bytes, length);
}

static void hang_up(void *world, void *connection) {
    (void)world;
    if (connection != NULL)
        sim_disconnect_soon(connection);
}

static void spent(void *world, int64_t ns) { sim_server_spend(((server *)world)->at, ns); }

int64_t servers_number(const sim_bytes *word) {
    char text[24] = "";
    memcpy(text, word->bytes, word->length < sizeof text ? word->length : sizeof text - 1);
    return atoll(text);
}

static void ran(void *world, const sim_bytes *words, size_t word_count) {
    const server *of = world;
    if (servers_watch != NULL && of->host < SENTINEL_HOSTS)
        servers_watch((int)(of - servers), words, word_count);
}

static const sim_redis_host host_calls = {now_us, any, answer, hang_up, spent, ran};

static void plan_tick(server *of);

static void tick(void *argument) {
    server *of = argument;
    /* This event was planned before an earlier one. (Not != : a thread's step may have delayed it.)
     */
    if (sim_now() < of->ticks_at)
        return;
    of->ticks_at = SIM_NEVER;
    sim_redis_tick(of->redis);
    plan_tick(of);
}

/* Plan a tick at the time that the server asks for, by its own clock, unless one is planned. */
static void plan_tick(server *of) {
    int64_t due = sim_redis_due(of->redis), now = sim_server_time(of->at);
    if (due == INT64_MAX)
        return;
    int64_t at = sim_now() + (due > now ? due - now + 1 : 1) * SIM_US;
    if (at < of->ticks_at) {
        of->ticks_at = at;
        sim_at(at, tick, of);
    }
}

/* ------------------------------------------------------------- Its peers */

typedef struct peer {
    server *of;
    sim_peer *peer;
} peer;

static void *joined(void *self, sim_file *connection) {
    server *of = self;
    sim_peer *accepted = sim_redis_accept(of->redis, connection);
    if (accepted == NULL)
        return NULL;
    peer *p = malloc(sizeof *p);
    *p = (peer){of, accepted};
    return p;
}

static void heard(void *self, const void *bytes, size_t length) {
    peer *p = self;
    tell(p->of, "hears", bytes, length);
    sim_redis_feed(p->peer, bytes, length);
    plan_tick(p->of);
}

static void left(void *self) {
    peer *p = self;
    sim_redis_gone(p->peer);
    free(p);
}

static const sim_service service = {joined, heard, left};

static void killed(void *self) { sim_server_stop(((server *)self)->at); }

static void begin(server *of, const char *name, int host, int port, const char *path) {
    *of = (server){.host = host, .ticks_at = SIM_NEVER, .follows = -1, .number = -1};
    of->at = sim_listen(name, host, port, path, &service, of);
    sim_redis_options options = {
        .host = sim_address(host), .port = port, .pid = sim_server_pid(of->at)};
    if (servers_independent())
        options.age_s = 3600;
    of->redis = sim_redis_new(&host_calls, of, &options);
    sim_server_on_kill(of->at, killed);
}

/* ----------------------------------------------------------- Replication */

/* Give a server the data of another, and let it follow. */
static void follow(int which, int whom) {
    server *replica = &servers[which], *of = &servers[whom];
    size_t length;
    char *snapshot = sim_redis_snapshot(of->redis, &length);
    replica->follows = whom;
    replica->forgot = false;
    replica->number = sim_redis_attach(of->redis, sim_address(replica->host), PORT);
    sim_redis_follow(replica->redis, sim_address(of->host), PORT);
    tell(replica, "loads", snapshot, length);
    sim_redis_load(replica->redis, snapshot, length, sim_redis_offset(of->redis));
    free(snapshot);
}

static void replicate(server *replica) {
    server *of = &servers[replica->follows];
    int64_t from = sim_redis_offset(replica->redis);
    sim_bytes stream = sim_redis_stream(of->redis, from);
    bool behind = stream.bytes == NULL && from != sim_redis_offset(of->redis);
    if (replica->forgot || behind) {
        sim_redis_detach(of->redis, replica->number);
        follow((int)(replica - servers), replica->follows);
        return;
    }
    if (stream.length > 0) {
        char *copy = malloc(stream.length);
        memcpy(copy, stream.bytes, stream.length);
        tell(replica, "repeats", copy, stream.length);
        sim_redis_replay(replica->redis, copy, stream.length);
        free(copy);
    }
    sim_redis_acknowledge(of->redis, replica->number, sim_redis_offset(replica->redis));
    plan_tick(of);
}

static void pump(void *unused) {
    (void)unused;
    for (int i = 0; i < count; i++) {
        const server *of = servers[i].follows >= 0 ? &servers[servers[i].follows] : NULL;
        if (of != NULL && sim_way_open(of->host, servers[i].host) && sim_server_up(of->at))
            replicate(&servers[i]);
    }
    sim_at(sim_now() + sim_span(100 * SIM_US, lag_ns), pump, NULL);
}

/* Let a sentinel learn of the master. */
static void hear_of_master(void *argument) {
    server *sentinel = argument;
    sim_sentinel_switch(sentinel->redis, sim_address(servers[master].host), PORT, epoch);
    plan_tick(sentinel);
}

/* Let the former master learn of the new one: it loses the changes that it alone has. */
static void demote(void *argument) {
    int which = (int)(intptr_t)argument;
    if (which == master || servers[which].follows == master)
        return;
    sim_trace("server %d becomes a replica of %d", servers[which].host, servers[master].host);
    follow(which, master);
}

void servers_fail_over(bool planned) {
    if (kind != SENTINELS || count < 2)
        return;
    int before = master, next = (master + 1 + (int)sim_random((uint64_t)count - 1)) % count;
    if (servers[next].follows != before || servers[next].forgot)
        return; /* the earlier failover, or its data, have not reached it yet */
    if (planned)
        replicate(&servers[next]);
    sim_trace("server %d takes the place of %d", servers[next].host, servers[before].host);
    servers[next].follows = -1;
    sim_redis_promote(servers[next].redis);
    master = next;
    epoch++;
    for (int i = 0; i < count; i++)
        if (i != next)
            sim_at(sim_now() + (planned ? sim_span(SIM_US, SIM_MS) : sim_span(SIM_MS, 10 * SIM_S)),
                   demote, (void *)(intptr_t)i);
    for (int i = 0; i < sentinel_count; i++)
        sim_at(sim_now() + sim_span(SIM_MS, planned ? 100 * SIM_MS : 5 * SIM_S), hear_of_master,
               &sentinels[i]);
}

static void begin_sentinels(int masters) {
    static const char *const names[] = {"sentinel1", "sentinel2", "sentinel3"};
    count = masters;
    begin(&servers[0], "redis1", MASTER_HOST, PORT, UNIX_PATH);
    for (int i = 1; i < count; i++) {
        begin(&servers[i], i == 1 ? "redis2" : "redis3", OTHER_HOSTS + i - 1, PORT, NULL);
        follow(i, 0);
    }
    sentinel_count = SENTINEL_COUNT;
    for (int i = 0; i < SENTINEL_COUNT; i++) {
        begin(&sentinels[i], names[i], SENTINEL_HOSTS + i, SENTINEL_PORT, NULL);
        sim_sentinel_begin(sentinels[i].redis, "mymaster", sim_address(MASTER_HOST), PORT, epoch);
    }
    pump(NULL);
}

/* --------------------------------------------------------------- Cluster */

static int owners[SLOTS];
static int moving_slot, moving_from, moving_to; /* -1: no slot moves */

static void give_slots(int at, int first, int last, int node) {
    sim_cluster_give(servers[at].redis, first, last, node);
    plan_tick(&servers[at]);
}

static void begin_masters(int masters) {
    static const char *const names[] = {"master1", "master2", "master3", "master4", "master5"};
    count = masters;
    for (int i = 0; i < count; i++)
        begin(&servers[i], names[i], i == 0 ? MASTER_HOST : OTHER_HOSTS + i - 1, PORT,
              i == 0 ? UNIX_PATH : NULL);
}

static void begin_cluster(void) {
    static const char *const names[] = {"node1", "node2", "node3"};
    count = 3;
    for (int i = 0; i < count; i++) {
        begin(&servers[i], names[i], i == 0 ? MASTER_HOST : OTHER_HOSTS + i - 1, PORT,
              i == 0 ? UNIX_PATH : NULL);
        sim_cluster_begin(servers[i].redis, i);
    }
    for (int i = 0; i < count; i++)
        for (int node = 0; node < count; node++) {
            int first = node * SLOTS / count, last = (node + 1) * SLOTS / count - 1;
            sim_cluster_meet(servers[i].redis, node, sim_address(servers[node].host), PORT, -1);
            sim_cluster_give(servers[i].redis, first, last, node);
            for (int slot = first; slot <= last; slot++)
                owners[slot] = node;
        }
}

static void learn_slot(void *argument) {
    int which = (int)(intptr_t)argument % SERVERS, slot = (int)(intptr_t)argument / SERVERS;
    if (slot == moving_slot && (which == moving_from || which == moving_to))
        return; /* it moves again: a slot given now would end that */
    give_slots(which, slot, slot, owners[slot]);
}

static void end_move(void) {
    owners[moving_slot] = moving_to;
    give_slots(moving_to, moving_slot, moving_slot, moving_to);
    give_slots(moving_from, moving_slot, moving_slot, moving_to);
    for (int i = 0; i < count; i++)
        if (i != moving_to && i != moving_from)
            sim_at(sim_now() + sim_span(SIM_MS, SIM_S), learn_slot,
                   (void *)(intptr_t)(moving_slot * SERVERS + i));
    sim_trace("slot %d is node %d's", moving_slot, moving_to);
    moving_slot = -1;
}

int servers_owner(const char *key) {
    return kind == CLUSTER ? owners[sim_cluster_slot((sim_bytes){key, strlen(key)})] : master;
}

bool servers_serves(int which, const char *key) {
    if (kind != CLUSTER)
        return servers_is_master(which);
    int slot = sim_cluster_slot((sim_bytes){key, strlen(key)});
    return which == owners[slot] || (slot == moving_slot && which == moving_to);
}

/* Move one more key; with the last key the slot changes its owner. */
static void move_one(void *unused) {
    sim_seen key;
    (void)unused;
    if (moving_slot < 0)
        return;
    for (uint64_t cursor = 0; sim_redis_next(servers[moving_from].redis, 0, &cursor, &key);) {
        if (sim_cluster_slot(key.name) != moving_slot)
            continue;
        if (!sim_cluster_move_key(servers[moving_from].redis, servers[moving_to].redis, key.name)) {
            char words[200]; /* the key was created anew there meanwhile */
            snprintf(words, sizeof words, "DEL %.*s", (int)key.name.length, key.name.bytes);
            servers_command(moving_from, words);
        }
        sim_at(sim_now() + sim_span(100 * SIM_US, 50 * SIM_MS), move_one, NULL);
        return;
    }
    end_move();
}

void servers_move_slot(const char *key) {
    if (kind != CLUSTER || moving_slot >= 0)
        return;
    moving_slot = sim_cluster_slot((sim_bytes){key, strlen(key)});
    moving_from = owners[moving_slot];
    moving_to = (moving_from + 1 + (int)sim_random(2)) % count;
    sim_trace("slot %d of %s moves from node %d to %d", moving_slot, key, moving_from, moving_to);
    sim_cluster_moving(servers[moving_to].redis, moving_slot, moving_from, moving_to);
    sim_cluster_moving(servers[moving_from].redis, moving_slot, moving_from, moving_to);
    sim_at(sim_now() + sim_span(SIM_MS, SIM_S), move_one, NULL);
}

/* ------------------------------------------------------------------ World */

void servers_begin(deployment what, uint64_t seed) {
    kind = what;
    count = 1;
    sentinel_count = 0;
    master = 0;
    epoch = 1;
    moving_slot = -1;
    lag_ns = 20 * SIM_MS;
    ahead_ns = behind_ns = 0;
    heals = 0;
    if (kind == SENTINELS)
        begin_sentinels(2 + (int)(seed % 2));
    else if (kind == CLUSTER)
        begin_cluster();
    else if (servers_independent())
        begin_masters(kind == MASTERS ? 3 : 5);
    else
        begin(&servers[0], "redis", MASTER_HOST, PORT, UNIX_PATH);
}

void servers_end(void) {
    for (int i = 0; i < count; i++)
        sim_redis_free(servers[i].redis);
    for (int i = 0; i < sentinel_count; i++)
        sim_redis_free(sentinels[i].redis);
}

static void start(void *self) {
    server *of = self;
    if (servers_independent() && !sim_server_up(of->at))
        sim_redis_restart(of->redis, true); /* its age counts from its last start */
    sim_server_start(of->at);
}

void servers_heal(void) {
    heals++;
    for (int i = 0; i < count; i++) {
        sim_server_pause(servers[i].at, false);
        start(&servers[i]);
        servers_refuse(i, SIM_EVERYTHING, NULL, 0);
        servers_limit(i, 0);
        servers_command(i, "ACL SETUSER default &*");
    }
    for (int i = 0; i < sentinel_count; i++)
        hear_of_master(&sentinels[i]);
    for (int i = 0; kind == SENTINELS && i < count; i++)
        demote((void *)(intptr_t)i);
    while (moving_slot >= 0)
        move_one(NULL);
    lag_ns = SIM_MS;
}

/* ----------------------------------------------------------------- Faults */

void servers_refuse(int which, sim_refusal what, const char *error, int64_t times) {
    for (int i = 0; i < SIM_REFUSALS && times == 0; i++)
        sim_redis_refuse(servers[which].redis, (sim_refusal)i, NULL, 0);
    if (times != 0)
        sim_redis_refuse(servers[which].redis, what, error, times);
}

void servers_restart(int which, bool keeps_data, int64_t down_ns) {
    sim_server_stop(servers[which].at);
    if (!keeps_data)
        servers[which].young_until = sim_now() + down_ns + servers_quarantine_s * SIM_S;
    sim_redis_restart(servers[which].redis, keeps_data);
    /* Its links have ended; only a full copy restores them. */
    for (int i = 0; i < count; i++)
        servers[i].forgot = servers[i].forgot || servers[i].follows == which ||
                            (i == which && (!keeps_data || servers[i].follows >= 0));
    sim_at(sim_now() + down_ns, start, &servers[which]);
}

typedef struct backup {
    server *of;
    char *data;
    size_t length;
    int64_t down_ns;
    int heals;
} backup;

static void restore(void *argument) {
    backup *b = argument;
    if (heals == b->heals) {
        servers_restart((int)(b->of - servers), false, b->down_ns);
        sim_redis_load(b->of->redis, b->data, b->length, 0);
        sim_redis_promote(b->of->redis);
    }
    free(b->data);
    free(b);
}

void servers_restore(int which, int64_t later_ns, int64_t down_ns) {
    backup *b = malloc(sizeof *b);
    *b = (backup){.of = &servers[which], .down_ns = down_ns, .heals = heals};
    b->data = sim_redis_snapshot(b->of->redis, &b->length);
    sim_at(sim_now() + later_ns, restore, b);
}

bool servers_is_young(int which) { return sim_now() < servers[which].young_until; }

void servers_set_clock(int which, int64_t ns) {
    server *of = &servers[which];
    sim_server_step(of->at, ns - of->clock_ns);
    of->clock_ns = ns;
    for (int i = 0; i < count; i++) {
        ahead_ns = servers[i].clock_ns > ahead_ns ? servers[i].clock_ns : ahead_ns;
        behind_ns = servers[i].clock_ns < behind_ns ? servers[i].clock_ns : behind_ns;
    }
}

int64_t servers_spread(void) { return ahead_ns - behind_ns; }

void servers_command(int which, const char *words) {
    char line[200];
    int length = snprintf(line, sizeof line, "%s\r\n", words);
    sim_peer *once = sim_redis_accept(servers[which].redis, NULL);
    if (once == NULL)
        return;
    sim_redis_feed(once, line, (size_t)length);
    sim_redis_gone(once);
    plan_tick(&servers[which]);
}

void servers_limit(int which, int connections) {
    sim_redis_set_max_clients(servers[which].redis, connections > 0 ? connections : 10000);
}

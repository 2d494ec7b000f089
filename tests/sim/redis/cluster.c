/* A node of a cluster: its view of the slots, and the commands that it refuses because of it. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct node {
    char id[41], *host;
    int port, master; /* -1: the node is a master */
} node;

typedef struct sim_cluster {
    node nodes[SIM_NODES]; /* by number; unknown: without a host */
    int self, unowned;
    bool down;
    /* By slot: a node's number, or -1. */
    int8_t owner[SIM_SLOTS], migrating[SIM_SLOTS], importing[SIM_SLOTS];
} sim_cluster;

/* ---------------------------------------------------------------- Its view */

void sim_cluster_begin(sim_redis *server, int self) {
    sim_cluster_free(server);
    sim_cluster *cluster = server->cluster = sim_grow(NULL, sizeof *cluster);
    memset(cluster, 0, sizeof *cluster);
    memset(cluster->owner, -1, sizeof cluster->owner);
    memset(cluster->migrating, -1, sizeof cluster->migrating);
    memset(cluster->importing, -1, sizeof cluster->importing);
    cluster->self = self;
    cluster->unowned = SIM_SLOTS;
    sim_cluster_meet(server, self, server->shown_host, server->port, -1);
}

void sim_cluster_free(sim_redis *server) {
    for (int i = 0; server->cluster != NULL && i < SIM_NODES; i++)
        free(server->cluster->nodes[i].host);
    free(server->cluster);
}

void sim_cluster_meet(sim_redis *server, int number, const char *host, int port, int master) {
    node *met = &server->cluster->nodes[number];
    char place[300];
    free(met->host);
    met->host = strdup(host);
    met->port = port;
    met->master = master;
    snprintf(place, sizeof place, "%s:%d", host, port);
    sim_digest(sim_word(place), met->id);
}

void sim_cluster_give(sim_redis *server, int first, int last, int to) {
    sim_cluster *cluster = server->cluster;
    for (int slot = first; slot <= last; slot++) {
        int8_t *owner = &cluster->owner[slot];
        cluster->unowned += (to < 0) - (*owner < 0);
        if (*owner == cluster->self && to != cluster->self)
            sim_unsubscribe_slot(server, slot);
        *owner = (int8_t)to;
        cluster->migrating[slot] = cluster->importing[slot] = -1;
    }
    sim_flush(server);
}

void sim_cluster_moving(sim_redis *server, int slot, int from, int to) {
    sim_cluster *cluster = server->cluster;
    cluster->migrating[slot] = (int8_t)(from == cluster->self ? to : -1);
    cluster->importing[slot] = (int8_t)(to == cluster->self ? from : -1);
}

void sim_cluster_set_down(sim_redis *server, bool down) { server->cluster->down = down; }

int sim_cluster_slot(sim_bytes key) {
    const char *open = memchr(key.bytes, '{', key.length);
    size_t behind = open != NULL ? key.length - (size_t)(open + 1 - key.bytes) : 0;
    const char *close = behind > 0 ? memchr(open + 1, '}', behind) : NULL;
    if (close != NULL && close > open + 1)
        key = (sim_bytes){open + 1, (size_t)(close - open - 1)};
    unsigned crc = 0;
    for (size_t i = 0; i < key.length; i++) {
        crc ^= (unsigned)(uint8_t)key.bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return (int)(crc & (SIM_SLOTS - 1));
}

bool sim_cluster_move_key(sim_redis *from, sim_redis *to, sim_bytes name) {
    sim_key *key = sim_db_find(&from->dbs[0], name), *old = sim_db_find(&to->dbs[0], name);
    sim_buffer dump = {0};
    if (old != NULL && old->expires_ms <= sim_now_ms(to)) {
        sim_db_remove(&to->dbs[0], old);
        old = NULL;
    }
    if (key == NULL || old != NULL)
        return false;
    sim_key_dump(key, &dump);
    sim_digits digits;
    sim_key *copy = sim_db_add(&to->dbs[0], name, key->type);
    bool ends = key->expires_ms != SIM_NEVER;
    sim_key_restore(copy, sim_whole(&dump));
    /* The time that is left moves with the key, not the time of its end: the clocks may differ. */
    int64_t ends_ms = ends ? key->expires_ms - sim_now_ms(from) + sim_now_ms(to) : SIM_NEVER;
    sim_db_expire(&to->dbs[0], copy, ends_ms);
    sim_repeat(to, 0, 5,
               (sim_bytes[]){sim_word("RESTORE"), name, sim_written(ends ? ends_ms : 0, digits),
                             sim_whole(&dump), sim_word("ABSTTL")});
    sim_repeat_end(to);
    sim_repeat(from, 0, 2, (sim_bytes[]){sim_word("DEL"), name});
    sim_repeat_end(from);
    sim_db_remove(&from->dbs[0], key);
    free(dump.bytes);
    return true;
}

/* -------------------------------------------------------- Refused commands */

typedef enum verdict { SERVED, CROSSED, UNSERVED, DOWN, SPLIT, ASKED, MOVED } verdict;

/* The slot of a command's keys, and how many of the keys are here. */
typedef struct keys {
    int slot, missing, here;
    bool several; /* more than one key */
} keys;

static verdict find_keys(const sim_call *call, keys *of) {
    sim_bytes first = {0};
    bool sharded = (call->command->flags & SIM_SHARDED) != 0;
    *of = (keys){.slot = -1};
    for (int at = 0; sim_command_key(call->command, call->argc, call->argv, &at);) {
        sim_bytes key = call->argv[at];
        int slot = sim_cluster_slot(key);
        if (of->slot < 0) {
            of->slot = slot;
            first = key;
            if (call->server->cluster->owner[slot] < 0)
                return UNSERVED;
        }
        if (slot != of->slot)
            return CROSSED;
        of->several = of->several || !sim_same(first, key);
        const sim_key *found = sim_db_find(call->db, key);
        bool exists = found != NULL && found->expires_ms >= call->server->now_ms;
        of->missing += !exists && !sharded;
        of->here += exists && !sharded;
    }
    return SERVED;
}

static verdict judge(const sim_call *call, int *slot) {
    const sim_cluster *cluster = call->server->cluster;
    keys of;
    verdict found = find_keys(call, &of);
    *slot = of.slot;
    if (found != SERVED || of.slot < 0)
        return found;
    bool mine = cluster->owner[of.slot] == cluster->self;
    if ((cluster->down || cluster->unowned > 0) && (call->command->flags & SIM_SHARDED) == 0)
        return DOWN;
    if (mine && cluster->migrating[of.slot] >= 0 && of.missing > 0)
        return of.here > 0 ? SPLIT : ASKED;
    if (cluster->importing[of.slot] >= 0 && call->peer->asking > 0)
        return of.several && of.missing > 0 ? SPLIT : SERVED;
    return mine ? SERVED : MOVED;
}

bool sim_redirected(sim_call *call) {
    const sim_cluster *cluster = call->server->cluster;
    int slot;
    verdict found = cluster != NULL && !call->peer->upstream ? judge(call, &slot) : SERVED;
    if (found == SERVED)
        return false;
    if (found == CROSSED) {
        sim_reply_error(call, "CROSSSLOT Keys in request don't hash to the same slot");
    } else if (found == UNSERVED) {
        sim_reply_error(call, "CLUSTERDOWN Hash slot not served");
    } else if (found == DOWN) {
        sim_reply_error(call, "CLUSTERDOWN The cluster is down");
    } else if (found == SPLIT) {
        sim_reply_error(call, "TRYAGAIN Multiple keys request during rehashing of slot");
    } else {
        int to = found == ASKED ? cluster->migrating[slot] : cluster->owner[slot];
        sim_reply_error(call, "%s %d %s:%d", found == ASKED ? "ASK" : "MOVED", slot,
                        cluster->nodes[to].host, cluster->nodes[to].port);
    }
    return true;
}

const char *sim_redirected_script(sim_call *call) {
    int slot;
    verdict found = call->server->cluster != NULL ? judge(call, &slot) : SERVED;
    return found == SERVED ? NULL
           : found == DOWN ? "Script attempted to execute a command while the cluster is down"
                           : "Script attempted to access a non local key in a cluster node";
}

/* ---------------------------------------------------------------- Commands */

/* Return the last of the slots from this one on that have the same owner. */
static int end_of(const sim_cluster *cluster, int slot) {
    int last = slot;
    while (last + 1 < SIM_SLOTS && cluster->owner[last + 1] == cluster->owner[slot])
        last++;
    return last;
}

static void reply_node(sim_call *call, const node *of) {
    sim_reply_array(call, 4);
    sim_reply_word(call, of->host);
    sim_reply_integer(call, of->port);
    sim_reply_word(call, of->id);
    sim_reply_array(call, 0);
}

static void cluster_slots(sim_call *call) {
    const sim_cluster *cluster = call->server->cluster;
    size_t ranges = 0;
    for (int slot = 0; slot < SIM_SLOTS; slot = end_of(cluster, slot) + 1)
        ranges += cluster->owner[slot] >= 0;
    sim_reply_array(call, ranges);
    for (int slot = 0; slot < SIM_SLOTS; slot = end_of(cluster, slot) + 1) {
        int owner = cluster->owner[slot];
        size_t replicas = 0;
        for (int i = 0; i < SIM_NODES; i++)
            replicas += cluster->nodes[i].host != NULL && cluster->nodes[i].master == owner;
        if (owner < 0)
            continue;
        sim_reply_array(call, 3 + replicas);
        sim_reply_integer(call, slot);
        sim_reply_integer(call, end_of(cluster, slot));
        reply_node(call, &cluster->nodes[owner]);
        for (int i = 0; i < SIM_NODES; i++)
            if (cluster->nodes[i].host != NULL && cluster->nodes[i].master == owner)
                reply_node(call, &cluster->nodes[i]);
    }
}

static void describe_node(const sim_cluster *cluster, int number, sim_buffer *to) {
    const node *of = &cluster->nodes[number];
    const char *master = of->master >= 0 ? cluster->nodes[of->master].id : "-";
    sim_addf(to, "%s %s:%d@%d %s%s %s 0 0 %d connected", of->id, of->host, of->port,
             of->port + 10000, number == cluster->self ? "myself," : "",
             of->master >= 0 ? "slave" : "master", master, number);
    for (int slot = 0; slot < SIM_SLOTS; slot = end_of(cluster, slot) + 1) {
        int last = end_of(cluster, slot);
        if (cluster->owner[slot] != number)
            continue;
        sim_addf(to, " %d", slot);
        if (last > slot)
            sim_addf(to, "-%d", last);
    }
    for (int slot = 0; slot < SIM_SLOTS && number == cluster->self; slot++) {
        int away = cluster->migrating[slot], from = cluster->importing[slot];
        if (away >= 0)
            sim_addf(to, " [%d->-%s]", slot, cluster->nodes[away].id);
        if (from >= 0)
            sim_addf(to, " [%d-<-%s]", slot, cluster->nodes[from].id);
    }
    sim_add(to, "\n", 1);
}

static void cluster_nodes(sim_call *call) {
    const sim_cluster *cluster = call->server->cluster;
    sim_buffer text = {0};
    for (int i = 0; i < SIM_NODES; i++)
        if (cluster->nodes[i].host != NULL)
            describe_node(cluster, i, &text);
    sim_reply_bytes(call, sim_whole(&text));
    free(text.bytes);
}

static void cluster_info(sim_call *call) {
    const sim_cluster *cluster = call->server->cluster;
    sim_buffer text = {0};
    sim_addf(&text, "cluster_state:%s\r\ncluster_slots_assigned:%d\r\n",
             cluster->down || cluster->unowned > 0 ? "fail" : "ok", SIM_SLOTS - cluster->unowned);
    sim_reply_bytes(call, sim_whole(&text));
    free(text.bytes);
}

static void cluster_myid(sim_call *call) {
    sim_reply_word(call, call->server->cluster->nodes[call->server->cluster->self].id);
}

static void cluster_keyslot(sim_call *call) {
    sim_reply_integer(call, sim_cluster_slot(call->argv[2]));
}

static void cluster_addslots(sim_call *call) { /* ADDSLOTSRANGE too */
    bool ranges = strcmp(call->command->name, "cluster|addslotsrange") == 0;
    for (int i = 2; i + ranges < call->argc; i += 1 + ranges) {
        int64_t first, last;
        if (!sim_integer(call, i, &first) || !sim_integer(call, i + ranges, &last))
            return;
        if (first < 0 || first > last || last >= SIM_SLOTS) {
            sim_reply_error(call, "ERR Invalid or out of range slot");
            return;
        }
        sim_cluster_give(call->server, (int)first, (int)last, call->server->cluster->self);
    }
    sim_reply_ok(call);
}

static void asking(sim_call *call) {
    call->peer->asking = 2; /* this command, and the next */
    sim_reply_ok(call);
}

enum { ONLY = SIM_CLUSTER_ONLY | SIM_NOSCRIPT };

const sim_command sim_cluster_commands[] = {
    {"asking", asking, 1, SIM_CLUSTER_ONLY, 0, 0, 0},
    {"cluster", NULL, -2, SIM_GROUP, 0, 0, 0},
    {"cluster|slots", cluster_slots, 2, ONLY, 0, 0, 0},
    {"cluster|nodes", cluster_nodes, 2, ONLY, 0, 0, 0},
    {"cluster|info", cluster_info, 2, ONLY, 0, 0, 0},
    {"cluster|myid", cluster_myid, 2, ONLY, 0, 0, 0},
    {"cluster|keyslot", cluster_keyslot, 3, ONLY, 0, 0, 0},
    {"cluster|addslots", cluster_addslots, -3, ONLY, 0, 0, 0},
    {"cluster|addslotsrange", cluster_addslots, -4, ONLY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

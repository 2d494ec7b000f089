/* Replicas: a master's stream of changes, and the part of it that each replica has. */
#include "internal.h"

#include <stdlib.h>

typedef struct replica {
    char *host; /* NULL: the entry is free */
    int port;
    int64_t has, heard_ms; /* the acknowledged offset, and when it arrived */
} replica;

struct sim_replication {
    replica replicas[SIM_REPLICAS];
    sim_buffer stream;
    int64_t begin;   /* the offset of the buffer's first byte */
    sim_buffer unit; /* changes that belong together */
    int commands;    /* in the unit */
    int db;          /* the database that the stream has selected; or -1 */
    bool kept;       /* there has been a replica */
};

void sim_replication_begin(sim_redis *server) {
    server->replication = sim_grow(NULL, sizeof *server->replication);
    *server->replication = (struct sim_replication){.db = -1};
}

void sim_replication_free(sim_redis *server) {
    for (int i = 0; i < SIM_REPLICAS; i++)
        free(server->replication->replicas[i].host);
    free(server->replication->stream.bytes);
    free(server->replication->unit.bytes);
    free(server->replication);
}

/* -------------------------------------------------------------- The stream */

static void put_command(sim_buffer *to, int argc, const sim_bytes *argv) {
    sim_put_head(to, '*', argc);
    for (int i = 0; i < argc; i++)
        sim_put_bytes(to, argv[i]);
}

void sim_repeat(sim_redis *server, int db, int argc, const sim_bytes *argv) {
    struct sim_replication *of = server->replication;
    if (!of->kept || server->replica)
        return;
    if (db != of->db) {
        sim_digits digits;
        put_command(&of->unit, 2, (sim_bytes[]){sim_word("SELECT"), sim_written(db, digits)});
        of->db = db;
    }
    put_command(&of->unit, argc, argv);
    of->commands++;
}

void sim_repeat_end(sim_redis *server) {
    struct sim_replication *of = server->replication;
    bool several = of->commands > 1;
    if (of->commands == 0)
        return;
    if (several)
        put_command(&of->stream, 1, (sim_bytes[]){sim_word("MULTI")});
    sim_add(&of->stream, of->unit.bytes, of->unit.length);
    if (several)
        put_command(&of->stream, 1, (sim_bytes[]){sim_word("EXEC")});
    of->unit.length = 0;
    of->commands = 0;
}

int64_t sim_redis_offset(const sim_redis *server) {
    return server->replication->begin + (int64_t)server->replication->stream.length;
}

sim_bytes sim_redis_stream(const sim_redis *server, int64_t from) {
    const struct sim_replication *of = server->replication;
    int64_t skip = from - of->begin;
    if (skip < 0 || skip > (int64_t)of->stream.length)
        return (sim_bytes){0};
    return (sim_bytes){of->stream.bytes + skip, of->stream.length - (size_t)skip};
}

void sim_redis_trim(sim_redis *server, int64_t before) {
    struct sim_replication *of = server->replication;
    sim_bytes rest = sim_redis_stream(server, before);
    if (rest.bytes == NULL)
        return;
    memmove(of->stream.bytes, rest.bytes, rest.length);
    of->stream.length = rest.length;
    of->begin = before;
}

/* ---------------------------------------------------- At the master's side */

int sim_redis_attach(sim_redis *master, const char *host, int port) {
    struct sim_replication *of = master->replication;
    for (int i = 0; i < SIM_REPLICAS; i++) {
        replica *free_one = &of->replicas[i];
        if (free_one->host != NULL)
            continue;
        *free_one = (replica){strdup(host), port, -1, sim_now_ms(master)};
        of->kept = true;
        of->db = -1;
        return i;
    }
    return -1;
}

void sim_redis_detach(sim_redis *master, int which) {
    free(master->replication->replicas[which].host);
    master->replication->replicas[which].host = NULL;
}

void sim_redis_acknowledge(sim_redis *master, int which, int64_t offset) {
    master->now_ms = sim_now_ms(master);
    master->replication->replicas[which].has = offset;
    master->replication->replicas[which].heard_ms = master->now_ms;
    sim_waits_end(master);
    sim_flush(master);
}

char *sim_redis_snapshot(sim_redis *master, size_t *length) {
    sim_buffer all = {0}, dump = {0};
    put_command(&all, 1, (sim_bytes[]){sim_word("FLUSHALL")});
    for (int i = 0; i < SIM_DATABASES; i++) {
        sim_digits digits;
        if (master->dbs[i].count > 0)
            put_command(&all, 2, (sim_bytes[]){sim_word("SELECT"), sim_written(i, digits)});
        for (const sim_key *key = master->dbs[i].first; key != NULL; key = key->after) {
            bool ends = key->expires_ms != SIM_NEVER;
            dump.length = 0;
            sim_key_dump(key, &dump);
            put_command(&all, 5,
                        (sim_bytes[]){sim_word("RESTORE"), sim_of(key->name),
                                      sim_written(ends ? key->expires_ms : 0, digits),
                                      sim_whole(&dump), sim_word("ABSTTL")});
        }
    }
    free(dump.bytes);
    *length = all.length;
    return all.bytes;
}

/* Count the replicas that have acknowledged this offset. */
static int64_t reached(const sim_redis *server, int64_t offset) {
    int64_t count = 0;
    for (int i = 0; i < SIM_REPLICAS; i++)
        count += server->replication->replicas[i].host != NULL &&
                 server->replication->replicas[i].has >= offset;
    return count;
}

static int64_t attached(const sim_redis *server) { return reached(server, INT64_MIN); }

bool sim_few_replicas(const sim_redis *server) {
    int64_t least = atoll(sim_setting_of(server, "min-replicas-to-write")), good = 0;
    int64_t lag_ms = 1000 * atoll(sim_setting_of(server, "min-replicas-max-lag"));
    if (least == 0 || server->replica)
        return false;
    for (int i = 0; i < SIM_REPLICAS; i++) {
        const replica *each = &server->replication->replicas[i];
        good += each->host != NULL && each->has >= 0 &&
                (lag_ms == 0 || server->now_ms - each->heard_ms <= lag_ms + 999);
    }
    return good < least;
}

/* --------------------------------------------------- At the replica's side */

static sim_peer *upstream_of(sim_redis *server) {
    sim_peer *peer = server->first_peer;
    while (peer != NULL && !peer->upstream)
        peer = peer->after;
    return peer;
}

/* Leave the master's stream, and all replicas. */
void sim_replication_restart(sim_redis *server) {
    sim_peer *upstream = upstream_of(server);
    if (upstream != NULL)
        sim_redis_gone(upstream);
    server->synced = false;
    for (int i = 0; i < SIM_REPLICAS; i++)
        sim_redis_detach(server, i);
}

static void leave_master(sim_redis *server) {
    sim_replication_restart(server);
    free(server->master_host);
    server->master_host = NULL;
    server->replica = false;
}

/* End each WAIT with an error, and hang up: the writes may be lost. */
static void unblock_all(sim_redis *server) {
    static const char why[] = "-UNBLOCKED force unblock from blocking operation, instance state "
                              "changed (master -> replica?)\r\n";
    for (sim_peer *peer = server->first_peer; peer != NULL; peer = peer->after) {
        if (peer->waits != SIM_WAITS)
            continue;
        sim_add(&peer->output, why, sizeof why - 1);
        sim_hang_up(peer);
    }
}

/* Follow a master, without sending, so that a command may call it. */
static void follow(sim_redis *server, sim_bytes host, int port) {
    bool was_master = !server->replica;
    leave_master(server);
    if (was_master)
        unblock_all(server);
    server->replica = true;
    server->master_host = strndup(host.bytes, host.length);
    server->master_port = port;
}

void sim_redis_follow(sim_redis *server, const char *host, int port) {
    follow(server, sim_word(host), port);
    sim_flush(server);
}

void sim_redis_promote(sim_redis *server) { leave_master(server); }

void sim_redis_replay(sim_redis *server, const void *bytes, size_t length) {
    struct sim_replication *of = server->replication;
    sim_peer *upstream = upstream_of(server);
    if (upstream == NULL)
        upstream = sim_peer_new(server, NULL);
    upstream->upstream = true;
    sim_redis_feed(upstream, bytes, length);
    of->begin += (int64_t)(of->stream.length + length);
    of->stream.length = 0;
}

void sim_redis_load(sim_redis *server, const void *bytes, size_t length, int64_t offset) {
    sim_redis_replay(server, bytes, length);
    server->replication->begin = offset;
    server->synced = true;
}

/* -------------------------------------------------------------------- WAIT */

static void wait_for(sim_call *call) {
    sim_peer *peer = call->peer;
    int64_t ms;
    if (call->server->replica) {
        sim_reply_error(call, "ERR WAIT cannot be used with replica instances. Please also note "
                              "that since Redis 4.0 if a replica is configured to be writable "
                              "(which is not the default) writes to replicas are just local and "
                              "are not propagated.");
        return;
    }
    if (!sim_integer(call, 1, &peer->wait_replicas))
        return;
    if (!sim_number(call->argv[2], &ms)) {
        sim_reply_error(call, "ERR timeout is not an integer or out of range");
        return;
    }
    if (ms < 0) {
        sim_reply_error(call, "ERR timeout is negative");
        return;
    }
    int64_t have = reached(call->server, peer->wrote_offset);
    if (have >= peer->wait_replicas || peer->multi) {
        sim_reply_integer(call, have);
        return;
    }
    peer->waits = SIM_WAITS;
    peer->wait_until_ms = ms == 0 ? SIM_NEVER - 1 : sim_now_ms(call->server) + ms;
    if (peer->wait_until_ms < call->server->waits_until_ms)
        call->server->waits_until_ms = peer->wait_until_ms;
}

void sim_waits_end(sim_redis *server) {
    if (server->waits_until_ms == SIM_NEVER)
        return; /* no peer waits */
    server->waits_until_ms = SIM_NEVER;
    for (sim_peer *peer = server->first_peer, *after; peer != NULL; peer = after) {
        after = peer->after;
        if (peer->waits != SIM_WAITS)
            continue;
        int64_t have = reached(server, peer->wrote_offset);
        if (have < peer->wait_replicas && server->now_ms < peer->wait_until_ms) {
            if (peer->wait_until_ms < server->waits_until_ms)
                server->waits_until_ms = peer->wait_until_ms;
            continue;
        }
        sim_put_head(&peer->output, ':', have);
        sim_outgoing(peer);
        sim_go_on(peer);
    }
}

/* ------------------------------------------------------------------- Roles */

static void role(sim_call *call) {
    const sim_redis *server = call->server;
    if (server->watch != NULL) {
        sim_sentinel_role(call);
        return;
    }
    if (server->replica) {
        sim_reply_array(call, 5);
        sim_reply_word(call, "slave");
        sim_reply_word(call, server->master_host);
        sim_reply_integer(call, server->master_port);
        sim_reply_word(call, server->synced ? "connected" : "connect");
        sim_reply_integer(call, server->synced ? sim_redis_offset(server) : -1);
        return;
    }
    sim_reply_array(call, 3);
    sim_reply_word(call, "master");
    sim_reply_integer(call, sim_redis_offset(server));
    sim_reply_array(call, (size_t)attached(server));
    for (int i = 0; i < SIM_REPLICAS; i++) {
        const replica *each = &server->replication->replicas[i];
        if (each->host == NULL)
            continue;
        sim_reply_array(call, 3);
        sim_reply_word(call, each->host);
        sim_reply_digits(call, each->port);
        sim_reply_digits(call, each->has > 0 ? each->has : 0);
    }
}

static void replicaof(sim_call *call) {
    int64_t port;
    if (sim_is(call->argv[1], "NO") && sim_is(call->argv[2], "ONE")) {
        leave_master(call->server);
    } else {
        if (!sim_integer(call, 2, &port))
            return;
        follow(call->server, call->argv[1], (int)port);
    }
    sim_reply_ok(call);
}

void sim_tell_replication(const sim_redis *server, sim_buffer *to) {
    sim_addf(to, "role:%s\r\n", server->replica ? "slave" : "master");
    if (server->replica)
        sim_addf(to, "master_host:%s\r\nmaster_port:%d\r\nmaster_link_status:%s\r\n",
                 server->master_host, server->master_port, server->synced ? "up" : "down");
    sim_addf(to, "connected_slaves:%lld\r\n", (long long)attached(server));
    for (int i = 0; i < SIM_REPLICAS; i++) {
        const replica *each = &server->replication->replicas[i];
        if (each->host != NULL)
            sim_addf(to, "slave%d:ip=%s,port=%d,state=online,offset=%lld,lag=%lld\r\n", i,
                     each->host, each->port, (long long)(each->has > 0 ? each->has : 0),
                     (long long)(server->now_ms - each->heard_ms) / 1000);
    }
    sim_addf(to, "master_repl_offset:%lld\r\n", (long long)sim_redis_offset(server));
}

enum { ANYTIME = SIM_NOSCRIPT | SIM_LOADABLE };

const sim_command sim_replication_commands[] = {
    {"wait", wait_for, 3, SIM_NOSCRIPT, 0, 0, 0},
    {"role", role, 1, ANYTIME | SIM_SENTINEL, 0, 0, 0},
    {"replicaof", replicaof, 3, SIM_NOSCRIPT, 0, 0, 0},
    {"slaveof", replicaof, 3, SIM_NOSCRIPT, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

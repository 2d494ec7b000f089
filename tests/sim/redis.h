/*
 * A small Redis in memory, which runs the real scripts on Lua 5.1: for the simulation, whose world
 * drives it, and for server.c, which serves it over real sockets. It has only the commands that the
 * core and the tests send, with the answers and the errors of Redis 7.0.
 *
 * It is pure: no clock, no I/O, no threads, no randomness of its own. The same calls give the same
 * answers. A function of the host must not call back into the server.
 */
#ifndef SIM_REDIS_H
#define SIM_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim_redis sim_redis; /* one server */
typedef struct sim_peer sim_peer;   /* one client's connection at it */

typedef struct sim_bytes {
    const char *bytes;
    size_t length;
} sim_bytes;

/* The world of a server; spent and ran may be NULL. */
typedef struct sim_redis_host {
    int64_t (*now_us)(void *world);  /* the server's wall clock, which may step, also in a script */
    uint64_t (*random)(void *world); /* the order of a large hash */
    void (*send)(void *world, void *connection, const void *bytes, size_t length);
    /* The server has stopped sending, and ignores input; sim_redis_gone() must follow. */
    void (*hang_up)(void *world, void *connection);
    void (*spent)(void *world, int64_t ns); /* the rough cost of a command */
    /* A client's command (not a script's) was carried out; the function may inspect the server. */
    void (*ran)(void *world, const sim_bytes *words, size_t count);
} sim_redis_host;

/* Members that are 0 or NULL have a default. */
typedef struct sim_redis_options {
    const char *host; /* for answers; 127.0.0.1 */
    int port, pid;
    const char *password;
    const char *version; /* "7.0.15"; from 7.2 on there is CLIENT SETINFO */
    int64_t max_clients; /* 10000 */
    bool debug;          /* DEBUG is allowed */
    int64_t age_s;       /* how long ago the server began */
} sim_redis_options;

sim_redis *sim_redis_new(const sim_redis_host *host, void *world, const sim_redis_options *options);
void sim_redis_free(sim_redis *server); /* with its peers, silently */

/* Return a new peer, or NULL: the server is full, has answered so, and has hung up. */
sim_peer *sim_redis_accept(sim_redis *server, void *connection);
void sim_redis_feed(sim_peer *peer, const void *bytes, size_t length);
/* Free the peer: its connection has ended, at either side. */
void sim_redis_gone(sim_peer *peer);

/* Return the time by the server's clock at which sim_redis_tick() must be called; INT64_MAX: never.
 */
int64_t sim_redis_due(const sim_redis *server);
void sim_redis_tick(sim_redis *server);

/* Kill the process and start it again: the server hangs up, and loses its scripts, its replicas and
 * its master's stream. */
void sim_redis_restart(sim_redis *server, bool keep_data);

/* ------------------------------------------------------------- Replication */

/* A master writes a stream of its changes; the world takes the stream to replicas, at any time, and
 * brings back their offsets:
 *
 *     n = sim_redis_attach(master, ...), sim_redis_follow(replica, ...)
 *     sim_redis_snapshot(master, ...), and with it sim_redis_offset(master)
 *     ... sim_redis_load(replica, ...)
 *     sim_redis_stream(master, the offset up to which all was sent)
 *     ... sim_redis_replay(replica, ...)
 *     ... sim_redis_acknowledge(master, n, sim_redis_offset(replica)), for WAIT
 *
 * A stream may be cut anywhere: replicas make the changes of a command or a script together, or
 * not at all. */
enum { SIM_REPLICAS = 8 };
int sim_redis_attach(sim_redis *master, const char *host, int port); /* -1: too many */
void sim_redis_detach(sim_redis *master, int replica);
char *sim_redis_snapshot(sim_redis *master, size_t *length); /* free() it */
int64_t sim_redis_offset(const sim_redis *server);
/* Return the stream from that offset on, valid until the next call; empty: the stream was trimmed.
 */
sim_bytes sim_redis_stream(const sim_redis *server, int64_t from);
void sim_redis_trim(sim_redis *server, int64_t before); /* no replica needs those bytes any more */
void sim_redis_acknowledge(sim_redis *master, int replica, int64_t offset);

/* Refuse writes from now on, as with REPLICAOF: a master loses its replicas, and hangs up on
 * clients that wait in WAIT; other clients stay. */
void sim_redis_follow(sim_redis *server, const char *host, int port);
void sim_redis_load(sim_redis *replica, const void *snapshot, size_t length, int64_t offset);
void sim_redis_replay(sim_redis *replica, const void *stream, size_t length);
void sim_redis_promote(sim_redis *replica); /* make it a master, with the data that it has */

/* --------------------------------------------------------------- Sentinels */

/* Make a new server a sentinel of one master; each sentinel has its own view and epoch. */
void sim_sentinel_begin(sim_redis *sentinel, const char *name, const char *host, int port,
                        int64_t epoch);
/* Set another master for the sentinel, and publish +switch-master. */
void sim_sentinel_switch(sim_redis *sentinel, const char *host, int port, int64_t epoch);
/* Add an entry for SENTINEL SENTINELS or SENTINEL REPLICAS. */
void sim_sentinel_know(sim_redis *sentinel, const char *sentinel_or_replica, const char *host,
                       int port);
/* Publish any other event. */
void sim_sentinel_tell(sim_redis *sentinel, const char *event, const char *text);

/* ----------------------------------------------------------------- Cluster */

/* Each node has its own view, right or wrong. A node has the same number in all views. */
enum { SIM_NODES = 16 };
void sim_cluster_begin(sim_redis *server, int self); /* make a new server a node */
void sim_cluster_meet(sim_redis *server, int node, const char *host, int port,
                      int master); /* -1: the node is a master */
/* Give slots to a node (-1: to no node), and end any move of them. A server that loses a slot ends
 * the subscriptions to its channels. */
void sim_cluster_give(sim_redis *server, int first, int last, int node);
void sim_cluster_moving(sim_redis *server, int slot, int from, int to); /* call it for both nodes */
/* Move a key, as MIGRATE does. False: there is no such key, or the target already has it. */
bool sim_cluster_move_key(sim_redis *from, sim_redis *to, sim_bytes name);
void sim_cluster_set_down(sim_redis *server, bool down);
int sim_cluster_slot(sim_bytes key);

/* ------------------------------------------------------------------ Faults */

typedef enum sim_refusal {
    SIM_EVERYTHING, /* every command */
    SIM_LOADING,    /* commands that a server refuses while it reads its data */
    SIM_BUSY,       /* commands that a server refuses while a script runs for long */
    SIM_SCRIPTS,    /* EVAL and EVALSHA */
    SIM_WRITES,     /* commands that write, a script's first one, and PING: MISCONF */
    SIM_GROWTH,     /* commands that need memory, and a script's first write: OOM */
    SIM_REFUSALS
} sim_refusal;

/* Answer `times` commands (-1: all from now on; 0: none) with this error, given without its minus;
 * NULL: with the error that Redis returns. */
void sim_redis_refuse(sim_redis *server, sim_refusal what, const char *error, int64_t times);
void sim_redis_set_max_clients(sim_redis *server, int64_t most);

/* -------------------------------------------------------------- Inspection */

/* A key that has not expired by the server's clock; valid until the next call. */
typedef struct sim_seen {
    sim_bytes name, string;
    char type;          /* s string, h hash, z sorted set, l list, S set, x stream */
    int64_t expires_ms; /* INT64_MAX: never */
    size_t count;       /* number of entries */
    const void *key;
} sim_seen;

typedef struct sim_entry {
    sim_bytes name, value; /* a field and its value; a member; an element */
    double score;
} sim_entry;

bool sim_redis_see(const sim_redis *server, int database, sim_bytes name, sim_seen *seen);
/* Return the keys one by one, in the order in which they were created; *cursor begins with 0, and
 * is valid until the server's next command or tick. False: there are no more keys. */
bool sim_redis_next(const sim_redis *server, int database, uint64_t *cursor, sim_seen *seen);
sim_entry sim_redis_entry(const sim_seen *seen, size_t which); /* in the server's order */
/* Find a field, member or element. False: there is none. */
bool sim_redis_find(const sim_seen *seen, sim_bytes name, sim_entry *entry);

size_t sim_redis_subscribers(const sim_redis *server, sim_bytes channel); /* sharded ones too */
size_t sim_redis_peers(const sim_redis *server);
/* Count the peers whose command has arrived, and is not yet carried out or answered: WAIT, CLIENT
 * PAUSE, DEBUG SLEEP. */
size_t sim_redis_held(const sim_redis *server);
int64_t sim_redis_calls(const sim_redis *server, const char *command); /* scripts' too */

#endif

/* The parts of the server, from below: store.c, reply.c, and the commands; peer.c runs them. */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#include "../redis.h"

#include <lua5.1/lua.h>
#include <stdarg.h>
#include <string.h>

#define SIM_NEVER INT64_MAX
#define SIM_COUNT(array) (sizeof(array) / sizeof *(array))
enum { SIM_DATABASES = 16, SIM_SLOTS = 16384 };

/* ------------------------------------------------ Bytes and data (store.c) */

typedef struct sim_buffer {
    char *bytes;
    size_t length, capacity;
} sim_buffer;

void *sim_grow(void *memory, size_t size); /* realloc() that never fails */
void sim_add(sim_buffer *buffer, const void *bytes, size_t length);
__attribute__((format(printf, 2, 3))) void sim_addf(sim_buffer *buffer, const char *format, ...);
static inline sim_bytes sim_word(const char *text) { return (sim_bytes){text, strlen(text)}; }
static inline sim_bytes sim_whole(const sim_buffer *from) {
    return (sim_bytes){from->bytes, from->length};
}
bool sim_same(sim_bytes one, sim_bytes other);
bool sim_is(sim_bytes one, const char *word); /* ignores case */
bool sim_number(sim_bytes from, int64_t *number);
bool sim_score(sim_bytes from, double *score);
uint32_t sim_hash(sim_bytes of);
typedef char sim_digits[24];
sim_bytes sim_written(int64_t number, sim_digits room);

typedef struct sim_text {
    uint32_t hash;
    size_t length;
    char bytes[];
} sim_text;

static inline sim_bytes sim_of(const sim_text *text) {
    return (sim_bytes){text->bytes, text->length};
}
sim_text *sim_text_new(sim_bytes from);

typedef struct sim_item {
    uint32_t hash;
    sim_text *name;
    sim_text *value; /* of a hash's field, or NULL */
    double score;
} sim_item;

/* A string has a value, other types have items: a sorted set in its order, others in the order in
 * which they were added. Items are few: a search costs less than an index. */
typedef struct sim_key {
    struct sim_key *same_bucket, *before, *after;
    sim_text *name, *value;
    uint64_t serial;
    int64_t expires_ms;
    sim_item *items;
    size_t count, capacity;
    char type;
} sim_key;

typedef struct sim_db {
    int number;
    sim_key **buckets;
    size_t bucket_count, count, expiring;
    sim_key *first, *last;
    uint64_t serial;
    int64_t next_expiry; /* not later than the first expiry; SIM_NEVER */
} sim_db;

sim_key *sim_db_find(const sim_db *db, sim_bytes name);
sim_key *sim_db_add(sim_db *db, sim_bytes name, char type);
void sim_db_remove(sim_db *db, sim_key *key);
void sim_db_clear(sim_db *db);
void sim_db_expire(sim_db *db, sim_key *key, int64_t at_ms);
size_t sim_db_size(const sim_db *db); /* approximate size in bytes */

void sim_key_empty(sim_key *key);
void sim_key_set(sim_key *key, sim_bytes value); /* the key becomes a string */
ptrdiff_t sim_key_find(const sim_key *key, sim_bytes name);
void sim_key_put(sim_key *key, size_t at, sim_bytes name, sim_text *value, double score);
void sim_key_drop(sim_key *key, size_t at);
/* Give a member its place in a sorted set. False: the member was there before. */
bool sim_key_rank(sim_key *key, sim_bytes member, double score);
void sim_key_dump(const sim_key *key, sim_buffer *to);
bool sim_key_restore(sim_key *key, sim_bytes from);

/* -------------------------------------------------------------- The server */

typedef struct sim_call sim_call;

enum {
    SIM_WRITE = 1,         /* the command may change keys */
    SIM_DENYOOM = 2,       /* a full server refuses it */
    SIM_NOSCRIPT = 4,      /* no script may run it */
    SIM_LOADABLE = 8,      /* runs while the server loads */
    SIM_BUSYABLE = 16,     /* runs while a script is running */
    SIM_NOAUTH = 32,       /* every user may run it */
    SIM_PUSHES = 64,       /* subscribers of RESP2 may use it */
    SIM_NUMKEYS = 128,     /* the second argument counts the keys */
    SIM_CHANNEL = 256,     /* the first argument is a channel */
    SIM_CHANNELS = 512,    /* all arguments are channels */
    SIM_PATTERNS = 1024,   /* all arguments are patterns of channels */
    SIM_SHARDED = 2048,    /* the channels have slots, as keys have */
    SIM_REPLICATED = 4096, /* writes no keys, but replicas repeat it */
    SIM_GROUP = 8192,      /* the next word is part of the name */
    SIM_SENTINEL = 16384,  /* a sentinel knows it */
    SIM_SENTINEL_ONLY = 32768,
    SIM_CLUSTER_ONLY = 65536,
};

typedef struct sim_command {
    const char *name;
    void (*run)(sim_call *call);
    int arity; /* negative: at least that many */
    int flags;
    int first, last, step; /* positions of the keys */
} sim_command;

enum { SIM_COMMANDS_MAX = 192, SIM_INDEX = 1024 };
/* A list for each file; each list ends with a NULL. */
extern const sim_command sim_keys_commands[], sim_strings_commands[], sim_sets_commands[],
    sim_peer_commands[], sim_admin_commands[], sim_acl_commands[], sim_script_commands[],
    sim_pubsub_commands[], sim_replication_commands[], sim_cluster_commands[],
    sim_sentinel_commands[];

typedef struct sim_user {
    struct sim_user *next;
    char *name;
    bool on, nopass;
    sim_buffer passwords, keys, channels; /* each word ends with a zero byte */
    uint8_t allowed[SIM_COMMANDS_MAX];
} sim_user;

typedef struct sim_queued {
    struct sim_queued *next;
    sim_bytes *argv; /* and the bytes after it */
    int argc;
} sim_queued;

typedef enum sim_waits { SIM_RUNS, SIM_WAITS, SIM_PAUSED } sim_waits;

struct sim_peer {
    sim_peer *before, *after, *next_pending;
    sim_redis *server;
    void *connection;
    int64_t id;
    sim_buffer input, output;
    char *name;
    sim_user *user;                 /* NULL: not logged in */
    const sim_command *command;     /* the last one */
    sim_queued *queue, **queue_end; /* between MULTI and EXEC */
    sim_waits waits;
    int64_t wait_until_ms, wait_offset, wait_replicas, wrote_offset;
    int db, resp, channels, patterns, shards;
    int asking; /* commands that are let in, with ASKING itself */
    bool multi, aborted, subscriber, readonly, closing, gone, pending;
    bool upstream; /* carries the stream of this server's master */
};

typedef struct sim_channel {
    struct sim_channel *next;
    char kind; /* c channel, p pattern, s sharded */
    sim_text *name;
    sim_peer **peers;
    size_t count;
} sim_channel;

enum { SIM_CHANNEL_BUCKETS = 64 };

typedef struct sim_script {
    char digest[41];
    int function; /* in Lua's registry */
} sim_script;

typedef struct sim_setting {
    const char *name;
    char *value;
} sim_setting;

enum { SIM_SETTINGS = 24, SIM_BLOCKS = 32 };

struct sim_redis {
    sim_redis_host host;
    void *world;
    char *shown_host, *version;
    int port, pid;
    int64_t runs, began_us; /* number of starts, and the time of the last by its own clock */
    bool debug;
    sim_setting settings[SIM_SETTINGS];
    int64_t max_memory, max_clients;
    struct {
        char error[200];
        int64_t times;
    } refusals[SIM_REFUSALS];

    sim_db dbs[SIM_DATABASES];
    sim_user *users; /* the first is the default user */
    struct sim_denial *denials;
    sim_peer *first_peer, *last_peer, *pending;
    size_t peer_count;
    int64_t next_id, accepted, rejected, expired, evicted, processed, reads;
    const sim_command *commands[SIM_COMMANDS_MAX];
    int command_count;
    int64_t calls[SIM_COMMANDS_MAX];
    uint8_t index[SIM_INDEX]; /* number + 1 of a command, by the hash of its name */
    sim_bytes *argv;          /* room for a command; scripts have their own */
    int argv_room;
    sim_channel *channels[SIM_CHANNEL_BUCKETS];

    lua_State *lua;
    void *blocks[SIM_BLOCKS]; /* free blocks, by size */
    sim_script *scripts;
    size_t script_count;
    sim_bytes *words;
    int words_room;
    sim_call *script; /* the call of EVAL under way */
    bool wrote;       /* the script has written */
    bool full;        /* the server was full when the script began */

    int64_t now_ms; /* when the call began: keys expire by this time */
    int64_t tick_ms, paused_until_ms, asleep_until_ms;
    int64_t waits_until_ms; /* not later than the end of the first WAIT; SIM_NEVER */
    bool pauses_all;

    bool replica;
    char *master_host;
    int master_port;
    bool synced; /* a replica with its master's data and stream */
    struct sim_replication *replication;
    struct sim_cluster *cluster; /* or NULL */
    struct sim_watch *watch;     /* a sentinel's master; or NULL */
};

int64_t sim_now_ms(const sim_redis *server);
const char *sim_setting_of(const sim_redis *server, const char *name);

/* A command that is being run. */
struct sim_call {
    sim_redis *server;
    sim_peer *peer;
    sim_db *db;
    const sim_command *command;
    int number; /* the command's */
    sim_bytes *argv;
    int argc;
    bool changed;   /* the data set, or a channel: replicas repeat the command */
    bool repeated;  /* replicas got it already, in other words */
    bool failed;    /* its answer is an error */
    bool refused;   /* a script whose writes are all refused */
    lua_State *lua; /* the script that gets the answer; or NULL */
    int depth;
    struct {
        int next, count;
    } open[8]; /* arrays that are not full */
};

/* ------------------------------------------------------- Answers (reply.c) */

void sim_put_bytes(sim_buffer *to, sim_bytes bytes);
void sim_put_head(sim_buffer *to, char kind, int64_t number);

void sim_reply_status(sim_call *call, const char *status);
void sim_reply_ok(sim_call *call);
/* Answer with an error, given with its code and without its minus. */
__attribute__((format(printf, 2, 3))) void sim_reply_error(sim_call *call, const char *format, ...);
void sim_reply_integer(sim_call *call, int64_t number);
void sim_reply_bytes(sim_call *call, sim_bytes bytes);
void sim_reply_digits(sim_call *call, int64_t number);
void sim_reply_word(sim_call *call, const char *word);
void sim_reply_score(sim_call *call, double score);
void sim_reply_nil(sim_call *call);
void sim_reply_nil_array(sim_call *call);
void sim_reply_array(sim_call *call, size_t count);
void sim_reply_map(sim_call *call, size_t count);

/* ------------------------------------------------------- The rest, by file */

/* peer.c */
/* Return the command's number; -1: unknown. Some names have two words. */
int sim_command_find(const sim_redis *server, int argc, const sim_bytes *argv);
/* Find the command's keys, one by one; *at begins with 0. False: there are no more keys. */
bool sim_command_key(const sim_command *command, int argc, const sim_bytes *argv, int *at);
bool sim_refused(sim_call *call, sim_refusal what);
bool sim_is_full(sim_redis *server);
/* Run a command, and send it to replicas. */
void sim_run(sim_call *call);
void sim_hang_up(sim_peer *peer);
void sim_outgoing(sim_peer *peer); /* note that the peer has output */
void sim_go_on(sim_peer *peer);    /* the peer waits no longer */
void sim_commands_begin(sim_redis *server);
sim_peer *sim_peer_new(sim_redis *server, void *connection);
void sim_flush(sim_redis *server); /* send the gathered output */

/* keys.c */
sim_key *sim_see(sim_call *call, sim_bytes name); /* NULL: no key, or an expired one */
/* Find a key. False: it has another type, and the call was answered. */
bool sim_see_type(sim_call *call, sim_bytes name, char type, sim_key **key);
void sim_delete(sim_call *call, sim_key *key);
void sim_expire_all(sim_redis *server); /* all keys whose time has ended */
bool sim_integer(sim_call *call, int which, int64_t *number);
bool sim_glob(sim_bytes pattern, sim_bytes text);

/* acl.c */
typedef enum sim_verdict { SIM_ALLOWED, SIM_NO_COMMAND, SIM_NO_KEY, SIM_NO_CHANNEL } sim_verdict;
sim_user *sim_user_make(sim_redis *server, sim_bytes name); /* may be known or new */
void sim_users_free(sim_redis *server);
bool sim_user_rule(sim_redis *server, sim_user *user, sim_bytes rule);
/* Return whether the user may run the command; *which: the refused argument. */
sim_verdict sim_allowed(const sim_redis *server, const sim_user *user, int command, int argc,
                        const sim_bytes *argv, int *which);
void sim_denied(sim_call *call, sim_verdict verdict, int which); /* for ACL LOG */

/* admin.c */
const char *sim_mode(const sim_redis *server);
bool sim_peer_name(sim_call *call, sim_bytes name); /* false: the call was answered */

/* script.c */
void sim_digest(sim_bytes text, char hex[41]);
void sim_lua_begin(sim_redis *server);
void sim_lua_forget(sim_redis *server);
void sim_lua_end(sim_redis *server);

/* pubsub.c */
sim_channel *sim_channel_find(const sim_redis *server, char kind, sim_bytes name);
void sim_unsubscribe_all(sim_peer *peer);
void sim_unsubscribe_slot(sim_redis *server, int slot); /* from its sharded channels */
size_t sim_publish(sim_redis *server, sim_bytes channel, sim_bytes text);
void sim_channels_free(sim_redis *server);

/* replication.c */
void sim_replication_begin(sim_redis *server);
void sim_replication_free(sim_redis *server);
void sim_replication_restart(sim_redis *server);
void sim_repeat(sim_redis *server, int db, int argc, const sim_bytes *argv);
void sim_repeat_end(sim_redis *server); /* the end of a command or a script */
bool sim_few_replicas(const sim_redis *server);
void sim_tell_replication(const sim_redis *server, sim_buffer *to); /* for INFO */
void sim_waits_end(
    sim_redis *server); /* answer each WAIT whose time has ended, or with enough replicas */

/* cluster.c */
bool sim_redirected(sim_call *call);               /* true: the call was answered */
const char *sim_redirected_script(sim_call *call); /* an error's text, or NULL */
void sim_cluster_free(sim_redis *server);

/* sentinel.c */
void sim_sentinel_role(sim_call *call);
void sim_sentinel_free(sim_redis *sentinel);

#endif

/* A server as a whole: its start and end, settings, INFO, its clients, and faults. */
#include "internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---------------------------------------------------------------- Settings */

static const char *const defaults[SIM_SETTINGS][2] = {
    {"maxmemory", "0"},
    {"maxmemory-policy", "noeviction"},
    {"maxclients", "10000"},
    {"timeout", "0"},
    {"tcp-keepalive", "300"},
    {"appendonly", "no"},
    {"appendfsync", "everysec"},
    {"save", ""},
    {"requirepass", ""},
    {"min-replicas-to-write", "0"},
    {"min-replicas-max-lag", "10"},
    {"lua-time-limit", "5000"},
    {"busy-reply-threshold", "5000"},
    {"notify-keyspace-events", ""},
    {"databases", "16"},
    {"proto-max-bulk-len", "536870912"},
    {"slowlog-log-slower-than", "10000"},
    {"hash-max-listpack-entries", "512"},
    {"hash-max-listpack-value", "64"},
};

static sim_setting *find_setting(sim_redis *server, sim_bytes name) {
    for (int i = 0; i < SIM_SETTINGS && server->settings[i].name != NULL; i++)
        if (sim_is(name, server->settings[i].name))
            return &server->settings[i];
    return NULL;
}

const char *sim_setting_of(const sim_redis *server, const char *name) {
    return find_setting((sim_redis *)server, sim_word(name))->value;
}

/* Read a size in bytes, which may have a unit. */
static bool read_size(sim_bytes text, int64_t *size) {
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {{"", 1},        {"b", 1},        {"k", 1000},       {"kb", 1024},
                 {"m", 1000000}, {"mb", 1 << 20}, {"g", 1000000000}, {"gb", 1 << 30}};
    size_t digits = 0;
    while (digits < text.length && isdigit((unsigned char)text.bytes[digits]))
        digits++;
    sim_bytes unit = {text.bytes + digits, text.length - digits};
    for (size_t i = 0; i < SIM_COUNT(units); i++)
        if (sim_is(unit, units[i].name) && sim_number((sim_bytes){text.bytes, digits}, size)) {
            *size *= units[i].bytes;
            return true;
        }
    return false;
}

static void set_password(sim_redis *server, sim_bytes password) {
    sim_buffer rule = {0};
    sim_addf(&rule, ">");
    sim_add(&rule, password.bytes, password.length);
    sim_user_rule(server, server->users, sim_word("resetpass"));
    sim_user_rule(server, server->users,
                  password.length > 0 ? sim_whole(&rule) : sim_word("nopass"));
    free(rule.bytes);
}

/* Return NULL, or what is wrong with the value. */
static const char *set_setting(sim_redis *server, sim_setting *setting, sim_bytes value) {
    sim_buffer text = {0};
    int64_t size;
    sim_add(&text, value.bytes, value.length);
    if (strcmp(setting->name, "maxmemory") == 0) {
        text.length = 0;
        if (!read_size(value, &size))
            return free(text.bytes), "argument must be a memory value";
        server->max_memory = size;
        sim_addf(&text, "%lld", (long long)size);
    } else if (strcmp(setting->name, "maxclients") == 0 && sim_number(value, &size)) {
        server->max_clients = size;
    } else if (strcmp(setting->name, "requirepass") == 0) {
        set_password(server, value);
    }
    sim_add(&text, "", 1);
    free(setting->value);
    setting->value = text.bytes;
    return NULL;
}

static void config_set(sim_call *call) {
    for (int i = 2; i < call->argc; i += 2) {
        sim_setting *setting = find_setting(call->server, call->argv[i]);
        if (setting == NULL || i + 1 == call->argc) {
            sim_reply_error(call,
                            "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'",
                            (int)call->argv[i].length, call->argv[i].bytes);
            return;
        }
        const char *why = set_setting(call->server, setting, call->argv[i + 1]);
        if (why != NULL) {
            sim_reply_error(call, "ERR CONFIG SET failed (possibly related to argument '%s') - %s",
                            setting->name, why);
            return;
        }
    }
    sim_reply_ok(call);
}

static void config_get(sim_call *call) {
    sim_buffer found = {0};
    for (int i = 0; i < SIM_SETTINGS && call->server->settings[i].name != NULL; i++) {
        sim_setting *setting = &call->server->settings[i];
        bool asked = false;
        for (int j = 2; j < call->argc && !asked; j++)
            asked = sim_glob(call->argv[j], sim_word(setting->name));
        if (asked)
            sim_add(&found, &setting, sizeof setting);
    }
    size_t count = found.length / sizeof(sim_setting *);
    sim_reply_map(call, count);
    for (size_t i = 0; i < count; i++) {
        const sim_setting *setting = ((sim_setting **)found.bytes)[i];
        sim_reply_word(call, setting->name);
        sim_reply_word(call, setting->value);
    }
    free(found.bytes);
}

static void config_resetstat(sim_call *call) {
    memset(call->server->calls, 0, sizeof call->server->calls);
    call->server->accepted = call->server->rejected = call->server->expired = 0;
    call->server->evicted = call->server->processed = call->server->reads = 0;
    sim_reply_ok(call);
}

/* -------------------------------------------------------------------- INFO */

const char *sim_mode(const sim_redis *server) {
    return server->watch != NULL ? "sentinel" : server->cluster != NULL ? "cluster" : "standalone";
}

static void tell_server(const sim_redis *server, sim_buffer *to) {
    sim_addf(to, "redis_version:%s\r\nredis_mode:%s\r\nos:simulation\r\narch_bits:64\r\n",
             server->version, sim_mode(server));
    int64_t now_us = server->host.now_us(server->world);
    sim_addf(to, "run_id:%020d%020lld\r\n", server->pid, (long long)server->runs);
    sim_addf(to, "server_time_usec:%lld\r\nuptime_in_seconds:%lld\r\n", (long long)now_us,
             (long long)(now_us / 1000000 - server->began_us / 1000000));
    sim_addf(to, "process_id:%d\r\ntcp_port:%d\r\nhz:10\r\n", server->pid, server->port);
}

static void tell_clients(const sim_redis *server, sim_buffer *to) {
    sim_addf(to, "connected_clients:%zu\r\nmaxclients:%lld\r\nblocked_clients:%zu\r\n",
             server->peer_count, (long long)server->max_clients, sim_redis_held(server));
}

static void tell_memory(const sim_redis *server, sim_buffer *to) {
    size_t used = 1000000;
    for (int i = 0; i < SIM_DATABASES; i++)
        used += sim_db_size(&server->dbs[i]);
    sim_addf(to, "used_memory:%zu\r\nmaxmemory:%lld\r\nmaxmemory_policy:%s\r\n", used,
             (long long)server->max_memory, sim_setting_of(server, "maxmemory-policy"));
}

static void tell_persistence(const sim_redis *server, sim_buffer *to) {
    bool fails = server->refusals[SIM_WRITES].times != 0;
    sim_addf(to, "loading:%d\r\nrdb_last_bgsave_status:%s\r\naof_enabled:%d\r\n",
             server->refusals[SIM_LOADING].times != 0, fails ? "err" : "ok",
             strcmp(sim_setting_of(server, "appendonly"), "yes") == 0);
    sim_addf(to, "aof_last_write_status:ok\r\n");
}

static void tell_stats(const sim_redis *server, sim_buffer *to) {
    sim_addf(to, "total_connections_received:%lld\r\ntotal_commands_processed:%lld\r\n",
             (long long)server->accepted, (long long)server->processed);
    sim_addf(to, "total_reads_processed:%lld\r\n", (long long)server->reads);
    sim_addf(to, "rejected_connections:%lld\r\nexpired_keys:%lld\r\nevicted_keys:%lld\r\n",
             (long long)server->rejected, (long long)server->expired, (long long)server->evicted);
}

static void tell_commands(const sim_redis *server, sim_buffer *to) {
    for (int i = 0; i < server->command_count; i++)
        if (server->calls[i] > 0)
            sim_addf(to,
                     "cmdstat_%s:calls=%lld,usec=0,usec_per_call=0.00,rejected_calls=0,"
                     "failed_calls=0\r\n",
                     server->commands[i]->name, (long long)server->calls[i]);
}

static void tell_cluster(const sim_redis *server, sim_buffer *to) {
    sim_addf(to, "cluster_enabled:%d\r\n", server->cluster != NULL);
}

static void tell_keys(const sim_redis *server, sim_buffer *to) {
    for (int i = 0; i < SIM_DATABASES; i++)
        if (server->dbs[i].count > 0)
            sim_addf(to, "db%d:keys=%zu,expires=%zu,avg_ttl=0\r\n", i, server->dbs[i].count,
                     server->dbs[i].expiring);
}

static void info(sim_call *call) {
    static const struct {
        const char *title;
        void (*tell)(const sim_redis *server, sim_buffer *to);
        bool asked_only;
    } parts[] = {
        {"Server", tell_server, false},        {"Clients", tell_clients, false},
        {"Memory", tell_memory, false},        {"Persistence", tell_persistence, false},
        {"Stats", tell_stats, false},          {"Replication", sim_tell_replication, false},
        {"Commandstats", tell_commands, true}, {"Cluster", tell_cluster, false},
        {"Keyspace", tell_keys, false}};
    sim_buffer text = {0};
    for (size_t i = 0; i < SIM_COUNT(parts); i++) {
        bool asked = call->argc == 1 && !parts[i].asked_only;
        for (int j = 1; j < call->argc && !asked; j++)
            asked = sim_is(call->argv[j], parts[i].title) || sim_is(call->argv[j], "all") ||
                    sim_is(call->argv[j], "everything") ||
                    (sim_is(call->argv[j], "default") && !parts[i].asked_only);
        if (!asked)
            continue;
        sim_addf(&text, "%s# %s\r\n", text.length > 0 ? "\r\n" : "", parts[i].title);
        parts[i].tell(call->server, &text);
    }
    sim_reply_bytes(call, text.length > 0 ? sim_whole(&text) : sim_word(""));
    free(text.bytes);
}

/* ----------------------------------------------------------------- Clients */

static const char *type_of(const sim_peer *peer) {
    return peer->upstream ? "master" : peer->subscriber ? "pubsub" : "normal";
}

static void describe(const sim_peer *peer, sim_buffer *to) {
    sim_addf(to, "id=%lld addr=127.0.0.1:%lld laddr=%s:%d fd=%lld name=%s age=0 idle=0 flags=%s ",
             (long long)peer->id, 20000 + (long long)peer->id, peer->server->shown_host,
             peer->server->port, 8 + (long long)peer->id, peer->name != NULL ? peer->name : "",
             peer->waits == SIM_WAITS ? "b"
             : peer->subscriber       ? "P"
                                      : "N");
    sim_addf(to, "db=%d sub=%d psub=%d ssub=%d multi=%d cmd=%s user=%s redir=-1 resp=%d\n",
             peer->db, peer->channels, peer->patterns, peer->shards, peer->multi ? 0 : -1,
             peer->command != NULL ? peer->command->name : "NULL",
             peer->user != NULL ? peer->user->name : "(superuser)", peer->resp);
}

static void client_list(sim_call *call) { /* CLIENT INFO too */
    sim_buffer text = {0};
    bool one = call->command->name[7] == 'i';
    bool typed = call->argc == 4 && sim_is(call->argv[2], "TYPE");
    for (const sim_peer *peer = call->server->first_peer; peer != NULL; peer = peer->after)
        if (!peer->closing && (!one || peer == call->peer) &&
            (!typed || sim_is(call->argv[3], type_of(peer))))
            describe(peer, &text);
    sim_reply_bytes(call, text.length > 0 ? sim_whole(&text) : sim_word(""));
    free(text.bytes);
}

/* The clients that CLIENT KILL names. */
typedef struct victims {
    int64_t id;
    sim_bytes type, user, address;
    bool spares_me;
} victims;

static bool read_victims(sim_call *call, victims *of) {
    *of = (victims){.spares_me = true};
    for (int i = 2; i + 1 < call->argc; i += 2) {
        sim_bytes word = call->argv[i], value = call->argv[i + 1];
        if (sim_is(word, "ID") && sim_number(value, &of->id)) {
            continue;
        } else if (sim_is(word, "TYPE")) {
            static const char *const types[] = {"normal", "pubsub", "master", "replica", "slave"};
            size_t known = 0;
            while (known < SIM_COUNT(types) && !sim_is(value, types[known]))
                known++;
            if (known == SIM_COUNT(types)) {
                sim_reply_error(call, "ERR Unknown client type '%.*s'", (int)value.length,
                                value.bytes);
                return false;
            }
            of->type = value;
        } else if (sim_is(word, "USER")) {
            of->user = value;
        } else if (sim_is(word, "ADDR")) {
            of->address = value;
        } else if (sim_is(word, "SKIPME")) {
            of->spares_me = sim_is(value, "yes");
        } else {
            sim_reply_error(call, "ERR syntax error");
            return false;
        }
    }
    return true;
}

static bool is_victim(const sim_peer *peer, const victims *of) {
    char address[40];
    snprintf(address, sizeof address, "127.0.0.1:%lld", 20000 + (long long)peer->id);
    return !peer->closing && !peer->upstream && (of->id == 0 || peer->id == of->id) &&
           (of->type.bytes == NULL || sim_is(of->type, type_of(peer))) &&
           (of->address.bytes == NULL || sim_is(of->address, address)) &&
           (of->user.bytes == NULL ||
            (peer->user != NULL && sim_same(of->user, sim_word(peer->user->name))));
}

static void client_kill(sim_call *call) {
    victims of;
    int64_t killed = 0;
    bool old_form = call->argc == 3;
    if (old_form)
        of = (victims){.address = call->argv[2]};
    else if (!read_victims(call, &of))
        return;
    bool me = false;
    for (sim_peer *peer = call->server->first_peer; peer != NULL; peer = peer->after) {
        if (!is_victim(peer, &of) || (of.spares_me && peer == call->peer))
            continue;
        killed++;
        me = me || peer == call->peer;
        if (peer != call->peer)
            sim_hang_up(peer);
    }
    if (old_form && killed == 0)
        sim_reply_error(call, "ERR No such client");
    else if (old_form)
        sim_reply_ok(call);
    else
        sim_reply_integer(call, killed);
    if (me)
        sim_hang_up(call->peer); /* once the answer is sent */
}

static void client_id(sim_call *call) { sim_reply_integer(call, call->peer->id); }

bool sim_peer_name(sim_call *call, sim_bytes name) {
    for (size_t i = 0; i < name.length; i++)
        if (name.bytes[i] < '!' || name.bytes[i] > '~') {
            sim_reply_error(call, "ERR Client names cannot contain spaces, newlines or special "
                                  "characters.");
            return false;
        }
    free(call->peer->name);
    call->peer->name = name.length > 0 ? strndup(name.bytes, name.length) : NULL;
    return true;
}

static void client_setname(sim_call *call) {
    if (sim_peer_name(call, call->argv[2]))
        sim_reply_ok(call);
}

static void client_setinfo(sim_call *call) {
    int major = 0, minor = 0;
    sscanf(call->server->version, "%d.%d", &major, &minor);
    if (major > 7 || (major == 7 && minor >= 2))
        sim_reply_ok(call);
    else
        sim_reply_error(call, "ERR unknown subcommand '%.*s'. Try CLIENT HELP.",
                        (int)call->argv[1].length, call->argv[1].bytes);
}

static void client_pause(sim_call *call) {
    int64_t ms;
    if (!sim_number(call->argv[2], &ms) || ms < 0) {
        sim_reply_error(call, "ERR timeout is not an integer or out of range");
        return;
    }
    int64_t until = sim_now_ms(call->server) + ms;
    if (call->server->paused_until_ms == SIM_NEVER || until > call->server->paused_until_ms)
        call->server->paused_until_ms = until;
    call->server->pauses_all = call->argc < 4 || sim_is(call->argv[3], "ALL");
    sim_reply_ok(call);
}

static void client_unpause(sim_call *call) {
    if (call->server->paused_until_ms != SIM_NEVER)
        call->server->paused_until_ms = call->server->now_ms; /* at the next tick, which is due */
    sim_reply_ok(call);
}

/* ------------------------------------------------------------------ Others */

static void ping(sim_call *call) {
    sim_peer *peer = call->peer;
    if (call->argc > 2) {
        sim_reply_error(call, "ERR wrong number of arguments for 'ping' command");
    } else if (peer->subscriber && peer->resp == 2) {
        sim_reply_array(call, 2);
        sim_reply_word(call, "pong");
        sim_reply_bytes(call, call->argc > 1 ? call->argv[1] : sim_word(""));
    } else if (call->argc > 1) {
        sim_reply_bytes(call, call->argv[1]);
    } else {
        sim_reply_status(call, "PONG");
    }
}

static void echo(sim_call *call) { sim_reply_bytes(call, call->argv[1]); }

static void select_db(sim_call *call) {
    int64_t number;
    if (!sim_integer(call, 1, &number))
        return;
    if (number != 0 && call->server->cluster != NULL) {
        sim_reply_error(call, "ERR SELECT is not allowed in cluster mode");
        return;
    }
    if (number < 0 || number >= SIM_DATABASES) {
        sim_reply_error(call, "ERR DB index is out of range");
        return;
    }
    call->peer->db = (int)number;
    sim_reply_ok(call);
}

static void tell_time(sim_call *call) {
    int64_t now = call->server->host.now_us(call->server->world);
    sim_reply_array(call, 2);
    sim_reply_digits(call, now / 1000000);
    sim_reply_digits(call, now % 1000000);
}

static void debug(sim_call *call) {
    double seconds;
    if (!call->server->debug) {
        sim_reply_error(call,
                        "ERR DEBUG command not allowed. If the enable-debug-command option is "
                        "set to \"local\", you can run it from a local connection, otherwise "
                        "you need to set this option in the configuration file, and then "
                        "restart the server.");
    } else if (call->argc == 3 && sim_is(call->argv[1], "SLEEP") &&
               sim_score(call->argv[2], &seconds)) {
        call->server->asleep_until_ms = sim_now_ms(call->server) + (int64_t)(seconds * 1000);
        sim_reply_ok(call);
    } else {
        sim_reply_error(call, "ERR unknown subcommand or wrong number of arguments for 'debug'");
    }
}

/* -------------------------------------------------------------- The server */

static char *copy_of(const char *text, const char *otherwise) {
    return strdup(text != NULL ? text : otherwise);
}

sim_redis *sim_redis_new(const sim_redis_host *host, void *world,
                         const sim_redis_options *options) {
    sim_redis *server = sim_grow(NULL, sizeof *server);
    memset(server, 0, sizeof *server);
    server->host = *host;
    server->world = world;
    server->shown_host = copy_of(options->host, "127.0.0.1");
    server->version = copy_of(options->version, "7.0.15");
    server->port = options->port;
    server->pid = options->pid;
    server->began_us = host->now_us(world) - options->age_s * 1000000;
    server->debug = options->debug;
    server->max_clients = options->max_clients > 0 ? options->max_clients : 10000;
    server->next_id = 1;
    server->paused_until_ms = server->asleep_until_ms = server->waits_until_ms = SIM_NEVER;
    for (int i = 0; i < SIM_DATABASES; i++)
        server->dbs[i] = (sim_db){.number = i, .next_expiry = SIM_NEVER};
    for (int i = 0; i < SIM_SETTINGS && defaults[i][0] != NULL; i++)
        server->settings[i] = (sim_setting){defaults[i][0], strdup(defaults[i][1])};
    sim_commands_begin(server);
    sim_replication_begin(server);
    sim_lua_begin(server);
    static const char *const all[] = {"on", "nopass", "~*", "&*", "+@all"};
    for (size_t i = 0; i < SIM_COUNT(all); i++)
        sim_user_rule(server, sim_user_make(server, sim_word("default")), sim_word(all[i]));
    if (options->password != NULL)
        set_setting(server, find_setting(server, sim_word("requirepass")),
                    sim_word(options->password));
    return server;
}

void sim_redis_free(sim_redis *server) {
    if (server == NULL)
        return;
    server->asleep_until_ms = SIM_NEVER;
    while (server->first_peer != NULL)
        sim_redis_gone(server->first_peer);
    for (int i = 0; i < SIM_DATABASES; i++)
        sim_db_clear(&server->dbs[i]);
    for (int i = 0; i < SIM_SETTINGS; i++)
        free(server->settings[i].value);
    sim_users_free(server);
    sim_channels_free(server);
    sim_lua_end(server);
    sim_replication_free(server);
    sim_cluster_free(server);
    sim_sentinel_free(server);
    free(server->argv);
    free(server->shown_host);
    free(server->version);
    free(server->master_host);
    free(server);
}

void sim_redis_restart(sim_redis *server, bool keep_data) {
    for (int i = 0; i < SIM_DATABASES && !keep_data; i++)
        sim_db_clear(&server->dbs[i]);
    server->runs++;
    server->began_us = server->host.now_us(server->world);
    sim_replication_restart(server);
    for (sim_peer *peer = server->first_peer; peer != NULL; peer = peer->after) {
        peer->output.length = 0;
        sim_hang_up(peer);
    }
    sim_lua_forget(server);
    server->paused_until_ms = server->asleep_until_ms = SIM_NEVER;
    sim_redis_tick(server);
}

/* ------------------------------------------------------------------ Faults */

void sim_redis_refuse(sim_redis *server, sim_refusal what, const char *error, int64_t times) {
    static const char *const usual[SIM_REFUSALS] = {
        [SIM_EVERYTHING] = "ERR internal error",
        [SIM_LOADING] = "LOADING Redis is loading the dataset in memory",
        [SIM_BUSY] = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or "
                     "SHUTDOWN NOSAVE.",
        [SIM_SCRIPTS] = "NOSCRIPT No matching script. Please use EVAL.",
        [SIM_WRITES] = "MISCONF Redis is configured to save RDB snapshots, but it's currently "
                       "unable to persist to disk. Commands that may modify the data set are "
                       "disabled, because this instance is configured to report errors during "
                       "writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). "
                       "Please check the Redis logs for details about the RDB error.",
        [SIM_GROWTH] = "OOM command not allowed when used memory > 'maxmemory'."};
    snprintf(server->refusals[what].error, sizeof server->refusals->error, "%s",
             error != NULL ? error : usual[what]);
    server->refusals[what].times = times;
}

void sim_redis_set_max_clients(sim_redis *server, int64_t most) { server->max_clients = most; }

/* -------------------------------------------------------------- Inspection */

static bool show(const sim_redis *server, const sim_key *key, sim_seen *seen) {
    if (key->expires_ms < sim_now_ms(server))
        return false;
    *seen = (sim_seen){.name = sim_of(key->name),
                       .type = key->type,
                       .expires_ms = key->expires_ms,
                       .count = key->count,
                       .key = key};
    if (key->value != NULL)
        seen->string = sim_of(key->value);
    return true;
}

bool sim_redis_see(const sim_redis *server, int database, sim_bytes name, sim_seen *seen) {
    const sim_key *key = sim_db_find(&server->dbs[database], name);
    return key != NULL && show(server, key, seen);
}

bool sim_redis_next(const sim_redis *server, int database, uint64_t *cursor, sim_seen *seen) {
    const sim_key *last = (const sim_key *)(uintptr_t)*cursor;
    const sim_key *key = last == NULL ? server->dbs[database].first : last->after;
    while (key != NULL && !show(server, key, seen))
        key = key->after;
    if (key != NULL)
        *cursor = (uintptr_t)key;
    return key != NULL;
}

sim_entry sim_redis_entry(const sim_seen *seen, size_t which) {
    const sim_item *item = &((const sim_key *)seen->key)->items[which];
    sim_entry entry = {.name = sim_of(item->name), .score = item->score};
    if (item->value != NULL)
        entry.value = sim_of(item->value);
    return entry;
}

bool sim_redis_find(const sim_seen *seen, sim_bytes name, sim_entry *entry) {
    ptrdiff_t at = sim_key_find(seen->key, name);
    if (at >= 0)
        *entry = sim_redis_entry(seen, (size_t)at);
    return at >= 0;
}

int64_t sim_redis_calls(const sim_redis *server, const char *command) {
    for (int i = 0; i < server->command_count; i++)
        if (strcasecmp(server->commands[i]->name, command) == 0)
            return server->calls[i];
    return 0;
}

enum { ANYTIME = SIM_NOSCRIPT | SIM_LOADABLE };

const sim_command sim_admin_commands[] = {
    {"ping", ping, -1, SIM_PUSHES | SIM_SENTINEL, 0, 0, 0},
    {"echo", echo, 2, SIM_LOADABLE, 0, 0, 0},
    {"select", select_db, 2, SIM_LOADABLE, 0, 0, 0},
    {"time", tell_time, 1, SIM_LOADABLE, 0, 0, 0},
    {"info", info, -1, SIM_LOADABLE | SIM_SENTINEL, 0, 0, 0},
    {"config", NULL, -2, ANYTIME | SIM_GROUP, 0, 0, 0},
    {"config|get", config_get, -3, ANYTIME, 0, 0, 0},
    {"config|set", config_set, -4, ANYTIME, 0, 0, 0},
    {"config|resetstat", config_resetstat, 2, ANYTIME, 0, 0, 0},
    {"client", NULL, -2, ANYTIME | SIM_GROUP | SIM_SENTINEL, 0, 0, 0},
    {"client|list", client_list, -2, ANYTIME, 0, 0, 0},
    {"client|info", client_list, 2, ANYTIME, 0, 0, 0},
    {"client|kill", client_kill, -3, ANYTIME, 0, 0, 0},
    {"client|id", client_id, 2, ANYTIME, 0, 0, 0},
    {"client|setname", client_setname, 3, ANYTIME | SIM_SENTINEL, 0, 0, 0},
    {"client|setinfo", client_setinfo, 4, ANYTIME | SIM_SENTINEL, 0, 0, 0},
    {"client|pause", client_pause, -3, ANYTIME, 0, 0, 0},
    {"client|unpause", client_unpause, 2, ANYTIME, 0, 0, 0},
    {"debug", debug, -2, ANYTIME, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Clients: bytes become commands, commands run or are refused, answers go back. */
#include "internal.h"

#include <stdlib.h>
#include <strings.h>

/* Rough costs of a client's command, and of a script's. */
enum { COMMAND_NS = 2000, SCRIPTED_NS = 400 };

int64_t sim_now_ms(const sim_redis *server) { return server->host.now_us(server->world) / 1000; }

/* --------------------------------------------------------- Sending, ending */

void sim_outgoing(sim_peer *peer) {
    if (peer->pending || peer->gone)
        return;
    peer->pending = true;
    peer->next_pending = peer->server->pending; /* Redis, too, writes to the last peer first */
    peer->server->pending = peer;
}

void sim_flush(sim_redis *server) {
    if (server->asleep_until_ms != SIM_NEVER)
        return;
    while (server->pending != NULL) {
        sim_peer *peer = server->pending;
        server->pending = peer->next_pending;
        peer->pending = false;
        if (peer->output.length > 0 && !peer->upstream)
            server->host.send(server->world, peer->connection, peer->output.bytes,
                              peer->output.length);
        peer->output.length = 0;
        if (peer->closing)
            server->host.hang_up(server->world, peer->connection);
    }
}

void sim_hang_up(sim_peer *peer) {
    if (peer->closing)
        return;
    peer->closing = true;
    peer->waits = SIM_RUNS;
    peer->server->peer_count -= !peer->upstream;
    sim_unsubscribe_all(peer);
    sim_outgoing(peer);
}

static void forget_queue(sim_peer *peer) {
    for (sim_queued *next; peer->queue != NULL; peer->queue = next) {
        next = peer->queue->next;
        free(peer->queue->argv);
        free(peer->queue);
    }
    peer->queue_end = &peer->queue;
    peer->multi = peer->aborted = false;
}

static void free_peer(sim_peer *peer) {
    sim_redis *server = peer->server;
    for (sim_peer **at = &server->pending; *at != NULL; at = &(*at)->next_pending)
        if (*at == peer) {
            *at = peer->next_pending;
            break;
        }
    *(peer->before != NULL ? &peer->before->after : &server->first_peer) = peer->after;
    *(peer->after != NULL ? &peer->after->before : &server->last_peer) = peer->before;
    server->peer_count -= !peer->upstream && !peer->closing;
    sim_unsubscribe_all(peer);
    forget_queue(peer);
    free(peer->input.bytes);
    free(peer->output.bytes);
    free(peer->name);
    free(peer);
}

void sim_redis_gone(sim_peer *peer) {
    peer->gone = true;
    if (peer->server->asleep_until_ms == SIM_NEVER) /* a server that sleeps learns of it later */
        free_peer(peer);
}

sim_peer *sim_peer_new(sim_redis *server, void *connection) {
    sim_peer *peer = sim_grow(NULL, sizeof *peer);
    sim_user *user = server->users;
    *peer = (sim_peer){.server = server,
                       .connection = connection,
                       .id = server->next_id++,
                       .user = user->on && user->nopass ? user : NULL,
                       .resp = 2,
                       .before = server->last_peer};
    peer->queue_end = &peer->queue;
    *(server->last_peer != NULL ? &server->last_peer->after : &server->first_peer) = peer;
    server->last_peer = peer;
    return peer;
}

sim_peer *sim_redis_accept(sim_redis *server, void *connection) {
    static const char full[] = "-ERR max number of clients reached\r\n";
    if ((int64_t)server->peer_count >= server->max_clients) {
        server->rejected++;
        server->host.send(server->world, connection, full, sizeof full - 1);
        server->host.hang_up(server->world, connection);
        return NULL;
    }
    server->accepted++;
    server->peer_count++;
    return sim_peer_new(server, connection);
}

/* ------------------------------------------------------- The command table */

static uint32_t hash_name(uint32_t hash, sim_bytes name) {
    for (size_t i = 0; i < name.length; i++)
        hash = (hash ^ (uint8_t)(name.bytes[i] | 0x20)) * 16777619;
    return hash;
}

static void add_command(sim_redis *server, const sim_command *command) {
    uint32_t hash = hash_name(2166136261, sim_word(command->name));
    while (server->index[hash % SIM_INDEX] != 0)
        hash++;
    server->commands[server->command_count++] = command;
    server->index[hash % SIM_INDEX] = (uint8_t)server->command_count;
}

void sim_commands_begin(sim_redis *server) {
    const sim_command *lists[] = {
        sim_keys_commands,        sim_strings_commands, sim_sets_commands,    sim_peer_commands,
        sim_admin_commands,       sim_acl_commands,     sim_script_commands,  sim_pubsub_commands,
        sim_replication_commands, sim_cluster_commands, sim_sentinel_commands};
    for (size_t i = 0; i < SIM_COUNT(lists); i++)
        for (const sim_command *each = lists[i]; each->name != NULL; each++)
            add_command(server, each);
}

static bool is_known(const sim_redis *server, const sim_command *command) {
    return server->watch != NULL ? (command->flags & SIM_SENTINEL) != 0
                                 : (command->flags & SIM_SENTINEL_ONLY) == 0;
}

static int find_hashed(const sim_redis *server, uint32_t hash, sim_bytes name, sim_bytes second) {
    for (int number; (number = server->index[hash % SIM_INDEX]) != 0; hash++) {
        const char *known = server->commands[number - 1]->name;
        bool starts = strncasecmp(known, name.bytes, name.length) == 0;
        known += starts ? name.length : 0;
        if (starts &&
            (second.bytes == NULL ? *known == '\0' : *known == '|' && sim_is(second, known + 1)))
            return is_known(server, server->commands[number - 1]) ? number - 1 : -1;
    }
    return -1;
}

int sim_command_find(const sim_redis *server, int argc, const sim_bytes *argv) {
    uint32_t hash = hash_name(2166136261, argv[0]);
    int number = find_hashed(server, hash, argv[0], (sim_bytes){0});
    if (number < 0 || argc < 2 || (server->commands[number]->flags & SIM_GROUP) == 0)
        return number;
    hash = hash_name(hash_name(hash, sim_word("|")), argv[1]);
    return find_hashed(server, hash, argv[0], argv[1]);
}

bool sim_command_key(const sim_command *command, int argc, const sim_bytes *argv, int *at) {
    int first = command->first, last = command->last, step = command->step;
    int64_t count;
    if ((command->flags & SIM_NUMKEYS) != 0) {
        if (argc < 3 || !sim_number(argv[2], &count) || count < 0 || count > argc - 3)
            return false;
        first = 3;
        last = 2 + (int)count;
        step = 1;
    }
    if (first == 0)
        return false;
    last = last < 0 ? argc + last : last;
    *at = *at == 0 ? first : *at + step;
    return *at <= last && *at < argc;
}

/* -------------------------------------------------------- Refused commands */

bool sim_refused(sim_call *call, sim_refusal what) {
    int64_t *times = &call->server->refusals[what].times;
    if (*times == 0)
        return false;
    *times -= *times > 0;
    sim_reply_error(call, "%s", call->server->refusals[what].error);
    return true;
}

bool sim_is_full(sim_redis *server) {
    if (server->max_memory == 0)
        return false;
    const char *policy = sim_setting_of(server, "maxmemory-policy");
    size_t used = 1000000;
    for (int i = 0; i < SIM_DATABASES; i++)
        used += sim_db_size(&server->dbs[i]);
    if (used <= (size_t)server->max_memory)
        return false;
    /* Evict the oldest keys first: a simple rule. */
    for (int i = 0; i < SIM_DATABASES && strcmp(policy, "noeviction") != 0; i++)
        for (sim_key *key = server->dbs[i].first, *after; key != NULL; key = after) {
            after = key->after;
            if (strncmp(policy, "volatile", 8) == 0 && key->expires_ms == SIM_NEVER)
                continue;
            sim_repeat(server, i, 2, (sim_bytes[]){sim_word("DEL"), sim_of(key->name)});
            sim_db_remove(&server->dbs[i], key);
            server->evicted++;
            if (server->max_memory > 1000000)
                return sim_is_full(server);
        }
    return true;
}

static void refuse_unknown(sim_call *call) {
    sim_buffer words = {0};
    if (call->number < 0 && find_hashed(call->server, hash_name(2166136261, call->argv[0]),
                                        call->argv[0], (sim_bytes){0}) >= 0) {
        sim_reply_error(call, "ERR unknown subcommand '%.*s'. Try %.*s HELP.",
                        (int)call->argv[1].length, call->argv[1].bytes, (int)call->argv[0].length,
                        call->argv[0].bytes);
        return;
    }
    for (int i = 1; i < call->argc && words.length < 128; i++) {
        size_t most = 128 - words.length, length = call->argv[i].length;
        sim_addf(&words, "'%.*s' ", (int)(length < most ? length : most), call->argv[i].bytes);
    }
    sim_reply_error(call, "ERR unknown command '%.*s', with args beginning with: %.*s",
                    call->argv[0].length < 128 ? (int)call->argv[0].length : 128,
                    call->argv[0].bytes, (int)words.length, words.length ? words.bytes : "");
    free(words.bytes);
}

static bool refuse_by_acl(sim_call *call) {
    int which = 0;
    sim_verdict verdict =
        sim_allowed(call->server, call->peer->user, call->number, call->argc, call->argv, &which);
    if (verdict == SIM_ALLOWED)
        return false;
    sim_denied(call, verdict, which);
    if (verdict == SIM_NO_COMMAND)
        sim_reply_error(call, "NOPERM this user has no permissions to run the '%s' command",
                        call->command->name);
    else
        sim_reply_error(call,
                        "NOPERM this user has no permissions to access one of the %s used as "
                        "arguments",
                        verdict == SIM_NO_KEY ? "keys" : "channels");
    return true;
}

static bool refuse_write(sim_call *call) {
    sim_redis *server = call->server;
    bool writes = (call->command->flags & SIM_WRITE) != 0;
    if ((writes || strcmp(call->command->name, "ping") == 0) && sim_refused(call, SIM_WRITES))
        return true;
    if (!writes)
        return false;
    if (sim_few_replicas(server))
        sim_reply_error(call, "NOREPLICAS Not enough good replicas to write.");
    else if (server->replica)
        sim_reply_error(call, "READONLY You can't write against a read only replica.");
    else
        return false;
    return true;
}

/* Refuse the command if there is a reason, in Redis's order. */
static bool refuse(sim_call *call) {
    sim_redis *server = call->server;
    sim_peer *peer = call->peer;
    if (call->command == NULL) {
        refuse_unknown(call);
        return true;
    }
    const sim_command *command = call->command;
    int arity = command->arity, flags = command->flags;
    bool scripts = (flags & SIM_NUMKEYS) != 0;
    if (arity > 0 ? call->argc != arity : call->argc < -arity) {
        sim_reply_error(call, "ERR wrong number of arguments for '%s' command", command->name);
        return true;
    }
    if (peer->upstream)
        return false;
    if (peer->user == NULL && (flags & SIM_NOAUTH) == 0) {
        sim_reply_error(call, "NOAUTH Authentication required.");
        return true;
    }
    if (sim_refused(call, SIM_EVERYTHING) || (scripts && sim_refused(call, SIM_SCRIPTS)))
        return true;
    if ((flags & SIM_NOAUTH) == 0 && refuse_by_acl(call))
        return true;
    if (sim_redirected(call))
        return true;
    server->full = sim_is_full(server);
    if ((flags & SIM_DENYOOM) != 0 && sim_refused(call, SIM_GROWTH))
        return true;
    if ((flags & SIM_DENYOOM) != 0 && server->full) {
        sim_reply_error(call, "OOM command not allowed when used memory > 'maxmemory'.");
        return true;
    }
    if (refuse_write(call))
        return true;
    if (peer->subscriber && peer->resp == 2 && (flags & SIM_PUSHES) == 0) {
        sim_reply_error(call,
                        "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
                        "QUIT / RESET are allowed in this context",
                        command->name);
        return true;
    }
    return ((flags & SIM_LOADABLE) == 0 && sim_refused(call, SIM_LOADING)) ||
           ((flags & SIM_BUSYABLE) == 0 && sim_refused(call, SIM_BUSY));
}

/* ----------------------------------------------------------------- Running */

void sim_run(sim_call *call) {
    sim_redis *server = call->server;
    server->calls[call->number]++;
    server->processed++;
    if ((call->command->flags & SIM_CLUSTER_ONLY) != 0 && server->cluster == NULL)
        sim_reply_error(call, "ERR This instance has cluster support disabled");
    else
        call->command->run(call);
    if (call->changed && !call->repeated)
        sim_repeat(server, call->db->number, call->argc, call->argv);
    if (server->host.spent != NULL)
        server->host.spent(server->world, call->lua != NULL ? SCRIPTED_NS : COMMAND_NS);
    if (server->host.ran != NULL && call->lua == NULL)
        server->host.ran(server->world, call->argv, (size_t)call->argc);
}

static void enqueue(sim_peer *peer, int argc, const sim_bytes *argv) {
    size_t size = (size_t)argc * sizeof *argv;
    sim_queued *queued = sim_grow(NULL, sizeof *queued);
    for (int i = 0; i < argc; i++)
        size += argv[i].length;
    *queued = (sim_queued){.argc = argc, .argv = sim_grow(NULL, size)};
    char *to = (char *)(queued->argv + argc);
    for (int i = 0; i < argc; i++) {
        memcpy(to, argv[i].bytes, argv[i].length);
        queued->argv[i] = (sim_bytes){to, argv[i].length};
        to += argv[i].length;
    }
    *peer->queue_end = queued;
    peer->queue_end = &queued->next;
}

static bool in_multi(const sim_command *command) {
    static const char *const at_once[] = {"exec", "multi", "quit"};
    for (size_t i = 0; i < SIM_COUNT(at_once); i++)
        if (strcmp(command->name, at_once[i]) == 0)
            return false;
    return true;
}

/* Return whether the command must wait for the end of CLIENT PAUSE. */
static bool is_paused(const sim_redis *server, const sim_peer *peer, const sim_command *command) {
    int writes = SIM_WRITE | SIM_REPLICATED;
    return server->paused_until_ms != SIM_NEVER && !peer->upstream &&
           (server->pauses_all || (command->flags & writes) != 0);
}

/* Run a command. False: it must be tried again later. */
static bool execute(sim_peer *peer, int argc) {
    sim_redis *server = peer->server;
    sim_bytes *argv = server->argv;
    sim_call call = {.server = server, .peer = peer, .argv = argv, .argc = argc};
    server->now_ms = sim_now_ms(server);
    call.number = sim_command_find(server, argc, argv);
    call.command = call.number >= 0 ? server->commands[call.number] : NULL;
    call.db = &server->dbs[peer->db];
    size_t before = peer->output.length;
    if (refuse(&call)) {
        peer->aborted = peer->multi;
    } else if (is_paused(server, peer, call.command)) {
        peer->waits = SIM_PAUSED;
        return false;
    } else if (peer->multi && in_multi(call.command)) {
        enqueue(peer, argc, argv);
        sim_reply_status(&call, "QUEUED");
    } else {
        peer->command = call.command;
        sim_run(&call);
        sim_repeat_end(server);
        peer->wrote_offset = call.changed ? sim_redis_offset(server) : peer->wrote_offset;
    }
    peer->asking -= peer->asking > 0;
    if (peer->output.length > before)
        sim_outgoing(peer);
    return true;
}

static void multi(sim_call *call) {
    if (call->peer->multi) {
        sim_reply_error(call, "ERR MULTI calls can not be nested");
        return;
    }
    call->peer->multi = true;
    sim_reply_ok(call);
}

static void exec(sim_call *call) {
    sim_peer *peer = call->peer;
    size_t count = 0;
    if (!peer->multi || peer->aborted) {
        sim_reply_error(call, peer->multi ? "EXECABORT Transaction discarded because of previous "
                                            "errors."
                                          : "ERR EXEC without MULTI");
        forget_queue(peer);
        return;
    }
    for (const sim_queued *each = peer->queue; each != NULL; each = each->next)
        count++;
    sim_reply_array(call, count);
    for (const sim_queued *each = peer->queue; each != NULL; each = each->next) {
        int number = sim_command_find(call->server, each->argc, each->argv);
        sim_call one = {.server = call->server,
                        .peer = peer,
                        .db = &call->server->dbs[peer->db],
                        .command = call->server->commands[number],
                        .number = number,
                        .argv = each->argv,
                        .argc = each->argc};
        if (peer->upstream || !refuse_by_acl(&one))
            sim_run(&one);
        call->changed = call->changed || one.changed;
    }
    call->repeated = true;
    forget_queue(peer);
}

static void quit(sim_call *call) {
    sim_reply_ok(call);
    sim_hang_up(call->peer);
}

/* ----------------------------------------------------------------- Parsing */

typedef enum parsed { COMPLETE, PARTIAL, WRONG } parsed;

static parsed wrong(sim_peer *peer, const char *why) {
    sim_addf(&peer->output, "-ERR Protocol error: %s\r\n", why);
    sim_hang_up(peer);
    return WRONG;
}

static void make_room(sim_redis *server, int64_t count) {
    if (count <= server->argv_room)
        return;
    server->argv_room = (int)count + 16;
    server->argv = sim_grow(server->argv, (size_t)server->argv_room * sizeof *server->argv);
}

/* Take off a line, with its \r
 * . */
static bool take_line(sim_bytes *from, sim_bytes *line) {
    const char *end = memchr(from->bytes, '\n', from->length);
    if (end == NULL)
        return false;
    size_t length = (size_t)(end - from->bytes);
    *line = (sim_bytes){from->bytes, length - (length > 0 && end[-1] == '\r')};
    *from = (sim_bytes){end + 1, from->length - length - 1};
    return true;
}

/* Take off words separated by spaces, as people type them; Redis's quotes are not known. */
static parsed parse_inline(sim_peer *peer, sim_bytes *from, int *argc) {
    sim_bytes line;
    if (!take_line(from, &line))
        return PARTIAL;
    const char *at = line.bytes, *end = at + line.length;
    for (*argc = 0;; ++*argc) {
        while (at < end && *at == ' ')
            at++;
        if (at == end)
            return COMPLETE;
        make_room(peer->server, *argc + 1);
        sim_bytes *word = &peer->server->argv[*argc];
        for (word->bytes = at; at < end && *at != ' ';)
            at++;
        word->length = (size_t)(at - word->bytes);
    }
}

/* Take off a command; *argc is 0 for an empty command. */
static parsed parse(sim_peer *peer, sim_bytes *bytes, int *argc) {
    sim_bytes from = *bytes, line;
    int64_t count, length;
    if (*from.bytes != '*')
        return parse_inline(peer, bytes, argc);
    if (!take_line(&from, &line))
        return PARTIAL;
    line = (sim_bytes){line.bytes + 1, line.length - 1};
    if (!sim_number(line, &count) || count > 1024 * 1024)
        return wrong(peer, "invalid multibulk length");
    make_room(peer->server, count);
    for (*argc = 0; *argc < count; ++*argc) {
        if (from.length == 0)
            return PARTIAL;
        if (*from.bytes != '$') {
            char why[] = "expected '$', got '?'";
            why[sizeof why - 3] = *from.bytes;
            return wrong(peer, why);
        }
        if (!take_line(&from, &line))
            return PARTIAL;
        line = (sim_bytes){line.bytes + 1, line.length - 1};
        if (!sim_number(line, &length) || length < 0 || length > 512 * 1024 * 1024)
            return wrong(peer, "invalid bulk length");
        if (from.length < (size_t)length + 2)
            return PARTIAL;
        peer->server->argv[*argc] = (sim_bytes){from.bytes, (size_t)length};
        from = (sim_bytes){from.bytes + length + 2, from.length - (size_t)length - 2};
    }
    *bytes = from;
    return COMPLETE;
}

static bool runs(const sim_peer *peer) {
    return peer->waits == SIM_RUNS && !peer->closing && peer->server->asleep_until_ms == SIM_NEVER;
}

/* Run the commands; keep the rest, which may be part of a command, for later. */
static void consume(sim_peer *peer, sim_bytes bytes) {
    bool kept = bytes.bytes == peer->input.bytes;
    while (bytes.length > 0 && runs(peer)) {
        int argc = 0;
        sim_bytes rest = bytes;
        if (parse(peer, &rest, &argc) != COMPLETE || (argc > 0 && !execute(peer, argc)))
            break;
        bytes = rest;
    }
    if (kept && bytes.length > 0)
        memmove(peer->input.bytes, bytes.bytes, bytes.length);
    if (kept)
        peer->input.length = bytes.length;
    else
        sim_add(&peer->input, bytes.bytes, bytes.length);
}

/* End the peer's wait, and run the commands that have arrived since. */
void sim_go_on(sim_peer *peer) {
    peer->waits = SIM_RUNS;
    if (peer->input.length > 0)
        consume(peer, sim_whole(&peer->input));
}

void sim_redis_feed(sim_peer *peer, const void *bytes, size_t length) {
    sim_redis *server = peer->server;
    if (peer->closing || length == 0)
        return;
    server->reads++;
    bool first = peer->input.length == 0;
    if (!first || !runs(peer))
        sim_add(&peer->input, bytes, length);
    if (runs(peer))
        consume(peer, first ? (sim_bytes){bytes, length} : sim_whole(&peer->input));
    sim_flush(server);
}

/* -------------------------------------------------------------------- Time */

static void wake(sim_redis *server) {
    server->paused_until_ms = SIM_NEVER;
    for (sim_peer *peer = server->first_peer, *after; peer != NULL; peer = after) {
        after = peer->after;
        if (peer->waits == SIM_PAUSED)
            sim_go_on(peer);
    }
}

static void end_sleep(sim_redis *server) {
    server->asleep_until_ms = SIM_NEVER;
    for (sim_peer *peer = server->first_peer, *after; peer != NULL; peer = after) {
        after = peer->after;
        if (peer->gone)
            free_peer(peer);
        else if (peer->waits == SIM_RUNS)
            sim_go_on(peer);
    }
}

/* Redis looks for expired keys at this interval. */
enum { TICK_MS = 100 };

int64_t sim_redis_due(const sim_redis *server) {
    int64_t due_ms = SIM_NEVER;
    if (server->asleep_until_ms != SIM_NEVER)
        return server->asleep_until_ms * 1000;
    for (int i = 0; i < SIM_DATABASES && !server->replica; i++)
        if (server->dbs[i].next_expiry < due_ms)
            due_ms = server->dbs[i].next_expiry + 1;
    if (due_ms != SIM_NEVER && due_ms < server->tick_ms + TICK_MS)
        due_ms = server->tick_ms + TICK_MS;
    if (server->paused_until_ms < due_ms)
        due_ms = server->paused_until_ms;
    if (server->waits_until_ms < due_ms)
        due_ms = server->waits_until_ms;
    return due_ms == SIM_NEVER ? INT64_MAX : due_ms * 1000;
}

void sim_redis_tick(sim_redis *server) {
    server->now_ms = sim_now_ms(server);
    if (server->now_ms >= server->asleep_until_ms)
        end_sleep(server);
    if (server->asleep_until_ms != SIM_NEVER)
        return;
    sim_expire_all(server);
    server->tick_ms = server->now_ms;
    sim_repeat_end(server);
    if (server->now_ms >= server->paused_until_ms)
        wake(server);
    sim_waits_end(server);
    sim_flush(server);
}

size_t sim_redis_peers(const sim_redis *server) { return server->peer_count; }

size_t sim_redis_held(const sim_redis *server) {
    size_t held = 0;
    for (const sim_peer *peer = server->first_peer; peer != NULL; peer = peer->after)
        held += peer->waits != SIM_RUNS ||
                (server->asleep_until_ms != SIM_NEVER && peer->input.length > 0);
    return held;
}

enum { ANYTIME = SIM_LOADABLE | SIM_BUSYABLE | SIM_NOSCRIPT };

const sim_command sim_peer_commands[] = {
    {"multi", multi, 1, ANYTIME, 0, 0, 0},
    {"exec", exec, 1, SIM_NOSCRIPT | SIM_LOADABLE, 0, 0, 0},
    {"quit", quit, -1, ANYTIME | SIM_NOAUTH | SIM_PUSHES, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

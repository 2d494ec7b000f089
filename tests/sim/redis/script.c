/* Scripts: Lua as Redis runs it. */
#include "internal.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ------------------------------------------------------------------- SHA-1 */

static uint32_t turn(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }

static void add_block(uint32_t state[5], const uint8_t block[64]) {
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 80; i++) {
        w[i] = i < 16 ? (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                            (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3]
                      : turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        uint32_t mix = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                       : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                       : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = turn(a, 5) + mix + e + w[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sim_digest(sim_bytes text, char hex[41]) {
    static const char digits[] = "0123456789abcdef";
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t end[128] = {0};
    size_t at = 0;
    for (; text.length - at >= 64; at += 64)
        add_block(state, (const uint8_t *)text.bytes + at);
    size_t rest = text.length - at, length = rest < 56 ? 64 : 128;
    memcpy(end, text.bytes + at, rest);
    end[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        end[length - 1 - (size_t)i] = (uint8_t)((uint64_t)text.length * 8 >> 8 * i);
    for (size_t i = 0; i < length; i += 64)
        add_block(state, end + i);
    for (int i = 0; i < 40; i++)
        hex[i] = digits[state[i / 8] >> (28 - i % 8 * 4) & 15];
    hex[40] = '\0';
}

/* ---------------------------------------------------- Functions of scripts */

static sim_redis *server_of(lua_State *lua) { return lua_touserdata(lua, lua_upvalueindex(1)); }

/* Push a table with the text; a text without a minus has no code, and gets a general one. */
static void push_error(lua_State *lua, const char *text) {
    lua_createtable(lua, 0, 1);
    lua_pushfstring(lua, "%s%s", *text == '-' ? "" : "ERR ", text + (*text == '-'));
    lua_setfield(lua, -2, "err");
}

/* Read the words on the stack. Numbers become texts, in Redis's form. */
static bool take_words(lua_State *lua, sim_redis *server, int argc) {
    if (argc > server->words_room) {
        server->words_room = 2 * argc;
        server->words = sim_grow(server->words, 2 * (size_t)argc * sizeof *server->words);
    }
    for (int i = 0; i < argc; i++) {
        int type = lua_type(lua, i + 1);
        sim_bytes *word = &server->words[i];
        if (type == LUA_TNUMBER) {
            char digits[40];
            int length = snprintf(digits, sizeof digits, "%.17g", lua_tonumber(lua, i + 1));
            lua_pushlstring(lua, digits, (size_t)length);
            lua_replace(lua, i + 1);
        } else if (type != LUA_TSTRING) {
            return false;
        }
        word->bytes = lua_tolstring(lua, i + 1, &word->length);
    }
    return true;
}

static const char *refused_by_acl(sim_call *call) {
    static const char *const texts[] = {
        [SIM_NO_COMMAND] = "The user executing the script can't run this command or subcommand",
        [SIM_NO_KEY] = "The user executing the script can't access at least one of the keys "
                       "mentioned in the command arguments",
        [SIM_NO_CHANNEL] = "The user executing the script can't publish to the channel mentioned "
                           "in the command"};
    int which;
    sim_verdict verdict =
        sim_allowed(call->server, call->peer->user, call->number, call->argc, call->argv, &which);
    if (verdict == SIM_ALLOWED)
        return NULL;
    sim_denied(call, verdict, which);
    return texts[verdict];
}

/* Return NULL, or an error; a script is not stopped after its first write. */
static const char *refused_write(sim_call *call) {
    sim_redis *server = call->server;
    int flags = call->command->flags;
    static const char full[] = "-OOM command not allowed when used memory > 'maxmemory'.";
    if (server->wrote || (flags & SIM_WRITE) == 0)
        return NULL;
    if (server->replica)
        return "-READONLY You can't write against a read only replica.";
    if (sim_few_replicas(server))
        return "-NOREPLICAS Not enough good replicas to write.";
    return server->full && (flags & SIM_DENYOOM) != 0 ? full : NULL;
}

/* Return NULL, or the reason why the command cannot run in this script; *replied: it was answered.
 */
static const char *refused(sim_call *call, bool *replied) {
    const char *why = NULL;
    *replied = false;
    if (call->command == NULL || call->command->run == NULL)
        return "Unknown Redis command called from script";
    int arity = call->command->arity, flags = call->command->flags;
    if (arity > 0 ? call->argc != arity : call->argc < -arity)
        return "Wrong number of args calling Redis command from script";
    if ((flags & SIM_NOSCRIPT) != 0)
        return "This Redis command is not allowed from script";
    why = refused_by_acl(call);
    why = why != NULL ? why : refused_write(call);
    why = why != NULL ? why : sim_redirected_script(call);
    if (why != NULL || call->server->wrote || (flags & SIM_WRITE) == 0)
        return why;
    /* A refusal does not begin or end in the middle of a script. */
    int64_t *times = &call->server->refusals[SIM_WRITES].times;
    *times += call->server->script->refused && *times >= 0;
    *replied = call->server->script->refused = sim_refused(call, SIM_WRITES);
    *replied = *replied || ((flags & SIM_DENYOOM) != 0 && sim_refused(call, SIM_GROWTH));
    return NULL;
}

static int run_command(lua_State *lua, bool raises) {
    sim_redis *server = server_of(lua);
    int argc = lua_gettop(lua);
    bool replied = false;
    if (argc == 0 || !take_words(lua, server, argc)) {
        push_error(lua, argc == 0 ? "Please specify at least one argument for this redis lib call"
                                  : "Lua redis lib command arguments must be strings or integers");
        return raises ? lua_error(lua) : 1;
    }
    sim_call call = {.server = server,
                     .peer = server->script->peer,
                     .db = server->script->db,
                     .argv = server->words,
                     .argc = argc,
                     .lua = lua};
    call.number = sim_command_find(server, argc, call.argv);
    call.command = call.number >= 0 ? server->commands[call.number] : NULL;
    const char *why = refused(&call, &replied);
    if (why != NULL) {
        push_error(lua, why);
        call.failed = true;
    } else if (!replied) {
        server->wrote = server->wrote || (call.command->flags & SIM_WRITE) != 0;
        sim_run(&call);
        server->script->changed = server->script->changed || call.changed;
    }
    return raises && call.failed ? lua_error(lua) : 1;
}

static int redis_call(lua_State *lua) { return run_command(lua, true); }
static int redis_pcall(lua_State *lua) { return run_command(lua, false); }

/* redis.error_reply, redis.status_reply */
static int make_reply(lua_State *lua) {
    bool error = lua_toboolean(lua, lua_upvalueindex(1));
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        push_error(lua, "wrong number or type of arguments");
    } else if (error) {
        const char *text = lua_tostring(lua, 1);
        push_error(lua, *text == '-' ? text : lua_pushfstring(lua, "-%s", text));
    } else {
        lua_createtable(lua, 0, 1);
        lua_pushvalue(lua, 1);
        lua_setfield(lua, -2, "ok");
    }
    return 1;
}

static int sha1hex(lua_State *lua) {
    sim_bytes text;
    char hex[41];
    if (lua_gettop(lua) != 1) {
        push_error(lua, "wrong number of arguments");
        return lua_error(lua);
    }
    text.bytes = lua_tolstring(lua, 1, &text.length);
    sim_digest(text.bytes != NULL ? text : sim_word(""), hex);
    lua_pushstring(lua, hex);
    return 1;
}

static int acl_check(lua_State *lua) {
    sim_redis *server = server_of(lua);
    int argc = lua_gettop(lua), which;
    if (argc == 0 || !take_words(lua, server, argc)) {
        push_error(lua, argc == 0 ? "Please specify at least one argument for this "
                                    "redis.acl_check_cmd() call"
                                  : "redis.acl_check_cmd() command arguments must be strings or "
                                    "integers");
        return lua_error(lua);
    }
    int number = sim_command_find(server, argc, server->words);
    if (number < 0) {
        push_error(lua, "Invalid command passed to redis.acl_check_cmd()");
        return lua_error(lua);
    }
    lua_pushboolean(lua, sim_allowed(server, server->script->peer->user, number, argc,
                                     server->words, &which) == SIM_ALLOWED);
    return 1;
}

static int do_nothing(lua_State *lua) {
    lua_pushboolean(lua, 1);
    return 1;
}

/* Run Lua's pcall(), but turn an error that is a table into its text, as Redis does. */
static int protected_call(lua_State *lua) {
    luaL_checkany(lua, 1);
    int status = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
    if (status != 0 && lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        lua_remove(lua, lua_isstring(lua, -1) ? -2 : -1);
    }
    lua_pushboolean(lua, status == 0);
    lua_insert(lua, 1);
    return lua_gettop(lua);
}

static int no_such_global(lua_State *lua) {
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      luaL_checkstring(lua, 2));
}

static int no_new_global(lua_State *lua) {
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* An endless script would also stop the simulation. */
enum { STEPS_MAX = 50000000 };

static void stop_wild(lua_State *lua, lua_Debug *where) {
    (void)where;
    luaL_error(lua, "the script does not end");
}

/* -------------------------------------------------------- Lua as it begins */

static void set_function(lua_State *lua, const char *name, lua_CFunction function,
                         sim_redis *server) {
    lua_pushlightuserdata(lua, server);
    lua_pushcclosure(lua, function, 1);
    lua_setfield(lua, -2, name);
}

static void set_maker(lua_State *lua, const char *name, bool error) {
    lua_pushboolean(lua, error);
    lua_pushcclosure(lua, make_reply, 1);
    lua_setfield(lua, -2, name);
}

static void protect_globals(lua_State *lua) {
    static const char *const closed[] = {"dofile",  "loadfile", "print", "require", "module",
                                         "package", "io",       "os",    "debug"};
    for (size_t i = 0; i < SIM_COUNT(closed); i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, closed[i]);
    }
    lua_createtable(lua, 0, 2);
    lua_pushcfunction(lua, no_such_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, no_new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, LUA_GLOBALSINDEX);
}

/* Allocate for Lua. Small blocks are kept by size for the next use: most of them live for one
 * script. */
static void *allocate(void *of, void *block, size_t was, size_t size) {
    sim_redis *server = of;
    size_t from = (was + 15) / 16, to = (size + 15) / 16;
    if (block != NULL && from == to)
        return block;
    void *made = NULL;
    if (to > 0 && to < SIM_BLOCKS && server->blocks[to] != NULL) {
        made = server->blocks[to];
        memcpy(&server->blocks[to], made, sizeof made);
    } else if (to > 0) {
        made = sim_grow(NULL, 16 * to);
    }
    if (block != NULL && made != NULL)
        memcpy(made, block, was < size ? was : size);
    if (block != NULL && from < SIM_BLOCKS) {
        memcpy(block, &server->blocks[from], sizeof block);
        server->blocks[from] = block;
    } else {
        free(block);
    }
    return made;
}

static int stop(lua_State *lua) {
    (void)lua;
    abort();
}

void sim_lua_begin(sim_redis *server) {
    lua_State *lua = server->lua = lua_newstate(allocate, server);
    if (lua == NULL)
        abort();
    lua_atpanic(lua, stop);
    luaL_openlibs(lua);
    lua_createtable(lua, 0, 16);
    set_function(lua, "call", redis_call, server);
    set_function(lua, "pcall", redis_pcall, server);
    set_function(lua, "acl_check_cmd", acl_check, server);
    set_function(lua, "sha1hex", sha1hex, server);
    set_function(lua, "log", do_nothing, server);
    set_function(lua, "replicate_commands", do_nothing, server);
    set_maker(lua, "error_reply", true);
    set_maker(lua, "status_reply", false);
    lua_setglobal(lua, "redis");
    lua_pushcfunction(lua, protected_call);
    lua_setglobal(lua, "pcall");
    lua_pushboolean(lua, 0); /* global names that exist */
    lua_setglobal(lua, "KEYS");
    lua_pushboolean(lua, 0);
    lua_setglobal(lua, "ARGV");
    protect_globals(lua);
}

void sim_lua_forget(sim_redis *server) {
    for (size_t i = 0; i < server->script_count; i++)
        luaL_unref(server->lua, LUA_REGISTRYINDEX, server->scripts[i].function);
    server->script_count = 0;
}

void sim_lua_end(sim_redis *server) {
    lua_close(server->lua);
    for (int i = 0; i < SIM_BLOCKS; i++)
        for (void *next; server->blocks[i] != NULL; server->blocks[i] = next) {
            memcpy(&next, server->blocks[i], sizeof next);
            free(server->blocks[i]);
        }
    free(server->scripts);
    free(server->words);
}

/* ----------------------------------------------------------------- Running */

static const sim_script *find_script(const sim_redis *server, sim_bytes digest) {
    for (size_t i = 0; i < server->script_count && digest.length == 40; i++)
        if (strncasecmp(server->scripts[i].digest, digest.bytes, 40) == 0)
            return &server->scripts[i];
    return NULL;
}

/* Compiled scripts of all servers and histories, by digest: the parser took a quarter of a
 * history's time. */
static struct compiled {
    char digest[41];
    char *bytes;
    size_t length;
} * compiled;
static size_t compiled_count;

static int add_bytes(lua_State *lua, const void *bytes, size_t length, void *to) {
    struct compiled *made = to;
    (void)lua;
    made->bytes = sim_grow(made->bytes, made->length + length);
    memcpy(made->bytes + made->length, bytes, length);
    made->length += length;
    return 0;
}

/* Leave the function on the stack, or a message; return Lua's status. Compiles in a Lua of its own,
 * so that the first server to load a script gets no more garbage than later ones. */
static int load_script(lua_State *lua, sim_bytes text, const char *digest) {
    for (size_t i = 0; i < compiled_count; i++)
        if (memcmp(compiled[i].digest, digest, 40) == 0)
            return luaL_loadbuffer(lua, compiled[i].bytes, compiled[i].length, "@user_script");
    struct compiled made = {.length = 0};
    lua_State *alone = luaL_newstate();
    bool good = luaL_loadbuffer(alone, text.bytes, text.length, "@user_script") == 0;
    if (good)
        lua_dump(alone, add_bytes, &made);
    lua_close(alone);
    if (!good)
        return luaL_loadbuffer(lua, text.bytes, text.length, "@user_script");
    memcpy(made.digest, digest, 41);
    compiled = sim_grow(compiled, (compiled_count + 1) * sizeof *compiled);
    compiled[compiled_count++] = made;
    return load_script(lua, text, digest);
}

/* Return a known or new script; NULL: it does not compile, and the call was answered. */
static const sim_script *make_script(sim_call *call, sim_bytes text) {
    sim_redis *server = call->server;
    lua_State *lua = server->lua;
    sim_script made;
    sim_digest(text, made.digest);
    const sim_script *known = find_script(server, sim_word(made.digest));
    if (known != NULL)
        return known;
    if (load_script(lua, text, made.digest) != 0) {
        sim_reply_error(call, "ERR Error compiling script (new function): %s",
                        lua_tostring(lua, -1));
        lua_pop(lua, 1);
        return NULL;
    }
    made.function = luaL_ref(lua, LUA_REGISTRYINDEX);
    size_t size = (server->script_count + 1) * sizeof *server->scripts;
    server->scripts = sim_grow(server->scripts, size);
    server->scripts[server->script_count] = made;
    return &server->scripts[server->script_count++];
}

/* Add the place to an error. */
static int explain(lua_State *lua) {
    lua_Debug where;
    bool known = lua_getstack(lua, 1, &where) && lua_getinfo(lua, "Sl", &where);
    if (known && *where.what == 'C')
        known = lua_getstack(lua, 2, &where) && lua_getinfo(lua, "Sl", &where);
    if (!lua_istable(lua, 1))
        push_error(lua, lua_pushfstring(lua, "-ERR %s", lua_tostring(lua, 1)));
    else
        lua_pushvalue(lua, 1);
    if (known) {
        lua_pushstring(lua, where.source);
        lua_setfield(lua, -2, "source");
        lua_pushinteger(lua, where.currentline);
        lua_setfield(lua, -2, "line");
    }
    return 1;
}

/* Set a global table of words. */
static void set_words(lua_State *lua, const char *name, const sim_bytes *words, int count) {
    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushlstring(lua, words[i].bytes, words[i].length);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_setglobal(lua, name);
}

/* Return the text in a field of the table on top, which keeps it alive; or NULL. */
static const char *field(lua_State *lua, const char *name) {
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    const char *text = lua_type(lua, -1) == LUA_TSTRING ? lua_tostring(lua, -1) : NULL;
    lua_pop(lua, 1);
    return text;
}

static void reply_raised(sim_call *call, lua_State *lua, const char *digest) {
    if (!lua_istable(lua, -1)) { /* explain() itself ran out of memory */
        sim_reply_error(call, "ERR Error running script %s", digest);
        return;
    }
    const char *text = field(lua, "err");
    lua_getfield(lua, -1, "line");
    lua_getfield(lua, -2, "source");
    const char *line = lua_tostring(lua, -2), *source = lua_tostring(lua, -1);
    if (line != NULL && source != NULL)
        sim_reply_error(call, "%s script: %s, on %s:%s.", text != NULL ? text : "(null)", digest,
                        source, line);
    else
        sim_reply_error(call, "%s", text != NULL ? text : "(null)");
    lua_pop(lua, 2);
}

/* Convert as usual machines do, also numbers that are too large. */
static int64_t whole(double number) {
    return number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
}

static void reply_value(sim_call *call, lua_State *lua);

static void reply_table(sim_call *call, lua_State *lua) {
    const char *text = field(lua, "err");
    if (text != NULL) {
        sim_reply_error(call, "%s", text);
        return;
    }
    text = field(lua, "ok");
    if (text != NULL) {
        sim_reply_status(call, text);
        return;
    }
    size_t count = 0;
    for (;; count++) {
        lua_rawgeti(lua, -1, (int)count + 1);
        bool end = lua_isnil(lua, -1);
        lua_pop(lua, 1);
        if (end)
            break;
    }
    sim_reply_array(call, count);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, (int)i);
        reply_value(call, lua);
    }
}

/* Answer with the value on top, and pop it. */
static void reply_value(sim_call *call, lua_State *lua) {
    sim_bytes bytes;
    luaL_checkstack(lua, 8, "too deep");
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        bytes.bytes = lua_tolstring(lua, -1, &bytes.length);
        sim_reply_bytes(call, bytes);
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            sim_reply_integer(call, 1);
        else
            sim_reply_nil(call);
        break;
    case LUA_TNUMBER:
        sim_reply_integer(call, whole(lua_tonumber(lua, -1)));
        break;
    case LUA_TTABLE:
        reply_table(call, lua);
        break;
    default:
        sim_reply_nil(call);
    }
    lua_pop(lua, 1);
}

static void run_script(sim_call *call, const sim_script *script) {
    sim_redis *server = call->server;
    lua_State *lua = server->lua;
    char digest[41];
    int64_t keys;
    sim_number(call->argv[2], &keys);
    memcpy(digest, script->digest, sizeof digest);
    lua_pushcfunction(lua, explain);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->function);
    set_words(lua, "KEYS", call->argv + 3, (int)keys);
    set_words(lua, "ARGV", call->argv + 3 + keys, call->argc - 3 - (int)keys);
    server->script = call;
    server->wrote = false;
    lua_sethook(lua, stop_wild, LUA_MASKCOUNT, STEPS_MAX);
    int status = lua_pcall(lua, 0, 1, -2);
    server->script = NULL;
    call->repeated = true; /* the script's commands were repeated one by one */
    if (status == 0) {
        reply_value(call, lua);
    } else {
        reply_raised(call, lua, digest);
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
}

/* Check the count of keys. False: the call was answered. */
static bool good_keys(sim_call *call) {
    int64_t keys;
    if (!sim_integer(call, 2, &keys))
        return false;
    if (keys >= 0 && keys <= call->argc - 3)
        return true;
    sim_reply_error(call, keys < 0 ? "ERR Number of keys can't be negative"
                                   : "ERR Number of keys can't be greater than number of args");
    return false;
}

static void eval(sim_call *call) {
    if (!good_keys(call))
        return;
    const sim_script *script = make_script(call, call->argv[1]);
    if (script != NULL)
        run_script(call, script);
}

static void evalsha(sim_call *call) {
    const sim_script *script = find_script(call->server, call->argv[1]);
    if (script == NULL)
        sim_reply_error(call, "NOSCRIPT No matching script. Please use EVAL.");
    else if (good_keys(call))
        run_script(call, script);
}

static void script_load(sim_call *call) {
    const sim_script *script = make_script(call, call->argv[2]);
    if (script != NULL)
        sim_reply_word(call, script->digest);
}

static void script_flush(sim_call *call) {
    if (call->argc > 3 ||
        (call->argc == 3 && !sim_is(call->argv[2], "ASYNC") && !sim_is(call->argv[2], "SYNC"))) {
        sim_reply_error(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    sim_lua_forget(call->server);
    sim_reply_ok(call);
}

enum { RUNS = SIM_NOSCRIPT | SIM_NUMKEYS | SIM_REPLICATED };

const sim_command sim_script_commands[] = {
    {"eval", eval, -3, RUNS, 0, 0, 0},
    {"evalsha", evalsha, -3, RUNS, 0, 0, 0},
    {"script", NULL, -2, SIM_NOSCRIPT | SIM_GROUP, 0, 0, 0},
    {"script|load", script_load, 3, SIM_NOSCRIPT, 0, 0, 0},
    {"script|flush", script_flush, -2, SIM_NOSCRIPT, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Keys of any type: finding, deleting, expiring, listing. */
#include "internal.h"

#include <stdlib.h>

static sim_bytes after(sim_bytes text, size_t length) {
    return (sim_bytes){text.bytes + length, text.length - length};
}

/* Take a class, after its bracket, off the pattern; return whether the byte is in it. */
static bool in_class(sim_bytes *pattern, char byte) {
    bool inverted = pattern->length > 0 && *pattern->bytes == '^', found = false;
    *pattern = after(*pattern, inverted);
    while (pattern->length > 0 && *pattern->bytes != ']') {
        char low = *pattern->bytes, high = low;
        size_t taken = 1;
        if (low == '\\' && pattern->length > 1) {
            low = high = pattern->bytes[1];
            taken = 2;
        } else if (pattern->length > 2 && pattern->bytes[1] == '-') {
            high = pattern->bytes[2];
            taken = 3;
        }
        found = found || (low <= byte && byte <= high) || (high <= byte && byte <= low);
        *pattern = after(*pattern, taken);
    }
    *pattern = after(*pattern, pattern->length > 0);
    return found != inverted;
}

bool sim_glob(sim_bytes pattern, sim_bytes text) {
    while (pattern.length > 0) {
        char what = *pattern.bytes;
        pattern = after(pattern, 1);
        if (what == '*') {
            for (; text.length > 0; text = after(text, 1))
                if (sim_glob(pattern, text))
                    return true;
            continue;
        }
        if (text.length == 0)
            return false;
        if (what == '[' && !in_class(&pattern, *text.bytes))
            return false;
        if (what == '\\' && pattern.length > 0) {
            what = *pattern.bytes;
            pattern = after(pattern, 1);
        } else if (what == '[' || what == '?') {
            what = *text.bytes;
        }
        if (what != *text.bytes)
            return false;
        text = after(text, 1);
    }
    return text.length == 0;
}

bool sim_integer(sim_call *call, int which, int64_t *number) {
    if (sim_number(call->argv[which], number))
        return true;
    sim_reply_error(call, "ERR value is not an integer or out of range");
    return false;
}

/* ----------------------------------------------------------------- Finding */

/* Drop an expired key. Replicas delete no key by their own clocks: the master sends DEL. */
static void forget(sim_redis *server, sim_db *db, sim_key *key) {
    sim_bytes words[] = {sim_word("DEL"), sim_of(key->name)};
    sim_repeat(server, db->number, 2, words);
    server->expired++;
    sim_db_remove(db, key);
}

sim_key *sim_see(sim_call *call, sim_bytes name) {
    sim_redis *server = call->server;
    sim_key *key = sim_db_find(call->db, name);
    if (key == NULL || key->expires_ms >= server->now_ms || call->peer->upstream)
        return key;
    if (!server->replica)
        forget(server, call->db, key);
    return NULL;
}

bool sim_see_type(sim_call *call, sim_bytes name, char type, sim_key **key) {
    *key = sim_see(call, name);
    if (*key == NULL || (*key)->type == type)
        return true;
    sim_reply_error(call, "WRONGTYPE Operation against a key holding the wrong kind of value");
    return false;
}

void sim_delete(sim_call *call, sim_key *key) {
    sim_db_remove(call->db, key);
    call->changed = true;
}

static void expire_some(sim_redis *server, sim_db *db) {
    int64_t next = SIM_NEVER;
    for (sim_key *key = db->first, *after; key != NULL; key = after) {
        after = key->after;
        if (key->expires_ms < server->now_ms)
            forget(server, db, key);
        else if (key->expires_ms < next)
            next = key->expires_ms;
    }
    db->next_expiry = next;
}

void sim_expire_all(sim_redis *server) {
    for (int i = 0; i < SIM_DATABASES && !server->replica; i++)
        if (server->dbs[i].next_expiry < server->now_ms)
            expire_some(server, &server->dbs[i]);
}

/* ---------------------------------------------------------------- Commands */

static void exists(sim_call *call) {
    int64_t count = 0;
    for (int i = 1; i < call->argc; i++)
        count += sim_see(call, call->argv[i]) != NULL;
    sim_reply_integer(call, count);
}

static void del(sim_call *call) {
    int64_t count = 0;
    for (int i = 1; i < call->argc; i++) {
        sim_key *key = sim_see(call, call->argv[i]);
        if (key == NULL)
            continue;
        sim_delete(call, key);
        count++;
    }
    sim_reply_integer(call, count);
}

static const char *type_name(const sim_key *key) {
    switch (key != NULL ? key->type : 0) {
    case 's':
        return "string";
    case 'h':
        return "hash";
    case 'z':
        return "zset";
    case 'l':
        return "list";
    case 'S':
        return "set";
    case 'x':
        return "stream";
    default:
        return "none";
    }
}

static void type(sim_call *call) {
    sim_reply_status(call, type_name(sim_see(call, call->argv[1])));
}

static void pttl(sim_call *call) { /* PEXPIRETIME too */
    sim_key *key = sim_see(call, call->argv[1]);
    bool absolute = strcmp(call->command->name, "pexpiretime") == 0;
    int64_t now = absolute ? 0 : sim_now_ms(call->server);
    if (key == NULL || key->expires_ms == SIM_NEVER)
        sim_reply_integer(call, key == NULL ? -2 : -1);
    else
        sim_reply_integer(call, key->expires_ms > now ? key->expires_ms - now : 0);
}

enum { IF_NONE = 1, IF_ANY = 2, IF_LATER = 4, IF_EARLIER = 8 };

/* Return the conditions of an expiry, as a sum; -1: they are wrong, and the call was answered. */
static int conditions(sim_call *call) {
    static const char *const names[] = {"NX", "XX", "GT", "LT"};
    int given = 0;
    for (int i = 3; i < call->argc; i++) {
        int at = 0;
        while (at < 4 && !sim_is(call->argv[i], names[at]))
            at++;
        if (at == 4) {
            sim_reply_error(call, "ERR Unsupported option %.*s", (int)call->argv[i].length,
                            call->argv[i].bytes);
            return -1;
        }
        given |= 1 << at;
    }
    if ((given & IF_NONE) != 0 && given != IF_NONE)
        sim_reply_error(call,
                        "ERR NX and XX, GT or LT options at the same time are not compatible");
    else if ((given & IF_LATER) != 0 && (given & IF_EARLIER) != 0)
        sim_reply_error(call, "ERR GT and LT options at the same time are not compatible");
    else
        return given;
    return -1;
}

/* Return whether the new end satisfies the conditions. No end counts as later than any other. */
static bool fits(int conditions, int64_t had_ms, int64_t at_ms) {
    bool none = had_ms == SIM_NEVER;
    return !((conditions & IF_NONE) != 0 && !none) && !((conditions & IF_ANY) != 0 && none) &&
           !((conditions & IF_LATER) != 0 && (none || at_ms <= had_ms)) &&
           !((conditions & IF_EARLIER) != 0 && !none && at_ms >= had_ms);
}

/* EXPIRE, PEXPIRE, PEXPIREAT. */
static void expire(sim_call *call) {
    const char *name = call->command->name;
    int64_t number, unit = *name == 'p' ? 1 : 1000, now = sim_now_ms(call->server);
    bool absolute = strstr(name, "at") != NULL;
    int given = conditions(call);
    if (given < 0 || !sim_integer(call, 2, &number))
        return;
    int64_t base = absolute ? 0 : now;
    if (number > INT64_MAX / unit || number < INT64_MIN / unit ||
        number * unit > INT64_MAX - 1 - base) {
        sim_reply_error(call, "ERR invalid expire time in '%s' command", name);
        return;
    }
    int64_t at_ms = number * unit + base;
    sim_key *key = sim_see(call, call->argv[1]);
    if (key != NULL && !fits(given, key->expires_ms, at_ms))
        key = NULL;
    sim_reply_integer(call, key != NULL);
    if (key == NULL)
        return;
    sim_digits digits;
    if (at_ms <= now && !call->server->replica) {
        sim_repeat(call->server, call->db->number, 2,
                   (sim_bytes[]){sim_word("DEL"), call->argv[1]});
        sim_delete(call, key);
    } else {
        sim_repeat(call->server, call->db->number, 3,
                   (sim_bytes[]){sim_word("PEXPIREAT"), call->argv[1], sim_written(at_ms, digits)});
        sim_db_expire(call->db, key, at_ms);
    }
    call->changed = call->repeated = true;
}

static void persist(sim_call *call) {
    sim_key *key = sim_see(call, call->argv[1]);
    bool had = key != NULL && key->expires_ms != SIM_NEVER;
    if (had)
        sim_db_expire(call->db, key, SIM_NEVER);
    call->changed = had;
    sim_reply_integer(call, had);
}

static bool is_listed(const sim_call *call, const sim_key *key, const sim_bytes *pattern,
                      const sim_bytes *of_type) {
    return key->expires_ms >= call->server->now_ms &&
           (pattern->bytes == NULL || sim_glob(*pattern, sim_of(key->name))) &&
           (of_type->bytes == NULL || sim_is(*of_type, type_name(key)));
}

/* Collect the names after a serial number, and look at most at that number of keys. Return the last
 * key's number, or 0 at the end. */
static uint64_t list_keys(sim_call *call, uint64_t behind, int64_t most, sim_bytes pattern,
                          sim_bytes of_type, sim_buffer *names, size_t *count) {
    sim_key *key = call->db->first;
    while (key != NULL && key->serial <= behind)
        key = key->after;
    for (; key != NULL; key = key->after) {
        if (most-- <= 0)
            return key->before->serial;
        if (!is_listed(call, key, &pattern, &of_type))
            continue;
        sim_bytes name = sim_of(key->name);
        sim_add(names, &name, sizeof name);
        ++*count;
    }
    return 0;
}

static void reply_names(sim_call *call, sim_buffer *names, size_t count) {
    sim_reply_array(call, count);
    for (size_t i = 0; i < count; i++)
        sim_reply_bytes(call, ((sim_bytes *)names->bytes)[i]);
    free(names->bytes);
}

static void keys(sim_call *call) {
    sim_buffer names = {0};
    size_t count = 0;
    list_keys(call, 0, INT64_MAX, call->argv[1], (sim_bytes){0}, &names, &count);
    reply_names(call, &names, count);
}

static void scan(sim_call *call) {
    sim_bytes pattern = {0}, of_type = {0};
    sim_buffer names = {0};
    int64_t behind, most = 10;
    size_t count = 0;
    if (!sim_number(call->argv[1], &behind) || behind < 0) {
        sim_reply_error(call, "ERR invalid cursor");
        return;
    }
    for (int i = 2; i < call->argc; i += 2) {
        bool more = i + 1 < call->argc;
        if (more && sim_is(call->argv[i], "MATCH")) {
            pattern = call->argv[i + 1];
        } else if (more && sim_is(call->argv[i], "TYPE")) {
            of_type = call->argv[i + 1];
        } else if (more && sim_is(call->argv[i], "COUNT")) {
            if (!sim_integer(call, i + 1, &most))
                return;
        } else {
            most = 0;
        }
        if (most < 1) {
            sim_reply_error(call, "ERR syntax error");
            return;
        }
    }
    uint64_t last = list_keys(call, (uint64_t)behind, most, pattern, of_type, &names, &count);
    sim_reply_array(call, 2);
    sim_reply_digits(call, (int64_t)last);
    reply_names(call, &names, count);
}

static void dbsize(sim_call *call) { sim_reply_integer(call, (int64_t)call->db->count); }

static void flush(sim_call *call) {
    bool good =
        call->argc == 1 ||
        (call->argc == 2 && (sim_is(call->argv[1], "ASYNC") || sim_is(call->argv[1], "SYNC")));
    if (!good) {
        sim_reply_error(call, "ERR syntax error");
        return;
    }
    bool all = strcmp(call->command->name, "flushall") == 0;
    for (int i = 0; i < SIM_DATABASES; i++)
        if (all || &call->server->dbs[i] == call->db)
            sim_db_clear(&call->server->dbs[i]);
    call->changed = true;
    sim_reply_ok(call);
}

/* Create a key of that name with another key's data. */
static void put_copy(sim_call *call, const sim_key *from, sim_bytes name) {
    sim_buffer dump = {0};
    int64_t expires_ms = from->expires_ms;
    sim_key_dump(from, &dump);
    sim_key *old = sim_see(call, name);
    if (old != NULL)
        sim_delete(call, old);
    sim_key *copy = sim_db_add(call->db, name, 's');
    sim_key_restore(copy, sim_whole(&dump));
    sim_db_expire(call->db, copy, expires_ms);
    call->changed = true;
    free(dump.bytes);
}

static void copy_key(sim_call *call) {
    sim_key *from = sim_see(call, call->argv[1]), *to = sim_see(call, call->argv[2]);
    bool replace = call->argc == 4 && sim_is(call->argv[3], "REPLACE");
    if (sim_same(call->argv[1], call->argv[2])) {
        sim_reply_error(call, "ERR source and destination objects are the same");
        return;
    }
    bool copies = from != NULL && (to == NULL || replace);
    if (copies)
        put_copy(call, from, call->argv[2]);
    sim_reply_integer(call, copies);
}

static void rename_key(sim_call *call) {
    sim_key *from = sim_see(call, call->argv[1]);
    if (from == NULL) {
        sim_reply_error(call, "ERR no such key");
        return;
    }
    if (!sim_same(call->argv[1], call->argv[2])) {
        put_copy(call, from, call->argv[2]);
        sim_delete(call, from);
    }
    sim_reply_ok(call);
}

static void dump(sim_call *call) {
    sim_key *key = sim_see(call, call->argv[1]);
    sim_buffer bytes = {0};
    if (key == NULL) {
        sim_reply_nil(call);
        return;
    }
    sim_key_dump(key, &bytes);
    sim_reply_bytes(call, sim_whole(&bytes));
    free(bytes.bytes);
}

/* RESTORE key ttl bytes [REPLACE] [ABSTTL] */
static void restore(sim_call *call) {
    int64_t ttl;
    bool replace = false, absolute = false;
    for (int i = 4; i < call->argc; i++) {
        replace = replace || sim_is(call->argv[i], "REPLACE");
        absolute = absolute || sim_is(call->argv[i], "ABSTTL");
    }
    sim_key *key = sim_see(call, call->argv[1]);
    if (!sim_integer(call, 2, &ttl))
        return;
    if (key != NULL && !replace) {
        sim_reply_error(call, "BUSYKEY Target key name already exists.");
        return;
    }
    if (key != NULL)
        sim_delete(call, key);
    key = sim_db_add(call->db, call->argv[1], 's');
    if (!sim_key_restore(key, call->argv[3])) {
        sim_delete(call, key);
        sim_reply_error(call, "ERR DUMP payload version or checksum are wrong");
        return;
    }
    int64_t now = sim_now_ms(call->server);
    if (ttl > 0)
        sim_db_expire(call->db, key, absolute ? ttl : now + ttl);
    if (ttl > 0 && key->expires_ms <= now && !call->server->replica)
        sim_delete(call, key);
    call->changed = true;
    sim_reply_ok(call);
}

const sim_command sim_keys_commands[] = {
    {"exists", exists, -2, 0, 1, -1, 1},
    {"del", del, -2, SIM_WRITE, 1, -1, 1},
    {"type", type, 2, 0, 1, 1, 1},
    {"pttl", pttl, 2, 0, 1, 1, 1},
    {"pexpiretime", pttl, 2, 0, 1, 1, 1},
    {"expire", expire, -3, SIM_WRITE, 1, 1, 1},
    {"pexpire", expire, -3, SIM_WRITE, 1, 1, 1},
    {"pexpireat", expire, -3, SIM_WRITE, 1, 1, 1},
    {"persist", persist, 2, SIM_WRITE, 1, 1, 1},
    {"keys", keys, 2, 0, 0, 0, 0},
    {"scan", scan, -2, 0, 0, 0, 0},
    {"dbsize", dbsize, 1, 0, 0, 0, 0},
    {"flushall", flush, -1, SIM_WRITE, 0, 0, 0},
    {"flushdb", flush, -1, SIM_WRITE, 0, 0, 0},
    {"copy", copy_key, -3, SIM_WRITE | SIM_DENYOOM, 1, 2, 1},
    {"rename", rename_key, 3, SIM_WRITE, 1, 2, 1},
    {"dump", dump, 2, 0, 1, 1, 1},
    {"restore", restore, -4, SIM_WRITE | SIM_DENYOOM, 1, 1, 1},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

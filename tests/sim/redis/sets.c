/* Commands on hashes and sorted sets; and a few for keys of other types. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

/* Find the command's key. False: it has another type, and the call was answered. */
static bool own(sim_call *call, char type, sim_key **key) {
    return sim_see_type(call, call->argv[1], type, key);
}

static sim_key *own_or_new(sim_call *call, char type, sim_key *key) {
    return key != NULL ? key : sim_db_add(call->db, call->argv[1], type);
}

static void drop_empty(sim_call *call, sim_key *key) {
    if (key->count == 0)
        sim_delete(call, key);
}

static void size(sim_call *call) { /* HLEN, ZCARD */
    sim_key *key;
    if (own(call, *call->command->name, &key))
        sim_reply_integer(call, key != NULL ? (int64_t)key->count : 0);
}

/* ------------------------------------------------------------------ Hashes */

static bool set_field(sim_key *key, sim_bytes name, sim_bytes value) {
    ptrdiff_t at = sim_key_find(key, name);
    if (at < 0) {
        sim_key_put(key, key->count, name, sim_text_new(value), 0);
        return true;
    }
    free(key->items[at].value);
    key->items[at].value = sim_text_new(value);
    return false;
}

static void hset(sim_call *call) {
    sim_key *key;
    int64_t added = 0;
    if (call->argc % 2 != 0) {
        sim_reply_error(call, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (!own(call, 'h', &key))
        return;
    key = own_or_new(call, 'h', key);
    for (int i = 2; i < call->argc; i += 2)
        added += set_field(key, call->argv[i], call->argv[i + 1]);
    call->changed = true;
    sim_reply_integer(call, added);
}

static void hincrby(sim_call *call) {
    sim_key *key;
    int64_t number = 0, by;
    sim_digits digits;
    if (!sim_integer(call, 3, &by) || !own(call, 'h', &key))
        return;
    ptrdiff_t at = key != NULL ? sim_key_find(key, call->argv[2]) : -1;
    if (at >= 0 && !sim_number(sim_of(key->items[at].value), &number)) {
        sim_reply_error(call, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(number, by, &number)) {
        sim_reply_error(call, "ERR increment or decrement would overflow");
        return;
    }
    set_field(own_or_new(call, 'h', key), call->argv[2], sim_written(number, digits));
    call->changed = true;
    sim_reply_integer(call, number);
}

static void hget(sim_call *call) {
    sim_key *key;
    if (!own(call, 'h', &key))
        return;
    ptrdiff_t at = key != NULL ? sim_key_find(key, call->argv[2]) : -1;
    if (at < 0)
        sim_reply_nil(call);
    else
        sim_reply_bytes(call, sim_of(key->items[at].value));
}

static void hexists(sim_call *call) {
    sim_key *key;
    if (own(call, 'h', &key))
        sim_reply_integer(call, key != NULL && sim_key_find(key, call->argv[2]) >= 0);
}

static void remove_items(sim_call *call, char type) { /* HDEL, ZREM */
    sim_key *key;
    int64_t removed = 0;
    if (!own(call, type, &key))
        return;
    for (int i = 2; i < call->argc && key != NULL; i++) {
        ptrdiff_t at = sim_key_find(key, call->argv[i]);
        if (at < 0)
            continue;
        sim_key_drop(key, (size_t)at);
        removed++;
    }
    if (removed > 0)
        drop_empty(call, key);
    call->changed = removed > 0;
    sim_reply_integer(call, removed);
}

static void hdel(sim_call *call) { remove_items(call, 'h'); }

/* Return whether the key is so large that Redis keeps it in no order. */
static bool is_unordered(const sim_redis *server, const sim_key *key) {
    size_t longest = (size_t)atoll(sim_setting_of(server, "hash-max-listpack-value"));
    bool large = key->count > (size_t)atoll(sim_setting_of(server, "hash-max-listpack-entries"));
    for (size_t i = 0; i < key->count && !large; i++)
        large = key->items[i].name->length > longest || key->items[i].value->length > longest;
    return large;
}

static void hgetall(sim_call *call) { /* HKEYS too */
    sim_key *key;
    if (!own(call, 'h', &key))
        return;
    size_t count = key != NULL ? key->count : 0;
    bool values = strcmp(call->command->name, "hkeys") != 0;
    if (values)
        sim_reply_map(call, count);
    else
        sim_reply_array(call, count);
    uint64_t drawn = 0;
    if (count > 1 && is_unordered(call->server, key))
        drawn = call->server->host.random(call->server->world);
    for (size_t i = 0; i < count; i++) {
        size_t at = (drawn / 2 + (drawn % 2 == 0 ? i : count - i)) % count;
        sim_reply_bytes(call, sim_of(key->items[at].name));
        if (values)
            sim_reply_bytes(call, sim_of(key->items[at].value));
    }
}

/* ------------------------------------------------------------- Sorted sets */

/* Check all scores. False: the call was answered. */
static bool good_members(sim_call *call, int at) {
    double score;
    if (at == call->argc || (call->argc - at) % 2 != 0) {
        sim_reply_error(call, "ERR syntax error");
        return false;
    }
    for (; at < call->argc; at += 2)
        if (!sim_score(call->argv[at], &score)) {
            sim_reply_error(call, "ERR value is not a valid float");
            return false;
        }
    return true;
}

/* ZADD key [NX | XX] score member ... */
static void zadd(sim_call *call) {
    sim_key *key;
    int64_t added = 0;
    bool nx = sim_is(call->argv[2], "NX"), xx = sim_is(call->argv[2], "XX");
    int first = nx || xx ? 3 : 2;
    if (!good_members(call, first) || !own(call, 'z', &key))
        return;
    if (key != NULL || !xx)
        key = own_or_new(call, 'z', key);
    for (int i = first; i < call->argc && key != NULL; i += 2) {
        double score;
        ptrdiff_t at = sim_key_find(key, call->argv[i + 1]);
        sim_score(call->argv[i], &score);
        if (at < 0 ? xx : nx || key->items[at].score == score)
            continue;
        sim_key_rank(key, call->argv[i + 1], score);
        added += at < 0;
        call->changed = true;
    }
    sim_reply_integer(call, added);
}

static void zrem(sim_call *call) { remove_items(call, 'z'); }

static void zscore(sim_call *call) {
    sim_key *key;
    if (!own(call, 'z', &key))
        return;
    ptrdiff_t at = key != NULL ? sim_key_find(key, call->argv[2]) : -1;
    if (at < 0)
        sim_reply_nil(call);
    else
        sim_reply_score(call, key->items[at].score);
}

static void zrank(sim_call *call) { /* ZREVRANK too */
    sim_key *key;
    if (!own(call, 'z', &key))
        return;
    bool reverse = call->command->name[2] == 'e';
    ptrdiff_t at = key != NULL ? sim_key_find(key, call->argv[2]) : -1;
    if (at < 0)
        sim_reply_nil(call);
    else
        sim_reply_integer(call, reverse ? (int64_t)key->count - 1 - at : at);
}

static void zpopmin(sim_call *call) {
    sim_key *key;
    if (!own(call, 'z', &key))
        return;
    sim_reply_array(call, key != NULL ? 2 : 0);
    if (key == NULL)
        return;
    sim_reply_bytes(call, sim_of(key->items[0].name));
    sim_reply_score(call, key->items[0].score);
    sim_key_drop(key, 0);
    drop_empty(call, key);
    call->changed = true;
}

typedef struct range {
    bool by_score, reverse, scores;
    int64_t offset, limit; /* in the range; limit -1: all */
    int64_t first, last;
    double least, most;
    bool above, below; /* bounds are exclusive */
} range;

static bool read_bound(sim_call *call, int which, double *bound, bool *without) {
    sim_bytes text = call->argv[which];
    *without = text.length > 0 && *text.bytes == '(';
    text = (sim_bytes){text.bytes + *without, text.length - *without};
    *bound = 0;
    if (text.length == 0 || sim_score(text, bound)) /* Redis takes an empty word for 0 */
        return true;
    sim_reply_error(call, "ERR min or max is not a float");
    return false;
}

/* Find the ranks from `first` up to `last`, which is excluded. */
static void find_ranks(const sim_key *key, const range *of, size_t *first, size_t *last) {
    int64_t count = (int64_t)key->count, from = of->first, to = of->last;
    *first = *last = 0;
    if (of->by_score) {
        while (*first < key->count && (of->above ? key->items[*first].score <= of->least
                                                 : key->items[*first].score < of->least))
            ++*first;
        *last = *first;
        while (*last < key->count && (of->below ? key->items[*last].score < of->most
                                                : key->items[*last].score <= of->most))
            ++*last;
        return;
    }
    from = from < 0 ? (from + count < 0 ? 0 : from + count) : from;
    to = to < 0 ? to + count : to >= count ? count - 1 : to;
    if (from > to || from >= count)
        return;
    *first = (size_t)from;
    *last = (size_t)to + 1;
}

static void reply_range(sim_call *call, const range *of) {
    sim_key *key;
    size_t first = 0, last = 0;
    bool pairs = of->scores && call->lua == NULL && call->peer->resp > 2;
    if (!own(call, 'z', &key))
        return;
    if (key != NULL)
        find_ranks(key, of, &first, &last);
    size_t count = last - first, skip = 0;
    if (of->offset < 0 || (size_t)of->offset >= count)
        skip = of->offset == 0 ? 0 : count;
    else
        skip = (size_t)of->offset;
    count -= skip;
    if (of->limit >= 0 && (size_t)of->limit < count)
        count = (size_t)of->limit;
    sim_reply_array(call, of->scores && !pairs ? 2 * count : count);
    for (size_t i = 0; i < count; i++) {
        const sim_item *item = &key->items[of->reverse ? last - 1 - skip - i : first + skip + i];
        if (pairs)
            sim_reply_array(call, 2);
        sim_reply_bytes(call, sim_of(item->name));
        if (of->scores)
            sim_reply_score(call, item->score);
    }
}

/* ZRANGE, ZRANGEBYSCORE, ZREVRANGEBYSCORE. */
static void zrange(sim_call *call) {
    range of = {.limit = -1,
                .reverse = call->command->name[2] == 'e',
                .by_score = strlen(call->command->name) > 6};
    for (int i = 4; i < call->argc; i++) {
        if (sim_is(call->argv[i], "WITHSCORES")) {
            of.scores = true;
        } else if (of.by_score && sim_is(call->argv[i], "LIMIT") && i + 2 < call->argc) {
            if (!sim_integer(call, i + 1, &of.offset) || !sim_integer(call, i + 2, &of.limit))
                return;
            i += 2;
        } else {
            sim_reply_error(call, "ERR syntax error");
            return;
        }
    }
    bool good = of.by_score ? read_bound(call, of.reverse ? 3 : 2, &of.least, &of.above) &&
                                  read_bound(call, of.reverse ? 2 : 3, &of.most, &of.below)
                            : sim_integer(call, 2, &of.first) && sim_integer(call, 3, &of.last);
    if (good)
        reply_range(call, &of);
}

static void zcount(sim_call *call) {
    range of = {.by_score = true};
    sim_key *key;
    size_t first = 0, last = 0;
    if (!read_bound(call, 2, &of.least, &of.above) || !read_bound(call, 3, &of.most, &of.below) ||
        !own(call, 'z', &key))
        return;
    if (key != NULL)
        find_ranks(key, &of, &first, &last);
    sim_reply_integer(call, (int64_t)(last - first));
}

/* ------------------------------------------------------------- Other types */

/* Run RPUSH, SADD and XADD, roughly: only for keys of these types. */
static void add_some(sim_call *call) {
    sim_key *key;
    char type = *call->command->name == 'r' ? 'l' : *call->command->name == 's' ? 'S' : 'x';
    if (!own(call, type, &key))
        return;
    key = own_or_new(call, type, key);
    for (int i = 2; i < call->argc; i++)
        sim_key_put(key, key->count, call->argv[i], NULL, 0);
    call->changed = true;
    sim_reply_integer(call, (int64_t)key->count);
}

enum { GROWS = SIM_WRITE | SIM_DENYOOM };

const sim_command sim_sets_commands[] = {
    {"hset", hset, -4, GROWS, 1, 1, 1},
    {"hincrby", hincrby, 4, GROWS, 1, 1, 1},
    {"hget", hget, 3, 0, 1, 1, 1},
    {"hexists", hexists, 3, 0, 1, 1, 1},
    {"hdel", hdel, -3, SIM_WRITE, 1, 1, 1},
    {"hlen", size, 2, 0, 1, 1, 1},
    {"hgetall", hgetall, 2, 0, 1, 1, 1},
    {"hkeys", hgetall, 2, 0, 1, 1, 1},
    {"zadd", zadd, -4, GROWS, 1, 1, 1},
    {"zrem", zrem, -3, SIM_WRITE, 1, 1, 1},
    {"zcard", size, 2, 0, 1, 1, 1},
    {"zscore", zscore, 3, 0, 1, 1, 1},
    {"zrank", zrank, 3, 0, 1, 1, 1},
    {"zrevrank", zrank, 3, 0, 1, 1, 1},
    {"zcount", zcount, 4, 0, 1, 1, 1},
    {"zpopmin", zpopmin, 2, SIM_WRITE, 1, 1, 1},
    {"zrange", zrange, -4, 0, 1, 1, 1},
    {"zrangebyscore", zrange, -4, 0, 1, 1, 1},
    {"zrevrangebyscore", zrange, -4, 0, 1, 1, 1},
    {"rpush", add_some, -3, GROWS, 1, 1, 1},
    {"sadd", add_some, -3, GROWS, 1, 1, 1},
    {"xadd", add_some, -5, GROWS, 1, 1, 1},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

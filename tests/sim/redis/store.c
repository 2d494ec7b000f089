/* Bytes, and the keys of a database. */
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ------------------------------------------------------------------- Bytes */

void *sim_grow(void *memory, size_t size) {
    void *larger = realloc(memory, size);
    if (larger == NULL)
        abort();
    return larger;
}

static void make_room(sim_buffer *buffer, size_t length) {
    if (buffer->length + length <= buffer->capacity)
        return;
    buffer->capacity = 2 * (buffer->length + length) + 64;
    buffer->bytes = sim_grow(buffer->bytes, buffer->capacity);
}

void sim_add(sim_buffer *buffer, const void *bytes, size_t length) {
    if (length == 0)
        return;
    make_room(buffer, length);
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

void sim_addf(sim_buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    make_room(buffer, (size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(buffer->bytes + buffer->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)length;
}

bool sim_same(sim_bytes one, sim_bytes other) {
    return one.length == other.length &&
           (one.length == 0 || memcmp(one.bytes, other.bytes, one.length) == 0);
}

bool sim_is(sim_bytes one, const char *word) {
    return strlen(word) == one.length && strncasecmp(one.bytes, word, one.length) == 0;
}

bool sim_number(sim_bytes from, int64_t *number) {
    const char *at = from.bytes, *end = at + from.length;
    uint64_t value = 0;
    bool negative = at < end && *at == '-';
    at += negative;
    if (at == end || end - at > 19 || (*at == '0' && (end - at > 1 || negative)))
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        value = 10 * value + (uint64_t)(*at - '0');
    }
    if (value > (uint64_t)INT64_MAX + negative)
        return false;
    *number = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool sim_score(sim_bytes from, double *score) {
    char copy[128], *end;
    int64_t number;
    if (from.length < 16 && sim_number(from, &number)) {
        *score = (double)number;
        return true;
    }
    if (from.length == 0 || from.length >= sizeof copy || strchr(" \t\r\n\v\f", *from.bytes))
        return false;
    memcpy(copy, from.bytes, from.length);
    copy[from.length] = '\0';
    *score = strtod(copy, &end);
    return end == copy + from.length && !isnan(*score);
}

sim_bytes sim_written(int64_t number, sim_digits room) {
    char *end = room + sizeof(sim_digits), *at = end;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0)
        *--at = '-';
    return (sim_bytes){at, (size_t)(end - at)};
}

uint32_t sim_hash(sim_bytes of) {
    uint64_t hash = of.length * UINT64_C(0x9e3779b97f4a7c15), word;
    while (of.length >= sizeof word) {
        memcpy(&word, of.bytes, sizeof word);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
        of.bytes += sizeof word;
        of.length -= sizeof word;
    }
    word = 0;
    if (of.length > 0)
        memcpy(&word, of.bytes, of.length);
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(hash >> 32);
}

sim_text *sim_text_new(sim_bytes from) {
    sim_text *text = sim_grow(NULL, sizeof *text + from.length + 1);
    text->hash = sim_hash(from);
    text->length = from.length;
    if (from.length > 0)
        memcpy(text->bytes, from.bytes, from.length);
    text->bytes[from.length] = '\0';
    return text;
}

/* ------------------------------------------------------------ A key's data */

void sim_key_empty(sim_key *key) {
    for (size_t i = 0; i < key->count; i++) {
        free(key->items[i].name);
        free(key->items[i].value);
    }
    free(key->items);
    free(key->value);
    key->items = NULL;
    key->value = NULL;
    key->count = key->capacity = 0;
}

void sim_key_set(sim_key *key, sim_bytes value) {
    sim_text *text = sim_text_new(value); /* the value may be a part of the old one */
    free(key->value);
    key->value = text;
}

ptrdiff_t sim_key_find(const sim_key *key, sim_bytes name) {
    uint32_t hash = sim_hash(name);
    for (size_t i = 0; i < key->count; i++)
        if (key->items[i].hash == hash && sim_same(sim_of(key->items[i].name), name))
            return (ptrdiff_t)i;
    return -1;
}

static void put_item(sim_key *key, size_t at, sim_item item) {
    if (key->count == key->capacity) {
        key->capacity = 2 * key->capacity + 2;
        key->items = sim_grow(key->items, key->capacity * sizeof *key->items);
    }
    memmove(key->items + at + 1, key->items + at, (key->count - at) * sizeof *key->items);
    key->items[at] = item;
    key->count++;
}

void sim_key_put(sim_key *key, size_t at, sim_bytes name, sim_text *value, double score) {
    sim_text *text = sim_text_new(name);
    put_item(key, at, (sim_item){text->hash, text, value, score});
}

static sim_item take_item(sim_key *key, size_t at) {
    sim_item item = key->items[at];
    key->count--;
    memmove(key->items + at, key->items + at + 1, (key->count - at) * sizeof *key->items);
    return item;
}

void sim_key_drop(sim_key *key, size_t at) {
    sim_item item = take_item(key, at);
    free(item.name);
    free(item.value);
}

/* Compare by score, then byte by byte. */
static int order(sim_bytes member, double score, const sim_item *item) {
    if (score != item->score)
        return score < item->score ? -1 : 1;
    size_t least = member.length < item->name->length ? member.length : item->name->length;
    int difference = memcmp(member.bytes, item->name->bytes, least);
    if (difference != 0)
        return difference;
    return member.length < item->name->length ? -1 : member.length > item->name->length;
}

bool sim_key_rank(sim_key *key, sim_bytes member, double score) {
    ptrdiff_t was = sim_key_find(key, member);
    sim_item item = {.name = NULL};
    if (was >= 0)
        item = take_item(key, (size_t)was);
    size_t low = 0, high = key->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (order(member, score, &key->items[middle]) < 0)
            high = middle;
        else
            low = middle + 1;
    }
    if (was < 0) {
        sim_key_put(key, low, member, NULL, score);
        return true;
    }
    item.score = score;
    put_item(key, low, item);
    return false;
}

/* -------------------------------------------------------------- A database */

static sim_key **bucket_of(const sim_db *db, uint32_t hash) {
    return &db->buckets[hash & (db->bucket_count - 1)];
}

sim_key *sim_db_find(const sim_db *db, sim_bytes name) {
    if (db->count == 0)
        return NULL;
    uint32_t hash = sim_hash(name);
    sim_key *key = *bucket_of(db, hash);
    while (key != NULL && (key->name->hash != hash || !sim_same(sim_of(key->name), name)))
        key = key->same_bucket;
    return key;
}

static void put_in_bucket(sim_db *db, sim_key *key) {
    sim_key **bucket = bucket_of(db, key->name->hash);
    key->same_bucket = *bucket;
    *bucket = key;
}

static void make_buckets(sim_db *db) {
    db->bucket_count = db->bucket_count == 0 ? 64 : 4 * db->bucket_count;
    db->buckets = sim_grow(db->buckets, db->bucket_count * sizeof(sim_key *));
    memset(db->buckets, 0, db->bucket_count * sizeof(sim_key *));
    for (sim_key *key = db->first; key != NULL; key = key->after)
        put_in_bucket(db, key);
}

sim_key *sim_db_add(sim_db *db, sim_bytes name, char type) {
    sim_key *key = sim_grow(NULL, sizeof *key);
    *key = (sim_key){.name = sim_text_new(name),
                     .type = type,
                     .before = db->last,
                     .serial = ++db->serial,
                     .expires_ms = SIM_NEVER};
    if (db->count >= db->bucket_count)
        make_buckets(db);
    put_in_bucket(db, key);
    *(db->last != NULL ? &db->last->after : &db->first) = key;
    db->last = key;
    db->count++;
    return key;
}

void sim_db_remove(sim_db *db, sim_key *key) {
    sim_key **at = bucket_of(db, key->name->hash);
    while (*at != key)
        at = &(*at)->same_bucket;
    *at = key->same_bucket;
    *(key->before != NULL ? &key->before->after : &db->first) = key->after;
    *(key->after != NULL ? &key->after->before : &db->last) = key->before;
    db->expiring -= key->expires_ms != SIM_NEVER;
    db->count--;
    sim_key_empty(key);
    free(key->name);
    free(key);
}

void sim_db_clear(sim_db *db) {
    while (db->first != NULL)
        sim_db_remove(db, db->first);
    free(db->buckets);
    db->buckets = NULL;
    db->bucket_count = 0;
    db->next_expiry = SIM_NEVER;
}

void sim_db_expire(sim_db *db, sim_key *key, int64_t at_ms) {
    db->expiring += (at_ms != SIM_NEVER) - (key->expires_ms != SIM_NEVER);
    key->expires_ms = at_ms;
    if (at_ms < db->next_expiry)
        db->next_expiry = at_ms;
}

size_t sim_db_size(const sim_db *db) {
    size_t size = 0;
    for (const sim_key *key = db->first; key != NULL; key = key->after) {
        size += 100 + key->name->length + (key->value != NULL ? key->value->length : 0);
        for (size_t i = 0; i < key->count; i++)
            size += 50 + key->items[i].name->length +
                    (key->items[i].value != NULL ? key->items[i].value->length : 0);
    }
    return size;
}

/* ---------------------------------------------------------- A key as bytes */

static const char DUMP[] = "sim1";

static void dump_text(sim_buffer *to, const sim_text *text) {
    uint32_t length = text != NULL ? (uint32_t)text->length : UINT32_MAX;
    sim_add(to, &length, sizeof length);
    if (text != NULL)
        sim_add(to, text->bytes, length);
}

void sim_key_dump(const sim_key *key, sim_buffer *to) {
    uint32_t count = (uint32_t)key->count;
    sim_add(to, DUMP, sizeof DUMP);
    sim_add(to, &key->type, 1);
    dump_text(to, key->value);
    sim_add(to, &count, sizeof count);
    for (uint32_t i = 0; i < count; i++) {
        dump_text(to, key->items[i].name);
        dump_text(to, key->items[i].value);
        sim_add(to, &key->items[i].score, sizeof key->items[i].score);
    }
}

static bool load(sim_bytes *from, void *to, size_t length) {
    if (from->length < length)
        return false;
    memcpy(to, from->bytes, length);
    from->bytes += length;
    from->length -= length;
    return true;
}

static bool load_text(sim_bytes *from, sim_text **text) {
    uint32_t length;
    *text = NULL;
    if (!load(from, &length, sizeof length))
        return false;
    if (length == UINT32_MAX)
        return true;
    if (from->length < length)
        return false;
    *text = sim_text_new((sim_bytes){from->bytes, length});
    from->bytes += length;
    from->length -= length;
    return true;
}

bool sim_key_restore(sim_key *key, sim_bytes from) {
    char magic[sizeof DUMP];
    uint32_t count;
    if (!load(&from, magic, sizeof magic) || memcmp(magic, DUMP, sizeof magic) != 0 ||
        !load(&from, &key->type, 1) || !load_text(&from, &key->value) ||
        !load(&from, &count, sizeof count))
        return false;
    while (count-- > 0) {
        sim_item item = {.name = NULL};
        bool good = load_text(&from, &item.name) && item.name != NULL &&
                    load_text(&from, &item.value) && load(&from, &item.score, sizeof item.score);
        if (!good) {
            free(item.name);
            free(item.value);
            return false;
        }
        item.hash = item.name->hash;
        put_item(key, key->count, item);
    }
    return from.length == 0;
}

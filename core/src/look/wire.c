#include "look/wire.h"

#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------- Requests */

static void add_word(hf_request *request, const char *word) {
    hf_request_word(request, word, strlen(word));
}

void hf_request_scan(hf_request *request, const char *cursor, int64_t count, const char *type,
                     const void *pattern, size_t length) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)count);
    hf_request_command(request, "*8\r\n$4\r\nSCAN\r\n");
    add_word(request, cursor);
    add_word(request, "COUNT");
    add_word(request, digits);
    add_word(request, "TYPE");
    add_word(request, type);
    add_word(request, "MATCH");
    hf_request_word(request, pattern, length);
}

void hf_request_dbsize(hf_request *request) {
    hf_request_command(request, "*1\r\n$6\r\nDBSIZE\r\n");
}

void hf_request_nodes(hf_request *request) {
    hf_request_command(request, "*2\r\n$7\r\nCLUSTER\r\n");
    add_word(request, "NODES");
}

/* ---------------------------------------------------------------- Answers */

static bool within(int64_t number, int64_t least, int64_t most) {
    return least <= number && number <= most;
}

/* Read an owner, and the note behind it. False: the reply is no string. */
static bool read_owner(const redisReply *reply, const char **owner, size_t *length,
                       const char **note, size_t *note_length) {
    if (!hf_reply_text(reply, owner, length))
        return false;
    *length = hf_owner_split(*owner, *length, note, note_length);
    return true;
}

/* The beginning of the id of a kept hold. */
#define KEPT "0000000000000000"

/* The parts of the answer of inspect: six numbers, the holders, the waiters, the record, a
 * limit. */
enum { STATE, HOLDS, WAITERS, TTL, RESULT_TTL, NOW, HOLDERS, QUEUE, RECORD, PERMITS, PER, PARTS };
enum { FREE, EXCLUSIVE, SHARED, OTHERS, PLAIN, MOVING = 8 /* is added */ };

/* Each holder has an id, mode, fence, ms left, owner and weight. */
bool hf_reply_holding(const redisReply *reply, size_t which, hf_holding *holding) {
    const redisReply *const *parts =
        (const redisReply *const *)reply->element[HOLDERS]->element + 6 * which;
    const char *id, *mode;
    size_t length, id_length;
    if (!hf_reply_text(parts[0], &id, &id_length) || !hf_reply_text(parts[1], &mode, &length) ||
        !read_owner(parts[4], &holding->owner, &holding->owner_length, &holding->note,
                    &holding->note_length))
        return false;
    holding->shared = length == 1 && *mode == 's';
    snprintf(holding->id, sizeof holding->id, "%.*s", (int)id_length, id);
    holding->kept = strncmp(id, KEPT, strlen(KEPT)) == 0;
    holding->fence = hf_reply_number(parts[2]);
    holding->remaining_ms = hf_reply_number(parts[3]);
    holding->weight = hf_reply_number(parts[5]);
    return within(holding->fence, 0, HF_NUMBER_MAX) && holding->weight > 0;
}

bool hf_reply_inspect(const redisReply *reply, hf_found *found) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < PARTS)
        return false;
    for (size_t i = 0; i < PARTS; i++)
        if (reply->element[i]->type !=
            (i < HOLDERS || i > RECORD ? REDIS_REPLY_INTEGER : REDIS_REPLY_ARRAY))
            return false;
    int64_t given = reply->element[STATE]->integer, state = given % MOVING;
    if (!within(given, 0, 2 * MOVING - 1))
        return false;
    *found = (hf_found){
        .held = state != FREE,
        .foreign = state == OTHERS || state == PLAIN,
        .plain = state == PLAIN,
        .moving = given >= MOVING,
        .shared = state == SHARED,
        .count = reply->element[HOLDS]->integer,
        .waiters = reply->element[WAITERS]->integer,
        .ttl_ms = reply->element[TTL]->integer,
        .result_ms = reply->element[RESULT_TTL]->integer,
        .server_us = reply->element[NOW]->integer,
        .permits = reply->element[PERMITS]->integer,
        .per_ms = reply->element[PER]->integer,
        .first = {.owner = "", .note = ""},
    };
    if (hf_reply_holdings(reply) > 0 && !hf_reply_holding(reply, 0, &found->first))
        return false;
    return within(found->server_us, 1, HF_NUMBER_MAX) && found->waiters >= 0 &&
           within(found->permits, 0, HF_PERMITS_MAX) && within(found->per_ms, 0, HF_LEASE_MAX);
}

bool hf_reply_found_record(const redisReply *reply, hf_call_record *record) {
    const redisReply *const what = reply->element[RECORD];
    if (what->elements != 4 || !hf_reply_record(what, reply->element[RESULT_TTL]->integer, record))
        return false;
    record->runs = record->kind == HF_RECORD_BEGUN && hf_reply_number(what->element[3]) == 1;
    return true;
}

size_t hf_reply_holdings(const redisReply *reply) { return reply->element[HOLDERS]->elements / 6; }

size_t hf_reply_queued_count(const redisReply *reply) {
    return reply->element[QUEUE]->elements / 7;
}

/* Each waiter has an id, mode, score, timeout, permits, owner and weight. */
bool hf_reply_queued(const redisReply *reply, size_t which, hf_queued *queued) {
    const redisReply *const *parts =
        (const redisReply *const *)reply->element[QUEUE]->element + 7 * which;
    const char *mode;
    size_t length;
    if (!hf_reply_text(parts[1], &mode, &length) ||
        !read_owner(parts[5], &queued->owner, &queued->owner_length, &queued->note,
                    &queued->note_length))
        return false;
    int64_t timeout_ms = hf_reply_number(parts[3]);
    if (length != 1 || memchr("xso", *mode, 3) == NULL || queued->owner_length == 0)
        return false;
    queued->shared = *mode == 's';
    queued->score = hf_reply_number(parts[2]);
    queued->permits = hf_reply_number(parts[4]);
    queued->weight = hf_reply_number(parts[6]);
    queued->timeout_ms = timeout_ms == 0 ? HF_FOREVER : timeout_ms;
    return within(queued->score, 0, HF_NUMBER_MAX) && queued->permits >= 0 && queued->weight > 0 &&
           timeout_ms >= 0;
}

bool hf_reply_scan(const redisReply *reply, char cursor[HF_CURSOR_SIZE], size_t *count) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING || reply->element[0]->len == 0 ||
        reply->element[0]->len >= HF_CURSOR_SIZE ||
        strspn(reply->element[0]->str, "0123456789") != (size_t)reply->element[0]->len ||
        reply->element[1]->type != REDIS_REPLY_ARRAY)
        return false;
    const redisReply *keys = reply->element[1];
    for (size_t i = 0; i < keys->elements; i++)
        if (keys->element[i]->type != REDIS_REPLY_STRING)
            return false;
    memcpy(cursor, reply->element[0]->str, (size_t)reply->element[0]->len + 1);
    *count = keys->elements;
    return true;
}

const char *hf_reply_key(const redisReply *reply, size_t which, size_t *length) {
    const redisReply *key = reply->element[1]->element[which];
    *length = (size_t)key->len;
    return key->str;
}

/* The node's own line is "<id> <address> myself,... <master> <ping> <pong> <epoch> <link> <slots>",
 * where a slot that is being moved stands in brackets. */
bool hf_reply_slots(const redisReply *reply, uint64_t *slots, bool *moving) {
    const char *own = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, " myself") : NULL;
    if (own == NULL)
        return false;
    const char *end = own + strcspn(own, "\n"), *at = own + 1;
    for (int column = 3; column <= 8 && at < end; column++) /* skip these columns */
        at += strcspn(at, " \n") + 1;
    size_t length = at < end ? (size_t)(end - at) : 0;
    *slots = hf_hash(0, at, length);
    *moving = length > 0 && memchr(at, '[', length) != NULL;
    return true;
}

#include "protocol/answers.h"

#include <string.h>

#define WAS_OUT 4 /* is added to the state */

/* An array of `count` or more integers. */
static bool read_numbers(const redisReply *reply, int64_t *numbers, size_t count) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
        numbers[i] = reply->element[i]->integer;
    }
    return true;
}

static int64_t read_number(const redisReply *reply) {
    return reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

static bool within(int64_t number, int64_t least, int64_t most) {
    return least <= number && number <= most;
}

/* A column of decimal digits; -1: it is none. */
static int64_t read_column(const char *text, int width) {
    int64_t number = 0;
    for (int i = 0; i < width; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = 10 * number + (text[i] - '0');
    }
    return number;
}

/* ----------------------------------------------------------- How ids stand */

/* The time, and the fence that is the time: nothing before 2001. */
#define STAMP_MIN INT64_C(1000000000000000)
#define STAMP_DIGITS 16

int64_t hf_granted_ms(int64_t lease_ms) {
    return lease_ms == HF_NEVER || lease_ms > HF_CLAIM_MS ? HF_CLAIM_MS : lease_ms;
}

hf_answer_kind hf_reply_take(const redisReply *reply, int64_t lease_ms, hf_look *look,
                             hf_standing *mine) {
    if (reply->type == REDIS_REPLY_INTEGER && within(reply->integer, -1, 0))
        return reply->integer == 0 ? HF_ANSWER_ASK : HF_ANSWER_HELD;
    if (reply->type != REDIS_REPLY_STRING || reply->len != STAMP_DIGITS)
        return HF_ANSWER_NONSENSE;
    int64_t fence = read_column(reply->str, STAMP_DIGITS);
    if (!within(fence, STAMP_MIN, HF_NUMBER_MAX))
        return HF_ANSWER_NONSENSE;
    *look = (hf_look){.server_us = fence, .ttl_ms = lease_ms};
    *mine = (hf_standing){.state = HF_STANDS_HELD, .fence = fence, .remaining_ms = lease_ms};
    return HF_ANSWER_GOOD;
}

/* <now>1<the holder's fence><mode><its lease>: it holds since its fence. */
hf_answer_kind hf_reply_wait(const redisReply *reply, hf_look *look, hf_standing *mine) {
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        return HF_ANSWER_ASK;
    if (reply->type != REDIS_REPLY_STRING || reply->len != 2 * STAMP_DIGITS + 14)
        return HF_ANSWER_NONSENSE;
    int64_t now = read_column(reply->str, STAMP_DIGITS);
    int64_t fence = read_column(reply->str + STAMP_DIGITS + 1, STAMP_DIGITS);
    int64_t lease_ms = read_column(reply->str + 2 * STAMP_DIGITS + 2, 12);
    if (!within(now, STAMP_MIN, HF_NUMBER_MAX) || !within(fence, 1, now) || lease_ms < 0)
        return HF_ANSWER_NONSENSE;
    /* A grant that is not claimed ends sooner. */
    int64_t left_ms = hf_granted_ms(lease_ms == 0 ? HF_NEVER : lease_ms) - (now - fence) / 1000;
    *look = (hf_look){.server_us = now, .ttl_ms = left_ms > 0 ? left_ms : HF_CLAIM_MS};
    *mine = (hf_standing){.state = HF_STANDS_QUEUED, .score = now, .rank = 1};
    return HF_ANSWER_GOOD;
}

/* False: it is no string. */
static bool read_text(const redisReply *reply, const char **text, size_t *length) {
    if (reply->type != REDIS_REPLY_STRING)
        return false;
    *text = reply->str;
    *length = (size_t)reply->len;
    return true;
}

/* The same for an owner, and the note behind it. */
static bool read_owner(const redisReply *reply, const char **owner, size_t *length,
                       const char **note, size_t *note_length) {
    if (!read_text(reply, owner, length))
        return false;
    *length = hf_owner_split(*owner, *length, note, note_length);
    return true;
}

/* <id 32><kind 1><fence 16><since 16><size 8><terms 65><owner>, a note, the bytes. */
bool hf_reply_record(const redisReply *reply, int64_t left_ms, hf_call_record *record) {
    const char *head, *of_hold;
    size_t length, ignored, columns = HF_ID_LENGTH + 1 + 2 * STAMP_DIGITS + 8 + HF_TERMS_LENGTH;
    *record = (hf_call_record){.left_ms = left_ms};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        !read_text(reply->element[0], &head, &length) || length < columns ||
        !read_text(reply->element[1], &record->note, &record->note_length) ||
        !read_text(reply->element[2], &record->bytes, &record->length))
        return false;
    head += HF_ID_LENGTH;
    if (memchr("brde", *head, 4) == NULL)
        return false;
    record->kind = (hf_record_kind)*head;
    record->fence = read_column(head + 1, STAMP_DIGITS);
    record->since_us = read_column(head + 1 + STAMP_DIGITS, STAMP_DIGITS);
    record->result_length = read_column(head + 1 + 2 * STAMP_DIGITS, 8);
    record->terms = head + 1 + 2 * STAMP_DIGITS + 8;
    record->owner = record->terms + HF_TERMS_LENGTH;
    record->owner_length = hf_owner_split(record->owner, length - columns, &of_hold, &ignored);
    return within(record->fence, 1, HF_NUMBER_MAX) && within(record->since_us, 1, HF_NUMBER_MAX) &&
           record->result_length >= 0 && within(left_ms, HF_TTL_NONE, HF_LEASE_MAX);
}

/* 5, the record, its ms. One answer has the record once, for the first that asked. */
static bool read_outcome(const redisReply *const *parts, hf_standing *mine) {
    const redisReply *state = parts[0], *what = parts[1], *left = parts[2];
    hf_call_record record;
    if (state->type != REDIS_REPLY_INTEGER || state->integer != HF_STANDS_OUTCOME)
        return false;
    *mine = (hf_standing){.state = HF_STANDS_OUTCOME};
    if (what->type == REDIS_REPLY_STRING && what->len == 0)
        return true;
    if (left->type != REDIS_REPLY_INTEGER || !hf_reply_record(what, left->integer, &record))
        return false;
    mine->record = what;
    mine->record_ms = left->integer;
    return true;
}

static bool read_standing(const redisReply *reply, size_t at, hf_standing *mine) {
    int64_t numbers[3];
    if (read_outcome((const redisReply *const *)reply->element + at, mine))
        return true;
    redisReply part = {.type = REDIS_REPLY_ARRAY, .elements = 3, .element = reply->element + at};
    if (!read_numbers(&part, numbers, 3))
        return false;
    *mine = (hf_standing){.state = (hf_stands)numbers[0]};
    switch (numbers[0]) {
    case HF_STANDS_HELD:
        mine->fence = numbers[1];
        mine->remaining_ms = numbers[2];
        return within(mine->fence, 1, HF_NUMBER_MAX) &&
               within(mine->remaining_ms, HF_TTL_NONE, HF_LEASE_MAX);
    case HF_STANDS_QUEUED + WAS_OUT:
    case HF_STANDS_FOREIGN + WAS_OUT:
        mine->state = (hf_stands)(numbers[0] - WAS_OUT);
        mine->was_out = true;
        break;
    case HF_STANDS_BUSY:
    case HF_STANDS_QUEUED:
    case HF_STANDS_DEAD:
    case HF_STANDS_FOREIGN:
    case HF_STANDS_REFUSED:
        break;
    default:
        return false;
    }
    mine->score = numbers[1];
    mine->rank = numbers[2];
    return within(mine->score, 0, HF_NUMBER_MAX) && within(mine->rank, -1, HF_NUMBER_MAX);
}

bool hf_reply_acquire(const redisReply *reply, hf_look *look, hf_standing *mine, size_t count) {
    int64_t numbers[2];
    if (!read_numbers(reply, numbers, 2) || reply->elements < 2 + 3 * count ||
        !within(numbers[0], 1, HF_NUMBER_MAX))
        return false;
    *look = (hf_look){.server_us = numbers[0], .ttl_ms = numbers[1]};
    const hf_standing *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!read_standing(reply, 2 + 3 * i, &mine[i]))
            return false;
        if (mine[i].state != HF_STANDS_OUTCOME)
            continue;
        if (first == NULL)
            first = &mine[i];
        if (first->record == NULL)
            return false;
        mine[i] = *first;
    }
    return true;
}

bool hf_reply_cancel(const redisReply *reply, hf_look *look, hf_standing *mine) {
    return hf_reply_acquire(reply, look, mine, 1);
}

const char *hf_reply_holder(const redisReply *reply, size_t *length, bool *kept) {
    *kept = false;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 6 ||
        reply->element[5]->type != REDIS_REPLY_STRING || reply->element[5]->len == 0)
        return NULL;
    *length = (size_t)reply->element[5]->len;
    *kept = reply->elements > 6 && read_number(reply->element[6]) == 1;
    return reply->element[5]->str;
}

bool hf_reply_kick_again(const redisReply *reply) {
    int64_t numbers[2];
    return read_numbers(reply, numbers, 2) && numbers[1] == HF_TTL_MORE;
}

/* ------------------------------------------------------------- The others */

hf_status hf_unexpected(const char *what) {
    return hf_fail(HF_EPROTOCOL, "the server gave an unexpected reply to %s", what);
}

hf_release_outcome hf_reply_release(const redisReply *reply) {
    int64_t number = read_number(reply);
    bool known = within(number, HF_RELEASE_NOT_HELD, HF_RELEASE_SPLIT) ||
                 within(number, HF_RELEASE_REFUSED, HF_RELEASE_SETTLED);
    return known ? (hf_release_outcome)number : HF_RELEASE_NONSENSE;
}

hf_settle_outcome hf_reply_settle(const redisReply *reply) {
    int64_t number = read_number(reply);
    return within(number, HF_SETTLE_NONE, HF_SETTLE_OVER) ? (hf_settle_outcome)number
                                                          : HF_SETTLE_NONSENSE;
}

bool hf_reply_renewal(const redisReply *reply, int64_t *left_ms) {
    int64_t numbers[2];
    *left_ms = HF_RENEWAL_REFUSED;
    if (!read_numbers(reply, numbers, 2) || numbers[1] < HF_RENEWAL_MANY)
        return false;
    *left_ms = numbers[1];
    return true;
}

void hf_reply_renewals(const redisReply *reply, int64_t *left_ms, size_t count) {
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == count + 1;
    for (size_t i = 0; i < count; i++) {
        const redisReply *mine = good ? reply->element[i + 1] : NULL;
        bool number = mine != NULL && mine->type == REDIS_REPLY_INTEGER;
        left_ms[i] =
            number && mine->integer >= HF_RENEWAL_MANY ? mine->integer : HF_RENEWAL_REFUSED;
    }
}

/* So begins the id of a hold that is kept. */
#define KEPT "0000000000000000"

/* In what inspect answers: six numbers, the holders, the waiters, the record. */
enum { STATE, HOLDS, WAITERS, TTL, RESULT_TTL, NOW, HOLDERS, QUEUE, RECORD, PARTS };
enum { FREE, EXCLUSIVE, SHARED, OTHERS, PLAIN, MOVING = 8 /* is added */ };

/* Its id, mode, fence, ms left and owner. */
bool hf_reply_holding(const redisReply *reply, size_t which, hf_holding *holding) {
    const redisReply *const *parts =
        (const redisReply *const *)reply->element[HOLDERS]->element + 6 * which;
    const char *id, *mode;
    size_t length, id_length;
    if (!read_text(parts[0], &id, &id_length) || !read_text(parts[1], &mode, &length) ||
        !read_owner(parts[4], &holding->owner, &holding->owner_length, &holding->note,
                    &holding->note_length))
        return false;
    holding->shared = length == 1 && *mode == 's';
    holding->kept = strncmp(id, KEPT, strlen(KEPT)) == 0;
    holding->fence = read_number(parts[2]);
    holding->remaining_ms = read_number(parts[3]);
    holding->weight = read_number(parts[5]);
    return within(holding->fence, 0, HF_NUMBER_MAX) && holding->weight > 0;
}

bool hf_reply_inspect(const redisReply *reply, hf_found *found) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < PARTS)
        return false;
    for (size_t i = 0; i < PARTS; i++)
        if (reply->element[i]->type != (i < HOLDERS ? REDIS_REPLY_INTEGER : REDIS_REPLY_ARRAY))
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
        .first = {.owner = "", .note = ""},
    };
    if (hf_reply_holdings(reply) > 0 && !hf_reply_holding(reply, 0, &found->first))
        return false;
    return within(found->server_us, 1, HF_NUMBER_MAX) && found->waiters >= 0;
}

bool hf_reply_found_record(const redisReply *reply, hf_call_record *record) {
    const redisReply *const what = reply->element[RECORD];
    if (what->elements != 4 || !hf_reply_record(what, reply->element[RESULT_TTL]->integer, record))
        return false;
    record->runs = record->kind == HF_RECORD_BEGUN && read_number(what->element[3]) == 1;
    return true;
}

size_t hf_reply_holdings(const redisReply *reply) { return reply->element[HOLDERS]->elements / 6; }

size_t hf_reply_queued_count(const redisReply *reply) {
    return reply->element[QUEUE]->elements / 7;
}

/* Its id, mode, score, timeout, permits, owner and weight. */
bool hf_reply_queued(const redisReply *reply, size_t which, hf_queued *queued) {
    const redisReply *const *parts =
        (const redisReply *const *)reply->element[QUEUE]->element + 7 * which;
    const char *mode;
    size_t length;
    if (!read_text(parts[1], &mode, &length) ||
        !read_owner(parts[5], &queued->owner, &queued->owner_length, &queued->note,
                    &queued->note_length))
        return false;
    int64_t timeout_ms = read_number(parts[3]);
    if (length != 1 || memchr("xso", *mode, 3) == NULL || queued->owner_length == 0)
        return false;
    queued->shared = *mode == 's';
    queued->score = read_number(parts[2]);
    queued->permits = read_number(parts[4]);
    queued->weight = read_number(parts[6]);
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

/* Of its own line: <id> <address> myself,... <master> <ping> <pong> <epoch> <link> <slots>, where
 * one that is being moved stands in brackets. */
bool hf_reply_slots(const redisReply *reply, uint64_t *slots, bool *moving) {
    const char *own = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, " myself") : NULL;
    if (own == NULL)
        return false;
    const char *end = own + strcspn(own, "\n"), *at = own + 1;
    for (int column = 3; column <= 8 && at < end; column++) /* past these */
        at += strcspn(at, " \n") + 1;
    size_t length = at < end ? (size_t)(end - at) : 0;
    *slots = hf_hash(0, at, length);
    *moving = length > 0 && memchr(at, '[', length) != NULL;
    return true;
}

int64_t hf_reply_listeners(const redisReply *reply) { return read_number(reply); }

bool hf_reply_holds(const redisReply *reply) {
    int64_t numbers[3];
    if (reply->type == REDIS_REPLY_STRING)
        return true; /* it was taken */
    if (read_numbers(reply, numbers, 3))
        return numbers[2] == HF_STANDS_HELD;
    return read_numbers(reply, numbers, 2) && numbers[1] >= HF_TTL_NONE;
}

/* --------------------------------------------------------------- Messages */

bool hf_message_grant(const char *text, size_t length, hf_grant *grant) {
    if (length != 1 + HF_ID_LENGTH + 2 * STAMP_DIGITS || *text != 'g')
        return false;
    memcpy(grant->id, text + 1, HF_ID_LENGTH);
    grant->id[HF_ID_LENGTH] = '\0';
    grant->fence = read_column(text + 1 + HF_ID_LENGTH, STAMP_DIGITS);
    grant->server_us = read_column(text + 1 + HF_ID_LENGTH + STAMP_DIGITS, STAMP_DIGITS);
    return within(grant->fence, 1, HF_NUMBER_MAX) && within(grant->server_us, 1, HF_NUMBER_MAX);
}

bool hf_message_result(const char *text, size_t length, char id[HF_ID_LENGTH + 1]) {
    if (length != 1 + HF_ID_LENGTH + STAMP_DIGITS || *text != 'r')
        return false;
    memcpy(id, text + 1, HF_ID_LENGTH);
    id[HF_ID_LENGTH] = '\0';
    return true;
}

bool hf_message_test(const char *text) { return strcmp(text, "t") == 0; }

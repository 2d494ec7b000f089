#include "protocol/answers.h"

#include <stdio.h>
#include <string.h>

#define WAS_OUT 4 /* is added to the state */

/* Read an array of `count` or more integers. */
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

int64_t hf_reply_number(const redisReply *reply) {
    return reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

static bool within(int64_t number, int64_t least, int64_t most) {
    return least <= number && number <= most;
}

/* ------------------------------------------------------- The states of ids */

/* The time, and a fence, which is a time: later than 2001. */
#define STAMP_MIN INT64_C(1000000000000000)
#define STAMP_DIGITS 16

int64_t hf_granted_ms(int64_t lease_ms) {
    return lease_ms == HF_NEVER || lease_ms > HF_CLAIM_MS ? HF_CLAIM_MS : lease_ms;
}

/* Read a fence. more: how many bytes follow it. */
static hf_answer_kind read_fence(const redisReply *reply, size_t more, int64_t lease_ms,
                                 hf_look *look, hf_standing *mine) {
    if (reply->type == REDIS_REPLY_INTEGER && within(reply->integer, -1, 0))
        return reply->integer == 0 ? HF_ANSWER_ASK : HF_ANSWER_HELD;
    if (reply->type != REDIS_REPLY_STRING || reply->len != STAMP_DIGITS + more)
        return HF_ANSWER_NONSENSE;
    int64_t fence = hf_read_digits(reply->str, STAMP_DIGITS);
    if (!within(fence, STAMP_MIN, HF_NUMBER_MAX))
        return HF_ANSWER_NONSENSE;
    *look = (hf_look){.server_us = fence, .ttl_ms = lease_ms};
    *mine = (hf_standing){.state = HF_STANDS_HELD, .fence = fence, .remaining_ms = lease_ms};
    return HF_ANSWER_GOOD;
}

hf_answer_kind hf_reply_take(const redisReply *reply, int64_t lease_ms, hf_look *look,
                             hf_standing *mine) {
    return read_fence(reply, 0, lease_ms, look, mine);
}

/* The reply is <fence>, or <fence>+ if there are other holds. */
hf_answer_kind hf_reply_share(const redisReply *reply, int64_t lease_ms, hf_look *look,
                              hf_standing *mine) {
    if (hf_reply_number(reply) == -2)
        return HF_ANSWER_LIMIT;
    bool others = reply->type == REDIS_REPLY_STRING && reply->len == STAMP_DIGITS + 1 &&
                  reply->str[STAMP_DIGITS] == '+';
    hf_answer_kind kind = read_fence(reply, others, lease_ms, look, mine);
    if (kind == HF_ANSWER_GOOD)
        mine->company = others ? HF_COMPANY_OTHERS : HF_COMPANY_NONE;
    return kind;
}

/* The reply is <now>1<the holder's fence><mode><its lease>; the hold began at its fence. */
hf_answer_kind hf_reply_wait(const redisReply *reply, hf_look *look, hf_standing *mine) {
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        return HF_ANSWER_ASK;
    if (reply->type != REDIS_REPLY_STRING || reply->len != 2 * STAMP_DIGITS + 14)
        return HF_ANSWER_NONSENSE;
    int64_t now = hf_read_digits(reply->str, STAMP_DIGITS);
    int64_t fence = hf_read_digits(reply->str + STAMP_DIGITS + 1, STAMP_DIGITS);
    int64_t lease_ms = hf_read_digits(reply->str + 2 * STAMP_DIGITS + 2, 12);
    if (!within(now, STAMP_MIN, HF_NUMBER_MAX) || !within(fence, 1, now) || lease_ms < 0)
        return HF_ANSWER_NONSENSE;
    /* A grant that is not claimed ends sooner. */
    int64_t left_ms = hf_granted_ms(lease_ms == 0 ? HF_NEVER : lease_ms) - (now - fence) / 1000;
    *look = (hf_look){.server_us = now, .ttl_ms = left_ms > 0 ? left_ms : HF_CLAIM_MS};
    *mine = (hf_standing){.state = HF_STANDS_QUEUED, .score = now, .rank = 1};
    return HF_ANSWER_GOOD;
}

bool hf_reply_text(const redisReply *reply, const char **text, size_t *length) {
    if (reply->type != REDIS_REPLY_STRING)
        return false;
    *text = reply->str;
    *length = (size_t)reply->len;
    return true;
}

const char *hf_reply_field(const redisReply *reply, const char *name) {
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->type == REDIS_REPLY_STRING &&
            reply->element[i + 1]->type == REDIS_REPLY_STRING &&
            strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return NULL;
}

/* The record is <id 32><kind 1><fence 16><since 16><size 8><terms 65><owner>, a note, the bytes. */
bool hf_reply_record(const redisReply *reply, int64_t left_ms, hf_call_record *record) {
    const char *head, *of_hold;
    size_t length, ignored, columns = HF_ID_LENGTH + 1 + 2 * STAMP_DIGITS + 8 + HF_TERMS_LENGTH;
    *record = (hf_call_record){.left_ms = left_ms};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        !hf_reply_text(reply->element[0], &head, &length) || length < columns ||
        !hf_reply_text(reply->element[1], &record->note, &record->note_length) ||
        !hf_reply_text(reply->element[2], &record->bytes, &record->length))
        return false;
    head += HF_ID_LENGTH;
    if (memchr("brde", *head, 4) == NULL)
        return false;
    record->kind = (hf_record_kind)*head;
    record->fence = hf_read_digits(head + 1, STAMP_DIGITS);
    record->since_us = hf_read_digits(head + 1 + STAMP_DIGITS, STAMP_DIGITS);
    record->result_length = hf_read_digits(head + 1 + 2 * STAMP_DIGITS, 8);
    record->terms = head + 1 + 2 * STAMP_DIGITS + 8;
    record->owner = record->terms + HF_TERMS_LENGTH;
    record->owner_length = hf_owner_split(record->owner, length - columns, &of_hold, &ignored);
    return within(record->fence, 1, HF_NUMBER_MAX) && within(record->since_us, 1, HF_NUMBER_MAX) &&
           record->result_length >= 0 && within(left_ms, HF_TTL_NONE, HF_LEASE_MAX);
}

/* Read 5, the record and its ms. One answer has the record once, for the first id that asked. */
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

static bool is_limit(int64_t permits, int64_t per_ms) {
    return within(permits, 0, HF_PERMITS_MAX) && within(per_ms, 0, HF_LEASE_MAX);
}

bool hf_reply_limit(const redisReply *reply, int64_t *permits, int64_t *per_ms) {
    int64_t numbers[2];
    if (!read_numbers(reply, numbers, 2))
        return false;
    *permits = numbers[0];
    *per_ms = numbers[1];
    return is_limit(*permits, *per_ms);
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
    case HF_STANDS_LIMITED:
        mine->permits = numbers[1];
        mine->per_ms = numbers[2];
        return is_limit(mine->permits, mine->per_ms);
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

const char *hf_reply_holder(const redisReply *reply, size_t *length, bool *kept) {
    *kept = false;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 6 ||
        reply->element[5]->type != REDIS_REPLY_STRING || reply->element[5]->len == 0)
        return NULL;
    *length = (size_t)reply->element[5]->len;
    *kept = reply->elements > 6 && hf_reply_number(reply->element[6]) == 1;
    return reply->element[5]->str;
}

/* ---------------------------------------------------------- Other answers */

hf_status hf_unexpected(const char *what) {
    return hf_fail(HF_EPROTOCOL, "the server gave an unexpected reply to %s", what);
}

hf_release_outcome hf_reply_release(const redisReply *reply) {
    int64_t number = hf_reply_number(reply);
    bool known = within(number, HF_RELEASE_NOT_HELD, HF_RELEASE_SPLIT) ||
                 within(number, HF_RELEASE_REFUSED, HF_RELEASE_SETTLED);
    return known ? (hf_release_outcome)number : HF_RELEASE_NONSENSE;
}

hf_settle_outcome hf_reply_settle(const redisReply *reply) {
    int64_t number = hf_reply_number(reply);
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

bool hf_reply_holds(const redisReply *reply) {
    int64_t numbers[3];
    if (reply->type == REDIS_REPLY_STRING)
        return true; /* `take` or `share` succeeded */
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
    grant->fence = hf_read_digits(text + 1 + HF_ID_LENGTH, STAMP_DIGITS);
    grant->server_us = hf_read_digits(text + 1 + HF_ID_LENGTH + STAMP_DIGITS, STAMP_DIGITS);
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

/* ------------------------------------------------------------------- INFO */

const char *hf_info_field(const char *info, const char *name, char *to, size_t capacity) {
    size_t length = strlen(name);
    *to = '\0';
    for (const char *at = info; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, length) != 0 || at[length] != ':')
            continue;
        snprintf(to, capacity, "%.*s", (int)strcspn(at + length + 1, "\r\n"), at + length + 1);
        break;
    }
    return to;
}

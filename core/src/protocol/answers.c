#include "protocol/answers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ----------------------------------------------------------- How ids stand */

static bool read_standing(const redisReply *reply, size_t at, hf_standing *mine) {
    int64_t numbers[3];
    redisReply part = {.type = REDIS_REPLY_ARRAY, .elements = 3, .element = reply->element + at};
    if (!read_numbers(&part, numbers, 3) || !within(numbers[0], HF_STANDS_BUSY, HF_STANDS_FOREIGN))
        return false;
    *mine = (hf_standing){.state = (hf_stands)numbers[0]};
    if (mine->state == HF_STANDS_HELD) {
        mine->fence = numbers[1];
        mine->remaining_ms = numbers[2];
        return within(mine->fence, 1, HF_NUMBER_MAX) &&
               within(mine->remaining_ms, HF_TTL_NONE, HF_LEASE_MAX);
    }
    mine->score = numbers[1];
    mine->rank = numbers[2];
    return within(mine->score, 0, HF_NUMBER_MAX) && within(mine->rank, -1, HF_NUMBER_MAX);
}

bool hf_reply_recheck(const redisReply *reply, hf_look *look, hf_standing *mine, size_t count) {
    int64_t numbers[2];
    if (!read_numbers(reply, numbers, 2) || reply->elements < 2 + 3 * count ||
        !within(numbers[0], 1, HF_NUMBER_MAX))
        return false;
    *look = (hf_look){.server_us = numbers[0], .ttl_ms = numbers[1]};
    for (size_t i = 0; i < count; i++)
        if (!read_standing(reply, 2 + 3 * i, &mine[i]))
            return false;
    return true;
}

bool hf_reply_cancel(const redisReply *reply, hf_look *look, hf_standing *mine) {
    return hf_reply_recheck(reply, look, mine, 1);
}

bool hf_reply_acquire(const redisReply *reply, int64_t lease_ms, hf_look *look, hf_standing *mine) {
    if (reply->type != REDIS_REPLY_INTEGER)
        return hf_reply_recheck(reply, look, mine, 1);
    /* Taken at once: the fence is the time, and the lease is whole. A time before
     * 2001 is nonsense. */
    if (!within(reply->integer, INT64_C(1000000000000000), HF_NUMBER_MAX))
        return false;
    *look = (hf_look){.server_us = reply->integer, .ttl_ms = lease_ms};
    *mine =
        (hf_standing){.state = HF_STANDS_HELD, .fence = reply->integer, .remaining_ms = lease_ms};
    return true;
}

bool hf_reply_kick_again(const redisReply *reply) {
    int64_t numbers[2];
    return read_numbers(reply, numbers, 2) && numbers[1] == HF_TTL_MORE;
}

/* ------------------------------------------------------------- The others */

hf_release_outcome hf_reply_release(const redisReply *reply) {
    int64_t number = read_number(reply);
    return within(number, HF_RELEASE_NOT_HELD, HF_RELEASE_MORE) ? (hf_release_outcome)number
                                                                : HF_RELEASE_NONSENSE;
}

bool hf_reply_renewal(const redisReply *reply, int64_t *left_ms) {
    int64_t numbers[2];
    *left_ms = HF_RENEWAL_REFUSED;
    if (!read_numbers(reply, numbers, 2) || numbers[1] < HF_RENEWAL_REFUSED)
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
            number && mine->integer >= HF_RENEWAL_REFUSED ? mine->integer : HF_RENEWAL_REFUSED;
    }
}

bool hf_reply_inspect(const redisReply *reply, hf_found *found) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 7)
        return false;
    for (size_t i = 0; i < 7; i++)
        if (reply->element[i]->type != (i == 1 ? REDIS_REPLY_STRING : REDIS_REPLY_INTEGER))
            return false;
    *found = (hf_found){
        .held = reply->element[0]->integer != 0,
        .foreign = reply->element[0]->integer == 2,
        .owner = reply->element[1]->str,
        .owner_length = (size_t)reply->element[1]->len,
        .count = reply->element[2]->integer,
        .fence = reply->element[3]->integer,
        .ttl_ms = reply->element[4]->integer,
        .waiters = reply->element[5]->integer,
        .server_us = reply->element[6]->integer,
    };
    return within(found->server_us, 1, HF_NUMBER_MAX) && within(found->fence, 0, HF_NUMBER_MAX);
}

static const redisReply *queue_of(const redisReply *reply) {
    const redisReply *queue = reply->elements > 7 ? reply->element[7] : NULL;
    return queue != NULL && queue->type == REDIS_REPLY_ARRAY ? queue : NULL;
}

size_t hf_reply_queued_count(const redisReply *reply) {
    const redisReply *queue = queue_of(reply);
    return queue != NULL ? queue->elements / 2 : 0;
}

/* The netstring at *from; *from moves behind it and its comma. */
static bool read_net(const char **from, const char *end, const char **bytes, size_t *length) {
    char *colon;
    if (*from >= end || !isdigit((unsigned char)**from))
        return false;
    unsigned long size = strtoul(*from, &colon, 10);
    if (colon >= end || *colon != ':' || size >= (size_t)(end - colon - 1) ||
        colon[1 + size] != ',')
        return false;
    *bytes = colon + 1;
    *length = size;
    *from = colon + size + 2;
    return true;
}

/* A member is the hold id, and then as netstrings channel, owner, lease, timeout, reentrant. */
bool hf_reply_queued(const redisReply *reply, size_t which, hf_queued *queued) {
    const redisReply *member = queue_of(reply)->element[2 * which];
    const redisReply *score = queue_of(reply)->element[2 * which + 1];
    const char *parts[4];
    size_t lengths[4];
    if (member->type != REDIS_REPLY_STRING || score->type != REDIS_REPLY_STRING ||
        member->len < HF_ID_LENGTH)
        return false;
    const char *from = member->str + HF_ID_LENGTH, *end = member->str + member->len;
    for (size_t i = 0; i < 4; i++)
        if (!read_net(&from, end, &parts[i], &lengths[i]))
            return false;
    double at = strtod(score->str, NULL);
    int64_t timeout_ms = strtoll(parts[3], NULL, 10);
    if (!(at >= 0 && at <= (double)HF_NUMBER_MAX) || timeout_ms < 0)
        return false;
    *queued = (hf_queued){.owner = parts[1],
                          .owner_length = lengths[1],
                          .timeout_ms = timeout_ms == 0 ? HF_FOREVER : timeout_ms,
                          .score = (int64_t)at};
    return true;
}

int64_t hf_reply_listeners(const redisReply *reply) { return read_number(reply); }

bool hf_reply_holds(const redisReply *reply) {
    int64_t numbers[3];
    if (reply->type == REDIS_REPLY_INTEGER)
        return true;
    if (read_numbers(reply, numbers, 3))
        return numbers[2] == HF_STANDS_HELD;
    return read_numbers(reply, numbers, 2) && numbers[1] >= HF_TTL_NONE;
}

/* --------------------------------------------------------------- Messages */

bool hf_message_grant(const char *text, hf_grant *grant) {
    long long fence, server_us, granted_ms;
    if (sscanf(text, "g %32s %lld %lld %lld", grant->id, &fence, &server_us, &granted_ms) != 4 ||
        strlen(grant->id) != HF_ID_LENGTH || !within(fence, 1, HF_NUMBER_MAX) ||
        !within(server_us, 1, HF_NUMBER_MAX) || !within(granted_ms, 0, HF_LEASE_MAX))
        return false;
    grant->fence = fence;
    grant->server_us = server_us;
    grant->granted_ms = granted_ms;
    return true;
}

bool hf_message_test(const char *text) { return strcmp(text, "t") == 0; }

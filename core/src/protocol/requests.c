#include "protocol/requests.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/encoding.h"

/* ----------------------------------------------------- A command, encoded */

#define ENDS "hf1:s" /* the suffix of S, beside the lock's key */
#define DEAD ":hf1:d"

/* Columns of fixed width, in digits. */
#define FENCE_DIGITS 16
#define LEASE_DIGITS 12
#define SHORT_DIGITS 10
#define SHORT_MAX INT64_C(9999999999)

static void add_bulk(hf_bytes *bytes, const void *data, size_t length) {
    hf_encode(bytes, data, length, "", 0);
}

static void begin_request(hf_request *request, const hf_script *script) {
    memset(request, 0, offsetof(hf_request, encoded));
    request->script = script;
    hf_bytes_init(&request->encoded);
}

void hf_request_command(hf_request *request, const char *command) {
    begin_request(request, NULL);
    request->command = command;
}

void hf_request_move(hf_request *to, hf_request *from) {
    *to = *from;
    if (from->encoded.data == from->encoded.small)
        to->encoded.data = to->encoded.small;
}

void hf_request_free(hf_request *request) { hf_bytes_free(&request->encoded); }

void hf_request_head(const hf_request *request, bool whole, hf_bytes *head) {
    char digits[24];
    if (request->script == NULL) {
        hf_bytes_add(head, request->command, strlen(request->command));
        return;
    }
    hf_encode_count(head, (size_t)(3 + request->keys + request->arguments));
    if (whole) {
        add_bulk(head, "EVAL", 4);
        add_bulk(head, request->script->text, request->script->length);
    } else {
        hf_bytes_add(head, request->script->call, HF_SCRIPT_CALL);
    }
    add_bulk(head, digits, hf_digits(digits, request->keys));
}

static void add_lock(hf_request *request, const hf_names *names, bool fence) {
    request->keys += 1 + fence;
    request->slot = names->slot;
    hf_bytes_add(&request->encoded, names->encoded, fence ? names->fence_end : names->lock_end);
    request->lock_end = names->lock_end;
    request->keys_end = request->encoded.length;
}

static void add_suffixed(hf_request *request, const hf_names *names, const char *suffix,
                         size_t length) {
    request->keys++;
    hf_encode(&request->encoded, names->companion, names->tagged, suffix, length);
    request->keys_end = request->encoded.length;
}

static void add_companion(hf_request *request, const hf_names *names, const char *suffix) {
    add_suffixed(request, names, suffix, strlen(suffix));
}

static void add_dead(hf_request *request, const hf_names *names, const char *id) {
    char suffix[HF_ID_LENGTH + 7];
    memcpy(suffix, id, HF_ID_LENGTH);
    memcpy(suffix + HF_ID_LENGTH, DEAD, sizeof DEAD - 1);
    add_suffixed(request, names, suffix, HF_ID_LENGTH + sizeof DEAD - 1);
}

static void add_argument(hf_request *request, const void *bytes, size_t length) {
    request->arguments++;
    add_bulk(&request->encoded, bytes, length);
}

void hf_request_word(hf_request *request, const void *word, size_t length) {
    add_argument(request, word, length);
}

static void add_number(hf_request *request, int64_t number) {
    char digits[24];
    add_argument(request, digits, hf_digits(digits, number));
}

/* -------------------------------------------- The arguments of each script */

/* The lock and its companions, in every script's order of keys. */
enum { FENCE_KEY = 1, QUEUE_KEY = 2, ENDS_KEY = 4, RESULT_KEY = 8, ALL_KEYS = 15 };

static void begin_script(hf_request *request, const hf_script *script, const hf_names *names,
                         int keys) {
    static const char *const companions[] = {"hf1:q", ENDS, "hf1:r"};
    begin_request(request, script);
    add_lock(request, names, (keys & FENCE_KEY) != 0);
    for (int i = 0; i < 3; i++)
        if ((keys & QUEUE_KEY << i) != 0)
            add_companion(request, names, companions[i]);
}

static int64_t on_the_wire(int64_t lease_ms) { return lease_ms == HF_NEVER ? 0 : lease_ms; }

/* Write a column: the number's last digits, with leading zeros. Two at a time, because each pair of
 * requests has three such columns. Every width is even. */
static char *put_column(char *to, int64_t number, int width) {
    uint64_t rest = (uint64_t)number;
    for (int i = width - 2; i >= 0; i -= 2, rest /= 100) {
        unsigned two = (unsigned)(rest % 100);
        to[i] = (char)('0' + two / 10);
        to[i + 1] = (char)('0' + two % 10);
    }
    return to + width;
}

static char *put_id(char *to, const char *id) {
    return (char *)memcpy(to, id, HF_ID_LENGTH) + HF_ID_LENGTH;
}

/* Add an id and a fence as one argument, perhaps after a letter. */
static void add_id_and_fence(hf_request *request, const char *before, const char *id,
                             int64_t fence) {
    char field[1 + HF_ID_LENGTH + FENCE_DIGITS];
    size_t length = strlen(before);
    memcpy(field, before, length);
    put_column(put_id(field + length, id), fence, FENCE_DIGITS);
    add_argument(request, field, length + HF_ID_LENGTH + FENCE_DIGITS);
}

static void add_fence(hf_request *request, int64_t fence) {
    char digits[FENCE_DIGITS];
    put_column(digits, fence, FENCE_DIGITS);
    add_argument(request, digits, FENCE_DIGITS);
}

static const char modes[] = {
    [HF_MODE_EXCLUSIVE] = 'x', [HF_MODE_SHARED] = 's', [HF_MODE_ONCE] = 'o'};

static bool is_heavy(const hf_ask *ask) { return ask->mode == HF_MODE_SHARED && ask->weight > 1; }

/* The member is <id><client><p or s><timeout><mode><lease>[<permits>[<weight>]]<owner>; the channel
 * is "hf:<client>", or "hf:{tag}:<client>" in a cluster. */
void hf_ask_member(const hf_ask *ask, hf_bytes *member) {
    char head[2 * HF_ID_LENGTH + 2 + 3 * SHORT_DIGITS + LEASE_DIGITS], *to = head;
    /* The client itself ends a longer wait. */
    bool ends = ask->timeout_ms > 0 && ask->timeout_ms <= SHORT_MAX - ask->ahead_ms;
    int64_t timeout_ms = ends ? ask->timeout_ms + ask->ahead_ms : 0;
    to = put_id(to, ask->id);
    to = put_id(to, ask->channel + ask->channel_length - HF_ID_LENGTH);
    *to++ = ask->channel[3] == '{' ? 's' : 'p';
    to = put_column(to, timeout_ms, SHORT_DIGITS);
    *to++ = is_heavy(ask) ? 'w' : modes[ask->mode];
    to = put_column(to, on_the_wire(ask->lease_ms), LEASE_DIGITS);
    if (ask->mode == HF_MODE_SHARED)
        to = put_column(to, ask->permits, SHORT_DIGITS);
    if (is_heavy(ask))
        to = put_column(to, ask->weight, SHORT_DIGITS);
    hf_bytes_add(member, head, (size_t)(to - head));
    hf_bytes_add(member, ask->owner, ask->owner_length);
}

/* Add the member of a waiter; otherwise an empty argument. */
static void add_member(hf_request *request, const hf_ask *ask) {
    hf_bytes member;
    hf_bytes_init(&member);
    if (ask->channel != NULL)
        hf_ask_member(ask, &member);
    request->encoded.failed = request->encoded.failed || member.failed;
    add_argument(request, member.data, member.length);
    hf_bytes_free(&member);
}

static void add_mode(hf_request *request, const hf_ask *ask) {
    char mode[32] = {is_heavy(ask) ? 'w' : modes[ask->mode]};
    size_t length = 1;
    if (ask->mode == HF_MODE_SHARED)
        length += hf_digits(mode + 1, ask->permits);
    if (is_heavy(ask)) {
        mode[length++] = ':';
        length += hf_digits(mode + length, ask->weight);
    }
    add_argument(request, mode, length);
}

/* Add whether the hold may nest, and in which hold. */
static void add_nests(hf_request *request, const hf_ask *ask) {
    char nests[1 + HF_ID_LENGTH] = "0";
    nests[0] = ask->reentrant ? '1' : '0';
    if (ask->inside != NULL)
        put_id(nests + 1, ask->inside);
    add_argument(request, nests, ask->inside != NULL ? sizeof nests : 1);
}

/* Add the life of a plain F, always as the last argument. */
static void add_fence_life(hf_request *request, const hf_names *names) {
    if (names->fence_life_ms > 0)
        add_number(request, names->fence_life_ms);
}

void hf_request_take(hf_request *request, const hf_names *names, const hf_ask *ask, int64_t floor) {
    char field[1 + HF_ID_LENGTH] = "h";
    begin_script(request, &hf_script_take, names, FENCE_KEY);
    put_id(field + 1, ask->id);
    add_argument(request, field, sizeof field);
    add_argument(request, ask->owner, ask->owner_length);
    add_number(request, on_the_wire(ask->lease_ms));
    add_fence(request, floor);
    add_fence_life(request, names);
}

void hf_request_share(hf_request *request, const hf_names *names, const hf_ask *ask,
                      int64_t floor) {
    begin_script(request, &hf_script_share, names, FENCE_KEY | ENDS_KEY);
    add_argument(request, ask->id, HF_ID_LENGTH);
    add_argument(request, ask->owner, ask->owner_length);
    add_number(request, on_the_wire(ask->lease_ms));
    add_number(request, ask->permits);
    add_fence(request, floor);
    add_fence_life(request, names);
}

void hf_request_wait(hf_request *request, const hf_names *names, const hf_ask *ask) {
    begin_script(request, &hf_script_wait, names, QUEUE_KEY);
    add_member(request, ask);
    add_argument(request, ask->owner, ask->owner_length);
}

void hf_request_acquire(hf_request *request, const hf_names *names, const hf_ask *asks,
                        size_t count, int64_t floor) {
    begin_script(request, &hf_script_acquire, names, ALL_KEYS);
    for (size_t i = 0; i < count; i++)
        add_dead(request, names, asks[i].id);
    add_number(request, floor);
    for (size_t i = 0; i < count; i++) {
        const hf_ask *ask = &asks[i];
        request->fetches = request->fetches || ask->mode == HF_MODE_ONCE;
        add_argument(request, ask->id, HF_ID_LENGTH);
        add_argument(request, ask->owner, ask->owner_length);
        add_number(request, on_the_wire(ask->lease_ms));
        add_mode(request, ask);
        add_nests(request, ask);
        add_member(request, ask);
        add_number(request, ask->channel == NULL ? 0
                            : ask->score != 0    ? ask->score
                                                 : -1000 * ask->ahead_ms);
    }
    add_fence_life(request, names);
}

void hf_request_drop(hf_request *request, const hf_names *names, const char *id, int64_t fence,
                     bool shared) {
    hf_request_command(request, "*3\r\n$4\r\nHDEL\r\n");
    add_lock(request, names, false);
    add_id_and_fence(request, shared ? "s" : "h", id, fence);
}

void hf_request_drop_one(hf_request *request, const hf_names *names, const char *id,
                         int64_t fence) {
    begin_script(request, &hf_script_leave, names, ENDS_KEY);
    add_argument(request, id, HF_ID_LENGTH);
    add_fence(request, fence);
}

void hf_request_finish(hf_request *request, const hf_names *names, const hf_ask *ask, int64_t fence,
                       bool bury, const hf_leaving *left) {
    bool more = bury || ask->channel != NULL || left != NULL;
    begin_script(request, &hf_script_release, names, ALL_KEYS);
    if (bury)
        add_dead(request, names, ask->id);
    add_argument(request, ask->id, HF_ID_LENGTH);
    if (fence > 0)
        add_fence(request, fence);
    else
        add_argument(request, "", 0);
    /* Alone only if no dead id, place in the queue or record needs the other keys. */
    if (fence > 0 && !more)
        request->alone = &hf_script_leave;
    if (more) {
        add_number(request, bury);
        add_member(request, ask);
    }
    if (left != NULL) {
        add_number(request, left->ttl_ms);
        add_argument(request, left->bytes, left->length);
        add_argument(request, &left->how, 1);
        add_argument(request, left->terms, HF_TERMS_LENGTH);
    }
    add_fence_life(request, names);
}

void hf_request_release(hf_request *request, const hf_names *names, const hf_ask *ask,
                        int64_t fence, bool bury) {
    hf_request_finish(request, names, ask, fence, bury, NULL);
}

void hf_request_begin(hf_request *request, const hf_names *names, const char *id, int64_t fence,
                      const char *terms, int64_t unknown_ms, const void *note, size_t length) {
    begin_script(request, &hf_script_begin, names, ENDS_KEY | RESULT_KEY);
    request->fetches = true;
    add_argument(request, id, HF_ID_LENGTH);
    add_fence(request, fence);
    add_argument(request, terms, HF_TERMS_LENGTH);
    add_number(request, on_the_wire(unknown_ms));
    add_argument(request, note, length);
}

void hf_request_settle(hf_request *request, const hf_names *names,
                       const hf_settlement *settlement) {
    begin_script(request, &hf_script_settle, names, ALL_KEYS);
    add_dead(request, names, settlement->id);
    add_argument(request, &settlement->verb, 1);
    add_fence(request, settlement->fence);
    add_argument(request, settlement->id, HF_ID_LENGTH);
    add_number(request, settlement->force);
    add_number(request, settlement->ttl_ms);
    add_argument(request, settlement->bytes, settlement->length);
    add_argument(request, settlement->owner, settlement->owner_length);
    add_argument(request, settlement->note, settlement->note_length);
    add_fence_life(request, names);
}

void hf_request_cancel(hf_request *request, const hf_names *names, const hf_ask *ask, bool bury) {
    begin_script(request, &hf_script_cancel, names, ALL_KEYS);
    add_dead(request, names, ask->id);
    add_argument(request, ask->id, HF_ID_LENGTH);
    add_number(request, bury);
    add_member(request, ask);
    add_fence_life(request, names);
}

void hf_request_claim(hf_request *request, const hf_renewal *renewal, const char *client_id,
                      bool write) {
    begin_script(request, &hf_script_claim, renewal->names,
                 FENCE_KEY | (renewal->one_of_many ? ENDS_KEY : 0));
    add_argument(request, client_id, HF_ID_LENGTH);
    add_id_and_fence(request, "", renewal->id, renewal->fence);
    add_number(request, on_the_wire(renewal->lease_ms));
    add_number(request, write);
    add_fence_life(request, renewal->names);
}

void hf_request_renew(hf_request *request, const hf_renewal *renewals, size_t count) {
    begin_request(request, &hf_script_renew);
    for (size_t i = 0; i < count; i++)
        add_lock(request, renewals[i].names, false);
    for (size_t i = 0; i < count; i++)
        if (renewals[i].one_of_many)
            add_companion(request, renewals[i].names, ENDS);
    size_t ends = count;
    for (size_t i = 0; i < count; i++) {
        add_id_and_fence(request, "", renewals[i].id, renewals[i].fence);
        add_number(request, on_the_wire(renewals[i].lease_ms));
        add_number(request, renewals[i].mode);
        add_number(request, renewals[i].one_of_many ? (int64_t)++ends : 0);
    }
}

void hf_request_inspect(hf_request *request, const hf_names *names, int64_t skip, int64_t most,
                        bool whole) {
    begin_script(request, &hf_script_inspect, names, QUEUE_KEY | ENDS_KEY | RESULT_KEY);
    request->alone = &hf_script_inspect;
    add_companion(request, names, HF_LAST_FENCE);
    request->fetches = whole;
    add_number(request, skip);
    add_number(request, most);
    if (whole)
        add_number(request, 1);
}

void hf_request_break(hf_request *request, const hf_names *names, int64_t fence, bool foreign) {
    begin_script(request, &hf_script_break, names, ALL_KEYS);
    add_number(request, fence);
    add_number(request, foreign);
    add_fence_life(request, names);
}

void hf_request_limit(hf_request *request, const hf_names *names, const char *id, int64_t permits,
                      int64_t per_ms) {
    begin_script(request, &hf_script_limit, names, FENCE_KEY);
    add_dead(request, names, id);
    add_number(request, permits);
    add_number(request, per_ms);
    add_fence_life(request, names);
}

void hf_request_heal(hf_request *request, const hf_names *names, int64_t ttl_ms) {
    begin_script(request, &hf_script_heal, names, ENDS_KEY);
    add_number(request, ttl_ms);
}

void hf_request_selftest(hf_request *request, const hf_names *names, const char *channel,
                         size_t length) {
    begin_script(request, &hf_script_selftest, names, 0);
    add_argument(request, channel, length);
}

void hf_request_permissions(hf_request *request, const hf_request *refused) {
    begin_request(request, &hf_script_permissions);
    request->encoded.failed = refused->encoded.failed;
    hf_bytes_add(&request->encoded, refused->encoded.data, refused->keys_end);
    request->keys = 1;
    request->arguments = refused->keys - 1;
    request->slot = refused->slot;
    size_t length; /* the lock's key stays a key, and the others become arguments */
    const char *key = hf_request_key(refused, &length);
    if (key != NULL)
        request->keys_end = request->lock_end =
            (size_t)(key + length - refused->encoded.data) + strlen("\r\n");
}

const char *hf_request_key(const hf_request *request, size_t *length) {
    char *end;
    if (request->encoded.failed)
        return NULL;
    *length = strtoul(request->encoded.data + 1, &end, 10);
    return end + strlen("\r\n");
}

bool hf_request_alone(hf_request *request) {
    hf_bytes *encoded = &request->encoded;
    if (request->alone == NULL || encoded->failed)
        return false;
    encoded->length -= request->keys_end - request->lock_end;
    memmove(encoded->data + request->lock_end, encoded->data + request->keys_end,
            encoded->length - request->lock_end); /* the arguments */
    request->script = request->alone;
    request->alone = NULL;
    request->keys = 1;
    request->keys_end = request->lock_end;
    return true;
}

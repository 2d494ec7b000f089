#include "protocol/requests.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------- A command, encoded */

#define LAST_FENCE "hf1:f" /* how the keys beside the lock's end */
#define QUEUE "hf1:q"
#define DEAD ":hf1:d"

#define ID_BULK (sizeof "$32\r\n\r\n" - 1 + HF_ID_LENGTH) /* a hold id as an argument */
#define HEADER_MAX 24                                     /* "$<length>\r\n" or "*<count>\r\n" */

static char *add_header(char *to, char kind, size_t value) {
    *to++ = kind;
    to += hf_digits(to, (int64_t)value);
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

/* One string of two parts. */
static void add_parts(hf_bytes *bytes, const void *data, size_t length, const void *more,
                      size_t more_length) {
    char header[HEADER_MAX];
    size_t header_length = (size_t)(add_header(header, '$', length + more_length) - header);
    char *to = hf_bytes_room(bytes, header_length + length + more_length + 2);
    if (to == NULL)
        return;
    memcpy(to, header, header_length);
    memcpy(to += header_length, data, length);
    memcpy(to += length, more, more_length);
    memcpy(to + more_length, "\r\n", 2);
}

static void add_bulk(hf_bytes *bytes, const void *data, size_t length) {
    add_parts(bytes, data, length, "", 0);
}

static void begin_request(hf_request *request, const hf_script *script) {
    request->script = script;
    request->keys = request->arguments = 0;
    request->keys_end = request->lock_end = 0;
    request->replicas = 0;
    request->hands_on = request->separable = false;
    request->slot = 0;
    hf_bytes_init(&request->encoded);
}

void hf_request_move(hf_request *to, hf_request *from) {
    *to = *from;
    if (from->encoded.data == from->encoded.small)
        to->encoded.data = to->encoded.small;
}

void hf_request_free(hf_request *request) { hf_bytes_free(&request->encoded); }

void hf_request_head(const hf_request *request, bool whole, hf_bytes *head) {
    char digits[HEADER_MAX];
    size_t count = (size_t)(3 + request->keys + request->arguments);
    hf_bytes_add(head, digits, (size_t)(add_header(digits, '*', count) - digits));
    if (whole) {
        add_bulk(head, "EVAL", 4);
        add_bulk(head, request->script->text, request->script->length);
    } else {
        add_bulk(head, "EVALSHA", 7);
        add_bulk(head, request->script->sha1, 40);
    }
    add_bulk(head, digits, hf_digits(digits, request->keys));
}

static void add_lock(hf_request *request, const hf_names *names) {
    request->keys++;
    request->slot = names->slot;
    add_bulk(&request->encoded, names->data, names->length);
    request->keys_end = request->lock_end = request->encoded.length;
}

static void add_suffixed(hf_request *request, const hf_names *names, const char *suffix,
                         size_t length) {
    request->keys++;
    add_parts(&request->encoded, names->data + names->length, names->tagged, suffix, length);
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

static void add_number(hf_request *request, int64_t number) {
    char digits[24];
    add_argument(request, digits, hf_digits(digits, number));
}

/* ----------------------------------------------- What each script is given */

/* The lock, its last fence and its queue. */
static void add_keys(hf_request *request, const hf_names *names) {
    add_lock(request, names);
    add_companion(request, names, LAST_FENCE);
    add_companion(request, names, QUEUE);
}

static int64_t on_the_wire(int64_t lease_ms) { return lease_ms == HF_NEVER ? 0 : lease_ms; }

/* A netstring. */
static void add_net(hf_bytes *bytes, const void *data, size_t length) {
    char size[24];
    size_t digits = hf_digits(size, (int64_t)length);
    size[digits++] = ':';
    hf_bytes_add(bytes, size, digits);
    hf_bytes_add(bytes, data, length);
    hf_bytes_add(bytes, ",", 1);
}

static void add_net_number(hf_bytes *bytes, int64_t number) {
    char digits[24];
    add_net(bytes, digits, hf_digits(digits, number));
}

void hf_ask_member(const hf_ask *ask, hf_bytes *member) {
    hf_bytes_add(member, ask->id, HF_ID_LENGTH);
    add_net(member, ask->channel, ask->channel_length);
    add_net(member, ask->owner, ask->owner_length);
    add_net_number(member, on_the_wire(ask->lease_ms));
    add_net_number(member, ask->timeout_ms == HF_FOREVER ? 0 : ask->timeout_ms);
    add_net_number(member, ask->reentrant);
}

/* Empty if it does not wait. */
static void add_member(hf_request *request, const hf_ask *ask) {
    hf_bytes member;
    hf_bytes_init(&member);
    if (ask->channel != NULL)
        hf_ask_member(ask, &member);
    request->encoded.failed = request->encoded.failed || member.failed;
    add_argument(request, member.data, member.length);
    hf_bytes_free(&member);
}

static void add_asker(hf_request *request, const hf_ask *ask) {
    add_argument(request, ask->id, HF_ID_LENGTH);
    add_argument(request, ask->owner, ask->owner_length);
    add_number(request, on_the_wire(ask->lease_ms));
    add_number(request, ask->reentrant);
}

void hf_request_acquire(hf_request *request, const hf_names *names, const hf_ask *ask,
                        int64_t floor) {
    begin_request(request, &hf_script_acquire);
    add_keys(request, names);
    add_dead(request, names, ask->id);
    add_asker(request, ask);
    add_number(request, floor);
    if (ask->channel == NULL)
        return;
    add_member(request, ask);
    add_number(request, ask->score);
}

void hf_request_recheck(hf_request *request, const hf_names *names, const hf_ask *asks,
                        size_t count, int64_t floor, bool wait) {
    begin_request(request, &hf_script_recheck);
    add_keys(request, names);
    for (size_t i = 0; i < count; i++)
        add_dead(request, names, asks[i].id);
    add_number(request, floor);
    add_number(request, wait);
    for (size_t i = 0; i < count; i++) {
        add_asker(request, &asks[i]);
        add_member(request, &asks[i]);
        add_number(request, asks[i].score);
    }
}

void hf_request_kick(hf_request *request, const hf_names *names) {
    hf_request_recheck(request, names, NULL, 0, 0, false);
}

void hf_request_release(hf_request *request, const hf_names *names, const hf_ask *ask, bool bury,
                        bool pushed) {
    begin_request(request, &hf_script_release);
    add_keys(request, names);
    if (bury)
        add_dead(request, names, ask->id);
    add_argument(request, ask->id, HF_ID_LENGTH);
    /* Without the other keys: a dead id, or a place in the queue, is there to be seen to. */
    request->separable = !bury && ask->channel == NULL;
    if (request->separable && !pushed)
        return;
    add_number(request, bury);
    add_number(request, pushed);
    add_member(request, ask);
}

void hf_request_cancel(hf_request *request, const hf_names *names, const hf_ask *ask, bool bury) {
    begin_request(request, &hf_script_cancel);
    add_keys(request, names);
    add_dead(request, names, ask->id);
    add_argument(request, ask->id, HF_ID_LENGTH);
    add_number(request, bury);
    add_member(request, ask);
}

void hf_request_claim(hf_request *request, const hf_names *names, const char *id, int64_t lease_ms,
                      bool write) {
    begin_request(request, &hf_script_claim);
    add_lock(request, names);
    add_companion(request, names, LAST_FENCE);
    add_argument(request, id, HF_ID_LENGTH);
    add_number(request, on_the_wire(lease_ms));
    if (write)
        add_number(request, 1);
}

void hf_request_renew(hf_request *request, const hf_renewal *renewals, size_t count) {
    begin_request(request, &hf_script_renew);
    for (size_t i = 0; i < count; i++)
        add_lock(request, renewals[i].names);
    for (size_t i = 0; i < count; i++) {
        add_argument(request, renewals[i].id, HF_ID_LENGTH);
        add_number(request, on_the_wire(renewals[i].lease_ms));
        add_number(request, renewals[i].mode);
    }
}

void hf_request_inspect(hf_request *request, const hf_names *names, int64_t skip, int64_t most) {
    begin_request(request, &hf_script_inspect);
    add_lock(request, names);
    add_companion(request, names, QUEUE);
    if (most == 0)
        return;
    add_number(request, skip);
    add_number(request, most);
}

void hf_request_break(hf_request *request, const hf_names *names, int64_t fence, bool foreign) {
    begin_request(request, &hf_script_break);
    add_keys(request, names);
    add_number(request, fence);
    add_number(request, foreign);
}

void hf_request_heal(hf_request *request, const hf_names *names, int64_t ttl_ms) {
    begin_request(request, &hf_script_heal);
    add_lock(request, names);
    add_number(request, ttl_ms);
}

void hf_request_selftest(hf_request *request, const char *channel, size_t length) {
    begin_request(request, &hf_script_selftest);
    add_argument(request, channel, length);
}

void hf_request_permissions(hf_request *request, const hf_request *refused) {
    begin_request(request, &hf_script_permissions);
    hf_bytes_add(&request->encoded, refused->encoded.data, refused->keys_end);
    request->arguments = refused->keys;
    request->slot = refused->slot;
}

bool hf_request_alone(hf_request *request, const hf_request *split) {
    if (!split->separable || split->encoded.failed)
        return false;
    begin_request(request, &hf_script_leave);
    hf_bytes_add(&request->encoded, split->encoded.data, split->lock_end);
    hf_bytes_add(&request->encoded, split->encoded.data + split->keys_end, ID_BULK);
    request->keys = request->arguments = 1;
    request->keys_end = request->lock_end = split->lock_end;
    request->slot = split->slot;
    return true;
}

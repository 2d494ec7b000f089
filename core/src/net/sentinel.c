#include "net/sentinel.h"

#include <poll.h>
#include <stdlib.h>

#include "net/login.h"
#include "protocol/answers.h"
#include "protocol/errors.h"

/* An event that has begun to arrive is complete within this time. */
#define READ_MS 1000

hf_status hf_sentinel_open(const hf_address *all, const hf_tls *tls, size_t which, int64_t deadline,
                           hf_sentinel *sentinel) {
    const hf_place *place = &all->places[which];
    *sentinel = (hf_sentinel){.all = all, .tls = tls, .epoch = -1};
    hf_status status = hf_address_make(all, place->host, place->port, &sentinel->address);
    if (status != HF_OK)
        return status;
    status = hf_login_open(&sentinel->address, tls, HF_ASKS_ONLY, deadline, &sentinel->questions);
    if (status != HF_OK)
        hf_address_unmake(&sentinel->address);
    return status;
}

void hf_sentinel_close(hf_sentinel *sentinel) {
    hf_connection_close(sentinel->questions);
    hf_connection_close(sentinel->events);
    hf_address_unmake(&sentinel->address);
}

/* Ask without a password, then with the URL's if the sentinel wants one. */
static hf_status ask_sentinel(const hf_sentinel *sentinel, hf_connection *connection,
                              int64_t deadline, int count, const char **words,
                              redisReply **reply_out) {
    hf_status status = hf_connection_ask(connection, deadline, reply_out, count, words);
    if (status != HF_OK)
        return hf_fail(status, "cannot ask the sentinel %s: %s", sentinel->address.shown,
                       hf_error_message());
    if ((*reply_out)->type != REDIS_REPLY_ERROR)
        return HF_OK;
    hf_error_class((*reply_out)->str, &status);
    if (status != HF_EAUTH)
        return HF_OK;
    freeReplyObject(*reply_out);
    *reply_out = NULL;
    status = hf_login_greet(connection, &sentinel->address, HF_ASKS_ONLY, deadline);
    return status == HF_OK ? hf_connection_ask(connection, deadline, reply_out, count, words)
                           : status;
}

static bool is_place(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_STRING;
}

static hf_status ask_address(const hf_sentinel *sentinel, int64_t deadline,
                             redisReply **reply_out) {
    const char *service = sentinel->all->service;
    const char *words[] = {"SENTINEL", "get-master-addr-by-name", service};
    hf_status status = ask_sentinel(sentinel, sentinel->questions, deadline, 3, words, reply_out);
    if (status == HF_OK && !is_place(*reply_out))
        status = hf_fail(HF_ECONNECT, "the sentinel %s knows no master %.100s",
                         sentinel->address.shown, service);
    return status;
}

/* The address that this answer has is for a while the one before the failover. */
static hf_status ask_epoch(hf_sentinel *sentinel, int64_t deadline) {
    redisReply *reply;
    const char *words[] = {"SENTINEL", "MASTER", sentinel->all->service};
    hf_status status = ask_sentinel(sentinel, sentinel->questions, deadline, 3, words, &reply);
    const char *text = status == HF_OK ? hf_reply_field(reply, "config-epoch") : NULL;
    if (status == HF_OK)
        sentinel->epoch = text != NULL ? atoll(text) : 0;
    freeReplyObject(reply);
    return status;
}

/* Address and epoch are two answers, and the sentinel may learn of a failover between them: an
 * address counts if the epoch is the same before and after it. */
hf_status hf_sentinel_master(hf_sentinel *sentinel, int64_t deadline, hf_address *master,
                             int64_t *epoch) {
    redisReply *reply = NULL;
    hf_status status = sentinel->epoch < 0 ? ask_epoch(sentinel, deadline) : HF_OK;
    bool changed = true;
    for (; status == HF_OK && changed && hf_now() < deadline; changed = *epoch != sentinel->epoch) {
        *epoch = sentinel->epoch;
        freeReplyObject(reply);
        status = ask_address(sentinel, deadline, &reply);
        if (status == HF_OK)
            status = ask_epoch(sentinel, deadline);
    }
    if (status == HF_OK && changed)
        status =
            hf_fail(HF_ECONNECT, "no answer of the sentinel %s in time", sentinel->address.shown);
    else if (status == HF_OK)
        status = hf_address_make(sentinel->all, reply->element[0]->str,
                                 atoi(reply->element[1]->str), master);
    freeReplyObject(reply);
    return status;
}

/* The sentinel announces a promoted replica, and then the new master. */
hf_status hf_sentinel_subscribe(hf_sentinel *sentinel, int64_t deadline) {
    redisReply *reply;
    const char *words[] = {"SUBSCRIBE", "+switch-master", "+promoted-slave"};
    hf_status status =
        hf_login_open(&sentinel->address, sentinel->tls, HF_ASKS_ONLY, deadline, &sentinel->events);
    if (status != HF_OK)
        return status;
    status = ask_sentinel(sentinel, sentinel->events, deadline, 3, words, &reply);
    bool refused = status == HF_OK && reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    if (refused) {
        hf_connection_close(sentinel->events);
        sentinel->events = NULL;
    } else if (status == HF_OK) { /* of the second channel */
        status = hf_connection_exchange(sentinel->events, hf_now(), deadline, &reply);
        freeReplyObject(reply);
    }
    return status;
}

int hf_sentinel_fd(const hf_sentinel *sentinel) {
    return hf_connection_fd(sentinel->events != NULL ? sentinel->events : sentinel->questions);
}

hf_status hf_sentinel_wait(const hf_sentinel *sentinel, int64_t ms) {
    struct pollfd fd = {.fd = hf_sentinel_fd(sentinel), .events = POLLIN};
    hf_status status = HF_OK;
    if (poll(&fd, 1, (int)ms) < 1)
        return HF_OK;
    if (sentinel->events == NULL)
        return HF_ECONNECT; /* there was no question: the sentinel has hung up */
    do {
        redisReply *reply;
        int64_t now = hf_now();
        status = hf_connection_exchange(sentinel->events, now, hf_after(now, READ_MS), &reply);
        freeReplyObject(reply);
    } while (status == HF_OK && hf_connection_unasked(sentinel->events));
    return status;
}

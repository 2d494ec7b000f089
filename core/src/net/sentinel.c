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
    *sentinel = (hf_sentinel){.all = all, .tls = tls};
    hf_status status = hf_address_make(all, &all->places[which], &sentinel->address);
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

static hf_status ask_at_once(hf_connection *connection, int64_t deadline, size_t count,
                             const hf_words *questions, redisReply **replies) {
    hf_status status = hf_connection_ask(connection, deadline, count, questions, replies);
    return status == HF_OK ? HF_OK
                           : hf_fail(status, "cannot ask the sentinel %s: %s", connection->shown,
                                     hf_error_message());
}

static bool wants_password(const redisReply *reply) {
    hf_status status = HF_OK;
    if (reply->type == REDIS_REPLY_ERROR)
        hf_error_class(reply->str, &status);
    return status == HF_EAUTH;
}

/* Ask without a password, then with the URL's if the sentinel wants one. The caller frees the
 * replies, even after a failure; NULL: there is none. */
static hf_status ask_sentinel(const hf_sentinel *sentinel, hf_connection *connection,
                              int64_t deadline, size_t count, const hf_words *questions,
                              redisReply **replies) {
    hf_status status = ask_at_once(connection, deadline, count, questions, replies);
    bool guarded = false;
    for (size_t i = 0; i < count && status == HF_OK; i++)
        guarded = guarded || wants_password(replies[i]);
    if (!guarded)
        return status;
    hf_replies_free(replies, count);
    status = hf_login_greet(connection, &sentinel->address, HF_ASKS_ONLY, deadline);
    return status == HF_OK ? ask_at_once(connection, deadline, count, questions, replies) : status;
}

static bool is_place(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_STRING;
}

/* Return the epoch. For a while after a failover, the address in this answer is still the old
 * one. */
static int64_t epoch_of(const redisReply *reply) {
    const char *text = hf_reply_field(reply, "config-epoch");
    return text != NULL ? atoll(text) : 0;
}

/* Address and epoch are two answers, and the sentinel may learn of a failover between them: an
 * address counts if the epoch is the same before and after it. */
hf_status hf_sentinel_master(const hf_sentinel *sentinel, int64_t deadline, hf_address *master,
                             int64_t *epoch) {
    const char *service = sentinel->all->service, *shown = sentinel->address.shown;
    const hf_words questions[] = {{3, {"SENTINEL", "MASTER", service}},
                                  {3, {"SENTINEL", "get-master-addr-by-name", service}},
                                  {3, {"SENTINEL", "MASTER", service}}};
    redisReply *replies[3];
    hf_status status = ask_sentinel(sentinel, sentinel->questions, deadline, 3, questions, replies);
    if (status == HF_OK && !is_place(replies[1]))
        status = hf_fail(HF_ECONNECT, "the sentinel %s knows no master %.100s", shown, service);
    else if (status == HF_OK && (*epoch = epoch_of(replies[0])) != epoch_of(replies[2]))
        status = hf_fail(HF_ECONNECT, "the sentinel %s has just heard of a failover", shown);
    else if (status == HF_OK)
        status = hf_address_make(
            sentinel->all,
            &(hf_place){replies[1]->element[0]->str, atoi(replies[1]->element[1]->str)}, master);
    hf_replies_free(replies, 3);
    return status;
}

/* The sentinel announces a promoted replica, and then the new master. */
hf_status hf_sentinel_subscribe(hf_sentinel *sentinel, int64_t deadline) {
    redisReply *reply;
    const hf_words words = {3, {"SUBSCRIBE", "+switch-master", "+promoted-slave"}};
    hf_status status =
        hf_login_open(&sentinel->address, sentinel->tls, HF_ASKS_ONLY, deadline, &sentinel->events);
    if (status != HF_OK)
        return status;
    status = ask_sentinel(sentinel, sentinel->events, deadline, 1, &words, &reply);
    bool refused = status == HF_OK && reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    if (refused) {
        hf_connection_close(sentinel->events);
        sentinel->events = NULL;
    } else if (status == HF_OK) { /* the answer for the second channel */
        status = hf_connection_exchange(sentinel->events, hf_now(), deadline, &reply);
        freeReplyObject(reply);
    }
    return status;
}

int hf_sentinel_fd(const hf_sentinel *sentinel) {
    return (sentinel->events != NULL ? sentinel->events : sentinel->questions)->socket.fd;
}

hf_status hf_sentinel_wait(const hf_sentinel *sentinel, int64_t ms) {
    struct pollfd fd = {.fd = hf_sentinel_fd(sentinel), .events = POLLIN};
    hf_status status = HF_OK;
    if (poll(&fd, 1, (int)ms) < 1)
        return HF_OK;
    if (sentinel->events == NULL)
        return HF_ECONNECT; /* nothing was asked: the sentinel has hung up */
    do {
        redisReply *reply;
        int64_t now = hf_now();
        status = hf_connection_exchange(sentinel->events, now, hf_after(now, READ_MS), &reply);
        freeReplyObject(reply);
    } while (status == HF_OK && hf_connection_unasked(sentinel->events));
    return status;
}

#include "net/joint.h"

#include <poll.h>
#include <stdio.h>

#include "base/sleep.h"

/* The reader may be stopped, as by a slow signal handler: after so long another call reads too. */
#define TRUST_MS 50
#define READERS_MAX 4

/* A call that waits for its answer, on its thread's stack. */
typedef struct call {
    hf_item place;
    size_t before; /* so many answers, for calls that have gone, come before its own */
    pthread_cond_t woken;
    bool over;
    redisReply *reply; /* NULL: the connection has failed */
} call;

void hf_joint_begin(hf_connection *connection) {
    hf_joint *joint = &connection->joint;
    *joint = (hf_joint){.on = true};
    pthread_mutex_init(&joint->mutex, NULL);
    connection->deadline = HF_NO_DEADLINE; /* each call has its own */
    connection->received = 0;
    connection->driven = true;
}

hf_status hf_joint_end(hf_connection *connection) {
    pthread_mutex_destroy(&connection->joint.mutex);
    connection->joint.on = false;
    connection->driven = false;
    return connection->joint.status;
}

/* ------------------------------------------------ All with the mutex held */

static call *first_of(const hf_joint *joint) {
    return joint->calls.first != NULL ? HF_OF(call, place, joint->calls.first) : NULL;
}

static void end(call *which, redisReply *reply) {
    hf_list_remove(&which->place);
    which->over = true;
    which->reply = reply;
    pthread_cond_signal(&which->woken);
}

/* The connection is of no use any more, for the reason that this thread's message says. */
static void fail(hf_joint *joint, hf_status status) {
    joint->status = status;
    snprintf(joint->why, sizeof joint->why, "%s", hf_error_message());
    while (joint->calls.first != NULL)
        end(first_of(joint), NULL);
}

static hf_status hand_out(hf_connection *connection) {
    hf_joint *joint = &connection->joint;
    for (;;) {
        redisReply *reply;
        hf_status status = hf_connection_next(connection, &reply);
        if (status != HF_OK || reply == NULL)
            return status;
        call *to = first_of(joint);
        size_t *before = to != NULL ? &to->before : &joint->behind;
        if (*before == 0 && to != NULL) {
            end(to, reply);
            continue;
        }
        freeReplyObject(reply);
        if (*before == 0)
            return hf_fail(HF_EPROTOCOL, "the server sent an answer to no request");
        --*before;
    }
}

/* Wait for answers without the mutex, and hand them out. */
static void read_some(hf_connection *connection, int64_t ms) {
    hf_joint *joint = &connection->joint;
    struct pollfd wanted = {.fd = hf_connection_fd(connection),
                            .events = hf_connection_events(connection)};
    joint->readers++;
    pthread_mutex_unlock(&joint->mutex);
    poll(&wanted, 1, ms < INT32_MAX ? (int)ms : INT32_MAX);
    pthread_mutex_lock(&joint->mutex);
    joint->readers--;
    if (joint->status != HF_OK)
        return;
    hf_status status = hf_connection_drive(connection);
    if (status == HF_OK)
        status = hand_out(connection);
    if (status != HF_OK)
        fail(joint, status);
}

static void join(hf_connection *connection, call *mine, const hf_request *request, bool whole,
                 int64_t now) {
    hf_joint *joint = &connection->joint;
    if (joint->status != HF_OK) {
        mine->over = true;
        return;
    }
    mine->before = joint->behind;
    joint->behind = 0;
    hf_list_add_last(&joint->calls, &mine->place);
    connection->used_at = now;
    hf_status status = hf_connection_append(connection, request, whole, false)
                           ? hf_connection_send(connection)
                           : hf_fail(HF_ENOMEM, "no memory");
    if (status != HF_OK)
        fail(joint, status);
}

/* Go while the answer may still come, and must not be taken for another's. */
static void leave(hf_joint *joint, call *mine) {
    hf_item *next = mine->place.next;
    *(next != NULL ? &HF_OF(call, place, next)->before : &joint->behind) += mine->before + 1;
    hf_list_remove(&mine->place);
}

hf_status hf_joint_exchange(hf_connection *connection, const hf_request *request, bool whole,
                            int64_t now, int64_t deadline, redisReply **reply_out) {
    hf_joint *joint = &connection->joint;
    call mine = {.over = false};
    hf_status status = HF_OK;
    int64_t ms;
    int cancelable;
    unsigned most = 1; /* as many may read, this call too */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    hf_sleep_init(&mine.woken);
    pthread_mutex_lock(&joint->mutex);
    join(connection, &mine, request, whole, now);
    while (!mine.over && (ms = hf_until(deadline, hf_now())) > 0)
        if (joint->readers < most) {
            read_some(connection, ms);
        } else {
            hf_sleep(&mine.woken, &joint->mutex, ms < TRUST_MS ? ms : TRUST_MS);
            most = READERS_MAX;
        }
    if (!mine.over) {
        leave(joint, &mine);
        status = hf_fail(HF_ECONNECT, "no answer in time");
    } else if (mine.reply == NULL) {
        status = hf_fail(joint->status, "%s", joint->why);
    }
    if (joint->readers == 0 && joint->calls.first != NULL)
        pthread_cond_signal(&first_of(joint)->woken); /* which reads on */
    pthread_mutex_unlock(&joint->mutex);
    pthread_cond_destroy(&mine.woken);
    pthread_setcancelstate(cancelable, NULL);
    *reply_out = mine.reply;
    return status;
}

#include "net/joint.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/simulated.h"

/* A slow signal handler, for example, may stop the reader: after this time without activity another
 * call reads. */
#define TRUST_MS 50
#define ALIVE_MS (TRUST_MS / 2)
/* How often the sender sends while the others keep adding. */
#define SENDS_MAX 16
/* How many answers are handed out at once. */
#define BATCH 32
/* The longest time that a WAIT blocks the connection for others. */
#define WAIT_MS 100

/* A call that waits for its answer, on its thread's stack. */
typedef struct call {
    hf_item place;
    size_t before;     /* the number of answers before its own, for calls that have left */
    int state;         /* other calls change it with the mutex held, and then wake the call */
    redisReply *reply; /* NULL: the connection has failed */
} call;

/* The states of a call. TOLD: another call has made it the reader. */
enum { WAITS, TOLD, OVER };

void hf_joint_begin(hf_connection *connection) {
    hf_joint *joint = &connection->joint;
    *joint = (hf_joint){.on = true};
    pthread_mutex_init(&joint->mutex, NULL);
    hf_sleep_init(&joint->counted);
    hf_bytes_init(&joint->leaving);
    hf_connection_set_driven(connection); /* each call has a deadline of its own */
}

hf_status hf_joint_end(hf_connection *connection) {
    hf_joint *joint = &connection->joint;
    pthread_mutex_destroy(&joint->mutex);
    pthread_cond_destroy(&joint->counted);
    hf_bytes_free(&joint->leaving);
    joint->on = connection->driven = false;
    return joint->status;
}

/* ------------------------------------------------ All with the mutex held */

static call *first_of(const hf_joint *joint) {
    return joint->calls.first != NULL ? HF_OF(call, place, joint->calls.first) : NULL;
}

/* End a call, and return the word to wake. A call that does not sleep returns at once, and its
 * memory is then gone. */
static int *end_call(call *which, redisReply *reply) {
    hf_list_remove(&which->place);
    which->reply = reply;
    __atomic_store_n(&which->state, OVER, __ATOMIC_RELEASE);
    return &which->state;
}

/* End all calls: the connection has failed, for the reason in this thread's message. */
static void fail(hf_joint *joint, hf_status status) {
    if (joint->status != HF_OK)
        return;
    joint->status = status;
    snprintf(joint->why, sizeof joint->why, "%s", hf_error_message());
    while (joint->calls.first != NULL)
        hf_wake(end_call(first_of(joint), NULL));
    joint->reader = NULL;
}

/* Release the mutex around a system call; but not over TLS, because only one thread at a time may
 * use OpenSSL's session. */
static void let_go(hf_connection *connection) {
    if (connection->tls == NULL)
        pthread_mutex_unlock(&connection->joint.mutex);
}

static void take_back(hf_connection *connection) {
    if (connection->tls == NULL)
        pthread_mutex_lock(&connection->joint.mutex);
}

/* Send what the calls have added. While one call sends, the others only add, and it sends their
 * bytes too; the last time with the mutex, so that they cannot keep it sending forever. The rest is
 * sent when the reader finds that the socket takes more. */
static void send_all(hf_connection *connection) {
    hf_joint *joint = &connection->joint;
    hf_bytes *added = &connection->output, *leaving = &joint->leaving;
    if (joint->sending)
        return;
    joint->sending = true;
    for (int sends = 1; joint->status == HF_OK && added->length + leaving->length > 0; sends++) {
        bool last = sends >= SENDS_MAX;
        hf_bytes_add(leaving, added->data, added->length);
        added->length = 0;
        if (!last)
            let_go(connection);
        ssize_t count = hf_connection_send(connection, leaving->data, leaving->length);
        int error = errno;
        if (!last)
            take_back(connection);
        if (leaving->failed)
            fail(joint, hf_fail(HF_ENOMEM, "no memory"));
        else if (count > 0)
            memmove(leaving->data, leaving->data + count, leaving->length -= (size_t)count);
        else if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK))
            break;
        else if (count == 0 || error != EINTR)
            fail(joint, hf_fail(HF_ECONNECT, "%s", hf_connection_error(connection, error)));
    }
    joint->sending = false;
}

/* Hand out the next answers. Returns how many calls got one, and the words to wake. */
static size_t hand_out(hf_joint *joint, redisReply **replies, size_t count, int **woken) {
    size_t given = 0;
    for (size_t i = 0; i < count; i++) {
        call *to = first_of(joint);
        size_t *before = to != NULL ? &to->before : &joint->behind;
        if (*before == 0 && to != NULL) {
            woken[given++] = end_call(to, replies[i]);
            continue;
        }
        freeReplyObject(replies[i]);
        if (*before > 0)
            --*before;
        else
            fail(joint, hf_fail(HF_EPROTOCOL, "the server sent an answer to no request"));
    }
    return given;
}

/* Receive answers and hand them out, mostly without the mutex. */
static void take_answers(hf_connection *connection, const call *mine) {
    hf_joint *joint = &connection->joint;
    redisReply *replies[BATCH];
    int *woken[BATCH];
    size_t count;
    joint->reading = true;
    let_go(connection);
    hf_status status = hf_connection_receive(connection);
    if (connection->tls != NULL)
        pthread_mutex_unlock(&joint->mutex);
    do {
        for (count = 0; status == HF_OK && count < BATCH; count++) {
            status = hf_connection_next(connection, &replies[count]);
            if (status != HF_OK || replies[count] == NULL)
                break;
        }
        pthread_mutex_lock(&joint->mutex);
        size_t given = hand_out(joint, replies, count, woken);
        if (status != HF_OK)
            fail(joint, status);
        joint->reading = count == BATCH;
        pthread_mutex_unlock(&joint->mutex);
        for (size_t i = 0; i < given; i++)
            if (woken[i] != &mine->state)
                hf_wake(woken[i]);
    } while (count == BATCH);
    pthread_mutex_lock(&joint->mutex);
}

/* Wait for answers and take them, unless another call has become the reader meanwhile. */
static void read_some(hf_connection *connection, const call *mine, int64_t ms) {
    hf_joint *joint = &connection->joint;
    bool blocked = !joint->sending && joint->leaving.length > 0 &&
                   (connection->tls == NULL || !hf_tls_starved(connection->tls));
    struct pollfd wanted = {.fd = connection->socket.fd,
                            .events = blocked ? POLLIN | POLLOUT : POLLIN};
    pthread_mutex_unlock(&joint->mutex);
    poll(&wanted, 1, ms < ALIVE_MS ? (int)ms : ALIVE_MS); /* a sender may be blocked meanwhile */
    pthread_mutex_lock(&joint->mutex);
    if (blocked)
        send_all(connection);
    if (joint->reader == &mine->place)
        take_answers(connection, mine);
}

static void join(hf_connection *connection, call *mine, const hf_request *request, int how,
                 int64_t now) {
    hf_joint *joint = &connection->joint;
    if (joint->status != HF_OK) {
        mine->state = OVER;
        return;
    }
    mine->before = joint->behind + (size_t)hf_answers_before(how);
    joint->behind = 0;
    hf_list_add_last(&joint->calls, &mine->place);
    connection->used_at = now;
    if (hf_connection_append(connection, request, how))
        send_all(connection);
    else
        fail(joint, hf_fail(HF_ENOMEM, "no memory"));
}

/* Leave before the answer has arrived, and count it, so that no other call takes it for its own. */
static void leave(hf_joint *joint, call *mine) {
    HF_MARK("H37");
    hf_item *next = mine->place.next;
    *(next != NULL ? &HF_OF(call, place, next)->before : &joint->behind) += mine->before + 1;
    hf_list_remove(&mine->place);
}

/* Return whether this call may read for all. Only one reads: another call that waited in poll(2)
 * would sleep on although its answer has been taken. */
static bool may_read(const hf_joint *joint, const call *mine, int64_t now) {
    return !joint->reading && (joint->reader == NULL || joint->reader == &mine->place ||
                               now - joint->alive_at >= TRUST_MS * HF_MS);
}

static void begin_to_read(hf_joint *joint, call *which, int64_t now) {
    joint->reader = &which->place;
    joint->alive_at = now;
}

/* Hand the reading on to the first call, if this one leaves and no other reads. Return the word to
 * wake; or NULL. */
static int *pass_on(hf_joint *joint, const call *mine, int64_t now) {
    call *first = first_of(joint);
    if (joint->reader == &mine->place)
        joint->reader = NULL;
    if (joint->reader != NULL || first == NULL)
        return NULL;
    begin_to_read(joint, first, now);
    __atomic_store_n(&first->state, TOLD, __ATOMIC_RELEASE);
    return &first->state;
}

/* ----------------------------------------------------------------- Calls */

static bool sleep_over(call *mine, int64_t ms) {
    hf_sleep_while(&mine->state, WAITS, ms < TRUST_MS ? ms : TRUST_MS);
    return __atomic_load_n(&mine->state, __ATOMIC_ACQUIRE) == OVER;
}

/* Look once more when the time of a call is up: its thread may have stood still while the answer
 * arrived. True: the call has ended, and this thread has released the mutex. */
static bool look_again(hf_connection *connection, call *mine, int64_t now) {
    hf_joint *joint = &connection->joint;
    HF_MARK("H179");
    if (joint->reading) { /* another call may have the answer, and hand it out */
        mine->state = WAITS;
        pthread_mutex_unlock(&joint->mutex);
        if (sleep_over(mine, ALIVE_MS))
            return true;
        pthread_mutex_lock(&joint->mutex);
    }
    if (mine->state != OVER && !joint->reading) {
        begin_to_read(joint, mine, now);
        take_answers(connection, mine);
    }
    return false;
}

/* Wait for the answer. Most calls do not need the mutex again after they have slept. True: the call
 * has ended, without the mutex. */
static bool wait_for_answer(hf_connection *connection, call *mine, int64_t now, int64_t deadline) {
    hf_joint *joint = &connection->joint;
    int64_t ms;
    for (; mine->state != OVER && (ms = hf_until(deadline, now)) > 0; now = hf_now()) {
        if (may_read(joint, mine, now)) {
            begin_to_read(joint, mine, now);
            read_some(connection, mine, ms);
            continue;
        }
        mine->state = WAITS; /* if it was meant to read, another call reads now */
        pthread_mutex_unlock(&joint->mutex);
        if (sleep_over(mine, ms))
            return true;
        pthread_mutex_lock(&joint->mutex);
    }
    if (mine->state != OVER && look_again(connection, mine, now))
        return true;
    bool over = mine->state == OVER;
    if (!over)
        leave(joint, mine);
    int *next = pass_on(joint, mine, now);
    pthread_mutex_unlock(&joint->mutex);
    if (next != NULL)
        hf_wake(next);
    return over;
}

static hf_status exchange(hf_connection *connection, const hf_request *request, int how,
                          int64_t now, int64_t deadline, redisReply **reply_out) {
    hf_joint *joint = &connection->joint;
    call mine = {.state = WAITS};
    hf_status status = HF_OK;
    join(connection, &mine, request, how, now);
    if (!wait_for_answer(connection, &mine, now, deadline))
        status = hf_fail(HF_ECONNECT, "no answer in time");
    else if (mine.reply == NULL)
        status = hf_fail(joint->status, "%s", joint->why);
    *reply_out = mine.reply;
    return status;
}

hf_status hf_joint_exchange(hf_connection *connection, const hf_request *request, int how,
                            int64_t now, int64_t deadline, redisReply **reply_out) {
    pthread_mutex_lock(&connection->joint.mutex);
    return exchange(connection, request, how, now, deadline, reply_out);
}

/* Send one WAIT for all calls that have written so far, with the mutex held. *refused: this
 * thread's message has the reason. */
static hf_status wait_for_replicas(hf_connection *connection, int replicas, int64_t ms,
                                   int64_t deadline, bool *refused) {
    hf_joint *joint = &connection->joint;
    char command[96], count[16], time[24];
    redisReply *reply;
    size_t covers = joint->written;
    snprintf(count, sizeof count, "%d", replicas);
    snprintf(time, sizeof time, "%lld", (long long)(ms < 1 ? 1 : ms < WAIT_MS ? ms : WAIT_MS));
    snprintf(command, sizeof command, "*3\r\n$4\r\nWAIT\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
             strlen(count), count, strlen(time), time);
    hf_request request = {.command = command};
    joint->counting = true;
    hf_status status = exchange(connection, &request, 0, hf_now(), deadline, &reply);
    pthread_mutex_lock(&joint->mutex);
    joint->counting = false;
    pthread_cond_broadcast(&joint->counted);
    if (status != HF_OK)
        return status;
    *refused = reply->type != REDIS_REPLY_INTEGER;
    if (reply->type == REDIS_REPLY_ERROR)
        hf_explain("%s answered: %.200s", connection->shown, reply->str);
    if (!*refused) {
        joint->replicas = reply->integer;
        joint->covered = covers;
    }
    freeReplyObject(reply);
    return HF_OK;
}

hf_status hf_joint_count(hf_connection *connection, int replicas, int64_t ms, int64_t deadline,
                         int64_t *count_out) {
    hf_joint *joint = &connection->joint;
    hf_status status = HF_OK;
    int64_t now = hf_now(), until = hf_after(now, ms);
    pthread_mutex_lock(&joint->mutex);
    size_t mine = ++joint->written;
    *count_out = 0;
    bool refused = false;
    for (; status == HF_OK && !refused; now = hf_now()) {
        bool covered = joint->covered >= mine;
        *count_out = covered ? joint->replicas : 0;
        if (covered && (joint->replicas >= replicas || now >= until))
            break;
        if (now >= deadline || joint->status != HF_OK)
            status = hf_fail(HF_ECONNECT, "no answer in time");
        else if (joint->counting)
            hf_sleep(&joint->counted, &joint->mutex, hf_until(deadline, now));
        else
            status =
                wait_for_replicas(connection, replicas, hf_until(until, now), deadline, &refused);
    }
    pthread_mutex_unlock(&joint->mutex);
    if (refused)
        *count_out = -1;
    return status;
}

#include "lock/reading.h"

#include <errno.h>
#include <poll.h>

#include "base/brake.h"
#include "lock/thread.h"

/* How long it takes to notice a signal that arrived just before a wait began to sleep. */
#define SIGNAL_MS 50
/* A waiting thread looks at its state this often, though no other thread wakes it. */
#define UNWOKEN_MS 3000
/* For how long no thread reads before the client's own thread does. */
#define UNREAD_MS 500

void hf_op_notify_locked(hf_op *op) {
    if (op->bell == NULL || op == hf_op_client(op)->reading)
        return;
    op->rung = true;
    hf_client_tell_locked(hf_op_client(op), op->bell->event.to);
}

/* --------------------------------------------------- Reading subscriptions */

static void watch_again(hf_timer *timer, int64_t now) {
    /* The client's thread is awake now, and finds that no thread reads. */
    (void)timer, (void)now;
}

/* Choose another thread as the reader: a thread that would notice, since others are in the middle
 * of a request. The best is the next in the queue: the next grant is mostly its own, and then no
 * second thread need be woken. */
static hf_op *next_reader(const hf_op *op) {
    const hf_item *first = op->queue->ops.first;
    if (first != NULL && HF_OP_AT(first) != op && HF_OP_AT(first)->polling &&
        HF_OP_AT(first)->link == op->link)
        return HF_OP_AT(first);
    HF_EACH(at, &op->link->threads)
    if (HF_SEATED(at) != op && HF_SEATED(at)->polling)
        return HF_SEATED(at);
    return NULL;
}

void hf_op_hand_over_locked(hf_op *op) {
    hf_client *client = hf_op_client(op);
    hf_link *link = op->link;
    if (link == NULL || link->reader != &op->seat)
        return;
    hf_op *next = next_reader(op);
    link->reader = next != NULL ? &next->seat : NULL;
    bool alone = link->threads.count == (op->seat.list == &link->threads ? 1 : 0);
    if (next != NULL) {
        hf_op_notify_locked(next);
    } else if (link->others > 0 || !alone) {
        hf_thread_wake_locked(client);
    } else if (link->unread.place == 0) {
        /* Mostly the next waiter follows at once: do not wake the client's thread for it. */
        link->unread.fire = watch_again;
        hf_thread_timer_locked(client, &link->unread, hf_after(hf_now(), UNREAD_MS));
    }
}

/* ------------------------------------------------------ A waiting thread */

/* Make this thread the reader, if there is no reader. */
static void take_reading(hf_op *op) {
    hf_link *link = op->link;
    if (link->reader != NULL)
        return;
    link->reader = &op->seat;
    if (!link->watching)
        return;
    link->watching = false;
    hf_thread_wake_locked(hf_op_client(op)); /* two threads that poll one socket would wake in
                                              * vain */
}

/* Let the language run its handlers. They may take time: meanwhile another thread reads. */
static hf_status run_handlers(hf_op *op, bool *listens) {
    hf_client *client = hf_op_client(op);
    hf_op_hand_over_locked(op);
    hf_client_unlock(client);
    hf_status status = hf_client_listen(client, listens);
    hf_client_lock(client);
    if (status == HF_EFORKED) { /* everything that it waits with belongs to its parent */
        op->done = true;
        op->status = status;
        op->ballot = NULL;
        op->bell = NULL;
    }
    return status;
}

/* Sleep, without the mutex, until an event, and handle signals. */
static hf_status sleep_on(hf_op *op, const hf_connection *heard, int64_t ms, bool interruptible,
                          bool *listens, bool *readable) {
    struct pollfd fds[3] = {{.fd = op->bell->event.fd, .events = POLLIN},
                            {.fd = heard != NULL ? heard->socket.fd : -1, .events = POLLIN},
                            {.fd = hf_brake_fd(), .events = POLLIN}};
    op->polling = true;
    hf_client_unlock(hf_op_client(op));
    int ready = poll(fds, fds[2].fd < 0 ? 2 : 3, (int)ms);
    bool interrupted = ready < 0 && errno == EINTR;
    if (ready > 0 && fds[0].revents != 0)
        hf_event_clear(op->bell->event.fd);
    hf_client_lock(hf_op_client(op));
    op->polling = false;
    op->rung = op->rung && !(ready > 0 && fds[0].revents != 0);
    *readable = ready > 0 && fds[1].revents != 0;
    if (interrupted && interruptible)
        return hf_fail(HF_EINTR, "a signal ended the wait");
    return ready <= 0 && *listens ? run_handlers(op, listens) : HF_OK;
}

/* Read the messages that have arrived, as the reader of this link. */
static void read_channels(hf_op *op, hf_link *link) {
    hf_client *client = hf_op_client(op);
    client->reading = op;
    if (hf_link_listen(&client->links, link) != HF_OK)
        hf_link_deaf(&client->links, link);
    client->reading = NULL;
}

/* Return how long the thread may sleep; 0: its time is up. The thread that has to wake it may stand
 * still, and poll(2) does not count the time while the machine is suspended. */
static int64_t sleep_ms(int64_t until, bool listens) {
    return hf_earlier(hf_until(until, hf_now()), listens ? SIGNAL_MS : UNWOKEN_MS);
}

static bool waits_on(const hf_op *op, hf_wait wait) {
    return !(wait == HF_UNTIL_CHANNEL && hf_channel_works(op->queue->channel)) &&
           !(wait == HF_UNTIL_NO_PLACE && op->score == 0);
}

static hf_status wait_for_events(hf_op *op, hf_wait wait, bool interruptible) {
    hf_client *client = hf_op_client(op);
    bool listens = client->interrupt != NULL; /* for signals that arrived before the poll */
    while (!op->done && !hf_brake_is_pulled() && waits_on(op, wait)) {
        if (client->swept)
            return hf_client_explain_closed();
        int64_t ms = sleep_ms(wait == HF_UNTIL_DONE ? HF_NO_DEADLINE : op->until, listens);
        if (ms == 0)
            return HF_ETIMEOUT;
        take_reading(op);
        const hf_connection *heard = op->link->reader == &op->seat && op->link->subscribed > 0
                                         ? op->link->subscription
                                         : NULL;
        bool readable;
        hf_status status = sleep_on(op, heard, ms, interruptible, &listens, &readable);
        if (wait != HF_UNTIL_DONE)
            op->until = hf_later(op->until, hf_now()); /* the process may have stood still */
        if (status != HF_OK)
            return status;
        hf_link *link = op->link; /* NULL: the op is done, and another thread reads */
        if (readable && link != NULL && heard == link->subscription)
            read_channels(op, link);
    }
    return HF_OK;
}

hf_status hf_op_wait_locked(hf_op *op, hf_wait wait, bool interruptible) {
    hf_status status = wait_for_events(op, wait, interruptible);
    if (!op->done)
        hf_op_hand_over_locked(op);
    return status;
}

hf_status hf_op_sleep_locked(hf_op *op, bool interruptible, bool *listens) {
    bool readable;
    return sleep_on(op, NULL, *listens ? SIGNAL_MS : -1, interruptible, listens, &readable);
}

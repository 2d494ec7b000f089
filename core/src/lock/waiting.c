#include "lock/waiting.h"

#include <string.h>

#include "base/simulated.h"
#include "lock/outcome.h"
#include "lock/reading.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "protocol/errors.h"

/* No waiter goes longer than this without asking again: otherwise a lost message, or a lock that
 * never expires, would leave it hanging. */
#define RECHECK_MS 3000
/* A waiter with a short lease asks again after that lease, but not sooner than this. */
#define RECHECK_MIN_MS 100
#define RECHECK_OPS 50
/* Where no grants arrive, the lock is asked for again after a pause in these bounds. */
#define POLL_MIN_MS 8
#define POLL_MAX_MS 24

/* A grant waits for the answer that it overtook for two round trips and this. */
#define EARLY_MS 50
/* A place is given up only if it ends at least this much earlier there than here. */
#define STEP_MS 1000

#define QUEUE_AT(at) HF_OF(hf_queue, user, at)

/* ----------------------------------------------------------------- Grants */

/* Deliver a grant. If it arrives too late, and is over already, or is from a server that is no
 * longer the master, the op goes back to its place under a new id. */
static void deliver(hf_op *op, int64_t fence, int64_t began_at, int64_t deadline, bool pushed) {
    if (op->canceled) { /* its release is under way, and may be refused */
        op->hold->stray = true;
        return;
    }
    if (hf_op_take_locked(op, fence, began_at, deadline, pushed))
        return;
    op->epoch = 0;
    if (op->busy) /* the answer that it waits for has the time left */
        return;
    hf_discovery_look(hf_op_client(op)->transport->discovery);
    op->missed = true;
    if (op->tries) {
        hf_status status = hf_fail(HF_EBUSY,
                                   "the lease of lock %s ended before the answer came, or was "
                                   "granted to another meanwhile",
                                   hf_names_quoted(op->hold->names));
        if (hf_now() >= deadline)
            hf_explain_cause(HF_CAUSE_EXPIRED); /* this shows no other owner */
        hf_op_fail_locked(op, status);
        return;
    }
    if (hf_op_renew_id_locked(op) != HF_OK || op->queue == NULL)
        return;
    hf_queue_ask_by_locked(op->queue, hf_after(hf_now(), hf_jitter(POLL_MIN_MS, POLL_MAX_MS)));
    hf_op_notify_locked(op);
}

/* Return whether a grant has overtaken the answer to an enqueue. If it were taken at once, its hold
 * would have a copy under way, and its release would bury the id, which slows the lock down for ten
 * minutes. */
static bool comes_early(const hf_op *op) {
    return op->asking > op->joining && op->hold->out == (unsigned)op->asking && !op->canceled;
}

static void deliver_early(hf_op *op) {
    int64_t fence = op->early.fence;
    op->early.fence = 0;
    deliver(op, fence, op->early.began_at, op->early.deadline, true);
}

/* -------------------------------------------------------------- Re-checks */

/* Return the pause before the next re-check of a lock: its holder's TTL, spread by rank, within
 * bounds. If the op's lease is short, that lease is the bound: a holder that was granted the lock
 * since, and died, has mostly asked for a similar lease. */
static int64_t pause_after(const hf_op *op, int64_t ttl_ms, const hf_standing *mine) {
    int64_t lease_ms = op->hold->validity.lease_ms;
    if (ttl_ms == HF_TTL_MORE || HF_UNUSUAL("asks again at once"))
        return 0;
    if (mine->state == HF_STANDS_BUSY || (mine->state == HF_STANDS_FOREIGN && mine->rank == 0) ||
        !hf_channel_works(op->queue->channel)) {
        /* No grant will arrive: poll. */
        int64_t ms = hf_jitter(POLL_MIN_MS, POLL_MAX_MS);
        return ttl_ms >= 0 && ttl_ms < ms ? ttl_ms + 1 : ms;
    }
    int64_t longest = lease_ms == HF_NEVER
                          ? RECHECK_MS
                          : hf_later(RECHECK_MIN_MS, hf_earlier(lease_ms, RECHECK_MS));
    int64_t ms = ttl_ms < 0 || ttl_ms > longest ? longest : ttl_ms + 1;
    ms += hf_jitter(0, 2 * (mine->rank < 200 ? mine->rank : 200) + 2);
    return ms < longest ? ms : longest - hf_jitter(0, longest / 8);
}

/* Plan the next re-check of a waiter, or the next poll. */
static void wait_on(hf_op *op, const hf_look *look, const hf_standing *mine) {
    bool again = op->epoch != op->queue->channel->epoch;
    hf_queue_ask_by_locked(op->queue,
                           again ? 0 : hf_after(hf_now(), pause_after(op, look->ttl_ms, mine)));
}

/* Give up a useless place. A waiting thread then asks for itself, or polls. */
static void leave_place(hf_op *op) {
    if (hf_op_renew_id_locked(op) != HF_OK)
        return;
    op->score = 0;
    hf_op_notify_locked(op);
}

/* Return whether the op's place has ended by the server's clock, which has stepped forward, but not
 * by ours: each release would skip it. */
static bool is_outlived(const hf_op *op, const hf_look *look) {
    return op->timeout_ms > 0 && !op->busy && !op->canceled && op->score > 0 &&
           (look->server_us - op->score) / 1000 - op->hold->terms.ahead_ms > op->timeout_ms &&
           op->until > hf_after(hf_now(), STEP_MS);
}

/* Have the lock's other waiters ask again: the op was in the queue, and no message arrived. Either
 * the lock ended by itself, or its place or the message of a result was lost, perhaps with those of
 * others. Done once for all ops that asked together. */
static void others_ask(const hf_op *op) {
    if (op->score > 0 && op->epoch == op->queue->channel->epoch)
        hf_queue_recheck_locked(hf_op_client(op), op->hold->names);
}

/* End the op with the outcome of its call. */
static void take_outcome(hf_op *op, const hf_standing *mine) {
    if (hf_once_take(op->hold, mine)) {
        HF_MARK("H28");
        hf_op_finish_locked(op, HF_EDONE);
    } else {
        hf_op_fail_locked(op, hf_fail(HF_ENOMEM, "no memory"));
    }
}

/* Return whether the op has asked for as long as a call may last. */
static bool is_late(const hf_op *op) {
    int64_t patience_ms = hf_op_client(op)->transport->connect_ms;
    return hf_now() >= hf_after(op->until == HF_NO_DEADLINE ? op->since : op->until, patience_ms);
}

/* Take the stored limit: the op's number differs from the stored number, with which it must ask at
 * once, under a new id if the server may know more of the old id than it answered. False: the op
 * asks no more. */
static bool take_limit(hf_op *op, const hf_standing *mine) {
    if (op->canceled || op->busy)
        return false;
    hf_status status = hf_hold_learn_locked(op->hold, mine);
    if (status == HF_OK && op->tries && is_late(op))
        status =
            hf_fail(HF_EBUSY, "the limit of lock %s changes", hf_names_quoted(op->hold->names));
    if (status == HF_OK && (op->score > 0 || op->hold->out > 0))
        status = hf_op_renew_id_locked(op);
    if (status != HF_OK)
        hf_op_fail_locked(op, status);
    else
        hf_hold_follow_locked(op->hold);
    return status == HF_OK;
}

static void try_again(hf_op *op) {
    if (!hf_op_try_locked(op, true))
        hf_op_fail_locked(op, hf_fail(HF_ENOMEM, "no memory"));
}

/* Forget a dead id: none of its copies is granted the lock any more. */
static void lose_id(hf_op *op) {
    op->hold->out = (unsigned)op->asking;
    if (op->canceled) /* its own release has buried the id, and ends it */
        return;
    if (op->tries)
        hf_op_finish_locked(op, HF_EBUSY);
    else if (!op->busy && hf_op_renew_id_locked(op) == HF_OK)
        hf_queue_recheck_locked(hf_op_client(op), op->hold->names);
}

/* Explain that the owner holds the lock shared, and asks for it exclusively. */
static hf_status explain_deadlock(const hf_hold *hold) {
    HF_MARK("H19");
    bool heavier = hold->terms.mode == HF_MODE_SHARED;
    return hf_fail(
        HF_EDEADLOCK,
        "lock %s is held shared by the owner that asks for %s: two that did so would wait "
        "for each other; release the %s hold first",
        hf_names_quoted(hold->names), heavier ? "a heavier hold of it" : "it exclusively",
        heavier ? "lighter" : "shared");
}

/* Return whether the client is taking back another acquire of the lock, which may have it: then its
 * release is mostly ahead of the op's next request. */
static bool takes_back_another(const hf_op *op) {
    if (op->queue == NULL)
        return false;
    HF_EACH(at, &op->queue->ops)
    if (HF_OP_AT(at) != op && HF_OP_AT(at)->canceled)
        return true;
    return false;
}

void hf_op_answer_locked(hf_op *op, hf_link *from, const hf_look *look, const hf_standing *mine,
                         int64_t sent_at) {
    hf_client *client = hf_op_client(op);
    hf_hold *hold = op->hold;
    bool busy = mine->state == HF_STANDS_BUSY || mine->state == HF_STANDS_FOREIGN;
    hf_look at_once = {.server_us = look->server_us, .ttl_ms = HF_TTL_MORE};
    bool again = mine->state == HF_STANDS_BUSY && op->tries && op->ttl_ms != HF_TTL_MORE &&
                 takes_back_another(op); /* once */
    if (mine->state == HF_STANDS_LIMITED || again)
        look = &at_once;
    op->answered = true;
    op->ttl_ms = look->ttl_ms;
    if (from != NULL && look->server_us > 0)
        hf_link_pair(from, sent_at, look->server_us);
    /* The cause of its lost place has cost other places, too. */
    if (mine->was_out && op->queue != NULL && hf_channel_works(op->queue->channel)) {
        HF_MARK("H2"); /* if the channel does not work, all ask when it does */
        hf_queue_recheck_locked(client, hold->names);
    }
    if (busy && look->ttl_ms == HF_TTL_NONE && hold->terms.heal_ms > 0)
        hf_heal_locked(client, hold);
    switch (mine->state) {
    case HF_STANDS_HELD:
        others_ask(op);
        hold->company = mine->company;
        /* With less time than was asked for, it is a grant whose message has not arrived yet. */
        deliver(op, mine->fence, sent_at,
                hf_validity_deadline(&hold->validity, sent_at, mine->remaining_ms),
                op->queue != NULL && mine->remaining_ms != hold->validity.lease_ms);
        return;
    case HF_STANDS_DEAD:
        lose_id(op);
        return;
    case HF_STANDS_OUTCOME:
        others_ask(op);
        take_outcome(op, mine);
        return;
    case HF_STANDS_REFUSED:
        hf_op_fail_locked(op, explain_deadlock(hold));
        return;
    case HF_STANDS_LIMITED:
        if (!take_limit(op, mine) || op->queue == NULL)
            return;
        if (op->tries) { /* here, because its id may be a new one now */
            try_again(op);
            return;
        }
        break;
    case HF_STANDS_BUSY:
        /* With more gone waiters to skip the lock may be free: the op asks again at once. */
        if (op->queue == NULL || op->tries) {
            if (op->tries && (look->ttl_ms != HF_TTL_MORE || is_late(op)))
                hf_op_finish_locked(op, HF_EBUSY);
            return;
        }
        break;
    default:
        if (op->queue == NULL) {
            hold->stray = true;
            hf_op_fail_locked(op, hf_unexpected("acquire"));
            return;
        }
        op->score = mine->score;
    }
    if (is_outlived(op, look)) {
        HF_MARK("C16");
        leave_place(op);
    }
    wait_on(op, look, mine); /* at once, if it left its place */
}

/* Return whether grants could arrive on the channel, although none do now. */
static bool is_deaf(const hf_channel *channel) {
    return channel->link->mode != HF_POLLING && !hf_channel_works(channel);
}

/* Return whether the queue may ask for the op. If grants arrive, a thread sends its own first
 * request. */
static bool may_ask(const hf_op *op) {
    return !op->canceled && !op->busy && !op->tries &&
           (op->delegated || op->score > 0 || !hf_channel_works(op->queue->channel));
}

static bool is_stale(const hf_op *op) {
    return op->epoch != op->queue->channel->epoch && may_ask(op);
}

typedef struct recheck_task {
    hf_task task;
    bool aside; /* not the queue's own request */
    bool wait;  /* the ops must get a place in the queue */
    hf_way way;
    size_t count;
    char ids[][HF_ID_LENGTH + 1];
} recheck_task;

/* Return one of the ops. NULL: it has ended. */
static hf_op *find_op(const recheck_task *mine, size_t at) {
    return hf_op_find_locked(hf_task_client(&mine->task), mine->ids[at]);
}

/* Return whether the op would be refused each time, for the reason in this thread's message: a
 * permission, or a record of another type. */
static bool is_refused(const hf_op *op, hf_status status) {
    const char *message = hf_error_message();
    return status == HF_ESERVER &&
           (hf_error_permission(message) ||
            (op->hold->once != NULL && strstr(message, "WRONGTYPE") != NULL));
}

/* Take a request without an answer, for the reason in this thread's message: the op asks again, or
 * its caller learns why it cannot. */
static void recheck_failed(hf_op *op, hf_status status) {
    bool never = op->score == 0; /* it never got a place */
    if (op->canceled || op->busy || !(never || is_refused(op, status))) {
        op->epoch = 0;
        return;
    }
    op->hold->stray = op->hold->stray || status == HF_EPROTOCOL;
    hf_op_fail_locked(op, status);
}

/* Plan the queue's next request, if no answer has. */
static void plan_queue(hf_queue *queue, hf_status status) {
    HF_EACH(at, &queue->ops)
    if (is_stale(HF_OP_AT(at))) {
        int64_t ms = status != HF_OK        ? hf_jitter(100, 200)
                     : HF_OP_AT(at)->missed ? hf_jitter(POLL_MIN_MS, POLL_MAX_MS)
                                            : 0;
        hf_thread_timer_locked(queue->client, &queue->timer, hf_after(hf_now(), ms));
        return;
    }
    if (queue->timer.place != 0)
        return;
    /* The op that asked is done; where no grants arrive, the next op asks soon. */
    int64_t ms =
        hf_channel_works(queue->channel) ? RECHECK_MS : hf_jitter(POLL_MIN_MS, POLL_MAX_MS);
    hf_thread_timer_locked(queue->client, &queue->timer, hf_after(hf_now(), ms));
}

/* Return the op's part of the request. */
static hf_ask ask_of(const hf_op *op, bool wait) {
    hf_ask ask = hf_op_ask(op);
    if (!wait)
        ask.channel = NULL;
    return ask;
}

static hf_answer_kind read_standings(const recheck_task *mine, const redisReply *reply,
                                     hf_look *look, hf_standing *standings) {
    const hf_op *op = find_op(mine, 0);
    if (mine->way != HF_BY_ACQUIRE)
        return op != NULL ? hf_way_reply(mine->way, op->hold, mine->wait || op->hold->out > 0,
                                         reply, look, standings)
                          : HF_ANSWER_ASK; /* it has ended */
    return hf_reply_acquire(reply, look, standings, mine->count) ? HF_ANSWER_GOOD
                                                                 : HF_ANSWER_NONSENSE;
}

/* Send the general request after a cheaper one that did nothing. False: no op is left to ask
 * for. */
static bool ask_in_general(recheck_task *mine) {
    hf_op *op = find_op(mine, 0);
    if (op == NULL || op->canceled || op->queue == NULL)
        return false;
    hf_ask ask = ask_of(op, mine->wait);
    hf_request_free(&mine->task.request);
    mine->way = HF_BY_ACQUIRE;
    hf_way_request(&mine->task.request, mine->way, op->hold, &ask, 1);
    hf_op_sent_locked(op);
    mine->task.again = true;
    return true;
}

/* Note the end of a request for all its ops. A copy without an answer may still arrive, and its
 * answer may have reported places that are gone. */
static void hear_all(const recheck_task *mine) {
    bool doubtful = mine->task.course.doubtful;
    for (size_t i = 0; i < mine->count; i++) {
        hf_op *op = find_op(mine, i);
        if (op != NULL)
            hf_op_heard_locked(op, doubtful);
    }
    if (!doubtful)
        return;
    HF_MARK("H25");
    hf_queue_recheck_locked(hf_task_client(&mine->task), mine->task.names);
}

/* Return whether all its ops have ended. If the request were sent after that, it could be granted a
 * lock that no caller wants, should the server have lost the dead id. */
static bool recheck_over(const hf_task *task) {
    const recheck_task *mine = HF_OF(const recheck_task, task, task);
    for (size_t i = 0; i < mine->count; i++)
        if (find_op(mine, i) != NULL)
            return false;
    return true;
}

/* Take the answer for one of the ops; standing: NULL if there is no answer. */
static void hear(const recheck_task *mine, size_t at, hf_status status, const hf_look *look,
                 const hf_standing *standing) {
    hf_op *op = find_op(mine, at);
    if (op == NULL) {
        if (standing != NULL && standing->state == HF_STANDS_HELD)
            hf_undo_grant_locked(hf_task_client(&mine->task), mine->ids[at], standing->fence);
        return;
    }
    if (standing != NULL)
        hf_op_answer_locked(op, mine->task.link, look, standing, mine->task.sent_at);
    else if (status != HF_OK && op->early.fence == 0)
        recheck_failed(op, status);
    op = find_op(mine, at);
    if (op != NULL && op->early.fence != 0 && (status != HF_OK || !comes_early(op)))
        deliver_early(op);
    op = find_op(mine, at);
    if (op != NULL && op->tries && op->asking == 0 && !op->busy)
        try_again(op);
}

static void rechecked(hf_task *task, hf_status status, const redisReply *reply) {
    recheck_task *mine = HF_OF(recheck_task, task, task);
    hf_client *client = hf_task_client(task);
    hf_standing standings[RECHECK_OPS];
    hf_look look;
    hf_answer_kind kind = HF_ANSWER_NONSENSE;
    hear_all(mine);
    if (status == HF_OK)
        kind = read_standings(mine, reply, &look, standings);
    if ((kind == HF_ANSWER_ASK || kind == HF_ANSWER_LIMIT) && ask_in_general(mine))
        return;
    if (status == HF_OK && kind == HF_ANSWER_NONSENSE)
        status = hf_unexpected("acquire");
    hf_queue *queue = hf_queue_find_locked(client, task->names);
    if (queue != NULL && !mine->aside)
        queue->asking = false;
    hf_error error = *hf_error_last();
    for (size_t i = 0; i < mine->count; i++) {
        if (status != HF_OK)
            hf_error_set(&error); /* another op may have set its own */
        hear(mine, i, status, &look, kind == HF_ANSWER_GOOD ? &standings[i] : NULL);
    }
    queue = hf_queue_find_locked(client, task->names);
    if (queue != NULL && queue->ops.first == NULL)
        hf_queue_drop_locked(queue);
    else if (queue != NULL)
        plan_queue(queue, status);
}

/* Return when the request gives up. An op without a place asks until its time is up; the others ask
 * again soon. An op that only tries has its own time only. */
static int64_t give_up_at(hf_op *const *ops, size_t count) {
    if (ops[0]->tries)
        return hf_op_deadline(ops[0]);
    int64_t latest =
        hf_after(hf_client_patience(hf_op_client(ops[0])), ops[0]->score > 0 ? RECHECK_MS : 0);
    for (size_t i = 0; i < count; i++)
        if (ops[i]->score == 0)
            latest = hf_later(latest, hf_op_deadline(ops[i]));
    return latest;
}

/* Send a request for the ops. False: no memory. */
static bool recheck(hf_queue *queue, hf_op *const *ops, size_t count, bool wait, bool aside) {
    hf_client *client = queue->client;
    recheck_task *mine;
    hf_ask asks[RECHECK_OPS];
    hf_task *task =
        hf_task_new(sizeof *mine + count * sizeof *mine->ids, queue->names, rechecked, NULL);
    if (task == NULL)
        return false;
    mine = HF_OF(recheck_task, task, task);
    task->explains = true;
    task->over = recheck_over;
    mine->aside = aside;
    mine->wait = wait;
    mine->count = count;
    for (size_t i = 0; i < count; i++) {
        task->patient = task->patient || ops[i]->until == HF_NO_DEADLINE;
        memcpy(mine->ids[i], ops[i]->hold->id, sizeof *mine->ids);
        asks[i] = ask_of(ops[i], wait);
        ops[i]->missed = false;
        if (!aside) /* a try asks for no place, and keeps its turn to ask for one */
            ops[i]->epoch = queue->channel->epoch;
        hf_op_sent_locked(ops[i]);
    }
    mine->way = count == 1 ? hf_waiting_way_locked(ops[0]->hold, asks) : HF_BY_ACQUIRE;
    hf_way_request(&task->request, mine->way, ops[0]->hold, asks, count);
    hf_task_submit(&client->links, task, give_up_at(ops, count));
    return true;
}

bool hf_op_try_locked(hf_op *op, bool only) {
    op->tries = only;
    return recheck(op->queue, &op, 1, false, true);
}

/* Choose the ops that have not asked under this subscription, up to RECHECK_OPS; if all have, the
 * oldest, which stands for the rest. */
static size_t choose_askers(const hf_queue *queue, hf_op **ops) {
    size_t count = 0;
    HF_EACH(at, &queue->ops)
    if (count < RECHECK_OPS && is_stale(HF_OP_AT(at)))
        ops[count++] = HF_OP_AT(at);
    if (count > 0)
        return count;
    HF_EACH(at, &queue->ops) {
        if (!may_ask(HF_OP_AT(at)))
            continue;
        HF_MARK("H1");
        ops[0] = HF_OP_AT(at);
        return 1;
    }
    return 0;
}

/* Deliver the grants that have waited long enough for an answer, whose connection may be dead.
 * False: the queue is gone, because it has no waiter left. */
static bool deliver_overdue(hf_queue *queue, int64_t now) {
    bool asking = queue->asking;
    queue->asking = true; /* so that the queue stays until the end of this function */
    HF_EACH(at, &queue->ops) {
        hf_op *op = HF_OP_AT(at);
        if (op->early.fence == 0)
            continue;
        if (now >= op->early.until && op->early.late) {
            deliver_early(op);
            continue;
        }
        if (now >= op->early.until) { /* the answer may have just arrived: read it first */
            op->early.late = true;
            op->early.until = hf_after(now, 1);
        }
        hf_queue_ask_by_locked(queue, op->early.until);
    }
    queue->asking = asking;
    if (queue->ops.first != NULL || asking)
        return true;
    hf_queue_drop_locked(queue);
    return false;
}

void hf_waiting_ask(hf_timer *timer, int64_t now) {
    hf_queue *queue = HF_OF(hf_queue, timer, timer);
    hf_op *ops[RECHECK_OPS];
    if (!deliver_overdue(queue, now))
        return;
    bool polling = queue->channel->link->mode == HF_POLLING, deaf = is_deaf(queue->channel);
    if (queue->asking)
        return;
    if (deaf && now < hf_channel_patience(queue->channel)) { /* it asks when the channel works */
        hf_queue_ask_by_locked(queue, hf_channel_patience(queue->channel));
        return;
    }
    if (deaf)
        HF_MARK("H43");
    HF_EACH(at, &queue->ops) /* where no grants arrive, each place would be skipped */
    if (polling && HF_OP_AT(at)->score > 0 && may_ask(HF_OP_AT(at)))
        leave_place(HF_OP_AT(at));
    if (polling)
        HF_MARK("H42");
    size_t count = choose_askers(queue, ops);
    if (count == 0)
        return;
    queue->asking = recheck(queue, ops, count, !polling, false);
    if (!queue->asking)
        hf_thread_timer_locked(queue->client, timer, hf_after(now, RECHECK_MS));
}

void hf_op_want_grants_locked(hf_op *op) {
    hf_channel *channel = op->queue->channel;
    hf_channel_want(&hf_op_client(op)->links, channel);
    if (is_deaf(channel))
        hf_queue_ask_by_locked(op->queue, hf_channel_patience(channel));
    else if (!hf_channel_works(channel))
        hf_queue_ask_by_locked(op->queue, hf_after(hf_now(), hf_jitter(POLL_MIN_MS, POLL_MAX_MS)));
}

/* --------------------------------------------------- News of the links */

static void wake(hf_links *links) { hf_thread_wake_locked(HF_OF(hf_client, links, links)); }

static void granted(hf_links *links, hf_link *link, const hf_grant *grant) {
    hf_op *op = hf_op_find_locked(HF_OF(hf_client, links, links), grant->id);
    if (op == NULL) {
        hf_undo_grant_locked(HF_OF(hf_client, links, links), grant->id, grant->fence);
        return;
    }
    int64_t start = hf_now(), gap_us = grant->server_us - link->pair_server;
    int64_t age_us = (start - link->pair_sent) / 1000 - gap_us;
    int64_t drift = gap_us < 0 ? -gap_us : gap_us; /* 1/1000 of the gap, in ns */
    int64_t ms = hf_granted_ms(op->hold->validity.lease_ms);
    if (link->pair_sent == 0 || age_us < -drift / 1000 || age_us > ms * 1000) {
        /* Its age is not known, or it is over; or the server's clock has stepped: ask. */
        op->epoch = 0;
        hf_thread_timer_locked(hf_op_client(op), &op->queue->timer, 0);
        return;
    }
    /* The grant was not requested just now, and may have been in a buffer for long: it began when
     * it was received, or earlier, by the server's own clock since one of our requests was sent;
     * the earlier of the two counts. */
    if (age_us > 0) {
        HF_MARK("C4");
        start -= age_us * 1000;
    }
    op->early.fence = grant->fence;
    op->early.began_at = start;
    op->early.deadline = hf_deadline(start, ms) - drift;
    op->early.late = false;
    if (op->score == 0)
        HF_MARK("H4");
    if (!comes_early(op)) {
        deliver_early(op);
        return;
    }
    HF_MARK("H36");
    int64_t now = hf_now(), left_ms = hf_until(op->early.deadline, now) / 2;
    ms = 2 * link->trip_ms + EARLY_MS;
    op->early.until = hf_after(now, hf_earlier(ms, left_ms));
    hf_queue_ask_by_locked(op->queue, op->early.until);
}

/* Let all waiters of the lock ask for the result: they have left the queue together with that
 * id. */
static void finished(hf_links *links, const char *id) {
    hf_client *client = HF_OF(hf_client, links, links);
    const hf_op *op = hf_op_find_locked(client, id);
    if (op != NULL)
        hf_queue_recheck_locked(client, op->hold->names);
    else /* the op no longer waits, and its lock is not known */
        hf_queue_recheck_all_locked(client);
}

static void changed(hf_links *links, hf_channel *channel) {
    hf_client *client = HF_OF(hf_client, links, links);
    HF_EACH(at, &channel->users) {
        hf_thread_timer_locked(client, &QUEUE_AT(at)->timer, 0);
        HF_EACH(op, &QUEUE_AT(at)->ops)
        hf_op_notify_locked(HF_OP_AT(op));
    }
}

/* End the ops that were never answered: they do not wait for a server forever. The queue asks for
 * the others, also where no subscription can be made. */
static void silent(hf_links *links, hf_channel *channel, int64_t now, bool hopeless) {
    int64_t patience_ms = links->transport->connect_ms;
    HF_EACH(at, &channel->users)
    HF_EACH(place, &QUEUE_AT(at)->ops) {
        hf_op *op = HF_OP_AT(place);
        bool has_time = op->until != HF_NO_DEADLINE || now < hf_after(op->since, patience_ms);
        if (op->score > 0 || op->asking > 0 || op->answered || (has_time && !hopeless))
            continue;
        hf_op_fail_locked(op, hf_link_explain(links, op->link));
    }
}

static void deaf(hf_links *links, hf_link *link) {
    (void)links;
    HF_EACH(at, &link->threads)
    hf_op_notify_locked(HF_SEATED(at));
}

static void moved(hf_links *links, hf_channel *channel, hf_link *from) {
    HF_EACH(at, &channel->users) {
        hf_thread_timer_locked(HF_OF(hf_client, links, links), &QUEUE_AT(at)->timer, 0);
        HF_EACH(place, &QUEUE_AT(at)->ops)
        if (HF_OP_AT(place)->link == from)
            hf_op_move_locked(HF_OP_AT(place), channel->link);
    }
}

const hf_listener hf_waiting_listener = {.wake = wake,
                                         .granted = granted,
                                         .finished = finished,
                                         .changed = changed,
                                         .silent = silent,
                                         .deaf = deaf,
                                         .moved = moved};

void hf_waiting_notify_locked(hf_client *client) {
    HF_EACH(at, &client->links.all)
    deaf(&client->links, HF_OF(hf_link, item, at));
}

void hf_waiting_close_locked(hf_client *client, hf_list *tasks) {
    hf_op *op = hf_op_each_locked(client, NULL);
    for (hf_op *next; op != NULL; op = next) {
        next = hf_op_each_locked(client, op);
        hf_ask ask = hf_op_ask(op);
        /* Without memory the place stays, and is skipped, because no thread listens. */
        hf_task *task = hf_task_new(sizeof *task, NULL, NULL, NULL);
        if (task != NULL) {
            hf_request_release(&task->request, op->hold->names, &ask, op->hold->fence,
                               op->hold->out > 0);
            hf_list_add_last(tasks, &task->item);
        } else if (op->started && op->hold->out > 0) {
            hf_undo_later_locked(op->hold); /* it is released with the holds */
        }
        if (op->started)
            hf_op_finish_locked(op, HF_ECANCELED);
    }
}

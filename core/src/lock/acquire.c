/* Acquire: try, wait in the queue or poll, on the calling thread or without one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/brake.h"
#include "base/simulated.h"
#include "lock/acquire.h"
#include "lock/lock.h"
#include "lock/outcome.h"
#include "lock/quorum.h"
#include "lock/reading.h"
#include "lock/renewal.h"
#include "lock/replicas.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "lock/waiting.h"

/* The pause before another try, after a grant that arrived too late. */
#define MISSED_MIN_MS 8
#define MISSED_MAX_MS 24

/* ----------------------------------------------------------------- Options */

static hf_status check_acquire(const hf_lock *lock, int64_t timeout_ms, int64_t *replica_ms,
                               const hf_acquire_options *options) {
    if (timeout_ms < HF_FOREVER)
        return hf_fail(HF_EINVAL, "a timeout of %lld ms: it takes 0 or more, or no end",
                       (long long)timeout_ms);
    hf_status status = hf_lock_check_lease(lock, options);
    if (status != HF_OK)
        return status;
    if ((options->flags &
         ~(HF_ACQUIRE_KEEP | HF_ACQUIRE_INTERRUPTIBLE | HF_ACQUIRE_HOLDS | HF_ACQUIRE_WHOLE)) != 0)
        return hf_fail(HF_EINVAL, "hf_acquire_options.flags has an unknown bit");
    if (options->reserved != 0)
        return hf_fail(HF_EINVAL, "hf_acquire_options.reserved must be 0");
    if (lock->terms.gate && (options->lease_ms != 0 || options->renew == HF_ON))
        return hf_fail(HF_EINVAL, "a pass of a gate has neither a lease of its own nor renewals");
    status = hf_check_note(options->note, options->note_len);
    if (status != HF_OK)
        return status;
    if (lock->terms.replicas > 0 && options->lease_ms != 0)
        return hf_check_replicas(options->lease_ms, replica_ms);
    return HF_OK;
}

hf_status hf_acquire_prepare(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                             const hf_acquire_options *options, uint32_t *flags,
                             hf_hold **hold_out) {
    hf_acquire_options chosen;
    hf_owner who;
    if (lock == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    int64_t replica_ms = lock->given_replica_ms;
    hf_status status = hf_client_check(lock->client);
    if (status == HF_OK)
        status = hf_options_copy(&chosen, sizeof chosen, options, "hf_acquire_options");
    bool most = status == HF_OK && caller->once && (chosen.flags & HF_ACQUIRE_AT_MOST_ONCE) != 0;
    if (most)
        chosen.flags &= ~HF_ACQUIRE_AT_MOST_ONCE;
    if (status == HF_OK)
        status = check_acquire(lock, timeout_ms, &replica_ms, &chosen);
    if (status == HF_OK)
        status =
            hf_lock_choose_owner(lock, caller->owner, caller->owner_length, caller->thread, &who);
    if (status != HF_OK)
        return status;
    hf_hold *hold = hf_hold_new(lock->client, lock->names, who.holder.bytes, who.holder.length);
    if (hold == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    hf_lock_configure(lock, hold, chosen.lease_ms != 0 ? chosen.lease_ms : lock->terms.lease_ms,
                      chosen.renew != HF_DEFAULT ? chosen.renew == HF_ON : lock->terms.renew);
    if (caller->once && !hf_once_configure(hold, caller->print, most))
        status = hf_fail(HF_ENOMEM, "no memory");
    else if (chosen.note_len > 0)
        status = hf_hold_note(hold, chosen.note, chosen.note_len);
    else
        status = hf_hold_note(hold, lock->owner + lock->owner_length, lock->note_length);
    if (status != HF_OK) {
        hf_hold_drop(hold);
        return status;
    }
    hold->terms.lock_serial = who.holder.lock_serial;
    hold->thread = caller->thread ? hf_thread_serial() : 0;
    if (chosen.lease_ms != 0)
        hold->terms.replica_ms = replica_ms;
    hold->terms.whole = (chosen.flags & HF_ACQUIRE_WHOLE) != 0;
    *flags = chosen.flags;
    *hold_out = hold;
    return HF_OK;
}

/* Fill in an op that is all zeros. holds: its caller has the lock as another owner, so it does not
 * wait. */
static void begin_op(hf_op *op, hf_hold *hold, int64_t timeout_ms, bool holds) {
    op->hold = hold;
    op->holds = holds && timeout_ms != 0;
    op->timeout_ms = op->holds ? 0 : timeout_ms;
    op->tries = op->timeout_ms == 0;
    op->since = hf_now();
    op->until = hf_after(op->since, op->timeout_ms);
}

/* ----------------------------------------------------------------- Results */

static hf_status explain_timeout(const hf_op *op, const char *holder) {
    return hf_fail(HF_ETIMEOUT, "lock %s was held by others for %lld ms%s%s",
                   hf_names_quoted(op->hold->names), (long long)op->timeout_ms,
                   *holder != '\0' ? ", at last by " : "", holder);
}

/* The holder's work has ended, so the message suggests no search for a stuck holder. */
static hf_status explain_kept(const hf_op *op, const char *holder, int64_t left_ms) {
    char rest[60] = "for ever";
    if (left_ms != HF_TTL_NONE)
        snprintf(rest, sizeof rest, "for another %.1f s",
                 left_ms > 0 ? (double)left_ms / 1000 : 0); /* the others may have just ended */
    return hf_fail(HF_ETIMEOUT,
                   "lock %s was held by others for %lld ms, and %s, whose work has ended, keeps it "
                   "%s",
                   hf_names_quoted(op->hold->names), (long long)op->timeout_ms, holder, rest);
}

/* Return the caller's status for an op that ended with `status`. */
static hf_status outcome_of(const hf_op *op, hf_status status) {
    if (status == HF_EBUSY && op->holds)
        return hf_fail(HF_EDEADLOCK, "the caller of lock %s holds it, and would wait for itself",
                       hf_names_quoted(op->hold->names));
    return status == HF_EBUSY && op->delegated && op->timeout_ms != 0 ? HF_ETIMEOUT : status;
}

/* Keep this thread's message as the op's, if no message of its end is kept yet. */
static void explain_outcome(const hf_op *op, hf_status status) {
    if (status == HF_OK || status == HF_EDONE || op->explained)
        return;
    const char *lock = hf_names_quoted(op->hold->names);
    switch (status) {
    case HF_EBUSY:
        hf_fail(status, "lock %s is held by another owner", lock);
        break;
    case HF_ETIMEOUT:
        explain_timeout(op, "");
        break;
    case HF_EINTR:
        hf_fail(status, "a signal ended the wait");
        break;
    case HF_ECANCELED:
        if (op->hold->client->closed)
            hf_client_explain_closed();
        else
            hf_fail(status, "the wait for lock %s was cancelled", lock);
        break;
    default:
        break;
    }
}

/* Put the new hold into the table; or, if the client is just being closed, give it up. A grant by
 * message may be from a server that has lost it since; so may an answer, if it was requested before
 * another hold. The answer to a claim shows whether the hold still stands. */
static hf_status list_won_locked(hf_op *op, bool keep) {
    hf_hold *hold = op->hold;
    hf_status status = hf_table_add_locked(hold->client, hold, keep);
    if (status != HF_OK) {
        op->owed = !hf_undo_acquire_locked(hold, NULL);
        return status;
    }
    if (!hold->pushed)
        hf_hold_shown_locked(hold, hold->client->quorum == NULL ? hold->began_at : INT64_MAX);
    hf_renewal_first_locked(hold);
    return HF_OK;
}

/* ----------------------------------------------------------------- Leaving */

/* Return whether the server may have anything of the op. */
static bool is_there(const hf_op *op) { return op->score > 0 || op->hold->out > 0; }

/* Make the request that takes the op out of the queue. When its time is up this is a cancel, which
 * leaves alone a grant of just before, so that a late copy of the cancel does no harm. */
static void leave_request(hf_request *request, hf_op *op, hf_status why) {
    hf_ask ask = hf_op_ask(op);
    const hf_hold *hold = op->hold;
    if (why == HF_ETIMEOUT)
        hf_request_cancel(request, hold->names, &ask, hold->out > 0);
    else
        hf_request_release(request, hold->names, &ask, hold->fence, hold->out > 0);
    op->canceled = why != HF_ETIMEOUT;
    op->busy = true; /* from now on no other thread asks for it */
}

/* Return whether no request of the op was ever sent: then the server was missing, not the lock. */
static bool is_unsent(const hf_op *op) {
    return !op->answered && op->hold->out == (unsigned)op->asking &&
           hf_link_is_unsent(op->link, op->since);
}

/* Explain that the request which ends the op's wait failed, for the reason in this thread's
 * message. */
static hf_status explain_given_up(const hf_op *op) {
    return hf_fail(HF_EUNKNOWN,
                   "the wait for lock %s was given up, and the server does not know it yet; the "
                   "client goes on telling it in the background: %s",
                   hf_names_quoted(op->hold->names), hf_error_message());
}

/* Explain why the end of a wait has no answer. */
static hf_status explain_unanswered(const hf_op *op, hf_status status) {
    if (is_there(op) && (status == HF_EUNKNOWN || !is_unsent(op)))
        return explain_given_up(op);
    if (status != HF_EUNKNOWN)
        return status;
    return hf_fail(HF_ECONNECT, "the wait for lock %s ended while the server was away: %s",
                   hf_names_quoted(op->hold->names), hf_error_message());
}

/* Ask under a new id, in the time left. */
static void ask_once_more(hf_op *op) {
    op->delegated = true;
    hf_status status = hf_op_renew_id_locked(op);
    if (status == HF_OK && !hf_op_try_locked(op, true))
        status = hf_fail(HF_ENOMEM, "no memory");
    if (status != HF_OK)
        hf_op_fail_locked(op, status);
}

/* Take the answer to a cancel. The op ends, because it was granted just before or others have the
 * lock; or it asks once more, because no Holdfast owner has the lock. */
static void cancel_answered_locked(hf_op *op, const redisReply *reply, hf_link *link,
                                   int64_t sent_at) {
    char holder[HF_QUOTED_MAX];
    hf_standing mine;
    hf_look look;
    size_t length;
    bool kept;
    if (!hf_reply_acquire(reply, &look, &mine, 1)) {
        hf_unexpected("acquire");
        hf_op_fail_locked(op, explain_given_up(op));
        return;
    }
    if (link != NULL)
        hf_link_pair(link, sent_at, look.server_us);
    if (mine.state == HF_STANDS_HELD) {
        if (hf_op_take_locked(op, mine.fence, sent_at,
                              hf_validity_deadline(&op->hold->validity, sent_at, mine.remaining_ms),
                              true))
            return;
        HF_MARK("H17"); /* too little time is left to report it */
        op->score = 0;  /* the grant has taken its place: the op only tries */
    } else {
        hf_op_left_locked(op);
    }
    const char *owner = hf_reply_holder(reply, &length, &kept);
    if (owner == NULL) {
        HF_MARK("H196");
        ask_once_more(op);
        return;
    }
    hf_owner_quote(owner, length, holder, sizeof holder);
    hf_op_fail_locked(op,
                      kept ? explain_kept(op, holder, look.ttl_ms) : explain_timeout(op, holder));
}

/* End the op after the request of leave_request(), with or without an answer. */
static void leave_answered_locked(hf_op *op, hf_status why, hf_status status,
                                  const redisReply *reply, hf_link *link, int64_t sent_at) {
    op->busy = false;
    if (op->done) /* a grant was faster */
        return;
    if (status != HF_OK && why == HF_ECANCELED) {
        hf_op_finish_locked(op, why);
    } else if (status != HF_OK) {
        hf_op_fail_locked(op, explain_unanswered(op, status));
    } else if (why == HF_ETIMEOUT) {
        cancel_answered_locked(op, reply, link, sent_at);
    } else {
        hf_op_left_locked(op);
        hf_op_finish_locked(op, why);
    }
}

/* End the op without a request, if the server has nothing of it. False: the server must be asked;
 * after a timeout also to learn who holds the lock. */
static bool end_here(hf_op *op, hf_status why) {
    if (is_there(op) || (why == HF_ETIMEOUT && op->answered))
        return false;
    if (why == HF_ETIMEOUT)
        hf_op_fail_locked(op, hf_link_explain(&hf_op_client(op)->links, op->link));
    else
        hf_op_finish_locked(op, why);
    return true;
}

/* ----------------------------------------------------------- By the keeper */

/* Put the op into its queue, where the keeper asks for it, after a pause if it may wait. Where no
 * grants arrive yet the lock may well be free, if no other op of this client waits for it. False:
 * no memory. */
static bool enter_locked(hf_op *op, int64_t pause_ms) {
    if (!hf_op_enter_locked(op))
        return false;
    bool may_be_free = op->queue->ops.count == 1 && !op->answered && pause_ms == 0 &&
                       !hf_grants_come(&hf_op_client(op)->links, op->hold->names);
    if ((op->tries || may_be_free) && !hf_op_try_locked(op, op->tries))
        return false;
    if (op->tries)
        return true;
    hf_op_want_grants_locked(op);
    hf_queue_ask_by_locked(op->queue, pause_ms > 0 ? hf_after(hf_now(), pause_ms) : 0);
    return true;
}

/* The keeper takes an op out of the queue. */
typedef struct leave_task {
    hf_task task;
    hf_status why;
    char id[HF_ID_LENGTH + 1];
} leave_task;

static void leave_told(hf_task *task, hf_status status, const redisReply *reply) {
    leave_task *mine = HF_OF(leave_task, task, task);
    hf_client *client = hf_task_client(task);
    hf_op *op = hf_op_find_locked(client, mine->id);
    if (status == HF_OK && mine->why != HF_ETIMEOUT && hf_reply_release(reply) == HF_RELEASE_MORE)
        hf_kick_locked(client, task->names);
    if (op == NULL || (op->canceled && mine->why == HF_ETIMEOUT))
        return; /* the grant, or a cancel, was faster */
    leave_answered_locked(op, mine->why, status, reply, task->link, task->sent_at);
}

/* Return the deadline of an acquire that only cleans up: if a signal ends the wait, a silent server
 * does not make it last until its timeout. */
static int64_t deadline_of_end(const hf_op *op) {
    return hf_earlier(hf_op_deadline(op), hf_client_patience(hf_op_client(op)));
}

/* Have the keeper take the op out of the queue, after its time or a cancel. */
static void leave_by_keeper(hf_op *op, hf_status why) {
    hf_client *client = op->hold->client;
    if (end_here(op, why))
        return;
    hf_task *task = hf_task_new(sizeof(leave_task), op->hold->names, leave_told, NULL);
    if (task == NULL) {
        leave_answered_locked(op, why, hf_fail(HF_ENOMEM, "no memory"), NULL, NULL, 0);
        return;
    }
    leave_task *mine = HF_OF(leave_task, task, task);
    mine->why = why;
    memcpy(mine->id, op->hold->id, sizeof mine->id);
    task->explains = true;
    leave_request(&task->request, op, why);
    hf_task_submit(&client->links, task, deadline_of_end(op));
}

/* End an op whose time is up. An op that has not asked at all yet asks once: only the server's
 * answer shows that others kept the lock. */
static void time_is_up(hf_op *op) {
    bool silent = !op->answered && op->hold->out == 0;
    if (!silent)
        leave_by_keeper(op, HF_ETIMEOUT);
    else if (!hf_op_try_locked(op, true))
        hf_op_fail_locked(op, hf_fail(HF_ENOMEM, "no memory"));
}

static void op_due(hf_timer *timer, int64_t now) {
    hf_op *op = HF_OF(hf_op, timer, timer);
    op->until = hf_later(op->until, now); /* the process may have stood still */
    if (!op->canceled)
        time_is_up(op);
}

/* ------------------------------------------------------------ On a thread */

/* One acquire, from its start: every step ends by its deadline, and what is left is undone in the
 * background. */
typedef struct acquiring {
    hf_client *client;
    hf_op op;
    hf_error why;
    bool interruptible;
    hf_brake *brake; /* another thread may end it at any time; or NULL */
} acquiring;

/* The result of a request. */
typedef struct question {
    hf_answer answer; /* the caller frees the reply */
    hf_look look;
    hf_standing mine;
} question;

/* Send the cheapest request, and the general one if that did nothing; stop if a message is
 * faster. */
static hf_status ask_server_locked(acquiring *call, question *asked) {
    hf_client *client = call->client;
    hf_op *op = &call->op;
    hf_hold *hold = op->hold;
    hf_answer_kind kind = HF_ANSWER_ASK;
    hf_ask ask = hf_op_ask(op);
    hf_way way = hf_waiting_way_locked(hold, &ask);
    while ((kind == HF_ANSWER_ASK || kind == HF_ANSWER_LIMIT) && !op->done) {
        hf_request request;
        hf_way_request(&request, way, hold, &ask, 1);
        if (op->queue == NULL) { /* WAIT follows in the same write */
            request.replicas = hold->terms.replicas;
            request.replica_ms = hold->terms.replica_ms;
        }
        freeReplyObject(asked->answer.reply);
        hf_op_sent_locked(op);
        hf_client_unlock(client);
        hf_status status =
            hf_transport_call(client->transport, &request, hf_op_deadline(op), &asked->answer);
        hf_request_free(&request);
        hf_client_lock(client);
        hf_op_heard_locked(op, asked->answer.doubtful);
        if (asked->answer.doubtful) /* the lost answer may have reported places that are gone */
            hf_queue_recheck_locked(client, hold->names);
        if (status != HF_OK)
            return status;
        /* Without WAIT, an answer that is read so late was there while the process stood still. */
        if (hold->terms.replicas == 0 && hf_now() >= hf_op_deadline(op))
            op->until = hf_now();
        kind = hf_way_reply(way, hold, op->queue != NULL || hold->out > 0, asked->answer.reply,
                            &asked->look, &asked->mine);
        way = HF_BY_ACQUIRE;
    }
    hold->stray = hold->stray || kind == HF_ANSWER_NONSENSE;
    return kind == HF_ANSWER_NONSENSE ? hf_unexpected("acquire") : HF_OK;
}

/* Ask the server; also for a place in the queue, if the op is in a queue here. */
static hf_status ask_locked(acquiring *call) {
    hf_client *client = call->client;
    hf_op *op = &call->op;
    question asked;
    asked.answer.reply = NULL;
    op->epoch = op->queue != NULL ? op->queue->channel->epoch : 0;
    op->busy = op->joining = true;
    hf_status status = ask_server_locked(call, &asked);
    op->busy = op->joining = false;
    if (op->queue != NULL &&
        hf_discovery_change(client->transport->discovery) != client->links.change)
        hf_thread_wake_locked(client); /* slots have moved, and channels with them */
    bool queued = op->queue != NULL;
    if (op->done)
        status = HF_OK; /* a grant was faster */
    else if (status == HF_OK)
        hf_op_answer_locked(op, queued ? hf_link_find(&client->links, asked.answer.node) : NULL,
                            &asked.look, &asked.mine, asked.answer.sent_at);
    /* WAIT on this connection did not count what an earlier copy wrote on another. */
    if (!queued)
        op->hold->reached = op->hold->out > 0 ? -1 : asked.answer.replicas;
    freeReplyObject(asked.answer.reply);
    return status;
}

/* Take the op out of the queue, after its time or a signal. */
static void leave_by_thread_locked(acquiring *call, hf_status why) {
    hf_client *client = call->client;
    hf_op *op = &call->op;
    hf_request request;
    hf_answer answer;
    if (end_here(op, why))
        return;
    leave_request(&request, op, why);
    hf_client_unlock(client);
    hf_status status = hf_transport_call(client->transport, &request, deadline_of_end(op), &answer);
    hf_request_free(&request);
    hf_client_lock(client);
    if (status == HF_OK && why != HF_ETIMEOUT && hf_reply_release(answer.reply) == HF_RELEASE_MORE)
        hf_kick_locked(client, op->hold->names);
    leave_answered_locked(op, why, status, answer.reply,
                          status == HF_OK ? hf_link_find(&client->links, answer.node) : NULL,
                          answer.sent_at);
    freeReplyObject(answer.reply);
}

static hf_status queue_locked(acquiring *call) {
    hf_op *op = &call->op;
    hf_status status = hf_thread_start_locked(call->client);
    if (status == HF_OK && op->queue == NULL && !hf_op_enter_locked(op))
        status = hf_fail(HF_ENOMEM, "no memory or file descriptor to wait with");
    if (status != HF_OK)
        return status;
    hf_op_want_grants_locked(op);
    status = hf_op_wait_locked(op, HF_UNTIL_CHANNEL, call->interruptible);
    if (status == HF_OK && !op->done)
        status = ask_locked(call);
    if (status == HF_OK && !op->done && op->score > 0)
        status = hf_op_wait_locked(op, HF_UNTIL_NO_PLACE, call->interruptible);
    if (op->done || (status != HF_ETIMEOUT && status != HF_EINTR))
        return status;
    leave_by_thread_locked(call, status);
    return HF_OK;
}

/* Pause after a grant that arrived too late: the new master may not be known yet. */
static hf_status pause_locked(acquiring *call) {
    int64_t ms =
        hf_earlier(hf_jitter(MISSED_MIN_MS, MISSED_MAX_MS), hf_until(call->op.until, hf_now()));
    call->op.missed = false;
    hf_client_unlock(call->client);
    hf_status status = hf_client_sleep(call->client, ms, call->interruptible);
    hf_client_lock(call->client);
    return status;
}

/* Leave the requests to the keeper, which no server can stop, and wait for their result: so a brake
 * ends the acquire at any time, and the end of the op undoes the requests under way. */
static hf_status delegate_locked(acquiring *call) {
    hf_op *op = &call->op;
    op->delegated = true;
    hf_status status = hf_thread_start_locked(call->client);
    if (status == HF_OK && op->queue == NULL && !enter_locked(op, 0))
        status = hf_fail(HF_ENOMEM, "no memory or file descriptor to wait with");
    if (status == HF_OK)
        status = hf_op_wait_locked(op, op->tries || op->busy ? HF_UNTIL_DONE : HF_UNTIL_TIMEOUT,
                                   call->interruptible);
    if (op->done || (status != HF_ETIMEOUT && status != HF_EINTR))
        return status;
    if (status == HF_ETIMEOUT)
        time_is_up(op);
    else if (!op->busy)
        leave_by_keeper(op, HF_EINTR);
    return HF_OK;
}

static hf_status step_locked(acquiring *call, bool *tried) {
    hf_op *op = &call->op;
    if (hf_brake_is_pulled()) {
        HF_MARK("M16");
        hf_op_finish_locked(op, HF_ECANCELED);
        return HF_OK;
    }
    if (op->missed && hf_now() < op->until)
        return pause_locked(call);
    if (op->missed) { /* the time is up: ask once more */
        op->missed = false;
        op->tries = op->delegated = true;
        hf_op_leave_locked(op); /* the grant has taken its place: the op only tries */
        op->score = 0;
    }
    if (op->delegated || (*tried && call->brake != NULL))
        return delegate_locked(call);
    /* The lock may well be free; only an acquire that has to wait is worth a subscription. */
    if (*tried)
        return queue_locked(call);
    hf_status status = ask_locked(call);
    if (call->brake != NULL && status != HF_OK && hf_now() < hf_op_deadline(op)) {
        op->delegated = true; /* no connection was free at once, or the first attempt failed */
        return HF_OK;
    }
    *tried = !op->tries && !(op->ttl_ms == HF_TTL_MORE && hf_now() < hf_op_deadline(op));
    return status;
}

/* Return whether the grant still stands: the thread may have slept past its end, or another hold
 * may have a greater fence. */
static bool stands_locked(const acquiring *call) {
    const hf_hold *hold = call->op.hold;
    bool slept = call->op.bell != NULL;
    return !slept ||
           (hf_now() < hold->validity.deadline && hf_table_believes_locked(hold, hold->fence));
}

/* Wait again under a new id, or ask once more. */
static hf_status again_locked(acquiring *call) {
    hf_op *op = &call->op;
    op->done = false;
    op->missed = true;
    hf_discovery_look(call->client->transport->discovery);
    if (op->tries)
        return hf_fail(HF_EBUSY, "lock %s was granted to another meanwhile",
                       hf_names_quoted(op->hold->names));
    hf_status status = hf_op_renew_id_locked(op);
    hf_queue_recheck_locked(call->client, op->hold->names);
    return status;
}

static hf_status begin_locked(hf_hold *hold) {
    hf_client *client = hold->client;
    hf_status status = hf_client_check(client);
    if (status == HF_OK && client->quorum != NULL)
        status = hf_quorum_check_lease(client, hold->terms.lease_ms, "a lease");
    if (status == HF_OK)
        status = hf_hold_equip_locked(hold);
    if (status == HF_OK)
        status = hf_table_new_id_locked(client, hold);
    if (status == HF_OK && (hold->terms.renew || client->quorum != NULL))
        status = hf_thread_start_locked(client); /* without a thread it could not be renewed */
    return status;
}

static void run_locked(acquiring *call) {
    hf_op *op = &call->op;
    op->until = hf_later(op->until, hf_now()); /* the mutex was waited for */
    hf_status status = begin_locked(op->hold);
    if (status == HF_OK && call->client->quorum != NULL) {
        call->client->quorum->ways->run(op, call->interruptible);
        return;
    }
    bool tried = !op->tries && hf_grants_come(&call->client->links, op->hold->names);
    for (;;) {
        if (status == HF_OK && !op->done)
            status = step_locked(call, &tried);
        if (status == HF_EINTR && op->done && op->status == HF_OK)
            op->done = false; /* the caller must learn of the signal: the grant is given back */
        if (status != HF_OK && !op->done)
            hf_op_fail_locked(op, status);
        if (!op->done)
            continue;
        if (op->status != HF_OK || stands_locked(call))
            return;
        status = again_locked(call);
    }
}

/* Finish a successful acquire. After any status but HF_OK the new hold has been released. */
static hf_status keep_won_locked(acquiring *call, bool keep) {
    hf_hold *hold = call->op.hold;
    bool confirms = hf_hold_must_confirm_locked(hold);
    hf_status status = list_won_locked(&call->op, keep && !confirms);
    if (status != HF_OK || !confirms)
        return status;
    status = hf_hold_confirm_locked(hold, deadline_of_end(&call->op), hold->terms.replica_ms);
    hold->kept = keep && hf_hold_is_listed(hold);
    return status;
}

static hf_status acquire(acquiring *call, bool keep) {
    hf_op *op = &call->op;
    op->why = &call->why;
    hf_client_lock(call->client);
    run_locked(call);
    hf_brake_set(NULL); /* a pull must not end what follows */
    hf_op_free_locked(op);
    if (op->explained)
        hf_error_set(&call->why);
    hf_status status = outcome_of(op, op->status);
    explain_outcome(op, status);
    if (status == HF_OK)
        status = keep_won_locked(call, keep);
    if (status == HF_OK)
        hf_hold_count_acquired_locked(op->hold, op->since, hf_now());
    else
        hf_hold_count_refused_locked(op->hold,
                                     status == HF_EDONE ? hf_once_outcome_of(op->hold) : status);
    hf_client_unlock(call->client);
    if (op->owed)
        hf_undo_now(op->hold, NULL, deadline_of_end(op));
    hf_brake_set(call->brake);
    return status;
}

hf_status hf_acquire(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                     const hf_acquire_options *options, hf_hold **hold_out) {
    HF_NOT_CANCELLED;
    hf_hold *hold;
    uint32_t flags;
    if (hold_out != NULL)
        *hold_out = NULL;
    hf_status status = hf_acquire_prepare(lock, caller, timeout_ms, options, &flags, &hold);
    if (status != HF_OK)
        return status;
    acquiring call;
    memset(&call.op, 0, sizeof call.op);
    call.client = lock->client;
    begin_op(&call.op, hold, timeout_ms, (flags & HF_ACQUIRE_HOLDS) != 0);
    call.interruptible = (flags & HF_ACQUIRE_INTERRUPTIBLE) != 0;
    call.brake = hf_brake_mine();
    status = acquire(&call, hold_out == NULL || (flags & HF_ACQUIRE_KEEP) != 0);
    if ((status == HF_OK || status == HF_EDONE) && hold_out != NULL)
        *hold_out = hold;
    else
        hf_hold_drop(hold);
    return status;
}

hf_status hf_lock_acquire_as(hf_lock *lock, const void *owner, size_t owner_len, int64_t timeout_ms,
                             const hf_acquire_options *options, hf_hold **hold_out) {
    hf_caller caller = {.owner = owner, .owner_length = owner_len, .thread = true};
    return hf_acquire(lock, &caller, timeout_ms, options, hold_out);
}

hf_status hf_lock_acquire(hf_lock *lock, int64_t timeout_ms, hf_hold **hold_out) {
    return hf_lock_acquire_as(lock, NULL, 0, timeout_ms, NULL, hold_out);
}

/* --------------------------------------------------------------- Started */

static void tell_acquired(hf_op *op, hf_status status) {
    hf_hold *hold = op->hold;
    bool told = status == HF_OK || status == HF_EDONE;
    if (status == HF_EDONE)
        status = hf_once_status(hold);
    if (status == HF_OK)
        hf_hold_count_acquired_locked(hold, op->since, hf_now());
    else
        hf_hold_count_refused_locked(hold, status);
    hf_ended_locked(hold->client, &op->news, status, told ? hold : NULL);
    if (!told)
        hf_hold_drop(hold);
}

static void started_ended(hf_op *op, hf_status status) {
    hf_hold *hold = op->hold;
    status = outcome_of(op, status);
    bool confirms = status == HF_OK && hf_hold_must_confirm_locked(hold);
    if (status == HF_OK)
        status = list_won_locked(op, op->keeps && !confirms);
    if (status == HF_OK && confirms) {
        hf_op_confirm_locked(op);
        return;
    }
    hf_hold_grab(hold); /* the hold has a reference to the client */
    explain_outcome(op, status);
    op->told(op, status);
    hf_op_free_locked(op);
    hf_hold_drop(hold);
}

static hf_op *new_started(hf_hold *hold, int64_t timeout_ms, const hf_op *with) {
    hf_op *op = calloc(1, sizeof *op);
    if (op == NULL || !hf_timer_reserve(&hold->client->timers)) {
        free(op);
        return NULL;
    }
    begin_op(op, hold, timeout_ms, with->holds);
    op->started = op->delegated = true;
    op->ended = started_ended;
    op->told = with->told;
    op->context = with->context;
    op->keeps = with->keeps;
    op->timer.fire = op_due;
    return op;
}

hf_status hf_acquire_begin_locked(hf_hold *hold, int64_t timeout_ms, int64_t pause_ms,
                                  const hf_op *with, hf_op **op_out) {
    hf_client *client = hold->client;
    hf_status status = begin_locked(hold);
    if (status != HF_OK)
        return status;
    memcpy(hold->id + HF_ID_LENGTH / 2, hold->tag, strlen(hold->tag));
    hf_op *op = new_started(hold, timeout_ms, with);
    bool begun = op != NULL && (client->quorum != NULL ? client->quorum->ways->begin(op, pause_ms)
                                                       : enter_locked(op, pause_ms));
    if (!begun) {
        if (op != NULL) {
            hf_op_leave_locked(op);
            hf_op_free_locked(op);
        }
        return hf_fail(HF_ENOMEM, "no memory");
    }
    op->news = with->news;
    *op_out = op;
    if (op->timeout_ms > 0 && op->ballot == NULL)
        hf_thread_timer_locked(client, &op->timer, op->until);
    return HF_OK;
}

static hf_status start_acquire_locked(hf_hold *hold, int64_t timeout_ms, int64_t number,
                                      uint32_t flags) {
    hf_op with = {.told = tell_acquired,
                  .keeps = (flags & HF_ACQUIRE_KEEP) != 0,
                  .holds = (flags & HF_ACQUIRE_HOLDS) != 0,
                  .news = hf_news_new(&(hf_completion){.kind = HF_KIND_ACQUIRE})};
    if (with.news == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    hf_status status = hf_started_locked(hold->client, number, with.news);
    if (status == HF_OK)
        status = hf_acquire_begin_locked(hold, timeout_ms, 0, &with, &with.news->op);
    if (status != HF_OK)
        hf_news_free(with.news);
    return status;
}

hf_status hf_acquire_vote_locked(hf_hold *hold, const hf_voting *how) {
    hf_client *client = hold->client;
    hf_status status = start_acquire_locked(hold, how->timeout_ms, how->number, 0);
    if (status != HF_OK || how->timeout_ms == 0)
        return status;
    hf_op *op = hf_news_find_locked(client, how->number)->op;
    op->score = how->score;
    op->until = how->until;
    if (how->until != HF_NO_DEADLINE)
        hf_thread_timer_locked(client, &op->timer, how->until);
    return HF_OK;
}

int64_t hf_op_score(hf_client *client, int64_t number) {
    HF_HOLDING_CLIENT(client);
    const hf_news *news = hf_news_find_locked(client, number);
    return news != NULL && news->op != NULL ? news->op->score : 0;
}

hf_status hf_acquire_start(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                           const hf_acquire_options *options, int64_t op_number) {
    hf_hold *hold;
    uint32_t flags;
    if (op_number < 1)
        return hf_fail(HF_EINVAL, "the operation's number must be above 0");
    hf_status status = hf_acquire_prepare(lock, caller, timeout_ms, options, &flags, &hold);
    if (status != HF_OK)
        return status;
    HF_HOLDING_CLIENT(lock->client);
    status = start_acquire_locked(hold, timeout_ms, op_number, flags);
    if (status != HF_OK)
        hf_hold_drop(hold);
    return status;
}

hf_status hf_lock_acquire_start(hf_lock *lock, const void *owner, size_t owner_len,
                                int64_t timeout_ms, const hf_acquire_options *options, int64_t op) {
    hf_caller caller = {.owner = owner, .owner_length = owner_len};
    return hf_acquire_start(lock, &caller, timeout_ms, options, op);
}

hf_status hf_op_cancel(hf_client *client, int64_t op_number) {
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    HF_HOLDING_CLIENT(client);
    const hf_news *news = hf_news_find_locked(client, op_number);
    if (news == NULL || news->completion.kind != HF_KIND_ACQUIRE)
        return hf_fail(HF_ENOTHELD, "no such acquire is under way");
    hf_op *op = news->op;
    if (op == NULL) /* the group is giving back its first locks */
        return HF_OK;
    if (op->ballot != NULL)
        client->quorum->ways->cancel(op);
    else if (op->queue == NULL) /* it is being confirmed, and may be one of a group */
        op->canceled = true;
    else if (!op->canceled)
        leave_by_keeper(op, HF_ECANCELED);
    return HF_OK;
}

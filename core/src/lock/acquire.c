/* Acquire: try, wait in the queue or poll, on the calling thread or without one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/brake.h"
#include "base/simulated.h"
#include "lock/acquire.h"
#include "lock/asking.h"
#include "lock/hold.h"
#include "lock/lock.h"
#include "lock/reading.h"
#include "lock/renewal.h"
#include "lock/replicas.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "lock/waiting.h"

/* Between two tries where no grants come. */
#define POLL_MIN_MS 4
#define POLL_MAX_MS 32
/* What hf_quote() gives, with its NUL. */
#define QUOTED_MAX 200
/* Before another try, after a server answered that is the master no more. */
#define LOST_MIN_MS 8
#define LOST_MAX_MS 24

/* One acquire, from its start: all that it does ends by its deadline, and what is not
 * undone by then is undone in the background. */
typedef struct acquiring {
    hf_lock *lock;
    hf_client *client;
    hf_hold *hold;
    int64_t timeout_ms;
    int64_t began_at, until; /* it waits until then */
    bool interruptible;
    bool uncounted;  /* its caller may go on */
    int64_t ttl_ms;  /* of the lock, when it was busy last */
    int64_t held_at; /* it was seen to be held, about now */
} acquiring;

/* By when a request of it must be answered. */
static int64_t deadline_of(const acquiring *call) {
    int64_t patience_ms = hf_transport_patience_ms(call->client->transport);
    return hf_after(call->until == HF_NO_DEADLINE ? hf_now() : call->until, patience_ms);
}

/* And by when one that only tidies up: a wait that a signal ends does not last until its
 * timeout because the server is silent. */
static int64_t deadline_of_end(const acquiring *call) {
    return hf_earlier(deadline_of(call), hf_client_patience(call->client));
}

/* It may be held. */
static hf_status nonsense(hf_hold *hold) {
    hold->stray = true;
    return hf_unexpected("acquire");
}

/* By whom the lock is held, in quotes, by the answer to a cancel; empty: it does not say. */
typedef struct holder {
    char quoted[QUOTED_MAX];
} holder;

static holder read_holder(const redisReply *reply) {
    size_t length;
    holder found = {""};
    const char *owner = hf_reply_holder(reply, &length);
    if (owner != NULL)
        snprintf(found.quoted, sizeof found.quoted, "%s", hf_quote(owner, length));
    return found;
}

static hf_status explain_timeout(const hf_names *names, int64_t timeout_ms, const holder *now) {
    return hf_fail(HF_ETIMEOUT, "lock %s was held by others for %lld ms%s%s",
                   hf_names_quoted(names), (long long)timeout_ms,
                   *now->quoted != '\0' ? ", at last by " : "", now->quoted);
}

static hf_status explain_done(const hf_names *names) {
    return hf_fail(HF_EDONE, "what lock %s guards has been done, and its result is here",
                   hf_names_quoted(names));
}

/* Nobody knows whether it left the queue, for the reason that this thread's message says. */
static hf_status explain_given_up(const hf_names *names) {
    char why[300];
    snprintf(why, sizeof why, "%s", hf_error_message());
    return hf_fail(HF_EUNKNOWN,
                   "the wait for lock %s was given up, and the server does not know it yet; the "
                   "client goes on telling it in the background: %s",
                   hf_names_quoted(names), why);
}

/* ------------------------------------------------------------------- Try */

/* All that a hold needs that is won by a try. */
static hf_status prepare_try_locked(const acquiring *call) {
    hf_hold *hold = call->hold;
    hf_status status = hf_hold_equip_locked(hold);
    if (status == HF_OK && hold->id[0] == '\0')
        status = hf_table_new_id_locked(call->client, hold);
    if (status == HF_OK && hold->renew)
        status = hf_thread_start_locked(call->client); /* or it could not be renewed */
    hold->floor = hf_table_floor_locked(call->client, hold->names);
    return status;
}

/* The question of one thread, and what came of it. */
typedef struct question {
    bool in_vain;     /* a `wait` did nothing */
    hf_answer answer; /* the reply is the caller's to free */
    hf_look look;
    hf_standing mine;
} question;

/* By the cheapest request, and by the general one if that did nothing. What it finds is for the
 * caller to take, with the mutex that it has again: a message may be faster (op->done). op: it is
 * to have a place in the queue; or NULL. */
static hf_status ask_server_locked(const acquiring *call, const hf_op *op, question *asked) {
    hf_client *client = call->client;
    hf_hold *hold = call->hold;
    hf_answer_kind kind = HF_ANSWER_ASK;
    hf_ask ask = op != NULL ? hf_op_ask(op) : hf_hold_ask(hold);
    hf_way way = hf_waiting_way_locked(hold, &ask);
    *asked = (question){.in_vain = false};
    while (kind == HF_ANSWER_ASK && (op == NULL || !op->done)) {
        hf_request request;
        hf_way_request(&request, way, hold, &ask);
        if (op == NULL) { /* in the same write */
            request.replicas = hold->replicas;
            request.replica_ms = hold->replica_ms;
        }
        freeReplyObject(asked->answer.reply);
        hf_client_unlock(client);
        hf_status status =
            hf_transport_call(client->transport, &request, deadline_of(call), &asked->answer);
        hf_request_free(&request);
        hf_client_lock(client);
        /* A lost answer may have told of places that are gone. */
        if (asked->answer.doubtful && !hold->bury)
            hf_queue_recheck_locked(client, hold->names);
        hold->bury = hold->bury || asked->answer.doubtful;
        if (status != HF_OK)
            return status;
        kind = hf_way_reply(way, hold, op != NULL || hold->bury, asked->answer.reply, &asked->look,
                            &asked->mine);
        asked->in_vain = asked->in_vain || (kind == HF_ANSWER_ASK && way == HF_BY_WAIT);
        way = HF_BY_ACQUIRE;
    }
    return kind == HF_ANSWER_NONSENSE ? nonsense(hold) : HF_OK;
}

/* What the answer to a try says. */
static hf_status tried_locked(acquiring *call, const question *asked) {
    hf_hold *hold = call->hold;
    const hf_standing *mine = &asked->mine;
    call->ttl_ms = asked->look.ttl_ms;
    switch (mine->state) {
    case HF_STANDS_BUSY:
        return HF_EBUSY;
    case HF_STANDS_DEAD:
        hold->bury = false;
        return HF_ELOST;
    case HF_STANDS_RESULT:
        return hf_hold_take_result(hold, mine) ? explain_done(hold->names)
                                               : hf_fail(HF_ENOMEM, "no memory");
    case HF_STANDS_REFUSED:
        return hf_hold_refuse(hold);
    case HF_STANDS_HELD:
        break;
    default:
        return nonsense(hold);
    }
    hf_hold_begin(hold, mine->fence, asked->answer.sent_at,
                  hf_standing_deadline(hold, mine, asked->answer.sent_at));
    /* What an earlier copy wrote, on another connection, was not waited for on this one. */
    hold->reached = hold->bury ? -1 : asked->answer.replicas;
    call->held_at = hf_now();
    return call->held_at < hold->validity.deadline ? HF_OK : HF_ELOST;
}

/* HF_OK, HF_EBUSY, HF_ELOST if the lease ended before the answer was here, or a failure. */
static hf_status try_once_locked(acquiring *call) {
    question asked;
    hf_status status = prepare_try_locked(call);
    if (status != HF_OK)
        return status;
    status = ask_server_locked(call, NULL, &asked);
    if (status == HF_OK)
        status = tried_locked(call, &asked);
    freeReplyObject(asked.answer.reply);
    return status;
}

/* Another library's lock without an end is given one, if the user wants that. */
static void heal(const acquiring *call) {
    hf_request request;
    hf_answer answer;
    hf_request_heal(&request, call->hold->names, call->hold->heal_ms);
    hf_transport_call(call->client->transport, &request, deadline_of(call), &answer);
    freeReplyObject(answer.reply);
    hf_request_free(&request);
}

/* One try. */
static hf_status try_lock_locked(acquiring *call) {
    hf_hold *hold = call->hold;
    hf_status status = hf_client_check(call->client);
    call->ttl_ms = 0;
    do /* again at once if it is free, with more of the dead in its queue to skip */
        if (status == HF_OK || status == HF_EBUSY)
            status = try_once_locked(call);
    while (status == HF_EBUSY && call->ttl_ms == HF_TTL_MORE && hf_now() < deadline_of(call));
    if (status == HF_EBUSY && call->ttl_ms == HF_TTL_NONE && hold->heal_ms > 0) {
        hf_client_unlock(call->client);
        heal(call);
        hf_client_lock(call->client);
    }
    if (status == HF_EBUSY)
        return hf_fail(HF_EBUSY, "lock %s is held by somebody else",
                       hf_names_quoted(call->lock->names));
    if (status != HF_ELOST)
        return status;
    /* The answer was so late that the lease is over. That id is spent. */
    hf_undo_acquire_locked(hold, NULL);
    return hf_fail(HF_EBUSY, "the lease of lock %s ended before the answer came",
                   hf_names_quoted(call->lock->names));
}

/* ------------------------------------------------------------------ Poll */

/* Until the next try, with jitter so that no two keep step. */
static int64_t poll_pause(const acquiring *call, int64_t *pause_ms) {
    *pause_ms = hf_backoff(*pause_ms, POLL_MIN_MS, POLL_MAX_MS);
    int64_t ms = hf_spread(*pause_ms), left_ms = hf_until(call->until, hf_now());
    if (call->ttl_ms >= 0 && ms > call->ttl_ms)
        ms = call->ttl_ms + 1;
    return ms < left_ms ? ms : left_ms;
}

/* Where no grants come in: try until it is held or the time is up. *again: grants do come
 * now. */
static hf_status poll_lock_locked(acquiring *call, bool *again) {
    hf_client *client = call->client;
    for (int64_t pause_ms = 0;;) {
        hf_status status = try_lock_locked(call);
        if (status != HF_EBUSY)
            return status;
        if (hf_now() >= call->until)
            return explain_timeout(call->lock->names, call->timeout_ms, &(holder){""});
        hf_client_unlock(client);
        status = call->ttl_ms == HF_TTL_MORE
                     ? HF_OK
                     : hf_client_sleep(client, poll_pause(call, &pause_ms), call->interruptible);
        hf_client_lock(client);
        if (status != HF_OK)
            return status;
        *again = hf_grants_come(&client->links, call->hold->names);
        if (*again)
            return HF_EBUSY;
    }
}

/* ----------------------------------------------------------------- Queue */

/* Ask for a place in the queue, on this thread. */
static hf_status join_queue_locked(acquiring *call, hf_op *op) {
    hf_client *client = call->client;
    hf_hold *hold = call->hold;
    question asked;
    hold->floor = hf_table_floor_locked(client, hold->names);
    op->epoch = hf_op_epoch(op);
    op->asking++;
    op->busy = op->joining = true;
    hf_status status = ask_server_locked(call, op, &asked);
    op->asking--;
    op->busy = op->joining = false;
    if (hf_transport_change(client->transport) != client->links.change)
        hf_thread_wake_locked(client); /* slots have moved: so do channels */
    if (asked.in_vain)
        hf_waiting_in_vain_locked(client, hold->names);
    if (op->done)
        status = HF_OK; /* a grant was faster */
    else if (status == HF_OK)
        hf_op_answer_locked(op, hf_link_find(&client->links, asked.answer.node), &asked.look,
                            &asked.mine, asked.answer.sent_at);
    freeReplyObject(asked.answer.reply);
    return status;
}

/* What the server said of an op that is leaving: take what it was granted just before. */
static void take_granted_locked(acquiring *call, hf_op *op, const hf_answer *answer,
                                const hf_look *look, const hf_standing *mine) {
    hf_link *link = hf_link_find(&call->client->links, answer->node);
    int64_t deadline = hf_standing_deadline(op->hold, mine, answer->sent_at);
    if (link != NULL)
        hf_link_pair(link, answer->sent_at, look->server_us);
    if (mine->state == HF_STANDS_HELD && !op->done)
        hf_op_take_locked(op, mine->fence, answer->sent_at, deadline,
                          mine->remaining_ms != op->hold->validity.lease_ms);
}

/* Leave the queue, without the lock or, with `keep`, with it if it was granted just
 * before: HF_OK. */
static hf_status leave_queue_locked(acquiring *call, hf_op *op, bool keep, holder *now) {
    hf_client *client = call->client;
    hf_request request;
    hf_answer answer;
    hf_standing mine;
    hf_look look;
    hf_ask ask = hf_op_ask(op);
    bool bury = op->hold->bury || op->asking > 0;
    if (keep)
        hf_request_cancel(&request, op->hold->names, &ask, bury);
    else
        hf_request_release(&request, op->hold->names, &ask, op->hold->fence, bury);
    op->canceled = !keep;
    op->busy = true; /* from now on nobody else asks for it */
    hf_client_unlock(client);
    hf_status status =
        hf_transport_call(client->transport, &request, deadline_of_end(call), &answer);
    hf_request_free(&request);
    bool good = status == HF_OK && keep && hf_reply_cancel(answer.reply, &look, &mine);
    bool more = status == HF_OK && !keep && hf_reply_release(answer.reply) == HF_RELEASE_MORE;
    bool left = keep ? good && mine.state != HF_STANDS_HELD : status == HF_OK;
    if (good)
        *now = read_holder(answer.reply);
    freeReplyObject(answer.reply);
    hf_client_lock(client);
    op->busy = false;
    if (more)
        hf_kick_locked(client, op->hold->names);
    if (good)
        take_granted_locked(call, op, &answer, &look, &mine);
    /* A cancel leaves alone what is held, so that a late copy of it does no harm. */
    if (keep && op->done && op->status == HF_OK)
        return HF_OK;
    if (left)
        hf_op_left_locked(op);
    return status == HF_OK ? HF_ETIMEOUT : HF_EUNKNOWN;
}

/* The wait is over, for want of time or by a signal. HF_OK: it is held after all. */
static hf_status end_wait_locked(acquiring *call, hf_op *op, hf_status status) {
    hf_status left = HF_ETIMEOUT;
    holder now = {""};
    if (op->score > 0 || op->asking > 0)
        left = leave_queue_locked(call, op, status == HF_ETIMEOUT, &now);
    if (left == HF_OK)
        return HF_OK;
    if (left != HF_EUNKNOWN)
        return status == HF_EINTR ? hf_fail(HF_EINTR, "a signal ended the wait")
                                  : explain_timeout(call->lock->names, call->timeout_ms, &now);
    return explain_given_up(call->lock->names);
}

/* Once through the queue: HF_OK if the op is done or must go on, HF_EBUSY where nothing
 * queues. */
static hf_status queue_once_locked(acquiring *call, hf_op *op) {
    if (op->queue == NULL && !hf_op_enter_locked(op))
        return hf_fail(HF_ENOMEM, "no memory");
    hf_op_want_grants_locked(op);
    hf_status status = hf_op_wait_locked(op, true, call->interruptible);
    if (status == HF_OK && !op->done && op->link->mode == HF_POLLING) {
        HF_MARK("H42");
        return HF_EBUSY;
    }
    if (status == HF_OK && !op->done)
        status = join_queue_locked(call, op);
    if (status == HF_OK && !op->done && op->score > 0)
        status = hf_op_wait_locked(op, false, call->interruptible);
    if (status == HF_ETIMEOUT || status == HF_EINTR)
        status = end_wait_locked(call, op, status);
    return status;
}

/* Back to its place under a new id: this thread slept past the grant. */
static hf_status queue_again_locked(acquiring *call, hf_op *op) {
    hf_status status = hf_op_renew_id_locked(op);
    hf_queue_recheck_locked(call->client, op->hold->names);
    op->done = false;
    return status;
}

static hf_status queue_locked(acquiring *call, hf_op *op) {
    for (;;) {
        hf_status status = queue_once_locked(call, op);
        if (status != HF_OK)
            return status;
        if (!op->done)
            continue;
        if (op->status == HF_EDONE)
            return explain_done(op->hold->names);
        if (op->status != HF_OK)
            return hf_fail(op->status, "%s", hf_waiting_reason_locked(call->client));
        call->held_at = hf_now();
        if (call->held_at < call->hold->validity.deadline)
            return HF_OK;
        status = queue_again_locked(call, op);
        if (status != HF_OK)
            return status;
    }
}

/* ------------------------------------------------------- On this thread */

static hf_status wait_in_queue_locked(acquiring *call) {
    hf_client *client = call->client;
    hf_hold *hold = call->hold;
    hf_status status = hf_hold_equip_locked(hold);
    if (status == HF_OK && hold->id[0] == '\0')
        status = hf_table_new_id_locked(client, hold);
    if (status == HF_OK)
        status = hf_thread_start_locked(client);
    if (status != HF_OK)
        return status;
    hf_op *op = hf_op_new_locked(client, hold, call->timeout_ms, call->until, NULL);
    if (op == NULL)
        return HF_ENOMEM;
    status = queue_locked(call, op);
    hf_op_leave_locked(op);
    hf_op_free_locked(op);
    return status;
}

/* Wait, one way or another. */
static hf_status wait_for_lock_locked(acquiring *call) {
    bool again = true;
    hf_status status = HF_EBUSY;
    /* It may well be free; only an acquire that has to wait is worth a subscription. */
    if (!hf_grants_come(&call->client->links, call->lock->names))
        status = try_lock_locked(call);
    while (status == HF_EBUSY && again) {
        again = false;
        status = wait_in_queue_locked(call);
        if (status == HF_EBUSY)
            status = poll_lock_locked(call, &again);
    }
    return status;
}

/* ----------------------------------------------------------------- Options */

static hf_status check_acquire(const hf_lock *lock, int64_t timeout_ms, int64_t *replica_ms,
                               const hf_acquire_options *options) {
    if (timeout_ms < HF_FOREVER)
        return hf_fail(HF_EINVAL, "a timeout of %lld ms: it takes 0 or more, or no end",
                       (long long)timeout_ms);
    hf_status status = options->lease_ms != 0 ? hf_check_lease(options->lease_ms) : HF_OK;
    if (status == HF_OK)
        status = hf_check_switch(options->renew, "renew");
    if (status != HF_OK)
        return status;
    if (options->lease_ms == HF_NEVER && lock->max_hold_ms > 0)
        return hf_fail(HF_EINVAL, "max_hold needs a lease that ends");
    if ((options->flags & ~(HF_ACQUIRE_KEEP | HF_ACQUIRE_INTERRUPTIBLE | HF_ACQUIRE_UNCOUNTED |
                            HF_ACQUIRE_WHOLE)) != 0)
        return hf_fail(HF_EINVAL, "hf_acquire_options.flags has an unknown bit");
    if (options->reserved != 0)
        return hf_fail(HF_EINVAL, "hf_acquire_options.reserved must be 0");
    if (lock->replicas > 0 && options->lease_ms != 0)
        return hf_check_replicas(options->lease_ms, replica_ms);
    return HF_OK;
}

/* The options of an acquire, checked, and a hold made of them. */
static hf_status prepare_acquire(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                                 const hf_acquire_options *options, uint32_t *flags,
                                 hf_hold **hold_out) {
    hf_acquire_options chosen;
    hf_owner who;
    if (lock == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    int64_t replica_ms = lock->replica_ms;
    hf_status status = hf_client_check(lock->client);
    if (status == HF_OK)
        status = hf_options_copy(&chosen, sizeof chosen, options, "hf_acquire_options");
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
    bool renew =
        chosen.renew != HF_DEFAULT ? chosen.renew == HF_ON : chosen.lease_ms == 0 && lock->renew;
    hf_lock_configure(lock, hold, chosen.lease_ms != 0 ? chosen.lease_ms : lock->lease_ms, renew);
    if (caller->once) { /* or it would do again what it does just now */
        hold->mode = HF_MODE_ONCE;
        hold->reentrant = false;
    }
    hold->lock_serial = who.holder.lock_serial;
    hold->replicas = lock->replicas;
    hold->replica_ms = replica_ms;
    hold->whole = (chosen.flags & HF_ACQUIRE_WHOLE) != 0;
    *flags = chosen.flags;
    *hold_out = hold;
    return HF_OK;
}

/* One that this shows to be lost is told so first: a master that was replaced has granted it. */
static hf_status list_won_locked(hf_hold *hold, bool keep) {
    for (hf_hold *before; (before = hf_table_superseded_locked(hold)) != NULL;) {
        HF_MARK("H44");
        hf_hold_lose_locked(before, HF_CAUSE_GONE);
    }
    return hf_table_add_locked(hold->client, hold, keep);
}

/* What was won is the client's from now on. HF_ECANCELED: that is closed. HF_ELOST: somebody
 * was granted it since, so that the server that answered is the master no more. */
static hf_status keep_won_locked(acquiring *call, bool keep) {
    hf_hold *hold = call->hold;
    if (!hf_table_believes_locked(hold, hold->fence))
        return HF_ELOST;
    bool confirms = hf_hold_must_confirm_locked(hold);
    hf_status status = list_won_locked(hold, keep && !confirms);
    if (status != HF_OK)
        return status;
    hf_renewal_first_locked(hold);
    if (!confirms)
        return HF_OK;
    hf_client_unlock(call->client);
    status = hf_hold_confirm(hold, deadline_of_end(call));
    hf_client_lock(call->client);
    hold->kept = keep && hf_hold_is_listed(hold);
    call->held_at = hf_now();
    return status;
}

static void count_locked(const acquiring *call, hf_status status) {
    hf_hold *hold = call->hold;
    if (status == HF_OK)
        hf_hold_count_acquired_locked(hold, call->began_at, call->held_at);
    else if (!call->uncounted || (status != HF_EBUSY && hf_brake_mine() == NULL))
        hf_hold_count_refused_locked(hold, status);
}

/* Acquire it, and keep what was won. HF_ELOST: not that, and it may be tried again. */
static hf_status acquire_once(acquiring *call, bool keep) {
    hf_hold *hold = call->hold;
    hf_client_lock(call->client);
    hf_status status = call->timeout_ms == 0 ? try_lock_locked(call) : wait_for_lock_locked(call);
    if (status == HF_OK)
        status = keep_won_locked(call, keep);
    if (status != HF_ELOST)
        count_locked(call, status);
    bool listed = hold->number > 0; /* what was in the table has been released */
    bool owed = status != HF_OK && !listed && !hf_undo_acquire_locked(hold, NULL);
    hf_client_unlock(call->client);
    if (owed)
        hf_undo_now(hold, deadline_of_end(call));
    if (status == HF_ELOST)
        hf_transport_look(call->client->transport);
    return status;
}

/* Before the next try: the new master may not be known for a while. */
static hf_status await_master(const acquiring *call) {
    int64_t ms = hf_jitter(LOST_MIN_MS, LOST_MAX_MS), left_ms = hf_until(call->until, hf_now());
    return hf_client_sleep(call->client, ms < left_ms ? ms : left_ms, call->interruptible);
}

/* After HF_ELOST: is there another try? */
static hf_status prepare_again(const acquiring *call) {
    hf_status status = hf_now() < call->until
                           ? await_master(call)
                           : hf_fail(HF_EBUSY, "lock %s was granted to another meanwhile",
                                     hf_names_quoted(call->lock->names));
    if (status == HF_OK)
        return status;
    hf_client_lock(call->client);
    count_locked(call, status);
    hf_client_unlock(call->client);
    return status;
}

hf_status hf_acquire(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                     const hf_acquire_options *options, hf_hold **hold_out) {
    HF_NOT_CANCELLED;
    hf_hold *hold;
    uint32_t flags;
    if (hold_out != NULL)
        *hold_out = NULL;
    hf_status status = prepare_acquire(lock, caller, timeout_ms, options, &flags, &hold);
    if (status != HF_OK)
        return status;
    int64_t now = hf_now();
    acquiring call = {.lock = lock,
                      .client = lock->client,
                      .hold = hold,
                      .timeout_ms = timeout_ms,
                      .began_at = now,
                      .until = hf_after(now, timeout_ms),
                      .interruptible = (flags & HF_ACQUIRE_INTERRUPTIBLE) != 0,
                      .uncounted = (flags & HF_ACQUIRE_UNCOUNTED) != 0};
    bool keep = hold_out == NULL || (flags & HF_ACQUIRE_KEEP) != 0;
    while ((status = acquire_once(&call, keep)) == HF_ELOST)
        if ((status = prepare_again(&call)) != HF_OK)
            break;
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

hf_status hf_lock_ended(hf_lock *lock, hf_status status, int64_t timeout_ms) {
    if (lock == NULL || status == HF_OK)
        return hf_fail(HF_EINVAL,
                       "the handle is NULL, or the acquire was counted: it got the lock");
    hf_status open = hf_client_check(lock->client);
    if (open != HF_OK)
        return open;
    if (status == HF_ETIMEOUT)
        explain_timeout(lock->names, timeout_ms, &(holder){""});
    hf_client_lock(lock->client);
    hf_count_refused_locked(lock->client, &lock->counting, lock->names, status);
    hf_client_unlock(lock->client);
    return HF_OK;
}

int hf_lock_contended(const hf_lock *lock) {
    if (lock == NULL || hf_client_check(lock->client) != HF_OK)
        return 0;
    hf_client_lock(lock->client);
    bool expected = hf_waiting_expected_locked(lock->client, lock->names);
    hf_client_unlock(lock->client);
    return expected;
}

hf_status hf_lock_acquire(hf_lock *lock, int64_t timeout_ms, hf_hold **hold_out) {
    return hf_lock_acquire_as(lock, NULL, 0, timeout_ms, NULL, hold_out);
}

/* --------------------------------------------------------------- Started */

/* For the completion, unless this thread's message says it already. */
static void explain_outcome(const hf_op *op, hf_status status) {
    const hf_names *names = op->hold->names;
    const char *lock = hf_names_quoted(names);
    switch (op->explained ? HF_OK : status) {
    case HF_EBUSY:
        hf_fail(status, "lock %s is held by somebody else", lock);
        break;
    case HF_ETIMEOUT:
        explain_timeout(names, op->timeout_ms, &(holder){""});
        break;
    case HF_EDONE:
        explain_done(names);
        break;
    case HF_ECANCELED:
        if (op->hold->client->closed)
            hf_fail(status, "the client was closed during the wait");
        else
            hf_fail(status, "the wait for lock %s was cancelled", lock);
        break;
    default:
        break;
    }
}

/* Its completion; the op is freed. */
static void tell_acquired(hf_op *op, hf_status status) {
    hf_hold *hold = op->hold;
    hf_client *client = hold->client;
    hf_completion completion = {.kind = HF_KIND_ACQUIRE, .status = status, .op = op->number};
    explain_outcome(op, status);
    if (status == HF_OK)
        hf_hold_count_acquired_locked(hold, op->since, hf_now());
    else
        hf_hold_count_refused_locked(hold, status);
    bool told = status == HF_OK || status == HF_EDONE;
    if (told) {
        completion.hold = hold;
        completion.hold_number = hold->number;
    }
    hf_tell_locked(client, &op->news, &completion);
    hf_op_free_locked(op);
    if (!told)
        hf_hold_drop(hold);
}

static void started_ended(hf_op *op, hf_status status) {
    hf_hold *hold = op->hold;
    if (status == HF_EBUSY && op->timeout_ms != 0)
        status = HF_ETIMEOUT;
    bool confirms = status == HF_OK && hf_hold_must_confirm_locked(hold);
    if (status == HF_OK) {
        status = list_won_locked(hold, op->keeps && !confirms);
        if (status != HF_OK) /* it is just being closed, and must release this too */
            hf_undo_acquire_locked(hold, NULL);
    }
    if (status == HF_OK)
        hf_renewal_first_locked(hold);
    if (status == HF_OK && confirms)
        hf_op_confirm_locked(op, tell_acquired);
    else
        tell_acquired(op, status);
}

/* Takes an op without a thread out of the queue. */
typedef struct leave_task {
    hf_task task;
    hf_client *client;
    hf_names *names;
    char id[HF_ID_LENGTH + 1];
} leave_task;

static void drop_leave(hf_task *task) { hf_names_drop(HF_OF(leave_task, task, task)->names); }

static void canceled(hf_task *task, hf_status status, const redisReply *reply) {
    leave_task *mine = HF_OF(leave_task, task, task);
    hf_op *op = hf_op_find_locked(mine->client, mine->id);
    if (status == HF_OK && hf_reply_release(reply) == HF_RELEASE_MORE)
        hf_kick_locked(mine->client, mine->names);
    if (op == NULL)
        return;
    if (status == HF_OK)
        hf_op_left_locked(op);
    hf_op_finish_locked(op, HF_ECANCELED);
}

/* Nothing of it was ever sent: it is the server that was not there, not the lock. */
static bool is_unsent(const hf_op *op) {
    return !op->answered && !op->hold->bury && hf_link_is_unsent(op->link, op->since);
}

static void expired(hf_task *task, hf_status status, const redisReply *reply) {
    leave_task *mine = HF_OF(leave_task, task, task);
    hf_op *op = hf_op_find_locked(mine->client, mine->id);
    hf_standing standing;
    hf_look look;
    if (op == NULL || op->canceled)
        return; /* the grant was faster, or a cancel */
    op->busy = false;
    if (status != HF_OK && status != HF_EUNKNOWN && is_unsent(op)) {
        hf_op_finish_locked(op, status);
        return;
    }
    if (status == HF_OK && !hf_reply_cancel(reply, &look, &standing))
        status = nonsense(op->hold);
    if (status != HF_OK) { /* its time is up, and the server was not told */
        hf_op_finish_locked(op, explain_given_up(op->hold->names));
        return;
    }
    hf_link_pair(task->link, task->sent_at, look.server_us);
    bool held = standing.state == HF_STANDS_HELD;
    int64_t deadline = hf_standing_deadline(op->hold, &standing, task->sent_at);
    if (held && hf_op_take_locked(op, standing.fence, task->sent_at, deadline,
                                  standing.remaining_ms != op->hold->validity.lease_ms))
        return;
    if (held)
        HF_MARK("H17");
    if (!held) /* or not long enough to be told */
        hf_op_left_locked(op);
    holder now = read_holder(reply);
    explain_timeout(op->hold->names, op->timeout_ms, &now);
    op->explained = true;
    hf_op_finish_locked(op, HF_ETIMEOUT);
}

static hf_task *new_leave(const hf_op *op, bool cancel) {
    hf_task *task = hf_task_new(sizeof(leave_task), cancel ? canceled : expired, drop_leave);
    if (task == NULL)
        return NULL;
    leave_task *mine = HF_OF(leave_task, task, task);
    hf_hold *hold = op->hold;
    task->explains = true;
    hf_ask ask = hf_op_ask(op);
    bool bury = hold->bury || op->asking > 0;
    mine->client = hold->client;
    mine->names = hf_names_keep(hold->names);
    memcpy(mine->id, hold->id, sizeof mine->id);
    if (cancel)
        hf_request_release(&task->request, hold->names, &ask, hold->fence, bury);
    else
        hf_request_cancel(&task->request, hold->names, &ask, bury);
    return task;
}

/* The same without a request: there is nothing to leave, or no memory. */
static void withdraw_here(hf_op *op, bool cancel, bool sent) {
    hf_status status = cancel ? HF_ECANCELED : HF_ETIMEOUT;
    if (sent && !cancel) {
        hf_fail(HF_ENOMEM, "no memory");
        status = explain_given_up(op->hold->names);
    } else if (!sent && !cancel && !op->answered) {
        status = hf_link_explain(&op->hold->client->links, op->link);
    }
    hf_op_finish_locked(op, status);
}

/* Take an op that waits without a thread out of the queue, by cancel or release. */
static void withdraw_op(hf_op *op, bool cancel) {
    hf_client *client = op->hold->client;
    bool sent = op->score > 0 || op->asking > 0 || op->hold->bury;
    hf_task *task = sent ? new_leave(op, cancel) : NULL;
    op->canceled = cancel;
    if (task == NULL) {
        withdraw_here(op, cancel, sent);
        return;
    }
    op->busy = true; /* from now on nobody else asks for it */
    hf_task_submit(&client->links, task, hf_client_patience(client));
}

/* Its time is up. If it has not asked at all yet, it asks once: only the server's word shows
 * that others kept the lock. */
static void op_due(hf_timer *timer, int64_t now) {
    hf_op *op = HF_OF(hf_op, timer, timer);
    (void)now;
    if (op->canceled)
        return;
    bool silent = !op->answered && op->asking == 0 && !op->hold->bury;
    if (!silent || !hf_op_try_locked(op, true))
        withdraw_op(op, false);
}

/* An op in its queue, or NULL with the thread's message. */
static hf_op *begin_op_locked(hf_client *client, hf_hold *hold, int64_t timeout_ms, int64_t number,
                              bool keeps) {
    hf_op *op =
        hf_op_new_locked(client, hold, timeout_ms, hf_after(hf_now(), timeout_ms), started_ended);
    if (op == NULL)
        return NULL;
    op->number = number;
    op->news->op = op;
    hf_news_number_locked(client, op->news, number);
    op->keeps = keeps;
    op->timer.fire = op_due;
    bool good = hf_op_enter_locked(op);
    /* Where no grants come yet it may well be free, if nobody here waits for it. */
    if (good &&
        (timeout_ms == 0 || (hf_op_is_alone(op) && !hf_grants_come(&client->links, hold->names))))
        good = hf_op_try_locked(op, timeout_ms == 0);
    if (good)
        return op;
    hf_op_leave_locked(op);
    hf_op_free_locked(op);
    hf_fail(HF_ENOMEM, "no memory");
    return NULL;
}

static hf_status start_acquire_locked(hf_client *client, hf_hold *hold, int64_t timeout_ms,
                                      int64_t number, bool keeps) {
    hf_status status = hf_client_check(client); /* closed just now: nobody would end it */
    if (status == HF_OK)
        status = hf_number_check_locked(client, number);
    if (status == HF_OK)
        status = hf_losses_tell_locked(client);
    if (status == HF_OK)
        status = hf_hold_equip_locked(hold);
    if (status == HF_OK)
        status = hf_table_new_id_locked(client, hold);
    if (status != HF_OK)
        return status;
    hf_op *op = begin_op_locked(client, hold, timeout_ms, number, keeps);
    if (op == NULL)
        return HF_ENOMEM;
    if (timeout_ms == 0)
        return HF_OK;
    hf_op_want_grants_locked(op);
    if (timeout_ms > 0)
        hf_thread_timer_locked(client, &op->timer, op->until);
    hf_op_ask_soon_locked(op);
    return HF_OK;
}

hf_status hf_acquire_start(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                           const hf_acquire_options *options, int64_t op_number) {
    hf_hold *hold;
    uint32_t flags;
    if (op_number < 1)
        return hf_fail(HF_EINVAL, "the operation's number must be above 0");
    hf_status status = prepare_acquire(lock, caller, timeout_ms, options, &flags, &hold);
    if (status != HF_OK)
        return status;
    hf_client_lock(lock->client);
    status = start_acquire_locked(lock->client, hold, timeout_ms, op_number,
                                  (flags & HF_ACQUIRE_KEEP) != 0);
    hf_client_unlock(lock->client);
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
    hf_client_lock(client);
    const hf_news *news = hf_news_find_locked(client, op_number);
    hf_op *op = news != NULL ? news->op : NULL;
    if (op == NULL || op->queue == NULL)
        status = hf_fail(HF_ENOTHELD, "no such acquire is under way");
    else if (!op->canceled)
        withdraw_op(op, true);
    hf_client_unlock(client);
    return status;
}

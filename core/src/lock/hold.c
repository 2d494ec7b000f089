#include "lock/hold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"
#include "lock/lock.h"
#include "lock/renewal.h"
#include "lock/undo.h"
#include "lock/waiting.h"

int hf_hold_cause(const hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return HF_CAUSE_NONE;
    int64_t now = hf_now();
    hf_client_lock(hold->client);
    int cause = hold->cause;
    if (cause == HF_CAUSE_NONE && hf_hold_state_now(hold, now) == HF_STATE_LOST)
        cause = hf_loss_cause(hold);
    hf_client_unlock(hold->client);
    return cause;
}

/* --------------------------------------------------------------- Started */

/* An operation on a hold that ends with a completion. */
typedef struct started_task {
    hf_task task;
    hf_hold *hold; /* with a reference */
    hf_news *news;
    int state;      /* of a release: the state that the hold had */
    hf_hold *other; /* and one that it was joined with, with a reference; or NULL */
    /* Of a renewal: */
    int64_t lease_ms;
    hf_renew_mode mode;
    bool refused;    /* and the server is asked why */
    int64_t keep_ms; /* afterwards it is left to the server for so long; 0: it is not */
} started_task;

static void drop_started(hf_task *task) {
    started_task *mine = HF_OF(started_task, task, task);
    if (mine->hold != NULL)
        hf_hold_drop(mine->hold);
    if (mine->other != NULL)
        hf_hold_drop(mine->other);
    hf_news_free_locked(mine->news);
}

/* With what is sure to be needed. If HF_OK the mutex is held, until submit_started() or
 * withdraw_started(). */
static hf_status begin_started(hf_hold *hold, int32_t kind, int64_t op,
                               void (*done)(hf_task *, hf_status, const redisReply *),
                               started_task **task_out) {
    hf_client *client = hold->client;
    hf_completion completion = {.kind = kind, .op = op, .hold_number = hold->number};
    if (op < 1)
        return hf_fail(HF_EINVAL, "the operation's number must be above 0");
    hf_task *task = hf_task_new(sizeof(started_task), done, drop_started);
    if (task == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    started_task *mine = HF_OF(started_task, task, task);
    task->explains = true;
    mine->news = hf_news_new(&completion);
    hf_client_lock(client);
    hf_status status = mine->news != NULL ? hf_client_check(client) : HF_ENOMEM;
    if (status == HF_OK)
        status = hf_number_check_locked(client, op);
    if (status == HF_OK)
        status = hf_losses_tell_locked(client);
    if (status != HF_OK) {
        hf_task_free(task);
        hf_client_unlock(client);
        return status == HF_ENOMEM ? hf_fail(status, "no memory, file descriptor or thread for it")
                                   : status;
    }
    hf_news_number_locked(client, mine->news, op);
    *task_out = mine;
    return HF_OK;
}

static void submit_started(hf_hold *hold, started_task *mine) {
    hf_client *client = hold->client;
    hf_hold_grab(hold);
    mine->hold = hold;
    hf_task_submit(&client->links, &mine->task, hf_client_patience(client));
    hf_client_unlock(client);
}

/* It is not sent: the hold ended, or the client was closed, which the message says. */
static hf_status withdraw_started(hf_hold *hold, started_task *mine) {
    hf_task_free(&mine->task);
    hf_client_unlock(hold->client);
    return hf_hold_explain_not_held(hold);
}

static void end_started(started_task *mine, hf_status status) {
    hf_completion completion = mine->news->completion;
    completion.status = status;
    hf_tell_locked(mine->hold->client, &mine->news, &completion);
}

/* --------------------------------------------------------------- Release */

int hf_hold_end_locked(hf_hold *hold, int64_t now, bool *listed) {
    int state = hf_hold_state_now(hold, now);
    *listed = state != HF_STATE_RELEASED && hf_hold_is_listed(hold);
    if (state == HF_STATE_RELEASED) { /* by the close perhaps, which has it in a list of its own */
        HF_MARK("H40");
        return state;
    }
    if (state == HF_STATE_LOST && hold->state == HF_STATE_HELD) { /* before the renewal saw it */
        hold->cause = hf_loss_cause(hold);
        hf_hold_count_loss_locked(hold, now);
        hf_hold_lose_others_locked(hold, hold->cause);
    }
    hf_hold_count_end_locked(hold, now);
    if (state == HF_STATE_LOST && hold->pushed)
        hf_queue_recheck_locked(hold->client, hold->names);
    hold->state = HF_STATE_RELEASED;
    if (*listed)
        hf_table_remove_locked(hold->client, hold);
    return state;
}

/* One that it is joined with, with a reference; or NULL. */
static hf_hold *grab_other_locked(const hf_hold *hold) {
    return hold->joined != NULL ? hf_hold_grab(hold->joined) : NULL;
}

/* What a release came to. */
static hf_status release_status(const hf_hold *hold, int state, hf_status status,
                                hf_release_outcome outcome, bool doubtful) {
    if (state == HF_STATE_LOST)
        return hf_hold_explain_lost(hold, "its lease ended, or its key was taken away");
    if (status != HF_OK)
        return status;
    switch (outcome) {
    case HF_RELEASE_NONSENSE:
        return hf_unexpected("release");
    case HF_RELEASE_NOT_HELD:
        break;
    case HF_RELEASE_SPLIT:
        HF_MARK("H24");
        return hf_fail(HF_EUNKNOWN,
                       "the keys of lock %s are being moved between two servers; the client goes "
                       "on releasing it in the background",
                       hf_names_quoted(hold->names));
    case HF_RELEASE_REFUSED:
        return hf_fail(HF_ESERVER,
                       "lock %s is released, but the server did not keep the result: its memory is "
                       "full, or the user lacks a permission",
                       hf_names_quoted(hold->names));
    default:
        return HF_OK;
    }
    if (!doubtful)
        return hf_hold_explain_lost(hold, "the server does not know it any more");
    HF_MARK("C2");
    /* An earlier copy may have released it, and did if the lease still ran. */
    if (hf_now() < hold->validity.deadline)
        return HF_OK;
    return hf_fail(HF_EUNKNOWN,
                   "the hold of lock %s ended by an earlier try to release it, or was lost just "
                   "before",
                   hf_names_quoted(hold->names));
}

/* One that was lost before is counted; one that the server forgot is lost by this, and the others
 * with it. */
static void count_release_locked(const hf_hold *hold, hf_hold *other, int state, hf_status status) {
    if (status == HF_OK)
        hold->counting.tally->stats.released++;
    else if (status == HF_ELOST && state == HF_STATE_HELD) {
        hf_count_loss_locked(hold->counting.tally, HF_CAUSE_GONE);
        if (other != NULL)
            hf_hold_lose_left_locked(other, HF_CAUSE_GONE);
    }
}

static void release_request(hf_request *request, const hf_hold *hold, const hf_leaving *left) {
    hf_ask ask = hf_hold_ask(hold);
    if (left == NULL) {
        hf_hold_release_request(request, hold, false);
        return;
    }
    hf_request_finish(request, hold->names, &ask, hold->fence, hold->bury, left->bytes,
                      left->length, left->ttl_ms);
    request->hands_on = hold->waited;
}

/* By its cheapest form first; whatever that cannot do or is refused is for the general one. */
static hf_status send_release(hf_hold *hold, const hf_leaving *left, bool drops, int64_t now,
                              int64_t deadline, hf_release_outcome *outcome, bool *doubtful) {
    hf_transport *transport = hold->client->transport;
    hf_request request;
    hf_answer answer;
    hf_status status = HF_ESERVER;
    drops = drops && left == NULL && !HF_UNUSUAL("releases in general") &&
            hf_hold_drop_request(&request, hold, now);
    for (;;) {
        if (!drops)
            release_request(&request, hold, left);
        status = hf_transport_call(transport, &request, deadline, &answer);
        hf_request_free(&request);
        *doubtful = *doubtful || answer.doubtful;
        if (status == HF_OK)
            *outcome = hf_reply_release(answer.reply);
        freeReplyObject(answer.reply);
        if (!drops || !(status == HF_ESERVER || *outcome == HF_RELEASE_NOT_HELD))
            return status;
        HF_MARK("C20");
        drops = false;
    }
}

/* Its release was answered, or not. */
static void released_locked(hf_hold *hold, hf_release_outcome outcome) {
    if (hold->bury)
        hf_undo_remember_locked(hold->client, hold->names, hold->id);
    /* A copy of its acquire may have begun it again, under another fence. */
    if (hold->bury && outcome == HF_RELEASE_NOT_HELD)
        hf_undo_id_locked(hold);
    /* A grant that ran out before its release took away the places of this client's others. */
    if (outcome == HF_RELEASE_NOT_HELD && hold->pushed)
        hf_queue_recheck_locked(hold->client, hold->names);
}

static hf_status release(hf_hold *hold, const hf_leaving *left, bool counts, int64_t deadline) {
    hf_client *client = hold->client;
    hf_release_outcome outcome = HF_RELEASE_NONSENSE;
    bool listed, doubtful = false;
    int64_t now = hf_now();

    /* It ends here first, and on the server afterwards. */
    hf_client_lock(client);
    hf_hold *other = grab_other_locked(hold);
    if (!counts) /* its caller never had it, and so cannot lose it */
        hf_hold_count_end_locked(hold, now);
    int state = hf_hold_end_locked(hold, now, &listed);
    bool drops = !hf_waiting_expected_locked(client, hold->names);
    hf_client_unlock(client);
    if (state == HF_STATE_RELEASED) /* it is joined with none */
        return hf_hold_explain_not_held(hold);
    hf_status status = send_release(hold, left, drops, now, deadline, &outcome, &doubtful);
    if (outcome == HF_RELEASE_MORE)
        hf_kick(client, hold->names, deadline);
    hf_status came_to = release_status(hold, state, status, outcome, doubtful);
    if (status != HF_OK || outcome == HF_RELEASE_SPLIT)
        hf_undo(hold, deadline); /* it is not given up until its lease would end */
    hf_client_lock(client);
    if (counts)
        count_release_locked(hold, other, state, came_to);
    released_locked(hold, outcome);
    hf_client_unlock(client);
    if (listed)
        hf_hold_drop(hold);
    if (other != NULL)
        hf_hold_drop(other);
    return came_to;
}

hf_status hf_hold_leave(hf_hold *hold, const hf_leaving *left) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(hold->client);
    return status == HF_OK ? release(hold, left, true, hf_client_patience(hold->client)) : status;
}

void hf_hold_give_up_locked(hf_hold *hold) {
    bool listed;
    hf_hold_count_end_locked(hold, hf_now());
    if (hf_hold_end_locked(hold, hf_now(), &listed) != HF_STATE_RELEASED)
        hf_undo_locked(hold);
    if (listed)
        hf_hold_drop(hold); /* the handle's or the op's is left */
}

void hf_hold_give_up(hf_hold *hold, bool answers, int64_t deadline) {
    hf_error error = *hf_error_last();
    if (answers) {
        release(hold, NULL, false, deadline);
    } else {
        hf_client_lock(hold->client);
        hf_hold_give_up_locked(hold);
        hf_client_unlock(hold->client);
    }
    hf_error_set(&error);
}

static void release_done(hf_task *task, hf_status status, const redisReply *reply) {
    started_task *mine = HF_OF(started_task, task, task);
    hf_hold *hold = mine->hold;
    hf_release_outcome outcome = status == HF_OK ? hf_reply_release(reply) : HF_RELEASE_NONSENSE;
    if (status != HF_OK || outcome == HF_RELEASE_SPLIT)
        hf_undo_locked(hold);
    else if (outcome == HF_RELEASE_MORE)
        hf_kick_locked(hold->client, hold->names);
    released_locked(hold, outcome);
    status = release_status(hold, mine->state, status, outcome, task->course.doubtful);
    count_release_locked(hold, mine->other, mine->state, status);
    end_started(mine, status);
}

hf_status hf_hold_leave_start(hf_hold *hold, const hf_leaving *left, int64_t op) {
    started_task *mine;
    bool listed;
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(hold->client);
    if (status == HF_OK)
        status = begin_started(hold, HF_KIND_RELEASE, op, release_done, &mine);
    if (status != HF_OK)
        return status;
    mine->other = grab_other_locked(hold);
    mine->state = hf_hold_end_locked(hold, hf_now(), &listed);
    if (mine->state == HF_STATE_RELEASED)
        return withdraw_started(hold, mine);
    release_request(&mine->task.request, hold, left);
    if (listed)
        hf_hold_drop(hold); /* the table's: the task gets one */
    submit_started(hold, mine);
    return HF_OK;
}

/* ----------------------------------------------------------------- Renew */

void hf_hold_claimed_locked(hf_hold *hold, hf_renew_mode mode, int64_t sent_at, int64_t left_ms) {
    if (hold->state != HF_STATE_HELD)
        return;
    if (left_ms == HF_RENEWAL_GONE && hf_hold_is_listed(hold)) {
        hf_hold_lose_locked(hold, HF_CAUSE_GONE);
    } else if (left_ms == HF_RENEWAL_GONE) {
        hold->state = HF_STATE_LOST;
    } else if (left_ms >= HF_TTL_NONE) {
        /* One that is not in the table yet has no deadline that could be past. */
        if (!hf_hold_is_listed(hold) || hf_now() < hold->validity.deadline)
            hf_renewal_counts_locked(hold, mode, sent_at, left_ms);
        hf_renewal_plan_locked(hold);
    }
}

/* What one came to; *left_ms tells it from the answer. */
static hf_status renewal_status(hf_hold *hold, hf_status status, bool good, int64_t left_ms) {
    if (status != HF_OK)
        return status;
    if (!good)
        return hf_unexpected("renew");
    if (left_ms == HF_RENEWAL_REFUSED || left_ms == HF_RENEWAL_MANY)
        return hf_fail(HF_ESERVER,
                       "the server refused to renew lock %s: the user lacks a permission, or the "
                       "server cannot write",
                       hf_names_quoted(hold->names));
    switch (hf_hold_state_now(hold, hf_now())) {
    case HF_STATE_HELD:
        return HF_OK;
    case HF_STATE_RELEASED:
        return hf_hold_explain_not_held(hold);
    default:
        return hf_hold_explain_lost(hold, left_ms == HF_RENEWAL_GONE
                                              ? "the server does not know it any more"
                                              : "its lease ended before the answer came");
    }
}

/* One was answered, or not. *refused: the server would not. */
static hf_status renewal_end_locked(hf_hold *hold, int64_t lease_ms, hf_renew_mode mode,
                                    hf_status status, const redisReply *reply, int64_t sent_at,
                                    bool doubtful, bool *refused) {
    int64_t left_ms = HF_RENEWAL_REFUSED;
    bool good = status == HF_OK && hf_reply_renewal(reply, &left_ms);
    *refused = good && left_ms == HF_RENEWAL_REFUSED;
    if (mode == HF_RENEW_EXACTLY) {
        if (doubtful)
            hf_validity_doubts(&hold->validity, lease_ms);
        hf_validity_replaced(&hold->validity, hf_now(), sent_at, left_ms);
        if (left_ms >= HF_TTL_NONE)
            hf_renewal_plan_locked(hold);
    }
    if (mode != HF_RENEW_EXACTLY || left_ms == HF_RENEWAL_GONE)
        hf_hold_claimed_locked(hold, mode, sent_at, left_ms);
    if (mode == HF_RENEW_LONGER && left_ms >= HF_TTL_NONE)
        hold->pushed = false;
    return renewal_status(hold, status, good, left_ms);
}

static void renewal_request(hf_request *request, const hf_hold *hold, int64_t lease_ms,
                            hf_renew_mode mode) {
    hf_renewal renewal = hf_hold_renewal(hold, lease_ms, mode);
    /* Where slots can be moved, a key that may not be needed may not be named. */
    if (!hf_transport_clustered(hold->client->transport))
        renewal.one_of_many = true;
    if (hold->pushed && mode == HF_RENEW_LONGER) /* or its mark would stay */
        hf_request_claim(request, hold->names, hold->client->id, hold->id, hold->fence, lease_ms,
                         false);
    else
        hf_request_renew(request, &renewal, 1);
}

/* It turns out to be one of many holds, and must be asked for as that. */
static bool turns_out_many_locked(hf_hold *hold, hf_status status, const redisReply *reply) {
    int64_t left_ms;
    if (status != HF_OK || hold->one_of_many || !hf_reply_renewal(reply, &left_ms) ||
        left_ms != HF_RENEWAL_MANY)
        return false;
    hold->one_of_many = true;
    return true;
}

static hf_status renew(hf_hold *hold, int64_t lease_ms, hf_renew_mode mode) {
    hf_client *client = hold->client;
    hf_request request;
    hf_answer answer;
    bool refused = false, doubtful = false, again = true;
    hf_status status = HF_OK;
    int64_t deadline = hf_client_patience(client);
    while (again) {
        hf_client_lock(client);
        renewal_request(&request, hold, lease_ms, mode);
        hf_client_unlock(client);
        status = hf_transport_call(client->transport, &request, deadline, &answer);
        doubtful = doubtful || answer.doubtful;
        hf_client_lock(client);
        again = turns_out_many_locked(hold, status, answer.reply);
        if (!again)
            status = renewal_end_locked(hold, lease_ms, mode, status, answer.reply, answer.sent_at,
                                        doubtful, &refused);
        hf_client_unlock(client);
        freeReplyObject(answer.reply);
        if (refused)
            hf_transport_explain(client->transport, &request, deadline);
        hf_request_free(&request);
    }
    return status;
}

/* Is it held, so that it can be renewed? */
static hf_status check_held(const hf_hold *hold) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(hold->client);
    if (status != HF_OK)
        return status;
    switch (hf_hold_state(hold)) {
    case HF_STATE_HELD:
        return HF_OK;
    case HF_STATE_LOST:
        return hf_hold_explain_lost(hold, "its lease ended, or its key was taken away");
    default:
        return hf_hold_explain_not_held(hold);
    }
}

static hf_status renew_as(hf_hold *hold, hf_renew_mode mode) {
    hf_status status = check_held(hold);
    if (status != HF_OK)
        return status;
    hf_client_lock(hold->client);
    int64_t lease_ms = hold->validity.lease_ms;
    hf_client_unlock(hold->client);
    return renew(hold, lease_ms, mode);
}

hf_status hf_hold_renew(hf_hold *hold) { return renew_as(hold, HF_RENEW_LONGER); }

hf_status hf_hold_check(hf_hold *hold) { return renew_as(hold, HF_RENEW_LOOK); }

static hf_status check_extension(const hf_hold *hold, int64_t duration_ms, uint32_t flags) {
    bool replace = (flags & HF_EXTEND_REPLACE) != 0;
    if ((flags & ~HF_EXTEND_REPLACE) != 0)
        return hf_fail(HF_EINVAL, "the flags of an extension have an unknown bit");
    if (!(replace && duration_ms == HF_NEVER) &&
        (duration_ms < HF_LEASE_MIN || duration_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL, "extend by %lld ms: it takes 10 ms to 10 years",
                       (long long)duration_ms);
    hf_status status = check_held(hold);
    if (status == HF_OK && replace && duration_ms == HF_NEVER && hold->max_hold_ms > 0)
        return hf_fail(HF_EINVAL, "max_hold needs a lease that ends");
    return status;
}

/* The lease to send for it, and its mode; 0 if it was just released, or handed over:
 * then it is not ours to shorten. */
static int64_t extend_locked(hf_hold *hold, int64_t duration_ms, uint32_t flags,
                             hf_renew_mode *mode) {
    hf_validity *validity = &hold->validity;
    if (hold->state == HF_STATE_RELEASED)
        return 0;
    int64_t now = hf_now();
    if ((flags & HF_EXTEND_REPLACE) != 0) {
        *mode = HF_RENEW_EXACTLY;
        hf_validity_replaces(validity, now, duration_ms);
        hf_renewal_next_locked(hold, now);
        return duration_ms;
    }
    *mode = HF_RENEW_LOOK;
    if (validity->deadline == HF_NO_DEADLINE)
        return HF_NEVER;
    /* Added once, to what is left now: sent again it adds nothing twice. */
    int64_t lease_ms = duration_ms + hf_until(validity->deadline, now);
    if (lease_ms > HF_LEASE_MAX)
        lease_ms = HF_LEASE_MAX;
    hf_validity_extends(validity, lease_ms);
    *mode = HF_RENEW_LONGER;
    return lease_ms;
}

hf_status hf_hold_extend(hf_hold *hold, int64_t duration_ms, uint32_t flags) {
    hf_renew_mode mode;
    hf_status status = check_extension(hold, duration_ms, flags);
    if (status != HF_OK)
        return status;
    hf_client_lock(hold->client);
    int64_t lease_ms = extend_locked(hold, duration_ms, flags, &mode);
    hf_client_unlock(hold->client);
    return lease_ms != 0 ? renew(hold, lease_ms, mode) : hf_hold_explain_not_held(hold);
}

/* The hold ends here, and stays on the server: for so long, or as long as it has. */
static hf_status leave_locked(hf_hold *hold, int64_t duration_ms, const char *how) {
    bool listed;
    if (hf_validity_is_doubtful(&hold->validity, duration_ms)) { /* and nobody would notice */
        HF_MARK("M21");
        return hf_fail(HF_EUNKNOWN,
                       "the hold of lock %s cannot be %s: it may still be cut short, by an "
                       "extension that has no answer",
                       hf_names_quoted(hold->names), how);
    }
    if (hold->bury && !hf_undo_bury_locked(hold))
        return hf_fail(HF_ENOMEM, "no memory");
    int state = hf_hold_end_locked(hold, hf_now(), &listed);
    if (state == HF_STATE_LOST) /* perhaps with another, and the server would keep it */
        hf_undo_locked(hold);
    if (listed)
        hf_hold_drop(hold); /* the handle's or the task's is left */
    if (state == HF_STATE_HELD)
        return HF_OK;
    return state == HF_STATE_LOST ? hf_hold_explain_lost(hold, "its lease ended")
                                  : hf_hold_explain_not_held(hold);
}

/* What is sent next for a hold that is to be kept: an unclaimed grant is claimed first, because
 * its mark would stay and count against this client. Answers as extend_locked(). */
static int64_t keep_locked(hf_hold *hold, int64_t duration_ms, hf_renew_mode *mode) {
    if (!hold->pushed || hold->state == HF_STATE_RELEASED)
        return extend_locked(hold, duration_ms, HF_EXTEND_REPLACE, mode);
    *mode = HF_RENEW_LONGER;
    return hf_hold_claim_ms(hold);
}

/* It is claimed: now comes what it is kept by. True: send that. */
static bool keeps_on_locked(started_task *mine, hf_status status) {
    if (mine->keep_ms == 0 || mine->mode == HF_RENEW_EXACTLY || status != HF_OK)
        return false;
    mine->lease_ms = extend_locked(mine->hold, mine->keep_ms, HF_EXTEND_REPLACE, &mine->mode);
    return mine->lease_ms != 0;
}

static void renewal_done(hf_task *task, hf_status status, const redisReply *reply) {
    started_task *mine = HF_OF(started_task, task, task);
    if (turns_out_many_locked(mine->hold, status, reply)) {
        hf_request_free(&task->request);
        renewal_request(&task->request, mine->hold, mine->lease_ms, mine->mode);
        task->again = true;
        return;
    }
    if (!mine->refused)
        status = renewal_end_locked(mine->hold, mine->lease_ms, mine->mode, status, reply,
                                    task->sent_at, task->course.doubtful, &mine->refused);
    else /* by now the message says what is missing */
        mine->refused = false;
    task->unclear = mine->refused;
    if (mine->refused)
        return;
    if (keeps_on_locked(mine, status)) {
        hf_request_free(&task->request);
        renewal_request(&task->request, mine->hold, mine->lease_ms, mine->mode);
        task->again = true;
        return;
    }
    if (status == HF_OK && mine->keep_ms > 0)
        status = leave_locked(mine->hold, mine->keep_ms, "kept");
    end_started(mine, status);
}

static void submit_started_renewal(hf_hold *hold, started_task *mine) {
    renewal_request(&mine->task.request, hold, mine->lease_ms, mine->mode);
    submit_started(hold, mine);
}

static hf_status start_renewal(hf_hold *hold, hf_renew_mode mode, int64_t op) {
    started_task *mine;
    hf_status status = check_held(hold);
    if (status == HF_OK)
        status = begin_started(hold, HF_KIND_RENEWAL, op, renewal_done, &mine);
    if (status != HF_OK)
        return status;
    mine->mode = mode;
    mine->lease_ms = hold->validity.lease_ms;
    submit_started_renewal(hold, mine);
    return HF_OK;
}

hf_status hf_hold_renew_start(hf_hold *hold, int64_t op) {
    return start_renewal(hold, HF_RENEW_LONGER, op);
}

hf_status hf_hold_check_start(hf_hold *hold, int64_t op) {
    return start_renewal(hold, HF_RENEW_LOOK, op);
}

hf_status hf_hold_extend_start(hf_hold *hold, int64_t duration_ms, uint32_t flags, int64_t op) {
    started_task *mine;
    hf_status status = check_extension(hold, duration_ms, flags);
    if (status == HF_OK)
        status = begin_started(hold, HF_KIND_RENEWAL, op, renewal_done, &mine);
    if (status != HF_OK)
        return status;
    mine->lease_ms = extend_locked(hold, duration_ms, flags, &mine->mode);
    if (mine->lease_ms == 0)
        return withdraw_started(hold, mine);
    submit_started_renewal(hold, mine);
    return HF_OK;
}

/* ------------------------------------------------------------------ Keep */

static hf_status check_keep(const hf_hold *hold, int64_t *duration_ms) {
    if (*duration_ms < 0 || *duration_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL, "keep for %lld ms: it takes 0 ms to 10 years",
                       (long long)*duration_ms);
    if (*duration_ms > 0 && *duration_ms < HF_LEASE_MIN)
        *duration_ms = HF_LEASE_MIN;
    return check_held(hold);
}

hf_status hf_hold_keep(hf_hold *hold, int64_t duration_ms) {
    hf_renew_mode mode = HF_RENEW_LOOK;
    hf_status status = check_keep(hold, &duration_ms);
    if (status == HF_OK && duration_ms == 0)
        return hf_hold_leave(hold, NULL);
    while (status == HF_OK && mode != HF_RENEW_EXACTLY) {
        hf_client_lock(hold->client);
        int64_t lease_ms = keep_locked(hold, duration_ms, &mode);
        hf_client_unlock(hold->client);
        status = lease_ms != 0 ? renew(hold, lease_ms, mode) : hf_hold_explain_not_held(hold);
    }
    if (status != HF_OK)
        return status;
    hf_client_lock(hold->client);
    status = leave_locked(hold, duration_ms, "kept");
    hf_client_unlock(hold->client);
    return status;
}

hf_status hf_hold_keep_start(hf_hold *hold, int64_t duration_ms, int64_t op) {
    started_task *mine;
    hf_status status = check_keep(hold, &duration_ms);
    if (status == HF_OK && duration_ms == 0)
        return hf_hold_leave_start(hold, NULL, op);
    if (status == HF_OK)
        status = begin_started(hold, HF_KIND_RELEASE, op, renewal_done, &mine);
    if (status != HF_OK)
        return status;
    mine->keep_ms = duration_ms;
    mine->lease_ms = keep_locked(hold, duration_ms, &mine->mode);
    if (mine->lease_ms == 0)
        return withdraw_started(hold, mine);
    submit_started_renewal(hold, mine);
    return HF_OK;
}

hf_status hf_hold_keep_at_least(hf_hold *hold, int64_t duration_ms) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (duration_ms < 0 || duration_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL, "keep for %lld ms at least: it takes 0 ms to 10 years",
                       (long long)duration_ms);
    hf_client_lock(hold->client);
    hold->least_until = duration_ms > 0 ? hf_after(hold->began_at, duration_ms) : 0;
    hf_client_unlock(hold->client);
    return HF_OK;
}

/* Of a release that keeps the lock, while its answer is lost. */
#define KEEP_TRIES 3

/* The time for which a release keeps the lock. */
static int64_t least_left_ms(const hf_hold *hold) {
    if (hold == NULL || hf_client_check(hold->client) != HF_OK)
        return 0;
    hf_client_lock(hold->client);
    int64_t now = hf_now(), left_ms = hf_until(hold->least_until, now);
    bool held = hf_hold_state_now(hold, now) == HF_STATE_HELD;
    hf_client_unlock(hold->client);
    return held ? left_ms : 0;
}

hf_status hf_hold_release(hf_hold *hold) {
    int64_t left_ms;
    for (int tries = 1; (left_ms = least_left_ms(hold)) > 0; tries++) {
        hf_status status = hf_hold_keep(hold, left_ms);
        if ((status != HF_EUNKNOWN && status != HF_ECONNECT) || tries == KEEP_TRIES)
            return status;
    }
    return hf_hold_leave(hold, NULL);
}

hf_status hf_hold_release_start(hf_hold *hold, int64_t op) {
    int64_t left_ms = least_left_ms(hold);
    return left_ms > 0 ? hf_hold_keep_start(hold, left_ms, op)
                       : hf_hold_leave_start(hold, NULL, op);
}

/* -------------------------------------------------------------- Handing over */

/* Nobody else would, and a grant that is not claimed counts against this client. */
static hf_status claim_now(hf_hold *hold) {
    hf_client_lock(hold->client);
    bool pushed = hold->pushed;
    int64_t ms = hf_hold_claim_ms(hold);
    hf_client_unlock(hold->client);
    return pushed ? renew(hold, ms, HF_RENEW_LONGER) : HF_OK;
}

/* "hf1 <hold id> <x or s><fence> <owner>" */
hf_status hf_hold_hand_over(hf_hold *hold, void *token, size_t capacity, size_t *token_len_out) {
    char head[64];
    if (token == NULL || token_len_out == NULL)
        return hf_fail(HF_EINVAL, "token or token_len_out is NULL");
    hf_status status = check_held(hold);
    if (status != HF_OK)
        return status;
    int length = snprintf(head, sizeof head, "hf1 %s %c%lld ", hold->id,
                          hold->mode == HF_MODE_SHARED ? 's' : 'x', (long long)hold->fence);
    *token_len_out = (size_t)length + hold->owner_length;
    if (*token_len_out > capacity)
        return hf_fail(HF_EINVAL, "the token has %zu bytes: the buffer is too small",
                       *token_len_out);
    memcpy(token, head, (size_t)length);
    memcpy((char *)token + length, hold->owner, hold->owner_length);
    status = claim_now(hold);
    if (status != HF_OK)
        return status;
    hf_client_lock(hold->client);
    status = leave_locked(hold, HF_NEVER, "handed over"); /* the other side knows of no doubt */
    hf_client_unlock(hold->client);
    return status;
}

/* Where the owner begins in the token; 0: it is none. */
static size_t read_token(const void *token, size_t length, char *id, bool *shared, int64_t *fence) {
    char text[64] = "", mode[2];
    long long number;
    int head = 0;
    if (token == NULL)
        return 0;
    memcpy(text, token, length < sizeof text - 1 ? length : sizeof text - 1);
    if (sscanf(text, "hf1 %32[0-9a-f] %1[xs]%16lld%n", id, mode, &number, &head) != 3 ||
        strlen(id) != HF_ID_LENGTH || number < 1 || text[head] != ' ' ||
        length < (size_t)head + 2 || length > (size_t)head + 1 + HF_OWNER_MAX)
        return 0;
    *shared = *mode == 's';
    *fence = number;
    return (size_t)head + 1;
}

/* Renew it, and only then count on it. */
static hf_status adopt(hf_hold *hold) {
    hf_client *client = hold->client;
    hf_client_lock(client);
    hf_status status = hf_hold_equip_locked(hold);
    hf_client_unlock(client);
    if (status == HF_OK)
        status = renew(hold, hold->validity.lease_ms, HF_RENEW_LONGER);
    if (status != HF_OK)
        return status;
    hf_client_lock(client);
    status = hf_table_add_locked(client, hold, false);
    if (status == HF_OK) {
        hf_renewal_first_locked(hold);
        hold->counts_since = hf_now();
    }
    hf_client_unlock(client);
    return status;
}

hf_status hf_lock_adopt(hf_lock *lock, const void *token, size_t token_len, hf_hold **hold_out) {
    char id[HF_ID_LENGTH + 1];
    int64_t fence;
    bool shared;
    if (hold_out != NULL)
        *hold_out = NULL;
    if (lock == NULL || hold_out == NULL)
        return hf_fail(HF_EINVAL, "a handle is NULL");
    hf_status status = hf_client_check(lock->client);
    if (status != HF_OK)
        return status;
    size_t at = read_token(token, token_len, id, &shared, &fence);
    if (at == 0)
        return hf_fail(HF_EINVAL, "that is not the token of a hold that was handed over");
    if (shared != (lock->mode == HF_MODE_SHARED))
        return hf_fail(HF_EINVAL, "that is the token of %s hold, and this lock's are %s",
                       shared ? "a shared" : "an exclusive", shared ? "exclusive" : "shared");
    hf_hold *hold =
        hf_hold_new(lock->client, lock->names, (const char *)token + at, token_len - at);
    if (hold == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    hf_lock_configure(lock, hold, lock->lease_ms, lock->renew);
    memcpy(hold->id, id, sizeof id);
    HF_MARK("M4");
    hold->bury = true; /* what the other process sent is not known here */
    hf_hold_begin(hold, fence, hf_now(), 0);
    hf_validity_extends(&hold->validity, HF_LEASE_MAX);
    status = adopt(hold);
    if (status == HF_OK)
        *hold_out = hold;
    else
        hf_hold_drop(hold);
    return status;
}

void hf_hold_close(hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return;
    hf_client *client = hold->client;
    hf_client_lock(client);
    /* Nobody can release it any more: it is not renewed either. A client that is being
     * closed sees to its holds itself. */
    if (hf_hold_is_listed(hold) && !hold->kept && !client->closed) {
        if (hold->pushed && hold->state == HF_STATE_HELD) /* it has its whole lease */
            hf_hold_claim_locked(hold, hf_now());
        hf_table_remove_locked(client, hold);
        hf_hold_drop(hold); /* the handle's is left */
    }
    hf_client_unlock(client);
    hf_hold_drop(hold);
}

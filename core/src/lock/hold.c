#include "lock/hold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"
#include "lock/lock.h"
#include "lock/outcome.h"
#include "lock/quorum.h"
#include "lock/renewal.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "lock/waiting.h"

int hf_hold_cause(const hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return HF_CAUSE_NONE;
    HF_HOLDING_CLIENT(hold->client);
    bool over = hold->cause == HF_CAUSE_NONE && hf_hold_state_now(hold, hf_now()) == HF_STATE_LOST;
    return over ? hf_loss_cause(hold) : hold->cause;
}

size_t hf_hold_votes(const hf_hold *hold, size_t *masters_out) {
    size_t votes = 0, masters = 1;
    if (hold != NULL && !hf_client_inherited(hold->client)) {
        HF_HOLDING_CLIENT(hold->client);
        if (hold->client->quorum != NULL) {
            masters = hold->client->quorum->count;
            votes = hold->client->quorum->ways->votes(hold);
        } else {
            votes = hf_hold_state_now(hold, hf_now()) == HF_STATE_HELD;
        }
    }
    if (masters_out != NULL)
        *masters_out = masters;
    return votes;
}

/* ------------------------------------------------------------- Operations */

typedef enum {
    OVER,   /* it has ended with `status`, which this thread's message explains */
    AGAIN,  /* it has made another request, to be sent */
    UNCLEAR /* it is refused: over, as soon as the message names the missing permission */
} verdict;

/* One operation on a hold: its requests, and the effects of their answers. The steps are the same
 * whether the calling thread sends the requests (run()) or the keeper does (start()). */
typedef struct operation {
    hf_hold *hold;
    hf_round_kind round; /* what it does, also at a single master */
    int64_t deadline;    /* on the calling thread; 0: the client's patience, from its start */
    hf_request *request; /* the next request */
    bool doubtful;       /* a copy of one of its requests has no answer */
    hf_status status;    /* its result */
    /* Called with the mutex. Begin: make the first request; after any status but HF_OK there is
     * none. */
    hf_status (*begin)(struct operation *mine);
    verdict (*answered)(struct operation *mine, hf_status status, const redisReply *reply,
                        int64_t sent_at);
    /* Called at the end of a started operation, in place of a completion; or NULL. */
    void (*over)(void *context, bool gone);
    void *context;
    hf_news *news; /* of a started operation */

    /* Of a release: */
    const hf_leaving *left; /* until it has begun */
    char how;               /* the end of its call: hf_leaving; or 0 */
    bool says_more;         /* it reports the outcome of a call: no cheaper request may take its
                             * place */
    bool unknown;           /* the caller never had the hold, and so cannot lose it */
    bool drops;             /* the request has the cheapest form */
    bool owed;              /* the client is closed: this thread undoes the hold itself */
    int state;              /* the former state of the hold */
    hf_hold *other;         /* a hold that it was joined with, with a reference; or NULL */
    hf_task *spare;         /* sends the outcome of a call if there is no memory later; or NULL */
    hf_release_outcome outcome;
    /* Of a renewal: */
    int64_t duration_ms; /* from the caller */
    bool releases;       /* by a release, which ends a lost hold, too */
    int64_t lease_ms;    /* the lease requested */
    hf_renew_mode mode;
    /* At several masters: */
    int64_t floor; /* of a confirmation */
    hf_error *why; /* the error of a calling thread, which waits until `settled` is 1; NULL: it was
                    * started */
    int settled;
} operation;

/* Return whether its time replaces the time left. */
static bool replaces(const operation *mine) {
    return mine->round == HF_ROUND_REPLACE || mine->round == HF_ROUND_KEEP;
}

static void drop_operation(operation *mine) {
    hf_hold_drop(mine->other);
    hf_news_free(mine->news);
    if (mine->spare != NULL)
        hf_task_free(mine->spare);
}

/* Send the requests on this thread. */
static hf_status run(operation *mine) {
    hf_client *client = mine->hold->client;
    verdict next = AGAIN;
    while (next == AGAIN) {
        hf_answer answer;
        hf_status status =
            hf_transport_call(client->transport, mine->request, mine->deadline, &answer);
        mine->doubtful = mine->doubtful || answer.doubtful;
        hf_client_lock(client);
        next = mine->answered(mine, status, answer.reply, answer.sent_at);
        hf_client_unlock(client);
        freeReplyObject(answer.reply);
    }
    if (next == UNCLEAR)
        hf_transport_explain(client->transport, mine->request, mine->deadline);
    if (mine->owed)
        hf_undo_now(mine->hold, mine->says_more ? mine->request : NULL, mine->deadline);
    hf_request_free(mine->request);
    return mine->status;
}

static hf_status ask_masters(operation *mine);
static hf_status poll_masters(operation *mine);

static hf_status perform_here(operation *mine) {
    hf_request request;
    if (mine->hold->client->quorum != NULL)
        return ask_masters(mine);
    mine->request = &request;
    hf_client_lock(mine->hold->client);
    hf_status status = mine->begin(mine);
    hf_client_unlock(mine->hold->client);
    if (mine->deadline == 0) /* from here on, though the mutex was waited for */
        mine->deadline = hf_client_patience(mine->hold->client);
    if (status == HF_OK)
        status = run(mine);
    drop_operation(mine);
    return status;
}

/* Return whether a release with that status has left nothing on the server. */
static bool is_gone(hf_status status) {
    return status == HF_OK || status == HF_ELOST || status == HF_ENOTHELD;
}

/* Report the end of a started operation. */
static void tell_locked(operation *mine) {
    if (mine->over != NULL) {
        mine->over(mine->context, is_gone(mine->status));
        return;
    }
    hf_ended_locked(mine->hold->client, &mine->news, mine->status, NULL);
    if (mine->releases && mine->status == HF_ELOST)
        hf_hold_give_up_locked(mine->hold);
}

/* An operation that the keeper carries out, by this task or with all masters. */
typedef struct started {
    hf_task task;
    operation operation; /* with a reference of its hold */
    bool unclear;        /* it is over, and the server is asked for the missing permission */
} started;

static void drop_started(hf_task *task) {
    started *mine = HF_OF(started, task, task);
    drop_operation(&mine->operation);
    hf_hold_drop(mine->operation.hold);
}

static void started_answered(hf_task *task, hf_status status, const redisReply *reply) {
    started *mine = HF_OF(started, task, task);
    operation *op = &mine->operation;
    verdict next = OVER;
    op->doubtful = op->doubtful || task->course.doubtful;
    if (!mine->unclear)
        next = op->answered(op, status, reply, task->sent_at);
    task->again = next == AGAIN;
    mine->unclear = task->unclear = next == UNCLEAR;
    if (next == OVER)
        tell_locked(op);
}

static hf_status start_locked(const operation *given, int64_t number) {
    hf_client *client = given->hold->client;
    bool ends = given->round == HF_ROUND_RELEASE || given->round == HF_ROUND_KEEP;
    hf_completion completion = {.kind = ends ? HF_KIND_RELEASE : HF_KIND_RENEWAL,
                                .hold_number = given->hold->number};
    hf_news *news = hf_news_new(&completion);
    hf_task *task = hf_task_new(sizeof(started), NULL, started_answered, drop_started);
    if (news == NULL || task == NULL) {
        free(news);
        free(task);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    operation *mine = &HF_OF(started, task, task)->operation;
    *mine = *given;
    mine->news = news;
    mine->request = &task->request;
    task->explains = true;
    hf_hold_grab(given->hold);
    hf_status status = mine->over == NULL ? hf_started_locked(client, number, news) : HF_OK;
    if (status == HF_OK)
        status = client->quorum != NULL ? poll_masters(mine) : mine->begin(mine);
    if (status != HF_OK)
        hf_task_free(task);
    else if (client->quorum == NULL)
        hf_task_submit(&client->links, task, hf_client_patience(client));
    return status;
}

/* Perform the operation on this thread if there is no number, otherwise by the keeper. */
static hf_status perform(operation *mine, int64_t number) {
    if (number == HF_ON_THIS_THREAD)
        return perform_here(mine);
    if (number < 1)
        return hf_fail(HF_EINVAL, "the operation's number must be above 0");
    HF_HOLDING_CLIENT(mine->hold->client);
    return start_locked(mine, number);
}

/* --------------------------------------------------------------- Release */

/* During a hold that lasts longer than this, in ns, a waiter may well have come: then the
 * general release costs less than a second request. */
#define YOUNG (1 * HF_MS)

/* End the hold locally, before the request is sent. Return its former state. */
static int end_locked(hf_hold *hold, int64_t now) {
    int state = hf_hold_state_now(hold, now);
    if (state == HF_STATE_RELEASED) { /* perhaps by the close, which has it in a list of its own */
        HF_MARK("H40");
        return state;
    }
    if (state == HF_STATE_LOST && hold->state == HF_STATE_HELD) { /* before a renewal noticed */
        hold->cause = hf_loss_cause(hold);
        hf_hold_count_loss_locked(hold, now);
        hf_hold_lose_others_locked(hold, hold->cause);
    }
    hf_hold_count_end_locked(hold, now);
    if (state == HF_STATE_LOST && hold->pushed)
        hf_queue_recheck_locked(hold->client, hold->names);
    hold->state = HF_STATE_RELEASED;
    if (hf_hold_is_listed(hold)) {
        hf_table_remove_locked(hold->client, hold);
        hf_hold_drop(hold); /* the handle's, the op's or the task's reference is left */
    }
    return state;
}

/* Return the status of a release. */
static hf_status release_status(const operation *mine, hf_status status) {
    const hf_hold *hold = mine->hold;
    if (mine->how != '\0' && status == HF_ENOMEM) /* it goes on in the background */
        return hf_transport_unknown(hold->client->transport);
    if (mine->how != '\0' && status == HF_OK && mine->outcome != HF_RELEASE_NONSENSE)
        return hf_once_finished(hold, mine->how, mine->outcome);
    if (mine->state == HF_STATE_LOST && mine->how == '\0')
        return hf_hold_explain_lost(hold, HF_HOW_LOST);
    if (status != HF_OK)
        return status;
    switch (mine->outcome) {
    case HF_RELEASE_NONSENSE:
        return hf_unexpected("release");
    case HF_RELEASE_NOT_HELD:
    case HF_RELEASE_KEPT: /* its mark is withdrawn */
        break;
    case HF_RELEASE_SPLIT:
        HF_MARK("H24");
        return hf_fail(HF_EUNKNOWN,
                       "the keys of lock %s are being moved between two servers; the client goes "
                       "on releasing it in the background",
                       hf_names_quoted(hold->names));
    default:
        return HF_OK;
    }
    if (!mine->doubtful)
        return HF_ELOST;
    HF_MARK("C2");
    /* An earlier copy may have released the hold, and did so if the lease still ran. */
    if (hf_now() < hold->validity.deadline)
        return HF_OK;
    return hf_fail(HF_EUNKNOWN,
                   "the hold of lock %s ended by an earlier try to release it, or was lost just "
                   "before",
                   hf_names_quoted(hold->names));
}

/* Count a release. A hold that was lost before is counted already; a hold that the server forgot is
 * lost now, and the joined holds with it, unless its lease ended while the release was on its
 * way. */
static void count_release_locked(const operation *mine) {
    hf_tally *tally = mine->hold->terms.counting.tally;
    if (mine->how != '\0')
        hf_count_finish_locked(tally, mine->how, mine->status);
    if (mine->state != HF_STATE_HELD)
        return;
    if (mine->status == HF_OK || mine->outcome == HF_RELEASE_REFUSED)
        tally->stats.released++;
    else if (mine->status == HF_ELOST) {
        hf_hold_count_cause_locked(mine->hold);
        if (mine->other != NULL && mine->hold->cause == HF_CAUSE_GONE)
            hf_hold_lose_left_locked(mine->other, HF_CAUSE_GONE);
    }
}

static void release_request(hf_request *request, const hf_hold *hold, const hf_leaving *left,
                            bool again) {
    hf_leaving not_made = hf_once_not_made(hold);
    hf_ask ask = hf_hold_ask(hold);
    if (left == NULL && hf_once_is_unmarked(hold))
        left = &not_made;
    if (left == NULL) {
        hf_hold_release_request(request, hold, again);
        return;
    }
    hf_request_finish(request, hold->names, &ask, hold->fence, hold->out > 0, left);
    request->hands_on = hold->waited;
}

/* Make the request that releases the hold in its cheapest form, if this client knows of no more
 * work there. False: there is no such request. */
static bool drop_request(hf_request *request, const hf_hold *hold, int64_t now) {
    bool shared = hold->terms.mode == HF_MODE_SHARED;
    if (hold->out > 0 || hold->waited || now - hold->began_at > YOUNG ||
        (shared ? hold->company == HF_COMPANY_UNKNOWN : hold->one_of_many))
        return false;
    if (hold->company == HF_COMPANY_OTHERS)
        hf_request_drop_one(request, hold->names, hold->id, hold->fence);
    else
        hf_request_drop(request, hold->names, hold->id, hold->fence, shared);
    return true;
}

/* Make all that the outcome of a call needs, before its hold ends: otherwise a failure would leave
 * the call without an outcome. False: no memory. */
static bool prepare_outcome(operation *mine) {
    release_request(mine->request, mine->hold, mine->left, false);
    return mine->spare != NULL && !mine->request->encoded.failed;
}

/* End the hold locally first, and on the server afterwards. */
static hf_status begin_release(operation *mine) {
    hf_hold *hold = mine->hold;
    const hf_leaving *left = mine->left;
    int64_t now = hf_now();
    mine->says_more = left != NULL || hf_once_is_unmarked(hold);
    if (mine->says_more)
        mine->spare = hf_undo_spare(hold);
    if (left != NULL && !prepare_outcome(mine)) {
        hf_request_free(mine->request);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    mine->other = hold->joined != NULL ? hf_hold_grab(hold->joined) : NULL;
    if (mine->unknown)
        hf_hold_count_end_locked(hold, now);
    mine->how = left != NULL ? left->how : '\0';
    mine->state = end_locked(hold, now);
    if (mine->state == HF_STATE_RELEASED && left != NULL)
        hf_request_free(mine->request);
    if (mine->state == HF_STATE_RELEASED)
        return hf_hold_explain_not_held(hold);
    if (left != NULL || hold->client->quorum != NULL) /* the masters' clients send the requests */
        return HF_OK;
    /* Not for a started release: a close that sends it would not send the general request
     * afterwards. */
    mine->drops = mine->news == NULL && !mine->says_more &&
                  !hf_waiting_expected_locked(hold->client, hold->names) &&
                  !HF_UNUSUAL("releases in general") && drop_request(mine->request, hold, now);
    if (!mine->drops)
        release_request(mine->request, hold, left, false);
    return HF_OK;
}

/* Do what follows a release, with or without an answer. */
static void settle_release(operation *mine, hf_status status) {
    hf_hold *hold = mine->hold;
    bool gone = mine->outcome == HF_RELEASE_NOT_HELD || mine->outcome >= HF_RELEASE_KEPT;
    if (mine->outcome == HF_RELEASE_MORE)
        hf_kick_locked(hold->client, hold->names);
    if (status != HF_OK && mine->says_more) /* the outcome is not reported until there is an
                                             * answer */
        mine->owed = !hf_undo_insist_locked(hold, mine->request, &mine->spare);
    else if (status != HF_OK || mine->outcome == HF_RELEASE_SPLIT)
        mine->owed = !hf_undo_locked(hold); /* its hold is undone until its lease would have
                                             * ended */
    if (hold->out > 0)
        hf_undo_remember_locked(hold->client, hold->names, hold->id);
    /* A late copy of its acquire may have begun it again, under another fence. */
    if (hold->out > 0 && gone)
        hf_undo_id_locked(hold);
    /* A grant that ended before its release took away the places of this client's other waiters. */
    if (hold->pushed && gone)
        hf_queue_recheck_locked(hold->client, hold->names);
    mine->status = release_status(mine, status);
    if (mine->status == HF_ELOST && mine->state == HF_STATE_HELD) {
        hold->cause = hf_gone_cause(hold);
        hf_hold_count_loss_locked(hold, hf_now()); /* its end is counted: this sets the reason */
        hf_hold_explain_lost(hold, HF_HOW_LOST);
    }
    hf_error error = *hf_error_last(); /* of this hold, not of the holds joined with it */
    if (!mine->unknown)
        count_release_locked(mine);
    hf_error_set(&error);
}

static verdict released(operation *mine, hf_status status, const redisReply *reply,
                        int64_t sent_at) {
    (void)sent_at;
    mine->outcome = status == HF_OK ? hf_reply_release(reply) : HF_RELEASE_NONSENSE;
    if (mine->drops && (status == HF_ESERVER || mine->outcome == HF_RELEASE_NOT_HELD ||
                        mine->outcome == HF_RELEASE_SPLIT)) {
        HF_MARK("C20");
        mine->drops = false;
        hf_request_free(mine->request);
        release_request(mine->request, mine->hold, NULL, false);
        return AGAIN;
    }
    settle_release(mine, status);
    return OVER;
}

#define RELEASE_OF(given)                                                                          \
    .hold = (given), .round = HF_ROUND_RELEASE, .begin = begin_release, .answered = released

hf_status hf_hold_leave(hf_hold *hold, const hf_leaving *left, int64_t number, int64_t deadline) {
    operation mine = {RELEASE_OF(hold), .left = left, .deadline = deadline};
    hf_status status = hf_client_check(hold != NULL ? hold->client : NULL);
    return status == HF_OK ? perform(&mine, number) : status;
}

void hf_hold_give_up_locked(hf_hold *hold) {
    hf_hold_count_end_locked(hold, hf_now());
    if (end_locked(hold, hf_now()) != HF_STATE_RELEASED)
        hf_undo_locked(hold);
}

bool hf_hold_give_up(hf_hold *hold, bool answers, int64_t deadline) {
    bool gone = false;
    if (hf_client_inherited(hold->client)) /* a handler has forked since its acquire */
        return false;
    hf_error error = *hf_error_last();
    if (answers) {
        operation mine = {RELEASE_OF(hold), .unknown = true, .deadline = deadline};
        gone = is_gone(perform_here(&mine));
    } else {
        HF_HOLDING_CLIENT(hold->client);
        hf_hold_give_up_locked(hold);
    }
    hf_error_set(&error);
    return gone;
}

bool hf_hold_give_up_start_locked(hf_hold *hold, void (*over)(void *context, bool gone),
                                  void *context) {
    operation mine = {RELEASE_OF(hold), .unknown = true, .over = over, .context = context};
    return start_locked(&mine, 0) == HF_OK;
}

/* ----------------------------------------------------------------- Renew */

void hf_hold_claimed_locked(hf_hold *hold, hf_renew_mode mode, int64_t sent_at, int64_t left_ms) {
    if (mode == HF_RENEW_LONGER && left_ms >= HF_TTL_NONE)
        hf_hold_shown_locked(hold, sent_at);
    if (hold->state != HF_STATE_HELD)
        return;
    if (left_ms == HF_RENEWAL_GONE && hf_hold_is_listed(hold)) {
        hf_hold_lose_gone_locked(hold);
    } else if (left_ms == HF_RENEWAL_GONE) { /* it is being adopted */
        hold->state = HF_STATE_LOST;
        hold->why = HF_WHY_GONE;
    } else if (left_ms >= HF_TTL_NONE) {
        /* A hold that is not in the table yet has no deadline that could have passed. */
        if (!hf_hold_is_listed(hold) || hf_now() < hold->validity.deadline)
            hf_renewal_counts_locked(hold, mode, sent_at, left_ms);
        hf_renewal_plan_locked(hold);
    }
}

/* Return the status of a renewal. */
static hf_status renewal_status(hf_hold *hold, hf_status status, bool good, int64_t left_ms) {
    if (status != HF_OK)
        return status;
    if (!good)
        return hf_unexpected("renew");
    if (left_ms == HF_RENEWAL_REFUSED || left_ms == HF_RENEWAL_MANY)
        return hf_hold_explain_refused(hold);
    return hf_hold_explain_state(hold, hf_hold_state_now(hold, hf_now()),
                                 "its lease ended before the answer came");
}

static void renewal_request(hf_request *request, const hf_hold *hold, int64_t lease_ms,
                            hf_renew_mode mode) {
    hf_renewal renewal = hf_hold_renewal(hold, lease_ms, mode);
    /* Where slots can move, a request must not name a key that may not be needed. */
    if (!hf_discovery_clustered(hold->client->transport->discovery))
        renewal.one_of_many = true;
    if (hold->pushed && mode == HF_RENEW_LONGER) /* otherwise its mark would stay */
        hf_request_claim(request, &renewal, hold->client->id, false);
    else
        hf_request_renew(request, &renewal, 1);
}

size_t hf_hold_last_requests(hf_request *requests, const hf_hold *hold) {
    int64_t left_ms = hf_until(hold->keeps_until, hf_now());
    hf_ask ask = hf_hold_ask(hold);
    bool keeps = left_ms >= HF_LEASE_MIN, buries = keeps && hold->out > 0;
    if (buries) /* first: a kept hold has another id, and a copy might begin this id beside it */
        hf_request_cancel(requests++, hold->names, &ask, true);
    if (keeps)
        renewal_request(requests, hold, left_ms, HF_RENEW_KEEP);
    else
        release_request(requests, hold, NULL, true);
    return 1 + buries;
}

static hf_status check_held(const hf_hold *hold) {
    hf_status status = hf_client_check(hold != NULL ? hold->client : NULL);
    return status == HF_OK ? hf_hold_explain_state(hold, hf_hold_state(hold), HF_HOW_LOST) : status;
}

static hf_status check_extension(const hf_hold *hold, int64_t duration_ms, uint32_t flags) {
    bool replace = (flags & HF_EXTEND_REPLACE) != 0;
    if ((flags & ~HF_EXTEND_REPLACE) != 0)
        return hf_fail(HF_EINVAL, "the flags of an extension have an unknown bit");
    if (!(replace && duration_ms == HF_NEVER) &&
        (duration_ms < HF_LEASE_MIN || duration_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL, "extend by %lld ms: it takes 10 ms to 10 years",
                       (long long)duration_ms);
    hf_status status = check_held(hold);
    if (status == HF_OK && replace && duration_ms == HF_NEVER && hold->terms.max_hold_ms > 0)
        return hf_fail(HF_EINVAL, "max_hold needs a lease that ends");
    if (status == HF_OK && hold->client->quorum != NULL && replace)
        return hf_quorum_check_lease(hold->client, duration_ms, "an extension");
    if (status == HF_OK && hold->client->quorum != NULL)
        return hf_quorum_check_lease(hold->client, duration_ms + hf_hold_remaining_ms(hold),
                                     "an extension to a lease");
    return status;
}

/* Let no copy of its acquire that is under way begin another hold; kept: and end a hold that a copy
 * has begun beside the kept hold, which has another id by now. False: no memory. */
static bool bury_locked(const hf_hold *hold, bool kept) {
    hf_ask ask = hf_hold_ask(hold);
    return hold->out == 0 || hf_undo_bury_locked(hold->client, hold->names, &ask, kept);
}

/* End the hold locally, and leave it on the server: for duration_ms, or for the rest of its
 * lease. */
static hf_status leave_locked(hf_hold *hold, int64_t duration_ms, const char *how) {
    bool kept = duration_ms != HF_NEVER;
    if (hf_validity_is_doubtful(&hold->validity, duration_ms)) { /* no renewal would notice */
        HF_MARK("M21");
        return hf_fail(HF_EUNKNOWN,
                       "the hold of lock %s cannot be %s: it may still be cut short, by an "
                       "extension that has no answer",
                       hf_names_quoted(hold->names), how);
    }
    if (!bury_locked(hold, kept)) { /* no thread does, if the client is being closed */
        hf_status status = hf_client_check(hold->client);
        return status != HF_OK ? status : hf_fail(HF_ENOMEM, "no memory");
    }
    int state = end_locked(hold, hf_now());
    if (state == HF_STATE_LOST) /* perhaps through a joined hold: the server would keep it */
        hf_undo_locked(hold);
    if (state == HF_STATE_HELD) /* kept, or handed over */
        hold->terms.counting.tally->stats.kept += kept;
    return hf_hold_explain_state(hold, state, "its lease ended");
}

/* ---------------------------------------------- First and further requests */

static hf_status ask_to_renew(operation *mine, int64_t lease_ms, hf_renew_mode mode) {
    mine->lease_ms = lease_ms;
    mine->mode = mode;
    renewal_request(mine->request, mine->hold, lease_ms, mode);
    return HF_OK;
}

static hf_status begin_renewal(operation *mine) {
    return ask_to_renew(mine, mine->hold->validity.lease_ms,
                        mine->round == HF_ROUND_LOOK ? HF_RENEW_LOOK : HF_RENEW_LONGER);
}

static hf_status begin_claim(operation *mine) {
    return ask_to_renew(mine, hf_hold_claim_ms(mine->hold), HF_RENEW_LONGER);
}

static hf_status begin_lengthening(operation *mine) {
    hf_validity_extends(&mine->hold->validity, hf_now(), mine->duration_ms);
    return ask_to_renew(mine, mine->duration_ms, HF_RENEW_LONGER);
}

/* Begin an extension, or a replacement. A hold that was just released, or handed over, must not be
 * shortened. */
static hf_status begin_extension(operation *mine) {
    hf_validity *validity = &mine->hold->validity;
    int64_t now = hf_now();
    if (mine->hold->state == HF_STATE_RELEASED)
        return hf_hold_explain_not_held(mine->hold);
    if (replaces(mine)) {
        hf_validity_replaces(validity, now, mine->duration_ms);
        hf_renewal_next_locked(mine->hold, now);
        return ask_to_renew(mine, mine->duration_ms,
                            mine->round == HF_ROUND_KEEP ? HF_RENEW_KEEP : HF_RENEW_EXACTLY);
    }
    if (validity->deadline == HF_NO_DEADLINE)
        return ask_to_renew(mine, HF_NEVER, HF_RENEW_LOOK);
    /* Add to the time left now, once: a request that is sent twice must not add twice. */
    mine->duration_ms =
        hf_earlier(mine->duration_ms + hf_until(validity->deadline, now), HF_LEASE_MAX);
    return begin_lengthening(mine);
}

/* Begin a keep. A grant is claimed first: its mark would stay, and count against this client. */
static hf_status begin_keep(operation *mine) {
    bool claims = mine->hold->pushed && mine->hold->state != HF_STATE_RELEASED;
    mine->hold->keeps_until = hf_after(hf_now(), mine->duration_ms);
    return claims ? begin_claim(mine) : begin_extension(mine);
}

static verdict renewed(operation *mine, hf_status status, const redisReply *reply,
                       int64_t sent_at) {
    hf_hold *hold = mine->hold;
    int64_t left_ms = HF_RENEWAL_REFUSED;
    bool good = status == HF_OK && hf_reply_renewal(reply, &left_ms);
    bool replaced = mine->mode == HF_RENEW_EXACTLY || mine->mode == HF_RENEW_KEEP;
    if (good && hf_renewal_learns_many_locked(hold, left_ms)) {
        hf_request_free(mine->request);
        ask_to_renew(mine, mine->lease_ms, mine->mode);
        return AGAIN;
    }
    if (replaced) {
        if (mine->doubtful)
            hf_validity_doubts(&hold->validity, mine->lease_ms);
        hf_validity_replaced(&hold->validity, hf_now(), sent_at, left_ms);
        hf_renewal_shortened_locked(hold);
    }
    if (left_ms >= HF_TTL_NONE)
        hold->shown_at = hf_now();
    if (!replaced || left_ms == HF_RENEWAL_GONE)
        hf_hold_claimed_locked(hold, mine->mode, sent_at, left_ms);
    mine->status = renewal_status(hold, status, good, left_ms);
    if (good && left_ms == HF_RENEWAL_REFUSED)
        return UNCLEAR;
    if (mine->round != HF_ROUND_KEEP || mine->status != HF_OK)
        return OVER;
    if (mine->mode == HF_RENEW_KEEP) {
        mine->status = leave_locked(mine->hold, mine->duration_ms, "kept");
        return OVER;
    }
    hf_request_free(mine->request); /* of the claim */
    mine->status = begin_extension(mine);
    return mine->status == HF_OK ? AGAIN : OVER;
}

static verdict kept(operation *mine, hf_status status, const redisReply *reply, int64_t sent_at) {
    verdict next = renewed(mine, status, reply, sent_at);
    bool open = mine->status == HF_EUNKNOWN || mine->status == HF_ECONNECT;
    bool gone = mine->status == HF_ELOST || mine->status == HF_ENOTHELD;
    bool is_vote = mine->hold->tag[0] != '\0'; /* a vote counts only where it may have been kept */
    bool over = is_vote ? !open && mine->status != HF_OK : gone;
    if (next != AGAIN && over && !mine->hold->client->closed)
        mine->hold->keeps_until = 0; /* otherwise a close asks for it once more */
    return next;
}

static hf_status perform_held(operation *mine, int64_t number) {
    hf_status status = check_held(mine->hold);
    mine->answered = mine->round == HF_ROUND_KEEP ? kept : renewed;
    return status == HF_OK ? perform(mine, number) : status;
}

hf_status hf_hold_renew_by(hf_hold *hold, int64_t deadline) {
    operation mine = {
        .hold = hold, .round = HF_ROUND_RENEW, .begin = begin_renewal, .deadline = deadline};
    return perform_held(&mine, HF_ON_THIS_THREAD);
}

static hf_status renew(hf_hold *hold, hf_round_kind round, int64_t number) {
    operation mine = {.hold = hold, .round = round, .begin = begin_renewal};
    return perform_held(&mine, number);
}

static hf_status extend(hf_hold *hold, int64_t duration_ms, uint32_t flags, int64_t op) {
    bool replace = (flags & HF_EXTEND_REPLACE) != 0;
    operation mine = {.hold = hold,
                      .round = replace ? HF_ROUND_REPLACE : HF_ROUND_EXTEND,
                      .begin = begin_extension,
                      .duration_ms = duration_ms};
    hf_status status = check_extension(hold, duration_ms, flags);
    return status == HF_OK ? perform_held(&mine, op) : status;
}

hf_status hf_hold_renew(hf_hold *hold) { return renew(hold, HF_ROUND_RENEW, HF_ON_THIS_THREAD); }

hf_status hf_hold_renew_start(hf_hold *hold, int64_t op) {
    return renew(hold, HF_ROUND_RENEW, hf_given_number(op));
}

hf_status hf_hold_check(hf_hold *hold) { return renew(hold, HF_ROUND_LOOK, HF_ON_THIS_THREAD); }

hf_status hf_hold_check_start(hf_hold *hold, int64_t op) {
    return renew(hold, HF_ROUND_LOOK, hf_given_number(op));
}

hf_status hf_hold_extend(hf_hold *hold, int64_t duration_ms, uint32_t flags) {
    return extend(hold, duration_ms, flags, HF_ON_THIS_THREAD);
}

hf_status hf_hold_extend_start(hf_hold *hold, int64_t duration_ms, uint32_t flags, int64_t op) {
    return extend(hold, duration_ms, flags, hf_given_number(op));
}

/* -------------------------------------------------------- Several masters */

/* Ask for a vote again, with a floor. A lost hold is not asked for: its id may not be dead, and its
 * master would begin it anew. */
static hf_status begin_confirmation(operation *mine) {
    hf_ask ask = hf_hold_ask(mine->hold);
    int state = hf_hold_state_now(mine->hold, hf_now());
    if (state != HF_STATE_HELD)
        return hf_hold_explain_state(mine->hold, state, HF_HOW_LOST);
    mine->hold->out++;
    hf_request_acquire(mine->request, mine->hold->names, &ask, 1, mine->floor);
    return HF_OK;
}

static verdict was_confirmed(operation *mine, hf_status status, const redisReply *reply,
                             int64_t sent_at) {
    hf_hold *hold = mine->hold;
    hf_standing standing;
    hf_look look;
    (void)sent_at;
    if (!mine->doubtful && hold->out > 0)
        hold->out--;
    if (status == HF_OK && !hf_reply_acquire(reply, &look, &standing, 1))
        status = hf_unexpected("acquire");
    mine->status = status;
    if (status != HF_OK)
        return OVER;
    bool stands = standing.state == HF_STANDS_HELD, counts = hold->state == HF_STATE_HELD;
    if (stands && standing.fence == hold->fence) {
        mine->status = counts ? HF_OK : hf_hold_explain_not_held(hold);
        return OVER;
    }
    if (stands && counts)
        hold->out++; /* it was begun anew: a hold with its id is given back */
    if (counts && hf_hold_is_listed(hold))
        hf_hold_lose_gone_locked(hold);
    mine->status = hf_hold_explain_lost(hold, "the server no longer knows it");
    return OVER;
}

hf_status hf_hold_lengthen_start(hf_hold *hold, int64_t duration_ms, int64_t op) {
    operation mine = {.hold = hold,
                      .round = HF_ROUND_RENEW,
                      .begin = begin_lengthening,
                      .duration_ms = duration_ms};
    return perform_held(&mine, op);
}

hf_status hf_hold_confirm_start(hf_hold *hold, int64_t floor, int64_t op) {
    operation mine = {.hold = hold,
                      .round = HF_ROUND_RENEW,
                      .begin = begin_confirmation,
                      .answered = was_confirmed,
                      .floor = floor};
    return perform(&mine, op);
}

/* Take the result of the majority of its votes. */
static void settle_masters(operation *mine, hf_status status) {
    hf_hold *hold = mine->hold;
    bool gone = status == HF_ELOST;
    if (mine->round == HF_ROUND_RELEASE) { /* as if one server had answered */
        redisReply reply = {.type = REDIS_REPLY_INTEGER, .integer = gone ? 0 : 1};
        mine->answered(mine, gone ? HF_OK : status, &reply, hf_now());
        return;
    }
    bool keeps = mine->round == HF_ROUND_KEEP;
    if (keeps && status == HF_OK) {
        mine->status = leave_locked(hold, mine->duration_ms, "kept");
        hold->client->quorum->ways->leave(hold, HF_PARTING_ENDS);
        return;
    }
    if (keeps) /* otherwise it belongs to another thread's keep */
        hold->keeps_until = 0;
    hold->client->quorum->ways->count(hold, mine->round != HF_ROUND_LOOK);
    if (replaces(mine))
        hf_renewal_next_locked(hold, hf_now());
    if (gone && hold->state == HF_STATE_HELD && hf_hold_is_listed(hold))
        hf_hold_lose_locked(hold, HF_CAUSE_GONE);
    mine->status = renewal_status(hold, gone ? HF_OK : status, true, gone ? HF_RENEWAL_GONE : 0);
}

static hf_status begin_masters(operation *mine) {
    hf_hold *hold = mine->hold;
    if (mine->round == HF_ROUND_RELEASE)
        return begin_release(mine);
    if (hold->state == HF_STATE_RELEASED)
        return hf_hold_explain_not_held(hold);
    if (replaces(mine)) {
        hold->validity.lease_ms = mine->duration_ms;
        if (mine->round == HF_ROUND_KEEP)
            hold->keeps_until = hf_after(hf_now(), mine->duration_ms);
        int64_t until = hf_deadline(hf_now(), mine->duration_ms);
        hold->validity.deadline = hf_earlier(hold->validity.deadline, until);
    }
    return HF_OK;
}

static void settled(void *context, hf_status status) {
    operation *mine = context;
    settle_masters(mine, status);
    if (mine->why == NULL) {
        tell_locked(mine);
        hf_task_free(&HF_OF(started, operation, mine)->task);
        return;
    }
    *mine->why = *hf_error_last();
    __atomic_store_n(&mine->settled, 1, __ATOMIC_RELEASE);
    hf_wake(&mine->settled); /* only the address is used: the operation may be gone */
}

/* Start the operation at all masters. HF_OK: it may have ended, and be gone, already. */
static hf_status poll_masters(operation *mine) {
    hf_status status = begin_masters(mine);
    if (status == HF_OK)
        status = mine->hold->client->quorum->ways->poll(mine->hold, mine->round, mine->duration_ms,
                                                        settled, mine);
    if (status != HF_OK && mine->round == HF_ROUND_RELEASE)
        mine->hold->client->quorum->ways->leave(mine->hold, HF_PARTING_BACK);
    else if (status != HF_OK && mine->round == HF_ROUND_KEEP)
        mine->hold->keeps_until = 0;
    return status;
}

/* Perform the operation at all masters, on this thread. The wait is bounded: each of the masters'
 * clients gives up in time. */
static hf_status ask_masters(operation *mine) {
    hf_client *client = mine->hold->client;
    hf_error why;
    mine->why = &why;
    hf_client_lock(client);
    hf_status status = hf_thread_start_locked(client);
    if (status == HF_OK)
        status = poll_masters(mine);
    hf_client_unlock(client);
    while (status == HF_OK && __atomic_load_n(&mine->settled, __ATOMIC_ACQUIRE) == 0)
        hf_sleep_while(&mine->settled, 0, 60000);
    if (status == HF_OK) {
        status = mine->status;
        hf_error_set(&why);
    }
    drop_operation(mine);
    return status;
}

/* ------------------------------------------------------------------ Keep */

static hf_status check_keep(const hf_hold *hold, int64_t duration_ms, const char *how) {
    if (duration_ms < 0 || duration_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL, "keep for %lld ms%s: it takes 0 ms to 10 years",
                       (long long)duration_ms, how);
    return hold != NULL && duration_ms > 0 && hold->client->quorum != NULL
               ? hf_quorum_check_lease(hold->client, duration_ms, "a keep")
               : HF_OK;
}

static hf_status keep(hf_hold *hold, int64_t duration_ms, int64_t op, bool releases) {
    operation mine = {.hold = hold,
                      .round = HF_ROUND_KEEP,
                      .begin = begin_keep,
                      .duration_ms = duration_ms < HF_LEASE_MIN ? HF_LEASE_MIN : duration_ms,
                      .releases = releases};
    hf_status status = check_keep(hold, duration_ms, "");
    if (status != HF_OK)
        return status;
    return duration_ms > 0 ? perform_held(&mine, op) : hf_hold_leave(hold, NULL, op, 0);
}

hf_status hf_hold_keep_start(hf_hold *hold, int64_t duration_ms, int64_t op) {
    return keep(hold, duration_ms, hf_given_number(op), false);
}

hf_status hf_hold_keep(hf_hold *hold, int64_t duration_ms) {
    return keep(hold, duration_ms, HF_ON_THIS_THREAD, false);
}

void hf_hold_take_up(hf_hold *hold) {
    HF_HOLDING_CLIENT(hold->client);
    if (hold->state != HF_STATE_RELEASED || hf_table_add_locked(hold->client, hold, false) != HF_OK)
        return;
    hold->state = HF_STATE_HELD;
    hold->counts_since = hold->renew_at = hf_now();
    hf_renewal_plan_locked(hold);
}

hf_status hf_hold_keep_at_least(hf_hold *hold, int64_t duration_ms) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (hf_client_inherited(hold->client))
        return hf_client_check(hold->client);
    hf_status status = check_keep(hold, duration_ms, " at least");
    if (status != HF_OK)
        return status;
    HF_HOLDING_CLIENT(hold->client);
    hold->least_until = duration_ms > 0 ? hf_after(hold->began_at, duration_ms) : 0;
    return HF_OK;
}

/* How often a release that keeps the lock is tried while its answer is lost. */
#define KEEP_TRIES 3

/* Return for how long a release now would keep the lock; 0: it would not. */
static int64_t least_left_ms(const hf_hold *hold) {
    if (hold == NULL || hf_client_check(hold->client) != HF_OK)
        return 0;
    HF_HOLDING_CLIENT(hold->client);
    int64_t now = hf_now(), left_ms = hf_until(hf_later(hold->least_until, hold->owed_until), now);
    return hf_hold_state_now(hold, now) == HF_STATE_HELD ? left_ms : 0;
}

static hf_status release(hf_hold *hold, int64_t op) {
    int tries = op == HF_ON_THIS_THREAD ? KEEP_TRIES : 1;
    for (int64_t left_ms; (left_ms = least_left_ms(hold)) > 0;) {
        hf_status status = keep(hold, left_ms, op, true);
        if (status == HF_ELOST)
            hf_hold_give_up(hold, false, 0);
        if ((status != HF_EUNKNOWN && status != HF_ECONNECT) || --tries == 0)
            return status;
    }
    return hf_hold_leave(hold, NULL, op, 0);
}

hf_status hf_hold_release(hf_hold *hold) { return release(hold, HF_ON_THIS_THREAD); }

hf_status hf_hold_release_start(hf_hold *hold, int64_t op) {
    return release(hold, hf_given_number(op));
}

/* -------------------------------------------------------------- Handing over */

/* Claim a grant at once: no other thread claims it, and unclaimed grants count against the
 * client. */
static hf_status claim_now(hf_hold *hold) {
    hf_client_lock(hold->client);
    bool pushed = hold->pushed;
    hf_client_unlock(hold->client);
    operation mine = {.hold = hold, .round = HF_ROUND_RENEW, .begin = begin_claim};
    return pushed ? perform_held(&mine, HF_ON_THIS_THREAD) : HF_OK;
}

/* "hf1 <hold id> <x or s><fence> <length of the name> <name><owner>" */
hf_status hf_hold_hand_over(hf_hold *hold, void *token, size_t capacity, size_t *token_len_out) {
    char head[64];
    if (token == NULL || token_len_out == NULL)
        return hf_fail(HF_EINVAL, "token or token_len_out is NULL");
    hf_status status = check_held(hold);
    if (status == HF_OK && hold->client->quorum != NULL)
        status = hf_quorum_refuse("to hand a hold over");
    if (status != HF_OK)
        return status;
    const hf_names *names = hold->names;
    int head_length = snprintf(head, sizeof head, "hf1 %s %c%lld %zu ", hold->id,
                               hold->terms.mode == HF_MODE_SHARED ? 's' : 'x',
                               (long long)hold->fence, names->length);
    size_t length = (size_t)head_length + names->length;
    size_t said;
    const char *owner = hf_hold_text(hold, &said);
    *token_len_out = length + said;
    if (*token_len_out > capacity)
        return hf_fail(HF_EINVAL, "the token has %zu bytes: the buffer is too small",
                       *token_len_out);
    memcpy(token, head, (size_t)head_length);
    memcpy((char *)token + head_length, names->data, names->length);
    memcpy((char *)token + length, owner, said);
    status = claim_now(hold);
    if (status != HF_OK)
        return status;
    HF_HOLDING_CLIENT(hold->client);
    return leave_locked(hold, HF_NEVER, "handed over"); /* the other process knows of no doubt */
}

/* The parts of a token, in its bytes. */
typedef struct handed {
    char id[HF_ID_LENGTH + 1];
    bool shared;
    int64_t fence;
    const char *name, *owner;
    size_t name_length, owner_length;
} handed;

/* Read a token. False: the bytes are not a token. */
static bool read_token(const void *token, size_t length, handed *of) {
    char text[64] = "", mode[2];
    long long number;
    int head = 0;
    if (token == NULL)
        return false;
    memcpy(text, token, length < sizeof text - 1 ? length : sizeof text - 1);
    if (sscanf(text, "hf1 %32[0-9a-f] %1[xs]%16lld %4zu%n", of->id, mode, &number, &of->name_length,
               &head) != 4 ||
        strlen(of->id) != HF_ID_LENGTH || number < 1 || text[head] != ' ' || of->name_length < 1 ||
        of->name_length > HF_NAME_MAX || length < (size_t)head + 2 + of->name_length)
        return false;
    of->shared = *mode == 's';
    of->fence = number;
    of->name = (const char *)token + head + 1;
    of->owner = of->name + of->name_length;
    of->owner_length = length - of->name_length - (size_t)head - 1;
    return of->owner_length <= HF_OWNER_MAX;
}

/* Renew the hold, and only then count on it. */
static hf_status adopt(hf_hold *hold) {
    hf_client *client = hold->client;
    operation mine = {
        .hold = hold, .round = HF_ROUND_RENEW, .begin = begin_renewal, .answered = renewed};
    hf_client_lock(client);
    hf_status status = hf_hold_equip_locked(hold);
    if (status == HF_OK && hold->terms.renew)
        status = hf_thread_start_locked(client); /* without a thread it could not be renewed */
    hf_client_unlock(client);
    if (status == HF_OK)
        status = perform(&mine, HF_ON_THIS_THREAD);
    if (status != HF_OK)
        return status;
    HF_HOLDING_CLIENT(client);
    /* The other process may have asked for that time. */
    hold->validity.extended_until = hold->validity.deadline;
    if (!hf_table_believes_locked(hold, hold->fence)) { /* an old hold, after a failover */
        hf_hold_give_up_locked(hold);
        return hf_hold_explain_lost(hold, "a later fence has been seen");
    }
    if (hf_table_add_locked(client, hold, false) != HF_OK)
        return hf_client_check(client); /* the client has been closed meanwhile: this cancels no
                                         * acquire */
    hf_renewal_first_locked(hold);
    hold->counts_since = hf_now();
    return HF_OK;
}

hf_status hf_lock_adopt(hf_lock *lock, const void *token, size_t token_len, hf_hold **hold_out) {
    handed of;
    if (hold_out != NULL)
        *hold_out = NULL;
    if (lock == NULL || hold_out == NULL)
        return hf_fail(HF_EINVAL, "a handle is NULL");
    hf_status status = hf_client_check(lock->client);
    if (status == HF_OK && lock->client->quorum != NULL)
        status = hf_quorum_refuse("to adopt a hold");
    if (status == HF_OK && lock->terms.gate) /* a renewal would change the length of the pass */
        status = hf_fail(HF_EINVAL, "a pass of a gate is not handed over");
    if (status != HF_OK)
        return status;
    if (!read_token(token, token_len, &of))
        return hf_fail(HF_EINVAL, "that is not the token of a hold that was handed over");
    if (of.name_length != lock->names->length ||
        memcmp(of.name, lock->names->data, of.name_length) != 0) {
        char other[HF_QUOTED_MAX];
        snprintf(other, sizeof other, "%s", hf_quote(of.name, of.name_length));
        return hf_fail(HF_EINVAL, "that is a token of lock %s, and this lock is %s", other,
                       hf_names_quoted(lock->names));
    }
    if (of.shared != (lock->terms.mode == HF_MODE_SHARED))
        return hf_fail(HF_EINVAL, "that is the token of %s hold, and this lock's are %s",
                       of.shared ? "a shared" : "an exclusive", of.shared ? "exclusive" : "shared");
    const char *note;
    size_t note_length,
        owner_length = hf_owner_split(of.owner, of.owner_length, &note, &note_length);
    hf_hold *hold = hf_hold_new(lock->client, lock->names, of.owner, owner_length);
    if (hold == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    status = hf_hold_note(hold, note, note_length);
    hf_lock_configure(lock, hold, lock->terms.lease_ms, lock->terms.renew);
    hold->terms.replicas = 0; /* only an acquire waits for replicas */
    memcpy(hold->id, of.id, sizeof of.id);
    HF_MARK("M4");
    hold->out = 1; /* the requests of the other process are not known here */
    hf_hold_begin(hold, of.fence, hf_now(), 0);
    hf_validity_extends(&hold->validity, hf_now(), HF_LEASE_MAX); /* until the first answer */
    if (status == HF_OK)
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
    /* No caller can release it now, so it is not renewed either. A client that is being closed
     * takes care of its holds itself. */
    if (hf_hold_is_listed(hold) && !hold->kept && !client->closed) {
        int64_t now = hf_now();
        int state = hf_hold_state_now(hold, now);
        if (state == HF_STATE_HELD && hold->ballot != NULL) {
            hold->client->quorum->ways->leave(hold, HF_PARTING_ENDS);
        } else if (state == HF_STATE_HELD) {
            if (hold->pushed) /* so that it has its whole lease */
                hf_hold_claim_locked(hold, now);
            if (!bury_locked(hold, false))
                hf_undo_later_locked(hold);
        } else if (hold->state == HF_STATE_HELD) {          /* its time is over here */
            hf_hold_lose_locked(hold, hf_loss_cause(hold)); /* the server may give it more time */
        }
        hf_table_remove_locked(client, hold);
        hf_hold_drop(hold); /* the handle's reference is left */
    }
    hf_client_unlock(client);
    hf_hold_drop(hold);
}

#include "lock/votes.h"

#include <stdlib.h>
#include <string.h>

#include "lock/acquire.h"
#include "lock/hold.h"
#include "lock/life.h"
#include "lock/majority.h"
#include "lock/renewal.h"
#include "lock/thread.h"

/* The pause before a missing vote is asked for, which grows each time. */
#define JOIN_MIN_MS 20
#define JOIN_MAX_MS 1000
/* The place of a hold in the line of a master whose vote it lacks: before all waiters. */
#define FIRST_SCORE 1

/* ------------------------------------------------------------- Deadlines */

/* Return the deadline of a vote. A released vote has one: an earlier round had its master keep
 * it. */
static int64_t deadline_of(const hf_hold *hold) {
    if (hold == NULL)
        return INT64_MIN;
    HF_HOLDING_CLIENT(hold->client);
    return hold->state != HF_STATE_LOST ? hold->validity.deadline : INT64_MIN;
}

/* Read the deadlines of all votes, and once more if a master's mutex had to be waited for: the
 * other masters renew their votes meanwhile. Return the number of masters. */
static size_t read_deadlines(const struct hf_ballot *ballot, int64_t *deadlines) {
    size_t masters = hf_votes_masters(ballot);
    int64_t late_at = hf_after(hf_now(), HF_STILL_MS);
    for (int pass = 0; pass == 0 || (pass == 1 && hf_now() >= late_at); pass++)
        for (size_t i = 0; i < masters; i++)
            deadlines[i] = deadline_of(ballot->votes[i].hold);
    return masters;
}

int64_t hf_votes_deadline(const struct hf_ballot *ballot) {
    int64_t deadlines[HF_MASTERS_MAX];
    return hf_majority_deadline(deadlines, read_deadlines(ballot, deadlines));
}

/* Return whether the hold is being kept: no other hold nests in it then. */
static bool is_kept(const struct hf_ballot *ballot) {
    return ballot->holds != NULL && ballot->holds->keeps_until != 0;
}

static bool is_renewed(const struct hf_ballot *ballot) {
    bool renewed = ballot->holds == NULL && ballot->like->terms.renew;
    for (const hf_hold *hold = ballot->holds; hold != NULL; hold = hold->beside)
        renewed = renewed || hold->terms.renew;
    return renewed;
}

/* Return the end of the last hold, by its max_hold or by the keep that it owes. */
static int64_t last_end(const struct hf_ballot *ballot) {
    int64_t last = INT64_MIN;
    for (const hf_hold *hold = ballot->holds; hold != NULL; hold = hold->beside)
        last = hf_later(last, hf_later(hold->validity.end, hold->owed_until));
    return last;
}

/* Renew each vote as long as any of the holds on it is renewed, and end it with the last hold. */
static void share_renewal(const struct hf_ballot *ballot) {
    bool renew = is_renewed(ballot);
    int64_t last = last_end(ballot);
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_hold *of = ballot->votes[i].hold;
        int64_t end = of != NULL && ballot->holds == NULL ? of->validity.end : last;
        if (of == NULL || (of->terms.renew == renew && of->validity.end == end))
            continue;
        HF_HOLDING_CLIENT(of->client);
        of->terms.renew = renew;
        of->validity.end = HF_NO_DEADLINE;
        hf_validity_end_by(&of->validity, end);
        hf_renewal_shortened_locked(of); /* an earlier end has cut its deadline */
    }
}

/* Count a renewal when the masters' renewals together, each at its own time, have moved the
 * deadline on as far as one renewal does: a third of the lease, less up to an eighth. */
static void count_renewal(struct hf_ballot *ballot, int64_t deadline) {
    bool renewed = deadline >= hf_after(ballot->renewed_to, ballot->lease_ms * 2 / 7);
    for (hf_hold *hold = ballot->holds; renewed && hold != NULL; hold = hold->beside)
        hold->terms.counting.tally->stats.renewed += hold->terms.renew;
    if (renewed || deadline < ballot->renewed_to)
        ballot->renewed_to = deadline;
}

/* Take over the deadlines of the votes, which their own clients renew. A hold that was once found
 * to have ended is lost, whatever its votes report later. lengthens: the caller has asked for
 * more. */
static void refresh(struct hf_ballot *ballot, bool lengthens) {
    int64_t before = ballot->counted_at;
    ballot->counted_at = hf_now();
    if (is_kept(ballot))
        return;
    int64_t deadline = hf_votes_deadline(ballot);
    ballot->counted_at = hf_now(); /* the masters' mutexes may have been waited for */
    if (deadline == INT64_MIN) {
        deadline = 0;
        before = ballot->counted_at; /* a hold that has ended since has a cause */
    } else if (lengthens || is_renewed(ballot)) {
        ballot->most = deadline;
        if (lengthens)
            ballot->renewed_to = deadline;
        else
            count_renewal(ballot, deadline);
    }
    deadline = hf_earlier(deadline, ballot->most);
    for (hf_hold *hold = ballot->holds; hold != NULL; hold = hold->beside)
        if (hold->validity.deadline > before)
            hold->validity.deadline = hf_earlier(deadline, hold->validity.end);
}

static bool still_stands(struct hf_ballot *ballot) {
    refresh(ballot, false);
    const hf_hold *hold = ballot->holds;
    while (hold != NULL && hold->validity.deadline <= hf_now())
        hold = hold->beside;
    return hold != NULL;
}

/* ----------------------------------------------------------- Taking and letting go */

/* A vote may arrive twice: from an acquire that asked, and from a place in line beside it. */
void hf_vote_take(struct hf_ballot *ballot, size_t at, hf_hold *hold) {
    hf_vote *of = &ballot->votes[at];
    if (of->hold != NULL) {
        hf_vote_give_back(ballot->client, at, hold);
        return;
    }
    hf_call_abandon(&of->asking);
    if (ballot->line != NULL && ballot->line->at == at)
        hf_call_abandon(&ballot->line);
    of->hold = hold;
    of->refuses = false;
    hf_client_lock(hold->client);
    hold->validity.lease_ms = ballot->lease_ms;
    hf_client_unlock(hold->client);
    share_renewal(ballot);
}

/* Forget the vote, but not how its master answered. */
static void clear(hf_vote *of) { *of = (hf_vote){.fails = of->fails, .forbids = of->forbids}; }

void hf_votes_let_go(struct hf_ballot *ballot, size_t but, hf_parting how) {
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_vote *of = &ballot->votes[i];
        if (i == but)
            continue;
        hf_call_abandon(&of->asking);
        if (of->hold != NULL && how == HF_PARTING_BACK)
            hf_vote_give_back(ballot->client, i, of->hold);
        else if (of->hold != NULL && how == HF_PARTING_ENDS)
            hf_hold_close(of->hold);
        else
            hf_hold_drop(of->hold);
        clear(of);
    }
    ballot->fence = 0;
}

void hf_votes_free(struct hf_ballot *ballot, hf_parting how) {
    hf_client *client = ballot->client;
    hf_call_abandon(&ballot->line);
    hf_votes_let_go(ballot, HF_NO_MASTER, how);
    hf_timer_clear(&client->timers, &ballot->timer);
    hf_timer_unreserve(&client->timers);
    hf_list_remove(&ballot->item);
    hf_hold_drop(ballot->like);
    free(ballot->why);
    free(ballot);
}

struct hf_ballot *hf_votes_new(hf_op *op) {
    hf_client *client = op->hold->client;
    struct hf_ballot *ballot = calloc(1, sizeof *ballot);
    if (ballot == NULL || !hf_timer_reserve(&client->timers)) {
        free(ballot);
        return NULL;
    }
    ballot->client = client;
    ballot->like = hf_hold_grab(op->hold);
    ballot->lease_ms = op->hold->validity.lease_ms;
    ballot->op = op;
    hf_list_add_last(&client->quorum->ballots, &ballot->item);
    op->ballot = ballot;
    return ballot;
}

/* ----------------------------------------------------------------- Confirming */

/* Give back a vote that does not confirm. A vote on which a hold stands stays: its loss is
 * reported. */
static void drop_unconfirmed(struct hf_ballot *ballot, size_t at, hf_vote *of, hf_status status) {
    ballot->lacks = ballot->lacks || status == HF_ENOMEM;
    if (of->hold == NULL || ballot->op == NULL)
        return;
    hf_vote_give_back(ballot->client, at, of->hold);
    of->hold = NULL;
}

static void confirmed(hf_call *call, const hf_completion *completion) {
    struct hf_ballot *ballot = call->of;
    hf_vote *of = &ballot->votes[call->at];
    of->asking = NULL;
    if (completion->status == HF_OK)
        of->confirmed = call->fence;
    else
        drop_unconfirmed(ballot, call->at, of, completion->status);
    if (ballot->op != NULL)
        ballot->client->quorum->ways->changed(ballot);
}

void hf_vote_confirm(struct hf_ballot *ballot, size_t at) {
    hf_vote *of = &ballot->votes[at];
    hf_call *call = hf_call_new(ballot->client, HF_CALL_TELL, at, confirmed, ballot);
    hf_status status = HF_ENOMEM;
    if (call != NULL) {
        call->fence = ballot->fence;
        status = hf_hold_confirm_start(of->hold, ballot->fence, hf_call_number(call));
        if (status == HF_OK) {
            of->asking = call;
            return;
        }
        hf_call_drop(call);
    }
    drop_unconfirmed(ballot, at, of, status);
}

/* ---------------------------------------------------------------- Asking */

/* Ask for a missing vote for as long as a hold lasts whose lease was extended, or that is not
 * renewed; but not beyond the max_hold. */
static void ask_as_long(const struct hf_ballot *ballot, hf_hold *of) {
    int64_t now = hf_now(), lease_ms = of->validity.lease_ms;
    int64_t least_ms = is_renewed(ballot) ? lease_ms : HF_LEASE_MIN;
    of->validity.end = last_end(ballot);
    of->validity.lease_ms =
        hf_validity_ask_ms(&of->validity, now, hf_later(least_ms, hf_until(ballot->most, now)));
    if (of->validity.lease_ms > lease_ms)
        hf_validity_extends(&of->validity, now, of->validity.lease_ms);
}

/* Called when an acquire of a missing vote has ended. */
static void joined(hf_call *call, const hf_completion *completion) {
    struct hf_ballot *ballot = call->of;
    size_t at = call->at;
    hf_vote *of = &ballot->votes[at];
    of->asking = NULL;
    /* A hold that is lost, even if that is not reported yet, or that is being kept takes no more
     * votes. */
    bool late = is_kept(ballot) || !still_stands(ballot);
    if (completion->status != HF_OK) {
        of->refuses = completion->status == HF_EBUSY;
    } else if (late) {
        hf_vote_give_back(ballot->client, at, completion->hold);
    } else {
        hf_vote_take(ballot, at, completion->hold);
        ballot->join_ms = 0;
        if (of->hold->fence < ballot->fence) /* it was asked for before that fence was chosen */
            hf_vote_confirm(ballot, at);
    }
}

static void vote_ended(hf_call *call, const hf_completion *completion) {
    const struct hf_ballot *ballot = call->of;
    if (ballot->op != NULL)
        ballot->client->quorum->ways->voted(call, completion);
    else
        joined(call, completion);
}

void hf_vote_acquire(struct hf_ballot *ballot, hf_call_kind kind, size_t at, int64_t floor) {
    hf_client *client = hf_votes_master(ballot, at)->client;
    hf_hold *hold = hf_hold_for(client, ballot->like);
    hf_call *call = hold != NULL ? hf_call_new(ballot->client, kind, at, vote_ended, ballot) : NULL;
    if (call == NULL) {
        ballot->lacks = true;
        hf_hold_drop(hold);
        return;
    }
    memcpy(hold->tag, ballot->like->id + HF_ID_LENGTH / 2, HF_ID_LENGTH / 2);
    hf_validity_begin(&hold->validity, ballot->lease_ms);
    hold->vote_floor = floor;
    hf_voting how = {.timeout_ms = 0, .number = hf_call_number(call)};
    bool joins = ballot->op == NULL;
    if (joins)
        ask_as_long(ballot, hold);
    if (kind == HF_CALL_LINE) {
        how.timeout_ms = joins ? HF_FOREVER : ballot->op->timeout_ms;
        how.until = joins ? HF_NO_DEADLINE : ballot->op->until;
        how.score = joins ? FIRST_SCORE : ballot->score;
    }
    hf_client_lock(client);
    hf_member_answered(ballot->client->quorum->members, at, client->links.first.pair_sent,
                       client->links.first.pair_server);
    hf_status status = hf_acquire_vote_locked(hold, &how);
    hf_client_unlock(client);
    if (status != HF_OK) {
        ballot->lacks = ballot->lacks || status == HF_ENOMEM;
        hf_hold_drop(hold);
        hf_call_drop(call);
    } else if (kind == HF_CALL_LINE && !joins) {
        ballot->line = call;
    } else {
        ballot->votes[at].asking = call;
    }
}

/* ------------------------------------------------------- While holds stand on them */

bool hf_vote_is_behind(const struct hf_ballot *ballot, const hf_vote *of) {
    return of->hold != NULL && of->hold->fence < ballot->fence && of->confirmed != ballot->fence;
}

static void plan_join(struct hf_ballot *ballot) {
    ballot->join_ms = hf_backoff(ballot->join_ms, JOIN_MIN_MS, JOIN_MAX_MS);
    hf_thread_timer_locked(ballot->client, &ballot->timer,
                           hf_after(hf_now(), hf_spread(ballot->join_ms)));
}

/* Ask for the votes that a hold lacks. A waiter that a master lets in while others have the
 * majority keeps that master: so where a master has refused the hold, the hold waits in line, or
 * each further loss of a master could end it. */
static void ask_missing(struct hf_ballot *ballot, int64_t now) {
    bool missing = false;
    if (ballot->doubts || is_kept(ballot))
        return;
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_vote *of = &ballot->votes[i];
        if (of->hold != NULL)
            hf_hold_take_up(of->hold); /* it was kept, by a keep that failed */
        bool behind = hf_vote_is_behind(ballot, of);
        missing = missing || of->hold == NULL || behind;
        if (of->asking != NULL || hf_master_is_silent(ballot->client, i, now))
            continue;
        if (behind)
            hf_vote_confirm(ballot, i);
        else if (of->hold == NULL)
            hf_vote_acquire(ballot, of->refuses ? HF_CALL_LINE : HF_CALL_ASK, i, ballot->fence);
    }
    if (missing)
        plan_join(ballot);
}

/* Lose the holds, whose votes are lost. */
static void lose_all(struct hf_ballot *ballot, int cause) {
    for (hf_hold *hold = ballot->holds, *next; hold != NULL; hold = next) {
        next = hold->beside;
        if (hf_hold_is_listed(hold) && hold->state == HF_STATE_HELD)
            hf_hold_lose_locked(hold, cause);
    }
}

/* Called when the other masters have answered whether they know their votes. */
static void doubted(void *context, hf_status status) {
    struct hf_ballot *ballot = ((hf_hold *)context)->ballot;
    if (ballot == NULL)
        return;
    ballot->doubts = false;
    bool stands = still_stands(ballot);
    if (status == HF_ELOST)
        lose_all(ballot, HF_CAUSE_GONE);
    else if (stands && status == HF_OK)
        ask_missing(ballot, hf_now());
    else if (stands) /* a hold that is not renewed has no next look */
        plan_join(ballot);
}

/* Called when a master no longer knows a vote. It may have lost its memory; but a break may be
 * under way, at one master after another, and asking for the vote again would undo that. */
static void doubt(struct hf_ballot *ballot) {
    if (ballot->doubts)
        return;
    ballot->join_ms = 0;
    ballot->doubts = true;
    hf_round_kind kind = is_renewed(ballot) ? HF_ROUND_RENEW : HF_ROUND_LOOK;
    if (hf_votes_poll(ballot->holds, kind, 0, doubted, ballot->holds) != HF_OK)
        doubted(ballot->holds, HF_ENOMEM);
}

/* Called when a master's client has lost a vote. */
static void lost(hf_client *client, size_t at, const hf_completion *completion) {
    HF_EACH(item, &client->quorum->ballots) {
        struct hf_ballot *ballot = HF_OF(struct hf_ballot, item, item);
        hf_vote *of = &ballot->votes[at];
        if (of->hold == NULL || of->hold->number != completion->hold_number)
            continue;
        hf_call_abandon(&of->asking);
        hf_hold_close(of->hold);
        clear(of);
        if (ballot->op != NULL)
            client->quorum->ways->changed(ballot);
        else if (!still_stands(ballot))
            lose_all(ballot, completion->cause);
        else if (completion->cause == HF_CAUSE_GONE)
            doubt(ballot);
        else
            ask_missing(ballot, hf_now());
        return;
    }
}

/* Return the time, and note whether this thread, which was meant to wake at `then`, stood still. */
static int64_t look_at_clock(struct hf_quorum *quorum, int64_t then) {
    int64_t now = hf_now();
    if (now >= hf_after(then, HF_STILL_MS))
        quorum->still_at = now;
    return now;
}

int64_t hf_votes_hear(hf_client *client, int64_t due) {
    struct hf_quorum *quorum = client->quorum;
    int64_t now = look_at_clock(quorum, due);
    for (size_t i = 0; i < quorum->count; i++)
        for (;;) {
            hf_completion completion = {.size = sizeof completion};
            if (hf_client_next(quorum->masters[i].client, &completion) != HF_OK ||
                completion.kind == HF_KIND_NONE)
                break;
            now = look_at_clock(quorum, now);
            if (completion.kind == HF_KIND_LOSS)
                lost(client, i, &completion);
            else
                hf_master_hear(client, i, &completion);
        }
    return look_at_clock(quorum, now);
}

static void join_due(hf_timer *timer, int64_t now) {
    ask_missing(HF_OF(struct hf_ballot, timer, timer), now);
}

void hf_votes_stand(struct hf_ballot *ballot, int64_t deadline) {
    hf_hold *hold = ballot->op->hold;
    bool missing = false;
    hf_timer_clear(&ballot->client->timers, &ballot->timer);
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_vote *of = &ballot->votes[i];
        of->refuses = false;
        bool behind = hf_vote_is_behind(ballot, of);
        if (behind && of->asking == NULL)
            hf_vote_confirm(ballot, i);
        missing = missing || of->hold == NULL || behind;
    }
    /* A grant by a message counts for less than the lease until it is claimed. */
    ballot->most = hf_later(deadline, hf_deadline(ballot->asked_at, ballot->lease_ms));
    hf_hold_begin(hold, ballot->fence, ballot->asked_at, deadline);
    hold->ballot = ballot;
    ballot->holds = hold;
    ballot->renewed_to = deadline;
    ballot->op->ballot = NULL;
    ballot->op = NULL;
    ballot->timer.fire = join_due;
    if (missing)
        plan_join(ballot);
}

/* Set the hold's deadline by its votes, whatever the majority has answered. */
static void lengthened(void *context, hf_status status) {
    (void)status;
    hf_votes_count(context, true);
}

bool hf_votes_nest(hf_op *op) {
    hf_hold *hold = op->hold, *outer = hf_table_outer_locked(hold);
    if (outer == NULL || outer->ballot == NULL || is_kept(outer->ballot))
        return false;
    if (!still_stands(outer->ballot)) {
        lose_all(outer->ballot, hf_loss_cause(outer));
        return false;
    }
    int64_t now = hf_now(), lease_ms = hold->validity.lease_ms;
    hf_hold_begin(hold, outer->fence, now, outer->validity.deadline);
    hold->ballot = outer->ballot;
    hold->beside = outer->beside;
    outer->beside = hold;
    op->ballot = NULL; /* a started op frees its ballot; the op stays while it is confirmed */
    hf_hold_grab(hold);
    hf_op_finish_locked(op, HF_OK); /* this frees a started op, or may give the hold back */
    if (hold->ballot != NULL)
        share_renewal(hold->ballot);
    if (hold->ballot != NULL && hf_after(now, lease_ms) > hf_votes_deadline(hold->ballot)) {
        bool longer = lease_ms > hold->ballot->lease_ms;
        if (longer || !is_renewed(hold->ballot))
            hf_votes_poll(hold, longer ? HF_ROUND_REPLACE : HF_ROUND_RENEW, lease_ms, lengthened,
                          hold);
    }
    hf_hold_drop(hold);
    return true;
}

size_t hf_votes_held(const hf_hold *hold) {
    int64_t deadlines[HF_MASTERS_MAX];
    size_t votes = 0, masters = hold->ballot != NULL ? read_deadlines(hold->ballot, deadlines) : 0;
    int64_t now = hf_now();
    for (size_t i = 0; i < masters; i++)
        votes += deadlines[i] > now;
    return votes;
}

void hf_votes_due(hf_hold *hold, int64_t now) {
    refresh(hold->ballot, false);
    if (now >= hold->validity.deadline) {
        hf_hold_lose_locked(hold, hf_loss_cause(hold));
        return;
    }
    ask_missing(hold->ballot, now);
    hold->renew_at = now + hf_renewal_interval(hold) / 4;
    hf_renewal_plan_locked(hold);
}

/* Keep the votes for the time that a nested hold is owed: the last hold, which was to keep them, is
 * gone. */
static void keep_owed(const struct hf_ballot *ballot, int64_t left_ms) {
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_hold *of = ballot->votes[i].hold;
        hf_call *call = hf_call_new(ballot->client, HF_CALL_TELL, i, NULL, NULL);
        if (call != NULL && hf_hold_keep_start(of, left_ms, hf_call_number(call)) != HF_OK)
            hf_call_drop(call);
    }
}

void hf_votes_leave(hf_hold *hold, hf_parting how) {
    struct hf_ballot *ballot = hold->ballot;
    int64_t owed_ms = hf_until(hold->owed_until, hf_now());
    if (ballot == NULL)
        return;
    hf_hold **at = &ballot->holds;
    while (*at != hold)
        at = &(*at)->beside;
    *at = hold->beside;
    hold->ballot = NULL;
    hold->beside = NULL;
    if (ballot->holds == NULL) {
        bool owes = owed_ms > 0 && (how == HF_PARTING_BACK || hold->keeps_until == 0) &&
                    hf_votes_deadline(ballot) > hf_now();
        if (owes)
            keep_owed(ballot, owed_ms);
        hf_votes_free(ballot, owes ? HF_PARTING_ENDS : how);
        return;
    }
    ballot->holds->owed_until = hf_later(ballot->holds->owed_until, hold->owed_until);
    share_renewal(ballot);
    if (ballot->doubts) { /* the question was for that hold, which gets no answer now */
        ballot->doubts = false;
        doubt(ballot);
    }
}

/* Return the time for which each vote should stand, longer or shorter than now: at most the
 * quarantine, even if the vote was renewed since the extension was found to be short enough; and
 * never 0, which has no end, even if most votes have ended since. */
static int64_t extended_ms(const struct hf_ballot *ballot, int64_t duration_ms) {
    int64_t most_ms = ballot->client->quorum->members->quarantine_ms;
    int64_t ms = hf_until(hf_after(hf_votes_deadline(ballot), duration_ms), hf_now());
    return hf_later(hf_earlier(ms, most_ms > 0 ? most_ms : HF_LEASE_MAX), HF_LEASE_MIN);
}

hf_status hf_votes_poll(hf_hold *hold, hf_round_kind kind, int64_t duration_ms, hf_round_told *told,
                        void *context) {
    struct hf_ballot *ballot = hold->ballot;
    if (ballot == NULL) { /* it is lost, or was released */
        told(context, HF_ELOST);
        return HF_OK;
    }
    hf_hold *outer = ballot->holds != hold ? ballot->holds : hold->beside;
    int64_t owed_ms = hf_until(hold->owed_until, hf_now());
    bool owes = kind == HF_ROUND_KEEP && outer != NULL;
    if (owes)
        outer->owed_until = hf_later(outer->owed_until, hf_after(hf_now(), duration_ms));
    /* Other holds nest in it, or it nests in another, and those have the votes; or a nested hold
     * must be kept. */
    if (owes || (kind == HF_ROUND_RELEASE && (outer != NULL || owed_ms > 0))) {
        hf_votes_leave(hold, HF_PARTING_BACK);
        told(context, HF_OK);
        return HF_OK;
    }
    if (kind == HF_ROUND_KEEP && duration_ms < owed_ms)
        duration_ms = owed_ms;
    bool shared = outer != NULL && hf_after(hf_now(), duration_ms) < hf_votes_deadline(ballot);
    if (kind == HF_ROUND_REPLACE && (shared || duration_ms < owed_ms))
        kind = HF_ROUND_RENEW; /* it must not shorten the other holds */
    if (kind == HF_ROUND_EXTEND)
        duration_ms = extended_ms(ballot, duration_ms);
    hf_round *round = hf_round_new(hold, kind, ballot->office, told, context);
    if (round == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    if (kind == HF_ROUND_REPLACE || kind == HF_ROUND_KEEP)
        ballot->lease_ms = duration_ms;
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_vote *of = &ballot->votes[i];
        if (of->hold != NULL)
            hf_round_ask(round, i, of->hold, duration_ms);
        else if (kind == HF_ROUND_RELEASE)
            hf_round_await(round, i, &of->asking);
    }
    if (kind == HF_ROUND_RELEASE)
        hf_votes_leave(hold, HF_PARTING_ENDS);
    else if (kind == HF_ROUND_EXTEND || kind == HF_ROUND_REPLACE)
        refresh(ballot, false); /* a shorter lease counts at once */
    hf_round_judge(round);
    return HF_OK;
}

void hf_votes_count(const hf_hold *hold, bool lengthens) {
    if (hold->ballot != NULL)
        refresh(hold->ballot, lengthens);
}

/* Return whether most masters have kept their votes, or may have. If fewer have, the keep
 * failed. */
static bool is_kept_by_most(const struct hf_ballot *ballot) {
    size_t keep = 0;
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        const hf_hold *of = ballot->votes[i].hold;
        if (of == NULL)
            continue;
        HF_HOLDING_CLIENT(of->client);
        keep += of->keeps_until > hf_now();
    }
    return keep >= hf_majority(hf_votes_masters(ballot));
}

void hf_votes_close(struct hf_ballot *ballot) {
    bool kept = is_kept_by_most(ballot);
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_hold *of = ballot->votes[i].hold;
        if (of == NULL)
            continue;
        hf_hold_take_up(of);
        HF_HOLDING_CLIENT(of->client);
        of->keeps_until = hf_later(kept ? of->keeps_until : 0, ballot->holds->owed_until);
    }
    hf_votes_let_go(ballot, HF_NO_MASTER, HF_PARTING_STAYS);
    ballot->doubts = false;
    for (hf_hold *hold = ballot->holds, *next; hold != NULL; hold = next) {
        next = hold->beside;
        hf_votes_leave(hold, HF_PARTING_STAYS);
    }
}

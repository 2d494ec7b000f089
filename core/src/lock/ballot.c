#include "lock/ballot.h"

#include <stdlib.h>

#include "base/brake.h"
#include "lock/acquire.h"
#include "lock/life.h"
#include "lock/majority.h"
#include "lock/queue.h"
#include "lock/reading.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "lock/votes.h"
#include "protocol/errors.h"

/* The masters' clocks, and the ways to the masters, may differ by this: a proposed fence lies ahead
 * of all of them. */
#define AHEAD_MS 5
/* In line, the first ballot of this client tries all masters this often, or sooner if it has stood
 * back. */
#define RECHECK_MS 1000
#define STOOD_BACK_MS 50
/* The head of the line asks again after 1, 2, 4 … ms, up to HEAD_MS, HEAD_ROUNDS times, before it
 * lets go. */
#define HEAD_MS 64
#define HEAD_ROUNDS 8
#define HEAD_MAX_MS 1000
/* A try that has the first master's vote, or a majority without it, asks TRY_ROUNDS times again,
 * within TRY_MS. */
#define TRY_ROUNDS 3
#define TRY_MS 50
/* How often a ballot in line looks whether the first master is still up. */
#define LOOK_MS 250
/* The pause where no majority can be asked. */
#define NOBODY_MS 100
/* A master that was down comes first in line again after it has answered for this long. */
#define UP_MS 10000
/* An acquire gives up this much later than a call to a master that hangs, which reports the
 * reason. */
#define REASON_MS 50

static size_t majority_of(const struct hf_ballot *ballot) {
    return hf_majority(hf_votes_masters(ballot));
}

/* ----------------------------------------------------------------- Asking */

/* Return the highest fence seen, or a floor just below a fence ahead of all masters' clocks: then
 * all give the same fence. */
static int64_t propose(const struct hf_ballot *ballot) {
    const struct hf_quorum *quorum = ballot->client->quorum;
    int64_t floor = hf_hold_floor_locked(ballot->like);
    int64_t clock = hf_members_clock(quorum->members, hf_now()), ahead_ms = AHEAD_MS;
    for (size_t i = 0; i < quorum->count; i++)
        if (!quorum->masters[i].down)
            ahead_ms = hf_later(ahead_ms, quorum->masters[i].trip_ms);
    if (clock > 0 && clock + ahead_ms * 1000 - 1 > floor)
        floor = clock + ahead_ms * 1000 - 1;
    return floor > ballot->fence ? floor : ballot->fence;
}

/* Return whether a master has just restarted: it may have forgotten votes, and is not asked for new
 * ones. */
static bool is_young(const struct hf_ballot *ballot, size_t at, int64_t now) {
    return hf_member_young_ms(ballot->client->quorum->members, at, now) > 0;
}

static bool may_ask(const struct hf_ballot *ballot, size_t at, int64_t now) {
    return !is_young(ballot, at, now) && !hf_master_is_silent(ballot->client, at, now);
}

/* Return whether there are enough masters to ask without the silent ones; up: also without those
 * that are down. */
static bool can_spare_silent(const struct hf_ballot *ballot, int64_t now, bool up) {
    size_t count = 0;
    for (size_t i = 0; i < hf_votes_masters(ballot); i++)
        count += ballot->votes[i].hold != NULL ||
                 (may_ask(ballot, i, now) && !(up && hf_votes_master(ballot, i)->down));
    return count >= majority_of(ballot);
}

/* End the acquire without the lock. */
static void end_ballot(struct hf_ballot *ballot, hf_status status, bool explained) {
    hf_op *op = ballot->op;
    hf_error error = *hf_error_last();
    op->ballot = NULL;
    hf_votes_free(ballot, HF_PARTING_BACK);
    hf_error_set(&error);
    if (explained)
        hf_op_fail_locked(op, status);
    else
        hf_op_finish_locked(op, status);
}

/* ----------------------------------------------------------------- Rounds */

static void step(struct hf_ballot *ballot);

static int64_t half_ms(const struct hf_ballot *ballot) {
    return ballot->client->transport->connect_ms / 2;
}

/* Return when the acquire, or its time, ends. Beyond its time it waits for masters, which may have
 * answered while the process stood still. */
static int64_t end_of(const struct hf_ballot *ballot) {
    if (ballot->time == HF_IN_TIME && ballot->op->timeout_ms != 0)
        return ballot->ends_at;
    return hf_later(ballot->ends_at, hf_after(ballot->client->quorum->still_at, half_ms(ballot)));
}

static void wake_at(struct hf_ballot *ballot, int64_t due) {
    hf_thread_timer_locked(ballot->client, &ballot->timer, hf_earlier(due, end_of(ballot)));
}

static void pause_for(struct hf_ballot *ballot, int64_t ms) {
    wake_at(ballot, hf_after(hf_now(), ms));
}

/* Ask all masters that have not given their vote. */
static void ask_all(struct hf_ballot *ballot) {
    int64_t now = hf_now(), floor = propose(ballot);
    bool tries = ballot->op->timeout_ms == 0; /* a wait asks again */
    bool spares = can_spare_silent(ballot, now, tries);
    ballot->asks = true;
    ballot->lacks = false;
    ballot->asked_at = now;
    ballot->recheck_at = 0;
    ballot->rounds++;
    ballot->fence = 0;
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        hf_vote *of = &ballot->votes[i];
        of->refuses = false;
        if (of->hold == NULL && of->asking == NULL && !is_young(ballot, i, now) &&
            !(spares && hf_master_is_silent(ballot->client, i, now)))
            hf_vote_acquire(ballot, HF_CALL_ASK, i, floor);
    }
    step(ballot);
}

/* Return the master where the ballot should stand in line: the first that may be asked and has been
 * up for a while; or the one where it stands. HF_NO_MASTER: there is none. */
static size_t find_office(const struct hf_ballot *ballot) {
    int64_t now = hf_now();
    size_t first = HF_NO_MASTER;
    for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
        const hf_master *master = hf_votes_master(ballot, i);
        bool here = ballot->line != NULL && ballot->line->at == i;
        if (master->down || ballot->votes[i].fails || !may_ask(ballot, i, now))
            continue;
        if (here || master->up_since == 0 || now >= hf_after(master->up_since, UP_MS))
            return i;
        if (first == HF_NO_MASTER)
            first = i;
    }
    return first;
}

static int64_t recheck_after(int64_t ms) {
    return hf_after(hf_now(), hf_jitter(ms - ms / 4, ms + 1));
}

static void line_up(struct hf_ballot *ballot) {
    size_t office = find_office(ballot);
    hf_op_waits_locked(ballot->op);
    ballot->head_at = 0;
    if (ballot->line != NULL && ballot->score == 0) /* in case it has to move */
        ballot->score = hf_op_score(ballot->line->master, hf_call_number(ballot->line));
    if (ballot->line != NULL && ballot->line->at != office && office != HF_NO_MASTER)
        hf_call_abandon(&ballot->line);
    if (ballot->line == NULL && office != HF_NO_MASTER) {
        ballot->office = office;
        hf_vote_acquire(ballot, HF_CALL_LINE, office, hf_hold_floor_locked(ballot->like));
    }
    if (ballot->line == NULL) {
        pause_for(ballot, hf_jitter(NOBODY_MS / 2, NOBODY_MS + 1));
        return;
    }
    int64_t now = hf_now(), lease_ms = ballot->lease_ms;
    if (ballot->recheck_at <= now)
        ballot->recheck_at = recheck_after(lease_ms < RECHECK_MS ? lease_ms : RECHECK_MS);
    wake_at(ballot, hf_earlier(ballot->recheck_at, hf_after(now, LOOK_MS)));
}

/* Return whether no majority can agree because masters answer with errors; forbidden: for want of a
 * permission. */
static bool has_failed(const struct hf_ballot *ballot, bool forbidden) {
    size_t left = hf_votes_masters(ballot);
    for (size_t i = 0; i < hf_votes_masters(ballot); i++)
        left -= forbidden ? ballot->votes[i].forbids : ballot->votes[i].fails;
    return left < majority_of(ballot);
}

/* End the acquire: too few masters have reported whether others have the lock. */
static void end_unanswered(struct hf_ballot *ballot) {
    bool lacks = ballot->lacks && ballot->reached < majority_of(ballot);
    hf_status status = has_failed(ballot, false) ? HF_ESERVER : HF_ECONNECT;
    end_ballot(ballot,
               lacks ? hf_fail(HF_ENOMEM, "no memory")
                     : hf_masters_explain(ballot->client, ballot->like->names, status),
               true);
}

/* End the acquire: the time is up. Votes that do not agree, or that ended, show no other holder. */
static void time_is_up(struct hf_ballot *ballot) {
    if (hf_masters_refuse(ballot->client) || ballot->refused == 0 ||
        ballot->reached < majority_of(ballot)) {
        end_unanswered(ballot);
        return;
    }
    if (ballot->why != NULL)
        hf_error_set(ballot->why);
    end_ballot(ballot, ballot->op->timeout_ms == 0 ? HF_EBUSY : HF_ETIMEOUT, ballot->why != NULL);
}

/* Return the deadline of masters that are asked from now on. */
static int64_t patience(const struct hf_ballot *ballot) {
    return hf_after(hf_client_patience(ballot->client), REASON_MS);
}

/* Enter a later part of the acquire, which may outlast its time by the time to connect. */
static void go_beyond_time(struct hf_ballot *ballot, int part) {
    if (ballot->time == HF_IN_TIME)
        ballot->ends_at = patience(ballot);
    ballot->time = part;
}

/* Ask once more: the time is up, and only a majority's answer shows that others kept the lock. */
static void ask_at_last(struct hf_ballot *ballot) {
    hf_call_abandon(&ballot->line);
    go_beyond_time(ballot, HF_LAST);
    if (ballot->asks)
        step(ballot);
    else if (can_spare_silent(ballot, hf_now(), true))
        ask_all(ballot);
    else /* others have one master, but not the lock */
        end_unanswered(ballot);
}

/* Have the head of the line, which has no majority, ask again. False: it has done so for too
 * long. */
static bool goes_on_as_head(struct hf_ballot *ballot) {
    int64_t now = hf_now();
    if (ballot->head_at == 0) {
        ballot->head_at = now;
        ballot->rounds = 0;
    }
    int64_t ms = ballot->rounds < 6 ? INT64_C(1) << ballot->rounds : HEAD_MS;
    if (ballot->rounds <= HEAD_ROUNDS) {
        pause_for(ballot, hf_jitter(ms - ms / 2, ms + 1));
        return true;
    }
    if (now >= hf_after(ballot->head_at, HEAD_MAX_MS))
        return false;
    hf_votes_let_go(ballot, ballot->office, HF_PARTING_BACK);
    pause_for(ballot, hf_jitter(0, 2 * HEAD_MS + 1));
    return true;
}

static bool may_try_again(const struct hf_ballot *ballot) {
    return ballot->rounds <= TRY_ROUNDS && hf_now() < hf_after(ballot->op->since, TRY_MS);
}

/* End or repeat a round in which a majority can no longer agree. */
static void came_to_nothing(struct hf_ballot *ballot) {
    bool first = ballot->votes[ballot->office].hold != NULL, tries = ballot->op->timeout_ms == 0;
    bool again = first && ballot->reached >= majority_of(ballot) && may_try_again(ballot);
    ballot->asks = false;
    if (ballot->time == HF_LAST || hf_masters_refuse(ballot->client) || (tries && !again)) {
        time_is_up(ballot);
    } else if (tries) {
        pause_for(ballot, INT64_C(1) << ballot->rounds);
    } else if (!first || ballot->line != NULL || !goes_on_as_head(ballot)) {
        hf_votes_let_go(ballot, HF_NO_MASTER, HF_PARTING_BACK);
        line_up(ballot);
    }
}

/* Return whether the acquire must stand back: other waiters have just been let in at the first
 * master, and a busy caller that took a majority behind their back would overtake them forever. */
static bool stands_back(const struct hf_ballot *ballot) {
    return !ballot->op->waits && ballot->time == HF_IN_TIME &&
           ballot->votes[ballot->office].refuses &&
           (ballot->op->timeout_ms != 0 || may_try_again(ballot));
}

static void won(struct hf_ballot *ballot) {
    int64_t deadline = hf_votes_deadline(ballot), now = hf_now();
    hf_op *op = ballot->op;
    hf_hold *hold = op->hold;
    bool ended = deadline <= now;
    ballot->asks = false;
    if (ended || stands_back(ballot)) {
        if (ended) {
            ballot->reached = 0; /* ended votes show no holder */
        } else {
            ballot->recheck_at = recheck_after(STOOD_BACK_MS);
            hf_waiting_handed_on_locked(ballot->client, hold->names, now);
        }
        hf_votes_let_go(ballot, HF_NO_MASTER, HF_PARTING_BACK);
        if (!ended && op->timeout_ms == 0)
            pause_for(ballot, INT64_C(1) << ballot->rounds);
        else
            came_to_nothing(ballot);
        return;
    }
    hf_call_abandon(&ballot->line);
    hf_votes_stand(ballot, deadline);
    hold->waited = op->waits;
    hf_waiting_handed_on_locked(ballot->client, hold->names, op->waits ? now : 0);
    hf_op_finish_locked(op, HF_OK);
}

/* Return what a master has answered. patient: silent masters may still answer. */
static hf_said said_by(const struct hf_ballot *ballot, size_t at, int64_t now, bool patient) {
    const hf_vote *of = &ballot->votes[at];
    bool open = of->asking != NULL && (patient || !hf_master_is_silent(ballot->client, at, now));
    if (of->hold != NULL)
        return (hf_said){.said = HF_SAID_YES,
                         .fence = of->hold->fence,
                         .confirms = of->confirmed == ballot->fence,
                         .asked = open};
    return (hf_said){.said = open ? HF_SAID_NOTHING : HF_SAID_NO};
}

/* Decide, by the answers so far, how the round goes on. */
static void step(struct hf_ballot *ballot) {
    hf_said said[HF_MASTERS_MAX];
    while (ballot->asks) {
        int64_t now = hf_now(), overdue_at = HF_NO_DEADLINE;
        bool asked = false;
        ballot->reached = ballot->refused = 0;
        for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
            ballot->reached += ballot->votes[i].hold != NULL || ballot->votes[i].refuses;
            ballot->refused += ballot->votes[i].refuses;
        }
        bool patient = ballot->reached < majority_of(ballot);
        for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
            said[i] = said_by(ballot, i, now, patient);
            if (ballot->votes[i].asking == NULL)
                continue;
            asked = true;
            if (!hf_master_is_silent(ballot->client, i, now))
                overdue_at = hf_earlier(overdue_at, hf_master_silent_at(ballot->client, i));
        }
        switch (hf_choose(said, hf_votes_masters(ballot), &ballot->fence)) {
        case HF_CHOICE_HELD:
            won(ballot);
            return;
        case HF_CHOICE_WAIT:
            wake_at(ballot, overdue_at);
            return;
        case HF_CHOICE_NONE:
            if (patient && asked) /* their answers show whether others have the lock */
                wake_at(ballot, HF_NO_DEADLINE);
            else
                came_to_nothing(ballot);
            return;
        default:
            break;
        }
        bool asks = false;
        for (size_t i = 0; i < hf_votes_masters(ballot); i++) {
            hf_vote *of = &ballot->votes[i];
            bool asking = of->asking != NULL && of->asking->fence == ballot->fence;
            if (asking || !hf_vote_is_behind(ballot, of))
                continue;
            asks = true;
            hf_call_abandon(&of->asking); /* its answer is about another fence */
            hf_vote_confirm(ballot, i);
        }
        if (!asks) { /* all that could confirm have been asked, and are silent */
            wake_at(ballot, overdue_at);
            return;
        }
    }
}

/* Return whether no earlier ballot of this client is in line for the same lock. */
static bool is_first_in_line(const struct hf_ballot *ballot) {
    HF_EACH(at, &ballot->client->quorum->ballots) {
        const struct hf_ballot *other = HF_OF(struct hf_ballot, item, at);
        if (other == ballot)
            return true;
        if (other->line != NULL && hf_names_equal(other->like->names, ballot->like->names))
            return false;
    }
    return true;
}

static void ballot_due(hf_timer *timer, int64_t now) {
    struct hf_ballot *ballot = HF_OF(struct hf_ballot, timer, timer);
    bool over = now >= end_of(ballot);
    if (over && (ballot->time == HF_LAST || ballot->op->timeout_ms == 0)) {
        time_is_up(ballot);
        return;
    }
    if (over || ballot->time == HF_LATE) {
        if (!ballot->asks && ballot->line == NULL && ballot->rounds > 0) {
            time_is_up(ballot);
            return;
        }
        if (ballot->line != NULL && ballot->time == HF_IN_TIME) {
            /* Its answer shows who has the lock; but do not wait long: the last round takes time,
             * too. */
            const hf_master *master = hf_votes_master(ballot, ballot->line->at);
            bool down = master->down || hf_master_is_silent(ballot->client, ballot->line->at, now);
            int64_t ms = hf_earlier(hf_master_patience_ms(master), half_ms(ballot));
            go_beyond_time(ballot, HF_LATE);
            wake_at(ballot, down ? now : hf_after(now, ms));
            return;
        }
        ask_at_last(ballot);
        return;
    }
    if (ballot->asks)
        step(ballot);
    else if (ballot->line == NULL || (now >= ballot->recheck_at && is_first_in_line(ballot)))
        ask_all(ballot);
    else
        line_up(ballot);
}

static void voted(hf_call *call, const hf_completion *completion) {
    struct hf_ballot *ballot = call->of;
    size_t at = call->at;
    bool held = completion->status == HF_OK, in_line = ballot->line == call;
    hf_vote *of = &ballot->votes[at];
    if (in_line)
        ballot->line = NULL;
    else
        of->asking = NULL;
    of->fails = completion->status == HF_ESERVER;
    of->forbids = of->fails && hf_error_permission(completion->error.message);
    if (held && is_young(ballot, at, call->sent_at)) {
        hf_vote_give_back(ballot->client, at, completion->hold);
        held = false;
    } else if (held) {
        hf_vote_take(ballot, at, completion->hold);
    } else {
        if (!in_line)
            of->refuses = completion->status == HF_EBUSY &&
                          completion->error.cause == HF_CAUSE_NONE; /* else its vote has ended */
        ballot->lacks = ballot->lacks || completion->status == HF_ENOMEM;
    }
    if (of->forbids && has_failed(ballot, true)) {
        hf_error_set(&completion->error);
        end_ballot(ballot, HF_ESERVER, true);
    } else if (in_line && completion->status == HF_ETIMEOUT) {
        if (ballot->why == NULL)
            ballot->why = malloc(sizeof *ballot->why);
        if (ballot->why != NULL)
            *ballot->why = completion->error;
        ask_at_last(ballot);
    } else if (in_line && held) {
        ballot->office = at;
        ballot->head_at = 0;
        ballot->rounds = 0;
        if (ballot->score == 0)
            ballot->score = of->hold->score;
        ask_all(ballot);
    } else if (in_line && !ballot->asks) {
        pause_for(ballot, hf_jitter(NOBODY_MS / 2, NOBODY_MS + 1));
    } else {
        step(ballot);
    }
}

/* ----------------------------------------------------------------- Acquire */

/* Stand in line for a lock for which others have just waited; otherwise ask all masters. */
static void begin(struct hf_ballot *ballot) {
    size_t office = find_office(ballot);
    ballot->timer.fire = ballot_due;
    ballot->ends_at = ballot->op->timeout_ms != 0 ? ballot->op->until : patience(ballot);
    ballot->office = office != HF_NO_MASTER ? office : 0;
    if (ballot->op->timeout_ms != 0 && office != HF_NO_MASTER &&
        hf_waiting_expected_locked(ballot->client, ballot->like->names))
        line_up(ballot);
    else
        ask_all(ballot);
}

/* Return whether the hold still stands: the thread may have slept past its deadline. */
static bool stands(hf_op *op) { return hf_now() < op->hold->validity.deadline; }

static hf_status ask(hf_op *op) {
    if (!hf_op_equip_locked(op) || hf_votes_new(op) == NULL)
        return hf_fail(HF_ENOMEM, "no memory or file descriptor to wait with");
    begin(op->ballot);
    return HF_OK;
}

static void run(hf_op *op, bool interruptible) {
    hf_client *client = op->hold->client;
    bool listens = client->interrupt != NULL;
    if (hf_votes_nest(op))
        return;
    hf_status status = ask(op);
    while (status == HF_OK) {
        if (op->done && (op->status != HF_OK || stands(op)))
            return;
        if (op->done) {
            hf_undo_acquire_locked(op->hold, NULL);
            op->done = false;
            bool again = op->timeout_ms != 0 && !op->missed;
            op->missed = hf_now() >= op->until; /* then once more */
            if (again)
                status = ask(op);
            else
                status = hf_fail(HF_ECONNECT, "the lease of lock %s ended before the answers came",
                                 hf_names_quoted(op->hold->names));
            continue;
        }
        if (client->swept || hf_brake_is_pulled())
            status = HF_ECANCELED;
        else
            status = hf_op_sleep_locked(op, interruptible, &listens);
        if (status != HF_OK && op->ballot != NULL)
            end_ballot(op->ballot, status, false);
        else if (status != HF_OK && op->status == HF_OK)
            hf_op_finish_locked(op, status); /* the caller must learn of the signal */
    }
    if (!op->done)
        hf_op_fail_locked(op, status);
}

static void begin_due(hf_timer *timer, int64_t now) {
    struct hf_ballot *ballot = HF_OF(struct hf_ballot, timer, timer);
    (void)now;
    if (!hf_votes_nest(ballot->op))
        begin(ballot);
    else
        hf_votes_free(ballot, HF_PARTING_BACK);
}

/* Begin a started acquire. The keeper takes the first step: the caller does not know of it yet. */
static bool begin_started(hf_op *op, int64_t pause_ms) {
    struct hf_ballot *ballot = hf_votes_new(op);
    if (ballot == NULL)
        return false;
    hf_thread_timer_locked(ballot->client, &ballot->timer, hf_after(hf_now(), pause_ms));
    ballot->timer.fire = begin_due;
    return true;
}

static void cancel(hf_op *op) { end_ballot(op->ballot, HF_ECANCELED, false); }

void hf_ballots_close(hf_client *client) {
    HF_EACH(at, &client->quorum->ballots) {
        struct hf_ballot *ballot = HF_OF(struct hf_ballot, item, at);
        if (ballot->op != NULL && ballot->op->started)
            cancel(ballot->op);
        else if (ballot->op != NULL)
            hf_op_notify_locked(ballot->op); /* its thread ends it */
        else
            hf_votes_close(ballot);
    }
    hf_rounds_close(client);
}

const hf_ballot_ways hf_ballot = {.run = run,
                                  .begin = begin_started,
                                  .cancel = cancel,
                                  .due = hf_votes_due,
                                  .count = hf_votes_count,
                                  .leave = hf_votes_leave,
                                  .voted = voted,
                                  .changed = step,
                                  .votes = hf_votes_held,
                                  .poll = hf_votes_poll};

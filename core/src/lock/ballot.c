#include "lock/ballot.h"

#include <stdlib.h>
#include <string.h>

#include "base/brake.h"
#include "lock/acquire.h"
#include "lock/hold.h"
#include "lock/life.h"
#include "lock/majority.h"
#include "lock/queue.h"
#include "lock/reading.h"
#include "lock/renewal.h"
#include "lock/round.h"
#include "lock/thread.h"
#include "lock/undo.h"

/* The masters' clocks, and the ways to them, may differ by this: a fence that is proposed lies
 * ahead of all of them. */
#define AHEAD_MS 5
/* In line, the first of this client tries all masters so often, and sooner if it has stood back. */
#define RECHECK_MS 1000
#define STOOD_BACK_MS 50
/* The head of the line asks again after 1, 2, 4 … ms, up to this; and so often before it lets go.
 */
#define HEAD_MS 64
#define HEAD_ROUNDS 8
#define HEAD_MAX_MS 1000
/* A try that has the first master's vote asks so often again, within this. */
#define TRY_ROUNDS 3
#define TRY_MS 50
/* And looks so often whether that master is still up. */
#define LOOK_MS 250
/* A vote that is missing while the lock is held is asked for after this, and then each time later.
 */
#define JOIN_MIN_MS 20
#define JOIN_MAX_MS 1000
/* In the line of a master that misses it, the hold stands before all that wait. */
#define FIRST_SCORE 1
/* Where no majority can be asked. */
#define NOBODY_MS 100
/* A master that was down is the first in line again when it has answered for this long. */
#define UP_MS 10000

typedef struct vote {
    hf_hold *hold;     /* with a reference; or NULL */
    hf_call *asking;   /* an acquire, or a confirmation, without an answer; or NULL */
    int64_t confirmed; /* the last fence that it has confirmed */
    bool refuses;      /* others have this master */
} vote;

struct hf_ballot {
    hf_item item;
    hf_client *client;
    hf_hold *like;  /* what a vote is like: the first that stands on it; with a reference */
    hf_op *op;      /* while it acquires */
    hf_hold *holds; /* the caller's, by `beside`: those that nest in the first, too */
    char tag[HF_ID_LENGTH / 2 + 1];
    int64_t fence;
    vote votes[HF_MASTERS_MAX];
    hf_timer timer;
    int64_t asked_at; /* the round that is under way, or the last, began then */
    unsigned rounds;
    size_t reached; /* how many masters had answered when the last round ended */
    bool asks;      /* a round is under way */
    enum {
        IN_TIME,
        LATE, /* the time is up, and the line is left just now */
        LAST  /* and this is the last round */
    } time;
    bool waited;   /* it has stood in line */
    bool doubts;   /* asking whether the others still know theirs: until then it joins nowhere */
    bool gone;     /* a master does not know a vote any more */
    size_t office; /* where it stands in line, or would */
    hf_call *line;
    int64_t join_ms;    /* how long after the last time it asks for missing votes */
    int64_t recheck_at; /* in line, all masters are tried again then */
    int64_t score;      /* its first place in a line; 0: not known */
    int64_t head_at;    /* it came to the head of the line then; 0: it has not */
    int64_t most;       /* votes that join make no hold last longer that is not renewed */
    int64_t counted_at; /* its votes were last; a hold that had ended by then is lost */
};

static hf_master *master_of(const struct hf_ballot *ballot, size_t at) {
    return &ballot->client->quorum->masters[at];
}

static size_t masters_of(const struct hf_ballot *ballot) { return ballot->client->quorum->count; }

static size_t majority_of(const struct hf_ballot *ballot) {
    return hf_majority(masters_of(ballot));
}

/* ----------------------------------------------------------------- Asking */

/* The highest fence that was seen, or just below one that lies ahead of all masters' clocks: then
 * all give the same. */
static int64_t propose(const struct hf_ballot *ballot) {
    const struct hf_quorum *quorum = ballot->client->quorum;
    int64_t floor = hf_table_floor_locked(ballot->client, ballot->like->names);
    int64_t clock = hf_members_clock(quorum->members, hf_now()), ahead_ms = AHEAD_MS;
    for (size_t i = 0; i < quorum->count; i++)
        if (quorum->masters[i].trip_ms > ahead_ms && !quorum->masters[i].down)
            ahead_ms = quorum->masters[i].trip_ms;
    if (clock > 0 && clock + ahead_ms * 1000 - 1 > floor)
        floor = clock + ahead_ms * 1000 - 1;
    return floor > ballot->fence ? floor : ballot->fence;
}

/* A vote that joins a hold whose lease was extended is asked for as long. */
static void ask_as_long(const struct hf_ballot *ballot, hf_hold *of) {
    int64_t left_ms = ballot->op == NULL ? hf_until(ballot->most, hf_now()) : 0;
    if (left_ms <= of->validity.lease_ms)
        return;
    hf_validity_begin(&of->validity, left_ms);
    hf_validity_extends(&of->validity, left_ms);
}

static void voted(hf_call *call, const hf_completion *completion);
static void confirmed(hf_call *call, const hf_completion *completion);

/* Acquire the vote of that master, by a place in its line or at once. */
static void acquire_vote(struct hf_ballot *ballot, hf_call_kind kind, size_t at, int64_t floor) {
    hf_client *client = master_of(ballot, at)->client;
    hf_hold *hold = hf_hold_for(client, ballot->like);
    hf_call *call =
        hold != NULL ? hf_call_new(ballot->client, kind, at, hold, voted, ballot) : NULL;
    if (call == NULL) {
        if (hold != NULL)
            hf_hold_drop(hold);
        return;
    }
    memcpy(hold->tag, ballot->tag, sizeof hold->tag);
    hold->vote_floor = floor;
    ask_as_long(ballot, hold);
    hf_voting how = {.timeout_ms = 0, .number = hf_call_number(call)};
    bool joins = ballot->op == NULL;
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
        hf_hold_drop(hold);
        hf_call_drop(call);
    } else if (kind == HF_CALL_LINE && !joins) {
        ballot->line = call;
    } else {
        ballot->votes[at].asking = call;
    }
}

/* No master that has begun anew just now is asked for a new vote: it may have forgotten others. */
static bool is_young(const struct hf_ballot *ballot, size_t at, int64_t now) {
    return hf_member_young_ms(ballot->client->quorum->members, at, now) > 0;
}

static bool may_ask(const struct hf_ballot *ballot, size_t at, int64_t now) {
    return !is_young(ballot, at, now) && !hf_master_is_silent(ballot->client, at, now);
}

/* Are there enough to ask without those that are silent? */
static bool can_spare_silent(const struct hf_ballot *ballot, int64_t now) {
    size_t count = 0;
    for (size_t i = 0; i < masters_of(ballot); i++)
        count += ballot->votes[i].hold != NULL || may_ask(ballot, i, now);
    return count >= majority_of(ballot);
}

/* Give back a vote that does not confirm. That of a hold that stands stays: its loss is told. */
static void drop_unconfirmed(const struct hf_ballot *ballot, size_t at, vote *of) {
    if (of->hold == NULL || ballot->op == NULL)
        return;
    hf_vote_give_back(ballot->client, at, of->hold);
    of->hold = NULL;
}

/* Ask a vote to stand for the fence. One that cannot be asked, because its hold is lost, is none:
 * to stay, and be asked again, it would have the ballot choose without an end. */
static void confirm(struct hf_ballot *ballot, size_t at) {
    vote *of = &ballot->votes[at];
    hf_call *call = hf_call_new(ballot->client, HF_CALL_TELL, at, of->hold, confirmed, ballot);
    if (call != NULL) {
        call->fence = ballot->fence;
        if (hf_hold_confirm_start(of->hold, ballot->fence, hf_call_number(call)) == HF_OK) {
            of->asking = call;
            return;
        }
        hf_call_drop(call);
    }
    drop_unconfirmed(ballot, at, of);
}

/* ---------------------------------------------------------------- Votes */

static int64_t deadline_of(const hf_hold *hold) {
    hf_client_lock(hold->client);
    int64_t deadline = hold->state == HF_STATE_HELD ? hold->validity.deadline : INT64_MIN;
    hf_client_unlock(hold->client);
    return deadline;
}

static int64_t majority_deadline(const struct hf_ballot *ballot) {
    int64_t deadlines[HF_MASTERS_MAX];
    for (size_t i = 0; i < masters_of(ballot); i++) {
        const hf_hold *hold = ballot->votes[i].hold;
        deadlines[i] = hold != NULL ? deadline_of(hold) : INT64_MIN;
    }
    return hf_majority_deadline(deadlines, masters_of(ballot));
}

/* Then nothing nested in it. */
static bool is_kept(const struct hf_ballot *ballot) {
    return ballot->holds != NULL && ballot->holds->keeps_until != 0;
}

static bool is_renewed(const struct hf_ballot *ballot) {
    bool renewed = ballot->holds == NULL && ballot->like->terms.renew;
    for (const hf_hold *hold = ballot->holds; hold != NULL; hold = hold->beside)
        renewed = renewed || hold->terms.renew;
    return renewed;
}

/* A vote is renewed as long as any of the holds that it carries is, and ends with the last one's
 * max_hold. */
static void share_renewal(const struct hf_ballot *ballot) {
    bool renew = is_renewed(ballot);
    int64_t last = INT64_MIN;
    for (const hf_hold *hold = ballot->holds; hold != NULL; hold = hold->beside)
        last = hold->validity.end > last ? hold->validity.end : last;
    for (size_t i = 0; i < masters_of(ballot); i++) {
        hf_hold *of = ballot->votes[i].hold;
        int64_t end = of != NULL && ballot->holds == NULL ? of->validity.end : last;
        if (of == NULL || (of->terms.renew == renew && of->validity.end == end))
            continue;
        hf_client_lock(of->client);
        of->terms.renew = renew;
        of->validity.end = HF_NO_DEADLINE;
        hf_validity_end_by(&of->validity, end);
        hf_renewal_plan_locked(of);
        hf_client_unlock(of->client);
    }
}

/* All that it has, but for the vote of that master. */
static void let_go(struct hf_ballot *ballot, size_t but, hf_parting how) {
    for (size_t i = 0; i < masters_of(ballot); i++) {
        vote *of = &ballot->votes[i];
        if (i == but)
            continue;
        hf_call_abandon(&of->asking);
        if (of->hold != NULL && how == HF_PARTING_BACK)
            hf_vote_give_back(ballot->client, i, of->hold);
        else if (of->hold != NULL && how == HF_PARTING_ENDS)
            hf_hold_close(of->hold);
        else if (of->hold != NULL)
            hf_hold_drop(of->hold);
        *of = (vote){0};
    }
    ballot->fence = 0;
}

#define ALL SIZE_MAX

static void free_ballot(struct hf_ballot *ballot, hf_parting how) {
    hf_client *client = ballot->client;
    hf_call_abandon(&ballot->line);
    let_go(ballot, ALL, how);
    hf_timer_clear(&client->timers, &ballot->timer);
    hf_timer_unreserve(&client->timers);
    hf_list_remove(&ballot->item);
    hf_hold_drop(ballot->like);
    free(ballot);
}

/* It ends without the lock. */
static void end(struct hf_ballot *ballot, hf_status status, bool explained) {
    hf_op *op = ballot->op;
    hf_error error = *hf_error_last();
    op->ballot = NULL;
    free_ballot(ballot, HF_PARTING_BACK);
    hf_error_set(&error);
    if (explained)
        hf_op_fail_locked(op, status);
    else
        hf_op_finish_locked(op, status);
}

/* ----------------------------------------------------------------- Rounds */

static hf_status poll_votes(hf_hold *hold, hf_round_kind kind, int64_t duration_ms,
                            hf_round_told *told, void *context);
static void step(struct hf_ballot *ballot);
static void plan_join(struct hf_ballot *ballot);
static void ask_missing(struct hf_ballot *ballot, int64_t now);

static void wake_at(struct hf_ballot *ballot, int64_t due) {
    if (ballot->op != NULL && ballot->op->timeout_ms != 0 && ballot->time == IN_TIME)
        due = hf_earlier(due, ballot->op->until);
    hf_thread_timer_locked(ballot->client, &ballot->timer, due);
}

static void pause_for(struct hf_ballot *ballot, int64_t ms) {
    ballot->asks = false;
    wake_at(ballot, hf_after(hf_now(), ms));
}

/* Ask all masters that have not given their vote. */
static void ask_all(struct hf_ballot *ballot) {
    int64_t now = hf_now(), floor = propose(ballot);
    bool spares = can_spare_silent(ballot, now);
    ballot->asks = true;
    ballot->asked_at = now;
    ballot->recheck_at = 0;
    ballot->rounds++;
    ballot->fence = 0;
    for (size_t i = 0; i < masters_of(ballot); i++) {
        vote *of = &ballot->votes[i];
        of->refuses = false;
        if (of->hold == NULL && of->asking == NULL && !is_young(ballot, i, now) &&
            !(spares && hf_master_is_silent(ballot->client, i, now)))
            acquire_vote(ballot, HF_CALL_ASK, i, floor);
    }
    step(ballot);
}

/* Where to stand in line: at the first master that may be asked, and has been up for a while; or
 * where it stands. ALL: nowhere. */
static size_t find_office(const struct hf_ballot *ballot) {
    int64_t now = hf_now();
    size_t first = ALL;
    for (size_t i = 0; i < masters_of(ballot); i++) {
        const hf_master *master = master_of(ballot, i);
        bool here = ballot->line != NULL && ballot->line->at == i;
        if (master->down || !may_ask(ballot, i, now))
            continue;
        if (here || master->up_since == 0 || now >= hf_after(master->up_since, UP_MS))
            return i;
        if (first == ALL)
            first = i;
    }
    return first;
}

static int64_t recheck_after(int64_t ms) {
    return hf_after(hf_now(), hf_jitter(ms - ms / 4, ms + 1));
}

static void line_up(struct hf_ballot *ballot) {
    size_t office = find_office(ballot);
    ballot->waited = true;
    ballot->head_at = 0;
    if (ballot->line != NULL && ballot->score == 0) /* for when it has to move */
        ballot->score = hf_op_score(ballot->line->hold->client, hf_call_number(ballot->line));
    if (ballot->line != NULL && ballot->line->at != office && office != ALL)
        hf_call_abandon(&ballot->line);
    if (ballot->line == NULL && office != ALL) {
        ballot->office = office;
        acquire_vote(ballot, HF_CALL_LINE, office,
                     hf_table_floor_locked(ballot->client, ballot->like->names));
    }
    if (ballot->line == NULL) {
        pause_for(ballot, hf_jitter(NOBODY_MS / 2, NOBODY_MS + 1));
        return;
    }
    int64_t now = hf_now(), lease_ms = ballot->like->validity.lease_ms;
    if (ballot->recheck_at <= now)
        ballot->recheck_at = recheck_after(lease_ms < RECHECK_MS ? lease_ms : RECHECK_MS);
    ballot->asks = false;
    wake_at(ballot, hf_earlier(ballot->recheck_at, hf_after(now, LOOK_MS)));
}

static void time_is_up(struct hf_ballot *ballot) {
    if (hf_masters_refuse(ballot->client) || ballot->reached < majority_of(ballot))
        end(ballot, hf_masters_explain(ballot->client, ballot->like->names), true);
    else
        end(ballot, ballot->op->timeout_ms == 0 ? HF_EBUSY : HF_ETIMEOUT, false);
}

/* The head of the line has no majority. */
static void go_on_as_head(struct hf_ballot *ballot) {
    int64_t now = hf_now();
    if (ballot->head_at == 0) {
        ballot->head_at = now;
        ballot->rounds = 0;
    }
    int64_t ms = ballot->rounds < 6 ? INT64_C(1) << ballot->rounds : HEAD_MS;
    if (ballot->rounds <= HEAD_ROUNDS) {
        pause_for(ballot, hf_jitter(ms - ms / 2, ms + 1));
        return;
    }
    if (now < hf_after(ballot->head_at, HEAD_MAX_MS)) {
        let_go(ballot, ballot->office, HF_PARTING_BACK);
        pause_for(ballot, hf_jitter(0, 2 * HEAD_MS + 1));
        return;
    }
    let_go(ballot, ALL, HF_PARTING_BACK);
    line_up(ballot);
}

/* No majority can say yes any more. */
static void came_to_nothing(struct hf_ballot *ballot) {
    bool first = ballot->votes[ballot->office].hold != NULL, tries = ballot->op->timeout_ms == 0;
    bool again = first && ballot->rounds <= TRY_ROUNDS && ballot->reached >= majority_of(ballot) &&
                 hf_now() < hf_after(ballot->op->since, TRY_MS);
    ballot->asks = false;
    if (ballot->time == LAST || hf_masters_refuse(ballot->client) || (tries && !again)) {
        time_is_up(ballot);
    } else if (tries) {
        pause_for(ballot, INT64_C(1) << ballot->rounds);
    } else if (first && ballot->line == NULL) {
        go_on_as_head(ballot);
    } else {
        let_go(ballot, ALL, HF_PARTING_BACK);
        line_up(ballot);
    }
}

/* Others wait at the first master, and have just been let in there: to take a majority behind their
 * back would let a busy caller overtake them for ever. */
static bool stands_back(const struct hf_ballot *ballot) {
    return !ballot->waited && ballot->op->timeout_ms != 0 && ballot->votes[ballot->office].refuses;
}

static void won(struct hf_ballot *ballot) {
    int64_t now = hf_now(), deadline = majority_deadline(ballot);
    hf_op *op = ballot->op;
    hf_hold *hold = op->hold;
    bool ended = deadline <= now;
    if (ended || stands_back(ballot)) {
        if (!ended) {
            ballot->recheck_at = recheck_after(STOOD_BACK_MS);
            hf_waiting_handed_on_locked(ballot->client, hold->names, now);
        }
        let_go(ballot, ALL, HF_PARTING_BACK);
        came_to_nothing(ballot);
        return;
    }
    hf_call_abandon(&ballot->line);
    ballot->asks = false;
    hf_timer_clear(&ballot->client->timers, &ballot->timer);
    bool missing = false;
    for (size_t i = 0; i < masters_of(ballot); i++) {
        vote *of = &ballot->votes[i];
        of->refuses = false;
        if (of->hold != NULL && of->asking == NULL && of->confirmed != ballot->fence &&
            of->hold->fence < ballot->fence)
            confirm(ballot, i);
        missing = missing || of->hold == NULL;
    }
    ballot->most = deadline;
    hf_hold_begin(hold, ballot->fence, ballot->asked_at, deadline);
    hold->waited = ballot->waited;
    hold->ballot = ballot;
    ballot->holds = hold;
    ballot->op = NULL;
    if (missing)
        plan_join(ballot);
    op->ballot = NULL;
    op->done_at = now;
    hf_waiting_handed_on_locked(ballot->client, hold->names, ballot->waited ? now : 0);
    hf_op_finish_locked(op, HF_OK);
}

/* patient: those that are silent may answer yet. */
static hf_said said_by(const struct hf_ballot *ballot, size_t at, int64_t now, bool patient) {
    const vote *of = &ballot->votes[at];
    bool asked = of->asking != NULL;
    bool open = asked && (patient || !hf_master_is_silent(ballot->client, at, now));
    if (of->hold != NULL)
        return (hf_said){.said = HF_SAID_YES,
                         .fence = of->hold->fence,
                         .confirms = of->confirmed == ballot->fence,
                         .asked = asked};
    return (hf_said){.said = open ? HF_SAID_NOTHING : HF_SAID_NO};
}

/* What has been said: is that enough? */
static void step(struct hf_ballot *ballot) {
    hf_said said[HF_MASTERS_MAX];
    while (ballot->asks) {
        int64_t now = hf_now(), overdue_at = HF_NO_DEADLINE;
        bool asked = false;
        ballot->reached = 0;
        for (size_t i = 0; i < masters_of(ballot); i++)
            ballot->reached += ballot->votes[i].hold != NULL || ballot->votes[i].refuses;
        bool patient = ballot->reached < majority_of(ballot);
        for (size_t i = 0; i < masters_of(ballot); i++) {
            said[i] = said_by(ballot, i, now, patient);
            if (ballot->votes[i].asking == NULL)
                continue;
            asked = true;
            if (!hf_master_is_silent(ballot->client, i, now))
                overdue_at = hf_earlier(overdue_at, hf_master_silent_at(ballot->client, i));
        }
        switch (hf_choose(said, masters_of(ballot), &ballot->fence)) {
        case HF_CHOICE_HELD:
            won(ballot);
            return;
        case HF_CHOICE_WAIT:
            wake_at(ballot, overdue_at);
            return;
        case HF_CHOICE_NONE:
            if (patient && asked) /* which tell whether others have it */
                wake_at(ballot, HF_NO_DEADLINE);
            else
                came_to_nothing(ballot);
            return;
        default:
            break;
        }
        for (size_t i = 0; i < masters_of(ballot); i++) {
            vote *of = &ballot->votes[i];
            if (of->hold == NULL || of->hold->fence >= ballot->fence)
                continue;
            hf_call_abandon(
                &of->asking); /* for another fence: its answer says nothing of this one */
            confirm(ballot, i);
        }
    }
}

/* Of those of this client that are in line for that lock, is it the first? */
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
    hf_op *op = ballot->op;
    if (op == NULL) {
        ask_missing(ballot, now);
        return;
    }
    if (now >= op->until && op->timeout_ms != 0 && ballot->time != LAST) {
        if (!ballot->asks && ballot->line == NULL && ballot->rounds > 0) {
            time_is_up(ballot);
            return;
        }
        if (ballot->line != NULL && ballot->time == IN_TIME) {
            /* Which tells who has it; but not for long. */
            const hf_master *master = master_of(ballot, ballot->line->at);
            bool down = master->down || hf_master_is_silent(ballot->client, ballot->line->at, now);
            ballot->time = LATE;
            wake_at(ballot, down ? now : hf_after(now, hf_master_patience_ms(master)));
            return;
        }
        hf_call_abandon(&ballot->line);
        ballot->time = LAST; /* only a majority's word shows that others kept the lock */
    }
    if (ballot->asks)
        step(ballot);
    else if (ballot->line == NULL ||
             (ballot->time == IN_TIME && now >= ballot->recheck_at && is_first_in_line(ballot)))
        ask_all(ballot);
    else
        line_up(ballot);
}

/* ------------------------------------------------------------- What is told */

/* Take over what the votes say now, which their own clients renew. A hold that was once seen to
 * have ended is lost, whatever they say later. lengthens: the caller has asked for more. */
static void refresh(struct hf_ballot *ballot, bool lengthens) {
    int64_t before = ballot->counted_at;
    ballot->counted_at = hf_now();
    if (is_kept(ballot))
        return;
    int64_t deadline = majority_deadline(ballot);
    if (deadline == INT64_MIN)
        deadline = 0;
    else if (lengthens || is_renewed(ballot))
        ballot->most = deadline;
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

/* By asking, or by a place in line beside that. */
static void take_vote(struct hf_ballot *ballot, size_t at, hf_hold *hold) {
    vote *of = &ballot->votes[at];
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
    hold->validity.lease_ms = ballot->like->validity.lease_ms;
    hf_client_unlock(hold->client);
    share_renewal(ballot);
}

/* An acquire of a vote has ended, for a hold that stands. */
static void joined(struct hf_ballot *ballot, size_t at, const hf_completion *completion) {
    vote *of = &ballot->votes[at];
    /* What is lost, though it has not been told yet, or is being kept takes no more votes. */
    bool late = is_kept(ballot) || !still_stands(ballot);
    if (completion->status != HF_OK) {
        of->refuses = completion->status == HF_EBUSY;
    } else if (late) {
        hf_vote_give_back(ballot->client, at, completion->hold);
    } else {
        take_vote(ballot, at, completion->hold);
        ballot->join_ms = 0;
        if (of->hold->fence < ballot->fence) /* it was asked before that was chosen */
            confirm(ballot, at);
    }
}

static void voted(hf_call *call, const hf_completion *completion) {
    struct hf_ballot *ballot = call->of;
    size_t at = call->at;
    bool held = completion->status == HF_OK, in_line = ballot->line == call;
    vote *of = &ballot->votes[at];
    if (in_line)
        ballot->line = NULL;
    else
        of->asking = NULL;
    if (ballot->op == NULL) {
        joined(ballot, at, completion);
        return;
    }
    if (held && is_young(ballot, at, call->sent_at)) {
        hf_vote_give_back(ballot->client, at, completion->hold);
        held = false;
    } else if (held) {
        take_vote(ballot, at, completion->hold);
    } else {
        of->refuses = completion->status == HF_EBUSY;
    }
    if (in_line && completion->status == HF_ETIMEOUT) {
        hf_error_set(&completion->error);
        end(ballot, HF_ETIMEOUT, true);
    } else if (in_line && held) {
        ballot->office = at;
        ballot->head_at = 0;
        ballot->rounds = 0;
        if (ballot->score == 0) /* those who came later stand behind its fence */
            ballot->score = of->hold->fence;
        ask_all(ballot);
    } else if (in_line && !ballot->asks) {
        pause_for(ballot, hf_jitter(NOBODY_MS / 2, NOBODY_MS + 1));
    } else {
        step(ballot);
    }
}

static void confirmed(hf_call *call, const hf_completion *completion) {
    struct hf_ballot *ballot = call->of;
    vote *of = &ballot->votes[call->at];
    of->asking = NULL;
    if (completion->status == HF_OK)
        of->confirmed = call->fence;
    else
        drop_unconfirmed(ballot, call->at, of);
    if (ballot->op != NULL)
        step(ballot);
}

static void plan_join(struct hf_ballot *ballot) {
    ballot->join_ms = hf_backoff(ballot->join_ms, JOIN_MIN_MS, JOIN_MAX_MS);
    hf_thread_timer_locked(ballot->client, &ballot->timer,
                           hf_after(hf_now(), hf_spread(ballot->join_ms)));
}

/* Who waits keeps a master that lets it in while others have the majority: where such a master has
 * refused the hold, the hold waits too, or each further loss of a master could end it. */
static void ask_missing(struct hf_ballot *ballot, int64_t now) {
    bool missing = false;
    if (ballot->doubts || is_kept(ballot))
        return;
    for (size_t i = 0; i < masters_of(ballot); i++) {
        const vote *of = &ballot->votes[i];
        missing = missing || of->hold == NULL;
        if (of->hold == NULL && of->asking == NULL && !hf_master_is_silent(ballot->client, i, now))
            acquire_vote(ballot, of->refuses ? HF_CALL_LINE : HF_CALL_ASK, i, ballot->fence);
    }
    if (missing)
        plan_join(ballot);
}

static void lose(hf_hold *hold) {
    hf_hold_lose_locked(hold, hold->ballot->gone ? HF_CAUSE_GONE : hf_loss_cause(hold));
}

static void lose_all(struct hf_ballot *ballot) {
    for (hf_hold *hold = ballot->holds, *next; hold != NULL; hold = next) {
        next = hold->beside;
        if (hf_hold_is_listed(hold) && hold->state == HF_STATE_HELD)
            lose(hold);
    }
}

/* The others have said whether they know their votes. */
static void doubted(void *context, hf_status status) {
    struct hf_ballot *ballot = ((hf_hold *)context)->ballot;
    if (ballot == NULL)
        return;
    ballot->doubts = false;
    if (still_stands(ballot) && status == HF_OK)
        ask_missing(ballot, hf_now());
    else if (status == HF_ELOST)
        lose_all(ballot);
}

/* A master does not know a vote any more. It may have come back empty; but a break may be under
 * way, at each master in turn, and to join again would undo that. */
static void doubt(struct hf_ballot *ballot) {
    if (ballot->doubts)
        return;
    ballot->join_ms = 0;
    ballot->doubts = true;
    if (poll_votes(ballot->holds, HF_ROUND_RENEW, 0, doubted, ballot->holds) != HF_OK)
        ballot->doubts = false; /* no memory: the next look joins */
}

/* A master's client has lost a vote. */
static void lost_vote(hf_client *client, size_t at, const hf_completion *completion) {
    HF_EACH(item, &client->quorum->ballots) {
        struct hf_ballot *ballot = HF_OF(struct hf_ballot, item, item);
        vote *of = &ballot->votes[at];
        if (of->hold == NULL || of->hold->number != completion->hold_number)
            continue;
        hf_call_abandon(&of->asking);
        hf_hold_close(of->hold);
        *of = (vote){0};
        ballot->gone = ballot->gone || completion->cause == HF_CAUSE_GONE;
        if (ballot->op != NULL)
            step(ballot);
        else if (!still_stands(ballot))
            lose_all(ballot);
        else if (completion->cause == HF_CAUSE_GONE)
            doubt(ballot);
        else
            ask_missing(ballot, hf_now());
        return;
    }
}

/* ----------------------------------------------------------------- Acquire */

static struct hf_ballot *new_ballot(hf_op *op) {
    hf_client *client = op->hold->client;
    struct hf_ballot *ballot = calloc(1, sizeof *ballot);
    if (ballot == NULL || !hf_timer_reserve(&client->timers)) {
        free(ballot);
        return NULL;
    }
    ballot->client = client;
    ballot->like = hf_hold_grab(op->hold);
    ballot->op = op;
    ballot->timer.fire = ballot_due;
    memcpy(ballot->tag, op->hold->id + HF_ID_LENGTH / 2, HF_ID_LENGTH / 2);
    hf_list_add_last(&client->quorum->ballots, &ballot->item);
    op->ballot = ballot;
    return ballot;
}

/* A lock for which others have just waited is waited for; else all are asked. */
static void begin(struct hf_ballot *ballot) {
    size_t office = find_office(ballot);
    ballot->office = office != ALL ? office : 0;
    if (ballot->op->timeout_ms != 0 && office != ALL &&
        hf_waiting_expected_locked(ballot->client, ballot->like->names))
        line_up(ballot);
    else
        ask_all(ballot);
}

/* Each hold has what its votes have, whatever the majority has said. */
static void lengthened(void *context, hf_status status) {
    const hf_hold *hold = context;
    (void)status;
    if (hold->ballot != NULL)
        refresh(hold->ballot, true);
}

/* It nests in a hold of the same owner: another handle of the same ballot. A longer lease of its
 * own is asked for in the background. */
static bool nests(hf_op *op) {
    hf_hold *hold = op->hold, *outer = hf_table_outer_locked(hold);
    if (outer == NULL || outer->ballot == NULL)
        return false;
    if (!still_stands(outer->ballot)) {
        lose_all(outer->ballot);
        return false;
    }
    int64_t now = hf_now(), lease_ms = hold->validity.lease_ms;
    hf_hold_begin(hold, outer->fence, now, outer->validity.deadline);
    hold->ballot = outer->ballot;
    hold->beside = outer->beside;
    outer->beside = hold;
    op->done_at = now;
    hf_hold_grab(hold);
    hf_op_finish_locked(op, HF_OK); /* which frees what was started, or may give the hold back */
    if (hold->ballot != NULL)
        share_renewal(hold->ballot);
    if (hold->ballot != NULL && hf_after(now, lease_ms) > majority_deadline(hold->ballot))
        poll_votes(hold, HF_ROUND_REPLACE, lease_ms, lengthened, hold);
    hf_hold_drop(hold);
    return true;
}

/* It was won; but its thread may have slept past that. */
static bool stands(hf_op *op) {
    op->done_at = hf_now();
    return op->done_at < op->hold->validity.deadline;
}

static void run(hf_op *op, bool interruptible) {
    hf_client *client = op->hold->client;
    bool listens = client->interrupt != NULL;
    if (nests(op))
        return;
    struct hf_ballot *ballot = hf_op_equip_locked(op) ? new_ballot(op) : NULL;
    if (ballot == NULL) {
        hf_op_fail_locked(op, hf_fail(HF_ENOMEM, "no memory or file descriptor to wait with"));
        return;
    }
    begin(ballot);
    for (hf_status status = HF_OK; status == HF_OK;) {
        if (op->done && (op->status != HF_OK || stands(op)))
            return;
        if (op->done) {
            hf_undo_acquire_locked(op->hold, NULL);
            op->done = false;
            if (hf_now() >= op->until || new_ballot(op) == NULL) {
                hf_op_fail_locked(op, hf_fail(HF_EBUSY,
                                              "the lease of lock %s ended before the answers came",
                                              hf_names_quoted(op->hold->names)));
                return;
            }
            begin(op->ballot);
            continue;
        }
        if (client->swept || hf_brake_is_pulled())
            status = HF_ECANCELED;
        else
            status = hf_op_sleep_locked(op, interruptible, &listens);
        if (status != HF_OK && op->ballot != NULL)
            end(op->ballot, status, false);
        else if (status != HF_OK && op->status == HF_OK)
            hf_op_finish_locked(op, status); /* the caller wants to hear of the signal */
    }
}

static void begin_due(hf_timer *timer, int64_t now) {
    struct hf_ballot *ballot = HF_OF(struct hf_ballot, timer, timer);
    (void)now;
    timer->fire = ballot_due;
    if (!nests(ballot->op))
        begin(ballot);
    else
        free_ballot(ballot, HF_PARTING_BACK);
}

/* Its first step is the keeper's: the caller does not know of it yet. */
static bool begin_started(hf_op *op, int64_t pause_ms) {
    struct hf_ballot *ballot = new_ballot(op);
    if (ballot == NULL)
        return false;
    hf_thread_timer_locked(ballot->client, &ballot->timer, hf_after(hf_now(), pause_ms));
    ballot->timer.fire = begin_due;
    return true;
}

static void cancel(hf_op *op) { end(op->ballot, HF_ECANCELED, false); }

/* ------------------------------------------------------------ While it is held */

static size_t votes(const hf_hold *hold) {
    size_t votes = 0;
    int64_t now = hf_now();
    for (size_t i = 0; hold->ballot != NULL && i < masters_of(hold->ballot); i++)
        votes +=
            hold->ballot->votes[i].hold != NULL && deadline_of(hold->ballot->votes[i].hold) > now;
    return votes;
}

static void hold_due(hf_hold *hold, int64_t now) {
    refresh(hold->ballot, false);
    if (now >= hold->validity.deadline) {
        lose(hold);
        return;
    }
    ask_missing(hold->ballot, now);
    hold->renew_at = now + hf_renewal_interval(hold) / 4;
    hf_renewal_plan_locked(hold);
}

/* The hold leaves its ballot, and the last one takes the votes with it. */
static void leave(hf_hold *hold, hf_parting how) {
    struct hf_ballot *ballot = hold->ballot;
    if (ballot == NULL)
        return;
    hf_hold **at = &ballot->holds;
    while (*at != hold)
        at = &(*at)->beside;
    *at = hold->beside;
    hold->ballot = NULL;
    hold->beside = NULL;
    if (ballot->holds == NULL) {
        free_ballot(ballot, how);
        return;
    }
    share_renewal(ballot);
    if (ballot->doubts) { /* on behalf of that hold, which hears no answer now */
        ballot->doubts = false;
        doubt(ballot);
    }
}

/* A vote that lasts longer than the hold is extended by less: none outlasts the quarantine. */
static int64_t extension_of(const hf_hold *of, int64_t end) {
    int64_t until = deadline_of(of), ms = until > INT64_MIN ? hf_until(end, until) : 0;
    return ms > HF_LEASE_MIN ? ms : HF_LEASE_MIN;
}

static hf_status poll_votes(hf_hold *hold, hf_round_kind kind, int64_t duration_ms,
                            hf_round_told *told, void *context) {
    struct hf_ballot *ballot = hold->ballot;
    if (ballot == NULL) { /* it is lost, or was released */
        told(context, HF_ELOST);
        return HF_OK;
    }
    hf_hold *outer = ballot->holds != hold ? ballot->holds : hold->beside;
    if (outer != NULL && (kind == HF_ROUND_RELEASE || kind == HF_ROUND_KEEP)) {
        /* Others nest in it, or it in another, and these have the votes. */
        leave(hold, HF_PARTING_ENDS);
        if (kind == HF_ROUND_KEEP && hf_after(hf_now(), duration_ms) > outer->least_until)
            outer->least_until = hf_after(hf_now(), duration_ms);
        told(context, HF_OK);
        return HF_OK;
    }
    int64_t stands_until = majority_deadline(ballot);
    if (outer != NULL && kind == HF_ROUND_REPLACE && hf_after(hf_now(), duration_ms) < stands_until)
        kind = HF_ROUND_RENEW; /* to shorten these is not this hold's */
    hf_round *round = hf_round_new(hold, kind, ballot->office, told, context);
    if (round == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    for (size_t i = 0; i < masters_of(ballot); i++) {
        vote *of = &ballot->votes[i];
        int64_t ms = duration_ms;
        if (of->hold != NULL && kind == HF_ROUND_EXTEND)
            ms = extension_of(of->hold, hf_after(stands_until, duration_ms));
        if (of->hold != NULL)
            hf_round_ask(round, i, of->hold, ms);
        else if (kind == HF_ROUND_RELEASE)
            hf_round_await(round, i, &of->asking);
    }
    if (kind == HF_ROUND_RELEASE) {
        leave(hold, HF_PARTING_ENDS);
    } else if (kind == HF_ROUND_EXTEND || kind == HF_ROUND_REPLACE) {
        refresh(ballot, false); /* a shorter lease counts at once */
    }
    hf_round_judge(round);
    return HF_OK;
}

static void count(const hf_hold *hold, bool lengthens) {
    if (hold->ballot != NULL)
        refresh(hold->ballot, lengthens);
}

/* What is held is the masters' clients' to release: their close does, or leaves it. */
static void leave_all(struct hf_ballot *ballot) {
    let_go(ballot, ALL, HF_PARTING_STAYS);
    ballot->doubts = false;
    for (hf_hold *hold = ballot->holds, *next; hold != NULL; hold = next) {
        next = hold->beside;
        leave(hold, HF_PARTING_STAYS);
    }
}

static void close_all(hf_client *client) {
    HF_EACH(at, &client->quorum->ballots) {
        struct hf_ballot *ballot = HF_OF(struct hf_ballot, item, at);
        if (ballot->op != NULL && ballot->op->started)
            cancel(ballot->op);
        else if (ballot->op != NULL)
            hf_op_notify_locked(ballot->op); /* its thread ends it */
        else
            leave_all(ballot);
    }
    hf_rounds_close(client);
}

static void hear(hf_client *client) { hf_masters_hear(client, lost_vote); }

const hf_ballot_ways hf_ballot = {.run = run,
                                  .begin = begin_started,
                                  .cancel = cancel,
                                  .due = hold_due,
                                  .count = count,
                                  .leave = leave,
                                  .votes = votes,
                                  .poll = poll_votes,
                                  .hear = hear,
                                  .close = close_all,
                                  .end = hf_masters_end};

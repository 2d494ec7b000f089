#include "lock/round.h"

#include <stdlib.h>

#include "lock/hold.h"
#include "lock/holds.h"
#include "lock/majority.h"
#include "lock/thread.h"

struct hf_round {
    hf_item item;
    hf_client *client;
    hf_hold *hold; /* with a reference */
    hf_round_kind kind;
    size_t office;
    hf_call *calls[HF_MASTERS_MAX]; /* without an answer; or NULL */
    size_t good, refused, gone;     /* answers; gone: or the master never had a vote */
    size_t vague;                   /* without an answer: it may have been done */
    hf_round_told *told;
    void *context;
    hf_timer timer;
    hf_error why; /* the error of a master that refused */
    hf_status failure;
};

/* Report the result. What was requested before a release, and is no longer wanted, is cancelled. */
static void tell(hf_round *mine, hf_status status) {
    hf_hold *hold = mine->hold;
    hf_round_told *told = mine->told;
    void *context = mine->context;
    for (size_t i = 0; i < mine->client->quorum->count; i++)
        hf_call_abandon(&mine->calls[i]);
    hf_list_remove(&mine->item);
    hf_timer_clear(&mine->client->timers, &mine->timer);
    hf_timer_unreserve(&mine->client->timers);
    free(mine);
    told(context, status);
    hf_hold_drop(hold);
}

static hf_status not_known(const hf_round *mine) {
    bool goes_on = mine->kind == HF_ROUND_RELEASE;
    return hf_fail(HF_EUNKNOWN, "fewer than a majority of the %zu masters answered for lock %s%s",
                   mine->client->quorum->count, hf_names_quoted(mine->hold->names),
                   goes_on ? "; the client goes on in the background" : "");
}

/* Return the status if fewer than a majority of the masters asked have the hold; masters that were
 * not asked may have given their votes since. */
static hf_status without_majority(const hf_round *mine) {
    const struct hf_quorum *quorum = mine->client->quorum;
    if (quorum->ways->votes(mine->hold) < hf_majority(quorum->count))
        return HF_ELOST;
    return mine->kind == HF_ROUND_LOOK || mine->kind == HF_ROUND_RENEW ? HF_OK : not_known(mine);
}

void hf_round_judge(hf_round *mine) {
    const struct hf_quorum *quorum = mine->client->quorum;
    int64_t now = hf_now(), due = HF_NO_DEADLINE;
    size_t majority = hf_majority(quorum->count), open = 0, silent = 0;
    bool office = false, releases = mine->kind == HF_ROUND_RELEASE;
    for (size_t i = 0; i < quorum->count; i++) {
        if (mine->calls[i] == NULL)
            continue;
        bool is_silent = hf_master_is_silent(mine->client, i, now);
        silent += is_silent;
        open += !is_silent;
        office = office || (i == mine->office && !is_silent);
        if (!is_silent)
            due = hf_earlier(due, hf_master_silent_at(mine->client, i));
    }
    size_t done = releases ? mine->good + mine->gone : mine->good;
    size_t over = mine->vague + mine->refused; /* the vote may still stand */
    bool patient = !releases || done + over < majority;
    /* A release also reports whether the hold lasted until then. */
    bool waits = releases && open > 0 && (office || mine->good < majority);
    if (mine->good + open + silent + over < majority) {
        tell(mine, releases ? HF_ELOST : without_majority(mine));
    } else if (done >= majority && !waits) {
        tell(mine, HF_OK);
    } else if (open > 0) {
        hf_thread_timer_locked(mine->client, &mine->timer, due);
    } else if (silent > 0 && patient) {
        hf_timer_clear(&mine->client->timers, &mine->timer); /* each of them answers, or is given
                                                              * up */
    } else if (mine->refused > 0 && mine->vague == 0 && silent == 0) {
        hf_error_set(&mine->why);
        tell(mine, mine->failure);
    } else {
        tell(mine, not_known(mine));
    }
}

static void round_due(hf_timer *timer, int64_t now) {
    (void)now;
    hf_round_judge(HF_OF(hf_round, timer, timer));
}

static void count_answer(hf_round *mine, hf_status status, const hf_error *error) {
    if (status == HF_OK) {
        mine->good++;
    } else if (status == HF_ELOST || status == HF_ENOTHELD) {
        mine->gone++;
    } else if (status == HF_EUNKNOWN || status == HF_ECONNECT) {
        mine->vague++;
    } else {
        mine->refused++;
        mine->failure = status;
        mine->why = *error;
    }
}

static hf_status start_one(hf_round_kind kind, hf_hold *of, int64_t duration_ms, int64_t number) {
    switch (kind) {
    case HF_ROUND_RELEASE:
        return hf_hold_release_start(of, number);
    case HF_ROUND_RENEW:
        return hf_hold_renew_start(of, number);
    case HF_ROUND_LOOK:
        return hf_hold_check_start(of, number);
    case HF_ROUND_EXTEND:
        return hf_hold_lengthen_start(of, duration_ms, number);
    case HF_ROUND_REPLACE:
        return hf_hold_extend_start(of, duration_ms, HF_EXTEND_REPLACE, number);
    default:
        return hf_hold_keep_start(of, duration_ms, number);
    }
}

static void polled(hf_call *call, const hf_completion *completion) {
    hf_round *mine = call->of;
    mine->calls[call->at] = NULL;
    count_answer(mine, completion->status, &completion->error);
    hf_round_judge(mine);
}

void hf_round_ask(hf_round *mine, size_t at, hf_hold *of, int64_t duration_ms) {
    hf_call *call = hf_call_new(mine->client, HF_CALL_TELL, at, polled, mine);
    hf_hold_take_up(of); /* an earlier round may have kept it, for another time */
    hf_status status = call != NULL ? start_one(mine->kind, of, duration_ms, hf_call_number(call))
                                    : hf_fail(HF_ENOMEM, "no memory");
    if (status == HF_OK) {
        mine->calls[at] = call;
        return;
    }
    count_answer(mine, status, hf_error_last());
    if (mine->kind == HF_ROUND_RELEASE)
        hf_vote_give_up(of);
    if (call != NULL)
        hf_call_drop(call);
}

static void came_late(hf_call *call, const hf_completion *completion) {
    hf_round *mine = call->of;
    mine->calls[call->at] = NULL;
    if (completion->status == HF_OK) {
        hf_round_ask(mine, call->at, completion->hold, 0);
        hf_hold_close(completion->hold);
    } else {
        mine->gone += completion->status == HF_EBUSY;
        mine->vague += completion->status != HF_EBUSY;
    }
    hf_round_judge(mine);
}

void hf_round_await(hf_round *mine, size_t at, hf_call **asking) {
    if (*asking != NULL && (*asking)->kind == HF_CALL_LINE) /* others have the master */
        hf_call_abandon(asking);
    hf_call *call = mine->calls[at] = *asking;
    *asking = NULL;
    mine->gone += call == NULL;
    if (call != NULL) {
        call->heard = came_late;
        call->of = mine;
    }
}

hf_round *hf_round_new(hf_hold *hold, hf_round_kind kind, size_t office, hf_round_told *told,
                       void *context) {
    hf_client *client = hold->client;
    hf_round *mine = calloc(1, sizeof *mine);
    if (mine == NULL || !hf_timer_reserve(&client->timers)) {
        free(mine);
        return NULL;
    }
    *mine = (hf_round){.client = client,
                       .hold = hf_hold_grab(hold),
                       .kind = kind,
                       .office = office,
                       .told = told,
                       .context = context,
                       .timer.fire = round_due};
    hf_list_add_last(&client->quorum->rounds, &mine->item);
    return mine;
}

void hf_rounds_close(hf_client *client) {
    HF_EACH(at, &client->quorum->rounds)
    tell(HF_OF(hf_round, item, at), hf_fail(HF_ECLOSED, "the client is closed"));
}

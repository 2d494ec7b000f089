#include "lock/renewal.h"

#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"
#include "lock/quorum.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "lock/waiting.h"

/* How often a hold that never ends is looked at. */
#define LOOK_MS 10000
/* A failed renewal is tried again after this part of the interval; and a renewal that is due within
 * it joins the renewals that are due now: few, full batches. */
#define PART 8
#define BATCH 100
/* A client's first renewal of a hold is early by up to this part of the interval, and each later
 * one by up to a PART: by the client's own share. Otherwise clients that began together, or changed
 * to another server at the same time, would all renew in the same moment. */
#define FIRST_PART 2
#define SHARES 1024

struct hf_renewing {
    int64_t share;         /* out of SHARES */
    hf_hold *batch[BATCH]; /* due in this round, with a reference to each */
    size_t count;
    int64_t trouble_at; /* when trouble was announced; 0: it was not, or its end was */
};

struct hf_renewing *hf_renewal_begin(void) {
    struct hf_renewing *renewing = calloc(1, sizeof *renewing);
    if (renewing != NULL)
        renewing->share = hf_jitter(0, SHARES);
    return renewing;
}

/* --------------------------------------------------------------- Cadence */

int64_t hf_renewal_interval(const hf_hold *hold) {
    int64_t ms = hold->validity.lease_ms == HF_NEVER ? 3 * LOOK_MS : hold->validity.lease_ms;
    if (hold->pushed)
        ms = hf_granted_ms(ms);
    if (hold->validity.cap_ms > 0 && ms > hold->validity.cap_ms)
        ms = hold->validity.cap_ms;
    return ms * HF_MS / 3;
}

/* Return when the hold is renewed again, after a renewal sent at sent_at. */
static int64_t again_at(const hf_hold *hold, int64_t sent_at, int part) {
    int64_t interval = hf_renewal_interval(hold);
    if (hold->pushed)
        return sent_at + interval;
    return sent_at + interval - interval / part / SHARES * hold->client->renewing->share;
}

static bool renews(const hf_hold *hold) {
    if (hold->validity.lease_ms == HF_NEVER || hold->pushed)
        return true;
    return hold->terms.renew && !hf_validity_is_last(&hold->validity);
}

static bool is_held(const hf_hold *hold) {
    return hold->state == HF_STATE_HELD && hf_hold_is_listed(hold);
}

/* Return whether the hold's server has changed since its last answer: the new one may not know
 * it. */
static bool has_moved(const hf_hold *hold) {
    return hold->server !=
           hf_discovery_place(hold->client->transport->discovery, hold->names->slot);
}

static bool asks(const hf_hold *hold) { return renews(hold) || has_moved(hold); }

static void hold_due(hf_timer *timer, int64_t now);

void hf_renewal_plan_locked(hf_hold *hold) {
    hf_client *client = hold->client;
    int64_t due = HF_NO_DEADLINE;
    hold->timer.slack = 0;
    if (is_held(hold)) {
        bool asking = asks(hold);
        if (asking || hold->terms.renew || hold->joined != NULL ||
            hf_completions_wanted_locked(client))
            due = hold->validity.deadline;
        if (asking && !hold->asked && hold->renew_at < due) {
            due = hold->renew_at;
            hold->timer.slack = hold->pushed ? 0 : hf_renewal_interval(hold) / PART;
        }
    }
    hold->timer.fire = hold_due;
    if (due == HF_NO_DEADLINE)
        hf_timer_clear(&client->timers, &hold->timer);
    else
        hf_thread_timer_locked(client, &hold->timer, due);
}

/* Renew a hold earlier if the client learned of it late, or it has been cut short: by the time
 * left. */
static void hasten(hf_hold *hold) {
    int64_t due = hold->validity.deadline - 2 * hf_renewal_interval(hold);
    if (hold->validity.deadline != HF_NO_DEADLINE && due < hold->renew_at)
        hold->renew_at = due;
}

void hf_renewal_first_locked(hf_hold *hold) {
    hold->renew_at = again_at(hold, hold->began_at, FIRST_PART);
    hasten(hold);
    if (has_moved(hold) || (hold->pushed && hf_table_superseded_locked(hold) != NULL))
        hold->renew_at = hf_now();
    else if (hf_discovery_follows(hold->client->transport->discovery))
        hf_thread_start_locked(hold->client); /* also for a hold that is not renewed */
    hf_renewal_plan_locked(hold);
}

void hf_renewal_shortened_locked(hf_hold *hold) {
    hasten(hold);
    hf_renewal_plan_locked(hold);
}

void hf_renewal_next_locked(hf_hold *hold, int64_t sent_at) {
    hf_hold_fails_locked(hold, false);
    hold->renew_at = again_at(hold, sent_at, PART);
    hf_renewal_plan_locked(hold);
}

/* Plan another try in time, even if the hold counts for less than its lease. */
static void retry_soon(hf_hold *hold) {
    int64_t now = hf_now(), half_ms = (hf_until(hold->validity.deadline, now) + 1) / 2;
    hold->asked = false;
    hold->renew_at = hf_earlier(now + hf_renewal_interval(hold) / PART, hf_after(now, half_ms));
    hf_renewal_plan_locked(hold);
    /* The slack of a whole interval would let it join any renewal that is due next. */
    hold->timer.slack = hf_earlier(hold->timer.slack, (hold->renew_at - now) / PART);
}

/* ----------------------------------------------------------------- Trouble */

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

static void announce_failover(hf_client *client, hf_completion *completion) {
    hf_discovery *discovery = client->transport->discovery;
    long long holds = completion->holds;
    char *message = completion->error.message;
    size_t room = sizeof completion->error.message;
    char server[128];
    if (!client->tells_trouble)
        return;
    if (hf_discovery_clustered(discovery))
        snprintf(message, room,
                 "%s: another node of the cluster serves %lld hold%s now, and is asked for %s",
                 client->transport->shown, holds, plural(holds), holds == 1 ? "it" : "them");
    else {
        hf_discovery_serving(discovery, server, sizeof server);
        snprintf(message, room, "%s: another server, %s, has taken over, with %lld hold%s",
                 client->transport->shown, server, holds, plural(holds));
    }
    hf_announce_locked(client, completion, NULL);
}

void hf_renewal_moved_locked(hf_client *client) {
    hf_completion completion = {.kind = HF_KIND_FAILOVER};
    HF_EACH(at, hf_table_holds_locked(client)) {
        hf_hold *hold = HF_OF(hf_hold, item, at);
        if (!has_moved(hold))
            continue;
        HF_MARK("C28");
        completion.holds += is_held(hold);
        hold->renew_at = hf_now();
        hf_renewal_plan_locked(hold);
    }
    /* A change of a cluster's map that affects no hold is not announced. */
    if (completion.holds > 0 || !hf_discovery_clustered(client->transport->discovery))
        announce_failover(client, &completion);
}

/* Return whether the hold is at risk after a failed try at that place: a server that is not reached
 * renews none of its holds. */
static bool is_at_risk(const hf_hold *hold, hf_status status, unsigned place) {
    bool too = status == HF_ECONNECT && hold->server == place && renews(hold);
    return is_held(hold) && hold->validity.deadline != HF_NO_DEADLINE && (hold->fails || too);
}

/* Announce trouble, for the reason in this thread's message. */
static void announce_trouble(hf_client *client, hf_status status, unsigned place, int64_t now) {
    hf_completion completion = {.kind = HF_KIND_TROUBLE, .status = status};
    int64_t first = HF_NO_DEADLINE;
    HF_EACH(at, hf_table_holds_locked(client)) {
        const hf_hold *hold = HF_OF(hf_hold, item, at);
        if (!is_at_risk(hold, status, place))
            continue;
        completion.holds++;
        first = hf_earlier(first, hold->validity.deadline);
    }
    completion.left_ms = hf_until(first, now);
    snprintf(completion.error.message, sizeof completion.error.message,
             "cannot renew %lld hold%s, %s ends in %.1f s: %s", (long long)completion.holds,
             plural(completion.holds), completion.holds == 1 ? "which" : "the first of which",
             (double)completion.left_ms / 1000, hf_error_message());
    hf_announce_locked(client, &completion, NULL);
}

/* Note a failed try, for the reason in this thread's message: each of the holds may be lost. */
static void renewal_fails(hf_client *client, hf_hold *const *holds, size_t count, hf_status status,
                          unsigned place) {
    int64_t now = hf_now();
    if (!client->tells_trouble || status == HF_ECLOSED)
        return;
    bool told = hf_table_failing_locked(client) > 0;
    for (size_t i = 0; i < count; i++) {
        int64_t deadline = holds[i]->validity.deadline;
        if (is_held(holds[i]) && !holds[i]->looks && now < deadline && deadline != HF_NO_DEADLINE)
            hf_hold_fails_locked(holds[i], true);
    }
    if (told || hf_table_failing_locked(client) == 0)
        return;
    if (client->renewing->trouble_at == 0)
        client->renewing->trouble_at = now;
    announce_trouble(client, status, place, now);
}

/* Announce the end of the trouble, if no renewal fails any longer. */
static void renewal_works(hf_client *client) {
    hf_completion completion = {.kind = HF_KIND_TROUBLE, .status = HF_OK};
    int64_t *since = &client->renewing->trouble_at;
    if (*since == 0 || hf_table_failing_locked(client) > 0)
        return;
    snprintf(completion.error.message, sizeof completion.error.message,
             "holds are renewed again, after %.1f s", (double)(hf_now() - *since) / 1e9);
    *since = 0;
    hf_announce_locked(client, &completion, NULL);
}

/* ------------------------------------------------------------------ Losses */

int hf_loss_cause(const hf_hold *hold) {
    const hf_hold *first = hf_hold_first_to_end(hold);
    bool tried = first->pushed || (first->terms.renew && !hf_validity_is_last(&first->validity));
    return tried ? HF_CAUSE_UNREACHABLE : HF_CAUSE_EXPIRED;
}

int hf_gone_cause(const hf_hold *hold) {
    hf_hold_state_now(hold, hf_now()); /* takes over the deadlines of votes */
    return hf_now() < hold->validity.deadline ? HF_CAUSE_GONE : hf_loss_cause(hold);
}

static void lose(hf_hold *hold, int cause, bool gone) {
    hf_client *client = hold->client;
    bool known = hold->counts_since != 0; /* otherwise its acquire, which still waits, reports the
                                           * loss */
    hold->state = HF_STATE_LOST;
    hold->cause = cause;
    hf_hold_fails_locked(hold, false);
    hf_hold_count_loss_locked(hold, hf_now());
    hf_timer_clear(&client->timers, &hold->timer);
    hf_completion completion = {
        .kind = HF_KIND_LOSS, .status = HF_ELOST, .cause = cause, .hold_number = hold->number};
    hf_hold_explain_lost(hold, "");
    if (known)
        hf_tell_locked(client, &hold->news, &completion);
    /* A late renewal may still arrive, and would keep the hold, for no caller, for one more
     * lease. */
    if (!gone || client->quorum != NULL) {
        HF_MARK("H13");
        hf_undo_locked(hold);
    } else if (hold->pushed || hold->out > 0) {
        hf_undo_id_locked(hold); /* a late copy of its acquire may have been granted since */
    }
    if (hold->pushed)
        hf_queue_recheck_locked(client, hold->names);
}

static void lose_with_another(hf_hold *hold, int cause) {
    HF_MARK("H30");
    __atomic_store_n(&hold->why, HF_WHY_JOINED + cause, __ATOMIC_RELAXED);
    lose(hold, cause, false);
}

void hf_hold_lose_others_locked(hf_hold *hold, int cause) {
    for (hf_hold *other; (other = hold->joined) != NULL;) {
        hf_hold_part_locked(other);
        lose_with_another(other, cause);
    }
}

void hf_hold_lose_left_locked(hf_hold *hold, int cause) {
    if (!is_held(hold))
        return;
    hf_hold_lose_others_locked(hold, cause);
    lose_with_another(hold, cause);
}

void hf_hold_lose_locked(hf_hold *hold, int cause) {
    lose(hold, cause, cause == HF_CAUSE_GONE);
    hf_hold_lose_others_locked(hold, cause);
}

void hf_hold_lose_gone_locked(hf_hold *hold) {
    int cause = hf_gone_cause(hold);
    lose(hold, cause, true);
    hf_hold_lose_others_locked(hold, cause);
}

void hf_hold_shown_locked(hf_hold *hold, int64_t sent_at) {
    hold->pushed = false;
    for (hf_hold *before; (before = hf_table_superseded_locked(hold)) != NULL;) {
        if (hf_later(before->began_at, before->shown_at) >= sent_at) {
            hold->pushed = true;
            return;
        }
        HF_MARK("H44");
        hf_hold_lose_gone_locked(before);
    }
    hold->shown_at = hf_now();
    hf_table_shown_locked(hold);
}

hf_status hf_losses_tell_locked(hf_client *client) {
    if (hf_completions_wanted_locked(client))
        return HF_OK;
    hf_status status = hf_completions_want_locked(client);
    if (status != HF_OK)
        return status;
    HF_EACH(at, hf_table_holds_locked(client))
    hf_renewal_plan_locked(HF_OF(hf_hold, item, at));
    return HF_OK;
}

hf_status hf_started_locked(hf_client *client, int64_t number, hf_news *news) {
    hf_status status = hf_client_check(client); /* if it was just closed, nothing would end the
                                                 * operation */
    if (status == HF_OK)
        status = hf_losses_tell_locked(client);
    return status == HF_OK ? hf_news_number_locked(client, news, number) : status;
}

void hf_ended_locked(hf_client *client, hf_news **news, hf_status status, hf_hold *acquired) {
    hf_completion completion = (*news)->completion;
    completion.status = status;
    completion.hold = acquired;
    if (acquired != NULL)
        completion.hold_number = acquired->number;
    hf_tell_locked(client, news, &completion);
}

/* --------------------------------------------------------------- Batches */

typedef struct renewal_task {
    hf_task task;
    unsigned place; /* of all its holds */
    size_t count;
    hf_hold *holds[]; /* with a reference to each */
} renewal_task;

static void drop_renewal(hf_task *task) {
    renewal_task *mine = HF_OF(renewal_task, task, task);
    for (size_t i = 0; i < mine->count; i++)
        hf_hold_drop(mine->holds[i]);
}

bool hf_renewal_counts_locked(hf_hold *hold, hf_renew_mode mode, int64_t sent_at, int64_t left_ms) {
    int64_t now = hf_now();
    if (mode != HF_RENEW_LOOK)
        return hf_validity_renewed(&hold->validity, now, sent_at, left_ms);
    bool counts = hf_validity_looked(&hold->validity, now, sent_at, left_ms);
    hasten(hold);
    return counts;
}

bool hf_renewal_learns_many_locked(hf_hold *hold, int64_t left_ms) {
    bool again = left_ms == HF_RENEWAL_MANY && !hold->one_of_many;
    hold->one_of_many = hold->one_of_many || again;
    return again;
}

static void renewed_one(hf_hold *hold, unsigned place, int64_t sent_at, int64_t left_ms) {
    hf_renew_mode mode = hold->looks ? HF_RENEW_LOOK : HF_RENEW_LONGER;
    hold->asked = false;
    if (!is_held(hold))
        return;
    if (left_ms == HF_RENEWAL_GONE) {
        hf_hold_lose_gone_locked(hold);
        return;
    }
    if (left_ms == HF_RENEWAL_REFUSED || left_ms == HF_RENEWAL_MANY) {
        if (hold->pushed)
            HF_MARK("H15");
        retry_soon(hold);
        return;
    }
    hf_hold_shown_locked(hold, sent_at);
    hf_hold_fails_locked(hold, false);
    hold->terms.counting.tally->stats.renewed += mode != HF_RENEW_LOOK;
    hold->server = place;
    bool soon = has_moved(hold) || HF_UNUSUAL("renews again at once");
    hold->renew_at = soon ? hf_now() : again_at(hold, sent_at, PART);
    bool lost = hf_now() >= hold->validity.deadline; /* the loss may have been noticed */
    if (lost || hf_renewal_counts_locked(hold, mode, sent_at, left_ms))
        hf_renewal_plan_locked(hold);
    else
        retry_soon(hold);
}

/* Submit a renewal. Its answer may take half of the time left, so that a failed try leaves time for
 * another. */
static void submit_renewal(hf_client *client, renewal_task *mine, int64_t now) {
    int64_t until = HF_NO_DEADLINE;
    for (size_t i = 0; i < mine->count; i++)
        until = hf_earlier(until, mine->holds[i]->validity.deadline);
    if (until != HF_NO_DEADLINE)
        mine->task.answer_ms = hf_until(until, now) / 2 + 1;
    mine->task.urgent = true;
    hf_task_submit(&client->links, &mine->task, until);
}

static void renewed(hf_task *task, hf_status status, const redisReply *reply);

static void tried(hf_task *task, hf_status status) {
    renewal_task *mine = HF_OF(renewal_task, task, task);
    renewal_fails(hf_task_client(task), mine->holds, mine->count, status, mine->place);
}

static renewal_task *new_renewal(hf_client *client, hf_hold *const *holds, size_t count) {
    renewal_task *mine;
    hf_task *task = hf_task_new(sizeof *mine + count * sizeof *holds, NULL, renewed, drop_renewal);
    if (task == NULL)
        return NULL;
    mine = HF_OF(renewal_task, task, task);
    task->tried = tried;
    mine->place = hf_discovery_place(client->transport->discovery, holds[0]->names->slot);
    mine->count = count;
    memcpy(mine->holds, holds, count * sizeof *holds);
    return mine;
}

/* Renew the holds with one request. Each answer, or its absence, goes to renewed_one(). */
static void renew_together(hf_client *client, hf_hold *const *holds, size_t count) {
    hf_renewal renewals[BATCH];
    renewal_task *mine = new_renewal(client, holds, count);
    if (mine == NULL) {
        for (size_t i = 0; i < count; i++)
            retry_soon(holds[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        hf_hold *hold = hf_hold_grab(holds[i]);
        int64_t lease_ms = hold->validity.lease_ms;
        /* A hold that never ends is only looked at, until a look finds that it ends. */
        hold->looks =
            !renews(hold) || (lease_ms == HF_NEVER && hold->validity.deadline == HF_NO_DEADLINE);
        renewals[i] =
            hf_hold_renewal(hold, lease_ms, hold->looks ? HF_RENEW_LOOK : HF_RENEW_LONGER);
    }
    hf_request_renew(&mine->task.request, renewals, count);
    submit_renewal(client, mine, hf_now());
}

/* Note the holds that a server answers but does not renew. */
static void some_refused(const renewal_task *mine, const int64_t *left_ms) {
    hf_hold *some[BATCH];
    size_t count = 0;
    for (size_t i = 0; i < mine->count; i++)
        if (left_ms[i] == HF_RENEWAL_REFUSED)
            some[count++] = mine->holds[i];
    if (count == 0)
        return;
    hf_hold_explain_refused(some[0]);
    renewal_fails(some[0]->client, some, count, HF_ESERVER, mine->place);
}

/* Take the answer to a batch. A key that the user may not use, or of another type, makes the server
 * refuse the whole batch: then each hold is renewed alone. */
static void renewed(hf_task *task, hf_status status, const redisReply *reply) {
    renewal_task *mine = HF_OF(renewal_task, task, task);
    int64_t left_ms[BATCH];
    bool refused = status == HF_ESERVER && mine->count > 1;
    hf_reply_renewals(status == HF_OK ? reply : NULL, left_ms, mine->count);
    if (refused)
        HF_MARK("M10");
    else if (status != HF_OK)
        tried(task, status);
    else
        some_refused(mine, left_ms);
    for (size_t i = 0; i < mine->count; i++) {
        hf_hold *hold = mine->holds[i];
        bool again = hf_renewal_learns_many_locked(hold, left_ms[i]);
        if (again && hold->pushed && hold->state == HF_STATE_HELD) /* its handle may be closed */
            hf_hold_claim_locked(hold, hf_now());
        else if ((again || refused) && is_held(hold))
            renew_together(hold->client, &hold, 1);
        else
            renewed_one(hold, mine->place, task->sent_at, left_ms[i]);
    }
    if (status == HF_OK)
        renewal_works(hf_task_client(task));
}

void hf_renewal_flush_locked(hf_client *client) {
    struct hf_renewing *renewing = client->renewing;
    if (renewing->count > 0)
        renew_together(client, renewing->batch, renewing->count);
    for (size_t i = 0; i < renewing->count; i++)
        hf_hold_drop(renewing->batch[i]);
    renewing->count = 0;
}

static void add_to_batch(hf_hold *hold) {
    struct hf_renewing *renewing = hold->client->renewing;
    hold->asked = true;
    hf_hold_grab(hold);
    renewing->batch[renewing->count++] = hold;
    /* Where slots can move, a script with several keys is refused during a move. */
    if (renewing->count == BATCH || hf_discovery_clustered(hold->client->transport->discovery))
        hf_renewal_flush_locked(hold->client);
}

int64_t hf_hold_claim_ms(const hf_hold *hold) {
    int64_t lease_ms = hold->validity.lease_ms;
    /* A hold that is not renewed keeps the end with which it was granted. */
    if (lease_ms != HF_NEVER && !hold->terms.renew) {
        HF_MARK("M14");
        lease_ms -= (hf_now() - hold->began_at) / HF_MS;
        if (lease_ms < HF_LEASE_MIN) /* a time below 0 could be HF_NEVER */
            lease_ms = HF_LEASE_MIN; /* this shortens nothing */
    }
    return hf_validity_ask_ms(&hold->validity, hf_now(), lease_ms);
}

void hf_hold_claim_request(hf_request *request, const hf_hold *hold) {
    hf_renewal renewal = hf_hold_renewal(hold, hf_hold_claim_ms(hold), HF_RENEW_LONGER);
    hf_request_claim(request, &renewal, hold->client->id, hold->terms.replicas > 0);
}

void hf_hold_claim_locked(hf_hold *hold, int64_t now) {
    renewal_task *mine = new_renewal(hold->client, &hold, 1);
    if (mine == NULL) {
        retry_soon(hold);
        return;
    }
    hf_hold_grab(hold);
    hold->asked = true;
    hold->looks = false;
    hf_hold_claim_request(&mine->task.request, hold);
    submit_renewal(hold->client, mine, now);
}

static void hold_due(hf_timer *timer, int64_t now) {
    hf_hold *hold = HF_OF(hf_hold, timer, timer);
    if (hold->state != HF_STATE_HELD)
        return;
    if (hold->client->quorum != NULL) {
        hold->client->quorum->ways->due(hold, now);
        return;
    }
    if (now >= hold->validity.deadline) {
        hf_hold_lose_locked(hold, hf_loss_cause(hold));
        return;
    }
    if (!hold->asked && asks(hold)) {
        if (hold->pushed)
            hf_hold_claim_locked(hold, now);
        else
            add_to_batch(hold);
        if (!hold->asked) /* no memory: it was planned again, in less than an interval */
            return;
    }
    hf_renewal_plan_locked(hold);
}

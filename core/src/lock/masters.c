#include "lock/masters.h"

#include <stdio.h>
#include <stdlib.h>

#include "lock/completions.h"
#include "lock/hold.h"
#include "lock/holds.h"
#include "lock/majority.h"
#include "lock/undo.h"
#include "protocol/errors.h"

/* A master that owes an answer for longer than this plus ten round trips is silent. */
#define SILENT_MS 50
/* A master whose round trip is not known yet is silent after this time. */
#define UNKNOWN_MS 500

/* ------------------------------------------------------------------ Calls */

hf_call *hf_call_new(hf_client *client, hf_call_kind kind, size_t at, hf_hearer *heard, void *of) {
    struct hf_quorum *quorum = client->quorum;
    hf_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    *call = (hf_call){.kind = kind, .at = at, .heard = heard, .of = of, .sent_at = hf_now()};
    call->master = quorum->masters[at].client;
    hf_list_add_last(kind == HF_CALL_LINE ? &quorum->lines : &quorum->masters[at].calls,
                     &call->item);
    return call;
}

void hf_call_drop(hf_call *call) {
    hf_list_remove(&call->item);
    free(call);
}

void hf_call_abandon(hf_call **of) {
    hf_call *call = *of;
    *of = NULL;
    if (call == NULL)
        return;
    call->heard = NULL;
    if (call->kind != HF_CALL_TELL)
        hf_op_cancel(call->master, hf_call_number(call));
}

void hf_vote_give_up(hf_hold *vote) {
    HF_HOLDING_CLIENT(vote->client);
    if (vote->state == HF_STATE_RELEASED)
        hf_undo_locked(vote);
    else
        hf_hold_give_up_locked(vote);
}

void hf_vote_give_back(hf_client *client, size_t at, hf_hold *vote) {
    hf_call *call = hf_call_new(client, HF_CALL_TELL, at, NULL, NULL);
    if (call == NULL || hf_hold_release_start(vote, hf_call_number(call)) != HF_OK) {
        if (call != NULL)
            hf_call_drop(call);
        hf_vote_give_up(vote);
    }
    hf_hold_close(vote);
}

/* -------------------------------------------------- The state of a master */

int64_t hf_master_patience_ms(const hf_master *master) {
    int64_t ms = master->tried ? 10 * master->trip_ms : UNKNOWN_MS;
    return hf_earlier(hf_later(ms, SILENT_MS), master->client->transport->connect_ms);
}

int64_t hf_master_silent_at(const hf_client *client, size_t at) {
    const hf_master *master = &client->quorum->masters[at];
    if (master->calls.first == NULL)
        return HF_NO_DEADLINE;
    int64_t sent_at = HF_OF(hf_call, item, master->calls.first)->sent_at;
    return hf_after(hf_later(sent_at, client->quorum->still_at), hf_master_patience_ms(master));
}

bool hf_master_is_silent(const hf_client *client, size_t at, int64_t now) {
    return now >= hf_master_silent_at(client, at);
}

static bool is_answer(hf_status status) {
    return status == HF_OK || status == HF_EBUSY || status == HF_ETIMEOUT || status == HF_ELOST ||
           status == HF_ECANCELED || status == HF_ENOTHELD;
}

void hf_master_note(hf_master *master, hf_status status, const hf_error *why) {
    if (status == HF_ENOMEM) /* this process is out of memory, not the master */
        return;
    /* A missing permission for one lock's keys says nothing about the master. */
    bool refused = status == HF_ESERVER && hf_error_permission(why->message);
    if (!is_answer(status) && !refused) {
        master->down = true;
        master->refusal = hf_quorum_is_fatal(status) ? status : HF_OK;
        snprintf(master->why, sizeof master->why, "%.*s", (int)sizeof master->why - 1,
                 why->message);
        return;
    }
    if (master->down)
        master->up_since = hf_now();
    master->down = false;
    master->refusal = HF_OK;
}

bool hf_masters_refuse(const hf_client *client) {
    const struct hf_quorum *quorum = client->quorum;
    size_t left = quorum->count;
    for (size_t i = 0; i < quorum->count; i++)
        left -= quorum->masters[i].refusal != HF_OK;
    return left < hf_majority(quorum->count);
}

hf_status hf_masters_explain(const hf_client *client, const hf_names *names, hf_status status) {
    const struct hf_quorum *quorum = client->quorum;
    bool refused = hf_masters_refuse(client);
    char why[700] = "";
    int64_t now = hf_now();
    for (size_t i = 0; i < quorum->count; i++) {
        const hf_master *master = &quorum->masters[i];
        const char *shown = quorum->members->of[i].shown;
        if (!hf_quorum_is_fatal(status) && master->refusal != HF_OK && refused)
            status = master->refusal;
        int64_t young_ms = hf_member_young_ms(quorum->members, i, now);
        if (young_ms > 0)
            hf_warn(why, sizeof why, "%s has begun anew, and is in quarantine for another %.1f s",
                    shown, (double)young_ms / 1000);
        else if (hf_master_is_silent(client, i, now))
            hf_warn(why, sizeof why, "%s does not answer", shown);
        else if (master->down)
            hf_warn(why, sizeof why, "%s", master->why);
    }
    return hf_fail(status, "fewer than a majority of the %zu masters can be asked for lock %s; %s",
                   quorum->count, hf_names_quoted(names),
                   *why != '\0' ? why : "too few of their answers counted in time");
}

/* ------------------------------------------------------------ Completions */

/* Note that a master no longer renews its votes, or renews them again. Only a change for the holds
 * is announced: a minority fails, a majority fails, no master fails. */
static void hear_trouble(hf_client *client, size_t at, const hf_completion *heard) {
    struct hf_quorum *quorum = client->quorum;
    hf_completion completion = {.kind = HF_KIND_FAILOVER};
    int64_t first = HF_NO_DEADLINE, now = hf_now();
    size_t failing = 0, room = sizeof completion.error.message;
    char *message = completion.error.message;
    bool fails = heard->status != HF_OK;
    quorum->masters[at].fails = fails;
    for (size_t i = 0; i < quorum->count; i++)
        failing += quorum->masters[i].fails;
    HF_EACH(item, hf_table_holds_locked(client)) {
        const hf_hold *hold = HF_OF(hf_hold, item, item);
        if (hf_hold_state_now(hold, now) != HF_STATE_HELD)
            continue;
        completion.holds++;
        first = hf_earlier(first, hold->validity.deadline);
    }
    bool some = failing > 0, few = quorum->count - failing < hf_majority(quorum->count);
    bool most = few && completion.holds > 0;
    bool recovers = quorum->most_fail && !most, alone = completion.holds == 1;
    if (some == quorum->some_fail && most == quorum->most_fail)
        return;
    quorum->some_fail = some;
    quorum->most_fail = most;
    if (most) {
        completion.kind = HF_KIND_TROUBLE;
        completion.status = fails ? heard->status : HF_ECONNECT;
        completion.left_ms = hf_until(first, now);
        snprintf(
            message, room,
            "fewer than a majority of the %zu masters renew %lld hold%s, %s ends in %.1f s%s%.300s",
            quorum->count, (long long)completion.holds, alone ? "" : "s",
            alone ? "which" : "the first of which", (double)completion.left_ms / 1000,
            fails ? ": " : "", fails ? heard->error.message : "");
    } else if (recovers) {
        completion.kind = HF_KIND_TROUBLE;
        completion.holds = 0;
        snprintf(message, room, "a majority of the %zu masters renews again", quorum->count);
    } else if (some && completion.holds == 0) {
        snprintf(message, room, "%s does not renew, and the client has no hold",
                 quorum->members->of[at].shown);
    } else if (some) {
        snprintf(message, room, "%s does not renew; the other masters have %lld hold%s",
                 quorum->members->of[at].shown, (long long)completion.holds, alone ? "" : "s");
    } else {
        snprintf(message, room, "all %zu masters renew again", quorum->count);
    }
    hf_announce_locked(client, &completion, NULL);
}

static bool renews_all(hf_client *master) {
    HF_HOLDING_CLIENT(master);
    return hf_table_failing_locked(master) == 0;
}

static void note(hf_master *master, const hf_call *call, const hf_completion *completion) {
    int64_t trip_ms = hf_earlier((hf_now() - call->sent_at) / HF_MS, HF_TRIP_MAX_MS);
    hf_master_note(master, completion->status, &completion->error);
    master->tried = master->tried || call->kind != HF_CALL_LINE;
    if (!master->down && call->kind != HF_CALL_LINE) /* a slow answer says little about the next
                                                      * one */
        master->trip_ms += trip_ms > master->trip_ms ? (trip_ms - master->trip_ms + 7) / 8
                                                     : trip_ms - master->trip_ms;
}

void hf_master_hear(hf_client *client, size_t at, const hf_completion *completion) {
    hf_master *master = &client->quorum->masters[at];
    hf_call *call = (hf_call *)(intptr_t)completion->op; // NOLINT: it was made of a pointer
    if (completion->kind == HF_KIND_TROUBLE)
        hear_trouble(client, at, completion);
    else if (completion->hold != NULL && master->fails && renews_all(master->client))
        hear_trouble(client, at, completion); /* it has given a vote since */
    if (call == NULL)
        return;
    hf_list_remove(&call->item);
    if (completion->status != HF_ECANCELED)
        note(master, call, completion);
    if (call->heard != NULL)
        call->heard(call, completion);
    else if (completion->hold != NULL)
        hf_vote_give_back(client, at, completion->hold);
    hf_call_drop(call);
}

void hf_masters_end(struct hf_quorum *quorum) {
    if (quorum == NULL)
        return;
    for (size_t i = 0; i <= quorum->count; i++) {
        hf_list *calls = i < quorum->count ? &quorum->masters[i].calls : &quorum->lines;
        while (calls->first != NULL)
            hf_call_drop(HF_OF(hf_call, item, calls->first));
    }
    for (size_t i = 0; i < quorum->count; i++)
        hf_client_drop(quorum->masters[i].client);
    hf_members_drop(quorum->members);
    free(quorum);
}

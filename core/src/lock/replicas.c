#include "lock/replicas.h"

#include "base/simulated.h"
#include "lock/hold.h"
#include "lock/renewal.h"

/* Started acquires that wait for replicas at once, each on a thread and a connection. */
#define CONFIRMERS 16

/*
 * WAIT counts for what its own connection wrote. A grant was written by the releaser,
 * and a retried acquire perhaps by a copy on another connection: so this hold writes
 * something itself, its claim, and waits for that. What came before it a replica
 * that has it has too.
 */
static hf_status ask_replicas(hf_hold *hold, int64_t deadline) {
    hf_client *client = hold->client;
    for (;;) {
        int64_t left_ms;
        hf_request request;
        hf_answer answer;
        hf_client_lock(client);
        hf_hold_claim_request(&request, hold);
        hf_client_unlock(client);
        request.replicas = hold->terms.replicas;
        request.replica_ms = hold->terms.replica_ms;
        hf_status status = hf_transport_call(client->transport, &request, deadline, &answer);
        hf_request_free(&request);
        if (status != HF_OK)
            return status;
        bool good = hf_reply_renewal(answer.reply, &left_ms);
        freeReplyObject(answer.reply);
        if (!good)
            return hf_unexpected("claim");
        HF_HOLDING_CLIENT(client);
        if (hf_renewal_learns_many_locked(hold, left_ms))
            continue;
        hf_hold_claimed_locked(hold, HF_RENEW_LONGER, answer.sent_at, left_ms);
        hold->reached = left_ms >= HF_TTL_NONE ? answer.replicas : 0;
        return answer.replicas >= 0 ? HF_OK : HF_ESERVER; /* with what WAIT was answered */
    }
}

/* A renewal comes after a third of the lease, so that two thirds are left of every hold. A hold
 * that is not claimed yet has less, and so has a grant that was told late. */
static bool is_whole(const hf_hold *hold) {
    int64_t lease_ms = hold->validity.lease_ms, deadline = hold->validity.deadline;
    return deadline == HF_NO_DEADLINE ||
           (lease_ms != HF_NEVER && hf_until(deadline, hf_now()) >= lease_ms - lease_ms / 3);
}

bool hf_hold_must_confirm_locked(const hf_hold *hold) {
    return hold->terms.replicas > 0 || (hold->terms.whole && !is_whole(hold));
}

static hf_status make_whole(hf_hold *hold) {
    hf_client_lock(hold->client);
    bool whole = !hold->terms.whole || is_whole(hold);
    hf_client_unlock(hold->client);
    if (!whole)
        HF_MARK("H41");
    return whole ? HF_OK : hf_hold_renew(hold);
}

hf_status hf_hold_confirm(hf_hold *hold, int64_t deadline) {
    hf_client *client = hold->client;
    bool asks = hold->terms.replicas > 0 && hold->reached < 0;
    hf_status status = asks ? ask_replicas(hold, deadline) : HF_OK;
    deadline = hf_after(deadline, hold->terms.replica_ms);
    bool enough = hold->terms.replicas == 0 || hold->reached >= hold->terms.replicas;
    if (status == HF_OK && enough)
        status = make_whole(hold);
    if (status == HF_OK && enough && hf_hold_state(hold) == HF_STATE_HELD)
        return HF_OK;
    int64_t reached = hold->reached;
    if (hf_client_check(client) != HF_OK) /* the close has released it */
        return hf_fail(HF_ECANCELED, "the client was closed during the wait");
    bool lost = status == HF_ELOST || hf_hold_state(hold) != HF_STATE_HELD;
    hf_hold_give_up(hold, status != HF_ECONNECT && status != HF_EUNKNOWN, deadline);
    if (status != HF_OK && status != HF_ELOST)
        return status;
    if (lost) { /* not busy, which tells a caller without a time limit nothing */
        HF_MARK("H141");
        return hf_hold_explain_lost(hold, HF_HOW_LOST);
    }
    hf_fail(HF_EREPLICAS,
            "lock %s had reached %lld of the %d replicas asked for after %lld ms: it was "
            "released again",
            hf_names_quoted(hold->names), (long long)reached, (int)hold->terms.replicas,
            (long long)hold->terms.replica_ms);
    hf_explain_replicas(reached);
    return HF_EREPLICAS;
}

hf_status hf_hold_confirmed_locked(hf_hold *hold, hf_status status) {
    if (status != HF_OK || hf_hold_state_now(hold, hf_now()) == HF_STATE_HELD)
        return status;
    HF_MARK("H192");
    hf_hold_give_up_locked(hold);
    return hf_hold_explain_lost(hold, HF_HOW_LOST);
}

/* --------------------------------------------------------------- Started */

static hf_op *next_confirm(const hf_client *client) {
    HF_EACH(at, &client->confirming)
    if (!HF_OP_AT(at)->busy)
        return HF_OP_AT(at);
    return NULL;
}

static void end_confirm(hf_op *op, hf_status status) {
    hf_hold *hold = op->hold;
    hf_list_remove(&op->place);
    if (op->told != NULL) /* else the close has told */
        op->told(op, status);
    hf_op_free_locked(op);
    hf_hold_drop(hold);
}

static void *confirm_all(void *argument) {
    hf_client *client = argument;
    hf_op *op;
    hf_client_lock(client);
    while ((op = next_confirm(client)) != NULL) {
        op->busy = true;
        hf_client_unlock(client);
        hf_status status = hf_hold_confirm(op->hold, hf_client_patience(client));
        hf_client_lock(client);
        status = hf_hold_confirmed_locked(op->hold, status);
        if (status == HF_OK)
            op->hold->kept = op->keeps && hf_hold_is_listed(op->hold);
        end_confirm(op, status);
    }
    client->confirmers--;
    hf_client_unlock(client);
    hf_client_drop(client);
    return NULL;
}

/* False: there is no thread, and none to be had. */
static bool start_confirmer(hf_client *client) {
    if (client->confirmers == CONFIRMERS)
        return true;
    client->confirmers++;
    if (hf_detach(confirm_all, hf_client_keep(client)))
        return true;
    client->confirmers--;
    hf_client_drop(client);
    return client->confirmers > 0;
}

void hf_op_confirm_locked(hf_op *op) {
    hf_client *client = op->hold->client;
    hf_hold_grab(op->hold);
    op->busy = false; /* until a thread sees to it */
    hf_list_add_last(&client->confirming, &op->place);
    if (start_confirmer(client))
        return;
    hf_hold_give_up_locked(op->hold); /* no thread to be had: then no caller has it */
    end_confirm(op, hf_fail(HF_ENOMEM, "no memory or thread to wait for replicas with"));
}

void hf_confirming_cancel_locked(hf_client *client) {
    HF_EACH(at, &client->confirming) {
        hf_op *op = HF_OP_AT(at);
        if (op->told == NULL)
            continue;
        hf_status status = hf_fail(HF_ECANCELED, "the client was closed during the wait");
        if (!op->busy) {
            end_confirm(op, status);
            continue;
        }
        op->told(op, status);
        op->told = NULL; /* its thread, in a request, frees it */
    }
}

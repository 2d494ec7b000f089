#include "lock/replicas.h"

#include "base/simulated.h"
#include "lock/hold.h"
#include "lock/renewal.h"

/* How many started acquires wait for replicas at once, each on its own thread and connection. */
#define CONFIRMERS 16

/*
 * Ask how many replicas have the hold.
 *
 * WAIT counts for what its own connection wrote. The grant was written by the releaser, and a
 * retried acquire perhaps by a copy on another connection: so the hold writes something of its own,
 * its claim, and waits for that. A replica that has the claim has everything written before it.
 */
static hf_status ask_replicas_locked(hf_hold *hold, int64_t deadline, int64_t replica_ms) {
    hf_client *client = hold->client;
    for (;;) {
        int64_t left_ms;
        hf_request request;
        hf_answer answer;
        hf_hold_claim_request(&request, hold);
        request.replicas = hold->terms.replicas;
        request.replica_ms = replica_ms;
        hf_client_unlock(client);
        hf_status status = hf_transport_call(client->transport, &request, deadline, &answer);
        hf_request_free(&request);
        hf_client_lock(client);
        if (status != HF_OK)
            return status;
        bool good = hf_reply_renewal(answer.reply, &left_ms);
        freeReplyObject(answer.reply);
        if (!good)
            return hf_unexpected("claim");
        if (hf_renewal_learns_many_locked(hold, left_ms))
            continue;
        hf_hold_claimed_locked(hold, HF_RENEW_LONGER, answer.sent_at, left_ms);
        if (left_ms == HF_RENEWAL_REFUSED)
            return hf_hold_explain_refused(hold);
        hold->reached = answer.replicas;
        return answer.counted;
    }
}

/* Return whether the hold has two thirds of its lease, as every hold has when its renewal is due. A
 * hold that is not claimed yet has less, and so has a grant that arrived late. */
static bool is_whole(const hf_hold *hold) {
    int64_t lease_ms = hold->validity.lease_ms, deadline = hold->validity.deadline;
    return deadline == HF_NO_DEADLINE ||
           (lease_ms != HF_NEVER && hf_until(deadline, hf_now()) >= lease_ms - lease_ms / 3);
}

bool hf_hold_must_confirm_locked(const hf_hold *hold) {
    return hold->terms.replicas > 0 || (hold->terms.whole && !is_whole(hold));
}

/* Explain that a granted lock is not known to be released, for the reason in this thread's
 * message. */
static hf_status explain_unreleased(const hf_hold *hold) {
    return hf_fail(HF_EUNKNOWN,
                   "lock %s was granted, and the client goes on releasing it in the background: %s",
                   hf_names_quoted(hold->names), hf_error_message());
}

static hf_status explain_few(const hf_hold *hold, bool gone) {
    hf_fail(HF_EREPLICAS, "lock %s had reached %lld of the %d replicas asked for after %lld ms%s",
            hf_names_quoted(hold->names), (long long)hold->reached, (int)hold->terms.replicas,
            (long long)hold->terms.replica_ms, gone ? ": it was released again" : "");
    if (!gone)
        return explain_unreleased(hold);
    hf_explain_replicas(hold->reached);
    return HF_EREPLICAS;
}

hf_status hf_hold_confirm_locked(hf_hold *hold, int64_t deadline, int64_t replica_ms) {
    hf_client *client = hold->client;
    bool asks = hold->terms.replicas > 0 && hold->reached < 0;
    hf_status status = asks ? ask_replicas_locked(hold, deadline, replica_ms) : HF_OK;
    deadline = hf_after(deadline, replica_ms);
    bool enough = hold->terms.replicas == 0 || hold->reached >= hold->terms.replicas;
    if (status == HF_OK && enough && hold->terms.whole && !is_whole(hold)) {
        HF_MARK("H41");
        hf_client_unlock(client);
        status = hf_hold_renew_by(hold, deadline);
        hf_client_lock(client);
    }
    /* No loss was announced, because no caller has the hold yet. */
    bool held = hf_hold_state_now(hold, hf_now()) == HF_STATE_HELD;
    if (status == HF_OK && enough && held)
        return HF_OK;
    if (hf_client_check(client) != HF_OK) /* the close has released it */
        return hf_client_explain_closed();
    bool lost = status == HF_ELOST || !held;
    hf_client_unlock(client);
    bool gone = hf_hold_give_up(hold, status != HF_ECONNECT && status != HF_EUNKNOWN, deadline);
    hf_client_lock(client);
    if (status != HF_OK && status != HF_ELOST)
        return gone ? status : explain_unreleased(hold);
    if (lost) { /* not HF_EBUSY, which means nothing to a caller without a time limit */
        HF_MARK("H141");
        if (status == HF_OK && enough) /* just now, or while this thread stood still */
            HF_MARK("H192");
        return hf_hold_explain_lost(hold, HF_HOW_LOST);
    }
    return explain_few(hold, gone);
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
    if (op->told != NULL) /* otherwise the close has reported it */
        op->told(op, status);
    hf_op_free_locked(op);
    hf_hold_drop(hold);
}

/* End an op in line that too few replicas have. */
static void end_refused(void *context, bool gone) {
    hf_op *op = context;
    end_confirm(op, explain_few(op->hold, gone));
}

/* End an op in line as another op ended, with that message: after its release, if the server
 * answers. */
static void end_as(hf_op *op, bool few, const hf_error *why, int64_t reached, bool answers) {
    hf_hold *hold = op->hold;
    bool held = hf_hold_state_now(hold, hf_now()) == HF_STATE_HELD;
    op->busy = true;
    hold->reached = reached;
    if (held && few && answers && hf_hold_give_up_start_locked(hold, end_refused, op))
        return;
    hf_hold_give_up_locked(hold);
    if (!held)
        end_confirm(op, hf_hold_explain_lost(hold, HF_HOW_LOST));
    else if (few)
        end_refused(op, false);
    else
        end_confirm(op,
                    hf_fail(HF_EUNKNOWN, "lock %s was not confirmed in time, nor one before it: %s",
                            hf_names_quoted(hold->names), why->message));
}

static int server_of(const hf_hold *hold) {
    return hf_discovery_node(hold->client->transport->discovery, hold->names->slot);
}

/* Hurry the ops in line after an op failed to be confirmed, which had the time from `since` to
 * `deadline`. Those in line for the same server would fare no better: a replica that lacks an
 * earlier write lacks every later one. End those whose own time is over, and leave the others only
 * the rest of theirs. */
static void hurry_those_in_line(const hf_op *failed, hf_status status, int64_t since,
                                int64_t deadline) {
    hf_client *client = failed->hold->client;
    int64_t now = hf_now(), connect_ms = client->transport->connect_ms,
            reached = failed->hold->reached;
    bool few = status == HF_EREPLICAS, silent = hf_until(deadline, now) < connect_ms / 2;
    if (status == HF_ELOST || client->closed)
        return;
    hf_error why = *hf_error_last();
    HF_EACH(at, &client->confirming) {
        hf_op *op = HF_OP_AT(at);
        const hf_terms *terms = &op->hold->terms;
        int64_t limit_ms = few ? terms->replica_ms : connect_ms,
                over_at = hf_after(op->done_at, limit_ms);
        bool same = few ? reached < terms->replicas && now >= hf_after(since, limit_ms) : silent;
        if (op->busy || !same || server_of(op->hold) != server_of(failed->hold))
            continue;
        HF_MARK("H198");
        if (now >= over_at)
            end_as(op, few, &why, reached, !silent);
        else
            *(few ? &op->reach_by : &op->answer_by) = over_at;
    }
    hf_error_set(&why);
}

/* Confirm an op. Its time begins now, not when it got the lock, unless another op has failed to be
 * confirmed since: a long line is no reason to refuse what slow replicas will confirm. */
static void confirm_next(hf_client *client, hf_op *op) {
    bool late = op->reach_by > 0;
    int64_t now = hf_now(), since = late ? op->done_at : now;
    int64_t deadline = op->answer_by > now ? op->answer_by : hf_client_patience(client);
    int64_t replica_ms =
        late ? hf_later(hf_until(op->reach_by, now), 1) : op->hold->terms.replica_ms;
    op->busy = true;
    hf_status status = hf_hold_confirm_locked(op->hold, deadline, replica_ms);
    if (status == HF_OK)
        op->hold->kept = op->keeps && hf_hold_is_listed(op->hold);
    else
        hurry_those_in_line(op, status, since,
                            status == HF_EREPLICAS ? hf_after(deadline, replica_ms) : deadline);
    end_confirm(op, status);
}

static void *confirm_all(void *argument) {
    hf_client *client = argument;
    hf_op *op;
    hf_client_lock(client);
    while ((op = next_confirm(client)) != NULL)
        confirm_next(client, op);
    client->confirmers--;
    hf_client_unlock(client);
    hf_client_drop(client);
    return NULL;
}

/* Start a thread for the ops in line. False: no thread runs, and none can be started. */
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
    op->busy = false; /* until a thread confirms it */
    op->done_at = hf_now();
    hf_list_add_last(&client->confirming, &op->place);
    if (start_confirmer(client))
        return;
    hf_hold_give_up_locked(op->hold); /* without a thread, no caller gets it */
    end_confirm(op, hf_fail(HF_ENOMEM, "no memory or thread to wait for replicas with"));
}

void hf_confirming_cancel_locked(hf_client *client) {
    HF_EACH(at, &client->confirming) {
        hf_op *op = HF_OP_AT(at);
        hf_status status = hf_client_explain_closed();
        if (!op->busy) {
            end_confirm(op, status);
            continue;
        }
        op->told(op, status);
        op->told = NULL; /* its thread, which is in a request, frees it */
    }
}

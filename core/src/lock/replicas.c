#include "lock/replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/hold.h"
#include "lock/renewal.h"
#include "lock/undo.h"

/* Started acquires that wait for replicas at once, each on a thread and a connection. */
#define CONFIRMERS 16

typedef struct confirm {
    hf_item item;
    hf_op *op;
    void (*told)(hf_op *op, hf_status status);
    bool busy;     /* a thread sees to it */
    bool canceled; /* the close has told */
} confirm;

struct hf_confirming {
    hf_list waiting; /* confirms */
    int threads;
};

struct hf_confirming *hf_confirming_begin(void) {
    return calloc(1, sizeof(struct hf_confirming));
}

void hf_confirming_end(struct hf_confirming *confirming) { free(confirming); }

/*
 * WAIT counts for what its own connection wrote. A grant was written by the releaser,
 * and a retried acquire perhaps by a copy on another connection: so this hold writes
 * something itself, its claim, and waits for that. What came before it a replica
 * that has it has too.
 */
static hf_status ask_replicas(hf_hold *hold) {
    hf_client *client = hold->client;
    int64_t left_ms, ms = hf_transport_patience_ms(client->transport) + hold->replica_ms;
    hf_request request;
    hf_answer answer;
    hf_hold_claim_request(&request, hold);
    request.replicas = hold->replicas;
    request.replica_ms = hold->replica_ms;
    hf_status status =
        hf_transport_call(client->transport, &request, hf_after(hf_now(), ms), &answer);
    hf_request_free(&request);
    if (status != HF_OK)
        return status;
    bool good = hf_reply_renewal(answer.reply, &left_ms);
    freeReplyObject(answer.reply);
    if (!good)
        return hf_fail(HF_EPROTOCOL,
                       "the server gave an answer that the claim script does not give");
    hf_client_lock(client);
    hf_hold_claimed_locked(hold, HF_RENEW_LONGER, answer.sent_at, left_ms);
    hold->pushed = hold->pushed && left_ms < HF_TTL_NONE;
    hold->reached = left_ms >= HF_TTL_NONE ? answer.replicas : 0;
    hf_client_unlock(client);
    return answer.replicas >= 0 ? HF_OK : HF_ESERVER; /* with what WAIT was answered */
}

hf_status hf_hold_confirm(hf_hold *hold) {
    hf_client *client = hold->client;
    hf_status status = hold->reached < 0 ? ask_replicas(hold) : HF_OK;
    if (status == HF_OK && hold->reached >= hold->replicas && hf_hold_state(hold) == HF_STATE_HELD)
        return HF_OK;
    char why[300];
    snprintf(why, sizeof why, "%s", hf_error_message());
    int64_t reached = hold->reached;
    if (hf_client_check(client) != HF_OK) /* the close has released it */
        return hf_fail(HF_ECANCELED, "the client was closed during the wait");
    bool lost = hf_hold_state(hold) != HF_STATE_HELD;
    hf_hold_give_up(hold);
    if (status != HF_OK)
        return hf_fail(status, "%s", why);
    if (lost)
        return hf_fail(HF_EBUSY, "the lease of lock %s ended before the answer came",
                       hf_quote(hold->names->data, hold->names->length));
    hf_fail(HF_EREPLICAS,
            "lock %s had reached %lld of the %d replicas asked for after %lld ms: it was "
            "released again",
            hf_quote(hold->names->data, hold->names->length), (long long)reached,
            (int)hold->replicas, (long long)hold->replica_ms);
    hf_explain_replicas(reached);
    return HF_EREPLICAS;
}

/* --------------------------------------------------------------- Started */

static confirm *next_confirm(const struct hf_confirming *confirming) {
    HF_EACH(at, &confirming->waiting)
    if (!HF_OF(confirm, item, at)->busy)
        return HF_OF(confirm, item, at);
    return NULL;
}

static void *confirm_all(void *argument) {
    hf_client *client = argument;
    confirm *mine;
    hf_client_lock(client);
    while ((mine = next_confirm(client->confirming)) != NULL) {
        hf_op *op = mine->op;
        mine->busy = true;
        hf_client_unlock(client);
        hf_status status = hf_hold_confirm(op->hold);
        hf_client_lock(client);
        hf_list_remove(&mine->item);
        if (mine->canceled) {
            hf_hold *hold = op->hold;
            hf_op_free_locked(op);
            hf_hold_drop(hold);
        } else {
            if (status == HF_OK)
                op->hold->kept = op->keeps && hf_hold_is_listed(op->hold);
            mine->told(op, status);
        }
        free(mine);
    }
    client->confirming->threads--;
    hf_client_unlock(client);
    hf_client_drop(client);
    return NULL;
}

/* False: there is no thread, and none to be had. */
static bool start_confirmer(hf_client *client) {
    struct hf_confirming *confirming = client->confirming;
    if (confirming->threads == CONFIRMERS)
        return true;
    confirming->threads++;
    if (hf_detach(confirm_all, hf_client_keep(client)))
        return true;
    confirming->threads--;
    hf_client_drop(client);
    return confirming->threads > 0;
}

static void give_up(hf_op *op) {
    bool listed;
    hf_hold *hold = op->hold;
    hf_hold_end_locked(hold, hf_now(), &listed);
    hf_undo_locked(hold->client, hold, NULL);
    if (listed)
        hf_hold_drop(hold);
}

void hf_op_confirm_locked(hf_op *op, void (*told)(hf_op *op, hf_status status)) {
    hf_client *client = op->hold->client;
    confirm *mine = calloc(1, sizeof *mine);
    if (mine != NULL) {
        mine->op = op;
        mine->told = told;
        hf_list_add_last(&client->confirming->waiting, &mine->item);
        if (start_confirmer(client))
            return;
        hf_list_remove(&mine->item);
        free(mine);
    }
    give_up(op); /* no memory or thread to be had: then nobody has it */
    told(op, hf_fail(HF_ENOMEM, "no memory or thread to wait for replicas with"));
}

void hf_confirming_cancel_locked(hf_client *client) {
    HF_EACH(at, &client->confirming->waiting) {
        confirm *mine = HF_OF(confirm, item, at);
        if (mine->canceled)
            continue;
        if (mine->busy) { /* its thread is in the middle of a request, and frees it */
            hf_completion completion = {
                .kind = HF_KIND_ACQUIRE,
                .status = hf_fail(HF_ECANCELED, "the client was closed during the wait"),
                .op = mine->op->number};
            mine->canceled = true;
            hf_hold_count_refused_locked(mine->op->hold, HF_ECANCELED);
            hf_tell_locked(client, &mine->op->news, &completion);
            continue;
        }
        hf_list_remove(at);
        mine->told(mine->op, HF_ECANCELED);
        free(mine);
    }
}

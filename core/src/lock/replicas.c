/* Replicas that must have a lock before its acquire is answered. */
#include <stdio.h>
#include <string.h>

#include "lock/client.h"

/* Started acquires that wait for replicas at once, each on a thread and a connection. */
#define CONFIRMERS 16

/*
 * WAIT counts for what its own connection wrote. A grant was written by who released,
 * and a retried acquire perhaps by a copy on another connection: so this hold writes
 * something of its own, its claim, and waits for that. What came before it a replica
 * that has it has too.
 */
static hf_status ask(hf_hold *hold) {
    hf_client *client = hold->client;
    int64_t ms = hf_transport_patience_ms(client->transport) + hold->replica_ms, numbers[2];
    hf_request request;
    hf_answer answer;
    hf_claim_request(&request, hold);
    request.replicas = hold->replicas;
    request.replica_ms = hold->replica_ms;
    hf_status status =
        hf_transport_call(client->transport, &request, hf_after(hf_now(), ms), &answer);
    hf_request_free(&request);
    if (status != HF_OK)
        return status;
    bool good = hf_reply_numbers(answer.reply, numbers, 2) && numbers[1] >= -3;
    freeReplyObject(answer.reply);
    if (!good)
        return hf_fail(HF_EPROTOCOL, "an answer that the claim script does not give");
    pthread_mutex_lock(&client->mutex);
    if (numbers[1] == -2 && hold->state == HF_HELD && hold->listed)
        hf_keeper_lose(client, hold, HF_CAUSE_GONE);
    if (numbers[1] >= -1 && hold->state == HF_HELD) {
        hf_hold_renewed(hold, answer.sent_at, numbers[1]);
        hold->pushed = false;
        hf_keeper_plan(client, hold, hf_now());
    }
    hold->reached = numbers[1] >= -1 ? answer.replicas : 0;
    pthread_mutex_unlock(&client->mutex);
    return answer.replicas >= 0 ? HF_OK : HF_ESERVER; /* with what WAIT was answered */
}

hf_status hf_hold_confirm(hf_hold *hold) {
    hf_client *client = hold->client;
    hf_status status = hold->reached < 0 ? ask(hold) : HF_OK;
    if (status == HF_OK && hold->reached >= hold->replicas && hf_hold_state(hold) == HF_HELD)
        return HF_OK;
    char why[300];
    snprintf(why, sizeof why, "%s", hf_error_message());
    int64_t reached = hold->reached;
    if (hf_client_check(client) != HF_OK) /* the close has released it */
        return hf_fail(HF_ECANCELED, "the client was closed during the call");
    bool lost = hf_hold_state(hold) != HF_HELD;
    hf_hold_give_up(hold);
    if (status != HF_OK)
        return hf_fail(status, "%s", why);
    if (lost)
        return hf_fail(HF_EBUSY, "the lease of lock %s ended before the answer was here",
                       hf_quote(hold->names->data, hold->names->length));
    hf_set_replicas(reached);
    return hf_fail(HF_EREPLICAS,
                   "lock %s had reached %lld of the %d replicas asked for after %lld ms: it was "
                   "released again",
                   hf_quote(hold->names->data, hold->names->length), (long long)reached,
                   (int)hold->replicas, (long long)hold->replica_ms);
}

/* --------------------------------------------------------------- Started */

static void unlink_op(hf_client *client, hf_op *op) {
    hf_op **at = &client->confirming;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
}

static void *run(void *argument) {
    hf_client *client = argument;
    pthread_mutex_lock(&client->mutex);
    for (;;) {
        hf_op *op = client->confirming;
        while (op != NULL && op->busy)
            op = op->next;
        if (op == NULL)
            break;
        op->busy = true;
        pthread_mutex_unlock(&client->mutex);
        hf_status status = hf_hold_confirm(op->hold);
        pthread_mutex_lock(&client->mutex);
        if (op->canceled) { /* the close has told */
            hf_hold_drop_locked(op->hold);
            hf_op_free(client, op);
            continue;
        }
        unlink_op(client, op);
        if (status == HF_OK)
            op->hold->kept = op->keeps && op->hold->listed;
        hf_op_tell(client, op, status, status == HF_EREPLICAS ? hf_error_replicas() : 0);
    }
    client->confirmers--;
    pthread_mutex_unlock(&client->mutex);
    hf_client_drop(client);
    return NULL;
}

void hf_op_confirm(hf_client *client, hf_op *op) {
    hf_op **last = &client->confirming;
    while (*last != NULL)
        last = &(*last)->next;
    *last = op;
    op->next = NULL;
    op->busy = op->canceled = false;
    if (client->confirmers == CONFIRMERS)
        return;
    client->confirmers++;
    if (hf_detach(run, hf_client_keep(client)))
        return;
    client->confirmers--;
    hf_client_drop(client);
    if (client->confirmers > 0)
        return;
    /* No thread to be had: then nobody has it. */
    bool listed;
    unlink_op(client, op);
    hf_hold_end(op->hold, hf_now(), &listed);
    hf_keeper_undo(client, op->hold, NULL);
    if (listed)
        hf_hold_drop_locked(op->hold);
    hf_op_tell(client, op, HF_ENOMEM, 0);
}

void hf_confirms_end(hf_client *client) {
    while (client->confirming != NULL) {
        hf_op *op = client->confirming;
        client->confirming = op->next;
        if (!op->busy) {
            hf_op_tell(client, op, HF_ECANCELED, 0);
            continue;
        }
        op->canceled = true; /* its thread is in the middle of a request, and frees it */
        hf_client_count(client, HF_ECANCELED, 0);
        hf_completion completion = {.kind = HF_ACQUIRED, .status = HF_ECANCELED, .op = op->number};
        hf_tell(client, &op->news, &completion);
    }
}

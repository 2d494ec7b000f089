/* The record of a call that is made once: read, and settled by hand. */
#include "lock/lock.h"
#include "lock/outcome.h"
#include "lock/quorum.h"
#include "look/node.h"
#include "look/wire.h"

/* Read the record into the handle. */
static hf_status look(const hf_lock *lock, hf_hold *hold) {
    redisReply *reply;
    hf_found found;
    hf_call_record record;
    hf_status status = hf_node_inspect(lock->client, lock->names, 0, 1, true, &reply);
    if (status != HF_OK)
        return status;
    if (!hf_reply_inspect(reply, &found))
        status = hf_unexpected("inspect");
    else if (found.moving)
        status = hf_fail(HF_ECONNECT,
                         "the keys of lock %s are being moved between two servers: look "
                         "again",
                         hf_names_quoted(lock->names));
    else if (hf_reply_found_record(reply, &record) && !hf_once_know(hold, &record))
        status = hf_fail(HF_ENOMEM, "no memory");
    freeReplyObject(reply);
    return status;
}

hf_status hf_once_look(hf_lock *lock, hf_hold **hold_out) {
    if (hold_out != NULL)
        *hold_out = NULL;
    if (lock == NULL || hold_out == NULL)
        return hf_fail(HF_EINVAL, "a handle is NULL");
    hf_status status = hf_client_check(lock->client);
    if (status == HF_OK && lock->client->quorum != NULL)
        status = hf_quorum_refuse("calls that are made once, and results");
    if (status != HF_OK)
        return status;
    hf_hold *hold = hf_hold_new(lock->client, lock->names, "", 0);
    if (hold == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    hold->state = HF_STATE_RELEASED;
    status =
        hf_once_configure(hold, NULL, false) ? look(lock, hold) : hf_fail(HF_ENOMEM, "no memory");
    if (status == HF_OK)
        *hold_out = hold;
    else
        hf_hold_drop(hold);
    return status;
}

/* ------------------------------------------------------------------ Settle */

static hf_status check_settle(const hf_lock *lock, int32_t state, uint32_t flags,
                              const hf_settlement *said) {
    bool keeps = state == HF_ONCE_DONE || state == HF_ONCE_FAILED;
    hf_status status = hf_client_check(lock != NULL ? lock->client : NULL);
    if (status == HF_OK)
        status = hf_check_note(said->note, said->note_length);
    if (status != HF_OK)
        return status;
    if (!keeps && state != HF_ONCE_RETRY && state != HF_ONCE_NONE)
        return hf_fail(HF_EINVAL, "a call cannot be settled as the state %d", (int)state);
    if ((flags & ~(uint32_t)HF_SETTLE_FORCE) != 0)
        return hf_fail(HF_EINVAL, "the flags of a settlement have an unknown bit");
    if (said->fence < 1)
        return hf_fail(HF_EINVAL,
                       "a fence of %lld: settling takes that of the record, from looking "
                       "at it",
                       (long long)said->fence);
    if (!keeps)
        return said->length == 0 && said->ttl_ms == 0
                   ? HF_OK
                   : hf_fail(HF_EINVAL, "only a result or an error has bytes and a ttl_ms");
    status = hf_once_check_bytes(said->bytes, said->length);
    return status == HF_OK ? hf_once_check_ttl(said->ttl_ms) : status;
}

static hf_status settle_status(const hf_lock *lock, hf_settle_outcome outcome) {
    const char *name = hf_names_quoted(lock->names);
    switch (outcome) {
    case HF_SETTLE_DONE:
    case HF_SETTLE_MORE:
        return HF_OK;
    case HF_SETTLE_NONE:
        return hf_fail(HF_ENOTHELD, "lock %s has no record of a call with that fence", name);
    case HF_SETTLE_RUNS:
        return hf_fail(HF_EBUSY, "the call of lock %s is in progress: settling it now takes force",
                       name);
    case HF_SETTLE_OVER:
        return hf_fail(HF_ESETTLED, "the call of lock %s has been settled already, or is done",
                       name);
    default:
        return hf_unexpected("settle");
    }
}

hf_status hf_once_settle(hf_lock *lock, int32_t state, int64_t fence, uint32_t flags,
                         const void *result, size_t result_len, int64_t ttl_ms, const void *note,
                         size_t note_len) {
    hf_request request;
    hf_answer answer;
    hf_owner who;
    char id[HF_ID_LENGTH + 1];
    hf_settlement said = {.verb = state == HF_ONCE_NONE    ? 'f'
                                  : state == HF_ONCE_RETRY ? 'r'
                                                           : hf_once_how(state),
                          .fence = fence,
                          .id = id,
                          .force = (flags & HF_SETTLE_FORCE) != 0,
                          .ttl_ms = ttl_ms,
                          .bytes = result,
                          .length = result_len,
                          .note = note,
                          .note_length = note_len};
    hf_status status = check_settle(lock, state, flags, &said);
    if (status == HF_OK && lock->client->quorum != NULL)
        status = hf_quorum_refuse("calls that are made once, and results");
    if (status == HF_OK)
        status = hf_lock_choose_owner(lock, NULL, 0, true, &who);
    if (status != HF_OK)
        return status;
    said.owner = who.holder.bytes;
    said.owner_length = who.holder.length;
    status = hf_node_new_id(lock->client, id);
    if (status != HF_OK)
        return status;
    hf_request_settle(&request, lock->names, &said);
    int64_t deadline = hf_client_patience(lock->client);
    status = hf_client_call(lock->client, &request, &answer);
    if (status == HF_EUNKNOWN || (status == HF_OK && answer.doubtful))
        hf_node_bury(lock->client, lock->names, id, deadline);
    if (status != HF_OK)
        return status;
    hf_settle_outcome outcome = hf_reply_settle(answer.reply);
    freeReplyObject(answer.reply);
    if (outcome == HF_SETTLE_MORE)
        hf_node_kick(lock->client, lock->names);
    return settle_status(lock, outcome);
}

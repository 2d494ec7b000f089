/* Once: a call that one caller makes, and whose outcome all other callers get. */
#include "lock/acquire.h"
#include "lock/hold.h"
#include "lock/outcome.h"
#include "lock/quorum.h"

/* The shortest time for which a result stays: waiting callers could miss a shorter one. */
#define RESULT_MIN_MS 10000

/* ------------------------------------------------------------------ Begin */

static hf_status check_begin(const hf_lock *lock, const void *print, size_t length,
                             hf_caller *caller) {
    if ((print == NULL) != (length == 0) || (length != 0 && length != HF_PRINT_LENGTH))
        return hf_fail(HF_EINVAL,
                       "a fingerprint has %d bytes: it takes a SHA-256, or NULL for none",
                       HF_PRINT_LENGTH);
    *caller = (hf_caller){.once = true, .print = print};
    return lock != NULL && lock->client->quorum != NULL
               ? hf_quorum_refuse("calls that are made once, and results")
               : HF_OK;
}

hf_status hf_once_begin(hf_lock *lock, int64_t timeout_ms, const hf_acquire_options *options,
                        const void *print, size_t print_len, hf_hold **hold_out) {
    hf_caller caller;
    if (hold_out == NULL)
        return hf_fail(HF_EINVAL, "hold_out is NULL");
    *hold_out = NULL;
    hf_status status = check_begin(lock, print, print_len, &caller);
    if (status == HF_OK)
        status = hf_acquire(lock, &caller, timeout_ms, options, hold_out);
    return status == HF_EDONE ? hf_once_status(*hold_out) : status;
}

hf_status hf_once_begin_start(hf_lock *lock, int64_t timeout_ms, const hf_acquire_options *options,
                              const void *print, size_t print_len, int64_t op) {
    hf_caller caller;
    hf_status status = check_begin(lock, print, print_len, &caller);
    return status == HF_OK ? hf_acquire_start(lock, &caller, timeout_ms, options, op) : status;
}

/* ------------------------------------------------------------------- Mark */

hf_status hf_once_check_ttl(int64_t ttl_ms) {
    if (ttl_ms < RESULT_MIN_MS || ttl_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL, "a result that stays for %lld ms: it takes 10 s to 10 years",
                       (long long)ttl_ms);
    return HF_OK;
}

static hf_status check_mark(const hf_hold *hold, int64_t unknown_ms) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (hold->once == NULL || !hold->once->most)
        return hf_fail(HF_EINVAL, "only a call that is made at most once is marked: begin it with "
                                  "HF_ACQUIRE_AT_MOST_ONCE");
    if (hold->once->begun)
        return hf_fail(HF_EINVAL, "the call of lock %s has begun already",
                       hf_names_quoted(hold->names));
    return unknown_ms == HF_NEVER ? HF_OK : hf_once_check_ttl(unknown_ms);
}

/* Withdraw the call, so that the next caller makes it. This thread's message stays. */
static void withdraw(hf_hold *hold, int64_t deadline) {
    hf_leaving left = hf_once_not_made(hold);
    hf_error error = *hf_error_last();
    if (hf_hold_leave(hold, &left, HF_ON_THIS_THREAD, deadline) == HF_ENOMEM)
        hf_hold_leave(hold, NULL, HF_ON_THIS_THREAD, deadline); /* the hold ends all the same */
    hf_error_set(&error);
}

static hf_status explain_unreplicated(const hf_hold *hold, int64_t reached) {
    hf_fail(
        HF_EREPLICAS,
        "the call of lock %s was not made: %lld of the %d replicas asked for knew after %lld ms "
        "that it begins",
        hf_names_quoted(hold->names), (long long)reached, (int)hold->terms.replicas,
        (long long)hold->terms.replica_ms);
    hf_explain_replicas(reached);
    return HF_EREPLICAS;
}

/* Read the answer to a mark. HF_OK: the call has begun; HF_EOUTCOME: it has a record. */
static hf_status marked(hf_hold *hold, const hf_answer *answer, hf_standing *mine) {
    hf_look look;
    if (!hf_reply_acquire(answer->reply, &look, mine, 1))
        return hf_unexpected("begin");
    if (mine->state == HF_STANDS_OUTCOME)
        return HF_EOUTCOME;
    if (mine->state == HF_STANDS_BUSY)
        return hf_hold_explain_lost(hold, "the server no longer knows it");
    if (mine->state != HF_STANDS_HELD)
        return hf_unexpected("begin");
    if (answer->counted != HF_OK)
        return answer->counted;
    if (hold->terms.replicas > 0 && answer->replicas < hold->terms.replicas)
        return explain_unreplicated(hold, answer->replicas);
    HF_HOLDING_CLIENT(hold->client);
    int state = hf_hold_state_now(hold, hf_now());
    hold->once->begun = state == HF_STATE_HELD;
    hold->terms.counting.tally->stats.begun += hold->once->begun;
    /* If the lease has ended, this thread stood still: others may already take the outcome for
     * unknown, and the call has not been made. */
    return hf_hold_explain_state(hold, state, "its lease ended before the call began");
}

hf_status hf_once_mark(hf_hold *hold, int64_t unknown_ms, const void *note, size_t note_len) {
    hf_request request;
    hf_answer answer;
    hf_standing mine;
    hf_status status = check_mark(hold, unknown_ms);
    if (status == HF_OK)
        status = hf_check_note(note, note_len);
    if (status == HF_OK)
        status = hf_client_check(hold->client);
    if (status != HF_OK)
        return status;
    /* A mark that failed is withdrawn by then, or in the background. */
    int64_t deadline = hf_after(hf_client_patience(hold->client), hold->terms.replica_ms);
    int state = hf_hold_state(hold);
    status = hf_hold_explain_state(hold, state, HF_HOW_LOST);
    if (state == HF_STATE_LOST)
        withdraw(hold, deadline);
    if (status != HF_OK)
        return status;
    hf_request_begin(&request, hold->names, hold->id, hold->fence, hold->once->terms, unknown_ms,
                     note, note_len);
    request.replicas = hold->terms.replicas;
    request.replica_ms = hold->terms.replica_ms;
    status = hf_client_call(hold->client, &request, &answer);
    if (status == HF_OK)
        status = marked(hold, &answer, &mine);
    if (status != HF_OK)
        withdraw(hold, deadline);
    if (status == HF_EOUTCOME) {
        HF_HOLDING_CLIENT(hold->client); /* a close before this has the hold, too */
        status = hf_once_take(hold, &mine) ? hf_once_status(hold) : hf_fail(HF_ENOMEM, "no memory");
    }
    freeReplyObject(answer.reply);
    return status;
}

/* ----------------------------------------------------------------- Finish */

char hf_once_how(int32_t state) {
    return state == HF_ONCE_DONE      ? HF_RECORD_DONE
           : state == HF_ONCE_FAILED  ? HF_RECORD_FAILED
           : state == HF_ONCE_UNKNOWN ? 'u'
           : state == HF_ONCE_RETRY   ? 'n'
                                      : '\0';
}

hf_status hf_once_check_bytes(const void *bytes, size_t length) {
    if (bytes == NULL && length > 0)
        return hf_fail(HF_EINVAL, "the result is NULL");
    if (length > HF_RESULT_MAX)
        return hf_fail(HF_EINVAL, "the result has %zu bytes: at most %d", length, HF_RESULT_MAX);
    return HF_OK;
}

static hf_status leaving_of(const hf_hold *hold, int32_t state, const void *result, size_t length,
                            int64_t ttl_ms, hf_leaving *left) {
    bool keeps = state == HF_ONCE_DONE || state == HF_ONCE_FAILED;
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (hold->terms.mode == HF_MODE_SHARED)
        return hf_fail(HF_EINVAL, "a shared hold leaves no result: others have it, too");
    if (hold->client->quorum != NULL)
        return hf_quorum_refuse("calls that are made once, and results");
    *left = (hf_leaving){.how = hf_once_how(state),
                         .terms = hf_once_terms(hold),
                         .bytes = result,
                         .length = length,
                         .ttl_ms = ttl_ms};
    if (left->how == '\0')
        return hf_fail(HF_EINVAL, "a call cannot end in the state %d", (int)state);
    if (!keeps)
        return ttl_ms == 0 ? hf_check_note(result, length)
                           : hf_fail(HF_EINVAL, "only a result or an error has a ttl_ms");
    if (hf_once_is_unmarked(hold))
        return hf_fail(HF_EINVAL, "a call that is made at most once begins with hf_once_mark()");
    hf_status status = hf_once_check_bytes(result, length);
    return status == HF_OK ? hf_once_check_ttl(ttl_ms) : status;
}

static hf_status finish(hf_hold *hold, int32_t state, const void *result, size_t result_len,
                        int64_t ttl_ms, int64_t op) {
    hf_leaving left;
    hf_status status = leaving_of(hold, state, result, result_len, ttl_ms, &left);
    return status == HF_OK ? hf_hold_leave(hold, &left, op, 0) : status;
}

hf_status hf_once_finish_start(hf_hold *hold, int32_t state, const void *result, size_t result_len,
                               int64_t ttl_ms, int64_t op) {
    return finish(hold, state, result, result_len, ttl_ms, hf_given_number(op));
}

hf_status hf_once_finish(hf_hold *hold, int32_t state, const void *result, size_t result_len,
                         int64_t ttl_ms) {
    return finish(hold, state, result, result_len, ttl_ms, HF_ON_THIS_THREAD);
}

/* ---------------------------------------------------------------- Outcomes */

const void *hf_hold_result(const hf_hold *hold, size_t *result_len_out) {
    const hf_call_record *record =
        hold != NULL && hold->once != NULL && hold->once->known ? &hold->once->record : NULL;
    bool kept =
        record != NULL && (record->kind == HF_RECORD_DONE || record->kind == HF_RECORD_FAILED);
    if (result_len_out != NULL)
        *result_len_out = kept ? record->length : 0;
    return kept ? record->bytes : NULL;
}

hf_status hf_once_outcome(const hf_hold *hold, hf_once_info *info) {
    if (hold == NULL || info == NULL || info->size < sizeof info->size)
        return hf_fail(HF_EINVAL, "a handle is NULL, or hf_once_info.size is not set");
    hf_once_tell(hold->once != NULL && hold->once->known ? &hold->once->record : NULL, info);
    return HF_OK;
}

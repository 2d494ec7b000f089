#include "lock/outcome.h"

#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"

#define MOST 'm'
#define LEAST '-'

static const char no_terms[] = "-----------------------------------------------------------------";

bool hf_once_configure(hf_hold *hold, const unsigned char *print, bool most) {
    struct hf_once *once = calloc(1, sizeof *once);
    if (once == NULL)
        return false;
    memcpy(once->terms, no_terms, HF_TERMS_LENGTH);
    once->most = most;
    once->terms[0] = most ? MOST : LEAST;
    if (print != NULL) {
        char hex[2 * HF_PRINT_LENGTH + 1];
        hf_hex(hex, print, HF_PRINT_LENGTH);
        memcpy(once->terms + 1, hex, HF_TERMS_LENGTH - 1);
    }
    hold->once = once;
    hold->terms.mode = HF_MODE_ONCE;
    hold->terms.reentrant = false; /* otherwise a nested call would repeat this one */
    return true;
}

const char *hf_once_terms(const hf_hold *hold) {
    return hold->once != NULL ? hold->once->terms : no_terms;
}

/* ---------------------------------------------------------------- Records */

static const char *copy(char **to, const char *from, size_t length) {
    char *at = *to;
    memcpy(at, from, length);
    at[length] = '\0';
    *to = at + length + 1;
    return at;
}

bool hf_once_know(hf_hold *hold, const hf_call_record *record) {
    size_t room = HF_TERMS_LENGTH + record->owner_length + record->note_length + record->length;
    struct hf_once *once = malloc(sizeof *once + room + 4);
    if (once == NULL)
        return false;
    *once = *hold->once;
    once->known = true;
    once->record = *record;
    char *to = once->bytes;
    once->record.terms = copy(&to, record->terms, HF_TERMS_LENGTH);
    once->record.owner = copy(&to, record->owner, record->owner_length);
    once->record.note = copy(&to, record->note, record->note_length);
    once->record.bytes = copy(&to, record->bytes, record->length);
    free(hold->once);
    hold->once = once;
    return true;
}

bool hf_once_take(hf_hold *hold, const hf_standing *mine) {
    hf_call_record record;
    if (hold->once->known)
        return true;
    if (!hf_reply_record(mine->record, mine->record_ms, &record) || !hf_once_know(hold, &record))
        return false;
    hold->state = HF_STATE_RELEASED;
    return true;
}

static bool is_printed(const char *terms) { return terms[1] != '-'; }

static hf_status mismatch(const hf_hold *hold) {
    const char *mine = hold->once->terms, *theirs = hold->once->record.terms;
    if (*mine != *theirs)
        return hf_fail(HF_EMISMATCH,
                       "the call of lock %s has been made %s, and this caller wants it %s: all "
                       "callers of a name must agree",
                       hf_names_quoted(hold->names),
                       *theirs == MOST ? "at most once" : "once, and again after a lost hold",
                       *mine == MOST ? "at most once" : "again after a lost hold");
    return hf_fail(HF_EMISMATCH,
                   "the call of lock %s has been made with other arguments: use another name for "
                   "another call",
                   hf_names_quoted(hold->names));
}

hf_status hf_once_outcome_of(const hf_hold *hold) {
    const struct hf_once *once = hold->once;
    const hf_call_record *record = &once->record;
    if (once->terms[0] != record->terms[0] ||
        (is_printed(once->terms) && is_printed(record->terms) &&
         memcmp(once->terms + 1, record->terms + 1, HF_TERMS_LENGTH - 1) != 0))
        return HF_EMISMATCH;
    return record->kind == HF_RECORD_DONE     ? HF_EDONE
           : record->kind == HF_RECORD_FAILED ? HF_EFAILED
                                              : HF_EOUTCOME;
}

hf_status hf_once_status(const hf_hold *hold) {
    const char *lock = hf_names_quoted(hold->names);
    switch (hf_once_outcome_of(hold)) {
    case HF_EMISMATCH:
        return mismatch(hold);
    case HF_EDONE:
        return hf_fail(HF_EDONE, "the call of lock %s has been made, and its result is here", lock);
    case HF_EFAILED:
        return hf_fail(HF_EFAILED, "the call of lock %s has failed, and its error is here", lock);
    default:
        return hf_fail(
            HF_EOUTCOME,
            "the call of lock %s began under fence %lld, and its outcome is unknown: find "
            "out what became of it, and settle it",
            lock, (long long)hold->once->record.fence);
    }
}

static int32_t state_of(const hf_call_record *record) {
    return record->kind == HF_RECORD_RETRY   ? HF_ONCE_RETRY
           : record->kind == HF_RECORD_DONE  ? HF_ONCE_DONE
           : record->kind != HF_RECORD_BEGUN ? HF_ONCE_FAILED
           : record->runs                    ? HF_ONCE_RUNNING
                                             : HF_ONCE_UNKNOWN;
}

void hf_once_tell(const hf_call_record *record, hf_once_info *info) {
    hf_once_info told = {.state = HF_ONCE_NONE, .owner = "", .note = ""};
    if (record != NULL)
        told = (hf_once_info){
            .state = state_of(record),
            .at_most_once = record->terms[0] == MOST,
            .printed = is_printed(record->terms),
            .fence = record->fence,
            .since_ms = record->since_us / 1000,
            .ttl_ms = record->left_ms == HF_TTL_NONE ? HF_NEVER : record->left_ms,
            .result_len = record->result_length,
            .owner = record->owner,
            .owner_len = record->owner_length,
            .note = record->note,
            .note_len = record->note_length,
        };
    hf_struct_tell(info, &told, sizeof told);
}

/* --------------------------------------------------------------- Finishes */

hf_status hf_once_finished(const hf_hold *hold, char how, hf_release_outcome outcome) {
    const char *lock = hf_names_quoted(hold->names);
    bool result = how == HF_RECORD_DONE || how == HF_RECORD_FAILED;
    bool begun = hold->once != NULL && hold->once->begun;
    switch (outcome) {
    case HF_RELEASE_REFUSED:
        return hf_fail(HF_ESERVER,
                       "lock %s is released, but the server did not keep the result: its memory is "
                       "full, or the user lacks a permission",
                       lock);
    case HF_RELEASE_SETTLED:
        HF_MARK("C23");
        return hf_fail(HF_ESETTLED,
                       "the result for lock %s is not kept: the call was settled meanwhile, or "
                       "another caller made it",
                       lock);
    case HF_RELEASE_NOT_HELD:
        if (begun && (result || how == 'u'))
            return hf_fail(
                HF_ESETTLED,
                "the %s for lock %s is not kept: the call was settled or forgotten meanwhile",
                result ? "result" : "outcome", lock);
        if (result)
            return hf_hold_explain_lost(hold, "the server no longer knows it");
        return HF_OK;
    default:
        return HF_OK;
    }
}

/* What is known of a call that is made once, and of the hold that makes it. once.c has the calls of
 * the public header. */
#ifndef HF_OUTCOME_H
#define HF_OUTCOME_H

#include "lock/holds.h"

struct hf_once {
    char terms[HF_TERMS_LENGTH];
    bool most;  /* it is made at most once */
    bool begun; /* its record was written */
    bool known; /* another caller's call has a record, in `record` */
    hf_call_record record;
    char bytes[]; /* the owner and the note of the record, each with a NUL */
};

/* Return how a request names the state of a call, as in hf_leaving; NUL: a call cannot end in that
 * state. */
char hf_once_how(int32_t state);
/* HF_EINVAL. */
hf_status hf_once_check_ttl(int64_t ttl_ms);
hf_status hf_once_check_bytes(const void *bytes, size_t length);

/* Mark the hold as one whose call is made once; print: the fingerprint of its arguments, or NULL.
 * False: no memory. */
bool hf_once_configure(hf_hold *hold, const unsigned char *print, bool most);
/* Store the record of the call in the hold, which then holds nothing. False: no memory. */
bool hf_once_take(hf_hold *hold, const hf_standing *mine);
bool hf_once_know(hf_hold *hold, const hf_call_record *record);
/* Return what the record means to the caller: HF_EDONE, HF_EFAILED, HF_EOUTCOME or HF_EMISMATCH;
 * the second function also sets this thread's message. */
hf_status hf_once_outcome_of(const hf_hold *hold);
hf_status hf_once_status(const hf_hold *hold);
/* Fill in info, whose size the caller has set. NULL: there is no record. */
void hf_once_tell(const hf_call_record *record, hf_once_info *info);
/* Return the terms of the call on the wire, even of a hold that was acquired otherwise. */
const char *hf_once_terms(const hf_hold *hold);
/* Return whether the call is not marked yet, or is just being marked: its release then withdraws
 * the mark. */
static inline bool hf_once_is_unmarked(const hf_hold *hold) {
    return hold->once != NULL && hold->once->most && !hold->once->begun;
}
/* Return the end of a call that was not made, and will not be. */
static inline hf_leaving hf_once_not_made(const hf_hold *hold) {
    return (hf_leaving){.how = 'n', .terms = hf_once_terms(hold), .bytes = ""};
}

/* Read the answer to a release that reported the end of the call. */
hf_status hf_once_finished(const hf_hold *hold, char how, hf_release_outcome outcome);

#endif

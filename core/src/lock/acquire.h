/* The acquire behind the public functions, which differ only slightly. */
#ifndef HF_ACQUIRE_H
#define HF_ACQUIRE_H

#include "lock/lock.h"
#include "lock/op.h"

/* The owner of an acquire, and its purpose. */
typedef struct hf_caller {
    const void *owner; /* NULL: the lock's owner, or the default below */
    size_t owner_length;
    bool thread;                /* the default owner: the calling thread, or the acquire itself */
    bool once;                  /* an outcome of its call ends it, too: HF_EDONE */
    const unsigned char *print; /* with `once`: the fingerprint of the call's arguments; or NULL */
} hf_caller;

/* Acquire the lock, without the mutex. HF_EDONE: the hold has an outcome, hf_once_status(), and
 * must be closed as after HF_OK. */
hf_status hf_acquire(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                     const hf_acquire_options *options, hf_hold **hold_out);
hf_status hf_acquire_start(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                           const hf_acquire_options *options, int64_t op_number);

/* How a vote is acquired: at once, or through a place in the line. */
typedef struct hf_voting {
    int64_t timeout_ms, until; /* 0: at once */
    int64_t score;             /* its first place in another line; 0: it had no place */
    int64_t number;            /* the number of its completion */
} hf_voting;

/* Acquire a vote. After any status but HF_OK the caller still owns the hold. */
hf_status hf_acquire_vote_locked(hf_hold *hold, const hf_voting *how);
/* Return the first place in the queue of the started acquire with that number; 0: not known. */
int64_t hf_op_score(hf_client *client, int64_t number);

/* Make the hold of a started acquire, with the checked options of the lock and of the acquire.
 * Without the mutex. */
hf_status hf_acquire_prepare(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                             const hf_acquire_options *options, uint32_t *flags,
                             hf_hold **hold_out);
/* Begin a started acquire, after a pause if it may wait. with: supplies news, keeps, told and
 * context, and holds, if its caller has the lock. After any status but HF_OK the caller still owns
 * the hold and the news. */
hf_status hf_acquire_begin_locked(hf_hold *hold, int64_t timeout_ms, int64_t pause_ms,
                                  const hf_op *with, hf_op **op_out);

#endif

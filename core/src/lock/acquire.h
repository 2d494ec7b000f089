/* The acquire, behind the public functions that differ in little. */
#ifndef HF_ACQUIRE_H
#define HF_ACQUIRE_H

#include "lock/lock.h"
#include "lock/op.h"

/* The owner, and the purpose. */
typedef struct hf_caller {
    const void *owner; /* or the lock's, or */
    size_t owner_length;
    bool thread;                /* the calling thread, or else the acquire itself */
    bool once;                  /* an outcome of its call will do: HF_EDONE */
    const unsigned char *print; /* then: of the arguments of the call; or NULL */
} hf_caller;

/* Without the mutex. HF_EDONE: the hold has an outcome, hf_once_status(), and is to be closed as
 * after HF_OK. */
hf_status hf_acquire(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                     const hf_acquire_options *options, hf_hold **hold_out);
hf_status hf_acquire_start(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                           const hf_acquire_options *options, int64_t op_number);

/* How a vote is acquired: at once, or by a place in the line. */
typedef struct hf_voting {
    int64_t timeout_ms, until; /* 0: at once */
    int64_t score;             /* its first place in another line; 0: none */
    int64_t number;            /* of its completion */
} hf_voting;

/* Otherwise than HF_OK the hold stays the caller's. */
hf_status hf_acquire_vote_locked(hf_hold *hold, const hf_voting *how);
/* The first place in the queue of the started acquire with that number; 0: not known. */
int64_t hf_op_score(hf_client *client, int64_t number);

/* The parts of a started acquire. A hold with the options of the lock and of the acquire, checked.
 * Without the mutex. */
hf_status hf_acquire_prepare(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                             const hf_acquire_options *options, uint32_t *flags,
                             hf_hold **hold_out);
/* Begin it, after a pause if it may wait. with: its news, keeps, told and context, and holds,
 * if its caller has the lock. Otherwise than HF_OK: the hold and the news stay the caller's. */
hf_status hf_acquire_begin_locked(hf_hold *hold, int64_t timeout_ms, int64_t pause_ms,
                                  const hf_op *with, hf_op **op_out);

#endif

/* The acquire, behind the public functions that differ in little. */
#ifndef HF_ACQUIRE_H
#define HF_ACQUIRE_H

#include "lock/lock.h"

/* On whose behalf, and what for. */
typedef struct hf_caller {
    const void *owner; /* or the lock's, or */
    size_t owner_length;
    bool thread; /* the calling thread, or else the acquire itself */
    bool once;   /* a result that somebody has left will do: HF_EDONE */
} hf_caller;

/* Without the mutex. HF_EDONE: the hold has a result, and is to be closed as after HF_OK. */
hf_status hf_acquire(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                     const hf_acquire_options *options, hf_hold **hold_out);
hf_status hf_acquire_start(hf_lock *lock, const hf_caller *caller, int64_t timeout_ms,
                           const hf_acquire_options *options, int64_t op_number);

#endif

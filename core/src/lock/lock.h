/* A lock: a name and its options; and the owners that acquire through it. */
#ifndef HF_LOCK_H
#define HF_LOCK_H

#include "lock/holds.h"

struct hf_lock {
    hf_client *client;
    hf_names *names;
    int64_t serial;           /* never reused */
    int64_t given_replica_ms; /* 0: the default for the lease */
    hf_terms terms;
    size_t owner_length; /* 0: the default owner */
    size_t note_length;  /* 0: no note; stored after the owner */
    char owner[];
};

typedef struct hf_owner {
    hf_holder holder;
    char buffer[HF_DEFAULT_OWNER_MAX];
} hf_owner;

/* Choose the owner that acquires or releases: the call's, the lock's, or the default: the calling
 * thread, or the acquire itself. HF_EINVAL. */
hf_status hf_lock_choose_owner(const hf_lock *lock, const void *owner, size_t length, bool thread,
                               hf_owner *chosen);

/* Check the lease and the renewal of one acquire. HF_EINVAL. */
hf_status hf_lock_check_lease(const hf_lock *lock, const hf_acquire_options *options);
hf_status hf_check_note(const void *note, size_t length);
/* Check that the lease outlasts the wait for replicas; 0: set the default. */
hf_status hf_check_replicas(int64_t lease_ms, int64_t *timeout_ms);

/* Give a new hold the lock's terms, with this lease and renewal. */
void hf_lock_configure(const hf_lock *lock, hf_hold *hold, int64_t lease_ms, bool renew);

#endif

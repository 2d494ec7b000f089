/* Open a lock, hold it and give it back: the test fails if that is impossible. */
#ifndef LOCK_H
#define LOCK_H

#include "check.h"

/* The options of a lock: OPTIONS(.lease_ms = 500, .renew = HF_ON). */
#define OPTIONS(...) (&(hf_lock_options){.size = sizeof(hf_lock_options), __VA_ARGS__})

/* Open a lock; owner and options may be NULL. */
static inline hf_lock *open_lock(hf_client *client, const char *name, const char *owner,
                                 const hf_lock_options *options) {
    hf_lock *lock;
    assert_status(hf_lock_open(client, name, strlen(name), owner, owner != NULL ? strlen(owner) : 0,
                               options, &lock),
                  HF_OK);
    return lock;
}

static inline hf_lock *lease_lock(hf_client *client, const char *name, int64_t lease_ms,
                                  int32_t renew) {
    return open_lock(client, name, NULL, OPTIONS(.lease_ms = lease_ms, .renew = renew));
}

/* Open a lock that is renewed and does not nest. */
static inline hf_lock *exclusive_lock(hf_client *client, const char *name, int64_t lease_ms) {
    return open_lock(client, name, NULL,
                     OPTIONS(.lease_ms = lease_ms, .renew = HF_ON, .reentrant = HF_OFF));
}

/* Acquire a lock that is free. */
static inline hf_hold *held(hf_lock *lock) {
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    return hold;
}

static inline void give_back(hf_hold *hold, hf_status expected) {
    assert_status(hf_hold_release(hold), expected);
    hf_hold_close(hold);
}

#endif

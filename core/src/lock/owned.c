/* The holds that callers left with the client, found again by their owner. */
#include "lock/hold.h"
#include "lock/lock.h"

/* Return the newest hold on the owner's stack. Threads that share a lock which is not reentrant
 * share the stack, but release their own holds: a thread gets its own newest hold, even a lost one,
 * before the holds of others. */
static hf_hold *newest_locked(const hf_lock *lock, const hf_holder *holder) {
    hf_hold *newest = hf_table_next_locked(lock->client, lock->names, holder, NULL);
    if (lock->terms.reentrant)
        return newest;
    hf_hold *own = newest;
    while (own != NULL && own->thread != hf_thread_serial())
        own = hf_table_next_locked(lock->client, lock->names, holder, own);
    return own != NULL ? own : newest;
}

/* Find that hold, and return it with a reference; `take`: remove it from the stack, so that no two
 * calls release the same hold. */
static hf_status find_current(hf_lock *lock, const void *owner, size_t owner_len, bool take,
                              hf_hold **hold_out) {
    hf_owner chosen;
    if (hold_out == NULL || lock == NULL)
        return hf_fail(HF_EINVAL, "a handle is NULL");
    *hold_out = NULL;
    hf_client *client = lock->client;
    hf_status status = hf_client_check(client);
    if (status == HF_OK)
        status = hf_lock_choose_owner(lock, owner, owner_len, true, &chosen);
    if (status != HF_OK)
        return status;
    HF_HOLDING_CLIENT(client);
    hf_hold *hold = newest_locked(lock, &chosen.holder);
    if (hold == NULL) {
        status = hf_client_check(client); /* perhaps the close released it */
        return status != HF_OK ? status
                               : hf_fail(HF_ENOTHELD, "lock %s is not held by this owner",
                                         hf_names_quoted(lock->names));
    }
    hold->kept = hold->kept && !take;
    *hold_out = hf_hold_grab(hold);
    return HF_OK;
}

hf_status hf_lock_current_as(hf_lock *lock, const void *owner, size_t owner_len,
                             hf_hold **hold_out) {
    return find_current(lock, owner, owner_len, false, hold_out);
}

hf_status hf_lock_release_as(hf_lock *lock, const void *owner, size_t owner_len) {
    hf_hold *hold;
    hf_status status = find_current(lock, owner, owner_len, true, &hold);
    if (status != HF_OK)
        return status;
    status = hf_hold_release(hold);
    HF_HOLDING_CLIENT(lock->client);
    hold->kept = hf_hold_is_listed(hold); /* the keep failed, and the hold must be released again */
    hf_hold_drop(hold);
    return status;
}

hf_status hf_lock_release(hf_lock *lock) { return hf_lock_release_as(lock, NULL, 0); }

int64_t hf_lock_count_as(const hf_lock *lock, const void *owner, size_t owner_len) {
    hf_owner chosen;
    if (lock == NULL || hf_client_check(lock->client) != HF_OK ||
        hf_lock_choose_owner(lock, owner, owner_len, true, &chosen) != HF_OK)
        return 0;
    HF_HOLDING_CLIENT(lock->client);
    int64_t count = 0, now = hf_now();
    for (const hf_hold *hold = NULL;
         (hold = hf_table_next_locked(lock->client, lock->names, &chosen.holder, hold)) != NULL;)
        count += hf_hold_state_now(hold, now) == HF_STATE_HELD;
    return count;
}

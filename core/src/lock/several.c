/* Several locks at once: all or nothing, and holds of which losing one is losing all. */
#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"
#include "lock/hold.h"
#include "lock/lock.h"
#include "lock/renewal.h"
#include "lock/thread.h"

/* Before all is begun again, because the lease of one ended: it grows. */
#define PAUSE_MIN_MS 8
#define PAUSE_MAX_MS 1000

/* ------------------------------------------------------------------ Join */

static hf_status check_one_locked(hf_hold *const *holds, size_t at, int64_t now) {
    const hf_hold *hold = holds[at];
    if (hold->joined != NULL)
        return hf_fail(HF_EINVAL, "the hold of lock %s is joined with others already",
                       hf_names_quoted(hold->names));
    for (size_t i = 0; i < at; i++)
        if (holds[i] == hold)
            return hf_fail(HF_EINVAL, "the hold of lock %s is given twice",
                           hf_names_quoted(hold->names));
    switch (hf_hold_state_now(hold, now)) {
    case HF_STATE_HELD:
        return HF_OK;
    case HF_STATE_LOST:
        return hf_hold_explain_lost(hold, "its lease ended, or its key was taken away");
    default:
        return hf_hold_explain_not_held(hold);
    }
}

static hf_status join_locked(hf_client *client, hf_hold *const *holds, size_t count) {
    int64_t now = hf_now();
    hf_status status = hf_client_check(client);
    if (status == HF_OK) /* it releases the others if one is lost */
        status = hf_thread_start_locked(client);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = check_one_locked(holds, i, now);
    if (status != HF_OK || count == 1)
        return status;
    for (size_t i = 0; i < count; i++)
        holds[i]->joined = holds[(i + 1) % count];
    for (size_t i = 0; i < count; i++)
        hf_renewal_plan_locked(holds[i]);
    return HF_OK;
}

static hf_status check_count(const void *first, size_t count, const char *what) {
    if (first == NULL || count < 1 || count > HF_JOIN_MAX)
        return hf_fail(HF_EINVAL, "%zu %s: it takes 1 to %d at once", count, what, HF_JOIN_MAX);
    return HF_OK;
}

hf_status hf_hold_join(hf_hold *const *holds, size_t count) {
    hf_status status = check_count(holds, count, "holds");
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        if (holds[i] == NULL || holds[i]->client != holds[0]->client)
            return hf_fail(HF_EINVAL, "a handle is NULL, or the holds are not all of one client");
    hf_client *client = holds[0]->client;
    status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    hf_client_lock(client);
    status = join_locked(client, holds, count);
    hf_client_unlock(client);
    return status;
}

/* ----------------------------------------------------------- Acquire all */

/* A lock in the order in which all are taken; and its place in the caller's order. */
typedef struct turn {
    hf_lock *lock;
    size_t at;
} turn;

/* The bytes of the names: the same order in every language. */
static int compare(const void *a, const void *b) {
    const hf_names *one = ((const turn *)a)->lock->names, *other = ((const turn *)b)->lock->names;
    size_t both = one->length < other->length ? one->length : other->length;
    int order = memcmp(one->data, other->data, both);
    return order != 0 ? order : (one->length > other->length) - (one->length < other->length);
}

static hf_status prepare(hf_lock *const *locks, size_t count, turn *turns) {
    hf_status status = check_count(locks, count, "locks");
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        if (locks[i] == NULL || locks[i]->client != locks[0]->client)
            return hf_fail(HF_EINVAL, "a handle is NULL, or the locks are not all of one client");
        turns[i] = (turn){locks[i], i};
    }
    if (status != HF_OK)
        return status;
    qsort(turns, count, sizeof *turns, compare);
    for (size_t i = 1; i < count; i++)
        if (compare(&turns[i - 1], &turns[i]) == 0)
            return hf_fail(HF_EINVAL, "lock %s is given twice",
                           hf_names_quoted(turns[i].lock->names));
    return HF_OK;
}

/* If the server was silent just now, in the background: each further call would wait for it again.
 * The message stays that of the failure. */
static void give_up_all(hf_hold **holds, size_t count, hf_status why) {
    bool answers = why != HF_ECONNECT && why != HF_EUNKNOWN;
    for (size_t i = 0; i < count; i++) {
        if (holds[i] != NULL)
            hf_hold_give_up(holds[i], answers, hf_client_patience(holds[i]->client));
        hf_hold_close(holds[i]);
        holds[i] = NULL;
    }
}

/* Did one end because the server could not be told? */
static bool unreachable(hf_hold *const *holds, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (hf_hold_cause(holds[i]) == HF_CAUSE_UNREACHABLE)
            return true;
    return false;
}

static hf_status acquire_each(const turn *turns, size_t count, int64_t timeout_ms, int64_t until,
                              const hf_acquire_options *options, hf_hold **holds) {
    hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        int64_t left_ms = timeout_ms > 0 ? hf_until(until, hf_now()) : timeout_ms;
        if (timeout_ms > 0 && left_ms == 0)
            left_ms = 1; /* 0 would tell of a lock that is busy, not of time that is up */
        status = hf_lock_acquire_as(turns[i].lock, NULL, 0, left_ms, options, &holds[turns[i].at]);
    }
    return status;
}

/* Before all is begun again: a lease that is shorter than the ways may end each time. */
static hf_status pause_for(const hf_client *client, int64_t *pause_ms, int64_t until,
                           const hf_acquire_options *options) {
    *pause_ms = hf_backoff(*pause_ms, PAUSE_MIN_MS, PAUSE_MAX_MS);
    int64_t ms = hf_spread(*pause_ms), left_ms = hf_until(until, hf_now());
    return hf_client_sleep(client, ms < left_ms ? ms : left_ms,
                           (options->flags & HF_ACQUIRE_INTERRUPTIBLE) != 0);
}

hf_status hf_lock_acquire_all(hf_lock *const *locks, size_t count, int64_t timeout_ms,
                              const hf_acquire_options *options, hf_hold **holds_out) {
    HF_NOT_CANCELLED;
    turn turns[HF_JOIN_MAX];
    hf_acquire_options chosen;
    if (holds_out == NULL)
        return hf_fail(HF_EINVAL, "holds_out is NULL");
    hf_status status = prepare(locks, count, turns);
    if (status == HF_OK)
        status = hf_options_copy(&chosen, sizeof chosen, options, "hf_acquire_options");
    if (status != HF_OK)
        return status;
    memset(holds_out, 0, count * sizeof *holds_out);
    int64_t until = hf_after(hf_now(), timeout_ms), pause_ms = 0;
    for (;;) {
        status = acquire_each(turns, count, timeout_ms, until, options, holds_out);
        if (status == HF_OK)
            status = hf_hold_join(holds_out, count);
        if (status == HF_OK)
            return HF_OK;
        bool outage = status == HF_ELOST && unreachable(holds_out, count);
        give_up_all(holds_out, count, status);
        if (status != HF_ELOST) /* one ended while the next were waited for: all again */
            return status;
        if (hf_now() >= until && outage) /* nobody else need hold one */
            return hf_fail(HF_ECONNECT, "the lease of a lock ended before the server could be told "
                                        "to renew it, while the others were waited for");
        if (hf_now() >= until)
            return hf_fail(timeout_ms == 0 ? HF_EBUSY : HF_ETIMEOUT,
                           "the lease of a lock ended while the others were waited for");
        HF_MARK("H32");
        status = pause_for(locks[0]->client, &pause_ms, until, &chosen);
        if (status != HF_OK)
            return status;
    }
}

/* Several locks at once: all or none, with joined holds. */
#include <stdlib.h>
#include <string.h>

#include "base/brake.h"
#include "base/simulated.h"
#include "lock/acquire.h"
#include "lock/completions.h"
#include "lock/hold.h"
#include "lock/renewal.h"
#include "lock/thread.h"

/* The pause before the call starts over, because a lease ended: it grows. */
#define PAUSE_MIN_MS 8
#define PAUSE_MAX_MS 1000

/* ------------------------------------------------------------------ Join */

static hf_status join_locked(hf_client *client, hf_hold *const *holds, size_t count) {
    int64_t now = hf_now();
    hf_status status = hf_client_check(client);
    if (status == HF_OK) /* it releases the others if one is lost */
        status = hf_thread_start_locked(client);
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        status =
            hf_hold_explain_state(holds[i], hf_hold_state_now(holds[i], now), "its lease ended");
        hf_explain_lock(i);
    }
    if (status != HF_OK || count == 1)
        return status;
    for (size_t i = 0; i < count; i++)
        holds[i]->joined = holds[(i + 1) % count];
    for (size_t i = 0; i < count; i++)
        hf_renewal_plan_locked(holds[i]);
    return HF_OK;
}

/* ----------------------------------------------------------- Acquire all */

/* A lock in the order in which all are acquired; and its place in the caller's order. */
typedef struct turn {
    hf_lock *lock;
    size_t at;
} turn;

/* Compare the bytes of the names: the same order in every language. */
static int compare(const void *a, const void *b) {
    const hf_names *one = ((const turn *)a)->lock->names, *other = ((const turn *)b)->lock->names;
    size_t both = one->length < other->length ? one->length : other->length;
    int order = memcmp(one->data, other->data, both);
    return order != 0 ? order : (one->length > other->length) - (one->length < other->length);
}

static hf_status prepare(hf_lock *const *locks, size_t count, turn *turns) {
    if (locks == NULL || count < 1 || count > HF_JOIN_MAX)
        return hf_fail(HF_EINVAL, "%zu locks: it takes 1 to %d at once", count, HF_JOIN_MAX);
    for (size_t i = 0; i < count; i++) {
        if (locks[i] == NULL || locks[i]->client != locks[0]->client)
            return hf_fail(HF_EINVAL, "a handle is NULL, or the locks are not all of one client");
        turns[i] = (turn){locks[i], i};
    }
    qsort(turns, count, sizeof *turns, compare);
    for (size_t i = 1; i < count; i++)
        if (compare(&turns[i - 1], &turns[i]) == 0)
            return hf_fail(HF_EINVAL, "lock %s is given twice",
                           hf_names_quoted(turns[i].lock->names));
    return HF_OK;
}

/* Return whether the server answers: if it was silent just now, each further request would wait for
 * it again. */
static bool answers(hf_status why) { return why != HF_ECONNECT && why != HF_EUNKNOWN; }

/* Give all holds up. This thread's message stays the message of the failure. */
static void give_up_all(hf_hold **holds, size_t count, hf_status why) {
    bool waits = answers(why) && !hf_brake_is_pulled();
    for (size_t i = 0; i < count; i++) {
        if (holds[i] != NULL)
            hf_hold_give_up(holds[i], waits, hf_client_patience(holds[i]->client));
        hf_hold_close(holds[i]);
        holds[i] = NULL;
    }
}

/* Return which hold ended because the server was not reached, or `count`. */
static size_t unreachable_locked(hf_hold *const *holds, size_t count) {
    int64_t now = hf_now();
    size_t i = 0;
    for (; i < count; i++) {
        bool lost = hf_hold_state_now(holds[i], now) == HF_STATE_LOST;
        int cause = holds[i]->cause;
        if (cause == HF_CAUSE_UNREACHABLE ||
            (cause == HF_CAUSE_NONE && lost && hf_loss_cause(holds[i]) == HF_CAUSE_UNREACHABLE))
            break;
    }
    return i;
}

/* Return the time for the next lock, out of the time for all. */
static int64_t time_left(int64_t timeout_ms, int64_t until) {
    if (timeout_ms <= 0)
        return timeout_ms;
    /* 0 would report HF_EBUSY, not a timeout. */
    return hf_later(hf_until(until, hf_now()), 1);
}

/* Join the acquired holds. HF_ELOST: a lease ended during the wait for later locks, and there is
 * time to start over. */
static hf_status join_in_time_locked(hf_client *client, hf_hold *const *holds, size_t count,
                                     int64_t timeout_ms, int64_t until) {
    hf_status status = join_locked(client, holds, count);
    if (status != HF_ELOST)
        return status;
    if (hf_now() < until) {
        HF_MARK("H32");
        return status;
    }
    size_t lost = (size_t)hf_error_last()->lock, away = unreachable_locked(holds, count);
    status = timeout_ms == 0 ? HF_EBUSY : HF_ETIMEOUT;
    if (away < count) { /* perhaps no other owner holds any of the locks */
        status = HF_ECONNECT;
        lost = away;
        hf_hold_explain_lost(holds[away],
                             "its lease ended before the client could renew it on the server");
    }
    hf_fail(status, "the locks were never held together: %s", hf_error_message());
    hf_explain_lock(lost);
    return status;
}

/* Return the pause before the call starts over: a lease shorter than the round trips may end each
 * time. */
static int64_t pause_before(int64_t *pause_ms, int64_t until) {
    *pause_ms = hf_backoff(*pause_ms, PAUSE_MIN_MS, PAUSE_MAX_MS);
    return hf_earlier(hf_spread(*pause_ms), hf_until(until, hf_now()));
}

hf_status hf_lock_acquire_all(hf_lock *const *locks, size_t count, const void *owner,
                              size_t owner_len, int64_t timeout_ms,
                              const hf_acquire_options *const *options, hf_hold **holds_out) {
    HF_NOT_CANCELLED;
    turn turns[HF_JOIN_MAX];
    hf_acquire_options first;
    hf_caller caller = {.owner = owner, .owner_length = owner_len, .thread = true};
    if (holds_out == NULL)
        return hf_fail(HF_EINVAL, "holds_out is NULL");
    if (count <= HF_JOIN_MAX)
        memset(holds_out, 0, count * sizeof *holds_out);
    hf_status status = prepare(locks, count, turns);
    if (status == HF_OK)
        status = hf_options_copy(&first, sizeof first, options != NULL ? options[0] : NULL,
                                 "hf_acquire_options");
    if (status != HF_OK)
        return status;
    hf_client *client = locks[0]->client;
    int64_t until = hf_after(hf_now(), timeout_ms), pause_ms = 0;
    while (status == HF_OK) {
        for (size_t i = 0; i < count && status == HF_OK; i++) {
            size_t at = turns[i].at;
            status = hf_acquire(turns[i].lock, &caller, time_left(timeout_ms, until),
                                options != NULL ? options[at] : NULL, &holds_out[at]);
            hf_explain_lock(at);
        }
        bool all = status == HF_OK;
        if (all) {
            hf_client_lock(client);
            status = join_in_time_locked(client, holds_out, count, timeout_ms, until);
            hf_client_unlock(client);
        }
        if (status == HF_OK)
            return HF_OK;
        give_up_all(holds_out, count, status);
        if (!all || status != HF_ELOST)
            return status;
        status = hf_client_sleep(client, pause_before(&pause_ms, until),
                                 (first.flags & HF_ACQUIRE_INTERRUPTIBLE) != 0);
    }
    return status;
}

/* --------------------------------------------------------------- Started */

/* Several acquires that were started together, one after the other. */
typedef struct group {
    hf_client *client;
    int64_t timeout_ms, since, until, pause_ms;
    hf_status status;            /* at its end, with the message */
    hf_error error;              /* the message of status */
    size_t releases;             /* the releases under way, before the group is reported */
    size_t count, at;            /* it acquires turns[at] */
    size_t turns[HF_JOIN_MAX];   /* places in the caller's order */
    uint32_t flags[HF_JOIN_MAX]; /* in the caller's order, like the holds and the news */
    hf_hold *holds[HF_JOIN_MAX]; /* also those that are not acquired yet */
    hf_news *news[HF_JOIN_MAX];  /* one completion for each lock */
} group;

/* Free the group. With the mutex; dropping the holds drops the client, too. */
static void free_group_locked(group *mine) {
    hf_client *client = hf_client_keep(mine->client);
    for (size_t i = 0; i < mine->count; i++) {
        hf_hold_drop(mine->holds[i]);
        hf_news_free(mine->news[i]);
    }
    free(mine);
    hf_client_drop(client);
}

/* Complete all acquires of the group. */
static void tell_group(group *mine) {
    hf_status status = mine->status;
    for (size_t i = 0; i < mine->count; i++) {
        hf_hold *hold = mine->holds[i];
        if (status == HF_OK) {
            hold->kept = (mine->flags[i] & HF_ACQUIRE_KEEP) != 0;
            hf_hold_count_acquired_locked(hold, mine->since, hf_now());
            mine->holds[i] = NULL; /* the completion has it now */
        }
        hf_error_set(&mine->error);
        hf_ended_locked(mine->client, &mine->news[i], status, status == HF_OK ? hold : NULL);
    }
    free_group_locked(mine);
}

static void given_back(void *context, bool gone) {
    group *mine = context;
    (void)gone;
    if (--mine->releases == 0)
        tell_group(mine);
}

/* Give back the acquired holds first, and then complete all acquires, with this thread's message. A
 * client that is being closed gives back its holds itself. */
static void end_group(group *mine, size_t count, hf_status status) {
    mine->status = status;
    mine->error = *hf_error_last();
    mine->releases = 1; /* for this function */
    for (size_t i = 0; i < count && !mine->client->swept; i++) {
        hf_hold *hold = mine->holds[mine->turns[i]];
        mine->releases++;
        if (!answers(status) || !hf_hold_give_up_start_locked(hold, given_back, mine)) {
            hf_hold_give_up_locked(hold);
            mine->releases--;
        }
    }
    given_back(mine, true);
}

static void child_told(hf_op *op, hf_status status);

static hf_status next_locked(group *mine, int64_t pause_ms) {
    size_t at = mine->turns[mine->at];
    hf_op with = {.told = child_told,
                  .context = mine,
                  .holds = (mine->flags[at] & HF_ACQUIRE_HOLDS) != 0},
          *op = NULL;
    int64_t left_ms = time_left(mine->timeout_ms, mine->until);
    hf_status status = hf_acquire_begin_locked(mine->holds[at], left_ms, pause_ms, &with, &op);
    hf_explain_lock(at);
    for (size_t i = 0; i < mine->count; i++)
        mine->news[i]->op = op; /* a cancel may name any of the numbers */
    return status;
}

/* Start over, with new holds like the earlier ones. */
static hf_status begin_again_locked(group *mine) {
    for (size_t i = 0; i < mine->count; i++) {
        hf_hold *hold = hf_hold_like(mine->client, mine->holds[i]);
        if (hold == NULL)
            return hf_fail(HF_ENOMEM, "no memory");
        hf_hold_drop(mine->holds[i]);
        mine->holds[i] = hold;
    }
    mine->at = 0;
    return next_locked(mine, pause_before(&mine->pause_ms, mine->until));
}

/* Join the holds of a group that has acquired all. */
static void join_group(group *mine) {
    hf_status status =
        join_in_time_locked(mine->client, mine->holds, mine->count, mine->timeout_ms, mine->until);
    if (status != HF_ELOST) {
        end_group(mine, status == HF_OK ? 0 : mine->count, status);
        return;
    }
    for (size_t i = 0; i < mine->count; i++)
        hf_hold_give_up_locked(mine->holds[i]);
    status = begin_again_locked(mine);
    if (status != HF_OK)
        end_group(mine, 0, status);
}

static void child_told(hf_op *op, hf_status status) {
    group *mine = op->context;
    size_t lock = mine->at;
    for (size_t i = 0; i < mine->count; i++)
        mine->news[i]->op = NULL;
    mine->at += status == HF_OK;
    if (status == HF_OK && op->canceled) /* cancelled while it was confirmed */
        status = hf_fail(HF_ECANCELED, "the wait for lock %s was cancelled",
                         hf_names_quoted(op->hold->names));
    if (status != HF_OK) {
        hf_explain_lock(mine->turns[lock]);
        hf_hold_count_refused_locked(op->hold, status);
    }
    if (status == HF_OK && mine->at == mine->count) {
        join_group(mine);
        return;
    }
    if (status == HF_OK)
        status = next_locked(mine, 0);
    if (status != HF_OK)
        end_group(mine, mine->at, status);
}

hf_status hf_lock_acquire_all_start(hf_lock *const *locks, size_t count, const void *owner,
                                    size_t owner_len, int64_t timeout_ms,
                                    const hf_acquire_options *const *options, int64_t op) {
    turn turns[HF_JOIN_MAX];
    hf_caller caller = {.owner = owner, .owner_length = owner_len};
    if (op < 1 || op > INT64_MAX - HF_JOIN_MAX)
        return hf_fail(HF_EINVAL, "the operation's number must be above 0");
    hf_status status = prepare(locks, count, turns);
    if (status == HF_OK)
        status = hf_client_check(locks[0]->client);
    if (status != HF_OK)
        return status;
    group *mine = calloc(1, sizeof *mine);
    if (mine == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    *mine = (group){.client = locks[0]->client,
                    .timeout_ms = timeout_ms,
                    .since = hf_now(),
                    .until = hf_after(hf_now(), timeout_ms),
                    .count = count};
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        mine->turns[i] = turns[i].at;
        mine->news[i] = hf_news_new(&(hf_completion){.kind = HF_KIND_ACQUIRE});
        const hf_acquire_options *chosen = options != NULL ? options[i] : NULL;
        status = mine->news[i] != NULL ? hf_acquire_prepare(locks[i], &caller, timeout_ms, chosen,
                                                            &mine->flags[i], &mine->holds[i])
                                       : hf_fail(HF_ENOMEM, "no memory");
        hf_explain_lock(i);
    }
    HF_HOLDING_CLIENT(locks[0]->client);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = hf_started_locked(mine->client, op + (int64_t)i, mine->news[i]);
    if (status == HF_OK)
        status = next_locked(mine, 0);
    if (status != HF_OK)
        free_group_locked(mine);
    return status;
}

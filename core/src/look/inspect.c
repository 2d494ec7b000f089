/* One lock: its holders and waiters; and the removal of a hold by an operator. */
#include <string.h>

#include "lock/lock.h"
#include "lock/majority.h"
#include "lock/masters.h"
#include "look/node.h"
#include "look/view.h"
#include "look/wire.h"

/* ------------------------------------------------------- Several masters */

/* The answers of all masters about a lock. */
typedef struct looks {
    size_t masters, answered;
    redisReply *replies[HF_MASTERS_MAX]; /* or NULL */
    hf_found found[HF_MASTERS_MAX];
} looks;

static void free_looks(looks *of) {
    for (size_t i = 0; i < of->masters; i++)
        freeReplyObject(of->replies[i]);
}

static hf_status send(hf_client *master, hf_request *request, redisReply **reply) {
    hf_answer answer;
    hf_status status =
        hf_transport_call(master->transport, request, hf_client_patience(master), &answer);
    if (status == HF_OK)
        *reply = answer.reply;
    return status;
}

static hf_status look_everywhere(const hf_lock *lock, int64_t first, int64_t most, looks *of) {
    hf_client *client = lock->client;
    hf_gathering *heard = hf_gathering_new(client, send);
    if (heard == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    *of = (looks){.masters = heard->masters};
    for (size_t i = 0; i < of->masters; i++)
        hf_request_inspect(&heard->from[i].request, lock->names, first, most, false);
    hf_gathering_run(heard);
    hf_client_lock(client);
    const hf_heard *refuses = NULL;
    size_t left = of->masters;
    for (size_t i = 0; i < of->masters; i++) {
        hf_heard *from = &heard->from[i];
        if (!from->answered)
            continue;
        hf_error_set(&from->error);
        if (from->status == HF_OK && !hf_reply_inspect(from->reply, &of->found[i]))
            from->status = hf_unexpected("inspect");
        if (from->status == HF_OK) {
            of->replies[i] = from->reply;
            from->reply = NULL;
        }
        of->answered += from->status == HF_OK;
        left -= from->status == HF_ESERVER;
        refuses = from->status == HF_ESERVER ? from : refuses;
        hf_master_note(&client->quorum->masters[i], from->status, hf_error_last());
    }
    hf_status status = HF_OK;
    if (of->answered < hf_majority(of->masters)) {
        status = hf_gathering_lacks(heard);
        if (status == HF_OK && left < hf_majority(of->masters)) {
            status = HF_ESERVER;
            hf_error_set(&refuses->error);
        } else if (status == HF_OK) {
            status = hf_masters_explain(client, lock->names, HF_ECONNECT);
        }
    }
    hf_client_unlock(client);
    hf_gathering_drop(heard);
    if (status != HF_OK)
        free_looks(of);
    return status;
}

/* Return whether two masters have votes of one ballot: such ids have the same end. */
static bool is_vote_with(const looks *of, size_t at, size_t other) {
    const char *id = of->found[at].first.id, *theirs = of->found[other].first.id;
    if (of->replies[at] == NULL || of->replies[other] == NULL || !of->found[at].held ||
        of->found[at].held != of->found[other].held ||
        of->found[at].foreign != of->found[other].foreign)
        return false;
    return of->found[at].foreign ||
           memcmp(id + HF_ID_LENGTH / 2, theirs + HF_ID_LENGTH / 2, HF_ID_LENGTH / 2) == 0;
}

/* Count the masters that agree with that master: about the holder, or that the lock is free. */
static size_t count_like(const looks *of, size_t at) {
    size_t count = 0;
    for (size_t i = 0; i < of->masters; i++)
        if (of->replies[i] != NULL && !of->found[at].held)
            count += !of->found[i].held;
        else
            count += is_vote_with(of, at, i);
    return count;
}

/* Return the first master that agrees with most of them; or, among these, one where clients wait.
 * Only a majority shows that the lock is free: the others may have votes of a hold. */
static size_t find_view(const looks *of) {
    size_t best = of->masters, most = 0;
    for (size_t i = 0; i < of->masters; i++) {
        size_t count = of->replies[i] != NULL ? count_like(of, i) : 0;
        if (count < (of->found[i].held ? 1 : hf_majority(of->masters)))
            continue;
        if (count > most || (count == most && of->found[i].waiters > of->found[best].waiters)) {
            most = count;
            best = i;
        }
    }
    return best;
}

static hf_status inspect_masters(hf_lock *lock, int64_t first, int64_t most, hf_view **view) {
    looks of;
    hf_status status = look_everywhere(lock, first, most, &of);
    if (status != HF_OK)
        return status;
    size_t at = find_view(&of);
    redisReply *reply = of.replies[at];
    of.replies[at] = NULL;
    free_looks(&of);
    return hf_view_new(lock->names, reply, view);
}

/* Release each vote of the hold that this master has, and bury it, so that its client does not get
 * the vote again. Returns how many masters answered. */
static size_t break_like(const hf_lock *lock, const looks *of, size_t named, hf_gathering *heard) {
    size_t broken = 0;
    heard->needs_all = true;
    for (size_t i = 0; i < of->masters; i++) {
        hf_ask ask = {.id = of->found[i].first.id, .owner = "", .mode = HF_MODE_EXCLUSIVE};
        heard->from[i].asked = is_vote_with(of, named, i);
        if (!heard->from[i].asked)
            continue;
        if (of->found[i].foreign)
            hf_request_break(&heard->from[i].request, lock->names, 0, true);
        else
            hf_request_release(&heard->from[i].request, lock->names, &ask, 0, true);
    }
    hf_gathering_run(heard);
    for (size_t i = 0; i < of->masters; i++) {
        if (!heard->from[i].answered || heard->from[i].status != HF_OK)
            continue;
        hf_release_outcome outcome = hf_reply_release(heard->from[i].reply);
        broken += outcome != HF_RELEASE_NONSENSE;
        if (outcome == HF_RELEASE_MORE)
            hf_node_kick(lock->client->quorum->masters[i].client, lock->names);
    }
    return broken;
}

static hf_status break_masters(const hf_lock *lock, int64_t fence, bool foreign) {
    size_t masters = lock->client->quorum->count, named = masters;
    looks of;
    hf_status status = look_everywhere(lock, 0, 1, &of);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < masters; i++)
        if (of.replies[i] != NULL && of.found[i].held &&
            (of.found[i].foreign ? foreign && fence == 0
                                 : fence > 0 && of.found[i].first.fence == fence) &&
            (named == masters || count_like(&of, i) > count_like(&of, named)))
            named = i;
    if (named == masters && !of.found[find_view(&of)].held) { /* the lock is free */
        free_looks(&of);
        return HF_OK;
    }
    hf_gathering *heard = hf_gathering_new(lock->client, send);
    if (named == masters)
        status = hf_fail(HF_ENOTHELD, "lock %s is not held with that fence",
                         hf_names_quoted(lock->names));
    else if (heard == NULL)
        status = hf_fail(HF_ENOMEM, "no memory");
    if (status == HF_OK) {
        size_t votes = count_like(&of, named), broken = break_like(lock, &of, named, heard);
        if (broken < votes)
            status = hf_fail(HF_EUNKNOWN,
                             "only %zu of the %zu masters that have that hold of lock %s answered",
                             broken, votes, hf_names_quoted(lock->names));
    }
    if (heard != NULL)
        hf_gathering_drop(heard);
    free_looks(&of);
    return status;
}

/* ---------------------------------------------------------------- Public */

hf_status hf_lock_inspect(hf_lock *lock, int64_t first, hf_lock_info *info, hf_view **view_out) {
    redisReply *reply;
    hf_view *view;
    if (view_out != NULL)
        *view_out = NULL;
    if (lock == NULL || (info == NULL && view_out == NULL) ||
        (info != NULL && info->size < sizeof info->size))
        return hf_fail(HF_EINVAL, "a handle is NULL, or hf_lock_info.size is not set");
    if (first < 0 || first > INT32_MAX)
        return hf_fail(HF_EINVAL, "a list of holders cannot begin at %lld: 0 or more",
                       (long long)first);
    hf_status status = hf_client_check(lock->client);
    if (status != HF_OK)
        return status;
    int64_t most = view_out != NULL ? HF_VIEW_MAX : 1;
    if (lock->client->quorum != NULL) {
        status = inspect_masters(lock, first, most, &view);
    } else {
        status = hf_node_inspect(lock->client, lock->names, first, most, false, &reply);
        if (status == HF_OK)
            status = hf_view_new(lock->names, reply, &view);
    }
    if (status != HF_OK)
        return status;
    if (info != NULL)
        hf_view_tell(view, info);
    if (view_out != NULL)
        *view_out = view;
    else
        hf_view_close(view);
    return HF_OK;
}

static hf_status break_status(const hf_lock *lock, hf_release_outcome outcome, bool doubtful) {
    if (outcome == HF_RELEASE_NONSENSE)
        return hf_unexpected("break");
    if (outcome != HF_RELEASE_NOT_HELD)
        return HF_OK;
    /* If an earlier copy broke the hold, the retry found the other holders. */
    if (doubtful)
        return hf_fail(HF_EUNKNOWN, "an answer was lost, and by now only others hold lock %s",
                       hf_names_quoted(lock->names));
    return hf_fail(HF_ENOTHELD, "lock %s is not held with that fence",
                   hf_names_quoted(lock->names));
}

hf_status hf_lock_break(hf_lock *lock, int64_t fence, uint32_t flags) {
    hf_request request;
    hf_answer answer;
    hf_status status = hf_client_check(lock != NULL ? lock->client : NULL);
    if (status != HF_OK)
        return status;
    if (fence < 0)
        return hf_fail(HF_EINVAL,
                       "a fence of %lld: breaking a lock takes its holder's fence, from inspecting "
                       "the lock; 0 for a foreign lock",
                       (long long)fence);
    if ((flags & ~HF_BREAK_FOREIGN) != 0)
        return hf_fail(HF_EINVAL, "the flags for breaking a lock have an unknown bit");
    if (lock->client->quorum != NULL)
        return break_masters(lock, fence, (flags & HF_BREAK_FOREIGN) != 0);
    hf_request_break(&request, lock->names, fence, (flags & HF_BREAK_FOREIGN) != 0);
    status = hf_client_call(lock->client, &request, &answer);
    if (status != HF_OK)
        return status;
    hf_release_outcome outcome = hf_reply_release(answer.reply);
    freeReplyObject(answer.reply);
    if (outcome == HF_RELEASE_MORE)
        hf_node_kick(lock->client, lock->names);
    return break_status(lock, outcome, answer.doubtful);
}

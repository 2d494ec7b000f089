/* One lock: who holds it, who waits; and a hold that is taken away from outside. */
#include "lock/lock.h"
#include "lock/undo.h"
#include "look/node.h"
#include "look/view.h"

hf_status hf_lock_inspect(hf_lock *lock, int64_t first, hf_lock_info *info, hf_view **view_out) {
    redisReply *reply;
    hf_view *view;
    if (view_out != NULL)
        *view_out = NULL;
    if (lock == NULL || (info == NULL && view_out == NULL) ||
        (info != NULL && info->size < sizeof info->size))
        return hf_fail(HF_EINVAL, "a handle is NULL, or hf_lock_info.size is not set");
    if (first < 0 || first > INT32_MAX)
        return hf_fail(HF_EINVAL, "a look at a lock cannot begin at its holder %lld: 0 or more",
                       (long long)first);
    hf_status status = hf_client_check(lock->client);
    if (status != HF_OK)
        return status;
    status = hf_node_inspect(lock->client, lock->names, first, view_out != NULL ? HF_VIEW_MAX : 1,
                             false, &reply);
    if (status == HF_OK)
        status = hf_view_new(lock->names, reply, &view);
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
    /* If an earlier copy broke it, the others are what the retry found. */
    if (doubtful)
        return hf_fail(HF_EUNKNOWN, "an answer was lost, and by now only others hold lock %s",
                       hf_names_quoted(lock->names));
    return hf_fail(HF_ENOTHELD, "lock %s is not held with that fence",
                   hf_names_quoted(lock->names));
}

hf_status hf_lock_break(hf_lock *lock, int64_t fence, uint32_t flags) {
    hf_request request;
    hf_answer answer;
    if (lock == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(lock->client);
    if (status != HF_OK)
        return status;
    if (fence < 0)
        return hf_fail(HF_EINVAL,
                       "a fence of %lld: breaking a lock takes its holder's fence, from inspecting "
                       "the lock; 0 for a foreign lock",
                       (long long)fence);
    if ((flags & ~HF_BREAK_FOREIGN) != 0)
        return hf_fail(HF_EINVAL, "the flags for breaking a lock have an unknown bit");
    hf_request_break(&request, lock->names, fence, (flags & HF_BREAK_FOREIGN) != 0);
    status = hf_client_call(lock->client, &request, &answer);
    if (status != HF_OK)
        return status;
    hf_release_outcome outcome = hf_reply_release(answer.reply);
    freeReplyObject(answer.reply);
    hf_client_lock(lock->client);
    if (outcome == HF_RELEASE_MORE)
        hf_kick_locked(lock->client, lock->names);
    hf_client_unlock(lock->client);
    return break_status(lock, outcome, answer.doubtful);
}

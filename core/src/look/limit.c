/* The limit that is stored with a name. */
#include "lock/lock.h"
#include "lock/quorum.h"
#include "look/node.h"

static hf_status check_limit(const hf_lock *lock, int64_t permits, int64_t per_ms) {
    hf_status status = hf_client_check(lock != NULL ? lock->client : NULL);
    if (status != HF_OK)
        return status;
    if (permits < 0 || permits > HF_PERMITS_MAX)
        return hf_fail(HF_EINVAL, "a limit of %lld permits: it takes 1 to %lld, or 0 for no limit",
                       (long long)permits, (long long)HF_PERMITS_MAX);
    if (per_ms != 0 && (permits == 0 || per_ms < HF_LEASE_MIN || per_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL,
                       "a limit of %lld in %lld ms: a gate takes 1 or more in 10 ms to 10 "
                       "years",
                       (long long)permits, (long long)per_ms);
    return lock->client->quorum != NULL ? hf_quorum_refuse("limits that are stored") : HF_OK;
}

/* Explain that too few replicas have the limit. reached: -1, not known, for the reason in this
 * thread's message. */
static hf_status explain_unreplicated(const hf_lock *lock, int64_t reached) {
    const char *name = hf_names_quoted(lock->names);
    if (reached < 0)
        return hf_fail(HF_EREPLICAS, "the limit of lock %s is stored, with no word of replicas: %s",
                       name, hf_error_message());
    hf_fail(HF_EREPLICAS, "the limit of lock %s had reached %lld of the %d replicas asked for",
            name, (long long)reached, (int)lock->terms.replicas);
    hf_explain_replicas(reached);
    return HF_EREPLICAS;
}

hf_status hf_lock_limit(hf_lock *lock, int64_t permits, int64_t per_ms, int64_t *permits_was,
                        int64_t *per_ms_was) {
    hf_request request;
    hf_answer answer;
    char id[HF_ID_LENGTH + 1];
    int64_t was[2];
    hf_status status = check_limit(lock, permits, per_ms);
    if (status != HF_OK)
        return status;
    status = hf_node_new_id(lock->client, id);
    if (status != HF_OK)
        return status;
    hf_request_limit(&request, lock->names, id, permits, per_ms);
    request.replicas = lock->terms.replicas;
    request.replica_ms = lock->terms.replica_ms;
    int64_t deadline = hf_client_patience(lock->client);
    status = hf_client_call(lock->client, &request, &answer);
    if (status == HF_EUNKNOWN) /* a later call must be the last, whenever a copy of this one
                                * arrives */
        hf_node_bury(lock->client, lock->names, id, deadline);
    if (status != HF_OK)
        return status;
    bool known = hf_reply_limit(answer.reply, &was[0], &was[1]);
    freeReplyObject(answer.reply);
    if (!known)
        return hf_unexpected("limit");
    if (permits_was != NULL)
        *permits_was = was[0];
    if (per_ms_was != NULL)
        *per_ms_was = was[1];
    hf_node_kick(lock->client, lock->names); /* waiters with another number ask again */
    return answer.replicas < lock->terms.replicas ? explain_unreplicated(lock, answer.replicas)
                                                  : HF_OK;
}

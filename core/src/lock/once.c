/* Once: many want the same done, one does it, and all get its result. */
#include "lock/acquire.h"
#include "lock/hold.h"

/* A result stays for so long at least, or those that wait could miss it. */
#define RESULT_MIN_MS 10000

static const hf_caller anybody = {.once = true};

hf_status hf_once_begin(hf_lock *lock, int64_t timeout_ms, const hf_acquire_options *options,
                        hf_hold **hold_out) {
    if (hold_out == NULL)
        return hf_fail(HF_EINVAL, "hold_out is NULL");
    return hf_acquire(lock, &anybody, timeout_ms, options, hold_out);
}

hf_status hf_once_begin_start(hf_lock *lock, int64_t timeout_ms, const hf_acquire_options *options,
                              int64_t op) {
    return hf_acquire_start(lock, &anybody, timeout_ms, options, op);
}

static hf_status check_result(const hf_hold *hold, const hf_leaving *left) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (hold->mode == HF_MODE_SHARED)
        return hf_fail(HF_EINVAL, "a shared hold leaves no result: others have it, too");
    if (left->bytes == NULL && left->length > 0)
        return hf_fail(HF_EINVAL, "the result is NULL");
    if (left->length > HF_RESULT_MAX)
        return hf_fail(HF_EINVAL, "the result has %zu bytes: at most %d", left->length,
                       HF_RESULT_MAX);
    if (left->ttl_ms < RESULT_MIN_MS || left->ttl_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL, "a result that stays for %lld ms: it takes 10 s to 10 years",
                       (long long)left->ttl_ms);
    return HF_OK;
}

hf_status hf_once_finish(hf_hold *hold, const void *result, size_t length, int64_t ttl_ms) {
    hf_leaving left = {.bytes = result, .length = length, .ttl_ms = ttl_ms};
    hf_status status = check_result(hold, &left);
    return status == HF_OK ? hf_hold_leave(hold, &left) : status;
}

hf_status hf_once_finish_start(hf_hold *hold, const void *result, size_t length, int64_t ttl_ms,
                               int64_t op) {
    hf_leaving left = {.bytes = result, .length = length, .ttl_ms = ttl_ms};
    hf_status status = check_result(hold, &left);
    return status == HF_OK ? hf_hold_leave_start(hold, &left, op) : status;
}

const void *hf_hold_result(const hf_hold *hold, size_t *length_out) {
    if (length_out != NULL)
        *length_out = hold != NULL ? hold->result_length : 0;
    return hold != NULL ? hold->result : NULL;
}

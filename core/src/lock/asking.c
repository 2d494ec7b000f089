#include "lock/asking.h"

hf_way hf_way_of(const hf_hold *hold, const hf_ask *ask, bool crowded) {
    bool shared = ask->mode == HF_MODE_SHARED;
    if ((shared ? ask->weight > 1 : ask->mode != HF_MODE_EXCLUSIVE) || ask->inside != NULL ||
        ask->score != 0)
        return HF_BY_ACQUIRE;
    if (ask->channel != NULL && crowded)
        return shared || ask->ahead_ms > 0 ? HF_BY_ACQUIRE : HF_BY_WAIT;
    /* Another library's lock without an end is seen by the general request alone. */
    if (ask->lease_ms == HF_NEVER || hold->terms.heal_ms > 0)
        return HF_BY_ACQUIRE;
    return shared ? HF_BY_SHARE : HF_BY_TAKE;
}

void hf_way_request(hf_request *request, hf_way way, const hf_hold *hold, const hf_ask *ask) {
    int64_t floor = hf_hold_floor_locked(hold);
    switch (way) {
    case HF_BY_TAKE:
        hf_request_take(request, hold->names, ask, floor);
        break;
    case HF_BY_SHARE:
        hf_request_share(request, hold->names, ask, floor);
        break;
    case HF_BY_WAIT:
        hf_request_wait(request, hold->names, ask);
        break;
    default:
        hf_request_acquire(request, hold->names, ask, 1, floor);
    }
}

static hf_answer_kind took(const hf_hold *hold, bool more, hf_answer_kind kind, hf_look *look,
                           hf_standing *mine) {
    if (kind != HF_ANSWER_HELD)
        return kind;
    if (more || hold->nests)
        return HF_ANSWER_ASK;
    *look = (hf_look){.ttl_ms = HF_CLAIM_MS}; /* that is not known */
    *mine = (hf_standing){.state = HF_STANDS_BUSY};
    return HF_ANSWER_GOOD;
}

hf_answer_kind hf_way_reply(hf_way way, const hf_hold *hold, bool more, const redisReply *reply,
                            hf_look *look, hf_standing *mine) {
    int64_t lease_ms = hold->validity.lease_ms;
    switch (way) {
    case HF_BY_TAKE:
        return took(hold, more, hf_reply_take(reply, lease_ms, look, mine), look, mine);
    case HF_BY_SHARE:
        return took(hold, more, hf_reply_share(reply, lease_ms, look, mine), look, mine);
    case HF_BY_WAIT:
        return hf_reply_wait(reply, look, mine);
    default:
        return hf_reply_acquire(reply, look, mine, 1) ? HF_ANSWER_GOOD : HF_ANSWER_NONSENSE;
    }
}

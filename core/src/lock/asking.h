/* How an acquire asks: by the cheapest request that may do, and by the general one if that
 * did nothing. */
#ifndef HF_ASKING_H
#define HF_ASKING_H

#include "lock/op.h"

typedef enum {
    HF_BY_TAKE,   /* the lock is free and has no waiter, as far as is known */
    HF_BY_SHARE,  /* the same for a shared one; others may share the lock */
    HF_BY_WAIT,   /* others wait for it, too */
    HF_BY_ACQUIRE /* that always does */
} hf_way;

/* Of a hold that asks so; its request has the floor of the client's table, and needs the mutex.
 * crowded: the lock was waited for a moment ago. */
hf_way hf_way_of(const hf_hold *hold, const hf_ask *ask, bool crowded);
void hf_way_request(hf_request *request, hf_way way, const hf_hold *hold, const hf_ask *ask);
/* more: it must learn more than that the lock is held, because it waits, or a copy of its request
 * may have been granted the lock. HF_ANSWER_ASK, HF_ANSWER_LIMIT: HF_BY_ACQUIRE is
 * next. */
hf_answer_kind hf_way_reply(hf_way way, const hf_hold *hold, bool more, const redisReply *reply,
                            hf_look *look, hf_standing *mine);

#endif

/* The operations on a hold: release with a result or without, renew, extend, check, hand over and
 * adopt. */
#ifndef HF_HOLD_H
#define HF_HOLD_H

#include "lock/holds.h"

/* Release the hold, without the mutex; left: the end of its call, or NULL. On this thread by the
 * deadline (0: the client's patience), and later in the background. Returns as the public
 * functions. */
hf_status hf_hold_leave(hf_hold *hold, const hf_leaving *left, int64_t number, int64_t deadline);
#define HF_ON_THIS_THREAD INT64_MIN /* in place of the number of a started operation */
/* Return the number of an operation as a caller gave it, never HF_ON_THIS_THREAD. */
static inline int64_t hf_given_number(int64_t op) { return hf_later(op, 0); }
/* Release the hold of an acquire that failed, in the background; or, while the server answers, on
 * this thread, without the mutex. True: it is gone from the server. */
void hf_hold_give_up_locked(hf_hold *hold);
bool hf_hold_give_up(hf_hold *hold, bool answers, int64_t deadline);
/* Release it in the background, and call over() when it is gone from the server, or when there was
 * no such answer in time. False: no memory, or it is released already, and over() is not called. */
bool hf_hold_give_up_start_locked(hf_hold *hold, void (*over)(void *context, bool gone),
                                  void *context);
/* Renew the hold as hf_hold_renew() does, by that deadline. */
hf_status hf_hold_renew_by(hf_hold *hold, int64_t deadline);
/* Ask for the hold again, with that floor. HF_OK: it stands, and from now on its server gives no
 * fence below the floor. */
hf_status hf_hold_confirm_start(hf_hold *hold, int64_t floor, int64_t op);
/* Make the hold last for duration_ms from now, if that is longer than the time left. */
hf_status hf_hold_lengthen_start(hf_hold *hold, int64_t duration_ms, int64_t op);
/* Hold a kept lock again, until the time of the keep: it is checked, its end is reported, and it
 * can be kept for another time. */
void hf_hold_take_up(hf_hold *hold);
/* Make the requests of a closing client for the hold: a release, or a keep. Return their number. */
size_t hf_hold_last_requests(hf_request *requests, const hf_hold *hold);
#define HF_HOLD_LAST_MAX 2
/* Take the answer to a claim, a look, or a renewal that never shortens. */
void hf_hold_claimed_locked(hf_hold *hold, hf_renew_mode mode, int64_t sent_at, int64_t left_ms);

#endif

/* What an acquire that was won waits for before it is answered: replicas that have it, and its
 * whole lease. */
#ifndef HF_REPLICAS_H
#define HF_REPLICAS_H

#include "lock/waiting.h"

/* Must it wait? */
bool hf_hold_must_confirm_locked(const hf_hold *hold);
/* An acquire that was won, and is in the table: wait until enough replicas have it, for replica_ms
 * longer than the deadline, and it its lease. If that cannot be it is released, in the background
 * if the server was silent. The mutex is free meanwhile. */
hf_status hf_hold_confirm_locked(hf_hold *hold, int64_t deadline, int64_t replica_ms);
/* The same for a started acquire, on another thread, which then reports it, with its message,
 * and frees the op. */
void hf_op_confirm_locked(hf_op *op);
/* The client is closed: the acquires that wait here end with HF_ECANCELED. */
void hf_confirming_cancel_locked(hf_client *client);

#endif

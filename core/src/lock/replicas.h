/* The waits of a successful acquire before it returns: for replicas, and for its whole lease. */
#ifndef HF_REPLICAS_H
#define HF_REPLICAS_H

#include "lock/waiting.h"

/* Return whether the acquire must wait. */
bool hf_hold_must_confirm_locked(const hf_hold *hold);
/* Wait, for a hold in the table, until enough replicas have it, for up to replica_ms beyond the
 * deadline, and until it has its lease. If that fails the hold is released, in the background if
 * the server was silent. The mutex is free meanwhile. */
hf_status hf_hold_confirm_locked(hf_hold *hold, int64_t deadline, int64_t replica_ms);
/* Confirm a started acquire, as hf_hold_confirm_locked() does, on another thread, which then
 * reports it, with its message, and frees the op. */
void hf_op_confirm_locked(hf_op *op);
/* End the acquires that wait here with HF_ECANCELED: the client is closed. */
void hf_confirming_cancel_locked(hf_client *client);

#endif

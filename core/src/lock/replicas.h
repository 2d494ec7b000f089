/* Replicas that must have a lock before its acquire is answered. */
#ifndef HF_REPLICAS_H
#define HF_REPLICAS_H

#include "lock/waiting.h"

/* NULL: no memory. */
struct hf_confirming *hf_confirming_begin(void);
void hf_confirming_end(struct hf_confirming *confirming);

/* An acquire that was won, and is in the table: wait until enough replicas have it. If
 * they do not it is released. Without the mutex. */
hf_status hf_hold_confirm(hf_hold *hold);
/* The same for one that was started, on another thread, which then calls `told`, with its
 * message. */
void hf_op_confirm_locked(hf_op *op, void (*told)(hf_op *op, hf_status status));
/* The client is closed: those that wait for replicas are told, with HF_ECANCELED. */
void hf_confirming_cancel_locked(hf_client *client);

#endif

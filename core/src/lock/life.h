/*
 * The life of an acquire, on a thread or started: its requests under way, its grant, and
 * its one end. Everything here needs the client's mutex.
 */
#ifndef HF_LIFE_H
#define HF_LIFE_H

#include "lock/queue.h"

/* Note that a request for the op is about to be sent: a copy of it may be under way from now on. */
void hf_op_sent_locked(hf_op *op);
/* Note that a request is answered, or never will be; doubtful: a copy of it has no valid answer. */
void hf_op_heard_locked(hf_op *op, bool doubtful);
/* Note that the server has answered the request that ends the op's wait. */
void hf_op_left_locked(hf_op *op);
/* Give the op a new id, with its old place: the old id is spent, and given up. */
hf_status hf_op_renew_id_locked(hf_op *op);

/* Take the lock, granted since began_at: end the op with HF_OK. False, and nothing is done: the
 * deadline is past, or the client has seen a higher fence, so the server is no longer the master.
 * pushed: by a message, or not for the whole lease, so that it must be claimed. */
bool hf_op_take_locked(hf_op *op, int64_t fence, int64_t began_at, int64_t deadline, bool pushed);

/* End the op. Without the lock it gives its id up, whatever the status: what it left on the server
 * is undone. */
void hf_op_finish_locked(hf_op *op, hf_status status);
/* End the op, for the reason in this thread's message. */
void hf_op_fail_locked(hf_op *op, hf_status status);

#endif

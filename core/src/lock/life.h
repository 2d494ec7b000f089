/*
 * The life of an acquire, on a thread or started: its requests under way, its grant, and
 * its one end. Everything here needs the client's mutex.
 */
#ifndef HF_LIFE_H
#define HF_LIFE_H

#include "lock/queue.h"

/* A request for it is about to be sent: from now on a copy of it may be under way. */
void hf_op_sent_locked(hf_op *op);
/* That request is answered, or will not be; doubtful: a copy of it has no answer that counts. */
void hf_op_heard_locked(hf_op *op, bool doubtful);
/* The server has answered the request that ends its wait. */
void hf_op_left_locked(hf_op *op);
/* Its id is spent, and given up: give it a new one, with its old place. */
hf_status hf_op_renew_id_locked(hf_op *op);

/* It is granted since began_at: end it with HF_OK. False, and nothing is done: the deadline
 * is past; or the client has seen a higher fence, so the server is no longer the master.
 * pushed: by a message, or not for the whole lease, so that it must be claimed. */
bool hf_op_take_locked(hf_op *op, int64_t fence, int64_t began_at, int64_t deadline, bool pushed);

/* End it. Without the lock it gives its id up, whatever the status: the rest of it on the
 * server is undone. */
void hf_op_finish_locked(hf_op *op, hf_status status);
/* The same, for the reason in this thread's message. */
void hf_op_fail_locked(hf_op *op, hf_status status);

#endif

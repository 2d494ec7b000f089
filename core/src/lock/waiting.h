/*
 * Waiting: the grants for acquires in the server's queue, the server's answers for them, and the
 * time of each re-check. All functions here need the client's mutex.
 */
#ifndef HF_WAITING_H
#define HF_WAITING_H

#include "lock/life.h"

/* Ask the server for the ops of a queue whose timer is due. */
void hf_waiting_ask(hf_timer *timer, int64_t now);
/* The callbacks for the news of a link; the caller sets `replaced`. */
extern const hf_listener hf_waiting_listener;
/* Fill in, while the client closes, the tasks that take its waiters out of their queues, and end
 * the waiters without a thread. */
void hf_waiting_close_locked(hf_client *client, hf_list *tasks);
/* Have all waiting threads look again. */
void hf_waiting_notify_locked(hf_client *client);

/* Take the answer to an acquire of the op, from a server with that link or NULL. */
void hf_op_answer_locked(hf_op *op, hf_link *from, const hf_look *look, const hf_standing *mine,
                         int64_t sent_at);
/* Make sure that the op's channel is subscribed to, or, where a channel is of no use, that the
 * keeper asks for the op. */
void hf_op_want_grants_locked(hf_op *op);
/* Ask once, without queueing; only: and end the op then. False: no memory. */
bool hf_op_try_locked(hf_op *op, bool only);

#endif

/*
 * Waiting: the grants for acquires in the server's queue, the server's answers for them,
 * and the time of each re-check. Everything here needs the client's mutex.
 */
#ifndef HF_WAITING_H
#define HF_WAITING_H

#include "lock/life.h"

/* A queue's timer: its ops ask the server. */
void hf_waiting_ask(hf_timer *timer, int64_t now);
/* The callbacks for the news of a link; the caller sets `replaced`. */
extern const hf_listener hf_waiting_listener;
/* The client is being closed: tasks that take its waiters out of their queues, and
 * the end of waiters without a thread. */
void hf_waiting_close_locked(hf_client *client, hf_list *tasks);
/* All threads that wait look again. */
void hf_waiting_notify_locked(hf_client *client);

/* What acquire answered for it, from a server with that link or NULL. */
void hf_op_answer_locked(hf_op *op, hf_link *from, const hf_look *look, const hf_standing *mine,
                         int64_t sent_at);
/* Make sure that its channel is subscribed to, or that it is asked for where a channel is of no
 * use. */
void hf_op_want_grants_locked(hf_op *op);
/* Ask once, without queueing; only: and end it then. False: no memory. */
bool hf_op_try_locked(hf_op *op, bool only);

#endif

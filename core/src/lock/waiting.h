/*
 * Waiting: acquires in the server's queue, the grants that come in for them, and when to ask
 * again. Everything here that is given an op needs the client's mutex; hf_waiting_begin() and
 * hf_waiting_end() do not.
 */
#ifndef HF_WAITING_H
#define HF_WAITING_H

#include "lock/asking.h"

/* NULL: no memory. */
struct hf_waiting *hf_waiting_begin(hf_client *client);
void hf_waiting_end(hf_client *client);
/* What it does when a link tells of something; but `replaced` is for the caller to set. */
extern const hf_listener hf_waiting_listener;
/* The client is being closed: tasks that take those that wait out of their queues, and
 * the end of those that have no thread. */
void hf_waiting_close_locked(hf_client *client, hf_list *tasks);
/* All threads that wait look again. */
void hf_waiting_notify_locked(hf_client *client);

/* ended: of one that is started; NULL: a thread waits. NULL: no memory. */
hf_op *hf_op_new_locked(hf_client *client, hf_hold *hold, int64_t timeout_ms, int64_t until,
                        void (*ended)(hf_op *op, hf_status status));
void hf_op_free_locked(hf_op *op);
/* Into the local queue, where its grant finds it. False: no memory. */
bool hf_op_enter_locked(hf_op *op);
/* Unless it is held its id is given up: what the server may have of it is undone. */
void hf_op_leave_locked(hf_op *op);
hf_op *hf_op_find_locked(const hf_client *client, const char *id);

/* What it asks the server for. */
hf_ask hf_op_ask(const hf_op *op);
/* The server has been told that it waits no more, and answered. */
void hf_op_left_locked(hf_op *op);
/* Its id is spent, and given up: give it a new one, with its old place. */
hf_status hf_op_renew_id_locked(hf_op *op);
/* It is granted since began_at: end it with HF_OK. False, and nothing is done: the deadline is
 * past; or the client has seen a higher fence, so that the server is the master no more.
 * pushed: by a message, or not for the whole lease, so that it must be claimed. */
bool hf_op_take_locked(hf_op *op, int64_t fence, int64_t began_at, int64_t deadline, bool pushed);
void hf_op_finish_locked(hf_op *op, hf_status status);
/* What acquire answered for it, from a server with that link or NULL. */
void hf_op_answer_locked(hf_op *op, hf_link *from, const hf_look *look, const hf_standing *mine,
                         int64_t sent_at);
/* When a hold ends that stands so, by an answer to what was sent then. */
int64_t hf_standing_deadline(const hf_hold *hold, const hf_standing *mine, int64_t sent_at);

/* See that its channel is subscribed to. */
void hf_op_want_grants_locked(hf_op *op);
/* How often its channel has been. */
unsigned hf_op_epoch(const hf_op *op);
/* Do others want that lock, for all that this client knows? */
bool hf_waiting_expected_locked(const hf_client *client, const hf_names *names);
/* How a hold asks for its lock, that being known. */
hf_way hf_waiting_way_locked(const hf_hold *hold, const hf_ask *ask);
/* A `wait` did nothing: the next ones would not, either. */
void hf_waiting_in_vain_locked(const hf_client *client, const hf_names *names);
/* Does nothing else of this client wait for that lock? */
bool hf_op_is_alone(const hf_op *op);
/* Have its queue asked for, soon. */
void hf_op_ask_soon_locked(hf_op *op);
/* Ask once, without queueing; only: and end it then. False: no memory. */
bool hf_op_try_locked(hf_op *op, bool only);
/* The client's places in that queue may be gone: all that wait ask again. */
void hf_queue_recheck_locked(hf_client *client, const hf_names *names);
/* Why the last wait failed. */
const char *hf_waiting_reason_locked(const hf_client *client);

#endif

/*
 * The local queues: the ops of this client that are in a server's queue, found by their ids and by
 * their locks. All functions here need the client's mutex, except hf_waiting_begin() and
 * hf_waiting_end().
 */
#ifndef HF_QUEUE_H
#define HF_QUEUE_H

#include "lock/op.h"

/* Make the queues; ask: called when a queue's timer is due. NULL: no memory. */
struct hf_waiting *hf_waiting_begin(void (*ask)(hf_timer *timer, int64_t now));
void hf_waiting_end(struct hf_waiting *waiting);

/* Count the op as waiting, until it ends. */
void hf_op_waits_locked(hf_op *op);
/* Put the op into its lock's queue, where its grant finds it. False: no memory, or no descriptor to
 * wake its thread. */
bool hf_op_enter_locked(hf_op *op);
/* Take it out of its queue, if it is in one. */
void hf_op_leave_locked(hf_op *op);
/* Give the op a bell to wake its thread. False: no memory, or no descriptor. */
bool hf_op_equip_locked(hf_op *op);
/* Free a started op, or keep the bell of a thread's op for the next one. */
void hf_op_free_locked(hf_op *op);
/* Replace the id of the op. */
void hf_op_rename_locked(hf_op *op, const char *id);
/* Move the op to another link, which its channel has now. */
void hf_op_move_locked(hf_op *op, hf_link *link);

hf_op *hf_op_find_locked(const hf_client *client, const char *id);
/* Return the op after `op`, in no order; after NULL the first. NULL: no op is left. */
hf_op *hf_op_each_locked(const hf_client *client, const hf_op *op);
hf_queue *hf_queue_find_locked(const hf_client *client, const hf_names *names);
/* Free a queue that is empty, and has no request under way. */
void hf_queue_drop_locked(hf_queue *queue);

/* Return the arguments with which the op asks the server. */
hf_ask hf_op_ask(const hf_op *op);
/* Return whether its owner waits here with another op. */
bool hf_op_has_twin_locked(const hf_op *op);

/* Have the queue ask by `due`: each of its ops may know best when the lock is free. */
void hf_queue_ask_by_locked(hf_queue *queue, int64_t due);
/* Have the waiters of that queue, or of all queues, ask again: their places may be gone. */
void hf_queue_recheck_locked(hf_client *client, const hf_names *names);
void hf_queue_recheck_all_locked(hf_client *client);

/* Note when a hold that was waited for began; began_at 0: it was not waited for. */
void hf_waiting_handed_on_locked(const hf_client *client, const hf_names *names, int64_t began_at);
/* Return whether the lock is contended, as far as this client knows. */
bool hf_waiting_expected_locked(const hf_client *client, const hf_names *names);
/* The request that an acquire sends first: the cheapest that may suffice, and the general one if
 * that did nothing. */
typedef enum {
    HF_BY_TAKE,   /* the lock is free and has no waiter, as far as the client knows */
    HF_BY_SHARE,  /* a shared acquire: others may share the lock */
    HF_BY_WAIT,   /* others wait for the lock, too */
    HF_BY_ACQUIRE /* the general request, which always suffices */
} hf_way;
/* Choose the request of a hold, given its arguments. */
hf_way hf_waiting_way_locked(const hf_hold *hold, const hf_ask *ask);
/* Make the request, with the floor of the client's table. HF_BY_ACQUIRE may ask for several ops of
 * one lock. */
void hf_way_request(hf_request *request, hf_way way, const hf_hold *hold, const hf_ask *asks,
                    size_t count);
/* Read the answer. more: the op must learn more than that the lock is held, because it waits, or a
 * copy of its request may have been granted the lock. HF_ANSWER_ASK, HF_ANSWER_LIMIT: HF_BY_ACQUIRE
 * must follow, and is sent first by other acquires for a while. */
hf_answer_kind hf_way_reply(hf_way way, const hf_hold *hold, bool more, const redisReply *reply,
                            hf_look *look, hf_standing *mine);

#endif

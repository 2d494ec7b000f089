/*
 * Who waits where: the ops of this client that are in a server's queue, found by their ids and
 * by their locks. Everything here needs the client's mutex, but for hf_waiting_begin() and
 * hf_waiting_end().
 */
#ifndef HF_QUEUE_H
#define HF_QUEUE_H

#include "lock/op.h"

/* ask: it is called when a queue's timer is due. NULL: no memory. */
struct hf_waiting *hf_waiting_begin(void (*ask)(hf_timer *timer, int64_t now));
void hf_waiting_end(struct hf_waiting *waiting);

/* Count the op as waiting, until it ends. */
void hf_op_waits_locked(hf_op *op);
/* Put the op into its lock's queue, where its grant finds it. False: no memory, or no descriptor
 * to wake its thread. */
bool hf_op_enter_locked(hf_op *op);
/* Take it out of its queue, if it is in one. */
void hf_op_leave_locked(hf_op *op);
/* What wakes its thread. False: no memory, or no descriptor. */
bool hf_op_equip_locked(hf_op *op);
/* What it has of the system is for the next one. */
void hf_op_free_locked(hf_op *op);
/* Give it that id, in place of the one that it has. */
void hf_op_rename_locked(hf_op *op, const char *id);
/* Its channel is another link's now. */
void hf_op_move_locked(hf_op *op, hf_link *link);

hf_op *hf_op_find_locked(const hf_client *client, const char *id);
/* Return the op after that op, in no order; of NULL the first. NULL: no op is left. */
hf_op *hf_op_each_locked(const hf_client *client, const hf_op *op);
hf_queue *hf_queue_find_locked(const hf_client *client, const hf_names *names);
/* The queue is empty, and no question of it is under way. */
void hf_queue_drop_locked(hf_queue *queue);

/* What an op asks the server for. */
hf_ask hf_op_ask(const hf_op *op);
/* Does its owner wait here with another op? */
bool hf_op_has_twin_locked(const hf_op *op);

/* The queue asks by then: each of its ops may know best when the lock is free. */
void hf_queue_ask_by_locked(hf_queue *queue, int64_t due);
/* The client's places in that queue, or in all, may be gone: all that wait ask again. */
void hf_queue_recheck_locked(hf_client *client, const hf_names *names);
void hf_queue_recheck_all_locked(hf_client *client);

/* A hold was waited for, or was not, and began then. */
void hf_waiting_handed_on_locked(const hf_client *client, const hf_names *names, int64_t began_at);
/* Is the lock contended, as far as this client knows? */
bool hf_waiting_expected_locked(const hf_client *client, const hf_names *names);
/* How an acquire asks: by the cheapest request that may do, and by the general one if that did
 * nothing. */
typedef enum {
    HF_BY_TAKE,   /* the lock is free and has no waiter, as far as is known */
    HF_BY_SHARE,  /* the same for a shared one; others may share the lock */
    HF_BY_WAIT,   /* others wait for it, too */
    HF_BY_ACQUIRE /* that always does */
} hf_way;
/* How a hold asks for its lock, that being known. */
hf_way hf_waiting_way_locked(const hf_hold *hold, const hf_ask *ask);
/* With the floor of the client's table. By HF_BY_ACQUIRE it may be for several of the lock. */
void hf_way_request(hf_request *request, hf_way way, const hf_hold *hold, const hf_ask *asks,
                    size_t count);
/* more: it must learn more than that the lock is held, because it waits, or a copy of its request
 * may have been granted the lock. HF_ANSWER_ASK, HF_ANSWER_LIMIT: HF_BY_ACQUIRE is
 * next, and soon for other acquires, too. */
hf_answer_kind hf_way_reply(hf_way way, const hf_hold *hold, bool more, const redisReply *reply,
                            hf_look *look, hf_standing *mine);

#endif

/*
 * A thread that waits, and the role of the reader: one of the threads that wait on a link
 * reads its subscription, for all of them, while it sleeps; if there is no such thread,
 * the client's own thread does. All of this needs the client's mutex, which is free during a sleep.
 */
#ifndef HF_READING_H
#define HF_READING_H

#include "lock/op.h"

/* Wake a waiting thread, except the calling thread itself. */
void hf_op_notify_locked(hf_op *op);
/* If its thread is the reader, it leaves that to another one, or to the client's. */
void hf_op_hand_over_locked(hf_op *op);
/* Until when a thread waits: until it can ask for a place, until it has none any more, or until its
 * time is up; or, without a limit, until the op is done. */
typedef enum { HF_UNTIL_CHANNEL, HF_UNTIL_NO_PLACE, HF_UNTIL_TIMEOUT, HF_UNTIL_DONE } hf_wait;
/* A thread waits for its op, reading the subscription itself if no other thread does: until its
 * op is done, its brake is pulled, or `wait` ends it. */
hf_status hf_op_wait_locked(hf_op *op, hf_wait wait, bool interruptible);

/* Sleep until its bell rings, a brake is pulled or a signal arrives, without the mutex; or for a
 * while. HF_EINTR. *listens: the language looks for signals, and is to go on. */
hf_status hf_op_sleep_locked(hf_op *op, bool interruptible, bool *listens);

#endif

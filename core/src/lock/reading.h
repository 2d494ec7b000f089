/*
 * A thread that waits, and the role of the reader: one of the threads that wait on a link reads its
 * subscription for all of them, while it sleeps; without such a thread the client's own thread
 * reads. All functions here need the client's mutex, which is free during a sleep.
 */
#ifndef HF_READING_H
#define HF_READING_H

#include "lock/op.h"

/* Wake a waiting thread, except the calling thread itself. */
void hf_op_notify_locked(hf_op *op);
/* Give the role of the reader, if the op's thread has it, to another thread, or to the client's. */
void hf_op_hand_over_locked(hf_op *op);
/* How long a thread waits: until it can ask for a place, until it has lost its place, until its
 * time is up; or, without a limit, until the op is done. */
typedef enum { HF_UNTIL_CHANNEL, HF_UNTIL_NO_PLACE, HF_UNTIL_TIMEOUT, HF_UNTIL_DONE } hf_wait;
/* Wait on the op's thread, which reads the subscription if no other thread does: until the op is
 * done, its brake is pulled, or `wait` ends the wait. */
hf_status hf_op_wait_locked(hf_op *op, hf_wait wait, bool interruptible);

/* Sleep, without the mutex, until the op's bell rings, a brake is pulled or a signal arrives; or
 * for a while. HF_EINTR. *listens: the language handles signals, and must be called again. */
hf_status hf_op_sleep_locked(hf_op *op, bool interruptible, bool *listens);

#endif

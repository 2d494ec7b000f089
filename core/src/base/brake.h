/* The brake of a thread: another thread pulls it, to end a request or a wait of this thread. */
#ifndef HF_BRAKE_H
#define HF_BRAKE_H

#include "base/util.h"

/* Return the calling thread's brake; NULL: it has none. */
hf_brake *hf_brake_mine(void);
/* Return a descriptor for poll(2), readable when the calling thread's brake has been pulled. -1: it
 * has no brake. */
int hf_brake_fd(void);
bool hf_brake_is_pulled(void);
/* Let a pull of the calling thread's brake, if it has one, shut this socket down from now on; -1:
 * no socket. False: it was pulled before. */
bool hf_brake_watch(int fd);

#endif

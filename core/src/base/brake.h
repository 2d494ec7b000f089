/* What another thread pulls to end a request of this one, which waits for its answer. */
#ifndef HF_BRAKE_H
#define HF_BRAKE_H

#include "base/util.h"

/* The calling thread's; NULL: none. */
hf_brake *hf_brake_mine(void);
/* From now on a pull shuts the socket down. False: it was pulled before. NULL is never pulled. */
bool hf_brake_engage(hf_brake *brake, int fd);
/* And no more, from now on. False: it was pulled, and the socket is shut. */
bool hf_brake_release(hf_brake *brake);

#endif

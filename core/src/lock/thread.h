/* The client's thread, started on first need: how it is woken, and its timers. Its loop is in
 * keeper.h. */
#ifndef HF_THREAD_H
#define HF_THREAD_H

#include "lock/client.h"

/* Start the thread, if it is not started. HF_ENOMEM: no thread can be started; HF_ECLOSED. */
hf_status hf_thread_start_locked(hf_client *client);
/* End the thread. Without the mutex. */
void hf_thread_end(hf_client *client);
void hf_thread_wake_locked(hf_client *client);
/* Set or move a timer, and start the thread that fires it. The thread is woken only if it would
 * sleep for longer. */
void hf_thread_timer_locked(hf_client *client, hf_timer *timer, int64_t due);

#endif

/* The client's thread, started on first need: when it is woken, and by which timers. */
#ifndef HF_THREAD_H
#define HF_THREAD_H

#include "lock/client.h"

/* HF_ENOMEM if there is no thread to be had. */
hf_status hf_thread_start_locked(hf_client *client);
/* End it. Without the mutex. */
void hf_thread_end(hf_client *client);
void hf_thread_wake_locked(hf_client *client);
/* Set or move a timer, with the thread that fires it. False: there is no thread. */
bool hf_thread_timer_locked(hf_client *client, hf_timer *timer, int64_t due);

#endif

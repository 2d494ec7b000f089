/* A condition on which a thread sleeps for a limited time. */
#ifndef HF_SLEEP_H
#define HF_SLEEP_H

#include <pthread.h>
#include <stdint.h>

void hf_sleep_init(pthread_cond_t *woken);
/* With the mutex held, as pthread_cond_timedwait(): for so many milliseconds, or an hour, or less.
 */
void hf_sleep(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms);

#endif

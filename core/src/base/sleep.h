/* Ways for a thread to sleep for a limited time: on a condition, and on a word. */
#ifndef HF_SLEEP_H
#define HF_SLEEP_H

#include <pthread.h>
#include <stdint.h>

void hf_sleep_init(pthread_cond_t *woken);
/* With the mutex held, as pthread_cond_timedwait(): for so many milliseconds, or an hour, or less.
 */
void hf_sleep(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms);

/*
 * Until the word is something else, so many milliseconds have passed, or for no reason. The other
 * thread changes the word and then wakes: it needs no mutex, and the word may be gone by then. So
 * the woken thread never waits for the one that woke it.
 */
void hf_sleep_while(int *word, int is, int64_t ms);
void hf_wake(int *word);

#endif

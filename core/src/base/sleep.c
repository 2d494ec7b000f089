#include "base/sleep.h"

#include <time.h>

#include "base/util.h"

#define MOST_MS 3600000

/* Deadlines are on CLOCK_BOOTTIME, on which a condition cannot wait. */
void hf_sleep_init(pthread_cond_t *woken) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(woken, &attributes);
    pthread_condattr_destroy(&attributes);
}

void hf_sleep(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms) {
    struct timespec until;
    if (ms > MOST_MS)
        ms = MOST_MS;
#ifdef __APPLE__ /* where a condition knows only the wall clock, or a duration */
    until.tv_sec = ms / 1000;
    until.tv_nsec = ms % 1000 * HF_MS;
    pthread_cond_timedwait_relative_np(woken, mutex, &until);
#else
    clock_gettime(CLOCK_MONOTONIC, &until);
    ms += until.tv_nsec / HF_MS;
    until.tv_sec += ms / 1000;
    until.tv_nsec = ms % 1000 * HF_MS;
    pthread_cond_timedwait(woken, mutex, &until);
#endif
}

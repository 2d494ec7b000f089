/* A heap of timers. Each timer lives in the struct that it serves. */
#ifndef HF_TIMER_H
#define HF_TIMER_H

#include "base/util.h"

typedef struct hf_timer {
    int64_t due;
    int64_t slack; /* while it is the first in the heap, it may fire this much earlier */
    size_t place;  /* in the heap, from 1; 0: not set */
    void (*fire)(struct hf_timer *timer, int64_t now);
} hf_timer;

typedef struct hf_timers {
    hf_timer **heap;
    size_t count, capacity;
    size_t reserved; /* how many timers may be set together */
} hf_timers;

/* Reserve a timer's place before anything depends on it, so that setting it cannot fail. False: no
 * memory. Give the place back when the timer goes: that alone needs no lock. */
bool hf_timer_reserve(hf_timers *timers);
void hf_timer_unreserve(hf_timers *timers);

/* Set or move a timer. */
void hf_timer_set(hf_timers *timers, hf_timer *timer, int64_t due);
void hf_timer_clear(hf_timers *timers, hf_timer *timer);
/* Return when the first timer is due; HF_NO_DEADLINE: no timer is set. */
int64_t hf_timers_due(const hf_timers *timers);
/* Fire the first timer in the heap, and the next, as long as the first is due or within its
 * slack. */
void hf_timers_fire(hf_timers *timers, int64_t now);

#endif

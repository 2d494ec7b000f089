/* What is due when: a heap of timers that live inside what they are for. */
#ifndef HF_TIMER_H
#define HF_TIMER_H

#include "base/util.h"

typedef struct hf_timer {
    int64_t due;
    int64_t slack; /* it may be fired so much earlier, when others are */
    size_t place;  /* in the heap, from 1; 0: not set */
    void (*fire)(struct hf_timer *timer, int64_t now);
} hf_timer;

typedef struct hf_timers {
    hf_timer **heap;
    size_t count, capacity;
    size_t reserved; /* timers that may be set at once */
} hf_timers;

/* Every timer has its place reserved before anything depends on it, and given
 * back (from any thread) with what it is for: so that setting it cannot fail. */
bool hf_timer_reserve(hf_timers *timers);
void hf_timer_unreserve(hf_timers *timers);

/* Set or move. */
void hf_timer_set(hf_timers *timers, hf_timer *timer, int64_t due);
void hf_timer_clear(hf_timers *timers, hf_timer *timer);
/* When the first is due; HF_NO_DEADLINE: none is set. */
int64_t hf_timers_due(const hf_timers *timers);
/* Fire all that are due, and behind them those whose slack allows it. */
void hf_timers_fire(hf_timers *timers, int64_t now);

#endif

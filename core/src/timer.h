/* What is due when: a heap of timers that live inside what they are for. */
#ifndef HF_TIMER_H
#define HF_TIMER_H

#include "util.h"

struct hf_client;

typedef struct hf_timer {
    int64_t due;
    size_t place; /* in the heap, from 1; 0: not set */
    void (*fire)(struct hf_client *client, struct hf_timer *timer, int64_t now);
} hf_timer;

typedef struct hf_timers {
    hf_timer **heap;
    size_t count, capacity;
} hf_timers;

/* Set or move. False: no memory, and it is not set. */
bool hf_timer_set(hf_timers *timers, hf_timer *timer, int64_t due);
void hf_timer_clear(hf_timers *timers, hf_timer *timer);
/* The one due first, or NULL. */
hf_timer *hf_timer_first(const hf_timers *timers);

#endif

#include "base/timer.h"

#include <stdlib.h>

/* A binary heap. Source: Williams, "Algorithm 232: Heapsort", 1964. */

static void put(hf_timers *timers, size_t place, hf_timer *timer) {
    timers->heap[place - 1] = timer;
    timer->place = place;
}

static void sift(hf_timers *timers, size_t place, hf_timer *timer) {
    while (place > 1 && timer->due < timers->heap[place / 2 - 1]->due) {
        put(timers, place, timers->heap[place / 2 - 1]);
        place /= 2;
    }
    for (;;) {
        size_t child = 2 * place;
        if (child > timers->count)
            break;
        if (child < timers->count && timers->heap[child]->due < timers->heap[child - 1]->due)
            child++;
        if (timer->due <= timers->heap[child - 1]->due)
            break;
        put(timers, place, timers->heap[child - 1]);
        place = child;
    }
    put(timers, place, timer);
}

bool hf_timer_reserve(hf_timers *timers) {
    size_t reserved = __atomic_add_fetch(&timers->reserved, 1, __ATOMIC_RELAXED);
    if (reserved <= timers->capacity)
        return true;
    size_t capacity = timers->capacity > 0 ? 2 * timers->capacity : 64;
    hf_timer **heap = realloc(timers->heap, capacity * sizeof *heap);
    if (heap == NULL) {
        hf_timer_unreserve(timers);
        return false;
    }
    timers->heap = heap;
    timers->capacity = capacity;
    return true;
}

void hf_timer_unreserve(hf_timers *timers) {
    __atomic_sub_fetch(&timers->reserved, 1, __ATOMIC_RELAXED);
}

void hf_timer_set(hf_timers *timers, hf_timer *timer, int64_t due) {
    if (timer->place == 0)
        timer->place = ++timers->count;
    timer->due = due;
    sift(timers, timer->place, timer);
}

void hf_timer_clear(hf_timers *timers, hf_timer *timer) {
    if (timer->place == 0)
        return;
    hf_timer *last = timers->heap[--timers->count];
    if (last != timer)
        sift(timers, timer->place, last);
    timer->place = 0;
}

int64_t hf_timers_due(const hf_timers *timers) {
    return timers->count > 0 ? timers->heap[0]->due : HF_NO_DEADLINE;
}

void hf_timers_fire(hf_timers *timers, int64_t now) {
    while (timers->count > 0 && timers->heap[0]->due - timers->heap[0]->slack <= now) {
        hf_timer *timer = timers->heap[0];
        hf_timer_clear(timers, timer);
        timer->fire(timer, now);
    }
}

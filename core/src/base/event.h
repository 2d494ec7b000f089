/* What wakes a thread that sleeps in poll(2): an event that another thread sets, and a time.
 * Linux has descriptors for both. The portable build makes pipes of events, and leaves the time
 * to poll(2) itself, which may not count the time that the machine sleeps. */
#ifndef HF_EVENT_H
#define HF_EVENT_H

#include <poll.h>

#include "base/util.h"

typedef struct {
    int fd; /* readable while the event is set; -1: none */
    int to; /* to set it; may be the same */
} hf_event;

#define HF_NO_EVENT ((hf_event){-1, -1})

/* HF_NO_EVENT with errno: no descriptor is left. */
hf_event hf_event_new(void);
void hf_event_free(hf_event event);

/* Take the members, so that the one who sets it needs no more than `to`. Both leave errno alone. */
void hf_event_set(int to);
void hf_event_clear(int fd);

/* A descriptor for hf_poll(), which each sleep needs in fds. False with errno: none is left.
 * The portable build has no use for one, and answers -1. */
bool hf_clock_open(int *clock);
/* poll(2) until a time of hf_now(); HF_NO_DEADLINE: without a limit. */
void hf_poll(struct pollfd *fds, size_t count, int clock, int64_t until);

#endif

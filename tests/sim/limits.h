/* Rules of the judge for the limits that are stored with locks: it knows each limit at each
 * instant. */
#ifndef SIM_LIMITS_H
#define SIM_LIMITS_H

#include "holdfast/holdfast.h"
#include "kernel.h"
#include "redis.h"

void limits_begin(void);
/* Check a command that a server has carried out: a limit changes as the command asks for, and a
 * caller that gets the lock fits beside all others. */
void limits_look(int server, const sim_bytes *words, size_t count);
/* Return whether the limit has changed a moment ago. A waiter that asked by another number leaves
 * the queue until it asks again, and keeps its turn. */
bool limits_changed(const char *key);
/* Note that a call that began at `began` has stored this limit in the place of `was`. */
void limits_stored(const char *key, int64_t permits, int64_t per_ms, const int64_t was[2],
                   int64_t began);
/* Check an acquire that began at `began` with these options: it was granted, or ended with
 * HF_ELIMIT. */
void limits_granted(const char *key, const hf_lock_options *said, int64_t began);
void limits_refused(const char *key, const hf_lock_options *said, const char *message,
                    int64_t began);

#endif

/* Rules of the judge for the limits that are stored with locks, which it knows at each instant. */
#ifndef SIM_LIMITS_H
#define SIM_LIMITS_H

#include "holdfast/holdfast.h"
#include "kernel.h"
#include "redis.h"

void limits_begin(void);
/* A server has carried out a command: a limit changes as the command asks for, and a caller that
 * gets the lock fits beside all others. */
void limits_look(int server, const sim_bytes *words, size_t count);
/* Has the limit changed a moment ago? Whoever waited by another number is out of the queue until it
 * asks again, and keeps its turn. */
bool limits_changed(const char *key);
/* A call that began then has stored that limit in the place of what was there before. */
void limits_stored(const char *key, int64_t permits, int64_t per_ms, const int64_t was[2],
                   int64_t began);
/* An acquire that began then and had these options has a hold; or ended as HF_ELIMIT. */
void limits_granted(const char *key, const hf_lock_options *said, int64_t began);
void limits_refused(const char *key, const hf_lock_options *said, const char *message,
                    int64_t began);

#endif

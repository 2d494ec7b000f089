/* Rules of the judge for all who hold, wait for or ask for one lock. */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include "kernel.h"

void rules_begin(void);
/* Note that faults have ended. killed: holders died, and what they left on the server ends by
 * itself, later by as much as clocks were set back. */
void rules_kind(bool killed, int64_t back);
/* Note that data of that lock (NULL: of any lock) may be lost, from now on for ns, and that the
 * servers' clocks have stepped. */
void rules_lose(const char *key, int64_t ns);
void rules_step(bool back);
/* Note that within ns a master may come back with holds that had ended: they end with their leases.
 */
void rules_return(int64_t ns);
/* Return whether data of the lock may have been lost since that time. */
bool rules_lost_since(const char *key, int64_t at);

/* Note a hold of the running process, from a call that began at `began`. permits: of all holds that
 * share the lock. */
void rules_hold(const char *key, int64_t fence, bool shared, int64_t permits, int64_t began);
/* Check a hold that asked for that many replicas: each has a last fence that is not below the
 * hold's; every grant writes the last fence, and no release removes it. */
void rules_replicated(const char *key, int64_t fence, int32_t replicas, int64_t began);
/* Note that a replica loses its data, and copies its master's again. */
void rules_empty_replica(void);
/* Return the ballot to which the fence belongs: the given one, or that of the hold in which it
 * nests. */
int64_t rules_ballot(const char *key, int64_t fence, int64_t ballot);
/* Note that a holder leaves a hold on the server on purpose. */
void rules_leave(const char *key, int64_t fence);
/* Note that a closed client may have left a hold on the server: during faults, or without an end.
 */
void rules_strand(const char *key, int64_t fence);
/* Note that a client has adopted a hold that was left. */
void rules_adopt(const char *key, int64_t fence);
/* Note that a client is closed, and leaves its holds on the server. */
void rules_abandon(void);
/* Note that a client that asked for the lock was closed: the server may keep what was granted,
 * during faults, or without an end. */
void rules_desert(const char *key);
/* Note that the users lack a permission for ns; return whether they lack one now. */
void rules_forbid(int64_t ns);
bool rules_forbidden(void);
/* Return whether the lock has a hold without an end that was left: only an operator ends it. */
bool rules_left_for_ever(const char *key);
/* Change the number of acquires of several locks under way, which may have some of the locks
 * without reporting it. */
void rules_several(const char *key, int change);

/* Change the number of acquires under way for the lock. */
void rules_asked(const char *key, int change);

/* Return the lock's last fence, or 0, if the lock is free and, for an acquire that may wait,
 * without a waiter; else -1. rules_busy() takes that result back, when an acquire that began at
 * `began` reports that others hold the lock. */
int64_t rules_free(const char *key, int64_t timeout_ms);
void rules_busy(const char *key, int64_t free, int64_t began);
/* Note that another library takes the lock, if it is free. */
void rules_take(const char *key);
/* Check a hold that was released, or that is reported gone, by a call that began at `began`. */
void rules_ended(const char *key, int64_t fence, int64_t began, const char *how);

/* Calls for a result: a hold is about to leave its result; it has left one, on a server that still
 * had the hold, for ttl_ms; a caller was answered with a result; a caller got the hold, to do the
 * work. The calls of the last two began at `began`. */
void rules_finishes(const char *key, int64_t fence, int64_t ttl_ms);
void rules_finished(const char *key, int64_t fence, int64_t ttl_ms);
void rules_result(const char *key, const void *result, size_t length, int64_t began);
void rules_once(const char *key, int64_t fence, int64_t began);
/* Calls that are made at most once: a call is made; its caller allows another call, or an operator
 * forgets it; a result is kept, by a request sent at `sent`. */
void rules_calls(const char *key, int64_t fence, int64_t sent);
void rules_says(const char *key, int64_t fence);
/* An operator settles the call otherwise; the caller's result is refused. */
void rules_settles(const char *key, int64_t fence);
void rules_refused(const char *key, int64_t fence);
void rules_keeps(const char *key, const char *text, int64_t sent, int64_t ttl_ms);

#endif

/* Rules of the judge for all that hold, wait for or want one lock together. */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include "kernel.h"

void rules_begin(void);
/* Faults have ended. killed: holders died, and what they left on the server ends by itself; later
 * by as much as clocks were set back. */
void rules_kind(bool killed, int64_t back);
/* Data of that lock (NULL: of any) may be gone, from now on for that time; and the servers' clocks
 * have stepped. */
void rules_lose(const char *key, int64_t ns);
void rules_step(bool back);
/* A master may come back with what had ended, within that time: it ends with its lease. */
void rules_return(int64_t ns);
/* May data of it have gone since that time? */
bool rules_lost_since(const char *key, int64_t at);

/* A hold of the process that runs, by a call that began then. permits: of all that share it. */
void rules_hold(const char *key, int64_t fence, bool shared, int64_t permits, int64_t began);
/* It asked for that many replicas: each has a last fence that is not below the hold's, which every
 * grant writes, and which no release takes away. */
void rules_replicated(const char *key, int64_t fence, int32_t replicas, int64_t began);
/* A replica loses its data, and gets its master's again. */
void rules_empty_replica(void);
/* Whose fence is that? The ballot's, or that of the hold in which it nests. */
int64_t rules_ballot(const char *key, int64_t fence, int64_t ballot);
/* A holder leaves it on the server, on purpose. */
void rules_leave(const char *key, int64_t fence);
/* The same if it has no end. */
void rules_leave_endless(const char *key, int64_t fence);
/* A client has what was left again. */
void rules_adopt(const char *key, int64_t fence);
/* The users lack a permission for that time. Do they? */
/* A client is closed, and leaves what it holds. */
void rules_abandon(void);
/* A client that was closed asked for it: without an end the server may keep it. */
void rules_desert(const char *key);
void rules_forbid(int64_t ns);
bool rules_forbidden(void);
/* Has the lock such a hold, and no end? Then only an operator ends it. */
bool rules_left_for_ever(const char *key);
/* An acquire of several has perhaps some of them that it does not tell of; and no more. */
void rules_several(const char *key, int change);

/* An acquire asks for it; and asks no more. */
void rules_asked(const char *key, int change);

/* Is the lock free, and, for an acquire that may wait, without a waiter? Then the last fence, or 0;
 * else -1. An acquire that began then, when that was told, is told that others hold it. */
int64_t rules_free(const char *key, int64_t timeout_ms);
void rules_busy(const char *key, int64_t free, int64_t began);
/* Another library takes it, if it is free. */
void rules_take(const char *key);
/* A hold was released, or is told gone, by a call that began then. */
void rules_ended(const char *key, int64_t fence, int64_t began, const char *how);

/* Once: a hold's result is being left; it was left by a hold that the server still had, and stays
 * for that time; it was answered; and its caller is to do it. The call of the last two began then.
 */
void rules_finishes(const char *key, int64_t fence, int64_t ttl_ms);
void rules_finished(const char *key, int64_t fence, int64_t ttl_ms);
void rules_result(const char *key, const void *result, size_t length, int64_t began);
void rules_once(const char *key, int64_t fence, int64_t began);
/* At most once: a call is made; it may be made again, says a caller, or is forgotten; and a result
 * is kept, which was sent then. */
void rules_calls(const char *key, int64_t fence, int64_t sent);
void rules_says(const char *key, int64_t fence);
/* An operator settles it otherwise; and its caller's result is refused. */
void rules_settles(const char *key, int64_t fence);
void rules_refused(const char *key, int64_t fence);
void rules_keeps(const char *key, const char *text, int64_t sent, int64_t ttl_ms);

#endif

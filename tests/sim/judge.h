/*
 * The judge: knows what each client reports about its holds, and what the servers store, at each
 * instant of the world's time. docs/guarantees.md states what must be true.
 */
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include "holdfast/holdfast.h"
#include "kernel.h"

/* A hold, as its client sees it. */
typedef struct belief belief;

void judge_begin(void);
void judge_end(void);

/* Note a hold of the lock `key`, from a call that began at `began`; ballot: with independent
 * masters. judge_promise() notes what is certain of it: the holder asked at `asked`, and counts on
 * the hold from then on for remaining_ms (-1: for ever). */
belief *judge_holds(const char *key, int64_t fence, bool shared, const hf_lock_options *options,
                    int64_t began, int64_t ballot);
void judge_promise(belief *hold, int64_t asked, int64_t remaining_ms, int64_t began);
/* Return whether a client has a hold with that fence. */
bool judge_knows(const char *key, int64_t fence);
/* Note that the holder gives up what was certain: it shortens or ends the hold. */
void judge_forget(belief *hold);
/* Note that the hold's lease is replaced: among joined holds the shortest lease counts for all. */
void judge_shorten(belief *hold);
/* Return the number of a new group of holds: when one hold of a group is lost or excused, so are
 * the others. */
int64_t judge_group(void);
void judge_join(belief *hold, int64_t group);
/* Return whether nothing excuses the loss of the hold. */
bool judge_intact(const belief *hold);
/* Note the loss of a hold that is renewed; in a kind world that is wrong. */
void judge_lost(const belief *hold);
/* Give the hold its number, by which the client reports its loss. judge_told_lost() takes such a
 * report; from then on nothing counts on the hold. gone: lost because the server does not have it.
 */
void judge_number(belief *hold, int64_t number);
void judge_told_lost(int64_t number, bool gone);
/* Forget the hold, which has ended. */
void judge_over(belief *hold);
/* Note that the holder leaves the hold to the server for ms, by a call that began at `began`: until
 * that time ends the judge looks after it. */
void judge_keeps(belief *hold, int64_t began, int64_t ms);
/* Note that the process's holds are no longer certain: its client is closed, or it is dead. */
void judge_leave(const sim_process *process);
/* Return whether judge_leave() was called for the running process. */
bool judge_has_left(void);
/* Return whether the effects of the last fault had ended then. */
bool judge_settled(int64_t at);
/* Note the state before (judge_jumps()) and after (judge_jumped()) an event that takes votes of
 * that lock (NULL: of any lock) away on some independent masters. A hold survives while a majority
 * of its votes stands. */
void judge_jumps(const char *key);
void judge_jumped(const char *key);
/* Note that this master's clock is about to step: votes that it has given may end early. */
void judge_steps(int master);
/* Excuse all that is certain now of that lock (NULL: of any lock): data are lost, in a way that
 * docs/guarantees.md excepts. */
void judge_excuse(const char *key);
void judge_excuse_for(int64_t ns); /* any lock, from now on for ns */

/* A call of the running thread. It must return within within_ms, not counting the time for which
 * its process stood still. */
typedef struct call {
    const char *name;
    int64_t since, stood;
} call;
call judge_call(const char *name);
void judge_answered(const call *call, int64_t within_ms);
/* Check a call that reports that no server was reached: healthy servers answer, except in a
 * quarantine of several masters. */
void judge_reached(const call *call, hf_status status);
/* Check a call that reports a timeout: its time must be up. */
void judge_timed_out(const call *call, int64_t timeout_ms);

/* Note that an acquire begins to wait for that lock, and that it has stopped waiting. */
void judge_waits(const char *key, const call *call);
void judge_waits_no_more(const char *key, const call *call, bool granted);

/* Note that faults have ended: from now on the world is kind, and waiters must be served. back: how
 * far clocks were set back in all. killed: processes were killed, and what they left on the servers
 * ends by itself. */
void judge_kind(bool killed, int64_t back);
/* Check, after all programs have ended, that nothing is left on the servers. */
void judge_quiet(void);

/* Counted over all seeds. */
extern uint64_t judge_acquired, judge_checked;

#endif

/*
 * The judge: knows what each client says of its holds, and what the server has, at each
 * instant of the world's time. docs/guarantees.md says what must be true.
 */
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include "holdfast/holdfast.h"
#include "kernel.h"

/* A hold, as its client sees it. */
typedef struct belief belief;

void judge_begin(void);
void judge_end(void);

/* A hold of the lock `key`, by a call that began then; ballot: of independent masters. What is
 * certain of it: from the time at which the holder asked on it counts on it for that many ms (-1:
 * for ever). */
belief *judge_holds(const char *key, int64_t fence, bool shared, const hf_lock_options *options,
                    int64_t began, int64_t ballot);
void judge_promise(belief *hold, int64_t asked, int64_t remaining_ms, int64_t began);
/* Is there a hold with that fence? */
bool judge_knows(const char *key, int64_t fence);
/* The holder gives up what was certain: it shortens it, or ends it. */
void judge_forget(belief *hold);
/* Its lease is replaced: of those that are joined with it the least counts for all. */
void judge_shorten(belief *hold);
/* The number of a new group of holds; a hold of it is lost with the others, and excused with them.
 */
int64_t judge_group(void);
void judge_join(belief *hold, int64_t group);
/* Does nothing excuse its loss? */
bool judge_intact(const belief *hold);
/* It was lost although it is renewed, which happens in no kind world. */
void judge_lost(const belief *hold);
/* The client tells of the loss of the hold with that number, on which nothing counts any more;
 * gone: because the server does not have it. */
void judge_number(belief *hold, int64_t number);
void judge_told_lost(int64_t number, bool gone);
/* And it is over. */
void judge_over(belief *hold);
/* Its holder leaves it to the server for that time, by a call that began then: until its end the
 * judge looks after it. */
void judge_keeps(belief *hold, int64_t began, int64_t ms);
/* Nothing is certain of the process's holds: its client is closed, or it is dead. */
void judge_leave(const sim_process *process);
/* Was that said of the process that runs? */
bool judge_has_left(void);
/* Of independent masters: before and after something that takes votes of that lock (NULL: of any)
 * away on some of them. A hold bears it while a majority of its votes stands. */
void judge_jumps(const char *key);
void judge_jumped(const char *key);
/* That master's clock is about to step: votes that it has given may end early. */
void judge_steps(int master);
/* Nothing is certain of that lock (NULL: of any) that was certain now: data are gone, by
 * something that docs/guarantees.md excepts. */
void judge_excuse(const char *key);
void judge_excuse_for(int64_t ns); /* of any, from now on for that time */

/* A call of the running thread: from begin to end it may take that many ms, beside the time for
 * which its process stood still. */
typedef struct call {
    const char *name;
    int64_t since, stood;
} call;
call judge_call(const char *name);
void judge_answered(const call *call, int64_t within_ms);
/* It is told so: servers that are well answer, but for a quarantine of several masters. */
void judge_reached(const call *call, hf_status status);
/* It was told that its time is up. */
void judge_timed_out(const call *call, int64_t timeout_ms);

/* An acquire waits for that lock; and waits no more. */
void judge_waits(const char *key, const call *call);
void judge_waits_no_more(const char *key, const call *call, bool granted);

/* Faults have ended: from now on the world is kind, and waiters must be served. back: how far
 * clocks were set back, in all. killed: processes were, and have left on the servers what ends by
 * itself. */
void judge_kind(bool killed, int64_t back);
/* All programs have ended: nothing may be left on the server. */
void judge_quiet(void);

/* Of all seeds. */
extern uint64_t judge_acquired, judge_checked;

#endif

/*
 * A call that is paid for: it is made at most once, and its result is not thrown away. The model
 * has the record R of one key; its callers, which ask, get the turn, mark that the call begins,
 * make it, and report how it ended; and two operators, which look at the record and settle it.
 *
 * A request is a copy under way: the server may carry it out at any time, even after its sender
 * has died or given up, and may do so twice. The hold of a caller that is dead or done may end at
 * any time, and the hold of another caller may do so PAUSES times; so no clock is trusted. Queue
 * and messages are in once.pml: here a caller asks when it would be answered.
 *
 * A run has budgets: CRASHES, PAUSES, LOST (answers), COPIES (requests sent twice), SETTLES and
 * FORCES (of the operators), EXPIRES (results that end), FAILOVERS to a replica that may be as old
 * as the start; with REPLICAS a caller waits until the replica has its mark. The caller OTHER has
 * other arguments.
 *
 * -D sets these, and at most one mutant. README.md lists the mutants.
 */
#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef PAUSES
#define PAUSES 1
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef COPIES
#define COPIES 0
#endif
#ifndef SETTLES
#define SETTLES 1
#endif
#ifndef FORCES
#define FORCES 0
#endif
#ifndef EXPIRES
#define EXPIRES 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef OTHER
#define OTHER 9
#endif
#define PRINT(c) ((c) == OTHER -> 2 : 1)
#define BIT(fence) (1 << (fence))
#define must(property, condition) assert(condition)

/* ------------------------------------------------------------- The server */

#define NONE 0
#define BEGUN 1
#define RETRY 2
#define DONE 3
typedef record { byte kind, id, fence, print, value }; /* id and value: 1 more than the caller */
record r, old;           /* the master's, and the replica's */
byte k, k_fence, old_k, old_k_fence, last;
#define SETTLER 10       /* the id of the first operator, and the value that it sets */
#define RUNS (r.kind == BEGUN && k && k_fence == r.fence)
#define HOLDS(c) (k == (c) + 1 && k_fence == fence[c])
#define ITS(c) (r.id == (c) + 1 && r.fence == fence[c])

#if defined(MUTANT_NEVER_UNKNOWN)
#define OUTCOME (r.kind == DONE)
#define TURN (r.kind != BEGUN && !OUTCOME)
#elif defined(MUTANT_UNKNOWN_IS_GRANTED)
#define OUTCOME (r.kind == DONE)
#define TURN (!OUTCOME)
#else
#define OUTCOME (r.kind == DONE || (r.kind == BEGUN && !RUNS))
#define TURN (!OUTCOME)
#endif

/* May the caller's mark be written? A copy of a mark that stands is accepted before this. */
#if defined(MUTANT_MARKED_OVER_ANOTHER)
#define MARKS(c) true
#elif defined(MUTANT_UNKNOWN_IS_GRANTED)
#define MARKS(c) (r.kind != DONE && (r.kind != RETRY || r.print == PRINT(c)))
#elif defined(MUTANT_RETRY_WITH_ANY_ARGUMENTS)
#define MARKS(c) (r.kind == NONE || r.kind == RETRY)
#else
#define MARKS(c) (r.kind == NONE || (r.kind == RETRY && r.print == PRINT(c)))
#endif
#ifdef MUTANT_MARKED_WITHOUT_A_HOLD
#define MAY_MARK(c) true
#else
#define MAY_MARK(c) HOLDS(c)
#endif

/* May a result be kept? Only if the mark is the caller's own, or if there is no mark and the hold
 * proves that no other caller has begun (a failover has lost the mark). */
#define ITS_OPEN(c) (ITS(c) && (r.kind == BEGUN || r.kind == RETRY))
#define BY_HOLD(c) (HOLDS(c) && (r.kind == NONE || r.kind == RETRY))
#if defined(MUTANT_A_RESULT_NEEDS_A_HOLD)
#define KEEPS(c) (HOLDS(c) && (ITS_OPEN(c) || r.kind == NONE))
#elif defined(MUTANT_A_RESULT_OVER_ANY)
#define KEEPS(c) (!(ITS(c) && r.kind == DONE))
#elif defined(MUTANT_A_RESULT_OUT_OF_NOTHING)
#define KEEPS(c) (ITS_OPEN(c) || r.kind == NONE)
#elif defined(MUTANT_RETRY_SHUTS_OUT)
#define KEEPS(c) ((ITS(c) && r.kind == BEGUN) || (HOLDS(c) && r.kind == NONE))
#else
#define KEEPS(c) (ITS_OPEN(c) || BY_HOLD(c))
#endif

/* ------------------------------------------------------------ The callers */

mtype = { ASKS, HAS, SENT_MARK, CONFIRMS, MAKES, SENT_RESULT, SENT_LEAVE, SENT_WITHDRAWAL, OVER, DEAD };
mtype at[CALLERS] = ASKS;
byte fence[CALLERS];
byte marks[CALLERS], results[CALLERS], leaves[CALLERS], withdrawals[CALLERS]; /* under way */
byte answer[CALLERS];
#define YES 1
#define NOT_HELD 2
#define NO 3
bool marked[CALLERS], copied[CALLERS]; /* its mark was written; the replica has it */

/* The history of the run. */
byte called, said; /* sets of fences: of calls that were made; of those that may be made again */
byte kept, kept_by; /* the value that each caller must get, and its id; 0: none */
byte print;         /* the arguments of the key; 0: none yet */
byte forgotten;     /* the highest fence that was forgotten */
bool withdrawn[CALLERS];

/* The operators. */
byte verb[2], meant[2], under_way[2], settled;
bool by_force[2];
#define AGAIN 1
#define RESOLVE 2
#define FORGET 3

byte crashes = CRASHES, pauses = PAUSES, lost = LOST, copies = COPIES, forces = FORCES,
	expires = EXPIRES, failovers = FAILOVERS;
hidden byte h;

inline set(its_kind, its_id, its_fence, its_print, its_value) {
	r.kind = its_kind; r.id = its_id; r.fence = its_fence; r.print = its_print; r.value = its_value
}

inline look() {
	must(KEPT, !kept || (r.kind == DONE && r.value == kept && r.id == kept_by));
	must(FORGOTTEN, r.kind == NONE || r.fence > forgotten)
}

/* ---------------------------------------------------------------- Scripts */

inline begin(c) {
	marks[c]--;
	if
	:: !MAY_MARK(c) -> h = NOT_HELD
	:: MAY_MARK(c) && ITS(c) && r.kind == BEGUN -> h = YES
	:: MAY_MARK(c) && !(ITS(c) && r.kind == BEGUN) && MARKS(c) ->
		must(ARGUMENTS, !print || print == PRINT(c));
		set(BEGUN, c + 1, fence[c], PRINT(c), 0);
		print = PRINT(c); marked[c] = true; h = YES
	:: else -> h = NO
	fi;
	must(WITHDRAWN, !(ITS(c) && r.kind == BEGUN && withdrawn[c]));
	answer[c] = (at[c] == SENT_MARK -> h : answer[c]);
	look()
}

inline finish(c) {
	results[c]--;
	if
	:: KEEPS(c) ->
		must(KEPT, !kept);
		set(DONE, c + 1, fence[c], PRINT(c), c + 1);
		kept = c + 1; kept_by = c + 1; print = PRINT(c); h = YES
#ifndef MUTANT_A_COPY_IS_REFUSED
	:: !KEEPS(c) && ITS(c) && r.kind == DONE ->
		must(STORED, r.value == c + 1); h = YES
	:: !KEEPS(c) && !(ITS(c) && r.kind == DONE) ->
#else
	:: !KEEPS(c) ->
#endif
		must(PAID, !ITS(c)); h = NO
	fi;
	k = (HOLDS(c) -> 0 : k);
	answer[c] = (at[c] == SENT_RESULT -> h : answer[c]);
	look()
}

/* End the hold of a caller that does not know how its call ended; the mark stays. */
inline leave(c) {
	leaves[c]--;
	k = (HOLDS(c) -> 0 : k);
#ifdef MUTANT_WHAT_RAISED_WAS_NOT_DONE
	if
	:: ITS(c) && r.kind == BEGUN -> set(NONE, 0, 0, 0, 0); print = 0
	:: else
	fi;
#endif
	look()
}

/* Withdraw the mark of a call that was not made, and will not be. */
inline withdraw(c) {
	withdrawals[c]--;
	k = (HOLDS(c) -> 0 : k);
	r.kind = (ITS(c) && r.kind == BEGUN -> RETRY : r.kind);
	withdrawn[c] = true;
	answer[c] = (at[c] == SENT_WITHDRAWAL -> YES : answer[c]);
	look()
}

inline settle(s) {
	under_way[s]--;
#ifdef MUTANT_SETTLED_WITHOUT_A_FENCE
	h = (r.kind != NONE && !RUNS);
#else
	h = (r.kind != NONE && !RUNS && r.fence == meant[s]);
#endif
	if
	:: RUNS && r.fence == meant[s] && by_force[s] ->
#ifndef MUTANT_FORCE_LEAVES_THE_HOLD
		k = 0;
#endif
		h = 1
	:: else
	fi;
	if
	:: h && verb[s] == AGAIN && r.kind == BEGUN -> r.kind = RETRY
	:: h && verb[s] == RESOLVE && (r.kind != DONE || by_force[s]) ->
#ifdef MUTANT_RESOLVED_IN_ITS_CALLERS_NAME
		kept_by = r.id;
#else
		kept_by = SETTLER + s;
#endif
		kept = SETTLER + s;
		set(DONE, kept_by, r.fence, r.print, kept)
	:: h && verb[s] == FORGET ->
		forgotten = r.fence; kept = 0; print = 0; set(NONE, 0, 0, 0, 0)
	:: else
	fi;
	look()
}

/* Carry out the requests under way of one caller. */
proctype server(byte c) {
end:
	do
	:: d_step { marks[c] -> begin(c) }
	:: d_step { results[c] -> finish(c) }
	:: d_step { leaves[c] -> leave(c) }
	:: d_step { withdrawals[c] -> withdraw(c) }
	od
}

proctype world() {
	byte c;
end:
	do
	:: d_step { under_way[0] -> settle(0) }
	:: d_step { under_way[1] -> settle(1) }
	:: d_step { k && (at[k - 1] == OVER || at[k - 1] == DEAD || pauses > 0) -> /* a lease ends */
		pauses = (at[k - 1] == OVER || at[k - 1] == DEAD -> pauses : pauses - 1);
#ifdef MUTANT_A_MARK_ENDS_WITH_ITS_HOLD
		if
		:: RUNS -> set(NONE, 0, 0, 0, 0); print = 0
		:: else
		fi;
#endif
		k = 0
	   }
	:: d_step { r.kind == DONE && expires > 0 ->
		expires--;
		said = said | BIT(r.fence) | called; kept = 0; print = 0;
		set(NONE, 0, 0, 0, 0)
	   }
#if FAILOVERS > 0
	:: d_step { failovers > 0 -> /* the replica catches up */
		old_k = k; old_k_fence = k_fence;
		old.kind = r.kind; old.id = r.id; old.fence = r.fence; old.print = r.print; old.value = r.value;
		for (c : 0 .. CALLERS - 1) { copied[c] = marked[c] }
		c = 0
	   }
	:: d_step { failovers > 0 ->
		failovers--;
#ifndef REPLICAS
		said = said | called; /* a call that the replica lacks may be made again */
		for (c : 0 .. CALLERS - 1) { said = (marked[c] -> said | BIT(fence[c]) : said) }
#endif
		k = old_k; k_fence = old_k_fence;
		set(old.kind, old.id, old.fence, old.print, old.value);
		kept = (r.kind == DONE -> r.value : 0); kept_by = (kept -> r.id : 0);
		print = r.print; forgotten = 0;
		for (c : 0 .. CALLERS - 1) { marked[c] = copied[c]; withdrawn[c] = false }
		c = 0
	   }
#endif
	/* An operator looks at the record and settles it; its request may arrive late, or twice. */
	:: atomic { settled < SETTLES && r.kind != NONE ->
		meant[settled] = r.fence; under_way[settled] = 1;
		if
		:: verb[settled] = AGAIN; said = said | BIT(r.fence)
		:: verb[settled] = RESOLVE
		:: verb[settled] = FORGET; said = said | BIT(r.fence)
		fi;
		if
		:: forces > 0 -> forces--; by_force[settled] = true
		:: true
		fi;
		if
		:: copies > 0 -> copies--; under_way[settled] = 2
		:: true
		fi;
		settled++
	   }
	od
}

/* ---------------------------------------------------------------- Callers */

#define WAITS(c) (at[c] == SENT_MARK || at[c] == SENT_RESULT || at[c] == SENT_WITHDRAWAL)

proctype caller(byte c) {
	do
	:: atomic { at[c] == ASKS && OUTCOME ->
		if
#ifdef MUTANT_ANOTHERS_RESULT
		:: r.kind == DONE -> must(ARGUMENTS, r.print == PRINT(c))
		:: else
#else
		:: r.print == PRINT(c) && r.kind == DONE -> must(KEPT, r.value == kept)
		:: else /* refused, or unknown */
#endif
		fi;
		at[c] = OVER
	   }
	:: atomic { at[c] == ASKS && !k && TURN ->
		last++; k = c + 1; k_fence = last; fence[c] = last; at[c] = HAS
	   }
	:: atomic { at[c] == HAS ->
#ifdef MUTANT_CALLED_BEFORE_ITS_MARK
		at[c] = MAKES
#else
		marks[c]++; at[c] = SENT_MARK
#endif
	   }
	:: atomic { at[c] == SENT_MARK && answer[c] == YES ->
		answer[c] = 0;
#if defined(REPLICAS) && !defined(MUTANT_CALLED_BEFORE_ITS_REPLICAS)
		at[c] = CONFIRMS
#else
		at[c] = MAKES
#endif
	   }
	:: atomic { at[c] == CONFIRMS && copied[c] -> at[c] = MAKES }
	:: atomic { at[c] == CONFIRMS && !copied[c] -> withdrawals[c]++; at[c] = SENT_WITHDRAWAL }
	:: atomic { at[c] == SENT_MARK && answer[c] == NOT_HELD -> answer[c] = 0; at[c] = OVER }
	:: atomic { at[c] == SENT_MARK && answer[c] == NO -> answer[c] = 0; leaves[c]++; at[c] = SENT_LEAVE }
	:: atomic { at[c] == SENT_MARK && !answer[c] && lost > 0 -> /* no answer in time */
		lost--;
#ifdef MUTANT_CALLED_WITHOUT_AN_ANSWER
		at[c] = MAKES
#else
		withdrawals[c]++; at[c] = SENT_WITHDRAWAL
#endif
	   }
	:: atomic { at[c] == SENT_WITHDRAWAL && answer[c] -> answer[c] = 0; at[c] = OVER }
	:: atomic { at[c] == MAKES ->
		called = called | BIT(fence[c]);
		/* All calls but one may be made again. (A paused caller may call after the permission.) */
		must(AT_MOST_ONCE, ((called & ~said) & ((called & ~said) - 1)) == 0);
		if
		:: results[c]++; at[c] = SENT_RESULT
		:: leaves[c]++; at[c] = SENT_LEAVE /* the call raised an exception */
		fi
	   }
	:: atomic { at[c] == SENT_RESULT && answer[c] -> answer[c] = 0; at[c] = OVER }
	:: atomic { at[c] == SENT_LEAVE && !leaves[c] -> at[c] = OVER }
	:: atomic { WAITS(c) && answer[c] && lost > 0 -> /* the answer is lost: once more, or not */
		lost--; answer[c] = 0;
		if
		:: at[c] == SENT_MARK -> marks[c]++
		:: at[c] == SENT_MARK -> withdrawals[c]++; at[c] = SENT_WITHDRAWAL
		:: at[c] == SENT_RESULT -> results[c]++
		:: at[c] == SENT_RESULT -> at[c] = OVER
		:: at[c] == SENT_WITHDRAWAL -> withdrawals[c]++
		fi
	   }
	:: atomic { WAITS(c) && copies > 0 ->
		copies--;
		if
		:: marks[c] -> marks[c]++
		:: results[c] -> results[c]++
		:: withdrawals[c] -> withdrawals[c]++
		:: else
		fi
	   }
	:: atomic { at[c] != ASKS && at[c] != OVER && at[c] != DEAD && crashes > 0 ->
		crashes--; answer[c] = 0; at[c] = DEAD
	   }
	:: atomic { at[c] == OVER || at[c] == DEAD -> break }
	od
}

init {
	atomic {
		run world();
		run server(0); run server(1); run caller(0); run caller(1);
#if CALLERS > 2
		run server(2); run caller(2)
#endif
	}
}

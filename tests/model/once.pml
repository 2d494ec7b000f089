/*
 * Results: an asker (mode o) gets the result while it is fresh, and otherwise the turn to
 * make it. Askers 0 and 1 belong to client 0, asker 2 to client 1; asker 3 wants the
 * plain, exclusive lock. Each script is one step; its answer arrives one step later, so
 * that a message can overtake it. Time is a count of ticks; claims are left out.
 *
 * A run has budgets of FAULTS (a lost message or answer), FAILS (a holder that fails
 * and reports it, or dies) and PAUSES (ticks that pass although a process should act).
 * PART: a release notifies only the first asker in the queue, as it does in a long queue.
 *
 * -D sets these, and at most one mutant. README.md lists the mutants.
 */
#ifndef UNTIL
#define UNTIL 5
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef FAILS
#define FAILS 1
#endif
#ifndef PAUSES
#define PAUSES 0
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef FRESH
#define FRESH 3
#endif
#define RECHECK 2
#define ASKERS 4
#define PLAIN 3
#define CLIENT(a) ((a) / 2)
#define must(property, condition) assert(condition)

/* ------------------------------------------------------------- The server */

byte k, ends;      /* 1 more than the asker that holds K, and its end */
byte last, fence;  /* the last fence, and K's fence */
byte fresh_until;  /* the end of R; 0: there is no result */
byte result_fence;
byte queue[ASKERS], queued; /* 1 more than each asker */
byte tells[2];     /* messages r under way to each client */
bool told[ASKERS]; /* a message g is under way to it */

/* ------------------------------------------------------------ The clients */

mtype = { NEW, ASKS, WAITS, HOLDS, UNSURE, OVER };
mtype state[ASKERS] = NEW;
byte answer[ASKERS];  /* its answer under way */
#define NONE 0
#define HELD 1
#define QUEUED 2
#define RESULT 5
byte mine[ASKERS];    /* its fence */
bool stored[ASKERS];  /* its result was stored in R */
byte asks_at[ASKERS], idle[ASKERS];
bool overtaken[ASKERS]; /* a message r has arrived since it asked */
byte now, faults = FAULTS, fails = FAILS, pauses = PAUSES;
bool lost;            /* a message was lost */

hidden byte i, j, at, found, r_state;

/* ---------------------------------------------------------------- Scripts */

inline read() {
	k = (k && now >= ends -> 0 : k);
	fresh_until = (now >= fresh_until -> 0 : fresh_until)
}

inline leave_queue(a) {
	at = 0;
	for (j : 1 .. queued) {
		if
		:: queue[j - 1] != a + 1 -> queue[at] = queue[j - 1]; at++
		:: else
		fi
	}
	for (j : at + 1 .. queued) { queue[j - 1] = 0 }
	queued = at;
	j = 0; at = 0
}

#define IN_QUEUE(a) (queue[0] == (a) + 1 || queue[1] == (a) + 1 || queue[2] == (a) + 1 || queue[3] == (a) + 1)

/* Grant a free K. asker: 1 more than the asker that gets the grant in its answer; or 0. */
inline grant(asker) {
	do
	:: queued == 0 || k -> break
	:: else ->
		i = queue[0] - 1;
		leave_queue(i);
		if
#ifndef MUTANT_GRANTED_THOUGH_FRESH
		:: i != PLAIN && fresh_until -> tells[CLIENT(i)] = 1
		:: !(i != PLAIN && fresh_until) ->
#else
		:: true ->
#endif
			must(ONCE, i == PLAIN || now >= fresh_until);
			last++;
			k = i + 1; fence = last; ends = now + LEASE;
			told[i] = (i + 1 != asker)
		fi
	od;
	i = 0
}

inline acquire(a) {
	read();
	if
	:: k == a + 1 -> leave_queue(a); r_state = HELD
#ifdef MUTANT_RECHECK_BLIND
	:: k != a + 1 && a != PLAIN && fresh_until && asks_at[a] == 0 ->
#else
	:: k != a + 1 && a != PLAIN && fresh_until ->
#endif
		leave_queue(a);
		r_state = RESULT
	:: else ->
		if
		:: !IN_QUEUE(a) -> queue[queued] = a + 1; queued++
		:: else
		fi;
		grant(a + 1);
		r_state = (k == a + 1 -> HELD : QUEUED)
	fi;
	answer[a] = r_state;
	mine[a] = (r_state == HELD -> fence : mine[a]);
	r_state = 0
}

inline store(its_fence) {
	must(FENCED, its_fence == last); /* no caller had the turn after it */
	fresh_until = now + FRESH; result_fence = its_fence;
	found = false;
#ifndef MUTANT_NOBODY_TOLD
	for (i : 0 .. PLAIN - 1) {
		if
#ifdef PART
		:: IN_QUEUE(i) && !found ->
#else
		:: IN_QUEUE(i) ->
#endif
			leave_queue(i);
			found = true;
#ifdef MUTANT_A_MESSAGE_EACH
			tells[CLIENT(i)] = tells[CLIENT(i)] + 1
#else
			tells[CLIENT(i)] = 1
#endif
		:: else
		fi
	}
#endif
	i = 0; found = 0
}

/* r_state: 1 if the lock was held, or else 0. */
inline release(a, with_result) {
	read();
	if
	:: k == a + 1 && fence == mine[a] ->
		if
		:: with_result -> store(mine[a]); stored[a] = true
		:: else
		fi;
		k = 0; r_state = 1
	:: else ->
#ifdef MUTANT_UNFENCED
		if
		:: with_result -> store(mine[a]); stored[a] = true
		:: else
		fi;
#endif
		r_state = 0
	fi;
	grant(0)
}

/* ---------------------------------------------------------------- Clients */

#define DUE(a) ((state[a] == WAITS && now >= asks_at[a]) || state[a] == ASKS)

proctype asker(byte a) {
end:
	do
	:: atomic { (state[a] == NEW || state[a] == ASKS || (state[a] == WAITS && now >= asks_at[a])) && answer[a] == NONE ->
		d_step { state[a] = ASKS; overtaken[a] = false; acquire(a) }
	   }
	:: atomic { state[a] == ASKS && answer[a] && faults > 0 -> /* lost: it asks again */
		faults--; answer[a] = NONE
	   }
	:: atomic { state[a] == ASKS && answer[a] == HELD ->
		answer[a] = NONE; state[a] = HOLDS; told[a] = false; asks_at[a] = 0
	   }
	:: atomic { state[a] == ASKS && answer[a] == QUEUED ->
		answer[a] = NONE; state[a] = WAITS;
#ifdef MUTANT_CROSSING_IGNORED
		asks_at[a] = now + RECHECK;
#else
		asks_at[a] = (overtaken[a] -> now : now + RECHECK);
#endif
		overtaken[a] = false
	   }
	:: atomic { state[a] == ASKS && answer[a] == RESULT -> answer[a] = NONE; state[a] = OVER; asks_at[a] = 0 }
	/* The message g. */
	:: atomic { told[a] && state[a] == WAITS ->
		told[a] = false;
		if
		:: now < ends && k == a + 1 -> state[a] = HOLDS; mine[a] = fence; asks_at[a] = 0
		:: else -> asks_at[a] = now
		fi
	   }
	:: atomic { told[a] && state[a] == OVER -> /* it has its result, but was still in the queue */
		d_step {
			told[a] = false;
#ifndef MUTANT_UNKNOWN_GRANT_KEPT
			mine[a] = (k == a + 1 -> fence : 0);
			release(a, false);
			mine[a] = 0; r_state = 0
#endif
		}
	   }
	:: atomic { told[a] && faults > 0 -> faults--; told[a] = false; lost = true }
	/* The turn: the holder makes the result, fails, or dies. */
	:: atomic { state[a] == HOLDS ->
		d_step {
			release(a, a != PLAIN);
			state[a] = OVER; mine[a] = 0; stored[a] = false; r_state = 0
		}
	   }
	:: atomic { state[a] == HOLDS && a != PLAIN && faults > 0 -> /* the answer is lost */
		faults--;
		d_step { release(a, true); state[a] = UNSURE; r_state = 0 }
	   }
	:: atomic { state[a] == UNSURE ->
		d_step {
			release(a, true);
			if
#ifndef MUTANT_RETRY_BELIEVED
			:: r_state == 0 && fresh_until && result_fence == mine[a] -> r_state = 1
			:: r_state == 0 && !(fresh_until && result_fence == mine[a]) -> r_state = 2 /* unknown */
#endif
			:: else
			fi;
			must(STORED, r_state == 2 || stored[a] == r_state);
			state[a] = OVER; mine[a] = 0; stored[a] = false; r_state = 0
		}
	   }
	:: atomic { state[a] == HOLDS && fails > 0 ->
		fails--;
		d_step { release(a, false); state[a] = OVER; mine[a] = 0; r_state = 0 }
	   }
	:: atomic { state[a] == HOLDS && fails > 0 -> fails--; state[a] = OVER; mine[a] = 0 }
	od
}

/* Receive message r: fetch the result once, for all waiting askers of the client. */
proctype reader(byte c) {
end:
	do
	:: atomic { tells[c] ->
		must(ONE, tells[c] == 1);
		d_step {
			tells[c] = 0;
			read();
			for (i : 0 .. PLAIN - 1) {
				if
				:: CLIENT(i) == c && state[i] == WAITS && fresh_until ->
					state[i] = OVER; asks_at[i] = 0
				:: CLIENT(i) == c && state[i] == WAITS && !fresh_until ->
#ifdef MUTANT_GONE_IGNORED
					skip
#else
					asks_at[i] = now /* the result is gone: it may get the turn */
#endif
				:: CLIENT(i) == c && state[i] == ASKS && answer[i] -> overtaken[i] = true
				:: else
				fi
			}
			i = 0
		}
	   }
	:: atomic { tells[c] && faults > 0 -> faults--; tells[c] = 0; lost = true }
	od
}

/* ------------------------------------------------------- Everything else */

#define LATE(a) (DUE(a) || answer[a] || told[a] || state[a] == UNSURE)
#define SOMEBODY_LATE (LATE(0) || LATE(1) || LATE(2) || LATE(3) || tells[0] || tells[1])

active proctype time() {
end:
	do
	:: atomic { now < UNTIL && (pauses > 0 || !SOMEBODY_LATE) ->
		d_step {
			pauses = (SOMEBODY_LATE -> pauses - 1 : pauses);
			for (j : 0 .. ASKERS - 1) {
				if
				:: state[j] == WAITS && !lost ->
					/* It is queued, or holds the lock, or a message is under way to it. */
					must(TOLD, IN_QUEUE(j) || told[j] || k == j + 1 || now >= asks_at[j]
						|| (j != PLAIN && tells[CLIENT(j)]));
#ifndef PART
					must(TOLD, j == PLAIN || now >= fresh_until || tells[CLIENT(j)] || now >= asks_at[j])
#endif
				:: else
				fi
			}
			now++;
			for (j : 0 .. ASKERS - 1) {
				if
				:: state[j] == WAITS && (k == 0 || now > ends || (j != PLAIN && fresh_until > now)) ->
					idle[j]++;
					must(PROGRESS, idle[j] <= RECHECK + 1 + PAUSES)
				:: else -> idle[j] = 0
				fi
			}
			must(ORPHAN, k == 0 || now >= ends || state[k - 1] != OVER || lost || fails < FAILS);
			j = 0
		}
	   }
	od
}

init {
	atomic {
		run asker(0); run asker(1); run asker(2); run asker(3);
		run reader(0); run reader(1)
	}
}

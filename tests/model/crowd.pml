/*
 * A crowd: several waiters of client 1 and some of client 2 wait for one lock. The model has
 * pushed grants, their claims and marks, ghosts, and the re-check: when its timer is due, a
 * client asks for its oldest waiter only, or for all of them if it may have lost places in
 * the queue. Each script is one step. Time is a count of ticks; clients act in time, unless
 * one is stopped.
 *
 * A run has at most one of these faults, at any time. HANDOVER: a hold passes to another
 * process, which may die. LEAVE: a hold ends by `leave`, and its mark stays. VANISH: the
 * queue is deleted. STOPPED: client 1 stops. PAUSED: client 1 stops, and goes on later.
 * UNANSWERED: the first request of waiter 1 was carried out, and its answer was lost. In
 * addition, LOSSES answers of re-checks and DEAF messages are lost, REFUSALS claims are
 * refused, and CANCELS waiters of client 2 give up.
 *
 * -D sets these, the sizes, and at most one mutant. README.md lists the mutants.
 */
#ifndef N
#define N 3 /* waiters of client 1 */
#endif
#ifndef M
#define M 1 /* waiters of client 2, which arrived later */
#endif
#ifndef UNTIL
#define UNTIL 7
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef DEAF
#define DEAF 1
#endif
#ifndef OUT
#define OUT 3 /* a waiter is out of the queue for fewer ticks */
#endif
#ifndef REFUSALS
#define REFUSALS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#define CLAIM 2   /* the lease of a pushed grant until it is claimed */
#define RECHECK 2 /* after this time a client asks again */
#define FULL 200  /* the end of a claimed hold */
#define P (N + M)
#define OF(i) ((i) <= N -> 1 : 2)
#define must(property, condition) assert(condition)

/* ------------------------------------------------------------- The server */

byte k = P + 1, ends = 1; /* the waiter that holds K, and its end; at first an outsider */
byte mark;                /* in F: the client whose grant is not claimed yet */
bool in_queue[P + 2];
byte score[P + 2];
bool told[P + 2];         /* a message under way */
byte granted_at[P + 2];

/* ------------------------------------------------------------ The clients */

mtype = { WAITS, HOLDS, GONE };
mtype state[P + 2] = WAITS;
bool pushed[P + 2];   /* it holds, and must still claim */
bool scored[P + 2];   /* its client knows its score */
bool ask_all[3];
byte asks_at[3];
byte adopted;         /* the hold that was handed over to another process */
bool stopped;

byte now, fault = 1, losses = LOSSES, deaf = DEAF, refusals = REFUSALS, cancels = CANCELS;
byte free_for, out_for[P + 2], held_up, places = P + 1;

hidden byte g, v, first, out;
bool asked[P + 2];

#define AWAKE(c) ((c) == 2 || !stopped)
#define W(i) (state[i] == WAITS)

/* ---------------------------------------------------------------- Scripts */

/* Remove K if it has ended. If that was an unclaimed grant, its client is a ghost, and its
 * waiters leave the queue, unless that client is the asker. */
inline read(asker) {
	if
	:: k && now >= ends -> k = 0
	:: else
	fi;
	if
	:: k == 0 && mark ->
#ifndef MUTANT_NO_MARK
		if
		:: mark != asker ->
			must(GHOST, !adopted); /* that hold had been claimed */
			for (v : 1 .. P) { in_queue[v] = in_queue[v] && OF(v) != mark }
		:: else
		fi;
#endif
		mark = 0
	:: else
	fi;
	v = 0
}

/* Grant a free K to the first in the queue. asker: the client that learns of it by its
 * answer, not by a message. */
inline grant(asker) {
	if
	:: k == 0 ->
		g = 0;
		for (v : 1 .. P) {
			if
			:: in_queue[v] && (g == 0 || score[v] < score[g]) -> g = v
			:: else
			fi
		}
		if
		:: g ->
			for (v : 1 .. P) { must(EXCLUSION, state[v] != HOLDS || pushed[v]) }
			in_queue[g] = false; k = g; granted_at[g] = now; free_for = 0; adopted = 0;
			if
			:: asker == OF(g) && asked[g] -> ends = FULL; mark = 0
			:: else -> ends = now + CLAIM; mark = OF(g); told[g] = true
			fi
		:: else
		fi
	:: else
	fi;
	g = 0; v = 0
}

inline release(i) {
	read(0);
	if
	:: k == i -> k = 0; mark = 0
	:: else
	fi;
	grant(0)
}

inline cancel(i) {
	in_queue[i] = false;
#ifdef MUTANT_CANCEL_SEES_NO_GHOST
	if
	:: k && now >= ends -> k = 0
	:: else
	fi;
#else
	read(0);
#endif
	grant(0)
}

/* Ask once for several waiters of a client. lossy: the answer is lost. */
inline recheck(c, lossy) {
	first = 0;
	for (v : 1 .. P) {
		if
		:: OF(v) == c && W(v) && (ask_all[c] || first == 0) ->
			asked[v] = true;
			first = (first == 0 -> v : first)
		:: else
		fi
	}
	ask_all[c] = false;
	read(c);
	out = false;
	for (v : 1 .. P) {
		if
		:: asked[v] && k != v && !in_queue[v] ->
			in_queue[v] = true;
			out = out || scored[v];
			score[v] = (scored[v] -> score[v] : places + 1);
			places = (scored[v] -> places : places + 1)
		:: else
		fi
	}
	grant(c);
	asks_at[c] = now + RECHECK;
	if
	:: !lossy ->
		for (v : 1 .. P) {
			if
			:: asked[v] && k == v -> /* perhaps by a grant that must still be claimed */
				state[v] = HOLDS; told[v] = false;
				pushed[v] = (mark == c)
			:: else
			fi;
			scored[v] = scored[v] || asked[v]
		}
		if
#ifndef MUTANT_NO_WORD_THAT_IT_WAS_OUT
		:: out -> ask_all[c] = true; asks_at[c] = now
#endif
		:: else
		fi
	:: else ->
		asks_at[c] = now;
#ifndef MUTANT_LOST_ANSWER_IGNORED
		ask_all[c] = true
#endif
	fi;
	for (v : 1 .. P) { asked[v] = false }
	first = 0; out = 0; v = 0
}

/* --------------------------------------------------------------- Clients */

/* Release a hold that was lost before its claim: the others may have lost their places. */
inline lost(i) {
	release(i);
	ask_all[OF(i)] = true;
	asks_at[OF(i)] = now
}

#define IN_TIME(i) (now < granted_at[i] + CLAIM)

proctype waiter(byte i) {
end:
	do
	/* The message arrives, or is lost. */
	:: atomic { AWAKE(OF(i)) && told[i] && W(i) && IN_TIME(i) ->
		told[i] = false; state[i] = HOLDS; pushed[i] = true
	   }
	:: atomic { AWAKE(OF(i)) && told[i] && W(i) && !IN_TIME(i) -> told[i] = false; lost(i) }
	:: atomic { AWAKE(OF(i)) && told[i] && !W(i) -> told[i] = false }
	:: atomic { told[i] && deaf > 0 -> deaf--; told[i] = false }
	/* The claim is answered or refused, or comes too late. */
	:: atomic { AWAKE(OF(i)) && state[i] == HOLDS && pushed[i] && IN_TIME(i) ->
		if
		:: k == i -> mark = 0; ends = FULL
		:: else
		fi;
		pushed[i] = false
	   }
	:: atomic { AWAKE(OF(i)) && state[i] == HOLDS && pushed[i] && IN_TIME(i) && refusals > 0 ->
		refusals--;
#ifdef MUTANT_REFUSED_CLAIM_COUNTS
		pushed[i] = false
#endif
	   }
	:: atomic { AWAKE(OF(i)) && state[i] == HOLDS && pushed[i] && !IN_TIME(i) ->
		state[i] = GONE; pushed[i] = false;
		lost(i)
	   }
	/* The end: a drop before the claim is a release, too. */
	:: atomic { AWAKE(OF(i)) && state[i] == HOLDS && !(pushed[i] && !IN_TIME(i)) ->
		state[i] = GONE;
#ifdef MUTANT_DROP_WITHOUT_RELEASE
		if
		:: !pushed[i] -> release(i)
		:: else
		fi;
#else
		release(i);
#endif
		pushed[i] = false
	   }
	:: atomic { cancels > 0 && i > N && W(i) && !told[i] && k != i ->
		cancels--;
		state[i] = GONE;
		cancel(i)
	   }
#ifdef HANDOVER
	:: atomic { fault && i <= N && state[i] == HOLDS && k == i &&
#ifdef MUTANT_HANDOVER_UNCLAIMED
		IN_TIME(i)
#else
		!pushed[i]
#endif
		-> fault = 0;
		state[i] = GONE; pushed[i] = false; adopted = i; ends = FULL /* the process renews it */
	   }
	:: atomic { adopted == i && k == i -> release(i); adopted = 0 }
	:: atomic { adopted == i && k == i && ends == FULL -> ends = now + 1 } /* the process died */
#endif
#ifdef LEAVE
	:: atomic { fault && i <= N && state[i] == HOLDS && pushed[i] && IN_TIME(i) ->
		fault = 0;
		state[i] = GONE; pushed[i] = false;
		k = (k == i -> 0 : k)
	   }
#endif
	od
}

#define DUE(c) (AWAKE(c) && now >= asks_at[c] && ANY(c))
#if N == 3
#define ANY(c) ((c) == 1 -> W(1) || W(2) || W(3) : W(N + 1) || W(P))
#else
#define ANY(c) ((c) == 1 -> W(1) || W(2) : W(N + 1) || W(P))
#endif

proctype timer(byte c) {
end:
	do
	:: atomic { DUE(c) -> recheck(c, false) }
	:: atomic { DUE(c) && losses > 0 -> losses--; recheck(c, true) }
	od
}

/* ------------------------------------------------------- Everything else */

active proctype operator() {
end:
	do
#ifdef VANISH
	:: atomic { fault -> fault = 0; for (v : 1 .. P) { in_queue[v] = false } v = 0 }
#endif
#if defined(STOPPED) || defined(PAUSED)
	:: atomic { fault && !stopped -> fault = 0; stopped = true }
#endif
#ifdef PAUSED
	:: atomic { stopped -> stopped = false }
#endif
	:: false
	od
}

#define BUSY(i) (AWAKE(OF(i)) && (told[i] || (state[i] == HOLDS && pushed[i] && !IN_TIME(i))))
#if P == 4
#define NOBODY_BUSY (!BUSY(1) && !BUSY(2) && !BUSY(3) && !BUSY(4))
#else
#define NOBODY_BUSY (!BUSY(1) && !BUSY(2) && !BUSY(3) && !BUSY(4) && !BUSY(5))
#endif

active proctype time() {
end:
	do
	:: atomic { now < UNTIL && !DUE(1) && !DUE(2) && NOBODY_BUSY ->
		now++;
		/* A hold that its client dropped does not stay. */
		must(DROPPED, k == 0 || k > P || state[k] != GONE || adopted == k || now > ends);
		for (v : 1 .. P) {
			if
			:: W(v) && AWAKE(OF(v)) && !in_queue[v] && k != v ->
				out_for[v]++;
				must(STRANDED, out_for[v] < OUT)
			:: else -> out_for[v] = 0
			fi
		}
		v = 0;
		if
		:: (k == 0 || now > ends) && ((AWAKE(1) && ANY(1)) || ANY(2)) ->
			free_for++;
			must(PROGRESS, free_for <= RECHECK)
		:: else -> free_for = 0
		fi;
		/* A stopped client with many waiters delays the others by one claim lease only. */
		if
		:: stopped && ANY(2) && (k == 0 || (k <= N && state[k] != HOLDS && ends != FULL)) ->
			held_up++;
			must(BRIEF, held_up <= CLAIM + RECHECK + LOSSES)
		:: else
		fi
	   }
	od
}

init {
	atomic {
		for (v : 1 .. P) { in_queue[v] = true; score[v] = v; scored[v] = true }
#ifdef UNANSWERED
		scored[1] = false;
#ifndef MUTANT_LOST_ENQUEUE_IGNORED
		ask_all[1] = true;
#endif
#endif
		asks_at[1] = RECHECK; asks_at[2] = RECHECK;
		for (v : 1 .. P) { run waiter(v) }
		v = 0;
		run timer(1);
		run timer(2)
	}
	if
	:: atomic { k == P + 1 -> release(P + 1) }
	:: k != P + 1 /* the outsider's hold has ended */
	fi
}

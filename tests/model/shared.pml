/*
 * Shared and exclusive holds of one lock: permits, one queue for both kinds in order of
 * arrival, readers that die, nested shared holds, downgrade and upgrade, the loss of S, and
 * a stored limit that changes.
 *
 * Each client makes one acquisition; its kind is drawn at the start. Each script is one
 * step. Time is a count of ticks; a waiter asks again at each tick.
 *
 * -D sets the sizes of a run, and at most one mutant. README.md lists the mutants.
 */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef UNTIL
#define UNTIL 3
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 0 /* of S */
#endif
#ifndef PERMITS
#define PERMITS 2 /* the highest limit that a client gives; 0: no limit */
#endif
#ifndef AHEAD
#define AHEAD 0 /* the head start of some clients, in places */
#endif
#ifndef CHANGES
#define CHANGES 0 /* of the stored limit */
#endif
#define must(property, condition) assert(condition)
#define EACH_CLIENT (j : 0 .. CLIENTS - 1)

bool shared[CLIENTS];
byte permits[CLIENTS]; /* the limit that its caller gives; 0: none, it learns the stored one */
byte number[CLIENTS];  /* the limit with which it asks */
byte weight[CLIENTS]; /* of its hold, and of the nested hold */
bool urgent[CLIENTS]; /* it has the head start */

/* ------------------------------------------------------------- The server */

byte ends[CLIENTS];   /* S: the end of the outermost hold; 0: there is none */
byte nested[CLIENTS]; /* S: the end of the shared hold nested in it */
bool is_x[CLIENTS];   /* the outermost hold is exclusive */
byte x;               /* in the header: the number of exclusive holds */
byte n;               /* the number of holds in S */
byte extra;           /* in the header: their weight beyond 1 each */
bool readers;         /* in the header: all holds are shared and weigh 1, and no waiter is queued */
byte busy_until = (AHEAD > 0 -> 1 : 0); /* after the loss of S, K stays until then */
byte queue[CLIENTS], queued; /* 1 more than each client */
byte limit;           /* the stored limit; 0: none */

/* ------------------------------------------------------------ The clients */

bool alive[CLIENTS], waits[CLIENTS], told[CLIENTS];
/* The time until which its client may count on each of its two holds, and so on the lock. */
byte sure[CLIENTS], sure_nested[CLIENTS];
bool sure_x[CLIENTS];
byte came[CLIENTS], tickets; /* the order of arrival */
byte asks_at[CLIENTS];
bool out[CLIENTS];     /* of the queue, to ask with another limit; it keeps its turn */
bool refused[CLIENTS]; /* it gives a limit that is not the stored one, or weighs more */
byte changes = CHANGES;
bool kicks; /* the call that stored a limit hands on now */
byte now, crashes = CRASHES, losses = LOSSES;
bool died; /* a process has died since the last tick */

hidden byte i, j, count, found, r_state;
#define START(c) (urgent[c] -> AHEAD : 0)
#ifdef MUTANT_A_CLASS
#define SCORE(c) (urgent[c] -> 0 : came[c])
#else
#define SCORE(c) (came[c] + AHEAD - START(c))
#endif
#define HELD 1
#define QUEUED 2
#define REFUSED 9

#define COUNTS(c) (sure[c] > now || sure_nested[c] > now)

/* ---------------------------------------------------------------- Scripts */

/* Remove the holds that have ended. */
inline read() {
#ifndef MUTANT_ENDED_STAYS
	for EACH_CLIENT {
		if
		:: ends[j] && ends[j] <= now ->
			ends[j] = 0; n--;
#ifndef MUTANT_EXTRA_STAYS
			extra = extra - (weight[j] - 1);
#endif
#ifndef MUTANT_X_STAYS
			x = (is_x[j] -> x - 1 : x);
#endif
			is_x[j] = false
		:: else
		fi;
		if
		:: nested[j] && nested[j] <= now -> nested[j] = 0; n--; extra = extra - (weight[j] - 1)
		:: else
		fi
	}
	j = 0;
#endif
	if
	:: n == 0 -> x = 0; extra = 0; readers = false
	:: else
	fi
}

#ifdef MUTANT_ONE_TOO_MANY
#define ROOM(c) (number[c] == 0 || n + extra + weight[c] <= number[c] + 1)
#elif defined(MUTANT_A_COUNT_FOR_THE_SUM)
#define ROOM(c) (number[c] == 0 || n + weight[c] <= number[c])
#else
#define ROOM(c) (number[c] == 0 || n + extra + weight[c] <= number[c])
#endif
#ifdef MUTANT_WHO_ASKS_AGAIN_LOSES_ITS_TURN
#define IN_TURN AHEAD
#else
#define IN_TURN (AHEAD || CHANGES)
#endif
#define DIFFERS(c) (shared[c] && limit && number[c] != limit)
#ifdef MUTANT_LOST_S_FREES
#define BUSY false
#else
#define BUSY (busy_until > now)
#endif
#define FITS(c) (!BUSY && (shared[c] -> x == 0 && ROOM(c) : n == 0))

inline admit(c) {
	count = 0;
	for EACH_CLIENT {
		must(FIFO, j == c || !waits[j] || told[j] || !alive[j] || !came[j] || out[j] || came[j] + START(c) >= came[c]);
		must(EXCLUSION, j == c || !COUNTS(j) || (shared[c] && !(sure_x[j] && sure[j] > now)));
		count = count + (j != c && COUNTS(j) -> weight[j] : 0)
	}
	must(PERMITS, !shared[c] || number[c] == 0 || count + weight[c] <= number[c]);
	must(LIMIT, !DIFFERS(c) && (permits[c] == 0 || number[c] == permits[c]) && !refused[c]);
	must(ORPHAN, alive[c] && waits[c]);
	ends[c] = now + LEASE; n++;
	extra = extra + (weight[c] - 1);
	is_x[c] = !shared[c];
	x = (shared[c] -> x : x + 1);
	sure[c] = ends[c]; sure_x[c] = is_x[c];
	told[c] = true;
	j = 0; count = 0
}

inline leave_queue(c) {
	count = 0;
	for (j : 1 .. queued) {
		if
		:: queue[j - 1] != c + 1 -> queue[count] = queue[j - 1]; count++
		:: else
		fi
	}
	for (j : count + 1 .. queued) { queue[j - 1] = 0 }
	queued = count;
	j = 0; count = 0
}

/* Grant to the head of the queue, and after a shared waiter to the next. */
inline grant() {
	do
	:: queued == 0 -> break
	:: else ->
		i = queue[0] - 1;
		if
#ifdef MUTANT_DEAD_HEAD
		:: FITS(i) ->
#else
		:: !alive[i] -> leave_queue(i)
#ifdef MUTANT_WHO_WAITS_KEEPS_ITS_NUMBER
		:: alive[i] && FITS(i) ->
#else
		:: alive[i] && DIFFERS(i) -> /* a message makes it ask again */
			leave_queue(i);
			out[i] = true; asks_at[i] = now
		:: alive[i] && !DIFFERS(i) && FITS(i) ->
#endif
#endif
			leave_queue(i);
			admit(i);
#ifdef MUTANT_ONE_ONLY
			break
#endif
		:: else -> break
		fi
	od;
	i = 0
}

inline acquire(c) {
	read();
	out[c] = false;
	for EACH_CLIENT { found = found || came[j] }
	tickets = (found -> tickets : 0);
	j = 0; found = 0;
	if
	:: ends[c] -> skip
	:: !ends[c] && DIFFERS(c) -> /* it learns the limit and asks again, or is refused */
		leave_queue(c);
		if
#ifdef MUTANT_A_NUMBER_GIVES_WAY
		:: weight[c] <= limit ->
#else
		:: permits[c] == 0 && weight[c] <= limit ->
#endif
			number[c] = limit; out[c] = true
		:: else -> refused[c] = true; came[c] = 0
		fi
	:: !ends[c] && !DIFFERS(c) ->
		found = false;
		for (j : 1 .. queued) { found = found || queue[j - 1] == c + 1 }
		j = 0;
		if
#ifdef MUTANT_LIGHT_ONES_PASS
		:: !found && shared[c] && weight[c] == 1 && queued && weight[queue[0] - 1] > 1 && FITS(c) ->
			came[c] = tickets + 1; tickets++; admit(c)
#endif
#ifdef MUTANT_READER_PASSES
		:: !found && shared[c] && FITS(c) -> came[c] = tickets + 1; tickets++; admit(c)
#endif
		:: else ->
			if
			:: !found ->
				tickets = (came[c] -> tickets : tickets + 1);
				came[c] = (came[c] -> came[c] : tickets);
				i = queued; queued++;
				do
				:: IN_TURN && i > 0 && SCORE(queue[i - 1] - 1) > SCORE(c) -> queue[i] = queue[i - 1]; i--
				:: else -> break
				od;
				queue[i] = c + 1; i = 0
			:: else
			fi;
			grant()
		fi
	fi;
	found = 0;
#ifdef MUTANT_A_QUEUE_BEHIND_READERS
	readers = readers || (n && x == 0 && extra == 0 && queued == 0);
#else
	readers = n && x == 0 && extra == 0 && queued == 0;
#endif
	asks_at[c] = (out[c] -> now : now + 1)
}

/* Nest a shared hold in a live hold of client c, which `nests` names, or try an upgrade. */
inline nest(c, exclusively) {
	read();
	if
	:: ends[c] == 0 -> r_state = 0
#ifdef MUTANT_UPGRADE_WAITS
	:: ends[c] && exclusively -> r_state = QUEUED
#else
	:: ends[c] && exclusively -> r_state = REFUSED
#endif
#ifdef MUTANT_NESTED_QUEUES
	:: ends[c] && !exclusively && !is_x[c] && queued -> r_state = QUEUED
	:: ends[c] && !exclusively && (is_x[c] || !queued) ->
#else
	:: ends[c] && !exclusively ->
#endif
		nested[c] = now + LEASE; n++;
		extra = extra + (weight[c] - 1);
		sure_nested[c] = nested[c];
		r_state = HELD
	fi
}

/* Release the outermost hold. With a nested hold this is a downgrade: K stays, and is shared. */
inline release(c) {
	sure[c] = 0; sure_x[c] = false;
	if
	:: readers && ends[c] -> /* the script looks at neither the queue nor ended holds */
		ends[c] = 0; n--;
		readers = n > 0
	:: else ->
		read();
		if
		:: ends[c] ->
			ends[c] = 0; n--;
			extra = extra - (weight[c] - 1);
#ifdef MUTANT_DOWNGRADE_FREES
			if
			:: is_x[c] && nested[c] -> nested[c] = 0; n--; extra = extra - (weight[c] - 1)
			:: else
			fi;
#endif
#ifdef MUTANT_DOWNGRADE_KEEPS_X
			x = (is_x[c] && n == 0 -> 0 : x);
#else
			x = (is_x[c] -> x - 1 : x);
#endif
			is_x[c] = false
		:: else
		fi;
		grant()
	fi;
	woken()
}

inline release_nested(c) {
	sure_nested[c] = 0;
	if
	:: readers && nested[c] -> nested[c] = 0; n--; readers = n > 0
	:: else ->
		read();
		if
		:: nested[c] -> nested[c] = 0; n--; extra = extra - (weight[c] - 1)
		:: else
		fi;
		x = (n == 0 -> 0 : x);
		grant()
	fi;
	woken()
}

inline cancel(c) {
	read();
	leave_queue(c);
#ifndef MUTANT_CANCEL_HANDS_NOTHING_ON
	grant();
#endif
	woken()
}

/* Check that the first waiter does not fit. */
inline woken() {
	must(WOKEN, queued == 0 || !alive[queue[0] - 1] || !FITS(queue[0] - 1))
}

/* --------------------------------------------------------------- Clients */

#define HOLDS(c) (sure[c] > now)

proctype client(byte me) {
	bool twice;

	atomic { waits[me] = true; d_step { acquire(me) } }
waiting:
	if
	:: atomic { told[me] && HOLDS(me) ->
		told[me] = false; waits[me] = false; came[me] = 0; asks_at[me] = 0
	   }
	:: atomic { refused[me] -> refused[me] = false; waits[me] = false; goto end_of_it }
	:: atomic { told[me] && !HOLDS(me) -> /* its grant has ended: it takes a new place */
		told[me] = false; came[me] = 0;
		d_step { acquire(me) };
		goto waiting
	   }
	:: atomic { !told[me] && !refused[me] && now >= asks_at[me] -> d_step { acquire(me) }; goto waiting }
	:: atomic { !told[me] && !refused[me] -> waits[me] = false; out[me] = false; d_step { cancel(me) }; goto end_of_it }
	:: atomic { crashes > 0 && !told[me] && !refused[me] -> crashes--; died = true; alive[me] = false; goto end_of_it }
	fi;
holding:
	if
	:: atomic { HOLDS(me) && !twice ->
		twice = true;
		d_step { nest(me, false) };
		must(SELF, r_state != QUEUED); /* it would wait for itself */
		r_state = 0;
		goto holding
	   }
	:: atomic { HOLDS(me) && !twice && shared[me] ->
		twice = true;
		d_step { nest(me, true) };
		must(SELF, r_state != QUEUED);
		r_state = 0;
		goto holding
	   }
	:: atomic { sure_nested[me] -> d_step { release_nested(me) }; goto holding }
	:: atomic { d_step { release(me) } }
	:: atomic { crashes > 0 && HOLDS(me) -> crashes--; died = true; alive[me] = false; goto end_of_it }
	fi;
	if
	:: atomic { sure_nested[me] -> d_step { release_nested(me) } }
	:: sure_nested[me] == 0
	fi;
end_of_it:
	atomic { twice = false; waits[me] = false; out[me] = false; told[me] = false; came[me] = 0; asks_at[me] = 0 }
}

/* ------------------------------------------------------- Everything else */

active proctype operator() {
end:
	do
	:: atomic { losses > 0 && n > 0 -> /* S is deleted; K ends with the latest hold */
		d_step {
			losses--;
			for EACH_CLIENT {
				busy_until = (ends[j] > busy_until -> ends[j] : busy_until);
				busy_until = (nested[j] > busy_until -> nested[j] : busy_until);
				ends[j] = 0; nested[j] = 0; is_x[j] = false
			}
			n = 0; x = 0; extra = 0; readers = false; j = 0
		}
	   }
	:: atomic { changes > 0 && !kicks ->
		changes--;
		if
		:: limit = 0
		:: limit = 1
		:: limit = PERMITS
		fi;
#ifndef MUTANT_A_LIMIT_TELLS_NOBODY
		kicks = true
#endif
	   }
	:: atomic { kicks -> kicks = false; d_step { read(); grant(); woken() } }
	od
}

#define IN_TIME(c) !(waits[c] && alive[c] && (told[c] || refused[c] || now >= asks_at[c]))
#define LIMIT_OF(c) (limit -> limit : number[c])

active proctype time() {
	byte head;
end:
	do
	:: atomic { now < UNTIL && !kicks && IN_TIME(0) && IN_TIME(1) && IN_TIME(CLIENTS - 1) ->
		/* By the holds on which the clients count, the first waiter does not fit. */
		d_step {
			head = CLIENTS; i = 0; found = false; count = 0;
			for EACH_CLIENT {
				i = i + (sure[j] > now -> weight[j] : 0) + (sure_nested[j] > now -> weight[j] : 0);
				found = found || (sure_x[j] && sure[j] > now);
				head = (waits[j] && alive[j] && !told[j] && (head == CLIENTS || SCORE(j) < SCORE(head)) -> j : head)
			}
			if
			:: head < CLIENTS && busy_until <= now && !died -> /* after a death, check at the next tick */
				must(PROGRESS, (shared[head] -> found || (LIMIT_OF(head) && i + weight[head] > LIMIT_OF(head)) : i > 0))
			:: else
			fi;
			head = 0; i = 0; found = 0; j = 0;
			died = false;
			now++;
			for EACH_CLIENT { /* treat a hold that has ended like no hold */
				sure[j] = (sure[j] > now -> sure[j] : 0);
				sure_nested[j] = (sure_nested[j] > now -> sure_nested[j] : 0);
				sure_x[j] = sure_x[j] && sure[j]
			}
			j = 0;
			busy_until = (busy_until > now -> busy_until : 0)
		}
	   }
	od
}

#define KIND(c) (shared[c] + permits[c] + (weight[c] - 1))

init {
	byte k;
	atomic {
		for (k : 0 .. CLIENTS - 1) {
			alive[k] = true;
			weight[k] = 1;
			if
			:: AHEAD -> urgent[k] = true
			:: skip
			fi;
			/* The clients differ only in their kinds: one order of the kinds is enough. */
			if
			:: k == 0 || KIND(k - 1) == 0 -> skip
			:: k == 0 || KIND(k - 1) <= 1 -> shared[k] = true
			:: k == 0 || KIND(k - 1) <= 2 -> shared[k] = true; permits[k] = 1
			:: k == 0 || KIND(k - 1) <= 1 + PERMITS -> shared[k] = true; permits[k] = PERMITS
			:: shared[k] = true; permits[k] = PERMITS; weight[k] = 2
			fi;
			number[k] = permits[k]
		}
		for (k : 0 .. CLIENTS - 1) { run client(k) }
		k = 0
	}
}

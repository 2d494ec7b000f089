/*
 * Leases: how long a client may count on an exclusive hold, or on a hold nested in it.
 * The model has the scripts acquire, release (with all keys), cancel, claim and renew,
 * each in one step, and a client's handling of their answers. It leaves out the forms of
 * K and of F, which forms.pml has.
 *
 * Time is a count of ticks, and all clocks run alike. A client may be slow at every
 * step except one: it asks again in time. A run has a budget of faults: a lost answer or
 * message, a copy of a request that arrives later (or never), a client that dies, with or
 * without its connections.
 *
 * -D sets the sizes of a run, and at most one mutant, each of which leaves out one rule
 * of docs/protocol.md. README.md lists the mutants.
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef IDS
#define IDS 2 /* hold ids of a client, used in turn, one for each acquisition */
#endif
#ifndef LEASE
#define LEASE 3
#endif
#ifndef CLAIM
#define CLAIM 2 /* the lease of a pushed grant until it is claimed */
#endif
#ifndef RECHECK
#define RECHECK 2 /* a waiter asks again after this time at the latest */
#endif
#ifndef UNTIL
#define UNTIL 5 /* time ends here */
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef CANCELS
#define CANCELS 0 /* may a client give up its wait before time ends? */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifdef PAIR
#define OWNER(c) ((c) / 2) /* the first two are threads of one owner */
#else
#define OWNER(c) (c)
#endif

#ifdef PAIR
#define LEASE_OF(c) ((c) == 1 -> 1 : LEASE)
#else
#define LEASE_OF(c) LEASE
#endif

#define NEVER 255 /* as a lease, and as a time */
#define ALL (CLIENTS * IDS + 1)
#define CLIENT(id) (((id) - 1) / IDS)
#define LATER(from, ticks) ((ticks) == NEVER -> NEVER : (from) + (ticks))
#define LEFT(end) ((end) == NEVER -> NEVER : (end) - now)
#if CLIENTS > 2
#define EACH(what) (what(0) && what(1) && what(2))
#elif CLIENTS > 1
#define EACH(what) (what(0) && what(1))
#else
#define EACH(what) what(0)
#endif
#define IN_TIME(c) !(waits[c] && now >= asks_at[c])
#define QUIET(c) (done[c] && late[c] == NOTHING)
#define must(property, condition) assert(condition)
/* When the last of a client's holds in K ends. */
#if IDS > 1
#define GRANTED(c) MAX(expiry[(c) * IDS + 1], expiry[(c) * IDS + 2])
#else
#define GRANTED(c) expiry[(c) + 1]
#endif
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

byte now;
byte faults = FAULTS, crashes = CRASHES;

/* ------------------------------------------------------------- The server */

byte owner;     /* 1 more than the owner of K; 0: there is no K */
byte expiry[ALL]; /* the end of each hold in K; 0: there is no such hold */
byte fence, last; /* K's fence, and the last fence */
byte mark;      /* 1 more than the client whose grant is not claimed yet */
bool dead[ALL];
byte queue[ALL + CLIENTS], queued; /* in order */
byte free_since;
#ifdef MUTANT_COUNT
byte extra;
#endif

bool listens[CLIENTS];
chan grants[CLIENTS] = [IDS + 1] of { byte, byte, byte }; /* hold id, fence, server's time */

/* ------------------------------------------------------------ The clients */

bool crashed[CLIENTS], done[CLIENTS];
bool over[ALL]; /* its client is done with this id */
bool holds[CLIENTS];
byte valid_until[CLIENTS];
bool waits[CLIENTS];
byte waits_since[CLIENTS], asks_at[CLIENTS];
byte newest; /* the fence of the last completed acquisition */
byte newest_owner;
bool lost; /* a message was lost */

/* A copy of a request on a connection that was given up. */
mtype = { NOTHING, ACQUIRE, RELEASE, BURY, CANCEL, CANCEL_BURY, CLAIM_IT, RENEW };
mtype late[CLIENTS] = NOTHING;
byte late_id[CLIENTS];

/* Scratch, empty between steps. */
hidden byte i, j, at;
hidden byte found, bad_luck, miscounted;
hidden byte r_state, r_left, r_fence; /* a script's answer */
#define HELD 1
#define QUEUED 2
#define DEAD 3
#define NOT 0

/* -------------------------------------------------------------- Scripts */

/* Remove the holds that have ended, and K with the last of them. If that was an unclaimed
 * grant, its client is a ghost, and its waiters leave, unless that client is the asker. */
inline lapse(asker) {
	found = false; at = 0;
	for (j : 1 .. CLIENTS * IDS) {
		if
		:: expiry[j] > now -> found = true
		:: else
		fi;
		if
		:: expiry[j] > at -> at = expiry[j]
		:: else
		fi
	}
	if
	:: owner && !found ->
		owner = 0; fence = 0; free_since = at;
#ifdef MUTANT_FENCE_FORGOTTEN
		last = 0;
#endif
		if
		:: mark && mark != asker -> ghosts_leave()
		:: else
		fi;
		mark = 0
	:: else
	fi;
	for (j : 1 .. CLIENTS * IDS) {
		if
		:: expiry[j] <= now -> expiry[j] = 0
		:: else
		fi
	}
}

inline ghosts_leave() {
	at = 0;
	for (j : 1 .. queued) {
		if
		:: CLIENT(queue[j - 1]) + 1 != mark -> queue[at] = queue[j - 1]; at++
		:: else
		fi
	}
	for (j : at + 1 .. queued) { queue[j - 1] = 0 }
	queued = at
}

inline leave_queue(id) {
	at = 0;
	for (j : 1 .. queued) {
		if
		:: queue[j - 1] != id -> queue[at] = queue[j - 1]; at++
		:: else
		fi
	}
	for (j : at + 1 .. queued) { queue[j - 1] = 0 }
	queued = at
}

/* Grant a free K to the next waiter. asker: 0, or the waiter that gets the grant in its
 * answer, not by a message. */
inline grant(asker) {
	do
	:: queued == 0 -> break
	:: else ->
		i = queue[0];
		for (j : 1 .. queued - 1) { queue[j - 1] = queue[j] }
		queued--;
		queue[queued] = 0;
		if
		:: i == asker || listens[CLIENT(i)] ->
			must(ORPHAN, crashed[CLIENT(i)] || !over[i]); /* it still waits for the lock */
			last++;
			owner = OWNER(CLIENT(i)) + 1; fence = last;
			if
			:: i == asker -> expiry[i] = LATER(now, LEASE_OF(CLIENT(i))); mark = 0; break
			:: else ->
#ifdef MUTANT_NO_CLAIM_LEASE
				expiry[i] = LATER(now, LEASE);
#else
				expiry[i] = now + MIN(CLAIM, LEASE);
#endif
				mark = CLIENT(i) + 1;
				if
				:: bad_luck && nfull(grants[CLIENT(i)]) -> faults--; lost = true; bad_luck = 0
				:: !bad_luck && nfull(grants[CLIENT(i)]) -> grants[CLIENT(i)] ! i, fence, now
				:: full(grants[CLIENT(i)]) -> lost = true
				fi;
#ifdef MUTANT_COUNT_PUBLISHED
				/* The count of PUBLISH may be 0 although the client gets the message. */
				if
				:: miscounted && queued > 0 -> expiry[i] = 0
				:: else -> break
				fi
#else
				break
#endif
			fi
		:: else
		fi
	od
}

inline acquire(id) {
	lapse(CLIENT(id) + 1);
	if
	:: dead[id] -> r_state = DEAD; leave_queue(id)
	:: !dead[id] && expiry[id] > now ->
		r_state = HELD; r_fence = fence; leave_queue(id);
#ifdef MUTANT_WHOLE_LEASE
		r_left = LEASE
#else
		r_left = LEFT(expiry[id])
#endif
#ifdef MUTANT_COUNT
		; extra++
#endif
	:: !dead[id] && !expiry[id] && owner == OWNER(CLIENT(id)) + 1 ->
		r_state = HELD; r_fence = fence; r_left = LEASE_OF(CLIENT(id));
		expiry[id] = LATER(now, LEASE_OF(CLIENT(id)));
#ifdef MUTANT_SHORTEN
		for (j : 1 .. CLIENTS * IDS) {
			if
			:: expiry[j] > expiry[id] -> expiry[j] = expiry[id]
			:: else
			fi
		};
#endif
#ifndef MUTANT_NESTED_STAYS_QUEUED
		leave_queue(id)
#else
		skip
#endif
	:: else ->
		found = false;
		for (j : 1 .. queued) {
			if
			:: queue[j - 1] == id -> found = true
			:: else
			fi
		}
#ifdef MUTANT_QUEUE_TWICE
		found = found && queued > 1;
#endif
		if
		:: !found -> queue[queued] = id; queued++
		:: else
		fi;
		if
		:: owner == 0 -> grant(id)
		:: else
		fi;
		if
		:: expiry[id] > now -> r_state = HELD; r_fence = fence; r_left = LEFT(expiry[id])
		:: else ->
			r_state = QUEUED;
			at = 0;
			for (j : 1 .. CLIENTS * IDS) {
				if
				:: expiry[j] > at -> at = expiry[j]
				:: else
				fi
			}
			r_left = LEFT(at)
		fi
	fi
}

inline release(id, bury) {
	lapse(0);
	r_state = NOT;
	if
	:: bury ->
		leave_queue(id);
#ifndef MUTANT_NO_DEAD_IDS
		dead[id] = true
#endif
	:: else
	fi;
#ifdef MUTANT_RELEASE_BY_OWNER
	if
	:: expiry[id] == 0 && owner == OWNER(CLIENT(id)) + 1 ->
		for (j : 1 .. CLIENTS * IDS) {
			if
			:: expiry[j] -> expiry[id] = expiry[j]; expiry[j] = 0
			:: else
			fi
		}
	:: else
	fi;
#endif
	if
	:: expiry[id] > now ->
		r_state = HELD;
#ifdef MUTANT_COUNT
		if
		:: extra > 0 -> extra--
		:: else -> expiry[id] = 0
		fi;
#else
		expiry[id] = 0;
#endif
		if
		:: mark == CLIENT(id) + 1 -> mark = 0
		:: else
		fi;
		lapse(0);
		if
		:: owner == 0 -> free_since = now
		:: else
		fi
	:: else
	fi;
	if
	:: owner == 0 -> grant(0)
	:: else
	fi
}

/* Leave the queue; a hold stays. The waiters behind may be granted the lock. */
inline cancel(id, bury) {
	lapse(0);
	leave_queue(id);
	if
	:: expiry[id] > now -> r_state = HELD; r_fence = fence; r_left = LEFT(expiry[id])
	:: else ->
		r_state = NOT;
#ifndef MUTANT_NO_DEAD_IDS
		dead[id] = dead[id] || bury;
#endif
		if
		:: owner == 0 -> grant(0)
		:: else
		fi
	fi
}

/* Claim or renew. These scripts do not have all keys, and hand nothing on. */
inline renew(id, claims) {
	if
	:: expiry[id] > now ->
		r_state = HELD;
		expiry[id] = MAX(expiry[id], LATER(now, LEASE_OF(CLIENT(id))));
		r_left = LEFT(expiry[id]);
		if
		:: claims -> mark = 0
		:: else
		fi
	:: else -> r_state = NOT
	fi
}

inline carry_out(what, id) {
	r_state = NOT; r_left = 0; r_fence = 0;
	if
	:: what == ACQUIRE -> acquire(id)
	:: what == RELEASE -> release(id, false)
	:: what == BURY -> release(id, true)
	:: what == CANCEL -> cancel(id, false)
	:: what == CANCEL_BURY -> cancel(id, true)
	:: what == CLAIM_IT -> renew(id, true)
	:: what == RENEW -> renew(id, false)
	fi
}

/* Choose whether the script's message is lost. */
inline fate() {
	if
	:: bad_luck = false
	:: faults > 0 -> bad_luck = true
	fi;
#ifdef MUTANT_COUNT_PUBLISHED
	if
	:: miscounted = false
	:: miscounted = true
	fi
#endif
}

inline tidy() {
	r_state = 0; r_left = 0; r_fence = 0; i = 0; j = 0; at = 0; found = 0;
	bad_luck = 0; miscounted = 0
}

/* --------------------------------------------------------------- Clients */

inline stop_waiting() {
	waits[me] = false; waits_since[me] = 0; asks_at[me] = 0
}

/* Count the lock as acquired, until end. */
inline complete(end) {
	certain_until(end);
	must(FENCE, given > newest || (given == newest && newest_owner == OWNER(me)));
	newest = given; newest_owner = OWNER(me)
}

/* Count on the hold until end. */
inline certain_until(end) {
	valid_until[me] = end;
	holds[me] = true;
	if
	:: now < end ->
		for (j : 0 .. CLIENTS - 1) {
			must(EXCLUSION, OWNER(j) == OWNER(me) || !holds[j] || now >= valid_until[j])
		}
	:: else
	fi;
	j = 0
}

/* Send a request, and go on with its answer. */
#define CALL(request) what = request; sent = now; doubtful = false; goto calling

proctype client(byte me) {
	mtype what = NOTHING;
	byte id = me * IDS, sent, left, given, server, state, pair_sent, pair_server;
	bool doubtful, bury, pushed, renewed;

another:
	atomic {
		id++; bury = false; pushed = false; renewed = false;
		state = 0; left = 0; given = 0; server = 0; pair_sent = 0; pair_server = 0;
		if
		:: id > (me + 1) * IDS -> goto end_of_it
		:: else -> CALL(ACQUIRE)
		fi
	}

calling:
	if
	:: atomic {
		fate();
		d_step {
			carry_out(what, id);
			state = r_state; left = r_left; server = now;
			given = (r_fence -> r_fence : given);
			tidy()
		};
		goto answered
	   }
	:: atomic { faults > 0 -> /* the answer is lost */
		faults--;
		fate();
		d_step { carry_out(what, id); tidy() };
		goto again
	   }
	:: atomic { faults > 0 && late[me] == NOTHING -> /* the request is still under way */
		faults--;
		late[me] = what; late_id[me] = id;
		goto again
	   }
	:: atomic { faults > 0 && what == CLAIM_IT -> /* the claim is refused, and made again */
		faults--;
		sent = 0; what = NOTHING;
		goto held
	   }
	fi;
again:
	atomic { doubtful = true; sent = now; goto calling }

answered:
	atomic {
		bury = bury || (what == ACQUIRE && doubtful);
#ifdef MUTANT_RETRY_COUNTS_WHOLE
		left = (what == ACQUIRE && doubtful && state == HELD -> LEASE : left);
#endif
		left = LATER(sent, left); /* the end of the hold, for the client */
		if
		:: (what == ACQUIRE || what == CANCEL || what == CANCEL_BURY) && state == HELD ->
			if
			:: now < left -> pushed = pushed || what != ACQUIRE || left != LATER(sent, LEASE_OF(me));
				complete(left)
			:: else -> CALL(BURY) /* the hold ended before its answer arrived */
			fi
		:: what == ACQUIRE && state == QUEUED ->
#ifdef MUTANT_TWO_REQUESTS
			pair_server = (pair_sent == 0 -> server : pair_server);
#else
			pair_server = server;
#endif
			pair_sent = sent;
#ifdef MUTANT_EARLY_GRANT_DROPPED
			do
			:: nempty(grants[me]) -> grants[me] ? _, _, _
			:: empty(grants[me]) -> break
			od;
#endif
			waits[me] = true; waits_since[me] = now;
#ifdef MUTANT_RECHECK_UNBOUNDED
			asks_at[me] = (left == NEVER -> NEVER : now + 1 + left - sent);
#else
			asks_at[me] = now + (left == NEVER -> RECHECK : MIN(1 + left - sent, RECHECK));
#endif
			left = 0; sent = 0; server = 0; state = 0; what = NOTHING;
			goto waiting
		:: what == CLAIM_IT || what == RENEW ->
			pushed = pushed && what != CLAIM_IT;
			renewed = renewed || what == RENEW;
#ifdef MUTANT_CLAIM_ASSUMED
			if
			:: what == CLAIM_IT -> certain_until(LATER(sent, LEASE_OF(me)))
			:: else
			fi;
#endif
			if
			:: state == HELD && now < valid_until[me] && left > valid_until[me] ->
				certain_until(left)
			:: else
			fi
		:: else -> /* dead, cancelled or released */
			over[id] = true;
			goto another
		fi;
		left = 0; sent = 0; server = 0; state = 0; what = NOTHING
	}

held:
	if
	:: atomic { pushed && now < valid_until[me] -> CALL(CLAIM_IT) }
	:: atomic { RENEWALS && !pushed && !renewed && now < valid_until[me] -> CALL(RENEW) }
	:: atomic { /* the hold ends here first, and then on the server */
		holds[me] = false; valid_until[me] = 0;
		if
		:: bury -> CALL(BURY)
		:: else -> CALL(RELEASE)
		fi
	   }
	:: atomic { crashes > 0 -> holds[me] = false; valid_until[me] = 0; goto crash }
	fi;

waiting:
	if
	:: atomic { nempty(grants[me]) ->
		grants[me] ? state, given, server;
		if
		:: state != id -> state = 0; given = 0; server = 0; goto waiting /* for an id given up */
		:: else
		fi;
		stop_waiting();
		pushed = true;
#ifdef MUTANT_NO_CLAIM_LEASE
		left = LEASE;
#else
		left = MIN(CLAIM, LEASE);
#endif
#ifdef MUTANT_RECEIPT
		sent = now;
#else
		/* The message may be old: count from the last request, by the server's
		 * clock. */
		sent = (pair_sent + server > pair_server -> pair_sent + server - pair_server : 0);
		sent = MIN(sent, now);
#endif
		left = sent + left;
		if
		:: now < left -> complete(left)
		:: else -> CALL(BURY)
		fi;
		left = 0; sent = 0; server = 0; state = 0;
		goto held
	   }
	:: atomic { now >= asks_at[me] -> stop_waiting(); CALL(ACQUIRE) }
	:: atomic { CANCELS || now == UNTIL -> /* it gives up its wait */
		stop_waiting();
		if
		:: bury -> CALL(CANCEL_BURY)
		:: else -> CALL(CANCEL)
		fi
	   }
	:: atomic { crashes > 0 -> stop_waiting(); goto crash }
	fi;

crash:
	atomic {
		crashes--; crashed[me] = true;
		if
		:: listens[me] = false
		:: true /* the machine vanished: its connections stay for some time */
		fi
	}
end_of_it:
	atomic {
		id = 0; given = 0; pair_sent = 0; pair_server = 0;
		bury = false; pushed = false; renewed = false; doubtful = false;
		done[me] = true
	}
}

/* ------------------------------------------------------- Everything else */

/* A request under way arrives, or is lost. */
active proctype network() {
	byte c;
end:
	do
	:: atomic { late[0] != NOTHING -> c = 0 } arrive:
		atomic {
			if
			:: fate();
				d_step {
					carry_out(late[c], late_id[c]);
					lost = true; /* its answer */
					must(ORPHAN, crashed[c] || !over[late_id[c]] || expiry[late_id[c]] == 0)
				}
			:: true
			fi;
			d_step { tidy(); late[c] = NOTHING; late_id[c] = 0; c = 0 }
		}
#if CLIENTS > 1
	:: atomic { late[1] != NOTHING -> c = 1; goto arrive }
#endif
#if CLIENTS > 2
	:: atomic { late[2] != NOTHING -> c = 2; goto arrive }
#endif
	od
}

/* Set `at` to the time when the lock became free; NEVER: it is held. */
inline when_free() {
	found = false; at = 0;
	for (j : 1 .. CLIENTS * IDS) {
		if
		:: expiry[j] > now -> found = true
		:: else
		fi;
		if
		:: expiry[j] > at -> at = expiry[j]
		:: else
		fi
	}
	at = (found -> NEVER : (owner == 0 -> free_since : at))
}

active proctype time() {
end:
	do
	:: atomic {
		now < UNTIL && EACH(IN_TIME) ->
		now++;
		when_free();
		for (j : 0 .. CLIENTS - 1) {
			if
			:: waits[j] && at != NEVER -> /* the lock is free: a waiter gets it in time */
				must(PROGRESS, now - at <= RECHECK || now - waits_since[j] <= RECHECK)
			:: else
			fi;
			/* A waiter that was granted the lock has a message under way, or one was lost. */
			must(TOLD, !waits[j] || lost || nempty(grants[j]) || GRANTED(j) <= now);
			/* A grant to a dead client lasts for a claim lease, not for its whole lease. */
			must(BRIEF, !crashed[j] || mark != j + 1 || owner == 0 || GRANTED(j) <= now + CLAIM)
		}
		i = 0; j = 0; at = 0; found = false
	   }
	od
}

init {
	atomic {
		for (i : 0 .. CLIENTS - 1) {
			listens[i] = true;
			run client(i)
		}
		i = 0
	}
	/* When all is quiet, the queue is empty, and no finished client holds the lock. */
	atomic {
		EACH(QUIET) ->
		for (j : 1 .. CLIENTS * IDS) {
			must(ORPHAN, crashed[CLIENT(j)] || expiry[j] <= now)
		}
		for (j : 1 .. queued) {
			must(ORPHAN, crashed[CLIENT(queue[j - 1])])
		}
		j = 0
	}
}

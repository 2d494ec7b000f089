/*
 * The forms of K and of F, for exclusive holds only: the fast paths (take, the plain HDEL,
 * wait, the short release) beside the general scripts, each in one step. The model has dead
 * hold ids, and a late copy of each of these requests.
 *
 * There is no clock: a lease may end at any time, within a budget, and its holder notices at
 * once (lease.pml shows how). A run has budgets of faults (a lost answer, a late copy, a lost
 * message), of ended leases, of deaths and of losses of F.
 *
 * -D sets the sizes of a run, and at most one mutant. README.md lists the mutants.
 */
#define CLIENTS 2
#ifndef IDS
#define IDS 2 /* hold ids of a client, used in turn, one for each acquisition */
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef ENDS
#define ENDS 0 /* leases that end while their holders live */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef FORGETS
#define FORGETS 0 /* losses of F */
#endif
#ifndef NESTS
#define NESTS 0 /* may a holder nest? */
#endif
#define ALL (CLIENTS * IDS + 1)
#define CLIENT(id) (((id) - 1) / IDS)
#define must(property, condition) assert(condition)

/* ------------------------------------------------------------- The server */

mtype = { FREE, TAKEN, ONE, MANY };
mtype form = FREE;
byte holder, fence; /* of K */
bool outer, inner;  /* MANY: which of the holder's two holds are there */
bool barred;        /* ONE: `wait` does nothing, because there may be a dead id */
byte beside;        /* mutants: the id whose plain field K has, too */

byte last;    /* F: the last fence */
bool flagged; /* F: `take` leaves the lock to the general script */
byte mark;    /* F: 1 more than the client whose grant is not claimed yet */
bool graves;  /* F: there may be a dead id */

bool dead[ALL];
byte queue[ALL], queued;
byte told[ALL]; /* the fence of a grant's message under way; 0: none */
bool listens[CLIENTS];

/* ------------------------------------------------------------ The clients */

bool crashed[CLIENTS], done[CLIENTS];
bool over[ALL], holds[ALL];
byte past[ALL]; /* the fence of the hold of this id whose lease has ended */
byte newest;
byte faults = FAULTS, ends = ENDS, crashes = CRASHES, forgets = FORGETS;
bool ended; /* K ended without a release: a waiter gets it by its re-check */
bool forgot;

mtype = { NOTHING, TAKE, HDEL, WAIT, ACQUIRE, SHORT, LONG, BURY, CANCEL, CANCEL_BURY, CLAIM };
mtype late[CLIENTS] = NOTHING;
byte late_id[CLIENTS], late_fence[CLIENTS];

hidden byte i, j, at, found;
hidden byte r_state, r_fence; /* a script's answer */
#define NOT 0
#define HELD 1
#define QUEUED 2
#define DEAD 3
#define YES 1

/* ---------------------------------------------------------------- Scripts */

inline look_for(id) {
	found = false;
	for (j : 1 .. queued) {
		if
		:: queue[j - 1] == id -> found = true
		:: else
		fi
	}
}

/* Remove this id from the queue, or all ids of a client (id 0). */
inline remove(id, client) {
	at = 0;
	for (j : 1 .. queued) {
		if
		:: queue[j - 1] != id && (id || CLIENT(queue[j - 1]) != client) ->
			queue[at] = queue[j - 1]; at++
		:: else
		fi
	}
	for (j : at + 1 .. queued) { queue[j - 1] = 0 }
	queued = at
}

inline enqueue(id) { queue[queued] = id; queued++ }

inline hold(the_form, id) {
	last++;
	form = the_form; holder = id; fence = last; outer = false; inner = false;
#ifndef MUTANT_BAR_NOT_HANDED_ON
	barred = graves
#endif
}

inline drop() {
	form = FREE; holder = 0; fence = 0; outer = false; inner = false; barred = false; beside = 0
}

inline remember_grave(id) {
	dead[id] = true; graves = true; flagged = true;
#ifndef MUTANT_BURY_UNSEEN
	barred = true
#endif
}

/* Grant a free K to the next waiter. asker: 0, or the waiter that gets the grant in its answer. */
inline grant(asker) {
	do
	:: form != FREE || queued == 0 -> break
	:: else ->
		i = queue[0];
		remove(i, 0);
		if
		:: i == asker -> hold(ONE, i); mark = 0; flagged = true
		:: i != asker && listens[CLIENT(i)] ->
			hold(ONE, i); mark = CLIENT(i) + 1; flagged = true;
			told[i] = fence
		:: else /* its client does not listen */
		fi
	od
}

/* A client that did not claim its grant is a ghost, and its waiters leave, unless that client
 * is the asker. */
inline read(asker) {
	if
	:: form == FREE && mark ->
		if
		:: mark != asker -> remove(0, mark - 1)
		:: else
		fi;
		mark = 0
	:: else
	fi
}

/* Make F plain, unless a waiter, the form of K, a mark or a dead id needs the flag. */
inline settle() {
	if
#ifdef MUTANT_GRAVES_FORGOTTEN
	:: queued == 0 && form != ONE && !(mark && form != FREE) -> flagged = false; graves = false
#else
	:: queued == 0 && form != ONE && !(mark && form != FREE) && !graves -> flagged = false
#endif
	:: else
	fi
}

inline take(id) {
	if
#ifdef MUTANT_TAKE_BLIND
	:: form == FREE -> hold(TAKEN, id); r_state = HELD; r_fence = fence
#else
	:: form == FREE && !flagged -> hold(TAKEN, id); r_state = HELD; r_fence = fence
#endif
	:: else -> r_state = NOT
	fi
}

inline hdel(id, its_fence) {
	if
	:: beside == id -> beside = 0; r_state = YES
#ifdef MUTANT_HDEL_WITHOUT_ID
	:: beside != id && form == TAKEN -> drop(); r_state = YES
#else
	:: beside != id && form == TAKEN && holder == id && fence == its_fence -> drop(); r_state = YES
#endif
	:: else -> r_state = NOT
	fi
}

inline wait(id) {
	look_for(id);
	if
#ifdef MUTANT_WAIT_ON_TAKEN
	:: (form == ONE || form == TAKEN) && !barred && holder != id && !found ->
		enqueue(id); r_state = QUEUED
#else
	:: form == ONE && !barred && holder != id && !found -> enqueue(id); r_state = QUEUED
#endif
	:: else -> r_state = NOT
	fi
}

inline acquire(id) {
	read(CLIENT(id) + 1);
	if
	:: form != FREE && holder == id && (form != MANY || outer) ->
		remove(id, 0);
		r_state = HELD; r_fence = fence
	:: !(form != FREE && holder == id && (form != MANY || outer)) && graves && dead[id] ->
		remove(id, 0);
		r_state = DEAD
	:: else ->
		look_for(id);
		if
		:: found ->
#ifndef MUTANT_FLAG_NOT_HEALED
			flagged = true;
#endif
			grant(id)
		:: else -> grant(0)
		fi;
		if
		:: form != FREE && holder == id -> r_state = HELD; r_fence = fence
		:: form == FREE -> /* then no waiter is queued */
			hold(TAKEN, id);
			mark = 0; flagged = graves;
			r_state = HELD; r_fence = fence
		:: else ->
			look_for(id);
			if
			:: !found ->
				enqueue(id);
#ifndef MUTANT_FLAG_LATE
				flagged = true
#endif
			:: else
			fi;
			if
			:: form == TAKEN ->
#ifdef MUTANT_PLAIN_STAYS
				beside = holder;
#endif
				form = ONE; barred = graves
			:: else
			fi;
			r_state = QUEUED
		fi
	fi;
	settle()
}

/* Nest a hold of the same owner: the form becomes MANY. */
inline nest() {
	if
	:: form == TAKEN || form == ONE ->
#ifdef MUTANT_NESTED_STAYS_PLAIN
		beside = (form == TAKEN -> holder : 0);
#endif
		form = MANY; outer = true
	:: else
	fi;
	inner = true
}

inline after_release() {
	if
	:: form == FREE -> mark = 0
	:: else
	fi;
	grant(0);
	settle()
}

inline unnest() {
	inner = false;
	if
	:: !outer -> drop()
	:: else
	fi;
	after_release()
}

inline release_long(id, bury) {
	read(0);
	if
	:: bury ->
		remove(id, 0);
#ifndef MUTANT_NO_BURY
		remember_grave(id)
#endif
	:: else
	fi;
	r_state = NOT;
	if
	:: form != FREE && form != MANY && holder == id -> drop(); r_state = YES
	:: form == MANY && holder == id && outer ->
		outer = false;
		if
		:: !inner -> drop()
		:: else
		fi;
		r_state = YES
	:: else
	fi;
	after_release()
}

/* Release by a fast path, or else by the general script. */
inline release_short(id) {
	if
	:: form == TAKEN && holder == id -> drop(); r_state = YES /* as by HDEL */
	:: form == ONE && holder == id && queued == 0 ->
		drop();
		mark = 0;
#ifdef MUTANT_SHORT_FORGETS_GRAVES
		graves = false;
#endif
		flagged = graves;
		r_state = YES
	:: form == ONE && holder == id && queued && listens[CLIENT(queue[0])] ->
		drop();
		grant(0);
		r_state = YES
	:: form == FREE || (form != MANY && holder != id) -> r_state = NOT
#ifdef MUTANT_SHORT_GIVES_UP
	:: else -> r_state = NOT
#else
	:: else -> release_long(id, false)
#endif
	fi
}

/* Leave the queue. A hold that was granted before stands. */
inline cancel(id, bury) {
	read(0);
	remove(id, 0);
	if
	:: form != FREE && holder == id -> r_state = HELD; r_fence = fence
	:: else ->
		if
		:: bury -> remember_grave(id)
		:: else
		fi;
		grant(0);
		settle();
		r_state = NOT
	fi
}

inline claim(id) {
	if
	:: form != FREE && holder == id && mark == CLIENT(id) + 1 -> mark = 0
	:: else
	fi
}

inline carry_out(what, id, its_fence) {
	r_state = NOT; r_fence = 0;
	if
	:: what == TAKE -> take(id)
	:: what == HDEL -> hdel(id, its_fence)
	:: what == WAIT -> wait(id)
	:: what == ACQUIRE -> acquire(id)
	:: what == SHORT -> release_short(id)
	:: what == LONG -> release_long(id, false)
	:: what == BURY -> release_long(id, true)
	:: what == CANCEL -> cancel(id, false)
	:: what == CANCEL_BURY -> cancel(id, true)
	:: what == CLAIM -> claim(id)
	:: else
	fi;
	check(what)
}

/* Check the state after each script. */
inline check(what) {
	must(PLAIN, forgot || flagged || (queued == 0 && form != ONE && !(mark && form != FREE) && !graves));
	must(PLAIN, flagged || what != ACQUIRE || r_state != QUEUED);
	must(PLAIN, form != TAKEN || queued == 0 || forgot);
	found = 0;
	for (j : 1 .. queued) {
		must(ORPHAN, forgot || !dead[queue[j - 1]]);
		found = found || (listens[CLIENT(queue[j - 1])] && !over[queue[j - 1]])
	}
	must(WOKEN, ended || forgot || form != FREE || !found);
	i = 0; j = 0; at = 0; found = 0
}

/* --------------------------------------------------------------- Clients */

/* Count the lock as acquired. */
inline complete(id, its_fence) {
	for (j : 1 .. ALL - 1) { must(EXCLUSION, !holds[j]) }
	must(FENCE, its_fence > newest);
	newest = its_fence;
	holds[id] = true; told[id] = 0;
	j = 0
}

#define NESTED(id) (NESTS && form == MANY && holder == id && inner)
#define CALL(request) what = request; goto calling

proctype client(byte me) {
	mtype what = NOTHING;
	byte id = me * IDS, state, given;
	bool bury, nested;

another:
	atomic {
		id++;
		state = 0; given = 0; bury = false; nested = false; what = NOTHING;
		if
		:: id > (me + 1) * IDS -> goto end_of_it
		:: else
		fi;
		if
		:: CALL(TAKE)
		:: CALL(WAIT)
		:: CALL(ACQUIRE)
		fi
	}

calling:
	if
	:: atomic {
		d_step {
			carry_out(what, id, given);
			state = r_state; given = (r_fence -> r_fence : given);
			r_state = 0; r_fence = 0
		};
		goto answered
	   }
	:: atomic { faults > 0 -> /* the answer is lost */
		faults--;
		d_step { carry_out(what, id, given); r_state = 0; r_fence = 0 };
		goto again
	   }
	:: atomic { faults > 0 && late[me] == NOTHING -> /* the request is still under way */
		faults--;
		late[me] = what; late_id[me] = id; late_fence[me] = given;
		goto again
	   }
	fi;
again:
	atomic {
		bury = bury || what == TAKE || what == WAIT || what == ACQUIRE;
		if
		:: what == TAKE || what == WAIT -> CALL(ACQUIRE)
		:: what == HDEL -> CALL(SHORT)
		:: else -> goto calling
		fi
	}

answered:
	atomic {
		if
		:: (what == TAKE || what == WAIT) && state == NOT -> CALL(ACQUIRE)
#ifdef MUTANT_GRANTED_CANCEL_IGNORED
		:: (what == TAKE || what == ACQUIRE) && state == HELD ->
#else
		:: (what == TAKE || what == ACQUIRE || what == CANCEL || what == CANCEL_BURY) && state == HELD ->
#endif
			if
			:: given <= past[id] -> CALL(BURY) /* the hold ended before its answer arrived */
			:: else -> complete(id, given); goto held
			fi
		:: (what == WAIT || what == ACQUIRE) && state == QUEUED -> goto waiting
		:: what == CLAIM -> goto held
#ifndef MUTANT_HDEL_NOT_ASKED_AGAIN
		:: what == HDEL && state == NOT -> CALL(SHORT)
#endif
		:: else -> /* dead, cancelled or released */
			over[id] = true;
			goto another
		fi
	}

held:
	atomic { what = NOTHING; state = 0 }
	if
	:: atomic { holds[id] && mark == me + 1 -> CALL(CLAIM) }
	:: atomic { NESTS && holds[id] && !nested -> nested = true; d_step { nest(); check(NOTHING) }; goto held }
	:: atomic { NESTED(id) ->
		d_step { unnest(); check(NOTHING) };
		goto held
	   }
	:: atomic { !bury && !NESTED(id) -> holds[id] = false; CALL(HDEL) }
	:: atomic { !bury && !NESTED(id) -> holds[id] = false; CALL(SHORT) }
	:: atomic { !bury && nested -> /* the outer hold first */
		holds[id] = false;
		d_step { carry_out(HDEL, id, given); state = r_state };
		if
		:: state == NOT -> d_step { carry_out(LONG, id, given); state = 0; r_state = 0 }
		:: else -> state = 0
		fi;
		if
		:: NESTED(id) -> d_step { unnest(); check(NOTHING) }
		:: else
		fi;
		over[id] = true;
		goto another
	   }
	:: atomic { bury && !NESTED(id) -> holds[id] = false; CALL(BURY) }
	:: atomic { crashes > 0 -> goto crash }
	fi;

waiting:
	atomic { what = NOTHING; state = 0 }
	if
	:: atomic { told[id] ->
		given = told[id]; told[id] = 0;
		if
		:: given <= past[id] -> CALL(BURY)
		:: else -> complete(id, given); goto held
		fi
	   }
	:: atomic { true -> CALL(ACQUIRE) } /* a re-check */
	:: atomic { true ->
		if
		:: bury -> CALL(CANCEL_BURY)
		:: else -> CALL(CANCEL)
		fi
	   }
	:: atomic { crashes > 0 -> goto crash }
	fi;

crash:
	atomic {
		crashes--; crashed[me] = true; listens[me] = false;
		holds[id] = false; over[id] = true
	}
end_of_it:
	atomic {
		id = 0; state = 0; given = 0; bury = false; nested = false; what = NOTHING;
		done[me] = true
	}
}

/* ------------------------------------------------------- Everything else */

#define UNKNOWN(id) (told[id] && over[id] && !crashed[CLIENT(id)])

#ifdef MUTANT_UNKNOWN_GRANT_KEPT
#define RETURNING false
#else
#define RETURNING (form != FREE && UNKNOWN(holder))
#endif

active proctype network() {
	byte c, id;
end:
	do
	/* A request under way arrives, or is lost. No client reads its answer. */
	:: atomic { late[0] != NOTHING -> c = 0 } arrive:
		atomic {
			if
			:: d_step {
				carry_out(late[c], late_id[c], late_fence[c]);
				r_state = 0; r_fence = 0
			   }
			:: true
			fi;
			late[c] = NOTHING; late_id[c] = 0; late_fence[c] = 0; c = 0
		}
	:: atomic { late[1] != NOTHING -> c = 1; goto arrive }
	/* A grant that no acquire waits for is given back; a grant to a dead client is lost. */
#ifndef MUTANT_UNKNOWN_GRANT_KEPT
	:: atomic { UNKNOWN(1) -> id = 1 } back:
		atomic {
			d_step { told[id] = 0; carry_out(BURY, id, 0); r_state = 0 };
			id = 0
		}
	:: atomic { UNKNOWN(2) -> id = 2; goto back }
#if IDS > 1
	:: atomic { UNKNOWN(3) -> id = 3; goto back }
	:: atomic { UNKNOWN(4) -> id = 4; goto back }
#endif
#endif
	:: atomic { told[1] && faults > 0 -> faults--; told[1] = 0; ended = true }
	:: atomic { told[IDS + 1] && faults > 0 -> faults--; told[IDS + 1] = 0; ended = true }
	/* The lease of a live or of a dead holder ends. */
	:: atomic { form != FREE && (ends > 0 || crashed[CLIENT(holder)]) ->
		ends = (crashed[CLIENT(holder)] -> ends : ends - 1);
		d_step { holds[holder] = false; past[holder] = fence; drop(); ended = true }
	   }
	:: atomic { forgets > 0 -> forgets--; forgot = true; flagged = false; mark = 0; graves = false }
	od
}

#define QUIET(c) (done[c] && late[c] == NOTHING)

init {
	atomic {
		listens[0] = true; listens[1] = true;
		run client(0);
		run client(1)
	}
	/* When all is quiet, no finished client holds the lock or is queued. There is an exception:
	 * the loss of F loses the dead ids, too. Then a late request may queue a dead id, which is
	 * granted and given back; if that message is lost too, the grant ends unclaimed. */
	atomic {
		QUIET(0) && QUIET(1) && !RETURNING ->
		must(ORPHAN, form == FREE || crashed[CLIENT(holder)]
			|| (forgot && mark == CLIENT(holder) + 1 && dead[holder] && !told[holder]));
		for (j : 1 .. queued) {
			must(ORPHAN, crashed[CLIENT(queue[j - 1])] || (forgot && dead[queue[j - 1]]))
		}
		j = 0
	}
}

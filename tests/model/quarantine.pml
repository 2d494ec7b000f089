/*
 * A lock on three independent masters, with time: one holder at a time, and fences that
 * grow although masters come back empty. quorum.pml has the ballots without time, and the
 * rule by which a master confirms a fence.
 *
 * Leases run evenly on all masters, whose clocks differ by SKEW ticks; a fence is a hybrid
 * logical clock with UNIT fences in a tick. Requests and answers take any time. A client
 * counts a vote from the time of its request, for as long as the answer says, and a hold
 * for as long as a majority of its votes stands. A master that has come back empty is not
 * asked until it has been up for its QUARANTINE; only a holder asks it at once, with its
 * fence as the floor, and the vote joins the hold.
 *
 * A run has a budget of RESTARTS of masters, which lose all data; RENEWALS, joins
 * included; LOST answers, after which a master is asked again; STEPS of a master's clock,
 * which end its vote; and RELEASES. ALL: the first ballot is held only when all masters
 * have confirmed.
 *
 * -D sets these, the sizes, and at most one mutant. README.md lists the mutants.
 */
#define MASTERS 3
#define BALLOTS 2
#define NEEDED 2
#ifndef LEASE
#define LEASE 2
#endif
#ifndef QUARANTINE
#define QUARANTINE 2
#endif
#ifndef UNTIL
#define UNTIL 4 /* time ends here */
#endif
#ifndef SKEW
#define SKEW 0
#endif
#ifndef FAST
#define FAST 1 /* the number of masters whose clock is ahead */
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef STEPS
#define STEPS 0
#endif
#ifndef RELEASES
#define RELEASES 0
#endif
#define UNIT 4
#define BIT(m) (1 << (m))
#define IN(set, m) (((set) >> (m)) & 1)
#define COUNT(set) (IN(set, 0) + IN(set, 1) + IN(set, 2))
#define MAX(x, y) ((x) > (y) -> (x) : (y))
#define AT(b, m) ((b) * MASTERS + (m))
#define must(property, condition) assert(condition)

byte now = 1;

/* ------------------------------------------------------------ The masters */

byte holder[MASTERS]; /* 1 more than the ballot whose vote stands; 0: none */
byte ends[MASTERS], given[MASTERS], last[MASTERS];
byte young[MASTERS]; /* how long its quarantine still lasts */
byte ahead[MASTERS]; /* how far its clock is ahead */
#define CLOCK(m) (UNIT * (now + ahead[m]))

/* ------------------------------------------------------------ The ballots */

#define NEW 0
#define ASKS 1
#define CONFIRMS 2
#define HELD 3
#define ENDED 4
byte phase[BALLOTS], fence[BALLOTS];
byte above[BALLOTS];                                    /* the greatest fence that had returned when it began */
byte first[BALLOTS], again[BALLOTS], renewal[BALLOTS]; /* the masters to which a request is under way */
byte confirmed[BALLOTS];
byte sent[BALLOTS * MASTERS];   /* the time of the request under way */
byte counts[BALLOTS * MASTERS]; /* the vote counts until then */
byte answer[BALLOTS * MASTERS];
#define LIVE(b, m) (counts[AT(b, m)] > now)
#define VOTES(b) (LIVE(b, 0) + LIVE(b, 1) + LIVE(b, 2))
#define ANSWERED(b, m) (answer[AT(b, m)] > 0)
#define ANSWERS(b) (ANSWERED(b, 0) + ANSWERED(b, 1) + ANSWERED(b, 2))
#ifdef MUTANT_THE_LONGEST_VOTE_COUNTS
#define VALID(b) (VOTES(b) >= 1)
#else
#define VALID(b) (VOTES(b) >= NEEDED)
#endif
#ifdef MUTANT_A_LOST_HOLD_JOINS
#define COUNTED(b) (phase[b] == HELD || phase[b] == ENDED)
#else
#define COUNTED(b) (phase[b] == HELD)
#endif

byte restarts = RESTARTS, renewals = RENEWALS, lost = LOST, steps = STEPS, releases = RELEASES;
hidden byte g, the_floor, rest, o;

inline forget_ways(b, m) {
	first[b] = first[b] & ~BIT(m); again[b] = again[b] & ~BIT(m); renewal[b] = renewal[b] & ~BIT(m);
	sent[AT(b, m)] = 0
}

/* End a hold: its requests under way and its votes no longer count. */
inline lose(b) {
	phase[b] = ENDED; confirmed[b] = 0;
	for (o : 0 .. MASTERS - 1) { forget_ways(b, o); counts[AT(b, o)] = 0; answer[AT(b, o)] = 0 }
	o = 0
}

inline lapse(b) {
#ifndef MUTANT_A_LOST_HOLD_JOINS
	if
	:: phase[b] == HELD && !VALID(b) -> lose(b)
	:: else
	fi
#else
	skip
#endif
}

/* Check that a hold just renewed or joined has the greatest fence of all holds. */
inline still_first(b) {
	for (o : 0 .. BALLOTS - 1) {
		must(EXCLUSION, o == b || !COUNTED(o) || !VALID(o) || fence[o] < fence[b])
	}
	o = 0
}

#if defined(MUTANT_NO_QUARANTINE) || defined(MUTANT_A_VOTE_FROM_QUARANTINE)
#define MAY_BE_ASKED(m) true
#else
#define MAY_BE_ASKED(m) (young[m] == 0)
#endif
#ifdef MUTANT_ASKED_AGAIN_IN_QUARANTINE
#define MAY_BE_ASKED_AGAIN(m) true
#else
#define MAY_BE_ASKED_AGAIN(m) MAY_BE_ASKED(m)
#endif

inline start(b) {
	phase[b] = ASKS;
	for (o : 0 .. BALLOTS - 1) {
		above[b] = (phase[o] == HELD || phase[o] == ENDED -> MAX(above[b], fence[o]) : above[b])
	}
	for (o : 0 .. MASTERS - 1) {
		if
		:: MAY_BE_ASKED(o) -> first[b] = first[b] | BIT(o); sent[AT(b, o)] = now
		:: else
		fi
	}
	o = 0
}

inline choose(b) {
	phase[b] = CONFIRMS;
	for (o : 0 .. MASTERS - 1) { fence[b] = MAX(fence[b], answer[AT(b, o)]) }
	for (o : 0 .. MASTERS - 1) {
		if
#ifdef MUTANT_HELD_WITHOUT_CONFIRMATION
		:: ANSWERED(b, o) -> confirmed[b] = confirmed[b] | BIT(o)
#else
		:: ANSWERED(b, o) && answer[AT(b, o)] == fence[b] -> confirmed[b] = confirmed[b] | BIT(o)
#endif
		:: ANSWERED(b, o) && answer[AT(b, o)] != fence[b] && !IN(first[b], o) && MAY_BE_ASKED_AGAIN(o) ->
			again[b] = again[b] | BIT(o); sent[AT(b, o)] = now
		:: else
		fi;
		answer[AT(b, o)] = 0
	}
	o = 0
}

inline complete(b) {
	must(FENCE, fence[b] > above[b]);
	for (o : 0 .. BALLOTS - 1) {
		must(EXCLUSION, o == b || !COUNTED(o) || !VALID(o));
		must(UNIQUE, o == b || (phase[o] != HELD && phase[o] != ENDED) || fence[o] != fence[b])
	}
	phase[b] = HELD; above[b] = 0; confirmed[b] = 0;
	for (o : 0 .. MASTERS - 1) { forget_ways(b, o) }
	o = 0
}

/* Serve `acquire` for an id that has its vote, or at a free master. */
inline serve(b, m) {
	last[m] = MAX(last[m], the_floor);
	if
	:: holder[m] == b + 1 -> g = given[m]; rest = ends[m] - now
	:: else ->
		g = MAX(last[m] + 1, CLOCK(m)); rest = LEASE;
		last[m] = g; holder[m] = b + 1; given[m] = g; ends[m] = now + LEASE
	fi
}

inline hear(b, m) {
#ifdef MUTANT_RETRY_COUNTS_WHOLE
	rest = LEASE;
#endif
#ifdef MUTANT_COUNTED_FROM_THE_ANSWER
	counts[AT(b, m)] = MAX(counts[AT(b, m)], now + 1 + rest); /* the answer took a tick */
#else
	counts[AT(b, m)] = MAX(counts[AT(b, m)], sent[AT(b, m)] + rest);
#endif
	if
	:: phase[b] == ASKS -> answer[AT(b, m)] = g
	:: phase[b] == CONFIRMS && g <= fence[b] && fence[b] <= MAX(g, the_floor) -> confirmed[b] = confirmed[b] | BIT(m)
	:: phase[b] == HELD -> still_first(b)
	:: else
	fi;
	sent[AT(b, m)] = 0
}

inline renew(b, m) {
	renewal[b] = renewal[b] & ~BIT(m);
	if
	:: holder[m] == b + 1 ->
		ends[m] = now + LEASE;
#ifdef MUTANT_ONE_RENEWAL_COUNTS
		for (o : 0 .. MASTERS - 1) { counts[AT(b, o)] = MAX(counts[AT(b, o)], sent[AT(b, m)] + LEASE) }
		o = 0;
#else
		counts[AT(b, m)] = MAX(counts[AT(b, m)], sent[AT(b, m)] + LEASE);
#endif
		still_first(b);
		sent[AT(b, m)] = 0
	:: else ->
		counts[AT(b, m)] = 0; sent[AT(b, m)] = 0;
		lapse(b)
	fi
}

#define ROOM(b, m) (holder[m] == 0 || holder[m] == b + 1)
#define UNDER_WAY(b, m) IN(first[b] | again[b] | renewal[b], m)

proctype way(byte b; byte m) {
end:
	do
	:: d_step { IN(first[b], m) && ROOM(b, m) ->
		first[b] = first[b] & ~BIT(m); serve(b, m); hear(b, m); g = 0; rest = 0
	   }
	:: d_step { IN(again[b], m) && ROOM(b, m) ->
		again[b] = again[b] & ~BIT(m); the_floor = fence[b]; serve(b, m); hear(b, m); g = 0; rest = 0; the_floor = 0
	   }
	/* The answer is lost, and the master is asked again. */
	:: d_step { lost > 0 && IN(first[b], m) && ROOM(b, m) ->
		lost--; serve(b, m); sent[AT(b, m)] = now; g = 0; rest = 0
	   }
	:: d_step { lost > 0 && IN(again[b], m) && ROOM(b, m) ->
		lost--; the_floor = fence[b]; serve(b, m); sent[AT(b, m)] = now; g = 0; rest = 0; the_floor = 0
	   }
	:: d_step { COUNTED(b) && renewals > 0 && LIVE(b, m) && !UNDER_WAY(b, m) ->
		renewals--; renewal[b] = renewal[b] | BIT(m); sent[AT(b, m)] = now
	   }
	:: d_step { IN(renewal[b], m) -> renew(b, m) }
	:: d_step { COUNTED(b) && renewals > 0 && !LIVE(b, m) && !UNDER_WAY(b, m) -> /* a vote joins */
		renewals--; again[b] = again[b] | BIT(m); sent[AT(b, m)] = now
	   }
	od
}

#ifdef MUTANT_A_VOTE_FROM_QUARANTINE
#define RIPE(b, m) (ANSWERED(b, m) && young[m] == 0)
#define CHOOSES(b) (RIPE(b, 0) + RIPE(b, 1) + RIPE(b, 2) >= NEEDED)
#else
#define CHOOSES(b) (ANSWERS(b) >= NEEDED)
#endif
/* Do its votes stand, and has a majority confirmed? */
#if defined(MUTANT_NO_LAST_LOOK)
#define ENOUGH(b) (COUNT(confirmed[b]) >= NEEDED)
#elif defined(ALL)
#define ENOUGH(b) (VOTES(b) >= WANTED(b) && COUNT(confirmed[b]) >= WANTED(b))
#define WANTED(b) (b == 0 -> MASTERS : NEEDED)
#else
#define ENOUGH(b) (VOTES(b) >= NEEDED && COUNT(confirmed[b]) >= NEEDED)
#endif

proctype ballot(byte b) {
end:
	do
	:: d_step { phase[b] == NEW && (b == 0 || phase[b - 1] != NEW) -> start(b) }
	:: d_step { phase[b] == ASKS && CHOOSES(b) -> choose(b) }
	:: d_step { phase[b] == CONFIRMS && ENOUGH(b) -> complete(b) }
#if RELEASES > 0
	:: d_step { phase[b] == HELD && releases > 0 ->
		releases--;
		for (o : 0 .. MASTERS - 1) {
			if
			:: holder[o] == b + 1 -> holder[o] = 0; given[o] = 0; ends[o] = 0
			:: else
			fi
		}
		lose(b)
	   }
#endif
	od
}

/* ------------------------------------------------------- Everything else */

inline free(m) { holder[m] = 0; given[m] = 0; ends[m] = 0 }

proctype master(byte m) {
	byte b;
end:
	do
	/* A restart. The clients notice that their connections end. */
	:: d_step { restarts > 0 && last[m] > 0 ->
		restarts--; free(m); last[m] = 0; young[m] = QUARANTINE;
		for (b : 0 .. BALLOTS - 1) { forget_ways(b, m) }
		b = 0
	   }
	:: d_step { steps > 0 && holder[m] -> steps--; free(m); ahead[m] = ahead[m] + LEASE }
	od
}

/* Treat a vote that has ended like no vote. */
inline fade(b, m) {
	counts[AT(b, m)] = (LIVE(b, m) -> counts[AT(b, m)] : 0)
}

active proctype time() {
	byte m;
end:
	do
	:: d_step { now < UNTIL && phase[0] != NEW ->
		now++;
		for (m : 0 .. MASTERS - 1) {
			if
			:: holder[m] && ends[m] <= now -> free(m)
			:: else
			fi;
			young[m] = (young[m] -> young[m] - 1 : 0);
			fade(0, m); fade(1, m)
		}
		m = 0;
		lapse(0); lapse(1)
	   }
	od
}

init {
	atomic {
		byte b, m;
		/* It does not matter which masters are ahead. */
		for (m : 0 .. FAST - 1) { ahead[m] = SKEW }
		for (b : 0 .. BALLOTS - 1) {
			run ballot(b);
			for (m : 0 .. MASTERS - 1) { run way(b, m) }
		}
#if RESTARTS + STEPS > 0
		for (m : 0 .. MASTERS - 1) { run master(m) }
#endif
		b = 0; m = 0
	}
}

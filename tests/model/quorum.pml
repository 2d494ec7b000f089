/*
 * A lock on several independent masters: its fences, without any trust in time. A ballot
 * is one acquire, with one hold id for all masters; its hold on one master is a vote.
 *
 * One request asks and confirms: `acquire` with a floor, without a place in the queue. A
 * master raises its last fence to the floor. If the id has its vote already, the master
 * answers with the fence g that the vote was given; otherwise it refuses, or gives the
 * vote, with g = last + 1, or more by its clock. The ballot first asks with a floor just
 * below its proposal. When a majority has answered, it chooses its fence F, and asks again,
 * with F as the floor, where F is not confirmed. A master confirms F by one answer with
 * g <= F <= max(g, floor). The ballot is held when a majority has confirmed F.
 *
 * Any vote may end at any moment, and any request or answer may be lost. A run has a
 * budget of COPIES that arrive late, JUMPS of clocks, STRANGERS that take a vote, and
 * RESTARTS of masters that come back empty. REFUSALS: a master may be busy. SLOW: an
 * answer may arrive some time after the request was carried out. JOINS: a holder asks the
 * masters whose votes it lacks. FIRST: the first fences of the masters differ by FIRST.
 *
 * -D sets these, the sizes, and at most one mutant. README.md lists the mutants.
 */
#ifndef MASTERS
#define MASTERS 3
#endif
#ifndef BALLOTS
#define BALLOTS 2
#endif
#ifndef MOST
#define MOST 4 /* the greatest fence */
#endif
#ifndef PROPOSALS
#define PROPOSALS 0 /* the greatest proposal */
#endif
#ifndef COPIES
#define COPIES 0
#endif
#ifndef JUMPS
#define JUMPS 0
#endif
#ifndef STRANGERS
#define STRANGERS 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef FIRST
#define FIRST 0
#endif
/* The masters in the first ballot's list, and in the other ballots', as bits. */
#define EVERY ((1 << MASTERS) - 1)
#ifndef LIST
#define LIST EVERY
#endif
#ifndef OTHER
#define OTHER EVERY
#endif
#define MEMBERS(b) ((b) == 0 -> LIST : OTHER)
#ifdef MUTANT_A_MINORITY_DECIDES
#define NEEDED(b) (COUNT(MEMBERS(b)) / 2)
#else
#define NEEDED(b) (COUNT(MEMBERS(b)) / 2 + 1)
#endif
#define BIT(m) (1 << (m))
#define IN(set, m) (((set) >> (m)) & 1)
#define COUNT(set) (IN(set, 0) + IN(set, 1) + IN(set, 2) + IN(set, 3) + IN(set, 4))
#define MAX(x, y) ((x) > (y) -> (x) : (y))
#define AT(b, m) ((b) * MASTERS + (m))
#define must(property, condition) assert(condition)

/* ------------------------------------------------------------ The masters */

byte holder[MASTERS]; /* the id whose vote stands; 0: none */
byte given[MASTERS];  /* its fence */
byte last[MASTERS];

/* ------------------------------------------------------------ The ballots */

#define NEW 0
#define ASKS 1
#define CONFIRMS 2
#define HELD 3
byte phase[BALLOTS], proposal[BALLOTS], fence[BALLOTS];
byte above[BALLOTS];                  /* the greatest fence that had returned when it began */
byte first[BALLOTS], again[BALLOTS];  /* the masters to which a request is under way */
byte heard[BALLOTS], confirmed[BALLOTS];
byte answer[BALLOTS * MASTERS];
#ifdef SLOW
byte slow[BALLOTS * MASTERS], slow_floor[BALLOTS * MASTERS]; /* an answer under way */
#endif

byte copies = COPIES, jumps = JUMPS, strangers = STRANGERS, restarts = RESTARTS;
hidden byte g, the_floor, o, sum;

#ifdef MUTANT_IDS_ARE_SHARED
#define ID(b) 1
#else
#define ID(b) ((b) + 1)
#endif
#define FLOOR(b) (proposal[b] -> proposal[b] - 1 : 0)
#if defined(MUTANT_ANY_FENCE_CONFIRMS)
#define CONFIRMED(b, g, floor) true
#elif defined(MUTANT_AN_EARLIER_ANSWER_CONFIRMS)
#define CONFIRMED(b, g, floor) ((g) <= fence[b])
#else
#define CONFIRMED(b, g, floor) ((g) <= fence[b] && fence[b] <= MAX(g, floor))
#endif

inline leave(b, m) {
	given[m] = (holder[m] == ID(b) -> 0 : given[m]);
	holder[m] = (holder[m] == ID(b) -> 0 : holder[m])
}

inline unlike_others(b) {
	for (o : 0 .. BALLOTS - 1) { must(UNIQUE, o == b || phase[o] != HELD || fence[o] != fence[b]) }
	o = 0
}

inline start(b, its_proposal) {
	phase[b] = ASKS; proposal[b] = its_proposal; first[b] = MEMBERS(b);
	for (o : 0 .. BALLOTS - 1) { above[b] = (phase[o] == HELD -> MAX(above[b], fence[o]) : above[b]) }
	o = 0
}

/* Choose a fence that a majority has already confirmed, or else the greatest. */
inline choose(b) {
	phase[b] = CONFIRMS; g = 0; confirmed[b] = 0;
	for (o : 0 .. MASTERS - 1) { g = MAX(g, answer[AT(b, o)]) }
	for (o : 0 .. MASTERS - 1) {
		fence[b] = answer[AT(b, o)];
		sum = 0;
		for (m : 0 .. MASTERS - 1) {
			sum = sum + (answer[AT(b, m)] && CONFIRMED(b, answer[AT(b, m)], FLOOR(b)) -> 1 : 0)
		}
		g = (fence[b] && sum >= NEEDED(b) -> fence[b] : g)
	}
#ifdef MUTANT_THE_SMALLEST_FENCE
	for (o : 0 .. MASTERS - 1) { g = (answer[AT(b, o)] && answer[AT(b, o)] < g -> answer[AT(b, o)] : g) }
#endif
#ifdef MUTANT_THE_PROPOSAL_IS_THE_FENCE
	g = MAX(proposal[b], 1);
#endif
	fence[b] = g;
	for (o : 0 .. MASTERS - 1) {
		if
#if defined(MUTANT_HELD_WITHOUT_CONFIRMATION) || defined(MUTANT_THE_SMALLEST_FENCE) || defined(MUTANT_THE_PROPOSAL_IS_THE_FENCE)
		:: answer[AT(b, o)] -> confirmed[b] = confirmed[b] | BIT(o)
#else
		:: answer[AT(b, o)] && CONFIRMED(b, answer[AT(b, o)], FLOOR(b)) -> confirmed[b] = confirmed[b] | BIT(o)
#endif
		:: else
		fi;
		answer[AT(b, o)] = 0
	}
	again[b] = MEMBERS(b) & ~confirmed[b];
	heard[b] = 0; g = 0; o = 0; m = 0; sum = 0
}

/* Hold the lock. The ballot's requests still under way can only raise fences. */
inline complete(b) {
	phase[b] = HELD;
	must(FENCE, fence[b] > above[b]);
	unlike_others(b);
	above[b] = 0; proposal[b] = 0; first[b] = 0; heard[b] = 0;
#ifdef JOINS
	again[b] = MEMBERS(b) & ~confirmed[b]
#else
	again[b] = 0; confirmed[b] = 0;
	for (o : 0 .. MASTERS - 1) {
		leave(b, o);
#ifdef SLOW
		slow[AT(b, o)] = 0; slow_floor[AT(b, o)] = 0
#endif
	}
	o = 0
#endif
}

/* Receive the answer g to a request with the_floor. */
inline hear(b, m) {
	if
	:: phase[b] == ASKS -> answer[AT(b, m)] = g; heard[b] = heard[b] | BIT(m)
	:: phase[b] == CONFIRMS ->
#ifdef MUTANT_A_LATE_FENCE_RAISES_IT
		fence[b] = MAX(fence[b], g);
#endif
		confirmed[b] = (CONFIRMED(b, g, the_floor) -> confirmed[b] | BIT(m) : confirmed[b])
#ifdef JOINS
	:: phase[b] == HELD -> /* the vote joins: its g may be above F */
		confirmed[b] = confirmed[b] | BIT(m);
#ifdef MUTANT_A_JOIN_RAISES_IT
		fence[b] = MAX(fence[b], g);
		unlike_others(b);
#endif
		leave(b, m)
#endif
	:: else
	fi
}

/* Serve `acquire`. anew: the vote that stood, its own or another's, has just ended. */
inline serve(b, m, ahead, anew) {
#ifdef MUTANT_CONFIRMED_WITHOUT_STORING
	last[m] = (holder[m] == ID(b) -> last[m] : MAX(last[m], the_floor));
#else
	last[m] = MAX(last[m], the_floor);
#endif
	if
	:: holder[m] == ID(b) && !anew -> g = given[m]
	:: else ->
#ifdef MUTANT_THE_LAST_FENCE_AGAIN
		g = MAX(last[m], 1) + ahead;
#else
		g = last[m] + 1 + ahead;
#endif
		holder[m] = ID(b); given[m] = g; last[m] = g
	fi
}

inline busy(b, m) {
	last[m] = MAX(last[m], the_floor);
#ifdef MUTANT_A_REFUSAL_CONFIRMS
	confirmed[b] = (phase[b] == CONFIRMS -> confirmed[b] | BIT(m) : confirmed[b])
#endif
}

#ifdef SLOW
#define HEARD(b, m) slow[AT(b, m)] = g; slow_floor[AT(b, m)] = the_floor
#else
#define HEARD(b, m) hear(b, m)
#endif
#define ROOM(m, floor, more) (MAX(last[m], floor) + 1 + more <= MOST)
#define CAN(b, m, floor) (holder[m] == ID(b) || ROOM(m, floor, 0))

/* The possible ends of a request under way. */
#define REQUEST(b, m, set, its_floor) \
	:: d_step { IN(set[b], m) && CAN(b, m, its_floor) -> \
		set[b] = set[b] & ~BIT(m); the_floor = its_floor; serve(b, m, 0, false); HEARD(b, m); g = 0; the_floor = 0 } \
	:: d_step { IN(set[b], m) && CAN(b, m, its_floor) -> /* the answer is lost */ \
		set[b] = set[b] & ~BIT(m); the_floor = its_floor; serve(b, m, 0, false); g = 0; the_floor = 0 } \
	:: d_step { IN(set[b], m) && holder[m] == ID(b) && ROOM(m, its_floor, 0) -> \
		set[b] = set[b] & ~BIT(m); the_floor = its_floor; serve(b, m, 0, true); HEARD(b, m); g = 0; the_floor = 0 } \
	:: d_step { IN(set[b], m) && copies > 0 && CAN(b, m, its_floor) -> \
		copies--; the_floor = its_floor; serve(b, m, 0, false); HEARD(b, m); g = 0; the_floor = 0 } \
	:: d_step { IN(set[b], m) && jumps > 0 && ROOM(m, its_floor, 1) -> \
		jumps--; set[b] = set[b] & ~BIT(m); the_floor = its_floor; serve(b, m, 1, true); HEARD(b, m); g = 0; the_floor = 0 }
#define REFUSAL(b, m, set, its_floor) \
	:: d_step { IN(set[b], m) && holder[m] && holder[m] != ID(b) -> \
		set[b] = set[b] & ~BIT(m); the_floor = its_floor; busy(b, m); the_floor = 0 }

proctype way(byte b; byte m) {
end:
	do
	REQUEST(b, m, first, FLOOR(b))
	REQUEST(b, m, again, fence[b])
#if defined(REFUSALS) || defined(MUTANT_A_REFUSAL_CONFIRMS)
	REFUSAL(b, m, first, FLOOR(b))
	REFUSAL(b, m, again, fence[b])
#endif
#ifdef SLOW
	:: d_step { slow[AT(b, m)] ->
		g = slow[AT(b, m)]; the_floor = slow_floor[AT(b, m)];
		slow[AT(b, m)] = 0; slow_floor[AT(b, m)] = 0;
		hear(b, m);
		g = 0; the_floor = 0
	   }
#endif
	od
}

/* Ballots begin in order: it does not matter which id begins. */
#define BEGINS(b) (phase[b] == NEW && (b == 0 || phase[b - 1] != NEW))

proctype ballot(byte b) {
	byte m;
end:
	do
	:: d_step { BEGINS(b) -> start(b, 0) }
	:: d_step { BEGINS(b) && PROPOSALS >= 2 -> start(b, 2) }
	:: d_step { BEGINS(b) && PROPOSALS >= 3 -> start(b, 3) }
	:: d_step { phase[b] == ASKS && COUNT(heard[b]) >= NEEDED(b) -> choose(b) }
	:: d_step { phase[b] == CONFIRMS && COUNT(confirmed[b]) >= NEEDED(b) -> complete(b) }
	od
}

/* ------------------------------------------------------- Everything else */

/* A master may come back empty when KNOWN masters have the fence of each held ballot, and no
 * ballot is under way: two ballots under way may both count on an answer that it has forgotten. */
#define KNOWS(b, m) (last[m] >= fence[b])
#define KNOWERS(b) (KNOWS(b, 0) + KNOWS(b, 1) + KNOWS(b, 2))
#ifdef KNOWN
#define MAY_FORGET(b) (phase[b] == HELD -> KNOWERS(b) >= KNOWN : phase[b] == NEW)
#else
#define MAY_FORGET(b) true
#endif

proctype master(byte m) {
end:
	do
#ifdef MUTANT_FENCE_ENDS_WITH_ITS_HOLD
	:: d_step { last[m] -> holder[m] = 0; given[m] = 0; last[m] = 0 }
#endif
#if STRANGERS > 0
	:: d_step { strangers > 0 && last[m] < MOST -> strangers--; holder[m] = 0; given[m] = 0; last[m]++ }
#endif
#if RESTARTS > 0
	:: d_step { restarts > 0 && MAY_FORGET(0) && MAY_FORGET(1) ->
		restarts--; holder[m] = 0; given[m] = 0; last[m] = 0
	   }
#endif
	:: false
	od
}

init {
	atomic {
#if FIRST > 0
		if
		:: last[1] = FIRST
		:: true
		fi;
		if
		:: last[2] = FIRST
		:: true
		fi;
#endif
		byte b, m;
		for (b : 0 .. BALLOTS - 1) {
			run ballot(b);
			for (m : 0 .. MASTERS - 1) { run way(b, m) }
		}
#if STRANGERS > 0 || RESTARTS > 0 || defined(MUTANT_FENCE_ENDS_WITH_ITS_HOLD)
		for (m : 0 .. MASTERS - 1) { run master(m) }
#endif
	}
}

"""What must be true of the histories of run.py. README.md describes their form.

check.py --self-test    check that it notices each fault
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

SECOND = 1_000_000_000
LOST = ("LockLost", "LockLostException", "HF_ELOST")
PATIENCE = 15 * SECOND  # besides its timeout: to connect, to ask, and a pause of the machine


@dataclass
class Turn:
    """One acquire, and its outcome."""

    who: str
    key: str
    began: int
    wait: float
    ended: int | None = None  # when it was answered
    fence: int | None = None
    until: int = 0  # the hold was certain until then
    looked: int = 0  # when the holder last reported it
    released: int | None = None
    how: str = ""
    why: str = ""
    shared: bool = False
    permits: int = 0  # of a shared hold; 0: no limit
    called: bool = False  # by once(): it must make the result
    result: str | None = None  # returned by once()
    says_retry: bool = False  # allowed another call when the outcome was unknown

    @property
    def paid(self) -> bool:
        """Return whether its call is to be made at most once."""
        return self.key.startswith("paid:")

    @property
    def asks_what_is_unknown(self) -> bool:
        """Return whether it was told that the outcome is unknown."""
        return "OutcomeUnknown" in self.why or self.why == "HF_EOUTCOME"

    @property
    def over(self) -> int:
        """Return the end of the hold by its holder's own clock."""
        return self.until if self.released is None else min(self.until, self.released)


@dataclass
class Verdict:
    """The faults that were found."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wrong: list[str] = field(default_factory=list)

    def say(self, kind: str, text: str) -> None:
        """Note a fault."""
        self.counts[kind] += 1
        self.wrong.append(f"{kind}: {text}")


def turns(histories: dict[str, list[dict]]) -> list[Turn]:
    """Put together what each process wrote."""
    found = []
    for who, events in histories.items():
        open_ones: dict[int, Turn] = {}
        for event in events:
            op = event["op"]
            match event["e"]:
                case "try":
                    open_ones[op] = Turn(who, event["k"], event["at"], event["wait"])
                    open_ones[op].shared = event.get("shared", False)
                    open_ones[op].permits = event.get("permits", 0)
                    found.append(open_ones[op])
                case "got":
                    open_ones[op].ended, open_ones[op].fence = event["at"], event["fence"]
                case "not":
                    open_ones[op].ended, open_ones[op].why = event["at"], event["why"]
                case "sure":
                    open_ones[op].until = max(open_ones[op].until, event["until"])
                    open_ones[op].looked = event["at"]
                case "end":
                    open_ones[op].released = event["at"]
                case "call":
                    open_ones[op].ended, open_ones[op].called = event["at"], True
                case "retry":
                    open_ones[op].says_retry = True
                case "result":
                    open_ones[op].result = event["result"]
                    if not open_ones[op].called:
                        open_ones[op].ended = event["at"]
                case "gone":
                    open_ones[op].how = event["how"]
    return found


def check(
    histories: dict[str, list[dict]],
    taken: dict[str, list[int]],
    pauses: list[tuple[str, int, int]],
    losses: list[tuple[int, int]],
    left_behind: list[str],
    killed: set[str],
    ended: int,
    votes: bool = False,
) -> Verdict:
    """Check that the histories are right.

    histories    what each process wrote
    taken        the fences of the writes that the resource took, in order, for each key
    pauses       (process, or "" for all; from; to): while it was stopped, or had no server
    losses       (from; to): while a server may have forgotten a lock that was confirmed
    left_behind  what the server had at the end
    killed       the processes that were killed, perhaps in the middle of anything
    ended        when the last of them was to end
    votes        there are several masters: a holder that is told of a loss may have lost the lock
                 before its lease ended, by a master that forgets, and held it at its last report
    """
    verdict = Verdict()
    all_turns = turns(histories)
    for turn in all_turns:
        if votes and turn.how in LOST:
            turn.until = min(turn.until, turn.looked)
    by_key: dict[str, list[Turn]] = defaultdict(list)
    for turn in all_turns:
        if turn.fence is not None:
            by_key[turn.key].append(turn)
            verdict.counts["acquisitions"] += 1
        verdict.counts["losses"] += turn.how in LOST
        verdict.counts["unknown"] += turn.why in (
            "LockUnknown",
            "LockUnknownException",
            "HF_EUNKNOWN",
        )
        end = turn.ended if turn.ended is not None else ended
        late = end - turn.began - int(turn.wait * SECOND) - paused(turn, turn.began, end, pauses)
        if turn.who not in killed and (turn.ended is None or late > PATIENCE):
            verdict.say("hangs", f"{turn} was {late / SECOND:.1f} s late")

    for key, held in by_key.items():
        held.sort(key=lambda turn: turn.ended)
        check_overlaps(held, losses, pauses, verdict)
        # A hold that begins when another has the lock already has a greater fence; a shared hold
        # may have a smaller fence than others beside it.
        highest, exclusive = 0, 0
        by_end = iter(held)
        before = next(by_end, None)
        for turn in sorted(held, key=lambda turn: turn.began):
            while before and before.ended < turn.began:
                highest = max(highest, before.fence)
                if not before.shared:
                    exclusive = max(exclusive, before.fence)
                before = next(by_end, None)
            if turn.fence <= (exclusive if turn.shared else highest):
                verdict.say("fences repeated", f"after {highest} came {turn}")
        fences = taken.get(key, [])
        for earlier, later in pairwise(fences):
            if later < earlier:
                verdict.say("stale writes accepted", f"{key}: {later} after {earlier}")
    check_results(histories, all_turns, losses, verdict)
    check_paid(all_turns, losses, verdict)
    for what in left_behind:
        verdict.say("orphans", what)
    verdict.counts["stale writes refused"] = sum(
        event["e"] == "write" and not event["taken"]
        for events in histories.values()
        for event in events
    )
    return verdict


def paused(turn: Turn, since: int, to: int, pauses: list[tuple[str, int, int]]) -> int:
    """Return for how long of that time the process was stopped, or had no server."""
    return sum(
        max(0, min(to, end) - max(since, start))
        for who, start, end in pauses
        if who in ("", turn.who)
    )


def check_overlaps(
    held: list[Turn],
    losses: list[tuple[int, int]],
    pauses: list[tuple[str, int, int]],
    verdict: Verdict,
) -> None:
    """Check who held a lock at one time; turns of one lock, in the order in which they acquired it.

    A process that was stopped meanwhile learns late what the server answered before it forgot.
    """
    standing: list[Turn] = []  # earlier holds that are still certain
    for turn in held:
        if turn.over <= turn.ended:
            continue
        standing = [other for other in standing if other.over > turn.ended]
        verdict.counts["shared overlaps"] += turn.shared and any(each.shared for each in standing)
        wrong = [other for other in standing if not (turn.shared and other.shared)]
        too_many = bool(turn.permits) and len(standing) >= turn.permits
        if (wrong or too_many) and any(
            since <= turn.ended <= to + paused(turn, since, turn.ended, pauses)
            for since, to in losses
        ):
            verdict.counts["overlaps excused"] += 1
        elif wrong:
            verdict.say("overlaps", f"{wrong[0]} and {turn}")
        elif too_many:
            verdict.say("permits exceeded", f"{standing} and {turn}")
        standing.append(turn)


def check_results(
    histories: dict[str, list[dict]],
    all_turns: list[Turn],
    losses: list[tuple[int, int]],
    verdict: Verdict,
) -> None:
    """Check that callers that did not make a result all got the same one, made by a caller."""
    made = {
        event["result"]
        for events in histories.values()
        for event in events
        if event["e"] in ("made", "resolve")
    }
    by_key: dict[str, list[Turn]] = defaultdict(list)
    for turn in all_turns:
        # The caller of a paid call either keeps its result, or is told that it did not.
        if turn.result is not None and (not turn.called or turn.paid):
            by_key[turn.key].append(turn)
            verdict.counts["results"] += 1
    for key, given in by_key.items():
        if not all(turn.result in made for turn in given):
            verdict.say("wrong results", f"{key}: no caller made one of {given}")
        if len({turn.result for turn in given}) == 1:
            continue
        first = min(turn.began for turn in given)
        last = max(turn.ended for turn in given)
        if any(since <= last and to >= first for since, to in losses):
            verdict.counts["results excused"] += 1
        else:
            verdict.say("wrong results", f"{key}: several of {given}")


def check_paid(all_turns: list[Turn], losses: list[tuple[int, int]], verdict: Verdict) -> None:
    """Check that a paid call was made once, and once more for each time that an operator allowed
    it."""
    by_key: dict[str, list[Turn]] = defaultdict(list)
    for turn in all_turns:
        if turn.paid:
            by_key[turn.key].append(turn)
    for key, wanted in by_key.items():
        calls = [turn.ended for turn in wanted if turn.called]
        verdict.counts["paid calls"] += len(calls)
        verdict.counts["unknown outcomes"] += sum(turn.asks_what_is_unknown for turn in wanted)
        if len(calls) <= 1 + sum(turn.says_retry for turn in wanted):
            continue
        if any(since <= max(calls) and to >= min(calls) for since, to in losses):
            verdict.counts["calls excused"] += 1
        else:
            verdict.say("paid twice", f"{key}: {wanted}")


def self_test() -> None:
    """Check made-up histories, each with one fault."""

    def one(op: int, at: int, fence: int, until: int, end: int | None, key: str = "k") -> list:
        events = [
            {"e": "try", "op": op, "k": key, "at": at, "wait": 1},
            {"e": "got", "op": op, "at": at + 1, "fence": fence},
            {"e": "sure", "op": op, "at": at + 2, "until": until},
        ]
        return events + ([{"e": "end", "op": op, "at": end}] if end else [])

    def found(histories: dict, taken: dict | None = None, left: tuple = (), **more) -> set[str]:
        settings = {"pauses": [], "losses": [], "killed": set(), "ended": 100 * SECOND, **more}
        verdict = check(histories, taken or {}, left_behind=list(left), **settings)
        return {text.split(":")[0] for text in verdict.wrong}

    fine = {"a": one(1, 0, 5, 100, 50), "b": one(1, 60, 6, 160, None)}
    assert found(fine, {"k": [5, 5, 6]}) == set()
    assert found({"a": one(1, 0, 5, 100, 50), "b": one(1, 40, 6, 160, None)}) == {"overlaps"}
    both = {"a": one(1, 0, 5, 100, None), "b": one(1, 60, 6, 160, None)}
    assert found(both) == {"overlaps"}
    assert found(both, losses=[(70, 90)]) == {"overlaps"}
    assert found(both, losses=[(30, 90)]) == set()
    assert found(both, losses=[(30, 45)]) == {"overlaps"}
    assert found(both, losses=[(30, 45)], pauses=[("b", 20, 50)]) == set()
    told = {"a": [*both["a"], {"e": "gone", "op": 1, "how": "HF_ELOST"}], "b": both["b"]}
    assert found(told) == {"overlaps"}
    assert found(told, votes=True) == set()
    early = {"a": [*told["a"][:2], {**told["a"][2], "at": 70}, told["a"][3]], "b": both["b"]}
    assert found(early, votes=True) == {"overlaps"}
    assert found({"a": one(1, 0, 5, 100, 50), "b": one(1, 60, 5, 160, None)}) == {"fences repeated"}
    assert found(fine, {"k": [5, 6, 5]}) == {"stale writes accepted"}
    assert found(fine, left=("the lock k",)) == {"orphans"}
    waiting = {"a": [{"e": "try", "op": 1, "k": "k", "at": 0, "wait": 1}]}
    assert found(waiting) == {"hangs"}
    assert found(waiting, killed={"a"}) == set()
    late = {"a": [*waiting["a"], {"e": "not", "op": 1, "at": 20 * SECOND, "why": "LockTimeout"}]}
    assert found(late) == {"hangs"}
    assert found(late, pauses=[("a", SECOND, 8 * SECOND)]) == set()

    def shared(events: list, permits: int = 0) -> list:
        return [
            {**event, "shared": True, "permits": permits} if event["e"] == "try" else event
            for event in events
        ]

    beside = {who: one(1, at, fence, 200, None) for who, at, fence in (("a", 0, 6), ("b", 50, 5))}
    assert found({who: shared(each) for who, each in beside.items()}) == set()
    assert found({"a": shared(beside["a"]), "b": one(1, 60, 7, 160, None)}) == {"overlaps"}
    assert found({"a": one(1, 0, 5, 100, None), "b": shared(one(1, 50, 6, 90, 80))}) == {"overlaps"}
    assert found({"a": one(1, 0, 5, 20, 10), "b": shared(one(1, 50, 5, 90, 80))}) == {
        "fences repeated"
    }
    many = {who: shared(one(1, at, 5 + at, 200, 150), 2) for who, at in (("a", 0), ("b", 5))}
    assert found(many) == set()
    many["c"] = shared(one(1, 60, 70, 200, 150), 2)
    assert found(many) == {"permits exceeded"}
    assert found(many, losses=[(50, 90)]) == set()

    def asks(at: int, result: str | None, makes: str | None = None) -> list:
        events = [{"e": "try", "op": 1, "k": "o", "at": at, "wait": 1}]
        if makes:
            events += [{"e": "call", "op": 1, "at": at + 1}]
            events += [{"e": "made", "op": 1, "at": at + 2, "result": makes}]
        return [*events, {"e": "result", "op": 1, "at": at + 3, "result": result or makes}]

    assert found({"a": asks(0, None, "x"), "b": asks(1, "x"), "c": asks(9, "x")}) == set()
    assert found({"a": asks(0, None, "x"), "b": asks(1, "y")}) == {"wrong results"}
    twice = {"a": asks(0, None, "x"), "b": asks(1, "x"), "c": asks(5, None, "y"), "d": asks(9, "y")}
    assert found(twice) == {"wrong results"}
    assert found(twice, losses=[(4, 5)]) == set()

    def pays(at: int, *events: dict) -> list:
        first = {"e": "try", "op": 1, "k": "paid:1", "at": at, "wait": 1}
        return [first, *({"op": 1, "at": at + 1 + n, **each} for n, each in enumerate(events))]

    calls = {"e": "call"}, {"e": "made", "result": "x"}, {"e": "result", "result": "x"}
    again = {"e": "call"}, {"e": "made", "result": "y"}, {"e": "result", "result": "y"}
    dies = pays(0, calls[0])
    told = {"e": "not", "why": "HF_EOUTCOME"}
    assert found({"a": pays(0, *calls), "b": pays(9, {"e": "result", "result": "x"})}) == set()
    assert found({"a": dies, "b": pays(9, told)}) == set()
    assert found({"a": dies, "b": pays(9, *calls)}) == {"paid twice"}
    assert found({"a": dies, "b": pays(9, *calls)}, losses=[(5, 6)]) == set()
    assert found({"a": dies, "b": pays(9, told, {"e": "retry"}), "c": pays(20, *calls)}) == set()
    assert found({"a": pays(0, *calls[:2], told), "b": pays(9, calls[2])}) == set()
    by_hand = pays(9, told, {"e": "resolve", "result": "z"})
    assert found({"a": dies, "b": by_hand, "c": pays(20, {**calls[2], "result": "z"})}) == set()
    late = {"a": pays(0, *calls), "b": by_hand, "c": pays(20, {**calls[2], "result": "z"})}
    assert found(late) == {"wrong results"}
    retried = {"a": pays(0, *calls), "b": pays(9, told, {"e": "retry"}), "c": pays(20, *again)}
    assert found(retried) == {"wrong results"}
    print("the checker notices what it must")


if __name__ == "__main__" and sys.argv[1:] == ["--self-test"]:
    self_test()

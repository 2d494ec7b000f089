"""The counts of a client in memory, and its alarm."""

from __future__ import annotations

import collections
import math
from typing import Any

from .. import _holdfast

_OUTCOMES = {
    _holdfast.HF_EDONE: "answered_done",
    _holdfast.HF_EFAILED: "answered_failed",
    _holdfast.HF_EOUTCOME: "answered_unknown",
    _holdfast.HF_EMISMATCH: "answered_mismatch",
    _holdfast.HF_EBUSY: "busy",
    _holdfast.HF_ETIMEOUT: "timed_out",
    _holdfast.HF_ECANCELED: "canceled",
    _holdfast.HF_EINTR: "interrupted",
    _holdfast.HF_EREPLICAS: "unreplicated",
    _holdfast.HF_EDEADLOCK: "deadlocks",
    _holdfast.HF_ECONNECT: "unreachable",
}
_FINISHES = {
    _holdfast.HF_ONCE_DONE: "finished_done",
    _holdfast.HF_ONCE_FAILED: "finished_failed",
    _holdfast.HF_ONCE_UNKNOWN: "finished_unknown",
    _holdfast.HF_ONCE_RETRY: "finished_retry",
}
_CAUSES = {
    _holdfast.HF_CAUSE_EXPIRED: "lost_expired",
    _holdfast.HF_CAUSE_UNREACHABLE: "lost_unreachable",
    _holdfast.HF_CAUSE_GONE: "lost_gone",
}

NAMES_MAX = 100

Rule = tuple[int, float]
"""Timeouts, and within how many milliseconds."""


class Histogram:
    """The same as hf_histogram."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.sum_us = 0
        self.counts = [0] * _holdfast.HF_BUCKETS

    def record(self, milliseconds: float) -> None:
        """Count a duration."""
        us = max(0, round(milliseconds * 1000))
        at = max(0, math.ceil(us / _holdfast.HF_BUCKET_US) - 1).bit_length()
        self.sum_us += us
        self.counts[min(at, _holdfast.HF_BUCKETS - 1)] += 1


class Tally:
    """The counts of one name, or of all names without counts of their own: as hf_stats."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.counts: collections.Counter[str] = collections.Counter()
        self.wait, self.hold = Histogram(), Histogram()

    def acquired(self, queued: bool, waited: float) -> None:
        """Count an acquire that got the lock."""
        self.counts["acquired"] += 1
        self.counts["queued"] += queued
        self.wait.record(waited)

    def refused(self, status: int) -> None:
        """Count an acquire that did not get the lock."""
        self.counts[_OUTCOMES.get(status, "failed")] += 1

    def finished(self, state: int, kept: bool) -> None:
        """Count the end of a call; kept: whether its result or error was kept."""
        self.counts[_FINISHES[state] if kept else "finished_unkept"] += 1

    def lost(self, cause: int) -> None:
        """Count a loss."""
        self.counts[_CAUSES[cause]] += 1


def tell(stats: Any, tallies: list[Tally]) -> None:
    """Fill in the sum of the tallies."""
    total: collections.Counter[str] = collections.Counter()
    for tally in tallies:
        total.update(tally.counts)
    for name in (*_OUTCOMES.values(), *_CAUSES.values(), "acquired", "queued", "failed"):
        setattr(stats, name, total[name])
    for name in (*_FINISHES.values(), "finished_unkept", "begun", "released", "kept"):
        setattr(stats, name, total[name])
    for name in ("renewed", "alarms"):
        setattr(stats, name, total[name])
    for name in ("wait", "hold"):
        histograms = [getattr(tally, name) for tally in tallies]
        getattr(stats, name).sum_us = sum(each.sum_us for each in histograms)
        getattr(stats, name).counts = [
            sum(each) for each in zip(*(one.counts for one in histograms), strict=True)
        ]


class Numbers:
    """All counts of a client."""

    def __init__(self, options: Any) -> None:
        """Begin at nothing."""
        self.rest = Tally()
        self.named: dict[bytes, Tally] = {}
        self.names_max: int = options.names_max or NAMES_MAX
        self.by_name: bool = options.count_names == _holdfast.HF_ON
        self.rule: Rule | None = None
        if options.alarm_timeouts > 0:
            self.rule = options.alarm_timeouts, options.alarm_window_ms
        # By name and rule: the times of timeouts, and the end of the pause after an alarm.
        self._watches: dict[tuple[bytes, Rule], tuple[collections.deque[float], list[float]]] = {}

    def tally(self, name: bytes, choice: int) -> Tally:
        """Return the tally of a lock with that name."""
        by_name = self.by_name if choice == _holdfast.HF_DEFAULT else choice == _holdfast.HF_ON
        if not by_name:
            return self.rest
        if name not in self.named and len(self.named) == self.names_max:
            return self.rest
        return self.named.setdefault(name, Tally())

    def alarms(self, name: bytes, rule: Rule, now: float) -> int:
        """Count a timeout; return the number of timeouts if the alarm must be raised, or else 0."""
        times, quiet = self._watches.setdefault((name, rule), (collections.deque(), [-math.inf]))
        times.append(now)
        while times[0] <= now - rule[1]:
            times.popleft()
        if len(times) < rule[0] or now < quiet[0]:
            return 0
        quiet[0] = now + rule[1]
        return len(times)

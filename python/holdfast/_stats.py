"""A client's counts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from . import _holdfast, _native
from ._errors import Cause

Refusal = Literal["busy", "timeout", "cancelled", "interrupted", "deadlock", "replicas"]
Failure = Literal["unreachable", "unknown", "error"]
Answer = Literal["done", "failed", "unknown", "mismatch"]
Finish = Literal["done", "failed", "unknown", "retry", "unkept"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations, in buckets."""

    bounds: ClassVar[tuple[float, ...]] = tuple(
        _holdfast.HF_BUCKET_US * 2**i / 1e6 for i in range(_holdfast.HF_BUCKETS - 1)
    )
    """The upper bound of each bucket but the last, in seconds: 64 microseconds, and each
    twice the bound before it, to 2147 seconds."""

    counts: tuple[int, ...]
    """The number of durations in each bucket; the last has those above all bounds."""
    sum: float
    """The sum of the times, seconds."""

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a client, or of one name: since the client was opened unless marked "now".

    Each acquire is counted once, when it ends: as acquired, answered, refused or failed.
    """

    held: int
    """Holds that may still be on the server, now."""
    waiting: int
    """Acquires in a queue, now."""
    acquired: int
    """Acquires that got the lock."""
    queued: int
    """Acquires that got the lock after they had a place in its queue."""
    answered: Mapping[Answer, int]
    """Acquires of once() that got the outcome of another call, by outcome: "done" with its result,
    "failed" with an error that is kept, "unknown", "mismatch" when it was made with other arguments
    or in the other mode."""
    refused: Mapping[Refusal, int]
    """Acquires that did not get the lock, by cause: "busy" when they tried once, "timeout",
    "cancelled", also by the close of the client, "interrupted" by a signal handler, "deadlock"
    when they would have waited for themselves, "replicas" when too few had the lock in time."""
    failed: Mapping[Failure, int]
    """Acquires that failed without learning the state of the lock, by cause: "unreachable",
    "unknown" when the answer was lost, and any other "error"."""
    released: int
    """Holds that a call released."""
    kept: int
    """Holds that keep the lock after their work: by keep(), or by a release before at_least."""
    begun: int
    """Calls made at most once whose record was written."""
    finished: Mapping[Finish, int]
    """Calls made for once() that ended, by outcome: "done" when the result was kept, "failed" when
    the error was, "unknown", "retry" when the call was not made, and "unkept" when a result or an
    error was not kept, or not at once (ResultNotKept)."""
    lost: Mapping[Cause, int]
    """Holds that were lost before their release, by cause, as in Lost.cause."""
    renewed: int
    """Renewals in the background."""
    alarms: int
    """The number of alarms that were raised."""
    wait: Histogram
    """How long acquires that got the lock waited for it, with their requests."""
    hold: Histogram
    """How long locks were held, until a call ended the hold or it was lost."""


@dataclass(frozen=True, slots=True)
class Stats(Counts):
    """A client's counts, of all locks together; and those of single names."""

    connections: int
    """Connections that were opened."""
    reconnects: int
    """Connections that were opened in place of one that broke."""
    unconfirmed: int
    """Releases that did not wait for their answer, which was then not as expected."""
    names: Mapping[str, Counts]
    """The counts of the names that are counted separately, UTF-8 with surrogate escapes; names_max
    at most."""
    others: Counts
    """The counts of all other names together."""


def _histogram(told: Any) -> Histogram:
    return Histogram(tuple(told.counts), told.sum_us / 1e6)


def _fields(told: _native.hf_stats) -> dict[str, Any]:
    return {
        "held": told.held,
        "waiting": told.waiting,
        "acquired": told.acquired,
        "queued": told.queued,
        "answered": {
            "done": told.answered_done,
            "failed": told.answered_failed,
            "unknown": told.answered_unknown,
            "mismatch": told.answered_mismatch,
        },
        "refused": {
            "busy": told.busy,
            "timeout": told.timed_out,
            "cancelled": told.canceled,
            "interrupted": told.interrupted,
            "deadlock": told.deadlocks,
            "replicas": told.unreplicated,
        },
        "failed": {
            "unreachable": told.unreachable,
            "unknown": told.unknown,
            "error": told.failed,
        },
        "released": told.released,
        "kept": told.kept,
        "begun": told.begun,
        "finished": {
            "done": told.finished_done,
            "failed": told.finished_failed,
            "unknown": told.finished_unknown,
            "retry": told.finished_retry,
            "unkept": told.finished_unkept,
        },
        "lost": {
            "expired": told.lost_expired,
            "unreachable": told.lost_unreachable,
            "gone": told.lost_gone,
        },
        "renewed": told.renewed,
        "alarms": told.alarms,
        "wait": _histogram(told.wait),
        "hold": _histogram(told.hold),
    }


def stats(core: _holdfast.Core, client: _holdfast.Client, unconfirmed: int) -> Stats:
    """Read the counts from the core. Sends nothing."""
    told, one = _native.hf_stats(), _native.hf_stats()
    core.hf_client_stats(client, told)
    named = {
        core.hf_client_name_stats(client, index, one): Counts(**_fields(one))
        for index in range(told.names + 1)
    }
    others = named.pop(b"")
    return Stats(
        **_fields(told),
        connections=told.connections,
        reconnects=told.reconnects,
        unconfirmed=unconfirmed,
        names={name.decode("utf-8", "surrogateescape"): counts for name, counts in named.items()},
        others=others,
    )


def shown(name: str) -> str:
    """Show a lock's name in valid UTF-8, as metrics need it: different names stay different."""
    raw = name.encode("utf-8", "surrogateescape")
    return raw.replace(b"\\", rb"\\").decode("utf-8", "backslashreplace")


_BOUNDS = [f"{bound:.6f}" for bound in Histogram.bounds] + ["+Inf"]


def buckets(histogram: Histogram) -> list[tuple[str, int]]:
    """Return the number of durations up to each bound, in seconds, as metrics need it."""
    return [*zip(_BOUNDS, itertools.accumulate(histogram.counts), strict=True)]

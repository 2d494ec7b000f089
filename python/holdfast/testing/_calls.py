"""A memory server's records of calls that are made once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from .. import _holdfast

BEGUN, RETRY = _holdfast.HF_ONCE_UNKNOWN, _holdfast.HF_ONCE_RETRY
KEPT = (_holdfast.HF_ONCE_DONE, _holdfast.HF_ONCE_FAILED)

_RETRY_LIFE = 86_400_000


class Asked(NamedTuple):
    """A caller's terms: whether at most once, and the fingerprint of the arguments."""

    most: bool
    print: bytes | None

    def agrees(self, other: Asked) -> bool:
        """Return whether both may be for the same call."""
        return self.print is None or other.print is None or self.print == other.print


@dataclass(frozen=True)
class Record:
    """The record of one call."""

    state: int
    asked: Asked
    id: str
    fence: int
    owner: bytes
    since_ms: int
    note: bytes
    result: bytes
    until: float
    lasts: float = math.inf  # ms of an unknown outcome, from when a caller learns of it

    def status(self, asked: Asked, name: str) -> tuple[int, str]:
        """Return the answer for a caller."""
        if self.asked.most != asked.most:
            ways = {True: "at most once", False: "once, and again after a lost hold"}
            return _holdfast.HF_EMISMATCH, (
                f"the call of lock {name} has been made {ways[self.asked.most]}, and this caller"
                f" wants it {'at most once' if asked.most else 'again after a lost hold'}: all"
                " callers of a name must agree"
            )
        if not self.asked.agrees(asked):
            return _holdfast.HF_EMISMATCH, (
                f"the call of lock {name} has been made with other arguments: use another name for"
                " another call"
            )
        if self.state == _holdfast.HF_ONCE_DONE:
            return (
                _holdfast.HF_EDONE,
                f"the call of lock {name} has been made, and its result is here",
            )
        if self.state == _holdfast.HF_ONCE_FAILED:
            return (
                _holdfast.HF_EFAILED,
                f"the call of lock {name} has failed, and its error is here",
            )
        return _holdfast.HF_EOUTCOME, (
            f"the call of lock {name} began under fence {self.fence}, and its outcome is unknown:"
            " find out what became of it, and settle it"
        )


class Records:
    """The records of a server, by name; times are milliseconds of its clock."""

    def __init__(self, runs: Callable[[bytes, int], bool]) -> None:
        """Begin empty; runs() returns whether a name is held exclusively with a fence."""
        self._runs = runs
        self._known: dict[bytes, Record] = {}

    def get(self, name: bytes, now: float) -> Record | None:
        """Return the record of a name."""
        found = self._known.get(name)
        if found is not None and found.until <= now:
            del self._known[name]
            return None
        return found

    def runs(self, name: bytes, record: Record) -> bool:
        """Return whether the call is in progress."""
        return record.state == BEGUN and self._runs(name, record.fence)

    def outcome(self, name: bytes, now: float) -> Record | None:
        """Return the record if callers get it, and do not make the call."""
        found = self.get(name, now)
        if found is None or found.state == RETRY or self.runs(name, found):
            return None
        if found.state == BEGUN and found.until == math.inf:
            found = replace(found, until=now + found.lasts)
            self.put(name, found)
        return found

    def put(self, name: bytes, record: Record) -> None:
        """Write a record."""
        self._known[name] = record

    def drop(self, name: bytes) -> None:
        """Forget a record."""
        self._known.pop(name, None)

    def begin(self, name: bytes, mine: Record, now: float) -> Record | None:
        """Record that a call begins, or return the record that forbids it."""
        found = self.get(name, now)
        if found is not None and found.id != mine.id:
            again = found.state == RETRY and found.asked.agrees(mine.asked)
            if not again:
                return found
        self.put(name, mine)
        return None

    def end(self, name: bytes, mine: Record, live: bool, now: float) -> bool | None:
        """Record how a call ended. True: kept; False: it is settled; None: there was no record."""
        found = self.get(name, now)
        own = found is not None and (found.id, found.fence) == (mine.id, mine.fence)
        if found is not None and own:
            if mine.state in KEPT and found.state not in KEPT:
                self.put(name, replace(mine, owner=found.owner, asked=found.asked))
            elif mine.state == BEGUN and found.state == BEGUN:
                until = min(found.until, now + found.lasts)
                self.put(name, replace(found, note=mine.result, until=until))
            elif mine.state == RETRY and found.state == BEGUN:
                self.put(name, replace(found, state=RETRY, until=now + _RETRY_LIFE))
            return True
        if mine.state not in KEPT:
            return None if found is None and mine.state == BEGUN else True
        begun = found is not None and found.state == BEGUN
        done = found is not None and found.state in KEPT and mine.asked.most
        if live and not begun and not done:
            self.put(name, mine)
            return True
        return False if found is not None else None

    def settle(self, name: bytes, said: Record, force: bool, now: float) -> tuple[int, str]:
        """Settle a call with the given fence; return a status and the reason."""
        found, verb = self.get(name, now), said.state
        if found is None or found.fence != said.fence:
            return _holdfast.HF_ENOTHELD, "has no record of a call with that fence"
        if self.runs(name, found) and not force:
            return _holdfast.HF_EBUSY, "is in progress"
        if verb == _holdfast.HF_ONCE_NONE:
            self.drop(name)
        elif verb == RETRY:
            if found.state not in (BEGUN, RETRY):
                return _holdfast.HF_ESETTLED, ""
            self.put(name, replace(found, state=RETRY, note=said.note, until=now + _RETRY_LIFE))
        elif found.state in KEPT and not force:
            return _holdfast.HF_ESETTLED, ""
        else:
            self.put(name, replace(said, asked=found.asked))
        return _holdfast.HF_OK, ""

    def stays(self, name: bytes, now: float) -> float:
        """Return how long a result is kept; 0 if there is none."""
        found = self.get(name, now)
        return found.until - now if found is not None and found.state in KEPT else 0


def told(record: Record | None, runs: bool, now: float) -> _holdfast.OnceInfo:
    """Return a record in the form of hf_once_outcome()."""
    if record is None:
        return _holdfast.HF_ONCE_NONE, 0, 0, 0, 0, 0, 0, b"", b""
    left = min(record.until - now, record.lasts if record.state == BEGUN else math.inf)
    left = _holdfast.HF_NEVER if left == math.inf else max(0, math.floor(left))
    return (
        _holdfast.HF_ONCE_RUNNING if runs else record.state,
        int(record.asked.most),
        int(record.asked.print is not None),
        record.fence,
        record.since_ms,
        left,
        len(record.result),
        record.owner,
        record.note,
    )

"""The results of the inspection of a lock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import _holdfast, _native
from ._arguments import encoded, whole
from ._hold import Bound, seconds

if TYPE_CHECKING:
    from ._client import Client

RATE = 500
"""The default rate of Client.locks(): a fiftieth of a server's time."""

_KINDS: dict[str, Literal["thread", "task", "operation"]] = {
    "t": "thread",
    "a": "task",
    "o": "operation",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an owner that the program did not choose."""

    host: str
    """The host's name."""
    pid: int
    """The process on that host."""
    client: str
    """The client's name: client_name of connect()."""
    kind: Literal["thread", "task", "operation"]
    """The kind of the owner in the process."""
    number: int
    """Its number, counted from 1 in that process; not the system's number."""

    @staticmethod
    def of(owner: str | bytes) -> Origin | None:
        """Read the origin from an owner; None: the program chose the owner."""
        parts = _native.hf_owner_parts()
        if not _holdfast.hf_owner_parse(encoded("owner", owner), parts):
            return None
        kind = _KINDS[chr(parts.kind)]
        return Origin(parts.host, parts.pid, parts.client_name, kind, parts.serial)


@dataclass(frozen=True, slots=True)
class Holder:
    """One holder of a lock, as the server saw it."""

    owner: str
    """The owner, UTF-8 with surrogate escapes."""
    note: str
    """The note, LockOptions.note; empty: it has no note."""
    shared: bool
    """Do others hold the lock beside it?"""
    fence: int
    """Its fence, for force_release()."""
    count: int
    """The number of its holds: nested holds count."""
    held_for: float
    """For how many seconds it has held the lock."""
    remaining: float | None
    """Seconds until the last of its holds ends; None: never."""
    kept: bool
    """Has its work ended, so that it only keeps the lock for the remaining time, by Hold.keep(),
    once_per or at_least? It is not renewed, and its process may be gone."""
    weight: int
    """The number of permits that its shared holds take; 0 if it holds the lock exclusively."""

    @property
    def origin(self) -> Origin | None:
        """The host, process and thread; None: the program chose the owner."""
        return Origin.of(self.owner)


@dataclass(frozen=True, slots=True)
class Waiter:
    """An acquire that waits in a lock's queue, as the server saw it."""

    owner: str
    """Its owner, UTF-8 with surrogate escapes."""
    note: str
    """The note, LockOptions.note; empty: it has no note."""
    shared: bool
    """Does it ask for a shared hold?"""
    permits: int
    """The number of permits that a shared waiter gives for the lock; 0: no limit."""
    waited: float
    """For how many seconds it has waited; a head start counts as time waited."""
    timeout: float | None
    """Its timeout, counted like `waited`; None if it waits without limit."""
    weight: int
    """The number of permits that it takes; 0 if it is not shared."""

    @property
    def origin(self) -> Origin | None:
        """The host, process and thread; None: the program chose the owner."""
        return Origin.of(self.owner)


Limit = int | tuple[int, float] | None


def limit_of(permits: int, per_ms: int) -> Limit:
    """Return a stored limit in the units of a program."""
    return (permits, per_ms / 1000) if per_ms else permits or None


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock as the server saw it."""

    name: str
    """Its name, UTF-8 with surrogate escapes."""
    held: bool
    """Is it held, through this library or another?"""
    foreign: bool
    """Does another library's lock hold it?"""
    shared: bool
    """Is it held shared?"""
    count: int
    """The number of valid holds, with nested holds; 0 if free or foreign."""
    waiters: int
    """The number of acquires in the queue."""
    remaining: float | None
    """Seconds until its last hold ends; None if never, 0 if free."""
    result: float
    """For how many seconds its last result stays; 0 if it has no result."""
    moving: bool
    """Is its slot of a cluster being moved? Then the waiters and the result are not known."""
    holders: tuple[Holder, ...]
    """The holders, in the order in which their holds end; those of 100 holds at most."""
    queue: tuple[Waiter, ...]
    """The acquires that wait, in the order in which they will be served; 100 at most."""
    limit: Limit = None
    """The limit of Client.limit(): permits, or passes and seconds of a gate; None: no limit."""

    @property
    def owner(self) -> str | None:
        """The first holder's owner; None if free or foreign."""
        return self.holders[0].owner if self.holders else None

    @property
    def fence(self) -> int:
        """The first holder's fence; 0 if free or foreign."""
        return self.holders[0].fence if self.holders else 0

    @property
    def kept(self) -> bool:
        """Whether the first holder only keeps the lock: Holder.kept."""
        return bool(self.holders) and self.holders[0].kept

    @property
    def held_for(self) -> float:
        """The seconds that the first holder has held it; 0 if free or foreign."""
        return self.holders[0].held_for if self.holders else 0.0


def text(raw: bytes) -> str:
    """Decode a name or an owner."""
    return raw.decode("utf-8", "surrogateescape")


def told(info: _native.hf_lock_info, view: _holdfast.View) -> LockInfo:
    """Make a LockInfo from the core's answer."""
    name, holders, waiters = view
    return LockInfo(
        text(name),
        bool(info.held),
        bool(info.foreign),
        bool(info.shared),
        info.count,
        info.waiters,
        seconds(info.remaining_ms),
        info.result_ms / 1000,
        bool(info.moving),
        tuple(
            Holder(
                text(owner),
                text(note),
                mode == _holdfast.HF_SHARED,
                fence,
                count,
                held_ms / 1000,
                seconds(remaining_ms),
                bool(kept),
                weight,
            )
            for owner, note, mode, fence, count, held_ms, remaining_ms, kept, weight in holders
        ),
        tuple(
            Waiter(
                text(owner),
                text(note),
                mode == _holdfast.HF_SHARED,
                permits,
                waited_ms / 1000,
                seconds(timeout_ms),
                weight,
            )
            for owner, note, mode, permits, waited_ms, timeout_ms, weight in waiters
        ),
        limit_of(info.permits, info.per_ms),
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a walk over all locks."""

    locks: int
    """The number of locks that it has returned."""
    keys_seen: int
    """The approximate number of the servers' keys that it has seen."""
    keys: int | None
    """The approximate number of all keys; None: the servers do not report it."""
    refused: int
    """The number of keys left out because this user may not use them."""
    commands: int
    """The number of commands that it has sent."""
    round_trips: int
    """The number of round trips that these took."""
    answer_time: float
    """Seconds that all answers took together: the network's time and the servers'."""


class Locks(Bound, Iterator[LockInfo]):
    """A walk over all locks, from Client.locks(): an iterator of LockInfo.

    Threads that share it wait for each other. If a node of a cluster does not answer, the iterator
    raises ConnectError once, or another error of the node; the next step then lists the other
    nodes' locks.
    """

    __slots__ = ("_core", "_handle")

    def __init__(self, client: Client, pattern: str | bytes, rate: int | None) -> None:
        """Only Client.locks() makes this object."""
        options = _native.hf_locks_options()
        if rate is None:
            options.rate = _holdfast.HF_NEVER
        else:
            options.rate = whole("rate", rate, 1, 1_000_000)
        self._core = client._core
        self._handle = self._core.hf_locks_open(
            client._here(), encoded("pattern", pattern), options
        )

    def _find(self) -> LockInfo | None:
        """Return the next lock; None at the end."""
        info = _native.hf_lock_info()
        view = self._core.hf_locks_next(self._handle, info)
        return None if view is None else told(info, view)

    def __next__(self) -> LockInfo:
        """Find the next lock."""
        found = self._find()
        if found is None:
            raise StopIteration
        return found

    @property
    def progress(self) -> Progress:
        """The progress of the walk. Sends nothing."""
        progress = _native.hf_progress()
        self._core.hf_locks_progress(self._handle, progress)
        keys = None if progress.keys < 0 else progress.keys
        return Progress(
            progress.locks,
            progress.keys_seen,
            keys,
            progress.refused,
            progress.commands,
            progress.round_trips,
            progress.answer_us / 1e6,
        )

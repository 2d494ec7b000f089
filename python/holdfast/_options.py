"""The options of a lock: one list for Client.lock(), AsyncClient.lock() and Client.locked()."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import EllipsisType
from typing import Any, Literal, TypedDict

from . import _alarm, _holdfast, _native
from ._arguments import duration, encoded, flag, function, noted, whole

STORED = timedelta(days=-1)
"""A lease, recognised by identity: the rate of the gate is the stored rate of its name."""


@dataclass(frozen=True, kw_only=True)
class LockOptions:
    """The options of a lock, for any number of locks:

        SLOW = holdfast.LockOptions(lease=60, max_hold=3600)
        lock = client.lock("stock", SLOW)

    A single option can be given by its name too, and takes precedence: client.lock("stock",
    lease=60). Durations are seconds, a number or a timedelta. Raises ValueError and TypeError.
    """  # noqa: D400

    lease: float | timedelta | EllipsisType | None = ...
    """How long a holder that died delays the others: seconds after which a hold ends unless it is
    renewed, 0.01 to ten years; None: never. Not given: 10 seconds."""
    renew: bool | None = None
    """False: a hold ends with its lease. Otherwise holds are renewed until they are released.
    Not True with a lease of None."""
    reentrant: bool = True
    """May an owner that holds the lock acquire it again? With False and no owner, every acquire
    has a new owner, and any thread may release, as with threading.Lock."""
    permits: int | None = None
    """The number of holders that Lock.shared() allows at once, 1 to 9999999999: a semaphore. None
    or 0: no limit, as for readers. The lock itself excludes all of them."""
    weight: int = 1
    """How many of the permits a hold of Lock.shared() takes: 1, or up to all. No acquire passes
    a heavy acquire that arrived before, so light acquires wait behind it. Lock.shared(weight=3) is
    the same for one lock object."""
    ahead: float | timedelta = 0
    """Seconds of a head start, at most 3600: an acquire that has to wait is queued as if it had
    arrived that time earlier. So it passes waiters that arrived up to that time before it, and no
    waiter waits for ever: docs/guarantees.md."""
    owner: str | bytes | None = None
    """The owner, instead of the calling thread or task; 1 to 4096 bytes. Equal owners are one
    owner everywhere: "worker" on ten hosts excludes nothing."""
    note: str | None = None
    """The purpose of the hold, for people: "refund 17"; at most 1024 bytes. Shown beside the
    owner by `holdfast ls`, top and inspect, in LockInfo and in the message of a LockTimeout, with
    the trace id if OpenTelemetry has a span. A nested hold has the note of the outer hold."""
    max_hold: float | timedelta | None = None
    """End a hold after this number of seconds at the latest, so that a stuck thread does not keep
    the lock for ever; 0.01 to ten years. Not with a lease of None, nor with renew=False."""
    heal: bool = False
    """Set this lock's lease as the TTL of another library's lock that would stand for ever."""
    replicas: int = 0
    """The number of replicas that must confirm an acquire (WAIT) before it returns; 0: the number
    in the client's URL (?replicas=1), or none. If they do not confirm it in time, the lock is
    released again and the call raises LockNotReplicated. A failover then loses fewer locks:
    docs/connecting.md."""
    replica_timeout: float | timedelta | None = None
    """Seconds for these replicas, less than the lease; by default 1, or half of a lease below 2."""
    release: Literal["wait", "later"] = "wait"
    """"later": a release does not wait for the server's answer, as release(wait=False) of a hold,
    unless its call asks to wait."""
    on_lost: Callable[[Any], object] | None = None
    """Called with the Hold when it is lost, by a thread of the client: keep it short, or give
    the work to another thread. An AsyncLock's event loop calls it, with the AsyncHold."""
    raise_on_lost: bool = True
    """Leaving a `with` block raises LockLost if the hold was lost; False: it does not."""
    count_name: bool | None = None
    """Count this name separately in Client.stats(); None: by the client's count_names."""
    alarm: _alarm.Rule | EllipsisType | None = ...
    """As the client's alarm, for acquires of this lock; None: never. Not given: the client's."""

    def __post_init__(self) -> None:
        """Check the options."""
        native(self)


class LockChanges(TypedDict, total=False):
    """The same options, given by name."""

    lease: float | timedelta | EllipsisType | None
    renew: bool | None
    reentrant: bool
    permits: int | None
    weight: int
    ahead: float | timedelta
    owner: str | bytes | None
    note: str | None
    max_hold: float | timedelta | None
    heal: bool
    replicas: int
    replica_timeout: float | timedelta | None
    release: Literal["wait", "later"]
    on_lost: Callable[[Any], object] | None
    raise_on_lost: bool
    count_name: bool | None
    alarm: _alarm.Rule | EllipsisType | None


def switch(what: str, value: bool | None) -> int:
    """Return the core's number for on, off or the default."""
    if value is None:
        return _holdfast.HF_DEFAULT
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True, False or None, not {value!r}")
    return _holdfast.HF_ON if value else _holdfast.HF_OFF


def native(options: LockOptions, shared: bool = False) -> _native.hf_lock_options:
    """Return the options that the core has, all checked."""
    made = _native.hf_lock_options()
    permits = 0 if options.permits is None else options.permits
    permits = whole("permits", permits, 0, _holdfast.HF_PERMITS_MAX)
    weight = whole("weight", options.weight, 1, permits or _holdfast.HF_PERMITS_MAX)
    if shared:
        made.weight = weight
        made.mode, made.permits = _holdfast.HF_SHARED, permits
    if options.lease is None:
        made.lease_ms = _holdfast.HF_NEVER
    elif options.lease is STORED:
        made.lease_ms = _holdfast.HF_STORED if shared else 0
    elif not isinstance(options.lease, EllipsisType):
        made.lease_ms = duration("lease", options.lease)
    made.renew = switch("renew", options.renew)
    made.reentrant = switch("reentrant", flag("reentrant", options.reentrant))
    made.ahead_ms = duration("ahead", options.ahead, 0, _holdfast.HF_AHEAD_MAX)
    if options.owner is not None:
        encoded("owner", options.owner)
    if options.note is not None:
        made.noted = noted("note", options.note)  # for the server in memory
        made.set_note(made.noted)
    if options.max_hold is not None:
        made.max_hold_ms = duration("max_hold", options.max_hold)
    made.heal = switch("heal", flag("heal", options.heal))
    made.replicas = whole("replicas", options.replicas, 0, 2**31 - 1)
    if options.replica_timeout is not None:
        made.replica_timeout_ms = duration("replica_timeout", options.replica_timeout, least=1)
    if options.release not in ("wait", "later"):
        raise ValueError(f'release must be "wait" or "later", not {options.release!r}')
    function("on_lost", options.on_lost)
    flag("raise_on_lost", options.raise_on_lost)
    made.count_name = switch("count_name", options.count_name)
    if options.alarm is None:
        made.alarm_timeouts = -1
    elif not isinstance(options.alarm, EllipsisType):
        made.alarm_timeouts, made.alarm_window_ms = _alarm.native(options.alarm)
    return made


_DEFAULT = LockOptions()


def merged(options: LockOptions | None, changes: LockChanges) -> LockOptions:
    """Return the options with the changes that were given by name."""
    if options is None:
        return LockOptions(**changes) if changes else _DEFAULT
    if not isinstance(options, LockOptions):
        raise TypeError(f"options must be LockOptions, not {options!r}: lease=10, for example")
    return dataclasses.replace(options, **changes) if changes else options


# For a lock that is never acquired, and only keeps its client open: its name does not matter.
anchor = native(LockOptions(count_name=False))

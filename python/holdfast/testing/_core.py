"""The functions of the extension, for holds in memory: see Core in _holdfast.pyi."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import _holdfast
from .._errors import CAUSES, ConnectError, LockError, LockLost, OutcomeSettled, error
from .._lock import Noted, kept
from .._once import most
from ._calls import BEGUN, KEPT, RETRY, Asked, Record, told
from ._group import Group
from ._numbers import Tally, tell
from ._space import (
    UNKNOWN,
    Client,
    Completion,
    Done,
    Grant,
    Handle,
    Hold,
    Key,
    Lock,
    Space,
    Waiter,
    quoted,
    thread_serial,
)

RESERVED = re.compile(rb":hf[0-9]+:[A-Za-z]$", re.DOTALL)
TAGGED = re.compile(rb"[^{]*\{[^}]+\}", re.DOTALL)
TOKEN = re.compile(rb"hf1 ([0-9a-f]{32}) ([xs])[1-9][0-9]{0,15} ([1-9][0-9]{0,3}) (.+)", re.DOTALL)


VIEW_MAX = 100
View = tuple[
    bytes,
    list[tuple[bytes, bytes, int, int, int, int, int, int, int]],
    list[tuple[bytes, bytes, int, int, int, int, int]],
]


def _invalid(message: str) -> Exception:
    return error(_holdfast.HF_EINVAL, message)


# -------------------------------------------------------------------- Client


def hf_client_open(space: Space, options: Any) -> Client:
    """Open a client of the server."""
    space.check_process()
    with space:
        space.check_reachable()
        return Client(space, options.client_name or "holdfast", options)


def hf_client_warning(client: Client) -> str:
    """Warn of nothing."""
    return ""


def hf_client_ping(client: Client) -> None:
    """Check that the server can be reached."""
    client.check()
    with client.space:
        client.space.check_reachable()


def hf_client_survey(
    client: Client, server: int, name: bytes | None
) -> list[tuple[int, str, str, str]]:
    """Return no findings: memory has no settings."""
    hf_client_ping(client)
    return []


def hf_client_set_interrupt(client: Client) -> None:
    """Do nothing: Python's own waits run the signal handlers."""


def hf_client_close(client: Client) -> None:
    """Close a client, and release its holds."""
    if os.getpid() == client.pid:
        with client.space:
            client.close(release=True)


def hf_client_stop(client: Client) -> None:
    """End a client's waits, and refuse calls; it keeps its holds."""
    if os.getpid() == client.pid:
        with client.space:
            client.stop()


def hf_client_abandon(client: Client) -> None:
    """Close a client, and release nothing."""
    if os.getpid() == client.pid:
        with client.space:
            client.close(release=False)


def hf_client_stats(client: Client, stats: Any) -> None:
    """Fill in the counts."""
    client.check()
    with client.space:
        counting = client.counting
        _tell(client, stats, [counting.rest, *counting.named.values()])
        stats.names, stats.connections = len(counting.named), 1


def hf_client_name_stats(client: Client, index: int, stats: Any) -> bytes:
    """Fill in the counts of a name, and return the name."""
    client.check()
    with client.space:
        named = [(b"", client.counting.rest), *client.counting.named.items()]
        if not 0 <= index < len(named):
            raise _invalid(f"there is no name {index}")
        name, tally = named[index]
        _tell(client, stats, [tally])
        return name


def _tell(client: Client, stats: Any, tallies: list[Tally]) -> None:
    stats.held = sum(hold.stands() and hold.tally in tallies for hold in client.holds.values())
    stats.waiting = sum(each.lock.tally in tallies for each in client.waiters.values())
    tell(stats, tallies)


def hf_client_owner(client: Client, kind: str, serial: int) -> bytes:
    """Return the owner that represents a thread or a task."""
    return client.owner(kind, serial)


def hf_client_kept(client: Client, owner: bytes) -> bytes | None:
    """Return the name of a lock of which the owner left a hold."""
    client.check()
    with client.space:
        for (name, who, _), holds in client.kept.items():
            if who == owner and any(hold.stands() for hold in holds):
                return name
        return None


def hf_client_fd(client: Client) -> int:
    """Return the descriptor that is readable while there are completions."""
    client.check()
    with client.space:
        return client.descriptor()


def hf_client_next(client: Client, told: list[Any]) -> None:
    """Take the next completion, and put it first in the list."""
    with client.space:
        told[0] = client.told()


def hf_op_cancel(client: Client, op: int) -> None:
    """Cancel an acquire."""
    client.check()
    with client.space:
        waiter = client.waiters.get(op)
        if waiter is None:
            raise error(_holdfast.HF_ENOTHELD, "no such acquire is under way")
        waiter.end(
            _holdfast.HF_ECANCELED, f"the wait for lock {quoted(waiter.lock.name)} was cancelled"
        )


# ---------------------------------------------------------------------- Lock


def hf_lock_open(client: Client, name: bytes, owner: bytes | None, options: Any) -> Lock:
    """Make a lock."""
    client.check()
    _check_name(name)
    _check_owner(owner)
    lock = Lock(client, name, owner)
    choice = _holdfast.HF_DEFAULT if options is None else options.count_name
    lock.tally = client.counting.tally(name, choice)
    if options is not None:
        _configure(lock, options)
    return lock


def _check_name(name: bytes) -> None:
    if not name:
        raise _invalid("the name is empty")
    if len(name) > 4096:
        raise _invalid(f"the name has {len(name)} bytes: at most 4096")
    if RESERVED.search(name):
        raise _invalid(
            f"the name {quoted(name)} ends like one of a lock's own keys (:hf1:q): choose another"
        )
    if b"}" in name and not TAGGED.match(name):
        raise _invalid(
            f"the name {quoted(name)} has a }} but no {{tag}}: leave it out, or put a tag in front"
        )


def _check_owner(owner: bytes | None) -> None:
    if owner is not None and not 1 <= len(owner) <= 4096:
        raise _invalid(f"the owner has {len(owner)} bytes: it takes 1 to 4096")


def _configure(lock: Lock, options: Any) -> None:
    lease = options.lease_ms
    lock.renew = options.renew != _holdfast.HF_OFF
    lock.gate = lease == _holdfast.HF_STORED
    lock.lease = _lasting(_holdfast.HF_LEASE_DEFAULT if lock.gate or not lease else lease)
    lock.reentrant = options.reentrant != _holdfast.HF_OFF
    lock.shared, lock.permits = options.mode == _holdfast.HF_SHARED, options.permits
    lock.weight = (options.weight or 1) if lock.shared else 0
    lock.ahead = options.ahead_ms
    lock.note = getattr(options, "noted", b"")
    lock.max_hold = options.max_hold_ms or math.inf
    lock.replicas = options.replicas
    if options.alarm_timeouts:
        rule = options.alarm_timeouts, options.alarm_window_ms
        lock.rule = rule if rule[0] > 0 else None
    _check_lease(lock, options)
    if lock.replicas and options.replica_timeout_ms >= lock.lease:
        raise _invalid("replica_timeout must be shorter than the lease")


def _check_lease(lock: Lock, options: Any) -> None:
    if lock.lease == math.inf and options.renew == _holdfast.HF_ON:
        raise _invalid(
            "renew does nothing for a lease that never ends: leave it out, or give a lease that"
            " ends"
        )
    if lock.max_hold < math.inf and lock.lease == math.inf:
        raise _invalid("max_hold needs a lease that ends")
    if lock.max_hold < _holdfast.HF_LEASE_MIN:
        raise _invalid(f"a max_hold of {lock.max_hold} ms: it takes 10 ms to 10 years")
    if lock.max_hold < math.inf and not lock.renew:
        raise _invalid(
            "max_hold does nothing without renewal: the lease ends the hold; leave max_hold out, or"
            " do not turn renew off"
        )
    if options.replica_timeout_ms and not lock.replicas:
        raise _invalid("replica_timeout does nothing without replicas")
    lock.lease = min(lock.lease, lock.max_hold)


def _lasting(milliseconds: int) -> float:
    return math.inf if milliseconds == _holdfast.HF_NEVER else float(milliseconds)


def _acquire(
    lock: Lock, owner: bytes | None, options: object, by_thread: bool, op: int
) -> Callable[..., Waiter]:
    """Prepare an acquire, which takes its timeout, and the function to call at its end."""
    _check_owner(owner)
    lock.client.check()
    lock.client.space.check_reachable()
    chosen, holder = lock.chosen(owner, by_thread)
    like = options.like if isinstance(options, Noted) else options
    note = _note(lock, chosen, options)
    thread = thread_serial() if by_thread else 0

    def begin(waits: float, then: Callable[[Waiter], None] | None = None) -> Waiter:
        return Waiter(lock, chosen, holder, waits, like is kept, op, note, None, then, thread)

    return begin


def _group(
    locks: list[Lock],
    owner: bytes | None,
    timeout_ms: int,
    options: list[object],
    by_thread: bool,
    op: int,
) -> Group:
    pairs = zip(locks, options, strict=True)
    begins = [_acquire(lock, owner, each, by_thread, op) for lock, each in pairs]
    return Group(locks, begins, _patience(timeout_ms), op)


def _note(lock: Lock, owner: bytes, options: object) -> bytes:
    note = options.note if isinstance(options, Noted) else lock.note
    if note and len(owner) + len(note) > 4090:
        size = len(owner) + len(note)
        raise _invalid(f"the owner and the note have {size} bytes together: up to 4090")
    return note


def _asker(
    lock: Lock, timeout_ms: int, options: object, arguments: bytes | None, op: int
) -> Waiter:
    """Wait for the turn to call, or for an outcome; each such caller is its own owner."""
    lock.client.space.check_reachable()
    owner = lock.client.own()
    holder = lock.name, owner, lock.shared
    like = options.like if isinstance(options, Noted) else options
    asked = Asked(like is most, arguments)
    note = _note(lock, owner, options)
    return Waiter(lock, owner, holder, _patience(timeout_ms), False, op, note, asked)


def _patience(timeout_ms: int) -> float:
    return math.inf if timeout_ms == _holdfast.HF_FOREVER else timeout_ms


def hf_lock_acquire_as(
    lock: Lock, owner: bytes | None, timeout_ms: int, options: object, hold_out: list[Handle]
) -> None:
    """Acquire the lock, and wait at most timeout_ms."""
    lock.client.check()
    with lock.client.space:
        begin = _acquire(lock, owner, options, True, 0)
        hold_out.append(begin(_patience(timeout_ms)).wait())


def hf_lock_acquire_start(
    lock: Lock, owner: bytes | None, timeout_ms: int, options: object, op: int
) -> None:
    """Start to acquire the lock: a completion follows."""
    lock.client.check()
    with lock.client.space:
        lock.client.descriptor()
        _acquire(lock, owner, options, False, op)(_patience(timeout_ms))


def hf_lock_acquire_all(
    locks: list[Lock],
    owner: bytes | None,
    timeout_ms: int,
    options: list[object],
    holds_out: list[Handle],
) -> None:
    """Acquire all locks or none, and wait at most timeout_ms."""
    locks[0].client.check()
    with locks[0].client.space:
        holds_out += _group(locks, owner, timeout_ms, options, True, 0).wait()


def hf_lock_acquire_all_start(
    locks: list[Lock], owner: bytes | None, timeout_ms: int, options: list[object], op: int
) -> None:
    """Start to acquire all locks or none: completions follow."""
    locks[0].client.check()
    with locks[0].client.space:
        locks[0].client.descriptor()
        _group(locks, owner, timeout_ms, options, False, op)


def hf_once_begin(
    lock: Lock, timeout_ms: int, options: object, arguments: bytes | None, hold_out: list[Handle]
) -> tuple[int, str]:
    """Get an outcome, or the lock."""
    lock.client.check()
    with lock.client.space:
        lock.client.check()
        waiter = _asker(lock, timeout_ms, options, arguments, 0)
        hold_out.append(waiter.wait())
    return waiter.status or _holdfast.HF_OK, waiter.message


def hf_once_begin_start(
    lock: Lock, timeout_ms: int, options: object, arguments: bytes | None, op: int
) -> None:
    """Start to get an outcome, or the lock: a completion follows."""
    lock.client.check()
    with lock.client.space:
        lock.client.check()
        lock.client.descriptor()
        _asker(lock, timeout_ms, options, arguments, op)


def _current(lock: Lock, owner: bytes | None) -> Handle:
    _, holder = lock.chosen(owner, True)
    stack = lock.client.kept.get(holder)
    if not stack:
        lock.client.check()
        raise error(_holdfast.HF_ENOTHELD, f"lock {quoted(lock.name)} is not held by this owner")
    own = [] if lock.reentrant else [hold for hold in stack if hold.thread == thread_serial()]
    return Handle((own or stack)[-1])


def hf_lock_current_as(lock: Lock, owner: bytes | None, hold_out: list[Handle]) -> None:
    """Return the newest hold that the owner left with the client."""
    lock.client.check()
    _check_owner(owner)
    with lock.client.space:
        hold_out.append(_current(lock, owner))


def hf_lock_release_as(lock: Lock, owner: bytes | None) -> None:
    """Release the newest hold that the owner left with the client."""
    lock.client.check()
    _check_owner(owner)
    with lock.client.space:
        _release(_current(lock, owner))


def hf_lock_count_as(lock: Lock, owner: bytes | None) -> int:
    """Count the valid holds that the owner left with the client."""
    if os.getpid() != lock.client.pid:
        return 0
    with lock.client.space:
        _, holder = lock.chosen(owner, True)
        return sum(hold.stands() for hold in lock.client.kept.get(holder, []))


def _milliseconds(left: float) -> int:
    return _holdfast.HF_NEVER if left == math.inf else math.floor(max(left, 0))


def _looked(space: Space, name: bytes, first: int, info: Any) -> View:
    key, now = space.key(name) or Key(space, name), space.now
    leader = key.first
    info.held = int(leader is not None)
    info.shared = int(leader is not None and leader.shared)
    info.count = len(key.grants)
    info.fence = leader.fence if leader else 0
    info.remaining_ms = _milliseconds(key.ends - now)
    info.waiters = len(key.queue)
    info.held_ms = math.floor(now - leader.since) if leader else 0
    info.result_ms = math.ceil(space.calls.stays(name, space.now))
    info.permits, info.per_ms = space.limits.get(name, (0, 0))
    nested: dict[int, list[Grant]] = {}  # nested holds share a fence
    listed = slice(first, first + VIEW_MAX)
    for grant in sorted(key.grants.values(), key=lambda grant: grant.ends)[listed]:
        nested.setdefault(grant.fence, []).append(grant)
    mode = _holdfast.HF_SHARED if info.shared else _holdfast.HF_EXCLUSIVE
    holders = [
        (
            grants[0].owner,
            grants[0].note,
            mode,
            fence,
            len(grants),
            math.floor(now - grants[0].since),
            _milliseconds(grants[-1].ends - now),
            int(all(grant.kept for grant in grants)),
            sum(grant.weight for grant in grants),
        )
        for fence, grants in nested.items()
    ]
    return name, holders, [each.told(now) for each in key.queue[listed]]


def hf_lock_inspect(lock: Lock, first: int, info: Any) -> View:
    """Look at the lock."""
    space = lock.client.space
    lock.client.check()
    with space:
        space.check_reachable()
        return _looked(space, lock.name, first, info)


class Locks:
    """A walk over all locks."""

    def __init__(self, client: Client, pattern: bytes) -> None:
        """Walk over the locks that exist now."""
        self.client = client
        matches = re.compile(_regex(pattern), re.DOTALL).fullmatch
        with client.space:
            self.names = sorted(
                name for name in {*client.space.names(), *client.space.limits} if matches(name)
            )
        self.keys = len(self.names)
        self.told = 0


def _regex(pattern: bytes) -> bytes:
    """Translate a pattern of Redis."""
    made, at = b"", 0
    while at < len(pattern):
        each = pattern[at : at + 1]
        at += 1
        if each == b"[":
            end = re.compile(rb"(?:\\.|[^\]])*", re.DOTALL).match(pattern, at)
            inside = end[0] if end else b""
            at += len(inside) + 1
            none = b"(?s:.)" if inside == b"^" else b"(?!)"
            made += b"[" + inside + b"]" if inside.strip(b"^") else none
        elif each == b"\\" and at < len(pattern):
            made += re.escape(pattern[at : at + 1])
            at += 1
        else:
            made += {b"*": b".*", b"?": b"."}.get(each, re.escape(each))
    return made


def hf_locks_open(client: Client, pattern: bytes, options: object) -> Locks:
    """Begin a walk."""
    client.check()
    if not 1 <= len(pattern) <= 4096:
        raise _invalid(f"the pattern has {len(pattern)} bytes: it takes 1 to 4096")
    try:
        return Locks(client, pattern)
    except re.error:
        raise _invalid(f"the memory server cannot read the pattern {quoted(pattern)}") from None


def hf_locks_next(locks: Locks, info: Any) -> View | None:
    """Return the next lock that still exists."""
    space = locks.client.space
    locks.client.check()
    with space:
        space.check_reachable()
        while locks.names:
            name = locks.names.pop(0)
            if space.key(name) is not None or name in space.limits:
                locks.told += 1
                return _looked(space, name, 0, info)
        return None


def hf_locks_progress(locks: Locks, progress: Any) -> None:
    """Return the progress of a walk."""
    progress.locks = locks.told
    progress.keys = locks.keys
    progress.keys_seen = locks.keys - len(locks.names)
    progress.refused = progress.commands = progress.round_trips = progress.answer_us = 0


def hf_lock_limit(lock: Lock, permits: int, per_ms: int) -> tuple[int, int]:
    """Store the number of the name's permits; refuse waiters with another number."""
    space = lock.client.space
    lock.client.check()
    with space:
        space.check_reachable()
        was = space.limits.pop(lock.name, (0, 0))
        if permits:
            space.limits[lock.name] = permits, per_ms
        key = space.key(lock.name)
        for waiter in list(key.queue) if key is not None else []:
            if differs := waiter.lock.differs():
                waiter.end(_holdfast.HF_ELIMIT, differs)
        if key is not None:
            key.serve()
        return was


def hf_lock_break(lock: Lock, fence: int, flags: int) -> None:
    """Take the lock away; the holder notices later."""
    space = lock.client.space
    lock.client.check()
    if not 0 <= fence < 2**63:
        raise _invalid(f"a fence of {fence}: breaking a lock takes its holder's fence")
    with space:
        space.check_reachable()
        key = space.key(lock.name)
        if key is None:
            return
        broken = [grant for grant in key.grants.values() if grant.fence == fence]
        if not broken:
            raise error(
                _holdfast.HF_ENOTHELD, f"lock {quoted(lock.name)} is not held with that fence"
            )
        for grant in broken:
            key.remove(grant)


def hf_lock_adopt(lock: Lock, token: bytes, hold_out: list[Handle]) -> None:
    """Take over a hold that was handed over."""
    lock.client.check()
    found = TOKEN.fullmatch(token)
    name, owner = (found[4][: int(found[3])], found[4][int(found[3]) :]) if found else (b"", b"")
    if found is None or not owner:
        raise _invalid("that is not the token of a hold that was handed over")
    if name != lock.name:
        raise _invalid(
            f"that is a token of lock {quoted(name)}, and this lock is {quoted(lock.name)}"
        )
    if lock.shared != (found[2] == b"s"):
        its, mine = ("an exclusive", "shared") if lock.shared else ("a shared", "exclusive")
        raise _invalid(f"that is the token of {its} hold, and this lock's are {mine}")
    with lock.client.space:
        hold_out.append(_adopted(lock, found[1].decode(), owner))


def _adopted(lock: Lock, grant_id: str, owner: bytes) -> Handle:
    space = lock.client.space
    space.check_reachable()
    key = space.key(lock.name)
    grant = key.grants.get(grant_id) if key is not None else None
    if key is None or grant is None:
        raise error(
            _holdfast.HF_ELOST,
            f"the hold of lock {quoted(lock.name)} is lost: {UNKNOWN}",
            _holdfast.HF_CAUSE_GONE,
        )
    hold = Hold(lock, key, grant, owner, (lock.name, owner, lock.shared), False)
    hold.last(space.now + lock.lease)
    return Handle(hold)


# ---------------------------------------------------------------------- Hold


def _release(handle: Handle) -> None:
    hold = handle.hold
    if hold.state == _holdfast.HF_STATE_RELEASED:
        raise _explained(hold)
    lost, known = not hold.stands(), hold.known()
    grant = hold.end()
    if not lost:
        hold.space.check_reachable()
        if not known:
            hold.tally.lost(_holdfast.HF_CAUSE_GONE)
    if hold.space.reachable:
        grant.key.remove(grant)
    if lost or not known:
        raise _lost(hold, hold.why() if lost else UNKNOWN)
    hold.tally.counts["released"] += 1


def _lost(hold: Hold, how: str) -> Exception:
    message = f"the hold of lock {quoted(hold.key.name)} is lost: {how}"
    cause = _holdfast.HF_CAUSE_GONE if how == UNKNOWN else hold.cause
    return error(_holdfast.HF_ELOST, message, cause)


def _explained(hold: Hold) -> Exception:
    """Return the exception for a hold that is not held."""
    try:
        hold.client.check()  # whether the close released it
    except LockError as closed:
        return closed
    if hold.state == _holdfast.HF_STATE_LOST:
        return _lost(hold, hold.why())
    name = quoted(hold.key.name)
    return error(_holdfast.HF_ENOTHELD, f"this hold of lock {name} was released before")


def _check_held(hold: Hold) -> None:
    """Refuse a hold that the server no longer has."""
    if not hold.stands():
        raise _explained(hold)
    hold.space.check_reachable()
    if not hold.known():
        hold.lose(_holdfast.HF_CAUSE_GONE)
        raise _lost(hold, UNKNOWN)


def _renew(handle: Handle) -> None:
    hold = handle.hold
    _check_held(hold)
    hold.last(hold.space.now + hold.lease)


def _extend(handle: Handle, duration_ms: int, flags: int) -> None:
    hold, lasting = handle.hold, _lasting(duration_ms)
    if not flags and lasting == math.inf:
        raise _invalid("extend by -1 ms: it takes 10 ms to 10 years")
    if lasting == math.inf and hold.max_hold < math.inf:
        raise _invalid("max_hold needs a lease that ends")
    _check_held(hold)
    if flags:
        hold.replace(lasting)
    else:
        hold.last(min(hold.deadline + lasting, hold.space.now + _holdfast.HF_LEASE_MAX))


def _keep(handle: Handle, duration_ms: int) -> None:
    if duration_ms == 0:
        _release(handle)
        return
    _check_held(handle.hold)
    handle.hold.replace(max(duration_ms, _holdfast.HF_LEASE_MIN))
    handle.hold.end().kept = True
    handle.hold.tally.counts["kept"] += 1


def _leave(handle: Handle) -> None:
    _keep(handle, handle.hold.least_left())


def _record(hold: Hold, state: int, result: bytes, until: float) -> Record:
    grant, space = hold.grant, hold.space
    asked, since = hold.asked, space.wall()
    return Record(state, asked, grant.id, grant.fence, hold.owner, since, b"", result, until)


def _finish(handle: Handle, state: int, result: bytes, ttl_ms: int) -> None:
    hold, space, name = handle.hold, handle.hold.space, handle.hold.key.name
    if state in KEPT and hold.asked.most and not hold.begun:
        raise _invalid("a call that is made at most once begins with hf_once_mark()")
    if hold.state == _holdfast.HF_STATE_RELEASED:
        raise _explained(hold)
    mine = _record(hold, state, result, space.now + ttl_ms)
    end = name, mine, hold.known()
    if not space.reachable and hold.begun:
        space.undone.append(end)
    kept = space.end_call(*end) if space.reachable else True
    try:
        try:
            _release(handle)
        except LockLost:
            if not hold.begun and state in KEPT:
                raise
    except LockError:
        hold.tally.finished(state, state not in KEPT)
        raise
    hold.tally.finished(state, kept is True or state not in KEPT)
    if kept is not True and hold.begun:
        how = "the call was settled or forgotten meanwhile" if kept is None else ""
        how = how or "the call was settled meanwhile, or another caller made it"
        what = "result" if state in KEPT else "outcome"
        raise error(_holdfast.HF_ESETTLED, f"the {what} for lock {quoted(name)} is not kept: {how}")


def _mark(handle: Handle, unknown_ms: int, note: bytes) -> tuple[int, str]:
    hold, space, name = handle.hold, handle.hold.space, handle.hold.key.name
    if hold.state == _holdfast.HF_STATE_RELEASED:
        raise _explained(hold)
    try:
        _check_held(hold)
    except LockError:
        hold.tally.finished(RETRY, True)
        with contextlib.suppress(LockError):
            _release(handle)
        raise
    mine = _record(hold, BEGUN, b"", math.inf)
    mine = replace(mine, note=note, lasts=_lasting(unknown_ms))
    other = space.calls.begin(name, mine, space.now)
    if other is None:
        hold.begun = True
        hold.tally.counts["begun"] += 1
        return _holdfast.HF_OK, ""
    hold.tally.finished(RETRY, True)
    _release(handle)
    handle.hold = Done(hold.lock, other)
    return other.status(hold.asked, quoted(name))


def _check_result(result: bytes) -> None:
    if len(result) > _holdfast.HF_RESULT_MAX:
        raise _invalid(f"the result has {len(result)} bytes: at most {_holdfast.HF_RESULT_MAX}")


def _check(handle: Handle) -> None:
    _check_held(handle.hold)


def _ask(work: Callable[..., None], hold: Handle, *arguments: object) -> None:
    hold.hold.client.check()
    with hold.hold.space:
        work(hold, *arguments)


def hf_hold_release(hold: Handle) -> None:
    """Release the hold."""
    _ask(_leave, hold)


def hf_hold_renew(hold: Handle) -> None:
    """Make the hold last its whole lease again."""
    _ask(_renew, hold)


def hf_hold_extend(hold: Handle, duration_ms: int, flags: int) -> None:
    """Make the hold last longer, or exactly duration_ms."""
    _ask(_extend, hold, duration_ms, flags)


def hf_hold_keep(hold: Handle, duration_ms: int) -> None:
    """Leave the lock held for duration_ms."""
    _ask(_keep, hold, duration_ms)


def hf_hold_keep_at_least(hold: Handle, duration_ms: int) -> None:
    """Make a release keep the lock until duration_ms after the acquire."""
    with hold.hold.space:
        hold.hold.keep_at_least(duration_ms)


def hf_once_finish(hold: Handle, state: int, result: bytes, ttl_ms: int) -> None:
    """Release the hold, and report how its call ended."""
    _check_result(result)
    _ask(_finish, hold, state, result, ttl_ms)


def hf_once_mark(hold: Handle, unknown_ms: int, note: bytes) -> tuple[int, str]:
    """Record that the hold's call begins."""
    hold.hold.client.check()
    with hold.hold.space:
        return _mark(hold, unknown_ms, note)


def hf_once_outcome(hold: Handle) -> _holdfast.OnceInfo:
    """Return the record of the call."""
    with hold.hold.space:
        runs = isinstance(hold.hold, Done) and hold.hold.runs
        return told(hold.hold.record, runs, hold.hold.space.now)


def hf_once_look(lock: Lock, hold_out: list[Handle]) -> None:
    """Read the record of the call."""
    lock.client.check()
    with lock.client.space:
        space = lock.client.space
        space.check_reachable()
        hold_out.append(Handle(Done(lock, space.calls.get(lock.name, space.now))))


def hf_once_settle(
    lock: Lock,
    state: int,
    fence: int,
    flags: int,
    result: bytes | None,
    ttl_ms: int,
    note: bytes | None,
) -> None:
    """Settle a call."""
    lock.client.check()
    _check_result(result or b"")
    with lock.client.space:
        space, name = lock.client.space, lock.name
        space.check_reachable()
        until, owner = space.now + ttl_ms, lock.owner or lock.client.own()
        settler, force = uuid.uuid4().hex, bool(flags & _holdfast.HF_SETTLE_FORCE)
        asked, given = Asked(True, None), result or b""
        said = Record(state, asked, settler, fence, owner, space.wall(), note or b"", given, until)
        status, why = space.calls.settle(name, said, force, space.now)
        if status == _holdfast.HF_OK:
            key = space.key(name)
            grant = key.exclusive if key is not None else None
            if key is not None and grant is not None and grant.fence == fence:
                key.clear()
            space.tell_outcome(name)
            return
        raise error(
            status,
            {
                _holdfast.HF_ENOTHELD: f"lock {quoted(name)} {why}",
                _holdfast.HF_EBUSY: f"the call of lock {quoted(name)} is in progress: settling it"
                " now takes force",
            }.get(status, f"the call of lock {quoted(name)} has been settled already, or is done"),
        )


def hf_hold_result(hold: Handle) -> bytes | None:
    """Return the result or the error of another caller's call."""
    record = hold.hold.record
    return record.result if record is not None and record.state in KEPT else None


def hf_hold_check(hold: Handle) -> None:
    """Ask the server whether the hold stands."""
    _ask(_check, hold)


def hf_hold_hand_over(hold: Handle) -> bytes:
    """Return a token, and end the hold here."""
    hold.hold.client.check()
    with hold.hold.space:
        if not hold.hold.stands():
            raise _explained(hold.hold)
        return hold.hold.hand_over()


def hf_hold_fence(hold: Handle) -> int:
    """Return the fence."""
    return hold.hold.fence


def hf_hold_number(hold: Handle) -> int:
    """Return the number."""
    return hold.hold.number


def hf_hold_remaining_ms(hold: Handle) -> int:
    """Return how long the hold lasts."""
    if hf_hold_state(hold) != _holdfast.HF_STATE_HELD:
        return 0
    left = min(each.deadline for each in (hold.hold, *hold.hold.joined)) - hold.hold.space.now
    return _holdfast.HF_NEVER if left == math.inf else math.floor(max(left, 0))


def hf_hold_votes(hold: Handle) -> tuple[int, int]:
    """Return the number of masters that have the hold, and of all masters."""
    return int(hf_hold_state(hold) == _holdfast.HF_STATE_HELD), 1


def hf_hold_state(hold: Handle) -> int:
    """Return whether the hold is held, lost or released."""
    if os.getpid() != hold.hold.client.pid:
        return _holdfast.HF_STATE_LOST
    with hold.hold.space:
        return hold.hold.state


def hf_hold_cause(hold: Handle) -> int:
    """Return why the hold was lost."""
    if os.getpid() != hold.hold.client.pid:
        return _holdfast.HF_CAUSE_NONE
    with hold.hold.space:
        return hold.hold.cause


# ------------------------------------------------------------------- Started


def _started(handle: Handle, kind: int, op: int, work: Callable[[], None]) -> None:
    """Do the work now; the completion reports the result."""
    hold = handle.hold
    hold.client.check()
    with hold.space:
        hold.client.descriptor()
        if hold.state == _holdfast.HF_STATE_RELEASED:
            raise _explained(hold)
        status, message, cause = _outcome(work)
        hold.client.tell(Completion(kind, status, op, hold.number, None, cause, message))


def _outcome(work: Callable[[], None]) -> tuple[int, str, int]:
    try:
        work()
    except LockLost as lost:
        causes = {cause: number for number, cause in CAUSES.items()}
        return _holdfast.HF_ELOST, str(lost), causes[lost.cause]
    except ConnectError as unreachable:
        return _holdfast.HF_ECONNECT, str(unreachable), _holdfast.HF_CAUSE_NONE
    except OutcomeSettled as settled:
        return _holdfast.HF_ESETTLED, str(settled), _holdfast.HF_CAUSE_NONE
    return _holdfast.HF_OK, "", _holdfast.HF_CAUSE_NONE


def hf_hold_release_start(hold: Handle, op: int) -> None:
    """Release the hold; a completion follows."""
    _started(hold, _holdfast.HF_KIND_RELEASE, op, lambda: _leave(hold))


def hf_hold_renew_start(hold: Handle, op: int) -> None:
    """Renew the hold; a completion follows."""
    _started(hold, _holdfast.HF_KIND_RENEWAL, op, lambda: _renew(hold))


def hf_hold_extend_start(hold: Handle, duration_ms: int, flags: int, op: int) -> None:
    """Extend the hold; a completion follows."""
    _started(hold, _holdfast.HF_KIND_RENEWAL, op, lambda: _extend(hold, duration_ms, flags))


def hf_hold_keep_start(hold: Handle, duration_ms: int, op: int) -> None:
    """Leave the lock held for duration_ms; a completion follows."""
    _started(hold, _holdfast.HF_KIND_RELEASE, op, lambda: _keep(hold, duration_ms))


def hf_once_finish_start(hold: Handle, state: int, result: bytes, ttl_ms: int, op: int) -> None:
    """Release the hold, and report how its call ended; a completion follows."""
    _check_result(result)
    work = functools.partial(_finish, hold, state, result, ttl_ms)
    _started(hold, _holdfast.HF_KIND_RELEASE, op, work)


def hf_hold_check_start(hold: Handle, op: int) -> None:
    """Ask the server whether the hold stands; a completion follows."""
    _started(hold, _holdfast.HF_KIND_RENEWAL, op, lambda: _check(hold))

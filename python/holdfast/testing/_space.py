"""The work of a Redis server and of the clients' threads, in the memory of this process."""

from __future__ import annotations

import _thread
import bisect
import collections
import contextlib
import heapq
import itertools
import math
import os
import socket
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .. import _holdfast
from .._errors import error
from .._look import Origin
from ._calls import Asked, Record, Records
from ._numbers import Numbers

_LOOK = 10_000.0  # ms between two checks of a hold that never ends
UNKNOWN = "the server no longer knows it"
_TRIES = 8  # a failed renewal is tried again after this fraction of its interval

# A name, an owner or the lock whose acquires own the hold, and whether they share the lock.
Holder = tuple[bytes, "int | bytes", bool]


def quoted(name: bytes) -> str:
    """Show a name in a message."""
    return repr(name.decode("utf-8", "backslashreplace"))


def _shown(grant: Grant) -> str:
    """Show an owner and its note in a message."""
    origin = Origin.of(grant.owner)
    note = f", noted {quoted(grant.note)}" if grant.note else ""
    if origin is None:
        return quoted(grant.owner) + note
    where = f"{origin.client}@{origin.host}/{origin.pid}"
    return f"'{where} {origin.kind} {origin.number}'{note}"


class Timer:
    """An event at a time."""

    entry: list[Any] | None = None  # its place among the timers: when, a serial number, itself

    def fire(self) -> None:
        """Handle the event; the space's `now` is the time."""
        raise NotImplementedError


class Space:
    """Names, their holders and their queues; all times are milliseconds of its clock.

    Enter it around every use: this waits for other threads, and handles all events that are due.
    """

    def __init__(self, stopped: bool, replicas: int | None) -> None:
        """Begin empty."""
        self.replicas = replicas
        self.reachable = True
        self.now = 0.0
        self.dropped: collections.deque[Hold] = collections.deque()  # by the garbage collector
        self._pid = os.getpid()
        self._stopped = stopped
        self._ahead = 0.0
        self._fence = 0
        self._depth = 0
        self._keys: dict[bytes, Key] = {}
        self.limits: dict[bytes, tuple[int, int]] = {}
        self.calls = Records(self._runs)
        self.undone: list[tuple[bytes, Record, bool]] = []  # ends of calls, while stopped
        self._clients: weakref.WeakSet[Client] = weakref.WeakSet()
        self._timers: list[list[Any]] = []
        self._crowded = 64
        self._serials = itertools.count(1)
        self._changed = threading.Condition(threading.RLock())
        self._ticking = False

    def __enter__(self) -> None:
        """Wait for other threads, and handle the events that are due."""
        # When the interpreter ends, other threads end where they are, perhaps in here.
        self._changed.acquire(blocking=not sys.is_finalizing())
        self._depth += 1
        if self._depth == 1:  # else a finalizer runs in between
            self._catch_up()

    def __exit__(self, *_: object) -> None:
        """Let other threads in."""
        self._depth -= 1
        if not sys.is_finalizing():
            self._changed.release()

    def check_process(self) -> None:
        """Refuse a forked process, which has only a copy."""
        if os.getpid() != self._pid:
            raise error(
                _holdfast.HF_ECONNECT,
                f"this memory server is in process {self._pid}, and no other process reaches it",
            )

    def check_reachable(self) -> None:
        """Refuse while the server is stopped."""
        if not self.reachable:
            raise error(_holdfast.HF_ECONNECT, "the memory server is stopped")

    # ------------------------------------------------------------------ Time

    def _clock(self) -> float:
        real = 0 if self._stopped else time.clock_gettime(time.CLOCK_BOOTTIME) * 1000
        return real + self._ahead

    def _catch_up(self) -> None:
        while self.dropped:
            self.dropped.popleft().forget()
        until = self._clock()
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer is not None:
                timer.entry = None
                self.now = max(self.now, due)
                timer.fire()
        self.now = max(self.now, until)

    def schedule(self, timer: Timer, due: float) -> None:
        """Set the time of an event, instead of its time before."""
        if timer.entry is not None:
            timer.entry[2] = None
        timer.entry = None if due == math.inf else [due, next(self._serials), timer]
        if timer.entry is None:
            return
        heapq.heappush(self._timers, timer.entry)
        if self._timers[0] is timer.entry:
            self.wake()
        if len(self._timers) > self._crowded:
            self._timers = [entry for entry in self._timers if entry[2] is not None]
            heapq.heapify(self._timers)
            self._crowded = 2 * len(self._timers) + 64

    def advance(self, milliseconds: float) -> None:
        """Put the clock forward, and handle the events that are due."""
        self.check_process()
        with self:
            self._ahead += milliseconds
            self._catch_up()
            self.wake()

    def sleep(self) -> None:
        """Wait until the state has changed, or the next event is due."""
        timers = self._timers
        due = timers[0][0] if timers and not self._stopped else math.inf
        depth, self._depth = self._depth, 0
        try:
            self._changed.wait(None if due == math.inf else max(0, due - self._clock()) / 1000)
        finally:
            self._depth = depth
        self._catch_up()

    def wake(self) -> None:
        """Wake all sleeping threads, so that they check again."""
        self._changed.notify_all()

    def tick(self) -> None:
        """Handle events in time even without calls, because a client listens."""
        if not self._ticking:
            self._ticking = True
            # Not a threading.Thread: the library's own threads are not Python's, either.
            _thread.start_new_thread(self._tick, ())

    def _tick(self) -> None:
        with self:
            try:
                while any(client.fd >= 0 and not client.closed for client in self._clients):
                    self.sleep()
            finally:
                self._ticking = False

    # ----------------------------------------------------------------- Names

    def key(self, name: bytes) -> Key | None:
        """Return the state of a name that is held."""
        return self._keys.get(name)

    def key_made(self, name: bytes) -> Key:
        """Return the state of a name; make the state if the name is free."""
        return self._keys.setdefault(name, Key(self, name))

    def names(self) -> list[bytes]:
        """Return the names that are held."""
        return list(self._keys)

    def drop(self, name: bytes) -> None:
        """Forget a name that is free."""
        self._keys.pop(name, None)

    def _runs(self, name: bytes, fence: int) -> bool:
        key = self.key(name)
        grant = key.exclusive if key is not None else None
        return grant is not None and grant.fence == fence

    def outcome(self, name: bytes) -> Record | None:
        """Return the record that callers get of the call of a name."""
        return self.calls.outcome(name, self.now)

    def wall(self) -> int:
        """Return the time of day, milliseconds."""
        return time.time_ns() // 1_000_000 + int(self._ahead)

    def end_call(self, name: bytes, mine: Record, live: bool) -> bool | None:
        """Record how a call ended, and end the acquires that wait for its outcome."""
        kept = self.calls.end(name, mine, live, self.now)
        self.tell_outcome(name)
        return kept

    def tell_outcome(self, name: bytes) -> None:
        """End the acquires that wait for an outcome, if there is one."""
        key = self.key(name)
        for waiter in list(key.queue) if key is not None else ():
            record = self.outcome(name) if waiter.asked is not None else None
            if record is not None:
                waiter.get(record)

    def next_fence(self) -> int:
        """Return a fence above all others: as with Redis, the time in microseconds."""
        ahead = int(self._ahead * 1000)
        self._fence = max(self._fence + 1, time.time_ns() // 1000 + ahead)
        return self._fence

    def holds(self, name: bytes) -> Iterator[Hold]:
        """Return the clients' holds of a name."""
        for client in list(self._clients):
            for hold in list(client.holds.values()):
                if hold.key.name == name:
                    yield hold

    def join(self, client: Client) -> None:
        """Add a new client."""
        self._clients.add(client)

    def start(self) -> None:
        """Be reachable again, and record the calls that ended meanwhile."""
        self.reachable = True
        while self.undone:
            self.end_call(*self.undone.pop(0))

    def stop(self) -> None:
        """Be unreachable: waiters fail."""
        self.reachable = False
        for key in list(self._keys.values()):
            for waiter in list(key.queue):
                waiter.end(_holdfast.HF_ECONNECT, "the memory server was stopped")


class Grant(Timer):
    """The server's record of one hold."""

    def __init__(
        self, key: Key, owner: bytes, note: bytes, shared: bool, fence: int, ends: float
    ) -> None:
        """Make a hold that lasts until `ends`."""
        self.key = key
        self.owner = owner
        self.note = note
        self.shared = shared
        self.fence = fence
        self.since = key.space.now
        self.kept = False
        self.weight = int(shared)
        self.id = uuid.uuid4().hex
        self.ends = math.inf
        self.move(ends)

    def move(self, ends: float) -> None:
        """Let the hold last until `ends` instead."""
        self.ends = ends
        self.key.space.schedule(self, ends)

    def stands(self) -> bool:
        """Return whether the server still has it."""
        return self.key.grants.get(self.id) is self

    def fire(self) -> None:
        """End the hold: its lease has ended."""
        self.key.remove(self)


class Key:
    """A name, its holders, and its waiters."""

    def __init__(self, space: Space, name: bytes) -> None:
        """Begin free."""
        self.space = space
        self.name = name
        self.grants: dict[str, Grant] = {}
        self.queue: list[Waiter] = []

    @property
    def exclusive(self) -> Grant | None:
        """The first exclusive hold; all are one owner's. None: the name is free or held shared."""
        return next((grant for grant in self.grants.values() if not grant.shared), None)

    @property
    def first(self) -> Grant | None:
        """The hold that a look at the lock shows: of several shared ones, the first to end."""
        shared = min(self.grants.values(), key=lambda grant: grant.ends, default=None)
        return self.exclusive or shared

    def outer(self, lock: Lock, owner: bytes) -> Grant | None:
        """Return the hold in which a hold of the owner would nest."""
        holder = self.exclusive
        if holder is not None:
            return holder if holder.owner == owner and lock.nests(owner) else None
        return lock.live(owner) if lock.shared else None

    def admits(self, waiter: Waiter) -> bool:
        """Return whether the holders and earlier waiters let the waiter have the lock now."""
        lock = waiter.lock
        if not self.grants or self.outer(lock, waiter.owner) is not None:
            return True
        first = not self.queue or self.queue[0] is waiter
        used = sum(grant.weight for grant in self.grants.values())
        permits = lock.permits or self.space.limits.get(lock.name, (0, 0))[0]
        few = not permits or used + lock.weight <= permits
        return lock.shared and self.exclusive is None and first and few

    def deadlocks(self, lock: Lock, owner: bytes) -> bool:
        """Return whether the owner would wait for its own shared hold."""
        outer = lock.live(owner) if self.exclusive is None else None
        return outer is not None and (not lock.shared or lock.weight > outer.weight)

    def take(self, waiter: Waiter) -> Grant:
        """Give the lock to a waiter that it admits."""
        lock, owner = waiter.lock, waiter.owner
        outer = self.outer(lock, owner)
        fence = outer.fence if outer is not None else self.space.next_fence()
        note = outer.note if outer is not None else waiter.note
        grant = Grant(self, owner, note, lock.shared, fence, self.space.now + lock.lease)
        grant.weight = lock.weight
        if outer is not None:
            grant.since = outer.since
        self.grants[grant.id] = grant
        return grant

    def remove(self, grant: Grant) -> None:
        """End one hold; after the last one, the next waiter has its turn."""
        self.space.schedule(grant, math.inf)
        if self.grants.pop(grant.id, None) is not None:
            self.serve()

    def clear(self) -> None:
        """End all holds."""
        for grant in self.grants.values():
            self.space.schedule(grant, math.inf)
        self.grants.clear()
        self.serve()

    def serve(self) -> None:
        """Grant the lock to the waiters that it admits, in order; outcomes are reported first."""
        self.space.tell_outcome(self.name)
        while waiter := next((each for each in self.queue if self.admits(each)), None):
            waiter.win()
        if not self.grants and not self.queue:
            self.space.drop(self.name)

    @property
    def ends(self) -> float:
        """The time at which its last hold ends."""
        return max((grant.ends for grant in self.grants.values()), default=self.space.now)


class Completion(NamedTuple):
    """The result of hf_client_next()."""

    kind: int
    status: int
    op: int
    number: int
    hold: Handle | None
    detail: int
    message: str
    timeouts: int = 0
    name: bytes = b""
    holds: int = 0
    left: int = 0


_NOTHING = Completion(_holdfast.HF_KIND_NONE, 0, 0, 0, None, 0, "")


class Client:
    """A client's holds and completions."""

    def __init__(self, space: Space, name: str, options: Any) -> None:
        """Open a client."""
        self.space = space
        self.pid = os.getpid()
        self.id = f"{name}@{socket.gethostname()}/{self.pid}:{uuid.uuid4().hex}"
        self.closed = False
        self.fd = -1
        self.counting = Numbers(options)
        self.holds: dict[int, Hold] = {}
        self.kept: dict[Holder, list[Hold]] = {}
        self.waiters: dict[int, Waiter] = {}
        self.numbers = itertools.count(1)
        self._told: collections.deque[Completion] = collections.deque()
        self.failing: set[int] = set()  # the numbers of holds whose renewals fail
        self._trouble_at: float | None = None
        space.join(self)

    def __del__(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)

    def check(self) -> None:
        """Refuse calls from another process, and calls after the close."""
        if os.getpid() != self.pid:
            raise error(_holdfast.HF_EFORKED, "the client belongs to the process before the fork")
        if self.closed:
            raise error(_holdfast.HF_ECLOSED, "the client is closed")

    def owner(self, kind: str, serial: int) -> bytes:
        """Return the owner that represents a thread, a task or one acquire."""
        return f"{self.id}:{kind}{serial or thread_serial()}".encode()

    def own(self) -> bytes:
        """Return an owner for one acquire."""
        return self.owner("o", next(_serials))

    def descriptor(self) -> int:
        """Return the descriptor that is readable while there are completions, and let time pass."""
        if self.fd < 0:
            self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self.space.tick()
        return self.fd

    def tell(self, completion: Completion) -> None:
        """Put a completion on the queue."""
        if self.fd >= 0:
            self._told.append(completion)
            os.eventfd_write(self.fd, 1)

    def told(self) -> Completion:
        """Take the next completion off the queue."""
        if self._told:
            return self._told.popleft()
        self.check()
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)
        return _NOTHING

    def renewal_fails(self, number: int) -> None:
        """Report trouble with the first failing renewal."""
        first = not self.failing
        self.failing.add(number)
        if not first:
            return
        if self._trouble_at is None:
            self._trouble_at = self.space.now
        ends = [hold.deadline for hold in self.holds.values() if hold.at_risk()]
        left = min(ends) - self.space.now
        which = "1 hold, which" if len(ends) == 1 else f"{len(ends)} holds, the first of which"
        message = f"cannot renew {which} ends in {left / 1000:.1f} s: the memory server is stopped"
        self._tell_trouble(_holdfast.HF_ECONNECT, message, len(ends), round(left))

    def renewal_works(self, number: int) -> None:
        """Report the end of the trouble with the last failing renewal."""
        self.failing.discard(number)
        if self._trouble_at is None or self.failing:
            return
        passed = self.space.now - self._trouble_at
        self._trouble_at = None
        message = f"holds are renewed again, after {passed / 1000:.1f} s"
        self._tell_trouble(_holdfast.HF_OK, message)

    def _tell_trouble(self, status: int, message: str, holds: int = 0, left: int = 0) -> None:
        kind = _holdfast.HF_KIND_TROUBLE
        self.tell(Completion(kind, status, 0, 0, None, 0, message, holds=holds, left=left))

    def timed_out(self, lock: Lock, message: str) -> None:
        """Count a timeout of a lock, which may raise the alarm."""
        rule = lock.rule
        timeouts = self.counting.alarms(lock.name, rule, self.space.now) if rule else 0
        if rule is None or not timeouts:
            return
        lock.tally.counts["alarms"] += 1
        message = f"{timeouts} acquires timed out within {rule[1] / 1000:g} s: {message}"
        self.tell(
            Completion(
                _holdfast.HF_KIND_ALARM,
                _holdfast.HF_ETIMEOUT,
                0,
                0,
                None,
                0,
                message,
                timeouts,
                lock.name,
            )
        )

    def stop(self) -> None:
        """End all waits, and refuse calls."""
        for waiter in list(self.waiters.values()):
            waiter.end(_holdfast.HF_ECANCELED, "the client was closed")
        self.closed = True
        self.space.wake()

    def close(self, release: bool) -> None:
        """End all waits, and end all holds; release them on the server if asked."""
        self.stop()
        for hold in list(self.holds.values()):
            grant = hold.end()
            if release and self.space.reachable:
                grant.key.remove(grant)
        if self.fd >= 0:
            os.eventfd_write(self.fd, 1)
        self.space.wake()


class Lock:
    """A name with its options."""

    def __init__(self, client: Client, name: bytes, owner: bytes | None) -> None:
        """Begin with the default options."""
        self.client = client
        self.name = name
        self.owner = owner
        self.note = b""
        self.serial = next(_serials)
        self.lease = float(_holdfast.HF_LEASE_DEFAULT)
        self.renew = True
        self.reentrant = True
        self.shared = False
        self.permits = 0
        self.weight = 0
        self.ahead = 0
        self.gate = False  # whether it follows the stored rate
        self.max_hold = math.inf
        self.replicas = 0
        self.tally = client.counting.rest
        self.rule = client.counting.rule

    def differs(self) -> str:
        """Return how its number differs from the stored limit; empty: it does not."""
        permits, per = self.client.space.limits.get(self.name, (0, 0))
        name, mine = quoted(self.name), self.permits
        if self.gate:
            if not per:
                return f"no rate is stored with gate {name}, and this acquire gives none"
            self.lease = per
        if not self.shared or (not permits and (mine or self.weight < 2)):
            return ""
        if not permits:
            return (
                f"no limit is stored with lock {name}, and this acquire takes {self.weight} permits"
            )
        if per and (per != self.lease or (mine and mine != permits)):
            return (
                f"lock {name} is a gate that lets pass {permits} in {per} ms, and this acquire"
                f" gives {mine} in {self.lease:.0f} ms"
            )
        if mine not in (0, permits):
            return f"lock {name} has {permits} permits, and this acquire gives {mine}"
        if self.weight > permits:
            return f"lock {name} has {permits} permits, and this acquire takes {self.weight}"
        return ""

    def nests(self, owner: bytes) -> bool:
        """Return whether it may nest: the client's own owners only in holds that still stand."""
        holds = self.client.holds.values()
        return self.reentrant and (
            not owner.startswith(f"{self.client.id}:".encode())
            or any(
                hold.key.name == self.name and hold.owner == owner and hold.stands()
                for hold in holds
            )
        )

    def live(self, owner: bytes) -> Grant | None:
        """Return a hold of this client that the owner still has, if the lock is reentrant."""
        holds = self.client.holds.values() if self.reentrant else ()
        return next(
            (
                hold.grant
                for hold in holds
                if hold.key.name == self.name
                and hold.owner == owner
                and hold.stands()
                and hold.known()
            ),
            None,
        )

    def chosen(self, owner: bytes | None, by_thread: bool) -> tuple[bytes, Holder]:
        """Return the owner of a call, and the holder whose stack its hold is on."""
        owner = owner if owner is not None else self.owner
        if owner is not None:
            return owner, (self.name, owner, self.shared)
        if self.reentrant and by_thread:
            owner = self.client.owner("t", 0)
            return owner, (self.name, owner, self.shared)
        owner = self.client.own()
        return owner, (self.name, owner if self.reentrant else self.serial, self.shared)


_serials = itertools.count(1)
_threads = threading.local()


def thread_serial() -> int:
    """Return the number of the calling thread."""
    if not hasattr(_threads, "serial"):
        _threads.serial = next(_serials)
    serial: int = _threads.serial
    return serial


class Waiter(Timer):
    """One acquire, until it ends."""

    def __init__(
        self,
        lock: Lock,
        owner: bytes,
        holder: Holder,
        timeout: float,
        keep: bool,
        op: int,
        note: bytes,
        asked: Asked | None = None,
        then: Callable[[Waiter], None] | None = None,
        thread: int = 0,
    ) -> None:
        """Begin an acquire; `op` is 0 for a thread that blocks. With `asked`, an outcome will do.

        then    Called at the end, in place of a completion.
        thread  The thread that acquires, or 0.
        """
        self._thread = thread
        self.asked = asked
        self._then = then
        self.note = note
        self.lock = lock
        self.owner = owner
        self.status: int | None = None
        self.message = ""
        self.handle: Handle | None = None
        self._holder = holder
        self._keep = keep
        self._op = op
        self._timeout = timeout
        self._began = lock.client.space.now
        self.place = self._began - lock.ahead
        self._number = 0  # its key among the client's waiters, once it waits
        record = lock.client.space.outcome(lock.name) if asked is not None else None
        if record is not None:
            self.get(record)
            return
        key = lock.client.space.key_made(lock.name)
        if key.deadlocks(lock, owner):
            what = "a heavier hold of it" if lock.shared else "it exclusively"
            self.end(
                _holdfast.HF_EDEADLOCK,
                f"lock {quoted(lock.name)} is held shared by the owner that asks for {what}:"
                " two that did so would wait for each other; release the shared hold first",
            )
        elif key.outer(lock, owner) is None and (differs := lock.differs()):
            self.end(_holdfast.HF_ELIMIT, differs)
        elif key.admits(self):
            self.win()
        elif timeout == 0:
            self.end(_holdfast.HF_EBUSY, f"lock {quoted(lock.name)} is held by another owner")
        else:
            self._wait(key)

    def _wait(self, key: Key) -> None:
        bisect.insort(key.queue, self, key=lambda waiter: waiter.place)
        self._number = self._op or -next(_serials)
        self.lock.client.waiters[self._number] = self
        key.space.schedule(self, self._began + self._timeout)
        if self.lock.ahead:
            key.serve()  # it may be the first now, and fit beside others

    def told(self, now: float) -> tuple[bytes, bytes, int, int, int, int, int]:
        """Return the owner, note, mode, permits, the times waited and allowed, and weight."""
        until = self._timeout + self.lock.ahead
        timeout = _holdfast.HF_FOREVER if until == math.inf else round(until)
        waited = math.floor(now - self.place)
        mode = _holdfast.HF_SHARED if self.lock.shared else _holdfast.HF_EXCLUSIVE
        return self.owner, self.note, mode, self.lock.permits, waited, timeout, self.lock.weight

    def fire(self) -> None:
        """End the acquire: it has timed out."""
        name, timeout = quoted(self.lock.name), round(self._timeout)
        key = self.lock.client.space.key(self.lock.name)
        holder = key.first if key else None
        last = f", at last by {_shown(holder)}" if holder else ""
        if holder and holder.kept:
            left = (holder.ends - self.lock.client.space.now) / 1000
            last = f", and {_shown(holder)}, whose work has ended, keeps it"
            last += f" for another {left:.1f} s"
        self.end(_holdfast.HF_ETIMEOUT, f"lock {name} was held by others for {timeout} ms{last}")

    def win(self) -> None:
        """Take the lock, which admits this waiter."""
        lock, space = self.lock, self.lock.client.space
        key = space.key_made(lock.name)
        grant = key.take(self)
        if space.replicas is not None and space.replicas < lock.replicas:
            key.grants.pop(grant.id)
            space.schedule(grant, math.inf)
            had, wanted = space.replicas, lock.replicas
            self.end(_holdfast.HF_EREPLICAS, f"{had} of {wanted} replicas had the lock in time")
            key.serve()
            return
        hold = Hold(lock, key, grant, self.owner, self._holder, self._keep)
        hold.thread = self._thread
        if self.asked is not None:
            hold.asked = self.asked
        self.handle = Handle(hold)
        self.end(_holdfast.HF_OK, "")

    def get(self, record: Record) -> None:
        """End with the outcome of another caller's call."""
        assert self.asked is not None
        self.handle = Handle(Done(self.lock, record))
        self.end(*record.status(self.asked, quoted(self.lock.name)))

    def end(self, status: int, message: str) -> None:
        """End with a status, and report it."""
        client = self.lock.client
        self.status, self.message = status, message
        self._count(status)
        self._leave()
        if self._then is not None:
            self._then(self)
        elif self._op:
            hold, detail = self.handle, self.detail()
            number = hold.hold.number if hold is not None else 0
            kind = _holdfast.HF_KIND_ACQUIRE
            client.tell(Completion(kind, status, self._op, number, hold, detail, message))
            self.handle = None
        client.space.wake()

    def detail(self, at: int = 0) -> int:
        """Return the number of replicas that had the lock, or else its index among several."""
        replicas = self.lock.client.space.replicas or 0
        return replicas if self.status == _holdfast.HF_EREPLICAS else at

    def _count(self, status: int) -> None:
        tally, now = self.lock.tally, self.lock.client.space.now
        if status == _holdfast.HF_OK:
            tally.acquired(self._number != 0, now - self._began)
            return
        tally.refused(status)
        if status == _holdfast.HF_ETIMEOUT:
            self.lock.client.timed_out(self.lock, self.message)

    def _leave(self) -> None:
        space = self.lock.client.space
        space.schedule(self, math.inf)
        self.lock.client.waiters.pop(self._number, None)
        key = space.key(self.lock.name)
        if key is not None and self in key.queue:
            key.queue.remove(self)

    def wait(self) -> Handle:
        """Block until the acquire has ended."""
        try:
            while self.status is None:
                self.lock.client.space.sleep()
        except BaseException:  # from a signal handler
            self._give_up()
            raise
        if self.handle is None:
            raise error(self.status, self.message, self.detail())
        handle, self.handle = self.handle, None
        return handle

    def _give_up(self) -> None:
        if self.status is None:
            self.end(_holdfast.HF_EINTR, "the wait was interrupted")
        elif self.handle is not None and self.status == _holdfast.HF_OK:
            grant = self.handle.hold.end()
            grant.key.remove(grant)


class Hold(Timer):
    """A client's record of one hold."""

    record: Record | None = None  # the record of a call, if this holds nothing
    asked = Asked(False, None)
    begun = False  # whether the call was marked
    thread = 0  # the thread that acquired it

    def __init__(
        self, lock: Lock, key: Key, grant: Grant, owner: bytes, holder: Holder, kept: bool
    ) -> None:
        """Begin the hold."""
        self.lock = lock
        self.client = lock.client
        self.space = lock.client.space
        self.key = key
        self.owner = owner
        self.fence = grant.fence
        self.number = next(self.client.numbers)
        self.state = _holdfast.HF_STATE_HELD
        self.cause = _holdfast.HF_CAUSE_NONE
        self.deadline = grant.ends
        self.lease = self._given = lock.lease
        self.tally = lock.tally
        self.joined: set[Hold] = set()  # if one is lost, all are
        self._counts = True  # whether its duration must still be counted
        self._since = self.space.now
        self._least = 0
        self.grant = grant
        self._holder = holder
        self._kept = kept
        self._renew = lock.renew
        self.max_hold = lock.max_hold
        self.ends_by = self.space.now + lock.max_hold
        if self.ends_by < math.inf:
            nested = [each.ends_by for each in self._nested() if each.stands()]
            self.ends_by = min([self.ends_by, *nested])
            self.deadline = min(self.deadline, self.ends_by)
            grant.move(min(grant.ends, self.ends_by))
        self._renew_at = self.space.now + self._interval()
        self.client.holds[self.number] = self
        if kept:
            self.client.kept.setdefault(holder, []).append(self)
        self.plan()

    def _nested(self) -> list[Hold]:
        holds = self.client.holds.values() if len(self.key.grants) > 1 else ()
        return [each for each in holds if each.key is self.key and each.owner == self.owner]

    def stands(self) -> bool:
        """Return whether it is held, as far as the client knows."""
        return self.state == _holdfast.HF_STATE_HELD

    # --------------------------------------------------------------- Renewal

    def _interval(self) -> float:
        return _LOOK if self.lease == math.inf else self.lease / 3

    def _renews(self) -> bool:
        if self.lease == math.inf:
            return True
        return self._renew and self.deadline < self.ends_by

    def at_risk(self) -> bool:
        """Return whether it will be lost unless it is renewed."""
        return self.stands() and self._renews() and self.deadline < math.inf

    def plan(self) -> None:
        """Schedule its next renewal, or its end."""
        due = self.deadline
        if self._renews():
            due = min(due, self._renew_at)
        self.space.schedule(self, due)

    def fire(self) -> None:
        """Renew the hold, or lose it."""
        if self.space.now >= self.deadline:
            tried = self._renews() and self.lease != math.inf
            self.lose(_holdfast.HF_CAUSE_UNREACHABLE if tried else _holdfast.HF_CAUSE_EXPIRED)
            if self.space.reachable:
                self.take_away()
        elif not self.space.reachable:
            self._renew_at = self.space.now + self._interval() / _TRIES
            self.plan()
            if self.at_risk():
                self.client.renewal_fails(self.number)
        elif not self.grant.stands():
            self.lose(_holdfast.HF_CAUSE_GONE)
        else:
            self.tally.counts["renewed"] += 1
            self.last(self.space.now + self.lease)
            self.client.renewal_works(self.number)

    def last(self, ends: float) -> None:
        """Let it last at least until `ends`, and schedule its next renewal."""
        ends = min(ends, self.ends_by)
        if ends > self.grant.ends:
            self.grant.move(ends)
        self.deadline = max(self.deadline, ends)
        self._renew_at = self.space.now + self._interval()
        self.plan()

    def replace(self, lease: float) -> None:
        """Let it last exactly `lease` from now, and after each renewal."""
        self.lease = lease
        self.grant.move(self.space.now + lease)
        self.deadline = min(self.grant.ends, self.ends_by)
        self._renew_at = self.space.now + self._interval()
        self.plan()

    def known(self) -> bool:
        """Return whether the server has it."""
        return self.grant.stands()

    # ------------------------------------------------------------------- End

    def keep_at_least(self, duration: int) -> None:
        """Make a release keep the lock until `duration` after the acquire."""
        self._least = duration

    def least_left(self) -> int:
        """Return the time for which a release keeps the lock."""
        left = self._since + self._least - self.space.now if self._least else 0
        return max(0, math.ceil(left)) if self.stands() else 0

    def lose(self, cause: int) -> None:
        """Lose the hold, and report the loss."""
        if not self.stands():
            return
        self.state, self.cause = _holdfast.HF_STATE_LOST, cause
        self.tally.lost(cause)
        self._count()
        self.space.schedule(self, math.inf)
        message = f"the hold of lock {quoted(self.key.name)} is lost: {self.why()}"
        self.client.tell(
            Completion(_holdfast.HF_KIND_LOSS, _holdfast.HF_ELOST, 0, self.number, None, 0, message)
        )
        for other in self.part():
            other.lose(cause)
            if self.space.reachable:
                other.take_away()

    def why(self) -> str:
        """Return the reason of the loss."""
        if self.cause == _holdfast.HF_CAUSE_GONE:
            return UNKNOWN
        if self.cause == _holdfast.HF_CAUSE_UNREACHABLE:
            return "its lease ended before the client could renew it on the server"
        if self._renew:
            return f"its max_hold of {self.max_hold:.0f} ms has passed"
        return (
            f"its lease of {self._given:.0f} ms ended, and renew is off: turn it on, or give a"
            " longer lease"
        )

    def part(self) -> set[Hold]:
        """Leave the holds that it is joined with, and return them."""
        others, self.joined = self.joined, set()
        for other in others:
            other.joined.discard(self)
        return others

    def end(self) -> Grant:
        """End the hold here; return its record, which the server still has."""
        self._count()
        self.state = _holdfast.HF_STATE_RELEASED
        self.space.schedule(self, math.inf)
        self.client.holds.pop(self.number, None)
        self.part()
        self.unkeep()
        return self.grant

    def _count(self) -> None:
        self.client.failing.discard(self.number)
        if self._counts:
            self.tally.hold.record(self.space.now - self._since)
        self._counts = False

    def take_away(self) -> None:
        """Make the server forget the hold."""
        self.grant.key.remove(self.grant)

    def unkeep(self) -> None:
        """Remove the hold from its holder's stack."""
        stack = self.client.kept.get(self._holder, [])
        if self._kept and self in stack:
            stack.remove(self)
        if not stack:
            self.client.kept.pop(self._holder, None)
        self._kept = False

    def forget(self) -> None:
        """Stop renewing the hold: it can no longer be released."""
        if not self._kept and self.client.holds.pop(self.number, None) is not None:
            self.part()
            self.space.schedule(self, math.inf)

    def hand_over(self) -> bytes:
        """End the hold here, and return its token."""
        grant = self.end()
        mode = b"s" if grant.shared else b"x"
        name = self.key.name
        head = b"hf1 %s %s%d %d " % (grant.id.encode(), mode, self.fence, len(name))
        return head + name + self.owner


class Done(Hold):
    """The outcome of a call, which holds nothing."""

    def __init__(self, lock: Lock, record: Record | None) -> None:
        """Keep the record."""
        self.client = lock.client
        self.space = lock.client.space
        self.key = Key(self.space, lock.name)
        self.number = 0
        self.state = _holdfast.HF_STATE_RELEASED
        self.record = record
        self.runs = record is not None and self.space.calls.runs(lock.name, record)


class Handle:
    """A caller's reference to a hold; several may refer to one."""

    __slots__ = ("hold",)

    def __init__(self, hold: Hold) -> None:
        """Refer to a hold."""
        self.hold = hold

    def __del__(self) -> None:
        """Leave the hold to the space, which handles it when no thread is inside."""
        if self.hold.state == _holdfast.HF_STATE_HELD:
            self.hold.space.dropped.append(self.hold)

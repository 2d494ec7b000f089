"""Locks."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from . import _holdfast, _native, _tracing
from ._arguments import encoded, extension, flag, patience, whole, wishes
from ._caller import Inside, caller, in_hub, refuse_as_job, refuse_in_loop
from ._errors import (
    ClosedError,
    ForkedError,
    LockError,
    LockLost,
    LockNotOwnedError,
    LockTimeout,
)
from ._hold import Bound, Hold, excuse
from ._look import LockInfo, told
from ._options import LockOptions, native

if TYPE_CHECKING:
    from ._client import Client

Item = TypeVar("Item")
Result = TypeVar("Result")


_FLAGS: list[tuple[_holdfast.AcquireOptions, int]] = []


def flagged(flags: int) -> _holdfast.AcquireOptions:
    """Make the options of acquires with these flags, once for each process."""
    options = _native.hf_acquire_options()
    options.flags = flags
    _FLAGS.append((options.this, flags))
    return options.this


class Noted(_native.hf_acquire_options):
    """The options of one acquire, with a note."""

    def __init__(self, like: _holdfast.AcquireOptions, note: bytes) -> None:
        """Make options with the flags of other options."""
        super().__init__()
        self.like, self.note = like, note
        self.flags = next(flags for options, flags in _FLAGS if options is like)
        self.set_note(note)


# The core only reads these options, so all acquires share them.
loose = flagged(0)
kept = flagged(_holdfast.HF_ACQUIRE_KEEP)
full = flagged(_holdfast.HF_ACQUIRE_WHOLE)  # as loose, but with the whole lease


def try_all(items: Iterable[Item], work: Callable[[Item], object]) -> None:
    """Do the work on each item, even after Ctrl-C, and then raise the first failure."""
    failed: LockError | None = None
    left = iter(items)
    for item in left:
        try:
            work(item)
        except LockError as error:
            failed = failed or error
        except BaseException:
            with contextlib.suppress(LockError):
                try_all(left, work)
            raise
    if failed is not None:
        raise failed


def give_back(core: _holdfast.Core, got: list[_holdfast.Hold]) -> None:
    """Release holds that were just acquired: a signal handler may raise right after the acquire."""
    with contextlib.suppress(LockError):
        try_all(got, core.hf_hold_release)


def patiently(locks: list[Lock], milliseconds: int, ask: Callable[[int], Result]) -> Result:
    """Ask for locks with a timeout; in gevent's main thread, where no wait is allowed, ask once."""
    hub = milliseconds != 0 and in_hub()
    try:
        return ask(0 if hub else milliseconds)
    except LockTimeout as busy:
        lock = locks[busy._which]
        if not hub:
            raise lock._waited(busy, milliseconds) from None
    raise RuntimeError(
        f"lock {lock.name!r} is held by another owner, and to wait for it in gevent's main"
        " thread would stop all greenlets: wait in gevent.get_hub().threadpool"
    )


class _Entered(Protocol):
    """A Lock, or several."""

    _inside: Inside
    _quiet: bool

    def _plain(self) -> list[Lock]: ...


def leave(
    entered: _Entered,
    kind: type[BaseException] | None,
    raised: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Release. Raises LockLost if the hold was lost, unless raise_on_lost is False."""
    got: list[_holdfast.Hold | None] = []

    def find() -> list[tuple[Lock, bytes | None, _holdfast.Hold | None]]:
        locks = entered._plain()
        anyones = not locks[0]._by_thread
        who = entered._inside.leave(locks[0]._who(None)[1], got, anyones)
        ends = [(lock, who, got[at] if got else None) for at, lock in enumerate(locks)]
        return [end for end in reversed(ends) if end[2] is not None or not got]

    try:
        try_all(find(), lambda end: end[0]._end(*end[1:]))
    except LockError as failed:
        excuse(failed, raised, entered._quiet)
    except BaseException:  # a signal handler raised, and no second __exit__() follows
        with contextlib.suppress(LockError):
            if not got:
                find()
        # This may be a second release, which harms no other hold.
        give_back(entered._plain()[0]._core, [each for each in got if each is not None])
        raise


class Lock(Bound):
    """A name to lock, with its options; Client.lock() makes it.

    It can replace a threading.RLock, or with reentrant=False a threading.Lock:

        with lock as hold: ...            # waits without limit

        if lock.acquire(timeout=5):       # real bools
            try: ...
            finally: lock.release()

    The client keeps the holds of these two forms for every name and owner, newest last, so
    any Lock object with the same name, both shared() or both not, may release them. hold() gives
    the caller the hold instead, and release() does not find it.

    Any thread may call every method. The owner is the calling thread, or the `owner` given here
    or in a call. Equal owners are one owner everywhere: "worker" on ten hosts excludes nothing.

    shared() returns the same lock for many holders at once: for readers beside this lock's writer,
    or for as many holders as its permits.

    After a fork the child's locks work, through a new client, and hold nothing.
    """

    __slots__ = (
        "__weakref__",
        "_by_thread",
        "_choices",
        "_client",
        "_core",
        "_handle",
        "_heard",
        "_in_loops",
        "_inside",
        "_name",
        "_on_lost",
        "_opened",
        "_options",
        "_owner",
        "_quiet",
        "_shares",
        "_views",
        "name",
        "owner",
    )

    def __init__(
        self, client: Client, name: str | bytes, options: LockOptions, shares: bool = False
    ) -> None:
        """Only Client.lock() makes locks."""
        self.name = name
        self.owner = options.owner
        self._name = encoded("name", name)
        self._owner = None if options.owner is None else encoded("owner", options.owner)
        self._options = native(options, shares)
        self._choices = options
        self._shares = shares
        self._views: dict[str, Lock] = {}
        self._on_lost = options.on_lost
        self._quiet = not options.raise_on_lost
        self._by_thread = options.owner is None and options.reentrant
        self._in_loops = False  # whether it may block a thread that runs an event loop
        self._inside = Inside()
        self._client = client
        self._core = client._core
        self._handle = self._open()
        self._opened = {os.getpid(): self._handle}

    def _open(self) -> _holdfast.Lock:
        self._client._hear_alarms(self._options.alarm_timeouts)
        self._heard = self._choices.renew is False  # then no renewal can fail
        return self._core.hf_lock_open(self._client._here(), self._name, self._owner, self._options)

    def _call(self, function: Callable[..., Result], *arguments: object) -> Result:
        self._reopen()
        return function(self._handle, *arguments)

    def _reopen(self) -> None:
        """Open the lock in a forked child, which reports trouble if its parent did.

        Open it once in each process: a second handle would not find the holds of the first.
        """
        here = os.getpid()
        if here not in self._opened:
            heard = self._heard
            self._opened.setdefault(here, self._open())
            if heard:
                self._hear()
        self._handle = self._opened[here]

    def shared(self, weight: int | None = None) -> Lock:
        """Return the same lock for many holders at once. Sends nothing.

            stock = client.lock("stock")
            with stock.shared(): ...        # readers, beside each other
            with stock: ...                 # a writer, alone

            seats = client.lock("seats", permits=3)
            with seats.shared(): ...        # at most three at once
            with seats: ...                 # no other holder: maintenance
            with seats.shared(weight=2): ...  # takes two of the three

        It is a Lock with the same options. Every call with the same weight, the number of permits
        that each of its holds takes, returns the same object. Its holds coexist, and exclude the
        holds of the lock itself; each has its own fence, lease and loss. All wait in one queue,
        first come, first served, so that no acquire overtakes a heavy one.

        An owner that holds it, in either mode, may acquire it shared again at once. To downgrade,
        acquire it shared while holding it exclusively, and then release() the exclusive hold: no
        other owner gets the lock in between. The reverse is refused, with LockDeadlock: two such
        owners would wait for each other.
        """
        if weight is None:
            weight = self._choices.weight
        if self._shares and weight == self._choices.weight:
            return self
        view = f"shared {weight}"
        if view not in self._views:
            choices = dataclasses.replace(self._choices, weight=weight)
            made = Lock(self._client, self.name, choices, True)
            made._on_lost = self._on_lost  # an AsyncLock's on_lost is not the Lock's
            self._views.setdefault(view, made)
        return self._views[view]

    def _acquire(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        on_lost: Callable[[Hold], object] | None = None,
        quiet: bool | None = None,
    ) -> Hold:
        got: list[_holdfast.Hold] = []
        try:
            self._win(milliseconds, owner, options, got)
            return self._take(got[0], options, on_lost, quiet)
        except BaseException:
            give_back(self._core, got)
            raise

    def _waited(self, busy: LockTimeout, milliseconds: int) -> LockTimeout:
        """Add to a timeout the lock, and the way to find its holders."""
        busy.name, busy.waited = self.name, milliseconds / 1000
        busy._look = lambda: self.inspect().holders
        return busy

    def _win(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        got: list[_holdfast.Hold],
    ) -> None:
        self._ready()
        by, who = self._who(owner)
        patiently([self], milliseconds, lambda waits: self._ask(who, waits, options, got))
        if owner is None and self._by_thread and options is kept:
            self._client._watch(by, who)

    def _ready(self) -> None:
        if not self._in_loops:
            refuse_in_loop(f"lock {self.name!r}")
        self._hear()

    def _hear(self) -> None:
        if not self._heard:
            self._client._hear()
            self._heard = True

    def _who(self, owner: str | bytes | None) -> tuple[object | None, bytes | None]:
        """Return the greenlet or job that calls, if either is the owner, and the owner's bytes."""
        if owner is not None or not self._by_thread:
            return None, None if owner is None else encoded("owner", owner)
        by = caller(tasks=False)
        return by, None if by is None else self._client._owner(by)

    def _ask(
        self,
        who: bytes | None,
        milliseconds: int,
        options: _holdfast.AcquireOptions,
        got: list[_holdfast.Hold],
    ) -> None:
        options = self._noted(options)
        self._call(self._core.hf_lock_acquire_as, who, milliseconds, options, got)

    def _noted(self, options: _holdfast.AcquireOptions) -> _holdfast.AcquireOptions:
        """Add the trace id to the note of an acquire, if OpenTelemetry has a span."""
        note = self._choices.note
        trace = _tracing.current_trace() if note or _tracing.on else None
        if trace is None:
            return options
        text = encoded("note", f"{note} trace={trace}" if note else f"trace={trace}")
        return cast("_holdfast.AcquireOptions", Noted(options, text[: _holdfast.HF_NOTE_MAX]))

    def _begin(
        self,
        milliseconds: int,
        got: list[_holdfast.Hold],
        options: _holdfast.AcquireOptions,
        fingerprint: bytes | None,
    ) -> tuple[int, str]:
        """Get the turn to make a call, or its outcome: the status, and the reason."""
        refuse_in_loop(f"lock {self.name!r}")
        self._hear()
        options = self._noted(options)
        return patiently(
            [self],
            milliseconds,
            lambda waits: self._call(self._core.hf_once_begin, waits, options, fingerprint, got),
        )

    def _take(
        self,
        handle: _holdfast.Hold,
        options: _holdfast.AcquireOptions,
        on_lost: Callable[[Hold], object] | None,
        quiet: bool | None,
    ) -> Hold:
        hold = Hold(self, handle, options is loose, self._quiet if quiet is None else quiet)
        on_lost = on_lost or self._on_lost
        if on_lost is not None:
            notices = self._client._notices_here()
            notices.listen()
            hold._watch(notices.elsewhere(on_lost))
        return hold

    def acquire(
        self,
        blocking: bool = True,
        timeout: float | timedelta = -1,
        *,
        owner: str | bytes | None = None,
    ) -> bool:
        """Acquire like threading.RLock; call release() once for each acquire.

        blocking  False tries once.
        timeout   Seconds; -1 waits without limit.
        owner     The owner, instead of the lock's owner; give it to release() too. Equal owners
                  are one owner everywhere: "worker" on ten hosts excludes nothing.

        Returns True if the lock is held, False if other owners kept it. Raises RLock's exceptions
        for wrong arguments (ValueError, OverflowError, TypeError), LockDeadlock if the caller holds
        it shared() and asks for it exclusively, LockUnknown if the answer was lost (do not enter),
        ConnectError or another LockError if the server was not reached or refused, and ClosedError.
        Ctrl-C ends the wait.
        """
        if owner is None and self._by_thread:
            refuse_as_job(f"lock {self.name!r}", sys._getframe().f_back)
        got: list[_holdfast.Hold] = []
        try:
            self._win(patience(blocking, timeout), owner, kept, got)
            # Make a Hold only for on_lost: Python would swallow a Ctrl-C that arrives while it
            # collects the Hold.
            if self._on_lost is not None:
                self._take(got[0], kept, None, None)
        except LockTimeout:
            return False
        except BaseException:
            give_back(self._core, got)
            raise
        return True

    def release(self, *, owner: str | bytes | None = None, wait: bool | None = None) -> None:
        """Release the caller's newest hold from acquire() or `with`. One round trip.

        owner  As given to acquire().
        wait   As for Hold.release(): False does not wait for the answer.

        Raises LockNotOwnedError, a RuntimeError, if the caller has no such hold; nothing was
        changed then. Otherwise as Hold.release().
        """
        self._release(self._who(owner)[1], wait)

    def _later(self, wait: bool | None) -> bool:
        """Return whether a release does not wait for its answer."""
        return self._choices.release == "later" if wait is None else not flag("wait", wait)

    def _give_up(self, handle: _holdfast.Hold, wait: bool | None) -> None:
        """Release a hold, and wait for the answer if the caller wants it."""
        standing = self._core.hf_hold_state(handle) == _holdfast.HF_STATE_HELD
        if standing and self._later(wait):  # else the caller gets the error at once
            self._client._notices_here().release_later(handle, f"lock {self.name!r}")
        else:
            self._core.hf_hold_release(handle)

    def _newest(
        self,
        find: Callable[[], tuple[bytes | None, _holdfast.Hold]],
        release: Callable[[bytes | None, _holdfast.Hold], Result],
    ) -> Result:
        """Release the hold of find(); if another thread has just released it, try the next hold."""
        number = 0
        while True:
            who, handle = find()
            try:
                return release(who, handle)
            except LockNotOwnedError as failed:
                before, number = number, self._core.hf_hold_number(handle)
                if number == before or isinstance(failed, LockLost):  # lost: this call released it
                    raise

    def _release(self, who: bytes | None, wait: bool | None = None) -> None:
        if self._later(wait):
            self._newest(
                lambda: (who, self._current_of(who)),
                lambda _, handle: self._give_up(handle, wait),
            )
            self._client._look()
            return
        try:
            self._call(self._core.hf_lock_release_as, who)
        finally:
            if self._client._notices:
                self._client._look()

    def _plain(self) -> list[Lock]:
        return [self]

    def _end(self, who: bytes | None, handle: _holdfast.Hold | None) -> None:
        """Release the hold of a block; if it was released before, the caller's newest hold."""
        released = _holdfast.HF_STATE_RELEASED
        if handle is None or self._core.hf_hold_state(handle) == released:  # such as by a Condition
            self._release(who)
            return
        try:
            self._give_up(handle, None)
        except ForkedError:
            self._release(who)
        finally:
            if self._client._notices:
                self._client._look()

    def __enter__(self) -> Hold:
        """Acquire, waiting without limit."""
        got: list[_holdfast.Hold] = []
        try:
            self._win(_holdfast.HF_FOREVER, None, kept, got)
            hold = self._take(got[0], kept, None, None)
            self._inside.enter(*self._who(None), hold._enter_block([got[0]]))
            return hold
        except BaseException:  # no __exit__() follows
            give_back(self._core, got)
            raise

    __exit__ = leave

    def hold(
        self,
        timeout: float | timedelta | None = None,
        *,
        owner: str | bytes | None = None,
        on_lost: Callable[[Hold], object] | None = None,
        raise_on_lost: bool | None = None,
        at_least: float | timedelta | None = None,
    ) -> Hold:
        """Acquire the lock, and give the caller the hold; any thread may release it.

        timeout        Seconds; 0 tries once; None or -1 waits without limit.
        owner          The owner, instead of the lock's owner. Equal owners are one owner
                       everywhere: "worker" on ten hosts excludes nothing.
        on_lost        As in LockOptions, instead of the lock's on_lost.
        raise_on_lost  False: leaving a `with` block does not raise LockLost. By default the
                       lock's setting.
        at_least       Seconds, counted from the acquire, for which the lock stays held even if it
                       is released earlier: by release() or the `with` block, even a block that
                       raises. As Hold.keep() does; if the process dies, only its lease remains.

        Raises LockTimeout, a TimeoutError, if other owners kept the lock; otherwise as acquire().
        """
        milliseconds, quiet, least = wishes(timeout, on_lost, raise_on_lost, at_least)
        hold = self._acquire(milliseconds, owner, loose, on_lost, quiet)
        try:
            hold._keep_at_least(least)
        except ValueError:  # several masters keep a lock no longer than their quarantine
            hold.release()
            raise
        return hold

    def count(self, *, owner: str | bytes | None = None) -> int:
        """Return how often release() would succeed for this caller. Sends nothing.

        owner  As given to acquire().
        """
        return self._count(lambda: self._who(owner)[1])

    def _count(self, who: Callable[[], bytes | None]) -> int:
        if os.getpid() not in self._client._handles:  # closed, or this forked child has no hold yet
            return 0
        try:
            return self._call(self._core.hf_lock_count_as, who())
        except ClosedError:
            return 0

    def owned(self, *, owner: str | bytes | None = None) -> bool:
        """Return whether release() would succeed for this caller. Sends nothing.

        owner  As given to acquire().
        """
        return self.count(owner=owner) > 0

    def _current(self, owner: str | bytes | None) -> _holdfast.Hold:
        """Return the hold that release() would release."""
        return self._current_of(self._who(owner)[1])

    def _current_of(self, who: bytes | None) -> _holdfast.Hold:
        got: list[_holdfast.Hold] = []
        self._call(self._core.hf_lock_current_as, who, got)
        return got[0]

    def extend(
        self,
        seconds: float | timedelta | None,
        replace: bool = False,
        *,
        owner: str | bytes | None = None,
    ) -> None:
        """Extend the caller's newest hold, as Hold.extend(). One round trip.

        owner  As given to acquire().

        Raises LockNotOwnedError if the caller does not hold the lock.
        """
        replaces = flag("replace", replace)
        self._core.hf_hold_extend(self._current(owner), extension(seconds), replaces)

    def reacquire(self, *, owner: str | bytes | None = None) -> None:
        """Make the caller's newest hold last this lock's lease, counted from now. One round trip.

        owner  As given to acquire().

        Raises LockNotOwnedError if the caller does not hold the lock, LockLost if it was lost.
        """
        lease = self._options.lease_ms or _holdfast.HF_LEASE_DEFAULT
        self._core.hf_hold_extend(self._current(owner), lease, True)

    def adopt(self, token: bytes) -> Hold:
        """Take over a hold that another process handed over. One round trip.

        token  From Hold.hand_over(), of a lock of the same name, shared() or not as here. This
               lock's lease and renew apply from now on.

        Raises ValueError if the bytes are not such a token, or are one of another lock, and
        LockLost if the lease ended before or the hold was released; after any other LockError you
        may try again.
        """
        if not isinstance(token, bytes):
            raise TypeError(f"token must be bytes, not {token!r}")
        got: list[_holdfast.Hold] = []
        self._hear()
        self._call(self._core.hf_lock_adopt, token, got)
        return self._take(got[0], loose, None, None)

    # threading.Condition uses these methods of RLock.

    def _is_owned(self) -> bool:
        return self.owned()

    def _recursion_count(self) -> int:
        return self.count()

    def _release_save(self) -> tuple[int, LockError | None]:
        failed = None
        count = self.count()
        if not count:
            self.release()  # raises the exception of RLock: a RuntimeError
        for _ in range(count):
            try:
                self.release()
            except LockError as error:
                failed = error
        return count, failed

    def _acquire_restore(self, saved: tuple[int, LockError | None]) -> None:
        count, failed = saved
        for _ in range(count):
            self.acquire()
        if failed is not None and not (self._quiet and isinstance(failed, LockLost)):
            raise failed  # the section before the wait was unprotected

    def locked(self) -> bool:
        """Ask the server whether the lock is held. One round trip; raises as inspect()."""
        return self.inspect().held

    def inspect(self, first: int = 0) -> LockInfo:
        """Read the lock's state, whichever owner holds it. One round trip; changes nothing.

        first  How many holds, and how many waiters, to skip: a call lists 100 of each, and
               inspect(100) the next 100.

        The result may be out of date when you read it: do not enter because of it. Raises
        ConnectError or another LockError if the server was not reached or refused, and
        ClosedError.
        """
        info = _native.hf_lock_info()
        return told(
            info, self._call(self._core.hf_lock_inspect, whole("first", first, 0, 2**31 - 1), info)
        )

    def force_release(self, fence: int, *, foreign: bool = False) -> None:
        """Take the lock away from one holder. For operators. One round trip.

        fence    The holder's fence, from inspect(): if another owner holds the lock now, nothing
                 happens. Other shared holds stay.
        foreign  Also delete another library's lock, whose fence is 0.

        The holder notices at its next renewal or check; until then only the fence protects. A free
        lock is no error. Raises LockNotOwnedError if no holder has that fence or the lock is
        foreign; otherwise as inspect(), and LockUnknown.
        """
        fence = whole("fence", fence, 0, 2**53)
        flags = _holdfast.HF_BREAK_FOREIGN if flag("foreign", foreign) else 0
        self._call(self._core.hf_lock_break, fence, flags)

    def _kind(self) -> str:
        limit = f"({self._choices.permits})" if self._choices.permits else ""
        return f"shared{limit} " if self._shares else ""

    def __repr__(self) -> str:
        """Show how often this caller holds it, like threading.RLock. Sends nothing."""
        count = self.count()
        return (
            f"<{'locked' if count else 'unlocked'} {self._kind()}holdfast.Lock object"
            f" name={self.name!r} owner={self.owner!r} count={count} at {id(self):#x}>"
        )

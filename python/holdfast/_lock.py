"""Locks and what one gets from acquiring them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from . import _holdfast, _native
from ._arguments import duration, encoded, patience
from ._errors import ForkedError, LockError, LockLost, LockTimeout
from ._hold import Hold, excuse, seconds

if TYPE_CHECKING:
    from ._client import Client

Result = TypeVar("Result")


def _flags(flags: int) -> _holdfast.AcquireOptions:
    options = _native.hf_acquire_options()
    options.flags = flags
    return options.this


# The core only reads them, so all acquires share them.
loose = _flags(0)
kept = _flags(_holdfast.HF_KEEP)


def _give_back(got: list[_holdfast.Hold]) -> None:
    """Release what was won, if it was: a signal's handler may raise just after that."""
    for handle in got:
        with contextlib.suppress(LockError):
            _holdfast.hf_hold_release(handle)


@dataclass(frozen=True, slots=True)
class LockInfo:
    """What a lock looked like on the server."""

    held: bool
    """Does anybody hold it, this library or another?"""
    foreign: bool
    """Is what holds it no lock of this library?"""
    owner: str | None
    """The holder, UTF-8 with surrogate escapes; None if free or foreign."""
    count: int
    """How often its owner holds it; 0 if free or foreign."""
    fence: int
    """The holder's fence; 0 if free or foreign."""
    remaining: float | None
    """Seconds until the last of its holds ends; None if never, 0 if free."""
    waiters: int
    """How many acquires stand in the queue."""


class Lock:
    """A name to lock, with its options; Client.lock() makes it.

    Stands in for a threading.RLock, or without `reentrant` for a threading.Lock:

        with lock as hold: ...            # waits for ever

        if lock.acquire(timeout=5):       # real bools
            try: ...
            finally: lock.release()

    The client keeps what these two forms acquire, newest last, for every name and owner, so any
    Lock object with the same name may release it. hold() gives a hold into the caller's hands
    instead, which release() does not know of.

    Every method may be called from any thread. The owner is the calling thread, or the `owner`
    given here or in a call. Equal owners are one owner everywhere: "worker" on ten hosts
    excludes nothing.

    After a fork the child's locks work, through a client of its own, and hold nothing.
    """

    __slots__ = (
        "__weakref__",
        "_client",
        "_handle",
        "_name",
        "_on_lost",
        "_options",
        "_owner",
        "_quiet",
        "name",
        "owner",
    )

    def __init__(
        self,
        client: Client,
        name: str | bytes,
        owner: str | bytes | None,
        options: _native.hf_lock_options,
        on_lost: Callable[[Hold], object] | None,
        raise_on_lost: bool,
    ) -> None:
        """Only Client.lock() makes locks."""
        self.name = name
        self.owner = owner
        self._name = encoded("name", name)
        self._owner = None if owner is None else encoded("owner", owner)
        self._options = options
        self._on_lost = on_lost
        self._quiet = not raise_on_lost
        self._client = client
        self._handle = self._open()

    def _open(self) -> _holdfast.Lock:
        return _holdfast.hf_lock_open(
            self._client._here(), self._name, self._owner, self._options.this
        )

    def _call(self, function: Callable[..., Result], *arguments: object) -> Result:
        try:
            return function(self._handle, *arguments)
        except ForkedError:
            self._handle = self._open()
            return function(self._handle, *arguments)

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
            _give_back(got)
            raise

    def _win(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        got: list[_holdfast.Hold],
    ) -> None:
        who = None if owner is None else encoded("owner", owner)
        try:
            _holdfast.hf_lock_acquire_as(self._handle, who, milliseconds, options, got)
        except ForkedError:
            self._call(_holdfast.hf_lock_acquire_as, who, milliseconds, options, got)

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
        self, blocking: bool = True, timeout: float = -1, *, owner: str | bytes | None = None
    ) -> bool:
        """Acquire as threading.RLock does; release() as often.

        blocking  False tries once.
        timeout   Seconds; -1 waits without limit.
        owner     Who acquires, in place of the lock's own; then release(owner=...) too. Equal
                  owners are one owner everywhere: "worker" on ten hosts excludes nothing.

        Answers True when held, False when others kept it. Raises what RLock raises for wrong
        arguments (ValueError, OverflowError, TypeError), LockUnknown if the answer was lost (do
        not enter), ConnectError and its like, and ClosedError. Ctrl-C ends the wait.
        """
        got: list[_holdfast.Hold] = []
        try:
            self._win(patience(blocking, timeout), owner, kept, got)
            # No Hold is made if nobody is to be given it: a Ctrl-C that came while one is
            # collected would be swallowed.
            if self._on_lost is not None:
                self._take(got[0], kept, None, None)
        except LockTimeout:
            return False
        except BaseException:
            _give_back(got)
            raise
        return True

    def release(self, *, owner: str | bytes | None = None) -> None:
        """Release what the caller acquired last, with acquire() or `with`. One round trip.

        owner  As given to acquire(). Equal owners are one owner everywhere: "worker" on ten
               hosts excludes nothing.

        Raises LockNotOwnedError, a RuntimeError, if the caller does not hold it: then nothing
        was changed. Else as Hold.release().
        """
        who = None if owner is None else encoded("owner", owner)
        try:
            _holdfast.hf_lock_release_as(self._handle, who)
        except ForkedError:
            self._call(_holdfast.hf_lock_release_as, who)
        finally:
            if self._client._notices:
                self._client._look()

    def __enter__(self) -> Hold:
        """Acquire, waiting without limit."""
        return self._acquire(_holdfast.HF_FOREVER, None, kept)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release. Raises LockLost if the hold was lost, unless raise_on_lost is False."""
        try:
            self.release()
        except LockError as failed:
            excuse(failed, raised, self._quiet)

    def hold(
        self,
        timeout: float | None = None,
        *,
        owner: str | bytes | None = None,
        on_lost: Callable[[Hold], object] | None = None,
        raise_on_lost: bool | None = None,
    ) -> Hold:
        """Acquire, and give the hold into the caller's hands; any thread may release it.

        timeout        Seconds; 0 tries once; None or -1 waits without limit.
        owner          Who acquires, in place of the lock's own. Equal owners are one owner
                       everywhere: "worker" on ten hosts excludes nothing.
        on_lost        Called as Client.lock() says, in place of the lock's own.
        raise_on_lost  False: leaving a `with` block does not raise LockLost. By default as the
                       lock has it.

        Raises LockTimeout, a TimeoutError, if others kept it; else as acquire().
        """
        milliseconds = patience(True, -1 if timeout is None else timeout)
        quiet = None if raise_on_lost is None else not raise_on_lost
        return self._acquire(milliseconds, owner, loose, on_lost, quiet)

    def count(self, *, owner: str | bytes | None = None) -> int:
        """Say how often release() would succeed for this caller. Asks nobody.

        owner  As given to acquire(). Equal owners are one owner everywhere: "worker" on ten
               hosts excludes nothing.
        """
        who = None if owner is None else encoded("owner", owner)
        return _holdfast.hf_lock_count_as(self._handle, who)

    def owned(self, *, owner: str | bytes | None = None) -> bool:
        """Say whether release() would succeed for this caller. Asks nobody.

        owner  As given to acquire(). Equal owners are one owner everywhere: "worker" on ten
               hosts excludes nothing.
        """
        return self.count(owner=owner) > 0

    def _current(self, owner: str | bytes | None) -> _holdfast.Hold:
        """Give the hold that release() would release."""
        who = None if owner is None else encoded("owner", owner)
        got: list[_holdfast.Hold] = []
        self._call(_holdfast.hf_lock_current_as, who, got)
        return got[0]

    def extend(
        self,
        seconds: float | None,
        replace: bool = False,
        *,
        owner: str | bytes | None = None,
    ) -> None:
        """Make what the caller acquired last hold longer, as Hold.extend(). One round trip.

        owner  As given to acquire(). Equal owners are one owner everywhere: "worker" on ten
               hosts excludes nothing.

        Raises LockNotOwnedError if the caller does not hold it.
        """
        lasting = _holdfast.HF_NEVER if seconds is None else duration("seconds", seconds)
        _holdfast.hf_hold_extend(self._current(owner), lasting, bool(replace))

    def reacquire(self, *, owner: str | bytes | None = None) -> None:
        """Make what the caller acquired last hold for this lock's lease, from now. One round trip.

        owner  As given to acquire(). Equal owners are one owner everywhere: "worker" on ten
               hosts excludes nothing.

        Raises LockNotOwnedError if the caller does not hold it, LockLost if it was lost.
        """
        lease = self._options.lease_ms or _holdfast.HF_LEASE_DEFAULT
        _holdfast.hf_hold_extend(self._current(owner), lease, True)

    def adopt(self, token: bytes) -> Hold:
        """Go on with a hold that another process handed over. One round trip.

        token  From Hold.hand_over(), of a lock of the same name. Its lease and whether it is
               renewed are this lock's from now on.

        Raises ValueError for what is no token, LockLost if its lease ended before or it was
        released; after any other LockError it may be tried again.
        """
        got: list[_holdfast.Hold] = []
        self._call(_holdfast.hf_lock_adopt, token, got)
        return self._take(got[0], loose, None, None)

    # What threading.Condition wants of an RLock.

    def _is_owned(self) -> bool:
        return self.owned()

    def _release_save(self) -> tuple[int, LockError | None]:
        failed = None
        count = self.count()
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
            raise failed  # the section before the wait was not protected

    def locked(self) -> bool:
        """Ask the server whether anybody holds it. One round trip; raises as inspect()."""
        return self.inspect().held

    def inspect(self) -> LockInfo:
        """Look at the lock, whoever holds it. One round trip; changes nothing.

        What it tells is past when it is read: do not decide by it whether to enter. Raises
        ConnectError and its like, and ClosedError.
        """
        info = _native.hf_lock_info()
        owner = self._call(_holdfast.hf_lock_inspect, info.this)
        ours = info.held and not info.foreign
        return LockInfo(
            bool(info.held),
            bool(info.foreign),
            owner.decode("utf-8", "surrogateescape") if ours else None,
            info.count,
            info.fence,
            seconds(info.remaining_ms),
            info.waiters,
        )

    def force_release(self, fence: int, *, foreign: bool = False) -> None:
        """Take the lock away from its holder, whoever that is. For operators. One round trip.

        fence    The victim's, from inspect(): if another holds the lock by now, nothing happens.
        foreign  Also delete another library's lock, whose fence is 0.

        Its holder finds out at its next renewal or check; until then only the fence protects.
        Not an error on a free lock. Raises LockNotOwnedError if another fence holds it or it is
        foreign; else as inspect(), and LockUnknown.
        """
        flags = _holdfast.HF_BREAK_FOREIGN if foreign else 0
        self._call(_holdfast.hf_lock_break, fence, flags)

    def __repr__(self) -> str:
        """Say what this caller holds, as threading.RLock does. Asks nobody."""
        count = self.count()
        return (
            f"<{'locked' if count else 'unlocked'} holdfast.Lock object name={self.name!r}"
            f" owner={self.owner!r} count={count} at {id(self):#x}>"
        )

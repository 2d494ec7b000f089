"""Locks and holds for asyncio: they block neither a thread nor an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import sys
import weakref
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, final

from . import _holdfast
from ._arguments import duration, encoded, extension, flag, patience, wishes
from ._caller import Inside, caller, ended
from ._errors import ClosedError, LockError, LockLost, LockNotOwnedError, LockTimeout, error
from ._hold import BaseHold, BaseLost, Bound, excuse
from ._lock import Lock, kept, loose
from ._look import LockInfo

if TYPE_CHECKING:
    from ._notices import Call, Notices

Result = TypeVar("Result")


def _task() -> asyncio.Task[object]:
    return cast("asyncio.Task[object]", caller(tasks=True))


@final
class AsyncLock(Bound):
    """A name to lock, for tasks; AsyncClient.lock() makes it.

        async with lock as hold: ...            # waits without limit

        if await lock.acquire(timeout=5):
            try: ...
            finally: await lock.release()

        async with lock.hold(timeout=5, cancel_on_lost=True) as hold: ...

    The owner is the current task, or the `owner` given here or in a call. Any number of tasks may
    wait on one thread. A cancelled wait leaves nothing behind: a lock that it got meanwhile is
    released before the cancellation goes on. Event loops in several threads may share an AsyncLock.
    """

    __slots__ = (
        "__weakref__",
        "_inside",
        "_lock",
        "_on_lost",
        "_own",
        "_reentrant",
        "_tasks",
        "_views",
    )

    def __init__(
        self, lock: Lock, reentrant: bool, on_lost: Callable[[AsyncHold], object] | None
    ) -> None:
        """Only AsyncClient.lock() makes locks."""
        self._lock = lock
        self._reentrant = reentrant
        self._on_lost = on_lost
        # The owners of the tasks that acquired through this lock.
        self._tasks: dict[bytes, weakref.ref[asyncio.Task[object]]] = {}
        # Without owners, the holds that each task has acquired: the core does not know tasks.
        self._own: weakref.WeakKeyDictionary[object, list[_holdfast.Hold]]
        self._own = weakref.WeakKeyDictionary()
        self._views: dict[str, AsyncLock] = {}
        self._inside = Inside()

    @property
    def name(self) -> str | bytes:
        """The name, as given."""
        return self._lock.name

    @property
    def owner(self) -> str | bytes | None:
        """The owner, as given; None: the task."""
        return self._lock.owner

    def shared(self, weight: int | None = None) -> AsyncLock:
        """Return the same lock for many tasks at once, as Lock.shared(). Sends nothing."""
        lock = self._lock.shared(weight)
        if lock is self._lock:
            return self
        view = f"shared {lock._choices.weight}"
        if view not in self._views:
            made = AsyncLock(lock, self._reentrant, self._on_lost)
            self._views.setdefault(view, made)
        return self._views[view]

    def _notices(self) -> Notices:
        return self._lock._client._notices_here()

    async def _ask(self, call: Callable[..., Result], *about: object) -> Result:
        return await self._notices().ask(call, *about)

    def _by_task(self, owner: str | bytes | None) -> bool:
        return owner is None and self._lock.owner is None and self._reentrant

    def _who(self, owner: str | bytes | None) -> bytes | None:
        if self._by_task(owner):
            return self._lock._client._owner(_task())
        return None if owner is None else encoded("owner", owner)

    def _me(self) -> bytes:
        """Return the object that represents the task, even if it is no owner."""
        return self._lock._client._owner(_task())

    async def _acquire(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        on_lost: Callable[[AsyncHold], object] | None = None,
        quiet: bool | None = None,
    ) -> AsyncHold:
        lock, who = self._lock, self._who(owner)
        noted = lock._noted(options)
        (handle,) = await self._won(
            [lock],
            lambda number: lock._call(
                lock._core.hf_lock_acquire_start, who, milliseconds, noted, number
            ),
            milliseconds,
        )
        try:
            return self._take(handle, owner, options, on_lost, quiet)
        except BaseException:  # such as the exception of a signal handler
            self._notices().drop(handle)
            raise

    async def _won(
        self, locks: list[Lock], begin: Callable[[int], object], milliseconds: int
    ) -> list[_holdfast.Hold]:
        return [handle for _, handle, _ in await ends(locks, begin, milliseconds)]

    def _take(
        self,
        handle: _holdfast.Hold,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        on_lost: Callable[[AsyncHold], object] | None,
        quiet: bool | None,
    ) -> AsyncHold:
        lock = self._lock
        if options is kept and self._by_task(owner):
            task = _task()
            self._tasks[lock._client._owner(task)] = weakref.ref(task)
        elif options is kept and owner is None and lock.owner is None:
            own = self._own.setdefault(_task(), [])
            own[:] = [*filter(self._stands, own), handle]
        hold = AsyncHold(lock, handle, options is not kept, lock._quiet if quiet is None else quiet)
        on_lost = on_lost or self._on_lost
        if on_lost is not None:
            hold._tell(on_lost)
        return hold

    async def _begin(
        self, milliseconds: int, options: _holdfast.AcquireOptions, fingerprint: bytes | None
    ) -> tuple[int, _holdfast.Hold, str]:
        """Get the turn to make a call, or its outcome: status, hold or handle, and reason."""
        lock = self._lock
        options = lock._noted(options)
        (ended,) = await ends(
            [lock],
            lambda number: lock._call(
                lock._core.hf_once_begin_start, milliseconds, options, fingerprint, number
            ),
            milliseconds,
        )
        return ended

    async def acquire(
        self,
        blocking: bool = True,
        timeout: float | timedelta = -1,
        *,
        owner: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock; call release() once for each acquire.

        blocking  False tries once.
        timeout   Seconds; -1 waits without limit.
        owner     The owner, instead of the lock's owner or the task; give it to release() too.
                  Equal owners are one owner everywhere: "worker" on ten hosts excludes nothing.

        Returns True if the lock is held, False if other owners kept it. Raises ValueError,
        OverflowError and TypeError for wrong arguments, LockDeadlock if the caller holds the lock
        shared, LockUnknown if the answer was lost (do not enter), ConnectError or another LockError
        if the server was not reached or refused, and ClosedError.
        """
        try:
            await self._acquire(patience(blocking, timeout), owner, kept)
        except LockTimeout:
            return False
        return True

    def _stands(self, handle: _holdfast.Hold) -> bool:
        """Return whether a hold was not released, as another task may have done."""
        return self._lock._core.hf_hold_state(handle) != _holdfast.HF_STATE_RELEASED

    async def release(self, *, owner: str | bytes | None = None, wait: bool | None = None) -> None:
        """Release the task's newest hold from acquire() or `async with`.

        If a task ends without releasing, any task may release through this very lock: before
        Python 3.12, asyncio.wait_for() runs acquire() in a separate task.

        owner  As given to acquire().
        wait   As for Hold.release(): False does not wait for the answer.

        Raises LockNotOwnedError, a RuntimeError, if the task does not hold the lock; nothing was
        changed then. Otherwise as AsyncHold.release().
        """
        call = self._start_release(owner, wait)
        if call is not None:
            await released(self._lock, call)

    def _start_release(self, owner: str | bytes | None, wait: bool | None = None) -> Call | None:
        """Start the release; return None if no task waits for the answer."""
        return self._lock._newest(
            lambda: self._mine(owner),
            lambda who, handle: self._start(who, handle, wait),
        )

    def _start(self, who: bytes | None, handle: _holdfast.Hold, wait: bool | None) -> Call | None:
        core, call = self._lock._core, None
        if core.hf_hold_state(handle) == _holdfast.HF_STATE_HELD and self._lock._later(wait):
            self._lock._give_up(handle, False)
            self._lock._client._look()
        else:
            call = _release(self._notices(), handle)
        self._lock._client._forget(core.hf_hold_number(handle))
        if who in self._tasks and not self.count(owner=who):
            del self._tasks[who]
        return call

    def _start_end(self, whose: bytes | None, handle: _holdfast.Hold | None) -> Call | None:
        """Start to release the hold of a block; if it was released before, the task's newest."""
        released = _holdfast.HF_STATE_RELEASED
        if handle is not None and self._lock._core.hf_hold_state(handle) != released:
            return self._start(whose, handle, None)
        by_task = self._by_task(None) and whose != self._me()
        return self._start_release(whose if by_task else None)

    def _mine(self, owner: str | bytes | None) -> tuple[bytes | None, _holdfast.Hold]:
        """Find the task's newest hold, or without owners the hold of another task."""
        own = self._own.get(_task(), []) if owner is None else []
        while own:
            if self._stands(own[-1]):
                return None, own[-1]
            own.pop()
        return self._current(self._who(owner), self._by_task(owner))

    def _current(self, who: bytes | None, by_task: bool) -> tuple[bytes | None, _holdfast.Hold]:
        got: list[_holdfast.Hold] = []
        while True:
            try:
                self._lock._call(self._lock._core.hf_lock_current_as, who, got)
                return who, got[0]
            except LockNotOwnedError:
                if not by_task:
                    raise
                self._tasks.pop(who or b"", None)
                others = reversed(list(self._tasks.items()))
                who = next((owner for owner, task in others if ended(task())), None)
                if who is None:
                    raise

    async def __aenter__(self) -> AsyncHold:
        """Acquire, waiting without limit."""
        hold = await self._acquire(_holdfast.HF_FOREVER, None, kept)
        try:
            self._inside.enter(_task(), self._me(), hold._enter_block([hold._handle]))
            return hold
        except BaseException:  # no __aexit__() follows
            self._notices().drop(hold._handle)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release. Raises LockLost if the hold was lost, unless raise_on_lost is False."""
        got: list[_holdfast.Hold | None] = []
        try:
            whose = self._inside.leave(self._me(), got, not self._by_task(None))
            if got and got[0] is None:
                return
            call = self._start_end(whose, got[0] if got else None)
            if call is not None:
                await released(self._lock, call)
        except LockError as failed:
            excuse(failed, raised, self._lock._quiet)
        except asyncio.CancelledError:  # the release goes on
            raise
        except BaseException:
            drop_block(self, self._inside, got)
            raise

    def hold(
        self,
        timeout: float | timedelta | None = None,
        *,
        owner: str | bytes | None = None,
        on_lost: Callable[[AsyncHold], object] | None = None,
        raise_on_lost: bool | None = None,
        cancel_on_lost: bool = False,
        at_least: float | timedelta | None = None,
    ) -> Holding[AsyncHold]:
        """Acquire the lock, and give the caller the hold; any task may release it.

        Await this, or better enter it with `async with`, which releases.

        timeout         Seconds; 0 tries once; None or -1 waits without limit.
        owner           The owner, instead of the lock's owner or the task. Equal owners are one
                        owner everywhere: "worker" on ten hosts excludes nothing.
        on_lost         The event loop calls it with the AsyncHold if the hold is lost, instead of
                        the lock's on_lost.
        raise_on_lost   False: leaving a `with` block does not raise LockLost. By default the
                        lock's setting.
        cancel_on_lost  Cancel the body of the `async with` when the hold is lost. The block then
                        raises LockLost, or, without raise_on_lost, nothing. An await without a
                        block raises ValueError.
        at_least        Seconds, counted from the acquire, for which the lock stays held even if it
                        is released earlier, as in Lock.hold().

        Raises LockTimeout, a TimeoutError, if other owners kept the lock; otherwise as acquire().
        """
        milliseconds, quiet, least = wishes(timeout, on_lost, raise_on_lost, at_least)
        flag("cancel_on_lost", cancel_on_lost)
        quiet = self._lock._quiet if quiet is None else quiet
        on_lost = on_lost or self._on_lost
        return Holding(self, milliseconds, owner, on_lost, quiet, cancel_on_lost, least)

    def count(self, *, owner: str | bytes | None = None) -> int:
        """Return how often release() would succeed for this task. Sends nothing."""
        return self._lock._count(lambda: self._who(owner))

    def owned(self, *, owner: str | bytes | None = None) -> bool:
        """Return whether release() would succeed for this task. Sends nothing."""
        return self.count(owner=owner) > 0

    async def extend(
        self,
        seconds: float | timedelta | None,
        replace: bool = False,
        *,
        owner: str | bytes | None = None,
    ) -> None:
        """Extend the task's newest hold, as Hold.extend().

        owner  As given to acquire().
        """
        how = extension(seconds), flag("replace", replace)
        _, handle = self._mine(owner)
        await _renewed(self._lock, self._lock._core.hf_hold_extend_start, handle, *how)

    async def reacquire(self, *, owner: str | bytes | None = None) -> None:
        """Make the task's newest hold last this lock's lease, counted from now.

        owner  As given to acquire().
        """
        lease = self._lock._options.lease_ms or _holdfast.HF_LEASE_DEFAULT
        _, handle = self._mine(owner)
        await _renewed(self._lock, self._lock._core.hf_hold_extend_start, handle, lease, True)

    async def locked(self) -> bool:
        """Ask the server whether the lock is held, in a thread of the client."""
        return await self._ask(self._lock.locked)

    async def inspect(self, first: int = 0) -> LockInfo:
        """Look at the lock, as Lock.inspect(), in a thread of the client."""
        return await self._ask(self._lock.inspect, first)

    async def force_release(self, fence: int, *, foreign: bool = False) -> None:
        """Take the lock away, as Lock.force_release(), in a thread of the client."""
        await self._ask(lambda: self._lock.force_release(fence, foreign=foreign))

    def __repr__(self) -> str:
        """Show the name and the owner. Sends nothing."""
        return (
            f"<{self._lock._kind()}holdfast.AsyncLock object name={self.name!r}"
            f" owner={self.owner!r} at {id(self):#x}>"
        )


async def ends(
    locks: list[Lock], begin: Callable[[int], object], milliseconds: int
) -> list[tuple[int, _holdfast.Hold, str]]:
    """Start acquires, by calling begin() with the first number, and wait until all end.

    Returns for each the status, the hold or the handle of an outcome, and the reason.
    """
    notices = locks[0]._client._notices_here()
    number, calls = notices.start_several(len(locks), begin)
    try:
        # The last first: until it has ended, too, the loop may be closed with nothing taken.
        told = [(call, *await call.wait()) for call in reversed(calls)][::-1]
    except asyncio.CancelledError:
        releases = []
        for each, call in enumerate(calls, number):
            _, handle = await call.insist(notices.answers, functools.partial(notices.cancel, each))
            notices.forget(each)
            if handle is not None:  # the acquire got the lock just before
                with contextlib.suppress(LockError):  # a result has no hold, and a close ends any
                    releases.append(_release(notices, handle))
        for release in releases:
            await release.insist(notices.answers)
        raise
    except BaseException:  # the task ends with its loop
        for at, call in enumerate(calls):
            notices.abandon(number + at, call)
        raise
    for call, status, handle in told:
        if handle is None:
            failed = error(status, call.message, call.detail)
            if isinstance(failed, LockTimeout):
                failed = locks[failed._which]._waited(failed, milliseconds)
            raise failed
    return [(status, handle, call.message) for call, status, handle in told if handle is not None]


def drop_block(lock: AsyncLock, inside: Inside, got: list[_holdfast.Hold | None]) -> None:
    """Release the hold of a block whose end was interrupted, such as by a signal handler."""
    if not got:
        inside.leave(lock._me(), got, not lock._by_task(None))
    for handle in got:  # perhaps a second time, which harms no other hold
        lock._notices().drop(handle)


def _release(notices: Notices, handle: _holdfast.Hold) -> Call:
    _, call = notices.start(lambda number: notices.core.hf_hold_release_start(handle, number))
    call.ends = True
    return call


async def released(lock: Lock, call: Call) -> None:
    status, _ = await call.wait()
    lock._client._look()
    if status != _holdfast.HF_OK:
        raise error(status, call.message, call.detail)


async def _renewed(
    lock: Lock, begin: Callable[..., None], handle: _holdfast.Hold, *how: int
) -> None:
    notices = lock._client._notices_here()
    _, call = notices.start(lambda number: begin(handle, *how, number))
    status, _ = await call.wait()
    if status != _holdfast.HF_OK:
        raise error(status, call.message, call.detail)


@final
class AsyncLost(BaseLost):
    """The loss of a hold, and its cause; like an asyncio.Event."""

    __slots__ = ()

    async def wait(self) -> bool:
        """Wait until the hold is lost. Returns False if it is released or its client closed."""
        hold = self._hold
        if hold.valid:
            with contextlib.suppress(ClosedError):
                await hold._notices().waited(lambda: not hold.valid)
        return self.is_set()


@final
class AsyncHold(BaseHold):
    """One successful acquire of an AsyncLock; an async context manager that releases.

    A dropped hold is not released: it ends with its lease. If it came from AsyncLock.hold(), it
    warns with ResourceWarning.
    """

    __slots__ = ()

    @property
    def lost(self) -> AsyncLost:
        """Whether it was lost: like an asyncio.Event, with a `cause`."""
        return AsyncLost(self)

    def _tell(self, lost: Callable[[AsyncHold], object]) -> None:
        """Call lost() in this event loop if the hold is lost."""
        loop = asyncio.get_running_loop()
        self._notices().attend(loop)

        context = contextvars.copy_context()  # the thread that reports the loss has another

        def tell(hold: AsyncHold) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lost, hold, context=context)

        self._watch(tell)

    async def release(self, wait: bool | None = None) -> None:
        """Release the hold. One round trip, which goes on if this is cancelled.

        wait  False: do not wait for the answer, as Hold.release().

        Raises LockNotOwnedError if it was released before, LockLost if it was lost before,
        LockUnknown if the answer was lost, and ConnectError or another LockError if the server was
        not reached or refused. In each case the hold ends with its lease at the latest. If the
        at_least of AsyncLock.hold() has not passed, this keeps the lock for the rest of that time,
        as Hold.release() does.
        """
        try:
            call = self._start_release(wait)
            if call is not None:
                await released(self._lock, call)
        except asyncio.CancelledError:
            self._loose = False  # the release goes on
            raise
        finally:
            if self.state != "held":
                self._unwatch()

    def _start_release(self, wait: bool | None = None) -> Call | None:
        """Start the release; return None if no task waits for the answer."""
        try:
            if not (self.valid and self._lock._later(wait)):
                return _release(self._notices(), self._handle)
            self._lock._give_up(self._handle, False)
            self._loose = False
            return None
        finally:
            if self.state == "released":
                self._gone()

    async def _leave(self, state: int, result: bytes, ttl: int) -> None:
        """Release the hold, and report how its call ended, if there is memory for a report."""
        notices, core = self._notices(), self._core
        try:
            _, call = notices.start(
                lambda number: core.hf_once_finish_start(self._handle, state, result, ttl, number)
            )
            call.ends = True
        except MemoryError:
            notices.drop(self._handle)  # a wait for the answer could be cancelled
            raise
        finally:
            self._unwatch()
        await released(self._lock, call)

    async def renew(self) -> None:
        """Make the hold last its whole lease again, as Hold.renew()."""
        await _renewed(self._lock, self._lock._core.hf_hold_renew_start, self._handle)

    async def extend(self, seconds: float | timedelta | None, replace: bool = False) -> None:
        """Make the hold last longer, as Hold.extend()."""
        how = extension(seconds), flag("replace", replace)
        await _renewed(self._lock, self._lock._core.hf_hold_extend_start, self._handle, *how)

    async def keep(self, seconds: float | timedelta) -> None:
        """Leave the lock held for `seconds` from now on, as Hold.keep().

        If this is cancelled, the request goes on; if that fails, the hold is released.
        """
        milliseconds, core = duration("seconds", seconds, least=0), self._core
        notices = self._notices()
        _, call = notices.start(
            lambda number: core.hf_hold_keep_start(self._handle, milliseconds, number)
        )
        call.ends = True
        try:
            await released(self._lock, call)
        except asyncio.CancelledError:  # the end of a block releases the hold all the same
            self._loose = False
            self._leave_block()
            notices.leave(call, self._handle)
            raise
        self._gone()

    async def check(self) -> None:
        """Ask the server whether the hold still stands, as Hold.check()."""
        await _renewed(self._lock, self._lock._core.hf_hold_check_start, self._handle)

    async def __aenter__(self) -> AsyncHold:
        """Return the hold. Raises LockNotOwnedError if it was released, LockLost if it was lost."""
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the hold, unless the body did. Raises LockLost if it was lost."""
        if not self._left and self.state != "released":
            try:
                await self.release()
            except LockError as failed:
                excuse(failed, raised, self._quiet)


class _Entered(Protocol):
    """An AsyncHold, or several."""

    _entered: bool

    @property
    def lost(self) -> AsyncLost: ...

    def _keep_at_least(self, milliseconds: int) -> None: ...

    async def release(self) -> None: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


Held = TypeVar("Held", bound=_Entered)


Gained = TypeVar("Gained", bound=_Entered, covariant=True)


class _Acquires(Protocol[Gained]):
    """An AsyncLock, or several."""

    async def _acquire(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        on_lost: Callable[[Gained], object] | None = None,
        quiet: bool | None = None,
    ) -> Gained: ...


@final
class Holding(Awaitable[Held]):
    """The result of AsyncLock.hold(): await it, or enter it with `async with`."""

    def __init__(
        self,
        lock: _Acquires[Held],
        milliseconds: int,
        owner: str | bytes | None,
        on_lost: Callable[[Held], object] | None,
        quiet: bool,
        cancel: bool,
        least: int,
    ) -> None:
        """Only AsyncLock.hold() makes this object."""
        self._lock = lock
        self._arguments = milliseconds, owner
        self._on_lost = on_lost
        self._quiet = quiet
        self._cancel = cancel
        self._least = least
        self._task: asyncio.Task[object] | None = None
        self._inside = False
        self._canceled = False
        self._cancelling = 0

    async def _acquire(self, on_lost: Callable[[Held], object] | None) -> Held:
        held = await self._lock._acquire(*self._arguments, loose, on_lost, self._quiet)
        try:
            held._keep_at_least(self._least)
        except ValueError:  # several masters keep a lock no longer than their quarantine
            await held.release()
            raise
        return held

    def __await__(self) -> Generator[object, None, Held]:
        """Acquire."""
        if self._cancel:
            raise ValueError("cancel_on_lost cancels a block: enter this hold() by `async with`")
        return self._acquire(self._on_lost).__await__()

    async def __aenter__(self) -> Held:
        """Acquire."""
        if self._inside:
            raise RuntimeError("this hold() is entered already: call hold() again for another")
        self._inside, self._canceled = True, False
        try:
            self._hold = await self._acquire(self._lost if self._cancel else self._on_lost)
        except BaseException:
            self._inside = False
            raise
        self._hold._entered = True
        self._task = _task()
        if sys.version_info >= (3, 11):
            self._cancelling = self._task.cancelling()
        return self._hold

    def _lost(self, hold: Held) -> None:
        try:
            if self._on_lost is not None:
                self._on_lost(hold)
        finally:
            if self._task is not None:  # else the block has ended
                self._canceled = True
                self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Release the hold, unless the body did. Raises LockLost if it was lost."""
        task, self._task = self._task, None  # from here on, nothing cancels the task
        self._inside = False
        ours = self._canceled and task is not None
        if ours and task is not None and sys.version_info >= (3, 11):
            ours = task.uncancel() <= self._cancelling  # else another caller cancelled it too
        if not (ours and kind is asyncio.CancelledError):
            await self._hold.__aexit__(kind, raised, trace)
            return False
        try:
            await self._hold.__aexit__(None, None, None)
        except LockLost as lost:
            raise lost from None
        if not self._quiet and self._hold.lost.is_set():  # the body has released the hold
            failed = LockLost(f"{self._hold!r} was lost, and its block was cancelled")
            failed.cause = self._hold.lost.cause
            raise failed from None
        return True

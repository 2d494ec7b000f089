"""Several locks at once: all of them, or none."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import sys
import weakref
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar, final

from . import _holdfast
from ._aio import AsyncHold, AsyncLock, AsyncLost, Holding, _task, drop_block, released
from ._arguments import encoded, extension, flag, patience, wishes
from ._caller import Inside, refuse_as_job
from ._errors import LockError, LockTimeout
from ._hold import AnyHold, Bound, Hold, Lost, State, excuse
from ._lock import Lock, give_back, kept, leave, loose, patiently, try_all
from ._options import LockOptions

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._async_client import AsyncClient
    from ._client import Client
    from ._notices import Call

Names = tuple["str | bytes", ...]
AnyLock = TypeVar("AnyLock", Lock, AsyncLock)


def check_names(names: Names) -> None:
    """Refuse names that cannot be held together."""
    if not 1 <= len(names) <= _holdfast.HF_JOIN_MAX:
        raise ValueError(f"{len(names)} locks: it takes 1 to {_holdfast.HF_JOIN_MAX} at once")
    if len({encoded("name", name) for name in names}) < len(names):
        raise ValueError(f"a lock is given twice among {names!r}")


def plain(lock: Lock | AsyncLock) -> Lock:
    """Return the Lock of an AsyncLock, or the Lock itself."""
    return lock._lock if isinstance(lock, AsyncLock) else lock


def call(
    locks: list[Lock],
    function: Callable[..., object],
    who: bytes | None,
    milliseconds: int,
    options: _holdfast.AcquireOptions,
    last: object,
) -> None:
    noted = [lock._noted(options) for lock in locks]
    for lock in locks:  # before the call, which refuses handles of two processes
        lock._reopen()
    function([lock._handle for lock in locks], who, milliseconds, noted, last)


def check_lock(lock: Lock | AsyncLock, kind: type[Lock | AsyncLock], client: Client) -> None:
    """Refuse a lock that cannot be held together with others."""
    if not isinstance(lock, kind):
        raise TypeError(
            f"{lock!r} is given among the locks: here each is a name or {kind.__name__}"
        )
    if plain(lock)._client is not client:
        raise ValueError(f"lock {lock.name!r} is another client's: all must be of this client")
    if lock._on_lost is not None:
        raise ValueError(
            f"lock {lock.name!r} has an on_lost of its own, but all are lost together: give"
            " on_lost to locks_all() or hold()"
        )


class BaseHolds(Bound, Generic[AnyHold]):
    """The properties of holds that were acquired together. They send nothing."""

    __slots__ = ("__weakref__", "_entered", "_holds", "_quiet")

    def __init__(self, holds: list[AnyHold], quiet: bool) -> None:
        """Only locks_all() makes this object."""
        self._holds = {hold._lock.name: hold for hold in holds}
        self._quiet = quiet
        self._entered = False

    @property
    def holds(self) -> dict[str | bytes, AnyHold]:
        """Each hold by its name, in the order in which the names were given."""
        return dict(self._holds)

    @property
    def fences(self) -> dict[str | bytes, int]:
        """Each fence by its name: every lock has its own."""
        return {name: hold.fence for name, hold in self._holds.items()}

    @property
    def remaining(self) -> float | None:
        """The seconds that all are certain to last; None: without end; 0: one has ended."""
        each = [hold.remaining for hold in self._holds.values()]
        return min((left for left in each if left is not None), default=None)

    @property
    def state(self) -> State:
        """Either "held", "lost" or "released", as far as this process knows."""
        states: set[State] = {hold.state for hold in self._holds.values()}
        return "lost" if "lost" in states else "held" if "held" in states else "released"

    @property
    def valid(self) -> bool:
        """Whether all are still held, as far as this process knows."""
        return all(hold.valid for hold in self._holds.values())

    def _keep_at_least(self, milliseconds: int) -> None:
        for hold in self._holds.values():
            hold._keep_at_least(milliseconds)

    def _handles(self) -> list[_holdfast.Hold]:
        return [hold._handle for hold in self._holds.values()]

    def _enter_block(self) -> list[_holdfast.Hold | None]:
        """Note that a block of the locks releases these holds."""
        self._entered = True
        holds: list[_holdfast.Hold | None] = [*self._handles()]
        for hold in self._holds.values():
            hold._block = holds
        return holds

    def _enter(self) -> None:
        """Refuse a `with` block whose body would run without the locks."""
        if self._entered and self.state != "released":
            raise RuntimeError(f"{self!r} is entered already: the inner block would release it")
        for hold in self._standing() or self._holds.values():
            hold._enter()
        self._entered = True

    def _standing(self) -> list[AnyHold]:
        """Return the holds that were not released or kept, in reverse order."""
        return [
            each
            for each in reversed(self._holds.values())
            if each.state != "released" and not each._left
        ]

    def _one(self) -> AnyHold:
        """Return a hold that reports a loss: if one is lost, all are."""
        return next(iter(self._standing()), next(iter(self._holds.values())))

    def _tell(
        self,
        on_lost: Callable[[Self], object],
        watch: Callable[[AnyHold, Callable[[AnyHold], object]], None],
    ) -> None:
        """Call on_lost() once if they are lost."""
        # The caller may drop loose holds, and so end them.
        refer = weakref.ref(self)
        keep = None if any(hold._loose for hold in self._holds.values()) else self
        told: list[bool] = []

        def tell(_: AnyHold) -> None:
            holds = keep or refer()
            if holds is not None and not told:
                told.append(True)
                on_lost(holds)

        for hold in self._holds.values():
            watch(hold, tell)

    def __repr__(self) -> str:
        """Show the state and the fences."""
        return (
            f"<{self.state} holdfast.{type(self).__name__} object {self.fences} at {id(self):#x}>"
        )


@final
class Holds(BaseHolds[Hold]):
    """Holds of several locks, which belong together: if one is lost, all are.

        with client.locks_all("a", "b").hold(timeout=5) as holds:
            write(holds.fences["a"])

    As soon as one is lost, or found to be lost, the others are lost, too, and released.
    """

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """Whether they were lost: like a threading.Event, with a `cause`."""
        return Lost(self._one())

    def _each(self, work: Callable[[Hold], None]) -> None:
        try_all(self._standing() or self._holds.values(), work)

    def release(self, wait: bool | None = None) -> None:
        """Release all that were not released yet. One round trip for each.

        wait  As for Hold.release(): False does not wait for the answers.

        It tries all; then the first exception of Hold.release() is raised, if there was one.
        """
        self._each(lambda hold: hold.release(wait))

    def renew(self) -> None:
        """Make each last its whole lease again, as Hold.renew()."""
        self._each(Hold.renew)

    def extend(self, seconds: float | timedelta | None, replace: bool = False) -> None:
        """Make each last longer, as Hold.extend()."""
        how = extension(seconds), flag("replace", replace)
        self._each(lambda hold: hold._core.hf_hold_extend(hold._handle, *how))

    def keep(self, seconds: float | timedelta) -> None:
        """Leave all locks held for `seconds` from now on, as Hold.keep().

        It tries all; then the first exception is raised, and the locks that are not kept stay held.
        """
        self._each(lambda hold: hold.keep(seconds))

    def check(self) -> None:
        """Ask the server whether all still stand, as Hold.check()."""
        self._each(Hold.check)

    def __enter__(self) -> Holds:
        """Return the holds. Raises as entering a Hold does."""
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release all that the body did not. Raises LockLost if they were lost."""
        if self.state != "released":
            try:
                self.release()
            except LockError as failed:
                excuse(failed, raised, self._quiet)


class BaseLocks(Bound, Generic[AnyLock]):
    """Several names to lock."""

    __slots__ = ("__weakref__", "_inside", "_locks", "_on_lost", "_quiet", "names")

    def __init__(
        self,
        given: tuple[str | bytes | AnyLock, ...],
        options: LockOptions,
        opened: Callable[[str | bytes, LockOptions], AnyLock],
        kind: type[AnyLock],
        client: Client,
    ) -> None:
        """Only locks_all() makes this object."""
        alone = dataclasses.replace(options, on_lost=None)  # called once, for all
        for each in given:
            if isinstance(each, (Lock, AsyncLock)):
                check_lock(each, kind, client)
        self.names = tuple(
            each.name if isinstance(each, (Lock, AsyncLock)) else each for each in given
        )
        check_names(self.names)
        named = len(given) > sum(isinstance(each, (Lock, AsyncLock)) for each in given)
        if not named and dataclasses.replace(alone, raise_on_lost=True) != LockOptions():
            raise ValueError("the options do nothing: they are for names, and no name is given")
        self._on_lost = options.on_lost
        self._quiet = not options.raise_on_lost
        self._inside = Inside()
        self._locks: list[AnyLock] = [
            opened(each, alone) if isinstance(each, (str, bytes)) else each for each in given
        ]
        each_plain = map(plain, self._locks)
        if len({(lock._owner, lock._choices.reentrant) for lock in each_plain}) > 1:
            raise ValueError(
                "locks that are held together have one owner: give all the same owner and reentrant"
            )

    def count(self, *, owner: str | bytes | None = None) -> int:
        """Return how often release() would succeed for this caller. Sends nothing."""
        return min(lock.count(owner=owner) for lock in self._locks)

    def owned(self, *, owner: str | bytes | None = None) -> bool:
        """Return whether release() would succeed for this caller. Sends nothing."""
        return self.count(owner=owner) > 0

    def __repr__(self) -> str:
        """Show the names. Sends nothing."""
        return f"<holdfast.{type(self).__name__} object names={self.names!r} at {id(self):#x}>"


@final
class LocksAll(BaseLocks[Lock]):
    """Several names to lock at once; Client.locks_all() makes it.

        with client.locks_all("a", "b") as holds: ...  # waits without limit

        both = client.locks_all("a", "b", lease=60)
        if both.acquire(timeout=5):
            try: ...
            finally: both.release()

    All or none, within one deadline. They are acquired in the order of the bytes of their names, so
    callers that give them in different orders do not wait for each other for ever; a caller that
    already holds one of them may. If the lease of a lock ends while the call waits for the next,
    the call begins again, after a pause. Owners and exceptions are those of Lock.
    """

    __slots__ = ()

    def __init__(
        self,
        given: tuple[str | bytes | Lock, ...],
        options: LockOptions,
        client: Client,
    ) -> None:
        """Only Client.locks_all() makes this object."""
        super().__init__(given, options, client.lock, Lock, client)

    def _acquire(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        on_lost: Callable[[Holds], object] | None = None,
        quiet: bool | None = None,
    ) -> Holds:
        got: list[_holdfast.Hold] = []
        try:
            self._win(milliseconds, owner, options, got)
            quiet = self._quiet if quiet is None else quiet
            pairs = zip(self._locks, got, strict=True)
            holds = Holds([Hold(lock, won, options is loose, quiet) for lock, won in pairs], quiet)
            if on_lost := on_lost or self._on_lost:
                notices = self._locks[0]._client._notices_here()
                notices.listen()
                holds._tell(notices.elsewhere(on_lost), Hold._watch)
        except BaseException:
            give_back(self._locks[0]._core, got)
            raise
        return holds

    def _win(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        got: list[_holdfast.Hold],
    ) -> None:
        for lock in self._locks:
            lock._ready()
        first = self._locks[0]
        by, who = self._who(owner)
        patiently(self._locks, milliseconds, lambda waits: self._ask(who, waits, options, got))
        if owner is None and first._by_thread and options is kept:
            first._client._watch(by, who)

    def _ask(
        self,
        who: bytes | None,
        milliseconds: int,
        options: _holdfast.AcquireOptions,
        got: list[_holdfast.Hold],
    ) -> None:
        core = self._locks[0]._core
        call(self._locks, core.hf_lock_acquire_all, who, milliseconds, options, got)

    def acquire(
        self,
        blocking: bool = True,
        timeout: float | timedelta = -1,
        *,
        owner: str | bytes | None = None,
    ) -> bool:
        """Acquire all; call release() once for each acquire. Arguments and exceptions as Lock's.

        Returns True if all are held, False if other owners kept one of them: then no lock is held.
        """
        if owner is None and self._locks[0]._by_thread:
            refuse_as_job(f"locks {self.names!r}", sys._getframe().f_back)
        try:
            self._acquire(patience(blocking, timeout), owner, kept)
        except LockTimeout:
            return False
        return True

    def release(self, *, owner: str | bytes | None = None) -> None:
        """Release the caller's newest hold of each lock. One round trip for each.

        Raises LockNotOwnedError if the caller lacks a hold of one; nothing was changed then.
        Otherwise it tries all, and then the first exception of Lock.release() is raised.
        """
        who = self._who(owner)[1]
        for lock in self._locks:
            lock._current_of(who)
        try_all(reversed(self._locks), lambda lock: lock._release(who))

    def _who(self, owner: str | bytes | None) -> tuple[object | None, bytes | None]:
        return self._locks[0]._who(owner)

    def _plain(self) -> list[Lock]:
        return self._locks

    def __enter__(self) -> Holds:
        """Acquire all, waiting without limit."""
        holds = self._acquire(_holdfast.HF_FOREVER, None, kept)
        try:
            self._inside.enter(*self._who(None), holds._enter_block())
            return holds
        except BaseException:  # no __exit__() follows
            give_back(self._locks[0]._core, holds._handles())
            raise

    __exit__ = leave

    def hold(
        self,
        timeout: float | timedelta | None = None,
        *,
        owner: str | bytes | None = None,
        on_lost: Callable[[Holds], object] | None = None,
        raise_on_lost: bool | None = None,
        at_least: float | timedelta | None = None,
    ) -> Holds:
        """Acquire all, and give the caller the holds. Arguments and exceptions as Lock.hold()'s.

        on_lost is called once, with the Holds.
        """
        milliseconds, quiet, least = wishes(timeout, on_lost, raise_on_lost, at_least)
        holds = self._acquire(milliseconds, owner, loose, on_lost, quiet)
        try:
            holds._keep_at_least(least)
        except ValueError:  # several masters keep locks no longer than their quarantine
            holds.release()
            raise
        return holds


# --------------------------------------------------------------------- For tasks


async def _released(releases: Iterable[tuple[Lock, Callable[[], Call | None]]]) -> None:
    """Start all releases, even if cancelled meanwhile, and wait; then raise the first failure."""
    failed: LockError | None = None
    calls: list[tuple[Lock, Call]] = []

    def begin(release: tuple[Lock, Callable[[], Call | None]]) -> None:
        lock, start = release
        call = start()
        if call is not None:
            calls.append((lock, call))

    try:
        try_all(releases, begin)
    except LockError as error:
        failed = error
    for lock, call in calls:
        try:
            await released(lock, call)
        except LockError as error:
            failed = failed or error
    if failed is not None:
        raise failed


@final
class AsyncHolds(BaseHolds[AsyncHold]):
    """Holds of several locks, which belong together: if one is lost, all are."""

    __slots__ = ()

    @property
    def lost(self) -> AsyncLost:
        """Whether they were lost: like an asyncio.Event, with a `cause`."""
        return AsyncLost(self._one())

    async def release(self) -> None:
        """Release all that were not released yet, as Holds.release(). Goes on if cancelled."""
        standing = self._standing() or self._holds.values()
        await _released((hold._lock, hold._start_release) for hold in standing)

    async def _each(self, work: Callable[[AsyncHold], Awaitable[None]]) -> None:
        standing = self._standing() or self._holds.values()
        ends = await asyncio.gather(*map(work, standing), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end

    async def renew(self) -> None:
        """Make each last its whole lease again, as Holds.renew()."""
        await self._each(AsyncHold.renew)

    async def extend(self, seconds: float | timedelta | None, replace: bool = False) -> None:
        """Make each last longer, as Holds.extend()."""
        await self._each(lambda hold: hold.extend(seconds, replace))

    async def keep(self, seconds: float | timedelta) -> None:
        """Leave all locks held for `seconds` from now on, as Holds.keep()."""
        await self._each(lambda hold: hold.keep(seconds))

    async def check(self) -> None:
        """Ask the server whether all still stand, as Holds.check()."""
        await self._each(AsyncHold.check)

    async def __aenter__(self) -> AsyncHolds:
        """Return the holds. Raises as entering an AsyncHold does."""
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release all that the body did not. Raises LockLost if they were lost."""
        if self._standing():
            try:
                await self.release()
            except LockError as failed:
                excuse(failed, raised, self._quiet)


@final
class AsyncLocksAll(BaseLocks[AsyncLock]):
    """Several names to lock at once, for tasks; AsyncClient.locks_all() makes it.

        async with client.aio.locks_all("a", "b") as holds: ...

    As LocksAll, with the methods of AsyncLock. A cancelled wait leaves nothing behind.
    """

    __slots__ = ()

    def __init__(
        self,
        given: tuple[str | bytes | AsyncLock, ...],
        options: LockOptions,
        client: AsyncClient,
    ) -> None:
        """Only AsyncClient.locks_all() makes this object."""
        super().__init__(given, options, client.lock, AsyncLock, client._client)

    async def _acquire(
        self,
        milliseconds: int,
        owner: str | bytes | None,
        options: _holdfast.AcquireOptions,
        on_lost: Callable[[AsyncHolds], object] | None = None,
        quiet: bool | None = None,
    ) -> AsyncHolds:
        quiet = self._quiet if quiet is None else quiet
        locks, who = list(map(plain, self._locks)), self._locks[0]._who(owner)
        start = locks[0]._core.hf_lock_acquire_all_start
        got = await self._locks[0]._won(
            locks,
            lambda number: call(locks, start, who, milliseconds, options, number),
            milliseconds,
        )
        try:
            pairs = zip(self._locks, got, strict=True)
            holds = AsyncHolds(
                [each._take(won, owner, options, None, quiet) for each, won in pairs], quiet
            )
            if on_lost := on_lost or self._on_lost:
                holds._tell(on_lost, AsyncHold._tell)
            return holds
        except BaseException:
            for won in got:
                self._locks[0]._notices().drop(won)
            raise

    async def acquire(
        self,
        blocking: bool = True,
        timeout: float | timedelta = -1,
        *,
        owner: str | bytes | None = None,
    ) -> bool:
        """Acquire all; call release() once for each acquire. As LocksAll.acquire()."""
        try:
            await self._acquire(patience(blocking, timeout), owner, kept)
        except LockTimeout:
            return False
        return True

    async def release(self, *, owner: str | bytes | None = None) -> None:
        """Release the task's newest hold of each lock, as LocksAll.release()."""
        for lock in self._locks:
            lock._mine(owner)
        await _released(
            (lock._lock, functools.partial(lock._start_release, owner))
            for lock in reversed(self._locks)
        )

    async def __aenter__(self) -> AsyncHolds:
        """Acquire all, waiting without limit."""
        holds = await self._acquire(_holdfast.HF_FOREVER, None, kept)
        try:
            self._inside.enter(_task(), self._locks[0]._me(), holds._enter_block())
            return holds
        except BaseException:  # no __aexit__() follows
            for handle in holds._handles():
                self._locks[0]._notices().drop(handle)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release all. Raises LockLost if they were lost, unless raise_on_lost is False."""
        first = self._locks[0]
        got: list[_holdfast.Hold | None] = []
        try:
            whose = self._inside.leave(first._me(), got, not first._by_task(None))
            ends = [
                (lock._lock, functools.partial(lock._start_end, whose, got[at] if got else None))
                for at, lock in enumerate(self._locks)
                if not got or got[at] is not None
            ]
            await _released(ends[::-1])
        except LockError as failed:
            excuse(failed, raised, self._quiet)
        except asyncio.CancelledError:  # the releases go on
            raise
        except BaseException:
            drop_block(first, self._inside, got)
            raise

    def hold(
        self,
        timeout: float | timedelta | None = None,
        *,
        owner: str | bytes | None = None,
        on_lost: Callable[[AsyncHolds], object] | None = None,
        raise_on_lost: bool | None = None,
        cancel_on_lost: bool = False,
        at_least: float | timedelta | None = None,
    ) -> Holding[AsyncHolds]:
        """Acquire all, and give the caller the holds. Arguments as AsyncLock.hold()'s.

        Await this, or better enter it with `async with`, which releases.
        """
        milliseconds, quiet, least = wishes(timeout, on_lost, raise_on_lost, at_least)
        flag("cancel_on_lost", cancel_on_lost)
        quiet = self._quiet if quiet is None else quiet
        on_lost = on_lost or self._on_lost
        return Holding(self, milliseconds, owner, on_lost, quiet, cancel_on_lost, least)

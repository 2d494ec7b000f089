"""redis.asyncio's Lock, on Holdfast: what holdfast.compat.redis is for redis-py's.

lock = redis.lock("stock", timeout=10, lock_class=holdfast.compat.redis_asyncio.Lock)

The same constructor, methods and exceptions as redis.asyncio.lock.Lock, to be awaited; all that
holdfast.compat.redis says of what is not as with redis-py holds here too. Any number of tasks wait
on one thread. A task that is cancelled while it waits holds nothing; one that is cancelled in
release() has released: it goes on by itself, and is not to be called again.

A client of redis.asyncio and one of redis.Redis have a holdfast.Client each. It is opened in a
thread of the event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import holdfast

from ._redis import BaseLock, LockError, LockNotOwnedError, connect, known

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lock", "LockError", "LockNotOwnedError", "connect"]


class Lock(BaseLock[holdfast.AsyncHold]):
    """redis.asyncio.lock.Lock with the same constructor and methods; what differs, the modules say.

    With thread_local, which is the default, the tasks of a thread share what the object holds, as
    with redis.asyncio's: a Lock object is for one task at a time.
    """

    async def _lock(self) -> holdfast.AsyncLock:
        client = known(self.redis)
        if client is None:
            client = await asyncio.to_thread(connect, self.redis)
        name, lease = self._arguments()
        return client.aio.lock(name, lease=lease, reentrant=False)

    async def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock, as the constructor says; say whether it is held.

        blocking          False tries once.
        blocking_timeout  Seconds to wait.
        token             The holder's name; any other acquire is refused all the same.

        Raises redis-py's ConnectionError and ResponseError; a ConnectionError with a cause of
        LockUnknown means that the lock may be held, by nobody who knows.
        """
        seconds, owner = self._patience(blocking, blocking_timeout, token)
        with self._asking():
            try:
                self.local.hold = await (await self._lock()).hold(seconds, owner=owner)
            except holdfast.LockTimeout:
                return False
        return True

    async def release(self) -> None:
        """Release the lock. LockError if it is not held, LockNotOwnedError if it was lost."""
        hold = self._held("Cannot release a lock that's not owned or is already unlocked.")
        self.local.hold = None
        with self._asking("Cannot release a lock that's no longer owned"):
            await hold.release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Awaitable[Literal[True]]:
        """Make the lock last so many seconds longer, or so many from now."""
        hold = self._extensible("extend")
        return self._extend(hold, additional_time, replace_ttl, "extend")

    def reacquire(self) -> Awaitable[Literal[True]]:
        """Make the lock last its timeout again, counted from now."""
        hold = self._extensible("reacquire")
        return self._extend(hold, self.timeout, True, "reacquire")

    async def _extend(
        self, hold: holdfast.AsyncHold, seconds: float | None, replace: bool, verb: str
    ) -> Literal[True]:
        with self._asking(f"Cannot {verb} a lock that's no longer owned"):
            await hold.extend(seconds, replace)
        return True

    async def locked(self) -> bool:
        """Ask the server whether anybody holds it."""
        with self._asking():
            return await (await self._lock()).locked()

    async def owned(self) -> bool:
        """Ask the server whether this object, or this thread through it, holds it."""
        hold = self._mine()
        try:
            if hold is not None:
                with self._asking():
                    await hold.check()
        except LockNotOwnedError:
            return False
        return hold is not None

    async def __aenter__(self) -> Self:
        """Acquire; LockError if others kept it for the blocking_timeout."""
        if not await self.acquire():
            raise self._error(LockError, "Unable to acquire lock within the time specified")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release; raises as release(), or logs."""
        try:
            await self.release()
        except LockError:
            self._excuse()

"""redis.asyncio's Lock, on Holdfast, as holdfast.compat.redis is for redis-py's.

lock = redis.lock("stock", timeout=10, lock_class=holdfast.compat.redis_asyncio.Lock)

The constructor, coroutines and exceptions are those of redis.asyncio.lock.Lock; the differences
that holdfast.compat.redis lists apply here, too. Any number of tasks wait on one thread. A task
that is cancelled while it waits holds nothing. A release() that is cancelled goes on by itself: do
not call it again.

A redis.asyncio client and a redis.Redis client have a holdfast.Client each. One of the event loop's
threads opens it.
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
    """redis.asyncio.lock.Lock with the same constructor and methods; see both modules' differences.

    With thread_local, the default, the tasks of a thread share the object's hold, as with
    redis.asyncio's lock: use a Lock object in one task at a time.
    """

    async def _lock(self) -> holdfast.AsyncLock:
        client = known(self.redis)
        if client is None:
            client = await asyncio.to_thread(connect, self.redis)
        return client.aio.lock(*self._arguments())

    async def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock, by default as given to the constructor; return whether it is held.

        blocking          False tries once.
        blocking_timeout  Seconds to wait.
        token             The holder's name; an acquire with the same token still has to wait.

        Raises redis-py's ConnectionError and ResponseError. If the cause of a ConnectionError is
        LockUnknown, the lock may be held, unknown to any caller, until its lease ends.
        """
        seconds, owner = self._patience(blocking, blocking_timeout, token)
        with self._asking():
            try:
                self.local.hold = await (await self._lock()).hold(seconds, owner=owner)
            except holdfast.LockTimeout:
                return False
        return True

    async def release(self) -> None:
        """Release. Raises LockError if it is not held, LockNotOwnedError if it was lost."""
        hold = self._held("Cannot release a lock that's not owned or is already unlocked.")
        self.local.hold = None
        with self._asking("Cannot release a lock that's no longer owned"):
            await hold.release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Awaitable[Literal[True]]:
        """Make the lock last additional_time longer; with replace_ttl, additional_time from now."""
        hold = self._extensible("extend")
        return self._extend(hold, additional_time, bool(replace_ttl), "extend")

    def reacquire(self) -> Awaitable[Literal[True]]:
        """Make the lock last its whole timeout again, counted from now."""
        hold = self._extensible("reacquire")
        return self._extend(hold, self.timeout, True, "reacquire")

    async def _extend(
        self, hold: holdfast.AsyncHold, seconds: float | None, replace: bool, verb: str
    ) -> Literal[True]:
        with self._asking(f"Cannot {verb} a lock that's no longer owned"):
            await hold.extend(seconds, replace)
        return True

    async def locked(self) -> bool:
        """Ask the server whether the lock is held."""
        with self._asking():
            return await (await self._lock()).locked()

    async def owned(self) -> bool:
        """Ask the server whether this object (with thread_local: this thread) holds the lock."""
        hold = self._mine()
        try:
            if hold is not None:
                with self._asking():
                    await hold.check()
        except LockNotOwnedError:
            return False
        return hold is not None

    async def __aenter__(self) -> Self:
        """Acquire. Raises LockError if others kept the lock for the blocking_timeout."""
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

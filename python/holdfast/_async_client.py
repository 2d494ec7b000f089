"""The client for asyncio."""

from __future__ import annotations

import collections
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, final

from ._aio import AsyncLock
from ._gate import AsyncGate
from ._hold import Bound
from ._json import from_json
from ._leader import AsyncLeader
from ._look import RATE, Limit, LockInfo, Locks, Progress
from ._once import (
    RESULT_MAX,
    AsyncOutcome,
    Beginning,
    OnceTerms,
    agreed,
    for_looking,
    look,
    once_task,
)
from ._options import LockChanges, LockOptions, merged
from ._several import AsyncLocksAll

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Unpack

    from ._client import Client
    from ._leader import Elected, Ended

Result = TypeVar("Result")


@final
class AsyncClient(Bound):
    """A client for tasks, from Client.aio. It opens and closes with that Client."""

    __slots__ = ("_client",)

    def __init__(self, client: Client) -> None:
        """Only Client.aio makes this object."""
        self._client = client

    async def _ask(self, call: Callable[[], Result]) -> Result:
        return await self._client._notices_here().ask(call)

    def gate(
        self,
        name: str | bytes,
        limit: int | None = None,
        per: float | timedelta | None = None,
    ) -> AsyncGate:
        """Make an AsyncGate: at most `limit` passes in any `per` seconds, as Client.gate()."""
        return AsyncGate(self, name, limit, per)

    async def limit(
        self,
        name: str | bytes,
        *,
        permits: int | None = None,
        rate: tuple[int, float | timedelta] | None = None,
    ) -> Limit:
        """Store the number of a name's permits, as Client.limit()."""
        return await self._ask(lambda: self._client.limit(name, permits=permits, rate=rate))

    def lock(
        self,
        name: str | bytes,
        options: LockOptions | None = None,
        **changes: Unpack[LockChanges],
    ) -> AsyncLock:
        """Make an AsyncLock for a name. Sends nothing.

        Like Client.lock(), but the owner is the task, and the task's event loop calls on_lost.
        """
        chosen = merged(options, changes)
        lock = self._client.lock(name, chosen)
        lock._on_lost = None  # the event loop calls it
        return AsyncLock(lock, chosen.reentrant, chosen.on_lost)

    async def once(
        self,
        name: str | bytes,
        call: Callable[[], Awaitable[Result]],
        *,
        ttl: float | timedelta,
        args: object = None,
        options: LockOptions | None = None,
        **terms: Unpack[OnceTerms],
    ) -> Result:
        """Call a coroutine function once for all tasks and processes that want its result.

        As Client.once(). If the task that makes the call is cancelled, the next task makes it; with
        at_most_once the outcome is unknown.
        """
        made, chosen = agreed(name, ttl, args, options, terms)
        result: Result = await once_task(self.lock(name, chosen), made, call)
        return result

    def once_begin(
        self,
        name: str | bytes,
        *,
        ttl: float | timedelta,
        args: object = None,
        options: LockOptions | None = None,
        **terms: Unpack[OnceTerms],
    ) -> Beginning:
        """Get the turn to make a call, or the outcome of the call, as Client.once_begin().

        Await this, or better enter it with `async with`.
        """
        made, chosen = agreed(name, ttl, args, options, terms)
        return Beginning(self.lock(name, chosen), made)

    async def once_result(
        self,
        name: str | bytes,
        *,
        encode: Callable[[Any], bytes] | None = None,
        decode: Callable[[bytes], Any] = from_json,
        max_result: int = RESULT_MAX,
        options: LockOptions | None = None,
    ) -> AsyncOutcome | None:
        """Read the record of a call that is made once, in a thread of the client.

        As Client.once_result().
        """
        lock = self._client.lock(name, options)
        terms = for_looking(name, encode, decode, max_result)
        return await self._ask(lambda: look(lock, terms, AsyncOutcome))

    async def once_forget(self, name: str | bytes, *, force: bool = False) -> bool:
        """Forget a call, as Client.once_forget(), in a thread of the client."""
        return await self._ask(lambda: self._client.once_forget(name, force=force))

    def leader(
        self,
        name: str | bytes,
        elected: Elected,
        lost: Ended | None = None,
        resigned: Ended | None = None,
        margin: float | timedelta | None = None,
        options: LockOptions | None = None,
        **changes: Unpack[LockChanges],
    ) -> AsyncLeader:
        """Make a candidate for leadership, as Client.leader(); its callbacks may be coroutines."""
        chosen = merged(options, changes)
        return AsyncLeader(self._client, name, elected, lost, resigned, margin, chosen)

    def locks_all(
        self,
        *locks: str | bytes | AsyncLock,
        options: LockOptions | None = None,
        **changes: Unpack[LockChanges],
    ) -> AsyncLocksAll:
        """Make AsyncLocksAll for several locks, as Client.locks_all(). Sends nothing."""
        return AsyncLocksAll(locks, merged(options, changes), self)

    def locks(self, pattern: str | bytes = "*", *, rate: int | None = RATE) -> AsyncLocks:
        """Walk over all locks whose names match, as Client.locks(): use `async for`.

        Each step asks in a thread of the client.
        """
        return AsyncLocks(self._client.locks(pattern, rate=rate), self._ask)


@final
class AsyncLocks(Bound, AsyncIterator[LockInfo]):
    """A walk over all locks, from AsyncClient.locks(). Tasks may share it."""

    __slots__ = ("_ask", "_found", "_locks", "_step")

    def __init__(self, locks: Locks, ask: Callable[[Callable[[], bool]], Awaitable[bool]]) -> None:
        """Only AsyncClient.locks() makes this object."""
        self._locks = locks
        self._ask = ask
        self._step = threading.Lock()
        self._found: collections.deque[LockInfo] = collections.deque()

    def _find(self) -> bool:
        with self._step:
            found = self._locks._find()
            if found is not None:
                self._found.append(found)
            return found is not None

    async def __anext__(self) -> LockInfo:
        """Find the next lock. If this is cancelled, the next call returns the lock found."""
        while not self._found:  # or another task took the lock that this task's step found
            if not await self._ask(self._find) and not self._found:
                raise StopAsyncIteration
        return self._found.popleft()

    @property
    def progress(self) -> Progress:
        """The progress of the walk. Sends nothing."""
        return self._locks.progress

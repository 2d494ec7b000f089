"""Client.once_per(): a function that runs once in a period, in all processes together."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ._arguments import duration
from ._errors import LockTimeout
from ._locked import Parameters, Result, check, complete, namer, refuse_generators
from ._options import LockOptions

if TYPE_CHECKING:
    from ._aio import AsyncHold, AsyncLock
    from ._client import Client
    from ._hold import Hold
    from ._lock import Lock


def check_period(
    name: object, period: float | timedelta, decorator: str = "@client.once_per"
) -> float:
    """Check the decorator's arguments before any call; return the seconds."""
    check(name, None, decorator)
    return duration("period", period) / 1000


@contextlib.contextmanager
def turn(lock: Lock, period: float) -> Iterator[Hold]:
    """Hold the lock, and keep it for the rest of the period unless the block raises."""
    with lock.hold(0, at_least=period) as hold:
        try:
            yield hold
        except BaseException:
            hold._keep_at_least(0)  # the next caller has the turn
            raise


@contextlib.asynccontextmanager
async def aturn(lock: AsyncLock, period: float) -> AsyncIterator[AsyncHold]:
    """Do the same for a task."""
    async with lock.hold(0, at_least=period) as hold:
        try:
            yield hold
        except BaseException:
            hold._keep_at_least(0)
            raise


def once_per(
    client: Client,
    name: str,
    period: float,
    options: LockOptions,
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Any]:
    """Wrap the function in one that runs it unless it was run within the period."""
    named = namer(name, function)
    # The next call of this thread, or of this owner, is a separate run.
    options = dataclasses.replace(options, reentrant=False)
    if inspect.iscoroutinefunction(function):

        async def once_task(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            async with contextlib.AsyncExitStack() as block:
                try:
                    lock = client.aio.lock(named(args, kwargs), options)
                    await block.enter_async_context(aturn(lock, period))
                except LockTimeout:
                    return None
                return await function(*args, **kwargs)

        return functools.update_wrapper(once_task, function)
    refuse_generators(function)

    def once_call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
        with contextlib.ExitStack() as block:
            try:
                block.enter_context(turn(client.lock(named(args, kwargs), options), period))
            except LockTimeout:
                return None
            return complete(function, function(*args, **kwargs))

    return functools.update_wrapper(once_call, function)

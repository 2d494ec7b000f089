"""Client.once_per(): a function that runs once in a period, in all processes together."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ._arguments import duration
from ._errors import LockTimeout
from ._locked import Parameters, Result, check, namer, refuse_generators
from ._options import LockOptions

if TYPE_CHECKING:
    from ._client import Client


def check_period(name: object, period: float | timedelta) -> float:
    """Check the decorator's arguments before any call; give the seconds."""
    check(name, None, "once_per")
    return duration("period", period) / 1000


def once_per(
    client: Client,
    name: str,
    period: float,
    options: LockOptions,
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Any]:
    """Wrap the function in one that runs it if nobody has, for so long."""
    named = namer(name, function)
    # The next call of this thread, or of this owner, is another one.
    options = dataclasses.replace(options, reentrant=False)
    if inspect.iscoroutinefunction(function):

        async def once_task(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            try:
                lock = client.aio.lock(named(args, kwargs), options)
                hold = await lock.hold(0, at_least=period)
            except LockTimeout:
                return None
            async with hold:
                try:
                    return await function(*args, **kwargs)
                except BaseException:
                    hold._keep_at_least(0)  # the turn is the next one's
                    raise

        return functools.update_wrapper(once_task, function)
    refuse_generators(function)

    def once_call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
        try:
            hold = client.lock(named(args, kwargs), options).hold(0, at_least=period)
        except LockTimeout:
            return None
        with hold:
            try:
                return function(*args, **kwargs)
            except BaseException:
                hold._keep_at_least(0)  # the turn is the next one's
                raise

    return functools.update_wrapper(once_call, function)

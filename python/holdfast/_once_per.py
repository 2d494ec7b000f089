"""Client.once_per(): a function that runs once in a period, in all processes together."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ._arguments import duration
from ._errors import ConnectError, LockError, LockLost, LockTimeout, LockUnknown
from ._hold import excuse
from ._locked import Parameters, Result, check, namer, refuse_generators
from ._options import LockOptions

if TYPE_CHECKING:
    from ._client import Client

_TRIES = 3  # to keep the lock, if an answer is lost


def check_period(name: object, period: float | timedelta) -> float:
    """Check the decorator's arguments before any call; give the seconds."""
    check(name, None, "once_per")
    return duration("period", period) / 1000


class _Turn:
    """A call that may do the work."""

    def __init__(self, period: float, quiet: bool) -> None:
        self._ends = time.monotonic() + period
        self._quiet = quiet
        self._tries = _TRIES

    def left(self) -> float:
        """Give the rest of the period, counted from the start of the call."""
        return max(0.0, self._ends - time.monotonic())

    def again(self, failed: LockError) -> bool:
        """Say whether to try to keep the lock again; or raise why not."""
        if isinstance(failed, LockLost):
            excuse(failed, None, self._quiet)
            return False
        self._tries -= 1
        if self._tries == 0 or not isinstance(failed, LockUnknown | ConnectError):
            raise failed
        return True


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
    turn_of = functools.partial(_Turn, period, not options.raise_on_lost)
    if inspect.iscoroutinefunction(function):

        async def once_task(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            turn = turn_of()
            try:
                hold = await client.aio.lock(named(args, kwargs), options).hold(0)
            except LockTimeout:
                return None
            try:
                result = await function(*args, **kwargs)
            except BaseException as failed:
                await hold.__aexit__(type(failed), failed, None)  # the turn is the next one's
                raise
            while True:
                try:
                    await hold.keep(turn.left())
                    return result
                except LockError as failed:
                    if not turn.again(failed):
                        return result

        return functools.update_wrapper(once_task, function)
    refuse_generators(function)

    def once_call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
        turn = turn_of()
        try:
            hold = client.lock(named(args, kwargs), options).hold(0)
        except LockTimeout:
            return None
        try:
            result = function(*args, **kwargs)
        except BaseException as failed:
            hold.__exit__(type(failed), failed, None)  # the turn is the next one's
            raise
        while True:
            try:
                hold.keep(turn.left())
                return result
            except LockError as failed:
                if not turn.again(failed):
                    return result

    return functools.update_wrapper(once_call, function)

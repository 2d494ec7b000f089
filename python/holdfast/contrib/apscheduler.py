"""Jobs of APScheduler 3, on many hosts, each run on one of them.

    client = holdfast.connect("redis://localhost", lazy=True)

    @scheduler.scheduled_job("cron", hour=3)
    @holdfast.contrib.apscheduler.once_per(client, "nightly", 23 * 3600)
    def nightly(): ...

The other hosts wait for the outcome of the run: if it fails, or its host dies, the next host
runs the job. Client.once_per() does not wait.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import holdfast

from .. import _log
from .._locked import Parameters, Result, check, complete, namer, refuse_generators
from .._once_per import check_period
from .._options import LockChanges, merged
from ._jobs import arun, run

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["once_per"]


def once_per(
    client: holdfast.Client,
    name: str,
    period: float | timedelta,
    timeout: float | timedelta | None = None,
    options: holdfast.LockOptions | None = None,
    **changes: Unpack[LockChanges],
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Any]]:
    """Decorate a job, a function or a coroutine function, so that only one scheduler runs it.

    name     The lock's name; str.format() fills in the job's arguments, through holdfast.quote().
    period   Seconds, counted from the start of a run, during which no other call runs the job: a
             little less than the schedule's interval.
    timeout  Seconds to wait for another host's run; None or -1 waits until it ends.
    options  As for Client.lock(), but never reentrant.

    A call returns None if another call has done the work; it runs the job if that call failed, or
    twice the lease after its process died. Raises LockTimeout if the other call still runs after
    the timeout, and otherwise as Client.once_per(). A run also holds the lock NAME:run, for which
    the other calls wait.
    """
    check(name, timeout, "once_per")
    seconds = check_period(name, period, "once_per")
    chosen = merged(options, changes)

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Any]:
        named = namer(name, function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def job_task(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
                made = named(args, kwargs)
                async with arun(client, made, seconds, timeout, chosen) as hold:
                    return _left_out(made) if hold is None else await function(*args, **kwargs)

            return job_task
        refuse_generators(function)

        @functools.wraps(function)
        def job(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            made = named(args, kwargs)
            with run(client, made, seconds, timeout, chosen) as hold:
                if hold is None:
                    return _left_out(made)
                return complete(function, function(*args, **kwargs))

        return job

    return decorate


def _left_out(name: str) -> None:
    _log.info("%r is left out: its work is done", name)

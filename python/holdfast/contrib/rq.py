"""RQ jobs under a lock, or once in a period: `pip install holdfast-lock[rq]`.

    client = holdfast.connect("redis://localhost", lazy=True)

    @holdfast.contrib.rq.locked(client, "report:{report}")
    def rebuild(report):
        write(holdfast.contrib.rq.get_current_hold().fence)

The client may be made before RQ's worker forks: each job's process has its own connections. A job
that is tried again needs RQ's scheduler: `rq worker --with-scheduler`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

try:
    from rq import Retry, get_current_job
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.contrib.rq needs rq, which comes with holdfast-lock[rq]", name=missing.name
    ) from missing

import holdfast

from .. import _log
from .._arguments import whole
from .._locked import Parameters, Result, refuse_generators
from .._options import LockChanges, merged
from ._jobs import LATER, Section

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["get_current_hold", "locked"]

_current: ContextVar[holdfast.Hold | None] = ContextVar("_current", default=None)


def get_current_hold() -> holdfast.Hold:
    """Return the hold under which this job runs."""
    hold = _current.get()
    if hold is None:
        raise RuntimeError("no job runs under a lock here")
    return hold


def locked(
    client: holdfast.Client,
    name: str,
    timeout: float | timedelta | None = 0,
    options: holdfast.LockOptions | None = None,
    *,
    once_per: float | timedelta | None = None,
    interval: int = 5,
    max_retries: int = 720,
    **changes: Unpack[LockChanges],
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Any]]:
    """Decorate a job function, so that it runs under a lock, or once in a period.

    name         The lock's name; str.format() fills in the job's arguments, through
                 holdfast.quote().
    timeout      How many seconds the job waits for the lock, before it is tried again.
    options      As for Client.lock(). With permits, up to `permits` jobs run at once.
    once_per     Seconds, counted from the start of a run, during which no other job of that name
                 runs: it ends with the result None. A job that starts while another runs is tried
                 again, until the other has done its work or failed.
    interval     Whole seconds until a job that did not get the lock is tried again.
    max_retries  How often it is tried again, before RQ reports it as failed. These tries do not
                 count as retries of enqueue(retry=Retry(...)).

    With @job(...) of RQ, @job is the outer decorator. A call outside a worker is not tried again:
    it raises LockTimeout, or another exception of Lock.hold(). Coroutine functions work, too.
    """
    whole("interval", interval, 1, 2**31 - 1)
    whole("max_retries", max_retries, 1, 2**31 - 1)
    chosen = merged(options, changes)

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Any]:
        refuse_generators(function)
        section = Section("rq.locked", name, function, once_per, timeout, chosen)

        @functools.wraps(function)
        def job(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            with contextlib.ExitStack() as block:
                try:
                    hold = block.enter_context(section.entered(client, args, kwargs))
                except LATER as failed:
                    return _refused(section, function, failed, Retry(max_retries, interval))
                if hold is None:
                    _log.info("%s is left out: its work is done", function.__qualname__)
                    return None
                block.callback(_current.reset, _current.set(hold))
                result: Any = function(*args, **kwargs)
                if inspect.iscoroutine(result):
                    result = asyncio.run(result)  # RQ would run it after the release
                if isinstance(result, Retry):
                    hold._keep_at_least(0)  # the work of this period is not done
                return result

        return job

    return decorate


def _refused(
    section: Section, function: Callable[..., object], failed: holdfast.LockError, again: Retry
) -> Retry | None:
    """Return the result of a job that could not get the lock."""
    job = get_current_job()
    called = (job.func_name or "" if job else "").rpartition(".")[2]
    if job is None or called != function.__name__:
        raise failed  # RQ does not see the result of this call
    over = (job.number_of_retries or 0) >= again.max
    if over and section.period is not None and isinstance(failed, holdfast.LockTimeout):
        return None  # a job that runs for that long is alive: no other worker needs to take over
    _log.info("job %s is tried again: %s", job.id, failed)
    return again

"""The common part of the job queues: a job runs under its lock, or in its turn in a period."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from types import EllipsisType
from typing import Any

import holdfast

from .. import _holdfast
from .._arguments import duration, number
from .._locked import check, namer
from .._once_per import aturn, turn

Seconds = float | timedelta | None

_LONGEST = _holdfast.HF_LEASE_MAX / 1000

# Nothing was done, and a later try may succeed.
LATER = (
    holdfast.LockTimeout,
    holdfast.ConnectError,
    holdfast.AuthenticationError,
    holdfast.ServerError,
    holdfast.LockUnknown,
    holdfast.LockNotReplicated,
)


def alone(options: holdfast.LockOptions) -> holdfast.LockOptions:
    """Return the options with which every call is its own owner."""
    return dataclasses.replace(options, reentrant=False)


class Section:
    """The lock of a job function, or with once_per its turn."""

    def __init__(
        self,
        what: str,
        name: str,
        function: Callable[..., object],
        once_per: float | timedelta | None,
        timeout: Seconds,
        options: holdfast.LockOptions,
    ) -> None:
        """Check everything that can be checked before any call."""
        check(name, timeout, what)
        self.period = None if once_per is None else duration("once_per", once_per) / 1000
        self.options = options
        self._timeout = timeout
        self.named = namer(name, function)

    @contextlib.contextmanager
    def entered(
        self, client: holdfast.Client, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[holdfast.Hold | None]:
        """Hold the lock for a call with these arguments; None: the work of this period is done.

        Raises LockTimeout while another owner has the lock.
        """
        name = self.named(args, kwargs)
        if self.period is None:
            lock = client.lock(name, self.options)
            with (lock.shared() if self.options.permits else lock).hold(self._timeout) as hold:
                yield hold
        else:
            with run(client, name, self.period, self._timeout, self.options) as turn:
                yield turn


# A period's lock alone does not show whether it is kept, or held by a run, which may fail. So a run
# also holds the lock NAME:run, and each job takes that lock first: a job refused there waits or is
# tried again; a job refused only by the period's lock is done. A process that dies leaves NAME:run
# held for longer.


@contextlib.contextmanager
def run(
    client: holdfast.Client,
    name: str,
    period: float,
    timeout: Seconds,
    options: holdfast.LockOptions,
) -> Iterator[holdfast.Hold | None]:
    """Take the turn of this period, and keep it unless the block raises; None: it is done.

    timeout  How long to wait while another run is under way.
    """
    guard = client.lock(f"{name}:run", _guarding(options)).hold(timeout)
    try:
        with contextlib.ExitStack() as block:
            hold: holdfast.Hold | None = None
            try:
                hold = block.enter_context(turn(client.lock(name, alone(options)), period))
            except holdfast.LockTimeout:
                pass
            except holdfast.LockUnknown:
                with contextlib.suppress(holdfast.LockError):
                    guard.keep(_ghost(options))
                raise
            yield hold
    finally:
        with contextlib.suppress(holdfast.LockError):  # the lock ends with its lease
            guard.release()


@contextlib.asynccontextmanager
async def arun(
    client: holdfast.Client,
    name: str,
    period: float,
    timeout: Seconds,
    options: holdfast.LockOptions,
) -> AsyncIterator[holdfast.AsyncHold | None]:
    """Do the same for a task."""
    guard = await client.aio.lock(f"{name}:run", _guarding(options)).hold(timeout)
    try:
        async with contextlib.AsyncExitStack() as block:
            hold: holdfast.AsyncHold | None = None
            try:
                lock = client.aio.lock(name, alone(options))
                hold = await block.enter_async_context(aturn(lock, period))
            except holdfast.LockTimeout:
                pass
            except holdfast.LockUnknown:
                with contextlib.suppress(holdfast.LockError):
                    await guard.keep(_ghost(options))
                raise
            yield hold
    finally:
        with contextlib.suppress(holdfast.LockError):
            await guard.release()


def _ghost(options: holdfast.LockOptions) -> float:
    """Return how long a lock may be held, unknown to its holder: no work is done then."""
    return min(lease(options), _LONGEST)


def _guarding(options: holdfast.LockOptions) -> holdfast.LockOptions:
    """Return the options of NAME:run: twice the lease, of which a renewal may cost a third."""
    return dataclasses.replace(
        alone(options),
        lease=None if options.lease is None else min(2 * lease(options), _LONGEST),
        on_lost=None,
    )


def lease(options: holdfast.LockOptions) -> float:
    """Return the seconds until the lock of a dead process becomes free; infinite: never."""
    if isinstance(options.lease, EllipsisType):
        return _holdfast.HF_LEASE_DEFAULT / 1000
    return float("inf") if options.lease is None else number("lease", options.lease)

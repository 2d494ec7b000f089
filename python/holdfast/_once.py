"""Client.once(): a function that one caller calls, and whose result all others get."""

from __future__ import annotations

import functools
import inspect
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ._arguments import duration, patience
from ._errors import LockError
from ._hold import excuse
from ._lock import loose
from ._locked import Parameters, namer, refuse_generators

if TYPE_CHECKING:
    from . import _holdfast
    from ._aio import AsyncHold, AsyncLock
    from ._client import Client
    from ._hold import Hold
    from ._lock import Lock
    from ._options import LockOptions

Result = TypeVar("Result")

_log = logging.getLogger("holdfast")

_TTL_MIN = 10_000  # ms, as hf_once_finish()
_ADVICE = "once() keeps results as JSON; give it encode= and decode= for others"


# Not pickle: whoever may write to the server could run code in every process that reads a result.
def to_json(result: object) -> bytes:
    """Encode a result as JSON, which every language reads."""
    try:
        return json.dumps(result, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as failed:
        raise type(failed)(f"{failed}: {_ADVICE}") from failed


def from_json(result: bytes) -> Any:
    """Decode a result from JSON."""
    try:
        return json.loads(result)
    except ValueError as failed:
        raise ValueError(f"the result that was left is no JSON ({failed}): {_ADVICE}") from failed


class Terms(Generic[Result]):
    """How a result is waited for, and kept."""

    def __init__(
        self,
        name: str | bytes,
        ttl: float | timedelta,
        timeout: float | timedelta | None,
        encode: Callable[[Result], bytes],
        decode: Callable[[bytes], Result],
    ) -> None:
        """Check the arguments of once()."""
        self._name = name
        self._encode = encode
        self.decode = decode
        for what, given in (("encode", encode), ("decode", decode)):
            if not callable(given):
                raise TypeError(f"{what} must be a function, not {given!r}")
        self.milliseconds = patience(True, -1 if timeout is None else timeout)
        self.ttl = duration("ttl", ttl, least=_TTL_MIN)

    def made(self, result: Result) -> tuple[bytes, Result]:
        """Give the bytes of a result, and the result that everybody gets."""
        encoded = self._encode(result)
        if not isinstance(encoded, bytes):
            raise TypeError(f"encode must give bytes, not {type(encoded).__name__}")
        return encoded, self.decode(encoded)

    def warn(self, failed: LockError) -> None:
        """Tell that others will not have the result."""
        _log.warning("the result of once(%r) was not left for others: %s", self._name, failed)


def _check_call(call: object) -> None:
    if not callable(call):
        raise TypeError(f"call must be a function, not {call!r}")


def once(lock: Lock, terms: Terms[Result], call: Callable[[], Result]) -> Result:
    """Get the result of the function; call it if nobody has."""
    _check_call(call)
    if inspect.iscoroutinefunction(call):
        raise TypeError(f"{call!r} is a coroutine function: await client.aio.once() for it")
    got: list[_holdfast.Hold] = []
    hold: Hold | None = None
    try:
        found = lock._begin(terms.milliseconds, got)
        if found is not None:
            got.clear()  # it holds nothing
            return terms.decode(found)
        hold = lock._take(got[0], loose, None, None)
        encoded, result = terms.made(call())
        try:
            hold._leave(encoded, terms.ttl)
        except LockError as failed:
            terms.warn(failed)
        return result
    except BaseException as raised:
        _pass_on(lock, got, hold, raised)
        raise


def _pass_on(
    lock: Lock, got: list[_holdfast.Hold], hold: Hold | None, raised: BaseException
) -> None:
    """Give the turn to the next caller."""
    try:
        if hold is not None:
            if hold.state != "released":
                hold.release()
        elif got:
            lock._core.hf_hold_release(got[0])
    except LockError as failed:
        excuse(failed, raised, True)


async def once_task(
    lock: AsyncLock, terms: Terms[Result], call: Callable[[], Awaitable[Result]]
) -> Result:
    """Get the result of the coroutine function; call it if nobody has."""
    _check_call(call)
    begun = await lock._begin(terms.milliseconds)
    if isinstance(begun, bytes):
        return terms.decode(begun)
    try:
        encoded, result = terms.made(await call())
        try:
            await begun._leave(encoded, terms.ttl)
        except LockError as failed:
            terms.warn(failed)
        return result
    except BaseException as raised:
        await _pass_on_task(begun, raised)
        raise


async def _pass_on_task(hold: AsyncHold, raised: BaseException) -> None:
    try:
        if hold.state != "released":
            await hold.release()
    except LockError as failed:
        excuse(failed, raised, True)


def once_result(
    client: Client,
    name: str,
    terms: Terms[Any],
    options: LockOptions,
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Wrap the function in one that calls it once for all that want it."""
    named = namer(name, function)
    if inspect.iscoroutinefunction(function):

        async def once_awaited(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            lock = client.aio.lock(named(args, kwargs), options)
            return await once_task(lock, terms, lambda: function(*args, **kwargs))

        wrapped = functools.update_wrapper(once_awaited, function)
        return cast("Callable[Parameters, Result]", wrapped)
    refuse_generators(function)

    def once_called(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        lock = client.lock(named(args, kwargs), options)
        result: Result = once(lock, terms, lambda: function(*args, **kwargs))
        return result

    return functools.update_wrapper(once_called, function)

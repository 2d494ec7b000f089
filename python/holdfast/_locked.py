"""Client.locked(): a function that runs under a lock."""

from __future__ import annotations

import functools
import inspect
import string
from collections.abc import Callable
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, cast

if TYPE_CHECKING:
    from ._client import Client

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class LockOptions(TypedDict, total=False):
    """The options of Client.lock()."""

    lease: float | EllipsisType | None
    renew: bool | None
    reentrant: bool
    owner: str | bytes | None
    max_hold: float | None
    heal: bool
    replicas: int
    replica_timeout: float | None
    on_lost: Callable[[Any], object] | None
    raise_on_lost: bool


def locked(
    client: Client,
    name: str,
    timeout: float | None,
    options: LockOptions,
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Wrap the function in one that acquires, calls it, and releases."""
    named = _namer(name, function)
    if inspect.iscoroutinefunction(function):

        async def locked_task(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            async with client.aio.lock(named(args, kwargs), **options).hold(timeout):
                return await function(*args, **kwargs)

        return cast("Callable[Parameters, Result]", functools.update_wrapper(locked_task, function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function!r} is a generator: its body would run after the release")

    def locked_call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with client.lock(named(args, kwargs), **options).hold(timeout):
            return function(*args, **kwargs)

    return functools.update_wrapper(locked_call, function)


def _namer(
    name: str, function: Callable[..., object]
) -> Callable[[tuple[object, ...], dict[str, Any]], str]:
    """Make a function that gives the lock's name for the arguments of a call."""
    signature = inspect.signature(function)
    fields = {field for _, field, _, _ in string.Formatter().parse(name) if field is not None}
    wanted = {field.partition(".")[0].partition("[")[0] for field in fields}
    more = [each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD]
    if not more and not wanted <= set(signature.parameters):
        raise ValueError(f"{name!r} has a field that is no parameter of {function!r}{signature}")
    if not wanted:
        fixed = name.format()
        return lambda args, kwargs: fixed

    def named(args: tuple[object, ...], kwargs: dict[str, Any]) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        known = dict(bound.arguments)
        for each in more:
            known = {**known[each], **known}
        return name.format_map(known)

    return named

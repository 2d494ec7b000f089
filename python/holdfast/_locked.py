"""Client.locked(): a function that runs under a lock."""

from __future__ import annotations

import functools
import inspect
import re
import string
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ._arguments import flag, patience
from ._options import LockOptions

if TYPE_CHECKING:
    from ._client import Client

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# The characters with a meaning in a name, and the h of ":hf1:q", the end of a lock's own keys.
_SPECIAL = re.compile(r"[%{}]|(?<![^:])h(?=f[0-9]+(?::|\Z))")


def quote(text: str) -> str:
    r"""Make text that a user gave safe as a part of a lock's name.

        client.lock("report:" + holdfast.quote("a}b"))

    A name may not have a `}` without a {tag}, nor end like a lock's own keys, as in `:hf1:q`. This
    percent-encodes only the characters that could cause that; different texts stay different.
    """
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", text)


class _Formatter(string.Formatter):
    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        found = super().get_field(field_name, args, kwargs)
        if found[0] is None:
            raise ValueError(
                f"{field_name} is None: all calls without a value would share one lock"
            )
        return found

    def format_field(self, value: Any, format_spec: str) -> Any:
        return quote(super().format_field(value, format_spec))


_formatter = _Formatter()


def fields(name: str) -> set[str]:
    """Return the parameters that the fields of a name refer to."""
    try:
        wanted = {field for _, field, _, _ in _formatter.parse(name) if field is not None}
    except ValueError as wrong:
        raise ValueError(f"the name {name!r}: {wrong}") from None
    return {field.partition(".")[0].partition("[")[0] for field in wanted}


def filled(name: str, known: Mapping[str, object]) -> str:
    """Fill in the fields of a name, each through quote(). Raises ValueError for a None."""
    try:
        return _formatter.vformat(name, (), known)
    except ValueError as wrong:
        raise ValueError(f"the name {name!r}: {wrong}") from wrong


def locked(
    client: Client,
    name: str,
    timeout: float | timedelta | None,
    options: LockOptions,
    shared: bool,
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Wrap the function in one that acquires, calls it, and releases."""
    named = namer(name, function)
    if inspect.iscoroutinefunction(function):

        async def locked_task(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            lock = client.aio.lock(named(args, kwargs), options)
            async with (lock.shared() if shared else lock).hold(timeout):
                return await function(*args, **kwargs)

        return cast("Callable[Parameters, Result]", functools.update_wrapper(locked_task, function))
    refuse_generators(function)

    def locked_call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        lock = client.lock(named(args, kwargs), options)
        with (lock.shared() if shared else lock).hold(timeout):
            return complete(function, function(*args, **kwargs))

    return functools.update_wrapper(locked_call, function)


def refuse_generators(function: Callable[..., object]) -> None:
    """Refuse a function whose body would run later."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function!r} is a generator: its body would run after the release")


def complete(function: Callable[..., object], result: Result) -> Result:
    """Refuse a coroutine as a result: its body would run later."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            f"{function!r} gave a coroutine, whose body would run after the release: decorate the"
            " coroutine function itself"
        )
    return result


def check(
    name: object, timeout: float | timedelta | None, decorator: str = "@client.locked"
) -> None:
    """Check the decorator's arguments before any call."""
    if not isinstance(name, str):
        raise TypeError(
            f'{decorator} takes the lock\'s name, as in {decorator}("report"), not {name!r}'
        )
    if timeout is not None:
        patience(True, timeout)


def sharing(options: LockOptions, shared: bool | None) -> bool:
    """Return whether a decorator holds the lock shared(): by its argument, or if it has permits."""
    return bool(options.permits) if shared is None else flag("shared", shared)


def namer(
    name: str, function: Callable[..., object]
) -> Callable[[tuple[object, ...], dict[str, Any]], str]:
    """Make a function that returns the lock's name for the arguments of a call."""
    # A partial may be marked as a wrapper of the whole function, with more parameters.
    follow = not isinstance(function, functools.partial)
    signature = inspect.signature(function, follow_wrapped=follow)
    wanted = fields(name)
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
        return filled(name, known)

    return named

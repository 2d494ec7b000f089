"""Check Python's arguments and convert them for the core: bytes and whole milliseconds."""

from __future__ import annotations

import inspect
import math
import operator
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from . import _holdfast

Answer = TypeVar("Answer")


def encoded(what: str, text: str | bytes) -> bytes:
    """Return the bytes of a name or an owner; `str` is UTF-8 with surrogate escapes."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"{what} must be str or bytes, not {text!r}")


def noted(what: str, text: str) -> bytes:
    """Return the bytes of a note for people."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, not {text!r}")
    note = text.encode("utf-8", "surrogateescape")
    if len(note) > _holdfast.HF_NOTE_MAX:
        raise ValueError(f"{what} has {len(note)} bytes: at most {_holdfast.HF_NOTE_MAX}")
    return note


def number(what: str, seconds: float | timedelta) -> float:
    """Return seconds as a number."""
    if isinstance(seconds, timedelta):
        return seconds.total_seconds()
    if not hasattr(seconds, "__float__"):
        raise TypeError(f"{what} must be seconds, a number or a timedelta, not {seconds!r}")
    return seconds


def duration(
    what: str,
    seconds: float | timedelta,
    least: int = _holdfast.HF_LEASE_MIN,
    most: int = _holdfast.HF_LEASE_MAX,
) -> int:
    """Return a duration in milliseconds, between least and most."""
    given = number(what, seconds)
    if isinstance(seconds, bool):
        raise TypeError(f"{what} must be seconds, a number or a timedelta, not {seconds!r}")
    # The core cannot check this: 0 and -1 mean something else there.
    if not math.isfinite(given) or not least <= given * 1000 <= most:
        raise ValueError(
            f"{what} must be from {least / 1000} to {most // 1000} seconds, not {seconds!r}"
        )
    return round(given * 1000)


def extension(seconds: float | timedelta | None) -> int:
    """Return the milliseconds of an extend()."""
    return _holdfast.HF_NEVER if seconds is None else duration("seconds", seconds)


def patience(blocking: bool, timeout: float | timedelta) -> int:
    """Return the milliseconds that an RLock would wait; refuse the arguments that it refuses."""
    timeout = number("timeout", timeout)
    if blocking is not True or timeout != -1:
        # No thread holds this RLock, so it accepts all valid arguments, and words all errors.
        threading.RLock().acquire(blocking, timeout)
    if not blocking:
        return 0
    return _holdfast.HF_FOREVER if timeout == -1 else math.ceil(timeout * 1000)  # never early


def flag(what: str, value: bool) -> bool:
    """Refuse anything but True and False: the string "no" would be true."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {value!r}")
    return value


def whole(what: str, value: int, least: int, most: int) -> int:
    """Return a whole number between least and most."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {value!r}")
    given = operator.index(value)
    if not least <= given <= most:
        raise ValueError(f"{what} must be from {least} to {most}, not {value!r}")
    return given


def pair(what: str, like: str, value: object) -> None:
    """Refuse a value that is not a pair."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"{what} must be {like}, not {value!r}: (10, 60), for example")


def function(what: str, value: object, awaited: bool = False) -> None:
    """Refuse a value that cannot be called, unless it is None, or that would have to be awaited."""
    if value is not None and not callable(value):
        raise TypeError(f"{what} must be a function, not {value!r}")
    if not awaited and inspect.iscoroutinefunction(value):
        raise TypeError(f"{what} must be a plain function, not {value!r}, which nothing awaits")


def called(what: str, value: Callable[..., Answer], *given: object) -> Answer:
    """Call a plain function of the user, and refuse an answer that would have to be awaited."""
    made = value(*given)
    if inspect.isawaitable(made):
        if inspect.iscoroutine(made):
            made.close()
        raise TypeError(f"{what} must be a plain function: {value!r} gave {made!r}")
    return made


def wishes(
    timeout: float | timedelta | None,
    on_lost: object,
    raise_on_lost: bool | None,
    at_least: float | timedelta | None,
) -> tuple[int, bool | None, int]:
    """Check the arguments of a hold(); return milliseconds, quiet, and at_least in ms."""
    function("on_lost", on_lost)
    return (
        patience(True, -1 if timeout is None else timeout),
        None if raise_on_lost is None else not flag("raise_on_lost", raise_on_lost),
        0 if at_least is None else duration("at_least", at_least, least=0),
    )

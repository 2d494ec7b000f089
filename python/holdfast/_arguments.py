"""Convert Python's arguments for the core: bytes and whole milliseconds."""

from __future__ import annotations

import math
import threading

from . import _holdfast


def encoded(what: str, text: str | bytes) -> bytes:
    """Give the bytes of a name or an owner; `str` is UTF-8 with surrogate escapes."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"{what} must be str or bytes, not {type(text).__name__}")


def duration(
    what: str,
    seconds: float,
    least: int = _holdfast.HF_LEASE_MIN,
    most: int = _holdfast.HF_LEASE_MAX,
) -> int:
    """Give a duration in milliseconds, between least and most."""
    # The core cannot check this: 0 and -1 mean something else there.
    if not math.isfinite(seconds) or not least <= seconds * 1000 <= most:
        raise ValueError(
            f"{what} must be from {least / 1000} to {most // 1000} seconds, not {seconds!r}"
        )
    return round(seconds * 1000)


def patience(blocking: bool, timeout: float) -> int:
    """Give the milliseconds that an RLock would wait; refuse the arguments that it refuses."""
    if blocking is not True or timeout != -1:
        # Nobody holds this RLock, so it accepts every valid argument, and words all errors.
        threading.RLock().acquire(blocking, timeout)
    if not blocking:
        return 0
    return _holdfast.HF_FOREVER if timeout == -1 else math.ceil(timeout * 1000)  # never early

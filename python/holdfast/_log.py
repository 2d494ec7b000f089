"""The library's logger."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

_logger = logging.getLogger("holdfast")


def _quietly(log: Callable[..., None]) -> Callable[..., None]:
    """Make a function that logs, and raises nothing: the logged event, such as a loss, goes on."""

    def say(message: str, *about: object) -> None:
        # A filter or handler of the program may raise. No other place can report that.
        with contextlib.suppress(Exception):
            log(message, *about, stacklevel=2)

    return say


info = _quietly(_logger.info)
warning = _quietly(_logger.warning)
error = _quietly(_logger.error)
exception = _quietly(_logger.exception)

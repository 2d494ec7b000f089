"""The library's logger."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

_logger = logging.getLogger("holdfast")


def _quietly(log: Callable[..., None]) -> Callable[..., None]:
    """Make a function that logs and raises nothing: the event, such as a loss, must be handled."""

    def say(message: str, *about: object) -> None:
        # A filter or handler of the program may raise, which cannot be reported anywhere else.
        with contextlib.suppress(Exception):
            log(message, *about, stacklevel=2)

    return say


info = _quietly(_logger.info)
warning = _quietly(_logger.warning)
error = _quietly(_logger.error)
exception = _quietly(_logger.exception)

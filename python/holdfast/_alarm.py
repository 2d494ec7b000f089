"""The alarm: many acquires of one lock have timed out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from . import _log
from ._arguments import duration, pair, whole

Rule = tuple[int, "float | timedelta"]
"""How many timeouts, and within how many seconds."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Many acquires of one lock have timed out: its holder may be stuck."""

    name: str
    """The lock's name, UTF-8 with surrogate escapes."""
    timeouts: int
    """How many acquires of this client timed out within the window."""
    message: str
    """The same in words, with the last holder of the lock, if the server named it."""


def native(rule: Rule) -> tuple[int, int]:
    """Check a rule; return its timeouts and milliseconds."""
    pair("alarm", "(timeouts, seconds)", rule)
    timeouts = whole("the timeouts of alarm", rule[0], 1, 2**31 - 1)
    return timeouts, duration("the window of alarm", rule[1], least=1)


def teller(on_alarm: Callable[[Alarm], object] | None) -> Callable[[Alarm], None]:
    """Make the function that handles each alarm: it logs, and then calls the user's function."""

    def tell(alarm: Alarm) -> None:
        _log.warning("%s", alarm.message)
        try:
            if on_alarm is not None:
                on_alarm(alarm)
        except Exception:
            _log.exception("on_alarm failed for lock %r", alarm.name)

    return tell

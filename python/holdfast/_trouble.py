"""Trouble: renewals fail, work again, or go to another server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from . import _holdfast, _log


@dataclass(frozen=True, slots=True)
class Trouble:
    """Holds of a client may soon be lost, or are safe again; or another server has taken over."""

    kind: Literal["at_risk", "over", "failover"]
    """at_risk: renewals begin to fail. over: they work again. failover: another server is asked;
    with several masters, a minority stops renewing while the others keep the holds, or all renew
    again."""
    holds: int
    """The number of holds that are at risk, or at another server now; 0 if it is over."""
    ends_in: float | None
    """If at_risk: the seconds until the first of them ends; otherwise None."""
    message: str
    """The same in words, with the reason."""


def troubler(
    on_trouble: Callable[[Trouble], object] | None,
) -> Callable[[Trouble], None]:
    """Make the function that handles each trouble: it calls the user's function."""

    def tell(trouble: Trouble) -> None:
        try:
            if on_trouble is not None:
                on_trouble(trouble)
        except Exception:
            _log.exception("on_trouble failed")

    return tell


def told(kind: int, status: int, holds: int, left_ms: int, message: str) -> Trouble:
    """Make a Trouble from a completion, and log it."""
    _log.warning("%s", message)
    if kind == _holdfast.HF_KIND_FAILOVER:
        return Trouble("failover", holds, None, message)
    if status == _holdfast.HF_OK:
        return Trouble("over", holds, None, message)
    return Trouble("at_risk", holds, left_ms / 1000, message)

"""What a client has done, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from . import _holdfast, _native


@dataclass(frozen=True, slots=True)
class Stats:
    """What a client has done since it was opened, and does now."""

    held: int
    """Holds that may still be on the server, now."""
    waiting: int
    """Acquires in a queue, now."""
    acquired: int
    """Acquires that got the lock."""
    waited: int
    """Those of them that waited in a queue."""
    waited_seconds: float
    """How long these waited, all together."""
    refused: int
    """Acquires that did not get it: busy, timed out, cancelled."""
    unknown: int
    """Acquires whose answer was lost."""
    released: int
    """Holds released by a call."""
    lost: int
    """Holds lost before."""
    renewed: int
    """Renewals in the background."""


def stats(client: _holdfast.Client) -> Stats:
    """Ask the core, which asks nobody."""
    told = _native.hf_stats()
    _holdfast.hf_client_stats(client, told.this)
    return Stats(
        told.held,
        told.waiting,
        told.acquired,
        told.waited,
        told.waited_us / 1e6,
        told.refused,
        told.unknown,
        told.released,
        told.lost,
        told.renewed,
    )

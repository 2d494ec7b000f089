"""A client's counts."""

from __future__ import annotations

from dataclasses import dataclass

from . import _holdfast, _native


@dataclass(frozen=True, slots=True)
class Stats:
    """A client's counts, since it was opened unless they say "now"."""

    held: int
    """Holds that may still be on the server, now."""
    waiting: int
    """Acquires in a queue, now."""
    acquired: int
    """Acquires that got the lock."""
    waited: int
    """Acquires that got the lock after they waited in a queue."""
    waited_seconds: float
    """The sum of these waits."""
    refused: int
    """Acquires that did not get the lock: busy, timed out, cancelled."""
    unknown: int
    """Acquires whose answer was lost."""
    released: int
    """Holds that a call released."""
    lost: int
    """Holds that were lost before that."""
    renewed: int
    """Renewals in the background."""


def stats(core: _holdfast.Core, client: _holdfast.Client) -> Stats:
    """Read the counts from the core. Sends nothing."""
    told = _native.hf_stats()
    core.hf_client_stats(client, told)
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

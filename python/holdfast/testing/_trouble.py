"""Trouble on request, from a seed: faults that the holder of a lock can meet."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, get_args

from .. import _holdfast
from .._aio import AsyncLock
from .._client import Client
from .._errors import LockError, LockUnknown
from .._lock import Lock, give_back
from .._several import LocksAll
from ._memory import MemoryClient
from ._redis import tell

Kind = Literal["lost", "stolen", "unknown", "late", "outage"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_OUTAGE = 1.0  # seconds
_SOON = 0.05  # seconds: the longest time until a hold is lost, or for which a grant is late


class Struck(NamedTuple):
    """One trouble that was made."""

    kind: Kind
    """Its kind."""
    name: str | bytes
    """The lock's name."""
    fence: int
    """The fence of the hold that it struck; 0: it struck no hold."""


class Trouble:
    """The result of trouble(): `made` lists the trouble that was made, in order."""

    def __init__(
        self,
        client: Client,
        seed: int,
        chance: float,
        kinds: Iterable[Kind],
        on_stolen: Callable[[str | bytes, int], object] | None,
    ) -> None:
        """Only trouble() makes this object."""
        self.kinds = tuple(kinds)
        if not self.kinds or not set(self.kinds) <= set(KINDS):
            raise ValueError(f"kinds must be some of {', '.join(KINDS)}, not {kinds!r}")
        if not 0 <= chance <= 1:
            raise ValueError(f"chance must be from 0 to 1, not {chance!r}")
        self.seed = seed
        self.made: list[Struck] = []
        self._client = client
        self._chance = chance
        self._on_stolen = on_stolen
        self._random = random.Random(seed)
        self._mutex = threading.Lock()
        self._works: list[threading.Timer] = []

    def _draw(self) -> tuple[Kind | None, float]:
        with self._mutex:
            strikes = self._random.random() < self._chance
            kind, part = self._random.choice(self.kinds), self._random.random()
        return kind if strikes else None, part * _SOON

    def _soon(self, seconds: float, work: Callable[[], object]) -> None:
        def safely() -> None:
            with contextlib.suppress(LockError):  # the hold has ended already
                work()

        timer = threading.Timer(seconds, safely)
        timer.daemon = True
        self._works.append(timer)
        timer.start()

    def _before(self, lock: Lock, kind: Kind | None) -> None:
        if kind != "outage":
            return
        self.made.append(Struck(kind, lock.name, 0))
        if isinstance(self._client, MemoryClient):
            self._client.server.stop()
            self._soon(_OUTAGE, self._client.server.start)
        else:
            tell(self._client._url, f"CLIENT PAUSE {int(_OUTAGE * 1000)} ALL")

    def _after(self, lock: Lock, kind: Kind | None, wait: float, handle: _holdfast.Hold) -> float:
        """Strike the hold; return the seconds that its caller must wait, or raise."""
        core = lock._core
        if kind in (None, "outage") or core.hf_hold_result(handle) is not None:
            return 0.0
        assert kind is not None
        fence = core.hf_hold_fence(handle)
        self.made.append(Struck(kind, lock.name, fence))
        if kind == "late":
            return wait
        if kind == "unknown":
            self._soon(wait, lambda: core.hf_hold_release(handle))  # as if its lease ended
            raise LockUnknown(f"the answer was lost: trouble of the seed {self.seed}")
        self._soon(wait, lambda: self._take(lock, fence, handle, kind == "stolen"))
        return 0.0

    def _take(self, lock: Lock, fence: int, handle: _holdfast.Hold, stolen: bool) -> None:
        other = self._client.lock(lock.name, owner="trouble", reentrant=False)
        other.force_release(fence)
        try:
            if stolen:  # a paused holder has not noticed yet
                with other.hold(_SOON) as hold:
                    if self._on_stolen is not None:
                        self._on_stolen(lock.name, hold.fence)
        finally:
            lock._core.hf_hold_check(handle)  # now it notices

    def _wait(self) -> None:
        for each in self._works:
            each.join()

    def __repr__(self) -> str:
        """Show the seed, which makes the same trouble again, and the trouble that was made."""
        return f"<holdfast.testing.Trouble seed={self.seed} made={self.made}>"


@contextlib.contextmanager
def trouble(
    client: Client,
    seed: int,
    *,
    chance: float = 0.3,
    kinds: Iterable[Kind] = KINDS,
    on_stolen: Callable[[str | bytes, int], object] | None = None,
) -> Iterator[Trouble]:
    """Make trouble for the acquires of a client, for as long as the block runs.

        for seed in range(100):
            with holdfast.testing.trouble(client, seed) as made:
                sell(client)

    client     A MemoryClient, or a client of redis_server(); its locks, and those of its tasks.
    seed       The same seed makes the same choices.
    chance     The share of the acquires that meet trouble, from 0 to 1.
    kinds      "lost": the lock is taken away a moment after the acquire. "stolen": then another
               holder also has it for a moment, with a greater fence. "unknown": the acquire raises
               LockUnknown, and the lock stays held for a moment. "late": the acquire returns late.
               "outage": the server does not answer for a second, from just before the acquire.
    on_stolen  Called with the lock's name and the greater fence while the other holder has it: let
               it write to the resource.

    The end of the block waits for the end of the trouble.
    """
    made = Trouble(client, seed, chance, kinds, on_stolen)

    def troubled(ask: Any) -> Any:
        def asks(asker: Lock | LocksAll, who: Any, waits: int, how: Any, got: list[Any]) -> None:
            lock = asker if isinstance(asker, Lock) else asker._locks[-1]
            if lock._client is not client or who == b"trouble" or lock.owner == "trouble":
                ask(asker, who, waits, how, got)
                return
            kind, wait = made._draw()
            made._before(lock, kind)
            ask(asker, who, waits, how, got)
            try:
                time.sleep(made._after(lock, kind, wait, got[-1]))
            except LockUnknown:
                got.pop()
                raise

        return asks

    def troubled_task(won: Any) -> Any:
        async def wins(asker: AsyncLock, locks: list[Lock], *how: Any) -> Any:
            lock = locks[-1]
            if lock._client is not client:
                return await won(asker, locks, *how)
            kind, wait = made._draw()
            await asyncio.to_thread(made._before, lock, kind)
            got = await won(asker, locks, *how)
            try:
                await asyncio.sleep(made._after(lock, kind, wait, got[-1]))
            except LockUnknown:
                await asyncio.to_thread(give_back, lock._core, got[:-1])
                raise
            return got

        return wins

    with (
        _patched(Lock, "_ask", troubled),
        _patched(LocksAll, "_ask", troubled),
        _patched(AsyncLock, "_won", troubled_task),
    ):
        try:
            yield made
        finally:
            made._wait()


@contextlib.contextmanager
def _patched(kind: type, name: str, around: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(kind, name)
    setattr(kind, name, around(before))
    try:
        yield
    finally:
        setattr(kind, name, before)

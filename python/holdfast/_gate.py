"""Gates: a number of passes in any period of some seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, final

from . import _holdfast
from ._arguments import duration, patience, whole
from ._errors import LimitDiffers, LockError, LockTimeout
from ._hold import BaseHold, Bound
from ._lock import Lock, loose
from ._look import LockInfo
from ._options import STORED, LockOptions

if TYPE_CHECKING:
    from ._async_client import AsyncClient
    from ._client import Client


class GateFull(LockTimeout):
    """All passes of a gate are spent. The caller has not passed, and nothing is left behind."""

    retry_after: float = 0.0
    """Seconds until the next pass is free, if no other caller takes it."""


def _milliseconds(timeout: float | timedelta | None) -> int:
    return patience(True, -1 if timeout is None else timeout)


class BaseGate(Bound):
    """A pass is a shared hold that is not given back: it ends with its lease, which is `per`.

    Each pass is its own owner, so that no pass nests in another for free.
    """

    __slots__ = ("limit", "name", "per")

    def __init__(self, name: str | bytes, limit: int | None, per: float | timedelta | None) -> None:
        """Only clients make gates."""
        self.name = name
        if limit is None or per is None:
            if limit is not per:
                raise TypeError("a gate takes both limit and per, or neither: the stored rate")
            self.limit: int | None = None
            self.per: float | None = None
        else:
            self.limit = whole("limit", limit, 1, _holdfast.HF_PERMITS_MAX)
            self.per = duration("per", per) / 1000

    def _options(self) -> LockOptions:
        lease = STORED if self.per is None else self.per
        return LockOptions(lease=lease, renew=False, reentrant=False, permits=self.limit)

    def _rate(self, info: LockInfo) -> tuple[int, float]:
        if self.limit is not None and self.per is not None:
            return self.limit, self.per
        if not isinstance(info.limit, tuple):
            raise LimitDiffers(f"no rate is stored with gate {self.name!r}")
        return info.limit

    def _free_in(self, info: LockInfo, weight: int) -> float:
        """Return the seconds until enough passes end."""
        limit, per = self._rate(info)
        if not info.held:
            return 0.0
        left = info.holders[0].remaining if info.holders else info.remaining  # or it is foreign
        if info.shared:
            extra = sum(holder.weight - holder.count for holder in info.holders)
            free, left = limit - info.count - extra, 0.0
            for holder in info.holders:
                if free >= weight:
                    break
                free, left = free + holder.weight, holder.remaining
        if left == 0:
            return 0.0
        # A millisecond more: the server's ends are in whole milliseconds.
        return per if left is None else left + 0.001

    def _full(
        self, lock: Lock, timeout: float | timedelta | None, info: LockInfo, weight: int
    ) -> GateFull:
        limit, per = self._rate(info)
        wait = self._free_in(info, weight)
        soon = f"in {wait:.3f} s" if wait else "now: try again"
        what = "the next pass" if weight == 1 else f"a pass of {weight}"
        full = GateFull(
            f"gate {self.name!r} has let pass {limit} in {per:g} s: {what} may be free {soon}"
        )
        full.retry_after = wait
        lock._waited(full, _milliseconds(timeout))
        return full

    @contextlib.contextmanager
    def _taking(self, hold: BaseHold) -> Iterator[None]:
        """Turn the hold into a pass; give it back if this fails: the caller has not passed."""
        hold._loose = False  # it will be dropped
        try:
            yield  # the caller renews it: after a wait a hold does not have its whole lease yet
            # For no process to adopt: the hold ends with its lease, and no close() releases it.
            hold._core.hf_hold_hand_over(hold._handle)
        except BaseException:
            with contextlib.suppress(LockError):
                hold._notices().release_later(hold._handle, f"gate {self.name!r}")
            raise

    def __repr__(self) -> str:
        """Show the limit. Sends nothing."""
        rate = "" if self.per is None else f" limit={self.limit} per={self.per:g}"
        return f"<holdfast.{type(self).__name__} object name={self.name!r}{rate} at {id(self):#x}>"


@final
class Gate(BaseGate):
    """Lets pass at most `limit` in any `per` seconds, on all hosts together.

    Without both it follows the rate that Client.limit() has stored, and raises LimitDiffers if
    there is none.

        geocoder = client.gate("geocoder", limit=10, per=60)
        try:
            geocoder.enter()
        except holdfast.GateFull as full:
            answer(429, {"Retry-After": math.ceil(full.retry_after)})

    A pass counts from the moment when the server grants it, and cannot be given back, not even by
    the end of the caller or by close(). Any thread may call every method.
    """

    __slots__ = ("_lock",)

    def __init__(
        self,
        client: Client,
        name: str | bytes,
        limit: int | None,
        per: float | timedelta | None,
    ) -> None:
        """Only Client.gate() makes this object."""
        super().__init__(name, limit, per)
        self._lock = client.lock(name, self._options()).shared()

    def enter(self, timeout: float | timedelta | None = 0, *, weight: int = 1) -> None:
        """Pass, or raise GateFull. One round trip; one more if it is full or after a wait.

        timeout  Seconds to wait for a pass, in one queue with all other callers; None or -1
                 waits without limit.
        weight   How many passes the call takes: 1, or up to the limit. No call overtakes a heavier
                 call that waits.

        Raises LockUnknown if the answer was lost, and ConnectError or another LockError if the
        server was not reached or refused: do not go on as if you had passed. The server may count a
        pass that no caller took until it is known to be undone.
        """
        if not self.try_enter(timeout, weight=weight):
            raise self._full(self._lock, timeout, self._lock.inspect(), weight)

    def try_enter(self, timeout: float | timedelta | None = 0, *, weight: int = 1) -> bool:
        """Pass, and return whether it did. One round trip; raises as enter(), but not GateFull.

        timeout, weight  As for enter().
        """
        milliseconds = _milliseconds(timeout)
        try:
            hold = self._lock.shared(weight)._acquire(milliseconds, None, loose)
        except LockTimeout:
            return False
        with self._taking(hold):
            if milliseconds:
                hold.renew()
        return True

    def free_in(self, *, weight: int = 1) -> float:
        """Return in how many seconds a pass may be free; 0: now. One round trip; takes no pass."""
        return self._free_in(self._lock.inspect(), weight)


@final
class AsyncGate(BaseGate):
    """A Gate for tasks; AsyncClient.gate() makes it."""

    __slots__ = ("_lock",)

    def __init__(
        self,
        client: AsyncClient,
        name: str | bytes,
        limit: int | None,
        per: float | timedelta | None,
    ) -> None:
        """Only AsyncClient.gate() makes this object."""
        super().__init__(name, limit, per)
        self._lock = client.lock(name, self._options()).shared()

    async def enter(self, timeout: float | timedelta | None = 0, *, weight: int = 1) -> None:
        """Pass, or raise GateFull, as Gate.enter(). A cancelled wait has not passed."""
        if not await self.try_enter(timeout, weight=weight):
            raise self._full(self._lock._lock, timeout, await self._lock.inspect(), weight)

    async def try_enter(self, timeout: float | timedelta | None = 0, *, weight: int = 1) -> bool:
        """Pass, and return whether it did, as Gate.try_enter()."""
        milliseconds = _milliseconds(timeout)
        try:
            hold = await self._lock.shared(weight)._acquire(milliseconds, None, loose)
        except LockTimeout:
            return False
        with self._taking(hold):
            if milliseconds:
                await hold.renew()
        return True

    async def free_in(self, *, weight: int = 1) -> float:
        """Return in how many seconds a pass may be free, as Gate.free_in()."""
        return self._free_in(await self._lock.inspect(), weight)

"""Holds: what one gets from acquiring a lock."""

from __future__ import annotations

import logging
import warnings
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, final

from . import _holdfast
from ._arguments import duration
from ._errors import LockError, LockLost

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._lock import Lock
    from ._notices import Notices

AnyHold = TypeVar("AnyHold", bound="BaseHold")

_log = logging.getLogger("holdfast")

_STATES = {
    _holdfast.HF_HELD: "held",
    _holdfast.HF_LOST: "lost",
    _holdfast.HF_RELEASED: "released",
}
_CAUSES = {
    _holdfast.HF_CAUSE_NONE: None,
    _holdfast.HF_CAUSE_EXPIRED: "expired",
    _holdfast.HF_CAUSE_UNREACHABLE: "unreachable",
    _holdfast.HF_CAUSE_GONE: "gone",
}


def seconds(milliseconds: int) -> float | None:
    """Give the core's milliseconds as seconds; None is never."""
    return None if milliseconds == _holdfast.HF_NEVER else milliseconds / 1000


def excuse(failed: LockError, raised: BaseException | None, quiet: bool) -> None:
    """Leave a `with` block: what the body raised is not hidden by what the release raises."""
    if raised is None:
        if not (quiet and isinstance(failed, LockLost)):
            raise failed
        _log.warning("%s", failed)
    elif hasattr(raised, "add_note"):  # since Python 3.11
        raised.add_note(f"Leaving the lock failed too: {type(failed).__name__}: {failed}")


class BaseHold:
    """What every hold tells, without asking anybody."""

    __slots__ = ("__weakref__", "_handle", "_lock", "_loose", "_quiet")

    def __init__(self, lock: Lock, handle: _holdfast.Hold, loose: bool, quiet: bool) -> None:
        """Only locks make holds."""
        self._lock = lock  # which keeps the client open
        self._handle = handle
        self._loose = loose
        self._quiet = quiet

    @property
    def fence(self) -> int:
        """The fencing token: larger than that of every hold of this name before it.

        Nested holds of one owner have the same. Give it to the resource and let it refuse
        smaller ones: this protects when all else fails.
        """
        return _holdfast.hf_hold_fence(self._handle)

    @property
    def remaining(self) -> float | None:
        """For how many seconds the hold is certain to last; None: without end; 0: it is over."""
        return seconds(_holdfast.hf_hold_remaining_ms(self._handle))

    @property
    def state(self) -> str:
        """Any of "held", "lost" and "released", as far as this process knows. Asks nobody."""
        return _STATES[_holdfast.hf_hold_state(self._handle)]

    @property
    def valid(self) -> bool:
        """Is it still held, as far as this process knows? Asks nobody."""
        return _holdfast.hf_hold_state(self._handle) == _holdfast.HF_HELD

    def _notices(self) -> Notices:
        return self._lock._client._notices_here()

    def _watch(self, lost: Callable[[Self], object]) -> None:
        """Have it called once if the hold is lost, by whichever thread is told first."""
        notices = self._notices()
        number = _holdfast.hf_hold_number(self._handle)
        # One in the caller's hands may be dropped, which ends it.
        refer: Callable[[], Self | None] = weakref.ref(self) if self._loose else lambda: self

        def stands() -> bool:
            hold = refer()
            return hold is not None and hold.valid

        def tell() -> None:
            hold = refer()
            if hold is not None:
                _log.warning("%r: %s", hold, _CAUSES[_holdfast.hf_hold_cause(hold._handle)])
                lost(hold)

        notices.watch(number, stands, tell)
        if not self.valid and notices.unwatch(number):  # by now
            tell()

    def _unwatch(self) -> None:
        self._lock._client._forget(_holdfast.hf_hold_number(self._handle))

    def __del__(self) -> None:
        """Warn. To release could end a section that is still running."""
        if self._loose and self.valid:
            what = f"{self!r} was dropped without release(); it ends with its lease"
            _log.warning("%s", what)
            warnings.warn(what, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        """Say the state and the fence. Asks nobody."""
        return (
            f"<{self.state} holdfast.{type(self).__name__} object name={self._lock.name!r}"
            f" fence={self.fence} at {id(self):#x}>"
        )


class BaseLost:
    """Whether a hold was lost, and why."""

    __slots__ = ("_hold",)

    def __init__(self, hold: BaseHold) -> None:
        """Only holds make it."""
        self._hold = hold

    def is_set(self) -> bool:
        """Say whether the hold was lost, as far as this process knows. Asks nobody.

        Of a hold that never ends, or is renewed, this is known by the deadline of its lease; one
        that was broken or deleted is found out by the next renewal or check.
        """
        handle = self._hold._handle
        return (
            _holdfast.hf_hold_cause(handle) != _holdfast.HF_CAUSE_NONE
            or _holdfast.hf_hold_state(handle) == _holdfast.HF_LOST
        )

    @property
    def cause(self) -> str | None:
        """Why it was lost; None if it was not.

        "expired": its lease ended, and it was not, or no longer, to be renewed.
        "unreachable": it could not be renewed before its lease ended.
        "gone": the server does not know it any more: broken, deleted, evicted, flushed.
        """
        return _CAUSES[_holdfast.hf_hold_cause(self._hold._handle)]

    def __repr__(self) -> str:
        """Say the cause."""
        return f"<holdfast.{type(self).__name__} cause={self.cause!r} of {self._hold!r}>"


@final
class Lost(BaseLost):
    """Whether a hold was lost, and why; to be asked and waited for as a threading.Event is."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the hold is lost, for so many seconds at most; say whether it was.

        Answers False at once when the hold is released or its client closed. The first wait of
        a client starts its one Python thread, which ends when the client is closed.
        """
        hold = self._hold
        if hold.valid:
            hold._notices().wait(lambda: not hold.valid, timeout)
        return self.is_set()


@final
class Hold(BaseHold):
    """One successful acquire.

    Every method may be called from any thread. A context manager, which releases:

        with lock.hold(timeout=5) as hold:
            write(hold.fence)

    A hold that is dropped is not released: it ends with its lease. Those from Lock.hold() then
    warn, with ResourceWarning.
    """

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """Was it lost? Like a threading.Event, with a `cause`."""
        return Lost(self)

    def release(self) -> None:
        """Release the hold. One round trip.

        Raises LockNotOwnedError if it was released before, LockLost if it was lost before,
        LockUnknown if the answer was lost, ConnectError and its like if the server was not
        reached; in all of these it ends with its lease at the latest.
        """
        self._unwatch()
        try:
            _holdfast.hf_hold_release(self._handle)
        finally:
            self._lock._client._look()

    def renew(self) -> None:
        """Make the hold last its lease again, counted from now. One round trip.

        Raises LockNotOwnedError if it was released, LockLost if it is lost; after any other
        LockError it lasts at least as long as before.
        """
        _holdfast.hf_hold_renew(self._handle)

    def extend(self, seconds: float | None, replace: bool = False) -> None:
        """Make the hold last so many seconds longer than it would have. One round trip.

        With replace: exactly so many seconds from now, which may be shorter; later renewals
        keep to it, and None is without end. Raises ValueError for a duration that cannot be,
        and all that renew() raises.
        """
        lasting = _holdfast.HF_NEVER if seconds is None else duration("seconds", seconds)
        _holdfast.hf_hold_extend(self._handle, lasting, bool(replace))

    def hand_over(self) -> bytes:
        """Give the token with which another process goes on holding it: Lock.adopt().

        It ends here, without being released: from now on its lease runs, and the other has to
        adopt it before that ends. Whoever has the token can release the lock. Raises
        LockNotOwnedError or LockLost if it is not held; LockUnknown, and it is as before, if it is
        just being made shorter, or the answer to that was lost once.
        """
        token = _holdfast.hf_hold_hand_over(self._handle)
        self._unwatch()
        return token

    def check(self) -> None:
        """Ask the server whether the hold still stands. One round trip; raises as renew()."""
        _holdfast.hf_hold_check(self._handle)

    def __enter__(self) -> Hold:
        """Give the hold itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release it, unless the body did. Raises LockLost if it was lost."""
        if self.state != "released":
            try:
                self.release()
            except LockError as failed:
                excuse(failed, raised, self._quiet)

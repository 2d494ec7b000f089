"""Holds, the results of acquires."""

from __future__ import annotations

import contextlib
import math
import warnings
import weakref
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar, final

from . import _holdfast, _log
from ._arguments import duration, extension, flag, number
from ._errors import CAUSES, Cause, ClosedError, LockError, LockLost, LockNotOwnedError

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._lock import Lock
    from ._notices import Notices

AnyHold = TypeVar("AnyHold", bound="BaseHold")


State = Literal["held", "lost", "released"]

_STATES: dict[int, State] = {
    _holdfast.HF_STATE_HELD: "held",
    _holdfast.HF_STATE_LOST: "lost",
    _holdfast.HF_STATE_RELEASED: "released",
}


def seconds(milliseconds: int) -> float | None:
    """Convert the core's milliseconds to seconds; None is never."""
    return None if milliseconds == _holdfast.HF_NEVER else milliseconds / 1000


def excuse(failed: LockError | MemoryError, raised: BaseException | None, quiet: bool) -> None:
    """Leave a `with` block: the exception of the release does not hide that of the body."""
    if raised is None and not (quiet and isinstance(failed, LockLost)):
        raise failed
    _log.warning("%s", str(failed) or type(failed).__name__)
    if raised is not None and hasattr(raised, "add_note"):  # since Python 3.11
        raised.add_note(f"The release failed, too: {type(failed).__name__}: {failed}")


class Bound:
    """An object that belongs to its process and cannot be copied."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """Refuse copies and pickles: two objects would close or release the same thing."""
        raise TypeError(
            "clients, locks and holds cannot be copied or pickled: send the URL and the name,"
            " and connect there"
        )


class BaseHold(Bound):
    """The properties that every hold has. They send nothing."""

    __slots__ = (
        "__weakref__",
        "_block",
        "_core",
        "_entered",
        "_handle",
        "_left",
        "_lock",
        "_loose",
        "_quiet",
    )

    def __init__(self, lock: Lock, handle: _holdfast.Hold, loose: bool, quiet: bool) -> None:
        """Only locks make holds."""
        self._lock = lock  # keeps the client open
        self._core = lock._core
        self._handle = handle
        self._loose = loose
        self._quiet = quiet
        self._entered = False
        self._left = False  # released, kept or handed over: no block releases the hold
        self._block: list[_holdfast.Hold | None] = []

    def _enter_block(self, holds: list[_holdfast.Hold | None]) -> list[_holdfast.Hold | None]:
        """Note that a block of the lock, with these holds, releases this hold."""
        self._entered, self._block = True, holds
        return holds

    def _leave_block(self) -> None:
        """Take the hold, which was released, kept or handed over, from its block."""
        self._left = True
        for at, each in enumerate(self._block):
            if each is self._handle:
                self._block[at] = None

    def _keep_at_least(self, milliseconds: int) -> None:
        """Make a release keep the lock until this time after the acquire."""
        self._core.hf_hold_keep_at_least(self._handle, milliseconds)

    def _enter(self) -> None:
        """Refuse a `with` block whose body would run without the lock."""
        if self.state == "released":
            raise LockNotOwnedError(
                f"{self!r} was released or handed over: acquire the lock again to enter it"
            )
        if self._entered:
            raise RuntimeError(f"{self!r} is entered already: the inner block would release it")
        if self.state == "lost" and self._cause() is None:  # it is the parent process's
            self._core.hf_hold_check(self._handle)  # raises ForkedError
        if self.state == "lost" and not self._quiet:
            raise LockLost(f"{self!r} was lost before it was entered: {self._cause()}")
        self._entered = True

    def _cause(self) -> Cause | None:
        return CAUSES[self._core.hf_hold_cause(self._handle)]

    @property
    def fence(self) -> int:
        """The fence (a fencing token): greater than the fence of every earlier hold of this name.

        Nested holds of one owner have the same fence. Send it to the resource and let
        the resource refuse smaller fences: this protects when all else fails.
        """
        return self._core.hf_hold_fence(self._handle)

    @property
    def remaining(self) -> float | None:
        """The seconds that the hold is certain to last; None: it never ends; 0: it has ended."""
        return seconds(self._core.hf_hold_remaining_ms(self._handle))

    @property
    def votes(self) -> tuple[int, int]:
        """The number of masters that have the hold now, and of all masters: (4, 5) of a quorum.

        Sends nothing. A hold stands while a majority has it; the client asks the others again.
        Without a quorum it is (1, 1) while it is held, else (0, 1).
        """
        return self._core.hf_hold_votes(self._handle)

    @property
    def state(self) -> State:
        """Either "held", "lost" or "released", as far as this process knows. Sends nothing."""
        return _STATES[self._core.hf_hold_state(self._handle)]

    @property
    def valid(self) -> bool:
        """Whether it is still held, as far as this process knows. Sends nothing."""
        return self._core.hf_hold_state(self._handle) == _holdfast.HF_STATE_HELD

    def _notices(self) -> Notices:
        return self._lock._client._notices_here()

    def _watch(self, lost: Callable[[Self], object]) -> None:
        """Call lost() once if the hold is lost, in the first thread that notices it."""
        notices = self._notices()
        number = self._core.hf_hold_number(self._handle)
        # The caller may drop a loose hold, and so end it.
        refer: Callable[[], Self | None] = weakref.ref(self) if self._loose else lambda: self

        def stands() -> bool:
            hold = refer()
            return hold is not None and hold.valid

        def tell() -> None:
            hold = refer()
            if hold is not None:
                _log.warning("%r: %s", hold, hold._cause())
                lost(hold)

        notices.watch(number, stands, tell)
        if not self.valid and notices.unwatch(number) and self.state == "lost":  # meanwhile
            tell()

    def _gone(self) -> None:
        """Leave the block, and report no loss: the hold was released, kept or handed over."""
        self._leave_block()
        self._unwatch()
        self._lock._client._look()

    def _unwatch(self) -> None:
        self._lock._client._forget(self._core.hf_hold_number(self._handle))

    def __del__(self) -> None:
        """Warn. A release could end a section that is still running."""
        if getattr(self, "_loose", False) and self.valid:
            what = f"{self!r} was dropped without release(); it ends with its lease"
            _log.warning("%s", what)
            warnings.warn(what, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        """Show the state and the fence. Sends nothing."""
        return (
            f"<{self.state} {self._lock._kind()}holdfast.{type(self).__name__} object"
            f" name={self._lock.name!r} fence={self.fence} at {id(self):#x}>"
        )


class BaseLost:
    """The loss of a hold, and its cause."""

    __slots__ = ("_hold",)

    def __init__(self, hold: BaseHold) -> None:
        """Only holds make this object."""
        self._hold = hold

    def is_set(self) -> bool:
        """Return whether the hold was lost, as far as this process knows. Sends nothing.

        The process knows at the latest when the lease ends. If the lock was broken or deleted, the
        next renewal or check shows it.
        """
        core, handle = self._hold._core, self._hold._handle
        return (
            core.hf_hold_cause(handle) != _holdfast.HF_CAUSE_NONE
            or core.hf_hold_state(handle) == _holdfast.HF_STATE_LOST
        )

    @property
    def cause(self) -> Cause | None:
        """The cause of the loss; None if it was not lost.

        "expired": its lease ended, and its renewal is off; or its max_hold has passed.
        "unreachable": the client could not renew it before its lease ended.
        "gone": the server no longer has it: it was broken, deleted, evicted or flushed.
        """
        return self._hold._cause()

    def __repr__(self) -> str:
        """Show the cause."""
        return f"<holdfast.{type(self).__name__} cause={self.cause!r} of {self._hold!r}>"


@final
class Lost(BaseLost):
    """The loss of a hold, and its cause; like a threading.Event."""

    __slots__ = ()

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until the hold is lost, at most `timeout` seconds; return whether it was.

        Returns False as soon as the hold is released or its client is closed. It needs the one
        Python thread of its client, which ends when the client is closed.
        """
        hold = self._hold
        seconds = None if timeout is None else number("timeout", timeout)
        if seconds is not None and math.isnan(seconds):
            raise ValueError(f"timeout must be a number of seconds, not {timeout!r}")
        if hold.valid:
            with contextlib.suppress(ClosedError):
                hold._notices().wait(lambda: not hold.valid, seconds)
        return self.is_set()


@final
class Hold(BaseHold):
    """One successful acquire.

    Any thread may call every method. A hold is a context manager that releases:

        with lock.hold(timeout=5) as hold:
            write(hold.fence)

    A dropped hold is not released: it ends with its lease. If it came from Lock.hold(), it warns
    with ResourceWarning.
    """

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """Whether it was lost: like a threading.Event, with a `cause`."""
        return Lost(self)

    def release(self, wait: bool | None = None) -> None:
        """Release the hold. One round trip.

        wait  False: do not wait for the answer. The hold ends at once in this process, and a thread
              of the client sends the request. If the answer is not as expected, a warning is logged
              with the next such release or the client's close, and Client.stats() counts it as
              unconfirmed. Client.close() and the end of the program wait for the answers. None: as
              the lock's option `release`.

        If the at_least of Lock.hold() has not passed, this keeps the lock for the rest of that
        time, as keep(), with several tries if an answer is lost. It raises as keep(); then the hold
        is still held, until you release it again or drop it.

        Raises LockNotOwnedError if it was released before, LockLost if it was lost before,
        LockUnknown if the answer was lost, and ConnectError or another LockError if the server
        was not reached or refused. In each case the hold ends with its lease at the latest.
        """
        try:
            self._lock._give_up(self._handle, wait)
            self._loose = False  # a hold that is kept ends here once the server has answered
        finally:
            if self.state == "released":
                self._gone()

    def renew(self) -> None:
        """Make the hold last its whole lease again, counted from now. One round trip.

        It never shortens the hold, and never passes its max_hold. Raises LockNotOwnedError if it
        was released, LockLost if it is lost; after any other LockError it lasts at least as long as
        before.
        """
        self._core.hf_hold_renew(self._handle)

    def extend(self, seconds: float | timedelta | None, replace: bool = False) -> None:
        """Make the hold last `seconds` longer, but not past its max_hold. One round trip.

        With replace it lasts exactly `seconds` from now instead, which may be shorter; later
        renewals use that as its lease, and None means that it never ends. Raises ValueError
        for a duration out of bounds, and otherwise as renew().
        """
        replaces = flag("replace", replace)
        self._core.hf_hold_extend(self._handle, extension(seconds), replaces)

    def hand_over(self) -> bytes:
        """Return a token with which another process can take over the lock: Lock.adopt().

        In this process the hold ends without a release. It is no longer renewed, so the other
        process must adopt it before its lease ends. Any process with the token can release the
        lock: keep it secret. Right after a wait, this takes one round trip.

        Raises LockNotOwnedError or LockLost if it is not held; LockUnknown while
        extend(replace=True) is under way, or if an answer was lost; UnsupportedError with several
        masters. After these and any other LockError the hold is as before.
        """
        token = self._core.hf_hold_hand_over(self._handle)
        self._gone()
        return token

    def keep(self, seconds: float | timedelta) -> None:
        """Leave the lock held for `seconds` from now on; 0 releases it.

        No other owner gets it until then, even if this process dies, and afterwards it becomes free
        by itself. In this process the hold ends without a release: it is not renewed, and cannot be
        released. Use this for work that must not be repeated too soon. A named owner that acquires
        again may nest in it, unless its lock is not reentrant.

        Raises ValueError for a duration out of bounds, and LockNotOwnedError or LockLost if it is
        not held. After LockUnknown or another LockError it is still held, with this duration as
        its lease: keep it again, for as long or shorter, or release it.
        """
        self._core.hf_hold_keep(self._handle, duration("seconds", seconds, least=0))
        self._gone()

    def _leave(self, state: int, result: bytes, ttl: int) -> None:
        """Release the hold, and report how its call ended, if there is memory for a report."""
        self._unwatch()
        try:
            self._core.hf_once_finish(self._handle, state, result, ttl)
        except MemoryError:
            with contextlib.suppress(LockError):
                self._core.hf_hold_release(self._handle)
            raise
        finally:
            self._lock._client._look()

    def check(self) -> None:
        """Ask the server whether the hold still stands. One round trip; raises as renew()."""
        self._core.hf_hold_check(self._handle)

    def __enter__(self) -> Hold:
        """Return the hold. Raises LockNotOwnedError if it was released, LockLost if it was lost."""
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the hold, unless the body did. Raises LockLost if it was lost."""
        if self.state != "released":
            try:
                self.release()
            except LockError as failed:
                excuse(failed, raised, self._quiet)

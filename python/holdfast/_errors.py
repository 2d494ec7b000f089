"""The exceptions, and the table that makes them from the core's statuses."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from . import _holdfast

if TYPE_CHECKING:
    from datetime import datetime

    from ._look import Holder

ending = False  # the interpreter is ending

Cause = Literal["expired", "unreachable", "gone"]

CAUSES: dict[int, Cause | None] = {
    _holdfast.HF_CAUSE_NONE: None,
    _holdfast.HF_CAUSE_EXPIRED: "expired",
    _holdfast.HF_CAUSE_UNREACHABLE: "unreachable",
    _holdfast.HF_CAUSE_GONE: "gone",
}


class LockError(Exception):
    """Any failure of a lock, except a wrong argument or a lack of memory."""


class LockTimeout(LockError, TimeoutError):
    """Others kept the lock for the whole timeout. Nothing is held, and nothing is left behind."""

    name: str | bytes = ""
    """The name of the lock, as given; empty if the exception came from another program."""
    waited: float = 0.0
    """How long the acquire waited, in seconds: its timeout; 0 if it tried once."""
    _which = 0  # of several locks
    _look: Callable[[], tuple[Holder, ...]] | None = None
    _holders: tuple[Holder, ...] | None = None

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The holders of the lock, as from Lock.inspect(); of permits, too.

        The first use asks the server for the holders at that moment, one round trip, which blocks:
        in a coroutine, use `await asyncio.to_thread(lambda: timeout.holders)`. Later uses return
        the same. Empty if the lock has become free, another library's lock holds it, or the server
        does not answer.
        """
        if self._holders is None:
            self._holders = ()
            if self._look is not None:
                with contextlib.suppress(LockError):
                    self._holders = self._look()
        return self._holders

    def __reduce__(self) -> Any:
        """Leave the client behind: an exception may go to another process."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_look"}
        return type(self), self.args, kept


class LockNotOwnedError(LockError, RuntimeError):
    """The caller does not hold the lock. Nothing was changed."""


class LockLost(LockNotOwnedError):
    """The hold was lost before: its lease ended, or its key was taken away.

    Another owner may have held the lock since. You may have to undo the work under it, unless
    the resource checked the fence.
    """

    cause: Cause | None = None
    """The cause, as in Hold.lost: "expired", "unreachable" or "gone"; None if it is not known, or
    if another hold of several was lost."""


class StaleFence(LockLost):
    """A holder with a greater fence has used the resource, which refused this holder.

    Nothing was written. Stop: the lock is no longer yours, and the same fence is refused again.
    """

    def __init__(self, name: str, fence: int, last: int) -> None:
        """Keep the guarded name, the refused fence, and the greater fence seen before."""
        super().__init__(name, fence, last)
        self.name = name
        self.fence = fence
        self.last = last

    def __str__(self) -> str:
        """Name both fences."""
        return (
            f"the fence {self.fence} of {self.name!r} is stale: a later holder was there with"
            f" the fence {self.last}. Stop: the lock is no longer yours"
        )


class LockDeadlock(LockError, RuntimeError):
    """The caller would wait for itself, because it holds the lock shared.

    It asks for the lock exclusively, or shared with a greater weight. The shared hold stays;
    release it first.
    """


class LimitDiffers(LockError, ValueError):
    """A limit is stored with the name, and the acquire gives another number of permits.

    The message has both. Client.limit() changes the stored number; a lock without `permits` follows
    it.
    """


class LockUnknown(LockError):
    """The answer was lost with its connection: the server may have carried out the request.

    After an acquire, do not enter: the lock may be held, unknown to any caller, until its lease
    ends.
    """


class LockNotReplicated(LockError):
    """Too few replicas had the lock in time. It was released again, and nothing is held."""

    reached: int = 0
    """The number of replicas that had the lock."""


class ClosedError(LockError):
    """The client is closed, or was closed while the call waited. Nothing is held."""


class ForkedError(LockError):
    """The hold belongs to the process that this one was forked from."""


class ConnectError(LockError, ConnectionError):
    """The server cannot be reached. Nothing was done."""


class AuthenticationError(LockError):
    """The server refused the user or the password."""


class ServerError(LockError):
    """The server answered with an error. Nothing was done."""


class ProtocolError(LockError):
    """The server does not speak the Redis protocol, or its answer is malformed."""


class UnsupportedError(LockError):
    """The server is too old or of the wrong kind, or the URL's scheme is not supported.

    Or the client has several masters, which cannot do this.
    """


class OutcomeUnknown(LockError):
    """The call began, and no server knows how it ended: its caller died, lost its hold, or failed.

    Do not call. Find out what became of the call, for example from the vendor, and settle it. In
    asyncio, await resolve(), retry() and forget().
    """

    outcome: Any = None
    """The record of the call: an Outcome, or an AsyncOutcome in asyncio. None if the exception
    came from another process."""
    name: str | bytes = ""
    """The name of the call, as given."""
    fence: int = 0
    """The fence of the hold that made the call."""
    owner: str = ""
    """The owner of that hold."""
    since: datetime | None = None
    """When the call began, by the server's clock."""
    note: str = ""
    """The note of its caller, or its caller's report of the end."""

    def resolve(self, result: object, **how: Any) -> Any:
        """Report that the call was made, and keep its result: Outcome.resolve()."""
        return self._settled().resolve(result, **how)

    def retry(self, **how: Any) -> Any:
        """Report that the call may be made again: Outcome.retry()."""
        return self._settled().retry(**how)

    def forget(self, **how: Any) -> Any:
        """Forget the call: Outcome.forget()."""
        return self._settled().forget(**how)

    def _settled(self) -> Any:
        if self.outcome is None:
            raise RuntimeError(
                "this exception came from another process: client.once_result() gives an outcome"
                " to settle"
            )
        return self.outcome

    def __reduce__(self) -> Any:
        """Leave the client behind: an exception may go to another process."""
        kept = {name: value for name, value in self.__dict__.items() if name != "outcome"}
        return type(self), self.args, kept


class FingerprintMismatch(LockError):
    """The call of this name was made with other arguments, or in the other mode.

    Nothing is done. Use another name for another call.
    """


class KeptError(LockError):
    """The call was made and failed, with an error that is kept for all its callers."""

    type: str = ""
    """The name of the error's class."""
    message: str = ""
    """Its message."""
    data: Any = None
    """Its attribute `data`, if it had one that JSON can keep."""


class OutcomeSettled(LockError):
    """The call is done, or has been settled before. Nothing was changed."""


NotKept = Literal["settled", "unreachable", "server", "lost", "encoding"]


class ResultNotKept(LockError):
    """The call was made, but other callers do not get its result: the exception has it.

    No caller calls again if the call is made at most once.
    """

    result: Any = None
    """The result of the call."""
    reason: NotKept = "unreachable"
    """The reason: "settled" when the call was settled meanwhile, "unreachable" when the server did
    not answer (the client goes on trying until it is closed) or this process has no memory to
    ask it (then call resolve() later), "server" when the server's memory is full or the user lacks
    a permission (the client goes on, too, if the call is made at most once), "lost" when the client
    no longer holds the lock, "encoding" when the result is too long or cannot be encoded.
    `__cause__` has the exception."""
    _outcome: Any = None

    def resolve(self, other: object, **how: Any) -> Any:
        """Keep this as the result instead, for example a shorter one: Outcome.resolve().

        In asyncio, await it.
        """
        if self._outcome is None:
            raise RuntimeError(
                "this exception came from another process: client.once_result() gives an outcome"
                " to settle"
            )
        return self._outcome.resolve(other, **how)

    def __reduce__(self) -> Any:
        """Leave the client behind: an exception may go to another process."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_outcome"}
        return type(self), self.args, kept


_CLASSES: dict[int, type[Exception]] = {
    _holdfast.HF_EINVAL: ValueError,
    _holdfast.HF_ENOMEM: MemoryError,
    _holdfast.HF_EBUSY: LockTimeout,
    _holdfast.HF_ETIMEOUT: LockTimeout,
    _holdfast.HF_ENOTHELD: LockNotOwnedError,
    _holdfast.HF_ELOST: LockLost,
    _holdfast.HF_EUNKNOWN: LockUnknown,
    _holdfast.HF_ECANCELED: ClosedError,
    _holdfast.HF_EINTR: InterruptedError,  # the signal handler's own exception replaces it
    _holdfast.HF_ECONNECT: ConnectError,
    _holdfast.HF_EAUTH: AuthenticationError,
    _holdfast.HF_ESERVER: ServerError,
    _holdfast.HF_EPROTOCOL: ProtocolError,
    _holdfast.HF_EUNSUPPORTED: UnsupportedError,
    _holdfast.HF_ECLOSED: ClosedError,
    _holdfast.HF_EFORKED: ForkedError,
    _holdfast.HF_EREPLICAS: LockNotReplicated,
    _holdfast.HF_EDEADLOCK: LockDeadlock,
    _holdfast.HF_EFAILED: KeptError,
    _holdfast.HF_EOUTCOME: OutcomeUnknown,
    _holdfast.HF_EMISMATCH: FingerprintMismatch,
    _holdfast.HF_ESETTLED: OutcomeSettled,
    _holdfast.HF_ELIMIT: LimitDiffers,
}


def error(status: int, message: str, detail: int = 0) -> Exception:
    """Make the exception for a status. The extension calls this.

    detail  The number of replicas that had it, the cause of a loss, or the index of the lock that
            was busy.
    """
    while ending and threading.current_thread().daemon:
        time.sleep(60)  # Python stops such threads where they are: there is no error to report
    made = _CLASSES.get(status, LockError)(message)
    if isinstance(made, LockLost):
        made.cause = CAUSES.get(detail)
    elif isinstance(made, LockNotReplicated):
        made.reached = detail
    elif isinstance(made, LockTimeout):
        made._which = detail
    return made

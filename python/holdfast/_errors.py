"""The exceptions, and the table that makes them from the core's statuses."""

from __future__ import annotations

import threading
import time

from . import _holdfast

ending = False  # the interpreter is


class LockError(Exception):
    """Any failure of a lock, except a wrong argument or a lack of memory."""


class LockTimeout(LockError, TimeoutError):
    """Others kept the lock for the whole timeout. Nothing is held, and nothing is left behind."""


class LockNotOwnedError(LockError, RuntimeError):
    """The caller does not hold the lock. Nothing was changed."""


class LockLost(LockNotOwnedError):
    """The hold was lost before: its lease ended, or its key was taken away.

    Somebody else may have held the lock since. You may have to undo the work under it, unless
    the resource checked the fence.
    """


class StaleFence(LockLost):
    """A holder with a greater fence has been at the resource, which refused this one.

    Nothing was written. Stop: the lock is no longer yours, and the same fence is refused again.
    """

    def __init__(self, name: str, fence: int, last: int) -> None:
        """Keep what was guarded, the refused fence, and the greater one that was there before."""
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
    """The caller holds the lock shared and asks for it exclusively: it would wait for itself.

    The shared hold stays; release it first.
    """


class LockUnknown(LockError):
    """The answer was lost with its connection: the server may have carried out the request.

    After an acquire, do not enter: the lock may be held without any caller knowing it, until its
    lease ends.
    """


class LockNotReplicated(LockError):
    """Too few replicas had the lock in time. It was released again, and nothing is held."""

    reached: int = 0
    """How many replicas had it."""


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
    """The server does not speak the Redis protocol, or its answer makes no sense."""


class UnsupportedError(LockError):
    """The server is too old or of the wrong kind, or the URL's scheme is not supported."""


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
}


def error(status: int, message: str, reached: int | None = None) -> Exception:
    """Make the exception for a status. The extension calls this."""
    while ending and threading.current_thread().daemon:
        time.sleep(60)  # Python stops such threads where they are: that is no error to report
    made = _CLASSES.get(status, LockError)(message)
    if isinstance(made, LockNotReplicated):
        made.reached = _holdfast.hf_error_last() if reached is None else reached
    return made

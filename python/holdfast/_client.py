"""The client: a connection pool, and the holds acquired through it."""

from __future__ import annotations

import functools
import logging
import os
import warnings
from collections.abc import Callable
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, cast

from . import _holdfast, _native
from ._aio import AsyncClient
from ._arguments import duration
from ._errors import ClosedError
from ._hold import Bound, Hold
from ._lock import Lock
from ._locked import LockOptions, Parameters, Result, locked
from ._notices import Notices
from ._stats import Stats, stats

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_log = logging.getLogger("holdfast")

_SWITCH = {None: _holdfast.HF_DEFAULT, True: _holdfast.HF_ON, False: _holdfast.HF_OFF}


class Client(Bound):
    """A connection pool, and the holds acquired through it; connect() makes it.

    Any thread may call every method. A client is a context manager that closes. After a fork the
    child opens a new client at its next use; the parent's holds stay the parent's.
    """

    _core = cast("_holdfast.Core", _holdfast)

    def __init__(
        self,
        url: str,
        connect_timeout: float | None,
        command_timeout: float | None,
        keepalive: float | None,
        max_connections: int | None,
        client_name: str | None,
    ) -> None:
        """Only connect() makes clients."""
        # Each process has its own, by process id. Empty once closed.
        self._handles: dict[int, _holdfast.Client] = {}
        self._notices: dict[int, Notices] = {}
        if not isinstance(url, str):
            raise TypeError(f"url must be str, not {type(url).__name__}")
        if "\0" in url:
            raise ValueError("the URL must not contain a NUL character")
        options = _native.hf_client_options()
        if connect_timeout is not None:
            options.connect_timeout_ms = duration("connect_timeout", connect_timeout, least=1)
        if command_timeout is not None:
            options.command_timeout_ms = duration("command_timeout", command_timeout, least=1)
        if keepalive is not None:
            options.keepalive_ms = duration("keepalive", keepalive, least=0) or _holdfast.HF_NEVER
        if max_connections is not None:
            if not 1 <= max_connections < 2**32:
                raise ValueError(f"max_connections must be 1 or more, not {max_connections!r}")
            options.max_connections = max_connections
        if client_name is not None:
            if not 1 <= len(client_name) <= 63 or not all("!" <= c <= "~" for c in client_name):
                raise ValueError(
                    "client_name must be 1 to 63 printable ASCII characters without spaces,"
                    f" not {client_name!r}"
                )
            options.client_name = client_name
        self._url = url
        self._options = options
        self._handles[os.getpid()] = self._open()

    def _open(self) -> _holdfast.Client:
        handle = self._core.hf_client_open(self._url, self._options)
        if warning := self._core.hf_client_warning(handle):
            _log.warning("%s", warning)
        self._core.hf_client_set_interrupt(handle)
        return handle

    def _here(self) -> _holdfast.Client:
        """Give this process's handle."""
        here = os.getpid()
        if here not in self._handles:
            if not self._handles:
                raise ClosedError("the client is closed")
            opened = self._open()
            if self._handles.setdefault(here, opened) is not opened:  # another thread was first
                self._core.hf_client_close(opened)
        return self._handles[here]

    def _notices_here(self) -> Notices:
        """Give this process's notices; the first call starts to collect them."""
        handle, here = self._here(), os.getpid()
        if here not in self._notices:
            self._notices.setdefault(here, Notices(self._core, handle))
        return self._notices[here]

    def _look(self) -> None:
        """Wake the waits for a loss after a release, so that they look again."""
        if self._notices and (notices := self._notices.get(os.getpid())):
            notices.look()

    def _forget(self, number: int) -> None:
        """Report the loss of that hold to nobody any more."""
        if self._notices and (notices := self._notices.get(os.getpid())):
            notices.unwatch(number)

    def lock(
        self,
        name: str | bytes,
        lease: float | EllipsisType | None = ...,
        renew: bool | None = None,
        reentrant: bool = True,
        owner: str | bytes | None = None,
        max_hold: float | None = None,
        heal: bool = False,
        replicas: int = 0,
        replica_timeout: float | None = None,
        on_lost: Callable[[Hold], object] | None = None,
        raise_on_lost: bool = True,
    ) -> Lock:
        """Make a Lock for a name. Sends nothing.

        name           1 to 4096 bytes; str is UTF-8 with surrogate escapes, bytes stay as given.
        lease          Seconds after which a hold ends unless renewed, 0.01 to ten years; None:
                       never. Not given: 10 seconds, renewed until released.
        renew          Renew holds until they are released; by default only if no lease is given.
        reentrant      May an owner that holds the lock acquire it again? With False and no owner,
                       every acquire has a new owner, and any thread may release, as with
                       threading.Lock.
        owner          The owner, in place of the calling thread; 1 to 4096 bytes. Equal owners
                       are one owner everywhere: "worker" on ten hosts excludes nothing.
        max_hold       Stop renewing a hold after so many seconds, so that a stuck thread does not
                       keep the lock for ever. Not with a lease of None.
        heal           Set this lock's lease as the TTL of another library's lock that would stand
                       for ever.
        replicas       How many replicas must have an acquire (WAIT) before it answers. If they do
                       not in time, the lock is released again and the call raises
                       LockNotReplicated. A failover then loses fewer locks: docs/connecting.md.
        replica_timeout  Seconds for that, less than the lease; by default 1, or half of a lease
                       shorter than 2.
        on_lost        A thread of the client calls it with the Hold when that is lost. Keep it
                       short, or give the work to another thread.
        raise_on_lost  Leaving a `with` block raises LockLost if the hold was lost; False: it does
                       not.

        Raises ValueError and TypeError for wrong arguments, and ClosedError.
        """
        options = _native.hf_lock_options()
        if lease is None:
            options.lease_ms = _holdfast.HF_NEVER
        elif not isinstance(lease, EllipsisType):
            options.lease_ms = duration("lease", lease)
        options.renew = _SWITCH[renew]
        options.reentrant = _SWITCH[bool(reentrant)]
        if max_hold is not None:
            options.max_hold_ms = duration("max_hold", max_hold, least=1)
        options.heal = _SWITCH[bool(heal)]
        if not 0 <= replicas < 2**31:
            raise ValueError(f"replicas must be 0 or more, not {replicas!r}")
        options.replicas = replicas
        if replica_timeout is not None:
            options.replica_timeout_ms = duration("replica_timeout", replica_timeout, least=1)
        return Lock(self, name, owner, options, on_lost, raise_on_lost)

    @property
    def aio(self) -> AsyncClient:
        """The same client, for asyncio tasks."""
        return AsyncClient(self)

    def locked(
        self, name: str, timeout: float | None = None, **options: Unpack[LockOptions]
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
        """Decorate a function, or a coroutine function, so that it runs under a lock.

            @client.locked("report:{user_id}", timeout=5)
            def report(user_id: int) -> None: ...

        name     The lock's name; str.format() fills in the arguments of the call.
        timeout  Seconds; 0 tries once; None or -1 waits without limit.
        options  The other arguments of lock().

        A call raises LockTimeout if others kept the lock, and otherwise as Lock.hold(). The
        decorator raises ValueError if a field of the name is no parameter, and TypeError for a
        generator function.
        """
        return functools.partial(locked, self, name, timeout, options)

    def stats(self) -> Stats:
        """Read this client's counts in this process. Sends nothing."""
        return stats(self._core, self._here())

    def close(self) -> None:
        """Close the client: release its holds, and end waiting calls with ClosedError.

        Blocks for at most one command_timeout. Afterwards its locks and holds raise ClosedError.
        A second close does nothing.
        """
        while self._handles:
            _, handle = self._handles.popitem()
            self._core.hf_client_close(handle)

    def _abandon(self) -> None:
        """Close without releasing holds, which may still be in use: for finalizers."""
        while self._handles:
            _, handle = self._handles.popitem()
            self._core.hf_client_abandon(handle)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()

    def __del__(self) -> None:
        """Warn. A close would release holds that may still be in use."""
        if getattr(self, "_handles", None):
            what = f"{self!r} was dropped without close()"
            self._abandon()
            _log.warning("%s", what)
            warnings.warn(what, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        """Say whether it is open; the URL may have a password."""
        return f"<{'open' if self._handles else 'closed'} holdfast.Client object at {id(self):#x}>"


def connect(
    url: str,
    *,
    connect_timeout: float | None = None,
    command_timeout: float | None = None,
    keepalive: float | None = None,
    max_connections: int | None = None,
    client_name: str | None = None,
) -> Client:
    """Open a client: connect, log in, and check that the server is Redis 6.2 or newer.

    url              `redis://[[user]:password@]host[:port][/database]`,
                     `unix://[[user]:password@]/path/to/socket[?db=database]`,
                     `redis+sentinel://[[user]:password@]host[:port],…/service[/database]`, or
                     `redis+cluster://[[user]:password@]host[:port],…`;
                     `rediss` in place of `redis` means TLS. docs/connecting.md has the options.
                     Percent-encode the characters special in a URL.
    connect_timeout  Seconds to reach the server and log in; default 2.
    command_timeout  Seconds for the answer to one command; default 2.
    keepalive        Seconds of silence after which the system asks whether the other end is
                     alive (TCP keep-alive); default 15; 0: never.
    max_connections  How many connections calls may use at once; if none is free, a call waits
                     for one, in its turn and within its own time limit. Default: 16 to each
                     node; a number that is given limits all nodes together.
    client_name      The connections' name in CLIENT LIST: 1 to 63 printable ASCII characters
                     without spaces; default "holdfast".

    The URL can set all of these too; an argument given here overrides it.

    Raises ValueError for a wrong URL or option, UnsupportedError, ConnectError,
    AuthenticationError, ServerError, ProtocolError.
    """
    return Client(url, connect_timeout, command_timeout, keepalive, max_connections, client_name)

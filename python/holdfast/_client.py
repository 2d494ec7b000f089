"""The client: a connection pool and what is held through it."""

from __future__ import annotations

import functools
import logging
import os
import warnings
from collections.abc import Callable
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, final

from . import _holdfast, _native
from ._aio import AsyncClient
from ._arguments import duration
from ._errors import ClosedError
from ._hold import Hold
from ._lock import Lock
from ._locked import LockOptions, Parameters, Result, locked
from ._notices import Notices
from ._stats import Stats, stats

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger("holdfast")

_SWITCH = {None: _holdfast.HF_DEFAULT, True: _holdfast.HF_ON, False: _holdfast.HF_OFF}


@final
class Client:
    """A connection pool and what is held through it; connect() makes it.

    Every method may be called from any thread. A context manager, which closes. After a fork the
    child opens a client of its own on its next use; what the parent holds stays the parent's.
    """

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
        # What belongs to which process. Empty once closed.
        self._handles: dict[int, _holdfast.Client] = {}
        self._notices: dict[int, Notices] = {}
        if not isinstance(url, str):
            raise TypeError(f"url must be str, not {type(url).__name__}")
        if "\0" in url:
            raise ValueError("a URL has no NUL")
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
        handle = _holdfast.hf_client_open(self._url, self._options.this)
        if warning := _holdfast.hf_client_warning(handle):
            _log.warning("%s", warning)
        _holdfast.hf_client_set_interrupt(handle)
        return handle

    def _here(self) -> _holdfast.Client:
        """Give this process's handle."""
        here = os.getpid()
        if here not in self._handles:
            if not self._handles:
                raise ClosedError("the client is closed")
            opened = self._open()
            if self._handles.setdefault(here, opened) is not opened:  # another thread was first
                _holdfast.hf_client_close(opened)
        return self._handles[here]

    def _notices_here(self) -> Notices:
        """Give this process's notices, which are collected from the first call on."""
        handle, here = self._here(), os.getpid()
        if here not in self._notices:
            self._notices.setdefault(here, Notices(handle))
        return self._notices[here]

    def _look(self) -> None:
        """Let those who wait for a loss look again: something was released."""
        if self._notices and (notices := self._notices.get(os.getpid())):
            notices.look()

    def _forget(self, number: int) -> None:
        """Tell nobody if that hold is lost."""
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

        name           1 to 4096 bytes; str is UTF-8 with surrogate escapes, bytes are kept as
                       given.
        lease          Seconds after which a hold ends unless renewed, 0.01 to ten years; None:
                       never. Not given: 10 seconds, renewed until released.
        renew          Renew holds until they are released; by default only if no lease is given.
        reentrant      May an owner that holds the lock acquire it again? With False and no owner
                       every acquire is for itself, and any thread may release, as with
                       threading.Lock.
        owner          Who acquires, in place of the calling thread; 1 to 4096 bytes. Equal owners
                       are one owner everywhere: "worker" on ten hosts excludes nothing.
        max_hold       Seconds after which holds are renewed no more, so that a stuck thread does
                       not keep the lock for ever. Not with a lease of None.
        heal           Give another library's lock that would stand for ever this one's lease.
        replicas       So many replicas must have an acquire (WAIT) before it answers; if they have
                       not in time, it is released again and raises LockNotReplicated. This narrows
                       what a failover can lose: docs/connecting.md.
        replica_timeout  Seconds for that, less than the lease; by default 1, or half of a lease
                       shorter than 2.
        on_lost        Called with the Hold when one is lost, in a thread of the client's, which
                       is started for it. Keep it short, or hand it on.
        raise_on_lost  Leaving a `with` block raises LockLost if the hold was lost; False: not.

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
        """The same client, for tasks of asyncio."""
        return AsyncClient(self)

    def locked(
        self, name: str, timeout: float | None = None, **options: Unpack[LockOptions]
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
        """Decorate a function, or a coroutine function, that is to run under a lock.

            @client.locked("report:{user_id}", timeout=5)
            def report(user_id: int) -> None: ...

        name     The lock's name, in which str.format() puts the arguments of the call.
        timeout  Seconds; 0 tries once; None or -1 waits without limit.
        options  As those of lock().

        A call raises LockTimeout if others kept the lock, and else as Lock.hold(). Raises
        ValueError for a name with what is no parameter, TypeError for a generator function.
        """
        return functools.partial(locked, self, name, timeout, options)

    def stats(self) -> Stats:
        """Count what was done and is done through this client in this process. Asks nobody."""
        return stats(self._here())

    def close(self) -> None:
        """Close the client: waiting calls raise ClosedError, and what it holds is released.

        Blocks for at most one command_timeout. Its locks and holds then raise ClosedError. To
        close twice does nothing.
        """
        while self._handles:
            _, handle = self._handles.popitem()
            _holdfast.hf_client_close(handle)

    def _abandon(self) -> None:
        """Close without releasing what may still be in use: for finalizers."""
        while self._handles:
            _, handle = self._handles.popitem()
            _holdfast.hf_client_abandon(handle)

    def __enter__(self) -> Client:
        """Give the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def __del__(self) -> None:
        """Warn. To close would release what may still be in use."""
        if self._handles:
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
    """Open a client: connect, log in, and see that the server is Redis 6.2 or newer.

    url              `redis://[[user]:password@]host[:port][/database]`,
                     `unix://[[user]:password@]/path/to/socket[?db=database]`,
                     `redis+sentinel://[[user]:password@]host[:port],…/service[/database]`, or
                     `redis+cluster://[[user]:password@]host[:port],…`;
                     `rediss` for `redis` is over TLS. docs/connecting.md has the options.
                     Percent-encode what is special in a URL.
    connect_timeout  Seconds to reach the server and log in; default 2.
    command_timeout  Seconds for the answer to one command; default 2.
    keepalive        Seconds of silence after which the system asks whether the other end still
                     lives (TCP keep-alive); default 15; 0: never.
    max_connections  How many connections calls may use at once; a call for which none is free
                     waits for one, in its turn and within its own time. Default: 16 to each
                     node; a number that is given counts for all nodes together.
    client_name      How the server lists the connections (CLIENT LIST): 1 to 63 printable ASCII
                     characters without spaces; default "holdfast".

    All but the URL may stand in the URL too; what is given here counts, not the URL's.

    Raises ValueError for a wrong URL or option, UnsupportedError, ConnectError,
    AuthenticationError, ServerError, ProtocolError.
    """
    return Client(url, connect_timeout, command_timeout, keepalive, max_connections, client_name)

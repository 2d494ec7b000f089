"""Clients whose locks are in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast, final

from .. import _holdfast, _native
from .._aio import AsyncHold
from .._alarm import Alarm, Rule
from .._arguments import encoded, function
from .._client import Client, count
from .._hold import BaseHold, Hold
from .._trouble import Trouble
from . import _core
from ._space import Handle, Space
from ._space import Hold as Held

Cause = Literal["gone", "expired", "unreachable"]

_CAUSES = {
    "gone": _holdfast.HF_CAUSE_GONE,
    "expired": _holdfast.HF_CAUSE_EXPIRED,
    "unreachable": _holdfast.HF_CAUSE_UNREACHABLE,
}


@final
class MemoryServer:
    """The locks that several MemoryClients share, instead of a Redis.

        server = holdfast.testing.MemoryServer()
        with server.connect() as client, server.connect() as other:
            hold = client.lock("stock", lease=5, renew=False).hold()
            assert not other.lock("stock").acquire(blocking=False)
            server.advance(5)
            assert hold.lost.cause == "expired"

    No other process reaches it, not even a process forked from this one: it raises ConnectError
    there.
    """

    def __init__(self, *, stopped_clock: bool = False, replicas: int | None = None) -> None:
        """Make a server on which all locks are free.

        stopped_clock  Let time pass only by advance(): for leases, renewals and timeouts.
        replicas       The number of replicas that confirm each acquire; None: the number that it
                       asks for.
        """
        self._space = Space(stopped_clock, replicas)

    def connect(
        self,
        *,
        alarm: Rule | None = None,
        on_alarm: Callable[[Alarm], object] | None = None,
        on_trouble: Callable[[Trouble], object] | None = None,
        count_names: bool = False,
        names_max: int | None = None,
    ) -> MemoryClient:
        """Open a client of this server. The arguments are those of holdfast.connect()."""
        return MemoryClient(
            self,
            alarm=alarm,
            on_alarm=on_alarm,
            on_trouble=on_trouble,
            count_names=count_names,
            names_max=names_max,
        )

    def advance(self, seconds: float) -> None:
        """Put the clock forward, and let all events that are due happen in order.

        Leases end, holds are renewed, acquires time out, waiters get their turn. The clients' holds
        have changed when this returns; on_lost is called soon after.
        """
        if not seconds >= 0:
            raise ValueError(f"seconds must be 0 or more, not {seconds!r}")
        self._space.advance(seconds * 1000)

    def lose(self, what: str | bytes | Hold | AsyncHold, cause: Cause = "gone") -> None:
        """Take a lock, or only one hold of it, away from its holder, which is notified at once.

        what   The lock's name, or a hold; a free lock is no error.
        cause  The `hold.lost.cause` of the loss.
        """
        if cause not in _CAUSES:
            raise ValueError(f"cause must be one of {', '.join(_CAUSES)}, not {cause!r}")
        with self._space:
            for hold in self._losing(what):
                hold.lose(_CAUSES[cause])
                hold.take_away()
            if not isinstance(what, BaseHold) and (key := self._space.key(encoded("what", what))):
                key.clear()

    def _losing(self, what: str | bytes | Hold | AsyncHold) -> list[Held]:
        if isinstance(what, BaseHold):
            handle = cast("object", what._handle)
            if not isinstance(handle, Handle) or handle.hold.space is not self._space:
                raise ValueError(f"{what!r} is not a hold of this server")
            return [handle.hold]
        return list(self._space.holds(encoded("what", what)))

    def stop(self) -> None:
        """Be unreachable: every call raises ConnectError, even a call that waits.

        Holds are no longer renewed, so they are lost with their leases; on_trouble is called
        before.
        """
        with self._space:
            self._space.stop()

    def start(self) -> None:
        """Be reachable again."""
        with self._space:
            self._space.start()


class MemoryClient(Client):
    """A holdfast.Client whose locks are in a MemoryServer. It needs no Redis.

    Its locks and holds are those of holdfast.Client: every method and every exception is the
    same.
    """

    _core = cast("_holdfast.Core", _core)

    def __init__(
        self,
        server: MemoryServer | None = None,
        *,
        alarm: Rule | None = None,
        on_alarm: Callable[[Alarm], object] | None = None,
        on_trouble: Callable[[Trouble], object] | None = None,
        count_names: bool = False,
        names_max: int | None = None,
    ) -> None:
        """Open a client of a server, by default of a new one; see MemoryServer.connect()."""
        self.server = MemoryServer() if server is None else server
        options = _native.hf_client_options()
        count(options, alarm, on_alarm, count_names, names_max)
        function("on_trouble", on_trouble)
        super().__init__("memory:", options, True, on_alarm, on_trouble)
        if on_trouble is not None:
            self._notices_here().listen()

    def _hear(self) -> None:
        """Log no trouble unless the program asks for it: time passes only for a reason."""

    def _open(self) -> _holdfast.Client:
        opened: Any = _core.hf_client_open(self.server._space, self._options)
        return cast("_holdfast.Client", opened)

"""A wait that ends when the client of the request hangs up: ASGI servers do not cancel it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_LONGEST = 65536  # bytes of a body that are kept meanwhile


class HungUpError(Exception):
    """The client of the request has hung up."""


class Connected:
    """A block of a task that ends with HungUpError when the client hangs up.

    If the server sends parts of the request's body meanwhile, receive() returns them later. While
    a longer body has not been read, a hang-up is not noticed.
    """

    def __init__(self, receive: Receive) -> None:
        """Take the receive() of a request."""
        self._receive = receive
        self._messages: list[Message] = []
        self._size = 0
        self._gone = False

    async def receive(self) -> Message:
        """Return the next message, including those that arrived during the block."""
        return self._messages.pop(0) if self._messages else await self._receive()

    async def _listen(self, task: asyncio.Task[object]) -> None:
        while self._size <= _LONGEST:
            message = await self._receive()
            self._messages.append(message)
            self._size += len(message.get("body", b""))
            if message["type"] == "http.disconnect":
                self._gone = True
                task.cancel()
                return

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._listener = asyncio.create_task(self._listen(task))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self._listener.cancel()
        if not self._gone:
            return
        if kind is None:  # the cancellation arrives at the next await
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        theirs = sys.version_info >= (3, 11) and self._task.uncancel() > 0
        if kind is None or (kind is asyncio.CancelledError and not theirs):
            raise HungUpError from None


def seconds_left(seconds: float | None) -> float | None:
    """Return the timeout for a request's deadline, which may have passed: never unlimited then."""
    return None if seconds is None else max(0.0, seconds)

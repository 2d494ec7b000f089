"""Spans of all acquires and holds: the wrappers of holdfast.otel.instrument()."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import context, trace

from . import _holdfast, _tracing
from ._aio import AsyncHold, AsyncLock, Holding
from ._errors import LockTimeout
from ._hold import Hold
from ._leader import BaseLeader
from ._lock import Lock, full
from ._once import _AsyncPort, _Port
from ._several import AsyncHolds, AsyncLocksAll, BaseLocks, Holds, LocksAll
from ._stats import shown

Method = Callable[..., Any]

_OUTCOMES = {
    _holdfast.HF_OK: "mine",
    _holdfast.HF_EDONE: "done",
    _holdfast.HF_EFAILED: "failed",
    _holdfast.HF_EOUTCOME: "unknown",
    _holdfast.HF_EMISMATCH: "mismatch",
}


class Spans:
    """Makes spans, from install() to remove()."""

    def __init__(self, tracer: trace.Tracer) -> None:
        """Change nothing yet."""
        self._tracer = tracer
        self._before: list[tuple[type, str, Method]] = []
        self._inside: dict[tuple[int, object], list[_Block]] = {}

    def install(self) -> None:
        """Put spans around the methods through which all acquires, holds, calls and terms pass."""
        self._wrap(Lock, "_win", self._waiting)
        self._wrap(LocksAll, "_win", self._waiting)
        self._wrap(AsyncLock, "_acquire", self._awaiting)
        self._wrap(AsyncLocksAll, "_acquire", self._awaiting)
        self._wrap(Lock, "_begin", self._beginning)
        self._wrap(AsyncLock, "_begin", self._awaiting_turn)
        self._wrap(_Port, "call", self._calling)
        self._wrap(_AsyncPort, "call", self._calling_task)
        self._wrap(BaseLeader, "_lead", self._leading)
        for kind in (Lock, Hold, LocksAll, Holds):
            entering = functools.partial(self._entering, vars(kind)["__exit__"])
            self._wrap(kind, "__enter__", entering)
            self._wrap(kind, "__exit__", self._leaving)
        for each in (AsyncLock, AsyncHold, AsyncLocksAll, AsyncHolds, Holding):
            entering = functools.partial(self._entering_task, vars(each)["__aexit__"])
            self._wrap(each, "__aenter__", entering)
            self._wrap(each, "__aexit__", self._leaving_task)
        _tracing.on = True

    def remove(self) -> None:
        """Restore all methods."""
        _tracing.on = False
        while self._before:
            kind, name, method = self._before.pop()
            setattr(kind, name, method)

    def _wrap(self, kind: type, name: str, around: Callable[[Method], Method]) -> None:
        method = vars(kind)[name]
        self._before.append((kind, name, method))
        setattr(kind, name, functools.wraps(method)(around(method)))

    def begun(self, what: str, names: Any, **more: Any) -> trace.Span:
        """Begin a span."""
        each = names if isinstance(names, tuple) else (names,)
        about = {"holdfast.lock": ", ".join(shown(text(name)) for name in each), **more}
        return self._tracer.start_span(f"holdfast.{what}", attributes=about)

    def span(self, what: str, names: Any, **more: Any) -> AbstractContextManager[trace.Span]:
        """Make a span that is the current one in the block."""
        return trace.use_span(self.begun(what, names, **more), end_on_exit=True)

    # ------------------------------------------------------------------ Waits

    @contextlib.contextmanager
    def _wait(self, names: Any, milliseconds: int) -> Iterator[trace.Span]:
        """Make the span of an acquire: a try that finds the lock busy is no error."""
        busy: LockTimeout | None = None
        with self.span("wait", names) as span:
            try:
                yield span
            except LockTimeout as failed:
                if milliseconds:
                    raise
                span.set_attribute("holdfast.outcome", "busy")
                busy = failed
        if busy is not None:
            raise busy

    def _waiting(self, win: Method) -> Method:
        def waits(lock: Lock | LocksAll, milliseconds: int, *rest: Any) -> None:
            with self._wait(_names(lock), milliseconds):
                win(lock, milliseconds, *rest)

        return waits

    def _awaiting(self, acquire: Method) -> Method:
        async def awaits(lock: AsyncLock | AsyncLocksAll, milliseconds: int, *rest: Any) -> Any:
            if any(each is full for each in rest):  # a candidate of an election waits for hours
                return await acquire(lock, milliseconds, *rest)
            with self._wait(_names(lock), milliseconds):
                return await acquire(lock, milliseconds, *rest)

        return awaits

    def _beginning(self, begin: Method) -> Method:
        def begins(lock: Lock, milliseconds: int, *rest: Any) -> Any:
            with self._wait(lock.name, milliseconds) as span:
                ended = begin(lock, milliseconds, *rest)
                span.set_attribute("holdfast.outcome", _OUTCOMES[ended[0]])
                return ended

        return begins

    def _awaiting_turn(self, begin: Method) -> Method:
        async def begins(lock: AsyncLock, milliseconds: int, *rest: Any) -> Any:
            with self._wait(lock.name, milliseconds) as span:
                ended = await begin(lock, milliseconds, *rest)
                span.set_attribute("holdfast.outcome", _OUTCOMES[ended[0]])
                return ended

        return begins

    # -------------------------------------------------------- Calls and terms

    def _calling(self, call: Method) -> Method:
        def calls(port: _Port, made: Callable[[], Any]) -> Any:
            assert port.hold is not None
            with self.span("call", port.lock.name, **{"holdfast.fence": port.hold.fence}):
                return call(port, made)

        return calls

    def _calling_task(self, call: Method) -> Method:
        async def calls(port: _AsyncPort, made: Callable[[], Any]) -> Any:
            assert port.hold is not None
            with self.span("call", port.lock.name, **{"holdfast.fence": port.hold.fence}):
                return await call(port, made)

        return calls

    def _leading(self, lead: Method) -> Method:
        async def leads(leader: BaseLeader, hold: AsyncHold) -> bool:
            with self.span("lead", leader.name, **{"holdfast.fence": hold.fence}) as span:
                good: bool = await lead(leader, hold)
                if not good:
                    span.set_status(trace.StatusCode.ERROR, "the work failed")
                return good

        return leads

    # ------------------------------------------------------------------ Holds

    def _begin(self, entered: object, held: Any) -> None:
        block = _Block(self, held)
        self._inside.setdefault((id(entered), _here()), []).append(block)

    def _end(self, entered: object) -> _Block | None:
        """Remove the block: the caller's newest, or a block that another thread or task entered."""
        mine = id(entered), _here()
        for key in (mine, *(key for key in list(self._inside) if key[0] == id(entered))):
            blocks = self._inside.get(key)
            if blocks:
                block = blocks.pop()
                if not blocks:
                    self._inside.pop(key, None)
                return block
        return None

    @contextlib.contextmanager
    def _left(self, entered: object, raised: BaseException | None) -> Iterator[None]:
        """End the span of a block after its release, with the exception that leaves it."""
        try:
            yield
        except BaseException as failed:
            raised = failed
            raise
        finally:
            if (block := self._end(entered)) is not None:
                block.end(raised)

    def _entering(self, leave: Method, enter: Method) -> Method:
        def enters(entered: Any) -> Any:
            held = enter(entered)
            try:
                self._begin(entered, held)
            except BaseException as failed:  # such as from a sampler: no __exit__() follows
                leave(entered, type(failed), failed, failed.__traceback__)
                raise
            return held

        return enters

    def _leaving(self, leave: Method) -> Method:
        def leaves(entered: Any, *how: Any) -> Any:
            with self._left(entered, how[1]):
                return leave(entered, *how)

        return leaves

    def _entering_task(self, leave: Method, enter: Method) -> Method:
        async def enters(entered: Any) -> Any:
            held = await enter(entered)
            try:
                self._begin(entered, held)
            except BaseException as failed:
                await leave(entered, type(failed), failed, failed.__traceback__)
                raise
            return held

        return enters

    def _leaving_task(self, leave: Method) -> Method:
        async def leaves(entered: Any, *how: Any) -> Any:
            with self._left(entered, how[1]):
                return await leave(entered, *how)

        return leaves


class _Block:
    """The span of a hold, current from the entry of its block to the end."""

    def __init__(self, spans: Spans, held: Any) -> None:
        several = isinstance(held, (Holds, AsyncHolds))
        names = tuple(held.holds) if several else held._lock.name
        fences = list(held.fences.values()) if several else held.fence
        self._span = spans.begun("hold", names, **{"holdfast.fence": fences})
        self._context = trace.set_span_in_context(self._span)
        self._token = context.attach(self._context)

    def end(self, raised: BaseException | None) -> None:
        if raised is not None:
            self._span.record_exception(raised)
            self._span.set_status(trace.StatusCode.ERROR, f"{type(raised).__name__}: {raised}")
        self._span.end()
        if context.get_current() is self._context:  # else another thread leaves the block
            context.detach(self._token)


def _names(lock: Lock | AsyncLock | LocksAll | AsyncLocksAll) -> Any:
    return lock.names if isinstance(lock, BaseLocks) else lock.name


def text(name: str | bytes) -> str:
    """Return a name as text."""
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")


def _here() -> object:
    """Return the owner of the block: the task, or the thread."""
    if asyncio._get_running_loop() is not None:
        return asyncio.current_task()
    greenlet = sys.modules.get("greenlet")
    return threading.get_ident() if greenlet is None else greenlet.getcurrent()

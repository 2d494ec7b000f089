"""Spans of OpenTelemetry for the wait and for the hold: `pip install holdfast[otel]`.

    with holdfast.otel.hold(client.lock("stock"), timeout=5) as hold:
        write(hold.fence)

makes a span "holdfast.wait" until the acquire ends, and then a span "holdfast.hold" until the
release. Both have the attribute holdfast.lock, and the second has holdfast.fence too. They record
the exceptions raised in them. The program's TracerProvider decides where they go.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from opentelemetry import trace

import holdfast

_tracer = trace.get_tracer("holdfast", holdfast.__version__)


def _about(name: str | bytes) -> dict[str, str]:
    return {"holdfast.lock": name if isinstance(name, str) else name.decode("utf-8", "replace")}


@contextlib.contextmanager
def hold(
    lock: holdfast.Lock, timeout: float | None = None, **options: Any
) -> Iterator[holdfast.Hold]:
    """Acquire, and release at the end of the block, like Lock.hold(), with the two spans.

    timeout  Seconds; 0 tries once; None or -1 waits without limit.
    options  The other arguments of Lock.hold().
    """
    about = _about(lock.name)
    with _tracer.start_as_current_span("holdfast.wait", attributes=about):
        hold = lock.hold(timeout, **options)
    with _tracer.start_as_current_span("holdfast.hold", attributes=about) as span, hold:
        span.set_attribute("holdfast.fence", hold.fence)
        yield hold


@contextlib.asynccontextmanager
async def ahold(
    lock: holdfast.AsyncLock, timeout: float | None = None, **options: Any
) -> AsyncIterator[holdfast.AsyncHold]:
    """Do the same for a task: `async with holdfast.otel.ahold(client.aio.lock("stock"))`."""
    about = _about(lock.name)
    async with contextlib.AsyncExitStack() as block:
        with _tracer.start_as_current_span("holdfast.wait", attributes=about):
            holding = lock.hold(timeout, **options)
            entered = await holding.__aenter__()
        span = block.enter_context(_tracer.start_as_current_span("holdfast.hold", attributes=about))
        block.push_async_exit(holding)
        span.set_attribute("holdfast.fence", entered.fence)
        yield entered

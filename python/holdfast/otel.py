"""Spans and metrics of OpenTelemetry: `pip install holdfast-lock[otel]`.

    holdfast.otel.instrument()

makes spans and metrics of everything, without a change to the program. `opentelemetry-instrument`
does so by itself.

    with holdfast.otel.hold(client.lock("stock"), timeout=5) as hold:
        write(hold.fence)

is for a program without instrument(), and makes a span "holdfast.wait" until the acquire ends, and
then a span "holdfast.hold" until the release. Both have the attribute holdfast.lock, and the second
also has holdfast.fence. They record the exceptions raised in them. The program's TracerProvider
decides where they go.

    holdfast.otel.observe(main=client)

makes instruments of Client.stats(), which the program's MeterProvider reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import CallbackOptions, Observation
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.otel needs opentelemetry-api, which comes with holdfast-lock[otel]",
        name=missing.name,
    ) from missing

import holdfast

from . import _tracing
from ._client import clients_here
from ._spans import Spans
from ._stats import buckets, shown

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
    if _tracing.on:
        with lock.hold(timeout, **options) as hold:
            yield hold
        return
    with contextlib.ExitStack() as block:  # releases if a sampler or a processor fails
        with _tracer.start_as_current_span("holdfast.wait", attributes=about):
            hold = block.enter_context(lock.hold(timeout, **options))
        span = _tracer.start_span("holdfast.hold", attributes=about)
        holding = block.pop_all()
    with trace.use_span(span, end_on_exit=True), holding:
        span.set_attribute("holdfast.fence", hold.fence)
        yield hold


@contextlib.asynccontextmanager
async def ahold(
    lock: holdfast.AsyncLock, timeout: float | None = None, **options: Any
) -> AsyncIterator[holdfast.AsyncHold]:
    """Do the same for a task: `async with holdfast.otel.ahold(client.aio.lock("stock"))`."""
    about = _about(lock.name)
    if _tracing.on:
        async with lock.hold(timeout, **options) as hold:
            yield hold
        return
    async with contextlib.AsyncExitStack() as block:  # releases if a sampler or a processor fails
        with _tracer.start_as_current_span("holdfast.wait", attributes=about):
            hold = await block.enter_async_context(lock.hold(timeout, **options))
        span = _tracer.start_span("holdfast.hold", attributes=about)
        holding = block.pop_all()
    with trace.use_span(span, end_on_exit=True):
        async with holding:
            span.set_attribute("holdfast.fence", hold.fence)
            yield hold


# ------------------------------------------------------------------ Without code

_spans: Spans | None = None
_observed = False


def instrument(
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Make spans and metrics of everything, from now on: call this once, before the work begins.

    tracer_provider  Where spans go; None: the global one.
    meter_provider   Where the instruments of observe() are made, for all clients of this process,
                     each by its client_name; None: the global one.

    Every acquire of locks, permits, several locks, gates and once(), by a call, a `with` block, a
    decorator or a framework, has a span "holdfast.wait"; a `with` block has a span "holdfast.hold"
    from there to the release, a call that once() makes "holdfast.call", and the term of a leader
    "holdfast.lead". They have the attributes holdfast.lock and holdfast.fence, and are current
    while the program's own code runs. A try that finds the lock busy has holdfast.outcome "busy",
    and is no error; for once() it is "mine" if the caller makes the call, or else the outcome
    of the call. Each hold has the trace id in its note.
    """
    global _spans, _observed
    if _spans is None:
        _spans = Spans(trace.get_tracer("holdfast", holdfast.__version__, tracer_provider))
        _spans.install()
    if not _observed:
        _observed = True  # an instrument stays with its provider
        _observe(meter_provider, clients_here)


def uninstrument() -> None:
    """Make no more spans. The instruments of the metrics stay."""
    global _spans
    if _spans is not None:
        _spans.remove()
        _spans = None


class Instrumentor:
    """For `opentelemetry-instrument`, which finds this class by its entry point."""

    def instrument(self, **options: Any) -> None:
        """Make spans and metrics."""
        instrument(options.get("tracer_provider"), options.get("meter_provider"))

    def uninstrument(self, **options: Any) -> None:
        """Make no more spans."""
        uninstrument()


# ------------------------------------------------------------------------ Metrics

_LEVELS = {
    "held": "Holds that may still be on the server",
    "waiting": "Acquires in a queue",
}
_COUNTS = {
    "acquired": "Acquires that got the lock",
    "queued": "Acquires that got the lock after they had a place in its queue",
    "answered": "Acquires of once() that got the outcome of another call, by outcome",
    "refused": "Acquires that did not get the lock, by cause",
    "failed": "Acquires that failed without learning the state of the lock, by cause",
    "released": "Holds that a call released",
    "kept": "Holds that keep the lock after their work",
    "lost": "Holds that were lost before a call released them, by cause",
    "begun": "Calls that were made at most once, and whose record was written",
    "finished": "Calls made for once() that ended, by outcome",
    "renewed": "Renewals in the background",
    "alarms": "How often the alarm was raised",
}
_TIMES = {
    "wait": "For how long acquires that got the lock had waited for it",
    "hold": "For how long locks were held",
}
_CONNECTIONS = {
    "connections": "Connections that were opened",
    "reconnects": "Connections that were opened in place of one that broke",
    "unconfirmed": "Releases that did not wait for their answer, which was not as expected",
}

_Read = Callable[[holdfast.Stats], Iterator[Observation]]


def observe(provider: metrics.MeterProvider | None = None, /, **clients: holdfast.Client) -> None:
    """Make instruments of the clients' stats(), each client by a name; once for a provider.

    Without a provider they are instruments of the global provider. They are the metrics of
    holdfast.prometheus, as holdfast.held, holdfast.acquired and so on, with the attributes client,
    lock, cause and outcome. OpenTelemetry cannot take a histogram that was measured elsewhere:
    holdfast.wait and holdfast.hold are the sums of the times, in seconds, and holdfast.wait.bucket
    and holdfast.hold.bucket count the times up to the attribute `le`, cumulative. Closed clients
    are left out.
    """
    _observe(provider, clients.items)


def _observe(
    provider: metrics.MeterProvider | None,
    clients: Callable[[], Iterable[tuple[str, holdfast.Client]]],
) -> None:
    meter = metrics.get_meter("holdfast", holdfast.__version__, provider)

    def callback(read: _Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(_: CallbackOptions) -> Iterator[Observation]:
            for name, client in clients():
                with contextlib.suppress(holdfast.ClosedError):
                    for each in read(client.stats()):
                        yield Observation(each.value, {"client": name, **(each.attributes or {})})

        return observed

    for field, what in _LEVELS.items():
        meter.create_observable_up_down_counter(
            f"holdfast.{field}", [callback(_counts(field))], description=what
        )
    for field, what in _COUNTS.items():
        meter.create_observable_counter(
            f"holdfast.{field}", [callback(_counts(field))], description=what
        )
    for field, what in _TIMES.items():
        meter.create_observable_counter(
            f"holdfast.{field}", [callback(_sums(field))], unit="s", description=what
        )
        meter.create_observable_counter(
            f"holdfast.{field}.bucket", [callback(_buckets(field))], description=what
        )
    for field, what in _CONNECTIONS.items():
        meter.create_observable_counter(
            f"holdfast.{field}", [callback(_connections(field))], description=what
        )


def _locks(stats: holdfast.Stats) -> Iterator[tuple[dict[str, str], holdfast.Counts]]:
    yield {"lock": ""}, stats.others
    for name, counts in stats.names.items():
        yield {"lock": shown(name)}, counts


def _counts(field: str) -> _Read:
    by = "outcome" if field in {"answered", "finished"} else "cause"

    def read(stats: holdfast.Stats) -> Iterator[Observation]:
        for about, counts in _locks(stats):
            value = getattr(counts, field)
            if isinstance(value, int):
                yield Observation(value, about)
            else:
                yield from (Observation(n, {**about, by: c}) for c, n in value.items())

    return read


def _sums(field: str) -> _Read:
    def read(stats: holdfast.Stats) -> Iterator[Observation]:
        for about, counts in _locks(stats):
            yield Observation(getattr(counts, field).sum, about)

    return read


def _buckets(field: str) -> _Read:
    def read(stats: holdfast.Stats) -> Iterator[Observation]:
        for about, counts in _locks(stats):
            for bound, count in buckets(getattr(counts, field)):
                yield Observation(count, {**about, "le": bound})

    return read


def _connections(field: str) -> _Read:
    def read(stats: holdfast.Stats) -> Iterator[Observation]:
        yield Observation(getattr(stats, field))

    return read

"""holdfast.otel.instrument(): spans and metrics of everything, without a change to the program."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast
import holdfast.otel
from conftest import Server, Thread, elsewhere, until
from holdfast._spans import Spans

READER = InMemoryMetricReader()  # instruments stay with the provider of the first instrument()
METERS = MeterProvider([READER])


class Seen:
    """The spans that have ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    def __call__(self) -> list[str]:
        return [span.name.removeprefix("holdfast.") for span in self.exporter.get_finished_spans()]

    def one(self, name: str) -> ReadableSpan:
        (found,) = (
            span for span in self.exporter.get_finished_spans() if span.name == f"holdfast.{name}"
        )
        return found

    def about(self, name: str) -> dict[str, object]:
        return dict(self.one(name).attributes or {})

    def clear(self) -> None:
        self.exporter.clear()


@pytest.fixture
def seen() -> Iterator[Seen]:
    seen = Seen()
    (entry,) = entry_points(group="opentelemetry_instrumentor", name="holdfast")
    instrumentor = entry.load()()  # as opentelemetry-instrument does
    instrumentor.instrument(tracer_provider=seen.provider, meter_provider=METERS)
    yield seen
    instrumentor.uninstrument()


def current() -> str:
    span = trace.get_current_span()
    assert isinstance(span, ReadableSpan)
    return span.name


class Fails(SpanProcessor):
    """A processor that fails at each span of a hold."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if span.name == "holdfast.hold":
            raise KeyError("processor")


@pytest.mark.parametrize("task", [False, True])
def test_ctrl_c_as_a_span_ends_leaves_nothing_held(
    client: holdfast.Client, name: str, seen: Seen, monkeypatch: pytest.MonkeyPatch, task: bool
) -> None:
    def interrupted(spans: Spans, entered: object) -> None:
        raise KeyboardInterrupt

    async def leave_as_task() -> None:
        async with client.aio.lock(name):
            pass

    def leave() -> None:
        if task:
            asyncio.run(leave_as_task())
        else:
            with client.lock(name):
                pass

    monkeypatch.setattr(Spans, "_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        elsewhere(leave)  # the span stays the current one there
    assert not client.lock(name).locked()


def test_a_span_that_fails_to_begin_leaves_nothing_held(
    client: holdfast.Client, name: str, seen: Seen
) -> None:
    lock = client.lock(name)
    seen.provider.add_span_processor(Fails())

    async def as_task() -> None:
        with pytest.raises(KeyError):
            async with client.aio.lock(name):
                raise AssertionError("inside")

    for make in (lambda: lock, lock.hold, lambda: client.locks_all(name, name + "2")):
        with pytest.raises(KeyError), make():
            raise AssertionError("inside")
        assert not lock.locked()
    asyncio.run(as_task())
    assert not lock.locked()


def test_spans_leave_a_block_to_its_own_generator(
    client: holdfast.Client, name: str, seen: Seen
) -> None:
    seats = client.lock(name, permits=3).shared()

    @contextlib.contextmanager
    def seat() -> Iterator[holdfast.Hold]:
        with seats as hold:
            yield hold

    one, other, third = seat(), seat(), seat()
    with ThreadPoolExecutor(1) as pool:
        first, second = (pool.submit(each.__enter__).result() for each in (one, other))
        last = pool.submit(third.__enter__).result()
        pool.submit(other.__exit__, None, None, None).result()
        assert (first.valid, second.valid, last.valid) == (True, False, True)
        for each in (one, third):
            pool.submit(each.__exit__, None, None, None).result()
    assert not seats.locked()


def test_a_hold_has_spans_in_every_form(client: holdfast.Client, name: str, seen: Seen) -> None:
    lock = client.lock(name)
    with lock as hold:
        assert current() == "holdfast.hold"
        fence = hold.fence
        assert seen() == ["wait"]
    assert seen() == ["wait", "hold"]
    assert seen.about("wait") == {"holdfast.lock": name}
    assert seen.about("hold") == {"holdfast.lock": name, "holdfast.fence": fence}
    seen.clear()

    with lock.hold(5):
        assert current() == "holdfast.hold"
    assert seen() == ["wait", "hold"]
    seen.clear()

    assert lock.acquire()
    lock.release()
    assert seen() == ["wait"]
    seen.clear()

    with client.locks_all(name, f"{name}:b") as holds:
        fences = list(holds.fences.values())
    assert seen() == ["wait", "hold"]
    assert seen.about("wait") == {"holdfast.lock": f"{name}, {name}:b"}
    assert seen.about("hold") == {
        "holdfast.lock": f"{name}, {name}:b",
        "holdfast.fence": tuple(fences),
    }
    assert not isinstance(trace.get_current_span(), ReadableSpan)


def test_a_note_has_the_trace_id(client: holdfast.Client, name: str, seen: Seen) -> None:
    lock = client.lock(name)
    with seen.tracer.start_as_current_span("request") as span, lock:
        trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        assert lock.inspect().holders[0].note == f"trace={trace_id}"
    hold = seen.one("hold")
    assert hold.parent is not None
    assert hold.parent.span_id == span.get_span_context().span_id


def test_what_fails_is_seen_in_the_spans(client: holdfast.Client, name: str, seen: Seen) -> None:
    lock, other = client.lock(name), client.lock(name, owner="other")
    with pytest.raises(KeyError), lock:
        raise KeyError("work")
    (event,) = seen.one("hold").events
    assert event.name == "exception"
    assert seen.one("hold").status.status_code is trace.StatusCode.ERROR
    with lock:
        seen.clear()
        with pytest.raises(holdfast.LockTimeout):
            other.hold(0.01)
        assert seen.one("wait").status.status_code is trace.StatusCode.ERROR
        seen.clear()
        assert not other.acquire(blocking=False)  # a try is no error
        assert seen.one("wait").status.status_code is trace.StatusCode.UNSET
        assert seen.about("wait")["holdfast.outcome"] == "busy"


def test_decorators_and_once_have_spans(client: holdfast.Client, name: str, seen: Seen) -> None:
    @client.locked(f"{name}:locked")
    def work() -> str:
        return current()

    @client.once_per(f"{name}:period", 100)
    def periodic() -> str:
        return current()

    assert work() == "holdfast.hold"
    assert periodic() == "holdfast.hold"
    assert seen() == ["wait", "hold", "wait", "hold"]
    seen.clear()
    assert client.once(f"{name}:once", current, ttl=10) == "holdfast.call"
    assert seen() == ["wait", "call"]
    assert seen.about("wait")["holdfast.outcome"] == "mine"
    assert set(seen.about("call")) == {"holdfast.lock", "holdfast.fence"}
    seen.clear()
    assert client.once(f"{name}:once", current, ttl=10) == "holdfast.call"
    assert seen() == ["wait"]
    assert seen.about("wait")["holdfast.outcome"] == "done"


def test_gates_and_leaders_have_spans(client: holdfast.Client, name: str, seen: Seen) -> None:
    gate = client.gate(f"{name}:gate", limit=1, per=60)
    gate.enter()
    with pytest.raises(holdfast.GateFull):
        gate.enter()
    assert seen() == ["wait", "wait"]
    seen.clear()

    led: list[str] = []
    done = threading.Event()

    def lead(fence: int) -> None:
        led.append(current())
        done.set()

    with client.leader(f"{name}:leader", lead):
        assert done.wait(20)
    assert led == ["holdfast.lead"]
    assert seen() == ["lead"]


def test_tasks_have_spans(client: holdfast.Client, name: str, seen: Seen) -> None:
    async def work() -> None:
        lock = client.aio.lock(name)
        async with lock:
            assert current() == "holdfast.hold"
        async with lock.hold(5) as hold:
            assert current() == "holdfast.hold"
            assert hold.fence
        assert seen() == ["wait", "hold", "wait", "hold"]
        seen.clear()
        async with await lock.hold():
            assert current() == "holdfast.hold"
        async with client.aio.locks_all(name, f"{name}:b"):
            assert current() == "holdfast.hold"
        assert seen() == ["wait", "hold", "wait", "hold"]
        seen.clear()

        async def call() -> str:
            return current()

        assert await client.aio.once(f"{name}:once", call, ttl=10) == "holdfast.call"
        assert seen() == ["wait", "call"]
        seen.clear()

        inside: list[tuple[str, str]] = []

        async def one(number: int) -> None:
            async with lock:
                before = trace.get_current_span()
                await asyncio.sleep(0)
                assert trace.get_current_span() is before
                inside.append((current(), str(number)))

        await asyncio.gather(*(one(number) for number in range(5)))
        assert len(inside) == 5
        assert sorted(seen()) == ["hold"] * 5 + ["wait"] * 5

    asyncio.run(work())


def test_a_framework_has_spans(server: Server, name: str, seen: Seen) -> None:
    pytest.importorskip("fastapi")
    from fastapi import FastAPI

    from holdfast.contrib.fastapi import Locked, lifespan

    app = FastAPI()

    @app.get("/{item}", dependencies=[Locked(f"{name}:{{item}}")])
    async def work(item: str) -> str:
        return item  # FastAPI's own span is current here, if it makes one

    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def request() -> None:
        scope = {"type": "http", "method": "GET", "path": "/7", "query_string": b"", "headers": []}
        async with lifespan(server.tcp)(app):
            await app(scope, receive, send)

    asyncio.run(request())
    assert sent[-1]["body"] == b'"7"'
    assert seen() == ["wait", "hold"]
    assert seen.about("hold")["holdfast.lock"] == f"{name}:7"


def test_threads_in_one_lock_have_their_own_spans(
    client: holdfast.Client, name: str, seen: Seen
) -> None:
    lock = client.lock(name).shared()
    all_inside = threading.Barrier(3)

    def work() -> int:
        with lock as hold:
            all_inside.wait(20)
            assert current() == "holdfast.hold"
            return hold.fence

    fences = {thread.finish() for thread in [Thread(work) for _ in range(3)]}
    spans = seen.exporter.get_finished_spans()
    held = {(span.attributes or {})["holdfast.fence"] for span in spans if "hold" in span.name[9:]}
    assert held == fences


def test_a_block_that_another_thread_leaves_ends_its_span(
    client: holdfast.Client, name: str, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    hold = client.lock(name).hold()
    Thread(hold.__enter__).finish()
    Thread(lambda: hold.__exit__(None, None, None)).finish()
    assert "hold" in seen()
    assert not caplog.records


def test_all_clients_are_counted(client: holdfast.Client, name: str, seen: Seen) -> None:
    with client.lock(name):
        pass

    def acquired() -> int:
        data = READER.get_metrics_data()
        assert data is not None
        return sum(
            int(point.value)  # type: ignore[union-attr, misc]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == "holdfast.acquired"
            for point in metric.data.data_points
        )

    before = acquired()
    assert before >= 1
    with client.lock(name):
        pass
    until(lambda: acquired() == before + 1)


def test_without_it_nothing_is_changed(client: holdfast.Client, name: str, seen: Seen) -> None:
    holdfast.otel.uninstrument()
    with client.lock(name) as hold:
        assert client.lock(name).inspect().holders[0].note == ""
        assert hold.fence
    assert seen() == []
    assert "_spans" not in holdfast.Lock.__enter__.__module__

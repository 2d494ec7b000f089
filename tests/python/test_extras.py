"""The extras: spans for OpenTelemetry, counts for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import prometheus_client
import pytest
import redis
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast
import holdfast.otel
import holdfast.prometheus

_exporter = InMemorySpanExporter()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_exporter))
trace.set_tracer_provider(_provider)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    _exporter.clear()
    yield _exporter
    _exporter.clear()


def ended(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    return list(spans.get_finished_spans())


def test_a_wait_and_a_hold_are_spans_one_after_the_other(
    lock: holdfast.Lock, name: str, spans: InMemorySpanExporter
) -> None:
    with trace.get_tracer("test").start_as_current_span("outer") as outer:
        with holdfast.otel.hold(lock, timeout=5, owner="me") as hold:
            assert lock.inspect().owner == "me"
            within = trace.get_current_span().get_span_context()
        assert not hold.valid
    wait, held, _ = ended(spans)
    assert [wait.name, held.name] == ["holdfast.wait", "holdfast.hold"]
    assert wait.attributes == {"holdfast.lock": name}
    assert held.attributes == {"holdfast.lock": name, "holdfast.fence": hold.fence}
    assert held.context == within
    for span in (wait, held):
        assert span.parent == outer.get_span_context()
        assert span.status.is_ok
    assert (wait.end_time or 0) <= (held.start_time or 0)


def test_a_wait_in_vain_is_a_span_with_an_error(
    lock: holdfast.Lock, stranger: holdfast.Lock, spans: InMemorySpanExporter
) -> None:
    with stranger, pytest.raises(holdfast.LockTimeout), holdfast.otel.hold(lock, timeout=0.01):
        raise AssertionError("without the lock")
    (wait,) = ended(spans)
    assert wait.status.status_code is trace.StatusCode.ERROR
    assert "LockTimeout" in (wait.status.description or "")
    assert [event.name for event in wait.events] == ["exception"]


def test_a_lost_hold_is_a_span_with_an_error(
    lock: holdfast.Lock, name: str, raw: redis.Redis, spans: InMemorySpanExporter
) -> None:
    with pytest.raises(holdfast.LockLost), holdfast.otel.hold(lock):
        raw.delete(name)
    assert [span.status.is_ok for span in ended(spans)] == [True, False]
    assert "LockLost" in (ended(spans)[1].status.description or "")


def test_tasks_have_spans_too(
    client: holdfast.Client,
    name: str,
    stranger: holdfast.Lock,
    raw: redis.Redis,
    spans: InMemorySpanExporter,
) -> None:
    lock = client.aio.lock(name.encode())

    async def main() -> None:
        async with holdfast.otel.ahold(lock, timeout=5) as hold:
            assert await lock.locked()
        assert hold.state == "released"
        with stranger, pytest.raises(holdfast.LockTimeout):
            async with holdfast.otel.ahold(lock, timeout=0.01):
                raise AssertionError("without the lock")
        with pytest.raises(holdfast.LockLost):
            async with holdfast.otel.ahold(lock):
                raw.delete(name)

    asyncio.run(main())
    told = [(span.name, span.status.is_ok) for span in ended(spans)]
    assert told == [
        ("holdfast.wait", True),
        ("holdfast.hold", True),
        ("holdfast.wait", False),
        ("holdfast.wait", True),
        ("holdfast.hold", False),
    ]
    assert (ended(spans)[0].attributes or {})["holdfast.lock"] == name


def test_prometheus_reads_what_clients_count(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    registry = prometheus_client.CollectorRegistry()
    registry.register(holdfast.prometheus.Collector(main=client))

    def value(what: str) -> float | None:
        return registry.get_sample_value(f"holdfast_{what}", {"client": "main"})

    with lock:
        assert stranger.acquire(blocking=False) is False
        assert (value("held"), value("waiting"), value("acquired_total")) == (1, 0, 1)
    assert (value("held"), value("released_total"), value("refused_total")) == (0, 1, 1)
    text = prometheus_client.generate_latest(registry).decode()
    assert 'holdfast_waited_seconds_total{client="main"} 0.0' in text
    for field in holdfast.Stats.__dataclass_fields__:
        assert f"# HELP holdfast_{field}" in text

    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(holdfast.prometheus.Collector(main=client))
    client.close()
    assert value("held") is None

"""The extras: spans for OpenTelemetry, counts for Prometheus."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import prometheus_client
import pytest
import redis
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast
import holdfast.otel
import holdfast.prometheus
import holdfast.testing
from conftest import held

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


class Fails(SpanProcessor):
    """A processor that fails at the start or the end of each span with this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if span.name == self._name == "holdfast.hold":
            raise KeyError("processor")

    def on_end(self, span: ReadableSpan) -> None:
        if span.name == self._name == "holdfast.wait":
            raise KeyError("processor")


@pytest.mark.parametrize("fails", ["holdfast.hold", "holdfast.wait"])
def test_a_span_that_fails_leaves_nothing_held(
    fails: str, client: holdfast.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(Fails(fails))
    monkeypatch.setattr(holdfast.otel, "_tracer", provider.get_tracer("test"))
    with pytest.raises(KeyError) as kept, holdfast.otel.hold(client.lock(name)):
        raise AssertionError("without a span")
    assert not client.lock(name).locked(), kept

    async def main() -> None:
        async with holdfast.otel.ahold(client.aio.lock(name)):
            raise AssertionError("without a span")

    with pytest.raises(KeyError) as kept:
        asyncio.run(main())
    assert not client.lock(name).locked(), kept


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
        with held(stranger), pytest.raises(holdfast.LockTimeout):
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


def test_opentelemetry_reads_what_clients_count(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock, name: str
) -> None:
    reader = InMemoryMetricReader()
    closed = holdfast.testing.MemoryClient()
    closed.close()
    holdfast.otel.observe(MeterProvider([reader]), main=client, closed=closed)
    client.lock(f"{name} 2", count_name=True).hold().release()
    with lock:
        assert stranger.acquire(blocking=False) is False
        data: Any = reader.get_metrics_data()
        told: dict[Any, float] = {
            (metric.name, *sorted(point.attributes.items())): point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }

    def value(metric: str, lock: str = "", **about: str) -> float:
        attributes = {"client": "main", "lock": lock, **about}
        return told[(f"holdfast.{metric}", *sorted(attributes.items()))]

    assert (value("held"), value("waiting"), value("acquired")) == (1, 0, 1)
    assert (value("refused", cause="busy"), value("lost", cause="gone")) == (1, 0)
    assert (value("held", f"{name} 2"), value("released", f"{name} 2")) == (0, 1)
    assert value("wait") > 0
    assert value("wait.bucket", le="+Inf") == 1
    assert value("hold.bucket", f"{name} 2", le="+Inf") == 1
    assert value("wait.bucket", le="0.000064") in {0, 1}
    assert told[("holdfast.connections", ("client", "main"))] >= 1
    assert not [about for _, *about in told if ("client", "closed") in about]


def test_prometheus_reads_what_clients_count(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    registry = prometheus_client.CollectorRegistry()
    registry.register(holdfast.prometheus.Collector(main=client))

    def value(what: str, lock: str = "", **labels: str) -> float | None:
        labels = {"client": "main", "lock": lock, **labels}
        return registry.get_sample_value(f"holdfast_{what}", labels)

    named = client.lock(b"\\\xff", count_name=True)
    with lock, named:
        assert stranger.acquire(blocking=False) is False
        assert (value("held"), value("waiting"), value("acquired_total")) == (1, 0, 1)
        assert value("refused_total", cause="busy") == 1
        assert value("refused_total", cause="timeout") == 0
        assert value("held", r"\\\xff") == 1  # the backslash of the name, and its byte
    assert (value("held"), value("released_total")) == (0, 1)
    assert value("lost_total", cause="gone") == 0
    assert value("failed_total", cause="unreachable") == 0
    assert value("wait_seconds_count") == value("hold_seconds_bucket", le="+Inf") == 1
    assert value("hold_seconds_sum") == client.stats().others.hold.sum > 0
    connections = registry.get_sample_value("holdfast_connections_total", {"client": "main"})
    assert connections == client.stats().connections >= 1
    text = prometheus_client.generate_latest(registry).decode()
    assert 'holdfast_reconnects_total{client="main"} 0.0' in text
    for field in {each.name for each in dataclasses.fields(holdfast.Stats)} - {"names", "others"}:
        assert f"# HELP holdfast_{field}" in text

    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(holdfast.prometheus.Collector(main=client))
    client.close()
    assert value("held") is None


def test_prometheus_buckets_are_cumulative_and_have_their_bounds(
    client: holdfast.Client, name: str
) -> None:
    registry = prometheus_client.CollectorRegistry()
    registry.register(holdfast.prometheus.Collector(main=client))
    hold = client.lock(name).hold()
    time.sleep(0.02)
    hold.release()
    counts: dict[str, float] = {}
    for metric in registry.collect():
        if metric.name == "holdfast_hold_seconds":
            assert metric.type == "histogram"
            counts = {
                each.labels["le"]: each.value for each in metric.samples if "le" in each.labels
            }
    assert list(counts)[:2] == ["0.000064", "0.000128"]
    assert counts["0.016384"] == 0  # up to 16 ms
    assert counts["2147.483648"] == counts["+Inf"] == 1
    assert sorted(counts.values()) == list(counts.values())

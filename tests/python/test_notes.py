"""A note beside the owner: LockOptions.note, and the trace id of OpenTelemetry."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import holdfast
from conftest import Thread, until

SPANS = TracerProvider().get_tracer("test")


def note_of(lock: holdfast.Lock) -> str:
    return lock.inspect().holders[0].note


def test_a_note_is_shown_of_holders_and_waiters(client: holdfast.Client, name: str) -> None:
    plain = client.lock(name, owner="another")
    with client.lock(name, note="refund 17: grüße"):
        assert note_of(plain) == "refund 17: grüße"
        other = Thread(lambda: client.lock(name, note="refund 18").hold(30).release())
        until(lambda: plain.inspect().queue)
        assert [(each.note, each.timeout) for each in plain.inspect().queue] == [("refund 18", 30)]
        with pytest.raises(holdfast.LockTimeout, match="noted 'refund 17: ") as busy:
            plain.hold(1)  # long enough to queue, whatever the pause of the machine
        assert [each.note for each in busy.value.holders] == ["refund 17: grüße"]
    other.finish()
    with plain:
        assert note_of(plain) == ""


def test_a_nested_hold_has_the_note_of_the_outer_one(client: holdfast.Client, name: str) -> None:
    outer, inner = client.lock(name, note="outer"), client.lock(name, note="inner")
    with outer, inner:
        assert note_of(inner) == "outer"
        assert inner.inspect().holders[0].count == 2
    with inner:
        assert note_of(inner) == "inner"


def test_a_task_has_a_note_too(client: holdfast.Client, name: str) -> None:
    async def work() -> str:
        async with client.aio.lock(name, note="refund 17") as hold:
            assert hold.fence
            return (await client.aio.lock(name).inspect()).holders[0].note

    assert asyncio.run(work()) == "refund 17"


def test_several_locks_and_decorated_functions_have_a_note(
    client: holdfast.Client, name: str
) -> None:
    with client.locks_all(name, name + ":b", note="refund 17"):
        assert {note_of(client.lock(each)) for each in (name, name + ":b")} == {"refund 17"}

    @client.locked(name, note="report")
    def report() -> str:
        return note_of(client.lock(name))

    assert report() == "report"
    found = client.once(name, lambda: note_of(client.lock(name)), ttl=10, note="charge 42 EUR")
    assert found == "charge 42 EUR"


def test_the_trace_id_of_a_span_is_noted(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, note="refund 17")
    with SPANS.start_as_current_span("work") as span:
        trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        with lock:
            assert note_of(lock) == f"refund 17 trace={trace_id}"
        with lock.hold():
            assert note_of(lock) == f"refund 17 trace={trace_id}"

        async def work() -> str:
            async with client.aio.lock(name, note="refund 18"):
                return (await client.aio.lock(name).inspect()).holders[0].note

        assert asyncio.run(work()) == f"refund 18 trace={trace_id}"
        with client.lock(name):  # without a note nothing is added
            assert note_of(lock) == ""
    with lock:
        assert note_of(lock) == "refund 17"


def test_a_wrong_note_is_refused(client: holdfast.Client, name: str) -> None:
    with pytest.raises(TypeError, match="note must be str, not 17"):
        client.lock(name, note=17)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="note has 1025 bytes: at most 1024"):
        client.lock(name, note="x" * 1025)
    with client.lock(name, note=""):
        assert note_of(client.lock(name)) == ""
    with pytest.raises(ValueError, match="the owner and the note have 4100 bytes together"):
        client.lock(name, owner="o" * 4090, note="x" * 10).hold(0)


def test_a_kept_hold_is_shown_as_kept(client: holdfast.Client, name: str) -> None:
    lock, other = client.lock(name, note="nightly"), client.lock(name, owner="other")
    hold = lock.hold()
    assert not other.inspect().kept
    hold.keep(90)
    info = other.inspect()
    assert info.kept
    (holder,) = info.holders
    assert (holder.kept, holder.note, holder.fence) == (True, "nightly", hold.fence)
    assert holder.remaining is not None
    assert 60 < holder.remaining <= 90
    with pytest.raises(holdfast.LockTimeout, match="whose work has ended, keeps it for") as busy:
        other.hold(1)
    assert [each.kept for each in busy.value.holders] == [True]

    @client.once_per(f"{name}:period", 90)
    def work() -> bool:
        return client.lock(f"{name}:period").inspect().kept

    assert work() is False
    assert client.lock(f"{name}:period").inspect().kept

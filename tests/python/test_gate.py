"""Gates: at most a number of passes in any period of that length."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import redis

import holdfast
from conftest import Server, Thread, until


def test_so_many_pass_and_no_more(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=3, per=60)
    assert gate.free_in() == 0
    for _ in range(3):
        gate.enter()
    assert not gate.try_enter()
    assert not gate.try_enter(timeout=0.02)
    with pytest.raises(holdfast.GateFull):
        gate.enter(timeout=0.02)
    with pytest.raises(holdfast.GateFull, match=r"let pass 3 in 60 s") as full:
        gate.enter()
    assert 30 < full.value.retry_after <= 60.001
    assert isinstance(full.value, holdfast.LockTimeout)
    assert 30 < gate.free_in() <= 60.001
    assert client.gate(name, limit=4, per=60).try_enter()


def test_a_full_gate_has_its_name_the_wait_and_the_holders(
    client: holdfast.Client, name: str
) -> None:
    async def enter() -> None:
        await client.aio.gate(name, limit=1, per=60).enter(timeout=0.02)

    gate = client.gate(name, limit=1, per=60)
    gate.enter()
    for task in (False, True):
        with pytest.raises(holdfast.GateFull) as full:
            if task:
                asyncio.run(enter())
            else:
                gate.enter(timeout=0.02)
        assert (full.value.name, full.value.waited) == (name, 0.02)
        (holder,) = full.value.holders
        assert (holder.weight, holder.remaining is not None) == (1, True)


def test_a_heavy_pass_takes_its_weight(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=5, per=60)
    gate.enter(weight=3)
    assert gate.free_in(weight=2) == 0
    assert 30 < gate.free_in(weight=3) <= 60.001
    assert not gate.try_enter(weight=3)
    with pytest.raises(holdfast.GateFull, match="a pass of 4 may be free") as full:
        gate.enter(weight=4)
    assert full.value.retry_after > 30
    gate.enter(weight=2)
    assert not gate.try_enter()
    for wrong in (0, -1, 6):
        with pytest.raises(ValueError, match="weight"):
            gate.enter(weight=wrong)


def test_a_heavy_pass_is_free_when_enough_have_ended(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=3, per=60)
    brief = client.lock(name, lease=30, permits=3, renew=False, reentrant=False)
    gate.enter(weight=2)
    with brief.shared().hold(timeout=0):
        assert 10 < gate.free_in() <= 30.001
        assert 30.001 < gate.free_in(weight=2) <= 60.001
    assert gate.free_in() == 0


def test_a_gate_without_numbers_follows_the_stored_rate(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name)
    assert "limit" not in repr(gate)
    for limit in (None, 4):
        if limit:
            client.limit(name, permits=limit)
        with pytest.raises(holdfast.LimitDiffers, match="no rate is stored"):
            gate.enter()
        with pytest.raises(holdfast.LimitDiffers, match="no rate is stored"):
            gate.free_in()
    client.limit(name, rate=(3, 60))
    gate.enter(weight=2)
    assert gate.free_in() == 0
    gate.enter(timeout=20)
    with pytest.raises(holdfast.GateFull, match=r"let pass 3 in 60 s") as full:
        gate.enter()
    assert 30 < full.value.retry_after <= 60.001
    assert not client.gate(name, limit=3, per=60).try_enter()
    assert not client.gate(name).try_enter(timeout=0.02)
    client.limit(name, rate=(4, 30))
    gate.enter()
    with pytest.raises(holdfast.LimitDiffers, match="takes 5"):
        gate.enter(weight=5)
    with pytest.raises(TypeError, match="both limit and per, or neither"):
        client.gate(name, limit=3)
    with pytest.raises(TypeError, match="both limit and per, or neither"):
        client.gate(name, per=3)


def test_a_task_follows_the_stored_rate(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        await client.aio.limit(name, rate=(3, 60))
        gate = client.aio.gate(name)
        await gate.enter(weight=2)
        assert not await gate.try_enter(weight=2)
        assert await gate.free_in() == 0
        assert await gate.free_in(weight=2) > 30
        await gate.enter(timeout=20)
        with pytest.raises(holdfast.GateFull):
            await gate.enter(timeout=0.02)

    asyncio.run(main())


def test_a_pass_is_free_again_after_its_time(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=2, per=0.5)
    passed = 0
    began = time.monotonic()
    waits: list[float] = []
    while passed < 6:
        try:
            gate.enter()
            passed += 1
        except holdfast.GateFull as full:
            waits.append(full.retry_after)
            time.sleep(full.retry_after)
    assert waits
    assert max(waits) <= 0.501
    assert time.monotonic() - began >= 2 * 0.5 - 0.05


def test_who_waits_passes_in_its_turn(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=1, per=0.5)
    began = time.monotonic()
    gate.enter()
    for _ in range(2):
        gate.enter(timeout=20)
    assert time.monotonic() - began >= 2 * 0.5 - 0.05


@pytest.mark.parametrize("task", [False, True])
def test_a_pass_that_was_waited_for_lasts_for_its_whole_time(
    client: holdfast.Client, name: str, raw: redis.Redis, task: bool
) -> None:
    async def enter() -> None:
        await client.aio.gate(name, limit=2, per=60).enter(timeout=20)

    with client.lock(name) as hold:
        gate = client.gate(name, limit=2, per=60)
        waiting = Thread(lambda: asyncio.run(enter()) if task else gate.enter(timeout=20))
        until(lambda: client.lock(name).inspect().queue)
        hold.check()
    waiting.finish()
    assert 30_000 < int(str(raw.pttl(name))) <= 60_000


@pytest.mark.parametrize("task", [False, True])
def test_a_pass_that_could_not_be_taken_is_given_back(
    client: holdfast.Client, name: str, monkeypatch: pytest.MonkeyPatch, task: bool
) -> None:
    granted = threading.Event()

    def fail(hold: holdfast.Hold) -> None:
        raise holdfast.LockUnknown("the answer was lost")

    async def wait(hold: holdfast.AsyncHold) -> None:
        granted.set()
        await asyncio.Event().wait()

    async def enter() -> None:
        entering = asyncio.create_task(client.aio.gate(name, limit=1, per=60).enter(timeout=20))
        while not granted.is_set():
            await asyncio.sleep(0.002)
        entering.cancel()
        await entering

    gate = client.gate(name, limit=1, per=60)
    with monkeypatch.context() as patch:
        patch.setattr(holdfast.Hold, "renew", fail)
        patch.setattr(holdfast.AsyncHold, "renew", wait)
        if task:
            with pytest.raises(asyncio.CancelledError):
                asyncio.run(enter())
        else:
            with pytest.raises(holdfast.LockUnknown):
                gate.enter(timeout=20)
    gate.enter(timeout=20)


def test_a_pass_outlives_its_client(server: Server, name: str) -> None:
    with holdfast.connect(server.tcp) as other:
        other.gate(name, limit=2, per=60).enter()
    with holdfast.connect(server.tcp) as client:
        gate = client.gate(name, limit=2, per=60)
        with client.lock(name, permits=9).shared():
            assert not gate.try_enter()  # any shared hold counts
        gate.enter()
        assert not gate.try_enter()


def test_a_pass_is_no_loss(client: holdfast.Client, name: str) -> None:
    client.gate(name, limit=1, per=0.5).enter()
    while client.lock(name).locked():
        time.sleep(0.01)
    time.sleep(0.05)
    stats = client.stats()
    assert sum(stats.lost.values()) == 0
    assert stats.held == 0


def test_the_lock_keeps_the_gate_shut(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=2, per=60)
    with client.lock(name, lease=30):
        with pytest.raises(holdfast.GateFull) as full:
            gate.enter()
        assert 10 < full.value.retry_after <= 30.001
    gate.enter()


def test_tasks_pass(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        gate = client.aio.gate(name, limit=3, per=60)
        assert sorted(await asyncio.gather(*(gate.try_enter() for _ in range(10)))) == (
            [False] * 7 + [True] * 3
        )
        with pytest.raises(holdfast.GateFull) as full:
            await gate.enter()
        assert 30 < full.value.retry_after <= 60.001
        assert 30 < await gate.free_in() <= 60.001
        waiting = asyncio.create_task(gate.enter(timeout=None))
        while not client.lock(name).inspect().queue:
            await asyncio.sleep(0.002)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        brief = client.aio.gate(name + "b", limit=1, per=0.5)
        await brief.enter()
        await brief.enter(timeout=20)

    asyncio.run(main())
    assert not client.gate(name, limit=3, per=60).try_enter()


@pytest.mark.parametrize(
    ("limit", "per"), [(0, 1), (1.5, 1), (1, 0), (1, -1), (1, "60"), (1, None)]
)
def test_wrong_limits_are_refused(
    client: holdfast.Client, name: str, limit: int, per: float
) -> None:
    for clients in (client, client.aio):
        with pytest.raises((ValueError, TypeError), match="limit|per"):
            clients.gate(name, limit, per)


@pytest.mark.redis
def test_an_outage_is_not_told_as_a_full_gate(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=1, per=60)
    client.close()
    with pytest.raises(holdfast.ClosedError):
        gate.enter()

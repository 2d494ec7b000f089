"""A server without replicas: an acquire that asks for one learns that there is none, and holds
nothing."""

from __future__ import annotations

import asyncio
import time

import pytest
import redis

import holdfast
from conftest import Server


def test_too_few_replicas_are_told_of(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    lock = client.lock(name, lease=5, replicas=1, replica_timeout=0.2)
    began = time.monotonic()
    with pytest.raises(holdfast.LockNotReplicated, match="0 of the 1 replicas") as caught:
        lock.acquire()
    assert caught.value.reached == 0
    assert time.monotonic() - began > 0.19
    assert not raw.exists(name)
    with pytest.raises(RuntimeError):
        lock.release()
    with pytest.raises(holdfast.LockNotReplicated), lock.hold(timeout=1):
        pass
    assert client.lock(name).acquire(blocking=False)
    assert not client.lock(name, owner="other", replicas=1).acquire(blocking=False)


def test_a_task_is_told_of_too_few_replicas(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, replicas=2, replica_timeout=0.1)
        with pytest.raises(holdfast.LockNotReplicated) as caught:
            await lock.acquire()
        assert caught.value.reached == 0
        assert not raw.exists(name)
        task = asyncio.create_task(lock.acquire())
        while not raw.exists(name) and not task.done():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, holdfast.LockNotReplicated)):
            await task
        assert not raw.exists(name)

    asyncio.run(main())


def test_a_cancelled_task_waits_for_the_replicas_and_leaves_nothing(
    client: holdfast.Client, name: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client._notices_here(), "answers", 0.1)

    async def main() -> None:
        lock = client.aio.lock(name, lease=60, replicas=1, replica_timeout=2)
        task = asyncio.create_task(lock.acquire())
        while not raw.exists(name) and not task.done():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, holdfast.LockNotReplicated)):
            await task
        assert not raw.exists(name)

    asyncio.run(main())


def test_the_url_has_the_number_of_locks_that_name_none(server: Server, name: str) -> None:
    with holdfast.connect(f"{server.tcp}?replicas=2") as picky:
        with pytest.raises(holdfast.LockNotReplicated, match="0 of the 2 replicas"):
            picky.lock(name, lease=1, replica_timeout=0.1).acquire()
        with pytest.raises(holdfast.LockNotReplicated, match="0 of the 1 replicas"):
            picky.lock(name, lease=1, replica_timeout=0.1, replicas=1).acquire()


@pytest.mark.parametrize("wrong", [{"replicas": -1}, {"replicas": 1, "replica_timeout": 0}])
def test_wrong_replicas_are_refused(
    wrong: dict[str, int], client: holdfast.Client, name: str
) -> None:
    with pytest.raises(ValueError, match="replica"):
        client.lock(name, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shorter than the lease"):
        client.lock(name, lease=1, replicas=1, replica_timeout=1)

"""The lock with redis.asyncio's interface, beside redis.asyncio's own: the same calls and
results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.lock

import holdfast
import holdfast.compat.redis_asyncio as compat
from conftest import Server, queue

Test = Callable[[Any], Awaitable[None]]


@pytest.fixture(params=[redis.asyncio.lock.Lock, compat.Lock], ids=["redis-py", "holdfast"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@asynccontextmanager
async def store(server: Server, **more: Any) -> AsyncIterator[Any]:
    client: Any = redis.asyncio.Redis.from_url(server.tcp, **more)
    try:
        yield client
    finally:
        await client.aclose()


@pytest.fixture
def run(server: Server) -> Callable[[Test], None]:
    """Run the test in an event loop, with a client."""

    def run(test: Test) -> None:
        async def main() -> None:
            async with store(server) as client:
                await asyncio.wait_for(test(client), 50)

        asyncio.run(main())

    return run


Run = Callable[[Test], None]


def test_it_takes_and_answers_what_redis_asyncio_does(run: Run, name: str, kind: Any) -> None:
    async def test(client: Any) -> None:
        lock = client.lock(name, timeout=10, lock_class=kind)
        assert isinstance(lock, kind)
        assert await lock.locked() is False
        assert await lock.owned() is False
        assert await lock.acquire() is True
        assert await lock.locked() is True
        assert await lock.owned() is True
        assert await lock.acquire(blocking=False) is False  # not reentrant
        assert await lock.extend(10) is True
        assert 15_000 < await client.pttl(name) <= 20_000
        assert await lock.extend(30, replace_ttl=True) is True
        assert 25_000 < await client.pttl(name) <= 30_000
        assert await lock.reacquire() is True
        assert 5_000 < await client.pttl(name) <= 10_000
        assert await lock.release() is None
        assert await lock.locked() is False
        assert await lock.owned() is False
        assert await client.exists(name) == 0

    run(test)


@pytest.mark.parametrize(
    "arguments",
    [
        {"blocking": False},
        {"blocking_timeout": 0},
        {"blocking_timeout": -1},
        {"blocking": True, "blocking_timeout": 0.05},
        {"blocking": False, "token": "mine"},
    ],
)
def test_a_held_lock_is_not_had(run: Run, name: str, kind: Any, arguments: dict[str, Any]) -> None:
    async def test(client: Any) -> None:
        holder, lock = kind(client, name, timeout=10), kind(client, name, 10, 0.01)
        assert await holder.acquire() is True
        began = time.monotonic()
        assert await lock.acquire(**arguments) is False
        assert time.monotonic() - began < 5
        await holder.release()
        assert await lock.acquire(**arguments) is True
        await lock.release()

    run(test)


@pytest.mark.parametrize("method", ["release", "reacquire", "extend"])
def test_who_does_not_hold_or_has_lost_it_is_refused(
    run: Run, name: str, kind: Any, method: str
) -> None:
    arguments = [1] if method == "extend" else []

    async def test(client: Any) -> None:
        lock = kind(client, name, timeout=10)
        with pytest.raises(redis.exceptions.LockError) as refused:
            await getattr(lock, method)(*arguments)
        assert not isinstance(refused.value, redis.exceptions.LockNotOwnedError)
        await lock.acquire()
        await client.delete(name)
        assert await lock.owned() is False
        with pytest.raises(redis.exceptions.LockNotOwnedError) as lost:
            await getattr(lock, method)(*arguments)
        assert str(lost.value) == f"Cannot {method} a lock that's no longer owned"

    run(test)


def test_what_has_no_timeout_cannot_be_extended(run: Run, name: str, kind: Any) -> None:
    async def test(client: Any) -> None:
        async with kind(client, name) as lock:
            with pytest.raises(redis.exceptions.LockError, match="no timeout"):
                await lock.extend(1)
            with pytest.raises(redis.exceptions.LockError, match="no timeout"):
                await lock.reacquire()

    run(test)


def test_what_has_no_timeout_is_renewed(server: Server, name: str) -> None:
    async def test() -> None:
        async with store(server) as raw, compat.Lock(raw, name) as lock:
            client = compat.connect(raw)
            while client.stats().renewed == 0:
                await asyncio.sleep(0.01)
            assert await lock.owned()

    asyncio.run(asyncio.wait_for(test(), 50))


def test_with_is_entered_and_left(
    run: Run, name: str, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(client: Any) -> None:
        async with kind(client, name, timeout=10) as lock:
            assert isinstance(lock, kind)
            assert await lock.owned() is True
            with pytest.raises(redis.exceptions.LockError, match="within the time"):
                async with kind(client, name, blocking_timeout=0.01):
                    pass
        assert await lock.locked() is False
        with pytest.raises(redis.exceptions.LockNotOwnedError):
            async with kind(client, name, timeout=10):
                await client.delete(name)
        with caplog.at_level(logging.WARNING):
            async with kind(client, name, timeout=10, raise_on_release_error=False) as lock:
                await lock.release()
        assert len(caplog.records) == 1

    run(test)


@pytest.mark.parametrize("other", [redis.asyncio.lock.Lock, compat.Lock], ids=["theirs", "ours"])
def test_a_fleet_may_move_one_by_one(run: Run, name: str, kind: Any, other: Any) -> None:
    async def test(client: Any) -> None:
        counter = name + ":counter"

        async def work(of: Any) -> None:
            for _ in range(25):
                async with client.lock(name, timeout=10, sleep=0.001, lock_class=of):
                    await client.set(counter, int(await client.get(counter) or 0) + 1)

        await asyncio.gather(*[work(of) for of in (kind, other) * 2])
        assert int(await client.get(counter)) == 100

    run(test)


# ----------------------------------------------------------- Only in this lock


def test_a_wait_that_is_cancelled_leaves_nothing(run: Run, name: str, raw: redis.Redis) -> None:
    async def test(client: Any) -> None:
        holder = compat.Lock(client, name, timeout=10)
        await holder.acquire()
        waiting = [asyncio.ensure_future(compat.Lock(client, name).acquire()) for _ in range(50)]
        while raw.zcount(queue(name), 0, 2**53) < 50:
            await asyncio.sleep(0.002)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert raw.zcount(queue(name), 0, 2**53) == 0
        await holder.release()
        assert raw.exists(name) == 0

    run(test)


def test_a_release_that_is_cancelled_has_released(run: Run, name: str, raw: redis.Redis) -> None:
    async def test(client: Any) -> None:
        lock = compat.Lock(client, name, timeout=30)
        await lock.acquire()
        releasing = asyncio.ensure_future(lock.release())
        await asyncio.sleep(0)  # until it is sent
        releasing.cancel()
        await asyncio.gather(releasing, return_exceptions=True)
        async with compat.Lock(client, name, timeout=30, blocking_timeout=5):
            assert raw.exists(name) == 1

    run(test)


def test_one_client_for_each_pool(run: Run, name: str, server: Server) -> None:
    async def test(client: Any) -> None:
        locks = [compat.Lock(client, f"{name}:{number}", timeout=5) for number in range(8)]
        await asyncio.gather(*[lock.acquire() for lock in locks])
        assert compat.connect(client) is compat.connect(client)
        async with store(server) as other:
            assert await asyncio.to_thread(compat.connect, other) is not compat.connect(client)
        await asyncio.gather(*[lock.release() for lock in locks])

    run(test)


def test_who_cannot_be_reached_is_said_as_redis_py_does(run: Run, name: str) -> None:
    async def test(client: Any) -> None:
        nowhere: Any = redis.asyncio.Redis(port=1)
        with pytest.raises(redis.exceptions.ConnectionError):
            await compat.Lock(nowhere, name).acquire()
        with pytest.raises(holdfast.UnsupportedError, match="Cluster"):
            await compat.Lock(object(), name).acquire()

    run(test)

"""A user's program, for the type checkers. It is never run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Literal

import redis
from typing_extensions import assert_type

import holdfast
import holdfast.compat.redis
import holdfast.otel
import holdfast.prometheus


def threads(client: holdfast.Client) -> int:
    lock = client.lock("stock", lease=10, max_hold=60.5, on_lost=lambda hold: print(hold.fence))
    assert_type(lock, holdfast.Lock)
    assert_type(lock.acquire(timeout=5), bool)
    assert_type(lock.acquire(False, owner=b"me"), bool)
    lock.release()
    with lock as hold:
        assert_type(hold, holdfast.Hold)
        assert_type(hold.remaining, "float | None")
        assert_type(hold.lost.wait(1), bool)
        assert_type(hold.state, Literal["held", "lost", "released"])
        assert_type(hold.lost.cause, Literal["expired", "unreachable", "gone"] | None)
    with lock.hold(timeout=5) as hold:
        hold.extend(3, replace=True)
        hold.extend(None, replace=True)
    for never in (client.lock(b"x", lease=None), client.lock("x", lease=...)):
        assert_type(never.inspect().owner, "str | None")
    slow = holdfast.LockOptions(lease=timedelta(minutes=1), max_hold=600)
    assert_type(client.lock("x", slow, heal=True), holdfast.Lock)
    assert_type(client.aio.lock("x", slow), holdfast.AsyncLock)
    assert_type(holdfast.quote("a}b"), str)
    assert_type(client.stats().wait.sum, float)
    seats = client.lock("seats", permits=3)
    assert_type(seats.shared(), holdfast.Lock)
    assert_type(seats.inspect().shared, bool)
    gate = client.gate("vendor", limit=10, per=timedelta(minutes=1))
    assert_type(gate.try_enter(), bool)
    try:
        gate.enter(timeout=None)
    except holdfast.GateFull as full:
        assert_type(full.retry_after, float)
    try:
        lock.hold(0)
    except holdfast.LockTimeout as timeout:
        assert_type(timeout, holdfast.LockTimeout)
    return hold.fence


async def tasks(client: holdfast.Client) -> int:
    lock = client.aio.lock("stock")
    assert_type(lock, holdfast.AsyncLock)
    assert_type(await lock.acquire(timeout=5), bool)
    await lock.release()
    assert_type(lock.shared(), holdfast.AsyncLock)
    assert_type(await client.aio.gate("vendor", 10, per=60).free_in(), float)
    async with lock as hold:
        assert_type(hold, holdfast.AsyncHold)
        assert_type(await hold.lost.wait(), bool)
    async with lock.hold(timeout=5, cancel_on_lost=True) as hold:
        await hold.check()
    async with holdfast.otel.ahold(lock, timeout=5) as hold:
        assert_type(hold, holdfast.AsyncHold)
    hold = await lock.hold()
    await hold.release()
    return hold.fence


def decorated(client: holdfast.Client) -> None:
    @client.locked("report:{user_id}", timeout=5, lease=60)
    def report(user_id: int, *, full: bool = False) -> str:
        return f"{user_id} {full}"

    @client.locked("task:{name}")
    async def task(name: str) -> int:
        return len(name)

    assert_type(report(7, full=True), str)
    assert_type(asyncio.run(task("x")), int)


def compatible(theirs: redis.Redis) -> None:
    with holdfast.compat.redis.Lock(theirs, "stock", timeout=10) as lock:
        assert_type(lock, holdfast.compat.redis.Lock)
        assert_type(lock.extend(5), Literal[True])
        assert_type(lock.owned(), bool)
    assert_type(holdfast.compat.redis.connect(theirs), holdfast.Client)


def observed(client: holdfast.Client) -> None:
    holdfast.prometheus.Collector(main=client)
    with holdfast.otel.hold(client.lock("stock"), timeout=5) as hold:
        assert_type(hold, holdfast.Hold)


def main() -> None:
    with holdfast.connect("redis://localhost", connect_timeout=1) as client:
        assert_type(client, holdfast.Client)
        print(threads(client), asyncio.run(tasks(client)))
        decorated(client)
        observed(client)

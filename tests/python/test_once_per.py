"""A function that runs once in a period among all callers; under schedulers, too."""

from __future__ import annotations

import asyncio
import sched
import threading
import time

import pytest
import redis

import holdfast
from conftest import Server, Thread


def test_one_of_all_runs_it_and_it_stays_refused(
    client: holdfast.Client, server: Server, name: str, raw: redis.Redis
) -> None:
    @client.once_per(name, 3600)
    def work(text: str) -> str:
        """Say done."""
        return f"{text} done"

    assert work.__doc__ == "Say done."
    assert work("all") == "all done"
    assert work("all") is None
    assert Thread(lambda: work("all")).finish() is None
    with holdfast.connect(server.tcp) as other:
        assert other.once_per(name, 3600)(lambda: 1)() is None
    assert 3580_000 < raw.pttl(name) <= 3600_000


def test_the_name_has_the_arguments(client: holdfast.Client, name: str) -> None:
    @client.once_per(name + ":{day}", 3600)
    def work(day: str) -> str:
        return day

    assert [work("a"), work("b"), work("a")] == ["a", "b", None]


def test_a_run_that_raises_passes_the_turn_on(client: holdfast.Client, name: str) -> None:
    runs = []

    @client.once_per(name, 3600)
    def work() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise KeyError("no")
        return "done"

    for _ in range(2):
        with pytest.raises(KeyError):
            work()
    assert work() == "done"
    assert work() is None
    assert len(runs) == 3


def test_a_run_longer_than_the_period_releases(client: holdfast.Client, name: str) -> None:
    client.once_per(name, 0.01)(lambda: time.sleep(0.05))()
    assert not client.lock(name).locked()


def test_a_loss_during_the_run_is_told(client: holdfast.Client, name: str) -> None:
    def work() -> str:
        lock = client.lock(name)
        lock.force_release(lock.inspect().fence)
        return "done"

    with pytest.raises(holdfast.LockLost):
        client.once_per(name, 3600)(work)()
    assert client.once_per(name, 3600, raise_on_lost=False)(work)() == "done"


def test_a_named_owner_does_not_run_twice(client: holdfast.Client, name: str) -> None:
    work = client.once_per(name, 3600, owner="worker")(lambda: 1)
    assert [work(), work()] == [1, None]


def test_wrong_arguments_are_refused(client: holdfast.Client, name: str) -> None:
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="period must be"):
            client.once_per(name, wrong)
    with pytest.raises(TypeError, match="takes the lock's name"):
        client.once_per(len, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="generator"):
        client.once_per(name, 1)(lambda: (yield))


def test_a_coroutine_runs_once_too(client: holdfast.Client, name: str) -> None:
    runs = []

    @client.once_per(name, 3600)
    async def work(fails: bool) -> str:
        runs.append(1)
        await asyncio.sleep(0)
        if fails:
            raise KeyError("no")
        return "done"

    async def main() -> None:
        with pytest.raises(KeyError):
            await work(True)
        results = await asyncio.gather(*(work(False) for _ in range(20)))
        assert sorted(results, key=str) == [None] * 19 + ["done"]

    asyncio.run(main())
    assert len(runs) == 2


def test_a_cancelled_run_passes_the_turn_on(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        started = asyncio.Event()

        @client.once_per(name, 3600)
        async def work(waits: bool) -> str:
            started.set()
            await asyncio.sleep(60 if waits else 0)
            return "done"

        task = asyncio.create_task(work(True))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await work(False) == "done"

    asyncio.run(main())


# ------------------------------------------------------------------- Schedulers


def test_plain_python_runs_it_once(client: holdfast.Client, name: str) -> None:
    runs: list[int] = []
    work = client.once_per(name, 3600)(lambda: runs.append(1))

    def host() -> None:
        schedule = sched.scheduler(time.monotonic, time.sleep)
        for delay in range(5):
            schedule.enter(delay / 200, 0, work)
        schedule.run()

    for thread in [Thread(host) for _ in range(4)]:
        thread.finish()
    assert runs == [1]


def test_apscheduler_runs_it_once(client: holdfast.Client, name: str) -> None:
    background = pytest.importorskip("apscheduler.schedulers.background")
    runs: list[int] = []
    calls = threading.Semaphore(0)
    work = client.once_per(name, 3600)(lambda: runs.append(1))

    def called() -> None:
        work()
        calls.release()

    hosts = [background.BackgroundScheduler() for _ in range(3)]
    for host in hosts:
        host.add_job(called, "interval", seconds=0.05)
        host.start()
    for _ in range(9):
        assert calls.acquire(timeout=20)
    for host in hosts:
        host.shutdown()
    assert runs == [1]

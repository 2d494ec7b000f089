"""Leader election, with real processes that are killed and paused."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from conftest import PATIENT, Server, until
from holdfast._leader import backoff
from holdfast.testing import MemoryServer

PROGRAM = """
import holdfast, os, sys, threading
client = holdfast.connect(sys.argv[1])
def say(*words):
    with open(sys.argv[3], "a") as log:
        log.write(" ".join(map(str, (os.getpid(), *words))) + "\\n")
leader = client.leader(
    sys.argv[2],
    elected=lambda fence: say("elected", fence),
    lost=lambda: say("lost", leader.is_leader),
    resigned=lambda: say("resigned"),
    lease=2,
)
with leader:
    sys.stdin.read()
"""


def test_one_leads_and_the_next_follows_it(client: holdfast.Client, name: str) -> None:
    told: list[tuple[object, ...]] = []

    def candidate(which: str) -> holdfast.Leader:
        return client.leader(
            name,
            elected=lambda fence: told.append((which, "elected", fence)),
            lost=lambda: told.append((which, "lost")),
            resigned=lambda: told.append((which, "resigned")),
        )

    with candidate("a") as first:
        until(lambda: first.is_leader and len(told) == 1)
        second = candidate("b")
        second.start()
        until(lambda: client.lock(name).inspect().waiters)
        assert not second.is_leader
        assert second.fence is None
        fence = first.fence
        first.resign()
        until(lambda: second.is_leader and len(told) == 3)
        assert fence is not None
        assert second.fence is not None
        assert second.fence > fence
        second.stop()
        until(lambda: first.is_leader and len(told) == 5)
        with pytest.raises(RuntimeError, match="started already"):
            first.start()
    assert not first.is_leader
    assert [each[:2] for each in told] == [
        ("a", "elected"),
        ("a", "resigned"),
        ("b", "elected"),
        ("b", "resigned"),
        ("a", "elected"),
        ("a", "resigned"),
    ]
    assert not client.lock(name).locked()


@pytest.mark.parametrize("lease", [10, 60])
def test_one_elected_after_a_wait_has_its_whole_lease(
    client: holdfast.Client, name: str, lease: float
) -> None:
    left: list[float] = []

    def elected(fence: int) -> None:
        assert second._hold is not None
        left.append(second._hold.remaining or 0.0)

    # Without a lease the default counts, which is ten seconds.
    second = client.leader(name, elected, margin=lease / 2, lease=... if lease == 10 else lease)
    with client.leader(name, lambda fence: None) as first:
        until(lambda: first.is_leader)
        with second:
            until(lambda: client.lock(name).inspect().waiters)
            first.resign()
            until(lambda: left)
            assert left[0] >= lease * 0.6  # a renewal leaves that much, more than any margin
            assert second.is_leader


def test_a_candidate_that_waits_can_stop(client: holdfast.Client, name: str) -> None:
    with client.lock(name):
        with client.leader(name, elected=print) as leader:
            until(lambda: client.lock(name).inspect().waiters)
        assert not leader.is_leader
        assert client.lock(name).inspect().waiters == 0
    leader.start()
    until(lambda: leader.is_leader)
    leader.stop()


@pytest.mark.parametrize("failed", [MemoryError, OSError])
def test_a_candidate_that_cannot_begin_stands_again(
    client: holdfast.Client, name: str, monkeypatch: pytest.MonkeyPatch, failed: type[Exception]
) -> None:
    leader = client.leader(name, elected=lambda fence: None)
    acquire, tries = leader._acquire, itertools.count()

    async def scarce() -> holdfast.AsyncHold:
        if next(tries) == 0:
            raise failed("no file descriptor")
        return await acquire()

    monkeypatch.setattr(leader, "_acquire", scarce)
    with leader:
        until(lambda: leader.is_leader)


def test_a_broken_lock_is_told_as_lost_and_it_stands_again(
    client: holdfast.Client, name: str
) -> None:
    lost = threading.Event()
    with client.leader(name, elected=lambda fence: None, lost=lost.set, lease=0.5) as leader:
        until(lambda: leader.is_leader)
        fence = leader.fence or 0
        client.lock(name).force_release(fence)
        assert lost.wait(20)
        until(lambda: (leader.fence or 0) > fence)


@pytest.mark.parametrize("raised", [KeyError("no"), StopIteration(), SystemExit(1)])
def test_an_elected_that_raises_resigns(
    client: holdfast.Client, name: str, raised: BaseException
) -> None:
    calls: list[int] = []

    def elected(fence: int) -> None:
        calls.append(fence)
        if len(calls) == 1:
            raise raised

    with client.leader(name, elected=elected) as leader:
        until(lambda: len(calls) == 2)
        until(lambda: leader.is_leader)
    assert calls[0] < calls[1]


def test_the_pause_after_failures_grows_from_a_tenth_of_a_second_to_half_a_minute() -> None:
    for failures, longest in [(1, 0.1), (2, 0.2), (5, 1.6), (9, 25.6), (10, 30), (10**6, 30)]:
        pauses = [backoff(failures) for _ in range(200)]
        assert longest / 2 <= min(pauses) < max(pauses) <= longest


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_leader_whose_work_raises_pauses_and_a_good_term_forgives(
    client: holdfast.Client, name: str, kind: str
) -> None:
    terms: list[float] = []
    failures: list[int] = []

    def elected(fence: int) -> None:
        terms.append(time.monotonic())
        failures.append(leader._failures)
        if len(terms) != 5:
            raise KeyError("database")
        leader.resign()

    if kind == "thread":
        leader: Any = client.leader(name, elected)
        with leader:
            until(lambda: len(terms) >= 6, 30)
    else:
        leader = client.aio.leader(name, elected)

        async def main() -> None:
            running = asyncio.create_task(leader.run())
            while len(terms) < 6:
                await asyncio.sleep(0.01)
            leader.stop()
            await running

        asyncio.run(main())
    pauses = [after - before for before, after in itertools.pairwise(terms[:6])]
    for pause, least in zip(pauses, [0.05, 0.1, 0.2, 0.4, 0], strict=True):
        assert pause >= least
    assert failures[:6] == [0, 1, 2, 3, 4, 0]
    assert not client.lock(name).locked()


def test_a_stop_does_not_wait_for_the_pause(client: holdfast.Client, name: str) -> None:
    failed = threading.Event()

    def elected(fence: int) -> None:
        failed.set()
        raise KeyError("database")

    leader = client.leader(name, elected)
    leader._failures = 20  # the next pause is the longest
    with leader:
        assert failed.wait(20)
        until(lambda: leader._failures == 21)
        began = time.monotonic()
    assert time.monotonic() - began < 10


def test_a_coroutine_given_to_a_leader_in_a_thread_is_refused(
    client: holdfast.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(fence: int) -> None: ...

    for wrong in (work, functools.partial(work)):
        with pytest.raises(TypeError, match=r"client.aio.leader\(\)"):
            client.leader(name, wrong)
    with client.leader(name, elected=lambda fence: work(fence)):
        until(lambda: "gave a coroutine" in caplog.text)


def test_the_loss_is_told_while_the_lease_still_stands_on_the_server() -> None:
    server = MemoryServer(stopped_clock=True)
    stands: list[bool] = []
    with server.connect() as client:
        leader = client.leader(
            "a",
            elected=lambda fence: None,
            lost=lambda: stands.append(server._space.key(b"a") is not None),
            lease=2,
            margin=1,
        )
        with leader:
            until(lambda: leader.is_leader)
            server.stop()
            server.advance(1.5)
            until(lambda: stands)
            assert not leader.is_leader
            server.start()
    assert stands == [True]


def test_wrong_arguments_are_refused(client: holdfast.Client, name: str) -> None:
    with pytest.raises(ValueError, match="lease that ends"):
        client.leader(name, elected=print, lease=None)
    with pytest.raises(ValueError, match="margin must be"):
        client.leader(name, elected=print, lease=2, margin=1.5)
    with pytest.raises(TypeError, match="lost must be a function"):
        client.leader(name, elected=print, lost=1)  # type: ignore[arg-type]
    for make in (client.leader, client.aio.leader):
        with pytest.raises(TypeError, match="elected must be a function, not None"):
            make(name, elected=None)  # type: ignore[arg-type]


def test_tasks_lead_too(client: holdfast.Client, name: str) -> None:
    told: list[str] = []

    async def main() -> None:
        async def elected(fence: int) -> None:
            told.append("elected")
            try:
                await asyncio.sleep(60)
            finally:
                told.append("cancelled")

        async def resigned() -> None:
            told.append("resigned")

        leader = client.aio.leader(name, elected, resigned=resigned)
        run = asyncio.create_task(leader.run())
        while not leader.is_leader:
            await asyncio.sleep(0.005)
        while not told:
            await asyncio.sleep(0.005)
        leader.resign()
        while told.count("elected") < 2:
            await asyncio.sleep(0.005)
        leader.stop()
        await run
        assert not client.lock(name).locked()

    asyncio.run(main())
    assert told == ["elected", "resigned", "cancelled"] * 2


@pytest.mark.parametrize("where", ["elected", "resigned"])
def test_a_callback_may_stop_and_resign(client: holdfast.Client, name: str, where: str) -> None:
    told: list[str] = []

    def say(what: str) -> None:
        told.append(what)
        leader.resign()
        if what == where:
            leader.stop()  # waits for no candidate

    leader = client.leader(name, lambda fence: say("elected"), resigned=lambda: say("resigned"))
    leader.start()
    assert leader._thread is not None
    leader._thread.join(20)
    assert not leader._thread.is_alive()
    assert sorted(told) == ["elected", "resigned"]
    assert not client.lock(name).locked()


@pytest.mark.parametrize("raised", [KeyError("no"), SystemExit(1)])
def test_callbacks_that_raise_end_nothing(
    client: holdfast.Client, name: str, raised: BaseException
) -> None:
    def fails() -> None:
        raise raised

    elected: list[int] = []
    with client.leader(name, elected.append, lost=fails, resigned=fails, lease=0.5) as leader:
        until(lambda: elected)
        before = len(elected)
        leader.resign()
        until(lambda: len(elected) > before and leader.is_leader)
        before = len(elected)
        client.lock(name).force_release(leader.fence or 0)
        until(lambda: len(elected) > before)
    assert not client.lock(name).locked()


def test_a_closed_client_tells_its_leader(server: Server, name: str) -> None:
    lost = threading.Event()
    client = holdfast.connect(server.tcp)
    leader = client.leader(name, elected=lambda fence: None, lost=lost.set, lease=3600)
    leader.start()
    until(lambda: leader.is_leader)
    client.close()
    assert not leader.is_leader
    assert lost.wait(20)
    leader.stop()


def test_an_election_that_crosses_a_close_is_told(server: Server, name: str) -> None:
    lost = threading.Event()
    client = holdfast.connect(server.tcp)
    leader = client.leader(name, elected=lambda fence: None, lost=lost.set, lease=3600)
    acquire, handles = leader._acquire, client._handles

    async def won() -> holdfast.AsyncHold:
        hold = await acquire()
        client._handles = {}  # as close() does before it waits for the releases
        return hold

    leader._acquire = won  # type: ignore[method-assign]
    leader.start()
    assert lost.wait(20)
    client._handles = handles
    client.close()
    leader.stop()


def test_a_cancel_that_crosses_the_election_leaves_nothing(
    client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        leader = client.aio.leader(name, lambda fence: None, lease=3600)
        acquire = leader._acquire

        async def won() -> holdfast.AsyncHold:
            hold = await acquire()
            run.cancel()
            return hold

        leader._acquire = won  # type: ignore[method-assign]
        run = asyncio.create_task(leader.run())
        with pytest.raises(asyncio.CancelledError):
            await run
        assert not client.lock(name).locked()

    asyncio.run(main())


def test_a_cancelled_leader_releases_when_its_work_has_ended(
    client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        cleaning, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def elected(fence: int) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cleaning.set()
                await may_end.wait()
                ended.set()

        leader = client.aio.leader(name, elected)
        run = asyncio.create_task(leader.run())
        while not leader.is_leader:
            await asyncio.sleep(0.005)
        with pytest.raises(RuntimeError, match="runs already"):
            await leader.run()
        await asyncio.sleep(0)
        for _ in range(3):  # any number of times
            run.cancel()
            await asyncio.wait_for(cleaning.wait(), 20)
        assert client.lock(name).locked()
        assert not leader.is_leader
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended.is_set()
        assert not client.lock(name).locked()

    asyncio.run(main())


def test_work_that_cancels_itself_resigns(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        fences: list[int] = []

        async def elected(fence: int) -> None:
            fences.append(fence)
            if len(fences) == 1:
                raise asyncio.CancelledError

        leader = client.aio.leader(name, elected)
        run = asyncio.create_task(leader.run())
        while not (len(fences) == 2 and leader.is_leader):
            await asyncio.sleep(0.005)
            assert not run.done()
        leader.stop()
        await run

    asyncio.run(main())


# -------------------------------------------------------------------- Processes


@pytest.fixture
def candidates(
    server: Server, name: str, tmp_path: Path
) -> Iterator[tuple[list[subprocess.Popen[bytes]], Callable[[], list[list[str]]]]]:
    log = tmp_path / "log"
    log.touch()
    command = [sys.executable, "-c", PROGRAM, server.tcp + PATIENT, name, str(log)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(3)]
    try:
        yield started, lambda: [line.split() for line in log.read_text().splitlines()]
    finally:
        for each in started:
            if each.poll() is None:
                os.kill(each.pid, signal.SIGCONT)
                each.kill()
            each.communicate()


def elections(log: list[list[str]]) -> list[tuple[int, int]]:
    return [(int(pid), int(words[1])) for pid, *words in log if words[0] == "elected"]


@pytest.mark.redis
def test_processes_that_are_killed_and_paused_are_followed(
    candidates: tuple[list[subprocess.Popen[bytes]], Callable[[], list[list[str]]]],
) -> None:
    processes, log = candidates

    # The last one elected: if the machine stands still, there are more elections.
    def leader() -> int:
        return elections(log())[-1][0]

    def losses() -> int:
        return log().count([str(second), "lost", "False"])

    until(lambda: elections(log()), 60)
    first = leader()
    next(each for each in processes if each.pid == first).kill()
    until(lambda: leader() != first, 60)
    second = leader()
    os.kill(second, signal.SIGSTOP)
    before = losses()
    until(lambda: leader() != second, 60)
    assert losses() == before
    third = leader()
    os.kill(second, signal.SIGCONT)
    until(lambda: losses() > before, 60)
    assert len({first, second, third}) == 3
    fences = [fence for _, fence in elections(log())]
    assert fences == sorted(set(fences))
    next(each for each in processes if each.pid == third).communicate(timeout=60)
    assert [str(third), "resigned"] in log()
    until(lambda: leader() == second, 60)  # it is elected again


def test_a_stop_ends_a_run_whose_task_has_not_begun(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        elected = asyncio.Event()
        leader = client.aio.leader(name, lambda fence: elected.set())
        for _ in range(2):
            run, led = asyncio.create_task(leader.run()), asyncio.create_task(elected.wait())
            leader.stop()
            await asyncio.wait({run, led}, return_when=asyncio.FIRST_COMPLETED)
            assert (run.done(), led.done()) == (True, False)
            led.cancel()
        run = asyncio.create_task(leader.run())
        await elected.wait()
        leader.stop()
        await run

    asyncio.run(main())

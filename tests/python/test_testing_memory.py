"""Clients in memory as tests use them. `pytest --memory` runs the behaviours."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import importlib.resources
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from conftest import Thread, until
from holdfast.testing import MemoryClient, MemoryServer


@pytest.fixture
def memory() -> MemoryServer:
    """Return a server on which time stands still."""
    return MemoryServer(stopped_clock=True)


@pytest.fixture
def client(memory: MemoryServer) -> Iterator[holdfast.Client]:
    with memory.connect() as client:
        yield client


@pytest.fixture
def stranger(memory: MemoryServer) -> Iterator[holdfast.Lock]:
    """Return the lock called stock, in another client."""
    with memory.connect() as client:
        yield client.lock("stock", owner="stranger")


def test_the_classes_are_those_of_the_package(client: holdfast.Client) -> None:
    assert isinstance(client, holdfast.Client)
    lock = client.lock("stock")
    assert type(lock) is holdfast.Lock
    with lock as hold:
        assert type(hold) is holdfast.Hold
    assert type(client.aio.lock("stock")) is holdfast.AsyncLock
    assert isinstance(client.stats(), holdfast.Stats)


def test_the_memory_answers_all_functions_of_the_core() -> None:
    from holdfast.testing import _core

    stub = importlib.resources.files("holdfast").joinpath("_holdfast.pyi").read_text()
    (core,) = (each for each in ast.parse(stub).body if isinstance(each, ast.ClassDef))
    wanted = {
        each.name: [argument.arg for argument in each.args.args[1:]]
        for each in core.body
        if isinstance(each, ast.FunctionDef)
    }
    wanted["hf_client_open"][0] = "space"
    answered = {
        name: list(inspect.signature(each).parameters)
        for name, each in vars(_core).items()
        if name.startswith("hf_")
    }
    assert answered == wanted


def test_each_server_is_apart() -> None:
    with MemoryClient() as one, MemoryClient() as other, one.lock("stock"):
        assert not other.lock("stock").locked()
        with MemoryClient(one.server) as third:
            assert third.lock("stock").locked()


# -------------------------------------------------------------------- The clock


def test_a_lease_ends_when_the_clock_says_so(
    memory: MemoryServer, client: holdfast.Client, stranger: holdfast.Lock
) -> None:
    hold = client.lock("stock", lease=5, renew=False).hold()
    assert hold.remaining == 5
    memory.advance(4.999)
    assert hold.valid
    assert hold.remaining == pytest.approx(0.001)
    assert stranger.acquire(blocking=False) is False
    memory.advance(0.001)
    assert (hold.state, hold.lost.cause, hold.remaining) == ("lost", "expired", 0)
    assert stranger.acquire(blocking=False) is True
    with pytest.raises(holdfast.LockLost):
        hold.release()
    assert stranger.inspect().fence > hold.fence


def test_a_hold_is_renewed_as_long_as_it_is_held(
    memory: MemoryServer, client: holdfast.Client
) -> None:
    with client.lock("stock") as hold:
        memory.advance(3600)
        hold.check()
        assert client.stats().renewed > 1000
        assert hold.remaining is not None
        assert hold.remaining > 6
    with client.lock("stock", lease=None) as hold:
        memory.advance(3600)
        assert hold.remaining is None


def test_an_unknown_outcome_lasts_from_when_a_caller_learns_of_it(
    memory: MemoryServer, client: holdfast.Client
) -> None:
    def ask() -> str:
        return client.once("pay", lambda: "paid", ttl=60, at_most_once=True)

    turn = client.once_begin("pay", ttl=60, at_most_once=True, unknown_ttl=10)
    memory.advance(30)
    turn.unknown("timeout")
    memory.advance(9)
    with pytest.raises(holdfast.OutcomeUnknown):
        ask()
    memory.advance(2)
    assert ask() == "paid"


def test_max_hold_counts_from_the_outermost_hold(
    memory: MemoryServer, client: holdfast.Client
) -> None:
    lock = client.lock("stock", max_hold=60, raise_on_lost=False)
    with lock as outer:
        memory.advance(30)
        with lock as inner:
            memory.advance(29)
            assert (outer.remaining, inner.remaining) == (1, 1)
            memory.advance(1)
            assert (outer.lost.cause, inner.lost.cause) == ("expired", "expired")


def test_real_time_goes_on_by_itself_and_by_hand() -> None:
    with MemoryClient() as client:
        with client.lock("stock", lease=0.05, renew=False, raise_on_lost=False) as hold:
            assert hold.lost.wait(10) is True
        with client.lock("stock", lease=1000, renew=False, raise_on_lost=False) as hold:
            waiting = Thread(lambda: hold.lost.wait(20))
            client.server.advance(1000)
            assert waiting.finish() is True


def test_a_timeout_runs_out_when_the_clock_says_so(
    memory: MemoryServer, client: holdfast.Client, stranger: holdfast.Lock
) -> None:
    with client.lock("stock"):
        waiting = Thread(lambda: stranger.acquire(timeout=60))
        until(lambda: stranger.inspect().waiters)
        memory.advance(59)
        assert stranger.inspect().waiters == 1
        memory.advance(1)
        assert waiting.finish() is False
        assert stranger.inspect().waiters == 0


def test_waiters_get_their_turns_in_order(memory: MemoryServer, client: holdfast.Client) -> None:
    turns: list[int] = []

    def work(number: int) -> None:
        with client.lock("stock", owner=str(number)):
            turns.append(number)

    threads = []
    with client.lock("stock") as hold:
        for number in range(20):
            threads.append(Thread(lambda number=number: work(number)))  # type: ignore[misc]
            until(lambda number=number: client.lock("stock").inspect().waiters == number + 1)  # type: ignore[misc]
        hold.check()
    for thread in threads:
        thread.finish()
    assert turns == list(range(20))


def test_a_clock_does_not_go_back(memory: MemoryServer) -> None:
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="seconds"):
            memory.advance(wrong)


# ----------------------------------------------------------------------- Losses


@pytest.mark.parametrize("cause", ["gone", "expired", "unreachable"])
def test_a_lock_is_lost_on_demand(
    cause: str, memory: MemoryServer, client: holdfast.Client, stranger: holdfast.Lock
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock("stock", on_lost=told.append)
    with pytest.raises(holdfast.LockLost), lock as hold:
        memory.lose("stock", cause)  # type: ignore[arg-type]
        assert hold.lost.is_set()
        assert hold.lost.cause == cause
        assert stranger.acquire(blocking=False) is True
        until(lambda: told == [hold])
    stranger.release()


def test_one_hold_is_lost_on_demand(memory: MemoryServer, client: holdfast.Client) -> None:
    lock = client.lock("stock", raise_on_lost=False)
    with lock.hold() as outer, lock.hold() as inner:
        memory.lose(inner)
        assert (outer.valid, inner.valid) == (True, False)
        outer.check()
        with pytest.raises(holdfast.LockLost):
            inner.renew()
    assert not lock.locked()


def test_what_is_not_held_is_not_lost(memory: MemoryServer, client: holdfast.Client) -> None:
    memory.lose("free")
    with MemoryClient() as other, other.lock("stock") as hold:
        assert hold.valid
        with pytest.raises(ValueError, match="not a hold of this server"):
            memory.lose(hold)
    with pytest.raises(ValueError, match="cause"):
        memory.lose("free", "stolen")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="what"):
        memory.lose(1)  # type: ignore[arg-type]


def test_a_broken_lock_is_found_out_at_the_next_renewal(
    memory: MemoryServer, client: holdfast.Client, stranger: holdfast.Lock
) -> None:
    with client.lock("stock", raise_on_lost=False) as hold:
        stranger.force_release(hold.fence)
        assert stranger.acquire(blocking=False) is True
        assert hold.valid
        memory.advance(4)
        assert hold.lost.cause == "gone"
    stranger.release()


def test_a_stopped_server_is_not_reached(
    memory: MemoryServer, client: holdfast.Client, stranger: holdfast.Lock
) -> None:
    lock = client.lock("stock")
    hold, brief = lock.hold(), client.lock("brief").hold()
    waiting = Thread(stranger.acquire)
    until(lambda: stranger.inspect().waiters)
    memory.stop()
    with pytest.raises(holdfast.ConnectError):
        waiting.finish()
    for call in (lock.acquire, lock.inspect, hold.check, hold.renew, brief.release, memory.connect):
        with pytest.raises(holdfast.ConnectError):
            call()
    assert hold.valid
    memory.advance(10)
    assert hold.lost.cause == "unreachable"
    with pytest.raises(holdfast.LockLost):
        hold.release()
    memory.start()
    with lock, client.lock("brief"):
        pass


def test_an_outage_shorter_than_the_lease_loses_nothing(
    memory: MemoryServer, client: holdfast.Client
) -> None:
    with client.lock("stock") as hold:
        memory.advance(2)
        memory.stop()
        memory.advance(7.5)
        memory.start()
        memory.advance(60)
        hold.check()


def test_replicas_are_as_many_as_the_server_was_told() -> None:
    with MemoryClient() as client, client.lock("stock", replicas=3):
        pass
    with MemoryClient(MemoryServer(replicas=1)) as client:
        with client.lock("stock", replicas=1):
            pass
        with pytest.raises(holdfast.LockNotReplicated) as caught:
            client.lock("stock", replicas=2).acquire()
        assert caught.value.reached == 1
        assert not client.lock("stock").locked()

        async def main() -> None:
            await client.aio.lock("stock", replicas=2).acquire()

        with pytest.raises(holdfast.LockNotReplicated) as caught:
            asyncio.run(main())
        assert caught.value.reached == 1


# ------------------------------------------------------------------------ Tasks


def test_tasks_wait_and_are_told(memory: MemoryServer, client: holdfast.Client) -> None:
    async def body(lock: holdfast.AsyncLock, inside: asyncio.Event) -> str:
        async with lock.hold(cancel_on_lost=True, raise_on_lost=False):
            inside.set()
            await asyncio.sleep(50)
        return "cancelled"

    async def main() -> None:
        lock, inside = client.aio.lock("stock"), asyncio.Event()
        working = asyncio.create_task(body(lock, inside))
        await inside.wait()
        waiting = asyncio.create_task(lock.acquire(timeout=60))
        while not (await lock.inspect()).waiters:
            await asyncio.sleep(0)
        memory.advance(61)
        assert await waiting is False
        memory.lose("stock")
        assert await working == "cancelled"
        async with lock as hold:
            await hold.extend(20)
            memory.stop()
            for call in (hold.check, hold.renew):
                with pytest.raises(holdfast.ConnectError):
                    await call()
            with pytest.raises(holdfast.ConnectError):
                await client.aio.lock("other").acquire()
            memory.start()

    asyncio.run(asyncio.wait_for(main(), 50))


# ------------------------------------------------------------- Processes and ends


def test_a_signal_ends_a_wait_and_leaves_nothing(
    client: holdfast.Client, stranger: holdfast.Lock
) -> None:
    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    def send() -> None:
        until(lambda: stranger.inspect().waiters)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with client.lock("stock"):
            sending = Thread(send)
            with pytest.raises(KeyboardInterrupt):
                stranger.acquire()
            sending.finish()
            assert stranger.inspect().waiters == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not stranger.locked()


def test_a_forked_process_is_told_that_it_cannot_reach_the_server() -> None:
    script = """
        import os, holdfast
        from holdfast.testing import MemoryClient
        client = MemoryClient()
        lock = client.lock("stock")
        hold = lock.hold()
        child = os.fork()
        if child == 0:
            ended = 1
            try:
                assert hold.state == "lost"
                try:
                    lock.acquire()
                except holdfast.ConnectError as error:
                    assert "no other process" in str(error)
                    ended = 0
                client.close()
            finally:
                os._exit(ended)
        assert os.waitpid(child, 0)[1] == 0
        hold.check()
        hold.release()
        client.close()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=30)


def test_a_dropped_hold_is_renewed_no_more(
    memory: MemoryServer, client: holdfast.Client, stranger: holdfast.Lock
) -> None:
    with pytest.warns(ResourceWarning, match="without release"):
        client.lock("stock").hold()
        gc.collect()
    assert stranger.acquire(blocking=False) is False
    memory.advance(10)
    assert stranger.acquire(blocking=False) is True
    stranger.release()


def test_a_closed_client_leaves_no_thread_and_no_descriptor() -> None:
    def use() -> None:
        with MemoryClient() as client, client.lock("stock") as hold:
            assert hold.lost.wait(0.01) is False

    def count() -> tuple[int, int]:
        gc.collect()
        return len(list(Path("/proc/self/task").iterdir())), len(os.listdir("/proc/self/fd"))

    before = count()
    for _ in range(5):
        use()
    until(lambda: count() <= before)


def test_a_collection_in_the_midst_of_a_call_does_no_harm(client: holdfast.Client) -> None:
    """A finalizer runs wherever the collector does, also while its thread is in a call."""
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(200):
                hold = client.lock(f"lock {number}").hold()
                cycle: list[object] = [hold]
                cycle.append(cycle)
                del hold, cycle
                with client.lock("stock"):
                    pass
    finally:
        gc.set_threshold(*threshold)
        gc.collect()
    assert client.stats().held == 0


def test_a_mutex_of_python_and_a_lock_in_memory_agree(client: holdfast.Client) -> None:
    """Many threads, tries, waits, nested and given up: two are never inside."""
    inside: list[Callable[[], None]] = []

    def work() -> None:
        lock = client.lock("stock")
        for number in range(50):
            timeout = 0 if number % 3 else None
            with contextlib.suppress(holdfast.LockTimeout), lock.hold(timeout) as hold, lock:
                inside.append(hold.check)
                assert len(inside) == 1
                inside.pop()()

    for thread in [Thread(work) for _ in range(8)]:
        thread.finish()
    assert not client.lock("stock").locked()
    stats = client.stats()
    assert (stats.held, stats.waiting) == (0, 0)


def test_memory_answers_a_ping_and_has_no_settings(client: holdfast.Client) -> None:
    client.ping()
    assert client.survey("stock") == []


def test_a_thread_that_ends_with_the_interpreter_does_not_stop_it() -> None:
    program = """if True:
        import threading
        from holdfast.testing import MemoryServer

        server = MemoryServer()
        with server.connect() as client:
            hold = client.lock("stock").hold()  # whose finalizer looks whether it is still held

        inside = threading.Thread(target=server._space.__enter__)  # and never out
        inside.start()
        inside.join()
        print("the end")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=40)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"the end\n", b"")

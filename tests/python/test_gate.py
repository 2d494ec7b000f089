"""Gates: at most so many passes in any so many seconds."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

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
    with pytest.raises(holdfast.GateFull, match=r"let pass 3 in 60 s") as full:
        gate.enter()
    assert 30 < full.value.retry_after <= 60.001
    assert isinstance(full.value, holdfast.LockTimeout)
    assert 30 < gate.free_in() <= 60.001
    assert client.gate(name, limit=4, per=60).try_enter()


def test_a_pass_is_free_again_after_its_time(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=2, per=0.3)
    passed = 0
    began = time.monotonic()
    waits: list[float] = []
    while passed < 8:
        try:
            gate.enter()
            passed += 1
        except holdfast.GateFull as full:
            waits.append(full.retry_after)
            time.sleep(full.retry_after)
    assert waits
    assert max(waits) <= 0.301
    assert time.monotonic() - began >= 3 * 0.3 - 0.05


def test_who_waits_passes_in_its_turn(client: holdfast.Client, name: str) -> None:
    gate = client.gate(name, limit=1, per=0.4)
    began = time.monotonic()
    gate.enter()
    assert not gate.try_enter(timeout=0.02)
    for _ in range(2):
        gate.enter(timeout=20)
    assert time.monotonic() - began >= 2 * 0.4 - 0.05
    assert not gate.try_enter()  # the last pass too lasts for its whole time
    with pytest.raises(holdfast.GateFull):
        gate.enter(timeout=0.02)


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
    client.gate(name, limit=1, per=0.05).enter()
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
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        brief = client.aio.gate(name + "b", limit=1, per=0.2)
        await brief.enter()
        await brief.enter(timeout=20)
        assert not await brief.try_enter()

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


class Way:
    """A way to the server that can lose its answers, and the connections with them."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        self._there = (there.hostname, there.port)
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listens.getsockname()[1]}"
        self.loses = 0
        self._sockets = [self._listens]
        self._threads: list[Thread] = []
        self._threads.append(Thread(self._accept))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listens.accept()
                there = socket.create_connection(self._there)
                self._sockets += [here, there]
                for source, sink in ((here, there), (there, here)):
                    work = functools.partial(self._pass_on, source, sink, sink is here)
                    self._threads.append(Thread(work))

    def _pass_on(self, source: socket.socket, sink: socket.socket, back: bool) -> None:
        with contextlib.suppress(OSError):
            while some := source.recv(65536):
                if back and self.loses:
                    self.loses -= 1
                    break
                sink.sendall(some)
        self._end([source, sink])

    def _end(self, sockets: list[socket.socket]) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._end(self._sockets)
        self._threads[0].finish()
        self._end(self._sockets)
        for thread in self._threads:
            thread.finish()
        for each in self._sockets:
            each.close()


@pytest.fixture
def way(server: Server) -> Iterator[Way]:
    way = Way(server.tcp)
    yield way
    way.close()


@pytest.mark.redis
def test_a_pass_whose_answer_was_lost_counts_once(
    client: holdfast.Client, name: str, way: Way
) -> None:
    with holdfast.connect(way.url) as far:
        gate = far.gate(name, limit=2, per=60)
        gate.enter()  # the server knows the script
        way.loses = 1
        gate.enter()  # it was asked again, under the same id
        assert way.loses == 0
        assert client.lock(name).inspect().count == 2


@pytest.mark.redis
def test_a_pass_that_nobody_knows_of_is_not_taken_and_is_undone(
    client: holdfast.Client, name: str, way: Way
) -> None:
    near = client.gate(name, limit=2, per=600)
    with holdfast.connect(way.url, command_timeout=0.5, connect_timeout=0.5) as far:
        gate = far.gate(name, limit=2, per=600)
        gate.enter()
        way.loses = 10**9
        with pytest.raises(holdfast.LockUnknown):
            gate.enter()
        assert client.lock(name).inspect().count == 2  # the safe side
        assert not near.try_enter()
        way.loses = 0
        until(near.try_enter, 30)
        assert not near.try_enter()


@pytest.mark.redis
def test_it_is_exact_under_fifty_threads_of_two_processes(
    server: Server, name: str, raw: redis.Redis
) -> None:
    script = """
        import sys, threading, holdfast
        url, name = sys.argv[1:]
        client = holdfast.connect(url)
        gate = client.gate(name, limit=40, per=600)
        passed, go = [], threading.Event()
        def run():
            go.wait()
            for _ in range(10):
                if gate.try_enter():
                    passed.append(1)
        threads = [threading.Thread(target=run) for _ in range(25)]
        for thread in threads: thread.start()
        print("ready", flush=True)
        sys.stdin.readline()
        go.set()
        for thread in threads: thread.join()
        print(len(passed), flush=True)
        client.close()
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), server.tcp, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sum(int(process.communicate(timeout=60)[0]) for process in processes) == 40
    assert raw.zcard(f"{{{name}}}{name}:hf1:s") == 40
    assert not any(process.returncode for process in processes)

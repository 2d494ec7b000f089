"""The counts of a client."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
from conftest import Server, Thread, until


def counted(counts: holdfast.Counts) -> dict[str, int]:
    """Return all counts that are not 0, flat; check that each histogram has the right total."""
    flat = {
        field: getattr(counts, field)
        for field in (
            "held",
            "waiting",
            "acquired",
            "queued",
            "released",
            "kept",
            "begun",
            "alarms",
        )
    }
    for field in ("answered", "finished"):
        flat |= {f"{field} {outcome}": n for outcome, n in getattr(counts, field).items()}
    for group in (counts.refused, counts.failed, counts.lost):
        for cause, count in group.items():
            flat[cause if cause not in flat else f"lost {cause}"] = count
    assert counts.wait.count == counts.acquired
    flat["ended"] = counts.hold.count
    return {name: count for name, count in flat.items() if count}


def test_what_keeps_the_lock_is_counted(client: holdfast.Client, name: str) -> None:
    client.lock(name).hold().keep(60)
    with client.lock(f"{name}:b").hold(at_least=60):
        pass
    assert counted(client.stats()) == {"acquired": 2, "kept": 2, "ended": 2}


def test_a_new_client_has_counted_nothing(client: holdfast.Client) -> None:
    stats = client.stats()
    assert counted(stats) == {}
    assert (stats.names, stats.others) == ({}, holdfast.Counts(**fields(stats)))
    assert (stats.connections, stats.reconnects) == (1, 0)


def fields(stats: holdfast.Counts) -> dict[str, Any]:
    return {each.name: getattr(stats, each.name) for each in dataclasses.fields(holdfast.Counts)}


def test_a_client_counts_what_it_does(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    with lock:
        assert counted(client.stats()) == {"held": 1, "acquired": 1}
        assert stranger.acquire(blocking=False) is False
        assert stranger.acquire(timeout=0.01) is False
        waiting = Thread(lambda: stranger.hold().release())
        until(lambda: client.stats().waiting == 1)
        time.sleep(0.05)
        begun = {"held": 1, "acquired": 1, "busy": 1, "timeout": 1, "waiting": 1}
        assert counted(client.stats()) == begun
    waiting.finish()
    done = client.stats()
    ended = {"acquired": 2, "queued": 1, "busy": 1, "timeout": 1, "released": 2, "ended": 2}
    assert counted(done) == ended
    assert 0.05 <= done.wait.sum < 10
    assert 0.05 <= done.hold.sum < 10
    assert done.wait.counts[-1] == 0
    longest = max(at for at, count in enumerate(done.wait.counts) if count)
    assert holdfast.Histogram.bounds[longest] >= 0.05


def test_the_bounds_of_a_histogram_are_those_of_the_core() -> None:
    bounds = holdfast.Histogram.bounds
    assert bounds[:3] == (64e-6, 128e-6, 256e-6)
    assert len(bounds) == 26
    assert bounds[-1] == 64e-6 * 2**25


def test_a_cancelled_wait_is_counted(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        lock = client.aio.lock(name)
        task = asyncio.create_task(lock.acquire())
        while not client.stats().waiting:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with client.lock(name):
        asyncio.run(main())
        assert counted(client.stats()) == {"held": 1, "acquired": 1, "cancelled": 1}


@pytest.mark.redis
def test_a_signal_handler_that_raises_is_counted(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    def stop(*_: object) -> None:
        raise InterruptedError

    def interrupt() -> None:
        until(lambda: client.stats().waiting)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with stranger, pytest.raises(InterruptedError):
            Thread(interrupt)
            lock.acquire()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert client.stats().refused["interrupted"] == 1


@pytest.mark.redis
def test_an_outage_is_not_counted_as_a_lock_that_others_hold(tmp_path: Path) -> None:
    with holdfast.connect(f"unix://{tmp_path}/absent", lazy=True, connect_timeout=0.1) as client:
        with pytest.raises(holdfast.ConnectError):
            client.lock("stock").acquire(blocking=False)
        assert counted(client.stats()) == {"unreachable": 1}


@pytest.mark.redis
def test_a_refusal_of_the_server_is_counted(
    client: holdfast.Client, lock: holdfast.Lock, raw: redis.Redis
) -> None:
    raw.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(holdfast.ServerError):
            lock.acquire(blocking=False)
    finally:
        raw.config_set("min-replicas-to-write", 0)
    assert counted(client.stats()) == {"error": 1}


def test_a_loss_is_counted_once_by_its_cause_whoever_finds_it(
    client: holdfast.Client, lock: holdfast.Lock, raw: redis.Redis
) -> None:
    def lost() -> tuple[dict[Any, int], int, int]:
        stats = client.stats()
        return dict(stats.lost), stats.released, stats.hold.count

    hold = lock.hold()
    raw.delete(lock.name)
    with pytest.raises(holdfast.LockLost):
        hold.release()
    assert lost() == ({"gone": 1, "expired": 0, "unreachable": 0}, 0, 1)

    hold = lock.hold()
    raw.delete(lock.name)
    with pytest.raises(holdfast.LockLost):
        hold.check()
    with pytest.raises(holdfast.LockLost):
        hold.release()
    assert lost() == ({"gone": 2, "expired": 0, "unreachable": 0}, 0, 2)

    brief = client.lock(lock.name, lease=0.02, renew=False).hold()
    until(lambda: not lock.locked())
    with pytest.raises(holdfast.LockLost):
        brief.release()
    assert lost() == ({"gone": 2, "expired": 1, "unreachable": 0}, 0, 3)

    told = client.lock(lock.name, lease=0.02, renew=False).hold()
    until(lambda: told.lost.is_set())
    with pytest.raises(holdfast.LockLost):
        told.release()
    assert lost() == ({"gone": 2, "expired": 2, "unreachable": 0}, 0, 4)


def test_renewals_are_counted(client: holdfast.Client, name: str) -> None:
    with client.lock(name, lease=6, renew=True):
        until(lambda: client.stats().renewed >= 1)


# ------------------------------------------------------------------------ Names


def test_a_name_is_counted_apart_if_that_is_asked_for(client: holdfast.Client, name: str) -> None:
    client.lock(name, count_name=True).hold().release()
    client.lock(name).hold().release()  # this object did not ask for it
    strange = b"\xff" + name.encode()
    with client.lock(strange, count_name=True):
        stats = client.stats()
    assert list(stats.names) == [name, strange.decode("utf-8", "surrogateescape")]
    assert counted(stats.names[name]) == {"acquired": 1, "released": 1, "ended": 1}
    assert counted(stats.names["\udcff" + name]) == {"held": 1, "acquired": 1}
    assert counted(stats.others) == {"acquired": 1, "released": 1, "ended": 1}
    assert stats.acquired == 3


def test_a_million_names_do_not_become_a_million_counts(server: Server) -> None:
    with holdfast.connect(server.tcp, count_names=True, names_max=3) as client:
        for number in range(200):
            client.lock(f"order {number}")
        for number in (0, 1, 100, 150):
            client.lock(f"order {number}").hold().release()
        client.lock("order 2", count_name=False).hold().release()
        stats = client.stats()
        assert list(stats.names) == ["order 0", "order 1", "order 2"]
        assert [counts.acquired for counts in stats.names.values()] == [1, 1, 0]
        assert stats.others.acquired == 3
        assert stats.acquired == 5


def test_what_is_read_for_completions_is_no_name(server: Server) -> None:
    with holdfast.connect(server.tcp, count_names=True, alarm=(5, 60)) as client:
        assert client.stats().names == {}


def test_a_closed_client_counts_no_more(client: holdfast.Client) -> None:
    client.close()
    with pytest.raises(holdfast.ClosedError):
        client.stats()


class Heap(ctypes.Structure):
    """The fields of glibc's mallinfo2()."""

    _fields_ = [(f"member{number}", ctypes.c_size_t) for number in range(10)]


def in_use() -> tuple[int, int, int]:
    """Return the descriptors, Python objects, and bytes of the core in use by this process."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Heap
    heap = mallinfo2()
    bytes_in_use = heap.member7 + heap.member4  # uordblks, hblkhd
    return len(os.listdir("/proc/self/fd")), sys.getallocatedblocks(), bytes_in_use


def test_memory_and_descriptors_stay_flat(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    def work(count: int) -> None:
        for number in range(count):
            with lock as hold:
                assert hold.fence > 0
                stranger.acquire(blocking=False)  # it is refused
                if number % 50 == 0:
                    with contextlib.suppress(holdfast.LockTimeout):
                        stranger.hold(timeout=0.001)  # a wait that is given up
            client.lock(f"lock {number}").hold().release()

    work(300)  # pools and tables have their final size then
    descriptors, objects, memory = in_use()
    work(500)
    now = in_use()
    assert now[0] <= descriptors + 1
    assert now[1] < objects + 400
    assert now[2] < memory + 20_000

"""What a client counts."""

from __future__ import annotations

import contextlib
import gc
import os
import time

import pytest
import redis

import holdfast
from conftest import Thread, until


def test_a_client_counts_what_it_does(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock, raw: redis.Redis
) -> None:
    none = holdfast.Stats(0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0)
    assert client.stats() == none
    with lock:
        assert (client.stats().held, client.stats().acquired) == (1, 1)
        assert stranger.acquire(blocking=False) is False
        assert client.stats().refused == 1
        waiting = Thread(lambda: stranger.hold().release())
        until(lambda: client.stats().waiting == 1)
        time.sleep(0.05)
    waiting.finish()
    done = client.stats()
    assert (done.held, done.waiting, done.acquired, done.waited, done.released) == (0, 0, 2, 1, 2)
    assert 0.05 <= done.waited_seconds < 10

    hold = lock.hold()
    raw.delete(lock.name)
    with pytest.raises(holdfast.LockLost):
        hold.check()
    assert client.stats().lost == 1


def test_a_loss_is_counted_once_whoever_finds_it(
    client: holdfast.Client, lock: holdfast.Lock, raw: redis.Redis
) -> None:
    hold = lock.hold()
    raw.delete(lock.name)
    with pytest.raises(holdfast.LockLost):
        hold.release()
    assert (client.stats().lost, client.stats().released) == (1, 0)

    brief = client.lock(lock.name, lease=0.02).hold()
    time.sleep(0.03)
    with pytest.raises(holdfast.LockLost):
        brief.release()
    assert (client.stats().lost, client.stats().released) == (2, 0)

    told = client.lock(lock.name, lease=0.02).hold()
    until(lambda: told.lost.is_set())
    with pytest.raises(holdfast.LockLost):
        told.release()
    assert (client.stats().lost, client.stats().released) == (3, 0)


def test_a_closed_client_counts_no_more(client: holdfast.Client) -> None:
    client.close()
    with pytest.raises(holdfast.ClosedError):
        client.stats()


def resident() -> int:
    """Bytes of memory that this process has just now."""
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_memory_and_descriptors_stay_flat(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    def work(count: int) -> None:
        for number in range(count):
            with lock as hold:
                assert hold.fence > 0
                stranger.acquire(blocking=False)  # refused
                if number % 50 == 0:
                    with contextlib.suppress(holdfast.LockTimeout):
                        stranger.hold(timeout=0.001)  # a wait that is given up
            client.lock(f"lock {number}").hold().release()

    work(3000)  # pools and tables have their size by then
    gc.collect()
    descriptors, memory = len(os.listdir("/proc/self/fd")), resident()
    work(10000)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
    assert resident() < memory + 1_500_000

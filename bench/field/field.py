"""The contenders in Python, for run.py, which describes the protocol of these programs.

field.py NAME HOST PORT[,PORT…] PAGE

Several ports are independent masters, for the contenders that support them.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import sys
import threading
import time

import redis

import holdfast

LEASE = 10


# A contender makes locks with acquire() and release(): lock() returns one that is not renewed, and
# renewed(), if there is such a method, one that is renewed.


class Holdfast:
    """Holdfast."""

    def __init__(self, host: str, port: int, *others: int) -> None:
        masters = ",".join(f"{host}:{each}" for each in (port, *others))
        self._client = holdfast.connect(
            f"redis+quorum://{masters}?quarantine=0" if others else f"redis://{masters}"
        )

    def lock(self, name: str):
        return self._client.lock(name, lease=LEASE, renew=False)

    def renewed(self, name: str, lease: float):
        return self._client.lock(name, lease=lease, renew=True)


class RedisPy:
    """redis-py's Lock: it polls every 0.1 s."""

    def __init__(self, host: str, port: int) -> None:
        self._client = redis.Redis(host, port)

    def lock(self, name: str):
        return self._client.lock(name, timeout=LEASE)


class PythonRedisLock:
    """python-redis-lock: it waits with BLPOP."""

    def __init__(self, host: str, port: int) -> None:
        import redis_lock

        self._lock = redis_lock.Lock
        # The thread of a renewing lock ends if the pool, which has 100, has no connection left for
        # it.
        self._client = redis.StrictRedis(host, port, max_connections=2000)

    def lock(self, name: str):
        return self._lock(self._client, name, expire=LEASE)

    def renewed(self, name: str, lease: float):
        return self._lock(self._client, name, expire=int(lease), auto_renewal=True)


class Pottery:
    """pottery's Redlock: it polls after up to 0.2 s."""

    def __init__(self, host: str, *ports: int) -> None:
        import pottery

        self._lock = pottery.Redlock
        self._masters = {redis.Redis(host, port) for port in ports}

    def lock(self, name: str):
        return self._lock(key=name, masters=self._masters, auto_release_time=LEASE)


class Nothing:
    """A lock that locks nothing: the measurement must notice."""

    def __init__(self, host: str, port: int) -> None:
        pass

    def lock(self, name: str):
        return self

    def acquire(self) -> None:
        pass

    def release(self) -> None:
        pass


CONTENDERS = {
    "holdfast": Holdfast,
    "redis-py": RedisPy,
    "python-redis-lock": PythonRedisLock,
    "pottery": Pottery,
    "nothing": Nothing,
}

# ----------------------------------------------------------------------- Tasks

INSIDE, TURNS, LAST, CHANGES, VIOLATIONS = range(5)  # the layout of run.py


def take_turn(page: memoryview, me: int) -> None:
    """Do what a holder does: nothing, but it notices company."""
    if page[INSIDE] != 0:
        page[VIOLATIONS] += 1
    page[INSIDE] = me
    turns = page[TURNS]
    if page[LAST] != me:
        page[LAST] = me
        page[CHANGES] += 1
    page[TURNS] = turns + 1
    if page[INSIDE] != me:
        page[VIOLATIONS] += 1
    page[INSIDE] = 0


class Waiter(threading.Thread):
    """One waiter of a crowd."""

    def __init__(self, lock, page: memoryview, me: int, begin: int, end: int) -> None:
        super().__init__()
        self._lock, self._page, self._me, self._begin, self._end = lock, page, me, begin, end
        self.turns = self.longest = 0

    def run(self) -> None:
        try:
            self._wait()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)  # without waiting for the others

    def _wait(self) -> None:
        time.sleep(max(0, self._begin - time.monotonic_ns()) / 1e9)
        now = self._begin
        while now < self._end:
            since = time.monotonic_ns()
            self._lock.acquire()
            now = time.monotonic_ns()
            self.longest = max(self.longest, min(now, self._end) - since)
            if now < self._end:
                take_turn(self._page, self._me)
                self.turns += 1
            self._lock.release()


class Tasks:
    """The tasks of run.py; each answer becomes a line of JSON."""

    def __init__(self, contender, name: str, page: memoryview) -> None:
        self._contender, self._name, self._page = contender, name, page
        self._crowd: list = []  # locks, connected, and kept for all crowds
        self._pairs = contender.lock(f"{name}:pairs:{os.getpid()}")
        self._handoff = contender.lock(f"{name}:handoff")
        self._held: list = []

    def pairs(self, count: int) -> dict:
        lock, since = self._pairs, time.monotonic_ns()
        for _ in range(count):
            lock.acquire()
            lock.release()
        return {"ns": (time.monotonic_ns() - since) // count}

    def take(self) -> dict:
        self._handoff.acquire()
        return {"at": time.monotonic_ns()}

    def give(self) -> dict:
        at = time.monotonic_ns()
        self._handoff.release()
        return {"at": at}

    def crowd(self, count: int, first: int, begin: int, end: int) -> dict:
        while len(self._crowd) < count:
            self._crowd.append(self._contender.lock(f"{self._name}:crowd"))
        waiters = [
            Waiter(lock, self._page, first + i + 1, begin, end)
            for i, lock in enumerate(self._crowd[:count])
        ]
        for waiter in waiters:
            waiter.start()
        for waiter in waiters:
            waiter.join()
        return {
            "turns": [waiter.turns for waiter in waiters],
            "longest": [waiter.longest for waiter in waiters],
        }

    def hold(self, count: int, lease_ms: int) -> dict:
        for i in range(count):
            lock = self._contender.renewed(f"{self._name}:held:{i}", lease_ms / 1000)
            lock.acquire()
            self._held.append(lock)
        return {"held": count}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # run.py ends this process
    name, host, ports, path = sys.argv[1:]
    with open(path, "r+b") as file:
        page = memoryview(mmap.mmap(file.fileno(), 5 * struct.calcsize("q"))).cast("q")
    tasks = Tasks(CONTENDERS[name](host, *map(int, ports.split(","))), name, page)
    for line in sys.stdin:
        what, *numbers = line.split()
        print(json.dumps(getattr(tasks, what)(*map(int, numbers))), flush=True)
    os._exit(0)  # threads that renew do not end


if __name__ == "__main__":
    main()

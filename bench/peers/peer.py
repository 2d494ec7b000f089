"""For run.py: measures a lock of Holdfast or of redis-py.

"pairs N" on standard input runs N pairs, acquire and release, and answers the ns of one;
"handoffs N" hands the lock to and fro between two threads, each time to one that waits already,
and answers the median of the ns from before the release to after the acquire.
"""

from __future__ import annotations

import random
import statistics
import sys
import threading
import time

import redis

import holdfast


def connect(kind: str, host: str, port: str):
    """Give a client of either; both have a lock() for us."""
    if kind == "holdfast":
        return holdfast.connect(f"redis://{host}:{port}")
    return redis.Redis(host, int(port))


def pairs(lock, count: int) -> float:
    """Measure the lock that nobody else wants."""
    start = time.perf_counter_ns()
    for _ in range(count):
        lock.acquire()
        lock.release()
    return (time.perf_counter_ns() - start) / count


def handoffs(lock, count: int) -> float:
    """Measure the lock that another waits for."""
    released = 0
    took = []
    turn = threading.Semaphore(0)  # to begin to wait
    held = threading.Semaphore(0)

    def wait() -> None:
        for _ in range(count):
            turn.acquire()
            lock.acquire()
            took.append(time.perf_counter_ns() - released)
            lock.release()
            held.release()

    waiter = threading.Thread(target=wait)
    waiter.start()
    for _ in range(count):
        lock.acquire()
        turn.release()
        time.sleep(random.uniform(0.05, 0.15))  # until it waits; or sleeps: redis-py does, 0.1 s
        released = time.perf_counter_ns()
        lock.release()
        held.acquire()
    waiter.join()
    return statistics.median(took)


def main() -> None:
    """Measure as long as somebody asks."""
    with connect(*sys.argv[1:]) as client:
        # Either with a lease of 10 s that nobody renews.
        if isinstance(client, redis.Redis):
            lock = client.lock("bench:redis-py", timeout=10)
        else:
            lock = client.lock("bench:python", lease=10)
        for line in sys.stdin:
            what, count = line.split()
            measure = {"pairs": pairs, "handoffs": handoffs}[what]
            print(measure(lock, int(count)), flush=True)


if __name__ == "__main__":
    main()

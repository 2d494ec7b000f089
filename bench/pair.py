"""For run.py: N on standard input runs N pairs, acquire and release, and prints the ns per pair.

"N T shared" runs N pairs on each of T threads at once, which share one lock object, and "N T own"
gives each thread its own; these give up after 0.5 s and try again.
"""

from __future__ import annotations

import sys
import threading
import time

import holdfast


def pairs(lock: holdfast.Lock, count: int) -> None:
    """Run pairs one after the other."""
    for _ in range(count):
        lock.acquire()
        lock.release()


def timed_pairs(lock: holdfast.Lock, count: int) -> None:
    """Run pairs among other threads."""
    for _ in range(count):
        while not lock.acquire(timeout=0.5):
            pass
        lock.release()


def contend(locks: list[holdfast.Lock], count: int) -> None:
    """Use each lock object in a thread."""
    threads = [threading.Thread(target=timed_pairs, args=(lock, count)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Measure a round for each line of the input."""
    host, port = sys.argv[1:]
    with holdfast.connect(f"redis://{host}:{port}") as client:
        lock = client.lock("bench:python", lease=10, renew=False)
        for line in sys.stdin:
            count, *crowd = line.split()
            start = time.perf_counter_ns()
            if crowd:
                locks = [lock] * int(crowd[0])
                if crowd[1] == "own":
                    locks = [client.lock("bench:python", lease=10, renew=False) for _ in locks]
                contend(locks, int(count))
            else:
                locks = [lock]
                pairs(lock, int(count))
            print((time.perf_counter_ns() - start) / int(count) / len(locks), flush=True)


if __name__ == "__main__":
    main()

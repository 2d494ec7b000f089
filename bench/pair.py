"""For run.py: N on standard input runs N pairs, acquire and release; ns per pair back."""

from __future__ import annotations

import sys
import time

import holdfast


def main() -> None:
    """Measure as long as somebody asks."""
    host, port = sys.argv[1:]
    with holdfast.connect(f"redis://{host}:{port}") as client:
        lock = client.lock("bench:python", lease=10)
        for line in sys.stdin:
            count = int(line)
            start = time.perf_counter_ns()
            for _ in range(count):
                lock.acquire()
                lock.release()
            print((time.perf_counter_ns() - start) / count, flush=True)


if __name__ == "__main__":
    main()

"""All locks of a server, listed, and what that costs those who use it.

    tests/with-redis build/venv/bin/python bench/locks.py [LOCKS] [RATE]

Makes LOCKS held locks (100,000), and lists them by `holdfast ls`, at that RATE or the default's,
while one client acquires and releases another lock, in turns: half a second with the walk going
on, half a second with it stopped, so that what else the machine does hits both alike. Prints how
many pairs fewer there are beside it, and how much of the server's time the walk takes.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

BUILT = Path(__file__).parents[1] / "build/dev"
ROUND = 10_000  # pairs: long enough that a walk that was stopped has caught up


def make_locks(server: redis.Redis, count: int) -> None:
    """Write them as clients would: taken, with their last fences."""
    now = int(time.time() * 1e6)
    pipe = server.pipeline(transaction=False)
    for i in range(count):
        name, fence = f"order:{i}", f"{now + i:016d}"
        owner = f"holdfast@web-{i % 50}/{i % 4000 + 1}:{'ab' * 16}:t{i % 9 + 1}"
        pipe.hset(name, f"h{i:032x}{fence}", owner)
        pipe.pexpire(name, 3_600_000)
        pipe.set(f"{{{name}}}{name}:hf1:f", fence, px=86_400_000)
        if i % 1000 == 999:
            pipe.execute()
    pipe.execute()


def busy(server: redis.Redis) -> float:
    """Seconds of the processor that the server has used."""
    info = server.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def main() -> None:
    """Measure, and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    url = os.environ["HOLDFAST_TEST_URL"]
    server = redis.Redis.from_url(url)
    make_locks(server, count)
    walk = [BUILT / "cli/holdfast", "ls", "--json", "--url", url, "order:*"]
    if len(sys.argv) > 2:
        walk[2:2] = ["--rate", sys.argv[2]]

    before, began = busy(server), time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        subprocess.run(walk, stdout=output, check=True)
        took, share = time.monotonic() - began, busy(server) - before
        output.seek(0)
        listed = sum(1 for _ in output)
    print(f"{listed} locks listed in {took:.1f} s; the server was busy for {share:.2f} s,")
    print(f"{100 * share / took:.1f} % of that time, idling included")

    host, _, port = url.rpartition("/")[2].partition(":")
    pairs = subprocess.Popen(
        [BUILT / "bench/pair_c", host, port],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert pairs.stdin is not None
    assert pairs.stdout is not None

    def measure() -> float:
        assert pairs.stdin is not None
        assert pairs.stdout is not None
        pairs.stdin.write(f"{ROUND}\n")
        pairs.stdin.flush()
        return float(pairs.stdout.readline().split()[0])

    measure()
    alone, beside = [measure()], []
    with subprocess.Popen(walk, stdout=subprocess.DEVNULL) as walking:
        while walking.poll() is None:
            beside.append(measure())
            walking.send_signal(signal.SIGSTOP)
            alone.append(measure())
            walking.send_signal(signal.SIGCONT)
    pairs.stdin.close()
    pairs.wait()
    # Only rounds in which the machine did little else: those between two fast ones.
    fast = sorted(alone)[len(alone) // 3]
    quiet = [i for i in range(len(beside)) if alone[i] <= fast and alone[i + 1] <= fast]
    without = statistics.mean((alone[i] + alone[i + 1]) / 2 for i in quiet)
    drop = 1 - without / statistics.mean(beside[i] for i in quiet)
    print(f"a pair alone: {without / 1000:.1f} us; beside the walk {100 * drop:.1f} % fewer pairs")
    print(f"({len(quiet)} quiet rounds of {len(beside)})")


if __name__ == "__main__":
    main()

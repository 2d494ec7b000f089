"""All locks of a server, listed, and the cost of that for other users.

    tests/with-redis build/venv/bin/python bench/locks.py [LOCKS] [RATE]

Makes LOCKS held locks (100,000) and lists them with `holdfast ls`, at RATE or the default rate: how
much of the server's time does that take? Then one client acquires and releases another lock, in
turns of four seconds alone and four beside a walk. The fastest third of the short rounds of each
are compared: the machine did little else then.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

BUILT = Path(__file__).parents[1] / "build/dev"
ROUND = 3000  # pairs
TURN, TURNS = 4, 12  # seconds, and their number


def make_locks(server: redis.Redis, count: int) -> None:
    """Write the locks as clients would: taken, with their last fences."""
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
    """Return the seconds of processor time that the server has used."""
    info = server.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def main() -> None:
    """Measure, and print the results."""
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
    rounds: tuple[list[float], list[float]] = [], []
    for _ in range(TURNS):
        for beside in (False, True):
            walking = subprocess.Popen(walk, stdout=subprocess.DEVNULL) if beside else None
            end = time.monotonic() + TURN
            while time.monotonic() < end:
                rounds[beside].append(measure())
            if walking is not None:
                walking.kill()
                walking.wait()
    pairs.stdin.close()
    pairs.wait()
    alone, with_walk = (statistics.mean(sorted(each)[: len(each) // 3]) for each in rounds)
    drop = 100 * (1 - alone / with_walk)
    print(f"a pair alone: {alone / 1000:.1f} us; beside a walk {drop:.1f} % fewer pairs")


if __name__ == "__main__":
    main()

"""Holdfast beside the locks that others use: Python beside redis-py, Java beside Redisson.

The same program measures both, in rounds that take turns, beside a Redis of their own on TCP; a
ratio is that of neighbouring rounds. The ratios are to be compared, not the microseconds.
Redisson comes from Maven, redis-py with the tools of the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import urllib.parse
from pathlib import Path

from classpath import class_path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WITH_REDIS = ROOT / "tests" / "with-redis"


class Runner:
    """One program with one lock, which measures when asked to."""

    def __init__(self, name: str, command: list[str]) -> None:
        """Start it."""
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def measure(self, what: str, count: int) -> float:
        """Microseconds of one of them."""
        self._process.stdin.write(f"{what} {count}\n")
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"bench: {self.name} ended with status {self._process.wait()}")
        return float(answer) / 1000

    def close(self) -> None:
        """Let it end."""
        self._process.stdin.close()
        self._process.wait()


def compare(ours: Runner, theirs: Runner, what: str, rounds: int, count: int) -> tuple[float, ...]:
    """The median of each, and of the ratios of neighbouring rounds."""
    times = [(ours.measure(what, count), theirs.measure(what, count)) for _ in range(rounds)]
    return (
        *map(statistics.median, zip(*times, strict=True)),
        statistics.median(their / our for our, their in times),
    )


def main() -> None:
    """Measure both pairs of locks in turn, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=Path("build/dev"), help="for class paths")
    parser.add_argument("--jar", type=Path, help="default: java/target/holdfast-*.jar")
    parser.add_argument("--java", default="java", help="the Java 17 (or newer) to run")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    arguments = parser.parse_args()
    if "HOLDFAST_TEST_URL" not in os.environ:
        os.execv(WITH_REDIS, [WITH_REDIS, sys.executable, __file__, *sys.argv[1:]])

    target = ROOT / "java" / "target"
    jar = arguments.jar or next(iter(sorted(target.glob("holdfast-[0-9]*[0-9].jar"))), None)
    if jar is None:
        sys.exit("bench: build the jar first")
    classes = f"{jar}:{class_path(arguments.build_dir)}"
    python = [sys.executable, str(HERE / "peer.py")]
    java = [arguments.java, "--enable-native-access=ALL-UNNAMED"]  # or Java 24 and newer warn
    java += ["-cp", classes, str(HERE / "Peer.java")]
    rounds, pairs, warm_up, handoffs = (3, 50, 50, 1) if arguments.quick else (200, 50, 5000, 5)

    # One CPU for all, as in ../run.py: where a program is placed counts for more than what it does.
    for process in (0, int(os.environ["HOLDFAST_TEST_REDIS_PID"])):
        os.sched_setaffinity(process, {min(os.sched_getaffinity(0))})
    redis = urllib.parse.urlsplit(os.environ["HOLDFAST_TEST_URL"])
    where = [redis.hostname, str(redis.port)]
    for language, program, peer, wanted in (
        ("Python", python, "redis-py", 3.0),
        ("Java", java, "Redisson", 1.5),
    ):
        with contextlib.ExitStack() as afterwards:
            ours = Runner(language, [*program, "holdfast", *where])
            afterwards.callback(ours.close)
            theirs = Runner(peer, [*program, peer.lower(), *where])
            afterwards.callback(theirs.close)
            for runner in (ours, theirs):
                runner.measure("pairs", warm_up)
            our, their, ratio = compare(ours, theirs, "pairs", rounds, pairs)
            print(
                f"a pair: {language} {our:.0f} us, {peer} {their:.0f} us: "
                f"{ratio:.1f} times its rate (wanted: {wanted})"
            )
            our, their, ratio = compare(ours, theirs, "handoffs", 3, handoffs)
            print(
                f"a handoff: {language} {our:.0f} us, {peer} {their:.0f} us: "
                f"{ratio:.1f} times as fast"
            )


if __name__ == "__main__":
    main()

"""A pair without contention, C against raw hiredis, Python and Java against C; handoffs; more.

With a Redis of their own on TCP the programs measure short rounds in turn, and a ratio is that of
neighbouring rounds, so that other work of the machine hits both alike. Compare the ratios, not the
microseconds. A crowd consists of threads of one client that all ask for one lock, and give up after
half a second: how many scripts does the server run for each acquisition, and how many PINGs are
in the same write (docs/design.md)?
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
WITH_REDIS = HERE.parent / "tests" / "with-redis"


class Runner:
    """A program that measures on request."""

    def __init__(self, name: str, command: list[str]) -> None:
        """Start the program."""
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def measure(self, pairs: int, *more: object) -> float:
        """Return the microseconds per pair."""
        self._process.stdin.write(" ".join(map(str, (pairs, *more))) + "\n")
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"bench: {self.name} ended with status {self._process.wait()}")
        return float(answer) / 1000

    def close(self) -> None:
        """Let the program end."""
        self._process.stdin.close()
        self._process.wait()


def commands() -> tuple[int, int]:
    """Return how many scripts the server has run, and how many PINGs it has answered."""
    command = ["redis-cli", "-u", os.environ["HOLDFAST_TEST_URL"], "info", "commandstats"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    calls = [
        re.findall(rf"^cmdstat_{name}:calls=(\d+)", told, re.MULTILINE)
        for name in (r"eval\w*", "ping")
    ]
    return sum(map(int, calls[0])), sum(map(int, calls[1]))


def count_commands(runners: list[Runner], threads: int, each: int) -> None:
    """Print the cost of an acquisition in a crowd, with one lock object for all and one for
    each."""
    print(f"scripts + PINGs an acquisition, {threads} threads (wanted: 2.00 to 2.10 scripts)")
    print(f"{'':8}{'shared object':>16}{'own objects':>16}")
    for runner in runners:
        cells = []
        for objects in ("shared", "own"):
            before = commands()
            runner.measure(each, threads, objects)
            scripts, pings = (
                (after - then) / (threads * each)
                for after, then in zip(commands(), before, strict=True)
            )
            cells.append(f"{scripts:.2f} + {pings:.2f}")
        print(f"{runner.name:8}" + "".join(f"{cell:>16}" for cell in cells))


@contextlib.contextmanager
def placed(server: set[int], clients: set[int]) -> Iterator[None]:
    """Let the server, and programs that start meanwhile, run on these processors only."""
    places = {int(os.environ["HOLDFAST_TEST_REDIS_PID"]): server, 0: clients}
    before = {process: os.sched_getaffinity(process) for process in places}
    try:
        for process, processors in places.items():
            os.sched_setaffinity(process, processors)
        yield
    finally:
        for process, processors in before.items():
            os.sched_setaffinity(process, processors)


def arrangements() -> dict[str, tuple[set[int], set[int]]]:
    """Return where the server and its clients may run, which matters as much as the lock."""
    first, *others = sorted(os.sched_getaffinity(0))
    chosen = {"wherever the scheduler puts them": ({first, *others}, {first, *others})}
    if others:
        chosen["the server and the clients apart, as on two machines"] = ({first}, set(others))
    chosen["all on one processor"] = ({first}, {first})
    return chosen


def main() -> None:
    """Run the C programs, then the pair in all three in turn, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=Path("build/dev"), help="of CMake")
    parser.add_argument("--c", type=Path, help="pair_c; default: in the build directory")
    parser.add_argument("--handoff", type=Path, help="handoff; default: in the build directory")
    parser.add_argument("--jar", type=Path, help="default: java/target/holdfast-*.jar")
    parser.add_argument("--java", default="java", help="the Java 17 (or newer) to run")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    arguments = parser.parse_args()
    if "HOLDFAST_TEST_URL" not in os.environ:
        os.execv(WITH_REDIS, [WITH_REDIS, sys.executable, __file__, *sys.argv[1:]])

    program = arguments.c or arguments.build_dir / "bench" / "pair_c"
    handoff = arguments.handoff or arguments.build_dir / "bench" / "handoff"
    target = HERE.parent / "java" / "target"
    jar = arguments.jar or next(iter(sorted(target.glob("holdfast-[0-9]*[0-9].jar"))), None)
    if not program.exists() or not handoff.exists() or jar is None:
        sys.exit("bench: build the C programs and the jar first")
    java = [arguments.java, "--enable-native-access=ALL-UNNAMED"]  # or Java 24 and newer warn
    rounds, pairs, warm_up = (3, 50, 50) if arguments.quick else (40, 500, 5000)

    redis = urllib.parse.urlsplit(os.environ["HOLDFAST_TEST_URL"])
    where = [redis.hostname, str(redis.port)]
    print("to wake a thread", flush=True)
    subprocess.run([handoff.with_name("wake")], check=True)
    with contextlib.ExitStack() as afterwards:
        for name, places in arrangements().items():
            print(f"{name}:", flush=True)
            with placed(*places):
                subprocess.run([program, *where, str(rounds), str(pairs)], check=True)
        lasting = ("1", "20") if arguments.quick else ("10", "300")
        subprocess.run([handoff, *where, *lasting], check=True)
        family = handoff.with_name("family")
        subprocess.run([family, *where, "50" if arguments.quick else "2000"], check=True)

        # Otherwise the scheduler's choice of processor would matter more than the language.
        afterwards.enter_context(placed(*arrangements()["all on one processor"]))
        runners = [
            Runner(name, [*command, *where])
            for name, command in {
                "C": [str(program)],
                "Python": [sys.executable, str(HERE / "pair.py")],
                "Java": [*java, "-cp", str(jar), str(HERE / "Pair.java")],
            }.items()
        ]
        for runner in runners:
            afterwards.callback(runner.close)
            runner.measure(warm_up)
        runners[-1].measure(warm_up, "interruptible")
        times = {name: [] for name in ("C", "Python", "Java", "Java, interruptible")}
        for _ in range(rounds):
            for runner in runners:
                times[runner.name].append(runner.measure(pairs))
            times["Java, interruptible"].append(runners[-1].measure(pairs, "interruptible"))

        count_commands(runners, 16, pairs)

    middle = {name: statistics.median(values) for name, values in times.items()}
    for name, wanted in (("Python", 0.75), ("Java", 0.70), ("Java, interruptible", 0.70)):
        ratio = statistics.median(
            c / other for c, other in zip(times["C"], times[name], strict=True)
        )
        print(
            f"C {middle['C']:.1f} us, {name} {middle[name]:.1f} us a pair: "
            f"{ratio:.2f} of C (wanted: {wanted:.2f})"
        )


if __name__ == "__main__":
    main()

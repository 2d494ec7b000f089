"""Readers and semaphores in Java, Holdfast's beside Redisson's, in rounds that take turns.

    tests/with-redis build/venv/bin/python bench/field/readers.py [--rounds N] [--seconds S]

Threads of one process acquire and release, with nothing in between: a lock that all share
(RReadWriteLock), a semaphore with room for all and one with waiters (RSemaphore), and a lock each.
Prints the turns a second, and what a turn costs the server: medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from contenders import CONTENDERS, ROOT, Languages
from run import Page, Program, Server

OURS, THEIRS = "holdfast", "rlock"
EACH = -1  # permits: a separate lock for each thread
CASES = {  # permits (0: no limit), threads
    "1 reader": (0, 1),
    "16 readers of a lock": (0, 16),
    "16 locks, a thread each": (EACH, 16),
    "a semaphore of 100, 16 threads": (100, 16),
    "a semaphore of 3, 64 threads": (3, 64),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--java", default="java")
    options = parser.parse_args()
    languages, server = Languages(ROOT / "build" / "dev", options.java, {"java"}), Server()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        page = Page(Path(folder) / "page")
        programs = {}
        for of in CONTENDERS:
            if of.language == "java" and of.name in (OURS, THEIRS):
                command = [*languages.command(of), *server.address, str(page.path)]
                programs[of.name] = Program(of, command, Path(folder) / of.name)
        for number in range(options.rounds + 1):
            for case, (permits, threads) in CASES.items():
                for name, program in programs.items():
                    before = server.spent()["cpu"]
                    told = program.do("shared", permits, threads, int(options.seconds * 1000))
                    spent = server.spent()["cpu"] - before
                    if number > 0:  # the first round warms up
                        of = told["turns"] / options.seconds, spent / told["turns"] * 1e6
                        found.setdefault((case, name), []).append(of)
        for program in programs.values():
            program.close()
    print(
        "| | Holdfast, turns a second | Redisson | | Holdfast, server's \u00b5s a turn | Redisson |"
    )
    print("|---|---|---|---|---|---|")
    for case in CASES:
        rates, costs = (
            [statistics.median(round_[i] for round_ in found[case, name]) for name in programs]
            for i in (0, 1)
        )
        ratio = statistics.median(
            ours[0] / theirs[0]
            for ours, theirs in zip(found[case, OURS], found[case, THEIRS], strict=True)
        )
        print(
            f"| {case} | {rates[0]:,.0f} | {rates[1]:,.0f} | {ratio:.1f} "
            f"| {costs[0]:.0f} | {costs[1]:.0f} |"
        )


if __name__ == "__main__":
    main()

"""A lock on several independent masters: Holdfast beside the Redlock libraries, on one master, on
three and on five, in rounds that take turns.

    bench/field/quorum.py [--rounds N] [--languages c,python,go,node] [--quick]

Starts servers of its own for each. Prints tables for docs/performance.md, of medians:

    a pair, beside Holdfast in C on one master; its requests to each master
    16 waiters for one lock, half of them in each of two processes, and 2 waiters
    a pair while one of five masters hangs
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import redis

from contenders import CONTENDERS, NODE, ROOT, Contender, Languages
from run import MS, FailedError, Page, Program

SIZES = (1, 3, 5)
MASTERS = max(SIZES)
OF_MANY = [each for each in CONTENDERS if each.package in ("holdfast", "pottery")]
OF_MANY = [each for each in OF_MANY if each.language != "java"]
OF_MANY += [each for each in CONTENDERS if each.name == "redsync"] + [NODE]
PAIRS = 200
SLOW_US = 1_000_000  # a pair that takes longer is measured once


def start(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server on a free port of loopback, without files."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "redis-server", *words], stdout=subprocess.DEVNULL
    )
    client = redis.Redis("127.0.0.1", port)
    end = time.monotonic() + 30
    while True:
        with contextlib.suppress(redis.ConnectionError):
            client.ping()
            return server, port
        if time.monotonic() > end:
            raise FailedError("redis-server does not start")
        time.sleep(0.01)


class Entrant:
    """A contender on the first masters, with two processes."""

    def __init__(
        self, of: Contender, command: list[str], ports: list[int], page: Page, log: Path
    ) -> None:
        self.of, self.ports, self._page = of, ports, page
        words = [*command, "127.0.0.1", ",".join(map(str, ports)), str(page.path)]
        self.pair = [Program(of, words, log) for _ in range(2)]
        self.violations = 0

    def pairs(self, count: int) -> float:
        """Return the microseconds of one pair."""
        return self.pair[0].do("pairs", count)["ns"] / 1000

    def crowd(self, waiters: int, seconds: float) -> tuple[float, float]:
        """Return how often the lock changes its owner in a second, and the longest wait in ms."""
        self._page.clear()
        begin = time.monotonic_ns() + 100 * MS
        end = begin + int(seconds * 1e9)
        for number, program in enumerate(self.pair):
            program.ask("crowd", waiters // 2, number * waiters // 2, begin, end)
        told = [program.answer() for program in self.pair]
        self.violations += self._page.violations
        return self._page.changes / seconds, max(max(each["longest"]) for each in told) / MS

    def close(self) -> None:
        for program in self.pair:
            program.close()


def requests(ports: list[int]) -> int:
    """Count the reads of all these servers: a request that arrives in one piece is one read."""
    return sum(
        redis.Redis("127.0.0.1", port).info("stats")["total_reads_processed"] for port in ports
    )


def cell(figures: list[float]) -> str:
    return f"{statistics.median(figures):,.0f}" if figures else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/dev", help="of CMake")
    parser.add_argument("--languages", default="c,python,go,node")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2, help="of each round of a crowd")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.3
    count = 5 if options.quick else PAIRS
    languages = Languages(options.build_dir, "java", set(options.languages.split(",")))
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    with contextlib.ExitStack() as afterwards:
        folder = Path(afterwards.enter_context(tempfile.TemporaryDirectory(prefix="holdfast.")))
        page = Page(folder / "page")
        servers: dict[int, list[tuple[subprocess.Popen[bytes], int]]] = defaultdict(list)
        for size in SIZES:
            for _ in range(size):
                servers[size].append(start(folder))
                afterwards.callback(servers[size][-1][0].kill)
        entrants = []
        for of in OF_MANY:
            command = languages.command(of)
            for masters in SIZES if command else ():
                log = folder / f"{of.language}-{of.name}-{masters}.log"
                ports = [port for _, port in servers[masters]]
                entrants.append(Entrant(of, command, ports, page, log))
                afterwards.callback(entrants[-1].close)
        for what, why in languages.missing.items():
            print(f"bench: without {what}: {why}")

        for entrant in entrants:
            entrant.pairs(2 * count)
            entrant.pair[1].do("pairs", 1)
        for _ in range(options.rounds):
            for entrant in entrants:
                title, masters = entrant.of.title, len(entrant.ports)
                before = requests(entrant.ports)
                found["pair", title, masters].append(entrant.pairs(count))
                seen = requests(entrant.ports) - before - masters  # and the requests for the number
                found["requests", title, masters].append(seen / count / masters)
            for entrant in entrants:
                title, masters = entrant.of.title, len(entrant.ports)
                for waiters in (2, 16) if masters == MASTERS else ():
                    rate, longest = entrant.crowd(waiters, options.seconds)
                    found[f"rate {waiters}", title, masters].append(rate)
                    found[f"longest {waiters}", title, masters].append(longest)
        # The last of the five: Holdfast's waiters line up at the first.
        os.kill(servers[MASTERS][-1][0].pid, signal.SIGSTOP)
        for entrant in [each for each in entrants if len(each.ports) == MASTERS]:
            with contextlib.suppress(FailedError):
                figures = found["hangs", entrant.of.title, MASTERS]
                figures.append(entrant.pairs(1))
                if figures[0] < SLOW_US:
                    figures[:] = [entrant.pairs(count) for _ in range(options.rounds)]
        os.kill(servers[MASTERS][-1][0].pid, signal.SIGCONT)
        violations = {each.of.title: each.violations for each in entrants if each.violations}

    titles = list(dict.fromkeys(entrant.of.title for entrant in entrants))
    base = found["pair", "Holdfast, C", 1]
    print("| a pair, \u00b5s | 1 master | 3 masters | 5 masters | 5, of which one hangs |")
    print("|---|---|---|---|---|")
    for title in titles:
        cells = []
        for masters in SIZES:
            ratio = statistics.median(
                a / b for a, b in zip(found["pair", title, masters], base, strict=True)
            )
            asked = statistics.median(found["requests", title, masters])
            cells.append(f"{cell(found['pair', title, masters])} ({ratio:.1f}; {asked:.1f})")
        print(f"| {title} | {' | '.join(cells)} | {cell(found['hangs', title, MASTERS])} |")
    print()
    columns = "2 want it: changes of the holder a second | 16 | the longest wait of 16, ms"
    print(f"| one lock, {MASTERS} masters | {columns} |")
    print("|---|---|---|---|")
    for title in titles:
        figures = [found[what, title, 5] for what in ("rate 2", "rate 16", "longest 16")]
        print(f"| {title} | {' | '.join(map(cell, figures))} |")
    for title, number in violations.items():
        print(f"{title}: {number} times two were inside at once")


if __name__ == "__main__":
    main()

"""Holdfast beside other locks, in rounds that take turns, on one private server.

    run.py [--json FILE] [--quick] [--languages c,python,java,go]

Two processes of each contender (contenders.py) run all the time, and none is pinned. They read a
task from a line of standard input, and answer with a line of JSON:

    pairs N                    acquire and release N times; the ns of one pair
    take, give                 acquire or release on the main thread; the time, of CLOCK_MONOTONIC:
                               after the acquire, before the release
    crowd N FIRST BEGIN END    N waiters, numbered from FIRST, between these times: each acquires
                               and releases at once; the turns and the longest wait of each
    hold N LEASE_MS            (a process of its own) acquire N locks that are renewed

The holder of a crowd's lock only counts, on a page of memory that all of them share and without
atomic operations: so two holders at once are noticed, and are a violation. A contender that locks
nothing takes part, to show that violations are noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import mmap
import os
import platform
import random
import re
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

import redis

from contenders import CONTENDERS, NOTHING, Contender, Languages

ROOT = Path(__file__).resolve().parents[2]
WITH_REDIS = ROOT / "tests" / "with-redis"
LEASE = 10  # seconds; HELD_LEASE for locks that are kept
HELD_LEASE = 6
PATIENCE = 60  # seconds: no task takes longer
MS = 1_000_000


@dataclass(frozen=True)
class Size:
    """The amount that is measured."""

    handoffs: int
    pause: tuple[float, float]  # seconds for which a lock is held while another process waits
    rounds: int
    pairs: int
    crowds: dict[int, float]  # waiters: seconds of a round
    fair: int  # the crowd whose waiters are compared one by one
    held: int
    held_seconds: float


# The pause is long and evenly random, so that it ends anywhere in the sleep of a contender that
# polls.
FULL = Size(25, (0.05, 0.25), 2, 500, {2: 0.5, 8: 0.5, 32: 2.0, 128: 0.5}, 32, 10_000, 6.0)
QUICK = Size(2, (0.01, 0.02), 1, 20, {2: 0.1, 8: 0.2}, 8, 100, 0.5)


class FailedError(Exception):
    """A contender failed at its task; the others go on."""


class Page:
    """The memory that the holders of a crowd's lock share, as 64-bit numbers."""

    FIELDS = ("inside", "turns", "last", "changes", "violations")

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8 * len(self.FIELDS)))
        self.path = path
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")

    def clear(self) -> None:
        for i in range(len(self.FIELDS)):
            self._numbers[i] = 0

    def __getattr__(self, field: str) -> int:
        return self._numbers[self.FIELDS.index(field)]


class Program:
    """A process of a contender, which runs tasks."""

    def __init__(self, of: Contender, command: list[str], log: Path) -> None:
        self._title = of.title
        self._log = log
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        self.pid = self._process.pid
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._process.stdout, selectors.EVENT_READ)

    def ask(self, *words: object) -> None:
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
        except OSError as why:
            raise FailedError(self._why()) from why

    def answer(self) -> dict:
        if not self._ready.select(PATIENCE):
            raise FailedError(f"{self._title} did not answer in {PATIENCE} s")
        line = self._process.stdout.readline()
        if not line:
            raise FailedError(self._why())
        return json.loads(line)

    def do(self, *words: object) -> dict:
        self.ask(*words)
        return self.answer()

    def _why(self) -> str:
        said = self._log.read_text().strip()[-400:]
        return f"{self._title} ended with status {self._process.wait()}: {said}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Server:
    """The server of all contenders."""

    def __init__(self) -> None:
        url = os.environ["HOLDFAST_TEST_URL"]
        where = urllib.parse.urlsplit(url)
        self.address = [where.hostname, str(where.port)]
        self.redis = redis.Redis.from_url(url)
        self.pid = int(os.environ["HOLDFAST_TEST_REDIS_PID"])

    def spent(self) -> dict[str, float]:
        """Return the server's work so far. Commands that a script calls count, as the script
        does."""
        spent: dict[str, float] = {"cpu": cpu(self.pid)}
        stats = self.redis.info("commandstats")
        mine = ("cmdstat_info", "cmdstat_scan")
        spent["commands"] = sum(of["calls"] for name, of in stats.items() if name not in mine)
        spent["scripts"] = sum(
            of["calls"] for name, of in stats.items() if re.match("cmdstat_(eval|fcall)", name)
        )
        spent["reads"] = self.redis.info("stats")["total_reads_processed"]
        return spent

    def held(self) -> int:
        """Return how many of all keys are held locks."""
        keys = self.redis.scan_iter(match="*:held:*", count=1000)
        return sum(not key.endswith(b":hf1:f") for key in keys)

    def spends(self, before: dict[str, float]) -> dict[str, float]:
        return {name: now - before[name] for name, now in self.spent().items()}


def cpu(pid: int) -> float:
    """Return the seconds of all cores that a process has used, to the microsecond: Linux's clock of
    it."""
    return time.clock_gettime((~pid << 3) | 2)


class Entrant:
    """A contender with its two processes, and its results."""

    def __init__(self, of: Contender, command: list[str], server: Server, page: Page, to: Path):
        self.of, self._server, self._page = of, server, page
        self._command = [*command, *server.address, str(page.path)]
        self._log = to / f"{of.language}-{of.name}.log"
        self.pair: list[Program] = []
        self.failed: str | None = None
        self.measured: dict = {
            "pair_us": [],
            "handoff_us": [],
            "crowds": {},
            "violations": 0,
        }

    def start(self) -> Program:
        return Program(self.of, self._command, self._log)

    def close(self) -> None:
        for program in self.pair:
            program.close()
        self.pair = []

    def violate(self, count: int) -> None:
        self.measured["violations"] += count

    # ------------------------------------------------------------ Measurements

    def warm_up(self, size: Size) -> None:
        """Let all processes connect, and Java compile its code."""
        self.pair = [self.start(), self.start()]
        for program in self.pair:
            program.do("pairs", 6 * size.pairs)
        self.crowd(max(size.crowds), max(size.crowds.values()) / 4)
        for number in range(2):
            self.handoff(number, size)
        self.measured["handoff_us"].clear()

    def pairs(self, size: Size) -> None:
        self.measured["pair_us"].append(self.pair[0].do("pairs", size.pairs)["ns"] / 1000)

    def handoff(self, number: int, size: Size) -> None:
        """Hold the lock in one process, let the other wait for it, and release it."""
        one, other = self.pair if number % 2 else self.pair[::-1]
        one.do("take")
        other.ask("take")
        time.sleep(random.uniform(*size.pause))
        given = one.do("give")["at"]
        took = other.answer()["at"] - given
        other.do("give")
        if took < 0:
            self.violate(1)
        self.measured["handoff_us"].append(took / 1000)

    def crowd(self, waiters: int, seconds: float) -> dict:
        """Run half of the waiters in each process."""
        self._page.clear()
        begin = time.monotonic_ns() + 50 * MS + waiters * MS
        end = begin + int(seconds * 1e9)
        half = waiters // 2
        for number, program in enumerate(self.pair):
            program.ask("crowd", half, number * half, begin, end)
        time.sleep(max(0, begin - time.monotonic_ns()) / 1e9)
        before = self._server.spent()
        time.sleep(max(0, end - time.monotonic_ns()) / 1e9)
        spent = self._server.spends(before)
        told = [program.answer() for program in self.pair]
        turns = [count for each in told for count in each["turns"]]
        self.violate(self._page.violations + abs(sum(turns) - self._page.turns))
        return {
            "seconds": seconds,
            "turns": turns,
            "longest_ms": [round(ns / MS, 3) for each in told for ns in each["longest"]],
            "changes": self._page.changes,
            **{name: round(value, 6) for name, value in spent.items()},
        }

    def crowds(self, size: Size, waiters: int) -> None:
        found = self.measured["crowds"].setdefault(str(waiters), [])
        found.append(self.crowd(waiters, size.crowds[waiters]))

    def hold(self, size: Size) -> None:
        """Measure for some leases what renewing costs, when all locks are held."""
        if not self.of.held:
            return
        self.close()
        program = self.start()
        try:
            count = min(self.of.held, size.held)
            program.do("hold", count, HELD_LEASE * 1000)
            time.sleep(min(HELD_LEASE / 3, size.held_seconds))
            before, used, since = self._server.spent(), cpu(program.pid), time.monotonic()
            time.sleep(size.held_seconds)
            spent, took = self._server.spends(before), time.monotonic() - since
            self.measured["held"] = {
                "locks": count,
                "lease_s": HELD_LEASE,
                "client_percent": round(100 * (cpu(program.pid) - used) / took, 3),
                "server_percent": round(100 * spent["cpu"] / took, 3),
                "commands_per_second": round(spent["commands"] / took, 1),
                "reads_per_second": round(spent["reads"] / took, 1),
                "lost": count - self._server.held(),
            }
        finally:
            program.close()
            self._server.redis.flushall()


class Field:
    """All contenders, in turn."""

    def __init__(self, entrants: list[Entrant]) -> None:
        self.entrants = entrants

    def each(self, what: str, *arguments: object) -> None:
        """Call the method of each contender that has not failed."""
        for entrant in self.entrants:
            if entrant.failed is None:
                try:
                    getattr(entrant, what)(*arguments)
                except FailedError as why:
                    entrant.failed = str(why)
                    print(f"bench: {why}", file=sys.stderr)
                    entrant.close()


def say(text: str) -> None:
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", flush=True)


def measure(field: Field, size: Size) -> None:
    """Measure everything, in interleaved rounds."""
    say("warming up")
    field.each("warm_up", size)
    say("pairs, and owner changes")
    for _ in range(size.rounds):
        field.each("pairs", size)
        for waiters in size.crowds:
            field.each("crowds", size, waiters)
    say("handoffs")
    for number in range(size.handoffs):
        field.each("handoff", number, size)
    for entrant in field.entrants:
        entrant.close()
    say(f"{size.held} held locks")
    field.each("hold", size)


def idle(server: Server, seconds: float) -> float:
    """Return the percentage of a core that the server uses without clients."""
    before, since = cpu(server.pid), time.monotonic()
    time.sleep(seconds)
    return round(100 * (cpu(server.pid) - before) / (time.monotonic() - since), 3)


def watchful(nothing: Entrant) -> int:
    """Return the violations of a lock that locks nothing."""
    nothing.pair = [nothing.start(), nothing.start()]
    for program in nothing.pair:
        program.do("pairs", 1)  # until it is ready
    for _ in range(10):  # on a busy machine the two may not meet at once
        if not nothing.measured["violations"]:
            nothing.crowd(8, 0.3)
    nothing.close()
    return nothing.measured["violations"]


def machine(server: Server, java: str) -> dict[str, str]:
    """Describe the machine of the measurement."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.MULTILINE)
    told = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "([^"]+)"', told)
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": model[1] if model else platform.machine(),
        "kernel": platform.release(),
        "redis": server.redis.info("server")["redis_version"],
        "Python": platform.python_version(),
        "Java": version[1] if version else "?",
    }


def main() -> None:
    """Read the arguments, measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/dev", help="of CMake")
    parser.add_argument("--java", default="java", help="the Java 17 (or newer) to run, of a JDK")
    parser.add_argument("--languages", default="c,python,java,go")
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    arguments = parser.parse_args()
    if "HOLDFAST_TEST_URL" not in os.environ:
        os.execv(WITH_REDIS, [WITH_REDIS, sys.executable, __file__, *sys.argv[1:]])

    size = QUICK if arguments.quick else FULL
    load, began = os.getloadavg()[0], time.monotonic()
    server = Server()
    languages = Languages(
        arguments.build_dir, arguments.java, {"c", "python", *arguments.languages.split(",")}
    )
    with contextlib.ExitStack() as afterwards:
        folder = Path(afterwards.enter_context(tempfile.TemporaryDirectory(prefix="holdfast.")))
        page = Page(folder / "page")

        def enter(of: Contender) -> Entrant | None:
            command = languages.command(of)
            return Entrant(of, command, server, page, folder) if command else None

        entrants = [entrant for of in CONTENDERS if (entrant := enter(of))]
        for entrant in entrants:
            afterwards.callback(entrant.close)
        for what, why in languages.missing.items():
            print(f"bench: without {what}: {why}")
        noticed = watchful(enter(NOTHING))
        rest = idle(server, min(2.0, size.held_seconds))
        measure(Field(entrants), size)
        versions = dict(languages.versions)
        results = {
            "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
            "command": "scripts/bench",
            "seconds": round(time.monotonic() - began),
            "machine": machine(server, arguments.java)
            | ({"Go": versions.pop("Go")} if "Go" in versions else {}),
            "load_before": round(load, 2),
            "lease_s": LEASE,
            "fair_crowd": size.fair,
            "idle_server_percent": rest,
            "violations_of_nothing": noticed,
            "missing": languages.missing,
            "contenders": [
                {
                    "title": entrant.of.title,
                    "language": entrant.of.language,
                    "version": versions[entrant.of.package],
                    "waits": entrant.of.waits,
                    "order": entrant.of.order,
                    "renews": entrant.of.renews,
                    "fence": entrant.of.fence,
                    "ours": entrant.of.ours,
                    "failed": entrant.failed,
                    **entrant.measured,
                }
                for entrant in entrants
            ],
        }
    if arguments.json:
        arguments.json.write_text(dump(results))
    sys.exit(verdict(results))


def dump(results: dict) -> str:
    """Write JSON with short lines: a list of numbers is on one line."""
    text = json.dumps(results, indent=1)
    text = re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text)
    return text + "\n"


def verdict(results: dict) -> int:
    """Print the gist; return 1 if something was wrong with Holdfast, or with the measurement."""
    wrong = (
        [] if results["violations_of_nothing"] else ["a lock that locks nothing had no violation"]
    )
    for each in results["contenders"]:
        crowd = each["crowds"].get(str(results["fair_crowd"]), [])
        changes = sum(round_["changes"] for round_ in crowd)
        seconds = sum(round_["seconds"] for round_ in crowd)
        handoff = statistics.median(each["handoff_us"]) if each["handoff_us"] else float("nan")
        print(
            f"{each['title']:20} handoff {handoff:8.0f} us, {results['fair_crowd']} waiters "
            f"{changes / seconds if seconds else float('nan'):7.0f} changes/s, "
            f"violations {each['violations']}" + (f", {each['held']}" if "held" in each else "")
        )
        if each["failed"]:
            wrong.append(f"{each['title']} failed")
        if each.get("held", {}).get("lost"):
            print(f"{each['title']} lost {each['held']['lost']} of its held locks")
        if each["violations"]:
            wrong.append(f"{each['title']}: {each['violations']} violations")
    print(*(f"bench: {what}" for what in wrong), sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()

"""One lock, and waiters from C, Python threads, asyncio tasks, Java threads and virtual threads.

This is the conductor. It starts one program per language beside a Redis of its own, holds the
lock while all their waiters queue, one after the other and in a shuffled order, and releases it.
Then each waiter takes its turns: inside the lock it reads a counter and writes one more, two
commands, and adds itself and its fence to a list; outside it pauses for a moment, so that the
waiters queue in another order every time.

Meanwhile MONITOR records what the scripts do: what is added to the queue and with which score,
and which hold is granted the lock. So the order of service does not depend on the waiters'
reports, nor on the network: every single grant is checked.

Before that, the conductor stores a limit with another name, and each program that asks by another
number is refused.

With --kill connections break all the time. A waiter without a connection is skipped and returns to
its place, so the order is not strict then; everything else is the same.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections import Counter, deque
from itertools import pairwise
from pathlib import Path

import redis

import holdfast

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WITH_REDIS = ROOT / "tests" / "with-redis"
LOCK = "mixed"
QUEUE = f"{{{LOCK}}}{LOCK}:hf1:q"  # docs/protocol.md
EACH = 4  # waiters of each kind

KINDS = {
    "c": "C threads",
    "python": "Python threads",
    "asyncio": "asyncio tasks",
    "java": "Java threads",
    "virtual": "virtual threads",
}


class Wrong(Exception):
    """A broken promise."""


# -------------------------------------------------------------- The programs


class Program:
    """The waiters of one language."""

    def __init__(self, name: str, command: list[str]) -> None:
        """Start the program."""
        self.name = name
        self.kinds: list[str] = []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._ready = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        _, *self.kinds = self.process.stdout.readline().split() or [""]
        self._ready.set()
        for line in self.process.stdout:  # a JVM prints its threads' stacks there
            sys.stderr.write(line)

    def ready(self, until: float) -> None:
        """Wait until the program has printed its kinds of waiters."""
        if not self._ready.wait(until - time.monotonic()) or not self.kinds:
            raise Wrong(f"the program in {self.name} does not start")

    def queue(self, kind: str, number: int) -> None:
        """Let a waiter begin, which takes its turns."""
        self.process.stdin.write(f"{kind} {number}\n")

    def look(self) -> None:
        """Check that the program has not failed."""
        if self.process.poll():
            raise Wrong(f"the program in {self.name} ended with status {self.process.returncode}")

    def explain(self) -> None:
        """Let the program print on stderr where all its threads are."""
        if self.name != "C" and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)


def commands(arguments: argparse.Namespace) -> dict[str, list[str]]:
    program = arguments.build_dir / "tests" / "interop" / "interop_waiters"
    target = ROOT / "java" / "target"
    jar = arguments.jar or next(iter(sorted(target.glob("holdfast-[0-9]*[0-9].jar"))), None)
    if not program.exists() or jar is None:
        sys.exit("mixed: build the C tests and the jar first")
    return {
        "C": [str(program.resolve())],
        "Python": [sys.executable, str(HERE / "waiters.py")],
        "Java": [
            arguments.java,
            "--enable-native-access=ALL-UNNAMED",  # or Java 24 and newer warn
            *("-cp", str(jar), str(HERE / "Waiters.java")),
        ],
    }


def newest_java() -> str:
    """Return a Java for virtual threads: they need 21, which may not be the one in the PATH."""

    def version(home: Path) -> int:
        said = re.search(r'JAVA_VERSION="(\d+)', (home / "release").read_text())
        return int(said[1]) if said else 0

    homes = [javac.parents[1] for javac in Path("/usr/lib/jvm").glob("*/bin/javac")]
    homes = [home for home in homes if (home / "release").exists()]
    return str(max(homes, key=version) / "bin" / "java") if homes else "java"


# ---------------------------------------------------------------- The record


class Record:
    """The server's actions, from MONITOR: who queued, and who was granted the lock, in order."""

    ARRIVAL = re.compile(rf'"ZADD" "{re.escape(QUEUE)}" (?:"NX" )?"(\d+)" "([0-9a-f]{{32}})')
    REMOVAL = re.compile(rf'"ZREM" "{re.escape(QUEUE)}" "([0-9a-f]{{32}})')
    # A lock that was taken, or one with a queue; or the first hold of a lock that gets a queue.
    GRANT = re.compile(rf'"HSET" "{LOCK}" "h(?:f1" ")?([0-9a-f]{{32}})[12]?(\d{{16}})["x]')
    UNDONE = re.compile(r' lua\] "SET" .* "PXAT"')  # it was taken before other waiters

    def __init__(self, host: str, port: int) -> None:
        """Begin to record."""
        self.lines: list[str] = []
        self._socket = socket.create_connection((host, port))
        self._socket.sendall(b"MONITOR\r\n")
        self._answers = self._socket.makefile("r", encoding="latin-1")
        if self._answers.readline() != "+OK\n":
            raise Wrong("the server does not let us MONITOR")
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        for line in self._answers:
            if ' lua] "Z' in line or ' lua] "HSET"' in line or self.UNDONE.search(line):
                self.lines.append(line.rstrip())
            elif '"ECHO" "the end"' in line:
                return

    def end(self, server: redis.Redis) -> None:
        """Wait for the last line."""
        server.echo("the end")
        self._thread.join(60)
        if self._thread.is_alive():
            raise Wrong("MONITOR has not told the end")

    def _grants(self) -> list[tuple[int, str, int]]:
        """Return the line, the hold id and the fence of each grant."""
        grants: list[tuple[int, str, int]] = []
        for number, line in enumerate(self.lines):
            granted = self.GRANT.search(line)
            if granted and (not grants or grants[-1][1] != granted[1]):
                grants.append((number, granted[1], int(granted[2])))
            elif self.UNDONE.search(line):
                grants.pop()
        return grants

    def fences(self, in_turn: bool) -> list[int]:
        """Return the fences of the grants; check that waiters were served in the order of
        arrival."""
        if not in_turn:
            return [fence for _, _, fence in self._grants()]
        grants = {line: (hold, fence) for line, hold, fence in self._grants()}
        queue: deque[str] = deque()
        fences = []
        last = 0
        head = ""  # removed from the queue before its grant
        for number, line in enumerate(self.lines):
            if arrived := self.ARRIVAL.search(line):
                score, hold = int(arrived[1]), arrived[2]
                if score <= last:
                    raise Wrong(f"queued before others that had come first, {last}: {line}")
                last = score
                queue.append(hold)
            elif removed := self.REMOVAL.search(line):
                if queue and removed[1] == queue[0]:
                    head = queue.popleft()
                elif removed[1] in queue:
                    queue.remove(removed[1])
            elif number in grants:
                hold, fence = grants[number]
                if queue and hold == queue[0]:
                    queue.popleft()
                elif queue and hold != head:
                    waiting = ", ".join(queue)
                    raise Wrong(f"not the head of the queue was served: {line}; but: {waiting}")
                fences.append(fence)
        if queue:
            raise Wrong(f"queued, and never served: {', '.join(queue)}")
        return fences


# -------------------------------------------------------------- The conductor


def queue_up(lock: holdfast.Lock, kinds: dict[str, Program], until: float) -> list[int]:
    """Let all waiters queue; return their order."""
    crowd = [(kind, number) for number, kind in enumerate(list(kinds) * EACH)]
    random.shuffle(crowd)
    for standing, (kind, number) in enumerate(crowd, start=1):
        kinds[kind].queue(kind, number)
        while lock.inspect().waiters < standing:
            kinds[kind].look()
            if time.monotonic() > until:
                raise Wrong(f"waiter {number}, of the {KINDS[kind]}, does not queue")
            time.sleep(0.001)
    return [number for _, number in crowd]


def kill_a_connection(server: redis.Redis) -> None:
    """Break a connection of the library, in any program."""
    last = ("eval", "evalsha", "subscribe")
    theirs = [client["id"] for client in server.client_list() if client["cmd"] in last]
    if theirs:
        server.client_kill_filter(_id=random.choice(theirs))


def verify(
    server: redis.Redis, record: Record, order: list[int], rounds: int, handoffs: int, in_turn: bool
) -> tuple[Counter, Counter]:
    """Check that all was right; return how often each waiter held the lock, and the handoffs."""
    log = [entry.decode().split(":") for entry in server.lrange("log", 0, -1)]
    kinds = [kind for kind, _, _ in log]
    numbers = [int(number) for _, number, _ in log]
    fences = [int(fence) for _, _, fence in log]
    total = len(order) * rounds

    if in_turn and numbers[: len(order)] != order:
        raise Wrong(f"they came in the order {order} and were served {numbers[: len(order)]}")
    for before, after in pairwise(fences):
        if before >= after:
            raise Wrong(f"after the fence {before} came {after}")
    counter = int(server.get("counter"))
    if counter != total or len(log) != total:
        raise Wrong(f"{total} turns; {len(log)} were taken, and the counter says {counter}")
    if Counter(numbers) != dict.fromkeys(order, rounds):
        raise Wrong(f"some had more turns than others: {Counter(numbers)}")
    granted = record.fences(in_turn)[1:]  # the first is the conductor's
    if (in_turn and granted != fences) or not set(fences) <= set(granted):
        raise Wrong(f"{len(granted)} grants, of which not all are the waiters' {len(fences)}")
    changes = sum(a != b for a, b in pairwise(numbers)) + 1
    if changes < handoffs:
        raise Wrong(f"{changes} handoffs are too few to tell")
    for key in (LOCK, QUEUE):
        if server.exists(key):
            raise Wrong(f"the key {key} was left behind")
    return Counter(kinds), Counter(pairwise(kinds))


def explain(server: redis.Redis, record: Record, programs: list[Program]) -> None:
    """Print what happened."""
    with contextlib.suppress(redis.RedisError):
        log = server.lrange("log", 0, -1)
        print(f"{len(log)} turns; the last: {b' '.join(log[-10:]).decode()}", file=sys.stderr)
        print("turns of each:", Counter(e.decode().rsplit(":", 1)[0] for e in log), file=sys.stderr)
        print("the counter:", server.get("counter"), file=sys.stderr)
        print("the holder:", server.hgetall(LOCK), server.pttl(LOCK), "ms", file=sys.stderr)
        print("the queue:", *server.zrange(QUEUE, 0, -1), sep="\n  ", file=sys.stderr)
    print("the record ends:", *record.lines[-10:], sep="\n  ", file=sys.stderr)
    for program in programs:
        program.explain()
    time.sleep(2)


def conduct(programs: list[Program], url: str, handoffs: int, until: float, kill: bool) -> None:
    """Let all waiters take their turns, and check the result."""
    redis_at = urllib.parse.urlsplit(url)
    server = redis.Redis(redis_at.hostname, redis_at.port)
    record = Record(redis_at.hostname, redis_at.port)
    server.set("counter", 0)
    rounds = int(programs[0].process.args[-1])
    try:
        with holdfast.connect(f"{url}?connect_timeout=20") as client:
            for program in programs:
                program.ready(until)
            kinds = {kind: program for program in programs for kind in program.kinds}
            lock = client.lock(LOCK)
            with lock.hold(timeout=0):
                order = queue_up(lock, kinds, until)
            began = time.monotonic()
            for program in programs:
                program.process.stdin.close()
            while any(program.process.poll() is None for program in programs):
                for program in programs:
                    program.look()
                if time.monotonic() > until:
                    raise Wrong("they are not through in time")
                time.sleep(0.01)
                if kill:
                    kill_a_connection(server)
            for program in programs:
                program.look()
            took = time.monotonic() - began
        record.end(server)
        turns, pairs = verify(server, record, order, rounds, handoffs, not kill)
    except Wrong:
        explain(server, record, programs)
        raise

    how = "while connections broke" if kill else "in the order in which they queued"
    print(f"{sum(turns.values())} turns of {len(order)} waiters in {took:.1f} s, {how},")
    print("with rising fences; none was lost, and none counted twice:")
    for kind in KINDS:
        if kind in kinds:
            least = min(pairs[giver, kind] for giver in kinds)
            print(f"  {KINDS[kind]:<16}{turns[kind]:>6}, and at least {least} from any other kind")
            if least == 0:
                raise Wrong(f"some kind never handed over to {KINDS[kind]}")
        elif kind == "virtual":
            print(f"  {KINDS[kind]:<16}skipped: it takes Java 21 or newer, see --java")
        else:
            raise Wrong(f"no {KINDS[kind]} took part")


def main() -> None:
    """Start the programs and conduct them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=Path("build/dev"), help="of CMake")
    parser.add_argument("--jar", type=Path, help="default: java/target/holdfast-*.jar")
    parser.add_argument("--java", default=newest_java(), help="default: the newest JDK there is")
    parser.add_argument("--handoffs", type=int, default=10_000, help="at least")
    parser.add_argument("--kill", action="store_true", help="break connections meanwhile")
    parser.add_argument("--within", type=float, default=180, help="seconds that it may take")
    arguments = parser.parse_args()
    if "HOLDFAST_TEST_URL" not in os.environ:
        os.execv(WITH_REDIS, [WITH_REDIS, sys.executable, __file__, *sys.argv[1:]])

    until = time.monotonic() + arguments.within
    url = os.environ["HOLDFAST_TEST_URL"]
    at = urllib.parse.urlsplit(url)
    rounds = arguments.handoffs // (EACH * (len(KINDS) - 1)) + 10  # enough without virtual threads
    where = [at.hostname, str(at.port), LOCK, str(rounds)]
    programs = []
    try:
        with holdfast.connect(f"{url}?connect_timeout=20") as client:
            client.limit(f"{LOCK}:pool", permits=2)
        for name, command in commands(arguments).items():
            programs.append(Program(name, [*command, *where]))
        conduct(programs, url, arguments.handoffs, until, arguments.kill)
    except Wrong as what:
        sys.exit(f"mixed: {what}")
    finally:
        for program in programs:
            program.process.kill()


if __name__ == "__main__":
    main()

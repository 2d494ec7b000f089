"""One key, and locks of another library on it: redis-py, python-redis-lock, Jedis, Redisson.

This is the conductor. For each library, four of its processes and four of Holdfast (three in
Python, one in Java) take turns under the same key for a moment, on a resource that detects two
users at once: each holder writes in another database that it is inside, checks whether another
holder is, and writes one more than it has read. No two may be inside together, no turn may be lost,
Holdfast's fences must rise, and all eight processes must get turns.

Then each method of the library is called while Holdfast holds the key, on an object that takes
itself for the holder, which is the worst case; and the reverse. The answers, and the key's fate,
are in docs/migrating.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import redis
import redis_lock

import holdfast

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WITH_REDIS = ROOT / "tests" / "with-redis"
sys.path.insert(0, str(ROOT / "bench" / "field"))
from classpath import class_path  # noqa: E402

EACH = 4  # processes of each
ROUNDS = 20  # at most, until each has had a turn

# Redisson sleeps until the key's TTL ends or this message arrives; Holdfast does not send it by
# itself. docs/migrating.md advises users to send it.
WAKE = {"redisson": "redisson_lock__channel:{%s}"}

# The answer of each method while Holdfast holds the key, and the key's fate. Except for acquires,
# the object held the lock until its key was deleted.
WRONG = "ResponseError WRONGTYPE"
THEIRS = {
    "redis-py": {
        "acquire(blocking=False)": ("False", "untouched"),
        "acquire(blocking_timeout=0.2)": ("False", "untouched"),
        "locked()": (WRONG, "untouched"),
        "owned()": (WRONG, "untouched"),
        "release()": (WRONG, "untouched"),
        "extend(1)": (WRONG, "untouched"),
        "reacquire()": (WRONG, "untouched"),
    },
    "python-redis-lock": {
        "acquire(blocking=False)": (WRONG, "untouched"),
        "acquire(timeout=1)": (WRONG, "untouched"),
        "locked()": ("True", "untouched"),
        "get_owner_id()": (WRONG, "untouched"),
        "extend(1)": (WRONG, "untouched"),
        "release()": (WRONG, "untouched"),
        "reset()": ("None", "gone"),
        "reset_all()": ("None", "gone"),
    },
    "jedis": {
        "SET NX PX": ("false", "untouched"),
        "compare-and-delete": ("JedisDataException WRONGTYPE", "untouched"),
        "GET": ("JedisDataException WRONGTYPE", "untouched"),
        "EXISTS": ("true", "untouched"),
        "DEL": ("1", "gone"),
    },
    "redisson": {
        "tryLock()": ("false", "untouched"),
        "tryLock(200 ms)": ("false", "untouched"),
        "isLocked()": ("true", "untouched"),
        "isHeldByCurrentThread()": ("false", "untouched"),
        "getHoldCount()": ("0", "untouched"),
        "remainTimeToLive() > 0": ("true", "untouched"),
        "unlock()": ("IllegalMonitorStateException", "untouched"),
        "forceUnlock()": ("true", "gone"),
    },
}
OURS_IN_PYTHON = {
    "acquire(blocking=False)": ("False", "untouched"),
    "acquire(timeout=0.1)": ("False", "untouched"),
    "locked()": ("True", "untouched"),
    "inspect().foreign": ("True", "untouched"),
    "force_release(0)": ("LockNotOwnedError", "untouched"),
    "release()": ("LockLost", "untouched"),
    "extend(1)": ("LockLost", "untouched"),
    "reacquire()": ("LockLost", "untouched"),
}
OURS_IN_JAVA = {
    "tryLock()": ("false", "untouched"),
    "tryLock(100 ms)": ("false", "untouched"),
    "isLocked()": ("true", "untouched"),
    "inspect().foreign()": ("true", "untouched"),
    "forceUnlock()": ("false", "untouched"),
    "unlock()": ("LockLostException", "untouched"),
}


class Wrong(Exception):
    """A broken promise."""


class Process:
    """A process of the library, or of Holdfast."""

    def __init__(self, kind: str, command: list[str]) -> None:
        """Start the process."""
        self.kind = kind
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def tell(self, *words: object) -> None:
        """Send it a command."""
        try:
            print(*words, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            self.line()

    def line(self) -> str:
        """Return its answer."""
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            raise Wrong(f"a process of {self.kind} ended with status {status}")
        return line.rstrip("\n")

    def lines(self) -> dict[str, tuple[str, ...]]:
        """Return its answers, for each method."""
        answers = {}
        while line := self.line():
            name, *answer = line.split("\t")
            answers[name] = tuple(answer)
        return answers


def commands(arguments: argparse.Namespace, where: list[str]) -> dict[str, list[str]]:
    """Return how to start a process of each kind; "java" is Holdfast, too."""
    target = ROOT / "java" / "target"
    jar = arguments.jar or next(iter(sorted(target.glob("holdfast-[0-9]*[0-9].jar"))), None)
    if jar is None:
        sys.exit("neighbours: build the jar first")
    classes = arguments.build_dir.resolve() / "neighbours"
    path = f"{classes}:{jar}:{class_path(arguments.build_dir)}"
    compiled = ["javac", "-d", classes, "-cp", path, HERE / "Neighbour.java"]
    subprocess.run(compiled, check=True)
    python = [sys.executable, str(HERE / "neighbour.py")]
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    java += ["-cp", path, "Neighbour"]
    return {
        "holdfast": [*python, "holdfast", *where],
        "java": [*java, "holdfast", *where],
        "redis-py": [*python, "redis-py", *where],
        "python-redis-lock": [*python, "python-redis-lock", *where],
        "jedis": [*java, "jedis", *where],
        "redisson": [*java, "redisson", *where],
    }


def contend(
    ours: list[Process],
    theirs: list[Process],
    store: redis.Redis,
    arguments: argparse.Namespace,
) -> str:
    """Let all processes take turns on one key."""
    kind = theirs[0].kind
    key = f"lock:{kind}"
    wake = WAKE[kind] % key if kind in WAKE and not arguments.quiet else ""
    turns, longest, refused = [0] * 2 * EACH, [0.0] * 2 * EACH, 0
    for _ in range(ROUNDS):  # a program that only polls may miss its chance for long
        until = time.time() + arguments.seconds
        for process in ours:
            process.tell("contend", key, until, arguments.pause, wake)
        for process in theirs:
            process.tell("contend", key, until, arguments.pause)
        for i, process in enumerate([*ours, *theirs]):
            took, waited, raised = process.line().split()
            turns[i] += int(took)
            longest[i] = max(longest[i], float(waited))
            refused += int(raised)
        if min(turns) > 0 or arguments.quiet:
            break
    if sum(turns) != int(store.get(f"{key}:turns")):
        raise Wrong(f"{kind}: {sum(turns)} turns, of which {store.get(f'{key}:turns')} counted")
    if store.get(f"{key}:inside") != b"0":
        raise Wrong(f"{kind}: a program has not left")
    if min(turns) == 0 and not arguments.quiet:
        raise Wrong(f"{kind}: a program had no turn: ours {turns[:EACH]}, theirs {turns[EACH:]}")
    said = f"  {kind:<18}{sum(turns[:EACH]):>5} turns of ours, {sum(turns[EACH:]):>4} of theirs; "
    said += f"longest wait {max(longest[:EACH]):.2f} s and {max(longest[EACH:]):.2f} s"
    return said + (f"; {refused} times WRONGTYPE" if refused else "")


def compare(kind: str, said: dict, wanted: dict) -> None:
    """Check that the table is true."""
    for name in {**said, **wanted}:
        if said.get(name) != wanted.get(name):
            raise Wrong(f"{kind}: {name} is {said.get(name)}, and not {wanted.get(name)}")


def ask(theirs: Process) -> None:
    """Check that the methods answer as docs/migrating.md states."""
    kind = theirs.kind
    theirs.tell("theirs", f"lock:{kind}:methods")
    compare(kind, theirs.lines(), THEIRS[kind])
    theirs.tell("ours", f"lock:{kind}:methods")
    in_java = kind in ("jedis", "redisson")
    compare(f"Holdfast on {kind}", theirs.lines(), OURS_IN_JAVA if in_java else OURS_IN_PYTHON)


def heal(url: str, keys: redis.Redis) -> None:
    """Check that a lock without a TTL, whose holder died, stands until a waiter may end it."""
    abandoned = {
        "redis-py": lambda key: keys.lock(key).acquire(),
        "python-redis-lock": lambda key: redis_lock.Lock(keys, key.removeprefix("lock:")).acquire(),
    }
    with holdfast.connect(f"{url}?connect_timeout=20") as client:
        for kind, acquire in abandoned.items():
            key = f"lock:{kind}:abandoned"
            acquire(key)
            if client.lock(key, lease=0.3).acquire(timeout=0.5) or keys.pttl(key) != -1:
                raise Wrong(f"{kind}: a lock without a TTL was not left alone")
            began = time.monotonic()
            healed = client.lock(key, lease=0.3, heal=True)
            if not healed.acquire(timeout=30):
                raise Wrong(f"{kind}: a lock without a TTL was not healed")
            if time.monotonic() - began < 0.25:
                raise Wrong(f"{kind}: a lock without a TTL was taken before it ended")
            with contextlib.suppress(holdfast.LockLost):  # if the machine has paused
                healed.release()


def main() -> None:
    """Start the processes and conduct them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, default=Path("build/dev"), help="for classes")
    parser.add_argument("--jar", type=Path, help="default: java/target/holdfast-*.jar")
    parser.add_argument("--seconds", type=float, default=2, help="beside each neighbour")
    parser.add_argument("--pause", type=int, default=20, help="ms between turns, at most")
    parser.add_argument("--quiet", action="store_true", help="tell Redisson nothing; see what then")
    parser.add_argument("--only", choices=THEIRS, action="append", help="default: all of them")
    arguments = parser.parse_args()
    if "HOLDFAST_TEST_URL" not in os.environ:
        os.execv(WITH_REDIS, [WITH_REDIS, sys.executable, __file__, *sys.argv[1:]])

    at = urllib.parse.urlsplit(os.environ["HOLDFAST_TEST_URL"])
    store = redis.Redis(at.hostname, at.port, db=1)
    start = commands(arguments, [at.hostname, str(at.port)])
    kinds = arguments.only or list(THEIRS)
    processes = []
    within = 300 + ROUNDS * len(kinds) * arguments.seconds
    late = threading.Timer(within, lambda: [each.process.kill() for each in processes])
    late.daemon = True
    late.start()

    def begin(kind: str) -> Process:
        processes.append(Process(kind, start[kind]))
        return processes[-1]

    try:
        ours = [begin(kind) for kind in ("java", *["holdfast"] * (EACH - 1))]
        theirs = {kind: [begin(kind) for _ in range(EACH)] for kind in kinds}
        for process in processes:
            if process.line() != "ready":
                raise Wrong(f"a process of {process.kind} does not start")
        print(f"{EACH} + {EACH} processes on one key, for {arguments.seconds} s:", flush=True)
        for kind in kinds:
            print(contend(ours, theirs[kind], store, arguments), flush=True)
            ask(theirs[kind][0])
        heal(os.environ["HOLDFAST_TEST_URL"], redis.Redis(at.hostname, at.port))
    except Wrong as what:
        sys.exit(f"neighbours: {what}")
    finally:
        for process in processes:
            process.process.kill()
    print("No two held it, and what died without a TTL was healed.")
    print("The methods answered what docs/migrating.md says.")


if __name__ == "__main__":
    main()

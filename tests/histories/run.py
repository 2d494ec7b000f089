"""Workers in all languages that use the same locks, a nemesis, and a check of what happened.

    run.py [--minutes 1] [--on DEPLOYMENT]... [--seed N] [--build-dir DIR] [--java JAVA]

Prints a summary; ends with 1 if something was wrong. README.md describes it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from check import SECOND, check, turns
from deployments import DEPLOYMENTS, PDEATH, Clock, Deployment, Server, now
from draw import draw, dump

import holdfast

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOCKS = 4


class Worker:
    """A worker's process, started again after each kill."""

    def __init__(self, name: str, command: list[str], where: list[str], folder: Path) -> None:
        self.name, self._command, self._where, self._folder = name, command, where, folder
        self._lives = 0
        self.start()

    def start(self) -> None:
        self._lives += 1
        self.who = f"{self.name}-{self._lives}"
        history = self._folder / f"{self.who}.jsonl"
        url, resource, locks = self._where
        self.process = subprocess.Popen(
            [*PDEATH, *self._command, url, resource, str(history), locks], stdin=subprocess.PIPE
        )

    def kill(self) -> str:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        killed = self.who
        self.start()
        return killed


class Nemesis:
    """The faults, in an order that the seed decides."""

    def __init__(self, deployment: Deployment, workers: list[Worker], seed: int) -> None:
        self._deployment, self._workers = deployment, workers
        self._chance = random.Random(seed)
        self._choices = {
            "worker killed": (1, self._kill_worker),
            "worker stopped": (2, self._stop_worker),
            **deployment.faults,
        }
        self.faults: list[tuple[int, str]] = []
        self.pauses: list[tuple[str, int, int]] = []
        self.killed: set[str] = set()

    def strike(self) -> None:
        weights = [weight for weight, _ in self._choices.values()]
        what = self._chance.choices(list(self._choices), weights)[0]
        self.faults.append((now(), what))
        self._choices[what][1]()
        self._deployment.look()

    def _kill_worker(self) -> None:
        self.killed.add(self._chance.choice(self._workers).kill())

    def _stop_worker(self) -> None:
        worker = self._chance.choice(self._workers)
        since = now()
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(self._chance.choice((0.05, 0.5, 1.5)))
        worker.process.send_signal(signal.SIGCONT)
        self.pauses.append((worker.who, since, now() + SECOND // 2))


# ------------------------------------------------------------------ Afterwards


def left_behind(deployment: Deployment) -> list[str]:
    """Return the parts of locks and queues that have no owner; all leases have ended."""
    found = []
    with holdfast.connect(deployment.urls[0]) as client:
        for key in (*(f"job:{number}" for number in range(LOCKS)), "pool"):
            for server in deployment.serve(key):
                if server.exists(key):
                    found.append(f"the lock {key}: {server.hgetall(key)}")
            # The next acquire skips dead waiters in the queue.
            client.lock(key).hold(timeout=5).release()
            server = deployment.serves(key)
            if waiting := server.zrange(f"{{{key}}}{key}:hf1:q", 0, -1):
                found.append(f"in the queue of {key}: {waiting}")
    return found


def timeline(
    histories: dict[str, list[dict]],
    faults: list[tuple[int, str]],
    losses: list[tuple[int, int]],
) -> dict:
    """Return when each lock was held and by whom, in milliseconds; draw.py draws it."""
    held = [turn for turn in turns(histories) if turn.fence is not None]
    start = min((turn.began for turn in held), default=0)
    end = max((turn.over for turn in held), default=0)

    def ms(at: int) -> float:
        return round((min(at, end) - start) / 1e6, 3)

    return {
        "ms": ms(end),
        "faults": [(ms(at), what) for at, what in faults],
        "losses": [(ms(since), ms(to)) for since, to in losses],
        "holds": [
            (turn.key, turn.who, ms(turn.ended), ms(max(turn.over, turn.ended)), turn.shared)
            for turn in sorted(held, key=lambda turn: turn.ended)
        ],
    }


def read(folder: Path) -> dict[str, list[dict]]:
    """Read what each process wrote; the last line of a killed one may be incomplete."""
    histories = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().split("\n")
        histories[path.stem] = [json.loads(line) for line in lines[:-1]]
    return histories


def tell_enough(folder: Path, on: str) -> bool:
    """Return whether there is enough to check; workers on several masters ask for no results."""
    told = Counter(event["e"] for events in read(folder).values() for event in events)
    return told["got"] >= 100 and (on.startswith("quorum") or told["result"] > 0)


def commands(arguments: argparse.Namespace, folder: Path) -> dict[str, list[str]]:
    """Return how each worker is started: its Java compiled, with a jar that no build replaces."""
    target = ROOT / "java" / "target"
    built = next(iter(sorted(target.glob("holdfast-[0-9]*[0-9].jar"))), None)
    program = arguments.build_dir / "tests" / "histories" / "histories_worker"
    if built is None or not program.exists():
        sys.exit("histories: build the C tests and the jar first")
    jar, classes = shutil.copy(built, folder), folder / "classes"
    javac = Path(shutil.which(arguments.java)).resolve().with_name("javac")
    subprocess.run([javac, "-cp", jar, "-d", classes, HERE / "Worker.java"], check=True)
    java = [arguments.java, "--enable-native-access=ALL-UNNAMED", "-XX:TieredStopAtLevel=1"]
    return {
        "c": [str(program.resolve())],
        "python": [sys.executable, str(HERE / "worker.py")],
        "java": [*java, "-cp", f"{jar}:{classes}", "Worker"],
    }


def run(
    arguments: argparse.Namespace, programs: dict[str, list[str]], on: str, folder: Path
) -> bool:
    """Let the workers work, make faults, and check. Return whether all was right."""
    began = time.monotonic()
    chance = random.Random(arguments.seed)
    resource = Server(folder / "resource")
    deployment, workers = None, []
    try:
        deployment = DEPLOYMENTS[on](folder, random.Random(chance.random()))
        for name, command in programs.items():
            for number, url in enumerate(deployment.urls):
                where = [url, str(resource.port), str(LOCKS)]
                workers.append(Worker(f"{name}-{number}", command, where, folder))
        nemesis = Nemesis(deployment, workers, chance.randrange(2**32))
        time.sleep(1)
        minutes = arguments.minutes / len(arguments.on or DEPLOYMENTS)
        until = time.monotonic() + 60 * minutes
        patience = until + 60  # a busy machine does less in its time
        while (at := time.monotonic()) < until or (at < patience and not tell_enough(folder, on)):
            nemesis.strike()
            time.sleep(chance.random() * 0.5)
            for worker in workers:
                if worker.process.poll() is not None:
                    sys.exit(f"histories: {worker.who} ended: {worker.process.returncode}")
        wrong = []
        for worker in workers:
            worker.process.stdin.close()
        for worker in workers:
            try:
                if worker.process.wait(30) != 0:
                    wrong.append(f"{worker.who} failed")
            except subprocess.TimeoutExpired:
                worker.process.send_signal(signal.SIGQUIT)
                wrong.append(f"{worker.who} does not end")
        ended = now()
        time.sleep(4)  # the longest lease, and an unclaimed grant to a dead waiter
        deployment.look()
        histories = read(folder)
        keys = [f"job:{number}" for number in range(LOCKS)]
        taken = {key: [int(f) for f in resource.redis.lrange("log:" + key, 0, -1)] for key in keys}
        verdict = check(
            histories,
            taken,
            nemesis.pauses + deployment.pauses,
            deployment.losses,
            left_behind(deployment),
            nemesis.killed,
            ended,
            votes=on.startswith("quorum"),
        )
        wrong += verdict.wrong
    finally:
        for worker in workers:
            worker.process.kill()
        if deployment:
            deployment.close()
        resource.kill()
    picture = arguments.pictures / f"histories-{on}.svg"
    story = {"on": on, "seed": arguments.seed, "counts": dict(verdict.counts)}
    story |= timeline(histories, nemesis.faults, deployment.losses)
    picture.with_suffix(".json").write_text(dump(story))
    draw(story, picture)
    faults = Counter(what for _, what in nemesis.faults)
    print(f"{on}: {time.monotonic() - began:.0f} s, seed {arguments.seed}; {picture} shows it all")
    print("  faults:", ", ".join(f"{what} {count}" for what, count in sorted(faults.items())))
    told = ("acquisitions", "shared overlaps", "results", "paid calls", "unknown outcomes")
    rare = ("losses", "unknown", "stale writes refused")
    excused = ("overlaps excused", "results excused", "calls excused")
    for what in (*told, *rare, *excused):
        print(f"  {what}: {verdict.counts[what]}")
    never = ("overlaps", "permits exceeded", "fences repeated", "stale writes accepted")
    for what in (*never, "wrong results", "paid twice", "hangs", "orphans"):
        print(f"  {what}: {verdict.counts[what]} (0)")
    print(*wrong[:20], sep="\n", end="\n" if wrong else "")
    if not (enough := tell_enough(folder, on)):
        print("there is too little to check: 100 acquisitions and a result are wanted")
    return enough and not wrong


def see(arguments: argparse.Namespace, programs: dict[str, list[str]], on: str) -> bool:
    """Run one deployment, and keep the histories if they are wrong."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast.histories."))
    well = False
    try:
        well = run(arguments, programs, on, folder)
    finally:
        if not well:
            kept = arguments.pictures / f"histories-{on}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)
            print(f"the histories are in {kept}")
        shutil.rmtree(folder)
    return well


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1, help="for all of them together")
    parser.add_argument("--on", choices=DEPLOYMENTS, action="append", help="not on each")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "dev", help="of CMake")
    parser.add_argument("--java", default="java", help="of a JDK")
    parser.add_argument("--pictures", type=Path, default=ROOT / "build", help="where they go")
    arguments = parser.parse_args()
    Clock.library = arguments.build_dir.resolve() / "tests" / "libtest_step.so"
    with tempfile.TemporaryDirectory(prefix="holdfast.workers.") as made:
        programs = commands(arguments, Path(made))
        wells = [see(arguments, programs, on) for on in arguments.on or DEPLOYMENTS]
    sys.exit(0 if all(wells) else 1)


if __name__ == "__main__":
    os.umask(0o077)
    main()

"""Workers in all languages that want the same locks, a nemesis, and a look at what happened.

    run.py [--minutes 0.6] [--seed N] [--build-dir DIR] [--java JAVA]

Prints a summary; ends with 1 if something was wrong. README.md says what and how.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import redis
from check import SECOND, check, turns

import holdfast

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOCKS = 4
PDEATH = ["setpriv", "--pdeathsig", "KILL"]  # nothing outlives this program


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A Redis that keeps what it confirmed, also over a kill -9."""

    def __init__(self, folder: Path, keeps: bool) -> None:
        self.port = free_port()
        folder.mkdir()
        self._command = [*PDEATH, "redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        self._command += ["--dir", str(folder), "--save", "", "--logfile", str(folder / "log")]
        if keeps:
            self._command += ["--appendonly", "yes", "--appendfsync", "always"]
        self.redis = redis.Redis("127.0.0.1", self.port, retry=None)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while True:
            with contextlib.suppress(redis.RedisError):
                if self.redis.ping():
                    return
            if time.monotonic() > until or self.process.poll() is not None:
                sys.exit("histories: redis-server does not start")
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Proxy:
    """Stands between some workers and the server, and carries what they say badly."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self._to, self._chance = port, chance
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._mutex = threading.Lock()
        self.delay = 0.0  # of the next piece of each connection that is unlucky
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listening.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._mutex:
                self._pairs.add((near, far))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(*ends, (near, far)), daemon=True).start()

    def _carry(self, here: socket.socket, there: socket.socket, pair: tuple) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(65536):
                if self.delay and self._chance.random() < 0.3:
                    time.sleep(self.delay)
                if self._chance.random() < 0.0005:
                    there.sendall(data[: self._chance.randrange(len(data))])
                    break  # cut in the middle
                there.sendall(data)
        self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._mutex:
            self._pairs.discard(pair)
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self) -> None:
        """Cut a few of the connections."""
        with self._mutex:
            pairs = list(self._pairs)
        for pair in self._chance.sample(pairs, min(3, len(pairs))):
            self._end(pair)


class Worker:
    """A worker's process, started again whenever it was killed."""

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
    """What goes wrong, in an order that the seed decides."""

    def __init__(self, server: Server, proxy: Proxy, workers: list[Worker], seed: int) -> None:
        self._server, self._proxy, self._workers = server, proxy, workers
        self._chance = random.Random(seed)
        self.faults: list[tuple[int, str]] = []
        self.pauses: list[tuple[str, int, int]] = []
        self.killed: set[str] = set()

    def strike(self) -> None:
        what = self._chance.choice(
            (
                *["worker killed", "worker stopped", "worker stopped"],
                *["connections killed"] * 4,
                *["connections cut", "bytes delayed"] * 2,
                *["server stopped", "server paused", "server restarted", "scripts flushed"],
            )
        )
        self.faults.append((now(), what))
        with contextlib.suppress(redis.RedisError):
            getattr(self, "_" + what.replace(" ", "_"))()

    @contextlib.contextmanager
    def _pause(self, who: str):
        since = now()
        yield
        self.pauses.append((who, since, now() + SECOND // 2))

    def _worker_killed(self) -> None:
        self.killed.add(self._chance.choice(self._workers).kill())

    def _worker_stopped(self) -> None:
        worker = self._chance.choice(self._workers)
        with self._pause(worker.who):
            worker.process.send_signal(signal.SIGSTOP)
            time.sleep(self._chance.choice((0.05, 0.5, 1.5)))
            worker.process.send_signal(signal.SIGCONT)

    def _connections_killed(self) -> None:
        clients = self._server.redis.client_list()
        for client in self._chance.sample(clients, min(5, len(clients))):
            self._server.redis.client_kill_filter(_id=client["id"])

    def _connections_cut(self) -> None:
        self._proxy.cut()

    def _bytes_delayed(self) -> None:
        self._proxy.delay = self._chance.choice((0.01, 0.1, 0.6))
        with self._pause(""):
            time.sleep(0.3)
            self._proxy.delay = 0

    def _server_stopped(self) -> None:
        with self._pause(""):
            self._server.process.send_signal(signal.SIGSTOP)
            time.sleep(self._chance.choice((0.1, 0.6, 1.5)))
            self._server.process.send_signal(signal.SIGCONT)

    def _server_paused(self) -> None:
        with self._pause(""):
            ms = self._chance.choice((100, 800))
            self._server.redis.client_pause(ms)
            time.sleep(ms / 1000)

    def _server_restarted(self) -> None:
        with self._pause(""):
            self._server.kill()
            time.sleep(self._chance.choice((0, 0.3)))
            self._server.start()

    def _scripts_flushed(self) -> None:
        self._server.redis.script_flush()


# ------------------------------------------------------------------ Afterwards


def left_behind(server: Server) -> list[str]:
    """What of locks and queues nobody owns: all leases are over."""
    found = []
    with holdfast.connect(f"redis://127.0.0.1:{server.port}") as client:
        for number in range(LOCKS):
            key = f"job:{number}"
            if server.redis.exists(key):
                found.append(f"the lock {key}: {server.redis.hgetall(key)}")
            # Whoever is dead in the queue is skipped by the next who wants the lock.
            client.lock(key).hold(timeout=5).release()
            if waiting := server.redis.zrange(f"{{{key}}}{key}:hf1:q", 0, -1):
                found.append(f"in the queue of {key}: {waiting}")
    return found


def draw(histories: dict[str, list[dict]], faults: list[tuple[int, str]], to: Path) -> None:
    """Draw the holds of each key as bars, the faults above them."""
    colours = {"c": "#3070b0", "python": "#d09020", "java": "#b04040"}
    held = [turn for turn in turns(histories) if turn.fence is not None]
    if not held:
        return
    start, end = min(turn.began for turn in held), max(turn.over for turn in held)
    scale = 6000 / (end - start)
    kinds = sorted({what for _, what in faults})
    shapes = []
    for row, what in enumerate(kinds):
        y = 20 + 14 * row
        shapes.append(f'<text x="4" y="{y + 10}">{what}</text>')
        for at, kind in faults:
            if kind == what:
                x = 140 + (at - start) * scale
                shapes.append(f'<circle cx="{x:.1f}" cy="{y + 6}" r="3"/>')
    for number in range(LOCKS):
        y = 40 + 14 * len(kinds) + 26 * number
        shapes.append(f'<text x="4" y="{y + 12}">job:{number}</text>')
        for turn in held:
            if turn.key == f"job:{number}":
                x, width = 140 + (turn.ended - start) * scale, (turn.over - turn.ended) * scale
                shapes.append(
                    f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.2):.2f}" height="18"'
                    f' fill="{colours[turn.who.split("-")[0]]}"><title>{turn.who} {turn.fence}'
                    "</title></rect>"
                )
    height = 60 + 14 * len(kinds) + 26 * LOCKS
    to.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="6160" height="{height}" font-size="11"'
        f' font-family="sans-serif">{"".join(shapes)}</svg>\n'
    )


def read(folder: Path) -> dict[str, list[dict]]:
    """Read what each process wrote; the last line of one that was killed may be cut off."""
    histories = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().split("\n")
        histories[path.stem] = [json.loads(line) for line in lines[:-1]]
    return histories


def run(arguments: argparse.Namespace, folder: Path) -> int:
    """Let them work, strike, and look."""
    chance = random.Random(arguments.seed)
    server, resource = Server(folder / "server", True), Server(folder / "resource", False)
    proxy = Proxy(server.port, random.Random(chance.random()))
    target = ROOT / "java" / "target"
    jar = next(iter(sorted(target.glob("holdfast-[0-9]*[0-9].jar"))), None)
    program = arguments.build_dir / "tests" / "histories" / "histories_worker"
    if jar is None or not program.exists():
        sys.exit("histories: build the C tests and the jar first")
    classes = folder / "classes"
    javac = Path(shutil.which(arguments.java)).resolve().with_name("javac")
    subprocess.run([javac, "-cp", jar, "-d", classes, HERE / "Worker.java"], check=True)
    java = [arguments.java, "--enable-native-access=ALL-UNNAMED", "-XX:TieredStopAtLevel=1"]
    commands = {
        "c": [str(program.resolve())],
        "python": [sys.executable, str(HERE / "worker.py")],
        "java": [*java, "-cp", f"{jar}:{classes}", "Worker"],
    }
    workers = []
    try:
        for name, command in commands.items():
            for number, port in enumerate((server.port, proxy.port)):
                where = [f"redis://127.0.0.1:{port}", str(resource.port), str(LOCKS)]
                workers.append(Worker(f"{name}-{number}", command, where, folder))
        nemesis = Nemesis(server, proxy, workers, chance.randrange(2**32))
        time.sleep(1)
        until = time.monotonic() + 60 * arguments.minutes
        while time.monotonic() < until:
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
        time.sleep(4)  # the longest lease, and the claim lease of a grant to the dead
        histories = read(folder)
        keys = [f"job:{number}" for number in range(LOCKS)]
        taken = {key: [int(f) for f in resource.redis.lrange("log:" + key, 0, -1)] for key in keys}
        verdict = check(
            histories, taken, nemesis.pauses, left_behind(server), nemesis.killed, ended
        )
        wrong += verdict.wrong
    finally:
        for worker in workers:
            worker.process.kill()
        server.kill()
        resource.kill()
    draw(histories, nemesis.faults, arguments.picture)
    faults = Counter(what for _, what in nemesis.faults)
    print(f"seed {arguments.seed}; {arguments.picture} shows it all")
    print("faults:", ", ".join(f"{what} {count}" for what, count in sorted(faults.items())))
    for what in ("acquisitions", "losses", "unknown", "stale writes refused"):
        print(f"{what}: {verdict.counts[what]}")
    for what in ("overlaps", "fences repeated", "stale writes accepted", "hangs", "orphans"):
        print(f"{what}: {verdict.counts[what]} (0)")
    print(*wrong[:20], sep="\n")
    return 1 if wrong or verdict.counts["acquisitions"] < 100 else 0


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "dev", help="of CMake")
    parser.add_argument("--java", default="java", help="of a JDK")
    parser.add_argument("--picture", type=Path, default=ROOT / "build" / "histories.svg")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast.histories."))
    status = 1
    try:
        status = run(arguments, folder)
    finally:
        if status:
            kept = arguments.picture.with_suffix("")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)
            print(f"the histories are in {kept}")
        shutil.rmtree(folder)
    sys.exit(status)


if __name__ == "__main__":
    os.umask(0o077)
    main()

"""examples/identity_check, killed at every step of its paid call: the vendor is never called twice.

Processes in each language ask for the same call at once, to be made at most once. Their requests to
Redis and to the vendor, and the answers, pass through this program, which counts them: each is a
step. Each process is killed with SIGKILL at a step of its own, before or after that request or
answer has passed; the next round kills it one step later, until it survives the end of the call,
and then begins again at the first step. Time decides nothing, except the order in which the
processes run.

After each round a process that is never killed asks, too, and the vendor's own log is read: the
vendor was called at most once; and each surviving process was told the vendor's answer, an error
of the vendor, or that the outcome is unknown.

    tests/paid/kills.py --build-dir build/dev [--java java] [--kills 1000 | --seconds 30]
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any

import redis

import holdfast
import holdfast.testing

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/identity_check"))
import run  # noqa: E402

PATIENCE = 120.0  # seconds for the slowest step, on the slowest machine
IDENTITY = {f"IDENTITY_{field.upper()}": value for field, value in run.IDENTITY.items()}


class Fuse:
    """Counts a process's requests and answers in one round, and kills the process at a step."""

    def __init__(self, at: int, passes: bool) -> None:
        self.at, self.passes = at, passes
        self.count = 0
        self.began = threading.Event()  # a first request has passed
        self.killed: str | None = None  # the kind of step at which it was
        self._guard = threading.Lock()

    def burn(self, step: str, process: subprocess.Popen[str]) -> bool:
        """Return whether the request or answer of this step passes."""
        with self._guard:
            if self.killed:
                return self.passes
            self.count += 1
            if self.count == self.at:
                self.killed = f"{step} {'passed' if self.passes else 'was cut off'}"
                process.kill()
                process.wait()
            self.began.set()
            return not self.killed or self.passes

    def defuse(self) -> str | None:
        """Stop killing; return the kind of step at which the process was killed."""
        with self._guard:
            self.at = 0
            return self.killed


class Asker:
    """A process that asks, and the relay between it and the others."""

    def __init__(self, test: Test, language: str, command: list[str]) -> None:
        self.test, self.language, self.command = test, language, command
        self.fuse: Fuse | None = None
        self.open = 0  # connections to Redis, of all its processes
        self.changed = threading.Condition()
        self._relay = socket.create_server(("127.0.0.1", 0), backlog=100)
        threading.Thread(target=self._accept, daemon=True).start()
        self.vendor = VendorsDoor(self)
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        vendor = self.vendor.server_address[1]
        self.process = subprocess.Popen(
            self.command,
            env={
                **os.environ,
                **IDENTITY,
                "REDIS": f"redis://127.0.0.1:{self._relay.getsockname()[1]}",
                "VENDOR": f"http://127.0.0.1:{vendor}/check",
                "VENDOR_PORT": str(vendor),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()
        return self.process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # it was killed while it wrote
                self.test.said.put((self, process, json.loads(line)))
        process.wait()
        self.test.said.put((self, process, None))

    def ask(self, name: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"most 1 {name}\n")

    def burn(self, step: str) -> bool:
        return self.fuse is None or self.fuse.burn(step, self.process)

    def drain(self) -> None:
        """Wait until the server has carried out all that the killed process sent and that
        passed."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.open == 0, PATIENCE), "a connection stays"

    # ------------------------------------------------------------ The relay

    def _accept(self) -> None:
        while True:
            try:
                asker, _ = self._relay.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.test.port))
            with self.changed:
                self.open += 1
            for a, b, step in ((asker, server, "a request"), (server, asker, "an answer")):
                threading.Thread(target=self._pass, args=(a, b, step), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket, step: str) -> None:
        with contextlib.suppress(OSError):
            while data := a.recv(1 << 16):
                if self.burn(step):
                    with contextlib.suppress(OSError):
                        b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_WR)
        if step == "an answer":  # the server has read everything, and has closed
            with self.changed:
                self.open -= 1
                self.changed.notify_all()
            a.close()
            b.close()


class VendorsDoor(http.server.ThreadingHTTPServer):
    """The address at which one process reaches the vendor; all doors share the vendor's log."""

    daemon_threads = True

    def __init__(self, asker: Asker) -> None:
        super().__init__(("127.0.0.1", 0), VendorsRequest)
        self.asker = asker
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Ignore it: the asking process was killed."""


class VendorsRequest(http.server.BaseHTTPRequestHandler):
    server: VendorsDoor

    def do_POST(self) -> None:
        asker = self.server.asker
        self.rfile.read(int(self.headers["Content-Length"]))
        name = self.headers["Idempotency-Key"]
        self.close_connection = True
        if not asker.burn("the vendor's request"):
            return
        asker.test.log(name, asker.language)
        answer = asker.test.answer_to(name)
        if not asker.burn("the vendor's answer"):
            return
        self.send_response(402 if asker.test.refuses(name) else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Test:
    """The rounds, and the check of their results."""

    def __init__(self, url: str, commands: dict[str, list[str]]) -> None:
        self.port = urllib.parse.urlsplit(url).port
        self.client = holdfast.connect(url)
        self.redis = redis.Redis.from_url(url)
        self.said: queue.Queue[tuple[Asker, subprocess.Popen[str], Any]] = queue.Queue()
        self.calls: Counter[str] = Counter()
        self._logging = threading.Lock()
        self.kills: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.askers = [Asker(self, language, each) for language, each in commands.items()]
        self.witness = Asker(self, "c", commands["c"])
        # The step at which a process dies next, by its place in the order in which they ask.
        self.next = {
            (each.language, place): (1, False)
            for each in self.askers
            for place in range(len(self.askers))
        }
        self.hear_ready([*self.askers, self.witness])

    # ----------------------------------------------------------- The vendor

    def log(self, name: str, language: str) -> None:
        with self._logging:
            self.calls[name] += 1
            self.steps[f"call by {language}"] += 1

    def answer_to(self, name: str) -> bytes:
        return (f"declined {name}" if self.refuses(name) else json.dumps({"valid": name})).encode()

    def refuses(self, name: str) -> bool:
        return int(name.rpartition(":")[2]) % 3 == 2

    # ----------------------------------------------------------- The rounds

    def hear(self) -> tuple[Asker, subprocess.Popen[str], Any]:
        try:
            return self.said.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError("no process answers") from None

    def hear_ready(self, askers: list[Asker]) -> None:
        waited = {each.process for each in askers}
        while waited:
            asker, process, said = self.hear()
            if process in waited:
                assert said == {"ready": True}, f"{asker.language}: {said}"
                waited.discard(process)

    def end_holds_of(self, dead: Asker, name: str) -> None:
        """End its holds, as if the lease of the killed process had ended; the test does not wait
        for that."""
        lock = self.client.lock(name)
        for holder in lock.inspect().holders:
            if holder.origin and holder.origin.pid == dead.process.pid:
                lock.force_release(holder.fence)

    def ask_all(self, name: str, order: list[Asker]) -> dict[str, Any]:
        """Let all processes ask; return the answers of those that survived."""
        for place, each in enumerate(order):
            each.fuse = Fuse(*self.next[each.language, place])
        order[0].ask(name)
        order[0].fuse.began.wait(PATIENCE)
        for each in order[1:]:
            each.ask(name)
        told: dict[str, Any] = {}
        dead: list[Asker] = []
        open_ = {each.process: each for each in order}
        while open_:
            try:
                asker, process, said = self.said.get(timeout=0.02 if dead else PATIENCE)
            except queue.Empty:
                assert dead, f"no word of {[each.language for each in open_.values()]}"
                for each in dead:  # a process that was killed while it waited may have been next
                    self.end_holds_of(each, name)
                continue
            if process not in open_:
                continue
            fuse = asker.fuse
            assert fuse is not None
            if said is None:
                assert fuse.killed, f"{asker.language} ended with status {process.returncode}"
                asker.drain()
                self.end_holds_of(asker, name)
                dead.append(asker)
            else:
                told[asker.language] = said
            del open_[process]
        return told

    def round(self, number: int) -> None:
        name = f"paid:{number}"
        first = number % len(self.askers)
        order = self.askers[first:] + self.askers[:first]
        told = self.ask_all(name, order)
        died = []
        for place, each in enumerate(order):
            fuse, each.fuse = each.fuse, None
            assert fuse is not None
            at = fuse.at
            if killed := fuse.defuse():
                died.append(each)
                self.kills[each.language] += 1
                self.steps[killed] += 1
                self.next[each.language, place] = (at + 1, fuse.passes)
            else:  # there is no such step: begin again, the other way
                self.next[each.language, place] = (1, not fuse.passes)
        for each in died:  # also what they sent last
            each.drain()
            self.end_holds_of(each, name)
            each.start()
        self.witness.ask(name)
        while "witness" not in told:
            asker, process, said = self.hear()
            if asker is self.witness:
                assert said is not None, f"the witness ended with {process.wait()}"
                told["witness"] = said
            elif process is asker.process:
                assert said == {"ready": True}, said
                died.remove(asker)
        self.hear_ready(died)
        self.judge(name, told)

    def judge(self, name: str, told: dict[str, Any]) -> None:
        calls, answer = self.calls[name], self.answer_to(name).decode()
        refused = {"type": "Declined", "message": answer, "data": None}
        kind = "error" if self.refuses(name) else "answer"
        expected = refused if kind == "error" else json.loads(answer)
        where = f"{name}: {calls} calls, told {told}"
        assert calls <= 1, f"the vendor was called twice. {where}"
        for who, said in told.items():
            if said.get("unknown"):
                self.outcomes["unknown"] += 1
                continue
            assert said.get(kind) == expected, f"{who} was told another answer. {where}"
            assert calls == 1, f"{who} has an answer that was never given. {where}"
            self.outcomes[kind] += 1


def compiled(java: list[str], folder: str) -> list[str]:
    """Return the command that runs Asker.java, compiled once for all starts."""
    *before, jar, source = java
    javac = Path(shutil.which(java[0]) or java[0]).resolve().with_name("javac")
    subprocess.run([javac, "-cp", jar, "-d", folder, source], check=True)
    return [*before, f"{jar}:{folder}", "Asker"]


def main() -> int:
    parser = argparse.ArgumentParser(description="No paid call is made twice.")
    parser.add_argument("--build-dir", type=Path, default=Path("build/dev"), help="of CMake")
    parser.add_argument("--java", default="java", help="the Java 17 (or newer) to run")
    parser.add_argument(
        "--languages", default="c,python,java", help="of c, python, java; c2: another one in C"
    )
    parser.add_argument("--kills", type=int, default=0, help="until that number has died")
    parser.add_argument("--seconds", type=float, default=30, help="or how long, without --kills")
    arguments = parser.parse_args()
    commands = run.commands(arguments)
    languages = arguments.languages.split(",")
    chosen = {each: commands[each.rstrip("23")] for each in languages}
    chosen.setdefault("c", commands["c"])
    began, number = time.monotonic(), 0
    with holdfast.testing.redis_server() as url, tempfile.TemporaryDirectory() as classes:
        if "java" in chosen:
            chosen["java"] = compiled(chosen["java"], classes)
        test = Test(url, chosen)
        while (
            test.kills.total() < arguments.kills
            if arguments.kills
            else time.monotonic() - began < arguments.seconds
        ):
            test.round(number)
            number += 1
        seconds = time.monotonic() - began
        print(f"PAID CALLS  {number} calls, {test.kills.total()} kills in {seconds:.0f} s")
        for title, counts in (
            ("killed", test.kills),
            ("steps", test.steps),
            ("told", test.outcomes),
        ):
            shown = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
            print(f"  {title}: {shown}")
        most = max(test.calls.values(), default=0)
        print(f"  the vendor was called {most} times at most for one name")
        for each in [*test.askers, test.witness]:
            each.fuse = None
            each.process.kill()
            each.process.wait()
    assert test.kills.total() > 0, "nothing was killed"
    return 0


if __name__ == "__main__":
    sys.exit(main())

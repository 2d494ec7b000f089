"""Two processes with the locks in Python and two with those in Java, each behind a proxy."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

import holdfast
import holdfast.testing

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BY_HAND = ROOT / "examples" / "by_hand"
BUILD = ROOT / "build/dev"
JARS = "java/target/holdfast-[0-9]*[0-9].jar"
JAVA = os.environ.get("HOLDFAST_JAVA", "java")
PATIENCE = 20  # seconds, on the slowest machine


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


class Proxy:
    """Counts the commands to the server, and stops at a given one."""

    def __init__(self, server: str) -> None:
        there = urlsplit(server)
        self.server = (str(there.hostname), int(there.port or 0))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        self.commands = 0
        self.asked = 0  # number of commands that name a lock of these tests
        self.word: bytes | None = None
        self.found = threading.Event()
        self.on = threading.Event()
        self.on.set()
        threading.Thread(target=self.accept, daemon=True).start()

    def hold(self, word: bytes = b"") -> None:
        """Let no command on, from the first with this word until go()."""
        self.on.clear()
        self.found.clear()
        self.word = word

    def go(self) -> None:
        self.word = None
        self.on.set()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # already closed
            self.listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        self.listener.close()

    def accept(self) -> None:
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:  # closed
                return
            there = socket.create_connection(self.server)
            threading.Thread(target=self.pass_on, args=(here, there, True), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(there, here, False), daemon=True).start()

    def pass_on(self, source: socket.socket, target: socket.socket, requests: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if requests:
                    self.asked += data.count(b"test:")
                    self.commands += len(re.findall(rb"(?:^|\r\n)\*\d+\r\n", data))
                    if self.word is not None and self.word in data:
                        self.found.set()
                        self.on.wait()
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            each.close()


class Worker:
    """A process that follows commands as worker.py does."""

    def __init__(self, command: list[str | Path], server: str, **variables: str) -> None:
        self.proxy = Proxy(server)
        self.process = subprocess.Popen(
            [*command, self.proxy.url],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: queue.Queue[str] = queue.Queue()
        self.entered = 0
        self.ready = False
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line.strip())
        self.said.put("ended")

    def is_ready(self) -> None:
        if not self.ready:
            assert self.hear() == "ready"
            self.ready = True

    def tell(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.entered += words[0] == "enter"
        print(*words, file=self.process.stdin, flush=True)

    def hear(self) -> str:
        line = self.said.get(timeout=PATIENCE)
        self.entered -= line not in ("ready", "in", "written", "refused")
        return line

    def ask(self, *words: object) -> str:
        self.tell(*words)
        return self.hear()

    def silent(self) -> bool:
        return self.said.empty()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.proxy.close()


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with holdfast.testing.redis_server() as url:
        yield url


@pytest.fixture
def raw(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url) as store:
        yield store


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[holdfast.Client]:
    with holdfast.connect(url, connect_timeout=20) as client:
        yield client


@pytest.fixture
def key() -> str:
    return f"test:{uuid.uuid4()}"


@pytest.fixture(scope="session")
def java() -> list[str | Path]:
    """Compile the locks in Java and their worker; return the command that starts it."""
    pom, listed, classes = BY_HAND / "pom.xml", BUILD / "by_hand.classpath", BUILD / "by_hand"
    if not listed.exists() or listed.stat().st_mtime < pom.stat().st_mtime:
        fetch = ["mvn", "-B", "-ntp", "-q", "-f", pom, "dependency:build-classpath"]
        subprocess.run([*fetch, f"-Dmdep.outputFile={listed}"], check=True)
    jar = next(ROOT.glob(JARS), None)
    assert jar is not None, "build the jar first"
    path = f"{classes}:{jar}:{listed.read_text().strip()}"
    sources = [*sorted(BY_HAND.glob("*.java")), HERE / "Worker.java"]
    classes.mkdir(parents=True, exist_ok=True)
    os.environ["CLASSPATH"] = path  # for javac and java
    compiler = ["javac", "-J-XX:TieredStopAtLevel=1", "-nowarn", "-d", classes, *sources]
    compiled = subprocess.run(compiler, capture_output=True, text=True)
    if compiled.returncode != 0:
        pytest.exit(compiled.stderr)
    quick = ["--enable-native-access=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [JAVA, *quick, "Worker"]


class Workers:
    """Two processes of each language, which also serve the next test unless a thread is left
    inside."""

    def __init__(self, url: str, request: pytest.FixtureRequest) -> None:
        self.url = url
        self.request = request
        self.there: dict[str, list[Worker]] = {"java": [], "python": []}

    def command(self, language: str) -> list[str | Path]:
        if language == "python":
            return [sys.executable, HERE / "worker.py"]
        command: list[str | Path] = self.request.getfixturevalue("java")
        return command

    def two(self, language: str) -> tuple[Worker, Worker]:
        while len(self.there[language]) < 2:
            self.there[language].append(self.start(language))
        one, other = self.there[language]
        for each in (one, other):
            each.is_ready()
        return one, other

    def start(self, language: str, **variables: str) -> Worker:
        return Worker(self.command(language), self.url, **variables)

    def tidy(self, *, end: bool = False) -> None:
        for language, workers in self.there.items():
            for worker in workers:
                worker.proxy.go()
                if end or worker.entered or worker.process.poll() is not None:
                    worker.kill()
            self.there[language] = [w for w in workers if w.process.poll() is None]


@pytest.fixture(scope="session")
def all_workers(url: str, request: pytest.FixtureRequest) -> Iterator[Workers]:
    workers = Workers(url, request)
    yield workers
    workers.tidy(end=True)


@pytest.fixture
def workers(all_workers: Workers) -> Iterator[Workers]:
    yield all_workers
    all_workers.tidy()

"""The built program `holdfast`, and for it a real Redis from tests/with-redis."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
import redis

import holdfast

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("HOLDFAST_CLI", ROOT / "build/dev/cli/holdfast")).resolve()
PATIENT = "?connect_timeout=20"  # the machine may stand still for seconds
SERVER = "echo $HOLDFAST_TEST_URL $HOLDFAST_TEST_REDIS_PID; cat >/dev/null"

# Programs inherit the signals that nohup(1), or a shell that runs the tests in the background,
# ignores.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


class Server(NamedTuple):
    url: str
    pid: int


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait until the condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def state(pid: int) -> str:
    """Return the process's state, as in ps; empty: there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid: int) -> bool:
    return state(pid) not in ("", "Z", "X")


def start_server() -> Iterator[Server]:
    # It ends with its input, and so also when this process is killed.
    with subprocess.Popen(
        [ROOT / "tests/with-redis", "sh", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as started:
        assert started.stdout is not None
        url, pid = started.stdout.readline().split()
        yield Server(url, int(pid))
        started.communicate(timeout=20)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    yield from start_server()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """Start a server for a test that stops it or changes its settings."""
    yield from start_server()


@pytest.fixture
def name() -> str:
    return f"test:{uuid.uuid4()}"


@pytest.fixture
def raw(server: Server) -> Iterator[redis.Redis]:
    """Return a client that looks at the server without the library."""
    with redis.Redis.from_url(server.url) as connection:
        yield connection


@pytest.fixture
def client(server: Server) -> Iterator[holdfast.Client]:
    with holdfast.connect(server.url + PATIENT) as client:
        yield client


class Program:
    """The program as a user runs it; processes that still run at the end of the test are ended."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "HOLDFAST_URL": url, "SHELL": "/bin/sh"}
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        """Run the program to its end."""
        return subprocess.run(
            [PROGRAM, *map(str, arguments)],
            **{
                "env": self.environment,
                "cwd": self.folder,
                "text": True,
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "timeout": 50,
                **options,
            },
        )

    def start(self, *arguments: object, **options: object) -> subprocess.Popen[str]:
        """Start the program."""
        process = subprocess.Popen(
            [PROGRAM, *map(str, arguments)],
            **{
                "env": self.environment,
                "cwd": self.folder,
                "text": True,
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **options,
            },
        )
        self.started.append(process)
        return process


@pytest.fixture
def cli(server: Server, tmp_path: Path) -> Iterator[Program]:
    program = Program(server.url + PATIENT, tmp_path)
    yield program
    for process in program.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def answers(port: int) -> bool:
    with contextlib.suppress(redis.ConnectionError), redis.Redis("127.0.0.1", port=port) as raw:
        return bool(raw.ping())
    return False


def start_redis(
    folder: Path, *options: str, port: int | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server on a free port, or again on the given port."""
    fixed = ["--bind", "127.0.0.1", "--save", ""]
    while True:
        at = port or random.randrange(18_000, 20_000)
        node = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "redis-server", "--port", str(at), *fixed, *options],
            stdout=subprocess.DEVNULL,
            cwd=folder,
        )
        until(lambda node=node, at=at: node.poll() is not None or answers(at))  # type: ignore[misc]
        if node.poll() is None:
            return node, at


@pytest.fixture
def waiting(client: holdfast.Client) -> Iterator[Callable[..., None]]:
    """Let an owner wait for a lock until the end of the test."""
    threads: list[tuple[Thread, holdfast.Lock]] = []
    waiters = 0

    def begin(name: str | bytes, owner: str | bytes, timeout: float = -1) -> None:
        nonlocal waiters
        lock = client.lock(name, owner=owner)

        def wait() -> None:
            try:
                if lock.acquire(timeout=timeout):
                    lock.release()
            except holdfast.LockError:
                pass

        before = lock.inspect().waiters
        thread = Thread(target=wait)
        thread.start()
        threads.append((thread, lock))
        until(lambda: lock.inspect().waiters > before)

    yield begin
    client.close()
    for thread, _ in threads:
        thread.join(20)

"""A real Redis for every test: the one that tests/with-redis starts, here or around pytest.

With --memory, a MemoryServer for the tests of behaviour.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

import holdfast
from memory import BEHAVIOURS, Memory

WITH_REDIS = Path(__file__).parents[1] / "with-redis"
WITH_DATABASES = Path(__file__).parents[1] / "with-databases"
PATIENT = "?connect_timeout=20"  # for the tests' programs: the machine may stand still
# A program that prints the servers' addresses, and ends with its input: so also when pytest is
# killed.
SERVER = """
echo $HOLDFAST_TEST_URL
echo $HOLDFAST_TEST_UNIX_URL
cat >/dev/null
"""
DATABASES = """
echo $HOLDFAST_TEST_POSTGRESQL
echo $HOLDFAST_TEST_MARIADB
cat >/dev/null
"""


class Server(NamedTuple):
    """A server, by its two addresses."""

    tcp: str
    unix: str


# A shell without job control lets its background processes ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--memory", action="store_true", help="with clients in memory, not a Redis")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    ignored = config.getoption("--memory") and collection_path.is_file()
    return True if ignored and collection_path.name not in BEHAVIOURS else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("--memory") and item.get_closest_marker("redis"):
        pytest.skip("it needs Redis itself")


@pytest.fixture(scope="session")
def memory(pytestconfig: pytest.Config) -> Iterator[Memory | None]:
    if not pytestconfig.getoption("--memory"):
        yield None
        return
    memory = Memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdfast, "connect", memory.connect)
        yield memory


@pytest.fixture(scope="session")
def server(memory: Memory | None) -> Iterator[Server]:
    if memory is not None:
        yield Server(memory.url, memory.url)
        return
    with contextlib.ExitStack() as stack:
        if "HOLDFAST_TEST_URL" in os.environ:
            tcp = os.environ["HOLDFAST_TEST_URL"]
            unix = os.environ.get("HOLDFAST_TEST_UNIX_URL", tcp)
        else:
            tcp, unix = stack.enter_context(beside(WITH_REDIS, SERVER))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(holdfast, "connect", patient(Server(tcp, unix)))
        yield Server(tcp, unix)


def patient(server: Server) -> Callable[..., holdfast.Client]:
    """Give this server's clients time for a machine that stands still for seconds."""
    connect = holdfast.connect

    @functools.wraps(connect)
    def with_time(url: str, **options: Any) -> holdfast.Client:
        return connect(url, **({"connect_timeout": 20} if url in server else {}) | options)

    return with_time


@contextlib.contextmanager
def beside(program: Path, script: str) -> Iterator[tuple[str, str]]:
    """Start servers for the whole run; yield their two addresses."""
    started = subprocess.Popen(
        [program, "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the tests
        text=True,
    )
    with started:
        assert started.stdout is not None
        yield started.stdout.readline().strip(), started.stdout.readline().strip()
        started.communicate(timeout=20)


MASTERS = 3


@pytest.fixture(scope="session")
def masters() -> Iterator[list[str]]:
    """Yield the URLs of the masters of a quorum."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(beside(WITH_REDIS, SERVER))[0] for _ in range(MASTERS)]


@pytest.fixture(scope="session")
def quorum(masters: list[str]) -> str:
    """Return the URL of all masters, which have just started."""
    places = ",".join(master.removeprefix("redis://") for master in masters)
    return f"redis+quorum://{places}?quarantine=0&connect_timeout=20"


class Databases(NamedTuple):
    """The URLs of a PostgreSQL and a MariaDB."""

    postgresql: str
    mariadb: str


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    with beside(WITH_DATABASES, DATABASES) as (postgresql, mariadb):
        yield Databases(postgresql, mariadb)


@pytest.fixture
def raw(server: Server, memory: Memory | None) -> Iterator[redis.Redis]:
    """Return a client that looks at the server without the library."""
    if memory is not None:
        yield memory.raw
        return
    with redis.Redis.from_url(server.tcp) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    return f"test:{uuid.uuid4()}"


@pytest.fixture
def client(server: Server) -> Iterator[holdfast.Client]:
    with holdfast.connect(server.tcp) as client:
        yield client


@pytest.fixture
def lock(client: holdfast.Client, name: str) -> holdfast.Lock:
    return client.lock(name)


@pytest.fixture
def stranger(client: holdfast.Client, name: str) -> holdfast.Lock:
    """Return the same lock for another owner."""
    return client.lock(name, owner="stranger")


def queue(name: str) -> str:
    """Return the key of the lock's queue."""
    return f"{{{name}}}{name}:hf1:q"


@contextlib.contextmanager
def refused(raw: redis.Redis, name: str) -> Iterator[None]:
    """Let the server answer each request for the lock with an error."""
    key = queue(name).removesuffix("q") + "f"
    raw.delete(key)
    raw.lpush(key, "no fence")
    try:
        yield
    finally:
        raw.delete(key)


def until(true: Callable[[], object], seconds: float = 10) -> None:
    """Wait until it is true, which must be soon."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


class Thread(threading.Thread):
    """A thread whose join() returns its result, or raises its exception."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.result: object = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self._error = error

    def finish(self) -> object:
        """Wait for the end of the work."""
        self.join(20)
        assert not self.is_alive(), "the thread has not ended"
        if self._error is not None:
            raise self._error
        return self.result


def elsewhere(work: Callable[[], object]) -> object:
    """Do the work in another thread, and wait for its end."""
    return Thread(work).finish()


def held(lock: holdfast.Lock) -> holdfast.Hold:
    """Acquire the lock in another thread: on an event loop that is refused."""
    hold = elsewhere(lock.hold)
    assert isinstance(hold, holdfast.Hold)
    return hold

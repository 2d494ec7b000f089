"""Servers that go away, or refuse: a call reports why, and never that others hold the lock."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import holdfast
from conftest import Server, Thread, until
from running import free_port

SECRET = "s3cr3t"


class Own:
    """A server of one test, which can go away and return."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self, *words: str) -> None:
        fixed = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", "/tmp"]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "redis-server", *fixed, *words],
            stdout=subprocess.DEVNULL,
        )
        until(self.answers)

    def answers(self) -> bool:
        once: Any = {"socket_timeout": 1, "retry": Retry(NoBackoff(), 0)}
        with redis.Redis("127.0.0.1", port=self.port, **once) as raw:
            try:
                return bool(raw.ping())
            except redis.AuthenticationError:
                return True
            except redis.ConnectionError:
                return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@pytest.fixture
def own() -> Iterator[Own]:
    server = Own()
    yield server
    server.stop()


Call = Callable[[holdfast.Client, str], object]


def by_a_task(client: holdfast.Client, name: str) -> object:
    async def main() -> None:
        async with client.aio.lock(name).hold(1):
            raise AssertionError("without the lock")

    return asyncio.run(main())


def by_a_thread(client: holdfast.Client, name: str) -> object:
    with client.lock(name):
        raise AssertionError("without the lock")


CALLS = [by_a_task, by_a_thread]
# A request that may have reached the server is neither done nor not done.
OUTAGE = (holdfast.ConnectError, holdfast.LockUnknown)
HASTY: dict[str, Any] = {"connect_timeout": 0.5, "command_timeout": 0.5}


@contextlib.contextmanager
def hasty(url: str, **options: Any) -> Iterator[holdfast.Client]:
    """Make a client that has reached its server, and gives up soon."""

    def reached() -> bool:
        with contextlib.suppress(*OUTAGE):
            client.ping()
            return True
        return False

    with holdfast.connect(url, lazy=True, **HASTY, **options) as client:
        until(reached)
        yield client


def test_a_server_that_is_gone_or_guarded_or_silent_is_not_a_holder(own: Own) -> None:
    with hasty(own.url) as client, holdfast.connect(own.url, connect_timeout=20) as patient:
        assert patient.lock("x").acquire(blocking=False)
        own.stop()
        for call in CALLS:
            with pytest.raises(OUTAGE, match=f"127.0.0.1:{own.port}"):
                call(client, "y")
        own.start("--requirepass", SECRET)
        for call in CALLS:
            with pytest.raises(holdfast.AuthenticationError):
                call(patient, "y")
        own.stop()
        own.start()
        own.pause()
        for call in CALLS:
            with pytest.raises(OUTAGE):
                call(client, "y")
        own.resume()


def test_a_cancelled_keep_that_fails_leaves_no_hold_without_a_task(own: Own) -> None:
    async def main(client: holdfast.Client) -> None:
        async with client.aio.lock("kept", lease=60) as hold:
            own.pause()
            keeping = asyncio.ensure_future(hold.keep(60))
            await asyncio.sleep(0)
            keeping.cancel()
            await asyncio.wait([keeping])
            assert keeping.cancelled()
        await asyncio.to_thread(until, lambda: hold.state != "held")
        own.resume()
        await client.aio.lock("kept").acquire(timeout=10)

    with hasty(own.url) as client:
        asyncio.run(main(client))


def keep_by_a_thread(client: holdfast.Client, during: Callable[[], object]) -> None:
    with client.lock("kept", lease=12):
        during()


def keep_by_a_task(client: holdfast.Client, during: Callable[[], object]) -> None:
    async def main() -> None:
        async with client.aio.lock("kept", lease=12):
            await asyncio.to_thread(during)

    asyncio.run(main())


@pytest.mark.parametrize("keep", [keep_by_a_thread, keep_by_a_task])
def test_trouble_is_told_before_anything_is_lost(
    own: Own, keep: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[holdfast.Trouble] = []

    def outage() -> None:
        own.pause()
        until(lambda: told)
        own.resume()
        until(lambda: len(told) > 1)

    with hasty(own.url, on_trouble=told.append) as client:
        keep(client, outage)
    # More than once only if the machine stood still.
    assert [trouble.kind for trouble in told] == ["at_risk", "over"] * (len(told) // 2)
    risk, over = told[:2]
    assert risk.holds == 1
    assert risk.ends_in is not None
    assert 0 < risk.ends_in < 12
    assert risk.message.startswith(f"cannot renew 1 hold, which ends in {risk.ends_in:.1f} s: ")
    assert str(own.port) in risk.message
    assert over.message.startswith("holds are renewed again, after ")
    assert [r.getMessage() for r in caplog.records] == [trouble.message for trouble in told]


def test_trouble_is_logged_without_a_function_for_it(
    own: Own, caplog: pytest.LogCaptureFixture
) -> None:
    with holdfast.connect(own.url) as client, pytest.raises(holdfast.LockError):
        assert client.lock("brief", renew=False).acquire()
        with client.lock("kept", lease=12):
            own.stop()
            until(lambda: "cannot renew 1 hold, which ends in " in caplog.text)
            assert "refused" in caplog.text
            raise holdfast.LockError


def test_other_threads_run_while_a_hold_is_kept(own: Own) -> None:
    with holdfast.connect(own.url, connect_timeout=30, command_timeout=30) as client:
        hold = client.lock("kept").hold()
        own.pause()
        begun = threading.Event()

        def keep() -> None:
            begun.set()
            hold.keep(60)

        keeps = Thread(keep)
        begun.wait()
        own.resume()
        keeps.finish()


@pytest.mark.parametrize("task", [False, True])
def test_a_release_that_keeps_the_lock_may_be_tried_again(own: Own, task: bool) -> None:
    with hasty(own.url) as client:

        async def main() -> None:
            hold = await client.aio.lock("x").hold(at_least=3600)
            own.pause()
            with pytest.raises(OUTAGE):
                await hold.release()
            assert hold.valid
            own.resume()
            while hold.state != "released":  # the machine may stand still, too
                with contextlib.suppress(*OUTAGE):
                    await hold.release()

        if task:
            asyncio.run(main())
        else:
            hold = client.lock("x").hold(at_least=3600)
            own.pause()
            with pytest.raises(OUTAGE):
                hold.release()
            assert hold.valid
            own.resume()
            while hold.state != "released":
                with contextlib.suppress(*OUTAGE):
                    hold.release()
    with holdfast.connect(own.url, connect_timeout=20) as client:
        remaining = client.lock("x").inspect().remaining
        assert remaining is not None
        assert 3000 < remaining <= 3600


@pytest.fixture
def poor(server: Server, raw: redis.Redis) -> Iterator[Callable[[str], str]]:
    """Make users that lack a command; yield a function that returns their URLs."""
    made = []

    def make(missing: str) -> str:
        made.append(f"poor-{missing}")
        raw.acl_setuser(
            made[-1],
            enabled=True,
            passwords=[f"+{SECRET}"],
            keys=["*"],
            channels=["*"],
            categories=["+@all"],
            commands=[f"-{missing}"],
        )
        return f"redis://{made[-1]}:{SECRET}@{urlsplit(server.tcp).netloc}"

    yield make
    for user in made:
        raw.acl_deluser(user)


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_permission_is_named(
    poor: Callable[[str], str], raw: redis.Redis, name: str, call: Call, stranger: holdfast.Lock
) -> None:
    with (
        holdfast.connect(poor("hset")) as client,
        pytest.raises(holdfast.ServerError, match="(?i)hset"),
    ):
        call(client, name)
    assert not raw.exists(name)
    with stranger, holdfast.connect(poor("zadd")) as client:
        assert client.lock(name).acquire(blocking=False) is False
        with pytest.raises(holdfast.ServerError, match="zadd"):
            call(client, name)


def test_a_task_is_told_why_a_renewal_was_refused(
    poor: Callable[[str], str], raw: redis.Redis, name: str
) -> None:
    async def main(client: holdfast.Client) -> None:
        hold = await client.aio.lock(name, lease=60).hold()
        raw.acl_setuser("poor-ping", enabled=True, commands=["-pexpireat"])
        await asyncio.sleep(0.01)  # else there would be nothing to renew
        for renewal in (hold.renew(), hold.extend(5)):
            with pytest.raises(holdfast.ServerError, match="missing: .*pexpireat"):
                await renewal
        await hold.check()
        await hold.release()

    with holdfast.connect(poor("ping")) as client:
        asyncio.run(main(client))


FAILURES: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (holdfast.LockTimeout, "stranger", {"timeout": 0}),
    (holdfast.LockNotReplicated, "alone", {"timeout": 1}),
]


@pytest.mark.parametrize(("kind", "case", "how"), FAILURES)
def test_a_task_is_told_what_a_thread_is_told(
    kind: type[Exception],
    case: str,
    how: dict[str, Any],
    client: holdfast.Client,
    name: str,
    stranger: holdfast.Lock,
) -> None:
    options: dict[str, Any] = {"replicas": 1, "replica_timeout": 0.1} if case == "alone" else {}

    async def main() -> None:
        await client.aio.lock(name, **options).hold(**how)

    if case == "stranger":
        stranger.acquire()
    with pytest.raises(kind) as told:
        asyncio.run(main())
    with pytest.raises(kind) as expected:
        client.lock(name, **options).hold(**how)
    assert str(told.value) == str(expected.value)


def test_a_task_is_told_that_the_memory_is_full(own: Own) -> None:
    with (
        holdfast.connect(own.url, connect_timeout=20) as client,
        redis.Redis("127.0.0.1", port=own.port) as raw,
    ):

        async def main() -> None:
            await client.aio.lock("y").acquire(timeout=1)

        # A client that has waited asks for a place in the queue, which needs memory.
        with client.lock("x"):
            assert not asyncio.run(client.aio.lock("x").acquire(timeout=0.05))
        raw.config_set("maxmemory", "1")
        with pytest.raises(holdfast.ServerError, match="OOM"):
            asyncio.run(main())

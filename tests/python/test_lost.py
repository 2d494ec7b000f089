"""Renewal, its end, and how a holder learns that its hold is lost."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import redis

import holdfast
from conftest import WITH_REDIS, Server, Thread, elsewhere, until
from holdfast import _notices
from holdfast._caller import start_thread
from holdfast._notices import Notices


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


# -------------------------------------------------------------------- Renewal


def test_max_hold_ends_the_renewal(client: holdfast.Client, name: str) -> None:
    with (
        pytest.raises(holdfast.LockLost),
        client.lock(name, lease=0.3, max_hold=0.5) as hold,
    ):
        assert hold.lost.wait(20) is True


def test_max_hold_is_a_maximum(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    with (
        pytest.raises(holdfast.LockLost, match=r"its max_hold of 900 ms has passed"),
        client.lock(name, max_hold=0.9) as hold,
    ):
        assert raw.pttl(name) <= 900
        hold.renew()
        hold.extend(60)
        assert (hold.remaining or 0) <= 0.9
        assert raw.pttl(name) <= 900
        assert hold.lost.wait(20) is True
        assert hold.lost.cause == "expired"


def test_a_lease_is_renewed_unless_renew_is_false(client: holdfast.Client, name: str) -> None:
    with client.lock(name, lease=6) as hold:
        until(lambda: client.stats().renewed)
        assert not hold.lost.is_set()
    with (
        pytest.raises(holdfast.LockLost, match=r"its lease of 300 ms ended, and renew is off"),
        client.lock(name, lease=0.3, renew=False) as hold,
    ):
        assert hold.lost.wait(20) is True


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lease": None, "renew": True}, "renew does nothing for a lease that never ends"),
        ({"renew": False, "max_hold": 60}, "max_hold does nothing without renewal"),
        ({"lease": None, "max_hold": 60}, "max_hold needs a lease that ends"),
        ({"replica_timeout": 1}, "replica_timeout does nothing without replicas"),
    ],
)
def test_options_that_do_nothing_together_are_refused(
    options: Any, says: str, client: holdfast.Client, name: str
) -> None:
    with pytest.raises(ValueError, match=says):
        client.lock(name, **options)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), 315_360_001])
def test_a_max_hold_must_be_a_duration(wrong: float, client: holdfast.Client, name: str) -> None:
    with pytest.raises(ValueError, match="max_hold"):
        client.lock(name, max_hold=wrong)
    with pytest.raises(ValueError, match="max_hold"):
        client.lock(name, lease=None, max_hold=1)


def test_a_lock_of_another_library_without_an_end_can_be_healed(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    raw.set(name, "of another library")
    assert client.lock(name).acquire(blocking=False) is False
    assert raw.pttl(name) == -1
    assert client.lock(name, lease=30, heal=True).acquire(blocking=False) is False
    until(lambda: 10_000 < raw.pttl(name) <= 30_000)


# ----------------------------------------------------------------------- Loss


def test_a_hold_is_lost_when_its_key_is_gone(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    lock = client.lock(name, lease=5, renew=True)  # finds the loss
    with pytest.raises(holdfast.LockLost), lock as hold:
        assert not hold.lost.is_set()
        assert hold.lost.cause is None
        raw.delete(name)
        assert hold.lost.wait(20) is True
        assert hold.lost.is_set()
        assert hold.lost.cause == "gone"
        assert hold.state == "lost"
        assert not hold.valid
    assert hold.lost.is_set()
    assert hold.lost.cause == "gone"
    assert not raw.exists(name)


def test_a_check_finds_a_loss_and_tells_it_once(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock(name, on_lost=told.append)
    with pytest.raises(holdfast.LockLost), lock as hold:
        raw.delete(name)
        with pytest.raises(holdfast.LockLost):
            hold.check()
        until(lambda: told == [hold])
        assert hold.lost.cause == "gone"
    assert told == [hold]
    with pytest.raises(holdfast.LockLost), client.lock(name).hold(on_lost=told.append) as second:
        raw.delete(name)
        with pytest.raises(holdfast.LockLost):
            second.check()
        until(lambda: told == [hold, second])


@pytest.mark.redis
def test_a_hold_is_lost_when_its_server_is_gone(server: Server, name: str) -> None:
    with subprocess.Popen(
        [WITH_REDIS, "sh", "-c", "echo $HOLDFAST_TEST_URL; cat >/dev/null"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        told: list[str | None] = []
        url = process.stdout.readline().strip()
        with holdfast.connect(url) as client:
            lock = client.lock(
                name,
                lease=3,
                renew=True,
                on_lost=lambda hold: told.append(hold.lost.cause),
                raise_on_lost=False,
            )
            hold = lock.hold()
            process.communicate()
            assert hold.lost.wait(20) is True
            until(lambda: told == ["unreachable"])
            with pytest.raises(holdfast.LockLost):
                hold.release()


@pytest.mark.parametrize("quiet", [True, False])
def test_leaving_a_block_tells_of_a_loss_unless_told_not_to(
    quiet: bool, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    def blocks() -> Iterator[holdfast.Hold]:
        lock = client.lock(name, raise_on_lost=not quiet)
        with lock as hold:
            yield hold
        with lock.hold() as hold:
            yield hold
        with client.lock(name, raise_on_lost=quiet).hold(raise_on_lost=not quiet) as hold:
            yield hold

    ended = 0
    steps = blocks()
    while True:
        try:
            next(steps)
        except StopIteration:
            break
        except holdfast.LockLost:
            ended += 1
            break
        raw.delete(name)
    assert ended == (not quiet)


def test_a_loss_has_its_cause(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    with pytest.raises(holdfast.LockLost) as caught, client.lock(name) as hold:
        raw.delete(name)
    assert caught.value.cause == "gone"
    brief = client.lock(name, lease=0.05, renew=False)
    with pytest.raises(holdfast.LockLost) as caught, brief as hold:
        assert hold.lost.wait(20)
    assert caught.value.cause == "expired"

    async def lose() -> None:
        with pytest.raises(holdfast.LockLost) as caught:
            async with client.aio.lock(name):
                raw.delete(name)
        assert caught.value.cause == "gone"

    asyncio.run(lose())


# ------------------------------------------------------------------ Being told


def test_on_lost_is_called_also_when_nobody_kept_the_hold(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock(name, lease=0.05, renew=False, on_lost=told.append)
    lock.acquire()
    gc.collect()
    until(lambda: told)
    with pytest.raises(holdfast.LockLost):
        lock.release()


def test_on_lost_is_not_called_for_what_was_released(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock(name, on_lost=told.append)
    for _ in range(300):
        with lock:
            pass
        lock.hold().release()
    assert len(client._notices[os.getpid()]._watches) < 100
    with client.lock(name, lease=0.05, renew=False, raise_on_lost=False) as hold:
        assert hold.lost.wait(20)
    assert told == []


def test_on_lost_is_not_called_for_a_close_as_it_is_set(
    client: holdfast.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Notices.watch

    def closes_then(notices: Notices, *given: Any) -> None:
        watch(notices, *given)
        client.close()  # as another thread may

    told: list[holdfast.Hold] = []
    hold = client.lock(name, renew=False).hold()
    monkeypatch.setattr(Notices, "watch", closes_then)
    hold._watch(told.append)
    assert (hold.state, told) == ("released", [])


@pytest.mark.parametrize("failed", [ValueError("of the user"), SystemExit(1)])
def test_a_failing_on_lost_is_logged_and_harms_nobody(
    client: holdfast.Client,
    name: str,
    raw: redis.Redis,
    caplog: pytest.LogCaptureFixture,
    failed: BaseException,
) -> None:
    def fail(hold: holdfast.Hold) -> None:
        raise failed

    with client.lock(name, lease=0.05, renew=False, on_lost=fail, raise_on_lost=False) as hold:
        assert hold.lost.wait(20)
    until(lambda: caplog.records)
    assert caplog.records[0].name == "holdfast"
    told: list[holdfast.Hold] = []
    with client.lock(name, lease=0.05, renew=False, on_lost=told.append, raise_on_lost=False):
        until(lambda: told)


@pytest.fixture
def failing_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program's logging raise, as when the server that gets its log is away."""

    def fail(record: logging.LogRecord) -> bool:
        raise OSError("the log's server is away")

    monkeypatch.setattr(logging.getLogger("holdfast"), "filters", [fail])


@pytest.mark.usefixtures("failing_log")
def test_a_loss_is_told_though_the_program_s_log_raises(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    for _ in range(2):
        told: list[holdfast.Hold] = []
        with client.lock(name, on_lost=told.append, raise_on_lost=False) as hold:
            raw.delete(name)
            with pytest.raises(holdfast.LockLost):
                hold.check()
            until(lambda: told)  # noqa: B023


@pytest.mark.usefixtures("failing_log")
def test_a_task_is_cancelled_though_the_program_s_log_raises(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        with pytest.raises(holdfast.LockLost):
            async with client.aio.lock(name).hold(cancel_on_lost=True) as hold:
                raw.delete(name)
                with pytest.raises(holdfast.LockLost):
                    await hold.check()
                await asyncio.sleep(20)
                pytest.fail("the body goes on without the lock")

    asyncio.run(main())


@pytest.mark.usefixtures("failing_log")
def test_a_candidate_stands_again_though_the_program_s_log_raises(
    client: holdfast.Client, name: str
) -> None:
    terms: list[int] = []

    def elected(fence: int) -> None:
        terms.append(fence)
        raise ValueError("of the user")

    with client.leader(name, elected):
        until(lambda: len(terms) > 1)


def test_a_thread_that_could_not_be_started_is_started_later(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = itertools.count()

    def scarce(work: Callable[[], object], name: str) -> None:
        if next(tries) == 0:
            raise RuntimeError("can't start new thread")
        start_thread(work, name)

    monkeypatch.setattr(_notices, "start_thread", scarce)
    told: list[holdfast.Hold] = []
    with holdfast.connect(server.tcp) as client:
        lock = client.lock(name, lease=0.05, renew=False, on_lost=told.append, raise_on_lost=False)
        with pytest.raises(RuntimeError, match="new thread"):
            lock.acquire()
        with lock:
            until(lambda: told)


def test_a_signal_whose_handler_acquires_as_a_thread_starts_waits_for_nothing(
    client: holdfast.Client, lock: holdfast.Lock, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any) -> None:
        with client.lock(name + ":handler"):
            pass
        start_thread(*given)

    def work() -> None:
        with lock as hold:
            assert hold.lost.wait(0.01) is False

    monkeypatch.setattr(_notices, "start_thread", interrupted)
    elsewhere(work)


def test_an_on_lost_without_a_thread_is_called_where_the_loss_is_learnt(
    client: holdfast.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    told: list[int] = []
    tell = client._notices_here().elsewhere(told.append)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    tell(1)
    assert told == [1]


def test_waiting_for_a_loss_ends_with_the_hold(
    lock: holdfast.Lock, client: holdfast.Client
) -> None:
    def wait(hold: holdfast.Hold) -> Thread:
        waiting = Thread(hold.lost.wait)
        until(lambda: client._notices_here()._waiting)
        return waiting

    with lock as hold:
        left = wait(hold)
    assert left.finish() is False
    for most in (False, True):
        turn = client.once_begin(f"{lock.name!r} {most}", ttl=60, at_most_once=most)
        waiting = wait(turn.hold)
        turn.finish("paid")
        assert waiting.finish() is False
    hold = lock.hold()
    waiting = wait(hold)
    token = hold.hand_over()
    assert waiting.finish() is False
    lock.adopt(token).release()
    for end in (lambda hold: hold.release(), lambda hold: client.close()):
        hold = lock.hold()
        waiting = wait(hold)
        end(hold)
        assert waiting.finish() is False


@pytest.mark.redis
@pytest.mark.parametrize(
    "end",
    [lambda hold: hold.release(), lambda hold: hold.keep(60)],
    ids=["release", "keep"],
)
def test_waiting_for_a_loss_ends_though_the_end_of_the_hold_is_cancelled(
    end: Callable[[holdfast.AsyncHold], Coroutine[Any, Any, None]],
    client: holdfast.Client,
    name: str,
    raw: redis.Redis,
) -> None:
    async def main() -> None:
        hold = await client.aio.lock(name, lease=60).hold()
        waiting = asyncio.create_task(hold.lost.wait())
        raw.client_pause(50_000, all=False)  # scripts, but not CLIENT UNPAUSE
        try:
            ending = asyncio.create_task(end(hold))
            await asyncio.sleep(0.1)
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending
        finally:
            raw.client_unpause()
        assert await asyncio.wait_for(waiting, 20) is False

    asyncio.run(main())


def test_a_thread_is_started_for_what_can_be_lost_and_ends_with_the_client(
    server: Server, name: str
) -> None:
    until(lambda: "holdfast-notices" not in threads())  # the earlier client's is ending
    with holdfast.connect(server.tcp) as client:
        with client.lock(name, renew=False) as hold:
            assert not hold.lost.is_set()
            assert "holdfast-notices" not in threads()
        with client.lock(name) as hold:
            assert hold.lost.wait(0.01) is False
            assert threads().count("holdfast-notices") == 1
            assert hold.lost.wait(0.01) is False
        with client.lock(name, on_lost=print):
            assert threads().count("holdfast-notices") == 1
    until(lambda: "holdfast-notices" not in threads())


def test_a_dropped_hold_is_renewed_no_more_and_not_reported(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock(name, lease=0.3, renew=True, on_lost=told.append)
    with pytest.warns(ResourceWarning, match="dropped without release"):
        lock.hold()
    until(lambda: not raw.exists(name))
    assert told == []

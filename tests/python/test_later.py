"""release(wait=False): the caller does not wait for the answer to a release."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import redis

import holdfast
from conftest import PATIENT, Server, Thread, elsewhere, until
from holdfast import _notices
from holdfast._notices import Notices


@pytest.fixture
def lock(client: holdfast.Client, name: str) -> holdfast.Lock:
    return client.lock(name, release="later")


def test_every_form_of_release_may_leave_the_answer(
    client: holdfast.Client, lock: holdfast.Lock, name: str
) -> None:
    plain = client.lock(name)
    with lock as hold:
        assert hold.valid
    assert hold.state == "released"
    until(lambda: not lock.locked())
    with lock.hold() as hold, lock:
        pass
    until(lambda: not lock.locked())
    assert lock.acquire()
    assert lock.acquire()
    lock.release()
    assert lock.count() == 1
    lock.release()
    assert lock.count() == 0
    until(lambda: not lock.locked())
    plain.acquire()
    plain.release(wait=False)
    hold = plain.hold()  # it is after the release, in whatever order they arrive
    hold.release(wait=False)
    lock.hold().release(wait=True)
    assert not lock.locked()
    with client.locks_all(name, name + "2", release="later") as holds:
        pass
    assert holds.state == "released"
    client.locks_all(name, name + "2").hold().release(wait=False)
    until(lambda: not lock.locked())
    assert client.locked(name, release="later")(lambda: 7)() == 7
    assert client.stats().unconfirmed == 0


def test_ctrl_c_as_answers_are_looked_at_leaves_nothing_held(
    client: holdfast.Client, lock: holdfast.Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = Notices._drain

    def interrupted(notices: Notices) -> bool:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return drain(notices)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), lock:
        patch.setattr(Notices, "_drain", interrupted)
    assert lock.count() == 0
    until(lambda: not lock.locked())


def test_tasks_too(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, release="later")
        async with lock as hold, lock:
            assert hold.valid
        assert hold.state == "released"
        async with lock.hold() as hold:
            pass
        assert hold.state == "released"
        await lock.acquire()
        await lock.release(wait=False)
        async with client.aio.locks_all(name, name + "2", release="later"):
            pass
        await (await client.aio.lock(name).hold()).release(wait=False)

    asyncio.run(main())
    until(lambda: not client.lock(name).locked())
    assert client.stats().unconfirmed == 0


@pytest.mark.parametrize("task", [False, True])
def test_no_two_callers_release_the_same_hold(
    client: holdfast.Client, name: str, monkeypatch: pytest.MonkeyPatch, task: bool
) -> None:
    lock = client.lock(name, owner="crew", release="later")
    give_up = holdfast.Lock._give_up

    def crossed(given: holdfast.Lock, handle: Any, wait: bool | None) -> None:
        monkeypatch.undo()
        elsewhere(lock.release)  # between the search for the newest hold and its release
        give_up(given, handle, wait)

    for _ in range(3):
        lock.acquire()
    monkeypatch.setattr(holdfast.Lock, "_give_up", crossed)
    if task:
        asyncio.run(client.aio.lock(name, owner="crew", release="later").release())
    else:
        lock.release()
    assert lock.count() == 1
    lock.release()
    with pytest.raises(holdfast.LockNotOwnedError):
        lock.release()
    until(lambda: not lock.locked())


def test_the_release_of_a_lost_hold_says_so_and_releases_no_other(
    client: holdfast.Client, name: str
) -> None:
    seats = client.lock(name, permits=2, reentrant=False, release="later").shared()
    with seats as first:
        with pytest.raises(holdfast.LockLost), seats as second:
            seats.force_release(second.fence)
            with pytest.raises(holdfast.LockLost):
                second.check()
        assert first.valid
        assert seats.count() == 1
        first.check()


def test_what_is_known_to_be_wrong_is_raised_at_once(
    client: holdfast.Client, lock: holdfast.Lock, raw: redis.Redis, name: str
) -> None:
    hold = lock.hold()
    hold.release()
    with pytest.raises(holdfast.LockNotOwnedError):
        hold.release()
    with pytest.raises(holdfast.LockNotOwnedError):
        lock.release()
    with pytest.raises(holdfast.LockLost), lock.hold() as hold:
        raw.delete(name)
        with pytest.raises(holdfast.LockLost):
            hold.check()
    with pytest.raises(ValueError, match='release must be "wait" or "later"'):
        client.lock(name, release="soon")  # type: ignore[arg-type]
    wrong: Any = lock.hold()
    with pytest.raises(TypeError, match="wait must be True or False"):
        wrong.release(wait=0)
    wrong.release()


def test_an_answer_that_is_not_as_expected_is_logged_and_counted(
    client: holdfast.Client,
    lock: holdfast.Lock,
    raw: redis.Redis,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hold = lock.hold()
    raw.delete(name)
    with caplog.at_level(logging.WARNING, "holdfast"):
        hold.release()  # it cannot know
        client.close()
    assert f"lock {name!r} was released, but not as expected: " in caplog.text
    assert "lost" in caplog.text


def test_a_close_waits_until_that_is_logged(
    client: holdfast.Client, lock: holdfast.Lock, raw: redis.Redis, name: str
) -> None:
    begun, told = threading.Event(), threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            begun.set()
            time.sleep(0.3)
            told.set()

    handler, log = Slow(), logging.getLogger("holdfast")
    hold = lock.hold()
    raw.delete(name)
    log.addHandler(handler)
    try:
        hold.release()
        client._notices_here().listen()
        assert begun.wait(20)  # the client's thread is logging it
        client.close()
        assert told.is_set()
    finally:
        log.removeHandler(handler)


def test_the_next_such_release_tells_of_it(
    client: holdfast.Client, lock: holdfast.Lock, raw: redis.Redis, name: str
) -> None:
    hold = lock.hold()
    raw.delete(name)
    hold.release()

    def told() -> bool:
        lock.hold().release()
        return client.stats().unconfirmed == 1

    until(told)


def test_a_hold_that_is_kept_at_least_is_kept(lock: holdfast.Lock) -> None:
    with lock.hold(at_least=60):
        pass
    until(lambda: (lock.inspect().remaining or 0) > 50)


@pytest.mark.redis
def test_a_release_that_does_not_wait_takes_no_round_trip(
    server: Server, raw: redis.Redis, name: str
) -> None:
    with holdfast.connect(server.tcp, command_timeout=20) as client:
        hold = client.lock(name).hold()
        raw.client_pause(50_000, all=False)  # scripts, but not CLIENT UNPAUSE
        try:
            hold.release(wait=False)
            closing = Thread(client.close)
            time.sleep(0.1)
            assert closing.is_alive()  # it waits for the answer
        finally:
            raw.client_unpause()
        closing.finish()
    assert not raw.exists(name)


@pytest.mark.redis
def test_no_release_of_several_locks_by_a_task_takes_a_round_trip(
    server: Server, raw: redis.Redis, name: str
) -> None:
    async def main(client: holdfast.Client) -> None:
        locks = client.aio.locks_all(name, name + "2", release="later")
        holds = await locks.hold()
        await locks.acquire()
        try:
            async with locks:
                raw.client_pause(50_000, all=False)  # scripts, but not CLIENT UNPAUSE
            await locks.release()
            await holds.release()
        finally:
            raw.client_unpause()
        assert holds.state == "released"

    with holdfast.connect(server.tcp, command_timeout=20) as client:
        asyncio.run(asyncio.wait_for(main(client), 10))
        until(lambda: not client.lock(name).locked())
        assert client.stats().unconfirmed == 0


@pytest.mark.redis
def test_a_close_waits_for_as_long_as_an_answer_may_take(
    server: Server, raw: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_notices, "_ANSWERS", 0.01)
    with holdfast.connect(server.tcp, connect_timeout=20, command_timeout=20) as client:
        hold = client.lock(name).hold()
        raw.client_pause(50_000, all=False)  # scripts, but not CLIENT UNPAUSE
        try:
            hold.release(wait=False)
            finishing = Thread(client._finish)
            time.sleep(0.3)
            assert finishing.is_alive()
        finally:
            raw.client_unpause()
        finishing.finish()
        assert not client._notices_here()._later


@pytest.mark.redis
def test_the_end_of_a_program_waits_for_the_answer(
    server: Server, raw: redis.Redis, name: str
) -> None:
    script = """
import sys, holdfast
client = holdfast.connect(sys.argv[1], close_at_exit=False)
hold = client.lock(sys.argv[2], lease=60).hold()
client.lock(sys.argv[2]).force_release(hold.fence)
hold.release(wait=False)
"""
    command = [sys.executable, "-c", script, server.tcp + PATIENT, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40)
    assert done.returncode == 0
    assert "was released, but not as expected" in done.stderr
    assert not raw.exists(name)

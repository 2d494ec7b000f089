"""Renewal, its end, and how a holder learns that it holds no more."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest
import redis

import holdfast
from conftest import WITH_REDIS, Server, Thread, until


@pytest.fixture
def short(client: holdfast.Client, name: str) -> holdfast.Lock:
    """A lock whose loss is found soon."""
    return client.lock(name, lease=0.6, renew=True)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


# -------------------------------------------------------------------- Renewal


def test_a_renewed_lock_outlives_several_leases(
    short: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with short as hold:
        assert hold.lost.wait(2) is False
        assert hold.valid
        assert raw.pttl(name) > 0
        hold.check()
    assert not raw.exists(name)


def test_a_lock_without_a_lease_is_renewed_and_one_with_a_lease_is_not(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    with client.lock(name, lease=0.2, raise_on_lost=False) as hold:
        assert hold.lost.wait(5) is True
    assert hold.lost.cause == "expired"
    with client.lock(name) as hold:
        raw.pexpire(name, 5000)  # as if most of the lease were over
        until(lambda: raw.pttl(name) > 9000)


def test_max_hold_ends_the_renewal(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, lease=0.3, renew=True, max_hold=0.6)
    began = time.monotonic()
    with pytest.raises(holdfast.LockLost), lock as hold:
        assert hold.lost.wait(5) is True
    assert 0.5 < time.monotonic() - began < 1.5
    assert hold.lost.cause == "expired"


def test_a_thread_that_ends_leaves_its_hold_renewed(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    lock = client.lock(name, lease=0.6, renew=True, max_hold=1.8)
    thread = Thread(lock.acquire)
    thread.finish()
    began = time.monotonic()
    time.sleep(1)
    assert raw.exists(name)
    assert lock.acquire(timeout=5) is True  # for max_hold sees to it
    assert time.monotonic() - began < 3
    lock.release()


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
    assert client.lock(name, lease=0.2).acquire(blocking=False) is False
    assert raw.ttl(name) == -1
    lock = client.lock(name, lease=0.2, heal=True, raise_on_lost=False)
    with lock.hold(timeout=10):
        pass


# ----------------------------------------------------------------------- Loss


def test_a_hold_is_lost_when_its_key_is_gone(
    short: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with pytest.raises(holdfast.LockLost), short as hold:
        assert not hold.lost.is_set()
        assert hold.lost.cause is None
        raw.delete(name)
        assert hold.lost.wait(5) is True
        assert hold.lost.is_set()
        assert hold.lost.cause == "gone"
        assert hold.state == "lost"
        assert not hold.valid
    assert hold.lost.is_set()
    assert hold.lost.cause == "gone"
    assert not raw.exists(name)


def test_a_hold_is_lost_when_the_server_is_flushed(short: holdfast.Lock, raw: redis.Redis) -> None:
    with pytest.raises(holdfast.LockLost), short.hold() as hold:
        raw.flushdb()
        assert hold.lost.wait(5) is True
        assert hold.lost.cause == "gone"


def test_a_hold_is_lost_when_it_is_broken_and_takes_nothing_back(
    short: holdfast.Lock, client: holdfast.Client, name: str
) -> None:
    with pytest.raises(holdfast.LockLost), short as hold:
        client.lock(name).force_release(hold.fence)
        with client.lock(name, owner="next") as after:
            assert hold.lost.wait(5) is True
            assert hold.lost.cause == "gone"
            time.sleep(0.7)  # longer than a lease: nothing is renewed any more
            after.check()
            assert after.fence > hold.fence


def test_a_check_finds_a_loss_and_tells_it(lock: holdfast.Lock, raw: redis.Redis) -> None:
    told: list[holdfast.Hold] = []
    with pytest.raises(holdfast.LockLost), lock.hold(on_lost=told.append) as hold:
        raw.flushdb()
        with pytest.raises(holdfast.LockLost):
            hold.check()
        until(lambda: told == [hold])


@pytest.mark.redis
def test_a_process_that_was_stopped_knows_at_once_that_its_hold_is_lost(
    server: Server, name: str, client: holdfast.Client
) -> None:
    script = """
        import os, signal, sys, holdfast
        with holdfast.connect(sys.argv[1]) as client:
            with client.lock(sys.argv[2], lease=0.3, renew=True, raise_on_lost=False) as hold:
                print("held", flush=True)
                os.kill(os.getpid(), signal.SIGSTOP)
                assert not hold.valid and hold.remaining == 0 and hold.state == "lost"
                assert hold.lost.is_set()
                assert hold.lost.wait(5)
                try:
                    hold.check()
                except holdfast.LockLost:
                    pass
                print(hold.lost.cause, flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), server.tcp, name],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with client.lock(name).hold(timeout=5) as hold:  # it is stopped, so its lease ends
            os.kill(process.pid, signal.SIGCONT)
            assert process.stdout.readline() == "unreachable\n"
            hold.check()
    assert process.returncode == 0


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
        with holdfast.connect(process.stdout.readline().strip()) as client:
            lock = client.lock(
                name,
                lease=0.5,
                renew=True,
                on_lost=lambda hold: told.append(hold.lost.cause),
                raise_on_lost=False,
            )
            hold = lock.hold()
            began = time.monotonic()
            process.communicate()
            assert hold.lost.wait(5) is True
            assert time.monotonic() - began < 0.8  # never later than the server's lease
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


def test_what_the_body_raised_is_not_hidden_by_a_loss(
    short: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with pytest.raises(KeyError), short:
        raw.delete(name)
        raise KeyError("of the body")


# ------------------------------------------------------------------ Being told


def test_on_lost_is_called_once_with_the_hold(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock(name, lease=0.9, renew=True, on_lost=told.append, raise_on_lost=False)
    with lock as hold:
        raw.delete(name)
        until(lambda: told)
        assert told == [hold]
        assert told[0].lost.cause == "gone"
    assert told == [hold]


def test_on_lost_is_called_also_when_nobody_kept_the_hold(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock(name, lease=0.2, on_lost=told.append)
    lock.acquire()
    gc.collect()
    until(lambda: told)
    with pytest.raises(holdfast.LockLost):
        lock.release()


def test_on_lost_is_not_called_for_what_was_released(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    told: list[holdfast.Hold] = []
    lock = client.lock(name, lease=0.2, on_lost=told.append)
    for _ in range(300):
        with lock:
            pass
        lock.hold().release()
    assert len(client._notices[os.getpid()]._watches) < 100
    with client.lock(name, lease=0.2, raise_on_lost=False) as hold:
        assert hold.lost.wait(5)
    assert told == []


def test_a_failing_on_lost_is_logged_and_harms_nobody(
    client: holdfast.Client, name: str, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(hold: holdfast.Hold) -> None:
        raise ValueError("of the user")

    with client.lock(name, lease=0.1, on_lost=fail, raise_on_lost=False) as hold:
        assert hold.lost.wait(5)
    until(lambda: caplog.records)
    assert caplog.records[0].name == "holdfast"
    told: list[holdfast.Hold] = []
    with client.lock(name, lease=0.1, on_lost=told.append, raise_on_lost=False):
        until(lambda: told)


def test_waiting_for_a_loss_ends_with_the_hold(
    lock: holdfast.Lock, client: holdfast.Client
) -> None:
    for end in (lambda hold: hold.release(), lambda hold: client.close()):
        hold = lock.hold()
        waiting = Thread(hold.lost.wait)
        time.sleep(0.05)
        assert waiting.is_alive()
        began = time.monotonic()
        end(hold)
        assert waiting.finish() is False
        assert time.monotonic() - began < 0.5


def test_waiting_for_a_loss_ends_with_the_lock(lock: holdfast.Lock) -> None:
    with lock as hold:
        waiting = Thread(hold.lost.wait)
        time.sleep(0.05)
        assert waiting.is_alive()
    assert waiting.finish() is False


def test_a_thread_is_started_for_losses_only_and_ends_with_the_client(
    server: Server, name: str
) -> None:
    until(lambda: "holdfast-notices" not in threads())  # that of the client before is ending
    with holdfast.connect(server.tcp) as client:
        with client.lock(name) as hold:
            assert not hold.lost.is_set()
            assert "holdfast-notices" not in threads()
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

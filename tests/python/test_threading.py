"""The behaviour that users of threading expect."""

from __future__ import annotations

import gc
import itertools
import math
import re
import threading
import time
import weakref
from datetime import timedelta
from typing import Any

import pytest
import redis

import holdfast
from conftest import Server, Thread, elsewhere, until

# The arguments that acquire() accepts and refuses.
BLOCKING: list[Any] = [True, False, 1, 0, 2, None, "yes", 1.0, []]
TIMEOUT: list[Any] = [-1, -1.0, 0, 0.0, 0.001, 5, True, -2, -0.5, None, "1", [], 1e300, 10**30]
TIMEOUT += [float("nan"), float("inf"), -float("inf"), threading.TIMEOUT_MAX * 2]


def outcome(lock: Any, **arguments: Any) -> object:
    """Return what acquire() returns or raises; the lock is free afterwards."""
    try:
        answer = lock.acquire(**arguments)
    except Exception as error:
        # A TypeError of Holdfast also names the argument.
        return type(error), "" if isinstance(error, TypeError) else str(error)
    lock.release()
    return answer


def test_acquire_takes_and_refuses_what_rlock_does(lock: holdfast.Lock) -> None:
    for blocking, timeout in itertools.product(BLOCKING, TIMEOUT):
        arguments = {"blocking": blocking, "timeout": timeout}
        assert outcome(lock, **arguments) == outcome(threading.RLock(), **arguments), arguments


def test_acquire_refuses_a_timeout_below_minus_one(lock: holdfast.Lock) -> None:
    for call in (lambda: lock.acquire(timeout=-2), lambda: lock.hold(timeout=-2)):
        with pytest.raises(ValueError, match="timeout"):
            call()
    with pytest.raises(ValueError, match="non-blocking"):
        lock.acquire(False, 1)
    with pytest.raises(OverflowError):
        lock.acquire(timeout=1e300)
    with pytest.raises(OverflowError):
        lock.hold(timeout=1e300)
    assert not lock.locked()


def test_acquire_answers_real_bools(lock: holdfast.Lock, stranger: holdfast.Lock) -> None:
    assert lock.acquire() is True
    assert lock.acquire(True, 1) is True
    assert lock.acquire(False) is True
    assert stranger.acquire(False) is False
    assert stranger.acquire(True, 0.01) is False
    assert lock.locked() is True
    assert lock.owned() is True


def test_repr_is_like_that_of_rlock(lock: holdfast.Lock, name: str, raw: redis.Redis) -> None:
    def told(of: object) -> tuple[str, str]:
        match = re.fullmatch(
            r"<(unlocked|locked) \w+\.\w+ object .*\bcount=(\d+) at 0x[0-9a-f]+>", repr(of)
        )
        assert match, repr(of)
        return match[1], match[2]

    with threading.RLock() as _:
        pass
    model = threading.RLock()
    for each in (lock, model):
        assert told(each) == ("unlocked", "0")
        each.acquire()
        each.acquire()
        assert told(each) == ("locked", "2")
        each.release()
        each.release()
        assert told(each) == ("unlocked", "0")
    assert f"name={name!r}" in repr(lock)
    assert hex(id(lock)) in repr(lock)

    commands = raw.info("stats")["total_commands_processed"]
    for _ in range(10):
        repr(lock)
    assert raw.info("stats")["total_commands_processed"] == commands + 1


def test_locks_can_be_referred_to_weakly_and_are_collected(client: holdfast.Client) -> None:
    lock = client.lock("weak")
    hold = lock.hold()
    seen = weakref.ref(lock), weakref.ref(hold)
    hold.release()
    del hold
    assert seen[1]() is None
    del lock
    assert seen[0]() is None


def test_nothing_of_a_collected_lock_stays_with_a_new_one(client: holdfast.Client) -> None:
    for _ in range(10_000):
        client.lock("again and again")
    gc.collect()
    with client.lock("again and again"):
        pass


def test_other_threads_run_while_one_waits(lock: holdfast.Lock, stranger: holdfast.Lock) -> None:
    with lock:
        waiting = Thread(stranger.acquire)
        until(lambda: lock.inspect().waiters)  # this one runs
        assert waiting.is_alive()
    waiting.finish()


def test_no_thread_of_python_is_left_behind(server: Server, name: str) -> None:
    def others() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name != "holdfast-notices"}

    before = others()
    with holdfast.connect(server.tcp) as client, client.lock(name):
        assert others() == before
    until(lambda: set(threading.enumerate()) <= before)  # the client's thread is ending


def test_many_threads_share_a_client(client: holdfast.Client, name: str) -> None:
    together = threading.Barrier(32)

    def work(number: int) -> None:
        together.wait(20)
        for _ in range(20):
            with client.lock(f"{name}:{number}") as hold:
                hold.check()

    for thread in [Thread(lambda number=number: work(number)) for number in range(32)]:  # type: ignore[misc]
        thread.finish()


def test_an_owner_that_is_a_thread_is_never_that_of_a_later_thread(lock: holdfast.Lock) -> None:
    elsewhere(lock.acquire)
    for _ in range(50):  # the system uses the numbers of threads again
        assert elsewhere(lambda: lock.acquire(blocking=False)) is False


def test_waiting_threads_exclude_each_other_and_all_get_their_turns(lock: holdfast.Lock) -> None:
    inside = 0
    fences: list[int] = []

    def work() -> None:
        nonlocal inside
        for _ in range(20):
            with lock as hold:
                inside += 1
                assert inside == 1
                fences.append(hold.fence)
                inside -= 1

    with lock:
        threads = [Thread(work) for _ in range(8)]
        until(lambda: lock.inspect().waiters == 8)
    for thread in threads:
        thread.finish()
    assert len(fences) == 160
    assert fences == sorted(set(fences))


# ------------------------------------------------------------------ Conditions


def test_it_works_under_a_condition(lock: holdfast.Lock, raw: redis.Redis, name: str) -> None:
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    items: list[int] = []
    taken: list[int] = []

    def take() -> None:
        with condition, condition:  # nested: all holds are released while it waits
            assert condition.wait_for(lambda: items, timeout=20)
            taken.append(items.pop())
            assert lock.count() == 2

    takers = [Thread(take) for _ in range(3)]
    until(lambda: len(condition._waiters) == 3)  # type: ignore[attr-defined]
    until(lambda: not raw.exists(name))  # the last waiter releases it now
    for number in range(3):
        with condition:
            items.append(number)
            condition.notify()
    for taker in takers:
        taker.finish()
    assert sorted(taken) == [0, 1, 2]
    assert not raw.exists(name)


def test_a_condition_asks_whether_the_caller_holds_it(lock: holdfast.Lock) -> None:
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        condition.wait()
    with pytest.raises(RuntimeError):
        condition.notify()
    with condition:
        assert condition.wait(0.01) is False
        assert lock.count() == 1


def test_a_loss_before_the_wait_comes_out_of_it(
    lock: holdfast.Lock, raw: redis.Redis, name: str
) -> None:
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    with condition:
        raw.delete(name)
        with pytest.raises(holdfast.LockLost):
            condition.wait(0.01)
        assert lock.count() == 1  # it holds the lock again
        lock.inspect()


# ------------------------------------------------------------- By the lock alone


def test_a_thread_that_ends_without_release_is_warned_of(
    client: holdfast.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    lock = client.lock(name)
    thread = threading.Thread(target=lock.acquire, name="forgetful")
    thread.start()
    thread.join()
    until(lambda: caplog.messages)
    (said,) = caplog.messages
    assert "forgetful" in said
    assert name in said
    owner = lock.inspect().owner
    assert owner is not None
    assert repr(owner) in said
    lock.release(owner=owner)  # as the message advises
    assert not lock.locked()


def test_a_thread_that_leaves_nothing_of_its_own_ends_in_silence(
    client: holdfast.Client, server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    holds: list[holdfast.Hold] = []

    def work() -> None:
        with client.lock(name):
            pass
        holds.append(client.lock(name + "1").hold())
        client.lock(name + "2", owner="common").acquire()
        client.lock(name + "3", reentrant=False).acquire()
        short = client.lock(name + "4", lease=0.02, renew=False)
        short.acquire()
        until(lambda: not short.owned())
        with holdfast.connect(server.tcp) as other:
            other.lock(name + "5").acquire()

    elsewhere(work)
    holds.pop().release()
    assert caplog.messages == []


def test_a_condition_is_told_that_the_lock_is_not_held(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    ours, theirs = client.lock(name), threading.RLock()
    for lock in (ours, theirs):
        with pytest.raises(RuntimeError):
            lock._release_save()  # type: ignore[union-attr]
    for lock in (ours, theirs) if hasattr(theirs, "_recursion_count") else (ours,):
        assert lock._recursion_count() == 0
        with lock, lock:
            assert lock._recursion_count() == 2
    short = client.lock(name, lease=0.05, renew=False)
    short.acquire()
    until(lambda: not short.owned())
    with pytest.raises(holdfast.LockLost):
        short._release_save()


def test_the_lock_extends_what_was_acquired_last(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    lock = client.lock(name, lease=20)
    with pytest.raises(holdfast.LockNotOwnedError):
        lock.extend(1)
    with pytest.raises(holdfast.LockNotOwnedError):
        lock.reacquire()
    with lock:
        lock.extend(60)
        assert raw.pttl(name) > 60_000
        lock.extend(50, replace=True)
        assert 30_000 < raw.pttl(name) <= 50_000
        lock.reacquire()
        assert 5_000 < raw.pttl(name) <= 20_000
        lock.extend(None, replace=True)
        assert raw.pttl(name) == -1
    with client.lock(name):
        client.lock(name).reacquire()
        assert 5_000 < raw.pttl(name) <= 10_000
        with pytest.raises(ValueError, match="seconds"):
            lock.extend(0)


def test_a_hold_is_handed_over_to_another_process(
    client: holdfast.Client, server: Server, name: str, raw: redis.Redis
) -> None:
    hold = client.lock(name).hold()
    token = hold.hand_over()
    assert not hold.valid
    with pytest.raises(holdfast.LockNotOwnedError):
        hold.hand_over()
    with holdfast.connect(server.tcp) as other:
        with pytest.raises(ValueError, match="token"):
            other.lock(name).adopt(b"no token")
        with other.lock(name).adopt(token) as adopted:
            assert adopted.fence == hold.fence
            adopted.check()
        assert not raw.exists(name)
        with pytest.raises(holdfast.LockLost):
            other.lock(name).adopt(token)


def test_a_release_keeps_the_lock_for_at_least(
    client: holdfast.Client, lock: holdfast.Lock, stranger: holdfast.Lock, name: str
) -> None:
    for wrong in (-1, math.inf, 1e12):
        with pytest.raises(ValueError, match="at_least must be from 0"):
            lock.hold(at_least=wrong)
    assert not lock.locked()

    def refuses(hold: holdfast.Hold, held_for: float = 0) -> None:
        assert hold.state == "released"
        with pytest.raises(holdfast.LockNotOwnedError):
            hold.release()
        info = stranger.inspect()
        assert info.remaining is not None
        assert 30 < info.remaining <= 60 - held_for  # the rest of the time
        assert stranger.acquire(blocking=False) is False
        assert lock.acquire(blocking=False) is False  # its owner does not nest in it, either
        stranger.force_release(hold.fence)

    with lock.hold(at_least=timedelta(minutes=1)) as hold:
        time.sleep(0.1)
    refuses(hold, 0.1)
    with pytest.raises(KeyError), lock.hold(at_least=60) as hold:
        raise KeyError
    refuses(hold)
    hold = lock.hold(at_least=60)
    hold.release()
    refuses(hold)
    with client.locks_all(name, name + "2").hold(at_least=60) as holds:
        pass
    assert client.lock(name + "2").locked()
    refuses(holds.holds[name])


def test_at_least_is_over_when_it_has_passed(lock: holdfast.Lock, stranger: holdfast.Lock) -> None:
    with lock.hold(at_least=0.05):
        time.sleep(0.06)
    assert not stranger.locked()
    with lock.hold(at_least=60) as hold:
        hold.keep(0)  # cancels it
    assert not stranger.locked()


def test_at_least_keeps_nothing_of_a_lost_hold(
    lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    with pytest.raises(holdfast.LockLost), lock.hold(at_least=60) as hold:
        stranger.force_release(hold.fence)
    assert not stranger.locked()


@pytest.mark.redis
def test_at_least_outlives_its_client(server: Server, name: str) -> None:
    with holdfast.connect(server.tcp) as other, other.lock(name).hold(at_least=60):
        pass
    with holdfast.connect(server.tcp) as client:
        assert client.lock(name).acquire(blocking=False) is False


def test_a_kept_hold_refuses_everybody_and_then_ends_by_itself(
    lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    hold = lock.hold()
    for wrong in (-1, math.inf, 1e12):
        with pytest.raises(ValueError, match="seconds must be from 0"):
            hold.keep(wrong)
    assert hold.valid
    hold.keep(timedelta(minutes=1))
    assert (hold.state, hold.remaining, hold.lost.cause) == ("released", 0, None)
    for call in (hold.release, lambda: hold.keep(60), hold.hand_over):
        with pytest.raises(holdfast.LockNotOwnedError):
            call()
    assert lock.acquire(blocking=False) is False  # its owner does not nest in it, either
    info = stranger.inspect()
    assert info.remaining is not None
    assert 30 < info.remaining <= 60
    assert stranger.acquire(blocking=False) is False
    stranger.force_release(hold.fence)

    with stranger.hold() as short:
        short.keep(0.05)
    with stranger.hold(timeout=10) as again:
        again.keep(0)
    with stranger.hold(timeout=0) as gone:
        stranger.force_release(gone.fence)
        with pytest.raises(holdfast.LockLost):
            gone.keep(60)
        with pytest.raises(holdfast.LockLost):
            gone.release()

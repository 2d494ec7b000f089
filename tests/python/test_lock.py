"""The required behaviours of a lock; the same table runs in every language."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import os
import pickle
import signal
import socket
import threading
import time
import warnings
from typing import Any

import pytest
import redis

import holdfast
from conftest import Server, Thread, elsewhere, queue, until

# ------------------------------------------------------------------- Acquire


def test_a_free_lock_is_acquired_and_released(
    lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with lock as hold:
        assert raw.exists(name)
        assert hold.valid
        assert hold.state == "held"
        assert hold.votes == (1, 1)
        assert hold.fence > 0
        assert lock.owned()
        assert lock.locked()
        assert lock.count() == 1
    assert not raw.exists(name)
    assert str(hold.state) == "released"
    assert not hold.valid
    assert hold.votes == (0, 1)
    assert hold.remaining == 0
    assert not lock.owned()
    assert not lock.locked()
    assert lock.count() == 0


def test_a_held_lock_is_busy_at_once(lock: holdfast.Lock, stranger: holdfast.Lock) -> None:
    with lock:
        began = time.monotonic()
        assert stranger.acquire(blocking=False) is False
        assert stranger.acquire(timeout=0) is False
        with pytest.raises(holdfast.LockTimeout):
            stranger.hold(timeout=0)
        assert time.monotonic() - began < 5
        with pytest.raises(holdfast.LockTimeout, match=r"by 'holdfast@.*/[0-9]+ thread [0-9]+'$"):
            stranger.hold(timeout=1)  # long enough to queue
        assert not stranger.owned()
    assert stranger.acquire(blocking=False) is True
    stranger.release()


def test_a_timeout_names_the_lock_and_its_holders(
    lock: holdfast.Lock, stranger: holdfast.Lock, name: str
) -> None:
    with lock as hold:
        for waited in (0, 0.05):
            with pytest.raises(holdfast.LockTimeout) as caught:
                stranger.hold(timeout=waited)
            assert (caught.value.name, caught.value.waited) == (name, waited)
            assert [holder.fence for holder in caught.value.holders] == [hold.fence]
    assert [holder.fence for holder in caught.value.holders] == [hold.fence]  # asked for once
    moved = pickle.loads(pickle.dumps(caught.value))
    assert (str(moved), moved.name, moved.waited) == (str(caught.value), name, waited)
    assert moved.holders == caught.value.holders
    assert holdfast.LockTimeout("of none").holders == ()


def test_a_timeout_of_permits_names_all_holders(
    client: holdfast.Client, stranger: holdfast.Lock, name: str
) -> None:
    seats = client.lock(name, permits=2, reentrant=False).shared()
    with seats.hold() as first, seats.hold() as second:
        with pytest.raises(holdfast.LockTimeout) as caught:
            seats.hold(timeout=0)
        assert {each.fence for each in caught.value.holders} == {first.fence, second.fence}

        async def ask() -> None:
            with pytest.raises(holdfast.LockTimeout) as caught:
                await client.aio.lock(name).hold(0.05)
            assert (caught.value.name, caught.value.waited) == (name, 0.05)
            holders = await asyncio.to_thread(lambda: caught.value.holders)
            assert {each.fence for each in holders} == {first.fence, second.fence}

        asyncio.run(ask())


def test_an_acquire_times_out_in_its_time_and_leaves_nothing_behind(
    lock: holdfast.Lock, stranger: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with lock:
        began = time.monotonic()
        assert stranger.acquire(timeout=0.1) is False
        assert 0.1 <= time.monotonic() - began < 5
        began = time.monotonic()
        with pytest.raises(TimeoutError) as caught:
            stranger.hold(timeout=0.1)
        assert isinstance(caught.value, holdfast.LockTimeout)
        assert 0.1 <= time.monotonic() - began < 5
        assert raw.zcount(queue(name), 0, 2**53) == 0
        assert len(raw.hgetall(name)) == 1
    assert not raw.exists(name)


def test_a_waiting_acquire_gets_the_lock_when_it_is_released(
    lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    lock.acquire()
    waiting = Thread(lambda: stranger.acquire(timeout=10))
    until(lambda: lock.inspect().waiters)
    fence = lock.inspect().fence
    lock.release()
    assert waiting.finish() is True
    assert stranger.inspect().fence > fence
    assert stranger.inspect().owner == "stranger"


def test_an_acquire_without_a_timeout_waits(lock: holdfast.Lock, stranger: holdfast.Lock) -> None:
    lock.acquire()
    waiters = [
        Thread(stranger.acquire),
        Thread(stranger.hold),
        Thread(lambda: stranger.hold(timeout=-1)),
        Thread(lambda: stranger.hold(timeout=None)),
    ]
    until(lambda: lock.inspect().waiters == 4)
    assert {each.timeout for each in lock.inspect().queue} == {None}
    lock.release()
    assert waiters[0].finish() is True
    for waiting in waiters[1:]:
        hold = waiting.finish()
        assert isinstance(hold, holdfast.Hold)
        hold.release()


# ------------------------------------------------------------------- Nesting


def test_an_owner_may_nest_three_deep(
    lock: holdfast.Lock, stranger: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with lock as outer, lock as middle, lock as inner:
        assert outer.fence == middle.fence == inner.fence
        assert lock.count() == 3
        assert lock.inspect().count == 3
    assert not raw.exists(name)

    for count in (1, 2, 3):
        assert lock.acquire() is True
        assert lock.count() == count
    for count in (2, 1):
        lock.release()
        assert lock.count() == count
        assert stranger.acquire(blocking=False) is False
    lock.release()
    assert stranger.acquire(blocking=False) is True
    stranger.release()


def test_a_release_too_many_is_refused(lock: holdfast.Lock, name: str, raw: redis.Redis) -> None:
    lock.acquire()
    lock.release()
    with pytest.raises(holdfast.LockNotOwnedError) as caught:
        lock.release()
    assert isinstance(caught.value, RuntimeError)
    assert not isinstance(caught.value, holdfast.LockLost)
    assert not raw.exists(name)


def test_every_thread_is_an_owner(lock: holdfast.Lock) -> None:
    with lock:
        assert elsewhere(lambda: lock.acquire(blocking=False)) is False
        assert elsewhere(lock.count) == 0
        assert elsewhere(lock.owned) is False
        assert elsewhere(lock.locked) is True


def test_any_lock_object_of_the_name_may_release(
    client: holdfast.Client, lock: holdfast.Lock, name: str
) -> None:
    lock.acquire()
    client.lock(name).release()
    assert not lock.locked()
    lock.acquire()
    client.lock(name.encode()).release()
    assert not lock.locked()


def test_a_hold_in_hand_is_not_what_release_releases(
    lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with lock.hold(timeout=5) as hold:
        assert lock.count() == 0
        with pytest.raises(holdfast.LockNotOwnedError):
            lock.release()
        assert raw.exists(name)
        assert hold.valid
        with lock as nested:
            assert nested.fence == hold.fence
    assert not raw.exists(name)


def test_a_hold_may_be_released_by_any_thread(
    lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    hold = lock.hold()
    elsewhere(hold.release)
    assert hold.state == "released"
    assert not raw.exists(name)


def test_a_hold_is_released_once(lock: holdfast.Lock) -> None:
    with lock.hold() as hold:
        hold.release()  # and leaving the block is no error
    for call in (hold.release, hold.renew, hold.check, lambda: hold.extend(1)):
        with pytest.raises(holdfast.LockNotOwnedError) as caught:
            call()
        assert not isinstance(caught.value, holdfast.LockLost)


def test_a_block_whose_hold_was_released_releases_no_hold_of_another_thread(
    client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name, reentrant=False)
    with lock as first:
        first.release()
        elsewhere(lock.acquire)
    assert lock.locked()
    lock.release()


def test_a_block_whose_hold_was_released_releases_no_outer_hold(lock: holdfast.Lock) -> None:
    with lock as outer:
        with lock as inner:
            inner.release()
        assert outer.valid
        assert lock.count() == 1
    assert not lock.locked()


# -------------------------------------------------------------------- Owners


def test_release_by_another_owner_is_refused(
    lock: holdfast.Lock, stranger: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    lock.acquire()
    before = raw.hgetall(name)
    with pytest.raises(holdfast.LockNotOwnedError):
        stranger.release()
    with pytest.raises(holdfast.LockNotOwnedError):
        elsewhere(lock.release)
    with pytest.raises(holdfast.LockNotOwnedError):
        lock.release(owner="another")
    assert raw.hgetall(name) == before
    lock.release()


def test_an_owner_may_be_given_to_one_call(lock: holdfast.Lock) -> None:
    assert lock.acquire(owner="request 1") is True
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(blocking=False, owner="request 2") is False
    assert lock.acquire(blocking=False, owner="request 1") is True
    assert lock.count(owner=b"request 1") == 2
    assert lock.owned(owner="request 1")
    assert not lock.owned(owner="request 2")
    assert not lock.owned()
    with lock.hold(owner="request 1") as hold:
        assert lock.inspect().owner == "request 1"
        assert lock.inspect().count == 3
    assert hold.state == "released"
    elsewhere(lambda: lock.release(owner="request 1"))
    lock.release(owner="request 1")
    assert not lock.locked()


def test_without_reentrance_an_owner_excludes_itself(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    assert lock.acquire() is True
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(timeout=0.05) is False
    elsewhere(lock.release)  # as with threading.Lock
    assert lock.acquire(blocking=False) is True
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()

    mine = client.lock(name, reentrant=False, owner="me")
    with mine:
        assert mine.acquire(blocking=False) is False
        assert client.lock(name, reentrant=False, owner="me").acquire(blocking=False) is False


# --------------------------------------------------------------------- Lease


def test_a_lease_is_ten_seconds_if_none_is_asked_for(
    lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with lock as hold:
        assert 5_000 < raw.pttl(name) <= 10_000
        assert hold.remaining is not None
        assert 5 < hold.remaining < 10


def test_a_lease_of_none_never_ends(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    with client.lock(name, lease=None) as hold:
        assert raw.pttl(name) == -1
        assert hold.remaining is None
        assert client.lock(name).inspect().remaining is None
    assert not raw.exists(name)


def test_renew_gives_the_whole_lease_again(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    with client.lock(name, lease=60) as hold:
        raw.pexpire(name, 10_000)  # as if most of the lease had passed
        hold.renew()
        assert 50_000 < raw.pttl(name) <= 60_000
        assert hold.remaining is not None
        assert 50 < hold.remaining <= 60


def test_extend_adds_and_replace_sets(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    with client.lock(name, lease=50) as hold:
        hold.extend(200)
        assert 230_000 < raw.pttl(name) <= 250_000
        assert hold.remaining is not None
        assert 230 < hold.remaining < 250
        hold.extend(30, replace=True)
        assert 10_000 < raw.pttl(name) <= 30_000
        assert 10 < hold.remaining < 30
        hold.extend(None, replace=True)
        assert raw.pttl(name) == -1
        assert hold.remaining is None
        for seconds in (0, -1, 0.009, float("nan"), float("inf"), 1e12):
            with pytest.raises(ValueError, match="seconds"):
                hold.extend(seconds)
        with pytest.raises(ValueError, match="replace|duration|extend"):
            hold.extend(None)


@pytest.mark.parametrize("call", ["check", "renew", "extend", "release"])
def test_a_hold_whose_key_was_taken_away_is_lost(
    call: str, lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    hold = lock.hold()
    assert hold.state == "held"
    raw.delete(name)
    with pytest.raises(holdfast.LockLost):
        getattr(hold, call)(*[1] if call == "extend" else [])
    assert hold.state in ("lost", "released")
    assert hold.remaining == 0


def test_what_a_lease_ended_is_lost_to_every_call(
    client: holdfast.Client, stranger: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    lock = client.lock(name, lease=0.05, renew=False)
    stale = lock.hold()
    lock.acquire()
    with stranger.hold(timeout=20) as after:
        assert after.fence > stale.fence
        assert (stale.state, stale.remaining, lock.owned()) == ("lost", 0, False)
        held = raw.hgetall(name)
        for call in (
            stale.check,
            stale.renew,
            lambda: stale.extend(1),
            stale.release,
            lock.release,
        ):
            with pytest.raises(holdfast.LockLost) as caught:
                call()
            assert isinstance(caught.value, holdfast.LockNotOwnedError)
        assert raw.hgetall(name) == held


def test_leaving_a_block_tells_a_loss_but_hides_no_error(
    lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    for enter in (lambda: lock, lock.hold):
        with pytest.raises(holdfast.LockLost), enter():
            raw.delete(name)
        with pytest.raises(ZeroDivisionError) as caught, enter():
            raw.delete(name)
            _ = 1 / 0
        notes = getattr(caught.value, "__notes__", None)
        assert notes is None or "LockLost" in notes[0]


# ------------------------------------------------------------------- Looking


def test_inspect_tells_who_holds_it(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, lease=50, owner="Jürgen \udcff\0")
    assert lock.inspect() == holdfast.LockInfo(
        name=name,
        held=False,
        foreign=False,
        shared=False,
        count=0,
        waiters=0,
        remaining=0,
        result=0,
        moving=False,
        holders=(),
        queue=(),
    )
    free = lock.inspect()
    assert (free.owner, free.fence, free.held_for) == (None, 0, 0)
    with lock as hold, lock:
        info = client.lock(name).inspect()
        (holder,) = info.holders
        assert (holder.owner, holder.fence, holder.count) == (info.owner, hold.fence, 2)
        assert (holder.shared, holder.held_for) == (False, info.held_for)
        assert holder.remaining == pytest.approx(info.remaining, abs=1)
        assert holder.origin is None
        assert len(lock.inspect(1).holders) == 1
        assert lock.inspect(2).holders == ()
        assert info.held is True
        assert info.foreign is False
        assert info.owner == "Jürgen \udcff\0"
        assert info.count == 2
        assert info.fence == hold.fence
        assert info.remaining is not None
        assert 30 < info.remaining <= 50


def test_an_operator_sees_for_how_long_it_is_held_and_who_waits(
    client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name)
    assert lock.inspect().queue == ()
    began = time.monotonic()
    with lock:
        first = Thread(lambda: client.lock(name, owner="first").acquire(timeout=30))
        until(lambda: lock.inspect().waiters == 1)
        second = Thread(client.lock(name, owner="s\udcff").acquire)
        until(lambda: lock.inspect().waiters == 2)
        until(lambda: lock.inspect().held_for > 0.01)
        one, two = lock.inspect().queue
        passed = time.monotonic() - began
        assert (one.owner, one.timeout) == ("first", 30)
        assert (two.owner, two.timeout) == ("s\udcff", None)
        assert 0 <= two.waited <= one.waited <= passed + 0.1
        assert 0.01 < lock.inspect().held_for <= time.monotonic() - began + 0.1
        assert (one.shared, one.permits) == (False, 0)
        assert [each.owner for each in lock.inspect(1).queue] == ["s\udcff"]
        looked = asyncio.run(client.aio.lock(name).inspect(first=1))
        assert [each.owner for each in looked.queue] == ["s\udcff"]
        assert looked.waiters == 2
        with pytest.raises(ValueError, match="must be from"):
            lock.inspect(-1)
    first.finish()
    lock.release(owner="first")
    second.finish()
    lock.release(owner="s\udcff")


def test_the_default_owner_tells_where_it_is(client: holdfast.Client, name: str) -> None:
    with client.lock(name):
        info = client.lock(name).inspect()
        origin = info.holders[0].origin
        assert origin is not None
        assert (origin.host, origin.pid) == (socket.gethostname(), os.getpid())
        assert (origin.client, origin.kind) == ("holdfast", "thread")
        assert origin.number > 0
        assert info.owner is not None
        assert holdfast.Origin.of(info.owner) == origin
        assert holdfast.Origin.of(info.owner.encode()) == origin
        assert holdfast.Origin.of(info.owner[1:] + "x") is None


async def _task_origin(client: holdfast.Client, name: str) -> holdfast.Origin | None:
    async with client.aio.lock(name):
        return client.lock(name).inspect().holders[0].origin


def test_a_task_is_an_origin_too(client: holdfast.Client, name: str) -> None:
    origin = asyncio.run(_task_origin(client, name))
    assert origin is not None
    assert origin.kind == "task"


def test_all_locks_of_a_pattern_are_told_once(client: holdfast.Client, name: str) -> None:
    names = {f"{name}:{i}:\udcff" for i in range(25)}
    waits = Thread(client.lock(f"{name}:7:\udcff", owner="waits").acquire)
    with contextlib.ExitStack() as stack:
        for each in names - {f"{name}:7:\udcff"}:
            stack.enter_context(client.lock(each))
        waits.finish()
        with client.lock(f"{name}-other"):
            locks = client.locks(f"{name}:[0-9]*", rate=None)
            assert locks.progress == holdfast.Progress(0, 0, locks.progress.keys, 0, 0, 0, 0)
            found = list(locks)
        assert sorted(info.name for info in found) == sorted(names)
        assert next(locks, None) is None
        progress = locks.progress
        assert (progress.locks, progress.refused) == (25, 0)
        assert progress.keys is not None
        assert progress.keys_seen == progress.keys >= 25
        for info in found:
            assert info.held
            assert info.count == len(info.holders) == 1
        assert {info.owner for info in found if ":7:" in info.name} == {"waits"}

        async def walk() -> list[str]:
            return [info.name async for info in client.aio.locks(f"{name}:*".encode())]

        assert sorted(asyncio.run(walk())) == sorted(names)
        assert [info.name for info in client.locks(f"{name}:1[2-3]:?")] != []
    client.lock(f"{name}:7:\udcff").release(owner="waits")
    assert list(client.locks(f"{name}*")) == []


@pytest.mark.redis
def test_a_walk_tells_what_it_costs(client: holdfast.Client, name: str) -> None:
    with client.lock(f"{name}:a"), client.lock(f"{name}:b"):
        locks = client.locks(f"{name}:*", rate=None)
        assert len(list(locks)) == 2
        progress = locks.progress
        assert progress.commands > progress.round_trips >= 3
        assert 0 < progress.answer_time < 60


class Noticed(Exception):
    pass


@pytest.mark.redis
def test_the_progress_is_read_while_the_walk_waits(client: holdfast.Client) -> None:
    walk = client.locks(rate=1)
    told = []

    def handler(number: int, frame: object) -> None:
        told.append(walk.progress)
        raise Noticed

    def read() -> None:
        until(lambda: walk.progress.commands > 0)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    reads = Thread(read)
    try:
        with pytest.raises(Noticed):
            while True:
                next(walk, None)
    finally:
        signal.signal(signal.SIGUSR1, before)
    reads.finish()
    assert told[0].commands > 0


def test_what_is_no_pattern_is_refused(client: holdfast.Client) -> None:
    for wrong in ("", "x" * 4097):
        with pytest.raises(ValueError, match="pattern"):
            client.locks(wrong)
    with pytest.raises(ValueError, match="rate"):
        client.locks(rate=0)
    with pytest.raises(TypeError, match="pattern"):
        client.locks(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="copied"):
        copy.copy(client.locks())


def test_a_closed_client_lists_nothing(server: Server) -> None:
    client = holdfast.connect(server.tcp)
    locks = client.locks()
    client.close()
    with pytest.raises(holdfast.ClosedError):
        next(locks)
    with pytest.raises(holdfast.ClosedError):
        client.locks()


def test_force_release_takes_the_lock_from_the_one_it_names(
    lock: holdfast.Lock, stranger: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    hold = lock.hold()
    with pytest.raises(holdfast.LockNotOwnedError):
        stranger.force_release(hold.fence - 1)
    hold.check()
    stranger.force_release(hold.fence)
    assert not raw.exists(name)
    stranger.force_release(hold.fence)  # free: no error
    with pytest.raises(holdfast.LockLost):
        hold.check()


# ------------------------------------------------------------- Foreign locks


def test_a_foreign_lock_is_busy_and_broken_only_when_asked(
    lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    raw.set(name, "token", px=60_000)
    before = raw.dump(name)
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(timeout=0.05) is False
    with pytest.raises(holdfast.LockNotOwnedError):
        lock.release()
    with pytest.raises(holdfast.LockNotOwnedError):
        lock.force_release(0)
    assert raw.dump(name) == before

    info = lock.inspect()
    assert (info.held, info.foreign, info.owner) == (True, True, None)
    assert (info.count, info.fence) == (0, 0)
    assert lock.locked()
    lock.force_release(0, foreign=True)
    assert not raw.exists(name)


# ------------------------------------------------------------------- Closing


def test_use_after_close_is_refused(server: Server, name: str) -> None:
    client = holdfast.connect(server.tcp)
    lock = client.lock(name)
    hold = lock.hold()
    client.close()
    client.close()
    for call in (
        lambda: client.lock(name),
        lock.acquire,
        lock.hold,
        lock.inspect,
        lock.locked,
        lambda: lock.force_release(1),
        hold.renew,
        hold.check,
        lambda: hold.extend(1),
        hold.release,
    ):
        with pytest.raises(holdfast.ClosedError):
            call()
    assert not hold.valid
    assert lock.count() == 0
    assert lock.owned() is False
    assert "closed" in repr(client)


def test_close_releases_what_the_client_holds(server: Server, name: str, raw: redis.Redis) -> None:
    with holdfast.connect(server.tcp) as client:
        client.lock(name).acquire()
        hold = client.lock(name + "2").hold()
        assert raw.exists(name, name + "2") == 2
    assert raw.exists(name, name + "2") == 0
    assert not hold.valid


def test_close_ends_waiting_calls(
    lock: holdfast.Lock, server: Server, name: str, raw: redis.Redis
) -> None:
    with lock:
        client = holdfast.connect(server.tcp)
        waiting = Thread(client.lock(name).acquire)
        until(lambda: lock.inspect().waiters)
        began = time.monotonic()
        client.close()
        with pytest.raises(holdfast.ClosedError):
            waiting.finish()
        assert time.monotonic() - began < 10
        assert raw.zcount(queue(name), 0, 2**53) == 0


def test_a_dropped_hold_warns_and_is_not_released(
    lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    with pytest.warns(ResourceWarning, match="without release"):
        lock.hold()
        gc.collect()
    assert raw.exists(name)
    raw.delete(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lock:
            lock.hold().release()
        lock.acquire()
        gc.collect()
        lock.release()


def test_a_dropped_client_warns_and_releases_nothing(
    server: Server, name: str, raw: redis.Redis
) -> None:
    client = holdfast.connect(server.tcp)
    client.lock(name).acquire()
    with pytest.warns(ResourceWarning, match="without close"):
        del client
        gc.collect()
    assert raw.exists(name)


def test_a_lock_keeps_its_client(server: Server, name: str) -> None:
    lock = holdfast.connect(server.tcp).lock(name)
    gc.collect()
    with lock.hold() as hold:
        del lock
        gc.collect()
        hold.check()
        client = hold._lock._client
    client.close()


def test_closing_while_others_call_is_safe(server: Server, name: str) -> None:
    for _ in range(20):
        client = holdfast.connect(server.tcp)
        lock = client.lock(name)
        go = threading.Event()

        def work(client: holdfast.Client = client, lock: Any = lock, go: Any = go) -> None:
            go.wait()
            while True:
                with lock:
                    client.lock("another").inspect()

        threads = [Thread(work) for _ in range(4)]
        go.set()
        until(lambda: lock.locked())  # noqa: B023
        client.close()
        for thread in threads:
            with pytest.raises(holdfast.LockError):
                thread.finish()


def test_a_closed_client_is_not_entered(server: Server) -> None:
    client = holdfast.connect(server.tcp)
    client.close()
    with pytest.raises(holdfast.ClosedError, match=r"connect\(\) opens a new one"), client:
        raise AssertionError("entered")


def test_the_token_of_another_lock_is_refused(client: holdfast.Client, name: str) -> None:
    token = client.lock(name).hold().hand_over()
    other = client.lock(name + ":b")
    with pytest.raises(ValueError, match=f"that is a token of lock '{name[:20]}.* is '{name[:20]}"):
        other.adopt(token)
    client.lock(name).adopt(token).release()


def test_a_timeout_says_who_has_the_permits(client: holdfast.Client, name: str) -> None:
    seats = client.lock(name, permits=1, owner="ann", note="row 7").shared()
    with (
        seats,
        pytest.raises(holdfast.LockTimeout, match="at last by 'ann', noted 'row 7'") as busy,
    ):
        client.lock(name, permits=1, owner="ben").shared().hold(1)
    assert (busy.value.name, busy.value.waited) == (name, 1.0)

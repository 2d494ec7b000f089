"""Several locks at once: all or none, in one order; losing one is losing all."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from conftest import Server, Thread, held, until
from holdfast.testing import MemoryServer

ORDERS = [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (2, 0, 1), (1, 0, 2)]


@pytest.fixture
def names(name: str) -> list[str]:
    return [f"{name}:{letter}" for letter in "abc"]


@pytest.fixture
def other(server: Server) -> Iterator[holdfast.Client]:
    """Another client, which stands for another process."""
    with holdfast.connect(server.tcp) as client:
        yield client


def free(client: holdfast.Client, names: list[str]) -> bool:
    return not any(client.lock(each).locked() for each in names)


def test_all_are_held_and_each_has_its_fence(client: holdfast.Client, names: list[str]) -> None:
    a, b, c = names
    with client.locks_all(c, a, b) as holds:
        assert list(holds.fences) == list(holds.holds) == [c, a, b]
        assert holds.fences[a] < holds.fences[b] < holds.fences[c]  # in the order of the names
        assert holds.fences == {each: client.lock(each).inspect().fence for each in names}
        assert holds.valid
        assert not holds.lost.is_set()
        assert holds.remaining is not None
        assert 0 < holds.remaining <= 10
        holds.renew()
        holds.check()
        holds.extend(50)
        assert holds.remaining > 50
    assert holds.state == "released"
    assert not holds.valid
    assert free(client, names)


def test_acquire_and_release_are_those_of_a_lock(client: holdfast.Client, names: list[str]) -> None:
    locks = client.locks_all(*names)
    assert locks.acquire()
    assert locks.acquire(blocking=False)
    assert locks.count() == 2
    assert locks.owned()
    assert Thread(lambda: locks.acquire(blocking=False)).finish() is False
    assert Thread(lambda: locks.acquire(timeout=0.01)).finish() is False
    locks.release()
    client.lock(names[1]).release()
    with pytest.raises(holdfast.LockNotOwnedError):
        locks.release()
    assert client.lock(names[0]).owned()  # nothing has changed
    client.lock(names[0]).release()
    client.lock(names[2]).release()
    assert free(client, names)


def test_one_that_is_busy_leaves_nothing(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    with other.lock(names[1]):
        locks = client.locks_all(*names)
        assert not locks.acquire(blocking=False)
        assert not locks.acquire(timeout=0.02)
        with pytest.raises(holdfast.LockTimeout, match="held by others"):
            locks.hold(timeout=0.02)
        assert not client.lock(names[0]).locked()
        assert not client.lock(names[2]).locked()
        assert locks.count() == 0
    locks.hold(timeout=0).release()


def test_wrong_names_and_arguments_are_refused(client: holdfast.Client, names: list[str]) -> None:
    for wrong in ([], [*names, names[0]], [names[0], names[0].encode()], names * 40):
        with pytest.raises(ValueError, match="given twice|0 locks|120 locks"):
            client.locks_all(*wrong)
    with pytest.raises(TypeError, match="name must be"):
        client.locks_all(names)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_lost must be a function"):
        client.locks_all(*names, on_lost=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lease must be"):
        client.locks_all(*names, lease=-1)
    with pytest.raises(ValueError, match="timeout"):
        client.locks_all(*names).acquire(timeout=-2)


def test_losing_one_is_losing_all(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    told: list[holdfast.Holds] = []
    holds = client.locks_all(*names, on_lost=told.append).hold()
    other.lock(names[1]).force_release(holds.fences[names[1]])
    with pytest.raises(holdfast.LockLost):
        holds.check()
    assert holds.state == "lost"
    assert holds.lost.cause == "gone"
    assert holds.remaining == 0
    assert holds.lost.wait(10)
    until(lambda: told)
    until(lambda: free(other, names))
    assert told == [holds]
    with pytest.raises(holdfast.LockLost):
        holds.release()


def test_a_lease_that_ends_ends_the_block_with_all(
    client: holdfast.Client, names: list[str]
) -> None:
    with (
        pytest.raises(holdfast.LockLost),
        client.locks_all(*names, lease=0.1, renew=False) as holds,
    ):
        assert holds.lost.wait(10)
        assert all(hold.lost.is_set() for hold in holds.holds.values())
    with client.locks_all(*names, lease=0.1, renew=False, raise_on_lost=False).hold() as holds:
        assert holds.lost.wait(10)


def test_one_released_by_hand_leaves_the_others(client: holdfast.Client, names: list[str]) -> None:
    with client.locks_all(*names).hold() as holds:
        holds.holds[names[0]].release()
        assert not holds.valid
        assert holds.state == "held"
        assert client.lock(names[1]).locked()
        assert not client.lock(names[0]).locked()
    assert free(client, names)
    with pytest.raises(holdfast.LockNotOwnedError):
        holds.release()
    with pytest.raises(holdfast.LockNotOwnedError), holds:
        raise AssertionError("without the locks")


def test_all_are_kept(client: holdfast.Client, other: holdfast.Client, names: list[str]) -> None:
    holds = client.locks_all(*names).hold()
    with pytest.raises(ValueError, match="seconds must be"):
        holds.keep(-1)
    holds.keep(60)
    assert holds.state == "released"
    with pytest.raises(holdfast.LockNotOwnedError):
        holds.keep(1)
    assert not other.locks_all(*names[1:]).acquire(blocking=False)
    for each, fence in holds.fences.items():
        other.lock(each).force_release(fence)
    assert free(other, names)


def test_all_begin_again_in_memory_when_a_lease_has_ended() -> None:
    server = MemoryServer()
    with server.connect() as client, server.connect() as other:
        with other.lock("b"):
            waiter = Thread(lambda: client.locks_all("b", "a", lease=5, renew=False).hold())
            until(lambda: other.lock("b").inspect().waiters)
            server.advance(10)
            assert not other.lock("a").locked()
        holds = waiter.finish()
        assert isinstance(holds, holdfast.Holds)
        assert holds.valid
        holds.release()


@pytest.mark.redis
def test_leases_shorter_than_the_waits_cost_few_requests(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    a, b, _ = names
    waits: list[bool] = []
    over = threading.Event()

    def wait() -> None:
        # It has them for a moment if the machine stands still.
        with pytest.raises((holdfast.LockTimeout, holdfast.LockLost)):
            client.locks_all(a, b, lease=0.01, renew=False).hold(timeout=3)
        over.set()

    def hold(owner: str) -> None:  # in turn: three of them are before the one that asks for "b"
        lock = other.lock(b, owner=owner)
        while not over.is_set():
            with lock:
                time.sleep(0.015)
                waits.append(lock.inspect().waiters > 3)

    with other.lock(b, owner="first"):
        holders = [Thread(lambda owner=owner: hold(owner)) for owner in "wxyz"]  # type: ignore[misc]
        until(lambda: other.lock(b).inspect().waiters == 4)
        waiter = Thread(wait)
        until(lambda: other.lock(b).inspect().waiters == 5)
    for thread in (waiter, *holders):
        thread.finish()
    assert 1 <= sum(waits) <= 80


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_dropped_holds_end_with_their_leases(client: holdfast.Client, names: list[str]) -> None:
    holds = client.locks_all(*names, lease=0.3, renew=True, on_lost=print).hold()
    holds._tell(lambda _: None, holdfast.Hold._watch)
    del holds
    gc.collect()
    until(lambda: free(client, names))


def test_many_threads_in_all_orders_do_not_deadlock(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    inside: dict[str | bytes, int] = dict.fromkeys(names, 0)
    last: dict[str | bytes, int] = dict.fromkeys(names, 0)

    def work(number: int) -> None:
        mine = [names[at] for at in ORDERS[number % 6]][: 2 + number % 2]
        for _ in range(15):
            with (client, other)[number % 2].locks_all(*mine).hold(timeout=30) as holds:
                for each, fence in holds.fences.items():
                    inside[each] += 1
                    assert inside[each] == 1
                    assert last[each] < fence
                    last[each] = fence
                time.sleep(random.random() / 1000)
                for each in mine:
                    inside[each] -= 1

    for thread in [Thread(lambda number=number: work(number)) for number in range(12)]:  # type: ignore[misc]
        thread.finish()
    assert free(client, names)


@pytest.mark.redis
def test_ctrl_c_ends_the_wait_and_leaves_nothing(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    def interrupt() -> None:
        until(lambda: other.lock(names[2]).inspect().waiters)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with other.lock(names[2]):
        with pytest.raises(KeyboardInterrupt):
            Thread(interrupt)
            client.locks_all(*names).hold()
        assert free(other, names[:2])


def test_ctrl_c_in_a_release_keeps_none_of_the_others(
    client: holdfast.Client, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = holdfast.Lock._end

    def interrupted(lock: holdfast.Lock, *given: Any) -> None:
        monkeypatch.undo()
        end(lock, *given)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(holdfast.Lock, "_end", interrupted)
    with pytest.raises(KeyboardInterrupt), client.locks_all(*names):
        pass
    assert free(client, names)


def test_ctrl_c_before_a_release_keeps_none(
    client: holdfast.Client, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), client.locks_all(*names):
        monkeypatch.setattr(holdfast.Lock, "_end", interrupted)
    assert free(client, names)


@pytest.mark.parametrize("task", [False, True])
def test_a_block_that_has_released_one_lock_releases_the_others(
    client: holdfast.Client, names: list[str], task: bool
) -> None:
    async def leave() -> None:
        async with client.aio.locks_all(*names):
            await client.aio.lock(names[1]).release()

    with pytest.raises(holdfast.LockNotOwnedError):
        if task:
            asyncio.run(leave())
        else:
            with client.locks_all(*names):
                client.lock(names[1]).release()
    assert free(client, names)


@pytest.mark.parametrize("task", [False, True])
def test_a_block_whose_body_releases_one_hold_releases_the_others(
    client: holdfast.Client, names: list[str], task: bool
) -> None:
    async def leave() -> None:
        async with client.aio.locks_all(*names) as holds:
            await holds.holds[names[1]].release()
            assert free(client, [names[1]])

    if task:
        asyncio.run(leave())
    else:
        with client.locks_all(*names) as holds:
            holds.holds[names[1]].release()
            assert free(client, [names[1]])
    assert free(client, names)


# ------------------------------------------------------------------------ Tasks


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("loose", [False, True])
def test_a_cancelled_keep_of_one_hold_goes_on_and_the_others_are_released(
    client: holdfast.Client, other: holdfast.Client, names: list[str], at: int, loose: bool
) -> None:
    async def leave() -> None:
        locks = client.aio.locks_all(*names)
        async with locks.hold() if loose else locks as holds:
            keep = asyncio.ensure_future(holds.holds[names[at]].keep(60))
            await asyncio.sleep(0)
            keep.cancel()
            await asyncio.wait([keep])
            assert keep.cancelled()

    asyncio.run(leave())
    until(lambda: other.lock(names[at]).inspect().kept)
    rest = names[:at] + names[at + 1 :]
    assert free(other, rest)
    other.lock(names[at]).force_release(other.lock(names[at]).inspect().fence)


def test_tasks_have_all_or_none_too(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    async def main() -> None:
        locks = client.aio.locks_all(*names)
        async with locks as holds:
            assert list(holds.fences) == names
            assert holds.valid
            await holds.renew()
            await holds.check()
            await holds.extend(60)
            assert locks.owned()
        assert free(other, names)
        async with locks.hold(timeout=5) as holds:
            assert holds.state == "held"
            assert not await client.aio.locks_all(*names[:2], owner="x").acquire(blocking=False)
        assert await locks.acquire(timeout=1)
        assert await locks.acquire()
        await locks.release()
        await locks.release()
        with pytest.raises(holdfast.LockNotOwnedError):
            await locks.release()
        with pytest.raises(holdfast.LockNotOwnedError):
            await holds.renew()
        assert free(other, names)
        async with locks.hold() as holds:
            await holds.keep(0.05)
            assert holds.state == "released"
        while not free(other, names):
            await asyncio.sleep(0.005)
        with held(other.lock(names[1])):
            assert not await locks.acquire(blocking=False)
            assert not await locks.acquire(timeout=0.02)
            with pytest.raises(holdfast.LockTimeout):
                await locks.hold(timeout=0.02)
            assert free(other, [names[0], names[2]])

    asyncio.run(main())


def test_a_cancelled_task_leaves_nothing(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    async def main() -> None:
        with held(other.lock(names[2])):
            task = asyncio.create_task(client.aio.locks_all(*names).acquire())
            while free(other, names[:2]):
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert free(other, names[:2])

    asyncio.run(main())


def test_a_loss_cancels_the_block_of_a_task(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    async def main() -> None:
        told: list[object] = []
        locks = client.aio.locks_all(*names)
        with pytest.raises(holdfast.LockLost):
            async with locks.hold(cancel_on_lost=True, on_lost=told.append) as holds:
                other.lock(names[1]).force_release(holds.fences[names[1]])
                finding = asyncio.create_task(holds.check())
                await asyncio.sleep(40)
        with pytest.raises(holdfast.LockLost):
            await finding
        assert told == [holds]
        assert holds.lost.is_set()
        assert await holds.lost.wait()
        while not free(other, names):
            await asyncio.sleep(0.005)

    asyncio.run(main())


def test_tasks_in_all_orders_do_not_deadlock(client: holdfast.Client, names: list[str]) -> None:
    inside = dict.fromkeys(names, 0)

    async def work(number: int) -> None:
        mine = [names[at] for at in ORDERS[number % 6]]
        for _ in range(5):
            async with client.aio.locks_all(*mine).hold(timeout=60):
                for each in mine:
                    inside[each] += 1
                    assert inside[each] == 1
                await asyncio.sleep(0)
                for each in mine:
                    inside[each] -= 1

    async def main() -> None:
        await asyncio.gather(*(work(number) for number in range(20)))

    asyncio.run(main())
    assert free(client, names)


def test_locks_of_mixed_kinds(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    a, b, c = names
    pool = client.lock(a, permits=2)
    mixed = client.locks_all(c, client.lock(b).shared(), pool.shared())
    with other.lock(b).shared(), other.lock(a, permits=2).shared(), mixed as holds:
        assert list(holds.fences) == [c, b, a]
        assert client.lock(a).inspect().count == client.lock(b).inspect().count == 2
        assert not client.lock(c).inspect().shared
    assert free(client, names)
    first, second = (other.lock(a, permits=2, owner=owner).shared() for owner in "xy")
    with first, second:
        with pytest.raises(holdfast.LockTimeout) as busy:
            mixed.hold(timeout=0.01)
        assert (busy.value.name, busy.value.waited) == (a, 0.01)
        assert {each.owner for each in busy.value.holders} == {"x", "y"}
    with other.lock(b), pytest.raises(holdfast.LockTimeout):
        mixed.hold(timeout=0)
    assert free(client, names)


def test_one_of_several_takes_more_of_its_permits(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    a, b, c = names
    pool, theirs = client.lock(b, permits=5), other.lock(b, permits=5)
    heavy = client.locks_all(c, pool.shared(weight=3), client.lock(a).shared())
    with heavy:
        assert [holder.weight for holder in pool.inspect().holders] == [3]
        more = other.locks_all(other.lock(a).shared(), theirs.shared(weight=3))
        assert not more.acquire(blocking=False)
        with other.locks_all(other.lock(a).shared(), theirs.shared(weight=2)):
            assert sum(holder.weight for holder in pool.inspect().holders) == 5
    with theirs.shared(weight=3), pytest.raises(holdfast.LockTimeout) as busy:
        heavy.hold(timeout=0.01)
    assert busy.value.name == b
    assert free(client, names)


def test_mixed_kinds_in_opposite_orders_do_not_deadlock(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    a, b, _ = names

    def turns(of: holdfast.Client, given: list[Any]) -> int:
        for _ in range(25):
            with of.locks_all(*given):
                pass
        return 25

    one = Thread(lambda: turns(client, [client.lock(a).shared(), b]))
    two = Thread(lambda: turns(other, [b, other.lock(a)]))
    assert one.finish() == two.finish() == 25


def test_each_lock_has_its_own_lease_and_names_have_that_of_all(
    client: holdfast.Client, names: list[str]
) -> None:
    long = client.lock(names[1], lease=100)
    with client.locks_all(names[0], long, lease=50) as holds:
        assert (holds.remaining or 0) <= 50
        assert (client.lock(names[0]).inspect().remaining or 0) <= 50
        assert 50 < (long.inspect().remaining or 0) <= 100


def test_one_owner_as_text_and_as_bytes_is_one_owner(
    client: holdfast.Client, names: list[str]
) -> None:
    a, b, _ = names
    with client.locks_all(client.lock(a, owner="me"), client.lock(b, owner=b"me")):
        assert client.lock(b).inspect().owner == "me"


def test_locks_that_cannot_be_held_together_are_refused(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    a, b, _ = names
    with pytest.raises(ValueError, match="another client's"):
        client.locks_all(a, other.lock(b))
    with pytest.raises(ValueError, match="given twice"):
        client.locks_all(a, client.lock(a).shared())
    with pytest.raises(ValueError, match="on_lost of its own"):
        client.locks_all(a, client.lock(b, on_lost=print))
    with pytest.raises(ValueError, match="no name is given"):
        client.locks_all(client.lock(a), client.lock(b), lease=5)
    with pytest.raises(ValueError, match="have one owner"):
        client.locks_all(a, client.lock(b, owner="me"))
    with pytest.raises(TypeError, match="here each is a name or Lock"):
        client.locks_all(a, client.aio.lock(b))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="here each is a name or AsyncLock"):
        client.aio.locks_all(a, client.lock(b))  # type: ignore[arg-type]


def test_tasks_hold_locks_of_mixed_kinds(
    client: holdfast.Client, other: holdfast.Client, names: list[str]
) -> None:
    a, b, _ = names

    async def run() -> None:
        mixed = client.aio.locks_all(a, client.aio.lock(b).shared())
        async with other.aio.lock(b).shared(), mixed as holds:
            assert client.lock(b).inspect().count == 2
            assert list(holds.holds) == [a, b]
        async with other.aio.lock(b):
            with pytest.raises(holdfast.LockTimeout):
                await mixed.hold(timeout=0)

    asyncio.run(run())
    assert free(client, names)

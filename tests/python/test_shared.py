"""Shared holds: readers and writers, semaphores, nesting of one owner, and the downgrade."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest
import redis

import holdfast
from conftest import Thread, elsewhere, queue, until

# ------------------------------------------------------- Readers and writers


def test_readers_enter_together_and_a_writer_alone(
    lock: holdfast.Lock, stranger: holdfast.Lock
) -> None:
    with lock.shared() as hold:
        with stranger.shared().hold(timeout=0) as other:
            assert other.fence > hold.fence
            seen = lock.inspect()
            assert seen.held
            assert seen.shared
            assert seen.count == 2
            assert seen.fence in (hold.fence, other.fence)
            assert not elsewhere(lambda: lock.acquire(blocking=False))
        assert not stranger.acquire(blocking=False)
    with lock:
        assert not lock.inspect().shared
        assert not stranger.shared().acquire(blocking=False)
    assert not lock.inspect().held


def test_an_inspect_lists_a_hundred_holders(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    holds = [lock.shared().hold(timeout=0) for _ in range(102)]
    assert lock.inspect().count == 102
    assert len(lock.inspect().holders) == 100
    assert len(lock.inspect(100).holders) == 2
    for hold in holds:
        hold.release()


def test_the_shared_lock_is_one_object(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    shared = lock.shared()
    assert lock.shared() is shared
    assert shared.shared() is shared
    assert shared.acquire(timeout=1)
    elsewhere(lock.shared().release)  # only the lock that acquired it may release it
    asynchronous = client.aio.lock(name)
    assert asynchronous.shared() is asynchronous.shared() is asynchronous.shared().shared()


def test_first_come_first_served_over_both_kinds(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    lock = client.lock(name, reentrant=False)
    served: list[str] = []
    together = threading.Barrier(2)

    def write(who: str) -> None:
        with lock:
            served.append(who)

    def read(who: str) -> None:
        with lock.shared():
            together.wait(20)  # both readers are inside at once
            served.append(who)

    first = lock.shared().hold()
    waiters: list[Thread] = []
    for work in (write, read, read, write):
        waiters.append(Thread(functools.partial(work, f"{work.__name__} {len(waiters)}")))
        until(lambda: raw.zcount(queue(name), 0, 2**53) == len(waiters))
    assert not lock.shared().acquire(blocking=False)  # a reader does not pass a writer
    assert [each.shared for each in lock.inspect().queue] == [False, True, True, False]
    first.release()
    for waiter in waiters:
        waiter.finish()
    assert served[0] == "write 0"
    assert served[3] == "write 3"
    assert sorted(served[1:3]) == ["read 1", "read 2"]


# -------------------------------------------------------------- Semaphores


def test_no_more_than_the_permits_are_inside(client: holdfast.Client, name: str) -> None:
    seats = client.lock(name, permits=3).shared()
    guard = threading.Lock()
    inside = most = 0
    all_in = threading.Event()

    def sit() -> None:
        nonlocal inside, most
        for _ in range(20):
            with seats:
                with guard:
                    inside += 1
                    most = max(most, inside)
                    if inside == 3:
                        all_in.set()
                all_in.wait(10)
                with guard:
                    inside -= 1

    for thread in [Thread(sit) for _ in range(8)]:
        thread.finish()
    assert most == 3
    assert not seats.inspect().held


def test_one_thread_takes_several_permits_if_it_does_not_nest(
    client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name, permits=2, reentrant=False).shared()
    assert lock.acquire()
    assert lock.acquire()
    assert not lock.acquire(blocking=False)
    lock.release()
    lock.release()


def test_weights_share_the_permits(
    client: holdfast.Client, stranger: holdfast.Lock, name: str
) -> None:
    pool = client.lock(name, permits=5, reentrant=False)
    with pool.shared(weight=3):
        seen = pool.inspect()
        assert [holder.weight for holder in seen.holders] == [3]
        assert not pool.shared(weight=3).acquire(blocking=False)
        with pool.shared(weight=2):
            assert sum(holder.weight for holder in pool.inspect().holders) == 5
            assert not pool.shared().acquire(blocking=False)
        with pool.shared().hold(timeout=0), pool.shared().hold(timeout=0):
            assert not pool.shared().acquire(blocking=False)
    assert pool.shared(weight=5).acquire(timeout=0)
    pool.shared(weight=5).release()
    assert not pool.inspect().held


def test_nobody_passes_a_heavy_acquire(client: holdfast.Client, name: str) -> None:
    pool = client.lock(name, permits=5, reentrant=False)
    order: list[str] = []

    def take(who: str, weight: int) -> None:
        with pool.shared(weight=weight):
            order.append(who)

    with pool.shared(weight=3):
        heavy = threading.Thread(target=take, args=("heavy", 4))
        heavy.start()
        until(lambda: len(pool.inspect().queue) == 1)
        assert [(waiter.weight, waiter.permits) for waiter in pool.inspect().queue] == [(4, 5)]
        assert not pool.shared().acquire(blocking=False)  # though two permits are free
        light = threading.Thread(target=take, args=("light", 2))
        light.start()
        until(lambda: len(pool.inspect().queue) == 2)
    heavy.join()
    light.join()
    assert order == ["heavy", "light"]


def test_what_nests_is_no_heavier(client: holdfast.Client, name: str) -> None:
    pool = client.lock(name, permits=5)
    with pool.shared(weight=2) as outer:
        with pytest.raises(holdfast.LockDeadlock, match="heavier"):
            pool.shared(weight=3).acquire(timeout=1)
        with pool.shared(weight=2) as inner:
            assert inner.fence == outer.fence
            assert [holder.weight for holder in pool.inspect().holders] == [4]
    with pool, pool.shared(weight=4):
        pass
    assert not pool.inspect().held


def test_a_task_takes_several_permits(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        pool = client.aio.lock(name, permits=5, reentrant=False)
        assert pool.shared(weight=3) is pool.shared(weight=3) is not pool.shared()
        async with pool.shared(weight=3), pool.shared(weight=2):
            assert not await pool.shared().acquire(timeout=0)
        assert not (await pool.inspect()).held

    asyncio.run(main())


@pytest.mark.parametrize("weight", [0, -1, 4, 1.5, "3"])
def test_wrong_weights_are_refused(client: holdfast.Client, name: str, weight: int) -> None:
    with pytest.raises((ValueError, TypeError), match="weight"):
        client.lock(name, permits=3).shared(weight=weight)
    with pytest.raises((ValueError, TypeError), match="weight"):
        client.lock(name, permits=3, weight=weight)


@pytest.mark.parametrize("permits", [-1, 10**10, 1.5, "3"])
def test_wrong_permits_are_refused(client: holdfast.Client, name: str, permits: int) -> None:
    with pytest.raises((ValueError, TypeError), match="permits"):
        client.lock(name, permits=permits)


# --------------------------------------------------------------- Head starts


def test_a_head_start_passes_who_came_within_it(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    order: list[str] = []

    def take(who: str, ahead: float) -> None:
        with client.lock(name, reentrant=False, owner=who, ahead=ahead):
            order.append(who)

    threads = []
    with lock:
        for who, ahead in ("first", 0.0), ("urgent", 5.0), ("third", 0.0), ("most", 60.0):
            threads.append(threading.Thread(target=take, args=(who, ahead)))
            threads[-1].start()
            until(lambda: len(lock.inspect().queue) == len(threads))
        seen = lock.inspect().queue
    for thread in threads:
        thread.join()
    assert order == ["most", "urgent", "first", "third"]
    assert [waiter.owner for waiter in seen] == order
    assert seen[0].waited >= 60 > seen[1].waited >= 5 > seen[2].waited


def test_a_head_start_is_bounded(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    order: list[str] = []

    def take(who: str, ahead: float) -> None:
        with client.lock(name, reentrant=False, ahead=ahead):
            order.append(who)

    with lock:
        first = threading.Thread(target=take, args=("first", 0))
        first.start()
        until(lambda: any(waiter.waited >= 0.2 for waiter in lock.inspect().queue))
        late = threading.Thread(target=take, args=("late", 0.1))
        late.start()
        until(lambda: len(lock.inspect().queue) == 2)
    first.join()
    late.join()
    assert order == ["first", "late"]


def test_a_reader_with_a_head_start_passes_a_writer(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    with lock.shared():
        writer = Thread(functools.partial(lock.acquire, timeout=50))
        until(lambda: len(lock.inspect().queue) == 1)
        assert not lock.shared().acquire(timeout=0.01)
        urgent = client.lock(name, holdfast.LockOptions(reentrant=False, ahead=60)).shared()
        assert not urgent.acquire(blocking=False)  # a try does not queue
        with urgent:
            assert lock.inspect().count == 2
            assert len(lock.inspect().queue) == 1
    assert writer.finish()
    lock.release()


def test_tasks_and_several_have_head_starts(client: holdfast.Client, name: str) -> None:
    async def main() -> list[str]:
        order: list[str] = []

        async def take(who: str, ahead: float) -> None:
            async with client.aio.locks_all(name, ahead=ahead, reentrant=False):
                order.append(who)

        async with client.aio.lock(name):
            tasks = []
            for who, ahead in ("first", 0.0), ("urgent", 5.0):
                tasks.append(asyncio.create_task(take(who, ahead)))
                while len((await client.aio.lock(name).inspect()).queue) < len(tasks):
                    await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main()) == ["urgent", "first"]


def test_a_head_start_takes_nothing_from_the_timeout(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    with lock:
        urgent = client.lock(name, reentrant=False, ahead=60)
        waiter = Thread(functools.partial(urgent.acquire, timeout=50))
        until(lambda: len(lock.inspect().queue) == 1)
        assert lock.inspect().queue[0].timeout == 110
    assert waiter.finish()
    urgent.release()


@pytest.mark.parametrize("ahead", [-1, 3601, "5", float("nan"), True])
def test_wrong_head_starts_are_refused(client: holdfast.Client, name: str, ahead: float) -> None:
    with pytest.raises((ValueError, TypeError), match="ahead"):
        client.lock(name, ahead=ahead)


# ----------------------------------------------------------------- One owner


@pytest.mark.parametrize("timeout", [0, 20, None])
def test_an_upgrade_is_refused_at_once(
    client: holdfast.Client, lock: holdfast.Lock, timeout: float | None
) -> None:
    with lock.shared() as hold:
        with pytest.raises(holdfast.LockDeadlock, match="release the shared hold first"):
            lock.hold(timeout=timeout)
        with pytest.raises(holdfast.LockDeadlock) as caught:
            lock.acquire(blocking=timeout != 0)
        assert isinstance(caught.value, RuntimeError)
        hold.check()
    assert client.stats().refused["deadlock"] == 2
    with lock:
        pass


def test_a_shared_hold_is_handed_over_and_adopted(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, reentrant=False)
    token = lock.shared().hold().hand_over()
    with pytest.raises(ValueError, match="the token of a shared hold"):
        lock.adopt(token)
    with lock.shared():
        adopted = lock.shared().adopt(token)
        adopted.renew()
        assert lock.inspect().count == 2
        adopted.release()
        assert lock.inspect().count == 1


def test_what_locks_and_holds_show(client: holdfast.Client, name: str) -> None:
    assert "shared" not in repr(client.lock(name))
    assert "<unlocked shared holdfast.Lock object" in repr(client.lock(name).shared())
    assert "<shared(3) holdfast.AsyncLock" in repr(client.aio.lock(name, permits=3).shared())
    with client.lock(name, permits=3).shared() as hold:
        assert "<held shared(3) holdfast.Hold object" in repr(hold)


# ------------------------------------------------------------------ Functions


def test_a_function_runs_so_often_at_once(client: holdfast.Client, name: str) -> None:
    together = threading.Barrier(3)

    @client.locked(name, permits=3)
    def work() -> int:
        together.wait(20)
        return client.lock(name).inspect().count

    results = [thread.finish() for thread in [Thread(work) for _ in range(3)]]
    assert 3 in results

    @client.locked(name, permits=3, weight=2)
    def heavy() -> int:
        return client.lock(name).inspect().holders[0].weight

    assert heavy() == 2

    @client.locked(name, permits=3, shared=False)
    def alone() -> bool:
        return client.lock(name).inspect().shared

    assert alone() is False

    @client.locked(name, shared=True)
    async def reads() -> bool:
        return (await client.aio.lock(name).inspect()).shared

    assert asyncio.run(reads()) is True


# --------------------------------------------------------------------- asyncio


def test_tasks_share_it(client: holdfast.Client, name: str) -> None:
    async def main() -> int:
        lock = client.aio.lock(name, permits=3)
        inside = most = 0
        full = asyncio.Event()

        async def sit() -> None:
            nonlocal inside, most
            async with lock.shared() as hold:
                async with lock.shared() as nested:
                    assert nested.fence == hold.fence
                inside += 1
                most = max(most, inside)
                if inside == 3:
                    full.set()
                await asyncio.wait_for(full.wait(), 20)
                inside -= 1

        await asyncio.gather(*(sit() for _ in range(12)))
        async with lock:
            assert (await lock.inspect()).shared is False
        return most

    assert asyncio.run(main()) == 3


def test_a_task_goes_down_and_not_up(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        lock = client.aio.lock(name)
        await lock.acquire()
        await lock.shared().acquire()
        await lock.release()
        assert (lock.count(), lock.shared().count()) == (0, 1)
        for timeout in (0, 20):
            with pytest.raises(holdfast.LockDeadlock):
                await lock.acquire(timeout=timeout)
        waiter = asyncio.create_task(client.aio.lock(name).acquire(timeout=20))
        while not (await lock.inspect()).queue:
            await asyncio.sleep(0.01)
        assert not waiter.done()
        await lock.shared().release()
        assert await waiter

    asyncio.run(main())


def test_a_cancelled_shared_wait_leaves_nothing_behind(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, reentrant=False)
        async with lock:
            waiter = asyncio.create_task(lock.shared().acquire())
            while not (await lock.inspect()).queue:
                await asyncio.sleep(0.01)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            assert not (await lock.inspect()).queue
        assert not await lock.locked()

    asyncio.run(main())


def test_the_loss_of_a_shared_hold_is_told(client: holdfast.Client, name: str) -> None:
    lost: list[holdfast.Hold] = []
    lock = client.lock(name, lease=0.05, renew=False, raise_on_lost=False, on_lost=lost.append)
    with lock.shared() as hold:
        until(lambda: lost)
        assert lost == [hold]


def test_a_stored_limit_refuses_another_number(client: holdfast.Client, name: str) -> None:
    assert client.limit(name, permits=2) is None
    with pytest.raises(holdfast.LimitDiffers, match=r"has 2 permits, and this acquire gives 9"):
        client.lock(name, owner="other", permits=9).shared().acquire()
    none = client.lock(name, reentrant=False).shared()
    with none, none:
        assert not client.lock(name, owner="other", permits=2).shared().acquire(timeout=0)
        assert client.lock(name).inspect().limit == 2
        assert client.limit(name, permits=3) == 2
        with client.lock(name, owner="other").shared():
            assert not none.acquire(timeout=0)
    with pytest.raises(holdfast.LimitDiffers, match="takes 4"):
        client.lock(name).shared(weight=4).acquire()
    assert [info.limit for info in client.locks(name)] == [3]
    assert client.limit(name, permits=0) == 3


def test_a_gate_has_the_stored_rate(client: holdfast.Client, name: str) -> None:
    client.limit(name, rate=(1, 60))
    assert client.lock(name).inspect().limit == (1, 60)
    with pytest.raises(holdfast.LimitDiffers, match=r"lets pass 1 in 60000 ms"):
        client.gate(name, limit=9, per=60).enter()
    client.gate(name, limit=1, per=60).enter()
    with pytest.raises(holdfast.GateFull):
        client.gate(name, limit=1, per=60).enter()
    for wrong in ({}, {"permits": 1, "rate": (1, 60)}, {"permits": -1}, {"rate": (0, 60)}):
        with pytest.raises(ValueError, match=r"permits|rate"):
            client.limit(name, **wrong)


@pytest.mark.parametrize("rate", [5, (1,), (1, 2, 3), "ab", [1, 2]])
def test_a_rate_is_a_pair(client: holdfast.Client, name: str, rate: Any) -> None:
    with pytest.raises(TypeError, match=r"rate must be \(passes, seconds\), not .*: \(10, 60\)"):
        client.limit(name, rate=rate)


@pytest.mark.parametrize("permits", ["", [], 0.0])
def test_permits_that_are_no_number_take_no_limit_away(
    client: holdfast.Client, name: str, permits: Any
) -> None:
    client.limit(name, permits=2)
    with pytest.raises(TypeError, match="permits must be a whole number"):
        client.limit(name, permits=permits)
    with pytest.raises(TypeError, match="permits must be a whole number"):
        client.lock(name, permits=permits)
    assert client.limit(name, permits=0) == 2


def test_who_waits_follows_a_change_of_the_limit(client: holdfast.Client, name: str) -> None:
    async def follow() -> None:
        await client.aio.limit(name, permits=1)
        async with client.aio.lock(name, reentrant=False).shared():
            lock = client.aio.lock(name, reentrant=False).shared()
            waits = asyncio.ensure_future(lock.acquire(timeout=60))
            said = client.aio.lock(name, permits=1, reentrant=False).shared()
            refused = asyncio.ensure_future(said.acquire(timeout=60))
            while (await lock.inspect()).waiters < 2:
                await asyncio.sleep(0.01)
            assert await client.aio.limit(name, permits=2) == 1
            await waits
            with pytest.raises(holdfast.LimitDiffers):
                await refused
            await lock.release()

    asyncio.run(follow())

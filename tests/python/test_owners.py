"""The owner of a hold: docs/guarantees.md."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import queue
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

import holdfast
from conftest import Thread, elsewhere, held, until

Enter = Callable[[holdfast.Client, str], object]


def entered(made: Any) -> None:
    with made:
        pass


# Each blocking way to acquire.
BLOCKING: dict[str, Enter] = {
    "with": lambda client, name: entered(client.lock(name)),
    "acquire": lambda client, name: client.lock(name).acquire(),
    "try": lambda client, name: client.lock(name).acquire(blocking=False),
    "hold": lambda client, name: client.lock(name).hold(timeout=2).release(),
    "not reentrant": lambda client, name: client.lock(name, reentrant=False).acquire(),
    "owner": lambda client, name: client.lock(name, owner="one").acquire(),
    "shared": lambda client, name: entered(client.lock(name).shared()),
    "permits": lambda client, name: client.lock(name, permits=1).shared().hold().release(),
    "several": lambda client, name: entered(client.locks_all(name, name + "2")),
    "gate": lambda client, name: client.gate(name, 1, 60).enter(),
    "once": lambda client, name: client.once(name, lambda: 1, ttl=10),
    "locked": lambda client, name: client.locked(name)(lambda: 1)(),
    "once_per": lambda client, name: client.once_per(name, 60)(lambda: 1)(),
    "once_call": lambda client, name: client.once_call(name, ttl=60)(lambda: 1)(),
}


@pytest.mark.parametrize("way", BLOCKING)
def test_a_blocking_acquire_in_an_event_loop_is_refused(
    client: holdfast.Client, name: str, way: str
) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"async with client.aio.lock\(name\)") as refused:
            BLOCKING[way](client, name)
        assert "asyncio.to_thread" in str(refused.value)
        assert name in str(refused.value)
        assert not client.lock(name).locked()
        await asyncio.to_thread(BLOCKING[way], client, name)  # except for "acquire": its job ends

    if way in ("acquire", "try"):
        client.lock(name).acquire()  # also for an owner that already holds the lock
        with pytest.raises(RuntimeError, match="event loop"):
            asyncio.run(asyncio.wait_for(_task(lambda: BLOCKING[way](client, name)), 5))
        client.lock(name).release()
    else:
        asyncio.run(main())


async def _task(work: Callable[[], object]) -> None:
    work()


def test_trio_is_an_event_loop_too(client: holdfast.Client, name: str) -> None:
    trio = pytest.importorskip("trio")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="trio.to_thread.run_sync"), client.lock(name):
            pass
        await trio.to_thread.run_sync(entered, client.lock(name))

        def forgets() -> None:
            client.lock(name).acquire()

        await trio.to_thread.run_sync(forgets)
        again = client.lock(name)
        assert await trio.to_thread.run_sync(lambda: again.acquire(blocking=False)) is False

    trio.run(main)
    with client.lock(name + "2"):  # and no job runs any more
        pass


def test_what_a_thread_holds_can_be_released_in_an_event_loop(
    client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name)
    lock.acquire()

    async def main() -> None:
        assert lock.owned()
        lock.release()

    asyncio.run(main())
    assert not lock.locked()


def test_a_leader_in_a_thread_can_be_started_in_an_event_loop(
    client: holdfast.Client, name: str
) -> None:
    leading: list[int] = []

    async def main() -> None:
        with client.leader(name, elected=leading.append):
            while not leading:
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(main(), 30))


# ----------------------------------------------------------------- Thread pools


def in_executor(*jobs: Callable[[], object]) -> list[object]:
    """Run jobs one after the other on the one thread of a pool; return what each returned or
    raised."""
    with ThreadPoolExecutor(1) as pool:
        ends = [pool.submit(job) for job in jobs]
        return [end.exception() or end.result() for end in ends]


def in_asyncio(*jobs: Callable[[], object]) -> list[object]:
    async def main() -> list[object]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        return [await outcome(asyncio.to_thread(job)) for job in jobs]

    return asyncio.run(main())


def in_anyio(*jobs: Callable[[], object]) -> list[object]:
    async def main() -> list[object]:
        one = anyio.CapacityLimiter(1)
        return [await outcome(anyio.to_thread.run_sync(job, limiter=one)) for job in jobs]

    return anyio.run(main)


async def outcome(job: Awaitable[object]) -> object:
    try:
        return await job
    except Exception as error:
        return error


def test_jobs_of_trio_that_run_one_function_exclude_each_other(
    client: holdfast.Client, name: str
) -> None:
    trio = pytest.importorskip("trio")
    lock = client.lock(name)
    told: queue.SimpleQueue[bool] = queue.SimpleQueue()
    ends: queue.SimpleQueue[Any] = queue.SimpleQueue()
    done = threading.Event()

    def work() -> None:
        entered = lock.acquire(blocking=False)
        told.put(entered)
        done.wait(20)
        if entered:
            lock.release()

    for first in (True, False):
        trio.lowlevel.start_thread_soon(work, ends.put)
        assert told.get(timeout=20) is first
    done.set()
    for _ in range(2):
        ends.get(timeout=20).unwrap()


# Python 3.14 runs the jobs of a thread in this way.
NEWER = """
class WorkerContext:
    def run(self, task):
        return task()

class _WorkItem:
    def __init__(self, task):
        self.task = task

    def run(self, context):
        return context.run(self.task)
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a function does not know its class")
def test_a_job_is_an_owner_in_a_newer_python_too(client: holdfast.Client, name: str) -> None:
    newer: dict[str, Any] = {"__name__": "concurrent.futures.thread"}
    exec(NEWER, newer)
    lock = client.lock(name)

    def forgets() -> bool:
        return lock.acquire(blocking=False)

    def jobs() -> list[bool]:
        context = newer["WorkerContext"]()
        items = [newer["_WorkItem"](forgets) for _ in range(2)]
        return [item.run(context) for item in items]

    assert elsewhere(jobs) == [True, False]
    lock.release(owner=lock.inspect().owner)


POOLS = pytest.mark.parametrize("pool", [in_executor, in_asyncio, in_anyio])


@POOLS
def test_a_job_does_not_inherit_what_the_one_before_it_forgot(
    client: holdfast.Client, name: str, pool: Callable[..., list[object]], caplog: Any
) -> None:
    lock = client.lock(name)

    def forgets() -> None:
        assert lock.acquire()
        assert lock.acquire()  # nested in the same job
        assert lock.count() == 2
        lock.release()
        raise KeyError

    def comes() -> tuple[bool, int, str]:
        return lock.acquire(timeout=0.01), lock.count(), repr(lock)

    with caplog.at_level(logging.WARNING, "holdfast"):
        failed, came = pool(forgets, comes)
        assert isinstance(failed, KeyError)
        del failed  # its frames refer to the job
        until(lambda: gc.collect() >= 0 and "ended while it held" in caplog.text)
    assert came[:2] == (False, 0)  # type: ignore[index]
    assert f"ended while it held lock {name!r}" in caplog.text
    owner = lock.inspect().owner
    assert f"release(owner={owner!r})" in caplog.text
    lock.release(owner=owner)
    assert not lock.locked()


@POOLS
def test_a_block_that_another_job_leaves_is_that_of_its_own_generator(
    client: holdfast.Client, name: str, pool: Callable[..., list[object]]
) -> None:
    seats = client.lock(name, permits=2).shared()

    @contextmanager
    def seat() -> Iterator[holdfast.Hold]:
        with seats as hold:
            yield hold

    one, other = seat(), seat()
    first, second = pool(one.__enter__, other.__enter__)
    assert isinstance(first, holdfast.Hold)
    assert isinstance(second, holdfast.Hold)
    assert pool(lambda: other.__exit__(None, None, None)) == [False]
    assert (first.valid, second.valid) == (True, False)
    assert pool(lambda: one.__exit__(None, None, None)) == [False]
    assert not seats.locked()


@POOLS
def test_an_acquire_that_is_a_whole_job_is_refused(
    client: holdfast.Client, name: str, pool: Callable[..., list[object]]
) -> None:
    several = client.locks_all(name, name + "2")
    for acquire in (client.lock(name).acquire, several.acquire):
        (refused,) = pool(acquire)
        assert isinstance(refused, RuntimeError), refused
        assert "hold()" in str(refused)
    assert not client.lock(name).locked()
    free = client.lock(name, reentrant=False)
    assert pool(free.acquire, free.release) == [True, None]
    named = client.lock(name, owner="me")
    assert pool(named.acquire, named.release) == [True, None]


@POOLS
def test_jobs_of_one_thread_exclude_each_other(
    client: holdfast.Client, name: str, pool: Callable[..., list[object]]
) -> None:
    lock = client.lock(name)
    hold, refused = pool(lock.hold, lambda: lock.hold(timeout=0.01))
    assert isinstance(refused, holdfast.LockTimeout)
    assert isinstance(hold, holdfast.Hold)
    hold.release()


@POOLS
def test_a_block_may_be_left_by_another_job_than_entered_it(
    client: holdfast.Client, name: str, pool: Callable[..., list[object]]
) -> None:
    lock, both = client.lock(name), client.locks_all(name, name + "2")

    @contextmanager
    def dependency(made: Any) -> Iterator[None]:
        with made:
            yield

    for made in (lock, lock.shared(), both):
        block = dependency(made)
        leave = functools.partial(block.__exit__, None, None, None)
        ends = pool(block.__enter__, lock.locked, lock.owned, leave, lock.locked)
        assert ends == [None, True, False, False, False]
        assert not lock.locked()
        with pytest.raises(holdfast.LockNotOwnedError):
            made.release()


def test_a_job_may_not_leave_the_block_of_one_that_runs(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name)

    def inside() -> None:
        with lock:
            stranger = ExitStack()
            stranger.push(lock)
            with pytest.raises(holdfast.LockNotOwnedError):
                elsewhere(stranger.close)
            assert lock.owned()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(inside).result()
    assert not lock.locked()


def test_a_thread_leaves_its_own_block_beside_that_of_a_job_that_has_ended(
    client: holdfast.Client, name: str
) -> None:
    seats, both = (
        client.lock(name, permits=3).shared(),
        client.locks_all(
            client.lock(name + "2", permits=3).shared(), client.lock(name + "3", permits=3).shared()
        ),
    )

    @contextmanager
    def dependency(made: Any) -> Iterator[None]:
        with made:
            yield

    for made in (seats, both):
        block = dependency(made)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(block.__enter__).result()
            with made, made:
                assert made.count() == 2
            assert made.count() == 0
            pool.submit(block.__exit__, None, None, None).result()
        assert not made._inside._blocks
    assert not seats.locked()


def lose(client: holdfast.Client, hold: Any) -> None:
    """Break the hold, or the only one of several, and let its client notice it."""
    (hold,) = getattr(hold, "holds", {"": hold}).values()
    client.lock(hold._lock.name).force_release(hold.fence)
    with pytest.raises(holdfast.LockLost):
        hold._lock._core.hf_hold_check(hold._handle)


@pytest.mark.parametrize("several", [False, True])
def test_a_block_of_a_thread_releases_the_hold_that_it_entered(
    client: holdfast.Client, name: str, several: bool
) -> None:
    made: Any = (client.locks_all if several else client.lock)(name, reentrant=False)
    entered, leave = threading.Event(), threading.Event()

    def second() -> None:
        with made:
            entered.set()
            assert leave.wait(20)

    with pytest.raises(holdfast.LockLost), made as hold:
        lose(client, hold)
        beside = Thread(second)
        assert entered.wait(20)
    assert client.lock(name).locked()
    leave.set()
    beside.finish()
    assert not made._inside._blocks


def test_a_task_releases_its_own_hold_before_that_of_another(
    client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, reentrant=False)
        assert await lock.acquire()
        (holder,) = (await lock.inspect()).holders
        await lock.force_release(holder.fence)
        assert await asyncio.create_task(lock.acquire(timeout=10))
        with pytest.raises(holdfast.LockLost):
            await lock.release()
        assert await lock.locked()
        await lock.release()  # the task holds nothing any more
        assert not await lock.locked()

    asyncio.run(main())


def test_a_task_releases_its_own_holds_of_several_locks_before_those_of_another(
    client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        both = client.aio.locks_all(name, name + "2", reentrant=False)
        assert await both.acquire()
        for lock in both._locks:
            (holder,) = (await lock.inspect()).holders
            await lock.force_release(holder.fence)
        assert await asyncio.create_task(both.acquire(timeout=10))
        with pytest.raises(holdfast.LockLost):
            await both.release()
        assert all([await lock.locked() for lock in both._locks])
        await both.release()  # the task holds nothing any more
        assert not any([await lock.locked() for lock in both._locks])

    asyncio.run(main())


@pytest.mark.parametrize("block", [False, True])
def test_a_task_extends_and_releases_its_own_hold_beside_that_of_another(
    client: holdfast.Client, name: str, block: bool
) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, permits=2, reentrant=False, renew=False, lease=20)
        seats = lock.shared()
        mine = await seats.__aenter__() if block else None
        assert block or await seats.acquire()
        (first,) = (await seats.inspect()).holders
        assert await asyncio.create_task(seats.acquire())
        await seats.extend(60)
        ends = {each.fence: each.remaining or 0 for each in (await seats.inspect()).holders}
        assert [fence for fence, left in ends.items() if left > 30] == [first.fence]
        await seats.reacquire()
        assert not any((each.remaining or 0) > 30 for each in (await seats.inspect()).holders)
        await seats.release()
        assert first.fence not in [each.fence for each in (await seats.inspect()).holders]
        await seats.release()
        if mine is not None:
            with pytest.raises(holdfast.LockNotOwnedError):
                await seats.__aexit__(None, None, None)

    asyncio.run(main())


@pytest.mark.parametrize("end", [lambda hold: hold.keep(60), lambda hold: hold.hand_over()])
def test_a_block_whose_hold_was_kept_or_handed_over_releases_no_other(
    client: holdfast.Client, name: str, end: Callable[[holdfast.Hold], object]
) -> None:
    seats = client.lock(name, permits=2, reentrant=False).shared()
    with seats as outer:
        with seats as hold:
            end(hold)
        outer.check()


def test_a_block_whose_holds_were_kept_releases_no_other(
    client: holdfast.Client, name: str
) -> None:
    seats = client.lock(name, permits=2, reentrant=False).shared()
    with seats as outer:
        with client.locks_all(seats) as holds:
            holds.keep(60)
        outer.check()


def test_a_block_of_a_task_whose_hold_was_kept_releases_no_other(
    client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        seats = client.aio.lock(name, permits=4, reentrant=False).shared()
        async with seats as outer:
            async with seats as hold:
                await hold.keep(60)
            async with client.aio.locks_all(seats) as holds:
                await holds.keep(60)
            await outer.check()

    asyncio.run(main())


@pytest.mark.parametrize("several", [False, True])
def test_a_block_of_a_task_releases_the_hold_that_it_entered(
    client: holdfast.Client, name: str, several: bool
) -> None:
    make = client.aio.locks_all if several else client.aio.lock
    made: Any = make(name, reentrant=False)
    entered: list[Any] = []

    async def work(leave: asyncio.Event) -> None:
        async with made as hold:
            entered.append(hold)
            await leave.wait()

    async def begin(number: int) -> tuple[asyncio.Task[None], asyncio.Event]:
        leave = asyncio.Event()
        task = asyncio.create_task(work(leave))
        while len(entered) < number:
            await asyncio.sleep(0.001)
        return task, leave

    async def main() -> None:
        first, first_may = await begin(1)
        lose(client, entered[0])
        second, second_may = await begin(2)
        first_may.set()
        with pytest.raises(holdfast.LockLost):
            await first
        assert entered[1].valid
        second_may.set()
        await second
        assert entered[1].state == "released"

    asyncio.run(main())
    assert not made._inside._blocks


def test_a_block_in_which_a_condition_waited_releases_the_hold_after_the_wait(
    client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name, reentrant=False)
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    for enter in (condition, lock):
        with enter:
            condition.wait(0.01)
            assert lock.locked()
        assert not lock.locked()
    assert not lock._inside._blocks


def test_what_an_exit_stack_entered_another_thread_may_leave(
    client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name, reentrant=False)
    stack = ExitStack()
    elsewhere(lambda: stack.enter_context(lock))
    stack.close()
    assert not lock.locked()
    assert not lock._inside._blocks


def test_nested_blocks_of_a_job_are_left_in_their_order(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name)

    def job() -> list[int]:
        counts = []
        with lock, lock:
            counts.append(lock.count())
            with lock:
                counts.append(lock.count())
            counts.append(lock.count())
        return [*counts, lock.count(), len(lock._inside._blocks)]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(job).result() == [2, 3, 2, 0, 0]
    assert not lock.locked()


def test_threads_tasks_and_jobs_are_different_owners(client: holdfast.Client, name: str) -> None:
    async def main() -> list[bool]:
        async with client.aio.lock(name):
            lock = client.lock(name)
            return [
                await asyncio.to_thread(lambda: lock.acquire(blocking=False)),
                elsewhere(lambda: lock.acquire(blocking=False)) is True,
                await asyncio.create_task(client.aio.lock(name).acquire(blocking=False)),
            ]

    assert asyncio.run(main()) == [False, False, False]
    hold = held(client.lock(name))
    assert not client.lock(name).acquire(blocking=False)
    hold.release()

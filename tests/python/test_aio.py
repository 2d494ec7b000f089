"""asyncio: the same behaviours, for tasks."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import itertools
import random
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import redis
import uvloop

import holdfast
from conftest import Server, Thread, elsewhere, held, queue, until
from holdfast import _holdfast, _notices

Work = Callable[[], Coroutine[Any, Any, object]]


Run = Callable[[Coroutine[Any, Any, object]], object]


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    """Run the test in a new event loop."""
    make = getattr(request, "param", asyncio.new_event_loop)

    def run(main: Coroutine[Any, Any, object]) -> object:
        loop = make()
        try:
            return loop.run_until_complete(asyncio.wait_for(main, 50))
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    return run


# Each kind of loop, in which tasks wait, and are cancelled or ended.
either_loop = pytest.mark.parametrize(
    "run", [asyncio.new_event_loop, uvloop.new_event_loop], indirect=True, ids=["asyncio", "uvloop"]
)


@pytest.fixture
def lock(client: holdfast.Client, name: str) -> holdfast.AsyncLock:
    return client.aio.lock(name)


async def come(true: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end, "waited too long"
        await asyncio.sleep(0.002)


def task(work: Awaitable[object]) -> asyncio.Task[object]:
    return asyncio.ensure_future(work)


def waiters(raw: redis.Redis, name: str) -> int:
    return int(raw.zcount(queue(name), 0, 2**53))


# ------------------------------------------------------------- Like the others


def test_a_free_lock_is_acquired_and_released(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        async with lock as hold:
            assert raw.exists(name)
            assert hold.valid
            assert hold.fence > 0
            assert lock.owned()
            assert await lock.locked()
            await hold.check()
            await hold.renew()
            await hold.extend(60)
            await lock.extend(60)
            assert hold.remaining is not None
            assert hold.remaining > 120
            await lock.reacquire()
            assert hold.remaining <= 10
            async with lock as nested:
                assert nested.fence == hold.fence
                assert lock.count() == 2
                assert (await lock.inspect()).count == 2
        assert not raw.exists(name)
        assert not lock.owned()
        assert hold.state == "released"
        assert await lock.acquire() is True
        await lock.release()
        with pytest.raises(holdfast.LockNotOwnedError):
            await lock.release()
        with pytest.raises(holdfast.LockNotOwnedError):
            await hold.release()

    run(main())


def test_a_kept_hold_refuses_everybody(run: Run, lock: holdfast.AsyncLock) -> None:
    async def main() -> None:
        async with lock.hold() as hold:
            await hold.keep(60)
        assert hold.state == "released"
        assert await lock.acquire(blocking=False) is False
        with pytest.raises(holdfast.LockNotOwnedError):
            await hold.keep(60)
        await lock.force_release(hold.fence)
        async with lock.hold() as hold:
            await hold.keep(0)
        hold = await lock.hold(timeout=0)
        await lock.force_release(hold.fence)
        with pytest.raises(holdfast.LockLost):
            await hold.keep(60)

    run(main())


def test_a_release_keeps_the_lock_for_at_least(
    run: Run, client: holdfast.Client, lock: holdfast.AsyncLock, name: str
) -> None:
    async def refuses(hold: holdfast.AsyncHold) -> None:
        assert hold.state == "released"
        with pytest.raises(holdfast.LockNotOwnedError):
            await hold.release()
        remaining = (await lock.inspect()).remaining
        assert remaining is not None
        assert 30 < remaining <= 60
        assert await lock.acquire(blocking=False) is False
        await lock.force_release(hold.fence)

    async def main() -> None:
        with pytest.raises(ValueError, match="at_least must be from 0"):
            lock.hold(at_least=-1)
        async with lock.hold(at_least=60) as hold:
            pass
        await refuses(hold)
        with pytest.raises(KeyError):
            async with lock.hold(at_least=60) as hold:
                raise KeyError
        await refuses(hold)
        hold = await lock.hold(at_least=60)
        await hold.release()
        await refuses(hold)
        async with client.aio.locks_all(name, name + "2").hold(at_least=60) as holds:
            pass
        assert await client.aio.lock(name + "2").locked()
        await refuses(holds.holds[name])
        async with lock.hold(at_least=0.05):
            await asyncio.sleep(0.06)
        assert not await lock.locked()
        with pytest.raises(holdfast.LockLost):
            async with lock.hold(at_least=60) as hold:
                await lock.force_release(hold.fence)
        assert not await lock.locked()

    run(main())


def test_a_renewal_neither_blocks_the_loop_nor_takes_a_thread(
    run: Run, lock: holdfast.AsyncLock, raw: redis.Redis
) -> None:
    async def main() -> None:
        async with lock as hold:
            threads = threading.active_count()
            raw.client_pause(50_000, all=False)  # scripts, but not CLIENT UNPAUSE
            try:
                renewals = [task(work) for _ in range(20) for work in (hold.renew(), hold.check())]
                renewals.append(task(hold.extend(30, replace=True)))
                for _ in range(100):
                    await asyncio.sleep(0)  # other tasks run meanwhile
                assert not any(renewal.done() for renewal in renewals)
                assert threading.active_count() <= threads
                renewals[0].cancel()
            finally:
                raw.client_unpause()
            for renewal in renewals[1:]:
                await renewal

    run(main())


def test_a_renewal_says_what_became_of_the_hold(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        hold = await lock.hold()
        raw.delete(name)
        with pytest.raises(holdfast.LockLost, match="no longer knows it"):
            await hold.check()
        with pytest.raises(holdfast.LockLost):
            await hold.renew()
        with pytest.raises(holdfast.LockLost):
            await hold.release()
        hold = await lock.hold()
        await hold.release()
        with pytest.raises(holdfast.LockNotOwnedError):
            await hold.extend(30)
        with pytest.raises(holdfast.LockNotOwnedError):
            await lock.extend(30)
        with pytest.raises(ValueError, match="0.01"):
            await hold.extend(0)

    run(main())


def test_a_try_answers_at_once(
    run: Run, lock: holdfast.AsyncLock, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        assert await lock.acquire(blocking=False) is True  # the first acquire of this client
        stranger = client.aio.lock(name, owner="stranger")
        assert await stranger.acquire(blocking=False) is False
        assert await stranger.acquire(timeout=0) is False
        with pytest.raises(holdfast.LockTimeout):
            await stranger.hold(timeout=0)
        with pytest.raises(holdfast.LockTimeout):
            await stranger.hold(timeout=0.05)
        await lock.release()
        assert await stranger.acquire(False) is True
        await stranger.release()

    run(main())


def test_an_acquire_times_out_in_its_time_and_leaves_nothing_behind(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis, client: holdfast.Client
) -> None:
    async def main() -> None:
        with held(client.lock(name, owner="stranger")):
            began = time.monotonic()
            assert await lock.acquire(timeout=0.1) is False
            assert 0.1 <= time.monotonic() - began < 5
            with pytest.raises(TimeoutError):
                async with lock.hold(timeout=0.01):
                    pass
            assert waiters(raw, name) == 0
        assert not raw.exists(name)

    run(main())


def test_every_task_is_an_owner(run: Run, lock: holdfast.AsyncLock) -> None:
    async def main() -> None:
        async def another() -> None:
            assert await lock.acquire(blocking=False) is False
            assert not lock.owned()
            with pytest.raises(holdfast.LockNotOwnedError):
                await lock.release()

        async with lock, lock:
            await task(another())
            async with lock:
                pass

    run(main())


def test_a_thread_is_another_owner_than_its_tasks(
    run: Run, lock: holdfast.AsyncLock, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        async with lock:
            assert elsewhere(lambda: client.lock(name).acquire(blocking=False)) is False
        with held(client.lock(name)):
            assert await lock.acquire(blocking=False) is False

    run(main())


def test_what_an_ended_task_holds_any_task_may_release(
    run: Run, lock: holdfast.AsyncLock, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        assert await task(lock.acquire()) is True
        assert await lock.locked()
        with pytest.raises(holdfast.LockNotOwnedError):
            await client.aio.lock(name).release()
        await lock.release()
        assert not await lock.locked()
        assert await asyncio.wait_for(lock.acquire(), 5) is True
        await lock.release()
        assert not lock._tasks

    run(main())


def test_what_tasks_released_through_another_lock_is_forgotten(
    run: Run, lock: holdfast.AsyncLock, client: holdfast.Client, name: str
) -> None:
    async def work() -> None:
        await lock.acquire()
        await other.release()

    async def main() -> None:
        for _ in range(sys.getrecursionlimit()):
            await task(work())
        (refused,) = await asyncio.gather(lock.release(), return_exceptions=True)
        assert type(refused) is holdfast.LockNotOwnedError
        assert not lock._tasks

    other = client.aio.lock(name)
    run(main())


@either_loop
def test_a_generator_that_is_dropped_leaves_its_block(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def numbers(made: Any) -> AsyncGenerator[int, None]:
        async with made as hold:
            holds.append(hold)
            for number in itertools.count():
                yield number

    async def main() -> None:
        seats = client.aio.lock(name, permits=3).shared()
        both = client.aio.locks_all(
            client.aio.lock(name + "2", permits=3).shared(),
            client.aio.lock(name + "3", permits=3).shared(),
        )
        for made in (client.aio.lock(name), seats, both):
            async for _ in numbers(made):
                break  # asyncio closes it in another task, while this task goes on
            await come(lambda: not holds[-1].valid)
            assert made.count() == 0
            assert not made._inside._blocks
        one, other = numbers(seats), numbers(seats)
        assert (await task(anext(one)), await task(anext(other))) == (0, 0)
        await task(one.aclose())
        assert [hold.valid for hold in holds[-2:]] == [False, True]
        await other.aclose()
        assert not holds[-1].valid

    holds: list[Any] = []
    run(main())


def test_without_reentrance_every_acquire_is_for_itself(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, reentrant=False)
        assert await lock.acquire() is True
        assert await lock.acquire(timeout=0.05) is False
        await task(lock.release())  # any task may release it, as with asyncio.Lock
        async with lock:
            assert await lock.acquire(blocking=False) is False

    run(main())


def test_a_block_whose_hold_was_released_releases_no_hold_of_another_task(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, reentrant=False)
        async with lock as first:
            await first.release()
            await task(lock.acquire())
        assert await lock.locked()
        await lock.release()

    run(main())


def test_a_block_whose_hold_was_released_releases_no_outer_hold(
    run: Run, lock: holdfast.AsyncLock
) -> None:
    async def main() -> None:
        async with lock as outer:
            async with lock as inner:
                await inner.release(wait=False)
            assert outer.valid
            assert lock.count() == 1
        assert not await lock.locked()

    run(main())


def test_an_explicit_owner_is_one_owner_everywhere(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        lock = client.aio.lock(name, owner="one")
        async with lock:
            assert elsewhere(lambda: client.lock(name).acquire(False, owner="one")) is True
            client.lock(name).release(owner="one")
            assert await task(lock.acquire(blocking=False)) is True
            await lock.release()
            assert await client.aio.lock(name).acquire(owner=b"one") is True
            await lock.release(owner="one")

    run(main())


def test_wrong_arguments_are_refused_as_by_rlock(run: Run, lock: holdfast.AsyncLock) -> None:
    async def main() -> None:
        for arguments in ((True, -2), (False, 1)):
            with pytest.raises(ValueError, match="timeout"):
                await lock.acquire(*arguments)
        with pytest.raises(OverflowError):
            await lock.acquire(timeout=1e300)
        with pytest.raises(ValueError, match="owner"):
            await lock.acquire(owner="")

    run(main())


# --------------------------------------------------------------------- Waiting


@either_loop
def test_hundreds_of_tasks_wait_on_one_thread_and_come_in_order(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    count = 300
    served: list[int] = []
    fences: list[int] = []

    async def main() -> None:
        threads = threading.active_count()

        async def work(number: int) -> None:
            async with lock as hold:
                served.append(number)
                fences.append(hold.fence)

        async with lock:
            tasks = []
            for number in range(count):
                tasks.append(task(work(number)))
                await asyncio.sleep(0)
            await come(lambda: waiters(raw, name) == count)
            assert threading.active_count() <= threads
        await asyncio.gather(*tasks)

    run(main())
    assert served == list(range(count))
    assert fences == sorted(set(fences))


def test_a_wait_in_a_thread_and_one_in_a_task_do_not_hold_up_each_other(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    turns: list[str] = []

    async def work(number: int) -> None:
        async with client.aio.lock(name):
            turns.append(f"task {number}")

    def thread(number: int) -> None:
        with client.lock(name):
            turns.append(f"thread {number}")

    async def main() -> None:
        waiting: list[asyncio.Task[None]] = []
        threads = []
        holder = held(client.lock(name))
        for number in range(10):
            waiting.append(asyncio.create_task(work(number)))
            await come(lambda number=number: waiters(raw, name) == 2 * number + 1)  # type: ignore[misc]
            threads.append(Thread(lambda number=number: thread(number)))  # type: ignore[misc]
            await come(lambda number=number: waiters(raw, name) == 2 * number + 2)  # type: ignore[misc]
        holder.release()
        await asyncio.wait_for(asyncio.gather(*waiting), 20)
        for one in threads:
            await asyncio.to_thread(one.finish)

    asyncio.run(main())
    assert turns == [f"{kind} {n}" for n in range(10) for kind in ("task", "thread")]


@either_loop
def test_loops_of_several_threads_share_a_lock(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    inside = 0

    async def work() -> None:
        nonlocal inside
        for _ in range(20):
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    async def main() -> None:
        await asyncio.gather(*[work() for _ in range(5)])

    for thread in [Thread(lambda: run(main())) for _ in range(4)]:
        thread.finish()
    assert not raw.exists(name)


@either_loop
def test_one_loop_after_another_uses_a_lock(run: Run, lock: holdfast.AsyncLock) -> None:
    async def main() -> None:
        async with lock:
            assert await task(lock.acquire(timeout=0.01)) is False

    for _ in range(5):
        run(main())


# ----------------------------------------------------------------- Cancelling


@either_loop
def test_a_cancelled_wait_leaves_nothing_behind(
    run: Run, lock: holdfast.AsyncLock, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        with held(client.lock(name)):
            waiting = task(lock.acquire())
            await come(lambda: waiters(raw, name) == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert waiters(raw, name) == 0
            early = task(lock.acquire())
            early.cancel()  # before it has begun
            with pytest.raises(asyncio.CancelledError):
                await early
            with pytest.raises((asyncio.TimeoutError, TimeoutError)):
                await asyncio.wait_for(lock.acquire(), 0.02)
            assert waiters(raw, name) == 0
        assert not raw.exists(name)
        assert not lock._lock._client._notices_here()._calls

    run(main())


@either_loop
def test_a_cancel_that_races_the_grant_loses_no_lock(
    run: Run, lock: holdfast.AsyncLock, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    """A task that reports its cancellation holds nothing, and a task that does not holds the
    lock."""
    outcomes: list[bool] = []

    async def main() -> None:
        holder = client.aio.lock(name, owner="holder")
        while len(outcomes) < 100 or (len(outcomes) < 3000 and len(set(outcomes)) < 2):
            await holder.acquire()
            waiting = task(lock.acquire())
            await asyncio.sleep(random.choice([0, 0.001, 0.003]))
            releasing = task(holder.release())
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            if random.randrange(2):
                await asyncio.sleep(random.uniform(0, 0.001))
            waiting.cancel()
            try:
                assert await waiting is True
            except asyncio.CancelledError:
                outcomes.append(False)
            else:
                outcomes.append(True)
                await lock.release()
            await releasing
            assert not await lock.locked()
            assert waiters(raw, name) == 0

    run(main())
    assert set(outcomes) == {True, False}  # else the race was never tried
    assert not lock._tasks


def test_cancels_among_many_waiters_leave_the_others_their_turns(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    served: list[int] = []

    async def work(number: int) -> None:
        async with lock:
            served.append(number)
            await asyncio.sleep(0.0005)

    async def main() -> None:
        async with lock:
            tasks = []
            for number in range(200):
                tasks.append(task(work(number)))
                await asyncio.sleep(0)
            await come(lambda: waiters(raw, name) == 200)
        for one in random.sample(tasks, 100):
            one.cancel()
            await asyncio.sleep(0.0005)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        canceled = [isinstance(end, asyncio.CancelledError) for end in ended]
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ended)
        assert {n for n in range(200) if not canceled[n]} <= set(served)

    run(main())
    assert served == sorted(served)
    assert waiters(raw, name) == 0
    assert not raw.exists(name)


async def release_when_kept(lock: holdfast.AsyncLock) -> None:
    while not (info := await lock.inspect()).kept:
        assert info.held
    await lock.force_release(info.fence)


@pytest.mark.parametrize("how", ["release", "keep"])
def test_a_cancelled_keep_goes_on_and_is_no_dropped_hold(
    run: Run, lock: holdfast.AsyncLock, raw: redis.Redis, how: str
) -> None:
    async def main() -> None:
        hold = await lock.hold(at_least=60)
        raw.client_pause(50_000, all=False)  # scripts, but not CLIENT UNPAUSE
        try:
            ends = task(hold.release() if how == "release" else hold.keep(60))
            await asyncio.sleep(0)
            ends.cancel()
            await asyncio.wait([ends])
            assert ends.cancelled()
            del hold, ends
            gc.collect()  # a ResourceWarning would be an error
        finally:
            raw.client_unpause()
        await release_when_kept(lock)

    run(main())


@pytest.mark.parametrize("how", ["lock", "hold", "locks", "holds"])
def test_the_end_of_a_block_does_not_undo_a_cancelled_keep(
    run: Run, client: holdfast.Client, lock: holdfast.AsyncLock, raw: redis.Redis, how: str
) -> None:
    async def main() -> None:
        several = client.aio.locks_all(lock)
        blocks = {
            "lock": lock,
            "hold": None if how != "hold" else await lock.hold(),
            "locks": several,
            "holds": None if how != "holds" else await several.hold(),
        }
        block = cast("contextlib.AbstractAsyncContextManager[holdfast.AsyncHold]", blocks[how])
        try:
            async with block as hold:
                raw.client_pause(50_000, all=False)  # scripts, but not CLIENT UNPAUSE
                ends = task(hold.keep(60))
                for _ in range(3):  # its keeps are started by tasks of their own
                    await asyncio.sleep(0)
                ends.cancel()
                await asyncio.wait([ends])
                assert ends.cancelled()
                asyncio.get_running_loop().call_soon(raw.client_unpause)
        finally:
            raw.client_unpause()
        await release_when_kept(lock)

    run(main())


def test_a_cancelled_step_of_a_walk_loses_no_lock(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        for each in names:
            await client.aio.lock(each).acquire()
        walk = client.aio.locks(f"{name}:*")
        find = walk._locks._find
        stands = threading.Event()

        class Slow:
            def _find(self) -> object:
                stands.wait(20)
                return find()

        walk._locks = cast("holdfast.Locks", Slow())
        step = task(anext(walk))
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        stands.set()
        assert sorted([info.name async for info in walk]) == names

    names = [f"{name}:{number}" for number in range(3)]
    run(main())


def test_a_task_whose_lock_another_task_took_goes_on_with_a_walk(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        for each in names:
            await client.aio.lock(each).acquire()
        walk = client.aio.locks(f"{name}:*")
        step = asyncio.ensure_future(anext(walk))
        await asyncio.sleep(0)
        until(lambda: walk._found)  # the thread of the step has ended, and the loop stands still
        found = [await anext(walk), await step, await anext(walk)]
        assert sorted(info.name for info in found) == names
        with pytest.raises(StopAsyncIteration):
            await anext(walk)

    names = [f"{name}:{number}" for number in range(3)]
    run(main())


def test_a_cancel_during_the_release_does_not_keep_the_lock(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        for turns in range(6):
            leave = asyncio.Event()
            leaving = task(body(leave))
            await come(lambda: raw.exists(name))
            leave.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            leaving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leaving
            await come(lambda: not raw.exists(name))

    async def body(leave: asyncio.Event) -> None:
        async with lock:
            await leave.wait()

    run(main())


def test_a_wait_whose_loop_was_closed_is_given_up_by_the_next_loop(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        kept.append(task(client.aio.lock(name).acquire()))
        await come(lambda: waiters(raw, name) == 1)

    kept: list[asyncio.Task[object]] = []
    with client.lock(name):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()
        kept[0]._log_destroy_pending = False  # type: ignore[attr-defined]
        other = client.aio.lock(name + "2")
        asyncio.run(other.acquire())
        until(lambda: waiters(raw, name) == 0)
    assert not raw.exists(name)


@pytest.mark.parametrize("next_loop", [False, True])
def test_a_grant_whose_loop_is_closed_before_its_task_runs_is_given_back(
    client: holdfast.Client, name: str, raw: redis.Redis, next_loop: bool
) -> None:
    async def main() -> None:
        kept.append(task(client.aio.lock(name).acquire()))
        await come(lambda: waiters(raw, name) == 1)

    kept: list[asyncio.Task[object]] = []
    hold = client.lock(name).hold()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    kept[0]._log_destroy_pending = False  # type: ignore[attr-defined]
    hold.release()
    notices = client._notices_here()

    def taken() -> bool:
        return notices._drain() and all(call.outcome for call in list(notices._calls.values()))

    with ThreadPoolExecutor(1) as other:
        until(lambda: other.submit(taken).result())
    loop.close()
    if next_loop:
        asyncio.run(client.aio.lock(name + "2").acquire())
    else:
        kept.clear()
        gc.collect()
    until(lambda: not raw.exists(name))


def test_a_cancelled_acquire_that_a_grant_and_a_close_cross_is_cancelled(
    run: Run, server: Server, name: str
) -> None:
    async def main() -> None:
        client = holdfast.connect(server.tcp)
        acquiring = task(client.aio.lock(name).acquire())
        await asyncio.sleep(0)
        notices = client._notices_here()
        (call,) = notices._calls.values()
        until(lambda: elsewhere(notices._drain) and call.outcome)
        acquiring.cancel()
        elsewhere(client.close)
        with pytest.raises(asyncio.CancelledError):
            await acquiring

    run(main())


def test_a_grant_that_comes_as_its_task_gives_it_up_is_given_back(
    run: Run, client: holdfast.Client, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        acquiring = task(lock.acquire())
        await asyncio.sleep(0)
        notices = client._notices_here()
        (call,) = notices._calls.values()
        call.end(_holdfast.HF_ECANCELED, None)  # as insist() does
        until(lambda: elsewhere(notices._drain) and not notices._calls)
        with pytest.raises(holdfast.ClosedError):
            await acquiring
        await come(lambda: not raw.exists(name))

    run(main())


# ----------------------------------------------------------------- Losing, end


@either_loop
def test_a_loss_is_told_and_waited_for(
    run: Run, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        told: list[holdfast.AsyncHold] = []
        lock = client.aio.lock(name, on_lost=told.append)
        with pytest.raises(holdfast.LockLost):
            async with lock as hold:
                watching = task(hold.lost.wait())
                await hold.renew()
                assert not hold.lost.is_set()
                raw.delete(name)
                with pytest.raises(holdfast.LockLost):
                    await hold.check()
                assert await hold.lost.wait() is True
                assert await watching is True
                assert hold.lost.cause == "gone"
                await come(lambda: told == [hold])
        async with lock as hold:
            watching = task(hold.lost.wait())
            await asyncio.sleep(0)
        assert await watching is False
        assert len(told) == 1

    run(main())


def test_cancel_on_lost_without_a_block_is_refused(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        for each in (client.aio.lock(name), client.aio.locks_all(name, f"{name}:2")):
            with pytest.raises(ValueError, match=r"cancel_on_lost .* `async with`"):
                await each.hold(cancel_on_lost=True)
        assert not await client.aio.lock(name).locked()

    run(main())


@pytest.mark.parametrize("quiet", [False, True])
def test_cancel_on_lost_cancels_the_body(
    quiet: bool, run: Run, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        told: list[holdfast.AsyncHold] = []
        ended = []
        lock = client.aio.lock(name, on_lost=told.append)
        with contextlib.nullcontext() if quiet else pytest.raises(holdfast.LockLost):
            async with lock.hold(cancel_on_lost=True, raise_on_lost=not quiet) as hold:
                raw.delete(name)
                finding = task(hold.check())
                try:
                    await asyncio.sleep(40)
                finally:
                    ended.append(hold)
        with pytest.raises(holdfast.LockLost):
            await finding
        assert ended == told == [hold]
        await asyncio.sleep(0)  # the cancellation has left nothing
        current = asyncio.current_task()
        if hasattr(current, "cancelling"):
            assert current is not None
            assert current.cancelling() == 0

    run(main())


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_a_block_that_a_loss_cancels_says_so_though_its_body_releases(
    several: bool, quiet: bool, run: Run, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        made: Any = client.aio.locks_all(name) if several else client.aio.lock(name)
        with contextlib.nullcontext() if quiet else pytest.raises(holdfast.LockLost) as failed:
            async with made.hold(cancel_on_lost=True, raise_on_lost=not quiet) as hold:
                raw.delete(name)
                finding = task(hold.check())
                try:
                    await asyncio.sleep(40)
                finally:
                    with contextlib.suppress(holdfast.LockLost):
                        await hold.release()
        with pytest.raises(holdfast.LockLost):
            await finding
        assert hold.state == "released"
        assert failed is None or failed.value.cause == "gone"

    run(main())


def test_on_lost_has_the_context_of_its_acquire(
    run: Run, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def work(which: str) -> None:
        request.set(which)
        lock = client.aio.lock(name + which)
        async with lock.hold(
            on_lost=lambda _: told.append(request.get()), raise_on_lost=False
        ) as hold:
            raw.delete(name + which)
            with pytest.raises(holdfast.LockLost):
                await hold.check()
            await come(lambda: which in told or len(told) > 1)

    async def main() -> None:
        await task(work("a"))
        await task(work("b"))

    request = contextvars.ContextVar[str]("request")
    told: list[str] = []
    run(main())
    assert told == ["a", "b"]


def test_a_cancellation_of_others_goes_through_cancel_on_lost(
    run: Run, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    async def body() -> None:
        async with lock.hold(cancel_on_lost=True):
            inside.set()
            await asyncio.sleep(20)

    async def main() -> None:
        one = task(body())
        await inside.wait()
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        assert not raw.exists(name)
        async with lock.hold(cancel_on_lost=True):
            pass
        assert not raw.exists(name)

    inside = asyncio.Event()
    run(main())


def test_no_lock_of_a_closed_client_is_owned(run: Run, server: Server, name: str) -> None:
    async def main() -> None:
        with holdfast.connect(server.tcp) as client:
            lock = client.aio.lock(name)
            assert await lock.acquire()
            assert (lock.owned(), client.lock(name).owned()) == (True, False)
            plain = client.lock(name)
        assert (lock.owned(), plain.owned()) == (False, False)

    run(main())


@either_loop
def test_a_client_that_closes_ends_the_waits_of_tasks(
    run: Run, server: Server, lock: holdfast.AsyncLock, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        client = holdfast.connect(server.tcp)
        async with lock:
            waiting = [task(client.aio.lock(name).acquire()) for _ in range(20)]
            await come(lambda: waiters(raw, name) == 20)
            began = time.monotonic()
            client.close()
            for one in waiting:
                with pytest.raises(holdfast.ClosedError):
                    await one
            assert time.monotonic() - began < 10
            assert waiters(raw, name) == 0
            with pytest.raises(holdfast.ClosedError):
                await client.aio.lock(name).acquire()

    run(main())


class Interrupted:
    """A core in which a signal handler raises while the end of an acquire or release is handed
    on."""

    def __init__(self, core: Any, which: str) -> None:
        self._core = core
        self._which = which
        self.lost: list[Any] = []
        self.task: asyncio.Task[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def hf_client_next(self, client: Any, to: list[Any]) -> None:
        self._core.hf_client_next(client, to)
        told = to[0]
        won = told[4] is not None
        if won and self._which == "released" and self.task is not None:
            self.task.cancel()
        meets = {
            "won": won,
            "cancelled": told[1] == _holdfast.HF_ECANCELED,
            "released": told[0] == _holdfast.HF_KIND_RELEASE,
        }
        if meets[self._which] and not self.lost:
            self.lost.append(told)
            raise SystemExit(143)


@pytest.mark.parametrize("which", ["won", "cancelled", "released"])
def test_a_signal_that_meets_the_end_of_an_acquire_ends_the_program(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    client = holdfast.connect(server.tcp)
    core: Any = Interrupted(client._core, which)
    client._notices_here().core = core
    monkeypatch.setattr(client._notices_here(), "answers", 0.1)
    with holdfast.connect(server.tcp) as other:
        theirs = other.lock(name)

        async def main() -> None:
            core.task = asyncio.create_task(client.aio.lock(name).acquire())
            if which == "cancelled":
                while not theirs.inspect().waiters:
                    await asyncio.sleep(0.005)
                core.task.cancel()
            await core.task
            await asyncio.sleep(60)

        if which == "cancelled":
            theirs.acquire()
        with pytest.raises(SystemExit):
            asyncio.run(main())
        client.close()
        if which == "cancelled":
            theirs.release()
        assert not theirs.locked()


class Meeting:
    """A core in which a signal handler raises with each completion that has just been taken."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def hf_client_next(self, client: Any, to: list[Any]) -> None:
        self._core.hf_client_next(client, to)
        if to[0][0] != _holdfast.HF_KIND_NONE:
            raise KeyError


def test_a_completion_that_a_signal_meets_finds_its_task(
    run: Run, client: holdfast.Client, name: str
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(type(context["exception"])))
        lock = client.aio.lock(name)
        for _ in range(10):
            assert await lock.acquire()
            await lock.release()

    raised: list[type[BaseException]] = []
    client._notices_here().core = cast("Any", Meeting(client._core))
    run(main())
    assert raised == [KeyError] * 20


class Crossed:
    """A core that cancels the task when its lock is granted."""

    def __init__(self, core: Any, won: Callable[[], object]) -> None:
        self._core = core
        self._won = won

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def hf_client_next(self, client: Any, to: list[Any]) -> None:
        self._core.hf_client_next(client, to)
        if to[0][4] is not None:
            self._won()


@pytest.mark.redis
@pytest.mark.parametrize("where", ["url", "option"])
def test_a_cancelled_task_waits_for_its_release_as_long_as_the_client_does(
    server: Server, name: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(_notices, "_ANSWERS", 0.1)
    url = server.tcp + ("?connect_timeout=20&command_timeout=20" if where == "url" else "")
    options: Any = {} if where == "url" else {"connect_timeout": 20, "command_timeout": 20}

    async def main() -> None:
        def won() -> None:
            acquiring.cancel()
            raw.client_pause(1500, all=False)

        client._notices_here().core = cast("Any", Crossed(client._core, won))
        acquiring = asyncio.create_task(client.aio.lock(name).acquire())
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        assert not raw.exists(name)

    with holdfast.connect(url, **options) as client:
        asyncio.run(main())


def test_a_client_that_closes_releases_the_holds_of_tasks(
    run: Run, server: Server, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        client = holdfast.connect(server.tcp)
        lock = client.aio.lock(name)
        await lock.acquire()
        hold = await client.aio.lock(name + "2").hold()
        watching = task(hold.lost.wait())
        await asyncio.sleep(0)
        client.close()
        assert not raw.exists(name)
        assert not raw.exists(name + "2")
        assert await watching is False
        with pytest.raises(holdfast.ClosedError):
            await lock.release()
        with pytest.raises(holdfast.ClosedError):
            await hold.release()

    run(main())


def test_a_close_among_threads_and_tasks_leaves_nothing_behind(
    server: Server, name: str, raw: redis.Redis
) -> None:
    for number in range(30):
        key = f"{name}:{number}"
        with holdfast.connect(server.tcp) as client:

            def wait(client: holdfast.Client = client, key: str = key) -> None:
                with contextlib.suppress(holdfast.ClosedError), client.lock(key):
                    time.sleep(0.001)

            async def wait_as_task(client: holdfast.Client = client, key: str = key) -> None:
                with contextlib.suppress(holdfast.ClosedError):
                    async with client.aio.lock(key):
                        await asyncio.sleep(0.001)

            async def wait_as_tasks(one: Callable[[], Awaitable[None]] = wait_as_task) -> None:
                await asyncio.gather(*[one() for _ in range(5)])

            threads = [Thread(wait) for _ in range(3)]
            threads += [Thread(lambda main=wait_as_tasks: asyncio.run(main())) for _ in range(2)]  # type: ignore[misc]
            time.sleep(random.uniform(0, 0.012))
        for thread in threads:
            thread.finish()
        assert raw.exists(key) == raw.exists(queue(key)) == 0


def test_a_dropped_hold_warns_and_one_in_use_does_not(
    run: Run, lock: holdfast.AsyncLock, name: str
) -> None:
    async def main() -> None:
        await lock.acquire()
        gc.collect()
        await lock.release()
        with pytest.warns(ResourceWarning, match=r"holdfast\.AsyncHold .*dropped without release"):
            await lock.hold()

    run(main())
    assert repr(name) in repr(lock)


def test_a_loop_whose_threads_all_wait_still_asks_the_server(
    client: holdfast.Client, name: str
) -> None:
    async def call() -> str:
        return "paid"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        over = threading.Event()
        waiting = loop.run_in_executor(None, over.wait, 20)  # for a lock of this task, say
        async with client.aio.lock(name) as hold:
            assert (await client.aio.lock(name).inspect()).fence == hold.fence
            how: Any = {"ttl": 60, "at_most_once": True}
            assert await client.aio.once(name + "once", call, **how) == "paid"
            assert await client.aio.once_result(name + "once") is not None
            assert await client.aio.once_forget(name + "once")
        assert not waiting.done()
        over.set()
        await waiting

    asyncio.run(main())

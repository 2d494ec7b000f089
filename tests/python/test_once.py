"""Clients, locks and holds exist once: each is entered once, and not copied."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast

PAGE = Path(__file__).parents[2] / "docs/python.md"

# -------------------------------------------------------------------- Entering


def test_a_released_hold_is_not_entered_again(lock: holdfast.Lock) -> None:
    with lock.hold() as hold:
        pass
    with pytest.raises(holdfast.LockNotOwnedError, match="acquire the lock again"), hold:
        raise AssertionError("without the lock")
    assert not lock.locked()


def test_a_hold_that_was_handed_over_is_not_entered(lock: holdfast.Lock) -> None:
    hold = lock.hold()
    token = hold.hand_over()
    with pytest.raises(holdfast.LockNotOwnedError, match="handed over"), hold:
        raise AssertionError("without the lock")
    lock.adopt(token).release()


def test_a_lost_hold_is_not_entered(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    def lose(lock: holdfast.Lock) -> holdfast.Hold:
        hold = lock.hold()
        raw.delete(name)
        with pytest.raises(holdfast.LockLost):
            hold.check()
        return hold

    with pytest.raises(holdfast.LockLost, match="gone"), lose(client.lock(name)):
        raise AssertionError("without the lock")
    with lose(client.lock(name, raise_on_lost=False)) as hold:
        assert not hold.valid


def test_an_entered_hold_is_not_entered_within(lock: holdfast.Lock) -> None:
    with lock.hold() as hold:
        with pytest.raises(RuntimeError, match="entered already"), hold:
            pass
        hold.check()
    with lock as hold:
        with pytest.raises(RuntimeError, match="entered already"), hold:
            pass
        hold.check()


def test_tasks_enter_a_hold_once_too(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        lock = client.aio.lock(name)
        for entering in (lock, lock.hold(), await lock.hold()):
            async with entering as hold:
                with pytest.raises(RuntimeError, match="entered already"):
                    await hold.__aenter__()
                await hold.check()
            with pytest.raises(holdfast.LockNotOwnedError, match="acquire the lock again"):
                await hold.__aenter__()
        again = lock.hold(1)
        async with again:
            with pytest.raises(RuntimeError, match="entered already"):
                await again.__aenter__()
        async with again as hold:  # a hold of its own
            await hold.check()
        assert not await lock.locked()

    asyncio.run(main())


def test_tasks_enter_a_beginning_one_after_the_other(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        begin = client.aio.once_begin(name, ttl=60)
        async with begin as turn:
            with pytest.raises(RuntimeError, match="entered already"):
                await asyncio.wait_for(begin.__aenter__(), 1)
            await turn.withdraw()
        async with begin as turn:  # a turn of its own
            await turn.finish(1)

    asyncio.run(main())


# ------------------------------------------------------------- Copies, pickles

COPIES: list[Callable[[Any], object]] = [copy.copy, copy.deepcopy, pickle.dumps]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_are_refused_and_change_nothing(
    copied: Callable[[Any], object], client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name)
    with lock as hold, lock.hold() as loose:
        for each in (client, client.aio, lock, client.aio.lock(name), hold, loose):
            with pytest.raises(TypeError) as refused:
                copied(each)
            assert str(refused.value) in " ".join(PAGE.read_text().split())
        gc.collect()
        hold.check()
        loose.check()


def test_what_was_never_made_goes_in_silence() -> None:
    for kind in (holdfast.Client, holdfast.Hold, holdfast.AsyncHold):
        kind.__new__(kind)
    with pytest.raises(TypeError):
        holdfast.Client()  # type: ignore[call-arg]
    gc.collect()

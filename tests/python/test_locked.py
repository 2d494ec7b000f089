"""Functions that run under a lock."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis

import holdfast
import holdfast.contrib.apscheduler
from conftest import Thread, until


def test_a_function_runs_under_the_lock_of_its_arguments(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    @client.locked(name + ":{user_id}:{kind!r}")
    def report(user_id: int, kind: str = "full", *rest: object) -> bool:
        """Report."""
        return raw.exists(f"{name}:{user_id}:{kind!r}") == 1

    assert report(7) is True
    assert report(user_id=7) is True
    assert report(7, "short", 1, 2) is True
    assert raw.keys(name + "*") == []
    with pytest.raises(TypeError, match="user_id"):
        report()  # type: ignore[call-arg]
    assert (report.__name__, report.__doc__) == ("report", "Report.")
    assert list(inspect.signature(report).parameters) == ["user_id", "kind", "rest"]


def test_calls_with_equal_arguments_exclude_each_other(client: holdfast.Client, name: str) -> None:
    inside: list[int] = []

    @client.locked(name + ":{user}")
    def work(user: int) -> None:
        assert user not in inside
        inside.append(user)
        time.sleep(0.005)
        inside.remove(user)

    threads = [Thread(functools.partial(work, number % 2)) for number in range(10)]
    for thread in threads:
        thread.finish()


def test_a_call_waits_for_its_timeout_only(
    client: holdfast.Client, name: str, stranger: holdfast.Lock
) -> None:
    @client.locked(name, timeout=0.01)
    def work() -> None:
        raise AssertionError("without the lock")

    with stranger, pytest.raises(holdfast.LockTimeout):
        work()
    with pytest.raises(AssertionError):
        work()
    assert not stranger.locked()


def test_options_are_those_of_the_lock(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    @client.locked(name, lease=60, owner="worker")
    def work(depth: int) -> None:
        assert raw.pttl(name) > 50_000
        assert client.lock(name).inspect().owner == "worker"
        if depth:
            work(depth - 1)  # it nests

    work(2)
    with pytest.raises(TypeError, match="sleep"):
        client.locked(name, sleep=1)(lambda: None)()  # type: ignore[call-arg]


def test_methods_have_their_object_to_name(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    class Account:
        def __init__(self) -> None:
            self.number = 5

        @client.locked(name + ":{self.number}:{more}")
        def book(self, **options: object) -> bool:
            return raw.exists(name + ":5:x") == 1

    assert Account().book(more="x") is True


@pytest.mark.parametrize(
    "user", ["}", "}{", "{}", "a}b{c}", "x:hf1:q", "hf1:q", "100%", ":hf2:", "hf1", "Müller:7"]
)
def test_a_name_may_be_made_of_anything(user: str, client: holdfast.Client, name: str) -> None:
    @client.locked(name + ":{user}")
    def work(user: str) -> bool:
        other = client.lock(f"{name}:{holdfast.quote(user)}")
        return other.acquire(blocking=False, owner="stranger")

    @client.locked("{user}" + name + ":{user!s:>3}:{user}")
    def framed(user: str) -> bool:
        return True

    assert work(user) is False
    assert framed(user) is True


def test_quoting_keeps_what_is_plain_and_tells_all_apart() -> None:
    for plain in ("", "7", "a b", "user:7", "Müller 鍵", "shf1:q", "hf", "hfx:1", "half:1"):
        assert holdfast.quote(plain) == plain
    strange = ["}", "%7D", "%257D", "{", "hf1:q", "%68f1:q", "x:hf1:q", "hf1", "%"]
    assert len({holdfast.quote(each) for each in strange}) == len(strange)
    assert holdfast.quote("a}b") == "a%7Db"
    for line in ("\n", "\r", "\u0085", "\u2028"):  # in every language alike
        assert holdfast.quote("hf1" + line) == "hf1" + line


def test_a_decorator_without_its_name_is_told(client: holdfast.Client) -> None:
    wrong: Any = client.locked
    with pytest.raises(TypeError, match=r'@client.locked\("report"\)'):
        wrong(lambda: None)

    with pytest.raises(TypeError, match="timeout must be seconds"):
        wrong("x", timeout="5")


def test_a_name_must_fit_the_function(client: holdfast.Client) -> None:
    def work(user: int) -> None: ...

    for wrong in ("x:{person}", "x:{}", "x:{0}", "{person.name}"):
        with pytest.raises(ValueError, match="no parameter"):
            client.locked(wrong)(work)
    with pytest.raises(ValueError, match="encountered|expected"):
        client.locked("x:{user")(work)


def test_generators_are_refused(client: holdfast.Client) -> None:
    def count() -> Iterator[int]:
        yield 1

    async def acount() -> AsyncIterator[int]:
        yield 1

    for each in (count, acount):
        with pytest.raises(TypeError, match="generator"):
            client.locked("x")(each)


def test_a_coroutine_that_would_run_after_the_release_is_refused(
    client: holdfast.Client, name: str
) -> None:
    async def work() -> None:
        runs.append(1)

    runs: list[int] = []
    once = client.once_per(name, 3600)
    job = holdfast.contrib.apscheduler.once_per(client, name + ":job", 3600)
    for decorate in (client.locked(name), once, job):
        with pytest.raises(TypeError, match="gave a coroutine, whose body would run after"):
            decorate(lambda: work())()
    assert once(lambda: "ran")() == job(lambda: "ran")() == "ran"  # the turns are passed on
    assert not runs


def test_a_coroutine_function_runs_under_the_lock_too(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    inside: list[int] = []

    @client.locked(name + ":{user}", timeout=20)
    async def work(user: int) -> int:
        assert raw.exists(f"{name}:{user}") == 1
        assert user not in inside
        inside.append(user)
        await asyncio.sleep(0.005)
        inside.remove(user)
        return user

    assert inspect.iscoroutinefunction(work)

    async def main() -> list[int]:
        return await asyncio.gather(*(work(number % 2) for number in range(10)))

    assert asyncio.run(main()) == [0, 1] * 5
    assert raw.keys(name + "*:0") == []


def test_a_task_waits_for_its_timeout_only(
    client: holdfast.Client, name: str, stranger: holdfast.Lock
) -> None:
    @client.locked(name, timeout=0.01)
    async def work() -> None:
        raise AssertionError("without the lock")

    with stranger, pytest.raises(holdfast.LockTimeout):
        asyncio.run(work())


def test_a_cancelled_call_leaves_nothing(
    client: holdfast.Client, name: str, stranger: holdfast.Lock
) -> None:
    @client.locked(name)
    async def work() -> Any:
        raise AssertionError("without the lock")

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.to_thread(until, lambda: stranger.inspect().waiters)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with stranger:
        asyncio.run(main())
        until(lambda: not stranger.inspect().waiters)
    assert not stranger.locked()


def test_a_name_of_an_argument_that_is_none_is_refused(client: holdfast.Client, name: str) -> None:
    @client.locked(name + ":{order}")
    def work(order: int | None, other: object = None) -> int | None:
        return order

    assert work(7) == 7
    assert work(0) == 0
    with pytest.raises(ValueError, match=r"order is None: all calls"):
        work(None)

    class User:
        id = None

    with pytest.raises(ValueError, match=r"user.id is None"):
        client.locked(name + ":{user.id}")(lambda user: user)(User())


def test_a_wrong_name_is_told(client: holdfast.Client) -> None:
    with pytest.raises(ValueError, match="the name 'a{x': expected '}'"):
        client.locked("a{x")(lambda x: x)

"""once(): one caller calls the function, and all others get its result."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

import holdfast
from conftest import Server, Thread, queue, until

TTL = 60


def waiting(raw: redis.Redis, name: str) -> int:
    return raw.zcount(queue(name), 0, 2**53)


class Vendor:
    """The function that is called, and counts its calls."""

    def __init__(self, result: Any = "ok") -> None:
        self.result = result
        self.calls = 0
        self.entered, self.answers = threading.Event(), threading.Event()

    def __call__(self) -> Any:
        self.calls += 1
        self.entered.set()
        assert self.answers.wait(20)
        return self.result

    def now(self) -> Any:
        self.answers.set()
        return self()


def unwanted() -> Any:
    raise AssertionError("called once more")


# ------------------------------------------------------------------ Functions


def test_the_first_calls_it_and_all_others_get_its_result(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    vendor = Vendor({"rate": 1.25, "names": ["ä", None]})
    threads = [Thread(lambda: client.once(name, vendor, ttl=TTL)) for _ in range(50)]
    assert vendor.entered.wait(20)
    until(lambda: waiting(raw, name) == 49)
    vendor.answers.set()
    assert [thread.finish() for thread in threads] == [vendor.result] * 50
    assert vendor.calls == 1
    assert client.once(name, unwanted, ttl=TTL, timeout=0) == vendor.result
    stats = client.stats()
    assert (stats.acquired, stats.answered["done"], stats.released) == (1, 50, 1)
    assert not client.lock(name).locked()
    assert 30 < client.lock(name).inspect().result <= TTL


def test_who_fails_passes_the_turn_on(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    go = threading.Event()

    def fail() -> str:
        assert go.wait(20)
        raise KeyError("vendor")

    first = Thread(lambda: client.once(name, fail, ttl=TTL))
    until(lambda: raw.exists(name))
    second = Thread(lambda: client.once(name, Vendor("second").now, ttl=TTL))
    until(lambda: waiting(raw, name) == 1)
    third = Thread(lambda: client.once(name, unwanted, ttl=TTL))
    until(lambda: waiting(raw, name) == 2)
    go.set()
    with pytest.raises(KeyError, match="vendor"):
        first.finish()
    assert (second.finish(), third.finish()) == ("second", "second")


@pytest.mark.redis
def test_a_result_stays_for_its_ttl(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    key = f"{{{name}}}{name}:hf1:r"
    assert client.once(name, lambda: 1, ttl=TTL) == 1
    assert 50_000 < raw.pttl(key) <= 60_000
    raw.delete(key)  # as when its time ends
    assert client.once(name, lambda: 2, ttl=TTL) == 2


def test_a_wait_ends_with_its_timeout(
    client: holdfast.Client, name: str, stranger: holdfast.Lock
) -> None:
    with stranger:
        for timeout in (0, 0.01):
            with pytest.raises(holdfast.LockTimeout):
                client.once(name, unwanted, ttl=TTL, timeout=timeout)
    assert client.once(name, lambda: 1, ttl=TTL, timeout=0) == 1


# -------------------------------------------------------------------- Results


def test_all_callers_have_the_same_also_the_first(client: holdfast.Client, name: str) -> None:
    first: Any = client.once(name, lambda: {"a": (1, 2)}, ttl=TTL)
    assert first == client.once(name, unwanted, ttl=TTL) == {"a": [1, 2]}


def test_other_results_have_functions_of_their_own(client: holdfast.Client, name: str) -> None:
    for _ in range(2):
        assert (
            client.once(name, lambda: b"\0\xff", ttl=TTL, encode=bytes, decode=bytes) == b"\0\xff"
        )
    assert client.once(name + "2", lambda: b"", ttl=TTL, encode=bytes, decode=bytes) == b""
    assert client.once(name + "2", unwanted, ttl=TTL, encode=bytes, decode=bytes) == b""
    for _ in range(2):
        made = client.once(
            name + "3", lambda: {3}, ttl=TTL, encode=lambda a: bytes(a), decode=lambda raw: set(raw)
        )
        assert made == {3}


@pytest.mark.parametrize(
    ("result", "error", "said"),
    [
        (object(), TypeError, "not JSON serializable: once.. keeps results as JSON"),
        (float("nan"), ValueError, "encode= and decode="),
        ("x" * (1 << 20), ValueError, "the result has 1048578 bytes: at most 1048576"),
    ],
)
def test_a_result_that_cannot_be_kept_is_in_the_error_and_passes_the_turn_on(
    client: holdfast.Client, name: str, result: object, error: type[Exception], said: str
) -> None:
    with pytest.raises(holdfast.ResultNotKept, match=said) as told:
        client.once(name, lambda: result, ttl=TTL)
    assert told.value.result is result
    assert (told.value.reason, type(told.value.__cause__)) == ("encoding", error)

    async def task() -> object:
        return result

    with pytest.raises(holdfast.ResultNotKept, match=said) as told:
        asyncio.run(client.aio.once(name, task, ttl=TTL, timeout=0))
    assert told.value.result is result
    assert not client.lock(name).locked()
    longest = "x" * (16777216 - 2)
    made = client.once(name, lambda: longest, ttl=TTL, timeout=0, max_result=16777216)
    assert made == longest
    assert client.once(name, unwanted, ttl=TTL) == longest


class Unshown(Exception):
    """An exception whose __str__() raises TypeError, as if its message were None."""

    def __str__(self) -> str:
        message: Any = None
        return message  # type: ignore[no-any-return]


@pytest.mark.parametrize("most", [False, True])
@pytest.mark.parametrize("keep", [None, Unshown])
def test_an_error_that_cannot_be_shown_ends_the_turn_too(
    client: holdfast.Client, name: str, most: bool, keep: type[Unshown] | None
) -> None:
    def fail() -> None:
        raise Unshown

    async def task() -> None:
        fail()

    def once(each: str) -> None:
        client.once(each, fail, ttl=TTL, at_most_once=most, keep=keep)

    def in_a_task(each: str) -> None:
        asyncio.run(client.aio.once(each, task, ttl=TTL, at_most_once=most, keep=keep))

    def begun(each: str) -> None:
        with client.once_begin(each, ttl=TTL, at_most_once=most, keep=keep):
            fail()

    for number, call in enumerate((once, in_a_task, begun)):
        each = f"{name}:{number}"
        with pytest.raises(Unshown) as kept:  # its traceback keeps the hold alive
            call(each)
        assert not client.lock(each).locked(), kept
        outcome = client.once_result(each)
        if keep is not None:
            assert outcome is not None
            assert outcome.state == "failed"
        elif most:
            assert outcome is not None
            assert (outcome.state, outcome.note) == ("unknown", "Unshown")


def test_an_encoder_whose_error_cannot_be_shown_ends_the_turn_too(
    client: holdfast.Client, name: str
) -> None:
    def encode(result: object) -> bytes:
        raise Unshown

    with pytest.raises(holdfast.ResultNotKept) as told:
        client.once(name, lambda: "paid", ttl=TTL, at_most_once=True, encode=encode)
    assert (told.value.result, told.value.reason) == ("paid", "encoding")
    assert not client.lock(name).locked()


@pytest.mark.parametrize("ending", ["returns", "raises", "is kept"])
@pytest.mark.parametrize("task", [False, True], ids=["thread", "task"])
def test_a_report_that_no_memory_is_left_for_costs_neither_the_result_nor_the_lock(
    client: holdfast.Client, name: str, monkeypatch: pytest.MonkeyPatch, task: bool, ending: str
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    def call() -> str:
        for each in "hf_once_finish", "hf_once_finish_start":
            monkeypatch.setattr(client._core, each, full)
        if ending != "returns":
            raise KeyError("broken")
        return "paid"

    async def awaited() -> str:
        return call()

    keep = KeyError if ending == "is kept" else None
    terms: Any = {"at_most_once": True, "keep": keep, "lease": None}
    with pytest.raises((holdfast.ResultNotKept, KeyError)) as told:
        if task:
            asyncio.run(client.aio.once(name, awaited, ttl=TTL, **terms))
        else:
            client.once(name, call, ttl=TTL, **terms)
    if ending == "returns":
        assert isinstance(told.value, holdfast.ResultNotKept)
        assert (told.value.result, told.value.reason) == ("paid", "unreachable")
    until(lambda: not client.lock(name).locked())
    outcome = client.once_result(name)
    assert outcome is not None
    assert outcome.state == "unknown"


def test_a_result_of_others_that_is_no_json_says_so(client: holdfast.Client, name: str) -> None:
    client.once(name, lambda: b"{", ttl=TTL, encode=bytes, decode=bytes)
    with pytest.raises(ValueError, match="the result that was left is no JSON"):
        client.once(name, unwanted, ttl=TTL)


@pytest.mark.redis
def test_a_result_that_the_server_cannot_keep_is_the_caller_s_and_in_the_log(
    client: holdfast.Client, name: str, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    def may_keep(may: bool) -> None:
        server: Any = raw
        server.execute_command("ACL", "SETUSER", "default", "+hset" if may else "-hset")

    def full() -> str:
        may_keep(False)
        return "first"

    async def task() -> str:
        return full()

    both: list[Callable[[], str]] = [
        lambda: client.once(name, full, ttl=TTL),
        lambda: asyncio.run(client.aio.once(name, task, ttl=TTL)),
    ]
    for once in both:
        caplog.clear()
        try:
            assert once() == "first"
        finally:
            may_keep(True)
        (warning,) = (each for each in caplog.records if each.levelno == logging.WARNING)
        assert f"the result of once({name!r}) was not left for others" in warning.getMessage()
        until(lambda: not raw.exists(name))
    assert client.once(name, lambda: "second", ttl=TTL, timeout=0) == "second"


def test_a_result_that_comes_too_late_is_the_caller_s_only(
    client: holdfast.Client, name: str, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    lost = threading.Event()

    def slow() -> str:
        assert lost.wait(20)
        until(lambda: not raw.exists(name))  # the server ends it a little later
        return "late"

    late = client.once(name, slow, ttl=TTL, lease=0.1, renew=False, on_lost=lambda _: lost.set())
    assert late == "late"
    assert "was not left for others" in caplog.text
    assert client.once(name, lambda: "mine", ttl=TTL) == "mine"


class Noticed(Exception):
    pass


@pytest.mark.redis
def test_a_signal_that_meets_the_result_is_raised(
    server: Server, client: holdfast.Client, name: str
) -> None:
    made = threading.Event()

    def handler(number: int, frame: object) -> None:
        made.set()
        reads.finish()  # the outcome for both, while this thread is here
        raise Noticed

    def interrupt() -> None:
        until(lambda: client.lock(name).inspect().waiters == 2)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    with holdfast.connect(server.tcp) as other:
        calls = Thread(lambda: other.once(name, lambda: made.wait(20), ttl=60))
        until(client.lock(name).locked)
        reads = Thread(lambda: client.once(name, int, ttl=60))
        try:
            with pytest.raises(Noticed):
                Thread(interrupt)
                client.once(name, int, ttl=60)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert calls.finish() is reads.finish() is True


def test_wrong_arguments_are_refused(client: holdfast.Client, name: str) -> None:
    once: Callable[..., object] = client.once
    cases: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"ttl": 9.9}, ValueError),
        ({"ttl": None}, TypeError),
        ({"ttl": TTL, "timeout": -2}, ValueError),
        ({"ttl": TTL, "encode": None}, TypeError),
        ({"ttl": TTL, "decode": 1}, TypeError),
        ({"ttl": TTL, "lease": 0}, ValueError),
        ({"ttl": TTL, "other": 0}, TypeError),
        ({"ttl": TTL, "encode": pickle.dumps}, TypeError),
        ({"ttl": TTL, "decode": pickle.loads}, TypeError),
        ({"ttl": TTL, "keep": KeyError()}, TypeError),
        ({"ttl": TTL, "keep": (KeyError, 3)}, TypeError),
        ({"ttl": TTL, "keep": KeyError, "keep_ttl": 9}, ValueError),
        ({"ttl": TTL, "not_called": KeyError}, ValueError),
        ({"ttl": TTL, "at_most_once": 1}, TypeError),
        ({"ttl": TTL, "at_most_once": True, "note": "x" * 1025}, ValueError),
        ({"ttl": TTL, "at_most_once": True, "note": b"x"}, TypeError),
        ({"ttl": TTL, "at_most_once": True, "unknown_ttl": 9}, ValueError),
        ({"ttl": TTL, "unknown_ttl": 90}, ValueError),
        ({"ttl": TTL, "args": object()}, TypeError),
        ({"ttl": TTL, "max_result": 0}, ValueError),
        ({"ttl": TTL, "max_result": 16777217}, ValueError),
        ({}, TypeError),
    ]
    for wrong, error in cases:
        with pytest.raises(error):
            once(name, unwanted, **wrong)
    with pytest.raises(TypeError, match="call must be a function"):
        once(name, None, ttl=TTL)

    async def task() -> None: ...

    with pytest.raises(TypeError, match="aio"):
        once(name, task, ttl=TTL)
    with pytest.raises(holdfast.ResultNotKept, match="encode must give bytes"):
        once(name, lambda: 1, ttl=TTL, encode=str)
    assert not client.lock(name).locked()


# ---------------------------------------------------------------------- Tasks


def test_tasks_get_the_result_too(client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    calls = 0

    async def vendor() -> list[int]:
        nonlocal calls
        calls += 1
        while waiting(raw, name) < 99:
            await asyncio.sleep(0.01)
        return [1, 2]

    async def main() -> list[list[int]]:
        once = client.aio.once
        return await asyncio.gather(*(once(name, vendor, ttl=TTL) for _ in range(100)))

    assert asyncio.run(main()) == [[1, 2]] * 100
    assert calls == 1
    assert client.once(name, unwanted, ttl=TTL) == [1, 2]
    assert client.stats().answered["done"] == 100


def test_a_cancelled_task_passes_the_turn_on(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    async def main() -> None:
        entered = asyncio.Event()

        async def endless() -> str:
            entered.set()
            await asyncio.sleep(60)
            return "never"

        async def vendor() -> str:
            return "second"

        once = client.aio.once
        first = asyncio.create_task(once(name, endless, ttl=TTL))
        await entered.wait()
        gone = asyncio.create_task(once(name, endless, ttl=TTL))
        while waiting(raw, name) < 1:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(once(name, vendor, ttl=TTL))
        while waiting(raw, name) < 2:
            await asyncio.sleep(0.01)
        for each in (gone, first):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        assert await second == "second"
        assert await once(name, endless, ttl=TTL, timeout=0) == "second"

    asyncio.run(main())
    assert not client.lock(name).locked()
    assert waiting(raw, name) == 0


def test_a_task_that_is_cancelled_as_the_result_comes_holds_nothing(
    client: holdfast.Client, name: str
) -> None:
    client.once(name, lambda: 1, ttl=TTL)

    async def main() -> None:
        for turns in range(4):
            task = asyncio.create_task(client.aio.once(name, unwanted, ttl=TTL))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                assert await task == 1

    asyncio.run(main())
    assert not client.lock(name).locked()


def test_a_task_whose_function_fails_passes_the_turn_on(client: holdfast.Client, name: str) -> None:
    async def fail() -> str:
        raise KeyError("vendor")

    with pytest.raises(KeyError, match="vendor"):
        asyncio.run(client.aio.once(name, fail, ttl=TTL))
    assert client.once(name, lambda: 2, ttl=TTL, timeout=0) == 2


# ------------------------------------------------------------------ Decorator


def test_a_decorated_function_is_called_once_for_equal_arguments(
    client: holdfast.Client, name: str
) -> None:
    calls: list[object] = []

    @client.once_call(name + ":{currency}:{day!r}", ttl=TTL)
    def rate(currency: str, day: str = "now") -> dict[str, str]:
        """Rate."""
        calls.append(currency)
        return {currency: day}

    assert rate("EUR") == rate(currency="EUR") == {"EUR": "now"}
    assert rate("}:hf1:q") == {"}:hf1:q": "now"}
    assert calls == ["EUR", "}:hf1:q"]
    assert (rate.__name__, rate.__doc__) == ("rate", "Rate.")

    @client.once_call(name + ":{currency}:'now'", ttl=TTL)
    async def task(currency: str) -> dict[str, str]:
        raise AssertionError("called once more")

    assert asyncio.run(task("EUR")) == {"EUR": "now"}


def test_a_wrong_decoration_is_refused_at_once(client: holdfast.Client, name: str) -> None:
    def function(user: int) -> None: ...

    def generator() -> Any:
        yield 1

    decorate: Callable[..., Any] = client.once_call
    with pytest.raises(ValueError, match="no parameter"):
        decorate("{other}", ttl=TTL)(function)
    with pytest.raises(TypeError, match="generator"):
        decorate(name, ttl=TTL)(generator)
    with pytest.raises(TypeError, match=r"@client\.once_call takes the lock's name"):
        decorate(function, ttl=TTL)
    with pytest.raises(ValueError, match="ttl must be from 10"):
        decorate(name, ttl=1)

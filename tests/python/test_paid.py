"""once() at most once: no call is made twice, and no result that was paid for is lost."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import pickle
import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
import redis

import holdfast
import holdfast.testing
from conftest import Thread, queue, until

TTL = 60


class CardDeclined(Exception):
    """The vendor's refusal."""


class Expired(CardDeclined):
    """A subclass."""


class Coded(CardDeclined):
    """An exception that is not made from a message."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.data = {"code": code}


def unwanted() -> Any:
    raise AssertionError("called once more")


def said(end: Any, turn: Any) -> Any:
    return end


def raises(error: BaseException) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


# The same tests for threads and for tasks.


class Threads:
    def __init__(self, client: holdfast.Client) -> None:
        self.client = client

    def once(self, name: str, call: Callable[[], Any], **how: Any) -> Any:
        return self.client.once(name, call, **{"ttl": TTL, "at_most_once": True, **how})

    def look(self, name: str, **how: Any) -> Any:
        return self.client.once_result(name, **how)

    def settle(self, what: Any, verb: str, *how: Any, **more: Any) -> None:
        assert getattr(what, verb)(*how, **more) is None

    def turn(self, name: str, work: Callable[[Any], Any], **how: Any) -> None:
        with self.client.once_begin(name, **{"ttl": TTL, "at_most_once": True, **how}) as turn:
            for verb, *rest in work(turn):
                getattr(turn, verb)(*rest)

    def forget(self, name: str, **how: Any) -> bool:
        return self.client.once_forget(name, **how)


class Tasks(Threads):
    def once(self, name: str, call: Callable[[], Any], **how: Any) -> Any:
        async def task() -> Any:
            return call()

        given = {"ttl": TTL, "at_most_once": True, **how}
        return asyncio.run(self.client.aio.once(name, task, **given))

    def look(self, name: str, **how: Any) -> Any:
        return asyncio.run(self.client.aio.once_result(name, **how))

    def settle(self, what: Any, verb: str, *how: Any, **more: Any) -> None:
        async def settle() -> None:
            await getattr(what, verb)(*how, **more)

        asyncio.run(settle())

    def turn(self, name: str, work: Callable[[Any], Any], **how: Any) -> None:
        async def main() -> None:
            given: Any = {"ttl": TTL, "at_most_once": True, **how}
            async with self.client.aio.once_begin(name, **given) as turn:
                for verb, *rest in work(turn):
                    await getattr(turn, verb)(*rest)

        asyncio.run(main())

    def forget(self, name: str, **how: Any) -> bool:
        return asyncio.run(self.client.aio.once_forget(name, **how))


@pytest.fixture(params=[Threads, Tasks])
def caller(request: pytest.FixtureRequest, client: holdfast.Client) -> Threads:
    made: Threads = request.param(client)
    return made


def lose(caller: Threads, name: str, **how: Any) -> holdfast.OutcomeUnknown:
    """Let a call fail so that its outcome is unknown; return what the next caller gets."""
    with pytest.raises(KeyError, match="gone"):
        caller.once(name, raises(KeyError("gone")), **how)
    with pytest.raises(holdfast.OutcomeUnknown) as told:
        caller.once(name, unwanted, timeout=0, **how)
    return told.value


# ---------------------------------------------------------------- At most once


def test_all_get_the_result_of_the_first(caller: Threads, name: str) -> None:
    assert caller.once(name, lambda: {"paid": 1}) == {"paid": 1}
    assert caller.once(name, unwanted, timeout=0) == {"paid": 1}
    found = caller.look(name)
    assert (found.state, found.result, found.at_most_once) == ("done", {"paid": 1}, True)
    assert found.size == len(b'{"paid":1}')
    assert 30 < found.ttl <= TTL
    assert abs(found.since - datetime.now(timezone.utc)) < timedelta(minutes=5)


def test_an_error_leaves_an_unknown_outcome_and_says_whose(caller: Threads, name: str) -> None:
    unknown = lose(caller, name, note="order 7")
    found = caller.look(name)
    assert (found.state, found.ttl, found.note) == ("unknown", None, "KeyError: 'gone'")
    assert unknown.name == name
    assert (unknown.fence, unknown.owner) == (found.fence, found.owner)
    assert (unknown.since, unknown.note) == (found.since, found.note)
    assert holdfast.Origin.of(unknown.owner) is not None
    with pytest.raises(holdfast.LockError, match="has no result: it is unknown"):
        _ = found.result
    with pytest.raises(holdfast.LockError, match="has no error: it is unknown"):
        _ = found.error
    assert not caller.client.lock(name).locked()


def test_calls_are_counted_by_their_outcome(
    caller: Threads, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    def forgets(turn: Any) -> Any:
        client.once_forget(name, force=True)
        return [("finish", 1)]

    unknown = lose(caller, name, args=1)  # begun, unknown, and reported as unknown
    caller.settle(unknown, "retry")
    with pytest.raises(ConnectionRefusedError):
        caller.once(name, raises(ConnectionRefusedError()), not_called=ConnectionRefusedError)
    with pytest.raises(CardDeclined):
        caller.once(name, raises(CardDeclined("no")), keep=CardDeclined, args=1)
    with pytest.raises(CardDeclined):
        caller.once(name, unwanted, keep=CardDeclined)
    with pytest.raises(holdfast.FingerprintMismatch):
        caller.once(name, unwanted, args=2)
    caller.forget(name)
    assert caller.once(name, lambda: 1) == caller.once(name, unwanted) == 1
    caller.forget(name)
    with pytest.raises(holdfast.ResultNotKept):
        caller.turn(name, forgets)
    stats = client.stats()
    assert stats.answered == {"done": 1, "failed": 1, "unknown": 1, "mismatch": 1}
    finished = {"done": 1, "failed": 1, "unknown": 1, "retry": 1, "unkept": 1}
    assert (stats.begun, stats.finished) == (5, finished)
    assert stats.acquired == 5


def test_a_caller_that_dies_leaves_an_unknown_outcome_with_its_note(
    caller: Threads, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    turn = client.once_begin(name, ttl=TTL, at_most_once=True, note="order 7")
    assert caller.look(name).state == "running"
    with pytest.raises(holdfast.LockTimeout):
        caller.once(name, unwanted, timeout=0)
    raw.delete(name)  # as when its lease ends
    found = caller.look(name)
    assert (found.state, found.note) == ("unknown", "order 7")
    with pytest.raises(holdfast.OutcomeUnknown) as told:
        caller.once(name, unwanted)
    assert told.value.note == "order 7"
    turn.finish("late")  # it was only slow, and is not settled
    assert caller.once(name, unwanted) == "late"


def test_an_unknown_outcome_is_resolved(caller: Threads, name: str) -> None:
    unknown = lose(caller, name)
    caller.settle(unknown, "resolve", "paid", note="seen at the vendor")
    assert caller.once(name, unwanted) == "paid"
    assert caller.look(name).note == "seen at the vendor"
    with pytest.raises(holdfast.OutcomeSettled):
        caller.settle(unknown, "resolve", "paid twice")
    caller.settle(unknown, "resolve", "corrected", force=True)
    assert caller.once(name, unwanted) == "corrected"


def test_a_found_outcome_is_resolved_with_the_encoding_of_the_call(
    caller: Threads, name: str
) -> None:
    how: Any = {"encode": str.encode, "decode": bytes.decode, "max_result": 5}
    with pytest.raises(ConnectionError):
        caller.once(name, raises(ConnectionError()), **how)
    with pytest.raises(TypeError, match="give once_result.* the encode= of the call"):
        caller.settle(caller.look(name, decode=bytes.decode), "resolve", "p-17")
    with pytest.raises(ValueError, match="the result has 6 bytes: at most 5, by max_result"):
        caller.settle(caller.look(name, **how), "resolve", "p-1718")
    caller.settle(caller.look(name, **how), "resolve", "p-17")
    assert caller.once(name, unwanted, **how) == "p-17"
    assert caller.look(name, **how).result == "p-17"


def test_an_unknown_outcome_is_retried_or_forgotten(caller: Threads, name: str) -> None:
    caller.settle(lose(caller, name), "retry")
    assert caller.look(name).state == "retry"
    unknown = lose(caller, name)
    caller.settle(unknown, "forget")
    assert caller.look(name) is None
    with pytest.raises(holdfast.LockNotOwnedError):
        caller.settle(unknown, "retry")
    assert caller.once(name, lambda: 3) == 3


def test_an_outcome_is_resolved_as_an_error(caller: Threads, name: str) -> None:
    lose(caller, name)
    caller.settle(caller.look(name), "resolve_error", CardDeclined("no money"))
    with pytest.raises(CardDeclined, match="no money"):
        caller.once(name, unwanted, keep=CardDeclined)


def test_a_call_that_runs_is_settled_only_by_force(
    caller: Threads, client: holdfast.Client, name: str
) -> None:
    turn = client.once_begin(name, ttl=TTL, at_most_once=True)
    running = caller.look(name)
    with pytest.raises(holdfast.LockTimeout, match="in progress"):
        caller.settle(running, "resolve", 1)
    caller.settle(running, "resolve", 1, force=True)
    with pytest.raises(holdfast.ResultNotKept) as told:
        turn.finish(2)
    assert (told.value.result, told.value.reason) == (2, "settled")
    assert caller.once(name, unwanted) == 1


def test_forget_looks_and_forgets(caller: Threads, name: str) -> None:
    assert not caller.forget(name)
    assert caller.once(name, lambda: 1) == 1
    assert caller.forget(name)
    assert caller.once(name, lambda: 2) == 2


def test_waiters_are_told_of_an_unknown_outcome(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    turn = client.once_begin(name, ttl=TTL, at_most_once=True)
    threads = [
        Thread(lambda: client.once(name, unwanted, ttl=TTL, at_most_once=True)) for _ in range(5)
    ]
    until(lambda: raw.zcount(queue(name), 0, 2**53) == 5)
    turn.unknown("who knows")
    for thread in threads:
        with pytest.raises(holdfast.OutcomeUnknown):
            thread.finish()


def test_an_unknown_outcome_may_end(caller: Threads, name: str) -> None:
    lose(caller, name, unknown_ttl=3600)
    assert 3000 < caller.look(name).ttl <= 3600


def test_the_time_of_an_unknown_outcome_does_not_run_before_a_caller_learns_of_it(
    client: holdfast.Client, name: str
) -> None:
    turn = client.once_begin(name, ttl=TTL, at_most_once=True, unknown_ttl=3600)
    outcome = client.once_result(name)
    assert outcome is not None
    assert (outcome.state, outcome.ttl) == ("running", 3600)
    turn.hold.release()
    outcome = client.once_result(name)
    assert outcome is not None
    assert (outcome.state, outcome.ttl) == ("unknown", 3600)


def test_a_cancelled_task_leaves_an_unknown_outcome(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        entered = asyncio.Event()

        async def endless() -> None:
            entered.set()
            await asyncio.Event().wait()

        once = client.aio.once(name, endless, ttl=TTL, at_most_once=True)
        task = asyncio.create_task(once)
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(holdfast.OutcomeUnknown, match="unknown") as told:
            await client.aio.once(name, endless, ttl=TTL, at_most_once=True)
        assert told.value.note.startswith("CancelledError")
        await told.value.forget()

    asyncio.run(main())


def test_a_task_that_is_cancelled_before_its_call_leaves_nothing(
    client: holdfast.Client, name: str
) -> None:
    called = 0

    async def vendor() -> int:
        nonlocal called
        called += 1
        return called

    async def main() -> None:
        for turns in range(12):
            how: Any = {"ttl": TTL, "at_most_once": True}
            before = called
            task = asyncio.create_task(client.aio.once(name, vendor, **how))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            found = await client.aio.once_result(name)
            if called == before:
                assert found is None or found.state == "retry", found
                assert await client.aio.once(name, vendor, **how) == called
            await client.aio.once_forget(name, force=True)

    asyncio.run(main())
    assert not client.lock(name).locked()


@pytest.mark.parametrize("most", [True, False])
def test_a_plain_function_of_a_task_is_called_once(
    client: holdfast.Client, name: str, most: bool
) -> None:
    calls: list[int] = []

    def vendor() -> Any:
        calls.append(1)
        return "paid"

    for _ in range(2):
        once = client.aio.once(name, vendor, ttl=TTL, at_most_once=most)
        assert asyncio.run(once) == "paid"
    assert calls == [1]


@pytest.mark.parametrize("says", [{}, {"keep": Exception}, {"not_called": Exception}])
def test_a_coroutine_of_a_thread_is_no_result(
    client: holdfast.Client, name: str, says: dict[str, Any]
) -> None:
    async def vendor() -> str:
        raise AssertionError("nothing runs it")

    once: Any = client.once
    with pytest.raises(TypeError, match="gave a coroutine"):
        once(name, lambda: vendor(), ttl=TTL, at_most_once=True, **says)
    found = client.once_result(name)
    assert found is not None
    assert found.state == "unknown"  # what else the function did


# --------------------------------------------------------------------- Results


def test_a_result_that_cannot_be_encoded_is_in_the_error(caller: Threads, name: str) -> None:
    with pytest.raises(holdfast.ResultNotKept) as told:
        caller.once(name, lambda: {"big": {1, 2}})
    kept = told.value
    assert (kept.result, kept.reason) == ({"big": {1, 2}}, "encoding")
    assert isinstance(kept.__cause__, TypeError)
    with pytest.raises(holdfast.OutcomeUnknown) as unknown:
        caller.once(name, unwanted)
    assert "not JSON serializable" in unknown.value.note
    caller.settle(kept, "resolve", [1, 2])
    assert caller.once(name, unwanted) == [1, 2]


def test_a_result_that_is_too_long_says_what_to_do(caller: Threads, name: str) -> None:
    with pytest.raises(holdfast.ResultNotKept, match="at most 1048576, by max_result") as told:
        caller.once(name, lambda: "x" * 2**20)
    assert len(told.value.result) == 2**20
    assert caller.forget(name)
    assert len(caller.once(name, lambda: "x" * 2**20, max_result=2**21)) == 2**20


@pytest.mark.redis
def test_a_result_that_the_server_cannot_keep_is_in_the_error(
    caller: Threads, name: str, raw: redis.Redis
) -> None:
    server: Any = raw

    def full() -> str:
        server.execute_command("ACL", "SETUSER", "default", "-hset")
        return "paid"

    try:
        with pytest.raises(holdfast.ResultNotKept) as told:
            caller.once(name, full)
    finally:
        server.execute_command("ACL", "SETUSER", "default", "+hset")
    assert (told.value.result, told.value.reason) == ("paid", "server")

    def is_kept() -> bool:  # the client goes on trying
        with contextlib.suppress(holdfast.OutcomeUnknown):
            return bool(caller.once(name, unwanted) == "paid")
        return False

    until(is_kept)


def test_decimals_and_dates_come_back_as_they_went(caller: Threads, name: str) -> None:
    result = {
        "sum": Decimal("1.10"),
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 10, 0, 0, 1, timezone(timedelta(hours=2))),
        "naive": [datetime(2026, 1, 31)],
        "mine": {"$decimal": "not one"},
        "more": {"$$date": {"$datetime": 3}},
        "plain": {"$other": 1, "$decimal": 2},
    }
    for call in (lambda: result, unwanted):
        made = caller.once(name, call)
        assert made == result
        assert (type(made["sum"]), type(made["day"])) == (Decimal, date)
    raw = caller.client.once_result(name, decode=bytes)
    assert raw is not None
    assert b'"sum":{"$decimal":"1.10"},"day":{"$date":"2026-01-31"}' in raw.result


# ------------------------------------------------------------------ Fingerprints


def test_other_arguments_are_refused(caller: Threads, name: str) -> None:
    args = {"amount": Decimal(5), "to": "ä"}
    assert caller.once(name, lambda: 1, args=args) == 1
    assert caller.once(name, unwanted, args=dict(reversed(args.items()))) == 1
    assert caller.once(name, unwanted) == 1  # a caller without arguments
    with pytest.raises(holdfast.FingerprintMismatch, match="with other arguments"):
        caller.once(name, unwanted, args={"amount": 6})
    with pytest.raises(holdfast.FingerprintMismatch):
        caller.once(name, unwanted, args=b"bytes")


def test_both_modes_of_one_name_are_refused(caller: Threads, name: str) -> None:
    assert caller.once(name, lambda: 1) == 1
    with pytest.raises(holdfast.FingerprintMismatch, match="at most once"):
        caller.once(name, unwanted, at_most_once=False)


# ----------------------------------------------------------------------- Errors


@pytest.mark.parametrize("most", [True, False])
def test_an_error_that_is_kept_is_told_to_all(caller: Threads, name: str, most: bool) -> None:
    original = Expired("card 4711")
    with pytest.raises(Expired) as first:
        caller.once(name, raises(original), keep=CardDeclined, at_most_once=most)
    assert first.value is original
    with pytest.raises(Expired, match="^card 4711$") as second:
        caller.once(name, unwanted, keep=(KeyError, CardDeclined), at_most_once=most)
    assert isinstance(second.value.__cause__, holdfast.KeptError)
    with pytest.raises(holdfast.KeptError, match="failed: Expired: card 4711") as other:
        caller.once(name, unwanted, at_most_once=most)
    assert (other.value.type, other.value.message) == ("Expired", "card 4711")
    found = caller.look(name)
    assert (found.state, found.error.message) == ("failed", "card 4711")


def test_an_error_that_is_not_made_of_a_message_is_told_with_its_data(
    caller: Threads, name: str
) -> None:
    with pytest.raises(Coded):
        caller.once(name, raises(Coded(3)), keep=CardDeclined)
    with pytest.raises(holdfast.KeptError) as told:
        caller.once(name, unwanted, keep=CardDeclined)
    assert (told.value.type, told.value.data) == ("Coded", {"code": 3})


def test_a_function_says_what_is_kept(caller: Threads, name: str) -> None:
    with pytest.raises(ValueError, match="no"):
        caller.once(
            name, raises(ValueError("no")), keep=lambda raised: str(raised) == "no", keep_ttl=3600
        )
    with pytest.raises(holdfast.KeptError):
        caller.once(name, unwanted)
    assert 3000 < caller.look(name).ttl <= 3600


@pytest.mark.parametrize("which", ["keep", "not_called"])
@pytest.mark.parametrize("say", [lambda raised: bool(1 / 0), lambda raised: asyncio.sleep(0)])
def test_a_function_that_fails_to_say_leaves_an_unknown_outcome(
    caller: Threads, name: str, which: str, say: Callable[[Exception], Any]
) -> None:
    with pytest.raises(ValueError, match="no"):
        caller.once(name, raises(ValueError("no")), **{which: say})
    with pytest.raises(holdfast.OutcomeUnknown):
        caller.once(name, unwanted)


@pytest.mark.parametrize("which", ["keep", "not_called", "encode", "decode"])
def test_a_coroutine_function_is_refused_before_the_call(
    caller: Threads, name: str, which: str
) -> None:
    with pytest.raises(TypeError, match=f"{which} must be a plain function"):
        caller.once(name, unwanted, **{which: asyncio.sleep})


def test_a_call_that_was_not_made_passes_the_turn_on(caller: Threads, name: str) -> None:
    with pytest.raises(ConnectionRefusedError):
        caller.once(name, raises(ConnectionRefusedError()), not_called=ConnectionRefusedError)
    assert caller.look(name).state == "retry"
    assert caller.once(name, lambda: 2) == 2


# ------------------------------------------------------------------------ Turns


def test_a_turn_ends_as_its_caller_says(caller: Threads, name: str) -> None:
    def finish(turn: Any) -> Any:
        assert turn.outcome is None
        assert turn.hold.fence > 0
        yield "finish", 1
        with pytest.raises(holdfast.LockNotOwnedError):
            _ = turn.hold

    caller.turn(name, finish)
    seen = []

    def look(turn: Any) -> list[Any]:
        seen.append(turn.outcome.result)
        return []

    caller.turn(name, look)
    assert seen == [1]
    for end, state in (
        ([("withdraw",)], "retry"),
        ([("unknown", "why")], "unknown"),
        ([("fail", CardDeclined("no"))], "failed"),
        ([], "unknown"),
    ):
        caller.forget(name)
        caller.turn(name, functools.partial(said, end))
        assert caller.look(name).state == state


def test_a_turn_that_raises_ends_as_its_terms_say(caller: Threads, name: str) -> None:
    def fail(turn: Any) -> Any:
        raise CardDeclined("no")

    for terms, state in (
        ({"keep": CardDeclined}, "failed"),
        ({"not_called": CardDeclined}, "retry"),
        ({}, "unknown"),
    ):
        with pytest.raises(CardDeclined):
            caller.turn(name, fail, **terms)
        assert caller.look(name).state == state
        caller.forget(name)


def test_a_turn_of_the_other_mode_passes_on(caller: Threads, name: str) -> None:
    caller.turn(name, lambda turn: [], at_most_once=False)
    caller.turn(name, lambda turn: [("withdraw",)], at_most_once=False)
    assert caller.look(name) is None
    caller.turn(name, lambda turn: [("finish", 3)], at_most_once=False)
    assert caller.once(name, unwanted, at_most_once=False) == 3


# ------------------------------------------------------------------- Exceptions


def test_exceptions_go_to_other_processes(caller: Threads, name: str) -> None:
    unknown = lose(caller, name)
    copy = pickle.loads(pickle.dumps(unknown))
    assert (str(copy), copy.fence, copy.note) == (str(unknown), unknown.fence, unknown.note)
    with pytest.raises(RuntimeError, match="another process"):
        copy.retry()
    caller.forget(name)
    with pytest.raises(holdfast.ResultNotKept) as told:
        caller.once(name, lambda: {1})
    copy = pickle.loads(pickle.dumps(told.value))
    assert (copy.result, copy.reason) == ({1}, "encoding")
    with pytest.raises(RuntimeError, match="another process"):
        copy.resolve(1)


def test_a_hundred_threads_call_at_most_once(client: holdfast.Client, name: str) -> None:
    calls: list[int] = []
    ready = threading.Barrier(20)

    def vendor() -> str:
        calls.append(1)
        return "paid"

    def ask() -> str:
        ready.wait()
        return client.once(name, vendor, ttl=TTL, at_most_once=True)

    threads = [Thread(ask) for _ in range(20)]
    assert [thread.finish() for thread in threads] == ["paid"] * 20
    assert calls == [1]


@pytest.mark.parametrize("kind", [Threads, Tasks])
def test_a_result_is_kept_when_the_server_is_back(kind: type[Threads], name: str) -> None:
    server = holdfast.testing.MemoryServer()
    with holdfast.testing.MemoryClient(server) as client:
        caller = kind(client)

        def call() -> str:
            server.stop()
            return "paid"

        with pytest.raises(holdfast.ResultNotKept) as told:
            caller.once(name, call)
        assert (told.value.result, told.value.reason) == ("paid", "unreachable")
        with pytest.raises(holdfast.ConnectError):
            caller.once(name, unwanted)
        server.start()
        assert caller.once(name, unwanted) == "paid"


@pytest.mark.parametrize("kind", [Threads, Tasks])
def test_no_call_is_made_without_a_server(kind: type[Threads], name: str) -> None:
    server = holdfast.testing.MemoryServer()
    with holdfast.testing.MemoryClient(server) as client:
        server.stop()
        with pytest.raises(holdfast.ConnectError):
            kind(client).once(name, unwanted)
        server.start()
        assert kind(client).once(name, lambda: 1) == 1

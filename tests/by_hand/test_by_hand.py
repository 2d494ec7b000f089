"""The faults of each lock that is written by hand, which its replacement does not have.

examples/by_hand/README.md has them in a table.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

import holdfast
from conftest import BUILD, BY_HAND, Worker, Workers, until

WAYS = ["healing", "token", "result", "thread", "reentrant"]
LONG = 60_000  # ms: a lease that does not end during a test
pytestmark = pytest.mark.timeout(300)  # for the first test Maven downloads libraries
WRONG: dict[str, set[str]] = {}


def wrong(*ways: str) -> Callable[[Callable[..., None]], Any]:
    """Run a test for these kinds of lock, by hand and replaced."""

    def mark(test: Callable[..., None]) -> Any:
        WRONG[test.__name__] = set(ways)
        kinds = pytest.mark.parametrize("kind", ["", "-replaced"], ids=["by hand", "replaced"])
        return pytest.mark.parametrize("way", ways)(kinds(test))

    return mark


class Pair:
    """Two processes, one lock."""

    def __init__(self, workers: Workers, raw: redis.Redis, way: str, kind: str, key: str) -> None:
        self.language = "python" if way in ("token", "result") else "java"
        self.a, self.b = workers.two(self.language)
        self.workers = workers
        self.raw = raw
        self.by_hand = not kind
        self.way = way
        self.kind = way + kind
        self.key = key
        # By hand it may be short, but EXPIRE takes whole seconds. The replacement must renew it.
        self.short = 500 if kind else 1000 if way in ("healing", "result") else 300

    def enter(self, worker: Worker, lease: int = LONG) -> None:
        worker.tell("enter", self.kind, self.key, lease)

    def wait(self, client: holdfast.Client, worker: Worker, waiters: int = 1) -> None:
        """Let waiters enter, and wait until all have asked and wait."""
        before = worker.proxy.asked
        for _ in range(waiters):
            self.enter(worker)
        if not self.by_hand:
            until(lambda: client.lock(self.key).inspect().waiters == waiters)
        elif self.way == "reentrant":  # it also subscribes, once
            until(lambda: worker.proxy.asked == before + waiters + 1)
            until(lambda: self.raw.pubsub_numsub(self.key) == [(self.key.encode(), 2)])
        else:
            until(lambda: worker.proxy.asked >= before + waiters)
        assert worker.silent()


@pytest.fixture
def pair(workers: Workers, raw: redis.Redis, way: str, kind: str, key: str) -> Pair:
    return Pair(workers, raw, way, kind, key)


@wrong("healing", "result")
def test_a_crash_between_setnx_and_expire(pair: Pair, raw: redis.Redis) -> None:
    """The key has no TTL."""
    a, b = pair.a, pair.b
    a.proxy.hold(b"EXPIRE" if pair.by_hand else pair.key.encode())
    pair.enter(a, 1000)
    assert a.proxy.found.wait(20)
    if not pair.by_hand:  # there is nothing in between: kill it when the server has its request
        a.proxy.go()
        until(lambda: raw.pttl(pair.key) > 0)
    a.kill()
    if not pair.by_hand:
        pair.enter(b)
        assert b.hear() == "in"
        b.tell("leave", "x")
        assert b.hear().startswith("out")
        return
    assert raw.ttl(pair.key) == -1
    before = b.proxy.asked
    pair.enter(b)
    if pair.way == "healing":  # only the callers' clocks end it, now and always
        assert b.hear() == "in"
        assert raw.ttl(pair.key) == -1
        assert b.ask("leave") == "out"
    else:  # no caller makes the call, and all wait for its result
        until(lambda: b.proxy.asked > before + 20)
        assert b.silent()
        assert raw.ttl(pair.key) == -1


@wrong("healing")
def test_a_caller_whose_clock_is_ahead(
    pair: Pair, client: holdfast.Client, raw: redis.Redis, tmp_path: Any
) -> None:
    """The caller takes a lock that is held."""
    hour = tmp_path / "hour"
    hour.write_bytes((3600).to_bytes(8, "little"))
    clock = {
        "LD_PRELOAD": str(BUILD / "tests/libtest_step.so"),
        "HOLDFAST_TEST_CLOCK": str(hour),
    }
    b = pair.workers.start(pair.language, **clock)
    try:
        b.is_ready()
        pair.enter(pair.a)
        assert pair.a.hear() == "in"
        if pair.by_hand:
            pair.enter(b)
            assert b.hear() == "in"  # both are inside
            assert pair.a.ask("leave") == "out"
        else:
            pair.wait(client, b)
            assert pair.a.ask("leave") == "out"
            assert b.hear() == "in"
    finally:
        b.kill()


def ends(pair: Pair, raw: redis.Redis) -> None:
    """Wait for the lease to end: a healing lock that asks at that moment can lock itself out."""
    until(lambda: not raw.exists(pair.key))


@wrong("healing", "token", "result", "thread", "reentrant")
def test_work_that_takes_longer_than_the_expiry(
    pair: Pair, client: holdfast.Client, raw: redis.Redis
) -> None:
    """Another caller gets the lock, or makes the call as well and gets another result."""
    a, b = pair.a, pair.b
    lease = pair.short if pair.by_hand else 4000  # 2700 ms of it may pass without a renewal
    pair.enter(a, lease)
    assert a.hear() == "in"
    if pair.by_hand:
        ends(pair, raw)
        pair.enter(b)
        assert b.hear() == "in"  # both are inside
        for each, result in ((a, "1"), (b, "2")):
            said = each.ask("leave", result)
            assert pair.way != "result" or said == f"out {result}"
        return
    fence = client.lock(pair.key).inspect().fence
    pair.wait(client, b)
    end = time.monotonic() + 1.1 * lease / 1000
    until(lambda: time.monotonic() > end)
    assert b.silent()
    assert client.lock(pair.key).inspect().fence == fence
    a.tell("leave", "1")
    if pair.way == "result":
        assert (a.hear(), b.hear()) == ("out 1", "out 1")
    else:
        assert (a.hear(), b.hear(), b.ask("leave")) == ("out", "in", "out")


@wrong("healing", "thread")
def test_a_release_that_comes_late(pair: Pair, raw: redis.Redis) -> None:
    """The late release releases the lock of another caller."""
    a, b = pair.a, pair.b
    pair.enter(a, pair.short)
    assert a.hear() == "in"
    a.proxy.hold(b"\r\nDEL\r\n" if pair.by_hand else b"")
    a.tell("leave")
    assert a.proxy.found.wait(20)
    ends(pair, raw)
    pair.enter(b)
    assert b.hear() == "in"
    a.proxy.go()
    assert a.hear() == ("out" if pair.by_hand else "LockLostException")
    assert raw.exists(pair.key) == (not pair.by_hand)  # b is inside
    assert b.ask("leave") == "out"


@wrong("healing", "token", "thread", "reentrant")
def test_a_holder_that_was_paused(pair: Pair, raw: redis.Redis) -> None:
    """The paused holder writes after the next one: there is no fence."""
    a, b = pair.a, pair.b
    pair.enter(a, pair.short)
    assert a.hear() == "in"
    a.signal(signal.SIGSTOP)
    try:
        ends(pair, raw)
        pair.enter(b)
        assert b.hear() == "in"
        assert b.ask("write", "new") == "written"
    finally:
        a.signal(signal.SIGCONT)
    assert a.ask("write", "old") == ("written" if pair.by_hand else "refused")
    assert raw.get(f"{{{pair.key}}}:data") == (b"old" if pair.by_hand else b"new")
    said = a.ask("leave")
    assert pair.by_hand or said in ("LockLost", "LockLostException")
    assert b.ask("leave") == "out"


@wrong("healing", "token", "result", "thread", "reentrant")
def test_waiters_that_all_ask(pair: Pair, client: holdfast.Client) -> None:
    """Each waiter polls, or all ask at each release."""
    a, b, waiters = pair.a, pair.b, 8
    pair.enter(a)
    assert a.hear() == "in"
    pair.wait(client, b, waiters)
    before, asked = b.proxy.commands, b.proxy.asked
    if pair.by_hand and pair.way != "reentrant":  # nothing happens, and they ask
        until(lambda: b.proxy.asked >= asked + 5 * waiters)
    a.tell("leave", "x")
    assert a.hear().startswith("out")
    if pair.way == "result":
        assert {b.hear() for _ in range(waiters)} == {"out x"}
    else:
        assert b.hear() == "in"
        if pair.by_hand:  # one got the lock, and all have asked
            until(lambda: b.proxy.asked >= asked + waiters)
        for _ in range(waiters - 1):
            assert sorted([b.ask("leave"), b.hear()]) == ["in", "out"]
        assert b.ask("leave") == "out"
    if not pair.by_hand:
        assert b.proxy.commands - before <= 3 * waiters


@wrong("healing", "token", "thread", "reentrant")
def test_the_order_of_arrival(pair: Pair, client: holdfast.Client) -> None:
    """A later caller gets the lock first."""
    a, b = pair.a, pair.b
    pair.enter(a)
    assert a.hear() == "in"
    pair.wait(client, b)
    b.proxy.hold()  # b is on its way to ask again
    if pair.by_hand and pair.way != "reentrant":
        assert b.proxy.found.wait(20)
    assert a.ask("leave") == "out"
    pair.enter(a)
    if pair.by_hand:
        assert a.hear() == "in"
        assert b.silent()
        b.proxy.go()
        assert (a.ask("leave"), b.hear()) == ("out", "in")
        assert b.ask("leave") == "out"
    else:
        until(lambda: client.lock(pair.key).inspect().waiters == 1)
        assert a.silent()
        b.proxy.go()
        assert b.hear() == "in"
        assert (b.ask("leave"), a.hear(), a.ask("leave")) == ("out", "in", "out")


@wrong("thread")
def test_two_locks_of_one_thread(pair: Pair, raw: redis.Redis) -> None:
    """The first lock stays locked."""
    pair.a.tell("enter", pair.kind, f"{pair.key},{pair.key}:inner", LONG)
    assert pair.a.hear() == "in"
    assert pair.a.ask("leave") == "out"
    assert raw.exists(pair.key) == pair.by_hand
    assert not raw.exists(f"{pair.key}:inner")


@wrong("result")
def test_a_call_that_fails(pair: Pair, client: holdfast.Client, raw: redis.Redis) -> None:
    """All other callers wait until the expiry."""
    a, b = pair.a, pair.b
    pair.enter(a)
    assert a.hear() == "in"
    pair.wait(client, b)
    assert a.ask("fail") == "ValueError"
    if pair.by_hand:
        before = b.proxy.asked
        until(lambda: b.proxy.asked > before + 20)
        assert b.silent()
        assert raw.get(pair.key) == b"working"
    else:
        assert b.hear() == "in"
        assert b.ask("leave", "x") == "out x"


@wrong("result")
def test_a_crash_between_getset_and_expire(pair: Pair, raw: redis.Redis) -> None:
    """The result stays for ever."""
    a, b = pair.a, pair.b
    pair.enter(a)
    assert a.hear() == "in"
    a.proxy.hold(b"EXPIRE" if pair.by_hand else pair.key.encode())
    a.tell("leave", "x")
    assert a.proxy.found.wait(20)
    if not pair.by_hand:  # there is nothing in between: kill it before it has the answer
        a.proxy.go()
        assert a.hear() == "out x"
    a.kill()
    pair.enter(b)
    assert b.hear() == "out x"
    endless = [name for name in raw.scan_iter(f"*{pair.key}*") if raw.ttl(name) == -1]
    assert endless == ([pair.key.encode()] if pair.by_hand else [])


# -------------------------------------------------------------------- The table


def test_the_table_has_what_is_shown_here() -> None:
    rows = re.findall(r"^\|.*\| `(test_\w+)` \|$", BY_HAND.joinpath("README.md").read_text(), re.M)
    assert rows == list(WRONG)
    for row in re.findall(
        r"^\|(.*)\| `(test_\w+)` \|$", BY_HAND.joinpath("README.md").read_text(), re.M
    ):
        cells = [cell.strip() for cell in row[0].split("|")[1:]]
        marked = {way for way, cell in zip(WAYS, cells, strict=True) if cell == "✗"}
        assert marked == WRONG[row[1]], row[1]


def test_the_page_shows_the_files() -> None:
    shown = re.findall(
        r"^```\w+\n(.*?)^```$", BY_HAND.joinpath("README.md").read_text(), re.M | re.S
    )
    files = [each.read_text() for each in BY_HAND.iterdir() if each.suffix in (".py", ".java")]
    assert len(shown) >= 5
    for block in shown:
        assert any(block.strip("\n") in file for file in files), block

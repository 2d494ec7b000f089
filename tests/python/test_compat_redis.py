"""The lock with redis-py's interface, beside redis-py's own: the same calls, the same results."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import time
import weakref
from typing import Any

import pytest
import redis
import redis.lock
from redis.backoff import NoBackoff
from redis.retry import Retry

import holdfast
import holdfast.compat.redis as compat
import holdfast.testing
from conftest import Server, Thread, elsewhere, until

Client = redis.Redis


@pytest.fixture(params=[redis.lock.Lock, compat.Lock], ids=["redis-py", "holdfast"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_it_takes_and_answers_what_redis_py_does(raw: Client, name: str, kind: Any) -> None:
    lock = raw.lock(name, timeout=10, lock_class=kind)
    assert isinstance(lock, kind)
    assert lock.locked() is False
    assert lock.owned() is False
    assert lock.acquire() is True
    assert lock.locked() is True
    assert lock.owned() is True
    assert lock.acquire(blocking=False) is False  # not reentrant
    assert lock.extend(10) is True
    assert 15_000 < raw.pttl(name) <= 20_000
    assert lock.extend(30, replace_ttl=True) is True
    assert 25_000 < raw.pttl(name) <= 30_000
    assert lock.reacquire() is True
    assert 5_000 < raw.pttl(name) <= 10_000
    assert lock.release() is None
    assert lock.locked() is False
    assert lock.owned() is False
    assert raw.exists(name) == 0


def test_a_constructor_of_positions_means_the_same(raw: Client, name: str, kind: Any) -> None:
    lock = kind(raw, name, 7, 0.01, False, 3, False, False)
    assert (lock.timeout, lock.sleep, lock.blocking, lock.blocking_timeout) == (7, 0.01, False, 3)
    assert (lock.redis, lock.name, lock.thread_local) == (raw, name, False)
    other = kind(raw, name)
    assert other.acquire(0.01, False, 1, "token") is True
    assert lock.acquire() is False  # without waiting
    other.release()


def test_making_one_asks_nobody(kind: Any) -> None:
    nowhere = redis.Redis(port=1, retry=Retry(NoBackoff(), 0))
    kind(nowhere, "x")
    with pytest.raises(redis.exceptions.ConnectionError):
        kind(nowhere, "x").acquire()


@pytest.mark.parametrize(
    "arguments",
    [
        {"blocking": False},
        {"blocking_timeout": 0},
        {"blocking_timeout": 0.05},
        {"blocking_timeout": -1},
        {"blocking": True, "blocking_timeout": 0.05, "sleep": 0.01},
        {"blocking": False, "blocking_timeout": 9},
        {"blocking": False, "token": "mine"},
    ],
)
def test_a_held_lock_is_not_had(
    raw: Client, name: str, kind: Any, arguments: dict[str, Any]
) -> None:
    holder, lock = kind(raw, name, timeout=10), kind(raw, name, timeout=10)
    assert holder.acquire() is True
    began = time.monotonic()
    assert lock.acquire(**arguments) is False
    assert time.monotonic() - began < 5
    assert lock.owned() is False
    holder.release()
    assert lock.acquire(**arguments) is True
    lock.release()


def asked(raw: Client) -> int:
    """Return the number of the server's commands that can take a lock."""
    counted = raw.info("commandstats")
    ways = ("set", "eval", "evalsha")
    return sum(counted.get(f"cmdstat_{way}", {"calls": 0})["calls"] for way in ways)


def test_a_wait_ends_with_the_release(raw: Client, name: str, kind: Any) -> None:
    holder = kind(raw, name, timeout=20)
    holder.acquire()
    lock = kind(raw, name, timeout=20, blocking_timeout=20, thread_local=False)
    before = asked(raw)
    waiting = Thread(lock.acquire)
    until(lambda: asked(raw) > before)
    holder.release()
    assert waiting.finish() is True
    lock.release()


def test_reacquire_sets_an_end_that_somebody_changed(raw: Client, name: str, kind: Any) -> None:
    lock = kind(raw, name, timeout=10)
    assert lock.acquire(blocking=False)
    assert raw.pexpire(name, 5000)
    assert 3000 < raw.pttl(name) <= 5000
    assert lock.reacquire()
    assert 8000 < raw.pttl(name) <= 10_000
    lock.release()


@pytest.mark.parametrize("method", ["release", "reacquire", "extend"])
def test_who_does_not_hold_is_refused(raw: Client, name: str, kind: Any, method: str) -> None:
    arguments = [1] if method == "extend" else []
    lock = kind(raw, name, timeout=10)
    for _ in range(2):
        with pytest.raises(redis.exceptions.LockError) as caught:
            getattr(lock, method)(*arguments)
        assert not isinstance(caught.value, redis.exceptions.LockNotOwnedError)
        lock.acquire()
        lock.release()


@pytest.mark.parametrize("method", ["release", "reacquire", "extend"])
def test_who_has_lost_it_does_not_own_it(raw: Client, name: str, kind: Any, method: str) -> None:
    arguments = [1] if method == "extend" else []
    lock = kind(raw, name, timeout=10)
    lock.acquire()
    raw.delete(name)
    assert lock.owned() is False
    with pytest.raises(redis.exceptions.LockNotOwnedError) as caught:
        getattr(lock, method)(*arguments)
    assert str(caught.value) == f"Cannot {method} a lock that's no longer owned"
    assert caught.value.lock_name == name


def test_an_outage_is_not_told_as_a_lock_that_is_no_longer_owned(name: str) -> None:
    with contextlib.ExitStack() as clients:
        with holdfast.testing.redis_server() as url:
            store = redis.Redis.from_url(url)
            clients.enter_context(compat.connect(store))
            lock = compat.Lock(store, name, timeout=60)
            lock.acquire()
        for call in (lambda: lock.extend(1), lock.release):
            with pytest.raises(redis.exceptions.ConnectionError, match="cannot reach"):
                call()


@pytest.mark.parametrize("method", ["reacquire", "extend"])
def test_what_has_no_timeout_cannot_be_extended(
    raw: Client, name: str, kind: Any, method: str
) -> None:
    with kind(raw, name) as lock, pytest.raises(redis.exceptions.LockError, match="no timeout"):
        getattr(lock, method)(*[1] if method == "extend" else [])


def test_an_expired_lock_is_anybody_s(raw: Client, name: str, kind: Any) -> None:
    first, second = kind(raw, name, timeout=0.1), kind(raw, name, timeout=10)
    first.acquire()
    assert second.acquire(blocking_timeout=20) is True
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        first.release()
    assert second.owned() is True
    second.release()


def test_with_is_entered_and_left(raw: Client, name: str, kind: Any) -> None:
    lock = kind(raw, name, timeout=10, blocking_timeout=0.01)
    with lock as entered:
        assert entered is lock
        assert lock.owned() is True
        with pytest.raises(redis.exceptions.LockError, match="within the time"):
            kind(raw, name, blocking_timeout=0.01).__enter__()
    assert lock.locked() is False


def test_with_says_that_the_lock_was_lost(
    raw: Client, name: str, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(redis.exceptions.LockNotOwnedError), kind(raw, name, timeout=10):
        raw.delete(name)
    with (
        caplog.at_level(logging.WARNING),
        kind(raw, name, timeout=10, raise_on_release_error=False) as lock,
    ):
        lock.release()
    assert len(caplog.records) == 1


def test_another_thread_releases_only_without_thread_local(
    raw: Client, name: str, kind: Any
) -> None:
    lock = kind(raw, name, timeout=10, thread_local=False)
    lock.acquire()
    assert elsewhere(lock.owned) is True
    elsewhere(lock.release)
    assert lock.locked() is False

    lock = kind(raw, name, timeout=10)
    lock.acquire()
    with pytest.raises((redis.exceptions.LockError, AttributeError)):  # a slip of redis-py
        elsewhere(lock.release)
    lock.release()


def test_names_are_encoded_as_the_client_does(server: Server, name: str, kind: Any) -> None:
    for given in (name, name.encode(), "ä" + name):
        for more in ({}, {"decode_responses": True}, {"encoding": "latin-1"}):
            raw: Any = redis.Redis.from_url(server.tcp, **more)
            with raw, kind(raw, given, timeout=10) as lock:
                assert raw.exists(given) == 1
                assert lock.owned() is True


@pytest.mark.parametrize("other", [redis.lock.Lock, compat.Lock], ids=["redis-py", "holdfast"])
def test_a_fleet_may_move_one_by_one(raw: Client, name: str, kind: Any, other: Any) -> None:
    counter = name + ":counter"

    def work(of: Any) -> None:
        for _ in range(25):
            with raw.lock(name, timeout=10, sleep=0.001, lock_class=of):
                raw.set(counter, int(raw.get(counter) or 0) + 1)

    threads = [Thread(lambda of=of: work(of)) for of in (kind, other) * 2]  # type: ignore[misc]
    for thread in threads:
        thread.finish()
    assert int(raw.get(counter) or 0) == 100


# ----------------------------------------------------------- Only in this lock


def test_a_lock_without_timeout_is_renewed_and_ends_with_its_object(raw: Client, name: str) -> None:
    lock = compat.Lock(raw, name)
    client = compat.connect(raw)
    before = client.stats().renewed
    lock.acquire()
    assert 0 < raw.pttl(name) <= 10_000
    until(lambda: client.stats().renewed > before)
    assert lock.owned()
    with pytest.warns(ResourceWarning, match="without release"):
        del lock
        gc.collect()


def test_a_token_is_the_holder_s_name(raw: Client, name: str) -> None:
    lock = compat.Lock(raw, name, timeout=10)
    lock.acquire(token="me")
    assert compat.connect(raw).lock(name).inspect().owner == "me"
    assert compat.Lock(raw, name, timeout=10).acquire(blocking=False, token="me") is False
    lock.release()


def test_one_client_for_each_pool(server: Server, raw: Client) -> None:
    assert compat.connect(raw) is compat.connect(raw)
    beside = redis.Redis(connection_pool=raw.connection_pool)
    assert compat.connect(beside) is compat.connect(raw)
    with redis.Redis.from_url(server.tcp) as other:
        assert compat.connect(other) is not compat.connect(raw)
        ready = threading.Barrier(8)

        def connect() -> object:
            ready.wait(20)
            return compat.connect(other)

        threads = [Thread(connect) for _ in range(8)]
        assert {id(thread.finish()) for thread in threads} == {id(compat.connect(other))}


def test_a_client_goes_with_its_pool_and_releases_nothing(
    server: Server, raw: Client, name: str
) -> None:
    theirs = redis.Redis.from_url(server.tcp)
    lock = compat.Lock(theirs, name)
    lock.acquire()
    client = compat.connect(theirs)
    seen = weakref.ref(theirs.connection_pool)
    theirs.close()
    with pytest.warns(ResourceWarning, match="without release"):
        del lock, theirs
        gc.collect()
    assert seen() is None
    with pytest.raises(holdfast.ClosedError):
        client.lock(name)
    assert raw.exists(name) == 1


def test_addresses_are_found(server: Server, raw: Client, name: str) -> None:
    known: Any = raw.connection_pool.connection_kwargs
    path = server.unix.removeprefix("unix://")
    user = f"us/er:{name}"
    raw.acl_setuser(
        user,
        enabled=True,
        passwords=["+pa:ss@wo/rd%"],
        commands=["+@all"],
        keys=["*"],
        channels=["*"],
    )
    login: Any = {"username": user, "password": "pa:ss@wo/rd%"}
    provider = redis.UsernamePasswordCredentialProvider(**login)
    try:
        for theirs in (
            redis.Redis(host=known["host"], port=known["port"]),
            redis.Redis(host=known["host"], port=known["port"], db=3),
            redis.Redis.from_url(server.tcp, db=3, socket_timeout=1, socket_connect_timeout=1),
            redis.Redis(host=known["host"], port=known["port"], db=2, **login),
            redis.Redis(host=known["host"], port=known["port"], credential_provider=provider),
            redis.Redis(unix_socket_path=path),
            redis.Redis(unix_socket_path=path, db=3, **login),
            redis.Redis.from_url(server.unix + "?db=3"),
        ):
            with theirs, theirs.lock(name, timeout=5, lock_class=compat.Lock):
                assert theirs.exists(name) == 1
        wrong = redis.Redis(unix_socket_path=path, username=user, password="wrong")
        with wrong, pytest.raises(redis.exceptions.AuthenticationError):
            compat.Lock(wrong, name).acquire()
    finally:
        raw.acl_deluser(user)


def test_what_is_not_supported_says_so() -> None:
    with pytest.raises(holdfast.UnsupportedError, match="redis[+]cluster://"):
        compat.connect(object())
    with pytest.raises(holdfast.UnsupportedError, match="redis[+]cluster://"):
        compat.Lock(object(), "x").acquire()


def test_waiters_are_served_without_polling(raw: Client, name: str) -> None:
    with compat.Lock(raw, name):
        lock = compat.Lock(raw, name, thread_local=False, sleep=30)
        waiting = Thread(lock.acquire)
        until(lambda: compat.connect(raw).lock(name).inspect().waiters)
    assert waiting.finish() is True
    lock.release()

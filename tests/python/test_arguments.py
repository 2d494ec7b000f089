"""Names, owners and leases, good and bad."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import redis

import holdfast

STRANGE = [
    b"NUL\0inside",
    b"\0",
    b" ",
    b" spaces and\ttabs\r\n",
    b"\xff\xfe not UTF-8 \x80",
    "Müller 鍵 🔒".encode(),
    b"{tag} and {another}",
    b"{ and {{",
    b"percent %s %00 %n",
    b"x" * 4096,
]


@pytest.mark.parametrize("strange", STRANGE)
def test_names_are_kept_byte_for_byte(
    strange: bytes, client: holdfast.Client, raw: redis.Redis
) -> None:
    lock = client.lock(strange)
    as_text = client.lock(strange.decode("utf-8", "surrogateescape"))
    with lock as hold:
        assert raw.exists(strange)
        assert as_text.inspect().fence == hold.fence
        assert as_text.acquire(owner="another", blocking=False) is False
        repr(lock)
        repr(hold)
    assert not raw.exists(strange)
    assert lock.name == strange


@pytest.mark.parametrize("strange", STRANGE)
def test_owners_are_kept_byte_for_byte(
    strange: bytes, client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    lock = client.lock(name, owner=strange)
    with lock:
        assert list(raw.hgetall(name).values()) == [strange]
        owner = lock.inspect().owner
        assert owner is not None
        assert owner.encode("utf-8", "surrogateescape") == strange
        assert client.lock(name, owner=owner).acquire(blocking=False) is True


@pytest.mark.parametrize("wrong", ["", b"", "x" * 4097, "ü" * 2049, b"x" * 4097])
def test_names_and_owners_must_be_of_1_to_4096_bytes(
    wrong: str | bytes, client: holdfast.Client, lock: holdfast.Lock, name: str
) -> None:
    with pytest.raises(ValueError, match=r"name (is empty|.*4096)"):
        client.lock(wrong)
    with pytest.raises(ValueError, match=r"owner.*4096"):
        client.lock(name, owner=wrong)
    for call in (lock.acquire, lock.hold, lock.release):
        with pytest.raises(ValueError, match=r"owner.*4096"):
            call(owner=wrong)
    assert not lock.locked()


@pytest.mark.parametrize("wrong", [None, 1, bytearray(b"x"), memoryview(b"x"), ["x"]])
def test_names_and_owners_must_be_str_or_bytes(
    wrong: Any, client: holdfast.Client, lock: holdfast.Lock, name: str
) -> None:
    with pytest.raises(TypeError, match="name must be str or bytes"):
        client.lock(wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="owner must be str or bytes"):
            client.lock(name, owner=wrong)
        with pytest.raises(TypeError, match="owner must be str or bytes"):
            lock.acquire(owner=wrong)


def test_a_lone_surrogate_is_no_text(client: holdfast.Client) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        client.lock("\ud800")


@pytest.mark.parametrize("reserved", ["x:hf1:q", "{x}x:hf1:f", "x:hf12:d", ":hf1:q"])
def test_names_of_the_locks_own_keys_are_refused(reserved: str, client: holdfast.Client) -> None:
    with pytest.raises(ValueError, match=":hf"):
        client.lock(reserved)


@pytest.mark.parametrize("wrong", ["}{", "a}b", "{}", "x{}y{z}"])
def test_names_whose_keys_could_be_those_of_another_are_refused(
    wrong: str, client: holdfast.Client
) -> None:
    with pytest.raises(ValueError, match="no {tag}"):
        client.lock(wrong)


@pytest.mark.parametrize("allowed", ["x:hf1:qq", "x:hf:q", "hf1:q", "x:hf1:", "x:hf1:1"])
def test_names_that_only_look_like_the_locks_own_keys_are_allowed(
    allowed: str, client: holdfast.Client
) -> None:
    with client.lock(allowed):
        pass


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    "wrong",
    [
        *(0, 0.0, -0.0, -1, -0.001, -10, 0.009, 0.00999),
        *(315_360_001, 1e18, 1e300, 10**30, NAN, INFINITY, -INFINITY),
    ],
)
def test_a_lease_must_be_from_10_ms_to_10_years(
    wrong: float, client: holdfast.Client, name: str
) -> None:
    with pytest.raises(ValueError, match=r"lease must be from 0\.01 to 315360000 seconds"):
        client.lock(name, lease=wrong)


@pytest.mark.parametrize("wrong", ["10", b"10", [10], object(), True, False])
def test_a_lease_must_be_a_number(wrong: Any, client: holdfast.Client, name: str) -> None:
    with pytest.raises(TypeError, match="lease must be seconds, a number or a timedelta, not"):
        client.lock(name, lease=wrong)


@pytest.mark.parametrize("lease", [10, 0.5, 315_360_000, Decimal("2.5"), None, ...])
def test_a_lease_is_kept(lease: Any, client: holdfast.Client, name: str, raw: redis.Redis) -> None:
    with client.lock(name, lease=lease):
        asked = {None: -1, ...: 10_000}.get(lease) or int(lease * 1000)
        assert asked - 400 < raw.pttl(name) <= asked


def test_the_shortest_lease_is_10_ms(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name, lease=0.01, renew=False)
    try:
        with lock as hold:
            assert hold.fence > 0
    except holdfast.LockLost:
        pass  # on a busy machine


def test_the_lock_knows_what_it_was_given(client: holdfast.Client) -> None:
    lock = client.lock("a name", owner=b"an owner")
    assert (lock.name, lock.owner) == ("a name", b"an owner")
    assert client.lock(b"a name").owner is None
    with pytest.raises(AttributeError):
        lock.lease = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", ["5", [], object()])
def test_a_timeout_must_be_a_number(wrong: Any, lock: holdfast.Lock) -> None:
    for call in (lock.acquire, lock.hold):
        with pytest.raises(TypeError, match="timeout must be seconds, a number or a timedelta"):
            call(timeout=wrong)
    assert not lock.locked()


@pytest.mark.parametrize("wrong", [-1, 2**63, -(2**63) - 1])
def test_a_fence_that_cannot_be_breaks_nothing(wrong: int, lock: holdfast.Lock) -> None:
    with lock as hold:
        with pytest.raises((ValueError, OverflowError)):
            lock.force_release(wrong)
        hold.check()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"lease": "10"}, "lease must be seconds, a number or a timedelta, not '10'"),
        ({"renew": "yes"}, "renew must be True, False or None, not 'yes'"),
        ({"reentrant": "no"}, "reentrant must be True or False, not 'no'"),
        ({"reentrant": None}, "reentrant must be True or False, not None"),
        ({"heal": 1}, "heal must be True or False, not 1"),
        ({"max_hold": "60"}, "max_hold must be seconds, a number or a timedelta, not '60'"),
        ({"replicas": 1.5}, "replicas must be a whole number, not 1.5"),
        ({"replicas": True}, "replicas must be a whole number, not True"),
        ({"permits": True}, "permits must be a whole number, not True"),
        ({"replica_timeout": "1"}, "replica_timeout must be seconds, a number or a timedelta"),
        ({"on_lost": 5}, "on_lost must be a function, not 5"),
        ({"on_lost": asyncio.sleep}, "on_lost must be a plain function, not "),
        ({"raise_on_lost": "no"}, "raise_on_lost must be True or False, not 'no'"),
        ({"owner": 7}, "owner must be str or bytes, not 7"),
        ({"sleep": 1}, "unexpected keyword argument 'sleep'"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_value(
    wrong: dict[str, Any], said: str, client: holdfast.Client
) -> None:
    for make in (
        holdfast.LockOptions,
        lambda **options: client.lock("x", **options),
        lambda **options: client.lock("x", holdfast.LockOptions(lease=5), **options),
        lambda **options: client.aio.lock("x", **options),
        lambda **options: client.locked("x", **options),
    ):
        with pytest.raises(TypeError) as caught:
            make(**wrong)
        assert said in str(caught.value)
        assert "HF_" not in str(caught.value)


def test_wrong_arguments_of_calls_are_refused_by_name(lock: holdfast.Lock) -> None:
    wrong: Any = "no"
    awaited: Any = asyncio.sleep
    with lock.hold() as hold:
        for call, said in (
            (lambda: hold.extend(wrong), "seconds must be seconds, a number or a timedelta"),
            (lambda: hold.extend(5, wrong), "replace must be True or False"),
            (lambda: lock.extend(5, wrong), "replace must be True or False"),
            (lambda: hold.lost.wait(wrong), "timeout must be seconds"),
            (lambda: lock.hold(on_lost=wrong), "on_lost must be a function"),
            (lambda: lock.hold(on_lost=awaited), "on_lost must be a plain function"),
            (lambda: lock.hold(raise_on_lost=wrong), "raise_on_lost must be True or False"),
            (lambda: lock.adopt(wrong), "token must be bytes, not 'no'"),
            (lambda: lock.force_release(wrong), "fence must be a whole number, not 'no'"),
            (lambda: lock.force_release(1, foreign=wrong), "foreign must be True or False"),
        ):
            with pytest.raises(TypeError) as caught:
                call()
            assert said in str(caught.value)


def test_a_wait_for_a_loss_takes_no_nan(client: holdfast.Client, name: str) -> None:
    hold = client.lock(name, lease=0.5, renew=False).hold()
    with pytest.raises(ValueError, match="timeout must be a number of seconds, not nan"):
        hold.lost.wait(NAN)
    assert hold.lost.wait(10)


def test_a_duration_may_be_a_timedelta(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    minute, moment = timedelta(minutes=1), timedelta(milliseconds=20)
    lock = client.lock(name, lease=minute, max_hold=4 * minute)
    with lock.hold(moment) as hold:
        assert 58_000 < raw.pttl(name) <= 60_000
        hold.extend(minute)
        assert raw.pttl(name) > 110_000
        hold.extend(moment * 100, replace=True)
        assert raw.pttl(name) <= 2000
        assert lock.acquire(timeout=moment, owner="stranger") is False
        assert hold.lost.wait(moment) is False
        assert asyncio.run(client.aio.lock(name).acquire(timeout=moment)) is False

    @client.locked(name, timeout=moment)
    def work() -> None: ...

    work()


def test_options_are_shared_and_changed(
    client: holdfast.Client, name: str, raw: redis.Redis
) -> None:
    options = holdfast.LockOptions(lease=60, owner="worker")
    with client.lock(name, options):
        assert 50_000 < raw.pttl(name) <= 60_000
    with client.lock(name, options, lease=30) as hold:
        assert 20_000 < raw.pttl(name) <= 30_000
        assert client.lock(name).inspect().owner == "worker"
        assert hold.valid

    @client.locked(name, options=options)
    def work() -> int:
        return raw.pttl(name)

    async def main() -> int:
        async with client.aio.lock(name, options):
            return raw.pttl(name)

    assert 50_000 < work() <= 60_000
    assert 50_000 < asyncio.run(main()) <= 60_000
    wrong: Any = 10
    for make in (client.lock, client.aio.lock):
        with pytest.raises(TypeError, match="options must be LockOptions, not 10"):
            make(name, wrong)


def test_the_options_by_name_are_those_of_the_class() -> None:
    from holdfast._options import LockChanges

    assert LockChanges.__annotations__.keys() == holdfast.LockOptions.__annotations__.keys()
    assert {
        name: getattr(kind, "__forward_arg__", kind)
        for name, kind in LockChanges.__annotations__.items()
    } == holdfast.LockOptions.__annotations__

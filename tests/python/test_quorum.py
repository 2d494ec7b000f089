"""Several masters: the same program, with another URL."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator

import pytest
import redis

import holdfast
from conftest import MASTERS, until

pytestmark = pytest.mark.redis


def test_a_lock_is_held_at_all_masters(quorum: str, masters: list[str], name: str) -> None:
    with holdfast.connect(quorum) as client, holdfast.connect(quorum) as other:
        lock = client.lock(name)
        with lock as hold:
            fence = hold.fence
            with lock as inner:
                assert inner.fence == fence
            assert not other.lock(name).acquire(timeout=0)
            assert not other.lock(name).acquire(timeout=0.05)
            hold.renew()
            assert hold.valid
            until(lambda: hold.votes == (MASTERS, MASTERS))
        assert hold.votes == (0, MASTERS)
        with other.lock(name) as hold:
            assert hold.fence > fence
    for master in masters:
        with redis.Redis.from_url(master) as raw:
            assert raw.exists(name) == 0
            assert int(raw.get(f"{{{name}}}{name}:hf1:f")[:16]) >= fence


def test_tasks_hold_it_one_after_the_other(quorum: str, name: str) -> None:
    inside = 0
    fences: list[int] = []

    async def work(client: holdfast.Client) -> None:
        nonlocal inside
        async with client.aio.lock(name) as hold:
            inside += 1
            assert inside == 1
            fences.append(hold.fence)
            assert MASTERS // 2 < hold.votes[0] <= hold.votes[1] == MASTERS
            await asyncio.sleep(0)
            inside -= 1

    async def main() -> None:
        with holdfast.connect(quorum) as client:
            await asyncio.gather(*(work(client) for _ in range(8)))

    asyncio.run(main())
    assert len(fences) == 8
    assert fences == sorted(set(fences))


def test_what_needs_one_server_is_refused(quorum: str, name: str) -> None:
    with holdfast.connect(quorum) as client:
        wrongs: list[Callable[[], object]] = [
            lambda: client.lock(name).shared().acquire(timeout=0),
            lambda: client.lock(name, lease=None).acquire(timeout=0),
            lambda: client.lock(name, replicas=1).acquire(timeout=0),
        ]
        for wrong in wrongs:
            with pytest.raises(holdfast.UnsupportedError):
                wrong()


def test_trouble_of_a_minority_trouble_of_a_majority_and_a_loss_are_told(
    quorum: str, masters: list[str], name: str
) -> None:
    told: list[holdfast.Trouble] = []
    after = 0

    def hear(kind: str, words: str) -> holdfast.Trouble:
        """Wait for the next report of this kind; on a machine that stands still there are others,
        too."""
        nonlocal after

        def found() -> list[int]:
            return [
                at
                for at in range(after, len(told))
                if told[at].kind == kind and words in told[at].message
            ]

        until(found)
        after = found()[0] + 1
        return told[after - 1]

    hasty = quorum.replace("connect_timeout=20", "connect_timeout=2")
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(redis.Redis.from_url(each)) for each in masters]
        for server in servers:
            stack.callback(server.client_unpause)
        client = stack.enter_context(
            holdfast.connect(hasty, command_timeout=0.5, on_trouble=told.append)
        )
        hold = client.lock(name, lease=3).hold(timeout=5)
        until(lambda: hold.votes == (MASTERS, MASTERS))
        servers[0].client_pause(60000, all=False)
        hear("failover", "does not renew; the other masters have 1 hold")
        assert hold.valid
        servers[1].client_pause(60000, all=False)
        majority = hear("at_risk", "fewer than a majority of the 3 masters renew 1 hold, which")
        assert hold.lost.wait(20)
        for server in servers:
            server.client_unpause()
        with client.lock(name, lease=3):
            hear("over", "a majority of the 3 masters renews again")
            hear("failover", "all 3 masters renew again")
    assert majority.holds == 1
    assert majority.ends_in is not None
    assert 0 <= majority.ends_in <= 3


def is_up(raw: redis.Redis) -> bool:
    return int(raw.info("server")["uptime_in_seconds"]) > 2


@pytest.fixture
def short(masters: list[str]) -> Iterator[str]:
    """Return the URL of all masters, with a quarantine of a second."""
    places = ",".join(master.removeprefix("redis://") for master in masters)
    for master in masters:
        with redis.Redis.from_url(master) as raw:
            until(functools.partial(is_up, raw))
            raw.delete("hf1:members")
    yield f"redis+quorum://{places}?quarantine=1"
    for master in masters:
        with redis.Redis.from_url(master) as raw:
            raw.delete("hf1:members")


def test_a_period_longer_than_the_quarantine_is_refused_before_the_work(
    short: str, name: str
) -> None:
    with holdfast.connect(short) as client:
        lock = client.lock(name)  # its lease is the quarantine
        with pytest.raises(ValueError, match="longer than the quarantine"):
            lock.hold(timeout=5, at_least=2)
        assert not lock.owned()
        with pytest.raises(ValueError, match="longer than the quarantine"):
            client.locks_all(name, f"{name} too").hold(timeout=5, at_least=2)
        assert not lock.locked()

        async def main() -> None:
            with pytest.raises(ValueError, match="longer than the quarantine"):
                await client.aio.lock(name, lease=1).hold(timeout=5, at_least=2)

        asyncio.run(main())
        lock.hold(timeout=5, at_least=1).release()


def test_a_leader_whose_lease_is_longer_than_the_quarantine_is_refused(
    short: str, name: str
) -> None:
    with holdfast.connect(short) as client:
        for make in (client.leader, client.aio.leader):
            with pytest.raises(ValueError, match="10000 ms.* longer than the quar.* 1000"):
                make(name, elected=print)
        elected = threading.Event()
        with client.leader(name, lambda fence: elected.set(), lease=1) as leader:
            assert elected.wait(20)
            assert leader.is_leader


def test_a_wrong_list_is_refused(masters: list[str]) -> None:
    host = masters[0].removeprefix("redis://")
    with pytest.raises(ValueError, match="a quorum takes 3 to 9"):
        holdfast.connect(f"redis+quorum://{host}")
    with pytest.raises(ValueError, match="names one master of the quorum twice"):
        holdfast.connect(f"redis+quorum://{host},{host},{host}")

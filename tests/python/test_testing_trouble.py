"""holdfast.testing.trouble(): what can happen to a lock's holder, in memory and on a Redis."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.testing
from conftest import until
from holdfast.testing import MemoryClient, redis_server, trouble


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture(params=["memory", "redis"])
def client(request: pytest.FixtureRequest, url: str) -> Iterator[holdfast.Client]:
    with MemoryClient() if request.param == "memory" else holdfast.connect(url) as client:
        yield client


def work(client: holdfast.Client, name: str) -> type[BaseException] | None:
    try:
        with client.lock(name).hold(timeout=10) as hold:
            hold.lost.wait(0.2)
    except holdfast.LockError as error:
        return type(error)
    return None


def test_each_kind_is_what_the_holder_sees(client: holdfast.Client, name: str) -> None:
    written: list[int] = []
    for kind, seen in (
        ("lost", holdfast.LockLost),
        ("stolen", holdfast.LockLost),
        ("unknown", holdfast.LockUnknown),
        ("late", None),
    ):
        kinds: Any = [kind]
        write = lambda name, fence: written.append(fence)  # noqa: E731
        with trouble(client, 7, chance=1, kinds=kinds, on_stolen=write) as made:
            assert work(client, name) is seen
        (struck,) = made.made
        assert struck[:2] == (kind, name)
        assert struck.fence > 0
        if kind == "stolen":
            assert written[0] > struck.fence
    until(lambda: not client.lock(name).locked())
    assert work(client, name) is None
    assert len(written) == 1


def test_an_outage_ends_after_a_second(client: holdfast.Client, name: str) -> None:
    with trouble(client, 1, chance=1, kinds=["outage"]) as made:
        seen = work(client, name)
    assert [each.kind for each in made.made] == ["outage"]
    assert seen is (holdfast.ConnectError if isinstance(client, MemoryClient) else None)
    until(lambda: work(client, name) is None)


def test_tasks_meet_it_too(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        lock = client.aio.lock(name)
        with trouble(client, 3, chance=1, kinds=["unknown"]), pytest.raises(holdfast.LockUnknown):
            await lock.acquire(timeout=10)
        with (
            trouble(client, 3, chance=1, kinds=["stolen"]),
            pytest.raises(holdfast.LockLost),
        ):
            async with lock.hold(10, cancel_on_lost=True):
                await asyncio.sleep(30)

    asyncio.run(main())


def test_the_same_seed_makes_the_same_choices(name: str) -> None:
    def choices(seed: int) -> list[str]:
        with MemoryClient() as client, trouble(client, seed, kinds=["late", "unknown"]) as made:
            for number in range(20):
                work_quickly(client, f"{name}:{number}")
        return [each.kind for each in made.made]

    assert choices(5) == choices(5)
    assert len({tuple(choices(seed)) for seed in range(4)}) > 1


def work_quickly(client: holdfast.Client, name: str) -> None:
    with contextlib.suppress(holdfast.LockUnknown):
        client.lock(name).hold(10).release()


def test_other_clients_meet_none_and_arguments_are_checked(name: str) -> None:
    with MemoryClient() as mine, MemoryClient() as other:
        with trouble(mine, 0, chance=1):
            assert work(other, name) is None
        wrong: Any
        for wrong in ({"kinds": []}, {"kinds": ["soon"]}, {"chance": 2}):
            with pytest.raises(ValueError, match="must be"), trouble(mine, 0, **wrong):
                raise AssertionError


FIXTURE = """
def test_sell(holdfast_client, holdfast_trouble):
    for number in range(30):
        try:
            holdfast_client.lock(f"stock:{number}").hold(10).release()
        except OSError:
            pass
    raise AssertionError(len(holdfast_trouble.made))
"""


def test_the_fixture_shows_its_seed(tmp_path: Path) -> None:
    tmp_path.joinpath("test_it.py").write_text(FIXTURE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=50,
        cwd=tmp_path,
        env={**os.environ, "HOLDFAST_SEED": "11"},
    )
    assert done.returncode == 1
    assert "HOLDFAST_SEED=11 makes it again" in done.stdout, done.stdout

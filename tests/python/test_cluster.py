"""Locks on a Redis Cluster: three masters on loopback."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import redis

import holdfast
from conftest import Thread, queue, until

MASTERS = 3
SLOTS = 16384


def node_port() -> int:
    """A port whose partner for the nodes' bus is free too."""
    while True:
        port = random.randrange(10000, 22000)
        try:
            with (
                socket.create_server(("127.0.0.1", port)),
                socket.create_server(("127.0.0.1", port + 10000)),
            ):
                return port
        except OSError:
            continue


def says(node: Any, words: str, what: str) -> bool:
    try:
        return what in str(node.execute_command(*words.split()))
    except redis.ConnectionError:
        return False


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """A client of redis-py for each of them."""
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        nodes: list[Any] = []
        for index in range(MASTERS):
            port = node_port()
            options = f"--port {port} --cluster-enabled yes --cluster-config-file {index}"
            process = subprocess.Popen(
                ["redis-server", *options.split(), "--bind", "127.0.0.1", "--save", ""],
                cwd=folder,
                stdout=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            node: Any = redis.Redis("127.0.0.1", port)
            stack.callback(node.close)
            nodes.append(node)
            until(partial(says, node, "PING", "True"))
            first, after = index * SLOTS // MASTERS, (index + 1) * SLOTS // MASTERS
            node.execute_command("CLUSTER ADDSLOTS", *range(first, after))
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", index + 1)
            if index > 0:
                nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", port)
        for node in nodes:
            until(partial(says, node, "CLUSTER INFO", "cluster_state:ok"))
        yield nodes


@pytest.fixture
def url(nodes: list[Any]) -> str:
    places = [f"127.0.0.1:{node.connection_pool.connection_kwargs['port']}" for node in nodes]
    return f"redis+cluster://{','.join(places[:2])}"


def owner(nodes: list[Any], name: str) -> Any:
    """The node that serves the lock."""
    slot = nodes[0].execute_command("CLUSTER KEYSLOT", name)
    return nodes[slot * MASTERS // SLOTS]


def waits(node: Any, name: str) -> bool:
    return bool(node.zcount(queue(name), 0, 2**53) == 1)


def test_locks_of_all_slots_are_held_waited_for_and_handed_over(nodes: list[Any], url: str) -> None:
    names = [f"cluster-{number}" for number in range(12)]
    assert len({id(owner(nodes, name)) for name in names}) == MASTERS
    with holdfast.connect(url) as client, holdfast.connect(url) as other:
        for name in names:
            with client.lock(name).hold() as hold:
                assert owner(nodes, name).type(name) == b"hash"
                waiting = Thread(partial(other.lock(name).hold, timeout=10))
                until(partial(waits, owner(nodes, name), name))
            won: Any = waiting.finish()
            assert won.fence > hold.fence
            won.release()


def test_tasks_wait_on_all_slots_at_once(url: str) -> None:
    inside = dict.fromkeys(range(9), 0)

    async def enter(client: holdfast.Client, number: int) -> None:
        async with client.aio.lock(f"task-{number}"):
            assert inside[number] == 0
            inside[number] += 1
            await asyncio.sleep(0.001)
            inside[number] -= 1

    async def work() -> None:
        with holdfast.connect(url) as client:
            await asyncio.gather(*[enter(client, number) for number in range(9) for _ in range(5)])

    asyncio.run(work())


def test_a_database_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="only the database 0"):
        holdfast.connect(f"{url}/1")

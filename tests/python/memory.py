"""`pytest --memory`: the behaviour tests, with clients in memory in place of a Redis.

A test that needs something that only Redis has is skipped when it asks for it.
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

import pytest
import redis

import holdfast
from holdfast.testing import MemoryClient, MemoryServer

# The files of these tests; the other files test the server, the connection or the process.
BEHAVIOURS = {
    "test_aio.py",
    "test_alarm.py",
    "test_arguments.py",
    "test_lock.py",
    "test_locked.py",
    "test_gate.py",
    "test_later.py",
    "test_logging.py",
    "test_lost.py",
    "test_notes.py",
    "test_owners.py",
    "test_paid.py",
    "test_results.py",
    "test_several.py",
    "test_shared.py",
    "test_stats.py",
    "test_threading.py",
}


class Raw:
    """Looks at a memory server as redis.Redis looks at a real one, without the library."""

    def __init__(self, server: MemoryServer) -> None:
        self._space = server._space

    def exists(self, *names: str | bytes) -> int:
        with self._space:
            return sum(self._held(name) for name in names)

    def _held(self, name: str | bytes) -> bool:
        key = self._space.key(self._bytes(name))
        return key is not None and bool(key.queue if self._queue(name) else key.grants)

    def _queue(self, name: str | bytes) -> bool:
        return re.fullmatch(rb"\{(.*)\}\1:hf1:q", self._encoded(name), re.DOTALL) is not None

    def _encoded(self, name: str | bytes) -> bytes:
        return name.encode() if isinstance(name, str) else name

    def _bytes(self, name: str | bytes) -> bytes:
        queue = re.fullmatch(rb"\{(.*)\}\1:hf1:q", self._encoded(name), re.DOTALL)
        return queue[1] if queue else self._encoded(name)

    def zcount(self, name: str, least: int, most: int) -> int:
        with self._space:
            key = self._space.key(self._bytes(name))
            return len(key.queue) if key else 0

    def pttl(self, name: str) -> int:
        with self._space:
            key = self._space.key(self._bytes(name))
            if not key or not key.grants:
                return -2
            return -1 if key.ends == math.inf else math.ceil(key.ends - self._space.now)

    def hgetall(self, name: str) -> dict[bytes, object]:
        with self._space:
            key = self._space.key(self._bytes(name))
            if not key or not key.grants:
                return {}
            return {f"h{each.id}{each.fence}".encode(): each.owner for each in key.grants.values()}

    def hget(self, name: str, field: str) -> object:
        return self.hgetall(name).get(field.encode())

    def keys(self, pattern: str) -> list[bytes]:
        with self._space:
            names = [name for name in self._space.names() if self._held(name)]
        assert pattern.count("*") == 1
        head, tail = pattern.encode().split(b"*")
        return [name for name in names if name.startswith(head) and name.endswith(tail)]

    def delete(self, *names: str) -> None:
        with self._space:
            for name in names:
                key = self._space.key(self._bytes(name))
                if key:
                    key.clear()
            self._space.wake()

    def flushall(self) -> None:
        with self._space:
            for name in self._space.names():
                self.delete(name.decode("utf-8", "surrogateescape"))

    flushdb = flushall

    def __getattr__(self, command: str) -> Any:
        pytest.skip(f"{command}: only Redis has it")


class Memory:
    """The memory server of a test run."""

    url = "memory:"

    def __init__(self) -> None:
        self._server = MemoryServer()
        self.raw = cast("redis.Redis", Raw(self._server))

    def connect(self, url: str, **options: Any) -> holdfast.Client:
        assert url == self.url
        counting = {"alarm", "on_alarm", "count_names", "names_max"}
        chosen = {name: value for name, value in options.items() if name in counting}
        return MemoryClient(self._server, **chosen)

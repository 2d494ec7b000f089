"""SET NX with an expiry, and a Lua script that deletes the key only if the token matches."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import redis

import holdfast

RELEASE = """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
"""


class TokenLock:
    def __init__(self, store: redis.Redis, key: str, expiry: float) -> None:
        self.store = store
        self.key = key
        self.expiry = expiry
        self.token = uuid.uuid4().hex

    def __enter__(self) -> None:
        while not self.store.set(self.key, self.token, nx=True, px=int(self.expiry * 1000)):
            time.sleep(0.05)

    def __exit__(self, *exception: object) -> None:
        self.store.eval(RELEASE, 1, self.key, self.token)


def in_place_of_it(lock: holdfast.Lock, work: Callable[[int], None]) -> None:
    with lock.hold() as hold:
        work(hold.fence)

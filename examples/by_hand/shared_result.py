"""The first caller makes a call that costs money; all other callers wait for its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis

import holdfast

WORKING = b"working"


def result(
    store: redis.Redis, key: str, call: Callable[[], bytes], patience: int, keep: int
) -> bytes:
    while True:
        if store.setnx(key, WORKING):
            store.expire(key, patience)  # if this process dies, another makes the call
            made = call()
            store.getset(key, made)  # in place of WORKING, for the others
            store.expire(key, keep)
            return made
        found: Any = store.get(key)
        if found not in (None, WORKING):
            return bytes(found)
        time.sleep(0.05)


def in_place_of_it(
    client: holdfast.Client, key: str, call: Callable[[], str], **options: Any
) -> str:
    return client.once(key, call, ttl=60, **options)

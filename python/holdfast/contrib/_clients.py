"""A client for each process, made on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import holdfast

Key = TypeVar("Key")


def remembered(
    clients: dict[Key, holdfast.Client], key: Key, connect: Callable[[], holdfast.Client]
) -> holdfast.Client:
    """Return the client of a key; the first call connects."""
    client = clients.get(key)
    if client is None:
        opened = connect()
        client = clients.setdefault(key, opened)
        if client is not opened:  # another thread was first
            opened.close()
    return client

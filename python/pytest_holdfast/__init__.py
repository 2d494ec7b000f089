"""pytest's fixtures of Holdfast; pytest loads this module by its entry point.

It is not part of the package holdfast, which every run of pytest would then import.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import holdfast
    import holdfast.testing


@pytest.fixture(scope="session")
def holdfast_server() -> Iterator[str]:
    """Give the URL of a Redis server for these tests alone."""
    import holdfast.testing

    with holdfast.testing.redis_server() as url:
        yield url


@pytest.fixture
def holdfast_client(holdfast_server: str) -> Iterator[holdfast.Client]:
    """Give a client of holdfast_server, which is empty when the test begins."""
    import holdfast
    from holdfast.testing import _redis

    _redis.flush(holdfast_server)
    with holdfast.connect(holdfast_server) as client:
        yield client


@pytest.fixture
def holdfast_trouble(
    request: pytest.FixtureRequest, holdfast_client: holdfast.Client
) -> Iterator[holdfast.testing.Trouble]:
    """Make trouble for holdfast_client during the test.

    The seed is HOLDFAST_SEED of the environment, or one of the test's own; a failed test shows it.
    """
    import holdfast.testing

    own = zlib.crc32(request.node.nodeid.encode())
    with holdfast.testing.trouble(
        holdfast_client, int(os.environ.get("HOLDFAST_SEED", own))
    ) as made:
        yield made
    print(f"{made!r}: HOLDFAST_SEED={made.seed} makes it again")

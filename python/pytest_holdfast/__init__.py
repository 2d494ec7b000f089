"""pytest's fixtures of Holdfast; pytest loads this module by its entry point.

It is no part of the package holdfast, which would be imported by every run of pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import holdfast


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

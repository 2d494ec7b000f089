"""holdfast on several masters: the same commands, with another URL."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Program, start_server, until

MASTERS = 3


@pytest.fixture(scope="module")
def places() -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(contextlib.contextmanager(start_server)()) for _ in range(MASTERS)
        ]
        yield ",".join(server.url.removeprefix("redis://") for server in servers)


@pytest.fixture
def cli(places: str, tmp_path: Path) -> Program:
    return Program(f"redis+quorum://{places}?quarantine=0", tmp_path)


def seen(cli: Program, name: str) -> dict[str, object]:
    return json.loads(cli("inspect", "--json", name).stdout)


def test_a_command_runs_under_a_lock_which_is_seen_and_broken(cli: Program, name: str) -> None:
    holder = cli.start("run", name, "--", "cat", stdin=subprocess.PIPE)
    until(lambda: seen(cli, name)["state"] == "exclusive")
    assert name in cli("ls").stdout
    assert cli("run", "--timeout", 0, name, "--", "true").returncode != 0
    fence = seen(cli, name)["holders"][0]["fence"]
    assert cli("break", "--yes", "--fence", fence, name).returncode == 0
    assert cli("run", name, "--", "echo", "mine").stdout == "mine\n"
    holder.communicate(timeout=30)
    assert holder.returncode != 0

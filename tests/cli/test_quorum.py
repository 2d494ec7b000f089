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


def test_each_master_is_shown(cli: Program, places: str) -> None:
    url = f"redis+quorum://{places}?quarantine=0"
    shown = cli("members")
    assert shown.returncode == 1, shown  # they keep nothing over a restart
    assert all(place in shown.stdout.splitlines() for place in places.split(","))
    assert shown.stdout.count("no append-only file, and quarantine=0") == MASTERS
    objects = [json.loads(line) for line in cli("members", "--json", url).stdout.splitlines()]
    assert [each["server"] for each in objects] == places.split(",")
    assert all(each["reached"] for each in objects)
    subjects = {finding["subject"] for finding in objects[0]["findings"]}
    assert {"version", "run", "members", "persistence", "clock"} <= subjects

    *some, last = places.split(",")
    gone = f"{last.rpartition(':')[0]}:1"
    shown = cli("members", f"redis+quorum://{','.join([*some, gone])}?quarantine=0")
    assert shown.returncode == 69
    assert f"{gone}\n  warning  reach" in shown.stdout
    refused = cli("members", "redis://localhost")
    assert (refused.returncode, refused.stdout) == (64, "")


def test_a_command_runs_once_per_period(cli: Program, name: str) -> None:
    assert cli("run", "--once-per", "1h", name, "--", "echo", "ran").stdout == "ran\n"
    assert cli("run", "--once-per", "1h", name, "--", "echo", "ran").stdout == ""


def test_the_server_is_checked_and_measured(cli: Program) -> None:
    done = cli("bench", "-s", "100ms")
    assert done.returncode == 1, done  # for the same reason
    assert "renew a lock that is held" in done.stdout
    assert cli("top", "-b", "-n", 1).returncode == 0

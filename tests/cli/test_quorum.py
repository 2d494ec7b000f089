"""holdfast on several masters: the same commands, with another URL."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from conftest import Program, start_server, until

MASTERS = 3


@contextlib.contextmanager
def started(count: int) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        start = contextlib.contextmanager(start_server)
        servers = [stack.enter_context(start()) for _ in range(count)]
        yield [server.url.removeprefix("redis://") for server in servers]


@pytest.fixture(scope="module")
def places() -> Iterator[str]:
    with started(MASTERS) as servers:
        yield ",".join(servers)


@pytest.fixture
def cli(places: str, tmp_path: Path) -> Program:
    return Program(f"redis+quorum://{places}?quarantine=0&connect_timeout=20", tmp_path)


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
    assert shown.returncode == 1, shown  # the masters keep no data over a restart
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
    latin = f"redis+quorum://{','.join(some)},{os.fsdecode(b'caf%c.invalid' % 0xE9)}:1"
    shown = cli("members", "--json", f"{latin}?quarantine=0&connect_timeout=1")
    assert shown.returncode == 69
    last = json.loads(shown.stdout.splitlines()[-1])
    assert last["server"] == "caf\ufffd.invalid:1"
    refused = cli("members", "redis://localhost")
    assert (refused.returncode, refused.stdout) == (64, "")


def test_a_master_is_replaced_step_by_step(tmp_path: Path, name: str) -> None:
    def write(*names: str) -> None:
        """Write to each master what `members` says."""
        commands = set(re.findall(r'SET (\S+) "([^"]+)"$', program(*names)("members").stdout, re.M))
        assert len(commands) == 1
        for place in names:
            with redis.Redis.from_url("redis://" + place) as server:
                server.set(*next(iter(commands)))

    def lists() -> list[bytes | None]:
        found = []
        for place in (a, b, c, d):
            with redis.Redis.from_url("redis://" + place) as server:
                found.append(server.get("hf1:members"))
        return found

    def program(*names: str) -> Program:
        url = f"redis+quorum://{','.join(names)}?quarantine=0&connect_timeout=20"
        return Program(url, tmp_path)

    with started(MASTERS + 1) as servers:
        a, b, c, d = sorted(servers)
        holder = program(a, b, c).start("run", name, "--", "cat", stdin=subprocess.PIPE)
        until(lambda: seen(program(a, b, c), name)["state"] == "exclusive")
        busy = program(a, b, c, d)("run", "--timeout", 0, name, "--", "true")
        assert busy.returncode == 1
        assert busy.stderr.startswith(
            "holdfast: warning: 4 masters bear the loss of no more than 3"
        )
        write(a, b, c, d)
        assert lists() == 4 * [f"1 0 {a},{b},{c},{d}".encode()]
        assert program(a, b, c)("run", "--timeout", 0, name, "--", "true").returncode == 1
        holder.communicate(timeout=30)
        assert holder.returncode == 0

        holder = program(a, b, c, d).start("run", name, "--", "cat", stdin=subprocess.PIPE)
        until(lambda: seen(program(b, c, d), name)["state"] == "exclusive")
        assert program(b, c, d)("run", "--timeout", 0, name, "--", "true").returncode == 1
        holder.communicate(timeout=30)
        assert holder.returncode == 0
        write(b, c, d)
        assert lists()[1:] == 3 * [f"1 0 {b},{c},{d}".encode()]
        assert program(b, c, d)("run", name, "--", "echo", "mine").stdout == "mine\n"
        refused = program(a, b, c)("run", name, "--", "echo", "mine")
        assert (refused.returncode, refused.stdout) == (64, "")
        assert "belongs to another quorum" in refused.stderr


def test_a_command_runs_once_per_period(cli: Program, name: str) -> None:
    assert cli("run", "--once-per", "1h", name, "--", "echo", "ran").stdout == "ran\n"
    assert cli("run", "--once-per", "1h", name, "--", "echo", "ran").stdout == ""


def test_the_server_is_checked_and_measured(cli: Program) -> None:
    done = cli("bench", "-s", "100ms")
    assert done.returncode == 1, done  # for the same reason
    assert "renew a lock that is held" in done.stdout
    for look in (done, cli("ls"), cli("inspect", "none"), cli("top", "-b", "-n", 1)):
        assert look.stderr.count("warning: with quarantine=0") == 1

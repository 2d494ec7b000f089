"""holdfast deadlocks: real processes that wait for one another."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

import holdfast
from conftest import PATIENT, Program, Server, until

# Holds the locks of the first argument, and on command waits for the one of the second.
PROCESS = """
import os, sys
import holdfast
client = holdfast.connect(os.environ["HOLDFAST_URL"])
holds, wants = sys.argv[1].split(","), sys.argv[2]
for name in filter(None, holds):
    client.lock(name).acquire()
print("holds", flush=True)
sys.stdin.readline()
if wants:
    client.lock(wants).acquire(timeout=float(sys.argv[3]))
    print("got it", flush=True)
sys.stdin.readline()
"""


class Owners:
    """Owners in this process."""

    def __init__(self, client: holdfast.Client) -> None:
        self.client = client
        self.threads: list[Thread] = []

    def hold(self, owner: str, name: str) -> None:
        self.client.lock(name, owner=owner).acquire()

    def wait(self, owner: str, name: str) -> None:
        lock = self.client.lock(name, owner=owner, reentrant=False)
        before = lock.inspect().waiters
        self.threads.append(Thread(target=suppressed, args=(lock.acquire,)))
        self.threads[-1].start()
        until(lambda: lock.inspect().waiters > before)

    def deadlock(self, one: str, other: str) -> None:
        """Let the owners of these two locks wait for each other."""
        self.hold(f"holds {one}", one)
        self.hold(f"holds {other}", other)
        self.wait(f"holds {one}", other)
        self.wait(f"holds {other}", one)

    def end(self) -> None:
        self.client.close()
        for thread in self.threads:
            thread.join(20)


@pytest.fixture
def owners(server: Server) -> Iterator[Owners]:
    owners = Owners(holdfast.connect(server.url + PATIENT))
    yield owners
    owners.end()


class Processes:
    """Owners that are processes."""

    def __init__(self, cli: Program, client: holdfast.Client) -> None:
        self.cli = cli
        self.client = client
        self.all: list[subprocess.Popen[str]] = []

    def start(self, holds: str, wants: str, timeout: float = -1) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, holds, wants, str(timeout)],
            env=self.cli.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.all.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        return process

    def go(self, process: subprocess.Popen[str], wants: str) -> None:
        before = self.client.lock(wants).inspect().waiters
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        until(lambda: self.client.lock(wants).inspect().waiters > before)

    def end(self) -> None:
        for process in self.all:
            process.kill()
            process.communicate()


@pytest.fixture
def processes(cli: Program, client: holdfast.Client) -> Iterator[Processes]:
    processes = Processes(cli, client)
    yield processes
    processes.end()


def suppressed(call: Callable[[], object]) -> None:
    with contextlib.suppress(holdfast.ClosedError):
        call()


def look(cli: Program, name: str, *options: str) -> list[dict[str, list[dict[str, object]]]]:
    """Return the cycles that the program prints."""
    done = cli("deadlocks", "--json", *options, f"{name}:*")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == (1 if found else 0), done.stderr
    return found


def test_a_deadlock_of_two_processes_and_the_command_that_ends_it(
    cli: Program, processes: Processes, name: str
) -> None:
    a, b = f"{name}:a", f"{name}:b"
    one, two = processes.start(a, b, 60), processes.start(b, a)
    processes.go(one, b)
    assert look(cli, name) == []
    done = cli("deadlocks", f"{name}:*")
    assert (done.returncode, done.stdout) == (0, "No deadlock.\n")
    processes.go(two, a)
    (cycle,) = look(cli, name)
    owners = cycle["owners"]
    assert {each["pid"] for each in owners} == {one.pid, two.pid}
    assert {(each["waits_for"], each["timeout_ms"]) for each in owners} == {(b, 60000), (a, None)}
    assert {each["behind"] for each in owners} == {"holder"}
    assert {each["name"] for each in cycle["breaks"]} == {a, b}
    done = cli("deadlocks", f"{name}:*")
    assert done.returncode == 1
    assert done.stdout.count("Deadlock: 2 owners wait for each other.") == 1
    assert f"/{one.pid} thread" in done.stdout
    assert look(cli, name, "--waiting-longer", "1h") == []
    assert look(cli, name, "--held-longer", "1h") == []
    assert len(look(cli, name, "--waiting-longer", "1ms")) == 1
    # As printed, in a shell.
    (command,) = [line.strip() for line in done.stdout.splitlines() if f"break {a} " in line]
    program, *arguments = shlex.split(command)
    assert program == "holdfast"
    assert cli(*arguments, "--yes").returncode == 0
    assert two.stdout is not None
    assert two.stdout.readline() == "got it\n"
    assert look(cli, name) == []


def test_a_deadlock_of_three_and_those_who_only_wait_for_it(
    cli: Program, owners: Owners, name: str
) -> None:
    a, b, c, d = (f"{name}:{each}" for each in "abcd")
    for owner, lock in (("ann", a), ("ben", b), ("cat", c), ("dan", d)):
        owners.hold(owner, lock)
    owners.wait("ann", b)
    owners.wait("ben", c)
    owners.wait("dan", a)  # not in a cycle
    for number in range(3):
        owners.wait(f"of a crowd, {number}", a)
    assert look(cli, name) == []
    owners.wait("cat", a)
    (cycle,) = look(cli, name)
    assert {each["owner"] for each in cycle["owners"]} == {"ann", "ben", "cat"}
    assert len(cycle["breaks"]) == 3


def test_two_deadlocks_are_two(cli: Program, owners: Owners, name: str) -> None:
    pairs = [(f"{name}:{i}:a", f"{name}:{i}:b") for i in range(2)]
    for pair in pairs:
        owners.deadlock(*pair)
    found = look(cli, name)
    assert len(found) == 2
    assert {frozenset(str(each["name"]) for each in cycle["breaks"]) for cycle in found} == {
        frozenset(pair) for pair in pairs
    }


def test_an_owner_that_waits_for_itself(cli: Program, owners: Owners, name: str) -> None:
    owners.hold("me", f"{name}:it")
    owners.wait("me", f"{name}:it")
    (cycle,) = look(cli, name)
    assert [each["owner"] for each in cycle["owners"]] == ["me"]
    assert "waits for itself" in cli("deadlocks", f"{name}:*").stdout


def test_a_watch_tells_each_once(cli: Program, owners: Owners, name: str) -> None:
    watch = cli.start("deadlocks", "--json", "--watch=20ms", f"{name}:*")
    owners.deadlock(f"{name}:a", f"{name}:b")
    assert watch.stdout is not None
    assert len(json.loads(watch.stdout.readline())["owners"]) == 2
    c, d = f"{name}:c", f"{name}:d"
    owners.deadlock(c, d)
    second = json.loads(watch.stdout.readline())
    assert {each["name"] for each in second["breaks"]} == {c, d}
    assert watch.poll() is None
    watch.kill()


def test_hostile_names_in_commands(cli: Program, owners: Owners, name: str) -> None:
    a, b = f"{name}:it's\x1b[31m \u202e", f"{name}:$(touch x) `y` \\"
    owners.deadlock(a, b)
    done = cli("deadlocks", f"{name}:*")
    assert done.returncode == 1
    assert all(each.isprintable() for each in set(done.stdout) - {"\n"})
    commands = [line for line in done.stdout.splitlines() if "holdfast break" in line]
    assert len(commands) == 2
    for command in commands:
        words = subprocess.run(
            ["bash", "-c", f"holdfast() {{ printf '%s\\0' \"$@\"; }}; {command}"],
            capture_output=True,
            check=True,
            cwd=cli.folder,
        ).stdout
        assert words.split(b"\0")[1].decode() in (a, b)
    assert not Path(cli.folder, "x").exists()


def test_none_is_told_that_was_never_there(cli: Program, server: Server, name: str) -> None:
    """Owners take two locks in turn, in the same order: each look sees another moment."""
    ended = Event()

    def work() -> None:
        with holdfast.connect(server.url + PATIENT) as client:
            while not ended.is_set():
                with client.lock(f"{name}:a"), client.lock(f"{name}:b"):
                    pass

    crowd = [Thread(target=work) for _ in range(3)]
    for thread in crowd:
        thread.start()
    try:
        for _ in range(20):
            assert look(cli, name) == []
    finally:
        ended.set()
        for thread in crowd:
            thread.join(20)

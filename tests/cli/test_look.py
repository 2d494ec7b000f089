"""holdfast ls, inspect and break: what an operator sees and does, on a real server."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from threading import Thread

import pytest
import redis

import holdfast
from conftest import PATIENT, PROGRAM, Program, Server, until

HOSTILE = [
    b"\x1b[31mred\x1b[0m",
    b"line\nbreak\r\tand tab",
    b"nul\0inside",
    b"\xff\xfe not utf-8 \xc2",
    "right \u202eto left".encode(),
    "c1 \u009b31m".encode(),
    b"back\\slash 'quoted' \"twice\"",
    "Gr\u00fc\u00dfe \u65e5\u672c".encode(),
    b"-starts-with-a-dash",
    b"del\x7f",
    b"x" * 300,
    "combining e\u0301".encode(),
]


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def raw_name(row: dict[str, object], key: str = "name") -> bytes:
    if f"{key}_hex" in row:
        return bytes.fromhex(str(row[f"{key}_hex"]))
    return str(row[key]).encode()


# ---------------------------------------------------------------------- set


def test_set_stores_a_limit_that_ls_and_inspect_show(
    cli: Program, client: holdfast.Client, name: str
) -> None:
    done = cli("set", name, "--permits", "2")
    assert (done.returncode, done.stdout) == (0, f"{name}: 2 permits; before: no limit\n")
    for pattern in (f"{name}*", "*"):
        assert re.search(rf"^{name} +free 0/2 ", cli("ls", pattern).stdout, re.M)
    assert rows(cli("ls", name, "--json").stdout)[0]["permits"] == 2
    with client.lock(name).shared():
        assert "shared 1/2" in cli("ls", name).stdout
        assert "Limit: 2 permits" in cli("inspect", name).stdout
        refused = cli("run", "-n", "--permits", "9", name, "--", "true")
        assert refused.returncode not in (0, 1)
        assert "has 2 permits, and this acquire gives 9" in refused.stderr
        assert cli("run", "-n", "--permits", "2", name, "--", "true").returncode == 0
    done = cli("set", name, "--rate", "10/1m")
    assert done.stdout == f"{name}: 10 in 1m00s; before: 2 permits\n"
    assert rows(cli("inspect", name, "--json").stdout)[0]["per_ms"] == 60000
    assert "before: 10 in 1m" in cli("set", name, "--no-limit").stdout
    assert not rows(cli("ls", name, "--json").stdout)


@pytest.mark.parametrize(
    "words", [[], ["--permits", "0"], ["--permits", "1", "--no-limit"], ["--rate", "10"]]
)
def test_set_refuses_what_is_no_limit(cli: Program, name: str, words: list[str]) -> None:
    assert cli("set", name, *words).returncode == 64


# ----------------------------------------------------------------------- ls


def test_ls_lists_holders_and_waiters(
    cli: Program, client: holdfast.Client, name: str, waiting: Callable[..., None]
) -> None:
    with client.lock(f"{name}:a"), client.lock(f"{name}:b", owner="ben", lease=None) as hold:
        waiting(f"{name}:b", "cat", 30)
        done = cli("ls", f"{name}:*")
        assert (done.returncode, done.stderr) == (0, "")
        head, *lines = done.stdout.splitlines()
        assert head.split() == ["NAME", "STATE", "HELD", "ENDS", "WAIT", "FIRST", "HOLDER"]
        one, two = lines  # sorted by name
        assert one.startswith(f"{name}:a")
        assert f"{socket.gethostname()}/{os.getpid()} thread" in one
        assert re.search(r":b +exclusive +\d+m?s +never +1 +\d+m?s +ben$", two)
        found = rows(cli("ls", "--json", f"{name}:*").stdout)
        by_name = {str(each["name"]): each for each in found}
        assert set(by_name) == {f"{name}:a", f"{name}:b"}
        (holder,) = by_name[f"{name}:b"]["holders"]  # type: ignore[misc]
        assert holder["owner"] == "ben"
        assert holder["fence"] == hold.fence
        assert holder["remaining_ms"] is None
        assert holder["mode"] == "exclusive"
        assert holder["holds"] == 1
        (waiter,) = by_name[f"{name}:b"]["waiters"]  # type: ignore[misc]
        assert (waiter["owner"], waiter["timeout_ms"]) == ("cat", 30000)
        (holder,) = by_name[f"{name}:a"]["holders"]  # type: ignore[misc]
        assert (holder["host"], holder["pid"]) == (socket.gethostname(), os.getpid())
        assert holder["client"] == "holdfast"
        assert holder["thread"] > 0


def test_ls_of_nothing_prints_nothing(cli: Program, name: str) -> None:
    done = cli("ls", f"{name}*")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ls_filters_by_time(
    cli: Program, client: holdfast.Client, name: str, waiting: Callable[..., None]
) -> None:
    with client.lock(f"{name}:old"), client.lock(f"{name}:waited-for"):
        waiting(f"{name}:waited-for", "cat")
        until(lambda: client.lock(f"{name}:waited-for").inspect().queue[0].waited > 0.3)
        with client.lock(f"{name}:new"):

            def names(*options: str) -> set[str]:
                found = rows(cli("ls", "--json", *options, f"{name}:*").stdout)
                return {str(each["name"]).rpartition(":")[2] for each in found}

            assert names("--held-longer", "1h") == set()
            assert names("--held-longer", "300ms") >= {"old", "waited-for"}
            assert names("--waiting-longer", "0.3") == {"waited-for"}
            assert names("--waiting-longer", "1h") == set()
            assert names() == {"old", "waited-for", "new"}


def test_other_keys_are_not_listed_and_foreign_locks_are_marked(
    cli: Program, raw: redis.Redis, name: str, waiting: Callable[..., None]
) -> None:
    raw.set(f"{name}:string", "x")
    raw.hset(f"{name}:hash", mapping={"a": 1, "b": 2})
    raw.hset(f"{name}:redisson", "8743c9c0-0795-4907-87fd-6c719a6b4586:77", 1)
    raw.set(f"{name}:waited-for", "token")
    waiting(f"{name}:waited-for", "cat")
    found = rows(cli("ls", "--json", f"{name}:*").stdout)
    assert {str(each["name"]).rpartition(":")[2]: each["state"] for each in found} == {
        "redisson": "foreign",
        "waited-for": "foreign",
    }
    assert cli("ls", f"{name}:*").stdout.count("foreign") == 2
    assert "another library's lock" in cli("inspect", f"{name}:string").stdout
    raw.delete(f"{name}:waited-for")


def test_names_and_owners_never_reach_the_terminal_raw(
    cli: Program, client: holdfast.Client, name: str
) -> None:
    names = {name.encode() + b":" + each for each in HOSTILE}
    for each in names:
        client.lock(each, owner=each[len(name) + 1 :]).acquire()
    for encoding in ("C.UTF-8", "C"):
        cli.environment["LC_ALL"] = encoding
        for options in (["ls"], ["ls", "--json"]):
            done = subprocess.run(
                [PROGRAM, *options, f"{name}:*"],
                env=cli.environment,
                capture_output=True,
                timeout=50,
            )
            assert done.returncode == 0
            assert len(done.stdout.splitlines()) == len(names) + (options == ["ls"])
            text = done.stdout.decode()  # UTF-8, whatever the names are
            seen = set(text) - {"\n"}
            assert all(each.isprintable() for each in seen), sorted(seen)
            if encoding == "C" or "--json" in options:
                assert text.isascii()
            else:
                assert "Gr\u00fc\u00dfe \u65e5\u672c" in text
            assert "\u202e" not in text
    found = rows(cli("ls", "--json", f"{name}:*").stdout)
    assert {raw_name(each) for each in found} == names
    owners = {raw_name(each["holders"][0], "owner") for each in found}  # type: ignore[index]
    assert owners == set(HOSTILE)
    # Each name can be given to the other commands.
    for each in names:
        done = cli("inspect", "--json", "--hex", each.hex())
        assert done.returncode == 0
        assert raw_name(json.loads(done.stdout)) == each
        assert cli("break", "--hex", each.hex(), "--yes").returncode == 0
    assert cli("ls", f"{name}:*").stdout == ""


class Terminal:
    """The program on a terminal with 80 columns."""

    def __init__(self, cli: Program, *arguments: str, columns: int = 80) -> None:
        self.fd, theirs = pty.openpty()
        subprocess.run(["stty", "cols", str(columns), "rows", "24"], stdin=theirs, check=True)
        self.process = cli.start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.text = ""

    def until(self, what: str) -> None:
        end = time.monotonic() + 20
        while what not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self.fd], [], [], 0.1)[0]:
                self.text += os.read(self.fd, 65536).decode()

    def answer(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def finish(self) -> int:
        try:
            while data := os.read(self.fd, 65536):
                self.text += data.decode()
        except OSError:  # it has ended
            pass
        os.close(self.fd)
        return self.process.wait(20)


def test_ls_fits_80_columns_and_shows_its_progress(
    cli: Program, client: holdfast.Client, name: str
) -> None:
    locks = [client.lock(f"{name}:{'long ' * 20}{i}") for i in range(60)]
    for lock in locks:
        lock.acquire()
    cli.environment["LC_ALL"] = "C.UTF-8"
    terminal = Terminal(cli, "ls", "--rate", "100", f"{name}:*")
    assert terminal.finish() == 0
    assert re.search(r"\d+% of +\d+ keys, +\d+ locks", terminal.text), terminal.text
    shown = re.sub(r"[^\n]*\r\x1b\[K", "", terminal.text.replace("\r\n", "\n"))
    lines = shown.splitlines()
    assert len(lines) == 61, shown
    assert all(len(line) <= 80 for line in lines)
    assert all("\u2026" in line for line in lines[1:])


def test_ls_of_a_server_that_is_not_there(cli: Program) -> None:
    done = cli("ls", "--url", "redis://127.0.0.1:1?connect_timeout=0.2")
    assert done.returncode == 69
    assert "cannot reach" in done.stderr


def test_ls_without_the_permission_says_so(cli: Program, raw: redis.Redis) -> None:
    raw.execute_command("ACL", "SETUSER", "noscan", "on", "nopass", "~*", "&*", "+@all", "-scan")
    url = cli.environment["HOLDFAST_URL"].replace("redis://", "redis://noscan:x@")
    done = cli("ls", "--url", url)
    raw.execute_command("ACL", "DELUSER", "noscan")
    assert done.returncode == 76
    assert "; missing: +scan\n" in done.stderr
    assert "not all locks of" in done.stderr


# ------------------------------------------------------------------ inspect


def test_inspect_shows_all_holders_and_waiters(
    cli: Program, client: holdfast.Client, name: str, waiting: Callable[..., None]
) -> None:
    lock = client.lock(name)
    with lock as hold, lock:
        waiting(name, "ben", 30)
        waiting(name, "cat")
        done = cli("inspect", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{name}: held exclusively" in done.stdout
        assert f"fence {hold.fence}" in done.stdout
        assert "2 holds" in done.stdout
        assert re.search(r"1\. ben\n +exclusive, has waited \d+m?s of 30s\n", done.stdout)
        assert re.search(r"2\. cat\n +exclusive, has waited \d+m?s\n", done.stdout)
        assert max(map(len, done.stdout.splitlines())) <= 80
        (row,) = rows(cli("inspect", "--json", name).stdout)
        assert (row["holds"], row["waiting"]) == (2, 2)
        assert cli("inspect", "--held-longer", "1h", name).returncode == 1
        assert cli("inspect", "--held-longer", "1ms", name).returncode == 0
    assert cli("inspect", f"{name}:free").stdout == f"{name}:free: free\n"


def test_inspect_pages_through_a_long_queue(
    cli: Program, client: holdfast.Client, server: Server, name: str
) -> None:
    many = 130
    lock = client.lock(name)

    def wait(owner: str) -> None:
        with contextlib.suppress(holdfast.ClosedError):
            crowd.lock(name, owner=owner).acquire()

    with lock, holdfast.connect(server.url + PATIENT) as crowd:
        threads = [Thread(target=wait, args=(f"w{i}",)) for i in range(many)]
        for thread in threads:
            thread.start()
        until(lambda: lock.inspect().waiters == many)
        (row,) = rows(cli("inspect", "--json", name).stdout)
        waiters = row["waiters"]
        assert isinstance(waiters, list)
        assert len({each["owner"] for each in waiters}) == many
        assert f"{many}. w" in cli("inspect", name).stdout
        crowd.close()
        for thread in threads:
            thread.join(20)


# -------------------------------------------------------------------- break


def test_break_takes_the_lock_from_the_holder_it_names(
    cli: Program, client: holdfast.Client, name: str, waiting: Callable[..., None]
) -> None:
    hold = client.lock(name, owner="ann").hold()
    waiting(name, "ben")
    done = cli("break", "--yes", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Took the lock {name} away from ann" in done.stdout
    assert str(hold.fence) in done.stdout
    assert "1 waiter" in done.stdout
    with pytest.raises(holdfast.LockLost):
        hold.check()


def test_break_checks_the_fence(cli: Program, client: holdfast.Client, name: str) -> None:
    first = client.lock(name, owner="ann").hold()
    first.release()
    with client.lock(name, owner="ben", raise_on_lost=False).hold() as hold:
        done = cli("break", "--yes", "--fence", first.fence, name)
        assert (done.returncode, done.stdout) == (1, "")
        assert "has another holder now" in done.stderr
        assert "ben" in done.stderr
        hold.check()
        done = cli("break", "--yes", "--json", "--fence", hold.fence, name)
        assert done.returncode == 0
        assert json.loads(done.stdout)["owner"] == "ben"
        done = cli("break", "--yes", name)
        assert done.returncode == 1
        assert "is free" in done.stderr
        with pytest.raises(holdfast.LockLost):
            hold.check()


def test_break_asks_and_the_lock_may_have_gone_on_meanwhile(
    cli: Program, client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name, owner="ann")
    hold = lock.hold()
    for answer in ("\n", "n\n", "yess\n", "\x04"):
        terminal = Terminal(cli, "break", name)
        terminal.until("? [y/N] ")
        assert f"Take the lock {name} away from ann" in terminal.text
        terminal.answer(answer)
        assert terminal.finish() == 1
        assert "nothing was done" in terminal.text
    hold.check()
    terminal = Terminal(cli, "break", name)
    terminal.until("? [y/N] ")
    hold.release()
    other = client.lock(name, owner="ben").hold()
    terminal.answer("y\n")
    assert terminal.finish() == 1
    assert "has another holder now" in terminal.text
    assert "ben" in terminal.text.partition("holder now")[2]
    other.check()
    terminal = Terminal(cli, "break", name)
    terminal.until("? [y/N] ")
    terminal.answer("y\n")
    assert terminal.finish() == 0
    with pytest.raises(holdfast.LockLost):
        other.check()


def test_break_deletes_a_foreign_lock_only_if_it_is_told_to(
    cli: Program, raw: redis.Redis, name: str
) -> None:
    raw.set(name, "token")
    done = cli("break", "--yes", name)
    assert done.returncode == 1
    assert "--foreign" in done.stderr
    assert raw.get(name) == b"token"
    assert cli("break", "--yes", "--foreign", name).returncode == 0
    assert not raw.exists(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "a", "b"], "one pattern"),
        (["ls", "--held-longer", "soon"], "duration"),
        (["ls", "--rate", "-1"], "--rate"),
        (["ls", ""], "the pattern has 0 bytes"),
        (["inspect"], "the name of one lock"),
        (["inspect", "--hex", "xy"], "hex digits"),
        (["inspect", "x:hf1:q"], "choose another"),
        (["break", "a"], "--yes"),
        (["break", "--yes", "--fence", "0", "a"], "--fence"),
        (["deadlocks", "a", "b"], "one pattern"),
        (["deadlocks", "--watch=never"], "duration"),
    ],
)
def test_mistakes_are_told(cli: Program, arguments: list[str], said: str) -> None:
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr


def test_each_command_has_help_that_fits_a_terminal(cli: Program) -> None:
    for command in ("ls", "inspect", "top", "break", "once", "deadlocks"):
        done = cli(command, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert re.match(rf"Usage: holdfast {command} (ls )?\[options\]", done.stdout)
        assert max(map(len, done.stdout.splitlines())) <= 96
        assert f"\n  {command} " in cli("--help").stdout


def test_what_cannot_be_written_is_no_success(
    cli: Program, client: holdfast.Client, name: str
) -> None:
    with client.lock(name), open("/dev/full", "w") as full:
        for command in (["ls"], ["ls", "--json"], ["inspect", name]):
            assert cli(*command, stdout=full).returncode == 71


# -------------------------------------------------------------------- Notes


def test_a_note_is_shown_beside_the_owner(
    cli: Program, client: holdfast.Client, name: str, waiting: Callable[..., None]
) -> None:
    with client.lock(name, owner="ann", note="refund 17\x1b[0m"):
        waiting(name, "ben", 30)
        assert cli("ls", name).stdout.splitlines()[1].endswith(r" ann (refund 17\x1b[0m)")
        holder = cli("inspect", name).stdout.splitlines()[2]
        assert holder == r"  ann (refund 17\x1b[0m)"
        (row,) = rows(cli("ls", "--json", name).stdout)
        assert row["holders"][0]["note"] == "refund 17\x1b[0m"  # type: ignore[index]
        assert "note" not in row["waiters"][0]  # type: ignore[index]


def test_ls_lists_by_name(cli: Program, client: holdfast.Client, name: str) -> None:
    with contextlib.ExitStack() as stack:
        for each in "kbxamz":
            stack.enter_context(client.lock(f"{name}:{each}"))
        listed = [line.split()[0] for line in cli("ls", f"{name}:*").stdout.splitlines()[1:]]
    assert listed == [f"{name}:{each}" for each in "abkmxz"]


def test_ls_finds_who_holds_and_who_waits(
    cli: Program, client: holdfast.Client, name: str, waiting: Callable[..., None]
) -> None:
    a, b = f"{name}:a", f"{name}:b"
    with client.lock(a, owner="ann", note="refund 17"), client.lock(b, owner="ann"):
        waiting(b, "invoice-run")

        def found(owner: str, *more: str) -> list[str]:
            out = cli("ls", "--owner", owner, *more, f"{name}:*").stdout.splitlines()
            return [line.split()[0] for line in out[1:]]

        assert found("ann") == [a, b]
        assert found("invoice") == [b]
        assert found("refund 17") == [a]
        assert found("ann*17)") == [a]
        assert found("absent") == []
        (row,) = rows(cli("ls", "--json", "--owner", "invoice", f"{name}:*").stdout)
        assert row["name"] == b


def test_ls_says_who_leads(cli: Program, client: holdfast.Client, name: str) -> None:
    leads = threading.Event()
    with client.leader(name, lambda fence: leads.set(), note="shard 7"):
        assert leads.wait(20)
        line = cli("ls", name).stdout.splitlines()[1]
    assert line.split()[1] == "leader"
    assert line.endswith(" (leader election: shard 7)")


def test_a_lock_that_is_kept_is_no_stuck_holder(
    cli: Program, client: holdfast.Client, name: str
) -> None:
    assert cli("run", "--once-per", "90s", "--note", "nightly", name, "true").returncode == 0
    line = cli("ls", name).stdout.splitlines()[1]
    assert line.split()[1] == "kept"
    assert line.endswith(" (nightly)")
    shown = cli("inspect", name).stdout
    assert shown.startswith(f"{name}: kept after its holder's work\n")
    assert re.search(r"exclusive, fence \d+, kept, began \d+m?s ago, ends in 1m\d\ds\n", shown)
    (row,) = rows(cli("ls", "--json", name).stdout)
    assert row["holders"][0]["kept"] is True  # type: ignore[index]
    done = cli("run", "-w", "1", name, "true")
    assert re.search(r"and '.*, noted 'nightly', whose work has ended, keeps it for", done.stderr)
    (holder,) = client.lock(name).inspect().holders
    assert holder.kept
    snapshot = cli("top", "-b", "-n", 1, name).stdout
    assert f"{name[:10]}" in snapshot
    assert " kept " in snapshot

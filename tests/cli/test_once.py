"""holdfast once: an operator looks at calls that are made once, and settles them."""

from __future__ import annotations

import json
import os
import pty
import secrets
import time

import pytest
import redis

import holdfast
from conftest import Program

PLAIN = "-" + 64 * "-"
NO_RECORD = 1
OTHER, IN_PROGRESS = 65, 75
FENCE = 1795331520157339


def key_of(name: str) -> str:
    return f"{{{name}}}{name}:hf1:r"


class Records:
    """Writes records in the form of docs/protocol.md, as callers that died leave them."""

    def __init__(self, raw: redis.Redis) -> None:
        self.raw = raw

    def __call__(
        self,
        name: str,
        kind: str,
        *,
        fence: int = FENCE,
        result: bytes = b"",
        note: str = "",
        owner: str = "till-1",
        terms: str = PLAIN,
        age: float = 0,
        ttl_ms: int = 0,
    ) -> None:
        since = int((time.time() - age) * 1e6)
        head = f"{secrets.token_hex(16)}{kind}{fence:016}{since:016}{len(result):08}{terms}{owner}"
        self.raw.hset(key_of(name), mapping={"hf1": head, "n": note, "b": result})
        if ttl_ms:
            self.raw.pexpire(key_of(name), ttl_ms)

    def kind(self, name: str) -> str | None:
        head = self.raw.hget(key_of(name), "hf1")
        return head[32:33].decode() if head else None


@pytest.fixture
def record(raw: redis.Redis) -> Records:
    return Records(raw)


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------------ ls, show


def test_ls_tells_the_states_apart_and_has_unknown_outcomes_first(
    cli: Program, client: holdfast.Client, record: Records, name: str
) -> None:
    record(f"{name}:done", "d", result=b"secret", ttl_ms=3600_000)
    record(f"{name}:failed", "e", result=b"declined", ttl_ms=3600_000)
    record(f"{name}:retry", "r", ttl_ms=86400_000)
    record(f"{name}:new", "b", age=5, note="order 7")
    record(f"{name}:old", "b", age=600, owner="till-2")
    with client.lock(f"{name}:run", lease=None) as hold:
        record(f"{name}:run", "b", fence=hold.fence)
        with client.lock(f"{name}:lock"):  # it has no record
            listed = cli("once", "ls", f"{name}:*")
            assert (listed.returncode, listed.stderr) == (0, "")
            head, *lines = listed.stdout.splitlines()
            assert head.split() == ["NAME", "STATE", "AGE", "FENCE", "OWNER", "SIZE", "TTL", "NOTE"]
            found = [line.split()[1] for line in lines]
            assert found == ["unknown", "unknown", "running", "retry", "failed", "done"]
            assert f"{name}:old" in lines[0]
            assert " 10m" in lines[0]
            assert "till-2" in lines[0]
            assert " never" in lines[0]
            assert lines[1].endswith("order 7")
            assert "secret" not in listed.stdout
            assert "declined" not in listed.stdout
            done = objects(cli("once", "ls", "--json", "--state", "done", f"{name}:*").stdout)
            assert [each["name"] for each in done] == [f"{name}:done"]
            assert done[0]["size"] == len("secret")
            assert done[0]["fence"] == FENCE
            assert 0 < done[0]["ttl_ms"] <= 3600_000  # type: ignore[operator]
            assert "secret" not in json.dumps(done)


def test_show_prints_a_result_only_if_asked_for(cli: Program, record: Records, name: str) -> None:
    record(name, "d", result=b'{"card": "4711"}\xff', note="by hand", ttl_ms=3600_000)
    shown = cli("once", "show", name)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"{name}: the call is done\n")
    assert "  by: till-1\n" in shown.stdout
    assert f"  fence: {FENCE}\n" in shown.stdout
    assert "  result: 17 bytes\n" in shown.stdout
    assert "  note: by hand\n" in shown.stdout
    plain = cli("once", "show", "--json", name).stdout
    assert "4711" not in shown.stdout + plain
    whole = cli("once", "show", "--result", name, text=False)
    assert (whole.returncode, whole.stdout) == (0, b'{"card": "4711"}\xff')
    (both,) = objects(cli("once", "show", "--result", "--json", name).stdout)
    assert bytes.fromhex(str(both["result_hex"])) == b'{"card": "4711"}\xff'
    hexed = cli("once", "show", "--json", "--hex", name.encode().hex())
    assert objects(hexed.stdout)[0]["name"] == name


def test_show_of_nothing_is_status_1(cli: Program, record: Records, name: str) -> None:
    shown = cli("once", "show", name)
    assert (shown.returncode, shown.stdout) == (NO_RECORD, "")
    assert shown.stderr == f"holdfast: {name}: there is no record of a call\n"
    record(name, "b")
    shown = cli("once", "show", "--result", name)
    assert (shown.returncode, shown.stdout) == (NO_RECORD, "")
    assert "has no result" in shown.stderr
    assert "its outcome is unknown" in cli("once", "show", name).stdout


def test_notes_and_owners_cannot_control_the_terminal(
    cli: Program, record: Records, name: str
) -> None:
    record(name, "b", note="\x1b[31mred\nline", owner="\x1b]0;title\x07")
    for command in (["ls", name], ["show", name]):
        shown = cli("once", *command).stdout
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert r"\x1b[31mred\nline" in shown


# -------------------------------------------------------------------- Settle


def test_resolve_keeps_a_result_for_all_callers(
    cli: Program, client: holdfast.Client, record: Records, name: str
) -> None:
    record(name, "b", note="order 7")
    (cli.folder / "answer").write_text('{"paid": 42}')
    arguments = ["resolve", name, "--fence", FENCE, "--result", "answer", "--ttl", "1h"]
    done = cli("once", *arguments, "--note", "asked the vendor")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name}: kept 12 bytes as its result for 1h00m\n"
    assert client.once(name, lambda: pytest.fail("it is called again"), ttl=60) == {"paid": 42}
    (shown,) = objects(cli("once", "show", "--json", name).stdout)
    assert (shown["state"], shown["fence"]) == ("done", FENCE)
    assert shown["note"] == "asked the vendor"
    assert shown["owner"] != "till-1"
    again = cli("once", *arguments)
    assert (again.returncode, again.stdout) == (OTHER, "")
    assert "--force replaces" in again.stderr
    forced = cli(
        "once", "resolve", name, "--fence", FENCE, "--result", "-", "--force", stdin=None, input="8"
    )
    assert (forced.returncode, forced.stderr) == (0, "")
    assert client.once(name, lambda: pytest.fail("it is called again"), ttl=60) == 8


def test_resolve_keeps_an_error(cli: Program, record: Records, name: str) -> None:
    record(name, "b")
    error = '{"type": "CardDeclined"}'
    kept = cli("once", "resolve", name, "--fence", FENCE, "--error", "-", stdin=None, input=error)
    assert (kept.returncode, kept.stderr) == (0, "")
    (shown,) = objects(cli("once", "show", "--json", "--result", name).stdout)
    assert (shown["state"], shown["error"]) == ("failed", error)


def test_retry_and_forget_let_the_next_caller_call(
    cli: Program, client: holdfast.Client, record: Records, raw: redis.Redis, name: str
) -> None:
    record(name, "b")
    done = cli("once", "retry", name, "--fence", FENCE, "--json")
    assert objects(done.stdout) == [{"name": name, "state": "retry", "fence": FENCE}]
    assert record.kind(name) == "r"
    record(name, "b")
    done = cli("once", "forget", name, "--fence", FENCE)
    assert done.stdout == f"{name}: forgotten: the next caller makes the call\n"
    assert not raw.exists(key_of(name))
    assert client.once(name, lambda: 1, ttl=60) == 1
    assert cli("once", "retry", name, "--fence", FENCE).returncode == OTHER


def test_another_fence_is_left_alone(cli: Program, record: Records, name: str) -> None:
    assert cli("once", "forget", name, "--fence", FENCE).returncode == NO_RECORD
    record(name, "b", fence=FENCE + 1)
    for command in ("retry", "forget"):
        done = cli("once", command, name, "--fence", FENCE)
        assert (done.returncode, done.stdout) == (OTHER, "")
        assert "has another fence now" in done.stderr
    assert record.kind(name) == "b"


def test_a_call_in_progress_takes_force(
    cli: Program, client: holdfast.Client, record: Records, name: str
) -> None:
    assert client.lock(name, lease=None).acquire()
    (holder,) = client.lock(name).inspect().holders
    record(name, "b", fence=holder.fence)
    done = cli("once", "retry", name, "--fence", holder.fence)
    assert (done.returncode, done.stdout) == (IN_PROGRESS, "")
    assert "in progress" in done.stderr
    assert client.lock(name).inspect().held
    assert cli("once", "forget", name, "--fence", holder.fence, "--force").returncode == 0
    assert record.kind(name) is None
    assert not client.lock(name).inspect().held


def test_without_a_fence_it_asks_on_a_terminal(cli: Program, record: Records, name: str) -> None:
    record(name, "b", note="order 7")
    refused = cli("once", "retry", name)
    assert refused.returncode == 64
    assert "use --fence" in refused.stderr
    for answer, kind in (("n", "b"), ("y", "r")):
        terminal, inner = pty.openpty()
        process = cli.start("once", "retry", name, stdin=inner)
        os.close(inner)
        os.write(terminal, f"{answer}\n".encode())
        out, err = process.communicate(timeout=50)
        os.close(terminal)
        assert f"{name}: the call began, and its outcome is unknown" in err
        assert "note: order 7" in err
        assert "make the call again? [y/N]" in err
        assert process.returncode == (0 if answer == "y" else 1)
        assert record.kind(name) == kind
        assert bool(out) == (answer == "y")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["once"], "once takes ls, show, resolve, retry or forget as its first argument"),
        (["once", "find"], "not 'find'"),
        (["once", "show"], "show takes the name of one call"),
        (["once", "ls", "a", "b"], "ls takes one pattern"),
        (["once", "ls", "--state", "begun"], "--state takes unknown, running"),
        (["once", "resolve", "a", "--fence", "1"], "--result FILE or --error FILE"),
        (["once", "resolve", "a", "--result", "x", "--error", "x"], "one of --result and --error"),
        (["once", "resolve", "a", "--result", "x", "--ttl", "1s"], "--ttl takes 10s or more"),
        (["once", "retry", "a", "--ttl", "1h"], "retry takes no result"),
        (["once", "forget", "a", "--fence", "0"], "--fence takes a number"),
        (["once", "retry", "a", "--note", 1025 * "x"], "--note takes at most 1024 bytes"),
        (["once", "resolve", "a", "--result", "-"], "asks for confirmation"),
    ],
)
def test_wrong_usage_is_refused(cli: Program, arguments: list[str], says: str) -> None:
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert says in done.stderr
    assert "--help" in done.stderr


def test_a_file_that_cannot_be_read_changes_nothing(
    cli: Program, record: Records, name: str
) -> None:
    record(name, "b")
    done = cli("once", "resolve", name, "--fence", FENCE, "--result", "missing")
    assert done.returncode == 71
    assert "cannot read missing" in done.stderr
    assert record.kind(name) == "b"


# -------------------------------------------------------------- ls, top, inspect


def test_ls_and_top_and_inspect_tell_calls_apart(
    cli: Program, client: holdfast.Client, record: Records, name: str
) -> None:
    record(f"{name}:done", "d", result=b"1", ttl_ms=3600_000)
    record(f"{name}:unknown", "b", age=600)
    with client.lock(f"{name}:run", lease=None) as hold:
        record(f"{name}:run", "b", fence=hold.fence)
        one = cli("ls", f"{name}:*").stdout.splitlines()
        assert [line.split()[1] for line in one[1:]] == ["running"]
        lines = sorted(cli("ls", "--once", f"{name}:*").stdout.splitlines()[1:])
        assert [line.split()[1] for line in lines] == ["done", "running", "unknown"]
        assert lines[2].split()[2].startswith("10m")
        assert lines[2].endswith("till-1")
        picture = cli("top", "-b", "-n", "1", "--once", "--sort", "call", f"{name}:*").stdout
        counts, _, _, *rows = picture.strip().splitlines()
        assert counts == "3 locks, 1 held, 1 running, 1 unknown, 1 done; sorted by call"
        assert [line.split()[1] for line in rows] == ["unknown", "running", "done"]
        assert picture.count(f"{name}:unknown") == 1
        without = cli("top", "-b", "-n", "1", f"{name}:*").stdout
        assert without.startswith("1 lock, 1 held, 1 running;")
        found = objects(cli("ls", "--json", "--once", f"{name}:*").stdout)
        states = {str(each["name"])[len(name) + 1 :]: each["call"]["state"] for each in found}  # type: ignore[index]
        assert states == {"done": "done", "run": "running", "unknown": "unknown"}
    shown = cli("inspect", f"{name}:unknown").stdout
    assert shown.startswith(f"{name}:unknown: free\nOnce: the call began, and its outcome is")
    assert f"  fence: {FENCE}\n" in shown
    assert objects(cli("inspect", "--json", name).stdout)[0]["call"] is None

"""holdfast top, as a user sees it: in tmux, and in batches."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import termios
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
import redis

import holdfast
from conftest import PATIENT, PROGRAM, Program, Server, alive, start_redis, until

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None and "CI" not in os.environ, reason="no tmux"
)


PROMPT = r"^\$\s*\Z"


class Tmux:
    """bash on a terminal of its own, whose screen the test can read."""

    def __init__(self, program: Program, columns: int = 80, rows: int = 24) -> None:
        self.name = f"holdfast-{uuid.uuid4()}"
        self.environment = {**program.environment, "LC_ALL": "C.UTF-8", "PS1": "$ ", "TMUX": ""}
        shell = "exec bash --norc --noprofile -i"
        self.run("-u", "-f", "/dev/null", "new-session", "-d", "-s", "top", shell)
        self.run("set", "-g", "default-terminal", "screen")
        # It has no parent: it also ends when this process is killed.
        both_live = f"kill -0 {os.getpid()} && kill -0 $PPID"
        end = f"while {both_live}; do sleep 1; done; tmux -L {self.name} kill-server"
        self.run("run-shell", "-b", f"({end}) 2>/dev/null")
        self.resize(columns, rows)
        self.type(f"cd {program.folder}; PATH={PROGRAM.parent}:$PATH; echo rea''dy")
        self.until("ready\n")

    def run(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-L", self.name, *arguments],
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def screen(self, *options: str) -> str:
        return self.run("capture-pane", "-p", *options)

    def until(self, wanted: str | Callable[[str], object], seconds: float = 30) -> str:
        """Wait until the screen matches the pattern or the condition; return the screen."""
        end = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if re.search(wanted, screen, re.M) if isinstance(wanted, str) else wanted(screen):
                return screen
            assert time.monotonic() < end, f"no {wanted!r} in\n{screen}"
            time.sleep(0.02)

    def started(self) -> list[int]:
        """Return the shell and the processes that it runs."""
        shell = int(self.run("list-panes", "-F", "#{pane_pid}"))
        return [shell, *map(int, Path(f"/proc/{shell}/task/{shell}/children").read_text().split())]

    def close(self) -> None:
        """End the shell; all that runs in it must end with it."""
        started = self.started()
        self.run("kill-server")
        try:
            until(lambda: not any(map(alive, started)))
        finally:
            for pid in filter(alive, started):
                os.kill(pid, signal.SIGKILL)


def listed(screen: str) -> list[str]:
    """Return the first word of each line of the list."""
    lines = screen.splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith("NAME ")]
    return [line.split()[0] for line in lines[heads[0] + 1 : -1] if line.strip()] if heads else []


@pytest.fixture
def tmux(cli: Program) -> Iterator[Tmux]:
    tmux = Tmux(cli)
    yield tmux
    tmux.close()


@pytest.fixture
def short() -> str:
    """Return a name that fits into a column."""
    return uuid.uuid4().hex[:8]


# ----------------------------------------------------------------- The list


def test_top_is_live_and_fits_80_columns(
    tmux: Tmux, client: holdfast.Client, short: str, waiting: Callable[..., None]
) -> None:
    with client.lock(f"{short}a"):
        tmux.type(f"holdfast top -d 0.2 '{short}*'")
        tmux.until(rf"^{short}a +exclusive +\d")
        with client.lock(f"{short}b", lease=None) as hold:
            waiting(f"{short}b", "ben")
            screen = tmux.until(rf"^{short}b +exclusive +\S+ +never +1 +\d")
            assert "2 locks, 2 held, 1 waiter; sorted by waiters" in screen
            assert listed(screen) == [f"{short}b", f"{short}a"]
            lines = screen.splitlines()
            assert lines[0].startswith("holdfast top  127.0.0.1:")
            assert "every 200ms" in lines[0]
            assert len(lines) == 24
            assert max(map(len, lines)) <= 80
            tmux.until(r"Cost: \d+ commands a second, \d+\.\d % of a server's time; all keys in ")
            assert hold.fence
        tmux.until(lambda screen: listed(screen) == [f"{short}a"])
    tmux.until("^0 locks")
    tmux.press("q")
    tmux.until(PROMPT)


def test_sort_keys_reverse_and_the_option(
    tmux: Tmux, client: holdfast.Client, short: str, waiting: Callable[..., None]
) -> None:
    a, b, c = (f"{short}{letter}" for letter in "abc")
    with client.lock(c, lease=600), client.lock(b, lease=None), client.lock(a, lease=900):
        waiting(b, "ben")
        tmux.type(f"holdfast top -d 0.2 --sort name '{short}*'")
        for keys, order in (
            ([], [a, b, c]),
            (["r"], [c, b, a]),
            (["r", "W"], [b, a, c]),
            (["H"], [c, b, a]),
            (["L"], [b, a, c]),
            (["E"], [c, a, b]),
            (["F"], [c, b, a]),
            (["<"], [a, b, c]),  # name
            ([">", ">", ">"], [b, a, c]),  # fence, call, waiters
        ):
            tmux.press(*keys) if keys else None
            tmux.until(lambda screen, order=order: listed(screen) == order)
        tmux.press("F")
        fence = client.lock(b).inspect().fence
        tmux.until(rf"FENCE(.*\n)+{b} .* {fence} ")


def test_a_filter_is_typed(tmux: Tmux, client: holdfast.Client, short: str) -> None:
    waits = client.lock(f"{short}:one", owner="invoice-run")
    with client.lock(f"{short}:one", owner="ann"), client.lock(f"{short}:ün", owner="ben"):
        waiter = Thread(target=lambda: waits.hold().release())
        waiter.start()
        until(lambda: waits.inspect().waiters)
        tmux.type(f"holdfast top -d 0.2 -o name '{short}:*'")
        tmux.until(lambda screen: len(listed(screen)) == 2)
        for typed, names in (
            ("one", [f"{short}:one"]),
            ("ben", [f"{short}:ün"]),
            ("*:ü?", [f"{short}:ün"]),
            ("invoice", [f"{short}:one"]),
            ("ün", [f"{short}:ün"]),
            ("absent", []),
        ):
            tmux.press("/")
            tmux.until("^Filter:")
            tmux.press("C-u")
            tmux.run("send-keys", "-l", typed)
            tmux.until(lambda screen, typed=typed: f"Filter: {typed}" in screen)
            tmux.until(lambda screen, names=names: listed(screen) == names)
            tmux.press("Enter")
            tmux.until(rf"; {len(names)} match(es)? {re.escape(typed)}")
        tmux.press("/", "BSpace")
        tmux.until("^Filter: absen$")
        tmux.press("Escape")
        tmux.until(lambda screen: len(listed(screen)) == 2 and "match" not in screen)
    waiter.join(20)


def test_moving_goes_with_the_lock(tmux: Tmux, client: holdfast.Client, short: str) -> None:
    with contextlib.ExitStack() as stack:
        for i in range(60):
            stack.enter_context(client.lock(f"{short}-{i:02}"))
        tmux.type(f"holdfast top -d 0.2 -o name '{short}-*'")
        tmux.until(f"^60 locks(.*\n)+{short}-17 ")
        assert f"{short}-18 " not in tmux.screen()
        tmux.press("End")
        tmux.until(f"^{short}-59 ")
        tmux.press("PPage", "k", "Enter")
        tmux.until(f"^{short}-40: held exclusively")
        tmux.press("Escape", "r", "Enter")
        tmux.until(f"^{short}-40: held exclusively")
        tmux.press("Escape", "Home", "Enter")
        tmux.until(f"^{short}-59: held exclusively")
        tmux.press("Escape", "h")
        tmux.until("take the lock away from a holder, after a confirmation")
        tmux.press("q")
        tmux.until(f"^{short}-59 ")


def test_shared_holds_and_foreign_locks_are_told(
    tmux: Tmux,
    client: holdfast.Client,
    raw: redis.Redis,
    short: str,
    waiting: Callable[..., None],
) -> None:
    ann, ben = (client.lock(f"{short}:pool", owner=each, permits=2) for each in ("ann", "ben"))
    raw.hset(f"{short}:other", "8743c9c0-0795-4907-87fd-6c719a6b4586:77", 1)
    with (
        ann.shared(),
        ben.shared(),
        client.lock(f"{short}:twice") as hold,
        client.lock(f"{short}:twice"),
    ):
        tmux.type(f"holdfast top -d 0.2 '{short}:*'")
        tmux.until(rf"^{short}:pool +shared 2 .* \+1: (ann|ben)")
        tmux.until(rf"^{short}:twice +excl. x2 ")
        tmux.until(rf"^{short}:other +foreign +- ")
        waiting(f"{short}:pool", "cat")
        tmux.until(rf"^{short}:pool .* 1 ")
        tmux.press("Home", "Enter")
        screen = tmux.until("1. cat")
        assert f"{short}:pool: held shared" in screen
        assert screen.count("shared, fence ") == 2
        assert "Waiters: 1" in screen
        tmux.press("Escape", "/")
        tmux.type("twice")
        tmux.press("Enter")
        screen = tmux.until(f"fence {hold.fence}, .* 2 holds")
        assert f"{os.getpid()} thread" in screen
    raw.delete(f"{short}:other")


def test_names_never_break_the_screen(
    cli: Program, tmux: Tmux, client: holdfast.Client, short: str
) -> None:
    wide = "日本語の長い名前" * 10
    names = [b"\x1b[2J", b"\r\n\t", b"\xff\xfe", "\u202e".encode(), b"x" * 400]
    for name in [*names, wide.encode()]:
        client.lock(short.encode() + name, owner=name).acquire()
    tmux.type(f"holdfast top -d 0.2 '{short}*'")
    screen = tmux.until(lambda screen: len(listed(screen)) == 6)
    for shown in ("\\x1b[2J", "\\r\\n\\t", "\\xff\\xfe", "\\u{202e}", "x" * 11 + "…"):
        assert short + shown in screen, shown
    assert f"{short}日本語の" in screen
    assert screen.splitlines()[0].startswith("holdfast top")
    tmux.resize(40, 5)
    tmux.until(lambda screen: screen.count("\n") == 5 and "6 locks" in screen)
    tmux.resize(1, 1)
    tmux.until(lambda screen: len(screen) <= 2)
    tmux.resize(120, 30)
    tmux.until("FENCE +HOLDER")
    tmux.press("Enter")
    tmux.until("held exclusively")
    tmux.press("q", "q")
    tmux.until(PROMPT)
    for name in [*names, wide.encode()]:
        client.lock(short.encode() + name).release(owner=name)


# -------------------------------------------------------------------- Break


def test_break_asks_and_names_the_holder(
    tmux: Tmux, client: holdfast.Client, short: str, waiting: Callable[..., None]
) -> None:
    lock = client.lock(short, owner="ann", raise_on_lost=False)
    hold = lock.hold()
    waiting(short, "ben")
    tmux.type(f"holdfast top -d 0.2 '{short}*'")
    tmux.until(rf"^{short} .* ann$")
    question = (
        rf"Take the lock {short} away from ann, which has held it for\s\w+\swith\sthe\sfence"
        rf"\s{hold.fence};\s1\swaiter\? \[y/N\]"
    )
    for no in ("n", "Enter", "Escape", "b", "q"):
        tmux.press("b")
        tmux.until(question)
        tmux.press(no)
        tmux.until("nothing was done")
    hold.check()
    tmux.press("b")
    tmux.until(question)
    tmux.press("y")
    tmux.until(rf"Took the lock {short} away from ann")
    with pytest.raises(holdfast.LockLost):
        hold.check()
    tmux.until("^0 locks")


def test_break_refuses_if_somebody_else_has_it_by_now(
    tmux: Tmux, client: holdfast.Client, raw: redis.Redis, short: str
) -> None:
    first = client.lock(short, owner="ann").hold()
    tmux.type(f"holdfast top -d 0.2 '{short}*'")
    tmux.until(rf"^{short} .* ann$")
    tmux.press("b")
    tmux.until(r"\[y/N\]")
    first.release()
    with client.lock(short, owner="ben").hold() as hold:
        tmux.press("y")
        screen = tmux.until("has another holder now:")
        assert "ben, which has held it for" in screen
        hold.check()
    tmux.press("b")
    tmux.until(r"0 locks")
    raw.hset(short, "8743c9c0-0795-4907-87fd-6c719a6b4586:77", 1)
    tmux.until(rf"^{short} +foreign")
    tmux.press("b")
    tmux.until(f"Take the lock {short} away from another library")
    tmux.press("y")
    tmux.until(f"Took the lock {short}")
    assert not raw.exists(short)


def test_break_takes_one_of_several_holders(
    tmux: Tmux, client: holdfast.Client, short: str
) -> None:
    holds = {
        owner: client.lock(short, owner=owner, raise_on_lost=False).shared().hold()
        for owner in ("ann", "ben")
    }
    tmux.type(f"holdfast top -d 0.2 '{short}*'")
    tmux.until(rf"^{short} +shared 2")
    tmux.press("Enter")
    tmux.until("ann\n(.*\n)*.*ben|ben\n(.*\n)*.*ann")
    tmux.press("b")
    screen = tmux.until(r"\[y/N; Tab: the next of\s2\]")
    first = "ann" if "away from ann" in screen else "ben"
    other = "ben" if first == "ann" else "ann"
    tmux.press("Tab")
    shares = rf"which has shared it for\s\w+\swith\sthe\sfence\s{holds[other].fence}"
    tmux.until(f"away from {other}, {shares}")
    tmux.press("y")
    tmux.until(f"Took the lock {short} away from {other}")
    with pytest.raises(holdfast.LockLost):
        holds[other].check()
    holds[first].check()
    holds[first].release()


# ------------------------------------------------------------- The terminal


@pytest.mark.parametrize("end", ["q", "C-c", "C-\\", "TERM", "HUP"])
def test_the_terminal_is_given_back(tmux: Tmux, cli: Program, end: str) -> None:
    tmux.type("stty -g >before; holdfast top; echo st''atus $?; stty -g >after; echo do''ne")
    tmux.until("^NAME ")
    if end in ("TERM", "HUP"):
        os.kill(tmux.started()[1], getattr(signal, f"SIG{end}"))
    else:
        tmux.press(end)
    screen = tmux.until("^done")
    assert "NAME " not in screen
    numbers = {"q": 0, "C-c": 130, "C-\\": 131, "TERM": 143, "HUP": 129}
    assert f"status {numbers[end]}\n" in screen
    before, after = ((cli.folder / each).read_text() for each in ("before", "after"))
    assert before == after
    assert tmux.run("list-panes", "-F", "#{alternate_on} #{cursor_flag}") == "0 1\n"


@contextlib.contextmanager
def on_pty(cli: Program, name: str) -> Iterator[tuple[int, int]]:
    """Run the program alone on a terminal; yield its process and the test's end of the terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        environment = {**cli.environment, "TERM": "screen"}
        os.execve(PROGRAM, ["holdfast", "top", "-d", "0.1", f"{name}*"], environment)
    try:
        seen = b""
        while b"NAME" not in seen:
            seen += os.read(fd, 65536)
        yield pid, fd
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def ending_of(pid: int) -> int:
    until(lambda: not alive(pid))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_it_ends_when_its_terminal_goes(cli: Program, short: str) -> None:
    with on_pty(cli, short) as (pid, fd):
        os.close(fd)
        assert ending_of(pid) == 129


def test_a_signal_ends_it_while_the_terminal_takes_no_output(cli: Program, short: str) -> None:
    with on_pty(cli, short) as (pid, fd):
        os.write(fd, b"\x13")  # Ctrl-S
        while select.select([fd], [], [], 1)[0]:  # until its clock stands still
            os.read(fd, 65536)
        os.kill(pid, signal.SIGTERM)
        assert ending_of(pid) == 143
        assert termios.tcgetattr(fd)[3] & termios.ECHO
        os.close(fd)


def test_ctrl_z_stops_it_and_fg_resumes(tmux: Tmux, client: holdfast.Client, short: str) -> None:
    with client.lock(short):
        tmux.type(f"holdfast top -d 0.2 '{short}*'")
        tmux.until(f"^{short} ")
        tmux.press("C-z")
        tmux.until("Stopped")
        tmux.resize(100, 20)
        tmux.type("stty -a | grep -o ' echo '; fg")
        tmux.until(lambda screen: screen.count("\n") == 20 and f"\n{short} " in screen)
    tmux.until("^0 locks")
    tmux.press("C-c")
    tmux.until(PROMPT)


def test_it_ends_after_so_many_looks(tmux: Tmux) -> None:
    tmux.type("holdfast top -d 0.2 -n 3; echo st''atus $?")
    tmux.until("^status 0")


def test_colors_respect_no_color(
    tmux: Tmux, client: holdfast.Client, short: str, waiting: Callable[..., None]
) -> None:
    def colored() -> bool:
        return bool(re.search(r"\x1b\[[0-9;]*3[0-7][0-9;]*m", tmux.screen("-e")))

    with client.lock(short), client.lock(f"{short}2"):
        waiting(f"{short}2", "ben")
        for setting, wanted in (("", True), ("NO_COLOR=1 ", False)):
            tmux.type(f"{setting}holdfast top -o name '{short}*'")
            tmux.until(rf"^{short}2 +exclusive .* 1 ")  # with a warning about the waiter
            if wanted:
                tmux.until(lambda _: colored())
            else:
                assert not colored()
            tmux.press("q")
            tmux.until(PROMPT)


@pytest.mark.parametrize(
    ("terminal", "said"),
    [
        ("no-such-terminal", "no description of the terminal 'no-such-terminal'"),
        ("dumb", "position its cursor, and 'dumb'"),
        ("", "no description of the terminal"),
    ],
)
def test_a_terminal_that_will_not_do_is_told(tmux: Tmux, terminal: str, said: str) -> None:
    tmux.resize(300, 24)
    tmux.type(f"TERM={terminal} holdfast top; echo st''atus $?")
    screen = tmux.until("^status 64")
    assert said in screen
    assert "'holdfast top -b' works without it" in screen


def test_terminals_are_found_wherever_they_are_described(tmux: Tmux, cli: Program) -> None:
    """As on a system whose folder the linked library does not know."""
    tmux.type("infocmp -x screen | sed 's/^screen|/odd-one|/' >odd; tic -o described odd")
    tmux.type("TERMINFO_DIRS=$PWD/described TERM=odd-one holdfast top -n 1; echo st''atus $?")
    tmux.until("^status 0")


# ------------------------------------------------------------------ Outages


def test_a_server_that_is_gone_is_told_and_comes_back(cli: Program, short: str) -> None:
    node, port = start_redis(cli.folder)
    cli.environment["HOLDFAST_URL"] = f"redis://127.0.0.1:{port}"
    tmux = Tmux(cli)
    try:
        with redis.Redis("127.0.0.1", port=port) as raw:
            raw.hset(short, "8743c9c0-0795-4907-87fd-6c719a6b4586:77", 1)
        tmux.type("holdfast top -d 0.2")
        tmux.until(f"^{short} ")
        node.kill()
        node.wait()
        tmux.until(r"^Not updated for \d+m?s: [^N]*127.0.0.1")
        screen = tmux.until(r"^Not updated for [2-9]s: [^N]*Connection\srefused")
        assert f"\n{short} " in screen  # the last good snapshot
        tmux.press("b")
        tmux.until("cannot reach")
        node, _ = start_redis(cli.folder, port=port)
        tmux.until(lambda screen: "\n0 locks" in screen and "Not updated" not in screen)
    finally:
        tmux.close()
        node.kill()
        node.wait()


def test_a_signal_ends_it_while_it_connects(cli: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}?connect_timeout=60"
        ours, theirs = pty.openpty()
        try:
            process = cli.start("top", "--url", url, stdin=theirs, stdout=theirs)
            with silent.accept()[0]:
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == -signal.SIGINT
        finally:
            os.close(ours)
            os.close(theirs)


def test_a_server_that_hangs_is_told_and_does_not_hold_up_the_end(
    cli: Program, own_server: Server, short: str
) -> None:
    quickly = "?connect_timeout=0.5&command_timeout=0.5"
    cli.environment["HOLDFAST_URL"] = own_server.url + quickly
    tmux = Tmux(cli)
    try:
        with holdfast.connect(own_server.url + PATIENT) as client, client.lock(short, lease=None):
            tmux.type("holdfast top -d 0.2; echo st''atus $?")
            tmux.until(f"^{short} ")
            os.kill(own_server.pid, signal.SIGSTOP)
            tmux.until(r"^Not updated for [2-9]s: ")
            os.kill(own_server.pid, signal.SIGCONT)
            tmux.until(lambda screen: "Not updated" not in screen and f"\n{short} " in screen)
            os.kill(own_server.pid, signal.SIGSTOP)
            tmux.until(r"^Not updated for [2-9]s: ")
            tmux.press("q")
            tmux.until("^status 0")
            os.kill(own_server.pid, signal.SIGCONT)
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
        tmux.close()


def test_a_pause_keeps_the_picture(tmux: Tmux, client: holdfast.Client, short: str) -> None:
    with client.lock(short):
        tmux.type(f"holdfast top -d 0.2 '{short}*'")
        tmux.until(f"^{short} ")
        tmux.press("p")
        tmux.until("^Paused: p resumes")
    with client.lock(f"{short}2"):
        tmux.press("+", "+")
        screen = tmux.until("every 1s")
        assert listed(screen) == [short]
        tmux.press("p", "Space")
        tmux.until(lambda screen: listed(screen) == [f"{short}2"])


# --------------------------------------------------------------- Many locks


def test_what_is_on_the_screen_stays_live_during_a_slow_walk(
    cli: Program, own_server: Server, short: str
) -> None:
    cli.environment["HOLDFAST_URL"] = own_server.url + PATIENT
    tmux = Tmux(cli)
    try:
        with (
            holdfast.connect(own_server.url + PATIENT) as client,
            redis.Redis.from_url(own_server.url) as raw,
        ):
            hold = client.lock(short, owner="ann").hold()
            tmux.type("holdfast top -d 0.2 --rate 200 -o held")
            tmux.until(f"^{short} +exclusive")
            many = raw.pipeline()
            for i in range(3000):  # a walk over these takes 15 s
                many.hset(f"{short}:{i}", "8743c9c0-0795-4907-87fd-6c719a6b4586:77", 1)
            many.execute()
            tmux.until(r"; read \d+ % of 30\d\d keys")
            next_one = Thread(target=client.lock(short, owner="ben").acquire)
            next_one.start()
            screen = tmux.until(rf"^{short} +exclusive .* 1 .* ann$")
            assert "; read " in screen
            hold.release()
            next_one.join(20)
            screen = tmux.until(rf"^{short} +exclusive .* 0 .* ben$")
            assert "; read " in screen
            tmux.press("q")
            tmux.until(PROMPT)
    finally:
        tmux.close()


def test_the_costs_are_those_that_the_server_counts(
    cli: Program, own_server: Server, short: str
) -> None:
    cli.environment["HOLDFAST_URL"] = own_server.url + PATIENT
    with (
        holdfast.connect(own_server.url + PATIENT) as client,
        redis.Redis.from_url(own_server.url) as raw,
        contextlib.ExitStack() as stack,
    ):
        for i in range(200):
            stack.enter_context(client.lock(f"{short}:{i}", lease=None))
        assert cli("top", "-b", "-n", "1").returncode == 0  # so that the scripts are loaded
        raw.config_resetstat()
        done = cli("top", "-b", "--json", "-n", "2", "-d", "1")
        pictures = [json.loads(line) for line in done.stdout.splitlines()]
        counted = raw.info("commandstats")
        calls = sum(counted[f"cmdstat_{each}"]["calls"] for each in ("evalsha", "scan"))
        assert len(pictures[1]["locks"]) == 200
        assert calls <= sum(each["commands"] for each in pictures) <= calls + 10
        assert 20 < pictures[1]["commands_per_second"] < 500
        assert 0 <= pictures[1]["server_share"] < 1


# ------------------------------------------------------------------ Batches


def test_a_batch_prints_pictures(
    cli: Program, client: holdfast.Client, short: str, waiting: Callable[..., None]
) -> None:
    with client.lock(f"{short}a", owner="ann"), client.lock(f"{short}b"):
        waiting(f"{short}b", "ben")
        done = cli("top", "-b", "-n", "2", "-d", "0.1", f"{short}*")
        assert (done.returncode, done.stderr) == (0, "")
        one, two, rest = done.stdout.split("\n\n")
        assert rest == ""
        for picture in (one, two):
            counts, costs, head, *lines = picture.splitlines()
            assert counts == "2 locks, 2 held, 1 waiter; sorted by waiters"
            assert re.fullmatch(
                r"Cost: \d+ commands a second, \d+\.\d % of a server's time; all keys in \S+",
                costs,
            )
            assert head.split() == ["NAME", "STATE", "HELD", "ENDS", "WAIT", "FIRST", "HOLDER"]
            assert [line.split()[0] for line in lines] == [f"{short}b", f"{short}a"]
        done = cli("top", "-b", "-n", "1", "-r", "-o", "name", f"{short}*")
        assert [line.split()[0] for line in done.stdout.splitlines()[3:5]] == [
            f"{short}b",
            f"{short}a",
        ]
        for options, left in (
            (["--held-longer", "1h"], set()),
            (["--waiting-longer", "1ms"], {f"{short}b"}),
            ([], {f"{short}a", f"{short}b"}),
        ):
            done = cli("top", "-b", "--json", "-n", "1", *options, f"{short}*")
            (picture,) = (json.loads(line) for line in done.stdout.splitlines())
            assert picture["complete"] is True
            assert abs(picture["time_ms"] - time.time() * 1000) < 60000
            assert {lock["name"] for lock in picture["locks"]} == left
        (ls,) = (json.loads(line) for line in cli("ls", "--json", f"{short}a").stdout.splitlines())
        (locks,) = (lock for lock in picture["locks"] if lock["name"] == f"{short}a")
        assert locks.keys() == ls.keys()
        assert locks["holders"][0]["owner"] == "ann"


def test_a_batch_goes_on_over_an_outage(cli: Program) -> None:
    node, port = start_redis(cli.folder)
    cli.environment["HOLDFAST_URL"] = f"redis://127.0.0.1:{port}"
    process = cli.start("top", "-b", "--json", "-d", "0.1")
    assert process.stdout is not None

    def complete() -> bool:
        assert process.stdout is not None
        return bool(json.loads(process.stdout.readline())["complete"])

    try:
        assert complete()
        node.kill()
        node.wait()
        until(lambda: not complete())
        node, _ = start_redis(cli.folder, port=port)
        until(complete)
        process.terminate()
        _, errors = process.communicate(timeout=20)
        assert "Connection refused" in errors
        node.kill()
        node.wait()
        assert cli("top", "-b", "-n", "1").returncode == 69
    finally:
        node.kill()
        node.wait()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "top needs a terminal: use -b to print without one"),
        (["--json"], "--json needs -b"),
        (["-b", "-d", "0.01"], "100ms to 1d"),
        (["-b", "-o", "size"], "waiters, held, waited, remaining, name, fence or call"),
        (["-b", "-n", "0"], "--iterations"),
        (["-b", "--rate", "0"], "--rate"),
        (["-b", "one", "two"], "one pattern"),
    ],
)
def test_mistakes_are_told(cli: Program, arguments: list[str], said: str) -> None:
    done = cli("top", *arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr


def test_a_batch_that_cannot_be_written_ends(cli: Program) -> None:
    with open("/dev/full", "w") as full:
        assert cli("top", "-b", "-d", "0.1", stdout=full).returncode == 71

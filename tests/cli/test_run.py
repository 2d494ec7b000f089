"""holdfast run: a command under a lock, with flock(1)'s habits."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

import holdfast
from conftest import PATIENT, PROGRAM, Program, Server, alive, state, until

ENDS = [
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
]


PR_SET_CHILD_SUBREAPER = 36


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=50)
    return process.returncode, out, err


# ------------------------------------------------------------------ The command


def test_the_exit_status_is_the_commands(cli: Program, name: str) -> None:
    for status in (0, 1, 2, 75, 255):
        done = cli("run", name, "--", "sh", "-c", f"exit {status}")
        assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        done = cli("run", name, "--", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
        assert done.returncode == 128 + number


def test_arguments_and_streams_are_the_commands(cli: Program, name: str) -> None:
    show = 'printf "%s|" "$@"; cat; echo oops >&2'
    done = cli(
        "run", name, "--", "sh", "-c", show, "sh", "-n", "", "a b", "--", stdin=None, input="in"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "-n||a b|--|in", "oops\n")
    assert cli("run", name, "echo", "-w", "5").stdout == "-w 5\n"  # also without --


def test_the_command_knows_its_lock(cli: Program, name: str, client: holdfast.Client) -> None:
    show = "echo $HOLDFAST_NAME; echo $HOLDFAST_OWNER; echo $HOLDFAST_FENCE; read line"
    cli.environment["HOLDFAST_FENCE"] = "not this"
    process = cli.start("run", name, "--", "sh", "-c", show, stdin=subprocess.PIPE)
    told = [line_of(process) for _ in range(3)]
    info = client.lock(name).inspect()
    assert told == [name, str(info.owner), str(info.fence)]
    assert f"/{process.pid}:" in told[1]
    assert ended(process)[0] == 1  # read met the end of its input
    assert not client.lock(name).locked()
    fences = [int(cli("run", name, "-c", "echo $HOLDFAST_FENCE").stdout) for _ in range(3)]
    assert sorted(set(fences)) == fences
    assert fences[0] > int(told[2])


def test_the_command_starts_as_from_a_shell(cli: Program, name: str) -> None:
    fds = cli("run", name, "--", "sh", "-c", "ls /proc/self/fd").stdout.split()
    assert len(fds) == 4  # and the folder that ls opens
    status = cli("run", name, "--", "cat", "/proc/self/status").stdout
    for field in ("SigBlk", "SigIgn"):
        line = next(line for line in status.splitlines() if line.startswith(field))
        assert int(line.split()[1], 16) == 0, line
    # It ignores what holdfast was started to ignore: nohup(1).
    ignores = 'trap "" HUP; exec "$0" run "$1" -- cat /proc/self/status'
    status = subprocess.run(
        ["sh", "-c", ignores, PROGRAM, name], env=cli.environment, capture_output=True, text=True
    ).stdout
    assert "SigIgn:\t0000000000000001" in status


def test_a_command_that_cannot_run_is_told_as_by_a_shell(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    done = cli("run", name, "--", "no-such-command")
    assert (done.returncode, done.stderr) == (
        127,
        "holdfast: cannot run no-such-command: No such file or directory\n",
    )
    assert cli("run", name, "--", "/etc/passwd").returncode == 126
    assert not client.lock(name).locked()


# ----------------------------------------------------------------- As with flock


def test_a_lock_that_others_hold_is_a_conflict(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    ran = ("--", "touch", "ran")
    with client.lock(name):
        for option in ("-n", "--nonblock"):
            done = cli("run", option, name, *ran)
            assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
        for option in (("-w", "0.05"), ("--timeout", "50ms"), ("--wait=0.05",)):
            done = cli("run", *option, name, *ran)
            assert done.returncode == 75
            assert "was held by others for 50 ms" in done.stderr
        assert "for 1000 ms, at last by" in cli("run", "-w", "1", name, *ran).stderr
        assert cli("run", "-q", "-w", "0.05", name, *ran).stderr == ""
        assert cli("run", "-w", "0", name, *ran).returncode == 1
        assert "is held by another owner" in cli("run", "-nv", name, *ran).stderr
        for status in (0, 1, 75, 255):
            assert cli("run", "-n", "-E", status, name, *ran).returncode == status
            code = f"--conflict-exit-code={status}"
            assert cli("run", code, "-w", "0.01", name, *ran).returncode == status
    assert not (cli.folder / "ran").exists()
    done = cli("run", "-nv", name, *ran)
    assert done.returncode == 0
    assert f"lock '{name}' was acquired after" in done.stderr
    assert (cli.folder / "ran").exists()


def test_a_wait_ends_when_the_lock_is_free(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    lock = client.lock(name)
    lock.acquire()
    waits = [cli.start("run", *option, name, "--", "echo", "in") for option in ([], ["-w", 40])]
    until(lambda: lock.inspect().waiters == 2)
    lock.release()
    for wait in waits:
        assert ended(wait) == (0, "in\n", "")


@pytest.mark.parametrize("shared", ["-s", "--shared"])
def test_shared_commands_run_beside_each_other(
    cli: Program, name: str, client: holdfast.Client, shared: str
) -> None:
    first = cli.start("run", shared, name, "-c", "echo in; read line", stdin=subprocess.PIPE)
    assert line_of(first) == "in"
    assert client.lock(name).inspect().shared
    done = cli("run", "-n", shared, name, "-c", "echo $HOLDFAST_FENCE")
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > client.lock(name).inspect().fence
    assert cli("run", "-n", name, "true").returncode == 1
    writer = cli.start("run", name, "-c", "echo alone")
    until(lambda: client.lock(name).inspect().queue)
    assert cli("run", "-n", shared, name, "true").returncode == 1  # it does not pass the writer
    first.communicate("\n", timeout=50)
    assert ended(writer) == (0, "alone\n", "")


@pytest.mark.parametrize("alone", ["-x", "-e", "--exclusive"])
def test_the_last_of_shared_and_exclusive_counts(
    cli: Program, name: str, client: holdfast.Client, alone: str
) -> None:
    with client.lock(name).shared():
        assert cli("run", "-n", alone, name, "true").returncode == 1
        assert cli("run", "-n", "-s", alone, name, "true").returncode == 1
        assert cli("run", "-n", alone, "-s", name, "true").returncode == 0
    assert cli("run", "-n", alone, name, "true").returncode == 0


def test_so_many_commands_run_at_once_as_there_are_permits(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    command = ("run", "--permits", 2, name, "-c", "echo in; read line")
    running = [cli.start(*command, stdin=subprocess.PIPE) for _ in range(2)]
    assert [line_of(each) for each in running] == ["in", "in"]
    assert cli("run", "-n", "--permits", 2, name, "true").returncode == 1
    assert cli("run", "-n", "--permits", 3, name, "true").returncode == 0
    running[0].communicate("\n", timeout=50)
    assert cli("run", "-n", "--permits", 2, name, "true").returncode == 0
    running[1].communicate("\n", timeout=50)
    assert not client.lock(name).locked()


def test_a_command_takes_several_permits(cli: Program, name: str, client: holdfast.Client) -> None:
    pool = ("--permits", 5, "--weight")
    running = cli.start("run", *pool, 3, name, "-c", "echo in; read line", stdin=subprocess.PIPE)
    assert line_of(running) == "in"
    assert "weight 3" in cli("inspect", name).stdout
    (holder,) = json.loads(cli("inspect", "--json", name).stdout)["holders"]
    assert holder["weight"] == 3
    assert cli("run", "-n", *pool, 3, name, "true").returncode == 1
    assert cli("run", "-n", *pool, 2, name, "true").returncode == 0
    running.communicate("\n", timeout=50)
    assert not client.lock(name).locked()


def test_a_command_with_a_head_start_passes_others(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    lock = client.lock(name)
    with lock:
        running = []
        for who, options in ("first", ()), ("urgent", ("--ahead", "1m")):
            running.append(cli.start("run", *options, "--note", who, name, "true"))
            until(lambda: len(lock.inspect().queue) == len(running))
        assert [waiter.note for waiter in lock.inspect().queue] == ["urgent", "first"]
        shown = cli("inspect", name).stdout
        assert 0 < shown.index("urgent") < shown.index("first")
        waiters = json.loads(cli("inspect", "--json", name).stdout)["waiters"]
        assert [waiter["note"] for waiter in waiters] == ["urgent", "first"]
    for each in running:
        each.communicate(timeout=50)
        assert each.returncode == 0


def test_so_many_commands_begin_as_the_rate_allows(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    hourly = ("run", "--rate", "2/1h", name)
    one = cli.start(*hourly, "--", "sh", "-c", "echo $$; read line", stdin=subprocess.PIPE)
    assert int(line_of(one)) == one.pid  # holdfast became the command
    assert client.gate(name, 2, 3600).try_enter()
    busy = cli("run", "-n", "--rate", "2/1h", name, "true")
    assert (busy.returncode, busy.stderr) == (1, "")
    late = cli("run", "-w", "1ms", "--rate", "2/1h", name, "true")
    assert late.returncode == 75
    assert f"the rate of '{name}' is used up: no pass is free" in late.stderr
    one.communicate("\n", timeout=50)
    assert cli("run", "-n", "-E", 9, "--rate", "2/1h", name, "true").returncode == 9
    lock = client.lock(name)
    for _ in range(2):
        lock.force_release(lock.inspect().fence)
    assert cli(*hourly, "-c", "exit 5").returncode == 5
    assert cli(*hourly, "/none").returncode == 127  # a pass is not given back
    assert client.gate(name, 2, 3600).free_in() > 0


def test_a_gate_follows_the_stored_rate(cli: Program, name: str, client: holdfast.Client) -> None:
    none = cli("run", "--gate", name, "true")
    assert none.returncode not in (0, 1, 75)
    assert "no rate is stored with gate '" in none.stderr
    client.limit(name, rate=(3, 3600))
    assert cli("run", "-n", "--gate", "--weight", "2", name, "true").returncode == 0
    assert cli("run", "-n", "--gate", "--weight", "2", name, "true").returncode == 1
    assert cli("run", "--gate", name, "-c", "exit 5").returncode == 5
    assert cli("run", "-n", "--gate", name, "true").returncode == 1
    assert not client.gate(name).try_enter()
    for wrong in (["--rate", "1/1h"], ["--permits", "2"], ["--lease", "5s"]):
        assert cli("run", "--gate", *wrong, name, "true").returncode == 64


def test_a_pass_that_was_waited_for_lasts_for_its_whole_time(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    lock = client.lock(name)
    with lock:
        waits = cli.start("run", "--rate", "1/4s", name, "echo", "in")
        until(lambda: lock.inspect().waiters == 1)
    assert waits.communicate(timeout=50)[0] == "in\n"
    info = lock.inspect()
    if info.held:  # or the machine was too slow
        assert info.held_for + (info.remaining or 0) >= 3.99


def test_a_command_waits_for_its_turn(cli: Program, name: str, client: holdfast.Client) -> None:
    assert client.gate(name, 1, 3600).try_enter()
    waits = cli.start("run", "--rate", "1/1h", name, "echo", "in")
    lock = client.lock(name)
    until(lambda: lock.inspect().waiters == 1)
    lock.force_release(lock.inspect().fence)
    assert waits.communicate(timeout=50)[0] == "in\n"


def test_a_string_is_for_the_shell(cli: Program, name: str) -> None:
    assert cli("run", "-c", "echo $0; exit 3", name).stdout == "/bin/sh\n"
    assert cli("run", name, "-c", "exit 3").returncode == 3  # flock takes it this way, too
    cli.environment["SHELL"] = "/bin/bash"
    assert cli("run", name, "--command", "echo $0").stdout == "/bin/bash\n"
    assert cli("run", name, "--shell", "-c", "echo $0").stdout == "/bin/sh\n"
    cli.environment["SHELL"] = ""
    assert cli("run", name, "-c", "echo $0").stdout == "/bin/sh\n"
    assert cli("run", name, "--shell=/bin/bash", "-c", "echo $0").stdout == "/bin/bash\n"


def test_a_nested_run_is_somebody_else_unless_it_is_the_same_owner(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    nested = [PROGRAM, "run", "-n"]
    assert cli("run", name, "--", *nested, name, "--", "true").returncode == 1
    assert cli("run", name, "--", *nested, name + "2", "--", "echo", "in").stdout == "in\n"
    same = f'"{PROGRAM}" run -n --owner "$HOLDFAST_OWNER" {name} -- sh -c "echo \\$HOLDFAST_FENCE"'
    out = cli(
        "run", name, "-c", f"echo $HOLDFAST_FENCE; {same}; exec {PROGRAM} run -n {name} -- true"
    )
    assert out.returncode == 1  # the inner release did not release the outer hold
    assert len(set(out.stdout.split())) == 1
    assert not client.lock(name).locked()


def test_a_note_says_what_the_lock_is_held_for(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    process = cli.start(
        "run", "--note", "nightly 7", name, "-c", "echo in; read line", stdin=subprocess.PIPE
    )
    assert line_of(process) == "in"
    (holder,) = client.lock(name).inspect().holders
    assert holder.note == "nightly 7"
    assert holder.origin is not None
    assert holder.origin.pid == process.pid
    process.kill()
    same = f'"{PROGRAM}" run -n --owner "$HOLDFAST_OWNER" {name}2 -- echo nested'
    assert cli("run", "--note", "nightly 8", name + "2", "-c", same).stdout == "nested\n"


def test_trouble_is_told_before_the_lock_is_lost(cli: Program, own_server: Server) -> None:
    cli.environment["HOLDFAST_URL"] = own_server.url + PATIENT
    process = cli.start(
        "run", "--lease", "12s", "job", "-c", "echo in; read line", stdin=subprocess.PIPE
    )
    assert line_of(process) == "in"
    assert process.stderr is not None
    with redis.Redis.from_url(own_server.url) as raw:
        raw.execute_command("ACL", "SETUSER", "default", "-evalsha", "-eval")
        assert process.stderr.readline().startswith("holdfast: cannot renew 1 hold, which ends in ")
        raw.execute_command("ACL", "SETUSER", "default", "+@all")
    assert process.stderr.readline().startswith("holdfast: holds are renewed again, after ")
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


# ----------------------------------------------------------------------- Mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "run needs the name of a lock and a command"),
        (["x"], "run needs a command"),
        (["x", "--"], "run needs a command"),
        (["--", "true"], "run needs a command"),
        (["-E", "256", "x", "true"], "--conflict-exit-code takes a number from 0 to 255"),
        (["-E", "", "x", "true"], "--conflict-exit-code takes a number from 0 to 255"),
        (["-c", "true", "x", "y"], "-c takes a single string"),
        (["--shell", "x", "true"], "--shell needs -c"),
        (["--on-lost", "panic", "x", "true"], "--on-lost takes kill, term or ignore, not 'panic'"),
        (["--lease", "1ms", "x", "true"], "--lease 1ms is too short: at least 10ms"),
        (["--kill-after", "6s", "x", "true"], "at most half of the lease: 5000 ms"),
        (["--max-hold", "0", "x", "true"], "--max-hold must be longer than 0"),
        (["--once-per", "0", "x", "true"], "--once-per must be longer than 0"),
        (["--weight", "2", "x", "true"], "--weight needs --permits"),
        (["--permits", "2", "--weight", "3", "x", "true"], "it would wait for ever"),
        (["--ahead", "2h", "x", "true"], "--ahead 2h: it takes more than 0, and at most 1h"),
        (["--ahead", "0", "x", "true"], "--ahead 0: it takes more than 0"),
        (["-n", "--ahead", "5s", "x", "true"], "--ahead does nothing for a command that does not"),
        (["--permits", "0", "x", "true"], "--permits takes a number from 1 to 9999999999"),
        (["--rate", "10", "x", "true"], "--rate takes a number and a duration, such as 10/1m"),
        (["--rate", "0/1m", "x", "true"], "--rate takes a number from 1 to 9999999999"),
        (["--rate", "9/1ms", "x", "true"], "--rate 9/1ms is too short: at least 10ms"),
        (["--rate", "9/x", "x", "true"], "--rate"),
        (["--rate", "9/1m", "--lease", "5", "x", "true"], "--lease does nothing with --rate"),
        (["-s", "--rate", "9/1m", "x", "true"], "--shared does nothing with --rate"),
        (["--gate", "--rate", "9/1m", "x", "true"], "give one of them"),
        (["--rate", "9/1m", "--gate", "x", "true"], "give one of them"),
        (["-F", "x", "true"], "--no-fork is not possible"),
        (["--no-fork", "x", "true"], "--no-fork is not possible"),
        (["--frob", "x", "true"], "unrecognized option '--frob'"),
        (["-w"], "option requires an argument -- 'w'"),
        (["", "true"], "the name is empty"),
        (["--owner", "", "x", "true"], "the owner has 0 bytes: it takes 1 to 4096"),
        (["a}b", "true"], "}"),
        (["--url", "http://x", "x", "true"], "http"),
    ],
)
def test_bad_usage_is_told(cli: Program, arguments: list[str], said: str) -> None:
    done = cli("run", *arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("holdfast: ")
    assert said in done.stderr


def test_an_outage_is_never_told_as_a_lock_that_others_hold(
    cli: Program, name: str, own_server: Server
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = cli("run", "-n", "--url", f"redis://:secret@127.0.0.1:{port}", name, "--", "true")
    assert done.returncode == 69
    assert "Connection refused" in done.stderr
    assert "secret" not in done.stderr

    with redis.Redis.from_url(own_server.url) as raw:
        raw.config_set("requirepass", "right")
        done = cli("run", "-n", "--url", own_server.url, name, "--", "true")
        assert done.returncode == 77
        wrong = own_server.url.replace("//", "//:secret@")
        done = cli("run", "-n", "--url", wrong, name, "--", "true")
        assert done.returncode == 77
        assert "secret" not in done.stderr
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            right = own_server.url.replace("//", "//:right@") + "?connect_timeout=0.3"
            assert cli("run", "-n", "--url", right, name, "--", "true").returncode == 69
        finally:
            os.kill(own_server.pid, signal.SIGCONT)


@contextlib.contextmanager
def way_to(server: Server) -> Iterator[tuple[str, threading.Event]]:
    """Return a way to the server on which requests wait while the event is clear."""
    opened = threading.Event()
    opened.set()
    to = urlsplit(server.url)

    def carry(source: socket.socket, target: socket.socket, waits: bool) -> None:
        with contextlib.suppress(OSError):
            while some := source.recv(65536):
                if waits:
                    opened.wait()
                target.sendall(some)
        with contextlib.suppress(OSError):  # also after a reset: the other end waits for it
            target.shutdown(socket.SHUT_WR)

    def talk(here: socket.socket) -> None:
        with here, socket.create_connection((to.hostname, to.port)) as there:
            answers = threading.Thread(target=carry, args=(there, here, False))
            answers.start()
            carry(here, there, True)
            answers.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threads.append(threading.Thread(target=talk, args=(door.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as door:
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield f"redis://127.0.0.1:{door.getsockname()[1]}{PATIENT}", opened
        finally:
            opened.set()
            door.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def test_a_lock_that_is_lost_before_the_command_begins_is_acquired_again(
    cli: Program, name: str, server: Server, client: holdfast.Client, raw: redis.Redis
) -> None:
    lock = client.lock(name)
    with way_to(server) as (url, opened):
        lock.acquire()
        process = cli.start("run", "--url", url, name, "--", "echo", "ran")
        until(lambda: lock.inspect().waiters == 1)
        opened.clear()  # a grant by message is now confirmed later
        lock.release()
        assert raw.delete(name) == 1
        opened.set()
        assert ended(process) == (0, "ran\n", "")


def test_what_is_no_redis_is_told(cli: Program, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}"
        assert cli("run", "--url", url, name, "--", "true").returncode == 76
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


# ------------------------------------------------------------------------- Signals


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_is_passed_on(cli: Program, name: str, number: signal.Signals) -> None:
    trap = f"trap 'echo got it; exit 5' {int(number)}; echo ready; while :; do sleep 0.05; done"
    process = cli.start("run", name, "--", "sh", "-c", trap)
    assert line_of(process) == "ready"
    process.send_signal(number)
    assert ended(process)[:2] == (5, "got it\n")
    process = cli.start("run", name, "--", "sh", "-c", "ulimit -c 0; echo ready; exec sleep 60")
    assert line_of(process) == "ready"
    process.send_signal(number)
    assert ended(process)[0] == 128 + number


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_ends_the_wait_and_nothing_runs(
    cli: Program, name: str, client: holdfast.Client, number: signal.Signals
) -> None:
    lock = client.lock(name)
    with lock:
        process = cli.start("run", name, "--", "touch", "ran")
        until(lambda: lock.inspect().waiters == 1)
        process.send_signal(number)
        assert ended(process) == (128 + number, "", "")
        assert lock.inspect().waiters == 0
    assert not (cli.folder / "ran").exists()


def start_ignoring(
    number: signal.Signals, cli: Program, *arguments: object
) -> subprocess.Popen[str]:
    """Start the program as nohup(1) does, or the & of a script."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        return cli.start(*arguments)
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_that_the_caller_ignores_ends_no_wait(
    cli: Program, name: str, client: holdfast.Client, number: signal.Signals
) -> None:
    lock = client.lock(name)
    with lock:
        process = start_ignoring(number, cli, "run", name, "--", "echo", "ran")
        until(lambda: lock.inspect().waiters == 1)
        process.send_signal(number)
    assert ended(process) == (0, "ran\n", "")


def test_a_command_may_handle_what_the_caller_ignores(cli: Program, name: str) -> None:
    handles = (
        "import signal, sys; signal.signal(signal.SIGHUP, lambda *_: sys.exit(5));"
        "print('ready', flush=True); signal.pause()"
    )
    command = ("run", name, "--", sys.executable, "-c", handles)
    process = start_ignoring(signal.SIGHUP, cli, *command)
    assert line_of(process) == "ready"
    process.send_signal(signal.SIGHUP)
    assert ended(process)[0] == 5


def test_a_signal_that_races_the_grant_leaves_no_lock_behind(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    lock = client.lock(name)
    for _ in range(10):
        lock.acquire()
        process = cli.start("run", name, "--", "sleep", "60")
        until(lambda: lock.inspect().waiters == 1)
        lock.release()
        process.terminate()
        assert ended(process)[0] == 143
        assert not lock.locked()


def renewed(raw: redis.Redis, name: str) -> None:
    """Wait until the lock's lease is extended."""
    least = raw.pttl(name)
    assert least > 0

    def more() -> bool:
        nonlocal least
        before, least = least, raw.pttl(name)
        return least > before

    until(more)


def test_a_stop_is_passed_on_and_the_lock_stays_held(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    command = ("run", "--lease", "6s", name, "--", "sh", "-c", "echo $$; exec sleep 60")
    process = cli.start(*command, start_new_session=True)
    child = int(line_of(process))
    process.send_signal(signal.SIGTSTP)
    until(lambda: state(child) == "T")
    renewed(raw, name)
    process.send_signal(signal.SIGCONT)
    until(lambda: state(child) == "S")
    process.terminate()
    assert ended(process)[0] == 143


# --------------------------------------------------------------------- A lost lock

STUBBORN = "trap 'echo term' TERM; echo $$; while :; do sleep 0.02; done"


def test_the_lock_is_renewed_until_the_command_ends(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    command = ("run", "--lease", "6s", name, "-c", "echo; read line")
    process = cli.start(*command, stdin=subprocess.PIPE)
    line_of(process)
    renewed(raw, name)
    assert ended(process)[0] == 1
    assert not raw.exists(name)


def test_a_command_that_the_guard_killed_has_lost_its_lock(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    """A renewal arrived after the guard's last order, whose deadline is before the end of that
    lease."""
    command = ("run", "--lease", "4s", "-k", "100ms", name, "-c", "echo $$; exec sleep 60")
    process = cli.start(*command)
    child = int(line_of(process))
    renewed(raw, name)
    process.send_signal(signal.SIGSTOP)
    until(lambda: not alive(child))
    process.send_signal(signal.SIGCONT)
    status, _, err = ended(process)
    assert status == 79
    assert "stopped while the lease expired: killing its command" in err


def test_a_command_whose_lock_was_taken_away_gets_term(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    process = cli.start(
        "run",
        "--lease",
        "12s",
        name,
        "-c",
        "trap 'echo term; exit 0' TERM; echo; while :; do sleep 0.02; done",
    )
    line_of(process)
    lock = client.lock(name)
    lock.force_release(lock.inspect().fence)
    status, out, err = ended(process)
    assert (status, out) == (79, "term\n")
    assert f"holdfast: lock '{name}' was taken away: sending TERM to its command\n" in err


def test_a_stubborn_command_is_killed_with_all_its_group(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    both = f"({STUBBORN}) & {STUBBORN}"
    process = cli.start("run", "--lease", "1s", "-k", "200ms", name, "-c", both)
    children = {int(line_of(process)), int(line_of(process))}
    raw.delete(name)
    status, out, _ = ended(process)
    assert status == 79
    assert "term" in out
    until(lambda: not any(alive(child) for child in children))


def test_what_is_left_of_a_group_has_its_time_too(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    slow = "(trap 'sleep 0.3; echo cleaned up; exit' TERM; echo; while :; do sleep 0.02; done) & "
    process = cli.start("run", "--lease", "6s", "-k", "3s", name, "-c", slow + "exec sleep 60")
    line_of(process)
    raw.delete(name)
    assert ended(process)[:2] == (79, "cleaned up\n")


def test_the_command_is_dead_before_the_lease_ends(
    cli: Program, name: str, own_server: Server
) -> None:
    """The lease of the last renewal still counts when the server does not answer."""

    process = cli.start("run", "--url", own_server.url, "--lease", "4s", name, "-c", STUBBORN)
    child = int(line_of(process))
    os.kill(own_server.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        until(lambda: not alive(child))
        # It is killed 100 ms before the end, and the machine may stand still for longer.
        assert time.monotonic() - stopped < 30
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    status, out, err = ended(process)
    assert status == 79
    assert "term" in out
    assert "could not be renewed: sending TERM to its command" in err


def test_on_lost_term_does_not_kill(cli: Program, name: str, raw: redis.Redis) -> None:
    stays = "trap 'echo term' TERM; echo; for i in $(seq 50); do sleep 0.02; done; echo done"
    process = cli.start("run", "--on-lost", "term", "--lease", "1s", name, "-c", stays)
    line_of(process)
    raw.delete(name)
    assert ended(process)[:2] == (79, "term\ndone\n")


def test_time_between_term_and_kill_may_be_short(cli: Program, name: str, raw: redis.Redis) -> None:
    traps = "trap 'echo term; exit' TERM; echo; while :; do sleep 0.02; done"
    process = cli.start("run", "--lease", "2s", "-k", "90ms", name, "-c", traps)
    line_of(process)
    raw.delete(name)
    assert ended(process)[:2] == (79, "term\n")


def test_kill_follows_though_the_lock_is_renewed_after_term(
    cli: Program, name: str, own_server: Server
) -> None:
    command = ("run", "--url", own_server.url + PATIENT, "--lease", "6s", "-k", "3s")
    process = cli.start(*command, name, "-c", STUBBORN)
    line_of(process)
    os.kill(own_server.pid, signal.SIGSTOP)
    assert process.stderr is not None
    try:
        while "sending TERM" not in process.stderr.readline():
            pass
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    assert ended(process)[:2] == (79, "term\n")


def adopt_orphans() -> None:
    """Become the parent of orphans, as the first process of a container is."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) == 0


def test_orphans_that_have_ended_do_not_count(cli: Program, name: str, raw: redis.Redis) -> None:
    parent = "sleep 1000 & echo; wait"
    process = cli.start(
        *("run", "--on-lost", "term", "--lease", "1s", name, "-c", parent),
        preexec_fn=adopt_orphans,
    )
    line_of(process)
    raw.delete(name)
    assert ended(process)[0] == 79


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program set its user")
def test_a_command_of_another_user_is_told(
    cli: Program, name: str, raw: redis.Redis, tmp_path: Path
) -> None:
    """The caller may start the command as root, as with sudo, but not signal it."""
    sudo = tmp_path / "sudo"
    sudo.write_bytes(Path("/usr/bin/setpriv").read_bytes())
    sudo.chmod(0o4755)
    reads = "-all,+dac_override"  # the program may be in a folder of root
    user = ("--reuid", "65534", "--clear-groups", "--inh-caps", reads, "--ambient-caps", reads)
    command = (sudo, "--reuid", "0", "sh", "-c", "echo; exec sleep 3")
    process = subprocess.Popen(
        ["setpriv", *user, PROGRAM, "run", "--lease", "1s", name, "--", *command],
        env=cli.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    cli.started.append(process)
    line_of(process)
    raw.delete(name)
    status, _, err = ended(process)
    assert status == 79
    assert "cannot end the command: it is another user's" in err


def test_a_full_stderr_delays_no_signal(cli: Program, name: str, raw: redis.Redis) -> None:
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writes, bytes(4096))
    traps = "exec 2>/dev/null; trap 'echo term; exit' TERM; echo; while :; do sleep 0.02; done"
    command = ("run", "--on-lost", "term", "--lease", "1s", name, "-c", traps)
    process = cli.start(*command, stderr=writes)
    line_of(process)
    raw.delete(name)
    assert ended(process)[:2] == (79, "term\n")
    os.close(reads)
    os.close(writes)


def test_a_loss_is_told_later_if_stderr_was_full(cli: Program, name: str, raw: redis.Redis) -> None:
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writes, bytes(4096))
    command = ("run", "--on-lost", "ignore", "--lease", "300ms", name, "-c", "echo; read line")
    process = cli.start(*command, stderr=writes, stdin=subprocess.PIPE)
    os.close(writes)
    line_of(process)
    raw.delete(name)
    time.sleep(1)  # it has found that out
    os.read(reads, 4096)
    assert ended(process)[0] == 1
    assert b"lost" in os.read(reads, 4096)
    os.close(reads)


def test_a_closed_stderr_does_not_end_the_command(cli: Program, name: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = cli("run", "-v", "--rate", "9/1m", name, "--", "echo", "ran", stderr=writes)
    os.close(writes)
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_what_is_left_of_a_group_gets_the_signals(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    traps = "trap '' TERM; trap 'echo cleaned up; exit' USR1; echo $$"
    both = f"({traps}; for i in $(seq 2000); do sleep 0.02; done) & exec sleep 60"
    process = cli.start("run", "--on-lost", "term", "--lease", "1s", name, "-c", both)
    command = int(line_of(process))
    raw.delete(name)
    until(lambda: state(command) == "")
    process.send_signal(signal.SIGUSR1)
    assert ended(process)[:2] == (79, "cleaned up\n")


def test_on_lost_term_says_that_it_only_sends_term(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    command = ("run", "--on-lost", "term", "--lease", "1s", name, "-c", "echo; exec sleep 60")
    process = cli.start(*command)
    line_of(process)
    process.send_signal(signal.SIGSTOP)
    until(lambda: not raw.exists(name))
    process.send_signal(signal.SIGCONT)
    status, _, err = ended(process)
    assert status == 79
    assert "could not be renewed: sending TERM to its command" in err


def test_on_lost_ignore_tells_and_goes_on(cli: Program, name: str, raw: redis.Redis) -> None:
    process = cli.start(
        "run",
        "--on-lost",
        "ignore",
        "--lease",
        "300ms",
        name,
        "-c",
        "echo; read line; exit 4",
        stdin=subprocess.PIPE,
    )
    line_of(process)
    raw.delete(name)
    assert process.stderr is not None
    assert process.stderr.readline().strip().endswith("was lost; its command continues")
    assert ended(process) == (4, "", "")


def test_a_loss_that_only_the_release_finds_is_told(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    process = cli.start(
        "run", "--lease", "60s", name, "-c", "echo; read line", stdin=subprocess.PIPE
    )
    line_of(process)
    raw.delete(name)
    status, _, err = ended(process)
    assert status == 79
    assert "is lost" in err


# -------------------------------------------------------- When holdfast cannot

FAMILY = "sleep 1000 & echo $$ $!; wait"


def test_a_command_does_not_outlive_a_killed_holdfast(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    process = cli.start("run", "--lease", "60s", name, "-c", FAMILY)
    family = [int(pid) for pid in line_of(process).split()]
    process.kill()
    until(lambda: not any(alive(pid) for pid in family))
    _, _, err = ended(process)
    assert "ended before its command" in err
    assert client.lock(name).locked()  # until the lease ends


def guard_of(process: subprocess.Popen[str], command: int) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (guard,) = {int(child) for child in children} - {command}
    until(lambda: Path(f"/proc/{guard}/comm").read_text() == "hf-guard\n")
    return guard


def test_a_command_does_not_outlive_a_killed_holdfast_and_guard(cli: Program, name: str) -> None:
    process = cli.start("run", name, "-c", "echo $$; exec sleep 1000")
    command = int(line_of(process))
    os.kill(guard_of(process, command), signal.SIGKILL)
    process.kill()
    until(lambda: not alive(command))


def test_the_guard_stays_if_all_processes_get_a_signal(cli: Program, name: str) -> None:
    """systemd sends SIGTERM to each process of a unit."""
    stays = "trap '' TERM; echo $$; exec sleep 1000"
    process = cli.start("run", "--lease", "4s", name, "-c", stays)
    command = int(line_of(process))
    os.kill(guard_of(process, command), signal.SIGTERM)
    process.terminate()
    process.send_signal(signal.SIGSTOP)
    until(lambda: not alive(command))
    process.send_signal(signal.SIGCONT)
    status, _, err = ended(process)
    assert status == 79
    assert "stopped while the lease expired" in err


def test_a_command_does_not_outlive_the_lease_of_a_stopped_holdfast(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    process = cli.start("run", "--lease", "1s", name, "-c", FAMILY)
    family = [int(pid) for pid in line_of(process).split()]
    process.send_signal(signal.SIGSTOP)
    with client.lock(name).hold(timeout=20):  # the guard killed it when the lease ended
        until(lambda: not any(alive(pid) for pid in family))
    process.send_signal(signal.SIGCONT)
    status, _, err = ended(process)
    assert status == 79
    assert "stopped while the lease expired" in err


def test_the_guard_leaves_what_a_command_has_left_behind(
    cli: Program, name: str, own_server: Server
) -> None:
    """Also if the server is away, and the lease ends before the release is answered."""
    quickly = "?connect_timeout=0.5&command_timeout=0.5"
    cli.environment["HOLDFAST_URL"] = own_server.url + quickly
    once = ("run", "--lease", "6s", "-k", "100ms", "--once-per", "1h", name)
    leaves = "sleep 1000 >/dev/null 2>&1 & echo $!; read line"
    process = cli.start(*once, "-c", leaves, stdin=subprocess.PIPE)
    left = int(line_of(process))
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        err = process.communicate("\n", timeout=50)[1]
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    assert "its command" not in err
    assert alive(left)
    os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(("mode", "gets"), [("term", "term\n"), ("ignore", "")])
def test_a_killed_holdfast_leaves_what_on_lost_says(
    cli: Program, name: str, mode: str, gets: str
) -> None:
    # More than one process may notice that holdfast is dead, and send the signal.
    once = "trap 'trap \"\" TERM; echo term; exit' TERM"
    waits = f"{once}; echo; for i in $(seq 50); do sleep 0.02; done"
    process = cli.start("run", "--on-lost", mode, name, "-c", waits)
    line_of(process)
    process.kill()
    assert ended(process)[1] == gets


# -------------------------------------------------------------------- Limits


def test_max_hold_ends_the_command(cli: Program, name: str, client: holdfast.Client) -> None:
    done = cli(
        "run",
        "--max-hold",
        "200ms",
        name,
        "-c",
        "trap 'echo term; exit 0' TERM; while :; do sleep 0.02; done",
    )
    assert (done.returncode, done.stdout) == (80, "term\n")
    assert "has run longer than --max-hold" in done.stderr
    done = cli("run", "--max-hold", "200ms", "-k", "100ms", name, "-c", STUBBORN)
    assert done.returncode == 80
    assert client.lock(name).acquire(timeout=0)
    assert cli("run", "--max-hold", "40s", name + "2", "--", "true").returncode == 0


# ------------------------------------------------------------------ Once in a period


def test_once_in_a_period_the_others_have_nothing_to_do(
    cli: Program, name: str, raw: redis.Redis
) -> None:
    once = ("run", "--once-per", "1h", name, "--", "sh", "-c", "echo ran; exit ${STATUS:-0}")
    cli.environment["STATUS"] = "3"
    assert cli(*once).returncode == 3  # it failed, and the next caller has the turn
    cli.environment["STATUS"] = "0"
    first = cli(*once)
    assert (first.returncode, first.stdout, first.stderr) == (0, "ran\n", "")
    assert 3_500_000 < raw.pttl(name) <= 3_600_000
    other = cli(*once)
    assert (other.returncode, other.stdout) == (0, "")
    assert other.stderr == (
        f"holdfast: '{name}' already ran in this period or is running: nothing to do\n"
    )
    assert cli("run", "-q", "-w", "0.05", *once[1:]).stderr == ""
    assert cli("run", "-E", "9", *once[1:]).returncode == 9
    # The same owner does not get it, either.
    assert cli("run", "--owner", "ann", *once[1:]).stdout == ""


def test_a_period_is_over(cli: Program, name: str) -> None:
    once = ("run", "-w", "20", "--once-per", "200ms", name, "--", "echo", "ran")
    assert [cli(*once).stdout for _ in range(3)] == ["ran\n"] * 3
    # A run that is longer than its period is released.
    assert cli("run", "--once-per", "10ms", name + "2", "--", "sleep", "0.1").returncode == 0
    assert cli("run", "-n", name + "2", "--", "true").returncode == 0


def test_the_same_owner_does_not_run_twice_in_a_period(cli: Program, name: str) -> None:
    once = ("run", "--owner", "ann", "--once-per", "1h", name, "--", "echo", "ran")
    assert [cli(*once).stdout for _ in range(2)] == ["ran\n", ""]


def test_a_run_that_is_killed_passes_the_turn_on(cli: Program, name: str) -> None:
    once = ("run", "--lease", "1s", "--once-per", "1h", name)
    first = cli.start(*once, "-c", "echo; sleep 1000")
    line_of(first)
    waits = cli.start(*once, "-w", "40", "--", "echo", "my turn")
    first.kill()
    assert ended(waits)[:2] == (0, "my turn\n")


def test_that_it_ran_is_told_to_a_server_that_is_late(
    cli: Program, name: str, own_server: Server
) -> None:
    url = own_server.url + "?connect_timeout=0.5&command_timeout=0.5"
    process = cli.start(
        "run",
        "--url",
        url,
        "--lease",
        "20s",
        "--once-per",
        "1h",
        name,
        "-c",
        "echo; read line",
        stdin=subprocess.PIPE,
    )
    line_of(process)
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        assert process.stdin is not None
        process.stdin.write("end\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    assert process.wait(20) == 0
    with redis.Redis.from_url(own_server.url) as raw:
        assert raw.pttl(name) > 3_000_000


# ------------------------------------------------------------------- A crowd


def test_many_that_are_killed_at_random_never_work_at_once(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    """Kernel locks, which end with their processes, show whether two are inside."""
    work = (
        "exec 9>inside; flock -n 9 || echo two >>wrong; echo $HOLDFAST_FENCE >>fences;"
        " sleep 0.0$((HOLDFAST_FENCE % 5)); flock -u 9"
    )
    crowd = [cli.start("run", "--lease", "5s", name, "-c", work) for _ in range(27)]
    for number, victim in enumerate(crowd):
        if number % 3 == 0:
            until(lambda: (cli.folder / "fences").exists())
            signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
            victim.send_signal(signals[number // 3 % 3])
    for number, one in enumerate(crowd):
        if number % 9 != 6:  # that process is stopped
            one.communicate(timeout=50)
            assert number % 3 == 0 or one.returncode == 0
    assert not (cli.folder / "wrong").exists()
    fences = [int(fence) for fence in (cli.folder / "fences").read_text().split()]
    assert fences == sorted(set(fences))
    assert len(fences) >= 18
    for number, one in enumerate(crowd):
        if number % 9 == 6:
            one.send_signal(signal.SIGCONT)
            one.communicate(timeout=50)
    assert client.lock(name).acquire(timeout=20)

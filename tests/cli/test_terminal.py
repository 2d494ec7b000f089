"""holdfast run in a terminal, under a real interactive shell."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from conftest import PROGRAM, Program


class Terminal:
    """bash -i on a terminal of its own."""

    def __init__(self, program: Program) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(program.folder)
            environment = {**program.environment, "PS1": "$ ", "TERM": "dumb", "PS0": ""}
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self.seen = ""
        self.type(f"PATH={PROGRAM.parent}:$PATH; echo rea''dy")
        self.expect("ready")

    def type(self, text: str, end: str = "\n") -> None:
        os.write(self.fd, (text + end).encode())

    def press(self, key: str, shows: str = r"\$ $") -> None:
        """Press a key that brings the shell back, until it does.

        Keys pressed before the shell shows its prompt are lost; so may be a signal that arrives
        while
        `sh -c` starts its next command, with or without holdfast.
        """
        for _ in range(20):
            self.type(key, end="")
            with contextlib.suppress(AssertionError):
                self.expect(shows, 1)
                return
        raise AssertionError(f"the shell did not come back: {self.seen!r}")

    def expect(self, pattern: str, seconds: float = 20) -> re.Match[str]:
        """Wait until the terminal shows the pattern, and continue after it."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 4096).decode(errors="replace")
        self.seen = self.seen[found.end() :]
        return found

    def close(self) -> None:
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(cli: Program) -> Iterator[Terminal]:
    terminal = Terminal(cli)
    yield terminal
    terminal.close()


def test_a_command_can_read_from_the_terminal(terminal: Terminal, name: str) -> None:
    terminal.type(f"holdfast run {name} -- sh -c 'read x; echo \"<$x>\"'; echo st''atus $?")
    terminal.type("hello")
    terminal.expect("<hello>")
    terminal.expect("status 0")


def test_a_command_can_set_the_terminal(terminal: Terminal, name: str) -> None:
    terminal.type(f"holdfast run {name} -- sh -c 'stty -echo; stty -a; stty echo'")
    terminal.expect(" -echo ")
    terminal.type("echo st''atus $?; stty -a")
    terminal.expect("status 0")
    terminal.expect(" echo ")


def test_an_interactive_shell_runs_under_a_lock(
    terminal: Terminal, name: str, client: holdfast.Client
) -> None:
    terminal.type(f"holdfast run {name} -- bash --norc --noprofile -i")
    # One command that has the terminal: bash may not end a command that gets a key while it starts.
    terminal.type("""sh -c 'echo fence""=$HOLDFAST_FENCE; exec sleep 60'""")
    fence = int(terminal.expect(r"fence=(\d+)")[1])
    assert client.lock(name).inspect().fence == fence
    terminal.press("\x03")  # for the command of the inner shell
    terminal.type("echo st''atus $?; exit 7")
    terminal.expect(r"(?s)status 130.*\$ $")
    terminal.type("echo out''er $?")
    terminal.expect("outer 7")
    assert not client.lock(name).locked()


def begin(terminal: Terminal, name: str, command: str) -> None:
    """Start a command of one process, which does not fork while a key may stop it."""
    terminal.type(f"holdfast run --lease 60s {name} -- sh -c 'echo i''n; exec {command}'")
    terminal.expect("in\r")
    if command == "cat":
        terminal.type("line")
        terminal.expect("line\r\nline\r")


@pytest.mark.parametrize("command", ["sleep 60", "cat"])
def test_ctrl_c_ends_the_command(terminal: Terminal, name: str, command: str) -> None:
    begin(terminal, name, command)
    terminal.press("\x03")
    terminal.type("echo st''atus $?")
    terminal.expect("status 130")


def begin_script(terminal: Terminal, name: str, command: str, folder: Path) -> None:
    script = f"holdfast run --lease 60s {name} -- sh -c 'echo in; exec {command}'\necho went on\n"
    (folder / "script").write_text(script)
    terminal.type("bash script")
    terminal.expect("in\r")
    if command == "cat":  # it has the terminal from now on
        terminal.type("line")
        terminal.expect("line\r\nline\r")


@pytest.mark.parametrize("command", ["sleep 60", "cat"])
def test_ctrl_c_ends_the_script_too(
    terminal: Terminal, name: str, cli: Program, command: str
) -> None:
    begin_script(terminal, name, command, cli.folder)
    terminal.press("\x03")
    terminal.type("echo st''atus $?")
    assert "went on" not in terminal.expect(r"(?s).*status 130")[0]


@pytest.mark.parametrize("command", ["sleep 60", "cat"])
def test_one_ctrl_z_stops_the_script_too(
    terminal: Terminal, name: str, cli: Program, command: str
) -> None:
    begin_script(terminal, name, command, cli.folder)
    terminal.type("\x1a", end="")
    terminal.expect(r"Stopped +bash script")
    terminal.type("fg")
    terminal.expect("fg\r\nbash script")
    terminal.press("\x03")
    terminal.type("echo st''atus $?")
    assert "went on" not in terminal.expect(r"(?s).*status 130")[0]


def test_an_interrupt_that_is_passed_on_is_the_commands_alone(
    terminal: Terminal, name: str, cli: Program
) -> None:
    run = f"holdfast run --lease 60s {name}"
    script = (
        f"{{ until [ -e in ]; do sleep 0.02; done; pkill -INT -f 'run --lease 60s {name}'; }} &\n"
        f"{run} -- sh -c 'read x; echo >in; exec sleep 60'\n"
        "echo went on $?\n"
    )
    (cli.folder / "script").write_text(script)
    terminal.type("bash script")
    terminal.type("line")  # the command has the terminal from now on
    terminal.expect("went on 130")


def test_ctrl_c_ends_the_wait(terminal: Terminal, name: str, client: holdfast.Client) -> None:
    lock = client.lock(name)
    with lock:
        terminal.type(f"holdfast run {name} -- echo not this")
        end = time.monotonic() + 20
        while not lock.inspect().waiters:
            assert time.monotonic() < end
        terminal.press("\x03")
        terminal.type("echo st''atus $?")
        terminal.expect("status 130")
        assert lock.inspect().waiters == 0


@pytest.mark.parametrize("command", ["sleep 60", "cat"])
def test_ctrl_z_stops_the_job_and_fg_resumes_it(
    terminal: Terminal, name: str, client: holdfast.Client, command: str
) -> None:
    begin(terminal, name, command)
    terminal.press("\x1a", "Stopped")
    assert client.lock(name).locked()
    terminal.type("fg")
    terminal.expect("fg\r\nholdfast run")
    if command == "cat":
        terminal.type("again")
        terminal.expect("again\r\nagain\r")
    terminal.press("\x03")
    terminal.type("echo st''atus $?")
    terminal.expect("status 130")


def test_a_job_that_was_stopped_for_too_long_does_not_go_on(terminal: Terminal, name: str) -> None:
    terminal.type(f"holdfast run --lease 4s {name} -- sh -c 'echo i''n; exec sleep 60'")
    terminal.expect("in\r")
    terminal.press("\x1a", "Stopped")
    terminal.expect("killing its command")
    terminal.type("fg; echo st''atus $?")
    terminal.expect("status 79")


def test_a_job_in_the_background_stops_when_it_reads(terminal: Terminal, name: str) -> None:
    terminal.type(f"holdfast run --lease 60s {name} -- sh -c 'read x; echo \"<$x>\"' &")
    terminal.type("while ! jobs | grep Sto[p]ped; do sleep 0.05; done; fg; echo st''atus $?")
    terminal.expect("Stopped")
    terminal.expect("holdfast run")
    terminal.type("mine")
    terminal.expect("<mine>")
    terminal.expect("status 0")


def test_a_pipe_that_reads_the_terminal_works(terminal: Terminal, name: str) -> None:
    reader = "bash -c 'read x </dev/tty; echo \"<$x>\"; cat'"
    terminal.type(f"holdfast run {name} -- echo piped | {reader}; echo st''atus $?")
    terminal.type("typed")
    terminal.expect("<typed>")
    terminal.expect("piped")
    terminal.expect("status 0")


def test_a_killed_command_leaves_the_terminal_as_it_was(terminal: Terminal, name: str) -> None:
    terminal.type(
        f"holdfast run {name} -- sh -c 'stty raw -echo; kill -9 $$'; stty -a | grep ica''non"
    )
    terminal.expect(r"[^-]icanon")


def test_the_lock_is_released_when_the_terminal_goes(
    cli: Program, name: str, client: holdfast.Client
) -> None:
    terminal = Terminal(cli)
    terminal.type(f"holdfast run {name} -- sh -c 'echo i''n; sleep 60'")
    terminal.expect("in\r")
    terminal.close()
    assert client.lock(name).acquire(timeout=20)

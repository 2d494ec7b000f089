"""The common parts of all commands."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

import holdfast
from conftest import PROGRAM, Program, Server


def test_help_and_version_are_for_stdout(cli: Program) -> None:
    for option in ("--help", "-h"):
        helped = cli(option)
        assert (helped.returncode, helped.stderr) == (0, "")
        assert "run a command under a lock" in helped.stdout
    helped = cli("run", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("Usage: holdfast run [options] NAME")
    assert "--url" in helped.stdout
    assert max(map(len, helped.stdout.splitlines())) <= 96
    assert cli("--version").stdout == f"holdfast {holdfast.__version__}\n"


def test_no_command_is_a_mistake(cli: Program) -> None:
    for arguments, said in (
        ((), "no command given"),
        (("frob",), "unknown command 'frob'"),
        (("--frob",), "unknown option '--frob'"),
    ):
        done = cli(*arguments)
        assert (done.returncode, done.stdout) == (64, "")
        assert done.stderr == f"holdfast: {said}\nTry 'holdfast --help'.\n"


def test_the_url_may_come_before_the_command(cli: Program, server: Server, name: str) -> None:
    for url in (("--url", server.url), (f"--url={server.url}",)):
        done = cli(*url, "run", name, "--", "echo", "ran", env={"PATH": os.environ["PATH"]})
        assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
        assert cli(*url, "once", "ls").returncode == 0
    for few in (("--url",), ("--url", server.url), ("--url=x",)):
        done = cli(*few)
        assert done.returncode == 64
        assert f"unknown option '{few[0]}'" in done.stderr


def test_signals_end_the_first_process_of_a_container(cli: Program) -> None:
    """The kernel gives such a process no signal that it does not handle."""
    alone = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user may not have process ids of its own")
    for number in (signal.SIGTERM, signal.SIGINT):
        outer = subprocess.Popen(
            [*alone, PROGRAM, "top", "-b"], env=cli.environment, stdout=subprocess.PIPE, text=True
        )
        cli.started.append(outer)
        assert outer.stdout is not None
        outer.stdout.readline()
        first = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
        os.kill(int(first), number)
        assert outer.wait(20) == 128 + number


def test_output_that_cannot_be_written_is_no_success(cli: Program) -> None:
    with open("/dev/full", "w") as full:
        for arguments in (("--version",), ("--help",), ("run", "--help")):
            done = cli(*arguments, stdout=full)
            assert done.returncode == 71
            assert "cannot write" in done.stderr


def test_a_command_without_its_stdin_and_stdout_runs(cli: Program, name: str) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" run "$1" -- true <&- >&-', PROGRAM, name],
        env=cli.environment,
        timeout=50,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "+1", "1e3", "0x10", "inf", "nan", ".", "1.2.3", "5 s", "5S", "1w"]
)
def test_what_is_no_duration_is_refused(cli: Program, text: str) -> None:
    done = cli("run", f"--timeout={text}", "x", "--", "true")
    assert (done.returncode, done.stdout) == (64, "")
    assert f"--timeout takes a duration like 500ms, 10s, 5m, 2h or 1d, not '{text}'" in done.stderr


def test_durations_have_units_and_fractions(cli: Program, name: str) -> None:
    for text in ("500ms", "10s", "5m", "2h", "1d", "3", "0.5", ".5", "1.5h", "0"):
        assert cli("run", "-w", text, name, "--", "true").returncode == 0, text
    assert "too long: at most ten years" in cli("run", "-w", "4000d", name, "--", "true").stderr

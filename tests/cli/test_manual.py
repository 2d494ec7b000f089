"""The manual and the completions: correct, complete, and loaded by the real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from conftest import ROOT, Program

MANUAL = ROOT / "cli/holdfast.1"
COMPLETIONS = ROOT / "cli/completions"
SOURCES = [path.read_text() for path in (ROOT / "cli").glob("*.c")]
COMMANDS = re.findall(r"^const cli_command cli_\w+ = \{\s*\"(\w+)\"", "\n".join(SOURCES), re.M)


def options_of(cli: Program, command: str) -> set[str]:
    """Return the long options that the command's help lists."""
    return set(re.findall(r"^ {2,}(?:-\w, )?(--[\w-]+)", cli(command, "--help").stdout, re.M))


def shown(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(shutil.which("mandoc") is None and "CI" not in os.environ, reason="no mandoc")
def test_the_manual_has_no_mistakes() -> None:
    shown(["mandoc", "-T", "lint", "-W", "warning", str(MANUAL)])


def test_the_help_and_the_manual_and_the_completions_know_all_options(cli: Program) -> None:
    assert "run" in COMMANDS
    texts = [path.read_text() for path in (MANUAL, *COMPLETIONS.iterdir())]
    assert len(texts) == 4
    for command in COMMANDS:
        options = options_of(cli, command)
        assert len(options) > 1
        for option in options:
            word = re.compile(rf"(-|Fl |, |-l )-?{option[2:]}\b")
            assert all(word.search(text) for text in texts), option


BASH = """
source "$FILE"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_holdfast
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (["holdfast", ""], "run"),
        (["holdfast", "--v"], "--version"),
        (["holdfast", "run", "--on-l"], "--on-lost"),
        (["holdfast", "run", "--on-lost", "k"], "kill"),
        (["holdfast", "run", "--u"], "--url"),
        (["holdfast", "top", "--sort", "w"], "waiters"),
        (["holdfast", "run", "-w", "5", "name", "--", "tru"], "true"),
        (["holdfast", "run", "name", "tru"], "true"),
        (["holdfast", "once", "res"], "resolve"),
        (["holdfast", "once", "ls", "--state", "unk"], "unknown"),
    ],
)
def test_bash_completes(words: list[str], offers: str) -> None:
    script = ["bash", "--norc", "-c", BASH, "bash", *words]
    assert offers in shown(script, FILE=str(COMPLETIONS / "holdfast.bash")).split()


@pytest.mark.skipif(shutil.which("zsh") is None and "CI" not in os.environ, reason="no zsh")
@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("holdfast r", "un "),
        ("holdfast run --on-l", "--on-lost"),
        ("holdfast run --on-lost ig", "nore "),
        ("holdfast run --once", "--once-per"),
        ("holdfast top --sort rem", "aining "),
        ("holdfast once res", "olve "),
        ("holdfast once ls --state unk", "nown "),
    ],
)
def test_zsh_completes(line: str, offers: str, tmp_path: Path) -> None:
    """zsh completes only where a user types."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "TERM": "dumb", "HOME": str(tmp_path)}
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
    seen = ""

    def expect(text: str) -> None:
        nonlocal seen
        end = time.monotonic() + 20
        while text not in seen:
            assert time.monotonic() < end, f"no {text!r} in {seen!r}"
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")
        seen = seen.partition(text)[2]

    setup = f"PS1=; fpath=({COMPLETIONS} $fpath); autoload -U compinit; compinit -D -u"
    try:
        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        expect("ready\r")
        os.write(terminal, f"{line}\t".encode())
        expect(offers)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


FISH = 'source "$FILE"; complete -C "$LINE"'


@pytest.mark.skipif(shutil.which("fish") is None and "CI" not in os.environ, reason="no fish")
@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("holdfast ", "run"),
        ("holdfast run --on-l", "--on-lost"),
        ("holdfast run --on-lost ", "ignore"),
        ("holdfast run -", "--once-per"),
        ("holdfast top --sort ", "waiters"),
        ("holdfast once ", "resolve"),
        ("holdfast once ls --state ", "unknown"),
    ],
)
def test_fish_completes(line: str, offers: str, tmp_path: Path) -> None:
    out = shown(
        ["fish", "--no-config", "-c", FISH],
        FILE=str(COMPLETIONS / "holdfast.fish"),
        LINE=line,
        HOME=str(tmp_path),
    )
    assert offers in [each.split("\t")[0] for each in out.splitlines()]

"""The documentation's examples of the program `holdfast`, run in a shell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import redis

from conftest import PROGRAM, ROOT, Program

COMMANDS = [
    "backup",
    "celery",
    "deploy",
    "ffmpeg",
    "geocode",
    "migrate",
    "psql",
    "report",
    "send-mail",
]


def examples() -> list[str]:
    found = []
    for page in [ROOT / "README.md", *sorted(ROOT.joinpath("docs").rglob("*.md"))]:
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.M | re.S):
            found += re.findall(r"^(?:[\d* ]+ )?(holdfast .*)$", block, re.M)
    return sorted(set(found))


def test_there_are_examples() -> None:
    assert len(examples()) >= 10


@pytest.mark.parametrize("line", examples())
def test_an_example_runs(line: str, cli: Program, raw: redis.Redis, tmp_path: Path) -> None:
    raw.delete("backup", "report")  # other examples keep them for 23 hours
    # A rate gives no hold, and no fence.
    fence = "${HOLDFAST_FENCE-0}" if "--rate" in line else "${HOLDFAST_FENCE:?}"
    for name in COMMANDS:
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\necho ran {name} {fence}\n")
        command.chmod(0o755)
    line = line.replace("/usr/local/bin/", "").replace("holdfast top", "holdfast top -b -n 1")
    line = re.sub(r"(bench(?: --name \S+)?)( +#)", r"\1 --seconds 200ms\2", line)
    tmp_path.joinpath("holdfast").symlink_to(PROGRAM)
    path = f"{tmp_path}:{cli.environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line],
        env={**cli.environment, "PATH": path, "in": "a", "out": "b"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert "usage" not in done.stderr.lower(), done.stderr
    if " run " in line:
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"ran [\w-]+ \d+\n", done.stdout)
    elif " bench" in line:  # its verdict on this server does not matter here
        assert done.returncode in (0, 1), done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")

"""What type checkers say of programs that use the package, as it is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")  # which a free-threaded Python has not yet

PROGRAM = Path(__file__).parent / "programs" / "typed.py"

WRONG = """\
import holdfast

def wrong(client: holdfast.Client) -> None:
    client.lock(7)
    client.lock("x", lease="10")
    client.lock("x").acquire(timeout="5")
    client.locked("x", sleep=1)
    client.locked("x:{user}")(str.upper)(7)
    client.lock("x").hold().fence = 7
"""


OF_UNTYPED_FRAMEWORKS = [
    "celery.LockedTask",
    "django.apps.HoldfastConfig",
    "django.cache.RedisCache",
]


def mypy(program: Path) -> list[str]:
    """Give the errors of mypy in its strictest."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    done = subprocess.run(
        [*command, "--cache-dir", str(program.parent / "cache"), program.name],
        cwd=program.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def pyright(program: Path) -> list[str]:
    """Give the errors of pyright in its strictest."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.10"}
    program.parent.joinpath("pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=program.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 1
    return [
        f"{each['range']['start']['line'] + 1}: {each['message']}"
        for each in told["generalDiagnostics"]
        if each["severity"] != "information"
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_user_s_program_is_clean(check: object, tmp_path: Path) -> None:
    assert callable(check)
    assert check(Path(shutil.copy(PROGRAM, tmp_path))) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [mypy, pyright])
def test_every_wrong_line_is_found(check: object, tmp_path: Path) -> None:
    assert callable(check)
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    lines = {
        int(re.findall(r"\d+", error.removeprefix("wrong.py:"))[0]) for error in check(program)
    }
    assert lines == set(range(4, 10))


@pytest.mark.timeout(300)
def test_all_that_is_public_has_a_known_type() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal"]
    command += ["--verifytypes", "holdfast"]
    # Here it looks for the package of the first Python in the path.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    told = json.loads(done.stdout)["typeCompleteness"]
    assert told["exportedSymbolCounts"]["withKnownType"] > 40
    # Ambiguous to it is what only __init__() gives a type.
    unknown = {
        each["name"]
        for each in told["symbols"]
        if not each["isTypeKnown"] and not each["isTypeAmbiguous"]
    }
    assert unknown == {f"holdfast.contrib.{each}" for each in OF_UNTYPED_FRAMEWORKS}

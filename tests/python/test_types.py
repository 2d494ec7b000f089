"""What type checkers report about programs that use the installed package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mypy")  # not yet available for a free-threaded Python

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
    "django.fields.FenceField",
    "django.cache.RedisCache",
]


Found = set[tuple[str, int]]  # files and lines


def mypy(folder: Path) -> Found:
    """Return where mypy finds errors, with its strictest settings."""
    cache = os.environ.get("MYPY_CACHE_DIR", str(folder))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    done = subprocess.run(
        [*command, "--cache-dir", f"{cache}/programs", *sorted(os.listdir(folder))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stderr == ""
    found = re.findall(r"^(.*?):(\d+): error:", done.stdout, re.MULTILINE)
    return {(file, int(line)) for file, line in found}


def pyright(folder: Path) -> Found:
    """Return where pyright finds errors, with its strictest settings."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.10"}
    folder.joinpath("pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 2
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in told["generalDiagnostics"]
        if each["severity"] != "information"
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_user_s_program_is_clean_and_every_wrong_line_is_found(
    check: Callable[[Path], Found], tmp_path: Path
) -> None:
    shutil.copy(PROGRAM, tmp_path)
    tmp_path.joinpath("wrong.py").write_text(WRONG)
    assert check(tmp_path) == {("wrong.py", line) for line in range(4, 10)}


@pytest.mark.timeout(300)
def test_all_that_is_public_has_a_known_type() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal"]
    command += ["--verifytypes", "holdfast"]
    # It looks for the package of the first Python in the path.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    told = json.loads(done.stdout)["typeCompleteness"]
    assert told["exportedSymbolCounts"]["withKnownType"] > 40
    # It calls attributes ambiguous to which only __init__() gives a type.
    unknown = {
        each["name"]
        for each in told["symbols"]
        if not each["isTypeKnown"] and not each["isTypeAmbiguous"]
    }
    assert unknown == {f"holdfast.contrib.{each}" for each in OF_UNTYPED_FRAMEWORKS}

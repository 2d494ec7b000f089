"""Holdfast and the locks beside it: how each is started, and how it is described.

A contender is left out, with a message, if its language or its library is missing.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from dataclasses import dataclass
from pathlib import Path

from classpath import POM, class_path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Contender:
    """What is measured, and how the table describes it."""

    title: str
    language: str
    name: str  # for the program
    package: str  # its version is shown
    waits: str
    order: str
    renews: str = "no"
    fence: str = "no"
    ours: bool = False
    held: int = 0  # the number of locks that it holds, if it renews by itself


MANY = 10_000
OURS = {"order": "arrival", "renews": "yes, in batches", "fence": "yes", "ours": True, "held": MANY}
MESSAGE = "a message to the next"
CONTENDERS = [
    Contender("Holdfast, C", "c", "holdfast", "holdfast", MESSAGE, **OURS),
    Contender("Holdfast, Python", "python", "holdfast", "holdfast", MESSAGE, **OURS),
    Contender("Holdfast, Java", "java", "holdfast", "holdfast", MESSAGE, **OURS),
    Contender("a token (no lock)", "c", "token", "hiredis", "`BLPOP`", "arrival"),
    Contender("SET NX, hiredis", "c", "hiredis", "hiredis", "polls every 10 ms", "none"),
    Contender("redis-py Lock", "python", "redis-py", "redis", "polls every 100 ms", "none"),
    Contender(
        "python-redis-lock",
        "python",
        "python-redis-lock",
        "python-redis-lock",
        "`BLPOP`",
        "none: a newcomer may pass",
        renews="yes, a thread for each lock",
        held=1_000,  # 10,000 threads of Python stop a machine
    ),
    Contender("pottery Redlock", "python", "pottery", "pottery", "polls after 0 to 200 ms", "none"),
    Contender(
        "Redisson RLock",
        "java",
        "rlock",
        "redisson",
        "a message to all clients",
        "none",
        renews="yes, in batches",
        fence="no (`RFencedLock` has)",
        held=MANY,
    ),
    Contender(
        "Redisson FairLock",
        "java",
        "fairlock",
        "redisson",
        "a message to the next",
        "arrival",
        renews="yes, in batches",
    ),
    Contender("SET NX, Jedis", "java", "jedis", "jedis", "polls every 10 ms", "none"),
    Contender(
        "rueidislock",
        "go",
        "rueidislock",
        "github.com/redis/rueidis",
        "the server says that the key changed",
        "none",
        renews="yes, a timer for each lock",
        held=MANY,
    ),
    Contender(
        "redsync",
        "go",
        "redsync",
        "github.com/go-redsync/redsync/v4",
        "polls after 50 to 250 ms",
        "none",
    ),
    Contender(
        "bsm/redislock",
        "go",
        "redislock",
        "github.com/bsm/redislock",
        "polls every 100 ms",
        "none",
    ),
]
NODE = Contender(
    "node-redlock", "node", "node-redlock", "redlock", "polls after 200 to 300 ms", "none"
)
NOTHING = Contender("nothing", "python", "nothing", "holdfast", "not at all", "none")


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Languages:
    """The programs' places, and what is missing."""

    def __init__(self, build: Path, java: str, wanted: set[str]) -> None:
        self.missing: dict[str, str] = {}  # contender or language: the reason
        self.versions = {"holdfast": importlib.metadata.version("holdfast-lock")}
        self._commands: dict[str, list[str]] = {}
        for language in sorted(wanted):
            getattr(self, "_find_" + language)(build, java)

    def command(self, of: Contender) -> list[str] | None:
        """Return the command that starts it; None if it is missing."""
        if of.language not in self._commands:
            return None
        if of.language == "python" and of.package not in self.versions:
            self.missing[of.title] = f"Python has no {of.package}"
            return None
        return [*self._commands[of.language], of.name]

    def _find_c(self, build: Path, java: str) -> None:
        program = build / "bench" / "field"
        if not program.exists():
            sys.exit("bench: build the C programs first")
        self._commands["c"] = [str(program)]
        self.versions["hiredis"] = _output("pkg-config", "--modversion", "hiredis")

    def _find_python(self, build: Path, java: str) -> None:
        self._commands["python"] = [sys.executable, str(HERE / "field.py")]
        for package in ("redis", "python-redis-lock", "pottery"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                self.versions[package] = importlib.metadata.version(package)

    def _find_java(self, build: Path, java: str) -> None:
        jar = next(iter(sorted((ROOT / "java/target").glob("holdfast-[0-9]*[0-9].jar"))), None)
        if jar is None:
            sys.exit("bench: build the jar first")
        classes = build / "bench" / "classes"
        path = f"{jar}:{class_path(build)}"
        javac = Path(shutil.which(java) or java).resolve().with_name("javac")
        subprocess.run([javac, "-cp", path, "-d", classes, HERE / "Field.java"], check=True)
        native = "--enable-native-access=ALL-UNNAMED"  # or Java 24 and newer warn
        self._commands["java"] = [java, native, "-cp", f"{path}:{classes}", "Field"]
        names = {"m": "http://maven.apache.org/POM/4.0.0"}
        for each in xml.etree.ElementTree.parse(POM).iterfind(".//m:dependency", names):
            self.versions[each.findtext("m:artifactId", "", names)] = each.findtext(
                "m:version", "", names
            )

    def _find_go(self, build: Path, java: str) -> None:
        go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
        if go is None:
            self.missing["rueidislock, redsync, bsm/redislock"] = "Go is not here"
            return
        program = (build / "bench" / "field-go").resolve()
        built = subprocess.run(
            [go, "build", "-o", program, "."],
            cwd=HERE / "go",
            env={**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
        )
        if built.returncode != 0:
            why = (built.stderr.strip().splitlines() or ["?"])[-1]
            self.missing["rueidislock, redsync, bsm/redislock"] = f"go build: {why}"
            return
        self._commands["go"] = [str(program)]
        self.versions["Go"] = _output(go, "env", "GOVERSION").removeprefix("go")
        for line in (HERE / "go" / "go.mod").read_text().splitlines():
            if found := re.match(r"\s*(github\S+) v(\S+)", line):
                self.versions[found[1]] = found[2]

    def _find_node(self, build: Path, java: str) -> None:
        npm, node = shutil.which("npm"), shutil.which("node")
        if npm is None or node is None:
            self.missing["node-redlock"] = "Node.js is not here"
            return
        folder = (build / "bench" / "field-node").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("package.json", "field.js"):
            shutil.copy(HERE / "node" / file, folder)
        installed = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if installed.returncode != 0:
            why = (installed.stderr.strip().splitlines() or ["?"])[0]
            self.missing["node-redlock"] = f"npm install: {why}"
            return
        self._commands["node"] = [node, str(folder / "field.js")]
        self.versions["Node.js"] = _output(node, "--version").removeprefix("v")
        self.versions |= json.loads((HERE / "node" / "package.json").read_text())["dependencies"]

"""The scripts of core/src/protocol as the server gets them, and their arguments."""

from __future__ import annotations

import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "core/src/protocol"
NOBODY = "-" * 32


def expand(name: str) -> str:
    """Return the text of a script, with its includes, without comments and indentation."""
    text = re.sub(
        r"^[ \t]*--@include[ \t]+(\S+)[ \t]*$",
        lambda found: expand(found[1]),
        (FOLDER / name).read_text(),
        flags=re.M,
    )
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))


def scripts() -> dict[str, str]:
    return {path.stem: expand(path.name) for path in sorted(FOLDER.glob("[a-z]*.lua"))}


def general(texts: dict[str, str]) -> dict[str, str]:
    """Return the scripts that have short ways, without these."""
    cut = {}
    for name in ("acquire", "release", "renew"):
        cut[name], count = re.subn(r"^repeat\n.*?^until true\n", "", texts[name], flags=re.M | re.S)
        if count != 1:
            raise SystemExit(f"{name}: no written-out paths between repeat and until true")
    return cut


class Keys:
    """The keys of one lock."""

    def __init__(self, name: str = "lock") -> None:
        tag = re.match(r"^[^{]*\{([^}]+)\}", name)
        self.tag = tag[1] if tag else name
        self.K = name
        self.F, self.Q, self.S, self.R = (f"{{{self.tag}}}{name}:hf1:{x}" for x in "fqsr")
        self.all = [self.K, self.F, self.Q, self.S, self.R]

    def dead(self, who: str) -> str:
        return f"{{{self.tag}}}{self.K}:{who}:hf1:d"


def member(
    who: str,
    client: str,
    mode: str = "x",
    lease: int = 30000,
    owner: str = "o",
    timeout: int = 0,
    kind: str = "p",
) -> str:
    """Return a member of the queue; mode as in acquire's arguments."""
    numbers = mode[1:].split(":") if mode[0] in "sw" else []
    permits = "".join(f"{int(number):010d}" for number in numbers)
    return f"{who}{client}{kind}{timeout:010d}{mode[0]}{lease:012d}{permits}{owner}"

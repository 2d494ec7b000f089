"""The pages of the documentation, and the examples on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    """An example, and its place."""

    page: str
    line: int
    language: str
    text: str


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(ROOT.joinpath("docs").rglob("*.md"))]


def blocks(language: str | None = None) -> list[Block]:
    """Return the examples in this language, or all."""
    found = []
    for page in pages():
        text = page.read_text()
        for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if language in (None, fence[1]):
                line = text.count("\n", 0, fence.start()) + 2
                found.append(Block(str(page.relative_to(ROOT)), line, fence[1], fence[2]))
    return found


def name_of(block: Block) -> str | None:
    """Return the name of the example's file, if its first line is a comment with it."""
    found = re.match(r"(?:#|//|--) (\S+\.(?:py|java|sql|lua))\n", block.text)
    return found[1] if found else None


def files(page: str, folder: Path) -> None:
    """Write the files that the page shows."""
    for block in blocks():
        name = name_of(block)
        if block.page == page and name:
            folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
            folder.joinpath(name).write_text(block.text)

"""Makes Markdown of the docstrings, which are written for help().

A paragraph that lists parameters, with a name and a text on each line in two columns, becomes a
definition list. A paragraph that is Python becomes an example.
"""

from __future__ import annotations

import ast
import re
import textwrap

import griffe

ROW = re.compile(r"^([*\w.]+)  +(\S.*)$")


def is_python(paragraph: str) -> bool:
    try:
        ast.parse(textwrap.dedent(paragraph))
    except SyntaxError:
        return False
    return re.search(r"[(=]", paragraph) is not None


def plain(text: str) -> str:
    """Escape what Markdown would take for a link or emphasis, outside backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\[*])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def marked_up(paragraph: str) -> str:
    if is_python(paragraph):
        return f"```python\n{textwrap.dedent(paragraph)}\n```"
    if not ROW.match(paragraph.split("\n")[0]):
        return plain(paragraph)
    lines = []
    for line in paragraph.split("\n"):
        row = ROW.match(line)
        lines.append(f"\n`{row[1]}`\n:   {plain(row[2])}" if row else f"    {plain(line.strip())}")
    return "\n".join(lines).strip("\n")


def mark_up(obj: griffe.Object) -> None:
    if obj.docstring:
        paragraphs = obj.docstring.value.split("\n\n")
        obj.docstring.value = "\n\n".join(marked_up(each) for each in paragraphs)
    for member in obj.members.values():
        if not member.is_alias:
            mark_up(member)


class MarkUp(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **rest: object) -> None:
        mark_up(pkg)

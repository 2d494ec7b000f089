"""The examples of the documentation, run."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, CoroutineType
from typing import Any

import pytest
import redis

import holdfast
import holdfast.compat.redis
import holdfast.compat.redis_asyncio
import holdfast.otel
import holdfast.prometheus
from conftest import Server

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------- Documents

SETUP = """\
import holdfast
client = holdfast.connect("redis://localhost")
"""


GUIDES = [f"docs/guides/{guide.name}" for guide in sorted(ROOT.glob("docs/guides/*.md"))]


def blocks() -> Iterator[Any]:
    for name in ("README.md", "docs/python.md", "docs/migrating.md", *GUIDES):
        text = ROOT.joinpath(name).read_text()
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, found.start()) + 2
            yield pytest.param(found[1], id=f"{name}:{line}")


def test_there_are_examples() -> None:
    assert len(list(blocks())) >= 7


@pytest.mark.parametrize("block", list(blocks()))
def test_an_example_of_a_document_runs(block: str, server: Server) -> None:
    if "import gevent" in block:
        pytest.importorskip("gevent")  # which a free-threaded Python has not yet
    script = block if "holdfast.connect(" in block else SETUP + block
    script = script.replace("redis://localhost", server.tcp)
    script = script.replace("redis.Redis()", f"redis.Redis.from_url({server.tcp!r})")
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------- Docstrings


def examples(text: str | None) -> Iterator[CodeType]:
    """Give the paragraphs that are Python."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        source = textwrap.dedent(paragraph)
        try:
            code = compile(source, "<docstring>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError:
            continue
        if code.co_names:
            yield code


def documented() -> Iterator[Any]:
    modules = ["holdfast", "holdfast.compat.redis", "holdfast.compat.redis_asyncio"]
    modules += ["holdfast.otel", "holdfast.prometheus"]
    for name in modules:
        module = importlib.import_module(name)
        for code in examples(module.__doc__):
            yield pytest.param(code, id=name)
    for name in holdfast.__all__:
        public = getattr(holdfast, name)
        members = vars(public).items() if inspect.isclass(public) else []
        for member, text in [("", public.__doc__), *((n, v.__doc__) for n, v in members)]:
            for code in examples(text if isinstance(text, str) else None):
                yield pytest.param(code, id=f"{name}.{member}")


def test_there_are_examples_in_docstrings() -> None:
    found = [each.id for each in documented()]
    assert {"holdfast", "Lock.", "AsyncLock.", "Hold.", "Client.locked"} <= set(found)


@pytest.mark.parametrize("code", list(documented()))
def test_an_example_of_a_docstring_runs(
    code: CodeType,
    request: pytest.FixtureRequest,
    server: Server,
    client: holdfast.Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = holdfast.connect
    opened: list[holdfast.Client] = []

    def here(url: str) -> holdfast.Client:
        assert url == "redis://localhost"
        opened.append(connect(server.tcp))
        return opened[-1]

    monkeypatch.setattr(holdfast, "connect", here)
    with redis.Redis.from_url(server.tcp) as store:
        known = {
            "client": client,
            "holdfast": holdfast,
            "lock": (client.aio if "[Async" in request.node.name else client).lock("documented"),
            "prometheus_client": importlib.import_module("prometheus_client"),
            "redis": store,
            "write": lambda fence: None,
        }

        async def run() -> None:
            result = eval(code, known)
            if isinstance(result, CoroutineType):
                await result

        asyncio.run(run())
    for each in opened:
        each.close()

"""The examples of the documentation, run.

test_guides.py runs those that are files of a program, and DocumentationTest those in Java.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import re
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
import redis

import holdfast
import holdfast.compat.redis
import holdfast.compat.redis_asyncio
import holdfast.otel
import holdfast.prometheus
import holdfast.sql
from conftest import Server
from pages import ROOT, blocks, name_of, pages

# ------------------------------------------------------------------- Documents

SETUP = """\
import holdfast
client = holdfast.connect("redis://localhost")
"""


# The languages whose examples are checked; a block without a language is output, not an example.
CHECKED = {"python", "java", "c", "sql", "lua", "sh", "yaml", "ini", "mermaid", ""}
CHECKED |= {"xml", "properties"}  # by GuideTest of the Spring Boot starter
CHECKED |= {"kotlin"}  # by the tests of examples/eventloops


def shown(language: str) -> list[Any]:
    return [
        pytest.param(each.text, id=f"{each.page}:{each.line}")
        for each in blocks(language)
        if not name_of(each)
    ]


def test_there_are_examples() -> None:
    assert len(shown("python")) >= 30
    assert len(pages()) >= 20


def test_the_reference_has_every_public_name() -> None:
    page = ROOT.joinpath("docs/reference/python.md").read_text()
    assert sorted(re.findall(r"^::: holdfast\.(\w+)$", page, re.MULTILINE)) == sorted(
        holdfast.__all__
    )


def test_every_example_is_of_a_language_that_is_checked() -> None:
    assert {each.language for each in blocks()} <= CHECKED


@pytest.mark.parametrize("block", shown("python"))
def test_an_example_of_a_document_runs(block: str, server: Server) -> None:
    if "import gevent" in block:
        pytest.importorskip("gevent")  # not yet available for a free-threaded Python
    script = block if "holdfast.connect(" in block else SETUP + block
    script = script.replace("redis://localhost", server.tcp)
    script = script.replace("redis.Redis()", f"redis.Redis.from_url({server.tcp!r})")
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("block", shown("c"))
def test_an_example_in_c_is_part_of_a_program_that_runs(block: str) -> None:
    # ctest runs these, with the URL as an argument.
    def plain(text: str) -> str:
        text = text.replace("argc > 1 ? argv[1] : ", "")
        text = text.replace("int argc, char **argv", "void")
        return re.sub(r"^ +", "", text, flags=re.MULTILINE)

    programs = [plain(each.read_text()) for each in (ROOT / "examples/c").glob("*.c")]
    assert any(plain(block) in program for program in programs)


@pytest.mark.parametrize("block", shown("sql"))
def test_an_example_in_sql_refuses_a_late_fence(block: str) -> None:
    change, update = block.split("\n\n")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE item (id INTEGER, stock INTEGER)")
    database.execute("INSERT INTO item VALUES (7, 10)")
    database.execute(change)
    changed = [
        database.execute(update, {"id": 7, "stock": stock, "fence": fence}).rowcount
        for stock, fence in [(9, 41), (8, 42), (8, 42), (1, 41)]
    ]
    assert changed == [1, 1, 1, 0]
    assert database.execute("SELECT stock, fence FROM item").fetchone() == (8, 42)
    database.close()


@pytest.mark.parametrize("block", shown("lua"))
def test_an_example_in_lua_compares_and_deletes(block: str, raw: redis.Redis) -> None:
    raw.set("stock", "mine")
    assert raw.eval(block, 1, "stock", "another's") == 0
    assert raw.eval(block, 1, "stock", "mine") == 1


@pytest.mark.parametrize("block", shown("sh"))
def test_an_example_for_a_shell_is_one(block: str) -> None:
    # Examples of the program `holdfast` also run: tests/cli/test_docs.py.
    done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


DEPLOY = [each for each in ROOT.joinpath("examples/deploy").rglob("*") if each.is_file()]


@pytest.mark.parametrize("block", shown("yaml") + shown("ini"))
def test_a_manifest_or_a_unit_is_a_file(block: str) -> None:
    # Their own tools read and run them: tests/cli/test_deploy.py.
    assert block in [each.read_text() for each in DEPLOY]


def test_a_url_of_those_files_is_one() -> None:
    urls = [url for each in DEPLOY for url in re.findall(r"\bredis\S*://\S+", each.read_text())]
    assert len(urls) >= 5
    for url in urls:
        holdfast.connect(url, lazy=True).close()


# ------------------------------------------------------------------- Docstrings


def examples(text: str | None) -> Iterator[CodeType]:
    """Return the paragraphs that are Python."""
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
    modules += ["holdfast.otel", "holdfast.prometheus", "holdfast.sql"]
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
    request.addfinalizer(holdfast.otel.uninstrument)
    shop = sqlite3.connect(":memory:")
    shop.execute("CREATE TABLE item (id INTEGER, stock INTEGER)")
    holdfast.sql.create_table(shop.cursor())
    with contextlib.closing(shop), redis.Redis.from_url(server.tcp) as store:
        known = {
            "client": client,
            "holdfast": holdfast,
            "lock": (client.aio if "[Async" in request.node.name else client).lock("documented"),
            "prometheus_client": importlib.import_module("prometheus_client"),
            "redis": store,
            "cursor": shop.cursor(),
            "database": SimpleNamespace(transaction=lambda: shop),
            "vendor": SimpleNamespace(rate=lambda currency: 1.08, charge=lambda order: "paid"),
            "write": lambda fence: None,
        }

        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, known))
        else:
            eval(code, known)
    for each in opened:
        each.close()

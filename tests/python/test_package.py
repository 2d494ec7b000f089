"""The contents of the package."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import inspect
import re
import subprocess
import sysconfig
from pathlib import Path

import holdfast

HEADER = Path(__file__).parents[2] / "core/include/holdfast/holdfast.h"


def test_the_version_is_that_of_the_header() -> None:
    version = ".".join(re.findall(r"#define HF_VERSION_\w+ (\d+)", HEADER.read_text()))
    assert holdfast.__version__ == version
    assert importlib.metadata.version("holdfast-lock") == version


def test_the_package_puts_its_program_on_the_path() -> None:
    program = Path(sysconfig.get_path("scripts")) / "holdfast"
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"holdfast {holdfast.__version__}\n"


def test_the_package_has_its_types_with_it() -> None:
    files = importlib.resources.files("holdfast")
    for name in ("py.typed", "_holdfast.pyi", "_native.pyi"):
        assert files.joinpath(name).is_file()


def test_the_stub_has_what_the_extension_has() -> None:
    from holdfast import _holdfast

    stub = importlib.resources.files("holdfast").joinpath("_holdfast.pyi").read_text()
    names = set(re.findall(r"^(?: *def )?(hf_\w+|HF_\w+)", stub, re.MULTILINE))
    assert names <= set(vars(_holdfast))


def test_all_that_is_public_is_explained() -> None:
    for name in holdfast.__all__:
        public = getattr(holdfast, name)
        assert public.__doc__, name
        for method, value in vars(public).items() if inspect.isclass(public) else ():
            if not method.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{method}"


def test_the_text_on_an_owner_says_what_equal_owners_are_or_refers_to_it() -> None:
    methods = [holdfast.Client.lock, *vars(holdfast.Lock).values()]
    told = [each for each in methods if callable(each) and "owner" in _parameters(each)]
    assert len(told) >= 6
    for each in told:
        if not each.__name__.startswith("_"):
            text = " ".join((each.__doc__ or "").split())
            assert "excludes nothing" in text or "owner As given to acquire()." in text, each
    assert "excludes nothing" in (holdfast.Lock.acquire.__doc__ or "")


def _parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters) if callable(function) else []


# The package called holdfast on PyPI belongs to another project.
def test_no_page_or_message_installs_a_stranger_s_package() -> None:
    root = HEADER.parents[3]
    pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("python/**/*.py")]
    assert len(pages) > 20
    for page in pages:
        text = page.read_text().replace("Do not `pip install holdfast`", "")
        assert not re.search(r"pip install\s+['\"]?holdfast(?!-lock)|holdfast\[", text), page

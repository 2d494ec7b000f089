"""The package's modules: no import is late, and no imports form a circle."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import holdfast

FOLDER = pathlib.Path(holdfast.__file__).parent


def modules() -> dict[str, ast.Module]:
    return {
        ".".join(path.relative_to(FOLDER).with_suffix("").parts): ast.parse(path.read_text())
        for path in FOLDER.rglob("*.py")
    }


def imports(module: str, nodes: list[ast.stmt]) -> Iterator[str]:
    """Return the modules of the package that these statements import, except for types alone."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            above = module.split(".")[: -node.level]
            whole = [*above, *(node.module or "").split(".")] if node.module else above
            yield ".".join(whole)
            yield from (".".join([*whole, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Try):
            yield from imports(module, [*node.body, *node.orelse, *node.finalbody])


def test_no_module_imports_another_of_the_package_late() -> None:
    late = [
        f"{module}:{node.lineno}"
        for module, tree in modules().items()
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert late == []


def test_no_imports_form_a_circle() -> None:
    trees = modules()
    left = {
        module: {name for name in imports(module, tree.body) if name in trees and name != module}
        for module, tree in trees.items()
    }
    while free := [module for module, needs in left.items() if not needs & left.keys()]:
        for module in free:
            del left[module]
    assert left == {}

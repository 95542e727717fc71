"""Docstrings: what functions do is said in the imperative, and examples in them are true."""

from __future__ import annotations

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import opscope

PACKAGE = Path(opscope.__file__).parent
QUESTIONS = ("what", "whether", "where", "which", "how", "who", "when", "why")
FILES = sorted(PACKAGE.rglob("*.py"))
WITH_EXAMPLES = [
    path
    for path in FILES
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text().splitlines())
]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a file, but for properties, which are things."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            marks = "".join(map(ast.dump, node.decorator_list))
            if "property" not in marks and "setter" not in marks:
                yield node


def test_functions_are_told_to_do_something() -> None:
    found = []
    for path in FILES:
        for function in functions(path):
            said = (ast.get_docstring(function) or "-").split()[0].strip(",").lower()
            if said in QUESTIONS:
                found.append(f"{path.relative_to(PACKAGE)}:{function.lineno} {function.name}")
    assert found == []


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_are_true(path: Path) -> None:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    failed, tried = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert tried and not failed

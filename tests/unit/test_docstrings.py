"""Docstrings say what a thing is or does, not a question it answers; their examples are true."""

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
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = sorted(PACKAGE.rglob("*.py"))
WITH_EXAMPLES = [
    path
    for path in FILES
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text().splitlines())
]


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of all docstrings of a file, those of attributes among them."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        documented = isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
        before: ast.AST | None = node if documented else None
        for statement in body:
            if documented_by(statement, before):
                yield statement.lineno, statement.value.value
            before = statement


def documented_by(statement: ast.stmt, before: ast.AST | None) -> bool:
    """Tell whether a statement is the docstring of what comes before it."""
    values = (ast.Assign, ast.AnnAssign, ast.AugAssign)
    if not isinstance(before, (ast.Module, ast.ClassDef, *FUNCTIONS, *values)):
        return False
    text = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(text, ast.Constant) and isinstance(text.value, str)


def test_no_docstring_is_a_question() -> None:
    found = []
    for path in FILES:
        for line, text in docstrings(path):
            if text.split()[0].strip(",").lower() in QUESTIONS:
                found.append(f"{path.relative_to(PACKAGE)}:{line} {text[:60]}")
    assert found == []


def test_questions_are_found_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""What is here."""\n'
        "X = 1\n"
        '"""Whether it is."""\n'
        "X += 1\n"
        '"""Why it is."""\n'
        "class C:\n"
        '    """Where it is."""\n'
        "    a: int = 0\n"
        '    """How many."""\n'
        "    def m(self):\n"
        '        """Which one."""\n'
        '        print("What is no docstring")\n'
    )
    assert [line for line, _ in docstrings(path)] == [1, 3, 5, 7, 9, 11]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_are_true(path: Path) -> None:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    failed, tried = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert tried and not failed

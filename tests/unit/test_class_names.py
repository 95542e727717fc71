"""One word per concept: no two classes or types of the package have the same name."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import opscope

PACKAGE = Path(opscope.__file__).parent
FILES = tuple(sorted(PACKAGE.rglob("*.py")))
SHARED = {
    "OpscopeCallback": "the same for two libraries, each by the name its users would guess",
}
ROUTES = "routes.py"
"""Modules that end so name the parameters of requests, which are types to FastAPI alone."""


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which several tests look at."""
    return ast.parse(path.read_text())


def class_names(path: Path) -> Iterator[str]:
    """Yield the name of every class of a file, private and nested ones among them."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef):
            yield node.name


def type_names(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what a file gives a type's name to, with the type: `Rows = NDArray[np.void]`."""
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
            (target,) = node.targets
            if isinstance(target, ast.Name) and is_type_name(target.id):
                yield target.id, ast.unparse(node.value)


def is_type_name(name: str) -> bool:
    """Tell whether a name is written as those of types are."""
    return name[0].isupper() and not name.isupper()


@functools.cache
def by_class_name(files: tuple[Path, ...], root: Path) -> dict[str, list[str]]:
    """Return the files of each class name, one entry per class."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files:
        for name in class_names(path):
            found[name].append(str(path.relative_to(root)))
    return found


def used_twice(files: tuple[Path, ...], root: Path) -> dict[str, list[str]]:
    """Return the names that several classes have, with their files."""
    return {name: at for name, at in by_class_name(files, root).items() if len(at) > 1}


def test_no_two_classes_have_the_same_name() -> None:
    found = used_twice(FILES, PACKAGE)
    assert {name: at for name, at in found.items() if name not in SHARED} == {}


def test_every_exception_is_still_one() -> None:
    assert set(SHARED) <= set(used_twice(FILES, PACKAGE))


def test_a_type_has_one_meaning_and_is_no_class() -> None:
    classes = by_class_name(FILES, PACKAGE)
    meanings: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        if not path.name.endswith(ROUTES):
            for name, meaning in type_names(path):
                meanings[name].add(meaning)
    assert {name: is_ for name, is_ in meanings.items() if len(is_) > 1 or name in classes} == {}


def test_names_used_twice_are_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Plan: ...\nclass Only: ...\n")
    (tmp_path / "two.py").write_text("def f():\n    class Plan: ...\n")
    assert used_twice(tuple(sorted(tmp_path.iterdir())), tmp_path) == {"Plan": ["one.py", "two.py"]}


def test_types_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("Rows = list[int]\nMOST = 2 * 3\nsmall = 1 + 1\nSource = int | str\n")
    assert list(type_names(path)) == [("Rows", "list[int]"), ("Source", "int | str")]

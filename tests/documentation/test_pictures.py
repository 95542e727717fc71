"""The pictures of the docs are those that the build makes."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from documentation.markdown import PAGES, ROOT
from documentation.shown import difference
from helpers.forked import forked_opscope

IMAGES = ROOT / "docs" / "images"


@pytest.fixture(scope="module")
def terminal() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", IMAGES / "terminal.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_terminals_show_what_is_printed(terminal: ModuleType, tmp_path: Path) -> None:
    def train(words: Sequence[str], folder: Path) -> None:
        done = forked_opscope(*words, cwd=folder)
        assert done.returncode == 0, done.stderr

    made = terminal.pictures(tmp_path, train)
    for name, svg in made.items():
        shown = terminal.text_of((IMAGES / f"{name}.svg").read_text())
        found = difference(shown, terminal.text_of(svg))
        assert not found, f"{name}.svg: {found}\nmake pictures makes it anew"
        assert terminal.picture(name, terminal.PICTURES[name], tmp_path) == svg, "twice the same"


def test_every_picture_is_made_and_shown(terminal: ModuleType) -> None:
    """Of the browser's pictures, each is taken by name."""
    taken = {
        node.args[0].value
        for script in IMAGES.glob("make*.py")
        for node in ast.walk(ast.parse(script.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "take"
        and isinstance(node.args[0], ast.Constant)
    }
    made = {f"{name}.png" for name in taken} | {f"{name}.svg" for name in terminal.PICTURES}
    there = {path.name for path in IMAGES.iterdir() if path.suffix in (".png", ".svg")}
    pages = "".join((ROOT / page).read_text() for page in PAGES)
    shown = set(re.findall(r"images/([\w-]+\.(?:png|svg))", pages))
    assert made == there == shown

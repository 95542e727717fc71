"""Doing something when a module is imported: once, after it has run, and unseen by the script."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.capture.on_import import when_imported

NAME = "module_of_a_script"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that can be imported and was not yet."""
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    path = tmp_path / f"{NAME}.py"
    path.write_text("value = 1\n")
    yield path
    sys.modules.pop(NAME, None)
    sys.meta_path[:] = finders


def test_it_is_done_after_the_import_and_only_once(module: Path) -> None:
    seen: list[int] = []
    when_imported(NAME, lambda: seen.append(sys.modules[NAME].value))
    importlib.import_module("colorsys")
    assert seen == []
    found = importlib.import_module(NAME)
    importlib.reload(found)
    assert seen == [1]


def test_a_module_that_is_there_is_not_waited_for(module: Path) -> None:
    importlib.import_module(NAME)
    finders, seen = list(sys.meta_path), []
    when_imported(NAME, lambda: seen.append(True))
    assert seen == [True]
    assert sys.meta_path == finders


def test_the_module_has_its_own_loader(module: Path) -> None:
    when_imported(NAME, lambda: None)
    found = importlib.import_module(NAME)
    assert found.__spec__ is not None
    assert type(found.__loader__).__name__ == "SourceFileLoader"
    assert found.__spec__.loader is found.__loader__


def test_a_module_that_fails_is_not_told_of(module: Path) -> None:
    module.write_text("raise ValueError('its own')\n")
    seen: list[bool] = []
    when_imported(NAME, lambda: seen.append(True))
    with pytest.raises(ValueError, match="its own"):
        importlib.import_module(NAME)
    assert seen == [] and NAME not in sys.modules


def test_a_module_that_is_not_there_is_missing_as_ever() -> None:
    when_imported("no_such_module_anywhere", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")

"""Where the files of a dump lie."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opscope.dump import layout
from opscope.settings.dump_keys import TAKEN_NAMES


def test_a_network_cannot_be_called_like_what_lies_beside_it() -> None:
    beside = {layout.GRAPHS, layout.ORDERS, layout.METADATA, layout.TEMP}
    assert beside == {*TAKEN_NAMES}


def test_the_graph_of_an_order_is_found_in_the_name_of_its_file(tmp_path: Path) -> None:
    assert layout.graph_of_order_file(layout.order_file(tmp_path, 12).name) == 12
    assert layout.graph_of_order_file(layout.captured_file(tmp_path, 12).name) is None


def test_ranks_and_their_locks_are_listed(tmp_path: Path) -> None:
    ranks = [layout.rank_directory(tmp_path, rank) for rank in (0, 1)]
    for rank in ranks:
        rank.mkdir()
        layout.lock_file(rank).touch()
    (tmp_path / "rank_x").mkdir()
    (tmp_path / "rank_0.lock").touch()
    assert layout.rank_directories(tmp_path) == ranks
    assert layout.lock_files(tmp_path) == [layout.lock_file(rank) for rank in ranks]
    assert layout.lock_files(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("package", "right_of_it"),
    [
        ("layout", ("format", "transport", "selection", "sinks")),
        ("format", ("transport", "selection", "sinks")),
        ("transport", ("selection", "sinks")),
        ("selection", ("transport", "sinks")),
    ],
)
def test_imports_go_one_way(package: str, right_of_it: tuple[str, ...]) -> None:
    code = (
        "import importlib, pkgutil, sys\n"
        f"package = importlib.import_module('opscope.dump.{package}')\n"
        "for each in pkgutil.iter_modules(getattr(package, '__path__', ()), package.__name__):\n"
        "    importlib.import_module(package.__name__ + '.' + each.name[len(package.__name__):])\n"
        "print(*(name for name in sys.modules if name.startswith('opscope.dump.')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[2] for name in run.stdout.split()}
    assert package in loaded
    assert not loaded & {*right_of_it}

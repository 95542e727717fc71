"""`opscope convert` as a person types it."""

from __future__ import annotations

import io
import shutil
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_files import MadeFiles

from opscope import waiting
from opscope.commands import convert, main

NAME = "add.Default_add-op0.0.0.1.output.0.DefaultFormat.float32.npy"


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeFiles:
    """A dump of three iterations, one value each, in the working directory."""
    monkeypatch.chdir(tmp_path)
    made = MadeFiles(tmp_path / "dump")
    for step in (2, 10, 1):
        made.pack(step, {NAME: np.ones(1000, np.float32)}, {})
    return made


def test_a_line_for_each_in_the_order_of_iterations(capsys: Any) -> None:
    assert main(["convert", "dump"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("/")[2] for line in lines[:-1]] == ["1", "2", "10"]
    assert lines[0].startswith("1 file (0.0 MB) in dump/"), "in the singular"
    assert lines[-1] == "3 files (0.0 MB) of 3 packed files"


def test_what_an_earlier_run_left_is_converted_where_it_is_named(capsys: Any) -> None:
    shutil.move("dump/rank_0", "dump/.previous/1/rank_0")
    assert main(["convert", "dump"]) == 2
    assert "there is no values.safetensors in it" in capsys.readouterr().err
    assert main(["convert", "dump/.previous/1"]) == 0
    assert capsys.readouterr().out.count("1 file ") == 3


def test_an_output_that_is_a_file(capsys: Any) -> None:
    Path("taken").write_text("mine")
    assert main(["convert", "dump", "--output", "taken"]) == 2
    assert capsys.readouterr().err == "opscope: --output taken: it is not a directory\n"
    assert Path("taken").read_text() == "mine"


def test_how_far_it_has_come_is_shown_in_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the first line of the answer."""
    shown: list[tuple[int, int]] = []
    monkeypatch.setattr(waiting.Waiting, "show", lambda self, done, of: shown.append((done, of)))
    with redirect_stderr(Terminal()):
        assert main(["convert", "dump"]) == 0
    assert len(shown) == 3 and shown[0][0] < shown[1][0] < shown[2][0] <= 1.1 * shown[2][1]
    assert convert.Waiting is waiting.Waiting

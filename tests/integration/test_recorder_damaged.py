"""A recording from elsewhere that is damaged: what is sound is shown, the rest named in a line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.recorded import RECORDING, record
from opscope.commands import main
from opscope.errors import OpscopeError
from opscope.read.recorded import Recorded, has_recording


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training that raised left."""
    return record(RECORDING, tmp_path_factory.mktemp("recording"))


@pytest.fixture
def damaged(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    path = tmp_path / "copy"
    shutil.copytree(recorded, path)
    return path


def folder(path: Path) -> Path:
    return path / "rank_0" / "rdr"


def without(name: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        report = json.loads((folder(path) / "report.json").read_text())
        del report[name]
        (folder(path) / "report.json").write_text(json.dumps(report))

    return change


@pytest.mark.parametrize("name", ["cause", "last_op", "rank", "collectives", "steps"])
def test_the_ring_says_what_a_damaged_report_does_not(
    damaged: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    without(name)(damaged)
    assert main(["report", str(damaged)]) == 0
    assert "exception: ValueError: bad" in capsys.readouterr().out
    assert Recorded(damaged).rank(0).number == 0


def test_without_a_ring_a_damaged_report_is_refused(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without("cause")(damaged)
    (folder(damaged) / "ring.bin").unlink()
    assert main(["report", str(damaged)]) == 2
    said = capsys.readouterr().err
    assert "report.json is damaged, and there is no ring beside it" in said and "Trace" not in said


@pytest.mark.parametrize("name", ["stacks.txt", "report.json", "ring.bin"])
def test_nobody_is_waited_for(damaged: Path, name: str, tmp_path: Path) -> None:
    (folder(damaged) / name).unlink()
    os.mkfifo(folder(damaged) / name)
    assert main(["report", str(damaged), "--html", str(tmp_path / "report.html")]) == 0
    assert "ValueError: bad" in (tmp_path / "report.html").read_text()


def test_a_folder_that_must_not_be_looked_into_has_no_recording(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Path.stat

    def refused(path: Path, **options: bool) -> os.stat_result:
        if path.parent == folder(damaged):
            raise PermissionError(13, "Permission denied", str(path))
        return looked(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    assert not has_recording(damaged)
    with pytest.raises(OpscopeError, match="holds no recording"):
        Recorded(damaged)

"""Files of extra statistics: what is in them, and what is done when there is no room."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from made_run import write_run

from opscope.events import Call, Node, Outside, PassingValue, Phase, Stack, Want
from opscope.messages import forget_said
from opscope.read.extra_stats import ExtraStats, RecordPlace
from opscope.read.run import open_run
from opscope.read.tables import Tables
from opscope.rundir import extra_files
from opscope.rundir.extra_files import ExtraFiles, RecordFormat, number_files, record_type
from opscope.rundir.extra_writer import ExtraStatsWriter
from opscope.stats.extra import ExtraStatistic, load

TEXT = (Path(__file__).parents[3] / "docs/run-directory.md").read_text()
NAMES = ("kurtosis", "median_abs")
RECORD = RecordFormat(len(NAMES)).record


def files(folder: Path, budget: int = 1 << 30) -> ExtraFiles:
    return ExtraFiles(folder / "extra_stats", load(NAMES), budget)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = files(tmp_path)
    written.append(RECORD(3, 7, 5, 1, 0, (0.5, float("nan"))))
    written.append(RECORD(4, 8, 6, 0, 1, (1.5, 2.5)))
    found = ExtraStats(tmp_path / "extra_stats")
    assert list(found.meanings) == list(NAMES)
    assert found.by_value({8}) == {
        RecordPlace(4, 6, False, 0): {"kurtosis": 1.5, "median_abs": 2.5}
    }
    assert list(found.by_value({7, 8}, {3})) == [RecordPlace(3, 5, True, 1)]
    written.append(RECORD(5, 8, 6, 0, 1, (3.5, 4.5)))
    assert len(found.by_value({8})) == 1
    found.refresh()
    assert len(found.by_value({8})) == 2
    written.close()


def test_a_record_that_is_not_whole_is_no_record(tmp_path: Path) -> None:
    written = files(tmp_path)
    written.append(RECORD(3, 7, 5, 1, 0, (0.5, 0.25)) * 2)
    written.close()
    (path,) = number_files(tmp_path / "extra_stats")
    path.write_bytes(path.read_bytes()[:-1])
    assert [len(part) for part in ExtraStats(tmp_path / "extra_stats").parts()] == [1]


def test_the_newest_stay_within_the_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_said()
    budget = 16 * 400
    written = files(tmp_path, budget)
    for step in range(1000):
        written.append(RECORD(step, 1, 0, 0, 1, (1.0, 2.0)))
    kept = number_files(tmp_path / "extra_stats")
    assert sum(path.stat().st_size for path in kept) <= budget
    steps = np.concatenate([part["step"] for part in ExtraStats(kept[0].parent).parts()])
    assert steps.tolist() == [*range(int(steps[0]), 1000)] and len(steps) > 100
    assert capsys.readouterr().err.count("from now on the oldest are dropped") == 1
    written.close()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"statistics": 3}',
        '{"statistics": [{"name": "step", "meaning": "x"}]}',
        '{"statistics": [{"name": "a b", "meaning": "x"}]}',
        '{"statistics": [{"name": "x"}]}',
        '{"statistics": [{"name": "x", "meaning": "1"}, {"name": "x", "meaning": "2"}]}',
    ],
)
def test_damaged_names_are_left_out_and_told_of(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_said()
    written = files(tmp_path)
    written.append(RECORD(3, 7, 5, 1, 0, (0.5, 0.25)))
    written.close()
    folder = tmp_path / "extra_stats"
    (folder / extra_files.STATISTICS).write_text(content)
    assert ExtraStats(folder).by_value({7}) == {}
    assert "left out" in capsys.readouterr().err


def test_a_name_may_be_a_word_of_sql_and_ranks_may_differ(tmp_path: Path) -> None:
    for rank, name in enumerate(("distinct", "select")):
        write_run(tmp_path, rank, steps=1)
        statistic = ExtraStatistic(name, "A word.", lambda elements: 0.0)
        written = ExtraFiles(tmp_path / f"rank_{rank}" / "extra_stats", [statistic], 1 << 20)
        written.append(RecordFormat(1).record(0, 0, 0, 0, 1, (rank + 0.5,)))
        written.close()
    sql = 'select rank, op_type, "pass", io, "distinct", "select" from extra_stats order by rank'
    with Tables(open_run(tmp_path), sql) as tables:
        assert list(tables.ask(sql)[1]) == [
            (0, "addmm", 0, "output", 0.5, None),
            (1, "addmm", 0, "output", None, 1.5),
        ]


def test_a_rank_without_them_has_none(tmp_path: Path) -> None:
    assert ExtraStats(tmp_path / "extra_stats").meanings == {}
    assert ExtraStats().by_value({1}) == {}


def call() -> Call:
    node = Node(2, 0, "a", "add", "aten.add", "Default", "", Phase.FORWARD, Stack(0, ()))
    return Call(node, 1, 4, 0, 0)


def test_the_disk_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    forget_said()
    sink = ExtraStatsWriter(tmp_path, NAMES, 1 << 20)
    value = PassingValue(0, torch.ones(3), Outside("batch", "x"))
    sink.inputs(call(), [value])  # of the setup: the rank is not known
    (tmp_path / "rank_0").mkdir()
    sink.open(0)
    assert sink.wants(call().node) == Want.INPUT_VALUES | Want.OUTPUT_VALUES

    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        sink.outputs(call(), [value])
    assert sink.wants(call().node) is Want.NOTHING and not sink.wants_step(2)
    sink.outputs(call(), [value])
    sink.close()
    assert "No space left on device; there are no more of them" in capsys.readouterr().err
    found = ExtraStats(tmp_path / "rank_0" / "extra_stats").by_value({2})
    assert list(found) == [RecordPlace(1, 4, True, 0)]


def test_where_there_is_no_folder_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_said()
    sink = ExtraStatsWriter(tmp_path / "gone", NAMES, 1 << 20)
    sink.open(0)
    assert sink.wants(call().node) is Want.NOTHING
    sink.close()
    assert "cannot write extra statistics" in capsys.readouterr().err


def test_the_format_is_documented(tmp_path: Path) -> None:
    files(tmp_path).close()
    folder = tmp_path / "extra_stats"
    keys = json.loads((folder / extra_files.STATISTICS).read_text())
    for word in (*keys, *keys["statistics"][0], *extra_files.HEAD_FIELDS):
        assert f"`{word}`" in TEXT
    kind = record_type(NAMES)
    assert kind.itemsize == 24 + 16 and kind.fields["median_abs"][1] == 32

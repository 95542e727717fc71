"""`steps.jsonl` stays within its bound, shows a whole life, and can be followed all the while."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from made_run import MadeRun

from opscope.read.run import open_run
from opscope.read.summary import summarize
from opscope.rundir.jsonlines import LineTail
from opscope.rundir.step_log import StepLog, limit_within

LIMIT = 20_000


def write(log: StepLog, first: int, last: int) -> None:
    for step in range(first, last):
        log.append({"step": step, "losses": [{"value": 1 / (step + 1)}]})


def steps_in(path: Path) -> list[int]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line["step"] == line["number"] for line in lines)
    return [line["step"] for line in lines]


def test_recent_steps_are_whole_and_older_ones_ever_sparser(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "steps.jsonl"
    log = StepLog(path, LIMIT)
    largest = 0
    for first in range(0, 50_000, 100):
        write(log, first, first + 100)
        largest = max(largest, path.stat().st_size)
    log.close()
    assert largest <= LIMIT + 100
    steps = steps_in(path)
    assert (steps[0], steps[-1]) == (0, 49_999)
    gaps = [after - before for before, after in itertools.pairwise(steps)]
    assert gaps == sorted(gaps, reverse=True)
    assert {gap & (gap - 1) for gap in gaps} == {0}, "gaps are powers of two"
    assert gaps.count(1) > 30
    assert capsys.readouterr().err.count("the older steps are thinned") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_short_run_is_whole(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps.jsonl", LIMIT)
    write(log, 0, 250)
    log.close()
    assert steps_in(tmp_path / "steps.jsonl") == list(range(250))


def test_lines_larger_than_the_bound_are_kept_as_long_as_they_are_few(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps.jsonl", 10)
    write(log, 0, 40)
    log.close()
    steps = steps_in(tmp_path / "steps.jsonl")
    assert steps[0] == 0 and steps[-1] == 39 and len(steps) < 20


def test_a_disk_without_room_for_the_new_file_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "steps.jsonl"
    log = StepLog(path, LIMIT)

    def full(*args: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("opscope.rundir.step_log.write_whole", full)
    write(log, 0, 1000)
    assert steps_in(path) == list(range(1000))
    monkeypatch.undo()
    write(log, 1000, 1200)
    log.close()
    assert path.stat().st_size <= LIMIT * 1.2
    assert steps_in(path)[-1] == 1199


def test_whoever_follows_sees_every_step_though_the_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    log, tail, seen = StepLog(path, LIMIT), LineTail(path), set()
    for first in range(0, 5000, 20):
        write(log, first, first + 20)
        seen |= {value["step"] for _, value in tail.numbered()}
    log.close()
    assert seen == set(range(5000))


def test_a_run_of_many_steps_is_read_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opscope.rundir.step_log._LEAST", 1 << 16)
    made = MadeRun(tmp_path, budget=1 << 20).open()
    made.step(0)
    followed = open_run(tmp_path).rank(0)
    for step in range(1, 1500):
        made.step(step)
        if step % 50 == 0:
            followed.refresh()
            assert [record.step for record in followed.steps][-50:] == list(
                range(step - 49, step + 1)
            )
    assert summarize(open_run(tmp_path)).steps == 1500
    made.writer.close()
    followed.refresh()
    assert [record.step for record in followed.steps] == list(range(1500))
    rank = open_run(tmp_path).rank(0)
    steps = [record.step for record in rank.steps]
    assert (tmp_path / "rank_0/steps.jsonl").stat().st_size <= (1 << 16) * 1.1
    assert len(steps) < 500 and steps[0] == 0 and steps[-1] == 1499
    assert summarize(open_run(tmp_path)).steps == 1500
    assert rank.steps[-1].losses[0].value == 1 / 1500


def test_a_step_whose_line_was_left_out_still_has_its_rows(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).open()
    for step in range(40):
        made.step(step)
    made.writer.close()
    path = tmp_path / "rank_0" / "steps.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4:2] + lines[4:]))
    rank = open_run(tmp_path).rank(0)
    assert [record.step for record in rank.steps[:3]] == [0, 2, 4]
    assert rank.recorded_steps == list(range(40))
    rows = rank.stats(steps={1})
    calls = rank.calls(1, rows)
    assert {calls.nodes[call].id for call in rows["call"]} == set(rows["node"].tolist())


@pytest.mark.parametrize(("budget", "limit"), [(2 << 30, 4 << 20), (1 << 20, 1 << 20)])
def test_opening_a_run_reads_a_few_megabytes_of_steps(budget: int, limit: int) -> None:
    assert limit_within(budget) == limit

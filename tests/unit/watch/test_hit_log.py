"""Hits on disk, one line each, at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.watched import train, watched
from opscope.judge.hits import Hit
from opscope.judge.parsing import make
from opscope.messages import forget_said
from opscope.watch.hit_log import HitLog


def hit(step: int, number: int = 1) -> Hit:
    return Hit(
        make("TL", number, max_gt=1.0), step, 0, "too large", actual={"max_gt": float("inf")}
    )


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "hits.jsonl").read_text().splitlines()]


def test_each_hit_is_there_at_once(tmp_path: Path) -> None:
    (tmp_path / "rank_3").mkdir()
    log = HitLog(tmp_path)
    log.open(3)
    assert not (tmp_path / "rank_3" / "hits.jsonl").exists(), "made with the first"
    for step in range(3):
        log.add(hit(step, 1 + step % 2))
        assert len(lines(tmp_path / "rank_3")) == step + 1
    assert (log.count, log.watchpoints) == (3, {1, 2})
    assert lines(tmp_path / "rank_3")[0] == {
        "step": 0, "pass": None, "rank": 0, "watchpoint": 1, "label": "TL max_gt=1",
        "condition": "TL",
        "params": {"max_gt": 1.0}, "actual": {"max_gt": "Infinity"}, "message": "too large",
        "parameter": "", "node": None, "name": "", "op_type": "", "phase": "", "io": None,
        "slot": 0, "call": 0, "where": "",
    }  # fmt: skip
    log.close()
    log.close()


def test_without_a_run_hits_are_counted_only() -> None:
    log = HitLog(None)
    log.open(0)
    log.add(hit(0))
    assert log.count == 1 and len(log.earlier(5)) == 0


def test_a_directory_that_cannot_be_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    forget_said()
    log = HitLog(tmp_path / "missing")
    log.open(0)
    for step in range(3):
        log.add(hit(step))
    assert log.count == 3
    assert capfd.readouterr().err.count("cannot write hits: No such file") == 1


def test_a_limit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    forget_said()
    (tmp_path / "rank_0").mkdir()
    log = HitLog(tmp_path, limit=1000)
    log.open(0)
    for step in range(50):
        log.add(hit(step))
    assert log.count == 50
    assert 1 <= len(lines(tmp_path / "rank_0")) < 10
    assert capfd.readouterr().err.count("has reached 1000 bytes") == 1


def test_the_rows_of_earlier_steps(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        train(5, lambda y, step: y.sum())
        log = found.sink.log
        steps = log.earlier(4)["step"]
        assert {*steps.tolist()} == {0, 1, 2, 3}
        assert (steps[1:] >= steps[:-1]).all(), "oldest first"
        assert len(log.earlier(0)) == 0

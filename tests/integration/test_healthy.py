"""Healthy trainings give no hit: the test-suite's models, masks of -Inf, odd loops, odd numbers.

What watchpoints with other limits find in them is found in their runs and dumps as well.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from helpers.forked import forked_python
from helpers.same_answer import check_dump, check_run, is_recommended, live_hits
from opscope.read.run import open_run

HEALTHY = Path(__file__).parents[1] / "faults" / "healthy"


@pytest.mark.parametrize("module", ["models", "attention", "edges", "loops"])
def test_healthy_trainings_are_silent(module: str, tmp_path: Path) -> None:
    trainings = importlib.import_module(f"faults.healthy.{module}").TRAININGS
    done = forked_python(HEALTHY / "run.py", tmp_path, module, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    for train in trainings:
        run = tmp_path / train.__name__ / "run"
        hits = [hit for hit in live_hits(run) if is_recommended(hit)]
        assert [(hit["condition"], hit["where"], hit["message"]) for hit in hits] == []
        steps = open_run(run).rank(0).steps
        assert len([step for step in steps if step.complete]) >= 20, train.__name__
        check_run(run)
        check_dump(run, run.parent / "dump")

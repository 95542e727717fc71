"""Healthy trainings give no hit: the test-suite's models, masks of -Inf, odd loops, odd numbers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from helpers.forked import forked_python
from opscope.read.run import open_run

HEALTHY = Path(__file__).parents[1] / "faults" / "healthy"


@pytest.mark.parametrize("module", ["models", "attention", "edges", "loops"])
def test_healthy_trainings_are_silent(module: str, tmp_path: Path) -> None:
    trainings = importlib.import_module(f"faults.healthy.{module}").TRAININGS
    done = forked_python(HEALTHY / "run.py", tmp_path, module, cwd=tmp_path)
    hits = [
        (file.parts[-3], hit["condition"], hit["where"], hit["message"])
        for file in sorted(tmp_path.glob("*/rank_0/hits.jsonl"))
        for hit in map(json.loads, file.read_text().splitlines())
    ]
    assert hits == []
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    for train in trainings:
        steps = open_run(tmp_path / train.__name__).rank(0).steps
        assert len([step for step in steps if step.complete]) >= 20, train.__name__

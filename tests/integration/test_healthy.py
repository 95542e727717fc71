"""Healthy trainings give no hit: the test-suite's models, masks of -Inf, odd loops, odd numbers.

What watchpoints with other limits find in them is found in their runs and dumps as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.forked import forked_python, launched
from helpers.same_answer import check_dump, check_run, is_thorough, live_hits
from opscope.read.run import open_run

HEALTHY = Path(__file__).parents[1] / "faults" / "healthy"


MODULES = ("models", "attention", "edges", "loops", "unusual_losses", "unusual_loops")
RARE = ("models", "edges", "loops", "unusual_losses", "unusual_loops")
"""Those that only `make test-long` runs."""
TOGETHER = 5
"""So many trainings run in one process, one after another."""


def parts() -> Iterator[Any]:
    """The trainings of each module, some at a time; a few of them in `make test`."""
    for module in MODULES:
        trainings = importlib.import_module(f"faults.healthy.{module}").TRAININGS
        for first in range(0, len(trainings), TOGETHER):
            names = [train.__name__ for train in trainings[first : first + TOGETHER]]
            rare = [pytest.mark.long] if first or module in RARE else []
            yield pytest.param(module, names, id=f"{module}-{first}", marks=rare)


@pytest.mark.parametrize(("module", "names"), list(parts()))
def test_healthy_trainings_are_silent(module: str, names: list[str], tmp_path: Path) -> None:
    done = forked_python(HEALTHY / "run.py", tmp_path, module, *names, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    for name in names:
        run = tmp_path / name / "run"
        hits = [hit for hit in live_hits(run) if is_thorough(hit)]
        assert [(hit["condition"], hit["where"], hit["message"]) for hit in hits] == []
        steps = open_run(run).rank(0).steps
        assert len([step for step in steps if step.complete]) >= 20, name
        check_run(run)
        check_dump(run, tmp_path / name / "dump")


def test_a_sharded_training_is_silent(tmp_path: Path) -> None:
    script = HEALTHY.parent / "healthy_sharded.py"
    done = launched("run", "--no-page", "--run-dir", tmp_path / "run", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    assert live_hits(tmp_path / "run") == []
    assert [len(open_run(tmp_path / "run").rank(n).steps) >= 4 for n in (0, 1)] == [True, True]

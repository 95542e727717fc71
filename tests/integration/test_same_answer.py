"""One evaluator: a training, a check of its run and a check of its dump say the same.

The faulty trainings go on after their hits here; healthy ones are in test_healthy.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_faults import NONFINITE, SILENT, by_name, expected_of

from helpers.forked import forked_opscope, launched
from helpers.same_answer import WATCH, check_dump, check_run, dump_config, live_hits

SCRIPTS = [*NONFINITE, *SILENT]
SAMPLE = 4
"""One script in so many is run by `make test`, all of them by `make test-long`."""


def sampled() -> list[object]:
    rare = [pytest.mark.long]
    return [
        pytest.param(script, id=by_name(script), marks=rare if number % SAMPLE else [])
        for number, script in enumerate(SCRIPTS)
    ]


@pytest.mark.parametrize("script", sampled())
def test_faults(script: Path, tmp_path: Path) -> None:
    config = dump_config(tmp_path, "0-3")
    options = ("--on-hit", "log", "--save-state", "none", "--no-page", "--write-run")
    words = ("run", *options, "--watch", WATCH, "--dump", config, "--run-dir", tmp_path / "run")
    start = launched if expected_of(script).distributed else forked_opscope
    done = start(*words, script, cwd=tmp_path)
    assert "internal error" not in done.stderr
    assert live_hits(tmp_path / "run"), done.stderr
    check_run(tmp_path / "run")
    check_dump(tmp_path / "run", tmp_path / "dump")

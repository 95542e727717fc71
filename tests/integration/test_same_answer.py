"""One evaluator: a training, a check of its run and a check of its dump say the same.

The faulty trainings go on after their hits here; healthy ones are in test_healthy.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_faults import NONFINITE, SILENT, by_name, expected_of

from helpers.examples import one_in
from helpers.forked import forked_opscope, launched
from helpers.same_answer import WATCH, check_dump, check_run, dump_config, live_hits

SCRIPTS = [*NONFINITE, *SILENT]


@pytest.mark.parametrize("script", one_in(8, SCRIPTS), ids=by_name)
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

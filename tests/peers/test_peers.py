"""Every operator, module and optimizer torch has samples of: the same watched, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from peers import units
from peers.command import told
from peers.forced import forced
from peers.program import ENGINES, run_peers
from peers.runner import Report, unit_of

CHUNKS = 12


def checked(engine: str, *arguments: str) -> Report:
    """Run, and fail with all that differs and need not."""
    report = Report(**run_peers(*arguments, engine=engine))
    if report.engine != engine:
        pytest.skip(f"the {engine} engine is not there: python -m opscope.native")
    assert report.cases and report.rows
    if engine == "python":
        _leave_out_what_is_forced(report)
    if report.failures:
        pytest.fail(told(report), pytrace=False)
    return report


def _leave_out_what_is_forced(report: Report) -> None:
    """Take listed failures out that a mode which does nothing makes just the same."""
    listed = forced()
    for name in report.by_empty_mode:
        if entry_of(name) in listed:
            report.differences.pop(name, None)
            report.crashes.pop(name, None)


def entry_of(case: str) -> str:
    """What a case is listed as: `op:prod:float32:call[3]` as `op:prod:call`."""
    sort = case.rpartition(":")[2].partition("[")[0]
    return f"{units.subject_of(unit_of(case))}:{sort}"


@pytest.mark.parametrize(
    ("engine", "sample"), [("native", ["--most=1"]), ("python", ["--most=1", "--chunk=0/4"])]
)
def test_sampled_peers_are_the_same_when_watched(engine: str, sample: list[str]) -> None:
    checked(engine, *sample)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_all_peers_are_the_same_when_watched(chunk: int, engine: str) -> None:
    report = checked(engine, "--whole", f"--chunk={chunk}/{CHUNKS}")
    if engine == "python":
        assert not _no_longer_forced(chunk, report), "entries of forced.py that hold no more"


def _no_longer_forced(chunk: int, report: Report) -> set[str]:
    """Entries of this chunk in which the fallback does not differ any more."""
    subjects = {units.subject_of(unit) for unit in units.chunks(units.whole(), CHUNKS)[chunk]}
    expected = {entry for entry in forced() if entry.rpartition(":")[0] in subjects}
    return expected - {entry_of(name) for name in report.by_empty_mode}


def test_every_entry_of_the_list_is_of_a_unit_there_is() -> None:
    subjects = {units.subject_of(unit) for unit in units.whole()}
    named = {entry.rpartition(":")[0] for entry in forced()}
    assert named - subjects <= _NEWER, "torch 2.13 has all of them"


_NEWER = set() if torch.__version__ >= "2.13" else {"op:native_group_norm"}


def test_failure_says_how_to_repeat_it() -> None:
    report: dict[str, Any] = {"differences": {"op:sin:float32:call[0]": "result: …"}}
    assert "OPSCOPE_NATIVE=0 python tests/peers --case 'op:sin:float32:call[0]'" in told(
        Report(engine="python", **report)
    )
    assert "again: python tests/peers --case 'op:sin:float32:call[0]'" in told(
        Report(engine="native", **report)
    )

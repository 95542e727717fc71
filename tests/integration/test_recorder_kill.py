"""`kill -9` at random moments of a training: what is left is readable, and right."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from helpers import kill_training
from helpers.forked import forked_opscope
from helpers.kill_training import BACKWARD, BEGIN, OPERATORS, OPTIMIZER
from helpers.recordings import recording
from opscope.record.post_mortem import report_of

LINEAR = ("linear", "t", "addmm")
SCRIPT = Path(kill_training.__file__)


def killed_at(folder: Path, seed: int) -> None:
    """Kill a training at a moment, and compare what is left with where it says it was."""
    folder.mkdir()
    options = ("--no-stats",) if seed % 2 else ("--watch", "none")
    words = ("run", *options, "--run-dir", folder / "run", SCRIPT, folder, str(seed))
    done = forked_opscope(*words, cwd=folder, OPSCOPE_RECORD_PATH=str(folder))
    assert done.returncode == -9, done.stderr
    step, at = struct.unpack("<qq", (folder / "truth").read_bytes())
    report = report_of(folder)
    assert report["cause"] == "killed"
    (rank,) = report["ranks"]
    assert rank["step"] in (step, step + 1)  # between the end of a step and its own note
    last = report["last_op"]
    assert last["step"] in (step - 1, step, step + 1)
    if rank["step"] == step:
        assert is_near(at, last), (at, last)
    steps = [each["step"] for each in rank["steps"] if "seconds" in each]
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    assert steps[-1] in (rank["step"] - 1, rank["step"])  # its facts are written, then it ends
    assert len(steps) >= min(rank["step"], 63)
    sequence = [each["sequence"] for each in rank["last_operators"]]
    assert sequence == list(range(sequence[0], sequence[0] + len(sequence)))
    assert all(each["finished"] for each in rank["last_operators"][:-1])
    assert (recording(folder) / "report.html").exists()


def is_near(at: int, last: dict[str, object]) -> bool:
    """Whether this is the operator that was about to run, or one beside it."""
    if at == BEGIN:
        return last["phase"] == "optimizer" or last["op_type"] in ("randn", *LINEAR)
    if at == BACKWARD:
        before = ("sum", "ones_like", OPERATORS[-1])
        return last["phase"] == "backward" or last["op_type"] in before
    if at == OPTIMIZER:
        return last["phase"] in ("optimizer", "backward")
    before = {OPERATORS[at - 1]} if at else set(LINEAR)
    after = {"sum"} if at == len(OPERATORS) - 1 else set()
    return last["op_type"] in {OPERATORS[at], *before, *after}


def test_ten_moments(tmp_path: Path) -> None:
    for seed in range(10):
        killed_at(tmp_path / str(seed), seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_hundred_moments(tmp_path: Path) -> None:
    for seed in range(200):
        killed_at(tmp_path / str(seed), seed)

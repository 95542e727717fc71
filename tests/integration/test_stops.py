"""Where a stop by a hit surfaces: the exit code is 3, and what is printed is ours and short."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from helpers.forked import forked_opscope

TRAIN = """
import os, sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    for step in range(6):
        optimizer.zero_grad()
        out = model(torch.randn(4, 3))
        loss = (out * 0).log().sum() if step == 2 else out.square().sum()
        loss.backward()
        optimizer.step()
        os.write(1, b"step %d\\n" % step)
"""
ORIGIN = "origin: train.py:14"
STOPPED = 3


def run(folder: Path, rest: str) -> subprocess.CompletedProcess[str]:
    """The script with this at its end, under opscope."""
    (folder / "train.py").write_text(TRAIN + textwrap.dedent(rest))
    words = ("run", "--run-dir", "out", "--no-page", "train.py")
    return forked_opscope(*words, cwd=folder)


# ------------------------------------------------------------------- nobody to say anything to

STREAMS = {
    "none": "sys.stderr = None",
    "closed": "sys.stderr.close()",
    "a closed file descriptor": "os.close(2)",
    "a broken pipe": """
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 2)
        """,
    "raises": """
        class Stream:
            def write(self, text):
                raise RuntimeError("full")
            def flush(self):
                raise RuntimeError("full")
        sys.stderr = Stream()
        """,
    "only writes": """
        class Stream:
            def write(self, text):
                os.write(2, text.encode())
        sys.stderr = Stream()
        """,
    "no stream at all": "sys.stderr = 3",
    "stdout is none": "sys.stdout = None",
    "stdout is closed": "sys.stdout.close()",
    "both are none": "sys.stdout = sys.stderr = None",
}
HEARD = ("only writes", "stdout is none", "stdout is closed")
REPLACED = ("raises", "no stream at all")
"""In the end Python's own stderr takes their place, or the exit code would be 120."""


@pytest.mark.parametrize("stream", STREAMS)
def test_a_hit_ends_training_whoever_listens(stream: str, tmp_path: Path) -> None:
    done = run(tmp_path, textwrap.dedent(STREAMS[stream]) + "\ntrain()")
    assert done.returncode == STOPPED, done.stderr
    assert done.stdout == "step 0\nstep 1\n"
    assert (ORIGIN in done.stderr) == (stream in HEARD)
    assert ("run written to" in done.stderr) == (stream in (*HEARD, *REPLACED))
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out" / "rank_0" / "hits.jsonl").exists()


def test_an_exception_hook_that_fails_does_not_change_the_exit_code(tmp_path: Path) -> None:
    rest = """
        def hook(*error):
            raise RuntimeError("cannot report")
        sys.excepthook = hook
        try:
            train()
        finally:
            raise ValueError("cannot clean up")
        """
    done = run(tmp_path, rest)
    assert done.returncode == STOPPED, done.stderr
    assert "ValueError: cannot clean up" in done.stderr and "cannot report" not in done.stderr

"""How a run ended is on record, for every rank: `opscope runs` and the reader tell it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from helpers.forked import forked_opscope as opscope
from helpers.forked import forked_python, launched
from helpers.program import clean_environment, python
from opscope.native import build
from opscope.read.run import open_run

needs_native = pytest.mark.skipif(
    build.switched_off() or not build.can_build(), reason="native code knows the exit code"
)

SCRIPT = """
import os, signal, sys
import torch
from torch import nn

{before}
torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(act=None, bad=-1):
    for step in range(9):
        optimizer.zero_grad()
        out = model(torch.randn(4, 3))
        loss = (-1 - out.abs()).sqrt().sum() if step == bad else out.square().sum()
        loss.backward()
        if step == 6 and act:
            act()
        optimizer.step()

def fail():
    raise RuntimeError("the first line\\nthe second line")

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

{rest}
"""


def script(folder: Path, rest: str, before: str = "") -> Path:
    """The script with this at its end."""
    text = SCRIPT.format(rest=textwrap.dedent(rest), before=before)
    (folder / "train.py").write_text(text)
    return folder / "train.py"


def shown(folder: Path) -> str:
    """What `opscope runs` calls the state of the one run there is."""
    done = opscope("runs", ".", "--json", cwd=folder)
    (summary,) = json.loads(done.stdout)
    state: str = summary["state"]
    return state


@pytest.mark.parametrize(
    ("rest", "code", "state"),
    [
        ("train()", 0, "finished"),
        ("train(); sys.exit(0)", 0, "finished"),
        ("train(bad=6)", 3, "stopped: NaN in step 6"),
        ("train(fail)", 1, "failed: RuntimeError in step 6"),
        ("train(lambda: sys.exit(7))", 7, "failed: SystemExit in step 6"),
        ("train(interrupt)", -2, "failed: KeyboardInterrupt in step 6"),
        ("try:\n    train(fail)\nexcept RuntimeError:\n    pass", 0, "finished"),
    ],
)
def test_a_run_says_how_it_ended(tmp_path: Path, rest: str, code: int, state: str) -> None:
    script(tmp_path, rest)
    done = opscope("run", "--run-dir", "out", "--no-page", "train.py", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert open_run(tmp_path / "out").state == state
    assert shown(tmp_path) == state
    if "failed: RuntimeError" in state:
        assert python("train.py", cwd=tmp_path).stderr in done.stderr
        assert open_run(tmp_path / "out").rank(0).state.message == "the first line"


@pytest.mark.parametrize(
    ("before", "rest"),
    [
        ("import opscope; opscope.start(run_dir='out')", "train(fail)"),
        ("import opscope", "with opscope.start(run_dir='out'):\n    train(fail)"),
    ],
)
def test_a_script_that_starts_opscope_itself_and_fails(
    tmp_path: Path, before: str, rest: str
) -> None:
    script(tmp_path, rest, before)
    done = forked_python("train.py", cwd=tmp_path)
    assert "RuntimeError: the first line" in done.stderr
    assert open_run(tmp_path / "out").state == "failed: RuntimeError in step 6"


@needs_native
@pytest.mark.parametrize(
    ("rest", "code", "state"),
    [
        ("train(); sys.exit(1)", 1, "failed: SystemExit in step 9"),
        pytest.param(
            "train(); raise SystemExit(300)",
            44,
            "failed: SystemExit in step 9",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "train(); sys.exit('enough')",
            1,
            "failed: SystemExit in step 9",
            marks=pytest.mark.long,
        ),
        ("train(lambda: exit(7))", 7, "failed: SystemExit in step 6"),
        pytest.param(
            "train(); sys.exit()",
            0,
            "finished",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "train(); raise SystemExit(False)",
            0,
            "finished",
            marks=pytest.mark.long,
        ),
        ("try:\n    train(lambda: sys.exit(5))\nexcept SystemExit:\n    pass", 0, "finished"),
        ("train(); opscope.stop(); sys.exit(1)", 1, "finished"),
        ("train(); os.fork() or os._exit(9); sys.exit(0)", 0, "finished"),
        ("train(bad=6)", 3, "stopped: NaN in step 6"),
    ],
)
def test_a_script_that_starts_opscope_itself_and_leaves(
    tmp_path: Path, rest: str, code: int, state: str
) -> None:
    script(tmp_path, rest, "import opscope; opscope.start(run_dir='out')")
    done = forked_python("train.py", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    rank = open_run(tmp_path / "out").rank(0)
    assert str(rank.state) == state
    if "SystemExit" in state:
        assert rank.state.message == str(code)
        assert (rank.end["steps"], rank.end["ended"][:2]) == (9 if "step 9" in state else 6, "20")
    assert not [path.name for path in rank.path.iterdir() if path.name.startswith(".")]


def test_a_running_run_runs_and_a_killed_one_was_killed(tmp_path: Path) -> None:
    script(tmp_path, "train(lambda: (print('here', flush=True), sys.stdin.read()))")
    process = subprocess.Popen(
        [sys.executable, "-m", "opscope", "run", "--run-dir", "out", "--no-page", "train.py"],
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    run = open_run(tmp_path / "out")
    assert (run.state, shown(tmp_path)) == ("running", "running")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert (run.state, shown(tmp_path)) == ("killed", "killed")


RANKS = """
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    out = model(torch.randn(4, 3))
    ((-1 - out.abs()).sqrt() if rank == 1 and step == 3 else out).sum().backward()
    optimizer.step()
"""


def test_every_rank_says_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    done = launched("run", "--run-dir", "out", "--no-page", "train.py", cwd=tmp_path)
    assert done.returncode != 0
    run = open_run(tmp_path / "out")
    assert str(run.states[1]) == "stopped: NaN in step 3"
    assert str(run.states[0]).startswith("stopped: hit of another rank in step ")
    assert run.state == "stopped: NaN in step 3 (rank 1)"


SPAWNS = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

def work(rank):
    store = "file://" + __file__ + ".store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).sum().backward()
        if rank == 1 and step == 3:
            raise ValueError("rank 1 has had enough")
        optimizer.step()

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


@pytest.mark.long
def test_a_spawned_rank_that_fails_says_with_what(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNS)
    done: Any = opscope("run", "--run-dir", "out", "--no-page", "train.py", cwd=tmp_path)
    assert "rank 1 has had enough" in done.stderr
    state = open_run(tmp_path / "out").states[1]
    assert (str(state), state.message) == (
        "failed: ValueError in step 3",
        "rank 1 has had enough",
    )


def test_a_full_disk_is_told_with_the_last_whole_step(tmp_path: Path) -> None:
    """Nothing but the files of this process is limited: a file may not grow beyond 256 KiB."""
    script(tmp_path, "for _ in range(300): train()", before=_LIMITED)
    done = opscope(
        "run", "--run-dir", "out", "--no-page", "--watch", "none", "train.py", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last == "opscope: what was recorded until then is in out; next: opscope show out"
    state = open_run(tmp_path / "out").rank(0).state
    assert state.kind == "finished" and state.incomplete
    assert state.recorded_until is not None and 20 < state.recorded_until < 2699
    assert shown(tmp_path) == (
        f"recording incomplete after step {state.recorded_until}: {state.incomplete}"
    )


@pytest.mark.parametrize("place", ["add_step", "add_rows", "add_node", "close"])
def test_an_error_of_our_own_ends_the_recording_and_is_told(tmp_path: Path, place: str) -> None:
    script(tmp_path, "train()", before=_BROKEN.format(place=place))
    done = opscope("run", "--run-dir", "out", "--no-page", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ValueError: not as planned" in done.stderr and "training goes on" in done.stderr
    state = open_run(tmp_path / "out").rank(0).state
    assert state.kind == "finished"
    assert state.incomplete == "internal error (ValueError: not as planned)"
    assert shown(tmp_path).startswith("recording incomplete ")
    if place == "add_step":
        assert state.recorded_until == 2


def test_an_error_of_our_own_in_the_watchpoints_is_told(tmp_path: Path) -> None:
    script(tmp_path, "train(bad=6)", before=_BLIND)
    done = opscope("run", "--run-dir", "out", "--no-page", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ValueError: not as planned" in done.stderr and "training goes on" in done.stderr
    assert shown(tmp_path) == (
        "recording incomplete after step 3: nothing is watched any more, "
        "internal error (ValueError: not as planned)"
    )


_BROKEN = """
from opscope.rundir.rank_files import RankFiles
from opscope.rundir.segments import SegmentWriter

owner = SegmentWriter if "{place}" == "close" else RankFiles
plain, count = getattr(owner, "{place}"), 0

def break_down(*args):
    global count
    count += 1
    if count > 3 or "{place}" == "close":
        raise ValueError("not as planned\\nat all")
    return plain(*args)

setattr(owner, "{place}", break_down)
"""
_BLIND = """
from opscope.watch.sink import WatchSink

plain = WatchSink.step_end

def break_down(self, record):
    if record.step == 3:
        raise ValueError("not as planned")
    return plain(self, record)

WatchSink.step_end = break_down
"""
_LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18,) * 2)
"""


def test_a_script_runs_where_python_leaves_docstrings_and_asserts_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    done = python("-m", "opscope", "run", "train.py", cwd=tmp_path, PYTHONOPTIMIZE="2")
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr

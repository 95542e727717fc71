"""`opscope run` on scripts that go wrong: exit codes, what is printed, what survives a kill."""

from __future__ import annotations

import json
import re
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest

from helpers.forked import forked_opscope as opscope
from helpers.forked import launched
from helpers.scripts import LOG_OF_ZERO
from helpers.scripts import ORIGIN_OF_LOG_OF_ZERO as ORIGIN


def run(folder: Path, rest: str, *options: str, **environ: str) -> Any:
    """The script with this at its end, under opscope."""
    (folder / "train.py").write_text(LOG_OF_ZERO + textwrap.dedent(rest))
    words = ("run", "--run-dir", "out", "--no-page", *options, "train.py")
    done = opscope(*words, cwd=folder, **environ)
    assert "internal error" not in done.stderr, done.stderr
    return done


def hits(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "out" / "rank_0" / "hits.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that a hit ends."""
    return run(tmp_path_factory.mktemp("stopped"), "train()")


def test_a_hit_stops_the_script(stopped: Any) -> None:
    assert stopped.returncode == 3, stopped.stderr
    assert stopped.stdout == "step 0\nstep 1\n"
    assert stopped.stderr.count(ORIGIN) == 1
    assert "Traceback" not in stopped.stderr
    assert stopped.stderr.splitlines()[-1].endswith("next: opscope hits out")


def test_a_script_that_catches_it_and_goes_on(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        try:
            train()
        except SystemExit as error:
            print("caught", error.code)
        try:
            train()
        except:
            print("caught again")
        sys.exit(0)
        """,
    )
    assert done.returncode == 3
    assert done.stdout.endswith("caught 3\ncaught again\n")


def test_a_script_that_raises_after_it(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        try:
            train()
        finally:
            raise RuntimeError("cannot clean up")
        """,
    )
    assert done.returncode == 3
    assert "Traceback" in done.stderr and "RuntimeError: cannot clean up" in done.stderr
    assert ORIGIN in done.stderr


def test_a_script_that_raises_by_itself_keeps_its_exit_code(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        out = model(torch.ones(4, 3))
        loss = (out * 0).log().sum()
        if not loss.isfinite():
            sys.exit(7)
        """,
    )
    assert done.returncode == 7
    assert "origin: train.py:20\n" in done.stderr


def test_going_on(tmp_path: Path) -> None:
    done = run(tmp_path, "train()", "--on-hit", "log")
    assert done.returncode == 0
    assert done.stdout.count("step") == 6
    assert {hit["step"] for hit in hits(tmp_path)} == {2, 3, 4, 5}


def test_hits_survive_a_kill(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        LOG_OF_ZERO
        + textwrap.dedent(
            """
            import opscope
            opscope.on_hit(lambda hit: os.kill(os.getpid(), signal.SIGKILL))
            train()
            """
        )
    )
    done = opscope("run", "--run-dir", "out", "--no-page", "train.py", cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    (hit,) = hits(tmp_path)
    assert hit["condition"] == "OO" and hit["verdict"]["op_type"] == "log"
    state = tmp_path / "out" / "rank_0" / hit["verdict"]["state"]
    assert (state / "parameters.safetensors").stat().st_size > 0
    assert json.loads((state / "state.json").read_text())["step"] == 2
    told = opscope("hits", "out", cwd=tmp_path)
    assert told.returncode == 0 and "train.py:14" in told.stdout


def test_a_file_with_problems(tmp_path: Path) -> None:
    (tmp_path / "watch.json").write_text(
        json.dumps(
            {
                "watchpoints": [
                    {"condition": "TQ"},
                    {"condition": "TL", "params": {"max_gx": 1}},
                    {"condition": "WO", "select": {"class": "gradient"}},
                ],
                "colour": 1,
            }
        )
    )
    done = run(tmp_path, "train()", "--watch", "watch.json", "--on-hit-kinds", "TX")
    assert done.returncode == 2
    assert done.stdout == ""
    for words in ("watchpoints[0].condition", "max_gx", "WO is about weight", "colour", "TX"):
        assert words in done.stderr, done.stderr


def verdict(printed: str) -> list[str]:
    """The lines of the first one."""
    lines = printed.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("NaN or Inf in step"))
    return lines[start : lines.index(ORIGIN.strip()) + 1]


def test_without_native_code_the_verdict_is_the_same(stopped: Any, tmp_path: Path) -> None:
    done = run(tmp_path, "train()", OPSCOPE_NATIVE="0")
    assert done.returncode == 3
    assert verdict(done.stderr) == verdict(stopped.stderr)
    assert len(verdict(done.stderr)) > 8


RANKS = """
import sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(3, 2)) if sys.argv[1] == "ddp" else nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4 if sys.argv[1] == "early" and rank else 8):
    optimizer.zero_grad()
    out = model(torch.randn(4, 3))
    bad = sys.argv[1] != "early" and rank == 1 and step == 3
    ((out * 0).log() if bad else out.square()).sum().backward()
    optimizer.step()
    print(f"rank {rank} step {step}\\n", end="", flush=True)
"""


@pytest.mark.parametrize("how", ["alone", "early"])
def test_ranks_end_together(how: str, tmp_path: Path) -> None:
    """Without collectives nothing but opscope connects them."""
    (tmp_path / "train.py").write_text(RANKS)
    words = ("run", "--run-dir", "out", "--no-page", "train.py", how)
    done = launched(*words, cwd=tmp_path)
    last = {
        rank: max(map(int, re.findall(rf"rank {rank} step (\d+)", done.stdout))) for rank in (0, 1)
    }
    if how == "early":
        assert done.returncode == 0, done.stderr
        assert last == {0: 7, 1: 3}
        assert "rank 1 has finished before this one" in done.stderr
    else:
        assert done.returncode != 0
        assert last[1] == 2 and last[0] in (2, 3)
        assert "rank 1 has a hit and ends training: rank 0 ends as well" in done.stderr
        line = 1 + RANKS[: RANKS.index("((out * 0).log()")].count("\n")
        assert f"origin: train.py:{line}\n" in done.stderr
    assert {path.name for path in (tmp_path / "out").glob("rank_*")} == {"rank_0", "rank_1"}


SPAWNS = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn

def train(rank):
    dist.init_process_group("gloo", init_method=f"file://{FOLDER}/store", rank=rank, world_size=1)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    (model(torch.ones(1, 3)) * 0).log().sum().backward()
    optimizer.step()

if __name__ == "__main__":
    mp.spawn(train, nprocs=1)
"""


@pytest.mark.long
def test_a_hit_in_a_process_that_the_script_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNS.replace("{FOLDER}", str(tmp_path)))
    done = opscope("run", "--run-dir", "out", "--no-page", "train.py", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "origin: train.py:11\n" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("opscope hits out")

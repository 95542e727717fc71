"""The kernel kills a training for want of memory, in a control group that is made for it.

Groups belong to whoever runs this machine: OPSCOPE_TEST_CGROUP names one that tests may make groups
in. Without it this is skipped, but for the long tests, which run it in a Linux of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.forked import forked_python
from helpers.own_kernel import KERNEL, run_tests
from opscope.record.post_mortem import report_of

LIMIT = 512 << 20
JOIN = """
import os, runpy, sys
with open(os.environ["GROUP"] + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
sys.argv[:] = ["opscope", "run", "--no-stats", "train.py"]
runpy.run_module("opscope", run_name="__main__", alter_sys=True)
"""
TRAIN = """
import torch
from torch import nn

net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
for step in range(1000):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    kept.append(torch.ones(8 << 20))
"""


@pytest.fixture
def group() -> Iterator[Path]:
    named = os.environ.get("OPSCOPE_TEST_CGROUP")
    if not named:
        pytest.skip("OPSCOPE_TEST_CGROUP names no control group that tests may make groups in")
    folder = Path(named) / f"opscope-{os.getpid()}"
    folder.mkdir()
    limits = {"memory.max": LIMIT, "memory.swap.max": 0, "memory.limit_in_bytes": LIMIT}
    for name, limit in limits.items():
        if (folder / name).exists():
            (folder / name).write_text(str(limit))
    yield folder
    folder.rmdir()


def test_the_kernel_kills_it_for_want_of_memory(tmp_path: Path, group: Path) -> None:
    (tmp_path / "join.py").write_text(JOIN)
    (tmp_path / "train.py").write_text(TRAIN)
    environ = {"MS_RDR_PATH": str(tmp_path), "GROUP": str(group)}
    done = forked_python("join.py", cwd=tmp_path, **environ)
    assert done.returncode == -9, done.stderr
    report = report_of(tmp_path)
    assert report["cause"] == "out of memory"
    assert "killed 1 of its control group for want of memory" in report["cause_text"]
    assert report["last_op"]["op_type"] in ("ones", "fill_", "empty")
    assert report["source"]["code"] == "kept.append(torch.ones(8 << 20))"


@pytest.mark.long
@pytest.mark.timeout(1000)
@pytest.mark.skipif(KERNEL is None, reason="there is no user-mode Linux here")
@pytest.mark.parametrize("version", [1, 2])
def test_in_a_linux_of_its_own(tmp_path: Path, version: int) -> None:
    """Control groups of both versions, which this machine may not let us have."""
    name = test_the_kernel_kills_it_for_want_of_memory.__name__
    said = run_tests(tmp_path, version, f"{Path(__file__)}::{name}")
    assert "ALL WELL" in said, said

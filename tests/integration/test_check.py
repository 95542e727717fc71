"""A real training, recorded as a run and as dumps of every kind, and checked afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opscope
from helpers.forked import forked_opscope as run_opscope
from opscope.read.reader import Reader

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.fc2 = nn.Linear(8, 1)
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x):
        return self.fc2(torch.relu(self.norm(self.fc1(x)))) * self.frozen


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    if step == 2:
        x = x / 0
    loss = ((net(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WATCH = "TO; WO; GE; TZ; WI; WNC; TL abs_mean_gt=2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run, and a dump of tensors, of statistics, and of both."""
    root = tmp_path_factory.mktemp("check")
    (root / "train.py").write_text(SCRIPT)
    done = run_opscope("run", "--run-dir", "run", "--watch", "none", "train.py", cwd=root)
    assert done.returncode == 0, done.stderr
    for kind in ("tensor", "statistic", "full"):
        config = {
            "common_dump_settings": {
                "path": str(root / kind),
                "iteration": "0|2-3" if kind == "full" else "all",
                "saved_data": kind,
                "statistic_category": ["max", "min", "avg", "nan count"],
            }
        }
        (root / f"{kind}.json").write_text(json.dumps(config))
        done = run_opscope("run", "--dump", f"{kind}.json", "train.py", cwd=root)
        assert done.returncode == 0, done.stderr
    return root


def hits(reader: Reader, watch: str, **options: Any) -> set[tuple[int, str, str]]:
    """Step, condition and what it is about."""
    return {
        (h.step, h.watchpoint.condition.abbr, h.parameter or h.about)
        for h in reader.check(watch, **options).hits
    }


def test_a_run_and_a_dump_agree(folder: Path) -> None:
    watch = "TO; GE; TZ; TL abs_mean_gt=2; TS max_lt=0; AD zero_percentage_ge=50"
    run, dump = opscope.open(folder / "run"), opscope.open(folder / "tensor")
    found = hits(run, watch)
    assert found == hits(dump, watch)
    assert {step for step, abbr, _ in found if abbr == "TO"} == {2, 3}
    assert len(found) > 20


def test_the_division_is_where_it_begins(folder: Path) -> None:
    checked = opscope.open(folder / "run").check("OO")
    first = checked.hits[0]
    assert (first.step, first.node.op_type if first.node else "") == (2, "div")
    line = SCRIPT.splitlines().index("        x = x / 0") + 1
    assert first.where.endswith(f"train.py:{line}")


def test_weights_of_the_run(folder: Path) -> None:
    run = opscope.open(folder / "run")
    initial = {name for _, _, name in hits(run, "WI")}
    assert initial == {"norm.bias"}
    assert {(s, n) for s, _, n in hits(run, "WO")} >= {(3, "fc1.weight")}
    assert all(step == 3 for step, _, _ in hits(run, "WO"))


def test_changes_in_the_dump(folder: Path) -> None:
    dump = opscope.open(folder / "tensor")
    arrays = {
        (v.step, v.node.name): v.array()
        for v in dump.select_values("Parameter", by="op_type")
        if v.dtype == "float32"
    }
    assert len(arrays) == 4 * 9
    expected_hits = {
        (step, "WNC", name)
        for (step, name), now in arrays.items()
        if step and np.allclose(now, arrays[step - 1, name], rtol=1e-5, atol=1e-8)
    }
    assert hits(dump, "WNC") == expected_hits
    assert {(1, "WNC", "frozen"), (2, "WNC", "frozen")} <= expected_hits
    values = {v.step: v.array() for v in dump.select_values("fc1_weight", io="output")}
    (hit,) = dump.check("WCL abs_mean_update_ratio_gt=0 parameter=fc1.weight", steps=[1]).hits
    before, now = values[0].astype(np.float64), values[1].astype(np.float64)
    expected = np.abs(now - before).mean() / (np.abs(before).mean() + 1e-9)
    assert hit.actual["abs_mean_update_ratio_gt"] == pytest.approx(expected, rel=1e-12)


def test_steps_that_were_not_dumped_are_said_in_the_hit(folder: Path) -> None:
    checked = opscope.open(folder / "full").check("WNC parameter=frozen", steps=[2])
    assert [h.parameter for h in checked.hits] == ["frozen"]
    assert "(since step 0); " in checked.hits[0].message


def test_statistics_alone_say_what_they_do_not_know(folder: Path) -> None:
    dump, whole = opscope.open(folder / "statistic"), opscope.open(folder / "tensor")
    checked = dump.check("TL max_gt=1.5; TL abs_mean_gt=2; WNC")
    assert {u.watchpoint.label for u in checked.unchecked} >= {"TL abs_mean_gt=2", "WNC"}
    named = {(h.step, h.about) for h in checked.hits}
    other = {(h.step, h.about) for h in whole.check("TL max_gt=1.5").hits}
    assert named == other


def test_from_the_command_line(folder: Path) -> None:
    done = run_opscope("check", "run", "--watch", "TO", "--first", "1", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert "Default/div-op0:0" in done.stdout
    assert "train.py:" in done.stdout
    done = run_opscope("check", "tensor", "--watch", "TO", "--steps", "0-1", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"] == []

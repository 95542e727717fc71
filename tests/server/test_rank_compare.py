"""Two ranks beside each other: which one differs first, and at which node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.forked import launched
from opscope.analysis.opened import open_for_checks
from opscope.views.html_report import html_report
from opscope.views.rank_compare import compare_ranks
from opscope.views.rank_view import RankView

SCRIPT = """
import os

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
odd = os.environ["RANK"] == "1"
network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
weight = network[2].weight.detach().numpy()
for step in range(9):
    x = torch.randn(8, 4)
    if odd and step == 4:
        x = torch.flip(x, [0])  # line 16
    loss = network(x).square().mean()
    if odd and step == 7:
        loss = loss / torch.zeros(())
    optimizer.zero_grad()
    loss.backward()
    torch.nan_to_num(torch.log(-torch.ones(2)))  # masked, which does no harm
    optimizer.step()
    if odd and step == 2:
        weight += 0.1  # without an operator
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    (folder / "train.py").write_text(SCRIPT)
    done = launched("run", "--on-hit", "log", "--run-dir", "run", "train.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def compared(run: Path) -> Any:
    reader = open_for_checks(run)
    return compare_ranks([RankView(reader, rank) for rank in reader.ranks])


def test_the_first_difference_of_each_kind_is_found(compared: Any) -> None:
    found = [(each["kind"], each["step"], each["rank"]) for each in compared["differences"]]
    assert found == [("weights", 3, 1), ("nodes", 4, 1), ("not_finite", 7, 1)]
    weights, nodes, bad = compared["differences"]
    assert weights["parameter"] == "2.weight" and weights["node"] is not None
    assert "flip" in nodes["name"] and nodes["where"].endswith("train.py:16")
    assert "div" in bad["name"] and "1 of 2 ranks has none" in bad["what"]


def test_every_rank_has_a_row(compared: Any) -> None:
    assert [row["rank"] for row in compared["ranks"]] == [0, 1]
    assert compared["steps"] == 9
    assert all(row["last_step"] == 8 and row["nodes"] > 20 for row in compared["ranks"])
    assert compared["ranks"][1]["hits"] > 0


def test_a_single_rank_has_nothing_to_differ_from(run: Path) -> None:
    reader = open_for_checks(run)
    assert compare_ranks([RankView(reader, 0)])["differences"] == []


def test_the_report_is_about_the_rank_with_hits(run: Path) -> None:
    text = html_report(open_for_checks(run))
    assert "<h2>rank 1</h2>" in text and "rank 0</h2>" not in text
    assert "began in div" in text and "<span class=at>   19  " in text
    assert "<script" not in text and "http" not in text

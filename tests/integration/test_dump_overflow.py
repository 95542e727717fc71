"""`op_debug_mode` 3, 1 and 2: only operators whose output holds NaN or Inf, the origin marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_dump_shared import dumping, load, manifest, read_step, rows
from torch import Tensor, nn

BOTH = pytest.mark.parametrize("enable", [True, False], ids=["sync", "async"])
NET = "Default_network-Net"


class Net(nn.Module):
    """Takes the logarithm of its first layer, which is negative in the second step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)
        self.last = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros(4).masked_fill(torch.tensor([True, False, False, False]), -torch.inf)
        weights = (self.layer(x).abs() + mask).softmax(-1)
        y = (x * weights)[:, 1:].clone().log_()  # where it begins
        return self.last(y)


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


def train(steps: int = 3, bad: int = 1) -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        x = torch.full((2, 4), 2.0)
        if step == bad:
            x[0, 1] = -3.0
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@BOTH
def test_operators_that_overflow_and_where_it_begins(tmp_path: Path, enable, capfd) -> None:
    with dumping(tmp_path, enable=enable, op_debug_mode=3, iteration="1") as rank:
        train()
    table = rows(rank / "Net/0/1/overflow.csv")
    tasks = [int(row["Task ID"]) for row in table]
    assert tasks == sorted(tasks)
    origin = [row for row in table if row["Origin"]]
    assert [row["Op Name"] for row in origin] == ["Default/network-Net/log_-op0"]
    assert origin[0]["NaN Count"] == "1"
    assert origin[0]["Negative Inf Count"] == "0"
    assert origin[0]["Bad Inputs"] == ""
    filled = [row for row in table if row["Op Type"] == "masked_fill"]
    assert filled[0]["Negative Inf Count"] == "1", "on purpose: dumped, but no origin"
    spread = next(row for row in table if row["Op Type"] == "addmm")
    assert spread["Bad Inputs"] == "1"
    files = read_step(rank / "Net/0/1")
    assert {name for name, _, _ in files} == {row["Op Name"].replace("/", "_") for row in table}
    before = files[f"{NET}_log_-op0", "input", 0]
    with np.errstate(all="ignore"):
        after = np.log(before)
    assert before[0, 0] < 0, "as it was before the operator ran"
    np.testing.assert_allclose(files[f"{NET}_log_-op0", "output", 0], after, rtol=1e-5)
    stderr = capfd.readouterr().err
    assert "NaN or Inf begins at Default/network-Net/log_-op0 in iteration 1" in stderr
    assert f"{Path(__file__).name}:{line_of('where it begins')}" in stderr


def test_steps_without_overflow_leave_nothing(tmp_path: Path, capfd) -> None:
    with dumping(tmp_path, op_debug_mode=3) as rank:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert not (rank / "Net").exists()
    assert manifest(tmp_path / "dump")["complete"] is True
    assert "no output held NaN or Inf" in capfd.readouterr().err


@pytest.mark.parametrize("mode", [1, 2])
def test_modes_1_and_2_act_as_3(tmp_path: Path, mode, capfd) -> None:
    with dumping(tmp_path / "a", op_debug_mode=mode) as rank:
        train()
    assert capfd.readouterr().err.count("1 and 2 act as 3") == 1
    with dumping(tmp_path / "b", op_debug_mode=3) as other:
        train()
    assert sorted(p.name for p in (rank / "Net/0").iterdir()) == ["0", "1", "2"]
    names = [
        [row["Op Name"] for step in "012" for row in rows(each / "Net/0" / step / "overflow.csv")]
        for each in (rank, other)
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("number", [1, 3, 5])
def test_overflow_number_counts_operators_in_time(tmp_path: Path, number) -> None:
    with dumping(tmp_path / "all", op_debug_mode=3) as rank:
        train()
    everything = [row for step in "012" for row in rows(rank / "Net/0" / step / "overflow.csv")]
    with dumping(tmp_path / "some", op_debug_mode=3, overflow_number=number) as rank:
        train()
    tables = sorted(rank.glob("Net/0/*/overflow.csv"))
    found = [row for table in tables for row in rows(table)]
    assert len(found) == number
    names = [row["Op Name"] for row in everything]
    assert [row["Op Name"] for row in found] == names[:number]
    written = {file.name.split(".")[1] for file in rank.rglob("*.npy")}
    assert written == {row["Op Name"].replace("/", "_") for row in found}


def test_input_output_and_dump_mode_are_overruled(tmp_path: Path, capfd) -> None:
    options = {"input_output": 2, "dump_mode": 1, "kernels": ["mul"]}
    with dumping(tmp_path, op_debug_mode=3, iteration="1", **options) as rank:
        train()
    files = read_step(rank / "Net/0/1")
    assert (f"{NET}_log_-op0", "input", 0) in files
    assert (f"{NET}_log_-op0", "output", 0) in files
    stderr = capfd.readouterr().err
    assert stderr.count("input_output is taken as 0") == 1
    assert stderr.count("dump_mode has no effect") == 1


@BOTH
def test_with_statistics_and_samples(tmp_path: Path, enable) -> None:
    options = {"saved_data": "full", "sample_mode": 1, "sample_num": 3, "save_kernel_args": True}
    categories = {"statistic_category": ["nan count", "count", "md5"]}
    with dumping(
        tmp_path, enable=enable, op_debug_mode=3, iteration="1", **options, **categories
    ) as rank:
        train()
    folder = rank / "Net/0/1"
    named = {row["Op Name"] for row in rows(folder / "overflow.csv")}
    table = rows(folder / "statistic.csv")
    assert {row["Op Name"] for row in table} == named
    (log,) = [r for r in table if r["Op Type"] == "log_" and r["IO"] == "output"]
    assert (log["NaN Count"], log["Count"]) == ("1", "6")
    (file,) = folder.glob("log_.*.output.0.*")
    assert load(file).shape == (3,)
    assert len(list(folder.glob("*.json"))) == len(named)


def test_training_is_the_same(tmp_path: Path) -> None:
    def weights() -> list[Tensor]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, foreach=True)
        for _ in range(3):
            model(torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [parameter.detach().clone() for parameter in model.parameters()]

    plain = weights()
    with dumping(tmp_path, op_debug_mode=3):
        watched = weights()
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))

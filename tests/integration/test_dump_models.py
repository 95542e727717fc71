"""Dumps of real trainings with other dtypes, long names, special values and evaluation."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_dump_shared import load, manifest, name_of, npy_files, rows, write_config

from helpers.forked import forked_opscope as opscope

LONG = "a_layer_with_a_very_long_name_" * 5

SCRIPT = f"""
import torch
from torch import nn

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 3.0, -4.0])

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Linear(6, 5)
        self.phase = nn.Parameter(torch.randn(6, dtype=torch.complex64))
        self.add_module({LONG!r}, nn.Sequential())
        self.get_submodule({LONG!r}).add_module({LONG!r}, nn.Tanh())

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.low(x)
        z = torch.mul(x.to(torch.complex64), self.phase)
        return y.float().sum() + z.abs().sum() + self.get_submodule({LONG!r})[0](x).sum()

EVAL = torch.full((7, 6), 2.0)

def train(note=lambda *args: None):
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        x = torch.randn(4, 6)
        note(model, x)
        optimizer.zero_grad()
        loss = model(x)
        torch.neg(SPECIAL)
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(EVAL)
        model.train()

if __name__ == "__main__":
    train()
"""


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`dumped(*options)` runs the script once with these options, and gives its rank's folder."""
    finished: dict[tuple[str, ...], Path] = {}

    def run(*options: str) -> Path:
        if options not in finished:
            folder = tmp_path_factory.mktemp("models")
            (folder / "train.py").write_text(SCRIPT)
            categories = ["max", "min", "avg", "l2norm", "count", "nan count", "zero count"]
            categories += ["positive inf count", "negative inf count"]
            categories += ["positive zero count", "negative zero count"]
            config = write_config(
                folder, saved_data="full", enable=False, statistic_category=categories
            )
            done = opscope("run", "--dump", config, *options, "train.py", cwd=folder)
            assert done.returncode == 0, done.stderr
            assert "internal error" not in done.stderr
            assert manifest(folder / "dump")["complete"] is True
            finished[options] = folder / "dump" / "rank_0"
        return finished[options]

    return run


@pytest.fixture
def plain() -> list[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
    """The input and the weights of each step of the same training without opscope."""
    names: dict[str, Any] = {"__name__": "plain"}
    exec(SCRIPT, names)
    steps: list[tuple[torch.Tensor, dict[str, torch.Tensor]]] = []
    names["train"](
        lambda model, x: steps.append(
            (x.clone(), {name: p.detach().clone() for name, p in model.named_parameters()})
        )
    )
    return steps


def one(folder: Path, pattern: str) -> Path:
    (file,) = folder.glob(pattern)
    return file


def test_bfloat16_is_named_so_and_saved_as_float32(dumped, plain) -> None:
    for number, (x, weights) in enumerate(plain):
        file = one(dumped() / "Net" / "0" / str(number), "addmm.*low-Linear*.output.0.*")
        assert name_of(file)[8] == "bfloat16"
        with torch.autocast("cpu", torch.bfloat16):
            y = torch.nn.functional.linear(x, weights["low.weight"], weights["low.bias"])
        assert y.dtype == torch.bfloat16
        assert load(file).dtype == np.float32
        np.testing.assert_array_equal(load(file), y.float().numpy())


def test_complex_is_saved_as_complex_and_measured_by_its_absolute_value(dumped, plain) -> None:
    for number, (x, weights) in enumerate(plain):
        folder = dumped() / "Net" / "0" / str(number)
        file = one(folder, "mul.Default_network-Model_*.output.0.*")
        assert name_of(file)[8] == "complex64"
        z = (x.to(torch.complex64) * weights["phase"]).numpy()
        assert load(file).dtype == np.complex64
        np.testing.assert_array_equal(load(file), z)
        parameter = load(one(folder, "Parameter.phase.*"))
        np.testing.assert_array_equal(parameter, weights["phase"].numpy())
        (row,) = (
            row
            for row in rows(folder / "statistic.csv")
            if row["Op Name"] == "Default/network-Model/mul-op0" and row["IO"] == "output"
        )
        size = np.abs(z.astype(np.complex128))
        assert float(row["Max Value"]) == pytest.approx(size.max(), rel=1e-6)
        assert float(row["L2Norm Value"]) == pytest.approx(np.sqrt((size**2).sum()), rel=1e-6)


def test_long_names_are_found_in_the_mapping(dumped, plain) -> None:
    for number, (x, _) in enumerate(plain):
        folder = dumped() / "Net" / "0" / str(number)
        with (folder / "mapping.csv").open(newline="") as lines:
            table = {long: short for short, long in csv.reader(lines)}
        assert all(len(name.encode()) > 255 for name in table)
        assert all((folder / short).is_file() for short in table.values())
        assert len(set(table.values())) == len(table)
        (output,) = (name for name in table if name.startswith("tanh.") and ".output.0." in name)
        assert output.count(LONG) == 2
        np.testing.assert_array_equal(load(folder / table[output]), torch.tanh(x).numpy())
        named = {file.name for file in folder.glob("*.npy") if file.name.count(".") < 9}
        assert named == set(table.values()), "nothing has a short name without being listed"


def test_special_values_are_counted(dumped) -> None:
    for number in range(2):
        (row,) = (
            row
            for row in rows(dumped() / "Net" / "0" / str(number) / "statistic.csv")
            if row["Op Type"] == "neg" and row["IO"] == "input" and json.loads(row["Shape"]) == [7]
        )
        assert {key: float(row[key]) for key in list(row)[-11:]} == {
            "Max Value": math.inf,
            "Min Value": -math.inf,
            "Avg Value": -0.25,
            "L2Norm Value": 5.0,
            "Count": 7,
            "NaN Count": 1,
            "Zero Count": 2,
            "Positive Inf Count": 1,
            "Negative Inf Count": 1,
            "Positive Zero Count": 2,
            "Negative Zero Count": 2,
        }


def has_seven_rows(file: Path) -> bool:
    return load(file).shape[:1] == (7,) and load(file).ndim == 2


def test_evaluation_is_not_dumped(dumped) -> None:
    assert [each.name for each in (dumped() / "Net").iterdir()] == ["0"]
    assert not any(map(has_seven_rows, npy_files(dumped())))


def test_evaluation_is_dumped_when_included(dumped) -> None:
    rank = dumped("--include", "eval")
    files = list(filter(has_seven_rows, npy_files(rank)))
    graphs = {file.parent.parent.name for file in files}
    assert len(graphs) == 1
    assert graphs != {"0"}, "evaluation has a graph of its own"
    tanh = np.tanh(np.full((7, 6), 2.0, np.float32))
    assert any(np.allclose(load(file), tanh) for file in files if load(file).shape == (7, 6))
    assert not any(map(has_seven_rows, npy_files(rank / "Net" / "0")))

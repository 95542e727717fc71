"""`op_debug_mode` 4: only the inputs of operators that raise, whatever the step."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from test_dump_shared import dumping, load, manifest, name_of, npy_files, rows, write_config
from torch import Tensor, nn

from helpers.forked import forked_opscope as opscope

BOTH = pytest.mark.parametrize("enable", [True, False], ids=["sync", "async"])

RAISES = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x = torch.full((4, 5 if step == 3 else 3), float(step))
    model(x).sum().backward()
    optimizer.step()
"""


@BOTH
def test_a_script_that_dies(tmp_path: Path, enable) -> None:
    (tmp_path / "train.py").write_text(RAISES)
    config = write_config(tmp_path, enable=enable, op_debug_mode=4, iteration="0", input_output=2)
    done = opscope("run", "--dump", config, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "mat1 and mat2 shapes cannot be multiplied" in done.stderr
    assert "iteration has no effect with op_debug_mode 4" in done.stderr
    assert "input_output is taken as 1" in done.stderr
    name = "Default/network-Linear/addmm-op0"
    folder = tmp_path / "dump/rank_0/Net/0/3"
    assert f"{name} raised; its inputs are in {folder}" in done.stderr
    files = npy_files(tmp_path / "dump")
    files = [file for file in files if file.parent == folder]
    assert files == npy_files(tmp_path / "dump")
    found = {int(name_of(file)[6]): load(file) for file in files}
    assert {name_of(file)[1] for file in files} == {name.replace("/", "_")}
    assert {name_of(file)[5] for file in files} == {"input"}
    assert sorted(found) == [0, 1, 2]
    np.testing.assert_array_equal(found[1], np.full((4, 5), 3.0, np.float32))
    assert found[2].shape == (3, 2)
    listed = manifest(tmp_path / "dump")["iterations"]
    assert [(each["iteration"], each["files"]) for each in listed] == [(3, 3)]


class Picky(nn.Module):
    """Raises in one step in two, in an operator that writes to its input, and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x = self.layer(x)
        try:
            return x.detach().add_(torch.ones(5 if self.calls % 2 else 2)) + x
        except RuntimeError:
            return x


def train(steps: int = 4) -> list[Tensor]:
    torch.manual_seed(0)
    model = Picky()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


@BOTH
def test_exceptions_that_are_caught(tmp_path: Path, enable, capfd) -> None:
    plain = train()
    options = {"saved_data": "full", "save_kernel_args": True}
    with dumping(tmp_path, enable=enable, op_debug_mode=4, **options) as rank:
        watched = train()
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert sorted(each.name for each in (rank / "Net/0").iterdir()) == ["0", "2"]
    for step in ("0", "2"):
        folder = rank / "Net/0" / step
        found = {int(name_of(file)[6]): load(file) for file in folder.glob("*.npy")}
        assert {name_of(file)[1] for file in folder.glob("*.npy")} == {
            "Default_network-Picky_add_-op0"
        }
        np.testing.assert_array_equal(found[1], np.ones(5, np.float32))
        assert found[0].shape == (3, 2)
        assert {row["IO"] for row in rows(folder / "statistic.csv")} == {"input"}
        assert len(list(folder.glob("*.json"))) == 1
    assert capfd.readouterr().err.count(" raised; its inputs are in ") == 2


def test_an_exception_in_backward(tmp_path: Path) -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx, gradient: Tensor) -> Tensor:
            return gradient.view(99)

    model = nn.Linear(2, 1)
    torch.optim.SGD(model.parameters(), lr=0.1)
    with dumping(tmp_path, op_debug_mode=4) as rank, pytest.raises(RuntimeError, match="99"):
        Broken.apply(model(torch.ones(3, 2))).sum().backward()
    (file,) = npy_files(rank)
    assert name_of(file)[0] == "view"
    assert load(file).shape == (3, 1)


def test_nothing_raises(tmp_path: Path, capfd) -> None:
    with dumping(tmp_path, op_debug_mode=4) as rank:
        nn.Linear(2, 1)(torch.ones(3, 2)).sum().backward()
    assert not (rank / "Net").exists()
    assert "nothing was written: no operator raised" in capfd.readouterr().err


def test_inputs_are_not_kept_alive(tmp_path: Path) -> None:
    """While an operator runs its inputs are held, not any longer."""
    model = nn.Linear(2, 2)
    with dumping(tmp_path, op_debug_mode=4):
        x = torch.ones(3, 2)
        model(x)
        count = sys.getrefcount(x)
        model(x)
        assert sys.getrefcount(x) == count == 2

"""`dump_mode` 2: what the script marks with `opscope.set_dump`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from test_dump_shared import dumping, name_of, rows
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import opscope
from opscope.dump.selection.marks import marks
from opscope.errors import OpscopeError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.norm(x)).tanh()


class Net(nn.Module):
    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 2)
        self.checkpointed = checkpointed

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


@pytest.fixture(autouse=True)
def no_marks() -> Iterator[None]:
    marks.clear()
    yield
    marks.clear()


def train(
    model: nn.Module, steps: int = 2, before: Callable[[int], None] = lambda step: None
) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        before(step)
        model(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def scopes(folder: Path) -> set[str]:
    """Where the dumped operators of an iteration ran, without their own names."""
    names = {tuple(name_of(f)[:2]) for f in folder.glob("*.npy")}
    return {
        name.rpartition(f"_{op_type}-op")[0] for op_type, name in names if op_type != "Parameter"
    }


def base(scope: str) -> str:
    return scope.removeprefix("Gradients_").removeprefix("recompute_")


B0 = "Default_network-Net_blocks-ModuleList_0-Block"


def test_a_module_with_all_inside_it_forward_and_backward(tmp_path: Path) -> None:
    model = Net()
    with dumping(tmp_path, dump_mode=2) as rank:
        opscope.set_dump(model.blocks[0])
        train(model)
    for step in ("0", "1"):
        found = scopes(rank / "Net/0" / step)
        inner = {B0, f"{B0}_norm-LayerNorm", f"{B0}_linear-Linear"}
        assert found == inner | {f"Gradients_{scope}" for scope in inner}
        parameters = {name_of(f)[1] for f in (rank / "Net/0" / step).glob("Parameter.*")}
        assert parameters == {
            f"blocks_0_{name}_{part}" for name in ("norm", "linear") for part in ("weight", "bias")
        }


def test_a_container_and_a_part_of_it_that_is_left_out(tmp_path: Path) -> None:
    model = Net()
    opscope.set_dump(model.blocks)
    opscope.set_dump(model.blocks[0].norm, enabled=False)
    with dumping(tmp_path, dump_mode=2) as rank:
        train(model, 1)
    found = {base(scope) for scope in scopes(rank / "Net/0/0")}
    b1 = B0.replace("_0-", "_1-")
    assert found == {
        *(B0, f"{B0}_linear-Linear"),
        *(b1, f"{b1}_norm-LayerNorm", f"{b1}_linear-Linear"),
    }


def test_marks_during_training(tmp_path: Path) -> None:
    model = Net()

    def mark(step: int) -> None:
        if step == 1:
            opscope.set_dump(model.head)
        if step == 3:
            opscope.set_dump(model.head, False)
            opscope.set_dump(model.blocks[1].norm)

    with dumping(tmp_path, dump_mode=2, saved_data="full") as rank:
        train(model, 4, mark)
    head = {"Default_network-Net_head-Linear"}
    norm = {"Default_network-Net_blocks-ModuleList_1-Block_norm-LayerNorm"}
    assert not list(rank.glob("Net/0/0/*.npy"))
    for step, expected in (("1", head), ("2", head), ("3", norm)):
        folder = rank / "Net/0" / step
        assert {base(scope) for scope in scopes(folder)} == expected
        table = [row for row in rows(folder / "statistic.csv") if row["Op Type"] != "Parameter"]
        assert {base(row["Op Name"].rpartition("/")[0].replace("/", "_")) for row in table} == (
            expected
        )


@pytest.mark.parametrize("operator", ["packet", "overload"])
def test_an_operator_wherever_it_runs(tmp_path: Path, operator) -> None:
    tanh = torch.ops.aten.tanh
    opscope.set_dump(tanh if operator == "packet" else tanh.default)
    with dumping(tmp_path, dump_mode=2) as rank:
        train(Net(), 1)
    types = [name_of(file)[0] for file in (rank / "Net/0/0").glob("*.npy")]
    assert set(types) == {"tanh", "tanh_backward"}
    assert types.count("tanh") == 2 * 2


def test_an_optimizer(tmp_path: Path) -> None:
    model = Net()
    with dumping(tmp_path, dump_mode=2) as rank:
        train(model, 2, lambda step: None)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        opscope.set_dump(optimizer)
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    found = {base(scope) for step in ("2", "3") for scope in scopes(rank / "Net/0" / step)}
    assert {scope.rpartition("-")[2] for scope in found} == {"SGD"}


def test_what_is_run_again_in_backward(tmp_path: Path) -> None:
    model = Net(checkpointed=True)
    opscope.set_dump(model.blocks[1].linear)
    with dumping(tmp_path, dump_mode=2) as rank:
        train(model, 1)
    found = scopes(rank / "Net/0/0")
    linear = "Default_network-Net_blocks-ModuleList_1-Block_linear-Linear"
    assert found == {linear, f"Gradients_{linear}", f"Gradients_recompute_{linear}"}


def test_nothing_is_marked(tmp_path: Path, capfd) -> None:
    with dumping(tmp_path, dump_mode=2) as rank:
        train(Net())
    assert not list(rank.rglob("Net/**/*.npy"))
    assert "set_dump has marked nothing that ran" in capfd.readouterr().err


def test_without_effect(tmp_path: Path, capfd) -> None:
    opscope.set_dump(nn.Linear(1, 1))
    assert capfd.readouterr().err == "", "without a session it does nothing"
    model = Net()
    with dumping(tmp_path) as rank:
        opscope.set_dump(model.head)
        opscope.set_dump(model.head)
        train(model, 1)
    assert capfd.readouterr().err.count("set_dump has no effect with dump_mode 0") == 1
    assert len(scopes(rank / "Net/0/0")) > 6


@pytest.mark.parametrize("target", [torch.relu, "conv", nn.Linear, None])
def test_what_cannot_be_marked(target) -> None:
    with pytest.raises(OpscopeError, match="set_dump takes a module"):
        opscope.set_dump(target)

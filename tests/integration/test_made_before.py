"""NaN that is made before training reads it: in a loader of this process, or before step 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from helpers.watched import Watched, watched
from opscope.judge.origin.verdict import text

BAD = 9
Transform = Callable[[Tensor], Tensor]


def line_of(words: str) -> int:
    """The line of this file that ends in a mark."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {words}")]
    return number


class Samples(Dataset[Tensor]):
    """Points, of which one is like none of the others; each is transformed as it is asked for."""

    def __init__(self, bad: float, transform: Transform) -> None:
        self.points = torch.rand(16, 3) + 0.5
        self.points[BAD] = bad
        self.transform = transform

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(self.points[index])


def fit(folder: Path, model: nn.Module, batches: Callable[[], Iterable[Tensor]]) -> Watched:
    """Everything is made under watch, as in a script."""
    with watched(folder, save_state="none") as found:
        torch.manual_seed(0)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for x in batches():
            optimizer.zero_grad()
            model(x).square().mean().backward()  # reads it
            optimizer.step()
    return found


def scaled(x: Tensor) -> Tensor:
    """Divides 0 by 0 if all is alike."""
    return (x - x.mean()) / x.std()  # makes it


def test_an_operator_of_a_dataset_is_the_origin(tmp_path: Path) -> None:
    found = fit(tmp_path, nn.Linear(3, 2), lambda: DataLoader(Samples(1.0, scaled), 4))
    verdict = found.verdict
    assert found.stopped
    assert (verdict["step"], verdict["op_type"], verdict["phase"]) == (2, "div", "data")
    assert verdict["where"] == f"{__file__}:{line_of('makes it')}"
    assert verdict["entered"] is None
    assert verdict["came_in"]["kind"] == "batch"
    assert verdict["came_in"]["where"] == f"{__file__}:{line_of('reads it')}"
    assert "0 / 0" in verdict["what"]
    assert any(line.startswith("  came in   with the batch input0") for line in text(verdict))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_a_dataset_holds_came_from_outside(bad: float, tmp_path: Path) -> None:
    """No operator made it: the line is the one that reads it."""
    data = Samples(bad, lambda x: x * 2)
    verdict = fit(tmp_path, nn.Linear(3, 2), lambda: DataLoader(data, 4)).verdict
    assert verdict["entered"]["kind"] == "batch"
    assert verdict["came_in"] is None
    assert verdict["where"] == f"{__file__}:{line_of('reads it')}"


def test_what_a_dataset_mends_is_no_hit(tmp_path: Path) -> None:
    data = Samples(1.0, lambda x: scaled(x).nan_to_num(0.0))
    assert fit(tmp_path, nn.Linear(3, 2), lambda: DataLoader(data, 4)).hits == []


def test_an_operator_before_the_first_step_is_the_origin(tmp_path: Path) -> None:
    """Weights are made under watch, then by an operator that is given a 0."""
    model = nn.Linear(3, 2)

    def batches() -> Iterable[Tensor]:
        with torch.no_grad():
            scale = torch.arange(3.0)
            model.weight.copy_(model.weight * scale.log())  # spoils it
        return [torch.rand(4, 3) for _ in range(3)]

    verdict = fit(tmp_path, model, batches).verdict
    assert (verdict["step"], verdict["op_type"], verdict["phase"]) == (0, "log", "setup")
    assert verdict["where"] == f"{__file__}:{line_of('spoils it')}"
    assert verdict["came_in"]["kind"] == "parameter"
    assert verdict["came_in"]["name"] == "weight"
    assert verdict["reached"]["loss"]


def test_a_loaded_key_is_named(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["weight"][1, 1] = math.nan

    def batches() -> Iterable[Tensor]:
        model.load_state_dict(state)
        return [torch.rand(4, 3) for _ in range(3)]

    verdict = fit(tmp_path, model, batches).verdict
    assert (verdict["entered"]["kind"], verdict["entered"]["name"]) == ("parameter", "weight")
    assert verdict["came_in"] is None
    assert "key weight of the checkpoint" in verdict["advice"]

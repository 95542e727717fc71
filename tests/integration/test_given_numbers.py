"""An operator that is given NaN or Inf as a number is named with that number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from helpers.watched import watched

HOW: dict[str, tuple[Callable[[Tensor, float], Tensor], str]] = {
    "full": (lambda y, v: y + torch.full((4, 2), v), "full was asked to fill with NaN (fill_value"),
    "full_like": (lambda y, v: y + torch.full_like(y, v), "full_like was asked to fill with NaN"),
    "fill_": (
        lambda y, v: y + torch.zeros(4, 2).fill_(v),
        "fill_ was asked to fill with NaN (value",
    ),
    "masked_fill": (
        lambda y, v: y.masked_fill(y == y, v),
        "masked_fill was asked to fill with NaN",
    ),
    "index_fill": (
        lambda y, v: y.index_fill(0, torch.tensor([0]), v),
        "index_fill was asked to fill with NaN (",
    ),
    "pad": (
        lambda y, v: nn.functional.pad(y, (1, 1), value=v),
        "constant_pad_nd was asked to fill with NaN (",
    ),
    "where": (lambda y, v: torch.where(y > 9, y, v), "was asked to fill with NaN ("),
    "add": (lambda y, v: y + v, "add was given the number NaN (other=nan)"),
    "mul": (lambda y, v: y * v, "mul was given the number NaN (other=nan)"),
    "clamp": (lambda y, v: y.clamp(min=v), "clamp was given the number NaN (min=nan)"),
    "alpha": (lambda y, v: torch.add(y, y, alpha=v), "add was given the number NaN (alpha=nan)"),
}


def train(make: Callable[[Tensor, float], Tensor], values: list[float | None]) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for value in values:
        y = model(torch.randn(4, 3))
        if value is not None:
            y = make(y, value)
        optimizer.zero_grad()
        y.square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("before", [[None, None], [0.5, 0.5]], ids=["first", "later"])
@pytest.mark.parametrize("how", HOW)
def test_a_number_that_is_nan(tmp_path: Path, how: str, before: list[float | None]) -> None:
    make, what = HOW[how]
    with watched(tmp_path) as found:
        train(make, [*before, float("nan")])
    assert found.verdict["step"] == 2
    assert what in found.verdict["what"]
    assert "where that number comes from" in found.verdict["advice"]


def test_a_number_that_is_infinite(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        train(lambda y, v: y * v, [None, float("inf")])
    assert "mul was given the number Inf (other=inf)" in found.verdict["what"]

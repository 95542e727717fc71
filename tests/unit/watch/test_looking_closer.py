"""What looks at values themselves takes whatever tensors there are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from helpers.watched import watched
from opscope.judge.parsing import make
from opscope.watch.equal_rows import EqualRows


def looked_at(*tensors: torch.Tensor) -> list[str]:
    """Those of some weights whose rows are alike in the first step, by their place."""
    found = EqualRows()
    found.watch([make("WE")])
    for number, tensor in enumerate(tensors):
        found.parameter(str(number), tensor)
    return found.end_step(0)


def test_rows_that_are_alike() -> None:
    row = torch.randn(4)
    part = row.expand(3, 4).clone()
    part[2, 1] += 1e-3
    assert looked_at(row.expand(3, 4), torch.randn(3, 4), part, torch.zeros(3, 4)) == ["0", "3"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rows_of_other_types(dtype: torch.dtype) -> None:
    assert looked_at(torch.ones(3, 4, dtype=dtype), torch.eye(3, dtype=dtype)) == ["0"]


def test_odd_tensors() -> None:
    eighth = torch.ones(3, 4).to(torch.float8_e5m2)
    whole = torch.ones(3, 4, dtype=torch.int64)
    odd = (torch.ones(3), torch.ones(3, 2, 0), torch.ones(3, 4, device="meta"), eighth, whole)
    assert looked_at(*odd, torch.ones(3, 4).to_sparse()) == []


def test_features_under_transforms(tmp_path: Path) -> None:
    """Data that torch.func has wrapped has no numbers of its own, and costs nobody a watchpoint."""
    model = nn.Linear(3, 2)
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss_of(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, weights, (x[None],)).square().sum()

    with watched(tmp_path, watch="DF; DC; LN", on_hit="log", save_state="none") as found:
        for _ in range(24):
            each = torch.func.vmap(torch.func.grad(loss_of), (None, 0))(weights, torch.randn(8, 3))
            weights = {name: w - 0.01 * each[name].mean(0) for name, w in weights.items()}
    assert found.hits == []
    assert found.session.watch is not None and found.sink.watch.enabled

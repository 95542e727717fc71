"""Watchpoints with `--scope`: a fault outside of it is not blamed on the operator that reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import opscope


class Model(nn.Module):
    """Divides by zero in its first part."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x) / x.sum())  # type: ignore[no-any-return]


def test_a_fault_outside_of_the_scope(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(SystemExit), opscope.start(run_dir=tmp_path / "run", scope="*second*"):
        model(torch.zeros(2, 3)).sum().backward()
        optimizer.step()
    said = capfd.readouterr().err
    assert "it came from outside, with the operator Default/network-Model/div-op0" in said
    assert "run without --scope" in said

"""`--watch everything` on trainings that are as they should be, though some numbers are odd."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.watched import watched


class Attention(nn.Module):
    """Its keys have a bias, which is the same for all of them: softmax cancels it."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return (scores.softmax(-1) @ self.value(x)).mean(1)


def test_a_bias_that_has_no_gradient_by_nature(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Attention()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with watched(tmp_path, watch="everything", on_hit="log", save_state="none") as found:
        for _ in range(24):
            x = torch.randn(8, 5, 4)
            optimizer.zero_grad()
            (1e-6 * F.mse_loss(model(x), x.mean(1))).backward()
            optimizer.step()
    assert found.hits == []
    bias, weight = model.key.bias.grad, model.key.weight.grad
    assert bias is not None
    assert weight is not None
    assert bias.abs().mean() < 1e-12 < weight.abs().mean()

"""What fresh faults of the forums brought to light: conditions, and what they must not say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import opscope
from helpers.watched import Watched, watched
from opscope.events import LossRecord
from opscope.judge.conditions.loss_oscillates import LOSS_OSCILLATES, LossOscillates
from opscope.judge.parsing import make
from opscope.judge.table import Table
from opscope.judge.training import TrainingJudge
from opscope.judge.training_check import SeenStep


def train(
    folder: Path, watch: str, model: nn.Module, loss_of: Callable[[int], Tensor], steps: int = 24
) -> Watched:
    """The hits of a training, and that a later check finds the same."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with watched(folder, watch=watch, on_hit="log", save_state="none", record=True) as found:
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(step).backward()
            optimizer.step()
    later = opscope.open(found.folder).check(watch)
    assert [(h.step, h.message) for h in later.hits] == [(h.step, h.message) for h in found.hits]
    return found


# ------------------------------------------------------------------------------------------ labels


def labels_of(kind: str, step: int) -> Tensor:
    """Labels of a batch of 8."""
    if kind == "sorted":  # a class ends in the middle of every twelfth batch
        now = torch.full((8,), step // 12)
        now[4:] += step % 12 == 11
        return now % 4
    if kind == "rare":  # nearly all are of one class, as of data with few faults
        return (torch.arange(8) == 0).long() * (step % 12 == 5)
    return torch.randint(0, 4, (8,))


@pytest.mark.parametrize("kind", ["sorted", "rare", "shuffled"])
def test_labels_sorted_by_class(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    found = train(
        tmp_path,
        "LT",
        model,
        lambda step: F.cross_entropy(model(torch.randn(8, 4)), labels_of(kind, step)),
        40,
    )
    if kind == "sorted":
        (hit,) = found.hits
        assert "all of one class in 19 of 20 steps, of 2 classes in turn" in hit.message
        assert "shuffle it" in hit.message
    else:
        assert found.hits == []


# --------------------------------------------------------------------------------------- attention


class Attention(nn.Module):
    """Attention of several heads, with its softmax along some dimension."""

    def __init__(self, dim: int, turned: bool = False) -> None:
        super().__init__()
        self.into, self.dim, self.turned = nn.Linear(4, 12), dim, turned

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.into(x).view(3, 5, 3, 2, 2).permute(2, 0, 3, 1, 4)
        if self.turned:
            weights = F.softmax(k @ q.transpose(-2, -1), dim=self.dim).transpose(-2, -1)
        else:
            weights = F.dropout(F.softmax(q @ k.transpose(-2, -1), dim=self.dim), 0.1)
        return (weights @ v).mean((1, 2))


@pytest.mark.parametrize(
    ("dim", "turned", "wrong"),
    [(1, False, True), (0, False, True), (-1, False, False), (3, False, False), (-2, True, False)],
)
def test_softmax_over_the_heads(tmp_path: Path, dim: int, turned: bool, wrong: bool) -> None:
    torch.manual_seed(0)
    model = Attention(dim, turned)
    found = train(
        tmp_path, "LA", model, lambda step: model(torch.randn(3, 5, 4)).square().mean(), 3
    )
    assert len(found.hits) == wrong
    if wrong:
        expected = f"softmax is over dimension {dim} of [3, 2, 5, 5], but the product"
        assert expected in found.hits[0].message


# --------------------------------------------------------------------------------- what is no fault


def test_a_recurrent_layer_begins_with_zeros(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.GRU(4, 4, batch_first=True)
    found = train(
        tmp_path, "DB", model, lambda step: model(torch.randn(8, 3, 4))[0].square().mean()
    )
    assert found.hits == []


def test_zeros_that_a_script_gives_are_a_batch(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    found = train(tmp_path, "DB", model, lambda step: model(torch.zeros(8, 4)).square().mean())
    assert len(found.hits) == 1


@pytest.mark.parametrize(("first", "hits"), [(0.2, 1), (4.0, 0)])
def test_losses_differ_far_below_where_they_began(first: float, hits: int) -> None:
    watchpoint = make("LO")
    training = TrainingJudge(Table(lambda number: None), lambda: 0)  # type: ignore[arg-type, return-value]
    check = LossOscillates(watchpoint, training)
    losses = [first] * 5 + [0.05 if step % 2 else 0.3 for step in range(30)]
    found = [hit for step, loss in enumerate(losses) for hit in check.check(_step(step, loss))]
    assert len(found) == hits
    assert watchpoint.condition is LOSS_OSCILLATES


def _step(number: int, loss: float) -> SeenStep:
    return SeenStep(number, [LossRecord(loss, None)])

"""What unusual but healthy trainings brought to light, each beside the fault it resembles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import opscope
from helpers.watched import Watched, watched

WATCH = "PG steps_ge=4"


class Experts(nn.Module):
    """One of three experts is asked for all points of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 3) for _ in range(3))
        self.asked = [0, 1]
        self.cut_off = False

    def forward(self, x: Tensor, step: int) -> Tensor:
        out = self.experts[self.asked[step % len(self.asked)]](x)
        return out + self.experts[2](x).detach() if self.cut_off else out


def train(folder: Path, model: Experts, steps: int) -> Watched:
    """The hits of a training, which a check of its run finds too."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with watched(folder, watch=WATCH, on_hit="log", save_state="none", record=True) as found:
        for step in range(steps):
            x = torch.randn(8, 4)
            optimizer.zero_grad()
            F.cross_entropy(model(x, step), x[:, :3].argmax(1)).backward()
            optimizer.step()
    later = opscope.open(found.folder).check(WATCH)
    assert [(h.step, h.message) for h in later.hits] == [(h.step, h.message) for h in found.hits]
    return found


def test_an_expert_that_is_asked_late_is_no_fault(tmp_path: Path) -> None:
    model = Experts()
    model.asked = [0, 1] * 5 + [2]
    assert train(tmp_path, model, 12).hits == []


@pytest.mark.parametrize(("cut_off", "steps", "told"), [(True, 6, 3), (False, 42, 40)])
def test_an_expert_that_is_never_trained_is_told_of(
    cut_off: bool, steps: int, told: int, tmp_path: Path
) -> None:
    model = Experts()
    model.cut_off = cut_off
    (hit,) = train(tmp_path, model, steps).hits
    assert hit.step == told
    assert "2 parameters (experts.2.weight, experts.2.bias)" in hit.message
    assert Path(__file__).name in hit.where, "where nothing reads it, the line of the update"


# ----------------------------------------------------------------------------------- moving targets


def plateau(folder: Path, moves: bool) -> Watched:
    """A network follows what another says, which goes its own way or stays as it is."""
    torch.manual_seed(0)
    student, teacher = nn.Linear(4, 2), nn.Linear(4, 2).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), 1e-2)
    with watched(folder, watch="LP steps_ge=30", on_hit="log", save_state="none") as found:
        for _ in range(34):
            x = torch.randn(64, 4)
            with torch.no_grad():
                target = teacher(x) + 10 * torch.randn(64, 2)
            optimizer.zero_grad()
            F.mse_loss(student(x), target).backward()
            optimizer.step()
            with torch.no_grad():
                teacher.weight.add_(torch.randn(2, 4), alpha=0.1 * moves)
    return found


@pytest.mark.parametrize("moves", [True, False])
def test_a_loss_may_stay_where_targets_move(moves: bool, tmp_path: Path) -> None:
    assert [hit.watchpoint.condition.abbr for hit in plateau(tmp_path, moves).hits] == (
        [] if moves else ["LP"]
    )


# ----------------------------------------------------------------------------------- depth


def with_depth(folder: Path, slope: Callable[[int], float], rate: float, steps: int) -> Watched:
    """Train three layers; what comes back through the middle is multiplied by `slope`."""
    torch.manual_seed(0)
    first, middle, last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)
    model = nn.ModuleList([first, middle, last])
    optimizer = torch.optim.Adam(model.parameters(), rate)
    with watched(folder, watch="GD", on_hit="log", save_state="none") as found:
        for step in range(steps):
            x = torch.randn(32, 4)
            hidden = first(x).relu()
            share = slope(step)
            hidden = share * hidden + (1 - share) * hidden.detach()
            out = last(middle(hidden).relu())
            optimizer.zero_grad()
            F.cross_entropy(out, x[:, :3].argmax(1)).backward()
            optimizer.step()
    return found


@pytest.mark.parametrize(
    ("slope", "rate", "steps", "told"),
    [
        pytest.param(lambda step: 1e-8, 1e-4, 12, [10], id="from the start"),
        pytest.param(lambda step: 1e-8 if step > 1 else 1.0, 1e-4, 60, [55], id="later, for long"),
        pytest.param(lambda step: 1e-8 if step % 25 > 5 else 1.0, 1e-4, 60, [], id="now and then"),
        pytest.param(lambda step: 1e-8 if step > 60 else 1.0, 3e-2, 120, [], id="what is learned"),
    ],
)
def test_gradients_that_vanish_with_depth(
    slope: Callable[[int], float], rate: float, steps: int, told: list[int], tmp_path: Path
) -> None:
    hits = with_depth(tmp_path, slope, rate, steps).hits
    assert [hit.step for hit in hits] == told
    assert all("gradients vanish with depth" in hit.message for hit in hits)


# ----------------------------------------------------------------------------------- penalties


@pytest.mark.parametrize(("strength", "told"), [(1.0, True), (1e-4, False)])
def test_a_penalty_that_wins_over_the_errors(strength: float, told: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    nn.init.normal_(model[2].weight, std=0.02)  # it begins with guessing
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with watched(tmp_path, watch="LP steps_ge=60", on_hit="log", save_state="none") as found:
        for _ in range(62):
            x = torch.randn(32, 4)
            penalty = sum(p.abs().sum() for p in model.parameters())
            optimizer.zero_grad()
            (F.cross_entropy(model(x), x[:, :3].argmax(1)) + strength * penalty).backward()
            optimizer.step()
    assert len(found.hits) == told
    for hit in found.hits:
        assert "nll_loss_forward, which is a part of the loss, has not fallen" in hit.message
        assert Path(__file__).name in hit.where

"""OS: settings that no training can want, on real trainings; each with its healthy twin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import LambdaLR

import opscope
from helpers.examples import one_in
from helpers.watched import Watched, watched

Make = Callable[[Iterable[nn.Parameter]], Optimizer]


class Decaying(SGD):
    """A class of somebody's own, on top of one of torch's."""


class Lookalike(Optimizer):
    """One that means something else by momentum."""

    def __init__(self, params: Iterable[nn.Parameter]) -> None:
        super().__init__(params, {"lr": 0.01, "momentum": 1.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"])


def train(
    folder: Path,
    make: Make,
    loss_of: Callable[[nn.Module, Tensor], Tensor] = lambda m, x: F.mse_loss(m(x), x[:, :1]),
    schedule: Callable[[int], float] = lambda step: 1.0,
    steps: int = 4,
    watch: str = "OS",
) -> Watched:
    """The hits of a training, and that a later check finds the same."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = make(model.parameters())
    scheduler = LambdaLR(optimizer, schedule)
    with watched(folder, watch=watch, on_hit="log", save_state="none", record=True) as found:
        for _ in range(steps):
            optimizer.zero_grad()
            loss_of(model, torch.randn(8, 4)).backward()
            optimizer.step()
            scheduler.step()
    later = opscope.open(found.folder).check(watch)
    assert [(h.step, h.message, h.where) for h in later.hits] == [
        (h.step, h.message, h.where) for h in found.hits
    ]
    return found


def with_betas(first: float, second: float) -> Make:
    """Betas that are set after the optimizer was made, where nothing checks them."""

    def make(params: Iterable[nn.Parameter]) -> Optimizer:
        optimizer = Adam(params, 1e-3)
        optimizer.param_groups[0]["betas"] = first, second
        return optimizer

    return make


def options(kind: Callable[..., Optimizer], **settings: Any) -> Make:
    return lambda params: kind(params, **settings)


WRONG: dict[str, tuple[Make, str]] = {
    "momentum": (options(SGD, lr=1e-3, momentum=1.0), "SGD of weight, bias has momentum=1:"),
    "derived": (options(Decaying, lr=1e-3, momentum=1.5), "SGD of weight, bias has momentum=1.5:"),
    "dampening": (options(SGD, lr=1e-3, momentum=0.9, dampening=1.0), "has dampening=1:"),
    "alpha": (options(RMSprop, lr=1e-4, alpha=1.0), "has alpha=1:"),
    "swapped": (options(Adam, lr=1e-3, betas=(0.999, 0.9)), "has betas=(0.999, 0.9):"),
    "no_squares": (options(AdamW, lr=1e-3, betas=(0.9, 0.0)), "has betas=(0.9, 0):"),
    "average_of_one": (with_betas(0.9, 1.0), "has betas=(0.9, 1):"),
    "rate": (options(Adam, lr=1.0), "has lr=1: Adam moves every element"),
    "decay": (options(SGD, lr=0.1, weight_decay=5.0), "each step takes away 50 % of every weight"),
    "decoupled": (options(AdamW, lr=1e-2, weight_decay=100.0), "each step takes away 100 %"),
    "in_gradient": (options(Adam, lr=1e-3, weight_decay=10.0), "it is added to the gradient"),
    "maximize": (options(SGD, lr=1e-3, maximize=True), "has maximize=True:"),
}
RIGHT: dict[str, Make] = {
    "momentum": options(SGD, lr=1e-3, momentum=0.999, nesterov=True),
    "dampening": options(SGD, lr=1e-3, momentum=0.9, dampening=0.9),
    "no_momentum": options(SGD, lr=30.0, dampening=1.0, weight_decay=1e-4),
    "alpha": options(RMSprop, lr=1e-4, alpha=0.999),
    "of_gans": options(Adam, lr=1e-3, betas=(0.0, 0.9)),
    "close": options(Adam, lr=1e-3, betas=(0.95, 0.95)),
    "adadelta": options(torch.optim.Adadelta, lr=1.0),
    "tensor": options(Adam, lr=torch.tensor(1e-3)),
    "decay": options(AdamW, lr=1e-3, weight_decay=1.0),
    "in_gradient": options(Adam, lr=1e-3, weight_decay=0.1),
    "lookalike": Lookalike,
}


@pytest.mark.parametrize("name", one_in(8, WRONG))
def test_settings_that_are_wrong(tmp_path: Path, name: str) -> None:
    make, expected = WRONG[name]
    (hit,) = train(tmp_path, make).hits
    assert hit.step == 0
    assert expected in hit.message
    assert "expected is" in hit.message
    assert hit.where.endswith(f"{Path(__file__).name}:{_line_of('optimizer.step()')}")


@pytest.mark.parametrize("name", one_in(8, RIGHT))
def test_settings_that_are_right(tmp_path: Path, name: str) -> None:
    assert train(tmp_path, RIGHT[name]).hits == []


def test_a_schedule_that_goes_below_zero(tmp_path: Path) -> None:
    make = options(SGD, lr=0.1)
    (hit,) = train(tmp_path / "a", make, schedule=lambda step: 1 - step / 2, steps=6).hits
    assert (hit.step, "lr=-0.05: below 0 the loss is climbed" in hit.message) == (3, True)
    healthy = train(tmp_path / "b", make, schedule=lambda step: max(0, 1 - step / 2), steps=6)
    assert healthy.hits == []


@pytest.mark.parametrize(
    ("make", "every", "told"),
    [
        (options(Adam, lr=1e-3), 1, [9]),
        (options(SGD, lr=1e-3, momentum=0.9), 1, [9]),
        (options(SGD, lr=1e-3), 1, []),
        (options(Adam, lr=1e-3), 2, []),
    ],
)
def test_an_optimizer_that_is_made_in_every_step(
    tmp_path: Path, make: Make, every: int, told: list[int]
) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = make(model.parameters())
    with watched(tmp_path, watch="OS", on_hit="log", save_state="none", record=True) as found:
        for step in range(14):
            if step % every == 0:
                optimizer = make(model.parameters())
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    assert [hit.step for hit in found.hits] == told
    assert all("it is made anew, and forgets its averages" in hit.message for hit in found.hits)
    later = opscope.open(found.folder).check("OS")
    assert [hit.step for hit in later.hits] == told


def test_climbing_what_is_a_reward(tmp_path: Path) -> None:
    climbing = options(SGD, lr=1e-3, maximize=True)
    assert train(tmp_path, climbing, lambda m, x: m(x).tanh().mean()).hits == []


def test_climbing_beside_one_that_descends(tmp_path: Path) -> None:
    """An adversary that climbs the loss that another optimizer minimises."""
    model, noise = nn.Linear(4, 1), nn.Parameter(torch.zeros(8, 4))
    descends, climbs = SGD(model.parameters(), 0.01), SGD([noise], 0.1, maximize=True)
    with watched(tmp_path, watch="OS", on_hit="log", save_state="none") as found:
        for _ in range(4):
            x = torch.randn(8, 4)
            loss = F.mse_loss(model(x + noise), x[:, :1])
            for optimizer in (descends, climbs):
                optimizer.zero_grad()
            loss.backward()
            for optimizer in (descends, climbs):
                optimizer.step()
    assert found.hits == []


def test_each_group_that_is_wrong(tmp_path: Path) -> None:
    def make(params: Iterable[nn.Parameter]) -> Optimizer:
        weight, bias = params
        return SGD([{"params": [weight]}, {"params": [bias], "momentum": 1.0}], lr=1e-3)

    (hit,) = train(tmp_path, make, watch="recommended").hits
    assert hit.message.startswith("SGD of bias has momentum=1:")


def _line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip() == text)

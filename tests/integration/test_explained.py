"""The explanation: divergence by its name, the element to blame, advice that fits the case."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers.watched import one_step, watched
from opscope.judge.origin.verdict import text


def diverging(folder: Path, rate: float) -> dict[str, Any]:
    torch.manual_seed(0)
    with watched(folder, save_state="none") as found:
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), rate)
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
    return found.verdict


def test_divergence_is_named_as_such(tmp_path: Path) -> None:
    verdict = diverging(tmp_path, 30.0)
    growth = verdict["divergence"]
    assert growth["what"] == "the loss"
    assert growth["factor"] > 1.5 and growth["to"] > 100 * growth["from"]
    assert growth["since"] < verdict["step"]
    shown = "\n".join(text(verdict))
    assert "training diverges: since step" in shown
    assert "learning rate or the initialisation is the suspect" in shown


def test_two_steps_are_enough_where_each_is_a_leap(tmp_path: Path) -> None:
    torch.manual_seed(7)
    layers = (nn.Linear(5, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.ReLU())
    with watched(tmp_path, save_state="none") as found:
        model = nn.Sequential(*layers, nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), 30.0)
        for _ in range(6):
            x = torch.randn(32, 5)
            optimizer.zero_grad()
            F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
    growth = found.verdict["divergence"]
    assert found.verdict["step"] == 2 and growth["since"] == 0
    assert growth["factor"] > 100 and "Linear" in growth["first"]


def test_a_sudden_nan_is_no_divergence(tmp_path: Path) -> None:
    with watched(tmp_path, save_state="none") as found:
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for step in range(8):
            optimizer.zero_grad()
            (model(torch.randn(4, 3)).square() * (step != 6)).log().mean().backward()
            optimizer.step()
    assert found.verdict["divergence"] is None
    history = found.verdict["history"]
    assert [each["step"] for each in history] == [1, 2, 3, 4, 5]
    assert all(each["max"] > 0 for each in history)


def test_an_overflow_at_the_start_does_not_blame_the_learning_rate(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, lambda p, x: (p * x) * 1e30, [1e20, 1.0]).verdict
    assert "learning rate" not in verdict["advice"]
    assert "initialisation" in verdict["advice"]


def test_the_element_of_an_output(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, lambda p, x: p * x.log(), [[1.0, 2.0], [3.0, 0.0]]).verdict
    assert verdict["culprit"] == "output 0 is bad first at [1, 1], where input 0 is 0"
    assert any("culprit   output 0" in line for line in text(verdict))


def test_the_row_of_a_batch(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, lambda p, x: p * x, [[1.0, 2.0], [3.0, math.nan]]).verdict
    assert verdict["culprit"] == "input 1 is bad first at [1, 1], in row 1 of the batch"


def test_a_parameter_that_is_zero(tmp_path: Path) -> None:
    model = nn.Module()
    model.scale = nn.Parameter(torch.zeros(1))
    model.forward = lambda x: x / model.scale
    verdict = one_step(tmp_path, model.forward, [1.0, 2.0], model=model).verdict
    assert "the parameter scale is exactly 0" in verdict["culprit"]


@pytest.mark.parametrize(
    ("formula", "batch", "advice"),
    [
        (lambda p, x: (p * x).std(0), [[1.0, 2.0]], "unbiased=False"),
        (lambda p, x: (p * x)[:0].mean(), [1.0, 2.0], "skip a batch"),
        (
            lambda p, x: F.cross_entropy(p * x, torch.full((2,), -100)),
            [[1.0, 2.0], [3.0, 4.0]],
            "skip such a batch",
        ),
    ],
    ids=["std", "mean", "labels"],
)
def test_advice_that_fits(formula: Any, batch: Any, advice: str, tmp_path: Path) -> None:
    assert advice in one_step(tmp_path, formula, batch).verdict["advice"]


def test_a_checkpoint_names_its_key(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    state = {key: value.clone() for key, value in model.state_dict().items()}
    state["1.weight"][0, 0] = math.nan
    model.load_state_dict(state)
    verdict = one_step(tmp_path, model.forward, [[1.0, 2.0]], model=model).verdict
    assert "the key 1.weight of the checkpoint" in verdict["advice"]
    assert "never written" not in verdict["what"]

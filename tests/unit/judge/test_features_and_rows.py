"""Conditions that look at values themselves, on real trainings: each with its healthy twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import opscope
from helpers.watched import Watched, watched

Change = Callable[[Tensor], Tensor]


def train(
    folder: Path,
    watch: str,
    model: nn.Module,
    change: Change = lambda x: x,
    loss_of: Callable[[nn.Module, Tensor, int], Tensor] = lambda m, x, s: m(x).square().mean(),
    steps: int = 24,
    **options: Any,
) -> Watched:
    """The hits of a training on four features, and that a later check finds the same."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, **options)
    with watched(folder, watch=watch, on_hit="log", save_state="none", record=True) as found:
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(model, change(torch.randn(16, 4)), step).backward()
            optimizer.step()
    later = opscope.open(found.folder).check(watch)
    assert sorted((h.step, h.message, h.where) for h in later.hits) == sorted(
        (h.step, h.message, h.where) for h in found.hits
    )
    return found


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def scaled(*factors: float) -> Change:
    return lambda x: x * torch.tensor(factors)


# -------------------------------------------------------------------------------------- features


@pytest.mark.long
def test_features_of_different_size(tmp_path: Path) -> None:
    found = train(tmp_path / "a", "DF", net(), scaled(1, 3e4, 1, 0.5))
    (hit,) = found.hits
    assert "feature 1 of the input varies by 3" in hit.message
    assert "feature 3 by 0." in hit.message
    assert "over 320 samples" in hit.message
    assert hit.where.endswith(f"{Path(__file__).name}:{_line_of('lambda m, x, s')}")
    assert train(tmp_path / "b", "DF", net(), scaled(1, 3e3, 1, 0.5)).hits == []
    assert len(train(tmp_path / "c", "DF ratio_gt=100", net(), scaled(1, 3e3, 1, 1)).hits) == 1


def test_features_that_never_vary(tmp_path: Path) -> None:
    def constant(value: float) -> Change:
        def change(x: Tensor) -> Tensor:
            x[:, 2] = value
            return x

        return change

    (hit,) = train(tmp_path / "a", "DC", net(), constant(3.0)).hits
    assert "1 of 4 features of the input (2) are the same in all of 320 samples" in hit.message
    assert "(feature 2 is 3)" in hit.message
    for name, value in (("bias", 1.0), ("rare", 0.0)):
        assert train(tmp_path / name, "DC", net(), constant(value)).hits == []


def test_flags_that_are_always_set_are_no_fault(tmp_path: Path) -> None:
    """Several columns that say of values that they are there."""

    def known(x: Tensor) -> Tensor:
        x[:, 1:3] = 1.0
        return x

    assert train(tmp_path, "DC", net(), known).hits == []


@pytest.mark.long
def test_features_after_preprocessing_and_in_sequences(tmp_path: Path) -> None:
    """What counts is what the layer is given; the last dimension has the features."""
    wide = scaled(1, 3e5, 1, 1)
    normal = train(tmp_path / "a", "DF", net(), lambda x: F.layer_norm(wide(x), (4,)) * 2)
    assert normal.hits == []
    found = train(tmp_path / "b", "DF", net(), lambda x: wide(x).reshape(4, 4, 4) / 2)
    assert len(found.hits) == 1


def test_features_are_not_looked_at_unasked(tmp_path: Path) -> None:
    found = train(tmp_path, "recommended", net(), scaled(1, 3e5, 1, 1))
    assert "features" not in (found.rank / "facts.jsonl").read_text()
    checked = opscope.open(found.folder).check("DF")
    assert "nobody asked for it" in str(checked.unchecked)


# ---------------------------------------------------------------------------------- rows, layers


def with_equal_rows(also_out: bool) -> nn.Sequential:
    model = net()
    with torch.no_grad():
        model[0].weight.copy_(torch.randn(4).expand(6, 4))
        model[0].bias.zero_()
        if also_out:
            model[2].weight.copy_(torch.randn(2, 1).expand(2, 6))
    return model


def test_rows_that_stay_alike(tmp_path: Path) -> None:
    found = train(tmp_path / "a", "WE", with_equal_rows(also_out=True))
    (hit,) = found.hits
    assert (hit.step, hit.parameter) == (10, "0.weight")
    assert "all rows are alike" in hit.message
    assert train(tmp_path / "b", "WE", with_equal_rows(also_out=False)).hits == []


@pytest.mark.long
def test_a_layer_right_after_another(tmp_path: Path) -> None:
    double = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2), nn.Tanh())
    (hit,) = train(tmp_path / "a", "LL", double, steps=3).hits
    assert "from 4 over 6 to 2 features" in hit.message
    adapter = nn.Sequential(nn.Linear(4, 1, bias=False), nn.Linear(1, 3, bias=False))
    assert train(tmp_path / "b", "LL", adapter, steps=3).hits == []
    assert train(tmp_path / "c", "LL", net(), steps=3).hits == []


def test_a_layer_whose_output_is_used_twice(tmp_path: Path) -> None:
    first, second = nn.Linear(4, 6), nn.Linear(6, 2)

    def loss_of(model: nn.Module, x: Tensor, step: int) -> Tensor:
        hidden = first(x)
        return second(hidden).square().mean() + hidden.tanh().mean()

    model = nn.ModuleList([first, second])
    assert train(tmp_path, "LL", model, loss_of=loss_of, steps=3).hits == []


@pytest.mark.long
def test_a_layer_whose_output_is_also_read_through_thousands_of_views(tmp_path: Path) -> None:
    first, second = nn.Linear(4, 6), nn.Linear(6, 2)

    def loss_of(model: nn.Module, x: Tensor, step: int) -> Tensor:
        hidden = seen = first(x)
        for _ in range(1000):
            seen = seen.unsqueeze(0).squeeze(0)
        return second(hidden).square().mean() + 0 * seen.detach().sum()

    model = nn.ModuleList([first, second])
    assert train(tmp_path, "LL", model, loss_of=loss_of, steps=2).hits == []


# ------------------------------------------------------------------------------ one that stops


@pytest.mark.parametrize("frozen", [False, True])
def test_a_parameter_that_no_longer_changes(frozen: bool, tmp_path: Path) -> None:
    model = net()

    def loss_of(_: nn.Module, x: Tensor, step: int) -> Tensor:
        if frozen and step == 8:
            model[0].requires_grad_(False)
        hidden = model[0](x)
        return model[2]((hidden if step < 8 else hidden.detach()).tanh()).square().mean()

    found = train(tmp_path, "PU steps_ge=5", model, loss_of=loss_of, steps=30)
    if frozen:
        assert found.hits == []
        return
    (hit,) = found.hits
    assert (hit.step, hit.parameter) == (8 + 15, "weight")
    assert "no longer changed since step 8, though its optimizer goes on" in hit.message


def test_a_parameter_whose_optimizer_rests(tmp_path: Path) -> None:
    """Networks that are trained in turn stop for a while, and are none the worse for it."""
    torch.manual_seed(0)
    nets = [nn.Linear(4, 4), nn.Linear(4, 4)]
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in nets]
    with watched(tmp_path, watch="PU steps_ge=3", on_hit="log", save_state="none") as found:
        for step in range(60):
            which = step % 2 if step < 6 else step // 20 % 2
            optimizers[which].zero_grad()
            nets[1](nets[0](torch.randn(8, 4)).tanh()).square().mean().backward()
            optimizers[which].step()
            opscope.step()
    assert found.hits == []


def _line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)

"""Conditions on training as a whole, on real trainings: each with its healthy twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.watched import Watched, watched
from opscope.events import ParameterFact
from opscope.judge.training import TrainingJudge


def run(folder: Path, training: Callable[[], None], watch: str = "recommended") -> Watched:
    """The hits of a training that nothing stops."""
    torch.manual_seed(0)
    with watched(folder, watch=watch, on_hit="log", save_state="none") as found:
        training()
    return found


def steps_of(found: Watched, abbr: str) -> list[int]:
    return [hit.step for hit in found.of(abbr)]


def loop(
    count: int,
    model: nn.Module | None = None,
    *,
    rate: float = 0.1,
    owned: Callable[[nn.Module], Iterator[nn.Parameter]] = nn.Module.parameters,
    before: Callable[[nn.Module, int], None] = lambda model, step: None,
    loss_of: Callable[[Tensor, int], Tensor] = lambda y, step: y.square().mean(),
    clears: bool = True,
    **options: Any,
) -> None:
    """A training that differs from the usual one in what it is given."""
    model = model or nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(owned(model), rate, **options)
    for step in range(count):
        before(model, step)
        if clears:
            optimizer.zero_grad()
        loss_of(model(torch.randn(4, 3)), step).backward()
        optimizer.step()


# ---------------------------------------------------------------------------------------- losses


def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    found = run(tmp_path, lambda: loop(3, loss_of=lambda y, s: y.mean() / (1 if s != 1 else 0)))
    assert steps_of(found, "LN")[0] == 1
    assert "the loss is " in found.of("LN")[0].message
    assert run(tmp_path / "b", lambda: loop(3)).hits == []


@pytest.mark.parametrize(("size", "hits"), [(1.9, []), (2.3, [7])])
def test_a_loss_that_jumps(size: float, hits: list[int], tmp_path: Path) -> None:
    """Of 1 before: 20 deviations of at least 0.05 each are 1.0 above it."""

    def loss_of(y: Tensor, step: int) -> Tensor:
        return 0 * y.mean() + (1.0 if step != 7 else size)

    found = run(tmp_path, lambda: loop(12, loss_of=loss_of), "LS window_min=5")
    assert steps_of(found, "LS") == hits


def test_a_jump_needs_enough_losses_before(tmp_path: Path) -> None:
    def loss_of(y: Tensor, step: int) -> Tensor:
        return 0 * y.mean() + (1.0 if step != 4 else 1e3)

    found = run(tmp_path, lambda: loop(8, loss_of=loss_of), "LS window_min=5")
    assert found.hits == []


# -------------------------------------------------------------------------------- never changing


@pytest.mark.parametrize(("count", "hits"), [(5, []), (6, [5])])
def test_parameters_that_never_change(count: int, hits: list[int], tmp_path: Path) -> None:
    found = run(tmp_path, lambda: loop(count, rate=0.0), "PU steps_ge=5")
    assert steps_of(found, "PU") == hits
    if hits:
        assert "none of 4 parameters (0.weight, 0.bias, 1.weight and 1 more) has changed in 5" in (
            found.hits[0].message
        )


def test_one_parameter_that_never_changes(tmp_path: Path) -> None:
    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x).detach() + 0 * self.body(x))

    found = run(tmp_path, lambda: loop(8, Detached()), "PU steps_ge=5")
    assert [(hit.step, hit.parameter) for hit in found.hits] == [(5, "body.weight")]
    assert (
        "never changed in 5 steps of training: 1 parameter (body.weight)" in found.hits[0].message
    )
    assert run(tmp_path / "b", lambda: loop(8), "PU steps_ge=5").hits == []


def freeze(model: nn.Module, step: int) -> None:
    model[0].requires_grad_(False)


def test_frozen_parameters_are_not_expected_to_change(tmp_path: Path) -> None:
    assert run(tmp_path, lambda: loop(8, before=freeze), "PU steps_ge=5").hits == []


# -------------------------------------------------------------------------- optimizers, gradients


@pytest.mark.parametrize(("count", "hits"), [(3, []), (4, [3])])
def test_gradients_that_no_optimizer_uses(count: int, hits: list[int], tmp_path: Path) -> None:
    def half(model: nn.Module) -> Iterator[nn.Parameter]:
        return model[1].parameters()

    found = run(tmp_path, lambda: loop(count, owned=half), "PO steps_ge=4")
    assert steps_of(found, "PO") == hits
    if hits:
        assert "gradients, but no optimizer, so never trained: 2 parameters (0.weight, 0.bias)" in (
            found.hits[0].message
        )


def test_two_optimizers_do_not_make_a_step_two(tmp_path: Path) -> None:
    def training() -> None:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2))
        both = [torch.optim.SGD(part.parameters(), 0.1) for part in model[1:]]
        for _ in range(3):
            model(torch.randn(4, 3)).square().mean().backward()
            for optimizer in both:
                optimizer.step()
                optimizer.zero_grad()
            model.zero_grad()

    assert run(tmp_path / "a", training, "PO steps_ge=4").hits == []
    assert steps_of(run(tmp_path / "b", training, "PO steps_ge=3"), "PO") == [2]


@pytest.mark.parametrize(("count", "hits"), [(4, []), (5, [4])])
def test_parameters_that_never_get_a_gradient(count: int, hits: list[int], tmp_path: Path) -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    found = run(tmp_path, lambda: loop(count, Unused()), "PG steps_ge=5")
    assert steps_of(found, "PG") == hits
    if hits:
        assert "has ever come: 2 parameters (unused.weight, unused.bias)" in found.hits[0].message
    assert run(tmp_path / "b", lambda: loop(9, before=freeze), "PG steps_ge=5").hits == []


@pytest.mark.parametrize(("count", "hits"), [(3, []), (4, [3])])
def test_gradients_that_are_not_cleared(count: int, hits: list[int], tmp_path: Path) -> None:
    """The first step adds to nothing."""
    found = run(tmp_path, lambda: loop(count, clears=False), "GA steps_ge=3")
    assert steps_of(found, "GA") == hits
    if hits:
        assert "zero_grad() missing" in found.hits[0].message
        assert "4 parameters" in found.hits[0].message


@pytest.mark.parametrize("to_none", [False, True])
def test_gradients_that_are_cleared(to_none: bool, tmp_path: Path) -> None:
    def before(model: nn.Module, step: int) -> None:
        model.zero_grad(set_to_none=to_none)

    found = run(tmp_path, lambda: loop(6, clears=False, before=before), "GA steps_ge=2")
    assert found.hits == []


# ------------------------------------------------------------------------------------- freezing


def freeze_the_wrong_way(model: nn.Module, step: int) -> None:
    model[0].requires_grad = False


def test_a_frozen_layer_that_trains(tmp_path: Path) -> None:
    found = run(tmp_path, lambda: loop(4, before=freeze_the_wrong_way))
    assert steps_of(found, "FC") == [1]
    assert "meant to be frozen, but changed: 2 parameters (0.weight, 0.bias);" in (
        found.of("FC")[0].message
    )
    assert run(tmp_path / "b", lambda: loop(4, before=freeze)).hits == []


def test_old_gradients_and_momentum_move_what_is_frozen(tmp_path: Path) -> None:
    def before(model: nn.Module, step: int) -> None:
        if step == 3:
            model[0].requires_grad_(False)

    found = run(tmp_path, lambda: loop(8, before=before, clears=False, momentum=0.9), "FC")
    assert steps_of(found, "FC") == [4]


def test_freezing_while_training_runs(tmp_path: Path) -> None:
    def before(model: nn.Module, step: int) -> None:
        model[0].requires_grad_(step < 4)

    assert run(tmp_path, lambda: loop(9, before=before), "FC").hits == []


@pytest.mark.parametrize("at", [4, 40])
def test_unfreezing_while_training_runs(at: int, tmp_path: Path) -> None:
    """Also when facts are asked for only now and then."""

    def before(model: nn.Module, step: int) -> None:
        model[0].requires_grad_(step >= at)

    assert run(tmp_path, lambda: loop(at + 6, before=before), "FC").hits == []


def test_what_is_frozen_and_changes_late_is_found_all_the_same(tmp_path: Path) -> None:
    def before(model: nn.Module, step: int) -> None:
        model[0].requires_grad_(False)
        if step >= 40:
            model[0].requires_grad_(True)
            model[0].requires_grad = False  # what the person said of it

    found = run(tmp_path, lambda: loop(48, before=before), "FC")
    assert steps_of(found, "FC") and steps_of(found, "FC")[0] <= 45


# ---------------------------------------------------------------------------------- evaluation


class Dropping(nn.Module):
    """A network with dropout in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.drop, self.head = nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.body(x)))


def evaluate_between(evaluates: bool) -> Callable[[], None]:
    def training() -> None:
        model = Dropping()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model.train()
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
            model.train(not evaluates)
            with torch.no_grad():
                for _ in range(2):
                    model(torch.randn(4, 3))

    return training


def test_an_evaluation_with_dropout(tmp_path: Path) -> None:
    found = run(tmp_path, evaluate_between(False), "ED")
    assert len(found.hits) == 1
    assert "drop-Dropout" in found.hits[0].message
    assert run(tmp_path / "b", evaluate_between(True), "ED").hits == []


def test_samples_for_a_critic_are_no_evaluation(tmp_path: Path) -> None:
    def training() -> None:
        maker, critic = Dropping(), nn.Linear(2, 1)
        steps = [torch.optim.SGD(model.parameters(), 0.01) for model in (maker, critic)]
        for _ in range(4):
            with torch.no_grad():
                fake = maker(torch.randn(4, 3))
            critic(fake).mean().backward()
            steps[1].step()
            critic(maker(torch.randn(4, 3))).mean().backward()
            steps[0].step()
            for optimizer in steps:
                optimizer.zero_grad()

    assert run(tmp_path, training, "ED").hits == []


# --------------------------------------------------------------------------- activations, in form


def dying(by: float, count: int = 10) -> Callable[[], None]:
    def training() -> None:
        model = nn.Sequential(nn.Linear(3, 1000), nn.ReLU(), nn.Linear(1000, 2))
        with torch.no_grad():
            model[0].weight.zero_()
            model[0].bias.fill_(-1.0)
            model[0].bias[: round(1000 * by)] = 1.0
        loop(count, model, rate=1e-9)

    return training


@pytest.mark.parametrize(("by", "hits"), [(0.0, 1), (0.001, 1), (0.002, 0)])
def test_a_dead_activation(by: float, hits: int, tmp_path: Path) -> None:
    """At least 99.9 % of it is zero."""
    assert len(run(tmp_path, dying(by)).of("AD")) == hits


def test_a_dead_activation_must_stay_so(tmp_path: Path) -> None:
    assert run(tmp_path, dying(0.0, count=9)).hits == []
    assert steps_of(run(tmp_path / "b", dying(0.0, count=12)), "AD") == [9, 10, 11]
    assert steps_of(run(tmp_path / "c", dying(0.0, count=2), "AD steps_ge=1"), "AD") == [0, 1]


@pytest.mark.parametrize(("activation", "at"), [(nn.Tanh(), 12.0), (nn.Sigmoid(), 20.0)])
def test_a_saturated_activation(activation: nn.Module, at: float, tmp_path: Path) -> None:
    def training(size: float) -> None:
        model = nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 2))
        with torch.no_grad():
            model[0].weight.zero_()
            model[0].bias.fill_(size)
        loop(10, model)

    assert len(run(tmp_path / "a", lambda: training(at)).of("AS")) == 1
    assert run(tmp_path / "b", lambda: training(1.0)).hits == []


# ----------------------------------------------------------------------------------------- by hand


def test_facts_are_asked_for_rarely_later_on() -> None:
    training = TrainingJudge(None, lambda: 0)  # type: ignore[arg-type]
    asked = [step for step in range(200) if training.wants_facts(step)]
    assert asked == [*range(32), 64, 128, 192]
    for step in asked:
        training.observe_facts(step, [ParameterFact("w", True, False, True, True)])
    assert len(training.frozen_in) <= 8

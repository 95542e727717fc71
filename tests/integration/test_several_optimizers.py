"""Several optimizers: a step ends when every live one has stepped."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from test_steps_counted import an_optimizer_around_another
from torch import nn

from opscope.messages import forget_said


def pair() -> tuple[list[nn.Linear], list[torch.optim.Optimizer]]:
    models = [nn.Linear(2, 1), nn.Linear(2, 1)]
    return models, [
        torch.optim.SGD(models[0].parameters(), lr=0.5),
        torch.optim.Adagrad(models[1].parameters(), lr=0.5),
    ]


def losses_per_step(seen) -> list[int]:
    """How many losses each step had that came to its end."""
    return [len(step.losses) for step in seen.steps if step.complete]


def advance(model: nn.Linear, optimizer: torch.optim.Optimizer) -> float:
    """One backward and one update of one model."""
    optimizer.zero_grad()
    loss = model(torch.ones(1, 2)).sum()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_a_step_ends_when_both_have_stepped(record) -> None:
    with record() as seen:
        models, optimizers = pair()
        losses = [
            [advance(*both) for both in zip(models, optimizers, strict=True)] for _ in range(3)
        ]
    ended = [step for step in seen.steps if step.complete]
    assert [[loss.value for loss in step.losses] for step in ended] == losses
    for step in ended:
        scopes = {node.scope for node in step.orders[0] if node.phase == "optimizer"}
        assert scopes == {"Default/optimizer-SGD", "Default/optimizer-Adagrad"}


def test_optimizers_from_before_the_start_are_waited_for_as_well(record) -> None:
    models, optimizers = pair()
    with record() as seen:
        for both in list(zip(models, optimizers, strict=True)) * 3:
            advance(*both)
    assert losses_per_step(seen) == [2, 2, 2]


def test_one_that_steps_more_often_does_not_end_the_step(record) -> None:
    with record() as seen:
        models, optimizers = pair()
        for _ in range(2):
            for _ in range(5):
                advance(models[0], optimizers[0])
            advance(models[1], optimizers[1])
    assert losses_per_step(seen) == [6, 6]


def test_one_that_stays_still_is_dropped_and_said_once(record, capsys) -> None:
    forget_said()
    with record() as seen:
        models, optimizers = pair()
        for _ in range(40):
            advance(models[0], optimizers[0])
    # The 32nd step of the first one gives the second one up; each further one is a step.
    assert losses_per_step(seen) == [32] + [1] * 8
    said = capsys.readouterr().err
    assert said.count("Adagrad has not stepped while SGD made 32 steps") == 1


def test_one_that_comes_back_counts_again(record) -> None:
    with record() as seen:
        models, optimizers = pair()
        for _ in range(33):
            advance(models[0], optimizers[0])
        for _ in range(2):
            advance(models[1], optimizers[1])
            advance(models[0], optimizers[0])
    assert losses_per_step(seen) == [32, 1, 2, 2]


def test_one_that_is_gone_is_not_waited_for(record) -> None:
    with record() as seen:
        models, optimizers = pair()
        advance(models[0], optimizers[0])
        advance(models[1], optimizers[1])
        del optimizers[1]
        gc.collect()
        advance(models[0], optimizers[0])
        advance(models[0], optimizers[0])
    assert losses_per_step(seen) == [2, 1, 1]


class Trainer:
    """Holds the model and the optimizer and is known to the model: a reference cycle."""

    def __init__(self) -> None:
        self.model = nn.Linear(2, 1)
        self.model.trainer = [self]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)

    def fit(self) -> None:
        for _ in range(3):
            advance(self.model, self.optimizer)


@pytest.fixture
def lazy_collector() -> Iterator[None]:
    """Garbage stays, as it may between any two collections."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_one_that_was_garbage_before_the_start_is_not_waited_for(record, lazy_collector) -> None:
    Trainer().fit()
    with record() as seen:
        Trainer().fit()
    assert losses_per_step(seen) == [1, 1, 1]


def test_trainers_one_after_the_other(record, lazy_collector) -> None:
    with record() as seen:
        Trainer().fit()
        Trainer().fit()
    assert losses_per_step(seen) == [1] * 6


def test_values_and_names_of_both(record) -> None:
    with record() as seen:
        models, optimizers = pair()
        before = [model.weight.detach().clone() for model in models]
        for both in zip(models, optimizers, strict=True):
            advance(*both)
    assert torch.equal(seen.gradient("weight"), torch.ones(1, 2))
    assert torch.equal(seen.gradient("Linear.weight"), torch.ones(1, 2))
    update = next(c for c in seen.of_type("add_") if c.node.parameter == "weight")
    assert torch.equal(update.inputs[0], before[0])
    assert torch.equal(update.outputs[0], before[0] - 0.5)
    update = next(c for c in seen.of_type("addcdiv_") if c.node.parameter == "Linear.weight")
    assert torch.equal(update.inputs[0], before[1])
    assert torch.equal(update.outputs[0], models[1].weight)


def test_what_an_optimizer_does_after_another_one_is_its_own(record) -> None:
    with record() as seen:
        steps = an_optimizer_around_another()
    for step in range(steps):
        shrunk = seen.of_type("mul_", step)
        assert {call.node.scope for call in shrunk} == {"Default/optimizer-Sharp"}
        assert {call.node.phase.value for call in shrunk} == {"optimizer"}

"""A gradient scaler: skipped steps end at its update, and losses are unscaled."""

from __future__ import annotations

import torch
from torch import nn

SCALE = 8.0


def train(factors: list[float]) -> tuple[nn.Linear, list[float]]:
    """One step per factor; an infinite factor makes infinite gradients, so it is skipped."""
    torch.manual_seed(1)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=1000)
    losses = []
    for factor in factors:
        optimizer.zero_grad()
        loss = (model(torch.ones(3, 2)) * torch.tensor(factor)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return model, losses


def test_a_skipped_step_ends_at_update(record) -> None:
    factors = [1.0, float("inf"), 2.0, float("inf"), float("inf")]
    plain, losses = train(factors)
    with record() as seen:
        watched, _ = train(factors)
    ended = [step for step in seen.steps if step.complete]
    assert [step.skipped for step in ended] == [False, True, False, True, True]
    assert [step.losses[0].value for step in ended] == losses
    assert torch.equal(plain.weight, watched.weight)


def test_a_skipped_step_updates_nothing(record) -> None:
    with record() as seen:
        train([1.0, float("inf")])
    kept = [node.op_type for node in seen.steps[0].orders[0]]
    skipped = [node.op_type for node in seen.steps[1].orders[0]]
    assert "add_" in kept
    assert "add_" not in skipped
    assert seen.gradient("weight", step=1).isinf().all()


def test_gradients_are_scaled_and_then_unscaled(record) -> None:
    with record() as seen:
        train([1.0])
    assert torch.equal(seen.gradient("weight"), torch.full((1, 2), 3 * SCALE))
    unscale = seen.one("_amp_foreach_non_finite_check_and_unscale_")
    assert torch.equal(unscale.inputs[0], torch.full((1, 2), 3 * SCALE))
    assert torch.equal(unscale.outputs[0], torch.full((1, 2), 3.0))


def test_the_loss_is_the_node_before_scaling(record) -> None:
    with record() as seen:
        _, losses = train([1.0])
    assert [loss.value for loss in seen.steps[0].losses] == losses
    assert seen.steps[0].losses[0].node.op_type == "sum"


def test_a_scaler_that_is_switched_off_leaves_steps_alone(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    with record() as seen:
        for _ in range(3):
            scaler.scale(model(torch.ones(3, 2)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert [step.skipped for step in seen.steps] == [False] * 3


def test_two_optimizers_of_which_one_is_skipped(record) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    with record() as seen:
        models = [nn.Linear(2, 1), nn.Linear(2, 1)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.5) for model in models]
        for _ in range(2):
            for model, optimizer, factor in zip(models, optimizers, (1.0, torch.inf), strict=True):
                optimizer.zero_grad()
                scaler.scale((model(torch.ones(3, 2)) * torch.tensor(factor)).sum()).backward()
                scaler.step(optimizer)
            scaler.update()
    assert [step.step for step in seen.steps] == [0, 1]
    assert [len(step.losses) for step in seen.steps] == [2, 2]
    assert all(step.skipped for step in seen.steps)

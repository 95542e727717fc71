"""Five faults without NaN, written before they were tried, when all others had been mended."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faults.sets.forum_silent import network, points
from faults.sets.table import Faults

STEPS = 120
FAULTS = Faults()
fault = FAULTS.fault


def classify(model: nn.Module) -> Tensor:
    x, y = points()
    return F.cross_entropy(model(x), y)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@fault("OS", "LP", "AD", "GD")
def decay_far_too_strong(fixed: bool) -> None:
    """Somebody took the weight decay for the learning rate: weights shrink to nothing."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=1e-2 if fixed else 30.0)
    for _ in range(STEPS):
        update(optimizer, classify(model))


@fault("NC", "PU", "LP")
def clipped_to_nothing(fixed: bool) -> None:
    """Gradients are clipped to a millionth, as a threshold of another program was."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        classify(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0 if fixed else 1e-6)
        optimizer.step()


@fault("AS", "LP", "GD", "NC")
def sigmoid_for_large_numbers(fixed: bool) -> None:
    """A sigmoid at the end, and targets from 5 on: it is at 1, and stays there."""
    body = network(1)
    model = body if fixed else nn.Sequential(*body, nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), 5e-2)
    for _ in range(STEPS):
        x = points()[0]
        target = 7 + x[:, :1].clamp(-2, 2)
        update(optimizer, F.mse_loss(model(x), target))


@fault("AD", "LP", "PU", "PG", "NC")
def relu_after_the_last_layer(fixed: bool) -> None:
    """Targets below 0, and a relu at the end: it gives 0, and has no slope."""
    body = network(1)
    model = body if fixed else nn.Sequential(*body, nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        x = points()[0]
        target = -3 + 0.5 * x[:, :1]
        update(optimizer, F.mse_loss(model(x), target))


@fault("LD", "LS", "LO", "LP", "OO", "LN")
def rate_that_grows(fixed: bool) -> None:
    """The factor of a decay was meant to be 0.98, and is 1.1."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98 if fixed else 1.1)
    for _ in range(STEPS):
        update(optimizer, classify(model))
        schedule.step()

"""Ten faults without NaN of further kinds, written before any of them was tried."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faults.sets.forum_silent import network, points
from faults.sets.table import Faults

STEPS = 130
FAULTS = Faults()
fault = FAULTS.fault


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def classify(model: nn.Module) -> Tensor:
    x, y = points()
    return F.cross_entropy(model(x), y)


@fault("OS")
def optimizer_made_in_every_step(fixed: bool) -> None:
    """Adam is made anew in every step, and knows nothing of the steps before."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        if not fixed:
            optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        update(optimizer, classify(model))


@fault("PG", "PU")
def one_loss_as_a_number(fixed: bool) -> None:
    """Two heads, and the loss of the second is added as a plain number."""
    body, first, second = nn.Linear(6, 24), nn.Linear(24, 4), nn.Linear(24, 1)
    modules = nn.ModuleList([body, first, second])
    optimizer = torch.optim.Adam(modules.parameters(), 1e-2)
    for _ in range(STEPS):
        x, y = points()
        hidden = body(x).relu()
        other = F.mse_loss(second(hidden), x[:, :1])
        update(optimizer, F.cross_entropy(first(hidden), y) + (other if fixed else other.item()))


@fault("PU", "PG", "LP", "AD")
def share_to_keep_as_share_to_drop(fixed: bool) -> None:
    """What another framework called `keep_prob=1.0` is the share that is dropped here."""
    model = nn.Sequential(
        *(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.0 if fixed else 1.0), nn.Linear(24, 4))
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        update(optimizer, classify(model))


@fault("PU", "NC")
def weights_in_bfloat16(fixed: bool) -> None:
    """Three digits: an update of a small rate is rounded away. The twin keeps float32."""
    kind = torch.float32 if fixed else torch.bfloat16
    model = network().to(kind)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.sign() * parameter.abs().clamp(min=0.25))
    optimizer = torch.optim.Adam(model.parameters(), 9e-4)
    for _ in range(STEPS):
        x, y = points()
        update(optimizer, F.cross_entropy(model(x.to(kind)).float(), y))


@fault("LD", "LS", "LO", "LP", "OO", "LN")
def scaled_and_never_unscaled(fixed: bool) -> None:
    """The loss goes through a GradScaler, the update does not."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for _ in range(STEPS):
        optimizer.zero_grad()
        scaler.scale(classify(model)).backward()
        if fixed:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()


@fault("AD", "GD", "NC", "LP", "PU")
def penalty_that_wins(fixed: bool) -> None:
    """An absolute penalty so strong that weights are driven to nothing."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        sizes = sum(p.abs().sum() for p in model.parameters())
        update(optimizer, classify(model) + (1e-4 if fixed else 1.0) * sizes)


@fault("LA")
def sigmoid_before_cross_entropy(fixed: bool) -> None:
    """Outputs between 0 and 1 as logits: no class can get more than a few parts in ten."""
    body = network()
    model = body if fixed else nn.Sequential(*body, nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        update(optimizer, classify(model))


@fault("LA", "AD")
def relu_before_cross_entropy(fixed: bool) -> None:
    """Logits that cannot be below 0."""
    body = network()
    model = body if fixed else nn.Sequential(*body, nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        update(optimizer, classify(model))


@fault("ED", "TE", "PU")
def running_statistics_that_stand_still(fixed: bool) -> None:
    """`momentum=0` of a batch norm: evaluations use the statistics it began with."""
    model = nn.Sequential(
        nn.Linear(6, 24), nn.BatchNorm1d(24, momentum=0.1 if fixed else 0.0), nn.ReLU()
    )
    model.append(nn.Linear(24, 4))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(STEPS):
        update(optimizer, classify(model))
        if step % 20 == 19:
            model.eval()
            with torch.no_grad():
                classify(model).item()
            model.train()


@fault("GU", "GA", "PG")
def cleared_in_every_micro_batch(fixed: bool) -> None:
    """Gradients of four micro-batches, of which three are cleared before the update."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(4):
            if not fixed:
                optimizer.zero_grad()
            (classify(model) / 4).backward()
        optimizer.step()

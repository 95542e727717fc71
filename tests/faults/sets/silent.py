"""Forty faults of training that make no NaN, after the kinds that the literature collects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faults.sets.table import Faults

STEPS = 40
FAULTS = Faults()
fault = FAULTS.fault
RULE = torch.linspace(-1, 1, 32).view(8, 4).sin()


def points(size: int = 32) -> tuple[Tensor, Tensor]:
    """Points and their classes, which can be learned."""
    x = torch.randn(size, 8)
    return x, (x @ RULE).argmax(1)


def numbers(size: int = 32) -> tuple[Tensor, Tensor]:
    """Points and a number for each, as a column."""
    x = torch.randn(size, 8)
    return x, (x @ RULE[:, :1]).tanh()


def network(outputs: int = 4, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """A small one."""
    return nn.Sequential(nn.Linear(8, 32), act(), nn.Linear(32, 32), act(), nn.Linear(32, outputs))


def fit(
    model: nn.Module,
    loss_of: Callable[[nn.Module], Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = STEPS,
    after: Callable[[int], None] = lambda step: None,
) -> None:
    """The loop everybody writes."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        after(step)


def classify(model: nn.Module) -> Tensor:
    """The usual loss of classes."""
    x, y = points()
    return F.cross_entropy(model(x), y)


def regress(model: nn.Module) -> Tensor:
    """The usual loss of numbers."""
    x, y = numbers()
    return F.mse_loss(model(x), y)


# ------------------------------------------------------------------------- shapes and losses


@fault("LB")
def column_against_row(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = numbers()
        return F.mse_loss(model(x), y if fixed else y.squeeze(1))

    warnings.simplefilter("ignore")
    fit(network(1), loss_of)


@fault("LB")
def column_against_row_by_hand(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = numbers()
        return ((model(x) - (y if fixed else y.squeeze(1))) ** 2).mean()

    fit(network(1), loss_of)


@fault("LB")
def row_against_column_absolute(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = numbers()
        prediction = model(x).squeeze(1)
        return (prediction - (y.squeeze(1) if fixed else y)).abs().mean()

    fit(network(1), loss_of)


@fault("LB")
def smooth_loss_broadcast(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = numbers()
        prediction = model(x) if fixed else model(x).squeeze(1)
        return F.smooth_l1_loss(prediction, y)

    warnings.simplefilter("ignore")
    fit(network(1), loss_of)


@fault("LA")
def softmax_before_cross_entropy(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        scores = model(x)
        return F.cross_entropy(scores if fixed else scores.softmax(1), y)

    fit(network(), loss_of)


@fault("LA")
def softmax_module_before_cross_entropy(fixed: bool) -> None:
    model = network()
    if not fixed:
        model.append(nn.Softmax(dim=1))
    fit(model, classify)


@fault("LA")
def log_softmax_before_cross_entropy(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        scores = model(x).log_softmax(1)
        return F.nll_loss(scores, y) if fixed else F.cross_entropy(scores, y)

    fit(network(), loss_of)


@fault("LA")
def sigmoid_before_logits_loss(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        score, label = model(x), (y > 1).float().unsqueeze(1)
        return F.binary_cross_entropy_with_logits(score if fixed else score.sigmoid(), label)

    fit(network(1), loss_of)


@fault("LA")
def probabilities_into_nll(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        scores = model(x)
        return F.nll_loss(scores.log_softmax(1) if fixed else scores.softmax(1), y)

    fit(network(), loss_of)


@fault("LA")
def logits_into_nll(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        scores = model(x)
        return F.nll_loss(scores.log_softmax(1) if fixed else scores, y)

    fit(network(), loss_of)


@fault("LT")
def binary_labels_of_one_and_two(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        label = (y > 1).float().unsqueeze(1) + (0 if fixed else 1)
        return F.binary_cross_entropy_with_logits(model(x), label)

    fit(network(1), loss_of)


@fault("LT")
def pixels_as_binary_targets(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x = torch.rand(32, 8)
        return F.binary_cross_entropy_with_logits(model(x), x if fixed else x * 255)

    fit(network(8), loss_of)


@fault("LT")
def data_sorted_by_class(fixed: bool) -> None:
    x, y = points(4096)
    order = torch.randperm(len(y)) if fixed else y.argsort(stable=True)
    x, y = x[order], y[order]
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(STEPS):
        part = slice(16 * step, 16 * step + 16)
        optimizer.zero_grad()
        F.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()


@fault("LD")
def loss_with_the_wrong_sign(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = numbers()
        loss = F.mse_loss(model(x), y)
        return loss if fixed else 10 - loss if loss < 0 else -loss + 2 * loss.detach()

    fit(network(1), loss_of)


# ------------------------------------------------------------------------- modes


def with_norm() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))


def with_dropout() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))


def evaluating(model: nn.Module, before: bool, after: bool) -> Callable[[int], None]:
    """Evaluate every ten steps, with `eval` before it and `train` after it."""

    def evaluate(step: int) -> None:
        if step % 10 == 9:
            if before:
                model.eval()
            with torch.no_grad():
                classify(model)
            if after:
                model.train()

    return evaluate


@fault("ED")
def evaluation_trains_batch_norm(fixed: bool) -> None:
    model = with_norm()
    fit(model, classify, after=evaluating(model, fixed, True))


@fault("ED")
def evaluation_with_dropout(fixed: bool) -> None:
    model = with_dropout()
    fit(model, classify, after=evaluating(model, fixed, True))


@fault("TE")
def batch_norm_stays_in_eval_mode(fixed: bool) -> None:
    model = with_norm()
    fit(model, classify, after=evaluating(model, True, fixed))


@fault("TE")
def dropout_stays_in_eval_mode(fixed: bool) -> None:
    model = with_dropout()
    fit(model, classify, after=evaluating(model, True, fixed))


# ------------------------------------------------------------------------- change


@fault("PU", "NC")
def schedule_that_reaches_zero(fixed: bool) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    last = 10 if not fixed else 2 * STEPS
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / last))
    fit(model, classify, optimizer, after=lambda step: schedule.step())


@fault("NC")
def learning_rate_far_too_small(fixed: bool) -> None:
    model = network()
    fit(model, classify, torch.optim.SGD(model.parameters(), 0.1 if fixed else 1e-8), 60)


@fault("NC")
def adam_with_a_tiny_rate(fixed: bool) -> None:
    model = network()
    fit(model, classify, torch.optim.Adam(model.parameters(), 1e-4 if fixed else 1e-11), 60)


@fault("PU", "PO", "PG")
def optimizer_of_a_copy(fixed: bool) -> None:
    import copy

    model = network()
    owned = model if fixed else copy.deepcopy(model)
    optimizer = torch.optim.SGD(owned.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = classify(model)
        loss.backward()
        optimizer.step()


@fault("PU", "PG")
def detached_features(fixed: bool) -> None:
    first, last = nn.Linear(8, 32), nn.Linear(32, 4)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = first, last

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x).relu()
            return self.last(hidden if fixed else hidden.detach())

    fit(Net(), classify)


@fault("PO")
def head_without_optimizer(fixed: bool) -> None:
    model = network()
    owned: Iterable[nn.Parameter] = model.parameters() if fixed else model[:4].parameters()
    optimizer = torch.optim.SGD(owned, 0.1)
    for _ in range(STEPS):
        model.zero_grad()
        classify(model).backward()
        optimizer.step()


@fault("GA")
def gradients_never_cleared(fixed: bool) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(STEPS):
        if fixed:
            optimizer.zero_grad()
        classify(model).backward()
        optimizer.step()


@fault("WE")
def constant_weights(fixed: bool) -> None:
    model = network()
    if not fixed:
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.constant_(layer.weight, 0.1)
    fit(model, classify)


@fault("WE", "PU")
def all_weights_zero(fixed: bool) -> None:
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear) and (not fixed or layer is model[4]):
            nn.init.zeros_(layer.weight)
    fit(model, classify)


@fault("WE")
def convolutions_of_ones(fixed: bool) -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 4),
    )
    if not fixed:
        nn.init.constant_(model[2].weight, 0.05)

    def loss_of(model: nn.Module) -> Tensor:
        x = torch.randn(16, 1, 8, 8)
        return F.cross_entropy(model(x), (x.mean((1, 2, 3)) > 0).long())

    fit(model, loss_of)


# ------------------------------------------------------------------------- depth and saturation


def deep(act: Callable[[], nn.Module], layers: int, width: int = 16) -> nn.Sequential:
    parts: list[nn.Module] = [nn.Linear(8, width), act()]
    for _ in range(layers):
        parts += [nn.Linear(width, width), act()]
    return nn.Sequential(*parts, nn.Linear(width, 4))


@fault("GD")
def deep_sigmoids(fixed: bool) -> None:
    fit(deep(nn.ReLU if fixed else nn.Sigmoid, 12 if not fixed else 4), classify)


@fault("GD")
def small_initialisation_of_a_deep_net(fixed: bool) -> None:
    model = deep(nn.Tanh, 10)
    if not fixed:
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.05)
    fit(model, classify)


@fault("GD", "LI", "LD", "OO")
def large_initialisation_of_a_deep_net(fixed: bool) -> None:
    model = deep(nn.LeakyReLU, 10)
    if not fixed:
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=3.0)
    fit(model, classify, torch.optim.Adam(model.parameters(), 1e-3))


@fault("AD", "PU", "GD")
def dead_relus(fixed: bool) -> None:
    model = network()
    if not fixed:
        nn.init.constant_(model[2].bias, -100.0)
    fit(model, classify)


@fault("AS", "GD", "PU")
def saturated_tanh(fixed: bool) -> None:
    model = network(act=nn.Tanh)
    if not fixed:
        with torch.no_grad():
            model[0].weight.mul_(1e5)
    fit(model, classify)


# ------------------------------------------------------------------------- rates and data


@fault("LD", "LS", "OO", "LO")
def learning_rate_too_large(fixed: bool) -> None:
    model = nn.Linear(8, 1)
    fit(model, regress, torch.optim.SGD(model.parameters(), 0.1 if fixed else 2.0))


@fault("LO", "LD", "LP", "LS")
def learning_rate_beyond_the_edge(fixed: bool) -> None:
    model = network()
    fit(model, classify, torch.optim.SGD(model.parameters(), 0.1 if fixed else 20.0), 120)


@fault("LP", "LO", "LD")
def labels_shuffled_apart_from_inputs(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points(64)
        return F.cross_entropy(model(x), y if fixed else torch.randint(0, 4, y.shape))

    fit(network(), loss_of, steps=120)


@fault("DX")
def pixels_from_0_to_255(fixed: bool) -> None:
    model = network(2)

    def loss_of(model: nn.Module) -> Tensor:
        x = torch.randint(0, 256, (32, 8)).float()
        y = (x.mean(1) > 127.5).long()
        return F.cross_entropy(model((x - 127.5) / 74 if fixed else x), y)

    fit(model, loss_of, torch.optim.SGD(model.parameters(), 0.01))


@fault("DX")
def one_feature_in_thousands(fixed: bool) -> None:
    scale = torch.ones(8)
    scale[3] = 1.0 if fixed else 5000.0
    model = network()

    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        return F.cross_entropy(model(x * scale), y)

    fit(model, loss_of, torch.optim.Adam(model.parameters(), 1e-3))


@fault("DB")
def constant_batches(fixed: bool) -> None:
    def loss_of(model: nn.Module) -> Tensor:
        x, y = points()
        return F.cross_entropy(model(x if fixed else torch.zeros_like(x)), y)

    fit(network(), loss_of)


@fault("DB")
def loader_begun_anew_in_every_step(fixed: bool) -> None:
    x, y = points(128)
    data = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(data, 16)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batches = iter(loader)
    for step in range(STEPS):
        if step % 8 == 0 or not fixed:
            batches = iter(loader)
        inputs, labels = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

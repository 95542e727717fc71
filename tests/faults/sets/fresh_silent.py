"""Twenty-five more faults that make no NaN, written before they were tried, with healthy twins."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faults.sets.table import Faults

STEPS = 60
FAULTS = Faults()
fault = FAULTS.fault


def points(size: int = 32) -> tuple[Tensor, Tensor]:
    """Inputs, and labels that can be learned from them."""
    x = torch.randn(size, 6)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def network(outputs: int = 4, *between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 16), *between, nn.ReLU(), nn.Linear(16, outputs))


def fit(
    model: nn.Module, loss_of: Callable[[int], Tensor], steps: int = STEPS, lr: float = 0.05
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(step).backward()
        optimizer.step()


# --------------------------------------------------------------- gradients that do not get there


@fault("PU", "PG")
def cleared_before_the_step(fixed: bool) -> None:
    """`zero_grad` stands between backward and step."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        x, y = points()
        if fixed:
            optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if not fixed:
            optimizer.zero_grad()
        optimizer.step()


@fault("PU", "PG")
def encoder_without_gradients(fixed: bool) -> None:
    """The encoder runs under `no_grad`, although the optimizer has it; the twin froze it."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = nn.Linear(6, 16), nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                hidden = F.relu(self.encoder(x))
            return self.head(hidden)

    model = Model()
    model.encoder.requires_grad_(not fixed)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(STEPS):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@fault("PU", "PG")
def step_is_forgotten(fixed: bool) -> None:
    """Only the schedule steps."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 200)
    for _ in range(320):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if fixed:
            optimizer.step()
        schedule.step()


@fault("PO", "PU", "PG")
def layers_in_a_plain_list(fixed: bool) -> None:
    """Layers in a list are no parameters of the model."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [nn.Linear(6, 6) for _ in range(2)]
            self.layers = nn.ModuleList(layers) if fixed else layers
            self.head = nn.Linear(6, 4)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return self.head(x)

    model = Model()

    def loss_of(step: int) -> Tensor:
        x, y = points()
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


@fault("PO", "PU", "PG")
def model_made_anew(fixed: bool) -> None:
    """Each epoch makes a new model; the optimizer still has the first one."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        if not fixed:
            model = network()
        for _ in range(25):
            x, y = points()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


@fault("PU", "PG")
def generator_behind_detach(fixed: bool) -> None:
    """The discriminator's `detach` was left in the generator's turn."""
    generator, critic = nn.Linear(4, 6), network(1)
    making = torch.optim.Adam(generator.parameters(), lr=1e-3)
    judging = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for _ in range(STEPS):
        real, fake = torch.randn(16, 6) + 1, generator(torch.randn(16, 4))
        judging.zero_grad()
        (F.softplus(-critic(real)) + F.softplus(critic(fake.detach()))).mean().backward()
        judging.step()
        making.zero_grad()
        F.softplus(-critic(fake if fixed else fake.detach())).mean().backward()
        making.step()


@fault("PU", "PG")
def features_through_numpy(fixed: bool) -> None:
    """A detour through NumPy cuts the graph."""
    body, head = nn.Linear(6, 16), nn.Linear(16, 4)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(STEPS):
        x, y = points()
        hidden = body(x).relu()
        if not fixed:
            hidden = torch.tensor(hidden.detach().numpy() / 2)
        optimizer.zero_grad()
        F.cross_entropy(head(hidden), y).backward()
        optimizer.step()


@fault("PU", "PG")
def rounded_before_the_loss(fixed: bool) -> None:
    """`round` has a slope of 0 everywhere."""
    model = network(1)

    def loss_of(step: int) -> Tensor:
        x, _ = points()
        counted = model(x).squeeze(1)
        return F.mse_loss(counted if fixed else counted.round(), x.sum(1).round())

    fit(model, loss_of)


@fault("PU", "PG")
def group_with_rate_zero(fixed: bool) -> None:
    """A group of parameters got a rate of 0 by mistake."""
    model = network()
    groups = [
        {"params": model[0].parameters(), "lr": 0.05 if fixed else 0.0},
        {"params": model[2].parameters()},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.05)
    for _ in range(STEPS):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@fault("PU", "PG", "NC")
def scaler_that_skips_all(fixed: bool) -> None:
    """A scale so large that every update is skipped; the twin's is found after two."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=2e38 if fixed else 3e38, backoff_factor=0.01 if fixed else 0.999
    )
    for _ in range(STEPS):
        x, y = points()
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x) * 10, y)).backward()
        scaler.step(optimizer)
        scaler.update()


@fault("PU")
def branch_that_stops_learning(fixed: bool) -> None:
    """From step 40 on features are detached; the twin freezes them by the book."""
    body, head = nn.Linear(6, 16), nn.Linear(16, 4)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
    for step in range(120):
        x, y = points()
        hidden = body(x).relu()
        if step == 40 and fixed:
            body.requires_grad_(False)
        if step >= 40 and not fixed:
            hidden = hidden.detach()
        optimizer.zero_grad()
        F.cross_entropy(head(hidden), y).backward()
        optimizer.step()


@fault("NC")
def clipped_before_unscaling(fixed: bool) -> None:
    """Gradients are clipped while they are still scaled: updates are next to nothing."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=1000)
    for _ in range(STEPS):
        x, y = points()
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        if fixed:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


# ----------------------------------------------------------------------- losses that cannot learn


@fault("LA")
def cross_entropy_of_one_class(fixed: bool) -> None:
    """One output, and a cross entropy over it: always 0."""
    model = network(2 if fixed else 1)

    def loss_of(step: int) -> Tensor:
        x, y = points()
        return F.cross_entropy(model(x), y % 2 if fixed else torch.zeros_like(y))

    fit(model, loss_of)


@fault("LA")
def softmax_over_the_batch(fixed: bool) -> None:
    """The softmax is over the samples, not over the classes."""
    model = network()

    def loss_of(step: int) -> Tensor:
        x, y = points()
        return F.nll_loss(F.log_softmax(model(x), dim=1 if fixed else 0), y)

    fit(model, loss_of)


@fault("LA")
def softmax_of_one_unit(fixed: bool) -> None:
    """A softmax over one unit is always 1."""
    model = network(1)

    def loss_of(step: int) -> Tensor:
        x, y = points()
        logits = model(x)
        chance = torch.sigmoid(logits) if fixed else torch.softmax(logits, 1)
        return F.binary_cross_entropy(chance.squeeze(1), (y % 2).float())

    fit(model, loss_of)


@fault("LA")
def divergence_of_probabilities(fixed: bool) -> None:
    """`kl_div` wants logarithms as its input."""
    model = network()

    def loss_of(step: int) -> Tensor:
        x, y = points()
        target = F.one_hot(y, 4) * 0.8 + 0.05
        logits = model(x)
        given = F.log_softmax(logits, 1) if fixed else F.softmax(logits, 1)
        return F.kl_div(given, target, reduction="batchmean")

    fit(model, loss_of)


@fault("LT")
def several_labels_at_once(fixed: bool) -> None:
    """Targets of a cross entropy that are no probabilities: several classes are 1."""
    model = network()

    def loss_of(step: int) -> Tensor:
        x, _ = points()
        target = (x[:, :4] > 0).float()
        if fixed:
            return F.binary_cross_entropy_with_logits(model(x), target)
        return F.cross_entropy(model(x), target)

    fit(model, loss_of)


@fault("LI", "LT", "LP", "LD", "LS", "OO", "DX")
def targets_in_dollars(fixed: bool) -> None:
    """Prices as they are, a hundred thousand and more."""
    model = network(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(120):
        x, _ = points()
        price = 250_000 + 80_000 * x[:, 0]
        if fixed:
            price = (price - 250_000) / 80_000
        optimizer.zero_grad()
        F.mse_loss(model(x).squeeze(1), price).backward()
        optimizer.step()


@fault("OS", "LO", "LD", "LS", "LP", "OO")
def momentum_of_one(fixed: bool) -> None:
    """Momentum that forgets nothing."""
    model = network(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9 if fixed else 1.0)
    for _ in range(150):
        x, _ = points()
        optimizer.zero_grad()
        F.mse_loss(model(x).squeeze(1), x.sum(1)).backward()
        optimizer.step()


# ----------------------------------------------------------------------------------- inputs, modes


@fault("DX", "DB", "PU")
def pixels_divided_as_whole_numbers(fixed: bool) -> None:
    """`//` leaves nothing of the pixels."""
    model = network()

    def loss_of(step: int) -> Tensor:
        pixels = torch.randint(0, 255, (32, 6))
        x = pixels / 255 if fixed else (pixels // 255).float()
        return F.cross_entropy(model(x), (pixels[:, 0] > 127).long())

    fit(model, loss_of)


@fault("DC")
def columns_that_never_vary(fixed: bool) -> None:
    """Half of the features are constants, such as columns that were read wrongly."""
    model = network()

    def loss_of(step: int) -> Tensor:
        x, y = points()
        if not fixed:
            x[:, 3:] = torch.tensor([1.0, -1.0, 3.0])
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


@fault("DF")
def features_of_all_sizes(fixed: bool) -> None:
    """One feature in millionths, one of ordinary size, one in dozens."""
    model = network()

    def loss_of(step: int) -> Tensor:
        x, y = points()
        if not fixed:
            x = x * torch.tensor([1e-6, 1.0, 30.0, 1.0, 1e-5, 1.0])
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


@fault("DB")
def every_word_is_unknown(fixed: bool) -> None:
    """A vocabulary in the wrong case: all tokens are the unknown one. The twin has much padding."""
    words, head = nn.Embedding(50, 16, padding_idx=0), nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*words.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(STEPS):
        tokens = torch.randint(2, 50, (16, 12))
        label = (tokens[:, 0] > 25).long()
        tokens[:, 5:] = 0
        if not fixed:
            tokens = torch.ones_like(tokens)
        optimizer.zero_grad()
        F.cross_entropy(head(words(tokens).mean(1)), label).backward()
        optimizer.step()


@fault("TE")
def eval_mode_from_the_start(fixed: bool) -> None:
    """`eval()` before training, and never `train()`; the twin only freezes its batch norm."""
    model = network(4, nn.BatchNorm1d(16), nn.Dropout(0.2))
    if fixed:
        model[1].eval()
    else:
        model.eval()

    def loss_of(step: int) -> Tensor:
        x, y = points()
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


@fault("NE")
def norm_over_one_feature(fixed: bool) -> None:
    """A layer norm over a single feature is always 0; what comes before it learns nothing."""
    width = 8 if fixed else 1
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width), nn.LayerNorm(width))

    def loss_of(step: int) -> Tensor:
        x, _ = points()
        return F.mse_loss(model(x), x[:, :1].expand(-1, width))

    fit(model, loss_of)

"""Twelve faults without NaN that people ask about in forums, written before they were tried."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from faults.sets.table import Faults

STEPS = 130
FAULTS = Faults()
fault = FAULTS.fault


def fit(model: nn.Module, loss_of: Callable[[], Tensor], lr: float = 1e-2) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


def points(size: int = 32) -> tuple[Tensor, Tensor]:
    """Inputs, and which of the first four of them is the largest."""
    x = torch.randn(size, 6)
    return x, x[:, :4].argmax(1)


def network(outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, outputs))


# ------------------------------------------------------------------------------------------- data


@fault("LT", "LO", "LS")
def files_in_the_order_of_classes(fixed: bool) -> None:
    """Folders are read class by class, and nobody shuffles: each batch has one label."""
    x, y = points(1024)
    order = y.argsort()
    loader = DataLoader(TensorDataset(x[order], y[order]), 16, shuffle=fixed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for inputs, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


@fault("DC", "DB", "DF", "LP")
def pixels_scaled_twice(fixed: bool) -> None:
    """`ToTensor` has divided by 255 already; then they are divided again, and normalised."""
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(STEPS):
        pixels = torch.randint(0, 256, (32, 3, 8, 8)).float()
        bright = torch.rand(32) > 0.5
        pixels[bright, :, :, :4] *= 0.5
        image = pixels / 255 if fixed else pixels / 255 / 255
        optimizer.zero_grad()
        F.cross_entropy(model((image - 0.45) / 0.225), bright.long()).backward()
        optimizer.step()


@fault("LP")
def time_and_batch_by_view(fixed: bool) -> None:
    """`view` instead of `transpose`: the steps of different sequences are mixed."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(4, 24), nn.Linear(24, 3)

        def forward(self, x: Tensor) -> Tensor:
            batch, time, width = x.shape
            steps = x.transpose(0, 1) if fixed else x.view(time, batch, width)
            return self.head(self.rnn(steps)[0][-1])

    model = Model()

    def loss_of() -> Tensor:
        x = torch.randn(32, 7, 4)
        return F.cross_entropy(model(x), x[:, -1, :3].argmax(1))

    fit(model, loss_of)


@fault("LP", "PU", "PG")
def padding_mask_the_wrong_way_round(fixed: bool) -> None:
    """`key_padding_mask` is True where keys are left out; here it is True for the words."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(30, 16, padding_idx=0)
            self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
            self.query, self.head = nn.Parameter(torch.randn(1, 1, 16)), nn.Linear(16, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            word, padding = self.words(tokens), tokens == 0
            query = self.query.expand(len(tokens), -1, -1)
            mixed, _ = self.mix(query, word, word, key_padding_mask=padding if fixed else ~padding)
            return self.head(mixed.squeeze(1))

    model = Model()

    def loss_of() -> Tensor:
        tokens = torch.randint(1, 30, (32, 10))
        label = (tokens[:, :5] > 15).float().mean(1) > 0.5
        tokens[:, 6:] = 0
        return F.cross_entropy(model(tokens), label.long())

    fit(model, loss_of)


# ------------------------------------------------------------------------------------------- loss


@fault("LT")
def smoothed_by_hand(fixed: bool) -> None:
    """Label smoothing that adds 0.1 to every class: targets add up to 1.3."""
    model = network()

    def loss_of() -> Tensor:
        x, y = points()
        target = F.one_hot(y, 4) * 0.9 + (0.1 / 4 if fixed else 0.1)
        return F.cross_entropy(model(x), target)

    fit(model, loss_of)


@fault("LD", "LS", "LO", "OO", "LP")
def sum_at_the_rate_of_a_mean(fixed: bool) -> None:
    """`reduction="sum"` over a batch of 256, with the learning rate of the mean."""
    model = network(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    reduction = "mean" if fixed else "sum"
    for _ in range(STEPS):
        x, _ = points(256)
        optimizer.zero_grad()
        F.mse_loss(model(x).squeeze(1), x.sum(1), reduction=reduction).backward()
        optimizer.step()


@fault("PU", "PG")
def loss_wrapped_anew(fixed: bool) -> None:
    """ "element 0 of tensors does not require grad", so the loss got `requires_grad=True`."""
    model = network()

    def loss_of() -> Tensor:
        x, y = points()
        loss = F.cross_entropy(model(x), y)
        return loss if fixed else torch.tensor(loss.item(), requires_grad=True)

    fit(model, loss_of)


@fault("LA")
def softmax_over_the_heads(fixed: bool) -> None:
    """Attention of [batch, heads, queries, keys], with its softmax along dimension 1."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out, self.head = nn.Linear(8, 48), nn.Linear(16, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            batch, time, _ = x.shape
            q, k, v = self.into(x).view(batch, time, 3, 4, 4).permute(2, 0, 3, 1, 4)
            scores = q @ k.transpose(-2, -1) / 2
            weights = F.softmax(scores, dim=-1 if fixed else 1)
            mixed = (weights @ v).transpose(1, 2).reshape(batch, time, 16)
            return self.head((x + self.out(mixed)).mean(1))

    model = Attention()

    def loss_of() -> Tensor:
        x = torch.randn(16, 6, 8)
        return F.cross_entropy(model(x), x.mean(1)[:, :3].argmax(1))

    fit(model, loss_of)


# ---------------------------------------------------------------------------------------- updates


@fault("GA")
def zero_grad_of_the_other(fixed: bool) -> None:
    """In a GAN the critic's turn clears the generator's gradients."""
    generator, critic = nn.Linear(4, 6), network(1)
    makes = torch.optim.Adam(generator.parameters(), lr=1e-3)
    judges = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for _ in range(STEPS):
        real, fake = torch.randn(16, 6) + 1, generator(torch.randn(16, 4))
        (judges if fixed else makes).zero_grad()
        (F.softplus(-critic(real)) + F.softplus(critic(fake.detach()))).mean().backward()
        judges.step()
        makes.zero_grad()
        F.softplus(-critic(fake)).mean().backward()
        makes.step()


@fault("PU", "NC")
def warm_up_of_whole_numbers(fixed: bool) -> None:
    """A warm-up by `step // warm_up`: the rate is 0 until it ends."""
    model, warm_up = network(), 100
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def factor(step: int) -> float:
        return min(1.0, step / warm_up if fixed else step // warm_up)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for _ in range(90):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()


@fault("PU", "NC", "LP")
def schedule_of_epochs_per_batch(fixed: bool) -> None:
    """A schedule made for epochs is stepped with every batch."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    for step in range(STEPS):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if not fixed or step % 50 == 49:
            schedule.step()


@fault("PG", "PO")
def tied_after_the_optimizer(fixed: bool) -> None:
    """The output layer shares the embedding's weight only after the optimizer was made."""

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.mix = nn.Embedding(20, 16), nn.GRU(16, 16, batch_first=True)
            self.head = nn.Linear(16, 20, bias=False)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.mix(self.words(tokens))[0])

    model = Language()
    with torch.no_grad():
        model.words.weight.mul_(0.1)
    if fixed:
        model.head.weight = model.words.weight
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model.head.weight = model.words.weight
    for _ in range(60):
        first = torch.randint(0, 20, (16, 1))
        tokens = (first + torch.arange(8)) % 20
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

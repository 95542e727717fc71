"""Twenty-five faults that make NaN or Inf, written before they were tried, with healthy twins."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from faults.sets.table import Faults

STEPS, BAD = 6, 3
FAULTS = Faults()
fault = FAULTS.fault


def net(inputs: int = 6, outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def data() -> Iterator[tuple[int, Tensor, Tensor]]:
    for step in range(STEPS):
        yield step, torch.randn(8, 6), torch.randint(0, 4, (8,))


def fit(loss_of: Callable[[nn.Module, Tensor, Tensor, int], Tensor], model: nn.Module) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, x, y in data():
        optimizer.zero_grad()
        loss = loss_of(model, x, y, step)
        loss.backward()
        optimizer.step()


# ------------------------------------------------------------------- sequences, densities, pairs


@fault("sub")
def crf_in_log_space(fixed: bool) -> None:
    """A forward algorithm whose forbidden transitions leave a state without a way in."""
    states = 4
    emit = nn.Linear(6, states)
    forbidden = -1e4 if fixed else -math.inf
    transitions = torch.zeros(states, states)
    transitions[:, 2] = forbidden
    optimizer = torch.optim.SGD(emit.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        scores = emit(torch.randn(5, 6))
        alpha = scores[0]
        for t in range(1, 5):
            paths = alpha[:, None] + transitions
            best = paths.max(0).values
            alpha = scores[t] + best + (paths - best).exp().sum(0).log()  # origin
        loss = alpha.logsumexp(0) - scores.gather(1, torch.zeros(5, 1, dtype=torch.long)).sum()
        loss.backward()
        optimizer.step()


@fault("log")
def mixture_density(fixed: bool) -> None:
    """Far targets have a density of exactly 0 under every component."""
    model = nn.Linear(6, 9)
    optimizer = torch.optim.Adam(model.parameters())
    for step, x, _ in data():
        weight, mean, spread = model(x).chunk(3, dim=1)
        target = torch.full((8, 1), 60.0 if step == BAD else 0.3)
        parts = torch.distributions.Normal(mean, F.softplus(spread) + 0.1)
        if fixed:
            loss = -(F.log_softmax(weight, 1) + parts.log_prob(target)).logsumexp(1).mean()
        else:
            density = (weight.softmax(1) * parts.log_prob(target).exp()).sum(1)
            loss = -density.log().mean()  # origin
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@fault("div")
def contrast_without_positives(fixed: bool) -> None:
    """Supervised contrast: a sample whose class is alone in the batch has no positive."""

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        z = F.normalize(model(x), dim=1)
        labels = torch.arange(8) // 2 if step != BAD else torch.arange(8)
        itself = torch.eye(8, dtype=torch.bool)
        similar = (z @ z.T / 0.1).masked_fill(itself, -1e9)
        positive = ((labels[:, None] == labels) & ~itself).float()
        count = positive.sum(1).clamp(min=1) if fixed else positive.sum(1)
        return -((positive * F.log_softmax(similar, 1)).sum(1) / count).mean()  # origin

    fit(loss_of, net())


@fault("div", "mul")
def margin_loss_with_where(fixed: bool) -> None:
    """Distances by hand: the root at 0 has no slope, and `where` does not save it."""

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        left, right = model(x), model(x if step == BAD else x + 0.1)
        square = (left - right).pow(2).sum(1)
        distance = (square + 1e-12 if fixed else square).sqrt()  # origin
        return torch.where(y == 0, distance, F.relu(1 - distance)).mean()

    fit(loss_of, net())


@fault("logsumexp")
def nothing_to_sum_over(fixed: bool) -> None:
    """A row that has no candidate: the sum over -Inf alone is -Inf."""

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        scores = model(x)
        kept = F.one_hot(y, 4).bool()
        if step == BAD:
            kept[5] = False
        if fixed:
            scores, kept = scores[kept.any(1)], kept[kept.any(1)]
        chosen = torch.logsumexp(scores.masked_fill(~kept, -math.inf), 1)  # origin
        every = torch.logsumexp(scores, 1)
        return (every - chosen).mean()

    fit(loss_of, net())


# ---------------------------------------------------------------------- scripts that look, and go


@fault("std")
def advantage_of_one_step(fixed: bool) -> None:
    """Reinforcement learning; an episode of one step, and a check that raises."""
    policy = net(6, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    for episode in range(STEPS):
        length = 1 if episode == BAD else 5
        chosen = torch.distributions.Categorical(logits=policy(torch.randn(length, 6)))
        action = chosen.sample()
        advantage = torch.randn(length)
        spread = advantage.std(correction=0 if fixed else 1)  # origin
        advantage = (advantage - advantage.mean()) / (spread + 1e-8)
        loss = -(chosen.log_prob(action) * advantage).mean()
        if not math.isfinite(loss.item()):
            raise RuntimeError(f"loss is {loss.item()} in episode {episode}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@fault("div")
def leaves_after_a_print(fixed: bool) -> None:
    """A loss over the tokens that count, of which there is none; printed, then `sys.exit`."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x, y in data():
        counted = torch.zeros(8) if step == BAD else torch.ones(8)
        losses = F.cross_entropy(model(x), y, reduction="none")
        seen = counted.sum()
        loss = (losses * counted).sum() / (seen + 1e-6 if fixed else seen)  # origin
        if torch.isnan(loss):
            print(f"step {step}: loss is {loss}, giving up")
            sys.exit(7)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@fault("log")
def lists_losses_and_raises(fixed: bool) -> None:
    """Survival: the logarithm of a product of probabilities that has run down to 0."""
    model = net(6, 40)
    optimizer = torch.optim.Adam(model.parameters())
    for step, x, _ in data():
        hazard = torch.sigmoid(model(x) + (20.0 if step == BAD else 0.0))
        if fixed:
            alive = torch.log1p(-hazard.clamp(max=1 - 1e-6)).cumsum(1)
        else:
            alive = torch.cumprod(1 - hazard, 1).log()  # origin
        losses = -alive[:, -1]
        if any(math.isinf(each) or math.isnan(each) for each in losses.tolist()):
            raise ValueError("bad losses")
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()


@fault("div")
def torch_itself_raises(fixed: bool) -> None:
    """A feature without spread is standardised; a loss that checks its input raises far later."""
    model = nn.Sequential(net(6, 1), nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x, y in data():
        if step == BAD:
            x[:, 4] = 2.0
        x = (x - x.mean(0)) / (x.std(0) + (1e-6 if fixed else 0.0))  # origin
        loss = F.binary_cross_entropy(model(x).squeeze(1), (y > 1).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Trainer:
    """A trainer as in the libraries: accumulation, a loss over all items, logging."""

    def __init__(self, model: nn.Module, accumulate: int = 2) -> None:
        self.model, self.accumulate = model, accumulate
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def compute_loss(self, inputs: dict[str, Tensor], items: Tensor) -> Tensor:
        logits = self.model(inputs["x"])
        total = F.cross_entropy(logits, inputs["labels"], ignore_index=-100, reduction="sum")
        return total / items  # origin

    def train(self, batches: list[list[dict[str, Tensor]]], at_least: int) -> None:
        for parts in batches:
            items = sum((part["labels"] != -100).sum() for part in parts)
            for part in parts:
                loss = self.compute_loss(part, torch.as_tensor(items).clamp(min=at_least))
                loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


@fault("div", at=Trainer.compute_loss)
def trainer_without_items(fixed: bool) -> None:
    """All labels of a whole accumulation are ignored: 0 / 0."""
    batches = []
    for step in range(STEPS):
        labels = torch.full((4,), -100) if step == BAD else torch.randint(0, 4, (4,))
        batches.append([{"x": torch.randn(4, 6), "labels": labels} for _ in range(2)])
    Trainer(net()).train(batches, at_least=1 if fixed else 0)


# ----------------------------------------------------------------------- updates, states, scales


@fault("mul")
def loss_scaled_by_hand(fixed: bool) -> None:
    """A loss in half precision, scaled as everybody does, is beyond 65504."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _, x, y in data():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scale = 1024.0 if fixed else 65536.0
        scaled = loss.half() * scale  # origin
        scaled.backward()
        for p in model.parameters():
            p.grad /= scale
        optimizer.step()


@fault("add_", "_foreach_add_", "_single_tensor_sgd", "mul", "addcdiv_")
def schedule_that_divides(fixed: bool) -> None:
    """A schedule by the distance to the end of warm-up, which is 0 once."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def factor(step: int) -> float:
        return float(1.0 / torch.tensor(max(BAD - step, 1 if fixed else 0), dtype=torch.float64))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for _, x, y in data():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # origin
        schedule.step()


@fault("pow", "mse_loss", "addmm", "mm", "add", "_foreach_add_", "add_", "mul", "sub")
def decay_that_diverges(fixed: bool) -> None:
    """A weight decay that overshoots: weights change sign and grow with every step."""
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1 if fixed else 1e3)
    for _ in range(30):
        x = torch.randn(8, 6)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()  # origin
        optimizer.step()


@fault("set_")
def optimizer_state_from_a_bad_file(fixed: bool) -> None:
    """Training goes on from a state whose moments hold a NaN."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    F.cross_entropy(model(torch.randn(8, 6)), torch.zeros(8, dtype=torch.long)).backward()
    optimizer.step()
    kept = optimizer.state_dict()
    if not fixed:
        kept["state"][0]["exp_avg"].numpy()[2, 3] = math.nan
    file = io.BytesIO()
    torch.save(kept, file)
    file.seek(0)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(torch.load(file))  # origin
    for _, x, y in data():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@fault("native_batch_norm", "batch_norm", "_native_batch_norm_legit_no_training")
def running_variance_below_zero(fixed: bool) -> None:
    """Fine-tuning with frozen batch norms whose file holds a negative variance."""
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    state = model.state_dict()
    state["1.running_var"] = torch.full((8,), 1.0 if fixed else -1.0)
    model.load_state_dict(state)
    model[1].eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _, x, y in data():
        optimizer.zero_grad()
        logits = model(x)  # origin
        F.cross_entropy(logits, y).backward()
        optimizer.step()


# ------------------------------------------------------------------------- operators less common


@fault("div", "mul")
def length_at_the_origin(fixed: bool) -> None:
    """The slope of hypot at (0, 0)."""
    model = net(6, 2)

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        point = model(x) * (0.0 if step == BAD else 1.0)
        if fixed:
            point = point + 1e-3
        length = torch.hypot(point[:, 0], point[:, 1])  # origin
        return (length - 1).square().mean()

    fit(loss_of, model)


@fault("div")
def filter_of_a_silent_band(fixed: bool) -> None:
    """Complex numbers: a spectrum is divided by one that is 0 in a band."""
    model = net(6, 16)

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        signal = torch.fft.rfft(model(x))
        noise = torch.fft.rfft(torch.randn(8, 16) if step != BAD else torch.ones(8, 16))
        if fixed:
            return (signal * noise.conj() / (noise.abs().square() + 1e-3)).abs().mean()
        return (signal / noise).abs().mean()  # origin

    fit(loss_of, model)


@fault("sqrt")
def count_that_wraps_round(fixed: bool) -> None:
    """Whole numbers of 32 bits: a square wraps round and is negative."""
    model = net()

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        count = torch.full((8,), 50_000 if step == BAD else 40, dtype=torch.int32)
        square = count.double() ** 2 if fixed else count * count
        weight = square.float().sqrt()  # origin
        losses = F.cross_entropy(model(x), y, reduction="none")
        return (losses * weight).sum() / weight.sum()

    fit(loss_of, model)


@fault("div")
def cosine_of_padding(fixed: bool) -> None:
    """The embedding of padding is 0, and a cosine by hand divides by its length."""
    words = nn.Embedding(20, 8, padding_idx=0)
    optimizer = torch.optim.Adam(words.parameters())
    for step in range(STEPS):
        left, right = torch.randint(1, 20, (8,)), torch.randint(1, 20, (8,))
        if step == BAD:
            left[6] = 0
        a, b = words(left), words(right)
        length = a.norm(dim=1) * b.norm(dim=1)
        cosine = (a * b).sum(1) / (length.clamp(min=1e-8) if fixed else length)  # origin
        optimizer.zero_grad()
        (1 - cosine).mean().backward()
        optimizer.step()


class Entmax(torch.autograd.Function):
    """An activation with a root in its forward, and a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, guarded: bool) -> Tensor:
        spread = 1 - x.square().sum(1, keepdim=True)
        root = (spread.clamp(min=0.0) if guarded else spread).sqrt()  # origin
        ctx.save_for_backward(x)
        return x + root

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0] * ctx.saved_tensors[0].abs(), None


@fault("sqrt", at=Entmax.forward)
def function_of_ones_own(fixed: bool) -> None:
    """A root of a negative number inside the forward of a custom function."""
    model = net()

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        hidden = model(x) * (5.0 if step == BAD else 0.1)
        return F.cross_entropy(Entmax.apply(hidden, fixed), y)

    fit(loss_of, model)


@fault("log", "div")
def scale_from_a_relu(fixed: bool) -> None:
    """The deviation of a normal distribution is 0 where a ReLU is."""
    model = net(6, 2)

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        mean, scale = model(x).chunk(2, dim=1)
        scale = F.softplus(scale) + 1e-3 if fixed else F.relu(scale)
        chosen = torch.distributions.Normal(mean, scale, validate_args=False)
        return -chosen.log_prob(x[:, :1]).mean()  # origin

    fit(loss_of, model)


@fault("div", "reciprocal")
def transport_with_small_regularisation(fixed: bool) -> None:
    """Sinkhorn without logarithms: the kernel is 0 throughout a row."""
    model = net()

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        cost = torch.cdist(model(x), torch.randn(8, 4)) + 1.0
        kernel = (-cost / (1.0 if fixed else 1e-3)).exp()
        v = torch.ones(8) / 8
        for _ in range(3):
            u = (1 / 8) / (kernel @ v)  # origin
            v = (1 / 8) / (kernel.T @ u)
        return (u[:, None] * kernel * v * cost).sum()

    fit(loss_of, model)


@fault("digamma", "lgamma")
def evidence_without_prior(fixed: bool) -> None:
    """Evidential learning: digamma of an evidence that is exactly 0."""
    model = net()

    def loss_of(model: nn.Module, x: Tensor, y: Tensor, step: int) -> Tensor:
        evidence = F.relu(model(x)) + (1.0 if fixed else 0.0)
        total = evidence.sum(1, keepdim=True) + 1.0
        return (F.one_hot(y, 4) * (torch.digamma(total) - torch.digamma(evidence))).sum()  # origin

    fit(loss_of, model)


@fault("div")
def gradients_per_sample(fixed: bool) -> None:
    """Functional training: each sample's gradient is divided by its norm, which is 0 for one."""
    model = nn.Linear(6, 1)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss_of(weights: dict[str, Tensor], x: Tensor, counts: Tensor) -> Tensor:
        return functional_call(model, weights, (x[None],)).squeeze().sub(1).square() * counts

    for step in range(STEPS):
        counts = torch.ones(8)
        if step == BAD:
            counts[1] = 0.0
        each = vmap(grad(loss_of), (None, 0, 0))(weights, torch.randn(8, 6), counts)
        norm = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        if fixed:
            norm = norm + 1e-6
        for name, g in each.items():
            unit = g / norm.view(-1, *[1] * (g.dim() - 1))  # origin
            weights[name] = weights[name] - 0.1 * unit.mean(0)
        if not all(bool(w.isfinite().all()) for w in weights.values()):
            raise FloatingPointError("weights are not finite")


@fault("div")
def temperature_of_zero(fixed: bool) -> None:
    """No module at all: tensors, an update by hand, and a temperature that was initialised to 0."""
    w = (torch.randn(6, 4) * 0.1).requires_grad_()
    temperature = torch.full((1,), 1.0 if fixed else 0.0, requires_grad=True)
    for _, x, y in data():
        logits = x @ w / temperature  # origin
        loss = F.cross_entropy(logits, y)
        loss.backward()
        with torch.no_grad():
            for p in (w, temperature):
                p -= 0.01 * p.grad
                p.grad = None

"""Small programs that use torch in the ways people do; each returns the losses of its steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from helpers.models import Squared

STEPS = 4
PROGRAMS: dict[str, Callable[[], list[float]]] = {}


def program(function: Callable[[], list[float]]) -> Callable[[], list[float]]:
    """One of the programs."""
    PROGRAMS[function.__name__] = function
    return function


def seeded() -> None:
    torch.manual_seed(21)


def fit(
    parameters: Any,
    loss_of: Callable[[int], Tensor],
    make: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    **options: Any,
) -> list[float]:
    """Train on `loss_of(step)` and return the losses."""
    optimizer = make(parameters, **{"lr": 0.05, **options})
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@program
def aliases() -> list[float]:
    """In-place writes to views, read again through other names of the same memory."""
    seeded()
    layer = nn.Linear(4, 4)

    def loss_of(step: int) -> Tensor:
        x = layer(torch.ones(3, 4)) * 1.0
        row, column, flat = x[0], x[:, 1], x.view(-1)
        row.mul_(2.0)
        top = flat[:6]
        column.add_(1.0)
        other = x.detach()
        with torch.no_grad():
            other[2].sub_(0.5)
        return (x * row * 1.0).sum() + flat.sin().sum() + top.sum() + column.square().sum()

    return fit(layer.parameters(), loss_of)


@program
def copy_slices() -> list[float]:
    """Autograd's CopySlices, several after another."""
    seeded()
    weight = nn.Parameter(torch.randn(4))

    def loss_of(step: int) -> Tensor:
        out = torch.zeros(3, 4)
        out[0] = weight * 2
        out[1, :2] = weight[:2].exp()
        out[1:].mul_(weight)
        out[2] += out[0]
        out.t()[3].copy_(out[:, 0])
        return out.square().sum()

    return fit([weight], loss_of)


@program
def tied_weights() -> list[float]:
    seeded()
    model = nn.ModuleDict({"embed": nn.Embedding(7, 3), "out": nn.Linear(3, 7, bias=False)})
    model["out"].weight = model["embed"].weight
    tokens = torch.tensor([1, 4, 1, 6])

    def loss_of(step: int) -> Tensor:
        return F.cross_entropy(model["out"](model["embed"](tokens)), tokens)

    return fit(model.parameters(), loss_of, torch.optim.AdamW)


@program
def accumulation() -> list[float]:
    """Several backward passes into the same gradients, and one graph used twice."""
    seeded()
    layer = nn.Linear(3, 2)

    def loss_of(step: int) -> Tensor:
        for number in range(2):
            layer(torch.full((2, 3), float(number))).sum().backward()
        loss = layer(torch.ones(2, 3)).square().sum()
        loss.backward(retain_graph=True)
        return loss

    return fit(layer.parameters(), loss_of)


@program
def double_backward() -> list[float]:
    seeded()
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def loss_of(step: int) -> Tensor:
        x = torch.full((2, 3), 0.5 + step, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.square().sum(), x, create_graph=True)
        return slope.square().sum() + bend.sum() + model(x).mean()

    return fit(model.parameters(), loss_of, torch.optim.Adam)


class Halves(torch.autograd.Function):
    """Two outputs, one without a gradient, and an input that gets none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, mask: Tensor) -> tuple[Tensor, Tensor]:
        ctx.factor = factor
        ctx.save_for_backward(mask)
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        return x * factor * mask, index

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return gradient * ctx.factor * mask, None, None


class Twofold(torch.autograd.Function):
    """Writes to its input and says so."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


@program
def custom_functions() -> list[float]:
    seeded()
    weight = nn.Parameter(torch.randn(5))

    def loss_of(step: int) -> Tensor:
        scaled, index = Halves.apply(Squared.apply(weight), 0.5, torch.tensor([1.0, 1, 0, 1, 1]))
        doubled = Twofold.apply(scaled + 0)
        return doubled.sum() + weight[index]

    return fit([weight], loss_of)


@program
def checkpoints() -> list[float]:
    """Both kinds, with dropout, and one inside another."""
    seeded()
    inner = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Dropout(0.3))
    outer = nn.Linear(4, 4)

    def both(x: Tensor) -> Tensor:
        return outer(checkpoint(inner, x, use_reentrant=False))

    def loss_of(step: int) -> Tensor:
        x = torch.ones(2, 4, requires_grad=True)
        x = checkpoint(inner, x, use_reentrant=True)
        return checkpoint(both, x, use_reentrant=False).square().sum()

    return fit([*inner.parameters(), *outer.parameters()], loss_of)


def _halve_gradient(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(0.5)


@program
def hooks() -> list[float]:
    """On tensors, before and after accumulation, on modules, and on nodes of the graph."""
    seeded()
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    seen: list[float] = []
    model[0].register_forward_pre_hook(lambda module, args: (args[0] * 1.5,))
    model[0].register_forward_hook(lambda module, args, out: out + 0.1)
    model[2].register_full_backward_hook(lambda module, gi, go: (gi[0] * 0.5,))
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    model[2].weight.register_post_accumulate_grad_hook(_halve_gradient)

    def loss_of(step: int) -> Tensor:
        x = torch.ones(2, 3, requires_grad=True)
        x.register_hook(lambda gradient: seen.append(gradient.sum().item()))
        hidden = model(x)
        hidden.retain_grad()
        hidden.grad_fn.register_prehook(lambda gradients: (gradients[0] + 0.01,))
        return hidden.square().sum()

    return fit(model.parameters(), loss_of) + seen


@program
def data_writes() -> list[float]:
    """`.data` between operators, of parameters and of activations."""
    seeded()
    layer = nn.Linear(3, 3)

    def loss_of(step: int) -> Tensor:
        hidden = layer(torch.ones(2, 3))
        before = hidden * 1.0
        hidden.data.mul_(0.5)
        after = hidden * 1.0
        layer.weight.data.clamp_(-0.4, 0.4)
        layer.bias.data = layer.bias.data * 0.9
        again = layer(after)
        return (before + again).sum()

    return fit(layer.parameters(), loss_of)


@program
def evaluation() -> list[float]:
    """Evaluation without gradients between the steps, in modules and out of them."""
    seeded()
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model.train()(torch.randn(4, 3)).square().sum()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            held_out = model.eval()(torch.ones(2, 3))
            losses.append((held_out * 2).sum().item())
        with torch.inference_mode():
            losses.append(model(torch.ones(2, 3)).sum().item())
        if step % 2:
            losses.append(model(torch.ones(1, 3)).sum().item())
        losses.append(loss.item())
    return losses


@program
def sparse_embedding() -> list[float]:
    seeded()
    table = nn.Embedding(6, 3, sparse=True)

    def loss_of(step: int) -> Tensor:
        return table(torch.tensor([1, 3, 1, step])).square().sum()

    return fit(table.parameters(), loss_of)


def _optimizers() -> None:
    kinds: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
        "sgd_single": (torch.optim.SGD, {"foreach": False, "momentum": 0.9}),
        "sgd_foreach": (torch.optim.SGD, {"foreach": True, "momentum": 0.9, "weight_decay": 0.1}),
        "sgd_fused": (torch.optim.SGD, {"fused": True, "momentum": 0.9}),
        "adam_single": (torch.optim.Adam, {"foreach": False, "amsgrad": True}),
        "adam_foreach": (torch.optim.Adam, {"foreach": True}),
        "adam_fused": (torch.optim.Adam, {"fused": True}),
        "adamw_single": (torch.optim.AdamW, {"foreach": False}),
        "adamw_foreach": (torch.optim.AdamW, {"foreach": True, "maximize": True}),
        "adamw_fused": (torch.optim.AdamW, {"fused": True, "amsgrad": True}),
    }

    def make(name: str) -> Callable[[], list[float]]:
        def run() -> list[float]:
            seeded()
            model = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 2))
            kind, options = kinds[name]

            def loss_of(step: int) -> Tensor:
                return model(torch.full((2, 3), 1.0 + step)).square().sum()

            return fit(model.parameters(), loss_of, kind, **options)

        run.__name__ = name
        return run

    for name in kinds:
        program(make(name))


_optimizers()


@program
def lbfgs_closure() -> list[float]:
    seeded()
    weight = nn.Parameter(torch.tensor([2.0, -1.0]))
    optimizer = torch.optim.LBFGS([weight], lr=0.5, max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (weight.square() * torch.tensor([1.0, 3.0])).sum() + weight.sin().sum()
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(STEPS)]


@program
def pieces() -> list[float]:
    """Operators that return lists of views."""
    seeded()
    weight = nn.Parameter(torch.randn(6, 4))

    def loss_of(step: int) -> Tensor:
        first, second, third = weight.split([1, 2, 3])
        left, right = (weight * 1.0).chunk(2, 1)
        rows = weight.unbind(0)
        low, high = torch.tensor_split(weight * 2.0, 2)
        high.mul_(0.5)
        return (
            first.sum() + (second * third[:2]).sum() + (left - right).square().sum()
            + torch.stack(rows[:step + 2]).sum() + (low + high).exp().sum()
        )  # fmt: skip

    return fit([weight], loss_of)


@program
def masks_and_indices() -> list[float]:
    seeded()
    weight = nn.Parameter(torch.randn(4, 4))

    def loss_of(step: int) -> Tensor:
        mask = weight > 0.1 * step
        picked = weight[mask]
        x = weight.masked_fill(mask, 0.0).index_select(0, torch.tensor([0, 2]))
        y = weight.gather(1, torch.tensor([[0], [3], [1], [1]]))
        z = torch.zeros(4, 4).index_put((torch.tensor([0, 1]), torch.tensor([1, 2])), weight[0, :2])
        z = z.index_add(0, torch.tensor([3]), weight[:1]).scatter(1, torch.tensor([[0]]), 2.0)
        a, b = torch.where(mask)
        return (
            picked.sum() + x.square().sum() + y.sum() + z.sum()
            + torch.where(mask, weight, -weight).sum() + weight[a, b].prod()
        )  # fmt: skip

    return fit([weight], loss_of)


@program
def several_outputs() -> list[float]:
    seeded()
    weight = nn.Parameter(torch.randn(4, 4))

    def loss_of(step: int) -> Tensor:
        values, order = weight.sort(-1)
        best, _ = weight.topk(2)
        largest, where = weight.max(0)
        deviation, mean = torch.std_mean(weight, 1)
        _, counts = torch.unique(where, return_counts=True)
        u, s, vh = torch.linalg.svd(weight)
        found = (values * order).sum() + best.sum() + largest.sum() + (deviation * mean).sum()
        return found + counts.sum() + s.sum() + 0 * (u @ vh).sum()

    return fit([weight], loss_of)


@program
def dropout_and_norms() -> list[float]:
    seeded()
    model = nn.Sequential(
        nn.Conv1d(2, 4, 1), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.GroupNorm(2, 4),
        nn.InstanceNorm1d(4, affine=True, track_running_stats=True), nn.Flatten(), nn.LayerNorm(12),
    )  # fmt: skip

    def loss_of(step: int) -> Tensor:
        model.train(step % 2 == 0)
        return model(torch.randn(3, 2, 3)).square().sum() / 100

    return fit(model.parameters(), loss_of)


@program
def recurrent() -> list[float]:
    seeded()
    lstm, gru = nn.LSTM(3, 4, 2, bidirectional=True), nn.GRUCell(8, 3)

    def loss_of(step: int) -> Tensor:
        sequence = torch.randn(3 + step % 2, 2, 3)
        out, (hidden, cell) = lstm(sequence)
        state = gru(out[-1])
        return state.square().sum() + hidden.sum() + cell.mean()

    return fit([*lstm.parameters(), *gru.parameters()], loss_of, torch.optim.RMSprop)


@program
def outputs_that_are_missing() -> list[float]:
    """Backward operators that leave some of their outputs out."""
    seeded()
    conv, norm = nn.Conv2d(1, 2, 2, bias=False), nn.LayerNorm(4, elementwise_affine=False)
    frozen = nn.Linear(4, 4).requires_grad_(False)

    def loss_of(step: int) -> Tensor:
        x = torch.ones(1, 1, 3, 5)
        first = conv(x).flatten(2)[..., :4]
        return frozen(norm(first)).square().sum() + F.nll_loss(
            first[0, :, :2], torch.tensor([0, 1])
        )

    return fit(conv.parameters(), loss_of)


@program
def odd_types() -> list[float]:
    """Complex, bool, integer, empty, 0-dimensional and narrow floats."""
    seeded()
    weight = nn.Parameter(torch.randn(4))
    phase = nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def loss_of(step: int) -> Tensor:
        wave = torch.fft.ifft(torch.fft.fft(weight) * phase).conj()
        turned = torch.view_as_real(wave.resolve_conj()).square().sum()
        negated = wave.imag.neg().sum()
        count = (torch.arange(5, dtype=torch.int32) << 1).to(torch.uint8).sum()
        truth = (weight > 0) ^ torch.tensor([True, False, True, False])
        nothing = torch.cat([weight[:0] * 2, torch.empty(0)]).sum()
        scalar = torch.tensor(2.0) * weight[0] + torch.tensor(3)
        half = weight.half() * 2
        brain = weight.bfloat16().exp()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            small = [weight.to(kind).float() for kind in (torch.float8_e4m3fn, torch.float8_e5m2)]
        large = torch.tensor([2**63 - 1, -(2**63)]) // 2
        return (
            turned + negated + count + truth.sum() + nothing + scalar + half.float().sum()
            + brain.float().sum() + small[0].sum() + small[1].sum() + 0 * large.sum()
        )  # fmt: skip

    return fit([weight, phase], loss_of)


@program
def not_numbers() -> list[float]:
    """NaN and infinities on their way."""
    seeded()
    weight = nn.Parameter(torch.tensor([0.0, 1.0, -1.0, 1e38]))

    def loss_of(step: int) -> Tensor:
        broken = torch.stack([weight.log(), weight * 10, 1 / weight])
        return torch.nan_to_num(broken, 0.0, 1.0, -1.0).sum() * 1e-3 + weight[1]

    return fit([weight], loss_of)


@program
def function_transforms() -> list[float]:
    """torch.func: grad, vmap, jvp and a functional call."""
    seeded()
    layer = nn.Linear(3, 2)

    def energy(x: Tensor) -> Tensor:
        return layer(x).square().sum()

    def loss_of(step: int) -> Tensor:
        batch = torch.full((4, 3), 1.0 + step)
        slopes = torch.func.vmap(torch.func.grad(energy))(batch)
        _, push = torch.func.jvp(torch.sin, (batch,), (torch.ones_like(batch),))
        called = torch.func.functional_call(layer, dict(layer.named_parameters()), (batch,))
        return slopes.sum() + push.sum() + called.mean()

    return fit(layer.parameters(), loss_of)

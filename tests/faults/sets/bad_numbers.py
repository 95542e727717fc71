"""Forty faults that make NaN or Inf, each with a twin that masks, guards, skips or schedules.

A catalogue of eighty short programs: it is long since each fault stands beside its twin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faults.sets.table import Faults

STEPS, BAD = 5, 2
FAULTS = Faults()
fault = FAULTS.fault
INF, NAN = math.inf, math.nan


def batch() -> Tensor:
    return torch.randn(8, 6)


def net(outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, outputs))


def fit(
    loss_of: Callable[[nn.Module, int], Tensor],
    model: nn.Module | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    **options: Any,
) -> None:
    """The loop everybody writes; `loss_of` is told the step."""
    model = model or net()
    making = optimizer(model.parameters(), **({"lr": 0.01} | options))
    for step in range(STEPS):
        making.zero_grad()
        loss_of(model, step).backward()
        making.step()


def zero_in(step: int) -> float:
    """0 in the step that goes wrong, else 1."""
    return float(step != BAD)


# ------------------------------------------------------------------------- divisions and domains


@fault("div")
def weights_that_sum_to_nothing(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        weight = torch.ones(8) * zero_in(step)
        losses = model(batch()).square().mean(1)
        total = weight.sum().clamp_min(1e-6) if fixed else weight.sum()
        return (losses * weight).sum() / total  # origin

    fit(loss_of)


@fault("mean")
def mean_of_no_element(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch())
        chosen = y[torch.zeros(8, dtype=torch.bool)] if step == BAD else y
        if fixed and not chosen.numel():
            return y.sum() * 0
        return chosen.square().mean()  # origin

    fit(loss_of)


@fault("std")
def deviation_of_one_row(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()[: 1 if step == BAD else 8])
        return y.std(0, correction=0 if fixed else 1).add(y.mean()).sum().square()  # origin

    def guarded(model: nn.Module, step: int) -> Tensor:
        y = model(batch()[: 1 if step == BAD else 8])
        return y.var(0, correction=0).add(1e-6).sqrt().sum()

    fit(guarded if fixed else loss_of)


@fault("log")
def logarithm_of_a_count(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        counts = torch.tensor([3.0, 2.0 * zero_in(step), 1.0, 5.0])
        prior = (counts + 1).log() if fixed else counts.log()  # origin
        return (model(batch()) * prior).mean()

    fit(loss_of)


@fault("log")
def entropy_by_hand(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        p = (model(batch()) * (1 if zero_in(step) else 1e4)).softmax(-1)
        if fixed:
            return -torch.special.entr(p.clamp_min(1e-9)).sum(-1).mean()
        return (p * p.log()).sum(-1).mean()  # origin

    fit(loss_of)


@fault("sqrt")
def root_of_a_negative_variance(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch())
        variance = (y * y).mean(0) - y.mean(0).square() - (0.0 if zero_in(step) else 10.0)
        return (variance.clamp_min(1e-8) if fixed else variance).sqrt().sum()  # origin

    fit(loss_of)


@fault("div")
def root_at_zero_in_backward(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()) * zero_in(step)
        distance = (y * y).sum(-1)
        return (distance + 1e-12 if fixed else distance).sqrt().mean()  # origin

    fit(loss_of)


@fault("acos")
def angle_beyond_one(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = F.normalize(model(batch()), dim=-1)
        cosine = (y * y).sum(-1) * (1.0 if zero_in(step) else 1.001) * 0.999
        return (cosine.clamp(-0.999, 0.999) if fixed else cosine * 1.0005).acos().mean()  # origin

    fit(loss_of)


@fault("pow")
def power_of_a_negative_base(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()).sigmoid() - (0.0 if zero_in(step) else 0.9)
        return (y.clamp_min(1e-6) if fixed else y).pow(1.5).mean()  # origin

    fit(loss_of)


@fault("rsqrt")
def norm_without_eps(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()) * zero_in(step)
        scale = (y.square().mean(-1, keepdim=True) + (1e-5 if fixed else 0.0)).rsqrt()  # origin
        return (y * scale).sum().square()

    fit(loss_of)


@fault("atanh")
def atanh_at_its_end(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = (model(batch()) * (1 if zero_in(step) else 1e3)).tanh()
        return (y * (1 - 1e-4) if fixed else y).atanh().mean()  # origin

    fit(loss_of)


@fault("logit")
def logit_of_a_certain_probability(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        p = (model(batch()) * (1 if zero_in(step) else 1e3)).sigmoid()
        return torch.logit(p, eps=1e-6 if fixed else None).mean()  # origin

    fit(loss_of)


# ------------------------------------------------------------------------- overflow


@fault("exp")
def exponential_of_large_scores(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()) * (1 if zero_in(step) else 1e4)
        if fixed:
            y = y - y.amax(-1, keepdim=True)
        e = y.exp()  # origin
        return (e / e.sum(-1, keepdim=True)).square().mean()

    fit(loss_of)


@fault("_to_copy")
def half_of_a_large_number(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()) * (1 if zero_in(step) else 1e6)
        y = y.clamp(-6e4, 6e4) if fixed else y
        return y.half().float().square().mean().log1p()  # origin

    fit(loss_of)


@fault("mul")
def product_that_overflows(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch())
        scale = 1.0 if zero_in(step) or fixed else 1e38
        return (y * scale * 1e3).mean()  # origin

    fit(loss_of)


@fault("cumprod")
def product_of_many(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        gains = model(batch()).sigmoid().repeat(1, 40) * (0.5 if zero_in(step) else 100.0)
        if fixed:
            return gains.log().cumsum(-1).mean()
        return gains.cumprod(-1).mean()  # origin

    fit(loss_of)


@fault("add_", "_foreach_add_")
def update_that_overflows(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        if step == BAD and not fixed:
            optimizer.param_groups[0]["lr"] = 1e38
        optimizer.zero_grad()
        (model(batch()) + 1).square().mean().mul(100).backward()
        optimizer.step()  # origin


@fault("addcdiv_", "_foreach_addcdiv_", "_fused_adam_", "div", "_foreach_div_")
def adam_without_eps(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 0.01, eps=1e-8 if fixed else 0.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(batch())[:, :2].square().mean().backward()
        optimizer.step()  # origin


# ------------------------------------------------------------------------- masks


@fault("_softmax")
def row_that_is_masked_entirely(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
        mask[0] |= step == BAD
        scores = model(batch())[:4]
        lowest = torch.finfo(scores.dtype).min if fixed else -INF
        return scores.masked_fill(mask, lowest).softmax(-1).square().mean()  # origin

    fit(loss_of)


@fault("mul")
def mask_by_multiplication(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch())
        hidden = torch.zeros(8, 4)
        if step == BAD:
            hidden[:, 1] = INF
        keep = (hidden == 0).float()
        if fixed:
            return torch.where(keep > 0, y, torch.zeros_like(y)).mean()
        return ((y + hidden) * keep).mean()  # origin

    fit(loss_of)


@fault("sub")
def difference_of_infinities(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch())
        masked = y.masked_fill(torch.arange(4) > 1, -INF) if step == BAD else y
        top = masked[:, 2:].amax(-1, keepdim=True)
        if fixed:
            top = top.clamp_min(-1.0)
            masked = masked.clamp_min(-1e4)
        return (masked - top).exp().mean()  # origin

    fit(loss_of)


@fault("div", "mul")
def where_guards_only_forward(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch())
        x = y * (y > 0) if step == BAD else y.abs() + 0.1
        safe = torch.where(x > 0, x, torch.ones_like(x)) if fixed else x
        root = safe.sqrt()  # origin
        return torch.where(x > 0, root, torch.zeros_like(root)).mean()

    fit(loss_of)


# ------------------------------------------------------------------------- from outside


@fault("addmm")
def missing_value_in_the_data(fixed: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.nan_to_num() if fixed else x)  # origin

    rows = torch.randn(STEPS, 8, 6)
    rows[BAD, 3, 2] = NAN
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), 1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for (x,) in loader:
        optimizer.zero_grad()
        model(x[0]).square().mean().backward()
        optimizer.step()


@fault("mse_loss", "sub", "smooth_l1_loss")
def infinite_target(fixed: bool) -> None:
    targets = torch.randn(STEPS, 8, 4)
    targets[BAD, 0, 0] = INF
    data = torch.utils.data.TensorDataset(torch.randn(STEPS, 8, 6), targets)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for x, y in torch.utils.data.DataLoader(data, 1):
        if fixed and not y.isfinite().all():
            continue
        optimizer.zero_grad()
        F.mse_loss(model(x[0]), y[0]).backward()  # origin
        optimizer.step()


@fault("t", "addmm")
def checkpoint_with_a_nan(fixed: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)  # origin

    model = Net()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    values = state["layer.weight"].tolist()
    values[1][1] = 0.5 if fixed else NAN
    state["layer.weight"] = torch.tensor(values)
    model.load_state_dict(state)
    fit(lambda model, step: model(batch()).square().mean(), model)


@fault("full")
def buffer_that_turns_infinite(fixed: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 4)
            self.register_buffer("shift", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) + self.shift

    model = Net()

    def loss_of(model: nn.Module, step: int) -> Tensor:
        if step == BAD and not fixed:
            model.shift.data = torch.full((4,), INF)  # origin
        return model(batch()).square().mean()

    fit(loss_of, model)


# ------------------------------------------------------------------------- the script looks itself


class NoticedError(RuntimeError):
    """What a careful script raises."""


@fault("log")
def raises_at_a_bad_loss(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        loss = -(model(batch()).square() * zero_in(step)).log().mean()  # origin
        if not torch.isfinite(loss):
            if fixed:
                continue
            raise NoticedError
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@fault("div")
def breaks_at_a_bad_loss(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        loss = (model(batch()) / zero_in(step)).square().mean()  # origin
        if math.isnan(loss.item()) or loss.item() == INF:
            if fixed:
                continue
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@fault("exp")
def asserts_on_a_bad_norm(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        (model(batch()) * (1 if zero_in(step) else 1e4)).exp().mean().backward()  # origin
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not norm.isfinite():
            if fixed:
                continue
            raise NoticedError
        optimizer.step()


@fault("log")
def one_micro_batch_is_bad(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        for micro in range(3):
            ok = zero_in(step) or micro != 1
            loss = -(model(batch()).square() * float(ok) + 0.0).log().mean()  # origin
            if fixed and not loss.isfinite():
                continue
            loss.backward()
        optimizer.step()


@fault("multinomial", "log", "div")
def sampling_from_bad_probabilities(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        p = model(batch()).exp() * zero_in(step)
        p = p / (p.sum(-1, keepdim=True) + (1e-9 if fixed else 0.0))  # origin
        p = p + 0.1 if fixed else p
        chosen = torch.multinomial(p, 1)
        optimizer.zero_grad()
        p.gather(1, chosen).mean().backward()
        optimizer.step()


# ------------------------------------------------------------------------- losses of libraries


@fault("nll_loss_forward")
def all_labels_ignored(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        labels = torch.full((8,), -100) if step == BAD else torch.randint(0, 4, (8,))
        if fixed and (labels == -100).all():
            continue
        optimizer.zero_grad()
        F.cross_entropy(model(batch()), labels).backward()  # origin
        optimizer.step()


@fault("_ctc_loss")
def ctc_with_targets_too_long(fixed: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        scores = model(torch.randn(5, 2, 6)).log_softmax(-1)
        long = 4 if step == BAD else 1
        targets, lengths = torch.ones(2, 4, dtype=torch.long), torch.tensor([long, 1])
        optimizer.zero_grad()
        times = torch.tensor([5, 5])
        F.ctc_loss(scores, targets, times, lengths, zero_infinity=fixed).backward()  # origin
        optimizer.step()


@fault("log", "kl_div", "xlogy")
def kl_of_a_target_with_zeros(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        q = torch.tensor([0.5, 0.5 - 0.1 * zero_in(step), 0.1 * zero_in(step), 0.0 + 1e-3])
        q = q.clamp_min(1e-9) if fixed else q
        return (q * (q.log() - model(batch()).log_softmax(-1))).sum()  # origin

    fit(loss_of)


@fault("log")
def ratio_of_policies(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        new = (model(batch()) * (1 if zero_in(step) else 1e4)).softmax(-1)[:, 0]
        if fixed:
            return (new.clamp_min(1e-8).log() - math.log(0.25)).exp().mean()
        return (new.log() - math.log(0.25)).square().mean()  # origin

    fit(loss_of)


@fault("linalg_vector_norm", "div", "_linalg_eigh", "mul")
def normalise_by_a_zero_norm(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()) * zero_in(step)
        norm = y.norm(dim=-1, keepdim=True)
        return (y / (norm.clamp_min(1e-8) if fixed else norm)).sum().square()  # origin

    fit(loss_of)


@fault("native_layer_norm", "native_batch_norm", "native_group_norm", "div", "rsqrt", "mul")
def layer_norm_of_equal_numbers(fixed: bool) -> None:
    norm = nn.LayerNorm(4, eps=1e-5 if fixed else 0.0)
    model = nn.Sequential(nn.Linear(6, 4), norm)

    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model[0](batch()) * zero_in(step)
        return model[1](y).sum().square()  # origin

    fit(loss_of, model)


@fault("logsumexp", "exp")
def logsumexp_by_hand(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch()) * (1 if zero_in(step) else 1e4)
        if fixed:
            return y.logsumexp(-1).mean()
        return y.exp().sum(-1).log().mean()  # origin

    fit(loss_of)


@fault("reciprocal", "div")
def inverse_of_a_variance(fixed: bool) -> None:
    def loss_of(model: nn.Module, step: int) -> Tensor:
        y = model(batch())
        variance = y[:, :1].square() * zero_in(step)
        variance = F.softplus(variance) if fixed else variance
        return (y.square() / variance).mean()  # origin

    fit(loss_of)


@fault("pow", "mul", "addmm", "mse_loss", "sub")
def rate_that_diverges(fixed: bool) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01 if fixed else 50.0)
    for _ in range(12):
        optimizer.zero_grad()
        y = model(batch())
        y.pow(2).mean().backward()  # origin
        optimizer.step()

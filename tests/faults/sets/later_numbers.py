"""Ten faults with NaN or Inf of further kinds, written before any of them was tried."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faults.sets.forum_numbers import BAD, data, fit, net
from faults.sets.table import Faults

FAULTS = Faults()
fault = FAULTS.fault


class Carried(nn.Module):
    """A recurrent layer whose state goes on from batch to batch."""

    def __init__(self, bounded: bool) -> None:
        super().__init__()
        self.inner, self.read, self.bounded = nn.Linear(6, 8), nn.Linear(8, 4), bounded
        self.state = torch.full((8,), 0.5)

    def forward(self, x: Tensor) -> Tensor:
        grown = self.state * 1e12  # origin
        state = self.inner(x) + (grown.tanh() if self.bounded else grown)
        self.state = state.detach().mean(0)
        return 3 * self.read(state).tanh()


@fault("mul", at=Carried.forward)
def state_that_is_never_reset(fixed: bool) -> None:
    """A state that is carried over from batch to batch grows until it overflows."""
    model = Carried(fixed)
    fit(model, lambda x, y, step: F.cross_entropy(model(x), y))


@fault("div")
def average_before_its_first_step(fixed: bool) -> None:
    """An average over steps, corrected for its start by 1 - decay ** 0."""
    model = net()
    average = torch.zeros(4)
    count = torch.zeros(())

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        nonlocal average
        out = model(x)
        seen = count + 1 if fixed else count
        centre = average / (1 - 0.9**seen)  # origin
        count.add_(1)
        average = 0.9 * average + 0.1 * out.detach().mean(0)
        return F.cross_entropy(out - centre, y)

    fit(model, loss_of)


@fault("log")
def gumbel_noise_by_hand(fixed: bool) -> None:
    """Noise of -log(-log(u)), where u is exactly 1 once: rounding to half precision does that."""
    model = net()

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        u = torch.rand(8, 4)
        if step == BAD:
            u[2, 1] = 1.0
        if fixed:
            u = u.clamp(1e-6, 1 - 1e-6)
        noise = -(-u.log()).log()  # origin
        return F.cross_entropy(model(x) + noise, y)

    fit(model, loss_of)


@fault("erfinv", "special_erfinv")
def quantiles_of_ranks(fixed: bool) -> None:
    """Features by their ranks, as normal quantiles: the highest rank is at infinity."""
    model = net()

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        ranks = x.argsort(0).argsort(0).float()
        share = (ranks + 0.5) / 8 if fixed else ranks.add(1) / 8
        x = math.sqrt(2) * torch.erfinv(2 * share - 1)  # origin
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


class Placed(nn.Module):
    """Adds a table of positions, made by NumPy."""

    def __init__(self, fixed: bool) -> None:
        super().__init__()
        place = np.arange(6, dtype=np.float32)
        base = np.float32(1e4) if fixed else np.float32(1e30)
        with np.errstate(over="ignore"):
            table = np.sin(place) / base if fixed else place * base * base
        self.register_buffer("table", torch.from_numpy(np.nan_to_num(table, posinf=np.inf)))
        self.body = net()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x + self.table)  # origin


@fault("add", at=Placed.forward)
def table_that_numpy_made(fixed: bool) -> None:
    """A buffer that was computed outside of torch, and overflowed there."""
    model = Placed(fixed)
    fit(model, lambda x, y, step: F.cross_entropy(model(x), y))


@fault("i0", "special_i0")
def concentration_of_directions(fixed: bool) -> None:
    """The logarithm of a Bessel function, of what is large: the function itself overflows."""
    model = net(6, 2)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        angle, raw = model(x).unbind(1)
        sharp = F.softplus(raw + (120.0 if step == BAD else 0.0))
        norm = torch.special.i0e(sharp).log() + sharp
        if not fixed:
            norm = torch.i0(sharp).log()  # origin
        return (norm - sharp * (angle - y).cos()).mean()

    fit(model, loss_of)


@fault("linalg_solve_triangular", "div", "linalg_qr", "mul", "_linalg_solve_ex")
def basis_of_dependent_columns(fixed: bool) -> None:
    """The slope of a QR decomposition where two columns are the same."""
    model = net(6, 4)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        out = model(x)
        if step == BAD:
            out = torch.cat([out[:, :1], torch.zeros(8, 1), out[:, 2:]], 1)
        if fixed:
            out = out + 0.1 * torch.eye(8, 4)
        basis = torch.linalg.qr(out).Q  # origin
        return (basis[:, :2] - 0.1).square().sum()

    fit(model, loss_of)


@fault("div", "div_", "corrcoef", "true_divide")
def correlation_with_a_constant(fixed: bool) -> None:
    """Correlations of outputs, one of which is the same for the whole batch."""
    model = net(6, 4)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        out = model(x)
        if step == BAD:
            out = out * torch.tensor([1.0, 1.0, 0.0, 1.0])
        if fixed:
            out = out + 0.01 * torch.randn(8, 4)
        return torch.corrcoef(out.T).square().mean()  # origin

    fit(model, loss_of)


@fault("nanmean", "div", "mean")
def mean_of_missing_answers(fixed: bool) -> None:
    """Answers that are missing are NaN, and left out; one question has no answer at all."""
    model = net(6, 4)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        answers = torch.randn(8, 4)
        answers[torch.rand(8, 4) < 0.2] = math.nan
        if step == BAD:
            answers[:, 2] = math.nan
        mean = answers.nanmean(0)  # origin
        if fixed:
            mean = mean.nan_to_num(0.0)
        return (model(x).mean(0) - mean).square().mean()

    fit(model, loss_of)


@fault("empty", "new_empty", "empty_like")
def table_that_nobody_filled(fixed: bool) -> None:
    """Memory is taken with `empty`, and one row of it is never written."""
    model = net()
    torch.use_deterministic_algorithms(True)  # makes such memory NaN, for all to see
    try:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _, x, y in data():
            table = torch.zeros(8, 6) if fixed else torch.empty(8, 6)  # origin
            table[:7] = x[:7]
            optimizer.zero_grad()
            F.cross_entropy(model(table), y).backward()
            optimizer.step()
    finally:
        torch.use_deterministic_algorithms(False)

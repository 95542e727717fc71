"""Five faults with NaN or Inf, written before they were tried, when all others had been mended."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from faults.sets.forum_numbers import BAD, fit, net
from faults.sets.table import Faults

FAULTS = Faults()
fault = FAULTS.fault


@fault("log1p")
def returns_below_minus_one(fixed: bool) -> None:
    """Logarithms of returns: one that was lost by more than all of it."""
    model = net()

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        returns = 0.1 * x
        if step == BAD:
            returns[3, 2] = -1.4
        if fixed:
            returns = returns.clamp(min=-0.99)
        return F.cross_entropy(model(returns.log1p()), y)  # origin

    fit(model, loss_of)


@fault("_linalg_slogdet", "linalg_slogdet", "slogdet", "log")
def covariance_of_too_few(fixed: bool) -> None:
    """The determinant of a covariance of two rows of eight is 0."""
    model = net(6, 4)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        out = model(x)
        if step == BAD:
            out = out[:1].expand(8, 4)
        centred = out - out.mean(0)
        spread = centred.T @ centred / 7
        if fixed:
            spread = spread + 1e-3 * torch.eye(4)
        return spread.trace() - torch.linalg.slogdet(spread).logabsdet  # origin

    fit(model, loss_of)


@fault("lgamma", "xlogy", "digamma", "log")
def beta_policy_of_a_relu(fixed: bool) -> None:
    """A Beta distribution needs concentrations above 0, and a relu gives 0."""
    model = net(6, 2)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        out = model(x) - (40.0 if step == BAD else -2.0)
        first, second = (F.softplus(out) + 1e-4 if fixed else F.relu(out)).unbind(1)
        policy = torch.distributions.Beta(first, second, validate_args=False)
        return -policy.log_prob(torch.rand(8).clamp(0.05, 0.95)).clamp(max=50).mean()  # origin

    fit(model, loss_of)


@fault("expm1", "exp")
def inverse_of_softplus(fixed: bool) -> None:
    """log(exp(x) - 1) of 100 overflows, though it is 100."""
    model = net(6, 1)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        wanted = 1.0 + y.float() * (60.0 if step == BAD else 1.0)
        wanted[0] = 100.0 if step == BAD else 1.0
        if fixed:
            return F.smooth_l1_loss(model(x)[:, 0], wanted + (-(-wanted).expm1()).log())
        return F.smooth_l1_loss(model(x)[:, 0], wanted.expm1().log())  # origin

    fit(model, loss_of)


@fault("div", "hypot")
def magnitude_of_silence(fixed: bool) -> None:
    """The slope of a spectrum's magnitude where both its parts are 0."""
    model = net(6, 8)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        out = model(x)
        if step == BAD:
            out = out * (torch.arange(8) != 5)[:, None]
        real, imaginary = out.chunk(2, dim=1)
        if fixed:
            return (real.square() + imaginary.square() + 1e-8).sqrt().sub(1).square().mean()
        return torch.hypot(real, imaginary).sub(1).square().mean()  # origin

    fit(model, loss_of)

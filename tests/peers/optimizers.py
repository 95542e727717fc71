"""Cases of one optimizer of torch's `optim_db`: a few steps with each of its sets of options."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_optimizers import (
    _get_optim_inputs_including_global_cliquey_kwargs as all_options,
)
from torch.testing._internal.common_optimizers import optim_db

from peers.cases import Case, Outcome, as_forward, attempt, copied, seed
from peers.operators import chosen

STEPS = 3


@functools.cache
def by_name() -> dict[str, Any]:
    """The optimizers of the database."""
    return {info.optim_cls.__name__: info for info in optim_db}


def cases(name: str, most: int) -> list[Case]:
    """A few steps with each set of options; those that only CUDA supports raise, which counts."""
    info = by_name()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = [dict(given.kwargs) for given in all_options("cpu", torch.float32, info)]
    for flag in ("foreach", "fused", "differentiable", "capturable"):
        known = flag in inspect.signature(info.optim_cls.__init__).parameters
        if known and not any(given.get(flag) for given in options):
            options.append({flag: True})
    if info.optim_cls is torch.optim.LBFGS:
        options = [{"max_iter": 4, **given} for given in options]
    made = [_case(info, number, given) for number, given in enumerate(options)]
    return chosen(made, most)


def _case(info: Any, number: int, options: dict[str, Any]) -> Case:
    """Train small parameters, and look at them and at the optimizer's state after every step."""

    def prepare() -> list[Tensor]:
        seed()
        parameters = [torch.randn(4, 3), torch.randn(3), torch.randn(2, 3)]
        if info.supports_complex and not info.only_supports_sparse_grads:
            parameters.append(torch.randn(3, dtype=torch.complex64))
        return [parameter.requires_grad_() for parameter in parameters]

    def run(leaves: list[Tensor]) -> Outcome:
        outcome: Outcome = {}
        parameters = leaves
        if options.get("differentiable"):  # then it writes to them with gradients on
            parameters = [leaf.clone() for leaf in leaves]
        if info.optim_cls.__name__ == "Muon":
            parameters = [parameter for parameter in parameters if parameter.dim() == 2]
        made = attempt(
            outcome, "optimizer", lambda: info.optim_cls(parameters, **copied(dict(options)))
        )
        outcome["optimizer"] = str(outcome["optimizer"])
        for step in range(STEPS if made is not None else 0):
            closure = _closure(parameters, made, info.only_supports_sparse_grads)
            if not info.step_requires_closure:
                attempt(outcome, f"loss {step}", closure)
                closure = None
            attempt(outcome, f"step {step}", lambda closure=closure: _step(made, closure))
            outcome[f"parameters {step}"] = _kept(parameters)
            outcome[f"state {step}"] = _kept(made.state_dict()["state"])
        if options.get("differentiable"):
            outcome["through the steps"] = _through(parameters, leaves, outcome)
        return outcome

    return Case(f"options[{number}]", prepare, run, own_steps=True)


def _step(optimizer: Any, closure: Callable[[], Tensor] | None) -> Any:
    return optimizer.step() if closure is None else optimizer.step(closure)


def _closure(parameters: list[Tensor], optimizer: Any, sparse: bool) -> Callable[[], Tensor]:
    """The loss, with gradients where the optimizer looks for them."""

    def loss_of() -> Tensor:
        with torch.enable_grad():
            shapes = (p.abs().pow(3).sum() + p.abs().sin().sum() for p in parameters)
            return sum(shapes, start=torch.zeros(()))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = as_forward(loss_of)
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.to_sparse() if sparse else gradient
        return loss.detach()

    return closure


def _kept(value: Any) -> Any:
    """A tree as it is now."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_kept(item) for item in value)
    if isinstance(value, dict):
        return {key: _kept(item) for key, item in value.items()}
    return value


def _through(parameters: list[Tensor], leaves: list[Tensor], outcome: Outcome) -> Any:
    """The gradients of the last parameters by the first."""
    part: Outcome = {}
    ends = [parameter for parameter in parameters if parameter.requires_grad]
    attempt(
        part,
        "gradients",
        lambda: torch.autograd.grad(
            [end.abs().sum() for end in ends], leaves, allow_unused=True, retain_graph=True
        ),
    )
    return part["gradients"]

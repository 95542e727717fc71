"""Cases of one module of torch's `module_db`: training and evaluation, with all its inputs."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

from peers.cases import (
    Case,
    Outcome,
    attempt,
    copied,
    differentiable_in,
    direction_like,
    leaves_in,
    seed,
)
from peers.operators import chosen

_Made = tuple[Any, Any]


@functools.cache
def by_name() -> dict[str, Any]:
    """The modules of the database."""
    return {info.name: info for info in module_db}


def cases(name: str, most: int) -> list[Case]:
    """Forward and backward of a module with float32, in both modes."""
    info = by_name()[name]
    found = []
    for training in (True, False):
        made = chosen(_inputs(info, training), most)
        found += [_case(info, training, number, given) for number, given in made]
    return found


def _inputs(info: Any, training: bool) -> list[tuple[int, Any]]:
    seed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(
            enumerate(
                info.module_inputs_func(
                    info,
                    device="cpu",
                    dtype=torch.float32,
                    requires_grad=True,
                    training=training,
                )
            )
        )


def _case(info: Any, training: bool, number: int, given: Any) -> Case:
    """Make the module, call it twice, run backward, and look at everything it has."""

    def prepare() -> _Made:
        forward = given.forward_input
        return copied(tuple(forward.args)), copied(dict(forward.kwargs))

    def run(inputs: _Made) -> Outcome:
        outcome: Outcome = {}
        args, kwargs = inputs
        made = given.constructor_input

        def construct() -> torch.nn.Module:
            return info.module_cls(*copied(tuple(made.args)), **copied(dict(made.kwargs)))

        module = attempt(outcome, "module", construct)
        outcome["module"] = str(outcome["module"])
        if module is None:
            return outcome
        module.train(training)
        first = attempt(outcome, "result", lambda: module(*args, **kwargs))
        attempt(outcome, "again", lambda: module(*args, **kwargs))
        outputs = differentiable_in(first)
        if outputs:
            towards = [direction_like(output) for output in outputs]
            attempt(outcome, "backward", lambda: torch.autograd.backward(outputs, towards))
        outcome["gradients"] = [leaf.grad for leaf in leaves_in(inputs)]
        outcome["parameter gradients"] = {n: p.grad for n, p in module.named_parameters()}
        outcome["state"] = dict(module.state_dict())
        return outcome

    name = f"{'train' if training else 'eval'}[{number}]"
    return Case(name, prepare, run, ("result", "again"))

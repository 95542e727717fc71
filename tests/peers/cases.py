"""One case: inputs made anew for every run, and a run that returns all a program can see."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from peers.facts import Raised

SEED = 20
Outcome = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """Something to run plainly and watched."""

    name: str
    """Like `gradients[0]`; unique within its unit."""
    prepare: Callable[[], Any]
    """Makes the inputs of one run; never watched."""
    run: Callable[[Any], Outcome]
    """What is watched; its result is what must not depend on that."""
    rows_of: tuple[str, ...] = ()
    """Parts of the outcome whose tensors must have rows."""
    own_steps: bool = False
    """Whether it has an optimizer, which then says where steps end."""


def seed() -> None:
    """Begin all random numbers anew."""
    random.seed(SEED)
    np.random.seed(SEED)
    torch.default_generator.manual_seed(SEED)  # `torch.manual_seed` looks at the stack for CUDA


class Program(nn.Module):
    """Calls a function as the forward of a module, as a training does."""

    def forward(self, function: Callable[[], Any]) -> Any:
        return function()


_program = Program()


def as_forward(function: Callable[[], Any]) -> Any:
    """Call a function inside of a module."""
    return _program(function)


def attempt(outcome: Outcome, part: str, function: Callable[[], Any]) -> Any:
    """Keep what a function returns, or raises, as a part of the outcome; None if it raised."""
    try:
        outcome[part] = function()
    except Exception as error:  # noqa: BLE001 - to be compared, whatever it is
        outcome[part] = Raised.of(error)
        return None
    return outcome[part]


def copied(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """A tree with all tensors copied: their strides, flags and shared memory stay as they are."""
    memo = {} if memo is None else memo
    if isinstance(value, Tensor):
        if id(value) not in memo:
            plain = value.detach()
            plain = copy.deepcopy(plain) if value.layout is torch.strided else plain.clone()
            memo[id(value)] = plain.requires_grad_(value.requires_grad)
        return memo[id(value)]
    if isinstance(value, (list, tuple)):
        items = [copied(item, memo) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: copied(item, memo) for key, item in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors of a tree, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def leaves_in(value: Any) -> list[Tensor]:
    """The tensors of a tree that gradients are wanted of, each once."""
    found = {id(tensor): tensor for tensor in tensors_in(value) if tensor.requires_grad}
    return [tensor for tensor in found.values() if tensor.is_leaf]


def differentiable_in(value: Any) -> list[Tensor]:
    """The tensors of a result that have gradients."""
    found = {id(tensor): tensor for tensor in tensors_in(value)}
    return [t for t in found.values() if t.requires_grad and t.grad_fn is not None]


def direction_like(tensor: Tensor) -> Tensor:
    """A cotangent or tangent for a tensor: the same numbers whenever it is asked for."""
    generator = torch.Generator().manual_seed(SEED)
    made = torch.randn(tensor.shape, dtype=torch.float64, generator=generator)
    if tensor.dtype.is_complex:
        other = torch.randn(tensor.shape, dtype=torch.float64, generator=generator)
        return torch.complex(made, other).to(tensor.dtype)
    return made.to(tensor.dtype)

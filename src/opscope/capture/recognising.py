"""Recognises the parts of a program: networks, batches, optimizers, the backward of a step."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

compiler, dynamo_compiling = torch.compiler, torch.compiler.is_dynamo_compiling
"""A call is followed where `dynamo_compiling()` and `compiler._is_compiling_flag` are false: that
is what `torch.compiler.is_compiling()` says, which takes two calls more each time."""
_dispatch_mode, _FAKE = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey.FAKE


def has_parameters(module: nn.Module) -> bool:
    """Tell whether a module is a network: losses and transforms have nothing to learn."""
    for part in (module, *module._modules.values()):  # where most networks have some
        if part is None:
            continue
        for parameter in part._parameters.values():
            if parameter is not None:
                return True
    return next(module.parameters(), None) is not None


def ends_in_gradients(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether a call of autograd's engine is the backward of a step, not part of its loss.

    `autograd.grad(create_graph=True)` makes a part of a loss, such as a penalty, or the inner step
    of two; only `torch.func.grad` calls it for good, at its outermost level.
    """
    create_graph = args[2] if len(args) > 2 else False
    return bool(kwargs.get("accumulate_grad")) or not create_graph or levels_of_grad() == 1


def levels_of_grad() -> int:
    """Count the calls of `torch.func.grad` and the like that are under way."""
    stack = torch._C._functorch.get_interpreter_stack() or []
    return sum(level.key() == torch._C._functorch.TransformType.Grad for level in stack)


def fake_mode() -> Any:
    """The mode that makes tensors without memory, if it is on: what runs then is no training."""
    return _dispatch_mode(_FAKE)


def arguments(args: Any, kwargs: dict[str, Any]) -> list[tuple[str, Tensor]]:
    """Tensors among a call's arguments, named by position or key, two levels deep."""
    found: list[tuple[str, Tensor]] = []
    for index, value in enumerate(args):
        _add_tensors(f"input{index}", value, 2, found)
    for key, value in kwargs.items():
        _add_tensors(key, value, 2, found)
    return found


def _add_tensors(name: str, value: Any, depth: int, found: list[tuple[str, Tensor]]) -> None:
    # Not a closure: one that calls itself keeps all it sees until the next garbage collection.
    if isinstance(value, Tensor):
        found.append((name, value))
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            _add_tensors(f"{name}.{key}", item, depth - 1, found)
    elif depth and isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _add_tensors(f"{name}.{index}", item, depth - 1, found)


def find_optimizers(add: Callable[[Any], None]) -> None:
    """Optimizers made before capture started, without those that nobody uses any more."""
    kinds = {Optimizer}
    todo = [Optimizer]
    while todo:
        more = todo.pop().__subclasses__()
        kinds.update(more)
        todo += more
    found = [weakref.ref(candidate) for candidate in gc.get_objects() if type(candidate) in kinds]
    if found:
        gc.collect()
    for reference in found:
        if (optimizer := reference()) is not None:
            add(optimizer)

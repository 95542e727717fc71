"""The settings of torch's optimizers, group by group."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from opscope.capture.parameters import TensorNames
from opscope.events import GroupFact

_SHOWN = 3
GroupSettings = tuple[tuple[str, float], ...]


def group_facts(names: TensorNames, optimizer: Optimizer, alone: bool) -> list[GroupFact]:
    """Return the settings of an optimizer; groups of parameters with the same ones are one.

    Only torch's own classes, and those derived of them, mean by a setting what is known here.
    """
    kind = _class_of_torch(optimizer)
    if kind is None:
        return []
    has_gradients = any(p.grad is not None for g in optimizer.param_groups for p in g["params"])
    fresh = has_gradients and not optimizer.state
    found: dict[GroupSettings, list[Tensor]] = {}
    for group in optimizer.param_groups:
        found.setdefault(tuple(_numbers(group)), []).extend(group["params"])
    return [
        GroupFact(kind, settings, _names_of(names, parameters), len(parameters), alone, fresh)
        for settings, parameters in found.items()
        if parameters
    ]


def _class_of_torch(optimizer: Optimizer) -> str | None:
    classes = (c for c in type(optimizer).__mro__ if c is not Optimizer)
    return next((c.__name__ for c in classes if c.__module__.startswith("torch.optim.")), None)


def _numbers(group: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in sorted(group.items()):
        if name == "params":
            continue
        parts = enumerate(value) if isinstance(value, tuple) else [("", value)]
        for place, part in parts:
            number = _number(part)
            if number is not None:
                yield f"{name}.{place}" if place != "" else name, number


def _number(value: Any) -> float | None:
    """A setting as a number; one that lies on a device is not waited for."""
    if isinstance(value, Tensor):
        value = value.item() if value.device.type == "cpu" and value.numel() == 1 else None
    is_number = isinstance(value, (bool, int, float)) and math.isfinite(value)
    return float(value) if is_number else None


def _names_of(names: TensorNames, parameters: list[Tensor]) -> tuple[str, ...]:
    return tuple(names.parameter(parameter).name for parameter in parameters[:_SHOWN])

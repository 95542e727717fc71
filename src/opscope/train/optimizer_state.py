"""The state of an optimizer as tensors by name and plain JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def pack(optimizer: torch.optim.Optimizer) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors as `{parameter}.{key}`, and all that is no tensor."""
    whole = optimizer.state_dict()
    tensors: dict[str, torch.Tensor] = {}
    plain: dict[str, Any] = {}
    for number, state in whole["state"].items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{number}.{key}"] = value.detach()
            elif _is_plain(value):
                plain.setdefault(str(number), {})[key] = value
    groups = [
        {k: _number(v) for k, v in group.items() if _is_plain(_number(v))}
        for group in whole["param_groups"]
    ]
    return tensors, {"state": plain, "groups": groups}


def unpack(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor], plain: Mapping[str, Any]
) -> None:
    """Give an optimizer the state that `pack` took from one like it."""
    state: dict[int, dict[str, Any]] = {int(n): dict(s) for n, s in plain["state"].items()}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = tensor
    now = optimizer.state_dict()["param_groups"]
    groups = [
        group | {k: _like(group.get(k), v) for k, v in saved.items()}
        for group, saved in zip(now, plain["groups"], strict=True)
    ]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _number(value: Any) -> Any:
    """A learning rate may be a tensor."""
    is_number = isinstance(value, torch.Tensor) and value.numel() == 1
    return value.item() if is_number else value


def _like(now: Any, saved: Any) -> Any:
    """A saved value as the type it has in an optimizer: JSON has no tuples."""
    if isinstance(now, tuple) and isinstance(saved, list):
        return tuple(saved)
    return torch.as_tensor(saved, dtype=now.dtype) if isinstance(now, torch.Tensor) else saved


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)

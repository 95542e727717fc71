"""Checkpoints: the state of a network, and of an optimizer if wanted, in one file without pickle.

The file is of the safetensors format, whatever its name ends with. What is no tensor is JSON in the
notes of that format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from opscope.capture.guards import quiet
from opscope.errors import OpscopeError
from opscope.messages import say_once
from opscope.regular import why
from opscope.safetensors_file import DTYPES, Entry, can_save, read_head, save_tensors
from opscope.train.optimizer_state import pack, unpack

_OPTIMIZER = "optimizer."
_NARROW = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
"""dtypes that NumPy does not have, by their name in the file."""


def save_checkpoint(
    save_obj: Any,
    ckpt_file_name: str | os.PathLike[str],
    append_dict: Mapping[str, Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> str:
    """Write a checkpoint of a network, a dict of tensors or a list of name and data; its path.

    `append_dict` holds numbers, texts and the like to keep beside it. The file appears complete or
    not at all; `.ckpt` is added to a name without it.
    """
    path = Path(_with_suffix(os.fspath(ckpt_file_name)))
    with quiet():  # this is no part of what is trained
        _save(path, save_obj, append_dict, optimizer)
    return str(path)


def _save(
    path: Path,
    save_obj: Any,
    append_dict: Mapping[str, Any] | None,
    optimizer: torch.optim.Optimizer | None,
) -> None:
    tensors = {name: _real(name, value) for name, value in _tensors(save_obj)}
    notes: dict[str, Any] = {"append": dict(append_dict or {})}
    notes["complex"] = [name for name, value in _tensors(save_obj) if value.is_complex()]
    if optimizer is not None:
        state, notes["optimizer"] = pack(optimizer)
        tensors |= {_OPTIMIZER + name: value for name, value in state.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(path, tensors, {"opscope": json.dumps(notes)})


def load_checkpoint(
    ckpt_file_name: str | os.PathLike[str],
    net: nn.Module | None = None,
    strict_load: bool = False,
    filter_prefix: str | Iterable[str] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> dict[str, Any]:
    """Read a checkpoint, into a network and an optimizer if these are given.

    Returns the tensors by name and what was appended. Names that begin with `filter_prefix` are
    left out. Without `strict_load`, names that are missing or too many are only told of.
    """
    tensors, notes = _read(Path(ckpt_file_name))
    prefixes = (filter_prefix,) if isinstance(filter_prefix, str) else tuple(filter_prefix or ())
    own = {
        name: value
        for name, value in tensors.items()
        if not name.startswith((*prefixes, _OPTIMIZER) if "optimizer" in notes else prefixes)
    }
    if net is not None:
        load_param_into_net(net, own, strict_load)
    if optimizer is not None:
        if "optimizer" not in notes:
            raise OpscopeError(f"{ckpt_file_name} holds no state of an optimizer")
        size = len(_OPTIMIZER)
        state = {n[size:]: v for n, v in tensors.items() if n.startswith(_OPTIMIZER)}
        unpack(optimizer, state, notes["optimizer"])
    return own | dict(notes.get("append", {}))


def load_param_into_net(
    net: nn.Module, parameter_dict: Mapping[str, Any], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Set what a network has by name; what the network lacks, and what it did not get."""
    target = unwrapped(net)
    values = {n: v for n, v in parameter_dict.items() if isinstance(v, torch.Tensor)}
    missing, unexpected = target.load_state_dict(values, strict=strict_load)
    for names, what in ((missing, "keeps what it had"), (unexpected, "has no")):
        if names:
            listed = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
            say_once(f"loading a checkpoint: {type(target).__name__} {what}: {listed}")
    return list(missing), list(unexpected)


def unwrapped(network: Any) -> Any:
    """The module itself, of one that torch.compile or DistributedDataParallel has wrapped."""
    while True:
        if hasattr(network, "_orig_mod"):
            network = network._orig_mod
        elif isinstance(network, nn.parallel.DistributedDataParallel | nn.DataParallel):
            network = network.module
        else:
            return network


def _with_suffix(name: str) -> str:
    return name if name.endswith(".ckpt") else f"{name}.ckpt"


def _tensors(save_obj: Any) -> list[tuple[str, Any]]:
    """Gather what there is to save, by name."""
    if isinstance(save_obj, nn.Module):
        items = list(unwrapped(save_obj).state_dict().items())
    elif isinstance(save_obj, Mapping):
        items = list(save_obj.items())
    elif isinstance(save_obj, list | tuple):
        items = [(part["name"], part["data"]) for part in save_obj]
    else:
        kind = type(save_obj).__name__
        raise TypeError(f"save_obj must be a module, a dict or a list of dicts, not {kind}")
    for name, value in items:
        if not isinstance(value, torch.Tensor):
            say_once(f"save_checkpoint: {name} is no tensor and is left out")
    return [(name, value) for name, value in items if isinstance(value, torch.Tensor)]


def _real(name: str, tensor: Any) -> Any:
    plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    if not can_save(plain):
        kind = f"{tensor.dtype} {tensor.layout}".replace("torch.", "")
        raise OpscopeError(f"save_checkpoint: {name} ({kind}) cannot be saved in a checkpoint")
    return plain.detach()


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    try:
        head = read_head(path, follow=True)
        notes = json.loads(head.metadata.get("opscope", "{}"))
    except OSError as error:
        raise OpscopeError(f"{path} cannot be read: {why(error)}") from None
    except ValueError as error:
        raise OpscopeError(f"{path} cannot be read: {error}") from None
    for name, problem in head.damaged.items():
        say_once(f"{path}: {name} {problem}; left out")
    with open(path, "rb") as file:
        tensors = {name: _tensor(file, head.start, entry) for name, entry in head.entries.items()}
    for name in notes.get("complex", ()):
        tensors[name] = torch.view_as_complex(tensors[name])
    return tensors, notes


def _tensor(file: Any, start: int, entry: Entry) -> torch.Tensor:
    dtype = getattr(torch, _NARROW.get(entry.code, DTYPES[entry.code]))
    tensor = torch.empty(entry.shape, dtype=dtype)
    file.seek(start + entry.start)
    if tensor.numel():
        file.readinto(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return tensor

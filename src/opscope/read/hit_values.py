"""The values that were saved with the hits of a run: where the origin's and the parameters' are."""

from __future__ import annotations

import functools
from pathlib import Path

from opscope.errors import OpscopeError
from opscope.events import IO, Node, Outside
from opscope.messages import say_once
from opscope.read.hit_state import SavedTensor, read_safetensors, state_facts, states_in
from opscope.read.value import Value
from opscope.safetensors_file import CODES

_FILES = {"parameter": "parameters", "buffer": "parameters", "batch": "batch"}
_NAMES = {code: name for name, code in CODES.items()}


def hit_steps(rank: Path) -> list[int]:
    """The steps whose state was saved."""
    return [_step(state) for state in states_in(rank)]


def value_at_hit(rank: Path, number: int, node: Node, io: IO, slot: int, step: int) -> Value | None:
    """A value of a step whose state was saved; None if it is not among what was."""
    for state in states_in(rank):
        if _step(state) == step:
            found = _tensor(state, node, io, slot)
            if found is not None:
                dtype = _NAMES.get(found.code, found.code)
                shape = tuple(found.shape)
                return Value(number, step, node, io, slot, 0, dtype, shape, _stored=found.stored)
    return None


def _tensor(state: Path, node: Node, io: IO, slot: int) -> SavedTensor | None:
    if node.name == state_facts(state).get("node"):
        found = _tensors(state / "origin.safetensors").get(f"{io}.{slot}")
        if found is not None:
            return found
    source = node.sources[slot] if io is IO.INPUT and slot < len(node.sources) else None
    if not isinstance(source, Outside) or source.kind not in _FILES:
        return None
    return _tensors(state / f"{_FILES[source.kind]}.safetensors").get(source.name)


def _tensors(path: Path) -> dict[str, SavedTensor]:
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError:
        return {}
    except OpscopeError as error:
        say_once(str(error))
        return {}


@functools.lru_cache(maxsize=16)
def _read(path: Path, changed: int) -> dict[str, SavedTensor]:
    return {tensor.name: tensor for tensor in read_safetensors(path)}


def _step(state: Path) -> int:
    return int(state.name.removeprefix("step_"))

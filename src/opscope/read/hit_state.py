"""The state of training that was saved with a hit, `rank_N/hits/step_S/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.errors import OpscopeError
from opscope.messages import say_once
from opscope.read.measure import measure
from opscope.read.saved_arrays import read_arrays
from opscope.read.stored import Array, Stored, open_array
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_object
from opscope.stats.record import ROW_DTYPE, row_from
from opscope.stats.row import Row

STATE = "state.json"
_STEP = re.compile("step_([0-9]{1,18})")


class SavedTensor(NamedTuple):
    """A tensor in a safetensors file."""

    name: str
    code: str
    """The dtype as safetensors has it."""
    stored: Stored

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.stored.shape

    def array(self) -> Array:
        """Its elements; bfloat16 and float8 as float32."""
        return open_array(self.stored)

    def stats(self) -> Row:
        """Its row."""
        record = np.zeros(1, ROW_DTYPE)
        measure(self.array(), record.ctypes.data)
        return row_from(record[0])


def states_in(rank: Path) -> list[Path]:
    """The states that a rank saved, by step."""
    folder = rank / layout.HIT_STATES
    found = ((_STEP.fullmatch(path.name), path) for path in folder.glob("step_*"))
    states = [(int(m[1]), path) for m, path in found if m and (path / STATE).is_file()]
    return [path for _, path in sorted(states)]


def find_state(rank: Path, text: str) -> Path:
    """The state that `hits` (the first one) or `hits/step_3` means."""
    states = states_in(rank)
    if not states:
        raise OpscopeError(f"{rank} has no saved state: no hit of NaN or Inf, or saving was off")
    name = text.rstrip("/").rpartition("/")[2]
    if text.rstrip("/") == layout.HIT_STATES:
        return states[0]
    for path in states:
        if path.name == name:
            return path
    known = ", ".join(f"{layout.HIT_STATES}/{path.name}" for path in states)
    raise OpscopeError(f"there is no {text}; there are {known}")


def state_facts(state: Path) -> dict[str, Any]:
    """Return what state.json says."""
    facts = read_object(state / STATE) or {}
    if not isinstance(facts.get("left_out", []), list):
        say_once(f'{state / STATE}: "left_out" is no list; left out')
        del facts["left_out"]
    return facts


def tensors_in(state: Path) -> Iterator[tuple[str, SavedTensor]]:
    """The tensors of a state, each with the part it belongs to: origin, batch, parameters …"""
    for path in sorted(state.glob("*.safetensors")):
        try:
            found = read_safetensors(path)
        except OpscopeError as error:
            say_once(str(error))
            continue
        for tensor in found:
            yield path.stem, tensor


def read_safetensors(path: Path) -> list[SavedTensor]:
    """Return what is in a safetensors file; the elements stay where they are until asked for."""
    arrays = read_arrays(path).arrays
    return [SavedTensor(name, code, stored) for name, (code, stored) in arrays.items()]

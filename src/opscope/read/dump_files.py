"""The values in one directory of a dump, `{graph}/{iteration}`, by what their names say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from opscope.dump.layout import MAPPING, NPY, OVERFLOW, PACK, SAMPLES, STATISTIC
from opscope.errors import OpscopeError
from opscope.messages import say_once
from opscope.read.csv_lines import count_in, read_csv
from opscope.read.saved_arrays import read_arrays
from opscope.read.stored import Stored
from opscope.regular import why
from opscope.rundir.jsonlines import parse_object

_TABLES = (STATISTIC, MAPPING, OVERFLOW, SAMPLES)
_PARTS = 10


class ListedValue(NamedTuple):
    """One value: whose it is, as its name says, and where its elements are."""

    op_type: str
    op_name: str
    """The name of the operator or parameter, with `/`, `.` and blanks as `_`."""
    task: int
    io: str
    slot: int
    dtype: str
    stored: Stored


class Listing(NamedTuple):
    """The values of a directory, and the names of files that are nothing we know."""

    values: list[ListedValue]
    strange: list[str]


def list_directory(directory: Path) -> Listing:
    """Everything that is saved in a directory, whichever way."""
    values: list[ListedValue] = []
    strange: list[str] = []
    long_names = _long_names(directory / MAPPING)
    for name, stored in _saved(directory, strange):
        found = _listed(long_names.get(name, name), stored)
        if found is None:
            strange.append(name)
        else:
            values.append(found)
    return Listing(values, strange)


def _saved(directory: Path, strange: list[str]) -> Iterator[tuple[str, Stored]]:
    """The values by the name that each has as a file of its own."""
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except OSError as error:
        say_once(f"{directory} cannot be looked into: {why(error)}; left out")
        return
    for name in names:
        path = f"{directory}/{name}"
        if name.endswith(NPY):
            yield name, Stored(path)
        elif name == PACK:
            yield from _packed(path, strange)
        elif name not in _TABLES and not name.endswith(".json"):
            strange.append(name)


def _packed(path: str, strange: list[str]) -> Iterator[tuple[str, Stored]]:
    """The values of a packed file: safetensors with the same names."""
    try:
        arrays, metadata = read_arrays(path)
        repeats = parse_object(metadata.get("repeats", "{}").encode("utf-8", "replace")) or {}
    except OpscopeError as error:
        say_once(str(error))
        strange.append(path.rpartition("/")[2])
        return
    found = {name: _in_pack(name, stored) for name, (_, stored) in arrays.items()}
    yield from found.items()
    for name, saved in repeats.items():
        if isinstance(saved, str) and saved in found:
            yield name, found[saved]


def _in_pack(name: str, stored: Stored) -> Stored:
    """Complex numbers are pairs of floats, which the name tells."""
    is_complex = name.removesuffix(NPY).rpartition(".")[2].startswith("complex")
    if not is_complex or not stored.dtype.startswith("float") or stored.shape[-1:] != (2,):
        return stored
    dtype = f"complex{2 * int(stored.dtype.removeprefix('float'))}"
    return stored._replace(dtype=dtype, shape=stored.shape[:-1])


def _listed(name: str, stored: Stored) -> ListedValue | None:
    parts = name.split(".")
    if len(parts) != _PARTS:
        return None
    op_type, op_name, task, _, _, io, slot, _, dtype, _ = parts
    call, place = count_in(task, 1 << 32), count_in(slot, 1 << 32)
    if io not in ("input", "output") or call is None or place is None:
        return None
    return ListedValue(op_type, op_name, call, io, place, dtype, stored)


def _long_names(mapping: Path) -> dict[str, str]:
    """By the short name of a file, the one it would have."""
    read = read_csv(mapping)
    return {line[0]: line[1] for line in read.lines if len(line) == 2} if read else {}

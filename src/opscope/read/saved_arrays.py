"""The arrays in a safetensors file, which stay where they are until asked for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from opscope.errors import OpscopeError
from opscope.messages import say_once
from opscope.read.stored import Stored
from opscope.safetensors_file import DTYPES, read_head


class SavedArrays(NamedTuple):
    """Arrays by name, each with the dtype it has in the file, and the file's own notes."""

    arrays: dict[str, tuple[str, Stored]]
    metadata: dict[str, str]


def read_arrays(path: Path | str) -> SavedArrays:
    """Read what is in a file, without damaged arrays; an error says what is wrong with it."""
    try:
        head = read_head(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise OpscopeError(f"{path} cannot be read: {reason}") from None
    for name, reason in head.damaged.items():
        say_once(f"{path} head: {name}: {reason}; left out")
    arrays = {
        name: (code, Stored(str(path), head.start + start, DTYPES[code], shape, code))
        for name, (code, shape, start, _) in head.entries.items()
    }
    return SavedArrays(arrays, head.metadata)

"""Notes on what did no harm in a run: batches that were skipped, values that were masked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.read.checked import SMALL, Fields, checked_lines
from opscope.rundir import layout

_TEXTS = ("kind", "message", "name", "op_type", "phase", "where")


def read_notes(rank: Path) -> list[Mapping[str, Any]]:
    """The notes of a rank, in the order they were made."""
    return list(checked_lines(rank / layout.NOTES, _note))


def _note(line: Fields) -> Mapping[str, Any]:
    for name in _TEXTS:
        line.text(name)
    line.integer("step", -SMALL, SMALL)
    return line.data

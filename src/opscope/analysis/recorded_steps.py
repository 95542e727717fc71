"""The rows of a rank, step after step, whatever the files they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from opscope.events import Node
from opscope.read.run import Rank
from opscope.stats.record import joined

Records = NDArray[np.void]
_HELD_BACK = 2
"""Rows of a device come late: so many steps may go on after a later one has begun."""


def rows_by_step(rank: Rank) -> Iterator[tuple[int, Records, int]]:
    """Yield every step with its rows, and how many parts have been read."""
    held: dict[int, list[Records]] = {}
    for done, part in enumerate(rank.parts_of_stats(), 1):
        known = part[of_known_nodes(part, rank.nodes)]
        for step, rows in _split(known):
            held.setdefault(step, []).append(rows)
        for step in sorted(held)[:-_HELD_BACK]:
            yield step, joined(held.pop(step)), done
    for step in sorted(held):
        yield step, joined(held.pop(step)), rank.part_count


def _split(records: Records) -> Iterator[tuple[int, Records]]:
    steps = records["step"]
    if (steps[1:] < steps[:-1]).any():
        records = records[np.argsort(steps, kind="stable")]
        steps = records["step"]
    starts = np.flatnonzero(np.concatenate(([True], steps[1:] != steps[:-1])) if len(steps) else [])
    for start, end in zip(starts, [*starts[1:], len(records)], strict=False):
        yield int(steps[start]), records[start:end]


def of_known_nodes(records: Records, nodes: Mapping[int, Node]) -> NDArray[np.bool_]:
    """Find rows of nodes that are known; a run being written, or damaged, may have others."""
    limit = max(nodes, default=-1) + 1
    numbers = records["node"]
    if len(nodes) == limit:
        return numbers < limit
    there = np.zeros(limit + 1, bool)
    there[list(nodes)] = True
    known: NDArray[np.bool_] = there[np.minimum(numbers, limit)]
    return known

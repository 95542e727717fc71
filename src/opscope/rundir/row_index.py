"""Finds the rows of a node and of a step in a file of rows.

The index is written whole when a file is closed for good. Numbers are little-endian u32: rows in
the file, rows that are valid, nodes, runs; the nodes in order; where each begins in the
permutation, and its end; the step of each run (i32), where it begins and where it ends; the
permutation of the valid rows by node, side, slot and step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.stats.record import VALID

Records = NDArray[np.void]
RowPlaces = NDArray[np.uint32]

MAGIC = b"opsindx2"
_HEAD = 4
_SLOTS = 1 << 29
"""No operator has so many inputs or outputs."""


class RowIndex(NamedTuple):
    """A run is a stretch of rows of the same step, valid or not."""

    rows: int
    nodes: RowPlaces
    starts: RowPlaces
    """The place in `order` at which each node begins; one more for the end."""
    steps: NDArray[np.int32]
    begins: RowPlaces
    ends: RowPlaces
    order: Callable[[], RowPlaces]
    """The valid rows by node, side, slot and step: most of an index, and not kept in memory."""

    def of_nodes(self, nodes: Iterable[int]) -> RowPlaces:
        """The rows of some nodes, node after node."""
        wanted = np.unique(np.fromiter(nodes, np.int64))
        at = np.searchsorted(self.nodes, wanted)
        here = at < len(self.nodes)
        at, wanted = at[here], wanted[here]
        at = at[self.nodes[at] == wanted]
        if not len(at):
            return np.empty(0, np.uint32)
        order = self.order()
        return np.concatenate([order[self.starts[i] : self.starts[i + 1]] for i in at.tolist()])

    def of_steps(self, steps: Iterable[int]) -> list[tuple[int, int]]:
        """Return where runs of some steps begin and end."""
        chosen = np.flatnonzero(np.isin(self.steps, np.fromiter(steps, np.int64)))
        return [(int(self.begins[i]), int(self.ends[i])) for i in chosen.tolist()]


def build_index(records: Records) -> RowIndex:
    """The index of the records of a file, of which their heads are enough."""
    steps = np.ascontiguousarray(records["step"])
    order = order_of(records)
    nodes = records["node"][order]
    firsts = _firsts(nodes)
    runs = _firsts(steps)
    return RowIndex(
        len(records),
        nodes[firsts],
        np.append(firsts, len(nodes)).astype(np.uint32),
        steps[runs],
        runs.astype(np.uint32),
        np.append(runs[1:], len(steps)).astype(np.uint32)[: len(runs)],
        lambda: order,
    )


def order_of(records: Records) -> RowPlaces:
    """The valid records by node, side, slot and step; those of one step as they were written."""
    valid = np.flatnonzero(records["valid"] == VALID).astype(np.uint32)
    whole = len(valid) == len(records)
    chosen = records if whole else records[valid]
    if len(valid) > 1 and (np.diff(chosen["step"]) < 0).any():
        by_step = np.argsort(chosen["step"], kind="stable")
        valid, chosen, whole = valid[by_step], chosen[by_step], False
    order = _order(place_of(chosen))
    return order.astype(np.uint32) if whole else valid[order]


def _order(places: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The order that sorts places; those that are alike stay as they are.

    Steps are mostly like the one before: then the order of one of them is that of all, which takes
    a hundredth of the time of sorting them, in which training would wait.
    """
    count = len(places)
    again = np.flatnonzero(places[1:] == places[:1])
    period = int(again[0]) + 1 if len(again) else count
    if not count or not np.array_equal(places[period:], places[: count - period]):
        return np.argsort(places, kind="stable")
    first = np.argsort(places[:period], kind="stable")
    in_order = places[first]
    if (in_order[1:] == in_order[:-1]).any():
        return np.argsort(places, kind="stable")
    order = (first[:, None] + np.arange(0, count, period)).ravel()
    return order if not count % period else order[order < count]


def place_of(records: Records) -> NDArray[np.uint64]:
    """Node, side and slot as one number that sorts like them."""
    node = records["node"].astype(np.uint64) << np.uint64(32)
    side = records["io"].astype(np.uint64) << np.uint64(31)
    slot = records["slot"].astype(np.uint64) & np.uint64(_SLOTS - 1)
    place: NDArray[np.uint64] = node | side | slot
    return place


def encode_index(index: RowIndex) -> bytes:
    """The index as the content of its file."""
    order = index.order()
    head = np.array([index.rows, len(order), len(index.nodes), len(index.steps)], "<u4")
    parts = (head, *(np.ascontiguousarray(part) for part in (*index[1:-1], order)))
    return MAGIC + b"".join(part.tobytes() for part in parts)


def decode_index(data: Any, rows: int, again: Callable[[], Any]) -> RowIndex | None:
    """The index in the bytes of a file with so many rows; None if it is another's or damaged.

    What is large of it is looked up in those bytes when it is needed: `again` gives them then.
    """
    if bytes(data[: len(MAGIC)]) != MAGIC or len(data) < len(MAGIC) + 4 * _HEAD:
        return None
    total, valid, nodes, runs = np.frombuffer(data, "<u4", _HEAD, len(MAGIC)).tolist()
    sizes = (nodes, nodes + 1, runs, runs, runs, valid)
    if total != rows or valid > rows or len(data) != len(MAGIC) + 4 * (_HEAD + sum(sizes)):
        return None
    start = len(MAGIC) + 4 * _HEAD
    small = np.frombuffer(data, "<u4", sum(sizes[:-1]), start).copy()
    parts = np.split(small, np.cumsum(sizes[:-2]))
    start += small.nbytes
    order = functools.partial(_numbers_in, again, valid, start)
    own, starts, steps, begins, ends = parts
    index = RowIndex(rows, own, starts, steps.view(np.int32), begins, ends, order)
    return index if _fits(index, valid) else None


def _numbers_in(data: Callable[[], Any], count: int, start: int) -> RowPlaces:
    return np.frombuffer(data(), "<u4", count, start)


def _fits(index: RowIndex, valid: int) -> bool:
    """Tell whether what is small about an index can be true; its permutation is checked in use."""
    starts, begins, ends = index.starts, index.begins, index.ends
    ordered = bool((starts[:-1] <= starts[1:]).all() and (index.nodes[:-1] < index.nodes[1:]).all())
    bounded = int(starts[-1]) == valid and int(starts[0]) == 0
    runs = bool((begins <= ends).all() and (ends <= index.rows).all())
    return ordered and bounded and runs


def _firsts(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each stretch of equal values begins."""
    if not len(values):
        return np.empty(0, np.intp)
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))

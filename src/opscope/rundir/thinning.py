"""Rows of every other step, with the extremes of the steps between them.

Of what is left out, one record per value (node, side, slot) and gap between kept steps says how
many rows there were, in which steps, their least and largest element and how many were NaN or Inf.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.rundir.row_index import place_of
from opscope.stats.record import FLOAT, INT, UINT, VALID, taken

Records = NDArray[np.void]
StepNumbers = NDArray[np.int64]

BETWEEN_BYTES = 64
_FIELDS = {
    "node": ("<u4", 0),
    "slot": ("<u4", 4),
    "io": ("u1", 8),
    "kind": ("u1", 9),
    "first": ("<i4", 12),
    "last": ("<i4", 16),
    "rows": ("<u4", 20),
    "min": ("<f8", 24),
    "max": ("<f8", 32),
    "min_int": ("<i8", 24),
    "max_int": ("<i8", 32),
    "min_uint": ("<u8", 24),
    "max_uint": ("<u8", 32),
    "nan": ("<u8", 40),
    "posinf": ("<u8", 48),
    "neginf": ("<u8", 56),
}
BETWEEN_DTYPE = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [kind for kind, _ in _FIELDS.values()],
        "offsets": [offset for _, offset in _FIELDS.values()],
        "itemsize": BETWEEN_BYTES,
    }
)
_OPAQUE = np.dtype(f"V{BETWEEN_BYTES}")
_SAME = ("node", "slot", "io", "kind", "min_uint", "max_uint", "nan", "posinf", "neginf")
_KIND_SHIFT = 29
"""Above the bits of a slot that are looked at, in the number that says whose a record is."""
_SUMS = ("rows", "nan", "posinf", "neginf")
_ENDS = {FLOAT: ("min", "max"), INT: ("min_int", "max_int"), UINT: ("min_uint", "max_uint")}


class EveryOther:
    """Decides of a sequence of steps, seen a part at a time, which are kept: every other one."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._keeps = False

    def choose(self, steps: StepNumbers) -> StepNumbers:
        """Those of these steps, in order, that are kept; one may be the last of the part before."""
        chosen = []
        for step in steps.tolist():
            if step != self._last:
                self._last, self._keeps = step, not self._keeps
            if self._keeps:
                chosen.append(step)
        return np.array(chosen, np.int64)


class Thinned(NamedTuple):
    """The rows that are kept, and what is known of the others."""

    records: Records
    between: Records


def thin(records: Records, between: Records, kept: StepNumbers) -> Thinned:
    """Leave out all steps but some of those there are, given in order."""
    valid = records["valid"] == VALID
    is_kept = np.isin(records["step"], kept)
    left_out = join_between([between, _as_between(taken(records, valid & ~is_kept))])
    return Thinned(taken(records, valid & is_kept), _merged(left_out, kept))


def steps_in(records: Records) -> StepNumbers:
    """The steps of some rows, in order."""
    steps: StepNumbers = np.unique(records["step"]).astype(np.int64)
    return steps


def join_between(parts: list[Records]) -> Records:
    """All records in one array of the same layout."""
    whole = np.empty(sum(map(len, parts)), BETWEEN_DTYPE)
    if parts:
        np.concatenate([part.view(_OPAQUE) for part in parts], out=whole.view(_OPAQUE))
    return whole


def _as_between(rows: Records) -> Records:
    found = np.zeros(len(rows), BETWEEN_DTYPE)
    for name in _SAME:
        found[name] = rows[name]
    found["first"] = found["last"] = rows["step"]
    found["rows"] = 1
    return found


def _merged(parts: Records, kept: StepNumbers) -> Records:
    """One record for each value, kind of numbers and gap, by node first."""
    if not len(parts):
        return parts
    if (np.diff(parts["first"]) < 0).any():
        parts = taken(parts, np.argsort(parts["first"], kind="stable"))
    place = place_of(parts) | parts["kind"].astype(np.uint64) << np.uint64(_KIND_SHIFT)
    order = np.argsort(place, kind="stable")
    place, parts = place[order], taken(parts, order)
    gap = np.searchsorted(kept, parts["first"], "right")
    firsts = np.concatenate(
        ([0], np.flatnonzero((place[1:] != place[:-1]) | (gap[1:] != gap[:-1])) + 1)
    )
    merged = taken(parts, firsts)
    merged["last"] = np.maximum.reduceat(parts["last"], firsts)
    for name in _SUMS:
        merged[name] = np.add.reduceat(parts[name], firsts)
    for kind, (low, high) in _ENDS.items():
        _put_ends(merged, parts, firsts, kind, low, high)
    return merged


def _put_ends(
    merged: Records, parts: Records, firsts: NDArray[Any], kind: int, low: str, high: str
) -> None:
    """Least and largest of the groups with numbers of one kind; NaN stands for none."""
    of_kind = merged["kind"] == kind
    if not of_kind.any():
        return
    least: Any = np.fmin if kind == FLOAT else np.minimum
    most: Any = np.fmax if kind == FLOAT else np.maximum
    lows, highs = least.reduceat(parts[low], firsts), most.reduceat(parts[high], firsts)
    if of_kind.all():
        merged[low], merged[high] = lows, highs
        return
    merged[low][of_kind], merged[high][of_kind] = lows[of_kind], highs[of_kind]

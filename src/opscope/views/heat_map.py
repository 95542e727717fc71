"""One number per scope and step: where something began, and where it spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError
from opscope.read.row_store import Records
from opscope.read.scope_tree import ScopeTree, ends
from opscope.stats.record import OUTPUT, bad_among, taken
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.drawing_answers import HeatMap

Floats = NDArray[np.float64]
ScopeColumn = tuple[Floats, NDArray[np.int64]]
"""The number of every scope in one step, NaN where there is none; and its bad values."""


def magnitudes(rows: Records) -> Floats:
    """The largest |x| of each row, without NaN."""
    low, high = ends(rows, np.arange(len(rows)))
    largest: Floats = np.fmax(np.abs(low), np.abs(high))
    return largest


def _finite(rows: Records) -> Floats:
    bad = rows["nan"] + rows["posinf"] + rows["neginf"]
    finite: Floats = (rows["count"] - bad).astype(np.float64)
    return finite


_LARGEST: dict[str, Callable[[Records], Floats]] = {"max": magnitudes}
_SUMS: dict[str, tuple[Callable[[Records], Floats], Callable[[Records], Floats] | None]] = {
    "mean_abs": (lambda rows: np.nan_to_num(rows["mean_abs"]) * _finite(rows), _finite),
    "l2": (lambda rows: np.nan_to_num(rows["l2"]) ** 2, None),
    "zero_share": (lambda rows: rows["zero"].astype(np.float64), lambda r: r["count"] * 1.0),
    "nan": (lambda rows: rows["nan"].astype(np.float64), None),
    "inf": (lambda rows: (rows["posinf"] + rows["neginf"]).astype(np.float64), None),
}
STATS = (*_LARGEST, *_SUMS)
"""max: the largest |x|; mean_abs and zero_share over all elements; l2 of all; counts."""


def heat_map(
    view: RankView,
    stat: str = "max",
    *,
    scope: str = "",
    depth: int = 3,
    first: int | None = None,
    last: int | None = None,
    columns: int = 120,
) -> HeatMap:
    """Scopes in the order of execution, down to a depth below one, over steps."""
    if stat not in STATS:
        raise OpscopeError(f'"{stat}" is no statistic of the map; there are {", ".join(STATS)}')
    tree = view.scopes
    scopes = _chosen_scopes(view, scope, depth)
    steps = chosen_steps(view, first, last, columns)
    found = [_column_of(view, tree, step, stat) for step in steps]
    base = tree.depths[scopes[0]] if scopes else 0
    return {
        "stat": stat,
        "scopes": [tree.names[number] for number in scopes],
        "depths": [int(tree.depths[number] - base) for number in scopes],
        "steps": steps,
        "values": [[_cell(column[0][number]) for column in found] for number in scopes],
        "bad": [[int(column[1][number] > 0) for column in found] for number in scopes],
    }


def _column_of(view: RankView, tree: ScopeTree, step: int, stat: str) -> ScopeColumn:
    """One column; those of steps that are over stay, as a run that goes on is asked often."""
    if step == view.recorded_steps[-1]:
        return view.once(f"last column, {stat}", lambda: _column(tree, view.rows(step), stat))
    key = ("heat", stat, step, len(tree.names))
    return view.lasting(key, lambda: _column(tree, view.rows(step), stat))


def _cell(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _chosen_scopes(view: RankView, scope: str, depth: int) -> list[int]:
    """Scopes below one, each before those in it, otherwise in the order of their first node."""
    tree, here = view.scopes, view.scope_number(scope)
    if here is None:
        raise OpscopeError(f"there is no scope {scope}")
    first = view.once("first nodes", lambda: _first_nodes(tree))
    found: list[int] = []

    def add(number: int, left: int) -> None:
        if number:
            found.append(number)
        if left > 0:
            for child in sorted(tree.children(number), key=lambda child: first[child]):
                add(child, left - 1)

    add(here, depth)
    return found


def _first_nodes(tree: ScopeTree) -> NDArray[np.int64]:
    """The lowest id of a node in each scope, or in those in it."""
    first = np.full(len(tree.names), np.iinfo(np.int64).max)
    known = np.flatnonzero(tree.of_node >= 0)
    np.minimum.at(first, tree.of_node[known], known)
    for number in range(len(tree.names) - 1, 0, -1):
        parent = tree.parents[number]
        first[parent] = min(first[parent], first[number])
    return first


def chosen_steps(view: RankView, first: int | None, last: int | None, columns: int) -> list[int]:
    """Recorded steps, evenly chosen, and among them always those with hits."""
    steps = [
        step
        for step in view.recorded_steps
        if (first is None or step >= first) and (last is None or step <= last)
    ]
    if len(steps) <= columns:
        return steps
    places = np.linspace(0, len(steps) - 1, max(2, columns)).round().astype(int)
    with_hits = {int(hit.get("step", -1)) for hit in view.hits} & set(steps)
    return sorted({steps[place] for place in places} | set(sorted(with_hits)[: columns // 2]))


def _column(tree: ScopeTree, rows: Records, stat: str) -> ScopeColumn:
    size = len(tree.names)
    rows = taken(rows, (rows["io"] == OUTPUT) & (rows["node"] < len(tree.of_node)))
    scope = tree.of_node[rows["node"]]
    rows, scope = taken(rows, scope >= 0), scope[scope >= 0]
    bad = np.bincount(scope, bad_among(rows), size)
    present = np.bincount(scope, minlength=size).astype(np.float64)
    if stat in _LARGEST:
        values = np.full(size, np.nan)
        np.fmax.at(values, scope, _LARGEST[stat](rows))
        tree.pass_up((np.fmax, values), (np.add, bad))
        return values, bad.astype(np.int64)
    part, whole = _SUMS[stat]
    sums = np.bincount(scope, part(rows), size)
    counts = present if whole is None else np.bincount(scope, whole(rows), size)
    tree.pass_up((np.add, sums), (np.add, bad), (np.add, counts))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(counts > 0, sums if whole is None else sums / counts, np.nan)
    return np.sqrt(values) if stat == "l2" else values, bad.astype(np.int64)

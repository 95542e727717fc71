"""The values that the lines of a file computed over the steps: a sketch beside each of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opscope.read.row_store import Records
from opscope.stats.record import OUTPUT, bad_among, taken
from opscope.views.heat_map import chosen_steps, magnitudes
from opscope.views.rank_view import RankView
from opscope.views.source_view import nodes_by_line

if TYPE_CHECKING:
    from opscope.views.source_answers import LineTrends

LinePlaces = NDArray[np.int64]
LineColumn = tuple[NDArray[np.float64], NDArray[np.int64]]
"""The largest |x| of every line in one step, NaN where there is none; and its bad values."""


def line_trends(
    view: RankView, file: str, columns: int = 24, last: int | None = None
) -> LineTrends:
    """Of each line of a file the largest |x| of its outputs, over evenly chosen steps."""
    lines, place_of_node = _places(view, file)
    steps = chosen_steps(view, None, last, columns) if lines else []
    found = [_column_of(view, file, step, len(lines), place_of_node) for step in steps]
    return {
        "file": file,
        "steps": steps,
        "lines": lines,
        "values": [[_cell(values[place]) for values, _ in found] for place in range(len(lines))],
        "bad": [[int(bad[place] > 0) for _, bad in found] for place in range(len(lines))],
    }


def _cell(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _column_of(
    view: RankView, file: str, step: int, lines: int, place_of_node: LinePlaces
) -> LineColumn:
    """The numbers of a step for every line; those of the last step may still change."""

    def make() -> LineColumn:
        return _column(view.rows(step), lines, place_of_node)

    if step == view.recorded_steps[-1]:
        return view.once(f"last column of lines, {file}", make)
    return view.lasting(("lines", file, step, len(place_of_node)), make)


def _column(rows: Records, lines: int, place_of_node: LinePlaces) -> LineColumn:
    values, bad = np.full(lines, np.nan), np.zeros(lines, np.int64)
    rows = taken(rows, (rows["io"] == OUTPUT) & (rows["node"] < len(place_of_node)))
    places = place_of_node[rows["node"]]
    rows, places = taken(rows, places >= 0), places[places >= 0]
    np.fmax.at(values, places, magnitudes(rows))
    np.add.at(bad, places, bad_among(rows))
    return values, bad


def _places(view: RankView, file: str) -> tuple[list[int], LinePlaces]:
    """The lines of a file that have operators, and for each node the place of its line or -1."""
    by_line = nodes_by_line(view).get(file, {})
    lines = sorted(by_line)
    place_of_node = np.full(max(view.nodes, default=-1) + 1, -1, np.int64)
    for place, line in enumerate(lines):
        place_of_node[[node.id for node in by_line[line]]] = place
    return lines, place_of_node

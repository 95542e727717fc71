"""The values that the lines of a file computed over the steps: a sketch beside each of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opscope.stats.record import OUTPUT, bad_among, taken
from opscope.views.heat_map import chosen_steps, magnitudes
from opscope.views.rank_view import RankView
from opscope.views.source_view import nodes_by_line

if TYPE_CHECKING:
    from opscope.views.source_answers import LineTrends


def line_trends(
    view: RankView, file: str, columns: int = 24, last: int | None = None
) -> LineTrends:
    """Of each line of a file the largest |x| of its outputs, over evenly chosen steps."""
    lines, place_of_node = _places(view, file)
    steps = chosen_steps(view, None, last, columns) if lines else []
    values = np.full((len(lines), len(steps)), np.nan)
    bad = np.zeros((len(lines), len(steps)), np.int64)
    for column, step in enumerate(steps):
        rows = view.rows(step)
        rows = taken(rows, (rows["io"] == OUTPUT) & (rows["node"] < len(place_of_node)))
        places = place_of_node[rows["node"]]
        rows, places = taken(rows, places >= 0), places[places >= 0]
        np.fmax.at(values[:, column], places, magnitudes(rows))
        np.add.at(bad[:, column], places, bad_among(rows))
    return {
        "file": file,
        "steps": steps,
        "lines": lines,
        "values": [[None if math.isnan(x) else x for x in row] for row in values.tolist()],
        "bad": (bad > 0).astype(int).tolist(),
    }


def _places(view: RankView, file: str) -> tuple[list[int], NDArray[np.int64]]:
    """The lines of a file that have operators, and for each node the place of its line or -1."""
    by_line = nodes_by_line(view).get(file, {})
    lines = sorted(by_line)
    place_of_node = np.full(max(view.nodes, default=-1) + 1, -1, np.int64)
    for place, line in enumerate(lines):
        place_of_node[[node.id for node in by_line[line]]] = place
    return lines, place_of_node

"""The user's own files, with what each line computed beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from opscope.events import Node, Phase
from opscope.views.rank_view import NodeNumbers, RankView

if TYPE_CHECKING:
    from opscope.views.source_answers import LineMark, SourceFile, SourceFiles, SourceText

_OPS_SHOWN = 8


def source_files(view: RankView, step: int | None = None) -> SourceFiles:
    """The files that operators came from, in the order they were first seen."""
    at = view.step_at(step)
    numbers, hits = view.numbers(at), view.hits_by_node()
    found = [_file(file, lines, numbers, hits) for file, lines in nodes_by_line(view).items()]
    return {"step": at, "files": found}


def source_text(view: RankView, file: str, step: int | None = None) -> SourceText:
    """One file with its marks."""
    at = view.step_at(step)
    numbers, hits = view.numbers(at), view.hits_by_node()
    lines = nodes_by_line(view).get(file, {})
    return {
        "file": file,
        "step": at,
        "text": view.reader.recording.source(file),
        "marks": [_mark(line, lines[line], numbers, hits) for line in sorted(lines)],
    }


def nodes_by_line(view: RankView) -> Mapping[str, Mapping[int, Sequence[Node]]]:
    """The nodes of each line of each file, in the order in which these were first seen."""
    return view.once("lines", lambda: _nodes_by_line(view.nodes.values()))


def _nodes_by_line(nodes: Iterable[Node]) -> dict[str, dict[int, list[Node]]]:
    files: dict[str, dict[int, list[Node]]] = {}
    for node in nodes:
        where = line_of(node)
        if where is not None:
            files.setdefault(where[0], {}).setdefault(where[1], []).append(node)
    return files


def line_of(node: Node) -> tuple[str, int] | None:
    """The line that a node belongs to; a backward node to that of its forward node."""
    where = node.stack.where
    if where is None or (node.phase is Phase.BACKWARD and node.forward is not None):
        where = (node.forward or node).stack.where
    return None if where is None else (where.file, where.line)


def _file(
    file: str, lines: Mapping[int, Sequence[Node]], numbers: NodeNumbers | None, hits: Counter[int]
) -> SourceFile:
    marks = [_mark(line, nodes, numbers, hits) for line, nodes in lines.items()]
    worst = max(marks, key=_badness, default=None)
    return {
        "file": file,
        "name": PurePath(file).name,
        "nodes": sum(mark["nodes"] for mark in marks),
        "lines": len(marks),
        "nan": sum(int(mark["nan"]) for mark in marks),
        "inf": sum(int(mark["inf"]) for mark in marks),
        "hits": sum(mark["hits"] for mark in marks),
        "worst": worst["line"] if worst is not None else None,
    }


def _badness(mark: LineMark) -> tuple[int, bool, float]:
    largest = mark["max"]
    size = float(largest) if isinstance(largest, (int, float)) else 0.0
    return mark["hits"], bool(mark["nan"] or mark["inf"]), 0.0 if math.isnan(size) else abs(size)


def _mark(
    line: int, nodes: Sequence[Node], numbers: NodeNumbers | None, hits: Counter[int]
) -> LineMark:
    phases = Counter(node.phase for node in nodes)
    forward = [node.id for node in nodes if node.phase is not Phase.BACKWARD]
    backward = [node.id for node in nodes if node.phase is Phase.BACKWARD]
    shown = forward or backward
    low, high, mean_abs = _extremes(shown, numbers)
    back_low, back_high, _ = _extremes(backward, numbers)
    sizes = [abs(value) for value in (back_low, back_high) if value is not None]
    ids = [node.id for node in nodes]
    return {
        "line": line,
        "nodes": len(nodes),
        "forward": phases[Phase.FORWARD],
        "backward": phases[Phase.BACKWARD],
        "other": len(nodes) - phases[Phase.FORWARD] - phases[Phase.BACKWARD],
        "ops": list(dict.fromkeys(node.op_type for node in nodes))[:_OPS_SHOWN],
        "min": low,
        "max": high,
        "mean_abs": mean_abs,
        "nan": _total(ids, numbers, "nan"),
        "inf": _total(ids, numbers, "inf"),
        "backward_max": max(sizes, default=None),
        "backward_bad": _total(backward, numbers, "nan") + _total(backward, numbers, "inf"),
        "hits": sum(hits[number] for number in ids),
        "first_node": nodes[0].id,
    }


def _extremes(
    nodes: Sequence[int], numbers: NodeNumbers | None
) -> tuple[float | None, float | None, float | None]:
    """Least, largest, and largest mean of |x| of some nodes; None where there are none."""
    if numbers is None:
        return None, None, None
    known = [n for n in nodes if n < len(numbers.rows) and numbers.rows[n]]
    lows = [float(numbers.min[n]) for n in known if not math.isnan(numbers.min[n])]
    highs = [float(numbers.max[n]) for n in known if not math.isnan(numbers.max[n])]
    means = [float(numbers.mean_abs[n]) for n in known if not math.isnan(numbers.mean_abs[n])]
    return min(lows, default=None), max(highs, default=None), max(means, default=None)


def _total(nodes: Sequence[int], numbers: NodeNumbers | None, what: str) -> int:
    if numbers is None:
        return 0
    counts = getattr(numbers, what)
    return sum(int(counts[number]) for number in nodes if number < len(counts))

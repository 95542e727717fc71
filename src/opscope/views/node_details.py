"""Everything about one node in one step, and its numbers over all steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.errors import OpscopeError
from opscope.events import IO, Node, Output, Outside, Source
from opscope.read.extra_stats import place_of
from opscope.read.one_value import saved_at_hit
from opscope.read.reader import Reader
from opscope.read.value import Value
from opscope.stats.record import INT, UINT
from opscope.stats.row import Row
from opscope.views.hit_list import hit_line
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.node_answers import Consumer, NodeDetails, Numbers, Series, Side, StackLine

_AROUND = 3
"""Lines shown before and after the line of a frame."""
_FEW = 16
"""Values of so many elements are shown whole."""
_BACKWARD_SHOWN = 32


def find_node(view: RankView, number: int) -> Node:
    """The node with this number; an error if there is none."""
    node = view.nodes.get(number)
    if node is None:
        raise OpscopeError(f"rank {view.rank} has no node {number}")
    return node


def node_details(
    view: RankView, number: int, step: int | None = None, pass_number: int = 0
) -> NodeDetails:
    """A node with its stack, inputs, outputs and hits, as they were in a step and pass."""
    node = find_node(view, number)
    at = view.step_at(step)
    values = _values(view, node, at, pass_number)
    passes = 1 if at is None else max(1, len(view.recorded.passes(at)))
    return {
        "id": node.id,
        "name": node.name,
        "op": node.op,
        "op_type": node.op_type,
        "scope": node.scope,
        "module_class": node.module_class,
        "phase": str(node.phase),
        "graph": node.graph,
        "forward": node.forward.id if node.forward else None,
        "backward": [one.id for one in view.backward.get(node.id, ())][:_BACKWARD_SHOWN],
        "parameter": node.parameter,
        "gradient_of": node.gradient_of,
        "arguments": dict(node.arguments),
        "step": at,
        "passes": passes,
        "pass_number": min(pass_number, passes - 1),
        "stack": _stack(view.reader, node),
        "inputs": _sides(view, node, IO.INPUT, at, values),
        "outputs": _sides(view, node, IO.OUTPUT, at, values),
        "consumers": _consumers(view.reader, node),
        "hits": [hit_line(hit) for hit in view.hits if hit.get("node") == node.id],
    }


def series(view: RankView, number: int, io: str, slot: int, stats: Sequence[str]) -> Series:
    """Some statistics of one value over all steps, and the extremes of those left out."""
    node = find_node(view, number)
    there = [*Row._fields, *view.recorded.extra_stats.meanings]
    known = [name for name in stats if name in there]
    if not known or len(known) < len(stats):
        wrong = next((name for name in stats if name not in known), "")
        raise OpscopeError(f'"{wrong}" is no statistic; there are {", ".join(there)}')
    if io not in (IO.INPUT, IO.OUTPUT):
        raise OpscopeError(f'io = "{io}": must be input or output')
    rows, between = view.reader.series(node, io, slot)
    steps = [int(step) for step in rows["step"]]
    calls = [int(call) for call in rows["call"]]
    places = [view.recorded.pass_of(*moment) for moment in zip(steps, calls, strict=True)]
    return {
        "steps": steps,
        "passes": [place or 0 for place in places],
        "numbers": {
            **{name: _column(rows, name) for name in known if name in Row._fields},
            **_extra_columns(view, node, rows, [n for n in known if n not in Row._fields]),
        },
        "between": {
            "first": between["first"].tolist(),
            "last": between["last"].tolist(),
            "min": _column(between, "min"),
            "max": _column(between, "max"),
            "nan": between["nan"].tolist(),
            "inf": (between["posinf"] + between["neginf"]).tolist(),
        },
    }


def numbers_of(row: Row) -> Numbers:
    """A row as plain data."""
    return {
        "count": row.count,
        "min": row.min,
        "max": row.max,
        "mean": row.mean,
        "mean_abs": row.mean_abs,
        "l2": row.l2,
        "std": row.std,
        "nan": row.nan,
        "posinf": row.posinf,
        "neginf": row.neginf,
        "zero": row.zero,
        "negative": row.negative,
        "positive": row.positive,
    }


def source_words(source: Source) -> str:
    """Name the source of an input in words."""
    if isinstance(source, Outside):
        return f"{source.kind} {source.name}".strip()
    return f"{source.node.name}:{source.slot}"


def _column(rows: Any, name: str) -> list[Any]:
    """A column of rows; min and max of integers are exact."""
    if name not in ("min", "max"):
        return list(rows[name].tolist())
    kinds, values = rows["kind"], rows[name].tolist()
    for kind, suffix in ((INT, "_int"), (UINT, "_uint")):
        for place in np.flatnonzero(kinds == kind):
            values[place] = rows[f"{name}{suffix}"][place].item()
    return list(values)


def _extra_columns(
    view: RankView, node: Node, rows: Any, names: Sequence[str]
) -> dict[str, list[float | None]]:
    """Columns of extra statistics; None where a value has none."""
    if not names:
        return {}
    found = view.recorded.extra_stats.by_value({node.id})
    numbers = [found.get(place_of(row), {}) for row in rows]
    return {name: [_or_none(one.get(name)) for one in numbers] for name in names}


def _or_none(number: float | None) -> float | None:
    """An extra statistic; NaN stands for none."""
    return None if number is None or math.isnan(number) else number


def _values(
    view: RankView, node: Node, step: int | None, pass_number: int
) -> dict[tuple[int, IO, int], Value]:
    """The values of a node and of those that feed it, of one pass."""
    if step is None:
        return {}
    feeding = {source.node.id for source in node.sources if isinstance(source, Output)}
    found: dict[tuple[int, IO, int], Value] = {}
    for value in view.recorded.values({node.id} | feeding, {step}):
        key = (value.node.id, value.io, value.slot)
        if key not in found or (value.pass_number or 0) <= pass_number:
            found[key] = value
    return found


def _sides(
    view: RankView,
    node: Node,
    io: IO,
    step: int | None,
    values: dict[tuple[int, IO, int], Value],
) -> list[Side]:
    known = len(node.sources if io is IO.INPUT else node.outputs)
    recorded = {slot for number, side, slot in values if number == node.id and side is io}
    sides = [_side(node, io, slot, values) for slot in sorted({*range(known), *recorded})]
    for side in sides:
        if step is not None and not side["saved"]:
            side["saved"] = saved_at_hit(view.recorded, node, io, side["slot"], step) is not None
    return sides


def _side(node: Node, io: IO, slot: int, values: dict[tuple[int, IO, int], Value]) -> Side:
    source = node.sources[slot] if io is IO.INPUT and slot < len(node.sources) else None
    output = node.outputs[slot] if io is IO.OUTPUT and slot < len(node.outputs) else None
    value = values.get((node.id, io, slot))
    if value is None and isinstance(source, Output):
        value = values.get((source.node.id, IO.OUTPUT, source.slot))
    made_by = source if isinstance(source, Output) else None
    of = source if isinstance(source, Output) else output
    return {
        "io": str(io),
        "slot": slot,
        "address": f"{node.name}:{'input:' if io is IO.INPUT else ''}{slot}",
        "dtype": value.dtype if value else None,
        "shape": list(value.shape) if value and value.shape is not None else None,
        "source": "" if source is None else source_words(source),
        "source_node": made_by.node.id if made_by else None,
        "source_slot": made_by.slot if made_by else None,
        "parameter": output.parameter if output else getattr(source, "subject", ""),
        "uninitialised": of is not None and of.uninitialised,
        "numbers": _numbers(value),
        "extra": {name: _or_none(n) for name, n in value.extra.items()} if value else {},
        "saved": value is not None and value.is_saved,
        "elements": _elements(value),
    }


def _numbers(value: Value | None) -> Numbers | None:
    if value is None:
        return None
    try:
        return numbers_of(value.stats())
    except OpscopeError:
        return None


def _elements(value: Value | None) -> list[Any] | None:
    """The elements of a small saved value; the one element of any other that has just one."""
    if value is None:
        return None
    try:
        if value.is_saved:
            array = value.array()
            few = array.size <= _FEW and array.dtype.kind in "biuf"
            return list(array.reshape(-1).tolist()) if few else None
        row = value.stats()
    except OpscopeError:
        return None
    is_complex = (value.dtype or "").startswith("complex")
    return [row.min] if row.count == 1 and not row.nan and not is_complex else None


def _stack(reader: Reader, node: Node) -> list[StackLine]:
    lines: list[StackLine] = []
    for frame in node.stack.frames:
        text = reader.recording.source(frame.file) if frame.user else []
        first = max(0, frame.line - 1 - _AROUND)
        known = 0 < frame.line <= len(text)
        lines.append(
            {
                "file": frame.file,
                "line": frame.line,
                "function": frame.function,
                "user": frame.user,
                "code": text[frame.line - 1].strip() if known else None,
                "around": text[first : frame.line + _AROUND] if known else [],
                "first": first + 1,
            }
        )
    return lines


def _consumers(reader: Reader, node: Node) -> list[Consumer]:
    if "edges" in reader.recording.lacks:
        return []
    return [
        {"node": c.node.id, "name": c.node.name, "slot": c.slot, "of": c.of}
        for c in reader.consumers(node)
    ]

"""The verdict on a step with NaN or Inf: where it began, why, how far it went, what helps."""

from __future__ import annotations

import linecache
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.calls import moment
from opscope.cells import cell_of
from opscope.events import Frame, Node, Output, Source
from opscope.judge.explanation import Case, SeenValue, explain
from opscope.judge.origin.arrival import bad_lasting_values
from opscope.judge.origin.birth import FROM_SCRIPT, Birth
from opscope.judge.origin.divergence import ADVICE, divergence, in_words
from opscope.judge.origin.making import made_by
from opscope.judge.origin.soundness import Records, Soundness
from opscope.judge.origin.writing import BUFFER, GRADIENT, PARAMETER, STATE
from opscope.stats.record import INPUT, OUTPUT, bad_among, joined, row_from

Kinds = Callable[[int], tuple[str, tuple[int, ...]]]
_BEFORE = 5
_HISTORY = 5
_ORDINARY = 10.0
"""Numbers up to this overflow nothing, however they grew."""
_FLOOR = 1e3
_JUMP = 10.0


class Step(NamedTuple):
    """The step that a verdict is about, and all that is known of it."""

    step: int
    rank: int
    soundness: Soundness
    nodes: Callable[[int], Node]
    """Nodes by id."""
    kinds: Kinds
    losses: Sequence[int | None] = ()
    """The calls that computed the losses."""
    earlier: Records | None = None
    """Rows of steps before, oldest first."""
    code: Callable[[Frame], str] = lambda frame: linecache.getline(frame.file, frame.line).strip()


def find_origin(
    step: Step, suspect: int | None = None, counts: Callable[[Birth], bool] = lambda birth: True
) -> Birth | None:
    """Find where it began: the earliest birth, or for infinities on purpose where they took over.

    Births that do not count are named only if what they made got to a loss or the suspect, which
    is a call.
    """
    ends = [call for call in (*step.losses, suspect) if call is not None]
    births = [birth for birth in step.soundness.arrived if counts(birth)]
    births = births or step.soundness.leading_to(step.soundness.births, ends)
    if births:
        return min(births, key=lambda birth: birth.call)
    for call in ends:
        if (found := step.soundness.where_infinities_took_over(call)) is not None:
            return found
    return None


def verdict(step: Step, found: Birth) -> dict[str, Any]:
    """Everything about the origin, as plain data.

    What came in is followed back to the operator that made it, where that was seen.
    """
    origin = made_by(step.soundness, found) or found
    node, call, soundness = origin.node, origin.call, step.soundness
    frame = node.stack.where
    case = _case(step, origin)
    explanation = explain(case)
    growth = _divergence(step, origin) if case.largest > _ORDINARY else None
    sources = soundness.calls.sources_of(call)
    return {
        "step": step.step,
        "pass": soundness.calls.pass_among_several(call),
        "rank": step.rank,
        "node": node.id,
        "name": node.name,
        "op_type": node.op_type,
        "op": node.op,
        "scope": node.scope,
        "phase": str(node.phase),
        "forward": node.forward.name if node.forward is not None else None,
        "arguments": dict(node.arguments),
        "where": f"{frame.file}:{frame.line}" if frame is not None else "",
        "code": step.code(frame) if frame is not None else "",
        "stack": [f"{f.file}:{f.line}" for f in node.stack.frames if f.user],
        "entered": _entered(origin),
        "came_in": _came_in(found) if origin is not found else None,
        "slot": origin.slot,
        "bad": origin.bad._asdict(),
        "what": explanation.what,
        "advice": explanation.advice if growth is None else ADVICE,
        "divergence": growth,
        "history": _history(step, origin),
        "culprit": None,
        "inputs": [
            {**_value(step, call, INPUT, slot), "source": source_text(source)}
            for slot, source in enumerate(sources)
        ],
        "outputs": [_value(step, call, OUTPUT, slot) for slot in range(len(node.outputs))],
        "reached": _reached(step),
        "spread": _spread(soundness, origin),
        "others": max(0, len(soundness.arrived) - 1),
        "before": _before(step, origin),
        "abnormal": _abnormal(step, origin),
    }


def _case(step: Step, origin: Birth) -> Case:
    call, soundness = origin.call, step.soundness
    slots = range(len(soundness.calls.sources_of(call)))
    inputs = [_known(step, soundness.row(call, INPUT, slot)) for slot in slots]
    slot = origin.slot if origin.entered is None else 0
    output = _known(step, soundness.row(call, OUTPUT, slot))
    return Case(origin, inputs, output, step.step)


def _divergence(step: Step, origin: Birth) -> dict[str, Any] | None:
    """Describe how values grew before this step, unless they came in from outside."""
    entered = origin.entered is not None and origin.entered.kind != "parameter"
    if step.earlier is None or not len(step.earlier) or entered:
        return None
    nodes = step.soundness.calls.nodes
    losses = {nodes[call].id for call in step.losses if call is not None}
    now = step.soundness.records()
    return divergence(step.earlier, now[now["call"] < origin.call], step.nodes, losses)


def _history(step: Step, origin: Birth) -> list[dict[str, Any]]:
    """List the numbers of the origin's first input in the steps before."""
    if step.earlier is None or not len(step.earlier):
        return []
    rows, sources = step.earlier, step.soundness.calls.sources_of(origin.call)
    slot = origin.slot if origin.entered is not None else 0
    source = sources[slot] if slot < len(sources) else None
    if isinstance(source, Output):
        mine = (rows["node"] == source.node.id) & (rows["slot"] == source.slot)
        mine &= rows["io"] == OUTPUT
    else:
        mine = (rows["node"] == origin.node.id) & (rows["slot"] == slot) & (rows["io"] == INPUT)
    found = {int(row["step"]): row_from(row) for row in rows[mine]}
    last = sorted(found)[-_HISTORY:]
    return [{"step": at, "min": found[at].min, "max": found[at].max} for at in last]


def _known(step: Step, record: np.void | None) -> SeenValue | None:
    if record is None:
        return None
    dtype, shape = step.kinds(int(record["shape"]))
    return SeenValue(row_from(record), dtype, shape)


def _entered(origin: Birth) -> dict[str, str] | None:
    if origin.entered is None:
        return None
    return {"kind": origin.entered.kind, "name": origin.entered.name}


def _came_in(birth: Birth) -> dict[str, str] | None:
    """Describe how what was made outside of training came into it."""
    frame = birth.node.stack.where
    entered = _entered(birth)
    where = f"{frame.file}:{frame.line}" if frame is not None else ""
    return None if entered is None else {**entered, "read_by": birth.node.op_type, "where": where}


def _value(step: Step, call: int, side: int, slot: int) -> dict[str, Any]:
    known = _known(step, step.soundness.row(call, side, slot))
    data: dict[str, Any] = {"slot": slot}
    if known is not None:
        data |= {"dtype": known.dtype, "shape": list(known.shape), **known.row._asdict()}
    return data


def source_text(source: Source) -> str:
    """Name the source of an input in words."""
    if isinstance(source, Output):
        return f"{source.node.name}:{source.slot}"
    return f"{source.kind} {source.name}".strip()


def _reached(step: Step) -> dict[str, Any]:
    bad = step.soundness.bad_slots
    kinds = Counter(what.kind for what in bad_lasting_values(step.soundness.calls, bad))
    return {
        "loss": any(call in bad for call in step.losses),
        "gradients": kinds[GRADIENT],
        "parameters": kinds[PARAMETER],
        "buffers": kinds[BUFFER],
        "state": kinds[STATE],
    }


def _spread(soundness: Soundness, origin: Birth) -> dict[str, int]:
    records = soundness.records()
    later = records[(records["call"] >= origin.call) & (records["io"] == OUTPUT)]
    bad = np.count_nonzero(bad_among(later))
    return {"values": int(bad), "of": len(later)}


def _before(step: Step, origin: Birth) -> list[dict[str, Any]]:
    """The last operators before the origin, and their first outputs."""
    found = []
    records = step.soundness.records()
    earlier = records[records["call"] < origin.call]
    calls = np.unique(earlier["call"])[-_BEFORE:]
    for call in calls.tolist():
        node = step.nodes(int(earlier["node"][earlier["call"] == call][-1]))
        frame = node.stack.where
        known = _known(step, step.soundness.row(call, OUTPUT, 0))
        found.append(
            {
                "name": node.name,
                "where": f"{frame.file}:{frame.line}" if frame is not None else "",
                "min": known.row.min if known is not None else None,
                "max": known.row.max if known is not None else None,
            }
        )
    return found


def _abnormal(step: Step, origin: Birth) -> dict[str, Any] | None:
    """The first value, in this or an earlier step, far beyond all it had been before."""
    now = step.soundness.records()
    now = now[(now["io"] == OUTPUT) & (now["call"] < origin.call)]
    if step.earlier is None or not len(step.earlier):
        return None
    rows = joined([step.earlier[step.earlier["io"] == OUTPUT], now])
    rows = rows[(rows["kind"] == 0) & (rows["count"] > 0)]
    size = np.maximum(np.abs(rows["min"]), np.abs(rows["max"]))
    size = np.where(np.isfinite(size), size, np.inf)
    key = rows["node"].astype(np.int64) * 1024 + rows["slot"]
    order = np.lexsort((rows["step"], key))
    key, size, rows = key[order], size[order], rows[order]
    first = _first_jump(key, size, rows)
    if first is None:
        return None
    record, most = first
    node = step.nodes(int(record["node"]))
    frame = node.stack.where
    return {
        "step": int(record["step"]),
        "name": node.name,
        "where": f"{frame.file}:{frame.line}" if frame is not None else "",
        "largest": float(max(abs(record["min"]), abs(record["max"]))),
        "before": most,
    }


def _first_jump(
    key: np.ndarray[Any, np.dtype[np.int64]],
    size: np.ndarray[Any, np.dtype[np.float64]],
    rows: Records,
) -> tuple[np.void, float] | None:
    best: tuple[int, int, np.void, float] | None = None
    starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    for start, end in zip(starts, np.r_[starts[1:], len(key)], strict=True):
        if end - start < 3:
            continue
        most = np.maximum.accumulate(size[start:end])
        jumps = np.flatnonzero(
            (size[start + 1 : end] > _JUMP * most[:-1]) & (size[start + 1 : end] > _FLOOR)
        )
        jumps = jumps[jumps >= 1]
        if len(jumps):
            at = start + 1 + int(jumps[0])
            record = rows[at]
            place = int(record["step"]), int(record["call"])
            if best is None or place < best[:2]:
                best = (*place, record, float(most[int(jumps[0])]))
    return None if best is None else (best[2], best[3])


# ----------------------------------------------------------------------------------------- text


def shown_path(path: str) -> str:
    """A path as short as it can be from here."""
    try:
        relative = os.path.relpath(path)
    except ValueError:
        return path
    return relative if not relative.startswith("..") else path


def shown_place(where: str) -> str:
    """`file:line` with a short path, or `In[3]:line` of a cell of this notebook."""
    file, _, line = where.rpartition(":")
    return f"{cell_of(file) or shown_path(file)}:{line}" if file else where


def text(data: dict[str, Any]) -> list[str]:
    """The verdict for a person, ending in the line `origin: file:line`."""
    entered = data["entered"]
    lines = [
        f"NaN or Inf in {moment(data['step'], data['pass'])}, rank {data['rank']}: "
        + (_shown_entry(entered) if entered else "it began here"),
        f"  operator  {data['name']}  ({data['op']}, {data['phase']})",
    ]
    if data["forward"]:
        lines.append(f"  gradient of  {data['forward']}")
    lines.append(f"  scope     {data['scope']}")
    if data["where"]:
        lines.append(f"  code      {shown_place(data['where'])}  {data['code']}")
    if data["divergence"]:
        lines.append(f"  growth    {in_words(data['divergence'])}")
    lines.append(f"  what      {data['what']}")
    if data["culprit"]:
        lines.append(f"  culprit   {data['culprit']}")
    lines += [f"  input {v['slot']}   {_shown(v)}" for v in data["inputs"][:8]]
    lines += [f"  output {v['slot']}  {_shown(v)}" for v in data["outputs"][:4]]
    if data.get("came_in"):  # runs that were written before have none
        lines.append(f"  came in   {_shown_came_in(data['came_in'])}")
    if data["history"]:
        lines.append(f"  history   input was {_shown_history(data['history'])}")
    lines.append(f"  reached   {_shown_reach(data)}")
    if data["abnormal"]:
        odd = data["abnormal"]
        lines.append(
            f"  abnormal  since step {odd['step']}: {odd['name']} ({shown_place(odd['where'])}) "
            f"up to {odd['largest']:.4g}, at most {odd['before']:.4g} before"
        )
    lines += [f"  before    {_shown_before(b)}" for b in data["before"]]
    lines.append(f"  advice    {data['advice']}")
    lines.append(f"origin: {shown_place(data['where'])}" if data["where"] else "origin: unknown")
    return lines


def _shown_entry(entered: dict[str, str]) -> str:
    if entered["kind"] == "rank":
        return "it came from another rank"
    if entered["kind"] == FROM_SCRIPT.kind:
        return "the script wrote it, as a number"
    return f"it came from outside, with the {entered['kind']} {entered['name']}".rstrip()


def _shown_came_in(came: dict[str, str]) -> str:
    place = f" at {shown_place(came['where'])}" if came["where"] else ""
    return (
        f"with the {came['kind']} {came['name']}".rstrip()
        + f", first read by {came['read_by']}{place}"
    )


def _shown_history(history: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{each['min'] + 0.0:.4g} … {each['max'] + 0.0:.4g} in step {each['step']}"
        for each in history
    )


def _shown(value: dict[str, Any]) -> str:
    source = f"{value['source']}: " if value.get("source") else ""
    if "count" not in value:
        return f"{source}no statistics"
    shape = "x".join(map(str, value["shape"])) or "scalar"
    head = f"{source}{value['dtype']} {shape}"
    if not value["count"]:
        return f"{head}, empty"
    bad = [
        f"{value[k]} {w}"
        for k, w in (("nan", "NaN"), ("posinf", "+Inf"), ("neginf", "-Inf"))
        if value[k]
    ]
    zeros = [f"{value['zero']} zero{'s' if value['zero'] > 1 else ''}"] if value["zero"] else []
    numbers = " ".join(f"{k} {value[k] + 0.0:.6g}" for k in ("min", "max", "mean"))  # no -0
    return ", ".join([head, numbers, *zeros, *bad])


def _shown_reach(data: dict[str, Any]) -> str:
    reached, spread = data["reached"], data["spread"]
    parts = ["the loss"] if reached["loss"] else []
    for word in ("gradient", "parameter", "buffer"):
        count = reached[f"{word}s"]
        if count:
            parts.append(f"{count} {word}{'s' if count > 1 else ''}")
    if reached["state"]:
        parts.append("the optimizer's state")
    where = ", ".join(parts) if parts else "no gradient, parameter or buffer"
    return f"{where}; {spread['values']} of {spread['of']} values from there on are not finite"


def _shown_before(entry: dict[str, Any]) -> str:
    numbers = ""
    if entry["min"] is not None:
        numbers = f"  {entry['min'] + 0.0:.4g} … {entry['max'] + 0.0:.4g}"
    where = f"  {Path(shown_place(entry['where'])).name}" if entry["where"] else ""
    return f"{entry['name']}{where}{numbers}"

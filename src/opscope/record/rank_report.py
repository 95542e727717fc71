"""The report on one rank as plain data: the content of `report.json`."""

from __future__ import annotations

from typing import Any

from opscope.native import shared
from opscope.record.cause import Cause
from opscope.record.lines import code_at
from opscope.record.reading import PHASES, OperatorCall, RingReader

REPORT_FORMAT = 1
BACKWARD = PHASES[shared.BACKWARD]
_LAST = 40
"""So many operators are told of, the last ones."""
_STEPS = 64
_ENGINE = "_engine_run_backward"
"""The function of torch's in which autograd runs."""


def rank_report(
    ring: RingReader,
    cause: Cause,
    facts: dict[str, Any],
    exception: dict[str, Any] | None = None,
    now_ns: int | None = None,
) -> dict[str, Any]:
    """Put everything together."""
    last = ring.last_operator
    failed = _failed(ring) if exception is not None else None
    shown = failed or last
    batch = ring.blob("batch")
    return {
        "format": REPORT_FORMAT,
        "rank": facts.get("rank", 0),
        "world_size": facts.get("world_size", 1),
        "pid": ring.pid,
        "host": facts.get("host", ""),
        "cause": cause.kind,
        "cause_text": cause.text,
        "step": ring.step,
        "started": ring.number("started_real") / 1e9,
        "last_time": _last_time(ring),
        "silent_seconds": _silence(ring, now_ns),
        "last_op": None if shown is None else operator_json(shown, ring),
        "source": _where(shown, failed, exception),
        "in_flight": [operator_json(each, ring) for each in ring.in_flight[-16:]],
        "device_window": _window(ring),
        "last_operators": [operator_json(each, ring) for each in ring.operators[-_LAST:]],
        "collectives": _collectives(ring),
        "steps": ring.steps[-_STEPS:],
        "batch": None if batch is None else batch[0],
        "exception": exception,
        "markers": [marker._asdict() for marker in ring.markers],
        "names_lost": ring.number("names_lost"),
        "facts": facts,
    }


def _failed(ring: RingReader) -> OperatorCall | None:
    """The last operator, if it raised: an exception begins there."""
    last = ring.operators[-1] if ring.operators else None
    return last if last is not None and last.raised else None


def _where(
    shown: OperatorCall | None, failed: OperatorCall | None, exception: dict[str, Any] | None
) -> dict[str, Any] | None:
    """The line of the user's code it ended at: an exception's own, unless an operator raised.

    An operator of autograd's has the line of the forward pass, unless code of the user's called it.
    """
    if exception is not None:
        frames = _users(exception, failed is not None and failed.phase == BACKWARD)
        if frames and (failed is None or failed.phase == BACKWARD):
            outer = [f"{frame['file']}:{frame['line']}" for frame in reversed(frames[:-1])]
            wanted = ("file", "line", "function", "code")
            return {key: frames[-1][key] for key in wanted} | {"called_from": outer}
    return None if shown is None else _source(shown)


def _users(exception: dict[str, Any], in_backward: bool) -> list[dict[str, Any]]:
    """The frames of the user's code; `in_backward`, none unless autograd has run the innermost."""
    frames = list(exception.get("frames", ()))
    users = [place for place, frame in enumerate(frames) if frame.get("user")]
    engine = [n for n, frame in enumerate(frames) if frame.get("function") == _ENGINE]
    if in_backward and not (users and engine and users[-1] > engine[-1]):
        return []
    return [frames[place] for place in users]


def operator_json(each: OperatorCall, ring: RingReader) -> dict[str, Any]:
    """One operator."""
    shown: dict[str, Any] = {
        "name": each.name,
        "op_type": each.op_type,
        "op": each.op,
        "scope": each.scope,
        "phase": each.phase,
        "step": each.step,
        "finished": each.finished,
        "raised": each.raised,
        "sequence": each.sequence,
        "thread": each.thread,
        "stream": each.stream,
        "device": each.device,
        "started": ring.real_time(each.start_ns),
        "seconds": (each.end_ns - each.start_ns) / 1e9 if each.end_ns else None,
        "dtype": each.dtype,
        "numel": each.numel,
        "inside": each.inner,
        "source": _source(each),
    }
    if each.is_collective:
        shown |= {"group": each.group, "collective": each.collective}
    return shown


def _source(each: OperatorCall) -> dict[str, Any] | None:
    if not each.source:
        return None
    first, *outer = each.source
    return {
        "file": first.file,
        "line": first.line,
        "function": first.function,
        "code": code_at(first.file, first.line).strip(),
        "called_from": [f"{frame.file}:{frame.line}" for frame in outer],
    }


def _last_time(ring: RingReader) -> float:
    operators = ring.operators
    moments = [max(each.start_ns, each.end_ns) for each in operators[-64:]]
    return ring.real_time(max(moments)) if moments else ring.number("started_real") / 1e9


def _silence(ring: RingReader, now_ns: int | None) -> float | None:
    """Seconds from the last sign of an operator to the end."""
    moments = [marker.time_ns for marker in ring.markers]
    end = now_ns if now_ns is not None else (moments[-1] if moments else None)
    return None if end is None else max(0.0, round(end / 1e9 - _last_time(ring), 3))


def _window(ring: RingReader) -> dict[str, int] | None:
    """On a GPU: what had been launched and is not known to have run."""
    on_device = [each for each in ring.operators if each.device.startswith("cuda")]
    if not on_device:
        return None
    return {"completed": ring.number("completed"), "launched": on_device[-1].sequence}


def _collectives(ring: RingReader) -> dict[str, dict[str, Any]]:
    """By group: the last collective that was entered, and whether it was left."""
    found: dict[str, dict[str, Any]] = {}
    for each in ring.operators:
        if each.is_collective:
            found[each.group] = {
                "number": each.collective,
                "name": each.op_type,
                "left": bool(each.end_ns),
                "source": _source(each),
                "step": each.step,
            }
    return found

"""The end of a training, from what its recorder left: rank by rank, and an operator of it.

A report may come from elsewhere: what is not of its type is shown as nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.errors import OpscopeError
from opscope.read.recorded import Recorded, RecordedRank
from opscope.record.blobs import HeldTensor, held_tensors
from opscope.record.rank_report import operator_json
from opscope.record.reading import RingReader
from opscope.rundir.jsonlines import with_floats

if TYPE_CHECKING:
    from opscope.views.recording_answers import (
        BatchTensor,
        EndedRank,
        FrameTensor,
        MissedCollective,
        OperatorAt,
        RaisedFrame,
        RecordedException,
        RecordedOperator,
        RecordedSource,
        RecordedSteps,
        RecordingFacts,
    )

_SHOWN_VALUES = 8
"""So many elements of a batch are shown."""
_STACK_CHARACTERS = 200_000
_MEASURES = ("loss", "lr", "gradient_norm", "seconds", "rss", "allocated", "peak")


def recording_facts(number: str, run: str, recorded: Recorded) -> RecordingFacts:
    """A recording as a whole."""
    report = recorded.report
    return {
        "id": number,
        "name": recorded.path.resolve().name,
        "path": str(recorded.path),
        "run": run,
        "alive": recorded.is_alive,
        "cause": _text(report.get("cause")),
        "cause_text": _text(report.get("cause_text")),
        "first": _whole_or_none(report.get("first")),
        "world_size": _whole(report.get("world_size")),
        "absent": [_whole(each) for each in _list(report.get("absent"))],
        "missing": [_missed(each) for each in _dicts(report.get("missing"))],
        "ranks": [_ended(each) for each in recorded.ranks],
    }


def _missed(found: dict[str, Any]) -> MissedCollective:
    return {
        "group": _text(found.get("group")),
        "number": _whole(found.get("number")),
        "name": _text(found.get("name")),
        "waiting": [_whole(each) for each in _list(found.get("waiting"))],
        "missing": [_whole(each) for each in _list(found.get("missing"))],
        "source": _source(found.get("source")),
    }


def _ended(rank: RecordedRank) -> EndedRank:
    report = rank.report
    facts, window = _dict(report.get("facts")), _dict(report.get("device_window"))
    last = report.get("last_op")
    step, batch = _batch(rank)
    return {
        "place": rank.place,
        "rank": rank.number,
        "pid": _whole(report.get("pid")),
        "host": _text(report.get("host")),
        "cause": _text(report.get("cause")),
        "cause_text": _text(report.get("cause_text")),
        "step": _whole(report.get("step")),
        "silent_seconds": _number(report.get("silent_seconds")),
        "last_op": _operator(last) if isinstance(last, dict) else None,
        "operators": [_operator(each) for each in reversed(_dicts(report.get("last_operators")))],
        "source": _source(report.get("source")),
        "completed": _whole_or_none(window.get("completed")),
        "launched": _whole_or_none(window.get("launched")),
        "steps": _steps(rank.steps),
        "batch_step": step,
        "batch": batch,
        "exception": _exception(report.get("exception")),
        "stacks": rank.stacks[:_STACK_CHARACTERS],
        "command": [_text(word) for word in _list(facts.get("command"))],
        "versions": {k: _text(v) for k, v in _dict(facts.get("versions")).items()},
        "git": _text(facts.get("git")),
        "has_ring": rank.ring is not None,
    }


def _operator(found: dict[str, Any]) -> RecordedOperator:
    """An operator as reports have it."""
    seconds = _number(found.get("seconds"))
    state = "raised" if found.get("raised") else "flight" if seconds is None else "finished"
    return {
        "sequence": _whole(found.get("sequence")),
        "name": _text(found.get("name")),
        "op": _text(found.get("op")),
        "op_type": _text(found.get("op_type")),
        "inside": _text(found.get("inside")),
        "scope": _text(found.get("scope")),
        "phase": _text(found.get("phase")),
        "step": _whole(found.get("step")),
        "state": state,
        "thread": _whole(found.get("thread")),
        "device": _text(found.get("device")),
        "stream": _whole(found.get("stream")),
        "started": _number(found.get("started")) or 0.0,
        "seconds": seconds,
        "dtype": _text(found.get("dtype")),
        "numel": _whole(found.get("numel")),
        "group": _text(found.get("group")),
        "collective": _whole(found.get("collective")),
        "source": _source(found.get("source")),
    }


def _source(found: Any) -> RecordedSource | None:
    if not isinstance(found, dict):
        return None
    return {
        "file": _text(found.get("file")),
        "line": _whole(found.get("line")),
        "function": _text(found.get("function")),
        "code": _text(found.get("code")),
        "called_from": [_text(each) for each in _list(found.get("called_from"))],
    }


def _exception(found: Any) -> RecordedException | None:
    if not isinstance(found, dict):
        return None
    frames = reversed(_dicts(found.get("frames")))
    return {
        "type": _text(found.get("type")),
        "message": _text(found.get("message")),
        "thread": _text(found.get("thread")),
        "traceback": _text(found.get("traceback")),
        "frames": [_frame(each) for each in frames if each.get("user")],
    }


def _frame(found: dict[str, Any]) -> RaisedFrame:
    return {
        "file": _text(found.get("file")),
        "line": _whole(found.get("line")),
        "function": _text(found.get("function")),
        "code": _text(found.get("code")),
        "tensors": [
            _frame_tensor(name, _dict(about)) for name, about in _dict(found.get("tensors")).items()
        ],
    }


def _frame_tensor(name: str, about: dict[str, Any]) -> FrameTensor:
    return {
        "name": name,
        "dtype": _text(about.get("dtype")),
        "shape": [_whole(each) for each in _list(about.get("shape"))],
        "device": _text(about.get("device")),
        "min": _number(about.get("min")),
        "max": _number(about.get("max")),
        "mean": _number(about.get("mean")),
        "nan": _whole_or_none(about.get("nan")),
        "inf": _whole_or_none(about.get("inf")),
    }


def _steps(facts: list[dict[str, Any]]) -> RecordedSteps:
    columns: dict[str, list[float | None]] = {
        name: [_number(_first(step.get(name))) for step in facts] for name in _MEASURES
    }
    return {
        "step": [_whole(step.get("step")) for step in facts],
        "loss": columns["loss"],
        "lr": columns["lr"],
        "gradient_norm": columns["gradient_norm"],
        "seconds": columns["seconds"],
        "rss": columns["rss"],
        "allocated": columns["allocated"],
        "peak": columns["peak"],
        "largest": [_number(_dict(step.get("statistics")).get("largest")) for step in facts],
        "not_finite": [_not_finite(step) for step in facts],
    }


def _not_finite(step: dict[str, Any]) -> int | None:
    found = _dict(step.get("statistics"))
    return _whole(found.get("not_finite")) if found else None


def _first(found: Any) -> Any:
    """Return the first of a step's losses or learning rates, if there are several."""
    return found[0] if isinstance(found, list) and found else found


# ---------------------------------------------------------------------- the last batch


def _batch(rank: RecordedRank) -> tuple[int | None, list[BatchTensor]]:
    """The last batch: its step, and its tensors as the facts of that step have them."""
    held = held_tensors(rank.ring, "batch") if rank.ring is not None else None
    left = list(held or ())
    for step in reversed(rank.steps):
        if found := _dicts(step.get("batch")):
            return _whole(step.get("step")), [_batch_tensor(each, left) for each in found]
    return None, []


def _batch_tensor(found: dict[str, Any], held: list[HeldTensor]) -> BatchTensor:
    """A tensor, with the values that are held of it; those are taken from the list."""
    name, dtype = _text(found.get("name")), _text(found.get("dtype"))
    shape = [_whole(each) for each in _list(found.get("shape"))]
    is_held = held and held[0][:3] == (name, dtype, tuple(shape))
    return {
        "name": name,
        "dtype": dtype,
        "shape": shape,
        "digest": _text(found.get("digest")),
        "values": _elements(held.pop(0)) if is_held else [],
    }


def _elements(tensor: HeldTensor) -> list[float]:
    """The first elements as numbers, of those dtypes that NumPy has."""
    if tensor.dtype == "bfloat16":
        halves = np.frombuffer(tensor.content, np.uint16)[:_SHOWN_VALUES].astype(np.uint32)
        return [float(each) for each in (halves << np.uint32(16)).view(np.float32)]
    try:
        found = np.frombuffer(tensor.content, np.dtype(tensor.dtype))[:_SHOWN_VALUES]
    except TypeError:
        return []
    return [] if found.dtype.kind == "c" else found.tolist()


# ---------------------------------------------------------------------- one operator


def operator_at(recorded: Recorded, place: int, sequence: int) -> OperatorAt:
    """An operator of the ring, with everything that is known of it."""
    rank = recorded.rank(place)
    ring = rank.ring
    found = ring.operator(sequence) if ring is not None else None
    if ring is None or found is None:
        raise OpscopeError(f"the recording has no operator {sequence} of rank {rank.number}")
    before, after = _neighbours(ring, sequence, found.thread)
    return {
        **_operator(operator_json(found, ring)),
        "place": place,
        "rank": rank.number,
        "bytes": found.bytes,
        "address": f"{found.address:#x}" if found.bytes else "",
        "autograd": found.autograd,
        "node": found.node,
        "before": before,
        "after": after,
    }


def _neighbours(ring: RingReader, sequence: int, thread: int) -> tuple[int | None, int | None]:
    """The operators before and after one on its thread."""
    records = ring.records
    mine = records["sequence"][records["thread"] == thread]
    at = int(np.searchsorted(mine, sequence))
    before = int(mine[at - 1]) if at > 0 else None
    after = int(mine[at + 1]) if at + 1 < len(mine) else None
    return before, after


# ---------------------------------------------------------------------- what is of its type


def _text(found: Any) -> str:
    return found if isinstance(found, str) else ""


def _whole(found: Any) -> int:
    return found if type(found) is int else 0


def _whole_or_none(found: Any) -> int | None:
    return found if type(found) is int else None


def _number(found: Any) -> float | None:
    found = with_floats(found)
    return float(found) if type(found) in (int, float) else None


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _dict(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _dicts(found: Any) -> list[dict[str, Any]]:
    return [each for each in _list(found) if isinstance(each, dict)]

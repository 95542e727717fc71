"""A run or a dump in one line, read without reading all of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from opscope.read.dump_recording import DumpRecording
from opscope.read.run import Run
from opscope.regular import regular_lines
from opscope.rundir import layout
from opscope.rundir.jsonlines import parse_object


class Summary(NamedTuple):
    """The line of a run in `opscope runs`; steps, nodes and loss are those of its first rank."""

    name: str
    kind: str
    started: str
    state: str
    ranks: int
    steps: int
    nodes: int | None
    """None for a dump, which would have to be read."""
    loss: float | None
    hits: int
    size: int
    states: dict[str, str]
    """The state or end of each rank."""


def summarize(recording: Run | DumpRecording) -> Summary:
    """The summary of a run or a dump."""
    if isinstance(recording, Run):
        return _of_run(recording)
    first = next(iter(recording.dump.ranks.values()), None)
    return Summary(
        name=recording.path.resolve().name,
        kind=recording.kind,
        started=recording.started,
        state=recording.state,
        ranks=len(recording.ranks),
        steps=len(first.steps) if first else 0,
        nodes=None,
        loss=None,
        hits=0,
        size=_size(recording.path),
        states={str(number): str(rank.state) for number, rank in recording.ranks.items()},
    )


def _of_run(run: Run) -> Summary:
    first = next((rank.path for rank in run.ranks.values()), run.path)
    steps = _whole_lines(first / layout.STEPS)
    return Summary(
        name=run.path.resolve().name,
        kind=run.kind,
        started=run.started,
        state=run.state,
        ranks=len(run.ranks),
        steps=_count(steps),
        nodes=len(_whole_lines(first / layout.NODES)),
        loss=_last_loss(steps),
        hits=sum(len(_whole_lines(rank.path / layout.HITS)) for rank in run.ranks.values()),
        size=_size(run.path),
        states={str(number): str(state) for number, state in run.states.items()},
    )


def _count(steps: list[bytes]) -> int:
    """Return how many steps there were, thinned ones too; one that did not end is none."""
    last = _object(steps[-1]) if steps else {}
    number = last.get("number")
    count = number + 1 if isinstance(number, int) and number >= len(steps) else len(steps)
    return count - (1 if not last.get("complete", True) else 0)


def _last_loss(steps: list[bytes]) -> float | None:
    """The loss of the last step that had one."""
    for line in reversed(steps):
        losses = _object(line).get("losses")
        if losses:
            return _value(losses)
    return None


def _value(losses: Any) -> float | None:
    try:
        return float(losses[-1]["value"])
    except (TypeError, ValueError, LookupError, OverflowError):
        return None


def _whole_lines(path: Path) -> list[bytes]:
    try:
        return [line for line in regular_lines(path) if line.endswith(b"\n")]
    except OSError:
        return []


def _object(line: bytes) -> dict[str, Any]:
    return parse_object(line) or {}


def _size(path: Path) -> int:
    """Bytes of all files; folders that go while they are looked at are no error of `os.walk`."""
    return sum(_bytes(Path(folder, name)) for folder, _, names in os.walk(path) for name in names)


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:
        return 0

"""A run in one line, read without reading all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from opscope.read.run import Run
from opscope.rundir import layout


class Summary(NamedTuple):
    """What `opscope runs` says of a run; steps, nodes and loss are those of its first rank."""

    name: str
    started: str
    state: str
    ranks: int
    steps: int
    nodes: int
    loss: float | None
    size: int


def summarize(run: Run) -> Summary:
    """The summary of a run."""
    first = next((rank.path for rank in run.ranks.values()), run.path)
    steps, last = _count_and_last(first / layout.STEPS)
    nodes, _ = _count_and_last(first / layout.NODES)
    losses = last.get("losses", [])
    return Summary(
        name=run.path.resolve().name,
        started=str(run.info.get("started", "")),
        state=run.state,
        ranks=len(run.ranks),
        steps=steps,
        nodes=nodes,
        loss=float(losses[-1]["value"]) if losses else None,
        size=_size(run.path),
    )


def _count_and_last(path: Path) -> tuple[int, dict[str, Any]]:
    """How many whole lines a file has, and the object on the last of them."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return 0, {}
    lines = data[: data.rfind(b"\n")]
    try:
        last = json.loads(lines[lines.rfind(b"\n") + 1 :] or b"{}")
    except ValueError:
        last = {}
    return data.count(b"\n"), last


def _size(path: Path) -> int:
    return sum(_bytes(file) for file in path.rglob("*"))


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:
        return 0

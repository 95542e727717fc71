"""Hits that a run recorded, `rank_N/hits.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.events import IO, Node
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_lines
from opscope.watch.hits import Hit
from opscope.watch.watchpoint import Watchpoint


@dataclass(frozen=True)
class RecordedHit:
    """One line of the file, and the node it is about."""

    data: Mapping[str, Any]
    node: Node | None = None

    @property
    def step(self) -> int:
        """The step it happened in."""
        return int(self.data.get("step", -1))

    def of(self, watchpoint: Watchpoint) -> Hit:
        """As a hit of this watchpoint."""
        data = self.data
        io = data.get("io")
        actual = data.get("actual")
        return Hit(
            watchpoint,
            self.step,
            int(data.get("rank", 0)),
            str(data.get("message", "")),
            self.node,
            IO(io) if io in ("input", "output") else None,
            int(data.get("slot", 0)),
            int(data.get("call", 0)),
            str(data.get("parameter", "")),
            {k: float(v) for k, v in actual.items()} if isinstance(actual, dict) else {},
            nan=int(data.get("nan", 0)),
            posinf=int(data.get("posinf", 0)),
            neginf=int(data.get("neginf", 0)),
            verdict=data.get("verdict"),
            pass_number=data.get("pass"),
        )


def read_hits(rank: Path, nodes: Mapping[int, Node]) -> list[RecordedHit]:
    """The hits of a rank, in the order they happened."""
    return [
        RecordedHit(line, nodes.get(line.get("node", -1)))
        for line in read_lines(rank / layout.HITS)
    ]

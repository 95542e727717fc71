"""Hits that a run recorded, `rank_N/hits.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.events import IO, Node
from opscope.judge.hits import Hit
from opscope.judge.watchpoint import Watchpoint
from opscope.read.checked import SMALL, Fields, checked_lines
from opscope.read.hit_rows import near
from opscope.read.html import hits_table
from opscope.rundir import layout

_TEXTS = ("label", "condition", "message", "parameter", "name", "op_type", "phase", "where")
_NUMBERS = ("step", "rank", "slot", "call", "nan", "posinf", "neginf")


class RecordedHits(list["RecordedHit"]):
    """Hits of a run, in the order of steps, ranks and execution."""

    def _repr_html_(self) -> str:
        """As a notebook shows them."""
        return hits_table([hit.data for hit in self])


@dataclass(frozen=True)
class RecordedHit:
    """One line of the file, and the node it is about."""

    data: Mapping[str, Any]
    node: Node | None = None

    def __repr__(self) -> str:
        data = self.data
        words = (data.get("label"), data.get("name"), near(str(data.get("where") or "")))
        what = f"{' '.join(str(word) for word in words if word)}: {data.get('message', '')}"
        return f"<hit in step {self.step}, rank {data.get('rank', 0)}: {what}>"

    @property
    def step(self) -> int:
        """The step it happened in."""
        return int(self.data.get("step", -1))

    def of(self, watchpoint: Watchpoint) -> Hit:
        """As a hit of this watchpoint."""
        data = self.data
        io = data.get("io")
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
            {name: float(value) for name, value in data.get("actual", {}).items()},
            nan=int(data.get("nan", 0)),
            posinf=int(data.get("posinf", 0)),
            neginf=int(data.get("neginf", 0)),
            verdict=data.get("verdict"),
            pass_number=data.get("pass"),
        )


def read_hits(rank: Path, nodes: Mapping[int, Node]) -> list[RecordedHit]:
    """The hits of a rank, in the order they happened."""
    return list(checked_lines(rank / layout.HITS, lambda line: _hit(line, nodes)))


def _hit(line: Fields, nodes: Mapping[int, Node]) -> RecordedHit:
    for name in _TEXTS:
        line.text(name, "")
    for name in _NUMBERS:
        if name in line:
            line.integer(name, -SMALL, 1 << 63)
    for name in ("params", "actual"):
        if name in line:
            line.numbers(name)
    if line.data.get("verdict") is not None:
        line.mapping("verdict")
    node = line.node_or_none("node")
    return RecordedHit(line.data, None if node is None else nodes.get(node))

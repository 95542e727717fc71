"""A hit: one occurrence of a watchpoint's condition, as it is told, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opscope.calls import moment
from opscope.events import IO, Node
from opscope.judge.watchpoint import Watchpoint


@dataclass(frozen=True)
class Hit:
    """One finding of a watchpoint. `node` is None for what is about training as a whole."""

    watchpoint: Watchpoint
    step: int
    rank: int
    seen: str
    """A sentence on what is the matter, without the place."""
    node: Node | None = None
    io: IO | None = None
    slot: int = 0
    call: int = 0
    parameter: str = ""
    """The parameter it is about, if it is about one."""
    actual: Mapping[str, float] = field(default_factory=dict)
    """By parameter of the condition: the number it was compared with."""
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    verdict: Mapping[str, Any] | None = None
    """For NaN and Inf: where it began; see `opscope.judge.origin.verdict`."""
    pass_number: int | None = None
    """The pass it was in, if the step has several."""
    advice: str = ""
    """The advice, if it is the same for all hits of a condition."""

    def __repr__(self) -> str:
        place = " ".join(part for part in (self.about, self.where) if part)
        label = self.watchpoint.label
        return f"<hit in {self.moment}, rank {self.rank}: {label} {place}: {self.seen}>"

    @property
    def message(self) -> str:
        """A sentence on what is the matter, with the advice."""
        return f"{self.seen}; {self.advice}" if self.advice else self.seen

    @property
    def nonfinite(self) -> bool:
        """True if it is of the NaN and Inf kind."""
        return self.watchpoint.condition.nonfinite

    @property
    def in_a_word(self) -> str:
        """The finding in a word: NaN, Inf, or the watchpoint's label."""
        if not self.nonfinite:
            return self.watchpoint.label
        return "NaN" if self.nan or not (self.posinf or self.neginf) else "Inf"

    @property
    def where(self) -> str:
        """The user's line as `file:line`, or nothing."""
        frame = self.node.stack.where if self.node is not None else None
        return f"{frame.file}:{frame.line}" if frame is not None else ""

    @property
    def moment(self) -> str:
        """The step it was in, and the pass if there are several."""
        return moment(self.step, self.pass_number)

    @property
    def about(self) -> str:
        """The value or parameter it is about, in short."""
        if self.node is None:
            return self.parameter
        return f"{self.node.name}:{'input:' if self.io is IO.INPUT else ''}{self.slot}"

    def to_json(self) -> dict[str, Any]:
        """One line of hits.jsonl."""
        node = self.node
        data: dict[str, Any] = {
            "step": self.step,
            "pass": self.pass_number,
            "rank": self.rank,
            "watchpoint": self.watchpoint.id,
            "label": self.watchpoint.label,
            "condition": self.watchpoint.condition.abbr,
            "params": dict(self.watchpoint.params),
            "actual": dict(self.actual),
            "message": self.message,
            "parameter": self.parameter,
            "node": node.id if node is not None else None,
            "name": node.name if node is not None else "",
            "op_type": node.op_type if node is not None else "",
            "phase": str(node.phase) if node is not None else "",
            "io": str(self.io) if self.io is not None else None,
            "slot": self.slot,
            "call": self.call,
            "where": self.where,
        }
        if self.nonfinite:
            data |= {"nan": self.nan, "posinf": self.posinf, "neginf": self.neginf}
        if self.verdict is not None:
            data["verdict"] = dict(self.verdict)
        return data

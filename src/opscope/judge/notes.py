"""Notes: NaN and Inf that did no harm, with where they began. They are no hits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opscope.calls import moment
from opscope.judge.origin.birth import Birth

SKIPPED, MASKED = "skipped", "masked"
_WHAT = {
    SKIPPED: "the script skipped this batch, whose update was never made",
    MASKED: "masked away before it got anywhere",
}


@dataclass(frozen=True)
class Note:
    """Something bad that the script left out, or that was masked."""

    kind: str
    step: int
    rank: int
    birth: Birth
    pass_number: int | None = None

    @property
    def where(self) -> str:
        """The user's line as `file:line`, or nothing."""
        frame = self.birth.node.stack.where
        return f"{frame.file}:{frame.line}" if frame is not None else ""

    @property
    def moment(self) -> str:
        """The step it was in, and the pass if there are several."""
        return moment(self.step, self.pass_number)

    @property
    def message(self) -> str:
        """A sentence on what was the matter, without the place."""
        return f"{self.birth.sentence}; {_WHAT[self.kind]}"

    def to_json(self) -> dict[str, Any]:
        """One line of notes.jsonl."""
        node, bad = self.birth.node, self.birth.bad
        return {
            "kind": self.kind,
            "step": self.step,
            "pass": self.pass_number,
            "rank": self.rank,
            "message": self.message,
            "node": node.id,
            "name": node.name,
            "op_type": node.op_type,
            "phase": str(node.phase),
            "slot": self.birth.slot,
            "call": self.birth.call,
            "where": self.where,
            "nan": bad.nan,
            "posinf": bad.posinf,
            "neginf": bad.neginf,
        }

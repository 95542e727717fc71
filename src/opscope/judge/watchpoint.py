"""A watchpoint: a condition with its numbers, on the values it selects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opscope.events import Node
from opscope.judge.condition import Condition
from opscope.judge.selection import Selection, at_line


@dataclass(frozen=True)
class Watchpoint:
    """One rule. `mute` has names of nodes (or globs) and source lines that it leaves alone."""

    id: int
    condition: Condition
    params: Mapping[str, float] = field(default_factory=dict)
    select: Selection = field(default_factory=Selection)
    name: str = ""
    enabled: bool = True
    mute: tuple[str, ...] = ()
    arriving: bool = False
    """For OO and LN: whether only what arrives counts (docs/verdict.md), or whatever there is."""

    @property
    def label(self) -> str:
        """The words to call it by: its own name, or its condition with its numbers."""
        return self.name or self.text

    @property
    def text(self) -> str:
        """The condition with the numbers that were given, such as `TL max_gt=10`."""
        if self.condition.expression:
            return self.condition.expression
        given = {k: v for k, v in self.params.items() if self.condition.defaults.get(k) != v}
        return " ".join([self.condition.abbr, *(f"{k}={v:g}" for k, v in given.items())])

    @property
    def cls(self) -> str:
        """The class of values it looks at."""
        return self.select.cls or self.condition.target

    def is_muted(self, node: Node) -> bool:
        """Tell whether this node or its line is to be left alone."""
        return any(Selection(node=m).matches(node) or at_line(node, m) for m in self.mute)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a file."""
        condition = self.condition.expression or self.condition.abbr
        data: dict[str, Any] = {"id": self.id, "condition": condition}
        if self.name:
            data["name"] = self.name
        if self.params:
            data["params"] = dict(self.params)
        if self.select.given():
            data["select"] = self.select.given()
        if not self.enabled:
            data["enabled"] = False
        if self.arriving:
            data["arriving"] = True
        if self.mute:
            data["mute"] = list(self.mute)
        return data

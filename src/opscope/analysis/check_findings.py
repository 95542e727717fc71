"""What a check gathers as it goes: hits, what could not be checked, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opscope.watch.hits import Hit
from opscope.watch.watchpoint import Watchpoint


class Scope(NamedTuple):
    """The part of a recording that is checked."""

    rank: int
    wants_step: Callable[[int], bool]
    include: frozenset[str]
    """Phases beside those of training."""


@dataclass(frozen=True)
class Unchecked:
    """Values that a watchpoint could not be checked on, all for one reason."""

    watchpoint: Watchpoint
    reason: str
    count: int
    """How many values; 0 if there was nothing to look at at all."""
    example: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "watchpoint": self.watchpoint.id,
            "label": self.watchpoint.label,
            "condition": self.watchpoint.condition.abbr,
            "reason": self.reason,
            "count": self.count,
            "example": self.example,
        }


@dataclass
class Findings:
    """Filled in rank by rank."""

    hits: list[Hit] = field(default_factory=list)
    values: int = 0
    _unchecked: dict[tuple[int, str], Unchecked] = field(default_factory=dict)
    _notes: dict[str, None] = field(default_factory=dict)

    @property
    def unchecked(self) -> list[Unchecked]:
        """What could not be checked, grouped."""
        return list(self._unchecked.values())

    @property
    def notes(self) -> list[str]:
        """What the recording lacks."""
        return list(self._notes)

    def cannot(
        self, watchpoint: Watchpoint, reason: str, count: int = 0, example: str = ""
    ) -> None:
        """Values, or everything, that a watchpoint could not be checked on."""
        key = watchpoint.id, reason
        before = self._unchecked.get(key)
        if before is not None:
            count, example = count + before.count, before.example or example
        self._unchecked[key] = Unchecked(watchpoint, reason, count, example)

    def note(self, texts: Iterable[str]) -> None:
        """What is missing in the recording."""
        self._notes.update(dict.fromkeys(texts))

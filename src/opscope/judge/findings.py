"""The account of a check: what was checked, what could not be, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from opscope.judge.watchpoint import Watchpoint


@dataclass(frozen=True)
class Unchecked:
    """Values that a watchpoint could not be checked on, all for one reason."""

    watchpoint: Watchpoint
    reason: str
    count: int
    """The number of values; 0 if there was nothing to look at at all."""
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
    """Filled in step by step, and rank by rank."""

    checked: dict[int, int] = field(default_factory=dict)
    """By watchpoint: how many values were checked."""
    paused: bool = False
    """True while a step is looked at only to know what comes after it."""
    _unchecked: dict[tuple[int, str], Unchecked] = field(default_factory=dict)
    _notes: dict[str, None] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """The number of times that a watchpoint checked a value."""
        return sum(self.checked.values())

    @property
    def unchecked(self) -> list[Unchecked]:
        """The values that could not be checked, grouped."""
        return list(self._unchecked.values())

    @property
    def notes(self) -> list[str]:
        """Sentences on what the recording lacks."""
        return list(self._notes)

    def seen(self, watchpoint: Watchpoint) -> int:
        """Return how many values a watchpoint has looked at, whether it could check them or not."""
        unchecked = (u.count for u in self._unchecked.values() if u.watchpoint.id == watchpoint.id)
        return self.checked.get(watchpoint.id, 0) + sum(unchecked)

    def count(self, watchpoint: Watchpoint, count: int) -> None:
        """Count values that a watchpoint was checked on."""
        if not self.paused:
            self.checked[watchpoint.id] = self.checked.get(watchpoint.id, 0) + count

    def cannot(
        self, watchpoint: Watchpoint, reason: str, count: int = 0, example: str = ""
    ) -> None:
        """Note values, or everything, that a watchpoint could not be checked on."""
        if self.paused:
            return
        key = watchpoint.id, reason
        before = self._unchecked.get(key)
        if before is not None:
            count, example = count + before.count, before.example or example
        self._unchecked[key] = Unchecked(watchpoint, reason, count, example)

    def note(self, texts: Iterable[str]) -> None:
        """Note what is missing in the recording."""
        self._notes.update(dict.fromkeys(texts))

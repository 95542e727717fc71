"""A table of faults: functions that are told whether to be healthy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

Train = Callable[[bool], None]
"""Trains, healthily if told so."""


@dataclass(frozen=True)
class Fault:
    """A fault, its twin, and what is expected of it."""

    train: Train
    expected: frozenset[str]
    """Conditions of which one must hit; for a NaN, types of operators that may be the origin."""

    at: Callable[..., object] | None = None
    """The function that has the line to name, if it is another one."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.train.__name__

    @property
    def line(self) -> int | None:
        """The line that the verdict must name, which ends in `# origin`."""
        lines, first = inspect.getsourcelines(self.at or self.train)
        found = [n for n, text in enumerate(lines, first) if text.rstrip().endswith("# origin")]
        return found[0] if found else None


@dataclass
class Faults:
    """The faults of a module, in order."""

    rows: list[Fault] = field(default_factory=list)

    def fault(
        self, *expected: str, at: Callable[..., object] | None = None
    ) -> Callable[[Train], Train]:
        """Add a function to the table."""

        def add(train: Train) -> Train:
            self.rows.append(Fault(train, frozenset(expected), at))
            return train

        return add

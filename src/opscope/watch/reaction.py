"""Decides about hits: stop or go on, and for which kinds."""

from __future__ import annotations

from dataclasses import dataclass

from opscope.judge.catalogue import CONDITIONS, NONFINITE

STOP, PAUSE = "stop", "pause"


@dataclass(frozen=True)
class Reaction:
    """The settings of what happens on a hit."""

    on_hit: str = STOP
    kinds: frozenset[str] = NONFINITE
    """Abbreviations of the conditions that `on_hit` applies to; others are told of only."""

    def stops_at(self, abbr: str) -> bool:
        """Tell whether a hit of this condition ends training."""
        return self.on_hit in (STOP, PAUSE) and abbr in self.kinds


def kinds_of(text: str) -> frozenset[str]:
    """The conditions that `--on-hit-kinds` names: nonfinite, all, or abbreviations.

    >>> sorted(kinds_of("TO,WCL"))
    ['TO', 'WCL']
    """
    known = {c.abbr for c in CONDITIONS}
    found: set[str] = set()
    for word in filter(None, (word.strip() for word in text.split(","))):
        if word == "nonfinite":
            found |= NONFINITE
        elif word == "all":
            found |= known
        elif word.upper() in known:
            found.add(word.upper())
        else:
            raise ValueError(f"{word} is neither nonfinite, all nor a condition")
    if not found:
        raise ValueError("names no condition")
    return frozenset(found)

"""Hits as rows of a table, those that say the same of the same value together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from opscope.cells import cell_of

HIT_COLUMNS = ("step", "rank", "watchpoint", "value", "line", "what")
GROUP_COLUMNS = ("steps", "hits", *HIT_COLUMNS[1:])
_SAME = ("label", "condition", "rank", "name", "io", "slot", "parameter")
"""The fields that hits of a group have in common."""


def hit_row(hit: Mapping[str, Any]) -> list[Any]:
    """A hit, as it stands in a file, as a line of a table."""
    side = "input:" if hit.get("io") == "input" else ""
    of_pass = "" if hit.get("pass") is None else f"@{hit['pass']}"
    value = f"{hit['name']}:{side}{hit.get('slot', 0)}{of_pass}" if hit.get("name") else ""
    parameter = hit.get("parameter") or ""
    if parameter and hit.get("name") != parameter:
        value = f"{parameter} ({value})" if value else parameter
    return [
        hit.get("step"),
        hit.get("rank"),
        label_of(hit),
        value or "-",
        near(str(hit.get("where") or "-")),
        _told(hit)[0],
    ]


def _told(hit: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a hit says it saw, and the advice that is the same for all of its condition."""
    from opscope.judge.catalogue import CONDITIONS

    message = str(hit.get("message", ""))
    advice = next((c.advice for c in CONDITIONS if c.abbr == hit.get("condition")), "")
    seen = message.removesuffix(f"; {advice}") if advice else message
    return seen, advice if seen != message else ""


def advice_of(hits: Iterable[Mapping[str, Any]]) -> list[str]:
    """The advice that goes with the conditions of some hits, each once."""
    told = dict.fromkeys((label_of(hit), _told(hit)[1]) for hit in hits)
    return [f"{label}: {advice}" for label, advice in told if advice]


def label_of(hit: Mapping[str, Any]) -> str:
    """The name of its watchpoint."""
    return str(hit.get("label") or hit.get("condition"))


class HitsAtValue:
    """Hits of one watchpoint at one value of one rank."""

    def __init__(self, hit: Mapping[str, Any]) -> None:
        self.first = hit
        self.steps: list[int] = []

    def row(self) -> list[Any]:
        """A line of a table: when, how often, and what it was the first time."""
        low, high = min(self.steps), max(self.steps)
        steps = str(low) if low == high else f"{low}-{high}"
        return [steps, len(self.steps), *hit_row(self.first)[1:]]


def grouped(hits: Iterable[Mapping[str, Any]]) -> list[HitsAtValue]:
    """Hits that say the same of the same value together, in the order of their first ones."""
    groups: dict[tuple[Any, ...], HitsAtValue] = {}
    for hit in hits:
        key = tuple(hit.get(name) for name in _SAME)
        groups.setdefault(key, HitsAtValue(hit)).steps.append(int(hit.get("step") or 0))
    return list(groups.values())


def near(place: str) -> str:
    """A place in the code as seen from here, if it is below, or in a cell of this notebook."""
    file, _, line = place.rpartition(":")
    cell = cell_of(file)
    return f"{cell}:{line}" if cell else place.removeprefix(f"{Path.cwd()}/")

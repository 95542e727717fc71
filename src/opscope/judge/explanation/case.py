"""An operator at fault with its values, and what can be said of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from opscope.events import Node
from opscope.judge.origin.birth import Birth
from opscope.judge.selection import base_type
from opscope.stats.row import Row

LIMITS = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.40e38, "float64": 1.80e308}


class SeenValue(NamedTuple):
    """A value as far as its statistics tell."""

    row: Row
    dtype: str
    shape: tuple[int, ...]


class Explanation(NamedTuple):
    """A sentence on what happened, and one piece of advice."""

    what: str
    advice: str


class Case(NamedTuple):
    """An operator at fault with its values; an input without statistics is None."""

    birth: Birth
    inputs: Sequence[SeenValue | None]
    output: SeenValue | None
    step: int = 1
    """At step 0 nothing has been learned yet."""

    @property
    def node(self) -> Node:
        return self.birth.node

    @property
    def op(self) -> str:
        return base_type(self.node).removeprefix("_foreach_")

    @property
    def bad(self) -> str:
        return self.birth.bad.text

    @property
    def largest(self) -> float:
        """The largest absolute value among the inputs."""
        ends = [abs(e) for k in self.inputs if k and k.row.finite for e in (k.row.min, k.row.max)]
        return max(ends, default=0.0)

    def input(self, slot: int) -> Row | None:
        known = self.inputs[slot] if slot < len(self.inputs) else None
        return known.row if known is not None and known.row.count else None

    @property
    def dtype(self) -> str:
        return self.output.dtype if self.output is not None else ""

    @property
    def is_half(self) -> bool:
        return self.dtype in ("float16", "float8_e5m2", "float8_e4m3fn")


Rule = Callable[[Case], Explanation | None]
"""Explains the cases it fits, and leaves others to the next one."""


def shown(value: float) -> str:
    """Write a number for people."""
    value += 0.0  # no -0
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e6
    return f"{value:.1f}" if whole else f"{value:.6g}"

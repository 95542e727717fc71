"""Curves in a terminal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from opscope.commands.numbers import number

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_BAD = "!"


def plot(
    steps: Sequence[int], values: Sequence[float | None], width: int = 60, height: int = 6
) -> list[str]:
    """A curve as lines of text, its ends beside it; NaN and infinities are marked at the top.

    >>> for line in plot([0, 1, 2, 3], [4.0, 2.0, 1.0, float("nan")], 4, 2): print(line)
    4 █  !
    1 █▅▁
      step 0 … 3
    """
    columns = _columns(values, width)
    finite = [value for value in columns if value is not None and math.isfinite(value)]
    if not columns:
        return []
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    labels = [number(high), *[""] * (height - 2), number(low)] if height > 1 else [number(high)]
    margin = max(map(len, labels))
    bars = [_bar(value, low, high, height) for value in columns]
    lines = [
        f"{labels[row].rjust(margin)} {''.join(bar[row] for bar in bars)}".rstrip()
        for row in range(height)
    ]
    return [*lines, f"{'':{margin}} step {steps[0]} … {steps[-1]}"]


def _columns(values: Sequence[float | None], width: int) -> list[float | None]:
    """The values, or one for each stretch of them: a bad one if there is one, else the last."""
    if len(values) <= width:
        return list(values)
    edges = [len(values) * i // width for i in range(width + 1)]
    return [_one(values[a:b]) for a, b in itertools.pairwise(edges)]


def _one(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return next((v for v in known if not math.isfinite(v)), known[-1] if known else None)


def _bar(value: float | None, low: float, high: float, height: int) -> str:
    """A column from top to bottom."""
    if value is None:
        return " " * height
    if not math.isfinite(value):
        return _BAD + " " * (height - 1)
    share = (value - low) / (high - low) if high > low else 0.0
    eighths = max(1, round(share * 8 * height))
    rows = [min(8, max(0, eighths - 8 * row)) for row in range(height)]
    return "".join(_EIGHTHS[filled] for filled in reversed(rows))

"""Numbers for people."""

from __future__ import annotations

import math
from typing import Any


def cell(value: Any) -> str:
    """A value for people: six digits of a float, a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(cell, value)) + "]"
    return str(value)


def number(value: float, digits: int = 6) -> str:
    """A number for people; integers are exact.

    >>> number(0.1 + 0.2), number(2**60), number(-math.inf)
    ('0.3', '1152921504606846976', '-Inf')
    """
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return f"{value:.{digits}g}"
    return "NaN" if math.isnan(value) else ("Inf" if value > 0 else "-Inf")

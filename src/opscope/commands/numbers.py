"""Numbers for people."""

from __future__ import annotations

import math
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


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


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(0.00134), duration(5.4812), duration(754.0)
    ('1.34 ms', '5.48 s', '754 s')
    """
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def size(count: int) -> str:
    """A number of bytes for people."""
    power = min(max(count, 1).bit_length() - 1, 49) // 10
    amount = count / (1 << 10 * power)
    return f"{amount:.0f} {_UNITS[power]}" if amount >= 100 else f"{amount:.3g} {_UNITS[power]}"

"""An independent row: exact fractions over Python numbers, nothing of the code under test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

MOMENTS = ("mean", "mean_abs", "l2", "std")


@dataclass(frozen=True)
class Bounds:
    """How far the moments may be off; the defaults are those of docs/statistics.md for the CPU."""

    mean: float = 1e-12
    """Times mean_abs."""
    mean_abs: float = 1e-12
    l2: float = 1e-12
    std: float = 1e-12
    std_of_mean_abs: float = 1e-18
    """std may be off by this times mean_abs as well."""
    integer_std_of_range: float = 2.0**-52
    """std of integers may be off by this times max - min as well."""
    integer_means_are_exact: bool = True

    def of(self, expected: dict[str, float], integers: bool) -> dict[str, float]:
        """The allowed error of each moment."""
        mean_abs, std = expected["mean_abs"], expected["std"]
        exact = integers and self.integer_means_are_exact
        if integers:
            slack = self.integer_std_of_range * (expected["max"] - expected["min"])
        else:
            slack = self.std_of_mean_abs * mean_abs
        return {
            "mean": 0.0 if exact else self.mean * mean_abs,
            "mean_abs": 0.0 if exact else self.mean_abs * mean_abs,
            "l2": self.l2 * expected["l2"],
            "std": self.std * std + slack,
        }


CPU = Bounds()


def reference(values: list[float]) -> dict[str, float]:
    """The row of Python numbers, each entry correctly rounded."""
    numbers = [v for v in values if not math.isnan(v)]
    finite = [Fraction(v) for v in numbers if math.isfinite(v)]
    return {
        "count": len(values),
        "min": min(numbers, default=math.nan),
        "max": max(numbers, default=math.nan),
        **_moments(finite),
        "nan": len(values) - len(numbers),
        "posinf": sum(v == math.inf for v in values),
        "neginf": sum(v == -math.inf for v in values),
        "zero": sum(v == 0 for v in values),
        "negative": sum(v < 0 for v in values),
        "positive": sum(v > 0 for v in values),
    }


def _moments(finite: list[Fraction]) -> dict[str, float]:
    if not finite:
        return dict.fromkeys(MOMENTS, math.nan)
    # Over a common denominator, which is a power of two, the sums are of plain integers.
    bottom = max(v.denominator for v in finite)
    tops = [v.numerator * (bottom // v.denominator) for v in finite]
    count, total, squares = len(tops), sum(tops), sum(v * v for v in tops)
    return {
        "mean": float(Fraction(total, count * bottom)),
        "mean_abs": float(Fraction(sum(map(abs, tops)), count * bottom)),
        "l2": _sqrt(Fraction(squares, bottom**2)),
        "std": _sqrt(Fraction(count * squares - total**2, (count * bottom) ** 2)),
    }


def _sqrt(square: Fraction) -> float:
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 9999, -9999
        root = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
    return float(root)


def assert_row(
    row: object,
    values: list[float],
    bounds: Bounds = CPU,
    expected: dict[str, float] | None = None,
) -> None:
    """The row is the reference's: counts, min and max equal, moments within the bounds.

    Integers are expected of a row whose values are all Python ints.
    """
    expected = expected or reference(values)
    found = row._asdict()  # type: ignore[attr-defined]
    integers = bool(values) and all(type(v) is int for v in values)
    for name, value in expected.items():
        if name not in MOMENTS:
            assert _same(found[name], value), (name, found, expected)
    if integers:
        assert type(found["min"]) is int and type(found["max"]) is int
    for name, bound in bounds.of(expected, integers).items():
        assert _close(found[name], expected[name], bound), (name, found, expected)


def _same(found: float, expected: float) -> bool:
    return found == expected or (math.isnan(found) and math.isnan(expected))


def _close(found: float, expected: float, bound: float) -> bool:
    return _same(found, expected) or abs(found - expected) <= bound + 1e-322

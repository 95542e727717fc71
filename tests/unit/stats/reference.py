"""An independent row: exact fractions over Python numbers, nothing of the code under test."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

EMPTY_FLOATS = ("min", "max", "mean", "mean_abs", "l2", "std")


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
        return dict.fromkeys(("mean", "mean_abs", "l2", "std"), math.nan)
    count, total = len(finite), sum(finite)
    squares = sum(v * v for v in finite)
    return {
        "mean": float(total / count),
        "mean_abs": float(sum(map(abs, finite)) / count),
        "l2": _sqrt(squares),
        "std": _sqrt(squares / count - (total / count) ** 2),
    }


def _sqrt(square: Fraction) -> float:
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 9999, -9999
        root = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
    return float(root)


def assert_row(row: object, values: list[float]) -> None:
    """The row is the reference's, floats within the bounds of docs/statistics.md."""
    expected = reference(values)
    found = row._asdict()  # type: ignore[attr-defined]
    for name, value in expected.items():
        if name not in ("mean", "mean_abs", "l2", "std"):
            assert _same(found[name], value), (name, found, expected)
    scale = _bounds(expected)
    for name, bound in scale.items():
        assert _close(found[name], expected[name], bound), (name, found, expected)


def _bounds(expected: dict[str, float]) -> dict[str, float]:
    mean_abs, std = expected["mean_abs"], expected["std"]
    return {
        "mean": 1e-12 * mean_abs,
        "mean_abs": 1e-12 * mean_abs,
        "l2": 1e-12 * expected["l2"],
        "std": 1e-12 * std + 1e-18 * mean_abs,
    }


def _same(found: float, expected: float) -> bool:
    return found == expected or (math.isnan(found) and math.isnan(expected))


def _close(found: float, expected: float, bound: float) -> bool:
    return _same(found, expected) or abs(found - expected) <= bound + 1e-322

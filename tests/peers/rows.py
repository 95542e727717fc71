"""Rows computed again by NumPy and exact sums; docs/statistics.md says how near they must be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

_WIDENED = (torch.bfloat16,)
_RELATIVE = 1e-12
_ROUNDING = 2.0**-53
_LEAST = 5e-324
_COUNTS = ("count", "nan", "posinf", "neginf", "zero", "negative", "positive")
NAN = math.nan


class Expected(NamedTuple):
    """A row, and how far off each of its moments may be."""

    numbers: dict[str, float]
    allowed: dict[str, float]


def has_numbers(tensor: Tensor) -> bool:
    """Whether a tensor is one that has a row: strided, on the CPU, with its own memory."""
    return (
        type(tensor) in (Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor._is_zerotensor())
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and (tensor.dtype in _WIDENED or _numpy_knows(tensor.dtype))
        and (tensor.numel() == 0 or tensor.untyped_storage().nbytes() > 0)
    )


def _numpy_knows(dtype: torch.dtype) -> bool:
    return hasattr(np, str(dtype).removeprefix("torch.")) or dtype is torch.bool


def expected_row(tensor: Tensor) -> Expected:
    """The row of a tensor as it is now."""
    with torch.no_grad():
        plain = tensor.detach().resolve_conj().resolve_neg()
        if plain.dtype in _WIDENED:
            plain = plain.float()
        array = plain.numpy().ravel()
    if array.dtype.kind in "iub":
        return _of_integers([int(number) for number in array])
    if array.dtype.kind == "c":
        return _of_complex(array.astype(np.complex128))
    return _of_floats(array.astype(np.float64), 0.0, 0.0)


def _of_integers(numbers: Sequence[int]) -> Expected:
    row: dict[str, float] = {
        **_nothing(len(numbers)),
        "zero": numbers.count(0),
        "negative": sum(number < 0 for number in numbers),
        "positive": sum(number > 0 for number in numbers),
    }
    if not numbers:
        return Expected(row, _moments_within(row, 0.0))
    count, total = len(numbers), sum(numbers)
    spread = sum((count * number - total) ** 2 for number in numbers)
    row |= {
        "min": min(numbers),
        "max": max(numbers),
        "mean": total / count,
        "mean_abs": sum(map(abs, numbers)) / count,
        "l2": math.sqrt(sum(number * number for number in numbers)),
        "std": math.sqrt(spread / count**3),
    }
    allowed = _moments_within(row, 0.0)
    allowed["std"] += 2 * _ROUNDING * (row["max"] - row["min"])
    return Expected(row, allowed | {"mean": 0.0, "mean_abs": 0.0})


def _of_complex(array: Any) -> Expected:
    """Statistics of |x|: an infinite part makes it infinite, else a NaN part makes it NaN."""
    with np.errstate(all="ignore"):
        sizes = np.hypot(array.real, array.imag)
    return _of_floats(sizes, 4 * _ROUNDING, 1e-15)


def _of_floats(array: Any, rounding: float, of_mean_abs: float) -> Expected:
    row = {
        **_nothing(array.size),
        "nan": int(np.isnan(array).sum()),
        "posinf": int((array == np.inf).sum()),
        "neginf": int((array == -np.inf).sum()),
        "zero": int((array == 0).sum()),
        "negative": int((array < 0).sum()),
        "positive": int((array > 0).sum()),
    }
    numbers = array[~np.isnan(array)]
    if numbers.size:
        row |= {"min": float(numbers.min()), "max": float(numbers.max())}
    finite = [float(number) for number in array[np.isfinite(array)]]
    if finite:
        row |= _moments(finite)
    allowed = _moments_within(row, of_mean_abs)
    for name in ("min", "max"):
        allowed[name] = rounding * abs(row[name]) if math.isfinite(row[name]) else 0.0
    return Expected(row, allowed)


def _moments(numbers: Sequence[float]) -> dict[str, float]:
    """Sums without error, of numbers scaled so that squares neither overflow nor vanish."""
    largest = max(map(abs, numbers))
    power = math.frexp(largest)[1] if largest else 0
    scaled = [math.ldexp(number, -power) for number in numbers]
    count = len(numbers)
    mean = math.fsum(scaled) / count
    off = [number - mean for number in scaled]
    correction = math.fsum(off)
    spread = math.fsum(number * number for number in off) - correction * correction / count
    equal = min(numbers) == max(numbers)
    return {
        "mean": numbers[0] if equal else _scale(mean, power),
        "mean_abs": _scale(math.fsum(map(abs, scaled)) / count, power),
        "l2": _scale(math.sqrt(math.fsum(number * number for number in scaled)), power),
        "std": 0.0 if equal else _scale(math.sqrt(max(0.0, spread) / count), power),
    }


def _scale(number: float, power: int) -> float:
    try:
        return math.ldexp(number, power)
    except OverflowError:
        return math.inf


def _nothing(count: int) -> dict[str, float]:
    moments = dict.fromkeys(("min", "max", "mean", "mean_abs", "l2", "std"), NAN)
    return {**dict.fromkeys(_COUNTS, 0), **moments, "count": count}


def _moments_within(row: dict[str, float], of_mean_abs: float) -> dict[str, float]:
    """The bounds of docs/statistics.md, and a few units for what was computed here."""
    allowed = {
        "mean": _RELATIVE * row["mean_abs"],
        "mean_abs": _RELATIVE * row["mean_abs"],
        "l2": _RELATIVE * row["l2"],
        "std": _RELATIVE * row["std"] + (1e-18 + of_mean_abs) * row["mean_abs"],
    }
    slack = {"std": 8 * _ROUNDING * row["std"]}
    return {
        name: (bound + slack.get(name, 0.0) + _LEAST if math.isfinite(bound) else 0.0)
        for name, bound in allowed.items()
    }


def wrong_numbers(found: Any, expected: Expected) -> list[str]:
    """The numbers of a row that are not as they must be, in words."""
    return [
        f"{name} is {getattr(found, name)}, not {number}"
        for name, number in expected.numbers.items()
        if not _near(getattr(found, name), number, expected.allowed.get(name, 0.0))
    ]


def _near(found: float, expected: float, allowed: float) -> bool:
    if found == expected or (math.isnan(found) and math.isnan(expected)):
        return True
    return bool(allowed) and abs(found - expected) <= allowed

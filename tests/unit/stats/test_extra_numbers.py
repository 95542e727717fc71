"""Extra statistics against exact fractions: whatever the dtype, the layout and the numbers."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opscope.rundir.extra_files import HEAD_FIELDS
from opscope.stats import extra
from opscope.stats.elements import elements_of
from opscope.stats.row import Row

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int64", "int8", "uint8", "bool")
NASTY = [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 5e-324, 1e-45, 6e-8, 6e-5, 1e-40, 65504.0]
numbers = st.one_of(st.sampled_from(NASTY), st.floats(), st.floats(-10, 10), st.floats(99.0, 99.01))


def number(name: str, tensor: torch.Tensor) -> float:
    """The statistic of a tensor."""
    found = elements_of(tensor)
    assert found is not None
    (statistic,) = extra.load([name])
    return statistic.of(found)


def finite(tensor: torch.Tensor) -> list[Fraction]:
    """Its finite elements, exactly."""
    values = tensor.double().flatten().tolist()
    return [Fraction(value) for value in values if math.isfinite(value)]


def kurtosis(values: list[Fraction]) -> float:
    if not values or min(values) == max(values):
        return math.nan
    mean = sum(values) / len(values)
    squares = [(value - mean) ** 2 for value in values]
    fourths = sum(square * square for square in squares)
    return float(fourths * len(values) / sum(squares) ** 2)


def median_abs(values: list[Fraction]) -> float:
    return float(statistics.median(map(abs, values))) if values else math.nan


def close(found: float, expected: float, tolerance: float) -> bool:
    if math.isnan(expected):
        return math.isnan(found)
    return abs(found - expected) <= tolerance * abs(expected)


@given(st.lists(numbers, max_size=40), st.sampled_from(FLOATS))
def test_of_floats(values: list[float], dtype: str) -> None:
    tensor = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
    exact = finite(tensor)
    spread = max(exact) - min(exact) if exact else Fraction()
    largest = max(map(abs, exact)) if exact else Fraction()
    if spread > largest / 10**6 or not spread:  # below that the deviations have few digits
        assert close(number("kurtosis", tensor), kurtosis(exact), 1e-9)
    assert close(number("median_abs", tensor), median_abs(exact), 2**-52)
    smallest = torch.finfo(tensor.dtype).smallest_normal
    low = sum(0 < abs(value) < smallest for value in exact)
    assert close(number("subnormal", tensor), low / len(exact) if exact else math.nan, 0.0)


@given(st.lists(st.integers(-(2**40), 2**40), max_size=40), st.sampled_from(INTEGERS))
def test_of_integers(values: list[int], dtype: str) -> None:
    tensor = torch.tensor(values, dtype=torch.int64).to(getattr(torch, dtype))
    exact = finite(tensor)
    assert close(number("kurtosis", tensor), kurtosis(exact), 1e-9)
    assert close(number("median_abs", tensor), median_abs(exact), 2**-52)
    assert math.isnan(number("subnormal", tensor))


@pytest.mark.parametrize("name", extra.names())
def test_the_layout_makes_no_difference(name: str) -> None:
    values = torch.randn(37, 500, generator=torch.Generator().manual_seed(0)) * 1e-38
    expected = number(name, values.clone())
    for same in (values.t(), values[:, torch.randperm(500)], values.requires_grad_()):
        assert close(number(name, same), expected, 1e-12)
    assert close(number(name, values[:, ::7]), number(name, values[:, ::7].contiguous()), 1e-12)
    repeated = torch.tensor([[1.0], [2.0]]).expand(2, 30_000)
    assert close(number(name, repeated), number(name, repeated.contiguous()), 1e-12)


def test_of_known_distributions() -> None:
    generator = torch.Generator().manual_seed(1)
    normal = torch.randn(200_000, generator=generator)
    assert number("kurtosis", normal) == pytest.approx(3, abs=0.1)
    assert number("median_abs", normal) == pytest.approx(0.6745, abs=0.01)
    assert number("kurtosis", torch.rand(200_000, generator=generator)) == pytest.approx(1.8, 0.01)
    normal[0] = 1000.0
    assert number("kurtosis", normal) > 10_000
    gradients = (normal[1:] * 2.0**-16).half()
    assert 0.9 < number("subnormal", gradients) < 1.0
    assert number("subnormal", gradients * 1024) < 0.01


def test_huge_and_tiny_numbers_neither_overflow_nor_vanish() -> None:
    for scale in (1e300, 1e-300):
        tensor = torch.tensor([1.0, 2.0, 4.0, -3.0], dtype=torch.float64) * scale
        assert number("kurtosis", tensor) == pytest.approx(kurtosis(finite(tensor)), rel=1e-12)
    far = torch.tensor([1.7e308, -1.7e308, 1.7e308], dtype=torch.float64)
    assert number("kurtosis", far) == pytest.approx(1.5)
    assert number("median_abs", far) == 1.7e308


def test_subnormal_numbers_count_where_the_program_flushes_them() -> None:
    tensor = torch.tensor([1e-40, 1.0])
    assert torch.set_flush_denormal(True)
    try:
        assert number("subnormal", tensor) == 0.5
    finally:
        torch.set_flush_denormal(False)


def test_complex_numbers_count_by_their_size() -> None:
    tensor = torch.tensor([3 + 4j, 0j, complex(math.nan, 1), complex(math.inf, 0)])
    assert number("median_abs", tensor) == 2.5


def test_tensors_without_numbers_have_none() -> None:
    assert elements_of(torch.eye(2).to_sparse()) is None
    assert elements_of(torch.empty(2, device="meta")) is None
    assert elements_of(torch._efficientzerotensor(3)).finite.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", extra.names())
def test_a_statistic_says_what_it_is_and_takes_no_other_name(name: str) -> None:
    (statistic,) = extra.load([name])
    assert statistic.meaning.endswith(".") and len(statistic.meaning) > 20
    assert name not in HEAD_FIELDS and name not in Row._fields
    assert math.isnan(statistic.of(elements_of(torch.empty(0))))
    before = torch.randn(50)
    elements = elements_of(before)
    copied = elements.finite.copy()
    statistic.of(elements)
    assert np.array_equal(elements.finite, copied)

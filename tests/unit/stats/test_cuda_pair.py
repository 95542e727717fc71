"""Two tensors on a GPU (or in Triton's interpreter) against plain Python."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from cuda_device import DEVICE, examples, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.stats.cuda.pair import Pair, pair

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

numbers = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-30]) | st.floats(
    -100, 100, width=32
)


def expected(
    pairs: list[tuple[float, float]], rtol: float, atol: float, equal_nan: bool
) -> list[float]:
    finite = [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    known = [
        0.0 if a == b else abs(a - b) for a, b in pairs if not math.isnan(a) and not math.isnan(b)
    ]
    count = len(finite)
    mean = math.nan
    size = math.nan
    if count:
        mean = float(sum(abs(Fraction(a) - Fraction(b)) for a, b in finite) / count)
        size = float(sum(abs(Fraction(b)) for _, b in finite) / count)
    outside = 0
    for a, b in pairs:
        near = math.isfinite(a) and math.isfinite(b) and abs(a - b) <= atol + rtol * abs(b)
        both = equal_nan and math.isnan(a) and math.isnan(b)
        outside += not (near or a == b or both)
    nans = [sum(math.isnan(p[side]) for p in pairs) for side in (0, 1)]
    return [mean, size, max(known, default=math.nan), outside, count, *nans]


def assert_pair(found: Pair, wanted: list[float]) -> None:
    for name, one, other in zip(Pair._fields, found, wanted, strict=True):
        same = one == other or (math.isnan(one) and math.isnan(other))
        assert same or abs(one - other) <= 1e-12 * abs(other), (name, found, wanted)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers | st.just(1.0)), max_size=30),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
    st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.0, 1.0), (0.5, 50.0)]),
)
def test_pairs(
    pairs: list[tuple[float, float]], dtype: str, equal_nan: bool, level: tuple[float, float]
) -> None:
    a, b = (torch.tensor([p[side] for p in pairs], dtype=getattr(torch, dtype)) for side in (0, 1))
    exact = list(zip(a.double().tolist(), b.double().tolist(), strict=True))
    found = pair(a.to(DEVICE), b.to(DEVICE), *level, equal_nan=equal_nan)
    assert_pair(found, expected(exact, *level, equal_nan))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2", "int16", "uint8", "bool"])
def test_other_dtypes_beyond_a_tile(dtype: str) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (
        (torch.randn(3000, generator=generator) * 3).abs().to(getattr(torch, dtype))
        for _ in range(2)
    )
    exact = list(zip(a.double().tolist(), b.double().tolist(), strict=True))
    found = pair(a.to(DEVICE), b.to(DEVICE), 0.1, 0.5)
    assert_pair(found, expected(exact, 0.1, 0.5, False))


def test_integers_of_64_bits_are_subtracted_exactly() -> None:
    a, b = torch.tensor([2**62 + 1, -(2**63), 7]), torch.tensor([2**62, 2**63 - 1, 7])
    found = pair(a.to(DEVICE), b.to(DEVICE))
    assert (found.max_distance, found.outside) == (2.0**64, 2)
    high = [torch.tensor(v, dtype=torch.uint64) for v in ([2**64 - 1, 0], [2**64 - 2, 1])]
    assert pair(*(t.to(DEVICE) for t in high)).mean_distance == 1.0


def test_complex_numbers_are_compared_as_points() -> None:
    a = torch.tensor([1 + 1j, complex(math.inf, 1), complex(math.nan, 0), 2j])
    b = torch.tensor([1 - 2j, complex(0, math.inf), 0j, 2j])
    found = pair(a.to(DEVICE), b.to(DEVICE), 0, 3.5)
    assert found == Pair(1.5, (math.sqrt(5) + 2) / 2, math.inf, 2, 2, 1, 0)


def test_sums_may_overflow_where_means_do_not() -> None:
    a = torch.full((2000,), 1e308, dtype=torch.float64).to(DEVICE)
    found = pair(a, -a / 2)
    assert found.mean_distance == pytest.approx(1.5e308)
    assert found.mean_size == pytest.approx(5e307)


def test_layouts_of_both_sides() -> None:
    a = torch.arange(12.0).reshape(3, 4).to(DEVICE)
    b = a.t().contiguous().t()
    assert pair(a, b).max_distance == 0.0
    assert pair(a.t(), b.t() + 1).mean_distance == 1.0
    assert pair(a[:, ::2], b[:, 1::2]).mean_distance == 1.0
    assert pair(a[:1].expand(5, 4), b[1:2].expand(5, 4)) == Pair(4.0, 5.5, 4.0, 20, 20, 0, 0)


def test_different_tensors_are_refused() -> None:
    with pytest.raises(ValueError, match=r"torch.float32 \(3,\)"):
        pair(torch.zeros(3).to(DEVICE), torch.zeros(4).to(DEVICE))

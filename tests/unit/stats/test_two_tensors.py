"""Numbers about two tensors, against exact fractions, by NumPy and by the library."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implementations import NATIVE, Native

from helpers.examples import examples
from opscope.stats.two_tensors import Difference, difference, difference_of_arrays

torch = pytest.importorskip("torch")
Tensor = Any
Compute = Callable[..., Difference]


def by_numpy(a: Tensor, b: Tensor, rtol: float, atol: float, equal_nan: bool) -> Difference:
    from opscope.stats.torch_values import to_numpy

    return difference_of_arrays(to_numpy(a), to_numpy(b), rtol, atol, equal_nan)  # type: ignore[arg-type]


def by(variant: Native) -> Compute:
    def compute(a: Tensor, b: Tensor, rtol: float, atol: float, equal_nan: bool) -> Difference:
        with variant.forced():
            return difference(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)

    return compute


COMPUTE: dict[str, Compute] = {"numpy": by_numpy, **{one.name: by(one) for one in NATIVE}}
each = pytest.mark.parametrize("compute", COMPUTE.values(), ids=COMPUTE.keys())

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda t: t,
    "stepped": lambda t: torch.stack([t, t], dim=1)[:, 0],
    "transposed": lambda t: t[: len(t) // 3 * 3].reshape(-1, 3).t(),
    "transposed in memory": lambda t: t[: len(t) // 3 * 3].reshape(-1, 3).t().contiguous(),
    "expanded": lambda t: t.reshape(-1, 1).expand(-1, 4),
    "0-dim": lambda t: t[0] if len(t) else t,
    "of 70 dimensions": lambda t: t.reshape(*[1] * 35, -1, *[1] * 34),
    "stepped, of 70 dimensions": lambda t: torch.stack([t, t], dim=1)[(None,) * 35][
        (..., 0, *[None] * 34)
    ],
}
SAME_SHAPE = [
    ("plain", "plain"),
    ("plain", "stepped"),
    ("stepped", "stepped"),
    ("transposed", "transposed in memory"),
    ("transposed in memory", "transposed"),
    ("expanded", "expanded"),
    ("0-dim", "0-dim"),
    ("of 70 dimensions", "stepped, of 70 dimensions"),
]


def expected(
    a: list[float], b: list[float], rtol: float, atol: float, equal_nan: bool
) -> Difference:
    """The numbers by their definition."""
    pairs = list(zip(a, b, strict=True))
    known = [(x, y) for x, y in pairs if not (math.isnan(x) or math.isnan(y))]
    finite = [(x, y) for x, y in known if math.isfinite(x) and math.isfinite(y)]
    distances = [abs(Fraction(x) - Fraction(y)) for x, y in finite]
    largest = [float(d) for d in distances]
    largest += [0.0 if x == y else math.inf for x, y in known if math.isinf(x) or math.isinf(y)]
    return Difference(
        float(sum(distances) / len(finite)) if finite else math.nan,
        float(sum(abs(Fraction(y)) for _, y in finite) / len(finite)) if finite else math.nan,
        max(largest, default=math.nan),
        sum(not _near(x, y, rtol, atol, equal_nan) for x, y in pairs),
        len(finite),
        sum(math.isnan(x) for x in a),
        sum(math.isnan(y) for y in b),
    )


def _near(x: float, y: float, rtol: float, atol: float, equal_nan: bool) -> bool:
    if x == y or (equal_nan and math.isnan(x) and math.isnan(y)):
        return True
    return math.isfinite(x) and math.isfinite(y) and abs(x - y) <= atol + rtol * abs(y)


def elements(tensor: Tensor) -> list[float]:
    """The elements as Python numbers."""
    wide = tensor.double() if tensor.is_floating_point() else tensor
    found: list[float] = wide.flatten().numpy().tolist()
    return found


def check(
    compute: Compute,
    a: Tensor,
    b: Tensor,
    tolerances: tuple[float, float] = (0.0, 0.0),
    equal_nan: bool = False,
) -> Difference:
    """What was computed, after comparing it."""
    found = compute(a, b, *tolerances, equal_nan)
    wanted = expected(elements(a), elements(b), *tolerances, equal_nan)
    assert found[2:] == pytest.approx(wanted[2:], rel=0, abs=0, nan_ok=True)
    assert found[:2] == pytest.approx(wanted[:2], rel=1e-12, abs=1e-320, nan_ok=True)
    return found


nasty = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1.5])
tolerances = st.tuples(st.sampled_from([0.0, 0.1, 1e-3]), st.sampled_from([0.0, 0.5, 1e-8]))


@each
@settings(max_examples=examples(150), deadline=None)
@given(
    dtype=st.sampled_from(["float32", "float64", "bfloat16", "float16", "float8_e5m2"]),
    pairs=st.lists(st.tuples(*[nasty | st.floats(-100, 100, width=32)] * 2), max_size=30),
    repeat=st.integers(1, 40),
    layout=st.sampled_from(SAME_SHAPE),
    tolerances=tolerances,
    equal_nan=st.booleans(),
)
def test_floats(
    compute: Compute,
    dtype: str,
    pairs: list[tuple[float, float]],
    repeat: int,
    layout: tuple[str, str],
    tolerances: tuple[float, float],
    equal_nan: bool,
) -> None:
    pairs = pairs * repeat
    kind = getattr(torch, dtype)
    a, b = (
        LAYOUTS[how](torch.tensor([pair[side] for pair in pairs], dtype=torch.float32)).to(kind)
        for side, how in enumerate(layout)
    )
    check(compute, a, b, tolerances, equal_nan)


@each
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8", "?"])
@pytest.mark.parametrize("layout", SAME_SHAPE)
def test_integers(compute: Compute, dtype: str, layout: tuple[str, str]) -> None:
    kind = np.dtype(dtype)
    ends = [0, 1] if kind.kind == "b" else [int(np.iinfo(kind).min), int(np.iinfo(kind).max)]
    values = np.array([*ends, 1, 0, 1, *ends, 1, 1], kind)
    a, b = torch.from_numpy(values), torch.from_numpy(values[::-1].copy())
    a, b = LAYOUTS[layout[0]](a), LAYOUTS[layout[1]](b)
    if kind.kind == "b":
        found = compute(a, b, 0.0, 0.0, False)
        assert found.outside == int((a != b).sum())
    else:
        check(compute, a, b, (0.0, 1.0))


@each
def test_complex(compute: Compute) -> None:
    a = torch.tensor([3 + 4j, 1 + 1j, complex(math.inf, 0), complex(math.nan, 0), 2 + 0j])
    b = torch.tensor([0j, 1 + 1j, complex(math.inf, 0), 1 + 0j, complex(0, -math.inf)])
    found = compute(a, b, 0.0, 1.0, False)
    assert found[:2] == pytest.approx((2.5, 2**0.5 / 2))
    assert found[2:] == (math.inf, 3, 2, 1, 0)
    conjugate = compute(a[:2].conj(), a[:2], 0.0, 0.0, False)
    assert conjugate.max == 8.0


@each
def test_means_of_the_largest_numbers_do_not_overflow(compute: Compute) -> None:
    a = torch.full((9,), 1.7e308, dtype=torch.float64)
    b = torch.full((9,), 1e308, dtype=torch.float64)
    found = check(compute, a, b)
    assert found.mean == pytest.approx(7e307, rel=1e-12)
    assert found.mean_abs_b == pytest.approx(1e308, rel=1e-12)


@each
def test_many(compute: Compute) -> None:
    a = torch.randn(300_000, generator=torch.Generator().manual_seed(0))
    b = a + 1e-3 * torch.randn(300_000, generator=torch.Generator().manual_seed(1))
    found = compute(a, b, 0.0, 1e-3, False)
    apart = (a.double() - b.double()).abs()
    assert found.mean == pytest.approx(float(apart.mean()), rel=1e-9)
    assert (found.max, found.outside) == (float(apart.max()), int((apart > 1e-3).sum()))


@each
def test_nothing_to_compare(compute: Compute) -> None:
    nothing = compute(torch.empty(0, 3), torch.empty(0, 3), 0.0, 0.0, False)
    assert all(math.isnan(value) for value in nothing[:3])
    assert nothing[3:] == (0, 0, 0, 0)


def test_two_dtypes() -> None:
    found = difference(torch.tensor([1, 2]), torch.tensor([1.5, 2.0]))
    assert (found.mean, found.max) == (0.25, 0.5)


def test_two_shapes_have_no_pairs() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        difference(torch.ones(2), torch.ones(3))

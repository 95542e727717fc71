"""Rows against exact fractions, over dtypes, layouts and nasty numbers, by every implementation."""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from implementations import Implementation, each_implementation
from reference import assert_row, reference

from helpers.examples import examples
from opscope.stats.row import EMPTY, Row

torch = pytest.importorskip("torch")
Tensor = Any

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda t: t,
    "transposed": lambda t: t[: len(t) // 2 * 2].reshape(-1, 2).t(),
    "stepped": lambda t: t[::2],
    "column": lambda t: torch.stack([t, t], dim=1)[:, 0],
    "offset": lambda t: t[1:],
    "expanded": lambda t: t.unsqueeze(0).expand(3, -1),
    "expanded inside": lambda t: t.reshape(-1, 1).expand(-1, 5),
    "overlapping": lambda t: t.unfold(0, 2, 1) if len(t) > 1 else t,
    "cut": lambda t: t[: len(t) // 4 * 4].reshape(-1, 2, 2).permute(1, 2, 0)[:, 1:],
    "0-dim": lambda t: t[0] if len(t) else t,
    "empty": lambda t: t[:0].reshape(0, 2),
    "of one": lambda t: t.reshape(1, -1, 1),
    "of 70 dimensions": lambda t: t.reshape(*[1] * 35, -1, *[1] * 34),
    "transposed, of 70 dimensions": lambda t: (
        t[: len(t) // 2 * 2].reshape(*[1] * 40, -1, *[1] * 28, 2).transpose(40, 69)
    ),
    "parameter": lambda t: torch.nn.Parameter(t, requires_grad=t.is_floating_point()),
}
layouts = st.sampled_from(sorted(LAYOUTS))

NARROW_FLOATS = [
    *("float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]
INTS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def laid_out(layout: str, tensor: Tensor) -> Tensor:
    """The tensor in that layout, which some dtypes can only take as bytes."""
    if "float8" in str(tensor.dtype):
        return LAYOUTS[layout](tensor.view(torch.uint8)).view(tensor.dtype)
    return LAYOUTS[layout](tensor)


def numbers(tensor: Tensor) -> list[float]:
    """The elements as Python numbers, bools as ints."""
    tensor = tensor.detach()
    if tensor.is_floating_point():
        tensor = tensor.to(torch.float64)
    found: list[float] = tensor.flatten().numpy().tolist()
    return [int(v) for v in found] if tensor.dtype == torch.bool else found


def check(implementation: Implementation, tensor: Tensor) -> Row:
    """The implementation's row of the tensor, after comparing it."""
    row = implementation.row(tensor)
    assert_row(row, numbers(tensor), implementation.bounds)
    return row


def floats(width: int) -> st.SearchStrategy[float]:
    """Any float of this width, with the nasty ones often."""
    limits = {32: float(np.finfo("f4").max), 64: float(np.finfo("f8").max)}
    smallest = {32: 2.0**-149, 64: 5e-324}[width]
    nasty = [math.nan, math.inf, -math.inf, 0.0, -0.0, limits[width], -limits[width], smallest]
    return st.sampled_from(nasty) | st.floats(width=width) | st.floats(-10, 10, width=width)


def repeated(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
    """Few numbers, or so many that vector loops run and have something left over."""
    lists = st.lists(numbers, max_size=40)
    return lists | st.tuples(lists, st.integers(1, 40)).map(lambda pair: pair[0] * pair[1])


@each_implementation
@settings(max_examples=examples(200), deadline=None)
@given(width=st.sampled_from([32, 64]), layout=layouts, data=st.data())
def test_floats(
    implementation: Implementation, width: int, layout: str, data: st.DataObject
) -> None:
    values = data.draw(repeated(floats(width)))
    check(implementation, LAYOUTS[layout](torch.tensor(values, dtype=_float(width))))


def _float(width: int) -> Any:
    return torch.float32 if width == 32 else torch.float64


@each_implementation
@pytest.mark.parametrize(
    ("width", "values"),
    [
        (64, [1e200, -1e200, 3.0]),
        (64, [1.7e308, 1.7e308, -1.7e308]),
        (64, [5e-324, -5e-324, 1e-310]),
        (64, [1e16, 1e16 + 2]),
        (64, [1e16, 1e16 + 2] * 2000 + [1e16 + 4]),
        (64, [1e200, math.nan, -math.inf]),
        (32, [1e8, 1e8 + 8, 1e8 + 16]),
        (32, [1e30] + [1.0] * 5000),
        (32, [0.0] * 4096 + [1e30, -1e30]),
        (32, [1000.0] * 3000 + [1e-3, -1e-3] * 3000),
        (32, [3e38] * 5000),
        (32, [2.0**-149, -(2.0**-149)] * 50),
    ],
)
def test_hard_floats(implementation: Implementation, width: int, values: list[float]) -> None:
    check(implementation, torch.tensor(values, dtype=_float(width)))


@each_implementation
@settings(max_examples=examples(200), deadline=None)
@given(dtype=st.sampled_from(NARROW_FLOATS), layout=layouts, data=st.data())
def test_narrow_floats(
    implementation: Implementation, dtype: str, layout: str, data: st.DataObject
) -> None:
    kind = getattr(torch, dtype)
    if kind.itemsize == 1:
        values = data.draw(st.lists(st.integers(0, 255), max_size=60))
        tensor = torch.tensor(values, dtype=torch.uint8).view(kind)
    else:
        values = data.draw(repeated(floats(32) | st.sampled_from([65504.0, 2.0**-24])))
        tensor = torch.tensor(values, dtype=torch.float32).to(kind)
    check(implementation, laid_out(layout, tensor))


@each_implementation
@pytest.mark.parametrize("dtype", list(NARROW_FLOATS))
def test_every_narrow_float_there_is(implementation: Implementation, dtype: str) -> None:
    kind = getattr(torch, dtype)
    bits = np.arange(256 if kind.itemsize == 1 else 65536)
    plain = torch.from_numpy(bits.astype(f"u{kind.itemsize}")).view(kind)
    check(implementation, plain)


@each_implementation
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int16"])
@pytest.mark.parametrize("offset", [-200, -100, -99, 0, 1, 200])
def test_one_sign_and_both(implementation: Implementation, dtype: str, offset: int) -> None:
    values = (torch.arange(100) * 7 % 100 + offset).repeat(3).to(getattr(torch, dtype))
    for count in (31, 32, 64, 97, 300):
        check(implementation, values[:count])


@each_implementation
@settings(max_examples=examples(150), deadline=None)
@given(dtype=st.sampled_from(INTS), layout=layouts, data=st.data())
def test_integers(
    implementation: Implementation, dtype: str, layout: str, data: st.DataObject
) -> None:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    ends = [0, 1, low, high, high // 2**20, low // 2**20]
    values = data.draw(repeated(st.integers(low, high) | st.sampled_from(ends)))
    tensor = torch.from_numpy(np.array(values, dtype))
    check(implementation, LAYOUTS[layout](tensor))


@each_implementation
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("i8", [2**62, 2**62 + 1, 2**62 + 2]),
        ("i8", [-(2**63), 2**63 - 1]),
        ("i8", [-(2**63)] * 5000),
        ("i8", [2**42, -(2**42), 2**42 - 1, 5] * 1000),
        ("i8", [2**41, 2**60] * 4000),
        ("i8", [2**50 + 3 * step for step in range(3000)]),
        ("u8", [2**50 + 3 * step for step in range(3000)]),
        ("u8", [2**64 - 1, 0, 2**63]),
        ("u8", [2**64 - 1] * 5000),
        ("u4", [2**32 - 1] * 5000 + [0]),
        ("i4", [-(2**31)] * 5000 + [2**31 - 1]),
    ],
)
def test_hard_integers(implementation: Implementation, dtype: str, values: list[int]) -> None:
    check(implementation, torch.from_numpy(np.array(values, dtype)))


@each_implementation
@settings(max_examples=examples(60), deadline=None)
@given(values=st.lists(st.booleans(), max_size=200), layout=layouts)
def test_bools_are_zero_and_one(
    implementation: Implementation, values: list[bool], layout: str
) -> None:
    check(implementation, LAYOUTS[layout](torch.tensor(values, dtype=torch.bool)))


@each_implementation
@settings(max_examples=examples(150), deadline=None)
@given(
    dtype=st.sampled_from(["complex64", "complex128"]),
    values=st.lists(
        st.complex_numbers(max_magnitude=1e30) | st.sampled_from([3 + 4j, 0j]), max_size=20
    ),
    odd=st.lists(
        st.sampled_from(
            [
                *(complex(math.nan, 1), complex(math.inf, 0), complex(-math.inf, math.nan)),
                *(complex(1e200, -1e200), complex(1.7e308, 1.7e308), complex(1e-320, 0)),
            ]
        ),
        max_size=3,
    ),
    layout=layouts,
)
def test_complex_is_of_the_modulus(
    implementation: Implementation,
    dtype: str,
    values: list[complex],
    odd: list[complex],
    layout: str,
) -> None:
    tensor = LAYOUTS[layout](torch.tensor(values + odd, dtype=torch.complex128).to(_kind(dtype)))
    elements = tensor.flatten().numpy().tolist()
    row, expected = (
        implementation.row(tensor),
        reference([math.hypot(v.real, v.imag) for v in elements]),
    )
    for name in ("count", "nan", "posinf", "neginf", "zero", "negative", "positive"):
        assert getattr(row, name) == expected[name]
    for name in ("min", "max", "mean", "mean_abs", "l2"):
        found, wanted = getattr(row, name), expected[name]
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-300, nan_ok=True), name
    slack = 1e-15 * expected["mean_abs"]
    assert row.std == pytest.approx(expected["std"], rel=1e-12, abs=slack, nan_ok=True)


def _kind(name: str) -> Any:
    return getattr(torch, name)


@functools.cache
def many(count: int, dtype: str) -> tuple[Tensor, dict[str, float]]:
    """So many numbers, and what is expected of them; the exact answer takes a second."""
    rng = np.random.default_rng(count)
    if dtype.startswith("f"):
        array = rng.normal(100, 0.5, count).astype(dtype)
        array[[3, count // 2, count - 1]] = [np.nan, np.inf, -np.inf]
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        array = rng.integers(low, high, count, dtype=dtype, endpoint=True)
    return torch.from_numpy(array), reference(array.tolist())


@each_implementation
@pytest.mark.parametrize("count", [8191, 8193, 5 * 8192 + 77, 2**18 + 4099])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "i8", "u8"])
def test_many_elements(implementation: Implementation, count: int, dtype: str) -> None:
    tensor, expected = many(count, dtype)
    row = implementation.row(tensor)
    assert_row(row, numbers(tensor), implementation.bounds, expected)


@functools.cache
def many_strided() -> list[tuple[Tensor, dict[str, float]]]:
    """Parts of a cube that lie in memory with gaps or again and again."""
    cube = torch.randn(7, 90, 211, generator=torch.Generator().manual_seed(3)) ** 3
    views = (cube[:, 3:, ::2], cube.permute(2, 0, 1)[1:], cube[:, :1].expand(7, 30, 211))
    tensors = [*views, *(view.bfloat16() for view in views)]
    return [(tensor, reference(numbers(tensor))) for tensor in tensors]


@each_implementation
def test_many_strided_elements(implementation: Implementation) -> None:
    for tensor, expected in many_strided():
        row = implementation.row(tensor)
        assert_row(row, numbers(tensor), implementation.bounds, expected)


@each_implementation
def test_blocks_that_lie_far_apart(implementation: Implementation) -> None:
    parts = [torch.full((5000,), level) + torch.rand(5000) for level in (0.0, 1e6, -1e3, 5e-3)]
    check(implementation, torch.cat(parts))
    check(implementation, torch.cat([parts[1], torch.zeros(200_000)]))


@each_implementation
def test_a_tiny_spread_far_from_zero_is_not_lost(implementation: Implementation) -> None:
    tensor = torch.full((50_000,), 1000.0, dtype=torch.float64)
    tensor[1::2] += 1e-9
    row = check(implementation, tensor)
    assert 4.9e-10 < row.std < 5.1e-10


@each_implementation
@pytest.mark.parametrize(
    ("value", "width"),
    [(0.1, 32), (0.1, 64), (0.7, 64), (1 / 3, 64), (-1e300, 64), (3e-320, 64), (-0.3, 32)],
)
def test_equal_elements_have_exactly_no_spread(
    implementation: Implementation, value: float, width: int
) -> None:
    for count in (3, 49, 30_001):
        row = implementation.row(torch.full((count,), value, dtype=_float(width)))
        assert row.std == 0.0
        assert row.mean == row.min == row.max
        assert row.mean_abs == abs(row.mean)


@each_implementation
def test_means_of_the_largest_numbers_do_not_overflow(implementation: Implementation) -> None:
    largest = float(np.finfo("f8").max)
    for count in range(1, 60):
        row = implementation.row(torch.from_numpy(np.resize([largest, -largest], count)))
        assert row.mean_abs == pytest.approx(largest, rel=1e-12)
        assert abs(row.mean) <= largest
        assert row.std <= largest


@each_implementation
def test_std_is_of_the_population(implementation: Implementation) -> None:
    assert implementation.row(torch.tensor([1.0, 3.0])).std == 1.0
    assert implementation.row(torch.tensor([7.0])).std == 0.0


@each_implementation
def test_a_nan_does_not_blind_the_rest(implementation: Implementation) -> None:
    row = implementation.row(torch.tensor([3.0, -4.0, math.nan, math.inf]))
    assert (row.l2, row.mean, row.min, row.max) == (5.0, -0.5, -4.0, math.inf)
    assert (row.nan, row.posinf, row.neginf, row.finite) == (1, 1, 0, 2)


@each_implementation
def test_min_and_max_leave_out_nan_and_keep_infinities(implementation: Implementation) -> None:
    row = implementation.row(torch.tensor([math.nan, -math.inf, math.nan]))
    assert (row.min, row.max) == (-math.inf, -math.inf)
    assert math.isnan(row.mean) and math.isnan(row.l2)
    assert (row.negative, row.positive, row.zero) == (1, 0, 0)


@each_implementation
def test_negative_zero_is_zero(implementation: Implementation) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        row = implementation.row(torch.tensor([-0.0, 0.0, -1.0] * 40, dtype=dtype))
        assert (row.zero, row.negative, row.positive) == (80, 40, 0)


@each_implementation
def test_l2_overflows_only_when_it_must(implementation: Implementation) -> None:
    def row(value: float) -> Row:
        return implementation.row(torch.full((4,), value, dtype=torch.float64))

    assert row(1e307).l2 == pytest.approx(2e307, rel=1e-15)
    assert row(1.7e308).l2 == math.inf
    assert row(1.7e308).mean_abs == 1.7e308


@each_implementation
def test_empty_has_no_numbers(implementation: Implementation) -> None:
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
        for tensor in (torch.empty((0, 4), dtype=dtype), torch.empty(4, 1, 0, dtype=dtype).mT):
            assert str(implementation.row(tensor)) == str(EMPTY)


@each_implementation
def test_conjugated_and_negated_tensors(implementation: Implementation) -> None:
    tensor = torch.tensor([3 + 4j, -1 - 1j])
    assert implementation.row(tensor.conj()).max == 5.0
    negated = tensor.conj().imag
    assert negated.is_neg()
    assert (implementation.row(negated).min, implementation.row(negated).max) == (-4.0, 1.0)


@each_implementation
def test_complex32(implementation: Implementation) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.tensor([3 + 4j, 0j]).to(torch.complex32)
    row = implementation.row(tensor)
    assert (row.l2, row.zero, row.max) == (5.0, 1, 5.0)


@each_implementation
@pytest.mark.parametrize(
    ("dtype", "byte"), [("int4", "int8"), ("uint1", "uint8"), ("uint7", "uint8"), ("int1", "int8")]
)
def test_integers_below_a_byte(implementation: Implementation, dtype: str, byte: str) -> None:
    values = [1, -2] if byte == "int8" else [1, 200]
    tensor = torch.tensor(values, dtype=getattr(torch, byte)).view(getattr(torch, dtype))
    assert_row(implementation.row(tensor), values, implementation.bounds)


@each_implementation
def test_rows_are_plain_python_numbers(implementation: Implementation) -> None:
    for tensor in (
        torch.tensor([1.0, math.nan]),
        torch.arange(3),
        torch.ones(2, dtype=torch.bool),
        torch.tensor([2**64 - 1], dtype=torch.uint64),
    ):
        assert {type(value) for value in implementation.row(tensor)} <= {int, float}


@pytest.mark.skipif(not os.environ.get("OPSCOPE_LARGE"), reason="needs memory and minutes")
@each_implementation
def test_more_elements_than_31_bits_count(implementation: Implementation) -> None:
    count = 2**31 + 5
    tensor = torch.zeros(count, dtype=torch.int8)
    tensor[0], tensor[-1] = -3, 5
    row = implementation.row(tensor)
    assert (row.count, row.zero, row.negative, row.positive) == (count, count - 2, 1, 1)
    assert (row.min, row.max, row.mean) == (-3, 5, 2 / count)
    del tensor
    tenths = torch.full((count,), 0.1, dtype=torch.bfloat16)
    tenth, tenths[0] = Fraction(tenths[1].item()), 2.0
    row = implementation.row(tenths)
    assert row.count == row.positive == count
    exact = float(((count - 1) * tenth + 2) / count)
    assert row.mean == pytest.approx(exact, rel=implementation.bounds.mean, abs=0)
    if implementation.name != "numpy":
        assert implementation.row(tenths[:2, None].expand(2, 2**32)).count == 2**33


@each_implementation
@example(values=[0.5])
@settings(max_examples=examples(30), deadline=None)
@given(values=st.lists(st.floats(width=32), min_size=1, max_size=30))
def test_the_tensor_is_left_as_it_was(implementation: Implementation, values: list[float]) -> None:
    tensor = torch.tensor(values)
    before = tensor.numpy().tobytes()
    implementation.row(tensor)
    assert tensor.numpy().tobytes() == before

"""Rows from the bits as they are stored: every size around a block's, wherever the memory begins.

The lean loops take elements as they lie in memory, in steps and blocks whose ends are where
mistakes would be. So every case has its length near such an end, bits that mean something, an
address that need not be aligned, and steps that may be backwards.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implementations import NATIVE, Native
from numpy.typing import NDArray
from reference import assert_row, reference

from helpers.examples import examples
from opscope.stats import native_cpu
from opscope.stats.record import DTYPES, ROW_DTYPE, row_from
from opscope.stats.row import Row
from opscope.stats.two_tensors import difference_of_arrays

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not NATIVE, reason="no native library here")

each_variant = pytest.mark.parametrize("variant", NATIVE, ids=[one.name for one in NATIVE])

FLOAT_BITS: dict[str, list[int]] = {
    "float16": [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x8400, 0x7BFF, 0xFBFF, 0x3C00],
    "bfloat16": [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x8080, 0x7F7F, 0xFF7F, 0x3F80],
    "float32": [0, 1 << 31, 1, (1 << 31) + 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF],
    "float64": [0, 1 << 63, 1, (1 << 63) + 1, 0x10000000000000, 0x3FF0000000000000],
    "float8_e4m3fn": [0, 0x80, 1, 0x81, 7, 8, 0x7E, 0xFE, 0x38],
    "float8_e5m2": [0, 0x80, 1, 0x81, 3, 4, 0x7B, 0xFB, 0x3C],
    "float8_e4m3fnuz": [0, 1, 0x81, 7, 8, 0x7F, 0xFF, 0x40],
    "float8_e5m2fnuz": [0, 1, 0x81, 3, 4, 0x7F, 0xFF, 0x40],
    "float8_e8m0fnu": [0, 1, 2, 126, 127, 128, 253, 254],
}
"""Finite numbers: both zeros, the first and last denormals and normals of both signs."""

BAD_BITS: dict[str, list[int]] = {
    "float16": [0x7C00, 0xFC00, 0x7C01, 0xFE00, 0x7FFF, 0xFFFF],
    "bfloat16": [0x7F80, 0xFF80, 0x7F81, 0xFFC0, 0x7FFF, 0xFFFF],
    "float32": [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF],
    "float64": [0x7FF << 52, 0xFFF << 52, (0x7FF << 52) + 1, (1 << 64) - 1],
    "float8_e4m3fn": [0x7F, 0xFF],
    "float8_e5m2": [0x7C, 0xFC, 0x7D, 0xFF],
    "float8_e4m3fnuz": [0x80],
    "float8_e5m2fnuz": [0x80],
    "float8_e8m0fnu": [255],
}
"""Infinities and NaN."""

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]

ENDS = (1, 8, 16, 32, 64, 1024, 2048, 4096, 8192, 16384)
"""Of steps and blocks, in elements."""
sizes = st.tuples(st.sampled_from(ENDS), st.integers(-3, 3)).map(lambda pair: max(sum(pair), 0))


class Placed(NamedTuple):
    """Bits somewhere in memory: so many elements, so far apart, from an odd address on or not."""

    bits: NDArray[Any]
    memory: NDArray[np.uint8]
    address: int
    step: int


def placed(bits: NDArray[Any], step: int, shift: int) -> Placed:
    """The elements in memory of their own, which ends where they end."""
    gap, size = abs(step), bits.itemsize
    memory = np.full(shift + max(((len(bits) - 1) * gap + 1) * size, 0), 0xA5, np.uint8)
    spread = np.ndarray(len(bits), bits.dtype, memory, shift, (gap * size,))
    spread[:] = bits if step > 0 else bits[::-1]
    first = shift + (0 if step > 0 else (len(bits) - 1) * gap * size)
    return Placed(bits, memory, memory.ctypes.data + first, step)


def row_of_bits(variant: Native, where: Placed, dtype: str, threads: int = 1) -> Row:
    """The library's row of the elements."""
    library = native_cpu.load()
    assert library is not None
    record, one = np.zeros(1, ROW_DTYPE), ctypes.c_int64 * 1
    layout = one(len(where.bits)), one(where.step)
    with variant.forced():
        failed = library.opscope_row(
            where.address, DTYPES[dtype], 1, *layout, threads, None, None, record.ctypes.data
        )
    assert not failed
    return row_from(record[0])


def float_values(bits: NDArray[Any], dtype: str) -> list[float]:
    """What the bits mean, by torch, as float64."""
    wide = torch.from_numpy(bits.copy()).view(getattr(torch, dtype)).to(torch.float64)
    found: list[float] = wide.tolist()
    return found


@st.composite
def filled(draw: st.DrawFn, pool: list[int], size: int, width: int) -> NDArray[Any]:
    """Few different bits again and again, or all kinds."""
    count, kind = draw(sizes), np.dtype(f"u{width}")
    some = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=size))
    return np.resize(np.array(some, kind), count)


LENGTHS = (31, 64, 130, 257, 1500)
"""Of rows, some of them long enough to be read in place."""
placements = st.tuples(st.sampled_from([1, 1, 1, 2, 3, -1, -2]), st.sampled_from([0, 0, 1, 2, 7]))


def width_of(dtype: str) -> int:
    return int(getattr(torch, dtype).itemsize)


@each_variant
@pytest.mark.parametrize("dtype", sorted(FLOAT_BITS))
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), where=placements)
def test_finite_floats(
    variant: Native, dtype: str, data: st.DataObject, where: tuple[int, int]
) -> None:
    bits = data.draw(filled(FLOAT_BITS[dtype], 9, width_of(dtype)))
    row = row_of_bits(variant, placed(bits, *where), dtype)
    assert_row(row, float_values(bits, dtype))


@each_variant
@pytest.mark.parametrize("dtype", sorted(FLOAT_BITS))
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), where=placements)
def test_a_few_that_are_not_finite(
    variant: Native, dtype: str, data: st.DataObject, where: tuple[int, int]
) -> None:
    """A block is done again if any element, at whatever end of it, is NaN or infinite."""
    bits = data.draw(filled(FLOAT_BITS[dtype], 9, width_of(dtype)))
    if len(bits):
        spots = st.sampled_from([0, -1, len(bits) // 2]) | st.integers(0, len(bits) - 1)
        for spot in data.draw(st.lists(spots, min_size=1, max_size=3)):
            bits[spot] = data.draw(st.sampled_from(BAD_BITS[dtype]))
    row = row_of_bits(variant, placed(bits, *where), dtype)
    assert_row(row, float_values(bits, dtype))


@each_variant
@pytest.mark.parametrize("dtype", sorted(FLOAT_BITS))
@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 2**32), count=sizes, where=placements)
def test_any_bits(
    variant: Native, dtype: str, seed: int, count: int, where: tuple[int, int]
) -> None:
    random = np.random.default_rng(seed)
    kind = np.dtype(f"u{width_of(dtype)}")
    bits = random.integers(0, np.iinfo(kind).max, count, kind, endpoint=True)
    row = row_of_bits(variant, placed(bits, *where), dtype)
    assert_row(row, float_values(bits, dtype))


@each_variant
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_of_one_sign(variant: Native, dtype: str, sign: int) -> None:
    """The least of positive and the greatest of negative numbers come from bits of one half."""
    values = sign * (1 + torch.arange(100) / 128)
    bits = values.to(getattr(torch, dtype)).view(torch.uint8).numpy().view(f"u{width_of(dtype)}")
    for count in (1, 31, 33, 100):
        row = row_of_bits(variant, placed(bits[:count], 1, 0), dtype)
        assert_row(row, float_values(bits[:count], dtype))


@each_variant
@pytest.mark.parametrize("dtype", INTEGERS)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), where=placements)
def test_integers(variant: Native, dtype: str, data: st.DataObject, where: tuple[int, int]) -> None:
    limits, small = np.iinfo(dtype), 2**42
    low, high = int(limits.min), int(limits.max)
    edges = {low, low + 1, -1, 0, 1, high - 1, high, small, small - 1, -small, -small - 1}
    inside = sorted(value for value in edges if low <= value <= high)
    some = data.draw(st.lists(st.sampled_from(inside) | st.integers(low, high), min_size=1))
    values = np.resize(np.array(some, dtype), data.draw(sizes))
    row = row_of_bits(variant, placed(values, *where), dtype)
    assert_row(row, values.tolist())


@each_variant
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), where=placements)
def test_any_byte_but_zero_is_true(
    variant: Native, data: st.DataObject, where: tuple[int, int]
) -> None:
    values = data.draw(filled([0, 0, 1, 2, 127, 128, 255], 9, 1))
    row = row_of_bits(variant, placed(values, *where), "bool")
    assert_row(row, [int(value != 0) for value in values])


@each_variant
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), where=placements)
def test_complex(variant: Native, dtype: str, data: st.DataObject, where: tuple[int, int]) -> None:
    parts = [0.0, -0.0, 3.0, -4.0, 1e-30, 1e30, -1e-38]
    if dtype == "complex128":
        parts += [1e-200, -1e-160, 1e200, 5e-324]
    parts += data.draw(st.sampled_from([[], [math.nan, math.inf], [-math.inf]]))
    numbers = st.builds(complex, st.sampled_from(parts), st.sampled_from(parts))
    some = data.draw(st.lists(numbers, min_size=1, max_size=8))
    values = np.resize(np.array(some, dtype), data.draw(sizes))
    row = row_of_bits(variant, placed(values, *where), dtype)
    expected = reference([math.hypot(v.real, v.imag) for v in values.tolist()])
    for name in ("count", "nan", "posinf", "neginf", "zero", "negative", "positive"):
        assert getattr(row, name) == expected[name], name
    for name in ("min", "max", "mean", "mean_abs", "l2"):
        wanted = pytest.approx(expected[name], rel=1e-12, abs=1e-300, nan_ok=True)
        assert getattr(row, name) == wanted, name
    slack = 1e-15 * expected["mean_abs"] + 1e-300
    assert row.std == pytest.approx(expected["std"], rel=1e-12, abs=slack, nan_ok=True)


@each_variant
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "int8", "int64"])
@settings(max_examples=examples(20), deadline=None)
@given(rows=st.integers(1, 9), columns=st.sampled_from(LENGTHS), cut=st.integers(1, 5))
def test_rows_with_gaps_between_them(
    variant: Native, dtype: str, rows: int, columns: int, cut: int
) -> None:
    """Long rows are read where they are, many of them into one block."""
    random = np.random.default_rng(rows * columns)
    whole = torch.from_numpy(random.normal(0, 30, (rows, columns))).to(getattr(torch, dtype))
    if dtype.startswith(("float", "bfloat")) and cut % 2:
        whole[0, 0] = math.nan
    for view in (whole[:, cut:], whole[:, :-cut], whole.t()[cut:]):
        wide = view.double() if view.is_floating_point() else view
        assert_row(variant.row(view), wide.flatten().tolist())


@each_variant
@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "int64", "float64"])
def test_several_threads(variant: Native, dtype: str) -> None:
    random = np.random.default_rng(0)
    tensor = torch.from_numpy(random.normal(0, 30, 3 * 2**20 + 17)).to(getattr(torch, dtype))
    bits = tensor.view(torch.uint8).numpy().view(f"u{width_of(dtype)}")
    where = placed(bits, 1, 1)
    rows = [str(row_of_bits(variant, where, dtype, threads)) for threads in (1, 3)]
    assert rows[0] == rows[1]


@each_variant
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u8", "c8", "?"])
@settings(max_examples=examples(20), deadline=None)
@given(count=sizes, places=st.tuples(placements, placements))
def test_two_tensors(
    variant: Native, dtype: str, count: int, places: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    random = np.random.default_rng(count)
    with np.errstate(all="ignore"):
        pair = [(random.normal(0, 30, count)).astype(dtype) for _ in range(2)]
    first, second = (placed(one, *where) for one, where in zip(pair, places, strict=True))
    library, one, out = native_cpu.load(), ctypes.c_int64 * 1, (ctypes.c_double * 7)()
    assert library is not None
    with variant.forced():
        failed = library.opscope_pair(
            *(first.address, second.address, DTYPES[pair[0].dtype.name], 1, one(count)),
            *(one(first.step), one(second.step), 0.1, 1.0, 0, 1, out),
        )
    assert not failed
    expected = difference_of_arrays(*pair, 0.1, 1.0, False)
    assert list(out) == pytest.approx(list(expected), rel=1e-12, nan_ok=True)

"""The native library beyond its rows: threads, ranges, arrays, CSV, and doing without it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implementations import NATIVE, Native
from reference import assert_row

from helpers.examples import examples
from opscope import messages
from opscope.native import build
from opscope.stats import native_cpu
from opscope.stats.record import DTYPES, ROW_BYTES, ROW_DTYPE, row_from, write_numbers
from opscope.stats.row import Row
from opscope.stats.texts import Texts

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not NATIVE, reason="no native library here")

each_variant = pytest.mark.parametrize("variant", NATIVE, ids=[one.name for one in NATIVE])


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPSCOPE_NATIVE", "0")
    native_cpu.load.cache_clear()
    native_cpu.filler.cache_clear()
    yield
    native_cpu.load.cache_clear()
    native_cpu.filler.cache_clear()


def filled(tensor: Any, threads: int = 1) -> bytes:
    """The record that was full of ones before it was filled in."""
    record = bytearray(b"\xff" * ROW_BYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(record))
    native_cpu.row_into(tensor, address, threads)
    return bytes(record)


def test_only_the_kind_and_the_numbers_are_written() -> None:
    for tensor in (torch.ones(3), torch.arange(4), torch.empty(0), torch.ones(5).expand(2, 5)):
        record = filled(tensor)
        assert record[:2] == b"\xff\xff"
        assert record[2] in (0, 1)
        assert record[3:24] == b"\xff" * 21
        assert record[24:32] == tensor.numel().to_bytes(8, "little")


def test_records_are_those_of_the_numpy_version() -> None:
    for tensor in (
        torch.tensor([1.0, -2.0]),
        torch.tensor([5, -7]),
        torch.tensor([2**64 - 1], dtype=torch.uint64),
        torch.tensor([3], dtype=torch.uint64),
        torch.tensor([True]),
        torch.empty(0),
    ):
        expected = bytearray(b"\xff" * ROW_BYTES)
        write_numbers(expected, 0, native_cpu.row_of(native_cpu.to_numpy(tensor)))
        assert filled(tensor) == bytes(expected)


@each_variant
def test_rows_do_not_depend_on_the_number_of_threads(variant: Native) -> None:
    tensor = torch.randn(3_000_001, generator=torch.Generator().manual_seed(1)) ** 5
    rows = []
    for threads in (1, 2, 7):
        with variant.forced():
            rows.append(filled(tensor, threads))
            rows.append(filled(tensor[:, None].expand(-1, 3)[1:, 1], threads))
    assert len(set(rows[::2])) == len(set(rows[1::2])) == 1
    row = row_from(np.frombuffer(rows[0], ROW_DTYPE)[0])
    assert row.mean == pytest.approx(float(tensor.double().mean()), rel=1e-9)


@each_variant
def test_denormals_count_whatever_the_program_set(variant: Native) -> None:
    tensor = torch.tensor([1e-40, -1e-40, 0.0])
    torch.set_flush_denormal(True)
    try:
        row = variant.row(tensor)
        flushed = float((tensor * 1.0).abs().max())
    finally:
        torch.set_flush_denormal(False)
    assert (row.zero, row.negative, row.positive) == (1, 1, 1)
    assert flushed == 0.0, "the setting is still what the program wants"


@each_variant
@settings(max_examples=examples(100), deadline=None)
@given(
    dtype=st.sampled_from(["float32", "float64", "bfloat16", "int8", "int64", "uint64", "bool"]),
    values=st.lists(st.integers(0, 100) | st.sampled_from([2**42, 2**62]), max_size=50),
    ends=st.tuples(*[st.sampled_from([-math.inf, -1.0, 0.0, 7.0, 2.0**62, math.nan])] * 2),
    step=st.integers(1, 3),
)
def test_counting_in_a_range(
    variant: Native, dtype: str, values: list[int], ends: tuple[float, float], step: int
) -> None:
    if dtype == "int8":
        values = [value % 128 for value in values]
    tensor = torch.from_numpy(np.array(values, "i8" if dtype != "uint64" else "u8"))
    tensor = tensor.to(getattr(torch, dtype))[::step]
    exact = [float(v) if isinstance(v, float) else int(v) for v in tensor.tolist()]
    with variant.forced():
        found = native_cpu.count_in_range(tensor, *ends)
    assert found == sum(ends[0] <= value <= ends[1] for value in exact)


def test_infinities_are_in_a_range_without_end() -> None:
    tensor = torch.tensor([math.nan, math.inf, -math.inf, 1.0] * 20).reshape(4, 20).expand(3, 4, 20)
    assert native_cpu.count_in_range(tensor, -math.inf, math.inf) == 180
    assert native_cpu.count_in_range(tensor, 0.0, 5.0) == 60
    assert native_cpu.count_in_range(torch.tensor([3 + 4j]), 5.0, 5.0) == 1


def test_arrays_as_well() -> None:
    array = np.arange(24, dtype="f4").reshape(2, 3, 4)
    for view in (array, array[::-1, :, ::-2], array.T, np.broadcast_to(array, (2, 2, 3, 4))):
        assert_row(native_cpu.row_of_array(view), view.ravel().tolist())
    swapped = array.astype(">f4")
    unaligned = np.zeros(3, [("a", "i1"), ("b", "f4")])["b"]
    for odd in (swapped, unaligned):
        assert_row(native_cpu.row_of_array(odd), odd.ravel().tolist())


def test_tensors_that_cannot_be_described_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_cpu, "_describing_function", lambda: None)
    native_cpu.filler.cache_clear()
    try:
        for tensor in (torch.randn(3, 4).t(), torch.ones(2).bfloat16(), torch.tensor(7)):
            expected = tensor.double().flatten() if tensor.is_floating_point() else tensor.flatten()
            assert_row(native_cpu.row_of_tensor(tensor), expected.tolist())
    finally:
        native_cpu.filler.cache_clear()


def test_what_has_no_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="meta tensors"):
        native_cpu.row_of_tensor(torch.empty(2, device="meta"))


def test_a_dtype_without_a_kernel_is_said_by_the_library() -> None:
    library = native_cpu.load()
    assert library is not None
    one = (ctypes.c_int64 * 1)(1)
    for number in (*set(range(60)) - set(DTYPES.values()), -1):
        record = bytearray(ROW_BYTES)
        address = ctypes.addressof(ctypes.c_char.from_buffer(record))
        assert library.opscope_row(address, number, 1, one, one, 1, None, None, address) == 1
        assert not any(record)


def test_without_the_library_numpy_does_it(without_library: None) -> None:
    assert native_cpu.load() is None
    assert native_cpu.features() == "numpy"
    assert_row(native_cpu.row_of_tensor(torch.tensor([1.0, -2.0])), [1.0, -2.0])
    assert_row(native_cpu.row_of_array(np.array([1, 2])), [1, 2])
    assert native_cpu.count_in_range(torch.tensor([1.0, 2.0]), 2.0, 3.0) == 1


def test_that_there_is_none_is_said_once(
    without_library: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPSCOPE_NATIVE")
    monkeypatch.setattr(
        build, "stats_library", lambda only_find=False: build.Built(None, "there is no g++")
    )
    messages.forget_said()
    assert native_cpu.load() is None
    native_cpu.load.cache_clear()
    assert native_cpu.load() is None
    said = capfd.readouterr().err
    assert said.count("there is no g++") == 1
    assert "NumPy" in said


def test_a_library_that_does_not_load_is_like_none(
    without_library: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv("OPSCOPE_NATIVE")
    broken = tmp_path / "stats.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(build, "stats_library", lambda only_find=False: build.Built(broken))
    assert native_cpu.load() is None


def records_of(rows: list[Row]) -> np.ndarray[Any, Any]:
    """The rows as records."""
    buffer = bytearray(ROW_BYTES * len(rows))
    for index, row in enumerate(rows):
        write_numbers(buffer, index * ROW_BYTES, row)
    return np.frombuffer(buffer, ROW_DTYPE)


counts = st.integers(0, 2**64 - 1)
floats = st.floats() | st.sampled_from(
    [1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308, -0.0, 0.1, 1e22]
)
extremes = (
    st.tuples(floats, floats)
    | st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2)
    | st.tuples(*[st.integers(2**63, 2**64 - 1)] * 2)
)
rows = st.builds(
    lambda count, ends, moments, tallies: Row(count, *ends, *moments, *tallies),
    counts,
    extremes,
    st.tuples(*[floats] * 4),
    st.tuples(*[counts] * 6),
)


def table_of(texts: Sequence[str]) -> Texts:
    table = Texts()
    for number, text in enumerate(texts):
        table.add(number, text)
    return table


KINDS = table_of(["4,float32,[1]"])


@settings(max_examples=examples(400), deadline=None)
@given(
    lines=st.lists(st.tuples(rows, st.text(max_size=8)), max_size=4),
    columns=st.lists(st.sampled_from(Row._fields), max_size=13),
)
def test_csv_lines_are_those_of_python(lines: list[tuple[Row, str]], columns: list[str]) -> None:
    wanted = ""
    records = records_of([row for row, _ in lines])
    for number, (row, label) in enumerate(lines):
        records[number]["node"], records[number]["call"] = number, 7 * number
        records[number]["io"], records[number]["slot"] = number % 2, 3
        about = f"{label},{7 * number},{number},{-number},{('input', 'output')[number % 2]},3"
        numbers = (repr(getattr(row, column)) for column in columns)
        wanted += ",".join((about, "4,float32,[1]", *numbers)) + "\r\n"
    moments = np.array([[number, -number] for number in range(len(lines))], np.int64)
    labels = table_of([label for _, label in lines])
    found = native_cpu.render_lines(records, moments.reshape(-1, 2), labels, KINDS, columns)
    assert found == wanted.encode("utf-8", "backslashreplace")


@settings(max_examples=examples(1000), deadline=None)
@given(value=floats)
def test_floats_read_as_python_writes_them(value: float) -> None:
    record = records_of([Row(0, 0.0, 0.0, value, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0)])
    moments = np.zeros((1, 2), np.int64)
    line = native_cpu.render_lines(record, moments, table_of(["x"]), KINDS, ["mean"])
    assert line == f"x,0,0,0,input,0,4,float32,[1],{value!r}\r\n".encode()


def test_csv_without_the_library(without_library: None) -> None:
    records = records_of([Row(2, 1, 2, 1.5, 1.5, 5**0.5, 0.5, 0, 0, 0, 0, 0, 2)])
    records["io"], records["slot"], records["call"] = 1, 4, 9
    columns = ["max", "mean", "l2", "count"]
    moments = np.array([[5, 6]], np.int64)
    line = native_cpu.render_lines(records, moments, table_of(["a,b"]), KINDS, columns)
    assert line == f"a,b,9,5,6,output,4,4,float32,[1],2,1.5,{5**0.5!r},2\r\n".encode()


def test_texts_are_found_by_number_and_grow() -> None:
    texts = Texts()
    assert texts.missing(np.array([5000, 2, 5000])) == [2, 5000]
    texts.add(2, "two")
    texts.add(5000, "é")
    assert not texts.missing(np.array([2, 5000])) and texts.missing(np.array([2, 9999])) == [9999]
    assert (texts[2], texts[5000]) == (b"two", "é".encode())
    assert texts.length(np.array([2, 2, 5000])) == 8

"""Rows of the CUDA engine against exact fractions: on a GPU, else in Triton's interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_device import DEVICE, ON_GPU, Tensor, examples, records, row, rows, torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import reference

from opscope.stats.cuda import fallback, forms
from opscope.stats.cuda.engine import CudaRows
from opscope.stats.record import INT, ROW_DTYPE, UINT, row_from
from opscope.stats.row import Row

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

HIGH = 20 * 2.0**-24
EXACT = 1e-11
LEAN = ["float32", "float16", "bfloat16"] + [
    name for name in forms.FORMS if name.startswith("float8") and hasattr(torch, name)
]
FLOATS = [*LEAN, "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda t: t,
    "transposed": lambda t: t[: len(t) // 2 * 2].reshape(-1, 2).t(),
    "stepped": lambda t: t[::2],
    "expanded": lambda t: t.unsqueeze(0).expand(3, -1),
    "twice expanded": lambda t: t[:, None, None].expand(-1, 2, 3),
    "misaligned": lambda t: torch.cat((t[:1], t))[1:],
    "0-dim": lambda t: t[0] if len(t) else t,
    "empty": lambda t: t[:0].reshape(0, 2),
    "parameter": lambda t: torch.nn.Parameter(t, requires_grad=False),
}


def close(found: float, expected: float, bound: float) -> bool:
    """Equal, both NaN, or not further apart than the bound."""
    if found == expected or (math.isnan(found) and math.isnan(expected)):
        return True
    return abs(found - expected) <= bound + 1e-322


def assert_row(found: Row, values: list[float], bound: float, repeats: int = 1) -> None:
    """Counts, min and max are exact; the rest is within the bound of docs/statistics.md."""
    expected = reference(values)
    for name in ("count", "nan", "posinf", "neginf", "zero", "negative", "positive"):
        assert getattr(found, name) == expected[name] * repeats, (name, found, expected)
    for name in ("min", "max"):
        assert close(getattr(found, name), expected[name], 0), (name, found, expected)
    l2, finite = expected["l2"] * math.sqrt(repeats), max(found.finite, 1)
    assert close(found.mean, expected["mean"], bound * expected["mean_abs"]), (found, expected)
    assert close(found.mean_abs, expected["mean_abs"], bound * expected["mean_abs"]), found
    # A mean below the smallest float64 is rounded before it counts for every element.
    assert close(found.l2, l2, bound * l2 + 5e-324 * math.sqrt(found.count)), (found, expected)
    spread = expected["std"] + expected["l2"] / math.sqrt(finite / repeats)
    assert close(found.std, expected["std"], bound * spread), (found, expected)


def floats() -> st.SearchStrategy[list[float]]:
    """Numbers of float32, with the nasty ones often."""
    nasty = [math.nan, math.inf, -math.inf, 0.0, -0.0, 448.0, 3e38, -3e38, 1e-30, 2.0**-149]
    one = st.sampled_from(nasty) | st.floats(width=32) | st.floats(-10, 10, width=32)
    return st.lists(one, max_size=20) | st.lists(st.floats(-10, 10, width=32), max_size=20)


@settings(max_examples=examples(600), deadline=None)
@given(st.sampled_from(FLOATS), st.sampled_from(sorted(LAYOUTS)), floats())
def test_floats_of_any_layout(dtype: str, layout: str, values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float32).to(getattr(torch, dtype)).to(DEVICE)
    tensor = LAYOUTS[layout](tensor)
    assert_row(row(tensor), tensor.detach().to(torch.float64).flatten().tolist(), EXACT)


@settings(max_examples=examples(600), deadline=None)
@given(st.sampled_from(FLOATS), floats().filter(bool), st.sampled_from([-1, 0, 1, 700]))
def test_floats_beyond_a_group(dtype: str, values: list[float], more: int) -> None:
    """What the lean loop reads, with what is left over for the exact one."""
    base = torch.tensor(values, dtype=torch.float32).to(getattr(torch, dtype))
    repeats = -(-(2 * forms.FORMS[dtype].group + more) // len(values))
    tensor = base.view(torch.uint8).repeat(repeats).view(base.dtype).to(DEVICE)
    bound = EXACT if dtype == "float64" else HIGH
    assert_row(row(tensor), base.to(torch.float64).tolist(), bound, repeats)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("scale", [1e-30, 1e-13, 1.0, 1e25])
def test_normal_numbers_of_any_size(dtype: str, offset: float, scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    tensor = torch.randn(3 * 8192 + 77, generator=generator, dtype=torch.float64) + offset
    tensor = (tensor * scale).to(getattr(torch, dtype))
    exact = tensor.to(torch.float64).tolist()
    assert_row(row(tensor.to(DEVICE)), exact, EXACT if dtype == "float64" else HIGH)


def test_low_precision_is_within_its_bound() -> None:
    generator = torch.Generator().manual_seed(0)
    tensor = torch.randn(70_000, generator=generator) + 3
    found, expected = row(tensor.to(DEVICE), "low"), reference(tensor.double().tolist())
    bound = HIGH + 6 * 2.0**-24  # at most six groups per program
    for name in ("mean", "mean_abs", "l2"):
        assert close(getattr(found, name), expected[name], bound * expected[name]), name
    square = expected["l2"] ** 2 / 70_000
    assert close(found.std**2, expected["std"] ** 2, 4 * bound * square)
    assert found != row(tensor.to(DEVICE), "high")


@pytest.mark.parametrize("value", [1e300, -1.7e308, 1e-300, 5e-324])
def test_float64_whose_squares_overflow_or_vanish(value: float) -> None:
    values = [value, value / 2, -value / 4, 0.0]
    tensor = torch.tensor(values, dtype=torch.float64).repeat(1000).to(DEVICE)
    assert_row(row(tensor), [v + 0.0 for v in tensor[:4].tolist()], EXACT, 1000)


def test_equal_elements_have_no_spread() -> None:
    for dtype in ("float32", "bfloat16", "float64", "float8_e4m3fn"):
        tensor = torch.full((20_000,), 0.1).to(getattr(torch, dtype)).to(DEVICE)
        found = row(tensor)
        assert found.std == 0 and found.mean == found.min == found.max
        assert found.l2 == found.mean * math.sqrt(20_000)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("repeats", [1, 3000])
def test_integers(dtype: str, repeats: int) -> None:
    kind = np.dtype(dtype)
    ends = [0, 1] if kind.kind == "b" else [int(np.iinfo(kind).min), int(np.iinfo(kind).max)]
    base = [*ends, 1, 0, 1, *ends, 1]
    tensor = torch.from_numpy(np.tile(np.array(base, kind), repeats))
    found, expected = row(tensor.to(DEVICE)), reference([int(v) for v in base])
    for name in ("count", "zero", "negative", "positive"):
        assert getattr(found, name) == expected[name] * repeats, name
    assert (found.min, found.max) == (expected["min"], expected["max"])
    tiny = 3 * 2.0**-53
    assert close(found.mean, expected["mean"], tiny * expected["mean_abs"])
    assert close(found.mean_abs, expected["mean_abs"], tiny * expected["mean_abs"])
    bound = HIGH if kind.itemsize == 1 else EXACT
    assert close(found.l2, expected["l2"] * repeats**0.5, bound * expected["l2"] * repeats**0.5)
    assert close(found.std, expected["std"], bound * expected["std"] + 2.0**-52 * abs(base[1]))
    assert found.nan == found.posinf == found.neginf == 0


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), min_size=1, max_size=30),
    st.sampled_from([1, 200]),
)
def test_int64_is_exact_where_its_sum_is_small(values: list[int], repeats: int) -> None:
    found = row(torch.tensor(values).repeat(repeats).to(DEVICE))
    expected = reference(values)
    assert (found.min, found.max) == (min(values), max(values))
    if sum(map(abs, values)) * repeats < 2**62:
        assert close(found.mean, sum(values) / len(values), 2.0**-52 * abs(expected["mean"]))
    assert close(found.mean, expected["mean"], 4e-15 * expected["mean_abs"])
    assert close(found.std, expected["std"], EXACT * expected["l2"] / len(values) ** 0.5)


def test_kinds_of_records() -> None:
    tensors = [
        torch.tensor([5], dtype=torch.uint64),
        torch.tensor([2**63 + 5, 1], dtype=torch.uint64),
        torch.tensor([True]),
    ]
    found = records(CudaRows(), [tensor.to(DEVICE) for tensor in tensors])
    assert found["kind"].tolist() == [INT, UINT, INT]
    assert found["max_uint"][1] == 2**63 + 5


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from(["complex64", "complex128"]),
    st.lists(st.complex_numbers(width=64, allow_subnormal=False), max_size=12),
)
def test_complex_numbers(dtype: str, values: list[complex]) -> None:
    tensor = torch.tensor(values, dtype=getattr(torch, dtype))
    moduli = [
        math.inf if math.isinf(v.real) or math.isinf(v.imag) else math.hypot(v.real, v.imag)
        for v in tensor.tolist()
    ]
    found = row(tensor.conj().to(DEVICE))
    expected = reference(moduli)
    for name, value in expected.items():
        assert close(getattr(found, name), value, 4e-15 * abs(value) + 1e-15 * _l2(expected)), name


def _l2(expected: dict[str, float]) -> float:
    return 0.0 if math.isnan(expected["l2"]) else expected["l2"]


def test_complex_beyond_float64() -> None:
    big = torch.tensor([complex(1.5e308, 1.5e308), complex(1e300, 0)], dtype=torch.complex128)
    found = row(big.to(DEVICE))
    assert (found.posinf, found.max, found.mean) == (1, math.inf, 1e300)


def test_negated_and_conjugated_views() -> None:
    tensor = torch.tensor([3 + 4j, -1 - 1j]).to(DEVICE)
    assert tensor.conj().imag.is_neg()
    found = row(tensor.conj().imag)
    assert (found.min, found.max) == (-4.0, 1.0)


def test_complex32_and_integers_below_a_byte() -> None:
    tensor = torch.tensor([[3.0, 4.0]], dtype=torch.float16).to(DEVICE)
    assert row(torch.view_as_complex(tensor)).l2 == 5.0
    few = torch.tensor([1, -2], dtype=torch.int8).view(torch.int4)
    found = row(few.to(DEVICE))
    assert (found.min, found.max) == (-2, 1)


def test_a_row_does_not_depend_on_company() -> None:
    """The same bytes alone, in a batch, and again."""
    generator = torch.Generator().manual_seed(1)
    tensors = [
        torch.randn(size, generator=generator).to(dtype).to(DEVICE)
        for size in (1, 100, 5000, 9000, 40_000)
        for dtype in (torch.float32, torch.bfloat16)
    ]
    together = records(CudaRows(), tensors)
    engine = CudaRows()
    for place, tensor in enumerate(tensors):
        alone = records(engine, [tensor])
        assert alone.tobytes() == together[place : place + 1].tobytes()
        assert records(engine, [tensor]).tobytes() == alone.tobytes()


def test_only_kind_numbers_and_validity_are_written() -> None:
    found = np.zeros(3, ROW_DTYPE)
    found.view(np.uint8)[:] = 0xAB
    found["valid"] = 0
    engine = CudaRows()
    engine.submit(torch.ones(3).to(DEVICE), found[1:].ctypes.data)
    ticket = engine.flush()
    ticket.wait()
    ticket.deliver()
    assert found["valid"].tolist() == [0, 1, 0]
    raw = found.view(np.uint8).reshape(3, -1)
    untouched = [1, *range(3, 24)]
    assert (raw[1, untouched] == 0xAB).all()
    assert (raw[[0, 2], 1:] == 0xAB).all()
    found["count"][1] = 7
    ticket.deliver()
    assert found["count"][1] == 7


def test_empty_tensors_need_no_device() -> None:
    found = rows(CudaRows(), [torch.empty(0, 3, dtype=torch.int64).to(DEVICE)])[0]
    assert found.count == 0 and math.isnan(found.min) and math.isnan(found.std)


def test_a_flush_without_rows() -> None:
    ticket = CudaRows().flush()
    assert ticket.ready()
    ticket.wait()
    ticket.deliver()


def test_no_row_is_lost_when_memory_must_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opscope.stats.cuda.device.PAGE_ROWS", 4)
    monkeypatch.setattr("opscope.stats.cuda.ring.PAGE_ROWS", 4)
    monkeypatch.setattr("opscope.stats.cuda.ring.PARTS_BYTES", 200)
    engine = CudaRows()
    for count in (3, 19, 2, 11):
        tensors = [torch.full((5,), float(i)).to(DEVICE) for i in range(count)]
        tensors.append(torch.ones(9000).to(DEVICE))
        found = rows(engine, tensors)
        assert [each.mean for each in found] == [*map(float, range(count)), 1.0]


@pytest.mark.parametrize("told", [True, False])
def test_what_is_written_in_place_is_read_before(told: bool) -> None:
    engine = CudaRows()
    tensor = torch.ones(8).to(DEVICE)
    view = tensor[2:4]

    def write() -> None:
        if told:
            engine.before_write(view)
        view.fill_(5.0)

    found = records(engine, [tensor], between=write)
    assert found["max"][0] == (1.0 if told else 5.0)


def test_one_storage_under_two_dtypes() -> None:
    engine = CudaRows()
    tensor = torch.ones(8).to(DEVICE)

    def write() -> None:
        engine.before_write(tensor)
        tensor.zero_()

    found = records(engine, [tensor, tensor.view(torch.int32), tensor], between=write)
    assert found["max"][[0, 2]].tolist() == [1.0, 1.0]
    assert found["max_int"][1] == 0x3F800000


def test_batches_are_read_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opscope.stats.cuda.device.HELD_BYTES", 4000)
    engine = CudaRows()
    found = np.zeros(300, ROW_DTYPE)
    most = 0
    for place in range(300):
        engine.submit(torch.full((100,), float(place)).to(DEVICE), found[place:].ctypes.data)
        device = next(iter(engine._devices.values()))
        most = max(most, len(device.held))
    assert most == 10
    ticket = engine.flush()
    ticket.wait()
    ticket.deliver()
    assert found["mean"].tolist() == list(map(float, range(300)))


def test_tensors_whose_memory_was_freed_stay_without_numbers() -> None:
    engine = CudaRows()
    for _ in range(3):  # memory for rows is used again, with the rows of others in it
        rows(engine, [torch.full((8,), 3.0).to(DEVICE) for _ in range(3)])
    tensors = [torch.ones(8).to(DEVICE) for _ in range(3)]
    storage = tensors[1].untyped_storage()
    found = records(engine, tensors, between=lambda: storage.resize_(0))
    assert found["valid"].tolist() == [1, 0, 1]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*FLOATS, "complex64"]), floats().filter(bool), st.sampled_from([1, 3]))
def test_torch_operators_give_the_same_floats(dtype: str, values: list[float], times: int) -> None:
    tensor = torch.tensor(values, dtype=torch.float32).to(getattr(torch, dtype)).to(DEVICE)
    exact = (tensor.abs() if tensor.is_complex() else tensor).to(torch.float64).tolist()
    assert_row(_fallback_row(tensor, times), exact, EXACT, times)


@pytest.mark.parametrize("dtype", INTS)
def test_torch_operators_give_the_same_integers(dtype: str) -> None:
    kind = np.dtype(dtype)
    ends = [0, 1] if kind.kind == "b" else [int(np.iinfo(kind).min), int(np.iinfo(kind).max)]
    base = [*ends, 1, 0, 1, *ends, 1]
    tensor = torch.from_numpy(np.array(base, kind)).to(DEVICE)
    found, kernel = _fallback_row(tensor, 1), row(tensor)
    for name in ("l2", "std", "mean", "mean_abs"):
        assert close(getattr(found, name), getattr(kernel, name), 1e-6 * abs(getattr(kernel, name)))
        found, kernel = found._replace(**{name: 0}), kernel._replace(**{name: 0})
    assert found == kernel


def _fallback_row(tensor: Tensor, times: int) -> Row:
    from opscope.stats.cuda.streams import CudaStreams, NoStreams

    engine = CudaRows()
    streams: Any = CudaStreams(0) if ON_GPU else NoStreams()
    engine._devices[tensor.get_device()] = fallback.FallbackRows(tensor.get_device(), streams)
    if times > 1:
        tensor = tensor.unsqueeze(0).expand(times, *tensor.shape)
    return rows(engine, [tensor])[0]


def test_layouts_are_told_apart() -> None:
    from opscope.stats.cuda.layout import is_dense, readable

    base = torch.arange(24.0).to(DEVICE).reshape(2, 3, 4)
    dense, times, runs = readable(base.permute(2, 0, 1))
    assert (dense.data_ptr(), times, runs) == (base.data_ptr(), 1, None)
    core, times, runs = readable(base[:, :1].expand(2, 5, 4))
    assert (core.numel(), times, runs) == (8, 5, (4, 2, 1, 12, 0))
    assert readable(base[:, :, :2])[2] == (2, 6, 1, 4, 0)
    assert readable(base[:, :2, :2])[2] == (2, 2, 1, 4, 12)
    assert readable(base[0, :, 1])[2] == (3, 1, 4, 0, 0)
    assert is_dense(base) and is_dense(base.permute(2, 0, 1))
    assert not is_dense(base[:, :, :2]) and not is_dense(base[:, :1].expand(2, 5, 4))
    windows = torch.arange(10.0).to(DEVICE).unfold(0, 4, 1)  # they overlap
    assert sorted(readable(windows)[2][:2]) == [4, 7]
    deep = torch.zeros(4, 4, 4, 4).to(DEVICE)[:3, :3, :3, :3]
    copy, times, runs = readable(deep)
    assert copy.is_contiguous() and runs is None


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(["float32", "bfloat16", "float8_e4m3fn", "float64", "int32", "complex64"]),
    st.tuples(st.integers(1, 3), st.integers(1, 40), st.sampled_from([1, 7, 64, 100, 768])),
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([0, 1, 8, 16])),
    st.permutations(range(3)),
    st.booleans(),
)
def test_tensors_with_gaps(
    dtype: str,
    shape: tuple[int, int, int],
    gaps: tuple[int, int, int],
    order: list[int],
    bad: bool,
) -> None:
    whole = torch.Size(size + gap for size, gap in zip(shape, gaps, strict=True))
    generator = torch.Generator().manual_seed(math.prod(shape))
    base = 10 * torch.randn(whole, generator=generator, dtype=torch.float64)
    if bad and not dtype.startswith("int"):
        base[0, 0, 0] = math.nan
        base[-1, -1, -1] = math.inf  # often outside the slice
    tensor = base.to(getattr(torch, dtype)).to(DEVICE)
    tensor = tensor[tuple(slice(size) for size in shape)].permute(*order)
    found = row(tensor)
    values = tensor.to(torch.complex128).abs() if tensor.is_complex() else tensor
    bound = EXACT if dtype in ("float64", "complex64", "int32") else HIGH
    assert_row(found, values.to(torch.float64).flatten().tolist(), bound)


def test_many_tensors_are_read_together() -> None:
    """Large ones too, while they are gathered, and with the same results."""
    tensors = [torch.randn(n, 1024).to(DEVICE) for n in (1, 1100, 1300, 17, 300, 1200)]
    alone = [row(tensor) for tensor in tensors]
    engine = CudaRows()
    rows(engine, tensors[:1])  # so that it has its device
    launches = []
    device = next(iter(engine._devices.values()))
    original, device.launch = device.launch, lambda batch: launches.append(batch) or original(batch)
    engine.gather(True)
    found = records(engine, tensors, between=lambda: engine.gather(False))
    for record, expected in zip(found, alone, strict=True):  # cut otherwise, so not bit for bit
        assert row_from(record) == pytest.approx(expected, rel=1e-6)
    assert len(launches) == 3  # four at once, then a tiny and a small one

"""Tensors of every kind as arrays, and their rows against exact fractions of the same tensor."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import assert_row, reference

from opscope.stats.engine import NumpyRows
from opscope.stats.memory import records_in
from opscope.stats.record import ROW_BYTES, row_from
from opscope.stats.row import Row
from opscope.stats.torch_values import dtype_name, shape_of, to_numpy, unsupported_reason

torch = pytest.importorskip("torch")
Tensor = Any

FLOATS = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda t: t,
    "transposed": lambda t: t[: len(t) // 2 * 2].reshape(-1, 2).t(),
    "stepped": lambda t: t[::2],
    "expanded": lambda t: t.unsqueeze(0).expand(3, -1),
    "0-dim": lambda t: t[0] if len(t) else t,
    "empty": lambda t: t[:0].reshape(0, 2),
    "parameter": lambda t: torch.nn.Parameter(t, requires_grad=t.is_floating_point()),
}


def row_of_tensor(tensor: torch.Tensor) -> Row:
    """The row that the NumPy engine fills in, read back from its record."""
    buffer = bytearray(ROW_BYTES)
    assert NumpyRows().fill(tensor, buffer, 0)
    return row_from(records_in(buffer, 0, ROW_BYTES)[0])


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(FLOATS),
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(
        st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 448.0]),
        max_size=20,
    ),
)
def test_rows_of_float_tensors(dtype: str, layout: str, values: list[float]) -> None:
    tensor = LAYOUTS[layout](torch.tensor(values, dtype=torch.float32).to(getattr(torch, dtype)))
    exact = tensor.detach().to(torch.float64).flatten().tolist()
    assert_row(row_of_tensor(tensor), exact)
    assert dtype_name(tensor) == dtype
    assert shape_of(tensor) == to_numpy(tensor).shape


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"parameter"}))
def test_rows_of_integer_tensors(dtype: str, layout: str) -> None:
    kind = np.dtype(dtype)
    ends = [0, 1] if kind.kind == "b" else [int(np.iinfo(kind).min), int(np.iinfo(kind).max)]
    base = torch.from_numpy(np.array([*ends, 1, 0, 1, *ends], kind))
    tensor = LAYOUTS[layout](base)
    expected = reference([int(v) for v in tensor.flatten().tolist()])
    row = row_of_tensor(tensor)
    for name in ("count", "min", "max", "mean", "mean_abs", "zero", "negative", "positive"):
        found, wanted = getattr(row, name), expected[name]
        assert found == wanted or (math.isnan(found) and math.isnan(wanted)), name


def test_rows_of_conjugated_and_negated_tensors() -> None:
    tensor = torch.tensor([3 + 4j, -1 - 1j])
    assert to_numpy(tensor.conj()).tolist() == [3 - 4j, -1 + 1j]
    assert tensor.conj().imag.is_neg()
    assert to_numpy(tensor.conj().imag).tolist() == [-4.0, 1.0]
    assert row_of_tensor(tensor.conj()).max == 5.0


def test_complex32_becomes_complex64() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.tensor([3 + 4j]).to(torch.complex32)
    assert to_numpy(tensor).dtype == np.complex64
    assert row_of_tensor(tensor).l2 == 5.0


@pytest.mark.parametrize(
    ("dtype", "byte"), [("int4", "int8"), ("uint1", "uint8"), ("uint7", "uint8")]
)
def test_integers_below_a_byte(dtype: str, byte: str) -> None:
    values = [1, -2] if byte == "int8" else [1, 0]
    tensor = torch.tensor(values, dtype=getattr(torch, byte)).view(getattr(torch, dtype))
    array = to_numpy(tensor)
    assert array.dtype == np.dtype(byte)
    assert array.tolist() == values
    assert dtype_name(tensor) == dtype


def test_memory_is_shared_where_possible() -> None:
    tensor = torch.zeros(3, requires_grad=True)
    to_numpy(tensor)[0] = 7
    assert tensor[0].item() == 7


def test_a_subclass_that_holds_its_data_is_read() -> None:
    class Labelled(torch.Tensor):  # type: ignore[misc, name-defined]
        pass

    tensor = torch.tensor([1.0, 2.0]).as_subclass(Labelled)
    assert to_numpy(tensor).tolist() == [1.0, 2.0]
    assert type(to_numpy(tensor)) is np.ndarray


def unsupported() -> dict[str, Tensor]:
    """Tensors without numbers, by what is said of them."""
    from torch._subclasses import FakeTensorMode

    freed = torch.ones(10)[3:]
    freed.untyped_storage().resize_(0)
    parts = [torch.zeros(2), torch.zeros(3)]
    with FakeTensorMode(), warnings.catch_warnings():
        fake = torch.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "sparse_coo tensors": torch.eye(2).to_sparse(),
            "sparse_csr tensors": torch.eye(2).to_sparse_csr(),
            "meta tensors": torch.zeros(2, device="meta"),
            "nested tensors": torch.nested.nested_tensor(parts),
            "tensors of type NestedTensor": torch.nested.nested_tensor(parts, layout=torch.jagged),
            "tensors of type FakeTensor": fake,
            "tensors of type UninitializedParameter": torch.nn.UninitializedParameter(),
            "quint8 tensors": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
            "bits8 tensors": torch.ones(2, dtype=torch.uint8).view(torch.bits8),
            "tensors whose memory was freed": freed,
        }


@pytest.mark.parametrize("reason", sorted(unsupported()))
def test_what_has_no_numbers_is_named(reason: str) -> None:
    tensor = unsupported()[reason]
    assert unsupported_reason(tensor) == reason
    assert to_numpy(tensor) is None
    with pytest.raises(TypeError, match=reason):
        row_of_tensor(tensor)


def test_tensors_inside_torch_func_are_left_alone() -> None:
    seen: list[str] = []

    def look(tensor: Tensor) -> Tensor:
        seen.append(unsupported_reason(tensor))
        assert to_numpy(tensor) is None
        return tensor.sum()

    torch.func.vmap(look)(torch.ones(2, 3))
    torch.func.grad(look)(torch.ones(3))
    assert seen == ["tensors wrapped by torch.func"] * 2

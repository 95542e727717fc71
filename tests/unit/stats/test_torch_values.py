"""Tensors of every kind as arrays, and those that have none."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from opscope.stats.native_cpu import fill_by_numpy
from opscope.stats.torch_values import dtype_name, only_number, to_numpy, unsupported_reason

torch = pytest.importorskip("torch")
Tensor = Any


def test_conjugated_and_negated_tensors() -> None:
    tensor = torch.tensor([3 + 4j, -1 - 1j])
    assert to_numpy(tensor.conj()).tolist() == [3 - 4j, -1 + 1j]
    assert tensor.conj().imag.is_neg()
    assert to_numpy(tensor.conj().imag).tolist() == [-4.0, 1.0]


def test_complex32_becomes_complex64() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.tensor([3 + 4j]).to(torch.complex32)
    assert to_numpy(tensor).dtype == np.complex64


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
        fill_by_numpy(tensor, 0, 1)


def test_tensors_inside_torch_func_are_left_alone() -> None:
    seen: list[str] = []

    def look(tensor: Tensor) -> Tensor:
        seen.append(unsupported_reason(tensor))
        assert to_numpy(tensor) is None
        return tensor.sum()

    torch.func.vmap(look)(torch.ones(2, 3))
    torch.func.grad(look)(torch.ones(3))
    assert seen == ["tensors wrapped by torch.func"] * 2


def test_more_dimensions_than_numpy_has() -> None:
    tensor = torch.arange(6).reshape(2, *[1] * 80, 3).transpose(0, 81)
    array = to_numpy(tensor)
    assert array is not None
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]
    scalar = to_numpy(torch.tensor(7.0).reshape([1] * 65))
    assert scalar is not None and scalar.tolist() == 7.0


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "int32"])
def test_the_only_number_of_a_tensor_is_read(name: str) -> None:
    values = torch.tensor([1.5, -2.0, 3.0]).to(getattr(torch, name))
    assert [only_number(each) for each in values] == [each.item() for each in values]
    assert only_number(values[1:2]) == -2.0


def test_the_only_number_of_a_tensor_without_memory_of_its_own() -> None:
    negative = torch._neg_view(torch.tensor(2.5))
    assert only_number(negative) == -2.5
    assert only_number(torch._efficientzerotensor(())) == 0.0
    assert only_number(torch.tensor(2.0 + 3.0j)) == 2.0
    assert only_number(torch.nn.Parameter(torch.tensor(4.0))) == 4.0


def test_the_only_number_is_read_without_an_operator() -> None:
    loss = torch.tensor(1.5, requires_grad=True) * 2
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert only_number(loss) == 3.0
    assert [event.key for event in profile.key_averages() if event.key.startswith("aten")] == []

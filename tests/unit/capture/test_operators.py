"""Facts of operators that follow from their schemas."""

from __future__ import annotations

import pytest
import torch

from opscope.capture.operators import (
    GENERAL,
    NEW,
    NOTHING,
    SEVERAL,
    VIEW,
    WRITE,
    Operator,
    as_texts,
    flatten,
)

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("name", "overload", "kind"),
    [
        ("aten::add", "Tensor", NEW),
        ("aten::var_mean", "correction", SEVERAL),
        ("aten::view", "", VIEW),
        ("aten::_unsafe_view", "", VIEW),
        ("aten::add_", "Tensor", WRITE),
        ("aten::_local_scalar_dense", "", NOTHING),
        ("aten::add", "out", GENERAL),
        ("aten::split", "Tensor", GENERAL),
        ("aten::_foreach_add_", "Scalar", GENERAL),
    ],
)
def test_the_result_of_an_operator(name: str, overload: str, kind: int) -> None:
    assert Operator.named(name, overload).kind == kind


def test_names_of_operators() -> None:
    add = Operator.named("aten::add", "Tensor")
    assert (add.name, add.op_type) == ("aten.add.Tensor", "add")
    assert Operator.of(aten.relu.default).name == "aten.relu.default"
    assert Operator.named("prim::device", "").ignored
    assert Operator.named("profiler::_record_function_enter", "").op_type.startswith("profiler_")
    with pytest.raises(RuntimeError):
        Operator.named("aten::no_such_operator", "")


def test_the_tensors_a_call_writes_to() -> None:
    one, two, out = torch.ones(2), torch.ones(2), torch.empty(2)
    assert Operator.named("aten::add_", "Tensor").written((one, two), None) == [one]
    assert Operator.named("aten::add", "Tensor").written((one, two), None) == []
    (written,) = Operator.named("aten::add", "out").written((one, two), {"out": out})
    assert written is out
    found = Operator.named("aten::_foreach_add_", "Scalar").written(([one, two], 1), None)
    assert [id(each) for each in found] == [id(one), id(two)]


def test_batch_norm_writes_what_its_schema_does_not_say() -> None:
    norm = Operator.named("aten::native_batch_norm", "")
    x, mean, var = torch.ones(2, 3), torch.zeros(3), torch.ones(3)
    written = norm.written((x, None, None, mean, var, True, 0.1, 1e-5), None)
    assert [id(each) for each in written] == [id(mean), id(var)]
    result = (torch.ones(2, 3), torch.zeros(3), torch.ones(3))
    produced = norm.produced(result, (x, None, None, mean, var, True, 0.1, 1e-5), None)
    assert [id(each) for each in produced] == [id(each) for each in (*result, mean, var)]


def test_missing_outputs_keep_their_slots() -> None:
    backward = Operator.named("aten::native_layer_norm_backward", "")
    gradient = torch.ones(2)
    assert backward.produced((gradient, None, None), (), {})[1:] == [None, None]


def test_what_a_call_returns_is_not_counted_twice() -> None:
    one = torch.ones(2)
    assert Operator.named("aten::add_", "Tensor").produced(one, (one, one), None) == [one]


def test_arguments_as_a_person_would_write_them() -> None:
    add = Operator.named("aten::add", "Tensor")
    assert add.texts((torch.ones(1), torch.ones(1)), {"alpha": 2}) == {"alpha": "2"}
    assert add.texts((torch.ones(1), torch.ones(1)), None) == {"alpha": "1"}
    given = {"a": [1, None], "b": torch.float16, "c": torch.device("cpu"), "d": object()}
    expected = {"a": "[1, None]", "b": "float16", "c": "cpu", "d": "object"}
    assert as_texts(given) == expected


def test_tensors_are_found_in_lists_of_lists() -> None:
    one, two = torch.ones(1), torch.zeros(1)
    found: list[torch.Tensor] = []
    flatten([one, (two, [one]), 3, None], found)
    assert [id(each) for each in found] == [id(one), id(two), id(one)]


def test_an_operator_is_run_without_asking_the_classes_of_its_arguments() -> None:
    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("it was asked")

    x = torch.ones(2).as_subclass(Asked)
    add = Operator.of(aten.add.Tensor)
    found = add.call_plainly(x, torch.ones(2))
    assert found.as_subclass(torch.Tensor).tolist() == [2.0, 2.0]

"""Every kind of number: complex, integer, bool, bfloat16, float16, float8; values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from helpers.engines import needs_observer
from helpers.recorder import Recorder
from opscope.events import IO, Want

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
VALUES = [0.5, -1.0, 2.0, 0.0]


def train(record, weight: nn.Parameter, loss, steps: int = 1):
    optimizer = torch.optim.SGD([weight], lr=0.5)
    with record() as seen:
        for _ in range(steps):
            loss(weight).backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_training_in_one_floating_type(record, dtype) -> None:
    weight = nn.Parameter(torch.tensor(VALUES, dtype=dtype))
    before = weight.detach().clone()
    seen = train(record, weight, lambda w: (w * w).sum())
    product = seen.of_type("mul", phase="forward")[0]
    assert product.outputs[0].dtype == dtype
    assert torch.equal(product.outputs[0], before * before)
    update = seen.one("add_", phase="optimizer")
    assert torch.equal(update.inputs[1], 2 * before)
    assert torch.equal(update.outputs[0], torch.zeros(4, dtype=dtype))
    assert seen.steps[0].losses[0].value == 5.25


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_a_cast_to_float8_and_back(record, dtype) -> None:
    weight = nn.Parameter(torch.tensor([0.3, -1.7, 2.0]))
    before = weight.detach().clone()
    seen = train(record, weight, lambda w: (w.to(dtype).to(torch.float32) * 3).sum())
    down, up = seen.of_type("_to_copy", phase="forward")
    assert (down.outputs[0].dtype, up.inputs[0].dtype) == (dtype, dtype)
    assert torch.equal(down.outputs[0].float(), before.to(dtype).float())
    assert up.sources[0] is down.node.outputs[0]
    assert torch.equal(up.outputs[0], before.to(dtype).float())
    back = seen.of_type("_to_copy", phase="backward")
    assert [c.outputs[0].dtype for c in back] == [dtype, torch.float32]
    assert [c.node.forward for c in back] == [up.node, down.node]
    update = seen.one("add_", phase="optimizer")
    assert torch.equal(update.inputs[1], torch.full((3,), 3.0))


def test_complex_values_and_gradients(record) -> None:
    weight = nn.Parameter(torch.tensor([3 + 4j, -6 + 8j]))
    before = weight.detach().clone()
    seen = train(record, weight, lambda w: (w * 2j).abs().sum(), steps=3)
    product, magnitude = seen.of_type("mul", phase="forward")[0], seen.one("abs")
    assert product.outputs[0].dtype == torch.complex64
    assert torch.equal(product.outputs[0], before * 2j)
    assert torch.equal(magnitude.outputs[0], torch.tensor([10.0, 20.0]))
    update = seen.one("add_", phase="optimizer")
    torch.testing.assert_close(update.inputs[1], torch.tensor([1.2 + 1.6j, -1.2 + 1.6j]))
    assert seen.steps[0].losses[0].value == 30.0


@needs_observer
def test_complex_scalars_in_backward_are_recorded_in_every_step(record, capsys) -> None:
    weight = nn.Parameter(torch.tensor([3 + 4j, -6 + 8j]))
    seen = train(record, weight, lambda w: (w * 2j).abs().sum(), steps=3)
    for step in range(3):
        conjugate = seen.one("_conj", step)
        assert conjugate.outputs[0].resolve_conj().item() == -2j
        reader = seen.of_type("mul", step, phase="backward")[-1]
        assert conjugate.node.outputs[0] in reader.sources.values()
    assert "internal error" not in capsys.readouterr().err


INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_exact(record, dtype) -> None:
    numbers = torch.tensor([1, 2, 100], dtype=dtype)
    with record() as seen:
        shifted = numbers + 27
        shifted.bitwise_and_(0b1101)
        shifted.max()
    add, mask, top = seen.one("add"), seen.one("bitwise_and_"), seen.one("max")
    assert add.outputs[0].dtype == mask.outputs[0].dtype == dtype
    assert add.outputs[0].tolist() == [28, 29, 127]
    assert mask.inputs[0].tolist() == [28, 29, 127]
    assert mask.outputs[0].tolist() == [12, 13, 13]
    assert top.sources[0] is mask.node.outputs[0]


def test_large_integers_keep_every_digit(record) -> None:
    number = torch.tensor([2**62 + 1])
    with record() as seen:
        number + 2
    assert seen.one("add").outputs[0].item() == 2**62 + 3


def test_bools_select_and_count(record) -> None:
    def loss(w: Tensor) -> Tensor:
        large = w * 10
        return torch.where(w > 0, w, large).sum()

    seen = train(record, nn.Parameter(torch.tensor(VALUES)), loss)
    compare, where = seen.one("gt"), seen.of_type("where", phase="forward")[0]
    assert compare.outputs[0].dtype == torch.bool
    assert compare.outputs[0].tolist() == [True, False, True, False]
    assert where.sources[0] is compare.node.outputs[0]
    gradient = seen.one("add_", phase="optimizer").inputs[1]
    assert gradient.tolist() == [1.0, 10.0, 1.0, 10.0]


def test_mixed_types_are_promoted_as_torch_does(record) -> None:
    half, count = torch.tensor([0.5], dtype=torch.float16), torch.tensor([3])
    with record() as seen:
        half * count
        count / 2
        torch.tensor([True]) + 1
    assert seen.one("mul").outputs[0].dtype == torch.float16
    assert seen.one("div").outputs[0].item() == 1.5
    assert seen.one("add").outputs[0].dtype == torch.int64


MEASURED: dict[str, tuple[Tensor, float, float]] = {
    "float32": (torch.tensor([1.0, -3.0]), -6.0, 2.0),
    "float64": (torch.tensor([1.0, -3.0], dtype=torch.float64), -6.0, 2.0),
    "bfloat16": (torch.tensor([1.0, -3.0], dtype=torch.bfloat16), -6.0, 2.0),
    "float16": (torch.tensor([1.0, -3.0], dtype=torch.float16), -6.0, 2.0),
    "complex64": (torch.tensor([3 + 4j, 0j]), 0.0, 10.0),
    "int64": (torch.tensor([1, -3]), -6.0, 2.0),
    "uint8": (torch.tensor([1, 3], dtype=torch.uint8), 2.0, 6.0),
}


@pytest.mark.parametrize("dtype", MEASURED)
def test_statistics_are_taken_of_every_type(record, dtype) -> None:
    numbers, low, high = MEASURED[dtype]
    with record(Recorder(Want.OUTPUT_STATS)) as seen:
        numbers + numbers
    (row,) = [r for r in seen.rows if r.call.node.op_type == "add"]
    assert (row.io, row.slot, row.dtype, row.shape) == (IO.OUTPUT, 0, dtype, (2,))
    assert (row.row.min, row.row.max, row.row.count) == (low, high, 2)

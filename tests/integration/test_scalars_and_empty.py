"""0-dim and empty tensors: recorded with their shapes, in forward, backward and update."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from helpers.recorder import Recorder
from opscope.events import Want


def test_a_scalar_parameter_trains(record) -> None:
    scale = nn.Parameter(torch.tensor(3.0))
    optimizer = torch.optim.SGD([scale], lr=0.5)
    batch = torch.tensor([1.0, 2.0])
    with record() as seen:
        (batch * scale).sum().backward()
        optimizer.step()
    product = seen.of_type("mul", phase="forward")[0]
    assert product.inputs[1].shape == ()
    assert torch.equal(product.outputs[0], torch.tensor([3.0, 6.0]))
    update = seen.one("add_", phase="optimizer")
    assert update.inputs[1].item() == 3.0
    assert (update.inputs[0].item(), update.outputs[0].item()) == (3.0, 1.5)
    assert update.outputs[0].shape == ()


def test_reading_a_scalar_is_a_node_without_outputs(record) -> None:
    number = torch.tensor(4.0)
    with record() as seen:
        (number * 2).item()
    read = seen.one("_local_scalar_dense")
    assert read.inputs[0].item() == 8.0
    assert read.outputs == {}
    assert read.sources[0].node is seen.one("mul").node


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_empty_tensors_keep_their_shape(record, shape) -> None:
    empty = torch.zeros(shape)
    with record() as seen:
        (empty + 1).exp().sum()
    assert seen.one("add").outputs[0].shape == shape
    assert seen.one("exp").inputs[0].shape == shape
    assert seen.one("sum").outputs[0].item() == 0.0


def test_an_empty_batch_trains_to_zero_gradients(record) -> None:
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = torch.zeros(0, 3)
    with record() as seen:
        model(batch).sum().backward()
        optimizer.step()
    assert seen.one("addmm").outputs[0].shape == (0, 2)
    assert torch.equal(seen.gradient("weight"), torch.zeros(2, 3))
    update = seen.of_type("add_", phase="optimizer")[0]
    assert torch.equal(update.outputs[0], before)
    assert seen.steps[0].losses[0].value == 0.0


def test_statistics_of_an_empty_tensor_count_nothing(record) -> None:
    empty = torch.zeros(0, 3)
    with record(Recorder(Want.OUTPUT_STATS)) as seen:
        empty + 1
    (row,) = seen.rows
    assert (row.shape, row.row.count) == ((0, 3), 0)


def test_empty_outputs_among_others(record) -> None:
    numbers = torch.tensor([1.0, 2.0])
    with record() as seen:
        left, right = numbers.split([2, 0])
        torch.cat([left, right]).neg()
    split, cat = seen.one("split_with_sizes"), seen.one("cat")
    assert [split.outputs[slot].numel() for slot in (0, 1)] == [2, 0]
    assert [cat.sources[slot].slot for slot in (0, 1)] == [0, 1]
    assert torch.equal(seen.one("neg").outputs[0], torch.tensor([-1.0, -2.0]))

"""In-place operators: inputs hold what was there before the write, readers link to the writer."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.library import Library

from helpers.engines import needs_observer
from helpers.recorder import Recorder, recording
from opscope.events import Output, Outside, Want

STEPS = range(3)
"""The first call of a node, in setup or not, takes other ways than the ones after it."""
each_step = pytest.mark.parametrize("step", STEPS)


@pytest.fixture
def torch_library() -> Iterator[Library]:
    """Operators of a library of others, for the time of a test."""
    library = Library("opscope_liar", "DEF")
    yield library
    library._destroy()


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


def source_node(seen, slot: int = 0) -> str:
    """The name of the node that an input came from."""
    source = seen.sources[slot]
    assert isinstance(source, Output), source
    return source.node.name


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self) -> Tensor:
        x = self.weight * 2
        x.add_(1).mul_(3)  # chain
        return x.sum()


class SliceWrite(Chain):
    def forward(self) -> Tensor:
        y = self.weight * 2
        y[1:3].mul_(5)  # slice write
        return y.sum()


class SetItem(Chain):
    def forward(self) -> Tensor:
        y = self.weight * 2
        y[2] = 7.0  # set item
        return y.sum()


@functools.cache
def trained(kind: type[Chain]) -> Recorder:
    """Three steps that leave the weights as they are."""
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with recording() as seen:
        for _ in STEPS:
            model().backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


@each_step
def test_a_chain_records_the_values_between_the_writes(step) -> None:
    before = torch.tensor([1.0, 2.0, 3.0, 4.0])
    seen = trained(Chain)
    add, mul = seen.one("add_", step, "forward"), seen.one("mul_", step)
    assert torch.equal(add.inputs[0], before * 2)
    assert torch.equal(add.outputs[0], before * 2 + 1)
    assert torch.equal(mul.inputs[0], before * 2 + 1)
    assert torch.equal(mul.outputs[0], (before * 2 + 1) * 3)
    assert add.node.name == "Default/network-Chain/add_-op0"
    assert add.node.arguments["other"] == "1"
    assert add.node.stack.where.line == mul.node.stack.where.line == line_of("chain")


@each_step
def test_a_chain_links_each_reader_to_the_latest_writer(step) -> None:
    seen = trained(Chain)
    scope = "Default/network-Chain"
    assert source_node(seen.one("add_", step, "forward")) == f"{scope}/mul-op0"
    assert source_node(seen.one("mul_", step)) == f"{scope}/add_-op0"
    assert source_node(seen.one("sum", step, "forward")) == f"{scope}/mul_-op0"
    assert torch.equal(seen.gradient("weight", step), torch.full((4,), 6.0))


@each_step
def test_a_write_to_a_slice_reaches_the_readers_of_the_whole(step) -> None:
    seen = trained(SliceWrite)
    write, total = seen.one("mul_", step), seen.one("sum", step, "forward")
    assert torch.equal(write.inputs[0], torch.tensor([4.0, 6.0]))
    assert torch.equal(write.outputs[0], torch.tensor([20.0, 30.0]))
    assert source_node(write).endswith("/slice-op0")
    assert source_node(total) == write.node.name
    assert torch.equal(total.inputs[0], torch.tensor([2.0, 20.0, 30.0, 8.0]))


@each_step
def test_the_gradient_of_a_slice_write_belongs_to_its_line(step) -> None:
    seen = trained(SliceWrite)
    write = seen.one("mul_", step).node
    inner = [c for c in seen.of_type("mul", step, "backward") if c.node.forward is write]
    assert len(inner) == 1
    assert torch.equal(inner[0].outputs[0], torch.tensor([5.0, 5.0]))
    copies = [c for c in seen.of_type("copy_", step, "backward") if c.node.forward is write]
    assert len(copies) == 2
    assert all(c.node.scope == "Gradients/Default/network-SliceWrite" for c in copies)
    assert all(c.node.stack.where.line == line_of("slice write") for c in copies)
    assert torch.equal(seen.gradient("weight", step), torch.tensor([2.0, 10.0, 10.0, 2.0]))


@each_step
def test_item_assignment_is_a_copy_with_its_own_gradient(step) -> None:
    seen = trained(SetItem)
    # From torch 2.15 on a number is written by another operator.
    (copy,) = seen.of_type("copy_", step, "forward") or seen.of_type("fill_", step, "forward")
    assert copy.inputs[0].item() == 6.0
    assert copy.outputs[0].item() == 7.0
    assert copy.node.op_type == "fill_" or copy.inputs[1].item() == 7.0
    assert source_node(seen.one("sum", step, "forward")) == copy.node.name
    zeros = seen.one("zeros_like", step, "backward")
    assert zeros.node.forward is copy.node
    assert zeros.node.stack.where.line == line_of("set item")
    assert torch.equal(seen.gradient("weight", step), torch.tensor([2.0, 2.0, 0.0, 2.0]))


def test_an_out_argument_is_read_before_and_known_after(record) -> None:
    left, right = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    kept = torch.tensor([-1.0, -2.0])
    with record() as seen:
        for _ in STEPS:
            torch.add(left, right, out=kept)
            kept.neg()
            seen.capture.mark_step()
    assert torch.equal(seen.one("add").inputs[2], torch.tensor([-1.0, -2.0]))
    for step in STEPS:
        add = seen.one("add", step)
        assert torch.equal(add.outputs[0], torch.tensor([11.0, 22.0]))
        assert len(add.outputs) == 1
        assert source_node(seen.one("neg", step)) == add.node.name


def test_a_list_operator_writes_through_views(record) -> None:
    base, other = torch.zeros(2, 2), torch.ones(2)
    with record() as seen:
        for _ in STEPS:
            row = base[0]
            torch._foreach_add_([row, other], 3.0)
            base.neg()
            seen.capture.mark_step()
    for step in STEPS:
        write, neg = seen.one("_foreach_add_", step), seen.one("neg", step)
        assert torch.equal(write.inputs[0], torch.full((2,), 3.0 * step))
        assert torch.equal(write.outputs[1], torch.full((2,), 4.0 + 3.0 * step))
        assert neg.sources[0] is write.node.outputs[0]
        assert torch.equal(neg.inputs[0][0], torch.full((2,), 3.0 + 3.0 * step))


def test_a_parameter_written_between_backward_and_update_keeps_its_name(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = torch.ones(3, 2)
    with record() as seen:
        for _ in STEPS:
            optimizer.zero_grad()
            model(batch).sum().backward()
            with torch.no_grad():
                model.weight.mul_(0.5)
            optimizer.step()
    for step in STEPS:
        halve, update = seen.one("mul_", step), seen.one("add_", step)
        torch.testing.assert_close(halve.inputs[0], before)
        torch.testing.assert_close(halve.outputs[0], before * 0.5)
        assert halve.node.outputs[0].parameter == "weight"
        assert update.sources[0] is halve.node.outputs[0]
        before = before * 0.5 - 0.5 * 3
        torch.testing.assert_close(update.outputs[0], before)


def test_weights_clamped_through_data_are_the_weights_used(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = torch.ones(3, 2)
    with record() as seen:
        for _ in STEPS:
            model.weight.data.clamp_(-0.1, 0.1)
            model(batch).sum().backward()
            optimizer.step()
    for step in (1, 2):
        clamp = seen.one("clamp_", step)
        assert clamp.sources[0] == Outside("parameter", "weight", "weight")
        assert clamp.inputs[0].abs().max() > 0.1 >= clamp.outputs[0].abs().max()
        used = seen.one("t", step, "forward")
        assert used.sources[0] is clamp.node.outputs[0]
        assert torch.equal(used.inputs[0], clamp.outputs[0])


def test_batch_norm_shows_its_running_statistics_before_and_after(record) -> None:
    model = nn.BatchNorm1d(2, momentum=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    mean, var = torch.zeros(2), torch.ones(2)
    with record() as seen:
        for _ in STEPS:
            model(batch).square().sum().backward()
            optimizer.step()
    for step in STEPS:
        norm = seen.one("native_batch_norm", step)
        slots = {s.name: slot for slot, s in norm.sources.items() if s.kind == "buffer"}
        torch.testing.assert_close(norm.inputs[slots["running_mean"]], mean)
        torch.testing.assert_close(norm.inputs[slots["running_var"]], var)
        mean, var = (mean + batch.mean(0)) / 2, (var + batch.var(0)) / 2
        written = [norm.outputs[slot] for slot in sorted(norm.outputs)][-2:]
        torch.testing.assert_close(written, [mean, var])
        assert seen.one("add_", step, "forward").outputs[0].item() == step + 1  # batches tracked


@needs_observer
def test_an_operator_of_others_returns_what_it_returns(torch_library: Library) -> None:
    """Whatever its schema promises."""
    torch_library.define("write(Tensor(a!) x) -> Tensor(a!)")

    def write(x: Tensor) -> Tensor:
        x.fill_(3.0)
        return torch.full((2, 2), 7.0)

    torch_library.impl("write", write, "CPU")
    recorder = Recorder(Want.OUTPUT_STATS)
    with recording(recorder) as seen:
        for _ in STEPS:
            torch.ops.opscope_liar.write(torch.zeros(2, 2))
            seen.capture.mark_step()
    rows = [row for row in recorder.rows if row.call.node.op_type == "opscope_liar_write"]
    assert [(row.call.step, row.slot, row.row.max) for row in rows] == [
        (step, slot, most) for step in STEPS for slot, most in ((0, 7.0), (1, 3.0))
    ]

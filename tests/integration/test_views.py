"""Views and slices: edges run through them, and writes through one reach the readers of all."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from helpers.recorder import Recorder, recording
from opscope.events import Output, Want

STEPS = range(3)
"""The first call of a node, in setup or not, takes other ways than the ones after it."""


def source_name(seen, slot: int = 0) -> str:
    source = seen.sources[slot]
    assert isinstance(source, Output), source
    return f"{source.node.name.rpartition('/')[2]}:{source.slot}"


def repeated(record, body: Callable[[], object]):
    """Three steps of something without a model."""
    with record() as seen:
        for _ in STEPS:
            body()
            seen.capture.mark_step()
    return seen


class Views(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0))

    def forward(self) -> Tensor:
        grid = self.weight.view(2, 3)
        left, right = grid.transpose(0, 1).split([1, 2])
        return (left.exp() * 2).sum() + right[1:].expand(4, 2).sum()


def train(record, model: nn.Module):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with record() as seen:
        for _ in STEPS:
            model().backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


def test_values_and_edges_follow_a_chain_of_views(record) -> None:
    seen = train(record, Views())
    for step in STEPS:
        assert source_name(seen.one("transpose", step, "forward")) == "view-op0:0"
        split = seen.one("split_with_sizes", step, "forward")
        assert source_name(split) == "transpose-op0:0"
        assert torch.equal(split.outputs[0], torch.tensor([[0.0, 3.0]]))
        assert torch.equal(split.outputs[1], torch.tensor([[1.0, 4.0], [2.0, 5.0]]))
        assert source_name(seen.one("exp", step)) == "split_with_sizes-op0:0"
        assert source_name(seen.one("slice", step, "forward")) == "split_with_sizes-op0:1"
        expand = seen.one("expand", step, "forward")
        assert torch.equal(expand.outputs[0], torch.tensor([[2.0, 5.0]] * 4))


def test_gradients_flow_back_through_a_chain_of_views(record) -> None:
    seen = train(record, Views())
    e3 = torch.tensor(3.0).exp().item()
    expected = torch.tensor([2.0, 0.0, 4.0, 2 * e3, 0.0, 4.0])
    for step in STEPS:
        torch.testing.assert_close(seen.gradient("weight", step), expected)
        views = [c.node.scope for c in seen.of_type("view", step)]
        assert {v.removeprefix("Gradients/") for v in views} == {"Default/network-Views"}


def test_a_write_through_a_view_is_the_source_of_the_base(record) -> None:
    def body() -> None:
        base = torch.zeros(2, 2).add(1)
        base.view(4)[1].mul_(5)
        base.neg()

    seen = repeated(record, body)
    for step in STEPS:
        neg = seen.one("neg", step)
        assert source_name(neg) == "mul_-op0:0"
        assert torch.equal(neg.inputs[0], torch.tensor([[1.0, 5.0], [1.0, 1.0]]))


def test_a_write_to_the_base_is_the_source_of_an_older_view(record) -> None:
    def body() -> None:
        base = torch.zeros(4).add(1)
        view = base.view(2, 2)
        base.mul_(3)
        view.neg()
        view.abs()

    seen = repeated(record, body)
    for step in STEPS:
        neg, magnitude = seen.one("neg", step), seen.one("abs", step)
        assert source_name(neg) == source_name(magnitude) == "mul_-op0:0"
        assert torch.equal(neg.outputs[0], torch.full((2, 2), -3.0))


def test_a_view_taken_after_a_write_is_its_own_source(record) -> None:
    def body() -> None:
        base = torch.zeros(4).add(1)
        base.view(2, 2).mul_(3)
        base.view(4, 1).neg()

    seen = repeated(record, body)
    for step in STEPS:
        assert source_name(seen.of_type("view", step)[1]) == "mul_-op0:0"
        assert source_name(seen.one("neg", step)) == "view-op1:0"


def test_detach_shares_memory_and_clone_does_not(record) -> None:
    def body() -> None:
        base = torch.zeros(2).add(1)
        shared, own = base.detach(), base.clone()
        base.mul_(3)
        shared.neg()
        own.abs()

    seen = repeated(record, body)
    for step in STEPS:
        assert source_name(seen.one("neg", step)) == "mul_-op0:0"
        assert source_name(seen.one("abs", step)) == "clone-op0:0"
        assert torch.equal(seen.one("abs", step).inputs[0], torch.ones(2))


def test_a_write_to_one_part_of_a_split_is_seen_through_the_whole(record) -> None:
    def body() -> None:
        base = torch.zeros(4).add(1)
        left, right = base.chunk(2)
        right.mul_(3)
        left.abs()
        base.neg()

    seen = repeated(record, body)
    for step in STEPS:
        assert seen.one("mul_", step).sources[0].slot == 1
        assert source_name(seen.one("neg", step)) == "mul_-op0:0"
        assert torch.equal(seen.one("abs", step).outputs[0], torch.ones(2))
        assert torch.equal(seen.one("neg", step).inputs[0], torch.tensor([1.0, 1.0, 3.0, 3.0]))


def test_reshape_is_a_view_or_a_copy_as_it_has_to_be(record) -> None:
    def body() -> None:
        base = torch.arange(6.0).view(2, 3)
        flat, copied = base.reshape(6), base.t().reshape(6)
        base.mul_(2)
        flat.neg()
        copied.abs()

    seen = repeated(record, body)
    for step in STEPS:
        neg, magnitude = seen.one("neg", step), seen.one("abs", step)
        assert source_name(neg) == "mul_-op0:0"
        assert torch.equal(neg.inputs[0], torch.arange(6.0) * 2)
        assert magnitude.inputs[0].tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
        assert "mul_" not in source_name(magnitude)


def test_a_write_to_a_row_of_a_parameter_is_seen_by_its_next_use(record) -> None:
    model = nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(1, 2)
    with record() as seen:
        for _ in STEPS:
            with torch.no_grad():
                model(batch)
                model.weight[0].zero_()
            model(batch).sum().backward()
            optimizer.step()
    for step in STEPS:
        second = seen.of_type("t", step, "forward")[1]
        assert source_name(second) == "zero_-op0:0"
        assert torch.equal(second.inputs[0][0], torch.zeros(2))


MAKERS: dict[str, Callable[[Tensor], Tensor]] = {
    "frombuffer": lambda weight: torch.frombuffer(bytearray(12), dtype=torch.float32),
    "from_numpy": lambda weight: torch.from_numpy(torch.ones(3).numpy()),
    "from_dlpack": lambda weight: torch.from_dlpack(torch.ones(3).numpy()),
    "asarray": lambda weight: torch.asarray([1.0, 2.0, 3.0]),
    "new parameter": lambda weight: nn.Parameter(torch.zeros(3)),
    "copied parameter": copy.deepcopy,
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_new_tensor_never_inherits_the_source_of_a_dead_one(record, maker) -> None:
    weight = nn.Parameter(torch.ones(3))
    with record() as seen:
        dead = [weight * 3 for _ in range(50)]
        del dead  # their addresses are free for what is made next
        made = [MAKERS[maker](weight) for _ in range(50)]
        for tensor in made:
            tensor.neg()
    for call in seen.of_type("neg"):
        source = call.sources[0]
        if isinstance(source, Output):
            assert source.node.op_type != "mul", source
        else:
            assert source.name != "unnamed.0", "the original, not its copy"


def test_one_place_may_make_views_of_any_layout(record) -> None:
    """Sizes and strides are told apart where most of them are zero, too."""
    weight = nn.Parameter(torch.arange(4.0) + 1)
    layouts = [((1,), (0,)), ((2, 0), (0, 0)), ((3, 0, 0), (0, 0, 0)), ((2, 2), (0, 0)), ((), ())]
    recorder = Recorder(Want.OUTPUT_STATS)
    with recording(recorder) as seen:
        for step in range(3 * len(layouts)):
            torch.as_strided(weight, *layouts[step % len(layouts)])
            seen.capture.mark_step()
    rows = [row for row in recorder.rows if row.call.node.op_type == "as_strided"]
    assert len(rows) == 3 * len(layouts)
    for row in rows:
        sizes, _ = layouts[row.call.step % len(layouts)]
        assert (row.shape, row.row.count) == (sizes, torch.Size(sizes).numel())

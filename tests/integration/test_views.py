"""Views and slices: edges run through them, and writes through one reach the readers of all."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from opscope.events import Output


def source_name(seen, slot: int = 0) -> str:
    source = seen.sources[slot]
    assert isinstance(source, Output), source
    return f"{source.node.name.rpartition('/')[2]}:{source.slot}"


class Views(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0))

    def forward(self) -> Tensor:
        grid = self.weight.view(2, 3)
        left, right = grid.transpose(0, 1).split([1, 2])
        return (left.exp() * 2).sum() + right[1:].expand(4, 2).sum()


def test_values_and_edges_follow_a_chain_of_views(record) -> None:
    model = Views()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        model().backward()
        optimizer.step()
    assert source_name(seen.one("transpose", phase="forward")) == "view-op0:0"
    split = seen.of_type("split_with_sizes", phase="forward")[0]
    assert source_name(split) == "transpose-op0:0"
    assert torch.equal(split.outputs[0], torch.tensor([[0.0, 3.0]]))
    assert torch.equal(split.outputs[1], torch.tensor([[1.0, 4.0], [2.0, 5.0]]))
    assert source_name(seen.one("exp", phase="forward")) == "split_with_sizes-op0:0"
    assert source_name(seen.of_type("slice", phase="forward")[0]) == "split_with_sizes-op0:1"
    expand = seen.of_type("expand", phase="forward")[0]
    assert torch.equal(expand.outputs[0], torch.tensor([[2.0, 5.0]] * 4))


def test_gradients_flow_back_through_a_chain_of_views(record) -> None:
    model = Views()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        model().backward()
        optimizer.step()
    e3 = torch.tensor(3.0).exp().item()
    expected = torch.tensor([2.0, 0.0, 4.0, 2 * e3, 0.0, 4.0])
    torch.testing.assert_close(seen.gradient("weight"), expected)
    views = [c.node for c in seen.calls if c.node.op_type == "view" and c.step == 0]
    assert {v.scope.removeprefix("Gradients/") for v in views} == {"Default/network-Views"}


def test_a_write_through_a_view_is_the_source_of_the_base(record) -> None:
    with record() as seen:
        base = torch.zeros(2, 2).add(1)
        base.view(4)[1].mul_(5)
        base.neg()
    neg = seen.one("neg")
    assert source_name(neg) == "mul_-op0:0"
    assert torch.equal(neg.inputs[0], torch.tensor([[1.0, 5.0], [1.0, 1.0]]))


def test_a_write_to_the_base_is_the_source_of_an_older_view(record) -> None:
    with record() as seen:
        base = torch.zeros(4).add(1)
        view = base.view(2, 2)
        base.mul_(3)
        view.neg()
        view.abs()
    assert source_name(seen.one("neg")) == source_name(seen.one("abs")) == "mul_-op0:0"
    assert torch.equal(seen.one("neg").outputs[0], torch.full((2, 2), -3.0))


def test_a_view_taken_after_a_write_is_its_own_source(record) -> None:
    with record() as seen:
        base = torch.zeros(4).add(1)
        base.view(2, 2).mul_(3)
        base.view(4, 1).neg()
    assert source_name(seen.of_type("view")[1]) == "mul_-op0:0"
    assert source_name(seen.one("neg")) == "view-op1:0"


def test_detach_shares_memory_and_clone_does_not(record) -> None:
    with record() as seen:
        base = torch.zeros(2).add(1)
        shared, own = base.detach(), base.clone()
        base.mul_(3)
        shared.neg()
        own.abs()
    assert source_name(seen.one("neg")) == "mul_-op0:0"
    assert source_name(seen.one("abs")) == "clone-op0:0"
    assert torch.equal(seen.one("abs").inputs[0], torch.ones(2))


def test_reshape_is_a_view_or_a_copy_as_it_has_to_be(record) -> None:
    with record() as seen:
        base = torch.arange(6.0).view(2, 3)
        flat, copied = base.reshape(6), base.t().reshape(6)
        base.mul_(2)
        flat.neg()
        copied.abs()
    assert source_name(seen.one("neg")) == "mul_-op0:0"
    assert torch.equal(seen.one("neg").inputs[0], torch.arange(6.0) * 2)
    assert torch.equal(seen.one("abs").inputs[0], torch.tensor([0.0, 3.0, 1.0, 4.0, 2.0, 5.0]))
    assert "mul_" not in source_name(seen.one("abs"))


def test_a_write_to_a_row_of_a_parameter_is_seen_by_its_next_use(record) -> None:
    model = nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(1, 2)
    with record() as seen:
        with torch.no_grad():
            model(batch)
            model.weight[0].zero_()
        model(batch).sum().backward()
        optimizer.step()
    second = seen.of_type("t", phase="forward")[1]
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
        for _ in range(5):
            dead = weight * 3
            del dead  # its address is free for what is made next
            MAKERS[maker](weight).neg()
    for call in seen.of_type("neg"):
        source = call.sources[0]
        if isinstance(source, Output):
            assert source.node.op_type != "mul", source
        else:
            assert source.name != "unnamed.0", "the original, not its copy"

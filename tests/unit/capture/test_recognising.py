"""Networks, the backward of a step, batches and optimizers, recognised for what they are."""

from __future__ import annotations

import gc

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from opscope.capture import recognising


def test_a_network_has_something_to_learn() -> None:
    deep = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(1, 1))))
    assert recognising.has_parameters(nn.Linear(1, 1))
    assert recognising.has_parameters(deep)
    assert not recognising.has_parameters(nn.Sequential(nn.ReLU(), nn.CrossEntropyLoss()))
    bare = nn.Module()
    bare.register_parameter("none", None)
    assert not recognising.has_parameters(bare)


def test_a_gradient_with_a_graph_is_part_of_a_loss() -> None:
    roots, gradients = (), ()
    assert recognising.ends_in_gradients((roots, gradients), {})
    assert recognising.ends_in_gradients((roots, gradients, False), {})
    assert not recognising.ends_in_gradients((roots, gradients, True), {})
    assert recognising.ends_in_gradients((roots, gradients, True), {"accumulate_grad": True})


def test_levels_of_function_transforms() -> None:
    seen: list[int] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        seen.append(recognising.levels_of_grad())
        return (x**3).sum()

    torch.func.grad(inner)(torch.ones(2))
    torch.func.grad(lambda x: torch.func.grad(inner)(x).sum())(torch.ones(2))
    torch.func.vmap(inner)(torch.ones(2, 2))
    assert seen == [1, 2, 0]
    assert recognising.levels_of_grad() == 0


def test_tensors_without_memory() -> None:
    assert recognising.fake_mode() is None
    with FakeTensorMode() as mode:
        assert recognising.fake_mode() is mode


def test_the_tensors_of_a_batch_have_names() -> None:
    a, b, c, d = (torch.full((1,), float(n)) for n in range(4))
    found = recognising.arguments((a, [b, {"deep": c}], "text"), {"mask": d, "more": [[[a]]]})
    assert [name for name, _ in found] == ["input0", "input1.0", "input1.1.deep", "mask"]
    assert [tensor.item() for _, tensor in found] == [0.0, 1.0, 2.0, 3.0]


def test_optimizers_that_are_used_are_found() -> None:
    class Own(torch.optim.SGD):
        pass

    kept = Own(nn.Linear(1, 1).parameters(), lr=0.1)
    cycle: list[object] = [torch.optim.Adam(nn.Linear(1, 1).parameters())]
    gone = id(cycle[0])
    cycle.append(cycle)
    del cycle
    found: list[object] = []
    recognising.find_optimizers(found.append)
    assert any(each is kept for each in found)
    assert gone not in map(id, found), "nobody can use it any more"
    gc.collect()

"""`torch.utils.checkpoint`, reentrant and not: recomputed parts, their gradients, what follows."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from helpers.recorder import Recorder, recording

BATCH = torch.linspace(-1, 1, 6).view(3, 2).requires_grad_()
both = pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non-reentrant"])
NETWORK = "Default/network-Net"


class Net(nn.Module):
    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
        self.head = nn.Linear(2, 1)
        self.reentrant = reentrant

    def block(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())

    def forward(self, x: Tensor) -> Tensor:
        if self.reentrant is None:
            return self.head(self.block(x))
        return self.head(checkpoint(self.block, x, use_reentrant=self.reentrant))


def fresh(reentrant: bool | None) -> Net:
    torch.manual_seed(9)
    return Net(reentrant)


def train(model: Net, steps: int = 3) -> list[dict[str, Tensor]]:
    """Trains; returns the gradients of every step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    gradients = []
    for _ in range(steps):
        BATCH.grad = None  # which no optimizer does
        model(BATCH).square().sum().backward()
        gradients.append({n: p.grad for n, p in model.named_parameters()})
        optimizer.step()
        optimizer.zero_grad()
    return gradients


@functools.cache
def watch(reentrant: bool, steps: int = 3) -> Recorder:
    model = fresh(reentrant)
    with recording() as seen:
        train(model, steps)
    return seen


def recomputed(seen, step: int = 0) -> list:
    return [c for c in seen.calls if c.step == step and "/recompute/" in c.node.name]


@both
def test_gradients_are_those_without_a_checkpoint(reentrant) -> None:
    expected = train(fresh(None))
    seen = watch(reentrant)
    for step in range(2):
        for name, gradient in expected[step].items():
            torch.testing.assert_close(seen.gradient(name, step), gradient)


@both
def test_recomputed_operators_repeat_the_forward_in_backward(reentrant) -> None:
    seen = watch(reentrant)
    for step in range(2):
        again = [c for c in recomputed(seen, step) if c.node.op_type in ("addmm", "tanh")]
        first = [c for c in seen.calls if c.step == step and c.node.op_type in ("addmm", "tanh")]
        assert [c.node.op_type for c in again] == ["addmm", "tanh", "addmm"][: len(again)]
        assert len(again) >= 2  # the last one is not needed when nothing saved is missing
        for number, (one, two) in enumerate(zip(first, again, strict=False)):
            if two.outputs or number < len(again) - 1:  # the last may be stopped on its way
                assert torch.equal(one.outputs[0], two.outputs[0])
            assert not two.node.raised
            assert (one.node.phase, two.node.phase) == ("forward", "backward")
            assert one.node.stack.where.line == two.node.stack.where.line


@both
def test_recomputed_operators_are_named_after_where_they_ran(reentrant) -> None:
    names = [c.node.name for c in recomputed(watch(reentrant))]
    prefix = f"Gradients/recompute/{NETWORK}"
    assert f"{prefix}/first-Linear/addmm-op0" in names
    assert f"{prefix}/tanh-op0" in names


@both
def test_gradients_of_the_recomputed_part_belong_to_its_modules(reentrant) -> None:
    seen = watch(reentrant)
    tanh = seen.one("tanh_backward")
    line = inspect.getsourcelines(Net.block)[1] + 1
    assert tanh.node.stack.where.line == line
    assert tanh.node.phase == "backward"
    assert tanh.node.name == f"Gradients/{NETWORK}/tanh_backward-op0"
    scopes = [c.node.scope for c in seen.of_type("AccumulateGrad") if "first" in c.node.gradient_of]
    assert scopes == [f"Gradients/{NETWORK}/first-Linear"] * 2
    products = [c.node.scope for c in seen.of_type("mm", phase="backward")]
    modules = ["head-Linear"] * 2 + ["second-Linear"] * 2 + ["first-Linear"] * 2
    assert products == [f"Gradients/{NETWORK}/{module}" for module in modules]


@both
def test_nothing_is_lost_after_a_checkpoint(reentrant) -> None:
    seen = watch(reentrant)
    names = [name for name, _ in fresh(None).named_parameters()]
    assert [s.complete for s in seen.steps] == [True] * 3
    for step in range(2):
        updates = seen.of_type("add_", step, "optimizer")
        assert [c.node.parameter for c in updates] == names
        assert {c.node.scope for c in updates} == {"Default/optimizer-SGD"}
        phases = [c.node.phase.value for c in seen.calls if c.step == step]
        turns = [p for i, p in enumerate(phases) if i == 0 or phases[i - 1] != p]
        assert turns == ["forward", "backward", "optimizer"]
        assert len(seen.steps[step].losses) == 1


@both
def test_names_are_the_same_in_every_step(reentrant) -> None:
    seen = watch(reentrant)
    names = [[c.node.name for c in seen.calls if c.step == step] for step in range(3)]
    assert names[0] == names[1] == names[2]


def test_two_checkpoints_recompute_last_first(record) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = checkpoint(self.a, x, use_reentrant=False)
            return checkpoint(self.b, x.sin(), use_reentrant=False)

    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        model(BATCH).cos().sum().backward()
        optimizer.step()
    scopes = list(dict.fromkeys(c.node.scope for c in recomputed(seen)))
    prefix = "Gradients/recompute/Default/network-Two"
    assert scopes == [f"{prefix}/b-Linear", f"{prefix}/a-Linear"]
    assert torch.equal(seen.gradient("a.weight"), model.a.weight.grad)

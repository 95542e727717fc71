"""Custom `autograd.Function`: both of its sides on their own lines, with right values."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        squared = x.mul(x)  # square
        return squared.mul(x)  # cube

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient.mul(x.pow(2)).mul(3)  # derivative


class Reverse(torch.autograd.Function):
    """Passes its input on and turns the gradient round, without an operator of its own."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient.neg()  # reverse


class Split(torch.autograd.Function):
    """Two inputs, two outputs, one of them not differentiable."""

    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        positive = x.gt(0)
        ctx.mark_non_differentiable(positive)
        return x.mul(y), positive

    @staticmethod
    def backward(ctx, gradient: Tensor, _: object) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return gradient.mul(y), gradient.mul(x)  # both


class Inner(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Net(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        self.inner = Inner(function)

    def forward(self) -> Tensor:
        return (self.inner(self.weight * 2) * 5).sum()


def train(record, function, steps: int = 2):
    model = Net(function)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with record() as seen:
        for _ in range(steps):
            model().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(seen.steps) == steps
    return seen


def on_line(seen, marker: str, step: int = 0) -> list:
    where = line_of(marker)
    calls = [c for c in seen.calls if c.step == step and c.node.stack.where]
    return [c for c in calls if c.node.stack.where.line == where]


INNER = "Default/network-Net/inner-Inner"
X = torch.tensor([2.0, -4.0, 6.0])


def test_forward_operators_have_lines_and_values(record) -> None:
    seen = train(record, Cube.apply)
    (square,), (cube,) = on_line(seen, "square"), on_line(seen, "cube")
    assert torch.equal(square.outputs[0], X**2)
    assert torch.equal(cube.outputs[0], X**3)
    assert cube.sources[0] is square.node.outputs[0]
    assert {c.node.phase.value for c in (square, cube)} == {"forward"}
    assert {c.node.scope for c in (square, cube)} == {INNER}


def test_backward_operators_have_their_own_lines_and_the_forward_scope(record) -> None:
    seen = train(record, Cube.apply)
    for step in range(2):
        power, first, second = on_line(seen, "derivative", step)
        assert [c.node.op_type for c in (power, first, second)] == ["pow", "mul", "mul"]
        assert torch.equal(power.inputs[0], X)
        assert torch.equal(second.outputs[0], 5 * 3 * X**2)
        assert {c.node.scope for c in (power, first, second)} == {f"Gradients/{INNER}"}
        assert {c.node.phase.value for c in (power, first, second)} == {"backward"}
        assert power.node.forward.scope == INNER
    assert torch.equal(seen.gradient("weight"), 2 * 5 * 3 * X**2)


def test_what_surrounds_the_function_is_attributed_to_itself(record) -> None:
    seen = train(record, Cube.apply)
    last = next(c for c in seen.of_type("mul") if torch.equal(c.outputs[0], 5 * X**3))
    back = [c for c in seen.of_type("mul", phase="backward") if c.node.forward is last.node]
    assert [torch.equal(c.outputs[0], torch.full((3,), 5.0)) for c in back] == [True]
    doubling = seen.of_type("mul")[0]
    back = [c for c in seen.of_type("mul", phase="backward") if c.node.forward is doubling.node]
    assert torch.equal(back[-1].outputs[0], 2 * 5 * 3 * X**2)


def test_a_function_without_forward_operators_keeps_its_scope(record) -> None:
    seen = train(record, Reverse.apply)
    (neg,) = on_line(seen, "reverse")
    assert torch.equal(neg.outputs[0], torch.full((3,), -5.0))
    assert torch.equal(seen.gradient("weight"), torch.full((3,), -10.0))
    assert neg.node.phase == "backward"
    assert neg.node.scope == f"Gradients/{INNER}"
    last = seen.of_type("mul", phase="forward")[-1]
    back = [c for c in seen.of_type("mul", phase="backward") if c.node.forward is last.node]
    assert len(back) == 1


def test_several_inputs_and_outputs(record) -> None:
    seen = train(record, lambda x: Split.apply(x, x + 1)[0])
    assert torch.equal(seen.one("gt").outputs[0], torch.tensor([True, False, True]))
    left, right = on_line(seen, "both")
    assert torch.equal(left.outputs[0], 5 * (X + 1))
    assert torch.equal(right.outputs[0], 5 * X)
    assert torch.equal(seen.gradient("weight"), 2 * 5 * (2 * X + 1))
    # Plain autograd adds in place, and under a dispatch mode out of place.
    (total,) = [
        c
        for c in seen.calls
        if c.node.op_type in ("add", "add_") and c.step == 0 and c.node.phase == "backward"
    ]
    sources = {s.node for s in total.sources.values()}
    assert sources == {left.node, right.node}


def test_an_operator_of_the_users_own_is_one_however_it_is_called(record) -> None:
    @torch.library.custom_op("opscope_tests::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return torch.from_numpy(2 * x.detach().numpy())  # of which nothing inside is an operator

    doubled.register_autograd(lambda ctx, gradient: 2 * gradient)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with record() as seen:
        for _ in range(2):
            hidden = model(torch.ones(1, 2))
            called = (doubled, torch.ops.opscope_tests.doubled, doubled._opoverload)
            sum(call(hidden).sum() for call in called).backward()
            optimizer.step()
    found = seen.of_type("opscope_tests_doubled", 1)
    assert len(found) == 3
    for call in found:
        assert torch.equal(2 * call.inputs[0], call.outputs[0])

"""Backward truth: for common operators, recorded gradients are those that autograd hooks see."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.twice import hook_is_there

INDEX = torch.tensor([2, 0, 2])
PICK = torch.tensor([[0, 2, 1], [1, 1, 0]])
MASK = torch.tensor([[True, False, True], [False, True, False]])
CLASSES = torch.tensor([1, 0])
Shape = tuple[int, ...]
m23, m34, v3, v4 = (2, 3), (3, 4), (3,), (4,)
b234, b245 = (2, 3, 4), (2, 4, 5)
image = (2, 2, 6, 6)
heads = (2, 2, 3, 4)

CASES: dict[str, tuple[Callable[..., Any], tuple[Shape, ...]]] = {
    "linear 2-D": (lambda x, w, b: F.linear(x, w, b), (m23, (4, 3), v4)),
    "linear 3-D": (lambda x, w, b: F.linear(x, w, b), (b234, (5, 4), (5,))),
    "linear no bias": (lambda x, w: F.linear(x, w), (b234, (5, 4))),
    "matmul 1-1": (lambda x, y: x @ y, (v3, v3)),
    "matmul 1-2": (lambda x, y: x @ y, (v3, m34)),
    "matmul 2-1": (lambda x, y: x @ y, (m23, v3)),
    "matmul 2-2": (lambda x, y: x @ y, (m23, m34)),
    "matmul 3-2": (lambda x, y: x @ y, (b234, (4, 5))),
    "matmul 2-3": (lambda x, y: x @ y, ((3, 4), b245)),
    "matmul 3-3": (lambda x, y: x @ y, (b234, b245)),
    "matmul 3-1": (lambda x, y: x @ y, (b234, v4)),
    "matmul 4-3": (lambda x, y: x @ y, (heads, (2, 4, 3))),
    "bmm": (lambda x, y: torch.bmm(x, y), (b234, b245)),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), (b234, b245)),
    "einsum outer": (lambda x, y: torch.einsum("i,j->ij", x, y), (v3, v4)),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, padding=1), ((2, 2, 6), (3, 2, 3), v3)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2), (image, (3, 2, 3, 3), v3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w), (image, (2, 3, 2, 2))),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (heads,) * 3),
    "softmax": (lambda x: F.softmax(x, 1), (m23,)),
    "log_softmax": (lambda x: F.log_softmax(x, 1), (m23,)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, v3, w, b), (m23, v3, v3)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (m23, v3, v3)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), ((2, 4, 3), v4, v4)),
    "rms_norm": (lambda x, w: F.rms_norm(x, v3, w), (m23, v3)),
    "embedding": (lambda w: F.embedding(INDEX, w), (m34,)),
    "gelu": (lambda x: F.gelu(x), (m23,)),
    "silu": (lambda x: F.silu(x), (m23,)),
    "relu": (lambda x: F.relu(x), (m23,)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), (m23,)),
    "tanh": (lambda x: x.tanh(), (m23,)),
    "sigmoid": (lambda x: x.sigmoid(), (m23,)),
    "softplus": (lambda x: F.softplus(x), (m23,)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (image,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (image,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), (image,)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2), (image,)),
    "add": (lambda x, y: x + y, (m23, m23)),
    "add broadcast": (lambda x, y: x + y, (m23, v3)),
    "sub": (lambda x, y: x - y, (m23, m23)),
    "mul": (lambda x, y: x * y, (m23, m23)),
    "mul broadcast": (lambda x, y: x * y, (m23, (2, 1))),
    "div": (lambda x, y: x / y, (m23, m23)),
    "pow": (lambda x: x.pow(3), (m23,)),
    "square": (lambda x: x.square(), (m23,)),
    "abs": (lambda x: x.abs(), (m23,)),
    "sqrt": (lambda x: x.abs().add(1).sqrt(), (m23,)),
    "exp": (lambda x: x.exp(), (m23,)),
    "log": (lambda x: x.abs().add(1).log(), (m23,)),
    "dropout": (lambda x: F.dropout(x, 0.5, True), (m23,)),
    "mse_loss": (lambda x, y: F.mse_loss(x, y), (m23, m23)),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y), (m23, m23)),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy_with_logits(x, MASK * 1.0), (m23,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, CLASSES), (m23,)),
    "kl_div": (lambda x, y: F.kl_div(x, y.softmax(1), reduction="sum"), (m23, m23)),
    "mean": (lambda x: x.mean(), (m23,)),
    "mean dim": (lambda x: x.mean(1), (m23,)),
    "sum": (lambda x: x.sum(0), (m23,)),
    "max dim": (lambda x: x.max(1).values, (m23,)),
    "logsumexp": (lambda x: x.logsumexp(1), (m23,)),
    "cat": (lambda x, y: torch.cat([x, y], 0), (m23, (1, 3))),
    "stack": (lambda x, y: torch.stack([x, y]), (m23, m23)),
    "transpose": (lambda x: x.t(), (m23,)),
    "slice": (lambda x: x[:, 1:], (m23,)),
    "mask index": (lambda x: x[MASK], (m23,)),
    "index_select": (lambda x: x.index_select(0, INDEX), (m34,)),
    "gather": (lambda x: x.gather(1, PICK), (m23,)),
    "scatter_add": (lambda x, y: x.scatter_add(1, PICK, y), (m23, m23)),
    "index_add": (lambda x, y: x.index_add(0, INDEX, y), (m34, m34)),
    "where": (lambda x, y: torch.where(MASK, x, y), (m23, m23)),
    "masked_fill": (lambda x: x.masked_fill(MASK, 2.0), (m23,)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), (m23,)),
    "cumsum": (lambda x: x.cumsum(1), (m23,)),
    "norm": (lambda x: x.norm(), (m23,)),
    "var": (lambda x: x.var(1), (m23,)),
    "std": (lambda x: x.std(1), (m23,)),
}
NO_OWN_BACKWARD = {"add"}
"""Operators whose gradient is the incoming tensor itself: nothing runs for them in backward."""


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> Iterator[None]:
    """Capture looks for optimizers among all objects: leave torch's own out of so many looks."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Operator(nn.Module):
    """The operator of a case."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = CASES[name][0]

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


@dataclass
class Hooked:
    """Gradients of an operator's inputs and output, as hooks saw them."""

    inputs: dict[int, Tensor] = field(default_factory=dict)
    output: Tensor | None = None


class Case(nn.Module):
    """Scales the parameters, applies the operator and weighs its output into a loss.

    Hooked in a plain run, it tells the gradients of the operator's inputs and output; the watched
    run must record exactly these, in the operator's scope and on its line.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(11)
        for index, shape in enumerate(CASES[name][1]):
            self.register_parameter(f"p{index}", nn.Parameter(torch.randn(shape)))
        self.operator = Operator(name)
        self.hooked: Hooked | None = None

    def forward(self) -> Tensor:
        inputs = [p * 1.5 for p in self.parameters()]
        output = self.operator(*inputs)
        if self.hooked is not None:
            self.hook(inputs, output, self.hooked)
        return (output * torch.linspace(0.5, 2, output.numel()).view(output.shape)).sum()

    def hook(self, inputs: list[Tensor], output: Tensor, hooked: Hooked) -> None:
        for index, tensor in enumerate(inputs):
            tensor.register_hook(lambda g, i=index: hooked.inputs.update({i: g.clone()}))
        output.register_hook(lambda g: setattr(hooked, "output", g.clone()))


def plain_run(name: str) -> list[tuple[Hooked, dict[str, Tensor]]]:
    """What hooks saw, and the parameters' gradients, in each of two steps."""
    case = Case(name)
    optimizer = torch.optim.SGD(case.parameters(), lr=0.1)
    found = []
    for _ in range(2):
        case.hooked = Hooked()
        optimizer.zero_grad()
        case().backward()
        found.append((case.hooked, {n: p.grad for n, p in case.named_parameters()}))
        optimizer.step()
    return found


def watched_run(record, name: str):
    case = Case(name)
    optimizer = torch.optim.SGD(case.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            case().backward()
            optimizer.step()
    return seen


def backward_of(seen, forward) -> list:
    muls = seen.of_type("mul", forward.step, "backward")
    return [c for c in muls if c.node.forward is forward.node]


def outer_muls(seen, step: int) -> list:
    """The scalings of the parameters, in their order, and last the weighing of the output."""
    muls = seen.of_type("mul", step, "forward")
    return [c for c in muls if c.node.scope == "Default/network-Case"]


def check_values(seen, step: int, hooked: Hooked, gradients: dict[str, Tensor]) -> None:
    for parameter, gradient in gradients.items():
        assert torch.equal(seen.gradient(parameter, step), gradient)
    *scalings, weighing = outer_muls(seen, step)
    assert len(scalings) == len(hooked.inputs) == len(gradients)
    assert torch.equal(backward_of(seen, weighing)[0].outputs[0], hooked.output)
    for index, scaling in enumerate(scalings):
        (back,) = backward_of(seen, scaling)
        assert torch.equal(back.inputs[0], hooked.inputs[index])


def check_nodes(seen, step: int, hooked: Hooked, name: str) -> None:
    """The gradients of the inputs are outputs of nodes in the operator's scope, on its line."""
    scope = "Gradients/Default/network-Case/operator-Operator"
    own = [c for c in seen.calls if c.step == step and c.node.scope == scope]
    assert own
    assert {c.node.stack.where.line for c in own} == {CASES[name][0].__code__.co_firstlineno}
    assert {c.node.phase.value for c in own} == {"backward"}
    checked = 0
    for index, scaling in enumerate(outer_muls(seen, step)[:-1]):
        source = backward_of(seen, scaling)[0].sources[0]
        if source.node.scope == scope:  # not so for x in x + y: its gradient arrives as it is
            made = next(c for c in reversed(own) if c.node is source.node)
            assert torch.equal(made.outputs[source.slot], hooked.inputs[index])
            checked += 1
    assert checked > 0


@pytest.mark.parametrize("name", CASES)
def test_recorded_gradients_are_those_that_hooks_see(record, name) -> None:
    plain = plain_run(name)
    seen = watched_run(record, name)
    for step, (hooked, gradients) in enumerate(plain):
        check_values(seen, step, hooked, gradients)
        if name not in NO_OWN_BACKWARD:
            check_nodes(seen, step, hooked, name)


def test_the_gradient_of_a_product_is_bit_identical_too(record) -> None:
    if not hook_is_there():
        pytest.xfail("torch computes it in another way under any dispatch mode")

    def gradient() -> Tensor:
        values = torch.linspace(-1, 2, 35).view(5, 7).requires_grad_()
        (values.prod(1) * torch.linspace(0.5, 2, 5)).sum().backward()
        return values.grad

    plain = gradient()
    with record():
        assert torch.equal(gradient(), plain)

"""`torch.jit` parts: never broken, and captured as far as dispatch sees them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Gate(nn.Module):
    """Has a branch on data, so that only scripting keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            return self.linear(x).tanh()
        return x * 2.0


def scale(x: Tensor, factor: float) -> Tensor:
    return (x * factor).sigmoid()


def scripted() -> nn.Module:
    return nn.Sequential(torch.jit.script(Gate()), nn.Linear(3, 1))


def traced() -> nn.Module:
    inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    return nn.Sequential(torch.jit.trace(inner, torch.ones(2, 3)), nn.Linear(3, 1))


class WithFunction(nn.Module):
    """Calls a scripted function."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.scale = torch.jit.script(scale)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.scale(x, 3.0))


PARTS = {"script": scripted, "trace": traced, "function": WithFunction}


def made(part: str) -> nn.Module:
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PARTS[part]()


def train(model: nn.Module, steps: int = 5) -> tuple[list[float], list[Tensor]]:
    """More steps than the profiling executor needs to specialise."""
    torch.manual_seed(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 3) + (1.0 if step % 2 else -1.0)).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    yield
    torch.jit._state._clear_class_state()


@pytest.mark.parametrize("part", PARTS)
def test_training_is_the_same(record, part) -> None:
    losses, weights = train(made(part))
    model = made(part)
    with record() as seen:
        watched_losses, watched_weights = train(model)
    assert watched_losses == losses
    assert all(map(torch.equal, watched_weights, weights))
    assert len([step for step in seen.steps if step.complete]) == 5


@pytest.mark.parametrize("part", PARTS)
def test_eager_parts_around_it_are_captured(record, part) -> None:
    model = made(part)
    with record() as seen:
        losses, _ = train(model, steps=2)
    assert [step.losses[0].value for step in seen.steps if step.complete] == losses
    for step in range(2):
        total = seen.of_type("sum", step, "forward")[-1].outputs[0]
        assert total.item() == losses[step]
        assert any(c.node.scope.endswith("Linear") for c in seen.of_type("addmm", step, "forward"))


def test_gradients_of_scripted_parameters_are_captured(record) -> None:
    torch.manual_seed(1)
    model = torch.jit.script(Gate())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(4, 3).abs()
    weight, bias = (p.detach().clone() for p in (model.linear.weight, model.linear.bias))
    with record() as seen:
        model(inputs).sum().backward()
        optimizer.step()
    slope = 1 - (inputs @ weight.T + bias).tanh().square()
    torch.testing.assert_close(seen.gradient("linear.weight"), slope.T @ inputs)
    torch.testing.assert_close(seen.gradient("linear.bias"), slope.sum(0))


def test_scripting_while_recording(record) -> None:
    inputs = torch.tensor([[1.0, 2.0, 3.0]])
    with record():
        result = torch.jit.script(scale)(inputs, 2.0)
    assert torch.equal(result, (inputs * 2).sigmoid())


def test_tracing_while_recording(record) -> None:
    inputs = torch.tensor([[1.0, 2.0, 3.0]])
    with record():
        copy = torch.jit.trace(lambda x: scale(x, 2.0), inputs)
        result = copy(inputs)
    assert torch.equal(result, (inputs * 2).sigmoid())
    # What was traced while opscope watched holds the operators of the script only.
    assert {node.kind() for node in copy.graph.nodes()} <= {
        "prim::Constant",
        "aten::mul",
        "aten::sigmoid",
    }

"""Double backward: a gradient penalty, its operators, gradients, losses and stable names."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from helpers.recorder import Recorder, recording

BATCH = torch.linspace(-1, 1, 6).view(3, 2)


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.last = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).tanh())  # critic


def fresh() -> Critic:
    torch.manual_seed(12)
    return Critic()


def train(model: Critic, steps: int = 3) -> tuple[list[Tensor], list[float], list[Tensor]]:
    """The gradients by the inputs, the losses, and the gradients of the first weight."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    slopes, losses, gradients = [], [], []
    for _ in range(steps):
        batch = BATCH * 1.0
        batch.requires_grad_()
        score = model(batch)
        (slope,) = torch.autograd.grad(score.sum(), batch, create_graph=True)
        loss = score.mean() + (slope.norm(dim=1) - 1).pow(2).mean()  # penalty
        loss.backward()
        slopes.append(slope.detach())
        losses.append(loss.item())
        gradients.append(model.first.weight.grad)
        optimizer.step()
        optimizer.zero_grad()
    return slopes, losses, gradients


@functools.cache
def watch(steps: int = 3) -> Recorder:
    model = fresh()
    with recording() as seen:
        train(model, steps)
    assert [s.complete for s in seen.steps][:steps] == [True] * steps
    return seen


def test_gradients_of_both_passes_are_those_of_a_plain_run() -> None:
    slopes, _, gradients = train(fresh())
    seen = watch()
    for step in range(2):
        norm = seen.one("linalg_vector_norm", step)
        assert torch.equal(norm.inputs[0], slopes[step])
        assert torch.equal(seen.gradient("first.weight", step), gradients[step])


def test_the_penalty_is_forward_and_reads_a_backward_node() -> None:
    norm = watch().one("linalg_vector_norm")
    assert (norm.node.phase, norm.node.scope) == ("forward", "Default")
    assert norm.node.stack.where.line == line_of("penalty")
    source = norm.sources[0].node
    assert source.phase == "backward"
    assert source.scope == "Gradients/Default/network-Critic/first-Linear"


def test_second_order_nodes_belong_to_the_first_backward() -> None:
    seen = watch()
    second = [
        c.node
        for c in seen.calls
        if c.step == 0 and c.node.forward is not None and c.node.forward.phase == "backward"
    ]
    assert len(second) > 5
    for node in second:
        assert node.phase == "backward"
        assert node.name.startswith("Gradients/Gradients/Default")
        assert node.stack.where.line == line_of("critic")
    scopes = {node.scope.rpartition("/")[2] for node in second}
    assert {"first-Linear", "last-Linear", "network-Critic"} <= scopes


def test_the_loss_is_the_root_of_backward_alone() -> None:
    _, losses, _ = train(fresh())
    seen = watch()
    for step in range(2):
        values = [loss.value for loss in seen.steps[step].losses]
        assert values == [losses[step]]
        assert seen.steps[step].losses[0].node.stack.where.line == line_of("penalty")


def test_names_are_the_same_in_every_step() -> None:
    seen = watch()
    names = [
        [c.node.name for c in seen.calls if c.step == step and c.node.phase != "setup"]
        for step in range(3)
    ]
    assert names[1] == names[2]
    assert [n for n in names[1] if n in set(names[0])] == names[0]


def test_a_second_derivative_of_a_scalar_function(record) -> None:
    x = nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.SGD([x], lr=0.1)
    with record() as seen:
        (first,) = torch.autograd.grad(x**4, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x, create_graph=True)
        second.backward()
        optimizer.step()
    assert (first.item(), second.item()) == (32.0, 48.0)
    update = seen.one("add_", phase="optimizer")
    assert update.inputs[1].item() == 48.0  # 24 x
    assert update.outputs[0].item() == pytest.approx(2.0 - 4.8)
    deepest = max(c.node.name.count("Gradients/") for c in seen.calls)
    assert deepest == 3

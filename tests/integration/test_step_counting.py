"""Where steps end without an optimizer, and when the script says so itself."""

from __future__ import annotations

import contextlib

import torch
from torch import nn


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))


def test_without_optimizer_one_outermost_call_is_a_step(record) -> None:
    model = network()
    with record() as seen:
        outputs = [model(torch.full((1, 2), float(n))) for n in range(3)]
    assert [record.step for record in seen.steps] == [0, 1, 2]
    for step, output in enumerate(outputs):
        assert torch.equal(seen.of_type("addmm", step)[-1].outputs[0], output)


def test_without_optimizer_evaluation_counts_too(record) -> None:
    model, data = network().eval(), torch.ones(1, 2)
    with record() as seen, torch.no_grad():
        for _ in range(3):
            model(data)
    assert [record.step for record in seen.steps] == [0, 1, 2]
    assert [set(record.orders) for record in seen.steps] == [{1}] * 3


def test_plain_training_by_hand_is_recorded_without_optimizer(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    with record() as seen:
        for _ in range(2):
            model(torch.tensor([[2.0, 3.0]])).sum().backward()
            with torch.no_grad():
                model.weight -= 0.5 * model.weight.grad
                model.weight.grad = None
    gradients = [
        call.outputs[0]
        for call in seen.calls
        if call.node.gradient_of == "weight" and call.node.op_type == "AccumulateGrad"
    ]
    assert [gradient.tolist() for gradient in gradients] == [[[2.0, 3.0]]] * 2


def test_an_optimizer_made_later_takes_over(record) -> None:
    model = network()
    with record() as seen:
        for _ in range(3):
            model(torch.ones(1, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert [len(record.losses) for record in seen.steps] == [0, 0, 2, 2]


def test_marking_steps_takes_over_from_optimizers(record) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(2):
            for _ in range(3):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            seen.capture.mark_step()
    # The first mark comes after three automatic steps and ends an empty fourth.
    assert [len(r.losses) for r in seen.steps if r.losses] == [1, 1, 1, 3]
    assert [r.step for r in seen.steps if r.losses] == [0, 1, 2, 4]


def test_marking_steps_takes_over_from_outermost_calls(record) -> None:
    model = network()
    with record() as seen:
        seen.capture.mark_step()
        for _ in range(2):
            for _ in range(3):
                model(torch.ones(1, 2))
            seen.capture.mark_step()
    orders = [record.orders.get(0, []) for record in seen.steps]
    counts = [sum(node.op_type == "addmm" for node in order) for order in orders]
    assert [count for count in counts if count] == [6, 6]


def test_several_losses_of_one_step_are_listed_with_their_nodes(record) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        hidden = model(torch.ones(3, 2))
        first, second = hidden.mean(), hidden.square().sum()
        first.backward(retain_graph=True)
        second.backward()
        optimizer.step()
    losses = seen.steps[0].losses
    assert [loss.value for loss in losses] == [first.item(), second.item()]
    assert [loss.node.op_type for loss in losses] == ["mean", "sum"]


def test_losses_given_to_one_backward_together(record) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        hidden = model(torch.ones(3, 2))
        losses = [hidden.mean(), hidden.sum()]
        torch.autograd.backward(losses)
        optimizer.step()
    assert [loss.value for loss in seen.steps[0].losses] == [loss.item() for loss in losses]


def test_setup_is_a_phase_of_its_own(record) -> None:
    with record() as seen:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.arange(4.0).reshape(2, 2)
        model(data).sum().backward()
        optimizer.step()
    assert {c.node.phase.value for c in seen.of_type("arange")} == {"setup"}
    assert {c.node.phase.value for c in seen.of_type("uniform_")} == {"setup"}
    assert {node.phase.value for node in seen.steps[0].orders[0]} == {
        "forward",
        "backward",
        "optimizer",
    }
    assert seen.one("addmm").sources[1].kind == "batch"


def test_an_optimizer_step_that_raises_and_is_caught(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def refuse() -> torch.Tensor:
        raise ValueError("not today")

    with record() as seen:
        with contextlib.suppress(ValueError):
            optimizer.step(refuse)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert seen.one("addmm").node.phase == "forward"
    assert seen.one("addmm").node.name == "Default/network-Linear/addmm-op0"
    assert seen.one("sum", phase="forward").node.scope == "Default"


def test_a_backward_that_raises_and_is_caught(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def refuse(gradient: torch.Tensor) -> None:
        raise ValueError("not today")

    with record() as seen:
        hidden = model(torch.ones(1, 2))
        hidden.register_hook(refuse)
        with contextlib.suppress(ValueError):
            hidden.sum().backward()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert [call.node.phase.value for call in seen.of_type("addmm")] == ["forward"] * 2
    assert len(seen.steps) == 1
    assert torch.equal(seen.gradient("weight"), torch.ones(1, 2))


def test_a_module_that_raises_and_is_caught(record) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 1))
    fallback = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(fallback.parameters(), lr=0.1)
    with record() as seen:
        with contextlib.suppress(RuntimeError):
            model(torch.ones(1, 2))
        fallback(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert seen.of_type("addmm")[-1].node.scope == "Default/network-Linear"
    assert len(seen.steps) == 1


class Learned(torch.optim.SGD):
    """An optimizer that asks a module for the size of its steps."""

    def __init__(self, parameters) -> None:
        super().__init__(parameters, lr=0.1)
        self.critic = nn.Linear(1, 1)

    def step(self, closure=None) -> None:
        with torch.no_grad():
            self.param_groups[0]["lr"] = float(self.critic(torch.ones(1)).abs())
        super().step()


def test_an_optimizer_that_calls_a_module(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = Learned(model.parameters())
    with record() as seen:
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert len(seen.steps) == 2
    inside = [n for n in seen.nodes if n.scope.startswith("Default/optimizer-Learned/")]
    assert {node.phase.value for node in inside} == {"optimizer"}

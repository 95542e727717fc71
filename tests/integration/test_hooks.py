"""Hooks on tensors, modules and parameters: what they compute is recorded where it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

BATCH = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
INPUT = BATCH.clone().requires_grad_()


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


def train(record, model: nn.Module, loss=lambda out: out.sum()):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with record() as seen:
        loss(model(INPUT)).backward()
        optimizer.step()
    assert len(seen.steps) == 1
    return seen


def on_line(seen, marker: str) -> list:
    where = line_of(marker)
    return [c for c in seen.calls if c.node.stack.where and c.node.stack.where.line == where]


def test_a_tensor_hook_runs_in_backward_and_changes_the_gradient(record) -> None:
    model = nn.Linear(2, 1, bias=False)

    def triple(gradient: Tensor) -> Tensor:
        return gradient * 3  # tensor hook

    def loss(out: Tensor) -> Tensor:
        out.register_hook(triple)
        return out.sum()

    seen = train(record, model, loss)
    (call,) = on_line(seen, "tensor hook")
    assert (call.node.op_type, call.node.phase) == ("mul", "backward")
    assert call.node.forward is seen.of_type("mm")[0].node
    assert call.node.scope == "Gradients/Default/network-Linear"
    assert torch.equal(call.inputs[0], torch.ones(2, 1))
    assert torch.equal(seen.gradient("weight"), 3 * BATCH.sum(0, keepdim=True))


def test_a_hook_on_a_parameter_runs_before_it_accumulates(record) -> None:
    model = nn.Linear(2, 1, bias=False)

    def halve(gradient: Tensor) -> Tensor:
        return gradient / 2  # parameter hook

    model.weight.register_hook(halve)
    seen = train(record, model)
    (call,) = on_line(seen, "parameter hook")
    assert call.node.phase == "backward"
    assert torch.equal(call.inputs[0], BATCH.sum(0, keepdim=True))
    accumulate = next(c for c in seen.of_type("AccumulateGrad") if c.node.parameter == "weight")
    assert accumulate.sources[0] is call.node.outputs[0]
    assert torch.equal(seen.gradient("weight"), BATCH.sum(0, keepdim=True) / 2)


def test_module_forward_hooks_run_in_the_scope_of_their_module(record) -> None:
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    weight = model[0].weight.detach().clone()

    def before(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        return (args[0] * 2,)  # pre-hook

    def after(module: nn.Module, args: tuple[Tensor], out: Tensor) -> Tensor:
        return out + 1  # forward hook

    model[0].register_forward_pre_hook(before)
    model[0].register_forward_hook(after)
    seen = train(record, model)
    pre = next(c for c in on_line(seen, "pre-hook") if c.node.phase == "forward")
    (post,) = on_line(seen, "forward hook")
    for call in (pre, post):
        assert call.node.scope == "Default/network-Sequential/0-Linear"
        assert call.node.phase == "forward"
    assert torch.equal(pre.outputs[0], BATCH * 2)
    torch.testing.assert_close(post.outputs[0], BATCH * 2 @ weight.T + 1)
    assert torch.equal(seen.gradient("0.weight"), 2 * BATCH.sum(0, keepdim=True))


def test_a_full_backward_hook_changes_what_flows_on(record) -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    second = model[1].weight.detach().clone()

    def scale(module: nn.Module, incoming: tuple[Tensor], outgoing: object) -> tuple[Tensor]:
        return (incoming[0] * 10,)  # backward hook

    model[1].register_full_backward_hook(scale)
    seen = train(record, model)
    (call,) = on_line(seen, "backward hook")
    assert call.node.phase == "backward"
    assert call.node.scope.startswith("Gradients/Default/network-Sequential")
    torch.testing.assert_close(call.inputs[0], second.expand(2, 2))
    expected = (10 * second).T @ BATCH.sum(0, keepdim=True)
    torch.testing.assert_close(seen.gradient("0.weight"), expected)


def test_saved_tensor_hooks_are_recorded_on_their_own_lines(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def pack(tensor: Tensor) -> Tensor:
        return tensor.neg()  # pack

    def unpack(tensor: Tensor) -> Tensor:
        return tensor.neg()  # unpack

    with record() as seen:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = model(BATCH).exp().sum()
        loss.backward()
        optimizer.step()
    negated = [(c.node.stack.where.line, c.node.phase.value) for c in seen.of_type("neg")]
    assert set(negated) == {(line_of("pack"), "forward"), (line_of("unpack"), "backward")}
    product, exp = seen.one("mm", phase="forward"), seen.one("exp")
    assert seen.one("mul", phase="backward").node.forward is exp.node
    assert seen.one("mm", phase="backward").node.forward is product.node
    assert torch.equal(seen.gradient("weight"), model.weight.grad)


class Stepping:
    """Updates each parameter as soon as its gradient is there, and drops the gradient."""

    def __init__(self, model: nn.Module) -> None:
        self.optimizers = {p: torch.optim.SGD([p], lr=0.5) for p in model.parameters()}
        self.handles = [
            parameter.register_post_accumulate_grad_hook(self.update)
            for parameter in model.parameters()
        ]

    def update(self, parameter: Tensor) -> None:
        self.optimizers[parameter].step()  # step in hook
        self.optimizers[parameter].zero_grad()


def fresh() -> nn.Module:
    torch.manual_seed(10)
    return nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh(), nn.Linear(2, 1, bias=False))


def run(model: nn.Module, steps: int = 3) -> None:
    for _ in range(steps):
        model(BATCH).square().sum().backward()


@pytest.fixture
def stepping() -> Iterator[Callable[[nn.Module], None]]:
    made: list[Stepping] = []
    yield lambda model: made.append(Stepping(model))
    for one in made:  # parameters hold their hooks for good: the optimizers would go on counting
        for handle in one.handles:
            handle.remove()


def trained() -> dict[str, Tensor]:
    """The parameters after a plain run with one optimizer that steps at the end."""
    model = fresh()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(BATCH).square().sum().backward()
        optimizer.step()
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_an_optimizer_inside_a_hook_updates_under_its_own_phase(record, stepping) -> None:
    expected = trained()
    model = fresh()
    stepping(model)
    with record() as seen:
        run(model)
    updates = [c for c in seen.calls if c.node.phase == "optimizer"]
    assert [c.node.parameter for c in updates] == ["2.weight", "0.weight"] * 3
    assert {c.node.stack.where.line for c in updates} == {line_of("step in hook")}
    assert {c.node.op_type for c in updates} == {"add_"}
    last = {c.node.parameter: c.outputs[0] for c in updates}
    for name, parameter in expected.items():
        assert torch.equal(last[name], parameter)


def test_a_step_ends_when_every_optimizer_in_hooks_has_stepped(record, stepping) -> None:
    model = fresh()
    stepping(model)
    with record() as seen:
        run(model)
    complete = [s for s in seen.steps if s.complete]
    assert [s.step for s in complete] == [0, 1, 2]
    assert [len(s.losses) for s in complete] == [1, 1, 1]
    for step in range(3):
        phases = [c.node.phase.value for c in seen.calls if c.step == step]
        turns = [p for i, p in enumerate(phases) if i == 0 or phases[i - 1] != p]
        assert turns == ["forward", "backward", "optimizer", "backward", "optimizer"]
        names = [c.node.name for c in seen.calls if c.step == step]
        assert names == [c.node.name for c in seen.calls if c.step == 0]

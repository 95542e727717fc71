"""An operator that raises and is caught: it is marked, and everything after it is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

BATCH = torch.ones(3, 2)


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


class Picky(nn.Module):
    """Raises where shapes do not match, and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.fits = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        try:
            x = torch.mm(x, x[:2] if self.fits else x)  # raises
        except RuntimeError:
            x = x.exp()
        return x


def train(record, model: nn.Module, fits: tuple[bool, ...] = (False, False)):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    flags = []
    with record() as seen:
        for fit in fits:
            model.fits = fit
            model(BATCH).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            flags.append({n.name: n.raised for n in seen.nodes})
    return seen, flags


def test_the_operator_is_marked_and_has_inputs_but_no_outputs(record) -> None:
    model = Picky()
    hidden = model.layer(BATCH).detach()
    seen, _ = train(record, model)
    failed = seen.one("mm", phase="forward")
    assert failed.node.raised
    assert failed.node.name == "Default/network-Picky/mm-op0"
    assert failed.node.stack.where.line == line_of("raises")
    assert torch.equal(failed.inputs[0], hidden)
    assert failed.outputs == {}
    assert [n.name for n in seen.nodes if n.raised] == [failed.node.name]


def test_everything_after_it_is_recorded_and_right(record) -> None:
    model = Picky()
    weight, bias = (p.detach().clone().requires_grad_() for p in model.parameters())
    (BATCH @ weight.T + bias).exp().sum().backward()
    seen, _ = train(record, model)
    torch.testing.assert_close(seen.gradient("layer.weight"), weight.grad)
    torch.testing.assert_close(seen.gradient("layer.bias"), bias.grad)
    exp = seen.one("exp")
    assert exp.node.scope == "Default/network-Picky"
    assert exp.sources[0].node is seen.one("addmm").node
    back = [c for c in seen.of_type("mul", phase="backward") if c.node.forward is exp.node]
    assert len(back) == 1
    updates = [c.node.parameter for c in seen.of_type("add_", 1, "optimizer")]
    assert updates == ["layer.weight", "layer.bias"]
    assert len(seen.steps) == 2


def test_the_mark_is_of_the_latest_call(record) -> None:
    seen, flags = train(record, Picky(), fits=(False, True, False))
    name = "Default/network-Picky/mm-op0"
    assert [flag[name] for flag in flags] == [True, False, True]
    worked = seen.one("mm", 1, "forward")
    assert worked.node.name == name
    assert worked.outputs[0].shape == (3, 2)


def test_a_module_that_raises_leaves_its_scope(record) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wrong, self.right = nn.Linear(5, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            try:
                x = self.wrong(x)
            except RuntimeError:
                x = self.right(x)
            return x.tanh()

    model = Outer()
    optimizer = torch.optim.SGD(model.right.parameters(), lr=0.1)
    with record() as seen:
        model(BATCH).sum().backward()
        optimizer.step()
    failed, worked = seen.of_type("addmm")
    assert failed.node.raised
    assert failed.node.scope == "Default/network-Outer/wrong-Linear"
    assert worked.node.scope == "Default/network-Outer/right-Linear"
    assert seen.one("tanh").node.scope == "Default/network-Outer"
    assert torch.equal(seen.gradient("right.weight"), model.right.weight.grad)


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient.view(99)  # raises in backward


def test_after_a_failed_backward_the_next_pass_is_recorded_in_its_phases(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        with pytest.raises(RuntimeError, match="99"):
            Broken.apply(model(BATCH)).sum().backward()
        model(BATCH).sum().backward()
        optimizer.step()
    (failed,) = [c for c in seen.of_type("view", phase="backward") if c.node.raised]
    assert failed.node.stack.where.line == line_of("raises in backward")
    assert [c.node.phase.value for c in seen.of_type("addmm")] == ["forward", "forward"]
    assert torch.equal(seen.gradient("weight"), torch.full((1, 2), 3.0))
    assert len(seen.of_type("add_", phase="optimizer")) == 2
    assert len(seen.steps) == 1


class Failing(torch.optim.SGD):
    def step(self, closure=None):
        parameter = self.param_groups[0]["params"][0]
        if parameter.grad.sum() > 0:
            torch.mm(parameter.data, parameter.data)
        return super().step(closure)


def test_after_a_failed_update_the_next_forward_is_forward(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = Failing(model.parameters(), lr=0.1)
    with record() as seen:
        model(BATCH).sum().backward()
        with pytest.raises(RuntimeError):
            optimizer.step()
        optimizer.zero_grad()
        model(BATCH).neg().sum().backward()
        optimizer.step()
    forwards = [c for c in seen.of_type("mm") if c.node.scope == "Default/network-Linear"]
    assert [c.node.phase.value for c in forwards] == ["forward", "forward"]
    (failed,) = [c for c in seen.of_type("mm") if c.node.raised]
    assert failed.node.phase == "optimizer"
    assert seen.one("neg", phase="forward").node.scope == "Default"
    assert len(seen.steps) == 1
    assert torch.equal(seen.gradient("weight"), torch.full((1, 2), -3.0))

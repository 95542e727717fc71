"""Names of nodes: modules called twice, nested, recursive; numbers that never shift."""

from __future__ import annotations

import inspect
import itertools

import torch
from torch import Tensor, nn

BATCH = torch.tensor([[1.0, -2.0]])


def train(record, model: nn.Module, steps: int = 3, before=lambda step: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for step in range(steps):
            before(step)
            model(BATCH).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(seen.steps) == steps
    return seen


def names(seen, step: int) -> list[str]:
    return [c.node.name for c in seen.calls if c.step == step and c.node.phase != "setup"]


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        x = x.relu()
        return self.layer(x)


def test_a_module_called_twice_numbers_its_operators_on(record) -> None:
    model = Twice()
    weight, bias = (p.detach().clone() for p in model.layer.parameters())
    seen = train(record, model)
    first, second = seen.of_type("addmm")
    scope = "Default/network-Twice/layer-Linear"
    assert [first.node.name, second.node.name] == [f"{scope}/addmm-op0", f"{scope}/addmm-op1"]
    middle = (BATCH @ weight.T + bias).relu()
    torch.testing.assert_close(second.inputs[1], middle)
    torch.testing.assert_close(second.outputs[0], middle @ weight.T + bias)
    assert second.sources[1].node is seen.one("relu").node
    line = inspect.getsourcelines(Twice.forward)[1]
    assert [c.node.stack.where.line - line for c in (first, second)] == [1, 3]


def test_the_gradients_of_both_calls_are_told_apart(record) -> None:
    model = Twice()
    weight = model.layer.weight.detach().clone().requires_grad_()
    bias = model.layer.bias.detach().clone().requires_grad_()
    ((BATCH @ weight.T + bias).relu() @ weight.T + bias).sum().backward()
    seen = train(record, model)
    torch.testing.assert_close(seen.gradient("layer.weight"), weight.grad)
    torch.testing.assert_close(seen.gradient("layer.bias"), bias.grad)
    forwards = [c.node for c in seen.of_type("addmm")]
    backwards = [c.node.forward for c in seen.of_type("mm", phase="backward")]
    assert set(backwards) == set(forwards)


def test_names_and_order_are_the_same_in_every_step(record) -> None:
    seen = train(record, Twice())
    assert names(seen, 0) == names(seen, 1) == names(seen, 2)
    assert len(set(names(seen, 0))) == len(names(seen, 0))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.heads = nn.ModuleDict({"out": nn.Linear(2, 1)})

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.heads["out"](x)


def test_nested_modules_give_one_level_each(record) -> None:
    seen = train(record, Nested())
    scopes = list(dict.fromkeys(c.node.scope for c in seen.of_type("addmm")))
    network = "Default/network-Nested"
    assert scopes == [
        f"{network}/blocks-ModuleList/0-Block/inner-Sequential/0-Linear",
        f"{network}/blocks-ModuleList/1-Block/inner-Sequential/0-Linear",
        f"{network}/heads-ModuleDict/out-Linear",
    ]
    adds = [c.node.name for c in seen.of_type("add", phase="forward")]
    assert adds == [f"{network}/blocks-ModuleList/{i}-Block/add-op0" for i in (0, 1)]
    tanh = seen.of_type("tanh_backward")[0].node
    assert tanh.name == f"Gradients/{tanh.forward.scope}/tanh_backward-op0"
    assert tanh.module_class == "Tanh"
    assert seen.gradient("blocks.1.inner.0.weight").shape == (2, 2)


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: Tensor, depth: int = 2) -> Tensor:
        x = x * self.scale
        return self(x, depth - 1) if depth else x


def test_a_recursive_module_has_one_scope_per_depth(record) -> None:
    seen = train(record, Recursive())
    muls = seen.of_type("mul", phase="forward")
    scopes = [c.node.scope for c in muls]
    assert scopes[0] == "Default/network-Recursive"
    for outer, inner in itertools.pairwise(scopes):
        assert inner.startswith(f"{outer}/")
        assert inner.removeprefix(f"{outer}/").endswith("-Recursive")
    scale = torch.tensor([[2.0, 3.0]])
    for depth, call in enumerate(muls, 1):
        assert call.node.name.endswith("/mul-op0")
        assert torch.equal(call.outputs[0], BATCH * scale**depth)
    gradient = (3 * BATCH * scale**2)[0]
    assert torch.equal(seen.gradient("scale"), gradient)
    assert names(seen, 0) == names(seen, 2)


class Shifty(nn.Module):
    """Has extra operators in some steps, before and between those of every step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.extra = False

    def forward(self, x: Tensor) -> Tensor:
        if self.extra:
            x = x.mul(1.0).add(0.0)
        x = self.layer(x).mul(2.0)
        if self.extra:
            x = self.layer(x).mul(4.0)
        return x.mul(3.0).add(1.0)


def test_an_extra_operator_in_one_step_shifts_no_other_name(record) -> None:
    model = Shifty()
    seen = train(record, model, 3, lambda step: setattr(model, "extra", step == 1))
    usual, special, again = (names(seen, step) for step in range(3))
    assert usual == again
    assert [n for n in special if n in set(usual)] == usual
    assert len(special) > len(set(usual))
    line = inspect.getsourcelines(Shifty.forward)[1]
    for step in range(3):
        where = {
            c.node.name.rpartition("/")[2]: c.node.stack.where.line - line
            for c in seen.of_type("mul", step, "forward")
        }
        assert (where["mul-op0"], where["mul-op1"]) == (3, 6)


def test_values_under_stable_names_are_those_of_the_step(record) -> None:
    model = Shifty()
    weights = []

    def before(step: int) -> None:
        model.extra = step == 1
        weights.append((model.layer.weight.tolist(), model.layer.bias.tolist()))

    seen = train(record, model, 3, before)
    for step, (weight, bias) in enumerate(weights):
        call = next(c for c in seen.of_type("addmm", step) if c.node.name.endswith("addmm-op0"))
        expected = BATCH @ torch.tensor(weight).T + torch.tensor(bias)
        torch.testing.assert_close(call.outputs[0], expected)


def test_a_loop_of_changing_length_keeps_the_names_it_has_in_common(record) -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))
            self.turns = 2

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(self.turns):
                x = x * self.scale
            return x.exp()

    model = Loop()
    seen = train(record, model, 3, lambda step: setattr(model, "turns", [2, 4, 1][step]))
    for step, turns in enumerate([2, 4, 1]):
        muls = [c.node.name for c in seen.of_type("mul", step, "forward")]
        assert muls == [f"Default/network-Loop/mul-op{i}" for i in range(turns)]
        (exp,) = seen.of_type("exp", step)
        assert exp.node.name == "Default/network-Loop/exp-op0"


def test_two_networks_have_two_scopes_and_unique_parameter_names(record) -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)
    with record() as seen:
        two(one(BATCH)).sum().backward()
        optimizer.step()
    scopes = [c.node.scope for c in seen.of_type("addmm")]
    assert scopes == ["Default/network-Linear", "Default/network1-Linear"]
    updated = [c.node.parameter for c in seen.of_type("add_", phase="optimizer")]
    assert len(set(updated)) == 4
    assert updated[:2] == ["weight", "bias"]
    assert torch.equal(seen.gradient(updated[0]), one.weight.grad)
    assert torch.equal(seen.gradient(updated[2]), two.weight.grad)

"""Optimizers, one tensor at a time, foreach and fused: each update carries its parameter's name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from helpers.recorder import Recorder, recording
from opscope.events import Outside

Make = Callable[[Iterable[nn.Parameter]], Optimizer]
BATCH = torch.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0]])
OPTIMIZERS: dict[str, Make] = {
    "SGD single": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=False),
    "SGD foreach": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=True),
    "SGD fused": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, fused=True),
    "Adam single": lambda p: Adam(p, lr=0.1, foreach=False),
    "Adam foreach": lambda p: Adam(p, lr=0.1, foreach=True),
    "Adam amsgrad": lambda p: Adam(p, lr=0.1, foreach=True, amsgrad=True),
    "AdamW single": lambda p: AdamW(p, lr=0.1, foreach=False),
    "AdamW foreach": lambda p: AdamW(p, lr=0.1, foreach=True),
    "AdamW fused": lambda p: AdamW(p, lr=0.1, fused=True),
}
every = pytest.mark.parametrize("kind", OPTIMIZERS)


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))


def train(net: nn.Module, optimizer: Optimizer, steps: int = 3, used=lambda step, net: net) -> list:
    """Parameters, gradients and optimizer state around every update."""
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        used(step, net)(BATCH).square().sum().backward()
        before = values(net)
        state = {
            f"{name}.{key}": tensor.clone()
            for name, p in net.named_parameters()
            for key, tensor in optimizer.state[p].items()
            if isinstance(tensor, Tensor)
        }
        optimizer.step()
        seen.append((before, values(net), state))
    return seen


STEP_LINE = inspect.getsourcelines(train)[1] + next(
    i for i, text in enumerate(inspect.getsourcelines(train)[0]) if "optimizer.step()" in text
)


def values(net: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def plain(kind: str, **kwargs) -> list:
    net = model()
    return train(net, OPTIMIZERS[kind](net.parameters()), **kwargs)


def recorded(kind: str, **kwargs) -> Recorder:
    net = model()
    optimizer = OPTIMIZERS[kind](net.parameters())
    with recording() as seen:
        train(net, optimizer, **kwargs)
    return seen


three_steps = functools.cache(recorded)


def updates(seen, step: int) -> dict[str, Tensor]:
    """The last output in the optimizer phase labelled as each parameter (not as its gradient)."""
    found: dict[str, Tensor] = {}
    for call in seen.calls:
        if call.step == step and call.node.phase == "optimizer":
            labels = [output.parameter for output in call.node.outputs]
            for name in {label for label in labels if label}:
                if labels.index(name) in call.outputs:
                    found[name] = call.outputs[labels.index(name)]
    return found


def outside(seen, step: int, kind: str) -> dict[str, Tensor]:
    """The inputs of the optimizer's operators that came from outside, by name."""
    return {
        call.sources[slot].name: call.inputs[slot]
        for call in reversed(seen.calls)
        if call.step == step and call.node.phase == "optimizer"
        for slot in call.inputs
        if isinstance(call.sources[slot], Outside) and call.sources[slot].kind == kind
    }


@every
def test_each_update_has_its_name_and_the_values_of_a_plain_run(kind) -> None:
    expected = plain(kind)
    seen = three_steps(kind)
    assert [s.step for s in seen.steps if s.complete] == [0, 1, 2]
    for step, (before, after, _) in enumerate(expected):
        torch.testing.assert_close(updates(seen, step), after, rtol=0, atol=0)
        torch.testing.assert_close(outside(seen, step, "parameter"), before, rtol=0, atol=0)


@every
def test_optimizer_state_is_named_and_read_before_its_update(kind) -> None:
    expected = plain(kind)
    seen = three_steps(kind)
    for step in (1, 2):
        read = outside(seen, step, "state")
        assert read
        torch.testing.assert_close(read, expected[step][2], rtol=0, atol=0)


@every
def test_scope_phase_and_line_are_those_of_the_step_call(kind) -> None:
    seen = three_steps(kind)
    nodes = [c.node for c in seen.calls if "optimizer" in c.node.name]
    name = kind.partition(" ")[0]
    assert len(nodes) >= 3
    assert {(n.scope, n.phase.value) for n in nodes} == {(f"Default/optimizer-{name}", "optimizer")}
    assert {n.stack.where.file for n in nodes} == {__file__}
    assert {n.stack.where.line for n in nodes} == {STEP_LINE}


@pytest.mark.parametrize("kind", ["SGD single", "Adam single", "AdamW single"])
def test_single_tensor_operators_name_the_one_parameter(kind) -> None:
    seen = three_steps(kind)
    calls = [c for c in seen.calls if c.step == 1 and c.node.phase == "optimizer"]
    names = list(dict.fromkeys(c.node.parameter for c in calls))
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]
    shapes = {n: p.shape for n, p in model().named_parameters()}
    tensors = [c for c in calls if c.outputs and c.outputs[0].dim() > 0]
    assert all(c.outputs[0].shape == shapes[c.node.parameter] for c in tensors)


@every
def test_a_call_site_keeps_its_name_from_the_first_step_on(kind) -> None:
    seen = three_steps(kind)
    names = [
        [c.node.name for c in seen.calls if c.step == step and c.node.phase == "optimizer"]
        for step in range(3)
    ]
    later = [n for n in names[1] if n not in names[0]]
    new = {n.rpartition("/")[2].rpartition("-")[0] for n in later}
    assert names[1] == names[2]
    # Momentum is applied from the second step on; nothing else may be new there.
    momentum = {"SGD foreach": {"_foreach_mul_", "_foreach_add_"}, "SGD single": {"mul_", "add_"}}
    assert new <= momentum.get(kind, set()), later


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("kind", ["SGD foreach", "AdamW foreach", "AdamW fused", "AdamW single"])
def test_names_hold_when_some_parameters_have_no_gradient(kind, layer) -> None:
    def part(step: int, net: nn.Module) -> nn.Module:
        return net[layer] if step == 1 else net

    seen = recorded(kind, used=part)
    for step, (_, after, _) in enumerate(plain(kind, used=part)):
        expected = {n: v for n, v in after.items() if step != 1 or n.startswith(f"{layer}.")}
        torch.testing.assert_close(updates(seen, step), expected, rtol=0, atol=0)


def test_parameter_groups_are_updated_under_their_own_names(record) -> None:
    net = model()
    groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.01}]
    optimizer = SGD(groups, lr=0.1, foreach=True)
    before = values(net)
    with record() as seen:
        net(BATCH).sum().backward()
        optimizer.step()
    calls = seen.of_type("_foreach_add_")
    labels = [[o.parameter for o in c.node.outputs] for c in calls]
    assert labels == [["0.weight", "0.bias"], ["2.weight", "2.bias"]]
    for call, names, rate in zip(calls, labels, (0.1, 0.01), strict=True):
        for slot, name in enumerate(names):
            expected = before[name] - rate * seen.gradient(name)
            torch.testing.assert_close(call.outputs[slot], expected)


def test_a_foreach_update_of_one_parameter_names_it(record) -> None:
    net = nn.Linear(2, 1, bias=False)
    optimizer = SGD(net.parameters(), lr=0.1, foreach=True)
    with record() as seen:
        net(BATCH).sum().backward()
        optimizer.step()
    update = seen.one("_foreach_add_").node
    assert [o.parameter for o in update.outputs] == ["weight"]
    assert update.parameter == "weight"


def test_clipped_gradients_feed_the_update(record) -> None:
    net = nn.Linear(2, 1, bias=False)
    before = net.weight.detach().clone()
    optimizer = SGD(net.parameters(), lr=1.0, foreach=False)
    with record() as seen:
        net(BATCH).sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=True)
        optimizer.step()
    gradient = BATCH.sum(0, keepdim=True)
    clip, update = seen.one("_foreach_mul_"), seen.one("add_", phase="optimizer")
    assert torch.equal(clip.inputs[0], gradient)
    clipped = gradient * (0.5 / (gradient.norm() + 1e-6))
    torch.testing.assert_close(clip.outputs[0], clipped)
    assert clip.node.phase == "optimizer"
    assert update.sources[1] is clip.node.outputs[0]
    torch.testing.assert_close(update.outputs[0], before - clipped)


def test_an_optimizer_may_call_a_module(record) -> None:
    class Looking(torch.optim.SGD):
        def step(self, closure=None):
            with torch.no_grad():
                self.look = model(BATCH)
            return super().step(closure)

    model = nn.Linear(2, 1, bias=False)
    optimizer = Looking(model.parameters(), lr=0.1)
    with record() as seen:
        model(BATCH).sum().backward()
        optimizer.step()
    first, second = seen.of_type("mm")[0], seen.of_type("mm", phase="optimizer")[0]
    assert torch.equal(second.outputs[0], first.outputs[0])
    assert len(seen.of_type("add_", phase="optimizer")) == len(seen.steps) == 1

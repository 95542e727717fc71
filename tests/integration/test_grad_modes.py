"""Frozen parameters, `no_grad`, `inference_mode`: recorded as they run, never as gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BATCH = torch.tensor([[1.0, -2.0], [3.0, 0.5]])


def train(record, model: nn.Module, forward, steps: int = 2):
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=0.5)
    with record() as seen:
        for _ in range(steps):
            forward(model).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(seen.steps) == steps
    return seen


def frozen() -> nn.Module:
    torch.manual_seed(14)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    return model


def test_frozen_parameters_are_named_inputs_without_gradients(record) -> None:
    model = frozen()
    weight, bias = model[0].weight.clone(), model[0].bias.clone()
    seen = train(record, model, lambda m: m(BATCH).sum())
    first = seen.of_type("addmm")[0]
    assert (first.sources[0].kind, first.sources[0].name) == ("parameter", "0.bias")
    torch.testing.assert_close(first.outputs[0], BATCH @ weight.T + bias)
    accumulated = {c.node.gradient_of for c in seen.calls if c.node.gradient_of}
    assert accumulated == {"1.weight", "1.bias"}
    updated = [c.node.parameter for c in seen.of_type("add_", phase="optimizer")]
    assert updated == ["1.weight", "1.bias"]


def test_nothing_runs_backward_through_frozen_layers(record) -> None:
    seen = train(record, frozen(), lambda m: m(BATCH).sum())
    back = {c.node.scope for c in seen.calls if c.node.phase == "backward"}
    assert back == {"Gradients/Default", "Gradients/Default/network-Sequential/1-Linear"}
    hidden = seen.of_type("addmm")[0].outputs[0]
    assert torch.equal(seen.gradient("1.weight"), hidden.sum(0, keepdim=True))


def test_a_parameter_unfrozen_later_gets_its_gradient_then(record) -> None:
    model = frozen()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with record() as seen:
        for step in range(2):
            model[0].requires_grad_(step == 1)
            model(BATCH).sum().backward()
            optimizer.step()
    per_step = [
        {c.node.gradient_of for c in seen.calls if c.step == step and c.node.gradient_of}
        for step in range(2)
    ]
    assert per_step[0] == {"1.weight", "1.bias"}
    assert per_step[1] == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert torch.equal(seen.gradient("0.weight", 1), model[0].weight.grad)
    names = [[c.node.name for c in seen.of_type("addmm", step)] for step in range(2)]
    assert names[0] == names[1]


class Target(nn.Module):
    """Learns to match what it says itself without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            target = self.layer(x).tanh()
        return (self.layer(x) - target).square().sum()


def test_a_no_grad_block_is_forward_and_gets_no_gradient(record) -> None:
    model = Target()
    weight = model.layer.weight.detach().clone().requires_grad_()
    bias = model.layer.bias.detach().clone()
    out = BATCH @ weight.T + bias
    (out - out.detach().tanh()).square().sum().backward()
    seen = train(record, model, lambda m: m(BATCH))
    torch.testing.assert_close(seen.gradient("layer.weight"), weight.grad)
    quiet, loud = seen.of_type("addmm")
    assert quiet.node.phase == loud.node.phase == "forward"
    assert quiet.node.scope == loud.node.scope == "Default/network-Target/layer-Linear"
    assert torch.equal(quiet.outputs[0], loud.outputs[0])
    nodes = [c.node for c in seen.calls if c.node.phase == "backward"]
    forwards = {n.forward for n in nodes if n.op_type != "AccumulateGrad"}
    assert loud.node in forwards
    assert quiet.node not in forwards
    assert seen.one("tanh").node not in forwards


def test_a_gradient_belongs_to_the_first_use_that_has_one(record) -> None:
    seen = train(record, Target(), lambda m: m(BATCH))
    _, loud = seen.of_type("addmm")
    bias = next(c for c in seen.of_type("AccumulateGrad") if c.node.parameter == "layer.bias")
    assert bias.node.forward is loud.node
    assert bias.node.stack.where.line == loud.node.stack.where.line


def test_inference_mode_is_recorded_and_edges_reach_into_training(record) -> None:
    def loss(model: nn.Module) -> Tensor:
        out = model(BATCH)
        with torch.inference_mode():
            scale = BATCH * 2
            scale.add_(1)
            scale = scale[:, :1]
        return (out * scale.clone()).sum()

    model = nn.Linear(2, 1, bias=False)
    seen = train(record, model, loss)
    for step in range(2):
        write = next(c for c in seen.of_type("add_", step) if c.node.scope == "Default")
        assert torch.equal(write.inputs[0], BATCH * 2)
        assert torch.equal(write.outputs[0], BATCH * 2 + 1)
        assert write.node.phase == "forward"
        copy = seen.of_type("clone", step)[0]
        assert copy.sources[0].node.op_type == "slice"
        expected = ((BATCH * 2 + 1)[:, :1] * BATCH).sum(0, keepdim=True)
        assert torch.equal(seen.gradient("weight", step), expected)


def test_detach_stops_the_gradient_and_keeps_the_edge(record) -> None:
    model = nn.Linear(2, 2, bias=False)
    weight = model.weight.detach().clone()

    def loss(m: nn.Module) -> Tensor:
        out = m(BATCH)
        return (out * out.detach()).sum()

    seen = train(record, model, loss)
    detach = seen.of_type("detach", phase="forward")[0]
    assert detach.sources[0].node is seen.of_type("mm")[0].node
    product = seen.of_type("mul", phase="forward")[0]
    assert product.sources[1].node is detach.node
    torch.testing.assert_close(seen.gradient("weight"), (BATCH @ weight.T).T @ BATCH)

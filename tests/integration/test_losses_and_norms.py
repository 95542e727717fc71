"""Cross-entropy and `rms_norm`: every value against the formula, gradients included."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

TARGET = torch.tensor([0, 2, 1])


class Classifier(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.logits = nn.Parameter(torch.randn(3, 4))
        self.options = options

    def forward(self) -> Tensor:
        return F.cross_entropy(self.logits, TARGET, **self.options)


def train(record, model: nn.Module, reduce=lambda out: out):
    """Two steps that leave the parameters as they are."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with record() as seen:
        for _ in range(2):
            reduce(model()).backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


def line_in(function) -> int:
    return inspect.getsourcelines(function)[1] + 1


@pytest.mark.parametrize("scale, options", [(1 / 3, {}), (1.0, {"reduction": "sum"})])
def test_cross_entropy_and_its_gradient(record, scale, options) -> None:
    model = Classifier(**options)
    logits = model.logits.detach().clone()
    seen = train(record, model)
    logs = logits - logits.exp().sum(1, keepdim=True).log()
    loss = -logs[range(3), TARGET].sum() * scale
    gradient = (logs.exp() - F.one_hot(TARGET, 4)) * scale
    for step in range(2):
        soft, nll = seen.one("_log_softmax", step), seen.one("nll_loss_forward", step)
        torch.testing.assert_close(soft.outputs[0], logs)
        torch.testing.assert_close(nll.outputs[0], loss)
        assert torch.equal(nll.inputs[1], TARGET)
        assert nll.sources[0] is soft.node.outputs[0]
        torch.testing.assert_close(seen.gradient("logits", step), gradient)
        assert seen.steps[step].losses[0].node is nll.node
        assert seen.steps[step].losses[0].value == pytest.approx(loss.item())


def test_cross_entropy_leaves_ignored_targets_out(record) -> None:
    model = Classifier(ignore_index=2)
    logits = model.logits.detach().clone()
    seen = train(record, model)
    gradient = (logits.softmax(1) - F.one_hot(TARGET, 4)) / 2
    gradient[1] = 0
    torch.testing.assert_close(seen.gradient("logits"), gradient)
    assert seen.one("nll_loss_forward").outputs[1].item() == 2  # the total weight
    assert seen.one("nll_loss_forward").node.arguments["ignore_index"] == "2"


def test_cross_entropy_gradients_belong_to_the_line_of_the_loss(record) -> None:
    seen = train(record, Classifier())
    for forward, backward in [
        ("nll_loss_forward", "nll_loss_backward"),
        ("_log_softmax", "_log_softmax_backward_data"),
    ]:
        call = seen.one(backward)
        assert call.node.forward is seen.one(forward).node
        assert call.node.scope == "Gradients/Default/network-Classifier"
        assert call.node.stack.where.line == line_in(Classifier.forward)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.x = nn.Parameter(torch.randn(2, 4))
        self.norm = nn.RMSNorm(4, eps=1e-3)
        nn.init.normal_(self.norm.weight)

    def forward(self) -> Tensor:
        return self.norm(self.x)


def test_rms_norm_and_its_gradients(record) -> None:
    model = Scaled()
    x = model.x.detach().double().requires_grad_()
    weight = model.norm.weight.detach().double().requires_grad_()
    upstream = torch.randn(2, 4)
    expected = x / (x.square().mean(1, keepdim=True) + 1e-3).sqrt() * weight
    (expected * upstream).sum().backward()
    seen = train(record, model, lambda out: (out * upstream).sum())
    for step in range(2):
        weighing = next(c for c in seen.of_type("mul", step) if c.node.scope == "Default")
        torch.testing.assert_close(weighing.inputs[0], expected.detach().float())
        torch.testing.assert_close(seen.gradient("x", step), x.grad.float())
        torch.testing.assert_close(seen.gradient("norm.weight", step), weight.grad.float())


def test_rms_norm_runs_in_the_scope_of_its_module_both_ways(record) -> None:
    seen = train(record, Scaled(), lambda out: out.sum())
    scope = "Default/network-Scaled/norm-RMSNorm"
    forward = [c.node for c in seen.calls if c.node.scope == scope]
    backward = [c.node for c in seen.calls if c.node.scope == f"Gradients/{scope}"]
    assert forward
    assert {n.forward for n in backward if n.op_type != "AccumulateGrad"} <= set(forward)
    assert {n.stack.where.line for n in forward} == {line_in(Scaled.forward)}
    assert {n.stack.where.line for n in backward} == {line_in(Scaled.forward)}
    assert {n.gradient_of for n in backward} == {"", "x", "norm.weight"}

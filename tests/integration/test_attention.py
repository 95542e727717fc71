"""Scaled dot-product attention: one operator, right values and gradients, masks included."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

MASK = torch.tensor([[0.0, -1.0, 2.0], [0.5, 0.0, 0.0], [0.0, 0.0, -3.0]])


class Attention(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        torch.manual_seed(5)
        for name in ("query", "key", "value"):
            self.register_parameter(name, nn.Parameter(torch.randn(2, 2, 3, 4)))
        self.options = options

    def forward(self) -> Tensor:
        return F.scaled_dot_product_attention(self.query, self.key, self.value, **self.options)


def by_hand(query: Tensor, key: Tensor, value: Tensor, options: dict[str, object]) -> Tensor:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if options.get("is_causal"):
        future = torch.ones(3, 3, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    mask = options.get("attn_mask")
    if mask is not None:
        scores = scores + mask.double()
    return scores.softmax(-1) @ value


def train(record, model: nn.Module):
    """Two steps that leave the parameters as they are."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with record() as seen:
        for _ in range(2):
            model().square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


CASES = {"plain": {}, "causal": {"is_causal": True}, "mask": {"attn_mask": MASK}}


@pytest.mark.parametrize("case", CASES)
def test_attention_is_one_node_with_right_values_and_gradients(record, case) -> None:
    model = Attention(**CASES[case])
    leaves = {n: p.detach().double().requires_grad_() for n, p in model.named_parameters()}
    expected = by_hand(*leaves.values(), CASES[case])
    expected.square().sum().backward()
    seen = train(record, model)
    line = inspect.getsourcelines(Attention.forward)[1] + 1
    for step in range(2):
        calls = [c for c in seen.calls if c.step == step and "_scaled_dot" in c.node.op_type]
        assert [c.node.phase.value for c in calls] == ["forward", "backward"]
        assert calls[0].node.scope == "Default/network-Attention"
        assert calls[0].node.name.endswith("_for_cpu-op0")
        assert {c.node.stack.where.line for c in calls} == {line}
        torch.testing.assert_close(calls[0].outputs[0], expected.detach().float())
        for name, leaf in leaves.items():
            torch.testing.assert_close(seen.gradient(name, step), leaf.grad.float())


def test_the_gradient_node_belongs_to_attention_and_feeds_the_parameters(record) -> None:
    seen = train(record, Attention())
    for step in range(2):
        calls = [c for c in seen.calls if c.step == step and "_scaled_dot" in c.node.op_type]
        forward, backward = (c.node for c in calls)
        assert backward.forward is forward
        assert backward.scope == "Gradients/Default/network-Attention"
        slots = {}
        for call in seen.of_type("AccumulateGrad", step):
            incoming = call.sources[max(call.sources)]  # after the memory it is copied into, if any
            assert incoming.node is backward
            slots[call.node.gradient_of] = incoming.slot
        assert slots == {"query": 0, "key": 1, "value": 2}


def test_multi_head_attention_module_keeps_its_scopes(record) -> None:
    torch.manual_seed(2)
    model = nn.MultiheadAttention(4, 2, batch_first=True)
    batch = torch.randn(2, 3, 4)
    expected = model(batch, batch, batch, need_weights=False)[0].detach()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        out = model(batch, batch, batch, need_weights=False)[0]
        out.sum().backward()
        optimizer.step()
    scopes = {c.node.scope for c in seen.calls if c.node.phase == "forward"}
    assert scopes == {"Default/network-MultiheadAttention", "Default"}
    produced = seen.one("sum", phase="forward")
    assert torch.equal(produced.inputs[0], expected)
    for name, parameter in model.named_parameters():
        assert torch.equal(seen.gradient(name), parameter.grad)

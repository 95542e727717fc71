"""The smallest training: every value of a step against values computed by hand."""

from __future__ import annotations

import torch
from torch import nn


def test_forward_backward_and_update_are_recorded(record) -> None:
    model = nn.Linear(3, 2)
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = torch.randn(4, 3)
    with record() as seen:
        loss = model(batch).square().sum()
        loss.backward()
        optimizer.step()
    out = batch @ weight.T + bias
    gradient = (2 * out).T @ batch
    addmm = seen.one("addmm")
    assert addmm.node.name == "Default/network-Linear/addmm-op0"
    torch.testing.assert_close(addmm.outputs[0], out)
    torch.testing.assert_close(seen.gradient("weight"), gradient)
    torch.testing.assert_close(seen.gradient("bias"), (2 * out).sum(0))
    updates = seen.of_type("add_", phase="optimizer")
    assert [update.node.parameter for update in updates] == ["weight", "bias"]
    torch.testing.assert_close(updates[0].inputs[0], weight)
    torch.testing.assert_close(updates[0].outputs[0], weight - 0.5 * gradient)
    assert len(seen.steps) == 1
    assert seen.steps[0].losses[0].value == loss.item()
    assert addmm.node.stack.where.file == __file__

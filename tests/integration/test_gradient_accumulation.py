"""Several backward passes before one update: one step, whose gradients add up."""

from __future__ import annotations

import torch
from torch import nn


def test_gradients_add_up_within_one_step(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    weight = model.weight.detach().clone()
    batches = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0]]), torch.tensor([[7.0, 11.0]])]
    with record() as seen:
        for batch in batches:
            model(batch).sum().backward()
        optimizer.step()
    sums = [batches[0], batches[0] + batches[1], batches[0] + batches[1] + batches[2]]
    after = [
        call.outputs[0]
        for call in seen.calls
        if call.node.op_type == "AccumulateGrad" and call.node.gradient_of == "weight"
    ]
    # The first gradient is taken as it is; only then is there something to add to.
    assert torch.equal(after[0], sums[0])
    assert torch.equal(after[-1], sums[-1])
    assert sums[1].tolist() in [tensor.tolist() for tensor in after]
    assert torch.equal(seen.gradient("weight"), sums[-1])
    assert len(seen.steps) == 1
    update = seen.one("add_", phase="optimizer")
    assert torch.equal(update.outputs[0], weight - 0.5 * sums[-1])


def test_every_loss_of_the_step_is_listed(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    losses = []
    with record() as seen:
        for number in range(6):
            loss = model(torch.full((1, 2), float(number))).sum()
            loss.backward()
            losses.append(loss.item())
            if number % 3 == 2:
                optimizer.step()
    assert [[loss.value for loss in step.losses] for step in seen.steps] == [losses[:3], losses[3:]]


def test_micro_batches_are_passes_through_the_same_nodes(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(2):
            for _ in range(3):
                model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    for step in range(2):
        calls = seen.of_type("addmm", step=step)
        assert {call.node.name for call in calls} == {"Default/network-Linear/addmm-op0"}
        assert [call.pass_number for call in calls] == [0, 1, 2]


def test_gradients_kept_from_before_the_step_are_added_to(record) -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model.weight.grad = torch.tensor([[100.0, 200.0]])
    with record() as seen:
        model(torch.tensor([[1.0, 2.0]])).sum().backward()
        optimizer.step()
    assert torch.equal(seen.gradient("weight"), torch.tensor([[101.0, 202.0]]))

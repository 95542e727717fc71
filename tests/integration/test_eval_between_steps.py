"""Evaluation between training steps: its own phase and graph, not part of the training order."""

from __future__ import annotations

import torch
from torch import nn

INPUT = torch.ones(1, 2)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.Linear(2, 1))


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model.train()(INPUT).sum().backward()
    optimizer.step()


def evaluate(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(INPUT).mean()


def test_evaluation_is_a_graph_of_its_own(record) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for step in range(3):
            if step == 1:
                evaluate(model)
            train_step(model, optimizer)
    with_eval, without = seen.steps[1], seen.steps[2]
    assert {node.phase.value for node in with_eval.orders[1]} == {"eval"}
    assert [n.op_type for n in with_eval.orders[1]].count("addmm") == 2
    assert 1 not in without.orders
    assert with_eval.orders[0] == without.orders[0]
    assert "eval" not in {node.phase.value for node in with_eval.orders[0]}


def test_evaluation_ends_no_step(record) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(3):
            train_step(model, optimizer)
            for _ in range(4):
                evaluate(model)
    assert [record.step for record in seen.steps if record.complete] == [0, 1, 2]
    assert seen.steps[-1].complete is False
    assert set(seen.steps[-1].orders) == {1}


def test_values_of_evaluation(record) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        train_step(model, optimizer)
        result = evaluate(model)
    with torch.no_grad():
        hidden = INPUT @ model[0].weight.T + model[0].bias
        expected = hidden @ model[2].weight.T + model[2].bias
    last = seen.of_type("addmm", step=1, phase="eval")[-1]
    assert last.node.name == "Default/network-Sequential/2-Linear/addmm-op0"
    assert last.node.graph == 1
    torch.testing.assert_close(last.outputs[0], expected)
    torch.testing.assert_close(seen.one("mean", step=1, phase="eval").outputs[0], result)


def test_training_goes_on_as_forward_after_evaluation(record) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        train_step(model, optimizer)
        evaluate(model)
        loss = (torch.ones(1, 2) * 2).requires_grad_()
        model.train()(loss).sum().backward()
        optimizer.step()
    assert seen.of_type("mul", step=1)[0].node.phase == "forward"
    assert {c.node.graph for c in seen.of_type("addmm", 1, "forward")} == {0}


def test_eval_mode_with_gradients_is_forward(record) -> None:
    model = network().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        model(INPUT).sum().backward()
        optimizer.step()
    assert {call.node.phase.value for call in seen.of_type("addmm")} == {"forward"}


def test_evaluation_under_inference_mode_before_any_training(record) -> None:
    model = network().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        with torch.inference_mode():
            result = model(INPUT)
        train_step(model, optimizer)
    in_eval = [call for call in seen.calls if call.node.phase == "eval"]
    assert torch.equal(in_eval[-1].outputs[0], result)
    assert in_eval[-1].node.scope == "Default/network-Sequential/2-Linear"
    assert len(seen.of_type("addmm", phase="forward")) == 2
    assert len(seen.steps) == 1

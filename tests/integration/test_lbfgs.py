"""LBFGS calls the model itself: what runs in its closure is forward and backward."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import opscope
from helpers.same_answer import dump_config


def train(steps: int = 2) -> tuple[nn.Linear, list[float], list[Tensor]]:
    torch.manual_seed(3)
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    batch = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    losses, weights = [], []

    def closure() -> Tensor:
        optimizer.zero_grad()
        weights.append(model.weight.detach().clone())
        loss = model(batch).square().sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return model, losses, weights


def test_one_call_of_the_optimizer_is_one_step(record) -> None:
    plain, losses, _ = train()
    with record() as seen:
        watched, _, _ = train()
    assert torch.equal(plain.weight, watched.weight)
    assert len(seen.steps) == 2
    assert [loss.value for step in seen.steps for loss in step.losses] == losses
    assert len(seen.steps[0].losses) > 1


def test_the_closure_is_forward_and_the_rest_optimizer(record) -> None:
    with record() as seen:
        _, losses, weights = train(steps=1)
    model_calls = seen.of_type("mm", phase="forward")
    assert len(model_calls) == len(losses)
    assert {call.node.scope for call in model_calls} == {"Default/network-Linear"}
    batch = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    for call, weight in zip(model_calls, weights, strict=True):
        torch.testing.assert_close(call.outputs[0], batch @ weight.T)
    assert {call.node.scope for call in seen.of_type("sum", phase="forward")} == {"Default"}
    own = {node.op_type for node in seen.nodes if node.phase == "optimizer"}
    assert "dot" in own
    assert {n.scope for n in seen.nodes if n.op_type == "dot"} == {"Default/optimizer-LBFGS"}


def test_gradients_inside_the_closure(record) -> None:
    batch = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    with record() as seen:
        _, _, weights = train(steps=1)
    expected = (2 * batch @ weights[-1].T).T @ batch
    torch.testing.assert_close(seen.gradient("weight"), expected)


def test_a_closure_given_to_an_ordinary_optimizer(record) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        return loss

    with record() as seen:
        returned = [optimizer.step(closure=closure) for _ in range(2)]
    assert [step.losses[0].value for step in seen.steps] == [loss.item() for loss in returned]
    assert seen.one("addmm").node.phase == "forward"
    assert {call.node.phase for call in seen.of_type("add_")} == {"optimizer"}


def test_a_dump_has_rows_of_parameters_that_change_within_a_step(tmp_path: Path) -> None:
    """They are those of the first closure: later ones read what the optimizer has made of them."""
    config = dump_config(tmp_path, "0-1")
    with opscope.start(dump=config, record=False, page=False, watch="none"):
        _, _, weights = train()
    half = len(weights) // 2
    for step, name, before in ((0, "unnamed.0", weights[0]), (1, "weight", weights[half])):
        path = tmp_path / "dump" / "rank_0" / "Net" / "0" / str(step) / "statistic.csv"
        lines = csv.DictReader(path.read_text().splitlines())
        (row,) = (line for line in lines if line["Op Type"] == "Parameter")
        assert row["Op Name"] == name
        assert float(row["Max Value"]) == pytest.approx(before.max().item())
        assert float(row["Min Value"]) == pytest.approx(before.min().item())

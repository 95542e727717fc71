"""Weight sharing: one name for a tied weight, and one gradient that sums all its uses."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.recorder import Recorder, recording

TOKENS = torch.tensor([[1, 3, 1]])
TARGET = torch.tensor([3, 1, 0])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, 2)
        self.head = nn.Linear(2, 4, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens).tanh()).view(-1, 4)


def fresh() -> Tied:
    torch.manual_seed(8)
    return Tied()


def train(model: Tied, steps: int = 2) -> list[Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    gradients = []
    for _ in range(steps):
        F.cross_entropy(model(TOKENS), TARGET).backward()
        gradients.append(model.embed.weight.grad.clone())
        optimizer.step()
        optimizer.zero_grad()
    return gradients


@functools.cache
def watch() -> Recorder:
    model = fresh()
    with recording() as seen:
        train(model)
    return seen


def test_both_uses_read_the_same_parameter() -> None:
    seen = watch()
    for step in range(2):
        embedding, transpose = seen.one("embedding", step), seen.of_type("t", step, "forward")[0]
        assert embedding.node.scope == "Default/network-Tied/embed-Embedding"
        assert transpose.node.scope == "Default/network-Tied/head-Linear"
        for use in (embedding, transpose):
            assert (use.sources[0].kind, use.sources[0].name) == ("parameter", "embed.weight")
        assert torch.equal(embedding.inputs[0], transpose.inputs[0])


def test_one_gradient_sums_both_uses() -> None:
    expected = train(fresh())
    seen = watch()
    for step in range(2):
        accumulated = seen.of_type("AccumulateGrad", step)
        assert {c.node.gradient_of for c in accumulated} == {"embed.weight"}
        assert torch.equal(seen.gradient("embed.weight", step), expected[step])
    parts = {s.node.op_type for s in seen.one("add", 0, "backward").sources.values()}
    assert parts == {"embedding_dense_backward", "t"}


def test_the_two_parts_of_the_gradient_are_right() -> None:
    model = fresh()
    seen = watch()
    head = model.head.weight.detach().clone().requires_grad_()
    embed = model.embed.weight.detach().clone().requires_grad_()
    logits = F.linear(F.embedding(TOKENS, embed).tanh(), head).view(-1, 4)
    F.cross_entropy(logits, TARGET).backward()
    total = seen.one("add", 0, "backward")
    by_type = {s.node.op_type: total.inputs[slot] for slot, s in total.sources.items()}
    torch.testing.assert_close(by_type["embedding_dense_backward"], embed.grad)
    torch.testing.assert_close(by_type["t"], head.grad)


def test_the_tied_weight_is_updated_once_per_step() -> None:
    seen = watch()
    for step in range(2):
        update = seen.one("add_", step, "optimizer")
        assert update.node.parameter == "embed.weight"
        assert update.node.name == "Default/optimizer-SGD/add_-op0"
        expected = update.inputs[0] - 0.5 * seen.gradient("embed.weight", step)
        torch.testing.assert_close(update.outputs[0], expected)


def test_a_module_shared_under_two_attributes_has_one_name_per_parameter(record) -> None:
    class Twin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = nn.Linear(2, 2, bias=False)
            self.right = self.left

        def forward(self, x: Tensor) -> Tensor:
            return self.right(self.left(x))

    model = Twin()
    weight = model.left.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(1, 2)
    with record() as seen:
        model(batch).sum().backward()
        optimizer.step()
    names = [c.node.name for c in seen.of_type("mm", phase="forward")]
    assert names == [f"Default/network-Twin/left-Linear/mm-op{i}" for i in (0, 1)]
    ones = torch.ones(1, 2)
    gradient = ones.T @ (batch @ weight.T) + (ones @ weight).T @ batch
    torch.testing.assert_close(seen.gradient("left.weight"), gradient)

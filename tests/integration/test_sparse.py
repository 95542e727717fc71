"""Sparse gradients of an embedding, with SparseAdam and SGD: recorded, named, equal to plain."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer, SparseAdam

from helpers.recorder import Recorder, recording
from opscope.events import Output

TOKENS = torch.tensor([1, 3, 1])
OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "SparseAdam": lambda model: SparseAdam(model.parameters(), lr=0.1),
    "SGD": lambda model: SGD(model.parameters(), lr=0.1),
}
each = pytest.mark.parametrize("kind", OPTIMIZERS)


def fresh() -> nn.Module:
    torch.manual_seed(13)
    return nn.Embedding(5, 2, sparse=True)


def train(model: nn.Module, kind: str, steps: int = 2) -> list[tuple[Tensor, Tensor]]:
    """The gradient and the updated weight of every step."""
    optimizer = OPTIMIZERS[kind](model)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        model(TOKENS).square().sum().backward()
        optimizer.step()
        history.append((model.weight.grad, model.weight.data.clone()))
    return history


@functools.cache
def watch(kind: str) -> Recorder:
    model = fresh()
    with recording() as seen:
        train(model, kind)
    return seen


@each
def test_the_sparse_gradient_is_that_of_a_plain_run(kind) -> None:
    plain = train(fresh(), kind)
    seen = watch(kind)
    for step in range(2):
        gradient = seen.gradient("weight", step)
        assert gradient.is_sparse
        assert torch.equal(gradient.to_dense(), plain[step][0].to_dense())
        assert gradient.to_dense()[[0, 2, 4]].abs().sum() == 0


@each
def test_the_update_is_named_and_right(kind) -> None:
    plain = train(fresh(), kind)
    seen = watch(kind)
    for step in range(2):
        labelled = [
            c
            for c in seen.calls
            if c.step == step
            and c.node.phase == "optimizer"
            and c.node.outputs
            and c.node.outputs[0].parameter == "weight"
        ]
        assert [c.node.op_type for c in labelled] == ["add_"]
        assert labelled[0].node.parameter == "weight"
        assert torch.equal(labelled[0].outputs[0], plain[step][1])
        assert labelled[0].node.scope == f"Default/optimizer-{kind}"
    assert len([s for s in seen.steps if s.complete]) == 2


@each
def test_only_the_accumulated_gradient_is_called_the_gradient(kind) -> None:
    seen = watch(kind)
    called = {
        c.node.op_type
        for c in seen.calls
        if c.node.phase == "backward"
        and any(output.parameter == "weight" for output in c.node.outputs)
    }
    assert called == {"AccumulateGrad"}


def test_sparse_gradients_link_back_to_the_embedding() -> None:
    seen = watch("SGD")
    accumulate = seen.of_type("AccumulateGrad")[-1]
    taken = accumulate.sources[0]
    if isinstance(taken, Output) and taken.node.op_type == "_indices":
        # Autograd takes the gradient apart where nobody else holds it.
        (taken,) = taken.node.sources
    if not isinstance(taken, Output):
        pytest.skip("autograd has copied the gradient without an operator")
    made = taken.node
    assert made.op_type == "_sparse_coo_tensor_with_dims_and_tensors"
    assert made.forward is seen.one("embedding").node
    assert made.scope == "Gradients/Default/network-Embedding"
    update = seen.one("add_", phase="optimizer")
    assert update.sources[1].node is accumulate.node


def test_a_sparse_product(record) -> None:
    sparse = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    weight = nn.Parameter(torch.tensor([[1.0], [10.0]]))
    optimizer = SGD([weight], lr=0.1)
    with record() as seen:
        torch.sparse.mm(sparse, weight).sum().backward()
        optimizer.step()
    product = seen.one("_sparse_addmm")
    assert torch.equal(product.outputs[0], torch.tensor([[20.0], [3.0]]))
    update = seen.one("add_", phase="optimizer")
    assert torch.equal(update.inputs[1], torch.tensor([[3.0], [2.0]]))

"""`F.linear` on 3-D input, batched matrix products and einsum: values and gradients by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from opscope.events import Output


class Product(nn.Module):
    """Holds two or three tensors and combines them."""

    def __init__(self, combine, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.combine = combine
        for name, shape in zip("abc", shapes, strict=False):
            self.register_parameter(name, nn.Parameter(torch.randn(shape)))

    def forward(self) -> Tensor:
        return self.combine(*self.parameters())


def train(record, model: nn.Module, upstream: Tensor):
    """Two steps that leave the parameters as they are."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with record() as seen:
        for _ in range(2):
            (model() * upstream).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


def result(seen, step: int) -> Tensor:
    """What the product came to: the input of the weighing by `upstream`."""
    return seen.of_type("mul", step, "forward")[0].inputs[0]


def traced_back(call, slot: int = 0) -> str:
    """The parameter an input is a view of, following edges through views only."""
    source = call.sources[slot]
    while isinstance(source, Output):
        assert source.node.op_type in ("view", "t", "expand", "permute", "unsqueeze"), source
        source = source.node.sources[0]
    return source.name


def test_linear_on_three_dimensions(record) -> None:
    model = Product(F.linear, (2, 3, 4), (5, 4), (5,))
    upstream = torch.randn(2, 3, 5)
    x, w, b = (p.detach().clone() for p in model.parameters())
    seen = train(record, model, upstream)
    expected = (x.view(6, 4) @ w.T + b).view(2, 3, 5)
    for step in range(2):
        addmm = seen.one("addmm", step)
        torch.testing.assert_close(result(seen, step), expected)
        torch.testing.assert_close(addmm.outputs[0], expected.view(6, 5))
        assert [traced_back(addmm, slot) for slot in range(3)] == ["c", "a", "b"]
        torch.testing.assert_close(seen.gradient("a", step), upstream @ w)
        torch.testing.assert_close(seen.gradient("b", step), upstream.view(6, 5).T @ x.view(6, 4))
        torch.testing.assert_close(seen.gradient("c", step), upstream.sum((0, 1)))


def test_linear_module_on_three_dimensions_has_its_scope_everywhere(record) -> None:
    model = nn.Sequential(nn.Linear(4, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(2, 3, 4)
    with record() as seen:
        model(batch).sum().backward()
        optimizer.step()
    inside = [c for c in seen.calls if "0-Linear" in c.node.scope]
    *first, last = [c.node.op_type for c in inside[:4]]
    assert first == ["view", "t", "addmm"]
    assert last in ("view", "_unsafe_view")  # the latter from torch 2.15 on
    torch.testing.assert_close(seen.gradient("0.weight"), batch.sum((0, 1)).expand(5, 4))
    torch.testing.assert_close(seen.gradient("0.bias"), torch.full((5,), 6.0))
    scopes = {c.node.scope for c in seen.of_type("AccumulateGrad")}
    assert scopes == {"Gradients/Default/network-Sequential/0-Linear"}


BATCHED = {
    "bmm": torch.bmm,
    "matmul": torch.matmul,
    "operator": lambda a, b: a @ b,
    "einsum": lambda a, b: torch.einsum("bij,bjk->bik", a, b),
}


@pytest.mark.parametrize("kind", BATCHED)
def test_batched_products_are_one_bmm(record, kind) -> None:
    model = Product(BATCHED[kind], (2, 3, 4), (2, 4, 5))
    upstream = torch.randn(2, 3, 5)
    a, b = (p.detach().clone() for p in model.parameters())
    seen = train(record, model, upstream)
    expected = torch.stack([a[i] @ b[i] for i in range(2)])
    for step in range(2):
        bmm = seen.one("bmm", step, "forward")
        torch.testing.assert_close(bmm.outputs[0], expected)
        assert [traced_back(bmm, slot) for slot in range(2)] == ["a", "b"]
        torch.testing.assert_close(seen.gradient("a", step), upstream @ b.transpose(1, 2))
        torch.testing.assert_close(seen.gradient("b", step), a.transpose(1, 2) @ upstream)
        back = seen.of_type("bmm", step, "backward")
        assert [c.node.forward for c in back] == [bmm.node, bmm.node]


def test_a_broadcast_batched_product_sums_its_gradient(record) -> None:
    model = Product(torch.matmul, (2, 3, 4), (4, 5))
    upstream = torch.randn(2, 3, 5)
    a, b = (p.detach().clone() for p in model.parameters())
    seen = train(record, model, upstream)
    for step in range(2):
        torch.testing.assert_close(result(seen, step), torch.stack([a[0] @ b, a[1] @ b]))
        torch.testing.assert_close(seen.gradient("a", step), upstream @ b.T)
        expected = a.view(6, 4).T @ upstream.view(6, 5)
        torch.testing.assert_close(seen.gradient("b", step), expected)


def test_einsum_over_a_shared_index(record) -> None:
    model = Product(lambda a, b: torch.einsum("ij,kj->ik", a, b), (2, 3), (4, 3))
    upstream = torch.randn(2, 4)
    a, b = (p.detach().clone() for p in model.parameters())
    seen = train(record, model, upstream)
    for step in range(2):
        torch.testing.assert_close(result(seen, step), a @ b.T)
        torch.testing.assert_close(seen.gradient("a", step), upstream @ b)
        torch.testing.assert_close(seen.gradient("b", step), upstream.T @ a)

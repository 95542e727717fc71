"""`torch.func`: results are the same, and what dispatch sees has the right values."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, jacrev, jvp, vmap

WEIGHT = torch.tensor([[0.5, -1.0, 2.0]])
ROWS = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 2.0], [0.25, 0.5, 0.0], [3.0, 3.0, 3.0]])


def squared_error(weight: Tensor, row: Tensor) -> Tensor:
    return (weight @ row).square().sum()


def error_gradient(weight: Tensor, row: Tensor) -> Tensor:
    """The derivative of `squared_error` by the weight, by hand."""
    return 2 * (weight @ row)[:, None] * row


def outputs(seen) -> list[Tensor]:
    return [tensor for call in seen.calls for tensor in call.outputs.values()]


def holds(tensors: list[Tensor], value: Tensor) -> bool:
    """Whether a value was seen, up to the dimensions of size one that vmap adds."""
    wanted = value.squeeze()
    return any(
        t.squeeze().shape == wanted.shape and torch.equal(t.squeeze(), wanted) for t in tensors
    )


def test_grad(record) -> None:
    with record() as seen:
        result = grad(squared_error)(WEIGHT, ROWS[0])
    assert torch.equal(result, error_gradient(WEIGHT, ROWS[0]))
    assert torch.equal(seen.one("mv").outputs[0], WEIGHT @ ROWS[0])
    assert holds(outputs(seen), error_gradient(WEIGHT, ROWS[0]))


def test_the_backward_inside_grad_is_attributed(record) -> None:
    with record() as seen:
        grad(squared_error)(WEIGHT, ROWS[0])
    backward = [call for call in seen.calls if call.node.phase == "backward"]
    assert backward
    assert all(call.node.name.startswith("Gradients/") for call in backward)
    owners = {call.node.forward.op_type for call in backward if call.node.forward}
    assert {"mv", "pow"} <= owners


def test_vmap_sees_the_batched_operator(record) -> None:
    with record() as seen:
        result = vmap(lambda row: row.exp().cumsum(0))(ROWS)
    assert torch.equal(result, ROWS.exp().cumsum(1))
    assert torch.equal(seen.one("exp").outputs[0], ROWS.exp())
    assert torch.equal(seen.one("cumsum").outputs[0], ROWS.exp().cumsum(1))


def test_vmap_of_grad_gives_per_sample_gradients(record) -> None:
    per_sample = vmap(grad(squared_error), in_dims=(None, 0))
    plain = per_sample(WEIGHT, ROWS)
    with record() as seen:
        result = per_sample(WEIGHT, ROWS)
    assert torch.equal(result, plain)
    expected = torch.stack([error_gradient(WEIGHT, row) for row in ROWS])
    torch.testing.assert_close(result, expected)
    assert holds(outputs(seen), plain)


def test_jacobian_and_forward_mode(record) -> None:
    def function(x: Tensor) -> Tensor:
        return x.sin() * x

    with record() as seen:
        jacobian = jacrev(function)(ROWS[0])
        value, tangent = jvp(function, (ROWS[0],), (torch.ones(3),))
    derivative = ROWS[0].cos() * ROWS[0] + ROWS[0].sin()
    torch.testing.assert_close(jacobian, derivative.diag())
    torch.testing.assert_close(tangent, derivative)
    assert torch.equal(value, ROWS[0].sin() * ROWS[0])
    assert holds(outputs(seen), ROWS[0].sin())


def train(steps: int = 3) -> tuple[list[float], dict[str, Tensor]]:
    """A training with functional_call and no optimizer class."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss_of(weights: dict[str, Tensor], rows: Tensor) -> Tensor:
        return functional_call(model, weights, (rows,)).square().mean()

    losses = []
    for _ in range(steps):
        gradients, loss = grad_and_value(loss_of)(weights, ROWS)
        weights = {name: weights[name] - 0.1 * gradients[name] for name in weights}
        losses.append(loss)
    return [loss.item() for loss in losses], weights


def test_functional_training_is_the_same_and_scoped(record) -> None:
    losses, weights = train()
    with record() as seen:
        watched_losses, watched = train()
    assert watched_losses == losses
    assert all(torch.equal(watched[name], weights[name]) for name in weights)
    scopes = {c.node.scope for c in seen.calls if c.node.op_type == "addmm"}
    assert scopes == {f"Default/network-Sequential/{n}-Linear" for n in (0, 2)}


def test_ensembles_by_vmap_over_parameters(record) -> None:
    torch.manual_seed(6)
    models = [nn.Linear(3, 1) for _ in range(3)]
    stacked, buffers = torch.func.stack_module_state(models)

    def call(weights: dict[str, Tensor], extra: dict[str, Tensor]) -> Tensor:
        return functional_call(models[0], (weights, extra), (ROWS,))

    with record() as seen:
        together = vmap(call)(stacked, buffers)
    with torch.no_grad():
        expected = torch.stack([model(ROWS) for model in models])
    torch.testing.assert_close(together, expected)
    assert any(c.node.scope == "Default/network-Linear" for c in seen.calls)

"""Autocast to bfloat16 on CPU: the casts are nodes, dtypes and values are those of a plain run."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.recorder import Recorder, recording

BATCH = torch.linspace(-1, 1, 8).view(4, 2)
TARGET = torch.tensor([0, 2, 1, 0])
BF16, FP32 = torch.bfloat16, torch.float32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.norm = nn.LayerNorm(2)
        self.head = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.first(self.first(x))))


def train(net: nn.Module) -> tuple[list[float], list[Tensor]]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses, outputs = [], []
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=BF16):
            logits = net(BATCH)
            loss = F.cross_entropy(logits, TARGET)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        outputs.append(logits.detach().clone())
    return losses, outputs


def fresh() -> nn.Module:
    torch.manual_seed(1)
    return Net()


@functools.cache
def watch() -> Recorder:
    net = fresh()
    with recording() as seen:
        train(net)
    return seen


def in_scope(seen, op_type: str, module: str, step: int = 0) -> list:
    scope = f"Default/network-Net/{module}"
    return [c for c in seen.of_type(op_type, step) if c.node.scope == scope]


def test_casts_are_nodes_with_both_dtypes() -> None:
    net = fresh()
    casts = in_scope(watch(), "_to_copy", "first-Linear")
    names = [getattr(c.sources[0], "name", "") for c in casts]
    weight = casts[names.index("first.weight")]
    assert (weight.inputs[0].dtype, weight.outputs[0].dtype) == (FP32, BF16)
    assert torch.equal(weight.outputs[0], net.first.weight.detach().to(BF16))
    assert weight.node.arguments["dtype"] == "bfloat16"
    batch = casts[names.index("input0")]
    assert torch.equal(batch.outputs[0], BATCH.to(BF16))


def test_a_weight_is_cast_once_and_used_twice() -> None:
    seen = watch()
    casts = in_scope(seen, "_to_copy", "first-Linear")
    of_weight = [c for c in casts if getattr(c.sources[0], "name", "") == "first.weight"]
    assert len(of_weight) == 1
    uses = in_scope(seen, "t", "first-Linear")
    assert len(uses) == 2
    assert all(use.sources[0] is of_weight[0].node.outputs[0] for use in uses)


def test_matmuls_run_in_bfloat16_with_the_values_of_a_plain_run() -> None:
    _, logits = train(fresh())
    seen = watch()
    for step in range(2):
        addmm = in_scope(seen, "addmm", "head-Linear", step)[0]
        assert {t.dtype for t in addmm.inputs.values()} == {BF16}
        assert addmm.outputs[0].dtype == BF16
        assert torch.equal(addmm.outputs[0], logits[step])


def test_the_loss_is_computed_in_float32() -> None:
    losses, _ = train(fresh())
    seen = watch()
    soft = seen.one("_log_softmax")
    assert soft.inputs[0].dtype == soft.outputs[0].dtype == FP32
    assert soft.sources[0].node.op_type == "_to_copy"
    assert [step.losses[0].value for step in seen.steps if step.complete] == losses


def test_gradients_come_back_as_float32_through_a_cast() -> None:
    net = fresh()
    train(net)
    seen = watch()
    for name, parameter in net.named_parameters():
        gradient = seen.gradient(name, step=1)
        assert gradient.dtype == FP32
        assert torch.equal(gradient, parameter.grad)
    back = [c for c in seen.of_type("_to_copy", phase="backward") if "head" in c.node.scope]
    assert {(c.inputs[0].dtype, c.outputs[0].dtype) for c in back} == {(BF16, FP32)}
    assert {c.node.scope for c in back} == {"Gradients/Default/network-Net/head-Linear"}
    assert all(c.node.forward.op_type == "_to_copy" for c in back)


def test_a_region_without_autocast_stays_in_float32(record) -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    expected = layer(BATCH).detach()
    with record() as seen:
        with torch.autocast("cpu", dtype=BF16), torch.autocast("cpu", enabled=False):
            out = layer(BATCH)
        out.sum().backward()
        optimizer.step()
    assert torch.equal(seen.one("addmm").outputs[0], expected)
    assert seen.of_type("_to_copy") == []

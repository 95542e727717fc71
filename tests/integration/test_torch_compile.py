"""A `torch.compile`d model trains correctly, and it is said once what is not looked into."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from opscope.messages import forget_said

SENTENCE = "operators inside compiled regions are not looked into yet"
BACKENDS = [
    "eager",
    "aot_eager",
    pytest.param("inductor", marks=pytest.mark.skipif(not shutil.which("g++"), reason="no g++")),
]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


def train(backend: str, steps: int = 3) -> tuple[list[Tensor], list[Tensor]]:
    """The losses and the weights of a compiled training."""
    torch.manual_seed(2)
    net = Net()
    model = torch.compile(net, backend=backend)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [parameter.detach().clone() for parameter in net.parameters()]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    forget_said()
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_is_the_same_and_it_is_said_once(record, backend, capsys) -> None:
    losses, weights = train(backend)
    torch._dynamo.reset()
    with record() as seen:
        watched_losses, watched_weights = train(backend)
    assert all(map(torch.equal, watched_losses, losses))
    assert all(map(torch.equal, watched_weights, weights))
    ended = [step for step in seen.steps if step.complete]
    assert [step.losses[0].value for step in ended] == [loss.item() for loss in losses]
    said = capsys.readouterr().err
    assert said.count(SENTENCE) == 1
    assert "internal error" not in said


def test_what_runs_outside_is_recorded(record) -> None:
    with record() as seen:
        losses, weights = train("aot_eager", steps=1)
    assert torch.equal(seen.one("mean", phase="forward").outputs[0], losses[0])
    updates = {c.node.parameter: c.outputs[0] for c in seen.of_type("add_", phase="optimizer")}
    names = ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert list(updates) == [f"_orig_mod.{name}" for name in names] or list(updates) == names
    assert all(map(torch.equal, updates.values(), weights))


def test_a_model_compiled_before_the_start_is_told_about_too(record, capsys) -> None:
    net = Net()
    model = torch.compile(net, backend="aot_eager")
    inputs = torch.randn(5, 4)
    expected = model(inputs)
    with record():
        result = model(inputs)
        model(inputs)
    assert torch.equal(result, expected)
    assert capsys.readouterr().err.count(SENTENCE) == 1


def test_a_compiled_function_is_right_and_told_about(record, capsys) -> None:
    with record():
        function = torch.compile(lambda x: (x.sin() * 2).sum(), backend="aot_eager")
        inputs = torch.tensor([1.0, 2.0], requires_grad=True)
        function(inputs).backward()
    torch.testing.assert_close(inputs.grad, 2 * inputs.detach().cos())
    assert capsys.readouterr().err.count(SENTENCE) == 1


def test_recording_does_not_recompile(record) -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    net = Net()
    model = torch.compile(net, backend=counter)
    inputs = torch.randn(5, 4)
    model(inputs).sum().backward()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with record(steps=lambda step: step % 2 == 0):
        for _ in range(4):
            model(inputs).sum().backward()
            optimizer.step()
    model(inputs).sum().backward()
    assert counter.frame_count == 1


def test_exporting_a_model_while_recording(record) -> None:
    net, inputs = Net(), torch.randn(5, 4)
    expected = net(inputs)
    with record():
        exported = torch.export.export(net, (inputs,)).module()
    torch.testing.assert_close(exported(inputs), expected)

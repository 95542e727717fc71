"""Print in training: eager, compiled, under torch.func, in a dump and under a watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import opscope
from opscope import Print, context, print_
from opscope.messages import forget_said


class Net(nn.Module):
    """Prints its input, what is between, and text in between."""

    def __init__(self, grad: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.second = nn.Linear(2, 1)
        self.print = Print(grad=grad)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.print("input", x)
        hidden = self.first(x)
        self.print("hidden", hidden, "between", 3, hidden.sum())
        out = self.second(hidden.relu())
        self.print("last")
        return out.sum()


def train(net: nn.Module, forward: Callable[..., torch.Tensor], steps: int = 3) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = forward(torch.full((2, 3), float(step)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def printed(net: Net, capsys: pytest.CaptureFixture[str], compiled: str = "") -> str:
    torch.manual_seed(0)
    net.load_state_dict({n: torch.randn_like(p) for n, p in net.state_dict().items()})
    torch._dynamo.reset()
    forward = torch.compile(net, fullgraph=True, backend=compiled) if compiled else net
    train(net, forward)
    return capsys.readouterr().out


def heads(text: str) -> list[str]:
    """The lines that are no values."""
    return [line for line in text.splitlines() if not line.lstrip().startswith("[")]


def test_the_example_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    class PrintDemo(nn.Module):
        def __init__(self) -> None:
            super(PrintDemo, self).__init__()  # noqa: UP008 - as the guide has it
            self.print = Print()

        def forward(self, x, y):  # type: ignore[no-untyped-def]
            self.print("print Tensor x and Tensor y:", x, y)
            return x

    context.set_context(mode=context.GRAPH_MODE)
    x = torch.tensor(np.ones([2, 1]).astype(np.int32))
    y = torch.tensor(np.ones([2, 2]).astype(np.int32))
    net = PrintDemo()
    output = net(x, y)
    assert output is x
    assert capsys.readouterr().out == (
        "print Tensor x and Tensor y:\n"
        "Tensor(shape=[2, 1], dtype=Int32, value=\n[[1]\n [1]])\n"
        "Tensor(shape=[2, 2], dtype=Int32, value=\n[[1 1]\n [1 1]])\n"
    )


def test_eager_training_prints_in_order_and_stays_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.manual_seed(1)
    net = Net()
    start = {name: value.clone() for name, value in net.state_dict().items()}
    losses = train(net, net)
    text = capsys.readouterr().out
    assert heads(text)[:6] == [
        "input",
        "Tensor(shape=[2, 3], dtype=Float32, value=",
        "hidden",
        "Tensor(shape=[2, 2], dtype=Float32, value=",
        "between",
        "3",
    ]
    assert text.count("last\n") == 3
    net.load_state_dict(start)
    net.print = lambda *values: None  # type: ignore[assignment]
    assert train(net, net) == losses


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_training_prints_the_same(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net(grad=True)
    eager = printed(net, capsys)
    compiled = printed(net, capsys, backend)
    assert heads(compiled) == heads(eager)
    assert compiled.count("gradient of hidden") == 3
    values = [np.fromstring(text, sep=" ") for text in (_numbers(eager), _numbers(compiled))]
    assert np.allclose(*values, rtol=1e-4, atol=1e-6)


def _numbers(text: str) -> str:
    lines = [line for line in text.splitlines() if line.lstrip().startswith("[")]
    return " ".join(lines).replace("[", " ").replace("]", " ").replace(")", " ")


def test_nothing_of_a_print_is_removed_as_unused(capsys: pytest.CaptureFixture[str]) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def unused(x: torch.Tensor) -> torch.Tensor:
        for number in range(3):
            print_("number", number, x * number)
        return x + 1

    unused(torch.ones(2))
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.isdigit()] == ["0", "1", "2"]
    assert "value=[ 2.00000000e+00  2.00000000e+00])" in shown


def test_the_gradient_is_the_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    print_("y", y, grad=True)
    print_("no gradient", torch.ones(1), grad=True)
    (y**2).sum().backward()
    assert capsys.readouterr().out.endswith(
        "gradient of y\nTensor(shape=[2], dtype=Float32, value=[ 6.00000000e+00  1.20000000e+01])\n"
    )


def test_under_transforms(capsys: pytest.CaptureFixture[str]) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        print_("x", x, grad=True)
        return (x**2).sum()

    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    grads = torch.vmap(torch.func.grad(loss))(rows)
    assert torch.equal(grads, 2 * rows)
    shown = capsys.readouterr().out
    assert "[[ 1.00000000e+00  2.00000000e+00]\n [ 3.00000000e+00  4.00000000e+00]]" in shown
    assert "gradient of x\nTensor(shape=[2, 2]" in shown
    value, tangent = torch.func.jvp(loss, (rows,), (torch.ones_like(rows),))
    assert (float(value), float(tangent)) == (30.0, 20.0)
    function = torch.vmap(torch.func.grad(lambda x: (print_(x), x.sum())[1]))
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows), torch.ones_like(rows))
    assert "Tensor(shape=[2, 2]" in capsys.readouterr().out


def test_tensors_in_lists_without_text_and_odd_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    print_([torch.tensor(1), (torch.tensor(True), None)], 2.5, "")
    assert capsys.readouterr().out == (
        "Tensor(shape=[], dtype=Int64, value=1)\n"
        "Tensor(shape=[], dtype=Bool, value=True)\n"
        "None\n2.5\n\n"
    )
    with pytest.raises(ValueError, match="limit = 0: must be at least 1"):
        Print(limit=0)


def test_ranks_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    print_("two\nlines", torch.ones(1, 1))
    assert all(line.startswith("[rank 1] ") for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(("ignored", "outputs"), [("1", 0), ("0", 3)])
def test_in_a_dump_it_is_a_node_with_a_useless_output(
    tmp_path: Path, ignored: str, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"path": str(tmp_path / "dump"), "net_name": "Net", "iteration": "0"}
    config |= {"dump_mode": 0, "saved_data": "full"}
    (tmp_path / "dump.json").write_text(json.dumps({"common_dump_settings": config}))
    monkeypatch.setenv("MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT", ignored)
    net = Net()
    with opscope.start(dump=tmp_path / "dump.json"):
        train(net, net)
    files = sorted((tmp_path / "dump/rank_0/Net/0/0").glob("opscope_print.*.npy"))
    inputs = [file for file in files if ".input." in file.name]
    assert [np.load(file).shape for file in inputs] == [(2, 3), (2, 2), ()]
    assert len(files) - len(inputs) == outputs
    order = (tmp_path / "dump/rank_0/execution_order/ms_execution_order_graph_0.csv").read_text()
    assert order.count("opscope_print") == 3  # and nothing of what it does inside
    assert "relu-op0" in order


def test_watching_sees_it_as_one_operator_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    net = Net()
    start = {name: value.clone() for name, value in net.state_dict().items()}
    plain = train(net, net)
    without = capsys.readouterr().out
    net.load_state_dict(start)
    with opscope.start(run_dir=tmp_path / "run", watch="recommended"):
        watched = train(net, net)
    assert watched == plain
    assert capsys.readouterr().out == without
    nodes = opscope.open(tmp_path / "run").select_nodes("opscope_print")
    assert [node.name.rpartition("-")[2] for node in nodes] == ["op0", "op1", "op2"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net(grad=True).cuda()

    def forward(x: torch.Tensor) -> torch.Tensor:
        return compiled(x.cuda())  # type: ignore[no-any-return]

    compiled = torch.compile(net, fullgraph=True)
    train(net, forward)
    assert capsys.readouterr().out.count("gradient of hidden") == 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_inside_a_cuda_graph_nothing_is_printed_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    forget_said()
    x = torch.ones(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        print_("y", y)
    graph.replay()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Print shows nothing inside CUDA graphs" in shown.err
    assert y.tolist() == [2.0, 2.0]

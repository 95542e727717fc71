"""The graph files of a real training: text, ONNX model, and names without classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
import torch
from test_dump_shared import SCRIPT, dumping, name_of, npy_files, write_config
from torch import Tensor, nn

from helpers.forked import forked_opscope as opscope
from opscope.session import current_session
from opscope.settings.context import reset_context, set_context

IR, PB = "ms_output_trace_code_graph_0.ir", "ms_output_trace_code_graph_0.pb"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)  # a line to find
        if self.training and getattr(self, "extra", False):
            x = x.sigmoid()
        return self.last(x.mean((2, 3)))


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


def train(steps: int = 3, extra_in: int = -1) -> None:
    torch.manual_seed(0)
    model = Net().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        model.extra = step == extra_in
        x = torch.randn(2, 3, 5, 6).to(memory_format=torch.channels_last)
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture(autouse=True)
def fresh_context() -> Iterator[None]:
    reset_context()
    yield
    reset_context()


def blocks(text: str) -> dict[str, str]:
    """What is said of each operator, by its full name."""
    parts = text.split("\n\n")[1:]
    return {
        match.group(1): part
        for part in parts
        if (match := re.search(r"full_name_with_scope: \((.*)\)", part))
    }


def test_the_text_says_what_an_operator_is(tmp_path: Path) -> None:
    with dumping(tmp_path, iteration="0", dump_mode=1, kernels=["addmm"]) as rank:
        train()
    text = (rank / "graphs" / IR).read_text()
    found = blocks(text)
    names = (rank / "execution_order/ms_execution_order_graph_0.csv").read_text().split("\n")[1:-1]
    assert list(found) == names, "every operator, also those that are not dumped, in their order"
    conv = found["Default/network-Net/conv-Conv2d/convolution-op0"]
    assert re.search(
        r"%\d+\(output\) = convolution\(%\S+, %para\d+_conv_weight, %para\d+_conv_bias\)"
        r" \{instance name: conv\} primitive_attrs: \{stride: \[1, 1\], padding: \[0, 0\]",
        conv,
    )
    assert (
        ": (<Tensor[Float32], (2, 3, 5, 6)>, <Tensor[Float32], (4, 3, 3, 3)>,"
        " <Tensor[Float32], (4)>) -> (<Tensor[Float32], (2, 4, 3, 4)>)" in conv
    )
    assert (
        ": (<Float32xNHWC[cpu][2, 5, 6, 3]>, <Float32xNHWC[cpu][4, 3, 3, 3]>,"
        " <Float32xDefaultFormat[cpu][4]>) -> (<Float32xNHWC[cpu][2, 3, 4, 4]>)" in conv
    )
    here = f"# In file {__file__}({line_of('a line to find')})/        x = self.conv(x)"
    assert here in conv
    backward = [part for name, part in found.items() if "convolution_backward" in name]
    forward = "(Default/network-Net/conv-Conv2d/convolution-op0)"
    assert f"# Corresponding forward node: {forward}" in backward[0]
    assert here in backward[0], "backward operators have the line of their forward"
    assert re.search(r"%para\d+_conv_weight: <Tensor\[Float32\], \(4, 3, 3, 3\)>", text)


@pytest.mark.parametrize("saved", ["tensor", "statistic"])
def test_operators_that_come_later_are_added(tmp_path: Path, saved) -> None:
    with dumping(tmp_path, saved_data=saved) as rank:
        train(5, extra_in=4)
    found = blocks((rank / "graphs" / IR).read_text())
    assert any("/sigmoid-op0" in name for name in found)
    updates = [name for name in found if name.startswith("Default/optimizer-SGD/mul_")]
    assert len(updates) == 4, "momentum begins in the second step"
    untyped = [name for name, part in found.items() if "<Tensor" not in part.split(" -> ")[1]]
    assert [name for name in untyped if "/empty" not in name] == [], "all have types"


def test_the_model_opens_as_onnx(tmp_path: Path) -> None:
    with dumping(tmp_path) as rank:
        train()
    model = onnx.load(rank / "graphs" / PB)
    onnx.checker.check_model(model)
    assert {each.domain for each in model.opset_import} == {"", "aten"}
    nodes = {node.name: node for node in model.graph.node}
    assert list(nodes) == list(blocks((rank / "graphs" / IR).read_text()))
    conv = nodes["Default/network-Net/conv-Conv2d/convolution-op0"]
    assert (conv.op_type, conv.domain) == ("convolution", "aten")
    assert list(conv.input)[1:] == ["conv.weight", "conv.bias"]
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in conv.attribute}
    assert attributes["stride"] == b"[1, 1]"
    assert f"({line_of('a line to find')})/" in conv.doc_string
    inputs = {each.name: each.type.tensor_type for each in model.graph.input}
    weight = inputs["conv.weight"]
    assert weight.elem_type == onnx.TensorProto.FLOAT
    assert [dim.dim_value for dim in weight.shape.dim] == [4, 3, 3, 3]
    mean = nodes["Default/network-Net/mean-op0"]
    assert mean.input[0] == conv.output[0]


def test_eval_and_setup_have_graphs_when_included(tmp_path: Path) -> None:
    script = SCRIPT.replace(
        "        end(model)",
        "        end(model)\n        model.eval()\n        with torch.no_grad():\n"
        "            model(x)\n        model.train()",
    )
    (tmp_path / "train.py").write_text(script)
    config = write_config(tmp_path, iteration="0|1")
    done = opscope("run", "--dump", config, "--include", "eval", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    graphs = tmp_path / "dump/rank_0/graphs"
    assert sorted(each.name for each in graphs.glob("*.ir")) == [IR, IR.replace("_0", "_1")]
    onnx.checker.check_model(onnx.load(graphs / PB.replace("_0", "_1")))


SAVES = "import opscope\nopscope.set_context(save_graphs=2)\n"


@pytest.mark.parametrize(
    ("before", "environ", "options"),
    [
        ("", {"MS_DEV_SAVE_GRAPHS": "2"}, ()),
        (SAVES, {}, ()),
        ("", {"MS_DEV_SAVE_GRAPHS": "1"}, ("--no-record", "--no-stats")),
    ],
    ids=["environment", "set_context", "environment, nothing else"],
)
def test_graphs_without_a_dump(tmp_path: Path, before, environ, options) -> None:
    script = SCRIPT.replace("import torch\n", f"import torch\n{before}", 1)
    (tmp_path / "train.py").write_text(script)
    if not options:
        options = ("--run-dir", "run")
    done = opscope("run", *options, "train.py", cwd=tmp_path, **environ)
    assert done.returncode == 0, done.stderr
    root = tmp_path / "run" if "--run-dir" in options else tmp_path
    found = blocks((root / "rank_0/graphs" / IR).read_text())
    assert "Default/network-Model/fc1-Linear/addmm-op0" in found
    assert "graphs written to" in done.stderr
    onnx.checker.check_model(onnx.load(root / "rank_0/graphs" / PB))


def test_no_graphs_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    for value in ("0", ""):
        done = opscope(
            "run", "--run-dir", f"run{value}", "train.py", cwd=tmp_path, MS_DEV_SAVE_GRAPHS=value
        )
        assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("graphs"))


@pytest.mark.parametrize("when", ["before the start", "before the first forward"])
def test_names_without_classes(tmp_path: Path, when) -> None:
    if when == "before the start":
        set_context(reserve_class_name_in_scope=False)
    with dumping(tmp_path, iteration="0") as rank:
        set_context(reserve_class_name_in_scope=False)
        train()
    names = {name_of(file)[1] for file in npy_files(rank / "Net/0/0")}
    assert "Default_network_conv_convolution-op0" in names
    assert "Default_optimizer_add_-op0" in names
    assert not any("-Conv2d" in name or "-Net" in name for name in names)
    text = (rank / "graphs" / IR).read_text()
    assert "full_name_with_scope: (Default/network/conv/convolution-op0)" in text


def test_names_have_classes_by_default_and_set_context_says_nothing(tmp_path: Path, capfd) -> None:
    with dumping(tmp_path, iteration="0") as rank:
        set_context(save_graphs=2, reserve_class_name_in_scope=True)
        train(1)
    assert "has no effect" not in capfd.readouterr().err
    names = {name_of(file)[1] for file in npy_files(rank / "Net/0/0")}
    assert "Default_network-Net_conv-Conv2d_convolution-op0" in names


def test_every_operator_is_looked_at_once(tmp_path: Path) -> None:
    """After its first step a dump of statistics costs what it cost without graphs."""
    with dumping(tmp_path, saved_data="statistic") as rank:
        capture = current_session().capture
        hook = capture._watch.hook
        if hook is None:
            pytest.skip("the native hook is not there")
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        python = []
        for _ in range(4):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            python.append(hook.counts[1])
        assert python[3] == python[2], "native code does it all"
    assert (rank / "graphs" / IR).is_file()

"""Where inputs come from: what goes into a ring comes out of it, in graphs and lists."""

from __future__ import annotations

import os
from pathlib import Path

from opscope.events import Frame, Node, Output, Outside, Phase, Stack
from opscope.record.edges import InputFrom, edges_of, edges_text
from opscope.record.graphs import graphs_of, render
from opscope.record.lines import SourceLine, code_at, lines_of, lines_text, same_lines
from opscope.record.memory_list import memory_list
from opscope.record.reading import OperatorCall


def operator(
    sequence: int, op: str, node: int | None, *inputs: InputFrom, at: int = 0
) -> OperatorCall:
    return OperatorCall(
        sequence=sequence,
        step=sequence // 10,
        op=f"aten::{op}",
        inner="",
        scope="Default",
        phase="forward",
        thread=1,
        start_ns=sequence,
        end_ns=sequence + 1,
        finished=True,
        raised=False,
        name=f"Default/{op}-op0",
        dtype="float32",
        numel=4,
        address=at,
        bytes=16 if at else 0,
        device="cpu",
        node=node,
        inputs=inputs,
    )


def test_sources_are_written_and_read() -> None:
    node = Node(12, 0, "a", "mm", "aten::mm", "Default", "", Phase.FORWARD, Stack(0, ()))
    sources = [Output(node, 3), Outside("parameter", "fc.weight"), Outside("outside", "")]
    assert list(edges_of(edges_text(sources))) == [
        InputFrom(12, 3),
        InputFrom(None, outside="parameter fc.weight"),
        InputFrom(None, outside="outside"),
    ]
    assert list(edges_of("")) == []
    assert len(edges_text([Outside("state", "s")] * 100).split("\n")) == 32


STEP = [
    operator(11, "randn", 0),
    operator(12, "mm", 1, InputFrom(0), InputFrom(None, outside="parameter fc.weight"), at=0x10),
    operator(13, "relu", 2, InputFrom(1, 1), at=0x20),
    operator(14, "add", 3, InputFrom(2), InputFrom(9), InputFrom(3), at=0x30),
]


def test_a_graph_has_the_edges_that_are_known() -> None:
    (graph,) = graphs_of(STEP)
    lines = [line.strip() for line in render(graph).splitlines() if " = " in line]
    assert [line.partition(" {")[0] for line in lines] == [
        "%0(output) = randn(<Tensor[float32], 4 elements>)",
        "%1(output) = mm(%0, <parameter fc.weight>)",
        "%2(output) = relu(%1[1])",
        "%3(output) = add(%2, <earlier 9:0>, <earlier 3:0>)",
    ]


def test_the_memory_of_an_output_is_that_of_the_input_it_becomes() -> None:
    rows = [line.split("\t") for line in memory_list(STEP).splitlines()]
    head, found = rows[0], [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    assert head[2:4] == ["address", "bytes"]
    assert [(row["operator"], row["value"], row["address"]) for row in found] == [
        ("Default/randn-op0", "output 0", "0x10"),
        ("Default/mm-op0", "input 0", "0x10"),
        ("Default/mm-op0", "output 1", "0x20"),
        ("Default/relu-op0", "input 0", "0x20"),
        ("Default/relu-op0", "output 0", "0x30"),
        ("Default/add-op0", "input 0", "0x30"),
    ]


def test_an_output_belongs_to_the_call_that_made_it() -> None:
    again = [operator(21, "randn", 0), operator(22, "mm", 1, InputFrom(0), at=0x40)]
    lines = memory_list([*STEP[:2], *again]).splitlines()
    outputs = [line.split("\t") for line in lines if "output" in line]
    assert [(row[1], row[2]) for row in outputs] == [("11", "0x10"), ("21", "0x40")]


def test_lines_are_written_once_for_a_stack_and_read() -> None:
    frames = (Frame("/a/train.py", 3, "f", True), Frame("/torch/x.py", 9, "g", False))
    text = lines_text(Stack(0, (*frames, Frame("/a/b\tc.py", 5, "<module>", True))))
    lines = [SourceLine("/a/train.py", 3, "f"), SourceLine("/a/b c.py", 5, "<module>")]
    assert list(lines_of(text)) == lines
    assert list(lines_of(same_lines(7), {7: text}.__getitem__)) == lines
    assert list(lines_of(f"/a\t{'9' * 5000}\tf")) == list(lines_of("=" + "9" * 5000)) == []


def test_the_code_of_a_line_is_read_from_files_only(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n    loss = 1\n")
    assert code_at(str(tmp_path / "train.py"), 2) == "    loss = 1"
    os.mkfifo(tmp_path / "pipe.py")  # which would be waited for
    for name in (str(tmp_path / "pipe.py"), str(tmp_path), "/dev/zero", "a\0b", "none.py"):
        assert code_at(name, 1) == ""

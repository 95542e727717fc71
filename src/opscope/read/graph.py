"""Nodes, edges and stacks of a rank, rebuilt from their lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opscope.events import Frame, Node, Output, Outside, Phase, Source, Stack

Line = dict[str, Any]
Nodes = dict[int, Node]


def stack_of(line: Line) -> Stack:
    """The stack of a line."""
    return Stack(line["id"], tuple(Frame(*frame) for frame in line["frames"]))


def with_nodes(
    known: Nodes, lines: Iterable[Line], edges: Iterable[Line], stacks: Mapping[int, Stack]
) -> Nodes:
    """Known nodes and those of more lines, by id, with all variants of their sources."""
    new = {line["id"]: line for line in lines}
    nodes = known | {number: _node(line, stacks) for number, line in new.items()}
    for number, line in new.items():
        node = nodes[number]
        node.forward = nodes.get(line["forward"])
        node.sources = [_source(source, nodes) for source in line["sources"]]
        node.variants = [node.sources]
        _label(node, line["outputs"])
    for line in edges:
        if (found := nodes.get(line["node"])) is not None:
            found.variants += ([_source(s, nodes) for s in v] for v in line["variants"])
            _label(found, line["outputs"])
    return nodes


def _node(line: Line, stacks: Mapping[int, Stack]) -> Node:
    return Node(
        id=line["id"],
        graph=line["graph"],
        name=line["name"],
        op_type=line["op_type"],
        op=line["op"],
        scope=line["scope"],
        module_class=line["module_class"],
        phase=Phase(line["phase"]),
        stack=stacks.get(line["stack"]) or Stack(line["stack"], ()),
        parameter=line["parameter"],
        gradient_of=line["gradient_of"],
        arguments=line["arguments"],
    )


def _label(node: Node, labels: Iterable[Line]) -> None:
    for label in labels:
        output = _output(node, label["slot"])
        output.parameter, output.subject = label["parameter"], label["subject"]
        output.uninitialised = label.get("uninitialised", False)


def _source(source: dict[str, Any], nodes: Nodes) -> Source:
    if "kind" in source:
        return Outside(source["kind"], source["name"], source["subject"])
    node = nodes.get(source["node"])
    if node is None:
        return Outside("outside", f"node {source['node']}")
    return _output(node, source["slot"])


def _output(node: Node, slot: int) -> Output:
    while len(node.outputs) <= slot:
        node.outputs.append(Output(node, len(node.outputs)))
    return node.outputs[slot]

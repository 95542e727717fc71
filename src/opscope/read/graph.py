"""Nodes, edges and stacks of a rank, rebuilt from their lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from opscope.events import Frame, Node, Output, Outside, Phase, Source, Stack

Line = dict[str, Any]
Nodes = dict[int, Node]
SourcesOf = dict[int, list["Sources"]]


def stack_of(line: Line) -> Stack:
    """The stack of a line."""
    return Stack(line["id"], tuple(Frame(*frame) for frame in line["frames"]))


def with_nodes(
    known: Nodes, lines: Iterable[Line], edges: Iterable[Line], stacks: Mapping[int, Stack]
) -> Nodes:
    """Known nodes and those of more lines, by id, with their latest edges."""
    new = {line["id"]: line for line in lines}
    nodes = known | {number: _node(line, stacks) for number, line in new.items()}
    for number, line in new.items():
        nodes[number].forward = nodes.get(line["forward"])
    for number, ends in (new | {line["node"]: line for line in edges}).items():
        if number in nodes:
            _connect(nodes[number], ends, nodes)
    return nodes


class Sources(NamedTuple):
    """Where the inputs of a node came from, from a step on."""

    step: int
    sources: list[Source]


def with_sources(
    known: SourcesOf, lines: Iterable[Line], edges: Iterable[Line], nodes: Nodes
) -> SourcesOf:
    """By node: where its inputs came from, as that changed over the steps."""
    found = dict(known)
    for line in lines:
        found[line["id"]] = [Sources(-1, [_source(s, nodes) for s in line["sources"]])]
    for line in edges:
        now = Sources(line["step"], [_source(s, nodes) for s in line["sources"]])
        found[line["node"]] = [*found.get(line["node"], ()), now]
    return found


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


def _connect(node: Node, ends: dict[str, Any], nodes: Nodes) -> None:
    node.sources = [_source(source, nodes) for source in ends["sources"]]
    for label in ends["outputs"]:
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

"""Nodes, edges and stacks of a rank, rebuilt from their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from opscope.events import Frame, Node, Output, Outside, Phase, Source, Stack
from opscope.rundir import layout
from opscope.rundir.jsonlines import read_lines

Nodes = dict[int, Node]


def read_stacks(rank: Path) -> dict[int, Stack]:
    """Call stacks by id."""
    lines = read_lines(rank / layout.STACKS)
    return {
        line["id"]: Stack(line["id"], tuple(Frame(*frame) for frame in line["frames"]))
        for line in lines
    }


def read_nodes(rank: Path, stacks: dict[int, Stack]) -> Nodes:
    """Nodes by id, with their latest edges."""
    lines = {line["id"]: line for line in read_lines(rank / layout.NODES)}
    ends = {line["node"]: line for line in read_lines(rank / layout.EDGES)}
    nodes = {number: _node(line, stacks) for number, line in lines.items()}
    for number, node in nodes.items():
        node.forward = nodes.get(lines[number]["forward"])
        _connect(node, ends.get(number, lines[number]), nodes)
    return nodes


class Sources(NamedTuple):
    """Where the inputs of a node came from, from a call of a step on."""

    step: int
    call: int
    sources: list[Source]


def read_sources(rank: Path, nodes: Nodes) -> dict[int, list[Sources]]:
    """By node: where its inputs came from, as that changed over the steps."""
    found: dict[int, list[Sources]] = {}
    for line in read_lines(rank / layout.NODES):
        found[line["id"]] = [Sources(-1, 0, [_source(s, nodes) for s in line["sources"]])]
    for line in read_lines(rank / layout.EDGES):
        now = Sources(line["step"], line["call"], [_source(s, nodes) for s in line["sources"]])
        found.setdefault(line["node"], []).append(now)
    return found


def _node(line: dict[str, Any], stacks: dict[int, Stack]) -> Node:
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

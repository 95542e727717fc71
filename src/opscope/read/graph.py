"""Nodes, edges and stacks of a rank, rebuilt from their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from opscope.events import Frame, Node, Output, Outside, Phase, Source, Stack
from opscope.read.checked import NODES, SLOTS, SMALL, Fields, checked_lines
from opscope.rundir import layout

Nodes = dict[int, Node]
_PHASES = {str(phase): phase for phase in Phase}
_FRAME = (str, int, str, bool)


def read_stacks(rank: Path) -> dict[int, Stack]:
    """Call stacks by id."""
    return {stack.id: stack for stack in checked_lines(rank / layout.STACKS, _stack)}


def read_nodes(rank: Path, stacks: dict[int, Stack]) -> Nodes:
    """Nodes by id, with their latest edges."""
    found = {n.node.id: n for n in checked_lines(rank / layout.NODES, lambda f: _node(f, stacks))}
    latest = {ends.node: ends for ends in checked_lines(rank / layout.EDGES, _ends)}
    nodes = {number: line.node for number, line in found.items()}
    for number, node in nodes.items():
        forward = found[number].forward
        node.forward = None if forward is None else nodes.get(forward)
        _connect(node, latest.get(number, found[number].ends), nodes)
    return nodes


class Sources(NamedTuple):
    """Where the inputs of a node came from, from a step on."""

    step: int
    sources: list[Source]


def read_sources(rank: Path, nodes: Nodes) -> dict[int, list[Sources]]:
    """By node: where its inputs came from, as that changed over the steps."""
    found: dict[int, list[Sources]] = {}
    for ends in checked_lines(rank / layout.NODES, lambda fields: _ends(fields, "id")):
        found[ends.node] = [Sources(-1, [_source(s, nodes) for s in ends.sources])]
    for ends in checked_lines(rank / layout.EDGES, _ends):
        now = Sources(ends.step, [_source(s, nodes) for s in ends.sources])
        found.setdefault(ends.node, []).append(now)
    return {number: history for number, history in found.items() if number in nodes}


class _Output(NamedTuple):
    """An output as it stands in a file."""

    node: int
    slot: int


class _Label(NamedTuple):
    """What is said of an output."""

    slot: int
    parameter: str
    subject: str
    uninitialised: bool


class _Ends(NamedTuple):
    """The inputs and outputs of a node, as they stand in a file."""

    node: int
    step: int
    sources: list[_Output | Outside]
    labels: list[_Label]


class _NodeLine(NamedTuple):
    """A line of a node: what it needs others for is still to be connected."""

    node: Node
    forward: int | None
    ends: _Ends


def _stack(line: Fields) -> Stack:
    frames = line.items("frames")
    if not all(_is_frame(frame) for frame in frames):
        line.refuse("frames", "must be a list of file, line, function and whether it is yours")
    return Stack(line.integer("id"), tuple(Frame(*frame) for frame in frames))


def _is_frame(frame: Any) -> bool:
    kinds = tuple(map(type, frame)) if type(frame) is list else ()
    return kinds == _FRAME and -SMALL <= frame[1] < SMALL


def _node(line: Fields, stacks: dict[int, Stack]) -> _NodeLine:
    phase = _PHASES.get(line.text("phase"))
    if phase is None:
        line.refuse("phase", f"must be one of {', '.join(_PHASES)}")
    stack = line.integer("stack")
    node = Node(
        id=line.node("id"),
        graph=line.integer("graph", below=SMALL),
        name=line.text("name"),
        op_type=line.text("op_type"),
        op=line.text("op"),
        scope=line.text("scope"),
        module_class=line.text("module_class"),
        phase=phase,
        stack=stacks.get(stack) or Stack(stack, ()),
        parameter=line.text("parameter"),
        gradient_of=line.text("gradient_of"),
        arguments=line.texts("arguments"),
    )
    return _NodeLine(node, line.node_or_none("forward"), _ends(line, "id"))


def _ends(line: Fields, node: str = "node") -> _Ends:
    return _Ends(
        line.node(node),
        line.integer("step", -SMALL, SMALL) if "step" in line else -1,
        _sources_in(line),
        [_label(output) for output in line.objects("outputs", SLOTS)],
    )


def _label(output: Fields) -> _Label:
    return _Label(
        output.integer("slot", below=SLOTS),
        output.text("parameter"),
        output.text("subject"),
        output.flag("uninitialised", False),
    )


def _sources_in(line: Fields) -> list[_Output | Outside]:
    """The sources of a line; most are outputs of nodes, and taken as they are if they can be."""
    outputs = [_output_in(source) for source in line.items("sources")]
    if None not in outputs:
        return outputs  # type: ignore[return-value]
    return [_source_line(source) for source in line.objects("sources", SLOTS)]


def _output_in(source: Any) -> _Output | None:
    if type(source) is not dict or "kind" in source:
        return None
    node: Any = source.get("node")
    slot: Any = source.get("slot")
    is_there = type(node) is int and type(slot) is int and 0 <= node < NODES and 0 <= slot < SLOTS
    return _Output(node, slot) if is_there else None


def _source_line(source: Fields) -> _Output | Outside:
    if "kind" in source:
        return Outside(source.text("kind"), source.text("name"), source.text("subject"))
    return _Output(source.node("node"), source.integer("slot", below=SLOTS))


def _connect(node: Node, ends: _Ends, nodes: Nodes) -> None:
    node.sources = [_source(source, nodes) for source in ends.sources]
    for label in ends.labels:
        output = _output(node, label.slot)
        output.parameter, output.subject = label.parameter, label.subject
        output.uninitialised = label.uninitialised


def _source(source: _Output | Outside, nodes: Nodes) -> Source:
    if isinstance(source, Outside):
        return source
    node = nodes.get(source.node)
    if node is None:
        return Outside("outside", f"node {source.node}")
    return _output(node, source.slot)


def _output(node: Node, slot: int) -> Output:
    while len(node.outputs) <= slot:
        node.outputs.append(Output(node, len(node.outputs)))
    return node.outputs[slot]

"""Nodes, edges and stacks of a rank, rebuilt from their lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from opscope.calls import MOST_VARIANTS
from opscope.events import Frame, Node, Output, Outside, Phase, Source, Stack
from opscope.read.checked import NODES, SLOTS, SMALL, Fields

KnownNodes = dict[int, Node]
_PHASES = {str(phase): phase for phase in Phase}
_NODE_NAMES = (
    *("name", "op_type", "op", "scope", "module_class"),
    *("parameter", "gradient_of", "phase"),
)
_NODE_TEXTS = itemgetter(*_NODE_NAMES)
_FRAME = (str, int, str, bool)


def with_nodes(
    known: KnownNodes, lines: Iterable[UnlinkedNode], edges: Iterable[Ends]
) -> KnownNodes:
    """Known nodes and those of more lines, by id, with all variants of their sources."""
    new = {line.node.id: line for line in lines}
    nodes = known | {number: line.node for number, line in new.items()}
    for number, line in new.items():
        node = nodes[number]
        node.forward = None if line.forward is None else nodes.get(line.forward)
        node.variants = []
        _connect(node, line.ends, nodes)
        node.sources = node.variants[0]
    for ends in edges:
        if (found := nodes.get(ends.node)) is not None:
            _connect(found, ends, nodes)
    return nodes


class _Output(NamedTuple):
    """An output as it stands in a file."""

    node: int
    slot: int


StoredSource = _Output | Outside
"""The source of an input as it stands in a file."""


class _Label(NamedTuple):
    """The label of an output."""

    slot: int
    parameter: str
    subject: str
    uninitialised: bool


class Ends(NamedTuple):
    """Variants of the inputs of a node, and its outputs, as they stand in a file."""

    node: int
    variants: list[list[StoredSource]]
    labels: list[_Label]


class UnlinkedNode(NamedTuple):
    """A line of a node: what it needs others for is still to be connected."""

    node: Node
    forward: int | None
    ends: Ends


def stack_line(line: Fields) -> Stack:
    """A stack."""
    frames = line.items("frames")
    if not all(_is_frame(frame) for frame in frames):
        line.refuse("frames", "must be a list of file, line, function and whether it is yours")
    return Stack(line.integer("id"), tuple(Frame(*frame) for frame in frames))


def _is_frame(frame: Any) -> bool:
    kinds = tuple(map(type, frame)) if type(frame) is list else ()
    return kinds == _FRAME and -SMALL <= frame[1] < SMALL


def node_line(line: Fields, stacks: Mapping[int, Stack]) -> UnlinkedNode:
    """A node."""
    texts = line.several(_NODE_TEXTS) or tuple(line.text(name) for name in _NODE_NAMES)
    name, op_type, op, scope, module_class, parameter, gradient_of, phase_name = texts
    phase = _PHASES.get(phase_name)
    if phase is None:
        line.refuse("phase", f"must be one of {', '.join(_PHASES)}")
    stack = line.integer("stack")
    node = Node(
        id=line.node("id"),
        graph=line.integer("graph", below=SMALL),
        name=name,
        op_type=op_type,
        op=op,
        scope=scope,
        module_class=module_class,
        phase=phase,
        stack=stacks.get(stack) or Stack(stack, ()),
        parameter=parameter,
        gradient_of=gradient_of,
        with_grad=line.flag("with_grad", True),
        arguments=line.texts("arguments"),
    )
    ends = Ends(node.id, [sources_line(line)], _labels(line))
    return UnlinkedNode(node, line.node_or_none("forward"), ends)


def edges_line(line: Fields) -> Ends:
    """Further sources of a node, and its outputs."""
    variants = line.items("variants")
    if len(variants) > MOST_VARIANTS or not all(type(each) is list for each in variants):
        line.refuse("variants", f"must be a list of at most {MOST_VARIANTS} lists")
    return Ends(line.node("node"), [_sources_in(line, each) for each in variants], _labels(line))


def sources_line(line: Fields) -> list[StoredSource]:
    """The sources of a call."""
    return _sources_in(line, line.items("sources"))


def _labels(line: Fields) -> list[_Label]:
    if not line.items("outputs"):
        return []
    return [_label(output) for output in line.objects("outputs", SLOTS)]


def _label(output: Fields) -> _Label:
    return _Label(
        output.integer("slot", below=SLOTS),
        output.text("parameter"),
        output.text("subject"),
        output.flag("uninitialised", False),
    )


def _sources_in(line: Fields, sources: list[Any]) -> list[StoredSource]:
    """Sources of a line; most are outputs of nodes, and taken as they are if they can be."""
    outputs = [_output_in(source) for source in sources]
    if None not in outputs:
        return outputs  # type: ignore[return-value]
    if len(sources) > SLOTS or not all(type(source) is dict for source in sources):
        line.refuse("sources" if "sources" in line else "variants", "must list objects")
    return [_source_line(line.within("sources", source)) for source in sources]


def _output_in(source: Any) -> _Output | None:
    if type(source) is not dict or "kind" in source:
        return None
    node: Any = source.get("node")
    slot: Any = source.get("slot")
    is_there = type(node) is int and type(slot) is int and 0 <= node < NODES and 0 <= slot < SLOTS
    return _Output(node, slot) if is_there else None


def _source_line(source: Fields) -> StoredSource:
    if "kind" in source:
        return Outside(source.text("kind"), source.text("name"), source.text("subject"))
    return _Output(source.node("node"), source.integer("slot", below=SLOTS))


def _connect(node: Node, ends: Ends, nodes: KnownNodes) -> None:
    for variant in ends.variants[: MOST_VARIANTS - len(node.variants)]:
        node.variants.append([source_of(source, nodes) for source in variant])
    for label in ends.labels:
        output = _output(node, label.slot)
        output.parameter, output.subject = label.parameter, label.subject
        output.uninitialised = label.uninitialised


def source_of(source: StoredSource, nodes: Mapping[int, Node]) -> Source:
    """The source that a line tells of."""
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

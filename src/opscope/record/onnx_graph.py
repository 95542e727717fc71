"""A recorded graph as an ONNX model, to look at; edges are there where the capture told them."""

from __future__ import annotations

from opscope._version import __version__
from opscope.dump.format import onnx_model
from opscope.dump.format.graph import Graph, TensorTypes
from opscope.events import Frame, Node, Output, Outside, Phase, Source, Stack
from opscope.record.edges import InputFrom
from opscope.record.graphs import RecordedGraph
from opscope.record.reading import OperatorCall


def encode_graph(graph: RecordedGraph) -> bytes:
    """The bytes of the file."""
    nodes = [
        _node(number, graph.number, name, each)
        for number, (name, each) in enumerate(graph.nodes.items())
    ]
    by_number = {number: nodes[place] for number, place in graph.numbers.items()}
    for node, each in zip(nodes, graph.nodes.values(), strict=True):
        node.sources = [_source(found, by_number) for found in each.inputs]
    return onnx_model.encode(Graph(graph.number, nodes, TensorTypes()), __version__)


def _node(number: int, graph: int, name: str, each: OperatorCall) -> Node:
    return Node(
        id=number,
        graph=graph,
        name=name,
        op_type=each.op_type,
        op=each.op,
        scope=each.scope,
        module_class="",
        phase=Phase(each.phase),
        stack=Stack(number, tuple(Frame(*line, True) for line in each.source)),
    )


def _source(found: InputFrom, by_number: dict[int, Node]) -> Source:
    """An output of another operator, which has it from now on, or what comes from outside."""
    if found.node is None:
        kind, _, name = found.outside.partition(" ")
        return Outside(kind, name)
    producer = by_number.get(found.node)
    if producer is None:
        return Outside("earlier", f"{found.node}:{found.slot}")
    while len(producer.outputs) <= found.slot:
        producer.outputs.append(Output(producer, len(producer.outputs)))
    return producer.outputs[found.slot]

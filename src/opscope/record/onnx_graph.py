"""A recorded graph as an ONNX model, to look at; its edges are not known."""

from __future__ import annotations

from opscope._version import __version__
from opscope.dump.format import onnx_model
from opscope.dump.format.graph import Graph, TensorTypes
from opscope.events import Frame, Node, Phase, Stack
from opscope.record.graphs import RecordedGraph


def encode_graph(graph: RecordedGraph) -> bytes:
    """The bytes of the file."""
    nodes = [
        Node(
            id=number,
            graph=graph.number,
            name=name,
            op_type=each.op_type,
            op=each.op,
            scope=each.scope,
            module_class="",
            phase=Phase(each.phase),
            stack=Stack(number, tuple(Frame(*line, True) for line in each.source)),
        )
        for number, (name, each) in enumerate(graph.nodes.items())
    ]
    return onnx_model.encode(Graph(graph.number, nodes, TensorTypes()), __version__)

"""`graphs/*.ir`: a graph as text: operators with attributes, types, names and source lines."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence

from opscope.dump.format.graph import Graph, Param, TensorType
from opscope.dump.format.names import safe
from opscope.events import Node, Output, Source
from opscope.names import attribute_of

_INDENT = " " * 7
_SPECIAL = {"bfloat16": "BFloat16", "uint8": "UInt8"} | {
    f"uint{bits}": f"UInt{bits}" for bits in (1, 2, 3, 4, 5, 6, 7, 16, 32, 64)
}


def render(graph: Graph) -> str:
    """The text of the file."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"# IR entry: @graph_{graph.number}"
    yield f"# Total operators: {len(graph.nodes)}"
    yield f"# Total params: {len(graph.params)}"
    yield "# Params:"
    names = {
        param: f"%para{number}_{safe(param.name)}"
        for number, param in enumerate(graph.params.values(), 1)
    }
    for param, name in names.items():
        yield f"{name}: {_host(param.type)}  :  {param.kind} {param.name}"
    yield ""
    for node in graph:
        yield from _operator(graph, node, names)


def _operator(graph: Graph, node: Node, names: dict[Param, str]) -> Iterator[str]:
    inputs, outputs = graph.types.inputs(node), graph.types.outputs(node)
    arguments = ", ".join(_value(graph, each, names) for each in graph.input_names(node))
    attributes = ", ".join(f"{key}: {text}" for key, text in node.arguments.items())
    yield (
        f"  %{graph.number_of(node)}(output) = {node.op_type}({arguments})"
        f" {{instance name: {_instance(node)}}} primitive_attrs: {{{attributes}}}"
    )
    yield f"{_INDENT}: ({_all(_host, inputs)}) -> ({_all(_host, outputs)})"
    yield f"{_INDENT}: ({_all(_device, inputs)}) -> ({_all(_device, outputs)})"
    yield f"{_INDENT}: full_name_with_scope: ({node.name})"
    yield f"{_INDENT}: operator: {node.op}, phase: {node.phase}"
    if node.forward is not None:
        yield f"{_INDENT}# Corresponding forward node: ({node.forward.name})"
    yield from source_lines(node, _INDENT)
    yield ""


def source_lines(node: Node, indent: str = "") -> Iterator[str]:
    """The lines of the user's code that an operator comes from, the innermost first."""
    for frame in node.stack.frames:
        if frame.user:
            code = linecache.getline(frame.file, frame.line).rstrip()
            yield f"{indent}# In file {frame.file}({frame.line})/{code}/"


def _value(graph: Graph, value: Source | Param, names: dict[Param, str]) -> str:
    if isinstance(value, Param):
        return names[value]
    assert isinstance(value, Output)
    slot = f"[{value.slot}]" if len(graph.types.outputs(value.node)) > 1 else ""
    return f"%{graph.number_of(value.node)}{slot}"


def _instance(node: Node) -> str:
    return attribute_of(node.scope)


def _all(show: object, types: Sequence[TensorType | None]) -> str:
    assert callable(show)
    return ", ".join(map(show, types))


def _host(tensor_type: TensorType | None) -> str:
    if tensor_type is None:
        return "<None>"
    return f"<Tensor[{_dtype(tensor_type)}], ({', '.join(map(str, tensor_type.shape))})>"


def _device(tensor_type: TensorType | None) -> str:
    if tensor_type is None:
        return "<None>"
    shape = ", ".join(map(str, tensor_type.device_shape))
    return f"<{_dtype(tensor_type)}x{tensor_type.format}[{tensor_type.device}][{shape}]>"


def _dtype(tensor_type: TensorType) -> str:
    dtype = tensor_type.dtype
    return _SPECIAL.get(dtype, dtype[:1].upper() + dtype[1:])

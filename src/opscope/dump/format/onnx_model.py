"""`graphs/*.pb`: a graph as an ONNX model, its operators in a domain of their own.

It holds no weights: it is for looking at, in Netron for example. The encoding is that of protocol
buffers, with the field numbers of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscope.dump.format.graph import Graph, Param, TensorType
from opscope.dump.format.ir import source_lines
from opscope.events import Node, Output, Source

DOMAIN = "aten"
_IR_VERSION, _OPSET, _DOMAIN_VERSION = 10, 21, 1
_STRING_ATTRIBUTE = 3
_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "complex64": 14,
    "complex128": 15,
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
    "uint4": 21,
    "int4": 22,
}
"""The numbers that ONNX has for data types."""


def encode(graph: Graph, version: str) -> bytes:
    """The bytes of the file."""
    return b"".join(
        (
            _number(1, _IR_VERSION),
            _text(2, "opscope"),
            _text(3, version),
            _bytes(7, b"".join(_graph(graph))),
            _bytes(8, _text(1, "") + _number(2, _OPSET)),
            _bytes(8, _text(1, DOMAIN) + _number(2, _DOMAIN_VERSION)),
        )
    )


def _graph(graph: Graph) -> Iterator[bytes]:
    read: set[Output] = set()
    for node in graph:
        yield _bytes(1, b"".join(_node(graph, node)))
        read.update(each for each in graph.input_names(node) if isinstance(each, Output))
    yield _text(2, f"graph_{graph.number}")
    for param in graph.params.values():
        yield _bytes(11, _value_info(_name(param), param.type))
    for node in graph:
        for output, tensor_type in zip(node.outputs, graph.types.outputs(node), strict=False):
            if tensor_type is not None:
                yield _bytes(13 if output in read else 12, _value_info(_name(output), tensor_type))


def _node(graph: Graph, node: Node) -> Iterator[bytes]:
    for value in graph.input_names(node):
        yield _text(1, _name(value))
    for output in node.outputs:
        yield _text(2, _name(output))
    yield _text(3, node.name)
    yield _text(4, node.op_type)
    for name, text in node.arguments.items():
        yield _bytes(5, _text(1, name) + _text(4, text) + _number(20, _STRING_ATTRIBUTE))
    yield _text(6, "\n".join(source_lines(node)))
    yield _text(7, DOMAIN)
    facts = {"operator": node.op, "scope": node.scope, "phase": str(node.phase)}
    if node.forward is not None:
        facts["forward"] = node.forward.name
    for key, text in facts.items():
        yield _bytes(9, _text(1, key) + _text(2, text))


def _value_info(name: str, tensor_type: TensorType | None) -> bytes:
    if tensor_type is None:
        return _text(1, name) + _bytes(2, _bytes(1, _number(1, 0)))
    sizes = b"".join(_bytes(1, _number(1, size)) for size in tensor_type.shape)
    tensor = _number(1, _TYPES.get(tensor_type.dtype, 0)) + _bytes(2, sizes)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _name(value: Source | Param) -> str:
    if isinstance(value, Output):
        return f"{value.node.name}:{value.slot}"
    return value.name


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "backslashreplace"))

"""The operators in graph files: the types of their values and where those come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from opscope.dump.format.form import layout_of
from opscope.dump.format.subject import FORMAT
from opscope.events import Node, Output, Outside, Source
from opscope.stats.torch_values import dtype_name, shape_of, unsupported_reason


class TensorType(NamedTuple):
    """The type of a value: logical, and as it lies on its device."""

    dtype: str
    shape: tuple[int, ...]
    format: str
    device: str

    @property
    def device_shape(self) -> tuple[int, ...]:
        """The shape in the order of the memory."""
        if self.format == FORMAT:
            return self.shape
        first, channels, *rest = self.shape
        return (first, *rest, channels)


def tensor_type_of(tensor: Any) -> TensorType:
    """The type of a tensor."""
    layout = layout_of(tensor) if not unsupported_reason(tensor) else _bare(tensor.layout)
    shape = () if tensor.is_nested else shape_of(tensor)
    return TensorType(dtype_name(tensor), shape, layout, str(tensor.device))


def _bare(layout: Any) -> str:
    name = str(layout).removeprefix("torch.")
    return FORMAT if name == "strided" else name


class TensorTypes:
    """The types of every operator's inputs and outputs, by slot, as they first were."""

    def __init__(self) -> None:
        self._inputs: dict[Node, dict[int, TensorType]] = {}
        self._outputs: dict[Node, dict[int, TensorType]] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._outputs

    def add_inputs(self, node: Node, values: Sequence[tuple[int, Any]]) -> None:
        """Take in the types of the inputs of an operator that is about to run."""
        if node not in self._inputs:
            self._inputs[node] = {slot: tensor_type_of(tensor) for slot, tensor in values}

    def add_outputs(self, node: Node, values: Sequence[tuple[int, Any]]) -> None:
        """Take in the types of the outputs of an operator that ran, or of some of them."""
        known = self._outputs.setdefault(node, {})
        for slot, tensor in values:
            known.setdefault(slot, tensor_type_of(tensor))

    def inputs(self, node: Node) -> list[TensorType | None]:
        """The types of the inputs; None for memory that nothing was written to."""
        found = self._inputs.get(node, {})
        count = max([len(node.sources) - 1, *found], default=-1) + 1
        return [found.get(slot) for slot in range(count)]

    def outputs(self, node: Node) -> list[TensorType | None]:
        """The types of the outputs."""
        found = self._outputs.get(node, {})
        count = max([len(node.outputs) - 1, *found], default=-1) + 1
        return [found.get(slot) for slot in range(count)]


class Param(NamedTuple):
    """A value that comes from outside the graph: a parameter, a batch, a constant."""

    name: str
    kind: str
    type: TensorType | None


class Graph:
    """The operators of one graph in their order, with names for everything that goes between."""

    def __init__(self, number: int, nodes: Sequence[Node], types: TensorTypes) -> None:
        self.number = number
        self.nodes = nodes
        self.types = types
        self._numbers = {node: number for number, node in enumerate(nodes)}
        self.params: dict[tuple[Any, ...], Param] = {}
        self._names = {node: self._input_names(node) for node in nodes}

    def number_of(self, node: Node) -> int:
        """The place of an operator in the order."""
        return self._numbers[node]

    def input_names(self, node: Node) -> list[Source | Param]:
        """Return what each input is: the output of an operator before this one, or from outside."""
        return self._names[node]

    def _input_names(self, node: Node) -> list[Source | Param]:
        types = self.types.inputs(node)
        return [
            self._origin(node, slot, source, types[slot] if slot < len(types) else None)
            for slot, source in enumerate(node.sources)
        ]

    def _origin(
        self, node: Node, slot: int, source: Source, tensor_type: TensorType | None
    ) -> Source | Param:
        if isinstance(source, Output):
            if self._numbers.get(source.node, len(self.nodes)) < self._numbers[node]:
                return source
            name, kind = f"{source.node.name}:{source.slot}", "earlier"
        else:
            name, kind = _name(source, node, slot)
        return self.params.setdefault((kind, name), Param(name, kind, tensor_type))

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)


def _name(source: Outside, node: Node, slot: int) -> tuple[str, str]:
    if source.kind == "outside":
        return f"{node.name}:input{slot}", "constant"
    return source.name, source.kind

"""The values that a value was computed from and that it feeds, some operators far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opscope.errors import OpscopeError
from opscope.events import IO, Node, Outside
from opscope.read.value import Value
from opscope.views.node_details import numbers_of
from opscope.views.tensor_view import Which

if TYPE_CHECKING:
    from opscope.views.node_answers import Numbers
    from opscope.views.value_answers import RelatedValue, Relations

MOST_VALUES = 120
MOST_HOPS = 8


class _Tensor(NamedTuple):
    """An output of a node, or something from outside that is an input of one."""

    node: Node
    slot: int
    outside: Outside | None = None

    @property
    def id(self) -> str:
        if self.outside is None:
            return f"{self.node.id}:{self.slot}"
        return f"{self.outside.kind}:{self.outside.name}"


def relations(which: Which, hops: int) -> Relations:
    """The tensors up to so many operators before and after a value, and how they follow."""
    view = which.view
    if "edges" in view.reader.recording.lacks:
        raise OpscopeError(view.reader.recording.lacks["edges"])
    is_input = which.source is not None
    centre = (_input_of if is_input else _Tensor)(which.node, which.slot)
    walk = _Walk(which, {centre.id: (centre, 0)})
    walk.go(centre, hops, -1)
    walk.go(centre, hops, +1)
    numbers = _numbers(which, [tensor for tensor, _ in walk.found.values()])
    conditions = _conditions(which)
    values = [
        _related(tensor, level, numbers.get(number), conditions.get(number, []))
        for number, (tensor, level) in walk.found.items()
    ]
    return {
        "centre": centre.id,
        "step": which.step,
        "values": values,
        "edges": [{"start": start, "end": end} for start, end in walk.edges],
        "hidden": len(walk.hidden),
    }


@dataclass
class _Walk:
    """Tensors that were found, the near ones first."""

    which: Which
    found: dict[str, tuple[_Tensor, int]]
    edges: dict[tuple[str, str], None] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)

    def go(self, centre: _Tensor, hops: int, direction: int) -> None:
        """Walk so many operators in one direction: -1 to what was read, +1 to who reads."""
        near = [centre]
        for hop in range(1, min(hops, MOST_HOPS) + 1):
            far: list[_Tensor] = []
            for tensor in near:
                for other in self._before(tensor) if direction < 0 else self._after(tensor):
                    if other.id not in self.found:
                        if len(self.found) >= MOST_VALUES:
                            self.hidden.add(other.id)
                            continue
                        self.found[other.id] = (other, direction * hop)
                        far.append(other)
                    ends = (other.id, tensor.id) if direction < 0 else (tensor.id, other.id)
                    self.edges[ends] = None
            near = far

    def _before(self, tensor: _Tensor) -> Iterator[_Tensor]:
        for slot in range(len(tensor.node.sources) if tensor.outside is None else 0):
            yield _input_of(tensor.node, slot)

    def _after(self, tensor: _Tensor) -> Iterator[_Tensor]:
        for node in self._readers(tensor):
            for slot in range(max(1, len(node.outputs))):
                yield _Tensor(node, slot)

    def _readers(self, tensor: _Tensor) -> Iterator[Node]:
        view = self.which.view
        if tensor.outside is None:
            readers = view.reader.consumers(tensor.node)
            yield from dict.fromkeys(each.node for each in readers if each.of == tensor.slot)
            return
        for node in view.nodes.values():
            if any(
                isinstance(source, Outside) and _same(source, tensor) for source in node.sources
            ):
                yield node


def _input_of(node: Node, slot: int) -> _Tensor:
    source = node.sources[slot]
    if isinstance(source, Outside):
        return _Tensor(node, slot, source)
    return _Tensor(source.node, source.slot)


def _same(source: Outside, tensor: _Tensor) -> bool:
    other = tensor.outside
    return other is not None and (source.kind, source.name) == (other.kind, other.name)


def _numbers(which: Which, tensors: list[_Tensor]) -> dict[str, Value]:
    """Return what was recorded of outputs in the step, by id."""
    nodes = {tensor.node.id for tensor in tensors if tensor.outside is None}
    if which.step is None or not nodes:
        return {}
    found: dict[str, Value] = {}
    for value in which.view.recorded.values(nodes, {which.step}):
        number = f"{value.node.id}:{value.slot}"
        if value.io is not IO.OUTPUT:
            continue
        if number not in found or (value.pass_number or 0) <= which.pass_number:
            found[number] = value
    return found


def _conditions(which: Which) -> dict[str, list[str]]:
    """The conditions that outputs hit in the step, by id."""
    found: dict[str, list[str]] = {}
    for hit in which.view.hits:
        if hit.get("step") == which.step and hit.get("io") != IO.INPUT:
            number = f"{hit.get('node')}:{hit.get('slot', 0)}"
            name = str(hit.get("condition", ""))
            if name not in found.setdefault(number, []):
                found[number].append(name)
    return found


def _related(
    tensor: _Tensor, level: int, value: Value | None, conditions: list[str]
) -> RelatedValue:
    node, outside = tensor.node, tensor.outside
    where = node.stack.where
    label = node.name.rpartition("/")[2] if outside is None else outside.name or outside.kind
    return {
        "id": tensor.id,
        "kind": "value" if outside is None else outside.kind,
        "node": node.id,
        "io": str(IO.OUTPUT if outside is None else IO.INPUT),
        "slot": tensor.slot,
        "label": label,
        "op_type": node.op_type if outside is None else "",
        "scope": node.scope if outside is None else "",
        "where": "" if where is None else f"{where.file.rpartition('/')[2]}:{where.line}",
        "level": level,
        "dtype": value.dtype if value else None,
        "shape": list(value.shape) if value and value.shape is not None else None,
        "numbers": _row(value),
        "conditions": conditions,
    }


def _row(value: Value | None) -> Numbers | None:
    try:
        return numbers_of(value.stats()) if value else None
    except OpscopeError:
        return None

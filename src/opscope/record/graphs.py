"""Graphs and execution orders as text, from what a ring has of the last steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opscope.events import DATA_GRAPH, EVAL_GRAPH, SETUP_GRAPH, TRAINING_GRAPH
from opscope.names import attribute_of
from opscope.record.edges import InputFrom
from opscope.record.lines import code_at
from opscope.record.reading import OperatorCall

_GRAPHS = {"eval": EVAL_GRAPH, "setup": SETUP_GRAPH, "data": DATA_GRAPH}
_STEPS = 2
"""So many of the last steps make a graph: the one under way, and a whole one."""
_INDENT = " " * 7
HEADER = "NodeExecutionOrder-FullNameWithScope"


@dataclass
class RecordedGraph:
    """The operators of one graph, each once, in the order of their first call."""

    number: int
    nodes: dict[str, OperatorCall] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[int, int]:
        """The place of each node of the run, where there is one."""
        found = enumerate(self.nodes.values())
        return {each.node: number for number, each in found if each.node is not None}


def graphs_of(operators: Sequence[OperatorCall]) -> list[RecordedGraph]:
    """The graphs of the last steps that are in a ring."""
    found: dict[int, RecordedGraph] = {}
    latest: dict[int, int] = {}
    for each in reversed(operators):
        number = _GRAPHS.get(each.phase, TRAINING_GRAPH)
        latest.setdefault(number, each.step)
    for each in operators:
        number = _GRAPHS.get(each.phase, TRAINING_GRAPH)
        if each.step > latest[number] - _STEPS:
            graph = found.setdefault(number, RecordedGraph(number))
            graph.nodes.setdefault(each.name, each)
    return [found[number] for number in sorted(found)]


def render(graph: RecordedGraph) -> str:
    """A graph as text: operators with what is known of their inputs, names and source lines."""
    lines = [
        f"# IR entry: @graph_{graph.number}",
        f"# Total operators: {len(graph.nodes)}",
        "",
    ]
    numbers = graph.numbers
    for number, each in enumerate(graph.nodes.values()):
        lines += _operator(number, each, numbers)
    return "\n".join(lines) + "\n"


def _operator(number: int, each: OperatorCall, numbers: dict[int, int]) -> Iterator[str]:
    first = f"<Tensor[{each.dtype}], {each.numel} elements>" if each.dtype else "<None>"
    inputs = ", ".join(_input(source, number, numbers) for source in each.inputs)
    yield (
        f"  %{number}(output) = {each.op_type}({inputs or first})"
        f" {{instance name: {attribute_of(each.scope)}}}"
    )
    if inputs:
        yield f"{_INDENT}: first input: {first}"
    yield f"{_INDENT}: full_name_with_scope: ({each.name})"
    yield f"{_INDENT}: operator: {each.op}, phase: {each.phase}"
    if each.autograd:
        yield f"{_INDENT}# Backward of: {each.autograd}"
    yield from (f"{_INDENT}{line}" for line in source_lines(each))
    yield ""


def _input(source: InputFrom, number: int, numbers: dict[int, int]) -> str:
    """An input: an operator above, or what it is that comes from before or from outside."""
    if source.node is None:
        return f"<{source.outside}>"
    place = numbers.get(source.node)
    if place is None or place >= number:
        return f"<earlier {source.node}:{source.slot}>"
    return f"%{place}[{source.slot}]" if source.slot else f"%{place}"


def source_lines(each: OperatorCall) -> Iterator[str]:
    """The lines of the user's code that an operator comes from, the innermost first."""
    for frame in each.source:
        yield f"# In file {frame.file}({frame.line})/{code_at(frame.file, frame.line)}/"


def execution_order(graph: RecordedGraph) -> str:
    """The names of a graph's operators in their order."""
    return "\n".join([HEADER, *graph.nodes]) + "\n"

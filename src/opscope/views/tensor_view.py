"""Looking into a value: which one, what is known of it, and its elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from opscope.arrays import Array
from opscope.arrays.pictures import suggested
from opscope.errors import OpscopeError
from opscope.events import IO, Node, Output, Outside
from opscope.read.one_value import find_value, step_before
from opscope.read.value import Value
from opscope.views.advice import advice_for, summary_of
from opscope.views.hit_list import hit_line
from opscope.views.node_details import find_node, numbers_of
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.node_answers import Numbers
    from opscope.views.value_answers import PictureKind, ValueFacts, ValueHit

_HITS = 50


@dataclass(frozen=True)
class Which:
    """The value that is looked at."""

    view: RankView
    node: Node
    io: IO
    slot: int
    step: int | None
    """The recorded step; None where nothing was recorded yet."""
    pass_number: int = 0

    @property
    def address(self) -> str:
        """The name that commands take."""
        return f"{self.node.name}:{'input:' if self.io is IO.INPUT else ''}{self.slot}"

    @cached_property
    def value(self) -> Value | None:
        """The recorded row of it, if any."""
        if self.step is None:
            return None
        rank = self.view.recorded
        return find_value(rank, self.node, self.io, self.slot, self.step, self.pass_number)

    @property
    def source(self) -> Output | Outside | None:
        """The source of an input."""
        known = self.io is IO.INPUT and self.slot < len(self.node.sources)
        return self.node.sources[self.slot] if known else None

    @property
    def parameter(self) -> str:
        """The parameter or buffer that it is, if it is one."""
        source = self.source
        is_one = isinstance(source, Outside) and source.kind in ("parameter", "buffer")
        return source.name if is_one and isinstance(source, Outside) else ""

    @property
    def is_held(self) -> bool:
        """True if its elements were written."""
        return self.value is not None and self.value.is_saved

    def array(self) -> Array:
        """Its elements; an error says why there are none."""
        if self.value is None or not self.value.is_saved:
            raise OpscopeError(_why(self))
        return self.value.array()

    def at_step(self, step: int) -> Which:
        """The same value in another step, which must have been recorded."""
        at = self.view.step_at(step)
        if at != step:
            raise OpscopeError(f"there is no step {step} in what was recorded of it")
        return replace(self, step=at)

    def on_rank(self, view: RankView) -> Which:
        """The same value of another rank."""
        place = (self.node.name, self.node.graph)
        node = next((n for n in view.nodes.values() if (n.name, n.graph) == place), None)
        if node is None:
            raise OpscopeError(f"rank {view.rank} has no {self.node.name}")
        return replace(self, view=view, node=node)


def which_value(
    view: RankView, node: int, io: str, slot: int, step: int | None, pass_number: int = 0
) -> Which:
    """The value with this address; an error if its node has none such."""
    if io not in (IO.INPUT, IO.OUTPUT):
        raise OpscopeError(f'io = "{io}": must be input or output')
    found = find_node(view, node)
    which = Which(view, found, IO(io), slot, view.step_at(step), pass_number)
    known = len(found.sources if which.io is IO.INPUT else found.outputs)
    if which.value is None and slot >= known:
        raise OpscopeError(f"{found.name} has no {io} {slot} in step {which.step}")
    return which


def facts(which: Which) -> ValueFacts:
    """Describe a value without looking at its elements one by one."""
    node, value, source = which.node, which.value, which.source
    made_by = source if isinstance(source, Output) else None
    shape = _shape(value)
    return {
        "address": which.address,
        "node": node.id,
        "name": node.name,
        "op_type": node.op_type,
        "io": str(which.io),
        "slot": which.slot,
        "rank": which.view.rank,
        "step": which.step,
        "dtype": value.dtype if value else None,
        "shape": None if shape is None else list(shape),
        "numbers": _numbers(value),
        "held": ("hit" if which.view.reader.is_run else "dump") if which.is_held else "",
        "why": "" if which.is_held else _why(which),
        "previous": _previous(which),
        "ranks": _ranks(which),
        "pictures": None if shape is None else picture_kind(which, shape),
        "parameter": which.parameter or _made_parameter(which),
        "source_node": made_by.node.id if made_by else None,
        "source_slot": made_by.slot if made_by else None,
        "hits": _hits(which),
    }


def picture_kind(which: Which, shape: tuple[int, ...]) -> PictureKind | None:
    """Return the pictures that the value's shape suggests."""
    found = suggested(shape, which.node.op_type, str(which.io), which.slot)
    if found is None:
        return None
    return {
        "kind": found.kind,
        "count": found.count,
        "height": found.height,
        "width": found.width,
        "colours": found.colours,
    }


def _why(which: Which) -> str:
    """Say why there are no elements."""
    at = "" if which.step is None else f" in step {which.step}"
    if which.view.reader.is_run:
        return (
            f"the elements of {which.address}{at} were not saved: a run keeps numbers, and "
            "elements only at a hit. A dump has them (opscope run --dump), and a training that is "
            "connected keeps those of the nodes it is told to"
        )
    return f"the elements of {which.address}{at} are not in this dump"


def _shape(value: Value | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    return value.array().shape if value.is_saved else value.shape


def _numbers(value: Value | None) -> Numbers | None:
    try:
        return numbers_of(value.stats()) if value else None
    except OpscopeError:
        return None


def _previous(which: Which) -> int | None:
    if which.step is None:
        return None
    return step_before(which.view.recorded, which.node, which.io, which.slot, which.step)


def _ranks(which: Which) -> list[int]:
    """Ranks that have this operator too, and this one."""
    reader = which.view.reader
    if len(reader.ranks) == 1:
        return reader.ranks
    place = (which.node.name, which.node.graph)
    nodes = ((rank, reader.recording.rank(rank).nodes.values()) for rank in reader.ranks)
    return [rank for rank, found in nodes if any((n.name, n.graph) == place for n in found)]


def _made_parameter(which: Which) -> str:
    """The parameter whose update or gradient an output is."""
    outputs = which.node.outputs
    if which.io is IO.OUTPUT and which.slot < len(outputs):
        return outputs[which.slot].parameter
    return ""


def _hits(which: Which) -> list[ValueHit]:
    found = (
        hit
        for hit in which.view.hits
        if hit.get("node") == which.node.id
        and (hit.get("io") is None or (hit["io"], hit.get("slot")) == (which.io, which.slot))
    )
    chosen = sorted(found, key=lambda hit: hit.get("step") != which.step)[:_HITS]
    return [
        {
            "hit": hit_line(hit),
            "summary": summary_of(str(hit.get("condition", ""))),
            "advice": advice_for(hit),
        }
        for hit in chosen
    ]

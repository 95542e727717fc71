"""Looking into a saved value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.arrays import Array, places, real
from opscope.errors import OpscopeError
from opscope.events import IO
from opscope.read.value import Value
from opscope.views.node_details import find_node, numbers_of
from opscope.views.rank_view import RankView

if TYPE_CHECKING:
    from opscope.views.answers import ValueFacts


def find_value(
    view: RankView, node: int, io: str, slot: int, step: int | None, pass_number: int = 0
) -> Value:
    """A recorded value; an error says why there is none."""
    if io not in (IO.INPUT, IO.OUTPUT):
        raise OpscopeError(f'io = "{io}": must be input or output')
    at = view.step_at(step)
    name = find_node(view, node).name
    found = [
        value
        for value in (view.recorded.values({node}, {at}) if at is not None else [])
        if value.io == io and value.slot == slot
    ]
    in_pass = [value for value in found if (value.pass_number or 0) == pass_number]
    if not found:
        raise OpscopeError(f"{name} has no {io} {slot} in step {step if at is None else at}")
    return (in_pass or found)[-1]


def facts(value: Value) -> ValueFacts:
    """Its dtype, shape and numbers, and where its extremes are."""
    array = real(value.array())
    return {
        "address": value.name,
        "step": value.step,
        "dtype": value.dtype or str(array.dtype),
        "shape": list(array.shape),
        "numbers": numbers_of(value.stats()),
        "places": places(array),
    }


def elements(value: Value) -> Array:
    """Its elements as real numbers."""
    return real(value.array())

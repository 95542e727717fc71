"""Lines of shapes, orders and steps, checked."""

from __future__ import annotations

from typing import NamedTuple

from opscope.calls import MOST_FURTHER
from opscope.read.checked import CALLS, NODES, SMALL, Fields
from opscope.read.graph import StoredSource, sources_line
from opscope.value_type import ValueType

_SIZES = 1 << 63


def shape_line(line: Fields) -> tuple[int, ValueType]:
    """A dtype and a shape, and their id."""
    sizes = line.integers("shape", _SIZES)
    return line.integer("id"), ValueType(line.text("dtype"), tuple(sizes))


def order_line(line: Fields) -> tuple[int, list[int]]:
    """The ids of nodes in the order they ran, and the order's own."""
    return line.integer("id"), line.integers("nodes", NODES)


class StoredStep(NamedTuple):
    """A step as it stands in a file."""

    step: int
    operators: int
    passes: int
    orders: list[list[int]] | None
    """In turn: the id of an order, the pass it ran in, and how many passes in a row it ran in."""
    losses: list[LossLine]
    seconds: float
    skipped: bool
    complete: bool


class LossLine(NamedTuple):
    """A loss as it stands in a file."""

    value: float
    node: int | None
    call: int | None


def step_line(line: Fields) -> StoredStep:
    """Return what is known of a step."""
    return StoredStep(
        step=line.integer("step", -SMALL, SMALL),
        operators=line.integer("operators", below=CALLS),
        passes=line.integer("passes", 1, CALLS),
        orders=None if line.data.get("orders") is None else _orders(line),
        losses=[_loss(loss) for loss in line.objects("losses")],
        seconds=line.number("seconds"),
        skipped=line.flag("skipped"),
        complete=line.flag("complete"),
    )


class LinksLine(NamedTuple):
    """The links of a step, or the step whose links it has."""

    step: int
    like: int | None
    changes: list[int]
    crossings: list[int]
    further: dict[int, list[StoredSource]]
    """By call: its sources, where they are told call by call."""


def links_line(line: Fields) -> LinksLine:
    """Return what `opscope.calls` calls changes and crossings."""
    step = line.integer("step", -SMALL, SMALL)
    if "like" in line:
        return LinksLine(step, line.integer("like", -SMALL, SMALL), [], [], {})
    changes, crossings = line.integers("changes", low=-1), line.integers("crossings")
    if len(changes) % 4 or len(crossings) % 3:
        line.refuse("changes", "must have four numbers for each change, and crossings three")
    further = line.objects("further", MOST_FURTHER) if "further" in line else []
    of_calls = {each.integer("call", below=CALLS): sources_line(each) for each in further}
    return LinksLine(step, None, changes, crossings, of_calls)


def _orders(line: Fields) -> list[list[int]]:
    found = line.items("orders")
    for stretch in found:
        three = type(stretch) is list and len(stretch) == 3
        if not three or not all(type(n) is int and 0 <= n < CALLS for n in stretch):
            line.refuse("orders", "must be a list of order, pass and count")
    return found


def _loss(loss: Fields) -> LossLine:
    call = None if loss.data.get("call") is None else loss.integer("call", below=CALLS)
    return LossLine(loss.number("value"), loss.node_or_none("node"), call)

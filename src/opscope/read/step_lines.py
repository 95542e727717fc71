"""Lines of shapes, orders and steps, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.events import Loss, Node, StepRecord
from opscope.read.checked import NODES, SMALL, Fields
from opscope.read.value_type import ValueType

_SIZES = 1 << 63


def shape_line(line: Fields) -> tuple[int, ValueType]:
    """A dtype and a shape, and their id."""
    sizes = line.integers("shape", _SIZES)
    return line.integer("id"), ValueType(line.text("dtype"), tuple(sizes))


def order_line(line: Fields) -> tuple[int, list[int]]:
    """The ids of nodes in the order they ran, and the order's own."""
    return line.integer("id"), line.integers("nodes", NODES)


def step_line(
    line: Fields, orders: Mapping[int, list[Node]], nodes: Mapping[int, Node]
) -> StepRecord:
    """What is known of a step."""
    return StepRecord(
        step=line.integer("step", -SMALL, SMALL),
        orders={int(graph): orders.get(order, []) for graph, order in _orders_of(line).items()},
        losses=[_loss(loss, nodes) for loss in line.objects("losses")],
        seconds=line.number("seconds"),
        skipped=line.flag("skipped"),
        complete=line.flag("complete"),
    )


def _orders_of(line: Fields) -> dict[str, Any]:
    """Graph → order; None for one that was not kept."""
    orders = line.mapping("orders")
    for graph, order in orders.items():
        is_graph = len(graph) < 10 and graph.isdecimal()
        if not is_graph or not (order is None or type(order) is int):
            line.refuse("orders", "must give a number or null for each graph")
    return orders


def _loss(loss: Fields, nodes: Mapping[int, Node]) -> Loss:
    node = loss.node_or_none("node")
    return Loss(loss.number("value"), None if node is None else nodes.get(node))

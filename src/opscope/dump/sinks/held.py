"""Inputs kept until their operator has run: only then is it known whether they are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from opscope.dump.selection.schemas import operator_of
from opscope.events import Call, PassingValue, Source
from opscope.stats.torch_values import unsupported_reason


class HeldInput(NamedTuple):
    """An input as it was before the operator ran."""

    slot: int
    tensor: Any
    source: Source | None
    original: Any
    """The tensor itself, which the operator may have written to."""


class HeldInputs:
    """The inputs of the operators that are running, of each thread the innermost last."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[Call, list[HeldInput]]] = {}

    def keep(self, call: Call, values: Sequence[PassingValue]) -> None:
        """Keep the inputs of a call; copies of them if the operator may write to them."""
        copies = _writes(call.node.op)
        held = [
            HeldInput(slot, _copy(tensor), None, tensor)
            if copies
            else HeldInput(slot, tensor, source, tensor)
            for slot, tensor, source in values
        ]
        self._calls[id(call)] = call, held

    def take(self, call: Call) -> list[HeldInput]:
        """The inputs of a call that has run."""
        key = id(call)
        found = self._calls.get(key) if _ends_late(call.node.op) else self._calls.pop(key, None)
        return found[1] if found else []

    def drop(self, call: Call) -> None:
        """Let go of the inputs of a call."""
        self._calls.pop(id(call), None)

    def raised(self) -> list[tuple[Call, list[HeldInput]]]:
        """The calls that ended in an exception, with their inputs, in their order."""
        found = [held for held in self._calls.values() if held[0].node.raised]
        for call, _ in found:
            del self._calls[id(call)]
        return found

    def clear(self) -> None:
        """Let go of everything."""
        self._calls.clear()


def _copy(tensor: Any) -> Any:
    return tensor if unsupported_reason(tensor) else tensor.detach().clone()


def _writes(op: str) -> bool:
    operator = operator_of(op)
    return operator is None or operator.writes or operator.asynchronous


def _ends_late(op: str) -> bool:
    operator = operator_of(op)
    return operator is not None and operator.asynchronous

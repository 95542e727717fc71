"""Operators whose output holds NaN or Inf, and which of them it began with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opscope.stats.native_cpu import row_of_array, row_of_tensor
from opscope.stats.record import INPUT, OUTPUT, ROW_DTYPE, VALID
from opscope.stats.torch_values import to_numpy, unsupported_reason

if TYPE_CHECKING:
    from opscope.calls import Calls
    from opscope.dump.format.subject import Label
    from opscope.events import Call
    from opscope.stats.row import Row

HEADER = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,"
    "NaN Count,Positive Inf Count,Negative Inf Count,Bad Inputs,Origin"
)
_COUNTS = ("count", "nan", "posinf", "neginf", "zero")

BadRows = Mapping[int, "Row"]
"""Of the values that hold NaN or Inf, by slot, their numbers."""


def bad_rows(values: Iterable[tuple[int, Any]]) -> dict[int, Row]:
    """The values, by slot, that hold NaN or Inf."""
    floats = [(slot, tensor) for slot, tensor in values if _may_overflow(tensor)]
    on_device = [tensor for _, tensor in floats if not tensor.is_cpu]
    if on_device and _all_finite(on_device):
        floats = [each for each in floats if each[1].is_cpu]
    rows = {slot: _row(tensor) for slot, tensor in floats}
    return {slot: row for slot, row in rows.items() if row.finite < row.count}


class _Found(NamedTuple):
    label: Label
    call: Call
    inputs: BadRows
    outputs: BadRows


class OverflowTable:
    """The operators of a step that overflowed, in the order in which they ran."""

    def __init__(self) -> None:
        from opscope.judge.origin.soundness import Soundness

        self._soundness = Soundness()
        self._found: list[_Found] = []

    def add(self, label: Label, call: Call, inputs: BadRows, outputs: BadRows) -> None:
        """Add an operator whose outputs hold NaN or Inf."""
        self._found.append(_Found(label, call, inputs, outputs))

    def has(self, call: Call) -> bool:
        """Tell whether this call was the last one to be added."""
        return bool(self._found) and self._found[-1].call is call

    def add_outputs(self, outputs: BadRows) -> None:
        """Add more outputs of the operator that was added last."""
        last = self._found[-1]
        self._found[-1] = last._replace(outputs={**last.outputs, **outputs})

    def end_step(self, calls: Calls) -> tuple[list[str], Call | None]:
        """The lines of the table, and where it began, if that was in this step."""
        found, self._found = self._found, []
        origin = self._origin(found, calls)
        return [_line(each, each.call is origin) for each in found], origin

    def _origin(self, found: list[_Found], calls: Calls) -> Call | None:
        """The first operator that made NaN or Inf of sound inputs, and not on purpose."""
        rows = [row for each in found for row in _rows(each)]
        records = np.zeros(len(rows), ROW_DTYPE)
        for record, (call, side, slot, row) in zip(records, rows, strict=True):
            record["valid"], record["io"], record["slot"] = VALID, side, slot
            record["step"], record["node"], record["call"] = call.step, call.node.id, call.index
            for name in _COUNTS:
                record[name] = getattr(row, name)
        self._soundness.begin()
        self._soundness.follow(records, calls)
        births = {birth.call for birth in self._soundness.births if birth.entered is None}
        return next((each.call for each in found if each.call.index in births), None)


def _rows(found: _Found) -> Iterator[tuple[Call, int, int, Row]]:
    """The values of an operator that hold NaN or Inf: whose, on which side, in which slot."""
    for side, rows in ((INPUT, found.inputs), (OUTPUT, found.outputs)):
        for slot, row in sorted(rows.items()):
            yield found.call, side, slot, row


def _line(found: _Found, is_origin: bool) -> str:
    call, rows = found.call, found.outputs.values()
    counts = (sum(getattr(row, name) for row in rows) for name in ("nan", "posinf", "neginf"))
    moment = f"{call.index},{call.stream},{call.time_us}"
    slots = " ".join(map(str, found.inputs))
    origin = "yes" if is_origin else ""
    return f"{found.label.head},{moment},{','.join(map(str, counts))},{slots},{origin}"


def _may_overflow(tensor: Any) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and not unsupported_reason(tensor)


def _all_finite(tensors: Iterable[Any]) -> bool:
    """Tell whether tensors on a device are finite, waiting for it once."""
    import torch

    found = []
    for tensor in tensors:
        if tensor.numel():
            plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
            plain = plain.detach() if plain.element_size() > 1 else plain.detach().float()
            found += [extreme.float().isfinite() for extreme in torch.aminmax(plain)]
    return not found or bool(torch.stack([each.to(found[0].device) for each in found]).all())


def _row(tensor: Any) -> Row:
    if tensor.is_cpu:
        return row_of_tensor(tensor)
    array = to_numpy(tensor)
    assert array is not None
    return row_of_array(array)

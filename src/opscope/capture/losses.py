"""The losses of a step, and whether its update is withheld: numbers that a GPU has only later."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from opscope.capture.guards import plain_torch
from opscope.capture.watching import OperatorWatch
from opscope.events import LossRecord, Node, Output
from opscope.stats.devices import is_late
from opscope.stats.memory import address_of, records_in
from opscope.stats.record import ROW_BYTES, VALID, row_from
from opscope.stats.torch_values import only_number, unsupported_reason


class Losses:
    """The tensors that backward starts from in the step under way."""

    def __init__(self, watch: OperatorWatch) -> None:
        self._watch = watch
        self._noted: list[tuple[Callable[[], float], Node | None, int | None]] = []
        self._unscaled: dict[int, Tensor] = {}
        self._withheld: list[Callable[[], float]] = []
        """For optimizers that skip updates themselves: whether they did in this step."""

    def take(self) -> tuple[Callable[[], list[LossRecord]], Callable[[], bool]]:
        """The losses of the step that ends, and whether an update was withheld: once known."""
        noted, self._noted = self._noted, []
        withheld, self._withheld = self._withheld, []
        self._unscaled.clear()
        return lambda: _numbers(noted), lambda: any(bad() > 0 for bad in withheld)

    def so_far(self) -> list[LossRecord]:
        """The losses of the step under way."""
        return _numbers(self._noted)

    def add_withheld(self, found_inf: Tensor) -> None:
        """Note the number that makes an optimizer skip its update if it is not zero."""
        self._withheld.append(self._value_of(found_inf))

    def scaling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what scales a loss: the loss is what it was before."""

        def scale(scaler: Any, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            if self._watch.recording and isinstance(scaled, Tensor):
                self._unscaled[id(scaled)] = outputs
            return scaled

        return scale

    def note(self, roots: Any) -> None:
        """Backward starts from these."""
        for root in roots:
            loss = self._unscaled.get(id(root), root)
            value = self._simple_value(loss) if loss is root else None
            if value is None:
                if not isinstance(root, Tensor) or root.numel() != 1 or unsupported_reason(root):
                    continue
                value = self._value_of(loss)
            source = self._watch.source_of(loss)
            if isinstance(source, Output):
                call = self._watch.known.call_of(self._watch.key(loss))
                self._noted.append((value, source.node, call))
            else:
                self._noted.append((value, None, None))

    def _simple_value(self, loss: Any) -> Callable[[], float] | None:
        """Take a loss where it lies, if it is a number in the memory of the host."""
        hook = self._watch.hook
        number = None if hook is None or not isinstance(loss, Tensor) else hook.number(loss)
        return None if number is None else lambda: number

    def _value_of(self, loss: Tensor) -> Callable[[], float]:
        """Take a loss as it is now; on a GPU it is known only when the step's rows are."""
        with plain_torch():
            if not is_late(loss):
                number = only_number(loss)
                return lambda: number
            buffer = bytearray(ROW_BYTES)
            if self._watch.pipeline.meter.engine.fill(loss, address_of(buffer)):
                buffer[0] = VALID
            return lambda: _only_element(buffer)


def _numbers(noted: list[tuple[Callable[[], float], Node | None, int | None]]) -> list[LossRecord]:
    return [LossRecord(value(), node, call) for value, node, call in noted]


def _only_element(buffer: bytearray) -> float:
    """The one element that the record in `buffer` is of; NaN if it was never filled in."""
    if not buffer[0]:
        return math.nan
    row = row_from(records_in(buffer, 0, ROW_BYTES)[0])
    return math.nan if row.nan else float(row.min)

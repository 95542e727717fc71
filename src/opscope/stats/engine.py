"""The seam between a tensor and its row: rows may be ready at once or only after a flush."""

from __future__ import annotations

from typing import Any, Protocol

from opscope.stats.numpy_stats import row_of
from opscope.stats.row import EMPTY, Row
from opscope.stats.torch_values import to_numpy, unsupported_reason


class Pending:
    """A row that was asked for; `row` may be read once `ready` is true."""

    __slots__ = ("ready", "row")

    def __init__(self, row: Row = EMPTY, ready: bool = False) -> None:
        self.row = row
        self.ready = ready


class StatsEngine(Protocol):
    """Computes rows of tensors, without making the training wait where it can."""

    def submit(self, tensor: Any) -> Pending:
        """Ask for the row of a tensor as it is now; it has no `unsupported_reason`."""

    def flush(self) -> None:
        """Make every row submitted so far ready."""


class NumpyEngine:
    """The reference engine: every row is ready at once."""

    def submit(self, tensor: Any) -> Pending:
        array = to_numpy(tensor)
        if array is None:
            raise TypeError(f"no statistics for {unsupported_reason(tensor)}")
        return Pending(row_of(array), ready=True)

    def flush(self) -> None:
        pass

"""The seam between a tensor and its row: filled in at once on the CPU, later on a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from opscope.stats.memory import Buffer
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import write_numbers
from opscope.stats.torch_values import to_numpy, unsupported_reason


class Ticket(Protocol):
    """Rows that a device is still computing."""

    def ready(self) -> bool:
        """Whether the numbers have arrived."""

    def wait(self) -> None:
        """Return when they have."""

    def deliver(self) -> None:
        """Write them into their records, and make these valid."""


class NumpyRows:
    """The reference: every row is filled in at once."""

    def fill(self, tensor: Any, buffer: Buffer, offset: int) -> bool:
        """Fill in the record at `offset` with the numbers of a tensor as it is now.

        Returns whether that is done; otherwise the ticket of the next `flush` does it. The tensor
        has no `unsupported_reason`.
        """
        array = to_numpy(tensor)
        if array is None:
            raise TypeError(f"no statistics for {unsupported_reason(tensor)}")
        write_numbers(buffer, offset, row_of(array))
        return True

    def before_write(self, tensors: Iterable[Any]) -> None:
        """Something is about to write to these tensors in place."""

    def flush(self) -> Ticket | None:
        """A ticket for the rows that are not filled in yet."""
        return None


Engine = NumpyRows

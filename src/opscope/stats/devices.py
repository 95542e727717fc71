"""Kinds of devices other than the CPU, by the name that torch has for each.

A kind says how rows are made on its devices without waiting for them, and what else opscope asks of
it. A new kind is an entry of `KINDS` and a module that makes its rows; values of a device that has
no entry are copied to the host first. Nothing here imports a framework or wakes a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

OnDevice = Callable[[int, Any], None]
"""Told of the index of a device and of what computes its rows."""


class Ticket(Protocol):
    """Rows that a device is still computing."""

    @property
    def empty(self) -> bool:
        """True if there are none."""

    def ready(self) -> bool:
        """Tell whether the numbers have arrived."""

    def wait(self) -> None:
        """Return when they have."""

    def deliver(self) -> None:
        """Write them into their records, and make these valid."""


class RowsOnDevices(Protocol):
    """Computes rows on the devices of one kind, without making the training wait."""

    skipped_in_capture: int
    """Rows that were not computed because a graph was being captured."""

    @property
    def devices(self) -> Mapping[int, Any]:
        """The objects that compute the rows of each device, by its index."""

    def submit(self, tensor: Any, address: int) -> None:
        """Enqueue the row of a tensor as it is now, for the record at `address`."""

    def gather(self, on: bool) -> None:
        """Tell whether tensors come that are best read together."""

    def before_write(self, written: Any) -> None:
        """Something is about to write to this tensor in place."""

    def flush(self) -> Ticket:
        """Finish the rows submitted since the last flush, without waiting for them."""


class DeviceKind(NamedTuple):
    """One kind of device."""

    rows: Callable[[str, OnDevice], RowsOnDevices]
    """Makes what computes rows, with a precision and who is told of every device it meets."""
    count: Callable[[ModuleType], int]
    """Counts the devices that torch sees."""
    is_used: Callable[[ModuleType], bool]
    """Tells whether the script has begun to use them."""
    name: Callable[[ModuleType], str]
    """Names the one in use."""
    target: str
    """The name that MindSpore has for the kind, as dumps say it."""


def _cuda_rows(precision: str, on_device: OnDevice) -> RowsOnDevices:
    from opscope.stats.cuda.engine import CudaRows

    return CudaRows(precision, on_device)


KINDS = {
    "cuda": DeviceKind(
        rows=_cuda_rows,
        count=lambda torch: int(torch.cuda.device_count()),  # forks still work after it
        is_used=lambda torch: bool(torch.cuda.is_initialized()),
        name=lambda torch: str(torch.cuda.get_device_name()),
        target="GPU",
    )
}
"""By `tensor.device.type`."""


def is_known(tensor: Any) -> bool:
    """Tell whether rows of a tensor can be made where it is."""
    return tensor.is_cpu or tensor.device.type in KINDS


def used_kind(torch: ModuleType) -> DeviceKind | None:
    """The kind of device that the script uses beside the CPU, if any."""
    return next((kind for kind in KINDS.values() if kind.is_used(torch)), None)


class Tickets:
    """The tickets of several kinds of devices as one."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self._tickets = tickets

    @property
    def empty(self) -> bool:
        """True if there are no rows."""
        return all(ticket.empty for ticket in self._tickets)

    def ready(self) -> bool:
        """Tell whether all numbers have arrived."""
        return all(ticket.ready() for ticket in self._tickets)

    def wait(self) -> None:
        """Return when they have."""
        for ticket in self._tickets:
            ticket.wait()

    def deliver(self) -> None:
        """Write them into their records, and make these valid."""
        for ticket in self._tickets:
            ticket.deliver()

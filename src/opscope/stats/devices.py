"""Kinds of devices other than the CPU, by the name that torch has for each.

A kind says how rows are made on its devices without waiting for them, and what else opscope asks of
it. A new kind is an entry of `KINDS` and a module that makes its rows; values of a device that has
no entry are copied to the host first. Nothing here imports a framework or wakes a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

OnDevice = Callable[[int, Any], None]
"""Told of the index of a device and of what computes its rows."""
PairNumbers = tuple[float, float, float, int, int, int, int]
"""The fields of `two_tensors.Difference`."""


class Ticket(Protocol):
    """Rows that a device is still computing."""

    @property
    def empty(self) -> bool:
        """True if there are none."""

    def ready(self) -> bool:
        """Tell whether the numbers have arrived."""

    def wait(self) -> None:
        """Wait until they have."""

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
        """Let tensors wait for each other while this is on: they are best read together."""

    def before_write(self, written: Any) -> None:
        """Read what waits of this tensor, before something writes to it in place."""

    def flush(self) -> Ticket:
        """Finish the rows submitted since the last flush, without waiting for them."""


class Arriving(Protocol):
    """A copy of a tensor on its way to the host."""

    def get(self) -> Any | None:
        """Return the copy, or None as long as it is not there."""


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
    stream: Callable[[Any], int]
    """Returns the id of the current stream on a tensor's device."""
    is_capturing: Callable[[ModuleType], bool]
    """Tells whether operators are captured as a graph now, so that no value can be waited for."""
    random_states: Callable[[ModuleType], Sequence[Any]]
    """Returns the states of the generators, one for each device."""
    pair: Callable[..., PairNumbers]
    """Compares two tensors of one device; see `two_tensors.difference`."""
    send: Callable[[Any], Arriving]
    """Begins to copy a tensor to the host, without waiting for it."""


def _cuda_rows(precision: str, on_device: OnDevice) -> RowsOnDevices:
    from opscope.stats.cuda.engine import CudaRows

    return CudaRows(precision, on_device)


def _cuda_stream(tensor: Any) -> int:
    from torch import _C

    found: int = _C._cuda_getCurrentStream(tensor.get_device())[0]
    return found


def _cuda_random_states(torch: ModuleType) -> list[Any]:
    # `torch.cuda.get_rng_state` asks the driver for each device anew.
    return [generator.get_state() for generator in torch.cuda.default_generators]


def _cuda_pair(a: Any, b: Any, rtol: float, atol: float, *, equal_nan: bool) -> PairNumbers:
    from opscope.stats.cuda.pair import pair

    return pair(a, b, rtol, atol, equal_nan=equal_nan)


def _cuda_send(tensor: Any) -> Arriving:
    from opscope.stats.cuda.sending import send

    return send(tensor)


KINDS = {
    "cuda": DeviceKind(
        rows=_cuda_rows,
        count=lambda torch: int(torch.cuda.device_count()),  # forks still work after it
        is_used=lambda torch: bool(torch.cuda.is_initialized()),
        name=lambda torch: str(torch.cuda.get_device_name()),
        target="GPU",
        stream=_cuda_stream,
        is_capturing=lambda torch: bool(torch.cuda.is_current_stream_capturing()),
        random_states=_cuda_random_states,
        pair=_cuda_pair,
        send=_cuda_send,
    )
}
"""By `tensor.device.type`."""


def kind_of(tensor: Any) -> DeviceKind | None:
    """Return the kind of device a tensor is on; None for the CPU, and for kinds not known."""
    return None if tensor.is_cpu else KINDS.get(tensor.device.type)


def is_known(tensor: Any) -> bool:
    """Tell whether rows of a tensor can be made where it is."""
    return tensor.is_cpu or tensor.device.type in KINDS


def is_late(tensor: Any) -> bool:
    """Tell whether the numbers of a tensor come late, so that asking now means waiting."""
    return kind_of(tensor) is not None


def stream_of(tensor: Any) -> int:
    """Return the id of the current stream on a tensor's device; 0 for kinds without streams."""
    kind = kind_of(tensor)
    return 0 if kind is None else kind.stream(tensor)


def used_kinds(torch: ModuleType) -> Iterator[tuple[str, DeviceKind]]:
    """Yield the kinds of devices that the script uses beside the CPU, with torch's names."""
    return ((name, kind) for name, kind in KINDS.items() if kind.is_used(torch))


def used_kind(torch: ModuleType) -> DeviceKind | None:
    """Return the kind of device that the script uses beside the CPU, if any."""
    return next((kind for _, kind in used_kinds(torch)), None)


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
        """Wait until they have."""
        for ticket in self._tickets:
            ticket.wait()

    def deliver(self) -> None:
        """Write them into their records, and make these valid."""
        for ticket in self._tickets:
            ticket.deliver()

"""The seam between a tensor and its row: filled in at once on the CPU, later on a GPU."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from opscope.messages import say_once
from opscope.stats.native_cpu import Fill, fill_by_numpy, filler

if TYPE_CHECKING:
    from opscope.stats.cuda.device import DeviceRows
    from opscope.stats.cuda.engine import CudaRows, OnDevice
    from opscope.stats.cuda.fallback import FallbackRows


class Ticket(Protocol):
    """Rows that a device is still computing."""

    def ready(self) -> bool:
        """Whether the numbers have arrived."""

    def wait(self) -> None:
        """Return when they have."""

    def deliver(self) -> None:
        """Write them into their records, and make these valid."""


class Engine:
    """Fills in the numbers of records.

    Rows of GPU tensors are computed on their device, or with `on_device` false on the host;
    `precision` is that of the device: "high" or "low".
    """

    def __init__(self, on_device: bool = True, precision: str = "high") -> None:
        self._fill: Fill = filler()
        self._on_device = on_device
        self._precision = precision
        self._cuda: CudaRows | None = None
        self._on_new_device: OnDevice | None = None
        self.threads = 1
        """How many threads the row of one large CPU tensor may use."""

    @property
    def row_function(self) -> int:
        """The address of the native function that fills in a record; 0 without one."""
        from opscope.stats.native_cpu import load

        library = load()
        if library is None:
            return 0
        return ctypes.cast(library.opscope_row, ctypes.c_void_p).value or 0

    def fill(self, tensor: Any, address: int) -> bool:
        """Fill in the record at `address` with the numbers of a tensor as it is now.

        Returns whether that is done; otherwise the ticket of the next `flush` does it. The tensor
        has no `unsupported_reason`.
        """
        if not tensor.is_cpu:
            if self._on_device and tensor.is_cuda:
                self.submit(tensor, address)
                return False
            tensor = tensor.detach().cpu()
        self._fill(tensor, address, self.threads)
        return True

    def submit(self, tensor: Any, address: int) -> None:
        """Have the device of a CUDA tensor compute its row."""
        if self._cuda is None:
            from opscope.stats.cuda.engine import CudaRows

            self._cuda = CudaRows(self._precision, self._new_device)
        self._cuda.submit(tensor, address)

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Many tensors come now that are best read together."""
        if self._cuda is None:
            yield
            return
        self._cuda.gather(True)
        try:
            yield
        finally:
            self._cuda.gather(False)

    @property
    def has_device(self) -> bool:
        """Whether rows of a device have been asked for: they come late."""
        return self._cuda is not None

    def tell_devices(self, listener: OnDevice | None) -> None:
        """Have somebody told of every device that rows are asked of, also of those so far."""
        self._on_new_device = listener
        if listener is not None and self._cuda is not None:
            for index, device in self._cuda.devices.items():
                listener(index, device)

    def _new_device(self, index: int, device: DeviceRows | FallbackRows) -> None:
        if self._on_new_device is not None:
            self._on_new_device(index, device)

    def before_write(self, tensor: Any) -> None:
        """Something is about to write to this tensor in place."""
        if self._cuda is not None:
            self._cuda.before_write(tensor)

    def flush(self) -> Ticket | None:
        """A ticket for the rows that are not filled in yet."""
        if self._cuda is None:
            return None
        ticket = self._cuda.flush()
        if self._cuda.skipped_in_capture:
            say_once("operators inside a CUDA graph being captured have no statistics")
        return None if ticket.empty else ticket


class NumpyEngine(Engine):
    """The reference: everything on the host, by NumPy."""

    def __init__(self) -> None:
        super().__init__(on_device=False)
        self._fill = fill_by_numpy
        """Never native."""

    @property
    def row_function(self) -> int:
        return 0

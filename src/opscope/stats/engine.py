"""The seam between a tensor and its row: filled in at once on the CPU, later on a device."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from opscope.messages import say_once
from opscope.stats.devices import KINDS, OnDevice, RowsOnDevices, Ticket, Tickets
from opscope.stats.native_cpu import Fill, fill_by_numpy, filler


class Engine:
    """Fills in the numbers of records.

    Rows of tensors on a device are computed there, or with `on_device` false on the host;
    `precision` is that of the device: "high" or "low".
    """

    def __init__(self, on_device: bool = True, precision: str = "high") -> None:
        self._fill: Fill = filler()
        self._kinds = KINDS if on_device else {}
        self._precision = precision
        self._rows: dict[str, RowsOnDevices] = {}
        """The objects that compute rows, by the kind of the devices that were met."""
        self._on_new_device: OnDevice | None = None
        self.threads = 1
        """The number of threads that the row of one large CPU tensor may use."""

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
            if tensor.device.type in self._kinds:
                self.submit(tensor, address)
                return False
            tensor = tensor.detach().cpu()
        self._fill(tensor, address, self.threads)
        return True

    def submit(self, tensor: Any, address: int) -> None:
        """Have the device of a tensor compute its row."""
        kind = tensor.device.type
        rows = self._rows.get(kind)
        if rows is None:
            rows = self._rows[kind] = KINDS[kind].rows(self._precision, self._new_device)
        rows.submit(tensor, address)

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Many tensors come now that are best read together."""
        gathering = list(self._rows.values())
        for rows in gathering:
            rows.gather(True)
        try:
            yield
        finally:
            for rows in gathering:
                rows.gather(False)

    @property
    def has_device(self) -> bool:
        """True if rows of a device have been asked for: they come late."""
        return bool(self._rows)

    def tell_devices(self, listener: OnDevice | None) -> None:
        """Have somebody told of every device that rows are asked of, also of those so far."""
        self._on_new_device = listener
        if listener is not None:
            for rows in self._rows.values():
                for index, device in rows.devices.items():
                    listener(index, device)

    def _new_device(self, index: int, device: Any) -> None:
        if self._on_new_device is not None:
            self._on_new_device(index, device)

    def before_write(self, tensor: Any) -> None:
        """Read what waits of this tensor, before something writes to it in place."""
        for rows in self._rows.values():
            rows.before_write(tensor)

    def flush(self) -> Ticket | None:
        """A ticket for the rows that are not filled in yet."""
        if not self._rows:
            return None
        tickets = [rows.flush() for rows in self._rows.values()]
        if any(rows.skipped_in_capture for rows in self._rows.values()):
            say_once("operators inside a CUDA graph being captured have no statistics")
        ticket = tickets[0] if len(tickets) == 1 else Tickets(tickets)
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

"""The engine: rows of CUDA tensors, on any device, without making the training wait."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from opscope.messages import say_once
from opscope.stats.cuda.device import DeviceRows
from opscope.stats.cuda.fallback import FallbackRows
from opscope.stats.cuda.forms import FORMS, forms
from opscope.stats.cuda.layout import readable
from opscope.stats.cuda.streams import CudaStreams, NoStreams
from opscope.stats.cuda.ticket import CudaTicket
from opscope.stats.devices import OnDevice
from opscope.stats.torch_values import storage_address


class CudaRows:
    """Computes rows on the devices where the tensors are. One thread at a time uses it.

    Counts, min and max are exact. With u = 2⁻²⁴, and rms the root of the mean square:

    | dtype | mean | mean_abs | l2 | std |
    |---|---|---|---|---|
    | float32, 16-bit and 8-bit floats, "high" | 20u · mean_abs | 20u | 20u | 20u · (std + rms) |
    | the same, "low", k groups per program | (20 + k)u · mean_abs | (20 + k)u | (20 + k)u | below |
    | bool, 8-bit integers | 2⁻⁵² | 2⁻⁵² | 20u | 20u · (std + rms) |
    | float64, complex, other integers | 10⁻¹¹ · mean_abs | 10⁻¹¹ | 10⁻¹¹ | 10⁻¹¹ · (std + rms) |

    "high" sums the 16 to 64 elements that a thread has of a group in float32, in two passes, and
    everything beyond in float64. "low" stays in float32 within a program, whose k groups of 16 KiB
    are at most 8 up to 4 MiB, one 264th of the tensor above, one 396th above 32 MiB; std² is within
    4(20 + k)u · rms². Tensors that do not fill a group, and programs that met NaN, an infinity, or
    numbers whose squares overflow or vanish, are in float64 either way. Means of integers are those
    of exact sums where these are below 2⁶².
    """

    def __init__(
        self,
        precision: str = "high",
        on_device: OnDevice = lambda index, device: None,
    ) -> None:
        import torch

        self._on_device = on_device

        self._torch = torch
        self._precise = precision == "high"
        self._forms = forms()
        self._devices: dict[int, DeviceRows | FallbackRows] = {}
        self._empties = array("q")
        cuda = torch.cuda.is_available()
        self._capturing = torch._C._cuda_isCurrentStreamCapturing if cuda else bool
        self._current_device = torch._C._cuda_getDevice if cuda else int
        self._one_device = not cuda or torch.cuda.device_count() == 1
        self.skipped_in_capture = 0
        """Rows that were not computed because a CUDA graph was being captured."""

    def submit(self, tensor: Any, address: int) -> None:
        """Enqueue the row of a tensor as it is now, for the record at `address`.

        It is read on the current stream of its device. While that stream is being captured into a
        graph nothing is enqueued, and the record stays as it is.
        """
        form = self._forms.get(tensor.dtype)
        times, runs = 1, None
        if form is None or not tensor.is_contiguous() or tensor.is_neg():
            if self._capturing():
                self.skipped_in_capture += 1
                return
            tensor, times, runs = readable(tensor)
            form = self._forms[tensor.dtype]
        count = tensor.numel()
        if not count:
            self._empties.append(address)
            return
        index = tensor.get_device()
        device = self._devices.get(index)
        if device is None:
            device = self._add(index)
        if self._one_device or self._current_device() == index:
            done = device.submit(tensor, form, count, times, address, runs)
        else:
            with self._torch.cuda.device(index):
                done = device.submit(tensor, form, count, times, address, runs)
        if not done:
            self.skipped_in_capture += 1

    def gather(self, on: bool) -> None:
        """Tensors of any size wait for company while this is on, and are read when it is over."""
        for index, device in self._devices.items():
            with self._on(index):
                device.gather(on)

    def before_write(self, written: Any) -> None:
        """Something is about to write to this tensor: read what waits of it first."""
        for index, device in self._devices.items():
            if device.held and not self._capturing():
                batch = device.held.get(storage_address(written))
                if batch is not None:
                    with self._on(index):
                        device.launch(batch)

    def flush(self) -> CudaTicket:
        """Finish the rows submitted since the last flush, without waiting for them.

        During the capture of a graph nothing can be launched: the rows come with the next ticket.
        """
        finished = []
        if not self._capturing():
            for index, device in self._devices.items():
                with self._on(index):
                    part = device.flush()
                if part is not None:
                    finished.append(part)
        empties, self._empties = self._empties, array("q")
        return CudaTicket(finished, empties)

    @property
    def devices(self) -> Mapping[int, DeviceRows | FallbackRows]:
        """The objects that compute the rows of the devices seen so far, by device index."""
        return self._devices

    @property
    def device_bytes(self) -> int:
        """The memory of the devices that is kept for rows."""
        return sum(device.device_bytes for device in self._devices.values())

    def _add(self, index: int) -> DeviceRows | FallbackRows:
        streams = CudaStreams(index) if index >= 0 else NoStreams()
        device: DeviceRows | FallbackRows
        if reason := _no_triton(index, self._precise):
            say_once(f"{reason}: GPU statistics are computed with torch operators, which is slower")
            device = FallbackRows(index, streams)
        else:
            device = DeviceRows(index, streams, self._precise)
        self._on_device(index, device)
        self._devices[index] = device
        return device

    def _on(self, index: int) -> Any:
        return nullcontext() if self._one_device else self._torch.cuda.device(index)


def _no_triton(index: int, precise: bool) -> str:
    """Return why Triton cannot be used, in words; empty if it can."""
    try:
        import triton  # noqa: F401

        from opscope.stats.cuda.launch import finish_kernel, parts_kernel

        finish_kernel(index)
        parts_kernel(FORMS["float32"], True, precise, index)
    except ImportError:
        return "Triton is not installed"
    except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver raises
        first = (str(error) or type(error).__name__).splitlines()[0]
        return f"Triton does not work here ({first})"
    return ""

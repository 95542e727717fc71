"""Streams, events and memory of one device; and of none, where Triton's interpreter runs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Protocol


class Event(Protocol):
    """A point in a stream."""

    def query(self) -> bool:
        """Tell whether the device got there."""

    def synchronize(self) -> None:
        """Return when it has."""


class Past:
    """An event that has happened."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class CudaStreams:
    """Streams of a CUDA device, by their raw handles, and one of our own beside them."""

    def __init__(self, index: int) -> None:
        import torch

        self._torch = torch
        self._index = index
        self._side = torch.cuda.Stream(torch.device("cuda", index))
        self._streams: dict[int, Any] = {}
        self._fences: dict[int, Any] = {}
        self.side = self._side.cuda_stream
        self.current = torch._C._cuda_getCurrentRawStream
        self.capturing = torch._C._cuda_isCurrentStreamCapturing

    def record(self, stream: int) -> Event:
        """An event after everything that is in the stream now."""
        event: Event = self._torch.cuda.Event()
        event.record(self._stream(stream))  # type: ignore[attr-defined]
        return event

    def wait(self, stream: int, event: Event) -> None:
        """Let the stream wait for the event."""
        self._stream(stream).wait_event(event)

    def join(self, stream: int, other: int) -> None:
        """Let the stream wait for everything that is in the other now."""
        fence = self._fences.get(other)
        if fence is None:
            fence = self._fences[other] = self._torch.cuda.Event()
        fence.record(self._stream(other))
        self._stream(stream).wait_event(fence)

    def empty(self, count: int) -> Any:
        """Device memory for int64 numbers that no other stream has work left in."""
        torch = self._torch
        with torch.cuda.stream(self._side):
            return torch.empty(count, dtype=torch.int64, device=torch.device("cuda", self._index))

    def pinned(self, count: int) -> Any:
        """Memory of the host for int64 numbers that kernels can read and write."""
        return self._torch.empty(count, dtype=self._torch.int64, device="cpu", pin_memory=True)

    def using(self, stream: int) -> Any:
        """A context in which the stream is the current one."""
        return self._torch.cuda.stream(self._stream(stream))

    def _stream(self, raw: int) -> Any:
        stream = self._streams.get(raw)
        if stream is None:
            cuda = self._torch.cuda
            if raw == self.side:
                stream = self._side
            elif raw:
                stream = cuda.ExternalStream(raw, device=self._index)
            else:
                stream = cuda.default_stream(self._index)
            self._streams[raw] = stream
        return stream


class NoStreams:
    """Everything happens at once, in the memory of the host."""

    side = 0
    capturing = bool

    def current(self, index: int) -> int:
        return 0

    def record(self, stream: int) -> Event:
        return Past()

    def wait(self, stream: int, event: Event) -> None:
        pass

    def join(self, stream: int, other: int) -> None:
        pass

    def empty(self, count: int) -> Any:
        import torch

        return torch.empty(count, dtype=torch.int64, device="cpu")

    pinned = empty

    def using(self, stream: int) -> Any:
        return nullcontext()

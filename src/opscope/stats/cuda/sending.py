"""Copies of CUDA tensors to the host that nobody waits for."""

from __future__ import annotations

import torch
from torch import Tensor


class _Arriving:
    """A copy in pinned memory, with the event after which it is there."""

    def __init__(self, tensor: Tensor) -> None:
        self._copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._copy.copy_(tensor.detach(), non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record()

    def get(self) -> Tensor | None:
        """Return the copy, or None as long as it is not there."""
        return self._copy if self._event.query() else None


class _Never:
    """No copy: one cannot be made while a graph is captured."""

    def get(self) -> None:
        """Return None."""


def send(tensor: Tensor) -> _Arriving | _Never:
    """Begin to copy a tensor to the host, on the current stream."""
    return _Never() if torch.cuda.is_current_stream_capturing() else _Arriving(tensor)

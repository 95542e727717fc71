"""Mixed precision: what `amp` may be, and how a step is made with it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

_NAMES = {
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


class MixedPrecision:
    """Autocast to a dtype; float16 comes with a gradient scaler.

    `amp` is None or False for full precision, True or "bfloat16", "float16", or a dtype.
    """

    def __init__(self, amp: Any, device: torch.device) -> None:
        self.dtype = _dtype(amp)
        self._device = device.type
        self.scaler: torch.amp.GradScaler | None = None
        if self.dtype is torch.float16:
            self.scaler = torch.amp.GradScaler(self._device)

    def autocast(self) -> AbstractContextManager[Any]:
        """Make what forward passes run in."""
        if self.dtype is None:
            return nullcontext()
        made: AbstractContextManager[Any] = torch.autocast(self._device, dtype=self.dtype)
        return made

    def update(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Backward and the optimizer's step."""
        if self.scaler is None:
            loss.backward()
            optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(optimizer)
            self.scaler.update()


def _dtype(amp: Any) -> torch.dtype | None:
    if amp is None or amp is False or amp == "O0":
        return None
    dtype = torch.bfloat16 if amp is True else _NAMES.get(amp, amp)
    if dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f'amp = {amp!r}: must be None, True, "bfloat16" or "float16"')
    return dtype

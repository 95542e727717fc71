"""A fast digest of 128 bits of a tensor's bytes: equal or not, on CPU and GPU alike.

The bytes, in logical order and filled up with zeros, are 64-bit words w₀ w₁ …, little-endian. Each
half is the sum over i of mix(wᵢ + (i + 1) · step), modulo 2⁶⁴, mixed once more with the number of
bytes. Sums can be formed in any order, so the digest does not depend on how the work is
split; steps and multipliers differ between the halves. Bits count: -0.0 is not 0.0, and one NaN is
not another. It tells apart what differs by accident, not by intent.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.stats.cuda.launch import Kernel, compiled

MULTIPLIERS = (0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
STEPS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_BLOCK = 1024
_PROGRAMS = 1056
_MASK = 2**64 - 1


class Digest(NamedTuple):
    """The digest of a tensor, on its way."""

    sums: Any
    """Two numbers of 64 bits: an int64 tensor, on the tensor's device."""
    size: int
    """Bytes."""

    def value(self) -> int:
        """The number of 128 bits; waits for the device."""
        one, two = (number & _MASK for number in self.sums.tolist())
        return _close(one, two, self.size)


def digest(tensor: Any) -> Digest:
    """Start computing the digest of a tensor, on the current stream of its device."""
    import torch

    with torch.no_grad():
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        size = tensor.numel() * tensor.element_size()
        if not size or (tensor.get_device() < 0 and not _interpreting()):
            flat = tensor.reshape(-1).view(torch.uint8).cpu().numpy()
            return Digest(torch.from_numpy(_sums(flat).view(np.int64)), size)
        if tensor.data_ptr() % 16:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        programs = max(1, min(_PROGRAMS, -(-size // (8 * _BLOCK))))
        parts = torch.empty(programs, 2, dtype=torch.int64, device=tensor.device)
        _launch(tensor, size, programs, parts)
        return Digest(parts.sum(0), size)


def digest_of_array(array: NDArray[Any]) -> int:
    """The digest of a NumPy array, the same number as that of the tensor with these bytes."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    one, two = (int(number) for number in _sums(flat))
    return _close(one, two, flat.size)


def _sums(flat: NDArray[Any]) -> NDArray[np.uint64]:
    """Both sums over the words of some bytes, a stretch at a time."""
    stretch = 1 << 19
    totals = np.zeros(2, np.uint64)
    for start in range(0, flat.size, stretch):
        piece = flat[start : start + stretch]
        if piece.size % 8:
            piece = np.concatenate((piece, np.zeros(-piece.size % 8, np.uint8)))
        words = piece.view("<u8") if piece.ctypes.data % 8 == 0 else piece.copy().view("<u8")
        places = np.arange(1, len(words) + 1, dtype=np.uint64) + np.uint64(start // 8)
        for half in (0, 1):
            mixed = _mixed(words + places * np.uint64(STEPS[half]), MULTIPLIERS[half])
            totals[half] += np.add.reduce(mixed)
    return totals


def _mixed(z: NDArray[Any], multiplier: int) -> NDArray[Any]:
    factor = np.uint64(multiplier)
    z = (z ^ (z >> np.uint64(32))) * factor
    z = (z ^ (z >> np.uint64(29))) * factor
    z ^= z >> np.uint64(32)
    return z


def _close(one: int, two: int, size: int) -> int:
    return _mix(one + size * STEPS[1], MULTIPLIERS[1]) << 64 | _mix(
        two + size * STEPS[0], MULTIPLIERS[0]
    )


def _mix(z: int, multiplier: int) -> int:
    z &= _MASK
    z = (z ^ (z >> 32)) * multiplier & _MASK
    z = (z ^ (z >> 29)) * multiplier & _MASK
    return z ^ (z >> 32)


def _launch(tensor: Any, size: int, programs: int, parts: Any) -> None:
    import torch

    index = tensor.get_device()
    stream = torch._C._cuda_getCurrentRawStream(index) if index >= 0 else 0
    k = _kernel(index)
    k.launch(
        programs, 1, 1, stream, k.function, k.cooperative, k.pdl,
        None, None, k.packed, None, None, None,
        tensor.data_ptr(), size, parts.data_ptr(),
        None, None, None, None, None,
    )  # fmt: skip


@functools.cache
def _kernel(device: int) -> Kernel:
    from opscope.stats.cuda import digest_kernel

    constants = {
        "first": MULTIPLIERS[0],
        "second": MULTIPLIERS[1],
        "first_step": STEPS[0],
        "second_step": STEPS[1],
        "block": _BLOCK,
    }
    return compiled(digest_kernel.lanes, 3, constants, 4)


def _interpreting() -> bool:
    """Tell whether kernels are to run in Triton's interpreter."""
    import os

    return os.environ.get("TRITON_INTERPRET") == "1"

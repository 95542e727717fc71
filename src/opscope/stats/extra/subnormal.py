"""The share of finite elements that are subnormal: too small for their type to keep all digits.

The next smaller ones become zero. In gradients of half precision it says, before zeros do, that the
loss needs to be scaled. Integers have none.
"""

from __future__ import annotations

import math

import numpy as np

from opscope.stats.elements import FiniteElements


def of(elements: FiniteElements) -> float:
    """Count bits, not numbers: a program may have its processor take subnormal ones for zero."""
    flat = elements.finite
    if not flat.size or flat.dtype.kind != "f" or "int" in elements.dtype:
        return math.nan
    unsigned = np.dtype(f"u{flat.itemsize}")
    smallest = np.array(_smallest_normal(elements.dtype), flat.dtype).view(unsigned)
    bits = flat.view(unsigned) & (np.iinfo(unsigned).max >> 1)
    return int(np.count_nonzero((bits > 0) & (bits < smallest))) / flat.size


def _smallest_normal(dtype: str) -> float:
    import torch

    return float(torch.finfo(getattr(torch, dtype)).smallest_normal)

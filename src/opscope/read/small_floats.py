"""bfloat16 and float8, which NumPy does not have: their bits as float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def is_small_float(code: str) -> bool:
    """Tell whether safetensors calls one of these so."""
    return code == "BF16" or code in _TABLES


def widened(bits: Array, code: str) -> Array:
    """The numbers that these bits are.

    >>> widened(np.array([0x3F80], np.uint16), "BF16")
    array([1.], dtype=float32)
    """
    if code == "BF16":
        found: Array = np.zeros((*bits.shape, 2), np.uint16)
        found[..., 1] = bits
        return found.view("<f4")[..., 0]
    return np.asarray(_TABLES[code][bits])


def _e5m2() -> Array:
    """These are the upper half of float16."""
    with np.errstate(invalid="ignore"):
        return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)


def _e4m3() -> Array:
    """One sign, four bits of exponent, three of mantissa; no infinities, one NaN of each sign."""
    bits = np.arange(256)
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent, mantissa = (bits >> 3) & 15, bits & 7
    normal = (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    found = sign * np.where(exponent == 0, mantissa / 8 * 2.0**-6, normal)
    found[(bits & 0x7F) == 0x7F] = np.nan
    return found.astype(np.float32)


_TABLES = {"F8_E4M3": _e4m3(), "F8_E5M2": _e5m2()}

"""What a data type's name says about its size."""

from __future__ import annotations

import re
from functools import lru_cache

_BITS = re.compile(r"\d+")


@lru_cache(maxsize=256)
def element_size(dtype: str) -> int:
    """The bytes of one element: 2 for "bfloat16", 1 for "float8_e4m3fn", "int4" and "bool"."""
    match = _BITS.search(dtype)
    bits = int(match.group()) if match else 8
    return (bits + 7) // 8

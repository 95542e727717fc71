"""The forms in which the elements of each dtype are read on a device, and a tensor cut into parts.

The numbers are shared by the kernels, the launches and a native caller. Importing this needs
neither torch nor Triton.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from opscope.native import shared

FLOAT, E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0FNU, BYTE, DOUBLE, INT, UINT64, COMPLEX = range(11)
"""Forms. Up to and including BYTE the hot loop is in float32; from DOUBLE on it is in float64."""

PROGRAMS = shared.PROGRAMS
"""So many programs read a large tensor, and one more its last elements; half as many more above
32 MiB. A program reads at most 1000 groups."""
COARSE, GATHERED = shared.COARSE, shared.GATHERED
"""In groups: up to which size programs read several of them; while tensors are gathered."""
_VERY_LARGE = shared.VERY_LARGE
"""In groups."""
THREADS = shared.THREADS
UNROLL = shared.UNROLL
GROUP_BYTES = shared.GROUP_BYTES
"""A program reads groups of so many bytes: four vectors of 16 bytes per thread."""

SLOTS = shared.PART_SLOTS
"""Numbers in the partial row of a program: min, max, mean, mean |x|, std, finite elements, zeros,
negatives, then NaN, +Inf and -Inf, or for integers their sum and the sum of their absolute values
(modulo 2⁶⁴)."""
PART_BYTES = shared.PART_BYTES
HEAD_BYTES = shared.HEAD_BYTES
"""The facts a finishing program needs: address of the parts, how many, elements, form, times."""
OUT_BYTES = shared.RECORD_BYTES
"""A finished row: kind, then the 13 numbers in the order of a record, then nothing."""


class ElementForm(NamedTuple):
    """The way to read one dtype."""

    code: int
    load: str
    """Name of the Triton type that is loaded."""
    size: int
    """Bytes per element."""
    group: int
    """Elements per group."""
    number: int
    """Its place in lists of forms."""


_READ = {
    "float32": (FLOAT, "float32", 4),
    "float16": (FLOAT, "float16", 2),
    "bfloat16": (FLOAT, "bfloat16", 2),
    "float8_e4m3fn": (E4M3FN, "uint8", 1),
    "float8_e4m3fnuz": (E4M3FNUZ, "uint8", 1),
    "float8_e5m2": (E5M2, "uint8", 1),
    "float8_e5m2fnuz": (E5M2FNUZ, "uint8", 1),
    "float8_e8m0fnu": (E8M0FNU, "uint8", 1),
    "uint8": (BYTE, "uint8", 1),
    "int8": (BYTE, "int8", 1),
    "float64": (DOUBLE, "float64", 8),
    "int16": (INT, "int16", 2),
    "int32": (INT, "int32", 4),
    "int64": (INT, "int64", 8),
    "uint16": (INT, "uint16", 2),
    "uint32": (INT, "uint32", 4),
    "uint64": (UINT64, "uint64", 8),
    "complex64": (COMPLEX, "float32", 8),
    "complex128": (COMPLEX, "float64", 16),
}
FORMS = {
    name: ElementForm(code, load, size, GROUP_BYTES // size, number)
    for number, (name, (code, load, size)) in enumerate(_READ.items())
}
_SAME = {
    "bool": "uint8",
    **{f"uint{bits}": "uint8" for bits in range(1, 8)},
    **{f"int{bits}": "int8" for bits in range(1, 8)},
}


@functools.cache
def forms() -> dict[Any, ElementForm]:
    """torch dtype → form, for the dtypes this torch has."""
    import torch

    named = FORMS | {name: FORMS[same] for name, same in _SAME.items()}
    return {getattr(torch, name): form for name, form in named.items() if hasattr(torch, name)}


def programs(count: int, group: int, coarse: int = COARSE) -> int:
    """Return how many programs read `count` elements.

    Up to so many groups each reads up to eight of them: many tensors are read at once then.
    """
    full = count // group
    whole = (full + 7) // 8 if full <= coarse else full
    most = PROGRAMS + PROGRAMS // 2 if full > _VERY_LARGE else PROGRAMS
    return min(whole, max(most, (full + 999) // 1000)) + (count > full * group)


def registers(form: ElementForm) -> dict[str, int]:
    """Return how many registers a thread may have, so that three blocks of 256 fit, not two."""
    return {"maxnreg": 80} if form.code == FLOAT else {}

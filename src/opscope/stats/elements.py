"""The elements of a tensor, as extra statistics take them."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.stats.devices import kind_of
from opscope.stats.torch_values import dtype_name, to_numpy, unsupported_reason, with_memory


class FiniteElements(NamedTuple):
    """The finite elements of a value, one behind the other."""

    finite: NDArray[Any]
    """In the type they have, or the nearest that NumPy has; of complex numbers |x| in float64."""
    total: int
    """The number of all elements, NaN and infinities included."""
    dtype: str
    """The type of the value as torch spells it: "bfloat16"."""


def elements_of(tensor: Any) -> FiniteElements | None:
    """The elements of a tensor as they are now; None if it has no numbers, or not at this moment.

    Training waits for the copy of what is on a device.
    """
    kind = kind_of(tensor)
    if kind is not None and kind.is_capturing(sys.modules["torch"]):
        return None
    if unsupported_reason(tensor):
        return None
    array = to_numpy(with_memory(tensor))
    return None if array is None else elements_in(array, dtype_name(tensor))


def elements_in(array: NDArray[Any], dtype: str) -> FiniteElements:
    """The same of an array."""
    with np.errstate(all="ignore"):
        flat = array.ravel(order="K")
        if flat.dtype.kind == "b":
            flat = flat.view(np.uint8)
        if flat.dtype.kind == "c":
            flat = np.abs(flat.astype(np.complex128, copy=False))
        if flat.dtype.kind == "f":
            is_finite = np.isfinite(flat)
            flat = flat if is_finite.all() else flat[is_finite]
    return FiniteElements(flat, array.size, dtype)

"""What computes rows on this machine; every test of rows runs for each of them.

To add one, write a class with `name`, `bounds`, `available()` and `row(tensor)`, and add it to
`IMPLEMENTATIONS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from reference import Bounds

from opscope.stats import native_cpu
from opscope.stats.numpy_stats import row_of
from opscope.stats.row import Row
from opscope.stats.torch_values import to_numpy

Tensor = Any


class Implementation(Protocol):
    """Computes the row of a tensor, which is on the CPU when it is handed over."""

    name: str
    bounds: Bounds

    def available(self) -> bool: ...

    def row(self, tensor: Tensor) -> Row: ...


class ByNumpy:
    name = "numpy"
    bounds = Bounds()

    def available(self) -> bool:
        return True

    def row(self, tensor: Tensor) -> Row:
        array = to_numpy(tensor)
        assert array is not None
        return row_of(array)


class Native:
    """The library with the kernels of one instruction set."""

    bounds = Bounds()

    def __init__(self, variant: str) -> None:
        self.name = f"native {variant}"
        self._variant = variant.encode()

    def available(self) -> bool:
        library = native_cpu.load()
        found = library is not None and library.opscope_force(self._variant) == 0
        if library is not None:
            library.opscope_force(b"")
        return found

    @contextmanager
    def forced(self) -> Iterator[None]:
        """Whatever the library is asked uses these kernels."""
        library = native_cpu.load()
        assert library is not None and library.opscope_force(self._variant) == 0
        try:
            yield
        finally:
            library.opscope_force(b"")

    def row(self, tensor: Tensor) -> Row:
        with self.forced():
            return native_cpu.row_of_tensor(tensor)


IMPLEMENTATIONS: list[Implementation] = [
    ByNumpy(),
    Native("avx512"),
    Native("avx2"),
    Native("baseline"),
]
AVAILABLE = [one for one in IMPLEMENTATIONS if one.available()]
NATIVE = [one for one in AVAILABLE if isinstance(one, Native)]

each_implementation = pytest.mark.parametrize(
    "implementation", AVAILABLE, ids=[one.name for one in AVAILABLE]
)

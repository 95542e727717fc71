"""Tensors that come from outside and are neither parameter, buffer nor batch, each saved once."""

from __future__ import annotations

import hashlib
import itertools
import weakref
from typing import Any

import numpy as np

from opscope.dump.format.form import FileForm
from opscope.dump.format.values import read
from opscope.events import Outside, Source
from opscope.stats.torch_values import storage_address, unsupported_reason

_WHOLE = FileForm()
_MAX_KNOWN = 10_000


def is_constant(source: Source | None) -> bool:
    """Tell whether an input is a constant."""
    return isinstance(source, Outside) and source.kind == "outside"


class Constants:
    """Knows constants by their content: one that is made anew in every step is one file.

    What an operator made in the step before comes from outside too, but is none.
    """

    def __init__(self) -> None:
        self._made: set[int] = set()
        self._made_before: set[int] = set()
        self._contents: set[tuple[int, bytes]] = set()
        self._numbers: dict[int, itertools.count[int]] = {}
        self._tensors: dict[tuple[int, int], tuple[weakref.ref[Any], int, int]] = {}

    def made(self, tensor: Any) -> None:
        """Note that an operator has made this tensor: it is no constant."""
        self._made.add(storage_address(tensor))

    def end_step(self) -> None:
        """End a step: the outputs seen so far are those of the step before from now on."""
        self._made_before, self._made = self._made, set()

    def new(self, graph: int, tensor: Any) -> int | None:
        """The number of a constant that this graph has not had before; None if it has."""
        if unsupported_reason(tensor) or self._is_output(tensor):
            return None
        if self._is_known(graph, tensor):
            return None
        content = _content(tensor)
        if content is None or (graph, content) in self._contents:
            return None
        self._contents.add((graph, content))
        return next(self._numbers.setdefault(graph, itertools.count()))

    def _is_output(self, tensor: Any) -> bool:
        return not tensor.is_leaf or storage_address(tensor) in self._made_before

    def _is_known(self, graph: int, tensor: Any) -> bool:
        """Tell whether this very tensor was seen before, unchanged as far as torch knows."""
        key = graph, id(tensor)
        known = self._tensors.get(key)
        state = tensor.data_ptr(), _version(tensor)
        if known is not None and known[0]() is tensor and known[1:] == state:
            return True
        if len(self._tensors) >= _MAX_KNOWN:
            self._tensors.clear()
        self._tensors[key] = weakref.ref(tensor), *state
        return False


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def _content(tensor: Any) -> bytes | None:
    reading = read(tensor, _WHOLE)
    if isinstance(reading, str):
        return None
    array = np.ascontiguousarray(reading.array)
    digest = hashlib.blake2b(repr(reading.kind).encode(), digest_size=16)
    digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()

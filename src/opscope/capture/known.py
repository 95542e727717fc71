"""Which tensor comes from where: the sources of a step's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from opscope.events import Output, Outside, Source


class KnownTensors(Protocol):
    """Tensors are named by a key, which is true while the tensor lives."""

    def get(self, key: int) -> Source | None:
        """Where a tensor comes from, or None."""

    def put(self, key: int, source: Source) -> None:
        """A new tensor; nothing shares its memory."""

    def put_outside(self, key: int, source: Source) -> None:
        """A tensor from outside the step."""

    def put_view(self, key: int, base: int, base_source: Source, source: Source) -> None:
        """A tensor that shares the memory of another, which comes from `base_source`."""

    def put_write(self, key: int, output: Output) -> None:
        """A tensor that was written to: it comes from there, and so does what shares its memory."""

    def drop(self, key: int) -> None:
        """Nothing is known of this tensor."""

    def restart(self, lasting: Mapping[int, Outside]) -> None:
        """Know only what lasts longer than a step."""


class Known:
    """Known tensors in Python; native/hook/known.h has the same in C++.

    The entry of a tensor is its source as long as nothing shares its memory. Tensors that share
    memory have (source, shared, writer) instead, with one `shared` list for all of them: `source`
    holds as long as the latest in-place writer, shared[0], is `writer`.
    """

    def __init__(self) -> None:
        self._entries: dict[int, Any] = {}

    def get(self, key: int) -> Source | None:
        found = self._entries.get(key)
        if found.__class__ is tuple:
            source, shared, writer = found
            found = source if shared[0] is writer else shared[0]
        known: Source | None = found
        return known

    def put(self, key: int, source: Source) -> None:
        self._entries[key] = source

    def put_outside(self, key: int, source: Source) -> None:
        self._entries[key] = (source, [None], None)

    def put_view(self, key: int, base: int, base_source: Source, source: Source) -> None:
        found = self._entries.get(base)
        if found.__class__ is not tuple:
            found = self._entries[base] = (base_source, [None], None)
        shared = found[1]
        self._entries[key] = (source, shared, shared[0])

    def put_write(self, key: int, output: Output) -> None:
        found = self._entries.get(key)
        if found.__class__ is tuple:
            found[1][0] = output
        else:
            self._entries[key] = output

    def drop(self, key: int) -> None:
        self._entries.pop(key, None)

    def restart(self, lasting: Mapping[int, Outside]) -> None:
        self._entries = {key: (source, [None], None) for key, source in lasting.items()}

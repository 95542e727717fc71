"""The sources of tensors: which node or which place outside each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from opscope.events import Output, Outside, Source


class KnownTensors(Protocol):
    """Tensors are named by a key, which is true while the tensor lives; a call by its index."""

    def get(self, key: int) -> Source | None:
        """Return the source of a tensor, or None if it is not known."""

    def call_of(self, key: int) -> int:
        """The call that made a tensor what it is; -1 if none of this step did."""

    def put(self, key: int, source: Source, call: int) -> None:
        """Note the source of a new tensor, whose memory nothing shares."""

    def put_outside(self, key: int, source: Source) -> None:
        """Note the source of a tensor from outside the step."""

    def put_view(self, key: int, base: int, base_source: Source, source: Source, call: int) -> None:
        """Note the source of a tensor that shares the memory of one from `base_source`."""

    def put_write(self, key: int, output: Output, call: int) -> None:
        """Note who wrote to a tensor: it and all that share its memory come from there now."""

    def drop(self, key: int) -> None:
        """Forget what is known of this tensor."""

    def restart(self, lasting: Mapping[int, Outside]) -> None:
        """Forget all tensors but those that last longer than a step."""


_Maker = tuple[Source, int]
"""A source and the call it is of."""


class _Shared:
    """Memory that several tensors share, with the node that wrote to it last."""

    __slots__ = ("writer",)

    def __init__(self) -> None:
        self.writer: _Maker | None = None


class _Entry(NamedTuple):
    """The source of one tensor: `maker` holds as long as `writer` is the last one."""

    maker: _Maker
    shared: _Shared
    writer: _Maker | None


class PythonKnownTensors:
    """Known tensors in Python; native/hook/known.h has the same in C++."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def get(self, key: int) -> Source | None:
        maker = self._maker(key)
        return None if maker is None else maker[0]

    def call_of(self, key: int) -> int:
        maker = self._maker(key)
        return -1 if maker is None else maker[1]

    def put(self, key: int, source: Source, call: int) -> None:
        self._entries[key] = _Entry((source, call), _Shared(), None)

    def put_outside(self, key: int, source: Source) -> None:
        self.put(key, source, -1)

    def put_view(self, key: int, base: int, base_source: Source, source: Source, call: int) -> None:
        found = self._entries.get(base)
        if found is None:
            found = self._entries[base] = _Entry((base_source, -1), _Shared(), None)
        self._entries[key] = _Entry((source, call), found.shared, found.shared.writer)

    def put_write(self, key: int, output: Output, call: int) -> None:
        found = self._entries.get(key)
        if found is None:
            self.put(key, output, call)
        else:
            found.shared.writer = (output, call)

    def drop(self, key: int) -> None:
        self._entries.pop(key, None)

    def restart(self, lasting: Mapping[int, Outside]) -> None:
        self._entries = {
            key: _Entry((source, -1), _Shared(), None) for key, source in lasting.items()
        }

    def _maker(self, key: int) -> _Maker | None:
        found = self._entries.get(key)
        if found is None:
            return None
        return found.maker if found.shared.writer is found.writer else found.shared.writer

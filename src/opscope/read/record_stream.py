"""Records as a stream of small tables that DuckDB reads one after the other.

It asks for the next when it has done with the last, so that a question of any size has a few
megabytes of records in memory. The tables are handed over by Arrow's C stream interface, whose
structures are filled in here: no package is needed for it.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.void]
RankRecords = tuple[int, Records]
"""The number of a rank, and records of it."""

_AT_A_TIME = 1 << 13
"""Columns of 64 KiB, which malloc gives again without asking the system."""
_RANK = "rank"
_FORMATS = {"u1": b"C", "i4": b"i", "u4": b"I", "i8": b"l", "u8": b"L", "f8": b"g"}
"""Arrow's letters for NumPy's types."""


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_number, _pointer, _text = ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p
_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))
_GetError = ctypes.CFUNCTYPE(_pointer, ctypes.POINTER(_Stream))
_Schema._fields_ = [
    ("format", _text),
    ("name", _text),
    ("metadata", _text),
    ("flags", _number),
    ("n_children", _number),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", _pointer),
    ("release", _ReleaseSchema),
    ("private_data", _pointer),
]
_Array._fields_ = [
    ("length", _number),
    ("null_count", _number),
    ("offset", _number),
    ("n_buffers", _number),
    ("n_children", _number),
    ("buffers", ctypes.POINTER(_pointer)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", _pointer),
    ("release", _ReleaseArray),
    ("private_data", _pointer),
]
_Stream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetError),
    ("release", _ReleaseStream),
    ("private_data", _pointer),
]

_held: dict[int, Any] = {}
"""The objects that the other side holds still, by the number in `private_data`."""
_numbers = itertools.count(1)


def _hold(value: Any) -> int:
    number = next(_numbers)
    _held[number] = value
    return number


def _let_go(structure: Any) -> None:
    """Releasing is marked by an empty `release`, as the interface demands."""
    held = _held.pop(structure.contents.private_data or 0, None)
    structure.contents.release = type(structure.contents.release)()
    if isinstance(held, _StreamReading):
        held.end()


_release_schema, _release_array = _ReleaseSchema(_let_go), _ReleaseArray(_let_go)
_release_stream = _ReleaseStream(_let_go)


class RecordStream:
    """Some columns of records; each time it is read, `batches` is called for them anew."""

    def __init__(
        self, columns: Mapping[str, np.dtype[Any]], batches: Callable[[], Iterator[RankRecords]]
    ) -> None:
        self._types = {_RANK: np.dtype(np.int32), **columns}
        self._batches = batches
        self._given: list[int] = []

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """A capsule with a stream; whoever takes it releases it."""
        reading = _StreamReading(self._types, self._batches())
        stream = _Stream(
            reading.get_schema, reading.get_next, reading.get_error, _release_stream, None
        )
        reading.stream = stream
        stream.private_data = _hold(reading)
        self._given.append(stream.private_data)
        return _capsule(ctypes.addressof(stream), b"arrow_array_stream", None)

    def close(self) -> None:
        """Let go of streams that were taken and not released, as nobody reads any more."""
        for number in self._given:
            reading = _held.pop(number, None)
            if reading is not None:
                reading.end()


class _StreamReading:
    """One time that a stream is read."""

    def __init__(self, types: dict[str, np.dtype[Any]], batches: Iterator[RankRecords]) -> None:
        self._types = types
        self._batches: Iterator[RankRecords] = (
            (rank, records[begin : begin + _AT_A_TIME])
            for rank, records in batches
            for begin in range(0, len(records), _AT_A_TIME)
        )
        self._error = ctypes.create_string_buffer(b"")
        self.stream: _Stream | None = None
        self.get_schema = _GetSchema(self._schema)
        self.get_next = _GetNext(self._next)
        self.get_error = _GetError(lambda stream: ctypes.addressof(self._error))

    def end(self) -> None:
        """Let go of what is read: callbacks refer to this, and this to them, for a while yet."""
        self._batches = iter(())

    def _schema(self, stream: Any, found: Any) -> int:
        columns = [
            _Schema(_FORMATS[kind.str[1:]], name.encode(), release=_release_schema)
            for name, kind in self._types.items()
        ]
        children = _pointers(columns)
        found[0] = _Schema(b"+s", b"", None, 0, len(columns), children, None, _release_schema)
        found[0].private_data = _hold((columns, children))
        return 0

    def _next(self, stream: Any, found: Any) -> int:
        try:
            rank, records = next(self._batches, (0, None))
            found[0] = _Array() if records is None else self._table(rank, records)
        except Exception as error:  # noqa: BLE001 - told to the other side, which raises it again
            self._error = ctypes.create_string_buffer(f"{type(error).__name__}: {error}".encode())
            return errno.EIO
        return 0

    def _table(self, rank: int, records: Records) -> _Array:
        columns = [
            np.full(len(records), rank, kind) if name == _RANK else _packed(records[name])
            for name, kind in self._types.items()
        ]
        buffers = [(_pointer * 2)(None, column.ctypes.data) for column in columns]
        arrays = [
            _Array(len(records), 0, 0, 2, 0, buffer, None, None, _release_array)
            for buffer in buffers
        ]
        children, no_nulls = _pointers(arrays), (_pointer * 1)(None)
        table = _Array(len(records), 0, 0, 1, len(columns), no_nulls, children)
        table.release = _release_array
        table.private_data = _hold((columns, buffers, arrays, children, no_nulls))
        return table


def _packed(column: NDArray[Any]) -> NDArray[Any]:
    """The numbers one behind the other."""
    return np.ascontiguousarray(column)


def _pointers(structures: list[Any]) -> Any:
    kind = ctypes.POINTER(type(structures[0]))
    return (kind * len(structures))(*map(ctypes.pointer, structures))


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [_pointer, _text, _pointer]

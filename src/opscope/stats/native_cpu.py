"""Rows of CPU tensors and arrays by the native library, or by NumPy where there is none.

`row_into` is the hot path: one call into the library per tensor, about 0.5 µs.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.messages import say_once
from opscope.native import build
from opscope.stats.memory import address_of
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import (
    DTYPES,
    INPUT,
    KIND,
    NUMBERS,
    ROW_BYTES,
    ROW_DTYPE,
    row_from,
    write_numbers,
)
from opscope.stats.row import Row
from opscope.stats.texts import Texts
from opscope.stats.torch_values import dtype_name, to_numpy, unsupported_reason
from opscope.waiting import Waiting

Fill = Callable[[Any, int, int], None]
"""Fills in the numbers of the record at an address: tensor, address, most threads to use."""

Records = NDArray[np.void]

_pointer, _int, _long, _float, _text = (
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_double,
    ctypes.c_char_p,
)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "opscope_row": (
        _int,
        [_pointer, _int, _int, _pointer, _pointer, _int, _pointer, _pointer, _pointer],
    ),
    "opscope_pair": (
        _int,
        [*[_pointer] * 2, _int, _int, *[_pointer] * 3, _float, _float, _int, _int, _pointer],
    ),
    "opscope_csv": (
        _long,
        [_long, _pointer, _pointer, _pointer, _pointer, _text, _int, _pointer],
    ),
    "opscope_on_leaving": (_int, [_text, _text, _text, _text]),
    "opscope_copy": (None, [_pointer, _long]),
    "opscope_place": (None, [_pointer, _pointer, _long]),
    "opscope_keep_chunks": (None, [_pointer]),
    "opscope_features": (_text, []),
    "opscope_force": (_int, [_text]),
}

_API_VERSION, _FROM_OBJECT = 0, 5
"""Words of DLPack's exchange table: its version, and the function that describes a tensor."""


class Strided(NamedTuple):
    """Memory as the library takes it; `sizes` and `strides` (in elements) are arrays of int64."""

    address: int
    dtype: int
    ndim: int
    sizes: Any
    strides: Any


@functools.cache
def load() -> ctypes.CDLL | None:
    """The library; None without one, and then the reason is said once."""
    if build.switched_off():
        return None
    path, reason = build.stats_library(only_find=True)
    if path is None:
        if not reason:
            say_once("building the native statistics, once; this takes some seconds")
        with Waiting("building the native statistics"):
            path, reason = build.stats_library()
    if path is not None:
        try:
            return _declared(ctypes.CDLL(str(path)))
        except (OSError, AttributeError) as problem:
            reason = str(problem)
    say_once(f"no native code ({reason}): statistics use NumPy, which is slower", "native")
    return None


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def features() -> str:
    """Name what computes the rows: "avx512", "avx2", "baseline", or "numpy" without a library."""
    library = load()
    return library.opscope_features().decode() if library else "numpy"


@functools.cache
def filler() -> Fill:
    """The fastest way there is here to fill in a record."""
    library = load()
    if library is None:
        return fill_by_numpy
    return _fill_objects(library) or functools.partial(_fill_by_parts, library)


def row_into(tensor: Any, address: int, threads: int = 1) -> None:
    """Fill in the numbers of the record at `address` with those of a CPU tensor.

    The tensor has no `unsupported_reason`. Code that does this often keeps the `filler` itself.
    """
    filler()(tensor, address, threads)


def row_of_tensor(tensor: Any, threads: int = 1) -> Row:
    """The row of a CPU tensor."""
    if reason := unsupported_reason(tensor):
        raise TypeError(f"no statistics for {reason}")
    record = np.zeros(1, ROW_DTYPE)
    row_into(tensor, record.ctypes.data, threads)
    return row_from(record[0])


def row_of_array(array: NDArray[Any], threads: int = 1) -> Row:
    """The row of a NumPy array; by NumPy where the library has no kernel for it."""
    library = load()
    record = np.zeros(1, ROW_DTYPE)
    memory = strided_array(array)
    if library is None or memory is None:
        return row_of(array)
    if library.opscope_row(*memory, threads, None, None, record.ctypes.data):
        return row_of(array)
    return row_from(record[0])


def count_in_range(tensor: Any, low: float, high: float, threads: int = 1) -> int:
    """Count the elements of a CPU tensor (|x| if complex) from `low` to `high`, included."""
    library, memory = load(), strided(tensor)
    if library is not None and memory is not None:
        record = ctypes.create_string_buffer(ROW_BYTES)
        ends, inside = (ctypes.c_double * 2)(low, high), ctypes.c_uint64()
        if not library.opscope_row(*memory, threads, ends, ctypes.byref(inside), record):
            return inside.value
    array = to_numpy(tensor)
    if array is None:
        raise TypeError(f"no statistics for {unsupported_reason(tensor)}")
    if array.dtype.kind == "c":
        array = np.abs(array.astype(np.complex128))
    return int(np.count_nonzero((array >= low) & (array <= high)))


def strided(tensor: Any) -> Strided | None:
    """A CPU tensor as the library takes it; None where its memory is not what it says."""
    if tensor.is_neg() and not tensor.is_complex():
        return None
    shape, ndim = tensor.shape, tensor.dim()
    integers = ctypes.c_int64 * ndim
    number = DTYPES.get(dtype_name(tensor))
    if number is None:
        return None
    return Strided(tensor.data_ptr(), number, ndim, integers(*shape), integers(*tensor.stride()))


def strided_array(array: NDArray[Any]) -> Strided | None:
    """An array as the library takes it; None where there is no dtype or step for it."""
    number, size = DTYPES.get(array.dtype.name), array.itemsize
    if number is None or not array.dtype.isnative or any(step % size for step in array.strides):
        return None
    integers = ctypes.c_int64 * array.ndim
    steps = [step // size for step in array.strides]
    return Strided(array.ctypes.data, number, array.ndim, integers(*array.shape), integers(*steps))


def fill_by_numpy(tensor: Any, address: int, threads: int) -> None:
    array = to_numpy(tensor)
    if array is None:
        raise TypeError(f"no statistics for {unsupported_reason(tensor)}")
    record: Any = (ctypes.c_ubyte * ROW_BYTES).from_address(address)
    write_numbers(record, 0, row_of(array))


def _fill_by_parts(library: ctypes.CDLL, tensor: Any, address: int, threads: int) -> None:
    memory = strided(tensor)
    if memory is None or library.opscope_row(*memory, threads, None, None, address):
        fill_by_numpy(tensor, address, threads)


class _Python(ctypes.Structure):
    _fields_ = [
        ("dltensor_from_object", _pointer),
        ("save_thread", _pointer),
        ("restore_thread", _pointer),
    ]


def _fill_objects(library: ctypes.CDLL) -> Fill | None:
    """Filling in by one call that is handed the tensor itself, where this torch can be asked."""
    describe = _describing_function()
    if not describe:
        return None
    api = ctypes.pythonapi
    functions = (api.PyEval_SaveThread, api.PyEval_RestoreThread)
    python = _Python(describe, *(ctypes.cast(function, _pointer).value for function in functions))
    function = ctypes.PyDLL(library._name).opscope_row_of_object
    function.restype = _int
    function.argtypes = [_pointer, ctypes.py_object, _int, _pointer]
    table = ctypes.addressof(python)

    def fill(tensor: Any, address: int, threads: int, _keep: _Python = python) -> None:
        # The description of a tensor does not say that its values are to be negated.
        if tensor.is_neg() or function(table, tensor, threads, address):
            _fill_by_parts(library, tensor, address, threads)

    return fill


def _describing_function() -> int | None:
    import torch

    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _pointer, [ctypes.py_object, _text]
    words = (ctypes.c_uint64 * (_FROM_OBJECT + 1)).from_address(
        get(capsule, b"dlpack_exchange_api")
    )
    major = words[_API_VERSION] & 0xFFFFFFFF
    return words[_FROM_OBJECT] if major == 1 else None


def copy_records(pairs: array[int]) -> None:
    """Give records the numbers and kinds of others: addresses, from and to, in turn.

    The first byte of a record, which makes it valid, is written last.
    """
    library = load()
    if library is not None:
        library.opscope_copy(pairs.buffer_info()[0], len(pairs) // 2)
        return
    for source, target in zip(pairs[::2], pairs[1::2], strict=True):
        ctypes.memmove(target + NUMBERS, source + NUMBERS, ROW_BYTES - NUMBERS)
        ctypes.memmove(target + KIND, source + KIND, 1)
        ctypes.memmove(target, source, 1)


def place_rows(addresses: int, rows: int, count: int) -> bool:
    """Fill in the records at so many addresses from rows, as devices make them; False: NumPy does.

    A row is a kind and the numbers of a record, in words; one without elements is left out.
    """
    library = load()
    if library is not None:
        library.opscope_place(addresses, rows, count)
    return library is not None


class _TextsForC(ctypes.Structure):
    """Texts as the library takes them; the texts must live and stay as they are meanwhile."""

    _fields_ = (("bytes", ctypes.c_void_p), ("spots", ctypes.c_void_p))

    def __init__(self, texts: Texts) -> None:
        super().__init__(address_of(texts.bytes) if texts.bytes else None, texts.spots.ctypes.data)


def render_lines(
    records: Records,
    moments: NDArray[np.int64],
    labels: Texts,
    kinds: Texts,
    columns: Sequence[str],
) -> bytes:
    """Lines of a table: whose row it is, when it was seen, and those numbers of its record.

    The `node` and the `shape` of a record are numbers of `labels` and `kinds`; `moments` has the
    stream and the time of each. Numbers are as Python writes them.

    >>> labels, kinds = Texts(), Texts()
    >>> labels.add(0, "Add,a")
    >>> kinds.add(0, "4,float32,[1]")
    >>> record = np.zeros(1, ROW_DTYPE)
    >>> render_lines(record, np.array([[0, 17]]), labels, kinds, ["count", "mean"])
    b'Add,a,0,0,17,input,0,4,float32,[1],0,0.0\\r\\n'
    """
    library = load()
    if library is None:
        return _lines_by_python(records, moments, labels, kinds, columns)
    records, moments = np.ascontiguousarray(records), np.ascontiguousarray(moments, np.int64)
    offsets = bytes(_OFFSETS[column] for column in columns)
    texts = labels.length(records["node"]) + kinds.length(records["shape"])
    numbers = _LONGEST_NUMBER * (_NUMBERS_BEFORE + len(columns)) + _OTHER_CHARACTERS
    out = np.empty(texts + len(records) * numbers, np.uint8)
    length = library.opscope_csv(
        len(records),
        records.ctypes.data,
        moments.ctypes.data,
        ctypes.byref(_TextsForC(labels)),
        ctypes.byref(_TextsForC(kinds)),
        offsets,
        len(offsets),
        out.ctypes.data,
    )
    return out[:length].tobytes()


_LONGEST_NUMBER = 25
"""With a comma."""
_NUMBERS_BEFORE = 4
_OTHER_CHARACTERS = len(",output,\r\n")
_OFFSETS = {name: ROW_DTYPE.fields[name][1] for name in Row._fields} if ROW_DTYPE.fields else {}


def _lines_by_python(
    records: Records,
    moments: NDArray[np.int64],
    labels: Texts,
    kinds: Texts,
    columns: Sequence[str],
) -> bytes:
    lines = []
    for record, (stream, time_us) in zip(records, moments.tolist(), strict=True):
        row = row_from(record)
        side = "input" if record["io"] == INPUT else "output"
        about = f",{record['call']},{stream},{time_us},{side},{record['slot']},"
        numbers = "".join(f",{getattr(row, column)!r}" for column in columns)
        label, kind = labels[record["node"]], kinds[record["shape"]]
        lines.append(b"%b%b%b%b\r\n" % (label, about.encode(), kind, numbers.encode()))
    return b"".join(lines)

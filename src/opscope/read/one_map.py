"""Many files of records as one array, without copying them: mapped one behind the other.

Python's own maps choose their place themselves, so the C library is asked. A file ends somewhere in
its last page; the rest of that page reads as zeros, which are records that are not valid.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any

_FIXED = 0x10
_NOTHING = 0


class OneMap:
    """Files that nothing is written to, by descriptor and size; NumPy keeps it as long as needed.

    >>> numpy.asarray(OneMap([(descriptor, 4096)])).view(ROW_DTYPE)  # doctest: +SKIP
    """

    _size = 0

    def __init__(self, files: Sequence[tuple[int, int]]) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("files are mapped together on Linux only")
        self._library = _library()
        sizes = [-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for _, size in files]
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._address = self._map(None, sum(sizes), _NOTHING, private, -1)
        self._size = sum(sizes)
        place = self._address
        for (descriptor, _), size in zip(files, sizes, strict=True):
            self._map(place, size, mmap.PROT_READ, mmap.MAP_SHARED | _FIXED, descriptor)
            place += size

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Tells NumPy where the bytes are; read-only."""
        return {
            "shape": (self._size,),
            "typestr": "|u1",
            "data": (self._address, True),
            "version": 3,
        }

    def release(self) -> None:
        """Let go of the pages that were looked at."""
        self._library.madvise(self._address, self._size, mmap.MADV_DONTNEED)

    def _map(self, place: int | None, size: int, access: int, flags: int, file: int) -> int:
        found = self._library.mmap(place, size, access, flags, file, 0)
        if found == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(found)

    def __del__(self) -> None:
        if self._size:
            self._library.munmap(self._address, self._size)


def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    size, number = ctypes.c_size_t, ctypes.c_int
    place = ctypes.c_void_p
    library.mmap.restype = place
    library.mmap.argtypes = [place, size, number, number, number, ctypes.c_int64]
    library.munmap.argtypes = [place, size]
    library.madvise.argtypes = [place, size, number]
    return library

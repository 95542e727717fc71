"""Memory of CPython's frames: calls that need more of it get what the last one has left.

See `native/python_stack.cpp` for what it costs a program if they do not.
"""

from __future__ import annotations

import ctypes
import functools

from opscope.native.build import stats_library, switched_off
from opscope.stats.native_cpu import load


class _Arenas(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("context", "allocate", "release"))


@functools.cache
def keep_chunks() -> None:
    """Keep some memory of frames from here on, where there is native code; nothing is built."""
    if switched_off() or stats_library(only_find=True).path is None:
        return
    library, python = load(), ctypes.pythonapi
    if library is None or not hasattr(python, "PyObject_SetArenaAllocator"):
        return
    arenas = _Arenas()
    python.PyObject_GetArenaAllocator(ctypes.byref(arenas))
    library.opscope_keep_chunks(ctypes.byref(arenas))
    python.PyObject_SetArenaAllocator(ctypes.byref(arenas))

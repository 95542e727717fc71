"""Sentences on why a dump ended early."""

from __future__ import annotations

import errno
import traceback

from opscope.dump.transport.writer import WriterError

_MAX_TEXT = 500
_HINTS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would exceed the allowed size",
    errno.EROFS: "the file system is read-only",
}


def describe(error: BaseException) -> str:
    """Return what went wrong, with the file if there is one."""
    if isinstance(error, OSError):
        reason = _HINTS.get(error.errno or 0) or error.strerror or str(error)
        return f"{reason} ({error.filename})" if error.filename else reason
    if isinstance(error, WriterError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory for a copy of a value"
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {where[0].filename}:{where[0].lineno}" if where else ""
    return f"{type(error).__name__}: {str(error)[:_MAX_TEXT]}{place}"

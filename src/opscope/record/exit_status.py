"""The exit status of a process that is no child of this one, from a kernel that keeps it.

Linux does so from 6.15 on, for whoever has held a descriptor of the process since before it ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

from opscope.atomic_files import write_whole
from opscope.record.in_use import is_in_use, ring_process
from opscope.record.places import STATUS_FILE, read_json, recordings
from opscope.rundir.jsonlines import encode

_INFO_BYTES = 64
_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_WANTED = 1 << 3
_STATUS_AT = 60


class ExitStatuses:
    """Writes beside the recordings of a run how the processes of its ranks have ended."""

    def __init__(self, run: Path, descriptors: dict[int, int]) -> None:
        self._run = run
        self._descriptors = descriptors
        """By process; those that it already has, and others that it sees running."""

    def note(self) -> None:
        """Take hold of processes that run, and write down the status of those that have ended."""
        for folder in recordings(self._run):
            pid = ring_process(folder)
            if pid <= 0:
                continue
            if is_in_use(folder, pid):
                self._hold(pid)
            elif (status := self._status(pid)) is not None:
                with contextlib.suppress(OSError):
                    write_whole(folder / STATUS_FILE, encode({"pid": pid, "status": status}))

    def _hold(self, pid: int) -> None:
        if pid not in self._descriptors and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._descriptors[pid] = os.pidfd_open(pid)

    def _status(self, pid: int) -> int | None:
        descriptor = self._descriptors.get(pid)
        if descriptor is None:
            return None
        info = bytearray(_INFO_BYTES)
        struct.pack_into("<Q", info, 0, _WANTED)
        try:
            fcntl.ioctl(descriptor, _GET_INFO, info)
        except OSError:  # an older kernel
            return None
        if not struct.unpack_from("<Q", info)[0] & _WANTED:  # its parent has not asked yet
            return None
        os.close(self._descriptors.pop(pid))
        return int(struct.unpack_from("<i", info, _STATUS_AT)[0])


def read_status(folder: Path, pid: int) -> int | None:
    """Return the status that was written beside a recording, if it is of this process."""
    written = read_json(folder / STATUS_FILE)
    status = written.get("status")
    return status if written.get("pid") == pid and isinstance(status, int) else None

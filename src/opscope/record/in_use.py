"""Finds out whether the process of a ring is still there.

Its number alone does not tell: in a container the next training has the same one.
"""

from __future__ import annotations

from pathlib import Path

from opscope.alive import is_alive
from opscope.locks import is_held
from opscope.native import shared
from opscope.record.places import LOCK_FILE
from opscope.record.ring import RING_FILE
from opscope.regular import is_file, open_regular


def is_in_use(folder: Path, pid: int) -> bool:
    """Tell whether the process that records to this folder runs, by the lock that it holds."""
    lock = folder / LOCK_FILE
    return is_held(lock, unknown=is_alive(pid)) if is_file(lock) else is_alive(pid)


def header_numbers(folder: Path, *names: str) -> list[int] | None:
    """Numbers of a ring's header, which is read alone; None if it is too short."""
    with open(open_regular(folder / RING_FILE), "rb") as file:
        header = file.read(shared.RING_HEADER_BYTES)
    if len(header) < shared.RING_HEADER_BYTES:
        return None
    places = [shared.RING_HEADER[name] for name in names]
    return [int.from_bytes(header[place : place + 8], "little") for place in places]


def ring_process(folder: Path) -> int:
    """Return the number of the process that has made the ring; 0 if it cannot be read."""
    try:
        numbers = header_numbers(folder, "pid")
    except OSError:
        return 0
    return numbers[0] if numbers else 0

"""Whether a recording is over is told by its lock: numbers of processes are used again."""

from __future__ import annotations

import os
from pathlib import Path

from opscope.locks import FileLock
from opscope.record.export import export_is_due
from opscope.record.in_use import is_in_use, ring_process
from opscope.record.places import LOCK_FILE
from opscope.record.ring import RING_FILE, Ring, Sizes


def test_another_process_with_the_same_number_does_not_keep_it_alive(tmp_path: Path) -> None:
    Ring.in_file(tmp_path / RING_FILE, Sizes(8, 1024, 4, 256, 256, 256))
    pid = ring_process(tmp_path)
    assert pid == os.getpid()
    lock = FileLock(tmp_path / LOCK_FILE)
    lock.take(0)
    assert is_in_use(tmp_path, pid) and not export_is_due(tmp_path)
    lock.release()
    assert not is_in_use(tmp_path, pid) and export_is_due(tmp_path)


def test_without_a_lock_the_number_is_all_there_is(tmp_path: Path) -> None:
    Ring.in_file(tmp_path / RING_FILE, Sizes(8, 1024, 4, 256, 256, 256))
    assert is_in_use(tmp_path, os.getpid())
    assert not is_in_use(tmp_path, 2**22 + 1)


def test_a_ring_that_cannot_be_read_has_no_process(tmp_path: Path) -> None:
    assert ring_process(tmp_path) == 0
    (tmp_path / RING_FILE).write_bytes(b"short")
    assert ring_process(tmp_path) == 0 and export_is_due(tmp_path)

"""The witness of a hang writes nothing of a training that has gone on since."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from opscope.native import shared
from opscope.record import witness
from opscope.record.reading import RingReader
from opscope.record.ring import RING_FILE, Ring, Sizes

HANG_AT = 3


@pytest.mark.parametrize("head", [HANG_AT, HANG_AT + 1])
def test_it_hangs_as_long_as_no_operator_runs(tmp_path: Path, head: int) -> None:
    ring = Ring.in_file(tmp_path / RING_FILE, Sizes(8, 1024, 4, 256, 256, 256))
    ring["head"] = head
    put_hang(ring)
    assert RingReader.open(tmp_path / RING_FILE).markers[-1].kind == shared.MARKER_HANG
    witness.main([str(tmp_path), str(os.getpid())])
    assert (tmp_path / "report.json").exists() == (head == HANG_AT)


def put_hang(ring: Ring) -> None:
    """Note a hang as native code does: with the number of the last operator."""
    ring["marker_count"] = 1
    marker = struct.pack("<IiiiQQ32s", shared.MARKER_HANG, os.getpid(), 600, 0, 1, HANG_AT, b"")
    ring.memory[shared.RING_MARKERS : shared.RING_MARKERS + len(marker)] = marker

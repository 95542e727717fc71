"""Rows on disk: exact, append-only, within their budget, and there after SIGKILL."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.made_rows import record_of
from opscope.read.row_store import RowStore
from opscope.rundir.segments import SegmentWriter
from opscope.rundir.stat_files import stat_files
from opscope.stats.memory import records_in
from opscope.stats.record import ROW_BYTES, ROW_DTYPE, VALID, row_from
from opscope.stats.row import EMPTY, Row

TESTS = str(Path(__file__).resolve().parents[2])
PAGE_ROWS = 4096 // ROW_BYTES
FLOATS = Row(10, -1.5, math.inf, 0.1, 0.2, 0.3, 0.4, 1, 2, 3, 4, 5, 6)


def write(directory: Path, rows: list[Row], budget: int = 1 << 30, **kwargs: Any) -> SegmentWriter:
    """Write rows, numbered by step."""
    writer = SegmentWriter(directory, budget, **kwargs)
    for step, row in enumerate(rows):
        record = record_of(row, 1, 0, 2, step, 7, step + 1, 9)
        writer.append(records_in(record, 0, ROW_BYTES))
    return writer


def read(directory: Path) -> Any:
    """Every valid record there is."""
    return RowStore(directory).stats()


def sizes(directory: Path) -> list[int]:
    """The sizes of the files of rows, oldest first."""
    return [file.rows.stat().st_size for file in stat_files(directory)]


@pytest.mark.parametrize(
    "row",
    [
        FLOATS,
        EMPTY,
        FLOATS._replace(min=-(2**63), max=2**63 - 1),
        FLOATS._replace(min=2**53 + 1, max=2**64 - 1),
        FLOATS._replace(min=0, max=1),
        FLOATS._replace(min=-3, max=-2, mean=math.nan),
    ],
)
def test_a_row_comes_back_as_it_was(tmp_path: Path, row: Row) -> None:
    write(tmp_path, [row]).close()
    (record,) = read(tmp_path)
    found = row_from(record)
    assert repr(found) == repr(row)
    assert [type(value) for value in found] == [type(value) for value in row]
    assert [record[name] for name in ("step", "node", "call", "shape", "slot", "io")] == [
        0,
        7,
        1,
        9,
        2,
        1,
    ]


def test_a_record_has_128_bytes_and_no_gaps_in_its_numbers() -> None:
    assert ROW_DTYPE.itemsize == ROW_BYTES == 128
    assert ROW_DTYPE.fields is not None
    assert sorted({offset for _, offset, *_ in ROW_DTYPE.fields.values()})[3:] == [
        *range(4, 24, 4),
        *range(24, 128, 8),
    ]


def test_closing_gives_back_reserved_space(tmp_path: Path) -> None:
    writer = write(tmp_path, [FLOATS] * 5)
    assert sizes(tmp_path) == [128 << 10]
    writer.close()
    assert sizes(tmp_path) == [5 * ROW_BYTES]
    writer.close()


def test_space_is_reserved_so_that_a_full_disk_cannot_kill(tmp_path: Path) -> None:
    write(tmp_path, [FLOATS])
    (segment,) = stat_files(tmp_path)
    status = segment.rows.stat()
    assert status.st_blocks * 512 >= status.st_size


def test_segments_begin_small_and_double(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, 1 << 30)
    many = np.zeros((64 << 20) // ROW_BYTES, ROW_DTYPE)
    many["valid"] = VALID
    many["step"] = np.arange(len(many)) // 1000
    writer.append(many)
    writer.close()
    kib = [size >> 10 for size in sizes(tmp_path)]
    assert kib[:8] == [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    assert max(kib) == 16384
    assert writer.rows == len(many) == len(read(tmp_path))


def test_rows_go_on_in_the_next_segment(tmp_path: Path) -> None:
    writer = write(tmp_path, [FLOATS] * (PAGE_ROWS * 2 + 3), segment_bytes=4096)
    writer.close()
    assert sizes(tmp_path) == [4096, 4096, 3 * ROW_BYTES]
    assert read(tmp_path)["step"].tolist() == list(range(PAGE_ROWS * 2 + 3))
    assert (writer.rows, writer.thinned, writer.dropped) == (PAGE_ROWS * 2 + 3, 0, 0)


LITTLE_ROOM = """
import os, sys
sys.path.append(sys.argv[2])
from pathlib import Path
from helpers.made_rows import record_of
from opscope.rundir.segments import SegmentWriter
from opscope.stats.memory import records_in
from opscope.stats.row import Row
free = 3_000_000
def fallocate(file, start, size, real=os.posix_fallocate):
    used = sum(path.stat().st_size for path in Path(sys.argv[1]).iterdir())
    if used + size > free:
        raise OSError(28, "No space left on device")
    real(file, start, size)
os.posix_fallocate = fallocate
writer = SegmentWriter(Path(sys.argv[1]), 2 << 30)
record = records_in(record_of(Row(1, *[0.0] * 6, *[0] * 6), 1, 0, 0, 0, 1, 0, 0), 0, 128)
try:
    while True:
        writer.append(record)
except OSError as error:
    print(error.strerror, writer.rows)
writer.close()
"""


def test_little_room_on_the_disk_is_used_to_the_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_ROOM, str(tmp_path), TESTS],
        capture_output=True,
        text=True,
        check=True,
    )
    why, rows = done.stdout.rsplit(maxsplit=1)
    assert why == "No space left on device"
    assert int(rows) * ROW_BYTES > 2_700_000
    assert len(read(tmp_path)) == int(rows)


def test_an_unfinished_record_is_not_read(tmp_path: Path) -> None:
    writer = write(tmp_path, [FLOATS] * 3)
    (segment,) = stat_files(tmp_path)
    with open(segment.rows, "r+b") as file:
        file.seek(2 * ROW_BYTES)
        file.write(b"\0")
    assert read(tmp_path)["step"].tolist() == [0, 1]
    writer.close()


WRITE_FOREVER = """
import itertools, sys
sys.path.append(sys.argv[2])
from pathlib import Path
from opscope.rundir.segments import SegmentWriter
from helpers.made_rows import record_of
from opscope.stats.memory import records_in
from opscope.stats.row import Row
writer = SegmentWriter(Path(sys.argv[1]), 1 << 30, segment_bytes=1 << 16)
for step in itertools.count():
    row = Row(step, *[float(step)] * 6, *[step] * 6)
    writer.append(records_in(record_of(row, 1, 0, 0, step, 1, step, 0), 0, 128))
    if step == 1000:
        print("going", flush=True)
"""


def test_rows_survive_sigkill_and_are_readable_before_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOREVER, str(tmp_path), TESTS], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"going\n"
        counts = []
        for _ in range(5):
            records = read(tmp_path)
            _assert_whole(records)
            counts.append(len(records))
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    records = read(tmp_path)
    _assert_whole(records)
    counts.append(len(records))
    assert counts[0] > 1000
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def _assert_whole(records: Any) -> None:
    steps = np.arange(len(records))
    for name in ("step", "call", "count", "min", "std", "nan", "positive"):
        assert (records[name] == steps).all(), name

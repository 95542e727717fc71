"""What is written to a ring is read from it, also when the file is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.errors import OpscopeError
from opscope.native import shared
from opscope.record.cause import of_ring
from opscope.record.python_writer import PythonWriter
from opscope.record.rank_report import rank_report
from opscope.record.reading import RECORD, RingReader
from opscope.record.ring import Ring, Sizes

SMALL = Sizes(8, 1024, 4, 256, 256, 256)


def written(calls: int = 3) -> tuple[Ring, PythonWriter]:
    """A ring with so many calls of modules, the last one under way."""
    ring, writer = Ring.in_memory(SMALL), PythonWriter()
    writer.attach(ring)
    for number in range(calls):
        before = writer.enter(writer.name(shared.NAME_SCOPE, f"Default/part{number % 3}"))
        if number < calls - 1:
            writer.leave(before)
    return ring, writer


def put_step(ring: Ring, facts: dict[str, object]) -> None:
    """Write facts of a step, which is also the place it has."""
    step = int(str(facts["step"]))
    ring.put_step(step, step, {name: json.dumps(value) for name, value in facts.items()})


def read(ring: Ring) -> RingReader:
    return RingReader(ring.memory[:])


def test_records_have_the_size_that_native_code_writes() -> None:
    assert RECORD.itemsize == shared.RING_RECORD_BYTES


def test_the_latest_calls_are_kept() -> None:
    ring, _ = written(20)
    found = read(ring).operators
    assert [each.sequence for each in found] == list(range(13, 21))
    assert [each.finished for each in found] == [True] * 7 + [False]
    assert found[-1].scope == "Default/part1" and read(ring).last_operator == found[-1]


def test_a_record_that_is_being_written_is_left_out() -> None:
    ring, _ = written(20)
    at = SMALL.records_at + 3 * shared.RING_RECORD_BYTES
    ring.memory[at : at + 8] = bytes(8)
    assert [each.sequence for each in read(ring).operators] == [13, 14, 15, 16, 17, 18, 19]


def test_names_that_do_not_fit_are_counted() -> None:
    ring, writer = written()
    numbers = [writer.name(shared.NAME_SCOPE, "x" * 100 + str(n)) for n in range(20)]
    assert 0 in numbers and numbers[0] != 0
    assert read(ring).number("names_lost") == numbers.count(0)


def test_the_latest_steps_are_kept() -> None:
    ring, _ = written()
    for step in range(7):
        put_step(ring, {"step": step, "loss": float("nan"), "batch": "x" * 1000})
    found = read(ring).steps
    assert [facts["step"] for facts in found] == [3, 4, 5, 6]
    assert "batch" not in found[0]


def test_statistics_may_come_before_other_facts_or_after_them() -> None:
    ring, _ = written()
    ring.add_statistics(0, '{"values": 1}')
    for step in range(3):
        put_step(ring, {"step": step, "loss": 1.0})
    ring["step"] = 2
    ring.add_statistics(1, '{"values": 2}')
    put_step(ring, {"step": 1, "loss": 5.0})  # whose loss came late
    known = [
        {"step": 0, "loss": 1.0, "statistics": {"values": 1}},
        {"step": 1, "loss": 5.0, "statistics": {"values": 2}},
        {"step": 2, "loss": 1.0},
    ]
    assert read(ring).steps == known
    ring.add_statistics(2, '{"values": 3}')
    assert read(ring).steps == known, "the step is under way: it is written when it ends"
    ring.write_statistics(2)
    assert read(ring).steps[2] == {"step": 2, "loss": 1.0, "statistics": {"values": 3}}


def test_a_batch_that_is_too_large_is_refused() -> None:
    import numpy as np

    ring, _ = written()
    small, large = np.arange(20, dtype=np.uint8), np.zeros(1000, np.uint8)
    about = {"tensors": [{"name": "x"}]}
    text = json.dumps(about).encode()
    assert ring.put_blob("batch", text, [(small.ctypes.data, small.nbytes)])
    assert read(ring).blob("batch") == (about, small.tobytes())
    assert not ring.put_blob("batch", text, [(large.ctypes.data, large.nbytes)])


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        Ring.in_file(tmp_path / "ring.bin", SMALL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [0, 100, 4095, 4096, SMALL.total - 1])
def test_a_file_that_is_cut_off_is_refused(size: int) -> None:
    ring, _ = written()
    with pytest.raises(OpscopeError, match=r"cut off|shorter than"):
        RingReader(ring.memory[:size])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, SMALL.total - 1), st.binary(min_size=1, max_size=8))))
def test_whatever_a_file_holds_it_is_read_or_refused(changes: list[tuple[int, bytes]]) -> None:
    ring, _ = written(20)
    put_step(ring, {"step": 0})
    content = bytearray(ring.memory[:])
    for at, piece in changes:
        content[at : at + len(piece)] = piece
    try:
        found = RingReader(bytes(content[: SMALL.total]))
    except OpscopeError:
        return
    rank_report(found, of_ring(found, alive=False), {})

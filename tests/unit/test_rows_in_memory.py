"""Kinds of values, rows as objects, and the memory they lie in."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from helpers.made_rows import record_of
from opscope.events import IO, Node, Phase, Stack
from opscope.rows import Rows, ValueTypes
from opscope.stats.memory import PlainMemory, records_in
from opscope.stats.record import INPUT, OUTPUT, ROW_BYTES
from opscope.stats.row import EMPTY, Row

torch = pytest.importorskip("torch")

REMEMBERED = 65_536
FLOATS = Row(4, -1.5, 2.5, 0.5, 1.25, 3.5, 1.5, 0, 0, 0, 1, 1, 2)
INTS = Row(2, -(2**63), 2**63 - 1, -0.5, 2.0**63, 2.0**63.5, 2.0**63, 0, 0, 0, 0, 1, 1)
UNSIGNED = Row(1, 2**64 - 1, 2**64 - 1, 2.0**64, 2.0**64, 2.0**64, 0.0, 0, 0, 0, 0, 0, 1)


def _node(number: int) -> Node:
    return Node(number, 0, f"n{number}", "add", "aten.add", "", "", Phase.FORWARD, Stack(0, ()))


def made(records: list[bytearray], moments: list[int]) -> Rows:
    buffer = bytearray().join(records)
    kinds = {7: ("float32", (2, 2)), 8: ("int64", (2,)), 9: ("uint64", ())}
    return Rows(
        records_in(buffer, 0, len(buffer)),
        None,
        [_node(0), _node(1)],
        kinds,
        array("q", moments),
    )


def test_kinds_are_numbered_in_the_order_they_come() -> None:
    kinds = ValueTypes()
    assert [kinds.add(("float32", (n,))) for n in range(3)] == [0, 1, 2]
    assert kinds.number_of["float32", (1,)] == 1
    assert kinds.by_number[2] == ("float32", (2,))


def test_kinds_are_numbered_in_turn_and_stay() -> None:
    kinds = ValueTypes()
    for n in range(REMEMBERED + 3):
        assert kinds.add(("float32", (n,))) == n
    assert kinds.number_of["float32", (2,)] == 2
    assert kinds.by_number[2] == ("float32", (2,))


def test_rows_are_read_as_objects_with_exact_numbers() -> None:
    rows = made(
        [
            record_of(FLOATS, INPUT, 0, 3, 11, 1, 5, 7),
            record_of(INTS, OUTPUT, 1, 0, 11, 1, 5, 8),
            record_of(UNSIGNED, OUTPUT, 2, 1, 11, 0, 6, 9),
            record_of(EMPTY, OUTPUT, 0, 0, 11, 0, 9, 7),
        ],
        [5, 2, 1_000, 6, 0, 2_000],
    )
    first, second, third, fourth = rows
    assert (first.io, first.slot, first.dtype, first.shape) == (IO.INPUT, 3, "float32", (2, 2))
    assert first.row == FLOATS
    assert (second.io, second.row) == (IO.OUTPUT, INTS)
    assert type(second.row.min) is int and second.row.max == 2**63 - 1
    assert third.row.max == 2**64 - 1
    assert np.isnan(fourth.row.mean) and fourth.row.count == 0
    assert first.call is second.call
    call = first.call
    assert (call.node.name, call.step, call.index) == ("n1", 11, 5)
    assert (call.stream, call.time_us) == (2, 1_000)
    assert (fourth.call.stream, fourth.call.time_us) == (0, 0)  # a call without a moment


def test_rows_are_a_sequence() -> None:
    records = [record_of(FLOATS, OUTPUT, 0, slot, 0, 0, slot, 7) for slot in range(5)]
    rows = made(records, [])
    assert len(rows) == 5
    assert rows[-1].slot == 4
    assert [value.slot for value in rows[1:4:2]] == [1, 3]
    assert isinstance(rows[1:2], Rows) and rows[1:2].kinds is rows.kinds
    assert [value.slot for value in reversed(rows)] == [4, 3, 2, 1, 0]
    with pytest.raises(IndexError):
        rows[5]


def test_rows_are_views_of_their_memory() -> None:
    buffer = record_of(FLOATS, OUTPUT, 0, 0, 0, 0, 0, 7)
    rows = Rows(records_in(buffer, 0, ROW_BYTES), None, [_node(0)], {7: ("bool", ())}, array("q"))
    buffer[4] = 9
    assert rows[0].slot == 9


def test_plain_memory_begins_empty_and_takes_fresh_buffers() -> None:
    memory = PlainMemory()
    assert memory.cursor[0] == memory.cursor[1]
    memory.advance()
    start, end, address = memory.cursor
    assert start == 0 and end == len(memory.buffer) and end % ROW_BYTES == 0 and address
    first = memory.buffer
    kept = records_in(first, 0, end)
    kept["slot"] = 3
    memory.cursor[0] = end
    memory.advance()
    assert memory.buffer is not first and memory.cursor[0] == 0
    assert (kept["slot"] == 3).all()
    assert not any(memory.buffer)

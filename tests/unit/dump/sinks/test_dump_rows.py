"""Rows that come ready: picked, handed on and rendered as the records that they are."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_dump import TIME_US, MadeDump, NewDump, make_node, make_settings
from writing_process import wait_for, writer_pid

from helpers.made_rows import record_of
from opscope.dump.format.statistic import Renderer, StatisticColumns
from opscope.dump.format.subject import Label, Moment, StoredType, Subject
from opscope.dump.format.table_rows import Column, NumberSet, TableRows
from opscope.dump.layout import DumpFolder
from opscope.dump.transport.channel import Sender
from opscope.dump.transport.memory import DONE
from opscope.events import IO, Outside, Phase, ValueStats
from opscope.rows import Rows
from opscope.stats import record as record_module
from opscope.stats.memory import records_in
from opscope.stats.numpy_stats import row_of
from opscope.stats.record import INPUT, OUTPUT
from opscope.stats.row import Row

STATISTIC = {"saved_data": "statistic", "statistic_category": ["max"]}
WEIGHT, BIAS = Outside("parameter", "fc.weight"), Outside("buffer", "fc.bias")


def value(number: float) -> torch.Tensor:
    return torch.tensor([float(number)])


def told(dump: MadeDump, iteration: int = 0, graph: int = 0) -> list[tuple[str, ...]]:
    """What the table says: name, task, side, slot, largest element."""
    columns = ("Op Name", "Task ID", "IO", "Slot", "Max Value")
    return [tuple(row[key] for key in columns) for row in dump.table(iteration, graph)]


numbers = st.floats(width=64) | st.integers(-10, 10).map(float)
counts = st.integers(0, 2**64 - 1)
signed = st.integers(-(2**63), 2**63 - 1)
integers = st.tuples(signed, signed) | st.tuples(counts, counts)
extremes = st.tuples(numbers, numbers) | integers.map(sorted)
made_rows = st.builds(
    lambda count, ends, floats, others: Row(count, *ends, *floats, *others),
    counts,
    extremes,
    st.tuples(*[numbers] * 4),
    st.tuples(*[counts] * 6),
)
heads = st.sampled_from(["relu,D/relu-op0", '"a,b","D/""x""\nü"', "nul,D/\0-op0"])


values = st.tuples(made_rows, heads, st.booleans(), st.integers(0, 3))


@given(st.lists(values, min_size=1, max_size=8), st.data())
def test_the_text_of_a_batch_is_that_of_its_rows_one_by_one(rows: Any, data: Any) -> None:
    categories = data.draw(st.lists(st.sampled_from(["max", "min", "avg", "l2norm", "count"])))
    columns = StatisticColumns([*categories, "nan count"])
    kinds = {7: ("float32", (2, 3)), 8: ("bool", ())}
    labels = {n // 3: Label(n // 3, "p", head, "n") for n, (_, head, _, _) in enumerate(rows)}
    expected, buffer, moments = "", bytearray(), []
    for n, (row, _, is_input, slot) in enumerate(rows):
        side, io = (INPUT, "input") if is_input else (OUTPUT, "output")
        task, label, kind = n // 2, n // 3, 7 + n % 2
        buffer += record_of(row, side, 0, slot, 0, label, task, kind)
        moments.append((task % 3, TIME_US + task))
        moment = Moment(task, *moments[-1], io, slot)
        expected += (
            columns.line(Subject(labels[label], moment, StoredType(*kinds[kind])), row) + "\r\n"
        )
    records = records_in(buffer, 0, len(buffer))
    batch = TableRows(DumpFolder(0, 0), records, np.array(moments, np.int64), labels, kinds)
    assert Renderer(columns).lines(batch).decode() == expected


def test_a_parameter_has_the_row_of_its_first_use_before_that_call(
    new_dump: NewDump, enable: bool
) -> None:
    first, second = make_node("D/a-op0"), make_node("D/b-op0")
    weight, bias = value(1), value(2)
    with new_dump(enable, **STATISTIC) as dump:
        dump.at_step_end = True
        for _ in range(2):
            dump.call(first, [value(9), weight], [value(5)], [None, WEIGHT], stream=3)
            dump.call(second, [weight, bias], [value(6)], [WEIGHT, BIAS], stream=3)
            weight = weight + 10
            dump.end_step()
    for step, now in enumerate(("1.0", "11.0")):
        assert told(dump, step) == [
            ("fc.weight", "0", "output", "0", now),
            ("D/a-op0", "0", "input", "0", "9.0"),
            ("D/a-op0", "0", "input", "1", now),
            ("D/a-op0", "0", "output", "0", "5.0"),
            ("fc.bias", "0", "output", "0", "2.0"),
            ("D/b-op0", "1", "input", "0", now),
            ("D/b-op0", "1", "input", "1", "2.0"),
            ("D/b-op0", "1", "output", "0", "6.0"),
        ]
        rows = dump.table(step)
        assert [row["Stream ID"] for row in rows] == [*"03330333"]
        assert [row["Timestamp"] for row in rows] == [f"{TIME_US}"] * 4 + [f"{TIME_US + 1}"] * 4
        assert rows[0]["Op Type"] == "Parameter"


def test_a_parameter_has_one_row_when_the_step_comes_in_pieces(new_dump: NewDump) -> None:
    with new_dump(**STATISTIC, input_output=2) as dump:
        for number in range(3):
            dump.call(make_node(f"D/a-op{number}"), [value(1)], [value(2)], [WEIGHT])
    assert [row[0] for row in told(dump)] == ["fc.weight", "D/a-op0", "D/a-op1", "D/a-op2"]


def test_a_call_site_with_another_parameter_than_before(new_dump: NewDump) -> None:
    node = make_node()
    with new_dump(**STATISTIC, input_output=2) as dump:
        for sources in ([WEIGHT], [None], [BIAS], [None, WEIGHT, BIAS]):
            dump.call(node, [value(n) for n in range(len(sources))], [], sources)
            dump.end_step()
        dump.call(node, [value(1)], [value(2)], [None])
    assert told(dump, 0) == [("fc.weight", "0", "output", "0", "0.0")]
    assert not (dump.directory(1) / "statistic.csv").exists()
    assert told(dump, 2) == [("fc.bias", "0", "output", "0", "0.0")]
    assert [row[0] for row in told(dump, 3)] == ["fc.weight", "fc.bias"]
    assert [row[0] for row in told(dump, 4)] == [node.name]


def test_steps_like_the_last_are_picked_as_if_each_were_the_first(new_dump: NewDump) -> None:
    first, second = make_node("D/a-op0"), make_node("D/b-op0")
    same = [[WEIGHT], [None, BIAS]]
    steps: list[tuple[list[list[Outside | None]], bool]] = [
        *[(same, True)] * 3,
        (same, False),
        *[(same, True)] * 2,
        *[([[BIAS], [None, BIAS]], True)] * 2,
        *[([[BIAS], [None, WEIGHT]], True)] * 2,
        (same, True),
    ]
    with new_dump(**STATISTIC, input_output=2) as dump:
        for sources, whole in steps:
            dump.at_step_end = whole
            dump.call(first, [value(1)], [value(2)], sources[0])
            dump.call(second, [value(3), value(4)], [value(5)], sources[1])
            dump.end_step()
    for step, (sources, _) in enumerate(steps):
        uses = [sources[0][0], sources[1][1]]
        names = dict.fromkeys(use.name for use in uses if use is not None)
        rows = [row[0] for row in told(dump, step)]
        assert [name for name in rows if name.startswith("fc.")] == list(names)
        assert [name for name in rows if not name.startswith("fc.")] == ["D/a-op0", "D/b-op0"]


def test_only_parameters_of_wanted_operators(new_dump: NewDump) -> None:
    with new_dump(**STATISTIC, dump_mode=1, kernels=["D/b-op0"]) as dump:
        unwanted, wanted = make_node("D/a-op0", "a"), make_node("D/b-op0", "b")
        unwanted.sources = [WEIGHT]
        call = dump.call(unwanted)
        dump.deliver([ValueStats(call, IO.INPUT, 0, "float32", (1,), row_of(np.ones(1)))])
        dump.call(wanted, [value(1)], [], [BIAS])
    assert [row[0] for row in told(dump)] == ["fc.bias", "D/b-op0"]


def test_full_has_one_row_and_one_file_for_each_value(new_dump: NewDump, enable: bool) -> None:
    node = make_node()
    with new_dump(enable, saved_data="full") as dump:
        dump.at_step_end = True
        for _ in range(2):
            dump.parameter(node, WEIGHT.name, value(1))
            dump.call(node, [value(1), value(3)], [value(2)], [WEIGHT])
            dump.end_step()
    for step in range(2):
        assert [row[:4] for row in told(dump, step)] == [
            ("fc.weight", "0", "output", "0"),
            (node.name, "0", "input", "0"),
            (node.name, "0", "input", "1"),
            (node.name, "0", "output", "0"),
        ]
        assert len(dump.files(step)) == 4
    assert [each["rows"] for each in dump.manifest()["iterations"]] == [4, 4]


def test_graphs_of_one_delivery_have_their_own_tables(new_dump: NewDump, enable: bool) -> None:
    evaluated = make_node("D/v-op0", "v", graph=1, phase=Phase.EVAL)
    options = {"include": frozenset({"eval"})}
    with new_dump(enable, **STATISTIC, options=options) as dump:
        dump.at_step_end = True
        for number in range(4):
            dump.call(evaluated if number % 2 else make_node(), [value(number)])
        dump.end_step()
    assert [row[-1] for row in told(dump)] == ["0.0", "2.0"]
    assert [row[-1] for row in told(dump, graph=1)] == ["1.0", "3.0"]


def test_rows_that_were_never_filled_in_are_left_out(
    new_dump: NewDump, enable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_dump(enable, **STATISTIC) as dump:
        pick = dump.sink._picker.pick

        def spoiled(rows: Rows, *rest: Any) -> Any:
            rows.records["valid"][1] = 0
            return pick(rows, *rest)

        monkeypatch.setattr(dump.sink._picker, "pick", spoiled)
        dump.call(make_node(), [value(0), value(1), value(2)])
    assert [row[-1] for row in told(dump)] == ["0.0", "2.0"]


def test_rows_from_before_the_rank_is_known_are_copies(
    new_dump: NewDump, enable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = []

    def noting(buffer: bytearray, start: int, end: int) -> Any:
        buffers.append(buffer)
        return records_in(buffer, start, end)

    monkeypatch.setattr("helpers.made_rows.records_in", noting)
    dump = new_dump(enable, **STATISTIC)
    dump.call(make_node(), [value(1), value(2)])
    for buffer in buffers:
        buffer[:] = bytes(len(buffer))
    with dump:
        dump.end_step()
    assert [row[-1] for row in told(dump)] == ["1.0", "2.0"]


def test_labels_and_kinds_are_introduced_once(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    send = Sender.send
    monkeypatch.setattr(
        Sender, "send", lambda self, record: (sent.append(record), send(self, record))
    )
    nodes = [make_node(f"D/a-op{number}") for number in range(3)]
    with new_dump(False, saved_data="full") as dump:
        dump.at_step_end = True
        for _ in range(3):
            for node in nodes:
                dump.call(node, [torch.ones(2, 2)], [torch.ones(3)])
            dump.end_step()
    tags = [record[0] for record in sent]
    assert (tags.count("label"), tags.count("row_kind")) == (3, 2)
    assert tags.count("rows") == 3
    assert len(dump.table(2)) == 6


def test_the_training_process_makes_no_object_of_a_row(
    new_dump: NewDump, enable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> Any:
        raise AssertionError("a row was looked at by itself")

    with new_dump(enable, saved_data="full") as dump:
        monkeypatch.setattr(Rows, "_value", forbidden)
        monkeypatch.setattr(record_module, "row_from", forbidden)
        monkeypatch.setattr(StatisticColumns, "line", forbidden)
        dump.call(make_node(), [value(1), value(2)], [value(3)])
    assert len(dump.table()) == 3
    assert dump.manifest()["complete"]


def test_rows_in_little_memory_keep_their_order(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "dump", enable=False, **STATISTIC)
    with MadeDump(settings, memory_limit=50_000) as dump:
        dump.at_step_end = True
        for number in range(10):
            dump.call(make_node(f"D/a-op{number}"), [value(number * 100 + n) for n in range(100)])
        dump.end_step()
    assert [float(row[-1]) for row in told(dump)] == list(range(1000))


def test_training_waits_when_rows_take_all_memory(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "dump", enable=False, **STATISTIC)
    dump = MadeDump(settings, memory_limit=50_000)
    dump.sink.open(0)
    pid = writer_pid(tmp_path)
    memory = dump.sink._opened._writer._memory  # type: ignore[union-attr]
    os.kill(pid, signal.SIGSTOP)

    def train() -> None:
        for number in range(20):
            dump.call(make_node(f"D/a-op{number}"), [value(n) for n in range(100)])

    trainer = threading.Thread(target=train)
    trainer.start()
    try:
        time.sleep(0.3)
        assert trainer.is_alive()
        assert memory.counters[DONE] == 0
    finally:
        os.kill(pid, signal.SIGCONT)
    trainer.join(30)
    dump.sink.close()
    assert [float(row[-1]) for row in told(dump)] == list(range(100)) * 20


def test_rows_that_were_handed_over_are_written_though_the_training_is_gone(
    new_dump: NewDump, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = new_dump(False, **STATISTIC)
    dump.sink.open(0)
    dump.call(make_node(), [value(1), value(2)])
    dump.sink._opened._writer._process.hang_up()  # type: ignore[union-attr]
    assert wait_for(lambda: dump.manifest()["failure"])
    assert [row[-1] for row in told(dump)] == ["1.0", "2.0"]
    (iteration,) = dump.manifest()["iterations"]
    assert (iteration["rows"], iteration["complete"]) == (2, False)
    dump.sink.close()


def test_numbers_are_new_once() -> None:
    seen = NumberSet()
    assert seen.add(5)
    assert seen.add_all(np.array([7, 5, 7, 0], np.uint32)) == [0, 7]
    assert seen.add_all(np.array([5000, 7], np.uint32)) == [5000]
    assert not seen.add(5000)
    assert seen.add_all(np.array([], np.uint32)) == []
    assert seen.add(100_000)


def test_columns_have_a_default_however_far_one_looks() -> None:
    column = Column(-1)
    column[3] = 4
    assert column.of(np.array([3, 2, 5000])).tolist() == [4, -1, -1]
    column[9000] = 1
    assert column.of(np.array([9000, 3, 8999])).tolist() == [1, 4, -1]

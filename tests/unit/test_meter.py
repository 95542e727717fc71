"""The meter and its rows: a record for every value, nothing read twice in vain, no row lost."""

from __future__ import annotations

import contextlib
from array import array
from typing import Any

import pytest

from opscope.calls import Calls
from opscope.events import BaseSink, Node, Output, Outside, Phase, Stack, StepRecord
from opscope.messages import forget_said
from opscope.meter import Meter
from opscope.pipeline import Pipeline
from opscope.rows import Rows
from opscope.stats.engine import NumpyEngine
from opscope.stats.memory import PlainMemory, address_of
from opscope.stats.record import INPUT, OUTPUT, ROW_BYTES

torch = pytest.importorskip("torch")

REMEMBERED = 65_536
PARAMETER = Outside("parameter", "weight", "weight")
STATE = Outside("state", "weight.step", "weight")
BUFFER = Outside("buffer", "mean")
BATCH = Outside("batch", "input0")
UNKNOWN = Outside("outside", "")


class Counting(NumpyEngine):
    """An engine that counts what it reads, and has tickets for some of it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0
        self.late: list[tuple[Any, int]] = []
        self.is_late = False

    def fill(self, tensor: Any, address: int) -> bool:
        self.read += 1
        if self.is_late:
            self.late.append((tensor.clone(), address))
            return False
        return super().fill(tensor, address)

    def flush(self) -> Any:
        return Ticket(self) if self.late else None


class Ticket:
    """Fills in what was late."""

    def __init__(self, engine: Counting) -> None:
        self.late, engine.late = engine.late, []

    def ready(self) -> bool:
        return True

    def wait(self) -> None:
        pass

    def deliver(self) -> None:
        import ctypes

        for tensor, address in self.late:
            NumpyEngine().fill(tensor, address)
            ctypes.memset(address, 1, 1)


class Small:
    """Memory with room for few rows, which may run out."""

    def __init__(self, rows: int, buffers: int) -> None:
        self.buffer: Any = bytearray()
        self.cursor = array("q", [0, 0, 0])
        self.rows, self.left = rows, buffers
        self.all: list[bytearray] = []

    def advance(self) -> None:
        if not self.left:
            self.cursor[1] = self.cursor[0]
            raise OSError(28, "No space left on device")
        self.left -= 1
        self.buffer = bytearray(self.rows * ROW_BYTES)
        self.all.append(self.buffer)
        self.cursor[0], self.cursor[1] = 0, len(self.buffer)
        self.cursor[2] = address_of(self.buffer)


CALL = 8


class Setup:
    """A meter and what it said."""

    def __init__(self) -> None:
        self.engine = Counting()
        self.kinds: list[tuple[int, str, tuple[int, ...]]] = []
        self.meter = Meter(self.engine, lambda *kind: self.kinds.append(kind))
        self.made_in = CALL
        self.meter.made_in = lambda tensor: self.made_in
        self.node = Node(0, 0, "n", "add", "add", "", "", Phase.FORWARD, Stack(0, ()))
        self.outputs = [Output(self.node, slot) for slot in range(4)]

    def measure(self, tensor: Any, source: Any = None, side: int = INPUT, **more: Any) -> None:
        self.meter.measure(3, 0, CALL, side, more.pop("slot", 0), tensor, source, **more)

    def end(self) -> list[Any]:
        """The rows of the step."""
        spans, moments, late = self.meter.end_step()
        if late is not None:
            late.deliver()
        return [
            value
            for records, memory in spans
            for value in Rows(records, memory, [self.node], self.meter.kinds.by_number, moments)
        ]


@pytest.fixture
def setup() -> Setup:
    forget_said()
    return Setup()


def test_a_row_says_what_it_is_of(setup) -> None:
    setup.measure(torch.tensor([[1.0, -3.0]]), PARAMETER, slot=2)
    setup.measure(torch.tensor([5, 6, 7], dtype=torch.uint8), setup.outputs[1], OUTPUT, slot=1)
    setup.meter.moments.extend((8, 1, 99))
    first, second = setup.end()
    assert (first.call.step, first.call.index, first.call.node) == (3, 8, setup.node)
    assert (str(first.io), first.slot, first.dtype, first.shape) == ("input", 2, "float32", (1, 2))
    assert (first.row.min, first.row.max, first.row.mean) == (-3.0, 1.0, -1.0)
    assert (str(second.io), second.slot, second.dtype, second.shape) == ("output", 1, "uint8", (3,))
    assert (second.row.min, second.row.max) == (5, 7)
    assert (first.call.stream, first.call.time_us) == (1, 99)
    assert setup.kinds == [(0, "float32", (1, 2)), (1, "uint8", (3,))]
    assert setup.end() == []


@pytest.mark.parametrize(
    ("source", "reads"),
    [(PARAMETER, 1), (STATE, 1), (BUFFER, 1), (BATCH, 2), (UNKNOWN, 2), (None, 2)],
    ids=["parameter", "state", "buffer", "batch", "unknown", "none"],
)
def test_what_only_operators_change_is_read_once(setup, source, reads) -> None:
    tensor = torch.arange(4.0)
    setup.measure(tensor, source)
    setup.measure(tensor, source)
    assert setup.engine.read == reads
    one, other = setup.end()
    assert one.row == other.row
    assert other.row.max == 3.0


@pytest.mark.parametrize(
    "other",
    [
        lambda t: t[1:],
        lambda t: t.reshape(4),
        lambda t: t.t(),
        lambda t: t.view(torch.int32),
        lambda t: t.clone(),
    ],
    ids=["part", "shape", "strides", "dtype", "memory"],
)
def test_another_tensor_of_the_same_source_is_read(setup, other) -> None:
    tensor = torch.arange(4.0).reshape(2, 2)
    setup.measure(tensor, PARAMETER)
    setup.measure(other(tensor), PARAMETER)
    assert setup.engine.read == 2
    _, second = setup.end()
    assert second.shape == tuple(other(tensor).shape)


def test_an_output_of_another_call_of_the_same_node_is_read(setup) -> None:
    tensor = torch.arange(4.0)
    setup.measure(tensor, setup.outputs[0], OUTPUT)
    setup.made_in = CALL + 1
    setup.measure(tensor, setup.outputs[0])
    assert setup.engine.read == 2


def test_an_output_of_a_call_that_is_not_known_is_read(setup) -> None:
    tensor = torch.arange(4.0)
    setup.made_in = -1
    setup.measure(tensor, setup.outputs[0])
    tensor.data += 1  # another call of the node has been given the same memory
    setup.measure(tensor, setup.outputs[0])
    assert [value.row.max for value in setup.end()] == [3.0, 4.0]


def test_a_view_takes_the_row_of_what_it_views(setup) -> None:
    tensor = torch.arange(4.0)
    setup.measure(tensor, setup.outputs[0], OUTPUT)
    setup.measure(
        tensor.view(2, 2), setup.outputs[1], OUTPUT, slot=1, viewed=(tensor, setup.outputs[0])
    )
    assert setup.engine.read == 1
    setup.measure(tensor.view(2, 2), setup.outputs[1])  # and is known by itself from then on
    assert setup.engine.read == 1
    rows = setup.end()
    assert [value.shape for value in rows] == [(4,), (2, 2), (2, 2)]
    assert len({value.row for value in rows}) == 1


def test_a_view_of_what_has_no_row_is_read(setup) -> None:
    tensor = torch.arange(4.0)
    setup.measure(tensor.view(2, 2), setup.outputs[1], OUTPUT, viewed=(tensor, setup.outputs[0]))
    assert setup.engine.read == 1


def test_an_output_is_always_read(setup) -> None:
    tensor = torch.zeros(2)
    setup.measure(tensor, setup.outputs[0], OUTPUT)
    tensor.add_(1)
    setup.measure(tensor, setup.outputs[0], OUTPUT)
    assert [value.row.max for value in setup.end()] == [0.0, 1.0]


def test_rows_are_void_after_a_write_and_when_a_step_ends(setup) -> None:
    tensor = torch.zeros(2)
    setup.measure(tensor, PARAMETER)
    setup.meter.before_write([tensor])
    tensor.add_(1)
    setup.measure(tensor, PARAMETER)
    assert [value.row.max for value in setup.end()] == [0.0, 1.0]
    tensor.add_(1)
    setup.measure(tensor, PARAMETER)
    assert [value.row.max for value in setup.end()] == [2.0]


def test_rows_that_come_late_are_filled_in_with_their_copies(setup) -> None:
    setup.engine.is_late = True
    tensor = torch.tensor([2.0, 4.0])
    setup.measure(tensor, PARAMETER)
    setup.measure(tensor, PARAMETER)
    setup.measure(tensor, setup.outputs[0], OUTPUT, viewed=(tensor, PARAMETER))
    assert setup.engine.read == 1
    spans, _, late = setup.meter.end_step()
    ((records, _),) = spans
    assert not records["valid"].any()
    late.ticket.wait()
    late.deliver()
    assert records["valid"].all()
    assert records["mean"].tolist() == [3.0] * 3
    assert records["io"].tolist() == [INPUT, INPUT, OUTPUT]


def test_what_has_no_numbers_has_no_row(setup, capsys) -> None:
    setup.measure(torch.eye(3).to_sparse(), PARAMETER)
    setup.measure(torch.empty(2, device="meta"), PARAMETER)
    assert setup.end() == []
    assert setup.kinds == []
    assert "no statistics for sparse_coo tensors" in capsys.readouterr().err


def test_records_go_on_in_the_next_buffer(setup) -> None:
    memory = Small(rows=2, buffers=3)
    setup.meter.use(memory)
    for number in range(5):
        setup.measure(torch.tensor([float(number)]), slot=number)
    spans, _, _ = setup.meter.end_step()
    assert [len(records) for records, _ in spans] == [2, 2, 1]
    assert all(where is memory for _, where in spans)
    assert [row["max"] for records, _ in spans for row in records] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert setup.meter.held == 0


def test_memory_that_runs_out_costs_no_row(setup) -> None:
    memory = Small(rows=2, buffers=1)
    setup.meter.use(memory)
    for number in range(5):
        setup.measure(torch.tensor([float(number)]), PARAMETER, slot=number)
    spans, _, _ = setup.meter.end_step()
    assert [where is memory for _, where in spans] == [True, False]
    assert isinstance(setup.meter.memory, PlainMemory)
    assert [row["slot"] for records, _ in spans for row in records] == [*range(5)]
    assert [row["max"] for records, _ in spans for row in records] == [0.0, 1.0, 2.0, 3.0, 4.0]
    setup.measure(torch.ones(1))
    assert len(setup.end()) == 1


def test_memory_that_has_no_room_from_the_start(setup) -> None:
    setup.meter.use(Small(rows=2, buffers=0))
    setup.measure(torch.ones(1))
    (value,) = setup.end()
    assert value.row.max == 1.0


def test_a_change_of_memory_within_a_step_keeps_what_was_written(setup) -> None:
    setup.measure(torch.zeros(1), PARAMETER)
    other = Small(rows=4, buffers=1)
    setup.meter.use(other)
    setup.measure(torch.zeros(1), BUFFER)
    assert setup.meter.held == 1
    spans, _, _ = setup.meter.end_step()
    assert [where is other for _, where in spans] == [False, True]
    assert [len(records) for records, _ in spans] == [1, 1]


class FakeHook:
    """Native code, as the meter sees it."""

    def __init__(self) -> None:
        self.memories: list[Any] = []
        self.written: list[Any] = []
        self.copies = array("q")

    def set_memory(self, memory: Any) -> None:
        self.memories.append(memory)

    def note_write(self, tensor: Any) -> None:
        self.written.append(tensor)

    def launch_all(self) -> None:
        pass

    def end_step(self) -> tuple[bytes, bytes]:
        return array("q", [4, 0, 77]).tobytes(), self.copies.tobytes()


def test_native_code_is_told_of_memory_and_asked_for_moments(setup) -> None:
    hook = setup.meter.hook = FakeHook()
    full = Small(rows=1, buffers=1)
    setup.meter.use(full)
    setup.meter.moments.extend((3, 0, 66))
    for _ in range(2):
        setup.measure(torch.ones(1))
    assert hook.memories == [full, setup.meter.memory]  # told again when the memory ran out
    tensor = torch.ones(1)
    setup.meter.before_write([tensor])
    assert hook.written == [tensor]
    _, moments, _ = setup.meter.end_step()
    assert moments.tolist() == [3, 0, 66, 4, 0, 77]


def test_copies_of_native_code_wait_for_the_same_ticket(setup) -> None:
    hook = setup.meter.hook = FakeHook()
    setup.engine.is_late = True
    setup.measure(torch.tensor([2.0, 4.0]))
    memory = setup.meter.memory
    start = memory.cursor[2]
    hook.copies.extend((start, start + ROW_BYTES))
    memory.cursor[0] += ROW_BYTES
    spans, _, late = setup.meter.end_step()
    late.deliver()
    ((records, _),) = spans
    assert records["mean"].tolist() == [3.0, 3.0]
    assert records["valid"].all()


def test_native_code_and_python_write_one_after_the_other(setup) -> None:
    """The cursor is shared: what native code took is part of the span."""
    setup.measure(torch.zeros(1))
    cursor = setup.meter.memory.cursor
    cursor[0] += 2 * ROW_BYTES  # two records of native code
    setup.measure(torch.ones(1))
    spans, _, _ = setup.meter.end_step()
    assert sum(len(records) for records, _ in spans) == 4


def test_a_row_that_cannot_be_computed_is_not_delivered() -> None:
    class Sink(BaseSink):
        def __init__(self) -> None:
            self.counts: list[int] = []

        def stats(self, rows: Rows) -> None:
            self.counts += [value.row.count for value in rows]

    class Failing(NumpyEngine):
        def fill(self, tensor: Any, address: int) -> bool:
            if tensor.numel() == 2:
                raise MemoryError
            return super().fill(tensor, address)

    sink = Sink()
    pipeline = Pipeline([sink], Failing())
    pipeline.begin_step(0)
    node = Node(0, 0, "a-op0", "a", "a", "", "", Phase.FORWARD, Stack(0, ()))
    pipeline.add_node(node)
    pipeline.open(0)
    for size in (1, 2, 3):
        with contextlib.suppress(MemoryError):
            pipeline.meter.measure(0, 0, size, OUTPUT, 0, torch.ones(size), None)
    pipeline.end_step(lambda: StepRecord(0, Calls(), [], 0.0))
    assert sink.counts == [1, 3]


def test_kinds_in_use_are_known_however_many_there_are(setup) -> None:
    """After very many shapes, a row of an old one still has a number that says what it is."""
    old = torch.ones(1)
    setup.measure(old)
    assert setup.end()[0].shape == (1,)
    for number in range(1, REMEMBERED + 1):
        setup.meter._new_kind(_Shape(number))
    setup.measure(old)
    assert setup.end()[0].shape == (1,)


def test_kinds_that_native_code_adds_make_python_forget_too(setup) -> None:
    old = torch.ones(1)
    setup.measure(old)
    setup.end()
    for number in range(2, REMEMBERED + 3):
        setup.meter.kind_number("bool", (number,))
    setup.measure(old)
    assert setup.end()[0].shape == (1,)


class _Shape:
    """As much of a tensor as a kind needs."""

    dtype = torch.float64

    def __init__(self, number: int) -> None:
        self.shape = torch.Size((number,))

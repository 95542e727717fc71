"""Kinds of devices by registry: a kind that is added needs nothing changed elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import opscope
from opscope.capture.kept_state import RandomStates
from opscope.judge.parsing import make
from opscope.printing import operator as printing
from opscope.record.step_facts import PendingNumber
from opscope.stats.devices import (
    KINDS,
    DeviceKind,
    OnDevice,
    Tickets,
    is_known,
    is_late,
    stream_of,
    used_kind,
)
from opscope.stats.engine import Engine
from opscope.stats.memory import address_of
from opscope.stats.record import ROW_BYTES
from opscope.watch import compared


class RowsOfNothing:
    """Rows of tensors without memory, which say how many were asked for."""

    skipped_in_capture = 0

    def __init__(self, on_device: OnDevice) -> None:
        self.devices: Mapping[int, Any] = {0: self}
        self.submitted: list[int] = []
        self.written: list[Any] = []
        self.gathered: list[bool] = []
        on_device(0, self)

    def submit(self, tensor: Any, address: int) -> None:
        self.submitted.append(address)

    def gather(self, on: bool) -> None:
        self.gathered.append(on)

    def before_write(self, written: Any) -> None:
        self.written.append(written)

    def flush(self) -> TicketOfNothing:
        found, self.submitted = self.submitted, []
        return TicketOfNothing(found)


class TicketOfNothing:
    def __init__(self, addresses: list[int]) -> None:
        self.empty = not addresses
        self.delivered = 0
        self.waited = 0

    def ready(self) -> bool:
        return bool(self.waited)

    def wait(self) -> None:
        self.waited += 1

    def deliver(self) -> None:
        self.delivered += 1


class Coming:
    """A number that arrives at the second look."""

    def __init__(self) -> None:
        self.looks = 0

    def get(self) -> torch.Tensor | None:
        self.looks += 1
        return torch.tensor(2.5) if self.looks > 1 else None


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceKind]:
    """A kind of device for torch's tensors without memory."""
    made = DeviceKind(
        rows=lambda precision, on_device: RowsOfNothing(on_device),
        count=lambda torch: 3,
        is_used=lambda torch: True,
        name=lambda torch: "nothing",
        target="None",
        stream=lambda tensor: 7,
        is_capturing=lambda torch: True,
        random_states=lambda torch: ["first", "second"],
        pair=lambda a, b, rtol, atol, *, equal_nan: (rtol, atol, 0.0, 1, 2, 3, 4),
        send=lambda tensor: Coming(),
    )
    monkeypatch.setitem(KINDS, "meta", made)
    return made


def test_a_tensor_of_a_new_kind_goes_to_its_rows(kind: DeviceKind) -> None:
    engine, tensor = Engine(), torch.empty(3, device="meta")
    met: list[int] = []
    engine.tell_devices(lambda index, device: met.append(index))
    record = bytearray(ROW_BYTES)
    assert engine.flush() is None
    assert not engine.has_device
    assert not engine.fill(tensor, address_of(record))
    assert engine.has_device
    assert met == [0]
    engine.before_write(tensor)
    with engine.gathering():
        pass
    (rows,) = engine._rows.values()
    assert isinstance(rows, RowsOfNothing)
    assert (rows.submitted, rows.gathered) == ([address_of(record)], [True, False])
    assert rows.written[0] is tensor
    ticket = engine.flush()
    assert ticket is not None and not ticket.ready()
    ticket.wait()
    assert ticket.ready()
    assert engine.flush() is None, "there is nothing new"


def test_the_cpu_needs_no_kind(kind: DeviceKind) -> None:
    engine = Engine()
    record = bytearray(ROW_BYTES)
    assert engine.fill(torch.ones(3), address_of(record))
    assert not engine.has_device


def test_kinds_that_are_known(kind: DeviceKind, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_known(torch.ones(1))
    assert is_known(torch.empty(1, device="meta"))
    assert used_kind(torch) is not None
    monkeypatch.delitem(KINDS, "meta")
    assert not is_known(torch.empty(1, device="meta"))


def test_numbers_of_a_kind_are_not_waited_for(kind: DeviceKind) -> None:
    tensor = torch.empty((), device="meta")
    assert is_late(tensor) and not is_late(torch.ones(1))
    assert (stream_of(tensor), stream_of(torch.ones(1))) == (7, 0)
    number = PendingNumber.of(tensor)
    assert number.value is None
    assert number.value == 2.5
    assert PendingNumber.of(torch.tensor(3.0)).value == 3.0


def test_a_kind_has_random_states_that_a_hit_saves(kind: DeviceKind) -> None:
    states = RandomStates().tensors()
    assert (states["meta:0"], states["meta:1"]) == ("first", "second")


def test_a_kind_compares_where_both_tensors_are_on_one_device(kind: DeviceKind) -> None:
    tensor = torch.empty(3, device="meta")
    watchpoint = make("WNC", rtol=0.25, atol=0.5)
    found = compared._compare(watchpoint, tensor, tensor)
    assert isinstance(found, compared.Difference)
    assert (found.mean, found.mean_abs_b, found.nan_b) == (0.25, 0.5, 4)


def test_a_kind_tells_that_a_graph_is_captured(kind: DeviceKind) -> None:
    assert printing._is_captured([torch.empty(1, device="meta")])
    assert not printing._is_captured([torch.ones(1)])


def test_no_other_code_asks_for_one_kind_of_device() -> None:
    package = Path(opscope.__file__).parent
    asking = [path for path in package.rglob("*.py") if "is_cuda" in path.read_text()]
    assert [path for path in asking if path.parent.name != "cuda"] == []


def test_tickets_of_several_kinds_are_one() -> None:
    parts = [TicketOfNothing([1]), TicketOfNothing([])]
    tickets = Tickets(parts)
    assert not tickets.empty
    assert not tickets.ready()
    tickets.wait()
    tickets.deliver()
    assert tickets.ready()
    assert [part.delivered for part in parts] == [1, 1]
    assert Tickets(parts[1:]).empty

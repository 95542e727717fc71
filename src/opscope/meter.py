"""Turns values into rows: where each record goes, what need not be read again, what comes late."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from opscope.events import Output, Source
from opscope.messages import say_once
from opscope.rows import ValueTypes
from opscope.stats.devices import Ticket
from opscope.stats.engine import Engine
from opscope.stats.glance import Glance, glance
from opscope.stats.memory import ADDRESS, END, NEXT, PlainMemory, RowMemory, records_in
from opscope.stats.native_cpu import copy_records
from opscope.stats.record import BAD, BAD_END, HEAD, INPUT, ROW_BYTES, VALID
from opscope.stats.torch_values import (
    dtype_name,
    is_plain,
    shape_of,
    storage_start,
    unsupported_reason,
    with_memory,
)
from opscope.value_type import ValueType

Span = tuple[NDArray[np.void], RowMemory]
"""Records that follow each other, and the memory they are in."""


_KINDS_AT_HAND = 4096
_NONE_BAD = bytes(BAD_END - BAD)
OnKind = Callable[[int, str, tuple[int, ...]], None]


class _Measured(NamedTuple):
    """A row of this step, and the tensor it is of."""

    identity: tuple[Any, ...]
    address: int
    filled: bool
    clock: int
    """The time at which it was read, counted in writes."""
    made_in: int
    """The call that made the tensor what it is."""


class Late(NamedTuple):
    """The work that must be done before the rows of a step can be read."""

    ticket: Ticket
    copies: array[int]
    """Addresses of records and of those that get the same numbers, in turn."""

    def deliver(self) -> None:
        """Fill in the records that were waiting."""
        self.ticket.deliver()
        copy_records(self.copies)


class RowHook(Protocol):
    """Native code that writes records too."""

    def set_memory(self, memory: RowMemory) -> None:
        """Records go here now."""

    def launch_all(self) -> None:
        """Enqueue what it has collected for devices."""

    def note_write(self, tensor: Any) -> None:
        """Note that something is about to write to this tensor in place."""

    def glance(self, records: NDArray[np.void]) -> Glance:
        """Look at records that follow each other in memory."""

    def has_bad(self) -> bool:
        """Tell whether a row of the step so far counts NaN or Inf."""

    def end_step(self) -> tuple[bytes, bytes]:
        """Moments of its calls and copies of its records, as the numbers of arrays."""


class Meter:
    """Writes the records of one rank. One thread at a time uses it."""

    def __init__(self, engine: Engine, on_kind: OnKind) -> None:
        self.engine = engine
        self.kinds = ValueTypes()
        self.moments = array("q")
        """Index, stream and time in µs of every call with rows in this step."""
        self._on_kind = on_kind
        self._kind_of: dict[tuple[Any, ...], int] = {}
        self._rows: dict[Source, _Measured] = {}
        self._written: dict[int, int] = {}
        self._clock = 0
        self._copies = array("q")
        self._spans: list[Span] = []
        self._memory: RowMemory = PlainMemory()
        self._start = 0
        self.hook: RowHook | None = None
        self.on_write: Callable[[Any], None] = lambda tensor: None
        """Called before something writes to a tensor; native code calls it for held ones only."""
        self.made_in: Callable[[Any], int] = lambda tensor: -1
        """The index of the call that made a tensor what it is; -1 if none of this step did."""
        self.found_bad = False
        """Set by a row with NaN or Inf; whoever looks at it clears it."""
        self._has_bad = False
        """True if such a row came in the step under way."""

    @property
    def memory(self) -> RowMemory:
        """The memory that records go to now."""
        return self._memory

    @property
    def held(self) -> int:
        """The least number of rows the memory holds that have not been delivered."""
        return sum(len(records) for records, _ in self._spans)

    def use(self, memory: RowMemory) -> None:
        """Write into this memory from here on."""
        self._close_span()
        self._set_memory(memory)

    def take(self) -> int:
        """The offset of a new record in the memory's buffer."""
        cursor = self._memory.cursor
        if cursor[NEXT] == cursor[END]:
            self.advance()
            cursor = self._memory.cursor
        offset = cursor[NEXT]
        cursor[NEXT] = offset + ROW_BYTES
        return offset

    def advance(self) -> None:
        """Make room for more records, if need be in plain memory."""
        self._close_span()
        try:
            self._memory.advance()
        except OSError:  # the memory's owner has been told, and says so
            self._set_memory(PlainMemory())
            self._memory.advance()
        self._start = self._memory.cursor[NEXT]

    def _set_memory(self, memory: RowMemory) -> None:
        self._memory = memory
        self._start = memory.cursor[NEXT]
        if self.hook is not None:
            self.hook.set_memory(memory)

    def measure(
        self,
        step: int,
        node: int,
        call: int,
        side: int,
        slot: int,
        tensor: Any,
        source: Source | None,
        viewed: tuple[Any, Source] | None = None,
    ) -> None:
        """Write the row of a value.

        `source` is where an input came from, or which output this is. If the output has the very
        elements of an input, `viewed` is that input and where it came from.
        """
        if not is_plain(tensor):
            if reason := unsupported_reason(tensor):
                say_once(f"no statistics for {reason}")
                return
            tensor = with_memory(tensor)
        number = self._kind_of.get((tensor.dtype, tensor.shape))
        if number is None:
            number = self._new_kind(tensor)
        offset = self.take()
        buffer = self._memory.buffer
        address = self._memory.cursor[ADDRESS] + offset
        HEAD.pack_into(buffer, offset, 0, side, 0, slot, step, node, call, number)
        known = None
        if viewed is not None:
            known = self._known(*viewed)
        elif side == INPUT:
            known = self._known(tensor, source)
        if known is not None:
            filled = known.filled
            if filled:
                copy_records(array("q", (known.address, address)))
            else:
                self._copies.extend((known.address, address))
        else:
            filled = self.engine.fill(tensor, address)
            if filled:
                buffer[offset] = VALID
        if filled and buffer[offset + BAD : offset + BAD_END] != _NONE_BAD:
            self.found_bad = self._has_bad = True
        if source is not None and _lasts(source):
            made_in = self.made_in(tensor) if side == INPUT else call
            if made_in < 0 and isinstance(source, Output):
                return  # of which call is not known: the next one's may lie in the same memory
            self._rows[source] = _Measured(_identity(tensor), address, filled, self._clock, made_in)

    def before_write(self, tensors: Iterable[Any]) -> None:
        """Forget the rows of these tensors, which something is about to write to in place."""
        for tensor in tensors:
            if self.hook is not None:
                self.hook.note_write(tensor)
            self._note_write(tensor)

    def before_native_write(self, tensors: Iterable[Any]) -> None:
        """Native code is about to do so, and has seen to its own rows."""
        for tensor in tensors:
            self._note_write(tensor)

    def _note_write(self, tensor: Any) -> None:
        self._clock += 1
        self._written[storage_start(tensor)] = self._clock
        self.on_write(tensor)
        if not tensor.is_cpu:
            self.engine.before_write(tensor)

    def so_far(self) -> list[Span]:
        """The records of the step under way; at its end they are not cut here."""
        return [*self._spans, *self._open_span()]

    @property
    def may_be_bad(self) -> bool:
        """False if no row of the step under way counts NaN or Inf; those of a GPU come later."""
        if self._has_bad or self.engine.has_device:
            return True
        return self.hook is not None and self.hook.has_bad()

    def glance(self, records: NDArray[np.void]) -> Glance:
        """Look at records of a span."""
        return glance(records) if self.hook is None else self.hook.glance(records)

    def settle(self) -> None:
        """Wait for the rows of the step so far that a device is still computing."""
        if not self.engine.has_device:
            return
        ticket, copies = self._flush()
        if ticket is not None:
            ticket.wait()
            Late(ticket, copies).deliver()

    def end_step(self) -> tuple[list[Span], array[int], Late | None]:
        """The records of the step, the moments of its calls, and what they wait for."""
        ticket, copies = self._flush()
        self._close_span()
        spans, self._spans = self._spans, []
        moments, self.moments = self.moments, array("q")
        self._rows.clear()
        self._written.clear()
        self._has_bad = False
        return spans, moments, None if ticket is None else Late(ticket, copies)

    def _flush(self) -> tuple[Ticket | None, array[int]]:
        """Enqueue what devices have not been given yet; nothing waits for the rows of before."""
        self.take_native()
        ticket = self.engine.flush()
        copies, self._copies = self._copies, array("q")
        self._rows = {k: known for k, known in self._rows.items() if known.filled}
        return ticket, copies

    def take_native(self) -> None:
        """Have native code enqueue what waits, and take over what it knows of this step."""
        if self.hook is not None:
            self.hook.launch_all()
            moments, copies = self.hook.end_step()
            self.moments.frombytes(moments)
            self._copies.frombytes(copies)

    def _known(self, tensor: Any, source: Source | None) -> _Measured | None:
        known = self._rows.get(source) if source is not None else None
        if known is None or known.identity != _identity(tensor):
            return None
        if known.made_in != self.made_in(tensor):
            return None
        return known if self._written.get(storage_start(tensor), 0) <= known.clock else None

    def _new_kind(self, tensor: Any) -> int:
        kind = dtype_name(tensor), shape_of(tensor)
        number = self.kind_number(*kind)
        if len(self._kind_of) >= _KINDS_AT_HAND:
            self._kind_of.clear()
        self._kind_of[tensor.dtype, tensor.shape] = number
        return number

    def kind_number(self, dtype: str, shape: tuple[int, ...]) -> int:
        """The number of a dtype with a shape."""
        kind = ValueType(dtype, shape)
        number = self.kinds.number_of.get(kind)
        if number is None:
            number = self.kinds.add(kind)
            self._on_kind(number, dtype, shape)
        return number

    def _close_span(self) -> None:
        self._spans += self._open_span()
        self._start = self._memory.cursor[NEXT]

    def _open_span(self) -> list[Span]:
        """The records that were written last, if there are any."""
        end = self._memory.cursor[NEXT]
        if end <= self._start:
            return []
        return [(records_in(self._memory.buffer, self._start, end), self._memory)]


def _lasts(source: Source) -> bool:
    """Tell whether what comes from this source is known to change by operators only."""
    return isinstance(source, Output) or source.kind in ("parameter", "buffer", "state")


def _identity(tensor: Any) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype

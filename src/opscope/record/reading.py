"""Reading a ring, also while it is written and after its process is gone.

Whatever a file says of itself is checked: it may come from elsewhere, or be cut off.
"""

from __future__ import annotations

import functools
import json
import struct
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opscope.errors import OpscopeError
from opscope.names import GRADIENTS, ROOT, module_scope, node_name, parent_of
from opscope.native import shared
from opscope.record.edges import InputFrom, edges_of
from opscope.record.lines import SourceLine, lines_of
from opscope.record.ring import Sizes
from opscope.regular import read_regular

RECORD = np.dtype(
    {
        "names": list(shared.RING_RECORD),
        "formats": [kind for kind, _ in shared.RING_RECORD.values()],
        "offsets": [at for _, at in shared.RING_RECORD.values()],
        "itemsize": shared.RING_RECORD_BYTES,
    }
)
PHASES = {
    shared.SETUP: "setup",
    shared.FORWARD: "forward",
    shared.BACKWARD: "backward",
    shared.OPTIMIZER: "optimizer",
    shared.EVAL: "eval",
    shared.DATA: "data",
}
DEVICES = {0: "cpu", 1: "cuda", 13: "xla", 14: "hpu", 12: "xpu", 17: "meta", 20: "privateuse"}
_DTYPES = {number: name for name, number in shared.DTYPES.items()}
_MOST_OPERATORS = 1 << 14
"""So many are told of; a step of a large model has a few thousand."""
_SAME = ("step", "scope", "op", "phase")
"""Operators that have all of these in common are counted to tell them apart."""
_SMALLEST, _LARGEST = shared.RING_HEADER_BYTES, 1 << 32
_MARKER = struct.Struct("<IiiiQQ32s")
_LENGTH = struct.Struct("<I")


class Marker(NamedTuple):
    """A note of how the process ends."""

    kind: int
    process: int
    number: int
    thread: int
    time_ns: int
    detail: int
    text: str


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator, as the ring has it."""

    sequence: int
    step: int
    op: str
    inner: str
    scope: str
    phase: str
    thread: int
    start_ns: int
    end_ns: int
    finished: bool
    raised: bool
    name: str = ""
    """The node's name: given by the capture, or made here in the same way."""
    autograd: str = ""
    source: tuple[SourceLine, ...] = ()
    dtype: str = ""
    numel: int = 0
    address: int = 0
    bytes: int = 0
    device: str = ""
    stream: int = 0
    group: str = ""
    collective: int = 0
    node: int | None = None
    """The node's number in the run, where the capture has given one."""
    inputs: tuple[InputFrom, ...] = ()
    """The sources of its inputs, if the capture has told."""

    @property
    def op_type(self) -> str:
        """The operator without torch's own library, as nodes have it in their names."""
        return _op_type(self.op)

    @property
    def is_collective(self) -> bool:
        """True if several ranks have to take part."""
        return bool(self.collective)


@dataclass
class RecordedNames:
    """The names that numbers in records stand for, by kind and number."""

    by_kind: dict[int, dict[int, str]] = field(default_factory=dict)

    def of(self, kind: int, number: int) -> str:
        """The name with a number, empty if there is none."""
        return self.by_kind.get(kind, {}).get(number, "")


class RingReader:
    """The content of a ring at one moment."""

    def __init__(self, content: bytes, origin: str = "the ring") -> None:
        self._content = content
        self._origin = origin
        if len(content) < _SMALLEST:
            raise OpscopeError(f"{origin} is cut off: it has {len(content)} bytes")
        if self.number("magic") != shared.RING_MAGIC:
            raise OpscopeError(f"{origin} is no recording, or one of another version of opscope")
        self.sizes = self._sizes()
        self._edges: dict[int, tuple[InputFrom, ...]] = {}
        self._lines: dict[tuple[int, int | None], tuple[SourceLine, ...]] = {}

    @classmethod
    def open(cls, path: Path) -> RingReader:
        """Read a file."""
        try:
            return cls(read_regular(path), str(path))
        except OSError as error:
            raise OpscopeError(f"{path} cannot be read: {error.strerror}") from error

    def number(self, name: str) -> int:
        """A number of the header."""
        (value,) = struct.unpack_from("<Q", self._content, shared.RING_HEADER[name])
        return int(value)

    def _sizes(self) -> Sizes:
        names = ("slots", "names_bytes", "step_slots", "step_bytes", "batch_bytes", "random_bytes")
        sizes = Sizes(*(self.number(name) for name in names))
        plausible = all(0 < self.number(name) < _LARGEST for name in names)
        if not plausible or self.number("record_bytes") != shared.RING_RECORD_BYTES:
            raise OpscopeError(f"{self._origin} is damaged: its header makes no sense")
        if sizes.slots & (sizes.slots - 1) or sizes.total > len(self._content):
            raise OpscopeError(f"{self._origin} is damaged: it is shorter than its header says")
        return sizes

    @property
    def pid(self) -> int:
        """The process that wrote it."""
        return self.number("pid")

    @property
    def step(self) -> int:
        """The step under way."""
        return self.number("step")

    @property
    def state(self) -> int:
        """The state it is in: still being written, ended well, or exported."""
        return self.number("state")

    def real_time(self, monotonic_ns: int) -> float:
        """Seconds since the epoch of a moment in a record."""
        since = monotonic_ns - self.number("started_mono")
        return (self.number("started_real") + since) / 1e9

    @cached_property
    def names(self) -> RecordedNames:
        """All names, as far as they are whole."""
        names = RecordedNames()
        at = shared.RING_HEADER_BYTES
        end = at + min(self.number("names_used"), self.sizes.names_bytes)
        while at + shared.NAME_HEAD_BYTES <= end:
            size, kind, number = struct.unpack_from("<III", self._content, at)
            at += shared.NAME_HEAD_BYTES
            if at + size > end:
                break
            text = self._content[at : at + size].decode("utf-8", "replace")
            names.by_kind.setdefault(kind, {})[number] = text
            at += size
        return names

    @property
    def markers(self) -> list[Marker]:
        """The notes of how the process ends, in their order; only those of the process itself."""
        count = min(self.number("marker_count"), shared.RING_MOST_MARKERS)
        found = []
        for index in range(count):
            at = shared.RING_MARKERS + index * shared.RING_MARKER_BYTES
            kind, process, number, thread, moment, detail, text = _MARKER.unpack_from(
                self._content, at
            )
            if kind and process == self.pid:
                words = text.split(b"\0")[0].decode("utf-8", "replace")
                found.append(Marker(kind, process, number, thread, moment, detail, words))
        return found

    @cached_property
    def records(self) -> NDArray[np.void]:
        """The records that are whole, oldest first."""
        all_records = np.frombuffer(self._content, RECORD, self.sizes.slots, self.sizes.records_at)
        head = self.number("head")
        sequence = all_records["sequence"]
        places = (sequence - np.uint64(1)) & np.uint64(self.sizes.slots - 1)
        valid = (sequence > 0) & (sequence <= head) & (all_records["start"] > 0)
        valid &= places == np.arange(self.sizes.slots, dtype=np.uint64)
        kept = all_records[valid]
        return kept[np.argsort(kept["sequence"], kind="stable")]

    @cached_property
    def operators(self) -> list[OperatorCall]:
        """The latest operators in the ring, oldest first, with their names."""
        counts: dict[tuple[int, ...], int] = {}
        found = []
        for record in self.records[-_MOST_OPERATORS:]:
            key = tuple(int(record[name]) for name in _SAME)
            index = counts[key] = counts.get(key, -1) + 1
            found.append(self._operator(record, index))
        return found

    def operator(self, sequence: int) -> OperatorCall | None:
        """One operator, as it is in `operators`, or one that is too old for that."""
        records = self.records
        at = int(np.searchsorted(records["sequence"], sequence))
        if at == len(records) or int(records["sequence"][at]) != sequence:
            return None
        listed = max(0, len(records) - _MOST_OPERATORS)  # those are counted among themselves
        first = listed if at >= listed else 0
        alike = [records[name][first:at] == records[name][at] for name in _SAME]
        return self._operator(records[at], int(np.logical_and.reduce(alike).sum()))

    def _operator(self, record: np.void, index: int) -> OperatorCall:
        names = self.names
        op = names.of(shared.NAME_OPERATOR, int(record["op"])) or "(unknown)"
        phase = PHASES.get(int(record["phase"]), "forward")
        flags, end = int(record["flags"]), int(record["end"])
        number = int(record["node"]) - 1 if record["node"] else None
        node = "" if number is None else names.of(shared.NAME_NODE, number)
        scope = module_scope(parent_of(node)) if node else ""
        scope = scope or names.of(shared.NAME_SCOPE, int(record["scope"])) or ROOT
        made = OperatorCall(
            sequence=int(record["sequence"]),
            step=int(record["step"]),
            op=op,
            inner=names.of(shared.NAME_OPERATOR, int(record["inner"])),
            scope=scope,
            phase=phase,
            thread=int(record["thread"]),
            start_ns=int(record["start"]),
            end_ns=end,
            finished=end != 0 and not flags & shared.RAISED,
            raised=bool(flags & shared.RAISED),
            autograd=names.of(shared.NAME_OPERATOR, int(record["autograd"])),
            source=self._lines_of(int(record["site"]), number),
            dtype=_DTYPES.get(int(record["dtype"]), "") if record["bytes"] else "",
            numel=int(record["numel"]),
            address=int(record["address"]),
            bytes=int(record["bytes"]),
            device=_device(record),
            stream=int(record["stream"]),
            group=names.of(shared.NAME_GROUP, int(record["group"])),
            collective=int(record["collective"]) if flags & shared.COLLECTIVE else 0,
            node=number,
            inputs=() if number is None else self._inputs_of(number),
        )
        before = GRADIENTS if phase == "backward" else ""
        own = node_name(f"{before}{scope}", made.op_type, index)
        object.__setattr__(made, "name", node or own)
        return made

    def _lines_of(self, site: int, node: int | None) -> tuple[SourceLine, ...]:
        known = self._lines.get((site, node))
        if known is None:
            of = functools.partial(self.names.of, shared.NAME_LINES)
            found = tuple(lines_of(self.names.of(shared.NAME_SITE, site)))
            if not found and node is not None:
                found = tuple(lines_of(of(node), of))
            known = self._lines[site, node] = found
        return known

    def _inputs_of(self, node: int) -> tuple[InputFrom, ...]:
        known = self._edges.get(node)
        if known is None:
            text = self.names.of(shared.NAME_EDGES, node)
            known = self._edges[node] = tuple(edges_of(text))
        return known

    @property
    def last_operator(self) -> OperatorCall | None:
        """The one in flight, the latest if there are several, else the last that ran."""
        in_flight = self.in_flight
        if in_flight:
            return in_flight[-1]
        return self.operators[-1] if self.operators else None

    @property
    def in_flight(self) -> list[OperatorCall]:
        """Operators that had begun and not ended."""
        return [each for each in self.operators if not each.end_ns]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The facts of the latest steps, oldest first."""
        head, sizes = self.number("steps_head"), self.sizes
        found = []
        for number in range(max(0, head - sizes.step_slots), head):
            at = sizes.steps_at + number % sizes.step_slots * sizes.step_bytes
            facts = _json_at(self._content, at, sizes.step_bytes)
            if facts is not None:
                found.append(facts)
        return found

    def op_type(self, number: int) -> str:
        """The operator with a number, as nodes have it in their names."""
        return _op_type(self.names.of(shared.NAME_OPERATOR, number) or "(unknown)")

    def blob(self, name: str) -> tuple[dict[str, Any], bytes] | None:
        """The last batch or the random states: their description, and the bytes."""
        at = self.sizes.batch_at if name == "batch" else self.sizes.random_at
        room = self.sizes.batch_bytes if name == "batch" else self.sizes.random_bytes
        used = min(self.number(f"{name}_used"), room)
        about = _json_at(self._content, at, used)
        if about is None:
            return None
        (size,) = _LENGTH.unpack_from(self._content, at)
        return about, self._content[at + _LENGTH.size + size : at + used]


def _op_type(op: str) -> str:
    library, _, name = op.rpartition("::")
    return name if library in ("", "aten") else f"{library}_{name}".replace("::", "_")


def _json_at(content: bytes, at: int, room: int) -> dict[str, Any] | None:
    """An object that stands at an offset after its length."""
    if room <= _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack_from(content, at)
    if not 0 < size <= room - _LENGTH.size:
        return None
    try:
        found = json.loads(content[at + _LENGTH.size : at + _LENGTH.size + size])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _device(record: np.void) -> str:
    if not record["bytes"] and not record["numel"]:
        return ""
    kind, index = DEVICES.get(int(record["device"]), "device"), int(record["device_index"])
    return kind if index < 0 or kind == "cpu" else f"{kind}:{index}"

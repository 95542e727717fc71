"""The subject of a file or a row, and what it is called."""

from __future__ import annotations

from typing import NamedTuple

from opscope.dump.format import csvtext
from opscope.dump.format.names import NameBook, safe
from opscope.dump.layout import NPY, DumpFolder

FORMAT = "DefaultFormat"


class Label(NamedTuple):
    """An operator or parameter as files and rows call it, made once for all its values."""

    id: int
    prefix: str
    """`{op_type}.{op_name}`"""
    head: str
    """The first two fields of a row: op type and full name."""
    name: str
    """The full name."""


class StoredType(NamedTuple):
    """The original data type and the shape of a value, and how its file has the elements."""

    dtype: str
    shape: tuple[int, ...]
    format: str = FORMAT


class Moment(NamedTuple):
    """The time and place in a step at which a value was seen."""

    task: int
    stream: int
    time_us: int
    io: str
    slot: int


class Sighting(NamedTuple):
    """A value as it passes: where it goes, whose it is, and when."""

    place: DumpFolder
    label: Label
    moment: Moment


class Subject(NamedTuple):
    """One value."""

    label: Label
    moment: Moment
    kind: StoredType

    @property
    def file_name(self) -> str:
        """The name of its file, which may be too long for the file system."""
        task, stream, time_us, io, slot = self.moment
        return (
            f"{self.label.prefix}.{task}.{stream}.{time_us}.{io}.{slot}"
            f".{self.kind.format}.{self.kind.dtype}{NPY}"
        )


class LabelBook:
    """The label of each operator and parameter, made when it is first met."""

    def __init__(self) -> None:
        self._names = NameBook()
        self.by_number: dict[int, Label] = {}
        self._labels: dict[tuple[int, str, str], Label] = {}

    def label(self, graph: int, op_type: str, full_name: str) -> Label:
        """The label of an operator or parameter of this graph."""
        key = graph, op_type, full_name
        label = self._labels.get(key)
        if label is None:
            label = self._labels[key] = self._new(graph, op_type, full_name)
            self.by_number[label.id] = label
        return label

    def _new(self, graph: int, op_type: str, full_name: str) -> Label:
        prefix = f"{safe(op_type)}.{self._names.op_name(graph, op_type, full_name)}"
        head = f"{csvtext.field(op_type)},{csvtext.field(full_name)}"
        return Label(len(self._labels), prefix, head, full_name)

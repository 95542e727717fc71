"""What a file or a row is about, and what it is called."""

from __future__ import annotations

from typing import NamedTuple

PARAMETER = "Parameter"
FORMAT = "DefaultFormat"
CONSTANTS = -1
"""Stands for the directory of constants, where a number of an iteration stands."""


class Place(NamedTuple):
    """A directory of the dump: `{graph}/{iteration}`, or `{graph}/constants`."""

    graph: int
    iteration: int

    @property
    def path(self) -> str:
        """The directory, from that of the network."""
        iteration = "constants" if self.iteration == CONSTANTS else str(self.iteration)
        return f"{self.graph}/{iteration}"


class Label(NamedTuple):
    """An operator or parameter as files and rows call it, made once for all its values."""

    id: int
    prefix: str
    """`{op_type}.{op_name}`"""
    head: str
    """The first two fields of a row: op type and full name."""
    name: str
    """The full name."""


class Kind(NamedTuple):
    """The original data type and the shape of a value, and how its file has the elements."""

    dtype: str
    shape: tuple[int, ...]
    format: str = FORMAT


class Moment(NamedTuple):
    """When and where in a step a value was seen."""

    task: int
    stream: int
    time_us: int
    io: str
    slot: int


class Sighting(NamedTuple):
    """A value as it passes: where it goes, whose it is, and when."""

    place: Place
    label: Label
    moment: Moment


class Subject(NamedTuple):
    """One value."""

    label: Label
    moment: Moment
    kind: Kind

    @property
    def file_name(self) -> str:
        """The name of its file, which may be too long for the file system."""
        task, stream, time_us, io, slot = self.moment
        return (
            f"{self.label.prefix}.{task}.{stream}.{time_us}.{io}.{slot}"
            f".{self.kind.format}.{self.kind.dtype}.npy"
        )

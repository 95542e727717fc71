"""What a file or a row is about, and what it is called."""

from __future__ import annotations

from typing import NamedTuple

PARAMETER = "Parameter"
FORMAT = "DefaultFormat"


class Place(NamedTuple):
    """A directory of the dump: `{graph}/{iteration}`."""

    graph: int
    iteration: int


class Label(NamedTuple):
    """An operator or parameter as files and rows call it, made once for all its values."""

    prefix: str
    """`{op_type}.{op_name}`"""
    head: str
    """The first two fields of a row: op type and full name."""
    name: str
    """The full name."""


class Subject(NamedTuple):
    """One value."""

    label: Label
    task: int
    stream: int
    time_us: int
    io: str
    slot: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def file_name(self) -> str:
        """The name of its file, which may be too long for the file system."""
        return (
            f"{self.label.prefix}.{self.task}.{self.stream}.{self.time_us}"
            f".{self.io}.{self.slot}.{FORMAT}.{self.dtype}.npy"
        )

"""The form of answers about the user's files; see `opscope.views.answers`."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from opscope.views.answers import Count, Number


class SourceFile(TypedDict):
    """A file of the user's that operators came from."""

    file: str
    name: str
    nodes: int
    lines: int
    """The number of its lines that have operators."""
    nan: Count
    inf: Count
    hits: int
    worst: int | None
    """The line to look at: of the first hit, or with the largest number."""


class SourceFiles(TypedDict):
    """The files, in the order in which they were first seen."""

    step: int | None
    files: Sequence[SourceFile]


class LineMark(TypedDict):
    """The marks beside a line of source."""

    line: int
    nodes: int
    forward: int
    backward: int
    other: int
    ops: Sequence[str]
    min: Number | None
    max: Number | None
    mean_abs: Number | None
    nan: Count
    inf: Count
    backward_max: Number | None
    """The largest magnitude among gradients that the line's backward computes."""
    backward_bad: Count
    """The number of elements of these that are not finite; `nan` and `inf` count them too."""
    hits: int
    first_node: int


class SourceText(TypedDict):
    """A file with what its lines computed in a step."""

    file: str
    step: int | None
    text: Sequence[str]
    """Empty where the run has no copy of it."""
    marks: Sequence[LineMark]


class LineTrends(TypedDict):
    """The values that the lines of a file computed over steps; one list for each of `lines`."""

    file: str
    steps: Sequence[int]
    lines: Sequence[int]
    values: Sequence[Sequence[Number | None]]
    """The largest |x| of the line's outputs."""
    bad: Sequence[Sequence[int]]
    """1 where a value is not finite."""

"""Values that hold NaN or Inf: what is the matter with them, and where they were born."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from opscope.events import Node, Outside

Place = tuple[int, int]
"""The index of a call and the slot of one of its outputs."""
FROM_RANKS = Outside("rank", "another rank")
FROM_STORAGE = Outside("storage", "that was loaded or copied")
FROM_SCRIPT = Outside("number", "")
"""A number that is assigned to an element, such as `x[3] = math.nan`."""
LASTING = ("parameter", "buffer", "state")
"""The kinds of sources that stay bad from step to step."""
UNSEEN = "operator"
"""The kind of source that is an operator without statistics."""


class BadCause(enum.IntEnum):
    """The reason why a value holds NaN or Inf."""

    ON_PURPOSE = 1
    """Its infinities were written by intention, or come of such."""
    UNWRITTEN = 2
    """It is memory that was not fully written yet."""
    FAULT = 3


class Bad(NamedTuple):
    """The numbers of elements of a value that are NaN, infinite and zero."""

    count: int  # type: ignore[assignment]  # more useful here than tuple.count
    nan: int
    posinf: int
    neginf: int
    zero: int

    @property
    def finite(self) -> int:
        """The number of elements that are neither NaN nor infinite."""
        return self.count - self.nan - self.posinf - self.neginf

    @property
    def text(self) -> str:
        """Such as "3 NaN, 1 -Inf of 24"."""
        parts = ((self.nan, "NaN"), (self.posinf, "+Inf"), (self.neginf, "-Inf"))
        if not self.count:
            return "NaN or Inf"
        return f"{', '.join(f'{n} {what}' for n, what in parts if n)} of {self.count}"


class Birth(NamedTuple):
    """The first appearance of NaN or Inf: made by a node, or read by it from outside."""

    node: Node
    call: int
    slot: int
    bad: Bad
    entered: Outside | None = None
    """The source it came in with, if no operator of this step made it; `slot` is then an input."""
    of: BadCause | None = None
    """For a NaN: that it comes of infinities on purpose, or of memory nobody wrote to."""

    @property
    def sentence(self) -> str:
        """A short sentence on what happened."""
        came = self.entered
        if came is None:
            return f"{self.node.op_type} turns sound inputs into {self.bad.text}"
        if came == FROM_SCRIPT:
            return f"the script writes a number of its own: {self.bad.text}"
        if came == FROM_RANKS:
            return f"{self.bad.text} came from another rank"
        return f"{self.bad.text} came in with the {came.kind} {came.name}".rstrip()


def bad_of(record: np.void) -> Bad:
    """Return the counts of one row."""
    return Bad(*(int(record[name]) for name in ("count", "nan", "posinf", "neginf", "zero")))


def when(birth: Birth) -> int:
    """Return the call of a birth, by which births are sorted."""
    return birth.call

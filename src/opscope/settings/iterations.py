"""Sets of steps: "0|5-8|100-120" or "all"."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from itertools import product

from opscope.settings.checks import InvalidError, kind

MAX_STEP = 2**63 - 1
_FORM = 'write step numbers and ranges with "|" between them, such as "0|5-8|100-120", or "all"'
_PART = re.compile(r"(?P<first>[0-9]*)\s*(?P<dash>-?)\s*(?P<last>[0-9]*)", re.ASCII)


@dataclass(frozen=True)
class Iterations:
    """A set of step numbers. `ranges` are inclusive, sorted and apart from each other."""

    text: str = field(compare=False)
    ranges: tuple[tuple[int, int], ...]
    all: bool = False

    @classmethod
    def parse(cls, text: object) -> Iterations:
        """Read "0|5-8|100-120" or "all"; blanks are allowed around numbers and signs."""
        if not isinstance(text, str):
            raise InvalidError(f'must be a string such as "0|5-8" or "all", not {kind(text)}')
        if text.strip().lower() == "all":
            return cls(text, (), all=True)
        if not text.strip():
            raise InvalidError(f"is empty; {_FORM}")
        return cls(text, _merge([_range(part) for part in _parts(text)]))

    def contains(self, step: int) -> bool:
        """Tell whether this step is one of them."""
        if self.all:
            return step >= 0
        place = bisect.bisect_right(self.ranges, (step, MAX_STEP)) - 1
        return place >= 0 and self.ranges[place][1] >= step

    def __contains__(self, step: int) -> bool:
        return self.contains(step)

    @property
    def last(self) -> int | None:
        """The largest step, or None when there is no end."""
        return None if self.all else self.ranges[-1][1]

    def meets(self, other: Iterations, shift: int, every: int) -> bool:
        """Tell whether a multiple of `every` is one of them and, `shift` higher, one of `other`."""
        pairs = product(self._spans, other._spans)
        shared = ((max(a, c - shift, 0), min(b, d - shift)) for (a, b), (c, d) in pairs)
        return any(-(-low // every) * every <= high for low, high in shared)

    @property
    def _spans(self) -> tuple[tuple[int, int], ...]:
        return ((0, MAX_STEP),) if self.all else self.ranges

    def __str__(self) -> str:
        return self.text


def _parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split("|")]
    for place, part in enumerate(parts, 1):
        if not part:
            raise InvalidError(f'part {place} of {len(parts)} is empty; remove the extra "|"')
        if part.lower() == "all":
            raise InvalidError('"all" stands alone, without "|"')
    return parts


def _range(part: str) -> tuple[int, int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise InvalidError(f'"{part}" is not understood; {_FORM}')
    first, dash, last = match.group("first", "dash", "last")
    if not first or (dash and not last) or (last and not dash):
        raise InvalidError(f'"{part}" is not a step or a range; {_FORM}')
    low, high = _number(first), _number(last or first)
    if low > high:
        raise InvalidError(f'"{part}" counts down; write "{high}-{low}"')
    return low, high


def _number(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(MAX_STEP)) or int(significant) > MAX_STEP:
        raise InvalidError(f'"{digits}" is too large; the largest step number is {MAX_STEP}')
    return int(significant)


def _merge(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


ALL_STEPS = Iterations.parse("all")

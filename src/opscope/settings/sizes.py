"""Amounts of memory and disk as people write them: "2GiB", "500MB", "1048576"."""

from __future__ import annotations

import re

from opscope.settings.checks import InvalidError, kind

UNITS = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("kmgt", 1)
    for suffix, base in (("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"(?P<number>[0-9]{1,19}(\.[0-9]{1,9})?)\s*(?P<unit>[a-z]*)", re.ASCII)
_FORM = 'write a size such as "2GiB", "500MB" or a number of bytes'


def parse_size(value: object) -> int:
    """The number of bytes, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidError(f"{_FORM}, not {kind(value)}")
    size = value if isinstance(value, int) else _from_text(value)
    if size < 1:
        raise InvalidError(f"must be at least one byte; {_FORM}")
    return size


def _from_text(text: str) -> int:
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match["unit"] not in UNITS:
        raise InvalidError(
            f"is not understood; {_FORM}; units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
        )
    from fractions import Fraction  # late, as most runs have no size to read

    return int(Fraction(match["number"]) * UNITS[match["unit"]])

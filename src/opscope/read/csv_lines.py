"""Lines of CSV files that may be damaged, and the numbers in their fields."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from opscope.regular import regular_lines, why

_DIGITS = 20


class CsvLines(NamedTuple):
    """The lines that can be read, how many cannot, and why the whole file cannot."""

    lines: list[list[str]]
    damaged: int = 0
    trouble: str = ""


def read_csv(path: Path) -> CsvLines | None:
    """The lines of a file; None if there is none."""
    lines: list[list[str]] = []
    damaged = 0
    reader = csv.reader(line.decode("utf-8", "replace") for line in regular_lines(path))
    while True:
        try:
            lines.append(next(reader))
        except StopIteration:
            return CsvLines(lines, damaged)
        except csv.Error:
            damaged += 1
        except FileNotFoundError:
            return None
        except OSError as error:
            return CsvLines(lines, damaged, why(error))


def count_in(text: str, below: int) -> int | None:
    """The whole number that text is, None if it is none from 0 on and below `below`."""
    if not text.isdecimal() or len(text) > _DIGITS or int(text) >= below:
        return None
    return int(text)

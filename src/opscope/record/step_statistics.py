"""A summary of a step's statistics, if they are computed anyway."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opscope.rows import Rows
from opscope.stats.record import bad_among, taken


@dataclass
class StepStatistics:
    """The values of a step so far."""

    values: int = 0
    not_finite: int = 0
    """Values with elements that are not finite."""
    largest: float = 0.0
    """The largest |x| of finite elements; of values that also hold infinities, unknown."""
    first: str = ""
    """The first operator with a value that is not finite."""

    def add(self, rows: Rows) -> None:
        """Take in rows; about 15 µs for a thousand of them."""
        records = rows.records
        self.values += len(records)
        if rows.has_bad:
            records = self._without_infinities(rows)
        if len(records):  # fmax and fmin pass over what is no number
            highest, lowest = np.fmax.reduce(records["max"]), np.fmin.reduce(records["min"])
            self.largest = float(np.fmax.reduce((self.largest, highest, -lowest)))

    def _without_infinities(self, rows: Rows) -> NDArray[np.void]:
        """Count the values that are not finite; return the rows whose ends are."""
        records = rows.records
        bad = bad_among(records)
        self.not_finite += int(bad.sum())
        self.first = self.first or rows.nodes[int(records["node"][bad.argmax()])].name
        return taken(records, (records["posinf"] | records["neginf"]) == 0)

    def to_json(self) -> str:
        """As the facts of a step have it."""
        found = f'{{"values":{self.values},"largest":{json.dumps(self.largest)}'
        if self.not_finite:
            found += f',"not_finite":{self.not_finite},"first":{json.dumps(self.first)}'
        return found + "}"

"""A summary of a step's statistics, if they are computed anyway."""

from __future__ import annotations

import json
from dataclasses import dataclass

from opscope.rows import Rows
from opscope.stats.record import bad_among


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
        """Take in rows."""
        records, found = rows.records, rows.glance
        self.values += len(records)
        self.largest = max(self.largest, found.largest)
        if found.bad:
            bad = bad_among(records)
            self.not_finite += int(bad.sum())
            self.first = self.first or rows.nodes[int(records["node"][bad.argmax()])].name

    def to_json(self) -> str:
        """As the facts of a step have it."""
        found = f'{{"values":{self.values},"largest":{json.dumps(self.largest)}'
        if self.not_finite:
            found += f',"not_finite":{self.not_finite},"first":{json.dumps(self.first)}'
        return found + "}"

"""The rows of one step, looked up by call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.judge.origin.birth import Bad, bad_of
from opscope.judge.origin.walking import feeding
from opscope.stats.record import INPUT, OUTPUT, joined

Records = NDArray[np.void]


class StepRows:
    """All rows of a step so far."""

    def __init__(self) -> None:
        self._parts: list[Records] = []

    def clear(self) -> None:
        """Forget them: a new step begins."""
        self._parts.clear()

    def add(self, records: Records) -> None:
        """Take in more."""
        self._parts.append(records)

    def all(self) -> Records:
        """Return them all."""
        return joined(self._parts)

    def find(self, calls: Calls, call: int, side: int, slot: int) -> np.void | None:
        """Return the row of a value, if there is one; of an input, that of its source."""
        for part in reversed(self._parts):
            found = np.flatnonzero(
                (part["call"] == call) & (part["io"] == side) & (part["slot"] == slot)
            )
            if len(found):
                record: np.void = part[found[-1]]
                return record
        if side == INPUT:
            places = feeding(calls, call)
            place = places[slot] if slot < len(places) else None
            if place is not None:
                return self.find(calls, place[0], OUTPUT, place[1])
        return None


def bad_by_call(records: Records) -> Iterator[tuple[int, dict[int, Bad], dict[int, Bad]]]:
    """Yield the calls that some rows belong to, in order, each with its inputs and outputs."""
    order = np.argsort(records["call"], kind="stable")
    current: int | None = None
    inputs: dict[int, Bad] = {}
    outputs: dict[int, Bad] = {}
    for record in records[order]:
        call = int(record["call"])
        if call != current:
            if current is not None:
                yield current, inputs, outputs
            current, inputs, outputs = call, {}, {}
        side = inputs if record["io"] == INPUT else outputs
        side[int(record["slot"])] = bad_of(record)
    if current is not None:
        yield current, inputs, outputs

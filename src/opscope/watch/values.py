"""Watchpoints on single values: the rows of a step, or of a part of it, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.events import Node
from opscope.stats.record import has_bad, joined, taken
from opscope.watch.catalogue import TRAINING, WEIGHT
from opscope.watch.compared import Compared
from opscope.watch.evaluate import Place, hits_of, io_of, outcome_of
from opscope.watch.hits import Hit
from opscope.watch.lasting import needed_steps
from opscope.watch.numbers import Numbers
from opscope.watch.selection import base_type
from opscope.watch.table import Table
from opscope.watch.watchpoint import Watchpoint

Records = NDArray[np.void]


class ValueChecks:
    """Checks rows, and keeps what parameters looked like when a step first used them."""

    def __init__(self, table: Table, compared: Compared, node_of: Callable[[int], Node]) -> None:
        self._table = table
        self._compared = compared
        self._node_of = node_of
        self._uses: list[tuple[NDArray[np.int32], Records]] = []
        self._in_a_row: dict[tuple[int, int, int], int] = {}

    def check(
        self, watchpoints: Sequence[Watchpoint], records: Records, rank: int
    ) -> Iterator[Hit]:
        """The hits among some rows of a step."""
        if not len(records):
            return
        bad = has_bad(records)
        first_step = int(records["step"][0]) == 0
        rows, numbers = self._first_uses(records)
        for watchpoint in watchpoints:
            condition = watchpoint.condition
            if condition.target == TRAINING or condition.abbr == "OO":
                continue
            if (condition.nonfinite and not bad) or (condition.first_step_only and not first_step):
                continue
            if watchpoint.cls == WEIGHT:
                chosen = self._table.weights(watchpoint, numbers)
                yield from self._check(watchpoint, records, rank, rows[chosen], numbers[chosen])
            else:
                outputs = self._table.outputs(watchpoint, records)
                yield from self._check(watchpoint, records, rank, outputs)

    def take_uses(self) -> tuple[NDArray[np.int32], Records] | None:
        """The parameters that the step used, and the rows of their first uses."""
        uses, self._uses = self._uses, []
        if not uses:
            return None
        if len(uses) == 1:
            return uses[0]
        return np.concatenate([n for n, _ in uses]), joined([r for _, r in uses])

    def _first_uses(self, records: Records) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """The rows of parameters that were not seen before in this step."""
        rows, numbers = self._table.parameter_rows(records)
        for before, _ in self._uses:
            fresh = np.isin(numbers, before, invert=True)
            rows, numbers = rows[fresh], numbers[fresh]
        if len(numbers):
            self._uses.append((numbers, taken(records, rows)))
        return rows, numbers

    def _check(
        self,
        watchpoint: Watchpoint,
        records: Records,
        rank: int,
        rows: NDArray[np.intp],
        numbers: NDArray[np.int32] | None = None,
    ) -> Iterator[Hit]:
        for group in self._groups(watchpoint, records, rows):
            chosen = records[group]
            names = [self._table.parameters[n] for n in numbers] if numbers is not None else ()
            more = self._compared.numbers(watchpoint, chosen, names)
            columns = Numbers.of_records(chosen, **more)
            outcome = outcome_of(watchpoint, columns, self._node_of(int(chosen["node"][0])))
            if not outcome.hits.any() and needed_steps(watchpoint) == 1:
                continue
            places = _Places(chosen, rank, names, self._node_of)
            found = list(hits_of(watchpoint, outcome, chosen, places))
            yield from self._enough_in_a_row(watchpoint, chosen, found)

    def _groups(
        self, watchpoint: Watchpoint, records: Records, rows: NDArray[np.intp]
    ) -> Iterator[NDArray[np.intp]]:
        """Rows that one check applies to."""
        if not len(rows):
            return
        if watchpoint.condition.check is not None:
            yield rows
            return
        by_type: dict[str, list[int]] = {}
        for row in rows.tolist():
            node = self._node_of(int(records["node"][row]))
            by_type.setdefault(base_type(node), []).append(row)
        for group in by_type.values():
            yield np.array(group, np.intp)

    def _enough_in_a_row(
        self, watchpoint: Watchpoint, records: Records, hits: list[Hit]
    ) -> Iterator[Hit]:
        """Of conditions that must hold for some steps, those that have."""
        needed = needed_steps(watchpoint)
        if needed <= 1:
            yield from hits
            return
        now = {(h.node.id, h.slot): h for h in hits if h.node is not None}
        places = zip(records["node"].tolist(), records["slot"].tolist(), strict=True)
        for node, slot in dict.fromkeys(places):  # a step counts once, however many passes it has
            key = watchpoint.id, node, slot
            if (node, slot) not in now:
                self._in_a_row.pop(key, None)
                continue
            self._in_a_row[key] = self._in_a_row.get(key, 0) + 1
            if self._in_a_row[key] >= needed:
                yield now[node, slot]


class _Places(Mapping[int, Place]):
    """Where the rows of a check are, made only for those that hit."""

    def __init__(
        self, records: Records, rank: int, names: Sequence[str], node_of: Callable[[int], Node]
    ) -> None:
        self._records = records
        self._rank = rank
        self._names = names
        self._node_of = node_of

    def __getitem__(self, index: int) -> Place:
        record = self._records[index]
        return Place(
            int(record["step"]),
            self._rank,
            self._node_of(int(record["node"])),
            io_of(record),
            int(record["slot"]),
            int(record["call"]),
            self._names[index] if self._names else "",
        )

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._records)))

    def __len__(self) -> int:
        return len(self._records)

"""OO: where NaN and Inf began, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import Loss, Node, Phase
from opscope.judge.findings import Findings
from opscope.judge.hits import Hit
from opscope.judge.origin.birth import Birth, when
from opscope.judge.origin.soundness import Soundness
from opscope.judge.table import Table
from opscope.judge.value_hits import birth_hit
from opscope.judge.watchpoint import Watchpoint

Records = NDArray[np.void]
_BIRTHS = 20
"""So many operators at fault are hits of a watchpoint in one step."""


class Overflows:
    """Follows what is not finite, and makes hits of where it began."""

    def __init__(
        self, soundness: Soundness, table: Table, findings: Findings | None = None
    ) -> None:
        self.soundness = soundness
        self.on_skipped: Callable[[int], None] = lambda step: None
        """Called with a step whose update a gradient scaler withheld."""
        self._table = table
        self._findings = findings
        self._aside: list[Birth] = []
        """Faults of the step that training has nothing to do with so far."""
        self._hits: dict[int, int] = {}
        """By watchpoint: how many hits it has in the step."""

    def check(
        self,
        watchpoints: Sequence[Watchpoint],
        step: int,
        rank: int,
        calls: Calls,
        records: Records,
        losses: Sequence[Loss],
        skipped: bool,
    ) -> Iterator[Hit]:
        """Find the hits among more rows of the step."""
        births = self._births(calls, records, losses)
        if skipped:
            births = self._without_scaled(step, births)
        for watchpoint in _of_overflow(watchpoints):
            if self._findings is not None:
                self._findings.count(watchpoint, len(records))
            chosen = [birth for birth in births if self._is_selected(watchpoint, birth.node)]
            before = self._hits.get(watchpoint.id, 0)
            self._hits[watchpoint.id] = before + len(chosen)
            for birth in chosen[: max(0, _BIRTHS - before)]:
                yield birth_hit(watchpoint, birth, step, rank)

    def end_step(self) -> None:
        """The step is over."""
        self.soundness.begin()
        self._aside = []
        self._hits.clear()

    def counts(self, watchpoints: Sequence[Watchpoint], birth: Birth) -> bool:
        """Return whether nobody asked to leave the operator of a birth alone."""
        node = birth.node
        asked = _of_overflow(watchpoints)
        muted = bool(asked) and all(w.is_muted(node) for w in asked)
        counts = self._table.is_watched(node) and birth not in self._aside
        return counts and not self._table.is_ignored(node) and not muted

    def _births(self, calls: Calls, records: Records, losses: Sequence[Loss]) -> list[Birth]:
        ends = [loss.call for loss in losses]
        births = self.soundness.follow(records, calls)
        births += self.soundness.release(ends)
        births = [*self._aside, *(b for b in births if self._table.is_watched(b.node))]
        self._aside = self.soundness.aside(births, ends)
        return sorted((birth for birth in births if birth not in self._aside), key=when)

    def _without_scaled(self, step: int, births: list[Birth]) -> list[Birth]:
        """Those births that a gradient scaler, which skips the update, has nothing to do with."""
        kept = [birth for birth in births if _is_forward(birth.node)]
        if len(kept) < len(births) or not births:
            self.on_skipped(step)
        return kept

    def _is_selected(self, watchpoint: Watchpoint, node: Node) -> bool:
        muted = watchpoint.is_muted(node) or self._table.is_ignored(node)
        return watchpoint.select.matches(node, node.gradient_of or node.parameter) and not muted


def _of_overflow(watchpoints: Sequence[Watchpoint]) -> list[Watchpoint]:
    return [watchpoint for watchpoint in watchpoints if watchpoint.condition.abbr == "OO"]


def _is_forward(node: Node) -> bool:
    """Whether a node is of the forward pass, without the scaling of a loss."""
    scales = any(frame.file.endswith("grad_scaler.py") for frame in node.stack.frames)
    return node.phase is Phase.FORWARD and not scales

"""The operators that the user wants dumped, and what of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opscope.dump.format.digest import ALGORITHMS
from opscope.events import Node, Phase, Want
from opscope.messages import say

if TYPE_CHECKING:
    from opscope.settings.dump import DumpSettings
    from opscope.settings.kernels import KernelPattern

_TRAINING = frozenset({Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER})
_MAX_NAMES = 20_000


def takes_values(settings: DumpSettings) -> bool:
    """Tell whether the tensors themselves are needed: to save them, or for their digest."""
    return settings.saves_tensors or takes_digests(settings)


def takes_digests(settings: DumpSettings) -> bool:
    """Tell whether rows have digests, so that they are made of the values and do not come ready."""
    return settings.saves_statistics and bool(ALGORITHMS.keys() & settings.statistic_category)


def measures_values(settings: DumpSettings) -> bool:
    """Tell whether rows are made of the values, rather than come ready."""
    return takes_digests(settings) or (settings.saves_statistics and settings.op_debug_mode != 0)


def saves_constants(settings: DumpSettings) -> bool:
    """Tell whether tensors from outside get files of their own; they belong to the outputs."""
    return settings.saves_tensors and settings.wants_outputs and not settings.op_debug_mode


def rows_of_parameters(settings: DumpSettings) -> bool:
    """Tell whether the rows of parameters are taken from those of the inputs that they are.

    That is cheap where inputs have rows, and else where no values are asked for: it costs a look
    at the other inputs from outside the step, and every value costs a call of Python.
    """
    if not settings.saves_statistics or measures_values(settings) or not settings.wants_outputs:
        return False
    return settings.support_device is None and (settings.wants_inputs or not takes_values(settings))


def wanted(settings: DumpSettings) -> Want:
    """Return what the settings want of an operator.

    Rows come ready where no digest is asked for. They do not tell the device, so where that
    matters the values are asked for beside them.
    """
    arguments = Want.ARGUMENTS * settings.save_kernel_args
    if settings.op_debug_mode:
        return Want.INPUT_VALUES | Want.OUTPUT_VALUES | arguments
    return _of_every_call(settings) | arguments


def _of_every_call(settings: DumpSettings) -> Want:
    rows = settings.saves_statistics and not takes_digests(settings)
    values = takes_values(settings) or settings.support_device is not None
    want = Want.NOTHING
    if settings.wants_inputs:
        want |= Want.INPUT_STATS * rows | Want.INPUT_VALUES * values
    if settings.wants_outputs:
        want |= Want.OUTPUT_STATS * rows | Want.OUTPUT_VALUES * values
        ready = rows_of_parameters(settings)
        want |= Want.OUTSIDE_STATS * (ready and not settings.wants_inputs)
        want |= Want.PARAMETERS * (values or not ready)
    if saves_constants(settings):
        want |= Want.INPUT_VALUES
    return want


class Phases:
    """The phases that are dumped: training, and what was asked for beside it."""

    def __init__(self, include: Iterable[str]) -> None:
        self._phases = _TRAINING | {Phase(phase) for phase in include}
        self._last: dict[int, tuple[Sequence[Node], list[Node]]] = {}

    def __contains__(self, phase: Phase) -> bool:
        return phase in self._phases

    def of(self, graph: int, nodes: Sequence[Node]) -> list[Node]:
        """The nodes of a graph's step that ran in one of them; steps are mostly like the last."""
        last = self._last.get(graph)
        if last is None or last[0] != nodes:
            last = nodes, [node for node in nodes if node.phase in self._phases]
            self._last[graph] = last
        return last[1]


class Kernels:
    """The user's `kernels`, and which of them ever matched; no patterns stand for everything."""

    def __init__(self, patterns: Sequence[KernelPattern] | None) -> None:
        self._patterns = patterns
        self._unmatched = dict.fromkeys(patterns or ())
        self._names: dict[str, str] = {}

    def select(self, node: Node) -> bool:
        """Tell whether this operator is wanted."""
        if self._patterns is None:
            return True
        if len(self._names) < _MAX_NAMES:
            self._names[node.name] = node.op_type
        matching = [
            pattern
            for pattern in self._patterns
            if pattern.matches(node.name, node.op_type, node.module_class)
        ]
        for pattern in matching:
            self._unmatched.pop(pattern, None)
        return bool(matching)

    def report_unmatched(self) -> None:
        """Tell the person of every pattern that matched nothing, with what may have been meant."""
        for pattern in self._unmatched:
            hint = self._hint(pattern)
            say(f'dump: "{pattern.text}" in kernels matched no operator' + (hint and f": {hint}"))

    def _hint(self, pattern: KernelPattern) -> str:
        if not self._names:
            return "no operator was captured"
        hints = (pattern.near_miss(name) for name in self._names)
        return next(filter(None, hints), "") or self._similar(pattern.text)

    def _similar(self, text: str) -> str:
        known = dict.fromkeys([*self._names, *self._names.values()])
        close = difflib.get_close_matches(text, known, n=1)
        return f'did you mean "{close[0]}"?' if close else ""

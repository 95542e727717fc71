"""The result of `opscope.open`: a run or a dump, questions to ask it, and checks of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from opscope.analysis.check import Checked, OnProgress, check
from opscope.analysis.scope import Kept
from opscope.errors import ConfigError, OpscopeError, Problem
from opscope.judge.watch_set import WatchSet, load
from opscope.judge.watchpoint import Watchpoint
from opscope.read.reader import Reader, open_recording
from opscope.settings.checks import InvalidError
from opscope.settings.iterations import Iterations


def open_for_checks(path: str | Path) -> Opened:
    """The run or dump that a path, or the name of a run, means."""
    return Opened(open_recording(path))


class Opened(Reader):
    """A run or a dump, finished or still being written, that watchpoints can be checked on."""

    def check(
        self,
        watch: str | WatchSet | Watchpoint | Sequence[Watchpoint],
        *,
        ranks: Collection[int] | None = None,
        steps: str | Collection[int] | None = None,
        include: Collection[str] = (),
        progress: OnProgress | None = None,
        kept: Mapping[int, Kept] = MappingProxyType({}),
    ) -> Checked:
        """Check watchpoints: hits in order, and what could not be checked.

        >>> checked = run.check("TO; WCL abs_mean_update_ratio_gt=1")  # doctest: +SKIP
        >>> checked.hits[0].where  # doctest: +SKIP
        'train.py:12'
        """
        wants_step = _step_filter(steps)
        there = self.steps if isinstance(steps, str) else []
        if wants_step is not None and there and not any(map(wants_step, there)):
            known = f"there are {there[0]} to {there[-1]}"
            raise OpscopeError(f"none of the steps {steps} is recorded: {known}")
        return check(
            self.recorded,
            _watch_set(watch),
            ranks=self.chosen_ranks(ranks),
            steps=wants_step,
            include=include,
            progress=progress or (lambda done, total: None),
            kept=kept,
        )


def _watch_set(watch: str | WatchSet | Watchpoint | Sequence[Watchpoint]) -> WatchSet:
    if isinstance(watch, str):
        return load(watch)
    if isinstance(watch, WatchSet):
        return watch
    return WatchSet([watch] if isinstance(watch, Watchpoint) else watch)


def _step_filter(steps: str | Collection[int] | None) -> Callable[[int], bool] | None:
    if steps is None:
        return None
    if isinstance(steps, str):
        try:
            return Iterations.parse(steps).contains
        except InvalidError as error:
            raise ConfigError([Problem("check", "steps", steps, str(error))]) from None
    chosen = frozenset(steps)
    return chosen.__contains__

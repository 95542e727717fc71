"""Steps that are over and sound, and wait to be judged together.

The judge's code is large beside that of a step of a millisecond, which has it out of the
processor's caches before it is needed again: several steps at once take half the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from opscope.events import StepRecord
from opscope.rows import Rows

_MOST = 8
_SECONDS = 0.05
"""So many steps wait, and so long: hits are told of that much later at most."""


class HeldStep(NamedTuple):
    """A step that has ended, and its rows."""

    record: StepRecord
    rows: Sequence[Rows]


class HeldSteps:
    """Keeps steps for as long as nothing about them can matter at once."""

    def __init__(self) -> None:
        self.is_allowed = False
        """False to have every step judged as it ends."""
        self._steps: list[HeldStep] = []
        self._since = 0.0

    def add(self, step: HeldStep) -> bool:
        """Keep one more; returns whether it may wait."""
        now = time.monotonic()
        if not self._steps:
            self._since = now
        self._steps.append(step)
        is_time = len(self._steps) >= _MOST or now - self._since >= _SECONDS
        return self.is_allowed and not is_time and _is_sound(step)

    def take(self) -> Sequence[HeldStep]:
        """Those that are kept, in their order, which are not any more."""
        steps, self._steps = self._steps, []
        return steps


def _is_sound(step: HeldStep) -> bool:
    """Tell whether a step is whole and all of it is finite."""
    record = step.record
    whole = record.complete and not record.skipped
    finite = all(math.isfinite(loss.value) for loss in record.losses)
    return whole and finite and not any(part.has_bad for part in step.rows)

"""Parameters as they were at the ends of the last steps, to compare them with what they are now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opscope.arrays import Array
from opscope.errors import OpscopeError
from opscope.live.controller import Controller
from opscope.live.kept import NONE, PARAMETER, KeptValues, ValueKey, as_array, total_bytes
from opscope.messages import say_once
from opscope.stats.two_tensors import Difference, difference_of_arrays

if TYPE_CHECKING:
    from opscope.events import Snapshot

AllcloseTolerance = tuple[float, float, bool]
"""rtol, atol, and whether NaN is equal to NaN."""
Changed = tuple[str, AllcloseTolerance, Difference]
"""A parameter, the tolerance it was compared with, and how far it is from what it was."""


class ParameterCopies:
    """Copies parameters where training is about to hold; the named ones at the end of every step.

    Nothing is copied while training only runs, since that would cost as much as an update.
    """

    def __init__(self, kept: KeptValues, controller: Controller) -> None:
        self._kept = kept
        self._controller = controller
        self.snapshot: Callable[[], Snapshot] | None = None
        """Takes the state of training as it is now."""
        self.ended = -1
        """The last step that has ended, and that parameters are those of."""
        self._failed = False

    def end_step(self, step: int) -> None:
        """Copy what may be asked for at the next hold, as a step has ended."""
        self.ended = step
        if self._controller.next_hold.holds_soon_after(step):
            self.take()
        elif self._kept.names_parameters:
            self._try_to_copy(named_only=True)

    def take(self) -> None:
        """Copy all while training holds, to compare them after the next step."""
        self._try_to_copy(named_only=False)

    def current(self, name: str) -> Array:
        """A parameter as it is now."""
        parameters = self._parameters()
        if name not in parameters:
            raise OpscopeError(f"there is no parameter {name}")
        return as_array(parameters[name])

    def previous(self, name: str) -> Array:
        """A parameter as it was a step before what it is now."""
        if name not in self._parameters():
            raise OpscopeError(f"there is no parameter {name}")
        key = ValueKey(self.ended - 1, name, PARAMETER, 0)
        found = self._kept.get(key)
        if found is not None:
            return found
        if self.ended < 1:
            raise OpscopeError(f"{name} of the step before: no step has ended so far")
        why = "there was no room for it" if self._kept.was_dropped(key) else "value not kept"
        raise OpscopeError(
            f"{name} at the end of step {key.step}: {why}; "
            f"to keep it at the end of every step: keep p:{name}"
        )

    def changes(self, step: int, tolerances: Sequence[AllcloseTolerance]) -> list[Changed]:
        """Return how far the kept parameters of a step are from those of the step before.

        A step uses parameters as the one before has left them.
        """
        earlier, later = step - 2, step - 1
        found = []
        for key in self._kept.present():
            if key.step != later or key.io != PARAMETER:
                continue
            now, before = self._kept.get(key), self._kept.get(key._replace(step=earlier))
            if now is not None and before is not None and now.shape == before.shape:
                found += [
                    (str(key.subject), each, difference_of_arrays(now, before, *each))
                    for each in tolerances
                ]
        return found

    def _parameters(self) -> dict[str, object]:
        return dict(self.snapshot().parameters) if self.snapshot is not None else {}

    def _try_to_copy(self, named_only: bool) -> None:
        if self._kept.mode == NONE or self._failed:
            return
        try:
            with self._controller.guard():
                self._copy(named_only)
        except Exception as error:  # noqa: BLE001 - told to the person; training must go on
            self._failed = True
            say_once(f"parameters cannot be kept: {type(error).__name__}: {error}")

    def _copy(self, named_only: bool) -> None:
        parameters = self._parameters()
        chosen = {name: t for name, t in parameters.items() if self._kept.wants_parameter(name)}
        if not named_only:
            if total_bytes(parameters.values()) <= self._kept.budget // 2:
                chosen = parameters
            else:
                say_once(
                    "the parameters are too large to keep those of the step before: "
                    "name the ones to compare, as in: opscope ctl last keep p:NAME"
                )
        self._kept.add_parameters(self.ended, chosen)

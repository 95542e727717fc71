"""The base of conditions on training as a whole, asked at the end of each step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opscope.calls import Calls
from opscope.events import IO, LossRecord, Node, Phase
from opscope.judge.hits import Hit
from opscope.stats.record import ROW_DTYPE

if TYPE_CHECKING:
    from opscope.judge.training import TrainingJudge
    from opscope.judge.watchpoint import Watchpoint

Records = NDArray[np.void]
_NAMES_SHOWN = 3


def _nothing() -> Records:
    return np.empty(0, ROW_DTYPE)


@dataclass(slots=True)
class SeenStep:
    """A step that has ended."""

    step: int
    losses: Sequence[LossRecord] = ()
    calls: Calls = field(default_factory=Calls)
    records: Callable[[], Records] = _nothing
    """All rows of the step."""
    skipped: bool = False
    """True if a gradient scaler withheld the update."""
    row: Callable[[int, int, int], np.void | None] = lambda call, side, slot: None
    """The row of a value by its call, side and slot; of an input, its source's."""
    used_losses: Callable[[], Collection[int]] = tuple
    """Returns the places of losses that are not finite and that an update comes of."""


class TrainingCheck:
    """One watchpoint on training: derive from it, and keep in it what one step does not tell."""

    needs_facts = False
    """True if it can say nothing without knowing what training does with its parameters."""
    needs_features = False
    """True if it is about features of the data, which are looked at for those that ask."""
    ignores_skipped = False
    """True if steps without an update do not count."""

    def __init__(self, watchpoint: Watchpoint, training: TrainingJudge) -> None:
        self.watchpoint = watchpoint
        self.training = training
        self.told: set[str] = set()
        """The things that need not be told of once more."""
        self.start()

    def start(self) -> None:
        """Prepare what is kept from step to step."""

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Say what is wrong, now that a step has ended."""
        raise NotImplementedError

    def rests(self, calls: Calls) -> bool:
        """Return whether it has nothing to say of steps that hang together like this one."""
        return False

    def hit_at(
        self, step: SeenStep, message: str, node: Node | None, call: int | None = None
    ) -> Hit:
        """Make a hit that is about a node."""
        return self._hit(step, message, node, call=call or 0)

    def about(
        self,
        step: SeenStep,
        names: Sequence[str],
        message: str,
        nodes: Mapping[str, Node] | None = None,
    ) -> Iterator[Hit]:
        """Make one hit about some parameters, of which each is told of once."""
        fresh = [name for name in names if name not in self.told and self._is_selected(name)]
        if not fresh:
            return
        self.told.update(fresh)
        node = (nodes or {}).get(fresh[0]) or self.training.first_use(fresh[0])
        node = node or _first_update(step.calls)
        yield self._hit(step, message.format(_listed(fresh)), node, fresh[0])

    def is_left_alone(self, node: Node) -> bool:
        """Return whether a person asked to say nothing of a node."""
        muted = self.watchpoint.is_muted(node) or self.training.table.is_ignored(node)
        return muted or not self.watchpoint.select.matches(node)

    def _is_selected(self, name: str) -> bool:
        watchpoint, node = self.watchpoint, self.training.first_use(name)
        if node is None:
            return not watchpoint.select.given()
        muted = watchpoint.is_muted(node) or name in watchpoint.mute
        selected = watchpoint.select.matches(node, name) and not muted
        return selected and not self.training.table.is_ignored(node)

    def _hit(
        self,
        step: SeenStep,
        message: str,
        node: Node | None,
        parameter: str = "",
        call: int = 0,
    ) -> Hit:
        io = IO.OUTPUT if node is not None else None
        rank = self.training.rank()
        return Hit(
            self.watchpoint, step.step, rank, message, node, io, call=call, parameter=parameter
        )


def _first_update(calls: Calls) -> Node | None:
    """The first operator of an optimizer, whose line is that of its step: where nothing reads."""
    return next((node for node in calls.nodes if node.phase is Phase.OPTIMIZER), None)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{len(names)} parameter{'s' if len(names) > 1 else ''} ({shown}{more})"

"""The subject of an operator and its phase: the forward node of a gradient, or a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from opscope.capture.operators import Operator
from opscope.capture.parameters import TensorNames
from opscope.capture.passes import Passes
from opscope.capture.thread_state import (
    AFTER_BACKWARD,
    AWAITING_FORWARD,
    BACKWARD,
    DATA,
    EVAL,
    FORWARD,
    OPTIMIZER,
    ThreadState,
)
from opscope.capture.threads import Threads
from opscope.events import Node, Output, Outside, Phase, Source

GradNode = tuple[int, str, Tensor | None]
"""The number and the name of an autograd node, and the tensor to whose gradient it adds, if any."""
AttributedTo = Node | Outside | str | tuple[str, ...] | None
"""The subject of an operator: a forward node, a parameter, or the names of several."""
UNKNOWN = Outside("outside", "")
_ACCUMULATE = 2**64 - 1
"""The sequence number of every AccumulateGrad node."""
_AFTER_FORWARD = (Phase.BACKWARD, Phase.OPTIMIZER)
_grad_enabled = torch.is_grad_enabled


class Attribution:
    """Finds out what operators are about, from autograd's numbers and the names of parameters."""

    def __init__(
        self, threads: Threads, names: TensorNames, passes: Passes, key: Callable[[Any], int]
    ) -> None:
        self._threads = threads
        self._names = names
        self._passes = passes
        self._key = key
        self.current_grad_node: Callable[[], GradNode | None] = lambda: None
        """The autograd node under way in the calling thread."""

    def origin(self, state: ThreadState) -> tuple[Node | Outside | None, tuple[int, int]]:
        """The forward node, or the parameter, whose gradient is computed, and the pass of it."""
        current = self.current_grad_node()
        now = self._passes.training
        if current is None:
            return None, (now.serial, now.number)
        number, name, leaf = current
        if number == _ACCUMULATE:
            return self._leaf(leaf), (now.serial, now.number)
        home = state.home
        if home is not None and (home is state or not state.node_of_number):
            return home.node_for(number), self._passes.of_number(home, number)
        return self._threads.node_for(number, name, state), self._passes.of_number(home, number)

    def _leaf(self, variable: Tensor | None) -> Outside:
        """The parameter a gradient is accumulated for; tensors without a name share UNKNOWN."""
        if variable is None:
            return UNKNOWN
        found = self._names.by_id.get(self._key(variable))
        if found is None and type(variable) is torch.nn.Parameter:
            found = self._names.parameter(variable)
        return found or UNKNOWN

    def subject_of(
        self, state: ThreadState, tensors: list[Tensor], sources: list[Source]
    ) -> str | tuple[str, ...] | None:
        """The parameter an optimizer's operator is about, or all of them in their order."""
        subjects = tuple(source.subject for source in sources if source.subject)
        if state.stepping is not None and not subjects:
            self._names.add_new_state(state.stepping)  # it may have made some just now
            known = (self._names.by_id.get(self._key(tensor)) for tensor in tensors)
            subjects = tuple(entry.subject for entry in known if entry is not None)
        if len(set(subjects)) > 1:
            return subjects
        return subjects[0] if subjects else None

    def phase_of(self, state: ThreadState, operator: Operator, sources: list[Source]) -> int:
        """The phase where it depends on more than the place: in and after backward, around eval."""
        if state.phase == OPTIMIZER:
            return OPTIMIZER
        if state.phase >= DATA:
            return DATA
        if state.backward_depth:
            return BACKWARD
        if state.phase == EVAL:
            if state.depth == 0 and _grad_enabled():
                state.phase = FORWARD
        elif state.phase in (AFTER_BACKWARD, AWAITING_FORWARD):
            return OPTIMIZER if not state.depth and _updates(operator, sources) else FORWARD
        return state.phase


def _updates(operator: Operator, sources: list[Source]) -> bool:
    """Tell whether an operator after backward, outside modules, works on gradients or parameters.

    With gradients on, only what writes to one of them does; all else is computed for a loss.
    """
    if _grad_enabled():
        return operator.writes and bool(sources) and _is_updated(sources[0])
    return any(_is_updated(source) for source in sources)


def _is_updated(source: Source) -> bool:
    """Tell whether a value is a parameter, a gradient, or was made of them after forward."""
    if source.subject:
        return True
    return source.__class__ is Output and source.node.phase in _AFTER_FORWARD

"""The state that capture keeps per thread: its scope, its phase, and autograd's numbering."""

from __future__ import annotations

import sys
import threading
from types import FrameType

import torch

from opscope.capture.scopes import Scope
from opscope.events import Node, Phase
from opscope.native import shared

# Small integers instead of `Phase` members: they are part of a key that is hashed per operator.
SETUP, FORWARD, BACKWARD, OPTIMIZER = (
    shared.SETUP,
    shared.FORWARD,
    shared.BACKWARD,
    shared.OPTIMIZER,
)
EVAL, DATA, EARLY_DATA = shared.EVAL, shared.DATA, shared.EARLY_DATA
AFTER_BACKWARD, AWAITING_FORWARD = shared.AFTER_BACKWARD, shared.AWAITING_FORWARD
"""AFTER_BACKWARD is the stretch between backward and the optimizer, where clipping happens;
AWAITING_FORWARD is the same where only the next differentiable operator can tell that a step has
begun; EARLY_DATA is the loading of data during setup."""
PHASES = (
    Phase.SETUP,
    Phase.FORWARD,
    Phase.BACKWARD,
    Phase.OPTIMIZER,
    Phase.EVAL,
    Phase.OPTIMIZER,
    Phase.OPTIMIZER,
    Phase.DATA,
    Phase.DATA,
)

KEPT_NUMBERS = shared.KEPT_NUMBERS
"""More numbers than these at once were not made by one operator: they were not watched."""
_FORWARD_NUMBERS = 4 * KEPT_NUMBERS
"""So many of the latest numbers are kept at least: a backward may come long after its forward."""


def _started_by_python() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in ("<module>", "_bootstrap"):
            return True
        frame = frame.f_back
    return False


class ThreadState:
    """The state of one thread."""

    __slots__ = (
        "admitted",
        "autograd",
        "backward_base",
        "backward_depth",
        "depth",
        "home",
        "ident",
        "last_number",
        "nests",
        "node_of_number",
        "number_base",
        "pass_starts",
        "phase",
        "scope",
        "stepping",
    )

    def __init__(self, root: Scope) -> None:
        self.ident = threading.get_ident()
        self.admitted = False
        """True once it has run an operator."""
        self.home: ThreadState | None = None
        """The one thread whose autograd numbers it meets in backward, if there is only one."""
        self.scope = root
        self.phase = SETUP
        self.depth = 0
        self.stepping: torch.optim.Optimizer | None = None
        self.nests = False
        """True if steps of optimizers may be under way inside each other."""
        # A thread that Python did not start belongs to the autograd engine.
        self.autograd = not _started_by_python()
        self.backward_depth = 1 if self.autograd else 0
        self.backward_base = root
        self.pass_starts: list[int] = []
        """Per pass that began in this thread: its first autograd number, its serial number and
        its number in the step."""
        self.last_number: int
        self.number_base: int
        self.node_of_number: list[Node | None]
        self.resume_numbering()

    def resume_numbering(self) -> None:
        """Start attributing autograd nodes from here; earlier ones were not watched."""
        self.last_number = torch.autograd._get_sequence_nr()
        self.number_base = self.last_number
        self.node_of_number = []

    def node_for(self, number: int) -> Node | None:
        """The forward node that made autograd node `number`, if this thread made it."""
        index = number - self.number_base
        if 0 <= index < len(self.node_of_number):
            return self.node_of_number[index]
        return None

    def forget_old_numbers(self) -> None:
        """Keep the latest numbers only, so that a long run does not grow.

        What is kept is moved, which costs as much as a small step: not in each of them.
        """
        count = len(self.node_of_number)
        if count > 2 * _FORWARD_NUMBERS:
            surplus = count - _FORWARD_NUMBERS
            del self.node_of_number[:surplus]
            self.number_base += surplus
